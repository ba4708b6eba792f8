/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference transport: packets between instances of one process, copied through memory. Never loses a packet
 * while the receiver's inbox has room, and never reorders. A group is any host name and port; an instance
 * represents a host, so loop=0 stops packets from returning to the instance that sent them.
 *
 * All instances are linked to one hub with one mutex, which is locked only while a few packets are copied.
 * Fields that the owner of an instance reads without the mutex (counters, delivered packets) are written only
 * by the owner.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport.h"

enum {
    LOOP_POST_MAX = 64,
    LOOP_JOINS_MAX = 256,
    LOOP_HOST_MAX = 64,
    LOOP_PEERS_MIN = 4096,
    LOOP_MTU = 9000, /* the default, and the minimum, are those of UDP, so that tests carry over */
    LOOP_MTU_MIN = 576,
    LOOP_INBOX_MIN = 64,
    LOOP_INBOX_MAX = 16384,
};

#define LOOP_PEER ((lli_handle)1 << 31)
/* lli_out.to of a queued packet whose group was left or whose memory was released. */
#define LOOP_LOST ((lli_handle)UINT32_MAX)

struct loop_join {
    char host[LOOP_HOST_MAX];
    uint16_t port;
    bool loops; /* also deliver to this instance */
    uint32_t senders;
    uint32_t receivers;
};

struct loop_packet {
    uint32_t slot;
    uint32_t size;
    lli_handle from;
};

/* Packets in transit to an instance. Protected by the hub's mutex, except the bytes of delivered slots. */
struct loop_inbox {
    uint8_t *bytes; /* slots of payload_max */
    uint32_t slots;
    uint32_t *free; /* stack of free slots */
    uint32_t free_count;
    struct loop_packet *queue; /* ring with slots entries */
    uint32_t first;
    uint32_t count;
    bool armed;
    uint64_t dropped;
};

struct loop {
    struct loop *next; /* next instance of the hub */
    uint64_t id;       /* unicast address: unique in the process */
    uint32_t payload_max;
    int event;
    struct loop_inbox inbox;
    /* Written by the owner under the mutex, so the owner may read without it. */
    struct loop_join joins[LOOP_JOINS_MAX];
    uint32_t joins_count; /* places used so far */
    const struct lli_log *log;

    struct lli_out out[LOOP_POST_MAX];
    uint32_t queued;
    uint64_t done;

    uint64_t *peers; /* ids */
    uint32_t peers_count;
    uint32_t peers_max;

    uint64_t inbox_drops;
    uint64_t drops_reported;
    uint64_t send_errors;
};

static struct {
    pthread_mutex_t mutex;
    struct loop *first;
    uint64_t last_id;
} hub = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------------------------------------- fork() */

static pthread_once_t hub_once = PTHREAD_ONCE_INIT;

static void hub_lock(void)
{
    pthread_mutex_lock(&hub.mutex);
}

static void hub_unlock(void)
{
    pthread_mutex_unlock(&hub.mutex);
}

/* Gives a child process an empty hub: its parent's instances are not linked to it. */
static void hub_forget(void)
{
    hub.first = NULL;
    pthread_mutex_unlock(&hub.mutex);
}

static void hub_watch(void)
{
    (void)pthread_atfork(hub_lock, hub_unlock, hub_forget);
}

/* -------------------------------------------------------------------------------------------------- inbox */

static int inbox_init(struct loop_inbox *inbox, uint32_t payload_max, uint32_t bytes)
{
    uint32_t slots = bytes / payload_max;

    slots = slots < LOOP_INBOX_MIN ? LOOP_INBOX_MIN : slots > LOOP_INBOX_MAX ? LOOP_INBOX_MAX : slots;
    inbox->slots = inbox->free_count = slots;
    inbox->bytes = malloc((size_t)slots * payload_max);
    inbox->free = calloc(slots, sizeof *inbox->free);
    inbox->queue = calloc(slots, sizeof *inbox->queue);
    if (inbox->bytes == NULL || inbox->free == NULL || inbox->queue == NULL)
        return LLM_ENOMEM;
    for (uint32_t i = 0; i < slots; i++)
        inbox->free[i] = slots - 1 - i;
    return 0;
}

static void inbox_fini(struct loop_inbox *inbox)
{
    free(inbox->bytes);
    free(inbox->free);
    free(inbox->queue);
}

static void inbox_wake(struct loop *loop)
{
    const uint64_t one = 1;

    /* Fails only if the descriptor is already readable. */
    if (write(loop->event, &one, sizeof one) < 0)
        assert(errno == EAGAIN);
    loop->inbox.armed = false;
}

