# SPDX-License-Identifier: Apache-2.0
"""one-way latency from many publishers to many subscribers

Each publisher sends on all topics in turn, and each subscriber receives all topics, so each message is delivered once per subscriber.
Latency is from the send call to the delivery, over all subscribers and for each. Rates are totals of all publishers. The highest rate is
found by doubling and bisection: all messages are delivered, and the supply takes at most 2 % longer than planned. The bare transport does
the same work with a datagram per message, without repairs. Over UDP the publishers are on one host, and the subscribers on four others, which
are namespaces at a switch (a bridge).

Each process publishes its counters in the directory that is printed, so llm-stat shows the run live.
"""
import os

from runner import options as opt
from runner import tail
from runner.histogram import Histogram
from runner.market import CLOCK, FAR, NAMES, PEERS, RATE_MAX, Market, clock, find_highest, mark_of, summary, unsupported
from runner.session import PACKAGES, RELEASE, Hosts, build, memory_directory, packages, say, settle
from runner.tables import Report, columns_of, median, ratio
from scenarios.market_data import programs_of

WARM_S = 0.1
SEARCH_S = 0.5
SAMPLES = 20000  # a second, of each publisher
OPTIONS = (opt.number("publishers", 10, 1, 32, "processes that publish"), opt.number("topics", 10, 1, 1000, "topics of each publisher"),
           opt.number("subscribers", 10, 1, 32, "processes that subscribe to all topics"), opt.size(100, 32, 1400),
           opt.words("transport", "udp,shm", ("udp", "shm"), "over which transports"),
           opt.words("peers", None, tuple(PEERS), "other libraries to measure in turns with libllm (none)"), opt.numbers("rate", "10000,100000", 100, RATE_MAX, "messages a second of all publishers together"),
           opt.seconds("duration", 2, 100, 3600000, "of each measurement; 600 is the published one"),
           opt.number("runs", 3, 1, 100, "repetitions, in turns; medians are reported"),
           opt.flag("causes", "record the causes of the worst samples, in runs of their own"),
           opt.flag("quick", "one run of at most a second for each rate, without the highest rate"),
           opt.flag("no-highest", "skip the search for the highest rate"), opt.OPTIONS, *opt.OUTPUT)


def once(bench, transport, library, rate, duration, with_causes=False):
    o = bench.o
    settle(duration)
    market = Market(bench, transport, library, o.topics, o.size, o.subscribers, o.publishers, reflects=False, programs=bench.feeds,
                    options=() if library != "libllm" else ("flow=window", "flow_quorum_percent=100", o.options))
    for _ in range(o.publishers):
        market.publisher()
    for _ in range(o.subscribers):
        market.consumer(range(o.topics))
    market.greet()
    market.begin(1)
    if with_causes:
        market.record_tail()
    supplied = market.supply(rate, duration, WARM_S, mark_of(rate / o.publishers, SAMPLES, o.topics), shared=True)
    answers = market.end()
    found = {"sent": supplied["sent"], "s": supplied["s"], "wanted": supplied["wanted"], "late_ms": supplied["late_ms"],
             "received": sum(answer["received"] for answer in answers),
             "lost": int(sum(answer["lost"] + answer["missing"] + answer["duplicated"] + answer["changed"] for answer in answers)),
             "oneway_us": summary(Histogram(*(answer["sent"] for answer in answers))),
             "each_us": [summary(Histogram(answer["sent"])) for answer in answers], **market.stats()}
    if with_causes:
        found["causes"] = market.causes()
    market.close()
    return {**found, "delivered": found["received"] / found["s"]}


def measure(bench, _, transport, library, rate):
    if library == CLOCK:
        return clock(bench, SAMPLES, bench.o.duration)
    return once(bench, transport, library, rate, bench.o.duration)


def highest(bench, transport, library):
    """Highest lossless rate, and the deliveries per second at it."""
    return find_highest(bench.o.rate[-1], lambda rate: once(bench, transport, library, rate, SEARCH_S), SEARCH_S + WARM_S)


