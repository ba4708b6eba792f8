#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: bench/run filter [OPTION...]

What a message costs a receiver that filters: of 10,000 topics with 1 % subscribed to against all of them, rejected by label, by
bitmap, by selector, and by the summary of its packet. In one process, from the cache, without a network: rows take turns, and
each has the median of 31 runs.

Options:
  --cpu N        the CPU to run on (0)
  --json FILE    where the JSON goes (the results directory)
  --results DIR  directory of results, the table too (build/bench-results)
  --help         this text
END
}

script="bench/run filter"
# shellcheck source=script.sh
. "$(dirname "$0")/script.sh"

cpu=0 json='' results=''
parse_options "cpu json results" "$@"
[[ $cpu =~ ^[0-9]{1,4}$ ]] || refuse "--cpu $cpu: must be the number of a CPU, such as 0"
[ -z "$json" ] || check_file --json "$json"

# shellcheck source=../tests/setup.sh
. "$(dirname "$0")/../tests/setup.sh"

results=${results:-$SETUP_ROOT/build/bench-results}
json=${json:-$results/filter.json}
mkdir -p "$results"
build=$SETUP_ROOT/build/release
setup_build "$build" --buildtype=release
taskset -c "$cpu" "$build/bench/filter" "$json" | tee "$results/filter.txt"
echo "JSON: $json"
