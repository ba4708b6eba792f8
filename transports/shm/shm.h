/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory transport: every join to send is a segment that its owner alone writes and any number of others map
 * read-only. Their positions are their own; nobody waits for anybody.
 *
 *   shm_name.c     names, modes and paths; who may write under a name
 *   shm_segment.c  segments: made, attached, found to be dead
 *   shm_guard.c    mappings of files that another user may truncate
 *   shm_socket.c   what goes the other way, and what wakes those who sleep: datagram sockets
 *   shm_control.c  control operations
 *   shm.c          data operations, and the transport's table
 *
 * Below a directory in memory (option shm_directory):
 *
 *   llm/@/ID            the socket of an instance
 *   llm/NAME/lock       locked by who writes under a name, exclusively unless shm_exclusive=0
 *   llm/NAME/ID.data    a segment, locked for as long as its writer lives
 *   llm/NAME/ID.bell    the page beside it that its readers may write: where they say that they sleep
 *
 * A segment is a header, a ring of entries, a ring of bytes for packets that are copied, and the history of the session that
 * sends there. An entry holds a small packet, or says where in one of the two rings a larger one is. Readers copy: an entry's
 * number, and how far the writer has come in the ring of bytes, tell afterwards whether the copy is whole.
 */
#ifndef LLI_SHM_H
#define LLI_SHM_H

#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>

#include "system/memory.h"
#include "common/peers.h"
#include "shm_guard.h"
#include "transport.h"
#include "core/base/types.h"

/* ---------------------------------------------------------------------------------------- what is in a segment */

#define LLI_SHM_MAGIC "llm-shm"
#define LLI_SHM_BELL_MAGIC "llm-bell" /* without its zero */

enum {
    LLI_SHM_VERSION = 2,
    LLI_SHM_INLINE = 104,      /* bytes of a packet that lies in its entry */
    LLI_SHM_READERS_MAX = 1023, /* of a segment */
    LLI_SHM_COPIES = 64,       /* largest packets in the ring of copies */
};

enum lli_shm_place { LLI_SHM_HERE, LLI_SHM_COPIED, LLI_SHM_HISTORY };

/*
 * Two cache lines, which processors fetch together. A lone small packet fills the first, and the number, which readers look at in every
 * poll, is in the other: so no write of such a packet concerns both, for which a core would need both at once (ADR 38).
 */
struct __attribute__((aligned(128))) lli_shm_entry {
    union {
        uint8_t bytes[LLI_SHM_INLINE];
        struct {
            uint8_t unused[LLI_SHM_INLINE - 2 * sizeof(uint64_t)];
            uint64_t offset;   /* in the ring */
            uint64_t position; /* the same, counting all laps */
        } ring;
    };
    uint64_t to;             /* an instance, 0: everybody */
    uint32_t size;
    uint32_t place;          /* of enum lli_shm_place */
    _Atomic uint64_t number; /* entries before it, plus 1, once it is whole; 0 while it is written */
};

_Static_assert(sizeof(struct lli_shm_entry) == 128, "an entry has two lines");

struct lli_shm_header {
    char magic[8];
    uint32_t version;
    uint32_t entries;      /* a power of two */
    uint32_t payload_max;
    uint32_t copies_bytes;
    uint64_t entries_offset;
    uint64_t copies_offset;
    uint64_t history_offset;
    _Atomic uint64_t history_bytes; /* 0: there is none yet */
    uint64_t writer;       /* the instance */
    uint32_t pid;
    uint32_t loops;        /* the writer's own receivers take it too */
    _Atomic uint32_t closed;

    /* Written with every packet that lies in a ring. */
    _Alignas(128) _Atomic uint64_t history_edge;
    _Atomic uint64_t copies_edge;
    /* Written with every flush, read by those who are new or were lapped. */
    _Alignas(128) _Atomic uint64_t head;
};

/* What a reader has in the bell of a segment. */
struct lli_shm_reader {
    _Atomic uint64_t id;     /* the instance, 0: nobody */
    _Atomic uint32_t asleep;
    uint32_t spare;
};

struct lli_shm_bell {
    _Atomic uint32_t rung;     /* counts what others put into the writer's socket */
    _Atomic uint32_t sleepers; /* some reader is asleep */
    char magic[8];             /* LLI_SHM_BELL_MAGIC: a bell may be removed when its writer is dead */
    struct lli_shm_reader readers[LLI_SHM_READERS_MAX];
};

