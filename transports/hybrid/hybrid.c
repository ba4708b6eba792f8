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
#include <string.h>

#include "pair.h"
#include "core/base/types.h"

/* The parts of the pair. */
enum { NEAR, FAR };

enum {
    HYBRID_FAR_TURNS = 8,     /* while shared memory has packets, one call in this many polls the network */
    HYBRID_BUFFERED_MAX = 32, /* packets received from the network at a time */
};

/* lli_in.buffer bit: the packet belongs to the far part. */
#define HYBRID_FAR ((uint64_t)1 << 63)

struct hybrid {
    struct lli_pair pair;
    uint32_t turn;
    bool near_empty; /* shared memory had no packets in the latest call */
    /* Packets from the network, buffered until shared memory is empty. */
    struct lli_in buffered[HYBRID_BUFFERED_MAX];
    int buffered_count;
    int buffered_next;
};

/* ----------------------------------------------------------------------------------------- open and close */

static struct lli_caps hybrid_caps(const struct lli_caps *near, const struct lli_caps *far)
{
    return (struct lli_caps){
        .payload_max = (uint32_t)lli_min(near->payload_max, far->payload_max),
        .post_max = LLI_PAIR_POST_MAX,
        .train_max = far->train_max,
        .headroom = far->headroom,
        .align = (uint32_t)lli_max(near->align, far->align),
        .flags = (near->flags & far->flags) | LLI_CAP_PARTIAL,
        .numa_node = far->numa_node,
    };
}

static int hybrid_set_up(struct lli_pair *pair, const struct lli_transport_config *config)
{
    struct llm_options options = *config->options;
    struct lli_transport_config far = *config, near = *config;
    struct lli_address address = {.size = 0};
    int error = lli_pair_init(pair, config, "shm+", HYBRID_FAR);

    if (error != LLM_OK)
        return error;
    far.scheme = config->scheme + strlen("shm+");
    near.scheme = "shm";
    pair->part[FAR].transport = config->registry->find(far.scheme);
    pair->part[NEAR].transport = config->registry->find(near.scheme);
    if (pair->part[FAR].transport == NULL || config->registry->is_named(far.scheme))
        return lli_fail(pair->log, LLM_ESCHEME,
                        "scheme \"%s\": after shm+ comes the transport of a network, such as udp",
                        config->scheme);
    error = lli_pair_open_part(pair, FAR, &far);
    if (error == LLM_OK)
        error = pair->part[FAR].transport->address(pair->part[FAR].instance, &address);
    if (error != LLM_OK)
        return error;
    options.mtu = pair->part[FAR].caps.payload_max;
    near.options = &options;
    near.address = &address;
    return lli_pair_open_part(pair, NEAR, &near);
}

static int hybrid_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct lli_pair *pair = instance;
    const int error = hybrid_set_up(pair, config);

    if (error != LLM_OK)
        lli_pair_close(pair);
    else
        *caps = hybrid_caps(&pair->part[NEAR].caps, &pair->part[FAR].caps);
    return error;
}

/* ----------------------------------------------------------------------------------------- join and leave */

/* Releases buffered packets of a group that was left. */
static void buffered_drop(struct hybrid *hybrid, lli_handle group)
{
    int remaining = 0;

    for (int i = hybrid->buffered_next; i < hybrid->buffered_count; i++) {
        if (hybrid->buffered[i].from == group)
            lli_pair_release(hybrid, &hybrid->buffered[i], 1);
        else
            hybrid->buffered[remaining++] = hybrid->buffered[i];
    }
    hybrid->buffered_next = 0;
    hybrid->buffered_count = remaining;
}

static int hybrid_join(void *instance, const struct lli_group *group, enum lli_join_mode mode,
                       lli_handle *handle)
{
    struct llm_options options = *group->options;
    /* Networks allow any number of transmitters per group. */
    const struct lli_group near = {.host = group->host,
                                   .port = group->port,
                                   .options = &options,
                                   .values = group->values,
                                   .shared = true};
    const struct lli_group *const groups[] = {[NEAR] = &near, [FAR] = group};

    options.source[0] = '\0';
    return lli_pair_join(instance, groups, mode, handle);
}

static void hybrid_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct hybrid *hybrid = instance;

    if (mode == LLI_JOIN_RECEIVE && hybrid->pair.receivers[handle].users == 1)
        buffered_drop(hybrid, handle);
    lli_pair_leave(hybrid, handle, mode);
}

/* ----------------------------------------------------------------------------------------- address, peers */

static int hybrid_address(void *instance, struct lli_address *address)
{
    const struct lli_pair_part *far = &((const struct lli_pair *)instance)->part[FAR];

    return far->transport->address(far->instance, address);
}

static int part_peer(struct lli_pair *pair, int which, const struct lli_address *address, lli_handle *handle)
{
    return pair->part[which].transport->peer(pair->part[which].instance, address, handle);
}

static int hybrid_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    struct lli_pair *pair = instance;
    struct lli_pair_peer *peer;
    lli_handle far = 0, near = 0;
    uint32_t place;
    int error = part_peer(pair, FAR, address, &far);
    const bool only_near = error == LLM_EINVAL;

    /*
     * The network part decides what is a network address, and is asked until the address is resolved; other
     * addresses may exist in shared memory only.
     */
    if (only_near)
        error = part_peer(pair, NEAR, address, &near);
    if (error != LLM_OK || (error = lli_peers_place(&pair->peers, address, &place)) != LLM_OK)
        return error;
    peer = &pair->peer[place];
    if (!peer->known) {
        *peer = (struct lli_pair_peer){.known = true, .part = FAR, .handle = far};
        if (only_near || part_peer(pair, NEAR, address, &near) == LLM_OK)
            *peer = (struct lli_pair_peer){.known = true, .part = NEAR, .handle = near};
    }
    *handle = LLI_PAIR_PEER | place;
    return LLM_OK;
}

/* Packets from shared memory are from this host. */
static bool hybrid_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    return lli_pair_part_of(instance, packet) == NEAR || lli_pair_came_from(instance, packet, address);
}

/* ---------------------------------------------------------------------------------------------- receiving */

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
        hybrid->buffered_count = lli_pair_receive(&hybrid->pair, FAR, hybrid->buffered, HYBRID_BUFFERED_MAX);
    }
    do {
        some = lli_pair_receive(&hybrid->pair, NEAR, packets + count, max - count);
        count += some;
    } while (some > 0 && count < max);
    hybrid->near_empty = count == 0;
    while (some == 0 && count < max && hybrid->buffered_next < hybrid->buffered_count)
        packets[count++] = hybrid->buffered[hybrid->buffered_next++];
    return count;
}

/* -------------------------------------------------------------------------------------------------- table */

static const struct lli_counter hybrid_counters[] = {{NULL, 0}};

const struct lli_transport lli_transport_hybrid = {
    .scheme = "shm+",
    .size = sizeof(struct hybrid),
    .counters = hybrid_counters,
    .open = hybrid_open,
    .close = lli_pair_close,
    .abandon = lli_pair_abandon,
    .region = lli_pair_region,
    .region_map = lli_pair_region_map,
    .region_end = lli_pair_region_end,
    .join = hybrid_join,
    .leave = hybrid_leave,
    .address = hybrid_address,
    .peer = hybrid_peer,
    .forget = lli_pair_forget,
    .came_from = hybrid_came_from,
    .post = lli_pair_post,
    .flush = lli_pair_flush,
    .reap = lli_pair_reap,
    .receive = hybrid_receive,
    .release = lli_pair_release,
    .arm = lli_pair_arm,
    .inner = lli_pair_inner,
};
