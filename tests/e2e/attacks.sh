# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of attacks: each has its effect in clear, and none on a channel with keys. attack.py describes them.

# attacks ATTACK HOST INTERFACE ADDRESS SECONDS: starts one at the host of a member.
attacks() {
    run_on "$2" attack python3 "$here/attack.py" "$1" "${@:3}"
    says attack listening
}

# attacked: ends the attack, which was none if it sent nothing.
attacked() {
    ends "${pid_of[attack]}" || { why="attack.py: $(tail -n 1 "$work/attack.err")" && return 1; }
    is attack packets ">" 0
}

# ended NAME: ends a receiver that stays for further sessions.
ended() {
    kill -TERM "${pid_of[$1]}"
    ends "${pid_of[$1]}"
}

# attack_stream ATTACK [OPTIONS]: attacks a stream of half a second, in the transmitter's name.
attack_stream() {
    receive "$HOST_B" receiver "$(channel "$IF_B" "${2:-}")" --sessions 60 && attacks "$1" "$HOST_A" "$IF_A" "$ADDRESS_A" 0.8 || return
    send "$HOST_A" sender "$(channel "$IF_A" "${2:+$2&}linger_ns=100000000")" --messages 500 --rate 1000
    ends "$last" && attacked || return
    ended receiver || true
}

# unharmed [NAME...]: with keys the stream is whole, and what was forged or repeated was counted.
unharmed() {
    complete receiver 500 && is receiver sessions_new == 1 && is receiver sessions_ended == 1 && is receiver expelled == 0 || return
    [ $(($(number receiver packets_forged) + $(number receiver packets_repeated))) -gt 0 ] || { why="no packet was forged" && return 1; }
}

e2e a_forged_heartbeat_ends_a_session_in_clear_only needs=namespaces,root over=udp
a_forged_heartbeat_ends_a_session_in_clear_only() {
    attack_stream heartbeat && is receiver sessions_new ">" 1 || return
    keys_make attack && attack_stream heartbeat "keys=$work/attack.keys" && unharmed
}

e2e a_forged_notice_expels_a_receiver_in_clear_only needs=namespaces,root over=udp
a_forged_notice_expels_a_receiver_in_clear_only() {
    attack_stream notice && is receiver expelled ">" 0 || return
    keys_make attack && attack_stream notice "keys=$work/attack.keys" && unharmed
}

e2e repeated_packets_have_no_effect_with_keys needs=namespaces,root over=udp
repeated_packets_have_no_effect_with_keys() {
    keys_make attack && attack_stream again "keys=$work/attack.keys" && unharmed && is receiver packets_repeated ">" 0
}

# attack_assured [OPTIONS]: the receiver is stopped, so that only the attacker can acknowledge. Sets sender.
attack_assured() {
    assure "$HOST_B" receiver "$(channel "$IF_B" "${1:-}")" --stop-at 500 &&
        attacks status "$HOST_B" "$IF_B" "$ADDRESS_B" 2 || return
    assured_send "$(channel "$IF_A" "${1:-}")" --receivers 1 --messages 2000
    sender=$last
    says receiver "reached 500" && attacked
}

e2e a_forged_report_acknowledges_in_clear_only needs=namespaces,root over=udp
a_forged_report_acknowledges_in_clear_only() {
    local sender
    attack_assured && ends "$sender" && is sender acknowledged == 2000 || return
    kill -KILL "${pid_of[receiver]}"
    keys_make attack && attack_assured "keys=$work/attack.keys" || return
    kill -0 "$sender" || { why="the sender has its acknowledgements" && return 1; }
}

# attack_amplify [OPTIONS]: requests everything for a receiver that is not.
attack_amplify() {
    attacks amplify "$HOST_B" "$IF_B" "$ADDRESS_B" 0.7 || return
    send "$HOST_A" sender "$(channel "$IF_A" "${1:-}")" --messages 1000 --rate 1000
    ends "$last" && attacked
}

