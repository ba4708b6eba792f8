# SPDX-License-Identifier: Apache-2.0
"""Processes of publishers and consumers with topics (engine/market.c): channels, CPUs, requests and answers."""
import math
import pathlib
import shutil

from runner import bare, tail
from runner.histogram import Histogram
from runner.session import Failed, Host, allowed_cpus, memory_directory

HELD = 1.02  # a supply that takes longer than this share of the time planned was not held
STEPS = 5    # of a search, after doubling
TRIES = 2    # of each rate
RATE_MAX = 100000000
PATIENCE_S = 30
# Other libraries, and the variant of each adapter over a transport.
PEERS = {"aeron": {"udp": "aeron", "shm": "aeron"}, "cyclonedds": {"udp": "cyclonedds"}, "zmq": {"udp": "zmq-tcp", "shm": "zmq-ipc"}}
CLOCK = "clock"  # a process that only reads the clock, beside the libraries
# Samples required beyond a percentile; with fewer the percentile is not reported.
BEYOND = 10
PERCENTILES = {"median": 0.5, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999, "p99_9999": 0.999999}
NAMES = ("mean", *PERCENTILES, "max", "std")
FAR = (*list(PERCENTILES)[1:], "max")


def unsupported(library, transport, sequence=""):
    """Reason why a library does not support a sequence over a transport; None if it does."""
    if library in PEERS and transport not in PEERS[library]:
        return f"no {transport}: its processes share memory by a daemon of another project"
    if library in PEERS and sequence in ("caching", "restart", "two"):
        return "no last values: a subscriber that joins late misses those before"
    if library in PEERS and sequence.startswith("slow"):
        return "the slow consumer holds all others up (no loss), or loses: there is no policy to compare"
    return None


def summary(times, divisor=1):
    """Figures in microseconds, divided by the divisor: 2 halves round trips. None without enough samples."""
    if not len(times):
        return dict.fromkeys(NAMES)
    us, count = 1e3 * divisor, len(times)
    return {"mean": times.mean() / us,
            **{name: times.percentile(share) / us if count * (1 - share) >= BEYOND * (1 - 1e-9) else None
               for name, share in PERCENTILES.items()},
            "max": times.max / us, "std": times.deviation() / us}


def ranges(topics):
    """Topics as a list of FIRST-LAST."""
    found = []
    for topic in sorted(topics):
        if found and topic == found[-1][1] + 1:
            found[-1][1] = topic
        else:
            found.append([topic, topic])
    return [f"{first}-{last}" for first, last in found]


def mark_of(rate, marked, topics):
    """Distance between marked messages, so that about `marked` messages a second are marked, on all topics in turn."""
    mark = max(int(rate / marked), 1)
    while math.gcd(mark, topics) > 1:
        mark += 1
    return mark


def find_highest(rate, measure, planned_s):
    """Finds the highest rate at which all messages are delivered and the supply takes as long as planned, by doubling and bisection.
    measure: returns the result of a rate. Returns the rate, and the deliveries per second at it."""
    def held(rate):
        # A stall of the machine does not end the search: the second try counts, too.
        for _ in range(TRIES):
            found = measure(rate)
            if found["sent"] == found["wanted"] and not found["lost"] and found["s"] <= planned_s * HELD:
                return found
        return None

    best, low, high = None, None, None
    while high is None and rate <= RATE_MAX:
        found = held(rate)
        best, low, high, rate = (found, rate, None, rate * 2) if found else (best, low, rate, rate)
    for _ in range(STEPS if low else 0):
        middle = (low + high) // 2 if high else low
        found = held(middle)
        best, low, high = (found, middle, high) if found else (best, low, middle)
    return {"rate": low, "delivered": best["delivered"] if best and "delivered" in best else 0}


