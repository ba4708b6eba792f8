# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2015
# llm-stat and the counters files.

llm_context_counter=$build/tools/llm-stat

# Creates a directory for the counters files of a test. Sets counters.
counters_at() {
    counters=$(mktemp -d /dev/shm/llm-e2e-stat-XXXXXX)
    setup_at_exit "rm -rf $counters"
}

# counted EXPRESSION: waits until this holds for the JSON of llm-stat, in Python; c has the contexts by program.
counted() {
    local tries
    for ((tries = 0; tries < 50 * ${LLM_SLOWNESS:-1}; tries++)); do
        ! counts "$1" || return 0
        sleep 0.1
    done
    why="not so: $1; $(tr -d '\n' <"$work/counters.json" | cut -c 1-300)"
    return 1
}

counts() {
    "$llm_context_counter" --json "$counters" >"$work/counters.json" || true
    python3 - "$work/counters.json" "$1" 2>/dev/null <<'END'
import json, sys
contexts = json.load(open(sys.argv[1]))["contexts"]
c = {context.get("program", context["file"]): context for context in contexts}
def of(program, kind, name):
    found = [o for o in c[program]["objects"] if o["kind"] == kind]
    return [{**o["counters"], **o["gauges"]}[name] for o in found]
def measured(program, kind):
    found = [o["histograms"] for o in c[program]["objects"] if o["kind"] == kind]
    return sorted(name for histograms in found for name in histograms if histograms[name]["count"] > 0)
sys.exit(not eval(sys.argv[2]))
END
}

# Five topics are counted at both ends, as objects below their session and as labels for Prometheus. The histograms of the lower
# levels of the latency monitor are present, those of higher levels are not.
e2e counters_of_topics \
    not=roce:"for time, four seconds; it passes if it is named"
counters_of_topics() {
    local receiver sender with
    counters_at || return
    with="env LLM_STATS_DIRECTORY=$counters"
    receive "$HOST_B $with" receiver "$(channel "$IF_B" topic_counters=1)" --latency 1 && receiver=$last || return
    send "$HOST_A $with" sender "$(channel "$IF_A" topic_counters=1)" --messages 10000 --rate "$rate" --step 5000 --latency 2
    sender=$last
    says sender "sent 5000" && sleep 0.3 || return
    # One expression, as each one starts two programs.
    counted "(sum(of('e2e_flood_send', 'topic', 'topic_messages')) == 5000 and len(of('e2e_flood_send', 'topic', 'topic_bytes')) == 5
        and of('e2e_flood_receive', 'topic', 'topic_messages') == of('e2e_flood_send', 'topic', 'topic_messages')[::-1]
        and sorted(of('e2e_flood_receive', 'topic', 'topic_bytes')) == sorted(of('e2e_flood_send', 'topic', 'topic_bytes'))
        and of('e2e_flood_send', 'transmitter', 'limited_by') == [0]
        and measured('e2e_flood_receive', 'receiver') == ['buffered_packets']
        and measured('e2e_flood_send', 'transmitter') == ['flush_packets', 'queue_packets', 'submit_wire_ns'])" || return
    goes_on "$sender" && ends "$sender" && ends "$receiver" && complete receiver 10000
}

# The last level measures every message at both ends, from the kernel's time stamp if there is one.
e2e latencies_are_counted_and_shown
latencies_are_counted_and_shown() {
    local receiver sender with name sees="" of="[o['histograms'] for o in c['e2e_flood_receive']['objects'] if o['kind'] == 'receiver'][0]"
    counters_at || return
    with="env LLM_STATS_DIRECTORY=$counters"
    receive "$HOST_B $with" receiver "$(channel "$IF_B" timestamps=1)" --latency 3 && receiver=$last || return
    send "$HOST_A $with" sender "$(channel "$IF_A")" --messages 10000000 --rate 8000 --step 2000 --latency 3
    sender=$last
    says sender "sent 2000" || return
    for name in wire_deliver_ns fetch_deliver_ns; do
        sees+="2000 <= $of['$name']['count'] <= 2010 and 0 < $of['$name']['p50'] <= $of['$name']['p99'] and "
    done
    [ "$transport" != udp ] || sees+="2000 <= $of['wire_fetch_ns']['count'] <= 2010 and $of['wire_fetch_ns']['p50'] > 0 and "
    counted "$sees 0 < [o['histograms'] for o in c['e2e_flood_send']['objects'] if o['kind'] == 'transmitter'][0]['submit_wire_ns']['count'] <= 2010" || return
    latencies_are_seen && kill -TERM "$sender" && ends "$sender" && ends "$receiver" && complete receiver "$(number sender sent)"
}

