# SPDX-License-Identifier: Apache-2.0
"""The commands that measure beside what carries the packets bare: two ends, a near one and a far one, over any transport."""
import os
import pathlib
import shutil
import subprocess
import sys
import time

from runner import options as opt
from runner.session import PACKAGES, RELEASE, Hosts, build, choose_cpus, fail, memory_directory, packages, request, say

BARE = {"roce": "bare verbs", "shm": "a bare ring", "xdp": "bare AF_XDP"}
EMULATED = "soft-RoCE (rdma_rxe) in a guest that QEMU emulates: the figures say nothing about RDMA hardware, only ratios tell"
XDP_BARE = ("llm-bare-a", "llm-bare-b")

TRANSPORTS = ("udp", "bypass", "xdp", "shm", "roce")
PLOT = opt.Option("plot", None, opt.read_file, "where the plot goes, .svg or .png (the results directory)", "FILE")


def options(transports=("udp", "bypass")):
    """What all of these commands have."""
    return (opt.choice("transport", "udp", transports, "what carries the packets"),
            opt.text_option("preload", "a library to preload into both ends; bare UDP runs over it too (none; of bypass a stand-in that "
                            "does nothing)", metavar="FILE", default=None),
            opt.seconds("duration", None, 100, 3600000, "of each row (5, of roce 2); bare UDP takes half as long again"),
            opt.number("runs", None, 1, 100, "measure everything so often and report medians (1)"), opt.OPTIONS,
            opt.cpus(None, 2, "the CPU of each end (the first two that are not the same core)"),
            opt.choice("hosts", None, ("netns", "userns", "loopback"), "the hosts (the first of these that works)"), *opt.OUTPUT,
            opt.text_option("in-guest", None, metavar="BUILD", default=None))


