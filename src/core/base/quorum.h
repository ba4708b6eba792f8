/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value that so many of a set of values reach, kept up to date as single values change: two heaps, of the values that reach it and
 * of the others, so that a change takes time by the logarithm of their number.
 */
#ifndef LLI_QUORUM_H
#define LLI_QUORUM_H

#include "core/base/arena.h"
#include "core/base/types.h"

enum { LLI_QUORUM_REACH, LLI_QUORUM_OTHERS, LLI_QUORUM_HEAPS };

struct lli_quorum {
    uint64_t *values; /* by place, 0: none */
    uint32_t *heaps[LLI_QUORUM_HEAPS]; /* of places: the least value first of those that reach it, the greatest of the others */
    uint32_t *at;     /* by place: where in its heap it is */
    uint8_t *in;      /* by place: in which */
    uint32_t counts[LLI_QUORUM_HEAPS];
    uint32_t limit;
    uint64_t steps;   /* comparisons of two values so far: what it costs */
};

/* Room for so many values in the arena; there are none. */
void lli_quorum_init(struct lli_quorum *quorum, uint32_t limit, struct lli_arena *arena);

/* Removes all. */
void lli_quorum_clear(struct lli_quorum *quorum);

/* The value at a place is this from now on; 0: there is none. lli_quorum_rank() has to follow before lli_quorum_value(). */
void lli_quorum_set(struct lli_quorum *quorum, uint32_t place, uint64_t value);

/* How many values there are. */
static inline uint32_t lli_quorum_count(const struct lli_quorum *quorum)
{
    return quorum->counts[LLI_QUORUM_REACH] + quorum->counts[LLI_QUORUM_OTHERS];
}

/* So many, no more than there are, have to reach it. */
void lli_quorum_rank(struct lli_quorum *quorum, uint32_t reached_by);

/* The greatest value that so many, at least 1, reach. */
static inline uint64_t lli_quorum_value(const struct lli_quorum *quorum)
{
    return quorum->values[quorum->heaps[LLI_QUORUM_REACH][0]];
}

#endif
