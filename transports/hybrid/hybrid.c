/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hybrid transport shm+X: network transport X ("far") combined with shared memory for instances on the same
 * host ("near"). Every packet to a group is sent by both; a receiver that gets both copies uses the first, as
 * sessions drop duplicates. A unicast is sent by shared memory if the peer is on this host, else by X.
 *
 * Invisible on the network: the address of an instance is that of X, from which shared memory derives its
 * own. So a plain X instance on another host and a plain shm instance on this host can take part.
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
    HYBRID_POST_MAX = 256, /* a power of two: the queue is a ring */
    HYBRID_GIVE = 64,      /* packets passed to a part at a time */
    HYBRID_JOINS_MAX = 256,
    HYBRID_PEERS_MIN = 4096,
    HYBRID_FAR_TURNS = 8,     /* while shared memory has packets, one call in this many polls the network */
    HYBRID_BUFFERED_MAX = 32, /* packets received from the network at a time */
};

/* Handles of joins are indices; handles of peers also have this bit set. */
#define HYBRID_PEER ((lli_handle)1 << 31)
/* lli_out.to of a queued packet whose group was left or whose memory was released. */
#define HYBRID_LOST ((lli_handle)UINT32_MAX)
/* lli_in.buffer bit: the packet belongs to the far part. */
#define HYBRID_FAR ((uint64_t)1 << 63)

struct hybrid_part {
    const struct lli_transport *transport;
    void *instance;
    struct lli_caps caps;
    uint64_t given;  /* packets of the queue offered to the part */
    uint64_t posted; /* packets the part accepted, in total */
    bool stuck;
};

struct hybrid_join {
    uint32_t users;
    lli_handle handle[PARTS];
};

struct hybrid_out {
    struct lli_out out;
    uint64_t mark[PARTS]; /* value of the part's reap() at which it is done with this packet */
};

/* Part that reaches a peer, and its handle there. */
struct hybrid_peer {
    bool known;
    uint8_t part;
    lli_handle handle;
};

struct hybrid {
    struct hybrid_part part[PARTS];
    uint64_t taken; /* packets posted since open */
    uint64_t done;  /* of these, sent or lost */
    uint32_t turn;
    bool near_empty; /* shared memory had no packets in the latest call */
    struct hybrid_out out[HYBRID_POST_MAX];
    struct hybrid_join senders[HYBRID_JOINS_MAX];
    struct hybrid_join receivers[HYBRID_JOINS_MAX];
    uint32_t receivers_used; /* upper bound of the places used so far */
    /* Packets from the network, buffered until shared memory is empty. */
    struct lli_in buffered[HYBRID_BUFFERED_MAX];
    int buffered_count;
    int buffered_next;
    struct lli_peers peers;
    struct hybrid_peer *peer; /* by place */
    const struct lli_log *log;
    int epoll;
};

/* ----------------------------------------------------------------------------------------- open and close */

static int part_open(struct hybrid *hybrid, int which, const struct lli_transport_config *config)
{
    struct hybrid_part *part = &hybrid->part[which];
    const size_t size = lli_round_up(part->transport->size, 64);
    struct epoll_event event = {.events = EPOLLIN};
    int error;

    part->instance = aligned_alloc(64, size);
    if (part->instance == NULL)
        return lli_fail(hybrid->log, LLM_ENOMEM, "%s: no memory for an instance", config->scheme);
    memset(part->instance, 0, size);
    error = part->transport->open(part->instance, config, &part->caps);
    if (error != LLM_OK) {
        free(part->instance);
        part->instance = NULL;
        return error;
    }
    if (epoll_ctl(hybrid->epoll, EPOLL_CTL_ADD, part->transport->arm(part->instance), &event) != 0)
        return lli_fail(hybrid->log, LLM_ESYSTEM, "%s: epoll: %m", config->scheme);
    return LLM_OK;
}

/* Frees everything but the parts' own resources. */
static void hybrid_free(struct hybrid *hybrid)
{
    for (int i = 0; i < PARTS; i++)
        free(hybrid->part[i].instance);
    if (hybrid->epoll >= 0)
        close(hybrid->epoll);
    lli_peers_fini(&hybrid->peers);
    free(hybrid->peer);
}

/* Also closes a partly opened instance. */
static void hybrid_close(void *instance)
{
    struct hybrid *hybrid = instance;

    for (int i = 0; i < PARTS; i++)
        if (hybrid->part[i].instance != NULL)
            hybrid->part[i].transport->close(hybrid->part[i].instance);
    hybrid_free(hybrid);
}

