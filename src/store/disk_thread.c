/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes by a thread, in order. The queue is a ring with indices that only grow: `submitted` is written
 * by the caller, `done` by the thread; both work without a lock, so the thread never makes the caller wait.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "store/disk_internal.h"
#include "system/clock.h"

#ifndef RWF_DSYNC
#define RWF_DSYNC 2
#endif

struct thread_write {
    int fd;
    uint32_t size;
    const uint8_t *bytes;
    uint64_t offset;
    lli_ns begun_at;
    struct lli_disk_completion completion;
};

struct thread {
    struct thread_write writes[LLI_DISK_WRITES];
    uint64_t queued; /* writes that were queued, of the caller */
    uint64_t taken;  /* completions that were taken, of the caller */
    atomic_uint_fast64_t submitted;
    atomic_uint_fast64_t done;
    atomic_bool asleep; /* the thread sleeps, or is about to */
    atomic_bool stop;
    sem_t work;
    int fd; /* eventfd, which counts completions that were not taken */
    int flags;
    pthread_t thread;
};

/* ------------------------------------------------------------------------------------------- the thread */

static void thread_do(struct thread *thread, struct thread_write *write)
{
    const struct iovec bytes = {(void *)(uintptr_t)write->bytes, write->size};
    ssize_t result = pwritev2(write->fd, &bytes, 1, (off_t)write->offset, thread->flags);

    write->completion.error = lli_disk_error(result < 0 ? -errno : result, write->size);
    write->completion.took = lli_clock_ns() - write->begun_at;
    /*
     * The count rises before the completion can be taken, so that it is never less than the number of those: a
     * caller that takes them leaves the rest of the count, and misses none.
     */
    (void)eventfd_write(thread->fd, 1);
}

static void *thread_main(void *arg)
{
    struct thread *thread = arg;
    uint64_t done = 0;

    for (;;) {
        /* Read first: what is submitted before the stop is written. */
        const bool stop = atomic_load(&thread->stop);

        /* Acquire: the writes that the caller submitted are visible. */
        while (done < atomic_load_explicit(&thread->submitted, memory_order_acquire)) {
            thread_do(thread, &thread->writes[done % LLI_DISK_WRITES]);
            /* Release: the completion is visible. */
            atomic_store_explicit(&thread->done, ++done, memory_order_release);
        }
        if (stop)
            return NULL;
        /* Sequentially consistent, as in thread_wake(): one of the two sees what the other has written. */
        atomic_store(&thread->asleep, true);
        if (done == atomic_load(&thread->submitted) && !atomic_load(&thread->stop))
            while (sem_wait(&thread->work) != 0)
                ;
        atomic_store(&thread->asleep, false);
    }
}

static void thread_wake(struct thread *thread)
{
    if (atomic_exchange(&thread->asleep, false))
        sem_post(&thread->work);
}

/* -------------------------------------------------------------------------------------------- the caller */

static bool thread_write(struct lli_disk *disk, const struct lli_disk_write *write)
{
    struct thread *thread = disk->engine;

    if (thread->queued - thread->taken == LLI_DISK_WRITES)
        return false;
    thread->writes[thread->queued++ % LLI_DISK_WRITES] = (struct thread_write){
        .fd = disk->files[write->file].fd,
        .size = write->size,
        .bytes = write->bytes,
        .offset = write->offset,
        .completion = {.tag = write->tag},
    };
    return true;
}

static void thread_submit(struct lli_disk *disk)
{
    struct thread *thread = disk->engine;
    const uint64_t submitted = atomic_load_explicit(&thread->submitted, memory_order_relaxed);
    lli_ns now;

    if (thread->queued == submitted)
        return;
    now = lli_clock_ns();
    for (uint64_t at = submitted; at < thread->queued; at++)
        thread->writes[at % LLI_DISK_WRITES].begun_at = now;
    atomic_store(&thread->submitted, thread->queued);
    thread_wake(thread);
}

/* Takes n off the count of the eventfd. */
static void thread_uncount(const struct thread *thread, uint64_t n)
{
    eventfd_t count = 0;

    if (eventfd_read(thread->fd, &count) == 0 && count > n)
        (void)eventfd_write(thread->fd, count - n);
}

static int thread_completed(struct lli_disk *disk, struct lli_disk_completion *completions, int max)
{
    struct thread *thread = disk->engine;
    const uint64_t done = atomic_load_explicit(&thread->done, memory_order_acquire);
    int count = 0;

    while (count < max && thread->taken < done)
        completions[count++] = thread->writes[thread->taken++ % LLI_DISK_WRITES].completion;
    if (count > 0)
        thread_uncount(thread, (uint64_t)count);
    return count;
}

static int thread_fd(const struct lli_disk *disk)
{
    const struct thread *thread = disk->engine;

    return thread->fd;
}

/* -------------------------------------------------------------------------------------------- open, close */

/* A forked process has no such thread. */
static void thread_close(struct lli_disk *disk, bool forked)
{
    struct thread *thread = disk->engine;

    if (!forked) {
        thread_submit(disk);
        atomic_store(&thread->stop, true);
        thread_wake(thread);
        pthread_join(thread->thread, NULL);
        sem_destroy(&thread->work);
    }
    close(thread->fd);
    free(thread);
}

static const struct lli_disk_ops thread_ops = {
    .name = "thread",
    .write = thread_write,
    .submit = thread_submit,
    .completed = thread_completed,
    .fd = thread_fd,
    .close = thread_close,
};

/* Starts the thread with all signals blocked: they are the application's. */
static int thread_start(struct thread *thread)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread->thread, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int lli_disk_thread_open(struct lli_disk *disk)
{
    struct thread *thread = calloc(1, sizeof *thread);
    int error;

    if (thread == NULL)
        return ENOMEM;
    thread->flags = disk->sync ? RWF_DSYNC : 0;
    thread->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    error = thread->fd < 0 ? errno : 0;
    sem_init(&thread->work, 0, 0);
    if (error == 0)
        error = thread_start(thread);
    if (error != 0) {
        if (thread->fd >= 0)
            close(thread->fd);
        free(thread);
        return error;
    }
    disk->engine = thread;
    disk->ops = &thread_ops;
    return 0;
}
