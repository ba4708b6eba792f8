// SPDX-License-Identifier: Apache-2.0
//! Enums and options of the public headers, written by `bindings/rust/generate`.

use crate::macros::{given, options, taken};
use libllm_sys::*;

given! {
    /// `enum llm_error`.
    Error: llm_error {
        /// `LLM_EINVAL`. Invalid argument.
        InvalidArgument = LLM_EINVAL,
        /// `LLM_ENOMEM`. Out of memory.
        OutOfMemory = LLM_ENOMEM,
        /// `LLM_ESCHEME`. Unknown or unsupported transport scheme.
        Scheme = LLM_ESCHEME,
        /// `LLM_EOPTION`. Unknown option, or a value out of its range.
        Option = LLM_EOPTION,
        /// `LLM_EGROUP`. Not a group that can be joined.
        Group = LLM_EGROUP,
        /// `LLM_EINTERFACE`. Network interface is absent, down or without an address.
        Interface = LLM_EINTERFACE,
        /// `LLM_EADDRINUSE`. Address already in use.
        AddressInUse = LLM_EADDRINUSE,
        /// `LLM_EACCESS`. Permission denied.
        Access = LLM_EACCESS,
        /// `LLM_EMSGSIZE`. Message too long.
        MessageSize = LLM_EMSGSIZE,
        /// `LLM_EAGAIN`. Cannot be taken now, try again after llm_poll.
        Again = LLM_EAGAIN,
        /// `LLM_ESTATE`. Not possible in this state.
        State = LLM_ESTATE,
        /// `LLM_ELIMIT`. A configured limit is reached.
        Limit = LLM_ELIMIT,
        /// `LLM_ESYSTEM`. A system call failed.
        System = LLM_ESYSTEM,
        /// `LLM_EVERSION`. A structure is of a newer version than this library.
        Version = LLM_EVERSION,
        /// `LLM_ENOTFOUND`. No such name.
        NotFound = LLM_ENOTFOUND,
        /// `LLM_EDAMAGED`. Stored data is damaged.
        Damaged = LLM_EDAMAGED,
        /// `LLM_EFENCED`. No longer the primary.
        Fenced = LLM_EFENCED,
    }
}

