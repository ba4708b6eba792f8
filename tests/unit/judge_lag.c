/* SPDX-License-Identifier: Apache-2.0 */
/* Thresholds beside those of every policy. */
#include "judged.h"

static void lag_in_bytes_has_a_threshold_of_its_own(void **state)
{
    struct llm_verdict verdict;
    struct lli_wire_notice notice;

    (void)state;
    judge.policy.limits[LLM_THRESHOLD_LAG_BYTES] = 128000;
    steps(3, 500 * MS);
    expect_no_event();
    report(3, 501);
    step(2);
    verdict = expect_event(LLM_EVENT_WARNED, 3);
    assert_int_equal(verdict.threshold, LLM_THRESHOLD_LAG_BYTES);
    assert_int_equal(verdict.value, 501 * 128);
    assert_int_equal(verdict.limit, 64000);
    report(3, 760);
    step(2);
    assert_int_equal(expect_event(LLM_EVENT_UNICAST_ONLY, 3).limit, 96000);
    report(3, 1000);
    step(2);
    verdict = expect_event(LLM_EVENT_SUSPENDED, 3);
    assert_int_equal(verdict.threshold, LLM_THRESHOLD_LAG_BYTES);
    assert_int_equal(verdict.value, 128000);
    assert_int_equal(verdict.lag_bytes, 128000);
    assert_int_equal(verdict.lag_packets, 1000);
    assert_true(notices(3, &notice) > 0);
    assert_int_equal(notice.threshold, LLM_THRESHOLD_LAG_BYTES);
    assert_int_equal(notice.value, 128000);
    steps(3, 500 * MS);
    (void)expect_event(LLM_EVENT_READMITTED, 3);
}

static void whoever_is_new_has_time_to_catch_up_in_bytes_too(void **state)
{
    (void)state;
    judge.policy.limits[LLM_THRESHOLD_LAG_BYTES] = 128000;
    steps(2, SECOND);
    report(3, 2000);
    step(2);
    assert_int_equal(standing(3), LLI_STANDING_UNICAST);
    steps(3, 400 * MS);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lag_in_bytes_has_a_threshold_of_its_own, up, down),
        cmocka_unit_test_setup_teardown(whoever_is_new_has_time_to_catch_up_in_bytes_too, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
