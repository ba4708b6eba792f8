#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llm-key as its users run it.

    tests/keys/llm_key.py LLM_KEY
"""
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile

program = sys.argv[1]
problems = []


def run(*arguments, status=0, says=""):
    """Runs the program; notes it if the status, or the text of both outputs, is not the expected one. Returns that text."""
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    if done.returncode != status or says not in text:
        problems.append(f"llm-key {' '.join(map(str, arguments))}: status {done.returncode}, not {status}, or no \"{says}\" in: {text}")
    return text


def keys_of(path):
    return [line.split()[4] for line in path.read_text(encoding="ascii").splitlines() if not line.startswith("#")]


def check_life_of_a_file(path):
    text = run("new", path, says="aes-128-gcm")
    if stat.S_IMODE(path.stat().st_mode) != 0o600:
        problems.append(f"its mode is {path.stat().st_mode:o}")
    run("new", path, status=1, says="exists")
    run("check", path, says="epoch 1")
    run("check", path, "239.192.1.1:5001", says="epoch 1")
    run("epoch", "--channel", "shm-*", "--suite", "aes-256-gcm", "--in", "0", path, says="shm-*")
    run("epoch", path, says="later")
    text += run("show", path, says="aes-256-gcm")
    keys = keys_of(path)
    if len(set(keys)) != 4 or any(key in text for key in keys):
        problems.append(f"four different keys were to be made and none shown: {text}")
    # The next epoch begins before the last one of its pattern ends, with the suite of that one.
    rows = [line.split() for line in run("show", path).splitlines()[1:]]
    by_pattern = {}
    for row in rows:
        by_pattern.setdefault(row[6], []).append(row)
    for first, second in by_pattern.values():
        if not second[2] < first[3] or first[4] != second[4] or first[5] == second[5]:
            problems.append(f"{second} does not follow {first}")
    if list(path.parent.glob("*.new")):
        problems.append("a file is left over")


def check_refusals(path):
    run("check", path, "nothing", says="epoch")
    os.chmod(path, 0o644)
    run("check", path, status=1, says="chmod 0600")
    run("epoch", path, status=1, says="chmod 0600")
    os.chmod(path, 0o600)
    whole = path.read_text(encoding="ascii")
    path.write_text(whole[:-1], encoding="ascii")
    run("show", path, status=1, says="line 5: the last line is cut")
    path.write_text(re.sub(r"(?m)^(\d+) \S+ \S+", r"\1 2020-01-01 2020-01-02", whole), encoding="ascii")
    run("check", path, status=1, says="ended at 2020-01-02T00:00:00Z")
    run("epoch", "--in", "0", path, says="valid")
    run("check", path, says="epoch")
    run("check", path.parent / "none", status=1, says="llm-key new makes one")
    run("new", path.parent / "no" / "such", status=1, says="cannot be made")


def check_what_the_library_refuses(path):
    run("epoch", "--channel", "a*", "--in", "0", path, says="a*")
    lines = path.read_text(encoding="ascii").splitlines()
    fields = lines[-1].split()
    path.write_text("\n".join([*lines, " ".join([*fields[:5], "ab*"])]) + "\n", encoding="ascii")
    run("check", path, "abc", status=1, says="both patterns match")
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


def check_replacement(path):
    left = path.with_name(path.name + ".new")
    left.write_text("", encoding="ascii")
    run("epoch", "--in", "0", path, status=1, says="remove it first")
    left.unlink()
    # So the owner of a file does not change by it.
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        run("epoch", "--in", "0", path, status=1, says="user 65534")
        os.chown(path, 0, 0)


def check_pair(path):
    public = pathlib.Path(f"{path}.pub")
    text = run("pair", path, says="seal_keys")
    if stat.S_IMODE(path.stat().st_mode) != 0o600 or stat.S_IMODE(public.stat().st_mode) & 0o022:
        problems.append("a pair has wrong modes")
    if "BEGIN PRIVATE KEY" not in path.read_text(encoding="ascii") or "BEGIN PUBLIC KEY" not in public.read_text(encoding="ascii"):
        problems.append("a pair is not in PEM")
    if path.read_text(encoding="ascii").splitlines()[1] in text:
        problems.append("a private key was shown")
    run("pair", path, status=1, says="exists")
    path.unlink()
    run("pair", path, status=1, says="exists")
    if path.exists():
        problems.append("a private key without its public one is left over")


def check_arguments(path):
    run("--help", says="usage: llm-key new")
    run(status=2, says="new, epoch, check, show or pair")
    run("rotate", path, status=2, says="rotate")
    run("new", status=2, says="file")
    run("new", "--suite", "rot13", path, status=2, says="rot13")
    run("new", "--suite", status=2, says="value")
    run("new", "--days", "0", path, status=2, says="1 to 36500")
    run("new", "--days", "-1", path, status=2, says="1 to 36500")
    run("new", "--in", "5", path, status=2, says="no such option")
    run("new", "--channel", "a b", path, status=2, says="printable")
    run("show", path, path, status=2, says="too many")


with tempfile.TemporaryDirectory() as directory:
    place = pathlib.Path(directory) / "group.keys"
    check_life_of_a_file(place)
    check_refusals(place)
    check_what_the_library_refuses(place)
    check_replacement(place)
    check_arguments(place)
    check_pair(pathlib.Path(directory) / "prices.seal")
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
