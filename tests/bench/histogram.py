#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the histograms of the benchmarks against PyPI's hdrhistogram: histogram.py PROGRAM BUILD_DIR

PROGRAM is what tests/bench/histogram.c became. hdrhistogram is taken from where Python finds it, else installed into BUILD_DIR/venv.
Exit status 77, skipped: it cannot be had.
"""
import json
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from runner.histogram import Histogram  # noqa: E402

MOST = 68 * 10**9  # ns; longer ones are counted alike
SHARES = (0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1)


def find_hdrhistogram(build):
    """The module's class; None if it is not available."""
    venv = pathlib.Path(build) / "venv"
    for _ in range(2):
        sys.path += [str(path) for path in venv.glob("lib/python*/site-packages")]
        try:
            from hdrh.histogram import HdrHistogram
            return HdrHistogram
        except ImportError:
            for command in ([sys.executable, "-m", "venv", venv], [venv / "bin/pip", "install", "-q", "hdrhistogram"]):
                if subprocess.run(command, capture_output=True, check=False).returncode:
                    return None
    return None


def samples(seed):
    """Values of all magnitudes, and at the edges of buckets."""
    chance = random.Random(seed)
    edges = [2**power + offset for power in range(1, 36) for offset in (-1, 0, 1)]
    return edges + [int(10 ** chance.uniform(0, 10.8)) for _ in range(20000)] + [int(chance.expovariate(1 / 5000)) + 1 for _ in range(20000)]


def counted(program, values):
    done = subprocess.run([program], input="\n".join(map(str, values)), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["histogram"]


def main():
    program, build = sys.argv[1:]
    reference_class = find_hdrhistogram(build)
    if reference_class is None:
        print("hdrhistogram cannot be had from PyPI")
        return 77
    wrong, merged, reference = [], Histogram(), reference_class(1, MOST, 3)
    for seed in range(3):
        values = samples(seed)
        found = counted(program, values)
        own = reference_class(1, MOST, 3)
        for value in values:
            own.record_value(value)
            reference.record_value(value)
        expected = {item.value_iterated_to: item.count_at_value_iterated_to for item in own.get_recorded_iterator()}
        buckets = dict(zip(found["counts"][::2], found["counts"][1::2]))
        wrong += [f"seed {seed}: bucket {value}: {buckets.get(value)}, not {expected.get(value)}"
                  for value in sorted({*buckets, *expected}) if buckets.get(value) != expected.get(value)]
        merged.add(found)
    for share in SHARES:
        expected = min(reference.get_value_at_percentile(share * 100), merged.max)
        if merged.percentile(share) != expected:
            wrong.append(f"percentile {share}: {merged.percentile(share)}, not {expected}")
    if abs(merged.mean() / reference.get_mean_value() - 1) > 1e-3:
        wrong.append(f"mean {merged.mean()}, not {reference.get_mean_value()}")
    print("\n".join(wrong[:20]) or f"{len(merged)} values alike")
    return 1 if wrong else 0


sys.exit(main())
