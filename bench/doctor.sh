#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks a host for the transports; bench/run doctor. docs/roce.md says what lies behind the checks of RoCE.
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run doctor [--transport udp|roce] [--interface NAME]

Checks whether this host is fit for libllm and says what is wrong: one line a check, `ok`, `warn` or `FAIL`, and what to do about
it. `FAIL` is what stops the transport, `warn` what makes it slow or lose packets. Changes nothing, but installs the tools that it
looks with, as root on Debian; without them it says what it cannot see. Run it as the user whom the application runs as: limits
and permissions are that user's. Exit status: 0 if nothing FAILs.

Options:
  --transport udp|roce   check for this one only (udp, and roce if this host has an RDMA device)
  --interface NAME       of the channels (that of the route to 239.192.1.1; for roce the first that has an RDMA device)
  --help                 this text
END
}

refuse() {
    printf 'bench/run doctor: %s\n' "$*" >&2
    printf "Try 'bench/run doctor --help'.\n" >&2
    exit 2
}

transport='' interface=''

parse() {
    while [ $# -gt 0 ]; do
        case $1 in
        --help | -h) usage && exit 0 ;;
        --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
        --transport | --interface)
            [ -n "${2:-}" ] || refuse "$1: needs a value"
            case $1 in
            --transport) transport=$2 ;;
            --interface) interface=$2 ;;
            esac
            shift 2
            ;;
        *) refuse "$1: no such option" ;;
        esac
    done
    [[ $transport =~ ^(udp|roce)?$ ]] || refuse "--transport $transport: must be udp or roce"
    [[ $interface =~ ^[^/[:space:]]{0,15}$ ]] || refuse "--interface $interface: must be the name of an interface"
}

parse "$@"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"

# ------------------------------------------------------------------------------------------------------------- results

failures=0

# ok CHECK TEXT
ok() {
    printf 'ok   %s: %s\n' "$1" "$2"
}

# warn CHECK TEXT REMEDY
warn() {
    printf 'warn %s: %s; %s\n' "$1" "$2" "$3"
}

# fail CHECK TEXT REMEDY
fail() {
    failures=$((failures + 1))
    printf 'FAIL %s: %s; %s\n' "$1" "$2" "$3"
}

# --------------------------------------------------------------------------------------------------------------- reading

# get NAME FILE: sets the variable to the first line of the file, or to nothing. There are so many that it starts no process.
get() {
    printf -v "$1" ''
    { read -r "${1?}" <"$2"; } 2>/dev/null || true
}

# tool COMMAND PACKAGE CHECK: whether it is there; else says what cannot be seen without it.
tool() {
    command -v "$1" >/dev/null && return 0
    warn "$3" "cannot be seen without $1" "someone with root has to run: apt-get install $2"
    return 1
}

# expand LIST: the numbers of a list of CPUs, 0-3,8, one a line.
expand() {
    local range
    for range in ${1//,/ }; do
        seq "${range%-*}" "${range#*-}"
    done
}

allowed_cpus() {
    expand "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
}

# has_capability NUMBER, as capability.h numbers them.
has_capability() {
    local effective
    effective=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
    ((16#$effective >> $1 & 1))
}

CAP_NET_ADMIN=12 CAP_IPC_LOCK=14

address_of() {
    ip -o -4 addr show dev "$1" 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }'
}

# counted FILE...: NAME=N of those that are not 0.
counted() {
    local file number
    for file in "$@"; do
        get number "$file"
        [[ ! $number =~ ^[0-9]+$ ]] || [ "$number" = 0 ] || printf ' %s=%s' "${file##*/}" "$number"
    done
}

# ------------------------------------------------------------------------------------------------------------ interface

# As the library chooses it: by the route, else the first that is up and does multicast, else the loopback.
default_interface() {
    local found
    found=$(ip -o route get 239.192.1.1 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
    [ -n "$found" ] || found=$(ip -o link show up 2>/dev/null | awk -F'[:@ ]+' '/[<,]MULTICAST[,>]/ { print $2; exit }')
    printf '%s' "${found:-lo}"
}

checked=''

check_interface() {
    local flags address mtu
    if [ ! -d "/sys/class/net/$interface" ]; then
        fail interface "there is no $interface" "'ip link' lists those that there are; --interface takes one"
        return 1
    fi
    flags=$(ip -o link show dev "$interface" 2>/dev/null | sed -n 's/[^<]*<\([^>]*\)>.*/,\1,/p')
    address=$(address_of "$interface")
    get mtu "/sys/class/net/$interface/mtu"
    case $flags in
    '')
        warn interface "the state of $interface cannot be seen without ip" \
            "someone with root has to run: apt-get install iproute2"
        ;;
    *,UP,*) ;;
    *) fail interface "$interface is down" "ip link set $interface up" && return 0 ;;
    esac
    if [[ $flags == *,NO-CARRIER,* ]]; then
        fail interface "$interface has no carrier" "connect its cable, or switch on what is at the other end"
    elif [ -z "$address" ]; then
        fail interface "$interface has no IPv4 address" "ip addr add ADDRESS/24 dev $interface"
    elif [[ $flags != *,MULTICAST,* ]] && [ "$interface" != lo ]; then
        fail interface "$interface does no multicast" "ip link set $interface multicast on"
    else
        ok interface "$interface is up with $address, MTU $mtu"
    fi
}

