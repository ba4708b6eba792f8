/* SPDX-License-Identifier: Apache-2.0 */
#include "slow_world.h"

static void a_receiver_that_keeps_up_gets_no_notice(void **state)
{
    struct lli_wire_notice notice;

    (void)state;
    for (int i = 0; i < 500; i++) {
        step(3);
        if (i % 10 == 0)
            (void)nak(2, 4);
    }
    expect_no_event();
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(standing(id), LLI_STANDING_FINE);
        assert_int_equal(notices(id, &notice), 0);
    }
}

static void a_silent_receiver_is_suspended_in_200_ms_and_readmitted(void **state)
{
    struct llm_verdict verdict;
    struct lli_wire_notice notice;
    lli_ns stopped;

    (void)state;
    steps(3, SECOND);
    stopped = now;
    while (standing(3) == LLI_STANDING_FINE && now < stopped + SECOND)
        step(2);
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
    assert_true(now - stopped <= 200 * MS && now - stopped > 100 * MS);
    verdict = expect_event(LLM_EVENT_SUSPENDED, 3);
    assert_int_equal(verdict.threshold, LLM_THRESHOLD_SILENCE);
    assert_int_equal(verdict.limit, 180 * MS);
    assert_int_equal(verdict.value, verdict.silent_ns);
    assert_int_equal(verdict.receivers, 3);
    assert_int_equal(verdict.suffering, 1);
    assert_true(notices(3, &notice) > 0);
    /* A short sleep has no effect: it lags, but by less than half a second. */
    report(3, 400);
    step(2);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
    (void)expect_event(LLM_EVENT_READMITTED, 3);
    assert_true(notices(3, &notice) > 0);
    assert_int_equal(notice.standing, LLI_STANDING_FINE);
    assert_int_equal(standing(1), LLI_STANDING_FINE);
}

/* The interval is long if there were many receivers a moment ago. */
static void a_seldom_reporting_receiver_is_not_silent_between_reports(void **state)
{
    struct lli_wire_notice notice;

    (void)state;
    steps(3, SECOND);
    members.table[lli_members_get(&members, 3)].report_ns = SECOND;
    steps(2, SECOND);
    assert_int_equal(notices(3, &notice), 0);
    steps(2, 790 * MS);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
    assert_true(notices(3, &notice) > 0);
    steps(2, 100 * MS);
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
    assert_int_equal(expect_event(LLM_EVENT_SUSPENDED, 3).limit, 1800 * MS);
}

/* Meanwhile its repairs go to it by unicast, which spares the other receivers. */
static void a_readmitted_receiver_may_catch_up_before_lag_counts(void **state)
{
    lli_ns back;

    (void)state;
    steps(3, SECOND);
    steps(2, 300 * MS);
    (void)expect_event(LLM_EVENT_SUSPENDED, 3);
    report(3, 6000);
    back = now;
    step(2);
    assert_int_equal(standing(3), LLI_STANDING_UNICAST);
    while (standing(3) == LLI_STANDING_UNICAST && now < back + SECOND) {
        report(3, 6000);
        step(2);
    }
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
    assert_in_range(now - back, slow.policy.recover, slow.policy.recover + 50 * MS);
    assert_int_equal(slow.table[2].stands.threshold, LLM_THRESHOLD_LAG_PACKETS);
    steps(3, 250 * MS);
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
    steps(3, 200 * MS);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
}

static void a_suspended_silent_receiver_is_readmitted_at_its_first_packet(void **state)
{
    struct lli_wire_notice notice;

    (void)state;
    steps(3, SECOND);
    slow.policy.limits[LLM_THRESHOLD_LAG_PACKETS] = 1000000;
    steps(2, 1500 * MS);
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
    (void)notices(3, &notice);
    /* Before the next evaluation. */
    assert_false(nak(3, 64));
    assert_int_equal(standing(3), LLI_STANDING_FINE);
    /* Its lag counts from now on, not from the beginning of its silence. */
    report(3, 15000);
    step(2);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
    for (int i = 0; i < 110; i++) {
        step(2);
        if (i % 10 == 0)
            report(3, 16000 + (uint64_t)i * 100);
    }
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
    assert_int_equal(slow.table[2].stands.threshold, LLM_THRESHOLD_LAG_TIME);
}

