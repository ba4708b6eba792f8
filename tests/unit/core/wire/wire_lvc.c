/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for cached messages, and LVC packets, against docs/protocol.md section 12.3; rules for all packets
 * are in wire.c.
 */
#include "wire_decode.h"

enum { SPANS_AT = LLI_WIRE_HEADER + 66 + 7, RECORDS_AT = LLI_WIRE_LVC_HEAD };

static const struct lli_wire_join join_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .kind = LLI_WIRE_JOIN_LATEST,
    .from = 5,
    .value = 2,
    .number = 42,
    .wanted = 256,
    .address = ADDRESS_VALUE,
    .count = 1,
    .spans = {{{41, 7, 1000}, {0, 10000, 0}}},
    .token = TOKEN,
};
static const struct lli_wire_lvc kept_value = {.session = SESSION,
                                               .receiver = RECEIVER,
                                               .number = 42,
                                               .next = 47,
                                               .span = {{41, 7, 1000}, {0, 10000, 0}},
                                               .left = 0,
                                               .count = 2};

static size_t put_kept(uint8_t *packet)
{
    const struct lli_wire_record end = {{41, 7, 1000}, (const uint8_t *)"end", 3},
                                 hi = {{3, 9, 0}, (const uint8_t *)"\2hi", 3};
    size_t used = lli_wire_add_record(packet, LLI_WIRE_LVC_HEAD, VECTOR_MAX, &end);

    used = lli_wire_add_record(packet, used, VECTOR_MAX, &hi);
    return lli_wire_put_lvc(packet, &kept_value, used);
}

static void cache_packets_are_written_as_specified(void **state)
{
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    (void)state;
    expect_vector(&join_latest_vector, packet, lli_wire_put_join(packet, &join_value));
    expect_vector(&kept_vector, packet, put_kept(packet));
}

static void cache_packets_are_read_as_specified(void **state)
{
    uint8_t bytes[VECTOR_MAX];
    const size_t size = vector_bytes(&kept_vector, bytes);
    struct lli_wire_record record;
    struct lli_reader records;
    struct decoded out;

    (void)state;
    decode_vector(&join_latest_vector, &out);
    assert_memory_equal(&out.join, &join_value, sizeof join_value);
    assert_true(decode(bytes, size, &out));
    assert_memory_equal(&out.kept, &kept_value,
                        offsetof(struct lli_wire_lvc, count) + sizeof kept_value.count);
    assert_true(lli_wire_get_lvc(out.body, out.body_size, (uint32_t)SESSION, &out.kept, &records));
    assert_true(lli_wire_next_record(&records, &record));
    assert_true(record.at.topic == 7 && record.at.number == 41 && record.at.offset == 1000 &&
                record.size == 3);
    assert_memory_equal(record.bytes, "end", 3);
    assert_true(lli_wire_next_record(&records, &record));
    assert_true(record.at.topic == 9 && record.at.number == 3 && record.at.offset == 0 && record.size == 3);
    assert_false(lli_wire_next_record(&records, &record));
    assert_true(records.ok);
}

static void the_most_spans_and_the_longest_address_fit(void **state)
{
    struct lli_wire_join join = join_value;
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    struct decoded out;

    (void)state;
    join.address.size = LLI_WIRE_ADDRESS_MAX;
    join.count = LLI_WIRE_SPANS_MAX;
    for (uint32_t i = 0; i < LLI_WIRE_SPANS_MAX; i++)
        join.spans[i] = (struct lli_wire_span){{UINT64_MAX, i, UINT32_MAX}, {0, i + 1, 0}};
    assert_true(decode(packet, lli_wire_put_join(packet, &join), &out));
    assert_memory_equal(&out.join, &join, sizeof join);
}

static void records_are_added_while_they_fit(void **state)
{
    const struct lli_wire_record record = {{1, 1, 0}, (const uint8_t *)"record", 6};
    uint8_t packet[LLI_WIRE_LVC_HEAD + 2 * (LLI_WIRE_RECORD_HEAD + 6)];
    size_t used = LLI_WIRE_LVC_HEAD;

    (void)state;
    used = lli_wire_add_record(packet, used, sizeof packet, &record);
    assert_int_equal(lli_wire_add_record(packet, used, sizeof packet - 1, &record), 0);
    used = lli_wire_add_record(packet, used, sizeof packet, &record);
    assert_int_equal(used, sizeof packet);
    assert_int_equal(lli_wire_add_record(packet, used, sizeof packet, &record), 0);
}

static void places_are_ordered_by_topic_number_and_byte(void **state)
{
    static const struct lli_wire_place places[] = {
        {0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {UINT64_MAX, 0, UINT32_MAX}, {0, 1, 0}, {0, UINT32_MAX, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        for (size_t j = 0; j < sizeof places / sizeof places[0]; j++)
            assert_int_equal(lli_wire_is_before(&places[i], &places[j]), i < j);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    /* An empty or negative span, and too many spans. */
    assert_false(decode_changed(&join_latest_vector, SPANS_AT + 3, 1));
    assert_false(decode_changed(&join_latest_vector, LLI_WIRE_HEADER + 20, LLI_WIRE_SPANS_MAX + 1));
    assert_false(decode_changed(&kept_vector, LLI_WIRE_HEADER + 32 + 3, 1));
    /* Messages not packed yet, and numbers beyond 2^63. */
    assert_false(decode_changed(&kept_vector, LLI_WIRE_HEADER + 24, 41));
    assert_false(decode_changed(&kept_vector, LLI_WIRE_HEADER + 31, 0x80));
    /* Records before the span, out of order, of messages not requested, after the span, empty. */
    assert_false(decode_changed(&kept_vector, RECORDS_AT + 12, 0xe7));
    assert_false(decode_changed(&kept_vector, RECORDS_AT + 21, 6));
    assert_false(decode_changed(&kept_vector, RECORDS_AT + 25, 42));
    assert_false(decode_changed(&kept_vector, RECORDS_AT + 23, 1));
    assert_false(decode_changed(&kept_vector, RECORDS_AT + 16, 0));
    /* More records than the packet has; with a smaller count the others are ignored. */
    assert_false(decode_changed(&kept_vector, RECORDS_AT - 2, 3));
    assert_true(decode_changed(&kept_vector, RECORDS_AT - 2, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_packets_are_written_as_specified),
        cmocka_unit_test(cache_packets_are_read_as_specified),
        cmocka_unit_test(the_most_spans_and_the_longest_address_fit),
        cmocka_unit_test(records_are_added_while_they_fit),
        cmocka_unit_test(places_are_ordered_by_topic_number_and_byte),
        cmocka_unit_test(contradictions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
