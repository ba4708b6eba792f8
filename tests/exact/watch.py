# SPDX-License-Identifier: Apache-2.0
"""time until a bottleneck is reported, and until its end is

A transmitter and a healthy receiver on one host, another receiver on a second one, all with a watch. The second of three phases has a
bottleneck:

  none         no bottleneck: any report is a false alarm
  application  the receiver's application takes twice the available time for each message (flow=window)
  buffer       all messages of half an interval arrive at once, twice the capacity of the receiver's socket
  network      nft drops 5 % of the packets to the receiver's host
  transport    a queue before the cable (tc, tbf) passes half of the offered rate
  rate         the transmitter gets a rate limit, half of the offered rate

Prints the time until the receiver reported it, the transmitter about that receiver (reported), and the transmitter about itself, and until
each reported its end; false alarms, including those of the healthy receiver; lapses, which are ends reported too soon; and the healthy
receiver's hop. The second and the last phase continue until everything is reported, for --patience at most.

Fails if a side that can report a bottleneck does not report it, or not its end, or if the healthy receiver lost a message.
"""
import signal
import subprocess
import time

from runner import options as opt
from runner.histogram import summary_of
from runner.session import say
from runner.tables import Report, columns_of, counted, faults_of, median, medians, ratio, worst

KINDS = ("none", "application", "buffer", "network", "transport", "rate")
PHASES = ("before", "during", "after")
# Sides that report a bottleneck: the limited receiver, the transmitter about that receiver, the transmitter about itself.
SIDES = ("receiver", "reported", "transmitter")
HEALTHY = ("healthy", "reported_healthy")
LIMITS = ("NONE", "APPLICATION", "BUFFER", "NETWORK", "WINDOW", "RATE", "HISTORY", "TRANSPORT")  # index: the library's number
# Correct reports, of the limited receiver and of the transmitter.
RIGHT = {"none": ("NONE", "NONE"), "application": ("APPLICATION", "WINDOW"), "buffer": ("BUFFER", "NONE"), "network": ("NETWORK", "NONE"),
         "transport": ("NONE", "TRANSPORT"), "rate": ("NONE", "RATE")}
COUNTERS = ["send_blocked_flow", "send_blocked_rate", "send_blocked_transport", "naks_received", "packets_repaired"]
LIMITED_COUNTERS = ["udp_kernel_drops", "packets_missed", "packets_recovered", "packets_lost"]
STOPPED_S = 1  # a machine that did not run for so long was stopped with all its programs; that does not count in a phase
SIZE = 1000
PACKET = 1060  # bytes on the wire of a packet with one message of 1000 bytes
TOLD = (("", "bottleneck", "kind", None),
        *((head, word, f"{what}.{side}.{which}", 0) for what in ("named_ms", "over_ms")
          for head, (word, side, which) in zip((what[:-3], "after", "ms", "by", "", ""), (
              (word if which == "median" else "worst", side, which) for word, side in zip(("receiver", "reported", "sender"), SIDES)
              for which in ("median", "worst")))),
        *columns_of(("wrong",), PHASES, "wrong.{}", None), ("", "lapses", "lapses", None))
HOPS = (("healthy", "receiver", "kind", None), *columns_of(("median", "us"), PHASES, "healthy_hop_us.{}.median", 1),
        *columns_of(("p99", "us"), PHASES, "healthy_hop_us.{}.p99", 1), ("p99", "ratio", "p99_ratio_during", 2),
        ("made", "ms", "made_ms.during.median", 0), ("", "lost", "lost", None))
OPTIONS = (opt.words("kind", ",".join(KINDS), KINDS, "which of these"),
           opt.number("watch", 100, 20, 10000, "the interval of the watch in ms"),
           opt.number("rate", 5000, 1000, 20000, "messages of 1000 bytes a second"), opt.seconds("duration", 0.6, 100, 60000, "of each phase"),
           opt.seconds("patience", 10, 100, 60000, "after that, for missing reports"),
           opt.number("runs", 3, 1, 100, "runs of everything, in turn; medians and the worst are reported"), opt.OPTIONS,
           opt.cpus("0,1", 2, "the CPUs of the transmitter and the healthy receiver; the other one is not pinned"), *opt.OUTPUT)


