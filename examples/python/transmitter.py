#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Minimal transmitter: sends numbered messages on one topic. transmitter.py [CHANNEL [TOPIC [COUNT [INTERVAL_MS]]]]"""
import sys
import time

import libllm

channel, name, count, interval_ms = (sys.argv[1:] + ["udp://239.192.1.1:5001", "greetings", "10", "500"][len(sys.argv) - 1:])[:4]

with libllm.Context(wait=libllm.WaitMode.BLOCK) as context:
    transmitter = context.transmitter(channel)
    topic = transmitter.topic(name)
    send_at = time.monotonic()
    for number in range(int(count)):
        topic.put(b"hello, number %d" % number)
        send_at += int(interval_ms) / 1000
        # Repairs and heartbeats are sent in polls: so poll at least once between two messages.
        context.poll()
        while (rest := send_at - time.monotonic()) > 0:
            context.wait(rest)
    # Waits, by default at most one second, until all known receivers have everything.
    transmitter.close()
