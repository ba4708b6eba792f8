/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

/* Finds the number with these low bits among three laps, by the distance to each. */
static uint64_t extend_slowly(uint64_t near, uint32_t low)
{
    const uint64_t lap = (uint64_t)1 << 32;
    const uint64_t middle = (near & ~(lap - 1)) | low;
    uint64_t best = middle;

    for (int side = -1; side <= 1; side += 2) {
        uint64_t other = side < 0 ? middle - lap : middle + lap;

        if (side < 0 && middle < lap)
            continue;
        if ((other > near ? other - near : near - other) < (best > near ? best - near : near - best))
            best = other;
    }
    return best;
}

static void a_low_half_extends_to_the_nearest_number(void **state)
{
    const uint64_t laps[] = {(uint64_t)1 << 32, (uint64_t)2 << 32, (uint64_t)3 << 32, (uint64_t)1 << 62};

    (void)state;
    for (size_t lap = 0; lap < sizeof laps / sizeof laps[0]; lap++) {
        for (int64_t near = -300; near <= 300; near++) {
            for (int64_t low = -300; low <= 300; low++) {
                uint64_t from = laps[lap] + (uint64_t)near;

                assert_int_equal(lli_seq_extend(from, (uint32_t)(laps[lap] + (uint64_t)low)),
                                 laps[lap] + (uint64_t)low);
                assert_int_equal(lli_seq_extend(from, (uint32_t)low), extend_slowly(from, (uint32_t)low));
            }
        }
    }
}

static void half_a_lap_ahead_is_the_last_number_reached_backwards(void **state)
{
    const uint64_t near = ((uint64_t)5 << 32) + 17;
    const uint64_t half = (uint64_t)1 << 31;

    (void)state;
    for (uint64_t off = 1; off <= 300; off++) {
        assert_int_equal(lli_seq_extend(near, (uint32_t)(near + half - off)), near + half - off);
        assert_int_equal(lli_seq_extend(near, (uint32_t)(near - half + off)), near - half + off);
    }
    assert_int_equal(lli_seq_extend(near, (uint32_t)(near + half)), near - half);
}

static void random_numbers_extend_from_anywhere_within_half_a_lap(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint64_t near = (lli_random(&random) >> 2) | (uint64_t)1 << 40;
        uint64_t number = near + (uint64_t)(int64_t)(int32_t)lli_random(&random);

        assert_int_equal(lli_seq_extend(near, (uint32_t)number), number);
    }
}

static void rounding_goes_up_to_a_multiple(void **state)
{
    (void)state;
    assert_int_equal(lli_round_up(0, 64), 0);
    assert_int_equal(lli_round_up(1, 64), 64);
    assert_int_equal(lli_round_up(64, 64), 64);
    assert_int_equal(lli_round_up(65, 64), 128);
    assert_int_equal(lli_round_up(7, 1), 7);
}

static void powers_of_two_are_recognised(void **state)
{
    (void)state;
    assert_false(lli_is_power_of_two(0));
    assert_true(lli_is_power_of_two(1));
    assert_false(lli_is_power_of_two(6));
    assert_true(lli_is_power_of_two((uint64_t)1 << 63));
}

static void random_numbers_stay_below_their_range_and_are_reproducible(void **state)
{
    uint64_t one = 7, same = 7;

    (void)state;
    assert_int_equal(lli_random_below(&one, 0), 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t drawn = lli_random_below(&one, 10);

        assert_true(drawn < 10);
        assert_int_equal(drawn, lli_random_below(&same, 10));
    }
}

static void an_arena_measures_before_it_places(void **state)
{
    struct lli_arena arena = {.memory = NULL};
    uint8_t memory[256];

    (void)state;
    assert_null(lli_arena_take(&arena, 10, 8));
    assert_null(lli_arena_take(&arena, 10, 64));
    assert_int_equal(arena.used, 74);
    arena = (struct lli_arena){.memory = memory};
    assert_ptr_equal(lli_arena_take(&arena, 10, 8), memory);
    assert_ptr_equal(lli_arena_take(&arena, 10, 64), memory + 64);
    assert_int_equal(arena.used, 74);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_low_half_extends_to_the_nearest_number),
        cmocka_unit_test(half_a_lap_ahead_is_the_last_number_reached_backwards),
        cmocka_unit_test(random_numbers_extend_from_anywhere_within_half_a_lap),
        cmocka_unit_test(rounding_goes_up_to_a_multiple),
        cmocka_unit_test(powers_of_two_are_recognised),
        cmocka_unit_test(random_numbers_stay_below_their_range_and_are_reproducible),
        cmocka_unit_test(an_arena_measures_before_it_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
