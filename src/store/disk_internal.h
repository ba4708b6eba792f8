/* SPDX-License-Identifier: Apache-2.0 */
/* The two engines, as disk.c uses them. */
#ifndef LLI_DISK_INTERNAL_H
#define LLI_DISK_INTERNAL_H

#include <errno.h>
#include <sys/types.h>

#include "store/disk.h"
#include "system/yield.h"

struct lli_disk_file {
    int fd; /* -1: the place is free */
    bool registered;
};

struct lli_disk_buffer {
    void *base; /* NULL: the place is free */
    size_t size;
    bool registered;
};

/* Operations of an engine. Those that are NULL have nothing to do. */
struct lli_disk_ops {
    const char *name;
    int (*buffer_add)(struct lli_disk *disk, int buffer); /* 0, or errno: it cannot be pinned */
    void (*buffer_remove)(struct lli_disk *disk, int buffer);
    void (*file_add)(struct lli_disk *disk, int file);
    void (*file_remove)(struct lli_disk *disk, int file);
    bool (*write)(struct lli_disk *disk, const struct lli_disk_write *write);
    void (*submit)(struct lli_disk *disk);
    int (*completed)(struct lli_disk *disk, struct lli_disk_completion *completions, int max);
    int (*fd)(const struct lli_disk *disk);
    void (*close)(struct lli_disk *disk, bool forked); /* forked: waits for nothing */
};

struct lli_disk {
    const struct lli_disk_ops *ops;
    void *engine; /* state of the engine */
    struct lli_log log;
    bool sync;
    bool pinning_failed; /* logged once */
    pid_t owner;
    uint32_t pending;       /* writes that were accepted, and whose completions were not taken */
    struct lli_yield yield; /* of the caller, while none of these ends */
    struct lli_disk_file files[LLI_DISK_FILES];
    struct lli_disk_buffer buffers[LLI_DISK_BUFFERS];
};

/* Opens an engine. 0, or the errno why there is none. */
int lli_disk_uring_open(struct lli_disk *disk);
int lli_disk_thread_open(struct lli_disk *disk);

/* Returns the error of a write of `size` bytes with this result: bytes written, or a negative errno. */
static inline int lli_disk_error(int64_t result, uint32_t size)
{
    if (result < 0)
        return (int)-result;
    return result == (int64_t)size ? 0 : EIO;
}

#endif
