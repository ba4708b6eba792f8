/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes by io_uring.
 *
 * The ring has COOP_TASKRUN with TASKRUN_FLAG, and not SINGLE_ISSUER with DEFER_TASKRUN: the latter ties a ring
 * to one thread, and every call of another one, such as a loop thread that starts later, fails with EEXIST. It
 * gains nothing here: durable writes of 4 KiB took 96 us (median of 150, ext4 on a virtual disk, polled) with
 * the flags in use, and 98 with DEFER_TASKRUN. COOP_TASKRUN spares
 * the interrupt by which the kernel would have the submitting thread post a completion: it does that on its
 * next system call, or when a flag in the ring says so.
 *
 * The descriptor of the ring itself polls readable while it has completions; an eventfd would have to be read
 * after each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "store/disk_internal.h"
#include "system/clock.h"

#ifndef RWF_DSYNC
#define RWF_DSYNC 2
#endif

/* A write between lli_disk_write() and its completion. */
struct uring_write {
    uint64_t tag;
    lli_ns begun_at;
    uint32_t size;
};

struct uring {
    struct io_uring ring;
    struct uring_write writes[LLI_DISK_WRITES];
    uint8_t idle[LLI_DISK_WRITES]; /* numbers of unused writes */
    int idles;
    uint8_t queued[LLI_DISK_WRITES]; /* numbers of those not submitted */
    int queueds;
    uint32_t files;  /* registered files: the first ones */
    bool submitting; /* the kernel has not taken all that was submitted */
};

static int uring_buffer_add(struct lli_disk *disk, int buffer)
{
    struct uring *uring = disk->engine;
    const struct iovec memory = {disk->buffers[buffer].base, disk->buffers[buffer].size};
    const __u64 tag = 0;
    const int done = io_uring_register_buffers_update_tag(&uring->ring, (unsigned)buffer, &memory, &tag, 1);

    disk->buffers[buffer].registered = done == 1;
    return done < 0 ? -done : 0;
}

static void uring_buffer_remove(struct lli_disk *disk, int buffer)
{
    struct uring *uring = disk->engine;
    const struct iovec none = {NULL, 0};
    const __u64 tag = 0;

    if (disk->buffers[buffer].registered)
        (void)io_uring_register_buffers_update_tag(&uring->ring, (unsigned)buffer, &none, &tag, 1);
}

static void uring_file_add(struct lli_disk *disk, int file)
{
    struct uring *uring = disk->engine;

    disk->files[file].registered =
        (uint32_t)file < uring->files &&
        io_uring_register_files_update(&uring->ring, (unsigned)file, &disk->files[file].fd, 1) == 1;
}

static void uring_file_remove(struct lli_disk *disk, int file)
{
    struct uring *uring = disk->engine;
    const int none = -1;

    if (disk->files[file].registered)
        (void)io_uring_register_files_update(&uring->ring, (unsigned)file, &none, 1);
}

static bool uring_write(struct lli_disk *disk, const struct lli_disk_write *write)
{
    const struct lli_disk_file *file = &disk->files[write->file];
    struct uring *uring = disk->engine;
    struct io_uring_sqe *entry;
    uint8_t number;

    if (uring->idles == 0)
        return false;
    entry = io_uring_get_sqe(&uring->ring);
    /* The queue is full if the kernel did not take what was submitted. */
    if (entry == NULL)
        return false;
    number = uring->idle[--uring->idles];
    uring->queued[uring->queueds++] = number;
    uring->writes[number] = (struct uring_write){.tag = write->tag, .size = write->size};
    if (disk->buffers[write->buffer].registered)
        io_uring_prep_write_fixed(entry, file->registered ? write->file : file->fd, write->bytes, write->size,
                                  write->offset, write->buffer);
    else
        io_uring_prep_write(entry, file->registered ? write->file : file->fd, write->bytes, write->size,
                            write->offset);
    if (file->registered)
        entry->flags |= IOSQE_FIXED_FILE;
    entry->rw_flags = disk->sync ? RWF_DSYNC : 0;
    io_uring_sqe_set_data64(entry, number);
    return true;
}

