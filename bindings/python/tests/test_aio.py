# SPDX-License-Identifier: Apache-2.0
"""Contexts in the event loop of asyncio."""
import asyncio
import threading

import pytest

import libllm
from conftest import CALLS, LIMIT, channel
from libllm import aio


def run(coroutine):
    asyncio.run(asyncio.wait_for(coroutine, LIMIT))


def test_messages_are_awaited(context):
    async def main():
        messages = aio.Messages()
        context.receiver(channel("aio"), messages=messages)
        topic = context.transmitter(channel("aio")).topic("t")
        with aio.attach(context):
            async def send():
                for i in range(500):
                    await aio.put(topic, b"%d" % i)
            sender = asyncio.create_task(send())
            count = 0
            async for message in messages:
                assert int(message.data) == count
                count += 1
                if count == 500:
                    break
            await sender

    run(main())


def test_replies_are_awaited(context):
    async def main():
        connected = asyncio.Event()
        context.listener(channel("ask", CALLS), connect=lambda caller: caller.accept(
            request=lambda request: request.data != b"silence" and request.reply(request.data + b"!")))
        connection = context.connection(channel("ask", CALLS), event=lambda event: connected.set())
        with aio.attach(context):
            await connected.wait()
            assert await aio.request(connection, b"one") == b"one!"
            with pytest.raises(asyncio.TimeoutError):
                await aio.request(connection, b"silence", 0.001)
            waiting = asyncio.create_task(aio.request(connection, b"silence"))
            await asyncio.sleep(0)
            connection.close()
            with pytest.raises(ConnectionError):
                await waiting

    run(main())


def test_exceptions_of_handlers_go_to_the_loop(context):
    async def main():
        raised = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: raised.done() or raised.set_result(what["exception"]))
        context.receiver(channel("fail"), message=lambda message: 1 / 0)
        with aio.attach(context):
            context.transmitter(channel("fail")).topic("t").put(b"x")
            assert isinstance(await raised, ZeroDivisionError)

    run(main())


def test_a_thread_wakes_the_loop_once_for_many_calls(context):
    async def main():
        with aio.attach(context) as attachment:
            await asyncio.sleep(0)
            polls = []
            work = attachment._work
            attachment._work = lambda: (polls.append(1), work())
            # In debug mode the loop refuses calls of other threads that are not meant for them.
            thread = threading.Thread(target=lambda: [attachment.wake() for _ in range(100)] and woken.append(1))
            woken = []
            thread.start()
            thread.join()
            assert woken and not polls
            await asyncio.sleep(0)
            assert len(polls) == 1

    asyncio.run(asyncio.wait_for(main(), LIMIT), debug=True)
