# SPDX-License-Identifier: Apache-2.0
"""latency of one hop

Half of the round trip, from the time a message was due, at several rates and sizes, with a plot.

--transport bypass: without --preload a test stack claims to accelerate every socket, so the figures show the cost of the transport compared
with udp. xdp (AF_XDP) is compared with bare AF_XDP and with bare UDP, and needs root; shm is shared memory between two processes.
--transport roce needs and uses no RDMA hardware: it boots Debian's kernel, downloaded once, under QEMU's emulation, and measures there over
two software RDMA devices, with bare verbs, and ib_send_lat if perftest is installed, as references. That is 30 to 100 times slower than a
real device and not representative of one; the table and the JSON say so. --cpus are those of the guest.

Between two machines: --far 'ssh b' --interfaces eth0,eth0.
"""
from runner import hops
from runner import options as opt
from runner import pair, plots
from runner.histogram import NAMES
from runner.session import say
from runner.tables import columns_of, medians

OPTIONS = (opt.numbers("size", "45,128,512", 24, 65507, "bytes of a message"),
           opt.numbers("rate", None, 1, 100000000, "messages a second (10000,100000,1000000; roce 500,2000)"),
           opt.choice("reflect", "stamped", ("stamped", "all"), "messages to send back: about 1000 a second, or all"), pair.PLOT,
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


def row_of(o, size, rate, runs):
    found, rtt = hops.fields_of(runs), medians((run.rtt.summary() for run in runs), NAMES)
    return {"transport": o.transport, "size_bytes": size, "reflect": o.reflect, "duration_s": o.duration, **found,
            "hop_us": {name: value and value / 2 for name, value in rtt.items()}, "rtt_us": rtt, "rate_msgs_per_s": rate,
            "hop_submit_us": medians(run.submitted.summary(2) for run in runs), "raw_packed": int(runs[0].packed)}


def rate_text(row):
    return f"{row['rate_msgs_per_s']}{' ' if row['rate_reached_msgs_per_s'] >= 0.99 * row['rate_msgs_per_s'] else '*'}"


COLUMNS = (("", "rate", rate_text, None), ("", "size", "size_bytes", None), *columns_of((), NAMES, "hop_us.{}", 2),
           ("RTT", "std", "rtt_us.std", 2), ("", "lost", "lost", 0), *hops.RAW, ("from", "submit", "hop_submit_us.median", 2),
           ("cores", "ns", "core_to_core_ns", 0))


def measure(bench, ends, report, bare):
    o = bench.o
    say(f"measuring rows of {o.duration:g} s, and {ends.bare} for half as long")
    ends.start(bare)
    found = bench.turns([(size, rate) for size in o.size for rate in o.rate],
                        lambda _bench, _run, size, rate: hops.Hop(ends, size, rate, o.reflect == "all"),
                        f"messages of {o.size} B at {o.rate} a second")
    rows, counters = [row_of(o, *case, runs) for case, runs in found.items()], ends.stop()
    measured = [f"measured  one hop = half a round trip, in us, from the time due; {o.reflect} messages sent back{hops.run_text(o)}",
                *(f"raw       at {row['rate_msgs_per_s']} msg/s and above, messages due together are sent together, in full datagrams"
                  for row in [row for row in rows if row["raw_packed"]][:1])]
    hops.write_histograms(bench.results, o.transport, found, 2)
    return ends.report(report, measured, COLUMNS, rows, lambda report, row: hops.notes(
        report, row, f"{row['size_bytes']} B at {row['rate_msgs_per_s']} msg/s", o.duration), counters,
        left_out=("disordered", "refused", "messages_per_packet"))
