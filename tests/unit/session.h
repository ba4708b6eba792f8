/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transmitter's and a receiver's session, with packets carried between them by hand and a simulated time.
 */
#ifndef TESTS_SESSION_H
#define TESTS_SESSION_H

#include "unit.h"

#include "core/rx/rx_session.h"
#include "core/tx/tx_session.h"

#define US ((lli_ns)1000)
#define MS ((lli_ns)1000000)
#define SESSION UINT64_C(0x1122334455667788)
#define RECEIVER UINT64_C(0x99aabbccddeeff01)
#define START (((lli_seq)1 << 32) + 1000)

enum { PACKET_MAX = 256, WINDOW = 64, HISTORY = 128 };

struct transmitter {
    struct lli_tx tx;
    uint8_t *memory;
};

static inline struct lli_tx_config tx_config(void)
{
    return (struct lli_tx_config){
        .session = SESSION,
        .history = {.bytes = HISTORY * PACKET_MAX,
                    .packets = HISTORY,
                    .packet_max = PACKET_MAX,
                    .align = 64,
                    .start = START},
        .receivers_max = 16,
        .topics_max = 8,
        .nak_receivers_immediate = 8,
        .repair_percent = 50,
        .repair_bytes_per_s = 1 << 20,
        .repair_linger = 20 * US,
        .replay_bytes_per_s = 1 << 20,
        .heartbeat_min = 50 * US,
        .heartbeat_max = 100 * MS,
        .heartbeat_busy = 10 * MS,
        .status = 100 * MS,
        .address = {.size = 1, .bytes = {'t'}},
    };
}

static inline void transmitter_make(struct transmitter *transmitter, const struct lli_tx_config *config,
                                    lli_ns now)
{
    struct lli_arena arena = {.memory = NULL};

    lli_tx_init(&transmitter->tx, config, &arena, now);
    arena_fill(&arena);
    transmitter->memory = arena.memory;
    lli_tx_init(&transmitter->tx, config, &arena, now);
}

/* Packs a message into a packet of its own, which is sealed and not sent. */
static inline void pack_one(struct lli_tx *tx, const char *text)
{
    const struct lli_pack_topic topic = {.id = 0};
    const struct iovec piece = {(void *)(uintptr_t)text, strlen(text)};

    assert_true(lli_pack_message(&tx->pack, &topic, &piece, (uint32_t)strlen(text), lli_tx_busy(tx)));
    lli_pack_flush(&tx->pack);
}

static inline void send_one(struct lli_tx *tx, const char *text, lli_ns now)
{
    pack_one(tx, text);
    lli_tx_sent(tx, 1, now);
    lli_tx_reaped(tx, true);
}

/* Sends every due repair, replay packet and control packet of a transmitter. */
static inline void tx_speak(struct lli_tx *tx, lli_ns now, uint8_t *buffer, size_t size,
                            void (*take)(const uint8_t *, size_t))
{
    struct lli_packet packet;

    while (lli_tx_repair(tx, now, &packet)) {
        take(packet.data, packet.size);
        lli_tx_repaired(tx, now);
    }
    while (lli_tx_replay(tx, now, &packet)) {
        take(packet.data, packet.size);
        lli_tx_replayed(tx);
    }
    lli_tx_reaped(tx, true);
    while (lli_tx_control(tx, now, buffer, size, &packet))
        take(packet.data, packet.size);
}

static inline void tx_take(struct lli_tx *tx, const uint8_t *packet, size_t size, lli_ns now)
{
    uint8_t *copy = exact_copy(packet, size);
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;

    assert_int_equal(lli_wire_get_header(copy, size, &header, &body, &body_size), LLI_WIRE_OK);
    lli_tx_input(tx, &header, body, body_size, now);
    free(copy);
}

/* A receiver's session, with everything that it needs. */
struct receiver {
    struct lli_rx rx;
    struct lli_rx_config config;
    struct lli_rx_counters counters;
    struct lli_reorder reorder;
    uint64_t random;
    uint8_t *memories[2];
};

static inline struct lli_rx_config rx_config(void)
{
    return (struct lli_rx_config){
        .receiver = RECEIVER,
        .window_packets = WINDOW,
        .topics_max = 8,
        .message_bytes_max = 4096,
        .nak_receivers_immediate = 8,
        .nak_backoff_min = 50 * US,
        .nak_retry_min = 50 * US,
        .nak_retry_max = 50 * MS,
        .nak_giveup = 200 * MS,
        .status = 100 * MS,
        .silence = 500 * MS,
        .timeout = 1000 * MS,
        .address = {.size = 1, .bytes = {'r'}},
    };
}

static inline void receiver_place(struct receiver *receiver, uint32_t packets, struct lli_arena *arena,
                                  struct lli_arena *rare)
{
    lli_reorder_init(&receiver->reorder, packets * PACKET_MAX, PACKET_MAX, arena, rare);
    lli_rx_init(&receiver->rx, &receiver->config, &receiver->reorder, &receiver->counters, &receiver->random,
                arena, rare);
}

/* Starts one with its configuration. packets: number that can be buffered. */
static inline void receiver_make(struct receiver *receiver, uint32_t packets, lli_ns now)
{
    struct lli_arena arena = {.memory = NULL}, rare = {.memory = NULL};

    receiver_place(receiver, packets, &arena, &rare);
    arena_fill(&arena);
    arena_fill(&rare);
    receiver->memories[0] = arena.memory;
    receiver->memories[1] = rare.memory;
    receiver_place(receiver, packets, &arena, &rare);
    lli_rx_start(&receiver->rx, (uint32_t)SESSION, now);
}

static inline void receiver_free(struct receiver *receiver)
{
    free(receiver->memories[0]);
    free(receiver->memories[1]);
}

/* Receives a packet, delivers all items, and frees the packet. */
static inline void receiver_take(struct receiver *receiver, const uint8_t *packet, size_t size, lli_ns now,
                                 void (*pull)(void))
{
    struct lli_rx *rx = &receiver->rx;
    uint8_t *copy = exact_copy(packet, size);
    struct lli_rx_packet in = {.bytes = copy, .size = size};
    const lli_ns due_at = lli_rx_deadline(rx);

    assert_int_equal(lli_wire_get_header(copy, size, &in.header, &in.body, &in.body_size), LLI_WIRE_OK);
    rx->pending.service_due = false;
    if (lli_rx_input(rx, &in, now))
        pull();
    /* Due work is looked for only if the session asks for it. */
    assert_true(rx->pending.service_due || lli_rx_deadline(rx) >= due_at);
    free(copy);
}

/* No packet is buffered in the end. */
static inline void receiver_unmake(struct receiver *receiver)
{
    lli_rx_stop(&receiver->rx);
    assert_int_equal(receiver->reorder.used, 0);
    receiver_free(receiver);
}

#endif
