/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>

#include "core/rx/topics.h"

enum { LIMIT = 8, MANY = LLI_TOPICS_FEW + 40 };

static uint8_t *topics_make(struct lli_topics *topics)
{
    struct lli_arena arena = {.memory = NULL};

    lli_topics_init(topics, LIMIT, NULL, &arena);
    arena_fill(&arena);
    lli_topics_init(topics, LIMIT, NULL, &arena);
    return arena.memory;
}

static bool add(struct lli_topics *topics, uint32_t id, const char *name)
{
    return lli_topics_add(topics, id, (const uint8_t *)name, strlen(name));
}

static void topic_names_are_stored_by_number(void **state)
{
    struct lli_topics topics;
    uint8_t *memory = topics_make(&topics);

    (void)state;
    assert_string_equal(lli_topics_name(&topics, 0), "");
    assert_true(add(&topics, 0, "prices"));
    assert_true(add(&topics, 1, "orders"));
    assert_string_equal(lli_topics_name(&topics, 0), "prices");
    assert_string_equal(lli_topics_name(&topics, 1), "orders");
    assert_string_equal(lli_topics_name(&topics, LIMIT), "");
    assert_string_equal(lli_topics_name(&topics, UINT32_MAX), "");
    free(memory);
}

static void a_known_name_is_not_replaced_and_an_empty_name_refused(void **state)
{
    struct lli_topics topics;
    uint8_t *memory = topics_make(&topics);

    (void)state;
    assert_true(add(&topics, 3, "first"));
    assert_false(add(&topics, 3, "second"));
    assert_false(add(&topics, 4, ""));
    assert_false(add(&topics, LIMIT, "beyond"));
    assert_string_equal(lli_topics_name(&topics, 3), "first");
    free(memory);
}

static void the_flags_of_a_name_mark_topics_without_history(void **state)
{
    struct lli_topics topics;
    uint8_t *memory = topics_make(&topics);

    (void)state;
    assert_true(add(&topics, 0, "orders"));
    assert_true(lli_topics_add(&topics, 1, (const uint8_t *)"quotes\0\1", 8));
    assert_true(lli_topics_add(&topics, 2, (const uint8_t *)"later\0\2", 7));
    assert_false(lli_topics_add(&topics, 3, (const uint8_t *)"\0\1", 2));
    assert_string_equal(lli_topics_name(&topics, 1), "quotes");
    assert_string_equal(lli_topics_name(&topics, 2), "later");
    assert_true(lli_topics_is_transient(&topics, 1));
    assert_true(lli_topics_is_marked(&topics, 1));
    assert_false(lli_topics_is_refused(&topics, 1));
    for (uint32_t id = 0; id < LIMIT; id += 2)
        assert_false(lli_topics_is_transient(&topics, id) || lli_topics_is_marked(&topics, id));
    assert_false(lli_topics_is_transient(&topics, UINT32_MAX));
    lli_topics_reset(&topics);
    assert_false(lli_topics_is_transient(&topics, 1));
    free(memory);
}

static void known_counts_the_names_before_the_first_hole(void **state)
{
    struct lli_topics topics;
    uint8_t *memory = topics_make(&topics);

    (void)state;
    (void)add(&topics, 1, "b");
    assert_int_equal(topics.known, 0);
    (void)add(&topics, 0, "a");
    assert_int_equal(topics.known, 2);
    for (uint32_t id = 2; id < LIMIT; id++)
        (void)add(&topics, id, "c");
    assert_int_equal(topics.known, LIMIT);
    free(memory);
}

static void a_name_too_long_for_the_memory_is_refused(void **state)
{
    struct lli_topics topics;
    uint8_t *memory = topics_make(&topics);
    uint8_t name[255];
    uint32_t id = 0;

    (void)state;
    memset(name, 'n', sizeof name);
    while (id < LIMIT && lli_topics_add(&topics, id, name, sizeof name))
        id++;
    assert_int_equal(id, (LIMIT * LLI_TOPICS_NAME_MEAN + 256) / 256);
    assert_in_range(topics.text_used, 1, LIMIT * LLI_TOPICS_NAME_MEAN + 256 + LLI_TOPICS_NAME_UNIT);
    assert_int_equal(topics.known, id);
    free(memory);
}

