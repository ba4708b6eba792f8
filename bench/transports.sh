#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run transports [OPTION...]

Measures the hop at 45 bytes and 100,000 messages a second, and the highest lossless rate at 45 and 1,000 bytes, over each
transport that this machine can run: one after the other, each beside what carries it bare in the same run. One table at the end.

Options:
  --transport NAME,...  which of udp, xdp, bypass and shm (all); bypass without a stack loaded runs over a stand-in that does
                        nothing
  --duration SECONDS    of each row (2)
  --runs N              measure so often and report medians (3)
  --results DIR         directory of results, the table too (build/bench-results)
  --cpus A,B            the CPU of each end, as of bench/run
  --help                this text

roce is left out: its devices are emulated, see bench/run reflector --transport roce.
END
}

script="bench/run transports"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

transport=udp,xdp,bypass,shm duration=2 runs=3 results='' cpus=''
parse_options "transport duration runs results cpus" "$@"
transports=$transport
check_words --transport "$transports" udp xdp bypass shm

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"

results=${results:-$SETUP_ROOT/build/bench-results}
mkdir -p "$results"
setup_packages python3

# What one transport makes of it; where it cannot run, why. measure TRANSPORT
measure() {
    local common=(--transport "$1" --duration "$duration" --runs "$runs" ${cpus:+--cpus "$cpus"})
    local benchmark
    for benchmark in reflector throughput; do
        local row=(--size 45,1000)
        [ "$benchmark" = throughput ] || row=(--size 45 --rate 100000)
        say "== $1: $benchmark"
        if ! setup_run "$SETUP_ROOT/bench/run" "$benchmark" "${common[@]}" "${row[@]}" --results "$SETUP_SCRATCH/$1" \
            --json "$SETUP_SCRATCH/$1-$benchmark.json" >"$SETUP_SCRATCH/out" 2>"$SETUP_SCRATCH/err"; then
            say "   left out: $(tail -n 1 "$SETUP_SCRATCH/err")"
            return 0
        fi
    done
}

for transport in ${transports//,/ }; do
    measure "$transport"
done

python3 - "$SETUP_SCRATCH" "$runs" "$duration" ${transports//,/ } <<'END' | tee "$results/transports.txt"
import json, pathlib, sys

scratch, runs, duration = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
columns = "{:<9} {:>8} {:>8} {:>8} {:>6} {:>11} {:>11} {:>7} {:>7} {:>6} {:>6} {:>5}"
machine = None
rows = []
for transport in sys.argv[4:]:
    files = [scratch / f"{transport}-{benchmark}.json" for benchmark in ("reflector", "throughput")]
    if not all(file.exists() for file in files):
        continue
    hop, rate = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    machine = hop["machine"]
    hop, small, large = hop["rows"][0], rate["rows"][0], rate["rows"][1]
    number = lambda value, digits: "-" if value is None else f"{value:.{digits}f}"
    rows.append((transport, number(hop["hop_us"]["median"], 2), number(hop["hop_us"]["p99"], 2),
                 number(hop["raw_hop_us"]["median"], 2), number(hop["ratio_to_raw"], 2),
                 number(small["msgs_per_s"], 0), number(large["msgs_per_s"], 0),
                 number(100 * small["kernel_share"]["transmitter"], 0), number(100 * small["kernel_share"]["receiver"], 0),
                 number(small["rss_mib"]["transmitter"], 0), number(small["rss_mib"]["receiver"], 0),
                 number(hop["lost"] + small["lost"] + large["lost"], 0)))
if not rows:
    sys.exit("bench/run transports: none of them runs here")
print(f"machine   {machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB, {machine['kernel']}")
print(f"measured  one hop at 45 B and 100000 msg/s, then the highest lossless rate; {duration} s a row, medians of {runs} runs;")
print("          bare is what carries it, in the same run; both ends poll, a core each: kernel is the share spent in the kernel")
print()
print(columns.format("", "hop us", "", "bare us", "ratio", "msg/s", "msg/s", "kernel", "kernel", "MiB", "MiB", ""))
print(columns.format("transport", "median", "p99", "median", "", "45 B", "1000 B", "tx %", "rx %", "tx", "rx", "lost"))
for row in rows:
    print(columns.format(*row))
END
say "table: $results/transports.txt"
