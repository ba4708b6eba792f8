# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The benchmarks in the form a user runs them, with short durations. Their figures are meaningless here.

# The programs of the build that is tested.
export BENCH_BUILD=$build
# Other tests run meanwhile, and wait if their processes are in a group and those of the benchmark are not.
export BENCH_AUTOGROUP=/dev/null

# The JSON has exactly the promised fields. Bare messages share datagrams at the higher rate if trains are supported.
e2e benchmark_reflector over=udp,xdp
benchmark_reflector() {
    benchmark reflector --size 45 --rate 10000,200000 --duration 0.2 --runs 2 || return
    [ "$transport" != udp ] || grep -q '^raw  *at 200000 msg/s' "$work/reflector.txt" ||
        { why="200000 msg/s were not packed bare" && return 1; }
}

e2e benchmark_throughput over=udp
benchmark_throughput() {
    benchmark throughput --size 45,1000 --duration 0.2 --runs 2
}

e2e benchmark_sweep over=udp
benchmark_sweep() {
    local plot
    benchmark throughput --sweep --size 1,1024 --messages 100000 --runs 2 --duration 0.1 --plot "$work/sweep.svg" || return
    command -v gnuplot >/dev/null || return 0
    for plot in messages mbit; do
        [ -s "$work/sweep-$plot.svg" ] || { why="there is no plot sweep-$plot.svg" && return 1; }
    done
}

e2e benchmark_groups over=udp
benchmark_groups() {
    benchmark groups --groups 0,20,300 --duration 0.3
}

e2e benchmark_topics over=udp
benchmark_topics() {
    benchmark topics --topics 1,1000 --duration 0.3
}

e2e benchmark_batching over=udp
benchmark_batching() {
    benchmark batching --rate 100,100000,0 --duration 0.3 --options "$window"
}

e2e benchmark_requests over=udp
benchmark_requests() {
    benchmark requests --rate 1000,0 --duration 0.2
}

e2e benchmark_slow needs=namespaces over=udp
benchmark_slow() {
    run_on "" bench "$SETUP_ROOT/bench/run" slow --kind stopped --duration 0.1 --pairs 3 --period 0.1 --settle 0.1 --results "$work"
    ends "$last" && grep -q '^p99 .*(.* to .*)' "$work/slow.txt" || { why=$(tail -n 5 "$work/bench.err") && return 1; }
}

# The whole history is retained and all processes have the same priority: no stream has a gap on a busy machine.
e2e benchmark_join needs=namespaces over=udp
benchmark_join() {
    benchmark_on join --cpus 0,1,0 --joiners 20 --duration 0.3 --calm 0.1 --rate 2000 --join messages:300 --history 65536 || return
    grep -q 'live 20, their streams whole 20,' "$work/join.txt" || { why="streams of late joiners are not whole" && return 1; }
}

e2e benchmark_kept needs=namespaces over=udp
benchmark_kept() {
    benchmark_on kept --cpus 0,1,0 --topics 300 --joiners 8 --duration 0.1 --calm 0.1 --rate 2000 --send 0.01 --count no --runs 1
}

e2e benchmark_assured needs=namespaces over=udp
benchmark_assured() {
    benchmark_on assured --level reliable,acknowledged_by_all,by_applications --receivers 2 --rate 2000,0 --duration 0.1 --runs 1
}

# Every case, and what it is compared with; the directories of the stores are gone afterwards.
e2e benchmark_store needs=namespaces over=udp
benchmark_store() {
    mkdir "$work/disk" || return
    benchmark_on store --quick --duration 0.1 --directory "$work/disk" --rate 1000 --size 1000 --level synced --segments 2 \
        --joiners 1 --past 5000 --mib 128 || return
    [ -z "$(ls "$work/disk")" ] || { why="there is still $(ls "$work/disk")" && return 1; }
}

e2e benchmark_destinations needs=namespaces over=udp
benchmark_destinations() {
    benchmark_on destinations --receivers 3 --rate 2000 --duration 0.05 --runs 1
}

e2e benchmark_rate needs=namespaces over=udp
benchmark_rate() {
    benchmark_on rate --row repairs,paced --limit 1000000 --rate 2000 --stream 200 --duration 0.1
}

# Additional or earlier reports on a busy machine are counted and do not fail the test.
e2e benchmark_watch needs=namespaces over=udp
benchmark_watch() {
    benchmark_on watch --kind application,buffer,network,transport --watch 50 --duration 0.1 --patience 30 --runs 1
}

# The benchmark checks that each feature was active.
e2e benchmark_overhead over=udp
benchmark_overhead() {
    benchmark_on overhead --transport shm --rounds 2 --messages 512 --runs 1 --watch 0.01 \
        --options "history_bytes=1M&history_packets=256&reorder_bytes=1M"
}

