/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving by the RoCE transport: origin of packets, and return of buffers. */
#define _GNU_SOURCE
#include "rig.h"

#include <poll.h>

enum { BUFFERS = 256, PORTS = LLI_ROCE_GROUPS_MAX, MODEL_STEPS = 100000 };

static struct fake_packet to_group(const char *group, uint16_t port)
{
    return (struct fake_packet){.source = fake.device.v6 ? "2001:db8::9" : OTHER,
                                .to = group,
                                .note = rig_note(port),
                                .size = 100,
                                .which = 1};
}

/* Devices of the tests: completions iterated in place, on soft-RoCE, and polled. */
enum { WALKED, STEPPED, POLLED, DEVICES };

static void device_is(int which)
{
    fake.device.no_walk = which == POLLED;
    fake.device.vendor = which == STEPPED ? FAKE_VENDOR_SOFT_ROCE : 0x15b3;
}

static void expect_packet(const struct fake_packet *packet, lli_handle from)
{
    struct lli_in got;

    assert_true(fake_arrive(packet));
    assert_int_equal(rig_receive(&got, 1), 1);
    assert_int_equal(got.from, from);
    assert_int_equal(got.size, packet->size);
    assert_int_equal((uintptr_t)got.data % rig.caps.align, 0);
    pattern_check(got.data, got.size, packet->which);
    rig_release(&got, 1);
}

/*
 * Expects that a packet is dropped and counted; its buffer returns, or many such packets would empty the
 * queue.
 */
static void expect_foreign(const struct fake_packet *packet)
{
    const uint64_t before = rig_counter("roce_foreign");
    struct lli_in got[4];

    for (int i = 0; i < 2 * BUFFERS; i++) {
        assert_true(fake_arrive(packet));
        assert_int_equal(rig_receive(got, 4), 0);
    }
    assert_int_equal(rig_counter("roce_foreign"), before + 2 * BUFFERS);
}

/* -------------------------------------------------------------------------------------- origin of packets */

static void packets_are_returned_in_order_without_their_grh(void **state)
{
    struct lli_in got[BUFFERS];

    (void)state;
    for (int device = 0; device < DEVICES; device++) {
        device_is(device);
        rig_up();
        for (uint64_t i = 0; i < 100; i++) {
            struct fake_packet packet = to_group(GROUP, PORT);

            packet.which = i;
            packet.size = (uint32_t)i * 40;
            assert_true(fake_arrive(&packet));
        }
        for (int at = 0; at < 12; at += 3)
            assert_int_equal(rig_receive(got + at, 3), 3);
        assert_int_equal(rig_receive(got + 12, BUFFERS), 88);
        for (uint64_t i = 0; i < 100; i++) {
            assert_int_equal(got[i].size, i * 40);
            assert_int_equal(got[i].from, rig.receive);
            assert_int_equal(got[i].stamp_ns, 0);
            pattern_check(got[i].data, got[i].size, i);
        }
        rig_release(got, 100);
        assert_int_equal(fake_buffers(), BUFFERS);
        rig_close(&rig);
    }
}

/* The library of soft-RoCE loses count before rdma-core 55. */
static void soft_roce_is_polled_for_one_completion_at_a_time(void **state)
{
    const struct fake_packet packet = to_group(GROUP, PORT);
    struct lli_in got[8];

    (void)state;
    device_is(STEPPED);
    rig_up();
    for (int i = 0; i < 5; i++)
        fake_arrive(&packet);
    assert_int_equal(rig_receive(got, 8), 5);
    assert_int_equal(fake.next_polls, 0);
    rig_release(got, 5);
}

static void a_device_without_completion_queue_flags_is_polled_in_batches(void **state)
{
    const struct fake_packet packet = to_group(GROUP, PORT);
    struct lli_in got[8];

    (void)state;
    fake.device.no_cq_flags = true;
    rig_up();
    fake_arrive(&packet);
    fake_arrive(&packet);
    assert_int_equal(rig_receive(got, 8), 2);
    assert_int_not_equal(fake.next_polls, 0);
    rig_release(got, 2);
}

static void packets_are_time_stamped_if_configured_and_supported(void **state)
{
    struct fake_packet packet = to_group(GROUP, PORT);
    struct lli_in got;

    (void)state;
    packet.stamp_ns = 1234567890123456789;
    rig.options.timestamps = 1;
    rig_up();
    fake_arrive(&packet);
    assert_int_equal(rig_receive(&got, 1), 1);
    assert_int_equal(got.stamp_ns, packet.stamp_ns);
    rig_release(&got, 1);
    rig_close(&rig);
    fake.device.no_stamps = true;
    rig_up();
    rig_expect_log("timestamps=1: device fake_0 does not stamp packets");
    fake_arrive(&packet);
    assert_int_equal(rig_receive(&got, 1), 1);
    assert_int_equal(got.stamp_ns, 0);
    rig_release(&got, 1);
}

