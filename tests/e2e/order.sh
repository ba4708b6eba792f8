# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of unordered delivery.

# arrives LOSS COUNT: a receiver delivers messages on arrival, and gets all of them. The sender waits for so many receivers.
arrives() {
    receive "$HOST_B" arrival "$(lossy_channel "$IF_B" order=arrival)" --any-order 1 --timing 1 && arrival=$last || return
    [ "$3" = 1 ] || { receive "$HOST_C" sequence "$(channel "$IF_B")" --timing 1 && sequence=$last; } || return
    send "$HOST_A" sender "$(channel "$IF_A" "$keep")" --messages "$2" --rate $((rate / 2)) --receivers "$3"
    sender=$last
    ends "$sender" && ends "$arrival" && complete arrival "$2" || return
    is arrival messages_unordered ">" 0 && is arrival early ">=" "$(number arrival messages_unordered)" &&
        is arrival messages_delivered == "$2" || return
    note "$1 %: $(number arrival early) of $2 messages came before others that were missing"
}

# A second receiver delivers in sequence, and gets all messages.
e2e unordered_messages_survive_loss hosts=3 \
    not=bypass:"the short one is the same with fewer messages; it passes if it is named" \
    not=shm:"the short one is the same with fewer messages and one receiver"
unordered_messages_survive_loss() {
    local loss arrival sequence sender impaired
    for loss in ${some_losses//,/ }; do
        lossy "$loss" && arrives "$loss" "$some" 2 && ends "$sequence" && complete sequence "$some" &&
            is sequence messages_unordered == 0 || return
    done
}

e2e unordered_messages_survive_loss_shortly needs=loss over=bypass,shm also=vma
unordered_messages_survive_loss_shortly() {
    local arrival sender impaired
    lossy 5 && arrives 5 $((some / 4)) 1
}

# The history is short and NAKs are late: many packets are forgotten before they are requested, at any speed of the transmitter.
# No message is both lost and delivered. The topics are announced before losses begin, as unordered delivery needs their names.
e2e unordered_delivery_reports_losses needs=nft not=roce:"for time; it passes if it is named" \
    not=bypass:"a stack has no part in it; it passes if it is named" \
    not=shm:"losses begin while messages flow, which impair+ does not do"
unordered_delivery_reports_losses() {
    local arrival sender half=$((some / 2)) late="order=arrival&nak_delay_ns=300000000"
    receive "$HOST_B" arrival "$(channel "$IF_B" "$late")" --any-order 1 --stop-at $((some / 10)) && arrival=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "history_packets=64&history_bytes=98304")" --messages $((2 * half)) --rate 100000 \
        --step "$half"
    sender=$last
    says arrival reached && says sender "sent $half" && lose 20 && goes_on "$sender" || return
    ends "$sender" || true
    ends "$arrival" || return
    accounted arrival $((2 * half)) && is arrival lost ">" 0 && is arrival messages_unordered ">" 0
}
