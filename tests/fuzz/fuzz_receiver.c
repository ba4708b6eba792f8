/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live receiver: the input is a sequence of packets, well-formed and malformed, and of steps in time. For
 * every input, messages are delivered in the order of their numbers, gaps name the missing ones, memory stays
 * within its bounds, and the receiver does not become due immediately for ever. An input that begins with the
 * byte 255 is for unordered delivery: messages delivered ahead of order have higher numbers than the next
 * one, and all other rules hold. One that begins with 254 is for two lines: packets come on either, or on both.
 */
#include "core/flow/standing.h"
#include "core/select/filter.h"
#include "fuzz_rx.h"
#include "core/rx/rx_single.h"

enum {
    TOPICS = 16,
    PACKET_MAX = 512,
    STEPS_MAX = 300,
    ITEMS_MAX = 100000,
};

#define SESSION ((uint64_t)0x1122334455667788)

static struct lli_filter filters[2]; /* by label only, and by all conditions */

struct world {
    struct lli_rx_config config;
    struct lli_reorder reorder;
    struct lli_rx_counters counters;
    uint64_t random;
    struct lli_rx rx;
    lli_ns now;
    lli_ns sent_at;
    bool known;           /* LLM_EVENT_SESSION_NEW was delivered */
    struct llm_join join; /* start position to choose */
    bool refusing;        /* topics were refused: their messages are skipped without an item */
    bool filtering;       /* there is or was a filter: likewise for messages that it rejects */
    uint64_t kept_topic;  /* of the latest cached message ... */
    uint64_t kept_number; /* ... its number plus one; all cached messages are before `expected` */
    uint64_t expected;    /* number of the next message */
    uint64_t receded;     /* returns to the position of the heartbeats so far */
    uint64_t ahead;       /* messages delivered ahead of order */
    uint64_t lines;       /* draws the lines of packets */
};

static void world_place(void *arg, struct lli_arena arenas[2])
{
    struct world *world = arg;
    const bool as_it_arrives = world->config.as_it_arrives;

    /* Measured once: receivers that deliver on arrival need the most. */
    world->config.as_it_arrives |= arenas[0].memory == NULL;
    lli_reorder_init(&world->reorder, REORDER_BYTES, PACKET_MAX, &arenas[0], &arenas[0]);
    lli_rx_init(&world->rx, &world->config, &world->reorder, &world->counters, &world->random, &arenas[0],
                &arenas[1]);
    world->config.as_it_arrives = as_it_arrives;
}

static void world_init(struct world *world, bool as_it_arrives)
{
    *world = (struct world){.now = 1000000, .random = 1};
    world->config = fuzz_rx_config();
    world->config.topics_max = TOPICS;
    world->config.as_it_arrives = as_it_arrives;
    fuzz_place(world_place, world);
}

/* ---------------------------------------------------------------------------------------------- promises */

/* Checks that this is the number of the next message or loss. */
static void expect(struct world *world, uint64_t number, uint64_t next)
{
    /* Messages that are refused, rejected, or older than the join are skipped without an item. */
    const bool passing = world->refusing || world->filtering ||
                         world->counters.messages_stale + world->counters.packets_without_history > 0;

    FUZZ_CHECK(world->known);
    /* Heartbeats that contradict the position name a new one (docs/protocol.md 4.4). */
    if (world->counters.streams_receded != world->receded) {
        world->receded = world->counters.streams_receded;
        world->expected = number < world->expected ? number : world->expected;
    }
    FUZZ_CHECK(passing || world->config.as_it_arrives ? number >= world->expected
                                                      : number == world->expected);
    FUZZ_CHECK(next >= number);
    world->expected = next;
}

