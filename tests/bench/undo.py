#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what bench/run undoes at its end, however it ends: groups of sessions that are off, and directories."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNNER = """
import os, sys
def request(*words):
    os.write(7, (" ".join(words) + "\\n").encode())
    return os.read(8, 4096).decode().split()
assert request("ungroup") == ["0"]
print(request("directory", sys.argv[1])[1], flush=True)
sys.stdin.read()
"""
PATIENCE_S = 60 * float(os.environ.get("LLM_SLOWNESS") or 1)


def ended(how, root, groups, temporary):
    """The setting and the directory while the script runs, and what it said, after it has ended."""
    with subprocess.Popen([root / "bench/run", temporary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "BENCH_AUTOGROUP": groups, "TMPDIR": str(temporary)}) as run:
        directory = pathlib.Path(run.stdout.readline().strip())
        found = pathlib.Path(groups).read_text(encoding="ascii").strip(), directory.is_dir()
        if how is not None:
            run.send_signal(how)
        said = run.communicate()[1]
    return (*found, said)


def clean_within(temporary, groups, expected):
    """Whether the setting is as expected, and the directory empty, some time after a script has ended."""
    until = time.monotonic() + PATIENCE_S
    while (found := (groups.read_text(encoding="ascii").strip(), list(temporary.iterdir()))) != (expected, []):
        if time.monotonic() > until:
            raise AssertionError(f"left behind: {found}")
        time.sleep(0.01)


def main():
    with tempfile.TemporaryDirectory() as name:
        root, temporary, groups = (pathlib.Path(name) / part for part in ("root", "temporary", "groups"))
        for part in ("bench", "tests", "bench/runner"):
            (root / part).mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        for part in ("bench/run", "tests/setup.sh"):
            shutil.copy(ROOT / part, root / part)
        (root / "bench/runner/__main__.py").write_text(RUNNER, encoding="ascii")
        for how in (None, signal.SIGTERM, signal.SIGKILL):
            for before in ("1", "0"):
                groups.write_text(before + "\n", encoding="ascii")
                off, there, said = ended(how, root, str(groups), temporary)
                assert (off, there, "groups of sessions" in said) == ("0", True, before == "1"), (how, off, there, said)
                clean_within(temporary, groups, before)
        _, there, said = ended(None, root, os.devnull, temporary)
        assert there and "groups" not in said, said


if __name__ == "__main__":
    main()
