/* SPDX-License-Identifier: Apache-2.0 */
/* The message store: recordings on disk, and their replay. Included by <llm/llm.h>, which states the conventions. */
#ifndef LLM_STORE_H
#define LLM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/context.h>
#include <llm/event.h>
#include <llm/filter.h>
#include <llm/options.h>
#include <llm/receiver.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------- store */

/*
 * A store follows channels and keeps every packet of their sessions on disk (docs/store.md). To transmitters it
 * is a receiver: with a receiver_name, topics that are assured with that name wait until it has acknowledged.
 * llm-store(1) is a program around it.
 *
 * A store belongs to its context: llm_poll() takes packets, starts writes and acknowledges those that ended, and
 * waits for the disk only to find the end of a recording that it continues, and to answer others from
 * recordings.
 */
struct llm_store;

/* Messages that a store acknowledges. */
enum llm_store_level {
    LLM_STORE_SYNCED = 0, /* messages that are on the disk: no crash loses them, if the disk keeps its word */
    /* Messages that were written without a sync: a crash of the process does not lose them, one of the machine may */
    LLM_STORE_WRITTEN = 1,
    LLM_STORE_RECEIVED = 2, /* messages that were received: a crash loses those that were not written yet */
};

/* Way of writing to disk. */
enum llm_store_engine {
    LLM_STORE_AUTO = 0,   /* io_uring if the system has and allows it, else a thread */
    LLM_STORE_URING = 1,  /* io_uring */
    LLM_STORE_THREAD = 2, /* a thread that calls pwritev2() */
};

/* Reaction to a full disk, or to a reserve of free bytes that is reached. */
enum llm_store_full {
    LLM_STORE_STOP = 0,   /* stops recording: LLM_EVENT_STORE_STOPPED */
    LLM_STORE_OLDEST = 1, /* removes the oldest segment that retention allows to be removed */
};

struct llm_store_options {
    size_t size;                  /* sizeof(struct llm_store_options), set by llm_store_options_init() */
    const char *directory;        /* has to exist, on a local disk; for this store alone */
    enum llm_store_level level;   /* default LLM_STORE_SYNCED */
    enum llm_store_engine engine; /* default LLM_STORE_AUTO */
    uint64_t segment_bytes;   /* bytes of a segment, a multiple of 4096, 16 MiB to 64 GiB; default 256 MiB */
    uint32_t spares;          /* segments that are prepared ahead, 0 to 64; default 2 */
    uint64_t reserve_bytes;   /* free bytes of the disk that the store leaves; default 1 GiB */
    enum llm_store_full full; /* default LLM_STORE_STOP */
    /*
     * Retention, by whole segments; never one that is being written. All three default to 0: no limit.
     * bytes_max: of all segments; the oldest are removed. age_ns_max: segments are removed when all that they
     * have is older; ages are by the wall clock when the store is opened, and by the monotonic clock after that.
     */
    uint64_t bytes_max;
    uint64_t age_ns_max;
    /*
     * Retain messages of assured topics that are not acknowledged by all receivers that have to, as the
     * heartbeats of their session say, whatever the limits; default false. Applies to sessions that the store
     * follows.
     */
    bool until_acknowledged;
};

/* Fills *options with the defaults. */
LLM_API void llm_store_options_init(struct llm_store_options *options);

/* Handlers of a store. They run under the same rules as struct llm_receiver_handlers. */
struct llm_store_handlers {
    size_t size; /* sizeof(struct llm_store_handlers), set by llm_store_handlers_init() */
    void *arg;   /* passed to each handler */
    /*
     * Events of the sessions, as a receiver gets them: a gap is recorded. LLM_EVENT_STORE_STOPPED: the recording of
     * a session, or with session 0 that of all, has stopped. NULL: logged.
     */
    void (*event)(void *arg, const struct llm_event *event);
};

/* Sets the size and makes every handler NULL. */
LLM_API void llm_store_handlers_init(struct llm_store_handlers *handlers);

/*
 * Opens a store in a directory that no other store uses, and says at LLM_LEVEL_INFO how it writes. handlers may
 * be NULL; options and handlers are copied. *store belongs to the context and is closed with llm_store_close().
 * Allocates, and blocks while the headers of the segments are read, and at most 30 s for writes of a process that
 * was killed. LLM_EINVAL, LLM_EVERSION; LLM_EOPTION: a value out of its range; LLM_ENOTFOUND: there is no
 * such directory; LLM_EACCESS: it, or a file in it, is another user's; LLM_ESTATE: another store has it, or
 * inside a handler; LLM_ELIMIT: RLIMIT_FSIZE is less than a segment; LLM_ENOMEM; LLM_ESYSTEM.
 */
