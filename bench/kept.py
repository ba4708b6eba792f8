#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON of bench/run kept, of what its processes wrote, and what callgrind counted."""
import statistics
import sys

import figures

COUNTED = 40000  # messages of either stream, in bench/kept.c
HOPS = ("median", "p99", "typical_p99")


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def instructions_of(files, topics):
    """A message's, of the stream that is not kept and of the one that is; None if they were not counted."""
    totals = []
    for path in sorted(files.directory.glob(f"{topics}-count.*"), key=lambda path: int(path.suffix[1:])):
        lines = path.read_text(encoding="utf-8").splitlines()
        totals += [int(line.split()[1]) for line in lines if line.startswith("totals:")]
    totals = [total / COUNTED for total in totals if total > 0]
    return totals if len(totals) == 2 else (None, None)


def sending_of(files, names, topics):
    """What the transmitter spends."""
    runs = [files.load(f"{name}-sending") for name in names]
    without, kept = instructions_of(files, topics)
    return {**{what: median(run[what] for run in runs) for what in ("not_kept_ns", "kept_ns", "more_ns", "memory_kib")},
            "not_kept_instructions": without, "kept_instructions": kept,
            "more_instructions": None if kept is None else kept - without}


def hops_of(runs, phase):
    """Of the receiver that was there."""
    return {what: median(run[phase]["typical_p99"] if what == "typical_p99" else run[phase]["latency_us"][what] for run in runs)
            for what in HOPS}


def waits_of(runs, name):
    """The worst of all runs, too."""
    waits = [run[name] for run in runs]
    return {"median": median(wait["median"] for wait in waits),
            "max": max((wait["max"] for wait in waits if wait["max"] is not None), default=None)}


def faults(topics, lives, joiners):
    """What must not be, as sentences."""
    for live in lives:
        if live["lost"] + live["unsaid"] + live["duplicated"] + live["changed"]:
            yield (f"{topics} topics: the receiver that was there lost {live['lost'] + live['unsaid']} messages, and had "
                   f"{live['duplicated'] + live['changed']} twice or changed")
    for run in joiners:
        if run["live"] < run["asked_for"]:
            yield f"{topics} topics: {run['asked_for'] - run['live']} of {run['asked_for']} that joined were never live"
        if run["stale"]:
            yield f"{topics} topics: {run['stale']} last messages of topics were missing when those who joined were live"
        if run["lost"] + run["unsaid"] + run["duplicated"] + run["changed"]:
            yield (f"{topics} topics: those who joined lost {run['lost'] + run['unsaid']} messages, and had "
                   f"{run['duplicated'] + run['changed']} twice or changed")


def row_of(files, topics):
    """So many topics."""
    names = [f"{run}-{topics}" for run in range(1, int(files.runs) + 1)]
    transmitters, lives, joiners = ([files.load(f"{name}-{role}") for name in names]
                                    for role in ("transmitter", "live", "joiners"))
    hops = {phase: hops_of(lives, phase) for phase in ("before", "during")}
    return {"transport": "udp", "topics": topics, "keep": int(files.keep), "size_bytes": int(files.size),
            "rate_msgs_per_s": int(files.rate), "duration_s": float(files.duration), "calm_s": float(files.calm),
            "received": sum(live["received"] for live in lives),
            "lost": sum(run["lost"] + run["unsaid"] for run in lives + joiners) + sum(run["stale"] for run in joiners),
            "sending": sending_of(files, names, topics), "joined": sum(run["live"] for run in joiners),
            "kept_received": sum(run["past"] for run in joiners),
            "until_last_ms": waits_of(joiners, "until_live_ms"), "until_first_ms": waits_of(joiners, "other_until_live_ms"),
            "round_ms": topics * 1e3 / int(files.rate), "hop_us": hops,
            "ratio_during": {what: figures.ratio(hops["during"][what], hops["before"][what]) for what in HOPS},
            "counters": {name: sum(run["counters"][name] for run in transmitters) for name in transmitters[0]["counters"]},
            "faults": list(faults(topics, lives, joiners)), "machine": transmitters[0]["machine"]}


def print_sending(rows):
    lines = []
    for row in rows:
        sending = row["sending"]
        lines.append((str(row["topics"]), *(figures.number(sending[what], 1) for what in ("not_kept_ns", "kept_ns", "more_ns")),
                      *(figures.number(sending[f"{what}_instructions"], 0) for what in ("not_kept", "kept", "more")),
                      figures.number(sending["memory_kib"], 0)))
    figures.table([("", "ns", "", "", "instructions", "", "", "memory"),
                   ("topics", "not kept", "kept", "more", "not kept", "kept", "more", "KiB")], lines)


def print_joining(rows):
    lines = []
    for row in rows:
        last, first = row["until_last_ms"], row["until_first_ms"]
        lines.append((str(row["topics"]),
                      *(figures.number(wait[what], 1) for wait in (last, first) for what in ("median", "max")),
                      figures.number(row["round_ms"], 0),
                      *(figures.number(row["hop_us"][phase][what], 1)
                        for what in HOPS for phase in ("before", "during")),
                      str(row["lost"])))
    figures.table([("", "last ms", "", "from now", "", "a", "hop us", "", "p99", "", "20ms", "", ""),
                   ("topics", "median", "max", "median", "max", "round", *("before", "during") * 3, "lost")], lines)


def main():
    files = figures.Files(("topics", "keep", "rate", "size", "duration", "calm", "runs", "wait", "options"))
    rows = [row_of(files, topics) for topics in dict.fromkeys(int(topics) for topics in files.topics.split(","))]
    machine = [row.pop("machine") for row in rows][0]
    wrong = [sentence for row in rows for sentence in row.pop("faults")]
    files.write("kept", machine, rows)
    options = files.options or "none"
    figures.head(machine, f"{files.size} B, topics keep their last {files.keep}, runs: {files.runs}; options of the channels: {options};",
                 "transmitter, a message of two streams without a network; instructions: with those of the program and of libc")
    print_sending(rows)
    waits = "polls" if files.wait == "spin" else "sleeps between messages"
    print(f"\n{files.rate} msg/s, joining within {files.duration} s; ms until there is the last message of each topic, and, of those")
    print("who join from now, until their first; a round: until all topics were sent on again, ms; hop of a receiver that is")
    print(f"there, which {waits}\n")
    print_joining(rows)
    for row in rows:
        print(f"{row['topics']} topics: joined {row['joined']}, kept messages that came {row['kept_received']}; "
              f"of the transmitter: {figures.counted(row['counters'])}")
    for sentence in wrong:
        print(f"FAILED: {sentence}")
    sys.exit(1 if wrong else 0)


main()
