/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver: the table of sessions as in src/api/receiver.c, with the oracle as its application. */
#include <stdlib.h>

#include "check.h"
#include "core/rx/rx_single.h"
#include "world.h"

enum { FOLLOWER_SCRATCH = 1024 };

/* ----------------------------------------------------------------------------------------- start and stop */

static void follower_layout(struct sim_follower *follower, const struct sim_scenario *s,
                            struct lli_arena *arena)
{
    lli_reorder_init(&follower->reorder, s->reorder_bytes, s->packet_max, arena, arena);
    lli_streams_init(&follower->streams, follower->max, arena);
    for (uint32_t i = 0; i < follower->max; i++)
        lli_rx_init(&follower->sessions[i], &follower->config, &follower->reorder, &follower->counters,
                    &follower->random, arena, arena);
}

static void follower_configure(struct sim_follower *follower, const struct sim_scenario *s, uint32_t node)
{
    follower->config = (struct lli_rx_config){
        .receiver = lli_random(&follower->random) | 1,
        .chooses = s->joining,
        .otherwise = (enum lli_rx_otherwise)s->join_else,
        .window_packets = s->window_packets,
        .topics_max = SIM_TOPICS_MAX,
        .message_bytes_max = s->message_bytes_max,
        .nak_delay = s->nak_delay,
        .nak_receivers_immediate = s->nak_receivers_immediate,
        .nak_backoff_min = s->nak_backoff_min,
        .nak_retry_min = s->nak_retry_min,
        .nak_retry_max = s->nak_retry_max,
        .nak_giveup = s->nak_giveup,
        .status = s->status,
        .silence = s->silence,
        .timeout = s->timeout,
        .address = sim_address(node),
        .lines = (int)s->lines,
        .confirms = true,
        .application_acknowledges = lli_random_below(&follower->random, 100) < s->application_percent,
    };
    if (node == s->named) {
        follower->config.name_size = 5;
        memcpy(follower->config.name, "named", 5);
    } else if (sim_scenario_store(s, node) != SIM_STORE_NONE) {
        follower->config.name_size = (uint8_t)snprintf(follower->config.name, sizeof follower->config.name,
                                                       "store-%u", sim_scenario_store(s, node));
    }
}

/*
 * Sets a filter, for a third of them one that selects everything. Draws separate random numbers, so that all
 * other choices of a seed stay.
 */
static void follower_filter(struct sim_follower *follower, const struct sim_scenario *s, uint32_t node)
{
    uint64_t random = s->seed ^ ((uint64_t)node << 32);
    const uint32_t mask = (uint32_t)lli_random_below(&random, 8);

    if (!s->filtering || lli_random_below(&random, 3) == 0)
        return;
    follower->filter.labels_count = 1;
    follower->filter.labels[0] = (struct llm_label_match){mask, mask & (uint32_t)lli_random(&random)};
    lli_filter_finish(&follower->filter);
    follower->config.filter = &follower->filter;
}

/* Sets unordered delivery for two thirds of those that can use it. */
static void follower_order(struct sim_follower *follower, const struct sim_scenario *s, uint32_t node)
{
    uint64_t random = s->seed ^ ((uint64_t)node << 40);

    follower->config.as_it_arrives =
        s->arriving && !follower->config.application_acknowledges && lli_random_below(&random, 3) != 0;
}

void sim_follower_start(struct sim_world *world, struct sim_node *node)
{
    const struct sim_scenario *s = &world->scenario;
    struct sim_follower *follower = sim_memory(sizeof *follower);
    struct lli_arena arena = {.memory = NULL};

    node->follower = follower;
    follower->random = lli_random(&world->random);
    follower->refuses = s->refusing && lli_random_below(&world->random, 2) == 0;
    follower->deadline = LLI_NEVER;
    follower->max = s->faults_count == 0 ? s->transmitters + 1
                                         : s->transmitters + s->faults_count + (s->forging ? 16 : 2);
    follower->sessions = sim_memory(follower->max * sizeof *follower->sessions);
    follower->inbox = sim_memory(s->inbox_packets * sizeof *follower->inbox);
    follower_configure(follower, s, node->index);
    follower->config.former = &follower->former;
    follower->config.streams = s->streams ? &follower->streams : NULL;
    follower->config.resumes = !s->joining;
    follower_filter(follower, s, node->index);
    follower_order(follower, s, node->index);
    sim_seals_start(world, node);
    follower_layout(follower, s, &arena);
    follower->memory = arena.memory = sim_memory(arena.used);
    arena.used = 0;
    follower_layout(follower, s, &arena);
    sim_trace(world, "node %u: a receiver starts%s", node->index,
              follower->refuses ? ", it refuses topics" : "");
}

