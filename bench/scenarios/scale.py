# SPDX-License-Identifier: Apache-2.0
"""what grows with 10 to 100,000 receivers, with topics and with sessions, by simulation

One transmitter with flow=window sends 50,000 packets a second to receivers behind a trunk switch and leaf switches of 48 ports, each at
10 Gbit/s with a queue of 256 KiB (tests/sim/fabric.h). All receivers join at the same time. Then packets are lost: none; 0.01 % at the
port of each receiver, independently; or 0.1 % before the trunk switch, for all receivers. Time is virtual and the seed decides
everything, so these figures are the same in every run. Of topics and their late joiners likewise. What a message of one of many sessions
costs is processor time, over loop://.
"""
import json
import subprocess

from runner import options as opt
from runner import pair, plots
from runner.session import BIND, PACKAGES, RELEASE, Failed, Host, build, packages, say
from runner.tables import Report

SESSION_MESSAGES = 200000
DELIVERIES = 100000000  # of each number of receivers and kind of loss, at most
PACKETS = (3000, 50000)  # likewise, least and most

OPTIONS = (opt.numbers("receivers", "10,100,1000,10000,100000", 2, 200000, "receivers of one transmitter"),
           opt.number("packets", None, 100, 1000000, "packets that are sent to them (3,000 to 50,000, fewer to more receivers)"),
           opt.numbers("topics", "1000,10000", 100, 10000, "topics of a session, of which each receiver watches 1 %"),
           opt.number("joiners", 100, 1, 10000, "receivers that join that session late, at the same time"),
           opt.numbers("sessions", "1,10,100,1000", 1, 4000, "sessions of one receiver"),
           opt.number("seed", 1, 0, 1000000, "of the simulation"), pair.PLOT, *opt.OUTPUT)

LOSSES = {"none": "none", "port": "0.01 % at each port", "trunk": "0.1 % at the trunk"}


def simulate(bench, *words):
    """Runs the program. Returns its rows."""
    say("scale", *words)
    done = subprocess.run([*BIND, bench.programs / "scale", *map(str, words)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Failed(f"scale {words[0]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def machine_of(bench):
    process = bench.start(Host("", "", ""), "pairs", program="pairs")
    machine = process.ask("check")["machine"]
    bench.processes.finish(process)
    return machine


def us(name):
    return lambda row: "-" if row["repair_us"][name] is None else f"{row['repair_us'][name]:.0f}"


LOSS_COLUMNS = (("receivers", "", "receivers", None), ("loss", "", lambda row: LOSSES[row["loss"]], None),
                ("packets", "/s", "packets_per_s", 0), ("NAKs", "/s", "naks_per_s", 0), ("", "a lost packet", "naks_per_lost_packet", 2),
                ("STATUS", "/s", "status_per_s", 0), ("", "a packet", "status_per_packet", 3),
                ("repairs", "group /s", "repairs_multicast_per_s", 0), ("", "unicast /s", "repairs_unicast_per_s", 0),
                ("", "MB/s", lambda row: f"{row['repair_bytes_per_s'] / 1e6:.2f}", None),
                ("", "% of data", lambda row: f"{100 * row['repair_share']:.2f}", None),
                ("repaired", "median us", us("median"), None), ("after", "p99", us("p99"), None), ("", "max", us("max"), None),
                ("dropped", "by queues", lambda row: str(sum(row["drops"].values())), None))
JOIN_COLUMNS = (("receivers", "", "receivers", None), ("all known", "ms", "join.known_ms", 2), ("in 1 s", "STATUS", "join.status", 0),
                ("", "dropped", "join.drops", 0), ("transmitter", "KiB", "memory.transmitter_kib", 0),
                ("", "B a receiver", "memory.transmitter_bytes_per_receiver", 0), ("receiver", "KiB", "memory.receiver_kib", 0),
                ("longest call", "us", "transmitter.pause_us", 0))
TOPIC_COLUMNS = (("receivers", "", "receivers", None), ("topics", "", "topics", None), ("watched", "", "watched", None),
                 ("all known", "median ms", "known_ms.median", 1), ("", "max", "known_ms.max", 1), ("queries", "", "queries", None),
                 ("answers", "", "answers", None), ("sent", "MB", lambda row: f"{row['bytes_sent'] / 1e6:.2f}", None),
                 ("receiver", "KiB", "receiver_kib", 0), ("names", "KiB", "names_kib", 0))
SESSION_COLUMNS = (("sessions", "", "sessions", None), ("ns", "a message", "ns_per_message", 0), ("lost", "", "lost", None))


def packets_for(o, receivers):
    return o.packets or max(PACKETS[0], min(PACKETS[1], DELIVERIES // receivers))


def run(bench):
    o = bench.o
    packages(*PACKAGES)
    build(RELEASE, "-Dtests=false", "-Dexamples=false")
    losses = [row for receivers in o.receivers for row in simulate(bench, "losses", receivers, packets_for(o, receivers), o.seed)]
    topics = [row for count in o.topics for row in simulate(bench, "topics", o.joiners, count, o.seed)]
    sessions = [row for count in o.sessions for row in simulate(bench, "sessions", count, SESSION_MESSAGES, 0)]
    report, machine = Report(bench), machine_of(bench)
    report.write_json(machine, [*losses, *topics, *sessions])
    report.head(machine, "by simulation: 50,000 packets a second, all receivers joined at the same time")
    report.rows(LOSS_COLUMNS, losses)
    report.print()
    report.rows(JOIN_COLUMNS, [row for row in losses if row["loss"] == "none"])
    report.print()
    report.rows(TOPIC_COLUMNS, topics)
    report.print()
    report.rows(SESSION_COLUMNS, sessions)
    plots.scale(o.plot or bench.results / "scale.svg", bench.json)
    return report.finish()
