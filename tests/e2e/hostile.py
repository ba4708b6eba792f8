#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends hostile packets to a group and to its transmitter.

hostile.py GROUP PORT ADDRESS SECONDS

Prints "listening" to stderr, and listens on the interface with ADDRESS for a heartbeat, to learn what the network shows to everybody: the
session, its packets and its control address. Then sends in rounds: truncated, random, wrong-version and unknown packets, packets with a
wrong size field, foreign tags, packets replayed unchanged and with one field changed, and forged heartbeats, NAKs, rejects and status
reports, of whose identity only the low 32 bits are right. Prints how many packets it sent.
"""
import random
import socket
import struct
import sys
import time

ROUNDS_MIN = 100  # ensures some packets of each kind on a slow host
HEADER = struct.Struct("<BBHIII")
DATA, HEARTBEAT, NAK, REJECT, STATUS, TOPICS, QUERY, JOIN = range(1, 9)


def packet(kind, tag, body, version=1, flags=0, first=0, seq=0, number=0):
    if kind == DATA:
        body = struct.pack("<H", first) + body
    return HEADER.pack(version << 4 | kind, flags, HEADER.size + len(body), tag, seq, number) + body


def saying(size, data):
    """Returns the packet with this size field."""
    return data[:2] + struct.pack("<H", size) + data[4:]


def open_sockets(group, port, address):
    """Opens one socket to send, and one that receives the group."""
    own = socket.inet_aton(address)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    ears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ears.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ears.bind((group, port))
    ears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + own)
    ears.settimeout(20)
    return out, ears


def overhear(ears):
    """Returns a heartbeat, and data packets sent around it."""
    heard, heartbeat = [], None
    while heartbeat is None or len(heard) < 50:
        data = ears.recv(65536)
        if data[0] == 0x10 | HEARTBEAT:
            heartbeat = data
        elif data[0] == 0x10 | DATA:
            heard = (heard + [data])[-200:]
    return heartbeat, heard


class Attacker:
    def __init__(self, own, heartbeat, heard, rng):
        self.rng = rng
        self.heartbeat = heartbeat
        self.heard = heard
        self.session, self.lead = struct.unpack_from("<QQ", heartbeat, 16)
        self.tag = self.session & 0xFFFFFFFF
        self.forged = (self.session + (rng.randrange(1, 1 << 31) << 32)) & (1 << 64) - 1
        size = heartbeat[16 + 69]
        address = heartbeat[16 + 70:16 + 70 + size]
        self.control = (socket.inet_ntoa(address[1:5]), struct.unpack(">H", address[5:7])[0])
        self.address = bytes([size]) + address
        # Control packets announce this host, their real source, or another one.
        self.announced = (b"\x07\x04" + socket.inet_aton(own) + struct.pack(">H", self.control[1]), self.address)

    def malformed(self):
        """Packets of each kind that an endpoint counts."""
        rng = self.rng
        yield rng.randbytes(rng.randrange(16))
        yield rng.choice(self.heard)[:rng.randrange(16)]
        yield packet(DATA, self.tag, b"x" * 20, version=rng.choice([0, 2, 15]))
        yield packet(rng.choice([0, 8, 15]), self.tag, b"x" * 20)
        yield packet(DATA, self.tag, b"x" * 20, first=21)
        yield packet(DATA, self.tag, b"\xff\xff", flags=0x80)
        yield saying(rng.choice([0, 1, 16, 17, 18, 30, 1472, 65535]), packet(DATA, self.tag, b"x" * 400))
        yield saying(rng.randrange(1 << 16), rng.choice(self.heard))
        yield packet(NAK, rng.getrandbits(32), b"")
        yield rng.randbytes(rng.randrange(16, 1400))
        cut = rng.randrange(16, len(self.heartbeat))
        yield self.heartbeat[:cut]
        yield saying(cut, self.heartbeat[:cut])

    def replayed(self):
        """Packets of the session, unchanged, and with numbers far from the current ones."""
        rng = self.rng
        data = rng.choice(self.heard)
        yield data
        yield self.heartbeat
        far = (struct.unpack_from("<I", data, 8)[0] + rng.randrange(1 << 24, 1 << 30)) & 0xFFFFFFFF
        yield data[:8] + struct.pack("<I", far) + data[12:]
        yield data[:4] + struct.pack("<I", rng.getrandbits(32)) + data[8:]

    def forgeries(self):
        """Packets with the right tag, as in every data packet, but not the whole identity."""
        rng = self.rng
        lead = self.lead + rng.randrange(1, 1 << 20)
        yield packet(HEARTBEAT, self.tag, struct.pack("<QQQQQQIIIIIB", self.forged, lead, lead, self.lead & ~0xFFFF, 1 << 40,
                                                      (1 << 62), 1, 1, 1, 5, 0, 1) + self.address)
        yield packet(REJECT, self.tag, struct.pack("<QQBBHII", self.forged, lead, 1, 0, 1, lead & 0xFFFFFFFF, 1000))
        yield packet(TOPICS, self.tag, struct.pack("<QIIH", self.forged, 5, 0, 1) + b"\x04evil")

    def control_forgeries(self):
        """Packets that only a transmitter accepts."""
        rng = self.rng
        for session in (self.forged, rng.getrandbits(64)):
            tag = session & 0xFFFFFFFF
            address = rng.choice(self.announced)
            ranges = b"".join(struct.pack("<II", (self.lead - 1000 * i) & 0xFFFFFFFF, 1000) for i in range(64))
            yield packet(NAK, tag, struct.pack("<QQBBH", session, 99, 0, address[0], 64) + address[1:] + ranges + bytes(8))
            yield packet(STATUS, tag, struct.pack("<QQQQQIIIIIB", session, 99, 1, 2, 3, 4, 5, 6, 7, 8, 1) + address + bytes(8))
            yield packet(QUERY, tag, struct.pack("<QQI", session, 99, 0) + address + bytes(8))
            for kind in (1, 4):
                yield packet(JOIN, tag, struct.pack("<QQBBBBHIQQQQQ", session, rng.getrandbits(64), kind, 1, 0,
                                                    address[0], 16, 0, 0, 0, 0, 0, 0) + address[1:] + ranges[:128] + bytes(8))
        yield packet(NAK, self.tag, struct.pack("<QQBBH", self.session, 99, 0, 200, 64))


def main():
    group, port, address, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    rng = random.Random(1)
    out, ears = open_sockets(group, port, address)
    print("listening", file=sys.stderr, flush=True)
    attacker = Attacker(address, *overhear(ears), rng)
    until = time.monotonic() + seconds
    sent = rounds = 0
    while rounds < ROUNDS_MIN or time.monotonic() < until:
        rounds += 1
        for data in (*attacker.malformed(), *attacker.replayed(), *attacker.forgeries()):
            out.sendto(data, (group, port))
            sent += 1
        for data in (*attacker.malformed(), *attacker.forgeries(), *attacker.control_forgeries()):
            out.sendto(data, attacker.control)
            sent += 1
        time.sleep(0.001)
    print(sent)


main()
