# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of programs that are stopped or killed, and of interfaces that go down.

# A second receiver on the same host is not affected: the window is its own. The stopped receiver pauses while far more is sent
# than the history and its buffer hold, and reports its losses. Such losses may suspend repairs, which this test switches off. The
# last messages, which follow a pause and all fit into the history, arrive on any machine. Flow control waits for both receivers,
# so that a busy machine does not delay the other one; the stopped receiver is waited for until it is forgotten. Neither polls
# without a pause, as each window waits for both to have the processor.
e2e stopped_receiver_reports_its_losses hosts=3
stopped_receiver_reports_its_losses() {
    local stopped steady sender count=$((3 * rate + rate / 10)) small="rcvbuf_bytes=64K&flow_window_packets=256"
    local both="flow_quorum_percent=100&linger_ns=30000000000"
    receive "$HOST_B" stopped "$(channel "$IF_B" "$small")" --wait 1 --stop-at $((rate / 4)) && stopped=$last || return
    receive "$HOST_C" steady "$(channel "$IF_B")" --wait 1 && steady=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$short&$window&slow=off&$both")" --messages "$count" --rate "$rate" \
        --step "$rate" --receivers 2
    sender=$last
    says stopped reached && says sender "sent $rate" && kill -STOP "$stopped" && goes_on "$sender" &&
        says sender "sent $((2 * rate))" && kill -CONT "$stopped" && says stopped "event: gap" && goes_on "$sender" &&
        says sender "sent $((3 * rate))" && sleep 0.5 && goes_on "$sender" && ends "$sender" && ends "$steady" && ends "$stopped" || return
    complete steady "$count" && accounted stopped "$count" && is stopped lost ">" 0 &&
        is stopped gap_end "<" "$count" || return
    note "lost $(number stopped lost) of $count in $(number stopped gaps) gaps, the last before message $(number stopped gap_end)"
}

e2e killed_receiver_does_not_disturb_other_receivers hosts=3
killed_receiver_does_not_disturb_other_receivers() {
    local killed steady sender
    receive "$HOST_B" killed "$(channel "$IF_B")" --stop-at $((rate / 4)) && killed=$last || return
    receive "$HOST_C" steady "$(channel "$IF_B")" && steady=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$keep")" --messages "$rate" --rate "$rate" --step $((rate / 2)) --receivers 2
    sender=$last
    says killed reached && kill -KILL "$killed" && goes_on "$sender" || return
    ends "$sender" && ends "$steady" && complete steady "$rate"
}

# The first one pauses between two steps if it was not killed before.
e2e killed_transmitter_is_detected_and_its_successor_followed
killed_transmitter_is_detected_and_its_successor_followed() {
    local receiver sender
    receive "$HOST_B" receiver "$(channel "$IF_B" "silence_ns=200000000&session_timeout_ns=2000000000")" --sessions 2 \
        --stop-at $((rate / 4)) && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A")" --messages "$rate" --rate "$rate" --step $((rate / 2))
    sender=$last
    says receiver reached && kill -KILL "$sender" || return
    says receiver "event: heartbeat lost" && says receiver "timeout" || return
    send "$HOST_A" sender "$(channel "$IF_A")" --messages $((some * 2 / 5)) --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" || return
    is receiver errors == 0 && is receiver silences ">=" 1 && is receiver timeouts == 1 && is receiver sessions_new == 2 &&
        is receiver sessions_ended == 2
}

# interface_of PREFIX INTERFACE: takes it down until the receiver detects that, while messages are sent.
interface_of() {
    local prefix=$1 interface=$2 receiver sender
    receive "$HOST_B" receiver "$(channel "$IF_B" "silence_ns=300000000")" --stop-at 3000 && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A")" --messages 30000 --rate 9000 --step 10000
    sender=$last
    says receiver reached && says sender "sent 10000" || return
    # shellcheck disable=SC2086
    $prefix ip link set "$interface" down && goes_on "$sender" && says receiver "event: heartbeat lost" &&
        $prefix ip link set "$interface" up && says receiver "event: resumed" && goes_on "$sender" || return
    ends "$sender" && ends "$receiver" || return
    accounted receiver 30000 && is receiver silences ">=" 1 && is receiver resumed ">=" 1 && is receiver sessions_new == 1 &&
        note "silent $(number receiver silences) times, lost $(number receiver lost) messages"
}

e2e receivers_interface_goes_down_and_up needs=namespaces \
    not=shm:"memory has no interface"
receivers_interface_goes_down_and_up() {
    interface_of "$HOST_B" "$IF_B"
}

e2e transmitters_interface_goes_down_and_up needs=namespaces \
    not=shm:"memory has no interface"
transmitters_interface_goes_down_and_up() {
    interface_of "$HOST_A" "$IF_A"
}
