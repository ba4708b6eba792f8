# SPDX-License-Identifier: Apache-2.0
"""accuracy of rate limits on the wire, and rates that pacing finds

Limits: a topic offers twice the limit, in messages of 1,000 bytes, next to a stream on a topic of its own. Rows: no limit; limits of the
transmitter and of the topic; and, while the receiver loses 5 % of the packets in runs (impair+), without and with a limit of repairs, a
fifth of the others. An observer records the bytes of packets on the wire (for the topic: the receiver, those of messages): the mean, and
the maximum of any window of 1 ms, 10 ms and 1 s. The row small has messages of 45 bytes. Also prints packets for each message, and their
ratio to the least possible number of packets.

Rates found: with flow=open, paced and window, three phases; in the second one a receiver joins that takes half of the offered rate. Prints
the rate of a reference receiver in the second half of each phase, the time until it fell to 3/4 of the first, and until it was back at 95 %
of it, the stream's latency, and the losses of both receivers. Fails if the reference receiver lost a message, or if a limit was exceeded in
a second or in the mean, or hardly used, or if packets were not full under a limit.
"""
import signal

from exact import observer
from runner import options as opt
from runner.histogram import summary_of
from runner.session import say
from runner.tables import Report, counted, faults_of, field_of, ratio

LIMITS = {"none": "no limit", "transmitter": "transmitter", "small": "transmitter, 45 B", "topic": "topic",
          "losses": "5 % lost, no limit", "repairs": "5 % lost, repairs"}
FLOWS = ("open", "paced", "window")
WINDOWS = {"1 ms": "bytes_per_s_1ms_max", "10 ms": "bytes_per_s_10ms_max", "1 s": "bytes_per_s_1s_max"}
PACKETS = ("packets_per_message", "packets_ratio_to_least")
PHASES = ("before", "during", "after")
BULK, SMALL = 1000, 45  # bytes of a message
WARM_S = 0.3
COUNTERS = ["send_blocked_rate", "send_blocked_flow", "naks_received", "packets_repaired", "repairs_delayed", "receivers_suspended", "receivers_lost"]
COUNTED = ["messages_sent", "packets_data", "unsent_packets"]  # for the number of packets of a message
# Ratios to a limit. Over a second, the initial contents of a bucket and the delays of a busy machine may exceed it. A slow machine sends
# less than its limit; tests/unit/core/base/pacer.c compares the rate with the limit exactly.
MOST, LEAST = 1.06, 0.02
HELD_BACK, PACKETS_MOST = 0.98, 1.2
# Packets that wait for limited repairs stay in the history.
HISTORY = "history_bytes=268435456", "history_packets=262144", "linger_ns=20000000000"


def megabytes(path):
    return lambda row: (value := field_of(row, path)) and value / 1e6


OF_PACKETS = (("packets", "a msg", PACKETS[0], 4), ("", "of least", PACKETS[1], 2))
LIMITED = (("", "limit of", lambda row: LIMITS[row["row"]], None), ("limit", "MB/s", megabytes("limit_bytes_per_s"), 2),
           ("seen", "mean", megabytes("seen.bytes_per_s"), 2),
           *((head, window, megabytes(f"seen.{WINDOWS[window]}"), 2) for head, window in zip(("most of", "any", ""), WINDOWS)),
           *((head, window, f"ratio_to_limit.{window}", 3) for head, window in zip(("over", "limit", ""), WINDOWS)),
           ("stream", "us", "stream_us.median", 1), ("", "p99", "stream_us.p99", 1), ("", "ratio", "stream_ratio", 2), *OF_PACKETS,
           ("", "lost", "lost", None))
FOUND = (("", "flow", "row", None), *((head, phase, f"msgs_per_s.{phase}", 0) for head, phase in zip(("msg/s", "", ""), PHASES)),
         ("down", "ms", "down_after_ms", 0), ("back", "ms", "back_after_ms", 0),
         *((head, phase, f"stream_us.{phase}.median", 1) for head, phase in zip(("stream us", "", ""), PHASES)), *OF_PACKETS,
         ("lost", "half", "half_lost", None), ("", "steady", "lost", None))
OPTIONS = (opt.words("row", ",".join([*LIMITS, *FLOWS]), (*LIMITS, *FLOWS), "which of these"),
           opt.number("limit", 10000000, 655360, 1000000000, "bytes a second"),
           opt.number("rate", 100000, 1000, 1000000, "messages a second offered while pacing finds the rate"),
           opt.number("stream", 10000, 1, 100000, "messages of 45 bytes a second of the stream"),
           opt.seconds("duration", 1.5, 100, 60000, "of each limit, and of each phase"), opt.OPTIONS,
           opt.cpus("0,1", 2, "the CPUs of the transmitter and the receiver; observer and slow receiver are not pinned"),
           *opt.OUTPUT)


