# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# bench/run over AF_XDP, which sources this. An xdp:// channel has its interface for itself, and its program slows the kernel's
# own packets there: what stands bare beside it has a second cable between the same hosts.
#
#   xdp_hosts     Makes two namespaces with two cables; fails if this is not root's.
#   xdp_measure   Measures twice: beside bare AF_XDP, and beside the kernel's UDP. The second JSON is FILE-udp.json.
#
# They use benchmark, json and what setup_hosts sets, of bench/run; and set bare_near and bare_far, options of the programs.

XDP_BARE_A=llm-bare-a XDP_BARE_B=llm-bare-b

xdp_hosts() {
    local pid
    setup_hosts netns || { say "--transport xdp needs root: the kernel loads programs for nobody else" && return 1; }
    pid=$(sed -n 's/.*-t \([0-9]*\).*/\1/p' <<<"$HOST_B")
    # shellcheck disable=SC2086
    $HOST_A ip link add $XDP_BARE_A mtu 1500 type veth peer name $XDP_BARE_B mtu 1500 netns "$pid" &&
        $HOST_A ip addr add 10.76.0.1/24 dev $XDP_BARE_A && $HOST_A ip link set $XDP_BARE_A up &&
        $HOST_B ip addr add 10.76.0.2/24 dev $XDP_BARE_B && $HOST_B ip link set $XDP_BARE_B up
}

# xdp_bare SCHEME: what the programs are told of the second cable.
xdp_bare() {
    local there_a="$1://239.192.1.1:5001?interface=$XDP_BARE_A" there_b="$1://239.192.1.1:5001?interface=$XDP_BARE_B"
    local back_a="$1://239.192.1.2:5002?interface=$XDP_BARE_A" back_b="$1://239.192.1.2:5002?interface=$XDP_BARE_B"
    # shellcheck disable=SC2034
    if [ "$benchmark" = reflector ]; then
        bare_near=(--raw-send "$there_a" --raw-receive "$back_a")
        bare_far=(--raw-send "$back_b" --raw-receive "$there_b")
    else
        bare_near=(--raw-channel "$there_a")
        bare_far=(--raw-channel "$there_b")
    fi
}

# shellcheck disable=SC2034
xdp_measure() {
    local file=$json table=$results/$benchmark.txt
    bare="bare AF_XDP"
    xdp_bare xdp
    printf '\nBeside bare AF_XDP\n\n'
    "run_$benchmark"
    mv "$table" "$SETUP_SCRATCH/first.txt"
    bare="bare UDP" json=${file%.json}-udp.json
    xdp_bare udp
    printf "\nBeside the kernel's bare UDP\n\n"
    "run_$benchmark"
    cat "$SETUP_SCRATCH/first.txt" "$table" >"$SETUP_SCRATCH/both.txt"
    mv "$SETUP_SCRATCH/both.txt" "$table"
    say "JSON beside UDP: $json"
    json=$file
}
