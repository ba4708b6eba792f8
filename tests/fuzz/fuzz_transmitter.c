/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live transmitter: the input is the application's sends, the receivers' answers, and the passage of time.
 * For all requests, the stream stays as sent, repairs stay within their budget, and control packets within
 * their bounds. Packets of unreliable topics contain no other topics, are marked by the packets after them,
 * and are never sent again.
 */
#include "fuzz.h"
#include "core/tx/tx_session.h"
#include "core/pack/unpack.h"

#include <llm/llm.h>

enum {
    PACKET_MAX = 256,
    HISTORY_PACKETS = 64,
    HISTORY_BYTES = 16384,
    RECEIVERS = 8,
    TOPICS = 8,
    MESSAGE_MAX = 2000,
    STEPS_MAX = 300,
    REPAIR_PERCENT = 50,
    REPAIR_BYTES_PER_S = 1000000,
    REPLAY_BYTES_PER_S = 500000,
    REPAIR_BURST = 1024, /* less than the library's, so that a few packets exhaust it */
};

#define SESSION ((uint64_t)0x1122334455667788)
#define START (((uint64_t)1 << 32) + 0xfffffff0u)
#define OPENED_AT ((lli_ns)1000000)

struct world {
    struct lli_tx tx;
    lli_ns now;
    uint64_t data_bytes;
    uint64_t repair_bytes;
    uint64_t repairs;
    uint64_t replay_bytes;
    struct lli_unpack unpack; /* of the stream, as seen by a receiver that loses nothing */
    uint64_t number;
    uint32_t claimed;
    uint32_t unreliable;               /* a bit for each unreliable topic */
    uint32_t used;                     /* ... for each topic with an attempted send */
    bool begun;                        /* ... for any topic */
    unsigned unrepaired;               /* unrepaired packets directly before the next one */
    struct lli_lvc_topic kept[TOPICS]; /* messages 0: no cache yet */
    uint8_t rings[TOPICS][8 * 512];
    uint8_t lvc_memory[1 << 20];
};

static uint8_t *arena_memory;
static size_t arena_size;

static void world_init(struct world *world)
{
    static uint8_t assembled[MESSAGE_MAX];
    const struct lli_tx_config config = {
        .session = SESSION,
        .history = {.bytes = HISTORY_BYTES,
                    .packets = HISTORY_PACKETS,
                    .packet_max = PACKET_MAX,
                    .align = 64,
                    .start = START},
        .receivers_max = RECEIVERS,
        .topics_max = TOPICS,
        .nak_receivers_immediate = 2,
        .repair_percent = REPAIR_PERCENT,
        .repair_bytes_per_s = REPAIR_BYTES_PER_S,
        .repair_linger = 20000,
        .replay_bytes_per_s = REPLAY_BYTES_PER_S,
        .history_ns = 10000000000,
        .heartbeat_min = 50000,
        .heartbeat_max = 100000000,
        .heartbeat_busy = 10000000,
        .status = 100000000,
        .reports_limits = true,
        .address = {.size = 7, .bytes = {4, 127, 0, 0, 1, 1, 1}},
    };
    struct lli_arena arena = {.memory = NULL};

    memset(world, 0, sizeof *world);
    world->now = OPENED_AT;
    if (arena_memory == NULL) {
        lli_tx_init(&world->tx, &config, &arena, 0);
        arena_size = arena.used;
        arena_memory = aligned_alloc(4096, (arena_size + 4095) / 4096 * 4096);
        FUZZ_CHECK(arena_memory != NULL);
    }
    memset(arena_memory, 0, arena_size);
    arena = (struct lli_arena){.memory = arena_memory};
    lli_tx_init(&world->tx, &config, &arena, world->now);
    lli_pacer_init(&world->tx.repair.pacer, REPAIR_BYTES_PER_S, REPAIR_BURST, world->now);
    lli_pacer_init(&world->tx.replay.pacer, REPLAY_BYTES_PER_S, REPAIR_BURST, world->now);
    lli_unpack_init(&world->unpack, assembled, sizeof assembled);
    lli_unpack_reset(&world->unpack, 0);
}

