/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session as its transmitter runs it: packs messages, keeps the history, sends heartbeats, answers NAKs, status reports and
 * queries. A pure state machine: packets and the time go in, packets to send are pulled out.
 */
#ifndef LLI_TX_SESSION_H
#define LLI_TX_SESSION_H

#include "core/ack/ack.h"
#include "core/flow/flow.h"
#include "core/pack/history.h"
#include "core/slow/slow.h"
#include "core/lvc/store.h"
#include "core/join/time_index.h"
#include "core/flow/members.h"
#include "core/base/pacer.h"
#include "core/pack/pack.h"
#include "core/tx/repair.h"
#include "core/join/replay.h"
#include "core/tx/token.h"
#include "core/wire/wire.h"

/* X(name, text) */
#define LLI_TX_COUNTERS(X)                                                                                                 \
    X(packets_sent, "packets of every kind sent")                                                                          \
    X(bytes_sent, "bytes of them, as the transport carries them")                                                          \
    X(packets_data, "data packets sent for the first time")                                                                \
    X(packets_repaired, "data packets sent again")                                                                         \
    X(repairs_multicast, "of these, to the group")                                                                         \
    X(repairs_held, "repairs that waited for the limit of their rate")                                                     \
    X(packets_replayed, "data packets sent to receivers that join late")                                                   \
    X(packets_passed, "data packets not sent to these, as all in them is of topics without history")                       \
    X(heartbeats_sent, "heartbeats sent")                                                                                  \
    X(rejects_sent, "rejects and confirmations of NAKs sent")                                                              \
    X(topics_sent, "answers to queries sent")                                                                              \
    X(naks_received, "NAKs received")                                                                                      \
    X(nak_packets, "packets that NAKs asked for")                                                                          \
    X(nak_packets_ignored, "of these, asked again too soon, or queued already")                                            \
    X(nak_packets_gone, "of these, no longer in the history")                                                              \
    X(nak_packets_unreliable, "of these, of unreliable topics: not repaired, and counted against nobody")                  \
    X(nak_packets_beyond, "of these, never sent")                                                                          \
    X(nak_packets_unconfirmed, "of these, not repaired as too many were asked for by receivers that have not sent a token back") \
    X(naks_shed, "NAKs not answered: of suspended receivers, or by the operator's order")                                  \
    X(repairs_shed, "repairs that waited and were dropped for the same, or as who asked had left")                         \
    X(notices_sent, "notices sent to slow receivers")                                                                      \
    X(receivers_warned, "warnings of slow receivers")                                                                      \
    X(receivers_unicast, "times that a slow receiver was left to unicast repairs")                                         \
    X(receivers_suspended, "suspensions of slow receivers")                                                                \
    X(receivers_expelled, "expulsions of slow receivers")                                                                  \
    X(receivers_readmitted, "slow receivers that were served as all others again")                                         \
    X(status_received, "status reports received")                                                                          \
    X(queries_received, "topic queries received")                                                                          \
    X(tokens_sent, "tokens sent to receivers, to be sent back from the addresses that they say are theirs")                \
    X(requests_unconfirmed, "reports and requests that had no effect, as they came without the token for their address")   \
    X(joins_received, "requests of receivers that join late, where to begin")                                              \
    X(joins_granted, "answers that said where")                                                                            \
    X(joins_refused, "answers that it cannot be done")                                                                     \
    X(fetches_received, "requests for packets of the past")                                                                \
    X(messages_kept, "copies of messages taken, of topics that keep their last ones")                                       \
    X(kept_fetches_received, "requests for such messages, of receivers that join late")                                    \
    X(kept_packets_sent, "packets of them sent")                                                                           \
    X(joins_shed, "requests of either kind not answered: of suspended receivers, or by the operator's order")               \
    X(joins_dropped, "requests of either kind dropped because too many receivers were being served")                       \
    X(receivers_joined, "receivers that became known")                                                                     \
    X(receivers_left, "receivers that said they leave")                                                                    \
    X(receivers_lost, "receivers not heard for long")                                                                      \
    X(receivers_refused, "reports of receivers beyond receivers_max")                                                      \
    X(messages_assured, "messages sent that are to be acknowledged")                                                        \
    X(acknowledgements_refused, "acknowledgements of messages that were not sent, or by receivers beyond receivers_max")   \
    X(send_unacknowledged, "messages refused because too many before them were not acknowledged")                          \
    X(answers_dropped, "rejects and answers not sent because too many were waiting")                                       \
    X(control_malformed, "control packets that contradict themselves")                                                     \
    X(control_foreign, "control packets with another session's identity")                                                  \
    X(send_again, "messages refused because the history was full of unsent packets, or flow control held them")            \
    X(send_held, "of these, because flow control waited for receivers")                                                    \
    X(send_rated, "because of a rate limit")                                                                               \
    X(send_kept, "because messages that are not acknowledged fill the history")                                            \
    X(send_blocked, "because the transport took no more")

