# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Functions that tests/run and bench/run share: packages, the build, and two hosts to run programs on. Source it from bash:
#
#   set -euo pipefail
#   . "$(dirname "$0")/../tests/setup.sh"
#
#   setup_packages PKG...       Installs the Debian packages that are missing if this is root; else names them and returns 1.
#   setup_build DIR [OPTION...] Configures DIR with meson (options as for meson setup) and builds it. Silent but for one line of
#                               progress, unless it fails: then prints what failed and returns 1.
#   setup_hosts [KIND [five]]   Makes two hosts joined by a cable and sets the variables below. Returns 1 only if KIND was asked
#                               for and cannot be had. KIND: netns, userns, loopback; without it the first of these that works;
#                               or memory: two processes of this host; or roce: the two devices that roce_up of tests/roce/in_guest.sh made.
#                               five: so many hosts that are namespaces, joined by a switch.
#   setup_run COMMAND...        Runs a command and returns its status. Unlike a plain command it does not hold signals back:
#                               use it for everything that takes long.
#   setup_slowness              Measures how fast this machine is now, unless LLM_SLOWNESS says it, and exports that: by how many times
#                               slower it is than the one on which time limits were set; at least 1, at most 30. Limits are
#                               multiplied by it.
#   setup_at_exit COMMAND       Runs COMMAND (one string) when the script ends, however it ends; the last one given runs first.
#   say TEXT...                 A line of progress, on stderr.
#
# Set by setup_hosts:
#   HOST_A, HOST_B     prefix of a command to run there; expand without quotes: $HOST_A ip addr
#   IF_A, IF_B         the interface that each has to the other
#   ADDRESS_A, ADDRESS_B  their IPv4 addresses; between namespaces also fd77::1 and fd77::2
#   HOST_C, HOST_D, HOST_E, ADDRESS_C, ADDRESS_D, ADDRESS_E
#                      likewise, of three more, whose interfaces are named as B's is; B again if there are two
#   HOST_SWITCH        prefix too, of the switch that joins five: a bridge, its ports port-a to port-e; empty if there is none
#   HOSTS_KIND         netns (root), userns (unprivileged namespaces), loopback (no namespaces allowed: both are this host),
#                      memory (no network at all), roce (one namespace with two RDMA devices, joined by a cable or a switch)
#
# Set on sourcing:
#   SETUP_ROOT         the top directory of the source
#   SETUP_SCRATCH      a directory for temporary files, gone when the script ends
#
# Sourcing sets traps on EXIT, INT, TERM and HUP; they end all background jobs of the script, and the hosts with them. The
# namespaces have no names, so runs do not collide, and they go even if the script is killed by SIGKILL.

SETUP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SETUP_SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/libllm-XXXXXX")
setup_exit_commands=()

say() {
    printf '%s\n' "$*" >&2
}

setup_at_exit() {
    setup_exit_commands=("$1" "${setup_exit_commands[@]}")
}

# Ends every background job: politely, then for good. The hosts' keeper is one of them.
setup_end_jobs() {
    local pids
    pids=$(jobs -p)
    [ -n "$pids" ] || return 0
    # shellcheck disable=SC2086
    kill $pids 2>/dev/null || true
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(jobs -rp)" ] || return 0
        sleep 0.1
    done
    # shellcheck disable=SC2086
    kill -9 $pids 2>/dev/null || true
}

setup_cleanup() {
    trap '' INT TERM HUP
    local command
    for command in "${setup_exit_commands[@]}"; do
        eval "$command" || true
    done
    setup_end_jobs 2>/dev/null || true
    rm -rf "$SETUP_SCRATCH"
}

trap setup_cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# bash defers traps while it waits for a plain command, but not while it waits for a job.
setup_run() {
    local status=0
    "$@" &
    wait $! || status=$?
    return "$status"
}

# --------------------------------------------------------------------------------------------------------------- speed

# A fixed piece of work: starting programs, and computing.
setup_work() {
    local i
    for ((i = 0; i < 50; i++)); do
        /bin/true
    done
    for ((i = 0; i < 100000; i++)); do
        :
    done
}

# Milliseconds of the slower of two concurrent runs.
setup_work_ms() {
    local begin pids=()
    begin=$(date +%s%N)
    setup_work &
    pids+=("$!")
    setup_work &
    pids+=("$!")
    wait "${pids[@]}"
    echo $((($(date +%s%N) - begin) / 1000000))
}

setup_slowness() {
    local expected=300 took
    if ! [[ ${LLM_SLOWNESS:-} =~ ^[1-9][0-9]?$ ]]; then
        took=$(setup_work_ms)
        LLM_SLOWNESS=$(((took + expected - 1) / expected))
        LLM_SLOWNESS=$((LLM_SLOWNESS < 1 ? 1 : LLM_SLOWNESS > 30 ? 30 : LLM_SLOWNESS))
    fi
    export LLM_SLOWNESS
}