given! {
    /// `enum llm_event_kind`.
    EventKind: llm_event_kind {
        /// `LLM_EVENT_SESSION_NEW`. The receiver follows a session; first: number of the first message to come. A session less than a second old is followed from its message 0, others from what is sent next; one that ended by TIMEOUT or REPLACED from where it ended.
        SessionNew = LLM_EVENT_SESSION_NEW,
        /// `LLM_EVENT_SESSION_END`. The session ended, for reason; first: number of the message that would have come next.
        SessionEnd = LLM_EVENT_SESSION_END,
        /// `LLM_EVENT_GAP`. Messages first to last are lost, for reason; packets: number of packets lost. If last + 1 == first, only announcements or padding were lost.
        Gap = LLM_EVENT_GAP,
        /// `LLM_EVENT_HEARTBEAT_LOST`. No packet of the session for silence_ns.
        HeartbeatLost = LLM_EVENT_HEARTBEAT_LOST,
        /// `LLM_EVENT_RESUMED`. A packet of the session arrived again.
        Resumed = LLM_EVENT_RESUMED,
        /// `LLM_EVENT_TOPIC_NEW`. A topic was announced and accepted: topic, topic_id.
        TopicNew = LLM_EVENT_TOPIC_NEW,
        /// `LLM_EVENT_JOIN_REFUSED`. A session cannot begin at the requested position, for reason; first: number of the first message requested; last: of the oldest message in the history, or in a store that answered; each 0 if unknown. The option join_else is the fallback.
        JoinRefused = LLM_EVENT_JOIN_REFUSED,
        /// `LLM_EVENT_LIVE`. Replay is complete: the requested history was delivered, or reported in gaps; first: number of the next message. For a session less than a second old: complete with what it had sent when it was found.
        Live = LLM_EVENT_LIVE,
        /// `LLM_EVENT_WARNED`. Slow-receiver policy. Reported to the transmitter, and to the receiver concerned; verdict says why, and of which receiver. The receiver nears a threshold.
        Warned = LLM_EVENT_WARNED,
        /// `LLM_EVENT_UNICAST_ONLY`. Repairs for the receiver are no longer sent to the group.
        UnicastOnly = LLM_EVENT_UNICAST_ONLY,
        /// `LLM_EVENT_SUSPENDED`. The receiver gets no repairs, and flow control does not wait for it.
        Suspended = LLM_EVENT_SUSPENDED,
        /// `LLM_EVENT_EXPELLED`. The receiver has to leave: at the receiver the end of the session follows.
        Expelled = LLM_EVENT_EXPELLED,
        /// `LLM_EVENT_READMITTED`. The receiver is served like all others again, or may come back.
        Readmitted = LLM_EVENT_READMITTED,
        /// `LLM_EVENT_CONNECTED`. Of connections; session: that of the other side. The connection is established: messages may be sent.
        Connected = LLM_EVENT_CONNECTED,
        /// `LLM_EVENT_DISCONNECTED`. The connection is over, for reason, and has to be closed; first: the code of the refusal.
        Disconnected = LLM_EVENT_DISCONNECTED,
        /// `LLM_EVENT_CACHE_LOST`. Of receivers that join with LLM_JOIN_LATEST: topic, topic_id. Cached messages (last value cache) of this topic, and of those with higher ids, did not all arrive, for reason; first: number of the message with which the stream continues.
        CacheLost = LLM_EVENT_CACHE_LOST,
        /// `LLM_EVENT_UNREACHABLE`. Of transmitters, receivers and connections: address. Packets cannot be sent to the other side, for reason; reported once for each address. Concerns a receiver's NAKs to the transmitter of this session, or a transmitter's repairs and answers to a receiver. Losses are not repaired until the fault is mended.
        Unreachable = LLM_EVENT_UNREACHABLE,
        /// `LLM_EVENT_ACKNOWLEDGED`. Of transmitters, for assured topics: topic, topic_id. Messages first to last were acknowledged by all receivers that have to.
        Acknowledged = LLM_EVENT_ACKNOWLEDGED,
        /// `LLM_EVENT_UNACKNOWLEDGED`. Messages first to last were not acknowledged for patience_ns, for reason; receiver: the one waited for, or the pattern. LLM_REASON_CLOSED: they never will be, as the transmitter is closed.
        Unacknowledged = LLM_EVENT_UNACKNOWLEDGED,
        /// `LLM_EVENT_STREAM_GAP`. Of receivers, for sessions that continue a stream (option stream): session, stream, stream_base, stream_term; LLM_EVENT_SESSION_NEW has them, too. Messages with the numbers first to last in the stream are missing between the sessions of the stream that were followed: lost with an earlier session, or sent when this receiver followed none.
        StreamGap = LLM_EVENT_STREAM_GAP,
        /// `LLM_EVENT_STREAM_AGAIN`. The session sends the numbers first to last of the stream, which came from an earlier session or were reported lost, once more: they were not stored when the transmitter restarted. Their messages follow.
        StreamAgain = LLM_EVENT_STREAM_AGAIN,
        /// `LLM_EVENT_STREAM_REFUSED`. A session of the stream is not followed, for reason: LLM_REASON_SUPERSEDED, or LLM_REASON_TERM_TAKEN until the other one is silent or ends.
        StreamRefused = LLM_EVENT_STREAM_REFUSED,
        /// `LLM_EVENT_LINE_DOWN`. Of a channel of two lines: the session is not heard on line first, 1 or 2, and is heard on the other. Its messages go on; a packet that the other line loses is requested at once.
        LineDown = LLM_EVENT_LINE_DOWN,
        /// `LLM_EVENT_LINE_UP`. The session is heard on line first again.
        LineUp = LLM_EVENT_LINE_UP,
        /// `LLM_EVENT_LIMITED`. Of transmitters and receivers, with watch_ns of struct llm_context_options. The bottleneck changed, or there is none any more: bottleneck.
        Limited = LLM_EVENT_LIMITED,
        /// `LLM_EVENT_RECEIVER_LIMITED`. Of transmitters: the bottleneck of a receiver changed, as that receiver reports: bottleneck.
        ReceiverLimited = LLM_EVENT_RECEIVER_LIMITED,
        /// `LLM_EVENT_STORE_STOPPED`. Of stores: recording of the session has stopped for good, for reason; first: number of the first message that is not on the disk; file: in which a write failed; error: its errno. What is not on the disk is not acknowledged.
        StoreStopped = LLM_EVENT_STORE_STOPPED,
        /// `LLM_EVENT_KEYS`. Of transmitters, receivers and connections: packets of others were dropped, for reason: LLM_REASON_IN_CLEAR or LLM_REASON_KEYS. Reported once for each instance of a transport and reason: some members of the group have other keys, or none.
        Keys = LLM_EVENT_KEYS,
        /// `LLM_EVENT_FORGED`. Of receivers with the option seal_keys: packets of the session, a number of them in packets, are not those that its transmitter signed, for reason: LLM_REASON_SEAL or LLM_REASON_UNSEALED. Their messages may have been delivered. Reported at most once a second for each session.
        Forged = LLM_EVENT_FORGED,
        /// `LLM_EVENT_DIVERGED`. Of receivers, for sessions that are merged (option stream_merge): the session sent other bytes with the number first, in the stream, than the session whose message was delivered: hash and hash_copy. Reported for the first of consecutive copies; they were dropped.
        Diverged = LLM_EVENT_DIVERGED,
    }
}

