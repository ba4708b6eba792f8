# SPDX-License-Identifier: Apache-2.0
"""from a request over a connection to its reply, and how many a second

Beside bare UDP there and back.
"""
from runner import options as opt
from runner import pair
from runner.session import say

OPTIONS = (opt.numbers("size", "45", 16, 65000, "bytes of a request, and of the reply"),
           opt.numbers("rate", "1000,10000,50000,0", 0, 100000000, "requests a second, 0: as many as can be outstanding"),
           *pair.options())


def run(bench):
    o, ends = bench.o, pair.Pair(bench)
    ends.is_in_guest()
    ends.open()
    say(f"measuring {len(o.rate)} rates for {o.duration:g} s each, and bare UDP for half as long, {o.runs} times")
    near, far = (f"{o.transport}://{bench.hosts.b.address}:5041?interface={host.interface}" + (o.options and f"&{o.options}")
                 for host in (bench.hosts.a, bench.hosts.b))
    ends.beside("requests", lambda: ends.run(
        "requests", ["--role", "asker", "--channel", near, "--cpu", o.cpus[0], "--peer-cpu", o.cpus[1],
                     "--size", ",".join(map(str, o.size)), "--rate", ",".join(map(str, o.rate)), "--duration", o.duration,
                     "--runs", o.runs, "--network", ends.network(), "--json", bench.json, "--hgrm", bench.results],
        ["--role", "answerer", "--channel", far, "--cpu", o.cpus[1]]))
    say(f"JSON: {bench.json}")
    return 0
