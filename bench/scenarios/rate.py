# SPDX-License-Identifier: Apache-2.0
"""How exactly rates are limited, and how they are found.

Limits: a topic is offered twice as many bytes a second as a limit, in messages of 1,000 bytes, beside a stream on a topic of its own.
Without a limit; with one of the transmitter, and of the topic; and, while the receiver loses 5 % of the packets in runs of a hundred
on the mean (impair+), without and with one of repairs, a fifth of the other, which is twice what they come to on the mean. Each is seen
by a witness on the wire, in bytes of packets (of the topic: by the receiver, in bytes of its messages, by the kernel's time stamps):
the mean, and the most of any window of 1 ms, 10 ms and 1 s. Latency is that of the stream, from when a message was due to its delivery.
The row small has the transmitter's limit and messages of 45 bytes: what is held back leaves in packets that are full. Printed are
packets of new data for each message, and over the least number of packets that these bytes can have.

Rates that are found: with flow=open, paced and window, all receivers counted, three phases; in the second another receiver joins that
takes half of what is offered, 45-byte messages, and leaves at its end. Prints the rate that a steady receiver has in the second half of
each phase, how long it took to come down to 3/4 of the first, and to come back to 95 % of it, the stream's latency there, and what both
lost.

Fails if the steady receiver lost a message.
"""
import signal

from runner import options as opt
from runner.histogram import summary_of
from runner.session import say
from runner.tables import Report, counted, faults_of, number, ratio

LIMITS = {"none": "no limit", "transmitter": "transmitter", "small": "transmitter, 45 B", "topic": "topic",
          "losses": "5 % lost, no limit", "repairs": "5 % lost, repairs"}
FLOWS = ("open", "paced", "window")
WINDOWS = {"1 ms": "bytes_per_s_1ms_max", "10 ms": "bytes_per_s_10ms_max", "1 s": "bytes_per_s_1s_max"}
PACKETS = ("packets_per_message", "packets_ratio_to_least")
PHASES = ("before", "during", "after")
BULK = 1000  # bytes of a message
OPTIONS = (opt.words("row", ",".join([*LIMITS, *FLOWS]), (*LIMITS, *FLOWS), "which of these"),
           opt.number("limit", 10000000, 655360, 1000000000, "bytes a second"),
           opt.number("rate", 100000, 1000, 1000000, "messages a second that are offered where the rate is found"),
           opt.number("stream", 10000, 1, 100000, "messages of 45 bytes a second of the stream"),
           opt.seconds("duration", 1.5, 100, 60000, "of each limit, and of each phase"), opt.OPTIONS,
           opt.cpus("0,1", 2, "the CPUs of the transmitter and the receiver; witness and slow receiver run where there is room"),
           *opt.OUTPUT)


def start(bench, loss_ppm, option, **shared):
    """A transmitter and a receiver of one row. Returns both."""
    o, hosts = bench.o, bench.hosts
    lossy = [f"impair_loss_ppm={loss_ppm}", "impair_burst_packets=100"] if loss_ppm else []
    shared = {"stream": o.stream, "duration": o.duration, **shared}
    channel = bench.channel(hosts.b, "timestamps=1", *lossy, option)
    receiver = bench.start(hosts.b, "rate-receiver", "receiver", channel=("impair+" if lossy else "") + channel, cpu=o.cpus[1], **shared)
    return bench.start(hosts.a, "rate-transmitter", "transmitter", channel=bench.channel(hosts.a, option), cpu=o.cpus[0], **shared), receiver


