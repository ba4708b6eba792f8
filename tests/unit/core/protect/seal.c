/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/protect/seal.h"

#define SESSION UINT64_C(0x1122334455667788)
#define MILLISECOND ((lli_ns)1000000)

static struct lli_seal_window window;
static uint8_t digests[64][LLI_SEAL_DIGEST];
static struct lli_seal_log seal_log;

static int up(void **state)
{
    (void)state;
    window = (struct lli_seal_window){.entries = calloc(LLI_SEAL_WINDOW, sizeof *window.entries)};
    lli_seal_log_init(&seal_log, digests, 64);
    return window.entries == NULL;
}

static int down(void **state)
{
    (void)state;
    free(window.entries);
    return 0;
}

static const uint8_t *digest_of(uint64_t value)
{
    static uint8_t digest[LLI_SEAL_DIGEST];

    pattern_fill(digest, sizeof digest, value);
    return digest;
}

static enum lli_seal_taken note(lli_seq seq, lli_ns now)
{
    return lli_seal_window_note(&window, seq, digest_of(seq), now);
}

static struct lli_seal_range range_of(lli_seq first, uint32_t count)
{
    return (struct lli_seal_range){.first = first, .count = count};
}

static void a_seal_and_a_request_are_the_same_after_both_ways(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= LLI_SEAL_RANGES_MAX; count++) {
        for (int asks = 0; asks < 2; asks++) {
            struct lli_seal seal = {.session = SESSION, .asks = asks, .count = count}, got;
            uint8_t packet[LLI_SEAL_MAX], text[LLI_SEAL_TEXT_MAX], *copy;
            uint32_t size;

            for (uint32_t i = 0; i < count; i++) {
                seal.ranges[i] = range_of(((lli_seq)7 << 32) + i * 600, 1 + i * 511 / LLI_SEAL_RANGES_MAX);
                memcpy(seal.ranges[i].digest, digest_of(i), LLI_SEAL_DIGEST);
            }
            size = lli_seal_put(packet, &seal);
            assert_int_equal(packet[0], 0x1f);
            assert_int_equal(lli_load_u16(packet + LLI_WIRE_SIZE_AT), size);
            assert_true(size <= LLI_SEAL_MAX && size <= LLI_WIRE_CONTROL_MAX);
            copy = exact_copy(packet, size);
            assert_true(lli_seal_get(copy, size, &got));
            free(copy);
            assert_int_equal(got.session, SESSION);
            assert_int_equal(got.asks, asks);
            assert_int_equal(got.count, count);
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(got.ranges[i].first, seal.ranges[i].first);
                assert_int_equal(got.ranges[i].count, seal.ranges[i].count);
                if (!asks)
                    assert_memory_equal(got.ranges[i].digest, seal.ranges[i].digest, LLI_SEAL_DIGEST);
            }
            assert_int_equal(lli_seal_text(packet, &seal, text), size - (asks ? 0 : LLI_SEAL_SIGNATURE));
            assert_memory_equal(text, "libllm seal 1\0\0", LLI_WIRE_HEADER);
            for (uint32_t cut = 0; cut < size; cut++) {
                copy = exact_copy(packet, cut);
                assert_false(lli_seal_get(copy, cut, &got));
                free(copy);
            }
        }
    }
}

static void ranges_out_of_bounds_are_refused(void **state)
{
    struct lli_seal seal = {.session = SESSION, .count = 1, .ranges = {{.first = 5, .count = 1}}}, got;
    uint8_t packet[LLI_SEAL_MAX];
    uint32_t size;

    (void)state;
    size = lli_seal_put(packet, &seal);
    lli_store_u16(packet + LLI_SEAL_HEAD + 8, 0);
    assert_false(lli_seal_get(packet, size, &got));
    lli_store_u16(packet + LLI_SEAL_HEAD + 8, LLI_SEAL_PACKETS_MAX + 1);
    assert_false(lli_seal_get(packet, size, &got));
    lli_store_u16(packet + LLI_SEAL_HEAD + 8, 2);
    assert_true(lli_seal_get(packet, size, &got));
    lli_store_u64(packet + LLI_SEAL_HEAD, UINT64_MAX - 1);
    assert_false(lli_seal_get(packet, size, &got));
    lli_store_u64(packet + LLI_SEAL_HEAD, 5);
    packet[LLI_WIRE_HEADER + 9] = 0;
    assert_false(lli_seal_get(packet, size, &got));
    packet[LLI_WIRE_HEADER + 9] = LLI_SEAL_RANGES_MAX + 1;
    assert_false(lli_seal_get(packet, size, &got));
}

