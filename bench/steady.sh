# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the benchmarks share that run a transmitter and receivers of one program (bench/steady.h) as processes on two hosts, each of which
# writes its figures to a file, and of which a program in Python makes the table. Sourced behind tests/setup.sh; variables: results,
# json and options of the command line.
#
#   steady_prepare NAME                    Builds, makes the hosts and the directory for the processes' files, work.
#   steady_flow                            Has the channels leave no receiver behind, unless the options say otherwise.
#   steady_channel INTERFACE [K=V&..]      The channel, with the options of the command line.
#   steady_start HOST NAME PROGRAM ARG...  Starts a process, which is given --json and a file of that name.
#   steady_wait                            Waits until all of them have ended; once one fails the script does.
#   steady_report ARG...                   Has NAME.py make the table and the JSON of these files; returns its status.

steady_prepare() {
    benchmark=$1
    results=${results:-$SETUP_ROOT/build/bench-results}
    json=${json:-$results/$benchmark.json}
    mkdir -p "$results"
    setup_packages python3
    build=$SETUP_ROOT/build/release
    setup_build "$build" --buildtype=release
    setup_hosts
    [ "$HOSTS_KIND" != loopback ] || refuse "needs network namespaces: root, or unprivileged user namespaces"
    work=$SETUP_SCRATCH/$benchmark
    mkdir -p "$work"
    steady_pids=()
}

steady_flow() {
    [[ $options == *flow=* ]] || options="flow=window${options:+&$options}"
    [[ $options == *flow_quorum_percent=* ]] || options="$options&flow_quorum_percent=100"
}

steady_channel() {
    printf 'udp://239.192.1.1:5001?interface=%s%s%s' "$1" "${2:+&$2}" "${options:+&$options}"
}

# Each ends with this script even if that is killed and cannot end it itself. Descriptors 7 and 8 may be
# pipes between them, which none of them is to hold.
steady_start() {
    local host=$1 name=$2 program=$3
    # shellcheck disable=SC2086
    $host setpriv --pdeathsig KILL -- "$build/bench/$program" "${@:4}" --json "$work/$name.json" <&0 7>&- 8>&- &
    steady_pids+=($!)
}

steady_wait() {
    local ended left pid
    while [ ${#steady_pids[@]} -gt 0 ]; do
        wait -n -p ended "${steady_pids[@]}" || { say "the benchmark failed" && exit 1; }
        left=()
        for pid in "${steady_pids[@]}"; do
            [ "$pid" = "$ended" ] || left+=("$pid")
        done
        steady_pids=("${left[@]}")
    done
}

steady_report() {
    local status=0
    python3 -B "$SETUP_ROOT/bench/$benchmark.py" "$work" "$json" "$@" >"$results/$benchmark.txt" || status=$?
    cat "$results/$benchmark.txt"
    say "table: $results/$benchmark.txt, JSON: $json"
    return "$status"
}
