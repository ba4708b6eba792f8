/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains of packets, which pass the kernel as one: how they leave and arrive, split by the kernel's segment
 * size and by the packets' own sizes. In a network namespace of its own.
 */
#define _GNU_SOURCE
#include "contract.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "network.h"

#define GROUP "239.193.7.4"
#define GROUP_IPV6 "ff15::7:4"

enum {
    PORT = 17004,
    BYTES_MAX = 1452,            /* payload of a packet at an MTU of 1500, in either family */
    POSTED_MAX = 256,            /* packets that the transport queues */
    BUFFERS = 64,                /* buffers of the transport; each holds a train */
    SIZE_AT = 2,                 /* offset of the size field in packets, in half of the tests */
    LONGEST = 65507 / BYTES_MAX, /* packets of that size in one IP packet, in either family */
};

extern const struct lli_transport lli_transport_udp;

/* A transmitter, a receiver that enables UDP_GRO, and one that does not. */
struct scene {
    struct station sender;
    struct station merging;
    struct station plain;
};

static struct llm_options options_of(uint32_t gso_packets, uint32_t gro)
{
    struct llm_options options = common;

    options.gso_packets = gso_packets;
    options.gro = gro;
    return options;
}

static void joined_to_receive(struct station *station, uint32_t gro)
{
    const struct llm_options options = options_of(0, gro);

    if (instance_open(station, host, &options) != 0 ||
        station_join(station, host, port, LLI_JOIN_RECEIVE, &station->receive) != 0)
        fail_msg("%s", log_text);
}

static void joined_to_send(struct station *station, uint32_t gso_packets)
{
    const struct llm_options options = options_of(gso_packets, 1);

    if (instance_open(station, host, &options) != 0 ||
        station_join(station, host, port, LLI_JOIN_SEND, &station->send) != 0)
        fail_msg("%s", log_text);
}

static void scene_open(struct scene *scene, uint32_t gso_packets)
{
    joined_to_send(&scene->sender, gso_packets);
    joined_to_receive(&scene->merging, 1);
    joined_to_receive(&scene->plain, 0);
}

static void scene_close(struct scene *scene)
{
    station_close(&scene->sender);
    station_close(&scene->merging);
    station_close(&scene->plain);
}

/* Runs before each test: trains of maximum length. */
static int scene_begin(void **state)
{
    static struct scene scene;

    scene_open(&scene, 0);
    *state = &scene;
    return 0;
}

static int scene_end(void **state)
{
    scene_close(*state);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- bursts */

/* Returns the byte at a position of packet number i of a burst. */
static uint8_t burst_byte(int i, uint32_t place, uint32_t size)
{
    if (size_at > 0 && place - size_at < 2)
        return (uint8_t)(size >> 8 * (place - size_at));
    return (uint8_t)((uint32_t)i * 31 + place * 7 + (place >> 8));
}

/* Posts packets of these sizes, then flushes. */
static void burst_send(struct station *from, lli_handle to, const uint32_t *sizes, int count)
{
    static uint8_t data[POSTED_MAX][BYTES_MAX];
    struct lli_out packets[POSTED_MAX];

    assert_true(count <= POSTED_MAX);
    for (int i = 0; i < count; i++) {
        for (uint32_t place = 0; place < sizes[i]; place++)
            data[i][place] = burst_byte(i, place, sizes[i]);
        packets[i] = (struct lli_out){data[i], sizes[i], to};
    }
    assert_int_equal(transport->post(from->instance, packets, count), count);
    station_flush(from);
}

/* Checks that packets from this number on are as they were sent. */
static void burst_check(const struct lli_in *packets, int count, const uint32_t *sizes, int first)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(packets[i].size, sizes[first + i]);
        for (uint32_t place = 0; place < packets[i].size; place++)
            if (packets[i].data[place] != burst_byte(first + i, place, packets[i].size))
                fail_msg("packet %d differs at byte %u", first + i, place);
    }
}