class Pair:
    """Both ends, on their hosts."""

    def __init__(self, bench, flow=False):
        self.bench, self.o, self.flow = bench, bench.o, flow
        self.bare = BARE.get(self.o.transport, "bare UDP")
        self.directory = ""
        self.near_bare, self.far_bare = (), ()
        self.check()

    def check(self):
        o = self.o
        if o.hosts and (o.transport in ("roce", "shm") or o.transport == "xdp" and o.hosts != "netns"):
            where = {"roce": "both ends are in a guest", "shm": "there is one host", "xdp": "they are netns"}
            o.refuse(f"--hosts {o.hosts}: with --transport {o.transport} {where[o.transport]}")
        if o.preload and o.transport == "roce":
            o.refuse("--preload: of udp and bypass only, no stack knows RDMA")
        if o.preload and not os.access(o.preload, os.R_OK):
            o.refuse(f"--preload {o.preload}: there is no such library")
        if getattr(o, "plot", None) and not o.plot.endswith((".svg", ".png")):
            o.refuse(f"--plot {o.plot}: the name must end in .svg or .png")
        o.duration = o.duration or (2.0 if o.transport == "roce" else 5.0)
        o.runs = o.runs or 1

    def is_in_guest(self):
        """Whether it is measured here; else measures in a guest, whose files are then here."""
        o = self.o
        if o.in_guest:
            return True
        packages(*PACKAGES, *(("libibverbs-dev", "librdmacm-dev") if o.transport == "roce" else ()))
        if not shutil.which("gnuplot") and os.getuid() == 0:
            request("packages", "gnuplot-nox")
        build(RELEASE, "-Dtests=false", "-Dexamples=false", *(("-Droce=enabled",) if o.transport == "roce" else ()))
        return o.transport != "roce"

    def guest(self, seconds):
        """Has bench/run do all but building and plotting in the guest. seconds: far beyond what it takes."""
        bench = self.bench
        packages("ibverbs-providers", "iproute2")
        if bench.name == "reflector" and request("packages", "perftest")[0]:
            say("so there is no ib_send_lat beside it")
        here = f"/run/results/{bench.name}.json"
        status, why = request("guest", bench.results, "--timeout", int(120 + seconds), "--share", RELEASE, "--",
                              *without(sys.argv[1:], "--json", "--plot", "--results"), "--results", "/run/results", "--json", here,
                              "--in-guest", RELEASE)
        if status:
            fail(why if status == 77 else "the guest failed", status)
        there = bench.results / f"{bench.name}.json"
        if there != bench.json:
            shutil.copy(there, bench.json)
        say(f"table: {bench.results / bench.name}.txt")

    def open(self):
        bench, o = self.bench, self.o
        if o.in_guest:
            self.devices = request("devices")[1].split()
            bench.programs = pathlib.Path(o.in_guest) / "bench"
        bench.hosts = Hosts({"roce": "roce", "shm": "memory", "xdp": "netns"}.get(o.transport, o.hosts))
        if o.transport == "shm":
            self.directory = memory_directory()
        if o.transport == "xdp":
            self.second_cable()
        o.cpus = o.cpus or choose_cpus()
        if o.transport == "bypass":
            o.preload = o.preload or str(bench.programs / "stand_in.so")
        say(f"CPUs: {o.cpus[0]} and {o.cpus[1]}")

    def second_cable(self):
        """An xdp:// channel has its interface for itself, and its program slows the kernel's own packets there: what stands bare beside
        it has a second cable between the same hosts."""
        a, b = self.bench.hosts.a, self.bench.hosts.b
        commands = ((a, f"link add {XDP_BARE[0]} mtu 1500 type veth peer name {XDP_BARE[1]} mtu 1500 netns {b.prefix[2]}"),
                    *((host, f"{what} {name}") for host, name, number in ((a, XDP_BARE[0], 1), (b, XDP_BARE[1], 2))
                      for what in (f"addr add 10.76.0.{number}/24 dev", "link set up dev")))
        for host, command in commands:
            if host.run("ip", *command.split()).returncode:
                sys.exit(1)

    def network(self):
        words = self.bench.hosts.network
        if not self.o.preload:
            return words
        if self.o.preload.endswith("/bench/stand_in.so"):
            return f"{words}; over a stand-in for a stack that does nothing: the kernel carries all"
        return f"{words}; over {os.path.basename(self.o.preload)}"

    def channel(self, host, number, scheme=None, interface=None):
        """Number 1 there, 2 back. What runs flat out finds the rate that the receiver keeps up with by itself."""
        flow = ["flow=window"] if self.flow and "flow=" not in self.o.options else []
        place = (f"shm://bench-{number}?shm_directory={self.directory}" if self.o.transport == "shm" else
                 f"{scheme or self.o.transport}://239.192.1.{number}:500{number}?interface={interface or host.interface}")
        return "&".join([place, *([] if interface else [*flow, *filter(None, [self.o.options])])])

    def run(self, program, near, far):
        """Runs both ends. The far one ends by itself when the near one is done. Returns what they printed."""
        bench, o = self.bench, self.o
        preload = ["env", f"LD_PRELOAD={os.path.realpath(o.preload)}"] if o.preload else []
        outputs = [bench.work / name for name in ("near.out", "far.out")]
        for host, words, output in ((bench.hosts.b, far, outputs[1]), (bench.hosts.a, near, outputs[0])):
            with open(output, "wb") as file:
                bench.processes.start(host, *preload, bench.programs / program, *words, stdout=file)
        bench.processes.wait()
        text = "".join(output.read_text() for output in outputs)
        print(text, end="", flush=True)
        return text

    def beside(self, name, measure):
        """Has it measured; over AF_XDP twice, beside bare AF_XDP and beside the kernel's UDP. The second JSON is FILE-udp.json."""
        bench = self.bench
        if self.o.transport != "xdp":
            (bench.results / f"{name}.txt").write_text(measure(), encoding="utf-8")
            return
        text, json = "", bench.json
        for scheme, title in (("xdp", "bare AF_XDP"), ("udp", "the kernel's bare UDP")):
            there, back = ([self.channel(None, number, scheme, interface) for interface in XDP_BARE] for number in (1, 2))
            if name == "reflector":
                self.near_bare = ("--raw-send", there[0], "--raw-receive", back[0])
                self.far_bare = ("--raw-send", back[1], "--raw-receive", there[1])
            else:
                self.near_bare, self.far_bare = ("--raw-channel", there[0]), ("--raw-channel", there[1])
            if scheme == "udp":
                bench.json = json.with_name(f"{json.stem}-udp.json")
            print(f"\nBeside {title}\n", flush=True)
            text += measure()
        say(f"JSON beside UDP: {bench.json}")
        bench.json = json
        (bench.results / f"{name}.txt").write_text(text, encoding="utf-8")

    def reference(self, size):
        """In the guest: what perftest's ib_send_lat makes of the same devices, in one line. It prints bytes, iterations, least, most,
        typical, average, deviation, 99 %, 99.9 %; of half a round trip in us."""
        if not shutil.which("ib_send_lat"):
            return "reference none: ib_send_lat is not installed (perftest)\n"
        near, far, address = self.devices
        words = ["ib_send_lat", "-c", "UD", "-n", "1000", "-s", str(size), "-F", "-d"]
        with subprocess.Popen([*words, far], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            for _ in range(50):
                if ":18515" in subprocess.run(["ss", "-tln"], capture_output=True, text=True, check=False).stdout:
                    break
                time.sleep(0.1)
            done = subprocess.run(["timeout", "30", *words, near, address], capture_output=True, text=True, check=False)
            server.kill()
        found = [fields for fields in map(str.split, done.stdout.splitlines()) if fields[:1] == [str(size)] and len(fields) >= 8]
        figures = f"median {found[-1][4]} us, mean {found[-1][5]}, 99 % {found[-1][7]}" if found else "none, it failed"
        return f"reference ib_send_lat -c UD, {size} B unicast, 1000 rounds, half a round trip: {figures}\n"


def without(arguments, *names):
    """The arguments without these options and their values."""
    kept, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in names:
            skip = True
        elif argument.split("=")[0] not in names:
            kept.append(argument)
    return kept
