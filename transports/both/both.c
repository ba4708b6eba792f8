/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm+X: the network by transport X, and those on the same host by shared memory, as one. Every packet to a group goes both
 * ways; who has both takes what comes first, as the sessions drop what they have. A unicast goes the shorter way there is.
 *
 * Nothing of it shows on the network: the address of an instance is that of X, from which shared memory derives its own, so
 * that a plain X on another host and a plain shm on this one take part.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/peers.h"
#include "transport.h"
#include "core/base/types.h"

enum { NEAR, FAR, PARTS };

enum {
    BOTH_POST_MAX = 256, /* a power of two: the queue is a ring */
    BOTH_GIVE = 64,      /* packets given to a part at a time */
    BOTH_JOINS_MAX = 256,
    BOTH_PEERS_MIN = 4096,
    BOTH_FAR_TURNS = 8,  /* while packets come the short way, one of so many calls looks at the long one */
    BOTH_HELD_MAX = 32,  /* packets taken from the long way at a time */
};

/* Handles of joins are places; those of peers have this bit as well. */
#define BOTH_PEER ((lli_handle)1 << 31)
/* As lli_out.to of a queued packet: its group was left, or its memory is gone. */
#define BOTH_LOST ((lli_handle)UINT32_MAX)
/* In lli_in.buffer: it is the far part's. */
#define BOTH_FAR ((uint64_t)1 << 63)

struct both_part {
    const struct lli_transport *transport;
    void *instance;
    struct lli_caps caps;
    uint64_t given;  /* packets of the queue that it was offered */
    uint64_t posted; /* that it took, of all */
    bool stuck;
};

struct both_join {
    uint32_t users;
    lli_handle handle[PARTS];
};

struct both_out {
    struct lli_out out;
    uint64_t mark[PARTS]; /* what a part has to be done with before this is */
};

/* The part that reaches a peer, and its handle there. */
struct both_peer {
    bool known;
    uint8_t part;
    lli_handle handle;
};

struct both {
    struct both_part part[PARTS];
    uint64_t taken;  /* packets posted since open */
    uint64_t done;   /* of these, sent or lost */
    uint32_t turn;
    bool near_empty; /* at the latest call */
    struct both_out out[BOTH_POST_MAX];
    struct both_join senders[BOTH_JOINS_MAX];
    struct both_join receivers[BOTH_JOINS_MAX];
    uint32_t receivers_used; /* none behind this one was ever used */
    struct lli_in held[BOTH_HELD_MAX]; /* came the long way; given when the short one is empty */
    int held_count;
    int held_next;
    struct lli_peers peers;
    struct both_peer *peer;  /* by place */
    const struct lli_log *log;
    int epoll;
};

/* ----------------------------------------------------------------------------------------------- open and close */

static int part_open(struct both *both, int which, const struct lli_transport_config *config)
{
    struct both_part *part = &both->part[which];
    const size_t size = lli_round_up(part->transport->size, 64);
    struct epoll_event event = {.events = EPOLLIN};
    int error;

    part->instance = aligned_alloc(64, size);
    if (part->instance == NULL)
        return lli_fail(both->log, LLM_ENOMEM, "%s: no memory for an instance", config->scheme);
    memset(part->instance, 0, size);
    error = part->transport->open(part->instance, config, &part->caps);
    if (error != LLM_OK) {
        free(part->instance);
        part->instance = NULL;
        return error;
    }
    if (epoll_ctl(both->epoll, EPOLL_CTL_ADD, part->transport->arm(part->instance), &event) != 0)
        return lli_fail(both->log, LLM_ESYSTEM, "%s: epoll: %m", config->scheme);
    return LLM_OK;
}

/* All but what the parts' instances have. */
static void both_free(struct both *both)
{
    for (int i = 0; i < PARTS; i++)
        free(both->part[i].instance);
    if (both->epoll >= 0)
        close(both->epoll);
    lli_peers_fini(&both->peers);
    free(both->peer);
}

