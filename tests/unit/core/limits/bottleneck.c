/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/limits/bottleneck.h"

#define MS UINT64_C(1000000)

/* A receiver that got 10,000 packets in a second. */
static enum llm_limit receiver(uint64_t away_ms, uint64_t away_ms_max, uint64_t missed, uint64_t dropped)
{
    const struct llm_bottleneck figures = {.time_ns = 1000 * MS,
                                           .packets = 10000,
                                           .away_ns = away_ms * MS,
                                           .away_ns_max = away_ms_max * MS,
                                           .packets_missed = missed,
                                           .packets_dropped = dropped};

    return lli_bottleneck_receiver(&figures);
}

static void a_receiver_that_keeps_up_is_limited_by_nothing(void **state)
{
    (void)state;
    assert_int_equal(receiver(0, 0, 0, 0), LLM_LIMIT_NONE);
    assert_int_equal(receiver(899, 800, 0, 0), LLM_LIMIT_NONE);
}

static void who_is_away_nearly_all_the_time_is_slow_whatever_is_lost(void **state)
{
    (void)state;
    assert_int_equal(receiver(900, 1, 0, 0), LLM_LIMIT_APPLICATION);
    assert_int_equal(receiver(1000, 1, 5000, 5000), LLM_LIMIT_APPLICATION);
    assert_int_equal(receiver(1000, 1, 5000, 0), LLM_LIMIT_APPLICATION);
}

static void drops_are_the_buffers_unless_the_application_was_away_for_long(void **state)
{
    (void)state;
    assert_int_equal(receiver(100, 49, 1, 1), LLM_LIMIT_BUFFER);
    assert_int_equal(receiver(100, 50, 1, 1), LLM_LIMIT_APPLICATION);
    assert_int_equal(receiver(100, 5, 10, 5), LLM_LIMIT_BUFFER);
    assert_int_equal(receiver(100, 5, 10, 4), LLM_LIMIT_NETWORK);
}

static void drops_of_which_nothing_was_missed_are_nobodys(void **state)
{
    (void)state;
    assert_int_equal(receiver(100, 60, 0, 1000), LLM_LIMIT_NONE);
}

/* Runs of packets count as many. */
static void more_drops_than_were_missed_explain_no_more_than_that(void **state)
{
    (void)state;
    assert_int_equal(receiver(0, 0, 100, 6400), LLM_LIMIT_BUFFER);
}

static void what_the_host_did_not_drop_the_network_lost(void **state)
{
    (void)state;
    assert_int_equal(receiver(0, 0, 1, 0), LLM_LIMIT_NONE);
    assert_int_equal(receiver(0, 0, 2, 0), LLM_LIMIT_NETWORK);
    assert_int_equal(receiver(300, 100, 2000, 0), LLM_LIMIT_NETWORK);
}

/* Milliseconds of a second in which each held it. */
static enum llm_limit transmitter(uint64_t window, uint64_t rate, uint64_t history, uint64_t transport)
{
    const struct llm_bottleneck figures = {.time_ns = 1000 * MS,
                                           .packets = 10000,
                                           .window_ns = window * MS,
                                           .rate_ns = rate * MS,
                                           .history_ns = history * MS,
                                           .transport_ns = transport * MS};

    return lli_bottleneck_transmitter(&figures);
}

static void what_holds_a_transmitter_longest_limits_it(void **state)
{
    (void)state;
    assert_int_equal(transmitter(0, 0, 0, 0), LLM_LIMIT_NONE);
    assert_int_equal(transmitter(99, 99, 99, 99), LLM_LIMIT_NONE);
    assert_int_equal(transmitter(100, 0, 0, 0), LLM_LIMIT_WINDOW);
    assert_int_equal(transmitter(100, 200, 0, 0), LLM_LIMIT_RATE);
    assert_int_equal(transmitter(100, 200, 300, 0), LLM_LIMIT_HISTORY);
    assert_int_equal(transmitter(100, 200, 300, 301), LLM_LIMIT_TRANSPORT);
}

static void each_limit_of_a_transmitter_has_a_time_of_its_own(void **state)
{
    struct llm_bottleneck figures = {.limit = LLM_LIMIT_NONE};

    (void)state;
    assert_ptr_equal(lli_bottleneck_blocked(&figures, LLM_LIMIT_WINDOW), &figures.window_ns);
    assert_ptr_equal(lli_bottleneck_blocked(&figures, LLM_LIMIT_RATE), &figures.rate_ns);
    assert_ptr_equal(lli_bottleneck_blocked(&figures, LLM_LIMIT_HISTORY), &figures.history_ns);
    assert_ptr_equal(lli_bottleneck_blocked(&figures, LLM_LIMIT_TRANSPORT), &figures.transport_ns);
    assert_null(lli_bottleneck_blocked(&figures, LLM_LIMIT_NONE));
    assert_null(lli_bottleneck_blocked(&figures, LLM_LIMIT_NETWORK));
}

/* Nothing was measured: no division, and no verdict. */
static void no_time_is_no_verdict(void **state)
{
    const struct llm_bottleneck figures = {.limit = LLM_LIMIT_NONE};

    (void)state;
    assert_int_equal(lli_bottleneck_receiver(&figures), LLM_LIMIT_NONE);
    assert_int_equal(lli_bottleneck_transmitter(&figures), LLM_LIMIT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receiver_that_keeps_up_is_limited_by_nothing),
        cmocka_unit_test(who_is_away_nearly_all_the_time_is_slow_whatever_is_lost),
        cmocka_unit_test(drops_are_the_buffers_unless_the_application_was_away_for_long),
        cmocka_unit_test(drops_of_which_nothing_was_missed_are_nobodys),
        cmocka_unit_test(more_drops_than_were_missed_explain_no_more_than_that),
        cmocka_unit_test(what_the_host_did_not_drop_the_network_lost),
        cmocka_unit_test(what_holds_a_transmitter_longest_limits_it),
        cmocka_unit_test(each_limit_of_a_transmitter_has_a_time_of_its_own),
        cmocka_unit_test(no_time_is_no_verdict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
