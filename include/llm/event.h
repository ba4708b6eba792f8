/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What transmitters, receivers and connections tell their applications beside messages: kinds of events, reasons, verdicts and
 * limits, with numbers that are stable. <llm/llm.h> includes it.
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
    LLM_EVENT_SESSION_NEW = 1,    /* a session is followed from now on; first: number of the first message to come.
                                     A session less than a second old is followed from its message 0, others from what
                                     is sent next; one that ended by TIMEOUT or REPLACED from where it ended. */
    LLM_EVENT_SESSION_END = 2,    /* no more from this session, for reason; first: number that would have come next */
    LLM_EVENT_GAP = 3,            /* messages first to last are lost, for reason; packets: how many packets that took.
                                     If last + 1 == first, only announcements or nothing but padding were lost. */
    LLM_EVENT_HEARTBEAT_LOST = 4, /* nothing heard from the session for silence_ns */
    LLM_EVENT_RESUMED = 5,        /* heard again */
    LLM_EVENT_TOPIC_NEW = 6,      /* a topic was announced, and accepted: topic, topic_id */
    LLM_EVENT_JOIN_REFUSED = 7,   /* a session cannot begin where it was asked for, for reason; first: number of the first
                                     message asked for, 0 if that is not known; last: of the first that is there (AHEAD: of
                                     the first that is kept). What follows is as join_else says. */
    LLM_EVENT_LIVE = 8,           /* the past that was asked for was delivered, or named in gaps; first: number of the next
                                     message. Of a session less than a second old: what it had sent when it was found */
    /*
     * Of transmitters and receivers; verdict says why, and of whom. A receiver is told of itself.
     */
    LLM_EVENT_WARNED = 10,        /* it nears a threshold */
    LLM_EVENT_UNICAST_ONLY = 11,  /* what it asks for again no longer goes to the group */
    LLM_EVENT_SUSPENDED = 12,     /* it gets no repairs, and nobody waits for it */
    LLM_EVENT_EXPELLED = 13,      /* it has to leave: at the receiver the end of the session follows */
    LLM_EVENT_READMITTED = 14,    /* it is served as all others are, or may come back */
    /* Of connections; session: the other side's. */
    LLM_EVENT_CONNECTED = 15,      /* the other side is there: messages may be sent */
    LLM_EVENT_DISCONNECTED = 16,   /* it is over, for reason, and has to be closed; first: the code of who refused */
    /* Of receivers that join with LLM_JOIN_LATEST: topic, topic_id. */
    LLM_EVENT_KEPT_LOST = 17,      /* of what is kept of this topic and those with higher ids some did not come, for reason; first:
                                      number of the message with which the stream goes on */
    /* Of transmitters, receivers and connections: address. */
    LLM_EVENT_UNREACHABLE = 18,    /* packets cannot be sent to the other side, for reason, once for each address: a receiver's NAKs to the
                                      transmitter of this session, or a transmitter's repairs and answers to a receiver. What is lost is
                                      not repaired until that is mended. */
    /* Of transmitters, for assured topics: topic, topic_id. */
    LLM_EVENT_ACKNOWLEDGED = 20,   /* its messages from first to last were, by all who have to */
    LLM_EVENT_UNACKNOWLEDGED = 21, /* those from first to last have not been for patience_ns, for reason; receiver: waited for.
                                      LLM_REASON_CLOSED: they never will be, as the transmitter is closed */
    /* Of transmitters and receivers, with watch_ns of struct llm_context_options. */
    LLM_EVENT_LIMITED = 24,        /* something else limits it than before, or nothing any more: bottleneck */
    LLM_EVENT_RECEIVER_LIMITED = 25, /* of transmitters: the same of a receiver that runs a watch, as it reports: bottleneck */
};