static void take_event(struct world *world, const struct llm_event *event)
{
    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        FUZZ_CHECK(!world->known);
        world->known = true;
        world->expected = event->first;
        world->kept_topic = world->kept_number = 0;
        break;
    case LLM_EVENT_GAP:
        if (event->reason == LLM_REASON_TOO_LONG && event->first < world->expected &&
            world->rx.pending.slow_path & LLI_RX_LATEST)
            break;
        FUZZ_CHECK(event->reason != LLM_REASON_NONE);
        FUZZ_CHECK(event->packets > 0 || event->last + 1 > event->first);
        expect(world, event->first, event->last + 1);
        break;
    case LLM_EVENT_SESSION_END:
        FUZZ_CHECK(event->reason != LLM_REASON_NONE);
        expect(world, event->first, event->first);
        world->known = false;
        world->refusing = false;
        if (event->reason == LLM_REASON_TIMEOUT)
            lli_rx_stop(&world->rx);
        break;
    case LLM_EVENT_JOIN_REFUSED:
        FUZZ_CHECK(!world->known && event->reason != LLM_REASON_NONE);
        break;
    case LLM_EVENT_WARNED:
    case LLM_EVENT_UNICAST_ONLY:
    case LLM_EVENT_SUSPENDED:
    case LLM_EVENT_EXPELLED:
    case LLM_EVENT_READMITTED:
        FUZZ_CHECK(event->verdict != NULL && event->verdict->receiver == world->config.receiver);
        FUZZ_CHECK(world->known);
        break;
    case LLM_EVENT_CONNECTED:
    case LLM_EVENT_DISCONNECTED:
    case LLM_EVENT_UNREACHABLE:
    case LLM_EVENT_KEYS:
    case LLM_EVENT_FORGED:
    case LLM_EVENT_DIVERGED:
    case LLM_EVENT_STREAM_GAP:
    case LLM_EVENT_STREAM_AGAIN:
    case LLM_EVENT_STREAM_REFUSED:
    case LLM_EVENT_ACKNOWLEDGED:
    case LLM_EVENT_UNACKNOWLEDGED:
    case LLM_EVENT_STORE_STOPPED:
    case LLM_EVENT_LIMITED:
    case LLM_EVENT_RECEIVER_LIMITED:
        FUZZ_CHECK(false);
        break;
    case LLM_EVENT_LINE_DOWN:
    case LLM_EVENT_LINE_UP:
        FUZZ_CHECK(world->known && world->config.lines == 2 && event->first - 1 < 2);
        break;
    case LLM_EVENT_LIVE:
    case LLM_EVENT_CACHE_LOST:
    case LLM_EVENT_HEARTBEAT_LOST:
    case LLM_EVENT_RESUMED:
    case LLM_EVENT_TOPIC_NEW:
        FUZZ_CHECK(world->known);
        break;
    }
}

/* Checks that cached messages come topic by topic, in order, and precede those of the stream. */
static void take_kept(struct world *world, const struct llm_message *message)
{
    FUZZ_CHECK(world->known && message->number < world->expected);
    FUZZ_CHECK(message->topic_id > world->kept_topic ||
               (message->topic_id == world->kept_topic && message->number >= world->kept_number));
    world->kept_topic = message->topic_id;
    world->kept_number = message->number + 1;
}

static void take_message(struct world *world, const struct llm_message *message)
{
    struct lli_rx_frame frame;

    FUZZ_CHECK(message->size <= MESSAGE_MAX);
    fuzz_touch(message->data, message->size);
    fuzz_touch(message->topic, strlen(message->topic));
    FUZZ_CHECK(world->filtering || !lli_rx_attributes(&world->rx, message, &frame));
    if (lli_rx_attributes(&world->rx, message, &frame))
        fuzz_touch(frame.bytes, frame.size);
    if (world->rx.pending.slow_path & LLI_RX_LATEST)
        take_kept(world, message);
    else if (world->counters.messages_unordered == world->ahead)
        expect(world, message->number, message->number + 1);
    else
        FUZZ_CHECK(world->config.as_it_arrives && world->known && message->number >= world->expected);
}

