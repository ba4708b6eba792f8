#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the subjects of commits: `area: imperative`, at most 65 characters. commits.py SOURCE_ROOT

Commits before the rule are left alone. Exits with 77 where there is no history: a release, or a shallow clone.
"""
import re
import subprocess
import sys

BEFORE_THE_RULE = "1833086"
LENGTH_MAX = 65
# An area is a folder, a file without its suffix, or a word for a part of the tree.
SUBJECT = re.compile(r"[a-z0-9][a-z0-9_./+-]*(, [a-z0-9][a-z0-9_./+-]*)*: [a-z]")
RIDDLES = re.compile(r": (who|whoever|what|whatever|whether|which)\b")


def faults(subject):
    if len(subject) > LENGTH_MAX:
        yield f"{len(subject)} characters, at most {LENGTH_MAX}"
    if not SUBJECT.match(subject):
        yield "must be `area: imperative`, in lower case"
    if RIDDLES.search(subject):
        yield "says no imperative"


def git(root, *arguments):
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout


def main():
    try:
        log = git(sys.argv[1], "log", "--no-merges", "--format=%h %s", BEFORE_THE_RULE + "..HEAD")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no history to check: {getattr(error, 'stderr', '') or error}")
        sys.exit(77)
    count = 0
    for line in log.splitlines():
        commit, subject = line.split(" ", 1)
        for fault in faults(subject):
            count += 1
            print(f"{commit} {subject}: {fault}")
    sys.exit(count > 0)


main()
