# SPDX-License-Identifier: Apache-2.0
"""The commands that measure hops against something."""
from runner import hops
from runner.tables import Report


def run(ends, cases, measure, fields, columns, measured, again=True):
    """Measures each case, in every run or all runs at once, and reports. measure: of a case. fields: those of a row's own, given the case
    and what came of it in the runs, and the hops in them. columns: of these fields. Returns the status."""
    o = ends.o
    runs = {case: [] for case in cases}
    for at in range(o.runs if again else 1):
        # Every other run goes through the rows backwards: a steady drift of the machine would look like the cases' doing.
        for case in cases if at % 2 == 0 else reversed(cases):
            runs[case].append(measure(case))
    rows = []
    for case, of in runs.items():
        own, hop = fields(case, of)
        rows.append({"transport": o.transport, "size_bytes": o.size, "duration_s": o.duration, **own, **hops.fields(hop)})
    measured = [f"measured  {measured}; one hop = half a round trip, in us, from the time due{hops.run_text(o)}"]
    counters = ends.stop()
    return ends.report(Report(ends.bench), measured, (*columns, *hops.COLUMNS), rows,
                       lambda report, row: hops.notes(report, row, f"row {rows.index(row) + 1}", o.duration), counters)
