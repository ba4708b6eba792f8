/* SPDX-License-Identifier: Apache-2.0 */
/* A transmitter and the application above it. */
#include <stdlib.h>

#include "check.h"
#include "world.h"

enum { SENDER_SCRATCH = 1024, SENDER_POST = 32 };

/* Maximum burst of repairs after a pause, as in src/core/tx/tx_session.c. */
#define SENDER_BURST ((uint64_t)1 << 20)

/* ---------------------------------------------------------------------------------------------- messages */

static uint64_t message_word(uint64_t session, uint64_t number, uint32_t at)
{
    return (session ^ number * 0xd6e8feb86659fd93u) + at * 0xff51afd7ed558ccdu;
}

void sim_message_fill(uint8_t *data, uint32_t size, uint64_t session, uint64_t number)
{
    for (uint32_t at = 0; at < size; at += 8) {
        uint64_t word = message_word(session, number, at);

        memcpy(data + at, &word, size - at < 8 ? size - at : 8);
    }
}

bool sim_message_is(const uint8_t *data, uint32_t size, uint64_t session, uint64_t number)
{
    for (uint32_t at = 0; at < size; at += 8) {
        uint64_t word = message_word(session, number, at);

        if (memcmp(data + at, &word, size - at < 8 ? size - at : 8) != 0)
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------- start and stop */

static struct sim_session *session_new(struct sim_world *world, uint32_t node)
{
    struct sim_session *session = sim_memory(sizeof *session);

    session->index = world->sessions_count++;
    session->id = lli_random(&world->random);
    session->node = node;
    session->opened_at = world->now;
    session->alive = true;
    session->first = session->end = world->scenario.number;
    session->start = session->trail = world->scenario.start;
    session->topics = world->scenario.topics;
    for (uint32_t i = 0; i < session->topics; i++)
        (void)snprintf(session->names[i], sizeof session->names[i], "session %u/%.*s%u", session->index,
                       (int)(i % 24), "a-rather-long-name-of-a-topic", i);
    world->sessions = sim_memory_grow(world->sessions, world->sessions_count * sizeof *world->sessions);
    world->sessions[session->index] = session;
    sim_streams_open(world, session);
    return session;
}

static struct lli_tx_config sender_config(struct sim_world *world, const struct sim_session *session)
{
    const struct sim_scenario *s = &world->scenario;
    struct lli_flow_config flow = s->flow;

    flow.rate = world->rate.bytes_per_s;
    return (struct lli_tx_config){
        .session = session->id,
        .history =
            {
                .bytes = s->history_bytes,
                .packets = s->history_packets,
                .packet_max = s->packet_max,
                .align = 64,
                .start = s->start,
            },
        .receivers_max = s->receivers_max,
        .topics_max = SIM_TOPICS_MAX,
        .nak_receivers_immediate = s->nak_receivers_immediate,
        .repair_percent = s->repair_percent,
        .repair_bytes_per_s = s->repair_bytes_per_s,
        .repair_rate = world->rate.repair_bytes_per_s,
        .repair_linger = s->repair_linger,
        .replay_bytes_per_s = s->replay_bytes_per_s,
        .history_ns = s->history_ns,
        .heartbeat_min = s->heartbeat_min,
        .heartbeat_max = s->heartbeat_max,
        .heartbeat_busy = s->heartbeat_busy,
        .status = s->status,
        .flow = flow,
        .slow = s->slow,
        .address = sim_address(session->node),
        .confirms = true,
        .key = {{session->id, s->seed}},
        .stream = session->stream,
        .stream_base = session->base,
        .stream_term = session->term,
    };
}

static void sender_send_later(struct sim_world *world, const struct sim_node *node, lli_ns after)
{
    struct sim_event event = {.at = world->now + after, .kind = SIM_SEND, .node = node->index};

    event.value = node->sender->session->index;
    sim_events_add(&world->events, event);
}

void sim_sender_start(struct sim_world *world, struct sim_node *node)
{
    struct sim_sender *sender = sim_memory(sizeof *sender);
    struct lli_arena arena = {.memory = NULL};
    struct lli_tx_config config;

    node->sender = sender;
    sender->session = session_new(world, node->index);
    sender->left = world->scenario.messages;
    sender->opened_at = sim_node_now(world, node);
    config = sender_config(world, sender->session);
    lli_tx_init(&sender->tx, &config, &arena, 0);
    sender->memory = arena.memory = aligned_alloc(64, lli_round_up(arena.used, 64));
    memset(arena.memory, 0, arena.used);
    arena.used = 0;
    lli_tx_init(&sender->tx, &config, &arena, sender->opened_at);
    sim_rates_start(world, node);
    if (world->scenario.number != 0) {
        /* As if this many messages had been sent long ago. */
        sender->tx.pack.number = world->scenario.number;
        sender->tx.opened_at -= 2 * LLI_TX_YOUNG;
    }
    sim_trace(world, "node %u opens session %u, %016llx", node->index, sender->session->index,
              (unsigned long long)sender->session->id);
    /* To measure suppression, the receivers are known before the first loss. */
    sender_send_later(world, node,
                      world->scenario.suppression ? 300 * SIM_MS : lli_random_below(&world->random, SIM_MS));
}

void sim_sender_stop(struct sim_world *world, struct sim_node *node)
{
    struct sim_session *session = node->sender->session;

    (void)world;
    session->trail = node->sender->tx.history.trail;
    session->alive = false;
    for (int i = 0; i < SIM_ASSURED_MAX; i++)
        free(node->sender->assured[i].ring);
    for (int i = 0; i < SIM_TOPICS_MAX; i++)
        free(node->sender->kept[i]);
    free(node->sender->lvc_memory);
    free(node->sender->memory);
    free(node->sender);
    node->sender = NULL;
}

/* --------------------------------------------------------------------------------------------------- send */

static uint32_t sender_size(struct sim_world *world, const struct lli_tx *tx)
{
    const struct sim_scenario *s = &world->scenario;
    uint32_t max = (uint32_t)lli_min(s->size_max, lli_tx_message_max(tx));
    uint32_t size = (uint32_t)lli_random_below(&world->random, (uint64_t)max + 1);

    /* Most sizes are small; others are near a longer header or a full packet. */
    switch (lli_random_below(&world->random, 8)) {
    case 0:
        return (uint32_t)lli_min(max, 120 + lli_random_below(&world->random, 16));
    case 1:
        return (uint32_t)lli_min(max, s->packet_max - 32 + lli_random_below(&world->random, 48));
    case 2:
        return (uint32_t)lli_min(max, lli_random_below(&world->random, 4));
    case 3:
        return size;
    default:
        return s->sizes == SIM_SIZES_LARGE ? size : size / 4;
    }
}

static void sender_note(const struct sim_world *world, struct sim_session *session, lli_seq seq,
                        uint32_t topic, uint32_t size)
{
    size_t index = (size_t)(session->end++ - session->first);

    if (index >= session->room) {
        session->room = session->room == 0 ? 256 : session->room * 2;
        session->messages = sim_memory_grow(session->messages, session->room * sizeof *session->messages);
    }
    session->messages[index] =
        (struct sim_message){.seq = seq, .topic = topic, .size = size, .at = world->now};
}

/* Now and then an application leaves numbers out. */
static void sender_skip(struct sim_world *world, struct sim_sender *sender)
{
    struct lli_tx *tx = &sender->tx;
    uint32_t count;

    if (!world->scenario.skipping || lli_tx_is_blocked(tx) || lli_random_below(&world->random_skip, 12) != 0)
        return;
    count = 1 + (uint32_t)lli_random_below(
                    &world->random_skip,
                    lli_random_below(&world->random_skip, 200) == 0 ? LLI_FRAME_NUMBERS_MAX : 20);
    if (!lli_pack_skip(&tx->pack, count, lli_tx_busy(tx)))
        return;
    while (count-- > 0) {
        sender_note(world, sender->session, tx->history.next - 1, 0, 0);
        sender->session->messages[sender->session->end - 1 - sender->session->first].skipped = true;
    }
}

static void sender_assure(struct sim_world *world, struct sim_sender *sender, uint32_t id)
{
    const struct lli_ack_rule *rule = &world->scenario.assurance;
    uint64_t places = 1;

    while (places < rule->messages_max)
        places *= 2;
    lli_ack_topic_init(&sender->assured[id], id, sender->session->names[id]);
    if (!lli_tx_assure(&sender->tx, &sender->assured[id], rule,
                       sim_memory(places * sizeof(struct lli_ack_message)), places))
        sim_fail(world, "node %u: topic %u is not assured", sender->session->node, id);
}

/* Gives a topic a cache from now on, before its first message. */
static void sender_keep(const struct sim_world *world, struct sim_sender *sender, uint32_t id)
{
    const struct sim_scenario *s = &world->scenario;
    const uint32_t bytes_max = s->size_max + LLI_FRAME_ATTRIBUTES_MAX;
    struct lli_arena arena = {.memory = NULL};
    struct lli_lvc measured;

    if (sender->lvc_memory == NULL) {
        lli_lvc_init(&measured, SIM_TOPICS_MAX, &arena);
        sender->lvc_memory = aligned_alloc(64, lli_round_up(arena.used, 64));
        memset(sender->lvc_memory, 0, lli_round_up(arena.used, 64));
    }
    arena = (struct lli_arena){.memory = sender->lvc_memory};
    sender->kept[id] = sim_memory(sizeof **sender->kept + lli_lvc_ring_size(s->keeps, bytes_max));
    *sender->kept[id] = (struct lli_lvc_topic){id, s->keeps, bytes_max, 0, (uint8_t *)(sender->kept[id] + 1)};
    lli_tx_lvc_begin(&sender->tx, sender->kept[id], &arena);
}

static void sender_kept(struct sim_sender *sender, uint32_t topic, uint32_t label, const uint8_t *data,
                        uint32_t size)
{
    const struct lli_pack_attributes attributes = {
        .label = label, .size = 7, .frame = {LLI_FRAME_ATTRIBUTES, 4, 0, (uint8_t)label}};
    const struct iovec piece = {(void *)(uintptr_t)data, size};

    if (sender->kept[topic] != NULL)
        lli_tx_lvc_add(&sender->tx, sender->kept[topic], label != 0 ? &attributes : NULL, &piece, size);
}

/* Opens the topics one by one, as an application would; the first at once. */
static bool sender_topic(struct sim_world *world, struct sim_sender *sender)
{
    uint32_t count = sender->tx.topics.count, id;
    bool transient;

    if (count == sender->session->topics || (count > 0 && lli_random_below(&world->random, 4) != 0))
        return count > 0;
    transient = sim_is_transient(world, sender->session, count);
    if ((transient ? lli_tx_topic_add_transient
                   : lli_tx_topic_add)(&sender->tx, sender->session->names[count], &id) != LLM_OK)
        return count > 0;
    sender->topics[id] = (struct lli_pack_topic){.id = id,
                                                 .whole = lli_random_below(&world->random, 3) == 0,
                                                 .unreliable = sim_is_unreliable(world, sender->session, id),
                                                 .transient = transient};
    if (sender->topics[id].unreliable)
        lli_pack_unreliable(&sender->tx.pack, id);
    if (id < world->scenario.assured)
        sender_assure(world, sender, id);
    if (sim_is_kept(world, sender->session, id))
        sender_keep(world, sender, id);
    return true;
}

static bool sender_claim(struct sim_world *world, struct sim_sender *sender,
                         const struct lli_pack_topic *topic, uint32_t size)
{
    struct lli_tx *tx = &sender->tx;
    lli_seq seq = tx->history.next;
    uint32_t used = size - (uint32_t)lli_random_below(&world->random, size / 8 + 1);
    uint8_t *bytes = lli_pack_claim(&tx->pack, topic, size, lli_tx_busy(tx));

    if (bytes == NULL)
        return false;
    if (lli_random_below(&world->random, 10) == 0) {
        lli_pack_abort(&tx->pack);
        return true;
    }
    sim_message_fill(bytes, used, sender->session->id, tx->pack.number);
    lli_pack_commit(&tx->pack, used);
    sender_kept(sender, topic->id, 0, tx->pack.at - used, used);
    sender_note(world, sender->session, seq, topic->id, used);
    if (topic->id < world->scenario.assured)
        lli_tx_assured(tx, &sender->assured[topic->id], seq, used);
    return true;
}

/*
 * Returns runs of equal labels, so that whole packets are skipped, with messages without a label between
 * them.
 */
static uint32_t sender_label(const struct sim_world *world, const struct lli_tx *tx, uint32_t size)
{
    uint64_t hash = (tx->pack.number / 12) ^ tx->config.session;

    if (!world->scenario.filtering || tx->pack.number % 17 == 0 ||
        size + LLI_FRAME_ATTRIBUTES_MAX > lli_tx_message_max(tx))
        return 0;
    return (uint32_t)lli_random(&hash) & 7;
}

static bool sender_pack(struct lli_pack *pack, const struct lli_pack_topic *topic, const struct iovec *pieces,
                        uint32_t size, uint32_t label, lli_seq busy)
{
    struct lli_pack_attributes attributes = {
        .label = label, .size = 7, .frame = {LLI_FRAME_ATTRIBUTES, 4, 0, (uint8_t)label}};
    bool packed;

    /*
     * One in three takes the fast path of single-message packets, if possible. All of them are in one piece.
     */
    if (label == 0 && pack->number % 3 == 0) {
        lli_pack_prepare(pack, busy);
        if (lli_pack_may_be_single(pack, size)) {
            uint8_t *packet = pack->prepared;

            lli_pack_single_end(pack, packet, lli_pack_single(pack, packet, topic, pieces->iov_base, size));
            return true;
        }
    }
    if (label != 0)
        lli_pack_attribute(pack, &attributes);
    packed = lli_pack_message(pack, topic, pieces, size, busy);
    if (label != 0)
        lli_pack_attribute(pack, NULL);
    return packed;
}

/* Sends one message; false if there is no room for it. */
static bool sender_message(struct sim_world *world, struct sim_sender *sender)
{
    struct lli_tx *tx = &sender->tx;
    const struct lli_pack_topic *topic = &sender->topics[lli_random_below(&world->random, tx->topics.count)];
    uint32_t size = sender_size(world, tx),
             cut = (uint32_t)lli_random_below(&world->random, (uint64_t)size + 1);
    const struct iovec pieces[] = {{world->scratch, cut}, {world->scratch + cut, size - cut}};
    const uint32_t label = sender_label(world, tx, size);
    lli_seq seq = tx->history.next;
    bool idle = tx->sent == tx->history.next && tx->inflight.first == UINT64_MAX;

    if (lli_tx_is_blocked(tx) ||
        (topic->id < world->scenario.assured && !lli_ack_topic_allows(&sender->assured[topic->id], size)))
        return false;
    if (world->scenario.claims && size <= lli_pack_whole_max(&tx->pack) &&
        lli_random_below(&world->random, 2) == 0)
        return sender_claim(world, sender, topic, size);
    sim_message_fill(world->scratch, size, sender->session->id, tx->pack.number);
    if (!sender_pack(&tx->pack, topic, pieces, size, label, lli_tx_busy(tx))) {
        if (idle)
            sim_fail(world, "node %u: a message of %u bytes is refused though nothing waits",
                     sender->session->node, size);
        return false;
    }
    sender_kept(sender, topic->id, label, world->scratch, size);
    sender_note(world, sender->session, seq, topic->id, size);
    sender->session->messages[sender->session->end - 1 - sender->session->first].label = label;
    if (topic->id < world->scenario.assured)
        lli_tx_assured(tx, &sender->assured[topic->id], seq, size);
    return true;
}

/* Posts sealed packets to the network, which may not accept all. */
static void sender_post(struct sim_world *world, struct sim_node *node)
{
    struct sim_sender *sender = node->sender;
    struct lli_packet packets[SENDER_POST];
    bool reluctant = world->scenario.back_pressure && !world->network.healed;
    int count, taken;

    do {
        count = taken = lli_tx_unsent(&sender->tx, sim_node_now(world, node), packets, SENDER_POST);
        if (reluctant && lli_random_below(&world->random, 4) == 0)
            taken = (int)lli_random_below(&world->random, (uint64_t)count + 1);
        for (int i = 0; i < taken; i++) {
            sim_network_send(&world->network, world->now, node->index, SIM_GROUP, NULL, packets[i].data,
                             packets[i].size);
            sender->data_bytes += packets[i].size;
            sim_rates_posted(world, node, packets[i].size);
        }
        lli_tx_sent(&sender->tx, taken, sim_node_now(world, node));
    } while (lli_tx_may_follow(&sender->tx, count, taken));
    if (taken == count)
        sim_rates_held(world, node);
    else
        sender->held_until = LLI_NEVER;
    if (!reluctant || lli_random_below(&world->random, 2) == 0)
        lli_tx_reaped(&sender->tx, true);
}

void sim_sender_send(struct sim_world *world, struct sim_node *node)
{
    const struct sim_scenario *s = &world->scenario;
    struct sim_sender *sender = node->sender;
    uint64_t burst = 1 + lli_random_below(&world->random, s->burst);

    while (sender->left > 0 && burst-- > 0 && sender_topic(world, sender)) {
        sender_skip(world, sender);
        if (!sender_message(world, sender))
            break;
        sender->left--;
        /* Each in its own packet, or packed together. */
        if (lli_random_below(&world->random, 4) == 0)
            lli_pack_flush(&sender->tx.pack);
    }
    sender->session->trail = sender->tx.history.trail;
    lli_tx_seal(&sender->tx, sim_node_now(world, node));
    sender_post(world, node);
    if (sender->left > 0 && world->now < s->traffic)
        sender_send_later(world, node, 1 + lli_random_below(&world->random, 2 * s->pause_mean));
}

/* ---------------------------------------------------------------------------------------------- the loop */

void sim_sender_input(struct sim_world *world, struct sim_node *node, const struct sim_event *event)
{
    struct sim_sender *sender = node->sender;
    struct lli_wire_header header;
    struct lli_tx before;
    const uint8_t *body;
    size_t body_size;

    if (event->group ||
        lli_wire_get_header(event->packet->bytes, event->size, &header, &body, &body_size) != LLI_WIRE_OK ||
        header.tag != (uint32_t)sender->session->id)
        return;
    before = sender->tx;
    lli_tx_input(&sender->tx, &header, body, body_size, sim_node_now(world, node));
    if (event->forged) {
        before.counters = sender->tx.counters;
        if (memcmp(&before, &sender->tx, sizeof before) != 0)
            sim_fail(world, "node %u: a forged packet of type %u changed the transmitter", node->index,
                     header.type);
    }
    if (sender->tx.members.count > sender->tx.members.limit)
        sim_fail(world, "node %u: %u members, at most %u", node->index, sender->tx.members.count,
                 sender->tx.members.limit);
}

static void sender_repair(struct sim_world *world, struct sim_node *node)
{
    struct sim_sender *sender = node->sender;
    struct lli_packet packet;
    lli_ns now = sim_node_now(world, node);
    uint32_t to = SIM_GROUP;

    while (!world->failed && lli_tx_repair(&sender->tx, now, &packet)) {
        sender->repair_bytes += packet.size;
        if (packet.to == NULL || sim_address_node(&world->network, packet.to, &to))
            sim_network_send(&world->network, world->now, node->index, to, packet.to, packet.data,
                             packet.size);
        if (packet.to != NULL)
            sim_check_repair_to(world, node, packet.to);
        to = SIM_GROUP;
        lli_tx_repaired(&sender->tx, now);
        sim_check_repairs(world, node, SENDER_BURST);
        sim_rates_repaired(world, node, packet.size);
    }
    sim_rates_repairs_held(world, node);
}

static void sender_replay(struct sim_world *world, struct sim_node *node)
{
    struct sim_sender *sender = node->sender;
    struct lli_packet packet;
    lli_ns now = sim_node_now(world, node);
    uint32_t to;

    while (!world->failed && lli_tx_replay(&sender->tx, now, &packet)) {
        sender->replay_bytes += packet.size;
        sim_check_replay(world, node, packet.to, sender->tx.replay.pacer.burst);
        if (!world->failed && sim_address_node(&world->network, packet.to, &to))
            sim_network_send(&world->network, world->now, node->index, to, packet.to, packet.data,
                             packet.size);
        lli_tx_replayed(&sender->tx);
    }
}

/* The same for cached messages. */
static void sender_replay_kept(struct sim_world *world, struct sim_node *node)
{
    struct sim_sender *sender = node->sender;
    uint8_t buffer[SENDER_SCRATCH];
    struct lli_packet packet;
    uint32_t to;

    while (!world->failed &&
           lli_tx_replay_lvc(&sender->tx, sim_node_now(world, node), buffer, sizeof buffer, &packet)) {
        sender->replay_bytes += packet.size;
        sim_check_replay(world, node, packet.to, sender->tx.replay.pacer.burst);
        if (!world->failed && sim_address_node(&world->network, packet.to, &to))
            sim_network_send(&world->network, world->now, node->index, to, packet.to, packet.data,
                             packet.size);
    }
}

static void sender_events(struct sim_world *world, struct sim_node *node)
{
    struct llm_event event;

    while (lli_tx_event(&node->sender->tx, &event)) {
        if (event.verdict == NULL) {
            sim_check_acknowledged(world, node, &event);
            continue;
        }
        sim_trace(world, "node %u: receiver %016llx: %s, %llu %s of %llu, %u of %u suffer", node->index,
                  (unsigned long long)event.verdict->receiver, llm_event_name(event.kind),
                  (unsigned long long)event.verdict->value, llm_threshold_name(event.verdict->threshold),
                  (unsigned long long)event.verdict->limit, event.verdict->suffering,
                  event.verdict->receivers);
        sim_digest(world, event.verdict->receiver ^ (uint64_t)event.kind);
        sim_check_verdict(world, &event);
        /* The figures of the other receivers in a notice are those of its time. */
        if (event.kind == LLM_EVENT_EXPELLED && event.verdict->suffering > event.verdict->receivers / 2)
            sim_fail(world, "a receiver is expelled while %u of %u suffer", event.verdict->suffering,
                     event.verdict->receivers);
    }
}

void sim_sender_service(struct sim_world *world, struct sim_node *node)
{
    struct lli_tx *tx = &node->sender->tx;
    lli_ns now = sim_node_now(world, node);
    struct lli_packet packet;
    uint8_t buffer[SENDER_SCRATCH];
    uint32_t to, count = 0;

    lli_tx_seal(tx, now);
    if (now < lli_tx_deadline(tx))
        return;
    sender_post(world, node);
    sender_repair(world, node);
    sender_replay(world, node);
    sender_replay_kept(world, node);
    while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet)) {
        to = SIM_GROUP;
        if (packet.to == NULL || sim_address_node(&world->network, packet.to, &to))
            sim_network_send(&world->network, world->now, node->index, to, packet.to, packet.data,
                             packet.size);
        sim_check_notice(world, node, &packet);
        if (++count > 1000) {
            sim_fail(world, "node %u: the transmitter's control packets do not end", node->index);
            return;
        }
    }
    sim_check_judge(world, node);
    sender_events(world, node);
}
