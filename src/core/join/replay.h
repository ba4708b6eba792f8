/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay of the history to late joiners: the requests waiting to be answered (docs/protocol.md section 12).
 *
 * Each receiver has one entry with one request, and a newer request replaces it, so repeated requests make no
 * more work. Receivers take turns, one packet each, on a budget of their own. An entry is freed when all was
 * sent.
 */
#ifndef LLI_REPLAY_H
#define LLI_REPLAY_H

#include "core/base/arena.h"
#include "core/base/pacer.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

/* Receivers served at a time; others retry. */
enum { LLI_REPLAY_PLACES = 1024 };

struct lli_replay_range {
    lli_seq first;
    lli_seq end;
};

struct lli_replay_place {
    struct lli_wire_address address;
    bool requested; /* a start position was requested: an answer is due */
    bool gone;      /* requested packets no longer in the history: a REJECT is due */
    uint8_t from;   /* from the request */
    uint8_t at;     /* range that is sent next */
    uint8_t count;  /* number of ranges */
    uint64_t value; /* from the request */
    /* Packets before this one are skipped if they hold only messages of topics without history. */
    lli_seq live;
    struct lli_replay_range ranges[LLI_WIRE_FETCH_MAX];
};

struct lli_replay {
    struct lli_pacer pacer;
    struct lli_replay_place *places;
    uint64_t *receivers; /* by entry */
    uint32_t count;      /* entries in use, the first ones */
    uint32_t turn;       /* entry whose packet is sent next */
    uint32_t answering;  /* entries with an answer due */
    uint32_t fetching;   /* entries with packets to send */
};

void lli_replay_init(struct lli_replay *replay, uint64_t bytes_per_s, struct lli_arena *arena, lli_ns now);

/* Queues a receiver's (not 0) question where to begin. False: no free entry. */
bool lli_replay_join(struct lli_replay *replay, uint64_t receiver, const struct lli_wire_join *join);

/* Queues a receiver's request for packets; those at `sent` or beyond are not sent. False: no free entry. */
bool lli_replay_fetch(struct lli_replay *replay, uint64_t receiver, const struct lli_wire_join *join,
                      lli_seq sent);

/* Returns the next packet to send, at or after trail, and its destination; false if there is none. */
bool lli_replay_peek(struct lli_replay *replay, lli_seq trail, lli_seq *seq,
                     const struct lli_wire_address **address);

/* Start of live data for the receiver named by lli_replay_peek(); 0: not given. */
static inline lli_seq lli_replay_live(const struct lli_replay *replay)
{
    return replay->places[replay->turn].live;
}

/* Notes that the packet returned by lli_replay_peek() was sent. */
void lli_replay_pop(struct lli_replay *replay);

/*
 * Skips the packet returned by lli_replay_peek(), and those after it in its range before end. Returns whose
 * they are and which.
 */
void lli_replay_skip(struct lli_replay *replay, lli_seq end, uint64_t *receiver,
                     struct lli_wire_address *address, struct lli_wire_range *skipped);

/* Drops the request at this index and frees its entry. */
void lli_replay_drop(struct lli_replay *replay, uint32_t index);

/*
 * Returns the next receiver to answer, with `requested` or `gone` set in *place, never both. False if there
 * is none.
 */
bool lli_replay_answer(struct lli_replay *replay, uint64_t *receiver, struct lli_replay_place *place);

#endif
