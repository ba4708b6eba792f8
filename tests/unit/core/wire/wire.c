/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec against the test vectors of docs/protocol.md in wire_vectors.h. `wire --print` prints them in the
 * format of the document.
 */
#include "unit.h"

#include <stdio.h>

#include "core/flow/standing.h"
#include "core/pack/pack.h"
#include "core/pack/unpack.h"
#include "core/wire/wire.h"
#include "wire_decode.h"

#define LEAD UINT64_C(0x0000000201020304)
#define NUMBER UINT64_C(0x00000000000a0b0c)

static void vectors_print(void)
{
    for (int i = 0; i < VECTORS; i++) {
        uint8_t bytes[VECTOR_MAX];
        size_t at = 0;

        printf("%s (%zu bytes)\n\n", vectors[i]->name, vector_bytes(vectors[i], bytes));
        for (const struct field *field = vectors[i]->fields; field->hex != NULL; field++) {
            printf("    %04zx  %-28s %s\n", at, field->hex, field->text);
            at += hex_bytes(field->hex, bytes);
        }
        printf("\n");
    }
}

/* ------------------------------------------------------------------------------------------------- values */

static const struct lli_wire_heartbeat heartbeat_value = {
    .session = SESSION,
    .lead = LEAD,
    .trail = LEAD - 4,
    .start = LEAD - 20,
    .messages = NUMBER,
    .sent_at = 123456789,
    .interval_us = 10000,
    .rtt_ns = 50000,
    .receivers = 3,
    .topics = 2,
    .report_packets = 512,
    .flags = LLI_WIRE_HEARTBEAT_END | LLI_WIRE_HEARTBEAT_YOUNG,
    .address = ADDRESS_VALUE,
};

static const struct lli_wire_nak nak_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .address = ADDRESS_VALUE,
    .count = 2,
    .ranges = {{0xfffffffe, 3}, {16, 1}},
    .token = TOKEN,
};

static const struct lli_wire_reject reject_value = {
    .session = SESSION, .trail = LEAD - 4, .reason = LLI_WIRE_GONE, .count = 1, .ranges = {{0x010202f0, 4}}};

static const struct lli_wire_reject unrepaired_value = {
    .session = SESSION,
    .trail = LEAD - 4,
    .reason = LLI_WIRE_UNREPAIRED,
    .count = 2,
    .ranges = {{0x01020301, 2}, {0x01020306, 1}},
};

static const struct lli_wire_reject passed_value = {.session = SESSION,
                                                    .trail = LEAD - 4,
                                                    .reason = LLI_WIRE_PASSED,
                                                    .count = 1,
                                                    .ranges = {{0x01020310, 8}}};

static const struct lli_wire_status status_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .next = LEAD - 2,
    .highest = LEAD,
    .echo = 123456789,
    .echo_age_ns = 1000,
    .lost_packets = 5,
    .naks = 6,
    .dropped = 7,
    .window_free = 16384,
    .flags = LLI_WIRE_STATUS_DONE,
    .address = ADDRESS_VALUE,
    .token = TOKEN,
};

static const struct lli_wire_heartbeat assured_value = {
    .session = SESSION,
    .lead = LEAD,
    .trail = LEAD - 4,
    .start = LEAD - 20,
    .messages = NUMBER,
    .sent_at = 123456789,
    .interval_us = 10000,
    .rtt_ns = 50000,
    .receivers = 3,
    .topics = 2,
    .report_packets = 128,
    .flags = LLI_WIRE_HEARTBEAT_HELD | LLI_WIRE_HEARTBEAT_ASSURED,
    .address = ADDRESS_VALUE,
    .unacknowledged = LEAD - 2,
    .unacknowledged_messages = NUMBER - 12,
    .assured = 2,
    .assured_topics = {1, 256},
};

static const struct lli_wire_heartbeat stream_value = {
    .session = SESSION,
    .lead = LEAD,
    .trail = LEAD - 4,
    .start = LEAD - 20,
    .messages = NUMBER,
    .sent_at = 123456789,
    .interval_us = 10000,
    .rtt_ns = 50000,
    .receivers = 3,
    .topics = 2,
    .report_packets = 512,
    .flags = LLI_WIRE_HEARTBEAT_YOUNG,
    .address = ADDRESS_VALUE,
    .stream = UINT64_C(0x123456789abcdef0),
    .base = 1000000,
    .term = 5,
};

static const struct lli_wire_status acknowledging_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .next = LEAD - 2,
    .highest = LEAD,
    .echo = 123456789,
    .echo_age_ns = 1000,
    .lost_packets = 5,
    .naks = 6,
    .dropped = 7,
    .window_free = 16384,
    .flags = LLI_WIRE_STATUS_ACKNOWLEDGES,
    .address = ADDRESS_VALUE,
    .acknowledged_from = NUMBER - 12,
    .acknowledged_next = NUMBER - 4,
    .accepts = 2,
    .name_size = 4,
    .name = "book",
    .token = TOKEN,
};

static const struct lli_wire_topics topics_value = {.session = SESSION, .total = 3, .first = 1, .count = 2};
static const struct lli_wire_query query_value = {
    .session = SESSION, .receiver = RECEIVER, .first = 1, .address = ADDRESS_VALUE, .token = TOKEN};

static const struct lli_wire_join join_ask_value = {.session = SESSION,
                                                    .receiver = RECEIVER,
                                                    .kind = LLI_WIRE_JOIN_ASK,
                                                    .from = 2,
                                                    .value = 1000,
                                                    .address = ADDRESS_VALUE,
                                                    .token = TOKEN};
