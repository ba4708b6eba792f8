/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers that join late and are sent the past: who waits for what (docs/protocol.md section 12).
 *
 * Each has one place, and one request: a newer one takes the place of the one before, so that asking again and again makes
 * no more work. Packets go one by one to each in turn, on a budget of their own. A place is free again when all was sent.
 */
#ifndef LLI_REPLAY_H
#define LLI_REPLAY_H

#include "core/base/arena.h"
#include "core/base/pacer.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

/* Receivers served at a time; others ask again. */
enum { LLI_REPLAY_PLACES = 1024 };

struct lli_replay_range {
    lli_seq first;
    lli_seq end;
};

struct lli_replay_place {
    struct lli_wire_address address;
    bool asked;     /* where to begin: the answer is to be sent */
    bool gone;      /* what it asked for is no longer kept: it is to be told */
    uint8_t from;   /* as asked */
    uint8_t at;     /* the range whose packets go next */
    uint8_t count;  /* of the ranges */
    uint64_t value; /* as asked */
    lli_seq live;   /* packets before this one are not for it if nothing in them is of a topic with history */
    struct lli_replay_range ranges[LLI_WIRE_FETCH_MAX];
};

struct lli_replay {
    struct lli_pacer pacer;
    struct lli_replay_place *places;
    uint64_t *receivers; /* by place */
    uint32_t count;      /* places in use, the first ones */
    uint32_t turn;       /* whose packet goes next */
    uint32_t telling;    /* places with something to tell */
    uint32_t fetching;   /* places with packets to send */
};

void lli_replay_init(struct lli_replay *replay, uint64_t bytes_per_s, struct lli_arena *arena, lli_ns now);

/* A receiver (not 0) asks where to begin. False if there is no place for it. */
bool lli_replay_ask(struct lli_replay *replay, uint64_t receiver, const struct lli_wire_join *join);

/* A receiver asks for packets; those at sent or beyond are not sent again. False if there is no place for it. */
bool lli_replay_fetch(struct lli_replay *replay, uint64_t receiver, const struct lli_wire_join *join, lli_seq sent);

/* Whose packet goes next, and which: one at or behind trail; false if none does. */
bool lli_replay_peek(struct lli_replay *replay, lli_seq trail, lli_seq *seq, const struct lli_wire_address **address);

/* Where what is live begins for the receiver that lli_replay_peek() named; 0: not said. */
static inline lli_seq lli_replay_live(const struct lli_replay *replay)
{
    return replay->places[replay->turn].live;
}

/* What lli_replay_peek() gave was sent. */
void lli_replay_pop(struct lli_replay *replay);

/* The receiver at this place is neither told nor sent anything; its place is free. */
void lli_replay_drop(struct lli_replay *replay, uint32_t index);

/* The next receiver that is to be told something, and what: asked or gone of *place, never both. False if there is none. */
bool lli_replay_tell(struct lli_replay *replay, uint64_t *receiver, struct lli_replay_place *place);

#endif
