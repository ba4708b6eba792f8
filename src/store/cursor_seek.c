/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in a recording: the segment by its header, then a block near it by the index, then the blocks from
 * there on. Only blocks decide: an index that is wrong makes the way longer.
 */
#define _GNU_SOURCE
#include "store/cursor_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/pack/unpack.h"

/* ------------------------------------------------------------------------------------------------ index */

static bool seek_is_in_order(const struct lli_index_entry *last, const struct lli_index_entry *entry,
                             uint64_t size)
{
    return entry->offset % LLI_BLOCK_ALIGN == 0 && entry->offset >= LLI_SEGMENT_HEADER &&
           entry->offset < size &&
           (last == NULL || (entry->offset > last->offset && entry->packet >= last->packet &&
                             entry->message >= last->message && entry->wall >= last->wall));
}

static void seek_get_entries(struct lli_cursor *cursor, int fd)
{
    uint8_t bytes[64 * LLI_INDEX_ENTRY];
    off_t offset = 0;
    ssize_t size = sizeof bytes;

    while (size == sizeof bytes && cursor->entries_count < cursor->entries_room) {
        size = pread(fd, bytes, sizeof bytes, offset);
        for (ssize_t at = 0; at + LLI_INDEX_ENTRY <= size; at += LLI_INDEX_ENTRY) {
            struct lli_index_entry *entry = cursor->entries + cursor->entries_count;
            const struct lli_index_entry *last = cursor->entries_count == 0 ? NULL : entry - 1;

            if (cursor->entries_count == cursor->entries_room)
                return;
            lli_index_get(bytes + at, entry);
            if (!seek_is_in_order(last, entry, cursor->segment.size))
                return;
            cursor->entries_count++;
        }
        offset += size;
    }
}