LLM_API int llm_store_open(struct llm_context *context, const struct llm_store_options *options,
                           const struct llm_store_handlers *handlers, struct llm_store **store);

/*
 * Follows a channel: records every session on it from the oldest packet that its transmitter can repeat, and one
 * that the store recorded before from where that recording ends. options may be NULL; join, order and
 * acknowledge do not apply. Allocates; may block while the transport opens. Errors as llm_receiver_open(), and
 * LLM_EOPTION for options that do not apply.
 */
LLM_API int llm_store_follow(struct llm_store *store, const char *channel, const struct llm_options *options);

/*
 * Writes what was received, acknowledges it, leaves the channels and closes the store. Blocks until the writes
 * under way have ended. *store becomes NULL; NULL in it is allowed. LLM_ESTATE inside a handler.
 */
LLM_API int llm_store_close(struct llm_store **store);

/*
 * Asks the stores of a channel where the stream options->stream ends, and sets stream_base and stream_term of
 * options, so that a transmitter that is opened with them continues it: with the number after the last message
 * that is recorded in any of the stores that answered, and a higher term; with 0 if none has a session of the
 * stream. Returns when so many different stores have answered (stores, 1 to 64), and how many: where messages are
 * acknowledged by n of m stores, any m - n + 1 of them have the last one. Blocks, polling the context, for at most
 * timeout_ns; receivers of the same context may deliver meanwhile. Allocates. LLM_ENOTFOUND: fewer answered;
 * LLM_EOPTION: stream is empty, or stores out of its range; LLM_ELIMIT: the highest number or term is reached;
 * LLM_ESTATE inside a handler; errors as llm_receiver_open().
 */
LLM_API int llm_store_ask(struct llm_context *context, const char *channel, struct llm_options *options,
                          uint32_t stores, uint64_t timeout_ns);

/* ------------------------------------------------------------------------------------------------- replay */

/*
 * Replay reads recordings from the directory of a store, which may be running, and delivers them to the
 * handlers of a receiver. It needs no context. A replay belongs to one thread at a time; its calls block
 * while the disk reads.
 */
struct llm_replay;

struct llm_replay_options {
    size_t size;         /* sizeof(struct llm_replay_options), set by llm_replay_options_init() */
    uint64_t session;    /* only this session; 0 (default): all, one after the other as they began */
    const char *channel; /* only sessions that were received from this channel; NULL (default): all */
    /*
     * Where each session begins. LLM_JOIN_OLDEST (default): with its first recorded message;
     * LLM_JOIN_MESSAGES: value messages before its end; LLM_JOIN_TIME: with the first message that the store
     * received at value, CLOCK_REALTIME ns, or a little earlier; LLM_JOIN_NUMBER: with message number value.
     * A session that ends before that begins at its end; one of which retention has removed that, with the
     * oldest message that is there.
     */
    enum llm_join_mode from;
    uint64_t value;
    uint64_t until_number;   /* messages from this number on are left out; default UINT64_MAX */
    uint64_t until_realtime; /* and those received from this time on, CLOCK_REALTIME ns; default UINT64_MAX */
    uint64_t message_bytes_max; /* longer messages are reported as lost; default 64 MiB; at most 4 GiB - 1 */
    /* Go on behind damage, which is reported as a gap with LLM_REASON_DAMAGED; default false. */
    bool skip_damage;
    /*
     * Key file with the epochs of recorded channels with keys, valid now or not; NULL (default): such recordings cannot
     * be read.
     */
    const char *keys;
};

/* Fills *options with the defaults. */
LLM_API void llm_replay_options_init(struct llm_replay_options *options);

/*
 * Opens a replay. options may be NULL for the defaults; handlers is copied, and its join is not called. log:
 * as in struct llm_context_options, NULL: warnings and errors go to stderr. On success *replay belongs to the
 * caller. Allocates. LLM_EINVAL, LLM_EVERSION; LLM_ENOTFOUND: there is no such directory, no such session in
 * it, or none of the channel; LLM_EACCESS: it, or a file in it, may not be read; LLM_ENOMEM; LLM_ESYSTEM; of
 * keys LLM_ENOTFOUND, LLM_EACCESS, LLM_EDAMAGED, and LLM_EOPTION in a library without libcrypto.
 */
