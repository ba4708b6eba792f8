/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "store/pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/memory.h"
#include "system/yield.h"

#define POOL_LOCK_NS ((lli_ns)2000000000)       /* how long open() waits for the lock ... */
#define POOL_LOCK_GONE_NS ((lli_ns)30000000000) /* ... of a process that is gone */
#define POOL_LOCK_TRY_US 10000
#define POOL_IDLE_MS 1000                  /* how often the thread looks at the free space */
#define POOL_RETRY_NS ((lli_ns)5000000000) /* after a spare file could not be made */
#define POOL_REST_NS ((lli_ns)100000000)   /* after a request, or when the recorder was behind */
#define POOL_CREDIT_MS 10                  /* how often the thread looks whether more may be filled */

enum {
    POOL_ALIGN = 4096,
    POOL_FILL = 1 << 20, /* bytes of a write that fills a spare file ... */
    POOL_FILL_BESIDE =
        128 << 10,        /* ... beside writes of a recording, which wait for it and for its flush ... */
    POOL_FILL_FASTER = 2, /* ... and how many times as fast as those a spare is filled */
};

struct pool_job {
    uint64_t session;
    uint64_t ordinal;
    bool retire;
    bool reuse;    /* a retired segment may become a spare */
    bool replaces; /* another one will be retired for one that is requested */
};

struct pool_spare {
    uint64_t number; /* of its name */
    bool written;    /* as in struct lli_pool_segment */
};

struct lli_pool {
    struct lli_log log;
    struct lli_pool_config config;
    char path[256];
    pid_t owner;
    int directory; /* descriptors of the directory, of spare/ in it, and of the lock */
    int spare;
    int lock;
    bool direct;

    /* Rings with indices that only grow. The caller writes `asked` and `taken`, the thread the others. */
    struct pool_job jobs[LLI_POOL_RETIRED];
    struct lli_pool_segment finished[LLI_POOL_REQUESTS];
    atomic_uint_fast64_t asked; /* jobs */
    atomic_uint_fast64_t begun; /* jobs: the place in the ring is free again */
    atomic_uint_fast64_t ended; /* requests that are finished */
    uint64_t requested;         /* requests, of the caller */
    uint64_t taken;             /* finished requests that were taken, of the caller */
    struct lli_yield yield;     /* of the caller */
    int wake;                   /* eventfd: there are jobs, or the stop */
    int ready;                  /* eventfd: counts finished requests that were not taken */
    atomic_bool stop;
    /* Of lli_pool_recorded(). */
    atomic_uint_fast64_t recorded; /* bytes */
    atomic_uint_fast64_t recorded_at;
    atomic_uint_fast64_t behind_at;
    pthread_t thread;

    /* Written by the thread, read by the caller. */
    atomic_uint_fast64_t free_bytes;
    atomic_uint spares;
    atomic_int trouble; /* errno with which a spare file was not made; 0: none */
    int trouble_logged; /* of the caller */

    /* Of the thread. */
    struct pool_spare stock[LLI_POOL_SPARES_MAX];
    uint64_t number_next;
    int filling; /* descriptor of the spare file that is being made; -1: none */
    uint64_t filling_number;
    uint64_t filled;
    uint64_t filled_from; /* `recorded` when that file was begun */
    lli_ns retry_at;
    lli_ns quiet_until; /* a segment that is retired for one that was requested may become the spare ... */
    bool awaits;        /* ... and one will, when that is begun */
    uint8_t *zeros;
};

enum { POOL_NAME = 40 };

static void pool_spare_name(char *name, uint64_t number, const char *suffix)
{
    (void)snprintf(name, POOL_NAME, "%" PRIu64 ".%s", number, suffix);
}

static void pool_segment_name(char *name, uint64_t session, uint64_t ordinal, const char *suffix)
{
    (void)snprintf(name, LLI_POOL_NAME_MAX, "%016" PRIx64 "/%016" PRIx64 ".%s", session, ordinal, suffix);
}

/* ------------------------------------------------------------------------------------------------- space */

/* Free bytes that are not reserved. */
static uint64_t pool_space(struct lli_pool *pool)
{
    struct statvfs disk;
    uint64_t space;

    if (fstatvfs(pool->directory, &disk) != 0)
        return 0;
    space = (uint64_t)disk.f_bavail * disk.f_frsize;
    space = space > pool->config.reserve_bytes ? space - pool->config.reserve_bytes : 0;
    atomic_store_explicit(&pool->free_bytes, space, memory_order_relaxed);
    return space;
}

/*
 * Low priority for the writes that fill spare files: the lowest of the best-effort class, as the idle class may
 * wait for ever. It has an effect with the schedulers bfq and mq-deadline.
 */
