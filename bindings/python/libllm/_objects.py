# SPDX-License-Identifier: Apache-2.0
"""Contexts and the objects that are opened in them."""
from __future__ import annotations

import atexit
import logging
import weakref
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import _llm
from ._enums import ErrorCode, Level, Reason, SendFlags, TopicFlags
from ._options import Options
from ._structures import (Assurance, Attributes, Bottleneck, Cache, Congestion, ContextOptions, Counter, Event, Filter, Rate,
                          StoreOptions)

if TYPE_CHECKING:
    from .columns import Columns

Message = _llm.Message
Bytes = Any  # bytes, or any object with the buffer protocol
_logger = logging.getLogger("libllm")
_LEVELS = {Level.ERROR: logging.ERROR, Level.WARNING: logging.WARNING, Level.INFO: logging.INFO, Level.DEBUG: logging.DEBUG}
_open: "weakref.WeakSet[Context]" = weakref.WeakSet()


class Error(Exception):
    """A call that the library refused: code, and the line of the log that names the wrong value and the remedy."""

    def __init__(self, code: int, line: str | None = None) -> None:
        name, text = _llm.error(code)
        self.code = ErrorCode(code)
        super().__init__(f"{text} ({name})" + (f": {line}" if line else ""))


class BackPressure(Error, BlockingIOError):
    """The message cannot be taken now: poll and try again, or use put()."""

    def __init__(self, code: int, line: str | None = None) -> None:
        Error.__init__(self, code, line)


def _error(code: int, line: str | None) -> Error:
    return BackPressure(code, line) if code == ErrorCode.EAGAIN else Error(code, line)


_llm.set_error(_error)


def _event(handler: Callable[[Event], object] | None) -> Callable[[dict[str, Any]], object] | None:
    if handler is None:
        return None
    given = handler
    return lambda values: given(Event._of(values))


def _delivery(message: Any, messages: Any, views: Any, columns: Any) -> tuple[int, Any]:
    """Number of the delivery mode, and its handler."""
    given = [(mode, handler) for mode, handler in enumerate((message, messages, views, columns), 1) if handler is not None]
    if len(given) > 1:
        raise TypeError("message, messages, views and columns exclude each other")
    if columns is not None:
        from .columns import handler_of
        return 4, handler_of(columns)
    return given[0] if given else (0, None)


class _Owner:
    """What is open in a context, until it is closed or the context is."""

    def __init__(self, context: "Context", raw: _llm.Object) -> None:
        self._raw = raw
        self.context = context

    @property
    def closed(self) -> bool:
        return self._raw.closed

    def close(self) -> int:
        """Closes it, as the C call does. May block; handlers run meanwhile only in other threads. Twice is allowed."""
        return _llm.close(self._raw)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Topic:
    """A topic of a transmitter, with which it is closed."""
    send: Callable[..., None]
    try_send: Callable[..., bool]

    def __init__(self, owner: "Transmitter | Connection", raw: _llm.Topic) -> None:
        self._raw = raw
        self._owner = owner
        self.name = raw.name
        # The calls of the extension themselves, as they are made for each message.
        self.send = raw.send
        self.try_send = raw.try_send

    def put(self, data: Bytes, timeout: float | None = None, flags: int = 0) -> None:
        """Sends a message, and waits while it is not taken: polls, so handlers run. Raises BackPressure after timeout seconds."""
        if self.try_send(data, flags):
            return
        context, until = self._owner.context, _until(timeout)
        while not self.try_send(data, flags):
            if _llm.clock() >= until:
                raise BackPressure(ErrorCode.EAGAIN)
            context.wait(min(0.001, (until - _llm.clock()) / 1e9))

    def send_with(self, data: Bytes, attributes: Attributes, flags: SendFlags | int = 0) -> None:
        """Sends a message with attributes; see llm_send_with(3)."""
        self._raw._send_with(data, attributes.label, attributes.bitmap, [row._row() for row in attributes.properties], flags)

    def send_numbered(self, number: int, data: Bytes, flags: SendFlags | int = 0) -> None:
        """Sends a message under a number in the stream; see llm_send_numbered(3)."""
        self._raw._send_numbered(number, data, flags)

    def assure(self, assurance: Assurance | None) -> None:
        self._raw.assure(assurance)

    def cache(self, cache: Cache | None = None) -> None:
        self._raw.cache(cache or Cache())

    def limit_rate(self, rate: Rate) -> None:
        self._raw.limit_rate(rate)


