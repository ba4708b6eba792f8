# SPDX-License-Identifier: Apache-2.0
"""Environment of a benchmark: packages, builds and hosts, which bench/run makes with tests/setup.sh, and processes on the hosts."""
import functools
import json
import os
import pathlib
import select
import shlex
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRATCH = pathlib.Path(os.environ["BENCH_SCRATCH"])
# BENCH_BUILD: a release build that is there already, of the tests or of the package llm-bench.
BUILT = os.environ.get("BENCH_BUILD")
RELEASE = pathlib.Path(BUILT) if BUILT else ROOT / "build/release"
BUILD_PACKAGES = () if BUILT else ("meson", "ninja-build", "gcc", "libc6-dev", "pkg-config", "libxxhash-dev")
PACKAGES = (*BUILD_PACKAGES, "iproute2", "util-linux")
# Processes on hosts end with the runner, even if that is killed.
BIND = ("setpriv", "--pdeathsig", "KILL", "--")
NETWORKS = {
    "netns": "veth between network namespaces, MTU 1500", "userns": "veth between unprivileged network namespaces, MTU 1500",
    "loopback": "loopback", "memory": "shared memory between two processes",
    "roce": "two soft-RoCE devices joined by veth, MTU 1500",
}

# A virtual machine returns memory to its host 2 s after it was freed, and its CPUs stand still meanwhile, for up to tens of ms. Much memory
# is returned in parts, 2 s after one another.
RETURN_S = 2.5
RETURN_MAX_S = 20
BALLOONS = pathlib.Path("/sys/bus/virtio/drivers/virtio_balloon")
BALLOON_REPORTING = 5  # bit of the features of a virtio balloon: free page reporting
RETURNED = pathlib.Path("/sys/module/page_reporting/parameters/reported_kib")  # not in all kernels


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def fail(text, status=1):
    say(text)
    sys.exit(status)


def request(verb, *words):
    """Sends a request to bench/run. Returns (status, text)."""
    os.write(7, (" ".join([verb, *(shlex.quote(str(word)) for word in words)]) + "\n").encode())
    answer = b""
    while not answer.endswith(b"\n"):
        part = os.read(8, 4096)
        if not part:
            sys.exit(1)
        answer += part
    status, _, text = answer.decode().rstrip("\n").partition(" ")
    return int(status), text


def packages(*names):
    """Installs packages, or ends the runner."""
    if request("packages", *names)[0]:
        sys.exit(1)


def build(directory, *options):
    if not (BUILT and directory == RELEASE) and request("build", directory, "--buildtype=release", *options)[0]:
        sys.exit(1)


class Host:
    """A host: prefix of commands, interface and address."""

    def __init__(self, prefix, interface, address):
        self.prefix, self.interface, self.address = prefix.split(), interface, address

    def command(self, *words):
        return [*self.prefix, *(str(word) for word in words)]

    def run(self, *words, **options):
        return subprocess.run(self.command(*words), check=False, **options)

    def drop(self, percent):
        """Makes nft drop this percentage of incoming UDP; 0: stop."""
        if percent:
            self.run("nft", "-f", "-", text=True, input="table inet llm_bench { chain input { type filter hook input priority 0; "
                     f"meta l4proto udp numgen random mod 100 < {percent} drop; }}\n}}\n")
        else:
            self.run("nft", "delete", "table", "inet", "llm_bench")


class Hosts:
    """Two hosts, a and b. kind: netns, userns, loopback, memory or roce; by default the first of the first three that works. five: five hosts
    at a switch, if they are namespaces."""

    def __init__(self, kind="", five=False):
        status, text = request("hosts", kind or "", *(["five"] if five else []))
        if status:
            sys.exit(1)
        self.kind, *parts = text.split("|")
        self.all = [Host(*parts[at:at + 3]) for at in range(0, len(parts), 3)]
        self.a, self.b = self.all[:2]
        self.network = NETWORKS[self.kind]

    def cable(self, ends, network):
        """Adds a cable between a and b, with interfaces of these names and the addresses 1 and 2 of a network such as 10.76.0. False: they are no
        namespaces, or it failed."""
        if self.kind not in ("netns", "userns"):
            return False
        pid = self.b.prefix[self.b.prefix.index("-t") + 1]
        return not any(host.run("ip", *command.split()).returncode for host, command in (
            (self.a, f"link add {ends[0]} mtu 1500 type veth peer name {ends[1]} mtu 1500 netns {pid}"),
            *((host, f"{what} {name}") for host, name, number in ((self.a, ends[0], 1), (self.b, ends[1], 2))
              for what in (f"addr add {network}.{number}/24 dev", "link set up dev"))))


