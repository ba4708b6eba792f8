#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON of bench/run order, of what its processes wrote."""
import statistics
import sys

import figures

ORDERS = ("sequence", "arrival")
PERCENTILES = {"median": "median", "p99": "p99", "p99_9": "p99.9"}
# Of so many losses it is no chance that there was none, or that nothing came behind one.
CERTAIN = 100
# So many messages share a packet at most, where the transmitter is late.
PACKED = 32


def load(files, loss, order):
    """(transmitter, receiver) of each run."""
    return [tuple(files.load(f"{run}-{loss}-{order}-{role}") for role in ("transmitter", "receiver"))
            for run in range(1, int(files.runs) + 1)]


def medians(figures_of_runs):
    """By name, over the runs; None where one has none."""
    return {what: None if None in (values := [run[what] for run in figures_of_runs]) else statistics.median(values)
            for what in figures_of_runs[0]}


def row_of(files, loss, order, runs, sequence_runs):
    receivers = [receiver for _, receiver in runs]
    sent = sum(transmitter["sent"] for transmitter, _ in runs)
    received = sum(receiver["received"] for receiver in receivers)
    counters = {name: sum(receiver["counters"][name] for receiver in receivers) for name in receivers[0]["counters"]}
    ratio = [{what: figures.ratio(receiver["typical_us"][what], sequence["typical_us"][what]) for what in PERCENTILES}
             for receiver, (_, sequence) in zip(receivers, sequence_runs)]
    return {"transport": "udp", "loss_percent": float(loss), "order": order, "size_bytes": int(files.size),
            "delay_s": float(files.delay), "rate_msgs_per_s": int(files.rate), "duration_s": float(files.duration),
            "runs": len(runs), "sent": sent, "received": received,
            "lost": sent - received + sum(receiver["duplicated"] for receiver in receivers),
            "changed": sum(receiver["changed"] for receiver in receivers),
            "disordered": sum(receiver["disordered"] for receiver in receivers),
            "typical_us": medians([receiver["typical_us"] for receiver in receivers]),
            "hop_us": medians([receiver["hop_us"] for receiver in receivers]),
            "ratio_to_sequence": medians(ratio), "counters": counters}


def faults(row):
    """What is wrong with a row."""
    counters = row["counters"]
    if row["lost"]:
        yield f"{row['lost']} messages lost, or twice"
    if row["changed"]:
        yield f"{row['changed']} messages changed"
    if row["order"] == "sequence" and row["disordered"] + counters["messages_ahead"]:
        yield f"{row['disordered']} messages out of sequence"
    if row["loss_percent"] / 100 * row["sent"] / PACKED > CERTAIN and not counters["impaired_lost"]:
        yield "no packet was lost"
    if counters["packets_missed"] > CERTAIN and row["order"] == "arrival" and not counters["messages_ahead"]:
        yield "no message came ahead of those that were lost"


def cells(row):
    counters = row["counters"]
    yield f"{row['loss_percent']:g} %, {row['order']}"
    yield from (figures.number(row["typical_us"][what], 1) for what in PERCENTILES)
    yield from (figures.number(row["ratio_to_sequence"][what], 2) for what in PERCENTILES)
    yield from (figures.number(row["hop_us"][what], 1) for what in PERCENTILES)
    yield from (str(counters[name]) for name in ("packets_missed", "messages_ahead"))
    yield str(row["lost"])


def main():
    files = figures.Files(("loss", "delay", "rate", "size", "duration", "runs", "options"))
    rows = []
    for loss in files.loss.split(","):
        runs = {order: load(files, loss, order) for order in ORDERS}
        rows += [row_of(files, loss, order, runs[order], runs["sequence"]) for order in ORDERS]
        machine = runs["sequence"][0][0]["machine"]
    files.write("order", machine, rows)
    figures.head(machine, f"{files.rate} msg/s of {files.size} B for {files.duration} s, runs: {files.runs}; "
                 f"NAKs are late by up to {files.delay} s; options of the channels: {files.options};",
                 "hop: from when a message was due to its delivery, of each 50 ms and in the median of these, so that what",
                 "else ran met few of them, and of whole turns; ratios: of the former to order=sequence in the same run;",
                 "missed: packets lost on purpose, ahead: messages delivered before one that was lost, of all runs")
    figures.table([("", "of 50 ms", "us", "", "ratio", "", "", "of all", "us", "", "packets", "messages", ""),
                   ("loss, order", *(3 * list(PERCENTILES.values())), "missed", "ahead", "lost")],
                  [tuple(cells(row)) for row in rows])
    wrong = [f"FAILED: {row['loss_percent']:g} %, {row['order']}: {fault}" for row in rows for fault in faults(row)]
    print("\n".join(wrong), end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)


main()