/* ------------------------------------------------------------------------------------------- what an instance has */

enum {
    LLI_SHM_POST_MAX = 256,
    LLI_SHM_SENDERS_MAX = 256,
    LLI_SHM_GROUPS_MAX = 256,
    LLI_SHM_SOURCES_MAX = 1024,
    LLI_SHM_SLOTS = 256,
    LLI_SHM_SLOT_BYTES = 65536,
    LLI_SHM_SLOT_STRIDE = LLI_SHM_SLOT_BYTES + 192, /* so that slots do not share cache sets */
    LLI_SHM_WAITING = 64,   /* packets taken from the socket and not lent yet; a power of two */
    LLI_SHM_PEERS_MIN = 4096,
    LLI_SHM_TOLD_MAX = 64,
    LLI_SHM_NAME_MAX = 80,
};

/* Handles of joins are places in senders or groups; those of peers have this bit as well. */
#define LLI_SHM_PEER ((lli_handle)1 << 31)

/* Where names are, and who may do what there. */
struct lli_shm_root {
    char path[80];  /* DIRECTORY/llm */
    mode_t mode;    /* of a segment: who may read */
};

/* A segment as its writer, or a reader, has it. What can be known from the header beforehand is here: a header may lie. */
struct lli_shm_segment {
    int fd;                        /* -1: unused */
    uint16_t guard;                /* of the segment's mappings, if another user owns it */
    uint16_t bell_guard;           /* of the bell's, if another user owns or may write it */
    struct lli_shm_header *header; /* the readers' are mapped read-only */
    struct lli_shm_entry *entries;
    uint64_t entries_mask;
    uint8_t *copies;
    uint64_t copies_bytes;
    uint8_t *history;              /* NULL: not mapped */
    uint64_t history_bytes;
    uint64_t mapped;               /* bytes, without the history */
    uint64_t id;                   /* of the segment: its file's name */
    struct lli_shm_bell *bell;
};

/* A join to send. */
struct lli_shm_sender {
    struct lli_shm_segment segment;
    uint64_t next;             /* entries written, */
    const uint8_t *slot;       /* and where a packet that lies in the next one will lie */
    uint64_t copies_head;      /* where the next copy goes */
    uint64_t copies_lap;       /* bytes of all laps of that ring before this one */
    uint64_t history_lap;      /* the same of the history */
    uint32_t rung;             /* of its bell, as seen last */
    int bell_fd;
    int lock_fd;
    char name[LLI_SHM_NAME_MAX];
};

/* A group joined to receive. */
struct lli_shm_group {
    uint32_t users;
    bool loops;
    bool told;                 /* that what is under the name may not be known, or is too much */
    char name[LLI_SHM_NAME_MAX];
};

/* A segment that may not be read, of which that was said. */
struct lli_shm_told {
    uint64_t id;
    bool here; /* it was found again */
};

/* A segment that is read. */
struct lli_shm_source {
    struct lli_shm_segment segment;
    uint64_t next;             /* the entry to come */
    struct lli_shm_reader *reader;
    lli_handle group;
};

/* Where an instance is reached, and whether it reads what this one writes. */
struct lli_shm_peer {
    uint64_t id;
    uint32_t sender; /* a segment of ours that it read when it was last looked for, */
    uint32_t reader; /* and its place there */
    struct sockaddr_un address;
};

struct lli_shm {
    /* Receiving. */
    uint32_t turn;
    uint32_t rung;                                 /* of the bell, as seen last */
    const _Atomic uint32_t *bell;                  /* of the one sender; NULL: there are none, or several */
    struct lli_shm_source *only;                   /* the one source, while nothing but it is to be thought of; else NULL */
    uint32_t sources_count;
    uint32_t sources_next;
    uint32_t free_count;
    uint64_t id;
    struct lli_shm_source *sources;
    uint8_t *slots;
    uint16_t free[LLI_SHM_SLOTS];                  /* a stack */
    struct lli_in waiting[LLI_SHM_WAITING];
    uint32_t waiting_head;
    uint32_t waiting_tail;
    bool changed;                                  /* somebody came: look for new segments */
    uint32_t unread;                               /* datagrams since the socket was empty */
    uint32_t rings;                                /* rings without a datagram that are answered until the next timed look */
    bool deaf;                                     /* rings are ignored until then */
    _Atomic uint32_t silence;                      /* the bell while deaf: never rung */
    lli_ns drained_at;                             /* looked into the socket, */
    lli_ns looked_at;                              /* and for segments whose writers died */

