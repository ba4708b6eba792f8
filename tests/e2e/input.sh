# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# End-to-end tests of wrong input, hostile packets, and the groups that a bridge learns.

e2e bad_input needs=namespaces \
    not=bypass:"UDP's interfaces and options; tests/bypass/sockets.c has those of stacks" \
    not=xdp:"UDP's interfaces and options; tests/xdp/faults.c has those of frames" \
    not=roce:"UDP's interfaces and options; wrong_settings_are_named of tests/roce/suite.sh has those of RDMA" \
    not=shm:"UDP's interfaces and options; tests/shm has those of memory"
bad_input() {
    # shellcheck disable=SC2086
    $HOST_A sh -c "ip link add llm-down type veth peer name llm-bare && ip addr add 10.78.0.1/24 dev llm-down &&
        ip link set llm-bare up" || { why="cannot add interfaces" && return 1; }
    run_on "$HOST_A" bad "$programs/e2e_bad_input" "$IF_A" llm-down llm-bare
    local status=0
    ends "$last" || status=$?
    $HOST_A ip link del llm-down
    [ "$status" = 0 ] || { why=$(cat "$work/bad.out" "$work/bad.err") && return 1; }
}

# The receiver runs without the right to exceed net.core.rmem_max.
e2e clamped_buffer \
    not=bypass:"the kernel's buffer of a socket" \
    not=xdp,roce,shm:"the buffer of a socket"
clamped_buffer() {
    local drop=""
    [ "$(id -u)" != 0 ] || drop="setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all --"
    # The build directory may be closed to other users.
    mkdir -p "$work/open" && chmod 755 "$SETUP_SCRATCH" "$work" "$work/open"
    cp "$programs/e2e_bad_input" "$build"/libllm.so.0 "$work/open/" && chmod -R a+rX "$work/open"
    run_on "$HOST_A" clamped $drop env LD_LIBRARY_PATH="$work/open" "$work/open/e2e_bad_input" --clamped "$IF_A"
    ends "$last" || { why=$(cat "$work/clamped.out" "$work/clamped.err") && return 1; }
}

# Every counter of bad packets has counted, the stream is whole, and the transmitter sent no more than needed. Its last messages follow the
# last bad packet.
e2e hostile_packets needs=namespaces hosts=3 \
    not=bypass:"a stack has no part in it; it passes if it is named" \
    not=xdp:"what is in a packet is the same by frames; it passes if it is named" \
    not=roce:"its packets are UDP's; tests/unit/roce/receive.c has those that a device may bring" \
    not=shm:"its packets are UDP's; tests/shm has those who write what is wrong"
hostile_packets() {
    local receiver sender hostile counter count=$((rate * 4))
    receive "$HOST_B" receiver "$(channel "$IF_B")" && receiver=$last || return
    run_on "$HOST_C" hostile python3 "$here/hostile.py" "$(group)" 5003 "$ADDRESS_C" 2
    hostile=$last
    says hostile listening || return
    send "$HOST_A" sender "$(channel "$IF_A")" --messages "$count" --rate "$rate" --step $((rate * 3))
    sender=$last
    ends "$hostile" || { why=$(tail -n 3 "$work/hostile.err") && return 1; }
    goes_on "$sender" || return
    ends "$sender" && ends "$receiver" && complete receiver "$count" || return
    for counter in packets_short packets_version packets_type packets_malformed packets_foreign control_foreign \
        control_malformed packets_duplicate packets_implausible; do
        is receiver "$counter" ">" 0 || return
    done
    for counter in packets_short packets_version packets_type packets_malformed packets_foreign control_foreign \
        control_malformed packets_misaddressed; do
        is sender "$counter" ">" 0 || return
    done
    is sender packets_repaired "<" 2000 && is sender rejects_sent "<" 200 && is sender topics_sent "<" 200 || return
    note "$(cat "$work/hostile.out") bad packets"
}

# Only hosts that joined get the packets: the bridge learned from the kernel's IGMP that the transport joined.
e2e snooping_bridge needs=namespaces \
    not=bypass:"a stack has no part in it; it passes if it is named" \
    not=roce:"all tests run behind one" \
    not=shm:"memory reaches no hosts"
snooping_bridge() {
    # shellcheck disable=SC2086
    $HOST_A ip link add llm-br type bridge mcast_snooping 1 mcast_query_response_interval 10 \
        mcast_startup_query_interval 10 2>/dev/null || { why="the kernel has no bridges" && return 77; }
    bridge_test
    local status=$?
    $HOST_A ip link del llm-br
    $HOST_A ip link del llm-b0p 2>/dev/null
    $HOST_A ip link del llm-c0p 2>/dev/null
    return "$status"
}

bridge_test() {
    local pid receiver sender member other
    pid=$(sed -n 's/.*-t \([0-9]*\).*/\1/p' <<<"$HOST_B")
    # The querier starts with the response interval set by then, and floods everything for that time.
    # shellcheck disable=SC2086
    $HOST_A sh -c "ip link add llm-b0p type veth peer name llm-b0 netns $pid && ip link set llm-b0p master llm-br up &&
        ip link add llm-c0p type veth peer name llm-c0 netns $pid && ip link set llm-c0p master llm-br up &&
        ip addr add 10.79.0.1/24 dev llm-br && ip link set llm-br up && ip link set llm-br type bridge mcast_querier 1" || { why="cannot make the bridge" && return 1; }
    # shellcheck disable=SC2086
    $HOST_B sh -c "ip addr add 10.79.0.2/24 dev llm-b0 && ip link set llm-b0 up && ip link set llm-c0 up" ||
        { why="cannot make the ports" && return 1; }
    sleep 1 # until the querier has sent its query and the ports forward
    receive "$HOST_B" receiver "$(channel llm-b0)" && receiver=$last && bridge_learned "$(group)" || return
    member=$(received llm-b0) other=$(received llm-c0)
    # The bridge is queried with packets of the kernel only, as it floods frames injected into it.
    send "$HOST_A" sender "$(transport=udp channel llm-br)" --messages 100000 --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver 100000 || return
    member=$(($(received llm-b0) - member)) other=$(($(received llm-c0) - other))
    ((member > 1000 && other < member / 10)) || { why="the member got $member packets, the other port $other" && return 1; }
    note "the member got $member packets, the other port $other"
}

# Waits until the bridge knows a member of a group.
bridge_learned() {
    local tenths
    for ((tenths = 0; tenths < limit * 10; tenths++)); do
        # shellcheck disable=SC2086
        $HOST_A bridge mdb show dev llm-br | grep -qF "grp $1 " && return 0
        sleep 0.1
    done
    why="the bridge has not learned of a member of $1"
    return 1
}

received() {
    # shellcheck disable=SC2086
    $HOST_B ip -s link show dev "$1" | awk '/RX:/ { getline; print $2 }'
}
