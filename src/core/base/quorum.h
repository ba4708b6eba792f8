/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order statistic of a changing set: the greatest value that at least a given number of values reach. Two
 * heaps hold the values that reach it and the others, so a change takes time logarithmic in the number of
 * values.
 */
#ifndef LLI_QUORUM_H
#define LLI_QUORUM_H

#include "core/base/arena.h"
#include "core/base/types.h"

enum { LLI_QUORUM_REACH, LLI_QUORUM_OTHERS, LLI_QUORUM_HEAPS };

struct lli_quorum {
    uint64_t *values;                  /* indexed by place; 0: no value */
    uint32_t *heaps[LLI_QUORUM_HEAPS]; /* places; REACH has its least value first, OTHERS its greatest */
    uint32_t *at;                      /* indexed by place: position in its heap */
    uint8_t *in;                       /* indexed by place: the heap that holds it */
    uint32_t counts[LLI_QUORUM_HEAPS];
    uint32_t limit;
    uint64_t steps; /* value comparisons so far, as a measure of cost */
};

/* Places an empty set with room for limit values in the arena. */
void lli_quorum_init(struct lli_quorum *quorum, uint32_t limit, struct lli_arena *arena);

/* Removes all values. */
void lli_quorum_clear(struct lli_quorum *quorum);

/* Sets the value at a place; 0 removes it. Call lli_quorum_rank() before the next lli_quorum_value(). */
void lli_quorum_set(struct lli_quorum *quorum, uint32_t place, uint64_t value);

/* Number of values in the set. */
static inline uint32_t lli_quorum_count(const struct lli_quorum *quorum)
{
    return quorum->counts[LLI_QUORUM_REACH] + quorum->counts[LLI_QUORUM_OTHERS];
}

/* Sets how many values have to reach the result; at most lli_quorum_count(). */
void lli_quorum_rank(struct lli_quorum *quorum, uint32_t reached_by);

/* The greatest value that the number of values given to lli_quorum_rank(), at least 1, reach. */
static inline uint64_t lli_quorum_value(const struct lli_quorum *quorum)
{
    return quorum->values[quorum->heaps[LLI_QUORUM_REACH][0]];
}

#endif
