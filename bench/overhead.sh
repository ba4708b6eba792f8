#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run overhead [OPTION...]

What features cost a message that has no use for them. Pairs of ends, a transmitter and a receiver in one thread, each with
other features on, take turns; the figure of a feature is the median, with the quartiles, of the differences of its turns to
those of a pair without any, of the same round. In each run all pairs are opened anew. Needs no network and no root.

  none              nothing: what chance does
  queues            the latency monitor at its second level, as wire and stages at both ends
  wire_transmitter  at its third level, at the transmitter only
  wire_receiver     at its third level, at the receiver only
  wire              at its third level, for which a message is to pay 10 ns at most
  stages            at its last level
  file              counters files, written every 100 ms; where there is one the watch runs, too
  watch             the bottleneck watch, with the receiver's reports to the transmitter
  arrival           order=arrival
  all               the last level of the monitor, and the last three

A lone message is sent at once and awaited; eight are sent together; a stream has some 2,000 messages under way. The receiver is
polled until they are there, the transmitter once for 64 messages, in a stream as often as the receiver.

Fails if a message is lost, changed or comes twice, or a feature did not do its work: histograms without samples, a counters
file that does not have the messages, a watch without a report. What it takes is never a failure.

Options:
  --transport NAME,...  which of loop, shm, and udp by the loopback interface (loop,shm)
  --pattern NAME,...    which of lone, eight and stream (all)
  --feature NAME,...    which of these (all)
  --rounds N            turns of each in a run (41)
  --messages N          of a turn, a multiple of 8; of a stream ten times as many (20000)
  --runs N              (5)
  --size N              bytes of a message (45)
  --watch SECONDS       the interval of the watch (1)
  --options K=V&..      options of all channels
  --cpu N               the CPU to run on (the one that it begins on)
  --json FILE           where the JSON goes (the results directory)
  --results DIR         directory of results, the table too (build/bench-results)
  --help                this text
END
}

script="bench/run overhead"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

features=none,queues,wire_transmitter,wire_receiver,wire,stages,file,watch,arrival,all
transport=loop,shm pattern=lone,eight,stream feature=$features rounds=41 messages=20000 runs=5 size=45 watch=1
options='' cpu='' json='' results=''
parse_options "transport pattern feature rounds messages runs size watch options cpu json results" "$@"
check_words --transport "$transport" loop shm udp
check_words --pattern "$pattern" lone eight stream
check_words --feature "$feature" ${features//,/ }
check_number --rounds "$rounds" 1 1000 41
check_number --messages "$messages" 64 10000000 20000
((10#$messages % 8 == 0)) || refuse "--messages $messages: must be a multiple of 8, such as $((10#$messages / 8 * 8))"
check_number --runs "$runs" 1 100 5
check_number --size "$size" 1 8192 45
check_seconds --watch "$watch" 1 60000
check_options "$options"
[[ ! $options =~ (^|&)order= ]] || refuse "--options $options: order is what is measured; leave it out"
[ -z "$cpu" ] || check_number --cpu "$cpu" 0 4095 0
[ -z "$cpu" ] || taskset -c "$((10#$cpu))" true 2>/dev/null ||
    refuse "--cpu $cpu: nothing may run there; take one of $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
[ -z "$json" ] || check_file --json "$json"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"

results=${results:-$SETUP_ROOT/build/bench-results}
json=${json:-$results/overhead.json}
mkdir -p "$results"
build=$SETUP_ROOT/build/release
setup_build "$build" --buildtype=release
# Counters files belong to memory.
counters=$(mktemp -d /dev/shm/libllm-XXXXXX 2>/dev/null) || counters=$SETUP_SCRATCH
setup_at_exit "rm -rf '$counters'"
status=0
setup_run "$build/bench/overhead" --transport "$transport" --pattern "$pattern" --feature "$feature" --rounds "$rounds" \
    --messages "$messages" --runs "$runs" --size "$size" --watch "$watch" --options "$options" ${cpu:+--cpu "$cpu"} \
    --directory "$counters" --json "$json" >"$results/overhead.txt" || status=$?
cat "$results/overhead.txt"
[ "$status" != 0 ] || say "table: $results/overhead.txt, JSON: $json"
exit "$status"
