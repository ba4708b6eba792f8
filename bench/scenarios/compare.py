# SPDX-License-Identifier: Apache-2.0
"""hop and throughput of this tree compared with another commit

bench/run compare REF builds this tree, and REF in build/compare, and runs the benchmarks of both: in each round one after the other for
every row, in reversed order in the next round. Prints medians of the rounds, their ratio, and the range of the ratios within a round. A
transport that cannot run here is omitted.
"""
import shutil
import subprocess

from runner import options as opt
from runner.session import ROOT, fail, say
from runner.tables import Report, median, number
from scenarios.transports import one

# By command: its options, and the compared figure of its rows: title, value, digits.
WORKS = {"reflector": (("--size", "45", "--rate", "10000,100000"),
                       lambda row: (f"hop us at {row['rate_msgs_per_s']:.0f}/s", row["hop_us"]["median"], 3)),
         "throughput": (("--size", "45,1000"), lambda row: (f"msg/s of {row['size_bytes']:.0f} B", row["msgs_per_s"], 0))}
OPTIONS = (opt.Word("ref", None, "the other commit, in git's notation"),
           opt.words("transport", "udp,shm,xdp", ("udp", "shm", "xdp", "bypass"), "which of these"),
           opt.words("work", "reflector,throughput", tuple(WORKS), "which of these"), opt.seconds("duration", 0.5, 100, 3600000, "of each row"),
           opt.number("rounds", 5, 1, 100, "rounds, in each of which both take their turn"), *opt.OUTPUT,
           opt.cpus(None, 2, "the CPU of each end"))


def tree_of(ref):
    """Extracts the files of a commit into a directory of their own, which is retained with its build."""
    found = subprocess.run(["git", "-C", ROOT, "rev-parse", "--verify", "-q", f"{ref}^{{commit}}"], capture_output=True, text=True,
                           check=False)
    if found.returncode:
        fail(f"bench/run compare: {ref}: no such commit", 2)
    tree = ROOT / "build/compare" / found.stdout[:12]
    if not (tree / "bench/run").exists():
        tree.mkdir(parents=True, exist_ok=True)
        with subprocess.Popen(["git", "-C", ROOT, "archive", found.stdout.strip()], stdout=subprocess.PIPE) as archive:
            if subprocess.run(["tar", "-x", "-C", tree], stdin=archive.stdout, check=False).returncode:
                shutil.rmtree(tree)
                fail(f"bench/run compare: cannot extract the files of {ref}")
    return tree


def measure(o, trees, at, transport, found):
    """Runs one round over one transport. Returns False if it cannot run."""
    for work in o.work:
        words, figure = WORKS[work]
        for name in list(trees) if at % 2 == 0 else reversed(trees):
            say(f"round {at + 1} of {o.rounds}, {transport}: {work} of {name}")
            report = one(trees[name] / "bench/run", work, [*words, "--transport", transport, "--duration", o.duration], o.cpus)
            if report is None:
                return False
            found["machine"] = report["machine"]
            for row in report["rows"]:
                title, value, digits = figure(row)
                found.setdefault((transport, title, digits), {}).setdefault(name, []).append(value)
                found["lost"] = found.get("lost", 0) + row["lost"]
    return True


def run(bench):
    o = bench.o
    if not o.ref:
        o.refuse("REF is missing: a commit, such as HEAD~1")
    trees, found = {"this": ROOT, o.ref: tree_of(o.ref)}, {}
    transports = list(o.transport)
    for at in range(o.rounds):
        transports = [transport for transport in transports if measure(o, trees, at, transport, found)]
    if not transports:
        fail("bench/run compare: no transport can run here")
    machine, lost, rows = found.pop("machine"), found.pop("lost"), []
    for (transport, title, digits), values in found.items():
        if transport in transports:
            here, there = values["this"], values[o.ref]
            ratios = [a / b for a, b in zip(here, there)]
            rows.append({"transport": transport, "figure": title, "this": median(here), "ref": median(there),
                         "ratio": median(here) / median(there), "ratio_min": min(ratios), "ratio_max": max(ratios), "digits": digits})
    report = Report(bench)
    report.head(machine, f"this tree beside {o.ref}, by turns; {o.duration:g} s a row, medians of {o.rounds} rounds; lost: {lost:.0f}",
                "ratio: this tree to the other; lower is better for a hop, higher for msg/s; in brackets: range within a round")
    report.table([("transport", "", "this", o.ref, "ratio", "", "")],
                 [(row["transport"], row["figure"], number(row["this"], row["digits"]), number(row["ref"], row["digits"]),
                   number(row["ratio"], 3), f"({row['ratio_min']:.3f}", f"to {row['ratio_max']:.3f})") for row in rows])
    report.write({"benchmark": "compare", "ref": o.ref, "machine": machine, "rounds": o.rounds, "duration_s": o.duration, "lost": lost,
                  "rows": rows})
    return report.finish()
