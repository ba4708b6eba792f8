/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets in the stack's memory: delivered in place, copied, released. Uses a test stack, whose memory runs
 * out and whose calls fail on request. In a network namespace of its own.
 */
#define _GNU_SOURCE
#include "rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MIXED = 8,   /* packets in a row, some of which lie in either memory with VMA's test stack */
    SOCKETS = 3, /* sockets of a station: unicast, to send, to receive */
};

/* ---------------------------------------------------------------------------------------------- zero copy */

static void packets_are_lent_in_place(void **state)
{
    struct station station;
    struct lli_in packets[40];

    (void)state;
    station_open(&station);
    send_numbers(&station, 0, 40);
    take_numbers(&station, packets, 0, 40);
    /* VMA's test stack receives some by the kernel. */
    assert_int_equal(station_counter(&station, "bypass_lent"), stack_lent);
    assert_in_range(stack_lent, is_onload() ? 40 : 34, is_onload() ? 40 : 36);
    assert_int_equal(station_counter(&station, "bypass_lent") + station_counter(&station, "bypass_copied"),
                     40);
    for (uint32_t i = 0; i < 40; i++)
        expect_number(&packets[i], i);
    transport->release(station.instance, packets + 20, 20);
    for (uint32_t i = 0; i < 20; i++)
        expect_number(&packets[i], i);
    transport->release(station.instance, packets, 20);
    station_expect_nothing(&station);
    assert_int_equal(stack_lent, 0);
    assert_int_equal(station_counter(&station, "bypass_release_errors"), 0);
    assert_int_equal(station_counter(&station, "bypass_fetch_errors"), 0);
    station_close(&station);
}

/* Each buffer returns to the socket that it came from, in any order of release. */
static void packets_of_several_sockets_are_released_in_one_call(void **state)
{
    struct station station;
    struct lli_in packets[40];
    lli_handle self;
    int groups = 0;

    (void)state;
    station_open(&station);
    self = station_peer(&station, &station);
    for (uint32_t i = 0; i < 40; i++) {
        station_send(&station, i % 2 == 0 ? self : station.send, "to and fro", 10);
        assert_int_equal(station_await(&station, &packets[i], 1, ARRIVAL_NS), 1);
        groups += packets[i].from == station.receive;
    }
    assert_int_equal(groups, 20);
    transport->release(station.instance, packets, 40);
    assert_int_equal(station_counter(&station, "bypass_release_errors"), 0);
    assert_int_equal(stack_lent, 0);
    station_close(&station);
}

/* A single packet must not wait for a second poll that finds no more. */
static void a_single_packet_takes_one_poll(void **state)
{
    struct station station;
    struct lli_in packets[BURST];

    (void)state;
    station_open(&station);
    for (uint32_t i = 0; i < 5; i++) {
        unsigned long before;

        send_numbers(&station, i, 1);
        do
            before = stack_polls;
        while (transport->receive(station.instance, packets, BURST) == 0);
        expect_number(&packets[0], i);
        assert_true(stack_polls - before <= 1);
        transport->release(station.instance, packets, 1);
        station_expect_nothing(&station);
    }
    station_close(&station);
}

static int descriptor_of(const struct station *station, lli_handle group)
{
    return ((const struct lli_bypass *)station->instance)->udp.in.groups[group].fd;
}

/* Waits until the kernel's buffer of a group holds more than this many bytes. Returns how many. */
static uint32_t await_buffered(const struct station *station, uint32_t bytes)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof memory;

    do
        assert_int_equal(
            getsockopt(descriptor_of(station, station->receive), SOL_SOCKET, SO_MEMINFO, memory, &length), 0);
    while (memory[SK_MEMINFO_RMEM_ALLOC] <= bytes);
    return memory[SK_MEMINFO_RMEM_ALLOC];
}

static void a_burst_is_lent_in_few_calls(void **state)
{
    struct station station;
    struct lli_in packets[BURST];
    uint32_t one;
    int got = 0;

    (void)state;
    station_open(&station);
    send_numbers(&station, 0, 1);
    one = await_buffered(&station, 0);
    send_numbers(&station, 1, BURST - 1);
    await_buffered(&station, one * BURST - 1);
    /*
     * One call in eight polls the unicast socket, and the first call on an idle socket may return one packet
     * only.
     */
    for (int calls = 0; calls < 4; calls++)
        got += transport->receive(station.instance, packets + got, BURST - got);
    assert_int_equal(got, BURST);
    transport->release(station.instance, packets, BURST);
    station_close(&station);
}

static void expect_copies(uint64_t fetch_errors_min)
{
    struct station station;

    station_open(&station);
    send_numbers(&station, 0, 100);
    expect_numbers(&station, 0, 100);
    station_send(&station, station_peer(&station, &station), "unicast", 7);
    station_expect(&station, LLI_HANDLE_UNICAST, "unicast", 7);
    assert_int_equal(station_counter(&station, "bypass_lent"), 0);
    assert_int_equal(station_counter(&station, "bypass_accelerated"), SOCKETS);
    assert_true(station_counter(&station, "bypass_fetch_errors") >= fetch_errors_min);
    station_close(&station);
}