def start(bench, phases, loss_ppm, options, bulk, bulk_size):
    """Starts the transmitter and the receiver of a row with so many phases. Returns the transmitter."""
    o, (a, b) = bench.o, (bench.hosts.a, bench.hosts.b)
    lossy = [f"impair_loss_ppm={loss_ppm}", "impair_burst_packets=100"] if loss_ppm else []
    bench.start(b, "receivers", "receiver", channels=[("impair+" if lossy else "") + bench.channel(b, *lossy, *options)], cpu=o.cpus[1],
                measured=list(range(phases)), bulk=int(bulk * (phases * o.duration + WARM_S + 1)))
    return bench.start(a, "transmitter", channel=bench.channel(a, *HISTORY, *[option for option in options if option != "timestamps=1"]),
                       cpu=o.cpus[0], size=SMALL, bulk_size=bulk_size)


def send(o, sender, bulk, phase=None):
    """phase: None for warm-up."""
    sender.ask("send", rate=o.stream, bulk=bulk, duration=WARM_S if phase is None else o.duration, phase=phase, round=int(phase is None))


def finish(bench, sender, *others):
    """Returns the figures that rows of both kinds have, and the answers of the other processes."""
    stats = sender.ask("stats", counters=COUNTERS + COUNTED)
    found = bench.finish(sender, sender, *others)
    counters = stats["counters"]
    messages, packets, unsent = (counters.pop(name) for name in COUNTED)
    receiver = found.pop("receiver")
    track = receiver["receivers"][0]
    return {"received": track["received"], "lost": faults_of(track), "stream_us": [summary_of(one) for one in track["rounds"][0]],
            PACKETS[0]: (packets + unsent) / messages, PACKETS[1]: (packets + unsent) * stats["packet_bytes"] / stats["bytes"],
            "counters": counters, "machine": stats["machine"]}, receiver["bulk"], found


