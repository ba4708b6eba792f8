/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a recording after a crash, and which messages before it are complete. */
#include <inttypes.h>

#include "core/pack/unpack.h"
#include "store/cursor_internal.h"

/* -------------------------------------------------------------------------------------- the last segment */

struct recover {
    struct lli_recovery state;
    bool begun;    /* a block was found */
    bool numbered; /* ... and one that has more than names */
    bool damaged;
    uint64_t offset; /* where the recording ends in the segment */
};

/* Notes if the block ends the session. */
static void recover_note_block(struct recover *recover, const uint8_t *bytes, struct lli_recording_end *end)
{
    struct lli_block_reader reader = lli_block_records(bytes, &recover->state.block);
    struct lli_record record;

    recover->begun = true;
    recover->numbered |= recover->state.block.message != LLI_BLOCK_UNNUMBERED;
    end->wall = recover->state.block.wall;
    end->ended = false;
    while (lli_block_next(&reader, &record)) {
        end->ended = record.kind == LLI_RECORD_END;
        end->reason = record.reason;
    }
}

/*
 * Runs a recovery to its end. search: whole blocks behind it are looked for, unless the session has ended.
 */
static int recover_run(struct lli_cursor *cursor, struct recover *recover, bool search,
                       struct lli_recording_end *end)
{
    enum lli_recovery_step step = LLI_RECOVERY_READ;

    recover->begun = recover->numbered = false;
    while (step == LLI_RECOVERY_READ || step == LLI_RECOVERY_BLOCK) {
        const uint8_t *bytes;
        uint64_t size;
        const int error =
            lli_cursor_bytes(cursor, recover->state.offset, recover->state.wanted, &bytes, &size);

        if (error != LLM_OK)
            return error;
        step = lli_recovery_step(&recover->state, bytes, size);
        if (step == LLI_RECOVERY_BLOCK)
            recover_note_block(recover, bytes, end);
        if (step == LLI_RECOVERY_READ && recover->state.ended && (!search || end->ended))
            break;
    }
    recover->damaged = step == LLI_RECOVERY_DAMAGED;
    recover->offset = recover->state.end;
    return LLM_OK;
}

/* Finds the end of the current segment: from the last entry of its index on that is right, or the beginning. */
static int recover_segment(struct lli_cursor *cursor, const struct lli_segment *segment, bool search,
                           struct recover *recover, struct lli_recording_end *end)
{
    size_t entry = cursor->entries_count, step = 1;
    int error;

    while (entry > 0) {
        entry -= lli_min(entry, step);
        step *= 2;
        lli_recovery_begin_at(&recover->state, segment, cursor->entries + entry);
        error = recover_run(cursor, recover, search, end);
        if (error != LLM_OK || recover->begun)
            return error;
    }
    lli_recovery_begin(&recover->state, segment);
    return recover_run(cursor, recover, search, end);
}

static void recover_warn(struct lli_cursor *cursor, const struct recover *recover)
{
    char name[LLI_CATALOGUE_NAME];

    lli_catalogue_name(name, cursor->session, cursor->segment.ordinal, LLI_CATALOGUE_SEGMENT);
    lli_log(&cursor->log, LLM_LEVEL_WARNING,
            "%s/%s: offset %" PRIu64
            ": damaged: the block that was written here is not whole, and later ones "
            "are: the recording goes on at packet %" PRIu64,
            cursor->catalogue->directory, name, recover->offset, recover->state.next.packet);
}

static int recover_find_end(struct lli_cursor *cursor, bool search, struct lli_recording_end *end)
{
    const struct lli_recording *recording;
    const struct lli_catalogue_segment *last;
    struct lli_segment segment;
    struct recover recover;
    int error;

    *end = (struct lli_recording_end){.ended = false};
    lli_cursor_forget(cursor);
    recording = lli_cursor_recording(cursor);
    if (recording == NULL)
        return cursor->error;
    last = recording->segments + recording->count - 1;
    segment = lli_catalogue_segment(recording, last);
    error = lli_cursor_enter(cursor, last);
    if (error == LLM_OK)
        error = lli_cursor_read_index(cursor);
    if (error == LLM_OK)
        error = recover_segment(cursor, &segment, search, &recover, end);
    if (error != LLM_OK)
        return error;
    end->damaged = recover.damaged;
    if (recover.damaged)
        recover_warn(cursor, &recover);
    end->replaces = !recover.numbered;
    end->next = end->replaces ? segment.first : recover.state.next;
    end->ordinal = end->replaces ? segment.ordinal : segment.ordinal + 1;
    if (!recover.begun)
        end->wall = segment.first.wall;
    end->messages = end->delivered = end->run_from = end->next.message;
    end->resume = end->next.packet;
    lli_cursor_stand(cursor, recover.offset, &recover.state.next);
    return LLM_OK;
}

