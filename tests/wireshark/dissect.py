#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the Wireshark dissector by tshark over captures made from the test vectors of the wire, by hand, and from fuzzers' seeds.

    tests/wireshark/dissect.py SOURCE_DIR BUILD_DIR

Exit status: 0 if all is well, 77 with a word about why if tshark cannot be had.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

from packets import *  # pylint: disable=wildcard-import,unused-wildcard-import

MUTATIONS = 1500

# Session of most packets. The low half of its packet numbers wraps.
S = 0xa1a2a3a4b1b2b3b4
N = 0x1fffffffe
R = 0x99aabbccddeeff01
OTHER = 0x0102030405060708


class Tshark:
    """Runs it with the dissector of the source, without those installed for the user."""

    def __init__(self, source, scratch):
        self.scratch = scratch
        self.script = source / "tools" / "wireshark" / "llm.lua"
        self.environment = {**os.environ, "WIRESHARK_CONFIG_DIR": str(scratch), "HOME": str(scratch), "LC_ALL": "C.UTF-8"}

    def run(self, path, *options):
        done = subprocess.run(["tshark", "-n", "-X", f"lua_script:{self.script}", "-r", str(path), *options], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=self.environment, check=False)
        errors = [line for line in done.stderr.decode(errors="replace").splitlines() if "Running as user" not in line]
        if any("there cannot be two protocols" in line for line in errors):
            skip("a dissector llm is installed already, and cannot be told to stay away: remove its llm.lua (tshark -G folders)")
        if done.returncode != 0 or errors:
            sys.exit("tshark: " + "\n".join(errors or [str(done.returncode)]))
        text = done.stdout.decode(errors="replace")
        expect("Lua Error" not in text, "Lua error: " + next((line for line in text.splitlines() if "Lua Error" in line), ""))
        return text

    def capture(self, name, payloads, **more):
        path = self.scratch / f"{name}.pcap"
        capture(path, payloads, **more)
        return path

    def fields(self, path, *options):
        """Of each packet of libllm in each frame: the values of its fields, as lists."""
        found = []
        for element in xml.fromstring(self.run(path, "-T", "pdml", *options)).iter("packet"):
            protos = [proto for proto in element if proto.get("name") == "llm"]
            found.append([fields_of(proto) for proto in protos])
        return found

    def infos(self, path, *options):
        text = self.run(path, "-o", 'gui.column.format:"Protocol","%p","Info","%i"', *options)
        return [line.strip().split(None, 1) for line in text.splitlines()]


def fields_of(proto):
    values = {}
    for field in proto.iter("field"):
        values.setdefault(field.get("name"), []).append(field.get("show"))
    return values


def skip(why):
    print(why)
    sys.exit(77)


