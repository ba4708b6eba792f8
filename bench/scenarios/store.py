# SPDX-License-Identifier: Apache-2.0
"""rate and latency of a message store, on disk and in memory, beside the bare disk

Cases:
  record       flat out, flow=window: the rate that a store records, on the disk and on tmpfs; that of the same stream to an ordinary
               receiver in its place; and bare durable writes of full blocks (O_DIRECT, RWF_DSYNC), as many under way: alone, and
               busy, while a receiver gets the stream on the same cores, which a virtual disk shares. The recording is read again
               afterwards: each message once, in order
  acknowledge  on the disk, by level: from when a message was due until the transmitter's application is informed that the store has
               acknowledged it; beside a bare durable write of 4 KiB, the hop to an ordinary receiver, and bare writes of messages
               that come due as often: each write has those that came during the one before. The store has recorded --mib before,
               so it uses its oldest segments again; until then its writes wait for those that make new files
  others       hop of a reference receiver while the store records, in segments that are used again, while an ordinary receiver is in
               the place of the store, and while bare writes like the store's are done beside that one
  start        a store is killed while it records, and opened again with so many more segments, which are sparse files: until
               llm_store_open() returns, and until the session goes on and its messages are on the disk
  replay       rate of llm_replay_next() from the page cache, and from the disk; beside that of the live stream and bare
               reads (O_DIRECT) of full blocks, four at a time; and the hop of a live receiver meanwhile
  join         receivers join with join=oldest while others are live, and get from the store what the transmitter no longer has

record and acknowledge also measure Aeron's archive (--peer), for messages of the same size and a sync level that promises the same:
fileSyncLevel 1 for synced, 0 for written. Its publisher reads the recorded position from the archive's counters in shared memory.

Runs of a case take turns with those that they are compared with. Fails if a message is lost, or comes twice. With less than four cores
processes share them: with two the reference receiver sleeps between messages, and the others of its core have the lowest priority, joiners
only where the scheduler does not group processes by session.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import time

from runner import archive
from runner import options as opt
from runner import plots
from runner.disk import PAGE, Place, Raw
from runner.histogram import Histogram
from runner.session import ROOT, Host, fail
from runner.tables import Report, columns_of, median, medians, number, ratio

CASES = ("record", "acknowledge", "others", "start", "replay", "join")
SYSTEMS = ("disk", "tmpfs")
LEVELS = ("synced", "written", "received")
NAME = "store"
SEGMENT_MIB, SPARES = 64, 8  # with --quick 16 and 2
LATENCY = ("median", "p99", "max")
START_MIB, START_RATE = 256, 10000  # segments of start, and messages a second while the store is gone
LIVE_RATE = 10000  # messages a second beside a replay, and beside joiners
CACHED = (1, 0)  # a replay reads the page cache; then the disk, into the pages that this frees
REPLAY = "replay_bytes_per_s=4G"  # no limit of the store for what it sends to joiners
HISTORY = 1024  # packets of the transmitter's history in join
FILLS = 20  # most sends before a measurement
WARM_S, FILL_S, JOIN_S = 0.05, 0.2, 120
NEEDED_MIB, RESERVE_MIB = 4096, 1024  # free, besides twice --mib: spare files, segments that wait for retention; the reserve of a store
CPUS = {1: "0,0,0,0", 2: "0,1,1,1", 3: "0,1,2,2"}.get(os.cpu_count(), "0,1,2,3")
OPTIONS = (opt.words("case", ",".join(CASES), CASES, "which of these"),
           opt.choice("engine", "auto", ("auto", "uring", "thread"), "what the store writes with"),
           opt.choice("wait", "block", ("block", "spin"), "whether the store sleeps while it is idle, as llm-store does, or polls"),
           opt.words("level", ",".join(LEVELS), LEVELS, "levels of acknowledge; the first is that of the other cases"),
           opt.words("place", ",".join(SYSTEMS), SYSTEMS, "file systems of record"),
           opt.numbers("size", "1000,45", 24, 65507, "bytes of a message; the first is that of the other cases"),
           opt.numbers("rate", "1000,10000,100000", 1, 10000000, "messages a second of acknowledge; others has the last two"),
           opt.numbers("segments", "1,40,400", 0, 10000, "additional segments of start"),
           opt.number("mib", 1024, 128, 65536, "MiB of a recording, at which the oldest segments are used again"),
           opt.number("joiners", 10 if os.cpu_count() > 3 else 4, 1, 10000, "receivers of join"),
           opt.number("past", 200000, 1000, 100000000, "messages in the store of join and replay"),
           opt.text_option("directory", "on the disk to measure (build)", metavar="DIR", default=str(ROOT / "build")),
           opt.seconds("duration", 3, 50, 3600000, "of each measurement"), opt.RUNS,
           opt.choice("peer", "aeron", ("aeron", "none"), "whether to measure Aeron's archive too; not with --quick"),
           opt.flag("quick", "a run of a few seconds of everything"), opt.OPTIONS,
           opt.cpus(CPUS, 4, "the CPUs of the transmitter, the store, the reference receiver, and joiners or a replay"),
           opt.Option("plot", None, opt.read_file, "file for the plot of acknowledge, .svg or .png (store.svg in the results directory)", "FILE"),
           *opt.OUTPUT)


class Stores:
    """Starts stores and what they are compared with."""

    def __init__(self, bench):
        self.bench, self.o = bench, bench.o
        self.places = {"disk": Place("disk", self.o.directory), "tmpfs": Place("tmpfs", "/dev/shm")}
        self.raws, self.machine, self.absent = {}, None, 0
        self.writes = {}  # of the store in others, by rate: size, and writes a second
        self.segment_mib, self.spares, self.start_mib = (16, 2, 64) if self.o.quick else (SEGMENT_MIB, SPARES, START_MIB)
        self.shared = self.o.cpus[1] == self.o.cpus[2]

    def raw(self, name, low=False):
        """The bare disk, on the core of the store."""
        if (name, low) not in self.raws:
            process = self.program(Host("", "", ""), "disk", low, directory=self.places[name].path, mib=min(self.o.mib, 512))
            self.raws[name, low] = Raw(self.bench, process)
        return self.raws[name, low]

    def close_raws(self):
        for raw in self.raws.values():
            raw.close()
        self.raws = {}

    def program(self, host, role, low, cpu=None, **words):
        """Starts a process on the core of the store, at the lowest priority if it shares the core with a measured one."""
        low = ["chrt", "-i", "0"] if low and self.shared else []
        cpu = self.o.cpus[1] if cpu is None else cpu
        return self.bench.processes.start(host, role, [*low, self.bench.programs / "llm-bench"], role, cpu=cpu, **words)

    def store(self, directory, level, low=False, ready=True, segment=None, spares=None, **words):
        """Starts a store on host B; returns it with its first answer."""
        host = self.bench.hosts.b
        store = self.program(host, "store", low, directory=directory, level=level, engine=self.o.engine, wait=self.o.wait,
                             segment_mib=segment or self.segment_mib, spares=spares or self.spares, **words,
                             channels=[self.bench.channel(host, f"receiver_name={NAME}", REPLAY)])
        opened = store.hear()
        if ready:
            store.ask("prepared")
        return store, opened

    def receiver(self, low=False, measured=None):
        """Starts an ordinary receiver in the place of the store."""
        host = self.bench.hosts.b
        return self.program(host, "receivers", low, channels=[self.bench.channel(host, f"receiver_name={NAME}")], measured=measured or [0])

    def reference(self, phases=1):
        """Starts a receiver on the host of the transmitter, which measures the hop."""
        host = self.bench.hosts.a
        return self.bench.start(host, "receivers", "reference", channels=[self.bench.channel(host)], cpu=self.o.cpus[2],
                                wait="block" if self.shared else "spin", measured=list(range(phases)))

    def transmitter(self, size, *options, **words):
        host = self.bench.hosts.a
        return self.bench.start(host, "transmitter", channel=self.bench.channel(host, *options), size=size, cpu=self.o.cpus[0], **words)

    def end(self, sender, receiver):
        """Closes a transmitter; returns the last answer of a process that ends with the session."""
        return self.bench.finish(sender, receiver)[receiver.name]

    def end_store(self, sender, store):
        """Closes a transmitter and a store; returns the answer of the store when all was recorded."""
        sender.popen.stdin.close()
        found = store.ask("recorded")
        self.bench.processes.serve(sender)
        self.bench.processes.finish(store)
        return found

    def check(self, directory, session=None):
        """Reads a recording and removes it. Returns what was delivered."""
        reader = self.program(self.bench.hosts.b, "replay", False, directory=directory, session=session)
        reader.hear()
        found = reader.ask("replay")
        self.bench.processes.finish(reader)
        shutil.rmtree(directory)
        return found


# ----------------------------------------------------------------------------------------------------- record

def write_beside(stores, name, size):
    """MiB/s of bare writes while a receiver gets the stream."""
    receiver, sender = stores.receiver(low=True), stores.transmitter(size)
    sender.ask("await")
    sender.tell("send", rate=0, duration=stores.o.duration + WARM_S, round=1)
    time.sleep(WARM_S)
    mib, _ = stores.raw(name).write(stores.o.duration)
    sender.hear()
    stores.end(sender, receiver)
    return mib


def recycle(stores, sender, store):
    """Sends flat out until the store uses its oldest segments again. Returns its figures after that."""
    found = store.ask("stats")
    for _ in range(FILLS):
        if found["store_block_bytes"] >= (stores.o.mib + stores.segment_mib) << 20:
            break
        sender.ask("send", rate=0, duration=stores.o.duration, round=1)
        found = store.ask("stats")
    return found


def record(stores, what, name, size):
    """One measurement: the store, a receiver in its place, or bare writes."""
    o = stores.o
    if what == "raw":
        mib, writes = stores.raw(name).write(o.duration)
        return {"mib_per_s": mib, "write": writes}
    if what == "busy":
        return {"mib_per_s": write_beside(stores, name, size)}
    directory = stores.places[name].new() if what == "store" else None
    end = stores.store(directory, o.level[0], mib_max=o.mib)[0] if directory else stores.receiver()
    sender = stores.transmitter(size)
    sender.ask("await")
    sender.ask("send", rate=0, duration=o.duration, round=1)
    before = recycle(stores, sender, end) if directory else None
    sent = sender.ask("send", rate=0, duration=o.duration, round=1)
    after = end.ask("stats") if directory else None
    stores.machine = sender.ask("stats")["machine"]
    if not directory:
        return {"msgs_per_s": sent["msgs_per_s"], "track": stores.end(sender, end)["receivers"][0]}
    settled, more = stores.end_store(sender, end), {key: after[key] - before[key] for key in before if key.startswith("store_") or key == "at"}
    track = stores.check(directory)
    return {**more, "msgs_per_s": sent["msgs_per_s"], "mib_per_s": more["store_block_bytes"] / (1 << 20) / more["at"] * 1e9,
            "settled": settled, "track": {**track, "lost": track["lost"] + settled["lost"]}}


def record_rows(stores):
    o = stores.o
    cases = [(what, name, size) for name in o.place for size in o.size for what in ("store", "receiver", "raw", "busy")]
    found = stores.bench.turns(cases, lambda _bench, _run, *case: record(stores, *case), f"recording, {o.duration:g} s of each")
    stores.close_raws()
    for name in o.place:
        for size in o.size:
            runs, others, raws, besides = (found[what, name, size] for what in ("store", "receiver", "raw", "busy"))
            mib, raw, busy = (median(run["mib_per_s"] for run in one) for one in (runs, raws, besides))
            rate, other = (median(run["msgs_per_s"] for run in one) for one in (runs, others))
            settled = [run["settled"] for run in runs]
            yield row("record", o.level[0], settled[0], file_system=name, size_bytes=size, msgs_per_s=rate, mib_per_s=mib, raw_mib_per_s=raw,
                      ratio_to_raw=ratio(mib, raw), raw_write_us=medians(run["write"].summary() for run in raws),
                      raw_busy_mib_per_s=busy, ratio_to_raw_busy=ratio(mib, busy),
                      compared_msgs_per_s=other, ratio_to_compared=ratio(rate, other),
                      bytes_ratio=median(ratio(run["store_block_bytes"], run["store_bytes"]) for run in runs),
                      block_bytes=median(ratio(run["store_block_bytes"], run["store_blocks"]) for run in runs),
                      stalls=sum(run["store_stalls"] for run in runs), rss_mib=max(one["rss_mib"] for one in settled),
                      write_us_max=max(one["store_write_ns_max"] for one in settled) / 1e3, **exact(*(run["track"] for run in runs)))


def record_archive(stores, name, size):
    """One measurement of Aeron's archive."""
    run = archive.ArchiveRun(stores, name, stores.o.level[0], size)
    for _ in range(2):
        run.send(0, stores.o.duration)
    found = run.send(0, stores.o.duration)
    return {**found, "rss_mib": run.close()}