/* ---------------------------------------------------------------------------------------------- promises */

static bool is_unreliable(const struct world *world, uint32_t topic)
{
    return topic < TOPICS && world->unreliable >> topic & 1;
}

/* Returns true if a sent packet is not repaired. */
static bool is_unrepaired(const struct world *world, const struct lli_wire_header *header)
{
    return lli_history_slot(&world->tx.history, lli_seq_extend(world->tx.sent, header->seq))->unreliable;
}

/*
 * Checks that every message is filled with the low byte of its number, and lies in packets of its kind only.
 */
static void check_messages(struct world *world, bool unrepaired)
{
    const struct llm_message like = {.topic = ""};
    struct llm_message message;
    uint32_t topic;

    while (lli_unpack_peek(&world->unpack, &topic) &&
           lli_unpack_messages(&world->unpack, &like, &message, 1) == 1) {
        const uint8_t *data = message.data;

        FUZZ_CHECK(message.number == world->number);
        FUZZ_CHECK(is_unreliable(world, message.topic_id) == unrepaired);
        world->number++;
        for (uint32_t i = 0; i < message.size; i++)
            FUZZ_CHECK(data[i] == (uint8_t)message.number);
    }
}

static void check_data(struct world *world, const struct lli_packet *packet)
{
    struct lli_wire_header header;
    struct lli_unpacked out;
    const uint8_t *body;
    size_t size;
    bool unrepaired;

    FUZZ_CHECK(packet->size <= PACKET_MAX);
    FUZZ_CHECK(lli_wire_get_header(packet->data, packet->size, &header, &body, &size) == LLI_WIRE_OK);
    FUZZ_CHECK(header.type == LLI_WIRE_DATA && header.tag == (uint32_t)SESSION);
    unrepaired = is_unrepaired(world, &header);
    FUZZ_CHECK((header.flags & LLI_WIRE_FLAGS_UNREPAIRED) ==
               lli_min(world->unrepaired, LLI_WIRE_FLAGS_UNREPAIRED));
    world->unrepaired = unrepaired ? world->unrepaired + 1 : 0;
    lli_unpack_begin(&world->unpack, &header, body, size);
    for (;;) {
        check_messages(world, unrepaired);
        lli_unpack_next(&world->unpack, &out);
        if (out.kind == LLI_UNPACK_NONE)
            break;
        FUZZ_CHECK(out.kind == LLI_UNPACK_ANNOUNCE && !unrepaired);
    }
    FUZZ_CHECK(world->unpack.malformed == 0);
}

/* Checks that repairs exceed the budget from time and new data by at most one packet. */
static void check_budget(const struct world *world)
{
    uint64_t by_time = (world->now - OPENED_AT) / 1000 * (REPAIR_BYTES_PER_S / 1000) / 1000;
    uint64_t by_data = world->data_bytes * REPAIR_PERCENT / 100;

    FUZZ_CHECK(world->repair_bytes <= REPAIR_BURST + by_time + by_data + 2 * PACKET_MAX);
}

static void take_repairs(struct world *world)
{
    struct lli_packet packet;
    struct lli_wire_header header;
    const uint8_t *body;
    size_t size;

    while (lli_tx_repair(&world->tx, world->now, &packet)) {
        FUZZ_CHECK(lli_wire_get_header(packet.data, packet.size, &header, &body, &size) == LLI_WIRE_OK);
        FUZZ_CHECK(header.type == LLI_WIRE_DATA && header.tag == (uint32_t)SESSION &&
                   !is_unrepaired(world, &header));
        world->repair_bytes += packet.size;
        world->repairs++;
        lli_tx_repaired(&world->tx, world->now);
    }
    check_budget(world);
}

