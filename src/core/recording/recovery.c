/* SPDX-License-Identifier: Apache-2.0 */
#include "core/recording/recovery.h"

void lli_recovery_begin(struct lli_recovery *recovery, const struct lli_segment *segment)
{
    *recovery = (struct lli_recovery){.next = segment->first,
                                      .offset = LLI_SEGMENT_HEADER,
                                      .wanted = LLI_BLOCK_ALIGN,
                                      .end = LLI_SEGMENT_HEADER,
                                      .size = segment->size};
}

void lli_recovery_begin_at(struct lli_recovery *recovery, const struct lli_segment *segment,
                           const struct lli_index_entry *entry)
{
    lli_recovery_begin(recovery, segment);
    recovery->next.packet = entry->packet;
    recovery->offset = recovery->end =
        lli_min(entry->offset, segment->size) / LLI_BLOCK_ALIGN * LLI_BLOCK_ALIGN;
    recovery->hinted = true;
}

static enum lli_recovery_step recovery_end(struct lli_recovery *recovery)
{
    recovery->offset = recovery->end;
    return LLI_RECOVERY_END;
}

/* Asks for more bytes at the same place. False: the segment cannot have them. */
static bool recovery_wants(struct lli_recovery *recovery, uint64_t bytes, uint64_t size)
{
    if (size >= recovery->wanted && bytes > size && bytes <= recovery->size - recovery->offset) {
        recovery->wanted = bytes;
        return true;
    }
    return false;
}

/* Looks for a block that was written after all that can have been under way. */
static enum lli_recovery_step recovery_search(struct lli_recovery *recovery, const uint8_t *bytes,
                                              uint64_t size)
{
    const uint64_t limit = lli_min(recovery->size, recovery->end + LLI_RECOVERY_REACH);
    struct lli_block block;

    /* The file is shorter than its header says. */
    if (size < LLI_BLOCK_ALIGN)
        return recovery_end(recovery);
    for (; recovery->offset < limit && size >= LLI_BLOCK_ALIGN; bytes += LLI_BLOCK_ALIGN) {
        enum lli_block_fault fault = lli_block_get(bytes, size, &block);

        if ((fault == LLI_BLOCK_OK || fault == LLI_BLOCK_SHORT) && block.session == recovery->next.session &&
            block.sequence >= recovery->next.sequence + LLI_RECOVERY_FLIGHT) {
            if (fault == LLI_BLOCK_SHORT && recovery_wants(recovery, block.size, size))
                return LLI_RECOVERY_READ;
            if (lli_block_check(bytes, size, NULL, &block, NULL) == LLI_BLOCK_OK) {
                recovery->block = block;
                return LLI_RECOVERY_DAMAGED;
            }
        }
        recovery->offset += LLI_BLOCK_ALIGN;
        size -= LLI_BLOCK_ALIGN;
        recovery->wanted = LLI_BLOCK_ALIGN;
    }
    return recovery->offset < limit ? LLI_RECOVERY_READ : recovery_end(recovery);
}

/* Goes on behind the block that was found. */
static enum lli_recovery_step recovery_pass(struct lli_recovery *recovery)
{
    recovery->found = recovery->hinted = false;
    recovery->offset = recovery->end = recovery->offset + recovery->block.size;
    recovery->wanted = LLI_BLOCK_ALIGN;
    return recovery->offset < recovery->size ? LLI_RECOVERY_READ : LLI_RECOVERY_END;
}

/* True if a block that is whole is the one that an index entry names. */
static bool recovery_is_named(const struct lli_recovery *recovery, const struct lli_block *block)
{
    return block->session == recovery->next.session && block->packet == recovery->next.packet &&
           block->sequence >= recovery->next.sequence;
}

enum lli_recovery_step lli_recovery_step(struct lli_recovery *recovery, const uint8_t *bytes, uint64_t size)
{
    struct lli_block_position next;
    struct lli_block block;
    enum lli_block_fault fault;

    if (recovery->found)
        return recovery_pass(recovery);
    if (recovery->ended)
        return recovery_search(recovery, bytes, size);
    fault = lli_block_check(bytes, size, recovery->hinted ? NULL : &recovery->next, &block, &next);
    if (fault == LLI_BLOCK_SHORT && recovery_wants(recovery, block.size, size))
        return LLI_RECOVERY_READ;
    if (fault == LLI_BLOCK_OK && (!recovery->hinted || recovery_is_named(recovery, &block))) {
        recovery->block = block;
        recovery->next = next;
        recovery->found = true;
        return LLI_RECOVERY_BLOCK;
    }
    if (recovery->hinted)
        return recovery_end(recovery);
    recovery->ended = true;
    return recovery_search(recovery, bytes, size);
}
