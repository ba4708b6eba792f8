/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams at a receiver: a stream is a series of sessions, the lives of one transmitter, with one numbering of
 * messages (docs/protocol.md section 4.5). For each stream the table has the session that continues it, and
 * how far it was delivered. It decides which session is followed, and what the change to it leaves out or
 * repeats. Sessions that merge are followed together (merge.h).
 */
#ifndef LLI_STREAM_H
#define LLI_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/stream/merge.h"

/* Place of a session in its stream, from its heartbeats. */
struct lli_stream_claim {
    uint64_t stream; /* 0: the session is not one of a stream */
    uint64_t session;
    uint64_t base; /* number in the stream of the session's message 0 */
    uint32_t term;
    bool merges; /* it is followed together with the other sessions of the stream that have this */
};

struct lli_stream {
    uint64_t id; /* 0: free entry */
    uint64_t session;
    /* Number in the stream of the next message: earlier ones were delivered or reported lost. */
    uint64_t next;
    uint64_t changed; /* time of the latest change, as a count */
    uint32_t term;    /* the highest of the sessions followed */
    bool followed;    /* the session was not left since it was followed */
    bool known;       /* `next` is valid */
    bool merged;      /* sessions that merge are followed, or were last; then `merge` has the position */
    struct lli_merge merge;
};

struct lli_streams {
    struct lli_stream *table;
    struct lli_merge_sum *sums; /* those of each entry; touched only where sessions merge */
    uint32_t limit;
    uint64_t changes;
};

enum lli_stream_verdict {
    LLI_STREAM_FOLLOW,     /* follow the session, after its predecessor was ended */
    LLI_STREAM_WAIT,       /* ask again with its next heartbeat: a single one may be forged */
    LLI_STREAM_TAKEN,      /* likewise: another session of its term is followed */
    LLI_STREAM_SUPERSEDED, /* refuse it: a session of a higher term was followed */
};

/* Relation of a session to the one that it continues: messages may be missing between them, or come again. */
enum lli_stream_seam_kind {
    LLI_STREAM_FIRST, /* nothing was delivered before */
    LLI_STREAM_SEAMLESS,
    LLI_STREAM_MISSING,
    LLI_STREAM_AGAIN,
};

struct lli_stream_seam {
    enum lli_stream_seam_kind kind;
    uint64_t first; /* MISSING, AGAIN: range of numbers in the stream */
    uint64_t last;
};

/* Largest number of a session's message 0 in its stream. */
#define LLI_STREAM_BASE_MAX (UINT64_C(1) << 62)

/* Heartbeats of a session after which it ends one that is still heard. */
enum { LLI_STREAM_HEARTBEATS = 2 };

/* Returns the identity of the stream of this name, never 0. */
uint64_t lli_stream_id(const char *name);

/* Places an empty table with room for limit streams in the arena. */
void lli_streams_init(struct lli_streams *streams, uint32_t limit, struct lli_arena *arena);

/* Returns the session of the stream that is followed, 0: none. */
uint64_t lli_streams_session(const struct lli_streams *streams, uint64_t stream);

/*
 * Decides about a session of which this many heartbeats came. heard: the session that is followed, if there is
 * one, is not silent.
 */
enum lli_stream_verdict lli_streams_ask(const struct lli_streams *streams,
                                        const struct lli_stream_claim *claim, uint32_t heartbeats,
                                        bool heard);

/*
 * Notes that a session is followed. If all entries are in use by sessions that are followed, the stream is not
 * recorded.
 */
void lli_streams_follow(struct lli_streams *streams, const struct lli_stream_claim *claim);

/* Notes that delivery of the session begins with its message `first`, and compares that with what was next. */
struct lli_stream_seam lli_streams_begin(struct lli_streams *streams, const struct lli_stream_claim *claim,
                                         uint64_t first);

/* Returns the merged sequence of a session that merges and is followed, NULL: it is not recorded. */
struct lli_merge *lli_streams_merge(const struct lli_streams *streams, const struct lli_stream_claim *claim);

/* Notes that the messages of the session before `number` were delivered or reported lost. */
void lli_streams_reach(struct lli_streams *streams, const struct lli_stream_claim *claim, uint64_t number);

/* Notes that the session is no longer followed. */
void lli_streams_leave(struct lli_streams *streams, const struct lli_stream_claim *claim);

#endif
