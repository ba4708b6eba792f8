# SPDX-License-Identifier: Apache-2.0
"""hop, throughput and instructions in clear, authenticated and encrypted

A channel in clear, and the same with keys, authenticated and encrypted by each back end (libcrypto, and ipsec-mb if the build has it), take
turns in one run: hops at a rate, then the highest lossless rate. Beside the hops are those of the bare transport, in clear, or with each
datagram sealed and opened by the bare AEAD, encrypted: what that takes longer, twice (two seals and two opens) and times 1.2, is the bound of
what a hop of the library may take longer than in clear. The bare AEAD where packets follow each other (build/release/bench/aead) has a
column, and so has what would be left of the rate in clear if a packet took only that longer (limit). And, if valgrind is there, the instructions for a packet over loop are counted by callgrind, which offers at most AVX2. --quick:
one size and short turns.

Fails if a message is lost.
"""
import base64
import importlib.util
import json
import os
import shutil
import subprocess

from runner import hops
from runner import options as opt
from runner import pair, rates
from runner.session import ROOT, say
from runner.tables import Report, median, medians, ratio, worst

SUITES = ("aes-128-gcm", "aes-256-gcm", "chacha20-poly1305")
MODES = ("clear", "authenticate", "encrypt")
CLEAR = ("clear", None)
OPTIONS = (opt.numbers("size", "45,100,1000", 24, 1400, "bytes of a message"),
           opt.number("rate", 10000, 1, hops.BARE_RATE_MAX, "messages a second of the hops"),
           opt.choice("suite", SUITES[0], SUITES, "suite of the keys"), opt.flag("quick", "one size and short turns"),
           opt.flag("no-count", "no instructions, which take 10 s a size"), *pair.options(("udp", "shm")))
COLUMNS = (("", "mode", "mode", None), ("", "back end", lambda row: row["backend"] or "-", None), ("", "size", "size_bytes", None),
           ("hop", "median", "hop_us.median", 2), ("", "p99", "hop_us.p99", 2), ("", "over clear", "hop_us_over_clear", 2),
           ("", "bound", "hop_us_bound", 2), ("ratio", "to clear", "ratio_to_clear.hop", 2), ("raw", "hop", "raw_hop_us.median", 2),
           ("", "msg/s", "msgs_per_s", 0), ("ratio", "to clear", "ratio_to_clear.throughput", 2), ("", "limit", "throughput_limit", 2),
           ("wire", "%", lambda row: f"{row['wire_share'] * 100:.1f}", None), ("AEAD", "ns", "aead_ns_per_packet", 0),
           ("instr.", "transmit", "instructions_per_packet.transmit", 0), ("a packet", "receive", "instructions_per_packet.receive", 0),
           ("", "lost", "lost", 0))


def key_file(o, path):
    """A key that is valid at any time, also at that of bench/cost, which has a clock of its own."""
    text = f"1 1970-01-01 2999-01-01 {o.suite} {base64.b64encode(os.urandom(32)).decode()} *\n"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(text)


def keyed(path, mode):
    """Options of the channels of a mode."""
    return "" if mode == "clear" else f"keys={path}&keys_mode={mode}"


def bare_aeads(bench, o):
    """Back ends, and by size the mean ns of a seal and an open where packets follow each other."""
    done = subprocess.run([bench.programs / "aead", "--json"], capture_output=True, text=True, check=True)
    found = {}
    for row in map(json.loads, done.stdout.splitlines()):
        if row["suite"] == o.suite:
            found.setdefault(row["backend"], {})[row["size_bytes"]] = (row["seal_ns"] + row["open_ns"]) / 2
    return found


def aead_ns(sizes, size):
    """Interpolates between the measured sizes: the time of an AEAD is a constant and a part for each byte."""
    known = sorted(sizes)
    low = max((one for one in known[:-1] if one <= size), default=known[0])
    high = known[known.index(low) + 1]
    return sizes[low] + (sizes[high] - sizes[low]) * (size - low) / (high - low)


class Instructions:
    """Instructions for a packet of a stream, of the library and of what it calls, by the program of bench/run cost."""

    def __init__(self, bench):
        spec = importlib.util.spec_from_file_location("cost", ROOT / "bench/cost.py")
        self.cost = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.cost)
        self.program = bench.programs / "cost"
        self.cost.LONE = []

    def count(self, size, options, backend):
        cost = self.cost
        cost.COMPARED = [("stream", size, cost.BOTH)]
        cost.NETWORKS["security"] = ("&".join(filter(None, ["loop://cost:{}?mtu=1472", options])), 4000)
        if backend:
            os.environ["LLM_KEYS_BACKEND"] = backend
        phases = cost.count_undisturbed(self.program, "security")[1]
        return {phase.name.split("-")[0]: sum(phase.alone.values()) / phase.packets for phase in phases}


