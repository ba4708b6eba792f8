#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the Python package with C in one run: rates of 45 B messages, and the hop of an event loop that sleeps.

bench/python/run.py BUILD_DIR [ROUNDS]   BUILD_DIR: a release build of the library, for which bindings/python/run-test.sh ran

Rates are of CPU time, over the loop transport: messages sent, and received by each kind of handler. A hop is half of the median
round trip over loopback between two programs in C that sleep; that of asyncio is what remains if one of them is in
Python. Each figure is the best of ROUNDS (3).
"""
import asyncio
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BATCH, BATCHES, TRIPS = 300, 1500, 2000
DATA = b"x" * 45
LOOP = "loop://rates:1?history_bytes=16M&history_packets=8192"
THERE, BACK = "udp://239.192.1.21:5021?interface=lo", "udp://239.192.1.22:5022?interface=lo"
LIMITS = {"sent": 1 / 40, "views": 1 / 25, "columns": 1 / 6}


def setup(build):
    """Goes on in a process that finds the package and the library."""
    root = next((build / "python" / "root").rglob("_llm.*.so")).parent.parent
    if os.environ.get("LLM_BENCH_PYTHON") is None:
        os.environ.update(LLM_BENCH_PYTHON="1", PYTHONPATH=str(root), LD_LIBRARY_PATH=str(build))
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])


def rates(libllm, mode, handler):
    with libllm.Context(wait=libllm.WaitMode.BLOCK, huge_pages=False) as context:
        context.receiver(LOOP, event=lambda event: None, **{mode: handler})
        send = context.transmitter(LOOP).topic("t").send
        sent = received = 0
        for _ in range(BATCHES):
            begin = time.thread_time_ns()
            for _ in range(BATCH):
                send(DATA, 1)
            middle = time.thread_time_ns()
            while context.poll():
                pass
            sent, received = sent + middle - begin, received + time.thread_time_ns() - middle
    return sent / BATCH / BATCHES, received / BATCH / BATCHES


def read_views(messages):
    for message in messages:
        message.data[0]


def column_reader():
    import numpy
    layout = numpy.dtype([("first", "u1"), ("rest", "V44")])
    return lambda columns: columns.read(layout)["first"].sum()


async def trips(libllm, aio):
    """Median round trip to the echo in C."""
    with libllm.Context(wait=libllm.WaitMode.BLOCK, huge_pages=False) as context:
        heard, times = asyncio.Event(), []
        context.receiver(BACK, message=lambda message: heard.set())
        topic = context.transmitter(THERE).topic("t")
        with aio.attach(context):
            while not heard.is_set():
                topic.send(DATA)
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.3)
            for _ in range(TRIPS):
                heard.clear()
                begin = time.monotonic_ns()
                topic.send(DATA)
                await heard.wait()
                times.append(time.monotonic_ns() - begin)
    return statistics.median(times)


def main():
    build, rounds = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    setup(build)
    import libllm
    from libllm import aio
    with tempfile.TemporaryDirectory() as directory:
        peer = directory + "/peer"
        source = pathlib.Path(__file__).resolve().parent
        subprocess.run(["cc", "-O2", "-I", source.parent.parent / "include", "-o", peer, source / "peer.c", "-L", build, "-lllm"], check=True)
        c, python, hops = [], [], []
        for _ in range(rounds):
            c.append([float(word) for word in subprocess.check_output([peer, "rates", str(BATCHES)], text=True).split()])
            sent, views = rates(libllm, "views", read_views)
            python.append((sent, views, rates(libllm, "columns", column_reader())[1]))
            echo = subprocess.Popen([peer, "echo", THERE, BACK])
            try:
                in_c = int(subprocess.check_output([peer, "ping", BACK, THERE, str(TRIPS)], text=True))
                hops.append((in_c / 2, asyncio.run(trips(libllm, aio)) - in_c / 2))
            finally:
                echo.kill()
                echo.wait()
    c_sent, c_received = map(min, zip(*c))
    sent, views, columns = map(min, zip(*python))
    print(f"{'':10}{'ns':>8}{'Mmsg/s':>9}{'of C':>8}{'at least':>10}")
    for name, ns, base in (("C sent", c_sent, c_sent), ("C received", c_received, c_received), ("sent", sent, c_sent),
                           ("views", views, c_received), ("columns", columns, c_received)):
        limit = f"1/{1 / LIMITS[name]:.0f}" if name in LIMITS else ""
        print(f"{name:10}{ns:8.1f}{1000 / ns:9.2f}{f'1/{ns / base:.1f}':>8}{limit:>10}")
    hop_c, hop = min(first for first, _ in hops), min(second for _, second in hops)
    print(f"hop of C that sleeps {hop_c / 1000:.1f} us, of asyncio {hop / 1000:.1f} us: {hop / hop_c:.2f} times, at most 2")


if __name__ == "__main__":
    main()
