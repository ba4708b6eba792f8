# SPDX-License-Identifier: Apache-2.0
"""The commands that measure hops against something, all in the same way."""
from runner import pair
from runner.session import say


def run(bench, what, words, flow=False):
    """words: options of the near program. Returns the pair."""
    o, ends = bench.o, pair.Pair(bench, flow)
    ends.is_in_guest()
    ends.open()
    hosts = bench.hosts
    say(f"measuring {what} for {o.duration:g} s each, and bare UDP for half as long, {o.runs} times")
    ends.beside(bench.name, lambda: ends.run(
        bench.name, ["--role", "source", "--send", ends.channel(hosts.a, 1), "--receive", ends.channel(hosts.a, 2), "--cpu", o.cpus[0],
                     "--peer-cpu", o.cpus[1], "--size", o.size, "--duration", o.duration, "--runs", o.runs, *words,
                     "--network", ends.network(), "--json", bench.json],
        ["--role", "reflector", "--send", ends.channel(hosts.b, 2), "--receive", ends.channel(hosts.b, 1), "--cpu", o.cpus[1]]))
    say(f"JSON: {bench.json}")
    return 0
