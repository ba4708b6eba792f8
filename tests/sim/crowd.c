/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Very many receivers of one transmitter with flow=window, by the production core, over a lossless network:
 * the cost of their reports to the transmitter per packet sent, in operations, must not grow with their
 * number; and after nearly all of them left, the remaining ones are still known, and flow control waits for
 * them.
 *
 *   crowd
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rx/rx_session.h"
#include "core/tx/tx_session.h"

#define US ((lli_ns)1000)
#define MS (1000 * US)
#define S (1000 * MS)

#define BEGINS S
#define TICK (100 * US) /* transit time of a packet */
#define START ((lli_seq)1 << 32)
#define SESSION UINT64_C(0x1122334455667788)

enum {
    RECEIVERS_MAX = 10000,
    WINDOW = 256,
    HISTORY = 1024,
    PACKET_MAX = 256,
    TICK_PACKETS = 8,
    WIRE_MAX = 16384
};

struct packet {
    uint32_t from; /* receiver that sent it */
    uint32_t size;
    uint8_t bytes[160];
};

struct follower {
    struct lli_rx rx;
    struct lli_rx_config config;
    struct lli_reorder reorder;
    uint64_t random;
    uint64_t delivered;
};

static struct {
    lli_ns now;
    uint64_t random;
    struct lli_tx tx;
    uint32_t count;
    struct follower followers[RECEIVERS_MAX];
    struct lli_rx_counters counters;
    void *memories[2];
    struct packet *wire; /* packets on the way to the transmitter */
    uint32_t on_wire;
    uint64_t messages;
} crowd;

/* Operation counts so far. */
struct cost {
    uint64_t packets, reports, steps, record;
};

static void fail(const char *what)
{
    printf("%u receivers, at %.3f s: %s\n", crowd.count, (double)crowd.now / 1e9, what);
    exit(1);
}

/* -------------------------------------------------------------------------------------------- receivers */

static void follower_pull(struct follower *follower)
{
    struct lli_item item;

    while (lli_rx_next(&follower->rx, crowd.now, &item)) {
        if (item.kind == LLI_ITEM_MESSAGES)
            follower->delivered += (uint64_t)item.count;
        else if (item.event.kind == LLM_EVENT_GAP || item.event.kind == LLM_EVENT_SESSION_END)
            fail("a receiver is told of a loss or an end");
    }
}

static void follower_input(struct follower *follower, const struct lli_packet *packet)
{
    struct lli_rx_packet in = {.bytes = packet->data, .size = packet->size};

    if (follower->rx.state == LLI_RX_FREE)
        return;
    if (lli_wire_get_header(packet->data, packet->size, &in.header, &in.body, &in.body_size) != LLI_WIRE_OK)
        fail("a packet has no header");
    if (lli_rx_input(&follower->rx, &in, crowd.now))
        follower_pull(follower);
}

static void wire_put(uint32_t from, const struct lli_packet *packet)
{
    if (crowd.on_wire == WIRE_MAX || packet->size > sizeof crowd.wire->bytes)
        fail("more is on its way to the transmitter than there is room for");
    crowd.wire[crowd.on_wire].from = from;
    crowd.wire[crowd.on_wire].size = packet->size;
    memcpy(crowd.wire[crowd.on_wire++].bytes, packet->data, packet->size);
}

static void follower_service(uint32_t index)
{
    struct follower *follower = &crowd.followers[index];
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;

    if (follower->rx.state == LLI_RX_FREE || crowd.now < lli_rx_deadline(&follower->rx))
        return;
    while (lli_rx_control(&follower->rx, crowd.now, buffer, &packet))
        wire_put(index, &packet);
    follower_pull(follower);
}

static void follower_leave(uint32_t index)
{
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;

    if (lli_rx_leave(&crowd.followers[index].rx, crowd.now, buffer, &packet))
        wire_put(index, &packet);
    lli_rx_stop(&crowd.followers[index].rx);
}

/* ------------------------------------------------------------------------------------------ transmitter */

/* Delivers a packet to the group or to its destination. */
static void transmit(const struct lli_packet *packet)
{
    uint32_t index;

    if (packet->to == NULL) {
        for (uint32_t i = 0; i < crowd.count; i++)
            follower_input(&crowd.followers[i], packet);
        return;
    }
    memcpy(&index, packet->to->bytes, sizeof index);
    follower_input(&crowd.followers[index], packet);
}

