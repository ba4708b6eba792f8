/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carves arrays out of one block of memory supplied by the caller. Without memory it only measures, so one
 * layout function both computes the size needed and places the arrays: the core never allocates.
 */
#ifndef LLI_ARENA_H
#define LLI_ARENA_H

#include "core/base/types.h"

struct lli_arena {
    uint8_t *memory; /* NULL: measure only; else zeroed, and at least the measured size */
    size_t used;
};

/* Takes size bytes aligned to align (a power of two). Returns NULL while measuring. */
static inline void *lli_arena_take(struct lli_arena *arena, size_t size, size_t align)
{
    size_t at = (size_t)lli_round_up(arena->used, align);

    arena->used = at + size;
    return arena->memory == NULL ? NULL : arena->memory + at;
}

#endif