def record_archive_rows(stores, record):
    """Rows of Aeron's archive, beside those of the store."""
    o = stores.o
    cases = [(one["file_system"], one["size_bytes"]) for one in record]
    found = stores.bench.turns(cases, lambda _bench, _run, *case: record_archive(stores, *case), f"Aeron's archive, {o.duration:g} s of each")
    for one in record:
        runs = found[one["file_system"], one["size_bytes"]]
        rate = median(run["recorded_per_s"] for run in runs)
        yield row("record", o.level[0], AERON, file_system=one["file_system"], size_bytes=one["size_bytes"], msgs_per_s=rate,
                  mib_per_s=rate * one["size_bytes"] / (1 << 20), raw_mib_per_s=one["raw_mib_per_s"],
                  ratio_to_raw=ratio(rate * one["size_bytes"] / (1 << 20), one["raw_mib_per_s"]), raw_write_us=one["raw_write_us"],
                  rss_mib=max(run["rss_mib"] for run in runs), lost=sum(run["lost"] for run in runs), received=runs[0]["sent"])


# ------------------------------------------------------------------------------------------------ acknowledge

def record_bare(stores, rate):
    """Times from when messages are due until bare writes have them on the disk, while a transmitter sends as many."""
    sender = stores.transmitter(stores.o.size[0])
    sender.tell("send", rate=rate, duration=stores.o.duration + WARM_S, round=1)
    time.sleep(WARM_S)
    raw = stores.raw("disk")
    raw.record(stores.o.duration, stores.o.size[0], rate, stores.o.wait)
    _, times = raw.hear()
    sender.hear()
    stores.bench.processes.finish(sender)
    return times


