# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of AF_XDP, which run.sh sources with --transport xdp. A context has its interface for itself, so each receiver is on a
# host of its own, at a switch. That loses packets on purpose, as a host's firewall sees no frames; what udp:// gets of it, it does.

# shellcheck disable=SC2034
xdp_tests=(flood_with_loss kernel_and_frames_hear_each_other kernel_and_frames_repair_each_others_losses
    trains_of_the_kernel_reach_frames stopped_receiver_is_told_what_it_lost killed_receiver_disturbs_nobody
    killed_transmitter_is_noticed_and_its_successor_followed killed_processes_leave_the_interface_to_the_kernel
    receivers_interface_goes_down_and_up transmitters_interface_goes_down_and_up ipv6 network_and_own_host_at_once
    sleeping_receivers many_in_one_context three_join_late_in_spite_of_losses snooping_bridge frames_of_any_mtu
    stopped_receiver_holds_the_window full_receive_ring_is_counted_and_repaired
    runs_of_lost_packets_are_repaired stopped_receiver_is_suspended receiver_at_a_tenth_of_the_rate_is_suspended
    receiver_behind_by_bytes_is_suspended slow_receiver_is_expelled_if_asked "${policy_tests[@]}"
    one_stream_to_a_list_of_hosts killed_host_of_a_list_disturbs_nobody frames_to_a_list_of_hosts unicast_over_ipv6
    "${assured_tests[@]}" assured_messages_survive_loss "${calls_tests[@]}" calls_in_spite_of_losses "${filter_tests[@]}"
    "${order_tests[@]}" "${unreliable_tests[@]}" "${kept_tests[@]}" "${limits_tests[@]}" the_slow_application_is_named_shortly
    the_lossy_network_is_named the_rate_limit_is_kept_and_named_shortly "${stat_tests[@]}" native_mode
    benchmark_reflector)

# shellcheck disable=SC2034
declare -A xdp_not=(
    [flood_without_loss]="flood_with_loss begins without any"
    [lost_packets_are_repaired_soon]="it takes long for what it is; it passes if it is named"
    [processes_of_one_host]="each would need the interface for itself; docs/xdp.md says what carries between them"
    [many_join_late]="each has a context in one process, which needs an interface; three_join_late_in_spite_of_losses has hosts of their own"
    [short_lived_peers_leave_no_address_behind]="each peer is a context of one process, which needs an interface; the unicasts of xdp go by udp"
    [many_join_late_over_network_and_memory]="as above"
    [many_join_late_in_spite_of_losses]="as above"
    [bad_input]="UDP's interfaces and options; tests/xdp/faults.c has those of frames"
    [clamped_buffer]="the buffer of a socket"
    [hostile_packets]="what is in a packet is the same by frames; it passes if it is named"
    [ignored_segmentation_is_noticed]="UDP's own offload"
    [refused_options_and_segmentation_are_done_without]="UDP's own offload"
    [segmentation_that_fails_later_loses_nothing]="UDP's own offload"
    [cables_of_any_mtu]="frames_of_any_mtu, as frames have no trains and other limits"
    [small_receive_buffer]="full_receive_ring_is_counted_and_repaired is the same of a ring"
    [stopped_receiver_in_full_blast_is_told_what_it_lost]="stopped_receiver_is_told_what_it_lost, with more messages; it passes if it is named"
    [slow_receiver_decides_for_all_if_asked]="the window is the transmitter's; it passes if it is named"
    [slow_receiver_does_not_decide_for_the_others]="as above"
    [receiver_that_loses_a_fifth_is_suspended]="the same by another threshold; it passes if it is named"
    [full_send_buffers_double_nothing_of_a_list]="the buffer of a socket"
    [the_slow_application_is_named]="the short one is the same with fewer messages"
    [the_overflowing_buffer_is_named]="the buffer of a socket"
    [the_transport_that_takes_no_more_is_named]="the buffer of a socket; nothing queues for an interface that frames leave by"
    [the_rate_limit_is_kept_and_named]="the short one is the same with fewer messages"
)

# So that it does not take as long as all of UDP's.
xdp_settle() {
    some_losses=5
}

# Whether AF_XDP can be had here at all.
xdp_possible() {
    [ "$HOSTS_KIND" = netns ] || { why="needs root: the kernel loads programs for nobody else" && return 77; }
    # shellcheck disable=SC2086
    if ! $HOST_A "$programs/e2e_flood_send" "$(channel "$IF_A" 30)" --messages 1 --receivers 0 --after-ms 0 \
        >/dev/null 2>"$work/possible"; then
        why=$(tail -n 1 "$work/possible")
        return 77
    fi
}

# between SCHEME_A SCHEME_B COUNT PER_SECOND [OPTIONS [OPTIONS_B]]: a flood from A to B; all of it has to come.
between() {
    local from=$1 to=$2 receiver sender
    receive "$HOST_B" receiver "$(transport=$to channel "$IF_B" 31 "${6-${5:-}}")" && receiver=$last || return
    send "$HOST_A" sender "$(transport=$from channel "$IF_A" 31 "${5:-}")" --messages "$3" --rate "$4" --after-ms 0
    sender=$last
    ends "$sender" && ends "$receiver" || { why="$from to $to: ${why:-a program failed}" && return 1; }
    complete receiver "$3" || { why="$from to $to: $why" && return 1; }
}

