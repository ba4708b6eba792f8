/* SPDX-License-Identifier: Apache-2.0 */
/* Optional thresholds of the policy. */
#include "slow_world.h"

static void lag_in_bytes_has_its_own_threshold(void **state)
{
    struct llm_verdict verdict;
    struct lli_wire_notice notice;

    (void)state;
    slow.policy.limits[LLM_THRESHOLD_LAG_BYTES] = 128000;
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

static void new_receivers_may_catch_up_before_byte_lag_counts(void **state)
{
    (void)state;
    slow.policy.limits[LLM_THRESHOLD_LAG_BYTES] = 128000;
    steps(2, SECOND);
    report(3, 2000);
    step(2);
    assert_int_equal(standing(3), LLI_STANDING_UNICAST);
    steps(3, 400 * MS);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
}

/*
 * For this time receivers 1 and 2 acknowledge everything; 3 reports, but leaves the first message
 * unacknowledged.
 */
static void owe(lli_ns time)
{
    const lli_seq owed = sent;

    for (lli_ns until = now + time; now < until;) {
        lli_members_add(&members, 3);
        members.table[2].owes = owed;
        step(3);
    }
}

static void a_receiver_is_suspended_while_it_does_not_acknowledge(void **state)
{
    struct llm_verdict verdict;

    (void)state;
    slow.policy.limits[LLM_THRESHOLD_ACK_TIME] = SECOND;
    steps(3, SECOND);
    owe(700 * MS);
    verdict = expect_event(LLM_EVENT_WARNED, 3);
    assert_int_equal(verdict.threshold, LLM_THRESHOLD_ACK_TIME);
    assert_in_range(verdict.value, 500 * MS, 600 * MS);
    assert_in_range(verdict.ack_ns, verdict.value, 700 * MS);
    assert_int_equal(verdict.limit, 500 * MS);
    assert_int_equal(standing(3), LLI_STANDING_WARNED);
    /* It now owes another message. */
    owe(250 * MS);
    assert_int_equal(standing(3), LLI_STANDING_WARNED);
    owe(1300 * MS);
    verdict = expect_event(LLM_EVENT_SUSPENDED, 3);
    assert_int_equal(verdict.threshold, LLM_THRESHOLD_ACK_TIME);
    assert_in_range(verdict.value, SECOND, 1100 * MS);
    assert_int_equal(verdict.lag_packets, 1);
    members.table[2].owes = 0;
    steps(3, 700 * MS);
    (void)expect_event(LLM_EVENT_READMITTED, 3);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
}

/* The evaluation continues while a message is unacknowledged. */
static void unacknowledged_messages_are_evaluated_while_nothing_is_sent(void **state)
{
    (void)state;
    slow.policy.limits[LLM_THRESHOLD_ACK_TIME] = SECOND;
    steps(3, SECOND);
    lli_members_add(&members, 3);
    members.table[2].owes = sent - 1;
    for (int i = 0; i < 250; i++) {
        now += 10 * MS;
        for (uint64_t id = 1; i % 10 == 0 && id <= 3; id++)
            report(id, 0);
        assert_false(slow.quiet);
        (void)lli_slow_all(&slow, &members, sent, now);
    }
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
    assert_int_equal(slow.table[2].stands.threshold, LLM_THRESHOLD_ACK_TIME);
}

static void silence_does_not_count_as_acknowledgement_time(void **state)
{
    (void)state;
    slow.policy.limits[LLM_THRESHOLD_ACK_TIME] = SECOND;
    slow.policy.limits[LLM_THRESHOLD_LAG_TIME] = 0;
    steps(3, SECOND);
    owe(300 * MS);
    /* The transmitter is not polled, and then reads all reports of that time. */
    now += 5 * SECOND;
    owe(300 * MS);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
    /* The receiver is silent, which is a threshold of its own. */
    steps(2, 1500 * MS);
    assert_int_equal(slow.table[2].stands.threshold, LLM_THRESHOLD_SILENCE);
    report(3, 1);
    step(2);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
    assert_int_equal(slow.table[2].debt.goal_ns, 0);
}

static void acknowledgement_time_without_a_threshold_has_no_effect(void **state)
{
    (void)state;
    steps(3, SECOND);
    owe(3 * SECOND);
    expect_no_event();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lag_in_bytes_has_its_own_threshold, up, down),
        cmocka_unit_test_setup_teardown(new_receivers_may_catch_up_before_byte_lag_counts, up, down),
        cmocka_unit_test_setup_teardown(a_receiver_is_suspended_while_it_does_not_acknowledge, up, down),
        cmocka_unit_test_setup_teardown(unacknowledged_messages_are_evaluated_while_nothing_is_sent, up,
                                        down),
        cmocka_unit_test_setup_teardown(silence_does_not_count_as_acknowledgement_time, up, down),
        cmocka_unit_test_setup_teardown(acknowledgement_time_without_a_threshold_has_no_effect, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
