# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of UDP segmentation offload, and of the MTU.

# The loopback interface carries whole datagrams that a cable would fragment.
e2e ignored_segmentation_is_detected needs=shims \
    not=bypass,xdp,roce,shm:"UDP's own offload"
ignored_segmentation_is_detected() {
    local from
    from=$(under "$HOST_A" ignore)
    burst "$from" lo "$HOST_A" lo 50000 && is sender udp_trains == 0 && is sender udp_trains_refused == 0 || return
    burst "$from" "$IF_A" "$HOST_B" "$IF_B" 50000 && is sender udp_trains == 0 && is sender udp_trains_refused == 0
}

e2e refused_options_and_segmentation_are_not_required needs=shims \
    not=bypass,xdp,roce,shm:"UDP's own offload"
refused_options_and_segmentation_are_not_required() {
    burst "$(under "$HOST_A" refuse)" "$IF_A" "$(under "$HOST_B" refuse)" "$IF_B" 50000 &&
        is sender udp_trains == 0 && is sender udp_trains_refused == 0 && is sender udp_send_errors == 0 &&
        is receiver udp_superframes == 0
}

# The first failure is the test at open.
e2e late_failures_of_segmentation_lose_no_message needs=shims \
    not=bypass,xdp,roce,shm:"UDP's own offload"
late_failures_of_segmentation_lose_no_message() {
    local after
    for after in 1 2 100; do
        burst "$(under "$HOST_A" fail) SHIM_SEGMENTED_MAX=$after" "$IF_A" "$HOST_B" "$IF_B" 50000 "$window&$keep" &&
            is sender udp_trains == $((after - 1)) && is sender udp_trains_refused == 1 &&
            is sender udp_send_errors == 0 || { why="after $after: $why" && return 1; }
    done
}

# The largest MTU leaves no room for a second packet in a train.
e2e cables_of_any_mtu needs=namespaces \
    not=bypass:"it is about trains; packets_leave_one_by_one" \
    not=xdp:"frames_of_any_mtu, as frames have no trains and other limits" \
    not=roce:"the MTU of a device is what it was when that was made; tests/unit/roce/open.c has all of them" \
    not=shm:"memory has no cable"
cables_of_any_mtu() {
    local bytes status=0
    for bytes in 1280 1500 9000 65535; do
        mtu "$bytes" && burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 100000 "$window&mtu=$bytes" &&
            is sender udp_trains_refused == 0 && is sender udp_send_errors == 0 &&
            is sender udp_trains "$([ "$bytes" = 65535 ] && echo == || echo '>')" 0 ||
            { status=1 why="MTU $bytes: $why" && break; }
    done
    mtu 1500 && return "$status"
}
