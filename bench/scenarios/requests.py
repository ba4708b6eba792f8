# SPDX-License-Identifier: Apache-2.0
"""from a request over a connection to its reply, and how many a second

Beside bare UDP there and back.
"""
import statistics

from runner import hops
from runner import options as opt
from runner import pair
from runner.histogram import Histogram
from runner.hops import WAIT_SHARE, run_text
from runner.session import say
from runner.tables import Report, median, number, ratio, worst

OUTSTANDING = 256  # in adapters/requests.c
NAMES = ("median", "mean", "p99", "p99_9", "p99_99", "max", "std")
ADDRESS = opt.text_option("address", "on two machines: the far one's, where it listens", metavar="IP", default=None)
OPTIONS = (opt.numbers("size", "45", 16, 65000, "bytes of a request, and of the reply"),
           opt.numbers("rate", "1000,10000,50000,0", 0, 100000000, "requests a second, 0: as many as can be outstanding"),
           ADDRESS, *pair.options())


def row_of(o, runs):
    rtt, bare = [run.rtt.summary() for run in runs], [run.bare.summary() for run in runs]
    rate = runs[0].rate
    return {"transport": o.transport, "size_bytes": runs[0].size, "rate_requests_per_s": rate or None,
            "outstanding_max": None if rate else OUTSTANDING, "duration_s": o.duration, "sent": median(run.sent for run in runs),
            "received": median(run.received for run in runs), "lost": worst(run.lost + run.refused for run in runs),
            "samples": median(len(run.rtt) for run in runs), "rtt_us": {name: median(run[name] for run in rtt) for name in NAMES},
            "raw_rtt_us": {name: median(run[name] for run in bare) for name in ("median", "p99")},
            "ratio_to_raw": median(ratio(a["median"], b["median"]) for a, b in zip(rtt, bare)),
            "p99_ratio_to_raw": median(ratio(a["p99"], b["p99"]) for a, b in zip(rtt, bare)),
            # Of a rate the slowest block; flat out the mean.
            **{name: median((min if rate else statistics.mean)(getattr(run, rates)) if getattr(run, rates) else None for run in runs)
               for name, rates in (("requests_per_s", "rates"), ("raw_requests_per_s", "bare_rates"))},
            "core_wait_ms": median(run.waited_ns / 1e6 for run in runs), "core_to_core_ns": median(run.cores_ns for run in runs)}


def cells(row):
    rate = row["rate_requests_per_s"]
    yield f"{rate}{' ' if row['requests_per_s'] >= 0.99 * rate else '*'}" if rate else "flat out"
    yield str(row["size_bytes"])
    yield from (number(row["rtt_us"][name], 2) for name in NAMES)
    yield number(row["lost"])
    yield from (number(value, 2) for value in (*row["raw_rtt_us"].values(), row["ratio_to_raw"], row["p99_ratio_to_raw"]))
    yield from (number(row["requests_per_s"]), number(row["raw_requests_per_s"]))


def write_histograms(bench, runs):
    for kind, which in (("", "rtt"), ("-raw", "bare")):
        together = Histogram()
        for one in runs:
            together.merge(getattr(one, which))
        if len(together):
            together.write(bench.results / f"requests-{runs[0].size}B-{runs[0].rate}{kind}.hgrm", 1)


def run(bench):
    o, ends = bench.o, pair.Pair(bench)
    ends.is_in_guest()
    ends.open()
    say(f"measuring {len(o.rate)} rates for {o.duration:g} s each, and bare UDP for half as long, {o.runs} times")
    channels = [f"{o.transport}://{o.address or bench.hosts.b.address}:5041?interface={host.interface}" + (o.options and f"&{o.options}")
                for host in (bench.hosts.a, bench.hosts.b)]
    ends.start(channels=channels, adapter="requests")
    runs = {(size, rate): [] for size in o.size for rate in o.rate}
    for _ in range(o.runs):
        for size, rate in runs:
            say(f"{size} B at {rate} requests/s")
            runs[size, rate].append(hops.Hop(ends, size, rate, reflect_all=True, samples=0))
    bench.processes.finish(ends.near)
    bench.processes.finish(ends.far)
    rows = [row_of(o, of) for of in runs.values()]
    cores = [row["core_to_core_ns"] for row in rows]
    report = Report(bench)
    ends.head(report, cores, f"measured  from when a request was due to its reply, in us{run_text(o)}; flat out: {OUTSTANDING} wait;",
              "          raw is bare UDP there and back, at most 20,000 a second where there is a rate", channels=channels[:1])
    report.table([("", *[""] * 9, "raw", "raw", "ratio", "ratio", "requests", "raw"),
                  ("rate", "size", "median", "mean", "p99", "p99.9", "p99.99", "max", "std", "lost", "median", "p99", "median", "p99", "/s",
                   "/s")], [tuple(cells(row)) for row in rows])
    for row in rows:
        name, rate = f"{row['size_bytes']} B at {row['rate_requests_per_s'] or 0} requests/s", row["rate_requests_per_s"]
        if rate and row["requests_per_s"] < 0.99 * rate:
            report.print(f"* {name}: reached only {row['requests_per_s']:.0f}")
        if row["core_wait_ms"] > WAIT_SHARE * o.duration * 1e3:
            report.print(f"~ {name}: the ends waited {row['core_wait_ms']:.1f} ms for their cores; something else runs there")
    for of in runs.values():
        write_histograms(bench, of)
    report.setting = ends.setting(cores)
    report.write_json(ends.machine, rows)
    return report.finish()
