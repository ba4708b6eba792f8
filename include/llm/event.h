/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of transmitters, receivers and connections: kinds, reasons, slow-receiver verdicts and bottlenecks.
 * All numbers are stable. Included by <llm/llm.h>.
 */
#ifndef LLM_EVENT_H
#define LLM_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum llm_event_kind {
    /*
     * The receiver follows a session; first: number of the first message to come. A session less than a
     * second old is followed from its message 0, others from what is sent next; one that ended by TIMEOUT or
     * REPLACED from where it ended.
     */
    LLM_EVENT_SESSION_NEW = 1,
    /* The session ended, for reason; first: number of the message that would have come next. */
    LLM_EVENT_SESSION_END = 2,
    /*
     * Messages first to last are lost, for reason; packets: number of packets lost. If last + 1 == first,
     * only announcements or padding were lost.
     */
    LLM_EVENT_GAP = 3,
    LLM_EVENT_HEARTBEAT_LOST = 4, /* no packet of the session for silence_ns */
    LLM_EVENT_RESUMED = 5,        /* a packet of the session arrived again */
    LLM_EVENT_TOPIC_NEW = 6,      /* a topic was announced and accepted: topic, topic_id */
    /*
     * A session cannot begin at the requested position, for reason; first: number of the first message
     * requested; last: of the oldest message in the history, or in a store that answered; each 0 if unknown. The
     * option join_else is the fallback.
     */
    LLM_EVENT_JOIN_REFUSED = 7,
    /*
     * Replay is complete: the requested history was delivered, or reported in gaps; first: number of the next
     * message. For a session less than a second old: complete with what it had sent when it was found.
     */
    LLM_EVENT_LIVE = 8,
    /*
     * Slow-receiver policy. Reported to the transmitter, and to the receiver concerned; verdict says why, and
     * of which receiver.
     */
    LLM_EVENT_WARNED = 10,       /* the receiver nears a threshold */
    LLM_EVENT_UNICAST_ONLY = 11, /* repairs for the receiver are no longer sent to the group */
    LLM_EVENT_SUSPENDED = 12,    /* the receiver gets no repairs, and flow control does not wait for it */
    /* The receiver has to leave: at the receiver the end of the session follows. */
    LLM_EVENT_EXPELLED = 13,
    LLM_EVENT_READMITTED = 14, /* the receiver is served like all others again, or may come back */
    /* Of connections; session: that of the other side. */
    LLM_EVENT_CONNECTED = 15, /* the connection is established: messages may be sent */
    /* The connection is over, for reason, and has to be closed; first: the code of the refusal. */
    LLM_EVENT_DISCONNECTED = 16,
    /* Of receivers that join with LLM_JOIN_LATEST: topic, topic_id. */
    /*
     * Cached messages (last value cache) of this topic, and of those with higher ids, did not all arrive, for
     * reason; first: number of the message with which the stream continues.
     */
    LLM_EVENT_CACHE_LOST = 17,
    /* Of transmitters, receivers and connections: address. */
    /*
     * Packets cannot be sent to the other side, for reason; reported once for each address. Concerns a
     * receiver's NAKs to the transmitter of this session, or a transmitter's repairs and answers to a
     * receiver. Losses are not repaired until the fault is mended.
     */
    LLM_EVENT_UNREACHABLE = 18,
    /* Of transmitters, for assured topics: topic, topic_id. */
    LLM_EVENT_ACKNOWLEDGED = 20, /* messages first to last were acknowledged by all receivers that have to */
    /*
     * Messages first to last were not acknowledged for patience_ns, for reason; receiver: the one waited for, or
     * the pattern. LLM_REASON_CLOSED: they never will be, as the transmitter is closed.
     */
    LLM_EVENT_UNACKNOWLEDGED = 21,
    /*
     * Of receivers, for sessions that continue a stream (option stream): session, stream, stream_base, stream_term;
     * LLM_EVENT_SESSION_NEW has them, too.
     */
    /*
     * Messages with the numbers first to last in the stream are missing between the sessions of the stream that
     * were followed: lost with an earlier session, or sent when this receiver followed none.
     */
    LLM_EVENT_STREAM_GAP = 28,
    /*
     * The session sends the numbers first to last of the stream, which came from an earlier session or were
     * reported lost, once more: they were not stored when the transmitter restarted. Their messages follow.
     */
    LLM_EVENT_STREAM_AGAIN = 29,
    /*
     * A session of the stream is not followed, for reason: LLM_REASON_SUPERSEDED, or LLM_REASON_TERM_TAKEN until the
     * other one is silent or ends.
     */
    LLM_EVENT_STREAM_REFUSED = 30,
    /*
     * Of a channel of two lines: the session is not heard on line first, 1 or 2, and is heard on the other. Its
     * messages go on; a packet that the other line loses is requested at once.
     */
    LLM_EVENT_LINE_DOWN = 31,
    LLM_EVENT_LINE_UP = 32, /* the session is heard on line first again */
    /* Of transmitters and receivers, with watch_ns of struct llm_context_options. */
    LLM_EVENT_LIMITED = 24, /* the bottleneck changed, or there is none any more: bottleneck */
    /* Of transmitters: the bottleneck of a receiver changed, as that receiver reports: bottleneck. */
    LLM_EVENT_RECEIVER_LIMITED = 25,
    /*
     * Of stores: recording of the session has stopped for good, for reason; first: number of the first message
     * that is not on the disk; file: in which a write failed; error: its errno. What is not on the disk is not
     * acknowledged.
     */
    LLM_EVENT_STORE_STOPPED = 26,
    /*
     * Of transmitters, receivers and connections: packets of others were dropped, for reason: LLM_REASON_IN_CLEAR or
     * LLM_REASON_KEYS. Reported once for each instance of a transport and reason: some members of the group have other
     * keys, or none.
     */
    LLM_EVENT_KEYS = 40,
    /*
     * Of receivers with the option seal_keys: packets of the session, a number of them in packets, are not those that its
     * transmitter signed, for reason: LLM_REASON_SEAL or LLM_REASON_UNSEALED. Their messages may have been delivered.
     * Reported at most once a second for each session.
     */
    LLM_EVENT_FORGED = 44,
    /*
     * Of receivers, for sessions that are merged (option stream_merge): the session sent other bytes with the number first,
     * in the stream, than the session whose message was delivered: hash and hash_copy. Reported for the
     * first of consecutive copies; they were dropped.
     */
    LLM_EVENT_DIVERGED = 45,
};

