/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/pack/outline.h"
#include "core/wire/wire.h"

enum { ROOM = 1024 };

static uint8_t packet[ROOM];
static uint32_t size;
static struct lli_outline_run runs[LLI_OUTLINE_RUNS_MAX];

static void begin(uint16_t first)
{
    memset(packet, 0, sizeof packet);
    size = LLI_WIRE_DATA_HEADER + first;
    packet[LLI_WIRE_HEADER] = (uint8_t)first;
}

static void topic(uint32_t id)
{
    lli_frame_put_topic(packet + size, id);
    size += lli_frame_topic_size(id);
}

static void message(uint32_t bytes)
{
    lli_frame_put_message(packet + size, lli_frame_message_size(bytes), bytes);
    size += lli_frame_message_size(bytes) + bytes;
}

/* Makes the outline of the packet, in a block of exactly its size. */
static uint32_t make(uint32_t max)
{
    const uint16_t first = packet[LLI_WIRE_HEADER];
    const struct lli_wire_header header = {
        .type = LLI_WIRE_DATA, .size = (uint16_t)size, .first = first, .tag = 7, .seq = 8, .number = 9};
    uint8_t *copy;
    uint32_t count;

    lli_wire_put_header(packet, &header);
    copy = exact_copy(packet, size);
    count = lli_outline_make(copy, size, runs, max);
    free(copy);
    return count;
}

static void expect(uint32_t i, uint32_t id, uint32_t at, uint32_t before)
{
    assert_int_equal(runs[i].topic, id);
    assert_int_equal(runs[i].at, at);
    assert_int_equal(runs[i].first, before);
}

static void runs_begin_where_the_topic_changes(void **state)
{
    (void)state;
    begin(0);
    message(10);
    message(200);
    topic(5);
    message(0);
    topic(8192);
    message(3);
    message(3);
    assert_int_equal(make(LLI_OUTLINE_RUNS_MAX), 4);
    expect(0, 0, LLI_WIRE_DATA_HEADER, 0);
    expect(1, 5, LLI_WIRE_DATA_HEADER + 11 + 202, 2);
    expect(2, 8192, LLI_WIRE_DATA_HEADER + 213 + 3, 3);
    expect(3, 0, size, 5);
    assert_int_equal(size, LLI_WIRE_DATA_HEADER + 213 + 3 + 5 + 8);
}

/* The end of a message of the packet before, padding and attributes are no messages. */
static void bytes_that_are_no_messages_are_part_of_a_run(void **state)
{
    (void)state;
    begin(20);
    topic(1);
    message(4);
    packet[size++] = LLI_FRAME_PAD;
    topic(2);
    packet[size] = LLI_FRAME_ATTRIBUTES;
    lli_store_u16(packet + size + 1, 2);
    size += LLI_FRAME_HEAD + 2;
    message(4);
    packet[size++] = LLI_FRAME_PAD;
    assert_int_equal(make(LLI_OUTLINE_RUNS_MAX), 3);
    expect(0, 1, LLI_WIRE_DATA_HEADER + 20, 0);
    expect(1, 2, LLI_WIRE_DATA_HEADER + 20 + 2 + 5 + 1, 1);
    expect(2, 0, size, 2);
}

static void a_run_whose_last_message_continues_is_marked(void **state)
{
    (void)state;
    begin(0);
    topic(1);
    message(4);
    topic(2);
    message(4);
    message(100);
    size -= 60;
    assert_int_equal(make(LLI_OUTLINE_RUNS_MAX), 3);
    expect(1, LLI_OUTLINE_UNFINISHED, LLI_WIRE_DATA_HEADER + 7, 1);
    expect(2, 0, size, 2);
}

/* A topic without messages, which no transmitter sends, is none. */
static void a_topic_without_messages_has_no_run(void **state)
{
    (void)state;
    begin(0);
    topic(1);
    topic(2);
    message(4);
    topic(3);
    message(4);
    assert_int_equal(make(LLI_OUTLINE_RUNS_MAX), 3);
    expect(0, 2, LLI_WIRE_DATA_HEADER + 2, 0);
    expect(1, 3, LLI_WIRE_DATA_HEADER + 2 + 7, 1);
}

static void packets_of_other_kinds_have_no_outline(void **state)
{
    (void)state;
    begin(0);
    message(4);
    message(5);
    assert_int_equal(make(LLI_OUTLINE_RUNS_MAX), 0); /* one topic */
    topic(1);
    message(4);
    assert_int_equal(make(LLI_OUTLINE_RUNS_MAX), 3);
    assert_int_equal(make(3), 3);
    assert_int_equal(make(2), 0); /* more runs than that */
    assert_int_equal(make(0), 0);
    lli_frame_put_announcement(packet + size, 3, "name", 4);
    size += LLI_FRAME_ANNOUNCE_HEAD + 4;
    assert_int_equal(make(LLI_OUTLINE_RUNS_MAX), 0);
    begin(0);
    message(4);
    topic(1);
    message(4);
    packet[size++] = LLI_FRAME_MEDIUM; /* cut off */
    assert_int_equal(make(LLI_OUTLINE_RUNS_MAX), 0);
}

static void packets_of_other_types_have_no_outline(void **state)
{
    (void)state;
    begin(0);
    message(4);
    topic(1);
    message(4);
    assert_int_equal(make(LLI_OUTLINE_RUNS_MAX), 3);
    assert_int_equal(lli_outline_make(packet, size, runs, LLI_OUTLINE_RUNS_MAX), 3);
    assert_int_equal(lli_outline_make(packet, size - 1, runs, LLI_OUTLINE_RUNS_MAX), 0);
    packet[1] |= LLI_WIRE_FLAG_EXTENDED;
    assert_int_equal(lli_outline_make(packet, size, runs, LLI_OUTLINE_RUNS_MAX), 0);
    packet[1] = 0;
    packet[0] ^= 0x10; /* another version, as that of packets with keys */
    assert_int_equal(lli_outline_make(packet, size, runs, LLI_OUTLINE_RUNS_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_begin_where_the_topic_changes),
        cmocka_unit_test(bytes_that_are_no_messages_are_part_of_a_run),
        cmocka_unit_test(a_run_whose_last_message_continues_is_marked),
        cmocka_unit_test(a_topic_without_messages_has_no_run),
        cmocka_unit_test(packets_of_other_kinds_have_no_outline),
        cmocka_unit_test(packets_of_other_types_have_no_outline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
