#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Result lines of tests/run: `ok NAME`, `FAIL NAME` or `skip NAME: why`.

results.py meson LABEL PLAN LOG   prints one for each test that meson ran (LOG: testlog.json), and FAIL for each test of
                                  PLAN (the output of `meson test --list`) that is not in LOG
results.py programs DIR TEST...   prints the programs that these tests of a build directory start
results.py missing LINES          prints the names that LINES announces (`plan NAME`) and gives no result for
"""
import collections
import json
import os
import re
import subprocess
import sys

WORDS = {"OK": "ok", "EXPECTEDFAIL": "ok", "SKIP": "skip"}


def test_name(text):
    """The name alone, of a test that meson lists with its project and suites."""
    return text.split(" / ")[-1]


def meson_result(label, test):
    word = WORDS.get(test["result"], "FAIL")
    said = (test.get("stdout", "") + test.get("stderr", "")).strip().splitlines()
    why = f": {said[-1] if said else 'needs what is not here'}" if word == "skip" else ""
    print(f'{word} {label}: {test_name(test["name"])} ({test["duration"]:.1f} s){why}')
    if word == "FAIL":
        print(f'    {test["result"].lower()}, status {test.get("returncode")}')
        for text in said[-40:]:
            print("    " + text)


def meson(label, plan, log):
    wanted = collections.Counter(test_name(line.rstrip("\n")) for line in open(plan, encoding="utf-8") if " / " in line)
    for line in open(log, encoding="utf-8"):
        test = json.loads(line)
        meson_result(label, test)
        wanted[test_name(test["name"])] -= 1
    for name in (+wanted).elements():
        print(f"FAIL {label}: {name}: did not run, as meson ended before")


def programs(directory, *names):
    """The targets of `ninja -C DIRECTORY` that build these tests only."""
    listed = json.loads(subprocess.run(["meson", "introspect", "--tests", directory], check=True, capture_output=True).stdout)
    built = os.path.abspath(directory) + os.sep
    for path in sorted({word for test in listed if test["name"] in names for word in test["cmd"] if word.startswith(built)}):
        print(os.path.relpath(path, built))


def has_result(name, results):
    """A test has a line of its own, or one by which the part that it belongs to is skipped."""
    return any(result == name or result.startswith((name + " (", name + ":")) or
               word == "skip" and name.startswith(result.split(":")[0] + ":")
               for word, result in results)


def missing(path):
    lines = open(path, encoding="utf-8", errors="replace").read().splitlines()
    results = [match.groups() for match in (re.match(r"(ok|FAIL|skip) (.*)", line) for line in lines) if match]
    for line in lines:
        if line.startswith("plan ") and not has_result(line[5:], results):
            print(line[5:])


if __name__ == "__main__":
    {"meson": meson, "missing": missing, "programs": programs}[sys.argv[1]](*sys.argv[2:])
