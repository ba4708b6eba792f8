# SPDX-License-Identifier: Apache-2.0
"""highest lossless rate in one direction

Compared with blasts of full bare packets in the same run. --sweep: sizes 1, 2, 4, ... 1024, a million messages each, means of three runs,
and two plots, messages and Mbit a second against size; other options override each of these. --transport: see bench/run reflector --help.
"""
import pathlib
import statistics

from runner import options as opt
from runner import hops, pair, plots, rates
from runner.session import say
from runner.tables import median

COLUMNS = (("", "size", "size_bytes", None), ("", "msg/s", "msgs_per_s", 0), ("", "Gbit/s", "payload_gbit_per_s", 3),
           ("wire", "%", lambda row: f"{row['wire_share'] * 100:.1f}" if row["wire_share"] else "-", None), ("", "lost", "lost", 0),
           ("packets", "repaired", "repaired_packets", 0), ("", "tries", "tries", 0),
           *(column for head, name in (("raw", "raw"), ("raw seg.", "raw_segmented"), ("raw kept", "raw_kept"))
             for column in ((head, "Gbit/s", f"{name}_gbit_per_s", 3), ("ratio", "", f"ratio_to_{name}", 2))),
           ("transmitter", "MiB", "rss_mib.transmitter", 1), ("receiver", "MiB", "rss_mib.receiver", 1), ("cores", "ns", "core_to_core_ns", 0))
OPTIONS = (opt.numbers("size", None, 1, 16777216, "bytes of a message (45,100,1000)"),
           opt.number("messages", None, 1, 100000000000, "messages of each row, instead of a duration"),
           opt.flag("sweep", "many sizes, and plots"), pair.PLOT, *pair.options(pair.TRANSPORTS))


def run(bench):
    o, roce = bench.o, bench.o.transport == "roce"
    if o.plot and not o.sweep:
        o.refuse("--plot: needs --sweep")
    if o.sweep and o.transport == "xdp":
        o.refuse("--sweep: not available with --transport xdp")
    if o.sweep:
        o.messages, o.runs = o.messages or (20000 if roce else 1000000), o.runs or (1 if roce else 3)
        o.duration = o.duration or (2.0 if roce else 1.0)
    o.size = o.size or ([2 ** power for power in range(11)] if o.sweep else [45, 100, 1000])
    ends, status = pair.Pair(bench, flow=True), 0
    if not ends.is_in_guest():
        ends.guest(len(o.size) * o.runs * (20 * o.duration + (o.messages or 0) / 500))
    else:
        ends.open()
        status = ends.beside(lambda report, bare: measure(bench, ends, report, bare))
    if o.sweep and not o.in_guest:
        plots.throughput(pathlib.Path(o.plot or bench.results / "throughput.svg"), bench.json, o.transport, ends.bare)
    return status


def mean(values):
    values = list(values)
    return None if None in values else statistics.mean(values)


def row_of(o, size, runs):
    found = rates.fields(runs, mean if o.sweep else median)
    ends = {name: {end: found.pop(f"{end}_{which}") for end in ("transmitter", "receiver")}
            for name, which in (("rss_mib", "mib"), ("kernel_share", "kernel"))}
    return {"transport": o.transport, "size_bytes": size, "duration_s": None if o.messages else o.duration, "messages": o.messages,
            "runs": o.runs, "average": "mean" if o.sweep else "median", **found, **ends}


def notes(report, row):
    name = f"{row['size_bytes']} B"
    took_s = row["messages"] / row["msgs_per_s"] if row["messages"] and row["msgs_per_s"] else row["duration_s"] or 0
    if row["disordered"]:
        report.print(f"! {name}: {row['disordered']:.0f} messages came out of order or twice")
    hops.wait_note(report, row, name, took_s)


def measure(bench, ends, report, bare):
    o = bench.o
    amount = f"{o.messages} messages" if o.messages else f"{o.duration:g} s"
    say(f"measuring {len(o.size)} sizes for {amount}, and {ends.bare}, {o.runs} times; longer after a loss")
    ends.start(bare, raw=False, small=True)
    runs = {size: [] for size in o.size}
    for at in range(o.runs):
        for size in runs:
            say(f"{size} B" + (f", run {at + 1} of {o.runs}" if o.runs > 1 else ""))
            runs[size].append(rates.measure(ends, size, o.messages))
    counters, rows = ends.stop(), [row_of(o, size, of) for size, of in runs.items()]
    measured = [f"measured  bytes of the application one way, {amount} a row"
                + (f"; {rows[0]['average']}s of {o.runs} runs, the worst of lost" if o.runs > 1 else "")]
    return ends.report(report, measured, COLUMNS, rows, notes, counters, left_out=("disordered",))
