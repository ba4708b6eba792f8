#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Minimal receiver: prints the messages of a topic, and events. receiver.py [CHANNEL [TOPIC [COUNT]]]

TOPIC "" (the default) selects every topic. Ends after COUNT messages, or with ctrl-C.
"""
import sys

import libllm

channel = sys.argv[1] if len(sys.argv) > 1 else "udp://239.192.1.1:5001"
wanted = sys.argv[2] if len(sys.argv) > 2 else ""
left = int(sys.argv[3]) if len(sys.argv) > 3 else sys.maxsize


def on_message(message):
    global left
    # A single wait() may deliver more messages than COUNT.
    if left > 0:
        left -= 1
        print(f"{message.topic} {message.number}: {message.data.decode()}", flush=True)


with libllm.Context(wait=libllm.WaitMode.BLOCK) as context:
    context.receiver(channel, message=on_message, event=lambda event: print("*", event.text, flush=True),
                     accept=lambda session, topic: topic is None or wanted in ("", topic))
    print("* listening on", channel, flush=True)
    try:
        while left > 0:
            context.wait()
    except KeyboardInterrupt:
        pass
