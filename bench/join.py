#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON of bench/run join, of what its processes wrote."""
import sys

import figures

PHASES = ("before", "during", "after")


def faults(row):
    """What must not be, as sentences."""
    live, joiners = row["live_receiver"], row["joiners"]
    if row["lost"] or row["disturbed"]:
        yield f"the live receiver lost {row['lost']} messages, and {row['disturbed']} came twice or were not announced as lost"
    if joiners["live"] < joiners["asked_for"]:
        yield f"{joiners['asked_for'] - joiners['live']} of {joiners['asked_for']} joiners were never live, {joiners['refused']} refused"
    if joiners["stale"]:
        yield f"joiners were live without the last message of {joiners['stale']} topics"
    if joiners["unsaid"] + joiners["duplicated"] + joiners["changed"]:
        yield f"joiners: {joiners['unsaid']} messages left out and not told, {joiners['duplicated']} twice, {joiners['changed']} changed"
    if not live["before"]["latency_us"]["median"]:
        yield "nothing was measured"


def print_live(row):
    live, ratios = row["live_receiver"], row["ratio_during"]
    rows = []
    for phase in PHASES:
        latency = live[phase]["latency_us"]
        rows.append((phase, figures.number(latency["median"], 1), figures.number(latency["p99"], 1),
                     figures.number(live[phase]["typical_p99"], 1), figures.number(latency["max"], 0),
                     figures.number(row["msgs_per_s"][phase])))
    rows.append(("ratio", figures.number(ratios["median"], 2), figures.number(ratios["p99"], 2),
                 figures.number(ratios["typical_p99"], 2), "", ""))
    figures.table([("live receiver", "median us", "p99", "p99 20ms", "max", "sent/s")], rows)


def print_joiners(joiners):
    rows = [(what, *(figures.number(joiners[name][at], digits) for at in ("median", "p99", "max")))
            for what, name, digits in (("ms until live", "until_live_ms", 1), ("past, messages/s of each", "each_past_msgs_per_s", 0))]
    figures.table([("joiners", "median", "p99", "max")], rows)
    print(f"joined {joiners['joiners']}, live {joiners['live']}, their streams whole {joiners['exact']}, told lost {joiners['lost']}; at a time "
          f"{joiners['open_max']} at most; past {joiners['past']} messages, {joiners['past_msgs_per_s']} a second of all together")


def main():
    files = figures.Files(("rate", "size", "duration", "calm", "history", "join", "topics", "stay", "wait"))
    transmitter, live, joiners = (files.load(name) for name in ("transmitter", "live", "joiners"))
    before, during = live["before"], live["during"]
    row = {"transport": "udp", "join": files.join, "size_bytes": int(files.size), "rate_msgs_per_s": int(files.rate),
           "duration_s": float(files.duration), "calm_s": float(files.calm), "history_packets": int(files.history),
           "topics": int(files.topics), "stay_messages": int(files.stay), "live_receiver_waits": files.wait,
           "received": live["received"], "lost": live["lost"], "disturbed": live["unsaid"] + live["duplicated"] + live["changed"],
           "live_receiver": {phase: live[phase] for phase in PHASES},
           "ratio_during": {**{name: figures.ratio(during["latency_us"][name], before["latency_us"][name]) for name in ("median", "p99")},
                            "typical_p99": figures.ratio(during["typical_p99"], before["typical_p99"])},
           "msgs_per_s": transmitter["msgs_per_s"], "joiners": joiners, "counters": transmitter["counters"]}
    files.write("join", transmitter["machine"], [row])
    figures.head(transmitter["machine"],
                 f"{files.rate} msg/s of {files.size} B on {files.topics} topics, a history of {files.history} packets; "
                 f"{joiners['asked_for']} join within",
                 f"{files.duration} s with join={files.join}; {files.calm} s before and after without; the live receiver "
                 f"{'polls' if files.wait == 'spin' else 'sleeps between messages'};",
                 "latency from when a message was due to its delivery")
    print_live(row)
    print(f"lost {row['lost']}; of the transmitter: {figures.counted(row['counters'])}")
    print()
    print_joiners(joiners)
    wrong = list(faults(row))
    for sentence in wrong:
        print(f"FAILED: {sentence}")
    sys.exit(1 if wrong else 0)


main()
