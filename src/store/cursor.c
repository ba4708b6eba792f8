/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "store/cursor_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CURSOR_AHEAD_MIN = 64 << 10, /* bytes that are read at once at first ... */
    CURSOR_AHEAD_MAX = 1 << 20,  /* ... and with each read twice as many, up to this many */
    /* With a block of this size or more only the header of the next is read: all that follows would be moved later. */
    CURSOR_LARGE = 128 << 10,
    CURSOR_PIECE = 64 << 10, /* read by one call: the kernel may not let others run while it copies */
    /* A block of which one byte was read, and as much more as is read at once. */
    CURSOR_BUFFER = LLI_BLOCK_MAX + CURSOR_AHEAD_MAX,
};

/* ----------------------------------------------------------------------------------------------- errors */

/* Logs an error of the file that the cursor reads, and remembers it. */
static int cursor_fail(struct lli_cursor *cursor, int error, uint64_t offset, const char *what,
                       const char *detail)
{
    char name[LLI_CATALOGUE_NAME];

    lli_catalogue_name(name, cursor->session, cursor->segment.ordinal, LLI_CATALOGUE_SEGMENT);
    cursor->failed_at = offset;
    cursor->error = error;
    return cursor->quiet ? error
                         : lli_fail(&cursor->log, error, "%s/%s: offset %" PRIu64 ": %s%s",
                                    cursor->catalogue->directory, name, offset, what, detail);
}

static int cursor_system(struct lli_cursor *cursor, uint64_t offset)
{
    if (errno == ENOENT)
        return cursor_fail(cursor, LLM_ENOTFOUND, offset, "the segment was removed",
                           ": retention does that, or somebody by hand");
    return cursor_fail(cursor, errno == EACCES || errno == EPERM ? LLM_EACCESS : LLM_ESYSTEM, offset,
                       "cannot be read: ", strerror(errno));
}

