/* SPDX-License-Identifier: Apache-2.0 */
#include "core/recording/recorder.h"

enum {
    RECORDER_CUT_FROM = 16 << 10, /* bytes of the smallest block whose end may go to the next one ... */
    RECORDER_CUT_MAX = 16 << 10,  /* ... and bytes of that end, at most ... */
    RECORDER_CUT_PART = 4,        /* ... which is this part of the block at most */
};

/* Identities of writes that are not of a slot. */
enum { WRITE_HEADER = LLI_RECORDER_BLOCKS, WRITE_NAMES };

static struct lli_recorder_slot *recorder_slot(struct lli_recorder *recorder, uint32_t index)
{
    return &recorder->slots[(recorder->oldest + index) % LLI_RECORDER_BLOCKS];
}

static uint8_t *recorder_header(struct lli_recorder *recorder)
{
    return recorder->memory + (LLI_RECORDER_BLOCKS + 1) * (size_t)LLI_RECORDER_BLOCK;
}

/* Begins a segment behind what is durable; the blocks that are not will be sealed again. */
static void recorder_begin_segment(struct lli_recorder *recorder)
{
    recorder->phase = LLI_RECORDER_SEGMENT;
    recorder->segment.first = recorder->sealed;
    recorder->offset = LLI_SEGMENT_HEADER;
    recorder->blocks = 0;
    recorder->names.state = LLI_SLOT_EMPTY;
}

void lli_recorder_init(struct lli_recorder *recorder, const struct lli_segment *segment, uint8_t *memory)
{
    *recorder = (struct lli_recorder){.memory = memory,
                                      .segment = *segment,
                                      .ordinal = segment->ordinal,
                                      .end = segment->first,
                                      .sealed = segment->first,
                                      .durable = segment->first};
    recorder_begin_segment(recorder);
}

/* ------------------------------------------------------------------------------------------------ add */

/* Takes the next slot. NULL: all are in use. */
static struct lli_recorder_slot *recorder_take(struct lli_recorder *recorder)
{
    struct lli_recorder_slot *slot;

    if (recorder->used == LLI_RECORDER_BLOCKS)
        return NULL;
    slot = recorder_slot(recorder, recorder->used++);
    slot->state = LLI_SLOT_OPEN;
    slot->mark.used = 0;
    return slot;
}

static uint8_t *recorder_memory(const struct lli_recorder *recorder, const struct lli_recorder_slot *slot)
{
    return recorder->memory + (size_t)(slot - recorder->slots) * LLI_RECORDER_BLOCK;
}

/* Returns the slot that takes records, NULL if all are full. */
static struct lli_recorder_slot *recorder_open(struct lli_recorder *recorder)
{
    struct lli_recorder_slot *slot = recorder->used == 0 ? NULL : recorder_slot(recorder, recorder->used - 1);

    if (slot != NULL && slot->state == LLI_SLOT_OPEN)
        return slot;
    slot = recorder_take(recorder);
    if (slot != NULL)
        lli_block_begin(&slot->builder, recorder_memory(recorder, slot), LLI_RECORDER_BLOCK, &recorder->end);
    return slot;
}

/* Closes a slot that had no room, and returns the next one. */
static struct lli_recorder_slot *recorder_open_next(struct lli_recorder *recorder,
                                                    struct lli_recorder_slot *full)
{
    full->state = LLI_SLOT_CLOSED;
    return recorder_open(recorder);
}

/* Bytes that are left empty after the records of a block. */
static uint32_t recorder_empty(uint32_t used)
{
    return (uint32_t)lli_round_up(used, LLI_BLOCK_ALIGN) - used;
}

/* Bytes of the end of a block that may go to the next one. */
static uint32_t recorder_reach(uint32_t used)
{
    return (uint32_t)lli_min(used / RECORDER_CUT_PART, RECORDER_CUT_MAX);
}

/*
 * True if a record passes a multiple of LLI_BLOCK_ALIGN, and the place before it is the best one for the end of the block,
 * of those that are in reach until the next multiple is passed.
 */
static bool recorder_marks(const struct lli_recorder_slot *slot, uint32_t before)
{
    const uint32_t mark = slot->mark.used;

    return slot->builder.used > lli_round_up(before, LLI_BLOCK_ALIGN) &&
           (mark <= LLI_BLOCK_HEADER || recorder_empty(before) <= recorder_empty(mark) ||
            before - mark + LLI_BLOCK_ALIGN > recorder_reach(before));
}

/* Updates the mark after a record was added at `before`; message: of a block that would begin with it. */
static bool recorder_added(struct lli_recorder *recorder, struct lli_recorder_slot *slot,
                           const struct lli_block_mark *before, uint64_t message, uint64_t delivered)
{
    if (recorder_marks(slot, before->used)) {
        /* By member: a copy of the whole would wait for the stores that made it. */
        slot->mark.used = before->used;
        slot->mark.next = before->next;
        slot->mark.message = message;
        slot->mark_delivered = slot->delivered;
    }
    slot->delivered = delivered;
    recorder->end.packet = slot->builder.next.packet;
    recorder->end.message = slot->builder.next.message;
    return true;
}

