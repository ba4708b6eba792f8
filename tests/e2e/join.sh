# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of receivers that join late.

# late CHANNEL RECEIVERS: so many receivers join one after the other while messages flow, from all positions in the past.
late() {
    run_on "$HOST_A" late "$programs/e2e_late" "$1" "$2"
    ends "$last" || { why=$(tail -n 20 "$work/late.out" "$work/late.err") && return 1; }
    is late granted ">" 0 && is late refused ">" 0 && is late replayed ">" 0 || return
    note "$(head -n 1 "$work/late.out")"
}

e2e many_receivers_join_late \
    not=bypass:"three_receivers_join_late_despite_losses; it passes if it is named" \
    not=xdp:"each has a context in one process, which needs an interface; three_receivers_join_late_despite_losses has hosts of their own" \
    not=roce:"the one with losses has it too"
many_receivers_join_late() {
    late "$(channel "$IF_A")" 100
}

# The receiver is on the other host and gets all messages sent before it joined.
e2e late_receiver_gets_the_history over=roce
late_receiver_gets_the_history() {
    local receiver sender
    send "$HOST_A" sender "$(channel "$IF_A" "$keep")" --messages "$some" --rate "$rate" --step $((some / 2)) --receivers 0
    sender=$last
    says sender "sent $((some / 2))" || return
    sleep 1.1 # in its first second a session is followed from its start
    receive "$HOST_B" receiver "$(channel "$IF_B" "join=oldest")" && receiver=$last || return
    says receiver "event: session new" && goes_on "$sender" && ends "$sender" && ends "$receiver" || return
    complete receiver "$some" && is receiver packets_replayed ">" 0
}

# The receivers join at the start, some messages back, and live. Late joiners get nothing older of a topic without history.
e2e three_receivers_join_late_despite_losses needs=loss hosts=4 over=bypass,xdp,shm
three_receivers_join_late_despite_losses() {
    local oldest back live sender impaired half=$((some / 5)) name quotes
    send "$HOST_A" sender "$(channel "$IF_A" "$keep")" --messages $((2 * half)) --rate "$rate" --step "$half" --receivers 0 \
        --quotes 1
    sender=$last quotes="--quotes-from $half"
    says sender "sent $half" && lossy 5 || return
    sleep 1.1 # in its first second a session is followed from its start
    # shellcheck disable=SC2086
    receive "$HOST_B" oldest "$(lossy_channel "$IF_B" "join=oldest")" $quotes && oldest=$last &&
        receive "$HOST_C" back "$(lossy_channel "$IF_B" "join=messages&join_messages=$((half / 3))")" --wait 1 $quotes &&
        back=$last && receive "$HOST_D" live "$(lossy_channel "$IF_B")" --wait 1 && live=$last || return
    for name in oldest back live; do
        says "$name" "event: session new" || return
    done
    goes_on "$sender" && ends "$sender" && ends "$oldest" && ends "$back" && ends "$live" || return
    complete oldest $((2 * half - $(number oldest left_out))) && is oldest left_out ">" $((half / 10)) &&
        complete back $((half + half / 3 - $(number back left_out))) && is back left_out ">" $((half / 30)) && complete live "$half" &&
        is oldest packets_replayed ">" "$(number back packets_replayed)" && is back packets_replayed ">" 0 &&
        is live packets_recovered ">" 0 || return
    note "replayed $(number oldest packets_replayed) packets for the one and $(number back packets_replayed) for the other"
}

e2e many_receivers_join_late_over_network_and_memory \
    not=bypass:"three_receivers_join_late_despite_losses; it passes if it is named" \
    not=xdp:"each peer is a context of one process, which needs an interface; the unicasts of xdp go by udp" \
    not=roce:"network_and_own_host_at_once has both, and late joins are the same over all" \
    not=shm:"run over udp, which it is about as well"
many_receivers_join_late_over_network_and_memory() {
    local status=0
    mkdir -p "$work/shm"
    late "shm+$(channel "$IF_A")&shm_directory=$work/shm" $((50 / fewer)) || status=$?
    rmdir "$work/shm" 2>/dev/null || true
    return "$status"
}

e2e many_receivers_join_late_despite_losses needs=nft \
    not=bypass:"three_receivers_join_late_despite_losses; it passes if it is named" \
    not=xdp:"each peer is a context of one process, which needs an interface; the unicasts of xdp go by udp" \
    not=shm:"three_receivers_join_late_despite_losses"
many_receivers_join_late_despite_losses() {
    lose 5 && late "$(channel "$IF_A")" $((50 / fewer))
}
