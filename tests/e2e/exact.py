#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what bench/run rate and watch measured against what the library promises: exact.py FILE"""
import json
import sys

# Over a second a limit holds but for what a bucket has at its beginning, and what a busy machine brings late.
MOST = 1.06
# Frames that the observer missed, as on a busy machine, make ratios lower. Less than a quarter of a limit under twice as much of an offer is no limit, however busy the machine is.
LEAST = 0.25


def rate_faults(row):
    ratios = row.get("ratio_to_limit")
    if not ratios or not row["limit_bytes_per_s"]:
        return
    for window in ("1 s", "mean"):
        if ratios[window] is None or ratios[window] > MOST:
            yield f"{row['row']}: {ratios[window]} of the limit, {window}"
    # Repairs are no more than there are losses.
    if row["row"] != "repairs" and ratios["mean"] < LEAST:
        yield f"{row['row']}: {ratios['mean']} of the limit"


def watch_faults(row):
    for side, limit in row["named"].items():
        for what in ("named_ms", "over_ms"):
            if row[what][side]["median"] is None and not (what == "named_ms" and row["wrong"]["before"]):
                yield f"{row['kind']}: no {what} of {limit}, {side}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    judge = {"rate": rate_faults, "watch": watch_faults}[report["benchmark"]]
    faults = [fault for row in report["rows"] for fault in judge(row)]
    faults += [f"{row['lost']} messages lost" for row in report["rows"] if row["lost"]]
    sys.exit("; ".join(faults) or 0)


main()