enum llm_reason {
    LLM_REASON_NONE = 0,
    LLM_REASON_CLOSED = 1, /* the transmitter, or either side of the connection, closed it */
    /*
     * The session was silent for session_timeout_ns, a packet was not repaired in nak_giveup_ns, or the side
     * that accepted a connection heard nothing from the other in connect_timeout_ns.
     */
    LLM_REASON_TIMEOUT = 2,
    LLM_REASON_GONE = 3, /* the transmitter no longer has the packets */
    /* This receiver lagged further than can be repaired, and went on with live messages. */
    LLM_REASON_OVERRUN = 4,
    LLM_REASON_TOO_LONG = 5, /* the message is longer than message_bytes_max of this receiver */
    LLM_REASON_REPLACED = 6, /* dropped in favour of a newer session: sessions_max */
    LLM_REASON_HISTORY = 7,  /* the transmitter's history does not reach back so far */
    /*
     * The transmitter did not answer in nak_giveup_ns, or fell silent; no listener answered in
     * connect_timeout_ns.
     */
    LLM_REASON_UNANSWERED = 8,
    LLM_REASON_NOT_SENT = 9, /* the requested message was not sent yet */
    /* The transmitter does not repair packets for this receiver: LLM_EVENT_SUSPENDED. */
    LLM_REASON_SUSPENDED = 10,
    LLM_REASON_EXPELLED = 11,  /* the transmitter makes this receiver leave: LLM_EVENT_EXPELLED */
    LLM_REASON_REFUSED = 12,   /* the listening application refused the connection, with a code */
    LLM_REASON_FULL = 13,      /* the listener has connections_max connections */
    LLM_REASON_ABANDONED = 14, /* the other side is gone, perhaps before it had, or had sent, everything */
    LLM_REASON_BROKEN = 15,    /* a message could not be delivered, and none after it is */
    LLM_REASON_NO_CACHE = 16,  /* no topic of the transmitter has a last value cache: llm_topic_cache() */
    /* Fewer receivers accept the topic, and are not suspended, than have to acknowledge, or so many names. */
    LLM_REASON_RECEIVERS_FEW = 20,
    /* A receiver that has to acknowledge by name is not known, or suspended. */
    LLM_REASON_RECEIVER_ABSENT = 21,
    /* The known receivers lost a message, or joined after it, and will never acknowledge it. */
    LLM_REASON_GIVEN_UP = 22,
    LLM_REASON_PENDING = 23, /* all receivers are present, and have not acknowledged yet */
    /* Lost and not repaired: all messages were of topics with LLM_TOPIC_UNRELIABLE. */
    LLM_REASON_UNRELIABLE = 24,
    /* No packet is missing, but one contradicts itself or the packet before: damaged or forged. */
    LLM_REASON_MALFORMED = 25,
    LLM_REASON_RESTARTED = 26,  /* the transmitter restarted: another session continues the stream */
    LLM_REASON_SUPERSEDED = 27, /* a session of a higher term continues the stream */
    LLM_REASON_NO_ROUTE = 28,   /* no route leads to the address, or it cannot be resolved to a neighbour */
    /* The address cannot be reached from here: it is of another family, scope or kind. */
    LLM_REASON_ADDRESS = 29,
    LLM_REASON_FORBIDDEN = 30, /* a packet filter or a policy of this host forbids it */
    LLM_REASON_DAMAGED = 31,   /* of recordings: what a store had written is damaged, or removed */
    LLM_REASON_DISK = 32,      /* the disk of a store failed */
    LLM_REASON_DISK_FULL = 33, /* the disk of a store is full, or its reserve is reached */
    /* Another session of the stream has the same term, and is heard. */
    LLM_REASON_TERM_TAKEN = 34,
    LLM_REASON_SKIPPED = 35,  /* no transmitter that is followed has the messages: llm_send_numbered() */
    LLM_REASON_IN_CLEAR = 40, /* packets came in clear to a channel with keys */
    /* Packets are protected by keys that the channel does not have, or is opened without. */
    LLM_REASON_KEYS = 41,
    /* Packets differ from what the transmitter signed, or from others with their number: a member forged them. */
    LLM_REASON_SEAL = 44,
    LLM_REASON_UNSEALED = 45, /* no key of seal_keys signed the packets */
};