/* Copies a packet into the inbox, or counts it as dropped. */
static void inbox_put(struct loop *loop, const struct lli_out *packet, lli_handle from)
{
    struct loop_inbox *inbox = &loop->inbox;
    struct loop_packet *entry = &inbox->queue[(inbox->first + inbox->count) % inbox->slots];

    if (inbox->free_count == 0 || packet->size > loop->payload_max) {
        inbox->dropped++;
        return;
    }
    *entry = (struct loop_packet){inbox->free[--inbox->free_count], packet->size, from};
    if (packet->size > 0)
        memcpy(inbox->bytes + (size_t)entry->slot * loop->payload_max, packet->data, packet->size);
    inbox->count++;
    if (inbox->armed)
        inbox_wake(loop);
}

/* -------------------------------------------------------------------------------------------- open, close */

static int loop_set_up(struct loop *loop, const struct llm_options *options)
{
    if (options->mtu != 0 && options->mtu < LOOP_MTU_MIN)
        return lli_fail(loop->log, LLM_EOPTION, "loop: mtu=%u is less than %d", options->mtu, LOOP_MTU_MIN);
    loop->payload_max = options->mtu != 0 ? options->mtu : LOOP_MTU;
    loop->peers_max = options->receivers_max + options->sessions_max;
    if (loop->peers_max < LOOP_PEERS_MIN)
        loop->peers_max = LOOP_PEERS_MIN;
    loop->peers = calloc(loop->peers_max, sizeof *loop->peers);
    if (loop->peers == NULL || inbox_init(&loop->inbox, loop->payload_max, options->rcvbuf_bytes) != 0)
        return lli_fail(loop->log, LLM_ENOMEM, "loop: no memory for an inbox of rcvbuf_bytes=%u",
                        options->rcvbuf_bytes);
    loop->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->event < 0)
        return lli_fail(loop->log, LLM_ESYSTEM,
                        "loop: eventfd: %m; raise the limit of open files, 'ulimit -n'");
    return 0;
}

static void loop_tear_down(struct loop *loop)
{
    if (loop->event >= 0)
        close(loop->event);
    inbox_fini(&loop->inbox);
    free(loop->peers);
}

static int loop_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct loop *loop = instance;
    int status;

    loop->log = config->log;
    loop->event = -1;
    status = loop_set_up(loop, config->options);
    if (status != 0) {
        loop_tear_down(loop);
        return status;
    }
    (void)pthread_once(&hub_once, hub_watch);
    pthread_mutex_lock(&hub.mutex);
    loop->id = ++hub.last_id;
    loop->next = hub.first;
    hub.first = loop;
    pthread_mutex_unlock(&hub.mutex);
    *caps = (struct lli_caps){
        .payload_max = loop->payload_max,
        .post_max = LOOP_POST_MAX,
        .train_max = 1,
        .align = 1,
        .flags = LLI_CAP_TX_COPIES | LLI_CAP_UNICAST,
        .numa_node = -1,
    };
    return 0;
}

static void loop_close(void *instance)
{
    struct loop *loop = instance;
    struct loop **link = &hub.first;

    pthread_mutex_lock(&hub.mutex);
    while (*link != loop)
        link = &(*link)->next;
    *link = loop->next;
    pthread_mutex_unlock(&hub.mutex);
    loop_tear_down(loop);
}

static void loop_abandon(void *instance)
{
    loop_tear_down(instance);
}

/* -------------------------------------------------------------------------------------------- join, leave */

static bool join_same(const struct loop_join *a, const char *host, uint16_t port)
{
    return a->port == port && strcmp(a->host, host) == 0;
}

/*
 * Finds a place: a new one for each join to send, because loop is a channel option; a shared one for all
 * receive joins of a group. The place may be unused. -1: none is left.
 */
static int join_place(const struct loop *loop, const struct lli_group *group, enum lli_join_mode mode)
{
    int unused = -1;

    for (int i = 0; i < LOOP_JOINS_MAX; i++) {
        const struct loop_join *join = &loop->joins[i];

        if (mode == LLI_JOIN_RECEIVE && join->receivers > 0 && join_same(join, group->host, group->port))
            return i;
        if (unused < 0 && join->senders + join->receivers == 0)
            unused = i;
    }
    return unused;
}