def expect(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def expect_fields(where, found, expected):
    for name, values in expected.items():
        values = [str(value) for value in (values if isinstance(values, list) else [values])]
        shown = found.get(f"llm.{name}", [])
        expect(shown == values, f"{where}: llm.{name} is {shown[:8]}, not {values}")


def experts_of(found):
    return {name[len("llm.expert."):] for name in found if name.startswith("llm.expert.")}


# --------------------------------------------------------------------------------------------------- the test vectors

ADDRESS = {"address.size": 7, "address.family": 4, "address.ipv4": "192.0.2.1", "address.port": 5001}
VECTOR_SESSION = {"session": "0x1122334455667788", "tag": "0x55667788", "version": 1}
VECTORS = {
    "DATA: an announcement and two messages": {
        "type": 1, "first": 0, "seq": 0x01020304, "number": 0x0a0b0c, "announcement.topic": 1, "announcement.name": "px", "topic": 1,
        "messages": 2, "message.size": [3, 0], "message.number": [0x0a0b0c, 0x0a0b0d], "message.topic": [1, 1],
        "message.topic_name": ["px", "px"], "message.data": "68:65:79"},
    "DATA: a summary and two messages with attributes": {
        "summary.size": 12, "summary.any": "0x01020304", "summary.all": "0x01020300", "summary.end": 46, "summary.count": 2,
        "property.code": 5, "property.type": 1, "property.value": "07:00:00:00",
        "attributes.size": [4, 14], "attributes.label": ["0x01020304", "0x01020300"], "attributes.bitmap": "01:80",
        "messages": 2, "message.size": [3, 0], "skipped.code": []},
    "DATA: 70 message numbers are skipped": {"number": 0x0a0b0c, "numbers.size": 4, "numbers.count": 70, "messages": 0, "skipped.code": []},
    "DATA: the last 2 bytes of a message begun before, then another": {
        "first": 2, "continued.data": "58:59", "continued.number": 0x0a0b0d, "message.number": 0x0a0b0e, "message.topic": 0},
    "DATA with an extension that version 1 does not know": {
        "flags": "0x80", "flags.extended": "1", "extension.size": 6, "extension.bytes": "de:ad:be:ef", "message.data": "7a"},
    "HEARTBEAT": {
        **VECTOR_SESSION, **ADDRESS, "type": 2, "heartbeat.lead_low": 0x01020304, "heartbeat.messages_low": 0x0a0b0c,
        "heartbeat.lead": 0x201020304, "heartbeat.trail": 0x201020300, "heartbeat.start": 0x2010202f0, "heartbeat.messages": 0x0a0b0c,
        "heartbeat.clock": 123456789, "heartbeat.interval": 10000, "heartbeat.rtt": 50000, "heartbeat.receivers": 3,
        "heartbeat.topics": 2, "heartbeat.report_packets": 512, "heartbeat.flags": "0x03", "heartbeat.flags.end": "1",
        "heartbeat.flags.young": "1", "heartbeat.flags.held": "0"},
    "HEARTBEAT of a session that continues a stream": {
        **VECTOR_SESSION, **ADDRESS, "type": 2, "flags": "0x01", "flags.stream": "1", "heartbeat.flags": "0x02",
        "heartbeat.stream": "0x123456789abcdef0", "heartbeat.base": 1000000, "heartbeat.term": 5, "trailing": []},
    "NAK": {
        **VECTOR_SESSION, **ADDRESS, "type": 3, "receiver": "0x99aabbccddeeff01", "nak.ranges": 2, "nak.first": [0xfffffffe, 16],
        "nak.count": [3, 1], "nak.first_packet": [0x1fffffffe, 0x200000010], "nak.last_packet": [0x200000000, 0x200000010],
        "nak.packets": 4, "token": "0x060708090a0b0c0d"},
    "DATA behind two packets that are not repaired": {
        "flags": "0x02", "flags.unrepaired": 2, "message.data": "7a"},
    "REJECT of packets that are not repaired": {
        **VECTOR_SESSION, "type": 4, "reject.reason": 3, "reject.first": [0x01020301, 0x01020306], "reject.count": [2, 1],
        "reject.packets": 3},
    "REJECT of packets of topics without history": {
        **VECTOR_SESSION, "type": 4, "reject.reason": 4, "reject.first": 0x01020310, "reject.count": 8, "reject.packets": 8},
    "REJECT": {
        **VECTOR_SESSION, "type": 4, "reject.trail": 0x201020300, "reject.reason": 1, "reject.ranges": 1, "reject.first": 0x010202f0,
        "reject.count": 4, "reject.first_packet": 0x2010202f0, "reject.last_packet": 0x2010202f3, "reject.packets": 4},
    "STATUS": {
        **VECTOR_SESSION, **ADDRESS, "type": 5, "receiver": "0x99aabbccddeeff01", "status.next": 0x201020302,
        "status.highest": 0x201020304, "status.behind": 2, "status.echo": 123456789, "status.hold": 1000, "status.lost": 5,
        "status.naks": 6, "status.dropped": 7, "status.window_free": 16384, "status.flags.done": "1", "status.flags.leaving": "0",
        "token": "0x060708090a0b0c0d"},
    "STATUS that tells what limits the receiver": {
        **VECTOR_SESSION, "type": 5, "status.flags.limited": "1", "status.limit": 2, "status.limit_time": 1001,
        "status.limit_away": 100, "status.limit_away_most": 5000, "status.limit_packets": 10000, "status.limit_missed": 8,
        "status.limit_dropped": 7},
    "TOPICS": {
        **VECTOR_SESSION, "type": 6, "topics.total": 3, "topics.first": 1, "topics.count": 2, "topics.id": [1, 2],
        "topics.name_size": [2, 5], "topics.name": ["px", "qty"], "topic.flags": "0x01"},
    "QUERY": {**VECTOR_SESSION, **ADDRESS, "type": 7, "receiver": "0x99aabbccddeeff01", "query.first": 1, "token": "0x060708090a0b0c0d"},
    "JOIN: the transmitter says where to begin": {
        **VECTOR_SESSION, "type": 8, "receiver": "0x99aabbccddeeff01", "join.kind": 2, "join.from": 2, "join.topics": 3,
        "join.value": 1000, "join.packet": 0x100000010, "join.number": 9, "join.wanted": 42, "join.lead": 0x100000020},
    "JOIN: a receiver fetches packets of the past": {
        **VECTOR_SESSION, **ADDRESS, "type": 8, "join.kind": 4, "join.ranges": 1, "join.first": [16], "join.count": [16],
        "join.packets": 16, "join.lead": 0x100000020},
    "JOIN: a receiver requests messages of last value caches": {
        **VECTOR_SESSION, **ADDRESS, "type": 8, "join.kind": 5, "join.from": 5, "join.value": 2, "join.number": 42, "join.wanted": 256,
        "join.from_topic": 7, "join.from_number": 41, "join.from_offset": 1000, "join.to_topic": 10000, "join.to_number": 0,
        "join.to_offset": 0},
    "JOIN: the transmitter gives a token, and knows too many receivers": {
        **VECTOR_SESSION, "type": 8, "join.kind": 6, "join.reason": 4, "join.value": 1024, "token": "0x060708090a0b0c0d"},
    "JOIN: a receiver asks stores for what follows message 1,000": {
        **VECTOR_SESSION, **ADDRESS, "type": 8, "receiver": "0x99aabbccddeeff01", "join.kind": 7, "join.from": 4, "join.value": 1000},
    "JOIN: a store offers what it has": {
        **VECTOR_SESSION, **ADDRESS, "type": 8, "join.kind": 8, "join.from": 4, "join.reason": 6, "join.value": 1000,
        "join.packet": 0x100000010, "join.number": 1000, "join.wanted": 1066, "join.lead": 0x100000020},
    "JOIN: a receiver recalls packets from a store": {
        **VECTOR_SESSION, **ADDRESS, "type": 8, "join.kind": 9, "join.ranges": 1, "join.first": [16], "join.count": [16],
        "join.packets": 16},
    "JOIN: a store lacks packets": {
        **VECTOR_SESSION, **ADDRESS, "type": 8, "join.kind": 10, "join.ranges": 1, "join.first": [18], "join.count": [2],
        "join.packets": 2, "join.packet": 0x100000010, "join.lead": 0x100000020},
    "LVC: messages of last value caches": {
        **VECTOR_SESSION, "type": 14, "receiver": "0x99aabbccddeeff01", "lvc.number": 42, "lvc.next": 47, "lvc.from_topic": 7,
        "lvc.from_number": 41, "lvc.from_offset": 1000, "lvc.to_topic": 10000, "lvc.left": 0, "lvc.records": 2,
        "record_topic": [7, 9], "record_number": [41, 3], "record_offset": [1000, 0], "record.size": [3, 3],
        "record.data": ["65:6e:64", "02:68:69"]},
    "NOTICE": {
        **VECTOR_SESSION, "type": 9, "receiver": "0x99aabbccddeeff01", "notice.decided": 123456789, "notice.lead": 0x201020304,
        "notice.value": 181034, "notice.limit": 150000, "notice.lag": 5000000, "notice.silent": 10000000, "notice.naks": 1000,
        "notice.asked": 181034, "notice.lag_packets": 300, "notice.receivers": 3, "notice.suffering": 1, "notice.rejoin": 10000,
        "notice.standing": 3, "notice.threshold": 2},
    "CONNECT": {
        **VECTOR_SESSION, **ADDRESS, "type": 10, "connect.session": "0x99aabbccddeeff01", "connect.message_bytes_max": 1048576,
        "connect.payload_size": 5, "connect.payload": "74:6f:6b:65:6e"},
    "ACCEPT": {
        **VECTOR_SESSION, **ADDRESS, "type": 11, "accept.session": "0x99aabbccddeeff01", "accept.start": 0x100010203,
        "accept.message_bytes_max": 1048576},
    "REFUSE": {**VECTOR_SESSION, "type": 12, "refuse.code": 403, "refuse.reason": 1},
    "CLOSE": {**VECTOR_SESSION, **ADDRESS, "type": 13, "close.reason": 4, "close.next": 0x201020302},
}

# Faulty vectors, and the experts that they raise.
VECTOR_FAULTS = {"DATA with a frame that is not used, behind which nothing can be read": {"frame"}}


def vectors_are_shown_field_by_field(tshark, build):
    packets = vectors(build / "tests" / "unit" / "unit_core_wire_wire")
    found = tshark.fields(tshark.capture("vectors", [bytes_of for _, bytes_of in packets]), "-o", f"llm.ports:{PORT}")
    for (name, _), (fields,) in zip(packets, found):
        faults = experts_of(fields) & {"malformed", "version", "type", "frame", "truncated"}
        expect(faults == VECTOR_FAULTS.get(name, set()), f"{name}: {faults}")
        expect_fields(name, fields, VECTORS.get(name, {}))
    expect(VECTORS.keys() <= {name for name, _ in packets}, "a test vector is gone")


# ------------------------------------------------------------------------------------------------------- a story

LONG = bytes(5000)
FRAMES = announcement(0, b"px") + announcement(300, b"qty") + b"\x03abc" + b"\xc1\x2c" + b"\x80\xc8" + bytes(200) + \
    b"\xe2\x2c\x01\x00\x00" + b"\xe1" + struct.pack("<I", len(LONG)) + LONG[:100]
TAIL = LONG[1100:] + b"\xe0" * 5 + b"\xf5\x03\x00xyz" + b"\x01z"
TRAIN = data(S, N + 8, 7, b"\x02hi") + data(S, N + 4, 5, b"\x02am") + data(S, N + 9, 8, b"\x01!")
X = 0x5555555577777777  # of what is malformed

# Each frame with its shown fields and the experts that it raises.
STORY = [
    (heartbeat(S, N, clock=1000, flags=YOUNG), {"heartbeat.lead": N, "heartbeat.flags.young": "1"}, set()),
    (data(S, N, 0, FRAMES),
     {"packet": N, "session": hex(S), "messages": 3, "message.number": [0, 1, 2], "message.size": [3, 200, 5000],
      "message.topic": [0, 300, 300], "message.topic_name": ["px", "qty", "qty"], "message.left": 4900, "topic": [300, 300],
      "announcement.topic": [0, 300], "announcement.name": ["px", "qty"], "announcement.size": [6, 7]}, set()),
    (data(S, N + 1, 3, LONG[:1000], first=1000),
     {"packet": N + 1, "messages": 0, "continued.number": 2, "continued.size": 5000, "continued.left": 3900, "continued.frame": 2,
      "continued.topic": 300}, set()),
    (data(S, N + 2, 3, TAIL, first=3900),
     {"packet": N + 2, "seq": 0, "continued.number": 2, "continued.left": [], "continued.frame": 2, "padding": "e0:e0:e0:e0:e0",
      "skipped.code": "0xf5", "skipped.size": 3, "skipped.bytes": "78:79:7a", "message.number": 3, "message.topic": 0}, set()),
    (data(S, N + 5, 6, b"\x01m"), {"analysis.missing": 2, "analysis.missing_first": 1, "analysis.outstanding": 2}, {"missing"}),
    (nak(S, R, [(N + 3, 3)]),
     {"nak.first": 1, "nak.first_packet": N + 3, "nak.last_packet": N + 5, "address.ipv6": "fd77::2", "address.port": 5002,
      "analysis.nak_captured": 1},
     {"nak"}),
    (data(S, N + 3, 4, b"\x01m"), {"analysis.late": "1", "analysis.nak_frame": 6, "analysis.nak_time": "0.001000000",
                                   "analysis.outstanding": 1}, {"late"}),
    (data(S, N + 4, 5, b"\x02am"), {"analysis.late": "1", "analysis.nak_frame": 6, "analysis.outstanding": 0}, {"late"}),
    (data(S, N + 4, 5, b"\x02am"), {"analysis.repeats": 8, "analysis.late": [], "analysis.outstanding": []}, {"repeated"}),
    (heartbeat(S, N + 8, 7, start=N, trail=N, clock=2000, flags=HELD),
     {"analysis.missing": 2, "analysis.missing_first": 4, "analysis.outstanding": 2}, {"missing", "held"}),
    (status(S, R, N + 6, N + 8, echo=2000, hold=250000, lost=2, dropped=1),
     {"analysis.heartbeat_frame": 10, "analysis.rtt": "0.000750000", "status.behind": 2}, {"lost", "dropped"}),
    (status(S, R, N + 8, N + 8, echo=999, lost=2, dropped=1, flags=1), {"analysis.heartbeat_frame": []}, {"leaving"}),
    (reject(S, N + 8, GONE, [(N + 6, 2)]), {"reject.first_packet": N + 6, "reject.packets": 2}, {"gone"}),
    (reject(S, N, PENDING, []), {"reject.reason": 2}, {"pending"}),
    (heartbeat(S ^ 1 << 63, N + 1000), {}, {"foreign"}),
    (TRAIN, {"packet": N + 8, "train": 3, "message.data": "68:69"}, set()),
    (heartbeat(S, N + 10, 9, start=N, flags=END, address=bytes(range(12))),
     {"address": "00:01:02:03:04:05:06:07:08:09:0a:0b", "address.port": [], "analysis.missing": []}, {"end"}),
    (query(S, R, 1), {"query.first": 1, "token": "0x0000000000000000"}, set()),
    (topics(S, 402, 400, [b"", "grün".encode()]), {"topics.name": "grün", "topics.id": [400, 401], "topics.name_size": [0, 5]}, set()),
    (data(S, N + 10, 9, b"\x01a" + b"\xe1" + struct.pack("<I", 10) + b"xy"), {"message.left": 8}, set()),
    (data(S, N + 11, 11, b"abc\x01a", first=3), {"continued.size": [], "continued.data": "61:62:63"}, {"broken"}),
    (sized(heartbeat(S, N + 12, 12) + b"new"), {"trailing": "6e:65:77"}, set()),
    (packet(DATA, X, version=3), {"version": 3, "seq": []}, {"version"}),
    (packet(15, X), {"type": 15, "seq": []}, {"type"}),
    (data(X, 1, 0, b"\x01a\xe5more"), {"message.data": "61", "unreadable": "e5:6d:6f:72:65"}, {"frame"}),
    (data(X, 2, 0, b"\x01a", first=3), {"messages": []}, {"malformed"}),
    (bytes(10), {}, {"malformed"}),
    (heartbeat(X, N, trail=N + 1), {}, {"malformed"}),
    (heartbeat(X, 1 << 63), {}, {"malformed"}),
    (nak(X, R, [(1, 1)] * 65), {"nak.ranges": 65, "nak.first": []}, {"malformed"}),
    (sized(nak(X, R, [(1, 1)])[:-9]), {}, {"malformed"}),
    (nak(X, R, [], address=bytes(32)), {"address.size": 32}, {"malformed"}),
    (status(X, R, 2, 1), {}, {"malformed"}),
    (topics(X, 1, 1, [b"a"]), {}, {"malformed"}),
    (packet(QUERY, X + 1, query(X, R, 1)[16:]), {}, {"malformed"}),
    (packet(DATA, X, extension=b"\x09\x00a", flags=0x80), {"extension.size": 9}, {"malformed"}),
    (packet(DATA, X, extension=b"\x01\x00a", flags=0x80), {"extension.size": 1}, {"malformed"}),
    (data(X, 2, 0, b"\xf0\x04\x00abcd"), {}, {"malformed"}),
    (data(X, 3, 0, b"\xe1\x01\x00\x00\x01"), {}, {"malformed"}),
    (data(X, 4, 0, b"\x80"), {}, {"malformed"}),
    (notice(X, R, lead=1 << 63), {}, {"malformed"}),
    (notice(X, R, standing=5), {}, {"malformed"}),
    (notice(X, R, threshold=10), {}, {"malformed"}),
    (connect(X, b"x" * 513), {"connect.payload_size": 513}, {"malformed"}),
    (sized(connect(X, b"xyz")[:-1]), {"connect.payload": []}, {"malformed"}),
    (data(X, 5, 0, b"\x01a") + b"b", {"size": 20, "seq": 5, "messages": []}, {"malformed"}),
    (nak(X, R, [(1, 1)])[:-1], {"nak.ranges": []}, {"malformed"}),
    (sized(data(X, 6, 0, b"")[:17]), {"first": []}, {"malformed"}),
]
STORY_BROKEN = list(range(23, len(STORY) + 1))  # from there on packets are of no use


def story_is_told(tshark, *options):
    found = tshark.fields(tshark.scratch / "story.pcap", "-o", f"llm.ports:{PORT}", *options)
    for number, (packets, (_, fields, experts)) in enumerate(zip(found, STORY), 1):
        expect(packets, f"frame {number} is not dissected")
        expect_fields(f"frame {number}", packets[0], fields)
        expect(experts_of(packets[0]) == experts, f"frame {number}: experts {experts_of(packets[0])}, not {experts}")
    train = found[15]
    expect([fields["llm.packet"] for fields in train] == [[str(N + 8)], [str(N + 4)], [str(N + 9)]], "a train is taken apart")
    expect(train[1]["llm.analysis.repeats"] == ["8"], "a repair in a train is not found")


def runs_of_naks_are_taken_apart(tshark):
    """A receiver with more ranges than fit into a NAK sends several at once."""
    naks = nak(S, R, [(N + at, 1) for at in range(0, 128, 2)]) + nak(S, R, [(N + at, 1) for at in range(128, 152, 2)])
    (found,) = tshark.fields(tshark.capture("naks", [naks]), "-o", f"llm.ports:{PORT}")
    expect([fields["llm.nak.packets"] for fields in found] == [["64"], ["12"]], "a run of NAKs is taken apart")


def documented(source):
    """The names in each row of the table in docs/wireshark.md; `.x` is a sibling or a child of the row's first one."""
    for line in (source / "docs" / "wireshark.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `llm."):
            names = re.findall(r"`(\.?[a-z][\w.]*|\.[\w.]+)`", line.split("|")[1])
            for name in names:
                first = names[0]
                yield {name} if name.startswith("llm.") else {first + name, first.rsplit(".", 1)[0] + name}


def fields_are_documented(tshark, source):
    seen = set()
    tshark.capture("story_cut", [packet for packet, _, _ in STORY], snap=80)
    for name in "story", "vectors", "story_cut", "protected":
        for packets in tshark.fields(tshark.scratch / f"{name}.pcap", "-o", f"llm.ports:{PORT}"):
            seen.update(name for fields in packets for name in fields if name.startswith("llm."))
    known = list(documented(source))
    missing = seen - set().union(*known)
    expect(not missing, f"docs/wireshark.md lacks {sorted(missing)}")
    for names in known:
        expect(names & seen, f"docs/wireshark.md has {sorted(names)}, which no test shows")


def quoted_packets_are_not_counted(tshark):
    """An ICMP error for a closed port quotes a packet."""
    path = tshark.scratch / "quoted.pcap"
    sent = frame(STORY[1][0], PORT, 40000)
    capture_frames(path, [sent, icmp_error(sent), sent])
    first, quoted, again = tshark.fields(path, "-o", f"llm.ports:{PORT}")
    expect_fields("a packet quoted by an ICMP error", quoted[0], {"seq": first[0]["llm.seq"], "analysis.repeats": []})
    expect_fields("a packet behind the one quoted", again[0], {"analysis.repeats": 1})


FILTERS = {
    "llm": list(range(1, len(STORY) + 1)),
    f"llm.session == {hex(S)}": list(range(1, 15)) + list(range(16, 23)),
    "llm.type == 3": [6, 30, 31, 32, 47],
    "llm.seq == 2": [8, 9, 16, 26, 38],
    f"llm.packet == {N + 4}": [8, 9, 16],
    "llm.nak.first == 1 && llm.receiver": [6],
    f"llm.nak.first_packet <= {N + 4} && llm.nak.last_packet >= {N + 4}": [6],
    "llm.address.port == 5002": [6, 31],
    "llm.message.number == 2 || llm.continued.number == 2": [2, 3, 4],
    "llm.message.topic_name == \"qty\"": [2],
    "llm.message.data contains \"abc\"": [2],
    "llm.message.size > 1000": [2],
    "llm.analysis.missing": [5, 10],
    "llm.analysis.nak_captured < llm.nak.packets": [6],
    "llm.analysis.late": [7, 8],
    "llm.analysis.repeats": [9, 16],
    "llm.analysis.nak_time >= 0.001": [7, 8, 9, 16],
    "llm.train": [16],
    "llm.heartbeat.flags.end == 1": [17],
    "llm.heartbeat.flags.held == 1": [10],
    "llm.reject.reason == 1": [13],
    "llm.status.lost > 0": [11, 12],
    "llm.expert.lost": [11],
    "llm.expert.malformed || llm.expert.version || llm.expert.type || llm.expert.frame": STORY_BROKEN,
    "llm.topics.name == \"grün\"": [19],
}


def filters_select_what_they_say(tshark):
    script = pathlib.Path(__file__).resolve().parent / "filters.lua"
    options = ["-X", f"lua_script:{script}"] + [part for text in FILTERS for part in ("-X", f"lua_script2:{text}")]
    text = tshark.run(tshark.scratch / "story.pcap", "-q", "-d", f"udp.port=={PORT},llm", *options)
    found = dict(line.split("\t")[1:] for line in text.splitlines() if line.startswith("filter\t"))
    for name, frames in FILTERS.items():
        expect(found.get(name) == " ".join(map(str, frames)), f"{name} selects {found.get(name)}, not {frames}")


INFOS = {
    1: f"HEARTBEAT lead {N}, trail {N}, 3 receivers, answers to 192.0.2.1:5001, YOUNG",
    2: f'DATA {N}, 3 messages 0..2 on "px", "qty", announces "px", "qty", 2 goes on',
    3: f"DATA {N + 1}, 2 continues",
    4: f'DATA {N + 2}, 2 ends, 1 message 3 on "px"',
    5: f'DATA {N + 5}, 1 message 6 on "px", [2 packets missing from {N + 3} on]',
    6: f"NAK asks for 3 packets {N + 3}..{N + 5}, to [fd77::2]:5002, [1 of them captured before]",
    9: f'DATA {N + 4}, 1 message 5 on "px", [repeats frame 8], [asked for in frame 6]',
    11: f"STATUS next {N + 6}, behind by 2, lost 2, dropped 1",
    13: f"REJECT GONE: 2 packets {N + 6}..{N + 7}, trail {N + 8}",
    16: f'3 packets: DATA {N + 8}, 1 message 7 on "px" ... DATA {N + 9}, 1 message 8 on "px"',
    23: "libllm [version 3]",
    28: "HEARTBEAT [start, trail and lead are not in order, or beyond 2^63]",
}


def info_column_can_be_read(tshark):
    infos = tshark.infos(tshark.scratch / "story.pcap", "-d", f"udp.port=={PORT},llm")
    for number, text in INFOS.items():
        expect(infos[number - 1] == ["LLM", text], f"frame {number}: {infos[number - 1]}, not {text}")


# -------------------------------------------------------------------------------------------------------- heuristics

FOREIGN = [
    b"", b"\x11", b"hello, world, this is text", bytes(16), bytes(200), b"\x11" * 64, b"\xff" * 64,
    sized(bytes.fromhex("11000000") + bytes(60)),                      # looks like data, and is followed by nothing that goes on
    sized(bytes.fromhex("1100000001000000 05000000 00000000") + bytes(20)),
    sized(bytes.fromhex("1100000001000000 06000000 00000000") + bytes(20)),  # goes on, but by a count only
    packet(DATA, X, seq=5), packet(DATA, X, seq=6),              # nothing but a count that goes on
    packet(NAK, X, nak(X + 1, R, [])[16:]),                      # another tag than its session's
    heartbeat(X, N, trail=N + 1), packet(15, X), packet(DATA, X, version=3),
    b"MOLDSESSN1" + struct.pack(">QH", 1, 1) + struct.pack(">H", 4) + b"ITCH",
    heartbeat(X, N)[:60],
]


def heuristics_take_what_is_certain(tshark):
    random_of = random.Random(1)
    foreign = FOREIGN + [random_of.randbytes(random_of.randint(0, 200)) for _ in range(500)] + \
        [sized(b"\x11\x00" + random_of.randbytes(random_of.randint(2, 200))) for _ in range(500)]
    own = [packet for packet, _, _ in STORY[:22]]
    other = [data(OTHER, 7, 7, b"\x01a"), data(OTHER, 8, 8, b"\x01a\x01b"), data(OTHER, 9, 10, b"\x01a")]
    taken = [protocol == "LLM" for protocol, *_ in tshark.infos(tshark.capture("foreign", foreign))]
    expect(not any(taken), f"takes foreign packets, the first {foreign[taken.index(True) if any(taken) else 0].hex()}")
    taken = [protocol == "LLM" for protocol, *_ in tshark.infos(tshark.capture("own", other + own))]
    expect(taken == [False] + [True] * 24, f"heuristics take {taken}")


# ------------------------------------------------------------------------------------------------------- hostile bytes


def protected_packets_show_what_is_in_clear(tshark):
    # The vector of docs/protocol.md section 14.6, and a heartbeat whose body nobody here can read.
    data_packet = bytes.fromhex("21002b008877665505000000090000000000ae8bc2f0ec07000101a06af0905bcd19f1d1cb92f95991cbff")
    body = bytes(range(70)) + struct.pack("<QQHBB", R, 12345, 8, 3, 2) + bytes(16)
    path = tshark.capture("protected", [data_packet, packet(HEARTBEAT, S, body, version=2), data_packet * 2])
    for options in (("-o", f"llm.ports:{PORT}"), ()):
        first, second, third = tshark.fields(path, *options)
        expect_fields("protected DATA", first[0], {
            "version": 2, "type": 1, "seq": 5, "number": 9, "first": 0, "protected.body": "ae:8b:c2:f0:ec", "protected.epoch": 7,
            "protected.suite": 1, "protected.mode": 1, "protected.sender": [], "messages": [], "session": [],
            "protected.tag": "a0:6a:f0:90:5b:cd:19:f1:d1:cb:92:f9:59:91:cb:ff"})
        expect_fields("protected HEARTBEAT", second[0], {
            "version": 2, "type": 2, "protected.sender": f"{R:#018x}", "protected.counter": 12345, "protected.epoch": 8,
            "protected.suite": 3, "protected.mode": 2, "heartbeat.lead": []})
        expect(len(third) == 2 and not experts_of(third[1]), "a train of protected packets is not taken apart")
    cut = tshark.fields(tshark.capture("protected_cut", [sized(data_packet[:30])]), "-o", f"llm.ports:{PORT}")
    expect("malformed" in experts_of(cut[0][0]), "a protected packet that is too short is not malformed")


def seeds(build, scratch):
    """Seeds of all fuzzers, and their past findings."""
    found = [bytes_of for _, bytes_of in vectors(build / "tests" / "unit" / "unit_core_wire_wire")] + [packet for packet, _, _ in STORY]
    for replay in sorted((build / "tests" / "fuzz").glob("replay_*")):
        if replay.is_file():
            corpus = scratch / replay.name
            corpus.mkdir()
            subprocess.run([replay, "--write", corpus], check=True)
            found += [path.read_bytes()[:1400] for path in sorted(corpus.iterdir())]
    return found


def hostile_bytes_do_no_harm(tshark, build, source):
    packets = seeds(build, tshark.scratch)
    findings = source / "tests" / "fuzz" / "findings"
    packets += [path.read_bytes()[:1400] for path in sorted(findings.rglob("*")) if path.is_file()]
    packets += [mutated(packets[at % len(packets)], at) for at in range(MUTATIONS)]
    for name, snap in ("hostile", 65535), ("cut", 90):
        path = tshark.capture(name, packets, snap=snap)
        text = tshark.run(path, "-O", "llm", "-V", "-o", f"llm.ports:{PORT}")
        expect(text.count("\nlibllm reliable multicast,") >= len([packet for packet in packets if packet]),
               f"{name}: not every packet is dissected")
    expect("[captured in part]" in text, "what is cut is not called so")


def main(source, build):
    source, build = pathlib.Path(source).resolve(), pathlib.Path(build).resolve()
    if shutil.which("tshark") is None:
        skip("tshark is missing: someone with root has to run: apt-get install tshark")
    with tempfile.TemporaryDirectory() as scratch:
        tshark = Tshark(source, pathlib.Path(scratch))
        tshark.capture("story", [packet for packet, _, _ in STORY])
        vectors_are_shown_field_by_field(tshark, build)
        story_is_told(tshark)
        story_is_told(tshark, "-2")
        runs_of_naks_are_taken_apart(tshark)
        protected_packets_show_what_is_in_clear(tshark)
        fields_are_documented(tshark, source)
        quoted_packets_are_not_counted(tshark)
        filters_select_what_they_say(tshark)
        info_column_can_be_read(tshark)
        heuristics_take_what_is_certain(tshark)
        hostile_bytes_do_no_harm(tshark, build, source)


if __name__ == "__main__":
    main(*sys.argv[1:3])
