# SPDX-License-Identifier: Apache-2.0
"""cost of a slow receiver for other receivers

Kinds of slow receivers: stopped (SIGSTOP), tenth (takes a tenth of the rate), lossy (nft drops 20 % of its packets). A transmitter and a
reference receiver are on one host, the slow receiver is on another, and slow in the second of three phases. Prints the reference receiver's
hop and the transmitter's rate before, during and after, and when the slow receiver was suspended.

After that, short periods without and with the stopped receiver alternate, since the machine drifts more between two phases than the
receiver may cost. While it is absent, a socket that joined the group and is not read takes its place, as the network is this machine too.
Each period is compared with its two neighbours, and those with each other (noise): medians of the ratios, with 95 % confidence. "p99 20ms"
is the median of the 99th percentiles of 20 ms each (from 5,000 messages a second on).
"""
import math
import platform
import signal
import statistics

from runner import options as opt
from runner.bare import place
from runner.histogram import Histogram
from runner.session import say
from runner.tables import Report, columns_of, counted

PHASES = ("before", "during", "after")
COUNTERS = ["naks_received", "naks_ignored", "packets_repaired", "notices_sent", "receivers_suspended", "receivers_lost"]
PAIRS_COUNTERS = ["receivers_suspended", "receivers_lost", "packets_repaired", "notices_sent"]
COLUMNS = (("slow", "", "kind", None), *columns_of(("median", "us"), PHASES, "steady.{}.latency_us.median", 1),
           *columns_of(("p99", "us"), PHASES, "steady.{}.latency_us.p99", 1), ("p99", "ratio", "p99_ratio_during", 2),
           *columns_of(("msg/s",), PHASES, "transmitter.msgs_per_s.{}", 0), ("suspended", "after ms", "transmitter.suspended_after_ms", 0),
           ("readmitted", "after ms", "transmitter.readmitted_after_ms", 0), ("", "lost", "steady.lost", 0))
OPTIONS = (opt.words("kind", "stopped,tenth,lossy", ("stopped", "tenth", "lossy"), "which of these"),
           opt.number("rate", 20000, 1, 9999999, "messages a second"), opt.size(100),
           opt.seconds("duration", 4, 100, 999000, "of each phase"),
           opt.number("pairs", 60, 0, 1000, "periods with the stopped receiver, and as many without it; 0: none"),
           opt.seconds("period", 0.25, 100, 99000, "of each period; the receiver is suspended 180 ms after it was stopped"),
           opt.seconds("settle", 0.2, 100, 99000, "for the other receiver to join, and to leave"),
           opt.Option("options", "", opt.read_channel_options, "options of the transmitter's channel, mainly slow=...", "KEY=VALUE&.."),
           opt.cpus("0,1", 2, "the CPUs of the transmitter and the reference receiver; the slow one is not pinned"), *opt.OUTPUT)


def make(bench, kind, slow, process):
    """Makes the receiver slow, or ends its slowness."""
    if kind == "stopped":
        process.signal(signal.SIGSTOP if slow else signal.SIGCONT)
    elif kind == "tenth":
        process.signal(signal.SIGUSR1)
    else:
        bench.hosts.b.drop(20 if slow else 0)


def channels(bench):
    """Channels of the transmitter, of A without the transmitter's options, and of B."""
    plain = [f"udp://239.192.1.1:5001?interface={host.interface}" for host in (bench.hosts.a, bench.hosts.b)]
    return ("&".join(filter(None, [plain[0], bench.o.options])), *plain)


def measure(bench, kind):
    o, hosts = bench.o, bench.hosts
    channel, near, far = channels(bench)
    # A signal makes it slow: ten times the interval of messages for each message, so it takes a tenth.
    slow = bench.start(hosts.b, "receivers", "slow", channels=[far], wait="block", pace=10 / o.rate)
    steady = bench.start(hosts.a, "receivers", "steady", channels=[near], cpu=o.cpus[1], measured=[0, 1, 2])
    sender = bench.start(hosts.a, "transmitter", channel=channel, cpu=o.cpus[0], size=o.size)
    sender.ask("await", receivers=2)
    sent = []
    for at, phase in enumerate(PHASES):
        if at:
            make(bench, kind, phase == "during", slow)
        sent.append(sender.ask("send", rate=o.rate, duration=o.duration, phase=at))
    stats = sender.ask("stats", counters=COUNTERS)
    found = bench.finish(sender, steady)["steady"]["receivers"][0]
    for phase, hops in zip(PHASES, map(Histogram, found.pop("rounds")[0])):
        found[phase] = {"received": len(hops), "latency_us": hops.summary()}
    # It may have a large backlog, and is not measured.
    bench.processes.end(slow)
    p99 = {phase: found[phase]["latency_us"]["p99"] for phase in PHASES}
    return {"kind": kind, "steady": {name: found[name] for name in (*PHASES, "lost")},
            "transmitter": judged(sender.told, sent, stats["counters"]), "p99_ratio_during": p99["during"] / p99["before"]}


def judged(told, sent, counters):
    """Standings reported to the transmitter, with times in ms of the phase: suspended in the second one, readmitted in the last."""
    after = {"suspended_after_ms": None, "readmitted_after_ms": None}
    for event in told:
        at = max((at for at, phase in enumerate(sent) if phase["begun_at"] <= event["at"]), default=0)
        ms = (event["at"] - sent[at]["begun_at"]) / 1e6
        say(f"{PHASES[at]}: {event['told']}: {event['value']} {event['threshold']} after {ms:.0f} ms")
        if event["suspended"] and at == 1 and after["suspended_after_ms"] is None:
            after["suspended_after_ms"] = ms
        if not event["suspended"] and event["receiver"] != "0" and at == 2:
            after["readmitted_after_ms"] = ms
    return {"msgs_per_s": {phase: one["msgs_per_s"] for phase, one in zip(PHASES, sent)}, **after, "counters": counters}


