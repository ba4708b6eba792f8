#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens packets that the library protected by another implementation of docs/protocol.md section 14.

    tests/keys/open.py PROGRAM

PROGRAM is built from packets.c. Exit status 77: the package cryptography is missing.
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "wireshark"))
try:
    from cryptography.exceptions import InvalidTag
    from llm_open import group_key, open_packet
except ImportError as error:
    print(f"{error}: someone with root has to run: apt-get install python3-cryptography")
    sys.exit(77)


def check(line):
    """Opens the packet of a line, and does not open it with a changed bit anywhere in it."""
    epoch, identity, number, clear, packet = line.split(";")
    key, clear, packet = group_key(epoch), bytes.fromhex(clear), bytes.fromhex(packet)
    opened = open_packet(packet, key, int(identity), int(number))
    if opened != clear:
        sys.exit(f"FAILED: {packet.hex()} is {opened.hex()}, not {clear.hex()}")
    for at in range(4, len(packet), 7):
        changed = packet[:at] + bytes([packet[at] ^ 1]) + packet[at + 1:]
        try:
            open_packet(changed, key, int(identity), int(number))
        except (InvalidTag, KeyError, ValueError):
            continue
        sys.exit(f"FAILED: {changed.hex()} is opened, changed at {at}")


with tempfile.TemporaryDirectory() as directory:
    made = subprocess.run([sys.argv[1], pathlib.Path(directory) / "group.keys"], capture_output=True, text=True, check=True)
lines = made.stdout.splitlines()
for text in lines:
    check(text)
print(f"{len(lines)} packets")
sys.exit(0 if len(lines) == 240 else 1)
