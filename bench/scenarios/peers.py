# SPDX-License-Identifier: Apache-2.0
"""hop and throughput of other libraries compared with libllm

Measures libllm and other messaging libraries in the same way: the same work, between the same two hosts (network namespaces), one CPU core
for each end, in turn, with bare UDP multicast as reference; or between two processes of this host, over shared memory. Runs both works,
unless one is named.

  reflector     one-way latency (a hop): half of the round trip, from the time a message was due
  throughput    highest lossless rate in one direction

As root it installs missing packages; a peer that is unavailable or fails to build is omitted, and the reason printed.

  raw, packed   bare UDP multicast, one message in a datagram; messages packed, and datagrams segmented by the kernel.
                In shared memory: a bare ring, one message in a slot; messages packed
  libllm        default options; throughput with flow=window, and in shared memory with history_bytes=6M
  aeron         Aeron 1.54: driver and client from the crate libaeron_driver-sys, built by CMake 3.30 or newer; terms of 16 MiB, in
                shared memory of 256 KiB, or of 4 MiB if throughput reads messages, which gives the best figures
  cyclonedds    CycloneDDS, reliable multicast (packages cyclonedds-dev, cyclonedds-tools)
  norm          NORM stream (package libnorm-dev)
  zmq-tcp, zmq-epgm, zmq-norm
                ZeroMQ over TCP, PGM in UDP, and NORM (package libzmq3-dev); zmq-norm only if named, since its congestion
                control cannot be disabled there and permits only 2,000 messages a second
  iceoryx2      iceoryx2 0.10 from its crate, shared memory only, built by cargo with rustc 1.89 or newer (else that of the packages
                cargo-web and rustc-web) and clang
  zmq-ipc       ZeroMQ over a local socket, in the shared-memory comparison; it has no transport in shared memory

The ends of a library with its own threads share one core with them, which is harder for it than for a library without threads.
"""
import glob
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request

from runner import options as opt
from runner.bare import place
from runner.histogram import Histogram
from runner import rates
from runner.session import (BIND, BUILT, PACKAGES, RELEASE, ROOT, SCRATCH, Failed, Hosts, Processes, allowed_cpus, build, cores_ns, fail,
                            memory_directory, packages, request, say, settle)
from runner.tables import Report, median

KNOWN = {"udp": ("raw", "packed", "libllm", "aeron", "cyclonedds", "norm", "zmq-tcp", "zmq-epgm", "zmq-norm"),
         "shm": ("raw", "packed", "libllm", "aeron", "iceoryx2", "zmq-ipc")}
BASE = "libllm"
ALONE = {"raw", "packed", "libllm", "aeron", "iceoryx2"}  # peers with one thread at each end
WAIT_SHARE = 0.2  # share of the duration
WARMUP_S = 0.3
WORKS = {
    "reflector": ("median_us", "a hop in µs, median / p99, or the rate reached* if it is below the requested one;\n"
                               "under it the ratio of the medians to libllm's: above 1 is slower"),
    "throughput": ("msgs_per_s", "thousand messages a second (Gbit/s of the application);\n"
                                 "under it the ratio to libllm's: below 1 is slower"),
}
OPTIONS = (opt.Word("work", tuple(WORKS), "the only work to run (both)"),
           opt.choice("transport", "udp", KNOWN, "udp: all of the above but the last two; shm: the first three rows and the last two"),
           # At most one datagram, as the bare transport sends one for each message.
           opt.numbers("size", None, 8, 1400, "bytes of a message (reflector: 45,128,512; throughput: 45,100,1000)"),
           opt.numbers("rate", "10000,100000,1000000", 0, 100000000,
                       "messages a second, reflector only; 0: ping-pong, one message outstanding"),
           opt.seconds("duration", 2, 100, 999000, "of each measurement"),
           opt.choice("read", "header", ("header", "all"),
                      "part of each message that the receiving end reads. In shared memory unread cache lines stay with the writer, and "
                      "libraries that do not copy then reach rates that no program which reads its messages has"),
           opt.number("runs", 3, 1, 99, "rounds, in each of which every peer takes its turn; medians are reported"),
           opt.words("peers", None, {*KNOWN["udp"], *KNOWN["shm"]}, "only these of the above (all of the transport but zmq-norm)"),
           *opt.OUTPUT, opt.cpus(None, 2, "the CPU of each end (the first and the last)"),
           opt.choice("hosts", None, ("netns", "userns"), "the kind of hosts (the first that works)"))

