/* SPDX-License-Identifier: Apache-2.0 */
#include "core/join/time_index.h"

#include <string.h>

#define TIME_INDEX_DISTANCE_MIN ((lli_ns)1000000)

void lli_time_index_init(struct lli_time_index *index, lli_seq start, struct lli_arena *arena, lli_ns now)
{
    *index = (struct lli_time_index){.count = 1, .distance = TIME_INDEX_DISTANCE_MIN};
    index->entries = lli_arena_take(arena, LLI_TIME_INDEX_ENTRIES * sizeof *index->entries, 64);
    if (arena->memory != NULL)
        index->entries[0] = (struct lli_time_index_entry){.at = now, .seq = start};
}

/*
 * Drops at least half of the entries: those for packets no longer in the history, or else every second one.
 */
static void time_index_thin(struct lli_time_index *index, lli_seq trail)
{
    uint32_t gone = 0, remaining = 0;

    while (gone + 1 < index->count && index->entries[gone + 1].seq < trail)
        gone++;
    index->count -= gone;
    memmove(index->entries, index->entries + gone, index->count * sizeof *index->entries);
    if (index->count <= LLI_TIME_INDEX_ENTRIES / 2) {
        index->distance = lli_max(index->distance / 2, TIME_INDEX_DISTANCE_MIN);
        return;
    }
    for (uint32_t i = 0; i < index->count; i += 2)
        index->entries[remaining++] = index->entries[i];
    index->count = remaining;
    index->distance *= 2;
}

void lli_time_index_add(struct lli_time_index *index, lli_seq seq, lli_seq trail, lli_ns now)
{
    const struct lli_time_index_entry *last = &index->entries[index->count - 1];

    if (seq == last->seq || now < last->at + index->distance)
        return;
    if (index->count == LLI_TIME_INDEX_ENTRIES)
        time_index_thin(index, trail);
    index->entries[index->count++] = (struct lli_time_index_entry){.at = now, .seq = seq};
}

lli_seq lli_time_index_find(const struct lli_time_index *index, lli_ns since)
{
    uint32_t low = 0, high = index->count;

    /* The first entry stands for everything before it. */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (index->entries[middle].at <= since)
            low = middle;
        else
            high = middle;
    }
    return index->entries[low].seq;
}
