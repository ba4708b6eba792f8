#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The tests in the guest, one result line each; run.sh starts it there: suite.sh BUILD_DIR SLOWNESS [TEST...]. SLOWNESS multiplies time
# limits, as setup_slowness says. suite.sh --plan BUILD_DIR SLOWNESS [TEST...], anywhere, only prints one line for each test that would
# run: `plan NAME`.
#
# To add one, write a line in every_test, below:
#   run FUNCTION                     a function of this file, which sets why if it fails
#   run NAME COMMAND...              a program that ends with 0, or with 77 if it is to be skipped
#   lines SCRIPT ARGUMENT...         a script that prints result lines itself; it takes names of tests too, which have entries: e2e NAME
set -euo pipefail

planning=''
[ "${1:-}" != --plan ] || { planning=yes && shift; }
build=${1:?usage: suite.sh BUILD_DIR SLOWNESS [TEST...]}
export LLM_SLOWNESS=${2:?usage: suite.sh BUILD_DIR SLOWNESS [TEST...]}
shift 2
chosen=("$@")
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../setup.sh
. "$here/../setup.sh"
# shellcheck source=../check.sh
. "$here/../check.sh"
# shellcheck source=in_guest.sh
. "$here/in_guest.sh"

started=()
limit=$((60 * LLM_SLOWNESS)) # seconds that any program may take: far more than it does

# Reads programs into memory once, so that no test waits for the host's disk: those of the build, and the larger ones that run
# them. The copy stays the same if the host builds again meanwhile.
read_programs() {
    local from=$build program
    build=$SETUP_SCRATCH/build
    mkdir "$build"
    cd "$from"
    find . -name '*.p' -prune -o -path ./tests/unit -prune -o -path ./tests/fuzz -prune -o -path ./tests/sim -prune -o \
        \( -name 'libllm.so*' -o -type f -perm -u+x \) -print0 | xargs -0 cp -a --parents -t "$build"
    cd - >/dev/null
    for program in bash python3 ip nft rdma tc timeout setpriv awk; do
        ! command -v "$program" >/dev/null || cat "$(command -v "$program")" >/dev/null
    done
}

# -------------------------------------------------------------------------------------------------------------- driver

