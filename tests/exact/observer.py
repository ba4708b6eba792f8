# SPDX-License-Identifier: Apache-2.0
"""An observer of the wire, and rates in windows of time.

observer.py INTERFACE reads the incoming IPv4 packets, at long intervals, as it shares the machine with the measured programs. On SIGTERM it
prints the library's data packets, as lists of kernel time stamps and bytes: "fresh", those to a group with a greater number than all
before, and "repairs"; and the number of frames that it "missed".
"""
import json
import signal
import socket
import struct
import sys
import time

BUFFER, NAP_S = 64 << 20, 0.005
SO_RCVBUFFORCE, SO_TIMESTAMPNS, SOL_PACKET, PACKET_STATISTICS = 33, 35, 263, 6
IPV4, UDP, DATA = 0x0800, 17, 1
HEADER = struct.Struct("<BBHII")  # of a packet: version and type, flags, size, tag, low half of the number
HEADER_BYTES = 16
WINDOWS = {"bytes_per_s_1ms_max": 10 ** 6, "bytes_per_s_10ms_max": 10 ** 7, "bytes_per_s_1s_max": 10 ** 9}
BIN_NS = 10 ** 7


def packets_of(frame):
    """Yields size and number of each data packet of a frame, which may have several packets of one send."""
    at = (frame[0] & 15) * 4 + 8
    while frame[9] == UDP and at + HEADER_BYTES <= len(frame):
        kind, _, size, _, number = HEADER.unpack_from(frame, at)
        if not HEADER_BYTES <= size <= len(frame) - at:
            return
        if kind & 15 == DATA:
            yield size, number
        at += size


def observe(interface):
    fresh, repairs, following, over = [], [], None, []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.htons(IPV4)) as source:
        source.bind((interface, IPV4))
        source.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        try:
            source.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        except PermissionError:
            source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        while not over:
            time.sleep(NAP_S)
            try:
                while True:
                    frame, notes, _, _ = source.recvmsg(65536, 64)
                    seconds, ns = struct.unpack("qq", notes[0][2])
                    for size, number in packets_of(frame):
                        is_fresh = frame[16] >> 4 == 14 and (following is None or (number - following) % 2 ** 32 < 2 ** 31)
                        following = (number + 1) % 2 ** 32 if is_fresh else following
                        (fresh if is_fresh else repairs).append((seconds * 10 ** 9 + ns, size))
            except BlockingIOError:
                continue
        _, missed = struct.unpack("II", source.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    print(json.dumps({"fresh": fresh, "repairs": repairs, "missed": missed}), flush=True)


def most(entries, ns):
    """Returns the maximum of bytes in a window; windows that end with an entry suffice."""
    first = held = found = 0
    for at, size in entries:
        held += size
        while at - entries[first][0] >= ns:
            held -= entries[first][1]
            first += 1
        found = max(found, held)
    return found


def rates_of(entries):
    """Returns bytes a second of entries (time, bytes): the mean from the first to the last, and the maximum of any window; None for a
    window that is longer than all entries."""
    entries = sorted(map(tuple, entries))
    ns, total = entries[-1][0] - entries[0][0] if entries else 0, sum(size for _, size in entries)
    return {"bytes": total, "bytes_per_s": total * 1e9 / ns if ns else None,
            **{name: most(entries, window) * 1e9 / window if ns >= window else None for name, window in WINDOWS.items()}}


def bins_of(entries):
    """Returns the time of the first entry, and the number of entries in each 10 ms from then on."""
    begun_at = min((at for at, _ in entries), default=0)
    bins = [0] * ((max((at for at, _ in entries), default=0) - begun_at) // BIN_NS + 1)
    for at, _ in entries:
        bins[(at - begun_at) // BIN_NS] += 1
    return begun_at, bins[:-1]


if __name__ == "__main__":
    observe(sys.argv[1])
