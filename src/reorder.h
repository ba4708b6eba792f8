/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of packets that came before their turn: a fixed number of cells of one size, shared by a receiver's sessions. */
#ifndef LLI_REORDER_H
#define LLI_REORDER_H

#include "arena.h"
#include "types.h"

#define LLI_REORDER_NONE UINT32_MAX

struct lli_reorder {
    uint8_t *cells;
    uint32_t *sizes; /* of the packet in each cell; of a free cell, the next free one */
    uint32_t stride;
    uint32_t count;
    uint32_t free;   /* the first free cell */
    uint32_t used;
};

/* Places as many cells for packets of packet_max bytes as take bytes of memory, at least 16. */
void lli_reorder_init(struct lli_reorder *reorder, uint64_t bytes, uint32_t packet_max, struct lli_arena *arena);

/* Copies a packet into a cell. LLI_REORDER_NONE if none is free or the packet is too large. */
uint32_t lli_reorder_put(struct lli_reorder *reorder, const uint8_t *data, uint32_t size);

/* The packet in a cell. */
static inline const uint8_t *lli_reorder_get(const struct lli_reorder *reorder, uint32_t cell, uint32_t *size)
{
    *size = reorder->sizes[cell];
    return reorder->cells + (uint64_t)cell * reorder->stride;
}

void lli_reorder_free(struct lli_reorder *reorder, uint32_t cell);

#endif