/*
 * Checks that records are whole, or the first part of a message, and are of messages sent on cached topics.
 */
static void check_kept(const struct world *world, const struct lli_packet *packet)
{
    struct lli_wire_header header;
    struct lli_wire_lvc kept;
    struct lli_wire_record record;
    struct lli_reader records;
    struct lli_frame frame;
    const uint8_t *body;
    size_t size;

    FUZZ_CHECK(packet->to != NULL && packet->size <= PACKET_MAX);
    FUZZ_CHECK(lli_wire_get_header(packet->data, packet->size, &header, &body, &size) == LLI_WIRE_OK &&
               header.type == LLI_WIRE_LVC);
    FUZZ_CHECK(lli_wire_get_lvc(body, size, header.tag, &kept, &records) &&
               kept.number <= world->tx.pack.number);
    while (lli_wire_next_record(&records, &record)) {
        FUZZ_CHECK(record.at.topic < TOPICS && world->kept[record.at.topic].messages > 0 &&
                   record.at.number < kept.number);
        /* A span may end within a part, even within the header. */
        if (record.at.offset > 0 || record.size < LLI_WIRE_FRAME_MAX)
            continue;
        body = lli_frame_get(record.bytes, record.bytes + record.size, &frame);
        FUZZ_CHECK(frame.kind == LLI_FRAME_MESSAGE);
        for (; body < record.bytes + record.size; body++)
            FUZZ_CHECK(*body == (uint8_t)record.at.number);
    }
}

/* Replays go only to receivers that requested them, on a separate budget. */
static void take_replays(struct world *world)
{
    const uint64_t by_time = (world->now - OPENED_AT) / 1000 * (REPLAY_BYTES_PER_S / 1000) / 1000;
    struct lli_packet packet;
    struct lli_wire_header header;
    const uint8_t *body;
    size_t size;

    while (lli_tx_replay(&world->tx, world->now, &packet)) {
        FUZZ_CHECK(packet.to != NULL);
        FUZZ_CHECK(lli_wire_get_header(packet.data, packet.size, &header, &body, &size) == LLI_WIRE_OK);
        FUZZ_CHECK(header.type == LLI_WIRE_DATA && header.tag == (uint32_t)SESSION &&
                   !is_unrepaired(world, &header));
        world->replay_bytes += packet.size;
        lli_tx_replayed(&world->tx);
    }
    for (uint8_t buffer[1024]; lli_tx_replay_lvc(&world->tx, world->now, buffer, sizeof buffer, &packet);) {
        check_kept(world, &packet);
        world->replay_bytes += packet.size;
    }
    FUZZ_CHECK(world->replay_bytes <= REPAIR_BURST + by_time + 2 * PACKET_MAX);
}

static void take_control(struct world *world)
{
    uint8_t buffer[1024];
    struct lli_packet packet;
    struct lli_wire_header header;
    const uint8_t *body;
    size_t size;

    for (unsigned packets = 0; lli_tx_control(&world->tx, world->now, buffer, sizeof buffer, &packet);
         packets++) {
        FUZZ_CHECK(packets <= LLI_TX_ANSWERS + 2 * LLI_REPLAY_PLACES + 1);
        FUZZ_CHECK(packet.size <= sizeof buffer);
        FUZZ_CHECK(lli_wire_get_header(packet.data, packet.size, &header, &body, &size) == LLI_WIRE_OK);
        FUZZ_CHECK(header.type == LLI_WIRE_HEARTBEAT || header.type == LLI_WIRE_REJECT ||
                   header.type == LLI_WIRE_TOPICS || header.type == LLI_WIRE_JOIN);
    }
}

static void take_data(struct world *world, int max)
{
    struct lli_packet packets[8];
    int count = lli_tx_unsent(&world->tx, world->now, packets, max);

    for (int i = 0; i < count; i++) {
        check_data(world, &packets[i]);
        world->data_bytes += packets[i].size;
    }
    lli_tx_sent(&world->tx, count, world->now);
}