def queue(bench, verb, rate):
    """Runs tc. All buckets may wait before the cable; the queue itself drops nothing. Returns the error, or an empty text."""
    a = bench.hosts.a
    done = a.run("tc", "qdisc", verb, "dev", a.interface, "root", "tbf", "rate", rate, "burst", "64kb", "limit", "100mb",
                 stderr=subprocess.PIPE, text=True)
    return done.stderr.strip() or "failed" if done.returncode else ""


def unqueue(bench):
    bench.hosts.a.run("tc", "qdisc", "del", "dev", bench.hosts.a.interface, "root")


def make(bench, kind, phase, limited):
    """Makes or ends a bottleneck, except those of the transmitter itself, which last from the beginning of the phase."""
    if phase == "before":
        return
    if kind == "application":
        limited.signal(signal.SIGUSR1)
    elif kind == "network":
        bench.hosts.b.drop(5 if phase == "during" else 0)
    elif kind == "transport":
        queue(bench, "change", f"{bench.o.rate * PACKET * 8 // 2}bit" if phase == "during" else "10gbit")


def options_of(o, kind, role):
    """Options of a role's channel for a kind.

    Flow control limits the lag of receivers to 1/40 s. The buffer gets separate packets, and has space for half of a burst; each
    takes 2.3 KB, half of which the option counts. The transport has little space before the cable. The slow-receiver policy is off.
    """
    if (kind, role) == ("buffer", "limited"):
        return [f"rcvbuf_bytes={min(o.rate * o.watch // 5, 200000)}"]
    if role != "transmitter":
        return []
    return ["slow=off", *{"application": ["flow=window", f"flow_window_packets={max(o.rate // 40, 32)}", "flow_quorum_percent=100"],
                          "buffer": ["gso_packets=1"], "transport": ["gso_packets=1", "sndbuf_bytes=65536"]}.get(kind, [])]


def is_told(told, kind, phase, first):
    """True once everything expected in a phase was reported to the transmitter."""
    if phase == "before":
        return True
    sides, right = sides_of(told, first), dict(zip(("reported", "transmitter"), RIGHT[kind]))
    if phase == "during":
        return all(limit in ("NONE", limit_at(sides[side], float("inf"))) for side, limit in right.items())
    return all(limit_at(events, float("inf")) == "NONE" for events in sides.values())


