/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An adversary off the path, who knows the addresses, and at most the low half of the identities of sessions.
 */
#include <stdlib.h>

#include "world.h"

enum { FORGE_PACKETS = 24, FORGE_SIZE_MAX = 2048 };

/* Returns the identity of a nonexistent session, or of a real one with a wrong high half. */
static uint64_t forge_session(struct sim_world *world, uint32_t tag, bool foreign)
{
    return foreign ? lli_random(&world->random) : lli_random(&world->random) << 32 | tag;
}

static void forge_ranges(struct sim_world *world, struct lli_wire_range *ranges, uint16_t count)
{
    for (uint16_t i = 0; i < count; i++)
        ranges[i] = (struct lli_wire_range){
            .first = (uint32_t)(world->scenario.start + lli_random_below(&world->random, 2000)),
            .count = (uint32_t)lli_random_below(&world->random, 100),
        };
}

static size_t forge_heartbeat(struct sim_world *world, uint64_t session, uint8_t *packet)
{
    struct lli_wire_heartbeat heartbeat = {.session = session, .address = {.size = 6}};

    heartbeat.start = lli_random(&world->random) >> 30;
    heartbeat.trail = heartbeat.start + lli_random_below(&world->random, 100);
    heartbeat.lead = heartbeat.trail + lli_random_below(&world->random, 100000);
    heartbeat.messages = lli_random(&world->random) >> 20;
    heartbeat.sent_at = lli_random(&world->random);
    heartbeat.interval_us = (uint32_t)lli_random(&world->random);
    heartbeat.rtt_ns = (uint32_t)lli_random(&world->random);
    heartbeat.receivers = (uint32_t)lli_random(&world->random);
    heartbeat.topics = (uint32_t)lli_random_below(&world->random, 100);
    heartbeat.flags = (uint8_t)lli_random_below(&world->random, 4);
    return lli_wire_put_heartbeat(packet, &heartbeat);
}

static size_t forge_status(struct sim_world *world, uint64_t session, uint8_t *packet)
{
    const struct lli_wire_status status = {
        .session = session,
        .receiver = lli_random(&world->random),
        .next = world->scenario.start,
        .highest = world->scenario.start + lli_random_below(&world->random, 1000),
        .flags = (uint8_t)lli_random_below(&world->random, 8),
        .acknowledged_next = lli_random(&world->random),
        .accepts = 0xffff,
    };

    return lli_wire_put_status(packet, &status);
}

/* LVC packet of a known session, to an unknown receiver. */
static size_t forge_kept(struct sim_world *world, uint8_t *packet)
{
    const struct lli_wire_lvc kept = {
        .session = world->sessions[lli_random_below(&world->random, world->sessions_count)]->id,
        .receiver = lli_random(&world->random),
        .number = world->scenario.number,
        .next = world->scenario.number,
        .span = {{0, 0, 0}, {0, SIM_TOPICS_MAX, 0}},
    };

    return lli_wire_put_lvc(packet, &kept, LLI_WIRE_LVC_HEAD);
}

static size_t forge_join(struct sim_world *world, uint64_t session, uint8_t *packet)
{
    struct lli_wire_join join = {.session = session, .receiver = 1, .count = 4};

    join.kind = (uint8_t)lli_random_below(&world->random, 6);
    join.from = (uint8_t)lli_random_below(&world->random, 6);
    if (join.kind == LLI_WIRE_JOIN_LATEST)
        return forge_kept(world, packet);
    join.packet = world->scenario.start;
    join.lead = join.packet + lli_random_below(&world->random, 1000);
    forge_ranges(world, join.ranges, join.count);
    return lli_wire_put_join(packet, &join);
}

/* Notice of a known session, to an unknown receiver. */
static size_t forge_notice(struct sim_world *world, uint8_t *packet)
{
    const struct lli_wire_notice notice = {
        .session = world->sessions[lli_random_below(&world->random, world->sessions_count)]->id,
        .receiver = lli_random(&world->random),
        .decided_at = lli_random(&world->random),
        .lead = world->scenario.start + lli_random_below(&world->random, 1000),
        .standing = (uint8_t)lli_random_below(&world->random, LLI_STANDING_EXPELLED + 1),
        .threshold = 1,
    };

    return lli_wire_put_notice(packet, &notice);
}

