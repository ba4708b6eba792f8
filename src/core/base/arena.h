/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carves one given block of memory into arrays. With no memory it only measures, so that the same layout function tells how
 * much is needed and then places it: the core never allocates.
 */
#ifndef LLI_ARENA_H
#define LLI_ARENA_H

#include "core/base/types.h"

struct lli_arena {
    uint8_t *memory; /* NULL: measure only; else zeroed, and as large as was measured */
    size_t used;
};

/* size bytes at a multiple of align (a power of two), or NULL while measuring. */
static inline void *lli_arena_take(struct lli_arena *arena, size_t size, size_t align)
{
    size_t at = (size_t)lli_round_up(arena->used, align);

    arena->used = at + size;
    return arena->memory == NULL ? NULL : arena->memory + at;
}

#endif
