# SPDX-License-Identifier: Apache-2.0
"""Every example of docs/python.md runs."""
import os
import re
import subprocess
import sys

import pytest

from conftest import LIMIT, SOURCE

EXAMPLES = re.findall(r"^```python\n(.*?)^```", (SOURCE / "docs/python.md").read_text(), re.M | re.S)
OUTPUT = {"[150.0]\n": 2, "b'good'\nmessage 1\nb'last'\n": 3, "b'HOW MUCH?'\nb'up'\n": 4,
          "orders 7 7\norders 8 8\norders 9 9\n45\n": 5}


def start(text):
    text = text.replace("udp://239.192.1.1:5001", "udp://239.192.1.1:5001?interface=lo")
    return subprocess.Popen([sys.executable, "-u", "-c", text], stdout=subprocess.PIPE, text=True, env=os.environ)


def test_every_example_has_a_test():
    assert len(EXAMPLES) == 2 + len(OUTPUT)


def test_the_transmitter_reaches_the_receiver():
    receiver = start(EXAMPLES[1])
    try:
        assert start(EXAMPLES[0]).wait(LIMIT) == 0
        lines = iter(receiver.stdout.readline, "")
        assert any(line == "quotes: hello\n" for line in lines)
    finally:
        receiver.kill()
        receiver.wait()


@pytest.mark.parametrize("output", OUTPUT, ids=OUTPUT.values())
def test_an_example_prints(output):
    process = start(EXAMPLES[OUTPUT[output]])
    assert process.communicate(timeout=LIMIT)[0] == output and process.returncode == 0
