/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of docs/protocol.md that an implementer might get wrong, from the test vectors, by a receiver's
 * session.
 */
#include "session.h"

#include "wire_decode.h"

enum { TEXT_MAX = 64 };

/* Both low halves wrap after the first packet. */
static const lli_seq start = ((lli_seq)1 << 33) - 1;
static const uint64_t number = ((uint64_t)1 << 32) - 1;

static struct receiver r;
static lli_ns now;
static char text[TEXT_MAX]; /* text of the messages, each followed by a space */
static uint64_t next_number;
static struct llm_event gap;
static int gaps;

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(&r.rx, now, &item)) {
        if (item.kind == LLI_ITEM_EVENT && item.event.kind == LLM_EVENT_GAP) {
            gap = item.event;
            gaps++;
        }
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++) {
            strncat(text, item.messages[i].data, item.messages[i].size);
            strcat(text, " ");
            next_number = item.messages[i].number + 1;
        }
    }
}

static void take(const struct vector *vector)
{
    uint8_t bytes[VECTOR_MAX];
    const size_t size = vector_bytes(vector, bytes);

    receiver_take(&r, bytes, size, now, pull);
}

/* Joins a session that is no longer young at the first of the vectors. */
static int up(void **state)
{
    const struct lli_wire_heartbeat heartbeat = {.session = SESSION,
                                                 .lead = start,
                                                 .trail = start - 10,
                                                 .start = start - 10,
                                                 .messages = number,
                                                 .sent_at = 1,
                                                 .interval_us = 10000,
                                                 .address = {1, {'t'}}};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    (void)state;
    now = 100 * MS;
    text[0] = '\0';
    gaps = 0;
    r = (struct receiver){.random = 1};
    r.config = rx_config();
    receiver_make(&r, 32, now);
    receiver_take(&r, packet, lli_wire_put_heartbeat(packet, &heartbeat), now, pull);
    return 0;
}

static int down(void **state)
{
    (void)state;
    receiver_unmake(&r);
    return 0;
}

static void low_halves_stand_for_the_nearest_numbers_across_a_wrap(void **state)
{
    (void)state;
    take(&header_last_vector);
    assert_string_equal(text, "y ");
    assert_int_equal(next_number, number + 1);
    take(&middle_vector);
    take(&padded_vector);
    assert_string_equal(text, "y abcde ");
    assert_int_equal(next_number, number + 2);
    assert_int_equal(r.rx.gap.next, start + 3);
    assert_int_equal(r.counters.data_malformed, 0);
}

static void padding_is_a_frame_and_a_body_may_be_empty(void **state)
{
    (void)state;
    take(&header_last_vector);
    take(&middle_vector);
    take(&padded_vector);
    take(&empty_vector);
    take(&unused_vector);
    assert_string_equal(text, "y abcde z ");
    assert_int_equal(gaps, 0);
    assert_int_equal(r.rx.gap.next, start + 5);
}

static void the_same_packets_in_any_order_are_the_same_messages(void **state)
{
    (void)state;
    take(&unused_vector);
    take(&padded_vector);
    take(&empty_vector);
    take(&middle_vector);
    assert_string_equal(text, "");
    take(&header_last_vector);
    assert_string_equal(text, "y abcde z ");
    assert_int_equal(next_number, number + 3);
}

static void messages_after_an_unused_frame_code_are_lost(void **state)
{
    uint8_t bytes[VECTOR_MAX];
    const size_t size = vector_bytes(&empty_vector, bytes);

    (void)state;
    take(&header_last_vector);
    take(&middle_vector);
    take(&padded_vector);
    take(&empty_vector);
    take(&unused_vector);
    assert_int_equal(r.counters.data_malformed, 1);
    /* The number in the next packet implies one more message in it. */
    lli_store_u32(bytes + 8, 4);
    lli_store_u32(bytes + 12, 3);
    receiver_take(&r, bytes, size, now, pull);
    assert_int_equal(gaps, 1);
    assert_int_equal(gap.first, number + 3);
    assert_int_equal(gap.last, number + 3);
}

static void packets_before_and_beyond_the_window_change_nothing(void **state)
{
    uint8_t bytes[VECTOR_MAX];
    const size_t size = vector_bytes(&empty_vector, bytes);

    (void)state;
    lli_store_u32(bytes + 8, (uint32_t)(start + WINDOW));
    receiver_take(&r, bytes, size, now, pull);
    assert_int_equal(r.counters.window_overflow, 1);
    lli_store_u32(bytes + 8, (uint32_t)(start - 1));
    receiver_take(&r, bytes, size, now, pull);
    assert_int_equal(r.counters.packets_duplicate, 1);
    assert_int_equal(r.rx.gap.end, start);
    assert_int_equal(r.rx.gap.missing, 0);
}

/* After a loss, `first` of a packet without a frame start does not apply to the next packet. */
static void a_continued_message_after_a_loss_is_skipped(void **state)
{
    (void)state;
    take(&middle_vector);
    take(&padded_vector);
    take(&empty_vector);
    r.rx.loss.gone_below = start + 1;
    r.rx.loss.gone_reason = LLM_REASON_GONE;
    pull();
    assert_int_equal(gaps, 1);
    assert_int_equal(gap.first, number);
    assert_int_equal(gap.last, number + 1);
    take(&unused_vector);
    assert_string_equal(text, "z ");
    assert_int_equal(gaps, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(low_halves_stand_for_the_nearest_numbers_across_a_wrap, up, down),
        cmocka_unit_test_setup_teardown(padding_is_a_frame_and_a_body_may_be_empty, up, down),
        cmocka_unit_test_setup_teardown(the_same_packets_in_any_order_are_the_same_messages, up, down),
        cmocka_unit_test_setup_teardown(messages_after_an_unused_frame_code_are_lost, up, down),
        cmocka_unit_test_setup_teardown(packets_before_and_beyond_the_window_change_nothing, up, down),
        cmocka_unit_test_setup_teardown(a_continued_message_after_a_loss_is_skipped, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
