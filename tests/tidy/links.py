#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the links of every Markdown file: links.py SOURCE_ROOT

A link to a file must lead to a file or directory of the tree, and #anchor to a heading of the file that it names. Links to other
sites are not followed. Prints file:line: what is wrong; what to do. Exit status: 0 if every link resolves.
"""
import os
import pathlib
import re
import sys
import urllib.parse

BUILD_FILE = "build.ninja"  # marks a build directory, which is no part of the source
# Text, then a target, with or without a title. Images begin with an exclamation mark, which does not matter here.
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]^]+\]:\s+<?(\S+?)>?(?:\s+\"[^\"]*\")?\s*$")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*$")
ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")


def documents(root):
    """Every Markdown file of the source."""
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith(".")
                          and not (pathlib.Path(directory) / name / BUILD_FILE).exists()
                          and (pathlib.Path(directory) / name) != root / "build")
        for file in sorted(files):
            if file.endswith(".md"):
                yield pathlib.Path(directory) / file


def text_lines(path):
    """(number, line) outside code: fenced and indented blocks are left out, spans are blanked."""
    fence = None
    blank = True
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence is not None:
            fence = None if mark and mark.group(1).startswith(fence) else fence
            continue
        if mark:
            fence = mark.group(1)
            continue
        indented = line.startswith("    ") and blank
        blank = not line.strip() or indented
        if not indented:
            yield number, line


def paragraphs(path):
    """(number, text) of the first line and the whole of each paragraph: a link may be broken into two lines."""
    first, lines = 0, []
    for number, line in list(text_lines(path)) + [(0, "")]:
        if line.strip() and not HEADING.match(line) and not line.startswith("|"):
            first = first or number
            lines.append(line)
            continue
        if lines:
            yield first, "\n".join(lines)
        first, lines = 0, []
        if line.strip():
            yield number, line


def slug(heading):
    """The anchor that GitHub makes of a heading; MkDocs makes the same for headings with referenced anchors."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[`*]", "", text).strip().lower()
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", text))


def anchors(path):
    """The anchors of a document; of equal headings the second gets -1, the third -2."""
    found, seen = set(), {}
    for _, line in text_lines(path):
        found.update(ANCHOR.findall(line))
        heading = HEADING.match(line)
        if heading:
            name = slug(heading.group(1))
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
    return found


def targets(path):
    """(line, target) of each link."""
    for number, text in paragraphs(path):
        text = re.sub(r"(`+).+?\1", lambda span: re.sub(r"[^\n]", " ", span.group(0)), text, flags=re.S)
        for match in LINK.finditer(text):
            yield number + text.count("\n", 0, match.end()), match.group(1)
        for offset, line in enumerate(text.split("\n")):
            reference = REFERENCE.match(line)
            if reference:
                yield number + offset, reference.group(1)


def fault(root, path, target):
    """The fault of a link, and its remedy; None if there is none."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    name, _, anchor = target.partition("#")
    file = (path.parent / urllib.parse.unquote(name)).resolve() if name else path
    if not file.exists():
        return "leads nowhere", "correct the path"
    if root not in file.parents and file != root:
        return "leads out of the tree", "link to a file of this repository"
    if anchor and (file.suffix != ".md" or anchor not in anchors(file)):
        return f"has an anchor that {file.relative_to(root)} does not have", "name a heading: lower case, hyphens for blanks"
    return None


def problems(root):
    """One line for each link that does not resolve."""
    root = pathlib.Path(root).resolve()
    for path in documents(root):
        for number, target in targets(path):
            wrong = fault(root, path, target)
            if wrong:
                yield f"{path.relative_to(root)}:{number}: the link to {target or '(nothing)'} {wrong[0]}; {wrong[1]}"


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(problems(arguments[0]))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
