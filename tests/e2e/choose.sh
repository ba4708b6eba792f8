# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# Which tests run over a transport, which run.sh sources: each of `all`, or there is a reason why not.

# choose TESTS REASONS: the name of a list, of which each may be of `all` or the transport's own, and that of a map from others of
# `all` to why they are not in it. Sets all. A test that is new has to be decided about, but for one that knows of no transport.
choose() {
    local -n chosen=$1 reasons=$2
    local test
    for test in "${all[@]}"; do
        [[ " ${chosen[*]} " != *" $test "* ]] || continue
        [[ " ${view_tests[*]} ${benchmark_tests[*]} " != *" $test "* && -z ${reasons[$test]:-} ]] || continue
        undecided "$test is neither run over $transport nor has a reason not to be"
    done
    for test in "${!reasons[@]}"; do
        [[ " ${all[*]} " == *" $test "* ]] || undecided "$test, which is not run over $transport for a reason, is no test"
        [[ " ${chosen[*]} " != *" $test "* ]] || undecided "$test is run over $transport, and has a reason not to be"
    done
    all=("${chosen[@]}")
}

# Said by one of those that run side by side.
undecided() {
    [ -z "$taken" ] || return 0
    echo "FAIL $label: $1"
    failures=$((failures + 1))
}