/*
 * Expects the packets from this number on, in order, and nothing else. Receives at most max at a time.
 * Returns the number of calls.
 */
static int burst_expect_from(struct station *to, const uint32_t *sizes, int first, int count, int max)
{
    struct lli_in packets[BURST];
    int got = first, calls = 0;

    while (got < count) {
        const int now = station_await(to, packets, max, ARRIVAL_NS);

        if (now == 0)
            fail_msg("%d of %d packets came", got, count);
        assert_true(now <= max && got + now <= count);
        burst_check(packets, now, sizes, got);
        transport->release(to->instance, packets, now);
        got += now;
        calls++;
    }
    station_expect_nothing(to);
    return calls;
}

static int burst_expect(struct station *to, const uint32_t *sizes, int count, int max)
{
    return burst_expect_from(to, sizes, 0, count, max);
}

static void sizes_fill(uint32_t *sizes, int count, uint32_t size)
{
    for (int i = 0; i < count; i++)
        sizes[i] = size;
}

/*
 * Expects the packets at both receivers, and the counts of trains at the transmitter and at the receiver that
 * gets them whole.
 */
static void expect_trains(struct scene *scene, const uint32_t *sizes, int count, uint64_t trains)
{
    burst_send(&scene->sender, scene->sender.send, sizes, count);
    burst_expect(&scene->merging, sizes, count, BURST);
    burst_expect(&scene->plain, sizes, count, BURST);
    assert_int_equal(station_counter(&scene->sender, "udp_trains"), trains);
    assert_int_equal(station_counter(&scene->sender, "udp_trains_refused"), 0);
    assert_int_equal(station_counter(&scene->sender, "udp_send_errors"), 0);
    assert_int_equal(station_counter(&scene->merging, "udp_superframes"), trains);
    assert_int_equal(station_counter(&scene->plain, "udp_superframes"), 0);
}

static void expect_trains_of(uint32_t gso_packets, const uint32_t *sizes, int count, uint64_t trains)
{
    struct scene scene;

    scene_open(&scene, gso_packets);
    expect_trains(&scene, sizes, count, trains);
    scene_close(&scene);
}

/* ------------------------------------------------------------------------------------------------ sending */

static void a_burst_leaves_as_a_train_and_arrives_as_its_packets(void **state)
{
    uint32_t sizes[40];

    (void)state;
    sizes_fill(sizes, 40, 1000);
    expect_trains_of(0, sizes, 40, 1);
}

static void a_burst_longer_than_a_train_leaves_as_several(void **state)
{
    uint32_t sizes[POSTED_MAX];

    (void)state;
    sizes_fill(sizes, POSTED_MAX, BYTES_MAX);
    expect_trains_of(0, sizes, POSTED_MAX, (POSTED_MAX + LONGEST - 1) / LONGEST);
}

static void a_shorter_packet_is_the_last_of_its_train(void **state)
{
    uint32_t sizes[16];

    (void)state;
    sizes_fill(sizes, 16, 1000);
    sizes[10] = 333;
    expect_trains_of(0, sizes, 16, 2);
    sizes[10] = 1000;
    sizes[15] = 1;
    expect_trains_of(0, sizes, 16, 1);
}

static void packets_of_different_sizes_arrive_unchanged(void **state)
{
    static const uint32_t rising[] = {1, 2, 30, 400, 401, 1400};
    static const uint32_t mixed[] = {700, 700, 700, 900, 900, 400, 400, 400, 1000, 1, 2};

    (void)state;
    expect_trains_of(0, rising, 6, 0);
    /*
     * The last packet of a train may be shorter, the first not: 700 700 700, 900 900 400, 400 400, 1000 1, 2.
     */
    expect_trains_of(0, mixed, 11, 4);
}

static void trains_have_the_configured_length(void **state)
{
    uint32_t sizes[10];

    (void)state;
    sizes_fill(sizes, 10, 200);
    expect_trains_of(1, sizes, 10, 0);
    expect_trains_of(4, sizes, 10, 3);
    expect_trains_of(9, sizes, 10, 1);
}

