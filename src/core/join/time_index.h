/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time index of the history: which packet was next to be sent at which time. Entries are added with
 * heartbeats, so neither messages nor packets pay for it: while data flows they are as far apart as
 * heartbeats, further if the history is so long that they would not fit. A request by time begins at the
 * entry before it: slightly early, never late.
 */
#ifndef LLI_TIME_INDEX_H
#define LLI_TIME_INDEX_H

#include "core/base/arena.h"
#include "core/base/types.h"

enum { LLI_TIME_INDEX_ENTRIES = 2048 };

struct lli_time_index_entry {
    lli_ns at; /* everything before seq was sent by then, nothing else */
    lli_seq seq;
};

struct lli_time_index {
    struct lli_time_index_entry *entries; /* oldest first, in strictly ascending packet order */
    uint32_t count;
    lli_ns distance; /* minimum time between two entries */
};

/* Places the index; its first entry says that nothing was sent before start. */
void lli_time_index_init(struct lli_time_index *index, lli_seq start, struct lli_arena *arena, lli_ns now);

/*
 * Notes that packet `seq` is the next to be sent. May drop entries for packets before trail, except the last
 * of them.
 */
void lli_time_index_add(struct lli_time_index *index, lli_seq seq, lli_seq trail, lli_ns now);

/* Returns a packet such that none before it was sent after `since`. */
lli_seq lli_time_index_find(const struct lli_time_index *index, lli_ns since);

#endif