def clock(bench, rate, duration):
    """Delays of a loop that only reads the clock, on each CPU at once, in microseconds."""
    found = [bench.start(Host("", "", ""), "clock", f"clock-{cpu}", bench.programs / "llm-bench", cpu=cpu, rate=rate, duration=duration)
             for cpu in allowed_cpus()]
    answers = [process.hear()["due"] for process in found]
    bench.processes.finish()
    return {"clock_us": summary(Histogram(*answers))}


class Publisher:
    """A process that supplies topics. number: unique in a measurement, also for replacements."""

    def __init__(self, process, number, topics):
        self.process, self.number, self.topics, self.sent = process, number, topics, 0

    def span(self):
        return self.topics[0], sum(self.topics)


class Consumer:
    """A process with a watch list. number: from 1 on, unique in a measurement, also for replacements."""

    def __init__(self, process, number, watch):
        self.process, self.number, self.watch, self.answer = process, number, watch, None


class Market:
    """The processes of one measurement. reflects: consumers reflect marked messages; otherwise they measure one-way latency."""

    def __init__(self, bench, transport, library, topics, size, consumers, publishers=1, reflects=True, options=(), cache=0,
                 programs=None):
        self.bench, self.transport, self.library, self.topics, self.size, self.programs = bench, transport, library, topics, size, programs
        self.expected = {"consumers": consumers, "publishers": publishers}
        self.reflects, self.options, self.cache = reflects, list(filter(None, options)), cache
        self.publishers, self.consumers, self.gone = [], [], []
        self.hosts = [Host("", "", "")] * 5 if transport == "shm" else bench.hosts.all
        self.directory = memory_directory() if transport == "shm" else ""
        self.files = pathlib.Path(memory_directory("llm-peers-")) if library in PEERS else None
        cpus = allowed_cpus()
        # Publishers have the first CPUs, in proportion to their number.
        share = max(len(cpus) * publishers // (publishers + consumers), 1)
        self.cpus = [cpus[:share], cpus[share:] or cpus]

    def idle(self, side, count):
        """Idle behaviour: processes that share a CPU yield it."""
        return "spin" if count <= len(self.cpus[side]) and not set(self.cpus[0]) & set(self.cpus[1]) else "yield"

    def host(self, side, place):
        """Publishers share a host; consumers are on all others."""
        return self.hosts[1 + place % (len(self.hosts) - 1) if side else 0]

    def channel(self, side, way, *options):
        """Channel of a direction: there, or back."""
        number = ("there", "back").index(way) + 1
        base = (f"shm://market-{way}?shm_directory={self.directory}" if self.transport == "shm" else
                f"udp://239.192.1.{number}:500{number}?interface={self.host(side, 0).interface}")
        return "&".join([base, *self.options, *options])

    def place(self, side, way, ring, reader=0):
        """Place of the bare transport. In shared memory each writer has a ring."""
        slot = [f"mtu={self.size}"] if self.transport == "shm" else []
        channel = self.channel(side, way, *slot).replace(f"market-{way}", f"market-{way}-{ring}")
        readers = self.expected["consumers" if way == "there" else "publishers"]
        return bare.place(channel) + (f",{reader},{readers}" if self.transport == "shm" else "")

    def channels(self, side, number):
        """Channels of a publisher (side 0) or a consumer (side 1)."""
        out, back = ("there", "back") if side == 0 else ("back", "there")
        if self.library in PEERS:
            # Publishers are the near side. With Aeron IPC the first publisher runs the driver.
            here, there = self.host(side, number), self.host(1 - side, 0)
            place = {"common": self.directory} if self.transport == "shm" else \
                {"interface": here.interface, "address": here.address, "peer_address": there.address}
            return {"near": side == 0, "variant": PEERS[self.library][self.transport], "index": number, **place,
                    "others": self.expected["consumers" if side == 0 else "publishers"], "directory": self.files / f"{side}-{number}"}
        if self.library != "bare":
            # Reflections are a few messages: a short history is enough.
            small = () if side == 0 else ("history_bytes=1M", "history_packets=1024")
            many = ("shm_exclusive=0",) if self.transport == "shm" else ()
            return {"publish": self.channel(side, out, *small, *many), "subscribe": self.channel(side, back, *many)}
        writers = range(self.expected["consumers" if side == 0 else "publishers"]) if self.transport == "shm" else [0]
        return {"publish": self.place(side, out, number), "subscribe": ";".join(self.place(side, back, writer, number) for writer in writers)}

    def start(self, side, number, place, count, cpu, **words):
        channels = self.channels(side, place)
        if not self.reflects and self.library not in PEERS:
            channels["subscribe" if side == 0 else "publish"] = None
        if "options" in words:
            channels["subscribe"] = words.pop("options")(channels["subscribe"])
        name = f"{('publisher', 'consumer')[side]}-{number}"
        program = self.programs[self.library] if self.library in PEERS else self.bench.programs / "llm-bench"
        process = self.bench.start(self.host(side, place), "market", name, program, cpu=cpu, over="bare" if self.library == "bare" else "llm",
                                   topics=self.topics, size=self.size, idle=self.idle(side, count), **channels, **words)
        process.hear()
        return process

    def publisher(self, topics=None, number=None):
        """Starts a publisher. topics: first topic and number of topics."""
        first, count = topics or (0, self.topics)
        number = len(self.publishers) if number is None else number
        cpu = self.cpus[0][len(self.publishers) % len(self.cpus[0])]
        process = self.start(0, number, len(self.publishers), self.expected["publishers"], cpu, publisher=number,
                             own=f"{first}-{first + count - 1}", cache=self.cache or None)
        self.publishers.append(Publisher(process, number, (first, count)))
        return self.publishers[-1]

    def consumer(self, watch, late=False, round=0, number=None, place=None, later=False, **words):
        """Starts a consumer. later: it opens its channels in enter()."""
        number = number or len(self.consumers) + 1
        place = len(self.consumers) if place is None else place
        cpu = self.cpus[1][place % len(self.cpus[1])]
        process = self.start(1, number, place, self.expected["consumers"], cpu, consumer=number if self.reflects else None,
                             oneway=not self.reflects, watch=ranges(watch) if len(watch) < self.topics else None, own="0-0",
                             late=late or None, round=round or None, publisher=None, later=later or None, **words)
        consumer = Consumer(process, number, watch)
        if not later:
            self.consumers.append(consumer)
        return consumer

    def enter(self, consumer):
        """Makes a consumer open its channels."""
        consumer.process.ask("open")
        self.consumers.append(consumer)

    def greet(self):
        """Waits until every process has heard the others."""
        for publisher in self.publishers:
            publisher.process.ask("greet", on=1)
        for consumer in self.consumers:
            near = [one for one in self.publishers if not set(range(*one.span())).isdisjoint(consumer.watch)]
            self.hear(consumer.process, len(near))
        for publisher in self.publishers if self.reflects else ():
            self.hear(publisher.process, len(self.consumers))
        for publisher in self.publishers:
            publisher.process.ask("greet", on=0)

    def hear(self, process, others):
        heard = process.ask("await", patience=PATIENCE_S, **{"from": others})["heard"]
        if heard < others:
            self.bench.processes.end()
            raise Failed(f"{process.name} heard {heard} of {others} others within {PATIENCE_S} s: {self.library} over {self.transport}")

    def begin(self, round, skip=None):
        for one in (*self.consumers, *self.publishers):
            one.process.ask("begin", round=round, skip=skip)
        for publisher in self.publishers:
            publisher.sent = 0

    def tell_supply(self, rate, duration, warmup, mark, shared=False):
        """rate: of all publishers. shared: the publishers have the same topics, and equal shares of the rate."""
        for publisher in self.publishers:
            part = 1 / len(self.publishers) if shared else publisher.topics[1] / self.topics
            publisher.process.tell("supply", rate=max(int(rate * part), 1), duration=duration, warmup=warmup, mark=mark)

    def hear_supply(self):
        """Results of a supply."""
        answers = [publisher.process.hear() for publisher in self.publishers]
        for publisher, answer in zip(self.publishers, answers):
            publisher.sent += answer["sent"]
        return {"sent": sum(answer["sent"] for answer in answers), "wanted": sum(answer["wanted"] for answer in answers),
                "late_ms": max(answer["late_max_ns"] for answer in answers) / 1e6, "s": max(answer["ns"] for answer in answers) / 1e9}

    def supply(self, *words, shared=False):
        self.tell_supply(*words, shared)
        return self.hear_supply()

    def sent(self):
        """Topics and messages of each publisher, as the request end takes them."""
        by_number = {publisher.number: publisher for publisher in self.publishers}
        return [f"{of.topics[0]}-{of.topics[1]}-{of.sent}" if (of := by_number.get(number)) else "0-1-0"
                for number in range(max(by_number) + 1)]

    def end(self, *consumers):
        """Returns the counts of consumers."""
        for consumer in consumers or self.consumers:
            consumer.answer = consumer.process.ask("end", sent=self.sent(), patience=PATIENCE_S if self.library != "bare" else 0.3)
        return [consumer.answer for consumer in consumers or self.consumers]

    def collect(self, returned=None, patience=0.3):
        """Latencies of reflections, from the due time and from the send call."""
        answers = [publisher.process.ask("collect", returned=returned, patience=patience) for publisher in self.publishers]
        return {"returned": sum(answer["returned"] for answer in answers),
                **{name: Histogram(*(answer[name] for answer in answers)) for name in ("due", "sent")}}

    def stats(self):
        """
        Of both sides: processor time in cores, resident memory, the proportional share of it (PSS), page faults and involuntary context
        switches; the machine.
        """
        sides = {"producer": self.publishers, "consumers": self.consumers}
        answers = {side: [one.process.ask("stats") for one in of] for side, of in sides.items()}
        both = [answer for of in answers.values() for answer in of]
        return {"cpu_cores": {side: sum(answer["cpu_ns"] / answer["ns"] for answer in of) for side, of in answers.items()},
                "rss_mib": {side: sum(answer["rss_mib"] for answer in of) for side, of in answers.items()},
                "rss_mib_max": max(answer["rss_mib"] for answer in both),
                "pss_mib": {side: sum(answer["pss_mib"] for answer in of) for side, of in answers.items()},
                "pss_mib_max": max(answer["pss_mib"] for answer in both),
                "faults": sum(answer["faults"] for answer in both), "switches": sum(answer["switches"] for answer in both),
                "machine": both[0]["machine"]}

    def record_tail(self):
        """Starts to record the causes of late messages."""
        for one in (*self.publishers, *self.consumers):
            one.process.ask("tail")

    def causes(self):
        """Causes of the worst latencies since record_tail()."""
        takers, makers = (self.publishers, self.consumers) if self.reflects else (self.consumers, self.publishers)
        others = {one.number: one.process for one in makers}
        ends = {True: "producer", False: "consumer"}
        samples = []
        for taker in takers:
            for sample in taker.process.ask("worst")["samples"]:
                pair = (ends[self.reflects], taker.process), (ends[not self.reflects], others[int(sample[4])])
                samples.append((sample, *(pair if self.reflects else reversed(pair))))
        return tail.causes(samples)

    def remove(self, consumer, number):
        """Ends a consumer with a signal."""
        self.bench.processes.end(consumer.process, number=number)
        self.consumers.remove(consumer)

    def close(self):
        """Ends all processes; those of other libraries by a signal, as they wait long for each other."""
        if self.library in PEERS:
            self.bench.processes.end()
        else:
            self.bench.processes.finish()
        # Many measurements follow each other, and the files are in memory.
        for directory in filter(None, (self.directory, self.files)):
            shutil.rmtree(directory, ignore_errors=True)
