# SPDX-License-Identifier: Apache-2.0
"""cost of features for messages that do not use them

Pairs of ends, a transmitter and a receiver in one thread, each pair with other features, take turns. The figure of a feature is the median,
with quartiles, of the differences between its turns and those of a pair without features in the same round. Each run opens all pairs anew.
Needs no network and no root.

  none              no feature, repeated: noise
  queues            the latency monitor at its second level, as wire and stages at both ends
  wire_transmitter  at its third level, at the transmitter only
  wire_receiver     at its third level, at the receiver only
  wire              at its third level, which may cost at most 10 ns a message
  stages            at its last level
  file              counters files, written every 100 ms; they include the watch
  watch             the bottleneck watch, with the receiver's reports to the transmitter
  arrival           order=arrival
  all               the last level of the monitor, and the last three

A single message is sent at once and awaited; eight are sent together; a stream has some 2,000 messages outstanding. The receiver is polled
until they have arrived, the transmitter once for 64 messages, in a stream as often as the receiver.

Fails if a message is lost, changed or repeated, if counters files are not written, or if the watch reports nothing. No cost is a failure.
"""
import itertools
import os
import re

from runner import options as opt
from runner.session import Host, allowed_cpus, memory_directory, say
from runner.tables import Report, median

# By feature: its name, its allowed cost in ns, and its settings: levels of the latency monitor at both ends, and more.
OFF, QUEUES, WIRE, STAGES = range(4)
TEXTS = {"off": ("nothing on", None, {}), "none": ("nothing, repeated: noise", None, {}),
         "queues": ("latency: queues", None, {"near": QUEUES, "far": QUEUES}),
         "wire_transmitter": ("latency: wire, transmitter", None, {"near": WIRE, "far": OFF}),
         "wire_receiver": ("latency: wire, receiver", None, {"near": OFF, "far": WIRE}),
         "wire": ("latency: wire", 10, {"near": WIRE, "far": WIRE}),
         "stages": ("latency: stages", None, {"near": STAGES, "far": STAGES}),
         "file": ("counters file, and its watch", None, {"file": True}), "watch": ("watch", None, {"watch": True}),
         "arrival": ("order=arrival", None, {}),
         "all": ("all, with latency: stages", None, {"near": STAGES, "far": STAGES, "file": True, "watch": True})}
STREAM = 10  # factor for the messages of a stream's turn, as each takes less time
PATTERNS = {"lone": "a single message", "eight": "eight at a time", "stream": "a stream"}
FEATURES = tuple(TEXTS)[1:]
OPTIONS = (opt.words("transport", "loop,shm", ("loop", "shm", "udp"), "which of loop, shm, and udp over the loopback interface"),
           opt.words("pattern", "lone,eight,stream", ("lone", "eight", "stream"), "which of these"),
           opt.words("feature", ",".join(FEATURES), FEATURES, "which of these"),
           opt.number("rounds", 41, 1, 1000, "turns of each in a run"),
           opt.number("messages", 20000, 64, 10000000, "messages of a turn, a multiple of 8; a stream has ten times as many"),
           opt.number("runs", 5, 1, 100, "runs, each of which opens all pairs"), opt.size(45, 1, 8192),
           opt.seconds("watch", 1, 1, 60000, "the interval of the watch"), opt.OPTIONS,
           opt.number("cpu", None, 0, 4095, "the CPU to run on (the current one)"), *opt.OUTPUT)


def channel(o, transport, feature, at):
    """Each pair has a group that no other process uses."""
    port = 20000 + os.getpid() % 700 * 16 + at
    place = f"udp://239.192.77.1:{port}?interface=lo&" if transport == "udp" else f"{transport}://overhead:{port}?"
    order = "arrival" if feature in ("arrival", "all") else "sequence"
    return "&".join([f"{place}order={order}", *filter(None, [o.options])])


