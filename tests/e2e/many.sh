# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of many transmitters and receivers, concurrent or sequential.

e2e many_in_one_context
many_in_one_context() {
    run_on "$HOST_A" many "$programs/e2e_many" "$transport" "$(group 1)" "$(group 2)" "$(common_shared "$IF_A")" $((messages / 60))
    ends "$last" || { why=$(cat "$work/many.out" "$work/many.err") && return 1; }
}

# short_lived PEERS: contexts that come and go, and one that stays, which knows three dozen addresses at a time.
short_lived() {
    run_on "$HOST_A" short_lived "$programs/e2e_short_lived" "$transport" "$(group)" \
        "$(common_shared "$IF_A")&receivers_max=16&sessions_max=20" "$1"
    ends "$last" || { why=$(tail -n 5 "$work/short_lived.err") && return 1; }
    is short_lived addresses_forgotten ">" $(($1 / 2))
}

e2e short_lived_peers_leave_no_address_behind \
    not=xdp:"each peer is a context of one process, which needs an interface; the unicasts of xdp go by udp" \
    not=roce:"for time, as each peer opens a device; tests/unit/roce/forget.c gives addresses back"
short_lived_peers_leave_no_address_behind() {
    short_lived $((600 / fewer))
}

# Corresponds to a day on a busy network.
e2e soak_of_peers run=named
soak_of_peers() {
    limit=7200
    short_lived 100000
}
