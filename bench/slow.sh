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

Three phases of seconds tell whether the others stand still, not whether they lose a few percent: the machine changes more between
two of them. So of the stopped one short periods take turns after that, in one run: without the other receiver, which is not there then
at all, and with it, from the moment it is stopped. Between them it comes and goes, unmeasured. While it is away a socket that joined the
group and is not read is in its place: what one host more costs this machine, which is the network too, is not the receiver's doing. Each
period with it is compared with the mean of the two without it around it, and these with each other, which is what chance does; of both
the median of the ratios is printed, and between which ratios it lies with 95 % confidence. "p99 20ms" is the median of the 99th
percentiles of times of 20 ms (from 5,000 messages a second on): what else runs on the machine meets few of them, and decides the p99 of
a period.

Options:
  --kind NAME,...     which of stopped, tenth and lossy (all)
  --rate N            messages a second (20000)
  --size N            bytes of a message (100)
  --duration SECONDS  of each phase (4)
  --pairs N           periods with the stopped receiver, and as many without (60); 0: none
  --period SECONDS    of each of them (0.25, in which it is suspended: 180 ms after it was stopped)
  --settle SECONDS    for the other receiver to come, and to go (0.2)
  --options K=V&..    options of the transmitter's channel, slow=... above all
  --cpus A,B          the CPUs of the transmitter and the steady receiver (0,1); the slow one runs where there is room
  --json FILE         where the JSON goes (the results directory)
  --results DIR       directory of results, the table too (build/bench-results)
  --help              this text
END
}

script="bench/run slow"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

kind=stopped,tenth,lossy rate=20000 size=100 duration=4 pairs=60 period=0.25 settle=0.2 options='' cpus=0,1 json='' results=''
parse_options "kind rate size duration pairs period settle options cpus json results" "$@"
kinds=$kind
check_words --kind "$kinds" stopped tenth lossy
check_number --rate "$rate" 1 9999999 20000
check_number --size "$size" 24 65507 100
check_seconds --duration "$duration" 100 999000
check_number --pairs "$pairs" 0 1000 60
check_seconds --period "$period" 100 99000
check_seconds --settle "$settle" 100 99000
check_options "$options"
check_cpus "$cpus" 2
[ -z "$json" ] || check_file --json "$json"

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

# A socket in the place of the receiver that is away: mute=PID. It is waited for, as a signal before it is ready would end it.
mute_start() {
    # shellcheck disable=SC2086
    $HOST_B $bind "$build/bench/slow_pairs" --role mute --channel "udp://239.192.1.1:5001?interface=$IF_B" >"$work/mute" &
    mute=$!
    read -r _ <"$work/mute"
}

# The receiver that is to be stopped comes in the mute's place, is stopped, and leaves, as the transmitter says.
take_turns() {
    local other='' mute='' steady sender phase program=$build/bench/slow_pairs status=0
    local channel="udp://239.192.1.1:5001?interface="
    # shellcheck disable=SC2086
    $HOST_A $bind "$program" --role steady --channel "$channel$IF_A" --cpu "${cpus#*,}" --rate "$rate" --pairs "$pairs" \
        --period "$period" --json "$work/pairs-steady.json" &
    steady=$!
    mkfifo "$work/mute" "$work/pairs-phases"
    mute_start
    # shellcheck disable=SC2086
    $HOST_A $bind "$program" --role transmitter --channel "$channel$IF_A${options:+&$options}" --cpu "${cpus%,*}" --rate "$rate" \
        --size "$size" --pairs "$pairs" --period "$period" --settle "$settle" --json "$work/pairs-transmitter.json" >"$work/pairs-phases" &
    sender=$!
    while read -r phase; do
        case $phase in
        without) kill -USR1 "$mute" ;;
        coming)
            kill "$mute" && { wait "$mute" || true; }
            # shellcheck disable=SC2086
            $HOST_B $bind "$program" --role other --channel "$channel$IF_B" &
            other=$!
            ;;
        stopped) kill -STOP "$other" ;;
        going)
            # How it ends tells nothing: it may have been stopped before it was ready to be told.
            [ -z "$other" ] || { kill -TERM "$other" && kill -CONT "$other" && wait "$other"; } || true
            other=''
            mute_start
            ;;
        esac
    done <"$work/pairs-phases"
    [ -z "$mute" ] || kill "$mute" 2>/dev/null || true
    wait "$sender" && wait "$steady" || status=$?
    return "$status"
}

