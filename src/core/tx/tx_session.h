/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Session at the transmitter: packs messages, stores the history, sends heartbeats, answers NAKs, status
 * reports and queries. A pure state machine: packets and the time go in, packets to send are pulled out.
 */
#ifndef LLI_TX_SESSION_H
#define LLI_TX_SESSION_H

#include "core/ack/ack.h"
#include "core/flow/flow.h"
#include "core/limits/congestion.h"
#include "core/pack/history.h"
#include "core/slow/slow.h"
#include "core/lvc/store.h"
#include "core/join/time_index.h"
#include "core/flow/members.h"
#include "core/base/pacer.h"
#include "core/pack/pack.h"
#include "core/tx/repair.h"
#include "core/join/replay.h"
#include "core/wire/token.h"
#include "core/wire/packet.h"
#include "core/wire/wire.h"

/* X(name, text) */
#define LLI_TX_COUNTERS(X)                                                                                \
    X(packets_sent, "packets of every kind sent")                                                         \
    X(bytes_sent, "bytes of these packets, as passed to the transport")                                   \
    X(packets_data, "data packets sent for the first time")                                               \
    X(packets_repaired, "data packets sent again")                                                        \
    X(repairs_multicast, "of these, to the group")                                                        \
    X(repairs_delayed, "repairs that waited for the rate limit of repairs")                               \
    X(packets_replayed, "data packets sent to receivers that join late")                                  \
    X(packets_without_history,                                                                            \
      "data packets not sent to late joiners, as all their messages are of topics without history")       \
    X(heartbeats_sent, "heartbeats sent")                                                                 \
    X(rejects_sent, "rejects and confirmations of NAKs sent")                                             \
    X(topics_sent, "answers to queries sent")                                                             \
    X(naks_received, "NAKs received")                                                                     \
    X(nak_packets, "packets requested by NAKs")                                                           \
    X(nak_packets_ignored, "of these, requested again too soon, or queued already")                       \
    X(nak_packets_gone, "of these, no longer in the history")                                             \
    X(nak_packets_unreliable,                                                                             \
      "of these, of unreliable topics: not repaired, and not counted against the receiver")               \
    X(nak_packets_beyond, "of these, never sent")                                                         \
    X(nak_packets_unconfirmed,                                                                            \
      "of these, not repaired as unconfirmed receivers (without a token) requested too many")             \
    X(naks_ignored, "NAKs not answered: of suspended receivers, or by the operator's order")              \
    X(repairs_dropped, "queued repairs dropped for the same reasons, or because the receiver had left")   \
    X(notices_sent, "notices sent to slow receivers")                                                     \
    X(receivers_warned, "warnings to slow receivers")                                                     \
    X(receivers_unicast, "times that a slow receiver was limited to unicast repairs")                     \
    X(receivers_suspended, "suspensions of slow receivers")                                               \
    X(receivers_expelled, "expulsions of slow receivers")                                                 \
    X(receivers_readmitted, "slow receivers that returned to full service")                               \
    X(status_received, "status reports received")                                                         \
    X(queries_received, "topic queries received")                                                         \
    X(tokens_sent, "tokens sent to receivers, to confirm the addresses that they announce")               \
    X(requests_unconfirmed,                                                                               \
      "reports and requests without the token for their address, which have no effect")                   \
    X(joins_received, "requests of late joiners for a position to begin at")                              \
    X(joins_granted, "of these, granted")                                                                 \
    X(joins_refused, "of these, refused")                                                                 \
    X(fetches_received, "requests for past packets")                                                      \
    X(messages_cached, "messages copied to the last value cache")                                         \
    X(cache_fetches_received, "requests of late joiners for cached messages")                             \
    X(cache_packets_sent, "packets of cached messages sent")                                              \
    X(joins_ignored,                                                                                      \
      "requests of either kind not answered: of suspended receivers, or by the operator's order")         \
    X(joins_dropped, "requests of either kind dropped because too many late joiners were being served")   \
    X(receivers_joined, "receivers that became known")                                                    \
    X(receivers_left, "receivers that announced that they leave")                                         \
    X(receivers_lost, "receivers forgotten after ten missing reports")                                    \
    X(receivers_refused, "reports of receivers beyond receivers_max")                                     \
    X(numbers_skipped, "message numbers skipped by llm_send_numbered()")                                  \
    X(messages_assured, "messages sent on assured topics")                                                \
    X(acknowledgements_refused,                                                                           \
      "acknowledgements of messages that were not sent, or by receivers beyond receivers_max")            \
    X(send_blocked_unacknowledged, "messages refused because too many before them were not acknowledged") \
    X(answers_dropped, "rejects and answers not sent because too many were waiting")                      \
    X(control_malformed, "control packets that contradict themselves")                                    \
    X(control_foreign, "control packets with another session's identity")                                 \
    X(send_blocked,                                                                                       \
      "messages refused because the history was full of unsent packets, or because sending was blocked")  \
    X(send_blocked_flow, "of these, because flow control waited for receivers")                           \
    X(send_blocked_rate, "because of a rate limit")                                                       \
    X(send_blocked_history, "because unacknowledged messages fill the history")                           \
    X(send_blocked_transport, "because the transport took no more")

