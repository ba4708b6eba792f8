# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of rate limits of repairs, of the age limit of the history, and of a changing rate limit.

# Repairs of a fifth of all packets take at least the time that the limit implies, on any machine; a tenth is allowed for shorter
# packets. Shared memory buffers each packet in room for its longest.
e2e repairs_stay_within_their_limit_and_all_arrive needs=loss not=roce:"for time; it passes if it is named"
repairs_stay_within_their_limit_and_all_arrive() {
    local receiver sender impaired begin took bytes count=$((4500 / (1 + fewer / 5))) limit=$(((256 << 10) / (1 + fewer / 5)))
    lossy $((fewer > 1 ? 10 : 20)) && receive "$HOST_B" receiver "$(lossy_channel "$IF_B" "nak_giveup_ns=60000000000&reorder_bytes=256M")" --wait 1 \
        --stop-at "$count" && receiver=$last || return
    begin=$(date +%s%N)
    send "$HOST_A" sender "$(channel "$IF_A" "mtu=1500&repair_rate_bytes_per_s=$limit&slow=off&$keep")" --messages $((count + 1)) \
        --rate $unpaced --step "$count" --after-ms 0
    sender=$last
    says receiver "reached $count" || return
    took=$((($(date +%s%N) - begin) / 1000000))
    lose_nothing
    goes_on "$sender" && ends "$sender" && ends "$receiver" && complete receiver $((count + 1)) || return
    bytes=$(($(number receiver packets_recovered) * $(number receiver bytes_received) / $(number receiver packets_received)))
    ((took >= (bytes - 16384) * 900 / limit)) || { why="$bytes bytes were repaired in $took ms" && return 1; }
    is receiver packets_recovered ">" 20 || return
    # A machine that is twice as slow by itself never reaches the limit.
    ((took >= bytes * 2000 / limit)) || is sender repairs_delayed ">" 0 || return
    note "$bytes bytes of repairs in $took ms"
}

# joins_old NAME ELSE: after half of the messages a receiver joins and requests all of them.
joins_old() {
    receive "$HOST_B" "$1" "$(channel "$IF_B" "join=messages&join_messages=$half&join_else=$2")" --wait 1
}

# The history of the transmitter is shorter than its pause: a join in it is refused, or begins with the oldest retained message.
e2e messages_older_than_history_ns_are_refused_or_left_out \
    not=roce:"for time, three seconds; it passes if it is named"
messages_older_than_history_ns_are_refused_or_left_out() {
    local refused older sender half=$((5000 / fewer)) count
    count=$((2 * half))
    send "$HOST_A" sender "$(channel "$IF_A" "history_ns=200000000&$keep")" --messages "$count" --rate "$rate" \
        --step "$half" --receivers 0 --after-ms 0
    sender=$last
    says sender "sent $half" || return
    sleep 1.1 # in its first second a session is followed from its start
    joins_old refused refuse && refused=$last && says refused "event: join refused beyond the history" && kill -INT "$refused" &&
        ends "$refused" || return
    joins_old older oldest && older=$last && says older "event: join refused beyond the history" && says older "event: session new" &&
        goes_on "$sender" && ends "$sender" && ends "$older" || return
    is refused messages == 0 && is refused sessions_new == 0 && is older errors == 0 && is older gaps == 0 &&
        is older messages ">=" "$half" && is older messages "<" "$count" && is sender joins_refused ">=" 2
}

# Sends are refused only while a limit is set, and the limit holds.
e2e rates_change_while_messages_flow \
    not=roce:"for time, three seconds, and the_rate_limit_holds_and_is_named is run; it passes if it is named"
rates_change_while_messages_flow() {
    local receiver sender third=6000
    receive "$HOST_B" receiver "$(channel "$IF_B")" --wait 1 && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "mtu=1500&$keep")" --messages $((3 * third)) --rate $unpaced --limit 2097152 \
        --limit-from "$third" --limit-to $((2 * third))
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver $((3 * third)) || return
    is sender rated_before == 0 && is sender rated_within ">" 0 && is sender send_blocked_rate == "$(number sender rated_within)" &&
        is sender limited_bytes_per_s ">" 0 &&
        is sender limited_bytes_per_s "<=" 2097152 || return
    note "$(number sender limited_bytes_per_s) bytes a second"
}
