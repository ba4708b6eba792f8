#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run rate [OPTION...]

How exactly rates are limited, and how they are found.

Limits: a topic is offered twice as many bytes a second as a limit, in messages of 1,000 bytes, beside a stream on a topic of its own. Without a
limit; with one of the transmitter, and of the topic; and, while the receiver loses 5 % of the packets in runs of a hundred on the mean
(impair+), without and with one of repairs, a fifth of the other, which is twice what they come to on the mean. Each is seen by a witness on the wire, in bytes of packets (of the topic: by the
receiver, in bytes of its messages, by the kernel's time stamps): the mean, and the most of any window of 1 ms, 10 ms and 1 s. Latency is that of the stream, from when a message was due to its delivery.
The row small has the transmitter's limit and messages of 45 bytes: what is held back leaves in packets that are full. Printed are packets
of new data for each message, and over the least number of packets that these bytes can have.

Rates that are found: with flow=open, paced and window, all receivers counted, three phases; in the second another receiver joins that takes
half of what is offered, 45-byte messages, and leaves at its end. Prints the rate that a steady receiver has in the second half of each phase,
how long it took to come down to 3/4 of the first, and to come back to 95 % of it, the stream's latency there, and what both lost.

Fails if the steady receiver lost a message.

Options:
  --row NAME,...      which of none, transmitter, small, topic, losses and repairs, and of open, paced and window (all)
  --limit BYTES       a second (10000000)
  --rate N            messages a second that are offered where the rate is found (100000)
  --stream N          messages of 45 bytes a second of the stream (10000)
  --duration SECONDS  of each limit, and of each phase (1.5)
  --options K=V&..    options of all channels
  --cpus A,B          the CPUs of the transmitter and the receiver (0,1); witness and slow receiver run where there is room
  --json FILE         where the JSON goes (the results directory)
  --results DIR       directory of results, the table too (build/bench-results)
  --help              this text
END
}

script="bench/run rate"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

limits=none,transmitter,small,topic,losses,repairs flows=open,paced,window
row=$limits,$flows limit=10000000 rate=100000 stream=10000 duration=1.5 options='' cpus=0,1 json='' results=''
parse_options "row limit rate stream duration options cpus json results" "$@"
check_words --row "$row" ${limits//,/ } ${flows//,/ }
check_number --limit "$limit" 655360 1000000000 10000000
check_number --rate "$rate" 1000 1000000 100000
check_number --stream "$stream" 1 100000 10000
# What is lost on the way, and the stream too, has to fit in.
((10#$stream * 100 <= 10#$limit)) || refuse "--stream $stream: takes most of --limit $limit; at most $((10#$limit / 100))"
check_seconds --duration "$duration" 100 60000
check_options "$options"
check_cpus "$cpus" 2
[ -z "$json" ] || check_file --json "$json"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"
# shellcheck source=steady.sh
. "$SETUP_ROOT/bench/steady.sh"

limit=$((10#$limit)) bulk=1000
shared=(--stream "$stream" --duration "$duration")

# run_rate NAME LOSS K=V&.. [OPTION...]: a transmitter and a receiver of one row; LOSS: so many packets in a million are lost.
run_rate() {
    local name=$1 scheme='' loss='' with=$3
    [ "$2" = 0 ] || scheme=impair+ loss="&impair_loss_ppm=$2&impair_burst_packets=100"
    steady_start "$HOST_B" "$name-receiver" rate --role receiver \
        --channel "$scheme$(steady_channel "$IF_B" "timestamps=1$loss&$with")" "${shared[@]}" "${@:4}" --cpu "${cpus#*,}"
    steady_start "$HOST_A" "$name-transmitter" rate --role transmitter --channel "$(steady_channel "$IF_A" "$with")" "${shared[@]}" \
        "${@:4}" --cpu "${cpus%,*}"
}

# limited NAME LOSS [OPTION...]
limited() {
    local witness
    say "limit: $1"
    steady_start "$HOST_B" "$1-witness" witness --interface "$IF_B"
    witness=${steady_pids[0]}
    steady_pids=()
    run_rate "$1" "$2" slow=off --bulk $((2 * limit / bulk)) --bulk-size $bulk "${@:3}" >"$work/phases"
    steady_wait
    kill "$witness"
    steady_pids=("$witness")
    steady_wait
}

# found FLOW
found() {
    local common=(--bulk "$rate" --bulk-size 45 --phases 3)
    say "flow: $1"
    mkfifo "$work/$1-phases"
    exec 7<>"$work/$1-phases"
    steady_start "$HOST_B" "$1-half" rate --role half --channel "$(steady_channel "$IF_B" "flow=$1")" "${shared[@]}" "${common[@]}" \
        <"$work/$1-phases"
    run_rate "$1" 0 "flow=$1&flow_quorum_percent=100" "${common[@]}" >"$work/$1-phases"
    exec 7>&-
    steady_wait
}

steady_prepare rate
for name in ${row//,/ }; do
    case $name in
    none) limited none 0 ;;
    transmitter) limited transmitter 0 --limit "$limit" ;;
    small) limited small 0 --limit "$limit" --bulk $((2 * limit / 45)) --bulk-size 45 ;;
    topic) limited topic 0 --topic-limit "$limit" ;;
    losses) limited losses 50000 ;;
    repairs) limited repairs 50000 --repair-limit $((limit / 5)) ;;
    *) found "$name" ;;
    esac
done
steady_report --row "$row" --limit "$limit" --rate "$rate" --stream "$stream" --duration "$duration" --options "$options"