def measure_phase(bench, run, kind, phase, sender, limited, first):
    """Runs a phase until the expected reports, for a limited time. Returns its start time and that of the bottleneck."""
    o = bench.o
    # A burst has the messages of half an interval, so each interval has one.
    burst = o.rate * o.watch // 2000 if (kind, phase) == ("buffer", "during") else None
    # In each run the bottleneck starts at another time of the watch's interval.
    least = o.duration + (o.watch / 1e3 * run / o.runs if phase == "before" else 0)
    spent, before = 0, time.monotonic_ns()
    begun_at = before
    if kind == "rate" and phase != "before":
        sender.ask("limit", transmitter=o.rate * SIZE // 2 if phase == "during" else 0)
    sender.tell("send", rate=o.rate, phase=PHASES.index(phase), burst=burst, open=True)
    make(bench, kind, phase, limited)
    made_at = time.monotonic_ns()
    while spent < least or not is_told(sender.told, kind, phase, first) and spent < least + o.patience:
        bench.processes.step(0.01)
        now = time.monotonic_ns()
        spent, before = spent + ((now - before) / 1e9 if now - before < STOPPED_S * 1e9 else 0), now
    sender.ask("stop")
    return begun_at, made_at


def measure(bench, run, kind):
    o, (a, b) = bench.o, (bench.hosts.a, bench.hosts.b)

    def receivers(role, host, **more):
        # Receivers sleep between messages, as polling would make them a bottleneck of each other on two cores.
        return bench.start(host, "receivers", role, channels=[bench.channel(host, *options_of(o, kind, role))], watch=o.watch / 1e3,
                           wait="block", **more)

    if kind == "transport":
        queue(bench, "add", "10gbit")
    receivers("healthy", a, cpu=o.cpus[1], measured=list(range(len(PHASES))))
    sender = bench.start(a, "transmitter", channel=bench.channel(a, *options_of(o, kind, "transmitter")), watch=o.watch / 1e3, size=SIZE,
                         cpu=o.cpus[0])
    # The healthy receiver joins first, which identifies it.
    first = sender.ask("await")["first"]
    # The application takes a tenth of the time, so that bursts arrive faster than it takes them.
    limited = receivers("limited", b, counters=LIMITED_COUNTERS, busy=0.1 / o.rate, pace=2 / o.rate)
    sender.ask("await", receivers=2)
    at = {phase: measure_phase(bench, run, kind, phase, sender, limited, first) for phase in PHASES}
    stats, processes = sender.ask("stats", counters=COUNTERS), {process.name: process for process in bench.processes.started}
    begun_at = {**{phase: begun for phase, (begun, _) in at.items()}, "end": time.monotonic_ns()}
    found = bench.finish(sender)
    if kind == "transport":
        unqueue(bench)
    return Run(run, kind, begun_at, {phase: (made - begun) / 1e6 for phase, (begun, made) in at.items()}, stats,
               {"receiver": processes["limited"].told, "healthy": processes["healthy"].told, **sides_of(sender.told, first)},
               *(found[role] for role in ("healthy", "limited")))


def possible(bench, kind):
    if kind == "network" and bench.hosts.b.run("nft", "list", "tables", capture_output=True).returncode:
        say("left out: network: there is no nft to drop packets with: apt-get install nftables, as root")
        return False
    if kind == "transport":
        if wrong := queue(bench, "add", "10gbit"):
            say(f"left out: transport: tc cannot make a slow cable (tbf): {wrong}")
            return False
        unqueue(bench)
    return True


def limit_at(told, at):
    """The limit reported last before a time."""
    return next((LIMITS[event["limit"]] for event in reversed(told) if event["at"] < at), "NONE")


def ms_until(told, limit, begin, end=float("inf")):
    return next(((event["at"] - begin) / 1e6 for event in told if begin <= event["at"] < end and LIMITS[event["limit"]] == limit), None)


def sides_of(told, first):
    """Events of a transmitter: about itself, and about its receivers."""
    sides = {"transmitter": [], "reported_healthy": [], "reported": []}
    for event in told:
        sides[{"0": "transmitter", first: "reported_healthy"}.get(event["receiver"], "reported")].append(event)
    return sides


class Run:
    """One run of one bottleneck. For each side: the correct limit, ms until it and its end were reported, or None; lapses."""

    def __init__(self, at, kind, begun_at, made_ms, stats, told, healthy, limited):
        self.number, self.begun_at, self.made_ms, self.stats, self.told = at + 1, begun_at, made_ms, stats, told
        self.healthy, self.limited = healthy["receivers"][0], limited["receivers"][0]
        self.counters = {**stats["counters"], **limited["counters"]}
        self.hops = dict(zip(PHASES, self.healthy["rounds"][0]))
        self.right = dict(zip(SIDES, (RIGHT[kind][0], *RIGHT[kind])))
        self.names = [side for side in SIDES if self.right[side] != "NONE"]
        self.named_ms, self.over_ms, self.lapses = {}, {}, 0
        during, after = begun_at["during"], begun_at["after"]
        for side in self.names:
            # Also None if it was reported earlier and still is, as that is no reaction to this bottleneck.
            named = self.named_ms[side] = ms_until(told[side], self.right[side], during, after)
            # 0: reported at the end of the bottleneck, or before, which is a lapse.
            self.over_ms[side] = 0.0 if limit_at(told[side], after) == "NONE" else ms_until(told[side], "NONE", after)
            self.lapses += sum(LIMITS[event["limit"]] == "NONE" and during + (named or 0) * 1e6 < event["at"] < after for event in told[side])

    def wrong(self):
        """Yields false alarms, as phase, side and limit. Events before the first phase belong to it."""
        for side, event in ((side, event) for side in (*SIDES, *HEALTHY) for event in self.told[side]):
            phase = next((phase for phase in reversed(PHASES) if event["at"] >= self.begun_at[phase]), PHASES[0])
            if LIMITS[event["limit"]] not in ("NONE", self.right.get(side) if phase == "during" else "NONE"):
                yield phase, side, LIMITS[event["limit"]].lower()

    def faults(self):
        """Yields faults, as sentences."""
        for side in self.names:
            limit = self.right[side].lower()
            others = sorted({named for phase, by, named in self.wrong() if phase == "during" and by == side})
            if self.named_ms[side] is None and limit_at(self.told[side], self.begun_at["during"]) != self.right[side]:
                yield f"{limit} was never reported ({side})" + (f", but {', '.join(others)} was" if others else "")
            elif self.over_ms[side] is None:
                yield f"{limit} was never reported as over ({side})"
        if faults_of(self.healthy):
            yield f"the healthy receiver lost {faults_of(self.healthy)} messages"


def summary(values):
    """Median and maximum of the values that are not None."""
    values = list(values)
    return {"median": median(values), "worst": worst(values)}


def row_of(o, kind, runs):
    wrong = [(run.number, *found) for run in runs for found in run.wrong()]
    names = runs[0].names
    hops = {phase: medians(summary_of(run.hops[phase]) for run in runs) for phase in PHASES}
    return {"rate_msgs_per_s": o.rate, "watch_ms": o.watch, "duration_s": o.duration,
            "transport": "udp", "kind": kind, "runs": len(runs), "received": sum(run.healthy["received"] for run in runs),
            "lost": sum(faults_of(run.healthy) for run in runs), "limited_lost": sum(faults_of(run.limited) for run in runs),
            "watched_s": sum(run.begun_at["end"] - run.begun_at["before"] for run in runs) / 1e9,
            "made_ms": {phase: summary(run.made_ms[phase] for run in runs) for phase in PHASES[1:]},
            "named": {side: runs[0].right[side].lower() for side in names},
            "named_ms": {side: summary(run.named_ms.get(side) for run in runs) for side in SIDES},
            "over_ms": {side: summary(run.over_ms.get(side) for run in runs) for side in SIDES},
            "wrong": {phase: sum(at == phase for _, at, _, _ in wrong) for phase in PHASES},
            "wrong_of": [{"run": run, "phase": phase, "by": by, "named": named} for run, phase, by, named in wrong],
            "lapses": sum(run.lapses for run in runs), "healthy_hop_us": hops,
            # While the transmitter is blocked, messages wait for it, longer in longer phases.
            "p99_ratio_during": None if "transmitter" in names else ratio(hops["during"]["p99"], hops["before"]["p99"]),
            "counters": {name: sum(run.counters[name] for run in runs) for name in runs[0].counters}}


def run(bench):
    o = bench.o
    if o.watch * o.rate < 200000:
        o.refuse(f"--watch {o.watch}: at --rate {o.rate} an interval has {o.watch * o.rate // 1000} messages, too few for a burst that "
                 f"overflows; at least {200000 // o.rate}")
    bench.prepare()
    kinds = [kind for kind in o.kind if possible(bench, kind)]
    if not kinds:
        o.refuse(f"--kind {','.join(o.kind)}: none of these can be made here")
    runs = {kind: of for (kind,), of in bench.turns([(kind,) for kind in kinds], measure, ", ".join(kinds)).items()}
    rows = [row_of(o, kind, of) for kind, of in runs.items()]
    machine, report = runs[kinds[0]][0].stats["machine"], Report(bench)
    report.write_json(machine, rows)
    report.head(machine, f"{o.rate} messages of 1000 B a second; a watch every {o.watch} ms; {o.duration:g} s each before, during and "
                "after;", f"runs: {o.runs}, medians and the worst; reported: the transmitter about the receiver; sender: about itself")
    report.rows(TOLD, rows)
    report.print(*(f"{row['kind']}, run {one['run']}: {one['by'].replace('_', ' ')} named {one['named']} {one['phase']} it"
                   for row in rows for one in row["wrong_of"]), "")
    report.rows(HOPS, rows)
    report.print(*(f"{row['kind']}: {counted(row['counters'])}" for row in rows))
    for kind, of in runs.items():
        for one in of:
            for fault in one.faults():
                report.fail(f"{kind}, run {one.number}: {fault}")
    return report.finish()