static void pool_priority(bool low)
{
    enum { WHO_PROCESS = 1, CLASS_SHIFT = 13, BEST_EFFORT = 2, LOWEST = 7 };

    (void)syscall(SYS_ioprio_set, WHO_PROCESS, 0, low ? BEST_EFFORT << CLASS_SHIFT | LOWEST : 0);
}

/* -------------------------------------------------------------------------------------------- spare files */

static int pool_create(struct lli_pool *pool, const char *name)
{
    return openat(pool->spare, name,
                  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | (pool->direct ? O_DIRECT : 0), 0666);
}

static int pool_open_file(const struct lli_pool *pool, const char *name)
{
    return openat(pool->spare, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | (pool->direct ? O_DIRECT : 0));
}

/* Notes why a spare file was not made; the caller logs it, unless it was to take the place of one that is not written. */
static void pool_trouble(struct lli_pool *pool, int error)
{
    if (atomic_load(&pool->spares) < pool->config.spares)
        atomic_store(&pool->trouble, error);
    pool->retry_at = lli_clock_ns() + POOL_RETRY_NS;
}

/* Returns the place of a spare that is not written; the number of spares: there is none. */
static unsigned pool_unwritten(const struct lli_pool *pool)
{
    const unsigned spares = atomic_load(&pool->spares);
    unsigned at = 0;

    while (at < spares && pool->stock[at].written)
        at++;
    return at;
}

/* True if there are enough written spares, with those that are expected. */
static bool pool_is_full(const struct lli_pool *pool, unsigned expected)
{
    const unsigned spares = atomic_load(&pool->spares);
    unsigned written = expected;

    for (unsigned at = 0; at < spares; at++)
        written += pool->stock[at].written;
    return written >= pool->config.spares;
}

/* Adds a spare to the stock, which is not full. */
static void pool_stock(struct lli_pool *pool, struct pool_spare spare)
{
    unsigned spares = atomic_load(&pool->spares);

    if (spares >= pool->config.spares) {
        const unsigned at = pool_unwritten(pool);
        char name[POOL_NAME];

        pool_spare_name(name, pool->stock[at].number, "segment");
        (void)unlinkat(pool->spare, name, 0);
        pool->stock[at] = pool->stock[--spares];
    }
    pool->stock[spares] = spare;
    atomic_store(&pool->spares, spares + 1);
}

/* Makes a spare of the file, or removes it after an error. */
static void pool_fill_end(struct lli_pool *pool, int error)
{
    char name[POOL_NAME], done[POOL_NAME];

    pool_spare_name(name, pool->filling_number, "part");
    pool_spare_name(done, pool->filling_number, "segment");
    if (error == 0 && (fsync(pool->filling) != 0 || renameat(pool->spare, name, pool->spare, done) != 0 ||
                       fsync(pool->spare) != 0))
        error = errno;
    close(pool->filling);
    pool->filling = -1;
    if (error == 0) {
        atomic_store(&pool->trouble, 0);
        pool_stock(pool,
                   (struct pool_spare){pool->filling_number, pool->filled == pool->config.segment_bytes});
    } else {
        (void)unlinkat(pool->spare, name, 0);
        (void)unlinkat(pool->spare, done, 0);
    }
    (void)pool_space(pool);
}

/*
 * Gives a file its size and, if the file system can, its blocks, in one piece; if not, it is sparse, and a full disk
 * shows when it is written.
 */
static int pool_allocate(const struct lli_pool *pool, int fd)
{
    if (fallocate(fd, 0, 0, (off_t)pool->config.segment_bytes) == 0)
        return 0;
    if (errno == EOPNOTSUPP && ftruncate(fd, (off_t)pool->config.segment_bytes) == 0)
        return 0;
    return errno;
}

/* Begins to fill a spare that is not written, which leaves the stock meanwhile. Returns an errno. */
static int pool_fill_spare(struct lli_pool *pool, unsigned at)
{
    const unsigned last = atomic_load(&pool->spares) - 1;
    char name[POOL_NAME], part[POOL_NAME];

    pool->filling_number = pool->stock[at].number;
    pool->stock[at] = pool->stock[last];
    atomic_store(&pool->spares, last);
    pool_spare_name(name, pool->filling_number, "segment");
    pool_spare_name(part, pool->filling_number, "part");
    pool->filling = pool_open_file(pool, name);
    return pool->filling >= 0 && renameat(pool->spare, name, pool->spare, part) == 0 ? 0 : errno;
}

/* Makes a file, and begins to fill it. Returns an errno. */
static int pool_fill_new(struct lli_pool *pool)
{
    char part[POOL_NAME];

    if (pool_space(pool) < pool->config.segment_bytes)
        return ENOSPC;
    pool->filling_number = pool->number_next++;
    pool_spare_name(part, pool->filling_number, "part");
    pool->filling = pool_create(pool, part);
    return pool->filling < 0 ? errno : pool_allocate(pool, pool->filling);
}

