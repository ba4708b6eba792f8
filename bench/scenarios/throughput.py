# SPDX-License-Identifier: Apache-2.0
"""highest lossless rate one way

Beside blasts of full bare packets in the same run. --sweep: sizes 1, 2, 4, ... 1024, a million messages each, means of three runs, and
two plots, messages and Mbit a second against size; the other options change each of these. --transport: see bench/run reflector --help.
"""
import pathlib

from runner import options as opt
from runner import pair, plots
from runner.session import say

OPTIONS = (opt.numbers("size", None, 1, 16777216, "bytes of a message (45,100,1000)"),
           opt.number("messages", None, 1, 100000000000, "measure so many messages a row instead of a duration"),
           opt.flag("sweep", "many sizes, and plots"), pair.PLOT, *pair.options(pair.TRANSPORTS))


def run(bench):
    o, roce = bench.o, bench.o.transport == "roce"
    if o.plot and not o.sweep:
        o.refuse("--plot: only with --sweep is there one")
    if o.sweep and o.transport == "xdp":
        o.refuse("--sweep: with --transport xdp there is none")
    if o.sweep:
        o.messages, o.runs = o.messages or (20000 if roce else 1000000), o.runs or (1 if roce else 3)
        o.duration = o.duration or (2.0 if roce else 1.0)
    o.size = o.size or ([2 ** power for power in range(11)] if o.sweep else [45, 100, 1000])
    ends = pair.Pair(bench, flow=True)
    if not ends.is_in_guest():
        ends.guest(len(o.size) * o.runs * (20 * o.duration + (o.messages or 0) / 500))
    else:
        ends.open()
        ends.beside("throughput", lambda: measure(bench, ends))
    if not o.in_guest:
        if o.sweep:
            plots.throughput(pathlib.Path(o.plot or bench.results / "throughput.svg"), bench.json, o.transport, ends.bare)
        say(f"JSON: {bench.json}")
    return 0


def measure(bench, ends):
    o, hosts = bench.o, bench.hosts
    amount = f"{o.messages} messages" if o.messages else f"{o.duration:g} s"
    say(f"measuring {len(o.size)} sizes for {amount}, and {ends.bare}, {o.runs} times; longer after a loss")
    return ends.run("throughput", ["--role", "transmitter", "--channel", ends.channel(hosts.a, 1), "--reverse", ends.channel(hosts.a, 2),
                                   "--cpu", o.cpus[0], "--peer-cpu", o.cpus[1], "--size", ",".join(map(str, o.size)),
                                   "--duration", o.duration, *(("--messages", o.messages) if o.messages else ()), "--runs", o.runs,
                                   "--average", "mean" if o.sweep else "median", *ends.near_bare, "--network", ends.network(),
                                   "--json", bench.json, *(("--emulated", pair.EMULATED) if o.in_guest else ())],
                    ["--role", "receiver", "--channel", ends.channel(hosts.b, 1), "--reverse", ends.channel(hosts.b, 2),
                     "--cpu", o.cpus[1], *ends.far_bare])