static void hybrid_abandon(void *instance)
{
    struct hybrid *hybrid = instance;

    for (int i = 0; i < PARTS; i++)
        hybrid->part[i].transport->abandon(hybrid->part[i].instance);
    hybrid_free(hybrid);
}

static struct lli_caps hybrid_caps(const struct lli_caps *near, const struct lli_caps *far)
{
    return (struct lli_caps){
        .payload_max = (uint32_t)lli_min(near->payload_max, far->payload_max),
        .post_max = HYBRID_POST_MAX,
        .train_max = far->train_max,
        .headroom = far->headroom,
        .align = (uint32_t)lli_max(near->align, far->align),
        .flags = (near->flags & far->flags) | LLI_CAP_PARTIAL,
        .numa_node = far->numa_node,
    };
}

static int hybrid_set_up(struct hybrid *hybrid, const struct lli_transport_config *config)
{
    struct llm_options options = *config->options;
    struct lli_transport_config far = *config, near = *config;
    struct lli_address address = {.size = 0};
    const uint32_t peers = (uint32_t)lli_max(HYBRID_PEERS_MIN, options.receivers_max + options.sessions_max);
    int error;

    far.scheme = config->scheme + strlen("shm+");
    near.scheme = "shm";
    hybrid->part[FAR].transport = config->registry->find(far.scheme);
    hybrid->part[NEAR].transport = config->registry->find(near.scheme);
    if (hybrid->part[FAR].transport == NULL || config->registry->is_named(far.scheme))
        return lli_fail(hybrid->log, LLM_ESCHEME,
                        "scheme \"%s\": after shm+ comes the transport of a network, such as udp",
                        config->scheme);
    hybrid->peer = calloc(peers, sizeof *hybrid->peer);
    if (hybrid->peer == NULL || lli_peers_init(&hybrid->peers, peers) != 0)
        return lli_fail(hybrid->log, LLM_ENOMEM, "%s: no memory for an instance", config->scheme);
    hybrid->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (hybrid->epoll < 0)
        return lli_fail(hybrid->log, LLM_ESYSTEM, "%s: epoll: %m; raise the limit of open files, 'ulimit -n'",
                        config->scheme);
    error = part_open(hybrid, FAR, &far);
    if (error == LLM_OK)
        error = hybrid->part[FAR].transport->address(hybrid->part[FAR].instance, &address);
    if (error != LLM_OK)
        return error;
    options.mtu = hybrid->part[FAR].caps.payload_max;
    near.options = &options;
    near.address = &address;
    return part_open(hybrid, NEAR, &near);
}

static int hybrid_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct hybrid *hybrid = instance;
    int error;

    hybrid->log = config->log;
    hybrid->epoll = -1;
    error = hybrid_set_up(hybrid, config);
    if (error != LLM_OK)
        hybrid_close(hybrid);
    else
        *caps = hybrid_caps(&hybrid->part[NEAR].caps, &hybrid->part[FAR].caps);
    return error;
}

/* ------------------------------------------------------------------------------------------------- memory */

static int hybrid_region(void *instance, void *base, size_t size)
{
    const struct hybrid_part *far = &((const struct hybrid *)instance)->part[FAR];

    return far->transport->region == NULL ? LLM_OK : far->transport->region(far->instance, base, size);
}

static int hybrid_region_map(void *instance, lli_handle to, size_t size, struct lli_region *region)
{
    struct hybrid *hybrid = instance;
    const struct hybrid_part *near = &hybrid->part[NEAR];
    int error = near->transport->region_map(near->instance, hybrid->senders[to].handle[NEAR], size, region);

    return error != LLM_OK ? error : hybrid_region(hybrid, region->base, size);
}

static void hybrid_region_end(void *instance, void *base, size_t size)
{
    struct hybrid *hybrid = instance;

    for (uint64_t i = hybrid->done; i < hybrid->taken; i++) {
        struct lli_out *out = &hybrid->out[i % HYBRID_POST_MAX].out;

        if ((uintptr_t)out->data - (uintptr_t)base < size)
            out->to = HYBRID_LOST;
    }
    for (int i = 0; i < PARTS; i++)
        hybrid->part[i].transport->region_end(hybrid->part[i].instance, base, size);
}

/* ----------------------------------------------------------------------------------------- join and leave */

