#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
    cat <<'END'
usage: tests/e2e/run.sh BUILD [OPTION...] [TEST...]

End-to-end tests: the public API and the benchmarks between two hosts (network namespaces joined by veth), with loss, killed and
stopped processes, interfaces that go down, hostile packets and wrong input. BUILD is a build directory. Without TEST all tests
of the transport run, side by side in lanes. Prints one line for each test that will run, `plan NAME`; then one line a test:
`ok NAME (N ms)`, `FAIL NAME: why` or `skip NAME: why`. Exits with 1 if any failed.

  --transport T   udp (default), bypass, xdp, roce or shm
  --preload STACK  run the programs over a test stack, onload or vma of tests/shim
  --messages N    how many a flood sends (300000)
  --rate N        how many messages a second (100000)
  --blast N       how many a flood without a limit sends (3000000)
  --loss P,...    percentages of loss for flood_with_loss (0,1,5,20)
  --hosts KIND    netns, userns, loopback or roce, as tests/setup.sh says
  --plan          only say which tests would run
  --left-out      only say which tests would not run, and why
  --help          this text

`soak`, `soak_of_lines`, `soak_of_peers`, `soak_of_stores` and `soak_of_joins` run only if they are named: flood_with_loss with ten million messages
at each rate of loss, the acceptance figure; two lines with as many; 100,000 peers that come and go; a store that is killed 1,000 times; ten million messages
that a receiver gets from a store under 5 % loss. CONTRIBUTING.md shows how to add a test; lib/entry.sh describes its entry.
END
}

wrong() {
    echo "run.sh: $*; try 'tests/e2e/run.sh --help'" >&2
    exit 2
}

for argument in "$@"; do
    [[ $argument != --help && $argument != -h ]] || { usage && exit 0; }
done
[ $# -gt 0 ] || wrong "no build directory"
[ -d "$1" ] || wrong "$1 is no directory"
build=$(cd "$1" && pwd)
shift
messages=300000 rate=100000 blast=3000000 losses=0,1,5,20 hosts='' transport=udp preload='' only=''
given=("$@")
while [ $# -gt 0 ]; do
    case $1 in
    --plan | --left-out) only=$1 && shift && continue ;;
    --messages | --rate | --blast | --loss | --hosts | --transport | --preload) [ $# -gt 1 ] || wrong "$1 has no value" ;;
    -*) wrong "$1: no such option" ;;
    *) break ;;
    esac
    case $1 in
    --messages) messages=$2 ;;
    --rate) rate=$2 ;;
    --blast) blast=$2 ;;
    --loss) losses=$2 ;;
    --hosts) hosts=$2 ;;
    --transport) transport=$2 ;;
    --preload) preload=$2 ;;
    esac
    shift 2
done
given=("${given[@]:0:${#given[@]}-$#}")
[[ $preload =~ ^(|onload|vma)$ ]] || wrong "--preload $preload: must be onload or vma"
[ -z "$preload" ] || [[ $transport =~ ^(udp|bypass)$ ]] || wrong "--preload $preload: goes with --transport udp or bypass"

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../setup.sh
. "$here/../setup.sh"

# ----------------------------------------------------------------------------------------------------------- settings

some=$((messages < 50000 ? messages : 50000)) # for tests with another subject
programs=$build/tests/e2e
work=$SETUP_SCRATCH/e2e
idle="" # wait option of programs without one
fewer=1 # divisor of numbers of messages, connections or receivers on emulated hosts
held_messages=1000000 held_window='' # far more than a window, and the option for that window
paces_window=512 # maximum lag of a slow receiver in packets
some_losses=1,5 # for tests with another subject
limit=$((120 * ${LLM_SLOWNESS:-1})) # maximum seconds of any program, far more than needed
bind="setpriv --pdeathsig KILL --"
mkdir -p "$work"

# The file of a transport may define two functions: settle_TRANSPORT overrides the settings, and possible_TRANSPORT returns 77 and sets why,
# if the transport is not available.
settle() {
    ! declare -F "settle_$transport" >/dev/null || "settle_$transport"
}

possible() {
    ! declare -F "possible_$transport" >/dev/null || "possible_$transport"
}

# -------------------------------------------------------------------------------------------------------------- tests

for file in entry lanes programs faults; do
    # shellcheck disable=SC1090
    . "$here/lib/$file.sh"
done
for file in "$here"/*.sh; do
    # shellcheck disable=SC1090
    [ "${file##*/}" = run.sh ] || . "$file"
done
entries_are_right
is_one_of "$transport" "$all_places" || wrong "--transport $transport: must be one of $all_places"

label=e2e # before the name of a test
[ "$transport" = udp ] || label="e2e, $transport"
[ -z "$preload" ] || label="e2e, $transport over $preload"
place=$(place_of_run)
choose "$@"

# ------------------------------------------------------------------------------------------------------------- driver

failures=0

run_test() {
    local name=$1 begin status=0
    take "$name" || return 0
    begin=$(date +%s%N)
    why='' notes=()
    hand_out "$name"
    # The shell reports killed processes, which some tests have.
    { lacks_nothing "$name" && "$name" || status=$?; end_started; } 2>"$work/shell.err"
    lose_nothing
    [ "$status" = 0 ] || [ "$status" = 77 ] || failures=$((failures + 1))
    report "$name" "$status" $((($(date +%s%N) - begin) / 1000000)) | show
    rm -f "$work"/*.out "$work"/*.err
}

# report TEST STATUS MS
report() {
    local name=$1 status=$2 line file
    case $status in
    0) printf 'ok %s: %s (%s ms)\n' "$label" "${name//_/ }" "$3" ;;
    77) printf 'skip %s: %s: %s\n' "$label" "${name//_/ }" "$why" ;;
    *)
        printf 'FAIL %s: %s: %s\n' "$label" "${name//_/ }" "${why:-status $status}"
        for file in "$work"/*.out "$work"/*.err; do
            [ -s "$file" ] && printf '    --- %s\n' "${file##*/}" && tail -n 8 "$file" | sed 's/^/    /'
        done
        ;;
    esac
    for line in "${notes[@]}"; do
        printf '    %s\n' "$line"
    done
}

if [ "$only" = --left-out ]; then
    left_out
    exit 0
fi
if [ -n "$preload" ] && ! need_shims; then
    echo "skip e2e over the test stack $preload: $why"
    exit 0
fi
if [ -z "$taken" ]; then
    for test in "${all[@]}"; do
        echo "plan $label: ${test//_/ }"
    done
fi
[ -z "$only" ] || exit 0
[ -x "$programs/e2e_flood_receive" ] || { echo "run.sh: $programs has no programs: run 'ninja -C $build'" >&2 && exit 2; }
settle
# Over xdp one process has an interface for itself: the second receiver, and those after it, are at hosts of their own.
more=''
[ "$transport" != xdp ] || more=five
# shellcheck disable=SC2086
setup_hosts "$hosts" $more
declare -A all_hosts=([HOST_C]=$HOST_C [HOST_D]=$HOST_D [HOST_E]=$HOST_E)
if ! possible; then
    echo "skip $label: $why"
    exit 0
fi
if [ $# = 0 ] && [ -z "$taken" ] && [ "$transport" != roce ]; then
    side_by_side "${given[@]}" || failures=1
fi
for test in "${all[@]}"; do
    run_test "$test"
done
exit $((failures > 0))