/* The end of the records of a slot. */
static struct lli_block_mark recorder_mark(const struct lli_recorder_slot *slot)
{
    return (struct lli_block_mark){.used = slot == NULL ? 0 : slot->builder.used,
                                   .next = slot == NULL ? (struct lli_block_position){.packet = 0}
                                                        : slot->builder.next};
}

bool lli_recorder_add_packet(struct lli_recorder *recorder, const uint8_t *packet, uint32_t size,
                             uint64_t delivered)
{
    struct lli_recorder_slot *slot = recorder_open(recorder);
    struct lli_block_mark before = recorder_mark(slot);

    while (slot != NULL && !lli_block_add_packet(&slot->builder, packet, size)) {
        slot = recorder_open_next(recorder, slot);
        before = recorder_mark(slot);
    }
    return slot != NULL && recorder_added(recorder, slot, &before, slot->builder.next.message, delivered);
}

bool lli_recorder_add_gap(struct lli_recorder *recorder, const struct lli_record *gap, uint64_t delivered)
{
    struct lli_recorder_slot *slot = recorder_open(recorder);
    struct lli_block_mark before = recorder_mark(slot);

    while (slot != NULL && !lli_block_add_gap(&slot->builder, gap)) {
        slot = recorder_open_next(recorder, slot);
        before = recorder_mark(slot);
    }
    return slot != NULL && recorder_added(recorder, slot, &before, gap->message, delivered);
}

bool lli_recorder_add_end(struct lli_recorder *recorder, uint64_t messages, uint8_t reason)
{
    struct lli_recorder_slot *slot = recorder_open(recorder);
    struct lli_block_mark before = recorder_mark(slot);

    while (slot != NULL && !lli_block_add_end(&slot->builder, messages, reason)) {
        slot = recorder_open_next(recorder, slot);
        before = recorder_mark(slot);
    }
    return slot != NULL && recorder_added(recorder, slot, &before, messages, messages);
}

void lli_recorder_complete(struct lli_recorder *recorder, uint64_t delivered)
{
    if (recorder->used > 0)
        recorder_slot(recorder, recorder->used - 1)->delivered = delivered;
    else
        recorder->delivered = delivered;
}

bool lli_recorder_add_name(struct lli_recorder *recorder, const struct lli_record *name)
{
    struct lli_recorder_slot *slot = &recorder->names;

    assert(recorder->phase == LLI_RECORDER_NAMES);
    if (slot->state == LLI_SLOT_EMPTY) {
        lli_block_begin(&slot->builder, recorder->memory + LLI_RECORDER_BLOCKS * (size_t)LLI_RECORDER_BLOCK,
                        LLI_RECORDER_BLOCK, &recorder->sealed);
        slot->state = LLI_SLOT_OPEN;
    }
    if (slot->state != LLI_SLOT_OPEN)
        return false;
    if (lli_block_add_name(&slot->builder, name))
        return true;
    slot->state = LLI_SLOT_CLOSED;
    return false;
}

void lli_recorder_names_end(struct lli_recorder *recorder)
{
    assert(recorder->phase == LLI_RECORDER_NAMES);
    if (recorder->names.state == LLI_SLOT_OPEN)
        recorder->names.state = LLI_SLOT_CLOSED;
    recorder->phase = LLI_RECORDER_BLOCKS_FOLLOW;
}

/* ---------------------------------------------------------------------------------------------- write */

static void recorder_issue(struct lli_recorder *recorder, struct lli_write *write, const uint8_t *bytes,
                           uint32_t size, uint32_t id, uint64_t offset)
{
    *write = (struct lli_write){
        .bytes = bytes, .size = size, .id = id, .ordinal = recorder->segment.ordinal, .offset = offset};
    recorder->flying++;
}

static uint32_t recorder_size(const struct lli_recorder_slot *slot)
{
    return (uint32_t)lli_round_up(slot->builder.used, LLI_BLOCK_ALIGN);
}

/*
 * Has a large block end just before a multiple of 4 KiB, if less of its last 4 KiB is empty then: the rest goes to the
 * next block, which is written as soon as this one is. Of a block of 100 KiB, 0.6 KiB are empty instead of 2. Small
 * blocks are written as they are, so that no message waits for a second write where messages are few.
 */
static void recorder_cut(struct lli_recorder *recorder, struct lli_recorder_slot *slot)
{
    const uint32_t used = slot->builder.used, mark = slot->mark.used;
    struct lli_recorder_slot *rest;

    if (slot->state != LLI_SLOT_OPEN || used < RECORDER_CUT_FROM || mark <= LLI_BLOCK_HEADER ||
        used - mark > recorder_reach(used) || recorder_empty(mark) >= recorder_empty(used))
        return;
    rest = recorder_take(recorder);
    if (rest == NULL)
        return;
    lli_block_split(&slot->builder, &slot->mark, &rest->builder, recorder_memory(recorder, rest));
    rest->delivered = slot->delivered;
    slot->delivered = slot->mark_delivered;
    slot->state = LLI_SLOT_CLOSED;
}

