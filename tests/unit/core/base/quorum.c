/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/base/quorum.h"

enum { LIMIT = 10000 };

static struct lli_quorum quorum;
static void *memory;

static int up(void **state)
{
    struct lli_arena arena = {.memory = NULL};

    (void)state;
    lli_quorum_init(&quorum, LIMIT, &arena);
    arena_fill(&arena);
    memory = arena.memory;
    lli_quorum_init(&quorum, LIMIT, &arena);
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

static int is_less(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The same result by sorting all values. */
static uint64_t reached_by(const uint64_t *values, uint32_t count, uint32_t wanted)
{
    uint64_t sorted[64];

    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, is_less);
    return sorted[count - wanted];
}

static void the_quorum_equals_that_of_sorted_values(void **state)
{
    enum { PLACES = 64 };

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t values[PLACES] = {0}, random = seed;

        lli_quorum_clear(&quorum);
        for (int i = 0; i < 1000; i++) {
            const uint32_t place = below(&random, PLACES);
            uint64_t present[PLACES];
            uint32_t count = 0, wanted;

            /* Few different values, so that many are equal. */
            values[place] = chance(&random, 25) ? 0 : 1 + below(&random, 20);
            lli_quorum_set(&quorum, place, values[place]);
            for (int j = 0; j < PLACES; j++)
                if (values[j] != 0)
                    present[count++] = values[j];
            assert_int_equal(lli_quorum_count(&quorum), count);
            wanted = count == 0 ? 0 : 1 + below(&random, count);
            lli_quorum_rank(&quorum, wanted);
            if (count > 0)
                assert_int_equal(lli_quorum_value(&quorum), reached_by(present, count, wanted));
        }
    }
}

/* Each value grows in turn by the same amount. Returns comparisons per change. */
static uint64_t cost_of(uint32_t count)
{
    uint64_t random = 3, before;

    lli_quorum_clear(&quorum);
    for (uint32_t place = 0; place < count; place++) {
        lli_quorum_set(&quorum, place, 1 + below(&random, 1000));
        lli_quorum_rank(&quorum, (place + 2) / 2);
    }
    before = quorum.steps;
    for (uint64_t i = 0; i < 100000; i++) {
        const uint32_t place = below(&random, count);

        lli_quorum_set(&quorum, place, quorum.values[place] + 1000);
        lli_quorum_rank(&quorum, (count + 1) / 2);
    }
    return (quorum.steps - before) / 100000;
}

static void the_cost_of_a_change_is_logarithmic(void **state)
{
    (void)state;
    assert_true(cost_of(100) < 40);
    assert_true(cost_of(1000) < 60);
    assert_true(cost_of(10000) < 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_quorum_equals_that_of_sorted_values, up, down),
        cmocka_unit_test_setup_teardown(the_cost_of_a_change_is_logarithmic, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