/* Takes an instance that was opened in part. */
static void both_close(void *instance)
{
    struct both *both = instance;

    for (int i = 0; i < PARTS; i++)
        if (both->part[i].instance != NULL)
            both->part[i].transport->close(both->part[i].instance);
    both_free(both);
}

static void both_abandon(void *instance)
{
    struct both *both = instance;

    for (int i = 0; i < PARTS; i++)
        both->part[i].transport->abandon(both->part[i].instance);
    both_free(both);
}

static struct lli_caps both_caps(const struct lli_caps *near, const struct lli_caps *far)
{
    return (struct lli_caps){
        .payload_max = (uint32_t)lli_min(near->payload_max, far->payload_max),
        .post_max = BOTH_POST_MAX,
        .train_max = far->train_max,
        .headroom = far->headroom,
        .align = (uint32_t)lli_max(near->align, far->align),
        .flags = (near->flags & far->flags) | LLI_CAP_PARTIAL,
        .numa_node = far->numa_node,
    };
}

static int both_set_up(struct both *both, const struct lli_transport_config *config)
{
    struct llm_options options = *config->options;
    struct lli_transport_config far = *config, near = *config;
    struct lli_address address = {.size = 0};
    const uint32_t peers = (uint32_t)lli_max(BOTH_PEERS_MIN, options.receivers_max + options.sessions_max);
    int error;

    far.scheme = config->scheme + strlen("shm+");
    near.scheme = "shm";
    both->part[FAR].transport = config->registry->find(far.scheme);
    both->part[NEAR].transport = config->registry->find(near.scheme);
    if (both->part[FAR].transport == NULL || config->registry->is_named(far.scheme))
        return lli_fail(both->log, LLM_ESCHEME, "scheme \"%s\": after shm+ comes the transport of a network, such as udp",
                        config->scheme);
    both->peer = calloc(peers, sizeof *both->peer);
    if (both->peer == NULL || lli_peers_init(&both->peers, peers) != 0)
        return lli_fail(both->log, LLM_ENOMEM, "%s: no memory for an instance", config->scheme);
    both->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (both->epoll < 0)
        return lli_fail(both->log, LLM_ESYSTEM, "%s: epoll: %m; raise the limit of open files, 'ulimit -n'", config->scheme);
    error = part_open(both, FAR, &far);
    if (error == LLM_OK)
        error = both->part[FAR].transport->address(both->part[FAR].instance, &address);
    if (error != LLM_OK)
        return error;
    /* On a network any number transmit to a group. */
    options.shm_exclusive = 0;
    options.mtu = both->part[FAR].caps.payload_max;
    near.options = &options;
    near.address = &address;
    return part_open(both, NEAR, &near);
}

static int both_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct both *both = instance;
    int error;

    both->log = config->log;
    both->epoll = -1;
    error = both_set_up(both, config);
    if (error != LLM_OK)
        both_close(both);
    else
        *caps = both_caps(&both->part[NEAR].caps, &both->part[FAR].caps);
    return error;
}

/* ------------------------------------------------------------------------------------------------------ memory */

static int both_region(void *instance, void *base, size_t size)
{
    const struct both_part *far = &((const struct both *)instance)->part[FAR];

    return far->transport->region == NULL ? LLM_OK : far->transport->region(far->instance, base, size);
}

static int both_region_map(void *instance, lli_handle to, size_t size, struct lli_region *region)
{
    struct both *both = instance;
    const struct both_part *near = &both->part[NEAR];
    int error = near->transport->region_map(near->instance, both->senders[to].handle[NEAR], size, region);

    return error != LLM_OK ? error : both_region(both, region->base, size);
}

static void both_region_end(void *instance, void *base, size_t size)
{
    struct both *both = instance;

    for (uint64_t i = both->done; i < both->taken; i++) {
        struct lli_out *out = &both->out[i % BOTH_POST_MAX].out;

        if ((uintptr_t)out->data - (uintptr_t)base < size)
            out->to = BOTH_LOST;
    }
    for (int i = 0; i < PARTS; i++)
        both->part[i].transport->region_end(both->part[i].instance, base, size);
}

