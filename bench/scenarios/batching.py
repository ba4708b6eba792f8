# SPDX-License-Identifier: Apache-2.0
"""hop and messages per packet, from one message a second to flat out

With a plot.
"""
from runner import hops
from runner import options as opt
from runner import pair, plots, sweep
from runner.session import say
from runner.tables import number

OPTIONS = (opt.size(), opt.numbers("rate", "1,10,100,1000,10000,100000,300000,1000000,3000000,0", 0, 100000000,
                                   "messages a second, 0: flat out"), pair.PLOT, *pair.options())


def run(bench):
    o, ends = bench.o, pair.Pair(bench)
    ends.is_in_guest()
    ends.open()
    say(f"measuring {len(o.rate)} rates for {o.duration:g} s each, and bare UDP for half as long, {o.runs} times")
    ends.start()
    runs = [[] for _ in o.rate]
    for _ in range(o.runs):
        for of, rate in zip(runs, o.rate):
            say(f"{rate} msg/s" if rate else "flat out")
            of.append(hops.Hop(ends, o.size, rate))
    rows = []
    for of in runs:
        hop = hops.fields(of)
        rows.append(({}, (number(hop["rate_msgs_per_s"]), number(hop["rate_reached_msgs_per_s"])), hop))
    status = sweep.report(bench, ends, f"messages of {o.size} B at rates to flat out (-), where they are due when sent; bare, they share "
                          "datagrams beyond 100000 msg/s", (("", "rate"), ("rate", "reached")), rows, "")
    plots.batching(o.plot or bench.results / "batching.svg", bench.json, o.transport, o.size)
    return status