static void groups_are_distinguished_by_address_and_port(void **state)
{
    static const char *const groups[2][2] = {{GROUP, "239.1.2.4"}, {GROUP_V6, "ff15::1:2:4"}};

    (void)state;
    for (int v6 = 0; v6 < 2; v6++) {
        lli_handle handles[2][2];

        fake.device.v6 = v6 != 0;
        rig_up();
        for (int g = 0; g < 2; g++)
            for (uint16_t p = 0; p < 2; p++)
                assert_int_equal(
                    rig_join(groups[v6][g], (uint16_t)(PORT + p), LLI_JOIN_RECEIVE, &handles[g][p]), 0);
        assert_int_equal(handles[0][0], rig.receive);
        for (int round = 0; round < 20; round++) {
            const struct fake_packet packet =
                to_group(groups[v6][round & 1], (uint16_t)(PORT + (round / 2 & 1)));

            expect_packet(&packet, handles[round & 1][round / 2 & 1]);
        }
        rig_leave(handles[1][0], LLI_JOIN_RECEIVE);
        const struct fake_packet left = to_group(groups[v6][1], PORT),
                                 other = to_group(groups[v6][1], PORT + 1);
        expect_foreign(&left);
        expect_packet(&other, handles[1][1]);
        rig_leave(rig.receive, LLI_JOIN_RECEIVE); /* it was joined twice */
        const struct fake_packet twice = to_group(groups[v6][0], PORT);
        expect_packet(&twice, rig.receive);
        rig_leave(rig.receive, LLI_JOIN_RECEIVE);
        expect_foreign(&twice);
        rig_close(&rig);
    }
}

/* The ports are so many that some collide in the hash table. */
static void all_ports_of_a_group_are_distinguished(void **state)
{
    lli_handle handles[PORTS];

    (void)state;
    rig_up();
    handles[0] = rig.receive;
    for (uint16_t i = 1; i < PORTS; i++)
        assert_int_equal(rig_join(GROUP, (uint16_t)(PORT + i), LLI_JOIN_RECEIVE, &handles[i]), 0);
    for (uint16_t i = 0; i < PORTS; i++) {
        const struct fake_packet packet = to_group(GROUP, (uint16_t)(PORT + i));

        expect_packet(&packet, handles[i]);
    }
    for (uint16_t i = 0; i < PORTS; i += 2)
        rig_leave(handles[i], LLI_JOIN_RECEIVE);
    for (uint16_t i = 0; i < PORTS; i++) {
        const struct fake_packet packet = to_group(GROUP, (uint16_t)(PORT + i));
        struct lli_in got;

        if (i % 2 == 1)
            expect_packet(&packet, handles[i]);
        else
            assert_int_equal((fake_arrive(&packet), rig_receive(&got, 1)), 0);
    }
}

static void packets_to_this_instance_are_unicasts(void **state)
{
    struct fake_packet packet = to_group(OWN, 0);

    (void)state;
    rig_up();
    expect_packet(&packet, LLI_HANDLE_UNICAST);
}

static void foreign_packets_are_dropped_and_counted(void **state)
{
    struct fake_packet bare = to_group(GROUP, PORT), marked = bare, port = to_group(GROUP, PORT + 1),
                       truncated = bare;
    const struct fake_packet group = to_group("239.9.9.9", PORT);

    (void)state;
    bare.bare = true;
    marked.note ^= 1u << 30;
    truncated.truncated = true;
    for (int device = 0; device < DEVICES; device++) {
        device_is(device);
        rig_up();
        expect_foreign(&bare);
        expect_foreign(&marked);
        expect_foreign(&port);
        expect_foreign(&truncated);
        expect_foreign(&group);
        rig_close(&rig);
    }
}

static void packets_of_the_own_host_are_dropped_if_marked(void **state)
{
    struct fake_packet own = to_group(GROUP, PORT), other;

    (void)state;
    own.source = OWN;
    other = own;
    other.source = OTHER;
    rig_up();
    expect_packet(&own, rig.receive);
    own.note |= LLI_ROCE_NO_LOOP;
    other.note |= LLI_ROCE_NO_LOOP;
    expect_foreign(&own);
    expect_packet(&other, rig.receive);
}

