# SPDX-License-Identifier: Apache-2.0
"""latency of one hop

Half of the way there and back, from the time a message was due, at several rates and sizes, with a plot.

--transport bypass has no stack to bypass the kernel with between hosts that are joined by veth: without --preload it has a stand-in
that does nothing but say that it accelerates every socket, so what is measured is what the transport costs beside udp. xdp, AF_XDP,
is measured twice, beside bare AF_XDP and beside bare UDP, and needs root; shm is shared memory between two processes.

--transport roce needs no RDMA hardware and uses none: it builds here, boots Debian's kernel under QEMU's emulation, and runs the
benchmark there over two software RDMA devices joined by a cable, beside bare verbs, and ib_send_lat if perftest is installed. What
comes of it is 30 to 100 times slower than a real device and says nothing about one; the table and the JSON say so. The defaults are
smaller, --cpus are those of the guest, and it takes about a minute. The first time it downloads the kernel.

Between two machines: --far 'ssh b' --interfaces eth0,eth0.
"""
from runner import hops
from runner import options as opt
from runner import pair, plots
from runner.histogram import Histogram
from runner.session import say
from runner.tables import median, number

NAMES = ("median", "mean", "p99", "p99_9", "p99_99", "max", "std")
OPTIONS = (opt.numbers("size", "45,128,512", 24, 65507, "bytes of a message"),
           opt.numbers("rate", None, 1, 100000000, "messages a second (10000,100000,1000000; roce 500,2000)"),
           opt.choice("reflect", "stamped", ("stamped", "all"), "which messages are sent back: about 1000 a second, or all"), pair.PLOT,
           *pair.options(pair.TRANSPORTS))


def run(bench):
    o, ends = bench.o, pair.Pair(bench)
    o.rate = o.rate or ([500, 2000] if o.transport == "roce" else [10000, 100000, 1000000])
    status = 0
    if not ends.is_in_guest():
        ends.guest(len(o.size) * len(o.rate) * o.runs * 20 * o.duration)
    else:
        ends.open()
        status = ends.beside(lambda report, bare: measure(bench, ends, report, bare))
    if not o.in_guest:
        plots.reflector(o.plot or bench.results / "reflector.svg", bench.results, o, ends.bare)
        say(f"percentiles for HdrHistogram's tools: {bench.results}/*.hgrm")
    return status


def row_of(o, runs):
    size, rate = runs[0].size, runs[0].rate
    found = hops.fields(runs)
    rtt = [run.rtt.summary() for run in runs]
    rtt = {name: median(run[name] for run in rtt) for name in NAMES}
    submitted = [run.submitted.summary(2) for run in runs]
    # Fields that this table has otherwise, or not.
    for name in ("disordered", "refused", "messages_per_packet", "hop_us"):
        found[f"_{name}"] = found.pop(name)
    return {"transport": o.transport, "size_bytes": size, "reflect": o.reflect, "duration_s": o.duration, **found,
            "hop_us": {name: value and value / 2 for name, value in rtt.items()}, "rtt_us": rtt, "rate_msgs_per_s": rate,
            "hop_submit_us": {name: median(run[name] for run in submitted) for name in ("median", "p99")},
            "raw_packed": int(runs[0].packed)}


def cells(row):
    reached = row["rate_reached_msgs_per_s"] >= 0.99 * row["rate_msgs_per_s"]
    yield f"{row['rate_msgs_per_s']}{' ' if reached else '*'}"
    yield str(row["size_bytes"])
    yield from (number(row["hop_us"][name], 2) for name in NAMES)
    yield from (number(row["rtt_us"]["std"], 2), number(row["lost"]))
    yield from (number(value, 2) for value in (*row["raw_hop_us"].values(), row["ratio_to_raw"], row["p99_ratio_to_raw"],
                                                row["hop_submit_us"]["median"]))
    yield number(row["core_to_core_ns"])


def write_histograms(bench, runs):
    for kind, which in (("", "rtt"), ("-raw", "bare")):
        together = Histogram()
        for one in runs:
            together.merge(getattr(one, which))
        if len(together):
            together.write(bench.results / f"{bench.o.transport}-{runs[0].size}B-{runs[0].rate}{kind}.hgrm", 2)


def measure(bench, ends, report, bare):
    o = bench.o
    places = [(size, rate) for size in o.size for rate in o.rate]
    say(f"measuring {len(places)} rows of {o.duration:g} s, and {ends.bare} for half as long, {o.runs} times")
    ends.start(bare)
    runs = {place: [] for place in places}
    for at in range(o.runs):
        for size, rate in places:
            say(f"{size} B at {rate} msg/s" + (f", run {at + 1} of {o.runs}" if o.runs > 1 else ""))
            runs[size, rate].append(hops.Hop(ends, size, rate, o.reflect == "all"))
    counters = ends.stop()
    rows = [row_of(o, of) for of in runs.values()]
    cores = [row["core_to_core_ns"] for row in rows]
    ends.head(report, cores, f"measured  one hop = half a round trip, in us, from the time due; {o.reflect} messages sent back"
              + hops.run_text(o), *(f"raw       at {row['rate_msgs_per_s']} msg/s and beyond what is due at once leaves at once, in full "
                                    "datagrams" for row in [row for row in rows if row["raw_packed"]][:1]))
    report.table([("", *[""] * 8, "RTT", "", "raw", "raw", "ratio", "ratio", "from", "cores"),
                  ("rate", "size", "median", "mean", "p99", "p99.9", "p99.99", "max", "std", "std", "lost", "median", "p99", "median",
                   "p99", "submit", "ns")], [tuple(cells(row)) for row in rows])
    for row in rows:
        name = f"{row['size_bytes']} B at {row['rate_msgs_per_s']} msg/s"
        hops.notes(report, {**row, **{key[1:]: row.pop(key) for key in list(row) if key.startswith("_")}}, name, o.duration)
    for of in runs.values():
        write_histograms(bench, of)
    report.print("", *counters)
    if o.in_guest:
        report.print(ends.reference(o.size[0]))
    report.setting = ends.setting(cores)
    report.write_json(ends.machine, rows)
    return report.finish()
