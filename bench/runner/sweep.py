# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON of the commands that measure hops against something."""
from runner import hops
from runner.tables import Report


def report(bench, ends, measured, heads, rows, own):
    """rows: (fields of the row's own, cells of these, fields of the hop). own: how a row is called in notes. Returns the status."""
    o, counters = bench.o, ends.stop()
    cores = [hop["core_to_core_ns"] for _, _, hop in rows]
    out = Report(bench)
    ends.head(out, cores, f"measured  {measured}; one hop = half a round trip, in us, from the time due{hops.run_text(o)}")
    out.table([(*words, *more) for words, more in zip(heads, hops.HEADS)], [(*cells, *hops.cells(hop)) for _, cells, hop in rows])
    for at, (_, _, hop) in enumerate(rows):
        hops.notes(out, hop, f"row {at + 1}{own}", o.duration)
    out.print("", *counters)
    out.setting = ends.setting(cores)
    out.write_json(ends.machine, [{"transport": o.transport, "size_bytes": o.size, "duration_s": o.duration, **fields, **hop}
                                  for fields, _, hop in rows])
    return out.finish()
