/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../engine/control.h"
#include "system/log.h"

#define RAW_MTU_MAX 9000 /* the library's default */
#define RAW_IDLE_NS 500000000ull
#define RAW_OVER_COUNT 16
#define RAW_PATIENCE_NS 10000000000ull
#define RAW_READ_MAX 65536
#define RAW_TRAIN_BYTES 65487 /* longest UDP_SEGMENT send, also for IPv6 */
#define RAW_TRAIN_SEGMENTS 64 /* older kernels refuse more */

/* Methods to send a blast. */
enum raw_way {
    RAW_BATCHES, /* batches of datagrams in one call */
    RAW_TRAINS,  /* trains that the kernel splits (UDP_SEGMENT), from one buffer that stays in the caches */
    RAW_KEPT,    /* trains of messages copied into a ring first, as repairs require */
    RAW_WAYS
};

static const struct raw_scheme *const raw_schemes[] = {
    &raw_udp,  &raw_shm, &raw_bypass,
#ifdef LLI_WITH_ROCE
    &raw_roce,
#endif
#ifdef LLI_WITH_XDP
    &raw_xdp,
#endif
};

/* ------------------------------------------------------------------------------------------------- groups */

static void raw_find_address(const char *host, const char *port, const char *interface,
                             struct raw_group *group)
{
    static const struct lli_log log = {.level = LLM_LEVEL_ERROR};

    if (lli_ip_resolve(&log, "bare", LLM_EGROUP, "the group", host, AF_UNSPEC, &group->address) != 0 ||
        lli_ip_interface_find(&log, "bare", interface, &group->address, &group->interface) != 0 ||
        lli_ip_mtu_choose(&log, "bare", &group->interface, group->mtu, &group->mtu) != 0)
        control_fail(host, "cannot be used");
    lli_ip_port_set(&group->address, htons((uint16_t)strtoul(port, NULL, 10)));
    if (group->address.any.sa_family == AF_INET6)
        group->address.v6.sin6_scope_id = (unsigned)group->interface.index;
}

void raw_group_of(const char *place, struct raw_group *group)
{
    enum { SCHEME, HOST, PORT, INTERFACE, MTU, HISTORY, DIRECTORY, READER, READERS, FIELDS };
    char *rest = strdup(place), *fields[FIELDS]; /* referenced by the group */
    struct llm_options defaults;

    for (int i = 0; i < FIELDS; i++)
        if ((fields[i] = strsep(&rest, ",")) == NULL && i <= DIRECTORY)
            control_fail(place, "is no place of bare packets");
    llm_options_init(&defaults);
    *group =
        (struct raw_group){.name = fields[HOST],
                           .directory = *fields[DIRECTORY] ? fields[DIRECTORY] : strdup("/dev/shm"),
                           .mtu = (unsigned)strtoul(fields[MTU], NULL, 10),
                           .history_bytes = strtoull(fields[HISTORY], NULL, 10),
                           .reader = fields[READER] ? (unsigned)strtoul(fields[READER], NULL, 10) : 0,
                           .readers = fields[READERS] ? (unsigned)strtoul(fields[READERS], NULL, 10) : 1};
    group->history_bytes = group->history_bytes > 0 ? group->history_bytes : defaults.history_bytes;
    for (size_t i = 0; i < sizeof raw_schemes / sizeof raw_schemes[0]; i++)
        if (strcmp(raw_schemes[i]->name, fields[SCHEME]) == 0)
            group->scheme = raw_schemes[i];
    if (group->scheme == NULL)
        control_fail(place, "its transport has no bare form");
    if (group->scheme->named)
        group->mtu = group->mtu > 0 ? group->mtu : RAW_MTU_MAX;
    else
        raw_find_address(fields[HOST], fields[PORT], fields[INTERFACE], group);
}

/* --------------------------------------------------------------------------------------------------- ends */

size_t raw_datagram_bytes(const struct raw_group *group, size_t headers)
{
    return group->mtu - (group->address.any.sa_family == AF_INET6 ? 40 : 20) - headers;
}

struct raw_end *raw_open(const char *place, bool to_send)
{
    struct raw_group group;
    struct raw_end *end;

    raw_group_of(place, &group);
    end = control_memory(1, group.scheme->bytes);
    end->scheme = group.scheme;
    end->history_bytes = group.history_bytes;
    if (group.scheme->open(end, &group, to_send) != 0)
        control_fail(place, strerror(errno));
    return end;
}

void raw_close(struct raw_end *end)
{
    if (end)
        end->scheme->close(end);
    free(end);
}

/* No message crosses datagrams, unless it is longer than one. */
static size_t raw_packed_datagram(const struct raw_end *end, size_t message_bytes)
{
    return message_bytes > end->datagram_bytes ? message_bytes
                                               : end->datagram_bytes - end->datagram_bytes % message_bytes;
}

/* The longest train of such datagrams that one call to the kernel accepts. */
static size_t raw_train_bytes(size_t datagram_bytes)
{
    const size_t segments = RAW_TRAIN_BYTES / datagram_bytes;

    return datagram_bytes * (segments > RAW_TRAIN_SEGMENTS ? RAW_TRAIN_SEGMENTS : segments);
}

size_t raw_packed_bytes(const struct raw_end *end, size_t message_bytes)
{
    const size_t datagram_bytes = raw_packed_datagram(end, message_bytes);

    if (message_bytes > end->datagram_bytes)
        return 0;
    return end->scheme->send_train ? raw_train_bytes(datagram_bytes) : datagram_bytes;
}