def take_turns(bench):
    """The receiver replaces the mute, is stopped, and leaves, repeatedly. Returns the reference receiver's rounds."""
    o, hosts = bench.o, bench.hosts
    channel, near, far = channels(bench)

    def silence():
        """Starts a socket in place of the absent receiver. It answers once a signal does not end it any more."""
        process = bench.start(hosts.b, "mute", place=place(far, 0))
        process.hear()
        return process

    def send(at, phase, duration):
        sender.ask("send", rate=o.rate, duration=duration, round=at, phase=phase)

    steady = bench.start(hosts.a, "receivers", "steady", channels=[near], cpu=o.cpus[1], rounds=o.pairs, measured=[0, 1],
                         trace=int(o.rate * o.period) + 1)
    mute = silence()
    sender = bench.start(hosts.a, "transmitter", channel=channel, cpu=o.cpus[0], size=o.size)
    sender.ask("await")
    send(0, 2, o.settle)  # warm-up
    for at in range(o.pairs):
        mute.signal(signal.SIGUSR1)
        send(at, 0, o.period)
        bench.processes.end(mute, number=signal.SIGTERM)
        other = bench.start(hosts.b, "receivers", "other", channels=[far], wait="block")
        send(at, 2, o.settle)
        other.signal(signal.SIGSTOP)
        send(at, 1, o.period)
        # Its exit status is meaningless, as it may have been stopped before it was ready.
        other.signal(signal.SIGTERM)
        bench.processes.end(other, number=signal.SIGCONT)
        mute = silence()
        send(at, 2, o.settle)
    counters = sender.ask("stats", counters=PAIRS_COUNTERS)["counters"]
    found = bench.finish(sender, steady)["steady"]["receivers"][0]
    bench.processes.end(mute)
    return {**found, "counters": counters}


def median_of(ratios):
    """The median, and the order statistics that are its 95 % confidence interval (binomial distribution, p = 1/2)."""
    ratios = sorted(ratios)
    outside, at = 0.0, 0
    while at < len(ratios) // 2 and outside + math.comb(len(ratios), at) / 2 ** len(ratios) <= 0.025:
        outside += math.comb(len(ratios), at) / 2 ** len(ratios)
        at += 1
    at = max(at - 1, 0)
    return {"median": statistics.median(ratios), "from": ratios[at], "to": ratios[-1 - at]}


def compare(pairs, what):
    """Compares periods with and without the stopped receiver, and for noise those without it."""
    without, stopped = ([pair[f"{which}_{what}"] if what == "typical_p99" else pair[which][what] for pair in pairs]
                        for which in ("without", "stopped"))
    if None in without + stopped:
        return None
    around = [math.sqrt(a * b) for a, b in zip(without, without[1:])]
    return {"without_us": statistics.median(without), "stopped_us": statistics.median(stopped),
            "ratio": median_of([b / a for a, b in zip(around, stopped)]),
            "chance": median_of([without[i + 1] / math.sqrt(without[i] * without[i + 2]) for i in range(len(without) - 2)])}


def paired_of(o, steady):
    """steady: None if there were too few turns."""
    if steady is None:
        return {}
    pairs = [{name: figures for which, hops in zip(("without", "stopped"), map(Histogram, rounds))
              for name, figures in ((which, hops.summary()), (f"{which}_typical_p99", hops.typical(o.rate, 0.02, (0.99,))[0]))}
             for rounds in steady["rounds"]]
    return {"pairs": o.pairs, "period_s": o.period, "steady": {what: compare(pairs, what) for what in ("median", "typical_p99", "p99")},
            "lost": steady["lost"], "counters": steady["counters"], "of_each": pairs}


def print_paired(report, o, paired):
    line = "{:<9} {:>8} {:>8}   {:<22} {:<22}"
    report.print("", f"in turns  {o.pairs} periods of {o.period:g} s without the other receiver and {o.pairs} with it, stopped; 95 % "
                 "confidence in brackets", "", line.format("reference", "without", "stopped", "ratio", "without to without"))
    for what, found in paired["steady"].items():
        if found is not None:
            ratios = [f"{found[name]['median']:.3f} ({found[name]['from']:.3f} to {found[name]['to']:.3f})" for name in ("ratio", "chance")]
            name = "p99 20ms" if what == "typical_p99" else what
            report.print(line.format(name, f"{found['without_us']:.1f}", f"{found['stopped_us']:.1f}", *ratios))
    report.print(f"in turns: lost {paired['lost']}; {counted(paired['counters'])}")


def run(bench):
    o = bench.o
    bench.prepare()
    say(f"measuring {', '.join(o.kind)}, and {o.pairs} times stopped for {o.period:g} s")
    rows = [measure(bench, kind) for kind in o.kind]
    steady = take_turns(bench) if "stopped" in o.kind and o.pairs else None
    paired = paired_of(o, steady if o.pairs >= 3 else None)
    report = Report(bench)
    report.write({"benchmark": "slow", "rate_msgs_per_s": o.rate, "size_bytes": o.size, "duration_s": o.duration,
                  "options": o.options, "kernel": platform.release(), "rows": rows, "pairs": paired})
    report.print(f"measured  {o.rate} msg/s of {o.size} B for {o.duration:g} s each before, during and after; a reference receiver on the "
                 "transmitter's", "          host, a slow receiver on another; latency from when a message was due to its delivery at the "
                 "former", "")
    report.rows(COLUMNS, rows)
    for row in rows:
        report.print(f"{row['kind']}: {counted(row['transmitter']['counters'])}")
    if paired:
        print_paired(report, o, paired)
    return report.finish()
