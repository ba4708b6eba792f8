# SPDX-License-Identifier: Apache-2.0
"""hop and messages per packet, from one message a second to flat out

With a plot.
"""
from runner import options as opt
from runner import pair, plots, sweep

OPTIONS = (opt.size(), opt.numbers("rate", "1,10,100,1000,10000,100000,300000,1000000,3000000,0", 0, 100000000,
                                   "messages a second, 0: flat out"), pair.PLOT, *pair.options())


def run(bench):
    o = bench.o
    sweep.run(bench, f"{len(o.rate)} rates", ["--rate", ",".join(map(str, o.rate))])
    plots.batching(o.plot or bench.results / "batching.svg", bench.json, o.transport, o.size)
    return 0
