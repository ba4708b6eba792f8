#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run kept [OPTION...]

What it costs that topics keep their last messages for those who join late, and what these gain. For each number of topics,
which messages take turns on:

What the transmitter spends: two streams in one process, of topics that keep their last messages and of topics that do not,
in turns, without a network: nanoseconds a message, instructions a message (if valgrind is installed), and the memory that
what is kept takes. Medians of 31 turns.

How long one that joins waits: from when its context is opened until it has the last message of each topic (join=latest),
which is when it is told that it is live; beside as many that join from now (join=live), in turns with them, until their
first message. These have the last message of each topic only when all were sent again, after a round. Each stays for 100
messages more, and then leaves. What it got is checked: the last message of each topic, none twice, and all of the stream.

What a receiver that is there notices: its hop, from when a message was due to its delivery, before they join and meanwhile.
It has a core of its own if there are three; with two it sleeps between messages, and who joins has the rest of its core at
the lowest priority. "20ms" is the median of the 99th percentiles of times of 20 ms (from 5,000 messages a second on).

Fails if one that joined lacks the last message of a topic, or has a message twice, or never was live, or if the receiver
that was there lost one.

Options:
  --topics N,...      numbers of topics (10,1000,10000)
  --keep N            messages that each keeps (1)
  --joiners N         that join, every second one from now (40)
  --duration SECONDS  in which they begin to, at equal distances (2)
  --calm SECONDS      before and after that (1)
  --rate N            messages a second (10000)
  --size N            bytes of a message (45)
  --send SECONDS      for which the two streams send (0.5)
  --count yes|no      whether instructions are counted (yes if valgrind is installed)
  --runs N            measure everything but instructions so often, in turns, and report medians (3)
  --options K=V&..    options of all channels, such as replay_bytes_per_s=64M
  --cpus A,B,C        the CPUs of the transmitter, of the receiver that is there, and of those that join (0,1,2, or with two
                      CPUs 0,1,1)
  --json FILE         where the JSON goes (the results directory)
  --results DIR       directory of results, the table too (build/bench-results)
  --help              this text
END
}

script="bench/run kept"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

topics=10,1000,10000 keep=1 joiners=40 duration=2 calm=1 rate=10000 size=45 send=0.5 count='' runs=3
options='' cpus='' json='' results=''
keep_bytes=67108864 # of a transmitter, that its topics may take
parse_options "topics keep joiners duration calm rate size send count runs options cpus json results" "$@"
check_numbers --topics "$topics" 1 16000 10,10000
check_number --keep "$keep" 1 1048576 1
check_number --joiners "$joiners" 2 100000 40
check_seconds --duration "$duration" 100 3600000
check_seconds --calm "$calm" 100 3600000
check_number --rate "$rate" 1 1000000 10000
check_number --size "$size" 24 65507 45
numbers=()
for number in ${topics//,/ }; do
    number=$((10#$number))
    [[ " ${numbers[*]} " == *" $number "* ]] || numbers+=("$number")
    ((number * 10#$keep * (10#$size + 28) <= keep_bytes)) ||
        refuse "--keep $keep: messages of $size bytes on $number topics take more than $((keep_bytes >> 20)) MiB; keep fewer"
done
check_seconds --send "$send" 10 3600000
: "${count:=$(command -v valgrind >/dev/null && echo yes || echo no)}"
[[ $count =~ ^(yes|no)$ ]] || refuse "--count $count: must be yes or no"
[ "$count" = no ] || command -v valgrind >/dev/null || refuse "--count yes: valgrind is not installed"
check_number --runs "$runs" 1 100 1
check_options "$options"
[ -n "$cpus" ] || cpus=0,1,$(($(nproc) > 2 ? 2 : 1))
check_cpus "$cpus" 3
[ -z "$json" ] || check_file --json "$json"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"
# shellcheck source=steady.sh
. "$SETUP_ROOT/bench/steady.sh"

IFS=, read -r cpu_transmitter cpu_live cpu_joiners <<<"$cpus"
# Who shares a core with the receiver that is there takes what it leaves.
wait=spin idle=()
[ "$cpu_live" != "$cpu_joiners" ] || wait=block idle=(--idle)

# sending NAME TOPICS: both streams.
sending() {
    steady_start "$HOST_A" "$1-sending" kept --topics "$2" --keep "$keep" --size "$size" --duration "$send" \
        --cpu "$cpu_transmitter"
    steady_wait
}

# joining NAME TOPICS: nobody is overtaken by the end of a history that is so long.
joining() {
    local common=(--rate "$rate" --size "$size" --duration "$duration" --calm "$calm" --joiners "$joiners" --history 65536
        --past $(($2 * 10#$keep)) --topics "$2" --keep "$keep")
    # Opened for both at first, so that neither end waits for the other.
    mkfifo "$work/$1-phases" "$work/$1-done"
    exec 7<>"$work/$1-phases" 8<>"$work/$1-done"
    steady_start "$HOST_A" "$1-live" join --role live --channel "$(steady_channel "$IF_A")" "${common[@]}" --cpu "$cpu_live" \
        --wait $wait
    steady_start "$HOST_B" "$1-joiners" join --role joiners --channel "$(steady_channel "$IF_B" join=latest)" \
        --other "$(steady_channel "$IF_B" join=live)" "${common[@]}" --cpu "$cpu_joiners" "${idle[@]}" \
        <"$work/$1-phases" >"$work/$1-done"
    steady_start "$HOST_A" "$1-transmitter" join --role transmitter --channel "$(steady_channel "$IF_A")" "${common[@]}" \
        --cpu "$cpu_transmitter" <"$work/$1-done" >"$work/$1-phases"
    exec 7>&- 8>&-
    steady_wait
}

# counting TOPICS: callgrind writes a file for either stream.
counting() {
    LD_BIND_NOW=1 setup_run valgrind --quiet --tool=callgrind --collect-atstart=no '--toggle-collect=kept_count*' \
        '--dump-before=kept_end*' --callgrind-out-file="$work/$1-count" \
        "$build/bench/kept" --topics "$1" --keep "$keep" --size "$size" --count >"$work/counted" 2>"$work/count.log" ||
        { cat "$work/count.log" >&2 && say "counting instructions failed" && exit 1; }
}

steady_prepare kept
for run in $(seq "$runs"); do
    for number in "${numbers[@]}"; do
        say "run $run, $number topics: two streams for $send s, then $joiners that join within $duration s"
        sending "$run-$number" "$number"
        joining "$run-$number" "$number"
    done
done
[ "$count" = no ] || say "counting instructions"
for number in "${numbers[@]}"; do
    [ "$count" = no ] || counting "$number"
done
steady_report --topics "$topics" --keep "$keep" --rate "$rate" --size "$size" --duration "$duration" --calm "$calm" \
    --runs "$runs" --wait "$wait" --options "$options"
