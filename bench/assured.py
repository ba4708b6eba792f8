#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON of bench/run assured, of what its processes wrote."""
import statistics
import sys

import figures

LEVELS = {"unreliable": "unreliable", "reliable": "reliable", "no_history": "reliable, no history",
          "acknowledged_by_one": "acknowledged by one", "acknowledged_by_all": "acknowledged by all",
          "by_applications": "by all applications"}


def median(values):
    """Of what was measured."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def latency(runs, name):
    """Medians over the runs of what one rate has of a latency."""
    return {what: median(run[name] and run[name][what] for run in runs) for what in ("median", "p99")}


def rate_of(rate, transmitters, receivers):
    return {"rate_msgs_per_s": rate or None, "msgs_per_s": median(run["msgs_per_s"] for run in transmitters),
            "hop_us": latency(receivers, "hop_us"), "acknowledged_us": latency(transmitters, "acknowledged_us"),
            "unacknowledged_max": max((run["unacknowledged_max"] or 0 for run in transmitters))}


def row_of(files, level, count, rates):
    """One level with so many receivers; None if it was not measured."""
    names = [f"{run}-{count}-{level}" for run in range(1, int(files.runs) + 1)]
    if not (files.directory / f"{names[0]}-transmitter.json").exists():
        return None
    transmitters, processes = ([files.load(f"{name}-{role}") for name in names] for role in ("transmitter", "receivers"))
    tracks = [track for process in processes for track in process["receivers"]]
    missing = sum(track["lost"] for track in tracks)
    disturbed = sum(track["unsaid"] + track["duplicated"] + track["changed"] for track in tracks)
    unreliable = level == "unreliable"
    return {"transport": "udp", "level": level, "receivers": count, "size_bytes": int(files.size), "duration_s": float(files.duration),
            "sent": sum(run["sent"] for run in transmitters), "received": sum(track["received"] for track in tracks),
            "lost": (0 if unreliable else missing) + disturbed, "unrepaired": missing if unreliable else 0,
            "rates": [rate_of(rate, [run["rates"][at] for run in transmitters], [run["rates"][at] for run in processes])
                      for at, rate in enumerate(rates)],
            "machine": transmitters[0]["machine"]}


def compare(row, reference):
    """Ratios to the reliable topic, if there is one."""
    for at, rate in enumerate(row["rates"]):
        plain = reference["rates"][at] if reference else {"hop_us": {"median": None, "p99": None}, "msgs_per_s": None}
        rate["ratio_to_reliable"] = {**{what: figures.ratio(rate["hop_us"][what], plain["hop_us"][what]) for what in ("median", "p99")},
                                     "msgs_per_s": figures.ratio(rate["msgs_per_s"], plain["msgs_per_s"])}


def heads(rates):
    """Two lines above the columns."""
    first, second = ["", ""], ["topic", "receivers"]
    for rate in rates:
        first += [f"{rate}/s", "", "", "", ""] if rate else ["flat out", ""]
        second += ["hop us", "p99", "ratio", "told us", "p99"] if rate else ["msg/s", "ratio"]
    return [(*first, ""), (*second, "lost")]


def cells(row):
    yield LEVELS[row["level"]]
    yield str(row["receivers"])
    for rate in row["rates"]:
        ratio = rate["ratio_to_reliable"]
        if rate["rate_msgs_per_s"]:
            yield from (figures.number(rate["hop_us"]["median"], 1), figures.number(rate["hop_us"]["p99"], 1),
                        figures.number(ratio["median"], 2), figures.number(rate["acknowledged_us"]["median"], 1),
                        figures.number(rate["acknowledged_us"]["p99"], 1))
        else:
            yield from (figures.number(rate["msgs_per_s"]), figures.number(ratio["msgs_per_s"], 2))
    yield str(row["lost"] + row["unrepaired"])


def main():
    files = figures.Files(("level", "receivers", "rate", "duration", "runs", "size", "options"))
    rates = [int(rate) for rate in files.rate.split(",")]
    rows = []
    for count in (int(count) for count in files.receivers.split(",")):
        levels = [row for level in LEVELS if (row := row_of(files, level, count, rates)) is not None]
        for row in levels:
            compare(row, next((row for row in levels if row["level"] == "reliable"), None))
        rows += levels
    machine = [row.pop("machine") for row in rows][0]
    files.write("assured", machine, rows)
    figures.head(machine, f"{files.size} B, {files.duration} s at each rate, runs: {files.runs}; options of the channels: {files.options};",
                 "hop: from when a message was due to its delivery; told: until the transmitter's application knows that it is",
                 "acknowledged; ratios to reliable with as many receivers, which share a core")
    figures.table(heads(rates), [tuple(cells(row)) for row in rows])
    wrong = [row for row in rows if row["lost"]]
    for row in wrong:
        print(f"FAILED: {LEVELS[row['level']]}, {row['receivers']} receivers: {row['lost']} messages lost, twice or changed")
    sys.exit(1 if wrong else 0)


main()