/* Thresholds of the slow-receiver policy: options slow_..., docs/protocol.md section 7.2. */
enum llm_threshold {
    LLM_THRESHOLD_NONE = 0,
    LLM_THRESHOLD_NAKS = 1,        /* NAKs per second: slow_naks_per_s */
    LLM_THRESHOLD_NAK_SHARE = 2,   /* NAKed share of the packets sent, ppm: slow_nak_ppm */
    LLM_THRESHOLD_LAG_PACKETS = 3, /* packets not yet received: slow_lag_packets */
    LLM_THRESHOLD_LAG_TIME = 4,    /* lag in ns: slow_lag_ns */
    LLM_THRESHOLD_SILENCE = 5,     /* ns since it was last heard: slow_silence_ns */
    /* More than half of the receivers suffer, so the fault is upstream; the verdict is on all, not on one. */
    LLM_THRESHOLD_GROUP = 6,
    LLM_THRESHOLD_OPERATOR = 7,  /* llm_transmitter_suspend(), llm_transmitter_suspend_all() */
    LLM_THRESHOLD_LAG_BYTES = 8, /* lag in bytes of the history: slow_lag_bytes */
    LLM_THRESHOLD_ACK_TIME = 9,  /* ns for which it owes an acknowledgement: slow_ack_ns */
};

/* A verdict of the slow-receiver policy and its figures; rates and shares are means over a second. */
struct llm_verdict {
    uint64_t receiver; /* identity of the receiver, random; 0: all receivers, see LLM_THRESHOLD_GROUP */
    enum llm_threshold threshold; /* the threshold that decided */
    uint64_t value;               /* the figure compared, in the unit of the threshold */
    uint64_t limit;               /* the limit that it reached */
    uint64_t naks_per_s;
    uint64_t nak_ppm;
    uint64_t lag_packets;
    uint64_t lag_ns;
    uint64_t silent_ns;
    uint64_t rejoin_ns; /* expelled: it may come back after this time, 0: never */
    uint32_t receivers; /* receivers that have reported */
    uint32_t suffering; /* receivers, of these, that suffer */
    bool dry_run;       /* slow=report: no action was taken */
    /* Lag in bytes of the history; at the receiver only if this threshold decided, else 0. */
    uint64_t lag_bytes;
    /* Ns for which it owes an acknowledgement; at the receiver only if this threshold decided, else 0. */
    uint64_t ack_ns;
};

/* X(name, number, text): bottlenecks of receivers and transmitters; the numbers are stable. */
#define LLM_LIMITS(X)                                           \
    X(NONE, 0, "nothing")                                       \
    X(APPLICATION, 1, "the application, which is slow to poll") \
    X(BUFFER, 2, "the receive buffer, which overflows")         \
    X(NETWORK, 3, "the network, which loses packets")           \
    X(WINDOW, 4, "its receivers, for whom flow control waits")  \
    X(RATE, 5, "a rate limit")                                  \
    X(HISTORY, 6, "messages that are not acknowledged")         \
    X(TRANSPORT, 7, "the transport, which takes no more")

