# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# End-to-end tests of RoCE, which run.sh sources with --transport roce, in a guest where everything is 30 to 100 times slower.
# Hosts are two devices of one network namespace, behind a bridge that snoops. Every test of "all" is either run or has a reason
# not to be.

roce_tests=(flood_with_loss packets_lost_doubled_and_reordered_on_the_cable stopped_receiver_is_told_what_it_lost
    killed_receiver_disturbs_nobody killed_transmitter_is_noticed_and_its_successor_followed
    receivers_interface_goes_down_and_up transmitters_interface_goes_down_and_up processes_of_one_host
    network_and_own_host_at_once sleeping_receivers many_in_one_context many_join_late_in_spite_of_losses
    late_receiver_has_the_past_too empty_receive_queue_loses_nothing stopped_receiver_holds_the_window
    a_run_of_lost_packets_is_repaired stopped_receiver_is_suspended slow_receiver_is_expelled_if_asked
    one_stream_to_a_list_of_hosts "${assured_tests[@]}" assured_messages_survive_loss "${calls_tests[@]}"
    calls_in_spite_of_losses labels_bitmaps_and_selectors_choose_under_loss
    a_subject_taken_back_is_no_longer_delivered "${order_tests[@]}" "${unreliable_tests[@]}" "${kept_tests_short[@]}"
    who_joins_gets_the_last_of_each_topic_in_spite_of_losses repairs_keep_their_limit_and_all_come the_slow_application_is_named
    the_lossy_network_is_named the_rate_limit_is_kept_and_named latencies_are_counted_and_shown)

declare -A roce_not=(
    [slow_receiver_is_reported_and_served]="the same as slow_receiver_is_expelled_if_asked, which is run; it passes if it is named"
    [what_is_too_old_is_refused_or_left_out]="for time, three seconds; it passes if it is named"
    [rates_change_while_messages_flow]="for time, three seconds, and the_rate_limit_is_kept_and_named is run; it passes if it is named"
    [counters_of_topics]="for time, four seconds; it passes if it is named"
    [short_lived_peers_leave_no_address_behind]="for time, as each peer opens a device; tests/unit/roce/forget.c gives addresses back"
    [flood_without_loss]="flood_with_loss begins without any"
    [lost_packets_are_repaired_soon]="it measures how soon, which is the emulation's"
    [ipv6]="Linux 6.1 refuses IPv6 groups over RoCE v2"
    [unicast_over_ipv6]="as above"
    [many_join_late]="the one with losses has it too"
    [many_join_late_over_network_and_memory]="network_and_own_host_at_once has both, and late joins are the same over all"
    [bad_input]="UDP's interfaces and options; what_is_wrong_is_named of tests/roce/suite.sh has those of RDMA"
    [clamped_buffer]="the buffer of a socket"
    [hostile_packets]="its packets are UDP's; tests/unit/roce/receive.c has those that a device may bring"
    [snooping_bridge]="all tests run behind one"
    [ignored_segmentation_is_noticed]="UDP's own offload"
    [refused_options_and_segmentation_are_done_without]="UDP's own offload"
    [segmentation_that_fails_later_loses_nothing]="UDP's own offload"
    [cables_of_any_mtu]="the MTU of a device is what it was when that was made; tests/unit/roce/open.c has all of them"
    [small_receive_buffer]="empty_receive_queue_loses_nothing is the same of a device"
    [stopped_receiver_in_full_blast_is_told_what_it_lost]="stopped_receiver_is_told_what_it_lost, with more messages"
    [slow_receiver_decides_for_all_if_asked]="the_slow_application_is_named waits for one receiver likewise"
    [slow_receiver_does_not_decide_for_the_others]="its figures are those of a socket's buffer"
    [runs_of_lost_packets_are_repaired]="a_run_of_lost_packets_is_repaired, as RDMA packets have another port and no trains"
    [receiver_at_a_tenth_of_the_rate_is_suspended]="the same by another threshold; it passes if it is named"
    [receiver_behind_by_bytes_is_suspended]="as above"
    [receiver_that_loses_a_fifth_is_suspended]="as above"
    [killed_host_of_a_list_disturbs_nobody]="killed_receiver_disturbs_nobody, of a list; it passes if it is named"
    [a_hundredth_of_ten_thousand_topics_comes_whole_under_loss]="so many topics take a while here; it passes if it is named"
    [who_joins_gets_the_last_value_of_each_topic]="the short one is the same with fewer topics"
    [full_send_buffers_double_nothing_of_a_list]="the buffer of a socket; tests/unit/roce/send.c fills the device's queue"
    [the_overflowing_buffer_is_named]="the buffer of a socket"
    [the_transport_that_takes_no_more_is_named]="the buffer of a socket"
)

# Smaller figures, for the guest.
roce_settle() {
    # Two that poll without a pause would leave nothing of the guest's processors.
    idle="--wait 1"
    fewer=10 some_losses=5
    # If all packets are full a third of them are three thousand packets, which is less than the window that there is without.
    held_messages=45000 held_window="&flow_window_packets=512"
}

# A device without a buffer drops without a word: what is missing has to be found out all the same, and all of it is kept here.
empty_receive_queue_loses_nothing() {
    stopped 29 "$blast" "flow=open&rcvbuf_bytes=64K&flow_window_packets=256&$keep" sent && complete receiver "$blast" &&
        is receiver packets_recovered ">" 0 && is receiver roce_receive_dry ">" 0 || return
    note "repaired $(number receiver packets_recovered) packets"
}

# netem ARGUMENT...: a flood while what leaves by A's interface is treated so; all of it has to come.
netem() {
    local status=0
    roce_netem "$IF_A" "$@" && flood "$messages" "$rate" "$keep" || status=$?
    roce_netem_off "$IF_A"
    return "$status"
}

packets_lost_doubled_and_reordered_on_the_cable() {
    netem loss 5% duplicate 5% delay 1ms 1ms reorder 50% && is receiver packets_recovered ">" 0 &&
        is receiver packets_duplicate ">" 0 && is receiver packets_reordered ">" 0 || return
    note "repaired $(number receiver packets_recovered), twice $(number receiver packets_duplicate), late" \
        "$(number receiver packets_reordered)"
}

# Of what arrives at either device, the sender's own among them, a run from the middle.
a_run_of_lost_packets_is_repaired() {
    need_nft && lose_run 128 1500 4791 && burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 27 10000 &&
        is receiver packets_recovered ">" 40 || return
    note "$(number receiver packets_recovered) packets repaired"
}