static void a_receiver_during_replay_is_not_lagging(void **state)
{
    (void)state;
    steps(2, SECOND);
    for (int i = 0; i < 300; i++) {
        step(2);
        if (i % 10 == 0)
            report(3, sent);
    }
    expect_no_event();
    assert_int_equal(standing(3), LLI_STANDING_FINE);
    assert_int_equal(slow.group.receivers, 2);
    /* It is evaluated from its first report on. */
    report(3, 6000);
    step(2);
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
}

static void the_only_receiver_is_not_suspended_during_replay(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        step(0);
        report(1, sent);
        for (int j = 0; j < 30; j++)
            assert_false(nak(1, 2));
    }
    assert_int_equal(standing(1), LLI_STANDING_WARNED);
}

static void a_late_report_is_requested_before_suspension(void **state)
{
    struct lli_wire_notice notice;
    int probes = 0;

    (void)state;
    steps(2, SECOND);
    assert_int_equal(notices(2, &notice), 0);
    for (int i = 0; i < 40; i++) {
        step(1);
        probes += notices(2, &notice);
        if (i < 11)
            assert_int_equal(probes, 0);
        if (i == 16) {
            assert_true(probes > 1);
            assert_int_equal(notice.standing, LLI_STANDING_FINE);
            report(2, 1);
        }
    }
    /* Receivers that do not answer are probed a limited number of times. */
    assert_true(probes < 25);
    assert_int_equal(standing(2), LLI_STANDING_SUSPENDED);
}

static void silence_does_not_count_for_receivers_with_all_packets(void **state)
{
    (void)state;
    steps(2, SECOND);
    report(1, 0);
    report(2, 0);
    for (int i = 0; i < 200; i++) {
        now += 10 * MS;
        (void)lli_slow_all(&slow, &members, sent, now);
    }
    expect_no_event();
    assert_true(slow.quiet);
    assert_int_equal(lli_slow_at(&slow), LLI_NEVER);
}

static void a_transmitter_that_was_not_polled_suspends_no_receiver(void **state)
{
    (void)state;
    steps(3, SECOND);
    sent += 5000;
    now += 700 * MS;
    (void)lli_slow_all(&slow, &members, sent, now);
    expect_no_event();
    steps(3, 100 * MS);
    expect_no_event();
}

static void lasting_naks_warn_then_unicast_then_suspend(void **state)
{
    struct llm_verdict verdict;
    lli_ns begun;

    (void)state;
    steps(3, SECOND);
    begun = now;
    /* 2 packets of 100 in every step are 2 %, and 1,200 NAKs a second. */
    while (standing(3) != LLI_STANDING_SUSPENDED && now < begun + 10 * SECOND) {
        const enum lli_standing before = standing(3);

        for (int i = 0; i < 12; i++)
            (void)nak(3, 0);
        step(3);
        assert_true(standing(3) == before || standing(3) == before + 1);
        if (standing(3) == LLI_STANDING_WARNED && before == LLI_STANDING_FINE) {
            verdict = expect_event(LLM_EVENT_WARNED, 3);
            assert_int_equal(verdict.threshold, LLM_THRESHOLD_NAKS);
            assert_int_equal(verdict.limit, 500);
            assert_true(verdict.value >= 500 && verdict.value < 560);
            assert_int_equal(verdict.value, verdict.naks_per_s);
        }
        if (standing(3) == LLI_STANDING_UNICAST && before == LLI_STANDING_WARNED)
            assert_int_equal(expect_event(LLM_EVENT_UNICAST_ONLY, 3).limit, 750);
    }
    assert_int_equal(expect_event(LLM_EVENT_SUSPENDED, 3).limit, 1000);
    assert_true(now - begun > 500 * MS && now - begun < 2 * SECOND);
    assert_true(nak(3, 1));
    assert_false(nak(2, 1));
    /* Fine again after the averaging period and the recovery time. */
    begun = now;
    while (standing(3) != LLI_STANDING_FINE && now < begun + 10 * SECOND)
        step(3);
    assert_true(now - begun > 500 * MS && now - begun < 1500 * MS);
    (void)expect_event(LLM_EVENT_READMITTED, 3);
    assert_false(nak(3, 1));
}

