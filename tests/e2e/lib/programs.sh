# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Programs on hosts, and their output.

started=()
declare -A pid_of # process of the last program of a name

# run_on PREFIX NAME COMMAND...: starts a program on a host, with output in files of that name. Sets last.
run_on() {
    local prefix=$1 name=$2
    shift 2
    # Remove the output of an earlier program of that name first, as this one may start late.
    : >"$work/$name.out"
    : >"$work/$name.err"
    # shellcheck disable=SC2086
    $prefix $bind ${preload:+env "LD_PRELOAD=$build/tests/shim/shim_$preload.so"} "$@" >"$work/$name.out" 2>"$work/$name.err" &
    last=$!
    started+=("$last") pid_of[$name]=$last
}

# In a guest, starting a program takes a tenth of a second: use builtins of the shell where possible.

# Sleeps for a moment.
mkfifo "$work/nobody" && exec {nobody}<>"$work/nobody"
rest() {
    read -r -t 0.02 -u "$nobody" || true
}

# Waits until a program's stderr has this text.
says() {
    local name=$1 text=$2 said='' ended='' until=$((SECONDS + limit))
    while [ -z "$ended" ] && ((SECONDS <= until)); do
        kill -0 "${pid_of[$name]}" 2>/dev/null || ended=yes
        IFS= read -r -d '' said <"$work/$name.err" || true
        [[ $said != *"$text"* ]] || return 0
        rest
    done
    why="$name ${ended:+ended and }did not say: $text"
    return 1
}

# Waits for the end of a program, and returns its status.
ends() {
    local pid=$1 until=$((SECONDS + limit)) status=0
    while kill -0 "$pid" 2>/dev/null && ((SECONDS <= until)); do
        rest
    done
    if kill -0 "$pid" 2>/dev/null; then
        kill -KILL "$pid"
        why="a program did not end in $limit s"
    fi
    wait "$pid" || status=$?
    return "$status"
}

# receive PREFIX NAME CHANNEL [OPTION...]; send has the same arguments. The receiver listens when this returns.
receive() {
    # shellcheck disable=SC2086
    run_on "$1" "$2" "$programs/e2e_flood_receive" "${@:3}" $idle
    says "$2" listening
}

send() {
    # shellcheck disable=SC2086
    run_on "$1" "$2" "$programs/e2e_flood_send" "${@:3}" $idle
}

# goes_on PID: continues a sender that pauses between two steps, or soon will.
goes_on() {
    kill -USR1 "$1" || { why="the sender has ended" && return 1; }
}

# Prints a number of a program's JSON, which omits counters that are zero.
number() {
    local text
    IFS= read -r -d '' text <"$work/$1.out" || true
    [[ $text =~ .*\"$2\":\ ([0-9.]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}

# is NAME KEY OPERATOR NUMBER: checks a program's figure.
is() {
    local value
    value=$(number "$1" "$2")
    if [[ $value$4 == *[!0-9]* ]]; then
        awk "BEGIN { exit !($value $3 $4) }" && return 0
    elif (("$value $3 $4")); then
        return 0
    fi
    why="$1: $2 is $value, not $3 $4"
    return 1
}

# Exactly these messages were delivered.
complete() {
    is "$1" messages == "$2" && is "$1" errors == 0 && is "$1" lost == 0 && is "$1" gaps == 0
}

# Every message was delivered or reported in a gap.
accounted() {
    [ $(($(number "$1" messages) + $(number "$1" lost))) = "$2" ] || {
        why="$1: $(number "$1" messages) came and $(number "$1" lost) were lost of $2"
        return 1
    }
    is "$1" errors == 0
}

# group [N]: a multicast group of the running test; each test has several, the first without N. group6 is the same for IPv6.
group() {
    echo "239.192.$((2 + ${1:-1})).$((running + 1))"
}

group6() {
    printf 'ff15::%x:%x\n' $((2 + ${1:-1})) $((running + 1))
}

# port [N]: a port of the running test, N from 0 to 9. Groups have port 5003.
port() {
    echo $((6000 + running * 10 + ${1:-1}))
}

# channel INTERFACE [OPTIONS [N]]: to group N of the running test. Shared memory has no interface.
channel() {
    echo "$transport://$(group "${3:-1}"):5003?$(common "$1")${2:+&$2}"
}

# Options of every channel of a test; `keyed` is a key file, if the test has one.
common() {
    echo "$([ "${transport#impair+}" = shm ] && echo "shm_directory=$memory" || echo "interface=$1")${keyed:+&keys=$keyed}"
}

# common() for several transmitters in one group.
common_shared() {
    echo "$(common "$1")$([ "${transport#impair+}" = shm ] && echo "&shm_exclusive=0")"
}

# Prints a note below the line of a test.
note() {
    notes+=("$*")
}

end_started() {
    local pid
    for pid in "${started[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" || true
    done
    started=()
}