static void a_single_packet_is_no_train(void **state)
{
    struct scene *scene = *state;
    static const uint32_t size = 500;

    for (int i = 0; i < 5; i++)
        expect_trains(scene, &size, 1, 0);
}

static void a_train_goes_to_a_peer(void **state)
{
    struct scene *scene = *state;
    uint32_t sizes[30];

    sizes_fill(sizes, 30, 800);
    sizes[29] = 8;
    burst_send(&scene->sender, station_peer(&scene->sender, &scene->merging), sizes, 30);
    burst_expect(&scene->merging, sizes, 30, BURST);
    station_expect_nothing(&scene->plain);
    assert_int_equal(station_counter(&scene->sender, "udp_trains"), 1);
    assert_int_equal(station_counter(&scene->merging, "udp_superframes"), 1);
    burst_send(&scene->sender, station_peer(&scene->sender, &scene->plain), sizes, 30);
    burst_expect(&scene->plain, sizes, 30, BURST);
    assert_int_equal(station_counter(&scene->plain, "udp_superframes"), 0);
}

/* Both peers are reached by the same socket, with packets of the same size. */
static void a_train_has_packets_for_one_peer_only(void **state)
{
    struct scene *scene = *state;
    static const uint8_t text[] = "fo\20\0 one of you";
    struct lli_out packets[8];

    for (int i = 0; i < 8; i++)
        packets[i] = (struct lli_out){text, sizeof text,
                                      station_peer(&scene->sender, i < 4 ? &scene->merging : &scene->plain)};
    assert_int_equal(transport->post(scene->sender.instance, packets, 8), 8);
    station_flush(&scene->sender);
    for (int i = 0; i < 4; i++) {
        station_expect(&scene->merging, LLI_HANDLE_UNICAST, text, sizeof text);
        station_expect(&scene->plain, LLI_HANDLE_UNICAST, text, sizeof text);
    }
    station_expect_nothing(&scene->merging);
    station_expect_nothing(&scene->plain);
    assert_int_equal(station_counter(&scene->sender, "udp_trains"), 2);
}

/* ---------------------------------------------------------------------------------------------- receiving */

static void a_train_is_returned_over_several_receive_calls(void **state)
{
    struct scene *scene = *state;
    uint32_t sizes[40];

    sizes_fill(sizes, 40, 1000);
    burst_send(&scene->sender, scene->sender.send, sizes, 40);
    assert_int_equal(burst_expect(&scene->merging, sizes, 40, 3), 14);
    assert_int_equal(station_counter(&scene->merging, "udp_superframes"), 1);
}

/* By then only the transport has packets, the kernel none. */
static void the_descriptor_is_readable_while_some_of_a_run_are_left(void **state)
{
    struct scene *scene = *state;
    uint32_t sizes[7];
    struct lli_in packets[3];
    int got = 0;

    sizes_fill(sizes, 7, 1000);
    assert_false(readable(transport->arm(scene->merging.instance), 0));
    burst_send(&scene->sender, scene->sender.send, sizes, 7);
    while (got < 7) {
        const int now = station_await(&scene->merging, packets, 3, ARRIVAL_NS);

        assert_in_range(now, 1, 3);
        burst_check(packets, now, sizes, got);
        transport->release(scene->merging.instance, packets, now);
        got += now;
        assert_int_equal(readable(transport->arm(scene->merging.instance), 0), got < 7);
    }
}

/*
 * The group is left with most of a train unread: lent packets stay valid, and no buffer is lost in any number
 * of rounds.
 */
