/* SPDX-License-Identifier: Apache-2.0 */
/* Sending by the RoCE transport: requests to the device, and the time from which memory may be reused. */
#define _GNU_SOURCE
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>

enum { LARGE = 1000 }; /* size of a packet that is not inline if less than this is granted */

/* Opens an instance whose packets all stay in their memory until they are sent. */
static void up_without_inline(void)
{
    fake.device.inline_granted = 0;
    rig_up();
}

static void expect_sent(uint32_t at, size_t offset, uint32_t size)
{
    assert_in_range(at + 1, 1, fake.sent_count);
    assert_ptr_equal(fake.sent[at].data, rig.memory + offset);
    assert_int_equal(fake.sent[at].size, size);
}

static bool is_inline(uint32_t at)
{
    return (fake.sent[at].flags & IBV_SEND_INLINE) != 0;
}

static bool is_signalled(uint32_t at)
{
    return (fake.sent[at].flags & IBV_SEND_SIGNALED) != 0;
}

/* ------------------------------------------------------------------------------------------------ posting */

static void a_flush_rings_one_doorbell_for_all_packets_in_their_order(void **state)
{
    (void)state;
    rig_up();
    assert_int_equal(rig_post_many(rig.send, 200, 20), 20);
    assert_int_equal(fake.sent_count, 0);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake.doorbells, 1);
    assert_int_equal(fake.sent_count, 20);
    for (uint32_t i = 0; i < 20; i++)
        expect_sent(i, i * 64, 200);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake.doorbells, 1);
}

static void packets_are_sent_inline_up_to_the_granted_size(void **state)
{
    static const uint32_t granted[] = {0, 64, 256};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        fake.device.inline_granted = granted[i];
        rig_up();
        fake_sent_forget();
        rig_post(rig.send, 0, granted[i] == 0 ? 1 : granted[i]);
        rig_post(rig.send, 64, granted[i] + 1);
        assert_int_equal(rig_flush(), 0);
        assert_int_equal(is_inline(0), granted[i] != 0);
        assert_false(is_inline(1));
        rig_close(&rig);
    }
}

static void a_refused_inline_size_is_reduced(void **state)
{
    static const struct {
        uint32_t most, inlined;
    } cases[] = {{200, 128}, {100, 64}, {63, 0}, {0, 0}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        fake.device.inline_most = cases[i].most;
        rig_up();
        fake_sent_forget();
        rig_post(rig.send, 0, cases[i].inlined == 0 ? 1 : cases[i].inlined);
        rig_post(rig.send, 64, cases[i].inlined + 1);
        assert_int_equal(rig_flush(), 0);
        assert_int_equal(is_inline(0), cases[i].inlined != 0);
        assert_false(is_inline(1));
        rig_close(&rig);
    }
}

static void each_packet_has_the_key_of_its_memory(void **state)
{
    static uint8_t second[8192];
    const struct lli_out packets[] = {{rig.memory, LARGE, 0},
                                      {second, LARGE, 0},
                                      {rig.memory + ARENA_BYTES - LARGE, LARGE, 0},
                                      {second + sizeof second - LARGE, LARGE, 0}};

    (void)state;
    up_without_inline();
    assert_int_equal(roce_transport->region(rig.roce, second, sizeof second), 0);
    assert_int_equal(roce_transport->post(rig.roce, packets, 4), 4);
    assert_int_equal(rig_flush(), 0); /* the device checks that each key is for its memory */
    assert_int_equal(fake.sent_count, 4);
    assert_int_equal(fake.sent[0].lkey, fake.sent[2].lkey);
    assert_int_equal(fake.sent[1].lkey, fake.sent[3].lkey);
    assert_int_not_equal(fake.sent[0].lkey, fake.sent[1].lkey);
    fake_complete_all();
    roce_transport->region_end(rig.roce, second, sizeof second);
    roce_transport->post(rig.roce, packets, 2);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake.sent_count, 5);
    assert_int_equal(rig_counter("roce_send_errors"), 1);
}

static void adjacent_regions_have_separate_keys(void **state)
{
    static uint8_t halves[2][4096];
    const struct lli_out packets[] = {{halves[0], LARGE, 0}, {halves[1], LARGE, 0}, {halves[0], LARGE, 0}};

    (void)state;
    up_without_inline();
    for (int i = 0; i < 2; i++)
        assert_int_equal(roce_transport->region(rig.roce, halves[i], sizeof halves[i]), 0);
    assert_int_equal(roce_transport->post(rig.roce, packets, 3), 3);
    assert_int_equal(rig_flush(), 0); /* the device checks that each key is for its memory */
    assert_int_equal(fake.sent_count, 3);
    assert_int_not_equal(fake.sent[0].lkey, fake.sent[1].lkey);
    fake_complete_all();
}