static void transmitter_input(void)
{
    for (uint32_t i = 0; i < crowd.on_wire; i++) {
        struct lli_wire_header header;
        const uint8_t *body;
        size_t size;

        if (lli_wire_get_header(crowd.wire[i].bytes, crowd.wire[i].size, &header, &body, &size) !=
            LLI_WIRE_OK)
            fail("a report has no header");
        lli_tx_input(&crowd.tx, &header, body, size, crowd.now);
    }
    crowd.on_wire = 0;
}

static void transmitter_send(void)
{
    const struct lli_pack_topic topic = {.id = 0};
    const struct iovec piece = {(void *)(uintptr_t) "message", 7};

    for (int i = 0; i < TICK_PACKETS && crowd.tx.history.next < crowd.tx.flow.limit; i++) {
        struct lli_packet packet;

        if (!lli_pack_message(&crowd.tx.pack, &topic, &piece, 7, lli_tx_busy(&crowd.tx)))
            fail("the history is full");
        lli_pack_flush(&crowd.tx.pack);
        crowd.messages++;
        packet = lli_tx_packet(&crowd.tx, 0);
        transmit(&packet);
        lli_tx_sent(&crowd.tx, 1, crowd.now);
        lli_tx_reaped(&crowd.tx, true);
    }
}

static void tick(bool sends)
{
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;

    crowd.now += TICK;
    transmitter_input();
    if (sends)
        transmitter_send();
    if (crowd.now >= lli_tx_deadline(&crowd.tx))
        while (lli_tx_control(&crowd.tx, crowd.now, buffer, sizeof buffer, &packet))
            transmit(&packet);
    for (uint32_t i = 0; i < crowd.count; i++)
        follower_service(i);
}

static void run(lli_ns time, bool sends)
{
    for (const lli_ns until = crowd.now + time; crowd.now < until;)
        tick(sends);
}

/* ------------------------------------------------------------------------------------------------ world */

static void place(struct lli_arena *arena, struct lli_arena *rare)
{
    const struct lli_tx_config config = {
        .session = SESSION,
        .seed = 1,
        .history = {.bytes = HISTORY * PACKET_MAX,
                    .packets = HISTORY,
                    .packet_max = PACKET_MAX,
                    .align = 64,
                    .start = START},
        .receivers_max = crowd.count,
        .topics_max = 4,
        .nak_receivers_immediate = 8,
        .repair_percent = 50,
        .repair_bytes_per_s = 1 << 20,
        .repair_linger = 100 * US,
        .replay_bytes_per_s = 1 << 20,
        .heartbeat_min = 50 * US,
        .heartbeat_max = 100 * MS,
        .heartbeat_busy = 10 * MS,
        .status = 100 * MS,
        .flow = {.mode = LLI_FLOW_WINDOW, .window_packets = WINDOW, .quorum_percent = 50},
        .slow = {.most = LLI_STANDING_SUSPENDED,
                 .limits = {[LLM_THRESHOLD_SILENCE] = 180 * MS, [LLM_THRESHOLD_LAG_PACKETS] = HISTORY},
                 .warn_percent = 50,
                 .unicast_percent = 75,
                 .patience = S,
                 .recover = S},
        .address = {.size = 1, .bytes = {'t'}},
    };

    lli_tx_init(&crowd.tx, &config, arena, crowd.now);
    for (uint32_t i = 0; i < crowd.count; i++) {
        struct follower *f = &crowd.followers[i];

        f->config.address.size = sizeof i;
        memcpy(f->config.address.bytes, &i, sizeof i);
        lli_reorder_init(&f->reorder, 4 * PACKET_MAX, PACKET_MAX, arena, rare);
        lli_rx_init(&f->rx, &f->config, &f->reorder, &crowd.counters, &f->random, arena, rare);
    }
}

