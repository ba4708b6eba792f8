/* SPDX-License-Identifier: Apache-2.0 */
/* Failing packets, broken queues and removed devices of the RoCE transport. */
#define _GNU_SOURCE
#include "rig.h"

#include <errno.h>
#include <pthread.h>

enum { LARGE = 1000 };

static void send_some(int count)
{
    assert_int_equal(rig_post_many(rig.send, LARGE, count), count);
    assert_int_equal(rig_flush(), 0);
}

/* --------------------------------------------------------------------------------------------- send queue */

static void a_stopped_send_queue_is_reset_and_sending_continues(void **state)
{
    static const struct {
        enum ibv_qp_state state;
        int moves;
    } cases[] = {{IBV_QPS_SQE, 1}, {IBV_QPS_ERR, 4}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_up();
        for (uint64_t round = 0; round < 20; round++) {
            fake_sent_forget();
            atomic_store(&fake.modifies, 0);
            send_some(10);
            fake_complete(3);
            fake_complete_failed(IBV_WC_LOC_PROT_ERR, cases[i].state);
            assert_int_equal(rig_reap(), 20 * round + 10);
            assert_int_equal(rig_counter("roce_send_errors"), 7 * (round + 1));
            rig_post_many(rig.send, LARGE, 10);
            assert_int_equal(rig_flush(), LLM_EAGAIN);
            rig_flush_all();
            assert_int_equal(fake_send_state(), IBV_QPS_RTS);
            assert_int_equal(atomic_load(&fake.modifies), cases[i].moves);
            assert_int_equal(fake.sent_count, 20);
            for (uint32_t at = 10; at < 20; at++)
                assert_ptr_equal(fake.sent[at].data, rig.memory + (at - 10) * 64);
            fake_complete_all();
            assert_int_equal(rig_reap(), 20 * round + 20);
        }
        assert_false(atomic_load(&rig.roce->gone));
        rig_close(&rig);
    }
}

static void packets_posted_before_a_queue_stop_is_known_are_lost(void **state)
{
    (void)state;
    rig_up();
    send_some(2);
    fake_complete_failed(IBV_WC_LOC_PROT_ERR, IBV_QPS_SQE);
    send_some(3);
    AWAIT(rig_reap() == 5);
    assert_int_equal(rig_counter("roce_send_errors"), 5);
    rig_post(rig.send, 0, LARGE);
    rig_flush_all();
    assert_int_equal(fake_in_flight(), 1);
}

/* The fake device ends a test that resets a queue with packets in it. */
static void a_send_queue_is_reset_after_all_its_completions(void **state)
{
    (void)state;
    rig_up();
    fake.flush_later = true;
    send_some(10);
    fake_complete_failed(IBV_WC_LOC_PROT_ERR, IBV_QPS_ERR);
    assert_int_equal(rig_reap(), 1);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(rig_flush(), LLM_EAGAIN);
        usleep(1000);
    }
    assert_int_equal(atomic_load(&fake.modifies), 0);
    fake_flush_rest();
    rig_flush_all();
    assert_int_equal(atomic_load(&fake.modifies), 4);
    assert_int_equal(rig_reap(), 10);
}

static void a_failure_without_a_stop_needs_no_reset(void **state)
{
    (void)state;
    rig_up();
    send_some(1);
    fake_complete_failed(IBV_WC_GENERAL_ERR, IBV_QPS_RTS);
    assert_int_equal(rig_reap(), 1);
    rig_post(rig.send, 0, LARGE);
    rig_flush_all();
    assert_int_equal(atomic_load(&fake.modifies), 0);
    assert_int_equal(fake_in_flight(), 1);
}

/* --------------------------------------------------------------------------------------------------- gone */

/* Returns true if the queues and their memory are released, so that the driver can unload. */
static bool device_is_free(void)
{
    char text[256];

    fake_live(text, sizeof text);
    return strstr(text, "domains") == NULL && strstr(text, "queue") == NULL &&
           strstr(text, "handles") == NULL && strstr(text, "registrations") == NULL &&
           strstr(text, "memberships") == NULL;
}

static void expect_gone(void)
{
    struct lli_address address = rig_address(OTHER, 17, RDMA_UDP_QKEY);
    struct lli_in packet;
    lli_handle handle;
    uint64_t taken, errors;

    AWAIT(atomic_load(&rig.roce->gone));
    rig_expect_log("close the channels on interface fake0 and open them again");
    taken = rig_reap();
    errors = rig_counter("roce_send_errors");
    assert_int_equal(rig_post_many(rig.send, LARGE, 1000), 1000);
    assert_int_equal(rig_counter("roce_send_errors"), errors + 1000);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(rig_reap(), taken + 1000);
    assert_int_equal(rig_receive(&packet, 1), 0);
    assert_int_equal(rig_join("239.1.2.9", PORT, LLI_JOIN_SEND, &handle), LLM_EINTERFACE);
    assert_int_equal(roce_transport->region(rig.roce, rig.memory, 64), LLM_EINTERFACE);
    assert_int_equal(roce_transport->peer(rig.roce, &address, &handle), LLM_EAGAIN);
    assert_true(roce_transport->arm(rig.roce) >= 0);
    assert_int_equal(roce_transport->address(rig.roce, &address), LLM_EINTERFACE);
    AWAIT(device_is_free());
    assert_int_equal(rig_post_many(rig.send, LARGE, 10), 10);
    assert_int_equal(rig_reap(), taken + 1010);
}

