#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens a capture of protected packets, and has tshark dissect what comes out.

    tests/keys/capture.py SOURCE_ROOT

Exit status 77: the package cryptography, or tshark, is missing.
"""
import pathlib
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(source / "tools" / "wireshark"), str(source / "tests" / "wireshark")]
import llm_open  # pylint: disable=wrong-import-position
import packets  # pylint: disable=wrong-import-position

if llm_open.IMPORT_ERROR is not None:
    print(f"{llm_open.IMPORT_ERROR}: someone with root has to run: apt-get install python3-cryptography")
    sys.exit(77)
if shutil.which("tshark") is None:
    print("tshark is missing: someone with root has to run: apt-get install tshark")
    sys.exit(77)

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER = "/////////////////////////////////////////v8="
LINE = "7 2020-01-01 2020-01-02 aes-128-gcm {} 239.192.1.1:5001\n"  # it has ended
SESSION, SENDER = 0x1122334455667788, 0xabcdef0123456789
FIRST = 0x2fffffffe  # the low half of packet numbers wraps


def protect(clear, number, mode=1):
    """The packet of version 2, section 14.1 of docs/protocol.md."""
    kind = clear[0] & 15
    head, identity = (18, SESSION) if kind == packets.DATA else (16, SENDER)
    after = (b"" if kind == packets.DATA else struct.pack("<QQ", identity, number)) + struct.pack("<HBB", 7, 1, mode)
    header = bytes([2 << 4 | kind, clear[1]]) + struct.pack("<H", len(clear) + len(after) + 16) + clear[4:head]
    cipher, nonce = llm_open.derive(llm_open.group_key(LINE.format(KEY)), kind, (7, 1, mode), identity, number)
    if mode == 1:
        sealed = cipher.encrypt(nonce, clear[head:], header + after)
        return header + sealed[:-16] + after + sealed[-16:]
    return header + clear[head:] + after + cipher.encrypt(nonce, b"", header + after + clear[head:])


def message(number):
    text = f"message {number}".encode()
    return packets.data(SESSION, FIRST + number, number, bytes([len(text)]) + text)


def opened(directory, key, mode, clear=False, cut=False):
    """Opens a capture; returns exit status and path."""
    keys, capture, to = (directory / name for name in ("group.keys", "captured.pcap", "opened.pcap"))
    keys.write_text("# a comment\n\n" + LINE.format(key), encoding="ascii")
    data = [protect(message(i), FIRST + i, mode) for i in range(4)]
    heartbeat = packets.heartbeat(SESSION, FIRST + 1)
    # The heartbeat comes late; two packets are one datagram; one is in clear, and one is damaged.
    packets.capture(capture, [data[0], data[1] + data[2], heartbeat if clear else protect(heartbeat, 5 << 20, mode), message(9),
                              data[3][:-1] + bytes([data[3][-1] ^ 1])])
    if cut:
        with open(capture, "ab") as file:
            file.write(bytes(12))
    to.touch(0o644)
    done = subprocess.run([source / "tools/wireshark/llm_open.py", "--keys", keys, capture, to], capture_output=True, text=True, check=False)
    return done.returncode, to, done.stdout + done.stderr


def expect(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def check(directory, mode):
    status, path, says = opened(directory, KEY, mode)
    expect(status == 0 and "4 packets opened, 1 not" in says, says)
    expect(stat.S_IMODE(path.stat().st_mode) == 0o600, "its mode")
    shown = subprocess.run(["tshark", "-n", "-X", f"lua_script:{source}/tools/wireshark/llm.lua", "-r", path, "-o", f"llm.ports:{packets.PORT}",
                            "-o", "ip.check_checksum:TRUE", "-T", "fields", "-e", "llm.version", "-e", "llm.message.data", "-e", "ip.checksum.status",
                            "-e", "llm.expert.malformed"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    hexes = [f"message {i}".encode().hex() for i in (0, 1, 2, 9)]
    rows = [row.split("\t") for row in shown]
    expect(len(rows) == 5, shown)
    expect(rows[0][:2] == ["1", hexes[0]] and rows[1][:2] == ["1,1", f"{hexes[1]},{hexes[2]}"] and rows[2][0] == "1", shown)
    expect(rows[3][:2] == ["1", hexes[3]] and rows[4][:2] == ["2", ""], shown)
    # Those that were opened have the right checksum; the others are as they were made, without one.
    expect([row[2] for row in rows] == ["1", "1", "1", "0", "0"] and not any(row[3] for row in rows), shown)


with tempfile.TemporaryDirectory() as scratch:
    for both in 1, 2:
        check(pathlib.Path(scratch), both)
    code, _, text = opened(pathlib.Path(scratch), KEY, 1, clear=True)
    expect(code == 0 and "3 packets opened, 1 not" in text, text)
    code, _, text = opened(pathlib.Path(scratch), OTHER, 1)
    expect(code == 1 and "0 packets opened" in text, text)
    code, _, text = opened(pathlib.Path(scratch), KEY, 1, cut=True)
    expect(code == 0 and "4 packets opened, 1 not" in text and "the last record is cut, and left out: 12 bytes" in text, text)
    for paths in (pathlib.Path(scratch) / "missing", "/dev/null"), (pathlib.Path(scratch) / "captured.pcap", scratch):
        done = subprocess.run([source / "tools/wireshark/llm_open.py", "--keys", pathlib.Path(scratch) / "group.keys", *paths],
                              capture_output=True, text=True, check=False)
        expect(done.returncode == 1 and done.stderr.startswith("llm_open: ") and done.stderr.count("\n") == 1, done.stderr)
    pcapng = pathlib.Path(scratch) / "captured.pcap"
    pcapng.write_bytes(bytes.fromhex("0a0d0d0a") + bytes(40))
    done = subprocess.run([source / "tools/wireshark/llm_open.py", "--keys", pathlib.Path(scratch) / "group.keys", pcapng, "/dev/null"],
                          capture_output=True, text=True, check=False)
    expect(done.returncode == 1 and "editcap" in done.stderr, done.stderr)
