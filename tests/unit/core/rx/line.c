/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/rx/line.h"

#define US ((lli_ns)1000)
#define MS ((lli_ns)1000000)
#define FIRST (BEFORE_WRAP_32)

static struct lli_line line_from(lli_seq first)
{
    struct lli_line line;

    lli_line_start(&line, 1);
    assert_int_equal(lli_line_packet(&line, first), 0);
    return line;
}

static void packets_in_order_are_not_lost(void **state)
{
    struct lli_line line = line_from(FIRST);

    (void)state;
    for (lli_seq seq = FIRST + 1; seq < FIRST + 1000; seq++)
        assert_int_equal(lli_line_packet(&line, seq), 0);
    assert_int_equal(line.passed, FIRST + 1000);
}

static void what_came_before_the_first_packet_is_not_lost(void **state)
{
    struct lli_line line;

    (void)state;
    lli_line_start(&line, 1);
    assert_false(line.heard);
    assert_int_equal(lli_line_pass(&line, FIRST), 0);
    assert_true(line.heard);
    assert_int_equal(lli_line_pass(&line, FIRST + LLI_LINE_MEMORY), 0);
    assert_int_equal(lli_line_pass(&line, FIRST + 2 * LLI_LINE_MEMORY), LLI_LINE_MEMORY);
}

static void a_packet_is_lost_when_it_leaves_the_memory(void **state)
{
    struct lli_line line = line_from(FIRST);
    uint64_t lost = 0;

    (void)state;
    for (lli_seq seq = FIRST + 2; seq <= FIRST + LLI_LINE_MEMORY; seq++)
        lost += lli_line_packet(&line, seq);
    assert_int_equal(lost, 0);
    assert_int_equal(lli_line_packet(&line, FIRST + LLI_LINE_MEMORY + 1), 1);
    assert_int_equal(lli_line_packet(&line, FIRST + LLI_LINE_MEMORY + 2), 0);
}

static void a_late_packet_within_the_memory_is_not_lost(void **state)
{
    struct lli_line line = line_from(FIRST);

    (void)state;
    assert_int_equal(lli_line_packet(&line, FIRST + 5), 0);
    for (lli_seq seq = FIRST + 1; seq < FIRST + 5; seq++)
        assert_int_equal(lli_line_packet(&line, seq), 0);
    assert_int_equal(line.passed, FIRST + 6);
    assert_int_equal(lli_line_pass(&line, FIRST + 200), 200 - 6 - LLI_LINE_MEMORY);
}

static void an_interruption_counts_once(void **state)
{
    struct lli_line line = line_from(FIRST);

    (void)state;
    assert_int_equal(lli_line_packet(&line, FIRST + 10000), 10000 - LLI_LINE_MEMORY);
    assert_int_equal(lli_line_pass(&line, FIRST + 20000), 10000 - 2);
}

/* The model records each packet; a packet is lost if it did not come before it was LLI_LINE_MEMORY back. */
static void losses_are_those_of_a_model(void **state)
{
    enum { COUNT = 4096 };

    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct lli_line line = line_from(FIRST);
        bool came[COUNT] = {true};
        uint64_t random = seed, lost = 0, expected = 0;
        lli_seq end = 1;

        while (end < COUNT - 100) {
            const lli_seq back = lli_random_below(&random, 8) == 0 ? lli_random_below(&random, 100) : 0;
            const lli_seq on = end + lli_random_below(&random, lli_random_below(&random, 20) == 0 ? 100 : 3);
            const lli_seq at = on > back ? on - back : 0;

            lost += lli_line_packet(&line, FIRST + at);
            came[at] |= at + LLI_LINE_MEMORY >= lli_max(end, at + 1);
            end = lli_max(end, at + 1);
        }
        lost += lli_line_pass(&line, FIRST + end + LLI_LINE_MEMORY);
        for (lli_seq at = 0; at < end; at++)
            expected += !came[at];
        assert_int_equal(lost, expected);
    }
}

static void a_line_is_waited_for_by_its_measured_lateness(void **state)
{
    struct lli_line line = line_from(FIRST);

    (void)state;
    assert_int_equal(lli_line_wait(&line, 10 * MS), 1005 * US);
    for (int i = 0; i < 200; i++)
        lli_line_measured(&line, 300 * US);
    assert_in_range(lli_line_wait(&line, 10 * MS), 300 * US, 306 * US);
    assert_int_equal(lli_line_wait(&line, 100 * US), 100 * US);
    for (int i = 0; i < 200; i++)
        lli_line_measured(&line, 0);
    assert_int_equal(lli_line_wait(&line, 10 * MS), 20 * US);
}

static void a_line_that_varies_is_waited_for_longer(void **state)
{
    struct lli_line line = line_from(FIRST);

    (void)state;
    for (int i = 0; i < 1000; i++)
        lli_line_measured(&line, i % 2 == 0 ? 0 : 400 * US);
    assert_in_range(lli_line_wait(&line, 10 * MS), 800 * US, 1200 * US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_in_order_are_not_lost),
        cmocka_unit_test(what_came_before_the_first_packet_is_not_lost),
        cmocka_unit_test(a_packet_is_lost_when_it_leaves_the_memory),
        cmocka_unit_test(a_late_packet_within_the_memory_is_not_lost),
        cmocka_unit_test(an_interruption_counts_once),
        cmocka_unit_test(losses_are_those_of_a_model),
        cmocka_unit_test(a_line_is_waited_for_by_its_measured_lateness),
        cmocka_unit_test(a_line_that_varies_is_waited_for_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
