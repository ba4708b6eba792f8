/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "multitude.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "config/options.h"
#include "core/rx/rx_single.h"

#define BEGINS MULTITUDE_S
#define START ((lli_seq)1 << 32)
#define SESSION UINT64_C(0x1122334455667788)

enum {
    PACKET_MAX = 1472,
    HISTORY = 16384,          /* packets */
    REORDER_BYTES = 48 << 17, /* of the receivers of a leaf switch together */
    REPAIRS_MAX = 64,         /* as in src/engine/endpoint.c */
};

void multitude_fail(const struct multitude *multitude, const char *what)
{
    (void)fprintf(stderr, "%u receivers, at %.6f s: %s\n", multitude->config.receivers,
                  (double)multitude->fabric.now / 1e9, what);
    exit(1);
}

bool multitude_watches(const struct multitude *multitude, uint32_t receiver, uint32_t topic)
{
    const uint32_t percent = multitude->config.watch_percent;

    return (topic + receiver * percent) % 100 < percent;
}

/* ----------------------------------------------------------------------------------------------- losses */

static void losses_add(struct multitude *m, struct multitude_receiver *receiver, lli_seq seq)
{
    uint32_t at = m->losses_free;

    if (at != MULTITUDE_NONE) {
        m->losses_free = m->losses[at].next;
    } else {
        if (m->losses_count == m->losses_room) {
            m->losses_room = m->losses_room == 0 ? 1024 : m->losses_room * 2;
            m->losses = sim_memory_grow(m->losses, m->losses_room * sizeof *m->losses);
        }
        at = m->losses_count++;
    }
    m->losses[at] = (struct multitude_loss){.seq = seq, .at = m->fabric.now, .next = receiver->losses};
    receiver->losses = at;
}

static void samples_add(struct multitude *m, lli_ns time)
{
    if (m->samples_count == m->samples_room) {
        m->samples_room = m->samples_room == 0 ? 1024 : m->samples_room * 2;
        m->samples = sim_memory_grow(m->samples, m->samples_room * sizeof *m->samples);
    }
    m->samples[m->samples_count++] = (uint32_t)lli_min(time, UINT32_MAX);
}

/* Takes the delivered packets from the receiver's list. */
static void losses_settle(struct multitude *m, struct multitude_receiver *receiver)
{
    for (uint32_t *link = &receiver->losses; *link != MULTITUDE_NONE;) {
        struct multitude_loss *loss = &m->losses[*link];
        const uint32_t at = *link;

        if (loss->seq >= receiver->rx.gap.next) {
            link = &loss->next;
            continue;
        }
        samples_add(m, m->fabric.now - loss->at);
        *link = loss->next;
        loss->next = m->losses_free;
        m->losses_free = at;
    }
}

static bool losses_has(const struct multitude *m, const struct multitude_receiver *receiver, lli_seq seq)
{
    for (uint32_t at = receiver->losses; at != MULTITUDE_NONE; at = m->losses[at].next)
        if (m->losses[at].seq == seq)
            return true;
    return false;
}

/* Notes that a packet was lost on its way to receivers of a leaf switch. */
static void multitude_lose(struct multitude *m, const struct fabric_event *event)
{
    struct lli_wire_header header;
    const uint8_t *body;
    size_t size;

    if (lli_wire_get_header(event->packet->bytes, event->packet->size, &header, &body, &size) !=
            LLI_WIRE_OK ||
        header.type != LLI_WIRE_DATA)
        return;
    for (uint64_t mask = event->mask; mask != 0; mask &= mask - 1) {
        struct multitude_receiver *receiver =
            &m->receivers[event->index * FABRIC_LEAF_PORTS + (uint32_t)__builtin_ctzll(mask)];
        const lli_seq seq = lli_seq_extend(receiver->rx.gap.next, header.seq);

        if (!receiver->open || receiver->rx.state != LLI_RX_LIVE || seq < receiver->rx.gap.next ||
            lli_gap_is_present(&receiver->rx.gap, seq) || losses_has(m, receiver, seq))
            continue;
        losses_add(m, receiver, seq);
        m->figures.lost++;
        m->figures.lost_distinct += !m->distinct[seq % HISTORY];
        m->distinct[seq % HISTORY] = 1;
    }
}

/* -------------------------------------------------------------------------------------------- receivers */

static uint32_t receiver_index(const struct multitude *m, const struct multitude_receiver *receiver)
{
    return (uint32_t)(receiver - m->receivers);
}

