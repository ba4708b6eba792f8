#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Captures the packets of two programs, with losses after the capture point, dissects them with tshark by its heuristics alone,
# and compares its counts with those of the programs.
#
#   tests/wireshark/live.sh BUILD_DIR
#
# Exits with 77 and the reason if that is not possible.
set -euo pipefail

build=$(cd "${1:?usage: live.sh BUILD_DIR}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../setup.sh
. "$here/../setup.sh"

messages=5000

skip() {
    echo "$1"
    exit 77
}

command -v tshark >/dev/null || skip "tshark is missing: someone with root has to run: apt-get install tshark"
setup_hosts
[ "$HOSTS_KIND" != loopback ] || skip "needs network namespaces: root, or unprivileged user namespaces and the package iproute2"

work=$SETUP_SCRATCH
channel=udp://239.192.3.1:5003

# says NAME TEXT: waits until a program prints a text.
says() {
    for _ in $(seq 600); do
        grep -qs "$2" "$work/$1.err" && return 0
        sleep 0.1
    done
    echo "FAILED: $1 did not say $2: $(cat "$work/$1.err")"
    return 1
}

# The receiver's losses occur after the interface, so that all packets are in the capture.
$HOST_B "$here/capture.py" "$IF_B" "$work/live.pcap" 2>"$work/capture.err" &
capture=$!
says capture capturing
$HOST_B "$build/tests/e2e/e2e_flood_receive" "impair+$channel?interface=$IF_B&impair_loss_ppm=30000" \
    >"$work/receive.out" 2>"$work/receive.err" &
receive=$!
says receive listening
# shellcheck disable=SC2086
setup_run $HOST_A "$build/tests/e2e/e2e_flood_send" "$channel?interface=$IF_A&history_bytes=64M" --messages $messages --rate 100000 \
    --after-ms 200 >"$work/send.out" 2>"$work/send.err"
wait "$receive"
kill -TERM "$capture"
wait "$capture" || { cat "$work/capture.err" && exit 1; }

status=0
HOME=$work WIRESHARK_CONFIG_DIR=$work tshark -n -X "lua_script:$SETUP_ROOT/tools/wireshark/llm.lua" -r "$work/live.pcap" -Y udp \
    -T fields -e llm.type -e llm.analysis.repeats -e llm.expert.missing -e llm.expert.malformed -e llm.expert.broken \
    -e llm.nak.packets -e llm.heartbeat.flags.end -e llm.train -e llm.message.number -e llm.analysis.nak_captured \
    >"$work/fields" 2>"$work/tshark.err" || status=$?
! grep -q "there cannot be two protocols" "$work/tshark.err" ||
    skip "a dissector llm is installed already, and cannot be told to stay away: remove its llm.lua (tshark -G folders)"
if [ $status != 0 ] || grep -q "Lua" "$work/tshark.err"; then
    cat "$work/tshark.err" && exit 1
fi
python3 "$here/live.py" $messages "$work/send.out" "$work/receive.out" "$work/fields"