def limit_row(bench, name):
    """Figures of one limit: of messages for the topic, of packets for all others."""
    o, limit = bench.o, bench.o.limit
    bulk, size = (2 * limit // SMALL, SMALL) if name == "small" else (2 * limit // BULK, BULK)
    asked = {"none": None, "losses": None, "repairs": limit // 5}.get(name, limit)
    say(f"limit: {name}")
    b = bench.hosts.b
    witness = bench.processes.start(b, "witness", ["python3", observer.__file__], b.interface)
    sender = start(bench, 1, 50000 if name in ("losses", "repairs") else 0, ["timestamps=1", "slow=off"], bulk, size)
    sender.ask("await")
    sender.ask("limit", **{{"topic": "bulk", "repairs": "repairs"}.get(name, "transmitter"): asked or 0})
    send(o, sender, bulk)
    send(o, sender, bulk, 0)
    row, topic, _ = finish(bench, sender, next(process for process in bench.processes.started if process.name == "receiver"))
    witness.signal(signal.SIGTERM)
    wire = bench.processes.serve()["witness"]
    seen = observer.rates_of(topic if name == "topic" else wire["repairs" if name in ("losses", "repairs") else "fresh"])
    return {"transport": "udp", "row": name, "limit_bytes_per_s": asked, "offered_bytes_per_s": 2 * limit, **row,
            "stream_us": row["stream_us"][0], "seen": seen, "witness_missed": wire["missed"],
            "ratio_to_limit": {window: ratio(seen[field], asked) for window, field in {"mean": "bytes_per_s", **WINDOWS}.items()}}


def limit_faults(row, duration):
    ratios = row["ratio_to_limit"]
    # In less than a second the initial contents of a bucket are significant.
    if not row["limit_bytes_per_s"] or duration <= 1:
        return
    for window in ("mean", "1 s"):
        if ratios[window] is None or ratios[window] > MOST:
            yield f"{ratios[window]} of the limit, {window}; at most {MOST}"
    # Repairs are limited by the number of losses.
    if row["row"] != "repairs" and (ratios["mean"] or 0) < LEAST:
        yield f"{ratios['mean']} of the limit; at least {LEAST}"
    # Packets of a transmitter that is held back are full. A machine too slow for the limit holds nothing back.
    if row["row"] in ("transmitter", "small") and (ratios["mean"] or 0) > HELD_BACK and row[PACKETS[1]] > PACKETS_MOST:
        yield f"{row[PACKETS[1]]} packets for each that is necessary; at most {PACKETS_MOST}"


def mean(bins, begin, end):
    """Messages a second in the bins from begin to end, both fractional bin numbers."""
    chosen = bins[max(int(begin), 0):int(end)]
    return sum(chosen) * 100 / len(chosen) if chosen else None


def first(bins, begin, end, wanted):
    """Milliseconds from begin until the mean of 50 ms is as wanted; None if it never is."""
    for at in range(int(begin), min(int(end), len(bins) - 5)):
        if wanted(mean(bins, at, at + 5)):
            return max(at + 5 - begin, 0) * 10
    return None


def found_row(bench, flow):
    """Another receiver joins and leaves. It takes half of the offered rate, as each message takes twice the time available."""
    o, b = bench.o, bench.hosts.b
    say(f"flow: {flow}")
    half = bench.start(b, "receivers", "half", channels=[bench.channel(b, f"flow={flow}")], wait="block", later=True, slow=True,
                       pace=2 / (o.rate + o.stream))
    sender = start(bench, len(PHASES), 0, [f"flow={flow}", "flow_quorum_percent=100"], o.rate, SMALL)
    sender.ask("await")
    send(o, sender, o.rate)
    for at, phase in enumerate(PHASES):
        if phase != "before":
            half.tell("come" if phase == "during" else "go")
        send(o, sender, o.rate, at)
    row, topic, found = finish(bench, sender, *bench.processes.started)
    other, (begun_at, bins), length = found["half"], observer.bins_of(topic), o.duration * 100
    came, went = ((other[name] - begun_at) / observer.BIN_NS for name in ("opened_at", "closed_at"))
    rates = {"before": mean(bins, came - length / 2, came), "during": mean(bins, went - length / 2, went),
             "after": mean(bins, went + length / 2, went + length)}
    usual = rates["before"] or 0
    down = first(bins, came, went, lambda rate: rate < usual * 0.75)
    return {"transport": "udp", "row": flow, "offered_msgs_per_s": o.rate, **row, "half_received": other["receivers"][0]["received"],
            "half_lost": faults_of(other["receivers"][0]), "msgs_per_s": rates, "down_after_ms": down,
            "back_after_ms": None if down is None else first(bins, went, went + length, lambda rate: rate > usual * 0.95),
            "stream_us": dict(zip(PHASES, row["stream_us"]))}


def run(bench):
    o = bench.o
    # The limit has to suffice for repairs and the stream.
    if o.stream * 100 > o.limit:
        o.refuse(f"--stream {o.stream}: takes most of --limit {o.limit}; at most {o.limit // 100}")
    bench.prepare()
    rows = [(limit_row if name in LIMITS else found_row)(bench, name) for name in (*LIMITS, *FLOWS) if name in o.row]
    machine = [row.pop("machine") for row in rows][0]
    limits, flows = [row for row in rows if row["row"] in LIMITS], [row for row in rows if row["row"] in FLOWS]
    report = Report(bench)
    report.write_json(machine, rows)
    report.head(machine, f"{o.duration:g} s each; a stream of {o.stream} messages of 45 B a second beside what is offered;",
                "of it the latency from when a message was due to its delivery")
    if limits:
        report.print(f"limits of {o.limit / 1e6:g} MB/s, of repairs a fifth of that; twice as much is offered, in messages of 1000 B", "")
        reference = next((row["stream_us"]["median"] for row in limits if row["row"] == "none"), None)
        report.rows(LIMITED, [{**row, "stream_ratio": ratio(row["stream_us"]["median"], reference)} for row in limits])
        report.print(*(f"{LIMITS[row['row']]}: {counted(row['counters'])}" for row in limits))
    if flows:
        report.print("", f"rates found: {o.rate} messages of 45 B a second are offered; a receiver that takes half joins and leaves", "")
        report.rows(FOUND, flows)
        report.print(*(f"{row['row']}: {counted(row['counters'])}" for row in flows))
    for row in rows:
        if row["lost"]:
            report.fail(f"{row['row']}: the reference receiver lost {row['lost']} messages")
    for row in limits:
        for fault in limit_faults(row, o.duration):
            report.fail(f"{row['row']}: {fault}")
    missed = sum(row.get("witness_missed", 0) for row in rows)
    if missed:
        report.fail(f"the observer missed {missed} frames")
    return report.finish()
