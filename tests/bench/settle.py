#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the wait for the memory of ended processes, between measurements."""
import os
import pathlib
import sys
import tempfile
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
os.environ.setdefault("BENCH_SCRATCH", tempfile.gettempdir())
from runner import session  # noqa: E402

FEATURES = {"0110010100000000": True, "0110000100000000": False, "": False}


def check_features():
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        assert not session.returns_memory(directory / "none")
        for number, (bits, expected) in enumerate(FEATURES.items()):
            balloons = directory / str(number)
            (balloons / "virtio0").mkdir(parents=True)
            (balloons / "virtio0/features").write_text(f"{bits}\n", encoding="ascii")
            assert session.returns_memory(balloons) is expected, bits


class Clock:
    """Time that passes only in sleep()."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def end_process(how):
    processes = session.Processes()
    processes.start(session.Host("", "", ""), "true", ["true"], "role")
    if how == "killed":
        processes.end()
    else:
        processes.finish()


def waited_s(ended, duration, returns, parts=0):
    """How long a turn waits after a process has ended. parts: of memory, returned 2 s after one another."""
    session.time = clock = Clock()
    session.returns_memory = lambda: returns
    session.returned_kib = lambda: min(int((clock.now - began) / 2), parts)
    session.Processes.ended_at = -session.RETURN_S
    began = clock.now
    if ended:
        end_process(ended)
    bench = session.Bench("settle", types.SimpleNamespace(results=tempfile.gettempdir(), duration=duration, runs=1))
    return bench.turns([()], lambda _bench, _run: clock.now, "a turn")[()][0] - began


def main():
    check_features()
    for ended in ("closed", "killed"):
        assert session.RETURN_S <= waited_s(ended, 1, True) < session.RETURN_S + 0.2
    assert 2 * 3 + session.RETURN_S - 0.2 <= waited_s("closed", 1, True, 3) < 2 * 3 + session.RETURN_S + 0.2, "three parts"
    assert session.RETURN_MAX_S <= waited_s("closed", 1, True, 1000) < session.RETURN_MAX_S + 0.2, "no end"
    assert waited_s(None, 1, True) == 0, "no process ended"
    assert waited_s("closed", 1, False) == 0, "no memory is returned"
    assert waited_s("closed", 0.9, True) == 0, "a short measurement"


if __name__ == "__main__":
    main()
