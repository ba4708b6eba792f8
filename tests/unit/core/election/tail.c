/* SPDX-License-Identifier: Apache-2.0 */
#include "core/election/tail.h"

#include "unit.h"

enum { BYTES = 1000, COUNT = 20 };

static struct lli_tail tail;
static struct lli_arena arena;

static int up(void **state)
{
    (void)state;
    arena = (struct lli_arena){.memory = NULL};
    lli_tail_init(&tail, BYTES, COUNT, &arena);
    arena_fill(&arena);
    lli_tail_init(&tail, BYTES, COUNT, &arena);
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(arena.memory);
    return 0;
}

static void messages_that_are_dropped_make_room_for_others(void **state)
{
    uint8_t bytes[BYTES];

    (void)state;
    lli_tail_reset(&tail, 5);
    for (uint64_t number = 5; number < 15; number++) {
        pattern_fill(bytes, 90, number);
        lli_tail_add(&tail, 0, bytes, 90);
    }
    lli_tail_truncate(&tail, 15);
    assert_int_equal(tail.next, 15);
    lli_tail_truncate(&tail, 12);
    assert_int_equal(tail.next, 12);
    assert_null(lli_tail_find(&tail, 12));
    pattern_fill(bytes, 300, 12);
    lli_tail_add(&tail, 0, bytes, 300);
    assert_int_equal(tail.first, 5);
    for (uint64_t number = 5; number < 12; number++) {
        lli_tail_copy(&tail, lli_tail_find(&tail, number), 0, bytes, 90);
        pattern_check(bytes, 90, number);
    }
    lli_tail_copy(&tail, lli_tail_find(&tail, 12), 0, bytes, 300);
    pattern_check(bytes, 300, 12);
    lli_tail_truncate(&tail, 4);
    assert_int_equal(tail.first, 4);
    assert_int_equal(tail.next, 4);
}

static void the_last_messages_are_there_as_they_were_added(void **state)
{
    uint64_t random = 7, number = 5;
    uint32_t sizes[4096] = {0};
    uint8_t bytes[BYTES];

    (void)state;
    lli_tail_reset(&tail, number);
    for (; number < 3000; number++) {
        const uint32_t size = below(&random, 10) == 0 ? below(&random, BYTES + 1) : below(&random, 100);
        uint64_t total = 0, oldest = number + 1;

        sizes[number] = size;
        pattern_fill(bytes, size, number);
        lli_tail_add(&tail, (uint32_t)number, bytes, size);
        while (oldest > 5 && number + 1 - oldest < COUNT && total + sizes[oldest - 1] <= BYTES)
            total += sizes[--oldest];
        assert_int_equal(tail.first, oldest);
        assert_int_equal(tail.next, number + 1);
        for (uint64_t i = oldest; i <= number; i++) {
            const struct lli_tail_message *message = lli_tail_find(&tail, i);
            const uint32_t offset = below(&random, sizes[i] + 1);

            assert_int_equal(message->size, sizes[i]);
            assert_int_equal(message->topic, i);
            lli_tail_copy(&tail, message, 0, bytes, offset);
            lli_tail_copy(&tail, message, offset, bytes + offset, sizes[i] - offset);
            pattern_check(bytes, sizes[i], i);
        }
        assert_null(lli_tail_find(&tail, oldest - 1));
        assert_null(lli_tail_find(&tail, number + 1));
    }
}

static void a_message_that_is_too_long_takes_the_place_of_all(void **state)
{
    static uint8_t bytes[BYTES + 1];

    (void)state;
    lli_tail_add(&tail, 1, bytes, 10);
    lli_tail_add(&tail, 1, bytes, BYTES + 1);
    assert_int_equal(tail.first, 2);
    assert_int_equal(tail.next, 2);
    lli_tail_add(&tail, 1, bytes, BYTES);
    assert_non_null(lli_tail_find(&tail, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_messages_are_there_as_they_were_added, up, down),
        cmocka_unit_test_setup_teardown(messages_that_are_dropped_make_room_for_others, up, down),
        cmocka_unit_test_setup_teardown(a_message_that_is_too_long_takes_the_place_of_all, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
