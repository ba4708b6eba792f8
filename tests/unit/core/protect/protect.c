/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/protect/protect.h"

enum { PACKET_MAX = 200 };

/* Makes a packet of version 1 of a type, with a body of so many bytes. Returns its size. */
static uint32_t packet_make(uint8_t *packet, uint8_t type, uint32_t body)
{
    const uint32_t head = type == LLI_WIRE_DATA ? LLI_WIRE_DATA_HEADER : LLI_WIRE_HEADER;
    const struct lli_wire_header header = {.type = type,
                                           .flags = 5,
                                           .size = (uint16_t)(head + body),
                                           .tag = 0x01020304,
                                           .seq = 0x11121314,
                                           .number = 0x21222324};

    lli_wire_put_header(packet, &header);
    pattern_fill(packet + head, body, 1);
    return head + body;
}

static const struct lli_protect_fields fields = {
    .sender = 0x1122334455667788, .counter = 0x99aabbccddeeff00, .epoch = 0x0102, .suite = 3, .mode = 1};

static void a_packet_of_each_type_is_the_same_after_both_ways(void **state)
{
    uint8_t before[PACKET_MAX], packet[PACKET_MAX], after[PACKET_MAX], clear[LLI_PROTECT_CLEAR_MAX];

    (void)state;
    for (uint8_t type = LLI_WIRE_DATA; type <= LLI_WIRE_LVC; type++) {
        for (uint32_t body = 0; body < 100; body += 33) {
            const uint32_t size = packet_make(before, type, body);
            const uint32_t more = type == LLI_WIRE_DATA ? LLI_PROTECT_DATA : LLI_PROTECT_CONTROL;
            struct lli_protect_fields found;
            struct lli_protect_parts parts, parsed;

            memcpy(packet, before, size);
            assert_false(lli_protect_is(packet, size));
            assert_true(lli_protect_begin(packet, size, &fields, &parts));
            assert_true(lli_protect_is(packet, size));
            assert_true(lli_protect_parse(packet, size + more, &found, &parsed));
            assert_int_equal(parts.is_data, parsed.is_data);
            assert_int_equal(parts.head, parsed.head);
            assert_int_equal(parts.body, parsed.body);
            assert_int_equal(parts.tag, parsed.tag);
            assert_int_equal(parts.seq, 0x11121314);
            assert_int_equal(parsed.seq, 0x11121314);
            assert_int_equal(parts.head + parts.body + parts.after, size + more);
            assert_int_equal(parts.tag, size + more - LLI_PROTECT_TAG);
            assert_int_equal(parts.session_tag, 0x01020304);
            assert_int_equal(found.epoch, fields.epoch);
            assert_int_equal(found.suite, fields.suite);
            assert_int_equal(found.mode, fields.mode);
            assert_int_equal(found.sender, parts.is_data ? 0 : fields.sender);
            assert_int_equal(found.counter, parts.is_data ? 0 : fields.counter);
            assert_int_equal(lli_protect_clear(packet, &parts, clear), parts.head + more - LLI_PROTECT_TAG);
            assert_memory_equal(clear, packet, parts.head);
            memcpy(after + parts.head, packet + parts.head, parts.body);
            lli_protect_restore(packet, &parts, after);
            assert_memory_equal(after, before, size);
        }
    }
}

static void packets_that_contradict_themselves_are_refused(void **state)
{
    uint8_t packet[PACKET_MAX];
    const uint32_t size = packet_make(packet, LLI_WIRE_HEARTBEAT, 70);
    struct lli_protect_fields found;
    struct lli_protect_parts parts;

    (void)state;
    assert_true(lli_protect_begin(packet, size, &fields, &parts));
    for (uint32_t cut = 0; cut < size + LLI_PROTECT_CONTROL; cut++) {
        uint8_t *copy = exact_copy(packet, cut);

        assert_false(lli_protect_parse(copy, cut, &found, &parts));
        /* A header that agrees with the cut, with too little behind it. */
        if (cut >= LLI_WIRE_HEADER && cut < LLI_WIRE_HEADER + LLI_PROTECT_CONTROL) {
            lli_wire_put_size(copy, cut);
            assert_false(lli_protect_parse(copy, cut, &found, &parts));
        }
        free(copy);
    }
    packet[1] |= LLI_WIRE_FLAG_EXTENDED;
    assert_false(lli_protect_parse(packet, size + LLI_PROTECT_CONTROL, &found, &parts));
}

static void a_packet_that_would_be_too_long_is_not_changed(void **state)
{
    static uint8_t packet[UINT16_MAX];
    struct lli_protect_parts parts;

    (void)state;
    (void)packet_make(packet, LLI_WIRE_DATA, UINT16_MAX - LLI_WIRE_DATA_HEADER);
    assert_false(lli_protect_begin(packet, UINT16_MAX - LLI_PROTECT_DATA + 1, &fields, &parts));
    assert_false(lli_protect_is(packet, UINT16_MAX));
    assert_true(lli_protect_begin(packet, UINT16_MAX - LLI_PROTECT_DATA, &fields, &parts));
}

