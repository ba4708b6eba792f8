# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of acknowledged messages.

# assure PREFIX NAME CHANNEL [OPTION...]: starts a receiver.
assure() {
    run_on "$1" "$2" "$programs/e2e_assured" receive "${@:3}"
    says "$2" listening
}

assured_send() {
    run_on "$HOST_A" sender "$programs/e2e_assured" send "$@"
}

# No message is missing, and none was acknowledged too early.
is_assured() {
    is sender acknowledged == "$1" && is sender errors == 0 && is sender messages_unacknowledged == 0
}

e2e assured_window_stops_with_a_killed_receiver_and_moves_with_another hosts=4 not=roce:"for time; it passes if it is named"
assured_window_stops_with_a_killed_receiver_and_moves_with_another() {
    local killed steady other sender count=$((20000 / fewer)) some=$((5000 / fewer))
    assure "$HOST_B" killed "$(channel "$IF_B")" --stop-at "$some" && killed=$last || return
    assure "$HOST_C" steady "$(channel "$IF_B")" && steady=$last || return
    assured_send "$(channel "$IF_A")" --receivers 2 --messages "$count"
    sender=$last
    says killed "reached $some" && kill -KILL "$killed" && says sender "waits: too few receivers" || return
    # A receiver that joins in the first second of a session starts at its beginning; silence then suspends the killed receiver sooner.
    sleep 1.1
    assure "$HOST_D" other "$(channel "$IF_B")" && other=$last || return
    ends "$sender" && ends "$steady" && ends "$other" || return
    # The other receiver started with unacknowledged messages, so it can acknowledge all.
    is_assured "$count" && is sender refused ">" 0 && is steady next == "$count" && is steady errors == 0 &&
        is other errors == 0 && is other first ">" 0 && is other first "<" "$count" && is other next == "$count" || return
    note "the other one began with message $(number other first)"
}

e2e assured_window_waits_for_a_named_receiver hosts=5 not=roce:"what the transmitter does is the same over each transport"
assured_window_waits_for_a_named_receiver() {
    local steady named sender count=$((10000 / fewer)) some=$((1000 / fewer))
    assure "$HOST_B" steady "$(channel "$IF_B")" && steady=$last || return
    assured_send "$(channel "$IF_A")" --receivers 0 --names book,ledger --messages "$count"
    sender=$last
    says sender "waits: a receiver is absent book from 0" || return
    assure "$HOST_C" ledger "$(channel "$IF_B" receiver_name=ledger)" || return
    assure "$HOST_D" before "$(channel "$IF_B" receiver_name=book)" --stop-at "$some" && named=$last &&
        says before "reached $some" && kill -KILL "$named" || return
    assure "$HOST_E" named "$(channel "$IF_B" receiver_name=book)" && named=$last || return
    ends "$sender" && ends "$steady" && ends "$named" || return
    is_assured "$count" && is named errors == 0 && is named next == "$count" && is steady next == "$count"
}

# Two receivers of one name count as one.
e2e assured_window_waits_for_two_names_of_a_pattern hosts=5 not=roce:"what the transmitter does is the same over each transport"
assured_window_waits_for_two_names_of_a_pattern() {
    local first killed second sender count=$((10000 / fewer)) some=$((1000 / fewer))
    assure "$HOST_B" first "$(channel "$IF_B" receiver_name=store-1)" && first=$last || return
    assure "$HOST_C" same "$(channel "$IF_B" receiver_name=store-1)" || return
    assured_send "$(channel "$IF_A")" --receivers 0 --names "store-*:2" --messages "$count"
    sender=$last
    says sender "waits: too few receivers store-*" || return
    assure "$HOST_D" before "$(channel "$IF_B" receiver_name=store-2)" --stop-at "$some" && killed=$last &&
        says before "reached $some" && kill -KILL "$killed" || return
    assure "$HOST_E" second "$(channel "$IF_B" receiver_name=store-3)" && second=$last || return
    ends "$sender" && ends "$first" && ends "$second" || return
    is_assured "$count" && is first errors == 0 && is first next == "$count" && is second errors == 0 &&
        is second next == "$count"
}

e2e missing_receivers_are_waited_for_and_reported not=roce:"for time; it passes if it is named"
missing_receivers_are_waited_for_and_reported() {
    local receiver sender count=$((5000 / fewer))
    assure "$HOST_B" receiver "$(channel "$IF_B")" && receiver=$last || return
    assured_send "$(channel "$IF_A")" --receivers 3 --messages "$count" --max 1 --then-receivers 1
    sender=$last
    ends "$sender" && ends "$receiver" || return
    grep -q "waits: too few receivers  from 0" "$work/sender.err" || { why=$(cat "$work/sender.err") && return 1; }
    is_assured "$count" && is sender waits ">" 0 && is receiver next == "$count" && is receiver errors == 0
}

# The transmitter waits for an application that acknowledges late.
e2e applications_acknowledge_messages
applications_acknowledge_messages() {
    local receiver sender
    assure "$HOST_B" receiver "$(channel "$IF_B" acknowledge=application)" --hold-at 2000 && receiver=$last || return
    assured_send "$(channel "$IF_A")" --messages 5000
    sender=$last
    says sender "waits: no answer yet" && kill -USR1 "$receiver" || return
    ends "$sender" && ends "$receiver" && is_assured 5000 && is receiver errors == 0
}

# The receiver keeps sending reports. While suspended it does not count; its acknowledgements count once it is readmitted.
e2e a_receiver_is_suspended_until_it_acknowledges hosts=3 not=roce:"what the transmitter does is the same over each transport"
a_receiver_is_suspended_until_it_acknowledges() {
    local debtor steady sender count=$((5000 / fewer))
    assure "$HOST_B" debtor "$(channel "$IF_B" acknowledge=application)" --hold-at $((count / 2)) && debtor=$last || return
    assure "$HOST_C" steady "$(channel "$IF_B")" && steady=$last || return
    assured_send "$(channel "$IF_A" "slow_ack_ns=300000000&slow_recover_ns=100000000")" --receivers 2 --messages "$count"
    sender=$last
    says debtor "event: suspended" && says sender "waits: too few receivers" && kill -USR1 "$debtor" || return
    ends "$sender" && ends "$debtor" && ends "$steady" || return
    is_assured "$count" && is sender receivers_suspended ">" 0 && is sender receivers_readmitted ">" 0 &&
        is debtor next == "$count" && is debtor errors == 0 && is steady next == "$count" && is steady errors == 0
}

e2e assured_messages_survive_loss needs=nft hosts=3 \
    not=shm:"memory loses nothing by itself; flood_with_faults"
assured_messages_survive_loss() {
    local one two sender count=$((20000 / fewer))
    assure "$HOST_B" one "$(channel "$IF_B")" && one=$last || return
    assure "$HOST_C" two "$(channel "$IF_B")" && two=$last || return
    lose 5 || return
    assured_send "$(channel "$IF_A")" --receivers 2 --messages "$count"
    sender=$last
    ends "$sender" && ends "$one" && ends "$two" || return
    is_assured "$count" && is one next == "$count" && is one errors == 0 && is two next == "$count" && is two errors == 0 &&
        is one packets_recovered ">" 0
}