struct lli_tx_counters {
#define LLI_TX_COUNTER_FIELD(name, text) uint64_t name;
    LLI_TX_COUNTERS(LLI_TX_COUNTER_FIELD)
#undef LLI_TX_COUNTER_FIELD
};

struct lli_tx_config {
    uint64_t session; /* random identity */
    uint64_t seed;    /* random and secret */
    struct lli_history_config history;
    uint32_t receivers_max;
    uint32_t topics_max;
    uint32_t nak_receivers_immediate;
    uint32_t repair_percent;
    uint64_t repair_bytes_per_s;
    uint64_t repair_rate; /* rate limit of repairs, bytes/s; 0: no limit */
    lli_ns repair_linger;
    uint64_t replay_bytes_per_s;
    lli_ns history_ns; /* packets older than this count as gone; 0: no age limit */
    lli_ns heartbeat_min;
    lli_ns heartbeat_max;
    lli_ns heartbeat_busy;
    /*
     * Receivers beyond which heartbeats are spared directly after data, over a transport that loses no last
     * packet; 0: no limit.
     */
    uint32_t heartbeat_receivers_max;
    lli_ns status;
    struct lli_flow_config flow;
    struct lli_slow_policy slow; /* its `status` equals `status` above */
    bool reports_limits;         /* report receivers' bottlenecks to the application */
    bool confirms; /* receivers count, and are sent more than a token, only after they returned it */
    struct lli_token_key key;
    struct lli_wire_address address; /* where receivers reach the session */
    /* Stream that the session continues, 0: none; number in it of message 0; term of the session. */
    uint64_t stream;
    uint64_t stream_base;
    uint32_t stream_term;
    bool stream_merge; /* receivers merge the session with others of the stream */
};

/* Capacity of the queue of rejects and answers. */
enum { LLI_TX_ANSWERS = 32 };

struct lli_tx_answer {
    bool is_topics;
    bool to_group;
    uint32_t topics_first;
    struct lli_wire_address to;
    struct lli_wire_reject reject;
};

/* Budget of repairs for all unconfirmed receivers together; these repairs go to the group. */
#define LLI_TX_UNCONFIRMED_BYTES_PER_S ((uint64_t)1 << 20)
#define LLI_TX_UNCONFIRMED_BURST ((uint64_t)128 << 10)

/* Capacity of the queue of tokens. */
enum { LLI_TX_TOKENS = 256 };

struct lli_tx_token {
    uint64_t receiver;
    uint64_t value; /* figure of the reason: receivers known, or being served */
    enum lli_wire_join_reason reason;
    struct lli_wire_address to;
};

/*
 * The state of a session is in groups, besides the modules that it combines. The file named at each group
 * owns it; others read it, or call a function of its owner (tx_internal.h). lli_tx_init() sets the first
 * values.
 */