given! {
    /// `enum llm_reason`.
    Reason: llm_reason {
        /// `LLM_REASON_NONE`.
        None = LLM_REASON_NONE,
        /// `LLM_REASON_CLOSED`. The transmitter, or either side of the connection, closed it.
        Closed = LLM_REASON_CLOSED,
        /// `LLM_REASON_TIMEOUT`. The session was silent for session_timeout_ns, a packet was not repaired in nak_giveup_ns, or the side that accepted a connection heard nothing from the other in connect_timeout_ns.
        Timeout = LLM_REASON_TIMEOUT,
        /// `LLM_REASON_GONE`. The transmitter no longer has the packets.
        Gone = LLM_REASON_GONE,
        /// `LLM_REASON_OVERRUN`. This receiver lagged further than can be repaired, and went on with live messages.
        Overrun = LLM_REASON_OVERRUN,
        /// `LLM_REASON_TOO_LONG`. The message is longer than message_bytes_max of this receiver.
        TooLong = LLM_REASON_TOO_LONG,
        /// `LLM_REASON_REPLACED`. Dropped in favour of a newer session: sessions_max.
        Replaced = LLM_REASON_REPLACED,
        /// `LLM_REASON_HISTORY`. The transmitter's history does not reach back so far.
        History = LLM_REASON_HISTORY,
        /// `LLM_REASON_UNANSWERED`. The transmitter did not answer in nak_giveup_ns, or fell silent; no listener answered in connect_timeout_ns.
        Unanswered = LLM_REASON_UNANSWERED,
        /// `LLM_REASON_NOT_SENT`. The requested message was not sent yet.
        NotSent = LLM_REASON_NOT_SENT,
        /// `LLM_REASON_SUSPENDED`. The transmitter does not repair packets for this receiver: LLM_EVENT_SUSPENDED.
        Suspended = LLM_REASON_SUSPENDED,
        /// `LLM_REASON_EXPELLED`. The transmitter makes this receiver leave: LLM_EVENT_EXPELLED.
        Expelled = LLM_REASON_EXPELLED,
        /// `LLM_REASON_REFUSED`. The listening application refused the connection, with a code.
        Refused = LLM_REASON_REFUSED,
        /// `LLM_REASON_FULL`. The listener has connections_max connections.
        Full = LLM_REASON_FULL,
        /// `LLM_REASON_ABANDONED`. The other side is gone, perhaps before it had, or had sent, everything.
        Abandoned = LLM_REASON_ABANDONED,
        /// `LLM_REASON_BROKEN`. A message could not be delivered, and none after it is.
        Broken = LLM_REASON_BROKEN,
        /// `LLM_REASON_NO_CACHE`. No topic of the transmitter has a last value cache: llm_topic_cache().
        NoCache = LLM_REASON_NO_CACHE,
        /// `LLM_REASON_RECEIVERS_FEW`. Fewer receivers accept the topic, and are not suspended, than have to acknowledge, or so many names.
        ReceiversFew = LLM_REASON_RECEIVERS_FEW,
        /// `LLM_REASON_RECEIVER_ABSENT`. A receiver that has to acknowledge by name is not known, or suspended.
        ReceiverAbsent = LLM_REASON_RECEIVER_ABSENT,
        /// `LLM_REASON_GIVEN_UP`. The known receivers lost a message, or joined after it, and will never acknowledge it.
        GivenUp = LLM_REASON_GIVEN_UP,
        /// `LLM_REASON_PENDING`. All receivers are present, and have not acknowledged yet.
        Pending = LLM_REASON_PENDING,
        /// `LLM_REASON_UNRELIABLE`. Lost and not repaired: all messages were of topics with LLM_TOPIC_UNRELIABLE.
        Unreliable = LLM_REASON_UNRELIABLE,
        /// `LLM_REASON_MALFORMED`. No packet is missing, but one contradicts itself or the packet before: damaged or forged.
        Malformed = LLM_REASON_MALFORMED,
        /// `LLM_REASON_RESTARTED`. The transmitter restarted: another session continues the stream.
        Restarted = LLM_REASON_RESTARTED,
        /// `LLM_REASON_SUPERSEDED`. A session of a higher term continues the stream.
        Superseded = LLM_REASON_SUPERSEDED,
        /// `LLM_REASON_NO_ROUTE`. No route leads to the address, or it cannot be resolved to a neighbour.
        NoRoute = LLM_REASON_NO_ROUTE,
        /// `LLM_REASON_ADDRESS`. The address cannot be reached from here: it is of another family, scope or kind.
        Address = LLM_REASON_ADDRESS,
        /// `LLM_REASON_FORBIDDEN`. A packet filter or a policy of this host forbids it.
        Forbidden = LLM_REASON_FORBIDDEN,
        /// `LLM_REASON_DAMAGED`. Of recordings: what a store had written is damaged, or removed.
        Damaged = LLM_REASON_DAMAGED,
        /// `LLM_REASON_DISK`. The disk of a store failed.
        Disk = LLM_REASON_DISK,
        /// `LLM_REASON_DISK_FULL`. The disk of a store is full, or its reserve is reached.
        DiskFull = LLM_REASON_DISK_FULL,
        /// `LLM_REASON_TERM_TAKEN`. Another session of the stream has the same term, and is heard.
        TermTaken = LLM_REASON_TERM_TAKEN,
        /// `LLM_REASON_SKIPPED`. No transmitter that is followed has the messages: llm_send_numbered().
        Skipped = LLM_REASON_SKIPPED,
        /// `LLM_REASON_IN_CLEAR`. Packets came in clear to a channel with keys.
        InClear = LLM_REASON_IN_CLEAR,
        /// `LLM_REASON_KEYS`. Packets are protected by keys that the channel does not have, or is opened without.
        Keys = LLM_REASON_KEYS,
        /// `LLM_REASON_SEAL`. Packets differ from what the transmitter signed, or from others with their number: a member forged them.
        Seal = LLM_REASON_SEAL,
        /// `LLM_REASON_UNSEALED`. No key of seal_keys signed the packets.
        Unsealed = LLM_REASON_UNSEALED,
    }
}

