/* SPDX-License-Identifier: Apache-2.0 */
#include "reorder.h"

#include <string.h>

void lli_reorder_init(struct lli_reorder *reorder, uint64_t bytes, uint32_t packet_max, struct lli_arena *arena)
{
    uint32_t stride = (uint32_t)lli_round_up(packet_max, 64);
    uint32_t count = (uint32_t)lli_min(lli_max(bytes / stride, 16), LLI_REORDER_NONE - 1);

    *reorder = (struct lli_reorder){.stride = stride, .count = count};
    reorder->cells = lli_arena_take(arena, (size_t)count * stride, 64);
    reorder->sizes = lli_arena_take(arena, count * sizeof *reorder->sizes, 64);
    if (arena->memory == NULL)
        return;
    for (uint32_t cell = 0; cell < count; cell++)
        reorder->sizes[cell] = cell + 1 < count ? cell + 1 : LLI_REORDER_NONE;
}

uint32_t lli_reorder_put(struct lli_reorder *reorder, const uint8_t *data, uint32_t size)
{
    uint32_t cell = reorder->free;

    if (cell == LLI_REORDER_NONE || size > reorder->stride)
        return LLI_REORDER_NONE;
    reorder->free = reorder->sizes[cell];
    reorder->sizes[cell] = size;
    reorder->used++;
    memcpy(reorder->cells + (uint64_t)cell * reorder->stride, data, size);
    return cell;
}

void lli_reorder_free(struct lli_reorder *reorder, uint32_t cell)
{
    assert(cell < reorder->count && reorder->used > 0);
    reorder->sizes[cell] = reorder->free;
    reorder->free = cell;
    reorder->used--;
}
