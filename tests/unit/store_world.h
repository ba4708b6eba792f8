/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's transmitter, a receiver and stores in virtual time, with a network that delays and loses
 * packets. A store is a capture of the data packets that reach it, answered for by the library's
 * lli_answers. The receiver's messages have to come each once and in order, or be named as lost.
 */
#ifndef TESTS_STORE_WORLD_H
#define TESTS_STORE_WORLD_H

#include "session.h"

#include <llm/llm.h>

#include "core/recording/answers.h"

enum { STORES_MAX = 5, CAPTURE_MAX = 8192, FLIGHT_MAX = 8192, SMALL_HISTORY = 64, WORLD_PACKET_MAX = 1500 };

enum world_node { WORLD_TRANSMITTER, WORLD_RECEIVER, WORLD_STORE };

struct world_packet {
    lli_ns at; /* 0: free */
    uint32_t node;
    size_t size;
    uint8_t bytes[WORLD_PACKET_MAX];
};

struct world_captured {
    size_t size; /* 0: not captured */
    uint64_t number;
    uint8_t bytes[PACKET_MAX];
};

struct world_store {
    struct lli_answers answers;
    struct lli_pacer unconfirmed;
    uint8_t *memory;
    struct world_captured *captured; /* by packet, from START on */
    struct lli_answers_extent extent;
    uint64_t sent;       /* packets sent to receivers */
    uint64_t dies_after; /* so many */
    uint32_t loss;       /* of group data, never repaired; parts per thousand */
    lli_ns lag;          /* packets are recorded so much later */
    bool alive;
    bool silent; /* sends no OFFER to the group */
};

static struct {
    struct transmitter t;
    struct receiver r;
    struct world_store stores[STORES_MAX];
    uint32_t stores_count;
    struct world_packet *flight;
    uint32_t flight_used;
    uint64_t random;
    lli_ns now;
    uint32_t loss;     /* parts per thousand, of every packet on its way */
    bool deaf;         /* the receiver hears nothing that the group or the transmitter sends */
    bool dead;         /* the transmitter is */
    uint64_t messages; /* sent */
    struct llm_join join;
    /* Messages and events of the receiver's application. */
    uint64_t first, expected, lost, lost_first, lost_last;
    uint32_t news, lives, ends, gaps, refused;
    enum llm_reason gap_reason, end_reason;
    uint64_t spins;
} w;

/* ---------------------------------------------------------------------------------------------- receiver */

static void world_event(const struct llm_event *event)
{
    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        w.news++;
        w.first = w.expected = event->first;
        break;
    case LLM_EVENT_GAP:
        assert_true(event->first == w.expected);
        w.gaps++;
        w.gap_reason = event->reason;
        w.lost_first = event->first;
        w.lost_last = event->last;
        w.lost += event->last + 1 - event->first;
        w.expected = event->last + 1;
        break;
    case LLM_EVENT_LIVE:
        w.lives++;
        break;
    case LLM_EVENT_JOIN_REFUSED:
        w.refused++;
        break;
    case LLM_EVENT_SESSION_END:
        w.ends++;
        w.end_reason = event->reason;
        break;
    default:
        break;
    }
}

static void world_pull(void)
{
    struct lli_item item;

    while (lli_rx_next(&w.r.rx, w.now, &item)) {
        if (item.kind == LLI_ITEM_JOIN)
            lli_rx_begin(&w.r.rx, &w.join, w.now);
        else if (item.kind == LLI_ITEM_EVENT)
            world_event(&item.event);
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++) {
            uint64_t number;

            assert_true(item.messages[i].number == w.expected++);
            assert_int_equal(item.messages[i].size, sizeof number);
            memcpy(&number, item.messages[i].data, sizeof number);
            assert_true(number == item.messages[i].number);
        }
    }
}

/* ----------------------------------------------------------------------------------------------- network */

static bool world_loses(uint32_t loss)
{
    return lli_random_below(&w.random, 1000) < loss;
}

static void world_post(uint32_t node, const uint8_t *bytes, size_t size, lli_ns delay)
{
    struct world_packet *packet = NULL;

    for (uint32_t i = 0; i < w.flight_used && packet == NULL; i++)
        if (w.flight[i].at == 0)
            packet = &w.flight[i];
    if (packet == NULL) {
        assert_true(w.flight_used < FLIGHT_MAX);
        packet = &w.flight[w.flight_used++];
    }
    assert_true(size <= sizeof packet->bytes);
    packet->at = w.now + 20 * US + lli_random_below(&w.random, 40 * US) + delay;
    packet->node = node;
    packet->size = size;
    memcpy(packet->bytes, bytes, size);
}

static void world_to_receiver(const struct lli_packet *packet, bool of_store)
{
    if (!(w.deaf && !of_store) && !world_loses(w.loss))
        world_post(WORLD_RECEIVER, packet->data, packet->size, 0);
}

static void world_to_group(const struct lli_packet *packet)
{
    world_to_receiver(packet, false);
    for (uint32_t i = 0; i < w.stores_count; i++)
        if (w.stores[i].alive && !world_loses(w.stores[i].loss))
            world_post(WORLD_STORE + i, packet->data, packet->size, w.stores[i].lag);
}

