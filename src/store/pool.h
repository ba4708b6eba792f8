/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segment files of a store's directory. A thread creates, renames, clears and removes them, so that the caller
 * never waits for the file system; docs/store.md section 1 has the layout.
 *
 * The thread has spare files ready: as large as a segment and written once, so that a later write changes no
 * metadata. Retired segments become spares. A file is made under a name that is no segment's, and renamed
 * when it is complete.
 *
 * No call is thread-safe, but each may come from another thread than the one before if a lock is between the
 * two. A process that was forked from the one that opened a pool may close it, and do nothing else with it.
 */
#ifndef LLI_POOL_H
#define LLI_POOL_H

#include "core/base/types.h"
#include "system/log.h"

enum {
    LLI_POOL_REQUESTS = 64,   /* requests that are not finished or not taken */
    LLI_POOL_RETIRED = 256,   /* requests and retired segments that wait for the thread */
    LLI_POOL_SPARES_MAX = 64, /* most spare files */
    LLI_POOL_NAME_MAX = 64,
};

struct lli_pool_config {
    const char *directory;
    uint64_t segment_bytes; /* size of a segment, a multiple of 4096 */
    uint32_t spares;        /* spare files to have ready; those on the disk count */
    uint64_t reserve_bytes; /* free bytes of the disk that stay free */
};

struct lli_pool_segment {
    uint64_t session;
    uint64_t ordinal;
    int fd;       /* open for reading and writing, the caller's to close; -1: failed */
    int index_fd; /* of its index, empty and open for writing, the caller's to close; -1: there is none */
    int error;    /* 0, or errno: ENOSPC also if the reserve is reached */
    bool direct;  /* opened with O_DIRECT: addresses, sizes and offsets are multiples of 4096 */
    bool
        written; /* it was written before; else its blocks are allocated only, and first writes take longer */
    char name[LLI_POOL_NAME_MAX]; /* its path in the directory */
};

struct lli_pool;

/*
 * Opens a directory, for this process alone: `lock` in it is locked, and has its pid. Waits up to 2 s for the
 * lock, or up to 30 s if the process that is named in it is gone: writes of that one are under way. Nothing else
 * here blocks for long. config is copied.
 *
 * LLM_ENOTFOUND: there is no such directory. LLM_EACCESS: it is another user's, or must not be written.
 * LLM_ESTATE: another store has it. LLM_ELIMIT: RLIMIT_FSIZE forbids files of this size. LLM_EOPTION: a value of
 * config. LLM_ENOMEM, LLM_ESYSTEM.
 */
int lli_pool_open(const struct lli_pool_config *config, const struct lli_log *log, struct lli_pool **pool);

/*
 * Asks for a segment by its number in its recording, before it is due: it takes as long as the file system takes to have
 * directories on the disk. lli_pool_take() returns it, with a cleared header. A file of the same name is replaced.
 * replaces: another segment will be retired for it, when it is begun; no spare file is made until then, or until the next
 * request. False: LLI_POOL_REQUESTS are pending.
 */
bool lli_pool_request(struct lli_pool *pool, uint64_t session, uint64_t ordinal, bool replaces);

/*
 * Returns the next finished request, in the order of the requests. False: there is none. Logs what the thread
 * has met, for example that it cannot make spare files; so call it in each poll. Yields to it while a request is not finished.
 */
bool lli_pool_take(struct lli_pool *pool, struct lli_pool_segment *segment);

/* Closes the descriptors of a segment; its files stay. */
void lli_pool_segment_close(struct lli_pool_segment *segment);

/*
 * Retires a segment that no longer belongs to its recording: the file becomes a spare, if it may be used again, or is
 * removed; its index is removed, and the directory of the session too if it is empty. Who still reads the file may
 * find the blocks of another recording in it. False: too many wait for the thread.
 */
bool lli_pool_retire(struct lli_pool *pool, uint64_t session, uint64_t ordinal, bool reuse);

/*
 * Notes that bytes of recordings are being written: spare files are filled twice as fast, no faster. behind: the recorder waits for the
 * disk. Then none is filled for a while; if none is left, one is made that is not written, whose first writes take longer, but less long
 * than to write everything twice.
 */
void lli_pool_recorded(struct lli_pool *pool, uint64_t bytes, bool behind);

/* Returns a descriptor that polls readable while there are finished requests. Do not read from it. */
int lli_pool_fd(const struct lli_pool *pool);

/* Returns the descriptor of the lock, which stays the pool's. */
int lli_pool_lock(const struct lli_pool *pool);

/* Returns the free bytes of the disk that are not reserved, as of the last second. */
uint64_t lli_pool_free_bytes(const struct lli_pool *pool);

/* Returns the number of spare files that are ready. */
uint32_t lli_pool_spares(const struct lli_pool *pool);

/*
 * Waits for what the thread is doing, retires what is still to be retired, and closes the pool. Requests that are not
 * begun are dropped; segments that were not taken become spares or are removed. Sets *pool to NULL; NULL is allowed.
 */
void lli_pool_close(struct lli_pool **pool);

#endif
