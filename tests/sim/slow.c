/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One receiver whose application is too slow, beside others that read at once over a lossy network: the
 * production core on both sides, with links that delay and lose, and socket buffers of limited size.
 *
 * Other receivers must not lose a message, lag for long or get a notice; the slow one is suspended if the
 * policy allows it.
 *
 *   slow [--seed N] [--count N] [-v]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rx/rx_session.h"
#include "core/tx/tx_session.h"

#define US ((lli_ns)1000)
#define MS (1000 * US)
#define S (1000 * MS)

#define BEGINS S
#define QUIET (200 * MS) /* at the beginning: all receivers become known, and measure the round trip */
#define SETTLES (500 * MS)
#define SENDS_FOR (3 * S)
#define ENDS_IN (2 * S)
#define TICK (50 * US)
#define START ((lli_seq)1 << 32)
#define SESSION UINT64_C(0x1122334455667788)

enum {
    PACKET_MAX = 1400,
    SOCKET_MAX = 8192,
    FOLLOWERS_MAX = 12,
    SLOW = 0,
    WINDOW = 4096,
    CELLS = 512,
    HISTORY = 8192
};

struct packet {
    lli_ns at; /* time at which it is in the socket */
    uint32_t size;
    /* Data is short here, and so are all other packets but NAKs and rejects of many ranges. */
    uint8_t bytes[160];
};

/* Packets on the way to a node, and in its socket, in order. */
struct queue {
    struct packet *ring;
    uint32_t head, tail;
    lli_ns delay;
    uint32_t loss_ppm;
    uint32_t dropped;
};

struct follower {
    struct lli_rx rx;
    struct lli_rx_config config;
    struct lli_rx_counters counters;
    struct lli_reorder reorder;
    uint64_t random;
    void *memory;
    struct queue in;
    uint64_t delivered, lost;
    enum lli_standing worst;
};

static struct {
    uint64_t seed, random;
    lli_ns now;
    uint32_t followers;
    bool suspends;      /* the policy suspends; else it only warns */
    lli_ns reads_every; /* interval of the slow receiver's reads ... */
    uint32_t reads;     /* ... and packets that it reads at a time */
    uint64_t messages;
    struct lli_tx tx;
    void *memory;
    struct queue in;
    struct follower follower[FOLLOWERS_MAX];
    enum lli_standing worst;
    lli_ns rtt_max;
    bool verbose;
} world;

static void fail(const char *what, uint32_t which)
{
    printf("seed %" PRIu64 ", at %.6f s: receiver %u %s\n", world.seed, (double)world.now / 1e9, which, what);
    for (uint32_t i = 0; i < world.followers; i++) {
        const struct follower *f = &world.follower[i];

        printf("  receiver %u: %" PRIu64 " of %" PRIu64 " delivered, %" PRIu64
               " lost, %u dropped by its socket, at %u ppm and %.3f ms\n",
               i, f->delivered, world.messages, f->lost, f->in.dropped, f->in.loss_ppm,
               (double)f->in.delay / 1e6);
    }
    exit(1);
}

/* ------------------------------------------------------------------------------------------------ network */

static void put(struct queue *queue, const struct lli_packet *packet)
{
    struct packet *place = &queue->ring[queue->tail % SOCKET_MAX];

    if (lli_random_below(&world.random, 1000000) < queue->loss_ppm)
        return;
    if (queue->tail - queue->head == SOCKET_MAX || packet->size > sizeof place->bytes) {
        queue->dropped++;
        return;
    }
    place->at = world.now + queue->delay;
    place->size = packet->size;
    memcpy(place->bytes, packet->data, packet->size);
    queue->tail++;
}

/* Returns the next packet in the socket; NULL: none. */
static const struct packet *take(struct queue *queue)
{
    const struct packet *packet = &queue->ring[queue->head % SOCKET_MAX];

    if (queue->head == queue->tail || packet->at > world.now)
        return NULL;
    queue->head++;
    return packet;
}

static void post(const struct lli_packet *packet)
{
    for (uint32_t i = 0; i < world.followers; i++)
        if (packet->to == NULL || packet->to->bytes[0] == i)
            put(&world.follower[i].in, packet);
}

/* -------------------------------------------------------------------------------------------- transmitter */

static void transmit_message(void)
{
    const struct lli_pack_topic topic = {.id = 0};
    char data[45] = "";
    const struct iovec piece = {data, sizeof data};

    if (!lli_pack_message(&world.tx.pack, &topic, &piece, sizeof data, lli_tx_busy(&world.tx)))
        fail("is waited for: the history is full", SLOW);
    lli_pack_flush(&world.tx.pack);
    world.messages++;
}

