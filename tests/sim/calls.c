/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections on a virtual network: the handshake and the four sessions of a connection, by the production
 * code, through seeded histories of loss, duplication, reordering, delay, cuts and deaths. Each side's stream
 * has to arrive exactly once and in order, all of it if the network recovers in time; else the connection has
 * to report its loss, after a prefix of the stream. Most connections are closed by one side or both, during
 * or after the traffic: everything that a side then reports as delivered was delivered, and deliveries are
 * known to the sender unless every CLOSE of the other side was lost. Without losses both sides are open after
 * the round trips that a handshake takes, and with the loss of any single packet of it soon after.
 *
 *   calls [--seed N] [--count N] [-v]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/conn/close_retry.h"
#include "core/conn/handshake.h"
#include "core/rx/rx_session.h"
#include "core/tx/tx_session.h"

#define US ((lli_ns)1000)
#define MS (1000 * US)
#define S (1000 * MS)

enum {
    ASKER = 0,
    LISTENER = 1,
    SIDES = 2,
    PACKET_MAX = 1400,
    FLIGHT_MAX = 8192,
    GUESTS = 4,
    WINDOW = 64,
    MESSAGE_MAX = 4000
};

/* Packets of a handshake, and a few more. */
enum { HANDSHAKE = 10 };

#define TIMEOUT (10 * S)
#define ASKS_FOR (5 * S)
#define HEALS_IN (60 * S)
#define LINGER (1 * S)

/*
 * Up to this loss, deliveries remain unknown only if this many CLOSEs, sent while the other side waited, were
 * all lost.
 */
enum { LOSS_BOUNDED_PPM = 200000, WORDS_BOUNDED = 5 };
#define ALL_LOST (0.2 * 0.2 * 0.2 * 0.2 * 0.2)

struct flight {
    lli_ns at;
    uint32_t size;
    int to;
    uint8_t bytes[PACKET_MAX];
};

struct side {
    uint64_t session;
    struct lli_tx tx;
    struct lli_rx rx;
    struct lli_rx_config rx_config;
    struct lli_rx_counters counters;
    struct lli_reorder reorder;
    uint64_t random;
    void *memory[3];
    bool running, unheard, open, dead, ended, told;
    enum llm_reason reason;
    lli_ns until;     /* an accepted connection has to be confirmed by then */
    lli_ns opened_at; /* 0: never */
    uint64_t sent, received;
    /* End of the connection, as in src/connection/connection.c. */
    uint64_t closes_behind; /* it closes after receiving this many messages, and sending all */
    bool closing, dismissed, gone, undelivered;
    lli_ns lingers_until, reacts_at, left_at;
    enum lli_wire_closing word; /* reason of the CLOSE that it sent */
    struct lli_close_retry close_retry;
    uint32_t said; /* CLOSEs sent while the other side waited for them */
};

static struct {
    uint64_t seed, random;
    lli_ns now;
    uint32_t loss_ppm, duplicate_ppm;
    lli_ns delay_max;
    lli_ns cut_from, cut_to; /* time of a network cut */
    int cut_way;             /* direction of the cut: to this side, 2: both */
    int dies;                /* side that dies at dies_at; 2: none */
    lli_ns dies_at;
    uint64_t messages;
    bool closes;     /* a side closes */
    uint64_t closed; /* sides that waited to learn if all was delivered */
    uint64_t unsure; /* of these, sides that did not learn of a complete delivery */
    double expected; /* expected upper bound of the latter */
    struct side sides[SIDES];
    struct lli_connector connector;
    struct lli_acceptor acceptor;
    struct lli_applicant guests[2 * GUESTS];
    uint64_t ids[2 * GUESTS];
    struct flight flights[FLIGHT_MAX];
    uint32_t flying;
    uint64_t flown; /* packets sent so far */
    uint64_t loses; /* number of the packet to lose, from 1; 0: none */
    bool verbose;
} world;