/* ---------------------------------------------------------------------------------------------- join and leave */

static void both_release(void *instance, const struct lli_in *packets, int count)
{
    struct both *both = instance;

    for (int i = 0; i < count; i++) {
        const struct both_part *part = &both->part[packets[i].buffer & BOTH_FAR ? FAR : NEAR];
        struct lli_in inner = packets[i];

        inner.buffer &= ~BOTH_FAR;
        part->transport->release(part->instance, &inner, 1);
    }
}

/* Gives back what came to a group that nobody is in any longer. */
static void held_drop(struct both *both, lli_handle group)
{
    int kept = 0;

    for (int i = both->held_next; i < both->held_count; i++) {
        if (both->held[i].from == group)
            both_release(both, &both->held[i], 1);
        else
            both->held[kept++] = both->held[i];
    }
    both->held_next = 0;
    both->held_count = kept;
}

/* The place of two joins: for receiving that where they are already. */
static uint32_t join_place(const struct both_join *joins, const lli_handle *handle, enum lli_join_mode mode)
{
    uint32_t unused = BOTH_JOINS_MAX;

    for (uint32_t i = 0; i < BOTH_JOINS_MAX; i++) {
        if (joins[i].users == 0)
            unused = unused == BOTH_JOINS_MAX ? i : unused;
        else if (mode == LLI_JOIN_RECEIVE && joins[i].handle[NEAR] == handle[NEAR] && joins[i].handle[FAR] == handle[FAR])
            return i;
    }
    return unused;
}

static int both_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle)
{
    struct both *both = instance;
    struct both_join *joins = mode == LLI_JOIN_SEND ? both->senders : both->receivers;
    struct llm_options options = *group->options;
    const struct lli_group near = {group->host, group->port, &options};
    lli_handle inner[PARTS];
    uint32_t place;
    int error = both->part[FAR].transport->join(both->part[FAR].instance, group, mode, &inner[FAR]);

    if (error != LLM_OK)
        return error;
    options.shm_exclusive = 0;
    options.source[0] = '\0';
    error = both->part[NEAR].transport->join(both->part[NEAR].instance, &near, mode, &inner[NEAR]);
    if (error != LLM_OK) {
        both->part[FAR].transport->leave(both->part[FAR].instance, inner[FAR], mode);
        return error;
    }
    place = join_place(joins, inner, mode);
    if (place == BOTH_JOINS_MAX) {
        for (int i = 0; i < PARTS; i++)
            both->part[i].transport->leave(both->part[i].instance, inner[i], mode);
        return lli_fail(both->log, LLM_ELIMIT, "shm+: more than %d joins; use a second context", BOTH_JOINS_MAX);
    }
    memcpy(joins[place].handle, inner, sizeof inner);
    joins[place].users++;
    if (mode == LLI_JOIN_RECEIVE)
        both->receivers_used = (uint32_t)lli_max(both->receivers_used, place + 1);
    *handle = place;
    return LLM_OK;
}

static void both_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct both *both = instance;
    struct both_join *join = mode == LLI_JOIN_SEND ? &both->senders[handle] : &both->receivers[handle];

    for (uint64_t i = both->done; i < both->taken && mode == LLI_JOIN_SEND; i++)
        if (both->out[i % BOTH_POST_MAX].out.to == handle)
            both->out[i % BOTH_POST_MAX].out.to = BOTH_LOST;
    join->users--;
    if (mode == LLI_JOIN_RECEIVE && join->users == 0)
        held_drop(both, handle);
    for (int i = 0; i < PARTS; i++)
        both->part[i].transport->leave(both->part[i].instance, join->handle[i], mode);
}

/* --------------------------------------------------------------------------------------------- address, peers */

static int both_address(void *instance, struct lli_address *address)
{
    const struct both_part *far = &((const struct both *)instance)->part[FAR];

    return far->transport->address(far->instance, address);
}