enum llm_reason {
    LLM_REASON_NONE = 0,
    LLM_REASON_CLOSED = 1,  /* the transmitter ended the session */
    LLM_REASON_TIMEOUT = 2, /* the session was silent for session_timeout_ns, or a packet not repaired in nak_giveup_ns; the side that
                               accepted a connection was not heard in connect_timeout_ns */
    LLM_REASON_GONE = 3,    /* the transmitter no longer has the packets */
    LLM_REASON_OVERRUN = 4, /* this receiver fell behind further than can be repaired, and went on with live messages */
    LLM_REASON_TOO_LONG = 5, /* the message is longer than message_bytes_max of this receiver */
    LLM_REASON_REPLACED = 6, /* forgotten in favour of a newer session: sessions_max */
    LLM_REASON_HISTORY = 7, /* the transmitter's history does not reach back so far */
    LLM_REASON_UNANSWERED = 8, /* the transmitter did not answer in nak_giveup_ns, or fell silent; nobody accepted the connection in
                                  connect_timeout_ns */
    LLM_REASON_AHEAD = 9,   /* the message asked for was not sent yet */
    LLM_REASON_SUSPENDED = 10, /* the transmitter does not repair packets for this receiver: LLM_EVENT_SUSPENDED */
    LLM_REASON_EXPELLED = 11,  /* the transmitter has this receiver leave: LLM_EVENT_EXPELLED */
    LLM_REASON_REFUSED = 12,   /* the application that listens refused the connection, by a code */
    LLM_REASON_FULL = 13,      /* who listens has connections_max connections */
    LLM_REASON_ABANDONED = 14, /* the other side is gone, perhaps before it had, or had sent, everything */
    LLM_REASON_BROKEN = 15,    /* a message could not be delivered: nothing behind it is */
    LLM_REASON_NOT_KEPT = 16,  /* no topic of the transmitter keeps messages: llm_topic_keep() */
    LLM_REASON_RECEIVERS_FEW = 20,   /* fewer that accept the topic are known, and not suspended, than have to acknowledge */
    LLM_REASON_RECEIVER_ABSENT = 21, /* of those that have to by name, this one is not known, or suspended */
    LLM_REASON_GIVEN_UP = 22,        /* those that are known lost a message, or came after it, and will never acknowledge it */
    LLM_REASON_AWAITED = 23,         /* they are all there, and have not acknowledged yet */
    LLM_REASON_UNRELIABLE = 24,      /* lost, and not repaired: all of topics with LLM_TOPIC_UNRELIABLE */
    LLM_REASON_MALFORMED = 25,       /* no packet is missing, but one contradicts the one before, or itself: damaged or forged */
    LLM_REASON_NO_ROUTE = 28,  /* no route leads to the address, or nobody there can be resolved */
    LLM_REASON_ADDRESS = 29,   /* the address is none that can be reached from here: of another family, scope or kind */
    LLM_REASON_FORBIDDEN = 30, /* a packet filter or a policy of this host forbids it */
};

/* What a slow receiver reached; options slow_..., docs/protocol.md section 7.2. */
enum llm_threshold {
    LLM_THRESHOLD_NONE = 0,
    LLM_THRESHOLD_NAKS = 1,        /* NAKs a second: slow_naks_per_s */
    LLM_THRESHOLD_ASKED = 2,       /* share of the packets sent that it asked for again, ppm: slow_asked_ppm */
    LLM_THRESHOLD_LAG_PACKETS = 3, /* packets behind: slow_lag_packets */
    LLM_THRESHOLD_LAG_TIME = 4,    /* ns behind: slow_lag_ns */
    LLM_THRESHOLD_SILENCE = 5,     /* ns in which it was not heard: slow_silence_ns */
    LLM_THRESHOLD_GROUP = 6,       /* no receiver, but receivers: more than half of them suffer, so the fault is upstream */
    LLM_THRESHOLD_OPERATOR = 7,    /* llm_transmitter_shed() */
    LLM_THRESHOLD_LAG_BYTES = 8,   /* bytes of the history behind: slow_lag_bytes */
    LLM_THRESHOLD_ACK_TIME = 9,    /* ns for which it owes an acknowledgement: slow_ack_ns */
};

/* A judgement of a receiver, and the figures behind it: those by time are means over a second. */
struct llm_verdict {
    uint64_t receiver;    /* its identity, random; 0: all, see LLM_THRESHOLD_GROUP */
    enum llm_threshold threshold; /* that decided */
    uint64_t value;       /* of its figure, in the unit of the threshold */
    uint64_t limit;       /* that it reached */
    uint64_t naks_per_s;
    uint64_t asked_ppm;
    uint64_t lag_packets;
    uint64_t lag_ns;
    uint64_t silent_ns;
    uint64_t rejoin_ns;   /* expelled: it may come back after this, 0: never */
    uint32_t receivers;   /* that have reported */
    uint32_t suffering;   /* of these */
    bool dry_run;         /* slow=report: nothing was done */
    uint64_t lag_bytes;   /* of the transmitter's history; a receiver is told where they decided, else 0 */
    uint64_t ack_ns;      /* for which it owes an acknowledgement; likewise */
};