/* Records the position that an application would have saved. */
static void follower_remember(struct sim_node *node)
{
    const struct sim_follower *follower = node->follower;

    if (follower->follows_count > node->seen_count) {
        node->seen = sim_memory_grow(node->seen, follower->follows_count * sizeof *node->seen);
        memset(node->seen + node->seen_count, 0,
               (follower->follows_count - node->seen_count) * sizeof *node->seen);
        node->seen_count = follower->follows_count;
    }
    for (uint32_t i = 0; i < follower->follows_count; i++)
        if (follower->follows[i].open)
            node->seen[i] = follower->follows[i].expected;
}

void sim_follower_stop(struct sim_world *world, struct sim_node *node)
{
    struct sim_follower *follower = node->follower;

    sim_check_memory(world, node);
    follower_remember(node);
    for (uint32_t i = 0; i < follower->used; i++)
        lli_rx_stop(&follower->sessions[i]);
    if (follower->reorder.used != 0)
        sim_fail(world, "node %u: %u packets are held after all sessions were stopped", node->index,
                 follower->reorder.used);
    while (follower->inbox_count > 0)
        sim_packet_drop(follower->inbox[--follower->inbox_count].packet);
    free(follower->inbox);
    for (uint32_t i = 0; i < follower->follows_count; i++) {
        free(follower->marks[i].bytes);
        free(follower->follows[i].given.bytes);
    }
    free(follower->marks);
    free(follower->follows);
    free(follower->sessions);
    free(follower->memory);
    free(follower->seals);
    free(follower);
    node->follower = NULL;
}

static void follower_send(struct sim_world *world, struct sim_node *node, const struct lli_packet *packet)
{
    uint32_t to;

    if (sim_address_node(&world->network, packet->to, &to))
        sim_network_send(&world->network, world->now, node->index, to, packet->to, packet->data,
                         packet->size);
}

void sim_follower_leave(struct sim_world *world, struct sim_node *node)
{
    struct sim_follower *follower = node->follower;
    struct lli_packet packet;
    uint8_t buffer[FOLLOWER_SCRATCH];

    for (uint32_t i = 0; i < follower->used; i++)
        if (lli_rx_leave(&follower->sessions[i], sim_node_now(world, node), buffer, &packet))
            follower_send(world, node, &packet);
}

/* --------------------------------------------------------------------------------------------- sessions */

static struct lli_rx *follower_find(const struct sim_follower *follower, uint32_t tag)
{
    for (uint32_t i = 0; i < follower->used; i++)
        if (follower->sessions[i].tag == tag && follower->sessions[i].state != LLI_RX_FREE)
            return &follower->sessions[i];
    return NULL;
}

const struct lli_rx *sim_follower_find(const struct sim_follower *follower, const struct sim_session *session)
{
    return follower_find(follower, (uint32_t)session->id);
}

static bool follower_is_staler(const struct lli_rx *a, const struct lli_rx *b)
{
    bool over_a = !lli_rx_is_followed(a), over_b = !lli_rx_is_followed(b);

    return over_a != over_b ? over_a : a->heard_at < b->heard_at;
}

/* Returns a place for a new session, or NULL: all are in use by sessions that are heard. */
static struct lli_rx *follower_place(struct sim_world *world, struct sim_node *node)
{
    struct sim_follower *follower = node->follower;
    struct lli_rx *stalest = NULL;

    for (uint32_t i = 0; i < follower->used; i++) {
        struct lli_rx *rx = &follower->sessions[i];

        if (rx->state == LLI_RX_FREE)
            return rx;
        if (stalest == NULL || follower_is_staler(rx, stalest))
            stalest = rx;
    }
    if (follower->used < follower->max)
        return &follower->sessions[follower->used++];
    if (lli_rx_is_followed(stalest) && !stalest->heard.silent)
        return NULL;
    sim_check_replaced(world, node, stalest);
    lli_rx_replace(stalest);
    return stalest;
}

