# SPDX-License-Identifier: Apache-2.0
"""Latency of hops over a pair, alternately with libllm and bare, and the fields of its rows."""
from runner.histogram import Histogram
from runner.tables import Report, median, medians, ratio, worst

BLOCK_S = 0.5  # a block of libllm, followed by half as long bare, repeatedly
BLOCK_MESSAGES = 4  # minimum number of messages of a block
BARE_RATE_MAX = 100000  # highest rate of one datagram a message with some headroom; above it messages are packed if trains are supported
BARE_RATE_MAX_ALL = 20000  # the same, if every message is sent back
BARE_RATE_MIN = 10
PACKED_SIZE_MAX = 1400
WAIT_SHARE = 0.005  # of the duration; above it the row is disturbed by other work


class Hop:
    """One run of a row. samples: messages sampled in a second (default 1000); 0: all, and the bare run is flat out too."""

    def __init__(self, pair, size, rate, reflect_all=False, topics=1, samples=None):
        self.pair, self.size, self.rate, self.all, self.topics, self.samples = pair, size, rate, reflect_all, topics, samples
        self.rtt, self.submitted, self.bare = Histogram(), Histogram(), Histogram()
        self.packed = rate > BARE_RATE_MAX and not reflect_all and pair.o.transport == "udp" and size <= PACKED_SIZE_MAX
        self.sent = self.received = self.lost = self.disordered = self.refused = self.messages = self.packets = self.waited_ns = 0
        self.rates, self.bare_rates = [], []
        self.cores_ns = pair.cores_ns()
        wanted = max(BLOCK_S, BLOCK_MESSAGES / rate if rate else 0)
        blocks = max(int(pair.o.duration / wanted + 0.5), 1)
        for _ in range(blocks):
            if not pair.o.no_raw:
                self.bare_block(pair.o.duration / blocks / 2)
            self.block(pair.o.duration / blocks)
        self.reached = min(self.rates)

    def ends(self, bare, duration, **words):
        """Runs both ends. Returns the answers about messages sent, received and returned."""
        near, far = self.pair.near, self.pair.far
        shared = {"bare": bare, "size": self.size, "all": self.all}
        far.ask("echo", **shared, packed=self.packed and bare)
        sent = near.ask("hop", **shared, duration=duration, **words)
        came = far.ask("end", sent=sent["sent"], settle=not bare)
        return sent, came, near.ask("returned", count=0 if bare else came["reflected"])

    def block(self, duration):
        sent, came, back = self.ends(False, duration, rate=self.rate, topics=self.topics, samples=self.samples,
                                     mode="paced" if self.rate else "flood")
        self.sent += max(sent["sent"] - sent["warmup"], 0)
        self.received += came["came"]
        self.lost += came["lost"] + max(came["reflected"] - back["returned"], 0)
        self.disordered += came["disordered"]
        self.refused += came["unreflected"]
        self.messages += sent["messages"]
        self.packets += sent["packets"]
        self.waited_ns += sent["waited_ns"] + came["waited_ns"]
        self.rtt.add(back["rtt"])
        self.submitted.add(back["submitted"])
        # A block that sent everything kept its rate; its clock would only show the timing of its last message.
        self.rates.append(self.rate if self.rate and sent["whole"] else sent["reached"])

    def bare_block(self, duration):
        """Sends at the same rate or the nearest possible one: between datagrams 1 ms apart, caches and branch predictors forget the
        kernel's path."""
        most = BARE_RATE_MAX_ALL if self.all else BARE_RATE_MAX
        pace = self.rate if self.packed else max(min(self.rate or most, most), BARE_RATE_MIN)
        flood = self.samples is not None and not self.rate
        sent, _, back = self.ends(True, duration, rate=0 if flood else pace, mode="flood" if flood else "paced", packed=self.packed,
                                  samples=self.samples)
        self.bare.add(back["rtt"])
        self.bare_rates.append(sent["reached"] if flood else pace)


TAIL_SAMPLES = 1000  # least for a percentile of 99.9


def tail_of(histogram):
    """99.9th percentile of a hop in us; None with too few samples."""
    return histogram.summary(2)["p99_9"] if len(histogram) >= TAIL_SAMPLES else None