int lli_cursor_read_index(struct lli_cursor *cursor)
{
    const size_t room = cursor->segment.size / LLI_INDEX_DISTANCE + 2;
    char name[LLI_CATALOGUE_NAME];
    int fd;

    cursor->entries_count = 0;
    if (room > cursor->entries_room) {
        struct lli_index_entry *entries = realloc(cursor->entries, room * sizeof *entries);

        if (entries == NULL)
            return lli_fail(&cursor->log, LLM_ENOMEM, "store %s: no memory for an index of %zu entries",
                            cursor->catalogue->directory, room);
        cursor->entries = entries;
        cursor->entries_room = room;
    }
    lli_catalogue_name(name, cursor->session, cursor->segment.ordinal, LLI_CATALOGUE_INDEX);
    fd = openat(cursor->catalogue->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return LLM_OK;
    seek_get_entries(cursor, fd);
    close(fd);
    return LLM_OK;
}

bool lli_cursor_check_entry(struct lli_cursor *cursor, const struct lli_index_entry *entry, uint64_t before,
                            struct cursor_found *found)
{
    const bool quiet = cursor->quiet;
    bool whole;

    cursor->quiet = true;
    whole = lli_cursor_check(cursor, entry->offset, NULL, found) == 1;
    cursor->quiet = quiet;
    cursor->error = LLM_OK;
    return whole && found->block.session == cursor->session && found->block.packet == entry->packet &&
           found->block.sequence >= cursor->segment.sequence && found->block.sequence < before;
}

/* ----------------------------------------------------------------------------------------------- blocks */

struct seek {
    enum lli_index_key key;
    uint64_t value;
    uint64_t before; /* sequence from which on blocks of the current segment do not count */
};

enum seek_outcome {
    SEEK_FOUND,  /* the cursor stands there */
    SEEK_BEFORE, /* the value is before the first numbered block of the segment ... */
    SEEK_EMPTY,  /* ... or may be, as there is none */
    SEEK_BEHIND, /* it is behind the last one; the cursor stands behind that */
    SEEK_FAILED, /* cursor->error */
};

/* True if what has the value is in this block or behind it. */
static bool seek_is_at_or_behind(const struct seek *seek, const struct lli_block *block)
{
    if (block->message == LLI_BLOCK_UNNUMBERED)
        return true;
    switch (seek->key) {
    case LLI_INDEX_PACKET:
        return block->packet <= seek->value;
    case LLI_INDEX_MESSAGE:
        return block->message <= seek->value;
    default:
        return block->wall < seek->value;
    }
}

static struct lli_block_position seek_position(const struct lli_block *block)
{
    return (struct lli_block_position){.session = block->session,
                                       .sequence = block->sequence,
                                       .previous = block->previous,
                                       .packet = block->packet,
                                       .message = block->message,
                                       .wall = block->wall};
}

/* Stands at a block before the value that the index names, else at the first one of the segment. */
static void seek_near(struct lli_cursor *cursor, const struct seek *seek)
{
    size_t entry = lli_index_find(cursor->entries, cursor->entries_count, seek->key, seek->value);
    size_t step = 1;

    while (cursor->entries_count > 0) {
        const struct lli_index_entry *named = cursor->entries + entry;
        struct cursor_found found;

        if (lli_cursor_check_entry(cursor, named, seek->before, &found) &&
            seek_is_at_or_behind(seek, &found.block)) {
            const struct lli_block_position at = seek_position(&found.block);

            lli_cursor_stand(cursor, named->offset, &at);
            return;
        }
        if (entry == 0)
            return;
        entry -= lli_min(entry, step);
        step *= 2;
    }
}

/* Number of the message after the last one that starts in a block. */
static uint64_t seek_messages(const struct cursor_found *found)
{
    struct lli_block_reader reader = lli_block_records(found->bytes, &found->block);
    uint64_t messages = 0;
    struct lli_record record;

    while (lli_block_next(&reader, &record)) {
        if (record.kind == LLI_RECORD_PACKET)
            messages = record.message + lli_unpack_count(record.data, record.size);
        else if (!lli_record_is_name(&record))
            messages = record.kind == LLI_RECORD_GAP ? record.message_next : record.message;
    }
    return messages;
}

struct seek_candidate {
    uint64_t offset;
    struct lli_block_position at;
    lli_seq packet;    /* after it */
    uint64_t messages; /* after it */
    bool is_there;
};

/* Goes through the blocks to the last one at or before the value or, by time, the first one that is not. */
static enum seek_outcome seek_blocks(struct lli_cursor *cursor, const struct seek *seek,
                                     struct seek_candidate *candidate)
{
    *candidate = (struct seek_candidate){.is_there = false};
    while (cursor->at.sequence < seek->before && cursor->offset < cursor->segment.size) {
        struct cursor_found found;
        const int there = lli_cursor_check(cursor, cursor->offset, &cursor->at, &found);

        if (there < 0)
            return SEEK_FAILED;
        if (there == 0)
            break;
        if (!seek_is_at_or_behind(seek, &found.block))
            return seek->key == LLI_INDEX_WALL || candidate->is_there ? SEEK_FOUND : SEEK_BEFORE;
        if (found.block.message != LLI_BLOCK_UNNUMBERED)
            *candidate = (struct seek_candidate){
                .offset = cursor->offset,
                .at = cursor->at,
                .packet = found.after.packet,
                .messages = seek->key == LLI_INDEX_MESSAGE ? seek_messages(&found) : 0,
                .is_there = true};
        lli_cursor_stand(cursor, cursor->offset + found.block.size, &found.after);
    }
    return SEEK_BEHIND;
}

/* Seeks in the current segment. last: no other one follows. */
static enum seek_outcome seek_in(struct lli_cursor *cursor, const struct seek *seek, bool last)
{
    struct seek_candidate candidate;
    enum seek_outcome outcome;

    seek_near(cursor, seek);
    outcome = seek_blocks(cursor, seek, &candidate);
    if (outcome == SEEK_BEHIND && seek->key == LLI_INDEX_MESSAGE && !candidate.is_there)
        return SEEK_EMPTY;
    if (outcome == SEEK_FAILED || seek->key == LLI_INDEX_WALL || !candidate.is_there)
        return outcome;
    /* The last numbered block of the segment, and perhaps of the recording. */
    if (outcome == SEEK_BEHIND && seek->key == LLI_INDEX_PACKET && candidate.packet <= seek->value)
        return SEEK_BEHIND;
    if (outcome == SEEK_BEHIND && seek->key == LLI_INDEX_MESSAGE && last && candidate.messages <= seek->value)
        return SEEK_BEHIND;
    lli_cursor_stand(cursor, candidate.offset, &candidate.at);
    return SEEK_FOUND;
}

/* --------------------------------------------------------------------------------------------- segments */

/* Returns the last segment that begins at or before the value, by time before it; the first, if none does. */
static uint32_t seek_segment(const struct lli_recording *recording, enum lli_index_key key, uint64_t value)
{
    uint32_t low = 0, high = recording->count;

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        const struct lli_catalogue_segment *segment = recording->segments + middle;
        const bool before = key == LLI_INDEX_PACKET    ? segment->packet <= value
                            : key == LLI_INDEX_MESSAGE ? segment->message <= value
                                                       : segment->wall < value;

        if (before)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int seek_missing(struct lli_cursor *cursor)
{
    lli_cursor_to_beginning(cursor);
    return cursor->error != LLM_OK ? cursor->error : LLM_ENOTFOUND;
}

/* Nothing of the value is in the segment that the cursor stands behind. last: no other one follows. */
static int seek_behind(struct lli_cursor *cursor, const struct seek *seek, bool last)
{
    /* By time, what is received next is what was asked for. Below the limit, the next block has to be there. */
    if (!last || seek->key == LLI_INDEX_WALL ||
        (seek->key == LLI_INDEX_PACKET && cursor->limit != LLI_NO_LIMIT))
        return LLM_OK;
    return seek_missing(cursor);
}

/* Seeks in a segment and, for messages, in those before it: it may begin in the middle of a long one. */
static int seek_from(struct lli_cursor *cursor, struct seek *seek, const struct lli_recording *recording,
                     uint32_t segment)
{
    bool last = segment + 1 == recording->count;

    for (;; segment--) {
        enum seek_outcome outcome;

        seek->before = lli_cursor_before(recording, segment);
        if (lli_cursor_enter(cursor, recording->segments + segment) != LLM_OK ||
            lli_cursor_read_index(cursor) != LLM_OK)
            return cursor->error;
        outcome = seek_in(cursor, seek, last);
        if (outcome == SEEK_FOUND)
            return LLM_OK;
        if (outcome == SEEK_FAILED)
            return cursor->error;
        if (outcome == SEEK_BEHIND)
            return seek_behind(cursor, seek, last);
        if (segment == 0)
            return seek_missing(cursor);
        last = last && outcome == SEEK_EMPTY;
    }
}

int lli_cursor_seek(struct lli_cursor *cursor, enum lli_index_key key, uint64_t value)
{
    struct seek seek = {.key = key, .value = value};
    const struct lli_recording *recording;

    lli_cursor_forget(cursor);
    recording = lli_cursor_recording(cursor);
    if (recording == NULL)
        return cursor->error;
    if (key == LLI_INDEX_PACKET && (value < recording->segments[0].packet || value >= cursor->limit))
        return seek_missing(cursor);
    return seek_from(cursor, &seek, recording, seek_segment(recording, key, value));
}
