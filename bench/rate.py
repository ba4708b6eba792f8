#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON of bench/run rate, of what its processes wrote."""
import sys

import figures

LIMITS = {"none": "no limit", "transmitter": "transmitter", "small": "transmitter, 45 B", "topic": "topic", "losses": "5 % lost, no limit", "repairs": "5 % lost, repairs"}
PACKETS = ("packets_per_message", "packets_ratio_to_least")
FLOWS = ("open", "paced", "window")
WINDOWS = {"1 ms": "bytes_per_s_1ms_max", "10 ms": "bytes_per_s_10ms_max", "1 s": "bytes_per_s_1s_max"}
PHASES = ("before", "during", "after")


def faults(track):
    return track["lost"] + track["unsaid"] + track["duplicated"] + track["changed"]


def packets(row):
    """Cells: packets of new data for each message, and over the least number."""
    return figures.number(row[PACKETS[0]], 4), figures.number(row[PACKETS[1]], 2)


def limit_row(files, name):
    """What one limit came to. Of the topic its messages are seen, of all others packets."""
    transmitter, receiver, witness = (files.load(f"{name}-{role}") for role in ("transmitter", "receiver", "witness"))
    limit = int(files.limit)
    seen = receiver["bulk"] if name == "topic" else witness["repairs" if name in ("losses", "repairs") else "fresh"]
    asked = {"none": None, "losses": None, "repairs": limit // 5}.get(name, limit)
    return {"transport": "udp", "row": name, "limit_bytes_per_s": asked, "offered_bytes_per_s": 2 * limit,
            "received": receiver["received"], "lost": faults(receiver), "seen": seen,
            "ratio_to_limit": {window: figures.ratio(seen[field], asked) for window, field in
                               {"mean": "bytes_per_s", **WINDOWS}.items()},
            "stream_us": receiver["stream_us"].get("before", {"median": None, "p99": None}), "witness_missed": witness["missed"],
            **{field: transmitter[field] for field in PACKETS}, "counters": transmitter["counters"], "machine": transmitter["machine"]}


def print_limits(rows):
    reference = next((row["stream_us"]["median"] for row in rows if row["row"] == "none"), None)
    cells = []
    for row in rows:
        mb = [row["limit_bytes_per_s"], row["seen"]["bytes_per_s"], *(row["seen"][field] for field in WINDOWS.values())]
        cells.append((LIMITS[row["row"]], *(figures.number(value and value / 1e6, 2) for value in mb),
                      *(figures.number(row["ratio_to_limit"][window], 3) for window in WINDOWS),
                      figures.number(row["stream_us"]["median"], 1), figures.number(row["stream_us"]["p99"], 1),
                      figures.number(figures.ratio(row["stream_us"]["median"], reference), 2),
                      *packets(row), str(row["lost"])))
    figures.table([("", "limit", "seen", "most of", "any", "", "over", "limit", "", "stream", "", "", "packets", "", ""),
                   ("limit of", "MB/s", "mean", *WINDOWS, *WINDOWS, "us", "p99", "ratio", "a msg", "of least", "lost")], cells)
    for row in rows:
        print(f"{LIMITS[row['row']]}: {figures.counted(row['counters'])}")


def mean(bins, begin, end):
    """Messages a second in the bins from begin to end, both as bins with decimals."""
    chosen = bins[max(int(begin), 0):int(end)]
    return sum(chosen) * 100 / len(chosen) if chosen else None


def first(bins, begin, end, wanted):
    """ms from begin until the mean of 50 ms is as wanted; None if it never is."""
    for at in range(int(begin), min(int(end), len(bins) - 5)):
        if wanted(mean(bins, at, at + 5)):
            return max(at + 5 - begin, 0) * 10
    return None


def found_row(files, flow):
    transmitter, receiver, half = (files.load(f"{flow}-{role}") for role in ("transmitter", "receiver", "half"))
    bins, begun_at = receiver["bins"], receiver["bins_begun_at"]
    came, went = ((half[name] - begun_at) / receiver["bin_ns"] for name in ("opened_at", "closed_at"))
    length = float(files.duration) * 100
    rates = {"before": mean(bins, came - length / 2, came), "during": mean(bins, went - length / 2, went),
             "after": mean(bins, went + length / 2, went + length)}
    usual = rates["before"] or 0
    down = first(bins, came, went, lambda rate: rate < usual * 0.75)
    return {"transport": "udp", "row": flow, "offered_msgs_per_s": int(files.rate), "received": receiver["received"],
            "lost": faults(receiver), "half_received": half["received"], "half_lost": faults(half), "msgs_per_s": rates,
            "down_after_ms": down,
            "back_after_ms": None if down is None else first(bins, went, went + length, lambda rate: rate > usual * 0.95),
            "stream_us": receiver["stream_us"], **{field: transmitter[field] for field in PACKETS}, "counters": transmitter["counters"], "machine": transmitter["machine"]}


def print_found(rows):
    cells = [(row["row"], *(figures.number(row["msgs_per_s"][phase]) for phase in PHASES),
              figures.number(row["down_after_ms"]), figures.number(row["back_after_ms"]),
              *(figures.number(row["stream_us"].get(phase, {}).get("median"), 1) for phase in PHASES), *packets(row),
              str(row["half_lost"]), str(row["lost"]))
             for row in rows]
    figures.table([("", "msg/s", "", "", "down", "back", "stream us", "", "", "packets", "", "lost", ""),
                   ("flow", *PHASES, "ms", "ms", *PHASES, "a msg", "of least", "half", "steady")], cells)
    for row in rows:
        print(f"{row['row']}: {figures.counted(row['counters'])}")


def main():
    files = figures.Files(("row", "limit", "rate", "stream", "duration", "options"))
    asked = files.row.split(",")
    limits = [limit_row(files, name) for name in LIMITS if name in asked]
    found = [found_row(files, flow) for flow in FLOWS if flow in asked]
    rows = limits + found
    machine = [row.pop("machine") for row in rows][0]
    files.write("rate", machine, rows)
    figures.head(machine, f"{files.duration} s each; a stream of {files.stream} messages of 45 B a second beside what is offered;",
                 "of it the latency from when a message was due to its delivery")
    if limits:
        print(f"limits of {int(files.limit) / 1e6:g} MB/s, of repairs a fifth of that; twice as much is offered, in messages of 1000 B\n")
        print_limits(limits)
    if found:
        print(f"\nrates that are found: {files.rate} messages of 45 B a second are offered; one that takes half comes and goes\n")
        print_found(found)
    wrong = [row for row in rows if row["lost"]]
    for row in wrong:
        print(f"FAILED: {row['row']}: the steady receiver lost {row['lost']} messages")
    missed = sum(row.get("witness_missed", 0) for row in rows)
    if missed:
        print(f"FAILED: the witness missed {missed} frames")
    sys.exit(1 if wrong or missed else 0)


main()