check_igmp() {
    local version
    version=$(awk -v name="$interface" '$2 == name { print $NF; exit }' /proc/net/igmp 2>/dev/null || true)
    case $version in
    '') warn igmp "$interface is in no group, not even that of all hosts" "ip link set $interface up multicast on" ;;
    V1) warn igmp "$interface reports groups by IGMP version 1, by which switches learn late who left" \
        "sysctl net.ipv4.conf.$interface.force_igmp_version=0" ;;
    *) ok igmp "$interface reports groups by IGMP version ${version#V}; whether switches have a querier cannot be seen here" ;;
    esac
}

check_interface_counters() {
    local directory=/sys/class/net/$interface/statistics text
    text=$(counted "$directory"/rx_{errors,dropped,missed_errors,over_errors,fifo_errors} "$directory"/tx_{errors,dropped})
    if [ -n "$text" ]; then
        warn "interface counters" "$interface has counted$text since it was made" "look whether they grow while packets are lost"
    else
        ok "interface counters" "$interface has dropped nothing since it was made"
    fi
}

# Once, if both transports have the same one.
check_network() {
    [ "$interface" != "$checked" ] || return 0
    check_interface || return 1
    check_igmp
    check_interface_counters
    checked=$interface
}

# ----------------------------------------------------------------------------------------------------- CPUs and memory

check_cpus() {
    local cpu governor slow=''
    for cpu in $(allowed_cpus); do
        get governor "/sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor"
        [ "${governor:-performance}" = performance ] || slow+=" $cpu ($governor)"
    done
    if [ -n "$slow" ]; then
        warn cpus "the clock of CPU$slow changes with the load" "cpupower frequency-set -g performance"
    else
        ok cpus "$(allowed_cpus | wc -l) may be used, and none changes its clock by a governor that can be seen"
    fi
}

check_isolation() {
    local isolated tickless
    get isolated /sys/devices/system/cpu/isolated
    get tickless /sys/devices/system/cpu/nohz_full
    [[ $tickless =~ [0-9] ]] || tickless=''
    if [ -z "$isolated" ]; then
        warn isolation "no CPU is kept from the scheduler, which is most of the tail" \
            "boot with isolcpus=LIST nohz_full=LIST and poll on one of them"
    elif [ -z "$tickless" ]; then
        warn isolation "CPU $isolated is isolated, but has the timer's interrupts" "boot with nohz_full=$isolated"
    else
        ok isolation "isolated: CPU $isolated; without ticks: $tickless"
    fi
}

# What a context with one transmitter of the default sizes takes: the history and its tables, and the receive ring.
pages_wanted=20

check_huge_pages() {
    local free size
    free=$(awk '$1 == "HugePages_Free:" { print $2 }' /proc/meminfo)
    size=$(awk '$1 == "Hugepagesize:" { print $2 }' /proc/meminfo)
    if [ "${size:-0}" != 2048 ]; then
        warn "huge pages" "those of this host have ${size:-no} KiB, not 2 MiB" "boot with default_hugepagesz=2M"
    elif ((free < pages_wanted)); then
        warn "huge pages" "$free of 2 MiB are free, and a context with a transmitter takes $pages_wanted, or else plain ones" \
            "sysctl vm.nr_hugepages=64"
    else
        ok "huge pages" "$free of 2 MiB are free"
    fi
}

