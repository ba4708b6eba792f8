#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run order [OPTION...]

What it buys to take messages as they arrive (order=arrival). A transmitter keeps a rate, and a receiver on another host loses
so many of the packets that it gets (impair+): with order=sequence messages behind a lost packet wait until it was repaired,
with order=arrival only those in it come late. Both take turns. The hosts are near each other, where a repair takes no longer
than a scheduler; so what the receiver says to the transmitter is late by a random time, as over a longer way.

Prints percentiles of the hop, from when a message was due to its delivery: of each 50 ms, and of these the median, as what else
runs on the machine meets few of them (from 2,000 messages a second on); and of whole turns. Medians of the runs, and of the
ratios within a run.

Fails if a message was lost, came twice or changed, or came out of sequence with order=sequence; or if no packet was lost where
hundreds were to be, or with order=arrival no message came ahead of more than a hundred.

Options:
  --loss PERCENT,...  of packets, with decimals (0,0.1,1)
  --delay SECONDS     up to which NAKs are late, at random (0.002); 0: not at all
  --rate N            messages a second (20000)
  --size N            bytes of a message (45)
  --duration SECONDS  of each turn (1)
  --runs N            turns of each (5)
  --options K=V&..    options of all channels
  --cpus A,B          the CPUs of the transmitter and the receiver (0,1)
  --json FILE         where the JSON goes (the results directory)
  --results DIR       directory of results, the table too (build/bench-results)
  --help              this text
END
}

script="bench/run order"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

loss=0,0.1,1 delay=0.002 rate=20000 size=45 duration=1 runs=5 options='' cpus=0,1 json='' results=''
parse_options "loss delay rate size duration runs options cpus json results" "$@"
[[ $loss =~ ^[0-9]{1,2}(\.[0-9]{1,4})?(,[0-9]{1,2}(\.[0-9]{1,4})?)*$ ]] ||
    refuse "--loss $loss: must be percents below 100 with commas between, with at most four decimals, such as 0,0.1,1"
check_seconds --delay "$delay" 0 1000
check_number --rate "$rate" 1 1000000 20000
check_number --size "$size" 24 65507 45
check_seconds --duration "$duration" 10 60000
check_number --runs "$runs" 1 100 5
check_options "$options"
[[ ! $options =~ (^|&)(order|impair_[a-z_]*)= ]] ||
    refuse "--options $options: order and losses are what is measured; leave them out"
check_cpus "$cpus" 2
[ -z "$json" ] || check_file --json "$json"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"
# shellcheck source=steady.sh
. "$SETUP_ROOT/bench/steady.sh"

# ppm_of PERCENT
ppm_of() {
    local decimals=''
    [[ $1 != *.* ]] || decimals=${1#*.}
    decimals=${decimals}0000
    printf %d $((10#${1%.*} * 10000 + 10#${decimals:0:4}))
}

far='' late=''
delay_ms=$(milliseconds_of "$delay")
((delay_ms == 0)) || far=impair+ late="impair_delay_ns=${delay_ms}000000"

# measure RUN LOSS ORDER
measure() {
    local name=$1-$2-$3 common=(--rate "$rate" --size "$size" --duration "$duration")
    local lossy="order=$3&impair_loss_ppm=$(ppm_of "$2")&impair_seed=$1"
    steady_start "$HOST_B" "$name-receiver" order --role receiver --channel "impair+$(steady_channel "$IF_B" "$lossy")" \
        "${common[@]}" --cpu "${cpus#*,}"
    steady_start "$HOST_A" "$name-transmitter" order --role transmitter --channel "$far$(steady_channel "$IF_A" $late)" \
        "${common[@]}" --cpu "${cpus%,*}"
    steady_wait
}

steady_prepare order
for run in $(seq "$runs"); do
    say "run $run: both orders, for $duration s each at losses of $loss %"
    # Who begins changes.
    orders="sequence arrival"
    ((run % 2 == 1)) || orders="arrival sequence"
    for percent in ${loss//,/ }; do
        for order in $orders; do
            measure "$run" "$percent" "$order"
        done
    done
done
steady_report --loss "$loss" --delay "$delay" --rate "$rate" --size "$size" --duration "$duration" --runs "$runs" \
    --options "$options"
