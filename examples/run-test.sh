#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the examples against each other and checks their output.
#
#   examples/run-test.sh BUILD_DIR [INTERFACE]
#
# INTERFACE is lo if it is not given. With lo, and where that is allowed, the test runs in a network namespace of its own,
# so that nothing else on the host hears or disturbs it. Prints `plan NAME` for each test, then `ok: NAME`, `FAILED: NAME` or
# `skip NAME: why`.
set -u

build=${1:?usage: run-test.sh BUILD_DIR [INTERFACE]}
interface=${2:-lo}

if [ "$interface" = lo ] && [ -z "${LLM_EXAMPLES_NAMESPACE:-}" ]; then
    export LLM_EXAMPLES_NAMESPACE=1
    if [ "$(id -u)" = 0 ]; then
        enter=(unshare -n)
    else
        enter=(unshare -Urn)
    fi
    if "${enter[@]}" true 2>/dev/null; then
        exec "${enter[@]}" "$0" "$build" "$interface"
    fi
    echo "no network namespace can be made here: using the host's $interface"
elif [ -n "${LLM_EXAMPLES_NAMESPACE:-}" ]; then
    ip link set lo up multicast on || exit 1
fi

build=$(cd "$build" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
programs=$build/examples
limit=$((120 * ${LLM_SLOWNESS:-1})) # seconds that any step may take: far more than it does
work=$(mktemp -d)
started=()
lines=()
quotes="udp://239.192.1.3:5003?interface=$interface"
consumer=(feed_consumer --channel "$quotes" --once --final "$work/final")
failures=0

clean_up() {
    local pid

    for pid in "${started[@]}"; do
        kill "$pid" 2>/dev/null
    done
    wait 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# Starts a program in the background, with its output in a file of its name, without its folder.
start() {
    local program=$1 name=${1##*/}
    shift
    timeout "$limit" "$programs/$program" "$@" >"$work/$name.out" 2>"$work/$name.err" &
    started+=($!)
    last=$!
}

# Waits until the program prints that it listens.
ready() {
    local tenths

    for ((tenths = 0; tenths < limit * 10; tenths++)); do
        grep -qs listening "$work/$1.out" && return 0
        kill -0 "$last" 2>/dev/null || break
        sleep 0.1
    done
    return 1
}

# Waits for a program to end by itself; after a failure it may never end. Sets good.
finish() {
    [ "$good" = yes ] || kill "$1" 2>/dev/null
    wait "$1" || good=no
}

show() {
    local file

    for file in "$@"; do
        [ -s "$file" ] || continue
        echo "--- ${file##*/}"
        tail -n 20 "$file"
    done
}

# run_test NAME FUNCTION [ARGUMENT...]: the function sets good to no after a failure, or why to skip the test.
run_test() {
    local name=$1 good=yes why=''

    shift
    "$@"
    if [ -n "$why" ]; then
        echo "skip $name: $why"
    elif [ "$good" = yes ]; then
        echo "ok: $name"
    else
        echo "FAILED: $name"
        failures=$((failures + 1))
        show "$work"/*
    fi
    rm -f "$work"/*
}

plan() {
    echo "plan $1"
}

# with_cpp FUNCTION [ARGUMENT...]: a test of the programs in C++.
with_cpp() {
    if [ -x "$programs/cpp/receiver" ]; then
        "$@"
    else
        why="the programs in C++ are not built: that needs g++"
    fi
}

# messages_arrive_in_order TRANSMITTER RECEIVER: expected output of the receiver for 1,000 messages, without those of another topic.
messages_arrive_in_order() {
    local channel="udp://239.192.1.1:5001?interface=$interface"

    start "$2" "$channel" greetings 1000
    local receiver=$last
    ready receiver || good=no
    timeout "$limit" "$programs/$1" "$channel" other 3 1 2>"$work/other.err" || good=no
    timeout "$limit" "$programs/$1" "$channel" greetings 1000 1 2>"$work/transmitter.err" || good=no
    finish "$receiver"
    grep '^greetings ' "$work/receiver.out" | sed 's/^.*: //' >"$work/received"
    seq -f 'hello, number %.0f' 0 999 >"$work/sent"
    cmp -s "$work/sent" "$work/received" || good=no
    grep -q '^other ' "$work/receiver.out" && good=no
}

# requests_are_answered ASKER ANSWERER
requests_are_answered() {
    local channel="udp://127.0.0.1:5005?interface=$interface" status=0

    [ "$interface" = lo ] || channel="udp://239.192.1.5:5005?interface=$interface"
    start "$2" "$channel" sesame
    local answerer=$last
    ready answerer || good=no
    timeout "$limit" "$programs/$1" "$channel" sesame abc 'able was i' >"$work/asker.out" 2>"$work/asker.err" || good=no
    grep -q '^cba, after ' "$work/asker.out" || good=no
    grep -q '^i saw elba, after ' "$work/asker.out" || good=no
    timeout "$limit" "$programs/$1" "$channel" simsalabim abc >"$work/refused.out" 2>"$work/refused.err" || status=$?
    [ "$status" = 1 ] && grep -q 'refused, code 403' "$work/refused.out" || good=no
    grep -q 'disconnected: closed' "$work/answerer.out" || good=no
    kill "$answerer"
    wait "$answerer" 2>/dev/null
}

# run_feed ARGUMENTS: the chain from generator to the command in `consumer`, with more arguments for the generator, and those in
# `lines` for the handler. Sets good.
run_feed() {
    local handler consuming

    start "${consumer[@]}"
    consuming=$last
    ready feed_consumer || good=no
    start feed_handler --interface "$interface" --channel "$quotes" --once ${lines[@]+"${lines[@]}"}
    handler=$last
    ready feed_handler || good=no
    timeout "$limit" "$programs/feed_generator" --interface "$interface" --seed 7 --symbols 50 --messages 20000 \
        --rate 10000 --expect "$work/expected" "$@" >"$work/feed_generator.out" 2>&1 || good=no
    finish "$handler"
    finish "$consuming"
}

books_agree() {
    run_feed
    cmp -s "$work/expected" "$work/final" || good=no
    [ "$(wc -l <"$work/final")" = 50 ] || good=no
}

books_agree_in_cpp() {
    local consumer=(cpp/feed_consumer "$quotes" "$work/final")

    books_agree
}

# If a datagram of the feed is omitted, no consumer may show a stale book as correct.
loss_in_the_feed_is_told() {
    run_feed --drop 1000
    grep -q 'lost in 1 gaps' "$work/feed_handler.out" || good=no
    [ "$(grep -c ' stale$' "$work/final")" = 50 ] || good=no
}

# Each line loses datagrams, and the handler has all messages.
lines_fill_each_other() {
    local lines=(--group-b 239.192.1.4:5004)

    run_feed --group-b 239.192.1.4:5004 --loss 10
    cmp -s "$work/expected" "$work/final" || good=no
    grep -q ' 0 lost in 0 gaps' "$work/feed_handler.out" || good=no
    grep -q '[1-9][0-9]* gaps of one line filled by the other' "$work/feed_handler.out" || good=no
}

# Prints a line when the consumer follows both handlers.
both_are_followed() {
    local tenths

    for ((tenths = 0; tenths < limit * 10; tenths++)); do
        [ "$(grep -c 'session new' "$work/feed_consumer.out")" -lt 2 ] || break
        sleep 0.1
    done
    echo
}

# run_relays ARGUMENTS: two handlers, with a line of the feed each, and more arguments for the generator. Sets good.
run_relays() {
    local first second consuming

    start "${consumer[@]}" --relay
    consuming=$last
    ready feed_consumer || good=no
    start feed_handler --relay --interface "$interface" --channel "$quotes"
    first=$last
    ready feed_handler || good=no
    mv "$work/feed_handler.out" "$work/first.out"
    start feed_handler --relay --interface "$interface" --group 239.192.1.4:5004 --channel "$quotes"
    second=$last
    ready feed_handler || good=no
    both_are_followed | timeout "$limit" "$programs/feed_generator" --interface "$interface" --group-b 239.192.1.4:5004 \
        --hold --loss 10 --seed 7 --symbols 50 --messages 20000 --rate 10000 --expect "$work/expected" "$@" \
        >"$work/feed_generator.out" 2>&1 || good=no
    finish "$first"
    finish "$second"
    finish "$consuming"
}

# Each handler lost messages, and the consumer has all of them.
handlers_fill_each_other() {
    run_relays
    cmp -s "$work/expected" "$work/final" || good=no
    [ "$(wc -l <"$work/final")" = 50 ] || good=no
    grep -q '[1-9][0-9]* lost in' "$work/first.out" || good=no
    grep -q '[1-9][0-9]* lost in' "$work/feed_handler.out" || good=no
    grep -q 'messages lost' "$work/feed_consumer.out" && good=no
}

# Messages that neither handler has are reported to the consumer once.
loss_at_both_handlers_is_told_once() {
    run_relays --drop 1000
    [ "$(grep -c 'no transmitter has the messages' "$work/feed_consumer.out")" = 1 ] || good=no
    [ "$(grep -c 'messages lost' "$work/feed_consumer.out")" = 1 ] || good=no
    [ "$(grep -c ' stale$' "$work/final")" = 50 ] || good=no
}

# program DOCUMENT FIRST_LINE FILE COMPILER...: the program of the document that begins with this line, on the interface of the test.
program() {
    local document=$1 first=$2 file=$3
    shift 3
    awk -v first="$first" '/^```/ { inside = 0 } $0 == first { inside = 1 } inside' "$source/$document" |
        sed "s|udp://[0-9.:]*|&?interface=$interface|" >"$work/$file"
    "$@" -Wall -Wextra -Werror -I "$source/include" -o "$work/${file%.*}" "$work/$file" -L "$build" -lllm -Wl,-rpath,"$build"
}

# The receiver does not print that it listens, so the transmitter is run repeatedly until a message arrives.
programs_work() {
    local begin=$SECONDS

    timeout "$limit" stdbuf -oL "$work/receiver" >"$work/receiver.out" 2>"$work/receiver.err" &
    last=$!
    started+=("$last")
    until grep -qsx 'quotes: hello' "$work/receiver.out"; do
        [ $((SECONDS - begin)) -lt "$limit" ] && timeout "$limit" "$work/transmitter" 2>"$work/transmitter.err" || { good=no && break; }
    done
    kill "$last"
    wait "$last" 2>/dev/null
}

# document_works DOCUMENT COMMENT SUFFIX COMPILER...: compiles the two programs of the document and runs them. A comment has FILE in
# the place of the name.
document_works() {
    local document=$1 comment=$2 suffix=$3 name
    shift 3
    for name in transmitter.$suffix receiver.$suffix; do
        program "$document" "${comment/FILE/$name}" "$name" "$@" >>"$work/cc.out" 2>&1 || { good=no && return; }
    done
    programs_work
}

cpp_document_works() {
    if command -v c++ >/dev/null; then
        document_works docs/cpp.md '// FILE' cpp c++ -std=c++17
    else
        why="g++ is not installed"
    fi
}

# commands HEADING: the commands of a section of the tutorial, without the picture before the first sentence that ends
# with a colon.
commands() {
    awk -v heading="## $1" '$0 == heading { inside = 1; next } /^## / { inside = 0 }
        inside && /:$/ { begun = 1 }
        inside && begun && /^    / { print substr($0, 5) }' "$source/examples/README.md" |
        sed "s|build/examples|$programs|g; s|build/tools|$build/tools|g"
}

# The tutorial's own commands, as they stand there.
confirmed_orders_survive_stores() {
    local output=$work/tutorial.out

    mkdir "$work/tutorial"
    commands "An order journal" >"$work/tutorial/commands"
    # After a failure the programs in the background would stay.
    (cd "$work/tutorial" && timeout "$limit" bash -e -c 'trap "kill \$(jobs -p) 2>/dev/null || :; wait" EXIT; . ./commands') \
        >"$output" 2>"$work/tutorial.err" || good=no
    grep -q '^3000 of 3000 orders confirmed' "$output" || good=no
    grep -q '^1000 of 1000 orders confirmed' "$output" || good=no
    # The store that was killed in the middle went on where its recording ended.
    grep -qE 'is followed from message [1-9]' "$output" || good=no
    grep -q '^4000 orders confirmed, 0 of them in fewer than 2 ' "$output" || good=no
    grep -q '^4000 orders confirmed, 0 of them in fewer than 1 ' "$output" || good=no
    grep -q '[1-9][0-9]* messages lost\|[1-9][0-9]* messages that are no order' "$output" && good=no
    rm -rf "$work/tutorial"
}

positions_survive_primaries_that_are_killed() {
    local output=$work/tutorial.out

    mkdir "$work/tutorial"
    commands "A position keeper" >"$work/tutorial/commands"
    # A member that does not run for 240 ms counts as dead: at the lowest priority, beside other tests, it would.
    (cd "$work/tutorial" && { renice -n 0 -p "$BASHPID" >/dev/null 2>&1 || :; } &&
        timeout "$limit" bash -e -c 'trap "kill \$(jobs -p) 2>/dev/null || :; wait" EXIT; . ./commands') \
        >"$output" 2>"$work/tutorial.err" || good=no
    grep -q ' member [0-2] has the positions before fill ' "$output" || good=no
    [ "$(grep -c 'is complete' "$output")" -ge 2 ] || good=no
    # Two processes at least have all fills, and no two differ.
    grep -qE '^ *[23] fills 4000: ' "$output" || good=no
    grep -q '^fills ' "$output" && good=no
    rm -rf "$work/tutorial"
}

# tests DO: calls DO for each test, with its name, its function and the arguments of that.
tests() {
    "$1" "1,000 messages arrive in order" messages_arrive_in_order transmitter receiver
    "$1" "1,000 messages from C arrive in C++" with_cpp messages_arrive_in_order transmitter cpp/receiver
    "$1" "1,000 messages from C++ arrive in C" with_cpp messages_arrive_in_order cpp/transmitter receiver
    "$1" "requests are answered to those who know the word" requests_are_answered asker answerer
    "$1" "requests of C are answered by C++" with_cpp requests_are_answered asker cpp/answerer
    "$1" "requests of C++ are answered by C" with_cpp requests_are_answered cpp/asker answerer
    "$1" "the README's programs work" document_works README.md '/* FILE */' c cc
    "$1" "the programs of docs/cpp.md work" cpp_document_works
    "$1" "the consumer's final books are the generator's" books_agree
    "$1" "the final books of the consumer in C++ are the generator's" with_cpp books_agree_in_cpp
    "$1" "loss in the feed makes quotes stale" loss_in_the_feed_is_told
    "$1" "two lines of the feed fill each other's gaps" lines_fill_each_other
    "$1" "two handlers of a line each fill each other's gaps" handlers_fill_each_other
    "$1" "loss at both handlers is told once" loss_at_both_handlers_is_told_once
    "$1" "confirmed orders survive the stores that are killed" confirmed_orders_survive_stores
    "$1" "positions survive primaries that are killed" positions_survive_primaries_that_are_killed
}

tests plan
tests run_test
exit $((failures > 0))
