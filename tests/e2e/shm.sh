# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# End-to-end tests of shared memory and its faults: receivers that are slow, stop or die, transmitters that die.

# shellcheck disable=SC2034
settle_shm() {
    memory=$(mktemp -d /dev/shm/llm-e2e-XXXXXX)
    setup_at_exit "rm -rf $memory"
    # A packet has up to 64 KiB here, and so far more messages than one of a network.
    paces_window=32
}

# The receiver's side is impaired.
e2e flood_with_faults over=shm
flood_with_faults() {
    transport=impair+shm
    flood "$messages" "$rate" "$keep&impair_loss_ppm=50000&impair_burst_packets=5&impair_duplicate_ppm=20000&impair_reorder_ppm=20000" ||
        { transport=shm && return 1; }
    transport=shm
    is receiver packets_recovered ">" 0 && is receiver packets_duplicate ">" 0 || return
    note "repaired $(number receiver packets_recovered), twice $(number receiver packets_duplicate)"
}

# Files of processes killed by earlier tests are removed as well.
e2e shared_memory_files_are_removed_at_the_end lanes=each over=shm
shared_memory_files_are_removed_at_the_end() {
    flood "$some" "$rate" "$keep" || return
    [ -z "$(ls -A "$memory")" ] || { why="still there: $(find "$memory" -mindepth 1 | head -n 5)" && return 1; }
}

# lists FIELD...: the first line of llm-shm below its heading begins with the name of the channel and these fields.
lists() {
    local line
    line=$("$build/tools/llm-shm" "$memory" | sed -n 2p) && [[ $(tr -s ' ' <<<"$line") == "$(group):5003 $* "* ]] && return 0
    why="llm-shm says: $line"
    return 1
}

# refuses STATUS TEXT ARGUMENT...
refuses() {
    local status=0
    "$build/tools/llm-shm" "${@:3}" >"$work/tool.out" 2>"$work/tool.err" || status=$?
    [ "$status" = "$1" ] && grep -q -- "$2" "$work/tool.err" || { why="llm-shm ${*:3} ended with $status: $(cat "$work/tool.err")" && return 1; }
}

# Files of another user's process, in a directory that this user may or may not read.
another_user_cannot_clean() {
    local mode status other="setpriv --reuid 65534 --regid 65534 --clear-groups --"
    $other test -x "$build/tools/llm-shm" -a -x "$memory/llm" 2>/dev/null || return 0 # only root can run as another user
    for mode in 700 755; do
        status=0
        chmod "$mode" "$memory"/llm/[0-9]*/
        chmod "$((mode - (mode == 755 ? 111 : 100)))" "$memory"/llm/*/*.data
        $other "$build/tools/llm-shm" --clean "$memory" >"$work/tool.out" 2>"$work/tool.err" || status=$?
        [ "$status" = 1 ] && ! grep -q "$1" "$work/tool.out" && grep -q "another user's.* or as root" "$work/tool.err" ||
            { why="mode $mode: $status: $(cat "$work/tool.out" "$work/tool.err")" && return 1; }
    done
    grep -q dead "$work/tool.out" || { why="not listed: $(cat "$work/tool.out")" && return 1; }
}

e2e channels_are_listed_and_files_of_dead_writers_removed lanes=each over=shm
channels_are_listed_and_files_of_dead_writers_removed() {
    local receiver sender user nothing="no channels in shared memory"
    user=$(id -un)
    [ "$("$build/tools/llm-shm" "$memory")" = "$nothing" ] || { why="files exist before any program runs" && return 1; }
    send "$HOST_A" sender "$(channel "" shm_mode=0640)" --messages 20 --step 10 --receivers 0
    sender=$last
    says sender "sent 10" && lists "$sender" "$user" 0640 0 || return
    receive "$HOST_B" receiver "$(channel "")" && receiver=$last && lists "$sender" "$user" 0640 1 || return
    # Files of running processes remain.
    "$build/tools/llm-shm" --clean "$memory" >/dev/null && lists "$sender" "$user" 0640 1 || return
    kill -KILL "$receiver" "$sender"
    ends "$receiver" || ends "$sender" || true
    lists dead "$user" 0640 1 || return
    another_user_cannot_clean "$nothing" || return
    [ "$("$build/tools/llm-shm" --clean "$memory")" = "$nothing" ] && [ -z "$(find "$memory" -mindepth 1)" ] ||
        { why="left behind: $(find "$memory" -mindepth 1 | head -n 3)" && return 1; }
    refuses 2 "--sweep: no such option; try" --sweep && refuses 1 "/nowhere: No such file" /nowhere &&
        refuses 1 "name too long" "/$(printf './%.0s' {1..200})"
}