def acknowledge(stores, level):
    """All rates at a level; level None: the hop to an ordinary receiver, and bare writes."""
    o = stores.o
    directory = stores.places["disk"].new() if level else None
    end = stores.store(directory, level, mib_max=o.mib)[0] if level else stores.receiver(measured=list(range(len(o.rate))))
    assured = {"level": "assured", "by": 0, "names": NAME, "unacknowledged": 1 << 16} if level else {}
    sender = stores.transmitter(o.size[0], **assured)
    sender.ask("await")
    if level:
        recycle(stores, sender, end)
        end.ask("prepared")
    rates = []
    for phase, rate in enumerate(o.rate):
        sender.ask("send", rate=rate, duration=WARM_S, round=1, drain=WARM_S)
        rates.append(sender.ask("send", rate=rate, duration=o.duration, phase=phase, drain=WARM_S, acknowledged=bool(level)))
    stores.machine = sender.ask("stats")["machine"]
    if level:
        settled, times = stores.end_store(sender, end), [Histogram(one["acknowledged"]) for one in rates]
        track = stores.check(directory)
        return {"rates": rates, "times": times, "settled": settled, "track": {**track, "lost": track["lost"] + settled["lost"]}}
    track = stores.end(sender, end)["receivers"][0]
    return {"times": [Histogram(one) for one in track["rounds"][0]], "track": track,
            "write": stores.raw("disk").write(o.duration, size=PAGE, depth=1)[1], "bare": [record_bare(stores, rate) for rate in o.rate]}


