# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of the slow-receiver policy.

# slow_and_steady PREFIX INTERFACE MESSAGES OPTIONS: adds, to the running slow receiver, a reference receiver there and a sender of so many
# messages with these options. Sets steady and sender.
slow_and_steady() {
    receive "$1" steady "$(channel "$2")" --wait 1 && steady=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$keep&$4")" --messages "$3" --rate "$rate" --receivers 2
    sender=$last
}

# Expected figures of the sender, the reference receiver and the slow receiver at the end.
slow_is_suspended() {
    complete steady "$1" && accounted slow "$1" && is sender receivers_suspended ">" 0 && is slow suspended ">" 0 || return
    note "suspended $(number sender receivers_suspended) times; NAKs of it not answered: $(number sender naks_ignored);" \
        "it lost $(number slow lost) of $1"
}

# Silence alone suspends the receiver: losses of a small buffer on a busy machine cause NAKs. The limit is longer than a busy
# machine leaves the other receiver without a processor.
e2e stopped_receiver_is_suspended hosts=3 not=roce:"what the transmitter does is the same over each transport"
stopped_receiver_is_suspended() {
    local slow steady sender count=$((4 * rate))
    receive "$HOST_B" slow "$(channel "$IF_B" "rcvbuf_bytes=256K")" --wait 1 --stop-at $((rate / 2)) && slow=$last || return
    slow_and_steady "$HOST_C" "$IF_B" "$count" \
        "slow_nak_ppm=1000000000&slow_naks_per_s=1000000000&slow_silence_ns=600000000" || return
    says slow reached && kill -STOP "$slow" && says sender " suspended: " && kill -CONT "$slow" || return
    ends "$sender" && ends "$steady" && ends "$slow" || return
    complete steady "$count" && is sender receivers_suspended ">" 0 && is sender receivers_readmitted ">" 0 && complete slow "$count"
}

# The receiver rests for ten milliseconds after the messages of one millisecond.
e2e receiver_at_a_tenth_of_the_rate_is_suspended hosts=3 \
    not=bypass,roce:"the same by another threshold; it passes if it is named"
receiver_at_a_tenth_of_the_rate_is_suspended() {
    local slow steady sender
    receive "$HOST_B" slow "$(channel "$IF_B" "rcvbuf_bytes=256K&window_packets=512")" --wait 1 --pause-us $((1000000000 / rate)) && slow=$last || return
    slow_and_steady "$HOST_C" "$IF_B" $((rate / 2)) "slow_lag_ns=200000000" || return
    ends "$sender" && ends "$steady" && ends "$slow" && slow_is_suspended $((rate / 2))
}

# The same for lag in bytes. Without losses the receiver needs ten seconds to read all messages.
e2e receiver_lagging_by_bytes_is_suspended hosts=3 \
    not=bypass,roce:"the same by another threshold; it passes if it is named" \
    not=shm:"its figures are those of a socket's buffer"
receiver_lagging_by_bytes_is_suspended() {
    local slow steady sender
    receive "$HOST_B" slow "$(channel "$IF_B" "rcvbuf_bytes=256K&window_packets=512")" --wait 1 --pause-us $((1000000000 / rate)) && slow=$last || return
    slow_and_steady "$HOST_C" "$IF_B" "$rate" "slow_lag_bytes=128K&slow_recover_ns=50000000" || return
    says sender " bytes of lag, limit 131072 (" && ends "$sender" && ends "$steady" && ends "$slow" && slow_is_suspended "$rate"
}

# The other receiver is on a path without losses.
e2e receiver_that_loses_a_fifth_is_suspended needs=loss hosts=3 \
    not=bypass,xdp,roce:"the same by another threshold; it passes if it is named"
receiver_that_loses_a_fifth_is_suspended() {
    local slow steady sender
    if [[ $transport == shm || $transport == roce || $transport == xdp ]]; then
        slow=$(transport=impair+$transport channel "$IF_B" "impair_loss_ppm=200000")
        receive "$HOST_B" slow "$slow" --wait 1 && slow=$last || return
    else
        lose 20 && $HOST_A nft delete table inet llm_e2e || return
        receive "$HOST_B" slow "$(channel "$IF_B")" --wait 1 && slow=$last || return
    fi
    slow_and_steady "$beside_a" "$beside_if" $((3 * rate)) "slow_patience_ns=200000000" || return
    ends "$sender" && ends "$steady" && ends "$slow" && slow_is_suspended $((3 * rate)) &&
        is sender nak_packets ">" $((1000 / fewer))
}

e2e slow_receiver_is_expelled_if_configured hosts=3 not=roce:"what the transmitter does is the same over each transport"
slow_receiver_is_expelled_if_configured() {
    local slow steady sender
    receive "$HOST_B" slow "$(channel "$IF_B" "rcvbuf_bytes=256K")" --wait 1 --pause-us $((1000000000 / rate)) && slow=$last || return
    slow_and_steady "$HOST_C" "$IF_B" $((2 * rate)) "slow=expel&slow_lag_ns=200000000&slow_patience_ns=0&slow_recover_ns=100000000&slow_expel_ns=100000000" || return
    says slow "event: expelled" && says slow "event: session end expelled" && ends "$slow" && ends "$sender" && ends "$steady" || return
    complete steady $((2 * rate)) && is slow expelled == 1 && is slow errors == 0 && is sender receivers_expelled ">" 0
}

# The same as slow_receiver_is_expelled_if_configured, with a policy that only reports.
e2e slow_receiver_is_reported_and_served hosts=3 \
    not=roce:"the same as slow_receiver_is_expelled_if_configured, which is run; it passes if it is named"
slow_receiver_is_reported_and_served() {
    local slow steady sender
    receive "$HOST_B" slow "$(channel "$IF_B" "rcvbuf_bytes=256K&window_packets=512")" --wait 1 --pause-us $((1000000000 / rate)) && slow=$last || return
    slow_and_steady "$HOST_C" "$IF_B" $((rate / 10)) "slow=report&slow_lag_ns=200000000&slow_patience_ns=0" || return
    says sender " suspended (report only)" && ends "$sender" && ends "$steady" && ends "$slow" || return
    complete steady $((rate / 10)) && complete slow $((rate / 10)) && is sender receivers_suspended ">" 0 && is slow suspended == 0 && is sender naks_ignored == 0
}
