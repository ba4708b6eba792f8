# SPDX-License-Identifier: Apache-2.0
"""cost of late joiners for a live receiver, and the time until they are live

A transmitter keeps a rate; a live receiver on its host measures hop and loss; on another host receivers join from a past position, one
after the other, each in a context of its own. Each checks that it gets every message once until it has been live for a while, and leaves.
Prints the live receiver's latency and the rate before, during and after; the time until a joiner is live, with --join live until its first
message; and past messages a second, of all joiners together and of each.

Fails if the live receiver lost a message, or if a joiner never became live, got a message twice, or missed one without an event. A joiner
that starts with the oldest message may lose some at the end of the history; such reported losses are counted only.

With three cores the live receiver has its own. With two it sleeps between messages, and the joiners poll at the lowest priority on its core
in all phases. "p99 20ms" is the median of the 99th percentiles of 20 ms each (from 5,000 messages a second on).
"""
import os

from runner import options as opt
from runner.histogram import Histogram
from runner.session import say
from runner.tables import Report, counted, faults_of, number, ratio, text_of, totals

PHASES, MEASURED = ("before", "during", "after"), [1, 2, 4]
FILL_S = 1.2  # a session younger than a second is followed from its start, whatever the join option
SETTLE_S, STEP_S = 30, 0.02  # maximum time for the last joiners, and poll interval
COUNTERS = ["joins_received", "joins_granted", "joins_refused", "joins_dropped", "packets_replayed", "naks_received", "packets_repaired",
            "receivers_suspended"]
CPUS = opt.cpus("0,1,2" if os.cpu_count() > 2 else "0,1,1", 3, "the CPUs of the transmitter, the live receiver and the joiners")
OPTIONS = (opt.number("joiners", 1000, 1, 100000, "receivers that join"),
           opt.seconds("duration", 10, 100, 3600000, "over which their joins are spread evenly"),
           opt.seconds("calm", 3, 100, 3600000, "before and after that"),
           opt.text_option("join", "start of the stream: oldest, messages:N back, time:SECONDS back, latest (cached messages), or live",
                           r"oldest|latest|live|messages:\d{1,12}|time:\d{1,4}(\.\d{1,3})?",
                           "must be oldest, messages:N, time:SECONDS, latest or live", "WHERE", "oldest"),
           opt.number("history", 1024, 64, 16777216,
                      "packets in the transmitter's history, a power of two; at fixed rates a packet has one message"),
           opt.number("topics", None, 1, 16000, "topics, used in turn (1; with --join latest 1000, which cache their last message)"),
           opt.number("stay", 100, 0, 1000000, "messages that a joiner receives live before it leaves"),
           opt.number("rate", 10000, 1, 1000000, "messages a second"), opt.size(), opt.OPTIONS, CPUS, *opt.OUTPUT)


def past_of(o):
    """Start position of joiners, as channel options, and the number of past messages from there."""
    where, _, much = o.join.partition(":")
    if where == "messages":
        return f"join=messages&join_messages={int(much)}", int(much)
    if where == "time":
        return f"join=time&join_ns={round(float(much) * 1e9)}", int(float(much) * o.rate)
    return f"join={where}", o.history if where == "oldest" else 0


def send_all(bench, sender, joiners, shared):
    """Runs the transmitter's phases. The first creates the past; the fourth lasts until the last joiner has left. Returns its rates."""
    fill = max(FILL_S, max(shared["past"], shared["topics"]) / shared["rate"])
    steps = {"fill": fill, "before": shared["calm"], "during": shared["duration"], "settle": STEP_S, "after": shared["calm"]}
    rates = {}
    for phase, (name, duration) in enumerate(steps.items()):
        if name == "during":
            joiners.tell("begin")
        for _ in range(int(SETTLE_S / STEP_S) if name == "settle" else 1):
            rates[name] = sender.ask("send", rate=shared["rate"], duration=duration, phase=phase)["msgs_per_s"]
            if name == "settle" and (joiners.said or joiners.ended):
                break
    return rates


