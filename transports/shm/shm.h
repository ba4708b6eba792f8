/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory transport. Every join to send creates a segment that only its owner writes, and that up to
 * LLI_SHM_READERS_MAX readers map read-only. Each reader has its own position; no process waits for another.
 *
 *   shm_name.c     names, modes and paths; permission to write under a name
 *   shm_segment.c  segments: creation, attaching, detection of dead writers
 *   shm_guard.c    guards for mappings of files that another user may truncate
 *   shm_socket.c   datagram sockets: unicasts and wake-ups
 *   shm_control.c  control operations
 *   shm.c          data operations and the transport table
 *
 * Files in a memory file system (option shm_directory):
 *
 *   llm/@/ID            the socket of an instance
 *   llm/NAME/lock       locked by the writers of a name: the first byte by transmitters, exclusively unless
 *                       shm_exclusive=0, the second by all
 *   llm/NAME/ID.data    a segment, locked while its writer lives
 *   llm/NAME/ID.bell    the segment's bell: a page that readers may write, to announce that they sleep
 *
 * A segment consists of a header, a ring of entries, a ring of bytes for copied packets, and the history of
 * the session that sends there. An entry contains a small packet, or the position of a larger one in one of
 * the two byte rings. Readers copy packets; afterwards the entry's number and the ring's edge show if the
 * copy is intact. Of a packet in the history that has an outline, a reader that asked for outlines copies the parts that it
 * needs.
 */
#ifndef LLI_SHM_H
#define LLI_SHM_H

#include <assert.h>
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

/* ----------------------------------------------------------------------------------------- segment layout */

#define LLI_SHM_MAGIC "llm-shm"
#define LLI_SHM_BELL_MAGIC "llm-bell" /* without the terminating zero */

enum {
    LLI_SHM_VERSION = 3,
    LLI_SHM_INLINE = 104,       /* largest packet stored in its entry, in bytes */
    LLI_SHM_READERS_MAX = 1023, /* per segment */
    LLI_SHM_COPIES = 64,        /* capacity of the ring of copies, in packets of the largest size */
};

enum lli_shm_place { LLI_SHM_HERE, LLI_SHM_COPIED, LLI_SHM_HISTORY };

/*
 * Two cache lines, which processors fetch as a pair. A small packet fills only the first; the number, which
 * readers poll, is in the second. So no write of such a packet touches both lines, which a core would have to
 * own at once (ADR 38).
 */
struct __attribute__((aligned(128))) lli_shm_entry {
    union {
        uint8_t bytes[LLI_SHM_INLINE];
        struct {
            uint8_t unused[LLI_SHM_INLINE - 5 * sizeof(uint64_t)];
            /* Of a packet in the history: its outline, in the ring of copies. */
            uint64_t outline_offset;
            uint64_t outline_position;
            uint64_t outline_size; /* 0: none */
            uint64_t offset;       /* in the ring */
            uint64_t position;     /* offset counted across all laps */
        } ring;
    };
    uint64_t to; /* destination instance; 0: all */
    uint32_t size;
    uint32_t place;          /* enum lli_shm_place */
    _Atomic uint64_t number; /* index of the entry plus 1, once complete; 0 while it is written */
};

_Static_assert(sizeof(struct lli_shm_entry) == 128, "an entry has two lines");

struct lli_shm_header {
    char magic[8];
    uint32_t version;
    uint32_t entries; /* a power of two */
    uint32_t payload_max;
    uint32_t copies_bytes;
    uint64_t entries_offset;
    uint64_t copies_offset;
    uint64_t history_offset;
    _Atomic uint64_t history_bytes; /* 0: no history yet */
    uint64_t writer;                /* id of the writing instance */
    uint32_t pid;
    uint32_t loops; /* the writer's own receivers also read the segment */
    _Atomic uint32_t closed;

    /* Written with every packet stored in a byte ring. */
    _Alignas(128) _Atomic uint64_t history_edge;
    _Atomic uint64_t copies_edge;
    /* Written at every flush; read by new readers and by readers that were lapped. */
    _Alignas(128) _Atomic uint64_t head;
};

/* Reader's entry in the bell of a segment. */
struct lli_shm_reader {
    _Atomic uint64_t id; /* instance id; 0: unused */
    _Atomic uint32_t asleep;
    uint32_t spare;
};