/* True if the segment is still where it was, and not in use for something else. */
static bool cursor_is_there(const struct lli_cursor *cursor)
{
    char name[LLI_CATALOGUE_NAME];
    struct stat opened, named;

    lli_catalogue_name(name, cursor->session, cursor->segment.ordinal, LLI_CATALOGUE_SEGMENT);
    return fstat(cursor->fd, &opened) == 0 &&
           fstatat(cursor->catalogue->fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* A block that has to be at this offset is not: it is damaged, or the segment is gone. */
static int cursor_damage(struct lli_cursor *cursor, uint64_t offset)
{
    if (!cursor_is_there(cursor)) {
        errno = ENOENT;
        return cursor_system(cursor, offset);
    }
    return cursor_fail(cursor, LLM_EDAMAGED, offset,
                       "damaged: the block that has to be here is not whole, or not the next one", "");
}

/* ------------------------------------------------------------------------------------------------ bytes */

static void cursor_forget_bytes(struct lli_cursor *cursor)
{
    cursor->buffer_size = 0;
    cursor->ahead = CURSOR_AHEAD_MIN;
}

/* Reads up to size bytes of the file at an offset. -1 with errno set. */
static ssize_t cursor_pread(int fd, uint8_t *bytes, uint64_t size, uint64_t offset)
{
    uint64_t done = 0;

    while (done < size) {
        const ssize_t more =
            pread(fd, bytes + done, lli_min(size - done, CURSOR_PIECE), (off_t)(offset + done));

        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return -1;
        if (more == 0)
            break;
        done += (uint64_t)more;
    }
    return (ssize_t)done;
}

int lli_cursor_bytes(struct lli_cursor *cursor, uint64_t offset, uint64_t wanted, const uint8_t **bytes,
                     uint64_t *size)
{
    const uint64_t end = cursor->buffer_offset + cursor->buffer_size;
    const uint64_t rest = lli_max(cursor->segment.size, offset) - offset;
    uint64_t have = offset >= cursor->buffer_offset && offset < end ? end - offset : 0;
    ssize_t more;

    wanted = lli_min(lli_min(wanted, LLI_BLOCK_MAX), rest);
    if (have < wanted) {
        const uint64_t useful =
            wanted < CURSOR_LARGE ? lli_max(wanted, have + cursor->ahead) : wanted + LLI_BLOCK_ALIGN;
        const uint64_t reach = lli_min(useful, lli_min(rest, CURSOR_BUFFER));

        memmove(cursor->buffer, cursor->buffer + cursor->buffer_size - have, have);
        cursor->buffer_offset = offset;
        cursor->buffer_size = have;
        more = cursor_pread(cursor->fd, cursor->buffer + have, reach - have, offset + have);
        if (more < 0)
            return cursor_system(cursor, offset);
        have = cursor->buffer_size += (uint64_t)more;
        cursor->ahead = (uint32_t)lli_min(2 * (uint64_t)cursor->ahead, CURSOR_AHEAD_MAX);
    }
    *bytes = cursor->buffer + (offset - cursor->buffer_offset);
    *size = have;
    return LLM_OK;
}

int lli_cursor_check(struct lli_cursor *cursor, uint64_t offset, const struct lli_block_position *at,
                     struct cursor_found *found)
{
    enum lli_block_fault fault;
    uint64_t size;
    int error = lli_cursor_bytes(cursor, offset, LLI_BLOCK_ALIGN, &found->bytes, &size);

    if (error != LLM_OK)
        return error;
    fault = lli_block_check(found->bytes, size, at, &found->block, &found->after);
    if (fault == LLI_BLOCK_SHORT) {
        error = lli_cursor_bytes(cursor, offset, found->block.size, &found->bytes, &size);
        if (error != LLM_OK)
            return error;
        fault = lli_block_check(found->bytes, size, at, &found->block, &found->after);
    }
    return fault == LLI_BLOCK_OK;
}

/* Likewise; what is in memory may be from before the block was written. */
static int cursor_check_fresh(struct lli_cursor *cursor, uint64_t offset, const struct lli_block_position *at,
                              struct cursor_found *found)
{
    const bool fresh =
        offset < cursor->buffer_offset || offset >= cursor->buffer_offset + cursor->buffer_size;
    int there = lli_cursor_check(cursor, offset, at, found);

    if (there == 0) {
        cursor_forget_bytes(cursor);
        if (!fresh)
            there = lli_cursor_check(cursor, offset, at, found);
        if (there == 0)
            cursor_forget_bytes(cursor);
    }
    return there;
}

/* --------------------------------------------------------------------------------------------- segments */

static void cursor_leave(struct lli_cursor *cursor)
{
    if (cursor->fd >= 0)
        close(cursor->fd);
    cursor->fd = -1;
    cursor->reading = cursor->waiting = false;
    cursor_forget_bytes(cursor);
}

void lli_cursor_stand(struct lli_cursor *cursor, uint64_t offset, const struct lli_block_position *at)
{
    cursor->reading = cursor->waiting = false;
    cursor->offset = offset;
    cursor->at = *at;
}

/* Stands before the first block of the current segment. */
static void cursor_to_start(struct lli_cursor *cursor)
{
    const struct lli_block_position at = {.session = cursor->session,
                                          .sequence = cursor->segment.sequence,
                                          .previous = cursor->segment.previous,
                                          .packet = cursor->segment.packet,
                                          .message = cursor->segment.message,
                                          .wall = cursor->segment.wall};

    lli_cursor_stand(cursor, LLI_SEGMENT_HEADER, &at);
}

/* Checks that the file that was opened has the header that the catalogue has of it. */
static int cursor_check_header(struct lli_cursor *cursor)
{
    uint8_t bytes[LLI_SEGMENT_HEADER];
    struct lli_segment segment;
    const ssize_t size = cursor_pread(cursor->fd, bytes, sizeof bytes, 0);

    if (size < 0)
        return cursor_system(cursor, 0);
    if (size != sizeof bytes || lli_segment_get(bytes, &segment) != LLI_SEGMENT_OK ||
        segment.first.session != cursor->session || segment.first.packet != cursor->segment.packet ||
        segment.first.sequence != cursor->segment.sequence)
        return cursor_fail(cursor, LLM_EDAMAGED, 0,
                           "damaged: the header of the segment is not whole, or of another one", "");
    return LLM_OK;
}

int lli_cursor_enter(struct lli_cursor *cursor, const struct lli_catalogue_segment *segment)
{
    char name[LLI_CATALOGUE_NAME];

    if (cursor->fd >= 0 && cursor->segment.packet == segment->packet &&
        cursor->segment.ordinal == segment->ordinal) {
        cursor_to_start(cursor);
        return LLM_OK;
    }
    cursor_leave(cursor);
    cursor->segment = *segment;
    cursor_to_start(cursor);
    lli_catalogue_name(name, cursor->session, segment->ordinal, LLI_CATALOGUE_SEGMENT);
    cursor->fd = openat(cursor->catalogue->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (cursor->fd < 0)
        return cursor_system(cursor, 0);
    return cursor_check_header(cursor);
}

const struct lli_recording *lli_cursor_recording(struct lli_cursor *cursor)
{
    const struct lli_recording *recording = lli_catalogue_find(cursor->catalogue, cursor->session);

    if (recording == NULL) {
        errno = ENOENT;
        (void)cursor_system(cursor, cursor->offset);
    }
    return recording;
}

/* Returns the segment that follows the current one; NULL: there is none. */
static const struct lli_catalogue_segment *cursor_follower(struct lli_cursor *cursor)
{
    const struct lli_recording *recording = lli_catalogue_find(cursor->catalogue, cursor->session);
    uint32_t low = 0, high = recording == NULL ? 0 : recording->count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (recording->segments[middle].ordinal <= cursor->segment.ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return recording != NULL && low < recording->count ? recording->segments + low : NULL;
}

/* ------------------------------------------------------------------------------------------------- next */

/* The expected block is whole: its records come next. */
static void cursor_read_block(struct lli_cursor *cursor, const struct cursor_found *found)
{
    cursor->block = found->block;
    cursor->after = found->after;
    cursor->reader = lli_block_records(found->bytes, &found->block);
    if (found->block.message == LLI_BLOCK_UNNUMBERED)
        cursor->reader.message = cursor->at.message;
    cursor->reading = true;
}

/* Goes on in the segment that follows. 1, or an error. */
static int cursor_cross(struct lli_cursor *cursor, const struct lli_catalogue_segment *segment)
{
    const struct lli_block_position at = cursor->at;
    const uint64_t offset = cursor->offset;
    const bool follows =
        segment->sequence < at.sequence || (segment->sequence == at.sequence &&
                                            segment->previous == at.previous && segment->packet == at.packet);
    int error;

    if (!follows)
        return cursor_damage(cursor, offset);
    /* Packets read beyond its beginning, before they were durable, are not returned twice. */
    cursor->from = lli_max(cursor->from, at.packet);
    error = lli_cursor_enter(cursor, segment);
    return error == LLM_OK ? 1 : error;
}

/*
 * The last block of the recording is not whole: it is not written yet, unless later ones are. 1: it is whole
 * by now; 0: it is the end; else an error.
 */
static int cursor_search(struct lli_cursor *cursor, struct cursor_found *found)
{
    enum lli_recovery_step step = LLI_RECOVERY_READ;
    struct lli_recovery recovery;
    const struct lli_segment segment = {.first = cursor->at, .size = cursor->segment.size};
    const uint8_t *bytes;
    uint64_t size;
    int there;

    if (cursor->limit != LLI_NO_LIMIT)
        return cursor->at.packet < cursor->limit ? cursor_damage(cursor, cursor->offset) : 0;
    if (cursor->searched == cursor->at.sequence + 1)
        return 0;
    lli_recovery_begin(&recovery, &segment);
    recovery.offset = recovery.end = cursor->offset;
    while (step == LLI_RECOVERY_READ && recovery.offset < cursor->segment.size) {
        const int error = lli_cursor_bytes(cursor, recovery.offset, recovery.wanted, &bytes, &size);

        if (error != LLM_OK)
            return error;
        step = lli_recovery_step(&recovery, bytes, size);
    }
    cursor_forget_bytes(cursor);
    if (step == LLI_RECOVERY_DAMAGED || step == LLI_RECOVERY_BLOCK) {
        /* A store that runs has written it, and the later ones, since it was read. */
        there = lli_cursor_check(cursor, cursor->offset, &cursor->at, found);
        return there != 0 ? there : cursor_damage(cursor, cursor->offset);
    }
    cursor->searched = cursor->at.sequence + 1;
    return 0;
}

/* Finds the block that follows. 1: its records come next; 0: there is none now; else an error. */
static int cursor_advance(struct lli_cursor *cursor)
{
    for (;;) {
        const struct lli_catalogue_segment *follower = cursor_follower(cursor);
        struct cursor_found found;
        int there;

        if (follower != NULL && follower->sequence <= cursor->at.sequence) {
            there = cursor_cross(cursor, follower);
            if (there < 0)
                return there;
            continue;
        }
        there = cursor_check_fresh(cursor, cursor->offset, &cursor->at, &found);
        if (there == 0)
            there = follower != NULL ? cursor_damage(cursor, cursor->offset) : cursor_search(cursor, &found);
        if (there > 0)
            cursor_read_block(cursor, &found);
        return there;
    }
}

/* The records of the block were read. */
static void cursor_pass(struct lli_cursor *cursor)
{
    cursor->reading = false;
    cursor->offset += cursor->block.size;
    cursor->at = cursor->after;
}

/* Returns the gap that damage made, before the first record behind it that has a number. */
static bool cursor_gap(struct lli_cursor *cursor, struct lli_record *record)
{
    if (!cursor->skipped || cursor->block.message == LLI_BLOCK_UNNUMBERED)
        return false;
    cursor->skipped = false;
    if (cursor->block.packet <= cursor->skipped_from.packet)
        return false;
    *record = (struct lli_record){.kind = LLI_RECORD_GAP,
                                  .packet = cursor->skipped_from.packet,
                                  .next = cursor->block.packet,
                                  .message = lli_min(cursor->skipped_from.message, cursor->block.message),
                                  .message_next = cursor->block.message,
                                  .reason = LLM_REASON_DAMAGED};
    return true;
}

/* Returns the next record of the block. False: there is none. */
static bool cursor_record(struct lli_cursor *cursor, struct lli_record *record)
{
    if (cursor->waiting) {
        cursor->waiting = false;
        *record = cursor->waits;
        return true;
    }
    if (cursor_gap(cursor, record))
        return true;
    while (lli_block_next(&cursor->reader, record))
        if (record->next > cursor->from || record->next == record->packet)
            return true;
    return false;
}

int lli_cursor_next(struct lli_cursor *cursor, struct lli_record *record, const struct lli_block **block)
{
    int there;

    if (cursor->error != LLM_OK)
        return cursor->error;
    for (;;) {
        if (!cursor->reading) {
            there = cursor_advance(cursor);
            if (there <= 0)
                return there;
        }
        if (cursor_record(cursor, record))
            break;
        cursor_pass(cursor);
    }
    if (record->next > cursor->limit) {
        cursor->waits = *record;
        cursor->waiting = true;
        return 0;
    }
    *block = &cursor->block;
    return 1;
}

void lli_cursor_limit(struct lli_cursor *cursor, lli_seq end)
{
    cursor->limit = end;
}

struct lli_cursor_place lli_cursor_place(const struct lli_cursor *cursor)
{
    return (struct lli_cursor_place){.ordinal = cursor->segment.ordinal,
                                     .offset = cursor->error != LLM_OK ? cursor->failed_at : cursor->offset};
}

void lli_cursor_forget(struct lli_cursor *cursor)
{
    cursor->from = 0;
    cursor->skipped = false;
    cursor->error = LLM_OK;
}

void lli_cursor_rewind_segment(struct lli_cursor *cursor)
{
    lli_cursor_forget(cursor);
    cursor_to_start(cursor);
}

/* --------------------------------------------------------------------------------------------- damage */

/* Looks for a whole block behind an offset of the segment that belongs there. */
static bool cursor_find_behind(struct lli_cursor *cursor, uint64_t offset, uint64_t before)
{
    struct cursor_found found;

    for (; offset < cursor->segment.size; offset += LLI_BLOCK_ALIGN) {
        const uint8_t *bytes;
        struct lli_block block;
        enum lli_block_fault fault;
        uint64_t size;

        if (lli_cursor_bytes(cursor, offset, LLI_BLOCK_ALIGN, &bytes, &size) != LLM_OK ||
            size < LLI_BLOCK_HEADER)
            return false;
        fault = lli_block_get(bytes, size, &block);
        if ((fault != LLI_BLOCK_OK && fault != LLI_BLOCK_SHORT) || block.session != cursor->session ||
            block.sequence < cursor->at.sequence || block.sequence >= before ||
            block.packet < cursor->at.packet)
            continue;
        if (lli_cursor_check(cursor, offset, NULL, &found) == 1) {
            cursor->offset = offset;
            cursor->at = (struct lli_block_position){.session = cursor->session,
                                                     .sequence = block.sequence,
                                                     .previous = block.previous,
                                                     .packet = block.packet,
                                                     .message = cursor->at.message,
                                                     .wall = cursor->at.wall};
            return true;
        }
    }
    return false;
}

bool lli_cursor_skip_damage(struct lli_cursor *cursor)
{
    const struct lli_block_position from = cursor->at;
    const struct lli_catalogue_segment *follower = cursor_follower(cursor);
    const bool quiet = cursor->quiet;
    bool found;

    if (cursor->error == LLM_OK)
        return true;
    cursor->quiet = true;
    cursor->reading = cursor->waiting = false;
    found = cursor->error == LLM_EDAMAGED && cursor->fd >= 0 &&
            cursor_find_behind(cursor, cursor->failed_at + LLI_BLOCK_ALIGN,
                               follower == NULL ? UINT64_MAX : follower->sequence);
    while (!found && follower != NULL) {
        const struct lli_catalogue_segment next = *follower;

        cursor->error = LLM_OK;
        found = lli_cursor_enter(cursor, &next) == LLM_OK;
        follower = cursor_follower(cursor);
    }
    cursor->quiet = quiet;
    if (!found) {
        cursor->error = cursor->error == LLM_OK ? LLM_EDAMAGED : cursor->error;
        return false;
    }
    cursor->error = LLM_OK;
    if (!cursor->skipped)
        cursor->skipped_from = from;
    cursor->skipped = true;
    cursor->from = lli_max(cursor->from, from.packet);
    return true;
}

/* ------------------------------------------------------------------------------------------ open, close */

void lli_cursor_to_beginning(struct lli_cursor *cursor)
{
    const struct lli_recording *recording;

    lli_cursor_forget(cursor);
    recording = lli_cursor_recording(cursor);
    if (recording != NULL)
        (void)lli_cursor_enter(cursor, recording->segments);
}

int lli_cursor_open(const struct lli_catalogue *catalogue, const struct lli_recording *recording,
                    const struct lli_log *log, struct lli_cursor **cursor)
{
    struct lli_cursor *opened = calloc(1, sizeof *opened);

    if (opened != NULL)
        opened->buffer = malloc(CURSOR_BUFFER);
    if (opened == NULL || opened->buffer == NULL) {
        free(opened);
        return lli_fail(log, LLM_ENOMEM, "store %s: no memory to read a recording", catalogue->directory);
    }
    opened->catalogue = catalogue;
    opened->log = *log;
    opened->session = recording->session;
    opened->limit = LLI_NO_LIMIT;
    opened->fd = -1;
    /* A fault of the file is an error of the first call that reads it. */
    lli_cursor_to_beginning(opened);
    *cursor = opened;
    return LLM_OK;
}

void lli_cursor_close(struct lli_cursor **cursor)
{
    struct lli_cursor *closed = *cursor;

    *cursor = NULL;
    if (closed == NULL)
        return;
    cursor_leave(closed);
    free(closed->entries);
    free(closed->buffer);
    free(closed);
}
