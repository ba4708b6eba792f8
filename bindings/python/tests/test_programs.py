# SPDX-License-Identifier: Apache-2.0
"""The examples in Python and those in C understand each other."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import EXTENT, LIMIT, SOURCE

PYTHON = SOURCE / "examples" / "python"
C = pathlib.Path(os.environ.get("LLM_PROGRAMS", SOURCE / "build" / "examples"))
LANGUAGES = {"C": lambda name: [C / name], "Python": lambda name: [sys.executable, "-u", PYTHON / f"{name}.py"]}
OTHERS = [("C", "Python"), ("Python", "C")]

if not (C / "receiver").exists():
    pytest.skip("the examples in C are not built", allow_module_level=True)


class Started:
    """A program that says that it listens, and ends with the test."""

    def __init__(self, command, stream="stdout"):
        # Output of the C programs is by lines only on a terminal, so theirs is forced.
        self.process = subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in getattr(self.process, stream):
            if "listening" in line:
                return
        raise AssertionError(f"{command} ended")

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def run(language, name, *arguments):
    return subprocess.run([*LANGUAGES[language](name), *arguments], timeout=LIMIT, capture_output=True, text=True)


@pytest.mark.parametrize("sender,receiver", OTHERS)
def test_messages_arrive_in_order(sender, receiver):
    channel = "udp://239.192.1.11:5011?interface=lo"
    with Started([*LANGUAGES[receiver]("receiver"), channel, "greetings", "300"]) as process:
        assert run(sender, "transmitter", channel, "other", "3", "1").returncode == 0
        assert run(sender, "transmitter", channel, "greetings", "300", "1").returncode == 0
        lines = process.communicate(timeout=LIMIT)[0].splitlines()
    assert [line for line in lines if not line.startswith("*")] == [f"greetings {i}: hello, number {i}" for i in range(300)]


@pytest.mark.parametrize("client,server", OTHERS)
def test_requests_are_answered(client, server):
    channel = "udp://127.0.0.1:5015?interface=lo"
    with Started([*LANGUAGES[server]("answerer"), channel, "sesame"]):
        answered = run(client, "asker", channel, "sesame", "abc", "able was i")
        assert "cba, after " in answered.stdout and "i saw elba, after " in answered.stdout
        refused = run(client, "asker", channel, "simsalabim", "abc")
        assert refused.returncode == 1 and "403" in refused.stdout


def test_a_consumer_in_python_has_the_books_of_the_generator(tmp_path):
    channel, expected = "udp://239.192.1.13:5013?interface=lo", tmp_path / "expected"
    with Started([*LANGUAGES["Python"]("feed_consumer"), channel], "stderr") as consumer:
        with Started([C / "feed_handler", "--interface", "lo", "--channel", channel, "--once"]) as handler:
            assert run("C", "feed_generator", "--interface", "lo", "--seed", "7", "--symbols", "50", "--messages", "10000",
                       "--rate", "10000", "--expect", expected).returncode == 0
            handler.wait(LIMIT)
        assert consumer.communicate(timeout=LIMIT)[0].splitlines() == expected.read_text().splitlines()


def test_the_notebook_plots_a_recording(monkeypatch):
    if EXTENT == "short":
        pytest.skip("run-test.sh BUILD_DIR all runs it")
    pytest.importorskip("pandas", reason="python3-pandas is not installed")
    matplotlib = pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    matplotlib.use("Agg")
    monkeypatch.delenv("DIRECTORY", raising=False)
    variables = {}
    for cell in json.loads((PYTHON / "recording.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), variables)
    assert len(variables["frame"]) == 2000 and (variables["frame"]["latency_us"] > 0).all()
    assert variables["volume"].sum().sum() == variables["frame"]["size"].sum()