static void hybrid_release(void *instance, const struct lli_in *packets, int count)
{
    struct hybrid *hybrid = instance;

    for (int i = 0; i < count; i++) {
        const struct hybrid_part *part = &hybrid->part[packets[i].buffer & HYBRID_FAR ? FAR : NEAR];
        struct lli_in inner = packets[i];

        inner.buffer &= ~HYBRID_FAR;
        part->transport->release(part->instance, &inner, 1);
    }
}

/* Releases buffered packets of a group that was left. */
static void buffered_drop(struct hybrid *hybrid, lli_handle group)
{
    int remaining = 0;

    for (int i = hybrid->buffered_next; i < hybrid->buffered_count; i++) {
        if (hybrid->buffered[i].from == group)
            hybrid_release(hybrid, &hybrid->buffered[i], 1);
        else
            hybrid->buffered[remaining++] = hybrid->buffered[i];
    }
    hybrid->buffered_next = 0;
    hybrid->buffered_count = remaining;
}

/* Finds a place for a pair of joins; repeated receive joins share their place. */
static uint32_t join_place(const struct hybrid_join *joins, const lli_handle *handle, enum lli_join_mode mode)
{
    uint32_t unused = HYBRID_JOINS_MAX;

    for (uint32_t i = 0; i < HYBRID_JOINS_MAX; i++) {
        if (joins[i].users == 0)
            unused = unused == HYBRID_JOINS_MAX ? i : unused;
        else if (mode == LLI_JOIN_RECEIVE && joins[i].handle[NEAR] == handle[NEAR] &&
                 joins[i].handle[FAR] == handle[FAR])
            return i;
    }
    return unused;
}

static int hybrid_join(void *instance, const struct lli_group *group, enum lli_join_mode mode,
                       lli_handle *handle)
{
    struct hybrid *hybrid = instance;
    struct hybrid_join *joins = mode == LLI_JOIN_SEND ? hybrid->senders : hybrid->receivers;
    struct llm_options options = *group->options;
    /* Networks allow any number of transmitters per group. */
    const struct lli_group near = {.host = group->host,
                                   .port = group->port,
                                   .options = &options,
                                   .values = group->values,
                                   .shared = true};
    lli_handle inner[PARTS];
    uint32_t place;
    int error = hybrid->part[FAR].transport->join(hybrid->part[FAR].instance, group, mode, &inner[FAR]);

    if (error != LLM_OK)
        return error;
    options.source[0] = '\0';
    error = hybrid->part[NEAR].transport->join(hybrid->part[NEAR].instance, &near, mode, &inner[NEAR]);
    if (error != LLM_OK) {
        hybrid->part[FAR].transport->leave(hybrid->part[FAR].instance, inner[FAR], mode);
        return error;
    }
    place = join_place(joins, inner, mode);
    if (place == HYBRID_JOINS_MAX) {
        for (int i = 0; i < PARTS; i++)
            hybrid->part[i].transport->leave(hybrid->part[i].instance, inner[i], mode);
        return lli_fail(hybrid->log, LLM_ELIMIT, "shm+: more than %d joins; use a second context",
                        HYBRID_JOINS_MAX);
    }
    memcpy(joins[place].handle, inner, sizeof inner);
    joins[place].users++;
    if (mode == LLI_JOIN_RECEIVE)
        hybrid->receivers_used = (uint32_t)lli_max(hybrid->receivers_used, place + 1);
    *handle = place;
    return LLM_OK;
}

static void hybrid_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct hybrid *hybrid = instance;
    struct hybrid_join *join = mode == LLI_JOIN_SEND ? &hybrid->senders[handle] : &hybrid->receivers[handle];

    for (uint64_t i = hybrid->done; i < hybrid->taken && mode == LLI_JOIN_SEND; i++)
        if (hybrid->out[i % HYBRID_POST_MAX].out.to == handle)
            hybrid->out[i % HYBRID_POST_MAX].out.to = HYBRID_LOST;
    join->users--;
    if (mode == LLI_JOIN_RECEIVE && join->users == 0)
        buffered_drop(hybrid, handle);
    for (int i = 0; i < PARTS; i++)
        hybrid->part[i].transport->leave(hybrid->part[i].instance, join->handle[i], mode);
}

/* ----------------------------------------------------------------------------------------- address, peers */

static int hybrid_address(void *instance, struct lli_address *address)
{
    const struct hybrid_part *far = &((const struct hybrid *)instance)->part[FAR];

    return far->transport->address(far->instance, address);
}

