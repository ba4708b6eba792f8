# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of flow control.

# stopped COUNT OPTIONS EVENT: messages flow at full speed. Before their second third the only receiver stops, until the sender is blocked
# in that step ("held"), or has sent it. Meanwhile the sender does not forget the receiver.
stopped() {
    local receiver sender step=$((($1 + 2) / 3))
    receive "$HOST_B" receiver "$(channel "$IF_B" "$2")" && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$2&status_ns=60000000000")" --messages "$1" --rate $unpaced --step "$step"
    sender=$last
    says receiver "session new" && says sender "sent $step" && kill -STOP "$receiver" && goes_on "$sender" || return
    case $3 in
    held) says sender "held in step 2" || return ;;
    sent) says sender "sent $((2 * step))" || return ;;
    esac
    kill -CONT "$receiver" && goes_on "$sender" && ends "$sender" && ends "$receiver"
}

e2e stopped_receiver_blocks_the_window \
    not=bypass:"a stack has no part in it; it passes if it is named"
stopped_receiver_blocks_the_window() {
    stopped "$held_messages" "$window$held_window" held && complete receiver "$held_messages"
}

# The window exceeds the buffer of the stopped receiver by far.
e2e small_receive_buffer \
    not=bypass:"the kernel's buffer of a socket" \
    not=xdp:"full_receive_ring_is_counted_and_repaired is the same of a ring" \
    not=roce:"empty_receive_queue_loses_nothing is the same of a device" \
    not=shm:"the buffer of a socket"
small_receive_buffer() {
    burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 100000 "$window&rcvbuf_bytes=64K" || return
    stopped 500000 "$window&rcvbuf_bytes=64K" held && complete receiver 500000 && is receiver udp_kernel_drops ">" 0 || return
    note "the kernel dropped $(number receiver udp_kernel_drops) packets, or runs of them; repaired" \
        "$(number receiver packets_recovered)"
}

e2e stopped_receiver_at_full_rate_reports_its_losses \
    not=bypass,roce:"stopped_receiver_reports_its_losses, with more messages" \
    not=xdp:"stopped_receiver_reports_its_losses, with more messages; it passes if it is named"
stopped_receiver_at_full_rate_reports_its_losses() {
    stopped "$blast" "flow=open&rcvbuf_bytes=1M" sent && accounted receiver "$blast" && is receiver lost ">" 0 || return
    note "lost $(number receiver lost) of $blast in $(number receiver gaps) gaps"
}

# paces FLOW QUORUM_PERCENT REST_US [OPTIONS]: two receivers, and a slow one with these options: it rests for every hundred messages, many
# times as long as the others take for them. All messages can be repaired until the end.
paces() {
    local first second slow sender options="flow=$1&flow_quorum_percent=$2&flow_window_packets=$paces_window"
    rm -f "$work/sent"
    receive "$HOST_B" first "$(channel "$IF_B")" --wait 1 && first=$last || return
    receive "$HOST_C" second "$(channel "$IF_B")" --wait 1 && second=$last || return
    receive "$HOST_D" slow "$(channel "$IF_B" "${4:-}")" --wait 1 --pause-us "$3" --sent "$work/sent" && slow=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$options&$keep&slow=off")" --messages 60000 --rate $unpaced --receivers 3 \
        --sent "$work/sent" --after-ms 0
    sender=$last
    ends "$sender" && ends "$first" && ends "$second" && ends "$slow" || return
    complete first 60000 && complete second 60000 && accounted slow 60000
}

# When the last message was accepted, the slow receiver had nearly all: its lag is at most two windows and the packets blocked in
# the transmitter, which are 1,280 packets or 10,000 messages.
e2e slow_receiver_limits_all_receivers_if_configured hosts=4 \
    not=bypass:"a stack has no part in it; it passes if it is named" \
    not=xdp:"the window is the transmitter's; it passes if it is named" \
    not=roce:"the_slow_application_is_named waits for one receiver likewise"
slow_receiver_limits_all_receivers_if_configured() {
    local flow
    for flow in window paced; do
        paces "$flow" 100 2000 && complete slow 60000 && is slow meanwhile ">" 45000 || { why="$flow: $why" && return 1; }
        note "$flow: it had $(number slow meanwhile) of 60000 messages when all were sent"
    done
}

# The slow receiver had few messages then and lost many: its buffer is small, and it gives up soon.
e2e slow_receiver_does_not_limit_other_receivers hosts=4 \
    not=bypass:"a stack has no part in it; it passes if it is named" \
    not=xdp:"the window is the transmitter's; it passes if it is named" \
    not=roce,shm:"its figures are those of a socket's buffer"
slow_receiver_does_not_limit_other_receivers() {
    local flow
    for flow in window paced; do
        paces "$flow" 50 20000 "rcvbuf_bytes=64K&nak_giveup_ns=5000000" && is slow meanwhile "<" 15000 ||
            { why="$flow: $why" && return 1; }
        note "$flow: it had $(number slow meanwhile) of 60000 messages when all were sent, and lost $(number slow lost)" \
            "in $(number slow gaps) gaps"
    done
}