static const struct lli_wire_join join_grant_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_GRANT,
    .from = 2,
    .topics = 3,
    .value = 1000,
    .packet = 0x100000010,
    .number = 9,
    .wanted = 42,
    .lead = 0x100000020,
    .token = TOKEN,
};
static const struct lli_wire_join join_fetch_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_FETCH,
    .lead = 0x100000020,
    .address = ADDRESS_VALUE,
    .count = 1,
    .ranges = {{16, 16}},
    .token = TOKEN,
};

static const struct lli_wire_join join_seek_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_SEEK,
    .from = 4,
    .value = 1000,
    .address = ADDRESS_VALUE,
    .token = TOKEN,
};
static const struct lli_wire_join join_offer_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_OFFER,
    .from = 4,
    .reason = LLI_WIRE_JOIN_ENDED,
    .value = 1000,
    .packet = 0x100000010,
    .number = 1000,
    .wanted = 1066,
    .lead = 0x100000020,
    .address = ADDRESS_VALUE,
    .token = TOKEN,
};
static const struct lli_wire_join join_recall_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_RECALL,
    .address = ADDRESS_VALUE,
    .count = 1,
    .ranges = {{16, 16}},
    .token = TOKEN,
};
static const struct lli_wire_join join_absent_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_ABSENT,
    .packet = 0x100000010,
    .number = 9,
    .wanted = 42,
    .lead = 0x100000020,
    .address = ADDRESS_VALUE,
    .count = 1,
    .ranges = {{18, 2}},
    .token = TOKEN,
};

static const struct lli_wire_join join_stream_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_STREAM,
    .address = ADDRESS_VALUE,
};
static const struct lli_wire_join join_stream_end_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_STREAM_END,
    .number = 1000,
    .wanted = 42,
    .lead = 3,
    .address = ADDRESS_VALUE,
};

static const struct lli_wire_join join_beat_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_BEAT,
    .reason = 0x83,
    .topics = 12,
    .value = 1000000,
    .packet = 5,
    .number = 42,
    .wanted = (uint64_t)10 << 32 | 12,
    .lead = 45,
    .address = ADDRESS_VALUE,
    .token = 44,
};
static const struct lli_wire_join join_tail_fetch_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_TAIL_FETCH,
    .value = 256,
    .number = 42,
    .address = ADDRESS_VALUE,
};
static const struct lli_wire_join join_tail_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_TAIL,
    .topics = 259,
    .value = 256,
    .number = 42,
    .wanted = (uint64_t)6 << 32 | 3,
    .lead = 45,
};

static const struct lli_wire_join join_token_value = {.session = SESSION,
                                                      .receiver = RECEIVER,
                                                      .kind = LLI_WIRE_JOIN_TOKEN,
                                                      .reason = LLI_WIRE_JOIN_FULL,
                                                      .value = 1024,
                                                      .token = TOKEN};

static const struct lli_wire_notice notice_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .decided_at = 123456789,
    .lead = LEAD,
    .value = 181034,
    .limit = 150000,
    .lag_ns = 5000000,
    .silent_ns = 10000000,
    .naks_per_s = 1000,
    .nak_ppm = 181034,
    .lag_packets = 300,
    .receivers = 3,
    .suffering = 1,
    .rejoin_ms = 10000,
    .standing = LLI_STANDING_SUSPENDED,
    .threshold = 2,
};

/* A packetizer over its own history. */
struct packer {
    struct lli_history history;
    struct lli_pack pack;
    uint8_t *memory;
};

static void packer_make(struct packer *packer, uint32_t packet_max, lli_seq start)
{
    const struct lli_history_config config = {.bytes = 64 * lli_round_up(packet_max, 64),
                                              .packets = 64,
                                              .packet_max = packet_max,
                                              .align = 64,
                                              .start = start};
    struct lli_arena arena = {.memory = NULL};

    lli_history_init(&packer->history, &config, &arena);
    arena_fill(&arena);
    packer->memory = arena.memory;
    lli_history_init(&packer->history, &config, &arena);
    lli_pack_init(&packer->pack, &packer->history, (uint32_t)SESSION);
}

static void packer_send(struct packer *packer, uint32_t topic, const char *text, size_t size)
{
    const struct lli_pack_topic to = {.id = topic};
    const struct iovec piece = {(void *)(uintptr_t)text, size};

    assert_true(lli_pack_message(&packer->pack, &to, &piece, (uint32_t)size, packer->history.next));
}

/* ----------------------------------------------------------------------------------------------- encoding */