static void a_seal_is_due_a_millisecond_after_its_first_packet_or_after_4096(void **state)
{
    static uint8_t many[8192][LLI_SEAL_DIGEST];
    struct lli_seal seal;

    (void)state;
    lli_seal_log_init(&seal_log, many, 8192);
    assert_int_equal(lli_seal_log_due(&seal_log), LLI_NEVER);
    for (lli_seq seq = 1000; seq < 1003; seq++)
        lli_seal_log_note(&seal_log, seq, digest_of(seq), 5 * MILLISECOND + seq);
    assert_int_equal(lli_seal_log_due(&seal_log), 6 * MILLISECOND + 1000);
    lli_seal_log_take(&seal_log, &seal, 7 * MILLISECOND);
    assert_int_equal(seal.count, 1);
    assert_int_equal(seal.ranges[0].first, 1000);
    assert_int_equal(seal.ranges[0].count, 3);
    assert_memory_equal(lli_seal_log_digest(&seal_log, 1001), digest_of(1001), LLI_SEAL_DIGEST);
    assert_int_equal(lli_seal_log_due(&seal_log), LLI_NEVER);
    for (lli_seq seq = 1003; seq < 1003 + LLI_SEAL_DUE; seq++)
        lli_seal_log_note(&seal_log, seq, digest_of(seq), 8 * MILLISECOND);
    assert_int_equal(lli_seal_log_due(&seal_log), 8 * MILLISECOND);
    lli_seal_log_take(&seal_log, &seal, 8 * MILLISECOND);
    assert_int_equal(seal.count, LLI_SEAL_DUE / LLI_SEAL_PACKETS_MAX);
    assert_int_equal(seal.ranges[1].first, 1003 + LLI_SEAL_PACKETS_MAX);
    assert_int_equal(lli_seal_log_due(&seal_log), LLI_NEVER);
}

static void a_request_is_answered_as_far_as_the_log_reaches(void **state)
{
    struct lli_seal seal = {.count = 4,
                            .ranges = {{.first = 80, .count = 50},
                                       {.first = 150, .count = 4},
                                       {.first = 190, .count = 20},
                                       {.first = 300, .count = 9}}};
    struct lli_seal taken;

    (void)state;
    for (lli_seq seq = 100; seq < 190; seq++)
        lli_seal_log_note(&seal_log, seq, digest_of(seq), 1);
    lli_seal_log_take(&seal_log, &taken, 1);
    for (lli_seq seq = 190; seq < 200; seq++)
        lli_seal_log_note(&seal_log, seq, digest_of(seq), 1);
    /* Of 64 packets, from 136 on; those from 190 on are not sealed yet. */
    lli_seal_log_answer(&seal_log, &seal);
    assert_int_equal(seal.count, 1);
    assert_int_equal(seal.ranges[0].first, 150);
    assert_int_equal(seal.ranges[0].count, 4);
    seal = (struct lli_seal){.count = 1, .ranges = {{.first = 130, .count = 100}}};
    lli_seal_log_answer(&seal_log, &seal);
    assert_int_equal(seal.ranges[0].first, 136);
    assert_int_equal(seal.ranges[0].count, 54);
}

static void a_range_is_decided_once_all_of_its_packets_came(void **state)
{
    const struct lli_seal_range range = range_of(100, 10);

    (void)state;
    for (lli_seq seq = 100; seq < 110; seq++) {
        assert_false(lli_seal_window_needs(&window, &range));
        assert_int_equal(note(seq, MILLISECOND), LLI_SEAL_NEW);
    }
    assert_int_equal(window.waiting, 10);
    assert_true(lli_seal_window_needs(&window, &range));
    assert_memory_equal(lli_seal_window_digest(&window, 107), digest_of(107), LLI_SEAL_DIGEST);
    assert_int_equal(lli_seal_window_set(&window, &range, LLI_SEAL_VERIFIED), 10);
    assert_false(lli_seal_window_needs(&window, &range));
    assert_int_equal(window.waiting, 0);
    assert_int_equal(note(105, MILLISECOND), LLI_SEAL_SAME);
    assert_int_equal(lli_seal_window_note(&window, 105, digest_of(1), MILLISECOND), LLI_SEAL_DIFFERS);
    assert_int_equal(window.waiting, 0);
}

static void what_waits_is_asked_for_and_then_given_up(void **state)
{
    struct lli_seal seal;

    (void)state;
    for (lli_seq seq = 100; seq < 1000; seq++)
        if (seq != 200 && seq != 300)
            (void)note(seq, 10 * MILLISECOND);
    assert_int_equal(
        lli_seal_window_set(&window, &(struct lli_seal_range){.first = 150, .count = 10}, LLI_SEAL_VERIFIED),
        10);
    assert_false(lli_seal_window_ask(&window, 14 * MILLISECOND, &seal));
    assert_true(lli_seal_window_ask(&window, 15 * MILLISECOND, &seal));
    assert_true(seal.asks);
    assert_int_equal(seal.count, 5);
    assert_int_equal(seal.ranges[0].first, 100);
    assert_int_equal(seal.ranges[0].count, 50);
    assert_int_equal(seal.ranges[1].first, 160);
    assert_int_equal(seal.ranges[1].count, 40);
    assert_int_equal(seal.ranges[3].first, 301);
    assert_int_equal(seal.ranges[3].count, LLI_SEAL_PACKETS_MAX);
    assert_int_equal(seal.ranges[4].count, 1000 - 301 - LLI_SEAL_PACKETS_MAX);
    /* The session is silent: its transmitter may be stopped. */
    assert_int_equal(lli_seal_window_give_up(&window, 5000 * MILLISECOND), 0);
    window.heard = 1010 * MILLISECOND;
    assert_int_equal(lli_seal_window_give_up(&window, 5000 * MILLISECOND), 888);
    assert_int_equal(window.waiting, 0);
    assert_false(lli_seal_window_ask(&window, 5000 * MILLISECOND, &seal));
    (void)note(2000, 6000 * MILLISECOND);
    assert_int_equal(lli_seal_window_give_up(&window, 15999 * MILLISECOND), 0);
    assert_int_equal(lli_seal_window_give_up(&window, 16000 * MILLISECOND), 1);
}

