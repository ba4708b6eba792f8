# SPDX-License-Identifier: Apache-2.0
"""What it buys to take messages as they arrive (order=arrival).

A transmitter keeps a rate, and a receiver on another host loses so many of the packets that it gets (impair+): with order=sequence
messages behind a lost packet wait until it was repaired, with order=arrival only those in it come late. Both take turns. The hosts
are near each other, where a repair takes no longer than a scheduler; so what the receiver says to the transmitter is late by a random
time, as over a longer way.

Prints percentiles of the hop, from when a message was due to its delivery: of each 50 ms, and of these the median, as what else
runs on the machine meets few of them (from 2,000 messages a second on); and of whole turns. Medians of the runs, and of the ratios
within a run.

Fails if a message was lost, came twice or changed, or came out of sequence with order=sequence; or if no packet was lost where
hundreds were to be, or with order=arrival no message came ahead of more than a hundred.
"""
import re

from runner import options as opt
from runner.histogram import Histogram
from runner.session import say
from runner.tables import Report, median, number, ratio, sums

ORDERS = ("sequence", "arrival")
PERCENTILES = {"median": "median", "p99": "p99", "p99_9": "p99.9"}
CERTAIN = 100  # losses, of which it is no chance that there was none, or that nothing came behind one
WARM_S = 0.05
COUNTERS = ["messages_unordered", "packets_missed", "packets_recovered", "packets_lost", "naks_sent", "impaired_lost"]
PACKED = 32  # messages that share a packet at most, where the transmitter is late
OPTIONS = (opt.text_option("loss", "percents of packets, with at most four decimals",
                           r"\d{1,2}(\.\d{1,4})?(,\d{1,2}(\.\d{1,4})?)*", "must be percents below 100 with commas between", "PERCENT,...",
                           "0,0.1,1"),
           opt.seconds("delay", 0.002, 0, 1000, "up to which NAKs are late, at random; 0: not at all"),
           opt.number("rate", 20000, 1, 1000000, "messages a second"), opt.size(),
           opt.seconds("duration", 1, 10, 60000, "of each turn"), opt.number("runs", 5, 1, 100, "turns of each"), opt.OPTIONS, opt.CPUS,
           *opt.OUTPUT)


def measure(bench, name, percent, order, seed):
    o, hosts = bench.o, bench.hosts
    lossy = f"order={order}&impair_loss_ppm={round(float(percent) * 10000)}&impair_seed={seed}"
    late = f"impair_delay_ns={round(o.delay * 1e9)}" if o.delay else ""
    most = int(o.rate * (o.duration + WARM_S)) + 1
    bench.start(hosts.b, "stream-receiver", "receiver", channel="impair+" + bench.channel(hosts.b, lossy), cpu=o.cpus[1], size=o.size,
                rounds=2, measured=[0], trace=most, any=True, most=most, counters=COUNTERS)
    sender = bench.start(hosts.a, "stream-transmitter", "transmitter", cpu=o.cpus[0], size=o.size,
                         channel=("impair+" if late else "") + bench.channel(hosts.a, *filter(None, [late])))
    for at, duration in enumerate((WARM_S, o.duration)):
        sender.ask("send", rate=o.rate, duration=duration, round=at)
    found = {"transmitter": sender.ask("stats", counters="naks_received")}
    bench.processes.finish(sender)
    found.update(bench.processes.serve())
    hops = Histogram(found["receiver"].pop("rounds")[1]["0"])
    found["receiver"]["hop_us"] = hops.summary()
    found["receiver"]["typical_us"] = dict(zip(PERCENTILES, hops.typical(o.rate, 0.05, (0.5, 0.99, 0.999))))
    bench.keep(name, found)


def medians(figures):
    """By name, over the runs; None where one has none."""
    return {what: None if None in (values := [run[what] for run in figures]) else median(values) for what in figures[0]}