def turn(ends, size, options, backend):
    """One turn of a case: hops, then throughput."""
    o, own = ends.o, ends.o.options
    o.options = "&".join(filter(None, [own, options]))
    ends.bench.prefix = ["env", f"LLM_KEYS_BACKEND={backend}"] if backend else []
    try:
        ends.start(**({"raw_aead": backend, "raw_suite": o.suite} if backend else {}))
        hop = hops.Hop(ends, size, o.rate)
        flat = rates.measure(ends, size, raw=False)
        ends.stop()
    finally:
        o.options, ends.bench.prefix = own, []
    return hop, flat


def difference(row, clear, name):
    """How much longer the median is than in clear. None: not measured."""
    return row[name]["median"] - clear[name]["median"] if row[name]["median"] else None


def row_of(o, mode, backend, size, turns):
    return {"transport": o.transport, "mode": mode, "backend": backend, "suite": None if mode == "clear" else o.suite, "size_bytes": size,
            "rate_msgs_per_s": o.rate, "hop_us": medians(hop.rtt.summary(2) for hop, _ in turns),
            "raw_hop_us": medians(hop.bare.summary(2) for hop, _ in turns),
            **{name: median(flat[name] for _, flat in turns) for name in ("msgs_per_s", "packet_bytes_mean", "messages_per_packet")},
            "wire_share": median(flat["wire_share"] for _, flat in turns),
            **{name: median(getattr(hop, name) + flat[name] for hop, flat in turns) for name in ("sent", "received")},
            "lost": worst(hop.lost + flat["lost"] for hop, flat in turns), "core_to_core_ns": median(hop.cores_ns for hop, _ in turns)}


def run(bench):
    o = bench.o
    if o.quick:
        o.size, o.duration = o.size[:1], o.duration or 0.5
    ends = pair.Pair(bench, flow=True)
    ends.prepare()
    path = bench.results / "security.keys"
    key_file(o, path)
    try:
        return measure(bench, ends, path)
    finally:
        path.unlink()


def measure(bench, ends, path):
    o, bare = bench.o, bare_aeads(bench, bench.o)
    cases = [CLEAR, *((mode, backend) for mode in MODES[1:] for backend in bare)]
    found = bench.turns([(size, *case) for size in o.size for case in cases],
                        lambda _bench, _run, size, mode, backend: turn(ends, size, keyed(path, mode), backend),
                        f"{len(cases)} channels, {len(o.size)} sizes")
    counter = Instructions(bench) if shutil.which("valgrind") and not o.no_count else None
    rows = []
    for (size, mode, backend), turns in found.items():
        row = row_of(o, mode, backend, size, turns)
        clear = next((other for other in rows if other["size_bytes"] == size), row)
        counted = counter.count(size, keyed(path, mode), backend) if counter else {"transmit": None, "receive": None}
        packet_ns = aead_ns(bare[backend], clear["packet_bytes_mean"]) if backend else 0
        over, raw_over = (difference(row, clear, name) if backend else None for name in ("hop_us", "raw_hop_us"))
        rows.append({**row, "aead_ns_per_packet": aead_ns(bare[backend], size) if backend else None, "instructions_per_packet": counted,
                     "hop_us_over_clear": over, "hop_us_bound": 1.2 * 2 * raw_over if raw_over is not None else None,
                     "throughput_limit": 1 / (1 + packet_ns * 1e-9 * clear["msgs_per_s"] / clear["messages_per_packet"]) if backend else None,
                     "ratio_to_clear": {"hop": ratio(row["hop_us"]["median"], clear["hop_us"]["median"]),
                                        "throughput": ratio(row["msgs_per_s"], clear["msgs_per_s"])}})
    if counter is None and not o.no_count:
        say("valgrind is not installed: instructions are not counted")
    measured = [f"measured  hops at {o.rate} msg/s, and the highest lossless rate; medians of {o.runs} runs, the worst of lost",
                f"          suite {o.suite}; AEAD: mean of a bare seal and open of a message of this size, encrypted",
                "          limit: of the rate, if each packet takes only a bare seal or open longer than in clear",
                "          raw hop: with keys each datagram is sealed and opened, too; over clear, twice, times 1.2: bound"]
    return ends.report(Report(bench), measured, COLUMNS, rows, lambda report, row: None,
                       left_out=("packet_bytes_mean", "messages_per_packet"))
