# SPDX-License-Identifier: Apache-2.0
"""cost of a message that a receiver filters out

Rows: 10,000 topics, of which 1 % or all are subscribed to; messages rejected by label, by bitmap, by selector, or by the summary of their
packet. In one process, from the cache, without a network. Rows take turns; each figure is the median of 31 runs.
"""
from runner import options as opt
from runner.session import Host
from runner.tables import Report, median

RUNS, MESSAGES = 31, 40000  # messages of a run
SIZE, TOPICS = 45, 10000
# By row: its text, and the features of its pair.
ROWS = {
    "plain": ("no filter, one topic", {}),
    "topics_all": ("10,000 topics in turns, no filter", {"topics": TOPICS}),
    "topics_1_percent": ("10,000 topics in turns, 1 % subscribed to", {"topics": TOPICS, "wanted": 100}),
    "labels_all": ("labels, no filter", {"label_run": 1}),
    "labels_wanted": ("labels, filter wants all", {"label_run": 1, "filter": "label", "mask": 4, "match": 0}),
    "labels_rejected": ("labels, filter rejects each message", {"label_run": 1, "filter": "label", "mask": 3, "match": 3}),
    "labels_skipped": ("labels, summary rejects each packet", {"label_run": 0, "filter": "label", "mask": 2, "match": 2}),
    "bitmaps_rejected": ("bitmaps of 256 bits, filter rejects each message", {"label_run": 1, "attributes": "bitmap", "filter": "bitmap"}),
    "properties_rejected": ("3 properties, selector rejects each message",
                            {"label_run": 1, "attributes": "properties", "filter": "selector"}),
}
COLUMNS = (("", lambda row: ROWS[row["row"]][0], None), ("a packet", "messages_per_packet", 1), ("ns each", "ns_per_message", 2),
           ("ns/packet", "ns_per_packet", 1), ("% wanted", "delivered_percent", 1))
OPTIONS = (opt.number("cpu", 0, 0, 4095, "the CPU to run on"), *opt.OUTPUT)


def row_of(name, turns, announcements, stats):
    ns, packets = median(turns["ns"]), turns["sent"] / (stats["packets"] - announcements["packets"])
    return {"row": name, "messages_per_packet": packets, "ns_per_message": ns, "ns_per_packet": ns * packets,
            "delivered_percent": 100 * turns["received"] / turns["sent"], "packets_skipped": stats["counters"]["packets_skipped"]}


def run(bench):
    bench.prepare(namespaces=False)
    process = bench.start(Host("", "", ""), "pairs", program="pairs", cpu=bench.o.cpu)
    for name, (_, has) in ROWS.items():
        process.ask("pair", name=name, channel=f"loop://{name}:1?mtu=1472", size=SIZE, **has)
    announcements = process.ask("stats")
    turns = process.ask("measure", pattern="take", rounds=RUNS, messages=MESSAGES)
    stats = process.ask("stats", counters=["packets_skipped", "data_malformed"])
    bench.processes.finish(process)
    rows, report = [row_of(name, turns[name], announcements[name], stats[name]) for name in ROWS], Report(bench)
    report.print(f"{SIZE}-byte messages, medians of {RUNS} runs", "")
    report.rows(COLUMNS, rows)
    report.write({"benchmark": "filter", "size": SIZE, "rows": rows})
    for name, found in stats.items():
        if found["lost"] or found["counters"]["data_malformed"]:
            report.fail(f"{name}: packets were not filtered as expected")
    return report.finish()
