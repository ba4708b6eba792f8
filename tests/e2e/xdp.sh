# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of AF_XDP. A context has its interface for itself, so each receiver is on a host of its own, at a switch. The switch
# drops packets on purpose, as a host's firewall sees packets of udp:// only.

# Shortens the tests, which would take as long as all of UDP's.
settle_xdp() {
    some_losses=5
}

# Whether AF_XDP is available.
possible_xdp() {
    [ "$HOSTS_KIND" = netns ] || { why="needs root: the kernel loads programs for nobody else" && return 77; }
    # shellcheck disable=SC2086
    if ! $HOST_A "$programs/e2e_flood_send" "$(channel "$IF_A")" --messages 1 --receivers 0 --after-ms 0 \
        >/dev/null 2>"$work/possible"; then
        why=$(tail -n 1 "$work/possible")
        return 77
    fi
}

# between SCHEME_A SCHEME_B COUNT PER_SECOND [OPTIONS [OPTIONS_B]]: a flood from A to B; all messages have to arrive.
between() {
    local from=$1 to=$2 receiver sender
    receive "$HOST_B" receiver "$(transport=$to channel "$IF_B" "${6-${5:-}}")" && receiver=$last || return
    send "$HOST_A" sender "$(transport=$from channel "$IF_A" "${5:-}")" --messages "$3" --rate "$4" --after-ms 0
    sender=$last
    ends "$sender" && ends "$receiver" || { why="$from to $to: ${why:-a program failed}" && return 1; }
    complete receiver "$3" || { why="$from to $to: $why" && return 1; }
}

e2e kernel_and_frames_receive_each_other over=xdp
kernel_and_frames_receive_each_other() {
    between udp xdp "$messages" "$rate" && is receiver xdp_frames_received ">" 0 && is receiver xdp_malformed == 0 || return
    between xdp udp "$messages" "$rate" && is sender xdp_frames_sent ">" 0
}

e2e kernel_and_frames_repair_each_others_losses needs=nft over=xdp
kernel_and_frames_repair_each_others_losses() {
    lose 5 || return
    between xdp udp "$messages" "$rate" "$keep" && is receiver packets_recovered ">" 0 || return
    between udp xdp "$messages" "$rate" "$keep" && is receiver packets_recovered ">" 0
}

# One host receives by frames, with losses; one on it and one on the transmitter's host receive by the kernel; one address is unused.
e2e frames_to_a_list_of_hosts over=xdp
frames_to_a_list_of_hosts() {
    local first second own list sender name nobody=${ADDRESS_B%.*}.99
    # shellcheck disable=SC2086
    $HOST_A ip neigh replace "$nobody" dev "$IF_A" nud failed || return
    receive "$HOST_B" first "$(transport=impair+xdp at "$ADDRESS_B" 1 "interface=$IF_B&impair_loss_ppm=50000")" &&
        first=$last || return
    receive "$HOST_B" second "$(transport=udp at "$ADDRESS_B" 2 "interface=$IF_B")" && second=$last || return
    receive "$HOST_A" own "$(transport=udp at "$ADDRESS_A" 3 "interface=$IF_A")" && own=$last || return
    list="$(at "$ADDRESS_B" 1 "interface=$IF_A&destinations=$(place "$ADDRESS_B" 2),$(place "$ADDRESS_A" 3),$(place "$nobody" 4)&$keep")"
    send "$HOST_A" sender "$list" --messages $((some / 2)) --rate "$rate" --receivers 3
    sender=$last
    ends "$sender" && ends "$first" && ends "$second" && ends "$own" || return
    for name in first second own; do
        complete "$name" $((some / 2)) || return
    done
    is first packets_recovered ">" 0 && is first xdp_frames_received ">" 0 && is sender xdp_frames_sent ">" 0 &&
        is sender xdp_host_detours ">" 0 && is sender xdp_hosts_dead == 1 && says sender "$(place "$nobody" 4) does not answer" || return
    note "$(number sender xdp_frames_sent) packets left as frames, $(number sender xdp_host_detours) by the kernel"
}

e2e trains_of_the_kernel_reach_frames over=xdp
trains_of_the_kernel_reach_frames() {
    between udp xdp "$messages" $unpaced "$window" && is sender udp_trains ">" 0 && is receiver xdp_frames_received ">" 0 || return
    between xdp udp "$messages" $unpaced "$window" || return
    between xdp xdp "$messages" $unpaced "$window"
}

# attached PREFIX INTERFACE: true if a program is attached.
attached() {
    # shellcheck disable=SC2086
    [[ $($1 ip -d link show dev "$2") == *prog/xdp* ]]
}

# The kernel detaches a program soon after the end of its process.
detached() {
    local tenths
    for ((tenths = 0; tenths < 50 * ${LLM_SLOWNESS:-1}; tenths++)); do
        attached "$@" || return 0
        sleep 0.1
    done
    why="a program is still attached to $2"
    return 1
}

e2e killed_processes_leave_the_interface_to_the_kernel over=xdp
killed_processes_leave_the_interface_to_the_kernel() {
    local killed sender other
    receive "$HOST_B" killed "$(channel "$IF_B")" --stop-at $((rate / 10)) && killed=$last || return
    send "$HOST_A" sender "$(channel "$IF_A")" --messages $((rate * 10)) --rate "$rate"
    sender=$last
    says killed reached || return
    attached "$HOST_A" "$IF_A" && attached "$HOST_B" "$IF_B" || { why="no program was attached" && return 1; }
    kill -KILL "$killed" "$sender"
    detached "$HOST_A" "$IF_A" && detached "$HOST_B" "$IF_B" || return
    between udp udp "$some" "$rate" && between xdp xdp "$some" "$rate"
}

# Frames of one small chunk, of one large, and of several.
e2e frames_of_any_mtu needs=namespaces over=xdp
frames_of_any_mtu() {
    local bytes status=0
    for bytes in 1280 1500 3442 3600 9000; do
        mtu "$bytes" && between xdp xdp "$some" $unpaced "$window" && between udp xdp "$some" $unpaced "$window" &&
            between xdp udp "$some" $unpaced "$window" || { status=1 why="MTU $bytes: $why" && break; }
    done
    mtu 1500 && return "$status"
}

e2e full_receive_ring_is_counted_and_repaired over=xdp
full_receive_ring_is_counted_and_repaired() {
    stopped 500000 "$window&rcvbuf_bytes=128K" held && complete receiver 500000 && is receiver xdp_kernel_drops ">" 0 || return
    note "the kernel dropped $(number receiver xdp_kernel_drops) frames; repaired $(number receiver packets_recovered)"
}

# Native mode has to be configured on veth.
e2e native_mode over=xdp
native_mode() {
    between xdp xdp "$messages" "$rate" xdp_mode=native && is receiver xdp_frames_received ">" 0 || return
    between udp xdp "$messages" $unpaced "$window" "$window&xdp_mode=native" && is receiver xdp_frames_received ">" 0 &&
        is receiver udp_superframes == 0
}
