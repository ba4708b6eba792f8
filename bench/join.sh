#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run join [OPTION...]

What receivers that join late cost one that is there, and how long they take. A transmitter keeps a rate; a live receiver on its host
measures latency, from when a message was due to its delivery, and loss; on another host so many receivers join from the past, one
after the other, each in a context of its own in one process. Each checks that it gets every message once, from where it began
until it has been live for a while, and leaves. Prints the live receiver's latency and the transmitter's rate before, during and
after; the time from when a joiner's context is opened until it is live, with --join live until its first message; and messages of the
past a second, of all together from the first joiner to the last one that was live, and of each until it was live.

Fails if the live receiver lost a message, or a joiner never became live, or got a message twice, or not and was not told so. Who begins with
the oldest message may be overtaken by the end of the history, and is told what it lost: that is counted.

The live receiver has a core of its own if there are three. With two it sleeps between messages, and the joiners, at the lowest priority
(SCHED_IDLE), have the rest of its core, and poll all the time in all phases; so before and after tell what the same machine does without
them. "p99 20ms" is the median of the 99th percentiles of times of 20 ms (from 5,000 messages a second on): what else runs on the
machine meets few of them.

Options:
  --joiners N         receivers that join (1000)
  --duration SECONDS  in which they begin to, at equal distances (10)
  --calm SECONDS      before and after that (3)
  --join WHERE        where they begin: oldest, messages:N back, time:SECONDS back, latest, what topics keep, or live (oldest)
  --history PACKETS   that the transmitter keeps, a power of two: at steady rates a packet has one message (1024)
  --topics N          that messages take turns on (1; with --join latest 1000, each of which keeps its last message)
  --stay N            messages for which a joiner stays once it is live (100)
  --rate N            messages a second (10000)
  --size N            bytes of a message (45)
  --options K=V&..    options of all channels, such as replay_bytes_per_s=64M
  --cpus A,B,C        the CPUs of the transmitter, the live receiver and the joiners (0,1,2, or with two CPUs 0,1,1)
  --json FILE         where the JSON goes (the results directory)
  --results DIR       directory of results, the table too (build/bench-results)
  --help              this text
END
}

script="bench/run join"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

joiners=1000 duration=10 calm=3 join=oldest history=1024 topics='' stay=100 rate=10000 size=45 options='' cpus='' json='' results=''
parse_options "joiners duration calm join history topics stay rate size options cpus json results" "$@"
check_number --joiners "$joiners" 1 100000 1000
check_seconds --duration "$duration" 100 3600000
check_seconds --calm "$calm" 100 3600000
check_number --history "$history" 64 16777216 1024
((10#$history & (10#$history - 1))) && refuse "--history $history: must be a power of two, such as 1024"
[ -z "$topics" ] || check_number --topics "$topics" 1 16000 1000
check_number --stay "$stay" 0 1000000 100
check_number --rate "$rate" 1 1000000 10000
check_number --size "$size" 24 65507 45
check_options "$options"
[ -n "$cpus" ] || cpus=0,1,$(($(nproc) > 2 ? 2 : 1))
check_cpus "$cpus" 3
[ -z "$json" ] || check_file --json "$json"
keep=0 past=0 now=()
case $join in
live) where=join=live now=(--now) ;;
oldest) where=join=oldest past=$history ;;
latest) where=join=latest topics=${topics:-1000} keep=1 ;;
messages:*)
    check_number "--join messages:N, N is" "${join#*:}" 0 999999999999 1000
    past=$((10#${join#*:}))
    where="join=messages&join_messages=$past"
    ;;
time:*)
    check_seconds "--join time:SECONDS, which is" "${join#*:}" 0 3600000
    past=$(milliseconds_of "${join#*:}")
    where="join=time&join_ns=${past}000000" past=$((past * 10#$rate / 1000))
    ;;
*) refuse "--join $join: must be oldest, messages:N, time:SECONDS, latest or live" ;;
esac

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"
# shellcheck source=steady.sh
. "$SETUP_ROOT/bench/steady.sh"

steady_prepare join
IFS=, read -r cpu_transmitter cpu_live cpu_joiners <<<"$cpus"
# Who shares a core with the live receiver takes what it leaves.
wait=spin idle=()
[ "$cpu_live" != "$cpu_joiners" ] || wait=block idle=(--idle)
common=(--rate "$rate" --size "$size" --duration "$duration" --calm "$calm" --joiners "$joiners" --history "$history" --past "$((past < history ? past : history))"
    --topics "${topics:=1}" --keep "$keep" --stay "$stay" "${now[@]}")
say "measuring $joiners receivers that join within $duration s"
# Opened for both at first, so that neither end waits for the other.
mkfifo "$work/phases" "$work/done"
exec 7<>"$work/phases" 8<>"$work/done"
steady_start "$HOST_A" live join --role live --channel "$(steady_channel "$IF_A")" "${common[@]}" --cpu "$cpu_live" --wait $wait
steady_start "$HOST_B" joiners join --role joiners --channel "$(steady_channel "$IF_B" "$where")" "${common[@]}" \
    --cpu "$cpu_joiners" "${idle[@]}" <"$work/phases" >"$work/done"
steady_start "$HOST_A" transmitter join --role transmitter --channel "$(steady_channel "$IF_A")" "${common[@]}" \
    --cpu "$cpu_transmitter" <"$work/done" >"$work/phases"
exec 7>&- 8>&-
steady_wait
steady_report --rate "$rate" --size "$size" --duration "$duration" --calm "$calm" --history "$history" --join "$join" \
    --topics "$topics" --stay "$stay" --wait "$wait"
