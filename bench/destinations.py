#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON of bench/run destinations, of what its processes wrote."""
import statistics
import sys

import figures

NAMES = {"group": "a group", "list": "a list"}
# What stands in the table with a ratio: field, column, decimals.
COMPARED = (("hop_us", "hop us", 1), ("send_us", "send us", 2), ("packed_ns", "packed ns", 1), ("msgs_per_s", "msg/s", 0))


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def row_of(files, kind, count):
    """One kind with so many receivers."""
    names = [f"{run}-{count}-{kind}" for run in range(1, int(files.runs) + 1)]
    transmitters, processes = ([files.load(f"{name}-{role}") for name in names] for role in ("transmitter", "receivers"))
    tracks = [track for process in processes for track in process["receivers"]]
    sent, received = sum(run["sent"] for run in transmitters), sum(track["received"] for track in tracks)
    duplicated = sum(track["duplicated"] for track in tracks)
    missing = sent * count - (received - duplicated)
    hops = {what: median(process["hop_us"][what] for process in processes) for what in ("median", "p99")}
    return {"transport": "udp", "to": kind, "receivers": count, "size_bytes": int(files.size),
            "rate_msgs_per_s": int(files.rate), "duration_s": float(files.duration), "sent": sent,
            "received": received,
            "lost": missing + duplicated + sum(track["changed"] for track in tracks),
            "hop_us": {**hops, "last": median(process["last_us"] for process in processes)},
            **{field: median(run[field] for run in transmitters) for field in ("send_us", "packed_ns", "msgs_per_s")},
            "counters": {name: sum(run["counters"][name] for run in transmitters) for name in transmitters[0]["counters"]},
            "machine": transmitters[0]["machine"]}


def value_of(row, field):
    return row[field]["median"] if field == "hop_us" else row[field]


def compare(row, reference):
    """Ratios to the group, if there is one."""
    row["ratio_to_group"] = {field: figures.ratio(value_of(row, field), reference and value_of(reference, field))
                             for field, *_ in COMPARED}


def cells(row):
    yield NAMES[row["to"]]
    yield str(row["receivers"])
    for field, _, digits in COMPARED:
        yield figures.number(value_of(row, field), digits)
        if field == "hop_us":
            yield from (figures.number(row["hop_us"][what], 1) for what in ("p99", "last"))
        yield figures.number(row["ratio_to_group"][field], 2)
    yield str(row["lost"])


def heads():
    """The line above the columns."""
    words = ["to", "receivers"]
    for field, name, _ in COMPARED:
        words += [name, "p99", "last", "ratio"] if field == "hop_us" else [name, "ratio"]
    return [(*words, "lost")]


def main():
    files = figures.Files(("receivers", "to", "rate", "duration", "runs", "size", "options"))
    rows = []
    for count in dict.fromkeys(int(count) for count in files.receivers.split(",")):
        kinds = [row_of(files, kind, count) for kind in NAMES if kind in files.to.split(",")]
        for row in kinds:
            compare(row, next((row for row in kinds if row["to"] == "group"), None))
        rows += kinds
    machine = [row.pop("machine") for row in rows][0]
    files.write("destinations", machine, rows)
    figures.head(machine,
                 f"{files.size} B, {files.duration} s each, runs: {files.runs}; options of the channels: {files.options};",
                 f"hop: from when a message was due to its delivery, at {files.rate} msg/s, last: of the receiver that is last;",
                 "send: an llm_send() of a message by itself; packed: a message of bursts of 512; receivers share a core;",
                 "ratios to the group")
    figures.table(heads(), [tuple(cells(row)) for row in rows])
    wrong = [row for row in rows if row["lost"]]
    for row in wrong:
        print(f"FAILED: {NAMES[row['to']]}, {row['receivers']} receivers: {row['lost']} messages lost, twice or changed; of "
              f"the transmitter: {figures.counted(row['counters'])}")
    sys.exit(1 if wrong else 0)


main()
