# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# bench/run over soft-RoCE, which sources this. There need be no RDMA hardware: the benchmark runs in the guest of tests/roce.
#
#   roce_guest BUILD ARGUMENT...  On the host: has bench/run do all but building and plotting in the guest, with the same ARGUMENTs.
#                                 What it writes comes into the results directory, the table too.
#   roce_hosts                    In the guest: makes the devices, unless they are there, and chooses them as hosts.
#   roce_reference SIZE           In the guest: what perftest's ib_send_lat makes of the same devices, in one line.
#
# They use benchmark, results and what the options came to, of bench/run.

# shellcheck disable=SC2034
roce_emulated="soft-RoCE (rdma_rxe) in a guest that QEMU emulates: the figures say nothing about RDMA hardware, only ratios tell"

# Far beyond what it takes, as nobody sees what hangs in a guest.
roce_seconds() {
    awk "BEGIN { print int(120 + $1 * $runs * (20 * $duration + ${messages:-0} / 500)) }"
}

roce_guest() {
    local build=$1 status=0 rows
    shift
    # shellcheck source=../tests/roce/guest.sh
    . "$SETUP_ROOT/tests/roce/guest.sh"
    setup_packages ibverbs-providers iproute2 || return
    [ "$benchmark" != reflector ] || setup_packages perftest || say "so there is no ib_send_lat beside it"
    rows=$(($(count "$sizes") * $(count "${rates:-0}")))
    say "measuring $rows rows of ${messages:-$duration s}${messages:+ messages} in the guest, and bare verbs, $runs times"
    guest_run "$SETUP_ROOT/bench/run" "$results" --timeout "$(roce_seconds "$rows")" --share "$build" \
        -- "$@" --results /run/results --json "/run/results/$benchmark.json" --in-guest "$build" || status=$?
    # shellcheck disable=SC2154
    [ "$status" != 77 ] || say "$guest_reason"
    [ "$status" = 0 ] || return "$status"
    [ "$json" -ef "$results/$benchmark.json" ] || cp "$results/$benchmark.json" "$json"
    say "table: $results/$benchmark.txt"
}

roce_hosts() {
    # shellcheck source=../tests/roce/in_guest.sh
    . "$SETUP_ROOT/tests/roce/in_guest.sh"
    [ -d "/sys/class/infiniband/$ROCE_DEVICE_A" ] || { roce_up && roce_first; }
    setup_hosts roce
}

# The devices are work that the kernel puts off when there is much of it, until programs that never sleep have had their slices:
# milliseconds, for every packet. It comes first now.
roce_first() {
    local pid
    for pid in $(pgrep ksoftirqd); do
        chrt -f -p 1 "$pid"
    done
}

# ib_send_lat prints: bytes, iterations, least, most, typical, average, deviation, 99 %, 99.9 %; of half a round trip in us.
roce_reference() {
    local options=(-c UD -n 1000 -s "$1" -F) tenths figures server
    command -v ib_send_lat >/dev/null || { echo "reference none: ib_send_lat is not installed (perftest)" && return 0; }
    ib_send_lat "${options[@]}" -d "$ROCE_DEVICE_B" >/dev/null 2>&1 &
    server=$!
    for ((tenths = 0; tenths < 50; tenths++)); do
        ! ss -tln | grep -q :18515 || break
        sleep 0.1
    done
    figures=$(timeout 30 ib_send_lat "${options[@]}" -d "$ROCE_DEVICE_A" "$ROCE_ADDRESS_B" 2>&1 |
        awk -v size="$1" '$1 == size && NF >= 8 { printf "median %s us, mean %s, 99 %% %s", $5, $6, $8 }') || true
    kill "$server" 2>/dev/null || true # it has ended if it was asked
    echo "reference ib_send_lat -c UD, $1 B unicast, 1000 rounds, half a round trip: ${figures:-none, it failed}"
}