/* X(name, number, text): what limits a receiver or a transmitter; the numbers are stable. */
#define LLM_LIMITS(X)                                                                                                      \
    X(NONE, 0, "nothing")                                                                                                  \
    X(APPLICATION, 1, "the application, which is slow to poll")                                                            \
    X(BUFFER, 2, "the receive buffer, which overflows")                                                                    \
    X(NETWORK, 3, "the network, which loses packets")                                                                      \
    X(WINDOW, 4, "its receivers, for whom flow control waits")                                                             \
    X(RATE, 5, "a rate limit")                                                                                             \
    X(HISTORY, 6, "messages that are not acknowledged")                                                                    \
    X(TRANSPORT, 7, "the transport, which takes no more")

/* The first four are of receivers; NONE and the last four of transmitters. */
enum llm_limit {
#define LLM_LIMIT_ENUM(name, number, text) LLM_LIMIT_##name = number,
    LLM_LIMITS(LLM_LIMIT_ENUM)
#undef LLM_LIMIT_ENUM
};

/*
 * What limited a receiver, or a transmitter, over a time, and the figures that say so: what happened in that time.
 *   APPLICATION  it was away for 9/10 of the time, or its host dropped packets and it was away for 50 ms at once
 *   BUFFER       its host dropped packets, which explain at least half of those that it missed
 *   NETWORK      it missed packets, more than one in 10,000, and its host dropped less than half of them
 *   WINDOW ...   the transmitter was held by that, or refused messages for it, for a tenth of the time, and by nothing else longer
 */
struct llm_bottleneck {
    enum llm_limit limit;
    uint64_t receiver;        /* the identity of the one that reported it; 0: it is the context's own */
    uint64_t time_ns;         /* all of the following happened in */
    uint64_t packets;         /* data packets that came, or were sent for the first time */
    /* Of a receiver. */
    uint64_t away_ns;         /* between the beginnings of two polls of which the first delivered something: handlers, and
                                 what else the thread did before it polled again; not what llm_wait() slept */
    uint64_t away_ns_max;     /* the longest of these; also of the time before, if what was dropped then is missed only now */
    uint64_t packets_missed;  /* found missing, by their numbers */
    uint64_t packets_dropped; /* by the receiving host, as far as the transport knows, for all receivers that share it; at
                                 most, where the kernel drops runs of packets */
    /* Of a transmitter. */
    uint64_t window_ns;       /* it was held by flow control, */
    uint64_t rate_ns;         /* by a rate limit, */
    uint64_t history_ns;      /* by messages that are not acknowledged, */
    uint64_t transport_ns;    /* by the transport */
};

struct llm_event {
    enum llm_event_kind kind;
    enum llm_reason reason;
    uint64_t session;
    uint64_t first;       /* messages, see the kind */
    uint64_t last;
    uint64_t packets;
    uint32_t topic_id;
    const char *topic;    /* NULL unless the kind has one */
    const struct llm_verdict *verdict; /* NULL unless the kind has one; valid until the handler returns */
    const char *receiver; /* its name; NULL unless the reason has one */
    const struct llm_bottleneck *bottleneck; /* NULL unless the kind has one; valid until the handler returns */
    uint32_t receivers;        /* LLM_EVENT_UNACKNOWLEDGED for want of receivers, of any name: so many there are ... */
    uint32_t receivers_wanted; /* ... and so many have to acknowledge; else both 0 */
    const char *address;       /* of the other side, for people; NULL unless the kind has one; valid until the handler returns */
};

/* The names of kinds, reasons, thresholds and limits, for people; llm_event_name(3) has them. Static strings; never NULL. */
LLM_API const char *llm_event_name(enum llm_event_kind kind);
LLM_API const char *llm_reason_name(enum llm_reason reason);
LLM_API const char *llm_threshold_name(enum llm_threshold threshold);
LLM_API const char *llm_limit_name(enum llm_limit limit);

/*
 * Writes what happened, and why, as one sentence for people, without a newline; cut to size bytes with the zero, none if size is 0
 * or text NULL. Of a NULL event nothing, with length 0.
 * Returns how long it is uncut. Any thread, while the event is valid. A kind that this library does not know is told by its number.
 */
LLM_API size_t llm_event_text(const struct llm_event *event, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