/* Identifies the receiver of each verdict. */
static void transmit_events(void)
{
    struct llm_event event;

    while (lli_tx_event(&world.tx, &event))
        if (event.verdict != NULL && event.verdict->receiver != 0 &&
            event.verdict->receiver != world.follower[SLOW].config.receiver)
            fail("is judged, and is not the slow one", (uint32_t)event.verdict->receiver - 1);
    for (uint32_t i = 0; i < world.tx.members.limit; i++)
        if (world.tx.members.table[i].id == world.follower[SLOW].config.receiver &&
            world.tx.members.table[i].standing > world.worst)
            world.worst = world.tx.members.table[i].standing;
}

static void transmit(void)
{
    struct lli_tx *tx = &world.tx;
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    const struct packet *in;
    struct lli_packet packet;

    while ((in = take(&world.in)) != NULL) {
        struct lli_wire_header header;
        const uint8_t *body;
        size_t size;

        if (lli_wire_get_header(in->bytes, in->size, &header, &body, &size) == LLI_WIRE_OK)
            lli_tx_input(tx, &header, body, size, world.now);
    }
    while (lli_tx_ready(tx, world.now, 1) > 0) {
        packet = lli_tx_packet(tx, 0);
        post(&packet);
        lli_tx_sent(tx, 1, world.now);
        lli_tx_reaped(tx, true);
    }
    while (lli_tx_repair(tx, world.now, &packet)) {
        post(&packet);
        lli_tx_repaired(tx, world.now);
    }
    while (lli_tx_control(tx, world.now, buffer, sizeof buffer, &packet))
        post(&packet);
    transmit_events();
    if (world.now > BEGINS + QUIET + SETTLES && world.now < BEGINS + QUIET + SENDS_FOR)
        world.rtt_max = lli_max(world.rtt_max, tx->group.rtt);
}

/* ---------------------------------------------------------------------------------------------- receivers */

static void follower_pull(struct follower *follower)
{
    struct lli_item item;

    while (lli_rx_next(&follower->rx, world.now, &item)) {
        if (item.kind == LLI_ITEM_MESSAGES)
            follower->delivered += (uint64_t)item.count;
        else if (item.kind == LLI_ITEM_EVENT && item.event.kind == LLM_EVENT_GAP)
            follower->lost += item.event.last - item.event.first + 1;
    }
}

static void follower_read(struct follower *follower, uint32_t most)
{
    const struct packet *packet;

    for (; most > 0 && (packet = take(&follower->in)) != NULL; most--) {
        struct lli_rx_packet in = {.bytes = packet->bytes, .size = packet->size};

        if (lli_wire_get_header(in.bytes, in.size, &in.header, &in.body, &in.body_size) != LLI_WIRE_OK)
            continue;
        if (follower->rx.state == LLI_RX_FREE)
            lli_rx_start(&follower->rx, in.header.tag, world.now);
        if (lli_rx_input(&follower->rx, &in, world.now))
            follower_pull(follower);
    }
}

static void follower_poll(struct follower *follower, uint32_t most)
{
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;

    follower_read(follower, most);
    while (follower->rx.state != LLI_RX_FREE && lli_rx_control(&follower->rx, world.now, buffer, &packet))
        put(&world.in, &packet);
    if (follower->rx.state != LLI_RX_FREE)
        follower_pull(follower);
}

/* ---------------------------------------------------------------------------------------------- a history */

static void layout_follower(struct follower *follower, struct lli_arena *arena)
{
    lli_reorder_init(&follower->reorder, CELLS * PACKET_MAX, PACKET_MAX, arena, arena);
    lli_rx_init(&follower->rx, &follower->config, &follower->reorder, &follower->counters, &follower->random,
                arena, arena);
}

static void make_follower(uint32_t index, uint32_t loss_ppm)
{
    struct follower *follower = &world.follower[index];
    struct lli_arena arena = {.memory = NULL};

    *follower = (struct follower){.random = lli_random(&world.random)};
    follower->in = (struct queue){.ring = calloc(SOCKET_MAX, sizeof(struct packet)),
                                  .loss_ppm = loss_ppm,
                                  .delay = 20 * US + lli_random_below(&world.random, 500 * US)};
    follower->config = (struct lli_rx_config){
        .confirms = true,
        .receiver = index + 1,
        .window_packets = WINDOW,
        .topics_max = 8,
        .message_bytes_max = 4096,
        .nak_receivers_immediate = 8,
        .nak_backoff_min = 50 * US,
        .nak_retry_min = 50 * US,
        .nak_retry_max = 10 * MS,
        .nak_giveup = 10 * S,
        .status = 100 * MS,
        .silence = 500 * MS,
        .timeout = 10 * S,
        .address = {.size = 1, .bytes = {(uint8_t)index}},
    };
    layout_follower(follower, &arena);
    follower->memory = arena.memory = calloc(1, arena.used);
    arena.used = 0;
    layout_follower(follower, &arena);
}

