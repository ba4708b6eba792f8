/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failover: a primary and its backups (docs/availability.md). Included by <llm/llm.h>, which states the conventions.
 */
#ifndef LLM_FAILOVER_H
#define LLM_FAILOVER_H

#include <stddef.h>
#include <stdint.h>

#include <llm/context.h>
#include <llm/receiver.h>
#include <llm/transmitter.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A member of a failover group. One of them is the primary and sends the messages of a stream; the others receive
 * them. When the primary dies, a majority of the voters elects another one, which fetches what it lacks from those that
 * answer, and goes on with the next number. A message of a member that answers within two beats, and which it retains
 * (tail_bytes, 1,024 names of topics), is in the stream, and none is given twice. A primary that no longer hears a
 * majority is fenced before another one is elected.
 */
struct llm_failover;

enum llm_role {
    LLM_ROLE_BACKUP = 0, /* receives, and may become the primary if it was opened as a candidate */
    LLM_ROLE_PRIMARY,
    /*
     * Takes no part any more: close it, and open it anew with a snapshot of another member, as what this one sent
     * last, or was given, need not be in the stream.
     */
    LLM_ROLE_FENCED,
};

enum llm_fence {
    LLM_FENCE_NONE = 0,
    LLM_FENCE_LEASE,      /* no majority of the voters answered within lease_ns */
    LLM_FENCE_SUPERSEDED, /* another primary, of a higher term, was heard */
    /* It was given messages that the new primary never got, or missed a primary between: they may be others */
    LLM_FENCE_DIVERGED,
    LLM_FENCE_CONFLICT, /* another member has the same number */
};

enum llm_member_kind {
    LLM_MEMBER_CANDIDATE = 0, /* votes, and may become the primary */
    LLM_MEMBER_VOTER,         /* votes */
    LLM_MEMBER_RECEIVER,      /* has no vote; what it retains survives the primary, too */
};

/* Time at which members deliver a message. */
enum llm_commit {
    LLM_COMMIT_SENT = 0, /* at once */
    /*
     * Once a majority of the voters, the primary included, has it. Then it is in the stream whatever happens, as long as no
     * majority of the voters dies or restarts at the same time. The primary asks llm_failover_committed() how far that is.
     */
    LLM_COMMIT_BACKUP,
};

struct llm_failover_options {
    size_t size; /* sizeof(struct llm_failover_options) */
    enum llm_member_kind kind;
    uint32_t
        voters; /* candidates and voters of the group, 3 to 15; more than half of them have to be alive */
    uint32_t
        member; /* number of this one, 0 to voters - 1, unique in the group; for receivers it does not apply */
    uint64_t beat_ns;    /* distance of the primary's beats, from 100000; default 1000000 (1 ms) */
    uint64_t detect_ns;  /* silence after which it is replaced, at least 4 beats; default 10000000 (10 ms) */
    uint64_t tail_bytes; /* of the last messages that are retained; default 262144, from 4096 to 2^30 */
    /*
     * The same at all members; default LLM_COMMIT_SENT. With LLM_COMMIT_BACKUP messages wait in the tail: one is at most as
     * long as that, and those that find no room are reported by `gap`.
     */
    enum llm_commit commit;
    /*
     * Channel for connections between members, by which one that begins in the middle of the stream gets the state of the
     * application: of all members the same, a group's that is not the stream's, or shm:// or loop:// with a name of its own.
     * Copied. NULL, the default: a member begins with the next message. The handlers `save` and `restore` have to be given.
     */
    const char *snapshot_channel;
    /*
     * Directory of a store on this host that records the channel. A member that begins in the middle of the stream is given its
     * messages from number store_from on out of it, before the live ones; polls read it, and block while the disk reads.
     * Copied. NULL, the default: none. Of channels with keys the key file of the channel opens it. With snapshot_channel as
     * well, this member requests no snapshot.
     */
    const char *store_directory;
    /* Number of the first message that the application lacks; default 0. A stream that begins is given from 0 on. */
    uint64_t store_from;
};

/* State of the application that is being written. */
struct llm_snapshot;

