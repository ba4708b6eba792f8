/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of a recording: the packets of one session as a store writes them to disk, one block for each write.
 * docs/store.md is the specification. Blocks form a chain: each has the hash of the one before it, so that
 * the content of a segment that was used before is never taken for what follows.
 *
 * Decoders read untrusted bytes: they check every bound, and a block only counts if its hash is right.
 */
#ifndef LLI_BLOCK_H
#define LLI_BLOCK_H

#include "core/base/types.h"
#include "core/wire/wire.h"

enum {
    LLI_BLOCK_ALIGN = 4096,  /* blocks begin and end at multiples of this */
    LLI_BLOCK_MAX = 1 << 20, /* bytes of the longest block */
    LLI_BLOCK_HEADER = 80,   /* bytes before the first record */
    LLI_BLOCK_PIECE = 16384, /* bytes of the records that are hashed at a time */
    LLI_BLOCK_PIECES = LLI_BLOCK_MAX / LLI_BLOCK_PIECE,
    LLI_BLOCK_PACKET_MAX = 65535, /* bytes of the longest packet */
};

/* The greatest number of a packet or a message, so that no sum with another one overflows. */
#define LLI_BLOCK_NUMBER_MAX ((uint64_t)INT64_MAX)

/* Place where a recording goes on: that of its next block in the chain. */
struct lli_block_position {
    uint64_t session;
    uint64_t sequence; /* number of the block */
    uint64_t previous; /* hash of the block before it; 0: none */
    lli_seq packet;    /* the packet that follows */
    uint64_t message;  /* a message number near that of this packet: the latest before it */
    lli_ns wall;       /* wall clock of the block before it */
};

/* Message number of a block that has neither packets nor a gap nor the end, only names. */
#define LLI_BLOCK_UNNUMBERED UINT64_MAX

/* Header of a block. */
struct lli_block {
    uint64_t hash;
    uint64_t session;
    uint64_t sequence;
    uint64_t previous;
    lli_seq packet;   /* the first packet */
    uint64_t message; /* number of the first message that starts in the block or later */
    uint32_t size;    /* bytes on disk, a multiple of LLI_BLOCK_ALIGN */
    uint32_t used;    /* bytes of header and records */
    lli_ns wall;      /* wall clock at its end, ns since 1970; never before that of the block before it */
    lli_ns steady;    /* monotonic clock of the store at the same time */
};

enum lli_record_kind {
    LLI_RECORD_PACKET = 0,
    LLI_RECORD_GAP = 1,         /* packets that were lost for good */
    LLI_RECORD_NAME = 2,        /* a topic that was announced before the first packet of the segment */
    LLI_RECORD_END = 3,         /* the session ended */
    LLI_RECORD_HIDDEN_NAME = 4, /* as NAME, protected by a key */
};

struct lli_record {
    enum lli_record_kind kind;
    lli_seq packet;        /* PACKET: its number; GAP: the first one lost; else the next one */
    lli_seq next;          /* the packet after the record */
    uint64_t message;      /* number of the first message that starts in `packet` or later; not for NAME */
    uint64_t message_next; /* GAP: likewise for `next` */
    const uint8_t
        *data;      /* PACKET: its bytes; NAME: the flags and the name, as in TOPICS; HIDDEN_NAME: a packet */
    uint32_t size;  /* of data */
    uint32_t topic; /* NAME, HIDDEN_NAME: the topic's id */
    uint8_t reason; /* GAP, END: enum llm_reason */
};

enum lli_block_fault {
    LLI_BLOCK_OK = 0,
    LLI_BLOCK_SHORT,   /* there are fewer bytes than its header says */
    LLI_BLOCK_NONE,    /* no block begins here */
    LLI_BLOCK_TORN,    /* the hash is wrong: it was written in part, or is damaged */
    LLI_BLOCK_FOREIGN, /* a whole block, but of another place: from an earlier use of the segment */
};

