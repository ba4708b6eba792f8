# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# End-to-end tests of RoCE, in a guest that is 30 to 100 times slower. Hosts are two devices of one network namespace, behind a snooping
# bridge.

# Smaller figures, for the guest.
settle_roce() {
    # shellcheck source=../roce/in_guest.sh
    . "$here/../roce/in_guest.sh"
    # Two programs that poll without pause would occupy all processors of the guest.
    idle="--wait 1"
    fewer=10 some_losses=5
    # With full packets a third of the messages are three thousand packets, fewer than the default window.
    held_messages=45000 held_window="&flow_window_packets=512"
}

# A device without receive buffers drops silently: the receiver still has to find all losses, and the history retains all packets.
e2e empty_receive_queue_loses_nothing over=roce
empty_receive_queue_loses_nothing() {
    stopped "$blast" "flow=open&rcvbuf_bytes=64K&flow_window_packets=256&$keep" sent && complete receiver "$blast" &&
        is receiver packets_recovered ">" 0 && is receiver roce_receive_dry ">" 0 || return
    note "repaired $(number receiver packets_recovered) packets"
}

# netem ARGUMENT...: a flood with this treatment of packets that leave by A's interface; all messages have to arrive.
netem() {
    local status=0
    roce_netem "$IF_A" "$@" && flood "$messages" "$rate" "$keep" || status=$?
    roce_netem_off "$IF_A"
    return "$status"
}

e2e lost_duplicated_and_reordered_packets_are_repaired over=roce
lost_duplicated_and_reordered_packets_are_repaired() {
    netem loss 5% duplicate 5% delay 1ms 1ms reorder 50% && is receiver packets_recovered ">" 0 &&
        is receiver packets_duplicate ">" 0 && is receiver packets_reordered ">" 0 || return
    note "repaired $(number receiver packets_recovered), twice $(number receiver packets_duplicate), late" \
        "$(number receiver packets_reordered)"
}

# A run from the middle of all packets at either device is lost, including the transmitter's own.
e2e a_run_of_lost_packets_is_repaired needs=nft over=roce
a_run_of_lost_packets_is_repaired() {
    lose_run 128 1500 4791 && burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 10000 &&
        is receiver packets_recovered ">" 40 || return
    note "$(number receiver packets_recovered) packets repaired"
}
