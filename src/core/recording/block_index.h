/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index of a segment: which block has a packet, a message, or a time. It is a hint: whoever uses an entry
 * checks the block at its offset, and an index that is missing or wrong costs time only.
 */
#ifndef LLI_BLOCK_INDEX_H
#define LLI_BLOCK_INDEX_H

#include "core/recording/block.h"

enum {
    LLI_INDEX_ENTRY = 32,          /* bytes of an entry in the file */
    LLI_INDEX_DISTANCE = 64 << 10, /* least distance of the blocks of two entries, bytes */
};

struct lli_index_entry {
    lli_seq packet;
    uint64_t message;
    lli_ns wall;     /* when the block before it ended: nothing in it arrived earlier */
    uint64_t offset; /* of the block in its segment */
};

enum lli_index_key { LLI_INDEX_PACKET, LLI_INDEX_MESSAGE, LLI_INDEX_WALL };

/* Writes LLI_INDEX_ENTRY bytes. */
void lli_index_put(uint8_t *bytes, const struct lli_index_entry *entry);
void lli_index_get(const uint8_t *bytes, struct lli_index_entry *entry);

/*
 * True if a block at this offset gets an entry, given the last entry or NULL. Blocks of names only get none.
 */
bool lli_index_wants(const struct lli_index_entry *last, const struct lli_block *block, uint64_t offset);

/*
 * Returns the position among count entries, in ascending order, of the last one whose packet or message is
 * the value or before it, or whose time is before the value: what has the value, and all that arrived at that
 * time or later, is in the block of that entry or behind it. 0 if there is none.
 */
size_t lli_index_find(const struct lli_index_entry *entries, size_t count, enum lli_index_key key,
                      uint64_t value);

#endif
