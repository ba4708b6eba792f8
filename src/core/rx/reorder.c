/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rx/reorder.h"

#include <string.h>

/* Mean packet length: 1 / weight of the latest packet, and the length assumed before the first one. */
enum { REORDER_WEIGHT = 8, REORDER_PACKET = 1500 };

void lli_reorder_init(struct lli_reorder *reorder, uint64_t bytes, uint32_t packet_max,
                      struct lli_arena *arena, struct lli_arena *rare)
{
    const uint64_t least = (uint64_t)lli_reorder_chunks(packet_max) * 16;
    const uint32_t count = (uint32_t)lli_min(lli_max(bytes / LLI_REORDER_CHUNK, least), LLI_REORDER_NONE - 1);

    *reorder = (struct lli_reorder){.count = count, .left = count};
    reorder->mean = lli_reorder_chunks((uint32_t)lli_min(packet_max, REORDER_PACKET)) * LLI_REORDER_MEAN_ONE;
    reorder->chunks = lli_arena_take(arena, (size_t)count * LLI_REORDER_CHUNK, 64);
    reorder->next = lli_arena_take(arena, count * sizeof *reorder->next, 64);
    reorder->sizes = lli_arena_take(arena, count * sizeof *reorder->sizes, 64);
    reorder->pieces = lli_arena_take(rare, (size_t)LLI_REORDER_PIECES * LLI_REORDER_PACKET_MAX, 4096);
    if (arena->memory == NULL)
        return;
    for (uint32_t chunk = 0; chunk < count; chunk++)
        reorder->next[chunk] = chunk + 1 < count ? chunk + 1 : LLI_REORDER_NONE;
}

static uint8_t *reorder_chunk(const struct lli_reorder *reorder, uint32_t chunk)
{
    return reorder->chunks + (uint64_t)chunk * LLI_REORDER_CHUNK;
}

/*
 * Copies a chunk or the end of a packet. Whole chunks have a size of their own, for which the compiler expands the copy, so that
 * cache misses of several chunks overlap; for a size that is only bounded gcc has a string instruction, which begins slowly.
 */
static void reorder_copy(uint8_t *chunk, const uint8_t *data, uint32_t size)
{
    if (size == LLI_REORDER_CHUNK)
        memcpy(chunk, data, LLI_REORDER_CHUNK);
    else
        memcpy(chunk, data, size);
}

static void reorder_note(struct lli_reorder *reorder, uint32_t chunks)
{
    reorder->mean = (reorder->mean * (REORDER_WEIGHT - 1) + chunks * LLI_REORDER_MEAN_ONE) / REORDER_WEIGHT;
}

uint32_t lli_reorder_put(struct lli_reorder *reorder, const uint8_t *data, uint32_t size)
{
    const uint32_t chunks = lli_reorder_chunks(size), packet = reorder->free;
    uint32_t last = packet;

    if (chunks > reorder->left)
        return LLI_REORDER_NONE;
    for (uint32_t left = size, at = packet;; at = reorder->next[at]) {
        const uint32_t part = (uint32_t)lli_min(left, LLI_REORDER_CHUNK);

        reorder_copy(reorder_chunk(reorder, at), data, part);
        data += part;
        left -= part;
        last = at;
        if (left == 0)
            break;
    }
    reorder->free = reorder->next[last];
    reorder->next[last] = LLI_REORDER_NONE;
    reorder->sizes[packet] = size;
    reorder->left -= chunks;
    reorder->used++;
    reorder_note(reorder, chunks);
    return packet;
}

const uint8_t *lli_reorder_get(const struct lli_reorder *reorder, uint32_t packet,
                               enum lli_reorder_piece piece, uint32_t *size)
{
    uint8_t *const bytes = reorder->pieces + (size_t)piece * LLI_REORDER_PACKET_MAX;
    uint8_t *to = bytes;

    *size = reorder->sizes[packet];
    /* The last chunk as a whole, too: see reorder_copy(). */
    for (uint32_t at = packet; at != LLI_REORDER_NONE; at = reorder->next[at], to += LLI_REORDER_CHUNK)
        memcpy(to, reorder_chunk(reorder, at), LLI_REORDER_CHUNK);
    return bytes;
}

uint32_t lli_reorder_free(struct lli_reorder *reorder, uint32_t packet)
{
    const uint32_t chunks = lli_reorder_chunks(reorder->sizes[packet]);
    uint32_t last = packet;

    assert(packet < reorder->count && reorder->used > 0);
    while (reorder->next[last] != LLI_REORDER_NONE)
        last = reorder->next[last];
    reorder->next[last] = reorder->free;
    reorder->free = packet;
    reorder->left += chunks;
    reorder->used--;
    return chunks;
}
