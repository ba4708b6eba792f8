/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which packet was the next to be sent at which time. A session notes it with its heartbeats, so that neither messages nor
 * packets pay for it: while data flows the marks are as far apart as heartbeats are, and further when the history is so
 * long that they would not fit. What is asked by time begins at the mark before it: with a little more, never with less.
 */
#ifndef LLI_TIME_INDEX_ENTRIES_H
#define LLI_TIME_INDEX_ENTRIES_H

#include "core/base/arena.h"
#include "core/base/types.h"

enum { LLI_TIME_INDEX_ENTRIES = 2048 };

struct lli_time_index_entry {
    lli_ns at;   /* everything before seq was sent by then, nothing else */
    lli_seq seq;
};

struct lli_time_index {
    struct lli_time_index_entry *entries; /* oldest first, each with a higher number than the one before */
    uint32_t count;
    lli_ns distance;        /* between two marks, at least */
};

/* Places the marks; the first says that nothing was sent before start. */
void lli_time_index_init(struct lli_time_index *index, lli_seq start, struct lli_arena *arena, lli_ns now);

/* Packet number seq is the next to be sent. Marks of packets before trail, but for the last of them, may be forgotten. */
void lli_time_index_add(struct lli_time_index *index, lli_seq seq, lli_seq trail, lli_ns now);

/* A packet before which nothing was sent since then. */
lli_seq lli_time_index_find(const struct lli_time_index *index, lli_ns since);

#endif
