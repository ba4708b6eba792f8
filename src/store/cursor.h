/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursor: reads the records of a recording in order, across its segments. Every block is checked by its hash
 * and by its place in the chain before a record of it is returned; indexes are hints only.
 *
 * The catalogue has to outlive the cursor, and may change meanwhile. Opening allocates; no other call does,
 * unless a segment is found that is larger than all before it. Reads block.
 */
#ifndef LLI_CURSOR_H
#define LLI_CURSOR_H

#include "core/recording/recovery.h"
#include "store/catalogue.h"

struct lli_cursor;

/* Opens a cursor at the first block of a recording. LLM_ENOMEM. */
int lli_cursor_open(const struct lli_catalogue *catalogue, const struct lli_recording *recording,
                    const struct lli_log *log, struct lli_cursor **cursor);

/*
 * Moves to the block that has a packet or message, or, if it is missing, to the first one after it; by wall
 * clock to the first block that ended at that time or later. lli_cursor_next() then returns the records of
 * that block from its first one on. LLM_ENOTFOUND: the packet or message is before the first segment, or
 * beyond the end, a packet also beyond the limit; the cursor stands at the beginning of the recording then. A
 * time is never missing: after the last block the cursor stands at the end. Where damage lies before the
 * block, it stands at the damage, which lli_cursor_next() reports. Other errors as lli_cursor_next().
 */
int lli_cursor_seek(struct lli_cursor *cursor, enum lli_index_key key, uint64_t value);

/* Moves to the beginning of the segment that the cursor is in, where the names of earlier topics are. */
void lli_cursor_rewind_segment(struct lli_cursor *cursor);

/*
 * Returns the next record and the block that it is in, both valid until the next call. 1: a record; 0: there
 * is none now, and as a recording that is being written goes on, there may be one at the next call. Else an
 * error, which is logged with file and offset and repeats until the cursor is moved: LLM_EDAMAGED: a block
 * that has to be there is not whole, or is not the one that follows; lli_cursor_skip_damage() goes on behind
 * it. LLM_ENOTFOUND: the segment was removed meanwhile; LLM_EACCESS; LLM_ESYSTEM; LLM_ENOMEM.
 *
 * Without a limit, what follows the last whole block is searched for later ones, once: if there is one, the
 * last block is damaged, and not the end.
 */
int lli_cursor_next(struct lli_cursor *cursor, struct lli_record *record, const struct lli_block **block);

/*
 * After LLM_EDAMAGED or LLM_ENOTFOUND: moves to the next whole block. The record that lli_cursor_next()
 * returns first is a gap with LLM_REASON_DAMAGED, for the packets in between. False: no whole block follows.
 */
bool lli_cursor_skip_damage(struct lli_cursor *cursor);

/* A packet that could not be opened. */
struct lli_unopened {
    bool is_set;
    bool has_key; /* of its epoch, but another one */
    uint16_t epoch;
    lli_seq packet;
};

/*
 * Opens the packet, or the name, of a record by the keys of the catalogue, if it is protected: *data and *size are those of
 * the packet of version 1, or of the name, valid until the next call that reads or opens. False, with the packet noted: no key
 * opens it.
 */
bool lli_cursor_packet(struct lli_cursor *cursor, const struct lli_record *record, const uint8_t **data,
                       uint32_t *size, struct lli_unopened *unopened);

/* Logs that a packet could not be opened, and which key file to give. Returns LLM_EACCESS. */
int lli_cursor_refuse(const struct lli_cursor *cursor, const struct lli_unopened *unopened);

/* Packets from this one on are not returned: they are not durable yet. UINT64_MAX: no limit. */
void lli_cursor_limit(struct lli_cursor *cursor, lli_seq end);

/* Place of the block that was read last, or of the damage, for messages. */
struct lli_cursor_place {
    uint64_t ordinal; /* of the segment, which names its file */
    uint64_t offset;
};
struct lli_cursor_place lli_cursor_place(const struct lli_cursor *cursor);

/* The end of a recording, as found after a crash. */
struct lli_recording_end {
    struct lli_block_position next; /* the recording goes on here, in a new segment ... */
    uint64_t ordinal;               /* ... with this number */
    /*
     * The last segment has nothing but names: the new one has the same number, so the same name, and takes
     * its place.
     */
    bool replaces;
    uint64_t messages;  /* number of the first message that starts in next.packet or later */
    uint64_t delivered; /* messages before this one are complete, or lost and recorded as such */
    lli_seq resume; /* packet in which message `delivered` starts, if that is recorded; else next.packet */
    /*
     * No message from this one on was lost for good, except unreliable ones: the first message after the last
     * such loss, or after the place from which on losses were searched.
     */
    uint64_t run_from;
    bool ended;     /* the session has ended, for reason: nothing follows */
    uint8_t reason; /* enum llm_reason */
    /* A block that was acknowledged is not whole; logged. The recording goes on at its place all the same. */
    bool damaged;
    lli_ns wall; /* wall clock of the last block */
    /*
     * The first of the packets read that no key opens: their messages are not counted, so `messages`, `delivered` and
     * `resume` may be too low, down to the number of the message that starts first in the last packet.
     */
    struct lli_unopened unopened;
};

/*
 * Finds the end of the recording. Reads the last segment from its last indexed block on; then, unless the
 * session has ended, the last `reach` bytes of the recording or a little more for losses, and from the start
 * of the last message on. So the time that it takes depends on reach, the longest message and the distance of
 * index entries, not on the size of the recording. The cursor is at the end afterwards. Errors as
 * lli_cursor_next(), but damage is not one.
 */
int lli_cursor_recover(struct lli_cursor *cursor, uint64_t reach, struct lli_recording_end *end);

/* Likewise, without a search for losses and damage: the last message only decides. */
int lli_cursor_end(struct lli_cursor *cursor, struct lli_recording_end *end);

void lli_cursor_close(struct lli_cursor **cursor);

#endif
