# SPDX-License-Identifier: Apache-2.0
"""latency with order=arrival compared with order=sequence, under loss

A transmitter keeps a rate, and a receiver on another host loses packets on purpose (impair+): with order=sequence messages after a lost
packet wait for its repair, with order=arrival only the messages in it are late. Both take turns. NAKs are delayed at random, to emulate a
longer path. Prints percentiles of the hop: of each 50 ms, and their median (from 2,000 messages a second on), and of whole turns.

Fails if a message was lost, repeated, changed, or out of sequence with order=sequence; or if no packet was lost where hundreds were
expected; or if with order=arrival and more than a hundred losses no message was delivered ahead of order.
"""
import re

from runner import options as opt
from runner.histogram import NAMES, Histogram
from runner.tables import Report, columns_of, medians, ratio, sums

ORDERS = ("sequence", "arrival")
PERCENTILES = ("median", "p99", "p99_9")
CERTAIN = 100  # number of losses at which at least one loss, and one message ahead of order, is certain
WARM_S = 0.05
COUNTERS = ["messages_unordered", "packets_missed", "packets_recovered", "packets_lost", "naks_sent", "impaired_lost"]
PACKED = 32  # maximum of messages in a packet if the transmitter is late
COLUMNS = (("", "loss, order", lambda row: f"{row['loss_percent']:g} %, {row['order']}", None),
           *columns_of(("of 50 ms", "us"), PERCENTILES, "typical_us.{}", 1), *columns_of(("ratio",), PERCENTILES, "ratio_to_sequence.{}", 2),
           *columns_of(("of all", "us"), PERCENTILES, "hop_us.{}", 1), ("packets", "missed", "counters.packets_missed", None),
           ("messages", "ahead", "counters.messages_unordered", None), ("", "lost", "lost", None))
OPTIONS = (opt.text_option("loss", "percentages of packets, with at most four decimals",
                           r"\d{1,2}(\.\d{1,4})?(,\d{1,2}(\.\d{1,4})?)*", "must be percentages below 100 with commas", "PERCENT,...",
                           "0,0.1,1"),
           opt.seconds("delay", 0.002, 0, 1000, "maximum random delay of NAKs; 0: none"),
           opt.number("rate", 20000, 1, 1000000, "messages a second"), opt.size(),
           opt.seconds("duration", 1, 10, 60000, "of each turn"), opt.number("runs", 5, 1, 100, "turns of each"), opt.OPTIONS, opt.CPUS,
           *opt.OUTPUT)


def measure(bench, run, percent, order):
    o, (a, b) = bench.o, (bench.hosts.a, bench.hosts.b)
    lossy = f"order={order}&impair_loss_ppm={round(float(percent) * 10000)}&impair_seed={run + 1}"
    late = f"impair_delay_ns={round(o.delay * 1e9)}" if o.delay else ""
    most = int(o.rate * (o.duration + WARM_S)) + 1
    bench.start(b, "receivers", channels=["impair+" + bench.channel(b, lossy)], cpu=o.cpus[1], size=o.size, measured=[0], trace=most,
                any=True, most=most, counters=COUNTERS)
    sender = bench.start(a, "transmitter", cpu=o.cpus[0], size=o.size,
                         channel=("impair+" if late else "") + bench.channel(a, *filter(None, [late])))
    sender.ask("await")
    for at, duration in ((1, WARM_S), (0, o.duration)):
        sender.ask("send", rate=o.rate, duration=duration, round=at)
    stats, found = sender.ask("stats"), bench.finish(sender)["receivers"]
    receiver = found["receivers"][0]
    hops = Histogram(receiver.pop("rounds")[0][0])
    return {**receiver, "counters": found["counters"], "machine": stats["machine"], "sent": stats["sent"], "hop_us": hops.summary(),
            "typical_us": dict(zip(PERCENTILES, hops.typical(o.rate, 0.05, (0.5, 0.99, 0.999))))}


def row_of(o, percent, order, runs, sequence):
    total = {name: sum(run[name] for run in runs) for name in ("sent", "received", "duplicated", "changed", "disordered")}
    ratios = [{what: ratio(run["typical_us"][what], beside["typical_us"][what]) for what in PERCENTILES}
              for run, beside in zip(runs, sequence)]
    return {"transport": "udp", "loss_percent": float(percent), "order": order, "size_bytes": o.size, "delay_s": o.delay,
            "rate_msgs_per_s": o.rate, "duration_s": o.duration, "runs": len(runs),
            "lost": total["sent"] - total["received"] + total.pop("duplicated"), **total,
            "typical_us": medians((run["typical_us"] for run in runs), PERCENTILES),
            "hop_us": medians((run["hop_us"] for run in runs), NAMES),
            "ratio_to_sequence": medians(ratios, PERCENTILES), "counters": sums(runs)}


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
        yield "no message was delivered ahead of lost ones"


def run(bench):
    o = bench.o
    if re.search(r"(^|&)(order|impair_[a-z_]*)=", o.options):
        o.refuse(f"--options {o.options}: order and losses are set by the benchmark; omit them")
    bench.prepare()
    cases = [(percent, order) for percent in o.loss.split(",") for order in ORDERS]
    found = bench.turns(cases, measure, f"both orders, for {o.duration:g} s each at losses of {o.loss} %")
    rows = [row_of(o, percent, order, runs, found[percent, "sequence"]) for (percent, order), runs in found.items()]
    return Report(bench).study(
        found[cases[0]][0]["machine"], rows,
        (f"{o.rate} msg/s of {o.size} B for {o.duration:g} s, runs: {o.runs}; NAKs are late by up to {o.delay:g} s; options of the channels: "
         f"{o.options};", "hop: from when a message was due to its delivery, in the median of intervals of 50 ms, few of which other",
         "programs disturb, and of whole turns; ratios: of the former to order=sequence in the same run;",
         "missed: packets lost on purpose, ahead: messages delivered before one that was lost, of all runs"), COLUMNS,
        (f"{row['loss_percent']:g} %, {row['order']}: {fault}" for row in rows for fault in faults(row)))
