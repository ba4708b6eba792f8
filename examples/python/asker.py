#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Minimal client, with asyncio: sends each text as a request and prints the reply. asker.py [CHANNEL [WORD [TEXT...]]]"""
import asyncio
import sys

import libllm
from libllm import aio

channel = sys.argv[1] if len(sys.argv) > 1 else "udp://127.0.0.1:5001"
word = sys.argv[2] if len(sys.argv) > 2 else "please"
texts = sys.argv[3:] or ["able was i"]


async def main():
    connected = asyncio.get_running_loop().create_future()

    def on_event(event):
        print(event.text)
        if not connected.done():
            connected.set_result(event.kind == libllm.EventKind.CONNECTED)

    with libllm.Context(wait=libllm.WaitMode.BLOCK) as context:
        connection = context.connection(channel, payload=word.encode(), event=on_event)
        with aio.attach(context):
            if not await connected:
                return 1
            for text in texts:
                begin = libllm.clock()
                reply = await aio.request(connection, text.encode(), timeout=10)
                print(f"{reply.decode()}, after {(libllm.clock() - begin) // 1000} us")
        connection.close()
    return 0


sys.exit(asyncio.run(main()))