given! {
    /// `enum llm_threshold`.
    Threshold: llm_threshold {
        /// `LLM_THRESHOLD_NONE`.
        None = LLM_THRESHOLD_NONE,
        /// `LLM_THRESHOLD_NAKS`. NAKs per second: slow_naks_per_s.
        Naks = LLM_THRESHOLD_NAKS,
        /// `LLM_THRESHOLD_NAK_SHARE`. NAKed share of the packets sent, ppm: slow_nak_ppm.
        NakShare = LLM_THRESHOLD_NAK_SHARE,
        /// `LLM_THRESHOLD_LAG_PACKETS`. Packets not yet received: slow_lag_packets.
        LagPackets = LLM_THRESHOLD_LAG_PACKETS,
        /// `LLM_THRESHOLD_LAG_TIME`. Lag in ns: slow_lag_ns.
        LagTime = LLM_THRESHOLD_LAG_TIME,
        /// `LLM_THRESHOLD_SILENCE`. Ns since it was last heard: slow_silence_ns.
        Silence = LLM_THRESHOLD_SILENCE,
        /// `LLM_THRESHOLD_GROUP`. More than half of the receivers suffer, so the fault is upstream; the verdict is on all, not on one.
        Group = LLM_THRESHOLD_GROUP,
        /// `LLM_THRESHOLD_OPERATOR`. Llm_transmitter_suspend(), llm_transmitter_suspend_all().
        Operator = LLM_THRESHOLD_OPERATOR,
        /// `LLM_THRESHOLD_LAG_BYTES`. Lag in bytes of the history: slow_lag_bytes.
        LagBytes = LLM_THRESHOLD_LAG_BYTES,
        /// `LLM_THRESHOLD_ACK_TIME`. Ns for which it owes an acknowledgement: slow_ack_ns.
        AckTime = LLM_THRESHOLD_ACK_TIME,
    }
}

