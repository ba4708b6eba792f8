# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# RDMA devices inside the guest of guest.sh, and faults for them. Source it from bash, as root, in the guest:
#
#   roce_up [--mtu BYTES] [--switch]  Makes two interfaces with addresses, joined by a cable (or by a switch, which learns groups
#                             from IGMP), and a soft-RoCE device on each. MTU 1500 gives the devices 1024, one of 4200 gives 4096.
#                             Returns when the devices have their addresses.
#   roce_down                 Takes them away.
#   roce_lose PERCENT         Of what arrives at either device, at random. Also of what a device sends to itself.
#   roce_lost                 Prints how many packets that was.
#   roce_lose_nothing
#   roce_netem INTERFACE ARGUMENT...  What leaves by it is treated as tc-netem(8) says: loss 5%, duplicate 10%,
#                             delay 2ms reorder 50%. Not what a device sends to itself: that does not come to the cable.
#   roce_netem_lost INTERFACE Prints how many packets that lost.
#   roce_netem_off INTERFACE
#   roce_port DEVICE          Prints the state of its port: ACTIVE or DOWN.
#   roce_count DEVICE NAME    Prints a counter of the device: rcvd_pkts, sent_pkts.
#
#   ROCE_IF_A, ROCE_IF_B, ROCE_DEVICE_A, ROCE_DEVICE_B, ROCE_ADDRESS_A, ROCE_ADDRESS_B; the others of one are those of its peer.
#
# Both are of one network namespace, as rdma_rxe receives in the first one only. A packet to the other's address would not leave
# the host, but rxe looks for a way by its own interface, so all of it goes over the cable; accept_local lets it in again.

# For setup_hosts too.
export ROCE_IF_A=roce-a ROCE_IF_B=roce-b
export ROCE_DEVICE_A=rxe_a ROCE_DEVICE_B=rxe_b
export ROCE_ADDRESS_A=10.77.0.1 ROCE_ADDRESS_B=10.77.0.2

roce_cable() {
    if [ "$2" = cable ]; then
        ip link add $ROCE_IF_A type veth peer name $ROCE_IF_B
        return
    fi
    ip link add roce-switch type bridge mcast_snooping 1 mcast_querier 1 mcast_query_response_interval 10 \
        mcast_startup_query_interval 10 && ip link set roce-switch mtu "$1" up &&
        ip link add $ROCE_IF_A type veth peer name $ROCE_IF_A-port && ip link add $ROCE_IF_B type veth peer name $ROCE_IF_B-port &&
        ip link set $ROCE_IF_A-port master roce-switch mtu "$1" up && ip link set $ROCE_IF_B-port master roce-switch mtu "$1" up
}

# roce_device INTERFACE ADDRESS DEVICE MTU
roce_device() {
    echo 1 >"/proc/sys/net/ipv4/conf/$1/accept_local" && echo 0 >"/proc/sys/net/ipv4/conf/$1/rp_filter" &&
        ip addr add "$2/24" dev "$1" && ip link set "$1" mtu "$4" up && rdma link add "$3" type rxe netdev "$1"
}

# roce_ready DEVICE ADDRESS: checks that it has its RoCE v2 address, and that its port is up.
roce_ready() {
    local gid tenths
    # shellcheck disable=SC2046,SC2183
    gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(tr . ' ' <<<"$2"))
    for ((tenths = 0; tenths < 50 * ${LLM_SLOWNESS:-1}; tenths++)); do
        grep -qsx "$gid" "/sys/class/infiniband/$1/ports/1/gids/"[0-9] && [ "$(roce_port "$1")" = ACTIVE ] && return 0
        sleep 0.1
    done
    echo "$1: its port is $(roce_port "$1"), and it has no address $gid in time" >&2
    return 1
}

roce_up() {
    local mtu=1500 kind=cable
    while [ $# -gt 0 ]; do
        case $1 in
        --mtu) mtu=$2 && shift 2 ;;
        --switch) kind=switch && shift ;;
        *) echo "roce_up: $1: no such option" >&2 && return 2 ;;
        esac
    done
    # Registered memory is locked.
    ulimit -l unlimited
    ip link set lo up && echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter && roce_cable "$mtu" "$kind" &&
        roce_device $ROCE_IF_A $ROCE_ADDRESS_A $ROCE_DEVICE_A "$mtu" && roce_device $ROCE_IF_B $ROCE_ADDRESS_B $ROCE_DEVICE_B "$mtu" &&
        roce_ready $ROCE_DEVICE_A $ROCE_ADDRESS_A && roce_ready $ROCE_DEVICE_B $ROCE_ADDRESS_B
}

roce_down() {
    local link
    roce_lose_nothing
    for link in $ROCE_DEVICE_A $ROCE_DEVICE_B; do
        rdma link delete "$link" 2>/dev/null || true
    done
    for link in $ROCE_IF_A $ROCE_IF_B roce-switch; do
        ip link delete "$link" 2>/dev/null || true
    done
}

# -------------------------------------------------------------------------------------------------------------- faults

# The filter sees the packets for rxe's socket: unicast and multicast, from the cable and from the host itself.
roce_lose() {
    nft -f - <<NFT
table inet llm_roce
delete table inet llm_roce
table inet llm_roce {
    chain input {
        type filter hook input priority 0;
        udp dport 4791 numgen random mod 100 < $1 counter drop
    }
}
NFT
}

roce_lost() {
    nft list chain inet llm_roce input | sed -n 's/.* counter packets \([0-9]*\) .*/\1/p'
}

roce_lose_nothing() {
    nft delete table inet llm_roce 2>/dev/null || true
}

roce_netem() {
    tc qdisc replace dev "$1" root netem limit 10000 "${@:2}"
}

roce_netem_lost() {
    tc -s qdisc show dev "$1" root | sed -n 's/.*(dropped \([0-9]*\),.*/\1/p'
}

roce_netem_off() {
    tc qdisc delete dev "$1" root 2>/dev/null || true
}

# ------------------------------------------------------------------------------------------------------------- devices

roce_port() {
    sed 's/.*: //' "/sys/class/infiniband/$1/ports/1/state"
}

roce_count() {
    cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"
}
