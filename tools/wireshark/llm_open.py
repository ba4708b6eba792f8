#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens the packets of channels with keys in a capture, for Wireshark: docs/wireshark.md.

    llm_open.py --keys FILE CAPTURE OPENED

CAPTURE is a pcap file. OPENED becomes a pcap file in which each packet that a key of FILE opens, whether its epoch is valid now or
not, is as it was before it was protected; all else is as it was. OPENED is in clear: it gets mode 0600. Needs the package
cryptography.
"""
import base64
import collections
import os
import stat
import struct
import sys

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError as missing:
    IMPORT_ERROR = missing
else:
    IMPORT_ERROR = None

SUITE_NAMES = {"aes-128-gcm": 1, "aes-256-gcm": 2, "chacha20-poly1305": 3}
KEY_BYTES = {1: 16, 2: 32, 3: 32}
DATA, HEARTBEAT, ENCRYPT = 1, 2, 1
HEADER, DATA_HEADER = 16, 18
# Link types that a libpcap on Linux writes, and the bytes before the header of IP: https://www.tcpdump.org/linktypes.html
LINKS = {0: 4, 1: 14, 101: 0, 113: 16, 228: 0, 229: 0, 276: 20}
VLAN, UDP = (0x8100, 0x88a8), 17


def group_key(line):
    """The key of a line of a key file."""
    return base64.b64decode(line.split()[4])


def derive(key, kind, fields, identity, number):
    """Cipher and nonce of a packet; fields: its epoch, suite and mode. Section 14.2 of docs/protocol.md."""
    epoch, suite, mode = fields
    block = number >> (24 if kind == DATA else 28)
    purpose = (b"llm data" if kind == DATA else b"llm ctrl") + struct.pack("<BBHBQQ", mode, suite, epoch, 0, identity, block)
    size = KEY_BYTES[suite]
    derived = HKDF(hashes.SHA256(), size + 12, None, purpose).derive(key)
    cipher = (ChaCha20Poly1305 if suite == 3 else AESGCM)(derived[:size])
    nonce = derived[size:size + 4] + bytes(a ^ b for a, b in zip(derived[size + 4:], struct.pack("<Q", number)))
    return cipher, nonce


def open_packet(packet, key, identity=None, number=None):
    """The packet of version 1. identity and number: of the session and of the packet, for DATA; others have their own."""
    version, kind = packet[0] >> 4, packet[0] & 15
    size, = struct.unpack_from("<H", packet, 2)
    head, after = (DATA_HEADER, 20) if kind == DATA else (HEADER, 36)
    if version != 2 or size != len(packet) or size < head + after:
        raise ValueError("not a protected packet")
    fields = struct.unpack_from("<HBB", packet, size - 20)
    if kind != DATA:
        identity, number = struct.unpack_from("<QQ", packet, size - 36)
    cipher, nonce = derive(key, kind, fields, identity, number)
    body, clear = packet[head:size - after], packet[:head] + packet[size - after:size - 16]
    tag = packet[size - 16:]
    if fields[2] == ENCRYPT:
        body = cipher.decrypt(nonce, body + tag, clear)
    else:
        cipher.decrypt(nonce, tag, clear + body)
    return bytes([1 << 4 | kind, packet[1]]) + struct.pack("<H", head + len(body)) + packet[4:head] + body


class Keys:
    """The keys of a file, by epoch and suite, and the sessions that heartbeats announce."""

    def __init__(self, path):
        self.keys = collections.defaultdict(list)
        self.sessions = collections.defaultdict(dict)  # by tag: the packet number near which the next ones are, by identity
        with open(path, encoding="ascii") as lines:
            for line in lines:
                words = line.split()
                if words and not words[0].startswith("#"):
                    self.keys[int(words[0]), SUITE_NAMES[words[3]]].append(group_key(line))

    def try_all(self, packet, identity=None, number=None):
        """The packet of version 1; None: no key opens it."""
        for key in self.keys[struct.unpack_from("<HB", packet, len(packet) - 20)]:
            try:
                return open_packet(packet, key, identity, number)
            except (InvalidTag, ValueError):
                continue
        return None

    def learn(self, packet):
        """Notes the session of a heartbeat; of one in clear, too, as llm-store exports: a wrong one opens nothing."""
        if packet[0] & 15 != HEARTBEAT or len(packet) < HEADER + 36:
            return
        opened = self.try_all(packet) if packet[0] >> 4 == 2 else packet
        if opened:
            session, lead = struct.unpack_from("<QQ", opened, HEADER)
            self.sessions[session & 0xffffffff].setdefault(session, lead)

    def open(self, packet):
        """The packet of version 1; None: no key opens it."""
        if packet[0] & 15 != DATA:
            return self.try_all(packet)
        tag, low = struct.unpack_from("<II", packet, 4)
        sessions = self.sessions[tag]
        for identity, near in sessions.items():
            number = near + ((low - near + (1 << 31)) & 0xffffffff) - (1 << 31)
            opened = self.try_all(packet, identity, number) if number >= 0 else None
            if opened:
                sessions[identity] = max(near, number)
                return opened
        return None


def packets_of(payload):
    """Splits a datagram, which may be a train, into packets. Empty: it has other bytes, or packets too short to be protected."""
    packets, at = [], 0
    while at < len(payload):
        size = struct.unpack_from("<H", payload, at + 2)[0] if at + HEADER <= len(payload) else 0
        if at + size > len(payload) or size < HEADER or (payload[at] >> 4 == 2 and size < HEADER + 20):
            return []
        packets.append(payload[at:at + size])
        at += size
    return packets


def udp_payload(frame, link):
    """Offsets of the header of IP and of the payload of a whole UDP datagram; None: it is something else."""
    at = LINKS[link]
    while link == 1 and len(frame) >= at and struct.unpack_from(">H", frame, at - 2)[0] in VLAN:
        at += 4
    if len(frame) < at + 28:
        return None
    version = frame[at] >> 4
    if version == 4 and frame[at + 9] == UDP and not struct.unpack_from(">H", frame, at + 6)[0] & 0x3fff:
        udp = at + 4 * (frame[at] & 15)
    elif version == 6 and frame[at + 6] == UDP:
        udp = at + 40
    else:
        return None
    if len(frame) < udp + 8 or struct.unpack_from(">H", frame, udp + 4)[0] != len(frame) - udp:
        return None
    return at, udp + 8


def checksum(header):
    """RFC 1071."""
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


def rebuilt(frame, place, payload):
    """The frame with another payload: its lengths are right, and the checksum of UDP is left out."""
    at, start = place
    head = bytearray(frame[:start])
    struct.pack_into(">HH", head, start - 4, 8 + len(payload), 0)
    if head[at] >> 4 == 4:
        struct.pack_into(">H", head, at + 2, start - at + len(payload))
        struct.pack_into(">H", head, at + 10, 0)
        struct.pack_into(">H", head, at + 10, checksum(bytes(head[at:start - 8])))
    else:
        struct.pack_into(">H", head, at + 4, 8 + len(payload))
    return bytes(head) + payload


def opened_frame(frame, link, keys, count):
    """The frame with its packets opened."""
    place = udp_payload(frame, link)
    packets = packets_of(frame[place[1]:]) if place else []
    parts = []
    for packet in packets:
        opened = keys.open(packet) if packet[0] >> 4 == 2 else None
        count["opened" if opened else "closed"] += packet[0] >> 4 == 2
        parts.append(opened or packet)
    return frame if parts == packets else rebuilt(frame, place, b"".join(parts))


def records(capture, order):
    """Head and bytes of each whole record of a pcap file."""
    at = 24
    while at + 16 <= len(capture):
        size, = struct.unpack_from(order + "I", capture, at + 8)
        if at + 16 + size > len(capture):
            return
        yield capture[at:at + 16], capture[at + 16:at + 16 + size]
        at += 16 + size


def capture_order(path, capture):
    """Byte order and link type of a pcap file."""
    for order in "<>":
        if len(capture) >= 24 and struct.unpack_from(order + "I", capture)[0] in (0xa1b2c3d4, 0xa1b23c4d):
            link = struct.unpack_from(order + "I", capture, 20)[0] & 0xffff
            if link not in LINKS:
                sys.exit(f"llm_open: {path}: captures of link type {link} cannot be read; capture on Ethernet, or on any interface")
            return order, link
    return sys.exit(f"llm_open: {path}: not a pcap file: convert it by 'editcap -F pcap {path} OTHER'")


def file_opened(path):
    """A file that is written anew. One that existed keeps its mode when it is opened: what was not for others must not become so."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return open(descriptor, "wb")


