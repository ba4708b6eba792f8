#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run slow [OPTION...]

What a slow receiver costs the others, for three kinds of it: stopped (SIGSTOP), tenth (takes a tenth of the rate), lossy (nft drops
20 % of what it gets). A transmitter and a steady receiver on one host, the slow one on another; it is slow for the middle one of
three phases. Prints the steady receiver's latency, from when a message was due to its delivery, and the transmitter's rate before,
during and after, and when the slow one was suspended.

Options:
  --kind NAME,...     which of stopped, tenth and lossy (all)
  --rate N            messages a second (20000)
  --size N            bytes of a message (100)
  --duration SECONDS  of each phase (4)
  --options K=V&..    options of the transmitter's channel, slow=... above all
  --cpus A,B          the CPUs of the transmitter and the steady receiver (0,1); the slow one runs where there is room
  --json FILE         where the JSON goes (the results directory)
  --results DIR       directory of results, the table too (build/bench-results)
  --help              this text
END
}

refuse() {
    printf 'bench/run slow: %s\n' "$*" >&2
    printf "Try 'bench/run slow --help'.\n" >&2
    exit 2
}

kinds=stopped,tenth,lossy rate=20000 size=100 duration=4 options='' cpus=0,1 json='' results=''
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage && exit 0 ;;
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
    --kind | --rate | --size | --duration | --options | --cpus | --json | --results)
        [ $# -gt 1 ] && [ -n "$2" ] || refuse "$1: needs a value"
        case $1 in
        --kind) kinds=$2 ;;
        --rate) rate=$2 ;;
        --size) size=$2 ;;
        --duration) duration=$2 ;;
        --options) options=$2 ;;
        --cpus) cpus=$2 ;;
        --json) json=$2 ;;
        --results) results=$2 ;;
        esac
        shift 2
        ;;
    *) refuse "$1: no such option" ;;
    esac
done
[[ $kinds =~ ^(stopped|tenth|lossy)(,(stopped|tenth|lossy))*$ ]] || refuse "--kind $kinds: must be of stopped, tenth and lossy"
[[ $rate =~ ^[0-9]{1,7}$ ]] && ((10#$rate > 0)) || refuse "--rate $rate: must be a number from 1 to 9999999"
[[ $size =~ ^[0-9]{1,5}$ ]] && ((10#$size >= 16 && 10#$size <= 65507)) || refuse "--size $size: must be a number from 16 to 65507"
[[ $duration =~ ^[0-9]{1,3}(\.[0-9]+)?$ ]] || refuse "--duration $duration: must be seconds"
[[ $cpus =~ ^[0-9]{1,4},[0-9]{1,4}$ ]] || refuse "--cpus $cpus: must be two numbers of CPUs, such as 0,1"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"

results=${results:-$SETUP_ROOT/build/bench-results}
json=${json:-$results/slow.json}
mkdir -p "$results"
setup_packages python3
build=$SETUP_ROOT/build/release
setup_build "$build" --buildtype=release
setup_hosts
work=$SETUP_SCRATCH/slow
mkdir -p "$work"
bind="setpriv --pdeathsig KILL --"
[ "$HOSTS_KIND" != loopback ] || refuse "needs network namespaces: root, or unprivileged user namespaces"

# drop on|off: a fifth of what arrives at the slow receiver's host.
drop() {
    if [ "$1" = off ]; then
        $HOST_B nft delete table inet llm_slow
        return
    fi
    $HOST_B nft -f - <<'END'
table inet llm_slow {
    chain input {
        type filter hook input priority 0;
        meta l4proto udp numgen random mod 100 < 20 drop
    }
}
END
}

# What makes the receiver of a kind slow, or no longer. make KIND slow|fine PID
make() {
    case $1-$2 in
    stopped-slow) kill -STOP "$3" ;;
    stopped-fine) kill -CONT "$3" ;;
    tenth-*) kill -USR1 "$3" ;;
    lossy-slow) drop on ;;
    lossy-fine) drop off ;;
    esac
}