given! {
    /// `enum llm_limit`.
    Limit: llm_limit {
        /// `LLM_LIMIT_NONE`. Nothing.
        None = LLM_LIMIT_NONE,
        /// `LLM_LIMIT_APPLICATION`. The application, which is slow to poll.
        Application = LLM_LIMIT_APPLICATION,
        /// `LLM_LIMIT_BUFFER`. The receive buffer, which overflows.
        Buffer = LLM_LIMIT_BUFFER,
        /// `LLM_LIMIT_NETWORK`. The network, which loses packets.
        Network = LLM_LIMIT_NETWORK,
        /// `LLM_LIMIT_WINDOW`. Its receivers, for whom flow control waits.
        Window = LLM_LIMIT_WINDOW,
        /// `LLM_LIMIT_RATE`. A rate limit.
        Rate = LLM_LIMIT_RATE,
        /// `LLM_LIMIT_HISTORY`. Messages that are not acknowledged.
        History = LLM_LIMIT_HISTORY,
        /// `LLM_LIMIT_TRANSPORT`. The transport, which takes no more.
        Transport = LLM_LIMIT_TRANSPORT,
    }
}

given! {
    /// `enum llm_level`.
    Level: llm_level {
        /// `LLM_LEVEL_ERROR`.
        Error = LLM_LEVEL_ERROR,
        /// `LLM_LEVEL_WARNING`.
        Warning = LLM_LEVEL_WARNING,
        /// `LLM_LEVEL_INFO`.
        Info = LLM_LEVEL_INFO,
        /// `LLM_LEVEL_DEBUG`.
        Debug = LLM_LEVEL_DEBUG,
    }
}

taken! {
    /// `enum llm_wait_mode`.
    WaitMode: llm_wait_mode {
        /// `LLM_WAIT_SPIN`. Polls without a pause: lowest latency, one core per context.
        Spin = LLM_WAIT_SPIN,
        /// `LLM_WAIT_BLOCK`. Sleeps in the kernel until a packet or a deadline: no CPU, tens of microseconds more latency.
        Block = LLM_WAIT_BLOCK,
        /// `LLM_WAIT_BUSY_POLL`. BLOCK, with the kernel polling the device (SO_BUSY_POLL) before the sleep, for busy_poll_us or 50 us.
        BusyPoll = LLM_WAIT_BUSY_POLL,
    }
}

taken! {
    /// `enum llm_latency_level`.
    LatencyLevel: llm_latency_level {
        /// `LLM_LATENCY_OFF`. None, at no cost.
        Off = LLM_LATENCY_OFF,
        /// `LLM_LATENCY_QUEUES`. Queue lengths: packets in a flush, in a burst, buffered out of order.
        Queues = LLM_LATENCY_QUEUES,
        /// `LLM_LATENCY_WIRE`. Time from send to wire, and from wire to handler.
        Wire = LLM_LATENCY_WIRE,
        /// `LLM_LATENCY_STAGES`. Each stage of these times, time in handlers and between polls.
        Stages = LLM_LATENCY_STAGES,
    }
}

taken! {
    /// `enum llm_flow`.
    Flow: llm_flow {
        /// `LLM_FLOW_OPEN`.
        Open = LLM_FLOW_OPEN,
        /// `LLM_FLOW_PACED`.
        Paced = LLM_FLOW_PACED,
        /// `LLM_FLOW_WINDOW`.
        Window = LLM_FLOW_WINDOW,
    }
}