/*
 * Begins to fill a spare. One that is not written is filled where it is: if a new one took its place, it would be
 * removed, and writes of recordings would wait while a file system discards its blocks (docs/adr/0077-spares-are-written-where-they-are.md).
 * In the page cache it would not be at hand before all that was filled is on the disk: a new one is filled, and takes its place.
 */
static bool pool_fill_begin(struct lli_pool *pool)
{
    const unsigned at = pool_unwritten(pool);
    int error;

    if (pool_is_full(pool, pool->awaits) || lli_clock_ns() < pool->retry_at)
        return false;
    pool->filled = 0;
    pool->filled_from = atomic_load_explicit(&pool->recorded, memory_order_relaxed);
    error = pool->direct && at < atomic_load(&pool->spares) ? pool_fill_spare(pool, at) : pool_fill_new(pool);
    if (error == 0)
        return true;
    pool_trouble(pool, error);
    if (pool->filling >= 0)
        pool_fill_end(pool, error);
    return false;
}

/* True if a time was less than POOL_REST_NS ago. */
static bool pool_is_recent(const atomic_uint_fast64_t *at)
{
    return lli_clock_ns() - atomic_load_explicit(at, memory_order_relaxed) < POOL_REST_NS;
}

/* Bytes to fill next; 0: none now. A recording has the disk first, and the spare is there when it has filled half of a segment. */
static uint64_t pool_fill_size(const struct lli_pool *pool)
{
    const uint64_t left = pool->config.segment_bytes - pool->filled;
    const uint64_t recorded = atomic_load_explicit(&pool->recorded, memory_order_relaxed) - pool->filled_from;

    if (!pool_is_recent(&pool->recorded_at))
        return lli_min(POOL_FILL, left);
    return pool->filled < POOL_FILL_FASTER * recorded ? lli_min(POOL_FILL_BESIDE, left) : 0;
}

/* Writes the next bytes of a spare file. False: none now. */
static bool pool_fill_more(struct lli_pool *pool)
{
    const uint64_t size = pool_fill_size(pool);
    ssize_t done;
    int error;

    if (size == 0)
        return false;
    pool_priority(true);
    done = pwrite(pool->filling, pool->zeros, size, (off_t)pool->filled);
    pool_priority(false);
    if (done != (ssize_t)size) {
        error = done < 0 ? errno : ENOSPC;
        pool_trouble(pool, error);
        pool_fill_end(pool, error);
        return false;
    }
    pool->filled += size;
    if (pool->filled == pool->config.segment_bytes)
        pool_fill_end(pool, 0);
    return true;
}

/* Does one step of making a spare file. False: none is needed or possible now. */
static bool pool_fill(struct lli_pool *pool)
{
    const bool behind = pool_is_recent(&pool->behind_at);

    if (behind ? atomic_load(&pool->spares) > 0 : lli_clock_ns() < pool->quiet_until)
        return false;
    if (pool->filling < 0 && !pool_fill_begin(pool))
        return false;
    if (pool_is_full(pool, pool->awaits)) {
        /* Retired segments have become spares meanwhile, or will. */
        pool_fill_end(pool, ECANCELED);
        return false;
    }
    if (!behind)
        return pool_fill_more(pool);
    /* The next request need not wait for a file, even if it is not written. */
    pool_fill_end(pool, 0);
    return true;
}

/* Milliseconds that the thread may wait for a request. */
static int pool_idle_ms(const struct lli_pool *pool)
{
    const bool waits = pool_is_recent(&pool->recorded_at) || lli_clock_ns() < pool->quiet_until;

    return waits && !pool_is_full(pool, pool->awaits) ? POOL_CREDIT_MS : POOL_IDLE_MS;
}

/* Makes a file at once, of which the blocks are allocated and not written; its name remains `name`. */
static int pool_make(struct lli_pool *pool, const char *name, int *fd)
{
    int error;

    if (pool_space(pool) < pool->config.segment_bytes)
        return ENOSPC;
    *fd = pool_create(pool, name);
    if (*fd < 0)
        return errno;
    error = pool_allocate(pool, *fd);
    /* A write with RWF_DSYNC need not then write the size of the file. */
    if (error == 0 && fsync(*fd) != 0)
        error = errno;
    if (error != 0) {
        close(*fd);
        (void)unlinkat(pool->spare, name, 0);
    }
    return error;
}

/* ----------------------------------------------------------------------------------------------- requests */

