/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes to disk that never block the caller: an engine takes writes, and reports how each ended. There are
 * two, io_uring (disk_uring.c) and a thread that calls pwritev2() (disk_thread.c).
 *
 * No call is thread-safe, but each may come from another thread than the one before if a lock, or the end of
 * a thread, is between the two. With io_uring a thread must not end while writes that it submitted are under
 * way: the kernel may cancel them, which is reported as ECANCELED.
 *
 * No engine repeats a write that failed: after a failure the kernel may count its pages as clean, so that a
 * second attempt would succeed without writing them.
 *
 * A process that was forked from the one that opened an engine may close it, and do nothing else with it.
 */
#ifndef LLI_DISK_H
#define LLI_DISK_H

#include "core/base/types.h"
#include "system/log.h"

enum {
    LLI_DISK_WRITES = 64,    /* writes queued or under way, and completions that were not taken */
    LLI_DISK_BUFFERS = 1024, /* buffers of an engine, of a session each */
    LLI_DISK_FILES = LLI_DISK_BUFFERS + 1, /* files of an engine: a segment for each session, and the lock */
};

enum lli_disk_engine {
    LLI_DISK_AUTO,   /* io_uring if the system has and allows it, else the thread */
    LLI_DISK_URING,  /* io_uring, Linux 5.19 or later */
    LLI_DISK_THREAD, /* a thread that calls pwritev2() */
};

struct lli_disk;

struct lli_disk_write {
    int file;             /* of lli_disk_file_add() */
    int buffer;           /* of lli_disk_buffer_add(): the one that has the bytes */
    const uint8_t *bytes; /* valid until the completion */
    uint32_t size;
    uint64_t offset; /* in the file */
    uint64_t tag;    /* returned in the completion */
};

struct lli_disk_completion {
    uint64_t tag;
    int error;   /* 0: written, and durable with `sync`; else an errno, EIO for a short write */
    lli_ns took; /* from lli_disk_submit() to the end, or to when the end was noticed */
};

/*
 * Opens an engine, and logs which one and why at LLM_LEVEL_INFO. sync: each write is durable when it is
 * complete (RWF_DSYNC). *log is copied. LLM_ESYSTEM: the engine that was asked for is not available;
 * LLM_ENOMEM.
 */
int lli_disk_open(enum lli_disk_engine engine, bool sync, const struct lli_log *log, struct lli_disk **disk);

/* Returns "uring" or "thread". */
const char *lli_disk_engine_name(const struct lli_disk *disk);

/*
 * Adds memory that writes take their bytes from; returns its number, or LLM_ELIMIT. With io_uring its pages are
 * pinned, if RLIMIT_MEMLOCK allows: they must not be unmapped before lli_disk_buffer_remove().
 */
int lli_disk_buffer_add(struct lli_disk *disk, void *base, size_t size);

/* Removes a buffer that no write uses. */
void lli_disk_buffer_remove(struct lli_disk *disk, int buffer);

/*
 * Adds a file, which stays the caller's to close; returns its number, or LLM_ELIMIT. If the process is killed, a
 * file stays open until all writes that are under way have ended, also when a kernel thread does them.
 */
int lli_disk_file_add(struct lli_disk *disk, int fd);

/* Removes a file that no write uses. Call it before close(fd). */
void lli_disk_file_remove(struct lli_disk *disk, int file);

/* Queues a write. False: LLI_DISK_WRITES are queued, under way, or complete and not taken. */
bool lli_disk_write(struct lli_disk *disk, const struct lli_disk_write *write);

/* Starts the queued writes, by one system call or none. They may complete in any order. */
void lli_disk_submit(struct lli_disk *disk);

/*
 * Returns up to `max` completions. Never blocks. Without a system call if there is nothing, except that it yields the
 * processor at most every 10 us while writes are under way.
 */
int lli_disk_completed(struct lli_disk *disk, struct lli_disk_completion *completions, int max);

/*
 * Returns a descriptor that polls readable while there are completions to take. It belongs to the engine; do
 * not read from it.
 */
int lli_disk_fd(const struct lli_disk *disk);

/*
 * Waits for all writes, queued ones included, closes the engine, and sets *disk to NULL. Completions that were
 * not taken are dropped. NULL is allowed.
 */
void lli_disk_close(struct lli_disk **disk);

#endif