def acknowledge_rows(stores):
    o = stores.o
    found = stores.bench.turns([(level,) for level in (*o.level, None)], lambda _bench, _run, level: acknowledge(stores, level),
                               f"acknowledgements, {o.duration:g} s at each rate")
    stores.close_raws()
    compared = found[None,]
    write = medians(run["write"].summary() for run in compared)
    for level in o.level:
        runs = found[level,]
        for at, rate in enumerate(o.rate):
            times = medians((run["times"][at].summary() for run in runs), LATENCY)
            hop = medians(run["times"][at].summary() for run in compared)
            bare = medians(run["bare"][at].summary() for run in compared)
            yield row("acknowledge", level, runs[0]["settled"], size_bytes=o.size[0], rate_msgs_per_s=rate,
                      msgs_per_s=median(run["rates"][at]["msgs_per_s"] for run in runs), latency_us=times, raw_write_us=write,
                      ratio_to_raw=ratio(times["median"], write["median"]), raw_record_us=bare, ratio_to_raw_record=ratio(times["median"], bare["median"]), compared_us=hop,
                      bound_us=write["median"] + 3 * hop["median"] if hop["median"] else None,
                      rss_mib=max(run["settled"]["rss_mib"] for run in runs), **exact(*(run["track"] for run in runs)))


def acknowledge_archive(stores, level):
    o = stores.o
    run = archive.ArchiveRun(stores, "disk", level, o.size[0])
    # Until its code is compiled.
    run.send(o.rate[-1], 2 * o.duration)
    found = [run.send(rate, o.duration) for rate in o.rate]
    return {"rates": found, "rss_mib": run.close()}


def acknowledge_archive_rows(stores, acknowledge):
    o = stores.o
    levels = [level for level in o.level if level in archive.SYNC]
    found = stores.bench.turns([(level,) for level in levels], lambda _bench, _run, level: acknowledge_archive(stores, level),
                               f"acknowledgements of Aeron's archive, {o.duration:g} s at each rate")
    for level in levels:
        runs = found[level,]
        for at, rate in enumerate(o.rate):
            times = medians((run["rates"][at]["times"].summary() for run in runs), LATENCY)
            write = acknowledge[0]["raw_write_us"]
            yield row("acknowledge", level, AERON, size_bytes=o.size[0], rate_msgs_per_s=rate,
                      msgs_per_s=median(run["rates"][at]["msgs_per_s"] for run in runs), latency_us=times, raw_write_us=write,
                      ratio_to_raw=ratio(times["median"], write["median"]), rss_mib=max(run["rss_mib"] for run in runs),
                      lost=sum(run["rates"][at]["lost"] for run in runs), received=runs[0]["rates"][at]["sent"])


# ----------------------------------------------------------------------------------------------------- others

OTHERS = ("store", "receiver", "writes")


