/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder: the input is one packet. A decoded packet must survive being encoded and decoded again. */
#include "fuzz.h"
#include "core/pack/unpack.h"
#include "core/flow/standing.h"
#include "core/wire/wire.h"

enum { MESSAGE_MAX = 4096 };

static struct lli_reader body_of(const uint8_t *packet, size_t size, struct lli_wire_header *read)
{
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;

    FUZZ_CHECK(size <= LLI_WIRE_CONTROL_MAX);
    FUZZ_CHECK(lli_wire_get_header(packet, size, &header, &body, &body_size) == LLI_WIRE_OK ||
               lli_wire_get_connection(packet, size, &header, &body, &body_size) == LLI_WIRE_OK);
    *read = header;
    return lli_reader_of(body, body_size);
}

#define AGAIN(kind, value, key)                                                                 \
    do {                                                                                        \
        uint8_t encoded[LLI_WIRE_CONTROL_MAX + 64];                                             \
        struct lli_wire_##kind again;                                                           \
        struct lli_wire_header read;                                                            \
        size_t used = lli_wire_put_##kind(encoded, &(value));                                   \
        struct lli_reader bytes = body_of(encoded, used, &read);                                \
        memset(&again, 0, sizeof again);                                                        \
        FUZZ_CHECK(lli_wire_get_##kind(bytes.at, (size_t)(bytes.end - bytes.at), key, &again)); \
        FUZZ_CHECK(memcmp(&(value), &again, sizeof again) == 0);                                \
    } while (0)

static void fuzz_control(const struct lli_wire_header *header, const uint8_t *body, size_t size)
{
    struct lli_wire_heartbeat heartbeat;
    struct lli_wire_nak nak;
    struct lli_wire_reject reject;
    struct lli_wire_status status;
    struct lli_wire_query query;
    struct lli_wire_join join;
    struct lli_wire_notice notice;

    memset(&heartbeat, 0, sizeof heartbeat);
    memset(&nak, 0, sizeof nak);
    memset(&reject, 0, sizeof reject);
    memset(&status, 0, sizeof status);
    memset(&query, 0, sizeof query);
    memset(&join, 0, sizeof join);
    memset(&notice, 0, sizeof notice);
    if (lli_wire_get_heartbeat(body, size, header, &heartbeat))
        AGAIN(heartbeat, heartbeat, &read);
    if (lli_wire_get_nak(body, size, header->tag, &nak))
        AGAIN(nak, nak, read.tag);
    if (lli_wire_get_reject(body, size, header->tag, &reject))
        AGAIN(reject, reject, read.tag);
    if (lli_wire_get_status(body, size, header->tag, &status))
        AGAIN(status, status, read.tag);
    if (lli_wire_get_query(body, size, header->tag, &query))
        AGAIN(query, query, read.tag);
    if (lli_wire_get_join(body, size, header->tag, &join))
        AGAIN(join, join, read.tag);
    if (lli_wire_get_notice(body, size, header->tag, &notice))
        AGAIN(notice, notice, read.tag);
}

static void fuzz_connection(const struct lli_wire_header *header, const uint8_t *body, size_t size)
{
    struct lli_wire_connect connect;
    struct lli_wire_accept accept;
    struct lli_wire_refuse refuse;
    struct lli_wire_close close;

    memset(&connect, 0, sizeof connect);
    memset(&accept, 0, sizeof accept);
    memset(&refuse, 0, sizeof refuse);
    memset(&close, 0, sizeof close);
    if (lli_wire_get_connect(body, size, header->tag, &connect))
        AGAIN(connect, connect, read.tag);
    if (lli_wire_get_accept(body, size, header->tag, &accept))
        AGAIN(accept, accept, read.tag);
    if (lli_wire_get_refuse(body, size, header->tag, &refuse))
        AGAIN(refuse, refuse, read.tag);
    if (lli_wire_get_close(body, size, header->tag, &close))
        AGAIN(close, close, read.tag);
}

static void fuzz_topics(const struct lli_wire_header *header, const uint8_t *body, size_t size)
{
    struct lli_wire_topics topics;
    struct lli_reader names;

    if (!lli_wire_get_topics(body, size, header->tag, &topics, &names))
        return;
    FUZZ_CHECK(topics.count <= topics.total && topics.first <= topics.total - topics.count);
    for (uint32_t i = 0; i < topics.count && names.ok; i++) {
        uint8_t length = lli_read_u8(&names);
        const uint8_t *name = lli_read_bytes(&names, length);

        if (name != NULL)
            fuzz_touch(name, length);
    }
}

static void fuzz_frames(const struct lli_wire_header *header, const uint8_t *body, size_t size)
{
    const uint8_t *at = body + header->first, *end = body + size;

    while (at < end) {
        struct lli_frame frame = {.kind = LLI_FRAME_BAD};
        const uint8_t *next = lli_frame_get(at, end, &frame);

        FUZZ_CHECK(next > at && next <= end);
        if (frame.kind == LLI_FRAME_BAD)
            return;
        if (frame.kind == LLI_FRAME_ANNOUNCE)
            fuzz_touch(frame.bytes, frame.bytes_size);
        if (frame.kind == LLI_FRAME_MESSAGE)
            next += lli_min(frame.value, (uint64_t)(end - next));
        at = next;
    }
}

/*
 * Unpacks the same packet twice in a row, and once after a break: the previous packet may have any contents.
 */
/* Takes the next messages, a few at a time; returns the number that follows. */
static uint64_t fuzz_unpack_messages(struct lli_unpack *unpack, uint64_t number)
{
    const struct llm_message like = {.topic = ""};
    struct llm_message messages[5];
    uint32_t topic;
    int count;

    while (lli_unpack_peek(unpack, &topic)) {
        count = lli_unpack_messages(unpack, &like, messages, 1 + (int)(number % 5));
        if (count == 0)
            break;
        for (int i = 0; i < count; i++) {
            fuzz_touch(messages[i].data, messages[i].size);
            FUZZ_CHECK(messages[i].number == number++ && messages[i].topic_id == topic);
        }
    }
    return number;
}

static void fuzz_unpack(const struct lli_wire_header *header, const uint8_t *body, size_t size)
{
    static uint8_t buffer[MESSAGE_MAX];
    struct lli_unpack unpack;
    struct lli_unpacked out;
    uint64_t number = 0;

    memset(&unpack, 0, sizeof unpack);
    lli_unpack_init(&unpack, buffer, sizeof buffer);
    lli_unpack_reset(&unpack, number);
    for (int round = 0; round < 3; round++) {
        size_t items = 0;

        if (round == 2)
            lli_unpack_break(&unpack);
        lli_unpack_begin(&unpack, header, body, size);
        for (;;) {
            number = fuzz_unpack_messages(&unpack, number);
            lli_unpack_next(&unpack, &out);
            if (out.kind == LLI_UNPACK_NONE)
                break;
            FUZZ_CHECK(++items <= 2 * size + 4);
            if (out.kind == LLI_UNPACK_ANNOUNCE) {
                fuzz_touch(out.data, out.size);
                continue;
            }
            FUZZ_CHECK(out.number == number);
            number = out.last + 1;
            FUZZ_CHECK(number >= out.number);
        }
    }
}

/* Checks that records lie inside the packet, in order and within the span. */
static void fuzz_kept(const struct lli_wire_header *header, const uint8_t *body, size_t size)
{
    struct lli_wire_lvc kept;
    struct lli_wire_record record;
    struct lli_reader records;
    struct lli_wire_place at;
    uint32_t count = 0;

    if (header->type != LLI_WIRE_LVC || !lli_wire_get_lvc(body, size, header->tag, &kept, &records))
        return;
    at = kept.span.from;
    for (; lli_wire_next_record(&records, &record); count++) {
        FUZZ_CHECK(record.size > 0 && record.bytes >= body && record.bytes + record.size <= body + size);
        FUZZ_CHECK(!lli_wire_is_before(&record.at, &at) && record.at.number < kept.number);
        fuzz_touch(record.bytes, record.size);
        at = record.at;
        at.offset += record.size;
    }
    FUZZ_CHECK(records.ok && count == kept.count && !lli_wire_is_before(&kept.span.to, &at));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = fuzz_input_of(data, size);
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;
    uint8_t *packet = fuzz_bytes(&input, size, &size);
    enum lli_wire_fault fault;

    /* Sets the right size: few inputs would have it by chance. */
    if (size >= LLI_WIRE_HEADER && packet[LLI_WIRE_SIZE_AT + 1] != UINT8_MAX)
        lli_wire_put_size(packet, size);
    fault = lli_wire_get_header(packet, size, &header, &body, &body_size);
    if (fault == LLI_WIRE_TYPE_BAD &&
        lli_wire_get_connection(packet, size, &header, &body, &body_size) == LLI_WIRE_OK) {
        FUZZ_CHECK(body >= packet + LLI_WIRE_HEADER && body + body_size == packet + size);
        fuzz_connection(&header, body, body_size);
    }
    if (fault == LLI_WIRE_OK) {
        FUZZ_CHECK(body >= packet + LLI_WIRE_HEADER && body + body_size == packet + size);
        fuzz_control(&header, body, body_size);
        fuzz_topics(&header, body, body_size);
        fuzz_kept(&header, body, body_size);
        if (header.type == LLI_WIRE_DATA) {
            FUZZ_CHECK(header.first <= body_size);
            fuzz_frames(&header, body, body_size);
            fuzz_unpack(&header, body, body_size);
        }
    }
    free(packet);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ seeds */

static void seed_data(fuzz_emit_fn *emit, void *arg)
{
    struct lli_wire_header header = {.type = LLI_WIRE_DATA, .tag = 7, .seq = 1, .first = 3};
    uint8_t packet[128] = {0};
    size_t at = LLI_WIRE_DATA_HEADER + 3;

    lli_frame_put_announcement(packet + at, 0, "prices", 6);
    at += LLI_FRAME_ANNOUNCE_HEAD + 6;
    lli_frame_put_topic(packet + at, 1);
    at += lli_frame_topic_size(1);
    lli_frame_put_topic(packet + at, 70000);
    at += lli_frame_topic_size(70000);
    lli_frame_put_message(packet + at, 1, 5);
    at += 1 + 5;
    lli_frame_put_message(packet + at, 5, 2);
    at += 5 + 2;
    packet[at++] = LLI_FRAME_PAD;
    lli_frame_put_message(packet + at, 2, 300);
    header.size = (uint16_t)(at + 20);
    lli_wire_put_header(packet, &header);
    emit(arg, packet, header.size);
}

static void seed_topics(fuzz_emit_fn *emit, void *arg)
{
    const struct lli_wire_topics topics = {.session = 7, .total = 3, .first = 1, .count = 2};
    uint8_t packet[LLI_WIRE_CONTROL_MAX] = {0};
    size_t used = LLI_WIRE_TOPICS_HEAD;

    used = lli_wire_add_topic(packet, used, sizeof packet, "bids", 4);
    used = lli_wire_add_topic(packet, used, sizeof packet, "asks", 4);
    emit(arg, packet, lli_wire_put_topics(packet, &topics, used));
}

static void seed_kept(fuzz_emit_fn *emit, void *arg)
{
    const struct lli_wire_lvc kept = {
        .session = 7, .receiver = 5, .number = 9, .next = 10, .span = {{1, 0, 3}, {0, 4, 0}}, .count = 2};
    const struct lli_wire_record end = {{1, 0, 3}, (const uint8_t *)"end", 3},
                                 hi = {{8, 3, 0}, (const uint8_t *)"\2hi", 3};
    uint8_t packet[LLI_WIRE_CONTROL_MAX] = {0};
    size_t used = lli_wire_add_record(packet, LLI_WIRE_LVC_HEAD, sizeof packet, &end);

    used = lli_wire_add_record(packet, used, sizeof packet, &hi);
    emit(arg, packet, lli_wire_put_lvc(packet, &kept, used));
}

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    const struct lli_wire_address address = {.size = 7, .bytes = {4, 10, 77, 0, 1, 0x89, 0x13}};
    const struct lli_wire_heartbeat heartbeat = {.session = 7,
                                                 .lead = 9,
                                                 .trail = 3,
                                                 .start = 1,
                                                 .messages = 40,
                                                 .sent_at = 1,
                                                 .interval_us = 100,
                                                 .topics = 2,
                                                 .address = address};
    const struct lli_wire_nak nak = {
        .session = 7, .receiver = 5, .address = address, .count = 2, .ranges = {{1, 2}, {7, 1}}};
    const struct lli_wire_reject reject = {
        .session = 7, .trail = 4, .reason = LLI_WIRE_GONE, .count = 1, .ranges = {{1, 3}}};
    const struct lli_wire_status status = {
        .session = 7, .receiver = 5, .next = 3, .highest = 9, .echo = 1, .address = address};
    const struct lli_wire_heartbeat assured = {.session = 7,
                                               .lead = 9,
                                               .trail = 3,
                                               .start = 1,
                                               .messages = 40,
                                               .address = address,
                                               .flags = LLI_WIRE_HEARTBEAT_ASSURED,
                                               .unacknowledged = 5,
                                               .unacknowledged_messages = 30,
                                               .assured = 1};
    const struct lli_wire_status acknowledging = {.session = 7,
                                                  .receiver = 5,
                                                  .next = 3,
                                                  .highest = 9,
                                                  .address = address,
                                                  .flags = LLI_WIRE_STATUS_ACKNOWLEDGES,
                                                  .acknowledged_from = 1,
                                                  .acknowledged_next = 20,
                                                  .accepts = 1,
                                                  .name_size = 1,
                                                  .name = "a"};
    const struct lli_wire_status limited = {.session = 7,
                                            .receiver = 5,
                                            .next = 3,
                                            .highest = 9,
                                            .address = address,
                                            .flags = LLI_WIRE_STATUS_LIMITED,
                                            .limits = {.limit = 2, .time_ms = 1000}};
    const struct lli_wire_query query = {.session = 7, .receiver = 5, .first = 1, .address = address};
    const struct lli_wire_join join = {.session = 7,
                                       .receiver = 5,
                                       .kind = LLI_WIRE_JOIN_FETCH,
                                       .packet = 3,
                                       .number = 4,
                                       .lead = 9,
                                       .address = address,
                                       .count = 2,
                                       .ranges = {{1, 2}, {7, 1}}};
    const struct lli_wire_join latest = {.session = 7,
                                         .receiver = 5,
                                         .kind = LLI_WIRE_JOIN_LATEST,
                                         .number = 9,
                                         .wanted = 10,
                                         .address = address,
                                         .count = 2,
                                         .spans = {{{1, 0, 3}, {0, 1, 0}}, {{0, 2, 0}, {0, 4, 0}}}};
    const struct lli_wire_notice notice = {
        .session = 7, .receiver = 5, .lead = 9, .standing = LLI_STANDING_SUSPENDED};
    const struct lli_wire_connect connect = {.id = 7,
                                             .session = 5,
                                             .message_bytes_max = 1000,
                                             .payload_size = 3,
                                             .payload = "key",
                                             .address = address};
    const struct lli_wire_accept accept = {
        .id = 7, .session = 5, .start = 3, .message_bytes_max = 1000, .address = address};
    const struct lli_wire_refuse refuse = {.id = 7, .code = 4, .reason = LLI_WIRE_REFUSED};
    const struct lli_wire_close close = {.id = 7, .reason = LLI_WIRE_LEFT, .next = 9, .address = address};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    seed_data(emit, arg);
    seed_topics(emit, arg);
    seed_kept(emit, arg);
    emit(arg, packet, lli_wire_put_join(packet, &latest));
    emit(arg, packet, lli_wire_put_heartbeat(packet, &heartbeat));
    emit(arg, packet, lli_wire_put_nak(packet, &nak));
    emit(arg, packet, lli_wire_put_reject(packet, &reject));
    emit(arg, packet, lli_wire_put_status(packet, &status));
    emit(arg, packet, lli_wire_put_heartbeat(packet, &assured));
    emit(arg, packet, lli_wire_put_status(packet, &acknowledging));
    emit(arg, packet, lli_wire_put_status(packet, &limited));
    emit(arg, packet, lli_wire_put_query(packet, &query));
    emit(arg, packet, lli_wire_put_join(packet, &join));
    emit(arg, packet, lli_wire_put_notice(packet, &notice));
    emit(arg, packet, lli_wire_put_connect(packet, &connect));
    emit(arg, packet, lli_wire_put_accept(packet, &accept));
    emit(arg, packet, lli_wire_put_refuse(packet, &refuse));
    emit(arg, packet, lli_wire_put_close(packet, &close));
}
