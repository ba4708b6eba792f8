/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of a store to receivers that lack a part of a session (docs/protocol.md section 12.5): which
 * position is offered, which recorded packet is sent next and to whom, which are named as absent.
 *
 * One structure serves one recorded session. It does no input or output: the driver looks positions up in the
 * recording, reads packets and posts them.
 */
#ifndef LLI_ANSWERS_H
#define LLI_ANSWERS_H

#include "core/base/arena.h"
#include "core/base/pacer.h"
#include "core/join/replay.h"
#include "core/wire/packet.h"
#include "core/wire/token.h"
#include "core/wire/wire.h"

enum {
    LLI_ANSWERS_QUEUE = 64,           /* OFFERs and ABSENTs that wait; others are dropped */
    LLI_ANSWERS_SEEKS = 64,           /* positions to be looked up, likewise */
    LLI_ANSWERS_UNCONFIRMED = 1024,   /* answers a second to addresses that are not confirmed ... */
    LLI_ANSWERS_UNCONFIRMED_MAX = 256 /* ... and at once */
};

/* Distance of OFFERs to the group. */
#define LLI_ANSWERS_ADVERT ((lli_ns)1000000000)

/* X(name, text) */
#define LLI_ANSWERS_COUNTERS(X)                                                     \
    X(seeks_received, "questions of receivers for the past received")               \
    X(recalls_received, "requests for recorded packets received")                   \
    X(store_requests_unconfirmed, "of both, from addresses that are not confirmed") \
    X(offers_sent, "answers that offer the past sent")                              \
    X(adverts_sent, "announcements of what is recorded sent to the group")          \
    X(absents_sent, "answers that a position, or packets, are not recorded")        \
    X(packets_recalled, "recorded packets sent to receivers")                       \
    X(bytes_recalled, "bytes of these packets")                                     \
    X(store_answers_dropped, "requests not answered, as too many came at a time; receivers ask again")

struct lli_answers_counters {
#define LLI_ANSWERS_COUNTER_FIELD(name, text) uint64_t name;
    LLI_ANSWERS_COUNTERS(LLI_ANSWERS_COUNTER_FIELD)
#undef LLI_ANSWERS_COUNTER_FIELD
};

struct lli_answers_config {
    uint64_t session;
    struct lli_wire_address address; /* of the store: receivers send RECALL to it */
    struct lli_token_key key;        /* random and secret */
    uint64_t replay_bytes_per_s;     /* budget of recorded packets */
    /* Budget of answers to unconfirmed addresses, shared by all sessions of a store. */
    struct lli_pacer *unconfirmed;
};

/* Recorded part of the session: packets [first, end), of which some may be lost. */
struct lli_answers_extent {
    lli_seq first;
    uint64_t first_number; /* of the first message that starts in that packet or later */
    lli_seq end;
    uint64_t end_number; /* likewise */
    bool ended;          /* nothing is recorded any more */
};

/* A position that a receiver asks for. */
struct lli_answers_seek {
    uint64_t receiver;
    struct lli_wire_address address;
    uint8_t from;   /* enum llm_join_mode, as asked ... */
    uint64_t value; /* ... with it; for TIME ns before `at` */
    lli_ns at;
};

/* An answer that waits to be sent. */
struct lli_answers_answer {
    uint64_t receiver;
    struct lli_wire_address address;
    uint64_t value;
    lli_seq packet;              /* OFFER with `from`: the first packet to recall ... */
    uint64_t number;             /* ... and the first message to deliver */
    struct lli_wire_range range; /* ABSENT: of these; count 0: what is not in the extent */
    uint8_t kind;
    uint8_t from;
    uint8_t reason;
};

struct lli_answers {
    struct lli_answers_config config;
    struct lli_answers_extent extent;
    struct lli_answers_counters counters;
    struct lli_replay replay;
    uint32_t run; /* packets sent in a row to the receiver whose turn it is */
    struct lli_answers_seek seeks[LLI_ANSWERS_SEEKS]; /* a ring, as is the next */
    struct lli_answers_answer queue[LLI_ANSWERS_QUEUE];
    uint32_t seeks_head, seeks_tail;
    uint32_t head, tail;
    lli_ns advert_every; /* 0: none is sent */
    lli_ns advert_at;
    struct lli_wire_address to; /* of the packet handed out last */
};

/* Prepares the budget of answers to unconfirmed addresses, in memory of the driver. */
void lli_answers_unconfirmed(struct lli_pacer *pacer, lli_ns now);

/* Places the tables in the arena. Nothing is recorded yet, and nothing is sent to the group. */
void lli_answers_init(struct lli_answers *answers, const struct lli_answers_config *config,
                      struct lli_arena *arena, lli_ns now);

/* Notes what is recorded now. A packet between first and end may be lost: lli_answers_lacks(). */
void lli_answers_recorded(struct lli_answers *answers, const struct lli_answers_extent *extent);

/*
 * Sends an OFFER to the group now, and every so often: LLI_ANSWERS_ADVERT, or more if the store records very
 * many sessions; 0: no more, as nothing of the session is recorded any longer.
 */
void lli_answers_advertise(struct lli_answers *answers, lli_ns every, lli_ns now);

/* Takes a JOIN of the session, of any kind. False: it is not for a store. */
bool lli_answers_input(struct lli_answers *answers, const struct lli_wire_join *join, lli_ns now);

/*
 * Returns the position to look up, the same one until lli_answers_found(): `from` is LLM_JOIN_NUMBER, with
 * the number of a recorded message in value, or LLM_JOIN_TIME. False: there is none.
 */
bool lli_answers_sought(const struct lli_answers *answers, struct lli_answers_seek *seek);

/*
 * Answers lli_answers_sought(): the packet in which the message starts or, by time, the last one before which
 * nothing arrived at that time or later; number: of the first message that starts in it or later.
 * found false: what was recorded at that time is no longer there.
 */
void lli_answers_found(struct lli_answers *answers, bool found, lli_seq packet, uint64_t number);

/*
 * Returns the recorded packet to send next and the address, valid until the next call; the same ones until
 * one of the following calls, unless a packet of a receiver is taken meanwhile. False: none is due.
 */
bool lli_answers_next(struct lli_answers *answers, lli_ns now, lli_seq *seq,
                      const struct lli_wire_address **to);

/*
 * One of these follows directly: lli_answers_sent() the packet was sent, lli_answers_lacks() it is lost and
 * so are all after it before `end`, lli_answers_defer() it has to be read first: others take their turn.
 */
void lli_answers_sent(struct lli_answers *answers, uint32_t size);
void lli_answers_lacks(struct lli_answers *answers, lli_seq end);
void lli_answers_defer(struct lli_answers *answers);

/* Builds the next OFFER or ABSENT in LLI_WIRE_CONTROL_MAX bytes; false: none is due. It counts as sent. */
bool lli_answers_control(struct lli_answers *answers, lli_ns now, uint8_t *buffer, struct lli_packet *packet);

/* Time at which lli_answers_next() or lli_answers_control() may have something; LLI_NEVER: none. */
lli_ns lli_answers_deadline(const struct lli_answers *answers);

#endif
