# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Programs on hosts, and what is read of them.

started=()
declare -A pid_of # of the last one of a name

# run_on PREFIX NAME COMMAND...: starts a program on a host, its output in files of that name. Sets last.
run_on() {
    local prefix=$1 name=$2
    shift 2
    # What one of that name said before is not taken for its words, however long it takes to start.
    : >"$work/$name.out"
    : >"$work/$name.err"
    # shellcheck disable=SC2086
    $prefix $bind ${preload:+env "LD_PRELOAD=$build/tests/shim/shim_$preload.so"} "$@" >"$work/$name.out" 2>"$work/$name.err" &
    last=$!
    started+=("$last") pid_of[$name]=$last
}

# Where the tests run in a guest, to start a program takes a tenth of a second: what the shell can do by itself it does.

# A moment's rest.
mkfifo "$work/nobody" && exec {nobody}<>"$work/nobody"
rest() {
    read -r -t 0.02 -u "$nobody" || true
}

# Waits until a program has this on its stderr.
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

# Waits until a program has ended, and returns its status.
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

# receive PREFIX NAME CHANNEL [OPTION...], send likewise. The receiver listens when this returns.
receive() {
    # shellcheck disable=SC2086
    run_on "$1" "$2" "$programs/e2e_flood_receive" "${@:3}" $idle
    says "$2" listening
}

send() {
    # shellcheck disable=SC2086
    run_on "$1" "$2" "$programs/e2e_flood_send" "${@:3}" $idle
}

# goes_on PID: a sender that waits between two steps, or soon will.
goes_on() {
    kill -USR1 "$1" || { why="the sender has ended" && return 1; }
}

# A number out of a program's JSON; counters that are zero are not in it.
number() {
    local text
    IFS= read -r -d '' text <"$work/$1.out" || true
    [[ $text =~ .*\"$2\":\ ([0-9.]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}

# is NAME KEY OPERATOR NUMBER: a promise about a program's figures.
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

# All of these messages came as they should, and no other.
complete() {
    is "$1" messages == "$2" && is "$1" errors == 0 && is "$1" lost == 0 && is "$1" gaps == 0
}

# Every message came or was named in a gap.
accounted() {
    [ $(($(number "$1" messages) + $(number "$1" lost))) = "$2" ] || {
        why="$1: $(number "$1" messages) came and $(number "$1" lost) were lost of $2"
        return 1
    }
    is "$1" errors == 0
}

# group [N]: a multicast group of the running test; each test has several of its own, the first without N. group6 likewise, of IPv6.
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

# channel INTERFACE [OPTIONS [N]]: to group N of the running test. What shares memory has no interface.
channel() {
    echo "$transport://$(group "${3:-1}"):5003?$(common "$1")${2:+&$2}"
}

common() {
    [ "${transport#impair+}" = shm ] && echo "shm_directory=$memory" || echo "interface=$1"
}

# common() for several transmitters in one group.
common_shared() {
    echo "$(common "$1")$([ "${transport#impair+}" = shm ] && echo "&shm_exclusive=0")"
}

# More about a test, printed under its line.
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
