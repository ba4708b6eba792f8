/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of one stream that a receiver merges: the input is a sequence of their packets, well-formed and malformed, and
 * of steps in time. For every input each number of the stream is delivered, or reported lost, at most once and in order,
 * nothing is left out silently, memory stays within its bounds, and no session becomes due immediately for ever.
 */
#include "core/rx/rx_single.h"
#include "core/stream/stream.h"
#include "fuzz_rx.h"

enum {
    SESSIONS = 3,
    TOPICS = 4,
    PACKET_MAX = 256,
    STREAMS = 4,
    STREAMS_NAMED = 2, /* by heartbeats */
    STEPS_MAX = 300,
    ROUNDS_MAX = 6,
    ITEMS_MAX = 100000,
    STREAM = 77,
};

#define SESSION ((uint64_t)0x1122334455667700)

struct world {
    struct lli_rx_config config;
    struct lli_reorder reorder;
    struct lli_rx_counters counters;
    struct lli_streams streams;
    uint64_t random;
    struct lli_rx rx[SESSIONS];
    lli_ns now;
    struct {
        bool known;    /* `next` is valid */
        uint64_t next; /* number that is to come */
    } streams_of[STREAMS_NAMED];
};

static void world_place(void *arg, struct lli_arena arenas[2])
{
    struct world *world = arg;

    lli_reorder_init(&world->reorder, REORDER_BYTES, PACKET_MAX, &arenas[0], &arenas[0]);
    lli_streams_init(&world->streams, STREAMS, &arenas[0]);
    for (int i = 0; i < SESSIONS; i++)
        lli_rx_init(&world->rx[i], &world->config, &world->reorder, &world->counters, &world->random,
                    &arenas[0], &arenas[1]);
}

static void world_init(struct world *world)
{
    *world = (struct world){.now = 1000000, .random = 1};
    world->config = fuzz_rx_config();
    world->config.topics_max = TOPICS;
    world->config.streams = &world->streams;
    fuzz_place(world_place, world);
    for (uint32_t i = 0; i < SESSIONS; i++)
        lli_rx_start(&world->rx[i], (uint32_t)SESSION + i, world->now);
}

/* ---------------------------------------------------------------------------------------------- promises */

/* Checks that these numbers, before `next`, are those that come next. */
static void expect(struct world *world, const struct lli_rx *rx, uint64_t number, uint64_t next)
{
    const uint64_t stream = rx->stream.claim.stream - STREAM;

    FUZZ_CHECK(stream < STREAMS_NAMED);
    FUZZ_CHECK(!world->streams_of[stream].known || number == world->streams_of[stream].next);
    FUZZ_CHECK(next >= number);
    world->streams_of[stream].known = true;
    world->streams_of[stream].next = next;
}

/* A session that is not merged, as one byte of a heartbeat says, begins the stream anew with its own numbers. */
static void expect_anew(struct world *world, const struct lli_rx *rx)
{
    const uint64_t stream = rx->stream.claim.stream - STREAM;

    if (rx->stream.merge == NULL && stream < STREAMS_NAMED)
        world->streams_of[stream].known = false;
}

static void take_event(struct world *world, struct lli_rx *rx, const struct llm_event *event)
{
    const bool merged = rx->stream.merge != NULL;

    if (event->kind == LLM_EVENT_STREAM_GAP || (event->kind == LLM_EVENT_GAP && merged)) {
        FUZZ_CHECK(event->reason != LLM_REASON_NONE);
        if (event->last + 1 > event->first && merged)
            expect(world, rx, event->first, event->last + 1);
    }
    if (event->kind == LLM_EVENT_SESSION_END && event->reason == LLM_REASON_TIMEOUT) {
        const uint32_t index = (uint32_t)(rx - world->rx);

        lli_rx_stop(rx);
        lli_rx_start(rx, (uint32_t)SESSION + index, world->now);
    }
}