/*
 * First packet that the transport may still read, or that unacknowledged messages need; UINT64_MAX: none.
 * tx_session.c.
 */
struct lli_tx_inflight {
    lli_seq first;
    lli_seq first_young; /* likewise, of the packets taken since the latest lli_tx_reaped() */
    lli_seq first_idle;  /* likewise, when the transport is done with every packet */
};

/*
 * Times of heartbeats, and the end that they announce: tx_heartbeat.c; lli_tx_sent_at() sets the next time,
 * too.
 */
struct lli_tx_heartbeat {
    lli_ns at;
    lli_ns last;
    lli_ns first; /* interval from the last data packet to the first heartbeat */
    lli_ns interval;
    lli_ns lossy_until; /* `first` is shorter until then, as packets were lost lately */
    bool flowing;       /* data was sent since the last heartbeat */
    bool followed;      /* data was sent since the heartbeat before that */
    bool steady;        /* data follows data soon: the first heartbeat waits longer (ADR 54) */
    bool sparing;       /* the first heartbeat waits longer still (ADR 67) */
    bool asks;          /* the latest heartbeat asks for reports */
    bool fixed;         /* data does not postpone the next one, which has to ask, or announces the end */
    bool ended;
    uint32_t ends_sent; /* heartbeats with END sent */
};

/* Times of rare work: tx_session.c, and functions in tx_internal.h. */
struct lli_tx_due {
    lli_ns slow_at; /* the earlier of look_at and join.at */
    lli_ns look_at; /* time to check members for expiry and evaluation */
    /* Time at which the application may retry a send refused by a limit; members are checked then, too. */
    lli_ns wake_at;
};

/* Figures of all members: tx_members.c. */
struct lli_tx_group {
    lli_ns rtt; /* round trip of the group */
    /* Member with that round trip, if it is still there; NULL: not known. */
    const struct lli_member *furthest;
    lli_ns scan_at; /* earliest time of the next scan of very many members for it */
    lli_ns expire_at;
    lli_seq taken; /* next packet expected by the most recently departed receiver */
};

/* Repairs, and the rates that limit them: tx_nak.c. */
struct lli_tx_repair {
    struct lli_repair queue;
    struct lli_pacer pacer;
    uint32_t share;               /* repair budget per byte of new data, in 65536ths */
    bool waits;                   /* a repair is blocked by the next limit */
    struct lli_pacer limit;       /* enforces config.repair_rate */
    struct lli_pacer unconfirmed; /* budget of repairs for unconfirmed receivers */
};

/* Rejects and answers: tx_answer.c. */
struct lli_tx_answers {
    struct lli_tx_answer *queue;
    uint32_t head;
    uint32_t tail;
};

/* Tokens for receivers, and reasons for reduced service, which they carry: tx_token.c. */
struct lli_tx_tokens {
    struct lli_tx_token *queue;
    uint32_t head;
    uint32_t tail;
    uint8_t crowded;          /* reasons sent to receivers, a bit each ... */
    uint8_t crowded_reported; /* ... and those that lli_tx_take_crowded() returned */
};

/* Topics: tx_topics.c. */
struct lli_tx_topics {
    const char **names; /* by id; owned by the caller */
    uint8_t *flags;     /* by id: enum lli_wire_topic_flags */
    uint32_t count;
};

/* Work for late joiners: tx_join.c. */
struct lli_tx_join {
    lli_ns at;                  /* time of the next replay work for late joiners ... */
    lli_ns lvc_at;              /* ... and of LVC work, which `at` includes */
    struct lli_wire_address to; /* destination of the latest answer or LVC packet */
};

