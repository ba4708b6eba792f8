/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare disk: calls of equal size for a file whose blocks were written before. directory=: where the file is, which has
 * no name; mib=: its size. Requests:
 *   write size= depth= duration=   Writes in ascending order, from the start again at the end of the file, each durable, with so
 *       many under way at a time. Answers with the rate and the time of a write.
 *   read size= depth= duration=    Reads likewise.
 *   record size= rate= wait= duration=   Records of a size come due at a rate, and each write has those that are due, in
 *       whole pages. wait: spin or block, for the next one. Answers with the rate, and the time from when a record was
 *       due until it was on the disk.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../engine/control.h"

#ifndef RWF_DSYNC
#define RWF_DSYNC 2
#endif

#define DISK_SECOND_NS 1000000000u

enum { DISK_ALIGN = 4096, DISK_HUGE = 2 << 20, DISK_FILL = 1 << 20, DISK_DEPTH_MAX = 16 };

static struct {
    int file;
    bool direct;
    uint64_t bytes;
    uint64_t size; /* of a call */
    uint64_t until;
    atomic_uint_fast64_t next; /* number of the next call */
} disk;

typedef void disk_call_fn(uint8_t *bytes, uint64_t size, uint64_t place);

struct disk_caller {
    pthread_t thread;
    struct histogram times;
    disk_call_fn *call;
    uint8_t *data;
};

/* On huge pages, as the memory of a store, if the size is a multiple of theirs. */
static void *disk_memory(size_t size)
{
    const bool huge = size % DISK_HUGE == 0;
    void *memory = aligned_alloc(huge ? DISK_HUGE : DISK_ALIGN, size);

    if (memory == NULL)
        control_fail("disk", "no memory");
    if (huge)
        (void)madvise(memory, size, MADV_HUGEPAGE);
    /* Not zeros, which a disk may store as none. */
    return memset(memory, 0x5a, size);
}

/* Writes durably at a place in the file. */
static void disk_put(uint8_t *bytes, uint64_t size, uint64_t place)
{
    const struct iovec data = {bytes, size};

    if (pwritev2(disk.file, &data, 1, (off_t)place, RWF_DSYNC) != (ssize_t)size)
        control_fail("disk", strerror(errno));
}

static void disk_get(uint8_t *bytes, uint64_t size, uint64_t place)
{
    if (pread(disk.file, bytes, size, (off_t)place) != (ssize_t)size)
        control_fail("disk", strerror(errno));
}

static void *disk_repeat(void *arg)
{
    const uint64_t places = disk.bytes / disk.size;
    struct disk_caller *caller = arg;

    for (uint64_t now = llm_clock(), before; now < disk.until;) {
        before = now;
        caller->call(caller->data, disk.size, atomic_fetch_add(&disk.next, 1) % places * disk.size);
        now = llm_clock();
        histogram_add(&caller->times, now - before);
    }
    return NULL;
}

/* Answers with the rate since the begin, and times. */
static void disk_answer(const struct histogram *times, uint64_t bytes, uint64_t begun_at)
{
    json_open();
    json_number("mib_per_s", (double)bytes / (double)(1 << 20) * 1e9 / (double)(llm_clock() - begun_at));
    json_histogram("times", times);
    json_number("direct", disk.direct);
    json_close();
}

static void disk_serve(const struct control *request, disk_call_fn *call)
{
    const uint64_t asked = control_number(request, "depth", 1),
                   depth = asked < DISK_DEPTH_MAX ? asked : DISK_DEPTH_MAX;
    struct disk_caller callers[DISK_DEPTH_MAX] = {0};
    uint64_t calls = 0, begun_at;
    uint8_t *data;

    disk.size = control_number(request, "size", DISK_ALIGN);
    data = disk_memory(depth * disk.size);
    begun_at = llm_clock();
    disk.until = begun_at + control_ns(request, "duration", 0);
    for (uint64_t i = 0; i < depth; i++) {
        histogram_init(&callers[i].times, 0);
        callers[i].call = call;
        callers[i].data = data + i * disk.size;
        if (pthread_create(&callers[i].thread, NULL, disk_repeat, &callers[i]) != 0)
            control_fail("disk", "no thread");
    }
    for (uint64_t i = 0; i < depth; i++) {
        (void)pthread_join(callers[i].thread, NULL);
        for (size_t at = 0; at < HISTOGRAM_COUNTS; at++) {
            calls += callers[i].times.counts[at];
            callers[0].times.counts[at] += i > 0 ? callers[i].times.counts[at] : 0;
        }
        if (callers[i].times.max > callers[0].times.max)
            callers[0].times.max = callers[i].times.max;
    }
    disk_answer(&callers[0].times, calls * disk.size, begun_at);
    for (uint64_t i = 0; i < depth; i++)
        free(callers[i].times.counts);
    free(data);
}

static void disk_write(const struct control *request)
{
    disk_serve(request, disk_put);
}

static void disk_read(const struct control *request)
{
    disk_serve(request, disk_get);
}

/* Waits until a time, and returns the time by then. */
static uint64_t disk_await(uint64_t due_at, bool sleeps)
{
    uint64_t now;

    while ((now = llm_clock()) < due_at) {
        const uint64_t left = due_at - now;

        if (sleeps)
            (void)nanosleep(&(struct timespec){.tv_sec = (time_t)(left / DISK_SECOND_NS),
                                               .tv_nsec = (long)(left % DISK_SECOND_NS)},
                            NULL);
    }
    return now;
}

static void disk_record(const struct control *request)
{
    const uint64_t size = control_number(request, "size", DISK_ALIGN), begun_at = llm_clock();
    const uint64_t distance_ns = DISK_SECOND_NS / control_number(request, "rate", 1000);
    const uint64_t until = begun_at + control_ns(request, "duration", 0);
    const bool sleeps = control_is(request, "wait", "block");
    uint8_t *data = disk_memory(DISK_FILL);
    uint64_t due_at = begun_at, at = 0, bytes = 0;
    struct histogram times;

    histogram_init(&times, 0);
    while (due_at < until) {
        const uint64_t due = (disk_await(due_at, sleeps) - due_at) / distance_ns + 1;
        const uint64_t count = due < DISK_FILL / size ? due : DISK_FILL / size;
        const uint64_t whole = (count * size + DISK_ALIGN - 1) / DISK_ALIGN * DISK_ALIGN;
        uint64_t now;

        at = at + whole <= disk.bytes ? at : 0;
        disk_put(data, whole, at);
        now = llm_clock();
        for (uint64_t i = 0; i < count; i++, due_at += distance_ns)
            histogram_add(&times, now - due_at);
        at += whole;
        bytes += whole;
    }
    disk_answer(&times, bytes, begun_at);
    free(times.counts);
    free(data);
}

static const struct control_verb disk_verbs[] = {
    {"write", disk_write}, {"read", disk_read}, {"record", disk_record}, {NULL, NULL}};

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
