#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the dashboard of Grafana with what llm-stat serves to Prometheus of a transmitter, receivers and a store.

    tests/tools/dashboard.py LLM LLM_STAT LLM_STORE DASHBOARD
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

llm, llm_stat, llm_store, dashboard = sys.argv[1:]
patience = 30 * int(os.environ.get("LLM_SLOWNESS", "1"))
# Labels that Prometheus adds to what it reads.
ADDED = {"instance"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def queries():
    """(title, expression) of each query of each panel."""
    for panel in json.loads(pathlib.Path(dashboard).read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def served(page):
    """{name: labels} of the samples."""
    found = {}
    for name, labels in re.findall(r"^(llm_\w+)(?:\{(.*)\})? \S+$", page, re.M):
        found[name] = set(re.findall(r'(\w+)="(?:\\.|[^"\\])*"', labels))
    return found


def problems(names):
    for title, expression in queries():
        used = re.findall(r"\b(llm_\w+)(?:\{([^}]*)\})?", expression)
        if not used:
            yield f"{title}: no metric in {expression}"
        grouped = set(re.split(r",\s*", "".join(re.findall(r"\bby \(([^)]*)\)", expression)))) - {""}
        for name, selected in used:
            if name not in names:
                yield f"{title}: llm-stat serves no {name}"
                continue
            for label in (set(re.findall(r"(\w+)=~?\"", selected)) | grouped) - ADDED - names[name]:
                yield f"{title}: {name} has no label {label}"


def ends(process):
    """Waits for the end of a process that was asked to. False: it had to be killed."""
    try:
        process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False
    return True


def main():
    with tempfile.TemporaryDirectory(prefix="libllm-", dir="/dev/shm") as directory:
        place = pathlib.Path(directory)
        (place / "store").mkdir()
        os.environ["LLM_STATS_DIRECTORY"] = str(place / "counters")
        channel = f"shm://dashboard:1?shm_directory={directory}"
        address = f"127.0.0.1:{free_port()}"
        started = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for words in (
            [llm_stat, "--prometheus", address], [llm_store, "record", "--reserve", "0", "--segment", "16", str(place / "store"), channel],
            [llm, "receive", channel], [llm, "send", "--count", "0", "--rate", "100", channel, "t", "x"])]
        try:
            started[0].stderr.readline()  # until it listens
            until, page = time.monotonic() + patience, ""
            # Until each kind of object is there.
            while not all(f"llm_{kind}_" in page for kind in ("transmitter", "member", "receiver", "store", "transport")) and time.monotonic() < until:
                time.sleep(0.05)
                page = urllib.request.urlopen(f"http://{address}/metrics", timeout=patience).read().decode()
        finally:
            for process in started:
                process.terminate()
            stuck = [process.args for process in started if not ends(process)]
    found = [f"{words} did not end" for words in stuck] + list(problems(served(page)))
    for problem in found:
        print(problem)
    return 1 if found else 0


sys.exit(main())
