# SPDX-License-Identifier: Apache-2.0
"""the hop on one group while many others are loaded

Another pair of processes loads the other groups.
"""
import time

from runner import hops
from runner import options as opt
from runner import pair
from runner.tables import median, ratio, worst

SETTLE_S = 1.0  # within this time the kernel repeats its reports of joined groups
DRAIN_S = 0.05  # until the load's receiver has all messages
LOAD = {"msgs_per_s": None, "lost": None, "transmitter_cpu_percent": None, "receiver_cpu_percent": None}
# No heartbeats and reports during a row: at the default intervals a thousand groups would carry tens of thousands of packets a second, at
# any load. Little memory, since there are many transmitters: 16 packets of the greatest size.
QUIET = {**dict.fromkeys(("heartbeat_ns_min", "heartbeat_ns_busy", "heartbeat_ns_max"), 10 ** 10),
         **dict.fromkeys(("silence_ns", "session_timeout_ns", "status_ns"), 6 * 10 ** 10), "linger_ns": 0, "history_bytes": 163840,
         "history_packets": 64, "window_packets": 64, "reorder_bytes": 65536, "topics_max": 16, "receivers_max": 16, "sessions_max": 16,
         "message_bytes_max": 4096, "rcvbuf_bytes": 1048576, "sndbuf_bytes": 1048576}
OPTIONS = (opt.size(), opt.number("rate", 100000, 1, 100000000, "messages a second on the measured group"),
           opt.numbers("groups", "1,16,64,256,512,1000", 0, 4000, "other groups"),
           opt.number("load", 1000, 1, 100000, "messages a second on all other groups together"), *pair.options())


class Load:
    """The other pair of processes, in the forward direction, on the ports of the measured channel."""

    def __init__(self, bench, ends):
        a, b = bench.hosts.a, bench.hosts.b
        self.rate = bench.o.load
        quiet = "&".join(f"{key}={value}" for key, value in QUIET.items())
        for host, transmits in ((a, True), (b, False)):
            place, _, options = ends.channel(host, 1).partition("?")
            scheme, port = place.split("://")[0], place.rsplit(":", 1)[1]
            process = bench.start(host, "load", channel=f"{scheme}://239.193:{port}?{options}&{quiet}", transmits=transmits, size=bench.o.size)
            setattr(self, "transmitter" if transmits else "receiver", process)

    def begin(self, groups):
        """Starts the receiver first, as it cannot get packets of groups that it has not joined."""
        for process in (self.receiver, self.transmitter):
            process.ask("load", groups=groups, rate=self.rate if process is self.transmitter else 0)
        time.sleep(SETTLE_S)

    def end(self):
        """Stops the transmitter first, so that no message is missed. Returns the results."""
        near = self.transmitter.ask("load", groups=0)
        time.sleep(DRAIN_S)
        far = self.receiver.ask("load", groups=0)
        return {"msgs_per_s": near["messages"] * 1e9 / near["ns"], "lost": near["messages"] - far["messages"],
                "transmitter_cpu_percent": 100 * near["cpu_ns"] / near["ns"], "receiver_cpu_percent": 100 * far["cpu_ns"] / far["ns"]}


COLUMNS = (("", "groups", "groups", None), ("load", "msg/s", "load.msgs_per_s", 0), ("load", "lost", "load.lost", 0),
           ("load A", "CPU %", "load.transmitter_cpu_percent", 1), ("load B", "CPU %", "load.receiver_cpu_percent", 1),
           ("to", "first", "ratio_to_first", 3))


def run(bench):
    o, ends, first = bench.o, pair.Pair(bench), []

    def measure(_bench, _run, groups):
        if groups:
            load.begin(groups)
        hop = hops.Hop(ends, o.size, o.rate)
        return hop, load.end() if groups else LOAD

    def fields(groups, runs):
        loads, hop = [one for _, one in runs], [one for one, _ in runs]
        # Compare within a run, as the machine's speed drifts between runs.
        medians = [one.rtt.summary(2)["median"] for one in hop]
        first.extend([] if first else medians)
        found = {name: (worst if name == "lost" else median)(one[name] for one in loads) for name in LOAD}
        return {"groups": groups, "load": found, "ratio_to_first": median(map(ratio, medians, first))}, hop

    ends.prepare()
    load = Load(bench, ends)
    ends.start()
    found = bench.turns([(groups,) for groups in o.groups], measure,
                        f"{len(o.groups)} numbers of groups for {o.duration:g} s each, and bare UDP for half as long")
    status = hops.sweep(ends, found, fields, COLUMNS, f"{o.rate} msg/s of {o.size} B on one group, {o.load} msg/s on the others together")
    bench.processes.finish(load.transmitter, load.receiver)
    return status
