/* SPDX-License-Identifier: Apache-2.0 */
#include "core/recording/block_index.h"

void lli_index_put(uint8_t *bytes, const struct lli_index_entry *entry)
{
    lli_store_u64(bytes, entry->packet);
    lli_store_u64(bytes + 8, entry->message);
    lli_store_u64(bytes + 16, entry->wall);
    lli_store_u64(bytes + 24, entry->offset);
}

void lli_index_get(const uint8_t *bytes, struct lli_index_entry *entry)
{
    *entry = (struct lli_index_entry){.packet = lli_load_u64(bytes),
                                      .message = lli_load_u64(bytes + 8),
                                      .wall = lli_load_u64(bytes + 16),
                                      .offset = lli_load_u64(bytes + 24)};
}

bool lli_index_wants(const struct lli_index_entry *last, const struct lli_block *block, uint64_t offset)
{
    return block->message != LLI_BLOCK_UNNUMBERED &&
           (last == NULL || offset >= last->offset + LLI_INDEX_DISTANCE);
}

/* Several blocks may have the same time, if the wall clock stepped back. */
static bool index_is_before(const struct lli_index_entry *entry, enum lli_index_key key, uint64_t value)
{
    switch (key) {
    case LLI_INDEX_PACKET:
        return entry->packet <= value;
    case LLI_INDEX_MESSAGE:
        return entry->message <= value;
    default:
        return entry->wall < value;
    }
}

size_t lli_index_find(const struct lli_index_entry *entries, size_t count, enum lli_index_key key,
                      uint64_t value)
{
    size_t low = 0, high = count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (index_is_before(&entries[middle], key, value))
            low = middle;
        else
            high = middle;
    }
    return low;
}