/* Acknowledges some delivered messages for an application, and all in the end. */
static void follower_acknowledge(struct sim_world *world, struct sim_node *node, struct lli_rx *rx)
{
    struct sim_session *session = NULL;
    uint64_t given;

    for (uint32_t i = 0; i < world->sessions_count; i++)
        if (world->sessions[i]->id == rx->session)
            session = world->sessions[i];
    if (session == NULL || session->index >= node->follower->follows_count || rx->state != LLI_RX_LIVE)
        return;
    given = node->follower->follows[session->index].expected;
    if (lli_random_below(&node->follower->random, 2) == 0 && given > session->first)
        given -= lli_random_below(&node->follower->random, lli_min(given - session->first, 10));
    if (given > session->first && lli_rx_acknowledge(rx, given - 1, sim_node_now(world, node)))
        sim_check_done(world, node, session, given - 1);
}

static void follower_deliver(struct sim_world *world, struct sim_node *node, struct lli_rx *rx)
{
    struct lli_item item;

    while (!world->failed && lli_rx_next(rx, sim_node_now(world, node), &item)) {
        if (item.kind == LLI_ITEM_JOIN) {
            const struct llm_join join = sim_check_choose(world, node, item.event.session);

            lli_rx_begin(rx, &join, sim_node_now(world, node));
            continue;
        }
        sim_check_item(world, node, &item);
        if (item.kind == LLI_ITEM_TOPIC && node->follower->refuses && item.event.topic_id % 3 == 1)
            lli_rx_topic_refuse(rx, item.event.topic_id);
        if (item.kind == LLI_ITEM_EVENT && item.event.kind == LLM_EVENT_SESSION_END &&
            item.event.reason == LLM_REASON_TIMEOUT)
            lli_rx_stop(rx);
    }
}

/*
 * As in an endpoint with one receiver, every other node first tries the fast path for a packet that arrived
 * alone.
 */
static bool follower_handle_lone(struct sim_world *world, struct sim_node *node, struct lli_rx *rx,
                                 const struct sim_event *event)
{
    struct lli_item item = {.kind = LLI_ITEM_MESSAGES, .count = 1};
    const bool plain = rx->pending.plain;

    lli_rx_settle(rx);
    if (plain && !rx->pending.plain)
        sim_fail(world,
                 "node %u: something is to think of in a session that still takes lone packets the short way",
                 node->index);
    if (!event->group || !((rx->tag ^ node->index) & 1) ||
        !lli_rx_single(rx, event->packet->bytes, event->size, 0, sim_node_now(world, node),
                       &item.messages[0]))
        return false;
    sim_check_item(world, node, &item);
    if (!lli_rx_is_idle(rx))
        follower_deliver(world, node, rx);
    return true;
}

/* Decides about a session that may continue a stream, as src/engine/sessions.c does. */
static void follower_stream(struct sim_world *world, struct sim_node *node, struct lli_rx *rx)
{
    struct lli_item item = {.kind = LLI_ITEM_EVENT};
    struct lli_rx *before;

    if (!lli_rx_stream_ask(rx, node->follower->sessions, node->follower->used, &before, &item.event)) {
        if (item.event.kind != 0)
            sim_check_item(world, node, &item);
        return;
    }
    if (before != NULL)
        follower_deliver(world, node, before);
    lli_rx_stream_begin(rx, sim_node_now(world, node));
    follower_deliver(world, node, rx);
}

/* Drops a packet that came on the other line before, as src/engine/sessions.c does. */
static bool follower_is_second(const struct sim_world *world, const struct sim_node *node, struct lli_rx *rx,
                               const struct sim_event *event, const struct lli_wire_header *header)
{
    return world->scenario.lines > 1 && event->group && header->type == LLI_WIRE_DATA &&
           rx->state == LLI_RX_LIVE &&
           lli_rx_line_data(rx, event->line, header->seq, sim_node_now(world, node));
}

