# SPDX-License-Identifier: Apache-2.0
"""two lines, two transmitters and failover groups: latency, and silences when processes are killed

lines: A transmitter keeps a rate, and a receiver on another host loses packets on purpose (impair+), on each line by itself: on one line a lost
packet is repaired, on two it comes on the other line, unless both lost it. They take turns; each line has a cable of its own. Without losses
there are turns, too, in which the second cable is pulled, and the highest lossless rate is measured. Prints percentiles of the hop: of
each 50 ms, and their median, and of whole turns; and how many packets that one line lost the other one had.

majority: the hop to a receiver of a failover group that delivers at once, and of one that delivers what a majority of the voters has. The
members of each group are in one thread, in which those are polled that a message passes.

hot-hot, takeover, fenced: processes of one host, of which one is killed at a random instant (hot-hot: one of two transmitters of the same
messages; takeover: the primary of a failover group of three), or is stopped until another one leads and continued (fenced), many times. In
front of each such trial is a window of the same length without one, the control; with hot-hot another one follows, in which the
transmitter that is left is alone. Prints the longest silence between two deliveries in
windows with and without a trial, the time from the kill to the first message of the new primary at another member, messages lost or twice, and
those of a primary that were delivered after messages of the next one.

Fails if a message was lost, repeated, changed, or out of sequence; or if no packet was lost where hundreds were expected; or if with two
lines and more than a thousand losses none was filled by the other line.
"""
import json
import re
import subprocess

from runner import options as opt
from runner import rates
from runner.histogram import NAMES, Histogram
from runner.session import Failed, say
from runner.tables import Report, columns_of, median, medians, number, ratio, sums

LINES = ((1, False), (2, False), (2, True))  # their number, and whether the second one is dead
SECOND = ("llm-line-a", "llm-line-b")  # interfaces of its cable
PERCENTILES = ("median", "p99", "p99_9")
CERTAIN = 100  # number of losses at which at least one loss, and one that the other line fills, is certain
WARM_S = 0.05
COUNTERS = ["packets_received", "packets_missed", "packets_recovered", "nak_packets", "impaired_lost", "line_1_first", "line_2_first", "line_1_second",
            "line_2_second", "line_1_lost", "line_2_lost"]
RATIOS = (*PERCENTILES, "throughput")
PACKED = 32  # maximum of messages in a packet if the transmitter is late
COLUMNS = (("", "loss, lines", lambda row: f"{row['loss_percent']:g} %, {row['lines']}{', one dead' if row['dead_line'] else ''}", None),
           *columns_of(("of 50 ms", "us"), PERCENTILES, "typical_us.{}", 1), *columns_of(("ratio",), PERCENTILES, "ratio_to_one_line.{}", 2),
           ("", "msg/s", "msgs_per_s", 0), ("", "ratio", "ratio_to_one_line.throughput", 2),
           *columns_of(("of all", "us"), PERCENTILES, "hop_us.{}", 1), ("packets", "lost", "counters.impaired_lost", None),
           ("filled", "by line", "filled_by_other_line", None), ("", "repaired", "filled_by_repair", None), ("messages", "lost", "lost", None))
CASES = ("lines", "majority", "hot-hot", "takeover", "fenced")
TURNS = 50  # of majority
PUBLISHED_MS = 7  # failover of WebSphere MQ Low Latency Messaging, as published
QUICK_KILLS = 20
STAMP_BYTES = 16  # of a message of the processes that are killed


NONE = {"median": None, "p99": None, "max": None}


def milliseconds(path, name):
    return lambda row: number(row[path][name] and row[path][name] / 1000, 1)


FAILURES = (("", "case", "case", None), ("", "kills", "kills", None),
            *(("silence" if name == "median" else "", f"{name} ms", milliseconds("silence_us", name), None) for name in ("median", "p99", "max")),
            *(("alone" if name == "median" else "", f"{name} ms", milliseconds("alone_silence_us", name), None) for name in ("median", "p99", "max")),
            *(("control" if name == "median" else "", f"{name} ms", milliseconds("control_silence_us", name), None) for name in ("median", "p99", "max")),
            *(("first" if name == "median" else "", f"{name} ms", milliseconds("takeover_us", name), None) for name in ("median", "p99", "max")),
            ("messages", "sent", "sent", None), ("", "lost", "lost", None), ("", "twice", "twice", None), ("", "too late", "late", None))
