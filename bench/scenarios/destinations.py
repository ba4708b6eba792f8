# SPDX-License-Identifier: Apache-2.0
"""a list of hosts compared with a multicast group

One stream to a list of hosts (option destinations of a channel), and to a group with as many receivers, in turn. At a fixed rate: the hop
over all receivers, and that of the slowest one; the duration of an llm_send() of a single-message packet, and of a message in a burst of
512, which fills packets. Flat out, with flow=window: messages a second. Ratios are to the group.

Receivers share a process and a core. The sending kernel also receives: it copies a group's packet to each socket in the transmitter's time.
Between machines a switch does that, and ratios are closer to the number of receivers. Fails if a message was lost.
"""
from runner import options as opt
from runner.histogram import Histogram, summary_of
from runner.tables import Report, counted, field_of, medians, ratio, sums, totals

NAMES = {"group": "a group", "list": "a list"}
BURST, BURST_S = 512, 0.002  # messages in a burst, and seconds between two bursts
CALM_S = 0.05
COUNTERS = ["packets_sent", "send_blocked_flow", "naks_received", "packets_repaired", "status_received", "udp_send_waits"]
COMPARED = {"hop_us": "hop_us.median", "send_us": "send_us", "packed_ns": "packed_ns", "msgs_per_s": "msgs_per_s"}
COLUMNS = (("to", lambda row: NAMES[row["to"]], None), ("receivers", "receivers", None), ("hop us", "hop_us.median", 1),
           ("p99", "hop_us.p99", 1), ("last", "hop_us.last", 1), ("ratio", "ratio_to_group.hop_us", 2), ("send us", "send_us", 2),
           ("ratio", "ratio_to_group.send_us", 2), ("packed ns", "packed_ns", 1), ("ratio", "ratio_to_group.packed_ns", 2),
           ("msg/s", "msgs_per_s", 0), ("ratio", "ratio_to_group.msgs_per_s", 2), ("lost", "lost", None))
OPTIONS = (opt.numbers("receivers", "1,2,4,8,16", 1, 32, "numbers of receivers"), opt.words("to", "group,list", NAMES, "which of these"),
           opt.number("rate", 10000, 1, 1000000, "messages a second where the hop is measured"),
           opt.seconds("duration", 0.3, 10, 3600000, "of each of the three measurements"), opt.RUNS, opt.size(), opt.OPTIONS, opt.CPUS,
           *opt.OUTPUT)


def measure(bench, _, kind, count):
    o, hosts = bench.o, bench.hosts
    address, port = ("239.192.1.1", 5001) if kind == "group" else (hosts.b.address, 5011)
    places = [f"{address}:{port + (at if kind == 'list' else 0)}" for at in range(count)]
    near, far = (f"interface={host.interface}&{o.options}" for host in (hosts.a, hosts.b))
    others = f"&destinations={','.join(places[1:])}" if kind == "list" and count > 1 else ""
    bench.start(hosts.b, "receivers", channels=[f"udp://{place}?{far}" for place in places], measured=[0], cpu=o.cpus[1])
    sender = bench.start(hosts.a, "transmitter", channel=f"udp://{places[0]}?{near}{others}", size=o.size, cpu=o.cpus[0])
    sender.ask("await", receivers=count)

    def send(duration, **words):
        return sender.ask("send", duration=duration, drain=CALM_S, **words)

    # Only single messages measure the hop. Receivers process bursts in the pauses, so neither waits for the other.
    send(CALM_S, rate=o.rate, round=1)
    lone = send(o.duration, rate=o.rate)["spent"]
    packed = send(o.duration, rate=round(BURST / BURST_S), burst=BURST, round=1)["spent"]
    send(CALM_S, rate=0, round=1)
    rate = send(o.duration, rate=0, round=1)["msgs_per_s"]
    found = {**sender.ask("stats", counters=COUNTERS), "msgs_per_s": rate, "send_us": summary_of(lone)["median"],
             "packed_ns": Histogram(packed).percentile(0.5) / BURST}
    return {**found, "tracks": bench.finish(sender)["receivers"]["receivers"]}


def hops_of(run):
    """Hops of all receivers together, and the median of the slowest receiver."""
    each = [Histogram(track["rounds"][0][0]) for track in run["tracks"]]
    return {**Histogram(*each).summary(), "last": max(one.percentile(0.5) for one in each) / 1e3}


def row_of(o, kind, count, runs):
    sent, total = sum(run["sent"] for run in runs), totals([track for run in runs for track in run["tracks"]])
    return {"transport": "udp", "to": kind, "receivers": count, "size_bytes": o.size, "rate_msgs_per_s": o.rate,
            "duration_s": o.duration, "sent": sent, "received": total["received"],
            "lost": sent * count - total["received"] + 2 * total["duplicated"] + total["changed"],
            "hop_us": medians(map(hops_of, runs), ("median", "p99", "last")),
            **medians(runs, ("send_us", "packed_ns", "msgs_per_s")), "counters": sums(runs)}


def run(bench):
    o = bench.o
    if "destinations=" in o.options:
        o.refuse(f"--options {o.options}: destinations are set by the benchmark; choose their number with --receivers")
    bench.count_all()
    bench.prepare()
    cases = [(kind, count) for count in dict.fromkeys(o.receivers) for kind in NAMES if kind in o.to]
    found = bench.turns(cases, measure, f"a {', then a '.join(o.to)}, three times {o.duration:g} s each")
    rows = [row_of(o, *case, runs) for case, runs in found.items()]
    for row in rows:
        group = next((other for other in rows if (other["to"], other["receivers"]) == ("group", row["receivers"])), None)
        row["ratio_to_group"] = {name: ratio(field_of(row, path), field_of(group, path)) for name, path in COMPARED.items()}
    return Report(bench).study(
        found[cases[0]][0]["machine"], rows,
        (f"{o.size} B, {o.duration:g} s each, runs: {o.runs}; options of the channels: {o.options};",
         f"hop: from when a message was due to its delivery, at {o.rate} msg/s, last: of the slowest receiver;",
         "send: an llm_send() of a single message; packed: a message in bursts of 512; receivers share a core;",
         "ratios to the group"), COLUMNS,
        (f"{NAMES[row['to']]}, {row['receivers']} receivers: {row['lost']} messages lost, twice or changed; of the transmitter: "
         f"{counted(row['counters'])}" for row in rows if row["lost"]))
