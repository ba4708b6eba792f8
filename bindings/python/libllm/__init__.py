# SPDX-License-Identifier: Apache-2.0
"""libllm: brokerless reliable multicast messaging. docs/python.md is the guide."""
try:
    from . import _llm
except ImportError as error:
    raise ImportError(f"the C library of libllm cannot be used: {error}. It needs libllm.so.0 "
                      "(on Debian: apt install libllm0)") from error

from ._enums import (Acknowledger, ErrorCode, EventKind, Flow, JoinElse, JoinMode, KeysMode, LatencyLevel, Level, Limit, Order,
                     PropertyType, Reason, SendFlags, Slow, StoreEngine, StoreFull, StoreLevel, Threshold, TopicFlags, WaitMode)
from ._llm import clock, version
from ._objects import (BackPressure, Caller, Connection, Context, Error, Listener, Message, Receiver, Request, Store, Topic,
                       Transmitter)
from ._options import Options
from ._structures import (Assurance, Attributes, Bottleneck, Cache, Congestion, ContextOptions, Counter, Event, Filter,
                          LabelMatch, Property, Rate, Recording, ReplayOptions, StoreOptions, Verdict, connection_options)
from .recordings import recordings, replay, replay_columns, replay_frame

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("error",)]
__version__ = version