class _Sender(_Owner):
    def topic(self, name: str, flags: TopicFlags | int = 0) -> Topic:
        """Opens a topic; see llm_topic_open(3)."""
        return Topic(self, _llm.topic_open(self._raw, name, flags))  # type: ignore[arg-type]

    def flush(self) -> bool:
        """Sends packed messages. False: some are blocked, and leave with a poll."""
        return _llm.transmitter_flush(self._raw) == 0

    def limit_rate(self, rate: Rate) -> None:
        _llm.transmitter_limit_rate(self._raw, rate)

    @property
    def session(self) -> int:
        return _llm.transmitter_number(self._raw, 0)

    @property
    def next(self) -> int:
        """Number that the next message will have."""
        return _llm.transmitter_number(self._raw, 1)


class Transmitter(_Sender):
    """A session of a channel; see llm_transmitter_open(3)."""

    @property
    def receivers(self) -> int:
        """Number of receivers known by their reports."""
        return _llm.transmitter_number(self._raw, 2)

    def wait(self, receivers: int, timeout: float | None = None) -> int:
        """Polls until so many receivers are known, or for timeout seconds; returns their number."""
        until = _until(timeout)
        while self.receivers < receivers and _llm.clock() < until:
            self.context.wait(min(0.001, (until - _llm.clock()) / 1e9))
        return self.receivers

    def suspend(self, receiver: int) -> None:
        _llm.transmitter_suspend(self._raw, receiver, True)

    def resume(self, receiver: int) -> None:
        _llm.transmitter_suspend(self._raw, receiver, False)

    def suspend_all(self) -> None:
        _llm.transmitter_suspend(self._raw, None, True)

    def resume_all(self) -> None:
        _llm.transmitter_suspend(self._raw, None, False)

    def bottleneck(self) -> Bottleneck:
        return Bottleneck(**_llm.bottleneck(self._raw))

    def congestion(self) -> list[Congestion]:
        """The receivers known, according to their latest reports."""
        return [Congestion(bottleneck=Bottleneck(**limit), **row) for row, limit in _llm.transmitter_congestion(self._raw)]


class Receiver(_Owner):
    """A receiver of a channel; see llm_receiver_open(3)."""

    def acknowledge(self, message: Message) -> None:
        """Acknowledges, with acknowledge=application, this message and those before it of its session."""
        _llm.receiver_acknowledge(self._raw, message.session, message.number)

    def subscribe(self, subject: str) -> None:
        _llm.receiver_subscribe(self._raw, subject, True)

    def unsubscribe(self, subject: str) -> None:
        _llm.receiver_subscribe(self._raw, subject, False)

    def filter(self, filter: Filter | None) -> None:
        """Delivers only messages that the filter selects; None: all."""
        if filter is None:
            _llm.receiver_unfilter(self._raw)
        else:
            _llm.receiver_filter(self._raw, [(label.mask, label.match) for label in filter.labels], filter.bitmap_mask,
                                 filter.bitmap_match, filter.selector, list(filter.names.items()))

    def bottleneck(self) -> Bottleneck:
        return Bottleneck(**_llm.bottleneck(self._raw))


class Request:
    """A request of the other side of a connection."""

    def __init__(self, connection: "Connection", id: int, data: bytes) -> None:
        self.connection = connection
        self.id = id
        self.data = data

    def reply(self, data: Bytes) -> None:
        """Replies to it, at once or later."""
        _llm.connection_reply(self.connection._raw, self.id, data)


class Connection(_Sender):
    """Reliable unicast; see llm_connection_open(3)."""

    def __init__(self, context: "Context") -> None:
        self.context = context

    @property
    def id(self) -> int:
        return _llm.connection_id(self._raw)

    def request(self, data: Bytes, reply: Callable[[Reason, bytes], object], timeout: float | None = None) -> None:
        """Sends a request; reply is called once, with Reason.NONE and the reply, or the reason for which there is none."""
        timeout_ns = 2**64 - 1 if timeout is None else max(0, int(timeout * 1e9))
        _llm.connection_request(self._raw, data, timeout_ns, lambda reason, answer: reply(Reason(reason), answer))

    def _requested(self, handler: Callable[[Request], object] | None) -> Callable[[int, bytes], object] | None:
        if handler is None:
            return None
        given = handler
        return lambda id, data: given(Request(self, id, data))