e2e benchmark_filter over=udp
benchmark_filter() {
    run_on "" bench "$SETUP_ROOT/bench/run" filter --results "$work"
    ends "$last" && grep -q '^labels, summary rejects each packet .* 0.0$' "$work/filter.txt" || { why=$(tail -n 5 "$work/bench.err") && return 1; }
}

e2e benchmark_order needs=namespaces over=udp
benchmark_order() {
    benchmark_on order --cpus 0,1 --loss 0,5 --rate 20000 --duration 0.2 --runs 1
}

e2e benchmark_availability needs=namespaces over=udp
benchmark_availability() {
    benchmark_on availability --cpus 0,1 --loss 0,5 --rate 20000 --quick --kills 2 --rates 5000,1000 --detect-us 200000 --beat-us 5000
}

# Every mode and back end; instructions are counted by another test.
e2e benchmark_security over=udp
benchmark_security() {
    benchmark_on security --quick --no-count --duration 0.1
}

# Completeness of each sequence, over one of the two transports; incidents take longer, as processes start in them.
e2e benchmark_market_data over=udp
benchmark_market_data() {
    benchmark_on market-data --quick --duration 0.3 --rate 2000 --reflected 500 --transport udp --sequence single,fields,baseline,tinylists,flexible \
        --causes single --lists "0-99;0-9,490-499" || return
    [ -s "$work/market-data.html" ] || { why="there is no report card" && return 1; }
}

e2e benchmark_market_data_in_shared_memory over=udp
benchmark_market_data_in_shared_memory() {
    benchmark_on market-data --quick --duration 0.3 --rate 2000 --reflected 500 --transport shm --sequence overlap,caching,slow,restart,two --causes overlap || return
    resident_below 64
}

# Resident memory of each process; in "two" each maps the histories of several transmitters.
resident_below() {
    local mib
    mib=$(python3 -c "import json, sys; print(max(row['rss_mib_max'] for row in json.load(open(sys.argv[1]))['rows']
        if row['sequence'] != 'two'))" "$work/market-data.json") || return
    [ "${mib%.*}" -lt "$1" ] || { why="a process has $mib MiB, $1 or more" && return 1; }
}

# The profile for little memory in llm_options(7), for a process that transmits and receives.
e2e small_processes_stay_within_8_mib over=udp needs=namespaces
small_processes_stay_within_8_mib() {
    local profile
    profile=$(sed -n '/^history_bytes=/,/^\.Ed/p' "$SETUP_ROOT/docs/man/llm_options.7" | grep -v '^\.' | tr -d '\n')
    benchmark_on market-data --quick --duration 0.3 --rate 2000 --reflected 500 --transport udp --sequence single --causes single --options "$profile" &&
        resident_below 8
}

e2e benchmark_fan_out over=udp
benchmark_fan_out() {
    benchmark_on fan-out --quick --causes --duration 0.3 --publishers 2 --subscribers 3 --rate 3000
}

# By simulation: no packet goes over the transport.
e2e benchmark_scale over=udp
benchmark_scale() {
    benchmark_on scale --receivers 10,200 --packets 1000 --topics 200 --joiners 5 --sessions 1,20 --real 10 --duration 0.5
}

e2e benchmark_peers_that_share_memory over=udp
benchmark_peers_that_share_memory() {
    benchmark_on peers --transport shm --peers raw,packed,libllm --size 45 --rate 10000 --duration 0.3 --runs 1
}

benchmark() {
    benchmark_on "$1" --duration 0.5 "${@:2}" --hosts "$HOSTS_KIND" --transport "$transport"
}

benchmark_on() {
    local kind=$1
    run_on "" bench "$SETUP_ROOT/bench/run" "$kind" "${@:2}" --json "$work/$kind.json" --results "$work"
    ends "$last" || { why=$(tail -n 5 "$work/bench.err") && return 1; }
    python3 "$here/bench_fields.py" "$kind" "$work/$kind.json" 2>"$work/fields.err" ||
        { why=$(cat "$work/fields.err") && return 1; }
}

e2e benchmark_transports over=udp
benchmark_transports() {
    run_on "" bench "$SETUP_ROOT/bench/run" transports --transport shm --duration 0.2 --runs 1 --results "$work"
    ends "$last" && grep -q '^shm ' "$work/transports.txt" || { why=$(tail -n 5 "$work/bench.err") && return 1; }
}

# The two checks of tests/exact evaluate their measurements.
e2e rate_limits_hold_on_the_wire needs=namespaces over=udp
rate_limits_hold_on_the_wire() {
    benchmark_on rate --row transmitter,small,repairs --limit 4000000 --stream 1000 --duration 1.3
}

e2e bottlenecks_and_their_ends_are_reported needs=namespaces over=udp
bottlenecks_and_their_ends_are_reported() {
    benchmark_on watch --watch 50 --duration 0.2 --patience 30 --runs 1
}
