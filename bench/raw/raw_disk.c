/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare disk: writes of equal size to a file whose blocks were written before, durable each. directory=:
 * where the file is, which has no name; mib=: its size. Requests:
 *   write size= depth= rate= wait= duration=   Writes in ascending order, from the start again at the end of the file,
 *       with so many writes under way at a time, and so many a second at most (0: as many as there is time for); wait:
 *       until the next one is due spin or block. Answers with the rate and the time of a write.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../engine/control.h"

#ifndef RWF_DSYNC
#define RWF_DSYNC 2
#endif

#define DISK_SECOND_NS 1000000000u

enum { DISK_ALIGN = 4096, DISK_FILL = 1 << 20, DISK_DEPTH_MAX = 16 };

static struct {
    int file;
    bool direct;
    uint64_t bytes;
    uint64_t size; /* of a write */
    uint64_t begun_at;
    uint64_t until;
    uint64_t distance_ns;      /* from one write to the next; 0: none */
    bool sleeps;               /* until the next write is due */
    atomic_uint_fast64_t next; /* number of the next write */
} disk;

struct disk_writer {
    pthread_t thread;
    struct histogram times;
    uint8_t *data;
};

static void *disk_memory(size_t size)
{
    void *memory = aligned_alloc(DISK_ALIGN, size);

    if (memory == NULL)
        control_fail("disk", "no memory");
    /* Not zeros, which a disk may store as none. */
    return memset(memory, 0x5a, size);
}

/* Waits until a write is due, and returns the time. */
static uint64_t disk_await(uint64_t due_at)
{
    uint64_t now;

    while ((now = llm_clock()) < due_at) {
        const uint64_t left = due_at - now;

        if (disk.sleeps)
            (void)nanosleep(
                &(struct timespec){(time_t)(left / DISK_SECOND_NS), (long)(left % DISK_SECOND_NS)}, NULL);
    }
    return now;
}

static void *disk_write(void *arg)
{
    const uint64_t places = disk.bytes / disk.size;
    struct disk_writer *writer = arg;

    for (uint64_t now = disk.begun_at; now < disk.until;) {
        const struct iovec data = {writer->data, disk.size};
        const uint64_t number = atomic_fetch_add(&disk.next, 1);
        const uint64_t before = disk_await(disk.begun_at + number * disk.distance_ns);
        const uint64_t at = number % places * disk.size;

        if (pwritev2(disk.file, &data, 1, (off_t)at, RWF_DSYNC) != (ssize_t)disk.size)
            control_fail("disk", strerror(errno));
        now = llm_clock();
        histogram_add(&writer->times, now - before);
    }
    return NULL;
}

static void disk_serve(const struct control *request)
{
    const uint64_t depth = control_number(request, "depth", 1), rate = control_number(request, "rate", 0);
    struct disk_writer writers[DISK_DEPTH_MAX] = {0};
    uint64_t writes = 0;

    disk.size = control_number(request, "size", DISK_ALIGN);
    disk.distance_ns = rate > 0 ? DISK_SECOND_NS / rate : 0;
    disk.sleeps = control_is(request, "wait", "block");
    disk.begun_at = llm_clock();
    disk.until = disk.begun_at + control_ns(request, "duration", 0);
    disk.next = 0;
    for (uint64_t i = 0; i < depth && i < DISK_DEPTH_MAX; i++) {
        histogram_init(&writers[i].times, 0);
        writers[i].data = disk_memory(disk.size);
        if (pthread_create(&writers[i].thread, NULL, disk_write, &writers[i]) != 0)
            control_fail("disk", "no thread");
    }
    for (uint64_t i = 0; i < depth && i < DISK_DEPTH_MAX; i++) {
        (void)pthread_join(writers[i].thread, NULL);
        free(writers[i].data);
        for (size_t at = 0; at < HISTOGRAM_COUNTS; at++) {
            writes += writers[i].times.counts[at];
            writers[0].times.counts[at] += i > 0 ? writers[i].times.counts[at] : 0;
        }
        if (writers[i].times.max > writers[0].times.max)
            writers[0].times.max = writers[i].times.max;
    }
    json_open();
    json_number("mib_per_s", (double)(writes * disk.size) / (double)(1 << 20) * 1e9 /
                                 (double)(llm_clock() - disk.begun_at));
    json_histogram("write", &writers[0].times);
    json_number("direct", disk.direct);
    json_close();
    for (uint64_t i = 0; i < depth && i < DISK_DEPTH_MAX; i++)
        free(writers[i].times.counts);
}

static const struct control_verb disk_verbs[] = {{"write", disk_serve}, {NULL, NULL}};

/* Opens a file without a name, so that nothing of it remains, and writes all of it. */
static void disk_open(const char *directory)
{
    uint8_t *data = disk_memory(DISK_FILL);

    disk.file = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
    disk.direct = disk.file >= 0;
    if (!disk.direct)
        disk.file = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (disk.file < 0)
        control_fail(directory, strerror(errno));
    (void)fallocate(disk.file, 0, 0, (off_t)disk.bytes);
    for (uint64_t at = 0; at < disk.bytes; at += DISK_FILL)
        if (pwrite(disk.file, data, DISK_FILL, (off_t)at) != DISK_FILL)
            control_fail(directory, strerror(errno));
    if (fsync(disk.file) != 0)
        control_fail(directory, strerror(errno));
    free(data);
}

int disk_run(const struct control *control)
{
    struct control request;

    disk.bytes = control_number(control, "mib", 256) * DISK_FILL;
    disk_open(control_text(control, "directory", "."));
    json_done("direct", disk.direct);
    while (control_take(&request, CONTROL_FOREVER) > 0)
        control_serve(&request, disk_verbs);
    return 0;
}
