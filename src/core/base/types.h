/* SPDX-License-Identifier: Apache-2.0 */
/* What every file of the core speaks: time, sequence numbers, and the packets it takes and gives. */
#ifndef LLI_TYPES_H
#define LLI_TYPES_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds: points in time are of whatever monotonic clock the caller reads; the core never reads one. */
typedef uint64_t lli_ns;

/* A deadline that never comes. */
#define LLI_NEVER UINT64_MAX

/* Number of a packet in its session. 64 bits in memory, the low 32 on the wire. */
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

/* n rounded up to a multiple of align, a power of two. */
static inline uint64_t lli_round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) & ~(align - 1);
}

/* A small seeded generator (splitmix64, Steele, Lea, Flood 2014): the core's back-offs must be reproducible. */
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