static void take_messages(struct world *world, const struct lli_rx *rx, const struct lli_item *item)
{
    for (int i = 0; i < item->count; i++) {
        const struct llm_message *message = &item->messages[i];

        FUZZ_CHECK(message->size <= MESSAGE_MAX);
        fuzz_touch(message->data, message->size);
        if (rx->stream.merge != NULL)
            expect(world, rx, message->number, message->number + 1);
    }
}

static void deliver(struct world *world, struct lli_rx *rx)
{
    struct lli_item item;

    for (int items = 0; lli_rx_next(rx, world->now, &item); items++) {
        FUZZ_CHECK(items < ITEMS_MAX);
        expect_anew(world, rx);
        if (item.kind == LLI_ITEM_MESSAGES)
            take_messages(world, rx, &item);
        else if (item.kind == LLI_ITEM_EVENT)
            take_event(world, rx, &item.event);
    }
}

static void serve_session(struct world *world, struct lli_rx *rx)
{
    uint8_t buffer[1024];
    struct lli_packet packet;
    struct lli_rx *before;
    struct llm_event event;
    int sent = 0;

    if (lli_rx_asks_stream(rx) && lli_rx_stream_ask(rx, world->rx, SESSIONS, &before, &event))
        lli_rx_stream_begin(rx, world->now);
    while (lli_rx_control(rx, world->now, buffer, &packet))
        FUZZ_CHECK(++sent < 1000);
    deliver(world, rx);
}

static bool is_due(const struct world *world, const struct lli_rx *rx)
{
    return rx->state != LLI_RX_FREE && (lli_rx_deadline(rx) <= world->now || lli_rx_asks_stream(rx));
}

/* Does as the engine after each packet and at each deadline. What one session delivers may let another one go on. */
static void serve(struct world *world)
{
    for (int i = 0; i < ROUNDS_MAX * SESSIONS; i++)
        if (is_due(world, &world->rx[i % SESSIONS]))
            serve_session(world, &world->rx[i % SESSIONS]);
    for (int i = 0; i < SESSIONS; i++)
        FUZZ_CHECK(!is_due(world, &world->rx[i]));
    FUZZ_CHECK(world->reorder.used <= world->reorder.count * LLI_REORDER_CHUNK);
}

/* ------------------------------------------------------------------------------------------------- steps */

static void input(struct world *world, uint32_t session, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    struct lli_rx_packet packet = {.bytes = copy, .size = size};

    FUZZ_CHECK(copy != NULL);
    if (size > 0)
        memcpy(copy, bytes, size);
    if (lli_wire_get_header(copy, size, &packet.header, &packet.body, &packet.body_size) == LLI_WIRE_OK &&
        lli_rx_input(&world->rx[session], &packet, world->now))
        deliver(world, &world->rx[session]);
    free(copy);
}

static void step_heartbeat(struct world *world, struct fuzz_input *in)
{
    const uint32_t session = fuzz_u8(in) % SESSIONS;
    const uint8_t what = fuzz_u8(in);
    struct lli_wire_heartbeat heartbeat = {
        .session = SESSION + session,
        .start = START,
        .trail = START + (what & 8 ? fuzz_u8(in) % 16 : 0),
        .lead = START + fuzz_u8(in) % 64,
        .messages = fuzz_u8(in),
        .sent_at = ++world->now,
        .interval_us = 10000,
        .topics = what >> 4 & 3,
        .flags = LLI_WIRE_HEARTBEAT_YOUNG | (what & 4 ? LLI_WIRE_HEARTBEAT_END : 0),
        .address = {.size = 1, .bytes = {'t'}},
        .stream = what & 128 ? STREAM + fuzz_u8(in) % STREAMS_NAMED : STREAM,
        .base = what & 2 ? fuzz_u8(in) % 16 : 0,
        .merges = (what & 1) == 0,
    };
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    input(world, session, packet, lli_wire_put_heartbeat(packet, &heartbeat));
}

