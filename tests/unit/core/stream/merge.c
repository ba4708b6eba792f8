/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stream/merge.h"

#include "unit.h"

enum { WAIT = 1000 };

static struct lli_merge merge;
static struct lli_merge_member *a, *b;

static int up(void **state)
{
    (void)state;
    merge = (struct lli_merge){.next = 0};
    a = lli_merge_add(&merge, 10);
    b = lli_merge_add(&merge, 11);
    merge.known = true;
    return 0;
}

static void the_second_copy_is_told_from_the_first(void **state)
{
    (void)state;
    assert_int_equal(lli_merge_take(&merge, a, 5), 0);
    assert_int_equal(lli_merge_take(&merge, b, 3), 5);
    assert_int_equal(lli_merge_take(&merge, b, 8), 5);
    assert_int_equal(lli_merge_take(&merge, a, 8), 8);
    assert_int_equal(merge.next, 8);
}

static void a_gap_waits_for_the_other_session_which_covers_it(void **state)
{
    (void)state;
    assert_int_equal(lli_merge_ask(&merge, a, 4, 1, WAIT), LLI_MERGE_WAIT);
    (void)lli_merge_take(&merge, b, 3);
    assert_int_equal(lli_merge_ask(&merge, a, 4, 2, WAIT), LLI_MERGE_WAIT);
    (void)lli_merge_take(&merge, b, 4);
    assert_int_equal(lli_merge_ask(&merge, a, 4, 3, WAIT), LLI_MERGE_COVERED);
    assert_false(a->at_loss);
}

static void what_both_lack_is_lost_once(void **state)
{
    (void)state;
    (void)lli_merge_take(&merge, a, 2);
    (void)lli_merge_take(&merge, b, 2);
    assert_int_equal(lli_merge_ask(&merge, a, 6, 1, WAIT), LLI_MERGE_WAIT);
    /* The one that continues first is not kept by the other. */
    assert_int_equal(lli_merge_ask(&merge, b, 4, 2, WAIT), LLI_MERGE_LOST);
    assert_int_equal(lli_merge_ask(&merge, a, 6, 2, WAIT), LLI_MERGE_WAIT);
    assert_int_equal(lli_merge_lose(&merge, b, 4), 2);
    assert_int_equal(lli_merge_take(&merge, b, 5), 4);
    assert_int_equal(lli_merge_ask(&merge, b, 6, 3, WAIT), LLI_MERGE_LOST);
    assert_int_equal(lli_merge_lose(&merge, b, 6), 5);
    assert_int_equal(lli_merge_ask(&merge, a, 6, 3, WAIT), LLI_MERGE_COVERED);
    assert_int_equal(lli_merge_lose(&merge, a, 6), 6);
}

static void a_session_that_sends_nothing_is_waited_for_once(void **state)
{
    (void)state;
    assert_int_equal(lli_merge_ask(&merge, a, 4, 1, WAIT), LLI_MERGE_WAIT);
    assert_true(lli_merge_has_others(&merge, a));
    assert_int_equal(lli_merge_ask(&merge, a, 4, WAIT, WAIT), LLI_MERGE_WAIT);
    assert_int_equal(lli_merge_ask(&merge, a, 4, WAIT + 1, WAIT), LLI_MERGE_LOST);
    assert_false(lli_merge_has_others(&merge, a));
    (void)lli_merge_lose(&merge, a, 4);
    assert_int_equal(lli_merge_ask(&merge, a, 8, WAIT + 2, WAIT), LLI_MERGE_LOST);
    (void)lli_merge_take(&merge, b, 1);
    assert_int_equal(lli_merge_ask(&merge, a, 9, WAIT + 3, WAIT), LLI_MERGE_WAIT);
}

static void what_a_waiting_session_has_is_not_lost(void **state)
{
    (void)state;
    /* A third one is dead. Both others wait for it, and a has what b lacks. */
    assert_non_null(lli_merge_add(&merge, 12));
    assert_int_equal(lli_merge_ask(&merge, b, 9, 1, WAIT), LLI_MERGE_WAIT);
    assert_int_equal(lli_merge_ask(&merge, a, 4, 1, WAIT), LLI_MERGE_WAIT);
    assert_int_equal(lli_merge_ask(&merge, b, 9, WAIT + 1, WAIT), LLI_MERGE_WAIT);
    assert_int_equal(lli_merge_ask(&merge, a, 4, WAIT + 1, WAIT), LLI_MERGE_LOST);
    assert_int_equal(lli_merge_lose(&merge, a, 4), 0);
    (void)lli_merge_take(&merge, a, 9);
    assert_int_equal(lli_merge_ask(&merge, b, 9, WAIT + 2, WAIT), LLI_MERGE_COVERED);
}

static void a_session_at_a_loss_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    assert_int_equal(lli_merge_ask(&merge, a, 4, 1, WAIT), LLI_MERGE_WAIT);
    assert_int_equal(lli_merge_ask(&merge, b, 9, 1, WAIT), LLI_MERGE_WAIT);
    assert_int_equal(lli_merge_ask(&merge, b, 9, 2 * WAIT, WAIT), LLI_MERGE_WAIT);
    assert_int_equal(lli_merge_ask(&merge, b, 9, 2 * WAIT + 1, WAIT), LLI_MERGE_LOST);
}

static void others_that_deliver_are_waited_for(void **state)
{
    (void)state;
    assert_int_equal(lli_merge_ask(&merge, a, 9, 1, WAIT), LLI_MERGE_WAIT);
    (void)lli_merge_take(&merge, b, 5);
    assert_int_equal(lli_merge_ask(&merge, a, 9, WAIT + 1, WAIT), LLI_MERGE_WAIT);
    assert_int_equal(lli_merge_ask(&merge, a, 9, 2 * WAIT + 1, WAIT), LLI_MERGE_LOST);
}

static void a_session_that_is_alone_waits_for_nobody(void **state)
{
    (void)state;
    lli_merge_del(&merge, 11);
    lli_merge_del(&merge, 11);
    assert_int_equal(merge.count, 1);
    assert_int_equal(lli_merge_ask(&merge, a, 4, 1, WAIT), LLI_MERGE_LOST);
}

static void so_many_sessions_are_merged_and_no_more(void **state)
{
    (void)state;
    for (uint64_t i = 2; i < LLI_MERGE_MEMBERS; i++)
        assert_non_null(lli_merge_add(&merge, 10 + i));
    assert_null(lli_merge_add(&merge, 99));
    assert_ptr_equal(lli_merge_add(&merge, 10), a);
    lli_merge_del(&merge, 12);
    assert_non_null(lli_merge_add(&merge, 99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_second_copy_is_told_from_the_first, up),
        cmocka_unit_test_setup(a_gap_waits_for_the_other_session_which_covers_it, up),
        cmocka_unit_test_setup(what_both_lack_is_lost_once, up),
        cmocka_unit_test_setup(a_session_that_sends_nothing_is_waited_for_once, up),
        cmocka_unit_test_setup(what_a_waiting_session_has_is_not_lost, up),
        cmocka_unit_test_setup(a_session_at_a_loss_is_not_waited_for_for_ever, up),
        cmocka_unit_test_setup(others_that_deliver_are_waited_for, up),
        cmocka_unit_test_setup(a_session_that_is_alone_waits_for_nobody, up),
        cmocka_unit_test_setup(so_many_sessions_are_merged_and_no_more, up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
