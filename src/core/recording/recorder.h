/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorder: turns the records of one session into writes, and tells what is durable. It does no input or
 * output: the caller takes writes, does them in any order, and reports how each ended.
 *
 * A block is what arrived while the write before it was under way, so blocks grow with load and nothing waits
 * for a timer. The end of a large one, some KiB, goes to the next block if this saves space on the disk. Up to
 * LLI_RECOVERY_FLIGHT writes are under way while full blocks wait. What was written counts
 * as durable in order only. After a failed write nothing more goes to that segment: what is not durable is
 * written again, in another one. If that fails before anything of it is durable, the recorder stops.
 */
#ifndef LLI_RECORDER_H
#define LLI_RECORDER_H

#include "core/recording/recovery.h"

enum {
    LLI_RECORDER_BLOCKS = LLI_RECOVERY_FLIGHT + 4, /* blocks in memory */
    LLI_RECORDER_BLOCK = 512 << 10,                /* bytes of each, LLI_BLOCK_MAX at most */
    /* Memory of a recorder: its blocks, one of names, and the header of a segment. */
    LLI_RECORDER_MEMORY = (LLI_RECORDER_BLOCKS + 1) * LLI_RECORDER_BLOCK + LLI_SEGMENT_HEADER,
};

struct lli_write {
    const uint8_t *bytes; /* valid until lli_recorder_written() */
    uint32_t size;
    uint32_t id;
    uint64_t ordinal; /* of the segment; a new one has to be there before its first write, at offset 0 */
    uint64_t offset;
};

enum lli_recorder_phase {
    LLI_RECORDER_SEGMENT, /* a segment is begun: its header is not written */
    /* Waits for the names of topics: lli_recorder_add_name(), lli_recorder_names_end() */
    LLI_RECORDER_NAMES,
    LLI_RECORDER_BLOCKS_FOLLOW,
    LLI_RECORDER_FAILED,  /* a write failed: others are under way */
    LLI_RECORDER_STOPPED, /* for good: a second failure, or the names alone fill a segment */
};

enum lli_recorder_slot_state {
    LLI_SLOT_EMPTY,
    LLI_SLOT_OPEN,    /* takes records */
    LLI_SLOT_CLOSED,  /* waits to be written */
    LLI_SLOT_WRITING, /* the write is under way */
    LLI_SLOT_WRITTEN, /* blocks before it are not durable */
};

struct lli_recorder_slot {
    struct lli_block_builder builder;
    struct lli_block_mark mark;     /* the best place to end the block at, before what it has by now */
    uint64_t mark_delivered;        /* delivered, if the block ended there */
    struct lli_block_position next; /* after the block, once it is sealed */
    uint64_t delivered;             /* messages before this one are in this block or before it */
    enum lli_recorder_slot_state state;
};

struct lli_recorder {
    uint8_t *memory;
    struct lli_segment segment; /* that is being written */
    enum lli_recorder_phase phase;
    struct lli_recorder_slot slots[LLI_RECORDER_BLOCKS]; /* a ring, oldest first from `oldest` on */
    struct lli_recorder_slot names;
    uint32_t oldest;
    uint32_t used;    /* slots that are not empty */
    uint32_t issued;  /* of these, how many were given out as writes */
    uint32_t flying;  /* writes under way */
    bool heading;     /* one of them is the header of the segment */
    uint64_t ordinal; /* of the next segment */
    uint64_t offset;  /* of the next block in this one */
    uint64_t blocks;  /* in this one, besides those of names */
    bool retried;     /* the segment has what another one failed to take, and nothing of it is durable */
    struct lli_block_position end;     /* of the next record */
    struct lli_block_position sealed;  /* of the next block */
    struct lli_block_position durable; /* everything before is on the disk */
    uint64_t delivered;                /* messages before this one are on the disk */
};

/*
 * Begins to record at segment->first, in a new segment; ordinal, size, start and channel are used as given. A
 * segment has to have room for the names of all topics and two blocks more. memory: LLI_RECORDER_MEMORY bytes
 * of the caller, aligned to LLI_BLOCK_ALIGN.
 */
void lli_recorder_init(struct lli_recorder *recorder, const struct lli_segment *segment, uint8_t *memory);

/*
 * Each adds a record, as the functions of block.h. delivered: messages before this one are complete with it.
 * False: all blocks wait for the disk; try again after lli_recorder_written().
 */
bool lli_recorder_add_packet(struct lli_recorder *recorder, const uint8_t *packet, uint32_t size,
                             uint64_t delivered);
bool lli_recorder_add_gap(struct lli_recorder *recorder, const struct lli_record *gap, uint64_t delivered);
bool lli_recorder_add_end(struct lli_recorder *recorder, uint64_t messages, uint8_t reason);

/* Notes that messages before this one are complete with the packet added last. */
void lli_recorder_complete(struct lli_recorder *recorder, uint64_t delivered);

/* True if the next packet, and a gap before it, can be added. */
static inline bool lli_recorder_has_room(const struct lli_recorder *recorder)
{
    return recorder->used < LLI_RECORDER_BLOCKS;
}

/* Full blocks that wait to be written: all but the one that takes records. */
static inline uint32_t lli_recorder_waiting(const struct lli_recorder *recorder)
{
    const uint32_t blocks = recorder->used - recorder->issued;

    return blocks > 1 ? blocks - 1 : 0;
}

/* True if full blocks wait for writes that are under way: the disk is slower than the records. */
static inline bool lli_recorder_is_behind(const struct lli_recorder *recorder)
{
    return recorder->flying > 0 && lli_recorder_waiting(recorder) > 0;
}

/* True if everything added is on the disk. */
static inline bool lli_recorder_is_settled(const struct lli_recorder *recorder)
{
    return recorder->used == 0 && recorder->flying == 0;
}

/*
 * In phase LLI_RECORDER_NAMES: adds a name of a topic that was announced before recorder->durable. False: the
 * block of names is full, take and complete its write first.
 */
bool lli_recorder_add_name(struct lli_recorder *recorder, const struct lli_record *name);
void lli_recorder_names_end(struct lli_recorder *recorder);

/* Returns the next write; false: none is due now. */
bool lli_recorder_next(struct lli_recorder *recorder, lli_ns wall, lli_ns steady, struct lli_write *write);

/* Notes that a write is durable, or has failed. */
void lli_recorder_written(struct lli_recorder *recorder, uint32_t id, bool durable);

#endif
