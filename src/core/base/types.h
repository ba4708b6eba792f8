/* SPDX-License-Identifier: Apache-2.0 */
/* Basic types of the core: time, sequence numbers, arithmetic helpers and a random generator. */
#ifndef LLI_TYPES_H
#define LLI_TYPES_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Marks a function that a fast path calls now and then: it stays out of line, so that the registers that it
 * needs are free for the fast path. bench/run cost shows the difference.
 */
#define LLI_OUT_OF_LINE __attribute__((noinline))

/* Marks a function of a path that every message takes, which is compiled into each of its callers. */
#define LLI_INLINE inline __attribute__((always_inline))

/*
 * Marks a function that runs only when something is wrong: it is placed apart, and branches to it are
 * unlikely.
 */
#define LLI_COLD __attribute__((cold))

/* Nanoseconds. Points in time come from the caller's monotonic clock; the core never reads a clock. */
typedef uint64_t lli_ns;

/* Deadline that never expires. */
#define LLI_NEVER UINT64_MAX

/* Piece of a packet of which only some are copied. */
struct lli_piece {
    uint32_t at; /* offset in the packet */
    uint32_t size;
    uint32_t passed; /* messages between the piece before and this one */
    bool more;       /* another piece follows */
};

/* Sequence number of a packet in its session: 64 bits in memory, the low 32 on the wire. */
typedef uint64_t lli_seq;

/* The 64-bit number nearest to `near` whose low 32 bits are `low`. */
static inline uint64_t lli_seq_extend(uint64_t near, uint32_t low)
{
    return near + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)near);
}

static inline uint64_t lli_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t lli_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline bool lli_is_power_of_two(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* Rounds n up to a multiple of align, a power of two. */
static inline uint64_t lli_round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) & ~(align - 1);
}

/*
 * Small seeded generator (splitmix64; Steele, Lea, Flood 2014): the core's random back-offs must be
 * reproducible.
 */
static inline uint64_t lli_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, range); 0 if range is 0. The bias is below range / 2^64. */
static inline uint64_t lli_random_below(uint64_t *state, uint64_t range)
{
    return range == 0 ? 0 : lli_random(state) % range;
}

#endif
