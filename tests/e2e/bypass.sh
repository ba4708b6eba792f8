# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of kernel bypass, over test stacks.

# Neither stack splits trains into packets.
e2e packets_leave_one_by_one over=bypass also=vma,stack
packets_leave_one_by_one() {
    burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 50000 && is sender udp_trains == 0 && is sender udp_trains_refused == 0 &&
        is sender udp_send_errors == 0 && is receiver udp_superframes == 0
}

e2e packets_are_lent_from_the_stacks_memory over=bypass also=vma
packets_are_lent_from_the_stacks_memory() {
    flood "$some" "$rate" "$keep" && is receiver bypass_lent ">" 1000 && is receiver bypass_in_kernel == 0 &&
        is sender bypass_in_kernel == 0 && is sender bypass_accelerated ">=" 2 && is receiver bypass_fetch_errors == 0 &&
        is receiver bypass_release_errors == 0 || return
    note "lent $(number receiver bypass_lent) packets, copied $(number receiver bypass_copied)"
}

# Repairs go through sockets that spin; warm sends leave no trace.
e2e warm_sends_reach_no_receiver over=bypass also=vma
warm_sends_reach_no_receiver() {
    run_on "$HOST_B env SHIM_WARM=1" receiver "$programs/e2e_flood_receive" "$(channel "$IF_B" warm_ns=1000)"
    local receiver=$last sender
    says receiver listening || return
    run_on "$HOST_A env SHIM_WARM=1" sender "$programs/e2e_flood_send" "$(channel "$IF_A" warm_ns=1000)" \
        --messages "$some" --rate "$((rate / 4))"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$some" && is receiver packets_version == 0 || return
    is sender bypass_warm_errors == 0 && is sender bypass_warm_sends ">" 0 || return
    note "$(number sender bypass_warm_sends) warm sends"
}

e2e bypass_is_refused_without_a_stack over=bypass also=vma
bypass_is_refused_without_a_stack() {
    local preload='' sender
    send "$HOST_A" sender "$(channel "$IF_A")" --messages 1
    sender=$last
    ! ends "$sender" || { why="it was opened" && return 1; }
    says sender "no stack that accelerates sockets is loaded"
}

e2e sockets_left_to_the_kernel_are_refused over=bypass also=vma
sockets_left_to_the_kernel_are_refused() {
    local sender
    send "$HOST_A env SHIM_KERNEL=senders" sender "$(channel "$IF_A")" --messages 1
    sender=$last
    ! ends "$sender" || { why="it was opened" && return 1; }
    says sender "does not accelerate the socket that sends to $(group) on interface $IF_A"
}
