# SPDX-License-Identifier: Apache-2.0
"""Figures, tables and JSON."""
import itertools
import json
import math
import statistics
import sys


def median(values):
    """Median of the values that are not None."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def ratio(value, reference):
    return None if value is None or not reference else value / reference


def number(value, digits=0):
    """Formats a number; "-" if it is None or not finite."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def counted(counters):
    """Lists the counters that are not zero."""
    return ", ".join(f"{name} {value}" for name, value in counters.items() if value) or "none"


def worst(values):
    """Maximum of the values that are not None."""
    return max((value for value in values if value is not None), default=None)


def sums(runs):
    """Sums of the counters of several runs."""
    return {name: sum(run["counters"][name] for run in runs) for name in runs[0]["counters"]}


def totals(tracks):
    """Sums of the figures of several receivers' streams."""
    return {name: sum(track[name] for track in tracks) for name in ("received", "lost", "unsaid", "duplicated", "changed")}


def faults_of(track):
    """Messages of a receiver's stream that were lost, missing without an event, repeated or changed."""
    return track["lost"] + track["unsaid"] + track["duplicated"] + track["changed"]


def medians(figures, names=("median", "p99")):
    """Medians over the runs, by name."""
    figures = list(figures)
    return {name: median(run[name] for run in figures) for name in names}


def field_of(row, path):
    """A field of a row, or a field of a field: hop_us.median. None if the row is None."""
    for name in path.split("."):
        row = row and row[name]
    return row


def text_of(row, source, digits):
    """Text of a cell. source: path of a field, or function of the row; digits: decimals of a number, None for text."""
    value = source(row) if callable(source) else field_of(row, source)
    return str(value) if digits is None else number(value, digits)


def columns_of(heads, words, path, digits):
    """A column for each word, under these heads, which may be fewer. path: path of the field, with {} for the word."""
    return tuple((head, word.replace("_", "."), path.format(word), digits)
                 for head, word in itertools.zip_longest(heads, words, fillvalue=""))


def machine_text(machine):
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB, {machine['kernel']}"


def rounded(value):
    """Rounds numbers to their significant digits."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    if isinstance(value, float):
        return None if not math.isfinite(value) else int(value) if value == int(value) else round(value, 4)
    return value


class Report:
    """The table, which is printed and written to a file, and the JSON."""

    def __init__(self, bench, before=()):
        self.bench, self.lines, self.wrong, self.printed = bench, list(before), [], len(before)
        self.setting = {"network": bench.hosts.network} if bench.hosts else {"network": "none"}

    def print(self, *lines):
        self.lines += lines or [""]

    def head(self, machine, *lines):
        """Prints the lines above a table: the machine, then the measurement."""
        self.print(f"machine   {machine_text(machine)}")
        self.print(*(f"{'measured' if at == 0 else '':<9} {line}" for at, line in enumerate(lines)), "")

    def study(self, machine, rows, head, columns, faults=()):
        """Reports a benchmark with one table: JSON, head, rows and faults. Returns the exit status."""
        self.write_json(machine, rows)
        self.head(machine, *head)
        self.rows(columns, rows)
        for sentence in faults:
            self.fail(sentence)
        return self.finish()

    def table(self, heads, rows):
        """heads: lines of words above the columns. The first column is text, the others are numbers."""
        lines = [*heads, *rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        for line in lines:
            cells = [line[0].ljust(widths[0])] + [word.rjust(width) for word, width in zip(line[1:], widths[1:])]
            self.print("  ".join(cells).rstrip())

    def rows(self, columns, rows):
        """columns: lines of the head, then source and digits of text_of()."""
        self.table(list(zip(*(column[:-2] for column in columns))),
                   [tuple(text_of(row, *column[-2:]) for column in columns) for row in rows])

    def fail(self, sentence):
        """Marks the command as failed; the reason is printed below the table."""
        self.wrong.append(f"FAILED: {sentence}")

    def write_json(self, machine, rows, **more):
        about = {**machine, "peer": machine_text(machine), "emulated": None, "core_to_core_ns": None, **self.setting}
        self.write({"benchmark": self.bench.name, "machine": about, "rows": rows, **more})

    def write(self, report):
        with open(self.bench.json, "w", encoding="utf-8") as file:
            json.dump(rounded(report), file, indent=2)
            file.write("\n")

    def finish(self):
        """Prints everything. Returns the exit status."""
        text = "\n".join(self.lines + self.wrong) + "\n"
        print("\n".join((self.lines + self.wrong)[self.printed:]), flush=True)
        table = self.bench.results / f"{self.bench.name}.txt"
        table.write_text(text, encoding="utf-8")
        where = f", JSON: {self.bench.json}" if self.bench.json else ""
        print(f"table: {table}{where}", file=sys.stderr)
        return 1 if self.wrong else 0