def limited(bench, name):
    limit = bench.o.limit
    special = {"transmitter": {"limit": limit}, "small": {"limit": limit, "bulk": 2 * limit // 45, "bulk_size": 45},
               "topic": {"topic_limit": limit}, "repairs": {"repair_limit": limit // 5}}
    say(f"limit: {name}")
    witness = bench.start(bench.hosts.b, "witness", program="witness", interface=bench.hosts.b.interface)
    both = start(bench, 50000 if name in ("losses", "repairs") else 0, "slow=off",
                 **{"bulk": 2 * limit // BULK, "bulk_size": BULK, **special.get(name, {})})
    bench.keep(name, bench.processes.serve(*both))
    witness.signal(signal.SIGTERM)
    bench.keep(name, bench.processes.serve())


def found(bench, flow):
    shared = {"stream": bench.o.stream, "duration": bench.o.duration, "bulk": bench.o.rate, "bulk_size": 45, "phases": 3}
    say(f"flow: {flow}")
    half = bench.start(bench.hosts.b, "rate-half", "half", channel=bench.channel(bench.hosts.b, f"flow={flow}"), **shared)
    sender, _ = start(bench, 0, f"flow={flow}&flow_quorum_percent=100", **shared)
    bench.keep(flow, bench.processes.serve(word=lambda _, phase: half.tell(phase),
                                           end=lambda process: process is sender and half.popen.stdin.close()))


def packets(row):
    """Cells: packets of new data for each message, and over the least number."""
    return number(row[PACKETS[0]], 4), number(row[PACKETS[1]], 2)


def limit_row(bench, name):
    """Figures of one limit. Of the topic its messages are seen, of all others packets."""
    transmitter, receiver, witness = (bench.load(f"{name}-{role}") for role in ("transmitter", "receiver", "witness"))
    limit = bench.o.limit
    seen = receiver["bulk"] if name == "topic" else witness["repairs" if name in ("losses", "repairs") else "fresh"]
    asked = {"none": None, "losses": None, "repairs": limit // 5}.get(name, limit)
    return {"transport": "udp", "row": name, "limit_bytes_per_s": asked, "offered_bytes_per_s": 2 * limit,
            "received": receiver["received"], "lost": faults_of(receiver), "seen": seen,
            "ratio_to_limit": {window: ratio(seen[field], asked) for window, field in {"mean": "bytes_per_s", **WINDOWS}.items()},
            "stream_us": summary_of(receiver["stream"]["before"]), "witness_missed": witness["missed"],
            **{field: transmitter[field] for field in PACKETS}, "counters": transmitter["counters"], "machine": transmitter["machine"]}


def print_limits(report, rows):
    reference = next((row["stream_us"]["median"] for row in rows if row["row"] == "none"), None)
    cells = []
    for row in rows:
        mb = [row["limit_bytes_per_s"], row["seen"]["bytes_per_s"], *(row["seen"][field] for field in WINDOWS.values())]
        cells.append((LIMITS[row["row"]], *(number(value and value / 1e6, 2) for value in mb),
                      *(number(row["ratio_to_limit"][window], 3) for window in WINDOWS),
                      number(row["stream_us"]["median"], 1), number(row["stream_us"]["p99"], 1),
                      number(ratio(row["stream_us"]["median"], reference), 2), *packets(row), str(row["lost"])))
    report.table([("", "limit", "seen", "most of", "any", "", "over", "limit", "", "stream", "", "", "packets", "", ""),
                  ("limit of", "MB/s", "mean", *WINDOWS, *WINDOWS, "us", "p99", "ratio", "a msg", "of least", "lost")], cells)
    for row in rows:
        report.print(f"{LIMITS[row['row']]}: {counted(row['counters'])}")


def mean(bins, begin, end):
    """Messages a second in the bins from begin to end, both as bins with decimals."""
    chosen = bins[max(int(begin), 0):int(end)]
    return sum(chosen) * 100 / len(chosen) if chosen else None


def first(bins, begin, end, wanted):
    """ms from begin until the mean of 50 ms is as wanted; None if it never is."""
    for at in range(int(begin), min(int(end), len(bins) - 5)):
        if wanted(mean(bins, at, at + 5)):
            return max(at + 5 - begin, 0) * 10
    return None


def found_row(bench, flow):
    transmitter, receiver, half = (bench.load(f"{flow}-{role}") for role in ("transmitter", "receiver", "half"))
    bins, begun_at = receiver["bins"], receiver["bins_begun_at"]
    came, went = ((half[name] - begun_at) / receiver["bin_ns"] for name in ("opened_at", "closed_at"))
    length = bench.o.duration * 100
    rates = {"before": mean(bins, came - length / 2, came), "during": mean(bins, went - length / 2, went),
             "after": mean(bins, went + length / 2, went + length)}
    usual = rates["before"] or 0
    down = first(bins, came, went, lambda rate: rate < usual * 0.75)
    return {"transport": "udp", "row": flow, "offered_msgs_per_s": bench.o.rate, "received": receiver["received"],
            "lost": faults_of(receiver), "half_received": half["received"], "half_lost": faults_of(half), "msgs_per_s": rates,
            "down_after_ms": down,
            "back_after_ms": None if down is None else first(bins, went, went + length, lambda rate: rate > usual * 0.95),
            "stream_us": {phase: summary_of(receiver["stream"][phase]) for phase in PHASES}, **{field: transmitter[field] for field in PACKETS}, "counters": transmitter["counters"],
            "machine": transmitter["machine"]}


def print_found(report, rows):
    cells = [(row["row"], *(number(row["msgs_per_s"][phase]) for phase in PHASES), number(row["down_after_ms"]),
              number(row["back_after_ms"]), *(number(row["stream_us"][phase]["median"], 1) for phase in PHASES), *packets(row),
              str(row["half_lost"]), str(row["lost"])) for row in rows]
    report.table([("", "msg/s", "", "", "down", "back", "stream us", "", "", "packets", "", "lost", ""),
                  ("flow", *PHASES, "ms", "ms", *PHASES, "a msg", "of least", "half", "steady")], cells)
    for row in rows:
        report.print(f"{row['row']}: {counted(row['counters'])}")


def run(bench):
    o = bench.o
    # Lost packets, and the stream too, have to fit in.
    if o.stream * 100 > o.limit:
        o.refuse(f"--stream {o.stream}: takes most of --limit {o.limit}; at most {o.limit // 100}")
    bench.prepare()
    for name in o.row:
        (limited if name in LIMITS else found)(bench, name)
    limits = [limit_row(bench, name) for name in LIMITS if name in o.row]
    flows = [found_row(bench, flow) for flow in FLOWS if flow in o.row]
    rows = limits + flows
    machine = [row.pop("machine") for row in rows][0]
    report = Report(bench)
    report.write_json(machine, rows)
    report.head(machine, f"{o.duration:g} s each; a stream of {o.stream} messages of 45 B a second beside what is offered;",
                "of it the latency from when a message was due to its delivery")
    if limits:
        report.print(f"limits of {o.limit / 1e6:g} MB/s, of repairs a fifth of that; twice as much is offered, in messages of 1000 B", "")
        print_limits(report, limits)
    if flows:
        report.print("", f"rates that are found: {o.rate} messages of 45 B a second are offered; one that takes half comes and goes", "")
        print_found(report, flows)
    for row in rows:
        if row["lost"]:
            report.fail(f"{row['row']}: the steady receiver lost {row['lost']} messages")
    missed = sum(row.get("witness_missed", 0) for row in rows)
    if missed:
        report.fail(f"the witness missed {missed} frames")
    return report.finish()
