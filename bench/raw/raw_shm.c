/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare shared memory with minimal work: a ring of slots, each with the number of its datagram, for one writer
 * and its readers. The writer never overtakes a reader; readers publish their positions now and then.
 */
#define _GNU_SOURCE
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RAW_SHM_SLOTS 256 /* powers of two */
#define RAW_SHM_SAY 32
#define RAW_SHM_LINE 64
#define RAW_SHM_READERS 64

struct raw_slot {
    _Atomic uint64_t number; /* number of the datagram plus 1, once it is complete */
    uint32_t size;
    char data[];
};

struct raw_reader {
    _Alignas(RAW_SHM_LINE) _Atomic uint64_t taken;
};

struct raw_ring {
    struct raw_reader readers[RAW_SHM_READERS];
    _Alignas(RAW_SHM_LINE) char slots[];
};

struct raw_shm_end {
    struct raw_end end;
    struct raw_ring *ring;
    size_t stride;
    size_t bytes;
    uint64_t next;
    uint64_t taken; /* datagrams read: the writer's copy, or the value that this reader published */
    unsigned reader, readers;
    char path[PATH_MAX];
};

static struct raw_shm_end *raw_shm_of(struct raw_end *end)
{
    return (struct raw_shm_end *)end;
}

static struct raw_slot *raw_shm_slot(const struct raw_shm_end *shm)
{
    return (struct raw_slot *)(void *)(shm->ring->slots + (shm->next & (RAW_SHM_SLOTS - 1)) * shm->stride);
}

static void raw_shm_close(struct raw_end *end)
{
    struct raw_shm_end *shm = raw_shm_of(end);

    if (shm->ring)
        munmap(shm->ring, shm->bytes);
    if (shm->path[0] != '\0')
        unlink(shm->path);
}

/* Opens the ring's file: a regular file of this user with a link count of 1. -1 with errno set. */
static int raw_shm_file(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat file;

    if (fd < 0 ||
        (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() && file.st_nlink == 1))
        return fd;
    close(fd);
    errno = EEXIST;
    return -1;
}

static int raw_shm_open(struct raw_end *end, const struct raw_group *group, bool to_send)
{
    struct raw_shm_end *shm = raw_shm_of(end);
    void *base = MAP_FAILED;
    int fd;

    (void)to_send;
    if (group->readers > RAW_SHM_READERS || group->reader >= group->readers) {
        errno = EINVAL;
        return -1;
    }
    end->datagram_bytes = group->mtu;
    shm->reader = group->reader;
    shm->readers = group->readers;
    shm->stride = (sizeof(struct raw_slot) + group->mtu + RAW_SHM_LINE - 1) / RAW_SHM_LINE * RAW_SHM_LINE;
    shm->bytes = sizeof(struct raw_ring) + RAW_SHM_SLOTS * shm->stride;
    snprintf(shm->path, sizeof shm->path, "%s/llm-raw-%s", group->directory, group->name);
    /* The first end creates the ring. */
    fd = raw_shm_file(shm->path);
    if (fd < 0)
        shm->path[0] = '\0';
    if (fd >= 0 && ftruncate(fd, (off_t)shm->bytes) == 0)
        base = mmap(NULL, shm->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (fd >= 0)
        close(fd);
    shm->ring = base != MAP_FAILED ? base : NULL;
    return shm->ring ? 0 : -1;
}

static bool raw_shm_has_room(struct raw_shm_end *shm)
{
    if (shm->next - shm->taken < RAW_SHM_SLOTS)
        return true;
    shm->taken = shm->next;
    for (unsigned i = 0; i < shm->readers; i++) {
        const uint64_t taken = atomic_load_explicit(&shm->ring->readers[i].taken, memory_order_acquire);

        shm->taken = taken < shm->taken ? taken : shm->taken;
    }
    return shm->next - shm->taken < RAW_SHM_SLOTS;
}

static int raw_shm_send(struct raw_end *end, const void *data, size_t size)
{
    struct raw_shm_end *shm = raw_shm_of(end);
    struct raw_slot *slot = raw_shm_slot(shm);

    if (size > end->datagram_bytes) {
        errno = EMSGSIZE;
        return -1;
    }
    if (!raw_shm_has_room(shm))
        return 1;
    slot->size = (uint32_t)size;
    memcpy(slot->data, data, size);
    atomic_store_explicit(&slot->number, ++shm->next, memory_order_release);
    return 0;
}

/* The previous datagram may be overwritten from now on. */
static const void *raw_shm_receive(struct raw_end *end, size_t *size)
{
    struct raw_shm_end *shm = raw_shm_of(end);
    struct raw_slot *slot = raw_shm_slot(shm);

    if (shm->next - shm->taken >= RAW_SHM_SAY) {
        shm->taken = shm->next;
        atomic_store_explicit(&shm->ring->readers[shm->reader].taken, shm->next, memory_order_release);
    }
    if (atomic_load_explicit(&slot->number, memory_order_acquire) != shm->next + 1)
        return NULL;
    shm->next++;
    *size = slot->size;
    return slot->data;
}

const struct raw_scheme raw_shm = {
    .name = "shm",
    .bytes = sizeof(struct raw_shm_end),
    .named = true,
    .open = raw_shm_open,
    .close = raw_shm_close,
    .send = raw_shm_send,
    .receive = raw_shm_receive,
};
