# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of channels with keys.

# keys_make NAME: makes a key file for every channel, if the build has llm-key.
keys_make() {
    [ -x "$build/tools/llm-key" ] || { why="the build has no keys: libssl-dev is not installed" && return 77; }
    rm -f "$work/$1.keys"
    "$build/tools/llm-key" new "$work/$1.keys" >/dev/null || { why="llm-key new failed" && return 1; }
}

# keys_quiet NAME...: the guard of a program dropped nothing as forged, in clear, or of other keys.
keys_quiet() {
    local name
    for name in "$@"; do
        is "$name" packets_forged == 0 && is "$name" packets_in_clear == 0 && is "$name" packets_other_keys == 0 || return
    done
}

# keys_run COMMAND...: runs a test of another file with keys on all of its channels.
keys_run() {
    local keyed=$work/group.keys
    keys_make group && "$@"
}

# Over each transport, and over test stacks that are preloaded.
e2e messages_arrive_with_keys also=vma
messages_arrive_with_keys() {
    local mode
    for mode in encrypt authenticate; do
        keys_run flood $((messages / 12)) "$rate" "$keep&keys_mode=$mode" && keys_quiet receiver sender || return
    done
}

e2e calls_carry_both_ways_with_keys over=udp,xdp
calls_carry_both_ways_with_keys() {
    keys_run both $((some / 8)) && keys_quiet caller listener
}

e2e one_stream_to_a_list_of_hosts_with_keys hosts=3 over=udp
one_stream_to_a_list_of_hosts_with_keys() {
    keys_run keys_of_a_list
}

keys_of_a_list() {
    local first second own list sender name
    listeners "$keep" && send "$HOST_A" sender "$list" --messages 2000 --rate "$rate" --receivers 3 && sender=$last || return
    ends "$sender" && ends "$first" && ends "$second" && ends "$own" || return
    for name in first second own; do
        complete "$name" 2000 && keys_quiet "$name" || return
    done
}

e2e late_receiver_gets_the_history_with_keys over=udp
late_receiver_gets_the_history_with_keys() {
    local some=$((some / 2))
    keys_run late_receiver_gets_the_history && keys_quiet sender receiver
}

e2e late_receiver_gets_the_last_value_of_each_topic_with_keys over=udp
late_receiver_gets_the_last_value_of_each_topic_with_keys() {
    keys_run kept 500 1 receiver
}

e2e a_killed_store_loses_nothing_with_keys over=udp
a_killed_store_loses_nothing_with_keys() {
    local impaired=''
    keys_run store_survives 3 --level written
}

e2e a_joiner_gets_what_only_the_store_has_with_keys needs=loss hosts=3 over=udp
a_joiner_gets_what_only_the_store_has_with_keys() {
    keys_run joined $((some / 4)) && keys_quiet sender receiver store
}

e2e losses_are_repaired_with_keys needs=nft over=udp
losses_are_repaired_with_keys() {
    keys_make group && lose 2 && flood "$messages" "$rate" "$keep&keys=$work/group.keys" || return
    is receiver packets_recovered ">" 0 && keys_quiet receiver sender
}

# Three receivers of one stream: with its key, with another key of the same epoch, and without.
e2e only_members_with_the_key_get_messages needs=namespaces hosts=3 over=udp
only_members_with_the_key_get_messages() {
    local member sender
    keys_make group && keys_make other || return
    receive "$HOST_B" other "$(channel "$IF_B" "keys=$work/other.keys")" && receive "$HOST_C" keyless "$(channel "$IF_B")" || return
    receive "$HOST_C" member "$(channel "$IF_B" "keys=$work/group.keys")" && member=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$keep&keys=$work/group.keys")" --messages 2000 --rate 10000 --after-ms 100
    sender=$last
    ends "$sender" && ends "$member" && complete member 2000 && keys_quiet member sender || return
    kill -TERM "${pid_of[other]}" "${pid_of[keyless]}"
    ends "${pid_of[other]}" || true
    ends "${pid_of[keyless]}" || true
    is other messages == 0 && is other packets_forged ">" 0 && is keyless messages == 0 && is keyless packets_other_keys ">" 0
}

# The second epoch begins while the stream is sent: whoever has only one of them would lose a part.
e2e an_epoch_changes_at_full_rate_under_loss needs=nft over=udp
an_epoch_changes_at_full_rate_under_loss() {
    local epoch from now
    keys_make group || return
    now=$(date -u +%s)
    from=$(date -u -d "@$((now + 2))" +%Y-%m-%dT%H:%M:%SZ)
    epoch=$(sed -n 's/^\([0-9][0-9]*\) .*/\1/p' "$work/group.keys")
    printf '%s %s 2999-01-01 chacha20-poly1305 %s *\n' "$((epoch + 1))" "$from" "$(head -c 32 /dev/urandom | base64)" >>"$work/group.keys"
    lose 1 && flood "$messages" "$rate" "$keep&keys=$work/group.keys" || return
    is receiver packets_recovered ">" 0 && keys_quiet receiver sender
}
