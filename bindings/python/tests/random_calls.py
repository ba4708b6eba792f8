# SPDX-License-Identifier: Apache-2.0
"""Random calls on a few objects, with views and arrays that are held too long, closed in any order. random_calls.py CALLS [SEED]

Errors of libllm are expected; everything else, and above all a crash, is a failure. The seed repeats a run.
"""
import os
import random
import sys
import threading

import libllm

try:
    import numpy
except ImportError:
    numpy = None

CHANNEL = ("loop://random:{}?linger_ns=0&history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=4&"
           "message_bytes_max=64K&topics_max=8&window_packets=64")
calls, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int.from_bytes(os.urandom(4), "big")
rng = random.Random(seed)
retained, objects, topics, contexts = [], [], [], []
depth = 0  # handlers that make calls


class Expected(Exception):
    pass


def handle(*arguments):
    """Holds some of what it gets, calls back, and fails at times."""
    global depth
    if rng.random() < 0.3:
        retained.append(arguments)
    for messages in arguments[:1] if isinstance(arguments[0], list) else ():
        for message in messages:
            if rng.random() < 0.2:
                retained.append(message.data[1:3] if len(message.data) > 3 else message.data)
            if numpy is not None and rng.random() < 0.1:
                retained.append(numpy.frombuffer(message.data, "u1"))
    if rng.random() < 0.02:
        depth += 1
        try:
            one_call()
        finally:
            depth -= 1
    if rng.random() < 0.05:
        raise Expected


def connect(caller):
    if rng.random() < 0.5:
        objects.append(caller.accept(message=handle, event=handle, request=lambda request: request.reply(b"answer")))
    else:
        caller.refuse(1)


def open_context():
    if len(contexts) < 3:
        contexts.append(libllm.Context(huge_pages=False, wait=libllm.WaitMode.BLOCK, log=lambda level, text: None))


def open_receiver():
    mode = rng.choice(["message", "messages", "views"] + (["columns"] if numpy is not None else []))
    objects.append(rng.choice(contexts).receiver(CHANNEL.format(rng.choice("12")), event=handle, accept=lambda session, topic: True,
                                                 **{mode: handle}))


def open_transmitter():
    transmitter = rng.choice(contexts).transmitter(CHANNEL.format(rng.choice("12")), event=handle)
    objects.append(transmitter)
    topics.append(transmitter.topic("t"))


def open_connection():
    context = rng.choice(contexts)
    channel = "loop://calls:1?linger_ns=0&history_bytes=1M&history_packets=256&reorder_bytes=64K&message_bytes_max=64K"
    objects.append(rng.choice([lambda: context.listener(channel, connect=connect),
                               lambda: context.connection(channel, event=handle, message=handle)])())


def send():
    data = rng.choice([b"", b"x" * 45, bytearray(2000), memoryview(b"views")])
    topic = rng.choice(topics)
    for _ in range(rng.randrange(20)):
        topic.try_send(data, rng.choice([0, 1]))


def poll():
    rng.choice(contexts).wait(0)


def drop():
    if retained and rng.random() < 0.5:
        del retained[rng.randrange(len(retained)):]
    of = rng.choice([objects, topics])
    if len(of) > 8:
        of.pop(rng.randrange(len(of)))


def close():
    rng.choice(objects).close()


def close_context():
    context = rng.choice(contexts)
    context.close()
    contexts.remove(context)


def look():
    for held in retained[-3:]:
        try:
            bytes(held)
        except (ValueError, TypeError):
            pass
    rng.choice(contexts).counters()


def ask():
    one = rng.choice(objects)
    if isinstance(one, libllm.Connection):
        one.request(b"question", lambda reason, data: None, 0.01)


def in_thread():
    # A handler that waits for a thread that polls the same context would wait for ever.
    if depth > 0:
        return
    thread = threading.Thread(target=guarded, args=(rng.choice([send, poll, close, ask]),))
    thread.start()
    guarded(poll)
    thread.join()


def fork():
    child = os.fork()
    if child == 0:
        for call in (send, poll, close, close_context):
            guarded(call)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"a child ended with {status}"


def guarded(call):
    try:
        call()
    except (libllm.Error, Expected, IndexError, ValueError):
        pass


def one_call():
    guarded(rng.choices([open_context, open_receiver, open_transmitter, open_connection, send, poll, drop, close, close_context, look,
                         ask, in_thread, fork], [2, 3, 4, 2, 300, 300, 60, 4, 1, 20, 20, 1, 0.1])[0])


print(f"seed {seed}", flush=True)
for _ in range(calls):
    one_call()
