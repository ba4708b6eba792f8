#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the examples against each other and checks their output.
#
#   examples/run-test.sh BUILD_DIR [INTERFACE]
#
# INTERFACE is lo if it is not given. With lo, and where that is allowed, the test runs in a network namespace of its own,
# so that nothing else on the host hears or disturbs it.
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

# Starts a program in the background, with its output in a file of its name.
start() {
    local name=$1
    shift
    timeout "$limit" "$programs/$name" "$@" >"$work/$name.out" 2>"$work/$name.err" &
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

verdict() {
    local what=$1 good=$2

    if [ "$good" = yes ]; then
        echo "ok: $what"
    else
        echo "FAILED: $what"
        failures=$((failures + 1))
        show "$work"/*
    fi
    rm -f "$work"/*
}

# Expected output of the receiver for 1,000 messages, without those of another topic.
messages_arrive_in_order() {
    local channel="udp://239.192.1.1:5001?interface=$interface" good=yes

    start receiver "$channel" greetings 1000
    local receiver=$last
    ready receiver || good=no
    timeout "$limit" "$programs/transmitter" "$channel" other 3 1 2>"$work/other.err" || good=no
    timeout "$limit" "$programs/transmitter" "$channel" greetings 1000 1 2>"$work/transmitter.err" || good=no
    finish "$receiver"
    grep '^greetings ' "$work/receiver.out" | sed 's/^.*: //' >"$work/received"
    seq -f 'hello, number %.0f' 0 999 >"$work/sent"
    cmp -s "$work/sent" "$work/received" || good=no
    grep -q '^other ' "$work/receiver.out" && good=no
    verdict "1,000 messages arrive in order" $good
}

requests_are_answered() {
    local channel="udp://127.0.0.1:5005?interface=$interface" good=yes status=0

    [ "$interface" = lo ] || channel="udp://239.192.1.5:5005?interface=$interface"
    start answerer "$channel" sesame
    local answerer=$last
    ready answerer || good=no
    timeout "$limit" "$programs/asker" "$channel" sesame abc 'able was i' >"$work/asker.out" 2>"$work/asker.err" || good=no
    grep -q '^cba, after ' "$work/asker.out" || good=no
    grep -q '^i saw elba, after ' "$work/asker.out" || good=no
    timeout "$limit" "$programs/asker" "$channel" simsalabim abc >"$work/refused.out" 2>"$work/refused.err" || status=$?
    [ "$status" = 1 ] && grep -q 'refused, code 403' "$work/refused.out" || good=no
    grep -q 'disconnected: closed' "$work/answerer.out" || good=no
    kill "$answerer"
    wait "$answerer" 2>/dev/null
    verdict "requests are answered to those who know the word" $good
}

# run_feed ARGUMENTS: the chain from generator to consumer, with more arguments for the generator, and those in `lines` for
# the handler. Sets good.
run_feed() {
    local channel="udp://239.192.1.3:5003?interface=$interface" handler consumer

    good=yes
    start feed_consumer --channel "$channel" --once --final "$work/final"
    consumer=$last
    ready feed_consumer || good=no
    start feed_handler --interface "$interface" --channel "$channel" --once ${lines[@]+"${lines[@]}"}
    handler=$last
    ready feed_handler || good=no
    timeout "$limit" "$programs/feed_generator" --interface "$interface" --seed 7 --symbols 50 --messages 20000 \
        --rate 10000 --expect "$work/expected" "$@" >"$work/feed_generator.out" 2>&1 || good=no
    finish "$handler"
    finish "$consumer"
}

books_agree() {
    run_feed
    cmp -s "$work/expected" "$work/final" || good=no
    [ "$(wc -l <"$work/final")" = 50 ] || good=no
    verdict "the consumer's final books are the generator's" $good
}

# If a datagram of the feed is omitted, no consumer may show a stale book as correct.
loss_in_the_feed_is_told() {
    run_feed --drop 1000
    grep -q 'lost in 1 gaps' "$work/feed_handler.out" || good=no
    [ "$(grep -c ' stale$' "$work/final")" = 50 ] || good=no
    verdict "loss in the feed makes quotes stale" $good
}

# Each line loses datagrams, and the handler has all messages.
lines_fill_each_other() {
    local lines=(--group-b 239.192.1.4:5004)

    run_feed --group-b 239.192.1.4:5004 --loss 10
    cmp -s "$work/expected" "$work/final" || good=no
    grep -q ' 0 lost in 0 gaps' "$work/feed_handler.out" || good=no
    grep -q '[1-9][0-9]* gaps of one line filled by the other' "$work/feed_handler.out" || good=no
    verdict "two lines of the feed fill each other's gaps" $good
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
    local channel="udp://239.192.1.3:5003?interface=$interface" first second consumer

    good=yes
    start feed_consumer --relay --channel "$channel" --once --final "$work/final"
    consumer=$last
    ready feed_consumer || good=no
    start feed_handler --relay --interface "$interface" --channel "$channel"
    first=$last
    ready feed_handler || good=no
    mv "$work/feed_handler.out" "$work/first.out"
    start feed_handler --relay --interface "$interface" --group 239.192.1.4:5004 --channel "$channel"
    second=$last
    ready feed_handler || good=no
    both_are_followed | timeout "$limit" "$programs/feed_generator" --interface "$interface" --group-b 239.192.1.4:5004 \
        --hold --loss 10 --seed 7 --symbols 50 --messages 20000 --rate 10000 --expect "$work/expected" "$@" \
        >"$work/feed_generator.out" 2>&1 || good=no
    finish "$first"
    finish "$second"
    finish "$consumer"
}

# Each handler lost messages, and the consumer has all of them.
handlers_fill_each_other() {
    run_relays
    cmp -s "$work/expected" "$work/final" || good=no
    [ "$(wc -l <"$work/final")" = 50 ] || good=no
    grep -q '[1-9][0-9]* lost in' "$work/first.out" || good=no
    grep -q '[1-9][0-9]* lost in' "$work/feed_handler.out" || good=no
    grep -q 'messages lost' "$work/feed_consumer.out" && good=no
    verdict "two handlers of a line each fill each other's gaps" $good
}

# Messages that neither handler has are reported to the consumer once.
loss_at_both_handlers_is_told_once() {
    run_relays --drop 1000
    [ "$(grep -c 'no transmitter has the messages' "$work/feed_consumer.out")" = 1 ] || good=no
    [ "$(grep -c 'messages lost' "$work/feed_consumer.out")" = 1 ] || good=no
    [ "$(grep -c ' stale$' "$work/final")" = 50 ] || good=no
    verdict "loss at both handlers is told once" $good
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
    local what=$1 good=yes begin=$SECONDS

    timeout "$limit" stdbuf -oL "$work/receiver" >"$work/receiver.out" 2>"$work/receiver.err" &
    last=$!
    started+=("$last")
    until grep -qsx 'quotes: hello' "$work/receiver.out"; do
        [ $((SECONDS - begin)) -lt "$limit" ] && timeout "$limit" "$work/transmitter" 2>"$work/transmitter.err" || { good=no && break; }
    done
    kill "$last"
    wait "$last" 2>/dev/null
    verdict "$what" $good
}

programs_of_the_readme_work() {
    if { program README.md '/* transmitter.c */' transmitter.c cc && program README.md '/* receiver.c */' receiver.c cc; } >"$work/cc.out" 2>&1; then
        programs_work "the README's programs work"
    else
        verdict "the README's programs work" no
    fi
}

programs_in_cpp_work() {
    local cpp="c++ -std=c++17"

    command -v c++ >/dev/null || { echo "skip the programs of docs/cpp.md: g++ is not installed" && return; }
    # shellcheck disable=SC2086
    if { program docs/cpp.md '// transmitter.cpp' transmitter.cpp $cpp && program docs/cpp.md '// receiver.cpp' receiver.cpp $cpp; } \
        >"$work/cc.out" 2>&1; then
        programs_work "the programs of docs/cpp.md work"
    else
        verdict "the programs of docs/cpp.md work" no
    fi
}

# commands HEADING: the commands of a section of the tutorial, without the picture before the first sentence that ends
# with a colon.
commands() {
    awk -v heading="## $1" '$0 == heading { inside = 1; next } /^## / { inside = 0 }
        inside && /:$/ { begun = 1 }
        inside && begun && /^    / { print substr($0, 5) }' "$source/examples/README.md" |
        sed "s|build/examples|$programs|g"
}

# The tutorial's own commands, as they stand there.
confirmed_orders_survive_stores() {
    local good=yes output=$work/tutorial.out

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
    verdict "confirmed orders survive the stores that are killed" $good
}

positions_survive_primaries_that_are_killed() {
    local good=yes output=$work/tutorial.out

    mkdir "$work/tutorial"
    commands "A position keeper" >"$work/tutorial/commands"
    (cd "$work/tutorial" && timeout "$limit" bash -e -c 'trap "kill \$(jobs -p) 2>/dev/null || :; wait" EXIT; . ./commands') \
        >"$output" 2>"$work/tutorial.err" || good=no
    grep -q ' member [0-2] has the positions before fill ' "$output" || good=no
    [ "$(grep -c 'is complete' "$output")" -ge 2 ] || good=no
    # Two processes at least have all fills, and no two differ.
    grep -qE '^ *[23] fills 4000: ' "$output" || good=no
    grep -q '^fills ' "$output" && good=no
    rm -rf "$work/tutorial"
    verdict "positions survive primaries that are killed" $good
}

messages_arrive_in_order
requests_are_answered
programs_of_the_readme_work
programs_in_cpp_work
books_agree
loss_in_the_feed_is_told
lines_fill_each_other
handlers_fill_each_other
loss_at_both_handlers_is_told_once
confirmed_orders_survive_stores
positions_survive_primaries_that_are_killed
exit $((failures > 0))
