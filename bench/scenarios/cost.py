# SPDX-License-Identifier: Apache-2.0
"""instructions for each message, under valgrind

docs/performance.md explains the table.
"""
import subprocess

from runner import options as opt
from runner.session import BIND, PACKAGES, RELEASE, ROOT, build, packages

OPTIONS = (opt.flag("profile", "also print the functions with the most instructions"),
           opt.flag("record", "record the figures as the bounds that tests/run checks"))


def run(bench):
    packages(*PACKAGES, "valgrind")
    build(RELEASE, "-Dtests=false", "-Dexamples=false")
    device = bench.programs / "cost_device"
    words = [*BIND, ROOT / "bench/cost.py", bench.programs / "cost", *(("--device", device) if device.exists() else ())]
    words += [f"--{name}" for name in ("profile", "record") if getattr(bench.o, name)]
    return subprocess.run(words, check=False).returncode