end() {
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

end_started() {
    local pid
    for pid in "${started[@]}"; do
        end "$pid"
    done
    started=()
}

is_chosen() {
    [ ${#chosen[@]} = 0 ] || [[ " ${chosen[*]} " == *" ${1// /_} "* ]]
}

check_label="roce: "

check_after() {
    end_started
    roce_lose_nothing
    roce_netem_off $ROCE_IF_A
    roce_netem_off $ROCE_IF_B
}

# run NAME [COMMAND...]: runs a test as check does, if it is selected.
run() {
    is_chosen "$1" || return 0
    if [ -n "$planning" ]; then
        check_named "$@"
        echo "plan $check_name"
    else
        check "$@"
    fi
}

# Lists all tests, or the selected ones.
lines() {
    local status=0 name some=()
    for name in "${chosen[@]}"; do
        ! grep -Eqs "^e2e ${name// /_}( |\$)" "${1%/*}"/*.sh || some+=("$name")
    done
    [ ${#some[@]} -gt 0 ] || is_chosen "${1##*/}" || return 0
    if [ -n "$planning" ]; then
        "$@" --plan "${some[@]}" | sed 's/^plan /plan roce: /'
        return
    fi
    "$@" "${some[@]}" | sed -u '/^plan /d; s/^\(ok\|FAIL\|skip\) \(roce: \)\?/\1 roce: /' || status=$?
    check_failures=$((check_failures + (status > 0)))
}

# --------------------------------------------------------------------------------------------------------- foreign peer

need() {
    command -v "$1" >/dev/null || { why="someone with root has to run: apt-get install $2" && return 77; }
}

# listen ADDRESS GROUP COUNT: starts a receiver of another implementation, which ends after COUNT packets. Sets listener.
listen() {
    timeout "$limit" stdbuf -oL mckey -b "$1" -m "$2" -c 1 -C "$3" -S 64 >"$SETUP_SCRATCH/listener" 2>&1 &
    listener=$! started+=("$!")
    local tenths
    for ((tenths = 0; tenths < 10 * limit; tenths++)); do
        grep -q joined "$SETUP_SCRATCH/listener" && return 0
        sleep 0.1
    done
    why="mckey did not join: $(tail -n 1 "$SETUP_SCRATCH/listener")"
    return 1
}

# speak ADDRESS GROUP COUNT: waits three seconds before it sends.
speak() {
    timeout "$limit" mckey -s -b "$1" -m "$2" -c 1 -C "$3" -S 64 || { why="mckey did not send" && return 1; }
}

# heard PID: waits until the receiver has all packets.
heard() {
    wait "$1" || { why="mckey did not receive all" && return 1; }
}

# is WHAT NUMBER OPERATOR NUMBER
is() {
    awk "BEGIN { exit !($2 $3 $4) }" && return 0
    why="$1 is $2, not $3 $4"
    return 1
}

# Both devices receive the packets of one group: those of the other device cross the cable.
multicast_reaches_both_devices() {
    need mckey rdmacm-utils || return
    local far near before
    before=$(roce_count $ROCE_DEVICE_B rcvd_pkts)
    listen $ROCE_ADDRESS_B 239.193.8.1 100 && far=$listener && listen $ROCE_ADDRESS_A 239.193.8.1 100 && near=$listener &&
        speak $ROCE_ADDRESS_A 239.193.8.1 100 && heard "$far" && heard "$near" &&
        is "what came over the cable" $(($(roce_count $ROCE_DEVICE_B rcvd_pkts) - before)) == 100
}

# send_and_count COUNT: sends from A to B. Sets came, the packets received by B's device. The receiver's completion queue has
# twice the size of COUNT, at most 32767.
send_and_count() {
    local before
    before=$(roce_count $ROCE_DEVICE_B rcvd_pkts)
    listen $ROCE_ADDRESS_B 239.193.8.2 10000 && speak $ROCE_ADDRESS_A 239.193.8.2 "$1" || return
    end "$listener"
    came=$(($(roce_count $ROCE_DEVICE_B rcvd_pkts) - before))
}

# A's packets to itself are lost too, so received and lost packets are twice the sent ones, less those received by A.
nft_loses_packets() {
    need mckey rdmacm-utils && need nft nftables || return
    local near
    near=$(roce_count $ROCE_DEVICE_A rcvd_pkts)
    roce_lose 20 && send_and_count 1000 || return
    near=$(($(roce_count $ROCE_DEVICE_A rcvd_pkts) - near))
    is "what came to B" "$came" ">" 700 && is "what came to B" "$came" "<" 900 &&
        is "what came and was lost" $((came + near + $(roce_lost))) == 2000
}

port_becomes() {
    local tenths
    for ((tenths = 0; tenths < 10 * limit; tenths++)); do
        [ "$(roce_port "$1")" != "$2" ] || return 0
        sleep 0.1
    done
    why="the port of $1 is $(roce_port "$1"), not $2"
    return 1
}

# Prints the time of a bare hop, for readers of the results.
unicast_crosses_the_cable() {
    need ib_send_lat perftest || return
    local status=0 before tenths
    before=$(cat "/sys/class/net/$ROCE_IF_B/statistics/rx_packets")
    timeout "$limit" ib_send_lat -c UD -d $ROCE_DEVICE_B -n 1000 -s 64 >"$SETUP_SCRATCH/server" 2>&1 &
    started+=("$!")
    for ((tenths = 0; tenths < 10 * limit; tenths++)); do
        ss -tln | grep -q :18515 && break
        sleep 0.1
    done
    timeout "$limit" ib_send_lat -c UD -d $ROCE_DEVICE_A -n 1000 -s 64 $ROCE_ADDRESS_B | tee "$GUEST_RESULTS/ib_send_lat" ||
        status=$?
    [ "$status" = 0 ] || { why="ib_send_lat ended with status $status" && return 1; }
    is "what came over the cable" $(($(cat "/sys/class/net/$ROCE_IF_B/statistics/rx_packets") - before)) ">=" 1000
}

# refused CHANNEL TEXT [COMMAND...]: a receiver, started by the command if one is given, reports the error and ends.
refused() {
    local status=0
    timeout "$limit" "${@:3}" env LD_LIBRARY_PATH="$SETUP_SCRATCH/open" "$SETUP_SCRATCH/open/e2e_flood_receive" "$1" \
        2>"$SETUP_SCRATCH/refused" || status=$?
    [ "$status" != 0 ] && grep -q -- "$2" "$SETUP_SCRATCH/refused" && return 0
    why="$1: status $status, and not '$2': $(tail -n 1 "$SETUP_SCRATCH/refused")"
    return 1
}

wrong_settings_are_named() {
    local nobody="setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all --"
    local channel=roce://239.193.8.4:5004?interface=$ROCE_IF_A
    # In a directory that every user can run it from.
    mkdir -p "$SETUP_SCRATCH/open" && chmod 755 "$SETUP_SCRATCH" "$SETUP_SCRATCH/open" || return
    cp "$build/tests/e2e/e2e_flood_receive" "$build"/libllm.so.0 "$SETUP_SCRATCH/open/" && chmod -R a+rX "$SETUP_SCRATCH/open" || return
    refused "roce://239.193.8.4:5004?interface=lo" "interface lo.*rdma link" || return
    refused "roce://10.1.2.3:5004?interface=$ROCE_IF_A" "not multicast" || return
    refused "$channel&mtu=60000" "mtu=60000" || return
    chmod 600 /dev/infiniband/* || return
    # shellcheck disable=SC2086
    refused "$channel" "Permission denied.*/dev/infiniband\|/dev/infiniband" $nobody || return
    chmod 666 /dev/infiniband/* || return
    # shellcheck disable=SC2086
    refused "$channel" "65536 bytes may be locked.*ulimit -l" prlimit --memlock=65536 $nobody || return
    ip link set $ROCE_IF_B down && port_becomes $ROCE_DEVICE_A DOWN || return
    refused "$channel" "is down\|is PORT_DOWN" || return
    ip link set $ROCE_IF_B up && port_becomes $ROCE_DEVICE_A ACTIVE && roce_ready $ROCE_DEVICE_B $ROCE_ADDRESS_B
}

# ------------------------------------------------------------------------------------------------------------- doctor

# doctor [COMMAND...]: runs bench/run doctor on A, by the command. Sets said, and returns its status.
doctor() {
    local status=0
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || return
    "$@" "$SETUP_ROOT/bench/run" doctor --transport roce --interface $ROCE_IF_A >"$SETUP_SCRATCH/doctor" 2>&1 || status=$?
    said=$(cat "$SETUP_SCRATCH/doctor")
    printf '%s\n' "--- status $status" "$said"
    return "$status"
}

# doctor_fails CHECKS [COMMAND...]: exactly these checks fail.
doctor_fails() {
    local failed
    if doctor "${@:2}"; then
        why="nothing fails, and $1 should"
        return 1
    fi
    failed=$(sed -n 's/^FAIL \(roce: \)\?\([^:]*\): .*; .*/\2/p' <<<"$said" | paste -sd' ')
    [ "$failed" = "$1" ] || { why="what fails is $failed, and should be $1" && return 1; }
}

# as_v1 COMMAND...: the command reads RoCE v1 where A's device has v2. Soft-RoCE itself supports only v2.
as_v1() {
    local port=/sys/class/infiniband/$ROCE_DEVICE_A/ports/1 mode=/sys/kernel/config/rdma_cm/$ROCE_DEVICE_A status=0
    echo "IB/RoCE v1" >"$SETUP_SCRATCH/v1"
    mkdir "$mode" || return
    # shellcheck disable=SC2016
    unshare -m sh -c 'mount --bind "$0" "$1" && mount --bind "$0" "$2" && shift 2 && exec "$@"' "$SETUP_SCRATCH/v1" \
        "$port/gid_attrs/types/1" "$mode/ports/1/default_roce_mode" "$@" || status=$?
    rmdir "$mode" && return "$status"
}

doctor_finds_no_fault_of_a_good_device() {
    local name
    doctor || { why="$(grep FAIL <<<"$said" | head -n 1)" && return 1; }
    for name in modules device files port gid mode memlock numa versions; do
        [[ $said == *"ok   roce: $name: "* ]] || { why="does not say that $name is well" && return 1; }
    done
}

# All at once, because each run takes some seconds here.
doctor_names_faults() {
    ip link set $ROCE_IF_A down && port_becomes $ROCE_DEVICE_A DOWN &&
        doctor_fails "memlock interface port gid mode" as_v1 prlimit --memlock=65536 setpriv --bounding-set=-ipc_lock || return
    ip link set $ROCE_IF_A up && port_becomes $ROCE_DEVICE_A ACTIVE && roce_ready $ROCE_DEVICE_A $ROCE_ADDRESS_A
}

# ---------------------------------------------------------------------------------------------------------- benchmarks

# benchmark NAME OPTION...: runs it as bench/run does in a guest of its own; bench_fields.py requires all promised fields and no
# loss.
benchmark() {
    local json=$SETUP_SCRATCH/$1.json
    timeout "$limit" bash "$SETUP_ROOT/bench/run" "$@" --transport roce --in-guest "$build" --results "$SETUP_SCRATCH" \
        --json "$json" || { why="bench/run $1 ended with status $?" && return 1; }
    python3 "$SETUP_ROOT/tests/e2e/bench_fields.py" "$1" "$json" || { why="what is in its JSON" && return 1; }
    grep -q '"emulated": "' "$json" || { why="its JSON does not say that the devices are emulated" && return 1; }
    ! grep -Eq '"(raw_gbit_per_s|median)": null' "$json" || { why="nothing was measured bare" && return 1; }
}

# Half a second, longer on a slow machine, where a run might end before the first packet.
half_second=$((LLM_SLOWNESS / 2)).$((LLM_SLOWNESS % 2 * 5))

reflector_measures_hops() {
    benchmark reflector --size 45 --rate 500 --duration $half_second
}

# A number of messages, without a time limit.
throughput_measures_lossless_rates() {
    benchmark throughput --size 1000 --messages 2000 --duration $half_second
}

# --------------------------------------------------------------------------------------------------------------- tests

every_test() {
    [ -n "$planning" ] || roce_up
    run "programs of this host's build run" "$build/tests/contract" loop group
    run multicast_reaches_both_devices
    run nft_loses_packets
    run unicast_crosses_the_cable
    run doctor_finds_no_fault_of_a_good_device
    run doctor_names_faults
    run wrong_settings_are_named
    # Memory cached by threads counts as used.
    run "contract" env GLIBC_TUNABLES=glibc.malloc.tcache_count=0 "$build/tests/contract" roce 239.193.7.1 interface=$ROCE_IF_A
    run "contract with faults" "$build/tests/contract" impair+roce 239.193.7.2 only=faults interface=$ROCE_IF_A
    run reflector_measures_hops
    run throughput_measures_lossless_rates
    # From here on each device has a separate cable to a switch with IGMP snooping.
    [ -n "$planning" ] || { roce_down && roce_up --switch; }
    lines "$here/../e2e/run.sh" "$build" --hosts roce --transport roce --messages 3000 --rate 5000 --blast 60000 --loss 0,1,5
}

[ -n "$planning" ] || read_programs
every_test
exit $((check_failures > 0))
