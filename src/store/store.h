/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Store: receivers whose sessions are recorded. recorded.c writes one session, through a recorder of the core;
 * retention.c removes what is no longer wanted; store.c opens, closes and drives both.
 */
#ifndef LLI_STORE_H
#define LLI_STORE_H

#include <llm/store.h>

#include "core/base/pacer.h"
#include "core/recording/answers.h"
#include "core/recording/recorder.h"
#include "engine/objects.h"
#include "store/catalogue.h"
#include "store/cursor.h"
#include "store/disk.h"
#include "store/pool.h"

/* X(name, text) */
#define LLI_STORE_COUNTERS(X)                                                                           \
    X(store_packets, "packets recorded")                                                                \
    X(store_bytes, "bytes of these packets")                                                            \
    X(store_blocks, "blocks written")                                                                   \
    X(store_block_bytes, "bytes of these blocks")                                                       \
    X(store_gaps, "gaps recorded: packets lost for good")                                               \
    X(store_packets_unrecorded, "packets that arrived and were not recorded, as recording has stopped") \
    X(store_stalls, "times that a session waited for the disk")                                         \
    X(store_write_failures, "writes that failed; what they had was written to another segment")         \
    X(store_segments_begun, "segments begun")                                                           \
    X(store_segments_retired, "segments removed by retention")                                          \
    X(store_sessions_stopped, "sessions whose recording stopped")                                       \
    X(store_streams_answered, "questions where a stream ends that were answered")                       \
    X(store_streams_dropped, "likewise, that were not: too many came at a time, or a file cannot be read")

struct lli_store_counters {
#define LLI_STORE_COUNTER_FIELD(name, text) uint64_t name;
    LLI_STORE_COUNTERS(LLI_STORE_COUNTER_FIELD)
#undef LLI_STORE_COUNTER_FIELD
};

enum {
    LLI_STORE_SESSIONS_MAX = 4096, /* sessions recorded at a time */
    LLI_STORE_INDEX_MAX = 128,     /* index entries that wait to be written */
    LLI_STORE_ASKED = 8,           /* questions that wait to be answered, of a channel */
};

/* A transmitter asks where a stream ends. */
struct lli_stream_question {
    uint64_t stream;
    uint64_t receiver; /* its identity */
    struct lli_wire_address address;
};

/*
 * Reads a recording for receivers that are answered: each goes on where it is, since to begin elsewhere is to read
 * and hash the blocks before the place again.
 */
struct lli_answering_reader {
    struct lli_cursor *cursor;       /* NULL: none */
    struct lli_answering *answering; /* of the recording */
    struct lli_record record;        /* read last, and not posted yet, if has_record is set */
    bool has_record;
    lli_seq at;       /* packet that the cursor reads next; 0: any */
    uint64_t used_at; /* count of the reads of all, when it read last */
};

enum { LLI_ANSWERING_READERS = 16 };

/* A channel that a store follows. */
struct lli_store_channel {
    struct llm_store *store;
    struct lli_store_channel *next;
    struct llm_receiver *receiver;
    struct lli_recorded **by_place; /* by place of the receiver's session; NULL: not recorded */
    lli_handle group;               /* to send to */
    /* Recorded packets that are being sent: answering.c. */
    struct lli_memory slots;
    size_t slot_size;
    uint64_t *slots_posted; /* packets posted up to that of each slot: in use until so many are reaped */
    uint32_t slot_next;
    /* Questions where a stream ends, a ring: streams.c. */
    struct lli_stream_question asked[LLI_STORE_ASKED];
    uint32_t asked_head, asked_tail;
    char text[LLI_SEGMENT_CHANNEL_MAX + 1];
};

/* The segment that a session is written to, or is to be written to next. */
struct lli_recorded_segment {
    struct lli_pool_segment supply; /* fd is -1: none, or the pool has yet to supply it */
    int file;                       /* of the engine */
    bool wanted;                    /* the header waits for the pool */
    bool asked_next;                /* the pool was asked for the one that follows, before it is due */
    uint64_t index_at;              /* entries written to the file of the index */
    uint32_t indexed;               /* entries that wait for it ... */
    uint8_t index[LLI_STORE_INDEX_MAX * LLI_INDEX_ENTRY];
    struct lli_index_entry latest; /* the one added last, if there is any */
};

/* A session that is recorded. */
struct lli_recorded {
    struct lli_store_channel *channel;
    uint64_t session;
    uint32_t place;    /* in the table of the store */
    struct lli_rx *rx; /* use lli_recorded_rx(): it may follow another session by now */
    struct lli_memory memory;
    int buffer; /* of the engine */
    bool begun; /* the recorder has a position */
    struct lli_recorder recorder;
    struct lli_write write; /* a write that the engine or the pool has no place for yet */
    bool has_write;
    struct lli_recorded_segment segment;
    bool requested;               /* the pool was asked for the segment that is wanted, or for the next one */
    struct lli_pool_segment next; /* that it supplied before it was wanted; fd is -1: none */
    struct lli_recording_end found; /* at the start, in an earlier run of the store */
    bool resumes;                   /* packets from found.resume on have to be read again */
    bool over;                      /* the session has ended, or is no longer followed */
    bool stalled;
    bool stopped;      /* nothing more is recorded */
    int error;         /* errno of the latest failed write */
    lli_ns settled_at; /* everything received by then was on the disk */
    uint64_t acknowledged;
    /* Names of topics, once the session is over: size and text of each, by id. */
    uint8_t *names;
    uint32_t names_count;
};

