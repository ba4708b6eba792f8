# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of shared memory, which run.sh sources with --transport shm.

# A packet has up to 64 KiB here, and so far more messages than one of a network.
# shellcheck disable=SC2034
paces_window=32

# Those whose faults memory has: receivers that are slow, stop or die, transmitters that die.
# shellcheck disable=SC2034
shm_tests=(flood_without_loss flood_with_faults stopped_receiver_is_told_what_it_lost killed_receiver_disturbs_nobody
    killed_transmitter_is_noticed_and_its_successor_followed processes_of_one_host sleeping_receivers many_in_one_context short_lived_peers_leave_no_address_behind
    many_join_late three_join_late_in_spite_of_losses stopped_receiver_holds_the_window stopped_receiver_in_full_blast_is_told_what_it_lost
    slow_receiver_decides_for_all_if_asked "${slow_tests[@]}" slow_receiver_is_reported_and_served
    "${assured_tests[@]}" "${calls_tests[@]}"
    "${order_tests_short[@]}" "${unreliable_tests_short[@]}" "${kept_tests_short[@]}" "${limits_tests[@]}"
    "${filter_tests_short[@]}" "${bottleneck_tests_short[@]}" "${stat_tests[@]}" memory_is_given_back
    channels_are_listed_and_what_the_dead_left_is_removed)

declare -A shm_not=(
    [flood_with_loss]="memory loses nothing by itself; flood_with_faults"
    [lost_packets_are_repaired_soon]="as above"
    [runs_of_lost_packets_are_repaired]="as above"
    [receivers_interface_goes_down_and_up]="memory has no interface"
    [transmitters_interface_goes_down_and_up]="as above"
    [ipv6]="groups are names"
    [unicast_over_ipv6]="as above"
    [one_stream_to_a_list_of_hosts]="memory reaches no hosts"
    [killed_host_of_a_list_disturbs_nobody]="as above"
    [full_send_buffers_double_nothing_of_a_list]="as above"
    [snooping_bridge]="as above"
    [network_and_own_host_at_once]="run over udp, which it is about as well"
    [many_join_late_over_network_and_memory]="as above"
    [many_join_late_in_spite_of_losses]="three_join_late_in_spite_of_losses"
    [bad_input]="UDP's interfaces and options; tests/shm has those of memory"
    [clamped_buffer]="the buffer of a socket"
    [hostile_packets]="its packets are UDP's; tests/shm has those who write what is wrong"
    [ignored_segmentation_is_noticed]="UDP's own offload"
    [refused_options_and_segmentation_are_done_without]="UDP's own offload"
    [segmentation_that_fails_later_loses_nothing]="UDP's own offload"
    [cables_of_any_mtu]="memory has no cable"
    [small_receive_buffer]="the buffer of a socket"
    [slow_receiver_does_not_decide_for_the_others]="its figures are those of a socket's buffer"
    [receiver_behind_by_bytes_is_suspended]="its figures are those of a socket's buffer"
    [assured_messages_survive_loss]="memory loses nothing by itself; flood_with_faults"
    [calls_in_spite_of_losses]="requests_are_replied_to_or_told_why_not loses some"
    [a_hundredth_of_ten_thousand_topics_comes_whole_under_loss]="the short ones are the same with fewer topics and one receiver"
    [labels_bitmaps_and_selectors_choose_under_loss]="as above"
    [messages_come_as_they_arrive_in_spite_of_losses]="the short one is the same with fewer messages and one receiver"
    [what_never_arrives_is_told_lost_in_any_order]="losses begin while messages flow, which impair+ does not do"
    [unreliable_topics_lose_beside_a_reliable_one]="the short one is the same with fewer messages"
    [what_is_unreliable_is_never_repaired]="as above"
    [who_joins_gets_the_last_value_of_each_topic]="the short one is the same with fewer topics"
    [who_joins_gets_the_last_of_each_topic_in_spite_of_losses]="as above"
    [the_slow_application_is_named]="the short one is the same with fewer messages"
    [the_rate_limit_is_kept_and_named]="as above"
    [the_overflowing_buffer_is_named]="the buffer of a socket"
    [the_transport_that_takes_no_more_is_named]="as above"
    [the_lossy_network_is_named]="memory loses nothing by itself"
)
# Both sides poll without a pause and wait for each other: without a processor each they take turns by the scheduler's slices.
alone_tests=(calls_carry_both_ways)
each_lane_tests=(memory_is_given_back channels_are_listed_and_what_the_dead_left_is_removed)

