/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <sched.h>
#include <time.h>

/* The clock of the test. */
#define lli_clock_ns test_clock_ns
#include "system/yield.h"

static uint64_t now;
static unsigned yields, sleeps;

uint64_t test_clock_ns(void)
{
    return now;
}

int sched_yield(void)
{
    yields++;
    return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    assert_int_equal(time->tv_sec, 0);
    assert_int_equal(time->tv_nsec, 1);
    sleeps++;
    return 0;
}

static void begin(void)
{
    now = 1000000000;
    yields = sleeps = 0;
}

/* Polls each microsecond. */
static void poll_for(struct lli_yield *wait, uint64_t ns)
{
    for (const uint64_t until = now + ns; now < until; now += 1000)
        lli_yield(wait);
}

static void yields_have_a_distance(void **state)
{
    struct lli_yield wait = {.next = 0};

    (void)state;
    begin();
    poll_for(&wait, 10 * LLI_YIELD_NS);
    assert_int_equal(yields, 10);
    assert_int_equal(sleeps, 0);
}

/* However long the scheduler passes over the task that is awaited in spite of yields. */
static void a_long_wait_sleeps_once_a_millisecond(void **state)
{
    struct lli_yield wait = {.next = 0};

    (void)state;
    begin();
    poll_for(&wait, LLI_YIELD_SLEEP_NS);
    assert_int_equal(sleeps, 0);
    poll_for(&wait, LLI_YIELD_NS);
    assert_int_equal(sleeps, 1);
    yields = 0;
    poll_for(&wait, 3 * (uint64_t)LLI_YIELD_SLEEP_NS);
    assert_int_equal(sleeps, 4);
    assert_int_equal(yields, 3 * LLI_YIELD_SLEEP_NS / LLI_YIELD_NS - 3);
}

/* Writes that end one after another, each soon, are no long wait. */
static void waits_that_end_do_not_sleep(void **state)
{
    struct lli_yield wait = {.next = 0};

    (void)state;
    begin();
    for (int i = 0; i < 100; i++) {
        poll_for(&wait, LLI_YIELD_SLEEP_NS / 2);
        lli_yield_end(&wait);
    }
    assert_int_equal(sleeps, 0);
    assert_int_equal(yields, 50 * LLI_YIELD_SLEEP_NS / LLI_YIELD_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yields_have_a_distance),
        cmocka_unit_test(a_long_wait_sleeps_once_a_millisecond),
        cmocka_unit_test(waits_that_end_do_not_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