    /* Sending. */
    uint32_t senders_count;                        /* places ever used */
    uint64_t done;
    struct lli_shm_sender *senders;
    struct lli_shm_sender *open;                   /* whose sleepers are still to be woken, NULL: nobody's */
    int64_t wake_left;                             /* nanoseconds that waking may take, as of wake_at */
    lli_ns wake_at;
    uint32_t wake_next;                            /* place of a bell to look at first */
    bool wake_due;                                 /* waking was deferred */

    /* Control. */
    const struct lli_log *log;
    struct lli_shm_root root;
    struct lli_shm_group *groups;
    struct lli_peers peers;
    struct lli_shm_peer *peer;                     /* by place */
    struct lli_memory memory;                      /* of the slots */
    int socket;
    bool bound;
    struct stat named;                             /* the socket's file, as bound */
    uint32_t payload_max;
    uint32_t entries;
    uint32_t armed;                                /* times */
    bool refused;                                  /* the latest look found what it may not read */
    bool telling;                                  /* something is in told, or a group has been told of */
    uint32_t told_count;
    struct lli_shm_told told[LLI_SHM_TOLD_MAX];

    /* Counters. */
    uint64_t lapped;
    uint64_t overwritten;
    uint64_t drops_told; /* of these two, by shm_drops() */
    uint64_t attached;
    uint64_t attach_errors;
    uint64_t truncated;
    uint64_t truncated_told;
    uint64_t truncated_id;  /* of the latest such segment */
    uid_t truncated_owner;
    uint64_t wakes;
    uint64_t wakes_deferred;
    uint64_t rings_empty;
    uint64_t send_errors;
};

/* The entry of a number of entries before it. */
static inline struct lli_shm_entry *lli_shm_entry_at(const struct lli_shm_segment *segment, uint64_t place)
{
    return &segment->entries[place & segment->entries_mask];
}

/* Segments have to be looked for. */
static inline void lli_shm_stir(struct lli_shm *shm)
{
    shm->changed = true;
    shm->only = NULL;
}

/* ------------------------------------------------------------------------------------------------- shm_name.c */

/*
 * Where an instance with these options has its files; makes the directories, which go with the last file in them. LLM_EAGAIN:
 * they just went.
 */
int lli_shm_root(struct lli_shm_root *root, const struct llm_options *options, const struct lli_log *log);
/* What a path could not be made for, which errno says. */
int lli_shm_root_failed(const char *path, const struct lli_log *log);
/* How to raise the limit of open files that an error tells of, NULL if it does not. */
const char *lli_shm_limit(int error);
void lli_shm_root_end(const struct lli_shm_root *root);

/* The name of a group, checked. */
int lli_shm_name(char name[LLI_SHM_NAME_MAX], const struct lli_group *group, const struct lli_log *log);

/* A mode for readers of files with it who may write as well, or look into a directory. */
mode_t lli_shm_mode_write(mode_t mode);
mode_t lli_shm_mode_look(mode_t mode);

/* The right to write under a name: a descriptor to be given to lli_shm_unlock(), or LLM_E. */
int lli_shm_lock(const struct lli_shm_root *root, const char *name, bool exclusive, const struct lli_log *log);
void lli_shm_unlock(const struct lli_shm_root *root, const char *name, int fd);

/* Whether a file is locked by anybody, and to lock it; descriptors must be able to write for the latter. */
bool lli_shm_is_locked(int fd);
bool lli_shm_take(int fd, short type);

/* ---------------------------------------------------------------------------------------------- shm_segment.c */

struct lli_shm_shape {
    uint32_t entries;
    uint32_t payload_max;
    bool loops;
    uint64_t writer;
    uint64_t history_bytes; /* that will follow, as far as is known */
};

/* Makes the segment of a sender that holds the lock on its name, after removing those of the dead. */
int lli_shm_create(struct lli_shm_sender *sender, const struct lli_shm_root *root, const struct lli_shm_shape *shape,
                   const struct lli_log *log);