static void receiver_topic(struct multitude *m, struct multitude_receiver *receiver, uint32_t topic)
{
    const bool watches = multitude_watches(m, receiver_index(m, receiver), topic);
    const uint32_t wanted = m->config.topics * m->config.watch_percent / 100;

    (void)lli_rx_topic_subscribe(&receiver->rx, topic, watches);
    receiver->watched += watches;
    if (!watches || receiver->watched != wanted)
        return;
    receiver->known_at = m->fabric.now;
    m->waiting--;
}

static void receiver_take(const struct multitude *m, struct multitude_receiver *receiver, uint64_t number)
{
    if (m->config.topics == 1 ? number != receiver->next : number < receiver->next)
        multitude_fail(m, "a message is lost, repeated or out of order");
    receiver->next = number + 1;
    receiver->delivered++;
}

static void receiver_pull(struct multitude *m, struct multitude_receiver *receiver)
{
    struct lli_item item;

    while (lli_rx_next(&receiver->rx, m->fabric.now, &item)) {
        if (item.kind == LLI_ITEM_TOPIC)
            receiver_topic(m, receiver, item.event.topic_id);
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++)
            receiver_take(m, receiver, item.messages[i].number);
        if (item.kind == LLI_ITEM_EVENT &&
            (item.event.kind == LLM_EVENT_GAP || item.event.kind == LLM_EVENT_SESSION_END))
            multitude_fail(m, "a receiver reports a loss or an end");
    }
}

/* Sends what is due, and plans the next time. */
static void receiver_service(struct multitude *m, struct multitude_receiver *receiver)
{
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;
    lli_ns at = lli_rx_deadline(&receiver->rx);

    if (at <= m->fabric.now) {
        while (lli_rx_control(&receiver->rx, m->fabric.now, buffer, &packet))
            fabric_answer(&m->fabric, receiver_index(m, receiver), packet.data, packet.size);
        receiver_pull(m, receiver);
        lli_rx_settle(&receiver->rx);
        at = lli_rx_deadline(&receiver->rx);
    }
    if (at >= receiver->wake_at)
        return;
    receiver->wake_at = at;
    fabric_wake(&m->fabric, FABRIC_WAKE_RECEIVER, receiver_index(m, receiver), at);
}

static void receiver_wake(struct multitude *m, struct multitude_receiver *receiver)
{
    /* An earlier wake-up replaced this one. */
    if (receiver->wake_at > m->fabric.now)
        return;
    receiver->wake_at = LLI_NEVER;
    if (receiver->rx.state != LLI_RX_FREE)
        receiver_service(m, receiver);
}

static void receiver_input_slow(struct multitude *m, struct multitude_receiver *receiver,
                                const struct sim_packet *data)
{
    struct lli_rx_packet packet = {.bytes = data->bytes, .size = data->size};

    if (lli_wire_get_header(data->bytes, data->size, &packet.header, &packet.body, &packet.body_size) !=
        LLI_WIRE_OK)
        multitude_fail(m, "a packet has no header");
    if (receiver->rx.state == LLI_RX_FREE)
        lli_rx_start(&receiver->rx, packet.header.tag, m->fabric.now);
    if (lli_rx_input(&receiver->rx, &packet, m->fabric.now))
        receiver_pull(m, receiver);
    if (packet.header.type != LLI_WIRE_DATA)
        lli_rx_settle(&receiver->rx);
}

static void receiver_input(struct multitude *m, struct multitude_receiver *receiver,
                           const struct sim_packet *packet)
{
    struct llm_message message;

    if (lli_rx_single(&receiver->rx, packet->bytes, packet->size, 0, m->fabric.now, &message)) {
        receiver_take(m, receiver, message.number);
        if (!receiver->rx.pending.plain && !lli_rx_is_idle(&receiver->rx))
            receiver_pull(m, receiver);
    } else {
        receiver_input_slow(m, receiver, packet);
    }
    if (receiver->losses != MULTITUDE_NONE)
        losses_settle(m, receiver);
    if (lli_rx_take_service(&receiver->rx))
        receiver_service(m, receiver);
}

static void multitude_arrive(struct multitude *m, const struct fabric_event *event)
{
    struct multitude_receiver *first = &m->receivers[event->index * FABRIC_LEAF_PORTS];

    for (uint64_t mask = event->mask; mask != 0; mask &= mask - 1) {
        struct multitude_receiver *receiver = &first[__builtin_ctzll(mask)];

        if (receiver->open)
            receiver_input(m, receiver, event->packet);
    }
}

/* ------------------------------------------------------------------------------------------ transmitter */