int raw_send_packed(struct raw_end *end, const void *data, size_t size, size_t message_bytes)
{
    const size_t datagram_bytes = raw_packed_datagram(end, message_bytes);

    return size > datagram_bytes ? end->scheme->send_train(end, data, size, datagram_bytes)
                                 : end->scheme->send(end, data, size);
}

void raw_expect(struct raw_end *end, bool trains)
{
    size_t size;

    while (end->scheme->receive(end, &size))
        ;
    if (end->scheme->receive_trains)
        end->scheme->receive_trains(end, trains);
}

/* -------------------------------------------------------------------------------------------------- blast */

/* Copies messages to the next position of a ring, the last one cut to fit, and returns them as a train. */
static const char *raw_keep(char *ring, size_t ring_bytes, size_t message_bytes, size_t train_bytes)
{
    static const char message[RAW_READ_MAX];
    static size_t at;
    char *train;

    at = at + train_bytes > ring_bytes ? 0 : at;
    train = ring + at;
    for (size_t to = 0; to < train_bytes; to += message_bytes)
        memcpy(train + to, message, message_bytes < train_bytes - to ? message_bytes : train_bytes - to);
    at += train_bytes;
    return train;
}

/* Sends the next batch or train; ring NULL: without a copy. Returns 0, or -1 with errno set. */
static int raw_blast_next(struct raw_end *end, enum raw_way way, char *ring, size_t message_bytes)
{
    static const char memory[RAW_BATCH * RAW_MTU_MAX + RAW_READ_MAX];
    const size_t datagram_bytes = end->datagram_bytes, train_bytes = raw_train_bytes(datagram_bytes);
    const char *train = ring ? raw_keep(ring, end->history_bytes, message_bytes, train_bytes) : memory;
    int result = 0;

    if (way != RAW_BATCHES)
        return end->scheme->send_train(end, train, train_bytes, datagram_bytes) < 0 ? -1 : 0;
    if (end->scheme->send_each)
        return end->scheme->send_each(end, memory, RAW_BATCH * datagram_bytes, datagram_bytes);
    for (int i = 0; i < RAW_BATCH && result >= 0; i++)
        result = end->scheme->send(end, memory, datagram_bytes);
    return result < 0 ? -1 : 0;
}

/*
 * The ring has the size and kind of memory of the library's history. It exists only during its blast, as the
 * library's memory is measured in the same process. The final datagrams are repeated, since a receiver with a
 * full buffer has to read first.
 */
static void raw_blast_send(struct raw_end *end, const struct control *control, enum raw_way way)
{
    uint64_t over_at;
    char *ring = NULL;
    int failed = 0;

    if (way == RAW_KEPT) {
        ring = mmap(NULL, end->history_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (ring == MAP_FAILED)
            control_fail("a bare blast", strerror(errno));
        (void)madvise(ring, end->history_bytes, MADV_HUGEPAGE);
        memset(ring, 'x', end->history_bytes);
    }
    over_at = llm_clock() + control_ns(control, "duration", 100000000);
    while (failed == 0 && llm_clock() < over_at)
        failed = raw_blast_next(end, way, ring, (size_t)control_number(control, "size", 45));
    if (ring)
        munmap(ring, end->history_bytes);
    for (int i = 0; i < RAW_OVER_COUNT && failed >= 0; i++) {
        usleep(1000);
        failed = end->scheme->send(end, "", 1);
    }
    if (failed < 0)
        perror("a bare blast");
}

/* Reads datagrams in shared memory: an unread cache line would not move between cores. */
static int raw_blast_take(struct raw_end *end, uint64_t *bytes, bool *over)
{
    static char read[RAW_READ_MAX];
    const void *data;
    size_t size;
    int count = 0;

    for (; count < RAW_BATCH && (data = end->scheme->receive(end, &size)) != NULL; count++) {
        if (end->scheme->named)
            memcpy(read, data, size);
        *over |= size <= 1;
        *bytes += size > 1 ? size : 0;
    }
    return count;
}

/* Answers with the bytes received and the time from the first to the last. */
static void raw_blast_receive(struct raw_end *end)
{
    uint64_t bytes = 0, first = 0, last = llm_clock(), now = last;
    bool over = false;

    while (!over && now - last < (first == 0 ? RAW_PATIENCE_NS : RAW_IDLE_NS)) {
        const int count = raw_blast_take(end, &bytes, &over);

        now = llm_clock();
        if (count == 0 || over)
            continue;
        last = now;
        first = first == 0 ? now : first;
    }
    json_open();
    json_counts("bytes ns", (uint64_t[]){bytes, first ? last - first : 0});
    json_close();
}

void raw_serve_blast(const struct control *control, bool sends)
{
    const enum raw_way way = (enum raw_way)control_number(control, "way", 0);
    static struct raw_end *end;
    bool possible;

    if (!end)
        end = raw_open(control_text(control, "place", ""), sends);
    if (!sends) {
        raw_expect(end, control_flag(control, "segmented"));
        end->many = true;
        json_done("ready", 1);
        raw_blast_receive(end);
        return;
    }
    possible = way == RAW_BATCHES || (way < RAW_WAYS && end->scheme->send_train != NULL);
    if (possible && !control_flag(control, "look"))
        raw_blast_send(end, control, way);
    json_done("possible", possible);
}
