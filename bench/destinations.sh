#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run destinations [OPTION...]

What a network without multicast costs: one stream to a list of hosts (option destinations of a channel), beside the same
stream to one group that as many receivers joined, in turns in the same run. For each number of receivers, at a steady rate: the
hop, its median and 99th percentile over all receivers, and the median of the one that gets its messages last. What the
transmitter spends: the time of an llm_send() whose message leaves by itself, and that of a message in bursts of 512, which fill
packets, until the kernel has the last one. Flat out, with flow=window and everybody counted: messages a second. Ratios are to
the group with as many receivers.

Receivers share a process, and a core, each in a context of its own and, of a list, at a port of its own. On this machine the
kernel that sends is the one that receives: copying a group's packet to each receiver's socket is the transmitter's time here,
and between machines a switch's. So ratios of a real network are nearer to the number of receivers than these.

Fails if a message was lost.

Options:
  --receivers N,...   numbers of receivers, 32 at most (1,2,4,8,16)
  --to NAME,...       which of group and list (both)
  --rate N            messages a second where the hop is measured (10000)
  --duration SECONDS  of each of the three measurements (0.3)
  --runs N            measure everything so often, in turns, and report medians (3)
  --size N            bytes of a message (45)
  --options K=V&..    options of all channels
  --cpus A,B          the CPUs of the transmitter and the receivers (0,1)
  --json FILE         where the JSON goes (the results directory)
  --results DIR       directory of results, the table too (build/bench-results)
  --help              this text
END
}

script="bench/run destinations"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

receivers=1,2,4,8,16 to=group,list rate=10000 duration=0.3 runs=3 size=45 options='' cpus=0,1 json='' results=''
parse_options "receivers to rate duration runs size options cpus json results" "$@"
check_numbers --receivers "$receivers" 1 32 1,4
check_words --to "$to" group list
check_number --rate "$rate" 1 1000000 10000
check_seconds --duration "$duration" 10 3600000
check_number --runs "$runs" 1 100 1
check_number --size "$size" 24 65507 45
check_options "$options"
[[ $options != *destinations=* ]] ||
    refuse "--options $options: destinations are what is measured; say how many with --receivers"
check_cpus "$cpus" 2
[ -z "$json" ] || check_file --json "$json"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"
# shellcheck source=steady.sh
. "$SETUP_ROOT/bench/steady.sh"

steady_flow

# measure RUN RECEIVERS KIND
measure() {
    local name=$1-$2-$3 where=(--address 239.192.1.1 --port 5001) common
    [ "$3" = group ] || where=(--address "$ADDRESS_B" --port 5011 --apart)
    common=("${where[@]}" --receivers "$2" --rate "$rate" --size "$size" --duration "$duration")
    steady_start "$HOST_B" "$name-receivers" destinations --role receivers --options "interface=$IF_B&$options" "${common[@]}" \
        --cpu "${cpus#*,}"
    steady_start "$HOST_A" "$name-transmitter" destinations --role transmitter --options "interface=$IF_A&$options" \
        "${common[@]}" --cpu "${cpus%,*}"
    steady_wait
}

steady_prepare destinations
for run in $(seq "$runs"); do
    for count in ${receivers//,/ }; do
        say "run $run, $((10#$count)) receivers of a ${to//,/, then of a }: three times $duration s each"
        for kind in ${to//,/ }; do
            measure "$run" "$((10#$count))" "$kind"
        done
    done
done
steady_report --receivers "$receivers" --to "$to" --rate "$rate" --duration "$duration" --runs "$runs" --size "$size" \
    --options "$options"
