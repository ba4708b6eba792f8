# SPDX-License-Identifier: Apache-2.0
"""from a request over a connection to its reply, and how many a second

Beside bare UDP there and back.
"""
import statistics

from runner import hops
from runner import options as opt
from runner import pair
from runner.session import say
from runner.tables import Report, median, medians, ratio, worst

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
            "samples": median(len(run.rtt) for run in runs), "rtt_us": medians(rtt, NAMES), "raw_rtt_us": medians(bare),
            "ratio_to_raw": median(ratio(a["median"], b["median"]) for a, b in zip(rtt, bare)),
            "p99_ratio_to_raw": median(ratio(a["p99"], b["p99"]) for a, b in zip(rtt, bare)),
            # Of a rate the slowest block; flat out the mean.
            **{name: median((min if rate else statistics.mean)(getattr(run, rates)) if getattr(run, rates) else None for run in runs)
               for name, rates in (("requests_per_s", "rates"), ("raw_requests_per_s", "bare_rates"))},
            "core_wait_ms": median(run.waited_ns / 1e6 for run in runs), "core_to_core_ns": median(run.cores_ns for run in runs)}


def rate_text(row):
    rate = row["rate_requests_per_s"]
    return f"{rate}{' ' if row['requests_per_s'] >= 0.99 * rate else '*'}" if rate else "flat out"


COLUMNS = (("", "rate", rate_text, None), ("", "size", "size_bytes", None),
           *(("", name.replace("_", "."), f"rtt_us.{name}", 2) for name in NAMES), ("", "lost", "lost", 0),
           ("raw", "median", "raw_rtt_us.median", 2), ("raw", "p99", "raw_rtt_us.p99", 2), ("ratio", "median", "ratio_to_raw", 2),
           ("ratio", "p99", "p99_ratio_to_raw", 2), ("requests", "/s", "requests_per_s", 0), ("raw", "/s", "raw_requests_per_s", 0))


def notes(report, row):
    rate = row["rate_requests_per_s"]
    name = f"{row['size_bytes']} B at {rate or 0} requests/s"
    if rate and row["requests_per_s"] < 0.99 * rate:
        report.print(f"* {name}: reached only {row['requests_per_s']:.0f}")
    hops.wait_note(report, row, name, row["duration_s"])


def run(bench):
    o, ends = bench.o, pair.Pair(bench)
    ends.prepare()
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
    for of in runs.values():
        hops.write_histograms(bench.results, "requests", of, 1)
    measured = [f"measured  from when a request was due to its reply, in us{hops.run_text(o)}; flat out: {OUTSTANDING} wait;",
                "          raw is bare UDP there and back, at most 20,000 a second where there is a rate"]
    return ends.report(Report(bench), measured, COLUMNS, [row_of(o, of) for of in runs.values()], notes, channels=channels[:1])