static void world_up(uint32_t count)
{
    struct lli_arena arena = {.memory = NULL}, rare = {.memory = NULL};

    crowd.now = BEGINS;
    crowd.count = count;
    crowd.random = count;
    crowd.messages = 0;
    crowd.on_wire = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct follower *f = &crowd.followers[i];

        *f = (struct follower){.random = lli_random(&crowd.random)};
        f->config = (struct lli_rx_config){.receiver = lli_random(&crowd.random) | 1,
                                           .window_packets = WINDOW,
                                           .topics_max = 4,
                                           .message_bytes_max = 64,
                                           .nak_receivers_immediate = 8,
                                           .nak_backoff_min = 50 * US,
                                           .nak_retry_min = 50 * US,
                                           .nak_retry_max = 10 * MS,
                                           .nak_giveup = S,
                                           .status = 100 * MS,
                                           .silence = 500 * MS,
                                           .timeout = 10 * S};
    }
    place(&arena, &rare);
    crowd.memories[0] = aligned_alloc(4096, lli_round_up(arena.used, 4096));
    crowd.memories[1] = aligned_alloc(4096, lli_round_up(rare.used, 4096));
    if (crowd.memories[0] == NULL || crowd.memories[1] == NULL)
        fail("no memory");
    memset(crowd.memories[0], 0, arena.used);
    memset(crowd.memories[1], 0, rare.used);
    arena = (struct lli_arena){.memory = crowd.memories[0]};
    rare = (struct lli_arena){.memory = crowd.memories[1]};
    place(&arena, &rare);
    for (uint32_t i = 0; i < count; i++)
        lli_rx_start(&crowd.followers[i].rx, (uint32_t)SESSION, crowd.now);
}

static void world_down(void)
{
    free(crowd.memories[0]);
    free(crowd.memories[1]);
}

static struct cost cost_now(void)
{
    return (struct cost){crowd.tx.sent - START, crowd.tx.counters.status_received, crowd.tx.flow.quorum.steps,
                         crowd.tx.slow.scan.looked_at};
}

/* Returns the operations per packet sent at the maximum rate. */
static double cost_of(uint32_t count)
{
    struct cost before, after;
    double packets, cost;

    world_up(count);
    /* By then all are known, know the number of receivers, and report at different times. */
    run(250 * MS, false);
    run(20 * MS, true);
    if (crowd.tx.members.count != count)
        fail("not all are known");
    before = cost_now();
    run(20 * MS, true);
    after = cost_now();
    packets = (double)(after.packets - before.packets);
    /* A low cost does not count without progress. */
    if (packets < 0.5 * TICK_PACKETS * (double)(20 * MS / TICK))
        fail("the transmitter waits for reports");
    cost = ((double)(after.reports - before.reports) + (double)(after.steps - before.steps) +
            (double)(after.record - before.record)) /
           packets;
    printf("%5u receivers: %5.0f packets, for each %.2f reports, %.1f comparisons, %.2f receivers judged\n",
           count, packets, (double)(after.reports - before.reports) / packets,
           (double)(after.steps - before.steps) / packets, (double)(after.record - before.record) / packets);
    return cost;
}

/* Only a hundredth stays: each reports as rarely as before, until its next report. */
static void leave_all_but_few(uint32_t count)
{
    const uint32_t stay = count / 100;

    world_up(count);
    run(350 * MS, false);
    for (uint32_t i = stay; i < crowd.count; i++)
        follower_leave(i);
    for (int i = 0; i < 300; i++) {
        run(50 * MS, i == 299);
        if (crowd.tx.members.count != stay)
            fail("one that stays is forgotten");
        if (crowd.tx.flow.limit == UINT64_MAX)
            fail("nobody is waited for");
    }
    run(MS, false);
    for (uint32_t i = 0; i < stay; i++)
        if (crowd.followers[i].delivered != crowd.messages)
            fail("one that stays does not have all messages");
}

int main(void)
{
    double few, many;

    crowd.wire = calloc(WIRE_MAX, sizeof *crowd.wire);
    if (crowd.wire == NULL)
        fail("no memory");
    few = cost_of(100);
    world_down();
    many = cost_of(1000);
    world_down();
    leave_all_but_few(1000);
    world_down();
    if (many > 4 * few)
        fail("a packet costs more than four times what it costs with 100");
    many = cost_of(10000);
    world_down();
    if (many > 8 * few)
        fail("a packet costs more than eight times what it costs with 100");
    free(crowd.wire);
    return 0;
}
