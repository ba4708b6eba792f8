/* SPDX-License-Identifier: Apache-2.0 */
#include "core/recording/segment.h"

#include "core/base/hash.h"

/* "llmsegmt", little-endian. */
#define SEGMENT_MAGIC UINT64_C(0x746d6765736d6c6c)

/* Offsets; the hash covers the rest of the header. */
enum {
    AT_HASH = 0,
    AT_MAGIC = 8,
    AT_VERSION = 16,
    AT_CHANNEL_SIZE = 20,
    AT_SESSION = 24,
    AT_SEQUENCE = 32,
    AT_PREVIOUS = 40,
    AT_PACKET = 48,
    AT_MESSAGE = 56,
    AT_BEFORE = 64, /* wall clock of the block before the first */
    AT_ORDINAL = 72,
    AT_START = 80,
    AT_SIZE = 88,
    AT_WALL = 96,
    AT_CHANNEL = 104,
    AT_STREAM = 616, /* behind the longest channel */
    AT_BASE = 624,
    AT_TERM = 632,
};

void lli_segment_put(uint8_t *bytes, const struct lli_segment *segment)
{
    const size_t channel_size = strlen(segment->channel);

    memset(bytes, 0, LLI_SEGMENT_HEADER);
    lli_store_u64(bytes + AT_MAGIC, SEGMENT_MAGIC);
    lli_store_u32(bytes + AT_VERSION, LLI_SEGMENT_VERSION);
    lli_store_u32(bytes + AT_CHANNEL_SIZE, (uint32_t)channel_size);
    lli_store_u64(bytes + AT_SESSION, segment->first.session);
    lli_store_u64(bytes + AT_SEQUENCE, segment->first.sequence);
    lli_store_u64(bytes + AT_PREVIOUS, segment->first.previous);
    lli_store_u64(bytes + AT_PACKET, segment->first.packet);
    lli_store_u64(bytes + AT_MESSAGE, segment->first.message);
    lli_store_u64(bytes + AT_BEFORE, segment->first.wall);
    lli_store_u64(bytes + AT_ORDINAL, segment->ordinal);
    lli_store_u64(bytes + AT_START, segment->start);
    lli_store_u64(bytes + AT_SIZE, segment->size);
    lli_store_u64(bytes + AT_WALL, segment->wall);
    memcpy(bytes + AT_CHANNEL, segment->channel, channel_size);
    lli_store_u64(bytes + AT_STREAM, segment->stream.id);
    lli_store_u64(bytes + AT_BASE, segment->stream.base);
    lli_store_u32(bytes + AT_TERM, segment->stream.term);
    lli_store_u64(bytes + AT_HASH, lli_hash(bytes + AT_MAGIC, LLI_SEGMENT_HEADER - AT_MAGIC));
}

/* True if the header was cleared. */
static bool segment_is_clear(const uint8_t *bytes)
{
    static const uint8_t zeros[LLI_SEGMENT_HEADER];

    return memcmp(bytes, zeros, sizeof zeros) == 0;
}

enum lli_segment_fault lli_segment_get(const uint8_t *bytes, struct lli_segment *segment)
{
    const uint32_t channel_size = lli_load_u32(bytes + AT_CHANNEL_SIZE);

    if (lli_load_u64(bytes + AT_MAGIC) != SEGMENT_MAGIC ||
        lli_load_u64(bytes + AT_HASH) != lli_hash(bytes + AT_MAGIC, LLI_SEGMENT_HEADER - AT_MAGIC))
        return segment_is_clear(bytes) ? LLI_SEGMENT_READY : LLI_SEGMENT_NONE;
    if (lli_load_u32(bytes + AT_VERSION) != LLI_SEGMENT_VERSION)
        return LLI_SEGMENT_VERSION_BAD;
    *segment = (struct lli_segment){
        .first = {.session = lli_load_u64(bytes + AT_SESSION),
                  .sequence = lli_load_u64(bytes + AT_SEQUENCE),
                  .previous = lli_load_u64(bytes + AT_PREVIOUS),
                  .packet = lli_load_u64(bytes + AT_PACKET),
                  .message = lli_load_u64(bytes + AT_MESSAGE),
                  .wall = lli_load_u64(bytes + AT_BEFORE)},
        .ordinal = lli_load_u64(bytes + AT_ORDINAL),
        .start = lli_load_u64(bytes + AT_START),
        .size = lli_load_u64(bytes + AT_SIZE),
        .wall = lli_load_u64(bytes + AT_WALL),
        .stream = {.id = lli_load_u64(bytes + AT_STREAM),
                   .base = lli_load_u64(bytes + AT_BASE),
                   .term = lli_load_u32(bytes + AT_TERM)},
    };
    if (channel_size > LLI_SEGMENT_CHANNEL_MAX || segment->size < LLI_SEGMENT_MIN ||
        segment->size % LLI_BLOCK_ALIGN != 0 || segment->first.packet > LLI_BLOCK_NUMBER_MAX ||
        segment->first.message > LLI_BLOCK_NUMBER_MAX)
        return LLI_SEGMENT_NONE;
    memcpy(segment->channel, bytes + AT_CHANNEL, channel_size);
    return LLI_SEGMENT_OK;
}
