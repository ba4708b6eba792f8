# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Which end-to-end tests run over stand-ins for stacks, which run.sh sources with --preload.

# Those of the transports that know of none, too.
preload_tests=(flood_without_loss flood_with_loss packets_leave_one_by_one)

# Over each stack.
bypass_tests=("${preload_tests[@]}" packets_are_lent_from_the_stacks_memory warm_sends_disturb_nobody
    without_a_stack_bypass_is_refused sockets_left_to_the_kernel_are_refused "${order_tests_short[@]}" "${unreliable_tests_short[@]}"
    "${kept_tests_short[@]}" "${filter_tests_short[@]}")

# Over one of them, as a stack has no part in the rest.
bypass_all_tests=("${bypass_tests[@]}" stopped_receiver_is_told_what_it_lost killed_receiver_disturbs_nobody
    one_stream_to_a_list_of_hosts killed_transmitter_is_noticed_and_its_successor_followed receivers_interface_goes_down_and_up
    transmitters_interface_goes_down_and_up processes_of_one_host sleeping_receivers many_in_one_context short_lived_peers_leave_no_address_behind "${calls_tests[@]}"
    "${bottleneck_tests_short[@]}" three_join_late_in_spite_of_losses stopped_receiver_is_suspended
    slow_receiver_is_expelled_if_asked "${policy_tests[@]}" "${limits_tests[@]}" "${assured_tests[@]}"
    assured_messages_survive_loss calls_in_spite_of_losses "${stat_tests[@]}")

declare -A bypass_not=(
    [lost_packets_are_repaired_soon]="it measures how soon, of which a stand-in says nothing"
    [ipv6]="the contract suite has it over this stack; it passes if it is named"
    [unicast_over_ipv6]="as above"
    [network_and_own_host_at_once]="what shares memory has no stack; it passes if it is named"
    [many_join_late]="three_join_late_in_spite_of_losses; it passes if it is named"
    [many_join_late_over_network_and_memory]="as above"
    [many_join_late_in_spite_of_losses]="as above"
    [bad_input]="UDP's interfaces and options; tests/bypass/sockets.c has those of stacks"
    [clamped_buffer]="the kernel's buffer of a socket"
    [hostile_packets]="a stack has no part in it; it passes if it is named"
    [snooping_bridge]="as above"
    [ignored_segmentation_is_noticed]="UDP's own offload"
    [refused_options_and_segmentation_are_done_without]="UDP's own offload"
    [segmentation_that_fails_later_loses_nothing]="UDP's own offload"
    [cables_of_any_mtu]="it is about trains; packets_leave_one_by_one"
    [stopped_receiver_holds_the_window]="a stack has no part in it; it passes if it is named"
    [small_receive_buffer]="the kernel's buffer of a socket"
    [stopped_receiver_in_full_blast_is_told_what_it_lost]="stopped_receiver_is_told_what_it_lost, with more messages"
    [slow_receiver_decides_for_all_if_asked]="a stack has no part in it; it passes if it is named"
    [slow_receiver_does_not_decide_for_the_others]="as above"
    [runs_of_lost_packets_are_repaired]="as above"
    [receiver_at_a_tenth_of_the_rate_is_suspended]="the same by another threshold; it passes if it is named"
    [receiver_behind_by_bytes_is_suspended]="as above"
    [receiver_that_loses_a_fifth_is_suspended]="as above"
    [killed_host_of_a_list_disturbs_nobody]="killed_receiver_disturbs_nobody, of a list; it passes if it is named"
    [full_send_buffers_double_nothing_of_a_list]="the kernel's buffer of a socket"
    [a_hundredth_of_ten_thousand_topics_comes_whole_under_loss]="the short ones are the same with fewer topics; it passes if it is named"
    [labels_bitmaps_and_selectors_choose_under_loss]="the short ones are the same with one receiver; it passes if it is named"
    [messages_come_as_they_arrive_in_spite_of_losses]="the short one is the same with fewer messages; it passes if it is named"
    [what_never_arrives_is_told_lost_in_any_order]="a stack has no part in it; it passes if it is named"
    [unreliable_topics_lose_beside_a_reliable_one]="the short one is the same with fewer messages; it passes if it is named"
    [what_is_unreliable_is_never_repaired]="a stack has no part in it; it passes if it is named"
    [who_joins_gets_the_last_value_of_each_topic]="the short one is the same with fewer topics; it passes if it is named"
    [who_joins_gets_the_last_of_each_topic_in_spite_of_losses]="as above"
    [the_slow_application_is_named]="the short one is the same with fewer messages; it passes if it is named"
    [the_rate_limit_is_kept_and_named]="as above"
    [the_overflowing_buffer_is_named]="the kernel's buffer of a socket"
    [the_transport_that_takes_no_more_is_named]="the kernel's buffer of a socket"
    [the_lossy_network_is_named]="a stack has no part in it; it passes if it is named"
)
