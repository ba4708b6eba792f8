# SPDX-License-Identifier: Apache-2.0
"""rate and hop of messages on many topics

Messages of one session take turns on the topics.
"""
from runner import options as opt
from runner import pair, sweep

OPTIONS = (opt.size(), opt.number("rate", 100000, 1, 100000000, "messages a second where the hop is measured"),
           opt.numbers("topics", "1,10,100,1000,10000", 1, 16000, "numbers of topics, ascending"), *pair.options())


def run(bench):
    o = bench.o
    if o.topics != sorted(o.topics):
        o.refuse(f"--topics {','.join(map(str, o.topics))}: must ascend")
    return sweep.run(bench, f"rate and hop of {len(o.topics)} numbers of topics",
                     ["--rate", o.rate, "--topics", ",".join(map(str, o.topics))], flow=True)