# What impairs is on the receiver's side.
flood_with_faults() {
    transport=impair+shm
    flood "$messages" "$rate" "$keep&impair_loss_ppm=50000&impair_burst_packets=5&impair_duplicate_ppm=20000&impair_reorder_ppm=20000" ||
        { transport=shm && return 1; }
    transport=shm
    is receiver packets_recovered ">" 0 && is receiver packets_duplicate ">" 0 || return
    note "repaired $(number receiver packets_recovered), twice $(number receiver packets_duplicate)"
}

# Whatever was killed before.
memory_is_given_back() {
    flood "$some" "$rate" "$keep" || return
    [ -z "$(ls -A "$memory")" ] || { why="still there: $(find "$memory" -mindepth 1 | head -n 5)" && return 1; }
}

# lists FIELD...: the one line that llm-shm prints below its heading begins with the name of the channel and these fields.
lists() {
    local line
    line=$("$build/tools/llm-shm" "$memory" | sed -n 2p) && [[ $(tr -s ' ' <<<"$line") == "239.192.3.90:5003 $* "* ]] && return 0
    why="llm-shm says: $line"
    return 1
}

# refuses STATUS TEXT ARGUMENT...
refuses() {
    local status=0
    "$build/tools/llm-shm" "${@:3}" >"$work/tool.out" 2>"$work/tool.err" || status=$?
    [ "$status" = "$1" ] && grep -q -- "$2" "$work/tool.err" || { why="llm-shm ${*:3} ended with $status: $(cat "$work/tool.err")" && return 1; }
}

# What somebody else's process left, in a directory that this one may look into or not.
another_user_cannot_clean() {
    local mode status other="setpriv --reuid 65534 --regid 65534 --clear-groups --"
    $other test -x "$build/tools/llm-shm" -a -x "$memory/llm" 2>/dev/null || return 0 # only root can be somebody else
    for mode in 700 755; do
        status=0
        chmod "$mode" "$memory"/llm/[0-9]*/
        chmod "$((mode - (mode == 755 ? 111 : 100)))" "$memory"/llm/*/*.data
        $other "$build/tools/llm-shm" --clean "$memory" >"$work/tool.out" 2>"$work/tool.err" || status=$?
        [ "$status" = 1 ] && ! grep -q "$1" "$work/tool.out" && grep -q "another user's.* or as root" "$work/tool.err" ||
            { why="mode $mode: $status: $(cat "$work/tool.out" "$work/tool.err")" && return 1; }
    done
    grep -q dead "$work/tool.out" || { why="not listed: $(cat "$work/tool.out")" && return 1; }
}

channels_are_listed_and_what_the_dead_left_is_removed() {
    local receiver sender user nothing="no channels in shared memory"
    user=$(id -un)
    [ "$("$build/tools/llm-shm" "$memory")" = "$nothing" ] || { why="there is something before there is" && return 1; }
    send "$HOST_A" sender "$(channel "" 90 shm_mode=0640)" --messages 20 --step 10 --receivers 0
    sender=$last
    says sender "sent 10" && lists "$sender" "$user" 0640 0 || return
    receive "$HOST_B" receiver "$(channel "" 90)" && receiver=$last && lists "$sender" "$user" 0640 1 || return
    # The living stay.
    "$build/tools/llm-shm" --clean "$memory" >/dev/null && lists "$sender" "$user" 0640 1 || return
    kill -KILL "$receiver" "$sender"
    ends "$receiver" || ends "$sender" || true
    lists dead "$user" 0640 1 || return
    another_user_cannot_clean "$nothing" || return
    [ "$("$build/tools/llm-shm" --clean "$memory")" = "$nothing" ] && [ -z "$(find "$memory" -mindepth 1)" ] ||
        { why="left behind: $(find "$memory" -mindepth 1 | head -n 3)" && return 1; }
    refuses 2 "--sweep: no such option; try" --sweep && refuses 1 "/nowhere: No such file" /nowhere &&
        refuses 1 "name too long" "/$(printf './%.0s' {1..200})"
}