/* Makes the directory of a session; it is on the disk then. */
static int pool_session(struct lli_pool *pool, const char *name)
{
    if (mkdirat(pool->directory, name, 0777) != 0)
        return errno == EEXIST ? 0 : errno;
    return fsync(pool->directory) == 0 ? 0 : errno;
}

static void pool_unlink_index(const struct lli_pool *pool, uint64_t session, uint64_t ordinal)
{
    char name[LLI_POOL_NAME_MAX];

    pool_segment_name(name, session, ordinal, "index");
    (void)unlinkat(pool->directory, name, 0);
}

/* Makes the index of a segment, a hint: without it reading takes longer. */
static void pool_make_index(const struct lli_pool *pool, struct lli_pool_segment *segment)
{
    char name[LLI_POOL_NAME_MAX];

    pool_unlink_index(pool, segment->session, segment->ordinal);
    pool_segment_name(name, segment->session, segment->ordinal, "index");
    segment->index_fd =
        openat(pool->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Moves a file of spare/ to its place, makes its index, and has both directories on the disk. */
static int pool_place(struct lli_pool *pool, const char *from, struct lli_pool_segment *segment)
{
    char session[LLI_POOL_NAME_MAX];
    int error, fd;

    (void)snprintf(session, sizeof session, "%016" PRIx64, segment->session);
    error = pool_session(pool, session);
    if (error != 0)
        return error;
    fd = openat(pool->directory, session, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    pool_make_index(pool, segment);
    if (renameat(pool->spare, from, pool->directory, segment->name) != 0) {
        error = errno;
    } else if (fsync(fd) != 0 || fsync(pool->spare) != 0) {
        error = errno;
        (void)unlinkat(pool->directory, segment->name, 0);
    }
    close(fd);
    return error;
}

static int pool_open_spare(struct lli_pool *pool, char *name, int *fd, bool *written)
{
    const unsigned spares = atomic_load(&pool->spares);

    pool_spare_name(name, pool->stock[spares - 1].number, "segment");
    *written = pool->stock[spares - 1].written;
    atomic_store(&pool->spares, spares - 1);
    *fd = pool_open_file(pool, name);
    return *fd < 0 ? errno : 0;
}

static void pool_serve(struct lli_pool *pool, const struct pool_job *job)
{
    const uint64_t ended = atomic_load_explicit(&pool->ended, memory_order_relaxed);
    struct lli_pool_segment segment = {
        .session = job->session, .ordinal = job->ordinal, .fd = -1, .index_fd = -1, .direct = pool->direct};
    char from[POOL_NAME];

    pool_segment_name(segment.name, job->session, job->ordinal, "segment");
    /* One that is filled in part is no worse than a new one, if what was filled is on the disk. */
    if (pool->direct && pool->filling >= 0 && atomic_load(&pool->spares) == 0)
        pool_fill_end(pool, 0);
    /* A spare that cannot be opened is lost; the next one may be there. */
    segment.error = ENOENT;
    while (segment.error != 0 && atomic_load(&pool->spares) > 0)
        segment.error = pool_open_spare(pool, from, &segment.fd, &segment.written);
    if (segment.error != 0) {
        segment.written = false;
        pool_spare_name(from, pool->number_next++, "part");
        segment.error = pool_make(pool, from, &segment.fd);
    }
    if (segment.error == 0) {
        segment.error = pool_place(pool, from, &segment);
        if (segment.error != 0) {
            lli_pool_segment_close(&segment);
            pool_unlink_index(pool, job->session, job->ordinal);
        }
    }
    if (segment.error != 0)
        (void)unlinkat(pool->spare, from, 0);
    pool->finished[ended % LLI_POOL_REQUESTS] = segment;
    /*
     * The count rises first, so that it is never less than the number that can be taken: a caller that takes some
     * leaves the rest of the count, and misses none.
     */
    (void)eventfd_write(pool->ready, 1);
    atomic_store_explicit(&pool->ended, ended + 1, memory_order_release);
}

/* ------------------------------------------------------------------------------------------------ retiring */

/*
 * Clears the header of a segment, so that a file that is used again is no segment until it has a new one. False: it
 * cannot be used again.
 */
static bool pool_clear(struct lli_pool *pool, const char *name)
{
    const int fd =
        openat(pool->directory, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (pool->direct ? O_DIRECT : 0));
    struct stat file;
    bool done;

    if (fd < 0)
        return false;
    done = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 1 &&
           (uint64_t)file.st_size == pool->config.segment_bytes &&
           pwrite(fd, pool->zeros, POOL_ALIGN, 0) == POOL_ALIGN && fdatasync(fd) == 0;
    close(fd);
    return done;
}

/* Makes a spare file of a segment that may be used again, or removes it. */
static void pool_recycle(struct lli_pool *pool, const char *name, bool reuse)
{
    char to[POOL_NAME];

    pool_spare_name(to, pool->number_next, "segment");
    if (reuse && !pool_is_full(pool, 0) && pool_clear(pool, name) &&
        renameat(pool->directory, name, pool->spare, to) == 0) {
        pool_stock(pool, (struct pool_spare){pool->number_next++, true});
    } else {
        (void)unlinkat(pool->directory, name, 0);
    }
}

static void pool_remove(struct lli_pool *pool, const struct pool_job *job)
{
    char name[LLI_POOL_NAME_MAX];

    /* The index first: one without a segment would remain for ever. */
    pool_unlink_index(pool, job->session, job->ordinal);
    pool_segment_name(name, job->session, job->ordinal, "segment");
    pool_recycle(pool, name, job->reuse);
    (void)snprintf(name, sizeof name, "%016" PRIx64, job->session);
    /* Fails if it has other segments. */
    (void)unlinkat(pool->directory, name, AT_REMOVEDIR);
    (void)pool_space(pool);
}

/* -------------------------------------------------------------------------------------------- the thread */

/* Takes the next job. False: there is none. */
static bool pool_next(struct lli_pool *pool, struct pool_job *job)
{
    const uint64_t begun = atomic_load_explicit(&pool->begun, memory_order_relaxed);

    /* Acquire: the job that the caller wrote is visible. */
    if (begun == atomic_load_explicit(&pool->asked, memory_order_acquire))
        return false;
    *job = pool->jobs[begun % LLI_POOL_RETIRED];
    /* Release: the caller may write the place again, now that it was read. */
    atomic_store_explicit(&pool->begun, begun + 1, memory_order_release);
    return true;
}

/* Does the next job. False: there is none. */
static bool pool_work(struct lli_pool *pool)
{
    struct pool_job job;

    if (!pool_next(pool, &job))
        return false;
    if (job.retire) {
        pool->awaits = false;
        pool_remove(pool, &job);
        return true;
    }
    pool_serve(pool, &job);
    pool->awaits = job.replaces;
    pool->quiet_until = lli_clock_ns() + POOL_REST_NS;
    return true;
}

static void *pool_main(void *arg)
{
    struct lli_pool *pool = arg;
    struct pollfd wake = {.fd = pool->wake, .events = POLLIN};
    eventfd_t count;

    while (!atomic_load(&pool->stop)) {
        /* Jobs go before spare files, which are made in small steps for that reason. */
        if (pool_work(pool) || pool_fill(pool))
            continue;
        if (poll(&wake, 1, pool_idle_ms(pool)) > 0)
            (void)eventfd_read(pool->wake, &count);
        (void)pool_space(pool);
    }
    if (pool->filling >= 0)
        pool_fill_end(pool, ECANCELED);
    return NULL;
}

/* Starts the thread with all signals blocked: they are the application's. */
static int pool_start(struct lli_pool *pool)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&pool->thread, NULL, pool_main, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? LLM_OK
                      : lli_fail(&pool->log, LLM_ESYSTEM, "store: %s: no thread: %s; see 'ulimit -u'",
                                 pool->path, strerror(error));
}

/* ------------------------------------------------------------------------------------------ the directory */

/* Logs why an operation in the directory failed. */
static int pool_failed(struct lli_pool *pool, int error)
{
    const struct lli_log *log = &pool->log;

    switch (error) {
    case ENOENT:
        return lli_fail(log, LLM_ENOTFOUND, "store: %s: there is no such directory: run 'mkdir -p %s'",
                        pool->path, pool->path);
    case ENOTDIR:
        return lli_fail(log, LLM_ESYSTEM, "store: %s: is not a directory: name one", pool->path);
    case EROFS:
        return lli_fail(log, LLM_EACCESS,
                        "store: %s: the file system is read-only: 'mount -o remount,rw' it, or name another "
                        "directory",
                        pool->path);
    case EACCES:
    case EPERM:
        return lli_fail(log, LLM_EACCESS,
                        "store: %s: must not be written by user %u: 'chmod u+rwx' it, or name another "
                        "directory",
                        pool->path, (unsigned)geteuid());
    case ENOSPC:
    case EDQUOT:
        return lli_fail(log, LLM_ESYSTEM, "store: %s: %s: see 'df -hi %s' and 'quota'", pool->path,
                        strerror(error), pool->path);
    default:
        return lli_fail(log, LLM_ESYSTEM, "store: %s: %s", pool->path, strerror(error));
    }
}

static int pool_directory(struct lli_pool *pool)
{
    struct stat directory;

    pool->directory = open(pool->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pool->directory < 0 || fstat(pool->directory, &directory) != 0)
        return pool_failed(pool, errno);
    if (geteuid() != 0 && directory.st_uid != geteuid())
        return lli_fail(&pool->log, LLM_EACCESS,
                        "store: %s: is a directory of user %u: run as that user, or name a directory of "
                        "user %u",
                        pool->path, (unsigned)directory.st_uid, (unsigned)geteuid());
    return LLM_OK;
}

/* Returns the process that has written its number to the lock; 0: none. */
static pid_t pool_owner(const struct lli_pool *pool)
{
    char text[24] = "";

    return pread(pool->lock, text, sizeof text - 1, 0) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* True if that process is not there any more. */
static bool pool_is_gone(pid_t owner)
{
    return owner > 0 && kill(owner, 0) != 0 && errno == ESRCH;
}

/* Logs which process has the lock. */
static int pool_locked(struct lli_pool *pool)
{
    const pid_t owner = pool_owner(pool);

    if (pool_is_gone(owner))
        return lli_fail(
            &pool->log, LLM_ESTATE,
            "store: %s: process %ld has ended, and its writes to this directory have not: the disk "
            "is slow or hangs, try again when it has recovered",
            pool->path, (long)owner);
    return lli_fail(&pool->log, LLM_ESTATE,
                    "store: %s: the store of process %ld has this directory: stop it, or name another "
                    "directory",
                    pool->path, (long)owner);
}

/*
 * Locks the directory. The lock is of the open file, so it excludes a second store of this process as well, and
 * ends with the process and its writes. Those that io_uring has under way when a process is killed go on without it;
 * the ring has the lock (lli_pool_lock()) until they have ended. If they could reach the disk after the next store has
 * read it, the header of a segment might appear in the middle of what that store writes.
 */
static int pool_take_lock(struct lli_pool *pool)
{
    const lli_ns begun = lli_clock_ns();
    char text[24];
    int size;

    pool->lock = openat(pool->directory, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (pool->lock < 0)
        return pool_failed(pool, errno);
    while (flock(pool->lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return pool_failed(pool, errno);
        if (lli_clock_ns() - begun > (pool_is_gone(pool_owner(pool)) ? POOL_LOCK_GONE_NS : POOL_LOCK_NS))
            return pool_locked(pool);
        (void)usleep(POOL_LOCK_TRY_US);
    }
    /* Of one width, so that it needs no truncation, and no new block on a full disk. */
    size = snprintf(text, sizeof text, "%-10ld\n", (long)getpid());
    if (pwrite(pool->lock, text, (size_t)size, 0) != size)
        return pool_failed(pool, errno);
    return LLM_OK;
}

/* Finds out whether the file system has O_DIRECT, by the file of the lock: a full disk has room for no other. */
static int pool_probe(struct lli_pool *pool)
{
    const int fd = openat(pool->directory, "lock", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_DIRECT);

    if (fd < 0 && errno != EINVAL)
        return pool_failed(pool, errno);
    pool->direct = fd >= 0 && pread(fd, pool->zeros, POOL_ALIGN, 0) >= 0;
    memset(pool->zeros, 0, POOL_ALIGN);
    if (fd >= 0)
        close(fd);
    if (!pool->direct)
        lli_log(&pool->log, LLM_LEVEL_INFO,
                "store: %s: the file system has no O_DIRECT: writes go through the page cache, and take more "
                "processor time",
                pool->path);
    return LLM_OK;
}

/* Counts a file of spare/, or removes it: one that was not completed, has another size, or is one too many. */
static void pool_find(struct lli_pool *pool, const char *name)
{
    const unsigned spares = atomic_load(&pool->spares);
    char again[POOL_NAME];
    struct stat file;
    uint64_t number;
    char *end;

    errno = 0;
    number = strtoull(name, &end, 10);
    pool_spare_name(again, number, "segment");
    if (strcmp(name, again) == 0 && number < UINT64_MAX / 2 && spares < pool->config.spares &&
        fstatat(pool->spare, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode) &&
        (uint64_t)file.st_size == pool->config.segment_bytes) {
        pool->stock[spares] = (struct pool_spare){number, true};
        atomic_store(&pool->spares, spares + 1);
        pool->number_next = lli_max(pool->number_next, number + 1);
    } else {
        (void)unlinkat(pool->spare, name, 0);
    }
}

static int pool_spares(struct lli_pool *pool)
{
    const struct dirent *entry;
    DIR *files;
    int fd;

    if (mkdirat(pool->directory, "spare", 0777) != 0 && errno != EEXIST)
        return pool_failed(pool, errno);
    pool->spare = openat(pool->directory, "spare", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (pool->spare < 0)
        return pool_failed(pool, errno);
    fd = openat(pool->spare, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    files = fd < 0 ? NULL : fdopendir(fd);
    if (files == NULL) {
        const int error = errno;

        if (fd >= 0)
            close(fd);
        return pool_failed(pool, error);
    }
    while ((entry = readdir(files)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            pool_find(pool, entry->d_name);
    closedir(files);
    return fsync(pool->spare) == 0 && fsync(pool->directory) == 0 ? LLM_OK : pool_failed(pool, errno);
}

/* ---------------------------------------------------------------------------------------- open and close */

static int pool_check(const struct lli_pool_config *config, const struct lli_log *log)
{
    if (strlen(config->directory) >= sizeof((struct lli_pool *)NULL)->path)
        return lli_fail(log, LLM_EOPTION,
                        "store: the name of the directory has %zu bytes: at most %zu are possible; change to "
                        "a directory above it and name the rest",
                        strlen(config->directory), sizeof((struct lli_pool *)NULL)->path - 1);
    if (config->segment_bytes < POOL_ALIGN || config->segment_bytes % POOL_ALIGN != 0 ||
        config->segment_bytes > INT64_MAX)
        return lli_fail(log, LLM_EOPTION,
                        "store: a segment of %" PRIu64 " bytes: must be a multiple of %d, at least that",
                        config->segment_bytes, POOL_ALIGN);
    if (config->spares > LLI_POOL_SPARES_MAX)
        return lli_fail(log, LLM_EOPTION, "store: %" PRIu32 " spare files: must be at most %d",
                        config->spares, LLI_POOL_SPARES_MAX);
    if (lli_memory_file_limit(config->segment_bytes) != 0)
        return lli_fail(log, LLM_ELIMIT,
                        "store: a segment of %" PRIu64 " bytes: this process must not write files of this "
                        "size: raise RLIMIT_FSIZE, 'ulimit -f', or choose a smaller segment",
                        config->segment_bytes);
    return LLM_OK;
}

static void pool_fini(struct lli_pool *pool)
{
    const int descriptors[] = {pool->wake, pool->ready, pool->spare, pool->directory, pool->lock};

    /* The lock last. It ends here, not by LOCK_UN, which in a forked process would end the lock of its parent. */
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    free(pool->zeros);
    free(pool);
}

static int pool_init(struct lli_pool *pool)
{
    int error = LLM_OK;

    pool->zeros = aligned_alloc(POOL_ALIGN, POOL_FILL);
    if (pool->zeros == NULL)
        return lli_fail(&pool->log, LLM_ENOMEM, "store: no memory for %d bytes", POOL_FILL);
    memset(pool->zeros, 0, POOL_FILL);
    pool->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pool->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->wake < 0 || pool->ready < 0)
        return lli_fail(&pool->log, LLM_ESYSTEM, "store: no eventfd: %s; see 'ulimit -n'", strerror(errno));
    if ((error = pool_directory(pool)) != LLM_OK || (error = pool_take_lock(pool)) != LLM_OK ||
        (error = pool_spares(pool)) != LLM_OK || (error = pool_probe(pool)) != LLM_OK)
        return error;
    (void)pool_space(pool);
    return pool_start(pool);
}

int lli_pool_open(const struct lli_pool_config *config, const struct lli_log *log, struct lli_pool **pool)
{
    struct lli_pool *opened;
    int error = pool_check(config, log);

    if (error != LLM_OK)
        return error;
    opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return lli_fail(log, LLM_ENOMEM, "store: no memory for %zu bytes", sizeof *opened);
    opened->log = *log;
    opened->config = *config;
    (void)snprintf(opened->path, sizeof opened->path, "%s", config->directory);
    opened->config.directory = opened->path;
    opened->owner = getpid();
    opened->wake = opened->ready = opened->spare = opened->directory = opened->lock = opened->filling = -1;
    error = pool_init(opened);
    if (error != LLM_OK) {
        pool_fini(opened);
        return error;
    }
    *pool = opened;
    return LLM_OK;
}

/* Does what is left once the thread has ended: nothing is left that no later run would find. */
static void pool_drain(struct lli_pool *pool)
{
    struct pool_job job;

    for (; pool->taken < atomic_load(&pool->ended); pool->taken++) {
        struct lli_pool_segment *segment = &pool->finished[pool->taken % LLI_POOL_REQUESTS];

        job = (struct pool_job){.session = segment->session, .ordinal = segment->ordinal, .reuse = true};
        if (segment->fd >= 0) {
            lli_pool_segment_close(segment);
            pool_remove(pool, &job);
        }
    }
    while (pool_next(pool, &job))
        if (job.retire)
            pool_remove(pool, &job);
}

void lli_pool_close(struct lli_pool **pool)
{
    struct lli_pool *closed = *pool;

    if (closed == NULL)
        return;
    *pool = NULL;
    for (uint64_t at = closed->taken; closed->owner != getpid() && at < atomic_load(&closed->ended); at++)
        lli_pool_segment_close(&closed->finished[at % LLI_POOL_REQUESTS]);
    if (closed->owner == getpid()) {
        atomic_store(&closed->stop, true);
        (void)eventfd_write(closed->wake, 1);
        pthread_join(closed->thread, NULL);
        pool_drain(closed);
    }
    pool_fini(closed);
}

/* -------------------------------------------------------------------------------------------- the caller */

static bool pool_ask(struct lli_pool *pool, const struct pool_job *job)
{
    const uint64_t asked = atomic_load_explicit(&pool->asked, memory_order_relaxed);

    /* Acquire: the thread has read the place in the ring. */
    if (asked - atomic_load_explicit(&pool->begun, memory_order_acquire) == LLI_POOL_RETIRED)
        return false;
    pool->jobs[asked % LLI_POOL_RETIRED] = *job;
    atomic_store_explicit(&pool->asked, asked + 1, memory_order_release);
    (void)eventfd_write(pool->wake, 1);
    return true;
}

bool lli_pool_request(struct lli_pool *pool, uint64_t session, uint64_t ordinal, bool replaces)
{
    const struct pool_job job = {.session = session, .ordinal = ordinal, .replaces = replaces};

    if (pool->requested - pool->taken == LLI_POOL_REQUESTS || !pool_ask(pool, &job))
        return false;
    pool->requested++;
    return true;
}

bool lli_pool_retire(struct lli_pool *pool, uint64_t session, uint64_t ordinal, bool reuse)
{
    const struct pool_job job = {.session = session, .ordinal = ordinal, .retire = true, .reuse = reuse};

    return pool_ask(pool, &job);
}

/* Logs a change: the application's function must not be called by the thread. */
static void pool_report(struct lli_pool *pool)
{
    const int trouble = atomic_load_explicit(&pool->trouble, memory_order_relaxed);

    if (trouble == pool->trouble_logged)
        return;
    pool->trouble_logged = trouble;
    if (trouble == 0)
        lli_log(&pool->log, LLM_LEVEL_INFO, "store: %s: spare files can be made again", pool->path);
    else
        lli_log(&pool->log, LLM_LEVEL_WARNING,
                "store: %s: no spare file of %" PRIu64 " bytes: %s, with %" PRIu64
                " bytes free besides the reserve of %" PRIu64
                ": the next segments are taken from this space, or fail",
                pool->path, pool->config.segment_bytes, strerror(trouble), lli_pool_free_bytes(pool),
                pool->config.reserve_bytes);
}

/* Takes one off the count of the eventfd. */
static void pool_uncount(const struct lli_pool *pool)
{
    eventfd_t count = 0;

    if (eventfd_read(pool->ready, &count) == 0 && count > 1)
        (void)eventfd_write(pool->ready, count - 1);
}

bool lli_pool_take(struct lli_pool *pool, struct lli_pool_segment *segment)
{
    pool_report(pool);
    /* Acquire: the segment that the thread wrote is visible. */
    if (pool->taken == atomic_load_explicit(&pool->ended, memory_order_acquire)) {
        if (pool->taken < pool->requested)
            lli_yield(&pool->yield);
        return false;
    }
    lli_yield_end(&pool->yield);
    *segment = pool->finished[pool->taken++ % LLI_POOL_REQUESTS];
    pool_uncount(pool);
    return true;
}

void lli_pool_recorded(struct lli_pool *pool, uint64_t bytes, bool behind)
{
    const lli_ns now = lli_clock_ns();

    atomic_store_explicit(&pool->recorded,
                          atomic_load_explicit(&pool->recorded, memory_order_relaxed) + bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->recorded_at, now, memory_order_relaxed);
    if (behind)
        atomic_store_explicit(&pool->behind_at, now, memory_order_relaxed);
}

void lli_pool_segment_close(struct lli_pool_segment *segment)
{
    if (segment->fd >= 0)
        close(segment->fd);
    if (segment->index_fd >= 0)
        close(segment->index_fd);
    segment->fd = segment->index_fd = -1;
}

int lli_pool_fd(const struct lli_pool *pool)
{
    return pool->ready;
}

int lli_pool_lock(const struct lli_pool *pool)
{
    return pool->lock;
}

uint64_t lli_pool_free_bytes(const struct lli_pool *pool)
{
    return atomic_load_explicit(&pool->free_bytes, memory_order_relaxed);
}

uint32_t lli_pool_spares(const struct lli_pool *pool)
{
    return atomic_load_explicit(&pool->spares, memory_order_relaxed);
}
