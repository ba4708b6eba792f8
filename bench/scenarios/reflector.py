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

On two real machines run the programs of these names in build/release/bench by hand; their --help says how.
"""
from runner import options as opt
from runner import pair, plots
from runner.session import say

OPTIONS = (opt.numbers("size", "45,128,512", 24, 65507, "bytes of a message"),
           opt.numbers("rate", None, 1, 100000000, "messages a second (10000,100000,1000000; roce 500,2000)"),
           opt.choice("reflect", "stamped", ("stamped", "all"), "which messages are sent back: about 1000 a second, or all"), pair.PLOT,
           *pair.options(pair.TRANSPORTS))


def run(bench):
    o, ends = bench.o, pair.Pair(bench)
    o.rate = o.rate or ([500, 2000] if o.transport == "roce" else [10000, 100000, 1000000])
    rows = len(o.size) * len(o.rate)
    if not ends.is_in_guest():
        ends.guest(rows * o.runs * 20 * o.duration)
    else:
        ends.open()
        ends.beside("reflector", lambda: measure(bench, ends, rows))
    if not o.in_guest:
        plots.reflector(o.plot or bench.results / "reflector.svg", bench.results, o, ends.bare)
        say(f"percentiles for HdrHistogram's tools: {bench.results}/*.hgrm")
        say(f"JSON: {bench.json}")
    return 0


def measure(bench, ends, rows):
    o, hosts = bench.o, bench.hosts
    say(f"measuring {rows} rows of {o.duration:g} s, and {ends.bare} for half as long, {o.runs} times")
    text = ends.run("reflector", ["--role", "source", "--send", ends.channel(hosts.a, 1), "--receive", ends.channel(hosts.a, 2),
                                  "--cpu", o.cpus[0], "--peer-cpu", o.cpus[1], "--size", ",".join(map(str, o.size)),
                                  "--rate", ",".join(map(str, o.rate)), "--duration", o.duration, "--reflect", o.reflect,
                                  "--runs", o.runs, *ends.near_bare, "--network", ends.network(), "--json", bench.json,
                                  "--hgrm", bench.results, *(("--emulated", pair.EMULATED) if o.in_guest else ())],
                    ["--role", "reflector", "--send", ends.channel(hosts.b, 2), "--receive", ends.channel(hosts.b, 1),
                     "--cpu", o.cpus[1], *ends.far_bare])
    if o.in_guest:
        reference = ends.reference(o.size[0])
        print(reference, end="")
        text += reference
    return text
