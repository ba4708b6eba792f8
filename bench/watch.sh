#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END_OF_USAGE'
usage: bench/run watch [OPTION...]

How soon the bottleneck watch names what limits a stream, and tells that it is over. A transmitter and a healthy receiver on one host, another
receiver on a second one, all of them with a watch. In turns, for the middle one of three phases:

  none         nothing is made, for as long: what is named is a false alarm
  application  the receiver's application takes twice the time that there is for each message (flow=window)
  buffer       all messages of half an interval come at once, twice what the receiver's socket has room for
  network      nft drops 5 % of what comes to the receiver's host
  transport    a queue before the cable (tc, tbf) lets half of what is offered through
  rate         the transmitter gets a rate limit, half of what is offered

Prints how long it took from its beginning until it was named: by the receiver (its event), by the transmitter of that receiver (as it is
reported), and of the transmitter itself; how long from its end until each told that it is over; how often anything else was named,
before, beside it or after, the healthy receiver included (false alarms), and how often it was told as over too soon (lapses); and the healthy
receiver's hop, from when a message was due: where the transmitter is held they wait for it. The middle and the last phase go on until all
was told, --patience at most. Times count from when the bottleneck is asked for, so nft and tc have their part in them.

Fails if a bottleneck is not named by each that can name it, or never told as over, or if the healthy receiver lost a message.

Options:
  --kind NAME,...     which of none, application, buffer, network, transport and rate (all)
  --watch MS          the interval of the watch (100)
  --rate N            messages of 1000 bytes a second (5000)
  --duration SECONDS  of each phase (0.6)
  --patience SECONDS  beyond that, for what is not told yet (10)
  --runs N            measure everything so often, in turns, and report medians and the worst (3)
  --options K=V&..    options of all channels
  --cpus A,B          the CPUs of the transmitter and the healthy receiver (0,1); the other one runs where there is room
  --json FILE         where the JSON goes (the results directory)
  --results DIR       directory of results, the table too (build/bench-results)
  --help              this text
END_OF_USAGE
}

script="bench/run watch"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

kinds=none,application,buffer,network,transport,rate
kind=$kinds watch=100 rate=5000 duration=0.6 patience=10 runs=3 options='' cpus=0,1 json='' results=''
parse_options "kind watch rate duration patience runs options cpus json results" "$@"
check_words --kind "$kind" ${kinds//,/ }
check_number --watch "$watch" 20 10000 100
check_number --rate "$rate" 1000 20000 5000
watch=$((10#$watch)) rate=$((10#$rate))
((watch * rate >= 200000)) ||
    refuse "--watch $watch: at --rate $rate an interval has $((watch * rate / 1000)) messages, no burst that overflows anything;" \
        "at least $((200000 / rate))"
check_seconds --duration "$duration" 100 60000
check_seconds --patience "$patience" 100 60000
check_number --runs "$runs" 1 100 3
runs=$((10#$runs))
check_options "$options"
check_cpus "$cpus" 2
[ -z "$json" ] || check_file --json "$json"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"
# shellcheck source=steady.sh
. "$SETUP_ROOT/bench/steady.sh"

# On the wire, headers included: what a packet with one message of 1000 bytes has.
packet=1060
# All buckets of it may wait here; the queue itself drops nothing.
queue() {
    # shellcheck disable=SC2086
    $HOST_A tc qdisc "$1" dev "$IF_A" root tbf rate "$2" burst 64kb limit 100mb 2>>"$work/tc.log"
}

# Of what arrives at the receiver's host.
drop() {
    if [ "$1" = off ]; then
        $HOST_B nft delete table inet llm_watch
        return
    fi
    $HOST_B nft -f - <<'END_OF_TABLE'
table inet llm_watch {
    chain input {
        type filter hook input priority 0;
        meta l4proto udp numgen random mod 100 < 5 drop
    }
}
END_OF_TABLE
}

# make KIND during|after PID: what the processes do not make themselves.
make() {
    case $1-$2 in
    application-*) kill -USR1 "$3" ;;
    network-during) drop on ;;
    network-after) drop off ;;
    transport-during) queue change "$((rate * packet * 8 / 2))bit" ;;
    transport-after) queue change 10gbit ;;
    esac
}