/* Has the kernel take all that is queued. */
static void uring_enter(struct uring *uring)
{
    const lli_ns now = lli_clock_ns();

    while (uring->queueds > 0)
        uring->writes[uring->queued[--uring->queueds]].begun_at = now;
    (void)io_uring_submit(&uring->ring);
    /* EAGAIN and EBUSY leave entries in the queue; the next call tries again. */
    uring->submitting = io_uring_sq_ready(&uring->ring) > 0;
}

static void uring_submit(struct lli_disk *disk)
{
    struct uring *uring = disk->engine;

    if (uring->queueds > 0)
        uring_enter(uring);
}

static int uring_completed(struct lli_disk *disk, struct lli_disk_completion *completions, int max)
{
    struct io_uring_cqe *entries[LLI_DISK_WRITES];
    struct uring *uring = disk->engine;
    unsigned count;
    lli_ns now;

    if (uring->submitting)
        uring_enter(uring);
    /* Enters the kernel only if the ring has the flag that completions wait to be posted. */
    count = io_uring_peek_batch_cqe(&uring->ring, entries,
                                    (unsigned)(max < LLI_DISK_WRITES ? max : LLI_DISK_WRITES));
    if (count == 0)
        return 0;
    now = lli_clock_ns();
    for (unsigned i = 0; i < count; i++) {
        const uint8_t number = (uint8_t)io_uring_cqe_get_data64(entries[i]);
        const struct uring_write *write = &uring->writes[number];

        completions[i] = (struct lli_disk_completion){
            write->tag, lli_disk_error(entries[i]->res, write->size), now - write->begun_at};
        uring->idle[uring->idles++] = number;
    }
    io_uring_cq_advance(&uring->ring, count);
    return (int)count;
}

static int uring_fd(const struct lli_disk *disk)
{
    const struct uring *uring = disk->engine;

    return uring->ring.ring_fd;
}

static void uring_close(struct lli_disk *disk, bool forked)
{
    struct lli_disk_completion completions[LLI_DISK_WRITES];
    struct uring *uring = disk->engine;

    if (!forked) {
        uring_submit(disk);
        while (uring->idles < LLI_DISK_WRITES) {
            (void)io_uring_submit_and_wait(&uring->ring, 1);
            (void)uring_completed(disk, completions, LLI_DISK_WRITES);
        }
        /* The kernel would release them some time after the ring: the lock of a directory, for one. */
        (void)io_uring_unregister_files(&uring->ring);
    }
    io_uring_queue_exit(&uring->ring);
    free(uring);
}

static const struct lli_disk_ops uring_ops = {
    .name = "uring",
    .buffer_add = uring_buffer_add,
    .buffer_remove = uring_buffer_remove,
    .file_add = uring_file_add,
    .file_remove = uring_file_remove,
    .write = uring_write,
    .submit = uring_submit,
    .completed = uring_completed,
    .fd = uring_fd,
    .close = uring_close,
};

/* Registers empty tables, to be filled one by one. A process may not register more files than it may open. */
static int uring_tables(struct uring *uring)
{
    struct rlimit limit;
    int error;

    uring->files = LLI_DISK_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < uring->files)
        uring->files = (uint32_t)limit.rlim_cur;
    error = io_uring_register_files_sparse(&uring->ring, uring->files);
    return error != 0 ? error : io_uring_register_buffers_sparse(&uring->ring, LLI_DISK_BUFFERS);
}

int lli_disk_uring_open(struct lli_disk *disk)
{
    struct io_uring_params parameters = {.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
                                                  IORING_SETUP_SUBMIT_ALL};
    struct uring *uring = calloc(1, sizeof *uring);
    int error;

    if (uring == NULL)
        return ENOMEM;
    error = io_uring_queue_init_params(LLI_DISK_WRITES, &uring->ring, &parameters);
    if (error != 0) {
        free(uring);
        return -error;
    }
    error = io_uring_ring_dontfork(&uring->ring);
    if (error == 0)
        error = uring_tables(uring);
    if (error != 0) {
        io_uring_queue_exit(&uring->ring);
        free(uring);
        return -error;
    }
    for (int i = 0; i < LLI_DISK_WRITES; i++)
        uring->idle[uring->idles++] = (uint8_t)i;
    disk->engine = uring;
    disk->ops = &uring_ops;
    return 0;
}