static int loop_join(void *instance, const struct lli_group *group, enum lli_join_mode mode,
                     lli_handle *handle)
{
    struct loop *loop = instance;
    const int place = join_place(loop, group, mode);
    struct loop_join *join = &loop->joins[place < 0 ? 0 : place];

    if (group->host[0] == '\0' || strlen(group->host) >= LOOP_HOST_MAX || group->port == 0)
        return lli_fail(loop->log, LLM_EGROUP,
                        "loop: group '%s', port %u: a name of 1 to %d bytes and a port are needed",
                        group->host, (unsigned)group->port, LOOP_HOST_MAX - 1);
    if (group->options->source[0] != '\0')
        return lli_fail(loop->log, LLM_EOPTION,
                        "loop: source=%s: there are no source addresses, leave it out",
                        group->options->source);
    if (place < 0)
        return lli_fail(loop->log, LLM_ELIMIT, "loop: more than %d joins; use a second context",
                        LOOP_JOINS_MAX);
    pthread_mutex_lock(&hub.mutex);
    strcpy(join->host, group->host);
    join->port = group->port;
    join->senders += mode == LLI_JOIN_SEND;
    join->receivers += mode == LLI_JOIN_RECEIVE;
    join->loops = group->options->loop != 0;
    if ((uint32_t)place >= loop->joins_count)
        loop->joins_count = (uint32_t)place + 1;
    pthread_mutex_unlock(&hub.mutex);
    *handle = (lli_handle)place;
    return 0;
}

/* Drop waiting packets: the place may be reused by another group. */
static void leave_receive(struct loop *loop, lli_handle handle)
{
    struct loop_inbox *inbox = &loop->inbox;
    const uint32_t count = inbox->count;

    inbox->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct loop_packet entry = inbox->queue[(inbox->first + i) % inbox->slots];

        if (entry.from == handle)
            inbox->free[inbox->free_count++] = entry.slot;
        else
            inbox->queue[(inbox->first + inbox->count++) % inbox->slots] = entry;
    }
}

static void leave_send(struct loop *loop, lli_handle handle)
{
    for (uint32_t i = 0; i < loop->queued; i++)
        if (loop->out[i].to == handle)
            loop->out[i].to = LOOP_LOST;
}

static void loop_region_end(void *instance, void *base, size_t size)
{
    struct loop *loop = instance;

    for (uint32_t i = 0; i < loop->queued; i++)
        if ((uintptr_t)loop->out[i].data - (uintptr_t)base < size)
            loop->out[i].to = LOOP_LOST;
}

static void loop_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct loop *loop = instance;
    struct loop_join *join = &loop->joins[handle];

    pthread_mutex_lock(&hub.mutex);
    if (mode == LLI_JOIN_SEND) {
        join->senders--;
        leave_send(loop, handle);
    } else if (--join->receivers == 0) {
        leave_receive(loop, handle);
    }
    pthread_mutex_unlock(&hub.mutex);
}

/* ----------------------------------------------------------------------------------------- address, peers */

static int loop_address(void *instance, struct lli_address *address)
{
    const struct loop *loop = instance;

    *address = (struct lli_address){.size = sizeof loop->id};
    memcpy(address->bytes, &loop->id, sizeof loop->id);
    return 0;
}

/* Returns the place of an id (0: a freed place); the number of places used if there is none. */
static uint32_t peers_find(const struct loop *loop, uint64_t id)
{
    uint32_t place = 0;

    while (place < loop->peers_count && loop->peers[place] != id)
        place++;
    return place;
}

static int loop_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    struct loop *loop = instance;
    uint64_t id = 0;
    uint32_t place;

    if (address->size != sizeof id)
        return LLM_EINVAL;
    memcpy(&id, address->bytes, sizeof id);
    if (id == 0)
        return LLM_EINVAL;
    place = peers_find(loop, id);
    if (place == loop->peers_count)
        place = peers_find(loop, 0);
    if (place == loop->peers_max)
        return LLM_ELIMIT;
    loop->peers[place] = id;
    loop->peers_count += place == loop->peers_count;
    *handle = LOOP_PEER | place;
    return 0;
}

static void loop_forget(void *instance, const struct lli_address *address)
{
    struct loop *loop = instance;
    uint32_t place;
    uint64_t id = 0;

    memcpy(&id, address->bytes, sizeof id);
    place = peers_find(loop, id);
    if (place < loop->peers_count)
        loop->peers[place] = 0;
}

/* ------------------------------------------------------------------------------------------------ sending */

static int loop_post(void *instance, const struct lli_out *packets, int count)
{
    struct loop *loop = instance;
    const int room = LOOP_POST_MAX - (int)loop->queued;
    const int taken = count < room ? count : room;

    for (int i = 0; i < taken; i++)
        loop->out[loop->queued++] = packets[i];
    return taken;
}

static void deliver_unicast(const struct loop *loop, const struct lli_out *packet)
{
    const uint64_t id = loop->peers[packet->to & ~LOOP_PEER];

    for (struct loop *to = hub.first; to != NULL; to = to->next)
        if (to->id == id)
            inbox_put(to, packet, LLI_HANDLE_UNICAST);
}

