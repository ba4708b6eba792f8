# SPDX-License-Identifier: Apache-2.0
"""What a message costs a receiver that does not want it.

Of 10,000 topics with 1 % subscribed to against all of them, rejected by label, by bitmap, by selector, and by the summary of its
packet. In one process, from the cache, without a network: rows take turns, and each has the median of 31 runs.
"""
import subprocess

from runner import options as opt
from runner.session import BIND, fail, say

OPTIONS = (opt.number("cpu", 0, 0, 4095, "the CPU to run on"), *opt.OUTPUT)


def run(bench):
    bench.prepare(namespaces=False)
    done = subprocess.run([*BIND, "taskset", "-c", str(bench.o.cpu), bench.programs / "filter", bench.json], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        fail("the benchmark failed", done.returncode)
    print(done.stdout, end="")
    (bench.results / "filter.txt").write_text(done.stdout, encoding="utf-8")
    say(f"JSON: {bench.json}")
    return 0