struct lli_tx {
    struct lli_tx_config config;
    struct lli_history history;
    struct lli_pack pack;
    lli_seq sent;         /* first packet not yet given to the transport */
    uint64_t blocked_max; /* packets that flow control may block before messages are refused */
    struct lli_tx_inflight inflight;
    struct lli_tx_heartbeat heartbeat;
    struct lli_tx_due due;
    struct lli_tx_answers answers;
    struct lli_tx_repair repair;
    struct lli_flow flow;
    struct lli_members members;
    struct lli_tx_group group;
    struct lli_slow slow;
    struct lli_ack ack;
    struct lli_tx_tokens tokens;
    struct lli_tx_topics topics;
    struct lli_tx_join join;
    struct lli_replay replay;
    struct lli_time_index time_index;
    struct lli_lvc lvc; /* in its own memory, once a topic has an LVC */
    struct lli_congestion congestion;
    lli_ns opened_at;
    struct lli_tx_counters counters;
};

/* Round trip assumed before one is measured. */
#define LLI_TX_RTT_UNKNOWN ((lli_ns)100000)

/* A session younger than this is received from its first packet by receivers that discover it. */
#define LLI_TX_YOUNG ((lli_ns)1000000000)

/*
 * Places the session in the arena and, unless the arena only measures, starts it. The first heartbeat is due
 * at once.
 */
void lli_tx_init(struct lli_tx *tx, const struct lli_tx_config *config, struct lli_arena *arena, lli_ns now);

/* Returns the length of the longest message that the history can hold. */
uint64_t lli_tx_message_max(const struct lli_tx *tx);

/*
 * Adds a topic and announces it; its name must outlive the session. Returns LLM_OK, LLM_ELIMIT or LLM_EAGAIN.
 */
int lli_tx_topic_add(struct lli_tx *tx, const char *name, uint32_t *id);

/*
 * Likewise for a topic without history; its name has to be LLI_WIRE_NAME_FLAGS bytes shorter than the
 * maximum.
 */
int lli_tx_topic_add_transient(struct lli_tx *tx, const char *name, uint32_t *id);

/* Like lli_ack_set(), and adds the topic if it is not assured yet. False: LLI_WIRE_ASSURED_MAX topics are. */
bool lli_tx_assure(struct lli_tx *tx, struct lli_ack_topic *topic, const struct lli_ack_rule *rule,
                   struct lli_ack_message *ring, uint64_t places);

/* Notes that the latest message, of an assured topic that allowed it, starts in this packet or later. */
void lli_tx_assured(struct lli_tx *tx, struct lli_ack_topic *topic, lli_seq seq, uint64_t size);

/*
 * Gives a topic an LVC from now on: lli_lvc_add(). memory: for lli_lvc_init(), if the topic is the session's
 * first one with an LVC.
 */
void lli_tx_lvc_begin(struct lli_tx *tx, struct lli_lvc_topic *topic, struct lli_arena *memory);

/* Stores the latest message packed, with its attributes or NULL, in the LVC of its topic. */
void lli_tx_lvc_add(struct lli_tx *tx, struct lli_lvc_topic *topic,
                    const struct lli_pack_attributes *attributes, const struct iovec *pieces, uint32_t size);

/* First packet that must stay in place: not yet sent, or in use by the transport. */
static inline lli_seq lli_tx_busy(const struct lli_tx *tx)
{
    return lli_min(tx->sent, tx->inflight.first);
}

/* ------------------------------------------------------------------------------------------ packets in */

/* Notes that a receiver has left and had taken all packets before `next`. */
void lli_tx_leave(struct lli_tx *tx, uint64_t receiver, lli_seq next);

/* Handles a packet with this session's tag, whose header was read. */
void lli_tx_input(struct lli_tx *tx, const struct lli_wire_header *header, const uint8_t *body, size_t size,
                  lli_ns now);

/* ----------------------------------------------------------------------------------------- packets out */

/* True if a rate paces packets: the clock is read before each is sent. */
static inline bool lli_tx_is_paced(const struct lli_tx *tx)
{
    return lli_flow_is_metered(&tx->flow);
}

/* Part of lli_tx_ready() for paced sending. */
int lli_tx_ready_paced(struct lli_tx *tx, lli_ns now, int max);

/* True if packed data waits to be sent. Data before an open claim does not count. */
static inline bool lli_tx_is_waiting(const struct lli_tx *tx)
{
    return tx->sent < tx->history.next || (lli_pack_pending(&tx->pack) && tx->pack.claim == NULL);
}

