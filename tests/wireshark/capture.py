#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures what passes an interface, in both directions, into a pcap file with nanoseconds.

    tests/wireshark/capture.py INTERFACE FILE

Says `capturing` once it does, ends at SIGTERM after what has come by then, and fails if frames were dropped.
"""
import signal
import socket
import struct
import sys

ALL_PROTOCOLS = 3
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_TIMESTAMPNS = 35
BUFFER_BYTES = 64 << 20
FRAME_MAX = 1 << 17  # with segmentation offload a frame is a run of packets

stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))


def frames(endpoint):
    """Each frame with the kernel's time, until the signal came and no frame was waiting for 0.1 s."""
    while True:
        try:
            data, control, _, _ = endpoint.recvmsg(FRAME_MAX, 64)
        except TimeoutError:
            if stopped:
                return
            continue
        seconds, nanoseconds = struct.unpack("qq", control[0][2])
        yield seconds, nanoseconds, data


def main(interface, path):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS)) as endpoint, open(path, "wb") as file:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        try:
            endpoint.setsockopt(socket.SOL_SOCKET, 33, BUFFER_BYTES)  # SO_RCVBUFFORCE, for root
        except PermissionError:
            pass
        endpoint.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        endpoint.bind((interface, 0))
        endpoint.settimeout(0.1)
        print("capturing", file=sys.stderr, flush=True)
        file.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, FRAME_MAX, 1))
        for seconds, nanoseconds, data in frames(endpoint):
            file.write(struct.pack("<IIII", seconds, nanoseconds, len(data), len(data)) + data)
        _, drops = struct.unpack("II", endpoint.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    if drops > 0:
        sys.exit(f"capture.py: {drops} frames dropped")


if __name__ == "__main__":
    main(*sys.argv[1:3])
