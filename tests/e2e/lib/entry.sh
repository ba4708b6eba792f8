# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# The list of tests and their requirements. An end-to-end test is a function in a file of tests/e2e, with its entry on the line above:
#
#   e2e NAME [FIELD...]
#
#   needs=WHAT,...          requirements, without which it is skipped: nft, namespaces, loss (packets can be lost here), shims
#                           (libraries to preload), root; need_WHAT of lib/faults.sh checks them
#   hosts=N                 number of the hosts A to E that it uses, if more than A and B
#   over=PLACE,...          transports to run it over; default all: udp, bypass, xdp, roce, shm
#   not=PLACE,...:"REASON"  transports to exclude, and the reason; may be repeated
#   also=PLACE,...          vma: over that test stack too, as bypass is over Onload's; stack: udp over a test stack
#   alone=PLACE,...         transports where it needs the whole machine: it runs after the tests that run side by side
#   lanes=each              it checks remains of the other tests: each lane runs it, at the end
#   run=named               it runs only if it is named
#
# A named test runs over any transport. Sourcing the files fills `e2e_tests`, in order.

all_places="udp bypass xdp roce shm"
e2e_tests=() e2e_errors=0
declare -A e2e_number e2e_needs e2e_hosts e2e_over e2e_reason e2e_alone e2e_each e2e_named

entry_error() {
    echo "tests/e2e: the entry of $1: $2" >&2
    e2e_errors=$((e2e_errors + 1))
}

# is_one_of WORD WORDS
is_one_of() {
    [[ " $2 " == *" $1 "* ]]
}

e2e() {
    local name=$1 field over=$all_places also='' not='' places place
    [ -z "${e2e_number[$name]:-}" ] || entry_error "$name" "there are two"
    e2e_tests+=("$name")
    e2e_number[$name]=${#e2e_tests[@]} e2e_hosts[$name]=2 e2e_needs[$name]='' e2e_alone[$name]=''
    for field in "${@:2}"; do
        case $field in
        needs=?*) e2e_needs[$name]=${field#needs=} ;;
        hosts=[2345]) e2e_hosts[$name]=${field#hosts=} ;;
        over=?*) over=${field#over=} ;;
        also=?*) also=${field#also=} ;;
        alone=?*) e2e_alone[$name]=${field#alone=} ;;
        lanes=each) e2e_each[$name]=yes ;;
        run=named) e2e_named[$name]=yes ;;
        not=?*:?*)
            field=${field#not=} places=${field%%:*}
            not+=" ${places//,/ }"
            for place in ${places//,/ }; do
                e2e_reason[$name/$place]=${field#*:}
            done
            ;;
        *) entry_error "$name" "$field: lib/entry.sh describes the fields" ;;
        esac
    done
    entry_places "$name" "${over//,/ }" "$not" "${also//,/ }"
}

# entry_places NAME OVER NOT ALSO: sets the places where a test runs.
entry_places() {
    local place
    e2e_over[$1]=" ${4:+$4 }"
    for place in $2; do
        is_one_of "$place" "$all_places" || entry_error "$1" "over=$place is none of $all_places"
        is_one_of "$place" "$3" || e2e_over[$1]+="$place "
    done
    for place in $3; do
        is_one_of "$place" "$2" || entry_error "$1" "not=$place: it would not run there anyway"
    done
    for place in $4; do
        is_one_of "$place" "vma stack" || entry_error "$1" "also=$place is none of vma stack"
    done
}

# Ends the script if an entry is wrong.
entries_are_right() {
    local name need place
    ((${#e2e_tests[@]} < 254)) || entry_error "the last test" "there are no more groups: group() has to give others"
    for name in "${e2e_tests[@]}"; do
        declare -F "$name" >/dev/null || entry_error "$name" "there is no such function"
        for place in ${e2e_alone[$name]//,/ }; do
            is_one_of "$place" "${e2e_over[$name]}" || entry_error "$name" "alone=$place: it does not run there"
        done
        for need in ${e2e_needs[$name]//,/ }; do
            declare -F "need_$need" >/dev/null || entry_error "$name" "needs=$need, and lib/faults.sh has no need_$need"
        done
    done
    [ "$e2e_errors" = 0 ] || exit 2
}

# ------------------------------------------------------------------------------------------------------------- choice

# The place of this run: the transport, or a test stack below it.
place_of_run() {
    case "$transport/$preload" in
    bypass/) echo udp ;; # no stack: same as udp
    bypass/vma) echo vma ;;
    bypass/*) echo bypass ;;
    */?*) echo stack ;;
    *) echo "$transport" ;;
    esac
}

# choose [NAME...]: sets all: these tests, or all that run here; those with lanes=each come last.
choose() {
    local name last=()
    all=()
    for name in "$@"; do
        [ -n "${e2e_number[${name// /_}]:-}" ] || { unknown_test "$name" && exit 2; }
        all+=("${name// /_}")
    done
    [ $# = 0 ] || return 0
    for name in "${e2e_tests[@]}"; do
        [ -z "${e2e_named[$name]:-}" ] && is_one_of "$place" "${e2e_over[$name]}" || continue
        if [ -n "${e2e_each[$name]:-}" ]; then
            last+=("$name")
        else
            all+=("$name")
        fi
    done
    all+=("${last[@]}")
}

unknown_test() {
    echo "run.sh: $1: no such test; near it:" >&2
    printf '%s\n' "${e2e_tests[@]}" | python3 -c '
import difflib, sys
name, names = sys.argv[1], sys.stdin.read().split()
near = difflib.get_close_matches(name, names, 5, 0.4)
print("\n".join("  " + one for one in near + [one for one in names if name in one and one not in near]) or
      "  none; --plan lists all")' "${1// /_}" >&2
}

# Prints each test that does not run here, and why.
left_out() {
    local name why
    for name in "${e2e_tests[@]}"; do
        ! is_one_of "$name" "${all[*]}" || continue
        case $place in
        vma | stack) why="its entry has no also=$place" ;;
        *) why=${e2e_reason[$name/$place]:-it is about${e2e_over[$name]% }} ;;
        esac
        [ -z "${e2e_named[$name]:-}" ] || why="it runs only if it is named"
        echo "left out $label: ${name//_/ }: $why"
    done
}

# -------------------------------------------------------------------------------------------------------- handing out

running=0 # number of the running test, part of groups and ports; 0 is this script

# hand_out NAME: sets up the hosts of the entry, and groups and ports. The other hosts of A to E only print an error.
hand_out() {
    local host position=2
    running=${e2e_number[$1]}
    for host in HOST_C HOST_D HOST_E; do
        position=$((position + 1))
        if ((position <= e2e_hosts[$1])); then
            printf -v $host %s "${all_hosts[$host]}"
        else
            printf -v $host %s "not_handed_out $host $position"
        fi
    done
    # Host and interface of a receiver next to the sender: on its host, if possible.
    beside_a=$HOST_A beside_if=$IF_A
    [ -z "$HOST_SWITCH" ] || beside_a=$HOST_C beside_if=$IF_B
}

# not_handed_out HOST N [COMMAND...]: replaces the prefix of a host that the test did not request.
not_handed_out() {
    echo "$1 is not of this test; its entry has to say hosts=$2 or more" >&2
    return 1
}

# lacks_nothing NAME: returns 77 and the reason if a requirement is missing.
lacks_nothing() {
    local need
    for need in ${e2e_needs[$1]//,/ }; do
        "need_$need" || return
    done
}
