# SPDX-License-Identifier: Apache-2.0
"""latency from a request over a connection to its reply, and requests a second

Compared with bare UDP in both directions.
"""
import statistics

from runner import hops
from runner import options as opt
from runner import pair
from runner.histogram import NAMES
from runner.tables import Report, columns_of, median, medians, worst

OUTSTANDING = 256  # limit in adapters/requests.c
ADDRESS = opt.text_option("address", "two machines: address of the far one, which listens", metavar="IP", default=None)
OPTIONS = (opt.numbers("size", "45", 16, 65000, "bytes of a request, and of the reply"),
           opt.numbers("rate", "1000,10000,50000,0", 0, 100000000, "requests a second, 0: limited by outstanding requests only"),
           ADDRESS, *pair.options())


def row_of(o, size, rate, runs):
    found = hops.fields_of(runs)
    return {"transport": o.transport, "size_bytes": size, "rate_requests_per_s": rate or None,
            "outstanding_max": None if rate else OUTSTANDING, "duration_s": o.duration,
            **{name: found[name] for name in ("sent", "received", "samples", "ratio_to_raw", "p99_ratio_to_raw", "core_wait_ms", "core_to_core_ns")},
            "lost": worst(run.lost + run.refused for run in runs), "rtt_us": medians((run.rtt.summary() for run in runs), NAMES),
            "raw_rtt_us": medians(run.bare.summary() for run in runs),
            # At a rate the slowest block counts; flat out the mean.
            **{name: median((min if rate else statistics.mean)(getattr(run, rates)) if getattr(run, rates) else None for run in runs)
               for name, rates in (("requests_per_s", "rates"), ("raw_requests_per_s", "bare_rates"))}}


def rate_text(row):
    rate = row["rate_requests_per_s"]
    return f"{rate}{' ' if row['requests_per_s'] >= 0.99 * rate else '*'}" if rate else "flat out"


COLUMNS = (("", "rate", rate_text, None), ("", "size", "size_bytes", None), *columns_of((), NAMES, "rtt_us.{}", 2), ("", "lost", "lost", 0),
           *columns_of(("raw", "raw"), ("median", "p99"), "raw_rtt_us.{}", 2), *hops.RATIOS, ("requests", "/s", "requests_per_s", 0),
           ("raw", "/s", "raw_requests_per_s", 0))


def notes(report, row):
    rate = row["rate_requests_per_s"]
    name = f"{row['size_bytes']} B at {rate or 0} requests/s"
    if rate and row["requests_per_s"] < 0.99 * rate:
        report.print(f"* {name}: reached only {row['requests_per_s']:.0f}")
    hops.wait_note(report, row, name, row["duration_s"])


def run(bench):
    o, ends = bench.o, pair.Pair(bench)
    ends.prepare()
    channels = [f"{o.transport}://{o.address or bench.hosts.b.address}:5041?interface={host.interface}" + (o.options and f"&{o.options}")
                for host in (bench.hosts.a, bench.hosts.b)]
    ends.start(channels=channels, adapter="requests")
    found = bench.turns([(size, rate) for size in o.size for rate in o.rate],
                        lambda _bench, _run, size, rate: hops.Hop(ends, size, rate, reflect_all=True, samples=0),
                        f"requests at {o.rate} a second for {o.duration:g} s each, and bare UDP for half as long")
    bench.processes.finish(ends.near)
    bench.processes.finish(ends.far)
    hops.write_histograms(bench.results, "requests", found, 1)
    measured = [f"measured  from when a request was due to its reply, in us{hops.run_text(o)}; flat out: {OUTSTANDING} wait;",
                "          raw is bare UDP in both directions, at most 20,000 a second if there is a rate"]
    return ends.report(Report(bench), measured, COLUMNS, [row_of(o, *case, runs) for case, runs in found.items()], notes,
                       channels=channels[:1])