static void take_items(struct world *world)
{
    struct lli_item item;

    for (unsigned items = 0; lli_rx_next(&world->rx, world->now, &item); items++) {
        FUZZ_CHECK(items < ITEMS_MAX);
        if (item.kind == LLI_ITEM_JOIN) {
            lli_rx_begin(&world->rx, &world->join, world->now);
            continue;
        }
        if (item.kind != LLI_ITEM_MESSAGES) {
            if (item.kind == LLI_ITEM_TOPIC)
                fuzz_touch(item.event.topic, strlen(item.event.topic));
            take_event(world, &item.event);
            continue;
        }
        FUZZ_CHECK(item.count > 0 && item.count <= LLI_ITEM_MESSAGES_MAX);
        for (int i = 0; i < item.count; i++)
            take_message(world, &item.messages[i]);
        world->ahead = world->counters.messages_unordered;
    }
}

static void check_memory(const struct world *world)
{
    const struct lli_gap *gap = &world->rx.gap;
    uint64_t present = 0;

    FUZZ_CHECK(gap->next <= gap->end && gap->end - gap->next <= WINDOW);
    for (lli_seq seq = gap->next; seq < gap->end; seq++)
        present += lli_gap_is_present(gap, seq);
    FUZZ_CHECK(gap->missing == gap->end - gap->next - present);
    if (world->rx.pending.slow_path & LLI_RX_LATEST)
        present += world->rx.lvc.buffered_count;
    FUZZ_CHECK(world->reorder.used == present);
}

static void check_control(const struct lli_packet *packet)
{
    struct lli_wire_header header;
    const uint8_t *body;
    size_t size;

    FUZZ_CHECK(packet->size <= LLI_WIRE_CONTROL_MAX);
    FUZZ_CHECK(packet->to != NULL);
    FUZZ_CHECK(lli_wire_get_header(packet->data, packet->size, &header, &body, &size) == LLI_WIRE_OK);
    FUZZ_CHECK(header.type == LLI_WIRE_NAK || header.type == LLI_WIRE_STATUS ||
               header.type == LLI_WIRE_QUERY || header.type == LLI_WIRE_JOIN);
}

/* Services the receiver as the endpoint does; afterwards nothing may be due now. */
static void service(struct world *world)
{
    uint8_t buffer[1024];
    struct lli_packet packet;
    unsigned packets;

    if (lli_rx_may_return(&world->rx, world->now))
        lli_rx_stop(&world->rx);
    for (int round = 0; round < 3 && world->now >= lli_rx_deadline(&world->rx); round++) {
        for (packets = 0; lli_rx_control(&world->rx, world->now, buffer, &packet); packets++) {
            FUZZ_CHECK(packets < WINDOW + 4);
            check_control(&packet);
        }
        take_items(world);
    }
    FUZZ_CHECK(world->now < lli_rx_deadline(&world->rx));
}

/* ------------------------------------------------------------------------------------------------- steps */

/* Returns true if the packet came on the other line before, and is dropped. */
static bool is_second(struct world *world, uint8_t line, const uint8_t *packet, size_t size)
{
    return world->config.lines == 2 && world->rx.state == LLI_RX_LIVE && size >= LLI_WIRE_DATA_HEADER &&
           packet[0] == (LLI_WIRE_VERSION << 4 | LLI_WIRE_DATA) &&
           lli_load_u32(packet + 4) == world->rx.tag &&
           lli_rx_line_data(&world->rx, line, lli_load_u32(packet + 8), world->now);
}

static void input_on(struct world *world, uint8_t line, const uint8_t *packet, size_t size)
{
    struct lli_rx_packet in = {.bytes = packet, .size = size, .line = line};
    struct llm_message message;

    if (is_second(world, line, packet, size))
        return;

    if (world->rx.pending.plain) {
        lli_rx_settle(&world->rx);
        FUZZ_CHECK(world->rx.pending.plain);
    }
    /* Some packets take the fast path for packets that arrive alone. */
    if (size & 1 && size <= PACKET_MAX && world->rx.state != LLI_RX_FREE &&
        lli_rx_single(&world->rx, packet, size, 0, world->now, &message)) {
        take_message(world, &message);
        if (!lli_rx_is_idle(&world->rx))
            take_items(world);
        return;
    }
    if (size > PACKET_MAX ||
        lli_wire_get_header(packet, size, &in.header, &in.body, &in.body_size) != LLI_WIRE_OK)
        return;
    if (world->rx.state == LLI_RX_FREE) {
        if (in.header.type != LLI_WIRE_DATA && in.header.type != LLI_WIRE_HEARTBEAT)
            return;
        lli_rx_start(&world->rx, (uint32_t)SESSION, world->now);
    }
    if (in.header.tag == world->rx.tag && lli_rx_input(&world->rx, &in, world->now))
        take_items(world);
}

