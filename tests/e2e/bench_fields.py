#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a benchmark's JSON has the promised fields and no unknown ones: bench_fields.py BENCHMARK FILE"""
import json
import sys

MACHINE = {"cpu", "cores", "memory_mib", "kernel", "peer", "network", "emulated", "core_to_core_ns"}
TAIL = {"mean", "median", "p99", "p99_9", "p99_99", "p99_9999", "max", "std"}
HOP = {"median", "mean", "p99", "p99_9", "p99_99", "max", "std"}
# Fields of the benchmarks that compare hops.
SWEEP = {
    "transport": None, "size_bytes": None, "rate_msgs_per_s": None, "duration_s": None, "sent": None, "received": None,
    "lost": None, "samples": None, "hop_us": {"median", "p99"}, "raw_hop_us": {"median", "p99", "p99_9"}, "ratio_to_raw": None,
    "p99_9_ratio_to_raw": None, "messages_per_packet": None,
}
ROWS = {
    "reflector": {
        "transport": None, "size_bytes": None, "rate_msgs_per_s": None, "reflect": None, "duration_s": None, "sent": None,
        "received": None, "lost": None, "samples": None, "hop_us": HOP, "rtt_us": HOP, "raw_hop_us": {"median", "p99", "p99_9"},
        "ratio_to_raw": None, "p99_9_ratio_to_raw": None,
    },
    "throughput": {
        "transport": None, "size_bytes": None, "sent": None, "received": None, "lost": None, "repaired_packets": None,
        "msgs_per_s": None, "payload_gbit_per_s": None, "wire_share": None, "raw_gbit_per_s": None, "ratio_to_raw": None,
        "rss_mib": {"transmitter", "receiver"}, "kernel_share": {"transmitter", "receiver"},
    },
    "requests": {
        "transport": None, "size_bytes": None, "rate_requests_per_s": None, "duration_s": None, "sent": None, "received": None,
        "lost": None, "samples": None, "rtt_us": HOP, "raw_rtt_us": {"median", "p99"}, "ratio_to_raw": None, "requests_per_s": None,
        "raw_requests_per_s": None,
    },
    "groups": {
        **SWEEP, "groups": None, "ratio_to_first": None,
        "load": {"msgs_per_s", "lost", "transmitter_cpu_percent", "receiver_cpu_percent"},
    },
    "batching": SWEEP,
    "join": {
        "transport": None, "join": None, "size_bytes": None, "rate_msgs_per_s": None, "duration_s": None, "received": None, "lost": None,
        "live_receiver": {"before", "during", "after"}, "ratio_during": {"median", "p99", "typical_p99"},
        "msgs_per_s": {"fill", "before", "during", "settle", "after"}, "counters": None,
        "joiners": {"joiners", "asked_for", "live", "exact", "refused", "open_max", "received", "lost", "unsaid", "duplicated", "changed",
                    "past", "past_msgs_per_s", "until_live_ms", "other_until_live_ms", "stale", "each_past_msgs_per_s"},
    },
    "assured": {
        "transport": None, "level": None, "receivers": None, "size_bytes": None, "duration_s": None, "sent": None, "received": None,
        "lost": None, "unrepaired": None, "rates": None,
    },
    "store": {
        "case": None, "engine": None, "level": None, "file_system": None, "size_bytes": None, "rate_msgs_per_s": None, "msgs_per_s": None,
        "mib_per_s": None, "raw_mib_per_s": None, "latency_us": {"median", "p99", "max"}, "raw_write_us": {"median", "p99"},
        "ratio_to_raw": None, "lost": None, "twice": None, "rss_mib": None,
    },
    "kept": {
        "transport": None, "topics": None, "keep": None, "size_bytes": None, "rate_msgs_per_s": None, "duration_s": None, "received": None,
        "lost": None, "until_last_ms": {"median", "max"}, "until_first_ms": {"median", "max"}, "round_ms": None, "hop_us": {"before", "during"},
        "ratio_during": {"median", "p99", "typical_p99"},
        "sending": {"not_kept_ns", "kept_ns", "more_ns", "not_kept_instructions", "kept_instructions", "more_instructions", "memory_kib"},
    },
    "destinations": {
        "transport": None, "to": None, "receivers": None, "size_bytes": None, "rate_msgs_per_s": None, "duration_s": None, "sent": None,
        "received": None, "lost": None, "hop_us": {"median", "p99", "last"}, "send_us": None, "packed_ns": None, "msgs_per_s": None,
        "ratio_to_group": {"hop_us", "send_us", "packed_ns", "msgs_per_s"},
    },
    "rate": {"transport": None, "row": None, "received": None, "lost": None, "stream_us": None, "packets_per_message": None,
             "packets_ratio_to_least": None, "counters": None},
    "watch": {
        "transport": None, "kind": None, "runs": None, "received": None, "lost": None, "named": None,
        "named_ms": {"receiver", "reported", "transmitter"}, "over_ms": {"receiver", "reported", "transmitter"},
        "wrong": {"before", "during", "after"}, "lapses": None, "healthy_hop_us": {"before", "during", "after"}, "p99_ratio_during": None,
    },
    "order": {
        "transport": None, "loss_percent": None, "delay_s": None, "order": None, "size_bytes": None, "rate_msgs_per_s": None,
        "duration_s": None, "runs": None, "sent": None, "received": None, "lost": None, "changed": None, "disordered": None,
        "typical_us": {"median", "p99", "p99_9"}, "hop_us": HOP, "ratio_to_sequence": {"median", "p99", "p99_9"},
        "counters": None,
    },
    "availability": {
        "transport": None, "case": None, "loss_percent": None, "lines": None, "size_bytes": None, "rate_msgs_per_s": None, "duration_s": None,
        "runs": None, "sent": None, "received": None, "lost": None, "changed": None, "disordered": None, "filled_by_other_line": None,
        "filled_by_repair": None, "typical_us": {"median", "p99", "p99_9"}, "hop_us": HOP,
        "ratio_to_one_line": {"median", "p99", "p99_9", "throughput"}, "dead_line": None, "msgs_per_s": None,
        "counters": None, "kills": None, "twice": None, "late": None, "silence_us": {"median", "p99", "max"},
        "control_silence_us": {"median", "p99", "max"}, "alone_silence_us": {"median", "p99", "max"}, "takeover_us": {"median", "p99", "max"},
        "sent_hop_us": {"median", "p99", "max"}, "ratio_to_sent": {"median", "p99", "max"},
    },
    "overhead": {
        "transport": None, "pattern": None, "feature": None, "size_bytes": None, "runs": None, "rounds": None, "sent": None,
        "received": None, "lost": None, "ns_per_message": None, "more_ns": {"median", "low_quartile", "high_quartile"}, "bound_ns": None,
        "file_write_us": None,
    },
    "security": {
        "transport": None, "mode": None, "backend": None, "suite": None, "size_bytes": None, "rate_msgs_per_s": None,
        "hop_us": {"median", "p99"}, "raw_hop_us": {"median", "p99"}, "msgs_per_s": None, "wire_share": None, "sent": None, "received": None, "lost": None,
        "core_to_core_ns": None, "aead_ns_per_packet": None, "instructions_per_packet": {"transmit", "receive"},
        "hop_us_over_clear": None, "hop_us_bound": None, "throughput_limit": None, "ratio_to_clear": {"hop", "throughput"},
    },
    "market-data": {
        "sequence": None, "transport": None, "library": None, "producers": None, "consumers": None, "rate_msgs_per_s": None, "sent": None,
        "lost": None, "samples": None, "hybrid_us": TAIL, "from_send_us": TAIL, "bare_hybrid_us": TAIL, "ratio_to_bare": None,
        "highest_rate_msgs_per_s": None, "cpu_cores": {"producer", "consumers"}, "rss_mib_max": None, "recovery_ms": None,
        "incomplete": None,
    },
    "fan-out": {
        "transport": None, "library": None, "publishers": None, "topics": None, "subscribers": None, "rate_msgs_per_s": None,
        "delivered_msgs_per_s": None, "lost": None, "oneway_us": TAIL, "bare_oneway_us": TAIL, "ratio_to_bare": None,
    },
    "scale": {"what": None, "receivers": None, "sent": None, "received": None, "lost": None},
    "topics": {
        **SWEEP, "topics": None,
        "throughput": {"msgs_per_s", "payload_gbit_per_s", "lost", "tries", "raw_gbit_per_s", "ratio_to_raw"},
    },
}

