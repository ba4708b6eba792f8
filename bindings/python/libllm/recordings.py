# SPDX-License-Identifier: Apache-2.0
"""Recordings of stores, and their replay without a context."""
from __future__ import annotations

import collections
import os
from typing import TYPE_CHECKING, Any, Iterator

from . import _llm
from ._enums import Reason
from ._structures import Event, Recording, ReplayOptions

if TYPE_CHECKING:
    from .columns import Columns

PACKETS = 64  # packets that are read at a time


def recordings(directory: "str | os.PathLike[str]") -> list[Recording]:
    """The recordings in the directory of a store, in the order in which they began."""
    found = []
    for row in _llm.recordings(os.fspath(directory)):
        row["reason"] = Reason(row["reason"])
        found.append(Recording(**row))
    return found


def _options(options: ReplayOptions | None, changes: dict[str, Any]) -> ReplayOptions:
    if options is not None and changes:
        raise TypeError("give options, or single ones")
    return options or ReplayOptions(**changes)


def replay(directory: "str | os.PathLike[str]", options: ReplayOptions | None = None, *, events: bool = False,
           **changes: Any) -> Iterator[Any]:
    """The messages of recordings, one after the other; with events also what happened to their sessions.

    Damage raises Error; the next iterator can go on with skip_damage.
    """
    waiting: "collections.deque[Any]" = collections.deque()

    def event(values: dict[str, Any]) -> None:
        if events:
            waiting.append(Event._of(values))

    reader = _llm.replay_open(os.fspath(directory), _options(options, changes), 2, waiting.extend, event)
    return _messages(reader, waiting)


def _messages(reader: _llm.Replay, waiting: "collections.deque[Any]") -> Iterator[Any]:
    try:
        while reader.next(PACKETS):
            while waiting:
                yield waiting.popleft()
        yield from waiting
    finally:
        reader.close()


def replay_columns(directory: "str | os.PathLike[str]", options: ReplayOptions | None = None, **changes: Any) -> "Columns":
    """All messages of recordings as columns; read() of them is an array of a structure. Needs numpy."""
    from .columns import handler_of, joined
    parts: list[Any] = []
    reader = _llm.replay_open(os.fspath(directory), _options(options, changes), 4, handler_of(parts.append), None)
    while reader.next(65536):
        pass
    reader.close()
    return joined(parts)


def replay_frame(directory: "str | os.PathLike[str]", options: ReplayOptions | None = None, *, dtype: Any = None,
                 **changes: Any) -> Any:
    """All messages of recordings as a DataFrame of pandas, with the fields of dtype, or the bytes as data."""
    import pandas
    columns = replay_columns(directory, options, **changes)
    frame = pandas.DataFrame({
        "session": columns.session, "number": columns.number, "topic": columns.topic_names(), "size": columns.size,
        "received_at": pandas.to_datetime(columns.received_at),
    })
    if dtype is None:
        frame["data"] = [columns.bytes(row) for row in range(len(columns))]
        return frame
    values = columns.read(dtype)
    for name in values.dtype.names:
        frame[name] = values[name]
    return frame
