# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The plots of bench/run, which sources this. They need gnuplot; without it they are left out, and that is said.
#
#   plot_reflector FILE RESULTS_DIR     latency percentiles: a curve for each size and rate, and the bare one dashed
#   plot_throughput FILE JSON           two files, FILE-messages and FILE-mbit: rate against size, and the bare blasts
#   plot_batching FILE JSON             latency and messages per packet against rate
#
# FILE ends in .svg or .png. They use transport, bare, sizes, rates and reflect of bench/run.

# plot_rows JSON FIELD...: a line for each row of a benchmark's JSON with these fields of it; hop_us.median is a field of a
# field. It reads what report.c writes: a field a line, two spaces a level.
plot_rows() {
    awk -v wanted="${*:2}" '
        BEGIN { count = split(wanted, names, " ") }
        /^    \{/ { split("", row); object = "" }
        /^      "/ || /^        "/ {
            name = $1
            gsub(/[":]/, "", name)
            value = $2
            sub(/,$/, "", value)
            if (value == "{")
                object = name "."
            else
                row[(/^        "/ ? object : "") name] = value == "null" ? "NaN" : value
        }
        /^    \}/ {
            for (i = 1; i <= count; i++)
                printf "%s%s", row[names[i]], i < count ? " " : "\n"
        }' "$1"
}

# What every plot begins with.
plot_head() {
    local terminal=svg
    [[ $1 == *.png ]] && terminal=pngcairo
    cat <<END
set terminal $terminal size 1000,640 background rgb 'white'
set output '$1'
set title '$2'
set grid
END
}

# plot_draw FILE: draws what comes on standard input.
plot_draw() {
    cat >"$SETUP_SCRATCH/plot.gp"
    gnuplot "$SETUP_SCRATCH/plot.gp" 2>"$SETUP_SCRATCH/plot.log" || {
        cat "$SETUP_SCRATCH/plot.log" >&2
        say "gnuplot could not write $1"
        return 1
    }
    say "plot: $1"
}

plot_possible() {
    command -v gnuplot >/dev/null && return 0
    say "no plot: someone with root has to run: apt-get install gnuplot-nox"
    return 1
}

# ----------------------------------------------------------------------------------------------------------- reflector

# One curve a row, the bare one of the same colour and dashed. The percentiles stand at even distances of their odds.
plot_reflector_script() {
    local size rate kind file number=0 comma=''
    plot_head "$1" "libllm over $transport: latency of one hop, from the time due ($reflect messages sent back)"
    cat <<'END'
set logscale xy
set xlabel 'percentile'
set ylabel 'microseconds'
set xtics ('0' 1, '50' 2, '90' 10, '99' 100, '99.9' 1000, '99.99' 10000, '99.999' 100000, '99.9999' 1000000)
set key left top
plot \
END
    for size in ${sizes//,/ }; do
        for rate in ${rates//,/ }; do
            number=$((number + 1))
            for kind in "" -raw; do
                file="$2/$transport-${size}B-$rate$kind.hgrm"
                [ -s "$file" ] || continue
                printf "%s'%s' using 4:1 with lines lc %s lw 2 dt %s title '%s B at %s msg/s%s'" "$comma" "$file" "$number" \
                    "$([ -z "$kind" ] && echo 1 || echo 2)" "$size" "$rate" "${kind:+, $bare}"
                comma=$', \\\n'
            done
        done
    done
    echo
}

plot_reflector() {
    plot_possible || return 0
    plot_reflector_script "$1" "$2" | plot_draw "$1"
}

# ---------------------------------------------------------------------------------------------------------- throughput

plot_throughput() {
    plot_possible || return 0
    local data=$SETUP_SCRATCH/throughput.dat messages=${1%.*}-messages.${1##*.} mbit=${1%.*}-mbit.${1##*.}
    local axes="set logscale x 2; set logscale y; set format x '%.0f'; set xlabel 'bytes of a message'; set key left"
    plot_rows "$2" size_bytes msgs_per_s payload_gbit_per_s raw_gbit_per_s raw_segmented_gbit_per_s raw_kept_gbit_per_s >"$data"
    # A bare datagram is a full packet; as many messages as its bytes would make, without a header, are its messages.
    {
        plot_head "$messages" "libllm over $transport: messages a second one way, lossless"
        cat <<END
$axes bottom
set ylabel 'messages a second'
plot '$data' using 1:2 with linespoints lw 2 pt 7 title 'libllm', \\
     '' using 1:(\$4 * 1e9 / 8 / \$1) with lines dt 2 title '$bare, full packets (sendmmsg)', \\
     '' using 1:(\$5 * 1e9 / 8 / \$1) with lines dt 3 title '$bare, full packets, segmented', \\
     '' using 1:(\$6 * 1e9 / 8 / \$1) with lines dt 4 title 'the same, messages copied into a ring first'
END
    } | plot_draw "$messages"
    {
        plot_head "$mbit" "libllm over $transport: bytes of the application one way, lossless"
        cat <<END
$axes top
set ylabel 'Mbit/s'
plot '$data' using 1:(\$3 * 1000) with linespoints lw 2 pt 7 title 'libllm', \\
     '' using 1:(\$4 * 1000) with lines dt 2 title '$bare, full packets (sendmmsg)', \\
     '' using 1:(\$5 * 1000) with lines dt 3 title '$bare, full packets, segmented', \\
     '' using 1:(\$6 * 1000) with lines dt 4 title 'the same, messages copied into a ring first'
END
    } | plot_draw "$mbit"
}

# ------------------------------------------------------------------------------------------------------------ batching

plot_batching() {
    plot_possible || return 0
    local data=$SETUP_SCRATCH/batching.dat
    plot_rows "$2" rate_reached_msgs_per_s hop_us.median hop_us.p99 messages_per_packet >"$data"
    {
        plot_head "$1" "libllm over $transport: latency of one hop, and messages that share a packet, of $sizes B"
        cat <<END
set logscale xyy2
set xlabel 'messages a second'
set ylabel 'microseconds'
set y2label 'messages a packet'
set ytics nomirror
set y2tics
set y2range [0.9:*]
set key left top
plot '$data' using 1:2 with linespoints lw 2 pt 7 title 'median', \\
     '' using 1:3 with linespoints lw 1 pt 6 dt 2 title '99th percentile', \\
     '' using 1:4 axes x1y2 with linespoints lw 2 pt 5 title 'messages a packet (right)'
END
    } | plot_draw "$1"
}