static void fail(const char *what)
{
    printf("seed %" PRIu64 ", at %.6f s: %s\n", world.seed, (double)world.now / 1e9, what);
    for (int i = 0; i < SIDES; i++)
        printf("  side %d: sent %" PRIu64 " received %" PRIu64 " running %d open %d ended %d reason %d\n", i,
               world.sides[i].sent, world.sides[i].received, world.sides[i].running, world.sides[i].open,
               world.sides[i].ended, (int)world.sides[i].reason);
    for (int i = 0; i < SIDES; i++)
        printf("  side %d: closing %d dismissed %d gone %d, by %d, undelivered %d, %u words left\n", i,
               world.sides[i].closing, world.sides[i].dismissed, world.sides[i].gone,
               (int)world.sides[i].word, world.sides[i].undelivered, world.sides[i].close_retry.words);
    exit(1);
}

static uint64_t below(uint64_t limit)
{
    return lli_random_below(&world.random, limit);
}

/* ------------------------------------------------------------------------------------------------ network */

static bool is_cut(int to)
{
    return world.now >= world.cut_from && world.now < world.cut_to &&
           (world.cut_way == 2 || world.cut_way == to);
}

static void fly(int to, const uint8_t *bytes, uint32_t size)
{
    const int copies = ++world.flown == world.loses ? 0 : 1 + (below(1000000) < world.duplicate_ppm);

    for (int i = 0; i < copies; i++) {
        struct flight *flight;

        if (is_cut(to) || below(1000000) < world.loss_ppm || world.flying == FLIGHT_MAX)
            continue;
        flight = &world.flights[world.flying++];
        *flight = (struct flight){.at = world.now + 10 * US + below(world.delay_max), .size = size, .to = to};
        memcpy(flight->bytes, bytes, size);
    }
}

/* -------------------------------------------------------------------------------------------------- sides */

static uint32_t size_of(uint64_t number)
{
    return 8 + (uint32_t)(number * 2654435761u % (number % 5 == 0 ? MESSAGE_MAX - 8 : 200));
}

static void *place(struct lli_arena *arena)
{
    void *memory = calloc(1, (size_t)lli_round_up(arena->used, 64) + 64);

    if (memory == NULL)
        exit(2);
    arena->memory = (uint8_t *)memory + (64 - (uintptr_t)memory % 64);
    arena->used = 0;
    return memory;
}

static void side_init(struct side *side, int index)
{
    const struct lli_wire_address address = {.size = 1, .bytes = {(uint8_t)index}};
    const struct lli_tx_config config = {
        .session = lli_random(&world.random),
        .history = {.bytes = 1 << 20,
                    .packets = 256,
                    .packet_max = PACKET_MAX,
                    .align = 64,
                    .start = ((lli_seq)1 << 32) + (uint32_t)lli_random(&world.random)},
        .receivers_max = 1,
        .topics_max = 4,
        .nak_receivers_immediate = 8,
        .repair_percent = 50,
        .repair_bytes_per_s = 32 << 20,
        .repair_linger = 20 * US,
        .replay_bytes_per_s = 32 << 20,
        .heartbeat_min = 30 * US,
        .heartbeat_max = 100 * MS,
        .heartbeat_busy = 10 * MS,
        .status = 100 * MS,
        .flow = {.mode = LLI_FLOW_WINDOW, .window_packets = WINDOW, .quorum_percent = 100, .awaits = true},
        .slow = {.warn_percent = 50, .unicast_percent = 75, .status = 100 * MS},
        .address = address,
    };
    struct lli_arena arena = {.memory = NULL}, rx = {.memory = NULL}, rare = {.memory = NULL};

    *side = (struct side){.random = lli_random(&world.random), .session = config.session};
    side->rx_config = (struct lli_rx_config){.receiver = lli_random(&world.random) | 1,
                                             .window_packets = 128,
                                             .topics_max = 4,
                                             .message_bytes_max = MESSAGE_MAX,
                                             .nak_receivers_immediate = 8,
                                             .nak_backoff_min = 50 * US,
                                             .nak_retry_min = 50 * US,
                                             .nak_retry_max = 10 * MS,
                                             .nak_giveup = 10 * S,
                                             .status = 100 * MS,
                                             .silence = 500 * MS,
                                             .timeout = TIMEOUT,
                                             .address = address};
    lli_tx_init(&side->tx, &config, &arena, world.now);
    side->memory[0] = place(&arena);
    lli_tx_init(&side->tx, &config, &arena, world.now);
    for (int round = 0; round < 2; round++) {
        lli_reorder_init(&side->reorder, 64 * PACKET_MAX, PACKET_MAX, &rx, &rx);
        lli_rx_init(&side->rx, &side->rx_config, &side->reorder, &side->counters, &side->random, &rx, &rare);
        if (round == 0) {
            side->memory[1] = place(&rx);
            side->memory[2] = place(&rare);
        }
    }
}