for kind in ${kinds//,/ }; do
    say "== $kind"
    measure "$kind"
done
[[ ,$kinds, == *,stopped,* ]] || pairs=0
if ((10#$pairs > 0)); then
    say "== stopped, $pairs times for $period s"
    take_turns
fi

python3 - "$work" "$json" "$rate" "$size" "$duration" "$options" "$pairs" "$period" ${kinds//,/ } <<'END' | tee "$results/slow.txt"
import json, math, pathlib, platform, statistics, sys

work, target, rate, size, duration, options, pairs, period = pathlib.Path(sys.argv[1]), *sys.argv[2:9]


def median_of(ratios):
    """The median, and the order statistics between which it lies with 95 % confidence (a binomial of one half)."""
    ratios = sorted(ratios)
    outside, at = 0.0, 0
    while at < len(ratios) // 2 and outside + math.comb(len(ratios), at) / 2 ** len(ratios) <= 0.025:
        outside += math.comb(len(ratios), at) / 2 ** len(ratios)
        at += 1
    at = max(at - 1, 0)
    return {"median": statistics.median(ratios), "from": ratios[at], "to": ratios[-1 - at]}


def compare(steady, what):
    """With the stopped receiver against without; without against without is what chance does."""
    def of(pair, which):
        return pair[f"{which}_{what}"] if what == "typical_p99" else pair[which][what]
    without = [of(pair, "without") for pair in steady["pairs"]]
    stopped = [of(pair, "stopped") for pair in steady["pairs"]]
    if None in without + stopped:
        return None
    around = [math.sqrt(a * b) for a, b in zip(without, without[1:])]
    return {"without_us": statistics.median(without), "stopped_us": statistics.median(stopped),
            "ratio": median_of([b / a for a, b in zip(around, stopped)]),
            "chance": median_of([without[i + 1] / math.sqrt(without[i] * without[i + 2]) for i in range(len(without) - 2)])}


paired = {}
if int(pairs) > 2:
    steady = json.loads((work / "pairs-steady.json").read_text(encoding="utf-8"))
    paired = {"pairs": int(pairs), "period_s": float(period),
              "steady": {what: compare(steady, what) for what in ("median", "typical_p99", "p99")}, "lost": steady["lost"], "counters": json.loads((work / "pairs-transmitter.json").read_text(encoding="utf-8")),
              "of_each": steady["pairs"]}
rows = []
for kind in sys.argv[9:]:
    steady, sender = (json.loads((work / f"{kind}-{role}.json").read_text(encoding="utf-8")) for role in ("steady", "transmitter"))
    p99 = {phase: steady[phase]["latency_us"]["p99"] for phase in ("before", "during", "after")}
    row = {"kind": kind, "steady": steady, "transmitter": sender, "p99_ratio_during": p99["during"] / p99["before"]}
    rows.append(row)
with open(target, "w", encoding="utf-8") as file:
    json.dump({"benchmark": "slow", "rate_msgs_per_s": int(rate), "size_bytes": int(size), "duration_s": float(duration),
               "options": options, "kernel": platform.release(), "rows": rows, "pairs": paired}, file, indent=2)
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
if paired:
    counted = ", ".join(f"{name} {value}" for name, value in paired["counters"].items() if value)
    print()
    print(f"in turns  {pairs} periods of {period} s without the other receiver and {pairs} with it, stopped; 95 % confidence in brackets")
    print()
    line = "{:<8} {:>8} {:>8}   {:<22} {:<22}"
    print(line.format("steady", "without", "stopped", "ratio", "without to without"))
    for what, found in paired["steady"].items():
        if found is None:
            continue
        ratios = [f"{found[name]['median']:.3f} ({found[name]['from']:.3f} to {found[name]['to']:.3f})" for name in ("ratio", "chance")]
        name = "p99 20ms" if what == "typical_p99" else what
        print(line.format(name, f"{found['without_us']:.1f}", f"{found['stopped_us']:.1f}", *ratios))
    print(f"in turns: lost {paired['lost']}; {counted}")
END
say "table: $results/slow.txt, JSON: $json"