static void a_packet_too_large_to_send_is_lost_and_counted(void **state)
{
    (void)state;
    rig_up();
    assert_int_equal(rig.caps.payload_max, 4096);
    rig_post(rig.send, 0, 4096);
    rig_post(rig.send, 64, 4097);
    rig_post(rig.send, 128, 4096);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake.sent_count, 2);
    expect_sent(1, 128, 4096);
    assert_int_equal(rig_counter("roce_send_errors"), 1);
    fake_complete_all();
    assert_int_equal(rig_reap(), 3);
}

static void a_packet_in_unknown_memory_is_lost_and_counted(void **state)
{
    static const uint8_t unknown[LARGE];
    const struct lli_out packets[] = {{unknown, LARGE, 0}, {unknown, 64, 0}, {unknown, LARGE, 0}};

    (void)state;
    fake.device.inline_granted = 64;
    rig_up();
    assert_int_equal(roce_transport->post(rig.roce, packets, 3), 3);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake.sent_count, 1); /* inline packets need no registration */
    assert_true(is_inline(0));
    assert_int_equal(rig_counter("roce_send_errors"), 2);
    assert_int_equal(rig_reap(), 3);
}

static void each_64th_and_each_last_packet_of_a_flush_is_signalled(void **state)
{
    (void)state;
    up_without_inline();
    rig_post_many(rig.send, LARGE, 200);
    assert_int_equal(rig_flush(), 0);
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(is_signalled(i), i % 64 == 63 || i == 199);
    rig_post(rig.send, 0, LARGE);
    assert_int_equal(rig_flush(), 0);
    assert_true(is_signalled(200));
}

static void the_last_packet_of_a_flush_is_signalled_if_inline(void **state)
{
    (void)state;
    rig_up();
    rig_post(rig.send, 0, 10);
    rig_post(rig.send, 0, 10);
    assert_int_equal(rig_flush(), 0);
    assert_false(is_signalled(0));
    assert_true(is_signalled(1));
}

