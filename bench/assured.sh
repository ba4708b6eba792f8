#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run assured [OPTION...]

What it costs to know that messages arrived. A topic of each level of assurance in turn, with so many receivers on another host: unreliable;
reliable; reliable without history; acknowledged by one receiver, and by all; and acknowledged by all their applications, one message at a time.
At steady rates: the hop, and the time from when a message was due until the transmitter's application is told that it is acknowledged.
Flat out, with flow=window and at most 1,024 messages that are not acknowledged (the defaults of struct llm_assurance): messages a
second. Ratios are to reliable with as many receivers in the same run.

Receivers share a process, and a core, each in a context of its own. Fails if a message was lost on a topic that is not unreliable, or never
acknowledged.

Options:
  --level NAME,...    which of unreliable, reliable, no_history, acknowledged_by_one, acknowledged_by_all and by_applications (all)
  --receivers N,...   numbers of receivers (1,3)
  --rate N,...        messages a second, 0: flat out (10000,100000,0)
  --duration SECONDS  of each rate (0.3)
  --runs N            measure everything so often, in turns, and report medians (3)
  --size N            bytes of a message (45)
  --options K=V&..    options of all channels
  --cpus A,B          the CPUs of the transmitter and the receivers (0,1)
  --json FILE         where the JSON goes (the results directory)
  --results DIR       directory of results, the table too (build/bench-results)
  --help              this text
END
}

script="bench/run assured"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

levels=unreliable,reliable,no_history,acknowledged_by_one,acknowledged_by_all,by_applications
level=$levels receivers=1,3 rate=10000,100000,0 duration=0.3 runs=3 size=45 options='' cpus=0,1 json='' results=''
parse_options "level receivers rate duration runs size options cpus json results" "$@"
check_words --level "$level" ${levels//,/ }
check_numbers --receivers "$receivers" 1 64 1,3
check_numbers --rate "$rate" 0 10000000 10000,0
[[ ! $rate =~ (,.*){16} ]] || refuse "--rate $rate: must be 16 numbers at most"
check_seconds --duration "$duration" 10 3600000
check_number --runs "$runs" 1 100 1
check_number --size "$size" 24 65507 45
check_options "$options"
check_cpus "$cpus" 2
[ -z "$json" ] || check_file --json "$json"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"
# shellcheck source=steady.sh
. "$SETUP_ROOT/bench/steady.sh"

steady_flow

# measure RUN RECEIVERS LEVEL
measure() {
    local name=$1-$2-$3 topic=$3 by=1 application=() with='' common
    case $3 in
    acknowledged_by_one) topic=assured ;;
    acknowledged_by_all) topic=assured by=$2 ;;
    by_applications) topic=assured by=$2 application=(--acknowledge) with=acknowledge=application ;;
    esac
    common=(--level "$topic" --receivers "$2" --by "$by" --rate "$rate" --size "$size" --duration "$duration")
    steady_start "$HOST_B" "$name-receivers" assured --role receivers --channel "$(steady_channel "$IF_B" $with)" "${common[@]}" \
        "${application[@]}" --cpu "${cpus#*,}"
    steady_start "$HOST_A" "$name-transmitter" assured --role transmitter --channel "$(steady_channel "$IF_A")" "${common[@]}" \
        --cpu "${cpus%,*}"
    steady_wait
}

steady_prepare assured
for run in $(seq "$runs"); do
    for count in ${receivers//,/ }; do
        say "run $run, $count receivers: each level for $duration s at each of the rates $rate"
        for kind in ${level//,/ }; do
            # All of one are one.
            [ "$kind" = acknowledged_by_all ] && ((10#$count == 1)) && [[ ,$level, == *,acknowledged_by_one,* ]] ||
                measure "$run" "$((10#$count))" "$kind"
        done
    done
done
steady_report --level "$level" --receivers "$receivers" --rate "$rate" --duration "$duration" --runs "$runs" --size "$size" --options "$options"
