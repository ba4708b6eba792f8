# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of what policies promise, which run.sh sources.

# shellcheck disable=SC2034
policy_tests=(slow_receiver_is_reported_and_served)

# As slow_receiver_is_expelled_if_asked, but that nothing is done.
slow_receiver_is_reported_and_served() {
    local slow steady sender
    receive "$HOST_B" slow "$(channel "$IF_B" 112 "rcvbuf_bytes=256K&window_packets=512")" --wait 1 --pause-us $((1000000000 / rate)) && slow=$last || return
    slow_and_steady 112 "$HOST_C" "$IF_B" $((rate / 10)) "slow=report&slow_lag_ns=200000000&slow_patience_ns=0" || return
    says sender " suspended (report only)" && ends "$sender" && ends "$steady" && ends "$slow" || return
    complete steady $((rate / 10)) && complete slow $((rate / 10)) && is sender receivers_suspended ">" 0 && is slow suspended == 0 && is sender naks_ignored == 0
}
