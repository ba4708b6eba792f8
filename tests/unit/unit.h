/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the unit tests: cmocka, seeded random numbers, and memory for arenas. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"

/* Shortly before the wrap of 32-bit numbers: a session that starts here wraps soon. */
#define BEFORE_WRAP_32 (((lli_seq)1 << 32) - 40)
#define BEFORE_WRAP_33 (((lli_seq)1 << 33) - 40)

/* In [0, limit). */
static inline uint32_t below(uint64_t *random, uint32_t limit)
{
    return (uint32_t)lli_random_below(random, limit);
}

static inline bool chance(uint64_t *random, uint32_t percent)
{
    return below(random, 100) < percent;
}

/* Allocates zeroed memory of the size that the arena measured. The caller frees arena.memory. */
static inline void arena_fill(struct lli_arena *arena)
{
    const size_t size = (size_t)lli_round_up(arena->used, 4096);

    arena->memory = aligned_alloc(4096, size);
    assert_non_null(arena->memory);
    memset(arena->memory, 0, size);
    arena->used = 0;
}

/* Copies to a block of exactly this size, so that a sanitizer detects reads beyond it. */
static inline uint8_t *exact_copy(const void *data, size_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);

    assert_non_null(copy);
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

/* Returns a byte that depends on the number of a message or packet, and on the position in it. */
static inline uint8_t pattern(uint64_t which, size_t at)
{
    return (uint8_t)(which * 31 + at * 7 + (at >> 8));
}

static inline void pattern_fill(uint8_t *data, size_t size, uint64_t which)
{
    for (size_t at = 0; at < size; at++)
        data[at] = pattern(which, at);
}

static inline void pattern_check(const uint8_t *data, size_t size, uint64_t which)
{
    for (size_t at = 0; at < size; at++)
        if (data[at] != pattern(which, at))
            fail_msg("byte %zu of %zu of number %llu is %u", at, size, (unsigned long long)which,
                     (unsigned)data[at]);
}

#endif