class Failed(Exception):
    """A process ended unexpectedly or with an error."""


class Process:
    """A program of the benchmarks: its input are lines `VERB KEY=VALUE...`, its output answers in JSON."""

    def __init__(self, all_of_them, name, popen):
        self.all, self.name, self.popen = all_of_them, name, popen
        self.buffer, self.said, self.told, self.ended = b"", [], [], False

    def tell(self, verb, **words):
        try:
            self.popen.stdin.write(" ".join([verb, *assigned(words)]).encode() + b"\n")
            self.popen.stdin.flush()
        except BrokenPipeError:
            pass  # the end of the process is detected when its output is read

    def ask(self, verb, **words):
        self.tell(verb, **words)
        return self.hear()

    def hear(self):
        """Returns the next answer."""
        while not self.said:
            if self.ended:
                self.all.fail(self)
            self.all.step()
        return self.said.pop(0)

    def signal(self, number):
        self.popen.send_signal(number)

    def take(self, data):
        """Separates events, which may arrive at any time, from answers."""
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for answer in map(json.loads, lines):
            (self.told if "told" in answer else self.said).append(answer)


def assigned(words):
    """Yields KEY=VALUE; omits values that are None or empty."""
    for key, value in words.items():
        if value is not None and value != "":
            text = ",".join(map(str, value)) if isinstance(value, list) else str(int(value) if isinstance(value, bool) else value)
            yield f"{key}={text}"