struct lli_shm_bell {
    _Atomic uint32_t rung;     /* counts unicasts sent to the writer's socket */
    _Atomic uint16_t sleepers; /* nonzero if any reader sleeps */
    _Atomic uint16_t outlines; /* nonzero once a reader has asked for outlines */
    /* LLI_SHM_BELL_MAGIC: identifies a bell that may be removed when its writer is dead */
    char magic[8];
    struct lli_shm_reader readers[LLI_SHM_READERS_MAX];
};

/* ----------------------------------------------------------------------------------------------- instance */

enum {
    LLI_SHM_POST_MAX = 256,
    LLI_SHM_SENDERS_MAX = 256,
    LLI_SHM_GROUPS_MAX = 256,
    LLI_SHM_SOURCES_MAX = 1024,
    LLI_SHM_SLOTS = 256, /* of each size */
    LLI_SHM_SLOT_SMALL = 256,
    LLI_SHM_SLOT_BYTES = 65536,
    LLI_SHM_SLOT_STRIDE = LLI_SHM_SLOT_BYTES + 192, /* extra lines, so that slots use different cache sets */
    LLI_SHM_WAITING = 64, /* packets read from the socket and not yet delivered; a power of two */
    LLI_SHM_PEERS_MIN = 4096,
    LLI_SHM_LOGGED_MAX = 64,
    LLI_SHM_NAME_MAX = 80,
};

/* Handles of joins are indices into senders or groups; handles of peers also have this bit set. */
#define LLI_SHM_PEER ((lli_handle)1 << 31)

/* clang-format off */
#define LLI_SHM_OPTIONS(X)                                                                                                       \
    X(str, INSTANCE, shm_directory, "/dev/shm", 0, 64, "directory, of a file system in memory, under which channels have theirs") \
    X(str, INSTANCE, shm_mode, "0600", 0, 8, "who may read a channel and answer on it, as a file's mode, in octal")              \
    X(u32, TRANSMITTER, shm_exclusive, 1, 0, 1, "a second transmitter on the same name is refused")
/* clang-format on */

struct lli_shm_options {
    LLI_SHM_OPTIONS(LLI_OPTION_FIELD)
};

extern const struct lli_option_table lli_shm_option_table;

/* Directory of names, and access permissions. */
struct lli_shm_root {
    char path[80]; /* DIRECTORY/llm */
    mode_t mode;   /* of segments: users that may read */
};

/*
 * Mapped segment of a writer or a reader. Validated copies of header fields: the shared header is untrusted.
 */
struct lli_shm_segment {
    struct lli_shm_entry *entries;
    uint64_t entries_mask;
    struct lli_shm_header *header; /* mapped read-only by readers */
    uint8_t *history;              /* NULL: not mapped */
    uint64_t history_bytes;
    uint8_t *copies;
    uint64_t copies_bytes;
    uint64_t mapped;     /* bytes, excluding the history */
    int fd;              /* -1: unused */
    uint16_t guard;      /* for the segment's mappings, if another user owns it */
    uint16_t bell_guard; /* for the bell's mapping, if another user owns it or may write it */
    uint64_t id;         /* segment id: the name of its file */
    struct lli_shm_bell *bell;
};

/* Join to send. */
struct lli_shm_sender {
    struct lli_shm_segment segment;
    uint64_t next;        /* entries written */
    const uint8_t *slot;  /* packet bytes of entry next */
    uint64_t copies_head; /* offset of the next copy */
    uint64_t copies_lap;  /* bytes of all earlier laps of the ring of copies */
    uint64_t history_lap; /* bytes of all earlier laps of the history */
    uint32_t rung;        /* value of its bell last seen */
    int bell_fd;
    int lock_fd;
    char name[LLI_SHM_NAME_MAX];
};

/* Group joined to receive. */
struct lli_shm_group {
    uint32_t users;
    bool loops;
    bool logged; /* logged: the name is not accessible, or has too many segments */
    char name[LLI_SHM_NAME_MAX];
};

/* Unreadable segment; the reason was logged. */
struct lli_shm_logged {
    uint64_t id;
    bool here; /* seen again in this scan */
};

/* Segment being read. What a poll and a packet need is in the first cache line. */
struct __attribute__((aligned(64))) lli_shm_source {
    uint64_t next; /* next entry to read */
    lli_handle group;
    struct lli_shm_segment segment;
    uint64_t looked; /* next at the latest check for dead writers */
    struct lli_shm_reader *reader;
};