static void a_join_with_a_source_receives_its_packets_only(void **state)
{
    struct fake_packet from = to_group("239.1.2.4", PORT);
    lli_handle handle, again;

    (void)state;
    rig_up();
    strcpy(rig.options.source, OTHER);
    assert_int_equal(rig_join("239.1.2.4", PORT, LLI_JOIN_RECEIVE, &handle), 0);
    assert_int_equal(rig_join("239.1.2.4", PORT, LLI_JOIN_RECEIVE, &again), 0);
    assert_int_equal(handle, again);
    expect_packet(&from, handle);
    from.source = "192.0.2.8";
    expect_foreign(&from);
    strcpy(rig.options.source, "192.0.2.8");
    assert_int_equal(rig_join("239.1.2.4", PORT, LLI_JOIN_RECEIVE, &again), LLM_EOPTION);
    rig_expect_log("is joined with another source already; use a second context");
}

/* ------------------------------------------------------------------------------------------------ buffers */

static void an_error_costs_a_packet_and_no_buffer(void **state)
{
    struct fake_packet good = to_group(GROUP, PORT), bad = good;
    struct lli_in got[BUFFERS];

    (void)state;
    bad.status = IBV_WC_LOC_LEN_ERR;
    for (int device = 0; device < DEVICES; device++) {
        device_is(device);
        rig_up();
        for (int i = 0; i < 2 * BUFFERS; i++) {
            assert_true(fake_arrive(&bad));
            assert_true(fake_arrive(&good));
            assert_int_equal(rig_receive(got, 4), 1);
            assert_int_equal(got[0].from, rig.receive);
            rig_release(got, 1);
        }
        assert_int_equal(rig_counter("roce_receive_errors"), 2 * BUFFERS);
        rig_close(&rig);
    }
}

static void buffers_are_posted_in_batches(void **state)
{
    const struct fake_packet packet = to_group(GROUP, PORT);
    struct lli_in got;

    (void)state;
    rig_up();
    assert_int_equal(fake.receive_calls, 1);
    for (int i = 1; i <= LLI_ROCE_REPOST * 3; i++) {
        fake_arrive(&packet);
        assert_int_equal(rig_receive(&got, 1), 1);
        rig_release(&got, 1);
        assert_int_equal(fake.receive_calls, 1 + i / LLI_ROCE_REPOST);
        assert_int_equal(fake_buffers(), BUFFERS - i % LLI_ROCE_REPOST);
    }
    assert_int_equal(fake.receive_batch, LLI_ROCE_REPOST);
}

static void refused_buffers_are_posted_again(void **state)
{
    const struct fake_packet packet = to_group(GROUP, PORT);
    struct lli_in got[LLI_ROCE_REPOST];

    (void)state;
    rig_up();
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < LLI_ROCE_REPOST; i++)
            fake_arrive(&packet);
        assert_int_equal(rig_receive(got, LLI_ROCE_REPOST), LLI_ROCE_REPOST);
        fake.receive_refuse_after = round % 5 * 10;
        rig_release(got, LLI_ROCE_REPOST);
        assert_int_equal(fake_buffers(), BUFFERS - LLI_ROCE_REPOST + round % 5 * 10);
        fake.receive_refuse_after = -1;
        for (int i = 0; i < LLI_ROCE_REPOST; i++)
            fake_arrive(&packet);
        assert_int_equal(rig_receive(got, LLI_ROCE_REPOST), LLI_ROCE_REPOST);
        rig_release(got, LLI_ROCE_REPOST);
        assert_int_equal(fake_buffers(), BUFFERS);
    }
}

static void an_empty_queue_is_counted_once_and_refilled_at_once(void **state)
{
    const struct fake_packet packet = to_group(GROUP, PORT);
    struct lli_in got[BUFFERS];
    int taken = 0;

    (void)state;
    for (int device = 0; device < DEVICES; device++) {
        device_is(device);
        rig_up();
        for (int i = 0; i < BUFFERS; i++)
            assert_true(fake_arrive(&packet));
        assert_false(fake_arrive(&packet));
        for (taken = 0; taken < BUFFERS;)
            taken += rig_receive(got + taken, BUFFERS - taken);
        assert_int_equal(rig_receive(got, 1), 0);
        assert_int_equal(rig_counter("roce_receive_dry"), 1);
        rig_release(got, 1);
        assert_int_equal(rig_receive(got, 1), 0);
        assert_int_equal(fake_buffers(), 1); /* no batch is awaited then */
        rig_release(got + 1, BUFFERS - 1);
        assert_int_equal(fake_buffers(), BUFFERS);
        assert_int_equal(rig_counter("roce_receive_dry"), 1);
        rig_close(&rig);
    }
}

