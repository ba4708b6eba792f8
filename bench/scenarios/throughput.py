# SPDX-License-Identifier: Apache-2.0
"""highest lossless rate one way

Beside blasts of full bare packets in the same run. --sweep: sizes 1, 2, 4, ... 1024, a million messages each, means of three runs, and
two plots, messages and Mbit a second against size; the other options change each of these. --transport: see bench/run reflector --help.
"""
import pathlib
import statistics

from runner import options as opt
from runner import pair, plots, rates
from runner.session import say
from runner.tables import median, number

WAIT_SHARE = 0.005  # of the duration: beyond it the row tells of something else too
OPTIONS = (opt.numbers("size", None, 1, 16777216, "bytes of a message (45,100,1000)"),
           opt.number("messages", None, 1, 100000000000, "measure so many messages a row instead of a duration"),
           opt.flag("sweep", "many sizes, and plots"), pair.PLOT, *pair.options(pair.TRANSPORTS))


def run(bench):
    o, roce = bench.o, bench.o.transport == "roce"
    if o.plot and not o.sweep:
        o.refuse("--plot: only with --sweep is there one")
    if o.sweep and o.transport == "xdp":
        o.refuse("--sweep: with --transport xdp there is none")
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


def cells(row):
    yield str(row["size_bytes"])
    yield from (number(row["msgs_per_s"]), number(row["payload_gbit_per_s"], 3))
    yield number(row["wire_share"] and row["wire_share"] * 100, 1)
    yield from (number(row[name]) for name in ("lost", "repaired_packets", "tries"))
    for name in rates.WAYS:
        yield from (number(row[f"{name}_gbit_per_s"], 3), number(row[f"ratio_to_{name}"], 2))
    yield from (number(row["rss_mib"][end], 1) for end in ("transmitter", "receiver"))
    yield number(row["core_to_core_ns"])


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
    counters = ends.stop()
    rows = [row_of(o, size, of) for size, of in runs.items()]
    cores = [row["core_to_core_ns"] for row in rows]
    ends.head(report, cores, f"measured  bytes of the application one way, {amount} a row"
              + (f"; {rows[0]['average']}s of {o.runs} runs, the worst of lost" if o.runs > 1 else ""))
    report.table([("", "", "", "wire", "", "packets", "", "raw", "ratio", "raw seg.", "ratio", "raw kept", "ratio", "transmitter",
                   "receiver", "cores"), ("size", "msg/s", "Gbit/s", "%", "lost", "repaired", "tries", "Gbit/s", "", "Gbit/s", "",
                                          "Gbit/s", "", "MiB", "MiB", "ns")], [tuple(cells(row)) for row in rows])
    for row in rows:
        row_ms = o.messages * 1e3 / row["msgs_per_s"] if o.messages and row["msgs_per_s"] else o.duration * 1e3
        if disordered := row.pop("disordered"):
            report.print(f"! {row['size_bytes']} B: {disordered:.0f} messages came out of order or twice")
        if row["core_wait_ms"] > WAIT_SHARE * row_ms:
            report.print(f"~ {row['size_bytes']} B: the ends waited {row['core_wait_ms']:.1f} ms for their cores; something else runs there")
    report.print("", *counters)
    report.setting = ends.setting(cores)
    report.write_json(ends.machine, rows)
    return report.finish()
