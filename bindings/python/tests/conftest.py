# SPDX-License-Identifier: Apache-2.0
"""What the tests share: contexts over the loop transport, and limits of time that are never measured."""
import os
import pathlib
import time

import pytest

import libllm

SMALL = ("linger_ns=100000000&history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=4&"
         "message_bytes_max=64K&topics_max=8&window_packets=64")
CALLS = "history_bytes=1M&history_packets=256&reorder_bytes=64K&message_bytes_max=64K"
LIMIT = 60 * int(os.environ.get("LLM_SLOWNESS", "1"))
EXTENT = os.environ.get("LLM_PYTHON_TESTS", "short")
SOURCE = pathlib.Path(__file__).resolve().parents[3]


def channel(name, options=SMALL):
    return f"loop://{name}:1?{options}"


def until(context, condition):
    """Polls until the condition holds."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it never came true"
        context.wait(0.01)


@pytest.fixture
def context():
    with libllm.Context(wait=libllm.WaitMode.BLOCK, huge_pages=False, log=lambda level, text: None) as opened:
        yield opened


def pytest_runtest_logreport(report):
    """Prints a result line of tests/run for each test."""
    if "LLM_RESULTS" not in os.environ or (report.when != "call" and report.passed):
        return
    name = "python: " + report.nodeid.split("::")[-1].removeprefix("test_").replace("_", " ")
    if report.skipped:
        print(f"\nskip {name}: {report.longrepr[2].removeprefix('Skipped: ')}", flush=True)
    else:
        print(f"\n{'ok' if report.passed else 'FAILED:'} {name} ({report.duration * 1000:.0f} ms)", flush=True)
