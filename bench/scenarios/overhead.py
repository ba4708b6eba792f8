# SPDX-License-Identifier: Apache-2.0
"""What features cost a message that has no use for them.

Pairs of ends, a transmitter and a receiver in one thread, each with other features on, take turns; the figure of a feature is the
median, with the quartiles, of the differences of its turns to those of a pair without any, of the same round. In each run all pairs
are opened anew. Needs no network and no root.

  none              nothing: what chance does
  queues            the latency monitor at its second level, as wire and stages at both ends
  wire_transmitter  at its third level, at the transmitter only
  wire_receiver     at its third level, at the receiver only
  wire              at its third level, for which a message is to pay 10 ns at most
  stages            at its last level
  file              counters files, written every 100 ms; where there is one the watch runs, too
  watch             the bottleneck watch, with the receiver's reports to the transmitter
  arrival           order=arrival
  all               the last level of the monitor, and the last three

A lone message is sent at once and awaited; eight are sent together; a stream has some 2,000 messages under way. The receiver is
polled until they are there, the transmitter once for 64 messages, in a stream as often as the receiver.

Fails if a message is lost, changed or comes twice, or a feature did not do its work: histograms without samples, a counters file that
does not have the messages, a watch without a report. What it takes is never a failure.
"""
import re
import subprocess

from runner import options as opt
from runner.session import BIND, allowed_cpus, memory_directory, say

FEATURES = ("none", "queues", "wire_transmitter", "wire_receiver", "wire", "stages", "file", "watch", "arrival", "all")
OPTIONS = (opt.words("transport", "loop,shm", ("loop", "shm", "udp"), "which of loop, shm, and udp by the loopback interface"),
           opt.words("pattern", "lone,eight,stream", ("lone", "eight", "stream"), "which of these"),
           opt.words("feature", ",".join(FEATURES), FEATURES, "which of these"),
           opt.number("rounds", 41, 1, 1000, "turns of each in a run"),
           opt.number("messages", 20000, 64, 10000000, "of a turn, a multiple of 8; of a stream ten times as many"),
           opt.number("runs", 5, 1, 100, "how often all pairs are opened"), opt.size(45, 1, 8192),
           opt.seconds("watch", 1, 1, 60000, "the interval of the watch"), opt.OPTIONS,
           opt.number("cpu", None, 0, 4095, "the CPU to run on (the one that it begins on)"), *opt.OUTPUT)


def run(bench):
    o = bench.o
    if o.messages % 8:
        o.refuse(f"--messages {o.messages}: must be a multiple of 8, such as {o.messages // 8 * 8}")
    if re.search(r"(^|&)order=", o.options):
        o.refuse(f"--options {o.options}: order is what is measured; leave it out")
    if o.cpu is not None and o.cpu not in allowed_cpus():
        o.refuse(f"--cpu {o.cpu}: nothing may run there; take one of {allowed_cpus()}")
    bench.prepare(namespaces=False)
    words = ["--cpu", o.cpu] if o.cpu is not None else []
    for name in ("transport", "pattern", "feature"):
        words += [f"--{name}", ",".join(getattr(o, name))]
    for name in ("rounds", "messages", "runs", "size", "watch", "options"):
        words += [f"--{name}", getattr(o, name)]
    # Counters files belong to memory.
    words += ["--directory", memory_directory(), "--json", bench.json]
    done = subprocess.run([*BIND, bench.programs / "overhead", *map(str, words)], stdout=subprocess.PIPE, text=True, check=False)
    table = bench.results / "overhead.txt"
    table.write_text(done.stdout, encoding="utf-8")
    print(done.stdout, end="")
    if not done.returncode:
        say(f"table: {table}, JSON: {bench.json}")
    return done.returncode