taken! {
    /// `enum llm_join_else`.
    JoinElse: llm_join_else {
        /// `LLM_JOIN_ELSE_OLDEST`.
        Oldest = LLM_JOIN_ELSE_OLDEST,
        /// `LLM_JOIN_ELSE_LIVE`.
        Live = LLM_JOIN_ELSE_LIVE,
        /// `LLM_JOIN_ELSE_REFUSE`.
        Refuse = LLM_JOIN_ELSE_REFUSE,
    }
}

taken! {
    /// `enum llm_order`.
    Order: llm_order {
        /// `LLM_ORDER_SEQUENCE`.
        Sequence = LLM_ORDER_SEQUENCE,
        /// `LLM_ORDER_ARRIVAL`.
        Arrival = LLM_ORDER_ARRIVAL,
    }
}

taken! {
    /// `enum llm_slow`.
    Slow: llm_slow {
        /// `LLM_SLOW_OFF`.
        Off = LLM_SLOW_OFF,
        /// `LLM_SLOW_REPORT`.
        Report = LLM_SLOW_REPORT,
        /// `LLM_SLOW_WARN`.
        Warn = LLM_SLOW_WARN,
        /// `LLM_SLOW_UNICAST`.
        Unicast = LLM_SLOW_UNICAST,
        /// `LLM_SLOW_SUSPEND`.
        Suspend = LLM_SLOW_SUSPEND,
        /// `LLM_SLOW_EXPEL`.
        Expel = LLM_SLOW_EXPEL,
    }
}

taken! {
    /// `enum llm_join_mode`.
    JoinMode: llm_join_mode {
        /// `LLM_JOIN_LIVE`. With messages sent from now on.
        Live = LLM_JOIN_LIVE,
        /// `LLM_JOIN_OLDEST`. With the oldest message in the history; a little later if some of it is being overwritten.
        Oldest = LLM_JOIN_OLDEST,
        /// `LLM_JOIN_MESSAGES`. Value messages back; with the first if fewer were sent.
        Messages = LLM_JOIN_MESSAGES,
        /// `LLM_JOIN_TIME`. Value nanoseconds back, or a little earlier; with the first if the session is younger.
        Time = LLM_JOIN_TIME,
        /// `LLM_JOIN_NUMBER`. With message number value, for example the next one of an earlier run.
        Number = LLM_JOIN_NUMBER,
        /// `LLM_JOIN_LATEST`. With the last value messages, or LLM_JOIN_ALL, in the last value cache of each topic (llm_topic_cache()); then with messages sent from now on.
        Latest = LLM_JOIN_LATEST,
    }
}

taken! {
    /// `enum llm_acknowledger`.
    Acknowledger: llm_acknowledger {
        /// `LLM_ACKNOWLEDGE_LIBRARY`.
        Library = LLM_ACKNOWLEDGE_LIBRARY,
        /// `LLM_ACKNOWLEDGE_APPLICATION`.
        Application = LLM_ACKNOWLEDGE_APPLICATION,
    }
}

taken! {
    /// `enum llm_keys_mode`.
    KeysMode: llm_keys_mode {
        /// `LLM_KEYS_MODE_ENCRYPT`.
        Encrypt = LLM_KEYS_MODE_ENCRYPT,
        /// `LLM_KEYS_MODE_AUTHENTICATE`.
        Authenticate = LLM_KEYS_MODE_AUTHENTICATE,
    }
}

taken! {
    /// `enum llm_store_level`.
    StoreLevel: llm_store_level {
        /// `LLM_STORE_SYNCED`. Messages that are on the disk: no crash loses them, if the disk keeps its word.
        Synced = LLM_STORE_SYNCED,
        /// `LLM_STORE_WRITTEN`. Messages that were written without a sync: a crash of the process does not lose them, one of the machine may.
        Written = LLM_STORE_WRITTEN,
        /// `LLM_STORE_RECEIVED`. Messages that were received: a crash loses those that were not written yet.
        Received = LLM_STORE_RECEIVED,
    }
}

