#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites sources, scripts and configuration for the names of docs/upgrading.md.

    docs/upgrade.py [--check] FILE_OR_DIRECTORY...

Directories are searched for text files; .git and build directories are left out. Exit status: 0, or with --check 1 if a file would
change; 2 for bad arguments. Run it once: a name that is both an old and a new one (send_blocked) is renamed by each run.
"""
import argparse
import pathlib
import re
import sys

TABLES = pathlib.Path(__file__).resolve().with_name("upgrading.md")
LEFT_OUT = {".git", "build", "builddir", "node_modules"}
BY_HAND = {
    "llm_transmitter_handle": "pass the handlers to llm_transmitter_open()",
    "llm_transmitter_shed": "use llm_transmitter_suspend(), _resume(), _suspend_all() or _resume_all()",
    "llm_listener_handlers": "the handler request is connect",
}


def renames():
    """Old name to new one, of the tables after "By hand"; "struct NAME" where a function has the same name."""
    text = TABLES.read_text(encoding="utf-8").split("\n## Functions\n", 1)[1]
    rows = re.findall(r"^\| `(struct )?(\w+)` \| `(?:struct )?(\w+)` \|$", text, re.M)
    names = {old: new for kind, old, new in rows if not kind}
    return names | {(f"struct {old}" if old in names else old): (f"struct {new}" if old in names else new)
                    for kind, old, new in rows if kind}


def arguments(text, start):
    """The bounds of the arguments of the call whose opening bracket is before `start`, or None if it does not end."""
    bounds, begin, depth, i = [], start, 0, start
    while i < len(text):
        char = text[i]
        if char in "\"'":
            i += 1
            while i < len(text) and text[i] != char:
                i += 2 if text[i] == "\\" else 1
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                return bounds + [(begin, i)]
            depth -= 1
        elif char == "," and depth == 0:
            bounds.append((begin, i))
            begin = i + 1
        i += 1
    return None


def calls(text, name, count, change):
    """Changes the arguments of every call of a function that has `count` of them; the last call first."""
    for match in reversed(list(re.finditer(rf"\b{name}\(", text))):
        bounds = arguments(text, match.end())
        if bounds is not None and len(bounds) == count and not text.startswith("struct ", match.end()):  # no prototype
            words = change([text[begin:end] for begin, end in bounds])
            text = text[:match.end()] + ",".join(words) + text[bounds[-1][1]:]
    return text


def rewrite(text, names, pattern):
    text = calls(text, "llm_transmitter_open", 4, lambda a: a[:3] + [" NULL"] + a[3:])
    text = calls(text, "llm_connect", 6, lambda a: a[:3] + [a[4], a[3], a[5]])
    return pattern.sub(lambda match: names[match.group(0)], text)


def files(paths):
    for path in map(pathlib.Path, paths):
        if not path.exists():
            sys.exit(f"upgrade.py: {path}: no such file or directory")
        if path.is_file():
            yield path
            continue
        for found in sorted(path.rglob("*")):
            if found.is_file() and not found.is_symlink() and not LEFT_OUT & set(found.relative_to(path).parts):
                yield found


def main():
    parser = argparse.ArgumentParser(description="Rewrites names of libllm 0.1 into those of 0.2, by docs/upgrading.md.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if something would change")
    parser.add_argument("paths", nargs="+", metavar="FILE_OR_DIRECTORY")
    options = parser.parse_args()
    names = renames()
    pattern = re.compile(r"\b(?:" + "|".join(sorted(map(re.escape, names), reverse=True)) + r")\b")
    changed = 0
    for path in files(options.paths):
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, PermissionError):
            continue
        better = rewrite(text, names, pattern)
        for number, line in enumerate(better.splitlines(), 1):
            for word, remedy in BY_HAND.items():
                if re.search(rf"\b{word}\b", line):
                    print(f"{path}:{number}: by hand: {word}: {remedy}")
        if better != text:
            changed += 1
            print(f"{path}: {'would change' if options.check else 'rewritten'}")
            if not options.check:
                path.write_text(better, encoding="utf-8")
    sys.exit(1 if options.check and changed else 0)


if __name__ == "__main__":
    main()