class Processes:
    """The processes of one measurement. If one fails, the runner ends all of them."""

    ended_at = -RETURN_S  # time.monotonic() when the last process of any measurement ended

    def __init__(self):
        self.running = []
        self.started = []  # not yet served

    def start(self, host, name, command, role, stderr=None, cpu=None, **words):
        pin = [] if cpu is None else ["taskset", "-c", cpu]
        popen = subprocess.Popen(host.command(*BIND, *pin, *command, role, *assigned(words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=stderr)
        process = Process(self, name, popen)
        self.running.append(process)
        self.started.append(process)
        return process

    def step(self, timeout=None):
        """Waits until a process writes or ends, or for so many seconds."""
        ready = select.select([process.popen.stdout for process in self.running], [], [], timeout)[0]
        for process in [process for process in self.running if process.popen.stdout in ready]:
            data = os.read(process.popen.stdout.fileno(), 1 << 20)
            process.take(data)
            if not data:
                self.running.remove(process)
                process.ended = True
                status = process.popen.wait()
                Processes.ended_at = time.monotonic()
                if status:
                    self.fail(process)

    def fail(self, process):
        self.end()
        raise Failed(process.name)

    def serve(self, *these):
        """Serves these processes, or all, until they have ended. Returns the last answer of each by name."""
        these, found = set(these or self.started), {}
        while these & set(self.started):
            for process in these & set(self.started):
                if process.said:
                    found[process.name] = process.said.pop()
                if process.ended:
                    self.started.remove(process)
            if these & set(self.started):
                self.step()
        return found

    def finish(self, *these):
        """Closes the input of these processes, or of all, and waits for their end."""
        for process in these or list(self.started):
            process.popen.stdin.close()
        return self.serve(*these)

    def end(self, *these, number=signal.SIGKILL):
        """Ends these processes, or all, by a signal, regardless of their status."""
        for process in these or list(self.running):
            for some in (self.running, self.started):
                if process in some:
                    some.remove(process)
            process.signal(number)
            process.popen.wait()
            Processes.ended_at = time.monotonic()


def allowed_cpus():
    """The CPUs that the runner may use."""
    return sorted(os.sched_getaffinity(0))


def siblings(cpu):
    try:
        return pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list").read_text(encoding="ascii")
    except OSError:
        return str(cpu)


def choose_cpus():
    """Two threads of one core share its time, so the second CPU is one of another core, if possible."""
    first, *others = allowed_cpus()
    second = next((cpu for cpu in others if siblings(cpu) != siblings(first)), others[0] if others else first)
    if second == first:
        say(f"only CPU {first} may be used: both ends share it, and the figures are meaningless")
    return [first, second]


def cores_ns(program, cpus):
    """Transfer time of a cache line between two cores; None if it cannot be measured."""
    processes = Processes()
    processes.start(Host("", "", ""), "probe", [program], "probe", cpu=cpus[0], peer_cpu=cpus[1])
    return processes.serve()["probe"]["ns"] or None


@functools.cache
def returns_memory(balloons=BALLOONS):
    """Whether this is a virtual machine that returns freed memory to its host; says so."""
    found = any(features.read_text(encoding="ascii")[BALLOON_REPORTING:].startswith("1") for features in balloons.glob("*/features"))
    if found:
        say(f"this virtual machine returns the memory of ended processes to its host: {RETURN_S:g} s and more between measurements")
    return found


def returned_kib():
    """Memory returned so far; 0 if the kernel does not say."""
    try:
        return int(RETURNED.read_text(encoding="ascii"))
    except OSError:
        return 0


def settle(duration):
    """Waits until the memory of ended processes was returned to the host, before a measurement of a second or more."""
    began, quiet_from, last = time.monotonic(), Processes.ended_at, returned_kib()
    if (duration or 0) < 1 or began >= quiet_from + RETURN_S or not returns_memory():
        return
    while (now := time.monotonic()) < min(quiet_from + RETURN_S, began + RETURN_MAX_S):
        time.sleep(0.1)
        if (returned := returned_kib()) != last:
            last, quiet_from = returned, now


def memory_directory(prefix="llm-"):
    """A directory in memory, removed when bench/run ends."""
    return request("memory", prefix)[1]


class Bench:
    """One benchmark: its options, hosts, processes and their answers."""

    def __init__(self, name, options):
        self.name, self.o = name, options
        self.results = pathlib.Path(getattr(options, "results", None) or os.environ.get("BENCH_RESULTS") or ROOT / "build/bench-results")
        self.json = pathlib.Path(options.json or self.results / f"{name}.json") if hasattr(options, "json") else None
        self.results.mkdir(parents=True, exist_ok=True)
        self.processes = Processes()
        self.prefix = []
        self.programs = RELEASE / "bench"
        self.hosts = None

    def prepare(self, namespaces=True):
        """Builds, and creates hosts."""
        packages(*PACKAGES)
        build(RELEASE)
        if namespaces:
            self.hosts = Hosts()
            if self.hosts.kind == "loopback":
                fail(f"bench/run {self.name}: needs network namespaces: root, or unprivileged user namespaces", 2)

    def channel(self, host, *options):
        return "&".join([f"udp://239.192.1.1:5001?interface={host.interface}", *options, *filter(None, [self.o.options])])

    def count_all(self):
        """Enables flow control that waits for all receivers, unless the options differ."""
        for option in ("flow_quorum_percent=100", "flow=window"):
            if option.split("=")[0] + "=" not in self.o.options:
                self.o.options = "&".join(filter(None, [option, self.o.options]))

    def start(self, host, role, name=None, program="llm-bench", **words):
        """Starts a process of a role; its answers are filed under the name."""
        return self.processes.start(host, name or role, [*self.prefix, self.programs / program], role, **words)

    def finish(self, sender, *others):
        """Makes a transmitter close, which ends its session, and waits for these processes, or all. Returns the last answer of each by
        name."""
        sender.popen.stdin.close()
        return self.processes.serve(sender, *others) if others else self.processes.serve()

    def turns(self, cases, measure, text):
        """Measures each case, a tuple, in each run. Returns the list of results for each case. text: describes a run."""
        found = {case: [] for case in cases}
        for run in range(self.o.runs):
            say(f"run {run + 1}: {text}")
            # Every other run is reversed, since a steady drift of the machine would look like a difference between cases.
            for case in cases if run % 2 == 0 else reversed(cases):
                settle(self.o.duration)
                found[case].append(measure(self, run, *case))
        return found