/* Gives it its history. */
int lli_shm_extend(struct lli_shm_sender *sender, const struct lli_shm_root *root, size_t size, const struct lli_log *log);
/* Removes it; those who read it read on to its end. */
void lli_shm_remove(struct lli_shm_sender *sender, const struct lli_shm_root *root);

/* Gives back what this process has of a segment, and leaves the segment as it is. */
void lli_shm_sender_release(struct lli_shm_sender *sender);
void lli_shm_source_release(struct lli_shm_source *source);

/* Attaches the segment of this id as reader `self`. LLM_EAGAIN: it is going. log may be NULL: nothing is said. */
int lli_shm_attach(struct lli_shm_source *source, const struct lli_shm_root *root, const char *name, uint64_t id, uint64_t self,
                   const struct lli_log *log);
void lli_shm_detach(struct lli_shm_source *source);
/* Maps the history, once there is one. */
bool lli_shm_attach_history(struct lli_shm_segment *segment);
/* Gives a reader whose place was overwritten an unused one, else its own again. */
void lli_shm_place_again(struct lli_shm_source *source, uint64_t self);
/*
 * Map a truncated bell again: mend for a reader, once the file has its length again; restore for the writer, which gives it that
 * length. False: the mapping still is zeros, private to this process.
 */
bool lli_shm_bell_mend(struct lli_shm_segment *segment, const struct lli_shm_root *root, const char *name);
bool lli_shm_bell_restore(struct lli_shm_sender *sender);
/* True if the writer is dead or closed the segment, or the file was truncated. */
bool lli_shm_is_dead(const struct lli_shm_segment *segment);

/*
 * Calls for each file of a name that is a segment; stops, and returns it, when the function returns other than 0. LLM_E: there
 * are some, and who they are must not be known. log may be NULL: nothing is said.
 */
int lli_shm_each(const struct lli_shm_root *root, const char *name, int (*function)(void *arg, uint64_t id), void *arg,
                 const struct lli_log *log);

/* Removes the files of a name that belong to no living writer. */
void lli_shm_sweep(const struct lli_shm_root *root, const char *name);

/* ----------------------------------------------------------------------------------------------- shm_socket.c */

/* Makes the socket, and the directories; nothing of them is left behind. */
int lli_shm_socket_open(struct lli_shm *shm, const struct llm_options *options);
void lli_shm_socket_close(struct lli_shm *shm);
/* The id of an instance that has an address on a network. */
uint64_t lli_shm_id(const struct lli_address *address);
/* Tells every instance that there is something new. */
void lli_shm_socket_call(struct lli_shm *shm);
/* Takes what came, as long as there is room to keep it. */
void lli_shm_socket_drain(struct lli_shm *shm);
bool lli_shm_socket_send(struct lli_shm *shm, struct lli_shm_peer *peer, const struct lli_out *packet);
/* Whether the instance of an id is open; its file may outlive it. */
bool lli_shm_socket_answers(const struct lli_shm_root *root, uint64_t id);
/* Calls a function for the file of each socket. */
void lli_shm_socket_each(const struct lli_shm_root *root, void (*function)(void *arg, int directory, uint64_t id), void *arg);
/* Removes the socket file of an instance that is not open. False: there is no such file, or the instance is open. */
bool lli_shm_socket_remove(int directory, const struct lli_shm_root *root, uint64_t id);
/* Wakes the sleeping readers of a segment; defers it, in whole or in part, if waking has taken its share of the time. */
void lli_shm_socket_wake(struct lli_shm *shm, struct lli_shm_bell *bell);
int lli_shm_address(void *instance, struct lli_address *address);
int lli_shm_peer(void *instance, const struct lli_address *address, lli_handle *handle);
void lli_shm_forget(void *instance, const struct lli_address *address);

/* ---------------------------------------------------------------------------------------------- shm_control.c */

int lli_shm_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
void lli_shm_close(void *instance);
void lli_shm_abandon(void *instance);
int lli_shm_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
void lli_shm_leave(void *instance, lli_handle handle, enum lli_join_mode mode);
int lli_shm_region_map(void *instance, lli_handle to, size_t size, struct lli_region *region);
int lli_shm_flush(void *instance);
void lli_shm_region_end(void *instance, void *base, size_t size);
/* Attaches what is new under the names of the joined groups, and lets go of what is dead and read. */
void lli_shm_look(struct lli_shm *shm);
/* Says of each segment once why it is not read. */
void lli_shm_tell(void *instance);

#endif
