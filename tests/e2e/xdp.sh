# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of AF_XDP, which run.sh sources with --transport xdp. A context has its interface for itself, so there is one
# receiver on a host. The firewall does not see frames: they are lost on purpose by impair+, and what goes by the kernel, NAKs
# and all that udp:// hosts get, by nft.

# shellcheck disable=SC2034
xdp_tests=(flood_without_loss frames_lost_on_purpose_are_repaired kernel_and_frames_hear_each_other
    kernel_and_frames_repair_each_others_losses trains_of_the_kernel_reach_frames
    killed_transmitter_is_noticed_and_its_successor_followed killed_processes_leave_the_interface_to_the_kernel
    receivers_interface_goes_down_and_up transmitters_interface_goes_down_and_up ipv6 sleeping_receiver many_in_one_context
    snooping_bridge frames_of_any_mtu stopped_receiver_holds_the_window full_receive_ring_is_counted_and_repaired
    frames_to_a_list_of_hosts unicast_over_ipv6 late_receiver_has_the_past_too applications_acknowledge
    more_receivers_than_there_are_are_waited_for_and_told assured_frames_wait_for_a_receiver_by_name_that_comes_back "${calls_tests[@]}"
    "${order_tests_short[@]}" "${unreliable_tests_short[@]}" "${kept_tests_short[@]}" "${limits_tests[@]}" "${filter_tests_short[@]}"
    "${bottleneck_tests_short[@]}" stopped_receiver_of_frames_is_suspended
    slow_receiver_of_frames_is_expelled_if_asked slow_receiver_of_frames_is_reported_and_served native_mode benchmark_reflector)

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
    send "$HOST_A" sender "$(transport=$from channel "$IF_A" 31 "${5:-}")" --messages "$3" --rate "$4"
    sender=$last
    ends "$sender" && ends "$receiver" || { why="$from to $to: ${why:-a program failed}" && return 1; }
    complete receiver "$3" || { why="$from to $to: $why" && return 1; }
}