ABOUT = ("round", "cores_ns")  # fields of a measurement that are not figures of a peer
WORST = ("lost", "disordered", "waited_ms", "tries")
BUILD = ROOT / "build/peers"
AERON = BUILD / "aeron"
AERON_CRATE = "libaeron_driver-sys-1.54.0"
AERON_SUM = "b2719da7d2dc8c05cc8368d83b09a216872080c1d8bed252066fcb47f3f4f00f"
ICEORYX2 = BUILD / "iceoryx2"
ICEORYX2_RUST = (1, 89)


def version_of(program):
    """Version as numbers; (0,) if the program is missing."""
    if not shutil.which(program):
        return (0,)
    found = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(map(int, (re.search(r"\d+(\.\d+)+", found) or re.search("0", "0")).group().split(".")))


def aeron_fetch():
    """Fetches the C driver, which includes the client, from the crate's sources; the checksum identifies the measured version."""
    name, version = AERON_CRATE.rsplit("-", 1)
    with urllib.request.urlopen(f"https://static.crates.io/crates/{name}/{name}-{version}.crate") as answer:
        data = answer.read()
    if hashlib.sha256(data).hexdigest() != AERON_SUM:
        raise OSError(f"{AERON_CRATE}: not the expected file")
    file = AERON / "crate"
    file.write_bytes(data)
    with tarfile.open(file) as archive:
        archive.extractall(AERON)
    (AERON / AERON_CRATE / "aeron").rename(AERON / "src")
    shutil.rmtree(AERON / AERON_CRATE)
    file.unlink()


def aeron_make(log):
    """Builds with a recent CMake: the system's, else one from PyPI next to the build."""
    cmake, environment = "cmake", dict(os.environ)
    if not (AERON / "src").is_dir():
        aeron_fetch()
    if version_of("cmake") < (3, 30):
        cmake = AERON / "cmake/bin/cmake"
        environment["PYTHONPATH"] = str(AERON / "cmake")
        if not cmake.exists():
            subprocess.run(["python3", "-m", "pip", "install", "-q", "--target", AERON / "cmake", "cmake>=3.30,<4"], stdout=log, stderr=log,
                           check=True)
    off = ("BUILD_AERON_ARCHIVE_API", "AERON_TESTS", "AERON_BUILD_SAMPLES", "AERON_BUILD_DOCUMENTATION")
    for words in (["-S", AERON / "src", "-B", AERON / "out", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_AERON_DRIVER=ON",
                   *(f"-D{name}=OFF" for name in off)],
                  ["--build", AERON / "out", "-j", str(os.cpu_count()), "--target", "aeron_driver_static"]):
        subprocess.run([cmake, *words], stdout=log, stderr=log, env=environment, check=True)


def iceoryx2_make(log):
    """cargo would leave a file next to the source."""
    for file in (ROOT / "bench/adapters/iceoryx2").iterdir():
        shutil.copy2(file, ICEORYX2)
    subprocess.run(["cargo", "build", "--release", "--manifest-path", ICEORYX2 / "Cargo.toml"], stdout=log, stderr=log,
                   env={**os.environ, "CARGO_TARGET_DIR": str(ICEORYX2)}, check=True)


