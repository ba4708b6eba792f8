# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Tests side by side, which run.sh sources. Most tests wait most of their time: two lanes run them at once, each a run.sh with hosts
# and files of its own, which takes the next test that the other has not taken. What needs all of the machine runs alone, after them.

# Those that run alone.
# shellcheck disable=SC2034
alone_tests=()

# Those that look at what the others left: each lane runs them.
each_lane_tests=()

# Of a lane: where each test that was taken has a directory of its name.
taken=${LLM_E2E_TAKEN:-}

# take TEST: false if another lane has it, or if it is to run alone.
take() {
    [ -n "$taken" ] && [[ " ${each_lane_tests[*]} " != *" $1 "* ]] || return 0
    mkdir "$taken/$1" 2>/dev/null
}

# What a lane prints of a test comes in one piece.
show() {
    [ -z "$taken" ] || flock 9
    cat
    [ -z "$taken" ] || flock -u 9
}
[ -z "$taken" ] || exec 9<"$taken"

# side_by_side OPTION...: runs `all` but for what runs alone, which is left in `all`; run.sh's options are these. Fails if a test did.
side_by_side() {
    local test pid pids=() left=() status=0 directory=$SETUP_SCRATCH/taken
    mkdir "$directory"
    for test in "${all[@]}"; do
        [[ " ${alone_tests[*]} " != *" $test "* ]] || { left+=("$test") && mkdir "$directory/$test"; }
    done
    for _ in 1 2; do
        LLM_E2E_TAKEN=$directory setpriv --pdeathsig TERM -- "$here/run.sh" "$build" "$@" &
        pids+=("$!")
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=1
    done
    all=("${left[@]}")
    return "$status"
}
