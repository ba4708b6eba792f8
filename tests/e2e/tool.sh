# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# llm between two hosts.

e2e lines_and_pings_of_the_command_line_tool over=udp
lines_and_pings_of_the_command_line_tool() {
    local llm=$build/tools/llm receiver reflector answers
    run_on "$HOST_B" receiver "$llm" receive --events --limit 2 "$(channel "$IF_B")" 'prices.*'
    receiver=$last
    run_on "$HOST_B" reflector "$llm" ping --reflect "$(channel "$IF_B" "" 2)"
    reflector=$last
    says receiver "listening" && says reflector "reflecting" || return
    # shellcheck disable=SC2086
    printf 'one\ntwo\n' | $HOST_A "$llm" send --receivers 1 --quiet "$(channel "$IF_A")" prices.bonds || { why="llm send failed" && return 1; }
    ends "$receiver" && grep -qx "prices.bonds: two" "$work/receiver.out" || { why="the lines did not arrive" && return 1; }
    # shellcheck disable=SC2086
    answers=$($HOST_A "$llm" ping --count 20 --interval 0.001 --json "$(channel "$IF_A" "" 2)") || { why="llm ping failed" && return 1; }
    grep -q '"answers": 20,' <<<"$answers" || { why="answers are missing: $answers" && return 1; }
    kill -TERM "$reflector" && ends "$reflector"
}
