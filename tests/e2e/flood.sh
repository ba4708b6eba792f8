# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of streams between hosts: completeness and repair.

# The history retains everything, so that losses can be repaired at any time, on any machine.
keep="history_bytes=256M&history_packets=524288"
# The history retains only a small part of the messages of one second.
short="history_bytes=$((rate * 40))"
# At full speed, with flow control.
window="flow=window"
unpaced=100000000

# flood COUNT PER_SECOND [OPTIONS]: from A to B.
flood() {
    local receiver sender
    receive "$HOST_B" receiver "$(channel "$IF_B" "${3:-}")" && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "${3:-}")" --messages "$1" --rate "$2" --after-ms 100
    sender=$last
    ends "$sender" && ends "$receiver" || return
    complete receiver "$1"
}

# burst FROM INTERFACE TO INTERFACE COUNT [OPTIONS]: a flood without pause between two prefixes; all messages have to arrive.
burst() {
    local receiver sender
    receive "$3" receiver "$(channel "$4" "${6:-$window}")" && receiver=$last || return
    send "$1" sender "$(channel "$2" "${6:-$window}")" --messages "$5" --rate $unpaced
    sender=$last
    ends "$sender" && ends "$receiver" || return
    complete receiver "$5"
}

e2e flood_without_loss also=vma,stack \
    not=xdp,roce:"flood_with_loss begins without any"
flood_without_loss() {
    flood "$messages" "$rate" "$keep"
}

e2e flood_with_loss needs=nft also=vma,stack \
    not=shm:"memory loses nothing by itself; flood_with_faults"
flood_with_loss() {
    local loss
    for loss in ${losses//,/ }; do
        lose "$loss" && flood "$messages" "$rate" "$keep" || { why="$loss %: $why" && return 1; }
        note "$loss %: $(number receiver packets_recovered) packets repaired, NAKs $(number receiver naks_sent)," \
            "repairs $(number sender packets_repaired) of $(number sender packets_data)"
    done
}

# With the default history: losses have to be repaired while their packets are retained.
e2e soak needs=nft run=named
soak() {
    messages=10000000 limit=$((3600 * ${LLM_SLOWNESS:-1})) keep=
    flood_with_loss
}

# The delays depend on the machine and are printed only.
e2e lost_packets_are_repaired_soon needs=nft \
    not=bypass:"it measures how soon, of which a test stack says nothing" \
    not=xdp:"it takes long for what it is; it passes if it is named" \
    not=roce:"it measures how soon, which is the emulation's" \
    not=shm:"memory loses nothing by itself; flood_with_faults"
lost_packets_are_repaired_soon() {
    local loss receiver sender
    for loss in 1 5 20; do
        lose "$loss" || return
        receive "$HOST_B" receiver "$(channel "$IF_B")" --timing 1 && receiver=$last || return
        send "$HOST_A" sender "$(channel "$IF_A")" --messages 1000 --rate 400
        sender=$last
        ends "$sender" && ends "$receiver" && complete receiver 1000 || return
        # A busy machine packs messages: of so few packets 1 % may be none.
        [ "$loss" = 1 ] || is receiver repaired ">" 0 || return
        note "$loss %: $(number receiver repaired) of 1000 messages repaired, median $(number receiver repaired_median_us) us" \
            "from send to delivery; the others $(number receiver others_median_us) us; $(number sender heartbeats_sent) heartbeats"
    done
}

# Single packets, and trains of 44, which the filter sees as one.
e2e runs_of_lost_packets_are_repaired needs=nft \
    not=bypass:"a stack has no part in it; it passes if it is named" \
    not=roce:"a_run_of_lost_packets_is_repaired, as RDMA packets have another port and no trains" \
    not=shm:"memory loses nothing by itself; flood_with_faults"
runs_of_lost_packets_are_repaired() {
    lose_run 128 4000 && burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 100000 "$window&gso_packets=1" &&
        is receiver packets_recovered ">=" 128 || { why="one by one: $why" && return 1; }
    note "one by one: $(number receiver packets_recovered) packets repaired"
    lose_run 3 100 && burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 100000 &&
        is receiver packets_recovered ">=" 128 || { why="in trains: $why" && return 1; }
    note "in trains: $(number receiver packets_recovered) packets repaired"
}

e2e ipv6 needs=namespaces \
    not=bypass:"the contract suite has it over this stack; it passes if it is named" \
    not=roce:"Linux 6.1 refuses IPv6 groups over RoCE v2" \
    not=shm:"groups are names"
ipv6() {
    local receiver sender
    # Without grep -q, which exits early and gives the pipe a misleading status.
    # shellcheck disable=SC2086
    [[ $($HOST_A ip -6 addr show dev "$IF_A" 2>/dev/null) == *inet6* ]] || { why="no IPv6 here" && return 77; }
    receive "$HOST_B" receiver "$transport://[$(group6)]:5003?interface=$IF_B" && receiver=$last || return
    send "$HOST_A" sender "$transport://[$(group6)]:5003?interface=$IF_A" --messages "$some" --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$some"
}

e2e processes_of_one_host \
    not=xdp:"each would need the interface for itself; docs/xdp.md says what carries between them"
processes_of_one_host() {
    local receiver sender
    receive "$HOST_A" receiver "$(channel "$IF_A")" && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A")" --messages "$some" --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$some"
}

# One transmitter sends to the network and to its own host; the receivers use one of them, or both. 5 % of the network's packets
# are lost.
e2e network_and_own_host_at_once needs=nft hosts=3 \
    not=bypass:"what shares memory has no stack; it passes if it is named" \
    not=shm:"run over udp, which it is about as well"
network_and_own_host_at_once() {
    local names=(both own network) receivers=() sender i count=$((some / (1 + fewer / 5)))
    local at_group="://$(group):5003?" own="shm_directory=$work/shm"
    mkdir -p "$work/shm"
    lose 5 || return
    receive "$beside_a" both "shm+$transport${at_group}interface=$beside_if&$own" && receivers+=("$last") || return
    receive "$HOST_A" own "shm${at_group}$own" --wait 1 && receivers+=("$last") || return
    receive "$HOST_B" network "$transport${at_group}interface=$IF_B" && receivers+=("$last") || return
    send "$HOST_A" sender "shm+$transport${at_group}interface=$IF_A&$own&$keep" --messages "$count" --rate "$rate" --receivers 3
    sender=$last
    ends "$sender" || return
    for i in 0 1 2; do
        ends "${receivers[i]}" && complete "${names[i]}" "$count" || return
    done
    # The receiver of shared memory lost nothing, but repairs to the group reach it, too; the one with both got most messages twice.
    is own packets_recovered == 0 && is both packets_recovered == 0 && is network packets_recovered ">" 0 &&
        is both packets_duplicate ">" 0 && is own packets_duplicate "<=" "$(number sender repairs_multicast)" || return
    rmdir "$work/shm" 2>/dev/null || { why="left in shared memory: $(find "$work/shm")" && return 1; }
    note "recovered over the network: $(number network packets_recovered) packets; twice on the own host: $(number both packets_duplicate)"
}

e2e sleeping_receivers hosts=3
sleeping_receivers() {
    local block poll sender
    receive "$HOST_B" block "$(channel "$IF_B")" --wait 1 && block=$last || return
    receive "$HOST_C" poll "$(channel "$IF_B" busy_poll_us=50)" --wait 2 && poll=$last || return
    send "$HOST_A" sender "$(channel "$IF_A")" --messages "$some" --rate $((rate / 2)) --receivers 2
    sender=$last
    ends "$sender" && ends "$block" && ends "$poll" && complete block "$some" && complete poll "$some"
}
