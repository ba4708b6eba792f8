#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON of bench/run watch, of what its processes wrote."""
import statistics
import sys

import figures

PHASES = ("before", "during", "after")
# Who names a bottleneck: the receiver that has it, the transmitter as it is told of that receiver, the transmitter of itself.
SIDES = ("receiver", "reported", "transmitter")
HEALTHY = ("healthy", "reported_healthy")


def phase_of(at, begun_at):
    """What is told before the first one belongs to it."""
    return next((phase for phase in reversed(PHASES) if at >= begun_at[phase]), PHASES[0])


def limit_at(told, at):
    """What held then."""
    return next((event["limit"] for event in reversed(told) if event["at"] < at), "NONE")


def ms_until(told, limit, begin, end):
    return next(((event["at"] - begin) / 1e6 for event in told if begin <= event["at"] < end and event["limit"] == limit), None)


class Run:
    """One bottleneck, made once."""

    def __init__(self, files, number, kind):
        name = f"{number}-{kind}"
        self.number = number
        self.transmitter, self.limited, self.healthy = (files.load(f"{name}-{role}") for role in ("transmitter", "limited", "healthy"))
        self.begun_at = self.transmitter["begun_at"]
        self.told = {"receiver": self.limited["told"], "healthy": self.healthy["told"],
                     **{side: self.transmitter[side] for side in ("reported", "transmitter", "reported_healthy")}}
        receiver = self.transmitter["receiver_limit"]
        self.right = {"receiver": receiver, "reported": receiver, "transmitter": self.transmitter["transmitter_limit"]}

    def names(self):
        return [side for side in SIDES if self.right[side] != "NONE"]

    def named_ms(self, side):
        """None, too, if it was named before, and still is: that was no answer to this."""
        return ms_until(self.told[side], self.right[side], self.begun_at["during"], self.begun_at["after"])

    def over_ms(self, side):
        """0: it was told so as it ended, or before, which is a lapse."""
        if limit_at(self.told[side], self.begun_at["after"]) == "NONE":
            return 0.0
        return ms_until(self.told[side], "NONE", self.begun_at["after"], float("inf"))

    def held(self, side):
        """Whether what is right was told at any time of the middle phase."""
        return self.named_ms(side) is not None or limit_at(self.told[side], self.begun_at["during"]) == self.right[side]

    def lapses(self):
        """Times that it was told as over while it was not."""
        count = 0
        for side in self.names():
            named = self.named_ms(side)
            since = self.begun_at["during"] + (named or 0) * 1e6
            count += sum(event["limit"] == "NONE" and since < event["at"] < self.begun_at["after"] for event in self.told[side])
        return count

    def wrong(self):
        """What was named though it was not there, or not any more, as phase, side and limit."""
        for side in (*SIDES, *HEALTHY):
            for event in self.told[side]:
                phase = phase_of(event["at"], self.begun_at)
                if event["limit"] not in ("NONE", self.right.get(side) if phase == "during" else "NONE"):
                    yield phase, side, event["limit"].lower()

    def faults(self):
        """What must not be, as sentences."""
        for side in self.names():
            limit = self.right[side].lower()
            others = sorted({named for phase, by, named in self.wrong() if phase == "during" and by == side})
            if not self.held(side):
                yield f"{limit} was never named ({side})" + (f", but {', '.join(others)} was" if others else "")
            elif self.over_ms(side) is None:
                yield f"{limit} was never told as over ({side})"
        lost = faults_of(self.healthy)
        if lost:
            yield f"the healthy receiver lost {lost} messages"


def faults_of(track):
    return track["lost"] + track["unsaid"] + track["duplicated"] + track["changed"]


def summary(values):
    """Of what was measured."""
    values = [value for value in values if value is not None]
    return {"median": statistics.median(values) if values else None, "worst": max(values, default=None)}


def hop(runs, phase):
    return {what: summary([run.healthy["hop_us"].get(phase, {}).get(what) for run in runs])["median"] for what in ("median", "p99")}