static void control_packets_are_written_as_specified(void **state)
{
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    size_t used;
    char name[LLI_WIRE_NAME_MAX];

    (void)state;
    expect_vector(&heartbeat_vector, packet, lli_wire_put_heartbeat(packet, &heartbeat_value));
    expect_vector(&nak_vector, packet, lli_wire_put_nak(packet, &nak_value));
    expect_vector(&reject_vector, packet, lli_wire_put_reject(packet, &reject_value));
    expect_vector(&unrepaired_vector, packet, lli_wire_put_reject(packet, &unrepaired_value));
    expect_vector(&passed_vector, packet, lli_wire_put_reject(packet, &passed_value));
    expect_vector(&status_vector, packet, lli_wire_put_status(packet, &status_value));
    expect_vector(&assured_vector, packet, lli_wire_put_heartbeat(packet, &assured_value));
    expect_vector(&stream_vector, packet, lli_wire_put_heartbeat(packet, &stream_value));
    expect_vector(&acknowledging_vector, packet, lli_wire_put_status(packet, &acknowledging_value));
    expect_vector(&query_vector, packet, lli_wire_put_query(packet, &query_value));
    expect_vector(&join_ask_vector, packet, lli_wire_put_join(packet, &join_ask_value));
    expect_vector(&join_grant_vector, packet, lli_wire_put_join(packet, &join_grant_value));
    expect_vector(&join_fetch_vector, packet, lli_wire_put_join(packet, &join_fetch_value));
    expect_vector(&join_token_vector, packet, lli_wire_put_join(packet, &join_token_value));
    expect_vector(&join_seek_vector, packet, lli_wire_put_join(packet, &join_seek_value));
    expect_vector(&join_offer_vector, packet, lli_wire_put_join(packet, &join_offer_value));
    expect_vector(&join_recall_vector, packet, lli_wire_put_join(packet, &join_recall_value));
    expect_vector(&join_absent_vector, packet, lli_wire_put_join(packet, &join_absent_value));
    expect_vector(&join_stream_vector, packet, lli_wire_put_join(packet, &join_stream_value));
    expect_vector(&join_stream_end_vector, packet, lli_wire_put_join(packet, &join_stream_end_value));
    expect_vector(&join_beat_vector, packet, lli_wire_put_join(packet, &join_beat_value));
    expect_vector(&join_tail_fetch_vector, packet, lli_wire_put_join(packet, &join_tail_fetch_value));
    used = lli_wire_put_join(packet, &join_tail_value);
    memcpy(packet + used, "ordersend", 9);
    lli_wire_put_size(packet, used + 9);
    expect_vector(&join_tail_vector, packet, used + 9);
    expect_vector(&notice_vector, packet, lli_wire_put_notice(packet, &notice_value));
    used = LLI_WIRE_TOPICS_HEAD;
    used = lli_wire_add_topic(packet, used, sizeof packet, "px", 2);
    used = lli_wire_add_topic(packet, used, sizeof packet, name,
                              lli_wire_put_name(name, "qty", LLI_WIRE_TOPIC_TRANSIENT));
    expect_vector(&topics_vector, packet, lli_wire_put_topics(packet, &topics_value, used));
    expect_vector(&topics_beyond_vector, packet,
                  lli_wire_put_topics(packet,
                                      &(struct lli_wire_topics){.session = SESSION, .total = 3, .first = 3},
                                      LLI_WIRE_TOPICS_HEAD));
}

static void data_packets_are_written_as_specified(void **state)
{
    struct packer packer;

    (void)state;
    packer_make(&packer, 1472, LEAD);
    packer.pack.number = NUMBER;
    assert_true(lli_pack_announce(&packer.pack, 1, "px", 2, LEAD));
    packer_send(&packer, 1, "hey", 3);
    packer_send(&packer, 1, "", 0);
    lli_pack_flush(&packer.pack);
    expect_vector(&data_vector, lli_history_packet(&packer.history, LEAD),
                  lli_history_slot(&packer.history, LEAD)->size);
    free(packer.memory);
}

static void a_continued_packet_contains_the_start_of_its_first_frame(void **state)
{
    struct packer packer;

    (void)state;
    /* 18 bytes of header and 1 of the frame: 47 of the 49 bytes fit. */
    packer_make(&packer, 66, LEAD);
    packer.pack.number = NUMBER + 1;
    packer_send(&packer, 0, "01234567890123456789012345678901234567890123456XY", 49);
    packer_send(&packer, 0, "z", 1);
    lli_pack_flush(&packer.pack);
    expect_vector(&continued_vector, lli_history_packet(&packer.history, LEAD + 1),
                  lli_history_slot(&packer.history, LEAD + 1)->size);
    free(packer.memory);
}

static void a_packet_contains_the_number_of_unrepaired_predecessors(void **state)
{
    const struct lli_pack_topic topic = {.id = 1, .unreliable = true};
    const struct iovec piece = {(void *)(uintptr_t) "x", 1};
    struct packer packer;

    (void)state;
    packer_make(&packer, 1472, LEAD);
    packer.pack.number = NUMBER;
    lli_pack_unreliable(&packer.pack, 1);
    for (int i = 0; i < 2; i++) {
        assert_true(lli_pack_message(&packer.pack, &topic, &piece, 1, LEAD));
        lli_pack_flush(&packer.pack);
    }
    packer_send(&packer, 0, "z", 1);
    lli_pack_flush(&packer.pack);
    expect_vector(&unreliable_vector, lli_history_packet(&packer.history, LEAD + 2),
                  lli_history_slot(&packer.history, LEAD + 2)->size);
    free(packer.memory);
}

static void skipped_numbers_are_a_packet_of_their_own(void **state)
{
    struct packer packer;

    (void)state;
    packer_make(&packer, 1472, LEAD);
    packer.pack.number = NUMBER;
    assert_true(lli_pack_skip(&packer.pack, 70, LEAD));
    assert_int_equal(packer.pack.number, NUMBER + 70);
    expect_vector(&numbers_vector, lli_history_packet(&packer.history, LEAD),
                  lli_history_slot(&packer.history, LEAD)->size);
    free(packer.memory);
}

static void names_are_added_to_a_topics_packet_while_they_fit(void **state)
{
    uint8_t packet[LLI_WIRE_TOPICS_HEAD + 6];
    size_t used = lli_wire_add_topic(packet, LLI_WIRE_TOPICS_HEAD, sizeof packet, "ab", 2);

    (void)state;
    assert_int_equal(used, LLI_WIRE_TOPICS_HEAD + 3);
    assert_int_equal(lli_wire_add_topic(packet, used, sizeof packet, "cde", 3), 0);
    assert_int_equal(lli_wire_add_topic(packet, used, sizeof packet, "cd", 2), sizeof packet);
}

