#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests of the Rust crates, and of their examples against those in C.
#
#   bindings/rust/run-test.sh BUILD_DIR
#
# The crates are built in BUILD_DIR/rust. Prints a line for each test, `ok NAME`, `skip NAME: why` or `FAIL NAME: why`.
set -euo pipefail

build=$(cd "${1:?usage: run-test.sh BUILD_DIR}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../../tests/setup.sh
. "$here/../../tests/setup.sh"
# shellcheck source=../../tests/check.sh
. "$here/../../tests/check.sh"

export CARGO_TARGET_DIR=$build/rust LLM_LIB_DIR=$build LD_LIBRARY_PATH=$build CARGO_NET_OFFLINE=true
# Symbols for a debugger take a third of the time.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
check_label='rust: '
limit=$((60 * ${LLM_SLOWNESS:-1})) # seconds that any step may take: far more than it does
c=$build/examples
rust=$CARGO_TARGET_DIR/debug/examples
work=$SETUP_SCRATCH
started=()

# ------------------------------------------------------------------------------------------------------------- crates

in_crates() {
    (cd "$here" && "$@")
}

# needs PROGRAM PACKAGE: skips the test where the program is missing.
needs() {
    command -v "$1" >/dev/null && return 0
    why="$1 is not installed: someone with root has to run: apt-get install $2"
    return 77
}

declarations_and_tables_are_those_of_the_headers() {
    "$here/generate" --check
}

sources_are_formatted() {
    needs rustfmt rustfmt && in_crates cargo fmt --all --check
}

clippy_finds_nothing() {
    needs cargo-clippy rust-clippy && in_crates cargo clippy --quiet --workspace --all-targets -- -D warnings
}

examples_have_no_unsafe_code() {
    local file
    for file in "$here"/libllm/examples/*.rs; do
        grep -q '^#!\[forbid(unsafe_code)\]$' "$file" || { why="$file does not forbid it" && return 1; }
    done
}

tests_of_the_crate_pass() {
    in_crates cargo test --quiet --tests
}

examples_compile() {
    in_crates cargo build --quiet --examples
}

examples_of_the_documents_run_and_misuse_does_not_compile() {
    in_crates cargo test --quiet --doc
}

a_message_costs_what_it_does_in_c() {
    needs valgrind valgrind && in_crates cargo build --quiet --release --package cost_rust &&
        "$here/../../bench/languages.py" "$build/bench/cost_c" --check --rust "$CARGO_TARGET_DIR/release/cost_rust"
}

# ------------------------------------------------------------------------------------------------- programs together

# start HOST NAME PROGRAM ARGUMENT...: starts a program in the background, with its output in a file of the name. Sets last.
start() {
    local host=$1 name=$2
    shift 2
    # shellcheck disable=SC2086
    timeout "$limit" $host "$@" >"$work/$name.out" 2>"$work/$name.err" &
    last=$!
    started+=("$last")
}

# ready NAME: waits until the program prints that it listens.
ready() {
    local tenths
    for ((tenths = 0; tenths < limit * 10; tenths++)); do
        grep -qs listening "$work/$1.out" && return 0
        kill -0 "$last" 2>/dev/null || return
        sleep 0.1
    done
    return 1
}

# run HOST NAME PROGRAM ARGUMENT...: runs a program to its end.
run() {
    start "$@"
    wait "$last"
}

# Ends what the test left, and shows its output after a failure.
end_all() {
    local status=$1 pid
    for pid in "${started[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    started=()
    [ "$status" = 0 ] || tail -n 20 "$work"/*.out "$work"/*.err
    rm -f "$work"/*.out "$work"/*.err
    return "$status"
}

ends_well() {
    local status=0
    "$@" || status=$?
    end_all "$status"
}

# messages TRANSMITTER RECEIVER GROUP
messages() {
    start "$HOST_B" receiver "$2" "udp://$3:5001?interface=$IF_B" greetings 300
    local receiver=$last
    ready receiver && run "$HOST_A" other "$1" "udp://$3:5001?interface=$IF_A" other 3 1 &&
        run "$HOST_A" transmitter "$1" "udp://$3:5001?interface=$IF_A" greetings 300 1 && wait "$receiver" &&
        grep '^greetings ' "$work/receiver.out" | sed 's/^.*: //' >"$work/received" &&
        seq -f 'hello, number %.0f' 0 299 | cmp - "$work/received" && ! grep -q '^other ' "$work/receiver.out"
}

# requests ASKER ANSWERER PORT
requests() {
    local channel="udp://$ADDRESS_B:$3"
    start "$HOST_B" answerer "$2" "$channel" sesame
    ready answerer && run "$HOST_A" asker "$1" "$channel" sesame abc 'able was i' &&
        grep -q '^cba, after ' "$work/asker.out" && grep -q '^i saw elba, after ' "$work/asker.out" &&
        ! run "$HOST_A" refused "$1" "$channel" simsalabim abc && grep -q 'refused, code 403' "$work/refused.out" &&
        grep -q 'disconnected: closed' "$work/answerer.out"
}

a_receiver_in_rust_gets_messages_from_c() {
    ends_well messages "$c/transmitter" "$rust/receiver" 239.192.5.1
}

a_receiver_in_c_gets_messages_from_rust() {
    ends_well messages "$rust/transmitter" "$c/receiver" 239.192.5.2
}

requests_of_rust_are_answered_by_c() {
    ends_well requests "$rust/asker" "$c/answerer" 5005
}

requests_of_c_are_answered_by_rust() {
    ends_well requests "$c/asker" "$rust/answerer" 5006
}

# The generator and the handler are on one host.
feed() {
    local channel=udp://239.192.5.3:5003 consumer handler
    start "$HOST_B" consumer "$rust/feed_consumer" "$channel?interface=$IF_B" "$work/final"
    consumer=$last
    ready consumer || return
    start "$HOST_A" handler "$c/feed_handler" --interface "$IF_A" --channel "$channel?interface=$IF_A" --once
    handler=$last
    ready handler && run "$HOST_A" generator "$c/feed_generator" --interface "$IF_A" --seed 7 --symbols 50 --messages 10000 \
        --rate 10000 --expect "$work/expected" && wait "$handler" && wait "$consumer" &&
        cmp "$work/expected" "$work/final" && [ "$(wc -l <"$work/final")" = 50 ]
}

a_consumer_in_rust_has_the_books_of_the_feed() {
    ends_well feed
}

# program NAME HOST_INTERFACE: the program of docs/rust.md that begins with its name, in a package of its own.
program() {
    awk -v name="// $1.rs" '/^```/ { inside = 0 } $0 == name { inside = 1 } inside' "$here/../../docs/rust.md" |
        sed "s|udp://[0-9.:]*|&?interface=$2|" >"$work/guide/src/bin/$1.rs"
}

# The receiver does not print that it listens, so the transmitter is run repeatedly until a message arrives.
guide() {
    local begin=$SECONDS
    mkdir -p "$work/guide/src/bin"
    program transmitter "$IF_A" && program receiver "$IF_B" || return
    printf '[package]\nname = "guide"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nlibllm = { path = "%s/libllm" }\n[workspace]\n' \
        "$here" >"$work/guide/Cargo.toml"
    (cd "$work/guide" && cargo build --quiet) || return
    start "$HOST_B" receiver "$CARGO_TARGET_DIR/debug/receiver"
    until grep -qsx 'quotes: hello' "$work/receiver.out"; do
        [ $((SECONDS - begin)) -lt "$limit" ] && run "$HOST_A" transmitter "$CARGO_TARGET_DIR/debug/transmitter" || return
    done
}

the_guides_programs_work() {
    ends_well guide
}

# ---------------------------------------------------------------------------------------------------------------- main

tests=(declarations_and_tables_are_those_of_the_headers sources_are_formatted examples_have_no_unsafe_code clippy_finds_nothing
    tests_of_the_crate_pass examples_compile examples_of_the_documents_run_and_misuse_does_not_compile
    a_message_costs_what_it_does_in_c a_receiver_in_rust_gets_messages_from_c a_receiver_in_c_gets_messages_from_rust
    requests_of_rust_are_answered_by_c requests_of_c_are_answered_by_rust a_consumer_in_rust_has_the_books_of_the_feed
    the_guides_programs_work)
for test in "${tests[@]}"; do
    check_named "$test"
    echo "plan $check_name"
done
if ! command -v cargo >/dev/null; then
    for test in "${tests[@]}"; do
        check_named "$test"
        echo "skip $check_name: cargo is not installed: someone with root has to run: apt-get install cargo"
    done
    exit 0
fi
setup_hosts
for test in "${tests[@]}"; do
    check "$test"
done
exit $((check_failures > 0))