static void names_and_flags_remain_when_there_is_room_for_few_topics_no_longer(void **state)
{
    struct lli_arena arena = {.memory = NULL};
    uint32_t few[LLI_TOPICS_FEW] = {0};
    struct lli_topics topics;
    char name[16];

    (void)state;
    lli_topics_init(&topics, MANY, few, &arena);
    arena_fill(&arena);
    lli_topics_init(&topics, MANY, few, &arena);
    for (int lap = 0; lap < 2; lap++) {
        lli_topics_set(&topics, 5, LLI_TOPICS_REFUSED);
        assert_false(lli_topics_subscribe(&topics, LLI_TOPICS_FEW - 1, false));
        assert_false(lli_topics_has(&topics, LLI_TOPICS_FEW, UINT8_MAX));
        assert_string_equal(lli_topics_name(&topics, LLI_TOPICS_FEW), "");
        for (uint32_t id = 0; id < MANY; id++) {
            assert_int_equal(topics.known, id);
            (void)snprintf(name, sizeof name, "topic%u", id);
            assert_true(add(&topics, id, name));
        }
        for (uint32_t id = 0; id < MANY; id++) {
            (void)snprintf(name, sizeof name, "topic%u", id);
            assert_string_equal(lli_topics_name(&topics, id), name);
            assert_int_equal(lli_topics_is_refused(&topics, id), id == 5 || id == LLI_TOPICS_FEW - 1);
            assert_int_equal(lli_topics_is_plain(&topics, id), id != 5 && id != LLI_TOPICS_FEW - 1);
        }
        lli_topics_set(&topics, MANY, LLI_TOPICS_REFUSED);
        assert_false(lli_topics_is_refused(&topics, MANY));
        lli_topics_set(&topics, MANY - 1, LLI_TOPICS_REFUSED);
        assert_true(lli_topics_is_refused(&topics, MANY - 1));
        assert_string_equal(lli_topics_name(&topics, MANY - 1), name);
        lli_topics_reset(&topics);
        for (uint32_t id = 0; id < MANY; id++)
            assert_false(lli_topics_is_named(&topics, id) || lli_topics_has(&topics, id, UINT8_MAX));
    }
    free(arena.memory);
}

static void a_name_ends_at_a_zero_byte(void **state)
{
    struct lli_topics topics;
    uint8_t *memory = topics_make(&topics);

    (void)state;
    assert_true(lli_topics_add(&topics, 0, (const uint8_t *)"ab\0cd", 5));
    assert_true(add(&topics, 1, "next"));
    assert_string_equal(lli_topics_name(&topics, 0), "ab");
    assert_string_equal(lli_topics_name(&topics, 1), "next");
    free(memory);
}

static void a_reset_forgets_names_and_flags(void **state)
{
    struct lli_topics topics;
    uint8_t *memory = topics_make(&topics);

    (void)state;
    (void)add(&topics, 0, "a");
    (void)add(&topics, LIMIT - 1, "z");
    lli_topics_set(&topics, LIMIT - 1, LLI_TOPICS_REFUSED);
    assert_true(lli_topics_is_refused(&topics, LIMIT - 1));
    assert_false(lli_topics_is_refused(&topics, 0));
    assert_false(lli_topics_is_refused(&topics, LIMIT));
    lli_topics_reset(&topics);
    assert_int_equal(topics.known, 0);
    assert_string_equal(lli_topics_name(&topics, 0), "");
    assert_string_equal(lli_topics_name(&topics, LIMIT - 1), "");
    assert_false(lli_topics_is_refused(&topics, LIMIT - 1));
    assert_true(add(&topics, 0, "other"));
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topic_names_are_stored_by_number),
        cmocka_unit_test(a_known_name_is_not_replaced_and_an_empty_name_refused),
        cmocka_unit_test(the_flags_of_a_name_mark_topics_without_history),
        cmocka_unit_test(known_counts_the_names_before_the_first_hole),
        cmocka_unit_test(a_name_too_long_for_the_memory_is_refused),
        cmocka_unit_test(names_and_flags_remain_when_there_is_room_for_few_topics_no_longer),
        cmocka_unit_test(a_name_ends_at_a_zero_byte),
        cmocka_unit_test(a_reset_forgets_names_and_flags),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