static void packets_to_a_group_have_its_address_port_and_mark(void **state)
{
    static const uint8_t group[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
    lli_handle quiet;

    (void)state;
    rig.options.ttl = 7;
    rig.options.loop = 1;
    rig_up();
    rig.options.loop = 0;
    assert_int_equal(rig_join(GROUP, 65535, LLI_JOIN_SEND, &quiet), 0);
    assert_int_not_equal(quiet, rig.send);
    rig_post(rig.send, 0, 10);
    rig_post(quiet, 0, 10);
    assert_int_equal(rig_flush(), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_memory_equal(fake.sent[i].route.grh.dgid.raw, group, 16);
        assert_int_equal(fake.sent[i].route.grh.hop_limit, 7);
        assert_int_equal(fake.sent[i].route.grh.sgid_index, 3);
        assert_int_equal(fake.sent[i].qp_number, FAKE_GROUP_QPN);
        assert_int_equal(fake.sent[i].qkey, RDMA_UDP_QKEY);
    }
    assert_int_equal(fake.sent[0].note, LLI_ROCE_MARK | PORT);
    assert_int_equal(fake.sent[1].note, LLI_ROCE_MARK | LLI_ROCE_NO_LOOP | 65535);
    assert_int_equal(fake_group_flags(GROUP, true), RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
    assert_int_equal(fake_group_flags(GROUP, false), RDMA_MC_JOIN_FLAG_FULLMEMBER);
}

static void packets_to_a_peer_have_its_address_and_no_port(void **state)
{
    static const uint8_t host[16] = {[10] = 0xff, 0xff, 192, 0, 2, 9};
    lli_handle peer;

    (void)state;
    rig_up();
    peer = rig_peer(OTHER, 0x1234);
    rig_post(peer, 0, 10);
    assert_int_equal(rig_flush(), 0);
    assert_memory_equal(fake.sent[0].route.grh.dgid.raw, host, 16);
    assert_int_equal(fake.sent[0].route.grh.sgid_index, 3);
    assert_int_equal(fake.sent[0].route.grh.hop_limit, 64);
    assert_int_equal(fake.sent[0].qp_number, 0x1234);
    assert_int_equal(fake.sent[0].qkey, RDMA_UDP_QKEY);
    assert_int_equal(fake.sent[0].note, LLI_ROCE_MARK);
}

static void posts_are_limited_by_post_max_and_the_queue(void **state)
{
    uint32_t posted = 0;
    int taken;

    (void)state;
    up_without_inline();
    assert_int_equal(rig_post_many(rig.send, LARGE, 1000), (int)rig.caps.post_max);
    do {
        assert_int_equal(rig_flush(), 0);
        posted = fake.sent_count;
        taken = rig_post_many(rig.send, LARGE, (int)rig.caps.post_max);
    } while (taken > 0);
    assert_int_equal(posted, LLI_ROCE_SEND_DEPTH);
    fake_complete(64);
    assert_int_equal(rig_post_many(rig.send, LARGE, 1000), 64);
    assert_int_equal(rig_flush(), 0);
}

static void a_small_device_gets_small_queues(void **state)
{
    (void)state;
    fake.device.depth_max = 100;
    up_without_inline();
    assert_int_equal(rig.caps.post_max, 32);
    assert_int_equal(fake_buffers(), 64);
    for (int round = 0; round < 10; round++) {
        while (rig_post(rig.send, 0, LARGE) == 1)
            assert_int_equal(rig_flush(), 0);
        assert_int_equal(fake_in_flight(), 64);
        fake_complete_all();
        assert_int_equal(rig_reap(), 64 * (uint64_t)(round + 1));
    }
}

/* ------------------------------------------------------------------------------------------------ reaping */

static void memory_is_freed_in_order_after_its_completion(void **state)
{
    (void)state;
    up_without_inline();
    rig_post_many(rig.send, LARGE, 130);
    assert_int_equal(rig_reap(), 0);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(rig_reap(), 0);
    fake_complete(63);
    assert_int_equal(rig_reap(), 0);
    fake_complete(1);
    assert_int_equal(rig_reap(), 64);
    fake_complete(65);
    assert_int_equal(rig_reap(), 128);
    fake_complete(1);
    assert_int_equal(rig_reap(), 130);
}

static void memory_of_inline_packets_is_freed_after_earlier_packets(void **state)
{
    (void)state;
    fake.device.inline_granted = 64;
    rig_up();
    rig_post_many(rig.send, 64, 3);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(rig_reap(), 3);
    rig_post(rig.send, 0, LARGE);
    rig_post(rig.send, 0, 64);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(rig_reap(), 3);
    fake_complete_all();
    assert_int_equal(rig_reap(), 5);
}

/*
 * Packets that are inline, read by the device, and lost, in all orders of five; flushed one by one, or
 * together.
 */
static void memory_is_freed_up_to_the_first_packet_still_read(void **state)
{
    static const uint32_t sizes[] = {64, LARGE, 4097};
    uint64_t before = 0;

    (void)state;
    fake.device.inline_granted = 64;
    rig_up();
    for (uint32_t mixed = 0; mixed < 2 * 3 * 3 * 3 * 3 * 3; mixed++) {
        uint64_t free = before;
        bool reads = false;

        fake_sent_forget();
        for (uint32_t i = 0, left = mixed / 2; i < 5; i++, left /= 3) {
            rig_post(rig.send, (size_t)i * 64, sizes[left % 3]);
            reads |= left % 3 == 1;
            free += !reads;
            if (mixed % 2 == 0 && i < 4)
                continue;
            assert_int_equal(rig_flush(), 0);
            assert_int_equal(rig_reap(), free);
        }
        fake_complete_all();
        before += 5;
        assert_int_equal(rig_reap(), before);
    }
}

static void completions_may_be_repeated_late_or_reordered(void **state)
{
    uint64_t first, second, third;

    (void)state;
    up_without_inline();
    rig_post_many(rig.send, LARGE, 192);
    assert_int_equal(rig_flush(), 0);
    first = fake.sent[63].wr_id;
    second = fake.sent[127].wr_id;
    third = fake.sent[191].wr_id;
    fake_notice(second, IBV_WC_SUCCESS);
    assert_int_equal(rig_reap(), 128);
    fake_notice(first, IBV_WC_SUCCESS);
    fake_notice(second, IBV_WC_SUCCESS);
    assert_int_equal(rig_reap(), 128);
    fake_notice(third, IBV_WC_SUCCESS);
    fake_notice(third, IBV_WC_SUCCESS);
    fake_notice(first, IBV_WC_SUCCESS);
    assert_int_equal(rig_reap(), 192);
    rig_post_many(rig.send, LARGE, 10);
    assert_int_equal(rig_flush(), 0);
    fake_notice(third, IBV_WC_SUCCESS);
    assert_int_equal(rig_reap(), 192);
    fake_notice(third + 11, IBV_WC_SUCCESS); /* of a packet that was never posted */
    assert_int_equal(rig_reap(), 192);
}

static void a_repeated_completion_frees_nothing_of_a_full_queue(void **state)
{
    (void)state;
    up_without_inline();
    rig_post(rig.send, 0, LARGE);
    assert_int_equal(rig_flush(), 0);
    fake_complete_all();
    assert_int_equal(rig_reap(), 1);
    while (rig_post(rig.send, 0, LARGE) == 1)
        assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake_in_flight(), LLI_ROCE_SEND_DEPTH);
    fake_notice(fake.sent[0].wr_id, IBV_WC_SUCCESS);
    assert_int_equal(rig_reap(), 1);
    fake_complete_all();
    assert_int_equal(rig_reap(), 1 + LLI_ROCE_SEND_DEPTH);
}

/* ------------------------------------------------------------------------------------------ full, refused */

static void packets_beyond_the_room_of_the_device_leave_later_in_order(void **state)
{
    static const int errors[] = {ENOMEM, EAGAIN, EBUSY};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        up_without_inline();
        fake_sent_forget();
        rig_post_many(rig.send, LARGE, 20);
        fake.send_refuse_after = 7;
        fake.send_refuse_error = errors[i];
        assert_int_equal(rig_flush(), LLM_EAGAIN);
        assert_int_equal(fake.sent_count, 7);
        assert_int_equal(rig_counter("roce_send_waits"), 1);
        assert_int_equal(rig_post(rig.send, 20 * 64, LARGE), 1);
        assert_int_equal(rig_flush(), 0);
        assert_int_equal(fake.sent_count, 21);
        for (uint32_t at = 0; at < 21; at++)
            expect_sent(at, at * 64, LARGE);
        assert_true(is_signalled(7)); /* it is unknown if an earlier one is */
        fake_complete_all();
        assert_int_equal(rig_reap(), 21);
        assert_int_equal(rig_counter("roce_send_errors"), 0);
        rig_close(&rig);
    }
}