static void a_queue_emptied_by_foreign_packets_is_counted(void **state)
{
    struct fake_packet packet = to_group(GROUP, PORT + 1);
    struct lli_in got[BUFFERS];

    (void)state;
    rig_up();
    while (fake_arrive(&packet))
        ;
    assert_int_equal(rig_receive(got, BUFFERS), 0);
    assert_int_equal(rig_counter("roce_receive_dry"), 1);
    assert_int_equal(fake_buffers(), BUFFERS);
}

static void buffers_released_to_a_full_queue_are_not_missing(void **state)
{
    const struct fake_packet packet = to_group(GROUP, PORT);
    struct lli_in got[BUFFERS];

    (void)state;
    rig_up();
    for (int i = 0; i < 200; i++)
        fake_arrive(&packet);
    assert_int_equal(rig_receive(got, BUFFERS), 200);
    assert_int_equal(rig_receive(got + 200, 1), 0);
    rig_release(got, 200);
    assert_int_equal(fake_buffers(), BUFFERS);
    for (int i = 0; i < 100; i++)
        fake_arrive(&packet);
    assert_int_equal(rig_receive(got, 100), 100);
    assert_int_equal(rig_counter("roce_receive_dry"), 0);
    rig_release(got, 100);
}

static void the_queue_has_room_for_the_window_of_a_transmitter(void **state)
{
    static const struct {
        uint32_t window, rcvbuf_bytes, buffers;
    } cases[] = {{1, 1, 256},     {256, 1, 256},     {257, 1, 512},        {3000, 1, 4096},
                 {4096, 1, 4096}, {100000, 1, 8192}, {1, 600 * 4160, 512}, {600, 600 * 4160, 1024}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig.options.flow_window_packets = cases[i].window;
        rig.options.rcvbuf_bytes = cases[i].rcvbuf_bytes;
        rig_up();
        assert_int_equal(fake_buffers(), cases[i].buffers);
        rig_close(&rig);
    }
}

/* Other hosts may have a larger MTU. */
static void received_packets_may_be_larger_than_sent_packets(void **state)
{
    struct fake_packet packet = to_group(GROUP, PORT);

    (void)state;
    fake.device.active_mtu = IBV_MTU_1024;
    rig_up();
    assert_int_equal(rig.caps.payload_max, 1024);
    packet.size = 4096;
    expect_packet(&packet, rig.receive);
}

/* -------------------------------------------------------------------------------------------------- model */

struct model {
    uint64_t random;
    uint64_t arrived, given; /* packets for this instance */
    uint64_t expected[BUFFERS];
    struct lli_in lent[BUFFERS];
    uint64_t lent_which[BUFFERS];
    int lent_count;
};

static void model_arrive(struct model *model)
{
    struct fake_packet packet = to_group(GROUP, PORT);
    const uint32_t kind = below(&model->random, 10);

    packet.which = model->arrived;
    packet.size = below(&model->random, 64);
    packet.status = kind == 0 ? IBV_WC_GENERAL_ERR : IBV_WC_SUCCESS;
    packet.bare = kind == 1;
    if (fake_arrive(&packet) && kind > 1)
        model->expected[model->arrived++ % BUFFERS] = packet.which;
}

static void model_receive(struct model *model)
{
    const int count = rig_receive(model->lent + model->lent_count, (int)below(&model->random, 40));

    for (int i = 0; i < count; i++) {
        const uint64_t which = model->expected[model->given++ % BUFFERS];

        assert_int_equal(model->lent[model->lent_count].from, rig.receive);
        model->lent_which[model->lent_count++] = which;
    }
}

/* Releases packets in any order; until then their buffers must not change. */
static void model_release(struct model *model)
{
    for (uint32_t left = below(&model->random, 30); left > 0 && model->lent_count > 0; left--) {
        const int at = (int)below(&model->random, (uint32_t)model->lent_count);

        pattern_check(model->lent[at].data, model->lent[at].size, model->lent_which[at]);
        rig_release(&model->lent[at], 1);
        model->lent[at] = model->lent[--model->lent_count];
        model->lent_which[at] = model->lent_which[model->lent_count];
    }
}