e2e answers_to_strangers_are_short_in_clear_and_none_with_keys needs=namespaces,root over=udp
answers_to_strangers_are_short_in_clear_and_none_with_keys() {
    local receiver
    receive "$HOST_B" receiver "$(channel "$IF_B")" && receiver=$last && attack_amplify && ends "$receiver" || return
    is attack answered ">" 0 && is attack answered "<" $((3 * $(number attack bytes))) || return
    note "$(number attack answered) bytes answered $(number attack bytes) in clear"
    keys_make attack && receive "$HOST_B" receiver "$(channel "$IF_B" "keys=$work/attack.keys")" && receiver=$last &&
        attack_amplify "keys=$work/attack.keys" && ends "$receiver" && complete receiver 1000 && is attack answered == 0
}

# attack_call [OPTIONS]: attacks a connection for which both sides have 20,000 messages.
attack_call() {
    local listener caller options="session_timeout_ns=1000000000${1:+&$1}"
    attacks close "$HOST_A" "$IF_A" "$ADDRESS_A" 1 && listens "$options" --messages 20000 && calls "$options" --messages 20000 &&
        attacked && ends "$caller" && ends "$listener"
}

e2e a_forged_close_ends_a_connection_in_clear_only needs=namespaces,root over=udp
a_forged_close_ends_a_connection_in_clear_only() {
    attack_call || return
    ! carried 1 20000 || { why="the forged CLOSE had no effect in clear" && return 1; }
    keys_make attack && attack_call "keys=$work/attack.keys" && carried 1 20000
}

# stranger_sends [OPTIONS [OPTIONS]]: a second transmitter sends to the group, with the key of another channel.
stranger_sends() {
    local sender stranger
    receive "$HOST_B" receiver "$(channel "$IF_B" "${1:-}")" --sessions 60 || return
    send "$HOST_A" stranger "$(channel "$IF_A" "${2:+$2&}linger_ns=100000000")" --messages 500 --rate 5000 --receivers 0
    stranger=$last
    send "$HOST_A" sender "$(channel "$IF_A" "${1:-}")" --messages 500 --rate 1000
    sender=$last
    ends "$stranger" && ends "$sender" || return
    ended receiver || true
}

e2e the_key_of_another_channel_opens_nothing needs=namespaces over=udp
the_key_of_another_channel_opens_nothing() {
    stranger_sends && is receiver sessions_new == 2 && is receiver messages ">" 500 || return
    keys_make attack && keys_make other && stranger_sends "keys=$work/attack.keys" "keys=$work/other.keys" || return
    complete receiver 500 && is receiver sessions_new == 1 && is receiver packets_forged ">" 0
}

# attack_elsewhere [OPTIONS OPTIONS]: repeats what is sent to one group in another, to whose receiver nobody sends.
attack_elsewhere() {
    receive "$HOST_B" other "$(channel "$IF_B" "${2:-}" 2)" --sessions 60 && receive "$HOST_B" receiver "$(channel "$IF_B" "${1:-}")" &&
        attacks elsewhere "$HOST_A" "$IF_A" "$ADDRESS_A" 0.8 "$(group 2)" || return
    send "$HOST_A" sender "$(channel "$IF_A" "${1:+$1&}linger_ns=100000000")" --messages 500 --rate 1000
    ends "$last" && ends "${pid_of[receiver]}" && attacked || return
    ended other || true
}

e2e packets_of_another_channel_are_not_delivered_if_each_has_a_key needs=namespaces,root over=udp
packets_of_another_channel_are_not_delivered_if_each_has_a_key() {
    attack_elsewhere && is other messages ">" 0 || return
    keys_make attack && keys_make other && attack_elsewhere "keys=$work/attack.keys" "keys=$work/other.keys" || return
    complete receiver 500 && is other messages == 0 && is other packets_forged ">" 0
}