class Caller:
    """A peer that requests a connection: accept() or refuse() it, at once or within connect_timeout_ns."""

    def __init__(self, listener: "Listener", id: int, payload: bytes, message_bytes_max: int) -> None:
        self.listener = listener
        self.id = id
        self.payload = payload
        self.message_bytes_max = message_bytes_max

    def accept(self, *, message: Callable[[Message], object] | None = None,
               messages: Callable[[list[Message]], object] | None = None,
               views: Callable[[list[Message]], object] | None = None,
               columns: "Callable[[Columns], object] | None" = None,
               event: Callable[[Event], object] | None = None,
               request: Callable[[Request], object] | None = None) -> Connection:
        """Returns the connection, which is open from EventKind.CONNECTED on."""
        connection = Connection(self.listener.context)
        connection._raw = _llm.listener_accept(self.listener._raw, self.id, *_delivery(message, messages, views, columns),
                                               _event(event), connection._requested(request))
        return connection

    def refuse(self, code: int) -> None:
        _llm.listener_refuse(self.listener._raw, self.id, code)


class Listener(_Owner):
    """Accepts connections; see llm_listener_open(3)."""

    def __init__(self, context: "Context") -> None:
        self.context = context


class Store(_Owner):
    """Records channels on disk; see llm_store_open(3)."""

    def follow(self, channel: str, options: Options | None = None) -> None:
        _llm.store_follow(self._raw, channel, options)


class Context(_llm.Context):
    """An event loop with what is opened in it. Closing it, or leaving its with block, closes all of that.

    log is called with a Level and a line; without it lines go to the logger "libllm".
    """

    def __init__(self, options: ContextOptions | None = None, *, log: Callable[[Level, str], object] | None = None,
                 **changes: Any) -> None:
        if options is None:
            options = ContextOptions(**changes)
        elif changes:
            raise TypeError("give options, or single ones")
        passed = log or _log
        super().__init__(options, lambda level, text: passed(Level(level), text))
        _open.add(self)

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, timeout: float | None = None) -> int:
        """Polls until something was delivered, or for timeout seconds; returns the number delivered. Signals end it."""
        return self._wait(timeout)

    def counters(self) -> list[Counter]:
        return [Counter(*row) for row in self._counters()]

    def transmitter(self, channel: str, options: Options | None = None, *,
                    event: Callable[[Event], object] | None = None) -> Transmitter:
        """Opens a transmitter on a channel."""
        return Transmitter(self, _llm.transmitter_open(self, channel, options, _event(event)))

    def receiver(self, channel: str, options: Options | None = None, *,
                 message: Callable[[Message], object] | None = None,
                 messages: Callable[[list[Message]], object] | None = None,
                 views: Callable[[list[Message]], object] | None = None,
                 columns: "Callable[[Columns], object] | None" = None,
                 event: Callable[[Event], object] | None = None,
                 accept: Callable[[int, str | None], bool] | None = None,
                 join: Callable[[int], tuple[int, int] | None] | None = None) -> Receiver:
        """Opens a receiver on a channel, with one of message, messages, views and columns.

        accept is called with a session, and with None or one of its topics; join with a session, and returns None, or
        a JoinMode and its value.
        """
        mode, deliver = _delivery(message, messages, views, columns)
        return Receiver(self, _llm.receiver_open(self, channel, options, mode, deliver, _event(event), accept, join))

    def connection(self, channel: str, options: Options | None = None, *, payload: bytes = b"",
                   message: Callable[[Message], object] | None = None,
                   messages: Callable[[list[Message]], object] | None = None,
                   views: Callable[[list[Message]], object] | None = None,
                   columns: "Callable[[Columns], object] | None" = None,
                   event: Callable[[Event], object] | None = None,
                   request: Callable[[Request], object] | None = None) -> Connection:
        """Requests a connection, which is open from EventKind.CONNECTED on."""
        connection = Connection(self)
        connection._raw = _llm.connection_open(self, channel, options, *_delivery(message, messages, views, columns),
                                               _event(event), connection._requested(request), payload)
        return connection

    def listener(self, channel: str, options: Options | None = None, *, connect: Callable[[Caller], object]) -> Listener:
        """Listens for connections."""
        listener = Listener(self)
        listener._raw = _llm.listener_open(
            self, channel, options,
            lambda id, payload, message_bytes_max: connect(Caller(listener, id, payload, message_bytes_max)))
        return listener

    def store(self, options: StoreOptions, *, event: Callable[[Event], object] | None = None) -> Store:
        """Opens a store."""
        return Store(self, _llm.store_open(self, options, _event(event)))


def _log(level: Level, text: str) -> None:
    _logger.log(_LEVELS[level], "%s", text)


def _until(timeout: float | None) -> int:
    return 2**64 - 1 if timeout is None else _llm.clock() + int(timeout * 1e9)


# While the interpreter can still call handlers.
@atexit.register
def _close_all() -> None:
    for context in list(_open):
        try:
            context.close()
        except Exception:
            _logger.exception("a handler raised when the interpreter ended")
