# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of topics with a last value cache.

# kept TOPICS KEEP NAME...: receivers of these names join a sender with so many topics one after the other; it ends when all are live.
kept() {
    local sender name names=("${@:3}") pids=() pid places=("$HOST_B" "$HOST_C")
    run_on "$HOST_A" sender "$programs/e2e_kept" send "$(channel "$IF_A")" --topics "$1" --keep "$2" --rate $((rate / 20))
    sender=$last
    says sender ready || return
    for name in "${names[@]}"; do
        run_on "${places[${#pids[@]}]}" "$name" "$programs/e2e_kept" receive "$(channel "$IF_B")" --topics "$1" --keep "$2"
        pids+=("$last")
        says "$name" live || return
    done
    kill -INT "$sender" && ends "$sender" || return
    for pid in "${pids[@]}"; do
        ends "$pid" || { why="$why: $(tail -n 5 "$work/$name.out")" && return 1; }
    done
    for name in "${names[@]}"; do
        is "$name" before ">" 0 && is "$name" behind ">" 0 && is "$name" errors == 0 || return
    done
    is sender cache_packets_sent ">" 0 || return
    note "$1 topics, the last $2 of each: live after $(number "$name" live_ms) ms, $(number "$name" before) messages" \
        "in $(number "$name" cache_packets_received) packets, then $(number "$name" behind)"
}

e2e late_receivers_get_the_last_value_of_each_topic hosts=3 \
    not=bypass:"the short one is the same with fewer topics; it passes if it is named" \
    not=roce,shm:"the short one is the same with fewer topics"
late_receivers_get_the_last_value_of_each_topic() {
    kept 10000 1 early later
}

e2e late_receivers_get_the_last_values_despite_losses needs=nft hosts=3 not=roce:"for time; it passes if it is named" \
    not=bypass:"the short one is the same with fewer topics; it passes if it is named" \
    not=shm:"the short one is the same with fewer topics"
late_receivers_get_the_last_values_despite_losses() {
    lose 5 && kept $((1000 / fewer)) 3 early later
}

e2e late_receivers_get_the_last_value_of_each_topic_shortly over=bypass,roce,shm also=vma
late_receivers_get_the_last_value_of_each_topic_shortly() {
    kept $((2000 / fewer)) 1 receiver
}