static void a_name_has_flags_after_a_zero_byte_or_none(void **state)
{
    char bytes[LLI_WIRE_NAME_MAX], longest[LLI_WIRE_NAME_MAX + 1];
    uint8_t flags;

    (void)state;
    assert_int_equal(lli_wire_put_name(bytes, "px", 0), 2);
    assert_int_equal(lli_wire_get_name((uint8_t *)bytes, 2, &flags), 2);
    assert_int_equal(flags, 0);
    assert_int_equal(lli_wire_put_name(bytes, "px", 3), 4);
    assert_memory_equal(bytes, "px\0\3", 4);
    assert_int_equal(lli_wire_get_name((uint8_t *)bytes, 4, &flags), 2);
    assert_int_equal(flags, 3);
    /* Truncated, with unknown bytes after it, and without a name. */
    assert_int_equal(lli_wire_get_name((uint8_t *)bytes, 3, &flags), 2);
    assert_int_equal(flags, 0);
    assert_int_equal(lli_wire_get_name((const uint8_t *)"p\0\1more", 7, &flags), 1);
    assert_int_equal(flags, 1);
    assert_int_equal(lli_wire_get_name((const uint8_t *)"\0\1", 2, &flags), 0);
    memset(longest, 'n', LLI_WIRE_NAME_MAX);
    longest[LLI_WIRE_NAME_MAX] = '\0';
    assert_int_equal(lli_wire_put_name(bytes, longest, 0), LLI_WIRE_NAME_MAX);
    longest[LLI_WIRE_NAME_MAX - LLI_WIRE_NAME_FLAGS] = '\0';
    assert_int_equal(lli_wire_put_name(bytes, longest, 1), LLI_WIRE_NAME_MAX);
}

static void the_largest_control_packets_fit_their_bound(void **state)
{
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    struct lli_wire_nak nak = nak_value;
    struct lli_wire_reject reject = reject_value;

    (void)state;
    nak.count = reject.count = LLI_WIRE_RANGES_MAX;
    nak.address.size = LLI_WIRE_ADDRESS_MAX;
    assert_true(lli_wire_put_nak(packet, &nak) <= sizeof packet);
    assert_true(lli_wire_put_reject(packet, &reject) <= sizeof packet);
}

/* ----------------------------------------------------------------------------------------------- decoding */

static void control_packets_are_read_as_specified(void **state)
{
    struct decoded out;

    (void)state;
    decode_vector(&heartbeat_vector, &out);
    assert_memory_equal(&out.heartbeat, &heartbeat_value, sizeof heartbeat_value);
    assert_int_equal(out.header.seq, (uint32_t)LEAD);
    assert_int_equal(out.header.number, (uint32_t)NUMBER);
    decode_vector(&nak_vector, &out);
    assert_memory_equal(&out.nak, &nak_value, sizeof nak_value);
    decode_vector(&reject_vector, &out);
    assert_memory_equal(&out.reject, &reject_value, sizeof reject_value);
    decode_vector(&unrepaired_vector, &out);
    assert_memory_equal(&out.reject, &unrepaired_value, sizeof unrepaired_value);
    decode_vector(&passed_vector, &out);
    assert_memory_equal(&out.reject, &passed_value, sizeof passed_value);
    decode_vector(&status_vector, &out);
    assert_memory_equal(&out.status, &status_value, sizeof status_value);
    decode_vector(&assured_vector, &out);
    assert_memory_equal(&out.heartbeat, &assured_value, sizeof assured_value);
    decode_vector(&stream_vector, &out);
    assert_memory_equal(&out.heartbeat, &stream_value, sizeof stream_value);
    decode_vector(&acknowledging_vector, &out);
    assert_memory_equal(&out.status, &acknowledging_value, sizeof acknowledging_value);
    decode_vector(&query_vector, &out);
    assert_memory_equal(&out.query, &query_value, sizeof query_value);
    decode_vector(&join_ask_vector, &out);
    assert_memory_equal(&out.join, &join_ask_value, sizeof join_ask_value);
    decode_vector(&join_grant_vector, &out);
    assert_memory_equal(&out.join, &join_grant_value, sizeof join_grant_value);
    decode_vector(&join_fetch_vector, &out);
    assert_memory_equal(&out.join, &join_fetch_value, sizeof join_fetch_value);
    decode_vector(&join_token_vector, &out);
    assert_memory_equal(&out.join, &join_token_value, sizeof join_token_value);
    decode_vector(&join_seek_vector, &out);
    assert_memory_equal(&out.join, &join_seek_value, sizeof join_seek_value);
    decode_vector(&join_offer_vector, &out);
    assert_memory_equal(&out.join, &join_offer_value, sizeof join_offer_value);
    decode_vector(&join_recall_vector, &out);
    assert_memory_equal(&out.join, &join_recall_value, sizeof join_recall_value);
    decode_vector(&join_absent_vector, &out);
    assert_memory_equal(&out.join, &join_absent_value, sizeof join_absent_value);
    decode_vector(&join_stream_vector, &out);
    assert_memory_equal(&out.join, &join_stream_value, sizeof join_stream_value);
    decode_vector(&join_stream_end_vector, &out);
    assert_memory_equal(&out.join, &join_stream_end_value, sizeof join_stream_end_value);
    decode_vector(&join_beat_vector, &out);
    assert_memory_equal(&out.join, &join_beat_value, sizeof join_beat_value);
    decode_vector(&join_tail_fetch_vector, &out);
    assert_memory_equal(&out.join, &join_tail_fetch_value, sizeof join_tail_fetch_value);
    decode_vector(&join_tail_vector, &out);
    assert_memory_equal(&out.join, &join_tail_value, sizeof join_tail_value);
    decode_vector(&notice_vector, &out);
    assert_memory_equal(&out.notice, &notice_value, sizeof notice_value);
    decode_vector(&topics_vector, &out);
    assert_memory_equal(&out.topics, &topics_value, sizeof topics_value);
    decode_vector(&topics_beyond_vector, &out);
    assert_int_equal(out.topics.first, 3);
    assert_int_equal(out.topics.count, 0);
}