static void leaving_releases_the_unread_packets_of_a_train(void **state)
{
    struct scene *scene = *state;
    uint32_t sizes[20];
    struct lli_in packets[3];

    sizes_fill(sizes, 20, 1000);
    for (int round = 0; round < 2 * BUFFERS; round++) {
        const int before = round % 4; /* packets released before the group is left; the others after */

        burst_send(&scene->sender, scene->sender.send, sizes, 20);
        if (station_await(&scene->merging, packets, 3, ARRIVAL_NS) != 3)
            fail_msg("no run came in round %d", round);
        transport->release(scene->merging.instance, packets, before);
        transport->leave(scene->merging.instance, scene->merging.receive, LLI_JOIN_RECEIVE);
        assert_int_equal(transport->receive(scene->merging.instance, packets, 0), 0);
        burst_check(packets + before, 3 - before, sizes, before);
        transport->release(scene->merging.instance, packets + before, 3 - before);
        assert_int_equal(station_join(&scene->merging, host, port, LLI_JOIN_RECEIVE, &scene->merging.receive),
                         0);
    }
    burst_send(&scene->sender, scene->sender.send, sizes, 20);
    burst_expect(&scene->merging, sizes, 20, BURST);
}

/* A fetched train of unicasts survives leaving a group. */
static void leaving_a_group_preserves_a_train_of_unicasts(void **state)
{
    struct scene *scene = *state;
    uint32_t sizes[20];
    struct lli_in packets[3];

    sizes_fill(sizes, 20, 1000);
    burst_send(&scene->sender, station_peer(&scene->sender, &scene->merging), sizes, 20);
    assert_int_equal(station_await(&scene->merging, packets, 3, ARRIVAL_NS), 3);
    burst_check(packets, 3, sizes, 0);
    transport->leave(scene->merging.instance, scene->merging.receive, LLI_JOIN_RECEIVE);
    transport->release(scene->merging.instance, packets, 3);
    burst_expect_from(&scene->merging, sizes, 3, 20, BURST);
}

/* One lent packet of each train occupies the train's buffer; other trains do not change its contents. */
static void a_buffer_is_reused_after_all_its_packets_are_released(void **state)
{
    struct scene *scene = *state;
    static struct lli_in kept[BUFFERS];
    uint32_t sizes[3];
    struct lli_in packets[3];

    sizes_fill(sizes, 3, 900);
    for (int i = 0; i < BUFFERS; i++) {
        burst_send(&scene->sender, scene->sender.send, sizes, 3);
        assert_int_equal(station_await(&scene->merging, packets, 3, ARRIVAL_NS), 3);
        kept[i] = packets[2];
        transport->release(scene->merging.instance, packets, 2);
    }
    burst_send(&scene->sender, scene->sender.send, sizes, 3);
    station_expect_nothing(&scene->merging);
    for (int i = 0; i < BUFFERS; i++)
        burst_check(&kept[i], 1, sizes, 2);
    transport->release(scene->merging.instance, kept, BUFFERS);
    burst_expect(&scene->merging, sizes, 3, 3);
}

/*
 * A train whose first packet has an impossible size is returned as one packet; missing bytes are not
 * reported.
 */
static void packets_with_a_wrong_segment_size_are_returned_whole(void **state)
{
    struct scene *scene = *state;
    static const uint32_t said[] = {0, 7, 1001, 1472, UINT16_MAX};
    const lli_handle handles[] = {scene->sender.send, station_peer(&scene->sender, &scene->merging)};
    uint8_t data[1000];

    memset(data, 'd', sizeof data);
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        data[SIZE_AT] = (uint8_t)said[i];
        data[SIZE_AT + 1] = (uint8_t)(said[i] >> 8);
        for (int to = 0; to < 2; to++) {
            station_send(&scene->sender, handles[to], data, sizeof data);
            station_expect(&scene->merging, to == 0 ? scene->merging.receive : LLI_HANDLE_UNICAST, data,
                           sizeof data);
        }
    }
    for (uint32_t size = 1; size < SIZE_AT + 2; size++) {
        station_send(&scene->sender, handles[0], data, size);
        station_expect(&scene->merging, scene->merging.receive, data, size);
    }
    assert_int_equal(station_counter(&scene->merging, "udp_superframes"), 0);
    /* A packet that claims a small size yields many packets. */
    data[SIZE_AT] = 250;
    data[SIZE_AT + 1] = 0;
    station_send(&scene->sender, handles[0], data, sizeof data);
    for (int i = 0; i < 4; i++)
        station_expect(&scene->merging, scene->merging.receive, data + 250 * i, 250);
    assert_int_equal(station_counter(&scene->merging, "udp_superframes"), 1);
}