MAJORITY = (("", "hop to a receiver", lambda row: "by majority", None), *columns_of(("us",), ("median", "p99"), "hop_us.{}", 1),
            *columns_of(("at once us",), ("median", "p99"), "sent_hop_us.{}", 1), *columns_of(("ratio",), ("median", "p99"), "ratio_to_sent.{}", 2))
OPTIONS = (opt.words("cases", ",".join(CASES), CASES, "to measure"), opt.choice("transport", "udp", ("udp", "shm"), "of all but lines"),
           opt.number("kills", 1000, 1, 100000, "kills, or stops, of each case"),
           opt.numbers("rates", "100000,10000", 100, 1000000, "messages a second: hot-hot, failover groups", 2),
           opt.number("beat-us", 1000, 100, 1000000, "beat_ns of failover groups"),
           opt.number("detect-us", 10000, 400, 10000000, "detect_ns of failover groups"),
           opt.flag("quick", f"{QUICK_KILLS} kills, and one short turn of lines"),
           opt.text_option("loss", "percentages of packets, with at most four decimals",
                           r"\d{1,2}(\.\d{1,4})?(,\d{1,2}(\.\d{1,4})?)*", "must be percentages below 100 with commas", "PERCENT,...",
                           "0,1"),
           opt.number("rate", 20000, 1, 1000000, "messages a second"), opt.size(),
           opt.seconds("duration", 1, 10, 60000, "of each turn"), opt.number("runs", 5, 1, 100, "turns of each"), opt.OPTIONS, opt.CPUS,
           *opt.OUTPUT)


def channel(bench, host, lines, impaired="", more=""):
    """One or two groups, each on an interface of a host; impaired: percentage of loss and number of the run."""
    def line(number):
        place = f"udp://239.192.{number}.1:5001?interface={host.interface if number == 1 else host.second}"
        if not impaired:
            return place
        percent, run = impaired
        return f"impair+{place}&impair_loss_ppm={round(float(percent) * 10000)}&impair_seed={2 * run + number}"

    first = "&".join(filter(None, [line(1), more, bench.o.options]))
    return first if lines == 1 else f"{first} + {line(2)}"


def pull(bench, dead, what):
    """Pulls the second cable ("down"), or puts it back ("up"), if that line is to be dead."""
    if dead and bench.hosts.b.run("ip", "link", "set", SECOND[1], what).returncode:
        raise Failed(f"ip link set {SECOND[1]} {what}")


def capacity(bench, lines, dead):
    """The highest lossless rate over the lines."""
    o, (a, b) = bench.o, (bench.hosts.a, bench.hosts.b)
    back, flow = "udp://239.192.9.1:5009?interface={}", "" if "flow=" in o.options else "flow=window"
    far = bench.start(b, "far", send=back.format(b.interface), receive=channel(bench, b, lines, more=flow), cpu=o.cpus[1])
    near = bench.start(a, "near", send=channel(bench, a, lines, more=flow), receive=back.format(a.interface), cpu=o.cpus[0])
    near.hear(), far.hear()
    near.ask("greet")
    pull(bench, dead, "down")
    reached = rates.find(near, far, o.size, duration=o.duration)[-1]
    pull(bench, dead, "up")
    bench.processes.finish(near, far)
    return reached


def measure(bench, run, percent, lines, dead):
    o, (a, b) = bench.o, (bench.hosts.a, bench.hosts.b)
    most = int(o.rate * (o.duration + WARM_S)) + 1
    bench.start(b, "receivers", channels=[channel(bench, b, lines, (percent, run))], cpu=o.cpus[1], size=o.size, measured=[0], trace=most,
                any=True, most=most, counters=COUNTERS)
    sender = bench.start(a, "transmitter", cpu=o.cpus[0], size=o.size, channel=channel(bench, a, lines))
    sender.ask("await")
    pull(bench, dead, "down")
    for at, duration in ((1, WARM_S), (0, o.duration)):
        sender.ask("send", rate=o.rate, duration=duration, round=at)
    pull(bench, dead, "up")
    stats, found = sender.ask("stats"), bench.finish(sender)["receivers"]
    receiver = found["receivers"][0]
    hops = Histogram(receiver.pop("rounds")[0][0])
    return {**receiver, "counters": found["counters"], "machine": stats["machine"], "sent": stats["sent"], "hop_us": hops.summary(),
            "typical_us": dict(zip(PERCENTILES, hops.typical(o.rate, 0.05, (0.5, 0.99, 0.999)))),
            "msgs_per_s": None if float(percent) else capacity(bench, lines, dead)}