static void transmitter_put(struct multitude *m, const struct lli_packet *packet)
{
    uint32_t to = FABRIC_GROUP;

    if (packet->to != NULL)
        memcpy(&to, packet->to->bytes, sizeof to);
    fabric_send(&m->fabric, to, packet->data, packet->size);
}

static void transmitter_post_data(struct multitude *m)
{
    while (fabric_has_room(&m->fabric) && lli_tx_ready(&m->tx, m->fabric.now, 1) > 0) {
        const struct lli_packet packet = lli_tx_packet(&m->tx, 0);

        m->distinct[m->tx.sent % HISTORY] = 0;
        transmitter_put(m, &packet);
        lli_tx_sent(&m->tx, 1, m->fabric.now);
    }
}

static void transmitter_post_repairs(struct multitude *m)
{
    struct lli_packet packet;

    for (int i = 0;
         i < REPAIRS_MAX && fabric_has_room(&m->fabric) && lli_tx_repair(&m->tx, m->fabric.now, &packet);
         i++) {
        transmitter_put(m, &packet);
        m->figures.repair_bytes += packet.size;
        lli_tx_repaired(&m->tx, m->fabric.now);
    }
}

/* Notes a call of the core in processor time, which other processes do not change much. */
static void transmitter_took(struct multitude *m, clock_t begin)
{
    const uint64_t took = (uint64_t)(clock() - begin) * (1000000000 / CLOCKS_PER_SEC);

    m->pause_ns = lli_max(m->pause_ns, took);
}

static bool transmitter_control(struct multitude *m, uint8_t *buffer, size_t size, struct lli_packet *packet)
{
    const clock_t begin = clock();
    const bool more = lli_tx_control(&m->tx, m->fabric.now, buffer, size, packet);

    transmitter_took(m, begin);
    return more;
}

/* Sends what is due, and plans the next time. */
static void transmitter_service(struct multitude *m)
{
    uint8_t buffer[2048];
    struct lli_packet packet;
    lli_ns at;

    lli_tx_seal(&m->tx, m->fabric.now);
    if (m->fabric.now >= lli_tx_deadline(&m->tx)) {
        transmitter_post_data(m);
        transmitter_post_repairs(m);
        while (transmitter_control(m, buffer, sizeof buffer, &packet))
            transmitter_put(m, &packet);
        lli_tx_reaped(&m->tx, true);
    }
    at = lli_tx_deadline(&m->tx);
    /* More waits for the transport: packets leave in the meantime. */
    if (at <= m->fabric.now)
        at = m->fabric.now + 10 * MULTITUDE_US;
    if (at >= m->wake_at)
        return;
    m->wake_at = at;
    fabric_wake(&m->fabric, FABRIC_WAKE_TRANSMITTER, 0, at);
}

static void transmitter_input(struct multitude *m, const struct sim_packet *packet)
{
    struct lli_wire_header header;
    const uint8_t *body;
    size_t size;
    clock_t begin;

    if (lli_wire_get_header(packet->bytes, packet->size, &header, &body, &size) != LLI_WIRE_OK)
        multitude_fail(m, "a packet to the transmitter has no header");
    begin = clock();
    lli_tx_input(&m->tx, &header, body, size, m->fabric.now);
    transmitter_took(m, begin);
    transmitter_service(m);
}

static void transmitter_send(struct multitude *m)
{
    static uint8_t bytes[PACKET_MAX];
    const struct lli_pack_topic topic = {.id = (uint32_t)(m->packets % m->config.topics)};
    const struct iovec piece = {bytes, m->config.message_size};

    if (m->packets == m->packets_max)
        return;
    fabric_wake(&m->fabric, FABRIC_SEND, 0, m->fabric.now + m->distance);
    if (lli_tx_is_blocked(&m->tx) ||
        !lli_pack_message(&m->tx.pack, &topic, &piece, m->config.message_size, lli_tx_busy(&m->tx)))
        return;
    m->packets++;
    lli_pack_flush(&m->tx.pack);
    transmitter_service(m);
}

void multitude_send(struct multitude *m, uint64_t packets, lli_ns distance)
{
    m->packets = 0;
    m->packets_max = packets;
    m->samples_count = 0;
    m->pause_ns = 0;
    for (uint32_t i = 0; i < m->config.receivers; i++)
        m->receivers[i].delivered = 0;
    m->distance = distance;
    fabric_wake(&m->fabric, FABRIC_SEND, 0, m->fabric.now);
}

