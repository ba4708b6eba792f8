# SPDX-License-Identifier: Apache-2.0
"""STAC-M2-like market data: watch lists, a cache, slow consumers, restarts

A producer supplies messages of 264 bytes at a rate: a header of 32 bytes, 136 bytes of data, and padding. Each symbol is a topic.
Consumers receive the symbols on their watch lists, and reflect marked messages on a second channel. The hybrid latency is half the time
from the due time of a message to the arrival of its reflection at the producer; "from send" excludes the delay before the send call.
Each row is measured beside the bare transport with the same processes: a datagram per message to every consumer, without repairs.

  single     one consumer                           fields     one consumer, which checks every field
  baseline   five consumers, disjoint lists         overlap    five consumers, overlapping lists
  tinylists  five consumers, four with tiny lists   flexible   fifteen consumers, overlapping lists
  caching    overlap; each consumer leaves, and rejoins from the last value cache
  slow       overlap; one consumer is stopped, or processes a tenth of the rate, or loses 20 % of its packets
  restart    overlap; one consumer is killed and restarted, then all of them
  two        overlap with two producers, of which one is killed and restarted

The tail stands beside that of the bare transport and of a loop that only reads the clock on each CPU. In runs of their own, each process
records when its loop stalled and what the kernel counted meanwhile, which gives the causes of the worst samples.

Except in caching, slow, restart and two, the flow control of libllm waits for all consumers; over shared memory, with several
consumers, flow_window_bytes is 1 MiB.

The highest rate is found by doubling and bisection: every message reaches every consumer that watches it, and the supply takes at most
2 % longer than planned. Fails if libllm lost a message, or if a consumer that rejoined lacks a last value.
"""
import random
import signal
import time
import types

from runner import card
from runner import options as opt
from runner import tail
from runner.market import CLOCK, FAR, HELD, NAMES, PEERS, PERCENTILES, RATE_MAX, Market, clock, find_highest, mark_of, summary, unsupported
from runner.session import PACKAGES, RELEASE, Hosts, build, packages, say, settle
from runner.tables import Report, columns_of, median, number, ratio, worst
from scenarios import peers

SYMBOLS, SIZE = 500, 264
WARM_S = 0.1
SEARCH_S = 0.5
CURVE = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)  # of the highest rate


def lists(count, length, step):
    """Watch lists of `length` symbols, each `step` symbols after the one before, modulo all."""
    return [sorted((at * step + symbol) % SYMBOLS for symbol in range(length)) for at in range(count)]


LISTS = {"single": lists(1, SYMBOLS, 0), "fields": lists(1, SYMBOLS, 0), "baseline": lists(5, 100, 100), "overlap": lists(5, 200, 100),
         "tinylists": [*lists(4, 4, 4), list(range(16, SYMBOLS))], "flexible": lists(15, 100, 33)}
LISTS.update(dict.fromkeys(("caching", "slow", "restart", "two"), LISTS["overlap"]))
SLOW = ("stopped", "tenth", "lossy")
PLAIN = ("single", "fields", "baseline", "overlap", "tinylists", "flexible")
OPTIONS = (opt.words("sequence", ",".join(LISTS), tuple(LISTS), "which of these"),
           opt.text_option("lists", "watch lists of a sequence of your own, separated by semicolons: ranges of symbols from 0 to "
                           f"{SYMBOLS - 1} (none)", r"\d+-\d+(,\d+-\d+)*(;\d+-\d+(,\d+-\d+)*)*",
                           "must be ranges such as 0-99,200-299;50-149", "FIRST-LAST,..;..", None),
           opt.words("transport", "udp,shm", ("udp", "shm"), "over which transports"),
           opt.words("peers", None, tuple(PEERS), "other libraries to measure in turns with libllm (none); unsupported "
                     "sequences are listed with the reason"),
           opt.number("rate", 20000, 100, RATE_MAX, "messages a second"),
           opt.number("reflected", 2000, 1, 1000000, "marked messages a second, which every consumer that watches them reflects"),
           opt.seconds("duration", 2, 100, 3600000, "of each measurement"),
           opt.number("runs", 3, 1, 100, "repetitions, in turns; medians are reported"),
           opt.words("causes", "single,overlap", PLAIN, "of which sequences to record the causes of the worst samples, in runs of their own"),
           opt.flag("quick", "one run of at most a second for each sequence, without the highest rate"),
           opt.flag("no-highest", "skip the search for the highest rate"), opt.OPTIONS, *opt.OUTPUT)