/* Receivers have NONE, APPLICATION, BUFFER and NETWORK; transmitters have NONE and the last four. */
enum llm_limit {
#define LLM_LIMIT_ENUM(name, number, text) LLM_LIMIT_##name = number,
    LLM_LIMITS(LLM_LIMIT_ENUM)
#undef LLM_LIMIT_ENUM
};

/*
 * The bottleneck of a receiver or a transmitter over an interval, and the figures behind it.
 *   APPLICATION  it was away for 9/10 of the interval, or its host dropped packets and it was away for 50 ms at once
 *   BUFFER       its host dropped packets, which explain at least half of those that it missed
 *   NETWORK      it missed packets, more than one in 10,000, and its host dropped less than half of them
 *   WINDOW ...   the transmitter was blocked by this, or refused messages for it, for a tenth of the interval, and by nothing
 *                else for longer
 */
struct llm_bottleneck {
    enum llm_limit limit;
    uint64_t receiver; /* identity of the receiver that reported it; 0: measured in this context */
    uint64_t time_ns;  /* length of the interval; the members below count within it */
    uint64_t packets;  /* data packets received, or sent for the first time */
    /* receivers only */
    /*
     * Time between the starts of two polls of which the first delivered something: handlers, and other work
     * of the thread before it polled again; excludes sleep in llm_wait()
     */
    uint64_t away_ns;
    /*
     * The longest of these; also from before the interval, if packets dropped then are found missing only
     * now.
     */
    uint64_t away_ns_max;
    uint64_t packets_missed; /* found missing, by packet number */
    /*
     * Dropped by the receiving host, as far as the transport knows, for all receivers that share it; an upper
     * bound where the kernel drops runs of packets.
     */
    uint64_t packets_dropped;
    /* transmitters only */
    uint64_t window_ns;    /* blocked by flow control */
    uint64_t rate_ns;      /* blocked by a rate limit */
    uint64_t history_ns;   /* blocked by messages that are not acknowledged */
    uint64_t transport_ns; /* blocked by the transport */
};

struct llm_event {
    enum llm_event_kind kind;
    enum llm_reason reason;
    uint64_t session;
    uint64_t first; /* message numbers, see the kind */
    uint64_t last;
    uint64_t packets;
    uint32_t topic_id;
    const char *topic;                 /* NULL unless the kind has one */
    const struct llm_verdict *verdict; /* NULL unless the kind has one; valid until the handler returns */
    /* Name of the receiver, or pattern of names (struct llm_assurance); NULL unless the reason has one. */
    const char *receiver;
    /* NULL unless the kind has one; valid until the handler returns */
    const struct llm_bottleneck *bottleneck;
    /* LLM_EVENT_UNACKNOWLEDGED for lack of receivers of any name, or of a pattern: receivers present; else 0 */
    uint32_t receivers;
    uint32_t receivers_wanted; /* receivers that have to acknowledge; else 0 */
    /*
     * Address of the other side, for people; NULL unless the kind has one; valid until the handler returns.
     */
    const char *address;
    const char *file; /* path in the directory of a store; NULL unless the kind has one; valid as address */
    int error;        /* errno; 0 unless the kind has one */
    uint64_t stream;  /* identity of the stream; 0 unless the kind has one */
    uint64_t stream_base; /* number in the stream of message 0 of the session */
    uint32_t stream_term;
    /* XXH3, 64 bits, of the delivered message and of its copy; 0 unless the kind has them */
    uint64_t hash;
    uint64_t hash_copy;
};

/*
 * Return the names of kinds, reasons, thresholds and limits, for people; listed in llm_event_name(3). Static
 * strings; never NULL.
 */
LLM_API const char *llm_event_name(enum llm_event_kind kind);
LLM_API const char *llm_reason_name(enum llm_reason reason);
LLM_API const char *llm_threshold_name(enum llm_threshold threshold);
LLM_API const char *llm_limit_name(enum llm_limit limit);

/*
 * Writes the event and its reason as one sentence for people, without a newline; truncated to size bytes
 * including the terminating zero. Writes nothing if size is 0, text is NULL or event is NULL. An unknown kind
 * is given by its number. Returns the length before truncation, 0 for a NULL event. Any thread, while the
 * event is valid.
 */
LLM_API size_t llm_event_text(const struct llm_event *event, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