/* ------------------------------------------------------------------------------------------------- steps */

static struct lli_pack_topic topic_of(struct world *world, uint32_t id, bool whole, bool transient)
{
    const bool unreliable = is_unreliable(world, id);

    world->begun = true;
    world->used |= id < TOPICS ? 1u << id : 0;
    return (struct lli_pack_topic){
        .id = id, .whole = whole, .unreliable = unreliable, .transient = transient && !unreliable};
}

static void step_send(struct world *world, struct fuzz_input *in)
{
    static uint8_t data[MESSAGE_MAX];
    const uint8_t id = fuzz_u8(in), how = fuzz_u8(in);
    const struct lli_pack_topic topic = topic_of(world, id, how & 1, how & 2);
    uint32_t size = fuzz_u16(in) % MESSAGE_MAX;
    const struct iovec piece = {.iov_base = data, .iov_len = size};

    if (world->claimed > 0 || world->tx.heartbeat.ended)
        return;
    memset(data, (int)(world->tx.pack.number & 255), size);
    if (lli_pack_message(&world->tx.pack, &topic, &piece, size, lli_tx_busy(&world->tx)) && id < TOPICS &&
        world->kept[id].messages > 0 && size <= world->kept[id].bytes_max)
        lli_tx_lvc_add(&world->tx, &world->kept[id], NULL, &piece, size);
}

static void step_claim(struct world *world, struct fuzz_input *in)
{
    const uint8_t id = fuzz_u8(in);
    const struct lli_pack_topic topic = topic_of(world, id, false, id & 1);
    uint32_t size = fuzz_u8(in) % lli_pack_whole_max(&world->tx.pack) + 1;

    if (world->tx.heartbeat.ended)
        return;
    if (world->claimed > 0) {
        if (size & 1)
            lli_pack_abort(&world->tx.pack);
        else
            lli_pack_commit(&world->tx.pack, size % (world->claimed + 1));
        world->claimed = 0;
    } else {
        uint8_t *bytes = lli_pack_claim(&world->tx.pack, &topic, size, lli_tx_busy(&world->tx));

        if (bytes != NULL) {
            memset(bytes, (int)(world->tx.pack.number & 255), size);
            world->claimed = size;
        }
    }
}

static void step_topic(struct world *world, struct fuzz_input *in)
{
    static const char *const names[] = {"a", "prices", "a much longer name of a topic", "x"};
    const uint8_t what = fuzz_u8(in);
    uint32_t id;

    if (world->claimed > 0 || world->tx.heartbeat.ended ||
        (what & 4 ? lli_tx_topic_add_transient : lli_tx_topic_add)(&world->tx, names[what % 4], &id) !=
            LLM_OK)
        return;
    /* A topic is unreliable or not for its life, and the first topic for that of the session. */
    if (!(what & 128) || what & 4 || world->used >> id & 1 || (id == 0 && world->begun))
        return;
    lli_pack_unreliable(&world->tx.pack, id);
    world->unreliable |= 1u << id;
}

static void step_flush(struct world *world, struct fuzz_input *in)
{
    uint8_t how = fuzz_u8(in);

    if (world->claimed == 0)
        lli_pack_flush(&world->tx.pack);
    take_data(world, how % 9);
    if (how & 128)
        lli_tx_reaped(&world->tx, how & 64);
}

static void input(struct world *world, const uint8_t *packet, size_t size)
{
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;

    if (lli_wire_get_header(packet, size, &header, &body, &body_size) == LLI_WIRE_OK &&
        header.tag == (uint32_t)SESSION)
        lli_tx_input(&world->tx, &header, body, body_size, world->now);
}