def others(stores, what, rate):
    """The hop beside the store, a receiver in its place, or a receiver and writes as those of the last store at this rate."""
    o = stores.o
    directory = stores.places["disk"].new() if what == "store" else None
    end = stores.store(directory, o.level[0], low=True, mib_max=o.mib)[0] if directory else stores.receiver(low=True)
    disk = stores.raw("disk", low=True) if what == "writes" else None
    sender = stores.transmitter(o.size[0])
    if directory:
        sender.ask("await")
        recycle(stores, sender, end)
        end.ask("prepared")
    reference = stores.reference()
    sender.ask("await", receivers=2)
    sender.ask("send", rate=rate, duration=WARM_S, round=1)
    before = end.ask("stats") if directory else None
    if disk:
        disk.record(o.duration, **stores.writes[rate])
    sender.ask("send", rate=rate, duration=o.duration)
    tracks, settled = [], None
    if disk:
        disk.hear()
    if directory:
        stores.writes[rate] = writes_between(before, end.ask("stats"))
    stores.machine = sender.ask("stats")["machine"]
    sender.popen.stdin.close()
    if directory:
        settled = end.ask("recorded")
        stores.bench.processes.finish(end)
        tracks = [stores.check(directory)]
    served = stores.bench.processes.serve(sender, reference, *([] if directory else [end]))
    hop = served["reference"]["receivers"][0]
    return {"hop": Histogram(hop["rounds"][0][0]), "tracks": [hop, *tracks], "settled": settled}


