# SPDX-License-Identifier: Apache-2.0
"""latency of a channel of two lines compared with one, under loss

A transmitter keeps a rate, and a receiver on another host loses packets on purpose (impair+), on each line by itself: on one line a lost
packet is repaired, on two it comes on the other line, unless both lost it. Both take turns, over the same cable: with two lines it
carries everything twice. Prints percentiles of the hop: of each 50 ms, and their median, and of whole turns; and how many of the missing
packets were filled by the other line.

Fails if a message was lost, repeated, changed, or out of sequence; or if no packet was lost where hundreds were expected; or if with two
lines and more than a hundred losses none was filled by the other line.
"""
import re

from runner import options as opt
from runner.histogram import NAMES, Histogram
from runner.tables import Report, columns_of, medians, ratio, sums

LINES = (1, 2)
PERCENTILES = ("median", "p99", "p99_9")
CERTAIN = 100  # number of losses at which at least one loss, and one that the other line fills, is certain
WARM_S = 0.05
COUNTERS = ["packets_received", "packets_missed", "packets_recovered", "nak_packets", "impaired_lost", "line_1_first", "line_2_first", "line_1_second",
            "line_2_second", "line_1_lost", "line_2_lost"]
PACKED = 32  # maximum of messages in a packet if the transmitter is late
COLUMNS = (("", "loss, lines", lambda row: f"{row['loss_percent']:g} %, {row['lines']}", None),
           *columns_of(("of 50 ms", "us"), PERCENTILES, "typical_us.{}", 1), *columns_of(("ratio",), PERCENTILES, "ratio_to_one_line.{}", 2),
           *columns_of(("of all", "us"), PERCENTILES, "hop_us.{}", 1), ("packets", "lost", "counters.impaired_lost", None),
           ("filled", "by line", "filled_by_other_line", None), ("", "repaired", "filled_by_repair", None), ("messages", "lost", "lost", None))
OPTIONS = (opt.text_option("loss", "percentages of packets, with at most four decimals",
                           r"\d{1,2}(\.\d{1,4})?(,\d{1,2}(\.\d{1,4})?)*", "must be percentages below 100 with commas", "PERCENT,...",
                           "0,1"),
           opt.number("rate", 20000, 1, 1000000, "messages a second"), opt.size(),
           opt.seconds("duration", 1, 10, 60000, "of each turn"), opt.number("runs", 5, 1, 100, "turns of each"), opt.OPTIONS, opt.CPUS,
           *opt.OUTPUT)


def channel(bench, host, lines, impaired=""):
    """One or two groups on the interface of a host; impaired: percentage of loss and number of the run."""
    def line(number):
        place = f"udp://239.192.{number}.1:5001?interface={host.interface}"
        if not impaired:
            return place
        percent, run = impaired
        return f"impair+{place}&impair_loss_ppm={round(float(percent) * 10000)}&impair_seed={2 * run + number}"

    first = "&".join(filter(None, [line(1), bench.o.options]))
    return first if lines == 1 else f"{first} + {line(2)}"


def measure(bench, run, percent, lines):
    o, (a, b) = bench.o, (bench.hosts.a, bench.hosts.b)
    most = int(o.rate * (o.duration + WARM_S)) + 1
    bench.start(b, "receivers", channels=[channel(bench, b, lines, (percent, run))], cpu=o.cpus[1], size=o.size, measured=[0], trace=most,
                any=True, most=most, counters=COUNTERS)
    sender = bench.start(a, "transmitter", cpu=o.cpus[0], size=o.size, channel=channel(bench, a, lines))
    sender.ask("await")
    for at, duration in ((1, WARM_S), (0, o.duration)):
        sender.ask("send", rate=o.rate, duration=duration, round=at)
    stats, found = sender.ask("stats"), bench.finish(sender)["receivers"]
    receiver = found["receivers"][0]
    hops = Histogram(receiver.pop("rounds")[0][0])
    return {**receiver, "counters": found["counters"], "machine": stats["machine"], "sent": stats["sent"], "hop_us": hops.summary(),
            "typical_us": dict(zip(PERCENTILES, hops.typical(o.rate, 0.05, (0.5, 0.99, 0.999))))}


def row_of(o, percent, lines, runs, one):
    total = {name: sum(run[name] for run in runs) for name in ("sent", "received", "duplicated", "changed", "disordered")}
    ratios = [{what: ratio(run["typical_us"][what], beside["typical_us"][what]) for what in PERCENTILES} for run, beside in zip(runs, one)]
    counters = sums(runs)
    return {"transport": "udp", "case": "lines", "loss_percent": float(percent), "lines": lines, "size_bytes": o.size,
            "rate_msgs_per_s": o.rate, "duration_s": o.duration, "runs": len(runs),
            "lost": total["sent"] - total["received"] + total.pop("duplicated"), **total,
            "filled_by_other_line": max(0, counters["packets_missed"] - counters["packets_recovered"]),
            "filled_by_repair": counters["packets_recovered"],
            "typical_us": medians((run["typical_us"] for run in runs), PERCENTILES),
            "hop_us": medians((run["hop_us"] for run in runs), NAMES),
            "ratio_to_one_line": medians(ratios, PERCENTILES), "counters": counters}


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
    if counters["packets_missed"] > CERTAIN and row["lines"] == 2 and row["filled_by_other_line"] <= 0:
        yield "no loss was filled by the other line"


def run(bench):
    o = bench.o
    if re.search(r"(^|&)(interface|impair_[a-z_]*)=", o.options):
        o.refuse(f"--options {o.options}: interface and losses are set by the benchmark; omit them")
    bench.prepare()
    cases = [(percent, lines) for percent in o.loss.split(",") for lines in LINES]
    found = bench.turns(cases, measure, f"one line and two, for {o.duration:g} s each at losses of {o.loss} % on each line")
    rows = [row_of(o, percent, lines, runs, found[percent, 1]) for (percent, lines), runs in found.items()]
    return Report(bench).study(
        found[cases[0]][0]["machine"], rows,
        (f"{o.rate} msg/s of {o.size} B for {o.duration:g} s, runs: {o.runs}; both lines on one cable; options of the channels: {o.options};",
         "hop: from when a message was due to its delivery, in the median of intervals of 50 ms, few of which other",
         "programs disturb, and of whole turns; ratios: of the former to one line in the same run;",
         "filled: packets that were missing and came on the other line, or by a repair, of all runs"), COLUMNS,
        (f"{row['loss_percent']:g} %, {row['lines']} lines: {fault}" for row in rows for fault in faults(row)))