def read_lists(o):
    """Watch lists of --lists."""
    found = []
    for text in o.lists.split(";"):
        ranges = [tuple(map(int, part.split("-"))) for part in text.split(",")]
        for first, last in ranges:
            if not first <= last < SYMBOLS:
                o.refuse(f"--lists: {first}-{last}: there are symbols 0 to {SYMBOLS - 1}")
        found.append(sorted({symbol for first, last in ranges for symbol in range(first, last + 1)}))
    return found


def options_of(o, transport, sequence, library, consumers):
    """Channel options: flow control, except in sequences about slow or missing consumers. Over shared memory its window is short if
    there are several consumers, which skip most messages (ADR 71)."""
    if library != "libllm":
        return []
    if sequence in ("slow", "restart", "two", "caching") or "flow=" in o.options:
        return [o.options]
    short = ["flow_window_bytes=1M"] if transport == "shm" and consumers > 1 else []
    return ["flow=window", "flow_quorum_percent=100", *short, o.options]


def programs_of(bench, names):
    """Builds the programs of other libraries. Returns those that could be built, by name."""
    variants = {"aeron": "aeron", "cyclonedds": "cyclonedds", "zmq": "zmq-tcp"}
    found = peers.Peers(types.SimpleNamespace(peers=[variants[name] for name in names]), "feed")
    found.get_all()
    found.build()
    bench.skipped = found.skipped
    return {name: found.program(variants[name]) for name in names if variants[name] in found.names}