def measure(bench, shared, channel, other=None):
    """Runs the three processes, also for bench/run kept. Returns their results, and how the live receiver waits."""
    o, (a, b) = bench.o, (bench.hosts.a, bench.hosts.b)
    wait = "spin" if o.cpus[1] != o.cpus[2] else "block"
    samples = int(shared["rate"] * max(shared["duration"], shared["calm"])) + 1
    bench.start(a, "receivers", "live", channels=[bench.channel(a)], cpu=o.cpus[1], wait=wait, measured=MEASURED, trace=samples)
    # Joiners have small windows, as there are many. Those that share a core with the live receiver have a lower priority.
    small = f"sessions_max=1&window_packets=1024&reorder_bytes=2097152&message_bytes_max={shared['size']}"
    joiners = bench.start(b, "joiners", idle=wait == "block", cpu=o.cpus[2], channel=bench.channel(b, channel, small),
                          other=other and bench.channel(b, other, small), **shared)
    options = f"history_packets={shared['history']}", "receivers_max=100000"
    sender = bench.start(a, "transmitter", channel=bench.channel(a, *options), cpu=o.cpus[0],
                         **{key: shared[key] for key in ("size", "topics", "keep")})
    sender.ask("await")
    rates = send_all(bench, sender, joiners, shared)
    transmitter = {**sender.ask("stats", counters=COUNTERS), "msgs_per_s": rates}
    bench.finish(sender, sender)
    joiners.popen.stdin.close()
    found = bench.processes.serve()
    live = found["live"]["receivers"][0]
    for phase, one in zip(PHASES, map(Histogram, live.pop("rounds")[0])):
        live[phase] = {"typical_p99": one.typical(shared["rate"], 0.02, (0.99,))[0], "latency_us": one.summary()}
    return {"transmitter": transmitter, "live": live, "joiners": sum_up(found["joiners"], shared["joiners"]), "wait": wait}


