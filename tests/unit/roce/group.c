/* SPDX-License-Identifier: Apache-2.0 */
/* Joins, losses and leaves of groups by the RoCE transport. */
#define _GNU_SOURCE
#include "rig.h"

#include <errno.h>
#include <pthread.h>

#define SECOND_GROUP "239.1.2.4"

static void a_refused_join_is_logged_with_the_reason(void **state)
{
    lli_handle handle;

    (void)state;
    rig_up();
    atomic_store(&fake.join, FAKE_JOIN_NO);
    atomic_store(&fake.join_error, -ENOSPC);
    for (int i = 0; i < 2; i++) {
        const enum lli_join_mode mode = i == 0 ? LLI_JOIN_SEND : LLI_JOIN_RECEIVE;

        rig_log_forget();
        assert_int_equal(rig_join(SECOND_GROUP, PORT, mode, &handle), LLM_EGROUP);
        rig_expect_log("cannot join group 239.1.2.4");
        rig_expect_log(strerror(ENOSPC));
        rig_expect_log("max_mcast_grp");
        assert_int_equal(fake_group_flags(SECOND_GROUP, mode == LLI_JOIN_SEND), -1);
    }
    atomic_store(&fake.join, FAKE_JOIN_YES);
    assert_int_equal(rig_join(SECOND_GROUP, PORT, LLI_JOIN_SEND, &handle), 0);
    assert_int_equal(rig_counter("roce_groups_lost"), 0);
}

static void an_unanswered_join_times_out(void **state)
{
    lli_handle handle;

    (void)state;
    rig_up();
    atomic_store(&fake.join, FAKE_JOIN_SILENT);
    fake_wait_limit(SECOND / 50);
    assert_int_equal(rig_join(SECOND_GROUP, PORT, LLI_JOIN_RECEIVE, &handle), LLM_EGROUP);
    rig_expect_log("did not join group 239.1.2.4");
    rig_expect_log("interface fake0 is up");
    assert_int_equal(fake_group_flags(SECOND_GROUP, false), -1);
    atomic_store(&fake.join, FAKE_JOIN_YES);
    fake_wait_limit(0);
    assert_int_equal(rig_join(SECOND_GROUP, PORT, LLI_JOIN_RECEIVE, &handle), 0);
}

static void a_join_that_cannot_be_requested_is_an_error(void **state)
{
    lli_handle handle;

    (void)state;
    rig_up();
    fake_fail(FAKE_CALL_JOIN, 1, ENETUNREACH, false);
    assert_int_equal(rig_join(SECOND_GROUP, PORT, LLI_JOIN_RECEIVE, &handle), LLM_EINTERFACE);
    rig_expect_log("there is no route to the group");
    fake_fail(FAKE_CALL_AH, 1, ENOMEM, false);
    assert_int_equal(rig_join(SECOND_GROUP, PORT, LLI_JOIN_SEND, &handle), LLM_ENOMEM);
    assert_int_equal(fake_group_flags(SECOND_GROUP, true), -1);
}

static void groups_of_roce_v1_are_refused_with_the_remedy(void **state)
{
    lli_handle handle;

    (void)state;
    atomic_store(&fake.route_gid, 2);
    assert_int_equal(rig_open(), 0);
    assert_int_equal(rig_join(GROUP, PORT, LLI_JOIN_SEND, &handle), LLM_EINTERFACE);
    rig_expect_log("'mkdir /sys/kernel/config/rdma_cm/fake_0', and 'RoCE v2' written to");
    assert_int_equal(fake_group_flags(GROUP, true), -1);
}

static void invalid_groups_are_refused(void **state)
{
    lli_handle handle;

    (void)state;
    rig_up();
    assert_int_equal(rig_join(OTHER, PORT, LLI_JOIN_SEND, &handle), LLM_EGROUP);
    assert_int_equal(rig_join(GROUP, 0, LLI_JOIN_SEND, &handle), LLM_EGROUP);
    assert_int_equal(atomic_load(&fake.joins), 2);
}

