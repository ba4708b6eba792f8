#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the instructions of a message between languages, with valgrind's callgrind.

    bench/languages.py C_PROGRAM [--check] [--cpp PROGRAM] [--rust PROGRAM]

The programs are built from bench/languages. Counted are all instructions of sending a burst, and of polling until it is delivered: the
application's, the language's, the library's and libc's. Prints them for each message, and the ratio to those of C.

  --check  fails if a ratio is above its bound: 1.01 for C++, 1.02 for Rust. Exit status 77 (skipped): valgrind is missing.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cost  # noqa: E402  the options that keep everything away that depends on time

RATIO_MAX = {"cpp": 1.01, "rust": 1.02}
SKIPPED = 77
SIZE = 45
# Functions that are counted, the kind of the receiver, bursts, and messages of each.
PHASES = {"send stream": ("counted_send", "one", 60, 400), "receive stream": ("counted_receive", "one", 60, 400),
          "receive together": ("counted_receive", "together", 60, 400),
          "send batch of 8": ("counted_send", "one", 1500, 8), "receive batch of 8": ("counted_receive", "one", 1500, 8)}


def per_message(program, function, kind, bursts, messages):
    """Returns the instructions during a function."""
    channel = cost.NETWORKS["loop"][0].format(1) + "&" + cost.OPTIONS
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind"
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect={function}*", f"--callgrind-out-file={out}",
                   program, channel, kind, str(bursts), str(messages)]
        # Bind symbols before the count.
        done = subprocess.run(command, env=dict(os.environ, LD_BIND_NOW="1"), capture_output=True, text=True, check=False)
        if done.returncode != 0 or done.stdout.split() != [str(bursts * messages), str(bursts * messages * SIZE)]:
            cost.fail(f"{' '.join(command)}: status {done.returncode}, not all messages came\n{done.stdout}{done.stderr}")
        total = re.search(r"^(?:summary|totals): (\d+)$", out.read_text(encoding="utf-8"), re.M)
    return int(total.group(1)) / (bursts * messages)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--check", action="store_true")
    for language in RATIO_MAX:
        parser.add_argument(f"--{language}")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        cost.fail("valgrind is not installed: someone with root has to run: apt-get install valgrind", SKIPPED)
    programs = {language: getattr(options, language) for language in RATIO_MAX if getattr(options, language)}
    above = 0
    print(f"instructions for each message of {SIZE} bytes, the application's included")
    print(f"{'phase':18} {'c':>9}" + "".join(f" {language:>9} {'ratio':>7}" for language in programs))
    for phase, counted in PHASES.items():
        base = per_message(options.program, *counted)
        line = f"{phase:18} {base:9.2f}"
        for language, program in programs.items():
            figure = per_message(program, *counted)
            line += f" {figure:9.2f} {figure / base:7.4f}"
            above += figure / base > RATIO_MAX[language]
        print(line)
    if options.check and above:
        print("a ratio is above its bound: " + ", ".join(f"{language} {most}" for language, most in RATIO_MAX.items()))
    return 1 if options.check and above else 0


if __name__ == "__main__":
    sys.exit(main())