struct llm_store {
    struct llm_context *context;
    struct llm_store *next;
    struct llm_store_options options;
    struct llm_store_handlers handlers;
    char *directory;
    struct lli_disk *disk;
    struct lli_pool *pool;
    struct lli_catalogue *catalogue;
    struct lli_store_channel *channels;
    struct lli_recorded **sessions; /* by place; NULL: free */
    uint32_t sessions_used;         /* one past the last place ever used */
    uint32_t sessions_recorded;
    lli_ns retention_at;
    lli_ns slowest; /* the slowest write */
    /* Answers to receivers: answering.c. */
    struct lli_answering *answering;
    uint32_t answering_count;
    struct lli_answering_reader readers[LLI_ANSWERING_READERS]; /* beside that of each recording */
    uint64_t reads;
    struct lli_token_key key;
    struct lli_pacer unconfirmed;
    struct lli_pacer lookups;             /* of the ends of streams: streams.c */
    struct lli_answers_counters answered; /* of recordings that are no longer answered for */
    bool watched;                         /* its descriptors wake sleepers */
    struct lli_store_counters counters;
    char object[LLI_CHANNEL_TEXT_MAX];
};

/* ---------------------------------------------------------------------------------------------- recorded.c */

/* The calls of a receiver whose sessions are recorded; the argument is a struct lli_store_channel. */
extern const struct lli_tap lli_recorded_tap;

/* Writes what is due, and acknowledges what is durable. False: the session is over and all is written. */
bool lli_recorded_service(struct lli_recorded *recorded, lli_ns now);

/* Takes a segment from the pool. */
void lli_recorded_take(struct lli_recorded *recorded, const struct lli_pool_segment *supply);

/* Notes that a write ended; error: an errno or 0. */
void lli_recorded_written(struct lli_recorded *recorded, uint32_t id, int error);

/* Returns the session at the receiver, NULL if it is no longer there. */
struct lli_rx *lli_recorded_rx(const struct lli_recorded *recorded);

/* True if nothing of it is being written. */
bool lli_recorded_is_settled(const struct lli_recorded *recorded);

/* True if, in addition, the pool owes it no segment. */
bool lli_recorded_may_end(const struct lli_recorded *recorded);

void lli_recorded_free(struct lli_recorded *recorded);

/* --------------------------------------------------------------------------------------------- retention.c */

/* Removes segments that the options no longer want. */
void lli_retention_service(struct llm_store *store);

/* True if another segment makes one too many. */
bool lli_retention_is_reached(const struct llm_store *store);

/* Removes the oldest segment to make room. False: none may be removed. */
bool lli_retention_make_room(struct llm_store *store);

/* --------------------------------------------------------------------------------------------- answering.c */

/* Allocates memory for packets to send, close() frees it; release() does so in a child process. */
int lli_answering_open(struct lli_store_channel *channel);
void lli_answering_close(struct lli_store_channel *channel);
void lli_answering_release(struct lli_store_channel *channel);

/* Takes a packet that no session takes, or a JOIN. False: it asks for nothing that is recorded. */
bool lli_answering_request(struct lli_store_channel *channel, const struct lli_rx_packet *packet, lli_ns now);

/* Sends what is due. Returns when more is. */
lli_ns lli_answering_service(struct llm_store *store, lli_ns now);

void lli_answering_free_all(struct llm_store *store);

/* Sums the counters over all recordings. */
void lli_answering_stats(const struct llm_store *store, struct lli_answers_counters *sum);

/* ----------------------------------------------------------------------------------------------- streams.c */

/* Prepares the budget of a store for the ends of streams. */
void lli_streams_lookups(struct lli_pacer *pacer, lli_ns now);

/* Takes a question where a stream ends. */
void lli_streams_request(struct lli_store_channel *channel, const struct lli_wire_join *join, lli_ns now);

/* Answers the questions. */
void lli_streams_service(struct llm_store *store);

/* ------------------------------------------------------------------------------------------------- store.c */

/* Returns the session while it is recorded, or its last blocks are written; else NULL. */
struct lli_recorded *lli_store_recorded(const struct llm_store *store, uint64_t session);

/* Takes what the engine has written. */
void lli_store_take_completions(struct llm_store *store);

/* Reports an event to the application. */
void lli_store_report(const struct llm_store *store, const struct llm_event *event);

#endif