static void nonces_of_different_numbers_differ(void **state)
{
    const uint8_t iv[LLI_PROTECT_NONCE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const uint8_t expected[LLI_PROTECT_NONCE] = {1, 2, 3, 4, 13, 1, 1, 13, 13, 9, 9, 13};
    uint8_t nonce[LLI_PROTECT_NONCE];

    (void)state;
    lli_protect_nonce(iv, 0x0102030405060708, nonce);
    assert_memory_equal(nonce, expected, sizeof nonce);
}

static void purposes_differ_in_everything_that_they_name(void **state)
{
    uint8_t purposes[8][LLI_PROTECT_PURPOSE];
    struct lli_protect_fields f = {.epoch = 1, .suite = 1, .mode = 1};

    (void)state;
    lli_protect_purpose(true, &f, 1, 1, purposes[0]);
    lli_protect_purpose(false, &f, 1, 1, purposes[1]);
    lli_protect_purpose(true, &f, 2, 1, purposes[2]);
    lli_protect_purpose(true, &f, 1, 2, purposes[3]);
    f.mode = 2;
    lli_protect_purpose(true, &f, 1, 1, purposes[4]);
    f.suite = 2;
    lli_protect_purpose(true, &f, 1, 1, purposes[5]);
    f.epoch = 256;
    lli_protect_purpose(true, &f, 1, 1, purposes[6]);
    lli_protect_purpose(true, &f, UINT64_C(1) << 56, 0, purposes[7]);
    for (int a = 0; a < 8; a++)
        for (int b = a + 1; b < 8; b++)
            assert_memory_not_equal(purposes[a], purposes[b], LLI_PROTECT_PURPOSE);
}

static void numbers_are_accepted_once_and_in_a_window(void **state)
{
    enum { NUMBERS = 4000 };
    static bool seen[NUMBERS];
    struct lli_protect_replay replay = {0};
    uint64_t random = 7, highest = 0;

    (void)state;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < 20000; i++) {
        /* Around the highest number, which rises. */
        const uint64_t low = highest > 100 ? highest - 100 : 1;
        const uint64_t number = low + below(&random, chance(&random, 5) ? 300 : 110);
        const bool expected = number > highest || (!seen[number % NUMBERS] && highest - number < 64);

        assert_int_equal(lli_protect_is_new(&replay, number), expected);
        if (!expected)
            continue;
        lli_protect_note(&replay, number);
        for (uint64_t k = highest + 1; k < number; k++)
            seen[k % NUMBERS] = false;
        seen[number % NUMBERS] = true;
        highest = lli_max(highest, number);
    }
    assert_true(highest > NUMBERS);
    assert_false(lli_protect_is_new(&replay, 0));
    assert_true(lli_protect_is_new(&replay, UINT64_MAX));
}

static void numbers_follow_the_clock_and_never_go_back(void **state)
{
    uint64_t counter = 0;

    (void)state;
    counter = lli_protect_count(counter, 1000);
    assert_int_equal(counter, UINT64_C(1000) << 20);
    assert_int_equal(lli_protect_count(counter, 1000), counter + 1);
    assert_int_equal(lli_protect_count(counter, 900), counter + 1);
    assert_int_equal(lli_protect_count(counter, 1001), UINT64_C(1001) << 20);
    assert_true(lli_protect_is_fresh(counter, 1000));
    assert_true(lli_protect_is_fresh(counter, 1060));
    assert_true(lli_protect_is_fresh(counter, 940));
    assert_false(lli_protect_is_fresh(counter, 1061));
    assert_false(lli_protect_is_fresh(counter, 939));
    assert_true(lli_protect_is_fresh(5, 0));
}

static void blocks_have_as_many_numbers_as_a_key_may_protect(void **state)
{
    (void)state;
    assert_int_equal(lli_protect_block(true, (1 << 24) - 1), 0);
    assert_int_equal(lli_protect_block(true, 1 << 24), 1);
    assert_int_equal(lli_protect_block(false, (1 << 28) - 1), 0);
    assert_int_equal(lli_protect_block(false, 1 << 28), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_of_each_type_is_the_same_after_both_ways),
        cmocka_unit_test(packets_that_contradict_themselves_are_refused),
        cmocka_unit_test(a_packet_that_would_be_too_long_is_not_changed),
        cmocka_unit_test(nonces_of_different_numbers_differ),
        cmocka_unit_test(purposes_differ_in_everything_that_they_name),
        cmocka_unit_test(numbers_are_accepted_once_and_in_a_window),
        cmocka_unit_test(numbers_follow_the_clock_and_never_go_back),
        cmocka_unit_test(blocks_have_as_many_numbers_as_a_key_may_protect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
