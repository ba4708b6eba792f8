# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# Requirements of tests, and ways to lose packets. need_WHAT is called for a test whose entry says needs=WHAT: it returns 77 and sets why if
# the requirement is missing.

need_root() {
    [ "$(id -u)" = 0 ] || { why="needs root" && return 77; }
}

need_namespaces() {
    [ "$HOSTS_KIND" != loopback ] || { why="needs network namespaces: root, or unprivileged user namespaces" && return 77; }
}

need_nft() {
    need_namespaces || return
    command -v nft >/dev/null || { why="someone with root has to run: apt-get install nftables" && return 77; }
}

# Requirements of lossy().
need_loss() {
    [ "$transport" = shm ] || need_nft
}

need_shims() {
    local library=$build/tests/shim/shim_${preload:-fail}.so
    [ -e "$library" ] || { why="$library is missing: run 'ninja -C $build'; a build with -Db_sanitize has no libraries to preload: take one without" && return 77; }
}

# drop PREFIX FAMILY HOOK WHAT: drops the matching packets there.
drop() {
    # shellcheck disable=SC2086
    $1 nft -f - 2>>"$work/nft.log" <<END || { why="nft: $(tail -n 1 "$work/nft.log")" && return 1; }
table $2 llm_e2e
delete table $2 llm_e2e
table $2 llm_e2e {
    chain $3 {
        type filter hook $3 priority 0;
        $4 drop
    }
}
END
}

# lose PERCENT: drops packets that arrive at each host, at random. With a switch they are dropped there, as frames bypass a host's firewall.
lose() {
    local what="meta l4proto udp numgen random mod 100 < $1"
    if [ -n "$HOST_SWITCH" ]; then
        drop "$HOST_SWITCH" bridge forward "$what" && drop "$HOST_A" inet input "iifname lo $what"
    else
        drop "$HOST_A" inet input "$what" && drop "$HOST_B" inet input "$what"
    fi
}

# shellcheck disable=SC2086
lose_nothing() {
    [ -z "$HOST_SWITCH" ] || $HOST_SWITCH nft delete table bridge llm_e2e 2>/dev/null || true
    $HOST_A nft delete table inet llm_e2e 2>/dev/null || true
    $HOST_B nft delete table inet llm_e2e 2>/dev/null || true
}

# lossy PERCENT: drops this share of packets to receivers with a lossy_channel, whose arguments are those of channel. In shared memory,
# without a firewall, impair+ drops them.
lossy() {
    impaired=''
    case $transport in
    shm) impaired="impair_loss_ppm=$(($1 * 10000))" ;;
    *) need_nft && lose "$1" ;;
    esac
}

lossy_channel() {
    transport=${impaired:+impair+}$transport channel "$1" "${2:-}${impaired:+${2:+&}$impaired}"
}

# lose_run PACKETS OF [PORT]: drops a run in the middle of so many packets that arrive at B.
lose_run() {
    local what="udp dport ${3:-5003} numgen inc mod $2 $(($2 / 2))-$(($2 / 2 + $1 - 1))"
    if [ -n "$HOST_SWITCH" ]; then
        drop "$HOST_SWITCH" bridge forward "oifname port-b $what"
    else
        drop "$HOST_B" inet input "$what"
    fi
}

# mtu BYTES: sets that of the cable, or of both cables to the switch.
# shellcheck disable=SC2086
mtu() {
    if [ -n "$HOST_SWITCH" ]; then
        $HOST_SWITCH ip link set port-a mtu "$1" && $HOST_SWITCH ip link set port-b mtu "$1" || { why="no switch with an MTU of $1" && return 1; }
    fi
    $HOST_A ip link set "$IF_A" mtu "$1" && $HOST_B ip link set "$IF_B" mtu "$1" || { why="no cable with an MTU of $1" && return 1; }
}

# under PREFIX SHIM: the prefix of a command that runs there with a library of tests/shim preloaded.
under() {
    echo "$1 env LD_PRELOAD=$build/tests/shim/shim_$2.so"
}