# measure KIND
measure() {
    local kind=$1 slow steady sender phase program=$build/bench/slow status=0
    local channel="udp://239.192.1.1:5001?interface="
    # A hundred messages come in 100 / rate seconds: nine times as long a rest leaves a tenth.
    # shellcheck disable=SC2086
    $HOST_B $bind "$program" --role slow --channel "$channel$IF_B" --rest $((900000000 / rate)) \
        --json "$work/$kind-slow.json" &
    slow=$!
    # shellcheck disable=SC2086
    $HOST_A $bind "$program" --role steady --channel "$channel$IF_A" --cpu "${cpus#*,}" --json "$work/$kind-steady.json" &
    steady=$!
    mkfifo "$work/$kind-phases"
    # shellcheck disable=SC2086
    $HOST_A $bind "$program" --role transmitter --channel "$channel$IF_A${options:+&$options}" --cpu "${cpus%,*}" --rate "$rate" \
        --size "$size" --duration "$duration" --json "$work/$kind-transmitter.json" >"$work/$kind-phases" &
    sender=$!
    while read -r phase; do
        case $phase in
        during) make "$kind" slow "$slow" ;;
        after) make "$kind" fine "$slow" ;;
        esac
    done <"$work/$kind-phases"
    wait "$sender" && wait "$steady" || status=$?
    # It may have much to catch up with, and is not what is measured.
    kill "$slow" 2>/dev/null || true
    wait "$slow" 2>/dev/null || true
    return "$status"
}

for kind in ${kinds//,/ }; do
    say "== $kind"
    measure "$kind"
done

python3 - "$work" "$json" "$rate" "$size" "$duration" "$options" ${kinds//,/ } <<'END' | tee "$results/slow.txt"
import json, pathlib, platform, sys

work, target, rate, size, duration, options = pathlib.Path(sys.argv[1]), *sys.argv[2:7]
rows = []
for kind in sys.argv[7:]:
    steady, sender = (json.loads((work / f"{kind}-{role}.json").read_text(encoding="utf-8")) for role in ("steady", "transmitter"))
    p99 = {phase: steady[phase]["latency_us"]["p99"] for phase in ("before", "during", "after")}
    row = {"kind": kind, "steady": steady, "transmitter": sender, "p99_ratio_during": p99["during"] / p99["before"]}
    rows.append(row)
with open(target, "w", encoding="utf-8") as file:
    json.dump({"benchmark": "slow", "rate_msgs_per_s": int(rate), "size_bytes": int(size), "duration_s": float(duration),
               "options": options, "kernel": platform.release(), "rows": rows}, file, indent=2)
print(f"measured  {rate} msg/s of {size} B for {duration} s each before, during and after; one steady receiver on the transmitter's")
print("          host, one slow receiver on another; latency from when a message was due to its delivery at the steady one")
print()
line = "{:<8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {:>8} {:>8} {:>8} {:>9} {:>10} {:>5}"
print(line.format("slow", "median", "us", "", "p99", "us", "", "p99", "msg/s", "", "", "suspended", "readmitted", ""))
print(line.format("", "before", "during", "after", "before", "during", "after", "ratio", "before", "during", "after", "after ms",
                  "after ms", "lost"))
for row in rows:
    steady, sender = row["steady"], row["transmitter"]
    values = [f"{steady[phase]['latency_us'][what]:.1f}" for what in ("median", "p99") for phase in ("before", "during", "after")]
    values.append(f"{row['p99_ratio_during']:.2f}")
    values += [f"{sender['msgs_per_s'][phase]:.0f}" for phase in ("before", "during", "after")]
    values += ["-" if sender[name] is None else f"{sender[name]:.0f}" for name in ("suspended_after_ms", "readmitted_after_ms")]
    print(line.format(row["kind"], *values, f"{steady['lost']:.0f}"))
for row in rows:
    counted = ", ".join(f"{name} {value}" for name, value in row["transmitter"]["counters"].items() if value)
    print(f"{row['kind']}: {counted}")
END
say "table: $results/slow.txt, JSON: $json"