static void deliver_group(const struct loop *loop, const struct lli_out *packet)
{
    const struct loop_join *group = &loop->joins[packet->to];

    for (struct loop *to = hub.first; to != NULL; to = to->next) {
        if (to == loop && !group->loops)
            continue;
        for (uint32_t i = 0; i < to->joins_count; i++)
            if (to->joins[i].receivers > 0 && join_same(&to->joins[i], group->host, group->port))
                inbox_put(to, packet, i);
    }
}

static void deliver(struct loop *loop, const struct lli_out *packet)
{
    if (packet->to == LOOP_LOST || packet->size > loop->payload_max)
        loop->send_errors++;
    else if (packet->to & LOOP_PEER)
        deliver_unicast(loop, packet);
    else
        deliver_group(loop, packet);
}

static int loop_flush(void *instance)
{
    struct loop *loop = instance;

    if (loop->queued == 0)
        return 0;
    pthread_mutex_lock(&hub.mutex);
    for (uint32_t i = 0; i < loop->queued; i++)
        deliver(loop, &loop->out[i]);
    pthread_mutex_unlock(&hub.mutex);
    loop->done += loop->queued;
    loop->queued = 0;
    return 0;
}

static uint64_t loop_reap(void *instance)
{
    const struct loop *loop = instance;

    return loop->done;
}

/* ---------------------------------------------------------------------------------------------- receiving */

static int loop_receive(void *instance, struct lli_in *packets, int max)
{
    struct loop *loop = instance;
    struct loop_inbox *inbox = &loop->inbox;
    int count = 0;

    pthread_mutex_lock(&hub.mutex);
    for (; count < max && inbox->count > 0; count++) {
        const struct loop_packet *entry = &inbox->queue[inbox->first];

        packets[count] = (struct lli_in){
            .data = inbox->bytes + (size_t)entry->slot * loop->payload_max,
            .size = entry->size,
            .from = entry->from,
            .buffer = entry->slot,
        };
        inbox->first = (inbox->first + 1) % inbox->slots;
        inbox->count--;
    }
    loop->inbox_drops = inbox->dropped;
    pthread_mutex_unlock(&hub.mutex);
    return count;
}

static void loop_release(void *instance, const struct lli_in *packets, int count)
{
    struct loop *loop = instance;
    struct loop_inbox *inbox = &loop->inbox;

    if (count <= 0)
        return;
    pthread_mutex_lock(&hub.mutex);
    for (int i = 0; i < count; i++) {
        assert(inbox->free_count < inbox->slots);
        inbox->free[inbox->free_count++] = (uint32_t)packets[i].buffer;
    }
    pthread_mutex_unlock(&hub.mutex);
}

static int loop_arm(void *instance)
{
    struct loop *loop = instance;
    uint64_t fired;

    pthread_mutex_lock(&hub.mutex);
    if (read(loop->event, &fired, sizeof fired) < 0)
        assert(errno == EAGAIN);
    loop->inbox.armed = true;
    if (loop->inbox.count > 0)
        inbox_wake(loop);
    pthread_mutex_unlock(&hub.mutex);
    return loop->event;
}

static uint64_t loop_drops(void *instance)
{
    struct loop *loop = instance;
    const uint64_t reported = loop->drops_reported;

    pthread_mutex_lock(&hub.mutex);
    loop->inbox_drops = loop->drops_reported = loop->inbox.dropped;
    pthread_mutex_unlock(&hub.mutex);
    return loop->drops_reported - reported;
}

/* -------------------------------------------------------------------------------------------------- table */

static const struct lli_counter loop_counters[] = {
    {"loop_inbox_drops", offsetof(struct loop, inbox_drops)}, /* packets dropped because the inbox was full */
    /* Packets too large, or for a group that was left. */
    {"loop_send_errors", offsetof(struct loop, send_errors)},
    {NULL, 0},
};

const struct lli_transport lli_transport_loop = {
    .scheme = "loop",
    .size = sizeof(struct loop),
    .counters = loop_counters,
    .open = loop_open,
    .close = loop_close,
    .abandon = loop_abandon,
    .region_end = loop_region_end,
    .join = loop_join,
    .leave = loop_leave,
    .address = loop_address,
    .peer = loop_peer,
    .forget = loop_forget,
    .post = loop_post,
    .flush = loop_flush,
    .reap = loop_reap,
    .receive = loop_receive,
    .release = loop_release,
    .arm = loop_arm,
    .drops = loop_drops,
};
