# SPDX-License-Identifier: Apache-2.0
"""What it costs to know that messages arrived.

A topic of each level of assurance in turn, with so many receivers on another host. At steady rates: the hop, and the time from
when a message was due until the transmitter's application is told that it is acknowledged. Flat out, with flow=window and at most
1,024 messages that are not acknowledged (the defaults of struct llm_assurance): messages a second. Ratios are to reliable with as
many receivers in the same run. Receivers share a process, and a core, each in a context of its own.

Fails if a message was lost on a topic that is not unreliable, or never acknowledged.
"""
from runner import options as opt
from runner.histogram import summary_of
from runner.session import say
from runner.tables import Report, median, number, ratio

LEVELS = {"unreliable": "unreliable", "reliable": "reliable", "no_history": "reliable, no history",
          "acknowledged_by_one": "acknowledged by one", "acknowledged_by_all": "acknowledged by all",
          "by_applications": "by all applications"}
OPTIONS = (opt.words("level", ",".join(LEVELS), LEVELS, "which of these"),
           opt.numbers("receivers", "1,3", 1, 64, "numbers of receivers"),
           opt.numbers("rate", "10000,100000,0", 0, 10000000, "messages a second, 0: flat out"),
           opt.seconds("duration", 0.3, 10, 3600000, "of each rate"), opt.RUNS, opt.size(), opt.OPTIONS, opt.CPUS, *opt.OUTPUT)


def measure(bench, name, count, level):
    o = bench.o
    by = 1 if level in ("unreliable", "reliable", "no_history", "acknowledged_by_one") else count
    applications = level == "by_applications"
    shared = {"level": level if level in ("unreliable", "reliable", "no_history") else "assured", "receivers": count, "by": by,
              "rate": o.rate, "size": o.size, "duration": o.duration}
    channel = bench.channel(bench.hosts.b, *(["acknowledge=application"] if applications else []))
    bench.start(bench.hosts.b, "assured-receivers", "receivers", channel=channel, acknowledge=applications, cpu=o.cpus[1], **shared)
    bench.start(bench.hosts.a, "assured-transmitter", "transmitter", channel=bench.channel(bench.hosts.a), cpu=o.cpus[0], **shared)
    bench.keep(name, bench.processes.serve())


def latency(runs, name):
    """Medians over the runs of what one rate has of a latency."""
    found = [summary_of(run[name]) for run in runs]
    return {what: median(run[what] for run in found) for what in ("median", "p99")}


def rate_of(rate, transmitters, receivers):
    return {"rate_msgs_per_s": rate or None, "msgs_per_s": median(run["msgs_per_s"] for run in transmitters),
            "hop_us": latency(receivers, "hop"), "acknowledged_us": latency(transmitters, "acknowledged"),
            "unacknowledged_max": max((run["unacknowledged_max"] or 0 for run in transmitters))}


def row_of(bench, level, count):
    o = bench.o
    transmitters, processes = ([bench.load(f"{run}-{count}-{level}-{role}") for run in range(o.runs)]
                               for role in ("transmitter", "receivers"))
    tracks = [track for process in processes for track in process["receivers"]]
    missing = sum(track["lost"] for track in tracks)
    disturbed = sum(track["unsaid"] + track["duplicated"] + track["changed"] for track in tracks)
    unreliable = level == "unreliable"
    return {"transport": "udp", "level": level, "receivers": count, "size_bytes": o.size, "duration_s": o.duration,
            "sent": sum(run["sent"] for run in transmitters), "received": sum(track["received"] for track in tracks),
            "lost": (0 if unreliable else missing) + disturbed, "unrepaired": missing if unreliable else 0,
            "rates": [rate_of(rate, [run["rates"][at] for run in transmitters], [run["rates"][at] for run in processes])
                      for at, rate in enumerate(o.rate)],
            "machine": transmitters[0]["machine"]}


def compare(row, reference):
    """Ratios to the reliable topic, if there is one."""
    for at, rate in enumerate(row["rates"]):
        plain = reference["rates"][at] if reference else {"hop_us": {"median": None, "p99": None}, "msgs_per_s": None}
        rate["ratio_to_reliable"] = {**{what: ratio(rate["hop_us"][what], plain["hop_us"][what]) for what in ("median", "p99")},
                                     "msgs_per_s": ratio(rate["msgs_per_s"], plain["msgs_per_s"])}


def heads(rates):
    first, second = ["", ""], ["topic", "receivers"]
    for rate in rates:
        first += [f"{rate}/s", "", "", "", ""] if rate else ["flat out", ""]
        second += ["hop us", "p99", "ratio", "told us", "p99"] if rate else ["msg/s", "ratio"]
    return [(*first, ""), (*second, "lost")]


def cells(row):
    yield from (LEVELS[row["level"]], str(row["receivers"]))
    for rate in row["rates"]:
        ratios = rate["ratio_to_reliable"]
        if rate["rate_msgs_per_s"]:
            yield from (number(rate["hop_us"]["median"], 1), number(rate["hop_us"]["p99"], 1), number(ratios["median"], 2),
                        number(rate["acknowledged_us"]["median"], 1), number(rate["acknowledged_us"]["p99"], 1))
        else:
            yield from (number(rate["msgs_per_s"]), number(ratios["msgs_per_s"], 2))
    yield str(row["lost"] + row["unrepaired"])


def levels_of(o, count):
    """All of one are one."""
    return [level for level in o.level if not (level == "acknowledged_by_all" and count == 1 and "acknowledged_by_one" in o.level)]


def run(bench):
    o = bench.o
    bench.count_all()
    bench.prepare()
    for at in range(o.runs):
        for count in o.receivers:
            say(f"run {at + 1}, {count} receivers: each level for {o.duration:g} s at each of the rates")
            for level in levels_of(o, count):
                measure(bench, f"{at}-{count}-{level}", count, level)
    rows = []
    for count in o.receivers:
        levels = [row_of(bench, level, count) for level in LEVELS if level in levels_of(o, count)]
        for row in levels:
            compare(row, next((row for row in levels if row["level"] == "reliable"), None))
        rows += levels
    machine = [row.pop("machine") for row in rows][0]
    report = Report(bench)
    report.write_json(machine, rows)
    report.head(machine, f"{o.size} B, {o.duration:g} s at each rate, runs: {o.runs}; options of the channels: {o.options};",
                "hop: from when a message was due to its delivery; told: until the transmitter's application knows that it is",
                "acknowledged; ratios to reliable with as many receivers, which share a core")
    report.table(heads(o.rate), [tuple(cells(row)) for row in rows])
    for row in rows:
        if row["lost"]:
            report.fail(f"{LEVELS[row['level']]}, {row['receivers']} receivers: {row['lost']} messages lost, twice or changed")
    return report.finish()