/* From the receiver, to an address or to the group. */
static void world_from_receiver(const struct lli_packet *packet)
{
    const uint8_t to = packet->to == NULL ? 0 : packet->to->bytes[0];

    if (to == 't' && !w.dead && !world_loses(w.loss))
        world_post(WORLD_TRANSMITTER, packet->data, packet->size, 0);
    for (uint32_t i = 0; i < w.stores_count; i++)
        if (w.stores[i].alive && (to == 0 || to == '0' + i) && !world_loses(w.loss))
            world_post(WORLD_STORE + i, packet->data, packet->size, 0);
}

/* ------------------------------------------------------------------------------------------------ stores */

static void store_record(struct world_store *store, const struct lli_wire_header *header,
                         const uint8_t *packet, size_t size)
{
    const lli_seq seq = lli_seq_extend(lli_max(store->extent.end, START), header->seq);
    struct world_captured *captured = &store->captured[(seq - START) % CAPTURE_MAX];

    assert_true(seq >= START && seq < START + CAPTURE_MAX && size <= sizeof captured->bytes);
    if (seq < store->extent.first && store->extent.end != 0)
        return;
    if (store->extent.end == 0) {
        store->extent.first = seq;
        store->extent.first_number = header->number;
    }
    captured->size = size;
    captured->number = header->number;
    memcpy(captured->bytes, packet, size);
    if (seq >= store->extent.end) {
        store->extent.end = seq + 1;
        store->extent.end_number = header->number + 1;
    }
    lli_answers_recorded(&store->answers, &store->extent);
}

static void store_take(struct world_store *store, const struct world_packet *packet)
{
    struct lli_wire_header header = {.type = 0};
    struct lli_wire_join join;
    const uint8_t *body;
    size_t size;

    if (!store->alive)
        return;
    assert_int_equal(lli_wire_get_header(packet->bytes, packet->size, &header, &body, &size), LLI_WIRE_OK);
    if (header.type == LLI_WIRE_DATA)
        store_record(store, &header, packet->bytes, packet->size);
    else if (header.type == LLI_WIRE_JOIN && lli_wire_get_join(body, size, header.tag, &join))
        (void)lli_answers_input(&store->answers, &join, w.now);
}

static void store_look_up(struct world_store *store)
{
    struct lli_answers_seek seek;

    while (lli_answers_sought(&store->answers, &seek)) {
        lli_seq found = store->extent.first;

        for (lli_seq seq = store->extent.first; seq < store->extent.end; seq++) {
            const struct world_captured *captured = &store->captured[seq - START];

            if (captured->size > 0 && seek.from == LLM_JOIN_NUMBER && captured->number <= seek.value)
                found = seq;
        }
        lli_answers_found(&store->answers, true, found, store->captured[found - START].number);
    }
}

static void store_speak(struct world_store *store)
{
    const struct lli_wire_address *to;
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;
    lli_seq seq;

    store_look_up(store);
    while (lli_answers_control(&store->answers, w.now, buffer, &packet))
        world_to_receiver(&packet, true);
    while (store->alive && lli_answers_next(&store->answers, w.now, &seq, &to)) {
        const struct world_captured *captured = &store->captured[seq - START];

        assert_int_equal(to->bytes[0], 'r');
        if (captured->size == 0) {
            lli_answers_lacks(&store->answers, seq + 1);
            continue;
        }
        packet = (struct lli_packet){.data = captured->bytes, .size = (uint32_t)captured->size};
        world_to_receiver(&packet, true);
        lli_answers_sent(&store->answers, packet.size);
        store->alive = ++store->sent < store->dies_after;
    }
}

static struct world_store *world_add_store(void)
{
    struct world_store *store = &w.stores[w.stores_count];
    const struct lli_answers_config config = {
        .session = SESSION,
        .address = {.size = 1, .bytes = {(uint8_t)('0' + w.stores_count)}},
        .key = {{w.stores_count, 77}},
        .replay_bytes_per_s = 8 << 20,
        .unconfirmed = &store->unconfirmed,
    };
    struct lli_arena arena = {.memory = NULL};

    assert_true(w.stores_count++ < STORES_MAX);
    *store = (struct world_store){.alive = true, .dies_after = UINT64_MAX};
    store->captured = calloc(CAPTURE_MAX, sizeof *store->captured);
    assert_non_null(store->captured);
    lli_answers_unconfirmed(&store->unconfirmed, w.now);
    lli_answers_init(&store->answers, &config, &arena, w.now);
    arena_fill(&arena);
    store->memory = arena.memory;
    lli_answers_init(&store->answers, &config, &arena, w.now);
    lli_answers_advertise(&store->answers, LLI_ANSWERS_ADVERT, w.now);
    return store;
}

/* ------------------------------------------------------------------------------------------------- steps */

static void world_arrive(const struct world_packet *packet)
{
    if (packet->node == WORLD_TRANSMITTER)
        tx_take(&w.t.tx, packet->bytes, packet->size, w.now);
    else if (packet->node == WORLD_RECEIVER)
        receiver_take(&w.r, packet->bytes, packet->size, w.now, world_pull);
    else
        store_take(&w.stores[packet->node - WORLD_STORE], packet);
}