/* Seals a block in its place in the chain, which is known only now. */
static void recorder_issue_block(struct lli_recorder *recorder, struct lli_recorder_slot *slot, uint32_t id,
                                 lli_ns wall, lli_ns steady, struct lli_write *write)
{
    struct lli_block_builder *builder = &slot->builder;
    uint32_t size;

    builder->at.sequence = recorder->sealed.sequence;
    builder->at.previous = recorder->sealed.previous;
    builder->at.wall = recorder->sealed.wall;
    size = lli_block_seal(builder, wall, steady, &slot->next);
    slot->state = LLI_SLOT_WRITING;
    recorder_issue(recorder, write, builder->bytes, size, id, recorder->offset);
    recorder->offset += size;
    recorder->sealed = slot->next;
}

static bool recorder_next_header(struct lli_recorder *recorder, lli_ns wall, struct lli_write *write)
{
    recorder->segment.wall = lli_max(wall, recorder->sealed.wall);
    recorder->segment.ordinal = recorder->ordinal++;
    recorder->heading = true;
    lli_segment_put(recorder_header(recorder), &recorder->segment);
    recorder_issue(recorder, write, recorder_header(recorder), LLI_SEGMENT_HEADER, WRITE_HEADER, 0);
    recorder->phase = LLI_RECORDER_NAMES;
    return true;
}

/* Everything that is not durable goes to another segment. */
static void recorder_go_on(struct lli_recorder *recorder)
{
    for (uint32_t i = 0; i < recorder->issued; i++)
        recorder_slot(recorder, i)->state = LLI_SLOT_CLOSED;
    recorder->issued = 0;
    recorder->sealed = recorder->durable;
    recorder->retried = true;
    recorder_begin_segment(recorder);
}

/* The next block, if it may be written now. */
static struct lli_recorder_slot *recorder_due(struct lli_recorder *recorder)
{
    struct lli_recorder_slot *slot;

    if (recorder->issued == recorder->used)
        return NULL;
    slot = recorder_slot(recorder, recorder->issued);
    /* Records that arrive while a write is under way join the next block. */
    return slot->state == LLI_SLOT_CLOSED || recorder->flying == 0 ? slot : NULL;
}

bool lli_recorder_next(struct lli_recorder *recorder, lli_ns wall, lli_ns steady, struct lli_write *write)
{
    struct lli_recorder_slot *slot;

    if (recorder->phase == LLI_RECORDER_FAILED && recorder->flying == 0)
        recorder_go_on(recorder);
    if (recorder->phase >= LLI_RECORDER_FAILED || recorder->heading ||
        recorder->flying == LLI_RECOVERY_FLIGHT)
        return false;
    slot = recorder_due(recorder);
    if (recorder->phase == LLI_RECORDER_SEGMENT)
        /* The segments before it are complete by then. */
        return slot != NULL && recorder->flying == 0 && recorder_next_header(recorder, wall, write);
    if (recorder->names.state == LLI_SLOT_CLOSED) {
        recorder_issue_block(recorder, &recorder->names, WRITE_NAMES, wall, steady, write);
        return true;
    }
    if (recorder->phase == LLI_RECORDER_NAMES || recorder->names.state != LLI_SLOT_EMPTY || slot == NULL)
        return false;
    recorder_cut(recorder, slot);
    if (recorder->offset + recorder_size(slot) > recorder->segment.size) {
        if (recorder->blocks == 0) {
            recorder->phase = LLI_RECORDER_STOPPED;
            return false;
        }
        recorder_begin_segment(recorder);
        return recorder->flying == 0 && recorder_next_header(recorder, wall, write);
    }
    recorder->issued++;
    recorder->blocks++;
    recorder_issue_block(recorder, slot, (uint32_t)(slot - recorder->slots), wall, steady, write);
    return true;
}

/* Frees the slots whose blocks, and all before them, are on the disk. */
static void recorder_advance(struct lli_recorder *recorder)
{
    while (recorder->used > 0 && recorder_slot(recorder, 0)->state == LLI_SLOT_WRITTEN) {
        struct lli_recorder_slot *slot = recorder_slot(recorder, 0);

        slot->state = LLI_SLOT_EMPTY;
        recorder->durable = slot->next;
        recorder->delivered = slot->delivered;
        recorder->oldest = (recorder->oldest + 1) % LLI_RECORDER_BLOCKS;
        recorder->used--;
        recorder->issued--;
        recorder->retried = false;
    }
}

void lli_recorder_written(struct lli_recorder *recorder, uint32_t id, bool durable)
{
    recorder->flying--;
    if (id == WRITE_HEADER)
        recorder->heading = false;
    if (!durable && recorder->phase != LLI_RECORDER_STOPPED)
        recorder->phase = recorder->retried ? LLI_RECORDER_STOPPED : LLI_RECORDER_FAILED;
    if (recorder->phase >= LLI_RECORDER_FAILED)
        return;
    if (id == WRITE_NAMES)
        recorder->names.state = LLI_SLOT_EMPTY;
    else if (id < LLI_RECORDER_BLOCKS)
        recorder->slots[id].state = LLI_SLOT_WRITTEN;
    recorder_advance(recorder);
}