class Peers:
    """The peers that are requested and available."""

    def __init__(self, o, kind="peer"):
        """kind: of the programs, peer or, on topics, feed."""
        self.kind, self.names = kind, list(o.peers)
        self.libraries, self.skipped = [], []
        self.directory = BUILD

    def skip(self, names, why):
        self.skipped.append(f"{names}: {why}")
        say(f"without {names}: {why}")

    def get(self, library, names, *needs):
        """Adds the library to the build if one of its peers is requested and its packages are available."""
        if not set(names.split()) & set(self.names):
            return False
        status, why = request("packages", *needs)
        if status:
            self.skip(names, why)
        else:
            self.libraries.append(library)
        return not status

    def make(self, library, directory, how, why):
        """Fetches and builds a library without a package."""
        directory.mkdir(parents=True, exist_ok=True)
        log = SCRATCH / "make.log"
        say(f"building {library} in {directory}, which takes a minute or two the first time")
        try:
            with open(log, "wb") as file:
                how(file)
        except (OSError, subprocess.CalledProcessError) as error:
            say(*log.read_text(errors="replace").splitlines()[-20:], str(error))
            self.libraries.remove(library)
            self.skip(library, why)

    def get_all(self):
        self.get("zmq", "zmq-tcp zmq-epgm zmq-norm zmq-ipc", "libzmq3-dev")
        self.get("norm", "norm", "libnorm-dev", "g++")
        self.get("dds", "cyclonedds", "cyclonedds-dev", "cyclonedds-tools")
        made = (AERON / "out/lib/libaeron_driver_static.a").exists()
        needs = () if made else ("ca-certificates", "g++", "make", "uuid-dev", "libbsd-dev", "python3", "python3-pip")
        if self.get("aeron", "aeron", *needs) and not made:
            self.make("aeron", AERON, aeron_make, "its driver could not be fetched or built; the reason is above")
        new = version_of("rustc") >= ICEORYX2_RUST and shutil.which("cargo")
        if self.get("iceoryx2", "iceoryx2", "clang", *(() if new else ("cargo-web", "rustc-web", "ca-certificates"))):
            self.make("iceoryx2", ICEORYX2, iceoryx2_make,
                      "it could not be fetched or built (rustc has to be 1.89 or newer); the reason is above")

    def program(self, name):
        library = {"raw": "llm", "packed": "llm", "libllm": "llm", "cyclonedds": "dds"}.get(name, name.split("-")[0])
        own = "peer_llm" if library == "llm" else f"{self.kind}_{library}"
        return self.directory / f"bench/{own}" if library in ("llm", *self.libraries) else None

    def build(self):
        # Without other libraries a build that is there already will do.
        if not self.libraries and BUILT:
            self.directory = RELEASE
        build(self.directory, "-Dtests=false", "-Dexamples=false", f"-Dpeers={','.join(self.libraries)}", f"-Daeron={AERON}",
              f"-Diceoryx2={ICEORYX2}/release")
        for library in ("llm", *self.libraries):
            program = f"bench/{'peer' if library == 'llm' else self.kind}_{library}"
            done = subprocess.run([*BIND, "ninja", "-C", self.directory, program], capture_output=True, text=True, check=False)
            if done.returncode:
                lines = done.stdout.splitlines()
                say("\n".join([line for line in lines if re.search("error|undefined", line)][:5] or lines[-5:]))
                self.skip(library, "it does not compile here; the reason is above")
                (self.directory / program).unlink(missing_ok=True)
        self.names = [name for name in self.names if self.program(name) and self.program(name).exists()]
        if not self.names:
            fail("no requested peer could be built")


def hop(near, far, duration, size, rate, packed):
    far.ask("echo", size=size, packed=packed)
    sent = near.ask("hop", size=size, rate=rate, duration=duration, warmup=WARMUP_S, packed=packed, mode="paced" if rate else "pingpong")
    came = far.ask("end", sent=sent["sent"])
    back = near.ask("returned", count=came["reflected"])
    times = Histogram(back["rtt"])
    return sent, came, {**{f"{name}_us": times.summary(2)[name] or 0 for name in ("median", "mean", "p99", "p99_9", "max")},
                        "samples": len(times), "reached": rate if rate and sent["whole"] else sent["reached"],
                        "lost": came["lost"] + max(came["reflected"] - back["returned"], 0), "near_mib": back["mib"]}