def filled(counters):
    """Packets that one line lost and the other one had: a repaired one was lost on both."""
    return max(0, counters["line_1_lost"] + counters["line_2_lost"] - 2 * counters["packets_recovered"])


def row_of(o, percent, lines, dead, runs, one):
    total = {name: sum(run[name] for run in runs) for name in ("sent", "received", "duplicated", "changed", "disordered")}
    ratios = [{"throughput": run["msgs_per_s"] and ratio(run["msgs_per_s"], beside["msgs_per_s"]),
               **{what: ratio(run["typical_us"][what], beside["typical_us"][what]) for what in PERCENTILES}} for run, beside in zip(runs, one)]
    counters = sums(runs)
    return {"transport": "udp", "case": "lines", "loss_percent": float(percent), "lines": lines, "dead_line": dead,
            "size_bytes": o.size, "msgs_per_s": None if float(percent) else median(run["msgs_per_s"] for run in runs),
            "rate_msgs_per_s": o.rate, "duration_s": o.duration, "runs": len(runs),
            "lost": total["sent"] - total["received"] + total["duplicated"],
            **{name: total[name] for name in ("sent", "received", "changed", "disordered")},
            "filled_by_other_line": filled(counters),
            "filled_by_repair": counters["packets_recovered"],
            "typical_us": medians((run["typical_us"] for run in runs), PERCENTILES),
            "hop_us": medians((run["hop_us"] for run in runs), NAMES),
            "ratio_to_one_line": medians(ratios, RATIOS), "counters": counters, "kills": None, "twice": total["duplicated"], "late": None,
            "silence_us": NONE, "control_silence_us": NONE, "alone_silence_us": NONE, "takeover_us": NONE, "sent_hop_us": NONE, "ratio_to_sent": NONE}


def faults(row):
    counters = row["counters"]
    if row["lost"]:
        yield f"{row['lost']} messages lost, or twice"
    if row["changed"]:
        yield f"{row['changed']} messages changed"
    if row["disordered"]:
        yield f"{row['disordered']} messages out of sequence"
    if row["loss_percent"] / 100 * row["sent"] / PACKED > CERTAIN and not counters["impaired_lost"]:
        yield "no packet was lost"
    if counters["impaired_lost"] > 10 * CERTAIN and row["lines"] == 2 and not row["filled_by_other_line"]:
        yield "no loss was filled by the other line"


def groups(bench):
    """Channels of the stream and of snapshots."""
    o = bench.o
    if o.transport == "shm":
        return "shm://bench-availability?shm_exclusive=0", "shm://bench-availability-snapshots?shm_exclusive=0"
    return tuple(f"udp://239.192.{at}.1:500{at}?interface={bench.hosts.a.interface}" for at in (3, 4))