# What a kind needs of the channel of a role: flow control that lets nobody fall behind by more than 1/40 s; packets that come one by one, and
# a buffer with room for half of a burst, in which each takes 2.3 KB, half of that as the option counts; and little room before the
# cable. Slow receivers are left to the watch.
kind_options() {
    local window=$((rate / 40 > 32 ? rate / 40 : 32)) room=$((rate * watch / 5))
    case $1-$2 in
    application-transmitter) echo "slow=off&flow=window&flow_window_packets=$window&flow_quorum_percent=100" ;;
    buffer-transmitter) echo "slow=off&gso_packets=1" ;;
    buffer-limited) echo "rcvbuf_bytes=$((room < 200000 ? room : 200000))" ;;
    transport-transmitter) echo "slow=off&gso_packets=1&sndbuf_bytes=65536" ;;
    *-transmitter) echo "slow=off" ;;
    esac
}

# run_watch NAME KIND ROLE HOST INTERFACE [OPTION...]
run_watch() {
    steady_start "$4" "$1-$3" watch --role "$3" --kind "$2" --channel "$(steady_channel "$5" "$(kind_options "$2" "$3")")" "${common[@]}" \
        "${@:6}"
}

# measure RUN KIND
measure() {
    local name=$1-$2 phase limited=''
    [ "$2" != transport ] || queue add 10gbit
    mkfifo "$work/$name-phases" "$work/$name-made"
    exec 7<>"$work/$name-phases" 8<>"$work/$name-made"
    run_watch "$name" "$2" healthy "$HOST_A" "$IF_A" --cpu "${cpus#*,}"
    # From run to run a bottleneck begins at another time of the watch's interval.
    run_watch "$name" "$2" transmitter "$HOST_A" "$IF_A" --cpu "${cpus%,*}" --stagger "$(seconds_of $((watch * ($1 - 1) / runs)))" \
        <"$work/$name-made" >"$work/$name-phases"
    exec 6<"$work/$name-phases" 7>&-
    while read -r phase <&6; do
        case $phase in
        healthy)
            run_watch "$name" "$2" limited "$HOST_B" "$IF_B" 6<&-
            limited=${steady_pids[-1]}
            ;;
        during | after) make "$2" "$phase" "$limited" && echo made >&8 ;;
        esac
    done
    exec 6<&- 8>&-
    steady_wait
    [ "$2" != transport ] || $HOST_A tc qdisc del dev "$IF_A" root
}

# possible KIND: says why not.
possible() {
    case $1 in
    network)
        # shellcheck disable=SC2086
        $HOST_B nft list tables >/dev/null 2>&1 ||
            { say "left out: network: there is no nft to drop packets with: apt-get install nftables, as root" && return 1; }
        ;;
    transport)
        # shellcheck disable=SC2086
        queue add 10gbit && $HOST_A tc qdisc del dev "$IF_A" root ||
            { say "left out: transport: tc cannot make a slow cable (tbf): $(tail -n 1 "$work/tc.log")" && return 1; }
        ;;
    esac
}

steady_prepare watch
common=(--rate "$rate" --watch "$(seconds_of "$watch")" --duration "$duration" --patience "$patience")
made=''
for name in ${kind//,/ }; do
    ! possible "$name" || made+=${made:+,}$name
done
[ -n "$made" ] || refuse "--kind $kind: none of these can be made here"
for run in $(seq "$runs"); do
    for name in ${made//,/ }; do
        say "run $run: $name"
        measure "$run" "$name"
    done
done
steady_report --kind "$made" --watch "$watch" --rate "$rate" --duration "$duration" --runs "$runs" --options "$options"
