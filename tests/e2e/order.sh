# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of receivers that take messages as they arrive, which run.sh sources.

# shellcheck disable=SC2034
order_tests=(messages_come_as_they_arrive_in_spite_of_losses what_never_arrives_is_told_lost_in_any_order)

# One takes them as they arrive, another in sequence: both get all of them.
messages_come_as_they_arrive_in_spite_of_losses() {
    need_nft || return
    local loss arrival sequence sender
    for loss in 1 5; do
        lose "$loss" || return
        receive "$HOST_B" arrival "$(channel "$IF_B" 98 order=arrival)" --any-order 1 --timing 1 && arrival=$last || return
        receive "$HOST_B" sequence "$(channel "$IF_B" 98)" --timing 1 && sequence=$last || return
        send "$HOST_A" sender "$(channel "$IF_A" 98 "$keep")" --messages "$some" --rate 50000
        sender=$last
        ends "$sender" && ends "$arrival" && ends "$sequence" || return
        complete arrival "$some" && complete sequence "$some" || return
        is arrival messages_ahead ">" 0 && is arrival early ">=" "$(number arrival messages_ahead)" &&
            is arrival messages_delivered == "$some" && is sequence messages_ahead == 0 || return
        note "$loss %: $(number arrival early) of $some messages came before others that were missing"
    done
}

# Hardly any history: much is gone before it can be repaired, and no message is both lost and there.
what_never_arrives_is_told_lost_in_any_order() {
    need_nft || return
    local arrival sender
    lose 20 || return
    receive "$HOST_B" arrival "$(channel "$IF_B" 99 order=arrival)" --any-order 1 && arrival=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" 99 "history_packets=64&history_bytes=98304")" --messages "$some" --rate 100000
    sender=$last
    ends "$sender" || true
    ends "$arrival" || return
    accounted arrival "$some" && is arrival lost ">" 0 && is arrival messages_ahead ">" 0
}