/* Peer: the address of its socket, and its position as a reader of our segments. */
struct lli_shm_peer {
    uint64_t id;
    uint32_t sender; /* index of a sender whose segment the peer read at the latest lookup */
    uint32_t reader; /* reader index of the peer in that segment */
    struct sockaddr_un address;
};

/* Memory for received packets of a size. Their buffers have numbers from 0 on if they are small, else above. */
struct lli_shm_slots {
    uint8_t *base;
    uint32_t stride;
    uint32_t free_count;
    uint16_t free[LLI_SHM_SLOTS]; /* numbers of buffers: a stack */
};

/* Sources: shm.c, and shm_control.c, which attaches them. */
struct lli_shm_in {
    uint32_t turn;
    uint32_t count; /* of sources */
    uint32_t next;  /* source to start from */
    /* The only source, if no other work is pending; else NULL. */
    struct lli_shm_source *only;
    struct lli_shm_source *sources;
    bool changed;     /* scan for new segments */
    lli_ns looked_at; /* time of the latest check for dead writers */
    uint32_t looks;   /* checks since the latest scan */
    /*
     * Small packets of many sources share few pages: a processor that many processes share has the translation of a
     * page only if it was used in the latest turn.
     */
    struct lli_shm_slots small; /* of LLI_SHM_SLOT_SMALL bytes */
    struct lli_shm_slots large; /* of LLI_SHM_SLOT_BYTES */
    bool asks;                  /* for outlines: packets that have one are fetched later */
};

/* Datagrams received and not yet delivered: shm_socket.c. */
struct lli_shm_waiting {
    struct lli_in in[LLI_SHM_WAITING];
    uint32_t head;
    uint32_t tail;
};

/* The bell of a sender, and the limit of rings without a datagram: shm.c. */
struct lli_shm_ringing {
    uint32_t rung;                /* value of the bell last seen */
    uint32_t unread;              /* datagrams since the socket was last empty */
    const _Atomic uint32_t *bell; /* of the only sender; NULL: none or several */
    /* Rings without a datagram still answered before the next timed check. */
    uint32_t left;
    bool deaf;                /* ignore rings until the next timed check */
    _Atomic uint32_t silence; /* in place of the bell while deaf: never rung */
    lli_ns drained_at;        /* time of the latest check of the socket */
};

struct lli_shm_out {
    uint32_t count; /* places used so far */
    uint64_t done;
    struct lli_shm_sender *senders;
    /* Written to since the latest flush, its sleeping readers not yet woken; NULL: none. */
    struct lli_shm_sender *open;
    lli_outline_maker *outline; /* NULL: no outlines */
};

/* Wakes of sleeping readers: shm_socket.c. */
struct lli_shm_wake {
    int64_t left; /* budget in nanoseconds, as of at */
    lli_ns at;
    uint32_t next; /* bell place to start from */
    bool due;      /* waking was deferred */
};

/* Problems in the directory that were logged: shm_control.c. */
struct lli_shm_problems {
    bool refused; /* the latest scan found segments that may not be read */
    bool logging; /* a name or a segment was logged: check it again */
    uint32_t count;
    struct lli_shm_logged logged[LLI_SHM_LOGGED_MAX];
    uint64_t truncated_logged;
    uint64_t truncated_id; /* id of the segment truncated most recently */
    uid_t truncated_owner;
};

struct lli_shm_counters {
    uint64_t lapped;
    uint64_t overwritten;
    uint64_t drops_reported; /* lapped + overwritten at the latest call of shm_drops() */
    uint64_t attached;
    uint64_t attach_errors;
    uint64_t truncated;
    uint64_t wakes;
    uint64_t wakes_deferred;
    uint64_t rings_empty;
    uint64_t send_errors;
};

struct lli_shm {
    uint64_t id;
    struct lli_shm_ringing ringing;
    struct lli_shm_in in;
    struct lli_shm_waiting waiting;
    struct lli_shm_out out;
    struct lli_shm_wake wake;
    const struct lli_log *log;
    struct lli_shm_root root;
    struct lli_shm_group *groups;
    struct lli_peers peers;
    struct lli_shm_peer *peer; /* by place */
    struct lli_memory memory;  /* memory of the slots */
    int socket;
    bool bound;
    struct stat named; /* status of the socket file when bound */
    uint32_t payload_max;
    uint32_t entries;
    uint32_t armed; /* calls of arm() */
    struct lli_shm_problems problems;
    struct lli_shm_counters counters;
};

