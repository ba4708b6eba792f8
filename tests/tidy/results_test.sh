#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The scripts that run tests lose no result: a failure ends no script, and an announced test without a result has failed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../setup.sh
. "$here/../setup.sh"
# shellcheck source=../check.sh
. "$here/../check.sh"
failures=0

# expect WHAT EXPECTED IS
expect() {
    [ "$2" = "$3" ] || { failures=$((failures + 1)) && printf '%s: expected\n%s\n--- and it is\n%s\n' "$@"; }
}

fails_without_a_word_of_cmocka() {
    echo "a reason" && return 3
}

skipped_for_a_reason() {
    why="no device" && return 77
}

# In a separate shell, to detect a check that ends the script.
checked=$(
    check fails_without_a_word_of_cmocka
    check skipped_for_a_reason
    check passes true
    check by_a_command true
    echo "$check_failures failed"
)
expect "what check prints" "FAIL fails without a word of cmocka: status 3
    a reason
skip skipped for a reason: no device
ok passes
ok by_a_command
1 failed" "$(sed 's/ ([0-9]* ms)//' <<<"$checked")"

expect "names that check gives" "by_a_command
a function" "$(check_named by_a_command true && echo "$check_name" && check_named a_function && echo "$check_name")"

cat >"$SETUP_SCRATCH/lines" <<'LINES'
plan e2e: a flood
plan e2e: a flood of more
plan e2e: a list
plan roce: first
plan roce: second
plan udp: third
ok e2e: a flood (3 ms)
    a note
FAIL e2e: a list: status 1
skip roce: no guest can be had
LINES
expect "announced tests without a result" "e2e: a flood of more
udp: third" "$("$here/../results.py" missing "$SETUP_SCRATCH/lines")"

printf 'libllm:unit / one\nlibllm:unit / two\n' >"$SETUP_SCRATCH/plan"
echo '{"name": "unit / one", "result": "OK", "duration": 1.0}' >"$SETUP_SCRATCH/log"
expect "listed tests that did not run" "ok release: one (1.0 s)
FAIL release: two: did not run, as meson ended before" "$("$here/../results.py" meson release "$SETUP_SCRATCH/plan" "$SETUP_SCRATCH/log")"

[ "$failures" = 0 ]
