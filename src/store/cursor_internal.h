/* SPDX-License-Identifier: Apache-2.0 */
/* State of a cursor. cursor.c reads in order, cursor_seek.c finds places, cursor_recover.c the end. */
#ifndef LLI_CURSOR_INTERNAL_H
#define LLI_CURSOR_INTERNAL_H

#include "llm/event.h"

#include "store/cursor.h"

#define LLI_NO_LIMIT UINT64_MAX

/* A block that was checked. */
struct cursor_found {
    const uint8_t *bytes;
    struct lli_block block;
    struct lli_block_position after;
};

struct lli_cursor {
    const struct lli_catalogue *catalogue;
    struct lli_log log;
    uint64_t session;
    lli_seq limit;
    lli_seq from; /* packets before this one were returned already */
    int error;    /* repeats until the cursor is moved */
    uint64_t failed_at;
    bool quiet; /* errors are not logged */

    struct lli_catalogue_segment segment; /* the current one */
    int fd;                               /* of its file; -1: it could not be opened */
    uint64_t offset;                      /* of the expected block, or of the one being read ... */
    struct lli_block_position at;         /* ... and its place in the chain */

    bool reading; /* `block` is being read */
    struct lli_block block;
    struct lli_block_position after;
    struct lli_block_reader reader;
    bool waiting; /* `waits` is beyond the limit, and comes next */
    struct lli_record waits;
    bool skipped; /* damage was skipped: a gap from this position on comes next */
    struct lli_block_position skipped_from;
    uint64_t searched; /* one past the sequence of the last block that was searched behind, and is the end */

    uint8_t *buffer; /* buffer_size bytes of the file from buffer_offset on */
    uint64_t buffer_offset;
    uint64_t buffer_size;
    uint32_t ahead; /* bytes that the next read takes at least */

    struct lli_index_entry *entries; /* of the current segment */
    size_t entries_count;
    size_t entries_room;
};

/*
 * Points to bytes of the current segment from an offset on: `wanted` or more, unless the file ends before.
 */
int lli_cursor_bytes(struct lli_cursor *cursor, uint64_t offset, uint64_t wanted, const uint8_t **bytes,
                     uint64_t *size);

/*
 * Reads and checks the block at an offset; at: as lli_block_check(). 1: it is whole; 0: it is not; else an
 * error.
 */
int lli_cursor_check(struct lli_cursor *cursor, uint64_t offset, const struct lli_block_position *at,
                     struct cursor_found *found);

/* Makes a segment the current one, and stands before its first block. */
int lli_cursor_enter(struct lli_cursor *cursor, const struct lli_catalogue_segment *segment);

/* Stands before a block of the current segment. */
void lli_cursor_stand(struct lli_cursor *cursor, uint64_t offset, const struct lli_block_position *at);

/* Forgets an error, skipped damage and what was returned already. */
void lli_cursor_forget(struct lli_cursor *cursor);

/* Stands before the first block of the recording; cursor->error says if that is not there. */
void lli_cursor_to_beginning(struct lli_cursor *cursor);

/* Returns the recording; NULL, with cursor->error set: it was removed. */
const struct lli_recording *lli_cursor_recording(struct lli_cursor *cursor);

/* Reads the index of the current segment, as far as it is in order. LLM_ENOMEM. */
int lli_cursor_read_index(struct lli_cursor *cursor);

/*
 * True if an entry of the index names a whole block that counts, which it reads; before: sequence from which
 * on blocks of the segment do not count. False, with cursor->error unchanged, also if it cannot be read.
 */
bool lli_cursor_check_entry(struct lli_cursor *cursor, const struct lli_index_entry *entry, uint64_t before,
                            struct cursor_found *found);

/* Sequence from which on blocks of a segment do not count. */
static inline uint64_t lli_cursor_before(const struct lli_recording *recording, uint32_t segment)
{
    return segment + 1 < recording->count ? recording->segments[segment + 1].sequence : UINT64_MAX;
}

#endif