# ----------------------------------------------------------------------------------------------------------- kernel UDP

check_route() {
    local by
    by=$(ip -o route get 239.192.1.1 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
    if [ -z "$by" ]; then
        warn "udp: route" "there is none to 239.192.1.1" \
            "name the interface in each channel, or: ip route add 224.0.0.0/4 dev $interface"
    elif [ "$by" != "$interface" ]; then
        warn "udp: route" "239.192.1.1 is reached by $by, not by $interface" "name the interface in each channel"
    else
        ok "udp: route" "239.192.1.1 is reached by $interface"
    fi
}

# check_buffer NAME LIMIT OPTION DEFAULT
check_buffer() {
    local limit
    get limit "/proc/sys/net/core/$2"
    if ((limit >= $4)); then
        ok "udp: $1 buffer" "$2 is $limit, and $3 asks for $4"
    elif has_capability $CAP_NET_ADMIN; then
        ok "udp: $1 buffer" "$2 is $limit, which does not bind this user"
    else
        warn "udp: $1 buffer" "$2 is $limit, and $3 asks for $4: bursts find it full" "sysctl net.core.$2=$(($4 * 2))"
    fi
}

# The kernel takes the greater of the two.
check_reverse_path() {
    local all own
    get all /proc/sys/net/ipv4/conf/all/rp_filter
    get own "/proc/sys/net/ipv4/conf/$interface/rp_filter"
    if [ "$((${all:-0} > ${own:-0} ? ${all:-0} : ${own:-0}))" = 1 ]; then
        warn "udp: reverse path" "packets whose source is not reached by $interface are dropped without a word" \
            "if transmitters are behind routers: sysctl net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.$interface.rp_filter=2"
    else
        ok "udp: reverse path" "the filter is not strict"
    fi
}

check_offloads() {
    tool ethtool ethtool "udp: offloads" || return 0
    local features segments merges
    features=$(ethtool -k "$interface" 2>/dev/null || true)
    segments=$(awk '$1 == "tx-udp-segmentation:" { print $2 }' <<<"$features")
    merges=$(awk '$1 == "generic-receive-offload:" { print $2 }' <<<"$features")
    if [ "$segments" = on ] && [ "$merges" = on ]; then
        ok "udp: offloads" "$interface segments and merges datagrams"
    else
        warn "udp: offloads" "tx-udp-segmentation is ${segments:-unknown}, generic-receive-offload ${merges:-unknown}" \
            "ethtool -K $interface tx-udp-segmentation on gro on, if the device can"
    fi
}

check_moderation() {
    command -v ethtool >/dev/null || return 0
    local settings usecs adaptive
    settings=$(ethtool -c "$interface" 2>/dev/null || true)
    usecs=$(awk '$1 == "rx-usecs:" { print $2 }' <<<"$settings")
    adaptive=$(awk '/^Adaptive RX:/ { print $3 }' <<<"$settings")
    if [ -z "$usecs" ]; then
        ok "udp: interrupts" "$interface has no moderation that can be seen"
    elif [ "$usecs" = 0 ] && [ "$adaptive" != on ]; then
        ok "udp: interrupts" "$interface does not delay them"
    else
        warn "udp: interrupts" "$interface delays them (rx-usecs $usecs, adaptive ${adaptive:-unknown})" \
            "ethtool -C $interface rx-usecs 0 adaptive-rx off"
    fi
}

check_udp_counters() {
    local errors
    errors=$(awk '$1 == "Udp:" && !column { for (i = 1; i <= NF; i++) if ($i == "RcvbufErrors") column = i; next }
        $1 == "Udp:" { print $column }' /proc/net/snmp 2>/dev/null || true)
    if [ "${errors:-0}" != 0 ]; then
        warn "udp: counters" "$errors datagrams have found a receive buffer full since this host came up" \
            "raise rcvbuf_bytes and net.core.rmem_max, or poll more often"
    else
        ok "udp: counters" "no datagram has found a receive buffer full"
    fi
}

check_udp() {
    check_network || return 0
    check_route
    check_buffer receive rmem_max rcvbuf_bytes 16777216
    check_buffer send wmem_max sndbuf_bytes 4194304
    check_reverse_path
    check_offloads
    check_moderation
    check_udp_counters
}

# ----------------------------------------------------------------------------------------------------------------- RoCE

verbs=/sys/class/infiniband
device='' port='' at=''

# The RDMA driver that goes with the driver of an interface.
rdma_driver() {
    local driver
    driver=$(readlink -f "/sys/class/net/$1/device/driver" 2>/dev/null || true)
    case ${driver##*/} in
    be2net) echo ocrdma ;;
    bnxt_en) echo bnxt_re ;;
    hns | hns3) echo hns_roce_hw_v2 ;;
    i40e | ice) echo irdma ;;
    mlx4_en | mlx4_core) echo mlx4_ib ;;
    mlx5_core) echo mlx5_ib ;;
    qede) echo qedr ;;
    esac
}