/* Earlier contents of the memory do not become a name, a limit or an assured topic. */
static void fields_without_their_flag_are_zero(void **state)
{
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    struct lli_wire_heartbeat heartbeat;
    struct lli_wire_status status;
    struct lli_wire_header header = {0};
    const uint8_t *body;
    size_t size;

    (void)state;
    memset(&status, 0xFF, sizeof status);
    assert_int_equal(
        lli_wire_get_header(packet, lli_wire_put_status(packet, &status_value), &header, &body, &size),
        LLI_WIRE_OK);
    assert_true(lli_wire_get_status(body, size, header.tag, &status));
    assert_memory_equal(&status, &status_value, sizeof status);
    memset(&heartbeat, 0xFF, sizeof heartbeat);
    assert_int_equal(
        lli_wire_get_header(packet, lli_wire_put_heartbeat(packet, &heartbeat_value), &header, &body, &size),
        LLI_WIRE_OK);
    assert_true(lli_wire_get_heartbeat(body, size, &header, &heartbeat));
    assert_memory_equal(&heartbeat, &heartbeat_value, sizeof heartbeat);
}

static void extensions_are_skipped(void **state)
{
    uint8_t bytes[VECTOR_MAX];
    size_t size = vector_bytes(&extended_vector, bytes);
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;

    (void)state;
    assert_int_equal(lli_wire_get_header(bytes, size, &header, &body, &body_size), LLI_WIRE_OK);
    assert_ptr_equal(body, bytes + LLI_WIRE_DATA_HEADER + 6);
    assert_int_equal(body_size, 2);
    bytes[16] = 1; /* shorter than the length field */
    assert_int_equal(lli_wire_get_header(bytes, size, &header, &body, &body_size), LLI_WIRE_MALFORMED);
    bytes[16] = 8; /* all but the last two bytes */
    memset(bytes + size - 2, 0, 2);
    assert_int_equal(lli_wire_get_header(bytes, size, &header, &body, &body_size), LLI_WIRE_OK);
    assert_int_equal(body_size, 0);
    bytes[16] = 9; /* no room for `first` */
    assert_int_equal(lli_wire_get_header(bytes, size, &header, &body, &body_size), LLI_WIRE_SHORT);
    bytes[16] = 11;
    assert_int_equal(lli_wire_get_header(bytes, size, &header, &body, &body_size), LLI_WIRE_MALFORMED);
    bytes[16] = 8;
    bytes[size - 2] = 1; /* the first frame is beyond the end */
    assert_int_equal(lli_wire_get_header(bytes, size, &header, &body, &body_size), LLI_WIRE_MALFORMED);
}

static void invalid_packets_are_refused_with_the_reason(void **state)
{
    uint8_t bytes[VECTOR_MAX];
    size_t size = vector_bytes(&data_vector, bytes);
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;

    (void)state;
    assert_int_equal(lli_wire_get_header(bytes, LLI_WIRE_HEADER - 1, &header, &body, &body_size),
                     LLI_WIRE_SHORT);
    assert_int_equal(lli_wire_get_header(bytes, size - 1, &header, &body, &body_size), LLI_WIRE_MALFORMED);
    assert_int_equal(lli_wire_get_header(bytes, size + 1, &header, &body, &body_size), LLI_WIRE_MALFORMED);
    set_size(bytes, LLI_WIRE_DATA_HEADER - 1);
    assert_int_equal(lli_wire_get_header(bytes, LLI_WIRE_DATA_HEADER - 1, &header, &body, &body_size),
                     LLI_WIRE_SHORT);
    set_size(bytes, LLI_WIRE_DATA_HEADER);
    assert_int_equal(lli_wire_get_header(bytes, LLI_WIRE_DATA_HEADER, &header, &body, &body_size),
                     LLI_WIRE_OK);
    set_size(bytes, size);
    for (unsigned first = 0; first < 256; first++) {
        enum lli_wire_fault expected =
            first >> 4 != 1 ? LLI_WIRE_VERSION_BAD
            : (first & 15) < 1 || ((first & 15) > LLI_WIRE_NOTICE && (first & 15) != LLI_WIRE_LVC)
                ? LLI_WIRE_TYPE_BAD
                : LLI_WIRE_OK;

        bytes[0] = (uint8_t)first;
        assert_int_equal(lli_wire_get_header(bytes, size, &header, &body, &body_size), expected);
    }
}

static void every_prefix_of_a_packet_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < VECTORS; i++) {
        uint8_t bytes[VECTOR_MAX];
        size_t size = vector_bytes(vectors[i], bytes);
        /*
         * A data packet may end anywhere after its extensions and the rest of the previous packet's message. Of a
         * TAIL the member that asked reads what follows the fields.
         */
        size_t whole = vectors[i] == &join_tail_vector ? size - 9
                       : (bytes[0] & 15) != LLI_WIRE_DATA
                           ? size
                           : LLI_WIRE_DATA_HEADER + (bytes[1] & 0x80 ? 6u : bytes[16]);

        for (size_t cut = 0; cut <= size; cut++) {
            uint8_t *copy = exact_copy(bytes, cut);
            struct decoded out;

            set_size(copy, cut);
            if (decode(copy, cut, &out) != (cut >= whole))
                fail_msg("%s: the first %zu of %zu bytes", vectors[i]->name, cut, size);
            free(copy);
        }
    }
}

static void bytes_after_a_control_packet_are_ignored(void **state)
{
    (void)state;
    for (int i = 0; i < VECTORS; i++) {
        uint8_t bytes[VECTOR_MAX];
        size_t size = vector_bytes(vectors[i], bytes);
        struct decoded out;

        memset(bytes + size, 0xff, 9);
        set_size(bytes, size + 9);
        if ((bytes[0] & 15) != LLI_WIRE_DATA)
            assert_true(decode(bytes, size + 9, &out));
    }
}

