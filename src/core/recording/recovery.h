/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery: finds the end of a segment after a crash, and damage within it. The caller reads the file and
 * hands over bytes; nothing here is trusted that no hash covers.
 *
 * Blocks are written at most LLI_RECOVERY_FLIGHT at a time, and acknowledged in order. So after the first
 * block that is not whole, whole ones of the same chain can follow only within that flight: they were not
 * acknowledged and do not count. A later one shows that acknowledged blocks were damaged since they were
 * written: that is reported, and nothing is cut off.
 */
#ifndef LLI_RECOVERY_H
#define LLI_RECOVERY_H

#include "core/recording/block_index.h"
#include "core/recording/segment.h"

enum {
    LLI_RECOVERY_FLIGHT = 4, /* writes under way at a time */
    /* Bytes behind the end that are searched for later blocks: more than all that were under way. */
    LLI_RECOVERY_REACH = (LLI_RECOVERY_FLIGHT + 2) * LLI_BLOCK_MAX,
};

enum lli_recovery_step {
    LLI_RECOVERY_READ,  /* call again with bytes of the segment from `offset` on: `wanted` or more */
    LLI_RECOVERY_BLOCK, /* `block` is whole and the next one; its first byte is that at `offset` */
    LLI_RECOVERY_END,   /* the recording goes on at `end`, with `next` */
    /* `block` at `offset` is whole, and acknowledged ones from `end` on are not. */
    LLI_RECOVERY_DAMAGED,
};

struct lli_recovery {
    struct lli_block_position next; /* of the block that is expected */
    uint64_t offset;
    uint64_t wanted;
    uint64_t end;           /* where the expected block begins */
    uint64_t size;          /* of the segment */
    struct lli_block block; /* the latest whole one */
    bool hinted;            /* the first block was named by an index */
    bool found;             /* step() has returned LLI_RECOVERY_BLOCK: the next call goes on behind it */
    bool ended;             /* the expected block is not there: looks for later ones */
};

/* Begins at the first block of a segment. */
void lli_recovery_begin(struct lli_recovery *recovery, const struct lli_segment *segment);

/*
 * Begins at the block that an index entry names. The end comes at once if it is not there: then begin at the
 * first block.
 */
void lli_recovery_begin_at(struct lli_recovery *recovery, const struct lli_segment *segment,
                           const struct lli_index_entry *entry);

/*
 * Goes on, with size bytes of the segment from recovery->offset on; fewer than wanted only if the file has no
 * more. After LLI_RECOVERY_BLOCK the bytes are not used.
 */
enum lli_recovery_step lli_recovery_step(struct lli_recovery *recovery, const uint8_t *bytes, uint64_t size);

#endif