/*
 * accept NULL: the accepting side, which is muted until it has heard the other, as in
 * src/connection/connection.c.
 */
static void side_run(struct side *side, uint64_t session, const struct lli_wire_accept *accept)
{
    lli_rx_start(&side->rx, (uint32_t)session, world.now);
    side->rx.session = session;
    side->running = true;
    side->unheard = accept == NULL;
    if (accept != NULL)
        lli_rx_expect(&side->rx, session, accept->start, &accept->address, world.now);
}

static void side_open(struct side *side)
{
    if (side->unheard || side->open)
        return;
    side->open = true;
    side->opened_at = world.now;
}

static void side_heard(struct side *side)
{
    if (!side->unheard || side->tx.members.count == 0)
        return;
    side->unheard = false;
    side->rx.heard_at = world.now;
    if (side->counters.sessions_new > 0)
        side_open(side);
}

static void side_over(struct side *side, enum llm_reason reason)
{
    if (side->ended)
        return;
    side->ended = true;
    side->reason = reason;
    side->reacts_at = world.now + below(20 * MS);
}

static void side_item(struct side *side, const struct side *other, const struct lli_item *item)
{
    if (item->kind == LLI_ITEM_EVENT) {
        if (item->event.kind == LLM_EVENT_SESSION_NEW)
            side_open(side);
        if (item->event.kind == LLM_EVENT_SESSION_NEW && item->event.first != 0)
            fail("a connection does not begin with its first message");
        if (item->event.kind == LLM_EVENT_GAP)
            side_over(side, LLM_REASON_BROKEN);
        if (item->event.kind == LLM_EVENT_SESSION_END)
            side_over(side, item->event.reason);
        return;
    }
    for (int i = 0; item->kind == LLI_ITEM_MESSAGES && i < item->count && !side->ended; i++) {
        const struct llm_message *message = &item->messages[i];
        uint64_t number;

        memcpy(&number, message->data, sizeof number);
        if (message->number != side->received || number != side->received ||
            message->size != size_of(number) || number >= other->sent)
            fail("a message is not the next one");
        side->received++;
    }
}

/* Sends some messages of a side's stream, at random. */
static void side_talk(struct side *side)
{
    static uint8_t bytes[MESSAGE_MAX];
    const struct lli_pack_topic topic = {.id = 0};

    while (side->open && !side->ended && !side->closing && side->sent < world.messages &&
           !lli_tx_is_blocked(&side->tx) && below(8) != 0) {
        const struct iovec piece = {bytes, size_of(side->sent)};

        memcpy(bytes, &side->sent, sizeof side->sent);
        if (!lli_pack_message(&side->tx.pack, &topic, &piece, size_of(side->sent), lli_tx_busy(&side->tx)))
            return;
        side->sent++;
    }
}

static void side_send(struct side *side, int to)
{
    struct lli_packet packets[16];
    uint8_t buffer[PACKET_MAX];
    int count;

    lli_pack_flush(&side->tx.pack);
    while ((count = lli_tx_unsent(&side->tx, world.now, packets, 16)) > 0) {
        for (int i = 0; i < count; i++)
            fly(to, packets[i].data, packets[i].size);
        lli_tx_sent(&side->tx, count, world.now);
    }
    /*
     * Never beyond the window from the other side's position, so that all packets that it may request are
     * retained.
     */
    if (side->tx.sent > side->tx.config.history.start && side->tx.sent > world.sides[to].rx.gap.next + WINDOW)
        fail("more is sent than was reported");
    if (side->tx.history.trail > lli_max(world.sides[to].rx.gap.next, side->tx.config.history.start))
        fail("a packet left the history that was not delivered");
    lli_tx_reaped(&side->tx, true);
    while (lli_tx_repair(&side->tx, world.now, packets)) {
        fly(to, packets[0].data, packets[0].size);
        lli_tx_repaired(&side->tx, world.now);
    }
    while (lli_tx_control(&side->tx, world.now, buffer, 1024, packets))
        fly(to, packets[0].data, packets[0].size);
    while (lli_rx_control(&side->rx, world.now, buffer, packets))
        fly(to, packets[0].data, packets[0].size);
}

