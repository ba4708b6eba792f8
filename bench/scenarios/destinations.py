# SPDX-License-Identifier: Apache-2.0
"""What a list of hosts costs instead of a group.

One stream to a list of hosts (option destinations of a channel), beside the same stream to one group that as many receivers joined,
in turns in the same run. For each number of receivers, at a steady rate: the hop, its median and 99th percentile over all receivers,
and the median of the one that gets its messages last. What the transmitter spends: the time of an llm_send() whose message leaves by
itself, and that of a message in bursts of 512, which fill packets, until the kernel has the last one. Flat out, with flow=window and
everybody counted: messages a second. Ratios are to the group with as many receivers.

Receivers share a process, and a core, each in a context of its own and, of a list, at a port of its own. On this machine the kernel
that sends is the one that receives: copying a group's packet to each receiver's socket is the transmitter's time here, and between
machines a switch's. So ratios of a real network are nearer to the number of receivers than these.

Fails if a message was lost.
"""
from runner import options as opt
from runner.histogram import Histogram, summary_of
from runner.session import say
from runner.tables import Report, counted, median, number, ratio, sums

NAMES = {"group": "a group", "list": "a list"}
# Columns with a ratio: field, column, decimals.
COMPARED = (("hop_us", "hop us", 1), ("send_us", "send us", 2), ("packed_ns", "packed ns", 1), ("msgs_per_s", "msg/s", 0))
OPTIONS = (opt.numbers("receivers", "1,2,4,8,16", 1, 32, "numbers of receivers"), opt.words("to", "group,list", NAMES, "which of these"),
           opt.number("rate", 10000, 1, 1000000, "messages a second where the hop is measured"),
           opt.seconds("duration", 0.3, 10, 3600000, "of each of the three measurements"), opt.RUNS, opt.size(), opt.OPTIONS, opt.CPUS,
           *opt.OUTPUT)


def measure(bench, name, count, kind):
    o, hosts = bench.o, bench.hosts
    address, port = ("239.192.1.1", 5001) if kind == "group" else (hosts.b.address, 5011)
    places = [f"{address}:{port + (at if kind == 'list' else 0)}" for at in range(count)]
    near, far = (f"interface={host.interface}&{o.options}" for host in (hosts.a, hosts.b))
    others = f"&destinations={','.join(places[1:])}" if kind == "list" and count > 1 else ""
    bench.start(hosts.b, "destinations-receivers", "receivers", channels=[f"udp://{place}?{far}" for place in places], cpu=o.cpus[1])
    bench.start(hosts.a, "destinations-transmitter", "transmitter", channel=f"udp://{places[0]}?{near}{others}", receivers=count,
                rate=o.rate, size=o.size, duration=o.duration, cpu=o.cpus[0])
    bench.keep(name, bench.processes.serve())


def hops_of(process):
    """Of all receivers together, and the median of the one that has the greatest."""
    each, together = [Histogram(found) for found in process["hops"]], Histogram()
    for one in each:
        together.merge(one)
    return {**together.summary(), "last": max(one.percentile(0.5) for one in each) / 1e3}


def row_of(bench, kind, count):
    o = bench.o
    transmitters, processes = ([bench.load(f"{run}-{count}-{kind}-{role}") for run in range(o.runs)]
                               for role in ("transmitter", "receivers"))
    tracks = [track for process in processes for track in process["receivers"]]
    sent, received = sum(run["sent"] for run in transmitters), sum(track["received"] for track in tracks)
    duplicated = sum(track["duplicated"] for track in tracks)
    hops = [hops_of(process) for process in processes]
    return {"transport": "udp", "to": kind, "receivers": count, "size_bytes": o.size, "rate_msgs_per_s": o.rate,
            "duration_s": o.duration, "sent": sent, "received": received,
            "lost": sent * count - (received - duplicated) + duplicated + sum(track["changed"] for track in tracks),
            "hop_us": {what: median(hop[what] for hop in hops) for what in ("median", "p99", "last")},
            "send_us": median(summary_of(run["lone"])["median"] for run in transmitters),
            "packed_ns": median(Histogram(run["packed"]).percentile(0.5) / run["burst"] for run in transmitters),
            "msgs_per_s": median(run["msgs_per_s"] for run in transmitters),
            "counters": sums(transmitters), "machine": transmitters[0]["machine"]}


def value_of(row, field):
    return row[field]["median"] if field == "hop_us" else row[field]


def cells(row):
    yield from (NAMES[row["to"]], str(row["receivers"]))
    for field, _, digits in COMPARED:
        yield number(value_of(row, field), digits)
        if field == "hop_us":
            yield from (number(row["hop_us"][what], 1) for what in ("p99", "last"))
        yield number(row["ratio_to_group"][field], 2)
    yield str(row["lost"])


def head():
    words = ["to", "receivers"]
    for field, name, _ in COMPARED:
        words += [name, "p99", "last", "ratio"] if field == "hop_us" else [name, "ratio"]
    return [(*words, "lost")]


def run(bench):
    o = bench.o
    if "destinations=" in o.options:
        o.refuse(f"--options {o.options}: destinations are what is measured; say how many with --receivers")
    bench.count_all()
    bench.prepare()
    receivers = list(dict.fromkeys(o.receivers))
    for at in range(o.runs):
        for count in receivers:
            say(f"run {at + 1}, {count} receivers of a {', then of a '.join(o.to)}: three times {o.duration:g} s each")
            for kind in o.to:
                measure(bench, f"{at}-{count}-{kind}", count, kind)
    rows = []
    for count in receivers:
        kinds = [row_of(bench, kind, count) for kind in NAMES if kind in o.to]
        group = next((row for row in kinds if row["to"] == "group"), None)
        for row in kinds:
            row["ratio_to_group"] = {field: ratio(value_of(row, field), group and value_of(group, field)) for field, *_ in COMPARED}
        rows += kinds
    machine = [row.pop("machine") for row in rows][0]
    report = Report(bench)
    report.write_json(machine, rows)
    report.head(machine, f"{o.size} B, {o.duration:g} s each, runs: {o.runs}; options of the channels: {o.options};",
                f"hop: from when a message was due to its delivery, at {o.rate} msg/s, last: of the receiver that is last;",
                "send: an llm_send() of a message by itself; packed: a message of bursts of 512; receivers share a core;",
                "ratios to the group")
    report.table(head(), [tuple(cells(row)) for row in rows])
    for row in rows:
        if row["lost"]:
            report.fail(f"{NAMES[row['to']]}, {row['receivers']} receivers: {row['lost']} messages lost, twice or changed; of the "
                        f"transmitter: {counted(row['counters'])}")
    return report.finish()
