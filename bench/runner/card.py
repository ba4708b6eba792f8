# SPDX-License-Identifier: Apache-2.0
"""A report card: tables and plots of a benchmark as one self-contained HTML page."""
import html
import re
import shutil
import subprocess

from runner.session import say
from runner.tables import text_of

STYLE = """body{font:14px/1.4 sans-serif;max-width:1200px;margin:2em auto;padding:0 1em}table{border-collapse:collapse;margin:1em 0}
td,th{padding:.2em .6em;text-align:right;border-bottom:1px solid #ccc}td:first-child,th:first-child{text-align:left}
pre{background:#f4f4f4;padding:1em;overflow-x:auto}svg{max-width:100%;height:auto}"""


def table(columns, rows):
    """An HTML table. columns: as Report.rows() takes them."""
    heads = zip(*(column[:-2] for column in columns))
    lines = ["<table><thead>", *("<tr>" + "".join(f"<th>{html.escape(word)}</th>" for word in head) + "</tr>" for head in heads),
             "</thead><tbody>"]
    for row in rows:
        lines.append("<tr>" + "".join(f"<td>{html.escape(text_of(row, *column[-2:]))}</td>" for column in columns) + "</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def plot(title, curves, *settings):
    """An SVG plot of curves, each (name, points), as text; "" without gnuplot. Points without a value are left out."""
    curves = [(name, [point for point in points if None not in point]) for name, points in curves]
    curves = [(name, points) for name, points in curves if points]
    if not shutil.which("gnuplot") or not curves:
        return ""
    data = "".join("".join(f"{x} {y}\n" for x, y in points) + "e\n" for _, points in curves)
    names = ", ".join(f"'-' with linespoints lw 2 pt 7 ps 0.5 title '{name}'" for name, _ in curves)
    script = "\n".join(["set terminal svg size 1000,560 background rgb 'white' noenhanced", f"set title '{title}'", "set grid", *settings,
                        f"plot {names}", data])
    done = subprocess.run(["gnuplot"], input=script, capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"{done.stderr}gnuplot could not draw: {title}")
        return ""
    # Identifiers must be unique in the page.
    mark = re.sub(r"\W", "", title)
    svg = done.stdout[done.stdout.index("<svg"):]
    return re.sub(r"(id='|xlink:href='#|url\(#)", rf"\g<1>{mark}", svg)


def write(path, title, head, *parts):
    """head: lines of text; parts: tables and plots, with the heading of each."""
    body = [f"<h1>{html.escape(title)}</h1>", f"<pre>{html.escape(chr(10).join(head))}</pre>"]
    for heading, part in parts:
        if part:
            body += [f"<h2>{html.escape(heading)}</h2>", part]
    page = ["<!DOCTYPE html>", "<html lang='en'><head><meta charset='utf-8'>", f"<title>{html.escape(title)}</title>",
            f"<style>{STYLE}</style></head><body>", *body, "</body></html>"]
    path.write_text("\n".join(page) + "\n", encoding="utf-8")
    say(f"report card: {path}")
