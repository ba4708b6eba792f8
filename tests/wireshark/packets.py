# SPDX-License-Identifier: Apache-2.0
"""Packets by hand, from docs/protocol.md, and captures of them."""
import random
import re
import struct
import subprocess

DATA, HEARTBEAT, NAK, REJECT, STATUS, TOPICS, QUERY = range(1, 8)
NOTICE, CONNECT = 9, 10
END, YOUNG, HELD = 1, 2, 4
GONE, PENDING, UNREPAIRED, PASSED = 1, 2, 3, 4
PORT = 5003
NO_TOKEN = bytes(8)
IPV4 = bytes([4, 192, 0, 2, 1]) + struct.pack(">H", 5001)
IPV6 = bytes([6]) + bytes.fromhex("fd77" + 13 * "00" + "02") + struct.pack(">H", 5002)


def packet(kind, tag, body=b"", version=1, flags=0, first=0, seq=0, number=0, extension=b""):
    if kind == DATA:
        body = extension + struct.pack("<H", first) + body
    return struct.pack("<BBHIII", version << 4 | kind, flags, 16 + len(body), tag & 0xffffffff, seq & 0xffffffff,
                       number & 0xffffffff) + body


def sized(changed):
    """Sets the size field of a truncated or extended packet."""
    return changed[:2] + struct.pack("<H", len(changed)) + changed[4:]


def data(session, seq, number, body, first=0, unrepaired=0):
    return packet(DATA, session, body, flags=unrepaired, first=first, seq=seq, number=number)


def heartbeat(session, lead, messages=0, trail=None, start=None, clock=0, flags=0, address=IPV4):
    body = struct.pack("<QQQQQQIIIIIBB", session, lead, lead if trail is None else trail, lead if start is None else start, messages,
                       clock, 10000, 50000, 3, 2, 512, flags, len(address)) + address
    return packet(HEARTBEAT, session, body, seq=lead, number=messages)


def ranges_of(ranges):
    return b"".join(struct.pack("<II", first & 0xffffffff, count) for first, count in ranges)


def nak(session, receiver, ranges, address=IPV6):
    return packet(NAK, session, struct.pack("<QQBBH", session, receiver, 0, len(address), len(ranges)) + address + ranges_of(ranges)
                  + NO_TOKEN)


def reject(session, trail, reason, ranges):
    return packet(REJECT, session, struct.pack("<QQBBH", session, trail, reason, 0, len(ranges)) + ranges_of(ranges))


def status(session, receiver, after, highest, echo=0, hold=0, lost=0, dropped=0, flags=0, address=IPV4):
    return packet(STATUS, session, struct.pack("<QQQQQIIIIIBB", session, receiver, after, highest, echo, hold, lost, 6, dropped, 100,
                                               flags, len(address)) + address + NO_TOKEN)


def topics(session, total, first, names):
    return packet(TOPICS, session, struct.pack("<QIIH", session, total, first, len(names))
                  + b"".join(bytes([len(name)]) + name for name in names))


def query(session, receiver, first):
    return packet(QUERY, session, struct.pack("<QQIB", session, receiver, first, len(IPV4)) + IPV4 + NO_TOKEN)


def connect(connection, payload, address=IPV4):
    return packet(CONNECT, connection, struct.pack("<QQIHBB", connection, 5, 1000, len(payload), 0, len(address)) + address + payload)


def notice(session, receiver, lead=0, standing=1, threshold=1):
    return packet(NOTICE, session, struct.pack("<QQQQQQQQIIIIIIBB", session, receiver, 1, lead, 7, 6, 0, 0, 7, 0, 0, 3, 1, 0, standing,
                                               threshold))


def announcement(topic, name):
    return b"\xf0" + struct.pack("<HI", 4 + len(name), topic) + name


def vectors(unit_wire):
    """The vectors of tests/unit/wire_vectors.h: name and bytes."""
    found = []
    for line in subprocess.run([unit_wire, "--print"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        title = re.match(r"(\S.*) \((\d+) bytes\)$", line)
        field = re.match(r"    [0-9a-f]{4}  ((?:[0-9a-f]{2} )+)", line)
        if title:
            found.append([title.group(1), b"", int(title.group(2))])
        elif field:
            found[-1][1] += bytes.fromhex(field.group(1))
    for name, packed, size in found:
        assert len(packed) == size, f"{name}: read {len(packed)} bytes of {size}"
    return [(name, packed) for name, packed, _ in found]


def mutated(source, seed):
    """Small changes that depend on the seed only: bits and bytes, truncation, noise."""
    random_of = random.Random(seed)
    changed = bytearray(source[:1400])
    for _ in range(random_of.randint(1, 4)):
        at = random_of.randrange(len(changed) or 1)
        what = random_of.randrange(5)
        if what == 0 and changed:
            changed[at] ^= 1 << random_of.randrange(8)
        elif what == 1 and changed:
            changed[at] = random_of.choice([0, 255, random_of.randrange(256)])
        elif what == 2:
            del changed[at:]
        elif what == 3:
            del changed[at:at + random_of.randint(1, 16)]
        else:
            changed += random_of.randbytes(8)
    return bytes(changed)


ETHERNET = bytes.fromhex("01005e400301 020000000001 0800")


def ip_header(protocol, size):
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + size, 0, 0, 1, protocol, 0, bytes([10, 77, 0, 1]), bytes([239, 192, 3, 1]))


def frame(payload, port, source_port):
    udp = struct.pack(">HHHH", source_port, port, 8 + len(payload), 0) + payload
    return ETHERNET + ip_header(17, len(udp)) + udp


def icmp_error(sent):
    """ICMP error about a port without a listener."""
    icmp = bytes([3, 3]) + bytes(6) + sent[len(ETHERNET):]
    return ETHERNET + ip_header(1, len(icmp)) + icmp


def capture_frames(path, frames, snap=65535):
    """Writes a capture with one frame per millisecond."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, snap, 1))
        for at, whole in enumerate(frames):
            kept = whole[:snap]
            file.write(struct.pack("<IIII", 1700000000 + at // 1000, at % 1000 * 1000, len(kept), len(whole)) + kept)


def capture(path, payloads, snap=65535, port=PORT, source_port=40000):
    """Writes a capture of datagrams."""
    capture_frames(path, [frame(payload, port, source_port) for payload in payloads], snap)
