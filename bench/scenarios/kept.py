# SPDX-License-Identifier: Apache-2.0
"""cost and gain of topics with a last value cache

Transmitter: two streams in one process without a network, of topics with and without a cache, in turn: nanoseconds and, if valgrind is
installed, instructions a message, and the memory of the cache. Late joiners: the time from opening a context until it has the last message
of each topic (join=latest) or, for every second one (join=live), its first message; each checks 100 messages more. Live receiver: its hop
before and during the joins; with fewer than three cores it sleeps between messages, and joiners use the rest of its core at the lowest
priority. "20ms" is the median of the 99th percentiles of 20 ms each (from 5,000 messages a second on).

Fails if a joiner lacks the last message of a topic, gets a message twice, or never becomes live, or if the live receiver lost one.
"""
import os
import shutil
import subprocess

from runner import options as opt
from runner.session import BIND, SCRATCH, Host, fail, say
from runner.tables import Report, counted, faults_of, median, medians, ratio, sums, worst
from scenarios import join

TURNS = 31
COUNTED = 40000  # messages of each stream whose instructions are counted
WARM = 1 << 20   # messages that fill the history and wrap it
# Packets fit into an Ethernet frame.
STREAMS = {"not_kept": "loop://kept:1?mtu=1472&linger_ns=0", "kept": "loop://kept:2?mtu=1472&linger_ns=0"}
SENDING = (("", "topics", "topics", None), ("ns", "not kept", "sending.not_kept_ns", 1), ("", "kept", "sending.kept_ns", 1),
           ("", "more", "sending.more_ns", 1), ("instructions", "not kept", "sending.not_kept_instructions", 0),
           ("", "kept", "sending.kept_instructions", 0), ("", "more", "sending.more_instructions", 0),
           ("memory", "KiB", "sending.memory_kib", 0))
HOPS = ("median", "p99", "typical_p99")
JOINING = (("", "topics", "topics", None), ("last ms", "median", "until_last_ms.median", 1), ("", "max", "until_last_ms.max", 1),
           ("from now", "median", "until_first_ms.median", 1), ("", "max", "until_first_ms.max", 1), ("a", "round", "round_ms", 0),
           *((head if phase == "before" else "", phase, f"hop_us.{phase}.{what}", 1)
             for head, what in zip(("hop us", "p99", "20ms"), HOPS) for phase in ("before", "during")), ("", "lost", "lost", None))
KEEP_BYTES = 67108864  # limit of a transmitter's last value caches
OPTIONS = (opt.numbers("topics", "10,1000,10000", 1, 16000, "numbers of topics"),
           opt.number("keep", 1, 1, 1048576, "cached messages of each topic"),
           opt.number("joiners", 40, 2, 100000, "late joiners, every second one with join=live"),
           opt.seconds("duration", 2, 100, 3600000, "over which their joins are spread evenly"),
           opt.seconds("calm", 1, 100, 3600000, "before and after that"), opt.number("rate", 10000, 1, 1000000, "messages a second"),
           opt.size(), opt.seconds("send", 0.5, 10, 3600000, "of the two streams"),
           opt.choice("count", None, ("yes", "no"), "count instructions (yes if valgrind is installed)"),
           opt.number("runs", 3, 1, 100, "runs of everything but instructions, in turn; medians are reported"), opt.OPTIONS,
           join.CPUS, *opt.OUTPUT)


def pairs(o, topics):
    """Requests that open both streams."""
    return [("pair", {"name": name, "channel": channel, "send_only": 1, "topics": topics, "size": o.size})
            for name, channel in STREAMS.items()]


def send(bench, topics):
    """Measures both streams. Returns nanoseconds of a message in each turn of either, and the memory of the cache."""
    o = bench.o
    process = bench.start(Host("", "", ""), "pairs", program="pairs", cpu=o.cpus[0])
    for verb, words in pairs(o, topics):
        process.ask(verb, **words)
    process.ask("measure", pattern="send", messages=WARM)
    memory = process.ask("keep", name="kept", messages=o.keep)
    turns = process.ask("measure", pattern="send", rounds=TURNS, duration=o.send / TURNS / len(STREAMS))
    bench.processes.finish(process)
    return {**memory, **{name: found["ns"] for name, found in turns.items()}}


def measure(bench, _, topics):
    """Measures both streams, then the joiners. The history is long enough for every joiner."""
    o = bench.o
    shared = {"rate": o.rate, "size": o.size, "duration": o.duration, "calm": o.calm, "joiners": o.joiners, "history": 65536,
              "past": topics * o.keep, "topics": topics, "keep": o.keep}
    return {"sending": send(bench, topics), **join.measure(bench, shared, "join=latest", "join=live")}