# Checks the view while messages flow. It does not know the transport: skipped where everything is slow.
latencies_are_seen() {
    ((fewer == 1)) || return 0
    run_on "" view python3 "$here/stat.py" latencies "$llm_context_counter" "$counters"
    local view=$last
    while kill -0 "$view" 2>/dev/null; do
        goes_on "$sender" || return
        sleep 0.1
    done
    ends "$view" || { why=$(tail -n 1 "$work/view.err") && return 1; }
}

# A counters file starts the watch: a receiver that takes a hundred messages in 20 ms is slow, and its transmitter waits for it
# and knows the reason. No event is reported without a request. The transmitter sends until it is stopped.
e2e counters_name_the_bottleneck over=udp
counters_name_the_bottleneck() {
    local receiver sender with
    counters_at || return
    with="env LLM_STATS_DIRECTORY=$counters"
    receive "$HOST_B $with" receiver "$(channel "$IF_B")" --wait 1 --pause-us 20000 && receiver=$last || return
    send "$HOST_A $with" sender "$(channel "$IF_A" "flow=window&flow_window_packets=64")" --messages 10000000 --rate 20000
    sender=$last
    counted "of('e2e_flood_receive', 'receiver', 'limited_by') == [1] and of('e2e_flood_send', 'transmitter', 'limited_by') == [4]" &&
        counted "of('e2e_flood_send', 'member', 'member_limited_by') == [1]" || return
    python3 "$here/stat.py" limited "$llm_context_counter" "$counters" 2>"$work/limited.err" || { why=$(tail -n 1 "$work/limited.err") && return 1; }
    kill -TERM "$sender" && ends "$sender" && ends "$receiver" && complete receiver "$(number sender sent)" || return
    ! grep -q "limited by" "$work"/*.err || { why="somebody was told who did not ask" && return 1; }
}

# counters_flow COUNT: a receiver and a sender that waits when it has sent half of them. Sets receiver and sender.
counters_flow() {
    local with="env LLM_STATS_DIRECTORY=$counters"
    receive "$HOST_B $with" receiver "$(channel "$IF_B")" && receiver=$last || return
    send "$HOST_A $with" sender "$(channel "$IF_A")" --messages "$1" --rate "$rate" --step $(($1 / 2))
    sender=$last
    says sender "sent $(($1 / 2))" && sleep 0.3 # three times the maximum age of a counters file
}

e2e counters_of_living_stopped_and_killed_processes over=udp
counters_of_living_stopped_and_killed_processes() {
    local receiver sender half=$((some / 2))
    counters_at && counters_flow "$some" || return
    counted "len(c) == 2 and all(x['alive'] for x in c.values())" &&
        counted "of('e2e_flood_send', 'transmitter', 'messages_sent') == [$half]" &&
        counted "of('e2e_flood_receive', 'receiver', 'messages_delivered') == [$half]" &&
        counted "of('e2e_flood_receive', 'session', 'session_messages') == [$half]" &&
        counted "of('e2e_flood_send', 'member', 'lag_packets') == [0]" || return
    "$llm_context_counter" --once "$counters" >"$work/once.out" && grep -q "messages_sent *$half" "$work/once.out" &&
        grep -q "^e2e_flood_receive.*alive" "$work/once.out" || { why="--once does not say so" && return 1; }
    kill -STOP "$receiver"
    local tries
    for ((tries = 0; tries < 50 * ${LLM_SLOWNESS:-1}; tries++)); do
        ! "$llm_context_counter" --once "$counters" | grep -q "^e2e_flood_receive.*alive.*NOT POLLING" || break
        sleep 0.1
    done
    [ "$tries" -lt $((50 * ${LLM_SLOWNESS:-1})) ] || { why="the stopped process is not reported" && return 1; }
    kill -KILL "$receiver" && wait "$receiver"
    counted "not c['e2e_flood_receive']['alive'] and c['e2e_flood_send']['alive']" &&
        counted "of('e2e_flood_receive', 'receiver', 'messages_delivered') == [$half]" || return
    # Files of running processes remain.
    "$llm_context_counter" --clean "$counters" | grep -q "removed 1 files" && counted "list(c) == ['e2e_flood_send']" || return
    kill -KILL "$sender" && wait "$sender"
    counted "of('e2e_flood_send', 'transmitter', 'messages_sent') == [$half]"
}

e2e invalid_counters_files_are_distinguished over=udp
invalid_counters_files_are_distinguished() {
    local receiver sender good
    counters_at && counters_flow "$some" || return
    kill -KILL "$sender" "$receiver" && wait "$sender" "$receiver"
    good=$(echo "$counters"/e2e_flood_send.*)
    head -c 100000 "$good" >"$counters/cut"
    head -c 10 "$good" >"$counters/head"
    : >"$counters/empty"
    { head -c 8 "$good" && printf '\002' && tail -c +10 "$good"; } >"$counters/newer"
    { head -c 5000 "$good" && head -c 300000 /dev/urandom && tail -c +305001 "$good"; } >"$counters/damaged"
    head -c 100000 /dev/urandom >"$counters/noise"
    echo "a text for people" >"$counters/text"
    ln -s /dev/zero "$counters/device"
    mkfifo "$counters/fifo"
    local status=0
    timeout 10 "$llm_context_counter" --once "$counters" >"$work/once.out" 2>&1 || status=$?
    [ "$status" = 1 ] || { why="--once ended with $status" && return 1; }
    local line
    for line in "^cut: cut short" "^head: cut short" "^empty: cut short" "^newer: a counters file of version 2, this program reads version 1" \
        "^noise: not a counters file" "^text: not a counters file" "^device: " "^fifo: not a counters file" "^e2e_flood_send.*dead"; do
        grep -q "$line" "$work/once.out" || { why="--once does not say: $line" && return 1; }
    done
    { "$llm_context_counter" --json "$counters" || true; } | python3 -m json.tool >/dev/null || { why="--json is not JSON" && return 1; }
    { "$llm_context_counter" --once "$counters/text" 2>&1 || true; } | grep -q "Not a directory" || { why="a file is no directory" && return 1; }
    "$llm_context_counter" --once "$counters/none" | grep -q "no counters files" || { why="no directory is no fault" && return 1; }
}

e2e counters_without_room_do_not_prevent_sending needs=root over=udp
counters_without_room_do_not_prevent_sending() {
    local receiver sender propagation=private
    counters_at
    # In a chroot / is no mount point, which could be made private.
    unshare -m true 2>/dev/null || propagation=unchanged
    receive "$HOST_B" receiver "$(channel "$IF_B")" && receiver=$last || return
    run_on "$HOST_A" sender unshare -m --propagation "$propagation" sh -c "mount -t tmpfs -o size=64k none $counters && LLM_STATS_DIRECTORY=$counters exec \"\$@\"" sh \
        "$programs/e2e_flood_send" "$(channel "$IF_A")" --messages "$some" --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$some" || return
    says sender "counters file: $counters: No space left on device; see 'df -h'"
}

e2e counters_for_prometheus over=udp
counters_for_prometheus() {
    local receiver sender
    counters_at && counters_flow "$some" || return
    run_on "$HOST_A" server "$llm_context_counter" --prometheus "127.0.0.1:$(port)" "$counters"
    says server "http://127.0.0.1:$(port)/metrics" || return
    # shellcheck disable=SC2086
    if $HOST_A "$llm_context_counter" --prometheus "127.0.0.1:$(port)" "$counters" 2>"$work/second.err"; then
        why="two of them listen" && return 1
    fi
    grep -q "another process listens there already" "$work/second.err" || { why=$(cat "$work/second.err") && return 1; }
    # shellcheck disable=SC2086
    $HOST_A python3 "$here/stat.py" prometheus "$(port)" $((some / 2)) 2>"$work/prometheus.err" || { why=$(tail -n 1 "$work/prometheus.err") && return 1; }
}

e2e counters_in_a_terminal over=udp
counters_in_a_terminal() {
    local receiver sender
    counters_at && counters_flow "$some" || return
    python3 "$here/stat.py" terminal "$llm_context_counter" "$counters" 2>"$work/terminal.err" || { why=$(tail -n 1 "$work/terminal.err") && return 1; }
}
