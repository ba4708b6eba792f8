#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of a message, with valgrind's callgrind.

    bench/cost.py PROGRAM [--device PROGRAM] [--profile] [--record | --check]

PROGRAM is built from bench/cost.c; that of --device has a fake RDMA device, and its instructions, those of the transport included, are
compared with those over kernel UDP. Prints a table: instructions of the library for each message and packet (in the idle phases, for each
llm_poll()), and its use of libc, of the transport and of the clock. The instructions of libc are those of this CPU's memcpy, and have no
bound.

  --profile  the functions with the most instructions of their own, for each phase
  --record   write the figures to bench/cost.bounds, as the bounds for this compiler
  --check    compare the figures with the bounds: fails if one exceeds its bound by more than 1 %, or if a message over RDMA costs more
             than 1.2 times one over UDP. Exit status 77 (skipped): valgrind or the bounds for this compiler are missing.
"""
import argparse
import collections
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

BOUNDS = pathlib.Path(__file__).resolve().parent / "cost.bounds"
BOUNDS_HEAD = """\
# Per compiler and phase: instructions of the library and clock readings for each message. `bench/run cost --record` writes the lines of the
# compiler in use; tests/run compares with them. See docs/performance.md.
"""
ABOVE = 1.01  # of the bound; above it the check fails
BELOW = 0.95  # of the bound; below it a new record is recommended
SKIPPED = 77
MESSAGES = 8000  # messages of each pass
# Heartbeats and reports are kept away, as they depend on time, not on messages. The history is small, so that it is full before the count
# starts, as in any long stream.
OPTIONS = ("history_bytes=1M&history_packets=1024&linger_ns=0&status_ns=60000000000&heartbeat_ns_min=10000000000&"
           "heartbeat_ns_busy=10000000000&heartbeat_ns_max=10000000000&silence_ns=60000000000&session_timeout_ns=600000000000")
# Channels, and messages that may be outstanding. Packets fill an Ethernet frame without IP and UDP headers, or one of RoCE. RDMA has few
# buffers, as the fake device searches all of them for each one it gets.
NETWORKS = {"loop": ("loop://cost:{}?mtu=1472", 8000), "udp": ("udp://239.195.1.1:{}?interface=lo&mtu=1052", 4000),
            "roce": ("roce://239.195.1.1:{}?interface=lo&rcvbuf_bytes=1M&flow_window_packets=256", 4000)}
# Phases: kind, size, and the counted parts; those compared between networks, then the others.
BOTH = ("transmit", "receive")
COMPARED, LONE = [("stream", 45, BOTH)], [("lone", 45, BOTH)]
OTHERS = [("stream", 100, BOTH), ("stream", 1000, BOTH), ("claim", 45, BOTH[:1]), ("batch", 45, BOTH)]
RATIO_MAX = 1.2  # maximum ratio of a message over RDMA to one over UDP
TRIES = 5
PROFILE_LINES = 20


def fail(text, status=1):
    print(f"cost: {text}", file=sys.stderr)
    sys.exit(status)


class Phase:
    """Callgrind's counts of one phase. A function is a pair of texts: (object, name)."""

    def __init__(self, name, packets, readings):
        self.name, self.messages, self.packets, self.readings = name, MESSAGES, packets, readings
        self.alone = collections.Counter()  # instructions of a function itself, without its callees
        self.below = collections.Counter()  # by (caller, callee): instructions of the callee, including its own callees

    def read(self, path):
        """Reads a callgrind file written without compression."""
        library = name = None
        callees = callee = None
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.rstrip("\n").partition("=")
                if key == "ob":
                    library = value
                elif key == "fn":
                    name = value.split("'")[0]
                elif key == "cob":
                    callees = value
                elif key == "cfn":
                    callee = value.split("'")[0]
                elif key == "calls":
                    edge = ((library, name), (callees or library, callee))
                    self.below[edge] += int(next(lines).split()[1])
                    callees = None
                elif line[:1].isdigit():
                    self.alone[(library, name)] += int(line.split()[1])


