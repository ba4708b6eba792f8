/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/wire/ranges.h"

#define NEAR (((lli_seq)5 << 32) + 3) /* low halves wrap shortly before */

enum { RANGES = 8, SPAN = 64 };

static void overlapping_and_adjacent_ranges_are_merged(void **state)
{
    struct lli_wire_range ranges[] = {{10, 5}, {12, 8}, {20, 2}, {11, 1}};

    (void)state;
    assert_int_equal(lli_ranges_merge(ranges, 4, 15, 0, 1000), 1);
    assert_int_equal(ranges[0].first, 10);
    assert_int_equal(ranges[0].count, 12);
}

static void ranges_before_the_first_packet_are_omitted(void **state)
{
    struct lli_wire_range ranges[] = {{10, 5}, {30, 5}};

    (void)state;
    assert_int_equal(lli_ranges_merge(ranges, 2, 15, 13, 1000), 2);
    assert_int_equal(ranges[0].first, 13);
    assert_int_equal(ranges[0].count, 2);
    assert_int_equal(lli_ranges_merge(ranges, 2, 15, 40, 1000), 0);
}

static void merged_ranges_are_cut_at_the_allowed_number(void **state)
{
    struct lli_wire_range ranges[] = {{100, UINT32_MAX}, {10, 5}};

    (void)state;
    assert_int_equal(lli_ranges_merge(ranges, 2, 15, 0, 7), 2);
    assert_int_equal(ranges[0].first, 10);
    assert_int_equal(ranges[0].count, 5);
    assert_int_equal(ranges[1].first, 100);
    assert_int_equal(ranges[1].count, 2);
}

/* The first packets of the input ranges are requested, each once. */
static void random_ranges_agree_with_a_set(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct lli_wire_range ranges[RANGES];
        const lli_seq base = NEAR - SPAN / 2, low = base + below(&random, SPAN / 2);
        const uint64_t most = below(&random, SPAN);
        bool wanted[2 * SPAN] = {false}, left[2 * SPAN] = {false};
        uint64_t packets = 0;
        uint16_t count = (uint16_t)below(&random, RANGES + 1);

        for (uint16_t i = 0; i < count; i++) {
            ranges[i] =
                (struct lli_wire_range){(uint32_t)(base + below(&random, SPAN)), below(&random, SPAN / 4)};
            for (uint32_t k = 0; k < ranges[i].count; k++)
                wanted[(uint32_t)(ranges[i].first + k - (uint32_t)base)] = true;
        }
        count = lli_ranges_merge(ranges, count, NEAR, low, most);
        for (uint16_t i = 0; i < count; i++) {
            assert_true(i == 0 || ranges[i].first - ranges[i - 1].first > ranges[i - 1].count);
            assert_true(ranges[i].count > 0);
            for (uint32_t k = 0; k < ranges[i].count; k++)
                left[(uint32_t)(ranges[i].first + k - (uint32_t)base)] = true;
        }
        for (uint32_t k = 0; k < 2 * SPAN; k++) {
            const bool allowed = wanted[k] && base + k >= low && packets < most;

            assert_int_equal(left[k], allowed);
            packets += allowed;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_and_adjacent_ranges_are_merged),
        cmocka_unit_test(ranges_before_the_first_packet_are_omitted),
        cmocka_unit_test(merged_ranges_are_cut_at_the_allowed_number),
        cmocka_unit_test(random_ranges_agree_with_a_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