LLM_API int llm_replay_open(const char *directory, const struct llm_replay_options *options,
                            const struct llm_receiver_handlers *handlers, llm_log_fn *log, void *log_arg,
                            struct llm_replay **replay);

/*
 * Delivers what is in the next packets, packets_max of them, or as many as it takes to deliver something:
 * messages and events as a receiver gets them (LLM_EVENT_SESSION_NEW, TOPIC_NEW, GAP, SESSION_END).
 * received_at of a message is CLOCK_REALTIME ns at the end of the store's write that has it. A session whose
 * end is not recorded ends with LLM_REASON_ABANDONED, one that until_number or until_realtime cuts with
 * LLM_REASON_NONE. Returns the number of messages and events delivered, 0 when everything was. LLM_EDAMAGED,
 * LLM_ENOTFOUND, unless skip_damage is set: a file is damaged, or was removed meanwhile; the log names file
 * and offset, and the next call goes on behind it. LLM_EACCESS, LLM_ESYSTEM: a file cannot be read, or the key
 * file does not open a packet, which the log says; the next call ends the session, with LLM_REASON_KEYS if that was
 * it, and goes on with the next one. LLM_ESTATE inside a handler; LLM_EINVAL: packets_max is less than 1.
 */
LLM_API int llm_replay_next(struct llm_replay *replay, int packets_max);

/*
 * Returns the attributes of a message, in a message handler of the replay; without attributes, label 0 and
 * nothing else. The caller sets attributes->size, as for llm_message_attributes(); here `properties` has
 * all of them, so that llm_send_with() can send the message again. All is valid until the handler returns.
 * LLM_EINVAL: the message is not one that the handler was called with; LLM_EVERSION.
 */
LLM_API int llm_replay_attributes(struct llm_replay *replay, const struct llm_message *message,
                                  struct llm_attributes *attributes);

/* Closes a replay. *replay becomes NULL; NULL in it is allowed. LLM_ESTATE inside a handler. */
LLM_API int llm_replay_close(struct llm_replay **replay);

/* A recording: what a store has of a session. */
struct llm_recording {
    size_t size; /* sizeof(struct llm_recording) of the library */
    uint64_t session;
    const char *channel;    /* from which it was received; valid until the function returns */
    uint64_t packet_first;  /* number of the first packet recorded */
    uint64_t packet_next;   /* of the packet after the last */
    uint64_t message_first; /* number of the first message that starts in the recording */
    uint64_t
        message_next; /* of the message after the last that is complete; of a channel with keys at least */
    uint64_t realtime_first; /* CLOCK_REALTIME ns: when the first segment was begun */
    uint64_t realtime_last;  /* and when the last block was written */
    uint64_t bytes;          /* of its segments on disk */
    uint32_t segments;
    bool ended; /* the session has ended, for reason; else it goes on, or its end was not recorded */
    enum llm_reason reason;
    uint64_t stream;      /* identity of the stream that the session continues; 0: none */
    uint64_t stream_base; /* number in the stream of message 0 of the session */
    uint32_t stream_term;
};

typedef void llm_recording_fn(void *arg, const struct llm_recording *recording);

/*
 * Calls found for each recording in the directory of a store, in the order in which they began, and returns
 * their number. Reads the beginning and the end of each only. Allocates, and blocks. log: as
 * llm_replay_open(). LLM_EINVAL, LLM_ENOTFOUND, LLM_EACCESS, LLM_ENOMEM, LLM_ESYSTEM.
 */
LLM_API int llm_replay_recordings(const char *directory, llm_recording_fn *found, void *arg, llm_log_fn *log,
                                  void *log_arg);

/*
 * Sets stream_base and stream_term of options, so that a transmitter that is opened with them continues the
 * stream options->stream where its recordings in the directory of a store end: with the number after the last
 * message that is recorded, and a higher term. Call it after llm_store_open() on that directory, which waits
 * until the writes of a process that was killed have ended. Returns the number of the stream's sessions that are
 * recorded; with 0 both become 0. If the stream's channel has keys, options->keys has to name a key file with the
 * epoch of its end: LLM_EACCESS. Allocates, and blocks. log: as llm_replay_open(). LLM_EOPTION: stream is
 * empty; LLM_ELIMIT: the highest number or term is reached; errors as llm_replay_recordings(); LLM_EVERSION.
 */
LLM_API int llm_replay_continue(const char *directory, struct llm_options *options, llm_log_fn *log,
                                void *log_arg);

#ifdef __cplusplus
}
#endif

#endif
