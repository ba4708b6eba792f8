# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of connections.

# call_channel INTERFACE [OPTIONS]: to the host, or to a group if the transport has no hosts.
call_channel() {
    case ${transport#impair+} in
    udp | bypass | xdp) echo "$transport://$ADDRESS_B:$(port)?$(common "$1")${2:+&$2}" ;;
    *) channel "$1" "${2:-}" ;;
    esac
}

# listens [OPTIONS [ARGUMENT...]]; calls has the same arguments.
# shellcheck disable=SC2086
listens() {
    run_on "$HOST_B" listener "$programs/e2e_calls" listen "$(call_channel "$IF_B" "${1:-}")" "${@:2}" $idle
    listener=$last
    says listener listening
}

# shellcheck disable=SC2086
calls() {
    run_on "$HOST_A" caller "$programs/e2e_calls" connect "$(call_channel "$IF_A" "${1:-}")" "${@:2}" $idle
    caller=$last
}

# carried CALLS MESSAGES: figures of both sides for so many calls with so many messages each way.
carried() {
    local name
    for name in listener caller; do
        is "$name" connected == "$1" && is "$name" messages == $(($1 * $2)) && is "$name" errors == 0 || return
    done
    is listener over_1 == "$1" && is listener undelivered == 0 && is caller undelivered == 0
}

# both COUNT [OPTIONS]
both() {
    local listener caller
    listens "${2:-}" --messages "$1" && calls "${2:-}" --messages "$1" && ends "$caller" && ends "$listener" &&
        carried 1 "$1"
}

# In shared memory both sides poll without pause and wait for each other: on one processor they alternate by scheduler time slices.
e2e calls_carry_both_ways alone=shm
calls_carry_both_ways() {
    both $((some / fewer)) || return
    note "refused to send $(number caller again) and $(number listener again) times until the other had taken more"
}

e2e calls_carry_both_ways_despite_losses needs=nft \
    not=shm:"requests_get_a_reply_or_a_reason loses some"
calls_carry_both_ways_despite_losses() {
    lose 5 && both "$((some / 5))"
}

e2e calls_without_the_key_are_refused not=roce:"what a listener does is the same over each transport"
calls_without_the_key_are_refused() {
    local listener caller
    listens "" --messages 10 && calls "" --key simsalabim && ends "$caller" || return
    is caller over_12 == 1 && is caller code == 403 && is caller connected == 0 || return
    calls "" --messages 10 && ends "$caller" && ends "$listener" && carried 1 10 && is listener requests_refused == 1
}

# killed VICTIM: the other side detects it by silence, or by losses that nobody can repair.
killed() {
    local listener caller options other=listener more=$((100000000 * (fewer - 1)))
    options="silence_ns=$((200000000 + more))&session_timeout_ns=$((1000000000 + more))"
    [ "$1" = caller ] || other=caller
    listens "$options" --messages 100000000 --stop-at 1000 && calls "$options" --messages 100000000 && says listener reached &&
        kill -KILL "${!1}" && ends "${!other}" || return
    is "$other" silences ">=" 1 && is "$other" errors == 0 || return
    [ $(($(number "$other" over_2) + $(number "$other" over_15))) = 1 ] || { why="$other got no event of the end" && return 1; }
}

e2e killed_side_of_a_call_is_detected not=roce:"for time; it passes if it is named"
killed_side_of_a_call_is_detected() {
    killed caller && killed listener
}

# Sequential connections of one process, and of many; the listener has space for four at a time, and closed connections take none.
e2e endless_calls_are_served not=roce:"for time, five seconds; it passes if it is named"
endless_calls_are_served() {
    local listener caller i row=$((300 / fewer)) all=$((320 / fewer))
    listens "connections_max=4" --messages 5 --connections "$all" && calls "" --messages 5 --connections "$row" &&
        ends "$caller" || return
    is caller connected == "$row" && is caller undelivered == 0 || return
    for ((i = row; i < all; i++)); do
        calls "" --messages 5 && ends "$caller" && is caller connected == 1 || return
    done
    ends "$listener" && is listener connected == "$all" && is listener errors == 0 && is listener requests_accepted == "$all" &&
        is listener messages == $((5 * all))
}

e2e unanswered_calls_are_given_up not=roce:"what a caller does is the same over each transport"
unanswered_calls_are_given_up() {
    local caller
    calls "connect_timeout_ns=300000000" && ends "$caller" && is caller over_8 == 1 && is caller connected == 0
}

# replies [OPTIONS], asks [OPTIONS [ARGUMENT...]]: packets to either are lossy.
replies() {
    talks "$HOST_B" listener reply "$IF_B" "${1:-}" && listener=$last && says listener listening
}

asks() {
    talks "$HOST_A" caller ask "$IF_A" "${1:-}" "${@:2}" && caller=$last
}

# talks PREFIX NAME SIDE INTERFACE OPTIONS [ARGUMENT...]
# shellcheck disable=SC2086
talks() {
    local options=$5${5:+${impaired:+&}}$impaired
    run_on "$1" "$2" "$programs/e2e_requests" "$3" "$(transport=${impaired:+impair+}$transport call_channel "$4" "$options")" \
        "${@:6}" $idle
}

# Each request ends by its reply, its deadline or, once, the end of the connection.
e2e requests_get_a_reply_or_a_reason needs=loss
requests_get_a_reply_or_a_reason() {
    local listener caller impaired count=$((3000 / fewer)) kept=$((100 / fewer)) more=1024 reason
    lossy 5 && replies && asks "" --requests "$count" && ends "$caller" && ends "$listener" || return
    is caller errors == 0 && is caller replied == $((count - kept + more)) && is caller unanswered == "$kept" &&
        is caller ended == 0 && is listener errors == 0 && is listener asked == $((count + more)) &&
        is listener late == "$kept" || return
    (($(number caller recovered) + $(number listener recovered) > 0)) || { why="nothing was lost and repaired" && return 1; }
    note "$((count + more)) requests, of which $kept passed their deadlines, repaired $(number caller recovered) and" \
        "$(number listener recovered) packets"
    replies && asks "session_timeout_ns=$((1000000000 * (fewer > 1 ? 2 : 1)))" --hold $((300 / fewer)) &&
        says caller waiting && kill -KILL "$listener" && ends "$caller" || return
    reason=$(number caller reason)
    is caller errors == 0 && is caller replied == 1 && is caller ended ">=" $((300 / fewer)) &&
        is caller ended == $(($(number caller asked) - 1)) || return
    # By silence, or by losses that nobody can repair.
    [[ $reason = 2 || $reason = 15 ]] || { why="the caller got reason $reason" && return 1; }
}