static void contradictory_packets_are_refused(void **state)
{
    (void)state;
    /* The identity does not match the header's tag. */
    for (int i = 5; i < VECTORS; i++)
        assert_false(decode_changed(vectors[i], LLI_WIRE_HEADER, 0x89));
    /* The size field does not match the size. */
    for (int i = 0; i < VECTORS; i++)
        assert_false(decode_changed(vectors[i], LLI_WIRE_SIZE_AT, 0xff));
    /* lead before trail; trail before start; lead or messages beyond 2^63 */
    assert_false(decode_changed(&heartbeat_vector, 25, 0x02));
    assert_false(decode_changed(&heartbeat_vector, 32, 0x05));
    assert_false(decode_changed(&heartbeat_vector, 41, 0x04));
    assert_false(decode_changed(&heartbeat_vector, 31, 0x80));
    assert_false(decode_changed(&heartbeat_vector, 55, 0x80));
    /* An address longer than the maximum, and too many ranges, at any size. */
    assert_false(decode_changed(&heartbeat_vector, 85, 32));
    assert_false(decode_changed(&nak_vector, 33, 32));
    assert_false(decode_changed(&nak_vector, 34, 65));
    assert_false(decode_changed(&reject_vector, 34, 65));
    /* next beyond highest */
    assert_false(decode_changed(&status_vector, 32, 0x05));
    /*
     * unacknowledged before trail, or beyond lead; its number beyond that of lead; more assured topics than
     * the maximum, or than follow
     */
    assert_false(decode_changed(&assured_vector, 94, 0x02));
    assert_false(decode_changed(&assured_vector, 93, 0x05));
    assert_false(decode_changed(&assured_vector, 101, 0x0d));
    assert_false(decode_changed(&assured_vector, 109, 17));
    assert_false(decode_changed(&assured_vector, 109, 3));
    assert_true(decode_changed(&assured_vector, 109, 1));
    /*
     * acknowledged_next before acknowledged_from; a name longer than the maximum, or than the packet, or with
     * a zero byte
     */
    assert_false(decode_changed(&acknowledging_vector, 94, 0x0a));
    assert_false(decode_changed(&acknowledging_vector, 103, 32));
    assert_false(decode_changed(&acknowledging_vector, 103, 5));
    assert_false(decode_changed(&acknowledging_vector, 105, 0));
    /* lead beyond 2^63; unknown standing and threshold */
    assert_false(decode_changed(&notice_vector, 47, 0x80));
    assert_false(decode_changed(&notice_vector, 104, 5));
    assert_true(decode_changed(&notice_vector, 105, 9));
    assert_false(decode_changed(&notice_vector, 105, 10));
    /* topics first + count beyond total */
    assert_false(decode_changed(&topics_vector, 24, 2));
    assert_false(decode_changed(&topics_vector, 28, 2));
}

static void a_new_session_and_a_complete_topic_list_are_valid(void **state)
{
    struct lli_wire_heartbeat heartbeat = heartbeat_value;
    struct lli_wire_topics topics = {.session = SESSION, .total = 1, .count = 1};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    struct decoded out;
    size_t size;

    (void)state;
    heartbeat.trail = heartbeat.start = heartbeat.lead;
    assert_true(decode(packet, lli_wire_put_heartbeat(packet, &heartbeat), &out));
    size = lli_wire_add_topic(packet, LLI_WIRE_TOPICS_HEAD, sizeof packet, "a", 1);
    assert_true(decode(packet, lli_wire_put_topics(packet, &topics, size), &out));
}

static void the_most_ranges_are_read_and_one_more_range_is_refused(void **state)
{
    uint8_t packet[LLI_WIRE_CONTROL_MAX + 8] = {0};
    struct lli_wire_nak nak = nak_value;
    struct decoded out;
    size_t size;

    (void)state;
    nak.count = LLI_WIRE_RANGES_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_RANGES_MAX; i++)
        nak.ranges[i] = (struct lli_wire_range){i * 10, i + 1};
    size = lli_wire_put_nak(packet, &nak);
    assert_true(decode(packet, size, &out));
    assert_memory_equal(&out.nak, &nak, sizeof nak);
    packet[34] = LLI_WIRE_RANGES_MAX + 1;
    set_size(packet, size + 8);
    assert_false(decode(packet, size + 8, &out));
}

/* ------------------------------------------------------------------------------------------------- frames */

struct frame_vector {
    const char *hex;
    enum lli_frame_kind kind;
    uint32_t value;
    uint32_t bytes; /* bytes of the frame, without a message's own */
};

static const struct frame_vector frame_vectors[] = {
    {"00", LLI_FRAME_MESSAGE, 0, 1},
    {"7f", LLI_FRAME_MESSAGE, 127, 1},
    {"80 80", LLI_FRAME_MESSAGE, 128, 2},
    {"bf ff", LLI_FRAME_MESSAGE, 16383, 2},
    {"80 05", LLI_FRAME_MESSAGE, 5, 2}, /* longer than needed: a claim committed with less */
    {"e1 00 40 00 00", LLI_FRAME_MESSAGE, 16384, 5},
    {"e1 00 00 00 01", LLI_FRAME_MESSAGE, 16777216, 5},
    {"e1 05 00 00 00", LLI_FRAME_MESSAGE, 5, 5},
    {"c0 00", LLI_FRAME_TOPIC, 0, 2},
    {"df ff", LLI_FRAME_TOPIC, 8191, 2},
    {"e2 00 20 00 00", LLI_FRAME_TOPIC, 8192, 5},
    {"e2 ff ff ff ff", LLI_FRAME_TOPIC, UINT32_MAX, 5},
    {"e0", LLI_FRAME_SKIP, 0, 1},
    {"f0 06 00 07 00 00 00 70 78", LLI_FRAME_ANNOUNCE, 7, 9},
    {"f1 00 00", LLI_FRAME_SKIP, 0, 3},
    {"ff 02 00 aa bb", LLI_FRAME_SKIP, 0, 5},
    {"f3 04 00 01 00 00 00", LLI_FRAME_NUMBERS, 1, 7},
    {"f3 04 00 00 00 01 00", LLI_FRAME_NUMBERS, 65536, 7},
    {"f3 06 00 02 00 00 00 aa bb", LLI_FRAME_NUMBERS, 2, 9}, /* fields may be added */
};

