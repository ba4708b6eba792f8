/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forgotten addresses of the RoCE transport: their handles are destroyed, but not while the device, the queue
 * or the control thread uses them. The fake device ends a test that destroys one too early; a handle left at
 * a test's end is a failure too.
 */
#define _GNU_SOURCE
#include "rig.h"

#include <errno.h>

enum { LARGE = 1000 };

static struct lli_address address_of(uint32_t number)
{
    return rig_address(OTHER, 100 + number, RDMA_UDP_QKEY);
}

static int ask(uint32_t number, lli_handle *handle)
{
    const struct lli_address address = address_of(number);

    return roce_transport->peer(rig.roce, &address, handle);
}

static lli_handle reach(uint32_t number)
{
    return rig_peer(OTHER, 100 + number);
}

static void forget(uint32_t number)
{
    const struct lli_address address = address_of(number);

    roce_transport->forget(rig.roce, &address);
}

static void small_table_up(uint32_t places)
{
    rig.options.receivers_max = places - 1;
    rig.options.sessions_max = 1;
    rig_up();
}

/* The control thread begins to create a handle, and blocks. */
static void begin_to_make(uint32_t number)
{
    lli_handle handle;

    atomic_store(&fake.hold_handles, true);
    assert_int_equal(ask(number, &handle), LLM_EAGAIN);
    AWAIT(atomic_load(&fake.held_handles) == 1);
}

static void end_making(void)
{
    atomic_store(&fake.hold_handles, false);
    AWAIT(atomic_load(&fake.held_handles) == 0);
}

/* ------------------------------------------------------------------------------------- resolved addresses */

static void an_unused_handle_and_its_place_are_freed_at_once(void **state)
{
    lli_handle first;
    int before;

    (void)state;
    rig_up();
    before = fake_handles();
    forget(1); /* an address that was never used */
    assert_int_equal(rig_counter("roce_peers_forgotten"), 0);
    first = reach(1);
    assert_int_equal(fake_handles(), before + 1);
    forget(1);
    assert_int_equal(fake_handles(), before);
    assert_int_equal(rig_counter("roce_peers_forgotten"), 1);
    assert_int_equal(reach(2), first);
    assert_int_not_equal(reach(1), first);
}

/* First it is queued, then the device has it. */
static void a_handle_stays_until_its_packets_are_completed(void **state)
{
    lli_handle peer;
    int handles;

    (void)state;
    rig_up();
    peer = reach(1);
    handles = fake_handles();
    rig_post(peer, 0, LARGE);
    forget(1);
    assert_int_equal(fake_handles(), handles);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake.sent_count, 1);
    assert_int_equal(fake.sent[0].qp_number, 101);
    forget(2);
    forget(1);
    assert_int_equal(fake_handles(), handles);
    assert_int_not_equal(reach(2), peer);
    fake_complete_all();
    forget(3);
    assert_int_equal(fake_handles(), handles);
    assert_int_equal(rig_counter("roce_peers_forgotten"), 1);
    assert_int_equal(reach(3), peer);
}

static void later_packets_to_other_peers_do_not_delay_forgetting(void **state)
{
    lli_handle peer;
    int handles;

    (void)state;
    rig_up();
    peer = reach(1);
    handles = fake_handles();
    rig_post(peer, 0, LARGE);
    assert_int_equal(rig_flush(), 0);
    forget(1);
    rig_post(rig.send, 0, LARGE);
    assert_int_equal(rig_flush(), 0);
    fake_complete(1);
    forget(1);
    assert_int_equal(fake_handles(), handles - 1);
    assert_int_equal(fake_in_flight(), 1);
}

static void a_peer_requested_again_before_it_is_freed_is_unchanged(void **state)
{
    lli_handle peer, again;
    int made;

    (void)state;
    rig_up();
    peer = reach(1);
    made = atomic_load(&fake.handles_made);
    for (int i = 0; i < 10; i++) {
        rig_post(peer, 0, LARGE);
        assert_int_equal(rig_flush(), 0);
        forget(1);
        assert_int_equal(ask(1, &again), 0);
        assert_int_equal(again, peer);
    }
    fake_complete_all();
    forget(2);
    assert_int_equal(atomic_load(&fake.handles_made), made);
    assert_int_equal(rig_counter("roce_peers_forgotten"), 0);
    forget(1);
    assert_int_equal(rig_counter("roce_peers_forgotten"), 1);
}

/* ------------------------------------------------------------------------------- addresses being resolved */

static void a_peer_forgotten_during_creation_is_freed_after_it(void **state)
{
    lli_handle handle;
    int before;

    (void)state;
    small_table_up(2);
    before = fake_handles();
    begin_to_make(1);
    forget(1);
    forget(1);
    assert_int_equal(rig_counter("roce_peers_forgotten"), 0);
    /* There is one more entry, which is free soon. */
    assert_int_equal(ask(2, &handle), LLM_EAGAIN);
    assert_int_equal(ask(3, &handle), LLM_EAGAIN);
    end_making();
    AWAIT(ask(2, &handle) == 0);
    AWAIT(ask(3, &handle) == 0);
    assert_int_equal(rig_counter("roce_peers_forgotten"), 1);
    AWAIT(fake_handles() == before + 2);
    assert_int_equal(ask(4, &handle), LLM_ELIMIT);
    assert_true(rig_counter("roce_peers_full") >= 2);
}

static void a_peer_requested_again_during_creation_is_created_once(void **state)
{
    lli_handle handle;
    int made;

    (void)state;
    rig_up();
    made = atomic_load(&fake.handles_made);
    begin_to_make(1);
    forget(1);
    assert_int_equal(ask(1, &handle), LLM_EAGAIN);
    end_making();
    AWAIT(ask(1, &handle) == 0);
    assert_int_equal(atomic_load(&fake.handles_made), made + 1);
    forget(1);
    assert_int_equal(rig_counter("roce_peers_forgotten"), 1);
}