static int both_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    struct both *both = instance;
    struct both_peer *peer;
    lli_handle far = 0, near = 0;
    uint32_t place;
    int error = both->part[FAR].transport->peer(both->part[FAR].instance, address, &far);
    const bool only_near = error == LLM_EINVAL;

    /* The network says what is an address of its own, and is asked until it has resolved it; others may be of memory alone. */
    if (only_near)
        error = both->part[NEAR].transport->peer(both->part[NEAR].instance, address, &near);
    if (error != LLM_OK || (error = lli_peers_place(&both->peers, address, &place)) != LLM_OK)
        return error;
    peer = &both->peer[place];
    if (!peer->known) {
        *peer = (struct both_peer){.known = true, .part = FAR, .handle = far};
        if (only_near || both->part[NEAR].transport->peer(both->part[NEAR].instance, address, &near) == LLM_OK)
            *peer = (struct both_peer){.known = true, .part = NEAR, .handle = near};
    }
    *handle = BOTH_PEER | place;
    return LLM_OK;
}

static void both_forget(void *instance, const struct lli_address *address)
{
    struct both *both = instance;
    uint32_t place;

    for (int i = 0; i < PARTS; i++)
        if (both->part[i].transport->forget != NULL)
            both->part[i].transport->forget(both->part[i].instance, address);
    if (lli_peers_remove(&both->peers, address, &place))
        both->peer[place].known = false;
}

/* What came by memory came from this host. */
static bool both_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    const struct both *both = instance;
    const struct both_part *far = &both->part[FAR];
    struct lli_in inner = *packet;

    if (!(packet->buffer & BOTH_FAR) || far->transport->came_from == NULL)
        return true;
    inner.buffer &= ~BOTH_FAR;
    if (packet->from != LLI_HANDLE_UNICAST)
        inner.from = both->receivers[packet->from].handle[FAR];
    return far->transport->came_from(far->instance, &inner, address);
}

/* ----------------------------------------------------------------------------------------------------- sending */

static int both_post(void *instance, const struct lli_out *packets, int count)
{
    struct both *both = instance;
    const int room = BOTH_POST_MAX - (int)(both->taken - both->done);
    const int taken = count < room ? count : room;

    for (int i = 0; i < taken; i++)
        both->out[both->taken++ % BOTH_POST_MAX].out = packets[i];
    return taken;
}

/* What a part is to send of a packet; false: nothing. */
static bool give_translate(const struct both *both, int which, const struct lli_out *out, struct lli_out *inner)
{
    const struct both_peer *peer;

    *inner = *out;
    if (out->to == BOTH_LOST)
        return false;
    if (!(out->to & BOTH_PEER)) {
        inner->to = both->senders[out->to].handle[which];
        return true;
    }
    peer = &both->peer[out->to & ~BOTH_PEER];
    inner->to = peer->handle;
    return peer->part == which;
}

/* Offers a part the next packets; false if it took none of them. */
static bool give_some(struct both *both, int which)
{
    struct both_part *part = &both->part[which];
    struct lli_out inner[BOTH_GIVE];
    uint64_t at[BOTH_GIVE];
    uint64_t end = part->given;
    int count = 0, taken = 0;

    while (end < both->taken && count < BOTH_GIVE) {
        if (give_translate(both, which, &both->out[end % BOTH_POST_MAX].out, &inner[count]))
            at[count++] = end;
        end++;
    }
    if (count > 0)
        taken = part->transport->post(part->instance, inner, count);
    if (taken < count)
        end = at[taken];
    for (int i = 0; part->given < end; part->given++) {
        if (i < taken && at[i] == part->given) {
            part->posted++;
            i++;
        }
        both->out[part->given % BOTH_POST_MAX].mark[which] = part->posted;
    }
    return taken == count;
}

/* Gives a part all there is for it, flushing when it is full. */
static void give(struct both *both, int which)
{
    struct both_part *part = &both->part[which];

    part->stuck = false;
    while (part->given < both->taken) {
        if (give_some(both, which))
            continue;
        part->stuck = part->transport->flush(part->instance) != LLM_OK;
        if (part->stuck)
            return;
    }
    part->stuck = part->transport->flush(part->instance) != LLM_OK;
}

