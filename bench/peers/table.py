#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the tables of bench/run peers from the lines of its measurements, and writes them as JSON.

    table.py --results FILE --skipped FILE --json FILE --duration SECONDS --network TEXT
"""
import argparse
import json
import os
import platform
import statistics

BASE = "libllm"
ALONE = {"raw", "packed", "libllm", "aeron", "iceoryx2"}  # have one thread an end
WAIT_SHARE = 0.2  # of the duration
WORKS = {
    "reflector": ("median_us", "a hop in µs, median / p99, or the rate reached* where that is not the one asked for;\n"
                               "under it the ratio of the medians to libllm's: above 1 is slower"),
    "throughput": ("msgs_per_s", "thousand messages a second (Gbit/s of the application);\n"
                                 "under it the ratio to libllm's: below 1 is slower"),
}


def read_lines(path):
    """Each measurement as a dictionary; numbers are numbers."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = dict(field.split("=", 1) for field in line.split())
            for key, value in fields.items():
                try:
                    fields[key] = float(value)
                except ValueError:
                    pass
            found.append(fields)
    return found


def median(rounds, key):
    values = [one[key] for one in rounds if key in one]
    return statistics.median(values) if values else None


def combine(rounds):
    """One result of several rounds: medians, but the worst of what was lost or disturbed."""
    good = [one for one in rounds if not one.get("failed")]
    result = {key: median(good, key) for key in good[0] if isinstance(good[0][key], float)} if good else {}
    for key in ("lost", "disordered", "waited_ms", "tries"):
        if good and key in good[0]:
            result[key] = max(one[key] for one in good)
    for key in ("round", "size", "rate", "cores_ns"):
        result.pop(key, None)
    result["failed"] = len(rounds) - len(good)
    return result


def rows(lines):
    """[(work, size, rate, cores_ns, {peer: result})] in the order measured."""
    grouped = {}
    for one in lines:
        key = one["work"], int(one["size"]), int(one["rate"]) if one["work"] == "reflector" else 0
        grouped.setdefault(key, {}).setdefault(one["peer"], []).append(one)
    found = []
    for (work, size, rate), peers in grouped.items():
        cores = median([one for rounds in peers.values() for one in rounds], "cores_ns")
        found.append((work, size, rate, cores, {peer: combine(rounds) for peer, rounds in peers.items()}))
    return found


def unreached(result, rate):
    """Whether the rate asked for was more than was taken; its latency then tells of queues only."""
    return bool(rate) and result.get("reached", rate) < rate * 0.999


def ratio(work, rate, result, base):
    key = WORKS[work][0]
    if not base or not base.get(key) or not result.get(key) or unreached(result, rate) or unreached(base, rate):
        return None
    return result[key] / base[key]


def short(value):
    """Three digits that count."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def marks(result):
    """! lost messages, ~ failed in some rounds."""
    return ("!" if result.get("lost") or result.get("disordered") else "") + ("~" if result["failed"] else "")


def figure(work, result, rate):
    if WORKS[work][0] not in result:
        return "failed"
    if work == "throughput":
        return f"{short(result['msgs_per_s'] / 1000)} ({result['gbit_per_s']:.2f}){marks(result)}"
    if unreached(result, rate):
        return f"{result['reached'] / 1000:,.0f} k/s*{marks(result)}"
    return f"{short(result['median_us'])}/{short(result['p99_us'])}{marks(result)}"


def print_table(work, table):
    peers = list(dict.fromkeys(peer for row in table for peer in row[4]))
    lines = [["size", "msg/s" if work == "reflector" else "", "cores ns"] + peers]
    for _, size, rate, cores, results in table:
        pace = "" if work != "reflector" else f"{rate:,}" if rate else "ping-pong"
        lines.append([str(size), pace, short(cores) if cores else "?"] +
                     [figure(work, results[peer], rate) if peer in results else "" for peer in peers])
        ratios = [ratio(work, rate, results.get(peer, {}), results.get(BASE)) for peer in peers]
        lines.append(["", "", ""] + [f"{value:.2f}" if value else "" for value in ratios])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    print(f"\n{work}: {WORKS[work][1]}\n")
    for line in lines:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths)).rstrip())


def print_notes(table, duration):
    """What makes a figure worth less."""
    for work, size, rate, _, results in table:
        row = f"{work}, {size} B{f' at {rate:,} msg/s' if rate else ''}"
        for peer, result in results.items():
            if result.get("lost") or result.get("disordered"):
                print(f"! {row}: {peer} lost {result['lost']:,.0f} messages in its worst round, {result['disordered']:,.0f} came "
                      "out of order or twice")
            if result.get("tries", 1) > 1:
                print(f"  {row}: {peer} lost messages or stood still at full rate, and was slowed down; worst: step "
                      f"{result['tries'] - 1:.0f}")
            if result["failed"]:
                print(f"~ {row}: {peer} failed in {result['failed']} rounds")
        # Ends with one thread have nothing of their own to wait for.
        waited = max(results[peer].get("waited_ms", 0) for peer in results if peer in ALONE) if ALONE & set(results) else 0
        if waited > WAIT_SHARE * duration * 1000:
            print(f"  {row}: ends of one thread waited up to {waited:,.0f} ms for their cores; something else ran there")


def machine():
    cpu = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    return {"cpu": cpu, "cores": os.cpu_count(), "kernel": f"{platform.system()} {platform.release()} {platform.machine()}"}


def write_json(path, options, table, skipped, lines):
    report = {
        "benchmark": "peers",
        "machine": {**machine(), "network": options.network},
        "duration_s": options.duration,
        "skipped": skipped,
        "rows": [{"work": work, "size_bytes": size, **({"rate": rate} if work == "reflector" else {}), "core_to_core_ns": cores,
                  "peers": {peer: {**result, "ratio_to_libllm": ratio(work, rate, result, results.get(BASE))}
                            for peer, result in results.items()}}
                 for work, size, rate, cores, results in table],
        "measurements": lines,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser()
    for name in ("--results", "--skipped", "--json", "--network"):
        parser.add_argument(name, required=True)
    parser.add_argument("--duration", type=float, required=True)
    options = parser.parse_args()
    with open(options.skipped, encoding="utf-8") as file:
        skipped = [line.strip() for line in file if line.strip()]
    lines = read_lines(options.results)
    table = rows(lines)
    here = machine()
    rounds = int(max(one["round"] for one in lines))
    print(f"machine   {here['cpu']}, {here['cores']} cores, {here['kernel']}\nnetwork   {options.network}")
    print(f"measured  {options.duration:g} s each; medians of {rounds} rounds, the worst of lost")
    for work in WORKS:
        if chosen := [row for row in table if row[0] == work]:
            print_table(work, chosen)
    print()
    print_notes(table, options.duration)
    for line in skipped:
        print(f"without {line}")
    write_json(options.json, options, table, skipped, lines)


if __name__ == "__main__":
    main()
