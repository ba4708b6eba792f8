# SPDX-License-Identifier: Apache-2.0
"""Messages as columns of numpy. Arrays have the memory of the messages, and may be retained."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import numpy

#: A message: bindings/python/src/queue.h has the same layout.
RECORD = numpy.dtype([("session", "u8"), ("number", "u8"), ("received_at", "u8"), ("offset", "u8"), ("size", "u4"),
                      ("topic_id", "u4"), ("topic", "u4"), ("unused", "u4")])


class Columns:
    """Messages that were delivered together, one row for each.

    session, number, received_at, offset, size and topic_id are arrays; the bytes of row i are
    data[offset[i]:offset[i] + size[i]]. topics has the names of topics by the numbers in topic.
    """

    def __init__(self, records: Any, data: Any, topics: Mapping[int, str], every_size: int) -> None:
        self.records = numpy.frombuffer(records, RECORD)
        self.data = numpy.frombuffer(data, "u1") if every_size else numpy.empty(0, "u1")
        self.topics = topics
        self._every_size = every_size    # of each message; -1: they differ

    def __len__(self) -> int:
        return len(self.records)

    def __getattr__(self, name: str) -> Any:
        if name in (RECORD.names or ()):
            return self.records[name]
        raise AttributeError(name)

    def bytes(self, row: int) -> bytes:
        """The bytes of a message."""
        at = int(self.records["offset"][row])
        return self.data[at:at + int(self.records["size"][row])].tobytes()

    def topic_names(self) -> list[str]:
        """The name of the topic of each row."""
        return [self.topics[number] for number in self.records["topic"].tolist()]

    def read(self, dtype: Any) -> Any:
        """The messages as an array of a structure. Messages of another size are refused with ValueError."""
        dtype = numpy.dtype(dtype)
        if self._every_size != dtype.itemsize and len(self):
            raise ValueError(f"not every message has {dtype.itemsize} bytes")
        return self.data.view(dtype) if len(self) else numpy.empty(0, dtype)


def handler_of(handler: Callable[[Columns], object]) -> Callable[[Any, Any, Mapping[int, str], int], object]:
    return lambda records, data, topics, every_size: handler(Columns(records, data, topics, every_size))


def joined(parts: Sequence[Columns]) -> Columns:
    """Columns one after the other as one."""
    names: dict[str, int] = {}
    records, at = [], 0
    for part in parts:
        rows = part.records.copy()
        numbers = {number: names.setdefault(name, len(names)) for number, name in part.topics.items()}
        rows["topic"] = [numbers[number] for number in rows["topic"].tolist()]
        rows["offset"] += at
        at += len(part.data)
        records.append(rows)
    every = numpy.concatenate(records) if records else numpy.empty(0, RECORD)
    data = numpy.concatenate([part.data for part in parts]) if parts else numpy.empty(0, "u1")
    sizes = {part._every_size for part in parts} or {0}
    return Columns(every, data, {number: name for name, number in names.items()}, sizes.pop() if len(sizes) == 1 else -1)