def open_market(bench, transport, library, sequence, watch=None):
    """Starts all processes of a sequence, and waits until they hear each other."""
    watch = watch or LISTS[sequence]
    two = sequence == "two"
    market = Market(bench, transport, library, SYMBOLS, SIZE, len(watch), 2 if two else 1,
                    options=options_of(bench.o, transport, sequence, library, len(watch)),
                    cache=int(sequence in ("caching", "restart", "two")) if library == "libllm" else 0, programs=bench.feeds)
    for at in range(2 if two else 1):
        market.publisher((at * SYMBOLS // 2, SYMBOLS // 2) if two else None)
    for symbols in watch:
        market.consumer(symbols, fields=sequence == "fields" or None)
    market.greet()
    return market


def lost_of(answers):
    return int(sum(answer["lost"] + answer["missing"] + answer["duplicated"] + answer["changed"] for answer in answers))


def result(market, supplied, answers, times):
    """Results of one measurement."""
    return {"sent": supplied["sent"], "wanted": supplied["wanted"], "late_ms": supplied["late_ms"], "s": supplied["s"],
            "lost": lost_of(answers), "samples": len(times["due"]), "hybrid_us": summary(times["due"], 2),
            "from_send_us": summary(times["sent"], 2), **market.stats()}


def plain(bench, transport, library, sequence, rate, duration, with_causes=False):
    """Measures a sequence without incidents."""
    settle(duration)
    market = open_market(bench, transport, library, sequence)
    market.begin(1)
    if with_causes:
        market.record_tail()
    supplied = market.supply(rate, duration, WARM_S, mark_of(rate, bench.o.reflected, SYMBOLS))
    answers = market.end()
    found = result(market, supplied, answers, market.collect(int(sum(answer["reflected"] for answer in answers))))
    if with_causes:
        found["causes"] = market.causes()
    market.close()
    return found


def highest(bench, transport, library, sequence):
    """Highest lossless rate; None if --rate itself is not."""
    return find_highest(bench.o.rate, lambda rate: plain(bench, transport, library, sequence, rate, SEARCH_S), SEARCH_S + WARM_S)["rate"]


class Incident:
    """A supply during which consumers leave and rejoin."""

    def __init__(self, bench, transport, sequence, rate, duration, before=lambda one: None):
        """before: prepares processes before the supply begins."""
        self.bench, self.o, self.duration = bench, bench.o, duration
        self.market = open_market(bench, transport, "libllm", sequence)
        self.number, self.late, self.recoveries, self.incomplete = len(self.market.consumers), [], [], 0
        self.prepared = before(self)
        self.market.begin(1)
        # Every symbol has a last value before a consumer joins.
        mark = mark_of(rate, self.o.reflected, SYMBOLS)
        self.market.supply(rate, 0, (SYMBOLS + 2) / rate, mark)
        self.market.tell_supply(rate, duration, WARM_S, mark)

    def wait(self, share):
        """Waits for a share of the duration."""
        end = time.monotonic() + share * self.duration
        while (left := end - time.monotonic()) > 0:
            self.bench.processes.step(left)

    def leave(self, consumers, how):
        """Ends consumers with a signal. Returns the watch list and place of each."""
        for consumer in [one for one in consumers if one in self.late]:
            self.judge(consumer, consumer.process.ask("end"))
        for consumer in consumers:
            self.market.remove(consumer, how)
        return [(consumer.watch, (consumer.number - 1) % len(LISTS["overlap"])) for consumer in consumers]

    def start(self, watch, place, later=False):
        """Starts a consumer that joins with the last value of each symbol."""
        self.number += len(LISTS["overlap"])
        begun = time.monotonic_ns()
        consumer = self.market.consumer(watch, late=True, recovers=True, round=1, number=self.number // 5 * 5 + place + 1, place=place,
                                        later=later, options=lambda channel: f"{channel}&join=latest")
        consumer.begun_ns = begun
        if not later:
            self.late.append(consumer)
        return consumer

    def enter(self, consumer):
        """Makes a process that was started join."""
        consumer.begun_ns = time.monotonic_ns()
        self.market.enter(consumer)
        self.late.append(consumer)

    def judge(self, consumer, answer):
        self.late.remove(consumer)
        self.incomplete += int(answer["incomplete"]) + (answer["live_at"] == 0)
        if answer["live_at"]:
            self.recoveries.append((answer["live_at"] - consumer.begun_ns) / 1e6)

    def finish(self):
        supplied = self.market.hear_supply()
        answers = self.market.end()
        found = result(self.market, supplied, answers, self.market.collect(patience=0.2))
        for consumer in list(self.late):
            self.judge(consumer, consumer.answer)
        self.market.close()
        return {**found, "recoveries_ms": self.recoveries, "incomplete": self.incomplete}


def caching(bench, transport, rate, duration):
    """Each consumer leaves, and rejoins after a random time. The processes that join are started before: in the field they are on machines
    of their own, and their start would take the time of the others here."""
    incident = Incident(bench, transport, "caching", rate, duration, before=lambda one: [
        one.start(watch, place, later=True) for place, watch in enumerate(LISTS["overlap"])])
    incident.wait(0.1)
    places = list(enumerate(incident.market.consumers))
    for place, consumer in random.sample(places, len(places)):
        incident.leave([consumer], signal.SIGTERM)
        incident.wait(random.random() * 0.2)
        incident.enter(incident.prepared[place])
    return incident.finish()


def restart(bench, transport, rate, duration):
    """One consumer is killed and restarted, then all of them at once."""
    incident = Incident(bench, transport, "restart", rate, duration)
    for count in (1, len(LISTS["overlap"])):
        incident.wait(0.3)
        for place in incident.leave(incident.market.consumers[-count:], signal.SIGKILL):
            incident.start(*place)
    return incident.finish()


def two(bench, transport, rate, duration):
    """One producer is killed, and another one replaces it."""
    incident = Incident(bench, transport, "two", rate, duration)
    market = incident.market
    incident.wait(0.4)
    killed = market.publishers.pop()
    bench.processes.end(killed.process)
    begun = time.monotonic_ns()
    new = market.publisher(killed.topics, number=2)
    new.process.ask("begin", round=1)
    new.process.tell("supply", rate=rate // 2, duration=duration * 0.4, warmup=WARM_S,
                     mark=mark_of(rate // 2, bench.o.reflected, SYMBOLS // 2))
    found = incident.finish()
    return {**found, "recoveries_ms": [(consumer.answer["newest_at"] - begun) / 1e6 for consumer in market.consumers
                                       if consumer.answer["newest"] == new.number + 1]}


def slow(bench, transport, kind, rate, duration):
    """Latency of the other consumers before, during and after the time in which one is slow or lossy."""
    watch, mark = LISTS["overlap"], mark_of(rate, bench.o.reflected, SYMBOLS)
    number = len(watch)
    market = open_market(bench, transport, "libllm", "slow", watch[:-1] if kind == "lossy" else watch)
    slow_one = market.consumers[-1] if kind != "lossy" else None
    market.begin(1, skip=number)
    times, sent = {}, 0
    for phase in ("before", "during", "after"):
        during = phase == "during"
        if kind == "stopped" and phase != "before":
            slow_one.process.signal(signal.SIGSTOP if during else signal.SIGCONT)
        elif kind == "tenth" and phase != "before":
            slow_one.process.ask("pace", seconds=10 * SYMBOLS / rate / len(slow_one.watch) if during else 0)
        elif kind == "lossy" and during:
            slow_one = market.consumer(watch[-1], late=True, round=1, number=number, place=number - 1,
                                       options=lambda channel: f"impair+{channel}&impair_loss_ppm=200000")
        elif kind == "lossy" and phase == "after":
            market.remove(slow_one, signal.SIGTERM)
        supplied = market.supply(rate, duration, WARM_S if phase == "before" else 0, mark)
        sent += supplied["sent"]
        times[phase] = market.collect(patience=0.05)
    answers = market.end(*(consumer for consumer in market.consumers if consumer is not slow_one))
    found = result(market, {**supplied, "sent": sent}, answers, times["during"])
    market.close()
    return {**found, "phases_us": {phase: summary(of["due"], 2) for phase, of in times.items()}}


INCIDENTS = {"caching": caching, "restart": restart, "two": two}


def measure(bench, _, transport, library, sequence):
    """Measures one sequence once. The bare transport has no cache and no late join: it runs sequences with incidents without them."""
    o = bench.o
    if library == CLOCK:
        return clock(bench, o.reflected, o.duration)
    if library == "libllm" and sequence in INCIDENTS:
        return INCIDENTS[sequence](bench, transport, o.rate, o.duration)
    if library == "libllm" and sequence.startswith("slow-"):
        return slow(bench, transport, sequence.removeprefix("slow-"), o.rate, o.duration)
    return plain(bench, transport, library, sequence.split("-")[0], o.rate, o.duration)


def averages(runs, *path):
    """Medians over the runs, by name."""
    of = runs
    for name in path:
        of = [run[name] for run in of]
    return {name: median(run[name] for run in of) for name in of[0]}


def row_of(o, transport, library, sequence, runs, bare, rate_max):
    recoveries = [one for run in runs for one in run.get("recoveries_ms", ())]
    hybrid, beside = averages(runs, "hybrid_us"), averages(bare, "hybrid_us")
    count = len(LISTS[sequence.split("-")[0]])
    row = {"sequence": sequence, "transport": transport, "library": library, "producers": 2 if sequence == "two" else 1, "consumers": count,
           "rate_msgs_per_s": o.rate, "sent": sum(run["sent"] for run in runs), "lost": sum(run["lost"] for run in runs),
           "samples": sum(run["samples"] for run in runs), "hybrid_us": hybrid, "from_send_us": averages(runs, "from_send_us"),
           "bare_hybrid_us": beside, "ratio_to_bare": median(ratio(run["hybrid_us"]["mean"], by["hybrid_us"]["mean"])
                                                             for run, by in zip(runs, bare)),
           "highest_rate_msgs_per_s": rate_max, "cpu_cores": averages(runs, "cpu_cores"), "rss_mib": averages(runs, "rss_mib"),
           "rss_mib_max": worst(run["rss_mib_max"] for run in runs), "pss_mib": averages(runs, "pss_mib"),
           "pss_mib_max": worst(run["pss_mib_max"] for run in runs), "faults": worst(run["faults"] for run in runs),
           "switches": worst(run["switches"] for run in runs), "recovery_ms": None, "incomplete": None, "phases_us": None}
    if "recoveries_ms" in runs[0]:
        row.update(recovery_ms={"median": median(recoveries), "max": worst(recoveries)},
                   incomplete=sum(run.get("incomplete", 0) for run in runs))
    if "phases_us" in runs[0]:
        row.update(phases_us={phase: averages(runs, "phases_us", phase) for phase in runs[0]["phases_us"]})
    return row


COLUMNS = (("", "sequence", lambda row: f"{row['transport']} {row['sequence']}", None), ("", "library", "library", None), ("consumers", "", "consumers", None),
           *(("hybrid us" if at == 0 else "", name.replace("_", "."), f"hybrid_us.{name}", 1) for at, name in enumerate(NAMES)),
           ("from send", "mean", "from_send_us.mean", 1), ("bare", "mean", "bare_hybrid_us.mean", 1), ("ratio", "", "ratio_to_bare", 2),
           ("highest", "msg/s", "highest_rate_msgs_per_s", 0), ("bare", "msg/s", "bare_highest_rate_msgs_per_s", 0), ("cores", "prod.", "cpu_cores.producer", 2),
           ("", "cons.", "cpu_cores.consumers", 2), ("MiB", "resident", "rss_mib_max", 0),
           ("", "share", "pss_mib_max", 0), ("", "all", lambda row: number(sum(row["pss_mib"].values()), 0), None), ("recovery", "ms", "recovery_ms.median", 0),
           ("", "max", "recovery_ms.max", 0), ("lost", "", "lost", None))


PHASES = (("", "sequence", lambda row: f"{row['transport']} {row['sequence']}", None),
          *columns_of(("mean",), ("before", "during", "after"), "phases_us.{}.mean", 1),
          *columns_of(("p99",), ("before", "during", "after"), "phases_us.{}.p99", 1),
          ("p99", "ratio", lambda row: number(ratio(row["phases_us"]["during"]["p99"], row["phases_us"]["before"]["p99"]), 2), None))


TAILS = (("", "sequence", lambda row: f"{row['transport']} {row['sequence']}", None), ("", "library", "library", None),
         *columns_of(("hybrid",), FAR, "hybrid_us.{}", 1), *columns_of(("bare",), FAR, "bare_hybrid_us.{}", 1),
         *columns_of(("clock",), FAR, "clock_us.{}", 1))


def percentile_curve(row, name):
    """Points of latency against 1 / (1 - percentile)."""
    return [(1 / (1 - share), row[name][what]) for what, share in PERCENTILES.items()]


def curve(bench, transport, sequence, rate_max):
    """Latency at shares of the highest rate, one run each."""
    found = []
    for share in CURVE:
        rate = int(rate_max * share)
        by = {library: plain(bench, transport, library, sequence, rate, SEARCH_S)["hybrid_us"] for library in ("libllm", "bare")}
        found.append({"rate_msgs_per_s": rate, "hybrid_us": by["libllm"], "bare_hybrid_us": by["bare"]})
    return found


def write_card(bench, report, rows):
    """Writes the report card as HTML."""
    parts = [("Sequences", card.table(COLUMNS, rows)), ("The tail, us", card.table(TAILS, rows))]
    parts += [(f"Causes of the worst samples: {row['sequence']} over {row['transport']}", card.table(tail.CAUSES, row["causes"]))
              for row in rows if row["causes"]]
    if phases := [row for row in rows if row["phases_us"]]:
        parts.append(("Slow consumers: the others' hybrid latency", card.table(PHASES, phases)))
    axes = "set ylabel 'microseconds'", "set key left top", "set logscale xy"
    for transport in bench.o.transport:
        mine = [row for row in rows if (row["transport"], row["library"]) == (transport, "libllm")]
        parts.append((f"Percentiles, {transport}", card.plot(
            f"hybrid latency over {transport}, {bench.o.rate} messages a second",
            [(row["sequence"], percentile_curve(row, "hybrid_us")) for row in mine]
            + [(f"{row['sequence']}, bare", percentile_curve(row, "bare_hybrid_us")) for row in mine[:1]], *axes,
            "set xlabel 'percentile'", "set xtics ('50' 2, '99' 100, '99.9' 1000, '99.99' 10000, '99.9999' 1000000)")))
        for what in ("mean", "p99"):
            parts.append((f"{what} against rate, {transport}", card.plot(
                f"{what} of the hybrid latency over {transport} against the rate",
                [(f"{row['sequence']}{more}", [(point["rate_msgs_per_s"], point[name][what]) for point in row["curve"] or ()])
                 for row in mine for name, more in (("hybrid_us", ""), ("bare_hybrid_us", ", bare"))], *axes,
                "set xlabel 'messages a second'")))
    card.write(bench.results / "market-data.html", "libllm: STAC-M2-like market data", report.lines[:4], *parts)


def run(bench):
    o = bench.o
    if o.lists:
        LISTS["lists"] = read_lists(o)
        o.sequence.append("lists")
    packages(*PACKAGES)
    build(RELEASE, "-Dtests=false", "-Dexamples=false")
    if "udp" in o.transport:
        bench.hosts = Hosts()
    if o.quick:
        o.duration, o.runs, o.no_highest = min(o.duration, 1.0), 1, True
    sequences = [name for one in o.sequence for name in ([f"slow-{kind}" for kind in SLOW] if one == "slow" else [one])]
    bench.feeds = programs_of(bench, o.peers) if o.peers else {}
    libraries = ["libllm", *bench.feeds, "bare"]
    cases = [(transport, library, sequence) for transport in o.transport for sequence in sequences for library in libraries
             if not unsupported(library, transport, sequence)]
    beside = (cases[0][0], CLOCK, CLOCK)
    found = bench.turns([beside, *cases], measure, f"{', '.join(sequences)} over {', '.join(o.transport)}")
    rows, tops = [], {}
    for transport, library, sequence in cases:
        if not o.no_highest and sequence not in INCIDENTS and "-" not in sequence:
            tops[transport, library, sequence] = highest(bench, transport, library, sequence)
            say(f"{sequence} over {transport}, {library}: {tops[transport, library, sequence] or 'no'} messages a second")
    for transport, library, sequence in cases:
        if library == "bare":
            continue
        rate_max = tops.get((transport, library, sequence))
        rows.append(row_of(o, transport, library, sequence, found[transport, library, sequence], found[transport, "bare", sequence],
                           rate_max))
        rows[-1]["bare_highest_rate_msgs_per_s"] = tops.get((transport, "bare", sequence))
        rows[-1]["clock_us"] = averages(found[beside], "clock_us")
        rows[-1]["causes"] = plain(bench, transport, library, sequence, o.rate, o.duration, True)["causes"] if library == "libllm" and \
            sequence in o.causes else None
        rows[-1]["curve"] = curve(bench, transport, sequence, rate_max) if library == "libllm" and rate_max else None
    report, machine = Report(bench), found[cases[0]][0]["machine"]
    report.write_json(machine, rows)
    report.head(machine, f"{SYMBOLS} symbols, {o.rate} messages of {SIZE} B a second for {o.duration:g} s, runs: {o.runs}, medians;",
                "hybrid: half the time from the due time of a message to the arrival of its reflection; bare: the transport with the same "
                "processes;", "recovery: from the start of a process until it is live with the last value of each symbol on its list;",
                f"highest: all messages delivered, and the supply at most {(HELD - 1) * 100:.0f} % longer than planned")
    report.rows(COLUMNS, rows)
    tail.show(report, "hybrid latency", TAILS, rows, lambda row: f"of {row['sequence']} over {row['transport']}")
    if phases := [row for row in rows if row["phases_us"]]:
        report.print("", "hybrid latency of the other consumers, us", "")
        report.rows(PHASES, phases)
    for line in missing(o, bench.feeds, sequences):
        report.print(line)
    for sentence in faults(rows):
        report.fail(sentence)
    write_card(bench, report, rows)
    return report.finish()


def missing(o, feeds, sequences):
    """Sentences about sequences that other libraries do not support."""
    for library in feeds:
        for transport in o.transport:
            why = {}
            for sequence in sequences:
                if reason := unsupported(library, transport, sequence):
                    why.setdefault(reason, []).append(sequence)
            yield from (f"not supported by {library} over {transport}: {', '.join(names)} ({reason})" for reason, names in why.items())


def faults(rows):
    for row in rows:
        where = f"{row['sequence']} over {row['transport']}"
        if row["lost"] and row["library"] == "libllm":
            yield f"{where}: {row['lost']} messages were lost, duplicated or changed"
        if row["incomplete"]:
            yield f"{where}: {row['incomplete']} last values were missing"