static void input(struct world *world, const uint8_t *packet, size_t size)
{
    const uint64_t drawn = world->config.lines == 2 ? lli_random_below(&world->lines, 4) : 0;

    input_on(world, drawn & 1, packet, size);
    if (drawn >= 2)
        input_on(world, !(drawn & 1), packet, size);
}

/* Arbitrary bytes, mostly with the right size and session identity: others are dropped early. */
static void step_raw(struct world *world, struct fuzz_input *in)
{
    size_t size;
    uint8_t *packet = fuzz_bytes(in, fuzz_u8(in), &size);
    uint64_t session = SESSION;

    if (size >= LLI_WIRE_HEADER && packet[LLI_WIRE_SIZE_AT + 1] != UINT8_MAX)
        lli_wire_put_size(packet, size);
    if (size >= 8)
        lli_store_u32(packet + 4, (uint32_t)session);
    if (size >= 24 && (packet[0] & 15) != LLI_WIRE_DATA)
        memcpy(packet + 16, &session, sizeof session);
    input(world, packet, size);
    free(packet);
}

static void step_data(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_header header = {.type = LLI_WIRE_DATA, .tag = (uint32_t)SESSION};
    uint8_t *packet, *body;
    size_t size;

    header.seq = (uint32_t)(START + fuzz_u8(in));
    header.number = fuzz_u8(in);
    header.first = fuzz_u8(in) % 8;
    body = fuzz_bytes(in, fuzz_u8(in), &size);
    header.size = (uint16_t)(LLI_WIRE_DATA_HEADER + size);
    packet = malloc(header.size);
    FUZZ_CHECK(packet != NULL);
    lli_wire_put_header(packet, &header);
    memcpy(packet + LLI_WIRE_DATA_HEADER, body, size);
    input(world, packet, header.size);
    free(packet);
    free(body);
}

static void step_heartbeat(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_heartbeat heartbeat = {
        .session = SESSION, .start = START, .address = {.size = 1, .bytes = {1}}};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    heartbeat.lead = START + fuzz_u16(in);
    heartbeat.trail = START + fuzz_u8(in);
    heartbeat.messages = fuzz_u16(in);
    heartbeat.flags = fuzz_u8(in);
    heartbeat.topics = fuzz_u8(in);
    heartbeat.receivers = fuzz_u8(in);
    heartbeat.rtt_ns = fuzz_u32(in);
    heartbeat.interval_us = fuzz_u16(in);
    heartbeat.sent_at = fuzz_u8(in) & 1 ? world->now : fuzz_u32(in);
    input(world, packet, lli_wire_put_heartbeat(packet, &heartbeat));
}

static void step_reject(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_reject reject = {.session = SESSION};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    reject.reason = fuzz_u8(in) % 5;
    reject.trail = START + fuzz_u16(in);
    reject.count = fuzz_u8(in) % 4;
    for (uint16_t i = 0; i < reject.count; i++)
        reject.ranges[i] = (struct lli_wire_range){(uint32_t)START + fuzz_u16(in), fuzz_u32(in)};
    input(world, packet, lli_wire_put_reject(packet, &reject));
}

static void step_notice(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_notice notice = {.session = SESSION};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    notice.receiver = world->config.receiver + fuzz_u8(in) % 4 / 3;
    notice.standing = fuzz_u8(in) % (LLI_STANDING_EXPELLED + 1);
    notice.threshold = fuzz_u8(in) % (LLI_WIRE_THRESHOLD_MAX + 1);
    notice.decided_at = fuzz_u8(in) & 1 ? world->now : fuzz_u32(in);
    notice.lead = START + fuzz_u16(in);
    notice.rejoin_ms = fuzz_u16(in);
    input(world, packet, lli_wire_put_notice(packet, &notice));
}