static uint64_t both_reap(void *instance)
{
    struct both *both = instance;
    uint64_t end = lli_min(both->part[NEAR].given, both->part[FAR].given);
    uint64_t reaped[PARTS];

    if (both->done == end)
        return both->done;
    for (int i = 0; i < PARTS; i++)
        reaped[i] = both->part[i].transport->reap(both->part[i].instance);
    for (; both->done < end; both->done++) {
        const struct both_out *out = &both->out[both->done % BOTH_POST_MAX];

        if (out->mark[NEAR] > reaped[NEAR] || out->mark[FAR] > reaped[FAR])
            break;
    }
    return both->done;
}

static int both_flush(void *instance)
{
    struct both *both = instance;

    give(both, NEAR);
    give(both, FAR);
    (void)both_reap(both);
    return both->part[NEAR].stuck || both->part[FAR].stuck ? LLM_EAGAIN : LLM_OK;
}

/* --------------------------------------------------------------------------------------------------- receiving */

static lli_handle receive_from(const struct both *both, int which, lli_handle inner)
{
    uint32_t place = 0;

    if (inner == LLI_HANDLE_UNICAST)
        return inner;
    while (place < both->receivers_used && (both->receivers[place].users == 0 || both->receivers[place].handle[which] != inner))
        place++;
    assert(place < both->receivers_used);
    return place;
}

static int receive_part(struct both *both, int which, struct lli_in *packets, int max)
{
    const struct both_part *part = &both->part[which];
    const int count = part->transport->receive(part->instance, packets, max);

    for (int i = 0; i < count; i++) {
        assert(!(packets[i].buffer & BOTH_FAR));
        packets[i].from = receive_from(both, which, packets[i].from);
        packets[i].buffer |= which == FAR ? BOTH_FAR : 0;
    }
    return count;
}

/*
 * What comes the long way went the short way before. So the long way is looked at first and given last, when the short one is
 * empty: a packet lost on the long way is never missed while it lies at the end of the short one.
 */
static int both_receive(void *instance, struct lli_in *packets, int max)
{
    struct both *both = instance;
    int count = 0, some;

    if (both->held_next == both->held_count && (both->near_empty || ++both->turn % BOTH_FAR_TURNS == 0)) {
        both->held_next = 0;
        both->held_count = receive_part(both, FAR, both->held, BOTH_HELD_MAX);
    }
    do {
        some = receive_part(both, NEAR, packets + count, max - count);
        count += some;
    } while (some > 0 && count < max);
    both->near_empty = count == 0;
    while (some == 0 && count < max && both->held_next < both->held_count)
        packets[count++] = both->held[both->held_next++];
    return count;
}

static int both_arm(void *instance)
{
    struct both *both = instance;

    for (int i = 0; i < PARTS; i++)
        both->part[i].transport->arm(both->part[i].instance);
    return both->epoll;
}

/* ------------------------------------------------------------------------------------------------------- table */

static const struct lli_counter both_counters[] = {{NULL, 0}};

static const struct lli_transport *both_inner(const void *instance, int index, const void **inner_instance)
{
    const struct both *both = instance;

    if (index >= PARTS)
        return NULL;
    *inner_instance = both->part[index].instance;
    return both->part[index].transport;
}

const struct lli_transport lli_transport_both = {
    .scheme = "shm+",
    .size = sizeof(struct both),
    .counters = both_counters,
    .open = both_open,
    .close = both_close,
    .abandon = both_abandon,
    .region = both_region,
    .region_map = both_region_map,
    .region_end = both_region_end,
    .join = both_join,
    .leave = both_leave,
    .address = both_address,
    .peer = both_peer,
    .forget = both_forget,
    .came_from = both_came_from,
    .post = both_post,
    .flush = both_flush,
    .reap = both_reap,
    .receive = both_receive,
    .release = both_release,
    .arm = both_arm,
    .inner = both_inner,
};
