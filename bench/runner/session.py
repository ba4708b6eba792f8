# SPDX-License-Identifier: Apache-2.0
"""What a benchmark runs on: packages, builds and hosts, which bench/run makes with tests/setup.sh, and processes on the hosts."""
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRATCH = pathlib.Path(os.environ["BENCH_SCRATCH"])
RELEASE = ROOT / "build/release"
PACKAGES = ("meson", "ninja-build", "gcc", "libc6-dev", "pkg-config", "libnuma-dev", "iproute2", "util-linux")
# Programs of hosts end with the runner, even if that is killed.
BIND = ("setpriv", "--pdeathsig", "KILL", "--")
NETWORKS = {
    "netns": "veth between network namespaces, MTU 1500", "userns": "veth between unprivileged network namespaces, MTU 1500",
    "loopback": "loopback", "memory": "shared memory between two processes",
    "roce": "two soft-RoCE devices joined by veth, MTU 1500",
}


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def fail(text, status=1):
    say(text)
    sys.exit(status)


def request(verb, *words):
    """Has bench/run do something. Returns (status, text)."""
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
    """Installs them, or ends the runner."""
    if request("packages", *names)[0]:
        sys.exit(1)


def build(directory, *options):
    if request("build", directory, "--buildtype=release", *options)[0]:
        sys.exit(1)


class Host:
    """A prefix of commands, an interface and an address."""

    def __init__(self, prefix, interface, address):
        self.prefix, self.interface, self.address = prefix.split(), interface, address

    def command(self, *words):
        return [*self.prefix, *(str(word) for word in words)]

    def run(self, *words, **options):
        return subprocess.run(self.command(*words), check=False, **options)


class Hosts:
    """Two hosts, a and b. kind: netns, userns, loopback, memory or roce; the first of three that works without one."""

    def __init__(self, kind=None):
        status, text = request("hosts", *([kind] if kind else []))
        if status:
            sys.exit(1)
        self.kind, *parts = text.split("|")
        self.a, self.b = (Host(*parts[at::2]) for at in (0, 1))
        self.network = NETWORKS[self.kind]


class Processes:
    """Processes of one measurement. Any that fails ends the runner, and the others with it."""

    def __init__(self):
        self.running = {}

    def start(self, host, *words, **streams):
        process = subprocess.Popen(host.command(*BIND, *words), **streams)
        self.running[process.pid] = process
        return process

    def wait(self, *these):
        """Waits for these, or for all."""
        while any(process.returncode is None for process in these or self.running.values()):
            pid, status = os.wait()
            process = self.running.pop(pid, None)
            if process is None:
                continue
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                self.end()
                fail("the benchmark failed", max(process.returncode, 1))

    def end(self, *these):
        """Ends these, or all, however they take it."""
        for process in these or list(self.running.values()):
            self.running.pop(process.pid, None)
            process.kill()
            process.wait()

    def leave(self, process, number=signal.SIGTERM):
        """Asks one to end, and waits for it, whatever its status."""
        self.running.pop(process.pid, None)
        process.send_signal(number)
        process.wait()


def allowed_cpus():
    """The CPUs that the runner may use."""
    return sorted(os.sched_getaffinity(0))


def siblings(cpu):
    try:
        return pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list").read_text(encoding="ascii")
    except OSError:
        return str(cpu)


def choose_cpus():
    """Two threads of one core share its time, so the second CPU is of another core if there is one."""
    first, *others = allowed_cpus()
    second = next((cpu for cpu in others if siblings(cpu) != siblings(first)), others[0] if others else first)
    if second == first:
        say(f"only CPU {first} may be used: both ends share it, and the figures tell nothing")
    return [first, second]


def memory_directory(prefix="llm-"):
    """A directory in memory, gone when the runner ends by itself. Paths as messages have them are short."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else SCRATCH
    directory = tempfile.mkdtemp(prefix=prefix, dir=base)
    AT_EXIT.append(directory)
    return directory


AT_EXIT = []


def clean():
    for directory in AT_EXIT:
        shutil.rmtree(directory, ignore_errors=True)


class Bench:
    """One benchmark: its options, its hosts and processes, and the files that these write."""

    def __init__(self, name, options):
        self.name, self.o = name, options
        self.results = pathlib.Path(getattr(options, "results", None) or ROOT / "build/bench-results")
        self.json = pathlib.Path(options.json or self.results / f"{name}.json") if hasattr(options, "json") else None
        self.results.mkdir(parents=True, exist_ok=True)
        self.work = SCRATCH / name
        self.work.mkdir(exist_ok=True)
        self.processes = Processes()
        self.programs = RELEASE / "bench"
        self.hosts = None

    def prepare(self, namespaces=True):
        """Builds, and makes hosts."""
        packages(*PACKAGES)
        build(RELEASE)
        if namespaces:
            self.hosts = Hosts()
            if self.hosts.kind == "loopback":
                fail(f"bench/run {self.name}: needs network namespaces: root, or unprivileged user namespaces", 2)

    def channel(self, host, *options):
        return "&".join([f"udp://239.192.1.1:5001?interface={host.interface}", *options, *filter(None, [self.o.options])])

    def count_all(self):
        """Has the channels leave no receiver behind, unless the options say otherwise."""
        for option in ("flow_quorum_percent=100", "flow=window"):
            if option.split("=")[0] + "=" not in self.o.options:
                self.o.options = "&".join(filter(None, [option, self.o.options]))

    def start(self, host, name, program, *words, stdin=None, stdout=None, **options):
        """Starts a program that writes its figures to a file of this name. options become --OPTION VALUE; True: a flag."""
        for option, value in options.items():
            if value is not None and value is not False:
                words += (f"--{option.replace('_', '-')}", *(() if value is True else (value,)))
        process = self.processes.start(host, self.programs / program, *words, "--json", self.work / f"{name}.json",
                                       stdin=stdin, stdout=stdout)
        for stream in (stdin, stdout):
            if isinstance(stream, int) and stream > 2:
                os.close(stream)
        return process

    def load(self, name):
        return json.loads((self.work / f"{name}.json").read_text(encoding="utf-8"))

