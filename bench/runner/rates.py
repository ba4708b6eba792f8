# SPDX-License-Identifier: Apache-2.0
"""The highest lossless rate over a pair, between blasts of the bare transport."""
from runner.session import say
from runner.tables import median, ratio, worst

TRIES = 10
STEP = 0.9  # next rate after a loss, relative to the rate reached
BLAST_SHARE = 12  # divisor of the duration for each of six blasts
BLAST_S_MIN = 0.1
ETHERNET_BYTES = 38  # header, check sequence, preamble and gap
WAYS = ("raw", "raw_segmented", "raw_kept")  # in the order of enum raw_way


def blast(pair, way, size):
    """Returns Gbit/s of datagrams received, or None if the way is not possible."""
    near, far = {"place": pair.raw[0, 1], "way": way, "size": size}, {"place": pair.raw[1, 1], "segmented": way != 0}
    if pair.o.no_raw or not pair.near.ask("blast", look=True, **near)["possible"]:
        return None
    pair.far.ask("blast", **far)
    pair.near.ask("blast", duration=max(pair.o.duration / BLAST_SHARE, BLAST_S_MIN), **near)
    came = pair.far.hear()
    return came["bytes"] * 8 / came["ns"] if came["ns"] else None


def find(near, far, size, least_ns=1, **words):
    """Sends flat out, then slower while messages are lost. Returns the number of tries, the answers of both ends, and messages a second."""
    pace = 0
    for tries in range(1, TRIES + 1):
        far.ask("sink", size=size, packed=words.get("packed"))
        sent = near.ask("pump", size=size, rate=pace or None, **words)
        came = far.ask("end", sent=sent["sent"], warmup=sent["warmup"])
        reached = came["measured"] * 1e9 / max(came["ns"], least_ns)
        if not came["lost"] + came["disordered"] or not reached:
            break
        pace = STEP * (pace if 0 < pace < reached else reached)
        say(f"  {came['lost']} messages lost; again at {pace:.0f} msg/s")
    return tries, sent, came, reached


def measure(pair, size, messages=None, topics=1, batch=None, raw=True):
    """One run of a row. Blasts, unless raw is false, come before and after libllm's turn, as the machine's speed drifts."""
    cores_ns = pair.cores_ns()
    before = [blast(pair, way, size) if raw else None for way in range(len(WAYS))]
    tries, sent, came, reached = find(pair.near, pair.far, size, duration=pair.o.duration, messages=messages, topics=topics, batch=batch)
    after = [blast(pair, way, size) if raw else None for way in range(len(WAYS))]
    bare = {name: None if None in both else sum(both) / 2 for name, both in zip(WAYS, zip(before, after))}
    gbit = reached * size * 8 / 1e9
    count = sent["sent"] - sent["warmup"]
    wire = sent["bytes"] + sent["packets"] * (ETHERNET_BYTES + pair.header_bytes)
    return {"sent": count, "received": count - came["lost"], "lost": came["lost"], "disordered": came["disordered"],
            "repaired_packets": sent["repaired"], "tries": tries, "msgs_per_s": reached, "payload_gbit_per_s": gbit,
            "wire_share": ratio(count * size, wire), "packet_bytes_mean": ratio(sent["bytes"], sent["packets"]),
            "messages_per_packet": ratio(count, sent["packets"]),
            **{f"{name}_gbit_per_s": bare[name] for name in WAYS},
            **{f"ratio_to_{name}": ratio(gbit, bare[name]) for name in WAYS},
            "transmitter_mib": sent["mib"], "receiver_mib": came["mib"], "transmitter_kernel": sent["kernel_share"],
            "receiver_kernel": ratio(came["kernel_ns"], came["ns"]),
            "core_wait_ms": (sent["waited_ns"] + came["waited_ns"]) / 1e6, "core_to_core_ns": cores_ns}


def fields(runs, average=median):
    """Averages over the runs; for losses and tries the worst."""
    return {name: (worst if name in ("lost", "disordered", "tries") else average)([run[name] for run in runs]) for name in runs[0]}