void multitude_topics(struct multitude *m)
{
    uint32_t id;

    while (m->named < m->config.topics && lli_tx_topic_add(&m->tx, m->names[m->named], &id) == LLM_OK)
        m->named++;
    lli_pack_flush(&m->tx.pack);
    fabric_wake(&m->fabric, FABRIC_WAKE_TRANSMITTER, 0, m->fabric.now);
    m->wake_at = m->fabric.now;
}

/* ------------------------------------------------------------------------------------------------ events */

static void multitude_event(struct multitude *m, const struct fabric_event *event)
{
    switch (event->kind) {
    case FABRIC_RECEIVERS:
        multitude_arrive(m, event);
        break;
    case FABRIC_LOST:
        multitude_lose(m, event);
        break;
    case FABRIC_TRANSMITTER:
        transmitter_input(m, event->packet);
        break;
    case FABRIC_WAKE_RECEIVER:
        receiver_wake(m, &m->receivers[event->index]);
        break;
    case FABRIC_WAKE_TRANSMITTER:
        if (m->wake_at > m->fabric.now)
            break;
        m->wake_at = LLI_NEVER;
        transmitter_service(m);
        break;
    case FABRIC_SEND:
        transmitter_send(m);
        break;
    case FABRIC_DOWN:
    case FABRIC_UP:
    case FABRIC_TRUNK:
        break;
    }
}

bool multitude_until(struct multitude *m, bool (*done)(const struct multitude *), lli_ns time)
{
    const lli_ns until = m->fabric.now + time;
    struct fabric_event event;

    while (!done(m)) {
        if (m->fabric.now >= until || !fabric_next(&m->fabric, &event))
            return false;
        multitude_event(m, &event);
    }
    return true;
}

static bool multitude_never(const struct multitude *m)
{
    (void)m;
    return false;
}

void multitude_run(struct multitude *m, lli_ns time)
{
    (void)multitude_until(m, multitude_never, time);
}

bool multitude_is_known(const struct multitude *m)
{
    return m->tx.members.count == m->config.receivers;
}

bool multitude_has_names(const struct multitude *m)
{
    return m->waiting == 0;
}

bool multitude_is_done(const struct multitude *m)
{
    if (m->packets < m->packets_max || m->tx.sent < m->tx.history.next)
        return false;
    for (uint32_t i = 0; i < m->config.receivers; i++)
        if (m->receivers[i].rx.gap.next < m->tx.sent)
            return false;
    return true;
}

struct multitude_figures multitude_now(const struct multitude *m)
{
    struct multitude_figures figures = m->figures;

    figures.at = m->fabric.now;
    figures.counters = m->tx.counters;
    figures.drops = m->fabric.drops;
    figures.drops_transmitter = m->fabric.drops_transmitter;
    figures.steps = m->tx.flow.quorum.steps + m->tx.slow.scan.looked_at;
    return figures;
}

/* -------------------------------------------------------------------------------------- open and close */

static struct lli_tx_config multitude_tx(const struct multitude *m, const struct llm_options *o)
{
    return (struct lli_tx_config){
        .session = SESSION,
        .seed = 1,
        .history = {.bytes = (uint64_t)HISTORY * 1536,
                    .packets = HISTORY,
                    .packet_max = PACKET_MAX,
                    .align = 64,
                    .start = START},
        .receivers_max = m->config.receivers,
        .topics_max = m->config.topics,
        .nak_receivers_immediate = o->nak_receivers_immediate,
        .repair_percent = o->repair_percent,
        .repair_bytes_per_s = o->repair_bytes_per_s,
        .repair_linger = o->repair_linger_ns,
        .replay_bytes_per_s = o->replay_bytes_per_s,
        .heartbeat_min = o->heartbeat_ns_min,
        .heartbeat_max = o->heartbeat_ns_max,
        .heartbeat_busy = o->heartbeat_ns_busy,
        .status = o->status_ns,
        .flow = {.mode = LLI_FLOW_WINDOW,
                 .window_packets = o->flow_window_packets,
                 .window_bytes = o->history_bytes / 2,
                 .quorum_percent = o->flow_quorum_percent},
        .slow = lli_options_slow(o, HISTORY),
        .confirms = true,
        .key = {{1, 2}},
        .address = {.size = 4, .bytes = {'t'}},
    };
}