# ------------------------------------------------------------------------------------------------------------ packages

setup_missing() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

setup_packages() {
    if ! command -v dpkg-query >/dev/null; then
        say "not a Debian system: taking it that the equivalents of these packages are installed: $*"
        return 0
    fi
    local missing
    missing=$(setup_missing "$@" | tr '\n' ' ')
    missing=${missing% }
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        say "not installed: $missing. Someone with root has to run: apt-get install $missing"
        return 1
    fi
    say "installing $missing"
    # shellcheck disable=SC2086
    if ! setup_run setup_apt $missing >"$SETUP_SCRATCH/apt.log" 2>&1; then
        tail -n 20 "$SETUP_SCRATCH/apt.log" >&2
        say "could not install: $missing"
        return 1
    fi
}

# The usual reason for a failed first attempt is a stale package list.
setup_apt() {
    local install=(apt-get install -y --no-install-recommends "$@")
    export DEBIAN_FRONTEND=noninteractive
    "${install[@]}" || { apt-get update && "${install[@]}"; }
}

# --------------------------------------------------------------------------------------------------------------- build

# Builds SETUP_TARGETS only, if that is set.
setup_meson() {
    local dir=$1
    shift
    # Two runs may share a build directory; the lock is on the directory itself and ends with this subshell.
    exec 9<"$dir"
    flock 9
    if [ ! -e "$dir/build.ninja" ]; then
        meson setup "$@" "$dir" "$SETUP_ROOT" || return 1
    elif [ $# -gt 0 ]; then
        # New options are known only to a directory that was configured since.
        ninja -C "$dir" build.ninja 9<&- && meson configure "$@" "$dir" || return 1
    fi
    # shellcheck disable=SC2086
    ninja -C "$dir" ${SETUP_TARGETS:-} 9<&-
}

setup_build() {
    local log=$SETUP_SCRATCH/build.log
    mkdir -p "$1" || return 1
    say "building in $1"
    if ! setup_run setup_meson "$@" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        say "the build in $1 failed"
        return 1
    fi
}

# --------------------------------------------------------------------------------------------------------------- hosts

# setup_keep_namespaces COUNT [OPTION...]: creates network namespaces that live as long as the keeper, which ends with its
# standard input: with this script. Prints the process ids by which they can be entered.
setup_keep_namespaces() {
    exec unshare "${@:2}" -n sh -c 'echo $$; exec 3<&0; for i in $(seq 2 "$0"); do
        unshare -n sh -c "echo \$\$; read -r _" <&3 & done; wait' "$1" 2>/dev/null
}

setup_in() {
    local prefix=$1
    shift
    $prefix sh -c "$*" >>"$SETUP_SCRATCH/hosts.log" 2>&1
}

# Without duplicate address detection, which takes IPv6 a second, addresses are usable at once. IPv6 addresses would be removed
# when the interface goes down.
setup_host_up() {
    local prefix=$1 interface=$2 number=$3
    setup_in "$prefix" "
        ip link set lo up &&
        { echo 0 >/proc/sys/net/ipv6/conf/$interface/accept_dad || true; } &&
        { echo 1 >/proc/sys/net/ipv6/conf/$interface/keep_addr_on_down || true; } &&
        ip addr add 10.77.0.$number/24 dev $interface &&
        ip link set $interface mtu 1500 up &&
        { ip -6 addr add fd77::$number/64 dev $interface nodad || true; }"
}

# The kernel detects a carrier, and adds IPv6 routes, with a delay.
setup_host_ready() {
    local prefix=$1 interface=$2
    setup_in "$prefix" "
        ip -6 addr show dev $interface | grep -q fd77: || exit 0
        for i in \$(seq $((500 * ${LLM_SLOWNESS:-1}))); do ip -6 route get ff15::1 oif $interface && exit 0; sleep 0.01; done
        echo 'no IPv6 route on $interface in time'; exit 1"
}

# setup_hosts_up PREFIX...: host A first.
setup_hosts_up() {
    local number=1 prefix interface=$IF_A
    for prefix in "$@"; do
        setup_host_up "$prefix" "$interface" $number || return
        number=$((number + 1)) interface=$IF_B
    done
    setup_host_ready "$1" "$IF_A" || return
    for prefix in "${@:2}"; do
        setup_host_ready "$prefix" "$IF_B" || return
    done
}

# setup_keeper COUNT OPTION...: sets pids, those of the namespaces.
setup_keeper() {
    local pid
    coproc SETUP_KEEPER { setup_keep_namespaces "$@"; }
    setup_keeper_pid=$SETUP_KEEPER_PID
    local answers=${SETUP_KEEPER[0]}
    while ((${#pids[@]} < $1)); do
        read -r -t $((10 * ${LLM_SLOWNESS:-1})) pid <&"$answers" && pids+=("$pid") || return 1
    done
}

setup_join() {
    local enter=$1 user=$2 pids=()
    # shellcheck disable=SC2086
    setup_keeper 2 $user || return
    HOST_A="$enter -t ${pids[0]} -n --" HOST_B="$enter -t ${pids[1]} -n --"
    IF_A=llm-a IF_B=llm-b ADDRESS_A=10.77.0.1 ADDRESS_B=10.77.0.2
    setup_in "$HOST_A" "ip link add $IF_A type veth peer name $IF_B netns ${pids[1]}" && setup_hosts_up "$HOST_A" "$HOST_B"
}

# setup_switch PID...: pids of the hosts, A first.
setup_switch() {
    local port pid interface=$IF_A
    setup_in "$HOST_SWITCH" "ip link add switch type bridge mcast_snooping 0 && ip link set switch up" || return
    for port in a b c d e; do
        pid=$1
        setup_in "$HOST_SWITCH" "ip link add port-$port type veth peer name $interface netns $pid &&
            ip link set port-$port master switch up" || return
        interface=$IF_B
        shift
    done
}

setup_join_five() {
    local enter=$1 user=$2 pids=() in=()
    # shellcheck disable=SC2086
    setup_keeper 6 $user || return
    in=("${pids[@]/#/$enter -t }")
    in=("${in[@]/%/ -n --}")
    HOST_A=${in[0]} HOST_B=${in[1]} HOST_C=${in[2]} HOST_D=${in[3]} HOST_E=${in[4]} HOST_SWITCH=${in[5]}
    IF_A=llm-a IF_B=llm-b
    ADDRESS_A=10.77.0.1 ADDRESS_B=10.77.0.2 ADDRESS_C=10.77.0.3 ADDRESS_D=10.77.0.4 ADDRESS_E=10.77.0.5
    setup_switch "${pids[@]}" && setup_hosts_up "${in[@]:0:5}"
}

# setup_try_hosts KIND [five]
setup_try_hosts() {
    HOSTS_KIND=$1 HOST_SWITCH=''
    case $1 in
    netns) [ "$(id -u)" = 0 ] && "setup_join${2:+_$2}" nsenter "" ;;
    userns) "setup_join${2:+_$2}" "nsenter -U --preserve-credentials" -Ur ;;
    loopback) HOST_A="" HOST_B="" IF_A=lo IF_B=lo ADDRESS_A=127.0.0.1 ADDRESS_B=127.0.0.1 ;;
    memory) HOST_A="" HOST_B="" IF_A="" IF_B="" ADDRESS_A="" ADDRESS_B="" ;;
    roce)
        HOST_A="" HOST_B="" IF_A=${ROCE_IF_A:-} IF_B=${ROCE_IF_B:-}
        ADDRESS_A=${ROCE_ADDRESS_A:-} ADDRESS_B=${ROCE_ADDRESS_B:-}
        [ -n "$IF_A" ] && [ -d "/sys/class/net/$IF_A" ]
        ;;
    *) say "no such kind of hosts: $1 (netns, userns, loopback, memory or roce)" && return 1 ;;
    esac
}

