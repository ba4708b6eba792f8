#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Minimal server: answers requests of clients that present the password with their text reversed. answerer.py [CHANNEL [WORD]]"""
import sys

import libllm

channel = sys.argv[1] if len(sys.argv) > 1 else "udp://127.0.0.1:5001"
word = sys.argv[2] if len(sys.argv) > 2 else "please"
CODE_UNKNOWN_WORD = 403


def on_request(request):
    try:
        request.reply(request.data[::-1])
    except libllm.BackPressure:
        print("a reply is dropped: the client sends faster than it reads", file=sys.stderr)


def on_connect(caller):
    if caller.payload.decode(errors="replace") != word:
        caller.refuse(CODE_UNKNOWN_WORD)
        return

    def on_event(event):
        print(event.text, flush=True)
        # Each side closes its connection, also after the other side has closed.
        if event.kind == libllm.EventKind.DISCONNECTED:
            connection.close()

    connection = caller.accept(request=on_request, event=on_event)


with libllm.Context(wait=libllm.WaitMode.BLOCK) as context:
    context.listener(channel, connect=on_connect)
    print("listening on", channel, flush=True)
    while True:
        context.wait()