/* Too short, none, too many, or not the last frame of its packet. */
static const char *const bad_numbers[] = {"f3 03 00 01 00 00", "f3 04 00 00 00 00 00", "f3 04 00 01 00 01 00",
                                          "f3 04 00 01 00 00 00 e0", "f3 04 00 01 00 00 00 01 7a"};

static void numbers_that_no_packet_can_have_are_malformed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_numbers / sizeof bad_numbers[0]; i++) {
        uint8_t bytes[16];
        const size_t size = hex_bytes(bad_numbers[i], bytes);
        struct lli_frame frame;

        assert_ptr_equal(lli_frame_get(bytes, bytes + size, &frame), bytes + size);
        assert_int_equal(frame.kind, LLI_FRAME_BAD);
    }
}

static void frames_are_read_as_specified(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof frame_vectors / sizeof frame_vectors[0]; i++) {
        const struct frame_vector *vector = &frame_vectors[i];
        uint8_t bytes[16];
        size_t size = hex_bytes(vector->hex, bytes);

        assert_int_equal(size, vector->bytes);
        for (size_t cut = 1; cut <= size; cut++) {
            uint8_t *copy = exact_copy(bytes, cut);
            struct lli_frame frame = {.kind = LLI_FRAME_BAD};
            const uint8_t *next = lli_frame_get(copy, copy + cut, &frame);

            assert_ptr_equal(next, copy + cut);
            assert_int_equal(frame.kind, cut < size ? LLI_FRAME_BAD : vector->kind);
            if (cut == size && vector->kind != LLI_FRAME_SKIP)
                assert_int_equal(frame.value, vector->value);
            free(copy);
        }
    }
}

static void an_announcement_carries_the_name(void **state)
{
    const uint8_t bytes[] = {0xf0, 6, 0, 7, 0, 0, 0, 'p', 'x'};
    const uint8_t nameless[] = {0xf0, 4, 0, 7, 0, 0, 0};
    struct lli_frame frame;

    (void)state;
    (void)lli_frame_get(bytes, bytes + sizeof bytes, &frame);
    assert_int_equal(frame.bytes_size, 2);
    assert_memory_equal(frame.bytes, "px", 2);
    (void)lli_frame_get(nameless, nameless + sizeof nameless, &frame);
    assert_int_equal(frame.kind, LLI_FRAME_BAD);
}

static void frame_codes_without_a_meaning_are_bad(void **state)
{
    uint8_t bytes[8] = {0};
    struct lli_frame frame;

    (void)state;
    for (unsigned code = 0xe3; code < 0xf0; code++) {
        bytes[0] = (uint8_t)code;
        assert_ptr_equal(lli_frame_get(bytes, bytes + sizeof bytes, &frame), bytes + sizeof bytes);
        assert_int_equal(frame.kind, LLI_FRAME_BAD);
    }
}

static void frames_are_written_as_they_are_read(void **state)
{
    const uint32_t sizes[] = {0, 1, 127, 128, 129, 16383, 16384, 16777216};
    const uint32_t topics[] = {0, 1, 255, 256, 8191, 8192, UINT32_MAX};
    uint8_t bytes[5];
    struct lli_frame frame;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t least = lli_frame_message_size(sizes[i]);

        for (uint32_t header = 1; header <= 5; header += header == 1 ? 1 : 3) {
            if (header < least)
                continue;
            lli_frame_put_message(bytes, header, sizes[i]);
            assert_ptr_equal(lli_frame_get(bytes, bytes + header, &frame), bytes + header);
            assert_int_equal(frame.kind, LLI_FRAME_MESSAGE);
            assert_int_equal(frame.value, sizes[i]);
        }
    }
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++) {
        uint32_t size = lli_frame_topic_size(topics[i]);

        lli_frame_put_topic(bytes, topics[i]);
        assert_ptr_equal(lli_frame_get(bytes, bytes + size, &frame), bytes + size);
        assert_int_equal(frame.kind, LLI_FRAME_TOPIC);
        assert_int_equal(frame.value, topics[i]);
    }
}

/* -------------------------------------------------------------------------------------------------- other */

static void unpack_all(const uint8_t *packet, size_t size)
{
    static uint8_t buffer[4096];
    struct lli_unpack unpack;
    struct lli_unpacked out;
    struct decoded decoded;

    if (!decode(packet, size, &decoded) || decoded.header.type != LLI_WIRE_DATA)
        return;
    lli_unpack_init(&unpack, buffer, sizeof buffer);
    lli_unpack_reset(&unpack, decoded.header.number);
    lli_unpack_break(&unpack);
    lli_unpack_begin(&unpack, &decoded.header, decoded.body, decoded.body_size);
    do {
        const struct llm_message like = {.topic = ""};
        struct llm_message message;
        uint32_t topic;

        while (lli_unpack_peek(&unpack, &topic) && lli_unpack_messages(&unpack, &like, &message, 1) == 1) {
            const uint8_t *data = message.data;

            assert_true(message.size == 0 || (data >= packet && data + message.size <= packet + size));
        }
        lli_unpack_next(&unpack, &out);
    } while (out.kind != LLI_UNPACK_NONE);
}

static void mangled_packets_are_read_within_their_bounds(void **state)
{
    uint64_t random = 11;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint8_t bytes[VECTOR_MAX];
        size_t size = vector_bytes(vectors[below(&random, VECTORS)], bytes);
        uint8_t *copy;

        for (uint32_t flips = 1 + below(&random, 4); flips > 0; flips--)
            bytes[below(&random, (uint32_t)size)] = (uint8_t)lli_random(&random);
        size = chance(&random, 30) ? below(&random, (uint32_t)size + 1) : size;
        copy = exact_copy(bytes, size);
        unpack_all(copy, size);
        free(copy);
    }
}