static void no_buffer_is_lost_or_posted_twice(void **state)
{
    (void)state;
    for (int device = 0; device < DEVICES; device++) {
        struct model model = {.random = 4711 + (uint64_t)device};

        device_is(device);
        rig_up();
        for (int step = 0; step < MODEL_STEPS; step++) {
            if (chance(&model.random, 2))
                fake.receive_refuse_after = (int)below(&model.random, 70);
            if (chance(&model.random, 60))
                model_arrive(&model);
            else if (chance(&model.random, 60) && model.lent_count + 40 < BUFFERS)
                model_receive(&model);
            else
                model_release(&model);
        }
        fake.receive_refuse_after = -1;
        /* A foreign packet delivers nothing. */
        for (int i = 0; i < 2 * BUFFERS && model.lent_count < BUFFERS; i++) {
            const int count = rig_receive(model.lent + model.lent_count, 1);

            model.lent_count += count;
            model.given += (uint64_t)count;
        }
        assert_int_equal(model.given, model.arrived);
        assert_in_range(model.given, 10000, MODEL_STEPS);
        rig_release(model.lent, model.lent_count);
        assert_in_range(fake_buffers(), BUFFERS - LLI_ROCE_REPOST + 1, BUFFERS);
        rig_close(&rig);
    }
}

/* ------------------------------------------------------------------------------------------------ waiting */

static bool readable(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};

    return poll(&entry, 1, 0) == 1;
}

static void the_descriptor_signals_packets_and_room_once(void **state)
{
    const struct fake_packet packet = to_group(GROUP, PORT);
    struct lli_in got[4];
    int fd;

    (void)state;
    rig_up();
    fd = roce_transport->arm(rig.roce);
    assert_false(readable(fd));
    fake_arrive(&packet);
    assert_true(readable(fd));
    assert_int_equal(roce_transport->arm(rig.roce), fd);
    assert_int_equal(rig_receive(got, 4), 1);
    assert_false(readable(fd));
    rig_release(got, 1);
    rig_post(rig.send, 0, 2000);
    assert_int_equal(rig_flush(), 0);
    assert_int_equal(roce_transport->arm(rig.roce), fd);
    assert_false(readable(fd));
    fake_complete_all();
    assert_true(readable(fd));
    assert_int_equal(rig_reap(), 1);
    assert_int_equal(roce_transport->arm(rig.roce), fd);
    assert_false(readable(fd));
}

/* A sleeping caller has to wake: only its thread can release the device. */
static void the_descriptor_signals_a_removed_device_once(void **state)
{
    const struct fake_packet packet = to_group(GROUP, PORT);
    int fd;

    (void)state;
    rig_up();
    fd = roce_transport->arm(rig.roce);
    assert_false(readable(fd));
    fake_id_event(RDMA_CM_EVENT_DEVICE_REMOVAL);
    AWAIT(readable(fd));
    fake_arrive(&packet); /* it will not be fetched */
    assert_int_equal(roce_transport->arm(rig.roce), fd);
    assert_false(readable(fd));
}

static void the_descriptor_signals_a_working_send_queue(void **state)
{
    int fd;

    (void)state;
    rig_up();
    fd = roce_transport->arm(rig.roce);
    rig_post(rig.send, 0, 2000);
    assert_int_equal(rig_flush(), 0);
    fake_complete_failed(IBV_WC_LOC_PROT_ERR, IBV_QPS_ERR);
    assert_int_equal(rig_reap(), 1);
    assert_false(readable(fd));
    assert_int_equal(rig_flush(), LLM_EAGAIN);
    AWAIT(readable(fd));
    assert_int_equal(rig_flush(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(packets_are_returned_in_order_without_their_grh),
        TEST(soft_roce_is_polled_for_one_completion_at_a_time),
        TEST(a_device_without_completion_queue_flags_is_polled_in_batches),
        TEST(packets_are_time_stamped_if_configured_and_supported),
        TEST(groups_are_distinguished_by_address_and_port),
        TEST(all_ports_of_a_group_are_distinguished),
        TEST(packets_to_this_instance_are_unicasts),
        TEST(foreign_packets_are_dropped_and_counted),
        TEST(packets_of_the_own_host_are_dropped_if_marked),
        TEST(a_join_with_a_source_receives_its_packets_only),
        TEST(an_error_costs_a_packet_and_no_buffer),
        TEST(buffers_are_posted_in_batches),
        TEST(refused_buffers_are_posted_again),
        TEST(an_empty_queue_is_counted_once_and_refilled_at_once),
        TEST(a_queue_emptied_by_foreign_packets_is_counted),
        TEST(buffers_released_to_a_full_queue_are_not_missing),
        TEST(the_queue_has_room_for_the_window_of_a_transmitter),
        TEST(received_packets_may_be_larger_than_sent_packets),
        TEST(no_buffer_is_lost_or_posted_twice),
        TEST(the_descriptor_signals_packets_and_room_once),
        TEST(the_descriptor_signals_a_removed_device_once),
        TEST(the_descriptor_signals_a_working_send_queue),
    };

    alarm(100);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
