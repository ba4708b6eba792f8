# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# End-to-end tests of stores: killed at random instants, and stopped, beside transmitters that wait for their acknowledgements; and
# joined by receivers that want what the transmitter has no more.

store_life_ms=$((250 * ${LLM_SLOWNESS:-1})) # of a store at most
store_seed=$RANDOM

# Sleeps for a random time below store_life_ms.
store_rest() {
    local ms
    RANDOM=$store_seed
    ms=$((RANDOM % store_life_ms)) store_seed=$RANDOM
    read -r -t "$((ms / 1000)).$(printf %03d $((ms % 1000)))" -u "$nobody" || true
}

# store_up CHANNEL DIRECTORY [OPTION...]: starts a store. Sets store.
store_up() {
    run_on "$HOST_B" store "$programs/e2e_store_node" store "$1" "$2" "${@:3}"
    store=$last
}

# store_send CHANNEL LOG [OPTION...]: starts a transmitter whose topics wait for the store. Sets sender.
store_send() {
    run_on "$HOST_A" sender "$programs/e2e_store_node" send "$1" "$2" --name book "${@:3}"
    sender=$last
}

# store_kill NAME PID: kills a program, which must not have ended by itself.
store_kill() {
    local status=0 pid left=()
    kill -KILL "$2" 2>/dev/null || true
    wait "$2" || status=$?
    # From now on the number may be another process's.
    for pid in "${started[@]}"; do
        [ "$pid" = "$2" ] || left+=("$pid")
    done
    started=("${left[@]}")
    [ "$status" = 137 ] || { why="the $1 ended by itself with status $status: $(tail -n 1 "$work/$1.err")" && return 1; }
}

# store_stop NAME PID: has a program end in order.
store_stop() {
    local status=0
    kill -TERM "$2" || { why="the $1 has ended: $(tail -n 1 "$work/$1.err")" && return 1; }
    ends "$2" || status=$?
    [ "$status" = 0 ] || { why="the $1 ended with status $status: $(tail -n 1 "$work/$1.err")" && return 1; }
}

# store_live DIRECTORY LIVES [OPTION...]: kills the store that many times, at any instant of its life, its start included, and, while
# it runs, the transmitter every fifth time; then both end in order.
store_live() {
    local directory=$1 lives=$2 life here there
    here=$(channel "$IF_A") there=$(lossy_channel "$IF_B" receiver_name=book)
    shift 2
    mkdir -p "$directory/store" "$directory/log" || return
    store_send "$here" "$directory/log"
    for ((life = 1; life <= lives; life++)); do
        store_up "$there" "$directory/store" "$@"
        # Every other one has taken up its work.
        ((life % 2)) || says store "is live" || return
        store_rest
        ((life % 5)) || { store_kill sender "$sender" && store_send "$here" "$directory/log" && says sender sending && store_rest; } || return
        store_kill store "$store" || return
    done
    store_up "$there" "$directory/store" "$@" && says store "is live" && store_stop sender "$sender" && store_stop store "$store"
}

# store_read DIRECTORY: every acknowledged message is there once, in order and unchanged, and nothing that was not sent.
store_read() {
    local status=0
    "$programs/e2e_store_node" read "$1/store" "$1/log" ${keyed:+--keys "$keyed"} >"$work/read.out" 2>"$work/read.err" || status=$?
    [ "$status" = 0 ] || { why="$(number read errors) errors: $(head -n 1 "$work/read.err")" && return 1; }
    is read acknowledged ">" 0
}

# store_survives LIVES [OPTION...]: of a store.
store_survives() {
    local directory=$work/directory sender store status=0 seed=$store_seed
    { store_live "$directory" "$@" && store_read "$directory"; } || status=$?
    [ "$status" = 0 ] || why="kills of seed $seed, ${*:2}: $why"
    [ "$status" != 0 ] || note "${*:2}: $1 kills, $(number read acknowledged) messages acknowledged in $(number read sessions) sessions"
    rm -rf "$directory"
    return "$status"
}

e2e a_killed_store_loses_nothing_acknowledged \
    not=bypass:"as udp" not=roce:"what a store does is the same over each transport"
a_killed_store_loses_nothing_acknowledged() {
    local impaired=''
    store_survives 6 --level synced && store_survives 6 --level written --engine thread
}

e2e a_killed_store_loses_nothing_acknowledged_with_loss needs=loss \
    not=bypass:"as udp" not=roce:"what a store does is the same over each transport"
