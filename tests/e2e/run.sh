#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# End-to-end tests: the public API and the benchmarks between two hosts (network namespaces joined by veth), with loss, killed
# and stopped processes, interfaces that go down, hostile packets and wrong input.
#
#   tests/e2e/run.sh BUILD_DIR [--messages N] [--rate PER_SECOND] [--blast N] [--loss PERCENT,...] [--hosts KIND]
#                    [--transport udp|bypass|xdp|roce|shm] [--preload SHIM] [--plan] [TEST...]
#
# --preload has the programs run with a stand-in for a stack, onload or vma of tests/shim, in the kernel's place.
# First one line for each test that will run, `plan NAME`; with --plan that is all. Then one line a test: `ok NAME (N ms)`,
# `FAIL NAME ...` or `skip NAME: why`. Exits with 1 if any failed. Without TEST all of them run; `soak` is flood_with_loss with ten
# million messages at each rate, the acceptance figure, and `soak_of_peers` has 100,000 peers come and go; these run only if named.
set -euo pipefail

build=$(cd "${1:?usage: run.sh BUILD_DIR [--messages N] [--rate PER_SECOND] [--loss PERCENT,...] [TEST...]}" && pwd)
shift
messages=300000 rate=100000 blast=3000000 losses=0,1,5,20 hosts='' transport=udp preload='' plan=''
given=("$@")
while [ $# -gt 0 ]; do
    case $1 in
    --messages) messages=$2 && shift 2 ;;
    --rate) rate=$2 && shift 2 ;;
    --blast) blast=$2 && shift 2 ;;
    --loss) losses=$2 && shift 2 ;;
    --hosts) hosts=$2 && shift 2 ;;
    --transport) transport=$2 && shift 2 ;;
    --preload) preload=$2 && shift 2 ;;
    --plan) plan=only && shift ;;
    -*) echo "run.sh: $1: no such option" >&2 && exit 2 ;;
    *) break ;;
    esac
done
given=("${given[@]:0:${#given[@]}-$#}")

some=$((messages < 50000 ? messages : 50000)) # for tests that are about something else

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../setup.sh
. "$here/../setup.sh"
# shellcheck source=lanes.sh
. "$here/lanes.sh"
# shellcheck source=choose.sh
. "$here/choose.sh"

programs=$build/tests/e2e
work=$SETUP_SCRATCH/e2e
idle="" # option of programs that do not say how they wait
fewer=1 # of so many messages, connections or receivers, this part only, where a host is emulated
held_messages=1000000 held_window='' # far more than a window, and the option for that
paces_window=512 # packets that a slow receiver may lie behind
some_losses=1,5 # for tests that are about something else
label=e2e # before the name of a test
limit=$((120 * ${LLM_SLOWNESS:-1})) # seconds that any program may take: far more than it does
bind="setpriv --pdeathsig KILL --"
mkdir -p "$work"

# ------------------------------------------------------------------------------------------------------------ programs

started=()
declare -A pid_of # of the last one of a name

# run_on PREFIX NAME COMMAND...: starts a program on a host, its output in files of that name. Sets last.
run_on() {
    local prefix=$1 name=$2
    shift 2
    # What one of that name said before is not taken for its words, however long it takes to start.
    : >"$work/$name.out"
    : >"$work/$name.err"
    # shellcheck disable=SC2086
    $prefix $bind ${preload:+env "LD_PRELOAD=$build/tests/shim/shim_$preload.so"} "$@" >"$work/$name.out" 2>"$work/$name.err" &
    last=$!
    started+=("$last") pid_of[$name]=$last
}

# Where the tests run in a guest, to start a program takes a tenth of a second: what the shell can do by itself it does.

# A moment's rest.
mkfifo "$work/nobody" && exec {nobody}<>"$work/nobody"
rest() {
    read -r -t 0.02 -u "$nobody" || true
}

# Waits until a program has this on its stderr.
says() {
    local name=$1 text=$2 said='' ended='' until=$((SECONDS + limit))
    while [ -z "$ended" ] && ((SECONDS <= until)); do
        kill -0 "${pid_of[$name]}" 2>/dev/null || ended=yes
        IFS= read -r -d '' said <"$work/$name.err" || true
        [[ $said != *"$text"* ]] || return 0
        rest
    done
    why="$name ${ended:+ended and }did not say: $text"
    return 1
}

# Waits until a program has ended, and returns its status.
ends() {
    local pid=$1 until=$((SECONDS + limit)) status=0
    while kill -0 "$pid" 2>/dev/null && ((SECONDS <= until)); do
        rest
    done
    if kill -0 "$pid" 2>/dev/null; then
        kill -KILL "$pid"
        why="a program did not end in $limit s"
    fi
    wait "$pid" || status=$?
    return "$status"
}

# receive PREFIX NAME CHANNEL [OPTION...], send likewise. The receiver listens when this returns.
receive() {
    # shellcheck disable=SC2086
    run_on "$1" "$2" "$programs/e2e_flood_receive" "${@:3}" $idle
    says "$2" listening
}

send() {
    # shellcheck disable=SC2086
    run_on "$1" "$2" "$programs/e2e_flood_send" "${@:3}" $idle
}

# goes_on PID: a sender that waits between two steps, or soon will.
goes_on() {
    kill -USR1 "$1" || { why="the sender has ended" && return 1; }
}

