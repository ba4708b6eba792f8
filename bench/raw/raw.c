/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "raw.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../engine/control.h"
#include "system/log.h"

#define RAW_MTU_MAX 9000 /* as the library's default */
#define RAW_IDLE_NS 500000000ull
#define RAW_OVER_COUNT 16
#define RAW_PATIENCE_NS 10000000000ull
#define RAW_BATCH 32
#define RAW_READ_MAX 65536

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
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found;

    if (getaddrinfo(host, port, &hints, &found) != 0)
        control_fail(host, "has to be a numeric address");
    memcpy(&group->address, found->ai_addr, found->ai_addrlen);
    group->address_size = found->ai_addrlen;
    freeaddrinfo(found);
    if (lli_ip_interface_find(&log, "bare", interface, (const union lli_ip_address *)&group->address,
                              &group->interface) != 0)
        control_fail(interface, "cannot be used");
    if (group->address.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&group->address)->sin6_scope_id = (unsigned)group->interface.index;
    if (group->mtu == 0)
        group->mtu = group->interface.mtu < RAW_MTU_MAX ? group->interface.mtu : RAW_MTU_MAX;
}

void raw_group_of(const char *place, struct raw_group *group)
{
    enum { SCHEME, HOST, PORT, INTERFACE, MTU, HISTORY, DIRECTORY, FIELDS };
    char *rest = strdup(place), *fields[FIELDS]; /* groups have parts of it */
    struct llm_options defaults;

    for (int i = 0; i < FIELDS; i++)
        if ((fields[i] = strsep(&rest, ",")) == NULL)
            control_fail(place, "is no place of bare packets");
    llm_options_init(&defaults);
    *group = (struct raw_group){.name = fields[HOST],
                                .directory = *fields[DIRECTORY] ? fields[DIRECTORY] : strdup("/dev/shm"),
                                .mtu = (unsigned)strtoul(fields[MTU], NULL, 10),
                                .history_bytes = strtoull(fields[HISTORY], NULL, 10)};
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

static struct raw_end *raw_open_group(const struct raw_group *group, bool to_send)
{
    struct raw_end *end = calloc(1, group->scheme->bytes);
    int error;

    if (!end)
        return NULL;
    end->scheme = group->scheme;
    if (group->scheme->open(end, group, to_send) == 0)
        return end;
    error = errno;
    raw_close(end);
    errno = error;
    return NULL;
}

struct raw_end *raw_open(const char *place, bool to_send)
{
    struct raw_group group;

    raw_group_of(place, &group);
    return raw_open_group(&group, to_send);
}

void raw_close(struct raw_end *end)
{
    if (end)
        end->scheme->close(end);
    free(end);
}

/* No message is in two datagrams, unless it is longer than one. */
static size_t raw_packed_datagram(const struct raw_end *end, size_t message_bytes)
{
    return message_bytes > end->datagram_bytes ? message_bytes
                                               : end->datagram_bytes - end->datagram_bytes % message_bytes;
}

size_t raw_packed_bytes(const struct raw_end *end, size_t message_bytes)
{
    if (message_bytes > end->datagram_bytes)
        return 0;
    if (!end->scheme->send_train)
        return raw_packed_datagram(end, message_bytes);
    return end->scheme->train_bytes(raw_packed_datagram(end, message_bytes));
}

int raw_send_packed(struct raw_end *end, const void *data, size_t size, size_t message_bytes)
{
    size_t datagram_bytes = raw_packed_datagram(end, message_bytes);

    return size > datagram_bytes ? end->scheme->send_train(end, data, size, datagram_bytes)
                                 : raw_send(end, data, size);
}

/* -------------------------------------------------------------------------------------------------- blast */

/* A receiver whose buffer is full must have read some of it before one of these arrives. */
static int raw_blast_say_over(struct raw_end *end)
{
    for (int i = 0; i < RAW_OVER_COUNT; i++) {
        usleep(1000);
        if (raw_send(end, "", 1) < 0)
            return -1;
    }
    return 0;
}

/* Memory that messages are kept in, as the library's history. It is there during its blast only: the memory of the library is measured in
 * the same process. */
struct raw_kept {
    char *base;
    size_t bytes;
    size_t at;
};

static int raw_kept_open(struct raw_kept *kept, size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return -1;
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    memset(base, 'x', bytes);
    *kept = (struct raw_kept){.base = base, .bytes = bytes};
    return 0;
}

/* Copies messages to the next place, the last one as far as it fits, and returns them as a train. */
static const char *raw_kept_fill(struct raw_kept *kept, const char *message, size_t message_bytes,
                                 size_t train_bytes)
{
    char *train;

    if (kept->at + train_bytes > kept->bytes)
        kept->at = 0;
    train = kept->base + kept->at;
    for (size_t at = 0; at < train_bytes; at += message_bytes)
        memcpy(train + at, message, message_bytes < train_bytes - at ? message_bytes : train_bytes - at);
    kept->at += train_bytes;
    return train;
}

static int raw_blast_next(struct raw_end *end, const struct raw_load *load, struct raw_kept *kept)
{
    static char memory[RAW_BATCH * RAW_MTU_MAX + RAW_READ_MAX];
    const size_t datagram_bytes = end->datagram_bytes;
    const char *train = memory;
    size_t train_bytes;

    if (end->scheme->blast_next)
        return end->scheme->blast_next(end);
    if (load->way == RAW_BATCHES)
        return end->scheme->send_each(end, memory, RAW_BATCH * datagram_bytes, datagram_bytes);
    train_bytes = end->scheme->train_bytes(datagram_bytes);
    if (kept->base)
        train = raw_kept_fill(kept, memory, load->message_bytes, train_bytes);
    return end->scheme->send_train(end, train, train_bytes, datagram_bytes) < 0 ? -1 : 0;
}

static int raw_blast_send(struct raw_end *end, const struct raw_load *load)
{
    struct raw_kept kept = {.base = NULL};
    int failed = load->way == RAW_KEPT ? raw_kept_open(&kept, load->ring_bytes) : 0;
    uint64_t over_at = llm_clock() + load->duration_ns;

    while (!failed && llm_clock() < over_at)
        failed = raw_blast_next(end, load, &kept);
    if (kept.base)
        munmap(kept.base, kept.bytes);
    return failed ? -1 : raw_blast_say_over(end);
}

int raw_blast_expect(struct raw_end *end, bool segmented)
{
    size_t size;

    while (raw_receive(end, &size))
        ;
    return end->scheme->blast_expect ? end->scheme->blast_expect(end, segmented) : 0;
}

/* Reads what it takes in memory: a line that nobody reads would not cross from core to core. */
static int raw_blast_take(struct raw_end *end, struct raw_blast_result *result, bool *over)
{
    static char read[RAW_READ_MAX];
    const void *data;
    size_t size;
    int count = 0;

    for (; count < RAW_BATCH && (data = raw_receive(end, &size)) != NULL; count++) {
        if (end->scheme->named)
            memcpy(read, data, size);
        if (size <= 1)
            *over = true;
        else
            result->bytes += size;
    }
    return count;
}

static struct raw_blast_result raw_blast_receive(struct raw_end *end)
{
    struct raw_blast_result result = {0};
    uint64_t first = 0;
    uint64_t last = llm_clock();
    bool over = false;

    for (;;) {
        int count = raw_blast_take(end, &result, &over);
        uint64_t now = llm_clock();

        if (over || (count <= 0 && now - last > RAW_IDLE_NS))
            break;
        if (count <= 0)
            continue;
        last = now;
        if (first == 0)
            first = now;
    }
    result.ns = first ? last - first : 0;
    return result;
}

static void raw_serve_send(const struct control *control, struct raw_end *end, const struct raw_group *group)
{
    const struct raw_load load = {.way = (enum raw_way)control_number(control, "way", 0),
                                  .message_bytes = (size_t)control_number(control, "size", 45),
                                  .ring_bytes = group->history_bytes,
                                  .duration_ns = control_ns(control, "duration", 100000000)};

    const bool possible = load.way < RAW_WAYS && end->scheme->ways & 1u << load.way;

    if (!possible || control_flag(control, "look")) {
        json_done("possible", possible);
        return;
    }
    if (raw_blast_send(end, &load) != 0)
        perror("a bare blast");
    json_done("possible", 1);
}

static void raw_serve_receive(const struct control *control, struct raw_end *end)
{
    const bool ready = raw_blast_expect(end, control_flag(control, "segmented")) == 0;
    const uint64_t begun_at = llm_clock();
    struct raw_blast_result result = {0};

    if (end->scheme->receive_many)
        end->scheme->receive_many(end);
    json_done("ready", ready);
    while (!raw_is_readable(end) && llm_clock() < begun_at + RAW_PATIENCE_NS)
        continue;
    result = raw_blast_receive(end);
    json_open();
    json_number("bytes", (double)result.bytes);
    json_number("ns", (double)result.ns);
    json_close();
}

void raw_serve_blast(const struct control *control, bool sends)
{
    static struct raw_group group;
    static struct raw_end *end;

    if (!end) {
        raw_group_of(control_text(control, "place", ""), &group);
        end = raw_open_group(&group, sends);
    }
    if (!end)
        control_fail("the end of the bare blast", strerror(errno));
    if (sends)
        raw_serve_send(control, end, &group);
    else
        raw_serve_receive(control, end);
}