static void an_irreparable_send_queue_ends_the_instance(void **state)
{
    (void)state;
    for (int at = 0; at < 5; at++) {
        rig_up();
        if (at == 0)
            fake_fail(FAKE_CALL_QUERY_QP, 1, EIO, false);
        else
            fake_fail(FAKE_CALL_MODIFY_QP, at, EIO, false);
        send_some(1);
        fake_complete_failed(IBV_WC_LOC_QP_OP_ERR, IBV_QPS_ERR);
        rig_reap();
        rig_post(rig.send, 0, LARGE);
        assert_int_equal(rig_flush(), LLM_EAGAIN);
        expect_gone();
        rig_expect_log("its send queue failed and cannot be reset");
        rig_close(&rig);
        rig_log_forget();
    }
}

/* ------------------------------------------------------------------------------------ asynchronous events */

enum events {
    REMOVAL,
    ADDRESS_CHANGE,
    DEVICE_FATAL,
    RECEIVE_FATAL,
    SEND_CQ,
    RECEIVE_CQ,
    FATALS,
    SEND_FATAL = FATALS,
    SEND_ACCESS,
    PORT_DOWN,
    PORT_UP,
    GIDS,
    UNKNOWN_ID,
    FOREIGN_QP,
    EVENTS,
};

static void emit(int event)
{
    static char stranger;

    switch (event) {
    case REMOVAL:
        fake_id_event(RDMA_CM_EVENT_DEVICE_REMOVAL);
        break;
    case ADDRESS_CHANGE:
        fake_id_event(RDMA_CM_EVENT_ADDR_CHANGE);
        break;
    case UNKNOWN_ID:
        fake_id_event(RDMA_CM_EVENT_TIMEWAIT_EXIT);
        break;
    case DEVICE_FATAL:
        fake_async_event(IBV_EVENT_DEVICE_FATAL, NULL);
        break;
    case RECEIVE_FATAL:
        fake_async_event(IBV_EVENT_QP_FATAL, fake.receive_qp);
        break;
    case SEND_CQ:
        fake_async_event(IBV_EVENT_CQ_ERR, fake.send_qp->send_cq);
        break;
    case RECEIVE_CQ:
        fake_async_event(IBV_EVENT_CQ_ERR, fake.receive_qp->recv_cq);
        break;
    case SEND_FATAL:
        fake_async_event(IBV_EVENT_QP_FATAL, fake.send_qp);
        break;
    case SEND_ACCESS:
        fake_async_event(IBV_EVENT_QP_ACCESS_ERR, fake.send_qp);
        break;
    case FOREIGN_QP:
        fake_async_event(IBV_EVENT_QP_FATAL, &stranger);
        break;
    default:
        fake_async_event(event == PORT_DOWN ? IBV_EVENT_PORT_ERR
                         : event == PORT_UP ? IBV_EVENT_PORT_ACTIVE
                                            : IBV_EVENT_GID_CHANGE,
                         NULL);
        break;
    }
}

static void expect_outcome(int event)
{
    struct fake_packet packet = {.source = OTHER, .to = GROUP, .note = rig_note(PORT), .size = 10};
    struct lli_in got;

    if (event < FATALS) {
        expect_gone();
        return;
    }
    AWAIT(fake_async_events() == 0);
    usleep(1000);
    assert_false(atomic_load(&rig.roce->gone));
    if (event == PORT_DOWN)
        rig_expect_log("port 1 of device fake_0 is down");
    if (event == PORT_UP)
        rig_expect_log("port 1 of device fake_0 is up");
    assert_int_equal(rig_flush(), 0);
    assert_true(fake_arrive(&packet));
    assert_int_equal(rig_receive(&got, 1), 1);
    rig_release(&got, 1);
}

static void device_events_before_a_join_are_handled(void **state)
{
    (void)state;
    for (int event = 0; event < EVENTS; event++) {
        assert_int_equal(rig_open(), 0);
        rig_log_forget();
        emit(event);
        if (event < FATALS) {
            expect_gone();
        } else {
            AWAIT(fake_async_events() == 0);
            assert_int_equal(rig_join(GROUP, PORT, LLI_JOIN_RECEIVE, &rig.receive), 0);
            expect_outcome(event);
        }
        rig_close(&rig);
    }
}