def measure(bench, directory):
    """Returns turns of all runs by transport, pattern and feature, cost of writing files by feature, and the machine."""
    o, results, writing, machine = bench.o, {}, {}, None
    # Figures of different CPUs are not comparable: stay on one, by default the current one.
    cpu = allowed_cpus()[-1] if o.cpu is None else o.cpu
    for at, transport in itertools.product(range(o.runs), o.transport):
        say(f"run {at + 1} of {o.runs}, {transport}")
        process = bench.start(Host("", "", ""), "pairs", program="pairs", cpu=cpu)
        for number, feature in enumerate(["off", *o.feature]):
            on = {**TEXTS[feature][2], **({"watch": o.watch} if "watch" in TEXTS[feature][2] else {})}
            process.ask("pair", name=feature, channel=channel(o, transport, feature, number), size=o.size, directory=directory, **on)
        for pattern in o.pattern:
            turn = {"pattern": pattern, "messages": o.messages * (STREAM if pattern == "stream" else 1)}
            process.ask("measure", **turn)
            found = process.ask("measure", rounds=o.rounds, **turn)
            for feature, figures in found.items():
                figures["more"] = [ns - beside for ns, beside in zip(figures["ns"], found["off"]["ns"])]
                result = results.setdefault((transport, pattern, feature), {"ns": [], "more": [], "sent": 0, "received": 0})
                for name in result:
                    result[name] += figures[name]
        checked = process.ask("check")
        machine = checked.pop("machine")
        bench.processes.finish(process)
        for feature, figures in checked.items():
            if figures:
                writing.setdefault(feature, []).append(figures)
    return results, {feature: sum(one["ns"] for one in of) / sum(one["writes"] for one in of) / 1e3 for feature, of in writing.items()}, machine


def more_ns(result):
    more = sorted(result["more"])
    return {"median": median(more), "low_quartile": more[len(more) // 4], "high_quartile": more[len(more) * 3 // 4]}


def cell(feature, result):
    if feature == "off":
        return f"{median(result['ns']):.1f}"
    more = more_ns(result)
    return f"{more['median']:+.1f} ({more['low_quartile']:+.1f} to {more['high_quartile']:+.1f})"


def run(bench):
    o = bench.o
    if o.messages % 8:
        o.refuse(f"--messages {o.messages}: must be a multiple of 8, such as {o.messages // 8 * 8}")
    if re.search(r"(^|&)order=", o.options):
        o.refuse(f"--options {o.options}: order is set by the benchmark; omit it")
    if o.cpu is not None and o.cpu not in allowed_cpus():
        o.refuse(f"--cpu {o.cpu}: this CPU is not allowed; use one of {allowed_cpus()}")
    bench.prepare(namespaces=False)
    # Counters files belong in memory.
    results, writing, machine = measure(bench, memory_directory())
    report, line = Report(bench), "{:<28}" + "  {:<26}" * len(o.pattern) + "  {}"
    report.head(machine, f"ns of a message of {o.size} B, sent and received in one thread, and what a feature at both adds:",
                f"the median, and in brackets the quartiles, of the differences of {o.rounds * o.runs} turns of {o.messages} messages",
                *([f"options of the channels: {o.options}"] if o.options else []))
    chosen = [feature for feature in TEXTS if feature == "off" or feature in o.feature]
    patterns = [pattern for pattern in PATTERNS if pattern in o.pattern]
    for transport in o.transport:
        report.print(line.format(transport, *(PATTERNS[pattern] for pattern in patterns), "bound"))
        for feature in chosen:
            report.print(line.format(TEXTS[feature][0], *(cell(feature, results[transport, pattern, feature]) for pattern in patterns),
                                     TEXTS[feature][1] or "-"))
        report.print()
    for feature in chosen:
        if feature in writing:
            report.print(f"{TEXTS[feature][0]}: a counters file is written in {writing[feature]:.1f} us, ten times a second")
    report.write_json(machine, [
        {"transport": transport, "pattern": pattern, "feature": feature, "size_bytes": o.size, "runs": o.runs, "rounds": o.rounds,
         "sent": result["sent"], "received": result["received"], "lost": result["sent"] - result["received"],
         "ns_per_message": median(result["ns"]), "more_ns": more_ns(result), "bound_ns": TEXTS[feature][1], "file_write_us": writing.get(feature)}
        for (transport, pattern, feature), result in results.items()])
    return report.finish()
