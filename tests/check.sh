# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Result lines for a script that runs its tests one by one. Source it after setup.sh.
#
#   check FUNCTION             runs a function; its name, with blanks in the place of underscores, is the test's
#   check NAME COMMAND...      runs a command. Both print one line, `ok NAME (N ms)`, `skip NAME: why` (status 77) or `FAIL NAME: why`, the
#                              last with the end of the output behind it. A test may set why; its status is never the script's.
#   check_after                is called after each test, to take away what it left; a script may define it again
#   check_label                stands before each name
#   check_named ARGUMENT...    sets check_name to the name that check gives the test
#   check_failures             counts those that failed

check_label='' check_failures=0

check_after() {
    :
}

# Lines in which cmocka reports a failure, and the end of the output.
check_output() {
    # A grep that finds nothing fails, which is no error here.
    { grep -E '^\[ *(ERROR|LINE) *\]' "$SETUP_SCRATCH/check.log" || true; tail -n 40 "$SETUP_SCRATCH/check.log"; } | sed 's/^/    /'
}

# Sets check_name, the name of a test with these arguments in its result.
check_named() {
    check_name=$check_label$1
    [ $# -gt 1 ] || check_name=$check_label${1//_/ }
}

check() {
    local name status=0 begin
    check_named "$@"
    name=$check_name
    [ $# = 1 ] || shift
    begin=$(date +%s%N)
    why=''
    { "$@" || status=$?; } >"$SETUP_SCRATCH/check.log" 2>&1
    check_after
    case $status in
    0) printf 'ok %s (%s ms)\n' "$name" $((($(date +%s%N) - begin) / 1000000)) ;;
    77) printf 'skip %s: %s\n' "$name" "${why:-$(tail -n 1 "$SETUP_SCRATCH/check.log")}" ;;
    *)
        check_failures=$((check_failures + 1))
        printf 'FAIL %s: %s\n' "$name" "${why:-status $status}"
        check_output
        ;;
    esac
}