a_killed_store_loses_nothing_acknowledged_with_loss() {
    local impaired
    lossy 5 && store_survives 6 --level synced --engine thread
}

# The stop is longer than the transmitter remembers receivers, and than the store waits for sessions.
e2e a_stopped_store_goes_on_where_it_stopped \
    not=bypass,xdp:"as udp" not=roce:"what a store does is the same over each transport"
a_stopped_store_goes_on_where_it_stopped() {
    local directory=$work/directory store sender impaired='' status=0
    mkdir -p "$directory/store" "$directory/log" || return
    { store_send "$(channel "$IF_A" status_ns=20M)" "$directory/log" --say 1 &&
        store_up "$(channel "$IF_B" "receiver_name=book&silence_ns=200M&session_timeout_ns=500M")" "$directory/store" &&
        store_acknowledges && store_stopped && store_stopped && store_stop sender "$sender" && store_stop store "$store" &&
        is sender receivers_lost ">=" 1 && store_read "$directory"; } || status=$?
    rm -rf "$directory"
    return "$status"
}

# Waits until the transmitter has said twice that more is acknowledged.
store_acknowledges() {
    local lines until=$((SECONDS + limit))
    lines=$(wc -l <"$work/sender.out")
    while (($(wc -l <"$work/sender.out") < lines + 2)); do
        ((SECONDS <= until)) || { why="no more is acknowledged: $(tail -n 1 "$work/sender.out")" && return 1; }
        rest
    done
}

# Stops the store for a while, in which nothing is acknowledged, and waits until it acknowledges again.
store_stopped() {
    local lines
    kill -STOP "$store" && sleep 0.5 && lines=$(wc -l <"$work/sender.out") && sleep 1 || return
    [ "$(wc -l <"$work/sender.out")" = "$lines" ] || { why="a stopped store acknowledges" && return 1; }
    kill -CONT "$store" && store_acknowledges
}

# joined COUNT: a store records so many messages, of which the transmitter retains few; then a receiver that loses 5 % of its packets
# joins, and gets each of them once and in order, from the store and from the transmitter.
joined() {
    local directory=$work/joined store sender receiver impaired='' status=0 first=$(($1 - $1 / 10))
    local few="flow=window&history_packets=512&flow_window_packets=128$([ "$transport" != shm ] || echo "&mtu=1500")"
    mkdir -p "$directory" || return
    { run_on "$HOST_B" store "$programs/e2e_store_node" store "$(channel "$IF_B" "replay_bytes_per_s=1G")" "$directory" --segment 64 &&
        store=$last && says store listening &&
        send "$HOST_A" sender "$(channel "$IF_A" "$few")" --messages "$1" --rate $unpaced --step "$first" --receivers 1 &&
        sender=$last && says sender "sent $first" && lossy 5 &&
        sleep 1.1 && # in its first second a session is followed from its start
        receive "$HOST_C" receiver "$(lossy_channel "$IF_B" "join=oldest")" --wait 1 && receiver=$last &&
        says receiver "event: session new" && goes_on "$sender" && ends "$sender" && ends "$receiver" &&
        store_stop store "$store" && complete receiver "$1" && is store store_gaps == 0 &&
        is receiver packets_from_stores ">" 0 && is receiver joins_from_stores == 1; } || status=$?
    rm -rf "$directory"
    [ "$status" = 0 ] || return "$status"
    note "$1 messages: $(number receiver packets_from_stores) packets came from the store," \
        "$(number receiver packets_recovered) were repaired by the transmitter"
}

e2e a_joiner_gets_what_only_the_store_has_despite_losses needs=loss hosts=3 \
    not=bypass:"as udp"
a_joiner_gets_what_only_the_store_has_despite_losses() {
    joined "$some"
}

e2e soak_of_joins needs=loss hosts=3 run=named
soak_of_joins() {
    local limit=$((3600 * ${LLM_SLOWNESS:-1})) count=$((10000000 / fewer / fewer)) begin=$SECONDS
    joined "$count" && note "$((SECONDS - begin)) s"
}

# A thousand kills, fifty in a directory.
e2e soak_of_stores run=named needs=loss
soak_of_stores() {
    local impaired='' round
    for round in 1 2 3 4; do
        lose_nothing
        impaired='' && store_survives 50 --level synced && store_survives 50 --level written &&
            store_survives 50 --level synced --engine thread || return
        lossy 5 && store_survives 50 --level synced && store_survives 50 --level written --engine thread || return
    done
}