struct lli_tx_counters {
#define LLI_TX_COUNTER_FIELD(name, text) uint64_t name;
    LLI_TX_COUNTERS(LLI_TX_COUNTER_FIELD)
#undef LLI_TX_COUNTER_FIELD
};

/* A packet to send: to an address, or to the group if that is NULL. Valid until the session is used again. */
struct lli_packet {
    const uint8_t *data;
    uint32_t size;
    const struct lli_wire_address *to;
};

struct lli_tx_config {
    uint64_t session; /* random */
    uint64_t seed;    /* random, and told nobody */
    struct lli_history_config history;
    uint32_t receivers_max;
    uint32_t topics_max;
    uint32_t nak_receivers_immediate;
    uint32_t repair_percent;
    uint64_t repair_bytes_per_s;
    uint64_t repair_rate; /* repairs are never faster, 0: no limit */
    lli_ns repair_linger;
    uint64_t replay_bytes_per_s;
    lli_ns history_ns; /* older packets count as gone, 0: none do */
    lli_ns heartbeat_min;
    lli_ns heartbeat_max;
    lli_ns heartbeat_busy;
    lli_ns status;
    struct lli_flow_config flow;
    struct lli_slow_policy slow; /* its status is that above */
    bool tells_limits; /* what receivers report to be limited by is told the application */
    bool confirms;     /* receivers count, and are sent more than a token, when they have sent that back */
    struct lli_token_key key;
    struct lli_wire_address address; /* where receivers reach the session */
};

/* Rejects and answers that wait to be sent. */
enum { LLI_TX_ANSWERS = 32 };

struct lli_tx_answer {
    bool is_topics;
    bool to_group;
    uint32_t topics_first;
    struct lli_wire_address to;
    struct lli_wire_reject reject;
};

/* Repairs that receivers which are not confirmed can ask for, all of them together: they go to the group. */
#define LLI_TX_UNCONFIRMED_BYTES_PER_S ((uint64_t)1 << 20)
#define LLI_TX_UNCONFIRMED_BURST ((uint64_t)128 << 10)

/* Tokens that wait to be sent. */
enum { LLI_TX_TOKENS = 256 };

struct lli_tx_token {
    uint64_t receiver;
    uint64_t value; /* receivers that are known, or being served, by reason */
    enum lli_wire_join_reason reason;
    struct lli_wire_address to;
};

/* The first packet that the transport may still read, or that is kept for acknowledgements; UINT64_MAX: none. */
struct lli_tx_inflight {
    lli_seq first;
    lli_seq first_young; /* the same of those that it took since the latest lli_tx_reaped() */
};