/* The kernel stamps packets by a call that also reports merged packets. */
static void trains_arrive_with_time_stamps(void **state)
{
    struct scene *scene = *state;
    struct llm_options options = options_of(0, 1);
    struct station stamping;
    uint32_t sizes[20];

    options.timestamps = 1;
    if (instance_open(&stamping, host, &options) != 0 ||
        station_join(&stamping, host, port, LLI_JOIN_RECEIVE, &stamping.receive) != 0)
        fail_msg("%s", log_text);
    sizes_fill(sizes, 20, 1000);
    burst_send(&scene->sender, scene->sender.send, sizes, 20);
    burst_expect(&stamping, sizes, 20, BURST);
    assert_int_equal(station_counter(&stamping, "udp_superframes"), 1);
    station_close(&stamping);
}

/* --------------------------------------------------------------------------------------------------- main */

/* Returns true if this kernel supports the offload, without asking the transport, which is under test. */
static bool kernel_offloads(void)
{
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    const int size = 1000, on = 1;
    bool both;

    if (fd < 0)
        return false;
    both = setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof size) == 0 &&
           setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on) == 0;
    close(fd);
    return both;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_leaves_as_a_train_and_arrives_as_its_packets),
        cmocka_unit_test(a_burst_longer_than_a_train_leaves_as_several),
        cmocka_unit_test(a_shorter_packet_is_the_last_of_its_train),
        cmocka_unit_test(packets_of_different_sizes_arrive_unchanged),
        cmocka_unit_test(trains_have_the_configured_length),
        cmocka_unit_test_setup_teardown(a_single_packet_is_no_train, scene_begin, scene_end),
        cmocka_unit_test_setup_teardown(a_train_goes_to_a_peer, scene_begin, scene_end),
        cmocka_unit_test_setup_teardown(a_train_has_packets_for_one_peer_only, scene_begin, scene_end),
        cmocka_unit_test_setup_teardown(a_train_is_returned_over_several_receive_calls, scene_begin,
                                        scene_end),
        cmocka_unit_test_setup_teardown(the_descriptor_is_readable_while_some_of_a_run_are_left, scene_begin,
                                        scene_end),
        cmocka_unit_test_setup_teardown(leaving_releases_the_unread_packets_of_a_train, scene_begin,
                                        scene_end),
        cmocka_unit_test_setup_teardown(leaving_a_group_preserves_a_train_of_unicasts, scene_begin,
                                        scene_end),
        cmocka_unit_test_setup_teardown(a_buffer_is_reused_after_all_its_packets_are_released, scene_begin,
                                        scene_end),
    };
    const struct CMUnitTest said_tests[] = {
        cmocka_unit_test_setup_teardown(packets_with_a_wrong_segment_size_are_returned_whole, scene_begin,
                                        scene_end),
        cmocka_unit_test_setup_teardown(trains_arrive_with_time_stamps, scene_begin, scene_end),
    };
    static const char *const groups[] = {GROUP, GROUP_IPV6};
    int failed = 0;

    if (!network_own() || !kernel_offloads())
        return network_skipped();
    transport = &lli_transport_udp;
    scheme = "udp";
    port = PORT;
    llm_options_init(&common);
    strcpy(common.interface, NETWORK_INTERFACE);
    for (int i = 0; i < 4; i++) {
        host = groups[i % 2];
        size_at = i < 2 ? 0 : SIZE_AT;
        failed += cmocka_run_group_tests_name(host, tests, NULL, NULL);
        if (size_at > 0)
            failed += cmocka_run_group_tests_name(host, said_tests, NULL, NULL);
    }
    return failed;
}
