/* SPDX-License-Identifier: Apache-2.0 */
/* Segments of a recording in memory, with packets of random lengths and some gaps. */
#ifndef LLI_TEST_RECORDING_H
#define LLI_TEST_RECORDING_H

#include "unit.h"

#include "llm/event.h"

#include "core/base/hash.h"
#include "core/recording/recovery.h"

#define RECORDING_SESSION UINT64_C(0x1122334455667788)

enum {
    RECORDING_SIZE = LLI_SEGMENT_MIN + (1 << 20),
    RECORDING_BLOCKS = 600, /* at most */
};

struct recording {
    uint8_t *bytes; /* of the segment */
    struct lli_segment segment;
    struct lli_block_position next;
    uint64_t end; /* where the next block goes */
    uint64_t random;
    uint32_t blocks;
    uint64_t offsets[RECORDING_BLOCKS];
    struct lli_block_position at[RECORDING_BLOCKS + 1]; /* before each block, and after the last */
    struct lli_index_entry entries[RECORDING_BLOCKS];
    size_t entry_count;
};

/* Writes a DATA packet with contents that follow from its number. Returns its size. */
static inline uint32_t recording_packet(uint8_t *packet, lli_seq seq, uint64_t number, uint32_t body)
{
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .tag = (uint32_t)RECORDING_SESSION,
                                           .seq = (uint32_t)seq,
                                           .number = (uint32_t)number,
                                           .size = (uint16_t)(LLI_WIRE_DATA_HEADER + body)};

    lli_wire_put_header(packet, &header);
    for (uint32_t i = 0; i < body; i++)
        packet[LLI_WIRE_DATA_HEADER + i] = (uint8_t)(seq * 31 + i);
    return header.size;
}

static inline void recording_open(struct recording *r, uint64_t seed)
{
    *r = (struct recording){.random = seed, .end = LLI_SEGMENT_HEADER};
    r->bytes = calloc(1, RECORDING_SIZE);
    assert_non_null(r->bytes);
    r->segment = (struct lli_segment){
        .first = {.session = RECORDING_SESSION,
                  .sequence = 70,
                  .previous = 5,
                  .packet = (UINT64_C(1) << 32) - 40, /* low halves wrap soon */
                  .message = (UINT64_C(7) << 32) - 90,
                  .wall = 1000},
        .ordinal = 3,
        .start = 17,
        .size = RECORDING_SIZE,
        .wall = 1001,
        .stream = {.id = 0x5ca1ab1e, .base = 70000, .term = 3},
        .channel = "udp://239.1.1.1:5000",
    };
    lli_segment_put(r->bytes, &r->segment);
    r->next = r->at[0] = r->segment.first;
}

static inline void recording_close(struct recording *r)
{
    free(r->bytes);
}

/* Appends a block of at most `most` packets to the segment. False: there is no room. */
static inline bool recording_write(struct recording *r, uint32_t most)
{
    struct lli_block_builder builder;
    uint8_t packet[LLI_WIRE_DATA_HEADER + 1500];
    const uint64_t room = lli_min(RECORDING_SIZE - r->end, LLI_BLOCK_MAX);
    struct lli_block block;
    uint32_t size;

    if (room < 2 * LLI_BLOCK_ALIGN || r->blocks == RECORDING_BLOCKS)
        return false;
    r->offsets[r->blocks] = r->end;
    r->at[r->blocks] = r->next;
    lli_block_begin(&builder, r->bytes + r->end, (uint32_t)room, &r->next);
    for (uint32_t i = 0; i < most; i++) {
        const struct lli_record gap = {.next = builder.next.packet + 1 + below(&r->random, 5000),
                                       .message = builder.next.message + 1,
                                       .message_next = builder.next.message + 1 + below(&r->random, 9000),
                                       .reason = LLM_REASON_GONE};
        const uint64_t number = builder.next.message + below(&r->random, 30);

        if (below(&r->random, 20) == 0) {
            if (!lli_block_add_gap(&builder, &gap))
                break;
        } else if (!lli_block_add_packet(&builder, packet,
                                         recording_packet(packet, builder.next.packet, number,
                                                          (uint32_t)below(&r->random, 1500)))) {
            break;
        }
    }
    size = lli_block_seal(&builder, 1000 + 10 * r->next.sequence + below(&r->random, 40), r->next.sequence,
                          &r->next);
    assert_int_equal(lli_block_get(r->bytes + r->end, size, &block), LLI_BLOCK_OK);
    if (lli_index_wants(r->entry_count == 0 ? NULL : &r->entries[r->entry_count - 1], &block, r->end))
        r->entries[r->entry_count++] = (struct lli_index_entry){.packet = block.packet,
                                                                .message = block.message,
                                                                .wall = r->at[r->blocks].wall,
                                                                .offset = r->end};
    r->end += size;
    r->at[++r->blocks] = r->next;
    return true;
}

/* Runs a recovery to its end; *blocks: how many were found. */
static inline enum lli_recovery_step recording_recover(const uint8_t *bytes, uint64_t file_size,
                                                       struct lli_recovery *recovery, uint32_t *blocks)
{
    enum lli_recovery_step step = LLI_RECOVERY_READ;
    uint64_t reads = 0;

    *blocks = 0;
    while (step == LLI_RECOVERY_READ || step == LLI_RECOVERY_BLOCK) {
        const uint64_t there = recovery->offset < file_size ? file_size - recovery->offset : 0;
        const uint64_t size = lli_min(recovery->wanted, there);
        /* A copy of exactly that size: whatever reads beyond it is found by a sanitizer. */
        uint8_t *copy = malloc(size + 1);

        assert_non_null(copy);
        memcpy(copy, bytes + lli_min(recovery->offset, file_size), size);
        step = lli_recovery_step(recovery, copy, size);
        free(copy);
        *blocks += step == LLI_RECOVERY_BLOCK;
        assert_true(++reads < 10 * RECORDING_SIZE / LLI_BLOCK_ALIGN);
    }
    return step;
}

#endif
