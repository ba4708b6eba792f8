/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of other instances, and their address handles, in the RoCE transport. */
#define _GNU_SOURCE
#include "rig.h"

#include <errno.h>

static int ask(const struct lli_address *address, lli_handle *handle)
{
    return roce_transport->peer(rig.roce, address, handle);
}

static void a_handle_is_created_once_by_another_thread(void **state)
{
    const struct lli_address address = rig_address(OTHER, 17, RDMA_UDP_QKEY);
    lli_handle first, second, other;
    int made;

    (void)state;
    rig_up();
    made = atomic_load(&fake.handles_made);
    assert_int_equal(ask(&address, &first), LLM_EAGAIN);
    AWAIT(ask(&address, &first) == 0);
    assert_false(pthread_equal(atomic_load(&fake.handle_thread), pthread_self()));
    assert_int_equal(ask(&address, &second), 0);
    assert_int_equal(first, second);
    assert_int_equal(atomic_load(&fake.handles_made), made + 1);
    other = rig_peer(OTHER, 18);
    assert_int_not_equal(other, first);
}

static void a_failed_handle_is_tried_again_after_a_second(void **state)
{
    const struct lli_address address = rig_address(OTHER, 17, RDMA_UDP_QKEY);
    lli_handle handle;
    int made;

    (void)state;
    rig_up();
    made = atomic_load(&fake.handles_made);
    fake_fail(FAKE_CALL_AH, 1, EHOSTUNREACH, true);
    assert_int_equal(ask(&address, &handle), LLM_EAGAIN);
    AWAIT(rig_counter("roce_peer_errors") == 1);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(ask(&address, &handle), LLM_EAGAIN);
        usleep(200);
    }
    assert_int_equal(atomic_load(&fake.handles_made), made + 1);
    fake_clock_advance(SECOND);
    assert_int_equal(ask(&address, &handle), LLM_EAGAIN);
    AWAIT(rig_counter("roce_peer_errors") == 2);
    fake_fail(FAKE_CALL_AH, 0, 0, false);
    fake_clock_advance(SECOND);
    AWAIT(ask(&address, &handle) == 0);
    assert_int_equal(atomic_load(&fake.handles_made), made + 3);
}

static void expect_refused(const struct lli_address *address)
{
    lli_handle handle;

    assert_int_equal(ask(address, &handle), LLM_EINVAL);
}

static void invalid_addresses_are_refused(void **state)
{
    static const uint32_t numbers[] = {0, 1, 0xffffff, 0x1000000, UINT32_MAX};
    static const char *const hosts[2][7] = {
        {"239.1.2.3", "2001:db8::192.0.2.9", "192.0.2.255", "255.255.255.255", "0.0.0.0", "127.0.0.1",
         "ff15::1"},
        {"ff15::1", OTHER, "::", "::1", "239.1.2.3", "ff02::1", "127.0.0.1"}};
    struct lli_address address;

    (void)state;
    for (int v6 = 0; v6 < 2; v6++) {
        const char *good = v6 ? "2001:db8::9" : OTHER;
        int made;

        fake.device.v6 = v6 != 0;
        rig_up();
        made = atomic_load(&fake.handles_made);
        for (size_t i = 0; i < 7; i++) {
            address = rig_address(hosts[v6][i], 17, RDMA_UDP_QKEY);
            expect_refused(&address);
        }
        for (size_t i = 0; i < 5; i++) {
            address = rig_address(good, numbers[i], RDMA_UDP_QKEY);
            expect_refused(&address);
        }
        address = rig_address(good, 17, 0x80010000);
        expect_refused(&address);
        address = rig_address(good, 17, RDMA_UDP_QKEY);
        address.bytes[0] = 'u';
        expect_refused(&address);
        address.bytes[0] = 'r';
        for (uint8_t size = 0; size < 31; size++) {
            address.size = size;
            if (size != 25)
                expect_refused(&address);
        }
        assert_int_equal(atomic_load(&fake.handles_made), made);
        rig_peer(good, 2);
        rig_peer(good, 0xfffffe);
        rig_close(&rig);
    }
}

static void an_own_address_is_accepted_by_other_instances(void **state)
{
    struct lli_address address;
    const struct lli_address expected = rig_address(OWN, 0, RDMA_UDP_QKEY);
    lli_handle handle;

    (void)state;
    rig_up();
    assert_int_equal(roce_transport->address(rig.roce, &address), 0);
    assert_int_equal(address.size, expected.size);
    assert_memory_equal(address.bytes, expected.bytes, 17);
    assert_memory_equal(address.bytes + 21, expected.bytes + 21, 4);
    assert_int_equal(address.bytes[20], (uint8_t)fake.receive_qp->qp_num);
    AWAIT(ask(&address, &handle) == 0);
}

static void peers_beyond_the_limit_are_refused(void **state)
{
    struct lli_address address;
    lli_handle handle;

    (void)state;
    rig.options.receivers_max = 2;
    rig.options.sessions_max = 1;
    rig_up();
    for (uint32_t i = 0; i < 3; i++)
        rig_peer(OTHER, 100 + i);
    address = rig_address(OTHER, 103, RDMA_UDP_QKEY);
    assert_int_equal(ask(&address, &handle), LLM_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_handle_is_created_once_by_another_thread),
        TEST(a_failed_handle_is_tried_again_after_a_second),
        TEST(invalid_addresses_are_refused),
        TEST(an_own_address_is_accepted_by_other_instances),
        TEST(peers_beyond_the_limit_are_refused),
    };

    alarm(100);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