struct lli_tx {
    struct lli_tx_config config;
    struct lli_history history;
    struct lli_pack pack;
    struct lli_repair repair;
    struct lli_pacer repair_pacer;
    uint32_t repair_share; /* of the bytes of new data, in 65536ths, repairs may take so many */
    struct lli_pacer repair_limit; /* with config.repair_rate */
    bool repair_waits; /* for that */
    struct lli_replay replay;
    struct lli_wire_address told; /* whom the latest answer of a late join goes to */
    struct lli_time_index time_index;
    struct lli_members members;
    struct lli_flow flow;
    struct lli_slow slow;
    const char **topics; /* names by id, the caller's */
    uint8_t *topic_flags; /* by id, of enum lli_wire_topic_flags */
    uint32_t topics_count;
    lli_seq sent;     /* the first packet not yet given to the transport */
    uint64_t held_max; /* packets that flow control may hold back */
    struct lli_tx_inflight inflight;
    struct lli_tx_inflight idle; /* what that is when the transport is done with every packet */
    lli_ns opened_at;
    lli_ns rtt;       /* the group's */
    const struct lli_member *furthest; /* whose it is, if that is still there; NULL: not known */
    lli_ns heartbeat_at;
    lli_ns heartbeat_last;
    lli_ns heartbeat_first; /* follows the last packet after this */
    lli_ns heartbeat_interval;
    lli_ns expire_at;
    lli_ns look_at;   /* members are looked at: they may have expired, or are to be judged */
    lli_ns replay_at; /* when something is due for those who join late ... */
    lli_ns kept_at;   /* ... of what is kept by topic, included in that */
    lli_ns slow_at;   /* the sooner of these two */
    lli_ns wake_at;   /* the application may send again, of what a limit refused; members are looked at then, too */
    bool flowing;     /* data went out since the last heartbeat */
    bool followed;    /* ... since the one before that */
    bool ended;
    uint32_t ends_sent; /* heartbeats that said so */
    lli_seq taken;    /* packets before this one had the receiver that left last */
    struct lli_tx_answer *answers;
    uint32_t answers_head;
    uint32_t answers_tail;
    struct lli_tx_token *tokens;
    uint32_t tokens_head;
    uint32_t tokens_tail;
    uint8_t crowded;      /* reasons for which receivers were told that they are served less, a bit each ... */
    uint8_t crowded_told; /* ... and those that were logged; the caller's */
    struct lli_pacer unconfirmed; /* repairs that were asked for by receivers that are not confirmed */
    struct lli_tx_counters counters;
    struct lli_ack ack;
    struct lli_lvc lvc; /* in memory of its own, once a topic keeps messages */
    bool limits_untold; /* some receiver is limited by something else than was told; judge.untold is set, too */
    struct llm_bottleneck limits_told; /* the latest */
};

/* Round trip assumed before one is measured. */
#define LLI_TX_RTT_UNKNOWN ((lli_ns)100000)

/* A session younger than this is received from its first packet by those who hear of it. */
#define LLI_TX_YOUNG ((lli_ns)1000000000)

/*
 * Places the session in the arena and, unless that only measures, starts it. The first heartbeat is due at once.
 */
void lli_tx_init(struct lli_tx *tx, const struct lli_tx_config *config, struct lli_arena *arena, lli_ns now);

/* The longest message that the history can hold. */
uint64_t lli_tx_message_max(const struct lli_tx *tx);

/* Adds a topic and announces it; its name must outlive the session. LLM_OK, LLM_ELIMIT or LLM_EAGAIN. */
int lli_tx_topic_add(struct lli_tx *tx, const char *name, uint32_t *id);

/* The same of a topic without history; its name is shorter than others by LLI_WIRE_NAME_FLAGS. */
int lli_tx_topic_add_transient(struct lli_tx *tx, const char *name, uint32_t *id);

/* As lli_ack_set(), adding the topic if that was not done yet. False: there are LLI_WIRE_ASSURED_MAX. */
bool lli_tx_assure(struct lli_tx *tx, struct lli_ack_topic *topic, const struct lli_ack_rule *rule, struct lli_ack_message *ring,
                   uint64_t places);

/* The latest message, of an assured topic that allowed it, starts in this packet or later. */
void lli_tx_assured(struct lli_tx *tx, struct lli_ack_topic *topic, lli_seq seq, uint64_t size);

