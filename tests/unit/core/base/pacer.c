/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/base/pacer.h"

#define SECOND ((lli_ns)1000000000)

static void a_new_bucket_is_full(void **state)
{
    struct lli_pacer pacer;

    (void)state;
    lli_pacer_init(&pacer, 65536, 1000, 5);
    assert_int_equal(pacer.tokens, 1000);
    assert_int_equal(lli_pacer_ready_at(&pacer), 5);
    assert_true(lli_pacer_take(&pacer, 999));
    assert_int_equal(pacer.tokens, 1);
}

static void a_packet_larger_than_the_remaining_tokens_empties_the_bucket(void **state)
{
    struct lli_pacer pacer;

    (void)state;
    lli_pacer_init(&pacer, 65536, 1000, 0);
    assert_true(lli_pacer_take(&pacer, 1000000));
    assert_int_equal(pacer.tokens, 0);
    assert_false(lli_pacer_take(&pacer, 1));
}

static void added_tokens_are_cut_at_the_burst(void **state)
{
    struct lli_pacer pacer;

    (void)state;
    lli_pacer_init(&pacer, 65536, 1000, 0);
    (void)lli_pacer_take(&pacer, 1000);
    lli_pacer_give(&pacer, 400);
    assert_int_equal(pacer.tokens, 400);
    lli_pacer_give(&pacer, 4000);
    assert_int_equal(pacer.tokens, 1000);
}

static void time_fills_the_bucket_at_its_rate(void **state)
{
    const uint64_t rates[] = {65536, 100000, 1000000, 33554432, (uint64_t)64 << 30};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct lli_pacer pacer;
        uint64_t expected = rates[i] / 10;

        lli_pacer_init(&pacer, rates[i], rates[i], 77);
        (void)lli_pacer_take(&pacer, rates[i]);
        lli_pacer_fill(&pacer, 77 + SECOND / 10);
        /* The rate is stored in units of 1,024 bytes. */
        assert_true(pacer.tokens <= expected + expected / 100);
        assert_true(pacer.tokens >= expected - expected / 50);
    }
}

static void a_long_pause_fills_the_bucket(void **state)
{
    struct lli_pacer pacer;

    (void)state;
    lli_pacer_init(&pacer, 65536, 10000, 0);
    (void)lli_pacer_take(&pacer, 10000);
    lli_pacer_fill(&pacer, UINT64_MAX / 2);
    assert_int_equal(pacer.tokens, 10000);
    assert_int_equal(pacer.filled_at, UINT64_MAX / 2);
}

static void a_clock_that_goes_back_adds_no_tokens(void **state)
{
    struct lli_pacer pacer;

    (void)state;
    lli_pacer_init(&pacer, 1000000, 10000, SECOND);
    (void)lli_pacer_take(&pacer, 10000);
    lli_pacer_fill(&pacer, SECOND / 2);
    assert_int_equal(pacer.tokens, 0);
    assert_int_equal(pacer.filled_at, SECOND);
}

static void time_too_short_for_a_byte_is_not_forgotten(void **state)
{
    struct lli_pacer pacer;
    lli_ns now = 0;

    (void)state;
    lli_pacer_init(&pacer, 65536, 10000, 0);
    (void)lli_pacer_take(&pacer, 10000);
    while (pacer.tokens == 0 && now < SECOND) {
        now += 100;
        lli_pacer_fill(&pacer, now);
    }
    assert_true(now < 17000);
}

static void an_empty_bucket_reports_when_it_has_tokens_again(void **state)
{
    uint64_t random = 3;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct lli_pacer pacer;
        lli_ns now = lli_random_below(&random, 1000 * SECOND);

        lli_pacer_init(&pacer, 65536 + lli_random_below(&random, i < 500 ? 1000000 : (uint64_t)64 << 30),
                       1 << 20, now);
        (void)lli_pacer_take(&pacer, 1 << 20);
        assert_true(lli_pacer_ready_at(&pacer) > now);
        assert_true(lli_pacer_ready_at(&pacer) < now + 20000);
        lli_pacer_fill(&pacer, lli_pacer_ready_at(&pacer));
        assert_true(lli_pacer_take(&pacer, 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_bucket_is_full),
        cmocka_unit_test(a_packet_larger_than_the_remaining_tokens_empties_the_bucket),
        cmocka_unit_test(added_tokens_are_cut_at_the_burst),
        cmocka_unit_test(time_fills_the_bucket_at_its_rate),
        cmocka_unit_test(a_long_pause_fills_the_bucket),
        cmocka_unit_test(a_clock_that_goes_back_adds_no_tokens),
        cmocka_unit_test(time_too_short_for_a_byte_is_not_forgotten),
        cmocka_unit_test(an_empty_bucket_reports_when_it_has_tokens_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