SWEEP_BESIDES = {"rate_reached_msgs_per_s", "disordered", "refused", "p99_ratio_to_raw", "core_to_core_ns", "core_wait_ms"}
# Further fields, needed to interpret the promised ones.
BESIDES = {
    "reflector": {"rate_reached_msgs_per_s", "hop_submit_us", "raw_packed", "p99_ratio_to_raw", "core_to_core_ns", "core_wait_ms"},
    "throughput": {"duration_s", "messages", "runs", "average", "tries", "packet_bytes_mean", "messages_per_packet", "raw_segmented_gbit_per_s",
                   "ratio_to_raw_segmented", "raw_kept_gbit_per_s", "ratio_to_raw_kept", "core_to_core_ns", "core_wait_ms"},
    "requests": {"outstanding_max", "p99_ratio_to_raw", "core_to_core_ns", "core_wait_ms"},
    "batching": SWEEP_BESIDES,
    "join": {"calm_s", "history_packets", "topics", "stay_messages", "live_receiver_waits", "disturbed"},
    "assured": set(),
    "overhead": set(),
    "order": set(),
    "availability": set(),
    "security": set(),
    "store": {"raw_busy_mib_per_s", "ratio_to_raw_busy", "raw_record_us", "ratio_to_raw_record", "direct", "received", "segments",
              "open_us", "bound_us", "compared_msgs_per_s", "compared_us", "during_us", "ratio_to_compared", "p99_ratio_to_compared", "beside_writes_us",
              "ratio_to_writes", "bytes_ratio", "block_bytes", "write_us_max", "stalls", "cached"},
    "kept": {"calm_s", "joined", "kept_received", "counters"},
    "destinations": {"counters"},
    "rate": {"limit_bytes_per_s", "offered_bytes_per_s", "seen", "ratio_to_limit", "witness_missed", "offered_msgs_per_s", "half_received",
             "half_lost", "msgs_per_s", "down_after_ms", "back_after_ms"},
    "watch": {"rate_msgs_per_s", "watch_ms", "duration_s", "limited_lost", "watched_s", "made_ms", "wrong_of", "counters"},
    "groups": SWEEP_BESIDES,
    "topics": SWEEP_BESIDES,
    "market-data": {"bare_highest_rate_msgs_per_s", "rss_mib", "pss_mib", "pss_mib_max", "faults", "switches", "phases_us", "curve", "clock_us", "causes"},
    "fan-out": {"sent", "received", "p99_9_ratio_to_bare", "each_median_us", "late_ms", "cpu_cores", "rss_mib_max", "pss_mib_max", "highest_rate_msgs_per_s",
                "highest_delivered_msgs_per_s", "clock_us", "causes"},
    "scale": {"loss", "virtual_s", "packets_per_s", "data_per_s", "naks_per_s", "status_per_s", "repairs_multicast_per_s",
              "repairs_unicast_per_s", "repair_bytes_per_s", "repair_share", "packets_lost", "packets_lost_by_any",
              "naks_per_lost_packet", "repairs_per_lost_packet", "status_per_packet", "repair_us", "drops", "memory", "join",
              "group_rtt_us", "transmitter", "topics", "watched", "known_ms", "queries", "answers", "answers_dropped", "bytes_sent",
              "receiver_kib", "names_kib", "sessions", "ns_per_message", "transport", "real_per_s", "simulated_per_s", "ratio"},
}


