/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/limits/bottleneck.h"

#define MS UINT64_C(1000000)

/* Verdict on a receiver that received 10,000 packets in a second. */
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

static void a_receiver_that_keeps_up_has_no_limit(void **state)
{
    (void)state;
    assert_int_equal(receiver(0, 0, 0, 0), LLM_LIMIT_NONE);
    assert_int_equal(receiver(899, 800, 0, 0), LLM_LIMIT_NONE);
}

static void an_absent_application_is_the_limit_despite_losses(void **state)
{
    (void)state;
    assert_int_equal(receiver(900, 1, 0, 0), LLM_LIMIT_APPLICATION);
    assert_int_equal(receiver(1000, 1, 5000, 5000), LLM_LIMIT_APPLICATION);
    assert_int_equal(receiver(1000, 1, 5000, 0), LLM_LIMIT_APPLICATION);
}

static void drops_indicate_the_buffer_unless_the_application_was_absent(void **state)
{
    (void)state;
    assert_int_equal(receiver(100, 49, 1, 1), LLM_LIMIT_BUFFER);
    assert_int_equal(receiver(100, 50, 1, 1), LLM_LIMIT_APPLICATION);
    assert_int_equal(receiver(100, 5, 10, 5), LLM_LIMIT_BUFFER);
    assert_int_equal(receiver(100, 5, 10, 4), LLM_LIMIT_NETWORK);
}

static void drops_without_missing_packets_indicate_no_limit(void **state)
{
    (void)state;
    assert_int_equal(receiver(100, 60, 0, 1000), LLM_LIMIT_NONE);
}

/* A run of drops may be counted several times. */
static void excess_drops_still_indicate_the_buffer(void **state)
{
    (void)state;
    assert_int_equal(receiver(0, 0, 100, 6400), LLM_LIMIT_BUFFER);
}

static void losses_without_drops_indicate_the_network(void **state)
{
    (void)state;
    assert_int_equal(receiver(0, 0, 1, 0), LLM_LIMIT_NONE);
    assert_int_equal(receiver(0, 0, 2, 0), LLM_LIMIT_NETWORK);
    assert_int_equal(receiver(300, 100, 2000, 0), LLM_LIMIT_NETWORK);
}

/* Arguments: milliseconds of a second in which each limit blocked it. */
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

static void the_longest_cause_of_blocking_limits_a_transmitter(void **state)
{
    (void)state;
    assert_int_equal(transmitter(0, 0, 0, 0), LLM_LIMIT_NONE);
    assert_int_equal(transmitter(99, 99, 99, 99), LLM_LIMIT_NONE);
    assert_int_equal(transmitter(100, 0, 0, 0), LLM_LIMIT_WINDOW);
    assert_int_equal(transmitter(100, 200, 0, 0), LLM_LIMIT_RATE);
    assert_int_equal(transmitter(100, 200, 300, 0), LLM_LIMIT_HISTORY);
    assert_int_equal(transmitter(100, 200, 300, 301), LLM_LIMIT_TRANSPORT);
}

static void each_limit_of_a_transmitter_has_its_own_time(void **state)
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

/* Without measurements there is no division by zero, and no verdict. */
static void an_empty_measurement_has_no_verdict(void **state)
{
    const struct llm_bottleneck figures = {.limit = LLM_LIMIT_NONE};

    (void)state;
    assert_int_equal(lli_bottleneck_receiver(&figures), LLM_LIMIT_NONE);
    assert_int_equal(lli_bottleneck_transmitter(&figures), LLM_LIMIT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receiver_that_keeps_up_has_no_limit),
        cmocka_unit_test(an_absent_application_is_the_limit_despite_losses),
        cmocka_unit_test(drops_indicate_the_buffer_unless_the_application_was_absent),
        cmocka_unit_test(drops_without_missing_packets_indicate_no_limit),
        cmocka_unit_test(excess_drops_still_indicate_the_buffer),
        cmocka_unit_test(losses_without_drops_indicate_the_network),
        cmocka_unit_test(the_longest_cause_of_blocking_limits_a_transmitter),
        cmocka_unit_test(each_limit_of_a_transmitter_has_its_own_time),
        cmocka_unit_test(an_empty_measurement_has_no_verdict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