static void follower_handle(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct lli_rx_packet packet = {.bytes = event->packet->bytes, .size = event->size, .line = event->line};
    const struct lli_wire_header *header = &packet.header;
    struct lli_rx *rx;
    lli_ns due_at;

    if (lli_wire_get_header(packet.bytes, packet.size, &packet.header, &packet.body, &packet.body_size) !=
        LLI_WIRE_OK)
        return;
    rx = follower_find(node->follower, header->tag);
    if (rx == NULL) {
        if (!event->group || (header->type != LLI_WIRE_DATA && header->type != LLI_WIRE_HEARTBEAT))
            return;
        rx = follower_place(world, node);
        if (rx == NULL)
            return;
        lli_rx_start(rx, header->tag, sim_node_now(world, node));
    }
    due_at = lli_rx_deadline(rx);
    rx->pending.service_due = false;
    if (follower_is_second(world, node, rx, event, header)) {
        if (!rx->pending.service_due && lli_rx_deadline(rx) < due_at)
            sim_fail(world, "node %u: a second copy made something due, and the session does not say so",
                     node->index);
        return;
    }
    if (!follower_handle_lone(world, node, rx, event) && lli_rx_input(rx, &packet, sim_node_now(world, node)))
        follower_deliver(world, node, rx);
    if (lli_rx_asks_stream(rx))
        follower_stream(world, node, rx);
    /* An endpoint checks for due work only where a session asks for it. */
    if (!rx->pending.service_due && lli_rx_deadline(rx) < due_at)
        sim_fail(world, "node %u: a packet of type %u made something due, and the session does not say so",
                 node->index, header->type);
}

/* All of a session but what it shares with others. */
struct follower_session {
    struct lli_rx rx;
    struct lli_rx_filter filter;
    struct lli_rx_lines lines;
    struct lli_rx_known_store stores[LLI_RX_STORES];
};

/*
 * Copies a session without what any packet may change: it may request a check of due work and of the fast path. The
 * position of the item, with a filter, has no meaning.
 */
static void follower_copy(struct follower_session *copy, const struct lli_rx *rx)
{
    /* Bytes between the members are compared, too. */
    memset(copy, 0, sizeof *copy);
    memcpy(&copy->rx, rx, sizeof copy->rx);
    memcpy(&copy->filter, rx->filter, sizeof copy->filter);
    memcpy(&copy->lines, rx->lines, sizeof copy->lines);
    memcpy(copy->stores, rx->store.known, sizeof copy->stores);
    copy->rx.pending.service_due = copy->rx.pending.plain = false;
    copy->filter.given = NULL;
}

void sim_follower_input(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct sim_follower *follower = node->follower;
    struct follower_session before, after;
    struct lli_rx *rx = NULL;

    if (event->forged && event->size >= LLI_WIRE_HEADER) {
        rx = follower_find(follower, lli_load_u32(event->packet->bytes + 4));
        /* Any packet may trigger due work, of which there may be much after a pause. */
        if (rx != NULL && rx->state == LLI_RX_LIVE)
            follower_deliver(world, node, rx);
        if (rx != NULL && rx->state != LLI_RX_LIVE && rx->state != LLI_RX_ENDED)
            rx = NULL;
    }
    if (rx == NULL) {
        follower_handle(world, node, event);
        return;
    }
    follower_copy(&before, rx);
    follower_handle(world, node, event);
    follower_copy(&after, rx);
    if (memcmp(&before, &after, sizeof before) != 0)
        sim_fail(world, "node %u: a forged packet of type %u changed the receiver", node->index,
                 event->packet->bytes[0] & 15u);
}

/* ---------------------------------------------------------------------------------------------- the loop */

void sim_follower_service(struct sim_world *world, struct sim_node *node)
{
    struct sim_follower *follower = node->follower;
    lli_ns now = sim_node_now(world, node);
    const bool sealed = sim_seals_come(follower, now);
    struct lli_packet packet;
    uint8_t buffer[FOLLOWER_SCRATCH];
    uint32_t count = 0;

    for (uint32_t i = 0; i < follower->used; i++) {
        struct lli_rx *rx = &follower->sessions[i];

        if ((rx->state == LLI_RX_JOINING && now >= rx->heard_at + follower->config.timeout) ||
            lli_rx_may_return(rx, now))
            lli_rx_stop(rx);
        if (follower->config.application_acknowledges && lli_random_below(&follower->random, 4) == 0)
            follower_acknowledge(world, node, rx);
        if (sealed)
            follower_deliver(world, node, rx);
        if (now < lli_rx_deadline(rx))
            continue;
        while (lli_rx_control(rx, now, buffer, &packet)) {
            follower_send(world, node, &packet);
            if (++count > 10000) {
                sim_fail(world, "node %u: the receiver's control packets do not end", node->index);
                return;
            }
        }
        follower_deliver(world, node, rx);
    }
}

lli_ns sim_follower_deadline(const struct sim_follower *follower)
{
    lli_ns at = sim_seals_due(follower);

    for (uint32_t i = 0; i < follower->used; i++)
        at = lli_min(at, lli_rx_deadline(&follower->sessions[i]));
    return at;
}