/* --------------------------------------------------------------------------------------------- messages */

/* Follows the messages from some packet to the end. */
struct recover_messages {
    struct lli_unpack unpack;
    uint8_t nothing[8]; /* messages that span packets are not put together */
    bool begun;
    uint64_t run_from;
    struct lli_unopened unopened; /* the first one */
    uint64_t started;             /* the last message that was found unfinished at the end of a packet ... */
    lli_seq start;                /* ... and the packet in which it starts */
};

static void recover_begin(struct recover_messages *messages, uint64_t number)
{
    lli_unpack_reset(&messages->unpack, number);
    lli_unpack_break(&messages->unpack);
    messages->run_from = number;
    messages->begun = true;
}

static void recover_unpack(struct recover_messages *messages)
{
    struct lli_unpack *unpack = &messages->unpack;
    const struct llm_message like = {.size = 0};
    struct llm_message some[64];
    struct lli_unpacked next;
    uint32_t topic;

    do {
        while (!lli_unpack_is_done(unpack) && lli_unpack_peek(unpack, &topic) &&
               lli_unpack_messages(unpack, &like, some, 64) > 0)
            ;
        lli_unpack_next(unpack, &next);
        if (next.kind == LLI_UNPACK_LOST && next.last + 1 > next.number)
            messages->run_from = next.last + 1;
    } while (next.kind != LLI_UNPACK_NONE);
}

/* A packet is passed by unread: messages up to the first one that starts in it are complete, as far as is known. */
static void recover_skip(struct recover_messages *messages, const struct lli_record *record)
{
    struct lli_unpacked passed;

    if (!messages->unpack.broken)
        lli_unpack_break(&messages->unpack);
    (void)lli_unpack_lost_before(&messages->unpack, lli_max(record->message, messages->unpack.number),
                                 &passed);
    lli_unpack_break(&messages->unpack);
}

static void recover_packet(struct lli_cursor *cursor, struct recover_messages *messages,
                           const struct lli_record *record)
{
    struct lli_unopened unopened;
    struct lli_wire_header header;
    const uint8_t *packet, *body;
    uint32_t packet_size;
    size_t size;

    if (!messages->begun)
        recover_begin(messages, record->message);
    if (!lli_cursor_packet(cursor, record, &packet, &packet_size, &unopened)) {
        if (!messages->unopened.is_set)
            messages->unopened = unopened;
        recover_skip(messages, record);
        return;
    }
    if (lli_wire_get_header(packet, packet_size, &header, &body, &size) != LLI_WIRE_OK ||
        header.type != LLI_WIRE_DATA)
        return;
    lli_unpack_begin(&messages->unpack, &header, body, size);
    recover_unpack(messages);
    if (messages->unpack.assembling && messages->started != messages->unpack.number - 1) {
        messages->started = messages->unpack.number - 1;
        messages->start = record->packet;
    }
}

static void recover_gap(struct recover_messages *messages, const struct lli_record *gap)
{
    struct lli_unpacked lost;

    if (!messages->begun)
        recover_begin(messages, gap->message);
    lli_unpack_break(&messages->unpack);
    (void)lli_unpack_lost_before(&messages->unpack, lli_max(gap->message_next, messages->unpack.number),
                                 &lost);
    /* The next packet may begin with the rest of a message that is lost. */
    lli_unpack_break(&messages->unpack);
    if (lost.last + 1 > lost.number && gap->reason != LLM_REASON_UNRELIABLE)
        messages->run_from = lost.last + 1;
}

/* Reads to the end. */
static int recover_read(struct lli_cursor *cursor, struct recover_messages *messages)
{
    const struct lli_block *block;
    struct lli_record record;
    int there;

    for (;;) {
        there = lli_cursor_next(cursor, &record, &block);
        /* Damage in the middle is a loss, and the end is where it was found. */
        if (there < 0 && (there != LLM_EDAMAGED || !lli_cursor_skip_damage(cursor)))
            return there;
        if (there == 0)
            return LLM_OK;
        if (there == 1 && record.kind == LLI_RECORD_PACKET)
            recover_packet(cursor, messages, &record);
        if (there == 1 && record.kind == LLI_RECORD_GAP)
            recover_gap(messages, &record);
    }
}

/* ------------------------------------------------------------------------------------------------ reach */

struct recover_place {
    struct lli_catalogue_segment segment;
    uint64_t offset;
    struct lli_block_position at;
};

