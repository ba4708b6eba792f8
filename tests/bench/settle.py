#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the wait for the memory of ended processes, between measurements."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
os.environ.setdefault("BENCH_SCRATCH", tempfile.gettempdir())
from runner import session  # noqa: E402

FEATURES = {"0110010100000000": True, "0110000100000000": False, "": False}


def check_features():
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        assert not session.returns_memory(directory / "none")
        for bits, expected in FEATURES.items():
            (directory / "virtio0").mkdir(exist_ok=True)
            (directory / "virtio0/features").write_text(f"{bits}\n", encoding="ascii")
            assert session.returns_memory(directory) is expected, bits


def waited_s(ended, duration, returns):
    """How long a bench waits after a process has ended."""
    slept = []
    session.time = types.SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    bench = session.Bench("settle", types.SimpleNamespace(results=tempfile.gettempdir(), duration=duration))
    if ended:
        popen = subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = session.Process(bench.processes, "true", popen)
        bench.processes.running.append(process)
        bench.processes.started.append(process)
        if ended == "killed":
            bench.processes.end()
        else:
            bench.processes.finish()
    bench.settle(lambda: returns)
    return sum(slept)


def main():
    check_features()
    for ended in ("closed", "killed"):
        wait_s = waited_s(ended, 1, True)
        assert 0 < wait_s <= session.RETURN_S, wait_s
    assert waited_s(None, 1, True) == 0, "no process ended"
    assert waited_s("closed", 1, False) == 0, "no memory is returned"
    assert waited_s("closed", 0.9, True) == 0, "a short measurement"


if __name__ == "__main__":
    main()
