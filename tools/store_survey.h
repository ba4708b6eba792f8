/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all of a recording: what it has, and what is damaged. */
#ifndef STORE_SURVEY_H
#define STORE_SURVEY_H

#include "store_tool.h"

/* Packets that are lost, or damaged in the store. */
struct survey_gap {
    uint64_t packet_first;
    uint64_t packet_next;
    uint64_t message_first;
    uint64_t message_next;
    enum llm_reason reason;
};

struct survey_damage {
    uint64_t segment; /* its number in the recording, which names its file */
    uint64_t offset;
    bool is_removed; /* the file is not there */
};

struct survey_topic {
    uint64_t messages; /* that start in the recording */
    uint64_t bytes;
    char *name; /* NULL: not announced */
};

struct survey {
    uint64_t blocks;
    uint64_t bytes; /* of blocks */
    uint64_t packets;
    uint64_t messages; /* that start in the recording */
    struct lli_recording_end end;
    uint64_t unopened;         /* packets that no key opens: their messages are not counted ... */
    struct lli_unopened first; /* ... and the first of them */
    bool is_readable;          /* `end` is filled; else a file could not be read at all */
    struct survey_gap *gaps;
    uint32_t gaps_count;
    struct survey_damage *damages;
    uint32_t damages_count;
    struct survey_topic *topics; /* by id */
    uint32_t topics_count;
};

/* Reads a recording. STORE_FAILED: there is no memory, or a file cannot be read. */
int survey_read(struct survey *survey, const struct lli_catalogue *catalogue,
                const struct lli_recording *recording, struct store_progress *progress);
void survey_free(struct survey *survey);

/*
 * Makes room for one more element; the elements move where their number is a power of two. Ends the program if there is
 * no memory.
 */
void *store_grow(void *elements, uint32_t count, size_t size);

/* Bytes of the segments of a recording: what survey_read() notes as progress, at most. */
uint64_t survey_size(const struct lli_recording *recording);

#endif
