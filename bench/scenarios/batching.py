# SPDX-License-Identifier: Apache-2.0
"""hop and messages per packet, from one message a second to flat out

With a plot.
"""
from runner import hops
from runner import options as opt
from runner import pair, plots

OPTIONS = (opt.size(), opt.numbers("rate", "1,10,100,1000,10000,100000,300000,1000000,3000000,0", 0, 100000000,
                                   "messages a second, 0: flat out"), pair.PLOT, *pair.options())
COLUMNS = (("", "rate", "rate_msgs_per_s", 0), ("rate", "reached", "rate_reached_msgs_per_s", 0))


def run(bench):
    o, ends = bench.o, pair.Pair(bench)
    ends.prepare()
    ends.start()
    found = bench.turns([(rate,) for rate in o.rate], lambda _bench, _run, rate: hops.Hop(ends, o.size, rate),
                        f"{len(o.rate)} rates for {o.duration:g} s each, and bare UDP for half as long")
    status = hops.sweep(ends, found, lambda rate, runs: ({}, runs), COLUMNS, f"messages of {o.size} B at rates up to flat out (-), "
                        "where they are due when sent; bare messages share datagrams above 100000 msg/s")
    plots.batching(o.plot or bench.results / "batching.svg", bench.json, o.transport, o.size)
    return status