static void side_take(struct side *side, const struct side *other)
{
    struct lli_item item;

    while (lli_rx_next(&side->rx, world.now, &item))
        side_item(side, other, &item);
}

/* ------------------------------------------------------------------------------------------------ the end */

static void side_say(struct side *side, int to)
{
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    const struct side *other = &world.sides[to];

    /* A waiting side learns by it of the complete delivery. */
    side->said +=
        !other->gone && (!other->closing || world.now + 10 * US + world.delay_max < other->lingers_until);
    fly(to, buffer, (uint32_t)lli_wire_put_close(buffer, &side->close_retry.close));
}

/* Its sessions stop. */
static void side_stop(struct side *side, int to, enum lli_wire_closing word)
{
    const struct lli_wire_address address = {.size = 1, .bytes = {(uint8_t)to}};
    const struct lli_wire_close close = {
        .id = world.connector.connect.id,
        .reason = (uint8_t)word,
        .address = {.size = 1, .bytes = {(uint8_t)(1 - to)}},
        .next = word == LLI_WIRE_BROKEN || side->rx.state == LLI_RX_JOINING ? 0 : side->rx.gap.next};

    side->undelivered = side->sent > 0 && !lli_close_retry_is_delivered(&side->tx, side->dismissed);
    side->gone = true;
    side->left_at = world.now;
    if (side->dismissed)
        return;
    side->word = word;
    lli_close_retry_begin(&side->close_retry, &close, &address, side->tx.group.rtt, world.now + LINGER,
                          world.now);
    side_say(side, to);
}

static void side_close(struct side *side)
{
    side->closing = true;
    side->lingers_until = world.now + LINGER;
    lli_tx_end(&side->tx, world.now);
}

static void side_service_end(struct side *side, int to)
{
    if (side->dead || !side->running)
        return;
    if (side->gone) {
        if (side->close_retry.words > 0 && world.now >= side->close_retry.at) {
            side_say(side, to);
            lli_close_retry_said(&side->close_retry, world.now);
        }
        return;
    }
    if (world.closes && side->open && !side->closing &&
        (side->ended ? world.now >= side->reacts_at
                     : side->sent == world.messages && side->received >= side->closes_behind))
        side_close(side);
    if (side->ended && side->reason != LLM_REASON_CLOSED)
        side_stop(side, to, side->reason == LLM_REASON_BROKEN ? LLI_WIRE_BROKEN : LLI_WIRE_ABANDONED);
    else if (side->dismissed || (side->closing && lli_close_retry_is_delivered(&side->tx, false)))
        side_stop(side, to, LLI_WIRE_LEFT);
    else if (side->closing && world.now >= side->lingers_until)
        side_stop(side, to, LLI_WIRE_ABANDONED);
}

static void input_close(struct side *side, const struct lli_wire_close *close)
{
    const struct lli_wire_close answer = {.id = close->id, .reason = LLI_WIRE_HEARD};
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];

    if (close->reason == LLI_WIRE_HEARD) {
        side->close_retry.words = 0;
        return;
    }
    if (lli_close_retry_wants_answer(close))
        fly(close->address.bytes[0], buffer, (uint32_t)lli_wire_put_close(buffer, &answer));
    if (!side->running || side->gone)
        return;
    side->dismissed = true;
    lli_close_retry_left(&side->tx, close->next);
    side_over(side, close->reason == LLI_WIRE_LEFT     ? LLM_REASON_CLOSED
                    : close->reason == LLI_WIRE_BROKEN ? LLM_REASON_BROKEN
                                                       : LLM_REASON_ABANDONED);
}

/* ---------------------------------------------------------------------------------------------- handshake */

