# SPDX-License-Identifier: Apache-2.0
"""what grows with 10 to 100,000 receivers, with topics and with sessions, by simulation

One transmitter with flow=window sends 50,000 packets a second to receivers behind a trunk switch and leaf switches of 48 ports, each at
10 Gbit/s with a queue of 256 KiB (tests/sim/fabric.h). All receivers join at the same time. Then packets are lost: none; 0.01 % at the
port of each receiver, independently; or 0.1 % before the trunk switch, for all receivers. Time is virtual and the seed decides
everything, so these figures are the same in every run. Of topics and their late joiners likewise. What a message of one of many sessions
costs is processor time, over loop://.

Then real receivers, contexts of four processes on four hosts at a switch (namespaces) or over shared memory, which lose packets on purpose,
beside the simulation of as many at the same rate and loss: reports, NAKs and repairs a second of the transmitter, and their ratios.
"""
import json
import subprocess
import time

from runner import options as opt
from runner import pair, plots
from runner.session import BIND, PACKAGES, RELEASE, Failed, Host, Hosts, build, memory_directory, packages, say
from runner.tables import Report, ratio

SESSION_MESSAGES = 200000
DELIVERIES = 100000000  # of each number of receivers and kind of loss, at most
PACKETS = (3000, 50000)  # likewise, least and most

OPTIONS = (opt.numbers("receivers", "10,100,1000,10000,100000", 2, 200000, "receivers of one transmitter"),
           opt.number("packets", None, 100, 1000000, "packets that are sent to them (3,000 to 50,000, fewer to more receivers)"),
           opt.numbers("topics", "1000,10000", 100, 10000, "topics of a session, of which each receiver watches 1 %"),
           opt.number("joiners", 100, 1, 10000, "receivers that join that session late, at the same time"),
           opt.numbers("sessions", "1,10,100,1000", 1, 4000, "sessions of one receiver"),
           opt.number("real", 200, 0, 240, "real receivers beside the simulation of as many; 0: none"),
           opt.words("transport", "udp,shm", ("udp", "shm"), "of the real receivers"),
           opt.seconds("duration", 4, 100, 3600000, "of the real traffic"),
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


REAL_RATE, REAL_LOSS_PPM, REAL_SIZE, REAL_HOSTS = 500, 5000, 300, 4
DRAIN_S = 0.2
SETTLE_S, SETTLE_S_MAX = 0.025, 30  # for each receiver, and at most
# Sizes for many receivers on one machine.
SMALL = "history_bytes=4M&reorder_bytes=256K&sessions_max=2&topics_max=16&rcvbuf_bytes=1M&gro=0"
COUNTERS = {"status": "status_received", "naks": "naks_received", "repairs": "packets_repaired"}
REAL_COLUMNS = (("transport", "", "transport", None), ("receivers", "", "receivers", None),
                *(column for name, head in (("status", "STATUS/s"), ("naks", "NAKs/s"), ("repairs", "repairs/s"))
                  for column in ((head, "real", f"real_per_s.{name}", 1), ("", "simulated", f"simulated_per_s.{name}", 1),
                                 ("", "ratio", f"ratio.{name}", 2))), ("lost", "", "lost", None))


def real(bench, transport):
    """Figures of real receivers: messages received, and packets a second of the transmitter."""
    o = bench.o
    hosts = bench.hosts.all if transport == "udp" else [Host("", "", "")] * (1 + REAL_HOSTS)
    base = "239.192.1.1:5001?" if transport == "udp" else f"scale?shm_directory={memory_directory()}&"
    receivers = []
    for at in range(REAL_HOSTS):
        count = o.real // REAL_HOSTS + (at < o.real % REAL_HOSTS)
        channels = [f"impair+{transport}://{base}interface={hosts[1 + at].interface}&{SMALL}&impair_loss_ppm={REAL_LOSS_PPM}"
                    f"&impair_seed={at * 1000 + i + 1}".replace("interface=&", "") for i in range(count)]
        receivers += [bench.start(hosts[1 + at], "receivers", f"receivers-{at}", channels=channels, size=REAL_SIZE)] if channels else []
    sender = bench.start(hosts[0], "transmitter", size=REAL_SIZE,
                         channel=f"{transport}://{base}interface={hosts[0].interface}&flow=window".replace("interface=&", ""))
    sender.ask("await", receivers=o.real)
    # As the simulation: until most of them report as rarely as their number asks for.
    time.sleep(min(o.real * SETTLE_S, SETTLE_S_MAX))
    before = sender.ask("stats", counters=list(COUNTERS.values()))["counters"]
    sender.ask("send", rate=REAL_RATE, duration=o.duration, round=1, drain=DRAIN_S)
    after = sender.ask("stats", counters=list(COUNTERS.values()))
    answers = bench.finish(sender)
    return {"sent": after["sent"], "tracks": [track for one in receivers for track in answers[one.name]["receivers"]],
            "per_s": {name: (after["counters"][counter] - before[counter]) / (o.duration + DRAIN_S) for name, counter in COUNTERS.items()}}


def real_row(bench, transport):
    o = bench.o
    packets = int(REAL_RATE * o.duration)
    found, (simulated,) = real(bench, transport), simulate(bench, "port", o.real, packets, o.seed, REAL_RATE, REAL_LOSS_PPM)
    beside = {"status": simulated["status_per_s"], "naks": simulated["naks_per_s"],
              "repairs": simulated["repairs_multicast_per_s"] + simulated["repairs_unicast_per_s"]}
    received = sum(track["received"] for track in found["tracks"])
    return {"what": "real", "transport": transport, "receivers": o.real, "sent": found["sent"], "received": received,
            "lost": found["sent"] * o.real - received, "real_per_s": found["per_s"], "simulated_per_s": beside,
            "ratio": {name: ratio(found["per_s"][name], beside[name]) for name in COUNTERS}}


def run(bench):
    o = bench.o
    packages(*PACKAGES)
    build(RELEASE, "-Dtests=false", "-Dexamples=false")
    losses = [row for receivers in o.receivers for row in simulate(bench, "losses", receivers, packets_for(o, receivers), o.seed)]
    topics = [row for count in o.topics for row in simulate(bench, "topics", o.joiners, count, o.seed)]
    sessions = [row for count in o.sessions for row in simulate(bench, "sessions", count, SESSION_MESSAGES, 0)]
    if o.real and "udp" in o.transport:
        bench.hosts = Hosts(five=True)
    reals = [real_row(bench, transport) for transport in o.transport if o.real]
    report, machine = Report(bench), machine_of(bench)
    report.write_json(machine, [*losses, *topics, *sessions, *reals])
    report.head(machine, "by simulation: 50,000 packets a second, all receivers joined at the same time")
    report.rows(LOSS_COLUMNS, losses)
    report.print()
    report.rows(JOIN_COLUMNS, [row for row in losses if row["loss"] == "none"])
    report.print()
    report.rows(TOPIC_COLUMNS, topics)
    report.print()
    report.rows(SESSION_COLUMNS, sessions)
    if reals:
        report.print("", f"real receivers, {REAL_RATE} packets a second, each lost by {REAL_LOSS_PPM / 10000} % of the receivers", "")
        report.rows(REAL_COLUMNS, reals)
    for row in reals:
        if row["lost"]:
            report.fail(f"{row['receivers']} receivers over {row['transport']}: {row['lost']} messages lost")
    plots.scale(o.plot or bench.results / "scale.svg", bench.json)
    return report.finish()