def of_each(values):
    """Statistics of one figure of all joiners."""
    values = sorted(values)
    at = {"median": len(values) // 2, "p99": (len(values) - 1) * 99 // 100, "max": len(values) - 1}
    return {name: values[index] if values else None for name, index in at.items()}


def sum_up(found, asked_for):
    each, past_ns = found["each"], found["past_ns"]
    live = [one for one in each if one["until_live_ns"]]
    here, there = ([one for one in live if one["other"] == other] for other in (0, 1))
    total = {**totals(each), **{name: sum(one[name] for one in each) for name in ("past", "stale", "refused")}}
    return {"joiners": len(each), "asked_for": asked_for, "live": len(live), "open_max": found["open_max"],
            "exact": sum(one["begun"] and not faults_of(one) + one["wrong"] + one["stale"] for one in live),
            **total, "changed": total["changed"] + sum(one["wrong"] for one in each),
            "past_msgs_per_s": round(total["past"] * 1e9 / past_ns) if past_ns > 0 else None,
            "until_live_ms": of_each(one["until_live_ns"] / 1e6 for one in here),
            "other_until_live_ms": of_each(one["until_live_ns"] / 1e6 for one in there),
            "each_past_msgs_per_s": of_each(one["past"] * 1e9 / one["until_live_ns"] for one in here)}


def faults(row):
    live, joiners = row["live_receiver"], row["joiners"]
    if row["lost"] or row["disturbed"]:
        yield f"the live receiver lost {row['lost']} messages, and {row['disturbed']} came twice, changed, or were missing without an event"
    if joiners["live"] < joiners["asked_for"]:
        yield f"{joiners['asked_for'] - joiners['live']} of {joiners['asked_for']} joiners were never live, {joiners['refused']} refused"
    if joiners["stale"]:
        yield f"joiners were live without the last message of {joiners['stale']} topics"
    if joiners["unsaid"] + joiners["duplicated"] + joiners["changed"]:
        yield f"joiners: {joiners['unsaid']} messages missing without an event, {joiners['duplicated']} twice, {joiners['changed']} changed"
    if not live["before"]["latency_us"]["median"]:
        yield "nothing was measured"


LIVE = (("live receiver", "phase", None), ("median us", "median", 1), ("p99", "p99", 1), ("p99 20ms", "typical_p99", 1), ("max", "max", 0),
        ("sent/s", "sent", 0))


def print_tables(report, row):
    live, joiners = row["live_receiver"], row["joiners"]
    phases = [{"phase": phase, **live[phase]["latency_us"], **live[phase], "sent": row["msgs_per_s"][phase]} for phase in PHASES]
    lines = [tuple(text_of(one, *column[-2:]) for column in LIVE) for one in phases]
    ratios = (number(row["ratio_during"][what], 2) for what in ("median", "p99", "typical_p99"))
    report.table([tuple(column[0] for column in LIVE)], [*lines, ("ratio", *ratios, "", "")])
    report.print(f"lost {row['lost']}; of the transmitter: {counted(row['counters'])}", "")
    report.table([("joiners", "median", "p99", "max")],
                 [(what, *(number(joiners[name][at], digits) for at in ("median", "p99", "max")))
                  for what, name, digits in (("ms until live", "until_live_ms", 1), ("past, messages/s of each", "each_past_msgs_per_s", 0))])
    report.print(f"joined {joiners['joiners']}, live {joiners['live']}, their streams whole {joiners['exact']}, told lost "
                 f"{joiners['lost']}; at a time {joiners['open_max']} at most; past {joiners['past']} messages, "
                 f"{joiners['past_msgs_per_s']} a second of all together")


def run(bench):
    o = bench.o
    if o.history & (o.history - 1):
        o.refuse(f"--history {o.history}: must be a power of two, such as 1024")
    where, past = past_of(o)
    o.topics = o.topics or (1000 if o.join == "latest" else 1)
    bench.prepare()
    say(f"measuring {o.joiners} receivers that join within {o.duration:g} s")
    shared = {"rate": o.rate, "size": o.size, "duration": o.duration, "calm": o.calm, "joiners": o.joiners, "history": o.history,
              "past": min(past, o.history), "topics": o.topics, "keep": int(o.join == "latest"), "stay": o.stay, "now": o.join == "live"}
    transmitter, live, joiners, wait = measure(bench, shared, where).values()
    before, during = live["before"], live["during"]
    row = {"transport": "udp", "join": o.join, "size_bytes": o.size, "rate_msgs_per_s": o.rate, "duration_s": o.duration,
           "calm_s": o.calm, "history_packets": o.history, "topics": o.topics, "stay_messages": o.stay, "live_receiver_waits": wait,
           "received": live["received"], "lost": live["lost"], "disturbed": faults_of(live) - live["lost"],
           "live_receiver": {phase: live[phase] for phase in PHASES},
           "ratio_during": {**{name: ratio(during["latency_us"][name], before["latency_us"][name]) for name in ("median", "p99")},
                            "typical_p99": ratio(during["typical_p99"], before["typical_p99"])},
           "msgs_per_s": transmitter["msgs_per_s"], "joiners": joiners, "counters": transmitter["counters"]}
    report = Report(bench)
    report.write_json(transmitter["machine"], [row])
    report.head(transmitter["machine"], f"{o.rate} msg/s of {o.size} B on {o.topics} topics, a history of {o.history} packets; "
                f"{o.joiners} join within", f"{o.duration:g} s with join={o.join}; {o.calm:g} s before and after without; the live "
                f"receiver {'polls' if wait == 'spin' else 'sleeps between messages'};",
                "latency from when a message was due to its delivery")
    print_tables(report, row)
    for sentence in faults(row):
        report.fail(sentence)
    return report.finish()