static void receiver_configure(struct multitude *m, uint32_t index, const struct llm_options *o)
{
    struct multitude_receiver *receiver = &m->receivers[index];

    receiver->random = lli_random(&m->random);
    receiver->config = (struct lli_rx_config){
        .receiver = lli_random(&m->random) | 1,
        .window_packets = o->window_packets,
        .topics_max = m->config.topics,
        .message_bytes_max = PACKET_MAX,
        .nak_receivers_immediate = o->nak_receivers_immediate,
        .nak_backoff_min = o->nak_backoff_ns_min,
        .nak_retry_min = o->nak_retry_ns_min,
        .nak_retry_max = o->nak_retry_ns_max,
        .nak_giveup = o->nak_giveup_ns,
        .status = o->status_ns,
        .silence = o->silence_ns,
        .timeout = o->session_timeout_ns,
        .address = {.size = sizeof index},
        .confirms = true,
    };
    memcpy(receiver->config.address.bytes, &index, sizeof index);
    receiver->losses = MULTITUDE_NONE;
    receiver->wake_at = LLI_NEVER;
}

static void multitude_place(struct multitude *m, struct lli_arena *arena, struct lli_arena *rare)
{
    struct llm_options options;
    struct lli_tx_config config;

    llm_options_init(&options);
    config = multitude_tx(m, &options);
    if (arena->memory == NULL) {
        struct lli_arena single = {.memory = NULL};

        config.receivers_max = 1;
        lli_tx_init(&m->tx, &config, &single, m->fabric.now);
        m->single_bytes = single.used;
        config.receivers_max = m->config.receivers;
    }
    lli_tx_init(&m->tx, &config, arena, m->fabric.now);
    m->transmitter_bytes = arena->used - config.history.bytes;
    m->member_bytes = (arena->used - m->single_bytes) / lli_max(m->config.receivers - 1, 1);
    for (uint32_t leaf = 0; leaf < m->fabric.leaves; leaf++)
        lli_reorder_init(&m->reorders[leaf], REORDER_BYTES, PACKET_MAX, arena, rare);
    for (uint32_t i = 0; i < m->config.receivers; i++) {
        struct multitude_receiver *receiver = &m->receivers[i];
        const size_t before = arena->used + rare->used;

        lli_rx_init(&receiver->rx, &receiver->config, &m->reorders[i / FABRIC_LEAF_PORTS], &m->counters,
                    &receiver->random, arena, rare);
        m->receiver_bytes = sizeof receiver->rx + arena->used + rare->used - before;
    }
}

/* Zeroed memory, of which only the pages that are touched take space. */
static void *multitude_map(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED) {
        (void)fprintf(stderr, "no memory: %zu bytes\n", size);
        exit(2);
    }
    return memory;
}

void multitude_open(struct multitude *m, const struct multitude_config *config, bool late)
{
    const struct fabric_config network = {.receivers = config->receivers, .seed = config->seed};
    struct lli_arena arena = {.memory = NULL}, rare = {.memory = NULL};
    struct llm_options options;

    *m = (struct multitude){.config = *config, .random = config->seed, .wake_at = LLI_NEVER};
    m->losses_free = MULTITUDE_NONE;
    m->waiting = config->receivers;
    fabric_init(&m->fabric, &network, BEGINS);
    llm_options_init(&options);
    m->receivers = multitude_map(config->receivers * sizeof *m->receivers);
    m->reorders = sim_memory(m->fabric.leaves * sizeof *m->reorders);
    m->names = sim_memory(config->topics * sizeof *m->names);
    m->distinct = sim_memory(HISTORY);
    for (uint32_t i = 0; i < config->topics; i++)
        (void)snprintf(m->names[i], sizeof m->names[i], "market.equities.instrument.%05u", i);
    for (uint32_t i = 0; i < config->receivers; i++)
        receiver_configure(m, i, &options);
    multitude_place(m, &arena, &rare);
    m->memory_size[0] = arena.used;
    m->memory_size[1] = rare.used;
    for (int i = 0; i < 2; i++)
        m->memories[i] = multitude_map(m->memory_size[i]);
    arena = (struct lli_arena){.memory = m->memories[0]};
    rare = (struct lli_arena){.memory = m->memories[1]};
    multitude_place(m, &arena, &rare);
    if (!late)
        multitude_join(m);
    multitude_topics(m);
}

void multitude_join(struct multitude *m)
{
    for (uint32_t i = 0; i < m->config.receivers; i++)
        m->receivers[i].open = true;
}

void multitude_close(struct multitude *m)
{
    fabric_fini(&m->fabric);
    for (int i = 0; i < 2; i++)
        (void)munmap(m->memories[i], m->memory_size[i]);
    (void)munmap(m->receivers, m->config.receivers * sizeof *m->receivers);
    free(m->reorders);
    free(m->names);
    free(m->distinct);
    free(m->losses);
    free(m->samples);
}