def count(bench, topics):
    """Callgrind writes one file for each stream. Returns the instructions of a message without and with a cache."""
    o, out = bench.o, SCRATCH / f"{topics}-count"
    requests = [*pairs(o, topics), ("keep", {"name": "kept", "messages": o.keep}), ("measure", {"pattern": "send", "messages": COUNTED}),
                ("measure", {"pattern": "send", "messages": COUNTED, "counted": 1})]
    done = subprocess.run([*BIND, "valgrind", "--quiet", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=pairs_count_turn*",
                           "--dump-before=pairs_end_turn*", f"--callgrind-out-file={out}", bench.programs / "pairs", "pairs"],
                          env={**os.environ, "LD_BIND_NOW": "1"}, capture_output=True, text=True, check=False,
                          input="".join(" ".join([verb, *(f"{key}={word}" for key, word in words.items())]) + "\n"
                                        for verb, words in requests))
    if done.returncode:
        fail(f"{done.stderr}\ncounting instructions failed")
    totals = []
    for path in sorted(SCRATCH.glob(f"{topics}-count.*"), key=lambda path: int(path.suffix[1:])):
        totals += [int(line.split()[1]) / COUNTED for line in path.read_text().splitlines() if line.startswith("totals:")]
    totals = [total for total in totals if total > 0]
    return totals if len(totals) == 2 else (None, None)


def sending_of(runs, plain, kept):
    """Cost for the transmitter, over the turns of all runs."""
    return {"not_kept_ns": median(median(run["not_kept"]) for run in runs), "kept_ns": median(median(run["kept"]) for run in runs),
            "more_ns": median(median(b - a for a, b in zip(run["not_kept"], run["kept"])) for run in runs),
            "memory_kib": median(run["memory_kib"] for run in runs), "not_kept_instructions": plain, "kept_instructions": kept,
            "more_instructions": None if kept is None else kept - plain}


def faults(topics, lives, joiners):
    for run in lives + joiners:
        who = "the joiners" if run in joiners else "the live receiver"
        if faults_of(run):
            yield (f"{topics} topics: {who} lost {run['lost'] + run['unsaid']} messages, and had {run['duplicated'] + run['changed']} "
                   "twice or changed")
    for run in joiners:
        if run["live"] < run["asked_for"]:
            yield f"{topics} topics: {run['asked_for'] - run['live']} of {run['asked_for']} joiners were never live"
        if run["stale"]:
            yield f"{topics} topics: {run['stale']} last messages of topics were missing when joiners became live"


def row_of(bench, topics, runs, instructions):
    o, (plain, kept) = bench.o, instructions
    sending, transmitters, lives, joiners = ([run[role] for run in runs] for role in ("sending", "transmitter", "live", "joiners"))
    hops = {phase: medians(({"typical_p99": run[phase]["typical_p99"], **run[phase]["latency_us"]} for run in lives), HOPS)
            for phase in ("before", "during")}
    return {"transport": "udp", "topics": topics, "keep": o.keep, "size_bytes": o.size, "rate_msgs_per_s": o.rate,
            "duration_s": o.duration, "calm_s": o.calm, "received": sum(live["received"] for live in lives),
            "lost": sum(run["lost"] + run["unsaid"] for run in lives + joiners) + sum(run["stale"] for run in joiners),
            "sending": sending_of(sending, plain, kept),
            "joined": sum(run["live"] for run in joiners), "kept_received": sum(run["past"] for run in joiners),
            **{name: {"median": median(run[of]["median"] for run in joiners), "max": worst(run[of]["max"] for run in joiners)}
               for name, of in (("until_last_ms", "until_live_ms"), ("until_first_ms", "other_until_live_ms"))},
            "round_ms": topics * 1e3 / o.rate, "hop_us": hops,
            "ratio_during": {what: ratio(hops["during"][what], hops["before"][what]) for what in HOPS},
            "counters": sums(transmitters), "faults": list(faults(topics, lives, joiners))}


def run(bench):
    o = bench.o
    topics = list(dict.fromkeys(o.topics))
    if max(topics) * o.keep * (o.size + 28) > KEEP_BYTES:
        o.refuse(f"--keep {o.keep}: messages of {o.size} bytes on {max(topics)} topics take more than {KEEP_BYTES >> 20} MiB; cache fewer")
    if o.count == "yes" and not shutil.which("valgrind"):
        o.refuse("--count yes: valgrind is not installed")
    bench.prepare()
    found = bench.turns([(some,) for some in topics], measure,
                        f"two streams for {o.send:g} s, then {o.joiners} that join within {o.duration:g} s")
    counts = o.count != "no" and shutil.which("valgrind")
    if counts:
        say("counting instructions")
    rows = [row_of(bench, some, runs, count(bench, some) if counts else (None, None)) for (some,), runs in found.items()]
    first, report = found[topics[0],][0], Report(bench)
    for sentence in [sentence for row in rows for sentence in row.pop("faults")]:
        report.fail(sentence)
    machine = first["transmitter"]["machine"]
    report.write_json(machine, rows)
    report.head(machine, f"{o.size} B, topics keep their last {o.keep}, runs: {o.runs}; options of the channels: {o.options or 'none'};",
                "transmitter: a message of two streams without a network; instructions include those of the program and of libc")
    report.rows(SENDING, rows)
    report.print("", f"{o.rate} msg/s, joining within {o.duration:g} s; ms until the last message of each topic, or with",
                 "join=live until the first message; a round: until all topics were sent on again, ms; hop of a live receiver,",
                 f"which {'polls' if first['wait'] == 'spin' else 'sleeps between messages'}", "")
    report.rows(JOINING, rows)
    for row in rows:
        report.print(f"{row['topics']} topics: joined {row['joined']}, cached messages received {row['kept_received']}; "
                     f"of the transmitter: {counted(row['counters'])}")
    return report.finish()
