# SPDX-License-Identifier: Apache-2.0
"""rate and hop of messages on many topics

Messages of one session take turns on the topics.
"""
from runner import hops
from runner import options as opt
from runner import pair, rates
from runner.session import say

BATCH = 256  # messages sent between two polls
COLUMNS = (("", "topics", "topics", None), ("", "msg/s", "throughput.msgs_per_s", 0), ("", "Gbit/s", "throughput.payload_gbit_per_s", 3),
           ("", "lost", "throughput.lost", 0), ("", "tries", "throughput.tries", 0), ("raw", "Gbit/s", "throughput.raw_gbit_per_s", 3),
           ("", "ratio", "throughput.ratio_to_raw", 2))
FIELDS = ("msgs_per_s", "payload_gbit_per_s", "lost", "tries", "raw_gbit_per_s", "ratio_to_raw")
OPTIONS = (opt.size(), opt.number("rate", 100000, 1, 100000000, "messages a second for the hop"),
           opt.numbers("topics", "1,10,100,1000,10000", 1, 16000, "numbers of topics, ascending"), *pair.options())


def run(bench):
    o, found = bench.o, {}
    if o.topics != sorted(o.topics):
        o.refuse(f"--topics {','.join(map(str, o.topics))}: must ascend")
    ends = pair.Pair(bench, flow=True)

    ends.prepare()
    say(f"measuring rate and hop of {len(o.topics)} numbers of topics for {o.duration:g} s each, and bare UDP, {o.runs} times")
    ends.start()
    # A topic cannot be closed: all runs of a row precede rows with more topics, and hops have a session of their own.
    for topics in o.topics:
        say(f"{topics} topics, rate")
        rate = rates.fields([rates.measure(ends, o.size, topics=topics, batch=BATCH) for _ in range(o.runs)])
        rate["lost"] += rate["disordered"]
        found[topics] = {name: rate[name] for name in FIELDS}
    bench.processes.finish(ends.near, ends.far)
    ends.start()
    each = {(topics,): [hops.Hop(ends, o.size, o.rate, topics=topics) for _ in range(o.runs)] for topics in o.topics}
    return hops.sweep(ends, each, lambda topics, runs: ({"topics": topics, "throughput": found[topics]}, runs), COLUMNS,
                      f"messages of {o.size} B flat out without loss, then {o.rate} msg/s")