# find_device INTERFACE: sets device, port and at, its directory.
find_device() {
    for at in "$verbs"/*/ports/*; do
        if grep -sqx -- "$1" "$at"/gid_attrs/ndevs/*; then
            port=${at##*/} device=${at#"$verbs"/}
            device=${device%%/*}
            return 0
        fi
    done
    at=''
    return 1
}

# The interface of the first device.
device_interface() {
    cat "$verbs"/*/ports/*/gid_attrs/ndevs/0 2>/dev/null | head -n 1
}

check_library() {
    if ! command -v pkg-config >/dev/null; then
        warn "roce: library" "cannot be seen without pkg-config" "someone with root has to run: apt-get install pkg-config"
    elif pkg-config --exists libibverbs librdmacm; then
        ok "roce: library" "libibverbs $(pkg-config --modversion libibverbs), librdmacm $(pkg-config --modversion librdmacm)"
    else
        warn "roce: library" "what is needed to build the transport is not here" \
            "apt-get install libibverbs-dev librdmacm-dev, then build with meson setup -Droce=enabled"
    fi
}

# What is built into the kernel shows by what it makes, not in the list of modules.
check_modules() {
    local missing=''
    [ -d /sys/class/infiniband_verbs ] || missing=" ib_uverbs"
    [ -d /sys/class/misc/rdma_cm ] || missing+=" rdma_ucm"
    if [ -n "$missing" ]; then
        fail "roce: modules" "not loaded:$missing" "modprobe -a$missing; the package rdma-core does so when a device appears"
    else
        ok "roce: modules" "ib_uverbs and rdma_ucm are loaded"
    fi
}

check_device() {
    if find_device "$interface"; then
        ok "roce: device" "port $port of $device is behind $interface"
        return 0
    fi
    local driver others
    driver=$(rdma_driver "$interface")
    others=$(device_interface || true)
    if [ -n "$others" ]; then
        fail "roce: device" "$interface has none" "take an interface that 'rdma link' lists, such as --interface $others"
    elif [ -n "$driver" ] && [ ! -d "/sys/module/$driver" ]; then
        fail "roce: device" "$interface has none, as the driver $driver is not loaded" "modprobe $driver"
    else
        fail "roce: device" "$interface has none: this host has no card that does RoCE, or its driver is not loaded" \
            "install one, or try the software: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev $interface"
    fi
    return 1
}

# A file that opens is one that this user may use, whatever its mode says.
check_files() {
    local file owner name='' missing='' denied=''
    for file in /sys/class/infiniband_verbs/uverbs*; do
        get owner "$file/ibdev"
        [ "$owner" != "$device" ] || name=${file##*/}
    done
    for file in "${name:-uverbs0}" rdma_cm; do
        if [ ! -e "/dev/infiniband/$file" ]; then
            missing+=" /dev/infiniband/$file"
        elif [ ! -r "/dev/infiniband/$file" ] || [ ! -w "/dev/infiniband/$file" ]; then
            denied+=" /dev/infiniband/$file"
        fi
    done
    if [ -n "$missing" ]; then
        fail "roce: files" "not there:$missing" "modprobe -a ib_uverbs rdma_ucm; in a container, pass them in"
    elif [ -n "$denied" ]; then
        fail "roce: files" "not for $(id -un):$denied" "give it their group, or chmod 0666, by a rule of udev"
    else
        ok "roce: files" "$(id -un) may use /dev/infiniband/${name:-uverbs0} and rdma_cm"
    fi
}

