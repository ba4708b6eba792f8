/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "reorder.h"

enum { PACKET_MAX = 100, CELLS = 32 };

static uint8_t *reorder_make(struct lli_reorder *reorder, uint64_t bytes)
{
    struct lli_arena arena = {.memory = NULL};

    lli_reorder_init(reorder, bytes, PACKET_MAX, &arena);
    arena_fill(&arena);
    lli_reorder_init(reorder, bytes, PACKET_MAX, &arena);
    return arena.memory;
}

static void there_are_as_many_cells_as_memory_and_at_least_sixteen(void **state)
{
    struct lli_reorder reorder;
    uint8_t *memory = reorder_make(&reorder, CELLS * 128);

    (void)state;
    assert_int_equal(reorder.count, CELLS);
    free(memory);
    memory = reorder_make(&reorder, 1);
    assert_int_equal(reorder.count, 16);
    free(memory);
}

static void a_packet_larger_than_a_cell_is_not_taken(void **state)
{
    struct lli_reorder reorder;
    uint8_t *memory = reorder_make(&reorder, CELLS * 128);
    uint8_t large[129] = {0};
    uint32_t size;

    (void)state;
    assert_int_equal(lli_reorder_put(&reorder, large, sizeof large), LLI_REORDER_NONE);
    assert_int_equal(reorder.used, 0);
    assert_ptr_equal(lli_reorder_get(&reorder, lli_reorder_put(&reorder, large, 128), &size), memory);
    assert_int_equal(size, 128);
    free(memory);
}

static void random_puts_and_frees_keep_every_packet_as_it_was(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lli_reorder reorder;
        uint8_t *memory = reorder_make(&reorder, CELLS * 128);
        uint32_t sizes[CELLS] = {0};
        bool full[CELLS] = {false};
        uint64_t tags[CELLS] = {0};
        uint32_t used = 0;
        uint64_t random = seed;

        for (uint64_t step = 0; step < 5000; step++) {
            uint8_t data[PACKET_MAX];
            uint32_t size = below(&random, PACKET_MAX + 1);
            uint32_t cell = below(&random, CELLS);

            if (chance(&random, step % 1000 < 500 ? 70 : 30)) {
                pattern_fill(data, size, step);
                cell = lli_reorder_put(&reorder, data, size);
                assert_int_equal(cell == LLI_REORDER_NONE, used == CELLS);
                if (cell != LLI_REORDER_NONE) {
                    assert_true(cell < CELLS && !full[cell]);
                    full[cell] = true;
                    sizes[cell] = size;
                    tags[cell] = step;
                    used++;
                }
            } else if (full[cell]) {
                lli_reorder_free(&reorder, cell);
                full[cell] = false;
                used--;
            }
            assert_int_equal(reorder.used, used);
            for (uint32_t i = 0; i < CELLS; i++) {
                if (!full[i])
                    continue;
                pattern_check(lli_reorder_get(&reorder, i, &size), sizes[i], tags[i]);
                assert_int_equal(size, sizes[i]);
            }
        }
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_are_as_many_cells_as_memory_and_at_least_sixteen),
        cmocka_unit_test(a_packet_larger_than_a_cell_is_not_taken),
        cmocka_unit_test(random_puts_and_frees_keep_every_packet_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
