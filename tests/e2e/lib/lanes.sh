# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# Tests side by side. Most tests wait most of their time: two lanes run them at once, each a run.sh with hosts and files of its own,
# which takes the next test that the other has not taken. What needs all of the machine runs alone, after them.

# Of a lane: where each test that was taken has a directory of its name.
taken=${LLM_E2E_TAKEN:-}

# take TEST: false if another lane has it, or if it is to run alone.
take() {
    [ -n "$taken" ] && [ -z "${e2e_each[$1]:-}" ] || return 0
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
        ! is_one_of "$place" "${e2e_alone[$test]//,/ }" || { left+=("$test") && mkdir "$directory/$test"; }
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