static void step_topics(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_topics topics = {.session = SESSION};
    uint8_t packet[PACKET_MAX];
    size_t used = LLI_WIRE_TOPICS_HEAD;

    topics.total = fuzz_u8(in);
    topics.first = fuzz_u8(in);
    topics.count = fuzz_u8(in) % 4;
    for (uint16_t i = 0; i < topics.count; i++) {
        size_t size;
        uint8_t *name = fuzz_bytes(in, fuzz_u8(in) % 32, &size);

        used = lli_wire_add_topic(packet, used, sizeof packet, (const char *)name, size);
        free(name);
    }
    input(world, packet, lli_wire_put_topics(packet, &topics, used));
}

/* Answers of the transmitter, or forged ones. */
static void step_join(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_join join = {.session = SESSION, .receiver = 77};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    join.kind = fuzz_u8(in) % 6;
    join.topics = world->join.mode == LLM_JOIN_LATEST ? 4 : 0;
    join.from = (uint8_t)world->join.mode;
    join.value = world->join.value;
    join.reason = fuzz_u8(in) % 4;
    join.packet = START + fuzz_u8(in);
    join.number = fuzz_u8(in);
    join.wanted = join.number % 3 * join.number;
    join.lead = join.packet + fuzz_u16(in);
    input(world, packet, lli_wire_put_join(packet, &join));
}

/* Records, valid and invalid. */
static void step_kept(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_lvc kept = {.session = SESSION, .receiver = 77};
    uint8_t packet[PACKET_MAX], how = fuzz_u8(in);
    size_t used = LLI_WIRE_LVC_HEAD, size;

    kept.number = how & 128 ? fuzz_u8(in) : world->rx.lvc.number;
    kept.next = kept.number + how % 4;
    kept.left = fuzz_u8(in);
    kept.count = how >> 2 & 7;
    kept.span.from = (struct lli_wire_place){fuzz_u8(in), fuzz_u8(in) % 8, 0};
    kept.span.to = (struct lli_wire_place){fuzz_u8(in), fuzz_u8(in) % 8, fuzz_u8(in)};
    if (how & 32)
        kept.span.from = world->rx.lvc.next;
    for (uint16_t i = 0; i < kept.count; i++) {
        struct lli_wire_record record = {.at = {fuzz_u8(in), fuzz_u8(in) % 8, 0}};
        uint8_t *bytes = fuzz_bytes(in, fuzz_u8(in) % 64, &size);

        if (how & 64)
            record.at.offset = world->rx.lvc.part.offset;
        record.bytes = bytes;
        record.size = (uint16_t)size;
        used = lli_wire_add_record(packet, used, sizeof packet, &record);
        free(bytes);
    }
    input(world, packet, lli_wire_put_lvc(packet, &kept, used));
}

static void step_time(struct world *world, struct fuzz_input *in)
{
    uint8_t scale = fuzz_u8(in) % 36;

    world->now += (lli_ns)1 << scale;
}

static void filters_make(void)
{
    static const struct llm_property_name names[] = {{"a", 1}};
    struct lli_selector_fault fault;

    for (int i = 0; i < 2; i++) {
        filters[i].labels_count = 2;
        filters[i].labels[0] = (struct llm_label_match){3, 1};
        filters[i].labels[1] = (struct llm_label_match){0xf0, 0xf0};
    }
    filters[1].bitmap = filters[1].any = true;
    filters[1].mask[0] = 0x81;
    FUZZ_CHECK(
        lli_selector_compile(&filters[1].selector, "a > 7 OR a LIKE 'x%' OR a IS NULL", names, 1, &fault));
    for (int i = 0; i < 2; i++)
        lli_filter_finish(&filters[i]);
}

