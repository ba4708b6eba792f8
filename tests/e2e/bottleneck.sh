# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2015
# Bottlenecks of receivers and transmitters: each cause is provoked, and only that one has to be reported.

watch="--watch-ms 200"

# named NAME LIMIT: only this limit of a receiver was reported.
named() {
    local limit
    for limit in application buffer network; do
        if [ "$limit" = "$2" ]; then
            is "$1" "by_$limit" ">" 0 || return
        else
            is "$1" "by_$limit" == 0 || return
        fi
    done
}

# named_only NAME [TEXT]: only this limit of a sender, or none, was reported.
named_only() {
    local line own
    own=$(grep "limited by" "$work/$1.err" | grep -v "receiver .* is limited") || true
    [ -z "${2:-}" ] || grep -qF "limited by $2" <<<"$own" || { why="$1 was not limited by $2" && return 1; }
    line=$(grep -vF "limited by ${2:-nothing}" <<<"$own" | head -n 1) || true
    [ -z "$line" ] || { why="$1: $line" && return 1; }
}

# reported NAME TEXT: the sender got only reports that its receiver has this limit.
reported() {
    grep -q "receiver .* is limited by $2" "$work/$1.err" || { why="$1 got no report that the receiver is limited by $2" && return 1; }
    ! grep "receiver .* is limited by" "$work/$1.err" | grep -qvF "limited by $2" || { why="$1 got a report of another limit" && return 1; }
}

# The receiver takes a hundred messages in 20 ms, or more if polls are slow, and is sent eight times as many: the sender waits for it, and
# gets the reason. The window is so short that a poll, which may take all of it, takes a part of the interval of reports.
slow_application() {
    local receiver sender count=$1
    # shellcheck disable=SC2086
    receive "$HOST_B" receiver "$(channel "$IF_B")" --wait 1 --pause-us $((fewer > 1 ? 60000 : 20000)) $watch && receiver=$last || return
    # shellcheck disable=SC2086
    send "$HOST_A" sender "$(channel "$IF_A" "flow=window&flow_window_packets=64&$keep")" --messages "$count" --rate 40000 \
        $watch
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$count" && named receiver application &&
        named_only sender "its receivers, for whom flow control waits" &&
        reported sender "the application, which is slow to poll"
}

e2e the_slow_application_is_named \
    not=roce:"what the transmitter does is the same over each transport" \
    not=bypass:"the short one is the same with fewer messages; it passes if it is named" \
    not=xdp,shm:"the short one is the same with fewer messages"
the_slow_application_is_named() {
    slow_application $((15000 / (1 + fewer / 5)))
}

e2e the_slow_application_is_named_shortly over=bypass,xdp,shm
the_slow_application_is_named_shortly() {
    slow_application 10000
}

# Bursts are faster than the wake-up of a process, with long pauses between them.
e2e the_overflowing_buffer_is_named \
    not=bypass:"the kernel's buffer of a socket" \
    not=xdp,roce,shm:"the buffer of a socket"
the_overflowing_buffer_is_named() {
    local receiver sender i
    # shellcheck disable=SC2086
    receive "$HOST_B" receiver "$(channel "$IF_B" "rcvbuf_bytes=4096")" --wait 1 $watch && receiver=$last || return
    # shellcheck disable=SC2086
    send "$HOST_A" sender "$(channel "$IF_A" "gso_packets=1&$keep")" --messages 40000 --rate $unpaced --step 2000 $watch
    sender=$last
    for i in {1..19}; do
        says sender "sent $((i * 2000))" && sleep 0.1 && goes_on "$sender" || return
    done
    ends "$sender" && ends "$receiver" && complete receiver 40000 && is receiver udp_kernel_drops ">" 0 || return
    named receiver buffer && named_only sender && reported sender "the receive buffer, which overflows" || return
    note "the kernel dropped $(number receiver udp_kernel_drops) packets"
}

e2e the_lossy_network_is_named needs=nft \
    not=roce:"what the transmitter does is the same over each transport" \
    not=bypass:"a stack has no part in it; it passes if it is named" \
    not=shm:"memory loses nothing by itself"
the_lossy_network_is_named() {
    lose 5 || return
    local receiver sender count=$((20000 / (1 + fewer / 5)))
    # shellcheck disable=SC2086
    receive "$HOST_B" receiver "$(channel "$IF_B")" --wait 1 $watch && receiver=$last || return
    # shellcheck disable=SC2086
    send "$HOST_A" sender "$(channel "$IF_A" "$keep")" --messages "$count" \
        --rate $((rate / 10 > 5000 ? rate / 10 : 5000)) $watch
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$count" && named receiver network &&
        named_only sender && reported sender "the network, which loses packets"
}

# The cable carries 20 Mbit/s, and the queued packets fill the socket's buffer.
e2e the_blocked_transport_is_named needs=namespaces \
    not=bypass:"the kernel's buffer of a socket" \
    not=xdp:"the buffer of a socket; nothing queues for an interface that frames leave by" \
    not=roce,shm:"the buffer of a socket"
the_blocked_transport_is_named() {
    local receiver sender status=0
    # shellcheck disable=SC2086
    $HOST_A tc qdisc add dev "$IF_A" root tbf rate 20mbit burst 64kb latency 10s 2>/dev/null ||
        { why="no tc, or no tbf" && return 77; }
    # shellcheck disable=SC2086
    receive "$HOST_B" receiver "$(channel "$IF_B")" --wait 1 $watch && receiver=$last || status=$?
    # shellcheck disable=SC2086
    send "$HOST_A" sender "$(channel "$IF_A" "sndbuf_bytes=65536&gso_packets=1&$keep")" --messages 100000 \
        --rate $unpaced $watch
    sender=$last
    [ "$status" = 0 ] && ends "$sender" && ends "$receiver" && complete receiver 100000 || status=$?
    # shellcheck disable=SC2086
    $HOST_A tc qdisc del dev "$IF_A" root
    [ "$status" = 0 ] && is sender udp_send_waits ">" 0 && named_only sender "the transport, which takes no more"
}

# Ten thousand messages are about 2 MB, at 1 MiB a second.
rate_limit() {
    local receiver sender begin took bytes count=$1
    # shellcheck disable=SC2086
    receive "$HOST_B" receiver "$(channel "$IF_B")" --wait 1 $watch && receiver=$last || return
    begin=$(date +%s%N)
    # shellcheck disable=SC2086
    send "$HOST_A" sender "$(channel "$IF_A" "rate_bytes_per_s=1M&$keep")" --messages "$count" --rate $unpaced \
        --after-ms 0 $watch
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$count" || return
    took=$((($(date +%s%N) - begin) / 1000000)) bytes=$(number receiver bytes_received)
    ((took >= bytes * 1000 / (1 << 20) * 9 / 10)) || { why="$bytes bytes took only $took ms" && return 1; }
    is sender send_blocked_rate ">" 0 && named_only sender "a rate limit" || return
    note "$bytes bytes of data in $took ms"
}

e2e the_rate_limit_holds_and_is_named not=roce:"for time; it passes if it is named" \
    not=bypass:"the short one is the same with fewer messages; it passes if it is named" \
    not=xdp,shm:"the short one is the same with fewer messages"
the_rate_limit_holds_and_is_named() {
    rate_limit $((10000 / (1 + fewer / 10)))
}

e2e the_rate_limit_holds_and_is_named_shortly over=bypass,xdp,shm
the_rate_limit_holds_and_is_named_shortly() {
    rate_limit 4000
}