setup_only_two() {
    HOST_C=$HOST_B HOST_D=$HOST_B HOST_E=$HOST_B
    ADDRESS_C=$ADDRESS_B ADDRESS_D=$ADDRESS_B ADDRESS_E=$ADDRESS_B
}

setup_drop_keeper() {
    [ -n "${setup_keeper_pid:-}" ] || return 0
    kill "$setup_keeper_pid" 2>/dev/null || true
    wait "$setup_keeper_pid" 2>/dev/null || true
    setup_keeper_pid=
}

setup_hosts() {
    local kind
    # shellcheck disable=SC2086
    for kind in ${1:-netns userns loopback}; do
        setup_try_hosts "$kind" "${2:-}" && break
        setup_drop_keeper
        HOSTS_KIND=
    done
    case $HOSTS_KIND in
    netns) say "hosts: ${2:-two} network namespaces joined by ${2:+a switch and }veth" ;;
    userns) say "hosts: ${2:-two} unprivileged network namespaces joined by ${2:+a switch and }veth (not root)" ;;
    loopback) say "hosts: this one, over loopback: network namespaces need root, or unprivileged user namespaces and the package iproute2" ;;
    memory) say "hosts: two processes of this one share memory" ;;
    roce) say "hosts: two RDMA devices of this one" ;;
    *)
        [ ! -s "$SETUP_SCRATCH/hosts.log" ] || tail -n 5 "$SETUP_SCRATCH/hosts.log" >&2
        say "cannot make the hosts asked for: $1"
        return 1
        ;;
    esac
    [ -n "$HOST_SWITCH" ] || setup_only_two
}