static void a_share_of_few_packets_does_not_count(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        sent += 8;
        now += 10 * MS;
        for (uint64_t id = 1; id <= 3; id++)
            report(id, 1);
        (void)nak(3, 4);
        (void)lli_slow_all(&slow, &members, sent, now);
    }
    expect_no_event();
    /* The same number of slow receivers is now half of them. */
    for (int i = 0; i < 300; i++) {
        (void)nak(3, 50);
        step(3);
    }
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
}

static void lag_in_time_is_the_age_of_the_next_packet(void **state)
{
    (void)state;
    steps(3, 500 * MS);
    /* A constant lag of 700 ms, which is more than half of the limit and less than three quarters. */
    for (int i = 0; i < 400; i++) {
        step(2);
        if (i % 10 == 0)
            report(3, i < 70 ? (uint64_t)i * 100 : 7000);
        slow.policy.limits[LLM_THRESHOLD_LAG_PACKETS] = 0;
    }
    assert_int_equal(standing(3), LLI_STANDING_WARNED);
    assert_int_equal(slow.table[2].stands.threshold, LLM_THRESHOLD_LAG_TIME);
    assert_true(slow.table[2].stands.value >= 500 * MS && slow.table[2].stands.value <= 750 * MS);
}

static void no_receiver_is_suspended_if_most_are_slow(void **state)
{
    struct llm_verdict verdict;

    (void)state;
    steps(4, SECOND);
    steps(1, 300 * MS);
    verdict = expect_event(LLM_EVENT_WARNED, 0);
    assert_int_equal(verdict.threshold, LLM_THRESHOLD_GROUP);
    assert_int_equal(verdict.value, 3);
    assert_int_equal(verdict.limit, 3);
    assert_int_equal(verdict.receivers, 4);
    for (uint64_t id = 2; id <= 4; id++) {
        (void)expect_event(LLM_EVENT_WARNED, id);
        assert_int_equal(standing(id), LLI_STANDING_WARNED);
    }
    steps(4, SECOND);
    (void)expect_event(LLM_EVENT_READMITTED, 0);
    for (uint64_t id = 2; id <= 4; id++)
        (void)expect_event(LLM_EVENT_READMITTED, id);
    expect_no_event();
}

/* One of two receivers is not a majority. */
static void the_only_receiver_is_never_suspended_but_one_of_two_is(void **state)
{
    (void)state;
    steps(1, SECOND);
    steps(0, SECOND);
    assert_int_equal(standing(1), LLI_STANDING_WARNED);
    (void)expect_event(LLM_EVENT_WARNED, 1);
    expect_no_event();
    steps(2, SECOND);
    steps(1, 300 * MS);
    assert_int_equal(standing(2), LLI_STANDING_SUSPENDED);
}

static void policy_up(enum lli_standing most, bool dry)
{
    struct lli_slow_policy policy = policy_make();

    policy.most = most;
    policy.dry = dry;
    slow_make(&policy);
}

static void a_lastingly_slow_receiver_is_expelled_and_may_rejoin(void **state)
{
    struct lli_wire_notice notice;
    lli_ns begun;

    (void)state;
    policy_up(LLI_STANDING_EXPELLED, false);
    steps(3, SECOND);
    for (begun = now; standing(3) != LLI_STANDING_EXPELLED && now < begun + 10 * SECOND; step(2))
        report(3, 6000);
    assert_true(now - begun > 2 * SECOND && now - begun < 3 * SECOND);
    (void)expect_event(LLM_EVENT_EXPELLED, 3);
    assert_int_equal(slow.events.verdict.rejoin_ns, 3 * SECOND);
    assert_true(notices(3, &notice) > 0);
    assert_int_equal(notice.rejoin_ms, 3000);
    assert_int_equal(lli_members_expire(&members, 0, now + 1), 2);
    assert_int_equal(lli_members_waiting(&members), 0);
    for (begun = now; lli_members_get(&members, 3) != LLI_MEMBER_NONE && now < begun + 10 * SECOND;)
        step(2);
    assert_true(now - begun > 2900 * MS && now - begun < 3100 * MS);
    (void)expect_event(LLM_EVENT_READMITTED, 3);
    report(3, 1);
    steps(3, 100 * MS);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
}