def writes_between(before, after):
    """Size and rate of bare writes like those of a store between two answers."""
    count, written = (after[name] - before[name] for name in ("store_blocks", "store_block_bytes"))
    return {"size": max(1, -(-written // (max(count, 1) * PAGE))) * PAGE, "rate": 1 + count * 1000000000 // (after["at"] - before["at"])}


def others_rows(stores):
    o = stores.o
    cases = [(what, rate, again) for again in range(1 if o.quick else 3) for rate in o.rate[-2:] for what in OTHERS]
    found = stores.bench.turns(cases, lambda _bench, _run, what, rate, _again: others(stores, what, rate),
                               f"the hop of another receiver, {o.duration:g} s of each")
    stores.close_raws()
    for rate in o.rate[-2:]:
        runs, compared, besides = ([one for case, some in found.items() if case[:2] == (what, rate) for one in some] for what in OTHERS)
        times, hop, beside = (medians((run["hop"].summary() for run in some), LATENCY) for some in (runs, compared, besides))
        yield row("others", o.level[0], runs[0]["settled"], size_bytes=o.size[0], rate_msgs_per_s=rate, latency_us=times,
                  compared_us={name: hop[name] for name in ("median", "p99")},
                  ratio_to_compared=ratio(times["median"], hop["median"]), p99_ratio_to_compared=ratio(times["p99"], hop["p99"]),
                  beside_writes_us=beside, ratio_to_writes=ratio(times["median"], beside["median"]),
                  rss_mib=max(run["settled"]["rss_mib"] for run in runs),
                  **exact(*(track for run in (*runs, *compared, *besides) for track in run["tracks"])))


# ------------------------------------------------------------------------------------------------------ start

def start(stores, segments):
    """Kills a store in mid-write, adds segments, and opens it again, while the transmitter goes on."""
    o, bench = stores.o, stores.bench
    directory = stores.places["disk"].new()
    store, _ = stores.store(directory, o.level[0], segment=stores.start_mib, spares=1)
    sender = stores.transmitter(o.size[0])
    sender.ask("await")
    sender.ask("send", rate=0, duration=FILL_S, round=1)
    sender.tell("send", rate=min(o.rate[-1], START_RATE), open=1)
    time.sleep(FILL_S)
    bench.processes.end(store, number=signal.SIGKILL)
    session = next(path.name for path in directory.iterdir() if len(path.name) == 16)
    subprocess.run([bench.programs / "segments", directory, str(segments), str(stores.start_mib << 20)], check=True)
    store, opened = stores.store(directory, o.level[0], ready=False, segment=stores.start_mib, spares=1)
    first = store.ask("first")
    time.sleep(FILL_S)
    sender.ask("stop")
    stores.machine = sender.ask("stats")["machine"]
    settled = stores.end_store(sender, store)
    track = stores.check(directory, session)
    return {"open_us": opened["open_ns"] / 1e3, "first_us": (first["at"] - first["opened_at"]) / 1e3, "settled": settled,
            "track": {**track, "lost": track["lost"] + settled["lost"]}}


def start_rows(stores):
    o = stores.o
    found = stores.bench.turns([(segments,) for segments in o.segments], lambda _bench, _run, segments: start(stores, segments),
                               "stores that are killed and opened again")
    for (segments,), runs in found.items():
        firsts = [run["first_us"] for run in runs]
        yield row("start", o.level[0], runs[0]["settled"], size_bytes=o.size[0], segments=segments,
                  latency_us={"median": median(firsts), "p99": max(firsts), "max": max(firsts)}, open_us=median(run["open_us"] for run in runs),
                  rss_mib=max(run["settled"]["rss_mib"] for run in runs), **exact(*(run["track"] for run in runs)))


# ---------------------------------------------------------------------------------------------- replay and join

def fill(stores, sender, messages):
    """Records messages, which the transmitter then no longer has."""
    for _ in range(1000):
        if sender.ask("send", rate=0, duration=FILL_S, round=1) and sender.ask("stats")["sent"] >= messages:
            return


def replay(stores):
    """The rate of a replay, that of the same stream when it was live, and the hop of a live receiver without and with a replay."""
    o, bench = stores.o, stores.bench
    directory = stores.places["disk"].new()
    store, _ = stores.store(directory, o.level[0])
    sender = stores.transmitter(o.size[0])
    sender.ask("await")
    fill(stores, sender, o.past)
    settled = stores.end_store(sender, store)
    receiver, sender = stores.receiver(), stores.transmitter(o.size[0])
    sender.ask("await")
    sender.ask("send", rate=0, duration=WARM_S, round=1)
    live = sender.ask("send", rate=0, duration=o.duration, round=1)["msgs_per_s"]
    tracks = [stores.end(sender, receiver)["receivers"][0]]
    reader = stores.program(bench.hosts.b, "replay", True, cpu=o.cpus[3], directory=directory)
    reader.hear()
    read_mib, _ = stores.raw("disk").read(o.duration)
    reader.ask("replay")
    found = [reader.ask("replay", duration=o.duration, cached=cached) for cached in CACHED]
    reference, sender = stores.reference(phases=1 + len(CACHED)), stores.transmitter(o.size[0])
    sender.ask("await")
    tracks += found
    for phase, cached in enumerate((None, *CACHED)):
        if phase:
            reader.tell("replay", duration=o.duration + 2 * WARM_S, cached=cached)
        sender.ask("send", rate=LIVE_RATE, duration=WARM_S, round=1)
        sender.ask("send", rate=LIVE_RATE, duration=o.duration, phase=phase)
        if phase:
            tracks.append(reader.hear())
    bench.processes.finish(reader)
    stores.machine = sender.ask("stats")["machine"]
    tracks.append(stores.end(sender, reference)["receivers"][0])
    shutil.rmtree(directory)
    return {"msgs_per_s": [one["msgs_per_s"] for one in found], "live": live, "read_mib": read_mib, "tracks": tracks, "settled": settled,
            "hops": [Histogram(one) for one in tracks[-1]["rounds"][0]], "rss_mib": max(one["rss_mib"] for one in found)}


def replay_rows(stores):
    o = stores.o
    runs = stores.bench.turns([()], lambda _bench, _run: replay(stores), f"replay of {o.past} messages, for {o.duration:g} s")[()]
    stores.close_raws()
    live, read = median(run["live"] for run in runs), median(run["read_mib"] for run in runs)
    alone, *meanwhile = (medians((run["hops"][at].summary() for run in runs), LATENCY) for at in range(1 + len(CACHED)))
    for at, cached in enumerate(CACHED):
        rate, hop = median(run["msgs_per_s"][at] for run in runs), meanwhile[at]
        mib = rate * o.size[0] / (1 << 20)
        yield row("replay", o.level[0], runs[0]["settled"], size_bytes=o.size[0], cached=bool(cached), msgs_per_s=rate, compared_msgs_per_s=live,
                  ratio_to_compared=ratio(rate, live), mib_per_s=mib, raw_mib_per_s=read, ratio_to_raw=ratio(mib, read), latency_us=hop,
                  compared_us={name: alone[name] for name in ("median", "p99")}, p99_ratio_to_compared=ratio(hop["p99"], alone["p99"]),
                  rss_mib=max(run["rss_mib"] for run in runs), **exact(*(track for run in runs for track in run["tracks"])))


def grouped():
    """Whether the scheduler groups processes by session: then one of the lowest priority may wait for minutes."""
    groups = pathlib.Path("/proc/sys/kernel/sched_autogroup_enabled")
    return groups.exists() and groups.read_text(encoding="ascii").strip() == "1"


def join(stores):
    o, bench = stores.o, stores.bench
    directory = stores.places["disk"].new()
    store, _ = stores.store(directory, o.level[0])
    reference = stores.reference(phases=2)
    sender = stores.transmitter(o.size[0], f"history_packets={HISTORY}")
    sender.ask("await", receivers=2)
    fill(stores, sender, o.past)
    joiners = bench.start(bench.hosts.b, "joiners", idle=stores.shared and not grouped(), cpu=o.cpus[3], joiners=o.joiners, duration=o.duration, stay=100,
                          channel=bench.channel(bench.hosts.b, "join=oldest", "sessions_max=1"))
    rates = [sender.ask("send", rate=LIVE_RATE, duration=o.duration)]
    joiners.tell("begin")
    deadline = time.monotonic() + o.duration + JOIN_S
    while not joiners.said and not joiners.ended and time.monotonic() < deadline:
        rates.append(sender.ask("send", rate=LIVE_RATE, duration=FILL_S, phase=1))
    stores.machine = sender.ask("stats")["machine"]
    joiners.popen.stdin.close()
    each = bench.processes.serve(joiners)["joiners"]
    sender.popen.stdin.close()
    settled = store.ask("recorded")
    bench.processes.finish(store)
    hop = bench.processes.serve(sender, reference)["reference"]["receivers"][0]
    track = stores.check(directory)
    return {"each": each["each"], "past_ns": each["past_ns"], "hops": [Histogram(one) for one in hop["rounds"][0]], "settled": settled,
            "tracks": [hop, track, *each["each"]]}


def join_rows(stores):
    o = stores.o
    runs = stores.bench.turns([()], lambda _bench, _run: join(stores), f"{o.joiners} receivers that join {o.past} messages back")[()]
    each = [one for run in runs for one in run["each"]]
    live = sorted(one["until_live_ns"] / 1e3 for one in each if one["until_live_ns"])
    before, during = (medians((run["hops"][at].summary() for run in runs), LATENCY) for at in range(2))
    stores.absent += len(each) - len(live) + sum(o.joiners - len(run["each"]) for run in runs)
    yield row("join", o.level[0], runs[0]["settled"], size_bytes=o.size[0], rate_msgs_per_s=LIVE_RATE,
              msgs_per_s=median(sum(one["past"] for one in run["each"]) * 1e9 / max(run["past_ns"], 1) for run in runs),
              latency_us={"median": median(live), "p99": live[-(-len(live) * 99 // 100) - 1] if live else None, "max": max(live, default=None)},
              compared_us={name: before[name] for name in ("median", "p99")}, during_us={name: during[name] for name in ("median", "p99")},
              p99_ratio_to_compared=ratio(during["p99"], before["p99"]), rss_mib=max(run["settled"]["rss_mib"] for run in runs),
              **exact(*(track for run in runs for track in run["tracks"])))


# ------------------------------------------------------------------------------------------------------ report

def exact(*tracks):
    return {"lost": sum(one["lost"] + one["unsaid"] + one["changed"] for one in tracks), "twice": sum(one["duplicated"] for one in tracks),
            "received": sum(one["received"] for one in tracks)}


AERON = {"engine": "aeron", "direct": False}


def row(case, level, settled, **fields):
    """A row of the JSON. Fields that do not apply are None. settled: the last answer of the store."""
    return {"case": case, "engine": settled["engine"], "direct": bool(settled["direct"]), "level": level, "file_system": "disk",
            "size_bytes": None, "rate_msgs_per_s": None, "msgs_per_s": None, "mib_per_s": None, "raw_mib_per_s": None,
            "raw_busy_mib_per_s": None, "ratio_to_raw_busy": None, "latency_us": dict.fromkeys(LATENCY),
            "raw_write_us": dict.fromkeys(("median", "p99")), "ratio_to_raw": None, "raw_record_us": dict.fromkeys(("median", "p99")),
            "ratio_to_raw_record": None, "lost": 0, "twice": 0, "rss_mib": None, "received": 0, "segments": None, "open_us": None, "bound_us": None,
            "compared_msgs_per_s": None, "compared_us": dict.fromkeys(("median", "p99")), "during_us": dict.fromkeys(("median", "p99")),
            "ratio_to_compared": None, "p99_ratio_to_compared": None, "beside_writes_us": dict.fromkeys(LATENCY), "ratio_to_writes": None,
            "cached": None, "bytes_ratio": None, "block_bytes": None, "write_us_max": None,
            "stalls": None, **fields}


ENDS = (("", "lost", "lost", 0), ("", "twice", "twice", 0), ("MiB", "resident", "rss_mib", 0))
TABLES = {
    "record": ("flat out; the same stream to a receiver without a store; bare durable writes of full blocks",
               (("", "engine", "engine", None), ("", "on", "file_system", None), ("", "size", "size_bytes", 0), ("", "msg/s", "msgs_per_s", 0),
                ("receiver", "msg/s", "compared_msgs_per_s", 0), ("", "ratio", "ratio_to_compared", 2), ("written", "MiB/s", "mib_per_s", 0),
                ("bare", "MiB/s", "raw_mib_per_s", 0), ("", "ratio", "ratio_to_raw", 2),
                ("busy", "MiB/s", "raw_busy_mib_per_s", 0), ("", "ratio", "ratio_to_raw_busy", 2), ("disk per", "packets", "bytes_ratio", 3),
                ("block", "KiB", lambda one: one["block_bytes"] and number(one["block_bytes"] / 1024), None), ("", "stalls", "stalls", 0),
                ("slowest", "write us", "write_us_max", 0), *ENDS)),
    "acknowledge": ("until the transmitter's application knows that the store has a message; a bare durable write of 4 KiB; "
                    "from due until bare writes have it on the disk; the hop to an ordinary receiver", (
                        ("", "engine", "engine", None), ("", "level", "level", None), ("", "msg/s", "rate_msgs_per_s", 0), ("", "reached", "msgs_per_s", 0),
                        *columns_of(("us",), LATENCY, "latency_us.{}", 1), *columns_of(("bare us",), ("median", "p99"), "raw_write_us.{}", 1),
                        ("", "ratio", "ratio_to_raw", 2), *columns_of(("recorded us",), ("median", "p99"), "raw_record_us.{}", 1),
                        ("", "ratio", "ratio_to_raw_record", 2), *columns_of(("hop us",), ("median", "p99"), "compared_us.{}", 1),
                        ("bare +", "3 hops", "bound_us", 1), *ENDS)),
    "others": ("hop of a reference receiver while the store records, with an ordinary receiver in its place, and with bare writes like the "
               "store's beside that one", (
        ("", "level", "level", None), ("", "msg/s", "rate_msgs_per_s", 0), *columns_of(("store us",), LATENCY, "latency_us.{}", 1),
        *columns_of(("receiver",), ("median", "p99"), "compared_us.{}", 1), ("ratio", "median", "ratio_to_compared", 2),
        ("", "p99", "p99_ratio_to_compared", 2), *columns_of(("+ writes",), ("median", "p99"), "beside_writes_us.{}", 1),
        ("", "ratio", "ratio_to_writes", 2), *ENDS)),
    "start": (f"after a kill, with so many additional segments of {{start}} MiB: llm_store_open(), and until messages are on the disk again", (
        ("", "segments", "segments", None), ("open", "us", "open_us", 0), *columns_of(("recording us",), ("median", "max"), "latency_us.{}", 0),
        *ENDS)),
    "replay": ("llm_replay_next(), the same stream live, and bare reads; hop of a receiver while nothing is replayed, and meanwhile", (
        ("", "size", "size_bytes", None), ("", "from", lambda one: "memory" if one["cached"] else "disk", None),
        ("replay", "msg/s", "msgs_per_s", 0), ("live", "msg/s", "compared_msgs_per_s", 0), ("", "ratio", "ratio_to_compared", 2),
        ("replay", "MiB/s", "mib_per_s", 0), ("bare", "MiB/s", "raw_mib_per_s", 0), ("", "ratio", "ratio_to_raw", 2), *columns_of(("hop us",), ("median", "p99"), "compared_us.{}", 1),
        *columns_of(("meanwhile",), ("median", "p99"), "latency_us.{}", 1), ("p99", "ratio", "p99_ratio_to_compared", 2), *ENDS)),
    "join": ("until a receiver with join=oldest is live, and messages from the store to all of them; hop of the reference receiver before, "
             "and meanwhile", (
                 ("", "size", "size_bytes", None), ("past", "msg/s", "msgs_per_s", 0), *columns_of(("live us",), LATENCY, "latency_us.{}", 0),
                 *columns_of(("hop us",), ("median", "p99"), "compared_us.{}", 1),
                 *columns_of(("meanwhile",), ("median", "p99"), "during_us.{}", 1), ("p99", "ratio", "p99_ratio_to_compared", 2), *ENDS)),
}
MEASURES = {"record": record_rows, "acknowledge": acknowledge_rows, "others": others_rows, "start": start_rows, "replay": replay_rows,
            "join": join_rows}
PEERS = {"record": record_archive_rows, "acknowledge": acknowledge_archive_rows}


def quick(o):
    o.duration, o.runs, o.mib, o.joiners, o.past = min(o.duration, 0.2), 1, min(o.mib, 256), min(o.joiners, 4), min(o.past, 20000)
    o.segments, o.rate = o.segments[:2], [rate for rate in o.rate if rate <= 10000] or o.rate[:1]


def run(bench):
    o = bench.o
    if o.quick:
        quick(o)
    bench.count_all()
    bench.prepare()
    stores, rows = Stores(bench), []
    for name in {"disk", *o.place}:
        needed, free = 2 * o.mib + (0 if o.quick else NEEDED_MIB) + RESERVE_MIB, stores.places[name].free_mib()
        if free < needed:
            fail(f"bench/run store: {stores.places[name].path}: {free} MiB are free: {needed} are needed", 2)
    peer = o.peer == "aeron" and not o.quick and archive.available()
    for case in CASES:
        if case in o.case:
            found = list(MEASURES[case](stores))
            rows += found
            if peer and case in PEERS:
                rows += PEERS[case](stores, found)
    report = Report(bench)
    report.write_json(stores.machine, rows)
    report.head(stores.machine, f"{o.duration:g} s each, medians of {o.runs} runs; disk: {stores.places['disk'].path.parent}, "
                f"{kind_of(stores.places['disk'].path)}; engine: {rows[0]['engine']};", "CPUs of the transmitter, the store, the reference "
                f"receiver and the rest: {','.join(map(str, o.cpus))}")
    for case in o.case:
        some = [one for one in rows if one["case"] == case]
        report.print("", f"{case}: {TABLES[case][0].format(start=stores.start_mib)}", "")
        report.rows(TABLES[case][1], some)
    for one in rows:
        if one["lost"] or one["twice"]:
            report.fail(f"{one['case']}: {one['lost']} messages were lost or changed, {one['twice']} came twice")
    if stores.absent:
        report.fail(f"join: {stores.absent} receivers were never live")
    if "acknowledge" in o.case:
        plots.acknowledged(o.plot or bench.results / "store.svg", [one for one in rows if one["case"] == "acknowledge"])
    return report.finish()


def kind_of(path):
    return subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=False).stdout.strip()
