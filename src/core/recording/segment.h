/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments of a recording: files of equal size, each with a header and blocks behind it. The header tells the
 * position of the first block, so that a segment can be read without those before it.
 */
#ifndef LLI_SEGMENT_H
#define LLI_SEGMENT_H

#include "core/recording/block.h"

enum {
    LLI_SEGMENT_VERSION = 3,
    LLI_SEGMENT_HEADER = 4096,     /* bytes of the header, and the offset of the first block */
    LLI_SEGMENT_CHANNEL_MAX = 511, /* bytes of the longest channel */
    LLI_SEGMENT_MIN = LLI_SEGMENT_HEADER + LLI_BLOCK_MAX,
};

/* Stream that the session continues. */
struct lli_segment_stream {
    uint64_t id;   /* 0: none */
    uint64_t base; /* number in the stream of the session's message 0 */
    uint32_t term;
};

struct lli_segment {
    struct lli_block_position first; /* of its first block */
    uint64_t ordinal;                /* number of the segment in its recording, from 0 */
    lli_seq start;                   /* the first packet that the session sent, `start` of its heartbeats */
    uint64_t size;                   /* bytes of the file, a multiple of LLI_BLOCK_ALIGN */
    lli_ns wall; /* wall clock when the segment was begun; not before that of the first position */
    struct lli_segment_stream stream;
    char channel[LLI_SEGMENT_CHANNEL_MAX + 1]; /* that the session was received from */
};

enum lli_segment_fault {
    LLI_SEGMENT_OK = 0,
    LLI_SEGMENT_NONE,        /* no segment: other contents, or a header that was written in part */
    LLI_SEGMENT_READY,       /* zeros: a file that waits to become a segment */
    LLI_SEGMENT_VERSION_BAD, /* a whole header of another version */
};

/* Writes LLI_SEGMENT_HEADER bytes. */
void lli_segment_put(uint8_t *bytes, const struct lli_segment *segment);

/* Reads LLI_SEGMENT_HEADER bytes. */
enum lli_segment_fault lli_segment_get(const uint8_t *bytes, struct lli_segment *segment);

#endif