static void one_membership_serves_all_ports_until_the_last_is_left(void **state)
{
    lli_handle second;

    (void)state;
    rig_up();
    for (int i = 0; i < 2; i++) {
        const enum lli_join_mode mode = i == 0 ? LLI_JOIN_SEND : LLI_JOIN_RECEIVE;

        assert_int_equal(rig_join(GROUP, PORT + 1, mode, &second), 0);
        assert_int_equal(atomic_load(&fake.joins), 2);
        rig_leave(i == 0 ? rig.send : rig.receive, mode);
        assert_int_not_equal(fake_group_flags(GROUP, i == 0), -1);
        rig_leave(second, mode);
        assert_int_equal(fake_group_flags(GROUP, i == 0), -1);
    }
}

static void a_lost_group_is_joined_again_and_counted(void **state)
{
    (void)state;
    rig_up();
    assert_true(fake_group_event(GROUP, false, RDMA_CM_EVENT_MULTICAST_ERROR, -ENETDOWN));
    AWAIT(atomic_load(&fake.joins) == 3);
    rig_expect_log("device fake_0 lost group 239.1.2.3");
    rig_expect_log(strerror(ENETDOWN));
    assert_int_equal(rig_counter("roce_groups_lost"), 1);
    assert_int_equal(fake_group_flags(GROUP, false), RDMA_MC_JOIN_FLAG_FULLMEMBER);
}

/* The address handles of senders would be wrong then. */
static void a_rejoin_with_another_address_ends_the_instance(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_up();
        for (int round = 1; round <= 2; round++) {
            fake_clock_advance(SECOND);
            fake_group_event(GROUP, i == 0, RDMA_CM_EVENT_MULTICAST_ERROR, ENETDOWN);
            AWAIT(atomic_load(&fake.joins) == 2 + round && fake_async_events() == 0);
            assert_false(atomic_load(&rig.roce->gone));
        }
        atomic_store(&fake.route_gid, 4);
        fake_clock_advance(SECOND);
        fake_group_event(GROUP, i == 0, RDMA_CM_EVENT_MULTICAST_ERROR, ENETDOWN);
        AWAIT(atomic_load(&rig.roce->gone));
        rig_expect_log(
            "its addresses changed while a group was joined again; close the channels on interface fake0");
        rig_close(&rig);
        atomic_store(&fake.route_gid, 3);
        atomic_store(&fake.joins, 0);
    }
}

static void a_lost_group_is_requested_once_a_second_until_joined(void **state)
{
    uint64_t lost_at;

    (void)state;
    rig_up();
    atomic_store(&fake.join, FAKE_JOIN_NO);
    atomic_store(&fake.join_error, ENETDOWN);
    lost_at = llm_clock();
    fake_group_event(GROUP, true, RDMA_CM_EVENT_MULTICAST_ERROR, ENETDOWN);
    AWAIT(atomic_load(&fake.joins) == 3);
    fake_clock_advance(SECOND / 2);
    usleep(20000);
    assert_int_equal(atomic_load(&fake.joins), 3);
    fake_clock_advance(SECOND / 2);
    AWAIT(atomic_load(&fake.joins) == 4);
    fake_fail(FAKE_CALL_JOIN, 1, ENETUNREACH, false);
    fake_clock_advance(SECOND);
    AWAIT(atomic_load(&fake.joins) == 5);
    atomic_store(&fake.join, FAKE_JOIN_YES);
    AWAIT(atomic_load(&fake.joins) == 6); /* by itself */
    assert_true(llm_clock() - lost_at > SECOND / 2);
    fake_clock_advance(5 * SECOND);
    usleep(20000);
    assert_int_equal(atomic_load(&fake.joins), 6);
    assert_int_equal(rig_counter("roce_groups_lost"), 1);
}