static void service_handshake(void)
{
    struct side *asker = &world.sides[ASKER], *listener = &world.sides[LISTENER];
    const struct lli_wire_accept accept = {.session = listener->session,
                                           .start = listener->tx.config.history.start,
                                           .message_bytes_max = MESSAGE_MAX};
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_applicant *guest;
    uint32_t place = 0;
    size_t size;

    if (!asker->dead && (size = lli_connector_control(&world.connector, world.now, buffer)) > 0)
        fly(LISTENER, buffer, (uint32_t)size);
    if (!asker->dead && world.connector.state == LLI_CONNECTOR_ACCEPTED && !asker->running)
        side_run(asker, world.connector.accept.session, &world.connector.accept);
    if (!asker->ended && world.connector.state == LLI_CONNECTOR_UNANSWERED)
        side_over(asker, LLM_REASON_UNANSWERED);
    for (int i = 0; i < SIDES; i++) {
        struct side *side = &world.sides[i];

        if (side->running && (!side->open || lli_rx_is_unheard(&side->rx)) &&
            world.now >= (i == ASKER ? world.connector.until : side->until))
            side_over(side, side->open ? LLM_REASON_TIMEOUT : LLM_REASON_UNANSWERED);
    }
    if (listener->dead)
        return;
    if ((guest = lli_acceptor_next(&world.acceptor, &place)) != NULL) {
        if (listener->running)
            fail("a second connection came of one");
        lli_acceptor_show(guest, world.now);
        lli_acceptor_accept(&world.acceptor, guest, &accept, world.now);
        side_run(listener, guest->connect.session, NULL);
        listener->until = world.now + ASKS_FOR;
    }
    for (place = 0; lli_acceptor_answer_due(&world.acceptor, &place) != NULL;
         lli_acceptor_answered(&world.acceptor, place))
        fly(ASKER, buffer, (uint32_t)lli_acceptor_answer(&world.acceptor, place, buffer));
}

static void input_connection(int to, const uint8_t *bytes, size_t size)
{
    struct lli_wire_header header;
    struct lli_wire_connect connect;
    struct lli_wire_accept accept;
    struct lli_wire_close close;
    const uint8_t *body;
    size_t body_size;

    if (lli_wire_get_connection(bytes, size, &header, &body, &body_size) != LLI_WIRE_OK)
        fail("a packet that nobody understands");
    if (to == LISTENER && header.type == LLI_WIRE_CONNECT &&
        lli_wire_get_connect(body, body_size, header.tag, &connect))
        lli_acceptor_input(&world.acceptor, &connect, world.now);
    if (to == ASKER && header.type == LLI_WIRE_ACCEPT &&
        lli_wire_get_accept(body, body_size, header.tag, &accept))
        (void)lli_connector_input_accept(&world.connector, &accept);
    if (header.type == LLI_WIRE_CLOSE && lli_wire_get_close(body, body_size, header.tag, &close))
        input_close(&world.sides[to], &close);
}

static void input(const struct flight *flight)
{
    struct side *side = &world.sides[flight->to];
    struct lli_rx_packet packet = {.bytes = flight->bytes, .size = flight->size};

    if (side->dead)
        return;
    if (lli_wire_get_header(flight->bytes, flight->size, &packet.header, &packet.body, &packet.body_size) !=
        LLI_WIRE_OK) {
        input_connection(flight->to, flight->bytes, flight->size);
        return;
    }
    if (!side->running || side->gone)
        return;
    if (packet.header.tag == side->rx.tag && side->rx.state != LLI_RX_FREE &&
        lli_rx_input(&side->rx, &packet, world.now))
        side_take(side, &world.sides[1 - flight->to]);
    if (packet.header.tag == (uint32_t)side->session) {
        lli_tx_input(&side->tx, &packet.header, packet.body, packet.body_size, world.now);
        side_heard(side);
    }
}

/* ------------------------------------------------------------------------------------------------ history */

static void deliver(void)
{
    for (uint32_t i = 0; i < world.flying;) {
        if (world.flights[i].at > world.now) {
            i++;
            continue;
        }
        struct flight flight = world.flights[i];

        world.flights[i] = world.flights[--world.flying];
        input(&flight);
    }
}

static void advance(void)
{
    lli_ns at = world.now + MS;

    for (uint32_t i = 0; i < world.flying; i++)
        at = lli_min(at, world.flights[i].at);
    for (int i = 0; i < SIDES; i++)
        if (world.sides[i].running && !world.sides[i].unheard && !world.sides[i].dead)
            at = lli_min(at,
                         lli_min(lli_tx_deadline(&world.sides[i].tx), lli_rx_deadline(&world.sides[i].rx)));
    /* Time advances in any case: a blocked side may be due for ever. */
    world.now = lli_max(at, world.now + US);
}