def main(arguments):
    """Opens a capture. Exit status: 0; 1: nothing was opened, or a file cannot be used."""
    if len(arguments) != 4 or arguments[0] != "--keys":
        sys.exit(__doc__)
    if IMPORT_ERROR is not None:
        sys.exit(f"llm_open: {IMPORT_ERROR}: someone with root has to run: apt-get install python3-cryptography")
    try:
        keys = Keys(arguments[1])
    except (OSError, KeyError, ValueError, IndexError) as error:
        sys.exit(f"llm_open: {arguments[1]}: not a key file that can be read: {error}; 'llm-key show' says more")
    try:
        with open(arguments[2], "rb") as file:
            capture = file.read()
    except OSError as error:
        sys.exit(f"llm_open: {arguments[2]}: {error.strerror}")
    order, link = capture_order(arguments[2], capture)
    # Data packets may have been captured before the heartbeat that opens them.
    end = 24
    for head, frame in records(capture, order):
        end += len(head) + len(frame)
        place = udp_payload(frame, link)
        for packet in packets_of(frame[place[1]:]) if place else []:
            keys.learn(packet)
    count = collections.Counter()
    try:
        file = file_opened(arguments[3])
    except OSError as error:
        sys.exit(f"llm_open: {arguments[3]}: {error.strerror}")
    with file as to:
        to.write(capture[:24])
        for head, frame in records(capture, order):
            done = opened_frame(frame, link, keys, count)
            to.write(head[:8] + struct.pack(order + "II", len(done), struct.unpack_from(order + "I", head, 12)[0] - len(frame) + len(done)))
            to.write(done)
    if end < len(capture):
        print(f"llm_open: {arguments[2]}: the last record is cut, and left out: {len(capture) - end} bytes", file=sys.stderr)
    print(f"llm_open: {count['opened']} packets opened, {count['closed']} not: other keys, or no heartbeat of the session")
    return 0 if count["opened"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