/* Returns the entry with the given index, counted since the start of the segment. */
static inline struct lli_shm_entry *lli_shm_entry_at(const struct lli_shm_segment *segment, uint64_t place)
{
    return &segment->entries[place & segment->entries_mask];
}

/* Returns the slots for packets of this size. */
static inline struct lli_shm_slots *lli_shm_slots_for(struct lli_shm *shm, uint32_t size)
{
    return size <= LLI_SHM_SLOT_SMALL ? &shm->in.small : &shm->in.large;
}

/* Memory of the slot that is taken next; there has to be one. */
static inline uint8_t *lli_shm_slot_next(const struct lli_shm_slots *slots)
{
    return slots->base + (size_t)(slots->free[slots->free_count - 1] % LLI_SHM_SLOTS) * slots->stride;
}

/* Takes that slot. Returns the number of its buffer. */
static inline uint64_t lli_shm_slot_take(struct lli_shm_slots *slots)
{
    return slots->free[--slots->free_count];
}

static inline void lli_shm_slot_release(struct lli_shm *shm, uint64_t buffer)
{
    struct lli_shm_slots *slots = buffer < LLI_SHM_SLOTS ? &shm->in.small : &shm->in.large;

    assert(slots->free_count < LLI_SHM_SLOTS);
    slots->free[slots->free_count++] = (uint16_t)buffer;
}

/* Requests a scan for new and dead segments. */
static inline void lli_shm_rescan(struct lli_shm *shm)
{
    shm->in.changed = true;
    shm->in.only = NULL;
}

/* --------------------------------------------------------------------------------------------- shm_name.c */

/*
 * Determines the directory of an instance's files and creates it; it is removed together with its last file.
 * LLM_EAGAIN: another instance just removed it.
 */
int lli_shm_root(struct lli_shm_root *root, const struct lli_shm_options *options, const struct lli_log *log);
/* Logs a failure to create a path, by errno; returns the error code. */
int lli_shm_root_failed(const char *path, const struct lli_log *log);
/* Returns how to raise the limit of open files, if error reports that limit; else NULL. */
const char *lli_shm_limit(int error);
void lli_shm_root_end(const struct lli_shm_root *root);

/* Copies and validates the name of a group. */
int lli_shm_name(char name[LLI_SHM_NAME_MAX], const struct lli_group *group, const struct lli_log *log);

/*
 * Derives file modes from the mode of a segment: mode_write() also lets its readers write, mode_look() lets
 * them list a directory.
 */
mode_t lli_shm_mode_write(mode_t mode);
mode_t lli_shm_mode_look(mode_t mode);

enum lli_shm_permission {
    LLI_SHM_EXCLUSIVE, /* for the only transmitter of a name */
    LLI_SHM_SHARED,    /* with shm_exclusive=0: for one of several */
    LLI_SHM_BESIDE,    /* for a writer that refuses no other, and is refused by none */
};

/*
 * Acquires the right to write under a name. Returns a descriptor for lli_shm_unlock(), or a negative LLM_E
 * code.
 */
int lli_shm_lock(const struct lli_shm_root *root, const char *name, enum lli_shm_permission permission,
                 const struct lli_log *log);
void lli_shm_unlock(const struct lli_shm_root *root, const char *name, int fd);

/*
 * lli_shm_is_locked() returns true if any process has locked the file. lli_shm_take() locks it; the
 * descriptor must be writable.
 */
bool lli_shm_is_locked(int fd);
bool lli_shm_take(int fd, short type);

/* ------------------------------------------------------------------------------------------ shm_segment.c */

struct lli_shm_shape {
    uint32_t entries;
    uint32_t payload_max;
    bool loops;
    uint64_t writer;
    uint64_t history_bytes; /* size of the history to be added later, if known */
};

/* Creates the segment of a sender that has locked its name; first removes segments of dead writers. */
int lli_shm_create(struct lli_shm_sender *sender, const struct lli_shm_root *root,
                   const struct lli_shm_shape *shape, const struct lli_log *log);
/* Adds the history to a segment. */
int lli_shm_extend(struct lli_shm_sender *sender, const struct lli_shm_root *root, size_t size,
                   const struct lli_log *log);