def fields_of(runs):
    """Medians over the runs, except that the worst of losses is reported."""
    return {"rate_msgs_per_s": runs[0].rate or None, "rate_reached_msgs_per_s": median(run.reached for run in runs),
            **{name: median(getattr(run, name) for run in runs) for name in ("sent", "received")},
            "lost": worst(run.lost for run in runs), "disordered": worst(run.disordered for run in runs),
            "refused": worst(run.refused for run in runs), "samples": median(len(run.rtt) for run in runs),
            "hop_us": medians(run.rtt.summary(2) for run in runs),
            "raw_hop_us": {**medians(run.bare.summary(2) for run in runs), "p99_9": median(tail_of(run.bare) for run in runs)},
            "p99_9_ratio_to_raw": median(ratio(tail_of(run.rtt), tail_of(run.bare)) for run in runs),
            **{name: median(ratio(run.rtt.summary()[what], run.bare.summary()[what]) for run in runs)
               for name, what in (("ratio_to_raw", "median"), ("p99_ratio_to_raw", "p99"))},
            "messages_per_packet": median(ratio(run.messages, run.packets) for run in runs),
            "core_wait_ms": median(run.waited_ns / 1e6 for run in runs), "core_to_core_ns": median(run.cores_ns for run in runs)}


RATIOS = (("ratio", "median", "ratio_to_raw", 2), ("ratio", "p99", "p99_ratio_to_raw", 2))
RAW = (("raw", "median", "raw_hop_us.median", 2), ("raw", "p99", "raw_hop_us.p99", 2), ("raw", "p99.9", "raw_hop_us.p99_9", 2), *RATIOS,
       ("ratio", "p99.9", "p99_9_ratio_to_raw", 2))
COLUMNS = (("", "lost", "lost", 0), ("", "median", "hop_us.median", 2), ("", "p99", "hop_us.p99", 2), *RAW,
           ("msgs a", "packet", "messages_per_packet", 1), ("cores", "ns", "core_to_core_ns", 0))


def write_histograms(directory, name, found, divisor):
    """Writes percentiles of all runs of each row, and of the bare runs."""
    for runs in found.values():
        for kind, which in (("", "rtt"), ("-raw", "bare")):
            together = Histogram(*(getattr(one, which) for one in runs))
            if len(together):
                together.write(directory / f"{name}-{runs[0].size}B-{runs[0].rate}{kind}.hgrm", divisor)


def wait_note(report, row, name, duration):
    if row["core_wait_ms"] > WAIT_SHARE * duration * 1e3:
        report.print(f"~ {name}: the ends waited {row['core_wait_ms']:.1f} ms for their cores; another program runs there")


def notes(report, row, name, duration):
    """Prints the reasons to trust a row less."""
    rate, reached = row["rate_msgs_per_s"], row["rate_reached_msgs_per_s"]
    if rate and reached < 0.99 * rate:
        report.print(f"* {name}: reached only {reached:.0f} msg/s")
    if row["disordered"]:
        report.print(f"! {name}: {row['disordered']:.0f} messages came out of order or twice")
    if row["refused"]:
        report.print(f"! {name}: {row['refused']:.0f} messages could not be sent back")
    wait_note(report, row, name, duration)


def run_text(o):
    return f"; {o.duration:g} s a row" + (f"; medians of {o.runs} runs, the worst of lost" if o.runs > 1 else "")


def sweep(ends, found, own_fields, columns, measured):
    """Reports hops measured in several cases. found: results of each case, by run. own_fields: returns a row's own fields, and its hops,
    for a case and its results. columns: columns for these fields. Returns the exit status."""
    o, rows = ends.o, []
    for case, runs in found.items():
        own, hops = own_fields(*case, runs)
        rows.append({"transport": o.transport, "size_bytes": o.size, "duration_s": o.duration, **own, **fields_of(hops)})
    measured = [f"measured  {measured}; one hop = half a round trip, in us, from the time due{run_text(o)}"]
    counters = ends.stop()
    return ends.report(Report(ends.bench), measured, (*columns, *COLUMNS), rows,
                       lambda report, row: notes(report, row, f"row {rows.index(row) + 1}", o.duration), counters)