/* Messages of a topic are kept from now on: lli_lvc_add(). memory: for lli_lvc_init(), where no topic of the session keeps any yet. */
void lli_tx_lvc_begin(struct lli_tx *tx, struct lli_lvc_topic *topic, struct lli_arena *memory);

/* The latest message that was packed, with these attributes or NULL, is of a topic that keeps it. */
void lli_tx_lvc_add(struct lli_tx *tx, struct lli_lvc_topic *topic, const struct lli_pack_attributes *attributes,
                 const struct iovec *pieces, uint32_t size);

/* Packets that must stay where they are start here. */
static inline lli_seq lli_tx_busy(const struct lli_tx *tx)
{
    return lli_min(tx->sent, tx->inflight.first);
}

/* ------------------------------------------------------------------------------------------ packets in */

/* A receiver has left, and had taken all packets before this one. */
void lli_tx_leave(struct lli_tx *tx, uint64_t receiver, lli_seq next);

/* Takes a packet with this session's tag whose header was read. */
void lli_tx_input(struct lli_tx *tx, const struct lli_wire_header *header, const uint8_t *body, size_t size, lli_ns now);

/* ----------------------------------------------------------------------------------------- packets out */

/* Whether packets leave at a pace, which takes the time before each is sent. */
static inline bool lli_tx_is_paced(const struct lli_tx *tx)
{
    return lli_flow_is_metered(&tx->flow);
}

/* The part of lli_tx_ready() for a pace. */
int lli_tx_ready_paced(struct lli_tx *tx, lli_ns now, int max);

/* Whether anything packed waits to be sent. What lies before an open claim does not count. */
static inline bool lli_tx_is_waiting(const struct lli_tx *tx)
{
    return tx->sent < tx->history.next || (lli_pack_pending(&tx->pack) && tx->pack.claim == NULL);
}

/* The part of lli_tx_seal() for flow control and limits: whether the open packet could be sent behind all that are sealed. */
bool lli_tx_may_leave(struct lli_tx *tx, lli_ns now);

/*
 * Seals the open packet before the sealed packets are sent, unless it would be held back: then more messages go into it. now: as for
 * lli_tx_ready().
 */
static inline void lli_tx_seal(struct lli_tx *tx, lli_ns now)
{
    if (tx->flow.hold == LLI_FLOW_OPEN || lli_tx_may_leave(tx, now))
        lli_pack_flush(&tx->pack);
}

/* How many of the sealed packets not sent yet may go, oldest first, at most max; and each of them. */
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

/* The same in a list. */
int lli_tx_unsent(struct lli_tx *tx, lli_ns now, struct lli_packet *packets, int max);

/* So many of them were taken by the transport. now LLI_NEVER: lli_tx_sent_at() says later when that was; not with a pace. */
void lli_tx_sent(struct lli_tx *tx, int count, lli_ns now);

/* For those who let no packet wait for a reading of the clock. */
static inline void lli_tx_sent_at(struct lli_tx *tx, lli_ns now)
{
    /* Tail loss: a heartbeat follows soon, unless more data does; while data flows, one every heartbeat_busy. */
    tx->heartbeat_at = lli_min(now + tx->heartbeat_first, lli_max(tx->heartbeat_last + tx->config.heartbeat_busy, now));
    if (tx->ended)
        tx->heartbeat_at = now;
}

/*
 * Unsent packets, when flow control holds them, beyond which messages are refused: so many, and so many bytes of full ones, as all of them
 * delay the message behind them. Of a small history a quarter: they must not take the place of what was sent within the window,
 * which is half of it.
 */
#define LLI_TX_HELD ((uint64_t)256)
#define LLI_TX_HELD_LEAST ((uint64_t)4)
#define LLI_TX_HELD_BYTES ((uint64_t)393216)
#define LLI_TX_HELD_SHARE 4

/* Whether flow control holds so many packets back that no more messages should be packed. */
static inline bool lli_tx_is_held(const struct lli_tx *tx)
{
    return tx->flow.hold != LLI_FLOW_OPEN &&
           tx->history.next - tx->sent >= lli_min(tx->held_max, tx->history.packets_free / LLI_TX_HELD_SHARE);
}