static void make_transmitter(void)
{
    struct lli_arena arena = {.memory = NULL};
    struct lli_tx_config config = {
        .confirms = true,
        .session = SESSION,
        .receivers_max = 64,
        .topics_max = 8,
        .nak_receivers_immediate = 8,
        .repair_percent = 50,
        .repair_bytes_per_s = 33554432,
        .repair_linger = 20 * US,
        .replay_bytes_per_s = 33554432,
        .heartbeat_min = 30 * US,
        .heartbeat_max = 100 * MS,
        .heartbeat_busy = 10 * MS,
        .status = 100 * MS,
        .address = {.size = 1, .bytes = {255}},
        .history = {.bytes = (uint64_t)HISTORY * 256,
                    .packets = HISTORY,
                    .packet_max = PACKET_MAX,
                    .align = 64,
                    .start = START},
        .slow = {.most = world.suspends ? LLI_STANDING_SUSPENDED : LLI_STANDING_WARNED,
                 .warn_percent = 50,
                 .unicast_percent = 75,
                 .limits = {[LLM_THRESHOLD_LAG_PACKETS] = HISTORY / 2},
                 .patience = 2 * S,
                 .recover = S,
                 .expel = 30 * S},
    };

    lli_tx_init(&world.tx, &config, &arena, world.now);
    world.memory = arena.memory = aligned_alloc(4096, lli_round_up(arena.used, 4096));
    memset(arena.memory, 0, arena.used);
    arena.used = 0;
    lli_tx_init(&world.tx, &config, &arena, world.now);
    world.in = (struct queue){.ring = calloc(SOCKET_MAX, sizeof(struct packet)), .delay = 20 * US};
}

static void begin(uint64_t seed, bool verbose)
{
    memset(&world, 0, sizeof world);
    world.seed = world.random = seed;
    (void)lli_random(&world.random);
    world.verbose = verbose;
    world.now = BEGINS;
    world.suspends = seed % 2 == 0;
    /* More than eight receivers back off before their NAKs. */
    world.followers = (uint32_t)(lli_random_below(&world.random, 2) == 0 ? 3 : FOLLOWERS_MAX);
    world.reads_every = MS + lli_random_below(&world.random, 9 * MS);
    /* Between a quarter and nine tenths of the packets sent. */
    world.reads =
        (uint32_t)lli_max(world.reads_every / TICK * (25 + lli_random_below(&world.random, 65)) / 100, 1);
    make_transmitter();
    for (uint32_t i = 0; i < world.followers; i++)
        make_follower(
            i,
            i == SLOW ? 0 : (uint32_t)lli_random_below(&world.random, world.followers > 8 ? 10000 : 50000));
}

static void check(void)
{
    for (uint32_t i = SLOW + 1; i < world.followers; i++) {
        if (world.follower[i].lost > 0)
            fail("lost what could be repaired", i);
        if (world.follower[i].delivered != world.messages)
            fail("has not everything in the end", i);
    }
    if (world.suspends && world.worst != LLI_STANDING_SUSPENDED)
        fail("is not suspended", SLOW);
    if (world.worst < LLI_STANDING_WARNED)
        fail("is not warned", SLOW);
    if (world.rtt_max > world.reads_every + 10 * MS)
        fail("makes the round trip of the group that of its socket", SLOW);
}

static void end(void)
{
    if (world.verbose)
        printf("seed %" PRIu64 ": %u receivers, one reads %u packets every %.3f ms; %" PRIu64
               " messages, at most %.3f ms of round "
               "trip; the slow one got %" PRIu64 ", lost %" PRIu64 ", sent %" PRIu64 " NAKs\n",
               world.seed, world.followers, world.reads, (double)world.reads_every / 1e6, world.messages,
               (double)world.rtt_max / 1e6, world.follower[SLOW].delivered, world.follower[SLOW].lost,
               world.follower[SLOW].counters.naks_sent);
    for (uint32_t i = 0; i < world.followers; i++) {
        free(world.follower[i].in.ring);
        free(world.follower[i].memory);
    }
    free(world.in.ring);
    free(world.memory);
}

static void run(uint64_t seed, bool verbose)
{
    lli_ns reads_at, ends_at;

    begin(seed, verbose);
    reads_at = world.now;
    ends_at = world.now + QUIET + SENDS_FOR;
    for (; world.now < ends_at + ENDS_IN; world.now += TICK) {
        if (world.now >= BEGINS + QUIET && world.now < ends_at)
            transmit_message();
        transmit();
        if (world.now >= reads_at) {
            follower_poll(&world.follower[SLOW], world.reads);
            reads_at += world.reads_every;
        }
        for (uint32_t i = SLOW + 1; i < world.followers; i++)
            follower_poll(&world.follower[i], UINT32_MAX);
    }
    check();
    end();
}

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 1;
    bool verbose = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 0);
        else
            return 2;
    }
    for (uint64_t seed = first; seed < first + count; seed++)
        run(seed, verbose);
    printf("%" PRIu64 " histories from %" PRIu64 " passed\n", count, first);
    return 0;
}