/* Messages of one byte, a run of skipped numbers, or any bytes. */
static void step_data(struct world *world, struct fuzz_input *in)
{
    const uint32_t session = fuzz_u8(in) % SESSIONS;
    const uint8_t what = fuzz_u8(in), index = fuzz_u8(in) % 64;
    uint8_t packet[PACKET_MAX] = {0}, *at = packet + LLI_WIRE_DATA_HEADER;
    struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                     .tag = (uint32_t)SESSION + session,
                                     .seq = (uint32_t)(START + index),
                                     .number = what & 1 ? fuzz_u8(in) : index};

    if ((what & 6) == 6) {
        size_t size;
        uint8_t *bytes = fuzz_bytes(in, fuzz_u8(in) % 128, &size);

        memcpy(at, bytes, size);
        free(bytes);
        at += size;
    } else if ((what & 6) == 4) {
        lli_frame_put_numbers(at, 1 + what % 5u);
        at += LLI_FRAME_NUMBERS_SIZE;
    } else {
        lli_frame_put_topic(at, what >> 4 & 3);
        at += lli_frame_topic_size(what >> 4 & 3);
        for (int i = 0; i <= (what >> 6); i++) {
            *at++ = 1;
            *at++ = (uint8_t)(index + i + (what & 8));
        }
    }
    header.size = (uint16_t)(at - packet);
    lli_wire_put_header(packet, &header);
    input(world, session, packet, header.size);
}

static void step_reject(struct world *world, struct fuzz_input *in)
{
    const uint32_t session = fuzz_u8(in) % SESSIONS;
    const struct lli_wire_reject reject = {
        .session = SESSION + session, .trail = START + fuzz_u8(in) % 80, .reason = LLI_WIRE_GONE};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    input(world, session, packet, lli_wire_put_reject(packet, &reject));
}

static void step_time(struct world *world, struct fuzz_input *in)
{
    world->now += (lli_ns)1 << fuzz_u8(in) % 33;
}

static void step_raw(struct world *world, struct fuzz_input *in)
{
    const uint32_t session = fuzz_u8(in) % SESSIONS;
    size_t size;
    uint8_t *bytes = fuzz_bytes(in, fuzz_u8(in) % 128, &size);

    input(world, session, bytes, size);
    free(bytes);
}

static void step_leave(struct world *world, struct fuzz_input *in)
{
    const uint32_t session = fuzz_u8(in) % SESSIONS;

    lli_rx_stop(&world->rx[session]);
    lli_rx_start(&world->rx[session], (uint32_t)SESSION + session, world->now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const steps[])(struct world *, struct fuzz_input *) = {
        step_data, step_heartbeat, step_data, step_time, step_reject, step_data, step_raw, step_leave,
    };
    struct fuzz_input in = fuzz_input_of(data, size);
    static struct world world;

    world_init(&world);
    for (int step = 0; step < STEPS_MAX && fuzz_left(&in) > 0; step++) {
        steps[fuzz_u8(&in) % (sizeof steps / sizeof steps[0])](&world, &in);
        serve(&world);
    }
    for (int i = 0; i < SESSIONS; i++)
        lli_rx_stop(&world.rx[i]);
    FUZZ_CHECK(world.reorder.used == 0);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- seeds */

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    /* Two sessions; the first one lacks a packet that the second one has, and both lack one. */
    static const uint8_t gaps[] = {
        1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 2,  0, 1,  0, 0,  0, 1, 0, 1, 0, 1, 0, 2, 1,  0,
        0, 8, 8, 0, 0, 0, 4, 0, 1, 0, 4, 1, 1, 0, 9, 9, 3, 22, 3, 29, 3, 30, 0, 0, 0, 5, 4, 0, 3, 3, 32,
    };
    /* The second one begins later, differs, skips numbers, and the first one ends. */
    static const uint8_t later[] = {
        1, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 1, 1,  1, 2, 0, 0, 5, 0, 1, 8, 0, 0, 1, 8, 1, 0, 1, 4, 2, 1,
        1, 0, 9, 9, 2, 3, 29, 1, 0, 4, 2, 2, 3, 30, 7, 0, 1, 0, 0, 0, 0, 2, 1, 6, 3, 9, 1, 2, 3, 4, 5, 6,
    };

    emit(arg, gaps, sizeof gaps);
    emit(arg, later, sizeof later);
}
