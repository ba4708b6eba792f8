/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of an engine; files and buffers, which both have. */
#define _GNU_SOURCE
#include "store/disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/disk_internal.h"

/* ----------------------------------------------------------------------------------------- open and close */

#ifndef LLI_WITH_URING
int lli_disk_uring_open(struct lli_disk *disk)
{
    (void)disk;
    return ENOTSUP;
}
#endif

static const char *disk_why(int error)
{
    switch (error) {
    case ENOTSUP:
        return "this library was built without liburing";
    case ENOSYS:
        return "the kernel has no io_uring";
    case EPERM:
    case EACCES:
        return "io_uring is forbidden: a container's seccomp profile, or sysctl kernel.io_uring_disabled";
    case EINVAL:
        return "the kernel's io_uring is too old: Linux 5.19 is needed";
    case ENOMEM:
        return "io_uring gets no memory: raise RLIMIT_MEMLOCK, 'ulimit -l'";
    default:
        return strerror(error);
    }
}

static int disk_start(struct lli_disk *disk, enum lli_disk_engine engine)
{
    int error = engine == LLI_DISK_THREAD ? 0 : lli_disk_uring_open(disk);

    if (engine != LLI_DISK_THREAD && error == 0) {
        lli_log(&disk->log, LLM_LEVEL_INFO, "store: engine uring: writes by io_uring%s",
                disk->sync ? ", durable each" : "");
        return LLM_OK;
    }
    if (engine == LLI_DISK_URING)
        return lli_fail(&disk->log, LLM_ESYSTEM, "store: engine uring: %s; or choose the engine thread",
                        disk_why(error));
    if (engine == LLI_DISK_AUTO)
        lli_log(&disk->log, LLM_LEVEL_INFO, "store: engine thread: writes by a thread%s; not uring: %s",
                disk->sync ? ", durable each" : "", disk_why(error));
    else
        lli_log(&disk->log, LLM_LEVEL_INFO, "store: engine thread: writes by a thread%s, as configured",
                disk->sync ? ", durable each" : "");
    error = lli_disk_thread_open(disk);
    return error == 0
               ? LLM_OK
               : lli_fail(&disk->log, error == ENOMEM ? LLM_ENOMEM : LLM_ESYSTEM,
                          "store: engine thread: %s; see 'ulimit -u' and 'ulimit -n'", strerror(error));
}

int lli_disk_open(enum lli_disk_engine engine, bool sync, const struct lli_log *log, struct lli_disk **disk)
{
    struct lli_disk *opened = calloc(1, sizeof *opened);
    int error;

    if (opened == NULL)
        return lli_fail(log, LLM_ENOMEM, "store: no memory for %zu bytes", sizeof *opened);
    opened->log = *log;
    opened->sync = sync;
    opened->owner = getpid();
    for (int i = 0; i < LLI_DISK_FILES; i++)
        opened->files[i].fd = -1;
    error = disk_start(opened, engine);
    if (error != LLM_OK) {
        free(opened);
        return error;
    }
    *disk = opened;
    return LLM_OK;
}

void lli_disk_close(struct lli_disk **disk)
{
    struct lli_disk *closed = *disk;

    if (closed == NULL)
        return;
    closed->ops->close(closed, closed->owner != getpid());
    free(closed);
    *disk = NULL;
}

const char *lli_disk_engine_name(const struct lli_disk *disk)
{
    return disk->ops->name;
}

/* ------------------------------------------------------------------------------------- buffers and files */

int lli_disk_buffer_add(struct lli_disk *disk, void *base, size_t size)
{
    int buffer = 0, error = 0;

    while (buffer < LLI_DISK_BUFFERS && disk->buffers[buffer].base != NULL)
        buffer++;
    if (buffer == LLI_DISK_BUFFERS)
        return lli_fail(&disk->log, LLM_ELIMIT, "store: more than %d buffers: lower sessions_max",
                        LLI_DISK_BUFFERS);
    disk->buffers[buffer] = (struct lli_disk_buffer){.base = base, .size = size};
    if (disk->ops->buffer_add != NULL)
        error = disk->ops->buffer_add(disk, buffer);
    if (error != 0 && !disk->pinning_failed) {
        disk->pinning_failed = true;
        lli_log(&disk->log, LLM_LEVEL_INFO,
                "store: %zu bytes cannot be pinned (%s), so that each write takes a little longer: raise "
                "RLIMIT_MEMLOCK, 'ulimit -l'",
                size, strerror(error));
    }
    return buffer;
}

void lli_disk_buffer_remove(struct lli_disk *disk, int buffer)
{
    assert(buffer >= 0 && buffer < LLI_DISK_BUFFERS && disk->buffers[buffer].base != NULL);
    if (disk->ops->buffer_remove != NULL)
        disk->ops->buffer_remove(disk, buffer);
    disk->buffers[buffer] = (struct lli_disk_buffer){.base = NULL};
}

int lli_disk_file_add(struct lli_disk *disk, int fd)
{
    int file = 0;

    assert(fd >= 0);
    while (file < LLI_DISK_FILES && disk->files[file].fd >= 0)
        file++;
    if (file == LLI_DISK_FILES)
        return lli_fail(&disk->log, LLM_ELIMIT, "store: more than %d files: lower sessions_max",
                        LLI_DISK_FILES);
    disk->files[file] = (struct lli_disk_file){.fd = fd};
    if (disk->ops->file_add != NULL)
        disk->ops->file_add(disk, file);
    return file;
}

void lli_disk_file_remove(struct lli_disk *disk, int file)
{
    assert(file >= 0 && file < LLI_DISK_FILES && disk->files[file].fd >= 0);
    if (disk->ops->file_remove != NULL)
        disk->ops->file_remove(disk, file);
    disk->files[file] = (struct lli_disk_file){.fd = -1};
}

/* ------------------------------------------------------------------------------------------------ writes */

bool lli_disk_write(struct lli_disk *disk, const struct lli_disk_write *write)
{
    assert(write->file >= 0 && write->file < LLI_DISK_FILES && disk->files[write->file].fd >= 0);
    assert(write->buffer >= 0 && write->buffer < LLI_DISK_BUFFERS);
    assert((size_t)(write->bytes - (const uint8_t *)disk->buffers[write->buffer].base) + write->size <=
           disk->buffers[write->buffer].size);
    if (!disk->ops->write(disk, write))
        return false;
    disk->pending++;
    return true;
}

void lli_disk_submit(struct lli_disk *disk)
{
    disk->ops->submit(disk);
}

int lli_disk_completed(struct lli_disk *disk, struct lli_disk_completion *completions, int max)
{
    const int count = disk->ops->completed(disk, completions, max);

    disk->pending -= (uint32_t)count;
    /*
     * To the task that has to end the writes: the thread, or with io_uring a worker of the kernel, which flushes a disk
     * without forced unit access on the core of the submission.
     */
    if (count == 0 && disk->pending > 0)
        lli_yield(&disk->yield);
    else
        lli_yield_end(&disk->yield);
    return count;
}

int lli_disk_fd(const struct lli_disk *disk)
{
    return disk->ops->fd(disk);
}
