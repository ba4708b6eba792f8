# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of streams to hosts instead of groups.

# place HOST N: a host and port N of the test, or its group N if the transport has only groups.
place() {
    [ "$transport" = roce ] && echo "$(group "$2"):5003" || echo "$1:$(port "$2")"
}

# at HOST N OPTIONS: a channel of the same transport to one host.
at() {
    echo "$transport://$(place "$1" "$2")?$3${keyed:+&keys=$keyed}"
}

# listeners: starts two receivers beyond the cable and one on A, which leaves A's interface to a sender of frames; `list` is the sender's
# channel to all of them.
listeners() {
    local kernel=${transport/#xdp/udp}
    receive "$HOST_B" first "$(at "$ADDRESS_B" 1 "interface=$IF_B")" "${@:2}" && first=$last || return
    receive "$HOST_C" second "$(at "$ADDRESS_C" 2 "interface=$IF_B")" && second=$last || return
    receive "$HOST_A" own "$(transport=$kernel at "$ADDRESS_A" 3 "interface=$IF_A")" && own=$last || return
    list=$(at "$ADDRESS_B" 1 "interface=$IF_A&destinations=$(place "$ADDRESS_C" 2),$(place "$ADDRESS_A" 3)&$1")
}

e2e one_stream_to_a_list_of_hosts needs=nft hosts=3 \
    not=shm:"memory reaches no hosts"
one_stream_to_a_list_of_hosts() {
    local first second own list sender name
    lose 5 && listeners "$keep" || return
    send "$HOST_A" sender "$list" --messages "$some" --rate "$rate" --receivers 3
    sender=$last
    ends "$sender" && ends "$first" && ends "$second" && ends "$own" || return
    for name in first second own; do
        complete "$name" "$some" && is "$name" packets_recovered ">" 0 || return
    done
    note "repaired $(number first packets_recovered), $(number second packets_recovered) and $(number own packets_recovered) packets"
}

e2e killed_host_of_a_list_does_not_disturb_other_hosts needs=namespaces hosts=3 \
    not=bypass,roce:"killed_receiver_does_not_disturb_other_receivers, of a list; it passes if it is named" \
    not=shm:"memory reaches no hosts"
killed_host_of_a_list_does_not_disturb_other_hosts() {
    local first second own list sender
    listeners "$keep" --stop-at $((rate / 8)) || return
    send "$HOST_A" sender "$list" --messages $((rate / 2)) --rate "$rate" --step $((rate / 4)) --receivers 3
    sender=$last
    says first reached && kill -KILL "$first" && goes_on "$sender" || return
    ends "$sender" && ends "$second" && ends "$own" && complete second $((rate / 2)) && complete own $((rate / 2))
}

# Delayed packets fill the sockets' buffers at different times: each host still gets each packet exactly once. On some machines a few packets
# arrive late in some runs, and one that was requested by then comes twice, as itself and as a repair: of three runs, one has none.
e2e full_send_buffers_duplicate_no_packet_of_a_list needs=namespaces hosts=3 \
    not=bypass:"the kernel's buffer of a socket" \
    not=xdp:"the buffer of a socket" \
    not=roce:"the buffer of a socket; tests/unit/roce/send.c fills the device's queue" \
    not=shm:"memory reaches no hosts"
full_send_buffers_duplicate_no_packet_of_a_list() {
    local first second own list sender status=0 name run late count=$((some * 2 / 5))
    # shellcheck disable=SC2086
    $HOST_A tc qdisc add dev "$IF_A" root tbf rate 100mbit burst 20000 limit 100000000 2>>"$work/tc.log" ||
        { why="this kernel cannot slow an interface down" && return 77; }
    for run in 1 2 3; do
        late=0
        listeners "sndbuf_bytes=16K&$keep" && send "$HOST_A" sender "$list" --messages "$count" --rate "$rate" --receivers 3 &&
            sender=$last && ends "$sender" && ends "$first" && ends "$second" && ends "$own" && is sender udp_send_waits ">" 0 || status=$?
        for name in first second own; do
            [ "$status" = 0 ] && complete "$name" "$count" && is "$name" packets_duplicate == "$(number "$name" packets_recovered)" || status=1
            late=$((late + $(number "$name" packets_missed)))
        done
        [ "$status" = 0 ] && [ "$late" -gt 0 ] || break
    done
    # shellcheck disable=SC2086
    $HOST_A tc qdisc del dev "$IF_A" root
    [ "$status" = 0 ] || return 1
    [ "$late" = 0 ] || { why="$late packets were missed in the last of 3 runs" && return 1; }
    note "no room in a buffer $(number sender udp_send_waits) times; runs: $run"
}

e2e unicast_over_ipv6 needs=namespaces \
    not=bypass:"the contract suite has it over this stack; it passes if it is named" \
    not=roce:"Linux 6.1 refuses IPv6 groups over RoCE v2" \
    not=shm:"groups are names"
unicast_over_ipv6() {
    local receiver sender
    # shellcheck disable=SC2086
    $HOST_B ip -6 addr replace fd77::2/64 dev "$IF_B" nodad && $HOST_A ip -6 addr replace fd77::1/64 dev "$IF_A" nodad ||
        { why="no IPv6 here" && return 77; } # the address is removed when an interface goes down
    receive "$HOST_B" receiver "$(at "[fd77::2]" 1 "")" && receiver=$last || return
    send "$HOST_A" sender "$(at "[fd77::2]" 1 "")" --messages "$some" --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$some"
}
