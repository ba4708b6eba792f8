# SPDX-License-Identifier: Apache-2.0
"""A context in the event loop of asyncio: by its descriptor and its deadline."""
from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Callable

from . import _llm
from ._enums import ErrorCode, Reason
from ._objects import BackPressure, Connection, Context, Error, Message, Topic

NEVER = 2**63


class Attachment:
    """Polls a context when there is work to do, from attach() to detach().

    An exception of a handler goes to the exception handler of the loop.
    """

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.context = context
        self._loop = loop or asyncio.get_running_loop()
        # A timer that fires too early costs one poll, which is less than setting it anew after each message.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._pending = False
        self._fd = context.fileno()
        self._loop.add_reader(self._fd, self._work)
        self._work()

    def detach(self) -> None:
        """Stops polling. The context stays open."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            self._fd = -1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._timer_at = NEVER

    def wake(self) -> None:
        """Polls soon: after a call, such as a send, that may have made work. Any thread may call it."""
        if self._fd >= 0 and not self._pending:
            self._pending = True
            self._loop.call_soon_threadsafe(self._pended)

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def _work(self) -> None:
        if self._fd < 0:
            return
        if self.context.closed:
            self.detach()
            return
        try:
            delivered = self.context.poll()
            if not delivered:
                # The descriptor is armed before the last poll.
                self.context.fileno()
                delivered = self.context.poll()
        except Exception as error:
            delivered = 1
            self._loop.call_exception_handler({"message": "a handler of libllm raised", "exception": error})
        if self._fd >= 0 and not self.context.closed:
            self._sleep(delivered)

    def _sleep(self, delivered: int) -> None:
        if delivered or self.context.waiting:
            # There may be more; other tasks come first.
            self.wake()
            return
        deadline = self.context.deadline()
        if deadline >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(max(0, deadline - _llm.clock()) / 1e9, self._due)

    def _pended(self) -> None:
        # Before the poll: what another thread sends from now on needs another one.
        self._pending = False
        self._work()

    def _due(self) -> None:
        self._timer = None
        self._timer_at = NEVER
        self._work()


def attach(context: Context) -> Attachment:
    """Lets the running event loop poll a context."""
    return Attachment(context)


async def put(topic: Topic, data: Any, timeout: float | None = None) -> None:
    """Sends a message, and awaits room for it. The context has to be attached."""
    until = None if timeout is None else _llm.clock() + int(timeout * 1e9)
    while not topic.try_send(data):
        if until is not None and _llm.clock() >= until:
            raise BackPressure(ErrorCode.EAGAIN)
        await asyncio.sleep(0.0005)


async def request(connection: Connection, data: Any, timeout: float | None = None) -> bytes:
    """Sends a request and awaits the reply. Raises asyncio.TimeoutError, or ConnectionError if the connection ended."""
    future: "asyncio.Future[bytes]" = asyncio.get_running_loop().create_future()

    def replied(reason: Reason, answer: bytes) -> None:
        if future.done():
            return
        if reason == Reason.NONE:
            future.set_result(answer)
        elif reason == Reason.UNANSWERED:
            future.set_exception(asyncio.TimeoutError())
        else:
            future.set_exception(ConnectionError(reason.name))

    connection.request(data, replied, timeout)
    return await future


class Messages:
    """Messages of a receiver, for `async for`. Those that are not taken wait in memory."""

    def __init__(self) -> None:
        self._queue: "asyncio.Queue[Message]" = asyncio.Queue()

    def __call__(self, messages: list[Message]) -> None:
        for message in messages:
            self._queue.put_nowait(message)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        return await self._queue.get()