static void a_packet_refused_by_the_device_is_lost_alone(void **state)
{
    (void)state;
    up_without_inline();
    for (int at = 0; at < 5; at++) {
        fake_sent_forget();
        rig_post_many(rig.send, LARGE, 5);
        fake.send_refuse_after = at;
        fake.send_refuse_error = EINVAL;
        assert_int_equal(rig_flush(), 0);
        assert_int_equal(fake.sent_count, 4);
        for (int i = 0; i < 4; i++)
            expect_sent((uint32_t)i, (size_t)(i < at ? i : i + 1) * 64, LARGE);
        assert_int_equal(rig_counter("roce_send_errors"), (uint64_t)at + 1);
        fake_complete_all();
        rig_post(rig.send, 0, LARGE); /* signals, in place of the earlier packets that may not */
        assert_int_equal(rig_flush(), 0);
        fake_complete_all();
        assert_int_equal(rig_reap(), 6 * ((uint64_t)at + 1));
    }
}

/* ---------------------------------------------------------------------------------------- leaving, ending */

static void leaving_a_group_waits_for_posted_and_drops_queued_packets(void **state)
{
    lli_handle other;
    uint64_t before;

    (void)state;
    rig_up();
    assert_int_equal(rig_join("239.1.2.4", PORT, LLI_JOIN_SEND, &other), 0);
    rig_post(rig.send, 0, LARGE);
    rig_post(rig.send, 64, 10); /* inline */
    assert_int_equal(rig_flush(), 0);
    rig_post(rig.send, 128, LARGE);
    rig_post(other, 192, LARGE);
    fake.complete_when_polled = true;
    before = llm_clock();
    rig_leave(rig.send, LLI_JOIN_SEND); /* the device checks if the handle is still needed */
    assert_true(llm_clock() - before < SECOND / 2);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake.sent_count, 3);
    expect_sent(2, 192, LARGE);
    assert_int_equal(rig_counter("roce_send_errors"), 1);
    AWAIT(rig_reap() == 4);
    assert_int_equal(fake_group_flags(GROUP, true), -1);
    assert_int_not_equal(fake_group_flags("239.1.2.4", true), -1);
}

