# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share whose table is made in Python of files that their processes wrote (bench/steady.sh)."""
import argparse
import json
import math
import pathlib


class Files:
    """The command line, and the figures of the processes: NAME.py DIRECTORY JSON [--OPTION VALUE...]"""

    def __init__(self, options):
        parser = argparse.ArgumentParser()
        parser.add_argument("directory", type=pathlib.Path)
        parser.add_argument("json")
        for option in options:
            parser.add_argument(f"--{option}", required=True)
        self.arguments = parser.parse_args()

    def __getattr__(self, name):
        return getattr(self.arguments, name)

    def load(self, name):
        return json.loads((self.directory / f"{name}.json").read_text(encoding="utf-8"))

    def write(self, benchmark, machine, rows):
        """The JSON, of the same form as that of all benchmarks."""
        network = {"network": "veth between network namespaces, MTU 1500"}
        machine = {**machine, **network, "peer": machine_text(machine)}
        with open(self.json, "w", encoding="utf-8") as file:
            json.dump({"benchmark": benchmark, "machine": machine, "rows": rows}, file, indent=2)
            file.write("\n")


def machine_text(machine):
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB, {machine['kernel']}"


def number(value, digits=0):
    """- if it was not measured."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def ratio(value, reference):
    return None if value is None or not reference else value / reference


def head(machine, *lines):
    """What a table begins with: the machine, then what was measured."""
    print(f"machine   {machine_text(machine)}")
    for at, line in enumerate(lines):
        print(f"{'measured' if at == 0 else '':<9} {line}")
    print()


def table(heads, rows):
    """heads: lines of words above the columns; the first column is text, the others are numbers."""
    lines = [*heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [word.rjust(width) for word, width in zip(line[1:], widths[1:])]
        print("  ".join(cells).rstrip())


def counted(counters):
    """Those that are not zero."""
    return ", ".join(f"{name} {value}" for name, value in counters.items() if value) or "none"