static void packets_are_copied_if_zero_copy_is_unavailable(void **state)
{
    (void)state;
    own_number("zero_copy", 0);
    expect_copies(0);
    own_reset();
    setenv("SHIM_HIDE", either("onload_zc_recv", "recvfrom_zcopy"), 1);
    expect_copies(0);
    setenv("SHIM_HIDE", either("onload_zc_release_buffers", "free_packets"), 1);
    expect_copies(0);
}

static void a_failed_zero_copy_call_loses_no_packet(void **state)
{
    (void)state;
    setenv("SHIM_ZC_ERROR", "5", 1);
    expect_copies(2);
}

/* VMA reports copied packets as lent from then on. */
static void a_socket_moved_to_the_kernel_loses_no_packet(void **state)
{
    struct station station;

    (void)state;
    station_open(&station);
    send_numbers(&station, 0, 10);
    expect_numbers(&station, 0, 10);
    setenv("SHIM_KERNEL", "all", 1);
    send_numbers(&station, 10, 100);
    expect_numbers(&station, 10, 100);
    station_close(&station);
}

static void time_stamped_packets_are_copied(void **state)
{
    struct llm_options options = common;
    struct station station;
    struct lli_in packet;

    (void)state;
    options.timestamps = 1;
    station_open_with(&station, &options);
    send_numbers(&station, 0, 1);
    take_numbers(&station, &packet, 0, 1);
    assert_true(packet.stamp_ns > 0);
    assert_int_equal(station_counter(&station, "bypass_lent"), 0);
    transport->release(station.instance, &packet, 1);
    station_close(&station);
}

static void receiving_stops_while_all_places_are_lent(void **state)
{
    struct station station;
    static struct lli_in packets[LLI_BYPASS_UNRELEASED_MAX + LLI_UDP_BUFFERS];
    struct lli_in packet;
    uint32_t got = 0;

    (void)state;
    station_open(&station);
    while (got < LLI_BYPASS_UNRELEASED_MAX + LLI_UDP_BUFFERS) {
        send_numbers(&station, got, 1);
        if (station_await(&station, &packets[got], 1,
                          got < LLI_BYPASS_UNRELEASED_MAX ? ARRIVAL_NS : 10 * QUIET_NS) == 0)
            break;
        got++;
    }
    assert_in_range(got, LLI_BYPASS_UNRELEASED_MAX, LLI_BYPASS_UNRELEASED_MAX + LLI_UDP_BUFFERS - 1);
    assert_true(station_counter(&station, "bypass_exhausted") > 0);
    for (uint32_t i = 0; i < got; i++)
        expect_number(&packets[i], i);
    transport->release(station.instance, packets, MIXED);
    take_numbers(&station, &packet, got, 1);
    transport->release(station.instance, &packet, 1);
    transport->release(station.instance, &packets[MIXED], (int)got - MIXED);
    assert_int_equal(stack_lent, 0);
    station_close(&station);
}

/* A packet in pieces is copied into a UDP buffer, so one has to be free. */
static void receiving_stops_while_all_udp_buffers_are_lent(void **state)
{
    struct station station;
    struct lli_in packets[LLI_UDP_BUFFERS];
    uint64_t before;

    (void)state;
    station_open(&station);
    setenv("SHIM_ZC_ERROR", "5", 1);
    for (uint32_t i = 0; i < LLI_UDP_BUFFERS; i++) {
        send_numbers(&station, i, 1);
        take_numbers(&station, &packets[i], i, 1);
    }
    unsetenv("SHIM_ZC_ERROR");
    before = station_counter(&station, "bypass_exhausted");
    send_numbers(&station, LLI_UDP_BUFFERS, 1);
    station_expect_nothing(&station);
    assert_true(station_counter(&station, "bypass_exhausted") > before);
    transport->release(station.instance, packets, LLI_UDP_BUFFERS);
    expect_numbers(&station, LLI_UDP_BUFFERS, 1);
    station_close(&station);
}

static void packets_are_copied_while_the_stacks_memory_is_lent(void **state)
{
    struct station station;
    struct lli_in packets[40];

    (void)state;
    setenv("SHIM_BUFFERS", "10", 1);
    station_open(&station);
    send_numbers(&station, 0, 40);
    take_numbers(&station, packets, 0, 40);
    assert_int_equal(station_counter(&station, "bypass_lent"), 10);
    assert_true(station_counter(&station, "bypass_fetch_errors") > 0);
    transport->release(station.instance, packets, 40);
    send_numbers(&station, 40, 10);
    expect_numbers(&station, 40, 10);
    assert_true(station_counter(&station, "bypass_lent") > 10);
    station_close(&station);
}

static void failed_releases_of_memory_are_counted(void **state)
{
    struct station station;
    struct lli_in packets[5];

    (void)state;
    setenv("SHIM_RELEASE_ERROR", "1", 1);
    station_open(&station);
    send_numbers(&station, 0, 5);
    take_numbers(&station, packets, 0, 5);
    transport->release(station.instance, packets, 5);
    assert_int_equal(station_counter(&station, "bypass_release_errors"),
                     station_counter(&station, "bypass_lent"));
    station_close(&station);
}