kernel_and_frames_hear_each_other() {
    between udp xdp "$messages" "$rate" && is receiver xdp_frames_received ">" 0 && is receiver xdp_malformed == 0 || return
    between xdp udp "$messages" "$rate" && is sender xdp_frames_sent ">" 0
}

kernel_and_frames_repair_each_others_losses() {
    need_nft && lose 5 || return
    between xdp udp "$messages" "$rate" "$keep" && is receiver packets_recovered ">" 0 || return
    between udp xdp "$messages" "$rate" "$keep" && is receiver packets_recovered ">" 0
}

# One by frames, of which some are lost; one beside it and one at the sender's own host, which are the kernel's; one that nobody has.
frames_to_a_list_of_hosts() {
    local first second own list sender name nobody=${ADDRESS_B%.*}.99
    # shellcheck disable=SC2086
    $HOST_A ip neigh replace "$nobody" dev "$IF_A" nud failed || return
    receive "$HOST_B" first "$(transport=impair+xdp at "$ADDRESS_B" 5011 "interface=$IF_B&impair_loss_ppm=50000")" &&
        first=$last || return
    receive "$HOST_B" second "$(transport=udp at "$ADDRESS_B" 5012 "interface=$IF_B")" && second=$last || return
    receive "$HOST_A" own "$(transport=udp at "$ADDRESS_A" 5013 "interface=$IF_A")" && own=$last || return
    list="$(at "$ADDRESS_B" 5011 "interface=$IF_A&destinations=$ADDRESS_B:5012,$ADDRESS_A:5013,$nobody:5014&$keep")"
    send "$HOST_A" sender "$list" --messages $((some / 2)) --rate "$rate" --receivers 3
    sender=$last
    ends "$sender" && ends "$first" && ends "$second" && ends "$own" || return
    for name in first second own; do
        complete "$name" $((some / 2)) || return
    done
    is first packets_recovered ">" 0 && is first xdp_frames_received ">" 0 && is sender xdp_frames_sent ">" 0 &&
        is sender xdp_host_detours ">" 0 && is sender xdp_hosts_dead == 1 && says sender "$nobody:5014 does not answer" || return
    note "$(number sender xdp_frames_sent) packets left as frames, $(number sender xdp_host_detours) by the kernel"
}

trains_of_the_kernel_reach_frames() {
    between udp xdp "$messages" $unpaced "$window" && is sender udp_trains ">" 0 && is receiver xdp_frames_received ">" 0 || return
    between xdp udp "$messages" $unpaced "$window" || return
    between xdp xdp "$messages" $unpaced "$window"
}

# attached PREFIX INTERFACE: whether a program is.
attached() {
    # shellcheck disable=SC2086
    [[ $($1 ip -d link show dev "$2") == *prog/xdp* ]]
}

# The kernel takes a program off soon after its process is gone.
detached() {
    local tenths
    for ((tenths = 0; tenths < 50 * ${LLM_SLOWNESS:-1}; tenths++)); do
        attached "$@" || return 0
        sleep 0.1
    done
    why="a program is still attached to $2"
    return 1
}

killed_processes_leave_the_interface_to_the_kernel() {
    local killed sender other
    receive "$HOST_B" killed "$(channel "$IF_B" 4)" --stop-at $((rate / 10)) && killed=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" 4)" --messages $((rate * 10)) --rate "$rate"
    sender=$last
    says killed reached || return
    attached "$HOST_A" "$IF_A" && attached "$HOST_B" "$IF_B" || { why="no program was attached" && return 1; }
    kill -KILL "$killed" "$sender"
    detached "$HOST_A" "$IF_A" && detached "$HOST_B" "$IF_B" || return
    between udp udp "$some" "$rate" && between xdp xdp "$some" "$rate"
}

# Frames of one small chunk, of one large, and of several.
frames_of_any_mtu() {
    need_namespaces || return
    local bytes status=0
    for bytes in 1280 1500 3442 3600 9000; do
        mtu "$bytes" && between xdp xdp "$some" $unpaced "$window" && between udp xdp "$some" $unpaced "$window" &&
            between xdp udp "$some" $unpaced "$window" || { status=1 why="MTU $bytes: $why" && break; }
    done
    mtu 1500 && return "$status"
}

full_receive_ring_is_counted_and_repaired() {
    stopped 24 500000 "$window&rcvbuf_bytes=128K" held && complete receiver 500000 && is receiver xdp_kernel_drops ">" 0 || return
    note "the kernel dropped $(number receiver xdp_kernel_drops) frames; repaired $(number receiver packets_recovered)"
}

# Which has to be asked for on veth.
native_mode() {
    between xdp xdp "$messages" "$rate" xdp_mode=native && is receiver xdp_frames_received ">" 0 || return
    between udp xdp "$messages" $unpaced "$window" "$window&xdp_mode=native" && is receiver xdp_frames_received ">" 0 &&
        is receiver udp_superframes == 0
}