def same(what, there, promised):
    if set(there) != set(promised):
        sys.exit(f"{what}: missing {sorted(set(promised) - set(there))}, beyond {sorted(set(there) - set(promised))}")


def check_peers(report):
    """Checks that every peer has done both works without loss."""
    if {row["work"] for row in report["rows"]} != {"reflector", "throughput"} or report["skipped"]:
        sys.exit(f"{len(report['rows'])} rows, skipped {report['skipped']}")
    for row in report["rows"]:
        for name, result in row["peers"].items():
            # A hop at a rate that the machine did not reach is measured but not compared.
            if result["failed"] or result.get("lost") or not (result["ratio_to_libllm"] or result.get("samples")):
                sys.exit(f"{row['work']}: {name} has {result}")


def main():
    kind, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    if kind == "peers":
        check_peers(report)
        return
    same("report", report, {"benchmark", "machine", "rows"})
    same("machine", report["machine"], MACHINE)
    if report["benchmark"] != kind or not report["rows"]:
        sys.exit(f"benchmark is {report['benchmark']}, with {len(report['rows'])} rows")
    for row in report["rows"]:
        same("row", set(row) | BESIDES[kind], set(ROWS[kind]) | BESIDES[kind])
        for name, fields in ROWS[kind].items():
            if fields is not None:
                same(name, row[name], fields)
        # The bare transport repairs nothing.
        if (row["lost"] != 0 and row.get("library") != "bare") or row.get("received", row.get("samples")) <= 0:
            sys.exit(f"lost {row['lost']} of {row['sent']}")


main()