/* Receiver 3 has this lag whenever it is admitted: runs until it is expelled, and returns for how long. */
static lli_ns expelled_for(uint64_t behind)
{
    struct llm_event event;

    for (int i = 0; i < 100000; i++) {
        if (standing(3) != LLI_STANDING_EXPELLED)
            report(3, behind);
        step(2);
        while (lli_slow_event(&slow, &event))
            if (event.kind == LLM_EVENT_EXPELLED)
                return event.verdict->rejoin_ns;
    }
    return 0;
}

static void rejoining(lli_ns rejoin)
{
    struct lli_slow_policy policy = policy_make();

    policy.most = LLI_STANDING_EXPELLED;
    policy.patience = policy.recover = policy.expel = 0;
    policy.rejoin = rejoin;
    slow_make(&policy);
    steps(3, SECOND);
}

static void repeated_expulsion_lengthens_the_time_before_rejoin(void **state)
{
    struct lli_wire_notice notice;

    (void)state;
    rejoining(20 * MS);
    for (lli_ns expected = 20 * MS; expected < 1280 * MS; expected *= 2) {
        assert_int_equal(expelled_for(6000), expected);
        assert_true(notices(3, &notice) > 0);
        assert_int_equal(notice.rejoin_ms, expected / MS);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(expelled_for(6000), 1280 * MS);
    /* Another receiver has its own time. */
    for (int i = 0; i < 10 && standing(4) != LLI_STANDING_EXPELLED; i++) {
        report(4, 6000);
        step(2);
    }
    assert_int_equal(notices(4, &notice) > 0 ? notice.rejoin_ms : 0, 20);
    /* It is not remembered for ever. */
    while (lli_members_get(&members, 3) != LLI_MEMBER_NONE)
        step(2);
    now += LLI_SLOW_REJOIN_MAX;
    steps(2, SECOND);
    assert_int_equal(expelled_for(6000), 20 * MS);
}

static void expulsion_lasts_at_most_an_hour(void **state)
{
    (void)state;
    rejoining(LLI_SLOW_REJOIN_MAX / 3);
    assert_int_equal(expelled_for(6000), LLI_SLOW_REJOIN_MAX / 3);
    for (int i = 0; i < 3; i++) {
        now += LLI_SLOW_REJOIN_MAX;
        assert_int_equal(expelled_for(6000), i == 0 ? LLI_SLOW_REJOIN_MAX * 2 / 3 : LLI_SLOW_REJOIN_MAX);
    }
}

/* Figures from before the expulsion do not expel the receiver again. */
static void an_expelled_receiver_rejoins_with_a_new_record(void **state)
{
    (void)state;
    rejoining(20 * MS);
    for (int i = 0; i < 200 && standing(3) != LLI_STANDING_EXPELLED; i++, step(2))
        for (int j = 0; j < 20; j++)
            (void)nak(3, 1);
    assert_int_equal(standing(3), LLI_STANDING_EXPELLED);
    while (lli_members_get(&members, 3) != LLI_MEMBER_NONE)
        step(2);
    (void)nak(3, 1);
    report(3, 1);
    steps(3, 100 * MS);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
    assert_int_equal(slow.decided[LLI_STANDING_EXPELLED], 1);
}

/* The receiver left while suspended, and one of its overtaken packets makes it known again. */
static void a_departed_receiver_rejoins_with_a_new_record(void **state)
{
    (void)state;
    rejoining(20 * MS);
    slow.policy.most = LLI_STANDING_SUSPENDED;
    for (int i = 0; i < 10 && standing(3) != LLI_STANDING_SUSPENDED; i++, step(2))
        report(3, 6000);
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
    lli_members_del(&members, 3);
    report(3, 6000);
    assert_int_equal(standing(3), LLI_STANDING_FINE);
    step(2);
    assert_int_equal(standing(3), LLI_STANDING_SUSPENDED);
    assert_int_equal(slow.decided[LLI_STANDING_SUSPENDED], 2);
}

/* The oldest record is replaced by the new one. */
static void the_number_of_remembered_expelled_receivers_is_bounded(void **state)
{
    (void)state;
    rejoining(20 * MS);
    for (uint64_t id = 100; id < 100 + 2 * LLI_SLOW_RETURNS; id++) {
        for (int i = 0; i < 10 && standing(id) != LLI_STANDING_EXPELLED; i++) {
            report(id, 6000);
            step(2);
        }
        assert_int_equal(standing(id), LLI_STANDING_EXPELLED);
    }
    for (uint32_t i = 0; i < LLI_SLOW_RETURNS; i++)
        assert_true(slow.returns[i].id >= 100 + LLI_SLOW_RETURNS && slow.returns[i].rejoin == 20 * MS);
}

static void a_dry_run_only_reports(void **state)
{
    struct lli_wire_notice notice;
    struct llm_verdict verdict;

    (void)state;
    policy_up(LLI_STANDING_EXPELLED, true);
    steps(3, SECOND);
    for (int i = 0; i < 400; i++) {
        report(3, 6000);
        step(2);
        assert_int_equal(standing(3), LLI_STANDING_FINE);
        assert_false(nak(3, 1));
        assert_int_equal(notices(3, &notice), 0);
    }
    verdict = expect_event(LLM_EVENT_EXPELLED, 3);
    assert_true(verdict.dry_run);
}

static void without_a_policy_only_the_operator_suspends(void **state)
{
    struct lli_wire_notice notice;

    (void)state;
    policy_up(LLI_STANDING_FINE, false);
    steps(2, SECOND);
    steps(1, SECOND);
    expect_no_event();
    assert_false(lli_slow_suspend(&slow, &members, 99, true, now));
    assert_true(lli_slow_suspend(&slow, &members, 1, true, now));
    assert_true(nak(1, 1));
    assert_false(nak(2, 1));
    assert_int_equal(expect_event(LLM_EVENT_SUSPENDED, 1).threshold, LLM_THRESHOLD_OPERATOR);
    step(2);
    assert_int_equal(notices(1, &notice), 1);
    assert_int_equal(notice.standing, LLI_STANDING_SUSPENDED);
    assert_true(lli_slow_suspend(&slow, &members, 1, false, now));
    step(2);
    assert_false(nak(1, 1));
    (void)expect_event(LLM_EVENT_READMITTED, 1);
    /* Suspends all receivers. */
    lli_slow_suspend_all(&slow, true);
    assert_true(nak(1, 1) && nak(2, 1));
    step(2);
    assert_int_equal(notices(2, &notice), 1);
    assert_int_equal(notice.standing, LLI_STANDING_SUSPENDED);
    assert_int_equal(notice.threshold, LLM_THRESHOLD_OPERATOR);
    lli_slow_suspend_all(&slow, false);
    assert_false(nak(1, 1) || nak(2, 1));
    step(2);
    assert_int_equal(notices(2, &notice), 1);
    assert_int_equal(notice.standing, LLI_STANDING_FINE);
}

/* The number of packets from the receiver does not matter. */
static void a_suspended_receiver_gets_one_notice_per_evaluation(void **state)
{
    struct lli_wire_notice notice;

    (void)state;
    steps(2, SECOND);
    report(2, 6000);
    step(1);
    while (notices(2, &notice) > 0)
        step(1);
    for (int i = 0; i < 50; i++) {
        for (int j = 0; j < 1000; j++)
            assert_true(nak(2, 64));
        report(2, 6000);
        step(1);
        assert_int_equal(notices(2, &notice), 1);
        assert_int_equal(notice.standing, LLI_STANDING_SUSPENDED);
    }
}

/* -------------------------------------------------------------------------------- figures against a model */

enum { HISTORY = 6000, RECEIVERS = 6 };

struct happened {
    lli_ns at;
    uint64_t receiver; /* 0: sent */
    uint64_t packets;
};

static struct happened history[HISTORY * 4];
static int happened;

static void happen(uint64_t receiver, uint64_t packets)
{
    history[happened++] = (struct happened){now, receiver, packets};
}

/* Bounds: the buckets may leave out the oldest eighth of the period. */
static void model_sums(uint64_t receiver, lli_ns back, uint64_t *count, uint64_t *packets)
{
    *count = *packets = 0;
    for (int i = 0; i < happened; i++) {
        if (history[i].receiver != receiver || history[i].at + back <= now)
            continue;
        (*count)++;
        *packets += history[i].packets;
    }
}

static void figures_cover_the_last_second(void **state)
{
    uint64_t random = 7;

    (void)state;
    policy_up(LLI_STANDING_FINE, false);
    happened = 0;
    for (int i = 0; i < HISTORY / 10; i++) {
        uint64_t packets = 50 + below(&random, 100);

        now += 10 * MS;
        sent += packets;
        happen(0, packets);
        for (uint64_t id = 1; id <= RECEIVERS; id++) {
            report(id, 0);
            if (!chance(&random, 20 * (uint32_t)(id % 3)))
                continue;
            packets = below(&random, 20);
            /* A NAK between two evaluations is counted in the bucket that the first of them began. */
            happen(id, packets);
            (void)nak(id, packets);
        }
        (void)lli_slow_all(&slow, &members, sent, now);
        for (uint64_t id = 1; id <= RECEIVERS && i > 110; id++) {
            const struct lli_slow_record *record = &slow.table[lli_members_get(&members, id)];
            uint64_t low_naks, low_asked, high_naks, high_asked, naks = 0, requested = 0;

            for (int b = 0; b < LLI_SLOW_BUCKETS; b++) {
                naks += record->naks[b];
                requested += record->requested[b];
            }
            model_sums(id, 860 * MS, &low_naks, &low_asked);
            model_sums(id, 1015 * MS, &high_naks, &high_asked);
            assert_in_range(naks, low_naks, high_naks);
            assert_in_range(requested, low_asked, high_asked);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_receiver_that_keeps_up_gets_no_notice, up, down),
        cmocka_unit_test_setup_teardown(a_silent_receiver_is_suspended_in_200_ms_and_readmitted, up, down),
        cmocka_unit_test_setup_teardown(a_readmitted_receiver_may_catch_up_before_lag_counts, up, down),
        cmocka_unit_test_setup_teardown(a_suspended_silent_receiver_is_readmitted_at_its_first_packet, up,
                                        down),
        cmocka_unit_test_setup_teardown(a_receiver_during_replay_is_not_lagging, up, down),
        cmocka_unit_test_setup_teardown(the_only_receiver_is_not_suspended_during_replay, up, down),
        cmocka_unit_test_setup_teardown(a_late_report_is_requested_before_suspension, up, down),
        cmocka_unit_test_setup_teardown(silence_does_not_count_for_receivers_with_all_packets, up, down),
        cmocka_unit_test_setup_teardown(a_transmitter_that_was_not_polled_suspends_no_receiver, up, down),
        cmocka_unit_test_setup_teardown(lasting_naks_warn_then_unicast_then_suspend, up, down),
        cmocka_unit_test_setup_teardown(a_share_of_few_packets_does_not_count, up, down),
        cmocka_unit_test_setup_teardown(lag_in_time_is_the_age_of_the_next_packet, up, down),
        cmocka_unit_test_setup_teardown(no_receiver_is_suspended_if_most_are_slow, up, down),
        cmocka_unit_test_setup_teardown(the_only_receiver_is_never_suspended_but_one_of_two_is, up, down),
        cmocka_unit_test_setup_teardown(a_lastingly_slow_receiver_is_expelled_and_may_rejoin, up, down),
        cmocka_unit_test_setup_teardown(repeated_expulsion_lengthens_the_time_before_rejoin, up, down),
        cmocka_unit_test_setup_teardown(expulsion_lasts_at_most_an_hour, up, down),
        cmocka_unit_test_setup_teardown(an_expelled_receiver_rejoins_with_a_new_record, up, down),
        cmocka_unit_test_setup_teardown(a_departed_receiver_rejoins_with_a_new_record, up, down),
        cmocka_unit_test_setup_teardown(the_number_of_remembered_expelled_receivers_is_bounded, up, down),
        cmocka_unit_test_setup_teardown(a_dry_run_only_reports, up, down),
        cmocka_unit_test_setup_teardown(without_a_policy_only_the_operator_suspends, up, down),
        cmocka_unit_test_setup_teardown(a_suspended_receiver_gets_one_notice_per_evaluation, up, down),
        cmocka_unit_test_setup_teardown(figures_cover_the_last_second, up, down),
        cmocka_unit_test_setup_teardown(a_seldom_reporting_receiver_is_not_silent_between_reports, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