static int hybrid_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    struct hybrid *hybrid = instance;
    struct hybrid_peer *peer;
    lli_handle far = 0, near = 0;
    uint32_t place;
    int error = hybrid->part[FAR].transport->peer(hybrid->part[FAR].instance, address, &far);
    const bool only_near = error == LLM_EINVAL;

    /*
     * The network part decides what is a network address, and is asked until the address is resolved; other
     * addresses may exist in shared memory only.
     */
    if (only_near)
        error = hybrid->part[NEAR].transport->peer(hybrid->part[NEAR].instance, address, &near);
    if (error != LLM_OK || (error = lli_peers_place(&hybrid->peers, address, &place)) != LLM_OK)
        return error;
    peer = &hybrid->peer[place];
    if (!peer->known) {
        *peer = (struct hybrid_peer){.known = true, .part = FAR, .handle = far};
        if (only_near ||
            hybrid->part[NEAR].transport->peer(hybrid->part[NEAR].instance, address, &near) == LLM_OK)
            *peer = (struct hybrid_peer){.known = true, .part = NEAR, .handle = near};
    }
    *handle = HYBRID_PEER | place;
    return LLM_OK;
}

static void hybrid_forget(void *instance, const struct lli_address *address)
{
    struct hybrid *hybrid = instance;
    uint32_t place;

    for (int i = 0; i < PARTS; i++)
        if (hybrid->part[i].transport->forget != NULL)
            hybrid->part[i].transport->forget(hybrid->part[i].instance, address);
    if (lli_peers_remove(&hybrid->peers, address, &place))
        hybrid->peer[place].known = false;
}

/* Packets from shared memory are from this host. */
static bool hybrid_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    const struct hybrid *hybrid = instance;
    const struct hybrid_part *far = &hybrid->part[FAR];
    struct lli_in inner = *packet;

    if (!(packet->buffer & HYBRID_FAR) || far->transport->came_from == NULL)
        return true;
    inner.buffer &= ~HYBRID_FAR;
    if (packet->from != LLI_HANDLE_UNICAST)
        inner.from = hybrid->receivers[packet->from].handle[FAR];
    return far->transport->came_from(far->instance, &inner, address);
}

/* ------------------------------------------------------------------------------------------------ sending */

static int hybrid_post(void *instance, const struct lli_out *packets, int count)
{
    struct hybrid *hybrid = instance;
    const int room = HYBRID_POST_MAX - (int)(hybrid->taken - hybrid->done);
    const int taken = count < room ? count : room;

    for (int i = 0; i < taken; i++)
        hybrid->out[hybrid->taken++ % HYBRID_POST_MAX].out = packets[i];
    return taken;
}

/* Translates a packet for a part. False: the part does not send it. */
static bool give_translate(const struct hybrid *hybrid, int which, const struct lli_out *out,
                           struct lli_out *inner)
{
    const struct hybrid_peer *peer;

    *inner = *out;
    if (out->to == HYBRID_LOST)
        return false;
    if (!(out->to & HYBRID_PEER)) {
        inner->to = hybrid->senders[out->to].handle[which];
        return true;
    }
    peer = &hybrid->peer[out->to & ~HYBRID_PEER];
    inner->to = peer->handle;
    return peer->part == which;
}

/* Offers the next packets to a part. False: the part is full. */
static bool give_some(struct hybrid *hybrid, int which)
{
    struct hybrid_part *part = &hybrid->part[which];
    struct lli_out inner[HYBRID_GIVE];
    uint64_t at[HYBRID_GIVE];
    uint64_t end = part->given;
    int count = 0, taken = 0;

    while (end < hybrid->taken && count < HYBRID_GIVE) {
        if (give_translate(hybrid, which, &hybrid->out[end % HYBRID_POST_MAX].out, &inner[count]))
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
        hybrid->out[part->given % HYBRID_POST_MAX].mark[which] = part->posted;
    }
    return taken == count;
}

/* Offers all queued packets to a part, flushing it whenever it is full. */
static void give(struct hybrid *hybrid, int which)
{
    struct hybrid_part *part = &hybrid->part[which];

    part->stuck = false;
    while (part->given < hybrid->taken) {
        if (give_some(hybrid, which))
            continue;
        part->stuck = part->transport->flush(part->instance) != LLM_OK;
        if (part->stuck)
            return;
    }
    part->stuck = part->transport->flush(part->instance) != LLM_OK;
}

