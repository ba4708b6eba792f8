#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs llm-store list, show, verify, export and play on directories of known contents.

    tests/store/recordings.py LLM_STORE STORE_MAKE SOURCE_DIR
"""
import base64
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

CHANNEL = "udp://239.1.2.3:5000"
RANDOM, KNOWN = "1111222233334444", "aaaabbbbccccdddd"


def expect(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


class Store:
    """A directory, and the tool."""

    def __init__(self, tool, make, scratch):
        self.tool, self.make, self.directory = tool, make, scratch / "store"
        self.directory.mkdir()
        made = subprocess.run([make, self.directory], stdout=subprocess.PIPE, check=True).stdout
        self.random, self.known = json.loads(made)

    def run(self, command, *options, status=0, target=(), directory=None, **more):
        """Returns standard output, as bytes, and standard error."""
        arguments = [self.tool, command, *options, directory or self.directory, *target]
        done = subprocess.run([str(argument) for argument in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)
        errors = done.stderr.decode()
        expect(done.returncode == status, f"{arguments}: exit status {done.returncode}, not {status}: {errors}")
        return done.stdout, errors

    def json(self, command, *options, **more):
        return json.loads(self.run(command, "--json", *options, **more)[0])

    def lines(self, *options, **more):
        output = self.run("export", *options, **more)[0].decode()
        return [json.loads(line) for line in output.splitlines()]

    def flip(self, block, session=RANDOM):
        """Damages a block, and mends it when it is resumed."""
        path = self.directory / session / block["file"]
        at = block["offset"] + block["used"] // 2
        with open(path, "r+b") as file:
            for _ in range(2):
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 8]))
                file.flush()
                yield


def messages_of(lines, session):
    return [line for line in lines if line["session"] == session and "number" in line]


def list_names_each_recording(store):
    found = store.json("list")
    expect(found["directory"] == str(store.directory), found["directory"])
    rows = found["recordings"]
    expect([row["session"] for row in rows] == [RANDOM, KNOWN], rows)
    for row, model in zip(rows, (store.random, store.known)):
        for key in ("packet_first", "packet_next", "message_first", "message_next"):
            expect(row[key] == model[key], f"{key} is {row[key]}, not {model[key]}")
        expect(row["channel"] == CHANNEL, row)
        expect(row["segments"] == len({block["file"] for block in model["blocks"]}), row)
        expect(row["bytes"] > 0 and row["realtime_first_ns"] <= row["realtime_last_ns"], row)
    expect(rows[0]["ended"] and rows[0]["reason"] == "closed" and not rows[1]["ended"], rows)
    expect(rows[0]["began"].startswith("2026-01-02T03:04:05.00"), rows[0]["began"])
    text = store.run("list")[0].decode()
    expect(RANDOM in text and KNOWN in text and CHANNEL in text and "2026-01-02T04:04:05" in text, text)
    for options, sessions in ((("--since", "2026-01-02T03:30"), [KNOWN]), (("--until", "2026-01-02T03:30:00Z"), [RANDOM]),
                              (("--since", "@1767323000", "--until", "2026-01-03"), [RANDOM, KNOWN]), (("--since", "3d"), []),
                              (("--channel", CHANNEL), [RANDOM, KNOWN]), (("--channel", "udp://239.9.9.9:9"), [])):
        found = [row["session"] for row in store.json("list", *options)["recordings"]]
        expect(found == sessions, f"list {options}: {found}, not {sessions}")


def show_describes_a_recording(store):
    found = store.json("show", target=[RANDOM])
    model = store.random
    expect(found["session"] == RANDOM and found["packets"] == model["packets"], found)
    expect(found["blocks"] == len(model["blocks"]), f"{found['blocks']} blocks, not {len(model['blocks'])}")
    expect([row["file"] for row in found["segments"]] == list(dict.fromkeys(block["file"] for block in model["blocks"])), found["segments"])
    expect([row["name"] for row in found["topics"]][:3] == ["prices.a", "prices.b", "orders"], found["topics"])
    expect(len(found["topics"]) == model["topics"], found["topics"])
    lost = sum(gap["packet_next"] - gap["packet_first"] for gap in found["gaps"])
    expect(lost == model["packet_next"] - model["packet_first"] - model["packets"] and lost > 0, f"{lost} packets lost")
    expect(found["ended"] and not found["damages"], found)
    text = store.run("show", target=[KNOWN.upper()])[0].decode()
    expect("prices.a" in text and "not recorded" in text and CHANNEL in text, text)
    both = store.run("show")[0].decode()
    expect(RANDOM in both and KNOWN in both, both)


def verify_names_what_is_damaged(store):
    text = store.run("verify")[0].decode()
    expect(text.count(" ok: ") == 2 and "DAMAGED" not in text, text)
    whole = store.json("verify")
    expect(not whole["damaged"] and [row["session"] for row in whole["recordings"]] == [RANDOM, KNOWN], whole)
    for block in store.random["blocks"][1:-5:7]:
        damage = store.flip(block)
        next(damage)
        text, errors = store.run("verify", status=1)
        place = f"{RANDOM}/{block['file']}: offset {block['offset']}: damaged"
        expect(place in text.decode() and place in errors, f"{place} is not in: {text.decode()}{errors}")
        expect(text.decode().count("DAMAGED") == 1, text.decode())
        found = store.json("verify", "--session", RANDOM, status=1)
        expect(found["damaged"] and found["recordings"][0]["damages"] ==
               [{"file": f"{RANDOM}/{block['file']}", "offset": block["offset"], "removed": False}], found)
        store.run("verify", "--session", KNOWN)
        shown = store.json("show", target=[RANDOM])
        expect([row["offset"] for row in shown["damages"]] == [block["offset"]], shown["damages"])
        next(damage)
    recycled = store.directory / RANDOM / "ffffffffffffffff.segment"
    recycled.write_bytes(b"of an earlier use")
    # Not one that waits to become a segment.
    ready = store.directory / RANDOM / "fffffffffffffffe.segment"
    ready.write_bytes(bytes(8192))
    text = store.run("verify")[0].decode()
    expect("1 files without a whole header" in text, text)
    expect(store.json("verify")["ignored"] == 1, "ignored")
    recycled.unlink()
    ready.unlink()


def compare_names_what_differs(store, scratch):
    other = scratch / "other"
    shutil.copytree(store.directory, other)
    text = store.run("compare", target=[other])[0].decode()
    expect(text.count(" same: ") == 2 and "DIFFERS" not in text, text)
    model = store.random
    found = store.json("compare", target=[other])
    rows = {row["session"]: row for row in found["recordings"]}
    expect(not found["differ"] and found["directories"] == [str(store.directory), str(other)], found)
    expect(rows[RANDOM] == {"session": RANDOM, "same": model["packets"], "different": 0, "first_different": None, "only": []}, rows)
    # A damaged block of the first directory: only the other has its packets.
    block = next(block for block in model["blocks"][10:] if not block["named"])
    damage = store.flip(block)
    next(damage)
    row = store.json("compare", "--session", RANDOM, target=[other], status=1)["recordings"][0]
    expect(row["different"] == 0 and row["only"] and all(part["directory"] == 1 for part in row["only"]), row)
    missing = sum(part["packet_next"] - part["packet_first"] for part in row["only"])
    expect(row["same"] == model["packets"] - missing and missing > 0, row)
    turned = store.json("compare", "--session", RANDOM, directory=other, target=[store.directory], status=1)["recordings"][0]
    expect([dict(part, directory=1) for part in turned["only"]] == row["only"], turned)
    expect({part["directory"] for part in turned["only"]} == {0}, turned)
    text = store.run("compare", target=[other], status=1)[0].decode()
    expect(f"only in {other}" in text and text.count("DIFFERS") == 1, text)
    next(damage)
    # A session that one directory does not have.
    shutil.rmtree(other / RANDOM)
    row = store.json("compare", target=[other], status=1)["recordings"][0]
    expect(row["session"] == RANDOM and row["same"] == 0 and row["only"][0]["directory"] == 0, row)
    expect(row["only"][0]["packet_first"] == model["packet_first"] and row["only"][-1]["packet_next"] == model["packet_next"], row)
    # Segments of which retention removed the first: its packets.
    shutil.copytree(store.directory / RANDOM, other / RANDOM)
    first, second = store.json("show", target=[RANDOM])["segments"][:2]
    (other / RANDOM / first["file"]).unlink()
    row = store.json("compare", target=[other], status=1)["recordings"][0]
    expect(row["only"][0] == {"directory": 0, "packet_first": model["packet_first"],
                              "packet_next": row["only"][0]["packet_next"]}, row)
    expect(row["only"][-1]["packet_next"] == second["packet"], row)
    shutil.rmtree(other)
    # A store whose transmitter sent other bytes with the same numbers.
    shutil.copytree(store.directory, other)
    shutil.rmtree(other / KNOWN)
    subprocess.run([store.make, "--other", other], check=True)
    found = store.json("compare", target=[other], status=1)
    row = found["recordings"][1]
    expect(row["session"] == KNOWN and row["different"] == 1 and row["only"] == [], row)
    expect(row["first_different"]["message"] == 3 and found["recordings"][0]["different"] == 0, row)
    text = store.run("compare", "--session", KNOWN, target=[other], status=1)[0].decode()
    expect(f"packet {row['first_different']['packet']}, with message 3" in text, text)
    shutil.rmtree(other)


def export_writes_messages_as_json(store):
    lines = store.lines()
    known = messages_of(lines, KNOWN)
    expect(len(messages_of(lines, RANDOM)) == store.random["messages"], len(lines))
    expect([line["number"] for line in known] == [0, 1, 2, 3], known)
    expect(all(line["topic"] == "prices.a" and line["topic_id"] == 0 for line in known), known)
    expect(known[0]["text"] == 'plain "text" \u00e4\n' and known[0]["size"] == 16, known[0])
    expect(base64.b64decode(known[1]["base64"]) == b"\0\1\2\xff" and "attributes" not in known[1], known[1])
    expect(known[2]["text"] == "" and known[2]["attributes"] == {"label": 0x01020304}, known[2])
    expect(known[3]["attributes"] == {"label": 0x01020304, "bitmap": "8180", "properties": [
        {"code": 5, "int32": -7}, {"code": 6, "text": "ok"}]}, known[3])
    expect(known[3]["received_ns"] - known[0]["received_ns"] >= 400000000, known)
    expect(known[0]["received"].startswith("2026-01-02T04:04:05.0"), known[0])
    events = [line["event"] for line in lines if line["session"] == RANDOM and "event" in line]
    expect(events[0] == "session new" and events[-1] == "session end" and "gap" in events, sorted(set(events)))
    sample = store.lines("--session", RANDOM, "--from", 500, "--to", 600)
    expect(messages_of(sample, RANDOM) == [line for line in messages_of(lines, RANDOM) if 500 <= line["number"] < 600], "a part")
    late = store.lines("--session", KNOWN, "--since", "2026-01-02T04:04:05.3")
    expect([line["number"] for line in messages_of(late, KNOWN)] == [3], late)
    early = store.lines("--session", KNOWN, "--until", "2026-01-02T04:04:05.2")
    expect([line["number"] for line in messages_of(early, KNOWN)] == [0, 1, 2], early)


def export_goes_on_behind_damage_if_told_to(store):
    block = next(block for block in store.random["blocks"][10:] if not block["named"])
    damage = store.flip(block)
    next(damage)
    store.run("export", "--session", RANDOM, status=1)
    store.run("export", "--session", RANDOM, "--format", "pcap", status=1)
    lines = store.lines("--session", RANDOM, "--skip-damage")
    expect(any(line.get("reason") == "damaged in the store" for line in lines), "no line on the damage")
    expect(0 < len(messages_of(lines, RANDOM)) < store.random["messages"], "messages")
    store.run("export", "--session", RANDOM, "--format", "pcap", "--skip-damage")
    next(damage)


def checksum(header):
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xffff) + (total >> 16)
    return total + (total >> 16) & 0xffff


def datagrams(capture):
    """The payloads of a capture; checks what is around them."""
    magic, major, minor, _, _, _, link = struct.unpack("<IHHiIII", capture[:24])
    expect((magic, major, minor, link) == (0xa1b23c4d, 2, 4, 101), "header of the capture")
    at = 24
    while at < len(capture):
        seconds, nanoseconds, size, whole = struct.unpack("<IIII", capture[at:at + 16])
        frame = capture[at + 16:at + 16 + size]
        expect(size == whole == len(frame) and nanoseconds < 10**9 and seconds >= 1767323045, "record of the capture")
        expect(frame[0] == 0x45 and frame[9] == 17 and checksum(frame[:20]) == 0xffff, "header of IP")
        expect(struct.unpack("!H", frame[2:4])[0] == size and frame[16:20] == bytes([239, 1, 2, 3]), "header of IP")
        expect(struct.unpack("!HH", frame[22:26]) == (5000, size - 20), "header of UDP")
        yield frame[28:]
        at += 16 + size


def types_of(payloads):
    return [payload[0] & 15 for payload in payloads]


def tshark_reads(source, scratch, path, payloads):
    environment = {**os.environ, "WIRESHARK_CONFIG_DIR": str(scratch), "HOME": str(scratch), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["tshark", "-n", "-X", f"lua_script:{source}/tools/wireshark/llm.lua", "-r", str(path), "-T", "fields",
                           "-e", "frame.protocols", "-e", "llm.type", "-e", "_ws.malformed"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, check=False)
    if b"there cannot be two protocols" in done.stderr:
        return  # one is installed already
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    expect(done.returncode == 0 and len(rows) == len(payloads), done.stderr.decode())
    expect(all(":udp:llm" in row[0] and row[2] == "" for row in rows), f"tshark does not read {path}")
    expect([int(row[1].split(",")[0]) for row in rows] == types_of(payloads), "types by tshark")


def export_writes_packets_as_a_capture(store, source, scratch):
    for session, packets, ends in ((RANDOM, store.random["packets"], 1), (KNOWN, store.known["packets"], 0)):
        capture = store.run("export", "--format", "pcap", "--session", session)[0]
        payloads = list(datagrams(capture))
        types = types_of(payloads)
        expect(types.count(1) == packets, f"{types.count(1)} packets, not {packets}")
        expect(types.count(2) == 1 + ends and set(types) <= {1, 2, 6}, f"types {sorted(set(types))}")
        path = scratch / f"{session}.pcap"
        path.write_bytes(capture)
        if shutil.which("tshark") is not None:
            tshark_reads(source, scratch, path, payloads)
    expect(len(list(datagrams(store.run("export", "--format", "pcap", "--since", "2026-01-02T04:00")[0]))) >= store.known["packets"], "since")


def play_keeps_the_pace(store):
    fast = store.json("play", "--speed", "max", target=["loop://239.192.1.1:5001"])
    expect(fast["sessions"] == 2 and fast["messages"] == store.random["messages"] + 4 and fast["complete"], fast)
    expect(fast["lost"] == store.random["message_next"] - store.random["message_first"] - store.random["messages"], fast)
    slow = store.json("play", "--session", KNOWN, "--speed", "0.5", target=["loop://239.192.1.1:5001"])
    expect(slow["messages"] == 4 and slow["seconds"] >= 0.8, slow)
    text = store.run("play", "--session", KNOWN, "--speed", "1000", target=["loop://239.192.1.1:5001"])[0].decode()
    expect("played 4 messages" in text, text)
    store.run("play", target=["loop://239.192.1.1:5001?no_such_option=1"], status=1)


def wrong_arguments_are_named(store, scratch):
    for arguments, text in ((["show", "--since", "2026-01-01"], "not an option of this command"), (["list", "--since", "yesterday"], "--since"),
                            (["verify", "--session", "xyz"], "--session"), (["export", "--format", "xml"], "--format"),
                            (["export", "--to", "-1"], "--to"), (["export", "--from", "1", "--since", "1h"], "--from"), (["play"], "CHANNEL"),
                            (["play", "--speed", "0"], "--speed"), (["play", "--receivers", "99999"], "--receivers"), (["mend"], "no such command"),
                            (["list", "--frob"], "no such option")):
        errors = store.run(*arguments, status=2)[1]
        expect(text in errors and "llm-store --help" in errors, f"{arguments}: {errors}")
    file = scratch / "file"
    file.write_bytes(b"")
    for command in ("list", "show", "verify", "export", "play"):
        expect("usage: llm-store " + command in store.run(command, "--help")[0].decode(), f"{command} --help")
        target = ["loop://239.192.1.1:5001"] if command == "play" else []
        for directory in (scratch / "absent", file):
            errors = store.run(command, directory=directory, target=target, status=1)[1]
            expect(str(directory) in errors, errors)
    for command, options in (("verify", ["--session", "5"]), ("show", []), ("export", ["--session", "5"]), ("export", ["--channel", "udp://239.9.9.9:9"])):
        errors = store.run(command, *options, target=["5"] if command == "show" else [], status=1)[1]
        expect("llm-store list" in errors, errors)
    if os.geteuid() == 0:
        store.directory.chmod(0o700)
        errors = store.run("list", status=1, user=65534)[1]
        expect("Permission denied" in errors and str(store.directory) in errors, errors)


def main(tool, make, source):
    with tempfile.TemporaryDirectory(prefix="llm-store-") as name:
        scratch = pathlib.Path(name)
        scratch.chmod(0o755)
        store = Store(tool, make, scratch)
        list_names_each_recording(store)
        show_describes_a_recording(store)
        verify_names_what_is_damaged(store)
        compare_names_what_differs(store, scratch)
        export_writes_messages_as_json(store)
        export_goes_on_behind_damage_if_told_to(store)
        export_writes_packets_as_a_capture(store, source, scratch)
        play_keeps_the_pace(store)
        wrong_arguments_are_named(store, scratch)


if __name__ == "__main__":
    main(*sys.argv[1:4])