taken! {
    /// `enum llm_store_engine`.
    StoreEngine: llm_store_engine {
        /// `LLM_STORE_AUTO`. Io_uring if the system has and allows it, else a thread.
        Auto = LLM_STORE_AUTO,
        /// `LLM_STORE_URING`. Io_uring.
        Uring = LLM_STORE_URING,
        /// `LLM_STORE_THREAD`. A thread that calls pwritev2().
        Thread = LLM_STORE_THREAD,
    }
}

taken! {
    /// `enum llm_store_full`.
    StoreFull: llm_store_full {
        /// `LLM_STORE_STOP`. Stops recording: LLM_EVENT_STORE_STOPPED.
        Stop = LLM_STORE_STOP,
        /// `LLM_STORE_OLDEST`. Removes the oldest segment that retention allows to be removed.
        Oldest = LLM_STORE_OLDEST,
    }
}

options! {
    /// Interface by name or address; empty: that of the route to the group, else the first usable one.
    interface: str;
    /// Receive packets from this source address only (source-specific join); empty: any source.
    source: str;
    /// Hops that multicast packets may take.
    ttl: u32;
    /// Further groups or hosts that a transmitter sends to: host:port, separated by commas.
    destinations: str;
    /// Deliver multicast packets to receivers on this host too.
    loop_: u32;
    /// Largest IP packet to send, in bytes; 0: the interface's, at most 9000.
    mtu: u32;
    /// Socket receive buffer to request; roce: of the receive queue.
    rcvbuf_bytes: u32;
    /// Socket send buffer to request.
    sndbuf_bytes: u32;
    /// Packets sent as one (UDP_SEGMENT); 1: none; 0: 16, or as many as fit if no switch follows.
    gso_packets: u32;
    /// Receive trains as one (UDP_GRO).
    gro: u32;
    /// Microseconds that the kernel polls the device before it sleeps (SO_BUSY_POLL).
    busy_poll_us: u32;
    /// Have the kernel stamp received packets (struct llm_message, received_at).
    timestamps: u32;
    /// Memory of packets retained for repair, headers included.
    history_bytes: u64;
    /// Packets retained for repair; a power of two.
    history_packets: u32;
    /// Longest message sent or received.
    message_bytes_max: u32;
    /// Topics in a session, sent or received.
    topics_max: u32;
    /// Count messages and bytes of each topic, for the counters file.
    topic_counters: u32;
    /// Receivers that a transmitter knows by their status.
    receivers_max: u32;
    /// Sessions that a receiver follows at a time.
    sessions_max: u32;
    /// Packets that a receiver can buffer after a gap; a power of two.
    window_packets: u32;
    /// Memory of packets buffered after gaps, all sessions together.
    reorder_bytes: u64;
    /// Shortest time from the last packet to the first heartbeat.
    heartbeat_ns_min: u64;
    /// Longest interval of idle heartbeats, which doubles up to this.
    heartbeat_ns_max: u64;
    /// Interval of heartbeats while messages flow.
    heartbeat_ns_busy: u64;
    /// Interval of a receiver's status reports, times receivers / 10.
    status_ns: u64;
    /// Silence of a session after which it is reported.
    silence_ns: u64;
    /// Silence of a session after which it ends.
    session_timeout_ns: u64;
    /// Wait before the first NAK of a gap, for networks that reorder.
    nak_delay_ns: u64;
    /// Up to this many receivers the first NAK has no back-off.
    nak_receivers_immediate: u32;
    /// Least range of the random back-off with more receivers.
    nak_backoff_ns_min: u64;
    /// Shortest interval of NAKs for the same packet.
    nak_retry_ns_min: u64;
    /// Longest interval of NAKs for the same packet.
    nak_retry_ns_max: u64;
    /// Time after which a packet that is not repaired is reported lost.
    nak_giveup_ns: u64;
    /// Open, paced (a rate that receivers keep up with) or window (limits the lag of receivers).
    flow: word Flow;
    /// Where sessions begin: live, oldest, messages, time (join_messages, join_ns back), latest.
    join: word JoinMode;
    /// Join=messages: number of messages back; latest: cached messages of each topic; default, LLM_JOIN_ALL: all.
    join_messages: u64;
    /// Join=time: time back.
    join_ns: u64;
    /// If that is no longer retained: oldest, live, or refuse, and the session is not followed.
    join_else: word JoinElse;
    /// Delivery of messages in the sequence of sending, or each on its arrival (arrival).
    order: word Order;
    /// Paced, window: packets by which receivers may lag.
    flow_window_packets: u32;
    /// Paced, window: bytes of the history by which receivers may lag, at most half of it; 0: half.
    flow_window_bytes: u64;
    /// Paced, window: share of the receivers that have to keep up.
    flow_quorum_percent: u32;
    /// Paced: maximum rate; 0: none.
    flow_bytes_per_s_max: u64;
    /// Maximum rate of new data, for every flow; 0: no limit.
    rate_bytes_per_s: u64;
    /// Maximum rate of repairs, overrides the next two; 0: no limit.
    repair_rate_bytes_per_s: u64;
    /// Repairs may take this share of the bytes of new data.
    repair_percent: u32;
    /// Repairs may always take this many bytes a second.
    repair_bytes_per_s: u64;
    /// Time in which a repaired packet is not repaired again, at least one round trip.
    repair_linger_ns: u64;
    /// Bytes a second for receivers that join late, all together.
    replay_bytes_per_s: u64;
    /// Memory of the last value caches of all topics of a transmitter, together.
    cache_bytes: u64;
    /// Age after which packets count as gone; 0: no age limit.
    history_ns: u64;
    /// Strongest action against slow receivers: off, report, warn, unicast, suspend or expel.
    slow: word Slow;
    /// A receiver is suspended for this many NAKs a second.
    slow_naks_per_s: u32;
    /// ... for requesting this share of the packets again.
    slow_nak_ppm: u32;
    /// ... for a lag of this many packets; 0: three quarters of the history.
    slow_lag_packets: u64;
    /// ... for a lag of this many bytes of the history; 0: never.
    slow_lag_bytes: u64;
    /// ... for a lag of this time; 0: never.
    slow_lag_ns: u64;
    /// ... for owing an acknowledgement of an assured topic for this time; 0: never.
    slow_ack_ns: u64;
    /// ... for a silence of this time, times receivers / 10; 0: 9/5 of status_ns.
    slow_silence_ns: u64;
    /// Share of these thresholds at which a receiver is warned.
    slow_warn_percent: u32;
    /// Share of these thresholds at which its repairs no longer go to the group.
    slow_unicast_percent: u32;
    /// Time for which NAKs have to be too many before a suspension.
    slow_patience_ns: u64;
    /// Time below the thresholds after which a receiver is readmitted.
    slow_recover_ns: u64;
    /// Time of suspension after which a receiver is expelled.
    slow_expel_ns: u64;
    /// Time after which an expelled receiver may return; 0: never.
    slow_rejoin_ns: u64;
    /// Name of a receiver, by which transmitters wait for it to acknowledge; empty: none.
    receiver_name: str;
    /// Acknowledger of messages: library (when delivered) or application (llm_receiver_acknowledge).
    acknowledge: word Acknowledger;
    /// Connections of a listener at a time, including those that wait to be accepted.
    connections_max: u32;
    /// Time after which a connection that is not established is given up.
    connect_timeout_ns: u64;
    /// Time for which llm_transmitter_close() waits for receivers to get everything.
    linger_ns: u64;
    /// Refuse a packet that announces an address of another host than its source.
    check_source: u32;
    /// Ask stores for what a transmitter no longer has, for late joins and repairs.
    stores: u32;
    /// Time for which a late join waits for stores to answer.
    store_wait_ns: u64;
    /// Name of the stream, whose numbers go on when its transmitter restarts; empty: none.
    stream: str;
    /// Number that the first message has in the stream.
    stream_base: u64;
    /// Term in the stream: receivers leave lower terms for the highest.
    stream_term: u32;
    /// File of group keys, with which packets are encrypted and authenticated; empty: in clear.
    keys: str;
    /// With keys: encrypt messages, or only authenticate them.
    keys_mode: word KeysMode;
    /// File of a private key, with which a transmitter signs its packets; empty: it does not.
    seal: str;
    /// File of public keys of transmitters, by which packets that others forge are found; empty: none.
    seal_keys: str;
    /// With seal_keys: a message is delivered once the packets before its end are sealed, and never if another member forged one.
    seal_hold: u32;
    /// Receivers merge this session with others of its stream that send the same messages.
    stream_merge: u32;
}
