#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every C file with .clang-format, and has clang-tidy look at the library by .clang-tidy.

    tests/tidy/style.py format SOURCE_ROOT
    tests/tidy/style.py lint SOURCE_ROOT BUILD_DIR

`clang-format-14 -i FILE` mends what the first finds. Exit status: 0, 1 with what is wrong, 77 if the program is not installed.
"""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys


def tracked(root, *patterns):
    done = subprocess.run(["git", "-C", root, "ls-files", "-z", *patterns], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [name for name in done.stdout.split("\0") if name and (root / name).exists()]
    return [str(path.relative_to(root)) for pattern in patterns for path in root.rglob(pattern.rsplit("/", 1)[-1])]


def run(program, files, arguments, root):
    """The program's output about the files, a few files at a time on every core."""
    runs = [files[i::max(len(files) // 8, 1)] for i in range(max(len(files) // 8, 1))]

    def one(names):
        return subprocess.run([program, *arguments, *names], capture_output=True, text=True, check=False, cwd=root)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(one, runs):
            yield done.returncode, done.stdout + done.stderr


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("format", "lint") or (sys.argv[1] == "lint") != (len(sys.argv) == 4):
        sys.exit(__doc__.split("\n\n")[1])
    program, package = ("clang-format-14", "clang-format-14") if sys.argv[1] == "format" else ("clang-tidy-14", "clang-tidy-14")
    if shutil.which(program) is None:
        print(f"style.py: {program} is not installed: apt-get install {package}")
        sys.exit(77)
    root = pathlib.Path(sys.argv[2]).resolve()
    if sys.argv[1] == "format":
        files, arguments = tracked(root, "*.c", "*.h", "*.cpp", "*.hpp"), ["--dry-run", "-Werror"]
    else:
        build = pathlib.Path(sys.argv[3]).resolve()
        compiled = (build / "compile_commands.json").read_text(encoding="utf-8")
        files = [name for name in tracked(root, "src/*.c", "transports/*.c") if f"/{name}\"" in compiled]
        arguments = ["-p", str(build), "--quiet"]
    if not files:
        sys.exit(f"style.py: {root}: no C files found")
    wrong = "\n".join(text for status, text in run(program, files, arguments, root) if status != 0)
    if wrong and sys.argv[1] == "format":
        names = sorted({line.split(":")[0] for line in wrong.splitlines() if ": error: " in line})
        sys.exit("style.py: not as .clang-format says; this mends it: clang-format-14 -i " + " ".join(names))
    if wrong:
        sys.exit(f"{wrong}\nstyle.py: clang-tidy-14 found faults")
    print(f"style: {len(files)} files: ok")


if __name__ == "__main__":
    main()