static void step_nak(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_nak nak = {.session = SESSION, .address = {.size = 1, .bytes = {1}}};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    uint8_t spread = fuzz_u8(in);

    nak.receiver = fuzz_u8(in) % (2 * RECEIVERS);
    nak.count = fuzz_u8(in) % (LLI_WIRE_RANGES_MAX + 1);
    for (uint16_t i = 0; i < nak.count; i++) {
        nak.ranges[i].first = spread & 1 ? (uint32_t)START + fuzz_u8(in) : fuzz_u32(in);
        nak.ranges[i].count = spread & 2 ? fuzz_u8(in) : fuzz_u32(in);
    }
    input(world, packet, lli_wire_put_nak(packet, &nak));
}

static void step_status(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_status status = {.session = SESSION, .address = {.size = 1, .bytes = {1}}};
    struct llm_event event;
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    status.receiver = fuzz_u8(in) % (2 * RECEIVERS);
    status.next = START + fuzz_u8(in);
    status.highest = status.next + fuzz_u8(in);
    status.echo = fuzz_u8(in) & 1 ? world->now : fuzz_u32(in);
    status.echo_age_ns = fuzz_u32(in);
    status.flags = fuzz_u8(in);
    status.limits.limit = fuzz_u8(in);
    status.limits.time_ms = 1000;
    input(world, packet, lli_wire_put_status(packet, &status));
    /* Each receiver is reported once, by its own identity. */
    for (uint32_t told = 0; lli_tx_has_events(&world->tx) && lli_tx_event(&world->tx, &event); told++)
        FUZZ_CHECK(told < RECEIVERS && event.kind == LLM_EVENT_RECEIVER_LIMITED &&
                   event.bottleneck->receiver != 0);
    FUZZ_CHECK(!lli_tx_has_events(&world->tx));
}

static void step_query(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_query query = {
        .session = SESSION, .receiver = fuzz_u8(in), .address = {.size = 1, .bytes = {1}}};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    query.first = fuzz_u32(in);
    input(world, packet, lli_wire_put_query(packet, &query));
}

static void step_join(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_join join = {.session = SESSION, .address = {.size = 1, .bytes = {1}}};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    uint8_t spread = fuzz_u8(in);

    join.receiver = fuzz_u8(in);
    join.kind = spread >> 2 & 1 ? LLI_WIRE_JOIN_FETCH : fuzz_u8(in);
    join.from = fuzz_u8(in) % 6;
    join.value = spread & 8 ? fuzz_u32(in) : fuzz_u8(in);
    join.count = fuzz_u8(in) % (LLI_WIRE_FETCH_MAX + 1);
    for (uint16_t i = 0; i < join.count; i++) {
        join.ranges[i].first = spread & 1 ? (uint32_t)START + fuzz_u8(in) : fuzz_u32(in);
        join.ranges[i].count = spread & 2 ? fuzz_u8(in) : fuzz_u32(in);
    }
    input(world, packet, lli_wire_put_join(packet, &join));
}

/* Gives a topic a cache, or requests cached messages. */
static void step_kept(struct world *world, struct fuzz_input *in)
{
    struct lli_wire_join join = {
        .session = SESSION, .kind = LLI_WIRE_JOIN_LATEST, .address = {.size = 1, .bytes = {1}}};
    struct lli_arena arena = {.memory = world->lvc_memory};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    const uint8_t what = fuzz_u8(in);
    struct lli_lvc_topic *kept = &world->kept[what % TOPICS];

    if (what & 128) {
        join.receiver = what & 7;
        join.value = fuzz_u8(in) % 4;
        join.number = fuzz_u16(in);
        join.wanted = fuzz_u16(in);
        join.count = fuzz_u8(in) % (LLI_WIRE_SPANS_MAX + 1);
        for (uint16_t i = 0; i < join.count; i++)
            join.spans[i] = (struct lli_wire_span){{fuzz_u8(in), fuzz_u8(in) % TOPICS, fuzz_u16(in)},
                                                   {fuzz_u8(in), fuzz_u8(in) % (TOPICS + 1), fuzz_u16(in)}};
        input(world, packet, lli_wire_put_join(packet, &join));
    } else if (kept->messages == 0) {
        *kept =
            (struct lli_lvc_topic){what % TOPICS, 1 + (what >> 3) % 8, 480, 0, world->rings[what % TOPICS]};
        FUZZ_CHECK(lli_lvc_ring_size(kept->messages, kept->bytes_max) <= sizeof world->rings[0]);
        lli_tx_lvc_begin(&world->tx, kept, &arena);
        FUZZ_CHECK(arena.used <= sizeof world->lvc_memory);
    }
}