/* ---------------------------------------------------------------------------------------------- write */

/* A block that is being filled in memory of the caller. */
struct lli_block_builder {
    uint8_t *bytes;
    uint32_t capacity; /* a multiple of LLI_BLOCK_ALIGN, LLI_BLOCK_MAX at most */
    uint32_t used;
    uint64_t message;               /* of the block: LLI_BLOCK_UNNUMBERED until a record tells it */
    struct lli_block_position at;   /* of the block */
    struct lli_block_position next; /* of the record that is added next */
    uint32_t pieces;                /* complete ones, with known hashes */
    uint64_t hashes[LLI_BLOCK_PIECES];
};

/* A place between two records of a block that is being filled. */
struct lli_block_mark {
    uint32_t used;                  /* bytes of header and records before it */
    struct lli_block_position next; /* of the record after it */
    uint64_t message;               /* of a block that begins with that record */
};

/* Begins a block at a position, in capacity bytes that the caller owns. */
void lli_block_begin(struct lli_block_builder *builder, uint8_t *bytes, uint32_t capacity,
                     const struct lli_block_position *at);

/*
 * Each adds a record. False, with nothing changed: there is no room. A packet has LLI_WIRE_HEADER to
 * LLI_BLOCK_PACKET_MAX bytes with a valid header, and is the next one of the session. Of a gap, next,
 * message, message_next and reason are used; of a name, whose kind may be HIDDEN_NAME, kind, topic, data and size.
 */
bool lli_block_add_packet(struct lli_block_builder *builder, const uint8_t *packet, uint32_t size);
bool lli_block_add_gap(struct lli_block_builder *builder, const struct lli_record *gap);
bool lli_block_add_name(struct lli_block_builder *builder, const struct lli_record *name);
bool lli_block_add_end(struct lli_block_builder *builder, uint64_t messages, uint8_t reason);

/*
 * Moves the records after a mark to a new block, in `bytes`, which is as large as the old one and the caller's. There is
 * at least one record before the mark, and one after it.
 */
void lli_block_split(struct lli_block_builder *builder, const struct lli_block_mark *mark,
                     struct lli_block_builder *rest, uint8_t *bytes);

/*
 * Completes a block with at least one record; returns its size on disk. A wall clock that stepped back counts
 * as unchanged. *next: the position after it.
 */
uint32_t lli_block_seal(struct lli_block_builder *builder, lli_ns wall, lli_ns steady,
                        struct lli_block_position *next);

/* ----------------------------------------------------------------------------------------------- read */

/*
 * Reads the header of a block, and checks everything but the hash; size: bytes that are there, at least
 * LLI_BLOCK_HEADER. LLI_BLOCK_SHORT: block->size says how many are needed.
 */
enum lli_block_fault lli_block_get(const uint8_t *bytes, size_t size, struct lli_block *block);

/*
 * Reads and checks a whole block with its records. at: the position that it has to have, of which the
 * session, the sequence, the previous hash and the packet are compared; NULL: any. *next, unless NULL: the
 * position after it.
 */
enum lli_block_fault lli_block_check(const uint8_t *bytes, size_t size, const struct lli_block_position *at,
                                     struct lli_block *block, struct lli_block_position *next);

struct lli_block_reader {
    struct lli_reader bytes;
    lli_seq packet;
    uint64_t message;
};

/* Returns true for the records of names, which are at the beginning of a segment. */
static inline bool lli_record_is_name(const struct lli_record *record)
{
    return record->kind == LLI_RECORD_NAME || record->kind == LLI_RECORD_HIDDEN_NAME;
}

/* Begins to read the records of a block that was checked. */
struct lli_block_reader lli_block_records(const uint8_t *bytes, const struct lli_block *block);

/* Returns the next record, valid as long as the block's bytes. False: there is none, or it is malformed. */
bool lli_block_next(struct lli_block_reader *reader, struct lli_record *record);

#endif