static void an_unanswered_rejoin_is_requested_again(void **state)
{
    (void)state;
    rig_up();
    atomic_store(&fake.join, FAKE_JOIN_SILENT);
    fake_group_event(GROUP, false, RDMA_CM_EVENT_MULTICAST_ERROR, ENETDOWN);
    AWAIT(atomic_load(&fake.joins) == 3);
    fake_clock_advance(2 * SECOND);
    usleep(20000);
    assert_int_equal(atomic_load(&fake.joins), 3);
    atomic_store(&fake.join, FAKE_JOIN_YES);
    fake_clock_advance(5 * SECOND);
    AWAIT(atomic_load(&fake.joins) == 4);
    /* The call is counted before it is complete. */
    AWAIT(fake_group_flags(GROUP, false) == RDMA_MC_JOIN_FLAG_FULLMEMBER);
}

static void an_unrequested_join_event_changes_nothing(void **state)
{
    lli_handle second;

    (void)state;
    rig_up();
    atomic_store(&fake.route_gid, 4);
    fake_group_event(GROUP, true, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    fake_clock_advance(1);
    AWAIT(fake_async_events() == 0);
    assert_int_equal(rig_join(GROUP, PORT + 1, LLI_JOIN_SEND, &second), 0);
    rig_post(second, 0, 10);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake.sent[0].route.grh.sgid_index, 3);
    fake_complete_all();
}

static void *release_events(void *arg)
{
    usleep(30000);
    atomic_store(&fake.hold_events, false);
    return arg;
}

/* Leaving waits for the event to be acknowledged; the fake ends a test that waits for ever. */
static void a_group_can_be_left_during_its_event(void **state)
{
    pthread_t thread;

    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_up();
        atomic_store(&fake.hold_events, true);
        fake_group_event(GROUP, false, i == 0 ? RDMA_CM_EVENT_MULTICAST_ERROR : RDMA_CM_EVENT_MULTICAST_JOIN,
                         0);
        AWAIT(atomic_load(&fake.held_events) == 1);
        assert_int_equal(pthread_create(&thread, NULL, release_events, NULL), 0);
        rig_leave(rig.receive, LLI_JOIN_RECEIVE);
        pthread_join(thread, NULL);
        assert_int_equal(rig_counter("roce_groups_lost"), 0);
        assert_int_equal(fake_group_flags(GROUP, false), -1);
        rig_close(&rig);
    }
}

/* For the thread sanitizer, and for the fake, which checks for remaining joins. */
static void groups_are_joined_and_left_while_others_are_rejoined(void **state)
{
    (void)state;
    rig_up();
    for (int i = 0; i < 300; i++) {
        lli_handle send, receive;

        fake_group_event(GROUP, true, RDMA_CM_EVENT_MULTICAST_ERROR, ENETDOWN);
        fake_clock_advance(SECOND);
        assert_int_equal(rig_join(SECOND_GROUP, PORT, LLI_JOIN_RECEIVE, &receive), 0);
        assert_int_equal(rig_join(GROUP, PORT + 1, LLI_JOIN_SEND, &send), 0);
        fake_group_event(SECOND_GROUP, false, RDMA_CM_EVENT_MULTICAST_ERROR, ENETDOWN);
        rig_leave(receive, LLI_JOIN_RECEIVE);
        rig_leave(send, LLI_JOIN_SEND);
        AWAIT(fake_async_events() < 4); /* the thread that reads them may not run for a while */
    }
    AWAIT(fake_async_events() == 0);
    assert_in_range(rig_counter("roce_groups_lost"), 1, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_refused_join_is_logged_with_the_reason),
        TEST(an_unanswered_join_times_out),
        TEST(a_join_that_cannot_be_requested_is_an_error),
        TEST(groups_of_roce_v1_are_refused_with_the_remedy),
        TEST(invalid_groups_are_refused),
        TEST(one_membership_serves_all_ports_until_the_last_is_left),
        TEST(a_lost_group_is_joined_again_and_counted),
        TEST(a_rejoin_with_another_address_ends_the_instance),
        TEST(a_lost_group_is_requested_once_a_second_until_joined),
        TEST(an_unanswered_rejoin_is_requested_again),
        TEST(an_unrequested_join_event_changes_nothing),
        TEST(a_group_can_be_left_during_its_event),
        TEST(groups_are_joined_and_left_while_others_are_rejoined),
    };

    alarm(100);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