/* Each packet is released to the socket that it came from, so the socket has to stay open until then. */
static void a_group_may_be_left_while_its_packets_are_lent(void **state)
{
    struct station station;
    struct lli_in packets[10];
    lli_handle again;
    int fd;

    (void)state;
    station_open(&station);
    send_numbers(&station, 0, 10);
    take_numbers(&station, packets, 0, 10);
    fd = descriptor_of(&station, station.receive);
    transport->leave(station.instance, station.receive, LLI_JOIN_RECEIVE);
    send_numbers(&station, 10, 1);
    station_expect_nothing(&station);
    assert_false(readable(transport->arm(station.instance), 0));
    assert_int_equal(station_join(&station, host, port, LLI_JOIN_RECEIVE, &again), 0);
    assert_int_not_equal(descriptor_of(&station, again), fd);
    for (uint32_t i = 0; i < 10; i++)
        expect_number(&packets[i], i);
    send_numbers(&station, 10, 1);
    expect_numbers(&station, 10, 1);
    transport->release(station.instance, packets, 10);
    assert_int_equal(stack_lent, 0);
    assert_int_equal(station_counter(&station, "bypass_release_errors"), 0);
    transport->leave(station.instance, again, LLI_JOIN_RECEIVE);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    station_close(&station);
}

static void closing_releases_lent_packets(void **state)
{
    struct station station;
    struct lli_in packets[20];

    (void)state;
    station_open(&station);
    send_numbers(&station, 0, 20);
    take_numbers(&station, packets, 0, 10);
    transport->leave(station.instance, station.receive, LLI_JOIN_RECEIVE);
    assert_true(stack_lent > 0);
    station_close(&station);
    assert_int_equal(stack_lent, 0);
}

/* On the loopback, packets are larger than a stack's buffers. */
static void a_packet_in_pieces_is_reassembled(void **state)
{
    struct llm_options options = common;
    struct station station;
    uint8_t data[9000];

    (void)state;
    strcpy(options.interface, "lo");
    options.mtu = 9000;
    station_open_with(&station, &options);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    for (int i = 0; i < 10; i++) {
        const size_t size = station.caps.payload_max - (size_t)i * 800;

        station_send(&station, station.send, data + i, size);
        station_expect(&station, station.receive, data + i, size);
    }
    assert_int_equal(stack_lent, 0);
    assert_true(station_counter(&station, "bypass_copied") > 0);
    station_close(&station);
}

static uint64_t truncated(const struct station *station)
{
    return ((const struct lli_bypass *)station->instance)->udp.counters.truncated;
}

/* A plain socket of another host may send packets that cross the interface only in fragments. */
static void a_packet_too_large_is_dropped_and_counted(void **state)
{
    static const uint8_t data[4000];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct in_addr interface;
    struct station station;
    struct lli_in packet;
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);

    (void)state;
    assert_true(fd >= 0);
    inet_pton(AF_INET, GROUP, &to.sin_addr);
    inet_pton(AF_INET, NETWORK_IPV4, &interface);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface), 0);
    station_open(&station);
    for (int i = 1; i <= 20; i++)
        assert_int_equal(sendto(fd, data, sizeof data, 0, (struct sockaddr *)&to, sizeof to), sizeof data);
    for (int i = 0; truncated(&station) < 20 && i < 100; i++)
        assert_int_equal(station_await(&station, &packet, 1, QUIET_NS), 0);
    assert_int_equal(truncated(&station), 20);
    assert_int_equal(stack_lent, 0);
    send_numbers(&station, 0, 1);
    expect_numbers(&station, 0, 1);
    station_close(&station);
    close(fd);
}

/* --------------------------------------------------------------------------------------------------- main */

int main(void)
{
    const struct CMUnitTest tests[] = {
        ODD(packets_are_lent_in_place),
        ODD(packets_of_several_sockets_are_released_in_one_call),
        ODD(a_single_packet_takes_one_poll),
        ODD(a_burst_is_lent_in_few_calls),
        ODD(packets_are_copied_if_zero_copy_is_unavailable),
        ODD(a_failed_zero_copy_call_loses_no_packet),
        ODD(a_socket_moved_to_the_kernel_loses_no_packet),
        ODD(time_stamped_packets_are_copied),
        ODD(receiving_stops_while_all_places_are_lent),
        ODD(receiving_stops_while_all_udp_buffers_are_lent),
        ODD(packets_are_copied_while_the_stacks_memory_is_lent),
        ODD(failed_releases_of_memory_are_counted),
        ODD(a_group_may_be_left_while_its_packets_are_lent),
        ODD(closing_releases_lent_packets),
        ODD(a_packet_in_pieces_is_reassembled),
        ODD(a_packet_too_large_is_dropped_and_counted),
    };

    return rig_set_up() ? cmocka_run_group_tests_name(stack_name, tests, NULL, NULL) : network_skipped();
}