static uint64_t hybrid_reap(void *instance)
{
    struct hybrid *hybrid = instance;
    uint64_t end = lli_min(hybrid->part[NEAR].given, hybrid->part[FAR].given);
    uint64_t reaped[PARTS];

    if (hybrid->done == end)
        return hybrid->done;
    for (int i = 0; i < PARTS; i++)
        reaped[i] = hybrid->part[i].transport->reap(hybrid->part[i].instance);
    for (; hybrid->done < end; hybrid->done++) {
        const struct hybrid_out *out = &hybrid->out[hybrid->done % HYBRID_POST_MAX];

        if (out->mark[NEAR] > reaped[NEAR] || out->mark[FAR] > reaped[FAR])
            break;
    }
    return hybrid->done;
}

static int hybrid_flush(void *instance)
{
    struct hybrid *hybrid = instance;

    give(hybrid, NEAR);
    give(hybrid, FAR);
    (void)hybrid_reap(hybrid);
    return hybrid->part[NEAR].stuck || hybrid->part[FAR].stuck ? LLM_EAGAIN : LLM_OK;
}

/* ---------------------------------------------------------------------------------------------- receiving */

static lli_handle receive_from(const struct hybrid *hybrid, int which, lli_handle inner)
{
    uint32_t place = 0;

    if (inner == LLI_HANDLE_UNICAST)
        return inner;
    while (place < hybrid->receivers_used &&
           (hybrid->receivers[place].users == 0 || hybrid->receivers[place].handle[which] != inner))
        place++;
    assert(place < hybrid->receivers_used);
    return place;
}

static int receive_part(struct hybrid *hybrid, int which, struct lli_in *packets, int max)
{
    const struct hybrid_part *part = &hybrid->part[which];
    const int count = part->transport->receive(part->instance, packets, max);

    for (int i = 0; i < count; i++) {
        assert(!(packets[i].buffer & HYBRID_FAR));
        packets[i].from = receive_from(hybrid, which, packets[i].from);
        packets[i].buffer |= which == FAR ? HYBRID_FAR : 0;
    }
    return count;
}

/*
 * Polls the network first but delivers its packets last, when shared memory is empty. Local packets are
 * written to shared memory before they are sent on the network, so a packet lost on the network is never
 * reported missing while its copy is still unread in shared memory.
 */
static int hybrid_receive(void *instance, struct lli_in *packets, int max)
{
    struct hybrid *hybrid = instance;
    int count = 0, some;

    if (hybrid->buffered_next == hybrid->buffered_count &&
        (hybrid->near_empty || ++hybrid->turn % HYBRID_FAR_TURNS == 0)) {
        hybrid->buffered_next = 0;
        hybrid->buffered_count = receive_part(hybrid, FAR, hybrid->buffered, HYBRID_BUFFERED_MAX);
    }
    do {
        some = receive_part(hybrid, NEAR, packets + count, max - count);
        count += some;
    } while (some > 0 && count < max);
    hybrid->near_empty = count == 0;
    while (some == 0 && count < max && hybrid->buffered_next < hybrid->buffered_count)
        packets[count++] = hybrid->buffered[hybrid->buffered_next++];
    return count;
}

static int hybrid_arm(void *instance)
{
    struct hybrid *hybrid = instance;

    for (int i = 0; i < PARTS; i++)
        hybrid->part[i].transport->arm(hybrid->part[i].instance);
    return hybrid->epoll;
}

/* -------------------------------------------------------------------------------------------------- table */

static const struct lli_counter hybrid_counters[] = {{NULL, 0}};

static const struct lli_transport *hybrid_inner(const void *instance, int index, const void **inner_instance)
{
    const struct hybrid *hybrid = instance;

    if (index >= PARTS)
        return NULL;
    *inner_instance = hybrid->part[index].instance;
    return hybrid->part[index].transport;
}

const struct lli_transport lli_transport_hybrid = {
    .scheme = "shm+",
    .size = sizeof(struct hybrid),
    .counters = hybrid_counters,
    .open = hybrid_open,
    .close = hybrid_close,
    .abandon = hybrid_abandon,
    .region = hybrid_region,
    .region_map = hybrid_region_map,
    .region_end = hybrid_region_end,
    .join = hybrid_join,
    .leave = hybrid_leave,
    .address = hybrid_address,
    .peer = hybrid_peer,
    .forget = hybrid_forget,
    .came_from = hybrid_came_from,
    .post = hybrid_post,
    .flush = hybrid_flush,
    .reap = hybrid_reap,
    .receive = hybrid_receive,
    .release = hybrid_release,
    .arm = hybrid_arm,
    .inner = hybrid_inner,
};