/*
 * Part of lli_tx_seal() for flow control and limits: true if the open packet could be sent after all sealed
 * ones.
 */
bool lli_tx_may_leave(struct lli_tx *tx, lli_ns now);

/*
 * Seals the open packet before the sealed packets are sent, unless flow control would block it: then it takes
 * more messages. now: as for lli_tx_ready().
 */
static inline void lli_tx_seal(struct lli_tx *tx, lli_ns now)
{
    if (tx->flow.blocking == LLI_FLOW_OPEN || lli_tx_may_leave(tx, now))
        lli_pack_flush(&tx->pack);
}

/*
 * Returns how many of the sealed, unsent packets may be sent, oldest first, at most max. lli_tx_packet()
 * returns each of them. More may follow once these were sent (lli_tx_may_follow()).
 */
static inline int lli_tx_ready(struct lli_tx *tx, lli_ns now, int max)
{
    const lli_seq end = lli_min(tx->history.next, tx->flow.limit);

    if (end <= tx->sent)
        return 0;
    if (lli_tx_is_paced(tx))
        return lli_tx_ready_paced(tx, now, max);
    return (int)lli_min(end - tx->sent, (uint64_t)max);
}

static inline struct lli_packet lli_tx_packet(const struct lli_tx *tx, int index)
{
    const struct lli_history_slot *slot = lli_history_slot(&tx->history, tx->sent + (unsigned)index);

    return (struct lli_packet){.data = lli_history_bytes(&tx->history, slot), .size = slot->size};
}

/*
 * True if more packets may be sent after these `count`, of which the transport took `taken`: they were the most
 * at a time, or allowed later ones (ADR 69).
 */
static inline bool lli_tx_may_follow(const struct lli_tx *tx, int count, int taken)
{
    return taken == count && count > 0 && tx->sent < tx->history.next;
}

/* Returns the packets of lli_tx_ready(), as a list. */
int lli_tx_unsent(struct lli_tx *tx, lli_ns now, struct lli_packet *packets, int max);

/*
 * Notes that the transport took `count` of them. now LLI_NEVER: lli_tx_sent_at() supplies the time later; not
 * allowed with a pace.
 */
void lli_tx_sent(struct lli_tx *tx, int count, lli_ns now);

/* For callers that delay no packet by reading the clock. */
static inline void lli_tx_sent_at(struct lli_tx *tx, lli_ns now)
{
    /*
     * Tail loss: a heartbeat follows soon, unless more data does; while data flows, one every heartbeat_busy.
     */
    lli_ns at =
        lli_min(now + tx->heartbeat.first, lli_max(tx->heartbeat.last + tx->config.heartbeat_busy, now));

    if (tx->heartbeat.fixed)
        at = tx->heartbeat.ended ? now : lli_min(tx->heartbeat.at, at);
    tx->heartbeat.at = at;
}

/*
 * Limits on packets blocked by flow control, beyond which messages are refused: a number of packets and, for
 * full packets, of bytes, since all of them delay the next message. In a small history, a quarter of it:
 * blocked packets must not displace those sent within the window, which is half of the history.
 */
#define LLI_TX_BLOCKED_MAX ((uint64_t)256)
#define LLI_TX_BLOCKED_MIN ((uint64_t)4)
#define LLI_TX_BLOCKED_BYTES ((uint64_t)393216)
#define LLI_TX_BLOCKED_SHARE 4

/* True if flow control blocks so many packets that no more messages should be packed. */
static inline bool lli_tx_is_blocked(const struct lli_tx *tx)
{
    return tx->flow.blocking != LLI_FLOW_OPEN &&
           tx->history.next - tx->sent >=
               lli_min(tx->blocked_max, tx->history.packets_free / LLI_TX_BLOCKED_SHARE);
}

/* Sets the rate limits of new data and of repairs; 0: no limit. */
void lli_tx_rate(struct lli_tx *tx, uint64_t bytes_per_s, uint64_t repair_bytes_per_s, lli_ns now);