/* Removes a segment; its readers read to its end. */
void lli_shm_remove(struct lli_shm_sender *sender, const struct lli_shm_root *root);

/* Releases this process's mappings and descriptors, and leaves the segment unchanged. */
void lli_shm_sender_release(struct lli_shm_sender *sender);
void lli_shm_source_release(struct lli_shm_source *source);

/*
 * Attaches the segment with this id as reader `self`. LLM_EAGAIN: it is being removed. log may be NULL: log
 * nothing.
 */
int lli_shm_attach(struct lli_shm_source *source, const struct lli_shm_root *root, const char *name,
                   uint64_t id, uint64_t self, const struct lli_log *log);
void lli_shm_detach(struct lli_shm_source *source);
/* Maps the history if it exists. */
bool lli_shm_attach_history(struct lli_shm_segment *segment);
/* Assigns an unused place to a reader whose place was overwritten; if there is none, restores its old one. */
void lli_shm_place_again(struct lli_shm_source *source, uint64_t self);
/*
 * Remaps a truncated bell. mend() is for a reader, once the file has its length again; restore() is for the
 * writer and sets that length. False: the mapping still is a private page of zeros.
 */
bool lli_shm_bell_mend(struct lli_shm_segment *segment, const struct lli_shm_root *root, const char *name);
bool lli_shm_bell_restore(struct lli_shm_sender *sender);
/* True if the writer is dead or closed the segment, or the file was truncated. */
bool lli_shm_is_dead(const struct lli_shm_segment *segment);

/*
 * Calls a function for each segment of a name. Stops when the function returns other than 0, and returns its
 * result. Returns an LLM_E code if the directory exists but may not be read. log may be NULL: log nothing.
 */
int lli_shm_each(const struct lli_shm_root *root, const char *name, int (*function)(void *arg, uint64_t id),
                 void *arg, const struct lli_log *log);

/* Removes files of a name whose writers are dead. */
void lli_shm_sweep(const struct lli_shm_root *root, const char *name);

/* ------------------------------------------------------------------------------------------- shm_socket.c */

/* Creates the socket and its directories; removes them on failure. */
int lli_shm_socket_open(struct lli_shm *shm, const struct lli_shm_options *options);
void lli_shm_socket_close(struct lli_shm *shm);
/* Derives the id of an instance from its network address. */
uint64_t lli_shm_id(const struct lli_address *address);
/* Notifies every instance that there is a new segment. */
void lli_shm_socket_call(struct lli_shm *shm);
/* Reads datagrams from the socket while there are free slots. */
void lli_shm_socket_drain(struct lli_shm *shm);
bool lli_shm_socket_send(struct lli_shm *shm, struct lli_shm_peer *peer, const struct lli_out *packet);
/* Returns true if an instance is open. Its socket file may exist even if it is not. */
bool lli_shm_socket_answers(const struct lli_shm_root *root, uint64_t id);
/* Calls a function for each socket file. */
void lli_shm_socket_each(const struct lli_shm_root *root,
                         void (*function)(void *arg, int directory, uint64_t id), void *arg);
/*
 * Removes the socket file of an instance that is not open. False: there is no such file, or the instance is
 * open.
 */
bool lli_shm_socket_remove(int directory, const struct lli_shm_root *root, uint64_t id);
/*
 * Wakes the sleeping readers of a segment; defers some or all of them if waking has used up its share of the
 * time.
 */
void lli_shm_socket_wake(struct lli_shm *shm, struct lli_shm_bell *bell);
int lli_shm_address(void *instance, struct lli_address *address);
int lli_shm_peer(void *instance, const struct lli_address *address, lli_handle *handle);
void lli_shm_forget(void *instance, const struct lli_address *address);

/* ------------------------------------------------------------------------------------------ shm_control.c */

int lli_shm_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
void lli_shm_close(void *instance);
void lli_shm_abandon(void *instance);
int lli_shm_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
void lli_shm_leave(void *instance, lli_handle handle, enum lli_join_mode mode);
int lli_shm_region_map(void *instance, lli_handle to, size_t size, struct lli_region *region);
int lli_shm_flush(void *instance);
void lli_shm_region_end(void *instance, void *base, size_t size);
/* Attaches new segments of the joined groups, and detaches those that are dead and read to the end. */
void lli_shm_look(struct lli_shm *shm);
/* Logs, once per segment, why it is not read. */
void lli_shm_report(void *instance);

#endif
