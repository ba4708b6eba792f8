# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of failover groups whose members are on several hosts. Those of one host are unit tests of meson.build.

# members: prints a channel for each of four members, on the hosts A to D, as e2e_failover takes them.
members() {
    local host interface=$IF_A pid
    for host in "$HOST_A" "$HOST_B" "$HOST_C" "$HOST_D"; do
        pid=${host#*-t }
        printf '%s%s ' "${host:+${pid%% *}:}" "$(channel "$interface")"
        interface=$IF_B
    done
}

# group_survives [commit]: the primary is killed or stopped, at random, and another member goes on with the stream.
group_survives() {
    run_on "" group "$programs/e2e_failover" "$(members)" $((2 + 4 / fewer)) 7 "$@"
    ends "$last" && is group errors == 0 && is group different == 0 || return
    note "$(number group trials) primaries died or stood still; $(number group messages) messages"
}

e2e a_primary_on_another_host_is_replaced hosts=4 needs=root over=udp,xdp,roce
a_primary_on_another_host_is_replaced() {
    group_survives
}

e2e a_majority_on_other_hosts_goes_on hosts=4 needs=root over=udp,xdp
a_majority_on_other_hosts_goes_on() {
    group_survives commit
}