/* Builds a packet of a given type. */
static size_t forge_packet(struct sim_world *world, enum lli_wire_type type, uint64_t session,
                           uint8_t *packet)
{
    struct lli_wire_header header = {.type = (uint8_t)type, .tag = (uint32_t)session};
    struct lli_wire_nak nak = {.session = session, .receiver = 1, .count = 4};
    struct lli_wire_reject reject = {.session = session, .reason = LLI_WIRE_GONE, .count = 4};
    const struct lli_wire_query query = {.session = session, .receiver = 1};
    const struct lli_wire_topics topics = {.session = session, .total = 100, .first = 1, .count = 1};
    size_t size = LLI_WIRE_HEADER + lli_random_below(&world->random, FORGE_SIZE_MAX - LLI_WIRE_HEADER);

    switch (type) {
    case LLI_WIRE_HEARTBEAT:
        return forge_heartbeat(world, session, packet);
    case LLI_WIRE_NAK:
        forge_ranges(world, nak.ranges, nak.count);
        return lli_wire_put_nak(packet, &nak);
    case LLI_WIRE_REJECT:
        reject.reason += (uint8_t)lli_random_below(&world->random, 2);
        reject.trail = world->scenario.start + lli_random_below(&world->random, 1000);
        forge_ranges(world, reject.ranges, reject.count);
        return lli_wire_put_reject(packet, &reject);
    case LLI_WIRE_STATUS:
        return forge_status(world, session, packet);
    case LLI_WIRE_TOPICS:
        size = lli_wire_add_topic(packet, LLI_WIRE_TOPICS_HEAD, FORGE_SIZE_MAX, "forged", 6);
        return lli_wire_put_topics(packet, &topics, size);
    case LLI_WIRE_QUERY:
        return lli_wire_put_query(packet, &query);
    case LLI_WIRE_JOIN:
        return forge_join(world, session, packet);
    case LLI_WIRE_NOTICE:
        return forge_notice(world, packet);
    case LLI_WIRE_DATA:
    case LLI_WIRE_CONNECT:
    case LLI_WIRE_ACCEPT:
    case LLI_WIRE_REFUSE:
    case LLI_WIRE_CLOSE:
    case LLI_WIRE_LVC:
        break;
    }
    header.seq = (uint32_t)lli_random(&world->random);
    header.size = (uint16_t)size;
    for (size_t i = LLI_WIRE_HEADER; i < size; i++)
        packet[i] = (uint8_t)lli_random(&world->random);
    /*
     * Last, because the header of DATA extends into the body: with a random `first` nearly all packets would
     * be malformed.
     */
    lli_wire_put_header(packet, &header);
    return size;
}

static void forge_one(struct sim_world *world, const struct sim_fault *fault, bool heartbeat)
{
    uint32_t tag = (uint32_t)world->sessions[lli_random_below(&world->random, world->sessions_count)]->id;
    enum lli_wire_type type = (enum lli_wire_type)(1 + lli_random_below(&world->random, LLI_WIRE_NOTICE));
    struct sim_node *node = &world->nodes[fault->node];
    uint8_t packet[FORGE_SIZE_MAX];
    bool foreign = type == LLI_WIRE_DATA || heartbeat;
    size_t size;

    if (heartbeat)
        type = LLI_WIRE_HEARTBEAT;
    if (type > LLI_WIRE_QUERY)
        type = LLI_WIRE_NOTICE;
    size = forge_packet(world, type, forge_session(world, tag, foreign), packet);
    /* A session unknown to a receiver is believed by its tag: the first one wins. */
    if (!foreign && type == LLI_WIRE_HEARTBEAT) {
        struct lli_rx *rx = NULL;

        for (uint32_t i = 0; node->follower != NULL && i < node->follower->used; i++)
            if (node->follower->sessions[i].tag == tag)
                rx = &node->follower->sessions[i];
        if (rx == NULL || (rx->state != LLI_RX_LIVE && rx->state != LLI_RX_ENDED))
            return;
    }
    if (lli_random_below(&world->random, 4) == 0)
        packet[lli_random_below(&world->random, 4)] ^= (uint8_t)(1u << lli_random_below(&world->random, 8));
    /* A flipped type must not turn the packet into data of a real session. */
    if ((packet[0] & 15) == LLI_WIRE_DATA && !foreign)
        return;
    if (lli_random_below(&world->random, 8) == 0)
        size = lli_random_below(&world->random, size);
    sim_network_forge(&world->network, world->now, fault->node, lli_random_below(&world->random, 2) == 0,
                      packet, (uint32_t)size);
}

void sim_forge(struct sim_world *world, const struct sim_fault *fault)
{
    for (int i = 0; i < FORGE_PACKETS && world->sessions_count > 0; i++)
        forge_one(world, fault, i == 0);
}