struct llm_failover_handlers {
    size_t size; /* sizeof(struct llm_failover_handlers) */
    void *arg;   /* passed to each handler */
    /*
     * A message and its number in the stream. Of each number at most one message is delivered, in order. A primary
     * is not given its own. The session is 0 for messages fetched from another member, for those that waited, and for
     * those of a store.
     */
    void (*message)(void *arg, uint64_t number, const struct llm_message *message);
    /* Numbers that cannot be delivered, before the message after them. NULL: logged as a warning */
    void (*gap)(void *arg, uint64_t first, uint64_t last);
    /*
     * The role changed. number: with LLM_ROLE_PRIMARY that of the first message that it will send; everything before
     * was delivered. term: of the stream. NULL: logged
     */
    void (*role)(void *arg, enum llm_role role, uint32_t term, uint64_t number);
    /*
     * Another member needs the state of the application: write it by llm_snapshot_write(). It is the state before message
     * `number`: the messages before it were delivered, or sent by this member as the primary. Return LLM_OK, or a code: then the
     * other one asks again.
     */
    int (*save)(void *arg, uint64_t number, struct llm_snapshot *snapshot);
    /*
     * State of another member, as its handler `save` wrote it; data is valid until the handler returns. The next message is
     * `number`. It comes before the first message, once. Not called in a stream that begins. Return LLM_OK, or a
     * code: then another snapshot is requested.
     */
    int (*restore)(void *arg, uint64_t number, const void *data, size_t size);
};

/* Appends bytes to a snapshot, in the handler `save`. LLM_ENOMEM; LLM_EINVAL: bytes at NULL. */
LLM_API int llm_snapshot_write(struct llm_snapshot *snapshot, const void *data, size_t size);

/* Set the size and the defaults; voters is 0 and has to be given. */
LLM_API void llm_failover_options_init(struct llm_failover_options *options);
LLM_API void llm_failover_handlers_init(struct llm_failover_handlers *handlers);

/*
 * Opens a member on a channel. options: as for a receiver and, for a candidate, for a transmitter as well; stream has
 * to be named, as all members name it. handlers is copied. Allocates; may block while the transport opens. Errors as
 * llm_transmitter_open() and llm_receiver_open(), and LLM_EOPTION for values out of their range: with fewer than three
 * voters the death of one would leave no majority.
 */
LLM_API int llm_failover_open(struct llm_context *context, const char *channel,
                              const struct llm_options *options, const struct llm_failover_options *failover,
                              const struct llm_failover_handlers *handlers, struct llm_failover **result);

/*
 * Opens a topic of the primary, or finds the one that was opened before, also by the library to repeat messages of the
 * primary before. Sends on it are refused with LLM_EFENCED once the member is fenced. *topic is closed with the
 * member. Allowed in handlers. LLM_ESTATE: it is not the primary; LLM_EFENCED; else as llm_topic_open().
 */
LLM_API int llm_failover_topic(struct llm_failover *failover, const char *name, struct llm_topic **topic);

/* Return the role, and why it is LLM_ROLE_FENCED. Allowed in handlers. */
LLM_API enum llm_role llm_failover_role(const struct llm_failover *failover);
LLM_API enum llm_fence llm_failover_fence(const struct llm_failover *failover);

/* Returns the number in the stream of the next message to be delivered, or sent by the primary. Allowed in handlers. */
LLM_API uint64_t llm_failover_next(const struct llm_failover *failover);

/*
 * Returns the number before which a majority of the voters has all messages, as far as this member knows; with
 * LLM_COMMIT_SENT, as llm_failover_next(). A primary waits for it before it does what cannot be undone. Allowed in handlers.
 */
LLM_API uint64_t llm_failover_committed(const struct llm_failover *failover);

/*
 * Leaves the group. The session of a primary ends; a backup takes over after detect_ns. Blocks for linger_ns at most.
 * *failover becomes NULL; NULL in it is allowed. LLM_ESTATE inside a handler.
 */
LLM_API int llm_failover_close(struct llm_failover **failover);

#ifdef __cplusplus
}
#endif

#endif
