/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of recordings. The input is an edit script: records of blocks that get a right hash, then
 * changes of the segment's bytes. What is read back must have been written, and must be written again to the
 * same bytes.
 */
#include "core/base/hash.h"
#include "core/recording/recovery.h"
#include "fuzz.h"

enum { SEGMENT = LLI_SEGMENT_MIN, BLOCKS_MAX = 16, EDITS_MAX = 16, READ = 64 << 10 };

static uint8_t bytes[SEGMENT];

static const struct lli_segment segment = {
    .first = {.session = 7, .sequence = 1, .packet = 100, .message = 5},
    .size = SEGMENT,
    .channel = "loop://a:1"};

/* Adds a record that was read to a block. */
static bool add(struct lli_block_builder *builder, const struct lli_record *record)
{
    switch (record->kind) {
    case LLI_RECORD_PACKET:
        return lli_block_add_packet(builder, record->data, record->size);
    case LLI_RECORD_GAP:
        return lli_block_add_gap(builder, record);
    case LLI_RECORD_NAME:
    case LLI_RECORD_HIDDEN_NAME:
        return lli_block_add_name(builder, record);
    default:
        return lli_block_add_end(builder, record->message, record->reason);
    }
}

/* Reads a whole block, and writes what it has again. */
static void check_block(const uint8_t *block_bytes, const struct lli_block *block,
                        const struct lli_block_position *at)
{
    static uint8_t again[LLI_BLOCK_MAX];
    struct lli_block_reader reader = lli_block_records(block_bytes, block);
    struct lli_block_builder builder;
    struct lli_block_position next;
    struct lli_record record;
    lli_seq packet = block->packet;
    struct lli_block copy;

    lli_block_begin(&builder, again, block->size, at);
    while (lli_block_next(&reader, &record)) {
        FUZZ_CHECK(record.packet == packet && record.next >= packet);
        packet = record.next;
        fuzz_touch(record.data, record.size);
        FUZZ_CHECK(add(&builder, &record));
    }
    FUZZ_CHECK(lli_block_seal(&builder, block->wall, block->steady, &next) == block->size);
    FUZZ_CHECK(lli_block_get(again, block->size, &copy) == LLI_BLOCK_OK);
    FUZZ_CHECK(copy.used == block->used && copy.packet == block->packet);
    FUZZ_CHECK(memcmp(again + LLI_BLOCK_HEADER, block_bytes + LLI_BLOCK_HEADER,
                      block->used - LLI_BLOCK_HEADER) == 0);
}

static void read_segment(uint32_t written)
{
    struct lli_recovery recovery;
    enum lli_recovery_step step;
    uint32_t blocks = 0;
    uint64_t reads = 0;

    lli_recovery_begin(&recovery, &segment);
    do {
        const struct lli_block_position at = recovery.next;
        const uint64_t size =
            lli_min(lli_max(recovery.wanted, READ), SEGMENT - lli_min(recovery.offset, SEGMENT));
        size_t got;
        struct fuzz_input from = fuzz_input_of(bytes + lli_min(recovery.offset, SEGMENT), size);
        uint8_t *copy = fuzz_bytes(&from, size, &got);

        step = lli_recovery_step(&recovery, copy, got);
        FUZZ_CHECK(++reads < 4 * SEGMENT / LLI_BLOCK_ALIGN);
        if (step == LLI_RECOVERY_BLOCK) {
            check_block(copy, &recovery.block, &at);
            blocks++;
        }
        free(copy);
    } while (step == LLI_RECOVERY_READ || step == LLI_RECOVERY_BLOCK);
    FUZZ_CHECK(blocks <= written);
    FUZZ_CHECK(recovery.end % LLI_BLOCK_ALIGN == 0 && recovery.end <= SEGMENT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = fuzz_input_of(data, size);
    struct lli_block_position next = segment.first;
    static uint64_t used;
    uint64_t end = LLI_SEGMENT_HEADER;
    uint32_t written = 0;
    struct lli_segment header;

    memset(bytes, 0, used);
    lli_segment_put(bytes, &segment);
    for (const uint32_t blocks = fuzz_u8(&input) % BLOCKS_MAX; written < blocks; written++) {
        struct lli_block_builder builder;
        struct lli_block_position after;
        struct lli_block block;
        size_t got;
        uint8_t *records = fuzz_bytes(&input, 1u + fuzz_u8(&input), &got);

        lli_block_begin(&builder, bytes + end, LLI_BLOCK_ALIGN, &next);
        memcpy(bytes + end + LLI_BLOCK_HEADER, records, got);
        free(records);
        builder.used += (uint32_t)(got == 0 ? 1 : got);
        /* The records tell what a real builder would have known. */
        builder.message = next.message;
        end += lli_block_seal(&builder, written, written, &after);
        if (lli_block_check(bytes + end - LLI_BLOCK_ALIGN, LLI_BLOCK_ALIGN, &next, &block, &after) ==
            LLI_BLOCK_OK)
            next = after;
    }
    for (uint32_t edits = fuzz_u8(&input) % EDITS_MAX; edits > 0; edits--)
        bytes[fuzz_u32(&input) % end] ^= fuzz_u8(&input);
    used = end;
    (void)lli_segment_get(bytes, &header);
    read_segment(written);
    return 0;
}

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    /* Three blocks: a packet, a gap, a name and the end; then one changed byte. */
    static const uint8_t seed[] = {3, 17, 18, 0, 0x11, 0,  18, 0, 7,   0,   0, 0, 100, 0, 0, 0, 5,
                                   0, 0,  0,  0, 0,    26, 1,  0, 110, 0,   0, 0, 0,   0, 0, 0, 6,
                                   0, 0,  0,  0, 0,    0,  0,  9, 0,   0,   0, 0, 0,   0, 0, 3, 9,
                                   2, 0,  4,  0, 0,    0,  3,  0, 0,   'b', 3, 0, 2,   1};

    emit(arg, seed, sizeof seed);
    emit(arg, seed, 23);
    emit(arg, seed, 1);
}
