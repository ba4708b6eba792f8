# SPDX-License-Identifier: Apache-2.0
"""Options of the commands, declared by the scenarios. Errors are printed as one line, with exit status 2."""
import argparse
import os
import re
import sys


class Parser(argparse.ArgumentParser):
    """Prints errors in the form of all commands of libllm."""

    def error(self, message):
        print(f"{self.prog}: {message.removeprefix('argument ')}\nTry '{self.prog} --help'.", file=sys.stderr)
        sys.exit(2)


def wrong(text):
    raise argparse.ArgumentTypeError(text)


class Option:
    """An option: --NAME, default as text, parser of a value, help text. Default None: the help text states it."""

    def __init__(self, name, default, read, text, metavar=None):
        self.name, self.default, self.read, self.text, self.metavar = name, default, read, text, metavar

    def add(self, parser):
        if self.text is None:
            parser.add_argument(f"--{self.name}", help=argparse.SUPPRESS)
            return
        text = self.text if self.default in (None, "") else f"{self.text} ({self.default})"
        if self.read is bool:
            parser.add_argument(f"--{self.name}", action="store_true", help=self.text)
        else:
            parser.add_argument(f"--{self.name}", default=self.default, type=self.read, metavar=self.metavar,
                                help=text.replace("%", "%%"))


class Word:
    """An optional word without --."""

    def __init__(self, name, allowed, text):
        self.name, self.allowed, self.text = name, allowed, text

    def add(self, parser):
        parser.add_argument(self.name, nargs="?", choices=self.allowed, help=self.text)


def read_number(low, high):
    def read(text):
        if not re.fullmatch(r"[0-9]{1,12}", text):
            wrong(f"{text}: must be a number from {low} to {high}")
        if not low <= int(text) <= high:
            wrong(f"{text} is not between {low} and {high}")
        return int(text)
    return read


def read_numbers(low, high, most=16):
    def read(text):
        if not re.fullmatch(r"[0-9]+(,[0-9]+)*", text) or text.count(",") >= most:
            wrong(f"{text}: must be {most} numbers at most, separated by commas")
        return [read_number(low, high)(number) for number in text.split(",")]
    return read


def number(name, default, low, high, text):
    return Option(name, default and str(default), read_number(low, high), text, "N")


def numbers(name, default, low, high, text, most=16):
    return Option(name, default, read_numbers(low, high, most), text, "N,...")


def words(name, default, allowed, text):
    def read(value):
        if unknown := [word for word in value.split(",") if word not in allowed]:
            wrong(f"{unknown[0] or value}: must be some of these, separated by commas: {' '.join(allowed)}")
        return value.split(",")
    return Option(name, default, read, text, "NAME,...")


def choice(name, default, allowed, text):
    def read(value):
        return value if value in allowed else wrong(f"{value}: must be one of {', '.join(allowed)}")
    return Option(name, default, read, text, "|".join(allowed))


def seconds(name, default, low_ms, high_ms, text):
    def read(value):
        if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", value) or not low_ms <= float(value) * 1e3 <= high_ms:
            wrong(f"{value}: must be seconds from {low_ms / 1e3:g} to {high_ms / 1e3:g}, with at most three decimals")
        return float(value)
    return Option(name, default and str(default), read, text, "SECONDS")


def cpus(default, count, text):
    def read(value):
        if not re.fullmatch(r"[0-9]{1,4}" + r",[0-9]{1,4}" * (count - 1), value):
            wrong(f"{value}: must be {count} CPU numbers separated by commas, such as {'0,1,1'[:2 * count - 1]}")
        return [int(cpu) for cpu in value.split(",")]
    return Option("cpus", default, read, text, ",".join("ABC"[:count]))


def flag(name, text):
    return Option(name, False, bool, text)


def text_option(name, text, pattern=".+", must="", metavar="TEXT", default=""):
    def read(value):
        return value if re.fullmatch(pattern, value) else wrong(f"{value}: {must or 'needs a value'}")
    return Option(name, default, read, text, metavar)


def read_file(path):
    directory = os.path.dirname(path) or "."
    if not path or os.path.isdir(path):
        wrong(f"{path}: is a directory, not a file")
    if not os.path.isdir(directory):
        wrong(f"{path}: there is no directory {directory}")
    if not os.access(directory, os.W_OK):
        wrong(f"{path}: no permission to write in {directory}")
    return os.path.abspath(path)


def read_channel_options(value):
    return wrong(f"{value}: must be KEY=VALUE separated by &, without ? and spaces") if re.search(r"[\s?]", value) else value


# Options of several commands.
RUNS = number("runs", 3, 1, 100, "runs of everything, in turn; medians are reported")
OPTIONS = Option("options", "", read_channel_options, "options of all channels (see llm.h)", "KEY=VALUE&..")
CPUS = cpus("0,1", 2, "the CPU of each end")
JSON = Option("json", None, read_file, "file for the JSON (in the results directory)", "FILE")
RESULTS = text_option("results", "directory for results, including the table (build/bench-results)", metavar="DIR", default=None)
OUTPUT = (JSON, RESULTS)


def size(default=45, low=24, high=65507):
    return number("size", default, low, high, "bytes of a message")


def parse(name, description, declared, arguments):
    parser = Parser(prog=f"bench/run {name}", description=description, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in declared:
        option.add(parser)
    options = parser.parse_args(arguments)
    options.refuse = parser.error
    return options
