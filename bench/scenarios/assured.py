# SPDX-License-Identifier: Apache-2.0
"""cost of acknowledgements

Topics of each level of assurance in turn, with several receivers, which share a process and a core on another host. At fixed rates: the
hop, and the time from when a message was due until the transmitter's application is informed of its acknowledgement (told). Flat out, with
flow=window and at most 1,024 unacknowledged messages (the defaults of struct llm_assurance): messages a second. Ratios are to a reliable
topic with as many receivers. Fails if a message was lost on a topic that is not unreliable, or never acknowledged.
"""
from runner import options as opt
from runner.histogram import Histogram, summary_of
from runner.tables import Report, faults_of, field_of, median, medians, ratio, totals

WARM_S = 0.05  # before each measurement, and after it until receivers are idle again
LEVELS = {"unreliable": "unreliable", "reliable": "reliable", "no_history": "reliable, no history",
          "acknowledged_by_one": "acknowledged by one", "acknowledged_by_all": "acknowledged by all",
          "by_applications": "by all applications"}
COMPARED = {"median": "hop_us.median", "p99": "hop_us.p99", "msgs_per_s": "msgs_per_s"}
OPTIONS = (opt.words("level", ",".join(LEVELS), LEVELS, "which of these"),
           opt.numbers("receivers", "1,3", 1, 64, "numbers of receivers"),
           opt.numbers("rate", "10000,100000,0", 0, 10000000, "messages a second, 0: flat out"),
           opt.seconds("duration", 0.3, 10, 3600000, "of each rate"), opt.RUNS, opt.size(), opt.OPTIONS, opt.CPUS, *opt.OUTPUT)


def measure(bench, _, level, count):
    o, (a, b) = bench.o, (bench.hosts.a, bench.hosts.b)
    applications, assured = level == "by_applications", level not in ("unreliable", "reliable", "no_history")
    channel = bench.channel(b, *(["acknowledge=application"] if applications else []))
    bench.start(b, "receivers", channels=[channel] * count, acknowledge=applications, measured=list(range(len(o.rate))), cpu=o.cpus[1])
    sender = bench.start(a, "transmitter", channel=bench.channel(a), level="assured" if assured else level,
                         by=1 if level == "acknowledged_by_one" else count, size=o.size, cpu=o.cpus[0])
    sender.ask("await", receivers=count)
    rates = []
    for at, rate in enumerate(o.rate):
        sender.ask("send", rate=rate, duration=WARM_S, round=1, drain=WARM_S)
        rates.append(sender.ask("send", rate=rate, duration=o.duration, phase=at, drain=WARM_S, acknowledged=assured))
    found = {**sender.ask("stats"), "rates": rates, "tracks": bench.finish(sender)["receivers"]["receivers"]}
    for at, one in enumerate(rates):
        one["hop"] = Histogram(*(track["rounds"][0][at] for track in found["tracks"]))
    return found


def rate_of(rate, runs):
    """Fields of one rate; a latency is the median over the runs."""
    return {"rate_msgs_per_s": rate or None, "msgs_per_s": median(run["msgs_per_s"] for run in runs),
            "hop_us": medians(run["hop"].summary() for run in runs),
            "acknowledged_us": medians(summary_of(run["acknowledged"]) for run in runs),
            "unacknowledged_max": max(run["unacknowledged_max"] for run in runs)}


def row_of(o, level, count, runs):
    total, unreliable = totals([track for run in runs for track in run["tracks"]]), level == "unreliable"
    missing, disturbed = total["lost"], faults_of(total) - total["lost"]
    return {"transport": "udp", "level": level, "receivers": count, "size_bytes": o.size, "duration_s": o.duration,
            "sent": sum(run["sent"] for run in runs), "received": total["received"],
            "lost": (0 if unreliable else missing) + disturbed, "unrepaired": missing if unreliable else 0,
            "rates": [rate_of(rate, [run["rates"][at] for run in runs]) for at, rate in enumerate(o.rate)]}


def columns(rates):
    yield from (("", "topic", lambda row: LEVELS[row["level"]], None), ("", "receivers", "receivers", None))
    for at, rate in enumerate(rates):
        about = ((f"{rate}/s", "hop us", "hop_us.median", 1), ("", "p99", "hop_us.p99", 1), ("", "ratio", "ratio_to_reliable.median", 2),
                 ("", "told us", "acknowledged_us.median", 1), ("", "p99", "acknowledged_us.p99", 1)) if rate else (
                     ("flat out", "msg/s", "msgs_per_s", 0), ("", "ratio", "ratio_to_reliable.msgs_per_s", 2))
        yield from ((*head, lambda row, at=at, path=path: field_of(row["rates"][at], path), digits) for *head, path, digits in about)
    yield ("", "lost", lambda row: row["lost"] + row["unrepaired"], None)


def run(bench):
    o = bench.o
    bench.count_all()
    bench.prepare()
    # With one receiver, "by all" equals "by one".
    cases = [(level, count) for count in o.receivers for level in LEVELS if level in o.level
             and not (level == "acknowledged_by_all" and count == 1 and "acknowledged_by_one" in o.level)]
    found = bench.turns(cases, measure, f"each level for {o.duration:g} s at each of the rates")
    rows = [row_of(o, *case, runs) for case, runs in found.items()]
    for row in rows:
        reliable = next((other["rates"] for other in rows if (other["level"], other["receivers"]) == ("reliable", row["receivers"])), None)
        for at, rate in enumerate(row["rates"]):
            rate["ratio_to_reliable"] = {name: ratio(field_of(rate, path), field_of(reliable and reliable[at], path))
                                         for name, path in COMPARED.items()}
    return Report(bench).study(
        found[cases[0]][0]["machine"], rows,
        (f"{o.size} B, {o.duration:g} s at each rate, runs: {o.runs}; options of the channels: {o.options};",
         "hop: from when a message was due to its delivery; told: until the transmitter's application is informed that it is",
         "acknowledged; ratios to reliable with as many receivers, which share a core"), list(columns(o.rate)),
        (f"{LEVELS[row['level']]}, {row['receivers']} receivers: {row['lost']} messages lost, twice or changed"
         for row in rows if row["lost"]))