static void world_tx_speak(void)
{
    struct lli_tx *tx = &w.t.tx;
    uint8_t buffer[2048];
    struct lli_packet packet;

    while (lli_tx_repair(tx, w.now, &packet)) {
        world_to_receiver(&packet, false);
        lli_tx_repaired(tx, w.now);
    }
    while (lli_tx_replay(tx, w.now, &packet)) {
        world_to_receiver(&packet, false);
        lli_tx_replayed(tx);
    }
    lli_tx_reaped(tx, true);
    while (lli_tx_control(tx, w.now, buffer, sizeof buffer, &packet))
        world_to_receiver(&packet, false);
}

static void world_rx_speak(void)
{
    struct lli_rx *rx = &w.r.rx;
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;

    if (w.now < lli_rx_deadline(rx)) {
        w.spins = 0;
        return;
    }
    while (lli_rx_control(rx, w.now, buffer, &packet))
        world_from_receiver(&packet);
    world_pull();
    w.spins = lli_rx_deadline(rx) > w.now ? 0 : w.spins + 1;
    assert_true(w.spins < 100);
}

static void world_step(void)
{
    for (uint32_t i = 0; i < w.flight_used; i++)
        if (w.flight[i].at != 0 && w.flight[i].at <= w.now) {
            world_arrive(&w.flight[i]);
            w.flight[i].at = 0;
        }
    while (w.flight_used > 0 && w.flight[w.flight_used - 1].at == 0)
        w.flight_used--;
    if (!w.dead)
        world_tx_speak();
    world_rx_speak();
    for (uint32_t i = 0; i < w.stores_count; i++)
        if (w.stores[i].alive)
            store_speak(&w.stores[i]);
    w.now += 20 * US;
}

static void world_run(lli_ns duration)
{
    const lli_ns until = w.now + duration;

    while (w.now < until)
        world_step();
}

/* Sends messages, one in each packet, so many steps apart. */
static void world_send(uint32_t count, uint32_t steps)
{
    const struct lli_pack_topic topic = {.id = 0};

    for (uint32_t i = 0; i < count; i++) {
        const struct iovec piece = {&w.messages, sizeof w.messages};
        struct lli_packet packet;

        assert_true(lli_pack_message(&w.t.tx.pack, &topic, &piece, sizeof w.messages, lli_tx_busy(&w.t.tx)));
        lli_pack_flush(&w.t.tx.pack);
        while (lli_tx_unsent(&w.t.tx, w.now, &packet, 1) == 1) {
            world_to_group(&packet);
            lli_tx_sent(&w.t.tx, 1, w.now);
        }
        lli_tx_reaped(&w.t.tx, true);
        w.messages++;
        for (uint32_t j = 0; j < steps; j++)
            world_step();
    }
}

/* Runs until the receiver delivered everything, or reported it lost. */
static void world_catch_up(lli_ns patience)
{
    const lli_ns until = w.now + patience;

    while (w.expected < w.messages && w.now < until)
        world_step();
    assert_true(w.expected == w.messages);
}

/* ------------------------------------------------------------------------------------------ begin and end */

static void world_begin(uint64_t seed)
{
    struct lli_tx_config config = tx_config();

    memset(&w, 0, sizeof w);
    w.random = seed;
    w.now = 5000 * MS;
    w.flight = calloc(FLIGHT_MAX, sizeof *w.flight);
    assert_non_null(w.flight);
    config.history.packets = SMALL_HISTORY;
    config.history.bytes = SMALL_HISTORY * PACKET_MAX;
    config.confirms = true;
    config.key = (struct lli_token_key){{5, 6}};
    config.replay_bytes_per_s = 8 << 20;
    config.repair_bytes_per_s = 8 << 20;
    transmitter_make(&w.t, &config, w.now);
    w.join.mode = LLM_JOIN_OLDEST;
    w.r = (struct receiver){.random = seed ^ 1};
    w.r.config = rx_config();
    w.r.config.chooses = true;
    w.r.config.confirms = true;
    w.r.config.stores = true;
    w.r.config.store_wait = 100 * MS;
    w.r.config.nak_giveup = 400 * MS;
    w.deaf = true;
}

/* The receiver starts to listen. */
static void world_listen(void)
{
    w.deaf = false;
    receiver_make(&w.r, 32, w.now);
}

/* A receiver that does not listen yet: nothing reaches it. */
static void world_before(uint32_t messages)
{
    receiver_make(&w.r, 32, w.now);
    world_run(20 * MS);
    world_send(messages, 2);
    world_run(1100 * MS);
    receiver_unmake(&w.r);
    memset(&w.r.counters, 0, sizeof w.r.counters);
    world_listen();
}

static void world_end(void)
{
    receiver_unmake(&w.r);
    free(w.t.memory);
    for (uint32_t i = 0; i < w.stores_count; i++) {
        free(w.stores[i].memory);
        free(w.stores[i].captured);
    }
    free(w.flight);
}

#endif
