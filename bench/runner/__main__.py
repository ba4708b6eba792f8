# SPDX-License-Identifier: Apache-2.0
"""bench/run: runs the scenario of a command."""
import importlib
import os
import pathlib
import sys

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[0:1] = map(str, (BENCH, BENCH.parent / "tests"))
from runner.options import Parser, parse  # noqa: E402
from runner.session import ROOT, Bench, Failed, request, say  # noqa: E402

COMMANDS = ("reflector", "throughput", "cost", "groups", "topics", "transports", "batching", "requests", "slow", "join", "kept", "assured", "store",
            "destinations", "rate", "watch", "filter", "overhead", "order", "availability", "security", "peers", "compare", "market-data",
            "fan-out", "scale")
# Checks of the library's guarantees, which are also run as tests.
EXACT = ("rate", "watch")


def scenario_of(name):
    folder = "exact" if name in EXACT else "scenarios"
    return importlib.import_module(f"{folder}.{name.replace('-', '_')}")


def help_text():
    lines = ["usage: bench/run [reflector] [OPTION...]"]
    for name in COMMANDS:
        about = scenario_of(name).__doc__.strip().split("\n")[0]
        lines.append(f"       bench/run {name:<12} {about}")
    lines.append("       bench/run doctor       fitness of this host for libllm; the same as tools/llm-doctor")
    lines.append("""
Builds libllm, makes two hosts joined by a cable (network namespaces and veth), runs one end of the benchmark on each, one CPU core
each, and prints the results, with those of bare UDP multicast in the same run. As root it installs missing packages; without root it
uses unprivileged namespaces, else loopback, and says so. Each command has its own --help.
""")
    return "\n".join(lines)


def main():
    arguments = sys.argv[1:]
    if arguments[:1] in (["--help"], ["-h"]):
        print(help_text())
        return 0
    name = arguments.pop(0) if arguments and not arguments[0].startswith("-") else "reflector"
    if name == "doctor":
        os.execv(ROOT / "tools/llm-doctor", ["llm-doctor", *arguments])
    if name not in COMMANDS:
        Parser(prog="bench/run").error(f"{name}: no such benchmark; there are {', '.join(COMMANDS)} and doctor")
    scenario = scenario_of(name)
    options = parse(name, scenario.__doc__, scenario.OPTIONS, arguments)
    request("ungroup")
    try:
        return scenario.run(Bench(name, options))
    except Failed as failed:
        say(f"the benchmark failed: {failed}")
        return 1
    except KeyboardInterrupt:
        return 130


sys.exit(main())