static void a_reader_stays_at_its_end_after_an_overrun(void **state)
{
    const uint8_t bytes[] = {1, 2, 3};
    struct lli_reader reader = lli_reader_of(bytes, sizeof bytes);

    (void)state;
    assert_int_equal(lli_read_u16(&reader), 0x0201);
    assert_int_equal(lli_read_u32(&reader), 0);
    assert_false(reader.ok);
    assert_int_equal(lli_read_u8(&reader), 0);
    assert_ptr_equal(reader.at, bytes + 3);
}

/*
 * Returns the payload's share of a 10 Gbit/s Ethernet: packets with IP, UDP and Ethernet headers, preamble
 * and gap.
 */
static double wire_share(uint32_t size)
{
    static const char bytes[1000];
    struct packer packer;
    uint64_t packets = 0, wire = 0;
    lli_seq counted = LEAD;
    const int messages = 50000;

    packer_make(&packer, 1472, LEAD);
    for (int i = 0; i < messages; i++) {
        packer_send(&packer, 5, bytes, size);
        for (; counted < packer.history.next; counted++, packets++)
            wire += lli_history_slot(&packer.history, counted)->size + 28u + 38u;
    }
    assert_true(packets > 100);
    free(packer.memory);
    return messages * (double)size / (double)wire;
}

/* Every control packet with an address is read with the new one, and is otherwise the same. */
static void the_address_of_a_packet_is_replaced(void **state)
{
    const struct lli_wire_address from = {7, {4, 10, 0, 0, 1, 1, 2}}, other = {7, {4, 10, 0, 0, 2, 1, 2}},
                                  to = {19,
                                        {6, 0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}};
    const struct lli_wire_heartbeat heartbeat = {.session = 7,
                                                 .lead = 5,
                                                 .trail = 3,
                                                 .start = 1,
                                                 .address = from,
                                                 .flags = LLI_WIRE_HEARTBEAT_ASSURED};
    struct lli_wire_nak nak = {.session = 7, .receiver = 9, .address = from, .token = 11, .count = 1};
    uint8_t packet[LLI_WIRE_CONTROL_MAX], copy[LLI_WIRE_CONTROL_MAX], whole[LLI_WIRE_CONTROL_MAX];
    struct lli_wire_heartbeat moved = heartbeat;
    size_t size = lli_wire_put_heartbeat(packet, &heartbeat);

    (void)state;
    nak.ranges[0] = (struct lli_wire_range){1, 2};
    moved.address = to;
    assert_int_equal(lli_wire_readdress(packet, size, &from, &to, copy, sizeof copy),
                     lli_wire_put_heartbeat(whole, &moved));
    assert_memory_equal(copy, whole, size + 12);
    assert_int_equal(lli_wire_readdress(copy, size + 12, &to, &from, whole, sizeof whole), size);
    assert_memory_equal(whole, packet, size);
    assert_int_equal(lli_wire_readdress(packet, size, &other, &to, copy, sizeof copy), 0);
    assert_int_equal(lli_wire_readdress(packet, size, &from, &to, copy, size + 11), 0);
    size = lli_wire_put_nak(packet, &nak);
    nak.address = to;
    assert_int_equal(lli_wire_readdress(packet, size, &from, &to, copy, sizeof copy),
                     lli_wire_put_nak(whole, &nak));
    assert_memory_equal(copy, whole, size + 12);
}

static void under_load_the_wire_carries_payload(void **state)
{
    (void)state;
    assert_true(wire_share(45) >= 0.92);
    assert_true(wire_share(100) >= 0.93);
    assert_true(wire_share(1000) >= 0.94);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_packets_are_written_as_specified),
        cmocka_unit_test(data_packets_are_written_as_specified),
        cmocka_unit_test(a_continued_packet_contains_the_start_of_its_first_frame),
        cmocka_unit_test(a_packet_contains_the_number_of_unrepaired_predecessors),
        cmocka_unit_test(skipped_numbers_are_a_packet_of_their_own),
        cmocka_unit_test(names_are_added_to_a_topics_packet_while_they_fit),
        cmocka_unit_test(a_name_has_flags_after_a_zero_byte_or_none),
        cmocka_unit_test(the_largest_control_packets_fit_their_bound),
        cmocka_unit_test(control_packets_are_read_as_specified),
        cmocka_unit_test(fields_without_their_flag_are_zero),
        cmocka_unit_test(extensions_are_skipped),
        cmocka_unit_test(invalid_packets_are_refused_with_the_reason),
        cmocka_unit_test(every_prefix_of_a_packet_is_refused),
        cmocka_unit_test(bytes_after_a_control_packet_are_ignored),
        cmocka_unit_test(contradictory_packets_are_refused),
        cmocka_unit_test(a_new_session_and_a_complete_topic_list_are_valid),
        cmocka_unit_test(the_most_ranges_are_read_and_one_more_range_is_refused),
        cmocka_unit_test(frames_are_read_as_specified),
        cmocka_unit_test(numbers_that_no_packet_can_have_are_malformed),
        cmocka_unit_test(an_announcement_carries_the_name),
        cmocka_unit_test(frame_codes_without_a_meaning_are_bad),
        cmocka_unit_test(frames_are_written_as_they_are_read),
        cmocka_unit_test(mangled_packets_are_read_within_their_bounds),
        cmocka_unit_test(a_reader_stays_at_its_end_after_an_overrun),
        cmocka_unit_test(the_address_of_a_packet_is_replaced),
        cmocka_unit_test(under_load_the_wire_carries_payload),
    };

    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        vectors_print();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