check_port() {
    local state link physical rate
    get state "$at/state"
    get link "$at/link_layer"
    get physical "$at/phys_state"
    get rate "$at/rate"
    if [ "$link" != Ethernet ]; then
        fail "roce: port" "the link layer of port $port of $device is ${link:-unknown}, not Ethernet" \
            "take a port of Ethernet, or make it one with the tools of its maker"
    elif [[ $state != *ACTIVE* ]]; then
        fail "roce: port" "port $port of $device is ${state#*: }, ${physical#*: }" \
            "ip link set $interface up, and look at the cable and the other end"
    else
        ok "roce: port" "port $port of $device is ACTIVE, on Ethernet, $rate"
    fi
}

# With the headers of IPv4, UDP and RoCE around it.
check_mtu() {
    tool ibv_devinfo ibverbs-utils "roce: mtu" || return 0
    local active netdev=0
    active=$(ibv_devinfo -d "$device" -i "$port" 2>/dev/null | sed -n 's/.*active_mtu:[[:space:]]*\([0-9]*\).*/\1/p')
    get netdev "/sys/class/net/$interface/mtu"
    if [ -z "$active" ]; then
        fail "roce: mtu" "ibv_devinfo cannot ask $device" "look at the lines above: modules, files"
    elif ((active < 512 || netdev < 568)); then
        fail "roce: mtu" "the active MTU is $active, that of $interface $netdev: too small" "ip link set $interface mtu 1500"
    elif ((active < 4096 && netdev >= 4200)); then
        warn "roce: mtu" "the active MTU is $active, although that of $interface is $netdev" \
            "'ibv_devinfo -d $device' shows max_mtu, the most that the device can"
    elif ((active < 4096)); then
        warn "roce: mtu" "the active MTU is $active: packets of $active bytes at most" \
            "ip link set $interface mtu 4200 gives 4096, if every host and switch of the network carries it"
    else
        ok "roce: mtu" "the active MTU is $active, that of $interface $netdev"
    fi
}

# find_gid GID PATTERN: sets index to that of the GID as RoCE v2, or fails; adds what else it is to types.
find_gid() {
    local file type
    # shellcheck disable=SC2086,SC2013
    for file in $(grep -slx "$1" "$at"/gids/$2); do
        index=${file##*/}
        get type "$at/gid_attrs/types/$index"
        [ "$type" != "RoCE v2" ] || return 0
        types+=" $type"
    done
    return 1
}

# A table may have a thousand entries; mostly it is one of the first.
check_gid() {
    local address gid index types=''
    address=$(address_of "$interface")
    if [ -z "$address" ]; then
        fail "roce: gid" "$interface has no IPv4 address to make one of" "ip addr add ADDRESS/24 dev $interface"
        return 0
    fi
    # shellcheck disable=SC2046,SC2183
    gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' $(tr . ' ' <<<"$address"))
    if find_gid "$gid" '?' || find_gid "$gid" '??*'; then
        ok "roce: gid" "number $index of $device is $address as RoCE v2"
    elif [ -n "$types" ]; then
        fail "roce: gid" "$device has $address only as$types" "take a device that does RoCE v2, or have its firmware do so"
    else
        fail "roce: gid" "$device has none of $address" "'ibv_devinfo -v -d $device' lists those that there are"
    fi
}

# Which type rdma_cm takes for groups. It can be seen only in a directory that somebody made: this one goes again.
check_mode() {
    local root=/sys/kernel/config/rdma_cm made='' mode
    if [ ! -d "$root/$device" ] && [ -w "$root" ] && mkdir "$root/$device" 2>/dev/null; then
        made=yes
    fi
    get mode "$root/$device/ports/$port/default_roce_mode"
    [ -z "$made" ] || rmdir "$root/$device" || true
    case $mode in
    "RoCE v2") ok "roce: mode" "groups are of RoCE v2" ;;
    '') warn "roce: mode" "cannot be seen: no $root, or not for this user" "as root: mount -t configfs none /sys/kernel/config" ;;
    *) fail "roce: mode" "groups are of $mode, and libllm takes RoCE v2 only" \
        "mkdir -p $root/$device; echo 'RoCE v2' >$root/$device/ports/$port/default_roce_mode" ;;
    esac
}

