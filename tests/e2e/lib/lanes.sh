# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# Tests side by side. Most tests wait most of the time: lanes run them concurrently, two more than there are processors, each a run.sh
# with its own hosts and files, which takes the next test that no other has taken. Their programs sleep while they wait, except over test
# stacks, which are there for programs that poll. Tests that need the whole machine run alone, after them.

# Of a lane: directory with a subdirectory for each test taken.
taken=${LLM_E2E_TAKEN:-}

# take TEST: false if another lane has it, or if it has to run alone.
take() {
    [ -n "$taken" ] && [ -z "${e2e_each[$1]:-}" ] || return 0
    mkdir "$taken/$1" 2>/dev/null
}

# Prints a lane's output of a test in one piece.
show() {
    [ -z "$taken" ] || flock 9
    cat
    [ -z "$taken" ] || flock -u 9
}
[ -z "$taken" ] || exec 9<"$taken"
# shellcheck disable=SC2034
[ -z "$taken" ] || [ -n "$preload" ] || idle="--wait 1"

# side_by_side OPTION...: runs `all` except tests that run alone, which remain in `all`, with these options of run.sh. Fails if a test did.
side_by_side() {
    local test pid lane lanes=$(($(nproc) + 2)) pids=() left=() status=0 directory=$SETUP_SCRATCH/taken
    mkdir "$directory"
    for test in "${all[@]}"; do
        ! is_one_of "$place" "${e2e_alone[$test]//,/ }" || { left+=("$test") && mkdir "$directory/$test"; }
    done
    for ((lane = 0; lane < lanes; lane++)); do
        LLM_E2E_TAKEN=$directory setpriv --pdeathsig TERM -- "$here/run.sh" "$build" "$@" &
        pids+=("$!")
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=1
    done
    all=("${left[@]}")
    return "$status"
}
