/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/join/time_index.h"

#define MS ((lli_ns)1000000)

enum { PACKETS = 40000 };

static lli_ns sent_at[PACKETS];

static void index_make(struct lli_time_index *index, struct lli_arena *arena, lli_ns now)
{
    *arena = (struct lli_arena){.memory = NULL};
    lli_time_index_init(index, 0, arena, now);
    arena_fill(arena);
    lli_time_index_init(index, 0, arena, now);
}

static void a_time_before_the_first_entry_is_the_start(void **state)
{
    struct lli_time_index index;
    struct lli_arena arena;

    (void)state;
    index_make(&index, &arena, 100 * MS);
    assert_int_equal(lli_time_index_find(&index, 0), 0);
    assert_int_equal(lli_time_index_find(&index, 200 * MS), 0);
    lli_time_index_add(&index, 7, 0, 110 * MS);
    assert_int_equal(lli_time_index_find(&index, 110 * MS - 1), 0);
    assert_int_equal(lli_time_index_find(&index, 110 * MS), 7);
    /* Nothing was sent since. */
    lli_time_index_add(&index, 7, 0, 500 * MS);
    assert_int_equal(index.count, 2);
    free(arena.memory);
}

/* With an index thinned any number of times, later packets are included and few earlier ones are added. */
static void a_join_by_time_omits_nothing_and_adds_little(void **state)
{
    struct lli_time_index index;
    struct lli_arena arena;
    uint64_t random = 3;
    lli_ns now = 0;

    (void)state;
    index_make(&index, &arena, 0);
    for (lli_seq seq = 0; seq < PACKETS; seq++) {
        now += MS / 2 + below(&random, 2 * MS);
        sent_at[seq] = now;
        lli_time_index_add(&index, seq + 1, 0, now + 1);
    }
    assert_true(index.distance > MS);
    for (int i = 0; i < 10000; i++) {
        const lli_ns since = lli_random_below(&random, now);
        const lli_seq seq = lli_time_index_find(&index, since);

        assert_true(seq == 0 || sent_at[seq - 1] < since);
        assert_true(sent_at[seq] + 2 * index.distance + 4 * MS > since);
    }
    free(arena.memory);
}

static void entries_of_forgotten_packets_make_room(void **state)
{
    struct lli_time_index index;
    struct lli_arena arena;
    lli_ns now = 0;

    (void)state;
    index_make(&index, &arena, 0);
    for (lli_seq seq = 1; seq < PACKETS; seq++)
        lli_time_index_add(&index, seq, seq > 100 ? seq - 100 : 0, now += MS);
    assert_int_equal(index.distance, MS);
    assert_true(index.entries[0].seq <= PACKETS - 101);
    free(arena.memory);
}

/* With a full index and a trail at one of its entries, a time before that entry leads before the trail. */
static void a_time_before_the_trail_gives_a_packet_before_the_trail(void **state)
{
    struct lli_time_index index;
    struct lli_arena arena;
    lli_ns now = 0;

    (void)state;
    index_make(&index, &arena, 0);
    for (lli_seq seq = 1; seq <= LLI_TIME_INDEX_ENTRIES; seq++)
        lli_time_index_add(&index, seq, 2000, now += MS);
    assert_in_range(index.count, 1, LLI_TIME_INDEX_ENTRIES / 2);
    assert_true(lli_time_index_find(&index, 2000 * MS - 1) < 2000);
    assert_int_equal(lli_time_index_find(&index, 2000 * MS), 2000);
    free(arena.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_before_the_first_entry_is_the_start),
        cmocka_unit_test(a_join_by_time_omits_nothing_and_adds_little),
        cmocka_unit_test(entries_of_forgotten_packets_make_room),
        cmocka_unit_test(a_time_before_the_trail_gives_a_packet_before_the_trail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