def summary(values_ns):
    """In us; p99 only of a hundred or more."""
    values = sorted(value / 1000 for value in values_ns)
    return {"median": values[len(values) // 2], "p99": values[len(values) * 99 // 100] if len(values) >= 100 else None, "max": values[-1]}


def program(bench, *words):
    """Runs a program on a host. Returns what it printed."""
    done = subprocess.run(bench.hosts.a.command(bench.programs / words[0], *map(str, words[1:])), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failed(" ".join(map(str, words[:2])))
    return json.loads(done.stdout)


def row_without(o, case, **more):
    """A row without what lines have."""
    return {"transport": o.transport, "case": case, "size_bytes": STAMP_BYTES, "runs": 1, "typical_us": dict.fromkeys(PERCENTILES),
            "hop_us": dict.fromkeys(NAMES), "ratio_to_one_line": dict.fromkeys(RATIOS), "counters": {}, "sent_hop_us": NONE,
            "ratio_to_sent": NONE, "silence_us": NONE, "control_silence_us": NONE, "alone_silence_us": NONE, "takeover_us": NONE, "kills": None, "lost": 0, "twice": 0,
            "late": 0, **dict.fromkeys(("loss_percent", "lines", "dead_line", "msgs_per_s", "duration_s", "changed", "disordered", "filled_by_other_line",
                                        "filled_by_repair")), **more}


def wait_for_majority(bench):
    """Measures hops. Returns a row."""
    turns = 2 if bench.o.quick else TURNS
    say(f"majority: {2 * turns} turns of 100 messages")
    found = program(bench, "majority", *groups(bench), turns)
    hops, sent = summary(found["majority_ns"]), summary(found["sent_ns"])
    return row_without(bench.o, "majority", rate_msgs_per_s=10000, sent=len(found["majority_ns"]), received=len(found["majority_ns"]),
                       hop_us={**dict.fromkeys(NAMES), **hops}, sent_hop_us=sent,
                       ratio_to_sent={name: ratio(hops[name], sent[name]) for name in NONE})


def kill(bench, case):
    """Runs the program. Returns a row."""
    o = bench.o
    rate = o.rates[0] if case == "hot-hot" else o.rates[-1]
    words = [case, *groups(bench), o.kills, rate, o.beat_us, o.detect_us, 1]
    say(f"{case}: {o.kills} times")
    found = program(bench, "failures", *words)
    return row_without(o, case, kills=found["trials"], rate_msgs_per_s=rate, sent=found["sent"], received=found["sent"] - found["lost"],
                       lost=found["lost"], twice=found["twice"], late=found["stale"], changed=found["diverged"],
                       silence_us=summary(found["silence_ns"]), control_silence_us=summary(found["control_ns"]),
                       alone_silence_us=summary(found["alone_ns"]) if case == "hot-hot" else NONE,
                       takeover_us=summary(found["took_ns"]) if "took_ns" in found else NONE)


def failures_of(row):
    for what in ("lost", "twice", "late", "changed"):
        if row[what]:
            yield f"{row['case']}: {row[what]} messages {'of a primary that was replaced' if what == 'late' else what}"


def run(bench):
    o = bench.o
    if re.search(r"(^|&)(interface|impair_[a-z_]*)=", o.options):
        o.refuse(f"--options {o.options}: interface and losses are set by the benchmark; omit them")
    if o.quick:
        o.kills, o.runs, o.duration = min(o.kills, QUICK_KILLS), 1, min(o.duration, 0.2)
    bench.prepare()
    report, rows, machine, wrong = Report(bench), [], None, []
    if "lines" in o.cases:
        second = bench.hosts.cable(SECOND, "10.78.0")
        for host, name in zip((bench.hosts.a, bench.hosts.b), SECOND):
            host.second = name if second else host.interface
        cases = [(percent, *lines) for percent in o.loss.split(",") for lines in LINES if not lines[1] or second and not float(percent)]
        found = bench.turns(cases, measure, f"one line and two, for {o.duration:g} s each at losses of {o.loss} % on each line")
        machine = found[cases[0]][0]["machine"]
        rows = [row_of(o, *case, runs, found[case[0], 1, False]) for case, runs in found.items()]
        wrong = [f"{row['loss_percent']:g} %, {row['lines']} lines: {fault}" for row in rows for fault in faults(row)]
    majority = [wait_for_majority(bench)] if "majority" in o.cases else []
    killed = [kill(bench, case) for case in o.cases if case not in ("lines", "majority")]
    machine = machine or machine_of(bench)
    report.write_json(machine, rows + majority + killed)
    if rows:
        report.head(machine,
                    f"{o.rate} msg/s of {o.size} B for {o.duration:g} s, runs: {o.runs}; a cable for each line; options of the channels: {o.options};",
                    "hop: from when a message was due to its delivery, in the median of intervals of 50 ms, few of which other",
                    "programs disturb, and of whole turns; ratios: of the former to one line in the same run;",
                    "filled: packets that one line lost and the other one had, and those that had to be repaired, of all runs")
        report.rows(COLUMNS, rows)
    if majority:
        report.print()
        report.head(machine, f"a failover group of three voters and a receiver over {o.transport}, in one thread; {majority[0]['sent']} messages of each")
        report.rows(MAJORITY, majority)
    if killed:
        report.print()
        report.head(machine, f"processes of one host over {o.transport}; hot-hot at {o.rates[0]} msg/s, failover groups at {o.rates[-1]} msg/s with beat_ns "
                    f"{o.beat_us * 1000} and detect_ns {o.detect_us * 1000};",
                    "silence: longest time between two deliveries around a kill or stop; control: in windows of that length without one;",
                    "alone: in the window after that of a kill, with the transmitter that is left;",
                    "first: from the kill or stop to the first message of the new primary at another member;",
                    f"published of WebSphere MQ Low Latency Messaging: failover within {PUBLISHED_MS} ms, on other machines")
        report.rows(FAILURES, killed)
    for sentence in [*wrong, *(fault for row in killed for fault in failures_of(row))]:
        report.fail(sentence)
    return report.finish()


def machine_of(bench):
    process = bench.start(bench.hosts.a, "pairs", program="pairs")
    machine = process.ask("check")["machine"]
    bench.processes.finish(process)
    return machine