def requests_of(network):
    """Requests to the program (bench/engine/pairs.c), each with the name of its phase, or None if it is not counted."""
    channel, most = NETWORKS[network]
    yield f"pair name=cost size=1000 channel={channel.format(20000 + os.getpid() % 20000)}&{OPTIONS}", None
    for kind, size, parts in COMPARED + (OTHERS if network == "loop" else []) + LONE:
        about = f"messages={MESSAGES} size={size} most={most} late={int(network == 'udp')}"
        yield f"count kind={kind} part=none {about}", None
        for part in parts:
            yield f"count kind={kind} part={part} {about}", f"{part}-{kind}-{size}"
    # Idle polls count as messages.
    for part, end in (("transmit", "near"), ("receive", "far")) if network == "loop" else ():
        yield f"count kind=poll-{end} part=transmit messages={MESSAGES}", f"{part}-idle-0"


def count(program, network, directory):
    """Runs the program under callgrind. Returns its compiler and the phases in order, or None if the run was disturbed."""
    out, requests = directory / "callgrind", list(requests_of(network))
    # Asterisks match the copies of functions that compilers make and rename.
    command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=cost_counted*", "--dump-before=cost_end*",
               "--compress-strings=no", "--compress-pos=no", f"--callgrind-out-file={out}", program, "pairs"]
    # Bind symbols before the count.
    done = subprocess.run(command, env=dict(os.environ, LD_BIND_NOW="1"), input="".join(f"{line}\n" for line, _ in requests),
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{program} under callgrind ended with status {done.returncode}:\n{done.stderr}")
    answers, phases = list(map(json.loads, done.stdout.splitlines())), []
    # The first request counts nothing.
    for number, ((line, name), found) in enumerate(zip(requests[1:], answers[1:]), 1):
        if not found["packets"] == found["sent"] == found["taken"] or found["wrong"] or found["received"] not in (0, MESSAGES):
            fail(f"{line}: messages were lost or repeated, or packets other than data were sent: {found}")
        if "kind=lone" in line and found["packets"] != MESSAGES:
            return None  # the transport counted as busy
        if name:
            phases.append(Phase(name, found["packets"], found["readings"]))
            phases[-1].read(f"{out}.{number}")
    return f"{answers[-1]['compiler']}-{answers[-1]['version']}", phases


def count_undisturbed(program, network):
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as directory:
            counted = count(program, network, pathlib.Path(directory))
        if counted is not None:
            return counted
    return fail(f"the machine was too busy, {TRIES} times one after the other")


def is_library(function):
    return os.path.basename(function[0]).startswith("libllm.so")


class Share:
    """Instructions of a phase, by owner."""

    def __init__(self, phase, program):
        self.phase = phase
        self.transport = self.of_transport()
        self.alone = sum(number for function, number in phase.alone.items() if self.is_own(function))
        self.transport_below = 0
        self.libc = collections.Counter()
        for (caller, callee), number in phase.below.items():
            if not self.is_own(caller) or os.path.realpath(callee[0]) == os.path.realpath(program):
                continue
            if callee in self.transport:
                self.transport_below += number
            elif not is_library(callee):
                self.libc[callee[1]] += number

    def of_transport(self):
        """Returns the functions of the transport loop: the library's entries into it, and their callees in the library."""
        found = {function for function in self.phase.alone if is_library(function) and function[1].startswith("loop_")}
        while True:
            more = {callee for (caller, callee) in self.phase.below if caller in found and is_library(callee)} - found
            if not more:
                return found
            found |= more

    def is_own(self, function):
        return is_library(function) and function not in self.transport

    def per_message(self, number):
        return number / self.phase.messages


def crossing(phase):
    """Returns the instructions of a message over a real transport, which is part of the library."""
    return sum(number for function, number in phase.alone.items() if is_library(function)) / phase.messages


def print_comparison(pairs):
    print("\nlibrary and transport, instructions for each message, packets of 1024 bytes")
    print(f"{'phase':20} {'udp':>9} {'roce':>9} {'ratio':>6}")
    for udp, roce in pairs:
        print(f"{udp.name:20} {crossing(udp):9.2f} {crossing(roce):9.2f} {crossing(roce) / crossing(udp):6.2f}")


def print_table(shares):
    print(f"{'':20} {'messages':>8} | {'library, instructions':^19} | {'elsewhere, for each message':^28}")
    print(f"{'phase':20} {'a packet':>8} | {'a message':>9} {'a packet':>9} | {'libc':>7} {'transport':>9} {'clock read':>10}")
    for share in shares:
        phase = share.phase
        packets = phase.packets
        each = f"{phase.messages / packets:8.2f}" if packets else f"{'-':>8}"
        packet = f"{share.alone / packets:9.1f}" if packets else f"{'-':>9}"
        print(f"{phase.name:20} {each} | {share.per_message(share.alone):9.2f} {packet} | "
              f"{share.per_message(sum(share.libc.values())):7.2f} {share.per_message(share.transport_below):9.2f} "
              f"{share.per_message(phase.readings):10.2f}")


def print_profile(share):
    phase = share.phase
    rows = [(number, "library", name) for (library, name), number in phase.alone.items() if share.is_own((library, name))]
    rows += [(number, "libc", name) for name, number in share.libc.items()]
    rows += [(share.transport_below, "transport", "loop")]
    whole = share.alone + sum(share.libc.values())
    print(f"\n{phase.name}: instructions for each message, share of library and libc, function")
    for number, where, name in sorted(rows, key=lambda row: (-row[0], row[2]))[:PROFILE_LINES]:
        percent = f"{100 * number / whole:5.1f} %" if where != "transport" else "       "
        print(f"  {share.per_message(number):9.2f}  {percent}  {name}{'' if where == 'library' else f' ({where})'}")


def read_bounds():
    """Returns lines of compiler, phase and figures."""
    if not BOUNDS.exists():
        return []
    return [line.split() for line in BOUNDS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def record(compiler, bounded):
    new = [[compiler, name] + [f"{figure:.2f}" for figure in figures] for name, figures in bounded]
    names = {line[1] for line in new}
    lines = [line for line in read_bounds() if line[0] != compiler or line[1] not in names] + new
    lines.sort(key=lambda line: line[0])
    rows = [f"{line[0]:9} {line[1]:26} {line[2]:>9} {line[3]:>6}\n" for line in lines]
    BOUNDS.write_text(BOUNDS_HEAD + "".join(rows), encoding="utf-8")
    print(f"recorded for {compiler} in {BOUNDS}")


def check(compiler, bounded, pairs):
    bounds = {line[1]: [float(figure) for figure in line[2:]] for line in read_bounds() if line[0] == compiler}
    if not bounds:
        print(f"no bounds are recorded for {compiler}, so nothing is compared; bench/run cost --record records them")
        return SKIPPED
    bad = below = 0
    for name, figures in bounded:
        if name not in bounds:
            print(f"{name}: no bound is recorded")
            bad += 1
            continue
        for what, figure, bound in zip(("instructions", "clock readings"), figures, bounds[name]):
            # Plus half of the last recorded digit.
            if figure > bound * ABOVE + 0.005:
                print(f"{name}: {figure:.2f} {what} for each message exceed the bound of {bound:.2f} by more than 1 %")
                bad += 1
            elif figure < bound * BELOW - 0.005:
                print(f"{name}: {figure:.2f} {what} for each message are well below the bound of {bound:.2f}")
                below += 1
    for udp, roce in pairs:
        if crossing(roce) > crossing(udp) * RATIO_MAX:
            print(f"roce-{roce.name}: {crossing(roce):.2f} instructions are more than {RATIO_MAX} times those over UDP")
            bad += 1
    if bad > 0:
        print("If the cost is justified, explain it in docs/performance.md and record the bounds again: bench/run cost --record")
    elif below > 0:
        print("Record the lower figures as the new bounds: bench/run cost --record")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--device")
    for name in ("--profile", "--record", "--check"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        fail("valgrind is not installed: someone with root has to run: apt-get install valgrind", SKIPPED)
    if platform.machine() != "x86_64" and options.check:
        fail(f"bounds are for x86-64 alone, this is {platform.machine()}", SKIPPED)
    compiler, phases = count_undisturbed(options.program, "loop")
    shares = [Share(phase, options.program) for phase in phases]
    pairs = []
    if options.device:
        pairs = list(zip(count_undisturbed(options.program, "udp")[1], count_undisturbed(options.device, "roce")[1]))
    # Instructions and clock readings of each message.
    bounded = [(share.phase.name, (share.per_message(share.alone), share.per_message(share.phase.readings))) for share in shares]
    bounded += [(f"roce-{roce.name}", (crossing(roce), roce.readings / roce.messages)) for _, roce in pairs]
    print(f"{compiler}, {platform.machine()}\n")
    print_table(shares)
    if pairs:
        print_comparison(pairs)
    if options.profile:
        for share in shares:
            print_profile(share)
    if options.record:
        record(compiler, bounded)
    return check(compiler, bounded, pairs) if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