def find_rate(near, far, duration, size, _, packed):
    # A library that stalled has delivered its few messages in no time.
    tries, sent, came, rate = rates.find(near, far, size, duration * 1e9, duration=duration, warmup=WARMUP_S, packed=packed)
    return sent, came, {"msgs_per_s": rate, "gbit_per_s": rate * size * 8 / 1e9, "tries": tries, "lost": came["lost"],
                        "near_mib": sent["mib"]}


class Rows:
    """Measures. The peers take turns within each row, so that drifts of the machine affect all of them."""

    def __init__(self, bench, peers):
        self.bench, self.o, self.peers, self.lines, self.machine = bench, bench.o, peers, [], {}
        # Files of a library are in memory, as a disk would distort the figures. Some of iceoryx2's are next to the directory, with its path
        # in their names.
        self.directory = pathlib.Path(memory_directory("libllm-peers-"))
        self.beside = "/dev/shm/" + str(self.directory)[1:].replace("/", "-")

    def clear(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        for file in glob.glob(f"{self.beside}*"):
            shutil.rmtree(file, ignore_errors=True) if os.path.isdir(file) else os.unlink(file)

    def place(self, work, peer, size, near):
        """Options of an end's command line about its channels."""
        o, common = self.o, self.directory / "common"
        host, other = (self.bench.hosts.a, self.bench.hosts.b)[::1 if near else -1]
        flow = "&flow=window" if work == "throughput" else ""
        if o.transport == "shm":
            channels = [f"shm://{name}?shm_directory={common}" for name in ("there", "back")]
            # In shared memory the default of 24 MiB exceeds the third cache and halves the rate at 1,000 B; the hop is the same.
            more = f"{flow}&history_bytes=6M" if flow else ""
            own = {"common": common}
        else:
            channels = [f"udp://239.192.7.{group}:{port}?interface={host.interface}" for group, port in ((1, 7101), (3, 7102))]
            more, own = flow, {"interface": host.interface, "address": host.address, "peer_address": other.address}
        send, receive = channels if near else channels[::-1]
        if peer == BASE:
            return {**own, "send": send + more, "receive": receive + more}
        if peer in ("raw", "packed"):
            slot = "" if o.transport == "udp" else f"&mtu={9000 // size * size if peer == 'packed' else size}"
            return {**own, "adapter": "raw", "raw_send": place(send + slot), "raw_receive": place(receive + slot)}
        return own

    def measure(self, work, peer, size, rate, cores):
        """Returns the result of one measurement, or its failure."""
        settle(self.o.duration)
        o, hosts, processes = self.o, self.bench.hosts, Processes()
        self.clear()
        (self.directory / "common").mkdir(parents=True)
        # A search for the lossless rate takes ten tries at most.
        command = ["timeout", "-k", "1", int(o.duration) * 12 + 60, self.peers.program(peer)]
        result = {"cores_ns": cores, "peer": peer, "work": work, "size": size, "rate": rate}
        with tempfile.TemporaryFile("w+") as wrong:
            far, near = (processes.start(host, role, command, role, stderr=wrong, work=work, variant=peer, size=size, rate=rate, read=o.read,
                                         cpu=cpu, directory=self.directory / role, **self.place(work, peer, size, role == "near"))
                         for host, role, cpu in ((hosts.b, "far", o.cpus[1]), (hosts.a, "near", o.cpus[0])))
            try:
                self.machine = near.hear()["machine"]
                far.hear()
                near.ask("greet", wait=15)
                sent, came, found = (hop if work == "reflector" else find_rate)(near, far, o.duration, size, rate, peer == "packed")
                found.update(sent=sent["sent"], disordered=came["disordered"], far_mib=came["mib"],
                             waited_ms=(sent["waited_ns"] + came["waited_ns"]) / 1e6)
                processes.finish(near)
                processes.finish(far)
                return {**result, **{key: float(value) for key, value in found.items()}}
            except Failed:
                wrong.seek(0)
                why = " ".join(wrong.read().splitlines()[:2])
                say(f"  {peer} failed at {size} B{f', {rate} msg/s' if work == 'reflector' else ''}: {why}")
                return {**result, "failed": 1.0}

    def row(self, at, work, size, rate):
        """Measures a row, again if the cores were moved: a hypervisor does so, and the transfer time of a cache line then changes by a
        large factor."""
        for attempt in range(5):
            cores, found = cores_ns(self.peers.program(BASE), self.o.cpus) or 0, {}
            say(f"round {at + 1} of {self.o.runs}, {work} at {size} B{f', {rate} msg/s' if work == 'reflector' else ''}; a cache line goes "
                f"from core to core in {cores or '?'} ns")
            for peer in self.peers.names:
                found[peer] = self.measure(work, peer, size, rate, cores)
                now = cores_ns(self.peers.program(BASE), self.o.cpus) or 0
                if attempt < 4 and now and cores and not 1 / 1.5 <= now / cores <= 1.5:
                    say(f"  the cores were moved: a line takes {now:g} ns now; the row is measured again")
                    break
            else:
                break
        self.lines += [{"round": float(at + 1), **found[peer]} for peer in self.peers.names]

    def all(self, works):
        for at in range(self.o.runs):
            for work in works:
                for size in self.o.size or ([45, 128, 512] if work == "reflector" else [45, 100, 1000]):
                    for rate in self.o.rate if work == "reflector" else [0]:
                        self.row(at, work, size, rate)


def combine(rounds):
    """Result of several rounds: medians, but the worst of losses and disturbances."""
    good = [one for one in rounds if not one.get("failed")]
    names = [name for name in good[0] if isinstance(good[0][name], float) and name not in ABOUT] if good else []
    return {**{name: (max if name in WORST else median)([one[name] for one in good]) for name in names}, "failed": len(rounds) - len(good)}


def rows_of(lines):
    """Returns [(work, size, rate, cores_ns, {peer: result})] in the order measured."""
    grouped = {}
    for one in lines:
        key = one["work"], one["size"], one["rate"] if one["work"] == "reflector" else 0
        grouped.setdefault(key, {}).setdefault(one["peer"], []).append(one)
    return [(*key, median(one["cores_ns"] for rounds in peers.values() for one in rounds),
             {peer: combine(rounds) for peer, rounds in peers.items()}) for key, peers in grouped.items()]


def unreached(result, rate):
    """True if the requested rate was not reached; the latency then shows queues only."""
    return bool(rate) and result.get("reached", rate) < rate * 0.999


def ratio(work, rate, result, base):
    key = WORKS[work][0]
    if not base or not base.get(key) or not result.get(key) or unreached(result, rate) or unreached(base, rate):
        return None
    return result[key] / base[key]


def short(value):
    """Rounds to three significant digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def figure(work, result, rate):
    """Text of a figure. ! marks lost messages, ~ failures in some rounds."""
    marks = ("!" if result.get("lost") or result.get("disordered") else "") + ("~" if result["failed"] else "")
    if WORKS[work][0] not in result:
        return "failed"
    if work == "throughput":
        return f"{short(result['msgs_per_s'] / 1000)} ({result['gbit_per_s']:.2f}){marks}"
    if unreached(result, rate):
        return f"{result['reached'] / 1000:,.0f} k/s*{marks}"
    return f"{short(result['median_us'])}/{short(result['p99_us'])}{marks}"


def print_table(report, work, table):
    peers = list(dict.fromkeys(peer for row in table for peer in row[4]))
    lines = []
    for _, size, rate, cores, results in table:
        pace = "" if work != "reflector" else f"{rate:,}" if rate else "ping-pong"
        ratios = [ratio(work, rate, results.get(peer, {}), results.get(BASE)) for peer in peers]
        lines += [[str(size), pace, short(cores) if cores else "?",
                   *(figure(work, results[peer], rate) if peer in results else "" for peer in peers)],
                  ["", "", "", *(f"{value:.2f}" if value else "" for value in ratios)]]
    report.print("", f"{work}: {WORKS[work][1]}", "")
    report.table([["size", "msg/s" if work == "reflector" else "", "cores ns", *peers]], lines)


def print_notes(report, table, duration):
    """Prints reasons to trust a figure less."""
    for work, size, rate, _, results in table:
        row = f"{work}, {size} B{f' at {rate:,} msg/s' if rate else ''}"
        for peer, result in results.items():
            if result.get("lost") or result.get("disordered"):
                report.print(f"! {row}: {peer} lost {result['lost']:,.0f} messages in its worst round, {result['disordered']:,.0f} came "
                             "out of order or twice")
            if result.get("tries", 1) > 1:
                report.print(f"  {row}: {peer} lost messages or stalled at full rate, and was slowed down; worst: step "
                             f"{result['tries'] - 1:.0f}")
            if result["failed"]:
                report.print(f"~ {row}: {peer} failed in {result['failed']} rounds")
        # Ends with one thread do not wait for threads of their own.
        waited = max((results[peer].get("waited_ms", 0) for peer in results if peer in ALONE), default=0)
        if waited > WAIT_SHARE * duration * 1000:
            report.print(f"  {row}: ends of one thread waited up to {waited:,.0f} ms for their cores; another program ran there")


def run(bench):
    o, shared = bench.o, bench.o.transport == "shm"
    known = KNOWN[o.transport]
    works = [o.work] if o.work else list(WORKS)
    if o.hosts and shared:
        o.refuse(f"--hosts {o.hosts}: with --transport shm there is one host")
    if o.size and min(o.size) < 24 and works != ["throughput"]:
        o.refuse(f"--size: {min(o.size)} is not between 24 and 1400")
    if unknown := [name for name in o.peers or () if name not in known]:
        o.refuse(f"--peers: over {o.transport} there is no {unknown[0]}; there are {', '.join(known)}")
    o.peers = [name for name in known if name in (o.peers or set(known) - {"zmq-norm"})]
    peers = Peers(o)
    packages(*PACKAGES)
    peers.get_all()
    peers.build()
    if shared and not o.json:
        bench.json = bench.results / "peers-shm.json"
    bench.hosts = Hosts("memory" if shared else o.hosts)
    if bench.hosts.kind == "loopback":
        fail("peers can be measured between network namespaces only")
    network = bench.hosts.network + ("; messages are read completely" if o.read == "all" else "")
    o.cpus = o.cpus or [allowed_cpus()[0], allowed_cpus()[-1]]
    if o.cpus[0] == o.cpus[1]:
        say(f"only CPU {o.cpus[0]} may be used: both ends share it, and the figures are meaningless")
    say(f"CPUs: {o.cpus[0]} and {o.cpus[1]}; peers: {', '.join(peers.names)}")
    rows = Rows(bench, peers)
    rows.all(works)
    rows.clear()
    table, machine = rows_of(rows.lines), {name: rows.machine.get(name) for name in ("cpu", "cores", "kernel")}
    report = Report(bench)
    report.print(f"machine   {machine['cpu']}, {machine['cores']} cores, {machine['kernel']}", f"network   {network}",
                 f"measured  {o.duration:g} s each; medians of {o.runs} rounds, the worst of lost")
    for work in works:
        print_table(report, work, [row for row in table if row[0] == work])
    report.print()
    print_notes(report, table, o.duration)
    for line in peers.skipped:
        report.print(f"without {line}")
    report.write({"benchmark": "peers", "machine": {**machine, "network": network}, "duration_s": o.duration, "skipped": peers.skipped,
                  "rows": [{"work": work, "size_bytes": size, **({"rate": rate} if work == "reflector" else {}), "core_to_core_ns": cores,
                            "peers": {peer: {**result, "ratio_to_libllm": ratio(work, rate, result, results.get(BASE))}
                                      for peer, result in results.items()}}
                           for work, size, rate, cores, results in table],
                  "measurements": rows.lines})
    return report.finish()
