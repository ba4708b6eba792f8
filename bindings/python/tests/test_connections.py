# SPDX-License-Identifier: Apache-2.0
"""Connections, requests and replies."""
import gc
import weakref

import pytest

import libllm
from conftest import CALLS, channel, until


def test_requests_are_answered_to_those_who_know_the_word(context):
    events, answers, messages, accepted = [], [], [], []

    def connect(caller):
        if caller.payload != b"word":
            caller.refuse(7)
            return
        accepted.append(caller.accept(request=lambda request: request.reply(request.data[::-1]), message=messages.append,
                                      event=lambda event: events.append(("server", event.kind))))

    context.listener(channel("calls", CALLS), connect=connect)
    client = context.connection(channel("calls", CALLS), payload=b"word",
                                event=lambda event: events.append(("client", event.kind)))
    with pytest.raises(libllm.Error):
        accepted[0].topic("t") if accepted else client.topic("t")
    refused = []
    stranger = context.connection(channel("calls", CALLS), payload=b"guess", event=refused.append)
    until(context, lambda: ("client", libllm.EventKind.CONNECTED) in events and refused)
    assert refused[0].reason == libllm.Reason.REFUSED and refused[0].first == 7
    stranger.close()
    client.request(b"abc", lambda reason, data: answers.append((reason, data)))
    client.topic("t").put(b"hello")
    until(context, lambda: answers and messages)
    assert answers == [(libllm.Reason.NONE, b"cba")] and messages[0].data == b"hello"
    assert client.id == accepted[0].id
    client.close()
    until(context, lambda: ("server", libllm.EventKind.DISCONNECTED) in events)
    accepted[0].close()


def test_a_request_without_a_reply_ends_with_its_reason(context):
    connected, answers = [], []
    context.listener(channel("silent", CALLS), connect=lambda caller: caller.accept(request=lambda request: None))
    client = context.connection(channel("silent", CALLS), event=connected.append)
    until(context, lambda: connected)
    client.request(b"x", lambda reason, data: answers.append(reason), timeout=0.001)
    until(context, lambda: answers)
    client.request(b"x", lambda reason, data: answers.append(reason))
    client.close()
    assert answers == [libllm.Reason.UNANSWERED, libllm.Reason.CLOSED]


def test_a_reply_that_is_never_delivered_gives_its_function_up():
    connected = []

    class Handler:
        def __call__(self, reason, data):
            raise ValueError

    with libllm.Context(wait=libllm.WaitMode.BLOCK, huge_pages=False, log=lambda level, text: None) as context:
        context.listener(channel("left", CALLS), connect=lambda caller: caller.accept(request=lambda request: None))
        client = context.connection(channel("left", CALLS), event=connected.append)
        until(context, lambda: connected)
        handlers = [Handler(), Handler()]
        dead = [weakref.ref(handler) for handler in handlers]
        for handler in handlers:
            client.request(b"x", handler)
        del handler, handlers
        # The first exception leaves the other reply in the queue.
        with pytest.raises(ValueError):
            context.close()
    del context, client
    gc.collect()
    assert [handler() for handler in dead] == [None, None]
