#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what the dissector found in a capture with what the programs counted.

    tests/wireshark/live.py MESSAGES SENDER_JSON RECEIVER_JSON FIELDS

FIELDS has a line for each datagram, with the columns that live.sh asks tshark for; a datagram may hold several packets.
"""
import collections
import json
import sys

COLUMNS = ("type", "repeats", "missing", "malformed", "broken", "nak_packets", "end", "train", "numbers", "captured")
NAMES = {"1": "data", "2": "heartbeats", "3": "naks", "4": "rejects", "5": "status", "6": "topics", "7": "queries", "8": "joins", "9": "notices"}


def found_in(path):
    """Packets by type, messages by number, and sums and counts of the other columns."""
    found, numbers = collections.Counter(), set()
    for line in open(path, encoding="utf-8"):
        columns = dict(zip(COLUMNS, line.rstrip("\n").split("\t")))
        if not columns["type"]:
            found["not libllm"] += 1
        for kind in filter(None, columns["type"].split(",")):
            found[NAMES[kind]] += 1
        for name in ("nak_packets", "captured"):
            found[name] += sum(int(value) for value in columns[name].split(",") if value)
        numbers.update(int(value) for value in columns["numbers"].split(",") if value)
        for name in ("repeats", "missing", "malformed", "broken", "train"):
            found[name] += len([value for value in columns[name].split(",") if value])
    found["messages"] = len(numbers)
    return found


def main(messages, sender_path, receiver_path, fields_path):
    sender, receiver = (json.load(open(path, encoding="utf-8"))["stats"] for path in (sender_path, receiver_path))
    found = found_in(fields_path)
    rules = [
        ("data but repeats", found["data"] - found["repeats"], "==", sender["packets_data"]),
        # The sender prints before it closes, and may send repairs during the close.
        ("repeats", found["repeats"], ">=", sender["packets_repaired"]),
        ("repeats", found["repeats"], ">", 0),
        ("heartbeats", found["heartbeats"], ">=", sender["heartbeats_sent"]),
        ("messages", found["messages"], "==", int(messages)),
        ("naks", found["naks"], "==", receiver["naks_sent"]),
        ("nak_packets", found["nak_packets"], "==", receiver["nak_packets"]),
        ("captured", found["captured"], "==", found["nak_packets"]),
        ("status", found["status"], ">=", sender["status_received"]),
        ("notices", found["notices"], ">=", sender.get("notices_sent", 0)),
        # Includes tokens, which confirm the receiver's address.
        ("joins", found["joins"], ">=", sender["tokens_sent"]),
        ("missing", found["missing"], "==", 0),
        ("malformed", found["malformed"], "==", 0),
        ("broken", found["broken"], "==", 0),
        ("not libllm", found["not libllm"], "==", 0),
        ("train", found["train"], ">=", sender.get("udp_trains", 0)),
    ]
    holds = {"==": lambda a, b: a == b, ">=": lambda a, b: a >= b, ">": lambda a, b: a > b}
    failed = [rule for rule in rules if not holds[rule[2]](rule[1], rule[3])]
    for name, value, sign, limit in failed:
        print(f"FAILED: {name} in the capture: {value}, not {sign} {limit}")
    print(dict(found))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