static bool is_through(const struct side *side, const struct side *other)
{
    if (world.closes)
        return side->dead || (!side->running && side->ended) ||
               (side->gone && side->close_retry.words == 0) || (!side->running && other->gone);
    return side->ended || side->dead ||
           (side->open && side->sent == world.messages && side->received == world.messages && other->open);
}

static void step(void)
{
    deliver();
    if (world.dies < SIDES && world.now >= world.dies_at)
        world.sides[world.dies].dead = true;
    service_handshake();
    for (int i = 0; i < SIDES; i++) {
        struct side *side = &world.sides[i];

        side_service_end(side, 1 - i);
        if (!side->running || side->dead || side->gone || (side->ended && side->reason != LLM_REASON_CLOSED))
            continue;
        side_talk(side);
        if (!side->unheard)
            side_send(side, 1 - i);
        side_take(side, &world.sides[1 - i]);
    }
    advance();
}

/* Draws which sides close, and when: after everything was received, or before. */
static void history_draw_end(void)
{
    const uint64_t who = below(4);

    world.closes = who < 3;
    for (int i = 0; i < SIDES; i++)
        world.sides[i].closes_behind = who != 2 && (int)who != i ? UINT64_MAX
                                       : below(2) == 0           ? world.messages
                                                                 : below(world.messages);
}

static void history_draw(uint64_t seed)
{
    struct lli_wire_connect connect;

    world.seed = seed;
    world.random = seed * 2 + 1;
    world.now = S;
    world.flying = 0;
    world.flown = 0;
    world.loss_ppm = below(3) == 0 ? 0 : (uint32_t)below(300000);
    world.duplicate_ppm = below(2) == 0 ? 0 : (uint32_t)below(100000);
    world.delay_max = 1 + below(below(2) == 0 ? 100 * US : 5 * MS);
    world.messages = 50 + below(800);
    world.cut_from = world.now + below(30 * MS);
    /* Half of the cuts end in time; the others last until a side has to give up. */
    world.cut_to = world.cut_from + (below(3) == 0   ? 0
                                     : below(2) == 0 ? below(4 * S)
                                                     : 8 * S + below(30 * S));
    world.cut_way = (int)below(3);
    world.dies = (int)below(8);
    world.dies_at = world.now + below(30 * MS);
    memset(world.guests, 0, sizeof world.guests);
    memset(world.ids, 0, sizeof world.ids);
    for (int i = 0; i < SIDES; i++)
        side_init(&world.sides[i], i);
    history_draw_end();
    lli_acceptor_init(&world.acceptor, world.guests, world.ids, GUESTS, ASKS_FOR);
    connect = (struct lli_wire_connect){.id = lli_random(&world.random) | 1,
                                        .session = world.sides[ASKER].session,
                                        .message_bytes_max = MESSAGE_MAX};
    lli_connector_init(&world.connector, &connect, ASKS_FOR, world.now);
}

/* Checks what a side knows after leaving. */
static void side_check_end(const struct side *side, const struct side *other, bool benign)
{
    const bool known = side->gone && !side->undelivered,
               waited = side->gone && side->closing && side->sent > 0;
    const bool delivered = side->sent > 0 && other->received == side->sent;

    if (!side->gone && !side->ended)
        fail("neither left nor told of the end");
    if (known && side->sent > 0 && !delivered)
        fail("what was not delivered is said to have been");
    if (!benign)
        return;
    if (side->ended && side->reason == LLM_REASON_TIMEOUT)
        fail("a connection that was closed is lost");
    /* A side that closes by itself need not learn of the other's end. */
    if (side->word == LLI_WIRE_LEFT && !(other->ended && other->reason == LLM_REASON_CLOSED) &&
        !other->closing)
        fail("a side that left when all was delivered has not closed for the other");
    if (world.loss_ppm > LOSS_BOUNDED_PPM || !waited)
        return;
    world.closed++;
    world.expected += ALL_LOST;
    if (!delivered || known)
        return;
    world.unsure++;
    if (other->gone && (side->dismissed || other->said < WORDS_BOUNDED))
        fail("what was delivered is not known to have been");
}

