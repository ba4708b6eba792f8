#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Consumer of feed_handler, whose quotes feed_handler/quote.h describes: prints the final books.

feed_consumer.py CHANNEL   ends with the session, and prints a line for each symbol
"""
import struct
import sys

import libllm

QUOTE = struct.Struct("<HH4xQQQQII")  # version, flags, sequence, time, bid and ask size, bid and ask price
STALE = 1
books = {}  # of each symbol: session, flags, bid size, ask size, bid price, ask price
ended = False


def on_messages(messages):
    for message in messages:
        if len(message.data) < QUOTE.size:
            continue
        version, flags, _, _, *book = QUOTE.unpack_from(message.data)
        # A quote is self-contained: the latest one of a topic is its full state.
        if version == 1:
            books[message.topic] = [message.session, flags, *book]


def on_event(event):
    global ended
    ended |= event.kind == libllm.EventKind.SESSION_END
    lost = event.kind in (libllm.EventKind.GAP, libllm.EventKind.STREAM_GAP, libllm.EventKind.HEARTBEAT_LOST)
    # The last quotes of a handler that closed its session remain valid.
    if lost or (event.kind == libllm.EventKind.SESSION_END and event.reason != libllm.Reason.CLOSED):
        for book in books.values():
            if book[0] == event.session:
                book[1] |= STALE


with libllm.Context(wait=libllm.WaitMode.BLOCK) as context:
    context.receiver(sys.argv[1], views=on_messages, event=on_event)
    print("* listening on", sys.argv[1], file=sys.stderr, flush=True)
    while not ended:
        context.wait()

for symbol, (_, flags, bid_size, ask_size, bid, ask) in sorted(books.items()):
    print(symbol, bid_size, f"{bid / 10000:.4f}", f"{ask / 10000:.4f}", ask_size, *["stale"] * (flags & STALE))