def row_of(o, percent, order, runs, sequence):
    receivers = [receiver for _, receiver in runs]
    sent, received = sum(transmitter["sent"] for transmitter, _ in runs), sum(receiver["received"] for receiver in receivers)
    ratios = [{what: ratio(receiver["typical_us"][what], beside["typical_us"][what]) for what in PERCENTILES}
              for receiver, (_, beside) in zip(receivers, sequence)]
    return {"transport": "udp", "loss_percent": float(percent), "order": order, "size_bytes": o.size, "delay_s": o.delay,
            "rate_msgs_per_s": o.rate, "duration_s": o.duration, "runs": len(runs), "sent": sent, "received": received,
            "lost": sent - received + sum(receiver["duplicated"] for receiver in receivers),
            "changed": sum(receiver["changed"] for receiver in receivers),
            "disordered": sum(receiver["disordered"] for receiver in receivers),
            "typical_us": medians([receiver["typical_us"] for receiver in receivers]),
            "hop_us": medians([receiver["hop_us"] for receiver in receivers]),
            "ratio_to_sequence": medians(ratios), "counters": sums(receivers)}


def faults(row):
    counters = row["counters"]
    if row["lost"]:
        yield f"{row['lost']} messages lost, or twice"
    if row["changed"]:
        yield f"{row['changed']} messages changed"
    if row["order"] == "sequence" and row["disordered"] + counters["messages_unordered"]:
        yield f"{row['disordered']} messages out of sequence"
    if row["loss_percent"] / 100 * row["sent"] / PACKED > CERTAIN and not counters["impaired_lost"]:
        yield "no packet was lost"
    if counters["packets_missed"] > CERTAIN and row["order"] == "arrival" and not counters["messages_unordered"]:
        yield "no message came ahead of those that were lost"


def cells(row):
    yield f"{row['loss_percent']:g} %, {row['order']}"
    yield from (number(row["typical_us"][what], 1) for what in PERCENTILES)
    yield from (number(row["ratio_to_sequence"][what], 2) for what in PERCENTILES)
    yield from (number(row["hop_us"][what], 1) for what in PERCENTILES)
    yield from (str(row["counters"][name]) for name in ("packets_missed", "messages_unordered"))
    yield str(row["lost"])


def run(bench):
    o = bench.o
    if re.search(r"(^|&)(order|impair_[a-z_]*)=", o.options):
        o.refuse(f"--options {o.options}: order and losses are what is measured; leave them out")
    bench.prepare()
    percents = o.loss.split(",")
    for at in range(o.runs):
        say(f"run {at + 1}: both orders, for {o.duration:g} s each at losses of {o.loss} %")
        for percent in percents:
            for order in ORDERS if at % 2 == 0 else reversed(ORDERS):
                measure(bench, f"{at}-{percent}-{order}", percent, order, at + 1)
    rows, machine = [], None
    for percent in percents:
        runs = {order: [tuple(bench.load(f"{at}-{percent}-{order}-{role}") for role in ("transmitter", "receiver"))
                        for at in range(o.runs)] for order in ORDERS}
        rows += [row_of(o, percent, order, runs[order], runs["sequence"]) for order in ORDERS]
        machine = runs["sequence"][0][0]["machine"]
    report = Report(bench)
    report.write_json(machine, rows)
    report.head(machine, f"{o.rate} msg/s of {o.size} B for {o.duration:g} s, runs: {o.runs}; "
                f"NAKs are late by up to {o.delay:g} s; options of the channels: {o.options};",
                "hop: from when a message was due to its delivery, of each 50 ms and in the median of these, so that what",
                "else ran met few of them, and of whole turns; ratios: of the former to order=sequence in the same run;",
                "missed: packets lost on purpose, ahead: messages delivered before one that was lost, of all runs")
    report.table([("", "of 50 ms", "us", "", "ratio", "", "", "of all", "us", "", "packets", "messages", ""),
                  ("loss, order", *(3 * list(PERCENTILES.values())), "missed", "ahead", "lost")], [tuple(cells(row)) for row in rows])
    for row in rows:
        for fault in faults(row):
            report.fail(f"{row['loss_percent']:g} %, {row['order']}: {fault}")
    return report.finish()
