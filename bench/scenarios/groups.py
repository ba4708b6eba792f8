# SPDX-License-Identifier: Apache-2.0
"""the hop on one group while many others are loaded

The others are loaded by another pair of processes.
"""
from runner import options as opt
from runner import pair, sweep

OPTIONS = (opt.size(), opt.number("rate", 100000, 1, 100000000, "messages a second on the group that is measured"),
           opt.numbers("groups", "1,16,64,256,512,1000", 0, 4000, "other groups"),
           opt.number("load", 1000, 1, 100000, "messages a second on them, all together"), *pair.options())


def run(bench):
    o = bench.o
    return sweep.run(bench, f"{len(o.groups)} numbers of groups",
                     ["--rate", o.rate, "--groups", ",".join(map(str, o.groups)), "--load", o.load])