check_memlock() {
    local limit remedy="'ulimit -l unlimited', memlock in /etc/security/limits.conf, or LimitMEMLOCK=infinity of a service"
    limit=$(ulimit -l)
    if [ "$limit" = unlimited ]; then
        ok "roce: memlock" "unlimited"
    elif has_capability $CAP_IPC_LOCK; then
        ok "roce: memlock" "$limit KiB, which does not bind this user"
    elif ((limit < pages_wanted * 2048)); then
        fail "roce: memlock" "$limit KiB may be locked, and a context with a transmitter takes $((pages_wanted * 2048))" "$remedy"
    else
        warn "roce: memlock" "$limit KiB may be locked: $((limit / (pages_wanted * 2048))) contexts with a transmitter" "$remedy"
    fi
}

check_numa() {
    local node cpus near
    get node "$verbs/$device/device/numa_node"
    if [ "${node:--1}" = -1 ]; then
        ok "roce: numa" "$device belongs to no node"
        return 0
    fi
    get cpus "/sys/devices/system/node/node$node/cpulist"
    near=$({ allowed_cpus && expand "$cpus"; } | sort | uniq -d | wc -l)
    if [ "$near" = 0 ]; then
        warn "roce: numa" "$device is on node $node, and none of its CPUs may be used" \
            "allow some of CPU $cpus, by taskset or a cpuset"
    elif [ "$near" -lt "$(allowed_cpus | wc -l)" ]; then
        warn "roce: numa" "$device is on node $node, and not all CPUs are" "poll on one of CPU $cpus"
    else
        ok "roce: numa" "$device is on node $node, as all CPUs are that may be used"
    fi
}

check_qos() {
    local text=''
    if command -v mlnx_qos >/dev/null; then
        text=$(mlnx_qos -i "$interface" 2>/dev/null | grep -iE 'trust state|enabled' | tr -s '\t ' ' ' | paste -sd, || true)
    elif command -v dcb >/dev/null; then
        text=$(dcb pfc show dev "$interface" 2>/dev/null | grep -i prio-pfc || true)
    fi
    if [ -n "$text" ]; then
        ok "roce: pfc" "$text"
    else
        warn "roce: pfc" "whether the device pauses or is paused cannot be seen by mlnx_qos or dcb" \
            "ask the switch, for ECN too; docs/roce.md says which settings matter"
    fi
}

# Whatever a device calls them.
check_device_counters() {
    local text
    text=$(counted "$at"/{hw_,}counters/*{out_of_buffer,discard,drop,err,icrc}*)
    if [ -n "$text" ]; then
        warn "roce: counters" "$device has counted$text" \
            "look whether they grow: rdma statistic show link $device/$port; if it is out_of_buffer, raise rcvbuf_bytes"
    else
        ok "roce: counters" "$device counts no drops and no errors"
    fi
}

check_versions() {
    local driver firmware version parent
    driver=$(readlink -f "$verbs/$device/device/driver/module" 2>/dev/null || true)
    driver=${driver##*/}
    get parent "$verbs/$device/parent" # which only devices in software have
    [ -n "$driver" ] || [ "$parent" != "$interface" ] || driver=rdma_rxe
    get firmware "$verbs/$device/fw_ver"
    get version "/sys/module/${driver:-none}/version"
    ok "roce: versions" "firmware ${firmware:-unknown}, driver ${driver:-unknown}${version:+ $version}, Linux $(uname -r)"
}

check_roce() {
    [ -n "$chosen" ] || interface=$(roce_interface)
    check_library
    check_modules
    check_memlock
    check_network || return 0
    if check_device; then
        check_files
        check_port
        check_mtu
        check_gid
        check_mode
        check_numa
        check_qos
        check_device_counters
        check_versions
    fi
}

# That of the route if it has a device, else the first that has.
roce_interface() {
    local found
    found=$(default_interface)
    find_device "$found" || found=$(device_interface || true)
    printf '%s' "${found:-$(default_interface)}"
}

# ---------------------------------------------------------------------------------------------------------------- main

# What it looks with; where nothing can be installed it goes without.
tools=(iproute2 ethtool)
[ "$transport" = udp ] || tools+=(rdma-core ibverbs-utils)
[ ! -w /var/lib/dpkg ] || setup_packages "${tools[@]}" || true

chosen=$interface
interface=${chosen:-$(default_interface)}
case $transport in
udp) check_udp ;;
roce) check_roce ;;
*)
    check_udp
    if compgen -G "$verbs/*" >/dev/null; then
        check_roce
    else
        warn "roce: device" "this host has none" "--transport roce says what is missing"
    fi
    ;;
esac
check_huge_pages
check_cpus
check_isolation
exit $((failures > 0))