static void a_number_far_ahead_does_not_hide_what_waits(void **state)
{
    const lli_seq far = (lli_seq)1 << 40;
    struct lli_seal seal;

    (void)state;
    (void)note(100, MILLISECOND);
    (void)note(far + 3, MILLISECOND);
    (void)note(102, MILLISECOND);
    assert_true(lli_seal_window_ask(&window, 10 * MILLISECOND, &seal));
    assert_int_equal(seal.count, 3);
    assert_int_equal(
        lli_seal_window_set(&window, &(struct lli_seal_range){.first = 100, .count = 1}, LLI_SEAL_VERIFIED),
        1);
    assert_int_equal(window.low, 102);
    assert_int_equal(
        lli_seal_window_set(&window, &(struct lli_seal_range){.first = 102, .count = 1}, LLI_SEAL_VERIFIED),
        1);
    window.heard = 2000 * MILLISECOND;
    assert_int_equal(lli_seal_window_give_up(&window, 2000 * MILLISECOND), 1);
    assert_int_equal(window.waiting, 0);
    (void)note(104, 2001 * MILLISECOND);
    assert_int_equal(window.low, 104);
    assert_int_equal(window.high, 105);
    /* Newer packets displace one whose seal did not come. */
    (void)note(104 + LLI_SEAL_WINDOW, 2001 * MILLISECOND);
    assert_int_equal(window.waiting, 1);
    assert_int_equal(lli_seal_window_give_up(&window, 2001 * MILLISECOND), 1);
}

/* Random packets and seals, compared with a table of states. */
static void a_window_is_that_of_a_simple_model(void **state)
{
    enum { PACKETS = 2000 };
    static enum lli_seal_state model[PACKETS];
    uint64_t random = 3;

    (void)state;
    memset(model, 0, sizeof model);
    for (int step = 0; step < 20000; step++) {
        const lli_seq first = below(&random, PACKETS);
        const uint32_t count = 1 + below(&random, (uint32_t)lli_min(PACKETS - first, 8));
        const struct lli_seal_range range = range_of(first, count);
        uint32_t waiting = 0, all = 0;
        bool complete = true;

        if (chance(&random, 60)) {
            assert_int_equal(note(first, MILLISECOND),
                             model[first] == LLI_SEAL_NONE ? LLI_SEAL_NEW : LLI_SEAL_SAME);
            model[first] = model[first] == LLI_SEAL_NONE ? LLI_SEAL_WAITING : model[first];
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            complete &= model[first + i] != LLI_SEAL_NONE;
            waiting += model[first + i] == LLI_SEAL_WAITING;
        }
        assert_int_equal(lli_seal_window_needs(&window, &range), complete && waiting > 0);
        if (complete) {
            assert_int_equal(lli_seal_window_set(&window, &range, LLI_SEAL_VERIFIED), waiting);
            for (uint32_t i = 0; i < count; i++)
                model[first + i] =
                    model[first + i] == LLI_SEAL_WAITING ? LLI_SEAL_VERIFIED : model[first + i];
        }
        for (uint32_t i = 0; i < PACKETS; i++) {
            all += model[i] == LLI_SEAL_WAITING;
            assert_true(model[i] != LLI_SEAL_WAITING || (i >= window.low && i < window.high));
        }
        assert_int_equal(window.waiting, all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seal_and_a_request_are_the_same_after_both_ways),
        cmocka_unit_test(ranges_out_of_bounds_are_refused),
        cmocka_unit_test_setup_teardown(a_seal_is_due_a_millisecond_after_its_first_packet_or_after_4096, up,
                                        down),
        cmocka_unit_test_setup_teardown(a_request_is_answered_as_far_as_the_log_reaches, up, down),
        cmocka_unit_test_setup_teardown(a_range_is_decided_once_all_of_its_packets_came, up, down),
        cmocka_unit_test_setup_teardown(what_waits_is_asked_for_and_then_given_up, up, down),
        cmocka_unit_test_setup_teardown(a_number_far_ahead_does_not_hide_what_waits, up, down),
        cmocka_unit_test_setup_teardown(a_window_is_that_of_a_simple_model, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
