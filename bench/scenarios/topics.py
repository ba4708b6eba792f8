# SPDX-License-Identifier: Apache-2.0
"""rate and hop of messages on many topics

Messages of one session take turns on the topics.
"""
from runner import hops
from runner import options as opt
from runner import pair, rates, sweep
from runner.session import say
from runner.tables import number

BATCH = 256  # messages sent between two polls
FIELDS = ("msgs_per_s", "payload_gbit_per_s", "lost", "tries", "raw_gbit_per_s", "ratio_to_raw")
OPTIONS = (opt.size(), opt.number("rate", 100000, 1, 100000000, "messages a second where the hop is measured"),
           opt.numbers("topics", "1,10,100,1000,10000", 1, 16000, "numbers of topics, ascending"), *pair.options())


def run(bench):
    o = bench.o
    if o.topics != sorted(o.topics):
        o.refuse(f"--topics {','.join(map(str, o.topics))}: must ascend")
    ends = pair.Pair(bench, flow=True)
    ends.is_in_guest()
    ends.open()
    say(f"measuring rate and hop of {len(o.topics)} numbers of topics for {o.duration:g} s each, and bare UDP, {o.runs} times")
    ends.start()
    found, rows = [], []
    # A topic cannot be closed: all runs of a row come before a row with more, and the hops have a session of their own.
    for topics in o.topics:
        say(f"{topics} topics, rate")
        found.append(rates.fields([rates.measure(ends, o.size, topics=topics, batch=BATCH) for _ in range(o.runs)]))
    bench.processes.finish(ends.near, ends.far)
    ends.start()
    for topics, of in zip(o.topics, found):
        say(f"{topics} topics, hop")
        of["lost"] += of["disordered"]
        cells = (str(topics), *(number(of[name], digits) for name, digits in zip(FIELDS, (0, 3, 0, 0, 3, 2))))
        rows.append(({"topics": topics, "throughput": {name: of[name] for name in FIELDS}}, cells,
                     hops.fields([hops.Hop(ends, o.size, o.rate, topics=topics) for _ in range(o.runs)])))
    return sweep.report(bench, ends, f"messages of {o.size} B flat out without loss, then {o.rate} msg/s",
                        (("", "", "", "", "", "raw", ""), ("topics", "msg/s", "Gbit/s", "lost", "tries", "Gbit/s", "ratio")), rows, "")