static struct recover_place recover_place(const struct lli_cursor *cursor)
{
    return (struct recover_place){cursor->segment, cursor->offset, cursor->at};
}

static int recover_stand_at(struct lli_cursor *cursor, const struct recover_place *place)
{
    const int error = lli_cursor_enter(cursor, &place->segment);

    if (error == LLM_OK)
        lli_cursor_stand(cursor, place->offset, &place->at);
    return error;
}

static bool recover_is_before(const struct recover_place *a, const struct recover_place *b)
{
    return a->segment.ordinal != b->segment.ordinal ? a->segment.ordinal < b->segment.ordinal
                                                    : a->offset < b->offset;
}

/* Stands at an indexed block of the current segment at or before an offset, or at its beginning. */
static int recover_stand_before(struct lli_cursor *cursor, uint64_t offset, uint64_t before)
{
    size_t entry;
    int error = lli_cursor_read_index(cursor);

    if (error != LLM_OK)
        return error;
    for (entry = cursor->entries_count; entry > 0; entry--) {
        const struct lli_index_entry *named = cursor->entries + entry - 1;
        struct cursor_found found;

        if (named->offset > offset || !lli_cursor_check_entry(cursor, named, before, &found))
            continue;
        lli_cursor_stand(cursor, named->offset,
                         &(struct lli_block_position){.session = cursor->session,
                                                      .sequence = found.block.sequence,
                                                      .previous = found.block.previous,
                                                      .packet = found.block.packet,
                                                      .message = found.block.message,
                                                      .wall = found.block.wall});
        break;
    }
    return LLM_OK;
}

/* From the end, stands at least `reach` bytes before it, or at the beginning of the recording. */
static int recover_reach(struct lli_cursor *cursor, uint64_t reach)
{
    const struct lli_recording *recording = lli_cursor_recording(cursor);
    uint64_t behind = cursor->offset;
    int error;

    if (recording == NULL)
        return cursor->error;
    for (uint32_t i = recording->count; i-- > 0; behind = i > 0 ? recording->segments[i - 1].size : 0) {
        error = lli_cursor_enter(cursor, recording->segments + i);
        if (error != LLM_OK)
            return error;
        if (behind - LLI_SEGMENT_HEADER >= reach)
            return recover_stand_before(cursor, behind - reach, lli_cursor_before(recording, i));
        reach -= behind - LLI_SEGMENT_HEADER;
    }
    return LLM_OK;
}

/* Stands where messages and losses are read from: as far back as both need. */
static int recover_stand(struct lli_cursor *cursor, const struct lli_recording_end *end, uint64_t reach)
{
    struct recover_place losses, message;
    int error = recover_reach(cursor, end->ended ? 0 : reach);

    losses = recover_place(cursor);
    if (error != LLM_OK || end->next.message == 0)
        return error;
    /* The last message starts in the packet with its number, or in a later one. */
    error = lli_cursor_seek(cursor, LLI_INDEX_MESSAGE, end->next.message - 1);
    /* It is damaged, or started before the recording: what follows it counts. */
    if (error == LLM_ENOTFOUND && cursor->error == LLM_OK)
        return recover_stand_at(cursor, &losses);
    message = recover_place(cursor);
    if (error == LLM_OK && recover_is_before(&losses, &message))
        error = recover_stand_at(cursor, &losses);
    return error;
}

static int recover_all(struct lli_cursor *cursor, uint64_t reach, bool search, struct lli_recording_end *end)
{
    struct recover_messages messages = {.started = UINT64_MAX};
    const lli_seq limit = cursor->limit;
    int error = recover_find_end(cursor, search, end);

    if (error != LLM_OK)
        return error;
    lli_unpack_init(&messages.unpack, messages.nothing, 0);
    error = recover_stand(cursor, end, reach);
    cursor->limit = end->next.packet;
    if (error == LLM_OK)
        error = recover_read(cursor, &messages);
    cursor->limit = limit;
    if (error != LLM_OK || !messages.begun)
        return error;
    end->messages = messages.unpack.number;
    end->delivered = messages.unpack.number - messages.unpack.assembling;
    end->run_from = messages.run_from;
    end->unopened = messages.unopened;
    end->resume = messages.unpack.assembling ? messages.start : end->next.packet;
    return LLM_OK;
}

int lli_cursor_recover(struct lli_cursor *cursor, uint64_t reach, struct lli_recording_end *end)
{
    return recover_all(cursor, reach, true, end);
}

int lli_cursor_end(struct lli_cursor *cursor, struct lli_recording_end *end)
{
    return recover_all(cursor, 0, false, end);
}