frames_lost_on_purpose_are_repaired() {
    local loss
    for loss in ${losses//,/ }; do
        between impair+xdp impair+xdp "$messages" "$rate" "$keep&impair_loss_ppm=$((loss * 10000))" || return
        is receiver xdp_frames_received ">" 0 || return
        note "$loss %: $(number receiver packets_recovered) packets repaired of $(number sender packets_data)"
    done
}

kernel_and_frames_hear_each_other() {
    between udp xdp "$messages" "$rate" && is receiver xdp_frames_received ">" 0 && is receiver xdp_malformed == 0 || return
    between xdp udp "$messages" "$rate" && is sender xdp_frames_sent ">" 0
}

kernel_and_frames_repair_each_others_losses() {
    need_nft && lose 5 || return
    between xdp udp "$messages" "$rate" "$keep" && is receiver packets_recovered ">" 0 || return
    between udp impair+xdp "$messages" "$rate" "$keep" "$keep&impair_loss_ppm=50000" && is receiver packets_recovered ">" 0
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

# slow_of_frames SENDERS_OPTIONS COUNT STEP [RECEIVERS_ARGUMENT...]: one that gets frames, and beside it, by a port of its own, a steady
# one that is the kernel's. Sets slow, steady and sender.
slow_of_frames() {
    local list
    receive "$HOST_B" slow "$(at "$ADDRESS_B" 5015 "interface=$IF_B&rcvbuf_bytes=256K")" --wait 1 "${@:4}" && slow=$last || return
    receive "$HOST_B" steady "$(transport=udp at "$ADDRESS_B" 5016 "interface=$IF_B")" --wait 1 && steady=$last || return
    list="$(at "$ADDRESS_B" 5015 "interface=$IF_A&destinations=$ADDRESS_B:5016&$keep${1:+&$1}")"
    send "$HOST_A" sender "$list" --messages "$2" --rate "$rate" --step "$3" --receivers 2
    sender=$last
}

stopped_receiver_of_frames_is_suspended() {
    local slow steady sender count=$((2 * rate))
    slow_of_frames "" "$count" "$count" --stop-at $((rate / 4)) || return
    says slow reached && kill -STOP "$slow" && says sender " ns not heard, limit" && kill -CONT "$slow" || return
    ends "$sender" && ends "$steady" && ends "$slow" && complete steady "$count" && complete slow "$count" &&
        is slow xdp_frames_received ">" 0 && is sender receivers_suspended ">" 0 && is sender receivers_readmitted ">" 0
}

# It has all of the first half to read when the sender waits, and is expelled before the second.
slow_receiver_of_frames_is_expelled_if_asked() {
    local slow steady sender count=$((rate / 2))
    slow_of_frames "slow=expel&slow_lag_ns=100000000&slow_patience_ns=0&slow_recover_ns=100000000&slow_expel_ns=100000000" \
        "$count" $((count / 2)) --pause-us $((1000000000 / rate)) || return
    says slow "event: expelled" && says slow "event: session end expelled" && goes_on "$sender" && ends "$slow" &&
        ends "$sender" && ends "$steady" || return
    complete steady "$count" && is slow expelled == 1 && is slow errors == 0 && is slow xdp_frames_received ">" 0 &&
        is sender receivers_expelled ">" 0
}

slow_receiver_of_frames_is_reported_and_served() {
    local slow steady sender count=$((rate / 10))
    slow_of_frames "slow=report&slow_lag_ns=200000000&slow_patience_ns=0" "$count" "$count" --pause-us $((1000000000 / rate)) || return
    says sender " suspended (report only)" && ends "$sender" && ends "$steady" && ends "$slow" || return
    complete steady "$count" && complete slow "$count" && is slow xdp_frames_received ">" 0 &&
        is sender receivers_suspended ">" 0 && is slow suspended == 0 && is sender naks_shed == 0
}

# As the one by name that comes back, but that nobody else is there.
assured_frames_wait_for_a_receiver_by_name_that_comes_back() {
    local named sender count=10000
    assured_send "$(channel "$IF_A" 92)" --receivers 0 --names book --messages "$count"
    sender=$last
    says sender "waits: a receiver is not there book from 0" || return
    assure "$HOST_B" before "$(channel "$IF_B" 92 receiver_name=book)" --stop-at 1000 && named=$last &&
        says before "reached 1000" && kill -KILL "$named" && detached "$HOST_B" "$IF_B" || return
    assure "$HOST_B" named "$(channel "$IF_B" 92 receiver_name=book)" && named=$last || return
    ends "$sender" && ends "$named" || return
    is_assured "$count" && is named errors == 0 && is named next == "$count" && is named xdp_frames_received ">" 0
}

trains_of_the_kernel_reach_frames() {
    between udp xdp "$messages" $unpaced "$window" && is sender udp_trains ">" 0 && is receiver xdp_frames_received ">" 0 || return
    between xdp udp "$messages" $unpaced "$window" || return
    between xdp xdp "$messages" $unpaced "$window"
}

# attached PREFIX INTERFACE: whether a program is.
attached() {
    # shellcheck disable=SC2086
    $1 ip -d link show dev "$2" | grep -q prog/xdp
}

# The kernel takes a program off soon after its process is gone.
detached() {
    local tenths
    for ((tenths = 0; tenths < 50; tenths++)); do
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

sleeping_receiver() {
    local wait sender
    for wait in 1 2; do
        receive "$HOST_B" receiver "$(channel "$IF_B" 10)" --wait $wait && receiver=$last || return
        send "$HOST_A" sender "$(channel "$IF_A" 10)" --messages "$some" --rate $((rate / 2))
        sender=$last
        ends "$sender" && ends "$receiver" && complete receiver "$some" || { why="--wait $wait: $why" && return 1; }
    done
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
