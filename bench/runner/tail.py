# SPDX-License-Identifier: Apache-2.0
"""Causes of the worst latencies: in which stage the time passed, and what stalled the loops of both processes in it (engine/tail.h)."""
import collections

WORST = 32   # samples of a run
LEAST = 0.5  # share of a stage for which a loop must stall to be its cause
BURST = 64   # messages in a turn that explain its time
CAUSES = (("", "stage", "stage", None), ("", "cause", "cause", None), ("", "samples", "samples", 0), ("longest", "us", "max_us", 1))


def cause_of(stall):
    """Why a loop stalled: what the kernel counted, longest causes first, then the loop's own work."""
    _, yields, preemptions, faults, moves, messages = stall
    for count, name in ((moves, "moved to another CPU"), (preemptions, "preempted by another process"),
                        (yields, "another process had the core"), (faults, "page faults")):
        if count:
            return name
    return "a burst of messages" if messages >= BURST else "interrupts, the hypervisor, or the loop itself"


def stages_of(sample, near, far):
    """Stages of a sample, and the processes that may delay each."""
    due, sent, arrived, back, _ = map(int, sample)
    return (("before the send", due, sent, (near,)), ("there", sent, arrived, (near, far)), ("back", arrived, back, (far, near)))


def causes(samples):
    """samples: (sample, name and process of the sender, the same of the receiver). Returns rows {stage, cause, samples, max_us}, the most
    frequent first."""
    longest = [(sample, *max(stages_of(sample, near, far), key=lambda stage: stage[2] - stage[1]))
               for sample, near, far in sorted(samples, key=lambda one: one[0][0] - one[0][3])[:WORST]]
    asked = collections.defaultdict(list)
    for _, _, begin, end, processes in longest:
        for _, process in processes:
            asked[process].append(f"{begin}-{end}")
    found = {process: dict(zip(spans, process.ask("stalls", **{"in": spans})["stalls"])) for process, spans in asked.items()}
    rows = {}
    for sample, stage, begin, end, processes in longest:
        stalls = [(name, found[process][f"{begin}-{end}"]) for name, process in processes]
        name, stall = max(stalls, key=lambda one: one[1][0])
        why = f"{name}: {cause_of(stall)}" if stall[0] >= LEAST * (end - begin) else "no loop stalled: the transport or the kernel"
        row = rows.setdefault((stage, why), {"stage": stage, "cause": why, "samples": 0, "max_us": 0.0})
        row["samples"] += 1
        row["max_us"] = max(row["max_us"], (sample[3] - sample[0]) / 1e3)
    return sorted(rows.values(), key=lambda row: (-row["samples"], -row["max_us"]))


def show(report, what, columns, rows, where):
    """Prints percentiles beside those of the bare transport and of the clock, and the causes of each row that has them. where: of a row."""
    report.print("", f"the tail: {what}, and the delays of a loop that only reads the clock on the same CPUs, us", "")
    report.rows(columns, rows)
    for row in rows:
        if row["causes"]:
            report.print("", f"causes of the worst samples {where(row)}, in a run of their own", "")
            report.rows(CAUSES, row["causes"])