def row_of(o, transport, library, rate, runs, bare, clocks):
    oneway, beside = ({name: median(run["oneway_us"][name] for run in of) for name in NAMES} for of in (runs, bare))
    return {"transport": transport, "library": library, "publishers": o.publishers, "topics": o.topics, "subscribers": o.subscribers,
            "rate_msgs_per_s": rate, "delivered_msgs_per_s": median(run["delivered"] for run in runs),
            "sent": sum(run["sent"] for run in runs), "received": sum(run["received"] for run in runs),
            "lost": sum(run["lost"] for run in runs), "oneway_us": oneway, "bare_oneway_us": beside,
            "ratio_to_bare": median(ratio(run["oneway_us"]["mean"], by["oneway_us"]["mean"]) for run, by in zip(runs, bare)),
            "p99_9_ratio_to_bare": ratio(oneway["p99_9"], beside["p99_9"]),
            "each_median_us": sorted(median(run["each_us"][at]["median"] for run in runs) for at in range(o.subscribers)),
            "clock_us": {name: median(run["clock_us"][name] for run in clocks) for name in NAMES},
            "late_ms": median(run["late_ms"] for run in runs), "cpu_cores": runs[0]["cpu_cores"],
            "rss_mib_max": max(run["rss_mib_max"] for run in runs), "pss_mib_max": max(run["pss_mib_max"] for run in runs)}


COLUMNS = (("", "transport", "transport", None), ("", "library", "library", None), ("rate", "msg/s", "rate_msgs_per_s", 0),
           ("delivered", "msg/s", "delivered_msgs_per_s", 0),
           *(("one way us" if at == 0 else "", name.replace("_", "."), f"oneway_us.{name}", 1) for at, name in enumerate(NAMES)),
           ("ratio to bare", "mean", "ratio_to_bare", 2), ("", "p99.9", "p99_9_ratio_to_bare", 2), ("median of", "first", lambda row: f"{row['each_median_us'][0]:.1f}", None),
           ("", "last", lambda row: f"{row['each_median_us'][-1]:.1f}", None), ("late", "ms", "late_ms", 1), ("lost", "", "lost", None))


TAILS = (("", "transport", "transport", None), ("", "library", "library", None), ("rate", "msg/s", "rate_msgs_per_s", 0),
         *columns_of(("one way",), FAR, "oneway_us.{}", 1), *columns_of(("bare",), FAR, "bare_oneway_us.{}", 1),
         *columns_of(("clock",), FAR, "clock_us.{}", 1))


def run(bench):
    o = bench.o
    packages(*PACKAGES)
    build(RELEASE, "-Dtests=false", "-Dexamples=false")
    if "udp" in o.transport:
        bench.hosts = Hosts(five=True)
    if o.quick:
        o.duration, o.runs, o.no_highest = min(o.duration, 1.0), 1, True
    os.environ["LLM_STATS_DIRECTORY"] = memory_directory("llm-stat-")
    say(f"counters: llm-stat {os.environ['LLM_STATS_DIRECTORY']}")
    bench.feeds = programs_of(bench, o.peers) if o.peers else {}
    libraries = {transport: [library for library in ("libllm", *bench.feeds, "bare") if not unsupported(library, transport)]
                 for transport in o.transport}
    cases = [(transport, library, rate) for transport in o.transport for rate in o.rate for library in libraries[transport]]
    beside = (cases[0][0], CLOCK, 0)
    found = bench.turns([beside, *cases], measure, f"{o.publishers} x {o.topics} x {o.subscribers} over {', '.join(o.transport)}")
    rows = [row_of(o, *case, found[case], found[case[0], "bare", case[2]], found[beside]) for case in cases]
    report = Report(bench)
    tops = {}
    for transport, library in ((transport, library) for transport in o.transport for library in libraries[transport] if not o.no_highest):
        tops[transport, library] = highest(bench, transport, library)
    for row in rows:
        row["causes"] = once(bench, row["transport"], "libllm", row["rate_msgs_per_s"], o.duration, True)["causes"] if o.causes and \
            row["library"] == "libllm" else None
        top = tops.get((row["transport"], row["library"]), {})
        row.update(highest_rate_msgs_per_s=top.get("rate"), highest_delivered_msgs_per_s=top.get("delivered"))
    report.write_json(found[cases[0]][0]["machine"], rows)
    report.head(found[cases[0]][0]["machine"], f"{o.publishers} publishers, {o.topics} topics, {o.subscribers} subscribers of all, {o.size} B, "
                f"{o.duration:g} s, runs: {o.runs}, medians")
    report.rows(COLUMNS, rows)
    tail.show(report, "one way", TAILS, rows, lambda row: f"over {row['transport']} at {row['rate_msgs_per_s']} msg/s")
    report.print()
    for (transport, library), top in tops.items():
        report.print(f"highest rate over {transport}, {library}: {top['rate'] or 'none'} msg/s, {top['delivered']:.0f} delivered")
    for row in rows:
        if row["lost"] and row["library"] == "libllm":
            report.fail(f"{row['library']} over {row['transport']} at {row['rate_msgs_per_s']} msg/s: {row['lost']} messages lost")
    return report.finish()