static void step_raw(struct world *world, struct fuzz_input *in)
{
    size_t size;
    uint8_t *packet = fuzz_bytes(in, fuzz_u8(in), &size);
    uint64_t session = SESSION;

    if (size >= LLI_WIRE_HEADER && packet[LLI_WIRE_SIZE_AT + 1] != UINT8_MAX)
        lli_wire_put_size(packet, size);
    if (size >= 8)
        lli_store_u32(packet + 4, (uint32_t)session);
    if (size >= 24)
        memcpy(packet + 16, &session, sizeof session);
    input(world, packet, size);
    free(packet);
}

static void step_time(struct world *world, struct fuzz_input *in)
{
    world->now += (lli_ns)1 << fuzz_u8(in) % 34;
}

static void step_end(struct world *world, struct fuzz_input *in)
{
    if (fuzz_u8(in) == 255 && !world->tx.heartbeat.ended) {
        lli_tx_end(&world->tx, world->now);
        world->claimed = 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const steps[])(struct world *, struct fuzz_input *) = {
        step_send,  step_flush, step_nak, step_time, step_status, step_claim,
        step_topic, step_query, step_raw, step_end,  step_join,   step_kept,
    };
    struct fuzz_input in = fuzz_input_of(data, size);
    static struct world world;

    world_init(&world);
    for (int step = 0; step < STEPS_MAX && fuzz_left(&in) > 0; step++) {
        steps[fuzz_u8(&in) % (sizeof steps / sizeof steps[0])](&world, &in);
        if (world.now >= lli_tx_deadline(&world.tx)) {
            take_repairs(&world);
            take_replays(&world);
            take_control(&world);
        }
        FUZZ_CHECK(world.tx.members.count <= RECEIVERS);
        FUZZ_CHECK(world.tx.replay.count <= LLI_REPLAY_PLACES && world.tx.lvc.waiting <= LLI_LVC_PLACES);
        FUZZ_CHECK(world.tx.history.trail <= lli_tx_busy(&world.tx));
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------- seeds */

/* A receiver that requests everything repeatedly: repairs may not exceed their budget. */
static void seed_greedy(fuzz_emit_fn *emit, void *arg)
{
    static const uint8_t send[] = {0, 0, 0, 200, 0, 1, 0x88};
    static const uint8_t ask[] = {2, 3, 1, 1, 0, 10, 3, 17};
    uint8_t seed[10 * sizeof send + 130 * sizeof ask];
    size_t used = 0;

    for (int i = 0; i < 10; i++, used += sizeof send)
        memcpy(seed + used, send, sizeof send);
    for (int i = 0; i < 130; i++, used += sizeof ask)
        memcpy(seed + used, ask, sizeof ask);
    emit(arg, seed, used);
}

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    static const uint8_t lossy[] = {
        6, 0, 6, 1,    0, 0, 0,    40, 0, 0,  1,  1, 100, 0, 1, 0x88,        /* topics, messages, flush */
        0, 0, 0, 0xe8, 3, 1, 0x88, 4,  1, 0,  0,  1, 0,   0, 0, 0,    0,     /* a long message; a status */
        2, 3, 1, 2,    0, 3, 4,    9,  3, 17, 2,  3, 2,   1, 0, 8,    3, 20, /* NAKs of two receivers */
        7, 1, 0, 0,    0, 0, 3,    27, 5, 0,  50, 5, 0,   2, 1, 0x88, 9, 255, 3, 20, 3, 22,
    };
    static const uint8_t crowd[] = {
        0,   0,   0,   40, 0, 1, 0x88, 4, 1, 0, 0, 1,   0,   0,   0,   0, 0, 4, 2, 0, 0,  1, 0,
        0,   0,   0,   0,  4, 3, 0,    0, 1, 0, 0, 0,   0,   0,   2,   0, 5, 3, 0, 0, 0,  0, 255,
        255, 255, 255, 1,  2, 3, 4,    0, 1, 0, 0, 240, 255, 255, 255, 9, 0, 0, 0, 3, 30, 3, 33,
    };
    static const uint8_t raw[] = {
        0, 1, 0, 9, 0, 1, 0x88, 8, 40, 0x13, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0,    0,    0, 0, 0, 1, 1,
        1, 1, 1, 1, 1, 1, 2,    2, 2,  2,    2, 2, 2, 2, 0, 0, 1, 0, 0xf0, 0xff, 0xff, 0xff, 1, 0, 0, 0,
    };

    static const uint8_t late[] = {
        0, 0, 0, 200, 0, 1, 0x88, 0, 0, 0, 200, 0, 1, 0x88, 3, 20, 3, 22, /* messages */
        /* requests for a start position */
        10, 0, 7, 1, 1, 0, 0, 10, 0, 8, 1, 2, 1, 0, 10, 0, 9, 1, 3, 9, 0, 10, 0, 9, 1, 4, 1, 0, 3, 17, 10, 7,
        7, 0, 0, 2, 0, 1, 1, 1, 3, 20, 10, 7, 8, 0, 0, 1, 0, 255, 3, 22, 3, 25, /* requests for packets */
    };

    /*
     * The second topic is unreliable: messages of both in turn, long ones, a claim; all requested by NAK,
     * then by FETCH.
     */
    static const uint8_t unreliable[] = {
        6, 0, 6, 129, 0,   0, 0, 40, 0,  0,  1, 1, 100, 0,    0, 1, 0,    44, 1,   0,  0,  0,  200,
        0, 0, 1, 0,   200, 0, 5, 1,  50, 5,  0, 2, 1,   0x88, 2, 3, 1,    1,  0,   12, 3,  17, 2,
        3, 2, 2, 0,   3,   4, 6, 3,  20, 10, 0, 7, 1,   1,    0, 0, 10,   7,  7,   0,  0,  2,  0,
        6, 1, 1, 3,   22,  0, 1, 0,  9,  0,  0, 2, 0,   9,    0, 1, 0x84, 9,  255, 3,  25,
    };

    /*
     * Two topics that cache three messages and one: messages of both, a long one; requests for a start
     * position, for all messages, for a part, with few packets.
     */
    static const uint8_t keeping[] = {
        6, 0, 6, 1, 11, 16, 11,  1, 0, 0,    0, 40, 0,  0,  1, 0, 30, 0, 0, 0, 0,  144, 1,   0, 0,
        0, 9, 0, 0, 0,  0,  7,   0, 1, 0x88, 3, 20, 10, 0,  7, 1, 5,  0, 0, 3, 17, 11,  135, 0, 4,
        0, 2, 0, 1, 0,  0,  0,   0, 0, 2,    0, 0,  3,  20, 0, 0, 0,  9, 0, 3, 22, 11,  136, 2, 5,
        0, 9, 0, 2, 0,  0,  100, 0, 2, 0,    0, 0,  0,  1,  0, 0, 0,  8, 0, 0, 3,  25,
    };

    emit(arg, keeping, sizeof keeping);
    emit(arg, unreliable, sizeof unreliable);
    emit(arg, late, sizeof late);
    emit(arg, lossy, sizeof lossy);
    emit(arg, crowd, sizeof crowd);
    emit(arg, raw, sizeof raw);
    seed_greedy(emit, arg);
}