/* Limits the rates of new data and of repairs from now on; 0: no limit. */
void lli_tx_rate(struct lli_tx *tx, uint64_t bytes_per_s, uint64_t repair_bytes_per_s, lli_ns now);

/* Something is due then: who sleeps until lli_tx_deadline() wakes up for it, and for what was due before. */
void lli_tx_wake_at(struct lli_tx *tx, lli_ns at, lli_ns now);

/*
 * The next repair that the budget allows; false if none. It counts as sent by lli_tx_repaired(), so ask only when the transport has room.
 */
bool lli_tx_repair(struct lli_tx *tx, lli_ns now, struct lli_packet *packet);
void lli_tx_repaired(struct lli_tx *tx, lli_ns now);

/* When the budget and the limit of their rate allow the next one. */
lli_ns lli_tx_repair_ready_at(const struct lli_tx *tx);

/*
 * The next packet of the past for a receiver that joins late, once no repair waits; false if there is none, or the budget
 * does not allow it. It counts as sent by lli_tx_replayed().
 */
bool lli_tx_replay(struct lli_tx *tx, lli_ns now, struct lli_packet *packet);
void lli_tx_replayed(struct lli_tx *tx);

/*
 * The same of messages that topics keep, built in buffer as lli_tx_control() does: it counts as sent.
 */
bool lli_tx_replay_lvc(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size, struct lli_packet *packet);

/*
 * Builds the next heartbeat, notice, reject or answer that is due in buffer, which has at least LLI_WIRE_CONTROL_MAX
 * bytes; false if none is. It counts as sent.
 */
bool lli_tx_control(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size, struct lli_packet *packet);

/* Whether lli_tx_event() may have something. */
static inline bool lli_tx_has_events(const struct lli_tx *tx)
{
    return tx->slow.untold || tx->ack.untold;
}

/* What the application has not been told of receivers; false if that is nothing. Its verdict is valid until the next call. */
bool lli_tx_event(struct lli_tx *tx, struct llm_event *event);

/* The operator's switch, see lli_slow_shed(). */
bool lli_tx_shed(struct lli_tx *tx, uint64_t receiver, bool on, lli_ns now);

/* Receivers reach the session at another address from now on: the next heartbeat, which is due at once, says so. */
static inline void lli_tx_move(struct lli_tx *tx, const struct lli_wire_address *address, lli_ns now)
{
    tx->config.address = *address;
    tx->heartbeat_at = now;
}

/* Sending the latest heartbeat took so long: the first one behind data that is yet to come keeps its distance (ADR 14). */
void lli_tx_heartbeat_took(struct lli_tx *tx, lli_ns took);

/* The transport is done with every packet that it took before the latest call, or with all. */
static inline void lli_tx_reaped(struct lli_tx *tx, bool all)
{
    if (all) {
        tx->inflight = tx->idle;
    } else {
        tx->inflight.first = tx->inflight.first_young;
        tx->inflight.first_young = tx->idle.first_young;
    }
}

/* The part of lli_tx_deadline() for what waits to be sent. */
lli_ns lli_tx_deadline_waiting(const struct lli_tx *tx);

/* When something is due; LLI_NEVER if nothing is. */
static inline lli_ns lli_tx_deadline(const struct lli_tx *tx)
{
    if (tx->sent < tx->history.next || tx->answers_head != tx->answers_tail || lli_pack_pending(&tx->pack) ||
        lli_repair_queued(&tx->repair) > 0)
        return lli_tx_deadline_waiting(tx);
    return lli_min(tx->heartbeat_at, tx->slow_at);
}

/* ------------------------------------------------------------------------------------------------- end */

/* Seals what is packed and announces the end from now on. */
void lli_tx_end(struct lli_tx *tx, lli_ns now);

/* Whether the end was announced and every known receiver has everything. */
bool lli_tx_drained(const struct lli_tx *tx);

#endif
