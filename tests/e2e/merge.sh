# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of two transmitters of the same messages, whose sessions receivers merge.

# same INTERFACE: the channel of a transmitter.
same() {
    echo "$transport://$(group):5003?$(common_shared "$1")&stream=same&stream_merge=1&$keep"
}

# One of them is killed while both send the second half. What one session lost the other fills, and the numbers of the receiver
# have no seam.
e2e killed_one_of_two_transmitters_costs_no_message hosts=3 needs=loss over=udp,shm,xdp,roce
killed_one_of_two_transmitters_costs_no_message() {
    local receiver first second impaired
    local flags="--messages $some --step $((some / 2)) --rate $((rate / 4)) --same 1"
    lossy 5 || return
    receive "$HOST_B" receiver "$(lossy_channel "$IF_B" "sessions_max=4")" --merged 1 --stop-at $((some * 2 / 3)) && receiver=$last || return
    # shellcheck disable=SC2086
    send "$HOST_A" first "$(same "$IF_A")" $flags
    first=$last
    # shellcheck disable=SC2086
    send "$HOST_C" second "$(same "$IF_B")" $flags
    second=$last
    says first sent && says second sent && kill -USR1 "$first" "$second" || return
    says receiver reached && kill -KILL "$first" || return
    ends "$second" && ends "$receiver" && complete receiver "$some" && is receiver sessions_new == 2 && is receiver diverged == 0 || return
    is receiver messages_copies ">" 0 && is receiver packets_covered ">" 0 || return
    note "$(number receiver messages_copies) copies were dropped; of $(number receiver packets_missed) missing packets the other session" \
        "covered $(number receiver packets_covered)"
}

# Their messages have the time of sending, which is not the same in both.
e2e transmitters_that_differ_are_reported hosts=3 over=udp
transmitters_that_differ_are_reported() {
    local receiver first second
    receive "$HOST_B" receiver "$(channel "$IF_B")" --merged 1 --sessions 2 && receiver=$last || return
    send "$HOST_A" first "$(same "$IF_A")" --messages $((some / 10)) --rate $((rate / 10))
    first=$last
    send "$HOST_C" second "$(same "$IF_B")" --messages $((some / 10)) --rate $((rate / 10))
    second=$last
    ends "$first" && ends "$second" && ends "$receiver" && complete receiver $((some / 10)) && is receiver sessions_new == 2 &&
        is receiver diverged ">=" 1 && is receiver messages_diverged ">" 0
}

# In the second half each leaves out a seventh of the messages, and both one in a thousand, of which the receiver is told once.
e2e what_one_of_two_transmitters_leaves_out_the_other_has hosts=3 needs=loss over=udp,shm,xdp
what_one_of_two_transmitters_leaves_out_the_other_has() {
    local receiver first second impaired count=$((20000 / fewer)) both
    local flags="--messages $count --step $((count / 2)) --rate $((rate / 4)) --same 1"
    both=$(((count + 499) / 1000 - (count / 2 + 499) / 1000))
    lossy 1 || return
    receive "$HOST_B" receiver "$(lossy_channel "$IF_B" "sessions_max=4")" --merged 1 --sessions 2 && receiver=$last || return
    # shellcheck disable=SC2086
    send "$HOST_A" first "$(same "$IF_A")" $flags --leave-out 3
    first=$last
    # shellcheck disable=SC2086
    send "$HOST_C" second "$(same "$IF_B")" $flags --leave-out 5
    second=$last
    says first sent && says second sent && kill -USR1 "$first" "$second" || return
    ends "$first" && ends "$second" && ends "$receiver" && accounted receiver "$count" && is receiver lost == "$both" &&
        is receiver gaps == "$both" && is receiver diverged == 0 && is receiver messages_copies ">" 0 || return
    note "they left out $(number first numbers_skipped) and $(number second numbers_skipped) numbers"
}
