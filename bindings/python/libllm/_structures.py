# SPDX-License-Identifier: Apache-2.0
"""Structures of libllm as data classes. Defaults are those of the C library; times are nanoseconds."""
from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

from . import _llm
from ._enums import (EventKind, JoinMode, LatencyLevel, Level, Limit, PropertyType, Reason, StoreEngine, StoreFull, StoreLevel,
                     Threshold, WaitMode)
from ._options import Options


def connection_options(**changes: Any) -> Options:
    """Options that connections use if none are given, with changes; see llm_connection_options_init(3)."""
    return dataclasses.replace(Options(**_llm.defaults("connection")), **changes)


@dataclasses.dataclass
class ContextOptions:
    """Options of a context; see llm_context_open(3)."""
    log_level: Level = Level.WARNING
    wait: WaitMode = WaitMode.SPIN
    numa_node: int = -1
    huge_pages: bool = True
    stats_directory: str | None = None
    stats_name: str | None = None
    stats_ns: int = 100_000_000
    stats_mode: int = 0o640
    latency: LatencyLevel = LatencyLevel.OFF
    watch_ns: int = 0
    keys_required: bool = False


@dataclasses.dataclass
class Assurance:
    """Receivers that have to acknowledge the messages of a topic; see llm_topic_assure(3)."""
    receivers: int = 1
    names: str | None = None
    messages_max: int = 1024
    bytes_max: int = 0
    patience_ns: int = 1_000_000_000


@dataclasses.dataclass
class Cache:
    """Last value cache of a topic; see llm_topic_cache(3)."""
    messages: int = 1
    bytes_max: int = 256


@dataclasses.dataclass
class Rate:
    """Rate limits; 0: none; see llm_transmitter_limit_rate(3)."""
    bytes_per_s: int = 0
    repair_bytes_per_s: int = 0


@dataclasses.dataclass
class LabelMatch:
    """A label matches if label & mask == match."""
    mask: int
    match: int


@dataclasses.dataclass
class Filter:
    """Selects messages that meet every condition that is set; see llm_receiver_filter(3)."""
    labels: Sequence[LabelMatch] = ()
    bitmap_mask: bytes | None = None
    bitmap_match: bytes | None = None
    selector: str | None = None
    #: codes of the properties that the selector names
    names: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Property:
    """A property of a message, for selectors; int: INT64, float: DOUBLE, bytes: BYTES, unless a type is given."""
    code: int
    value: int | float | bytes
    type: PropertyType | None = None

    def _row(self) -> tuple[int, int, int | float | bytes]:
        kind = self.type
        if kind is None:
            kind = (PropertyType.DOUBLE if isinstance(self.value, float) else
                    PropertyType.INT64 if isinstance(self.value, int) else PropertyType.BYTES)
        return self.code, kind, self.value


@dataclasses.dataclass
class Attributes:
    """Attributes of a message, for receivers with a filter; see llm_send_with(3)."""
    label: int = 0
    bitmap: bytes = b""
    properties: Sequence[Property] = ()


@dataclasses.dataclass
class StoreOptions:
    """Options of a store; see llm_store_open(3)."""
    directory: str | None = None
    level: StoreLevel = StoreLevel.SYNCED
    engine: StoreEngine = StoreEngine.AUTO
    segment_bytes: int = 256 << 20
    spares: int = 2
    reserve_bytes: int = 1 << 30
    full: StoreFull = StoreFull.STOP
    bytes_max: int = 0
    age_ns_max: int = 0
    until_acknowledged: bool = False


@dataclasses.dataclass
class ReplayOptions:
    """Options of a replay; start and value: where each session begins; see llm_replay_open(3)."""
    session: int = 0
    channel: str | None = None
    start: JoinMode = JoinMode.OLDEST
    value: int = 0
    until_number: int = 2**64 - 1
    until_realtime: int = 2**64 - 1
    message_bytes_max: int = 64 << 20
    skip_damage: bool = False
    keys: str | None = None


@dataclasses.dataclass(frozen=True)
class Bottleneck:
    """The bottleneck of a receiver or a transmitter over an interval; see llm_event(3)."""
    limit: Limit
    receiver: int
    time_ns: int
    packets: int
    away_ns: int
    away_ns_max: int
    packets_missed: int
    packets_dropped: int
    window_ns: int
    rate_ns: int
    history_ns: int
    transport_ns: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", Limit(self.limit))


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A verdict of the slow-receiver policy and its figures."""
    receiver: int
    threshold: Threshold
    value: int
    limit: int
    naks_per_s: int
    nak_ppm: int
    lag_packets: int
    lag_ns: int
    silent_ns: int
    rejoin_ns: int
    receivers: int
    suffering: int
    dry_run: bool
    lag_bytes: int
    ack_ns: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", Threshold(self.threshold))


@dataclasses.dataclass(frozen=True)
class Congestion:
    """A receiver, according to its latest report to a transmitter."""
    receiver: int
    heard_at: int
    rtt_ns: int
    lag_packets: int
    window_packets: int
    naks: int
    packets_lost: int
    packets_dropped: int
    reports: bool
    bottleneck: Bottleneck


@dataclasses.dataclass(frozen=True)
class Event:
    """An event; EventKind and llm_events(7) say which members each kind has. text: a sentence for people."""
    kind: EventKind
    reason: Reason
    session: int
    first: int
    last: int
    packets: int
    topic_id: int
    topic: str | None
    receiver: str | None
    receivers: int
    receivers_wanted: int
    address: str | None
    file: str | None
    error: int
    stream: int
    stream_base: int
    stream_term: int
    hash: int
    hash_copy: int
    text: str
    verdict: Verdict | None
    bottleneck: Bottleneck | None

    @classmethod
    def _of(cls, values: dict[str, Any]) -> "Event":
        values["kind"] = EventKind(values["kind"])
        values["reason"] = Reason(values["reason"])
        if values["verdict"] is not None:
            values["verdict"] = Verdict(**values["verdict"])
        if values["bottleneck"] is not None:
            values["bottleneck"] = Bottleneck(**values["bottleneck"])
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Recording:
    """What a store has of a session; see llm_replay_recordings(3)."""
    session: int
    channel: str
    packet_first: int
    packet_next: int
    message_first: int
    message_next: int
    realtime_first: int
    realtime_last: int
    bytes: int
    segments: int
    ended: bool
    reason: Reason
    stream: int
    stream_base: int
    stream_term: int


@dataclasses.dataclass(frozen=True)
class Counter:
    """A counter of an object of a context; docs/statistics.md lists all."""
    object: str
    name: str
    value: int