static void a_peer_forgotten_before_creation_is_never_created(void **state)
{
    lli_handle handle;
    int made;

    (void)state;
    rig_up();
    begin_to_make(1);
    made = atomic_load(&fake.handles_made);
    assert_int_equal(ask(2, &handle), LLM_EAGAIN);
    forget(2);
    assert_int_equal(rig_counter("roce_peers_forgotten"), 1);
    end_making();
    AWAIT(ask(1, &handle) == 0);
    assert_int_equal(reach(3), handle + 1);
    assert_int_equal(atomic_load(&fake.handles_made), made + 1);
}

/* A failed address is retried after a second, or at once if it was forgotten. */
static void a_failed_peer_leaves_nothing(void **state)
{
    lli_handle handle;
    int before;

    (void)state;
    small_table_up(1);
    before = fake_handles();
    fake_fail(FAKE_CALL_AH, 1, EHOSTUNREACH, true);
    assert_int_equal(ask(1, &handle), LLM_EAGAIN);
    AWAIT(rig_counter("roce_peer_errors") == 1);
    AWAIT(ask(2, &handle) == LLM_ELIMIT);
    forget(1);
    assert_int_equal(rig_counter("roce_peers_forgotten"), 1);
    /* And one that is forgotten before it fails. */
    begin_to_make(2);
    forget(2);
    end_making();
    AWAIT(rig_counter("roce_peer_errors") == 2);
    fake_fail(FAKE_CALL_AH, 0, 0, false);
    AWAIT(ask(1, &handle) == 0);
    assert_int_equal(fake_handles(), before + 1);
}

/* ------------------------------------------------------------------------------------------- random order */

/* In any order of calls a known handle sends to its address, and no entry is lost. */
static void random_requests_and_forgets_mix_up_no_handle(void **state)
{
    enum { ADDRESSES = 7, PLACES = 4 };
    bool known[ADDRESSES] = {false};
    lli_handle handles[ADDRESSES];
    uint64_t random = 11;
    int before;

    (void)state;
    small_table_up(PLACES);
    before = fake_handles();
    for (int i = 0; i < 30000; i++) {
        const uint32_t number = below(&random, ADDRESSES);
        const int status = chance(&random, 50) ? ask(number, &handles[number]) : 1;

        assert_true(status != LLM_EINVAL && (status <= 0 || status == 1));
        known[number] = known[number] || status == 0;
        if (chance(&random, 20) || (known[number] && chance(&random, 50))) {
            forget(number);
            known[number] = false;
        } else if (known[number] && fake_in_flight() < 50) {
            rig_post(handles[number], 0, LARGE);
            assert_int_equal(rig_flush(), 0);
            assert_int_equal(fake.sent[fake.sent_count - 1].qp_number, 100 + number);
        }
        if (chance(&random, 20))
            fake_complete(below(&random, 1 + fake_in_flight()));
        if (chance(&random, 3))
            usleep(50);
        if (fake.sent_count > FAKE_SENT_MAX / 2)
            fake_sent_forget();
    }
    fake_complete_all();
    for (uint32_t number = 0; number < ADDRESSES; number++)
        forget(number);
    AWAIT((forget(ADDRESSES), fake_handles() == before));
    assert_true(rig_counter("roce_peers_forgotten") > 100);
    for (uint32_t number = 0; number < PLACES; number++)
        reach(number);
    assert_int_equal(ask(PLACES, &handles[0]), LLM_ELIMIT);
}

/* Addresses in every possible state, forgotten or not. */
static void a_removed_device_frees_all_handles(void **state)
{
    (void)state;
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        lli_handle handle;

        rig_up();
        rig_post(reach(1), 0, LARGE);
        assert_int_equal(rig_flush(), 0);
        reach(2);
        begin_to_make(3);
        assert_int_equal(ask(4, &handle), LLM_EAGAIN);
        for (uint32_t number = 1; forgotten && number <= 4; number++)
            forget(number);
        fake_id_event(RDMA_CM_EVENT_DEVICE_REMOVAL);
        end_making();
        AWAIT(atomic_load(&rig.roce->gone));
        for (uint32_t number = 1; number <= 4; number++)
            forget(number);
        AWAIT(fake_handles() == 0);
        forget(1);
        (void)ask(1, &handle);
        (void)ask(5, &handle);
        rig_close(&rig);
        fake_reset();
    }
}

static void an_instance_may_be_closed_with_peers_in_every_state(void **state)
{
    (void)state;
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        lli_handle handle;

        rig_up();
        rig_post(reach(1), 0, LARGE);
        assert_int_equal(rig_flush(), 0);
        reach(2);
        assert_int_equal(ask(3, &handle), LLM_EAGAIN);
        for (uint32_t number = 1; forgotten && number <= 3; number++)
            forget(number);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unused_handle_and_its_place_are_freed_at_once),
        TEST(a_handle_stays_until_its_packets_are_completed),
        TEST(later_packets_to_other_peers_do_not_delay_forgetting),
        TEST(a_peer_requested_again_before_it_is_freed_is_unchanged),
        TEST(a_peer_forgotten_during_creation_is_freed_after_it),
        TEST(a_peer_requested_again_during_creation_is_created_once),
        TEST(a_peer_forgotten_before_creation_is_never_created),
        TEST(a_failed_peer_leaves_nothing),
        TEST(random_requests_and_forgets_mix_up_no_handle),
        TEST(a_removed_device_frees_all_handles),
        TEST(an_instance_may_be_closed_with_peers_in_every_state),
    };

    alarm(100);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