def row_of(kind, runs):
    wrong = [(run.number, *found) for run in runs for found in run.wrong()]
    names = runs[0].names()
    hops = {phase: hop(runs, phase) for phase in PHASES}
    counters = {}
    for counted in (part["counters"] for run in runs for part in (run.transmitter, run.limited)):
        for name, value in counted.items():
            counters[name] = counters.get(name, 0) + value
    return {"transport": "udp", "kind": kind, "runs": len(runs), "received": sum(run.healthy["received"] for run in runs),
            "lost": sum(faults_of(run.healthy) for run in runs), "limited_lost": sum(faults_of(run.limited) for run in runs),
            "watched_s": sum(run.begun_at["end"] - run.begun_at["before"] for run in runs) / 1e9,
            "made_ms": {phase: summary([run.transmitter["made_ms"][phase] for run in runs]) for phase in PHASES[1:]},
            "named": {side: runs[0].right[side].lower() for side in names},
            "named_ms": {side: summary([run.named_ms(side) if side in names else None for run in runs]) for side in SIDES},
            "over_ms": {side: summary([run.over_ms(side) if side in names else None for run in runs]) for side in SIDES},
            "wrong": {phase: sum(at == phase for _, at, _, _ in wrong) for phase in PHASES},
            "wrong_of": [{"run": number, "phase": phase, "by": by, "named": named} for number, phase, by, named in wrong],
            "lapses": sum(run.lapses() for run in runs), "healthy_hop_us": hops,
            # Where the transmitter is held, messages wait for it, the longer the phase.
            "p99_ratio_during": None if "transmitter" in names else figures.ratio(hops["during"]["p99"], hops["before"]["p99"]),
            "counters": counters}


def print_told(rows):
    cells = []
    for row in rows:
        told = [figures.number(row[what][side][which]) for what in ("named_ms", "over_ms") for side in SIDES for which in ("median", "worst")]
        cells.append((row["kind"], *told, *(str(row["wrong"][phase]) for phase in PHASES), str(row["lapses"])))
    figures.table([("", "named", "after", "ms", "by", "", "", "over", "after", "ms", "by", "", "", "wrong", "", "", ""),
                   ("bottleneck", *(word for side in ("receiver", "reported", "sender") * 2 for word in (side, "worst")), *PHASES, "lapses")],
                  cells)


def print_hops(rows):
    cells = []
    for row in rows:
        cells.append((row["kind"], *(figures.number(row["healthy_hop_us"][phase][what], 1) for what in ("median", "p99") for phase in PHASES),
                      figures.number(row["p99_ratio_during"], 2), figures.number(row["made_ms"]["during"]["median"]), str(row["lost"])))
    figures.table([("healthy", "median", "us", "", "p99", "us", "", "p99", "made", ""),
                   ("receiver", *PHASES, *PHASES, "ratio", "ms", "lost")], cells)


def main():
    files = figures.Files(("kind", "watch", "rate", "duration", "runs", "options"))
    runs = {kind: [Run(files, number, kind) for number in range(1, int(files.runs) + 1)] for kind in files.kind.split(",")}
    rows = [{"rate_msgs_per_s": int(files.rate), "watch_ms": int(files.watch), "duration_s": float(files.duration), **row_of(kind, found)}
            for kind, found in runs.items()]
    machine = next(iter(runs.values()))[0].transmitter["machine"]
    files.write("watch", machine, rows)
    figures.head(machine, f"{files.rate} messages of 1000 B a second; a watch every {files.watch} ms; {files.duration} s each before, during "
                 "and after;", f"runs: {files.runs}, medians and the worst; reported: the transmitter is told of the receiver; sender: of itself")
    print_told(rows)
    for row in rows:
        for found in row["wrong_of"]:
            print(f"{row['kind']}, run {found['run']}: {found['by'].replace('_', ' ')} named {found['named']} {found['phase']} it")
    print()
    print_hops(rows)
    for row in rows:
        print(f"{row['kind']}: {figures.counted(row['counters'])}")
    wrong = [f"{kind}, run {run.number}: {fault}" for kind, found in runs.items() for run in found for fault in run.faults()]
    for sentence in wrong:
        print(f"FAILED: {sentence}")
    sys.exit(1 if wrong else 0)


main()
