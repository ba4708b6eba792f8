# SPDX-License-Identifier: Apache-2.0
"""hop and throughput over each transport of this machine, in one table

The hop at 45 bytes and 100,000 messages a second, and the highest lossless rate at 45 and 1,000 bytes, one transport after the other, each
with its bare transport in the same run. roce is omitted, as its devices are emulated; see bench/run reflector --help.
"""
import json
import subprocess

from runner import options as opt
from runner.session import ROOT, SCRATCH, fail, say
from runner.tables import Report, number

NAMES = ("udp", "xdp", "bypass", "shm")
WORKS = {"reflector": ("--size", "45", "--rate", "100000"), "throughput": ("--size", "45,1000")}
OPTIONS = (opt.words("transport", "udp,xdp,bypass,shm", NAMES, "which of these"), opt.seconds("duration", 2, 100, 3600000, "of each row"),
           opt.number("runs", 3, 1, 100, "runs of everything; medians are reported"), opt.RESULTS, opt.cpus(None, 2, "the CPU of each end"))


def one(bench_run, work, words, cpus=None):
    """Runs a command of this or another bench/run. Returns its JSON, or None after printing the reason."""
    file = SCRATCH / "one.json"
    words = [bench_run, work, *words, *(("--cpus", ",".join(map(str, cpus))) if cpus else ()), "--results", SCRATCH / "one",
             "--json", file]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"   left out: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
        return None
    return json.loads(file.read_text(encoding="utf-8"))


def cells(transport, hop_report, rate_report):
    hop, (small, large) = hop_report["rows"][0], rate_report["rows"]
    yield transport
    for value, digits in ((hop["hop_us"]["median"], 2), (hop["hop_us"]["p99"], 2), (hop["raw_hop_us"]["median"], 2), (hop["ratio_to_raw"], 2),
                          (small["msgs_per_s"], 0), (large["msgs_per_s"], 0),
                          *((100 * small["kernel_share"][end], 0) for end in ("transmitter", "receiver")),
                          *((small["rss_mib"][end], 0) for end in ("transmitter", "receiver")),
                          (hop["lost"] + small["lost"] + large["lost"], 0)):
        yield number(value, digits)


def run(bench):
    o, rows, machine = bench.o, [], None
    for transport in o.transport:
        reports = []
        for work, words in WORKS.items():
            say(f"== {transport}: {work}")
            found = one(ROOT / "bench/run", work, [*words, "--transport", transport, "--duration", o.duration, "--runs", o.runs], o.cpus)
            if found is None:
                break
            reports.append(found)
        if len(reports) == len(WORKS):
            machine = reports[0]["machine"]
            rows.append(tuple(cells(transport, *reports)))
    if not rows:
        fail("bench/run transports: no transport can run here")
    report = Report(bench)
    report.head(machine, f"one hop at 45 B and 100000 msg/s, then the highest lossless rate; {o.duration:g} s a row, medians of {o.runs} runs;",
                "bare: the bare transport in the same run; both ends poll, on a core each; kernel: share of time in the kernel")
    report.table([("", "hop us", "", "bare us", "ratio", "msg/s", "msg/s", "kernel", "kernel", "MiB", "MiB", ""),
                  ("transport", "median", "p99", "median", "", "45 B", "1000 B", "tx %", "rx %", "tx", "rx", "lost")], rows)
    return report.finish()
