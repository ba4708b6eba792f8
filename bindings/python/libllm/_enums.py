# SPDX-License-Identifier: Apache-2.0
# Written by generate.py from the headers of the C library.
"""Enumerations of libllm."""
import enum


class Level(enum.IntEnum):
    ERROR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3


class WaitMode(enum.IntEnum):
    SPIN = 0
    BLOCK = 1
    BUSY_POLL = 2


class LatencyLevel(enum.IntEnum):
    OFF = 0
    QUEUES = 1
    WIRE = 2
    STAGES = 3


class Flow(enum.IntEnum):
    OPEN = 0
    PACED = 1
    WINDOW = 2


class JoinMode(enum.IntEnum):
    LIVE = 0
    OLDEST = 1
    MESSAGES = 2
    TIME = 3
    NUMBER = 4
    LATEST = 5


class JoinElse(enum.IntEnum):
    OLDEST = 0
    LIVE = 1
    REFUSE = 2


class Order(enum.IntEnum):
    SEQUENCE = 0
    ARRIVAL = 1


class Slow(enum.IntEnum):
    OFF = 0
    REPORT = 1
    WARN = 2
    UNICAST = 3
    SUSPEND = 4
    EXPEL = 5


class Acknowledger(enum.IntEnum):
    LIBRARY = 0
    APPLICATION = 1


class KeysMode(enum.IntEnum):
    ENCRYPT = 0
    AUTHENTICATE = 1


class EventKind(enum.IntEnum):
    SESSION_NEW = 1
    SESSION_END = 2
    GAP = 3
    HEARTBEAT_LOST = 4
    RESUMED = 5
    TOPIC_NEW = 6
    JOIN_REFUSED = 7
    LIVE = 8
    WARNED = 10
    UNICAST_ONLY = 11
    SUSPENDED = 12
    EXPELLED = 13
    READMITTED = 14
    CONNECTED = 15
    DISCONNECTED = 16
    CACHE_LOST = 17
    UNREACHABLE = 18
    ACKNOWLEDGED = 20
    UNACKNOWLEDGED = 21
    STREAM_GAP = 28
    STREAM_AGAIN = 29
    STREAM_REFUSED = 30
    LINE_DOWN = 31
    LINE_UP = 32
    LIMITED = 24
    RECEIVER_LIMITED = 25
    STORE_STOPPED = 26
    KEYS = 40
    FORGED = 44
    DIVERGED = 45


class Reason(enum.IntEnum):
    NONE = 0
    CLOSED = 1
    TIMEOUT = 2
    GONE = 3
    OVERRUN = 4
    TOO_LONG = 5
    REPLACED = 6
    HISTORY = 7
    UNANSWERED = 8
    NOT_SENT = 9
    SUSPENDED = 10
    EXPELLED = 11
    REFUSED = 12
    FULL = 13
    ABANDONED = 14
    BROKEN = 15
    NO_CACHE = 16
    RECEIVERS_FEW = 20
    RECEIVER_ABSENT = 21
    GIVEN_UP = 22
    PENDING = 23
    UNRELIABLE = 24
    MALFORMED = 25
    RESTARTED = 26
    SUPERSEDED = 27
    NO_ROUTE = 28
    ADDRESS = 29
    FORBIDDEN = 30
    DAMAGED = 31
    DISK = 32
    DISK_FULL = 33
    TERM_TAKEN = 34
    SKIPPED = 35
    IN_CLEAR = 40
    KEYS = 41
    SEAL = 44
    UNSEALED = 45


class Threshold(enum.IntEnum):
    NONE = 0
    NAKS = 1
    NAK_SHARE = 2
    LAG_PACKETS = 3
    LAG_TIME = 4
    SILENCE = 5
    GROUP = 6
    OPERATOR = 7
    LAG_BYTES = 8
    ACK_TIME = 9


class Limit(enum.IntEnum):
    NONE = 0
    APPLICATION = 1
    BUFFER = 2
    NETWORK = 3
    WINDOW = 4
    RATE = 5
    HISTORY = 6
    TRANSPORT = 7


class ErrorCode(enum.IntEnum):
    EINVAL = -1
    ENOMEM = -2
    ESCHEME = -3
    EOPTION = -4
    EGROUP = -5
    EINTERFACE = -6
    EADDRINUSE = -7
    EACCESS = -8
    EMSGSIZE = -9
    EAGAIN = -10
    ESTATE = -11
    ELIMIT = -12
    ESYSTEM = -13
    EVERSION = -14
    ENOTFOUND = -15
    EDAMAGED = -16
    EFENCED = -17


class PropertyType(enum.IntEnum):
    INT32 = 1
    INT64 = 2
    DOUBLE = 3
    BYTES = 4


class StoreLevel(enum.IntEnum):
    SYNCED = 0
    WRITTEN = 1
    RECEIVED = 2


class StoreEngine(enum.IntEnum):
    AUTO = 0
    URING = 1
    THREAD = 2


class StoreFull(enum.IntEnum):
    STOP = 0
    OLDEST = 1


class TopicFlags(enum.IntFlag):
    WHOLE = 1
    UNRELIABLE = 2
    NO_HISTORY = 4


class SendFlags(enum.IntFlag):
    MORE = 1
    NOW = 2