/* Checks the final state of both sides. */
static void history_check(void)
{
    /* All requests may be lost, and an established connection may be lost. */
    const bool there = world.loss_ppm == 0 || (world.sides[ASKER].open && world.sides[LISTENER].open);
    const bool benign = world.dies >= SIDES && world.cut_to - world.cut_from < 4 * S && there;

    for (int i = 0; i < SIDES; i++) {
        const struct side *side = &world.sides[i];

        if (side->dead || (i == LISTENER && !side->running))
            continue;
        if (world.closes) {
            side_check_end(side, &world.sides[1 - i], benign && world.cut_to == world.cut_from);
            continue;
        }
        if (!side->ended && (side->received != world.messages || side->sent != world.messages))
            fail("neither all messages nor an end");
        if (side->ended && side->reason == LLM_REASON_CLOSED)
            fail("closed by nobody");
        if (benign && side->ended)
            fail("a connection is lost whose network was whole again in time");
    }
}

static void history_end(void)
{
    for (int i = 0; i < SIDES; i++)
        for (int j = 0; j < 3; j++)
            free(world.sides[i].memory[j]);
}

/* Checks when both sides are open, without losses or with one lost packet (from 1) of the handshake. */
static void handshake_run(uint64_t seed, uint64_t loses)
{
    const lli_ns begin = S;
    lli_ns way;

    history_draw(seed);
    world.loss_ppm = world.duplicate_ppm = 0;
    world.cut_to = world.cut_from;
    world.dies = SIDES;
    world.closes = false;
    world.loses = loses;
    way = 10 * US + world.delay_max;
    while (!(world.sides[ASKER].open && world.sides[LISTENER].open) && world.now < begin + ASKS_FOR)
        step();
    /* One round trip; and half a round trip more. A microsecond passes with each step. */
    if (loses == 0 &&
        !(world.sides[ASKER].opened_at != 0 && world.sides[ASKER].opened_at < begin + 2 * way + 50 * US))
        fail("whoever asked is not open after one round trip");
    if (loses == 0 && !(world.sides[LISTENER].opened_at != 0 &&
                        world.sides[LISTENER].opened_at < begin + 3 * way + 50 * US))
        fail("whoever accepted is not open after one and a half round trips");
    if (!(world.sides[LISTENER].opened_at != 0 &&
          world.sides[LISTENER].opened_at < begin + 5 * way + 40 * MS))
        fail("a packet of the handshake was lost, and not soon made up for");
    world.loses = 0;
    history_end();
}

static void history_run(uint64_t seed)
{
    lli_ns until;

    history_draw(seed);
    until = lli_max(world.cut_to, world.now) + HEALS_IN;
    while (world.now < until &&
           !(is_through(&world.sides[0], &world.sides[1]) && is_through(&world.sides[1], &world.sides[0])))
        step();
    history_check();
    if (world.verbose)
        printf("seed %" PRIu64 ": %" PRIu64 " and %" PRIu64 " of %" PRIu64
               " messages, reasons %d and %d, %.3f s\n",
               seed, world.sides[0].received, world.sides[1].received, world.messages,
               (int)world.sides[0].reason, (int)world.sides[1].reason, (double)world.now / 1e9);
    history_end();
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, count = 300, lost = 0, whole = 0, left = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            world.verbose = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10), count = 1;
        else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 10);
    }
    for (uint64_t i = 0; i < count; i++) {
        handshake_run(seed + i, i % HANDSHAKE);
        history_run(seed + i);
        left += world.closes;
        lost += !world.closes && (world.sides[0].ended || world.sides[1].ended);
        whole += !world.closes && !world.sides[0].ended && !world.sides[1].ended;
    }
    printf("%" PRIu64 " histories: %" PRIu64 " whole, %" PRIu64 " lost and said so, %" PRIu64
           " closed: of %" PRIu64 " sides that waited %" PRIu64
           " do not know that all was delivered, expected %.2f\n",
           count, whole, lost, left, world.closed, world.unsure, world.expected);
    return (double)world.unsure > 4 + 2 * world.expected;
}
