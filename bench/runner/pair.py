# SPDX-License-Identifier: Apache-2.0
"""The commands that compare with the bare transport: two ends, near and far, over any transport."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

from runner import bare as bare_packets
from runner import options as opt
from runner.session import PACKAGES, RELEASE, Host, Hosts, build, choose_cpus, cores_ns, fail, memory_directory, packages, request, say
from runner.tables import Report, machine_text, median

BARE = {"roce": "bare verbs", "shm": "a bare ring", "xdp": "bare AF_XDP"}
EMULATED = "soft-RoCE (rdma_rxe) in a guest that QEMU emulates: not representative of RDMA hardware; only ratios are meaningful"
XDP_BARE = ("llm-bare-a", "llm-bare-b")

TRANSPORTS = ("udp", "bypass", "xdp", "shm", "roce")
PLOT = opt.Option("plot", None, opt.read_file, "file for the plot, .svg or .png (in the results directory)", "FILE")


def options(transports=("udp", "bypass")):
    """Returns the options of all of these commands."""
    return (opt.choice("transport", "udp", transports, "transport of the packets"),
            opt.text_option("preload", "library to preload into both ends, for bare UDP too (none; for bypass a test stack without "
                            "effect)", metavar="FILE", default=None),
            opt.seconds("duration", None, 100, 3600000, "of each row (5, for roce 2); bare UDP takes half of it in addition"),
            opt.number("runs", None, 1, 100, "runs of everything; medians are reported (1)"), opt.OPTIONS,
            opt.cpus(None, 2, "the CPU of each end (the first two of different cores)"),
            opt.choice("hosts", None, ("netns", "userns", "loopback"), "the kind of hosts (the first that works)"), *opt.OUTPUT,
            opt.text_option("far", "two machines: prefix of commands on the other one, such as 'ssh b', with libllm built in the same "
                            "directory", metavar="COMMAND", default=None),
            opt.flag("no-raw", "no bare measurement; implied on two machines over xdp, which has its interface for itself"),
            opt.text_option("interfaces", "two machines: interface of this one and of the other", r"[^/\s,]+,[^/\s,]+",
                            "must be two names, such as eth0,eth1", "A,B", None),
            opt.text_option("in-guest", None, metavar="BUILD", default=None))


class Machines:
    """This machine, and another one reached by a command."""

    kind, network = "machines", "between two machines"

    def __init__(self, far, near_interface, far_interface):
        self.a, self.b = Host("", near_interface, ""), Host("", far_interface, "")
        self.b.prefix = shlex.split(far)


class Pair:
    """Both ends, on their hosts."""

    def __init__(self, bench, flow=False):
        self.bench, self.o, self.flow = bench, bench.o, flow
        self.bare = BARE.get(self.o.transport, "bare UDP")
        self.directory = ""
        self.check()

    def check(self):
        o = self.o
        if o.hosts and (o.transport in ("roce", "shm") or o.transport == "xdp" and o.hosts != "netns"):
            where = {"roce": "both ends are in a guest", "shm": "there is one host", "xdp": "they are netns"}
            o.refuse(f"--hosts {o.hosts}: with --transport {o.transport} {where[o.transport]}")
        if o.preload and o.transport == "roce":
            o.refuse("--preload: for udp and bypass only, as no stack supports RDMA")
        if o.preload and not os.access(o.preload, os.R_OK):
            o.refuse(f"--preload {o.preload}: there is no such library")
        if getattr(o, "plot", None) and not o.plot.endswith((".svg", ".png")):
            o.refuse(f"--plot {o.plot}: the name must end in .svg or .png")
        if bool(o.far) != bool(o.interfaces) or o.far and o.transport == "shm":
            o.refuse("--far: also needs --interfaces, and a transport between machines")
        o.no_raw = o.no_raw or bool(o.far) and o.transport == "xdp"
        o.duration = o.duration or (2.0 if o.transport == "roce" else 5.0)
        o.runs = o.runs or 1

    def is_in_guest(self):
        """Builds. Returns False if the measurement needs a guest."""
        o = self.o
        if o.in_guest:
            return True
        if o.far and o.transport == "roce":
            build(RELEASE, "-Droce=enabled")
            return True
        packages(*PACKAGES, *(("libibverbs-dev", "librdmacm-dev") if o.transport == "roce" else ()))
        if not shutil.which("gnuplot") and os.getuid() == 0:
            request("packages", "gnuplot-nox")
        build(RELEASE, "-Dtests=false", "-Dexamples=false", *(("-Droce=enabled",) if o.transport == "roce" else ()))
        return o.transport != "roce"

    def prepare(self):
        """Builds, and creates hosts, for measurements on this machine."""
        self.is_in_guest()
        self.open()

    def guest(self, seconds):
        """Runs bench/run in the guest, except for the build and the plots. seconds: a generous limit."""
        bench = self.bench
        packages("ibverbs-providers", "iproute2")
        if bench.name == "reflector" and request("packages", "perftest")[0]:
            say("ib_send_lat is therefore not measured")
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
        if o.far:
            bench.hosts = Machines(o.far, *o.interfaces.split(","))
        else:
            bench.hosts = Hosts({"roce": "roce", "shm": "memory", "xdp": "netns"}.get(o.transport, o.hosts))
        if o.transport == "shm":
            self.directory = memory_directory()
        if o.transport == "xdp" and not o.far:
            self.second_cable()
        o.cpus = o.cpus or choose_cpus()
        if o.transport == "bypass":
            o.preload = o.preload or str(bench.programs / "test_stack.so")
        say(f"CPUs: {o.cpus[0]} and {o.cpus[1]}")

    def second_cable(self):
        """Adds a second cable between the hosts for the bare transport: an xdp:// channel has its interface for itself, and its program
        slows the kernel's own packets there."""
        if not self.bench.hosts.cable(XDP_BARE, "10.76.0"):
            sys.exit(1)

    def network(self):
        words = self.bench.hosts.network
        if not self.o.preload:
            return words
        if self.o.preload.endswith("/bench/test_stack.so"):
            return f"{words}; over a test stack without effect: the kernel carries all packets"
        return f"{words}; over {os.path.basename(self.o.preload)}"

    def channel(self, host, number, scheme=None, interface=None):
        """Channel of group 1 (forward) or 2 (return). With flow control, a flat-out sender adapts to the receiver's rate."""
        flow = ["flow=window"] if self.flow and "flow=" not in self.o.options else []
        place = (f"shm://bench-{number}?shm_directory={self.directory}" if self.o.transport == "shm" else
                 f"{scheme or self.o.transport}://239.192.1.{number}:500{number}?interface={interface or host.interface}")
        return "&".join([place, *([] if interface else [*flow, *filter(None, [self.o.options])])])

    def start(self, bare=None, raw=True, channels=None, **words):
        """Starts both ends. bare: scheme of the bare transport on a second cable; raw: measure bare hops too; channels: those of both ends,
        if there is a single one."""
        a, b, o = self.bench.hosts.a, self.bench.hosts.b, self.o
        self.raw = {(at, number): bare_packets.place(self.channel(host, number, bare, XDP_BARE[at] if bare else None))
                    for at, host in enumerate((a, b)) for number in (1, 2)}
        beside = [{"raw_send": self.raw[at, 1 + at], "raw_receive": self.raw[at, 2 - at]} if raw and not o.no_raw else {}
                  for at in (0, 1)]
        ways = [{"send": self.channel(host, 1 + at), "receive": self.channel(host, 2 - at)} for at, host in enumerate((a, b))]
        if channels:
            ways = [{"send": channel} for channel in channels]
            beside = [{"raw_receive": bare_packets.place(channel)} for channel in channels]
        if o.preload:
            self.bench.prefix = ["env", f"LD_PRELOAD={os.path.realpath(o.preload)}"]
        self.far = self.bench.start(b, "far", **ways[1], cpu=o.cpus[1], **beside[1], **words)
        self.near = self.bench.start(a, "near", **ways[0], cpu=o.cpus[0], **beside[0], **words)
        ready, self.peer = self.near.hear(), self.far.hear()["machine"]
        self.machine, self.header_bytes = ready["machine"], bare_packets.header_bytes(ways[0]["send"])
        self.near.ask("greet")

    def cores_ns(self):
        return None if self.o.far else cores_ns(self.bench.programs / "llm-bench", self.o.cpus)

    def stop(self):
        """Ends both ends. Returns lines with their counters that are not zero."""
        lines = []
        for title, process in (("near", self.near), ("far", self.far)):
            lines.append(f"{title}: counters that are not zero")
            for name, counters in process.ask("counters").items():
                lines += [f"  {name}", *(f"    {counter:<32} {value:20}" for counter, value in counters.items())]
        self.bench.processes.finish(self.near, self.far)
        return lines

    def setting(self, cores):
        """Fields of the JSON about the machine, except its own."""
        return {"peer": machine_text(self.peer), "network": self.network(), "emulated": EMULATED if self.o.in_guest else None,
                "core_to_core_ns": median(cores)}

    def head(self, report, cores, measured, channels=None):
        """Writes the lines above the table."""
        setting = self.setting(cores)
        report.print(*([f"EMULATED  {EMULATED}"] if self.o.in_guest else []), f"machine   {machine_text(self.machine)}")
        if machine_text(self.peer) != machine_text(self.machine):
            report.print(f"peer      {setting['peer']}")
        report.print(f"network   {setting['network']}")
        if setting["core_to_core_ns"]:
            report.print(f"cores     a cache line moves between them in {setting['core_to_core_ns']:.0f} ns")
        a = self.bench.hosts.a
        there = f"channel   {channels[0]}" if channels else f"channels  there {self.channel(a, 1)}, back {self.channel(a, 2)}"
        report.print(there, *measured, "")

    def report(self, report, measured, columns, rows, notes, counters=(), channels=None, left_out=()):
        """Writes the table and the JSON. notes: called with the report and each row. left_out: fields that the JSON omits. Returns the exit
        status."""
        cores = [row["core_to_core_ns"] for row in rows]
        self.head(report, cores, measured, channels)
        report.rows(columns, rows)
        for row in rows:
            notes(report, row)
        if counters:
            report.print("", *counters)
        if self.o.in_guest and self.bench.name == "reflector":
            report.print(self.reference(self.o.size[0]))
        report.setting = self.setting(cores)
        report.write_json(self.machine, [{name: row[name] for name in row if name not in left_out} for row in rows])
        return report.finish()

    def beside(self, measure):
        """Measures and reports; over AF_XDP twice, with bare AF_XDP and with the kernel's UDP (FILE-udp.json). measure gets a report and
        the scheme of the bare transport."""
        bench = self.bench
        if self.o.transport != "xdp" or self.o.far:
            return measure(Report(bench), None)
        first, json, status = [], bench.json, 0
        for scheme, title in (("xdp", "bare AF_XDP"), ("udp", "the kernel's bare UDP")):
            report = Report(bench, first)
            report.print("", f"Beside {title}", "")
            if scheme == "udp":
                bench.json = json.with_name(f"{json.stem}-udp.json")
            status |= measure(report, scheme)
            first = report.lines
        bench.json = json
        return status

    def reference(self, size):
        """In the guest: result of perftest's ib_send_lat over the same devices, in one line. It prints bytes, iterations, min, max,
        typical, average, deviation, 99 %, 99.9 %; half a round trip in us."""
        if not shutil.which("ib_send_lat"):
            return "reference none: ib_send_lat is not installed (perftest)"
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
        return f"reference ib_send_lat -c UD, {size} B unicast, 1000 rounds, half a round trip: {figures}"


def without(arguments, *names):
    """Removes these options and their values from the arguments."""
    kept, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in names:
            skip = True
        elif argument.split("=")[0] not in names:
            kept.append(argument)
    return kept
