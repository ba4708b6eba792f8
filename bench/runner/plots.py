# SPDX-License-Identifier: Apache-2.0
"""Plots, by gnuplot. Without gnuplot they are omitted, with a message."""
import json
import shutil
import subprocess

from runner.session import SCRATCH, say
from runner.tables import field_of, number


def draw(path, title, *lines):
    """Draws a file that ends in .svg or .png."""
    if not shutil.which("gnuplot"):
        say("no plot: gnuplot is missing: someone with root has to run: apt-get install gnuplot-nox")
        return
    terminal = "pngcairo" if str(path).endswith(".png") else "svg"
    script = [f"set terminal {terminal} size 1000,640 background rgb 'white'", f"set output '{path}'", f"set title '{title}'", "set grid",
              *lines]
    done = subprocess.run(["gnuplot"], input="\n".join(script) + "\n", capture_output=True, text=True, check=False)
    say(f"{done.stderr}gnuplot could not write {path}" if done.returncode else f"plot: {path}")


def curves(*parts):
    return "plot " + ", \\\n".join(parts)


def rows_of(path, *fields):
    """Writes a file for gnuplot: a line for each row of a benchmark's JSON, with these fields; hop_us.median is a field of a field."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    data = SCRATCH / "plot.dat"
    data.write_text("".join(" ".join(number(field_of(row, field), 6).replace("-", "NaN") for field in fields) + "\n" for row in rows),
                    encoding="utf-8")
    return data


def reflector(path, directory, o, bare):
    """One curve for each row, with its bare curve dashed in the same colour. The x axis has a logarithmic scale of 1/(1 - percentile)."""
    parts = []
    for at, (size, rate) in enumerate((size, rate) for size in o.size for rate in o.rate):
        for kind, dashes, title in (("", 1, ""), ("-raw", 2, f", {bare}")):
            file = directory / f"{o.transport}-{size}B-{rate}{kind}.hgrm"
            if file.exists():
                parts.append(f"'{file}' using 4:1 with lines lc {at + 1} lw 2 dt {dashes} title '{size} B at {rate} msg/s{title}'")
    draw(path, f"libllm over {o.transport}: latency of one hop, from the time due ({o.reflect} messages sent back)", "set logscale xy",
         "set xlabel 'percentile'", "set ylabel 'microseconds'",
         "set xtics ('0' 1, '50' 2, '90' 10, '99' 100, '99.9' 1000, '99.99' 10000, '99.999' 100000, '99.9999' 1000000)",
         "set key left top", curves(*parts))


def throughput(path, report, transport, bare):
    """Rate against size, with the bare blasts. A full bare datagram counts as the messages that fit into it without headers."""
    data = rows_of(report, "size_bytes", "msgs_per_s", "payload_gbit_per_s", "raw_gbit_per_s", "raw_segmented_gbit_per_s",
                   "raw_kept_gbit_per_s")
    axes = "set logscale x 2; set logscale y; set format x '%.0f'; set xlabel 'bytes of a message'; set key left"
    blasts = ((4, f"{bare}, full packets (sendmmsg)"), (5, f"{bare}, full packets, segmented"),
              (6, "the same, from messages copied into a ring"))
    for name, where, label, own, scale in (("messages", "bottom", "messages a second", "2", " * 1e9 / 8 / $1"),
                                           ("mbit", "top", "Mbit/s", "($3 * 1000)", " * 1000")):
        about = "messages a second" if name == "messages" else "bytes of the application"
        draw(path.with_name(f"{path.stem}-{name}{path.suffix}"), f"libllm over {transport}: {about} one way, lossless", f"{axes} {where}",
             f"set ylabel '{label}'", curves(f"'{data}' using 1:{own} with linespoints lw 2 pt 7 title 'libllm'",
                                            *(f"'{data}' using 1:(${column}{scale}) with lines dt {at} title '{title}'"
                                              for at, (column, title) in enumerate(blasts, 2))))


def batching(path, report, transport, size):
    data = rows_of(report, "rate_reached_msgs_per_s", "hop_us.median", "hop_us.p99", "messages_per_packet")
    draw(path, f"libllm over {transport}: latency of one hop, and messages that share a packet, of {size} B", "set logscale xyy2",
         "set xlabel 'messages a second'", "set ylabel 'microseconds'", "set y2label 'messages a packet'", "set ytics nomirror",
         "set y2tics", "set y2range [0.9:*]", "set key left top",
         curves(f"'{data}' using 1:2 with linespoints lw 2 pt 7 title 'median'",
                f"'{data}' using 1:3 with linespoints lw 1 pt 6 dt 2 title '99th percentile'",
                f"'{data}' using 1:4 axes x1y2 with linespoints lw 2 pt 5 title 'messages a packet (right)'"))


def scale(path, report):
    """What a loss and a packet cost the transmitter, and the time of a repair, against the number of receivers."""
    rows = [row for row in json.loads(report.read_text(encoding="utf-8"))["rows"] if row["what"] == "losses"]
    data = {}
    for loss in ("port", "trunk"):
        data[loss] = SCRATCH / f"plot-{loss}.dat"
        fields = ("receivers", "naks_per_lost_packet", "repairs_per_lost_packet", "status_per_packet", "repair_us.median", "repair_us.p99")
        data[loss].write_text("".join(" ".join(number(field_of(row, field), 6).replace("-", "NaN") for field in fields) + "\n"
                                      for row in rows if row["loss"] == loss), encoding="utf-8")
    parts = [(loss, column, axes, f"{about}, {where}", style)
             for loss, where, style in (("trunk", "lost for all", "pt 7"), ("port", "lost for one", "pt 6 dt 2"))
             for column, axes, about in ((2, "x1y1", "NAKs for a lost packet"), (3, "x1y1", "repairs for a lost packet"),
                                         (5, "x1y2", "median repair, microseconds (right)"))]
    draw(path, "a transmitter of many receivers behind switches, by simulation", "set logscale xyy2", "set format x '%.0f'",
         "set xlabel 'receivers'", "set ylabel 'packets'", "set y2label 'microseconds'", "set ytics nomirror", "set y2tics",
         "set yrange [0.01:1000]", "set y2range [1:100000]", "set key left top",
         curves(*(f"'{data[loss]}' using 1:{column} axes {axes} with linespoints lw 2 lc {column} {style} title '{title}'"
                  for loss, column, axes, title, style in parts),
                f"'{data['trunk']}' using 1:4 with linespoints lw 2 lc 4 pt 5 title 'STATUS for a packet sent'"))


def acknowledged(path, rows):
    """Median and 99th percentile of acknowledgements against the rate, by level, and the bare write."""
    parts = []
    for at, (engine, level) in enumerate(dict.fromkeys((row["engine"], row["level"]) for row in rows), 1):
        data = SCRATCH / f"plot-{engine}-{level}.dat"
        title = f"Aeron's archive, {level}".replace("'", "''") if engine == "aeron" else level
        data.write_text("".join(f"{row['rate_msgs_per_s']} {number(row['latency_us']['median'], 3)} {number(row['latency_us']['p99'], 3)} "
                                f"{number(row['raw_write_us']['median'], 3)}\n".replace("-", "NaN") for row in rows if (row["engine"], row["level"]) == (engine, level)),
                        encoding="utf-8")
        parts += [f"'{data}' using 1:2 with linespoints lc {at} lw 2 pt 7 title '{title}, median'",
                  f"'{data}' using 1:3 with linespoints lc {at} lw 1 pt 6 dt 2 title '{title}, 99th percentile'"]
    draw(path, "time until a message is acknowledged by a store, by its level", "set logscale xy", "set xlabel 'messages a second'",
         "set ylabel 'microseconds'", "set key left top",
         curves(*parts, f"'{data}' using 1:4 with lines lc 0 dt 3 title 'a bare durable write of 4 KiB, median'"))