# A number out of a program's JSON; counters that are zero are not in it.
number() {
    local text
    IFS= read -r -d '' text <"$work/$1.out" || true
    [[ $text =~ .*\"$2\":\ ([0-9.]+) ]] && echo "${BASH_REMATCH[1]}" || echo 0
}

# is NAME KEY OPERATOR NUMBER: a promise about a program's figures.
is() {
    local value
    value=$(number "$1" "$2")
    if [[ $value$4 == *[!0-9]* ]]; then
        awk "BEGIN { exit !($value $3 $4) }" && return 0
    elif (("$value $3 $4")); then
        return 0
    fi
    why="$1: $2 is $value, not $3 $4"
    return 1
}

# All of these messages came as they should, and no other.
complete() {
    is "$1" messages == "$2" && is "$1" errors == 0 && is "$1" lost == 0 && is "$1" gaps == 0
}

# Every message came or was named in a gap.
accounted() {
    [ $(($(number "$1" messages) + $(number "$1" lost))) = "$2" ] || {
        why="$1: $(number "$1" messages) came and $(number "$1" lost) were lost of $2"
        return 1
    }
    is "$1" errors == 0
}

# channel INTERFACE GROUP [OPTIONS]. What shares memory has no interface.
channel() {
    echo "$transport://239.192.3.$2:5003?$(common "$1")${3:+&$3}"
}

common() {
    [ "${transport#impair+}" = shm ] && echo "shm_directory=$memory" || echo "interface=$1"
}

# common() for several transmitters in one group.
common_shared() {
    echo "$(common "$1")$([ "${transport#impair+}" = shm ] && echo "&shm_exclusive=0")"
}

# --------------------------------------------------------------------------------------------------------------- tests

# drop PREFIX FAMILY HOOK WHAT: the packets there that match.
drop() {
    # shellcheck disable=SC2086
    $1 nft -f - 2>>"$work/nft.log" <<END || { why="nft: $(tail -n 1 "$work/nft.log")" && return 1; }
table $2 llm_e2e
delete table $2 llm_e2e
table $2 llm_e2e {
    chain $3 {
        type filter hook $3 priority 0;
        $4 drop
    }
}
END
}

# lose PERCENT: of what arrives at each host, at random. Where there is a switch it is lost there, as frames pass by a host's firewall.
lose() {
    local what="meta l4proto udp numgen random mod 100 < $1"
    if [ -n "$HOST_SWITCH" ]; then
        drop "$HOST_SWITCH" bridge forward "$what" && drop "$HOST_A" inet input "iifname lo $what"
    else
        drop "$HOST_A" inet input "$what" && drop "$HOST_B" inet input "$what"
    fi
}

# shellcheck disable=SC2086
lose_nothing() {
    [ -z "$HOST_SWITCH" ] || $HOST_SWITCH nft delete table bridge llm_e2e 2>/dev/null || true
    $HOST_A nft delete table inet llm_e2e 2>/dev/null || true
    $HOST_B nft delete table inet llm_e2e 2>/dev/null || true
}

need_namespaces() {
    [ "$HOSTS_KIND" != loopback ] || { why="needs network namespaces: root, or unprivileged user namespaces" && return 77; }
}

need_nft() {
    need_namespaces || return
    command -v nft >/dev/null || { why="someone with root has to run: apt-get install nftables" && return 77; }
}

# flood COUNT PER_SECOND [OPTIONS]: from A to B.
flood() {
    local receiver sender
    receive "$HOST_B" receiver "$(channel "$IF_B" 1 "${3:-}")" && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" 1 "${3:-}")" --messages "$1" --rate "$2" --after-ms 100
    sender=$last
    ends "$sender" && ends "$receiver" || return
    complete receiver "$1"
}

# All of it is kept, so that nothing depends on how fast this machine is: whatever is lost can be repaired at any time later.
keep="history_bytes=256M&history_packets=524288"
# Of as many messages as a sender sends in a second only a small part is kept.
short="history_bytes=$((rate * 40))"

flood_without_loss() {
    flood "$messages" "$rate" "$keep"
}

flood_with_loss() {
    need_nft || return
    local loss
    for loss in ${losses//,/ }; do
        lose "$loss" && flood "$messages" "$rate" "$keep" || { why="$loss %: $why" && return 1; }
        note "$loss %: $(number receiver packets_recovered) packets repaired, NAKs $(number receiver naks_sent)," \
            "repairs $(number sender packets_repaired) of $(number sender packets_data)"
    done
}

# With the default history: what is lost has to be repaired while it is kept.
soak() {
    messages=10000000 limit=$((3600 * ${LLM_SLOWNESS:-1})) keep=
    flood_with_loss
}

# A day of a busy network in some minutes.
soak_of_peers() {
    limit=7200
    short_lived 100000
}

# Printed, and held only to what a machine in any state must do.
lost_packets_are_repaired_soon() {
    need_nft || return
    local loss receiver sender
    for loss in 1 5 20; do
        lose "$loss" || return
        receive "$HOST_B" receiver "$(channel "$IF_B" 2)" --timing 1 && receiver=$last || return
        send "$HOST_A" sender "$(channel "$IF_A" 2)" --messages 1000 --rate 400
        sender=$last
        ends "$sender" && ends "$receiver" && complete receiver 1000 && is receiver repaired ">" 0 &&
            is receiver repaired_median_us "<" 100000 || return
        note "$loss %: $(number receiver repaired) of 1000 messages repaired, median $(number receiver repaired_median_us) us" \
            "from send to delivery; the others $(number receiver others_median_us) us"
    done
}

# A second receiver on the same host notices nothing: the window is its own. The stopped one stands still while far more is sent
# than is kept and than its buffer holds, and is told what it lost. Who loses so much may get no repairs for a while: not here.
# The last messages, which follow a pause and all fit into the history, come however busy this machine is.
# Both have to keep up, so that the machine does not leave the steady one behind: who stands still is waited for until it is
# forgotten. Neither polls without a pause, as each window waits for both to have the processor.
stopped_receiver_is_told_what_it_lost() {
    local stopped steady sender count=$((3 * rate + rate / 10)) small="rcvbuf_bytes=64K&flow_window_packets=256"
    local both="flow_quorum_percent=100&linger_ns=30000000000"
    receive "$HOST_B" stopped "$(channel "$IF_B" 3 "$small")" --wait 1 --stop-at $((rate / 4)) && stopped=$last || return
    receive "$HOST_C" steady "$(channel "$IF_B" 3)" --wait 1 && steady=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" 3 "$short&$window&slow=off&$both")" --messages "$count" --rate "$rate" \
        --step "$rate" --receivers 2
    sender=$last
    says stopped reached && says sender "sent $rate" && kill -STOP "$stopped" && goes_on "$sender" &&
        says sender "sent $((2 * rate))" && kill -CONT "$stopped" && says stopped "event: gap" && goes_on "$sender" &&
        says sender "sent $((3 * rate))" && sleep 0.5 && goes_on "$sender" && ends "$sender" && ends "$steady" && ends "$stopped" || return
    complete steady "$count" && accounted stopped "$count" && is stopped lost ">" 0 &&
        is stopped gap_end "<" "$count" || return
    note "lost $(number stopped lost) of $count in $(number stopped gaps) gaps, the last before message $(number stopped gap_end)"
}

killed_receiver_disturbs_nobody() {
    local killed steady sender
    receive "$HOST_B" killed "$(channel "$IF_B" 4)" --stop-at $((rate / 4)) && killed=$last || return
    receive "$HOST_C" steady "$(channel "$IF_B" 4)" && steady=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" 4 "$keep")" --messages "$rate" --rate "$rate" --step $((rate / 2)) --receivers 2
    sender=$last
    says killed reached && kill -KILL "$killed" && goes_on "$sender" || return
    ends "$sender" && ends "$steady" && complete steady "$rate"
}

# The first one waits between two steps if it was not killed before.
killed_transmitter_is_noticed_and_its_successor_followed() {
    local receiver sender
    receive "$HOST_B" receiver "$(channel "$IF_B" 5 "silence_ns=200000000&session_timeout_ns=2000000000")" --sessions 2 \
        --stop-at $((rate / 4)) && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" 5)" --messages "$rate" --rate "$rate" --step $((rate / 2))
    sender=$last
    says receiver reached && kill -KILL "$sender" || return
    says receiver "event: heartbeat lost" && says receiver "timeout" || return
    send "$HOST_A" sender "$(channel "$IF_A" 5)" --messages $((some * 2 / 5)) --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" || return
    is receiver errors == 0 && is receiver silences ">=" 1 && is receiver timeouts == 1 && is receiver sessions_new == 2 &&
        is receiver sessions_ended == 2
}

# interface_of PREFIX INTERFACE GROUP: is down until the receiver has noticed, while messages are sent.
interface_of() {
    local prefix=$1 interface=$2 group=$3 receiver sender
    receive "$HOST_B" receiver "$(channel "$IF_B" "$group" "silence_ns=300000000")" --stop-at 3000 && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$group")" --messages 30000 --rate 9000 --step 10000
    sender=$last
    says receiver reached && says sender "sent 10000" || return
    # shellcheck disable=SC2086
    $prefix ip link set "$interface" down && goes_on "$sender" && says receiver "event: heartbeat lost" &&
        $prefix ip link set "$interface" up && says receiver "event: resumed" && goes_on "$sender" || return
    ends "$sender" && ends "$receiver" || return
    accounted receiver 30000 && is receiver silences ">=" 1 && is receiver resumed ">=" 1 && is receiver sessions_new == 1 &&
        note "silent $(number receiver silences) times, lost $(number receiver lost) messages"
}

receivers_interface_goes_down_and_up() {
    need_namespaces && interface_of "$HOST_B" "$IF_B" 6
}

transmitters_interface_goes_down_and_up() {
    need_namespaces && interface_of "$HOST_A" "$IF_A" 7
}

ipv6() {
    need_namespaces || return
    local receiver sender
    # Not by grep -q, which leaves as soon as it knows: the pipe has a status then that says nothing.
    # shellcheck disable=SC2086
    [[ $($HOST_A ip -6 addr show dev "$IF_A" 2>/dev/null) == *inet6* ]] || { why="no IPv6 here" && return 77; }
    receive "$HOST_B" receiver "$transport://[ff15::3:8]:5003?interface=$IF_B" && receiver=$last || return
    send "$HOST_A" sender "$transport://[ff15::3:8]:5003?interface=$IF_A" --messages "$some" --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$some"
}

processes_of_one_host() {
    local receiver sender
    receive "$HOST_A" receiver "$(channel "$IF_A" 9)" && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" 9)" --messages "$some" --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$some"
}

# One transmitter for the network and its own host; receivers who have one of them, or both. Of the network's packets 5 % are lost.
network_and_own_host_at_once() {
    need_nft || return
    local names=(both own network) receivers=() sender i count=$((some / (1 + fewer / 5)))
    local group="://239.192.3.30:5003?" own="shm_directory=$work/shm"
    mkdir -p "$work/shm"
    lose 5 || return
    receive "$beside_a" both "shm+$transport${group}interface=$beside_if&$own" && receivers+=("$last") || return
    receive "$HOST_A" own "shm${group}$own" --wait 1 && receivers+=("$last") || return
    receive "$HOST_B" network "$transport${group}interface=$IF_B" && receivers+=("$last") || return
    send "$HOST_A" sender "shm+$transport${group}interface=$IF_A&$own&$keep" --messages "$count" --rate "$rate" --receivers 3
    sender=$last
    ends "$sender" || return
    for i in 0 1 2; do
        ends "${receivers[i]}" && complete "${names[i]}" "$count" || return
    done
    # Who shares memory lost nothing; who has both got most of it twice.
    is own packets_recovered == 0 && is both packets_recovered == 0 && is network packets_recovered ">" 0 &&
        is both packets_duplicate ">" 0 && is own packets_duplicate == 0 || return
    rmdir "$work/shm" 2>/dev/null || { why="left in shared memory: $(find "$work/shm")" && return 1; }
    note "recovered over the network: $(number network packets_recovered) packets; twice on the own host: $(number both packets_duplicate)"
}

sleeping_receivers() {
    local block poll sender
    receive "$HOST_B" block "$(channel "$IF_B" 10)" --wait 1 && block=$last || return
    receive "$HOST_C" poll "$(channel "$IF_B" 10 busy_poll_us=50)" --wait 2 && poll=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" 10)" --messages "$some" --rate $((rate / 2)) --receivers 2
    sender=$last
    ends "$sender" && ends "$block" && ends "$poll" && complete block "$some" && complete poll "$some"
}

many_in_one_context() {
    run_on "$HOST_A" many "$programs/e2e_many" "$transport" "$(common_shared "$IF_A")" $((messages / 60))
    ends "$last" || { why=$(cat "$work/many.out" "$work/many.err") && return 1; }
}

# short_lived PEERS: contexts that come and go beside one that stays, which knows three dozen addresses at a time.
short_lived() {
    run_on "$HOST_A" short_lived "$programs/e2e_short_lived" "$transport" 239.192.3.41 \
        "$(common_shared "$IF_A")&receivers_max=16&sessions_max=20" "$1"
    ends "$last" || { why=$(tail -n 5 "$work/short_lived.err") && return 1; }
    is short_lived addresses_forgotten ">" $(($1 / 2))
}

short_lived_peers_leave_no_address_behind() {
    short_lived $((2000 / fewer))
}

# late CHANNEL RECEIVERS: so many join one after the other while messages flow, from everywhere in the past.
late() {
    run_on "$HOST_A" late "$programs/e2e_late" "$1" "$2"
    ends "$last" || { why=$(tail -n 20 "$work/late.out" "$work/late.err") && return 1; }
    is late granted ">" 0 && is late refused ">" 0 && is late replayed ">" 0 || return
    note "$(head -n 1 "$work/late.out")"
}

many_join_late() {
    late "$(channel "$IF_A" 31)" 100
}

# From the other host, and with all that was sent before it came.
late_receiver_has_the_past_too() {
    local receiver sender
    send "$HOST_A" sender "$(channel "$IF_A" 34 "$keep")" --messages "$some" --rate "$rate" --step $((some / 2)) --receivers 0
    sender=$last
    says sender "sent $((some / 2))" || return
    sleep 1.1 # for a second whoever comes is as one who was there
    receive "$HOST_B" receiver "$(channel "$IF_B" 34 "join=oldest")" && receiver=$last || return
    says receiver "event: session new" && goes_on "$sender" && ends "$sender" && ends "$receiver" || return
    complete receiver "$some" && is receiver packets_replayed ">" 0
}

# Each from where it asked for: the beginning, some messages back, or what is sent from then on. Of a topic without history nothing
# comes that was sent before.
three_join_late_in_spite_of_losses() {
    local oldest back live sender impaired half=$((some / 5)) name quotes
    send "$HOST_A" sender "$(channel "$IF_A" 117 "$keep")" --messages $((2 * half)) --rate "$rate" --step "$half" --receivers 0 \
        --quotes 1
    sender=$last quotes="--quotes-from $half"
    says sender "sent $half" && lossy 5 || return
    sleep 1.1 # for a second whoever comes is as one who was there
    # shellcheck disable=SC2086
    receive "$HOST_B" oldest "$(lossy_channel "$IF_B" 117 "join=oldest")" $quotes && oldest=$last &&
        receive "$HOST_C" back "$(lossy_channel "$IF_B" 117 "join=messages&join_messages=$((half / 3))")" --wait 1 $quotes &&
        back=$last && receive "$HOST_D" live "$(lossy_channel "$IF_B" 117)" --wait 1 && live=$last || return
    for name in oldest back live; do
        says "$name" "event: session new" || return
    done
    goes_on "$sender" && ends "$sender" && ends "$oldest" && ends "$back" && ends "$live" || return
    complete oldest $((2 * half - $(number oldest left_out))) && is oldest left_out ">" $((half / 10)) &&
        complete back $((half + half / 3 - $(number back left_out))) && is back left_out ">" $((half / 30)) && complete live "$half" &&
        is oldest packets_replayed ">" "$(number back packets_replayed)" && is back packets_replayed ">" 0 &&
        is live packets_recovered ">" 0 || return
    note "replayed $(number oldest packets_replayed) packets for the one and $(number back packets_replayed) for the other"
}

many_join_late_over_network_and_memory() {
    local status=0
    mkdir -p "$work/shm"
    late "shm+$(channel "$IF_A" 32)&shm_directory=$work/shm" $((50 / fewer)) || status=$?
    rmdir "$work/shm" 2>/dev/null || true
    return "$status"
}

many_join_late_in_spite_of_losses() {
    need_nft || return
    lose 5 && late "$(channel "$IF_A" 33)" $((50 / fewer))
}

bad_input() {
    need_namespaces || return
    # shellcheck disable=SC2086
    $HOST_A sh -c "ip link add llm-down type veth peer name llm-bare && ip addr add 10.78.0.1/24 dev llm-down &&
        ip link set llm-bare up" || { why="cannot add interfaces" && return 1; }
    run_on "$HOST_A" bad "$programs/e2e_bad_input" "$IF_A" llm-down llm-bare
    local status=0
    ends "$last" || status=$?
    $HOST_A ip link del llm-down
    [ "$status" = 0 ] || { why=$(cat "$work/bad.out" "$work/bad.err") && return 1; }
}

# As one who may not exceed net.core.rmem_max.
clamped_buffer() {
    local drop=""
    [ "$(id -u)" != 0 ] || drop="setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all --"
    # The build directory need not be open to others.
    mkdir -p "$work/open" && chmod 755 "$SETUP_SCRATCH" "$work" "$work/open"
    cp "$programs/e2e_bad_input" "$build"/libllm.so.0 "$work/open/" && chmod -R a+rX "$work/open"
    run_on "$HOST_A" clamped $drop env LD_LIBRARY_PATH="$work/open" "$work/open/e2e_bad_input" --clamped "$IF_A"
    ends "$last" || { why=$(cat "$work/clamped.out" "$work/clamped.err") && return 1; }
}

# Every counter of a kind of bad packet has counted, the stream is whole, and the transmitter sent no more than it had to. Its last
# messages follow the last bad packet.
hostile_packets() {
    need_namespaces || return
    local receiver sender hostile counter count=$((rate * 4))
    receive "$HOST_B" receiver "$(channel "$IF_B" 11)" && receiver=$last || return
    run_on "$HOST_C" hostile python3 "$here/hostile.py" 239.192.3.11 5003 "$ADDRESS_C" 2
    hostile=$last
    says hostile listening || return
    send "$HOST_A" sender "$(channel "$IF_A" 11)" --messages "$count" --rate "$rate" --step $((rate * 3))
    sender=$last
    ends "$hostile" || { why=$(tail -n 3 "$work/hostile.err") && return 1; }
    goes_on "$sender" || return
    ends "$sender" && ends "$receiver" && complete receiver "$count" || return
    for counter in packets_short packets_version packets_type packets_malformed packets_foreign control_foreign \
        control_malformed packets_duplicate packets_implausible; do
        is receiver "$counter" ">" 0 || return
    done
    for counter in packets_short packets_version packets_type packets_malformed packets_foreign control_foreign \
        control_malformed packets_misaddressed; do
        is sender "$counter" ">" 0 || return
    done
    is sender packets_repaired "<" 2000 && is sender rejects_sent "<" 200 && is sender topics_sent "<" 200 || return
    note "$(cat "$work/hostile.out") bad packets"
}

# Only those who asked get the packets: the bridge learned from the kernel's IGMP that the transport joined.
snooping_bridge() {
    need_namespaces || return
    # shellcheck disable=SC2086
    $HOST_A ip link add llm-br type bridge mcast_snooping 1 mcast_query_response_interval 10 \
        mcast_startup_query_interval 10 2>/dev/null || { why="the kernel has no bridges" && return 77; }
    bridge_test
    local status=$?
    $HOST_A ip link del llm-br
    $HOST_A ip link del llm-b0p 2>/dev/null
    $HOST_A ip link del llm-c0p 2>/dev/null
    return "$status"
}

bridge_test() {
    local pid receiver sender member other
    pid=$(sed -n 's/.*-t \([0-9]*\).*/\1/p' <<<"$HOST_B")
    # The querier starts with the response interval that is set by then: for so long everything is flooded.
    # shellcheck disable=SC2086
    $HOST_A sh -c "ip link add llm-b0p type veth peer name llm-b0 netns $pid && ip link set llm-b0p master llm-br up &&
        ip link add llm-c0p type veth peer name llm-c0 netns $pid && ip link set llm-c0p master llm-br up &&
        ip addr add 10.79.0.1/24 dev llm-br && ip link set llm-br up && ip link set llm-br type bridge mcast_querier 1" || { why="cannot make the bridge" && return 1; }
    # shellcheck disable=SC2086
    $HOST_B sh -c "ip addr add 10.79.0.2/24 dev llm-b0 && ip link set llm-b0 up && ip link set llm-c0 up" ||
        { why="cannot make the ports" && return 1; }
    sleep 1 # until the querier has asked and the ports forward
    receive "$HOST_B" receiver "$(channel llm-b0 12)" && receiver=$last && bridge_learned 239.192.3.12 || return
    member=$(received llm-b0) other=$(received llm-c0)
    # The bridge is asked about packets of the kernel only, and floods frames that are put into it.
    send "$HOST_A" sender "$(transport=udp channel llm-br 12)" --messages 100000 --rate "$rate"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver 100000 || return
    member=$(($(received llm-b0) - member)) other=$(($(received llm-c0) - other))
    ((member > 1000 && other < member / 10)) || { why="the member got $member packets, the other port $other" && return 1; }
    note "the member got $member packets, the other port $other"
}

# Waits until the bridge knows a member of a group.
bridge_learned() {
    local tenths
    for ((tenths = 0; tenths < limit * 10; tenths++)); do
        # shellcheck disable=SC2086
        $HOST_A bridge mdb show dev llm-br | grep -qF "grp $1 " && return 0
        sleep 0.1
    done
    why="the bridge has not learned of a member of $1"
    return 1
}

received() {
    # shellcheck disable=SC2086
    $HOST_B ip -s link show dev "$1" | awk '/RX:/ { getline; print $2 }'
}

# ------------------------------------------------------------------------------------------- segmentation offload, windows

# As fast as the processes go, and no faster.
window="flow=window"
unpaced=100000000

# under PREFIX SHIM: the prefix of a command that runs there with a library of tests/shim preloaded.
under() {
    echo "$1 env LD_PRELOAD=$build/tests/shim/shim_$2.so"
}

need_shims() {
    [ -e "$build/tests/shim/shim_fail.so" ] || { why="a build with sanitizers has no libraries to preload" && return 77; }
}

# burst FROM INTERFACE TO INTERFACE GROUP COUNT [OPTIONS]: a flood without pause between two prefixes; all of it has to come.
burst() {
    local receiver sender
    receive "$3" receiver "$(channel "$4" "$5" "${7:-$window}")" && receiver=$last || return
    send "$1" sender "$(channel "$2" "$5" "${7:-$window}")" --messages "$6" --rate $unpaced
    sender=$last
    ends "$sender" && ends "$receiver" || return
    complete receiver "$6"
}

# On the loopback a datagram goes whole that a cable takes in fragments only.
ignored_segmentation_is_noticed() {
    need_shims || return
    local from
    from=$(under "$HOST_A" ignore)
    burst "$from" lo "$HOST_A" lo 20 50000 && is sender udp_trains == 0 && is sender udp_trains_refused == 0 || return
    burst "$from" "$IF_A" "$HOST_B" "$IF_B" 20 50000 && is sender udp_trains == 0 && is sender udp_trains_refused == 0
}

refused_options_and_segmentation_are_done_without() {
    need_shims || return
    burst "$(under "$HOST_A" refuse)" "$IF_A" "$(under "$HOST_B" refuse)" "$IF_B" 21 50000 &&
        is sender udp_trains == 0 && is sender udp_trains_refused == 0 && is sender udp_send_errors == 0 &&
        is receiver udp_superframes == 0
}

# The first is the test at open.
segmentation_that_fails_later_loses_nothing() {
    need_shims || return
    local after
    for after in 1 2 100; do
        burst "$(under "$HOST_A" fail) SHIM_SEGMENTED_MAX=$after" "$IF_A" "$HOST_B" "$IF_B" 22 50000 "$window&$keep" &&
            is sender udp_trains == $((after - 1)) && is sender udp_trains_refused == 1 &&
            is sender udp_send_errors == 0 || { why="after $after: $why" && return 1; }
    done
}

# mtu BYTES: of the cable, or of both cables to the switch.
# shellcheck disable=SC2086
mtu() {
    if [ -n "$HOST_SWITCH" ]; then
        $HOST_SWITCH ip link set port-a mtu "$1" && $HOST_SWITCH ip link set port-b mtu "$1" || { why="no switch with an MTU of $1" && return 1; }
    fi
    $HOST_A ip link set "$IF_A" mtu "$1" && $HOST_B ip link set "$IF_B" mtu "$1" || { why="no cable with an MTU of $1" && return 1; }
}

# The largest leaves no room for a second packet in a train.
cables_of_any_mtu() {
    need_namespaces || return
    local bytes status=0
    for bytes in 1280 1500 9000 65535; do
        mtu "$bytes" && burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 23 100000 "$window&mtu=$bytes" &&
            is sender udp_trains_refused == 0 && is sender udp_send_errors == 0 &&
            is sender udp_trains "$([ "$bytes" = 65535 ] && echo == || echo '>')" 0 ||
            { status=1 why="MTU $bytes: $why" && break; }
    done
    mtu 1500 && return "$status"
}

# stopped GROUP COUNT OPTIONS EVENT: messages flow as fast as they can; before the second third of them the only receiver stops,
# until the sender says that it was held in that step, or has sent it. It does not forget the receiver meanwhile.
stopped() {
    local receiver sender step=$((($2 + 2) / 3))
    receive "$HOST_B" receiver "$(channel "$IF_B" "$1" "$3")" --stop-at 10000 && receiver=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$1" "$3&status_ns=60000000000")" --messages "$2" --rate $unpaced --step "$step"
    sender=$last
    says receiver reached && says sender "sent $step" && kill -STOP "$receiver" && goes_on "$sender" || return
    case $4 in
    held) says sender "held in step 2" || return ;;
    sent) says sender "sent $((2 * step))" || return ;;
    esac
    kill -CONT "$receiver" && goes_on "$sender" && ends "$sender" && ends "$receiver"
}

stopped_receiver_holds_the_window() {
    stopped 25 "$held_messages" "$window$held_window" held && complete receiver "$held_messages"
}

# What the window lets go while the receiver stands still is far more than the buffer holds.
small_receive_buffer() {
    burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 24 100000 "$window&rcvbuf_bytes=64K" || return
    stopped 24 500000 "$window&rcvbuf_bytes=64K" held && complete receiver 500000 && is receiver udp_kernel_drops ">" 0 || return
    note "the kernel dropped $(number receiver udp_kernel_drops) packets, or runs of them; repaired" \
        "$(number receiver packets_recovered)"
}

stopped_receiver_in_full_blast_is_told_what_it_lost() {
    stopped 26 "$blast" "flow=open&rcvbuf_bytes=1M" sent && accounted receiver "$blast" && is receiver lost ">" 0 || return
    note "lost $(number receiver lost) of $blast in $(number receiver gaps) gaps"
}

# paces FLOW QUORUM_PERCENT REST_US [OPTIONS]: two receivers, and one with these options that is slow: it rests for every hundred
# messages, many times as long as the others take for them. All messages can be repaired to the end.
paces() {
    local first second slow sender options="flow=$1&flow_quorum_percent=$2&flow_window_packets=$paces_window"
    rm -f "$work/sent"
    receive "$HOST_B" first "$(channel "$IF_B" 28)" --wait 1 && first=$last || return
    receive "$HOST_C" second "$(channel "$IF_B" 28)" --wait 1 && second=$last || return
    receive "$HOST_D" slow "$(channel "$IF_B" 28 "${4:-}")" --wait 1 --pause-us "$3" --sent "$work/sent" && slow=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" 28 "$options&$keep&slow=off")" --messages 60000 --rate $unpaced --receivers 3 \
        --sent "$work/sent" --after-ms 0
    sender=$last
    ends "$sender" && ends "$first" && ends "$second" && ends "$slow" || return
    complete first 60000 && complete second 60000 && accounted slow 60000
}

# When the last message was taken, the slow one had nearly all: it lies behind by two windows and what the transmitter holds
# back at most, which are 1,280 packets or 10,000 messages.
slow_receiver_decides_for_all_if_asked() {
    local flow
    for flow in window paced; do
        paces "$flow" 100 2000 && complete slow 60000 && is slow meanwhile ">" 45000 || { why="$flow: $why" && return 1; }
        note "$flow: it had $(number slow meanwhile) of 60000 messages when all were sent"
    done
}

# It had only few then, and missed many: its buffer is small, and it soon gives up.
slow_receiver_does_not_decide_for_the_others() {
    local flow
    for flow in window paced; do
        paces "$flow" 50 20000 "rcvbuf_bytes=64K&nak_giveup_ns=5000000" && is slow meanwhile "<" 15000 ||
            { why="$flow: $why" && return 1; }
        note "$flow: it had $(number slow meanwhile) of 60000 messages when all were sent, and lost $(number slow lost)" \
            "in $(number slow gaps) gaps"
    done
}

# ------------------------------------------------------------------------------------------------------ slow receivers

# slow_and_steady GROUP PREFIX INTERFACE MESSAGES OPTIONS: beside the slow receiver, which is started, a steady one there, and a
# sender with these options that sends so many. Sets steady and sender.
slow_and_steady() {
    receive "$2" steady "$(channel "$3" "$1")" --wait 1 && steady=$last || return
    send "$HOST_A" sender "$(channel "$IF_A" "$1" "$keep&$5")" --messages "$4" --rate "$rate" --receivers 2
    sender=$last
}

# What is promised of the sender, the steady one and the slow one, when all is over.
slow_is_suspended() {
    complete steady "$1" && accounted slow "$1" && is sender receivers_suspended ">" 0 && is slow suspended ">" 0 || return
    note "suspended $(number sender receivers_suspended) times; NAKs of it not answered: $(number sender naks_ignored);" \
        "it lost $(number slow lost) of $1"
}

# By its silence, and nothing else: what a small buffer loses on a busy machine has to be asked for. The limit is longer than a
# busy machine leaves the steady one without a processor.
stopped_receiver_is_suspended() {
    local slow steady sender count=$((4 * rate))
    receive "$HOST_B" slow "$(channel "$IF_B" 33 "rcvbuf_bytes=256K")" --wait 1 --stop-at $((rate / 2)) && slow=$last || return
    slow_and_steady 33 "$HOST_C" "$IF_B" "$count" \
        "slow_nak_ppm=1000000000&slow_naks_per_s=1000000000&slow_silence_ns=600000000" || return
    says slow reached && kill -STOP "$slow" && says sender " suspended: " && kill -CONT "$slow" || return
    ends "$sender" && ends "$steady" && ends "$slow" || return
    complete steady "$count" && is sender receivers_suspended ">" 0 && is sender receivers_readmitted ">" 0 && complete slow "$count"
}

# It rests for ten milliseconds after what is sent in one.
receiver_at_a_tenth_of_the_rate_is_suspended() {
    local slow steady sender
    receive "$HOST_B" slow "$(channel "$IF_B" 34 "rcvbuf_bytes=256K&window_packets=512")" --wait 1 --pause-us $((1000000000 / rate)) && slow=$last || return
    slow_and_steady 34 "$HOST_C" "$IF_B" $((rate / 2)) "slow_lag_ns=200000000" || return
    ends "$sender" && ends "$steady" && ends "$slow" && slow_is_suspended $((rate / 2))
}

# The same by the bytes that it is behind. Where nothing is lost it takes ten seconds to read them all.
receiver_behind_by_bytes_is_suspended() {
    local slow steady sender
    receive "$HOST_B" slow "$(channel "$IF_B" 38 "rcvbuf_bytes=256K&window_packets=512")" --wait 1 --pause-us $((1000000000 / rate)) && slow=$last || return
    slow_and_steady 38 "$HOST_C" "$IF_B" "$rate" "slow_lag_bytes=128K&slow_recover_ns=50000000" || return
    says sender " bytes of lag, limit 131072 (" && ends "$sender" && ends "$steady" && ends "$slow" && slow_is_suspended "$rate"
}

# The steady one is where nothing is lost.
receiver_that_loses_a_fifth_is_suspended() {
    local slow steady sender
    if [[ $transport == shm || $transport == roce || $transport == xdp ]]; then
        slow=$(transport=impair+$transport channel "$IF_B" 35 "impair_loss_ppm=200000")
        receive "$HOST_B" slow "$slow" --wait 1 && slow=$last || return
    else
        need_nft && lose 20 && $HOST_A nft delete table inet llm_e2e || return
        receive "$HOST_B" slow "$(channel "$IF_B" 35)" --wait 1 && slow=$last || return
    fi
    slow_and_steady 35 "$beside_a" "$beside_if" $((3 * rate)) "slow_patience_ns=200000000" || return
    ends "$sender" && ends "$steady" && ends "$slow" && slow_is_suspended $((3 * rate)) &&
        is sender nak_packets ">" $((1000 / fewer))
}

slow_receiver_is_expelled_if_asked() {
    local slow steady sender
    receive "$HOST_B" slow "$(channel "$IF_B" 36 "rcvbuf_bytes=256K")" --wait 1 --pause-us $((1000000000 / rate)) && slow=$last || return
    slow_and_steady 36 "$HOST_C" "$IF_B" $((2 * rate)) "slow=expel&slow_lag_ns=200000000&slow_patience_ns=0&slow_recover_ns=100000000&slow_expel_ns=100000000" || return
    says slow "event: expelled" && says slow "event: session end expelled" && ends "$slow" && ends "$sender" && ends "$steady" || return
    complete steady $((2 * rate)) && is slow expelled == 1 && is slow errors == 0 && is sender receivers_expelled ">" 0
}

# lose_run PACKETS OF [PORT]: of so many packets that arrive at B, a run from the middle.
lose_run() {
    local what="udp dport ${3:-5003} numgen inc mod $2 $(($2 / 2))-$(($2 / 2 + $1 - 1))"
    if [ -n "$HOST_SWITCH" ]; then
        drop "$HOST_SWITCH" bridge forward "oifname port-b $what"
    else
        drop "$HOST_B" inet input "$what"
    fi
}

# Packets that come one by one, and in trains of 44, which the filter sees as one.
runs_of_lost_packets_are_repaired() {
    need_nft || return
    lose_run 128 4000 && burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 27 100000 "$window&gso_packets=1" &&
        is receiver packets_recovered ">=" 128 || { why="one by one: $why" && return 1; }
    note "one by one: $(number receiver packets_recovered) packets repaired"
    lose_run 3 100 && burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 27 100000 &&
        is receiver packets_recovered ">=" 128 || { why="in trains: $why" && return 1; }
    note "in trains: $(number receiver packets_recovered) packets repaired"
}

# ------------------------------------------------------------------------------------------------- stacks in the kernel's place

# Neither stack cuts trains into packets, though one takes the option.
packets_leave_one_by_one() {
    burst "$HOST_A" "$IF_A" "$HOST_B" "$IF_B" 30 50000 && is sender udp_trains == 0 && is sender udp_trains_refused == 0 &&
        is sender udp_send_errors == 0 && is receiver udp_superframes == 0
}

packets_are_lent_from_the_stacks_memory() {
    flood "$some" "$rate" "$keep" && is receiver bypass_lent ">" 1000 && is receiver bypass_in_kernel == 0 &&
        is sender bypass_in_kernel == 0 && is sender bypass_accelerated ">=" 2 && is receiver bypass_fetch_errors == 0 &&
        is receiver bypass_release_errors == 0 || return
    note "lent $(number receiver bypass_lent) packets, copied $(number receiver bypass_copied)"
}

# The answers to what is lost go through sockets that spin, and nothing of the warm sends shows.
warm_sends_disturb_nobody() {
    run_on "$HOST_B env SHIM_WARM=1" receiver "$programs/e2e_flood_receive" "$(channel "$IF_B" 31 warm_ns=1000)"
    local receiver=$last sender
    says receiver listening || return
    run_on "$HOST_A env SHIM_WARM=1" sender "$programs/e2e_flood_send" "$(channel "$IF_A" 31 warm_ns=1000)" \
        --messages "$some" --rate "$((rate / 4))"
    sender=$last
    ends "$sender" && ends "$receiver" && complete receiver "$some" && is receiver packets_version == 0 || return
    is sender bypass_warm_errors == 0 && is sender bypass_warm_sends ">" 0 || return
    note "$(number sender bypass_warm_sends) warm sends"
}

without_a_stack_bypass_is_refused() {
    local preload='' sender
    send "$HOST_A" sender "$(channel "$IF_A" 32)" --messages 1
    sender=$last
    ! ends "$sender" || { why="it was opened" && return 1; }
    says sender "no stack that accelerates sockets is loaded"
}

sockets_left_to_the_kernel_are_refused() {
    local sender
    send "$HOST_A env SHIM_KERNEL=senders" sender "$(channel "$IF_A" 32)" --messages 1
    sender=$last
    ! ends "$sender" || { why="it was opened" && return 1; }
    says sender "does not accelerate the socket that sends to 239.192.3.32 on interface $IF_A"
}

# -------------------------------------------------------------------------------------------------------------- driver

notes=()

# More about a test, printed under its line.
note() {
    notes+=("$*")
}

end_started() {
    local pid
    for pid in "${started[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" || true
    done
    started=()
}

failures=0
label=e2e
[ "$transport" = udp ] || label="e2e, $transport"

run_test() {
    local name=$1 begin status=0
    take "$name" || return 0
    begin=$(date +%s%N)
    why='' notes=()
    # The shell tells of processes that were killed, which is what some tests do.
    { "$name" || status=$?; end_started; } 2>"$work/shell.err"
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

slow_tests=(stopped_receiver_is_suspended receiver_at_a_tenth_of_the_rate_is_suspended receiver_that_loses_a_fifth_is_suspended
    slow_receiver_is_expelled_if_asked)

# shellcheck source=benchmarks.sh
. "$here/benchmarks.sh"
# shellcheck source=stat.sh
. "$here/stat.sh"
# shellcheck source=unicast.sh
. "$here/unicast.sh"
# shellcheck source=slow.sh
. "$here/slow.sh"
# shellcheck source=assured.sh
. "$here/assured.sh"
# shellcheck source=calls.sh
. "$here/calls.sh"
# shellcheck source=bottleneck.sh
. "$here/bottleneck.sh"
# shellcheck source=filter.sh
. "$here/filter.sh"
# shellcheck source=order.sh
. "$here/order.sh"
# shellcheck source=unreliable.sh
. "$here/unreliable.sh"
# shellcheck source=kept.sh
. "$here/kept.sh"
# shellcheck source=limits.sh
. "$here/limits.sh"

all=(flood_without_loss flood_with_loss lost_packets_are_repaired_soon stopped_receiver_is_told_what_it_lost
    killed_receiver_disturbs_nobody killed_transmitter_is_noticed_and_its_successor_followed
    receivers_interface_goes_down_and_up transmitters_interface_goes_down_and_up ipv6 processes_of_one_host
    network_and_own_host_at_once sleeping_receivers many_in_one_context short_lived_peers_leave_no_address_behind many_join_late many_join_late_over_network_and_memory
    many_join_late_in_spite_of_losses bad_input clamped_buffer hostile_packets snooping_bridge
    ignored_segmentation_is_noticed refused_options_and_segmentation_are_done_without
    segmentation_that_fails_later_loses_nothing cables_of_any_mtu stopped_receiver_holds_the_window small_receive_buffer
    stopped_receiver_in_full_blast_is_told_what_it_lost slow_receiver_decides_for_all_if_asked
    slow_receiver_does_not_decide_for_the_others runs_of_lost_packets_are_repaired
    "${slow_tests[@]}" "${policy_tests[@]}" receiver_behind_by_bytes_is_suspended "${unicast_tests[@]}" "${assured_tests[@]}" assured_messages_survive_loss "${calls_tests[@]}"
    calls_in_spite_of_losses "${filter_tests[@]}" "${order_tests[@]}" "${unreliable_tests[@]}" "${kept_tests[@]}" "${limits_tests[@]}" "${bottleneck_tests[@]}" "${stat_tests[@]}"
    "${view_tests[@]}" "${benchmark_tests[@]}")

if [ -n "$preload" ]; then
    need_shims || { echo "skip e2e over a stand-in for $preload: $why" && exit 0; }
    label="e2e, $transport over $preload"
    # shellcheck source=bypass.sh
    . "$here/bypass.sh"
    case "$transport $preload" in
    "bypass onload") choose bypass_all_tests bypass_not ;;
    bypass*) all=("${bypass_tests[@]}") ;;
    *) all=("${preload_tests[@]}") ;;
    esac
