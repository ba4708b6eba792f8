# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of channels of two lines: loss on each, and lines that are cut. The second line is a cable of its own.

# with_second_line FUNCTION [ARGUMENT...]: calls it while there is a second cable between A and B.
with_second_line() {
    local status=0
    add_second_line || { why="cannot make the second line" && return 1; }
    "$@" || status=$?
    [ "$transport" != roce ] || { rdma link delete rxe_a2 && rdma link delete rxe_b2; }
    # shellcheck disable=SC2086
    $HOST_A ip link del llm-a2
    return "$status"
}

add_second_line() {
    local pid
    if [ "$transport" = roce ]; then
        ip link add llm-a2 type veth peer name llm-b2 && roce_device llm-a2 10.80.0.1 rxe_a2 1500 &&
            roce_device llm-b2 10.80.0.2 rxe_b2 1500 && roce_ready rxe_a2 10.80.0.1 && roce_ready rxe_b2 10.80.0.2
        return
    fi
    pid=$(sed -n 's/.*-t \([0-9]*\).*/\1/p' <<<"$HOST_B")
    # shellcheck disable=SC2086
    $HOST_A sh -c "ip link add llm-a2 type veth peer name llm-b2 netns $pid && ip addr add 10.80.0.1/24 dev llm-a2 && ip link set llm-a2 up" &&
        $HOST_B sh -c "ip addr add 10.80.0.2/24 dev llm-b2 && ip link set llm-b2 up"
}

# two_lines INTERFACE SECOND [OPTIONS]: a channel of two lines.
two_lines() {
    echo "$(channel "$1" "${3:-}") + $(channel "$2" "" 2)"
}

# Loses packets on each line, those of one not those of the other.
lose_on_lines() {
    drop "$HOST_A" inet input "meta l4proto udp numgen random mod 100 < $1" && drop "$HOST_B" inet input "meta l4proto udp numgen random mod 100 < $1"
}

# One line loses packets, the other one is late and disordered, and is cut in the middle and brought back: no message is lost.
unlike_lines() {
    local receiver sender first second
    first=$(transport=impair+$transport channel "$IF_B" impair_loss_ppm=50000)
    second=$(transport=impair+$transport channel llm-b2 "impair_delay_ns=300000&impair_reorder_ppm=20000" 2)
    receive "$HOST_B" receiver "$first + $second" && receiver=$last || return
    send "$HOST_A" sender "$(two_lines "$IF_A" llm-a2 "$keep")" --messages $((rate * 2)) --rate "$rate"
    sender=$last
    says receiver "session new" || return
    sleep 0.3
    # shellcheck disable=SC2086
    $HOST_A ip link set llm-a2 down && sleep 0.7 && $HOST_A ip link set llm-a2 up || { why="the second line cannot be cut" && return 1; }
    ends "$sender" && ends "$receiver" && complete receiver "$((rate * 2))" && is receiver silences == 0 || return
    is receiver line_1_lost ">" 0 && is receiver line_2_lost ">" 0 && is receiver line_2_first ">" 0 || return
    note "lost on line 1: $(number receiver line_1_lost), on line 2: $(number receiver line_2_lost); came first on line 2:" \
        "$(number receiver line_2_first); repaired: $(number receiver packets_recovered)"
}

e2e a_line_that_loses_and_one_that_is_late_and_cut over=udp,xdp,roce
a_line_that_loses_and_one_that_is_late_and_cut() {
    with_second_line unlike_lines
}

# lines_flood COUNT: with 5 % of the packets of each line lost, the second line is cut while messages flow, and brought back.
lines_flood() {
    local receiver sender second missed asked
    lose_on_lines 5 || return
    receive "$HOST_B" receiver "$(two_lines "$IF_B" llm-b2)" && receiver=$last || return
    send "$HOST_A" sender "$(two_lines "$IF_A" llm-a2 "$keep")" --messages "$1" --rate "$rate"
    sender=$last
    says receiver "session new" || return
    sleep 0.5
    # shellcheck disable=SC2086
    $HOST_A ip link set llm-a2 down && sleep 1 && $HOST_A ip link set llm-a2 up || { why="the second line cannot be cut" && return 1; }
    ends "$sender" && ends "$receiver" && complete receiver "$1" || return
    is receiver lines_down ">=" 1 && is receiver lines_up ">=" 1 && is receiver silences == 0 || return
    is receiver line_1_lost ">" 0 && is receiver line_2_lost ">" "$(number receiver line_1_lost)" || return
    second=$(number receiver line_2_first) missed=$(number receiver packets_missed) asked=$(number receiver packets_recovered)
    ((second > 0 && asked < missed)) || { why="of $missed missing packets $asked were repaired; $second came first on line 2" && return 1; }
    note "lost on line 1: $(number receiver line_1_lost), on line 2: $(number receiver line_2_lost); found missing $missed," \
        "repaired $asked; reports that line 2 was down: $(number receiver lines_down)"
}

e2e two_lines_of_which_one_is_cut needs=nft over=udp
two_lines_of_which_one_is_cut() {
    with_second_line lines_flood "$((rate * 3))"
}

# Plain channels take part: a transmitter on one line, and a receiver on one line. So does one that names the lines the other way round.
lines_and_plain() {
    local both plain swapped sender
    receive "$HOST_B" both "$(two_lines "$IF_B" llm-b2)" && both=$last || return
    receive "$HOST_B" plain "$(channel llm-b2 "" 2)" && plain=$last || return
    receive "$HOST_B" swapped "$(channel llm-b2 "" 2) + $(channel "$IF_B")" && swapped=$last || return
    send "$HOST_A" sender "$(two_lines "$IF_A" llm-a2 "$keep")" --messages "$some" --rate "$rate" --receivers 3
    sender=$last
    ends "$sender" && ends "$both" && ends "$plain" && ends "$swapped" && complete both "$some" && complete plain "$some" &&
        complete swapped "$some" && is swapped line_1_first ">" 0 || return
    receive "$HOST_B" both "$(two_lines "$IF_B" llm-b2)" && both=$last || return
    send "$HOST_A" sender "$(channel llm-a2 "$keep" 2)" --messages "$some" --rate "$rate"
    sender=$last
    ends "$sender" && ends "$both" && complete both "$some" && is both line_1_first == 0
}

e2e two_lines_beside_one needs=nft over=udp
two_lines_beside_one() {
    lose 1 && with_second_line lines_and_plain
}

# The network is lossy, and shared memory is not. The receiver waits for the other line longer than any transmitter waits for a
# processor between its two sends of a packet.
e2e a_network_and_memory_as_lines needs=nft over=udp
a_network_and_memory_as_lines() {
    local receiver sender at
    at="shm://lines-$$?shm_directory=$work/shm"
    mkdir -p "$work/shm"
    lose 5 || return
    receive "$HOST_A" receiver "$(channel "$IF_A" nak_delay_ns=2000000000) + $at" && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$keep") + $at" --messages "$some" --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$some" && is receiver line_2_first ">" 0 && is receiver nak_packets == 0
}

# The same with ten million messages, and without a history that retains all of them.
e2e soak_of_lines needs=nft run=named
soak_of_lines() {
    limit=$((3600 * ${LLM_SLOWNESS:-1})) keep=
    with_second_line lines_flood 10000000
}