static void a_group_can_be_joined_and_left_any_number_of_times(void **state)
{
    (void)state;
    rig_up();
    fake.complete_when_polled = true;
    for (int i = 0; i < 1000; i++) {
        rig_leave(rig.send, LLI_JOIN_SEND);
        assert_int_equal(rig_join(GROUP, PORT, LLI_JOIN_SEND, &rig.send), 0);
        rig_post(rig.send, 0, i % 2 != 0 ? LARGE : 10);
        assert_int_equal(rig_flush(), 0);
    }
    AWAIT(rig_reap() == 1000);
    assert_int_equal(fake.sent_count, 1000);
}

static void ending_a_region_waits_for_posted_and_drops_queued_packets(void **state)
{
    static uint8_t second[8192];
    const struct lli_out packet = {second + 100, LARGE, 0};
    uint64_t before;

    (void)state;
    rig_up();
    assert_int_equal(roce_transport->region(rig.roce, second, sizeof second), 0);
    assert_int_equal(roce_transport->post(rig.roce, &packet, 1), 1);
    rig_post(rig.send, 0, 10); /* the last packet of the flush is inline */
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(roce_transport->post(rig.roce, &packet, 1), 1);
    rig_post(rig.send, 0, LARGE);
    fake.complete_when_polled = true;
    before = llm_clock();
    /* The device checks if the memory is still needed. */
    roce_transport->region_end(rig.roce, second, sizeof second);
    assert_true(llm_clock() - before < SECOND / 2);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(fake.sent_count, 3);
    assert_int_equal(rig_counter("roce_send_errors"), 1);
    AWAIT(rig_reap() == 4);
}

static void regions_and_joins_beyond_the_limit_are_refused(void **state)
{
    lli_handle handle;

    (void)state;
    rig_up();
    for (int i = 1; i < LLI_ROCE_REGIONS_MAX; i++)
        assert_int_equal(roce_transport->region(rig.roce, rig.memory + 64 * i, 64), 0);
    assert_int_equal(roce_transport->region(rig.roce, rig.memory, 64), LLM_ELIMIT);
    rig_expect_log("more than 256 transmitters on interface fake0; use a second context");
    for (int i = 1; i < LLI_ROCE_GROUPS_MAX; i++)
        assert_int_equal(rig_join(GROUP, (uint16_t)(PORT + i), LLI_JOIN_SEND, &handle), 0);
    assert_int_equal(rig_join(GROUP, 1, LLI_JOIN_SEND, &handle), LLM_ELIMIT);
    rig_expect_log("more than 256 joins to send on interface fake0; use a second context");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_flush_rings_one_doorbell_for_all_packets_in_their_order),
        TEST(packets_are_sent_inline_up_to_the_granted_size),
        TEST(a_refused_inline_size_is_reduced),
        TEST(each_packet_has_the_key_of_its_memory),
        TEST(adjacent_regions_have_separate_keys),
        TEST(a_packet_too_large_to_send_is_lost_and_counted),
        TEST(a_packet_in_unknown_memory_is_lost_and_counted),
        TEST(each_64th_and_each_last_packet_of_a_flush_is_signalled),
        TEST(the_last_packet_of_a_flush_is_signalled_if_inline),
        TEST(packets_to_a_group_have_its_address_port_and_mark),
        TEST(packets_to_a_peer_have_its_address_and_no_port),
        TEST(posts_are_limited_by_post_max_and_the_queue),
        TEST(a_small_device_gets_small_queues),
        TEST(memory_is_freed_in_order_after_its_completion),
        TEST(memory_of_inline_packets_is_freed_after_earlier_packets),
        TEST(memory_is_freed_up_to_the_first_packet_still_read),
        TEST(completions_may_be_repeated_late_or_reordered),
        TEST(a_repeated_completion_frees_nothing_of_a_full_queue),
        TEST(packets_beyond_the_room_of_the_device_leave_later_in_order),
        TEST(a_packet_refused_by_the_device_is_lost_alone),
        TEST(leaving_a_group_waits_for_posted_and_drops_queued_packets),
        TEST(a_group_can_be_joined_and_left_any_number_of_times),
        TEST(ending_a_region_waits_for_posted_and_drops_queued_packets),
        TEST(regions_and_joins_beyond_the_limit_are_refused),
    };

    alarm(100);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