fi
if [ "$transport" = roce ]; then
    # shellcheck source=../roce/in_guest.sh
    . "$here/../roce/in_guest.sh"
    # shellcheck source=roce.sh
    . "$here/roce.sh"
    roce_settle
    choose roce_tests roce_not
fi
if [ "$transport" = xdp ]; then
    # shellcheck source=xdp.sh
    . "$here/xdp.sh"
    xdp_settle
    choose xdp_tests xdp_not
fi
if [ "$transport" = shm ]; then
    memory=$(mktemp -d /dev/shm/llm-e2e-XXXXXX)
    setup_at_exit "rm -rf $memory"
    # shellcheck source=shm.sh
    . "$here/shm.sh"
    choose shm_tests shm_not
fi
[ $# = 0 ] || all=("$@")
if [ -z "$taken" ]; then
    for test in "${all[@]}"; do
        echo "plan $label: ${test//_/ }"
    done
fi
[ "$plan" != only ] || exit 0
# Over xdp one process has an interface for itself: the second receiver, and those after it, are at hosts of their own.
more=''
[ "$transport" != xdp ] || more=five
# shellcheck disable=SC2086
setup_hosts "$hosts" $more
# Where one is that receives beside the sender: at its host, if it can.
beside_a=$HOST_A beside_if=$IF_A
[ -z "$HOST_SWITCH" ] || beside_a=$HOST_C beside_if=$IF_B
if [ "$transport" = xdp ] && ! xdp_possible; then
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