static void step_application(struct world *world, struct fuzz_input *in)
{
    uint8_t what = fuzz_u8(in);
    uint8_t buffer[1024];
    struct lli_packet packet;

    if (what >= 248 && what < 255 && world->rx.state != LLI_RX_REQUESTING) {
        /* Applies from the next session on. */
        world->config.chooses = what != 249;
        world->config.otherwise = (enum lli_rx_otherwise)(what % 3);
        world->join = (struct llm_join){
            .mode = (enum llm_join_mode)(what == 248 ? LLM_JOIN_LATEST : what - 249), .value = fuzz_u8(in)};
    }
    if (what >= 200 && what < 206) {
        world->config.filter = what % 3 == 0 ? NULL : &filters[what % 3 - 1];
        world->filtering = true;
        lli_rx_filter(&world->rx);
    }
    if (what == 255) {
        if (world->rx.state == LLI_RX_LIVE && !(world->rx.pending.news & LLI_RX_NEW))
            FUZZ_CHECK(lli_rx_leave(&world->rx, world->now, buffer, &packet));
        lli_rx_stop(&world->rx);
        world->known = world->refusing = false;
    } else if (what < TOPICS && world->rx.state == LLI_RX_LIVE &&
               lli_topics_is_named(&world->rx.topics, what)) {
        lli_rx_topic_refuse(&world->rx, what);
        world->refusing = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const steps[])(struct world *, struct fuzz_input *) = {
        step_data, step_heartbeat,   step_time, step_raw,    step_reject, step_topics,
        step_data, step_application, step_join, step_notice, step_kept,
    };
    struct fuzz_input in = fuzz_input_of(data, size);
    struct world world;

    if (filters[0].labels_count == 0)
        filters_make();
    world_init(&world, size > 0 && data[0] == 255);
    world.config.lines = size > 0 && data[0] == 254 ? 2 : 0;
    if (world.config.as_it_arrives || world.config.lines == 2)
        (void)fuzz_u8(&in);
    for (int step = 0; step < STEPS_MAX && fuzz_left(&in) > 0; step++) {
        steps[fuzz_u8(&in) % (sizeof steps / sizeof steps[0])](&world, &in);
        service(&world);
        check_memory(&world);
    }
    lli_rx_stop(&world.rx);
    FUZZ_CHECK(world.reorder.used == 0);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- seeds */

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    /* Heartbeat of a young session, packets in and out of order, time for NAKs, the lost packet, the end. */
    static const uint8_t whole[] = {
        1,
        0,
        0,
        0,
        0,
        0,
        2,
        1,
        1,
        0,
        0,
        0,
        0,
        100,
        0,
        1, /* heartbeat: young */
        /* Announcement, a message */
        0,
        0,
        0,
        0,
        14,
        0xf0,
        6,
        0,
        0,
        0,
        0,
        0,
        'a',
        'b',
        3,
        'x',
        'y',
        'z',
        0,
        2,
        2,
        0,
        3,
        2,
        'p',
        'q', /* ahead of order */
        2,
        17,
        2,
        20,
        0,
        1,
        1,
        0,
        2,
        1,
        'm', /* the missing packet */
        6,
        3,
        3,
        0,
        4,
        0x80,
        6,
        'o',
        'n', /* a message that spans two packets */
        0,
        4,
        4,
        4,
        5,
        'e',
        't',
        'w',
        'o',
        1,
        1,
        5,
        0,
        0,
        5,
        0,
        3,
        1,
        1,
        0,
        0,
        0,
        0,
        100,
        0,
        1, /* the end */
        2,
        30,
        2,
        33,
    };
    /* Late join: queries for names, a REJECT, a gap, then silence until the session ends. */
    static const uint8_t late[] = {
        0,  8, 9, 0, 2, 1, 'a', 1,   9, 0,   2, 9,  0,  0, 2,  20, 0,   1, 0,  0, 100,
        0,  1, 5, 2, 0, 2, 1,   'b', 1, 's', 0, 12, 14, 0, 2,  1,  'b', 2, 20, 4, 1,
        11, 0, 1, 9, 0, 2, 0,   0,   0, 7,   1, 2,  30, 2, 31, 2,  32,  2, 33,
    };
    /* Suspended while a packet is missing, then expelled, then readmitted. */
    static const uint8_t slow[] = {
        1, 0, 0,   0, 0, 0,   2,   1,   1,   0,   0,   0, 0, 100, 0,  1,   0, 0,   0,   0,   14, 0xf0, 6,
        0, 0, 0,   0, 0, 'a', 'b', 3,   'x', 'y', 'z', 0, 2, 2,   0,  3,   2, 'p', 'q', 2,   17, 2,    20,
        9, 0, 3,   2, 1, 3,   0,   100, 0,   0,   3,   3, 0, 2,   1,  'm', 2, 20,  9,   0,   4,  2,    1,
        3, 0, 100, 0, 2, 33,  1,   9,   0,   2,   9,   0, 0, 2,   20, 0,   1, 0,   0,   100, 0,  1,
    };
    static const uint8_t raw[] = {
        3,   24,  0x10, 0,    0, 0,  0,  0,  0,    0,    0xf0, 0xff, 0xff, 0xff, 0, 0,  0, 0,   3, 'a',
        'b', 'c', 0xe0, 0xf1, 0, 0,  3,  40, 0x20, 0x80, 4,    0,    0,    0,    0, 0,  1, 2,   3, 4,
        5,   6,   7,    8,    9, 10, 11, 12, 13,   14,   15,   16,   17,   18,   2, 35, 7, 255,
    };

    /* A join with the last five messages: granted, fetched, one of them lost for good; then live. */
    static const uint8_t past[] = {
        7, 251, 3,  1, 9, 0,   2, 9, 0, 0,   0, 20, 0,   1, 0, 0, 100, 0, 1,   2,   17, 8,  2, 0,  4, 4,   5,
        0, 2,   17, 0, 4, 4,   0, 2, 1, 'a', 2, 20, 0,   6, 6, 0, 2,   1, 'b', 4,   1,  6,  0, 0,  2, 20,  0,
        7, 7,   0,  2, 1, 'c', 0, 8, 8, 0,   2, 1,  'd', 0, 9, 9, 0,   2, 1,   'e', 2,  30, 2, 33, 7, 255,
    };

    /*
     * Filtered: a packet of two labels whose summary matches no filter, one in which all messages are
     * examined, one with a spanning message, no filter.
     */
    static const uint8_t filtered[] = {
        1,   0,   0,    0,    0,  0,   2,   1,    1, 0, 0,   0,    0,   100, 0,    1,   7,   205, 0,    0,
        0,   0,   33,   0xf2, 12, 0,   2,   0,    0, 0, 2,   0,    0,   0,   33,   0,   2,   0,   0xf1, 4,
        0,   2,   0,    0,    0,  1,   'a', 0xf1, 4, 0, 2,   0,    0,   0,   1,    'b', 7,   202, 0,    1,
        2,   0,   32,   0xf1, 6,  0,   1,   0,    0, 0, 1,   0x80, 1,   'c', 0xf1, 13,  0,   1,   0,    0,
        0,   1,   1,    1,    0,  1,   9,   0,    0, 0, 1,   'd',  1,   'e', 0xe0, 7,   205, 0,   2,    5,
        0,   9,   0xf1, 4,    0,  2,   0,   0,    0, 9, 'f', 0,    3,   6,   7,    8,   'f', 'f', 'f',  'f',
        'f', 'f', 'f',  0,    7,  204, 0,   4,    7, 0, 2,   1,    'g', 2,   30,   2,   33,
    };

    /*
     * Unordered delivery: names and messages out of order, a duplicate, a spanning message, one lost for
     * good; and within the past.
     */
    static const uint8_t arriving[] = {
        255, 1,   0,    0,    0,   0, 0,   2, 1,   1,   0,   0,    0,   0,   100, 0,   1,   0,  0, 0,
        0,   14,  0xf0, 6,    0,   0, 0,   0, 0,   'a', 'b', 3,    'x', 'y', 'z', 0,   2,   3,  0, 17,
        2,   'p', 'q',  0xf0, 5,   0, 1,   0, 0,   0,   'c', 0xc0, 1,   1,   'r', 9,   's', 0,  2, 3,
        0,   3,   2,    'p',  'q', 0, 5,   9, 2,   6,   'e', 'n',  1,   't', 1,   'u', 2,   17, 2, 20,
        0,   1,   1,    0,    4,   1, 'm', 1, 'n', 4,   1,   5,    0,   0,   2,   20,  1,   6,  0, 0,
        11,  0,   3,    2,    1,   0, 0,   0, 0,   100, 0,   1,    2,   30,  2,   33,
    };
    /*
     * The same with a filter that skips a packet ahead of order, and with another filter, or none, within
     * that packet.
     */
    static const uint8_t arriving_filtered[] = {
        255, 1, 0, 0, 0, 0,   0,    2,   1, 1,   0,   0,    0, 0,   100, 0, 1,   0, 0,  0,    0,    14, 0xf0,
        6,   0, 0, 0, 0, 0,   'a',  'b', 3, 'x', 'y', 'z',  7, 205, 0,   3, 5,   0, 33, 0xf2, 12,   0,  2,
        0,   0, 0, 2, 0, 0,   0,    33,  0, 2,   0,   0xf1, 4, 0,   2,   0, 0,   0, 1,  'a',  0xf1, 4,  0,
        2,   0, 0, 0, 1, 'b', 0,    2,   2, 0,   27,  0xf1, 4, 0,   1,   0, 0,   0, 1,  'c',  0xf1, 4,  0,
        2,   0, 0, 0, 1, 'd', 0xf1, 4,   0, 1,   0,   0,    0, 9,   'e', 7, 202, 0, 5,  9,    0,    9,  0xf1,
        4,   0, 1, 0, 0, 0,   1,    'f', 7, 204, 0,   1,    1, 0,   2,   1, 'm', 2, 17, 2,    20,
    };
    /*
     * A join with cached messages: granted, a record, a split one, one ahead of order, the rest of the split
     * one; then a packet of the stream. The same with a filter, and given up.
     */
    static const uint8_t latest[] = {
        7,  248, 2,   1,  9,  0, 2, 9, 0,   0,   0,   20,  0,   1,   0,   0,   100, 0,   1,   2,
        17, 8,   2,   0,  4,  7, 5, 0, 2,   17,  0,   9,   9,   0,   2,   1,   'l', 10,  36,  3,
        0,  0,   1,   5,  0,  0, 2, 2, 1,   'k', 10,  4,   1,   3,   0,   4,   0,   0,   3,   1,
        2,  1,   'm', 10, 36, 2, 1, 5, 2,   6,   2,   2,   1,   3,   2,   9,   'a', 10,  100, 0,
        2,  6,   3,   0,  0,  2, 1, 8, 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 2,   17,  10,  36,
        0,  0,   0,   4,  0,  0, 3, 5, 1,   'n', 2,   20,  2,   30,  2,   33,  7,   255,
    };
    uint8_t arriving_past[sizeof past + 1] = {255}, past_on_lines[sizeof past + 1] = {254},
                                        whole_on_lines[sizeof whole + 1] = {254};

    memcpy(arriving_past + 1, past, sizeof past);
    memcpy(past_on_lines + 1, past, sizeof past);
    memcpy(whole_on_lines + 1, whole, sizeof whole);
    emit(arg, past_on_lines, sizeof past_on_lines);
    emit(arg, whole_on_lines, sizeof whole_on_lines);
    emit(arg, arriving, sizeof arriving);
    emit(arg, arriving_past, sizeof arriving_past);
    emit(arg, arriving_filtered, sizeof arriving_filtered);
    emit(arg, filtered, sizeof filtered);
    emit(arg, past, sizeof past);
    emit(arg, latest, sizeof latest);
    emit(arg, whole, sizeof whole);
    emit(arg, late, sizeof late);
    emit(arg, slow, sizeof slow);
    emit(arg, raw, sizeof raw);
}