/*
 * Schedules a wake-up at this time, in addition to the pending deadline: lli_tx_deadline() returns the
 * earlier one.
 */
void lli_tx_wake_at(struct lli_tx *tx, lli_ns at, lli_ns now);

/*
 * Returns the next repair that the budget allows; false if none. lli_tx_repaired() counts it as sent, so call
 * this only when the transport has room.
 */
bool lli_tx_repair(struct lli_tx *tx, lli_ns now, struct lli_packet *packet);
void lli_tx_repaired(struct lli_tx *tx, lli_ns now);

/* Time at which budget and rate limit allow the next repair. */
lli_ns lli_tx_repair_ready_at(const struct lli_tx *tx);

/*
 * Returns the next replay packet for a late joiner, once no repair waits; false if there is none, or the
 * budget does not allow it. lli_tx_replayed() counts it as sent.
 */
bool lli_tx_replay(struct lli_tx *tx, lli_ns now, struct lli_packet *packet);
void lli_tx_replayed(struct lli_tx *tx);

/* Likewise for LVC messages, built in buffer as by lli_tx_control(). It counts as sent. */
bool lli_tx_replay_lvc(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size,
                       struct lli_packet *packet);

/*
 * Builds the next heartbeat, notice, reject or answer that is due, in buffer of at least LLI_WIRE_CONTROL_MAX
 * bytes; false if none is. It counts as sent.
 */
bool lli_tx_control(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size, struct lli_packet *packet);

/* True if lli_tx_event() may return an event. */
static inline bool lli_tx_has_events(const struct lli_tx *tx)
{
    return tx->slow.unreported || tx->ack.unreported || tx->congestion.unreported;
}

/*
 * Returns the next event about receivers; false if there is none. Its verdict is valid until the next call.
 */
bool lli_tx_event(struct lli_tx *tx, struct llm_event *event);

/*
 * Returns reasons for reduced service, a bit each of enum lli_wire_join_reason, that are new since the
 * previous call.
 */
unsigned lli_tx_take_crowded(struct lli_tx *tx);

/* Operator's orders, see lli_slow_suspend(). */
bool lli_tx_suspend(struct lli_tx *tx, uint64_t receiver, bool suspend, lli_ns now);
void lli_tx_suspend_all(struct lli_tx *tx, bool suspend, lli_ns now);

/* Changes the address at which receivers reach the session; the next heartbeat, due at once, announces it. */
static inline void lli_tx_move(struct lli_tx *tx, const struct lli_wire_address *address, lli_ns now)
{
    tx->config.address = *address;
    tx->heartbeat.at = now;
}

/*
 * Notes how long sending the latest heartbeat took, which sets the interval to the first heartbeat after
 * later data (ADR 14).
 */
void lli_tx_heartbeat_took(struct lli_tx *tx, lli_ns took);

/* Notes that the transport is done with every packet that it took before the previous call, or with all. */
static inline void lli_tx_reaped(struct lli_tx *tx, bool all)
{
    tx->inflight.first = all ? tx->inflight.first_idle : tx->inflight.first_young;
    tx->inflight.first_young = tx->inflight.first_idle;
}

/* Part of lli_tx_deadline() for packets waiting to be sent. */
lli_ns lli_tx_deadline_waiting(const struct lli_tx *tx);

/* Time at which something is due; LLI_NEVER if nothing is. */
static inline lli_ns lli_tx_deadline(const struct lli_tx *tx)
{
    if (tx->sent < tx->history.next || tx->answers.head != tx->answers.tail || lli_pack_pending(&tx->pack) ||
        lli_repair_queued(&tx->repair.queue) > 0)
        return lli_tx_deadline_waiting(tx);
    return lli_min(tx->heartbeat.at, tx->due.slow_at);
}

/* ------------------------------------------------------------------------------------------------- end */

/* Seals the open packet and announces the end of the session from now on. */
void lli_tx_end(struct lli_tx *tx, lli_ns now);

/* True if the end was announced and every known receiver has everything. */
bool lli_tx_drained(const struct lli_tx *tx);

#endif