static void *emit_soon(void *arg)
{
    usleep(10000);
    emit(*(const int *)arg);
    return NULL;
}

static void device_events_during_a_join_are_handled(void **state)
{
    (void)state;
    for (int event = 0; event < EVENTS; event++) {
        pthread_t thread;
        lli_handle handle;

        rig_up();
        rig_log_forget();
        atomic_store(&fake.join, FAKE_JOIN_SILENT);
        fake_wait_limit(event < FATALS ? 0 : SECOND / 20);
        assert_int_equal(pthread_create(&thread, NULL, emit_soon, &event), 0);
        assert_int_equal(rig_join("239.1.2.4", PORT, LLI_JOIN_RECEIVE, &handle),
                         event < FATALS ? LLM_EINTERFACE : LLM_EGROUP);
        pthread_join(thread, NULL);
        atomic_store(&fake.join, FAKE_JOIN_YES);
        fake_wait_limit(0); /* the next instance's joins are answered, with any delay */
        expect_outcome(event);
        rig_close(&rig);
    }
}

static void device_events_with_packets_in_flight_and_queued_are_handled(void **state)
{
    (void)state;
    for (int event = 0; event < EVENTS; event++) {
        rig_up();
        rig_log_forget();
        rig_peer(OTHER, 20);
        send_some(100);
        rig_post_many(rig.send, LARGE, 5);
        emit(event);
        expect_outcome(event);
        if (event >= FATALS)
            fake_complete_all();
        assert_int_equal(rig_reap(), event < FATALS ? 105 + 1010 : 105);
        rig_close(&rig);
    }
}

static void device_events_with_lent_packets_are_handled(void **state)
{
    const struct fake_packet packet = {
        .source = OTHER, .to = GROUP, .note = rig_note(PORT), .size = 500, .which = 3};
    struct lli_in got[100];

    (void)state;
    for (int event = 0; event < EVENTS; event++) {
        rig_up();
        rig_log_forget();
        for (int i = 0; i < 100; i++)
            fake_arrive(&packet);
        assert_int_equal(rig_receive(got, 100), 100);
        emit(event);
        expect_outcome(event);
        for (int i = 0; i < 100; i++)
            pattern_check(got[i].data, got[i].size, 3);
        rig_release(got, 100);
        rig_leave(rig.receive, LLI_JOIN_RECEIVE);
        rig_leave(rig.send, LLI_JOIN_SEND);
        roce_transport->region_end(rig.roce, rig.memory, ARENA_BYTES);
        rig_close(&rig);
    }
}

static void device_events_after_its_removal_are_handled(void **state)
{
    (void)state;
    for (int first = 0; first < FATALS; first++) {
        for (int event = 0; event < 3; event++) {
            rig_up();
            emit(first);
            AWAIT(atomic_load(&rig.roce->gone));
            emit(event); /* before it is released */
            expect_gone();
            emit(event);
            rig_close(&rig);
            fake_reset(); /* events of a removed device are not read, and are not for the next instance */
        }
    }
}

static void device_events_during_close_are_handled(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < 10; round++) {
        for (int event = 0; event < EVENTS; event++) {
            rig_up();
            send_some(3);
            emit(event);
            usleep(below(&random, 100));
            rig_close(&rig);
            fake_reset(); /* unread events are not for the next instance */
        }
    }
}

static void an_event_affects_only_its_instances(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct rig second = {.options = rig.options};

        rig_up();
        rig_log_forget();
        const struct ibv_qp *first_qp = fake.receive_qp;
        assert_int_equal(rig_open_another(&second), 0);
        fake_async_event(IBV_EVENT_QP_FATAL, first_qp);
        AWAIT(atomic_load(&rig.roce->gone));
        assert_false(atomic_load(&second.roce->gone));
        fake_async_event(IBV_EVENT_DEVICE_FATAL, NULL);
        AWAIT(atomic_load(&second.roce->gone));
        assert_int_equal(rig_flush(), 0);
        rig_close(round % 2 == 0 ? &rig : &second);
        rig_close(round % 2 == 0 ? &second : &rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stopped_send_queue_is_reset_and_sending_continues),
        TEST(packets_posted_before_a_queue_stop_is_known_are_lost),
        TEST(a_send_queue_is_reset_after_all_its_completions),
        TEST(a_failure_without_a_stop_needs_no_reset),
        TEST(an_irreparable_send_queue_ends_the_instance),
        TEST(device_events_before_a_join_are_handled),
        TEST(device_events_during_a_join_are_handled),
        TEST(device_events_with_packets_in_flight_and_queued_are_handled),
        TEST(device_events_with_lent_packets_are_handled),
        TEST(device_events_after_its_removal_are_handled),
        TEST(device_events_during_close_are_handled),
        TEST(an_event_affects_only_its_instances),
    };

    alarm(100);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
