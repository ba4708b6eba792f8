/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contract of all transports: contract SCHEME HOST [line=HOST] [hosts=MTU] [OPTION=VALUE...]. With line=HOST two
 * lines of the scheme are tested, the second with this group. With hosts=MTU each instance is on a host of its own, and cables have that MTU. Over "impair+SCHEME" all tests run again
 * without faults, followed by tests of the faults.
 */
#define _GNU_SOURCE
#include "contract.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/clock.h"
#include "descriptors.h"
#include "network.h"
#include "config/registry.h"

/* ----------------------------------------------------------------------------------------- open and close */

static void work_once(void)
{
    struct station station;

    station_open(&station);
    station_send(&station, station.send, "once", 4);
    station_send(&station, station_peer(&station, &station), "once", 4);
    transport->arm(station.instance);
    station_close(&station);
}

static void opening_and_closing_leaves_no_descriptor_and_no_memory(void **state)
{
    int before;
    size_t bytes;

    (void)state;
    for (int i = 0; i < 50; i++) /* memory that the C library retains is retained from now on */
        work_once();
    before = descriptors_open();
    bytes = mallinfo2().uordblks;
    for (int i = 0; i < 10; i++)
        work_once();
    assert_int_equal(descriptors_open(), before);
    assert_int_equal(mallinfo2().uordblks, bytes);
}

static void open_reports_the_capabilities_of_an_instance(void **state)
{
    struct station station;

    (void)state;
    station_open(&station);
    assert_in_range(station.caps.payload_max, 512, 65535);
    assert_in_range(station.caps.post_max, 1, 65536);
    assert_true(station.caps.align > 0 && (station.caps.align & (station.caps.align - 1)) == 0);
    station_close(&station);
}

static void a_closed_group_can_be_opened_again(void **state)
{
    struct station station;

    (void)state;
    for (int i = 0; i < 3; i++) {
        station_open(&station);
        station_send(&station, station.send, &i, sizeof i);
        station_expect(&station, station.receive, &i, sizeof i);
        station_close(&station);
    }
}

/* Opens an instance and joins; one of the two must fail with this code and text. */
static void expect_refused(const char *at, uint16_t number, const struct llm_options *options, int error,
                           const char *text)
{
    struct station station;
    lli_handle handle;
    int status = instance_open(&station, at, options);

    if (status == 0) {
        status = station_join(&station, at, number, LLI_JOIN_RECEIVE, &handle);
        station_close(&station);
    }
    assert_int_equal(status, error);
    if (strstr(log_text, text) == NULL)
        fail_msg("'%s' is not in the log: %s", text, log_text);
}

static void an_invalid_group_is_refused_by_name(void **state)
{
    const int before = descriptors_open();

    (void)state;
    expect_refused("", port, &common, LLM_EGROUP, "''");
    expect_refused("a-name-that-is-by-far-too-long-to-stand-for-any-group-on-any-of-our-transports.invalid",
                   port, &common, LLM_EGROUP, "any-of-our-transports.invalid");
    if (!lli_transport_is_named(scheme))
        expect_refused(host, 0, &common, LLM_EGROUP, host);
    assert_int_equal(descriptors_open(), before);
}

static void a_wrong_option_is_refused_by_value(void **state)
{
    struct llm_options options = common;
    const int before = descriptors_open();

    (void)state;
    options.mtu = 123;
    expect_refused(host, port, &options, LLM_EOPTION, "mtu=123");
    options = common;
    strcpy(options.source, "no-source.invalid");
    expect_refused(host, port, &options, LLM_EOPTION, "no-source.invalid");
    assert_int_equal(descriptors_open(), before);
}

/* ------------------------------------------------------------------------------------------------- groups */

static void a_packet_reaches_all_instances_in_its_group(void **state)
{
    struct station a, b, c;

    (void)state;
    station_open(&a);
    station_open(&b);
    station_open(&c);
    station_send(&a, a.send, "to all", 6);
    station_expect(&b, b.receive, "to all", 6);
    station_expect(&c, c.receive, "to all", 6);
    station_close(&a);
    station_close(&b);
    station_close(&c);
}

static void a_second_join_returns_the_same_handle_and_no_second_copy(void **state)
{
    struct station a, b;
    lli_handle again;

    (void)state;
    station_open(&a);
    station_open(&b);
    assert_int_equal(station_join(&b, host, port, LLI_JOIN_RECEIVE, &again), 0);
    assert_int_equal(again, b.receive);
    station_send(&a, a.send, "one", 3);
    station_expect(&b, b.receive, "one", 3);
    station_expect_nothing(&b);
    transport->leave(b.instance, again, LLI_JOIN_RECEIVE);
    station_send(&a, a.send, "two", 3);
    station_expect(&b, b.receive, "two", 3);
    transport->leave(b.instance, b.receive, LLI_JOIN_RECEIVE);
    station_send(&a, a.send, "three", 5);
    station_expect_nothing(&b);
    station_close(&a);
    station_close(&b);
}

static void send_joins_and_receive_joins_are_left_separately(void **state)
{
    struct station a, b;
    lli_handle again;

    (void)state;
    station_open(&a);
    station_open(&b);
    assert_int_equal(station_join(&a, host, port, LLI_JOIN_SEND, &again), 0);
    transport->leave(a.instance, a.send, LLI_JOIN_SEND);
    station_send(&a, again, "by the second", 13);
    station_expect(&a, a.receive, "by the second", 13);
    station_expect(&b, b.receive, "by the second", 13);
    transport->leave(a.instance, again, LLI_JOIN_SEND);
    station_send(&b, b.send, "still heard", 11);
    station_expect(&a, a.receive, "still heard", 11);
    station_close(&a);
    station_close(&b);
}

static void groups_are_distinguished_by_port(void **state)
{
    struct station a, b;
    lli_handle send, receive;

    (void)state;
    station_open(&a);
    station_open(&b);
    assert_int_equal(station_join(&a, host, (uint16_t)(port + 1), LLI_JOIN_SEND, &send), 0);
    station_send(&a, send, "elsewhere", 9);
    station_expect_nothing(&b);
    assert_int_equal(station_join(&b, host, (uint16_t)(port + 1), LLI_JOIN_RECEIVE, &receive), 0);
    assert_int_not_equal(receive, b.receive);
    station_send(&a, send, "here", 4);
    station_expect(&b, receive, "here", 4);
    station_close(&a);
    station_close(&b);
}

static void packets_of_many_groups_are_received(void **state)
{
    enum { GROUPS = 12 };
    struct station a, b;
    lli_handle send[GROUPS], receive[GROUPS];

    (void)state;
    station_open(&a);
    station_open(&b);
    for (uint16_t i = 0; i < GROUPS; i++) {
        assert_int_equal(station_join(&a, host, (uint16_t)(port + 2 + i), LLI_JOIN_SEND, &send[i]), 0);
        assert_int_equal(station_join(&b, host, (uint16_t)(port + 2 + i), LLI_JOIN_RECEIVE, &receive[i]), 0);
        for (int group = 0; group <= i; group++) {
            const int packet = i * GROUPS + group; /* a packet that is unlike all others */

            station_send(&a, send[group], &packet, sizeof packet);
            station_expect(&b, receive[group], &packet, sizeof packet);
        }
        station_send(&a, station_peer(&a, &b), "unicast", 7);
        station_expect(&b, LLI_HANDLE_UNICAST, "unicast", 7);
    }
    station_close(&a);
    station_close(&b);
}

static void own_packets_are_received_with_loop(void **state)
{
    struct llm_options options = common;
    struct station station;

    (void)state;
    options.loop = 1;
    station_open_with(&station, &options);
    station_send(&station, station.send, "mine", 4);
    station_expect(&station, station.receive, "mine", 4);
    station_close(&station);
}

static void own_packets_are_not_received_without_loop(void **state)
{
    struct llm_options options = common;
    struct station station;

    (void)state;
    if (strcmp(common.interface, "lo") == 0)
        skip(); /* there, sent packets come back as if from the wire */
    options.loop = 0;
    station_open_with(&station, &options);
    station_send(&station, station.send, "mine", 4);
    station_expect_nothing(&station);
    station_close(&station);
}

/* ------------------------------------------------------------------------------------------------ unicast */

static void a_unicast_reaches_its_instance_only(void **state)
{
    struct station a, b, c;
    lli_handle peer;

    (void)state;
    station_open(&a);
    station_open(&b);
    station_open(&c);
    peer = station_peer(&a, &b);
    station_send(&a, peer, "for you", 7);
    station_expect(&b, LLI_HANDLE_UNICAST, "for you", 7);
    station_expect_nothing(&c);
    station_send(&b, station_peer(&b, &a), "and back", 8);
    station_expect(&a, LLI_HANDLE_UNICAST, "and back", 8);
    station_close(&a);
    station_close(&b);
    station_close(&c);
}

static void an_instance_without_groups_gets_unicasts(void **state)
{
    struct station a, b;

    (void)state;
    station_open(&a);
    assert_int_equal(instance_open(&b, host, &common), 0);
    station_send(&a, station_peer(&a, &b), "alone", 5);
    station_expect(&b, LLI_HANDLE_UNICAST, "alone", 5);
    station_close(&a);
    station_close(&b);
}

static void the_same_address_gives_the_same_handle(void **state)
{
    struct station a, b, c;

    (void)state;
    station_open(&a);
    station_open(&b);
    station_open(&c);
    assert_int_equal(station_peer(&a, &b), station_peer(&a, &b));
    assert_int_not_equal(station_peer(&a, &b), station_peer(&a, &c));
    assert_int_equal(station_peer(&a, &c), station_peer(&a, &c));
    station_close(&a);
    station_close(&b);
    station_close(&c);
}

static void invalid_addresses_are_refused_without_a_log_line(void **state)
{
    struct lli_address address;
    struct station station;
    lli_handle handle;

    (void)state;
    station_open(&station);
    assert_int_equal(transport->address(station.instance, &address), 0);
    log_text[0] = '\0';
    for (uint8_t size = 0; size < sizeof address.bytes; size++) {
        struct lli_address wrong = address;

        wrong.size = size;
        if (size != address.size)
            assert_int_equal(transport->peer(station.instance, &wrong, &handle), LLM_EINVAL);
    }
    memset(address.bytes, 0, sizeof address.bytes);
    assert_int_equal(transport->peer(station.instance, &address, &handle), LLM_EINVAL);
    assert_string_equal(log_text, "");
    station_close(&station);
}

/* ---------------------------------------------------------------------------------------- sending in bulk */

static void packets_arrive_in_the_order_of_posting(void **state)
{
    enum { COUNT = 4000 };
    struct lli_in packets[BURST];
    uint32_t numbers[BURST];
    struct lli_out out[BURST];
    struct station a, b;
    uint32_t sent = 0, got = 0;

    (void)state;
    station_open(&a);
    station_open(&b);
    while (got < COUNT) {
        int count = 0;

        while (count < 1 + (int)(sent % BURST) && sent < COUNT) {
            numbers[count] = sent++;
            out[count] = (struct lli_out){(const uint8_t *)&numbers[count], sizeof numbers[0], a.send};
            count++;
        }
        assert_int_equal(transport->post(a.instance, out, count), count);
        station_flush(&a);
        while (got < sent) {
            count = station_await(&b, packets, BURST, ARRIVAL_NS);
            assert_true(count > 0);
            for (int i = 0; i < count; i++, got++)
                assert_memory_equal(packets[i].data, &got, sizeof got);
            transport->release(b.instance, packets, count);
        }
    }
    station_close(&a);
    station_close(&b);
}

static void destinations_may_alternate_within_a_flush(void **state)
{
    struct lli_out out[8];
    uint8_t numbers[8];
    uint8_t by_group = 0, by_unicast = 1;
    struct station a, b;
    struct lli_in packet;
    lli_handle peer;

    (void)state;
    station_open(&a);
    station_open(&b);
    peer = station_peer(&a, &b);
    for (uint8_t i = 0; i < 8; i++) {
        numbers[i] = i;
        out[i] = (struct lli_out){&numbers[i], 1, i % 2 == 0 ? a.send : peer};
    }
    assert_int_equal(transport->post(a.instance, out, 8), 8);
    station_flush(&a);
    for (int i = 0; i < 8; i++) {
        uint8_t *next;

        assert_int_equal(station_await(&b, &packet, 1, ARRIVAL_NS), 1);
        next = packet.from == LLI_HANDLE_UNICAST ? &by_unicast : &by_group;
        assert_int_equal(packet.data[0], *next);
        *next = (uint8_t)(*next + 2);
        transport->release(b.instance, &packet, 1);
    }
    station_close(&a);
    station_close(&b);
}

static void the_largest_packet_arrives_and_a_larger_packet_is_dropped(void **state)
{
    struct station a, b;
    struct lli_out packet;
    uint8_t *data;
    uint64_t taken = 0;

    (void)state;
    station_open(&a);
    station_open(&b);
    data = malloc(a.caps.payload_max + 1);
    assert_non_null(data);
    for (uint32_t i = 0; i <= a.caps.payload_max; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    station_region(&a, data, a.caps.payload_max + 1);
    packet = (struct lli_out){data, a.caps.payload_max + 1, a.send};
    taken += (uint64_t)transport->post(a.instance, &packet, 1);
    packet.size--;
    taken += (uint64_t)transport->post(a.instance, &packet, 1);
    station_flush(&a);
    station_expect(&b, b.receive, data, a.caps.payload_max);
    station_send(&a, station_peer(&a, &b), data, a.caps.payload_max);
    station_expect(&b, LLI_HANDLE_UNICAST, data, a.caps.payload_max);
    station_expect_nothing(&b);
    assert_int_equal(transport->reap(a.instance), taken + 1);
    transport->region_end(a.instance, data, a.caps.payload_max + 1);
    free(data);
    station_close(&a);
    station_close(&b);
}

static void post_accepts_at_least_post_max_packets_until_flush(void **state)
{
    struct station station;
    struct lli_out *packets;
    int max, count;

    (void)state;
    station_open(&station);
    max = (int)station.caps.post_max;
    packets = calloc((size_t)max + 5, sizeof *packets);
    assert_non_null(packets);
    for (int i = 0; i < max + 5; i++)
        packets[i] = (struct lli_out){(const uint8_t *)"room", 4, station.send};
    for (int round = 0; round < 3; round++) {
        assert_int_equal(transport->post(station.instance, packets, 3), 3);
        count = transport->post(station.instance, packets, max + 5);
        assert_in_range(count, max - 3, max + 5); /* a transport that sends at once may take more */
        if (count == max - 3)
            assert_int_equal(transport->post(station.instance, packets, 1), 0);
        station_flush(&station);
    }
    free(packets);
    station_close(&station);
}

static void reap_counts_all_posted_packets(void **state)
{
    const struct lli_out packet = {(const uint8_t *)"reaped", 6, 0};
    struct station station;
    struct lli_out packets[4];
    uint64_t taken = 0;
    uint64_t give_up_at;

    (void)state;
    station_open(&station);
    assert_int_equal(transport->reap(station.instance), 0);
    for (int round = 0; round < 300; round++) {
        const int count = 1 + round % 4;

        for (int i = 0; i < count; i++) {
            packets[i] = packet;
            packets[i].to = station.send;
        }
        taken += (uint64_t)transport->post(station.instance, packets, count);
        station_flush(&station);
        assert_true(transport->reap(station.instance) <= taken);
        if (station.caps.flags & LLI_CAP_TX_COPIES)
            assert_int_equal(transport->reap(station.instance), taken);
    }
    give_up_at = lli_clock_ns() + ARRIVAL_NS;
    while (transport->reap(station.instance) != taken)
        assert_true(lli_clock_ns() < give_up_at);
    station_close(&station);
}

/* --------------------------------------------------------------------------------------- leaving, lending */

static void leaving_drops_queued_packets_of_that_group_only(void **state)
{
    struct lli_out packets[3];
    struct station a, b;
    lli_handle other, next, receive;

    (void)state;
    station_open(&a);
    station_open(&b);
    assert_int_equal(station_join(&a, host, (uint16_t)(port + 1), LLI_JOIN_SEND, &other), 0);
    packets[0] = (struct lli_out){(const uint8_t *)"lost", 4, other};
    packets[1] = (struct lli_out){(const uint8_t *)"kept", 4, a.send};
    packets[2] = packets[0];
    assert_int_equal(transport->post(a.instance, packets, 3), 3);
    transport->leave(a.instance, other, LLI_JOIN_SEND);
    /* A new user of the group's handle or descriptor must not get the old group's packets. */
    assert_int_equal(station_join(&a, host, (uint16_t)(port + 2), LLI_JOIN_SEND, &next), 0);
    assert_int_equal(station_join(&b, host, (uint16_t)(port + 2), LLI_JOIN_RECEIVE, &receive), 0);
    station_flush(&a);
    station_expect(&b, b.receive, "kept", 4);
    station_expect_nothing(&b);
    assert_int_equal(transport->reap(a.instance), 3);
    station_send(&a, a.send, "on", 2);
    station_expect(&b, b.receive, "on", 2);
    station_close(&a);
    station_close(&b);
}

/* Packets that were sent at once, as over shared memory, arrive whole. */
static void expect_gone_or_whole(struct station *b, const uint8_t *gone, const uint8_t *kept)
{
    struct lli_in packets[BURST];
    int kept_count = 0, count;

    while ((count = station_await(b, packets, BURST, QUIET_NS)) > 0) {
        for (int i = 0; i < count; i++) {
            const bool is_kept = memcmp(packets[i].data, kept, 7) == 0;

            assert_int_equal(packets[i].size, 400);
            assert_memory_equal(packets[i].data,
                                is_kept                                 ? kept
                                : packets[i].from == LLI_HANDLE_UNICAST ? gone + 4096 - 400
                                                                        : gone,
                                400);
            kept_count += is_kept;
        }
        transport->release(b->instance, packets, count);
    }
    assert_int_equal(kept_count, 1);
}

static void ending_a_region_affects_its_queued_packets_only(void **state)
{
    static uint8_t going[4096], staying[4096];
    struct lli_out packets[3];
    struct station a, b;

    (void)state;
    station_open(&a);
    station_open(&b);
    station_region(&a, memcpy(going, "going", 5), sizeof going);
    station_region(&a, memcpy(staying, "staying", 7), sizeof staying);
    packets[0] = (struct lli_out){going, 400, a.send};
    packets[1] = (struct lli_out){staying, 400, a.send};
    packets[2] = (struct lli_out){going + sizeof going - 400, 400, station_peer(&a, &b)};
    assert_int_equal(transport->post(a.instance, packets, 3), 3);
    transport->region_end(a.instance, going, sizeof going);
    station_flush(&a);
    expect_gone_or_whole(&b, going, staying);
    assert_int_equal(transport->reap(a.instance), 3);
    station_send(&a, a.send, staying + 1, 400);
    transport->region_end(a.instance, staying, sizeof staying);
    assert_int_equal(transport->reap(a.instance), 4);
    station_expect(&b, b.receive, staying + 1, 400);
    station_close(&a);
    station_close(&b);
}

static void leaving_drops_unread_packets_of_the_group(void **state)
{
    struct station a, b;
    lli_handle next;

    (void)state;
    station_open(&a);
    station_open(&b);
    for (int i = 0; i < 50; i++)
        station_send(&a, a.send, "waits", 5);
    transport->leave(b.instance, b.receive, LLI_JOIN_RECEIVE);
    assert_int_equal(station_join(&b, host, (uint16_t)(port + 1), LLI_JOIN_RECEIVE, &next), 0);
    station_expect_nothing(&b);
    station_send(&a, station_peer(&a, &b), "unicast", 7);
    station_expect(&b, LLI_HANDLE_UNICAST, "unicast", 7);
    station_close(&a);
    station_close(&b);
}

static void lent_packets_stay_unchanged_and_are_released_in_any_order(void **state)
{
    enum { HELD = 24, ROUNDS = 200 };
    struct lli_in packets[HELD];
    struct station a, b;
    uint64_t random = 1;
    uint32_t number = 0;
    uint32_t kept[HELD];

    (void)state;
    station_open(&a);
    station_open(&b);
    for (uint32_t i = 0; i < HELD; i++, number++) {
        station_send(&a, a.send, &number, sizeof number);
        kept[i] = number;
        assert_int_equal(station_await(&b, &packets[i], 1, ARRIVAL_NS), 1);
    }
    for (int round = 0; round < ROUNDS; round++, number++) {
        const size_t place = (random = random * 6364136223846793005u + 1442695040888963407u) >> 33 & 15;

        for (size_t i = 0; i < HELD; i++)
            assert_memory_equal(packets[i].data, &kept[i], sizeof kept[i]);
        transport->release(b.instance, &packets[place], 1);
        station_send(&a, a.send, &number, sizeof number);
        kept[place] = number;
        assert_int_equal(station_await(&b, &packets[place], 1, ARRIVAL_NS), 1);
    }
    transport->release(b.instance, packets, HELD);
    station_close(&a);
    station_close(&b);
}

static void receiving_stops_until_lent_packets_are_released(void **state)
{
    struct lli_in *packets = calloc(PACKETS_MAX, sizeof *packets);
    struct lli_in one;
    struct station a, b;
    int lent = 0, count;

    (void)state;
    assert_non_null(packets);
    station_open(&a);
    station_open(&b);
    do {
        station_send(&a, a.send, "lent", 4);
        count = station_await(&b, &packets[lent], 1, lent < BURST ? ARRIVAL_NS : QUIET_NS);
        lent += count;
    } while (count == 1 && lent < PACKETS_MAX);
    assert_true(lent >= BURST && lent < PACKETS_MAX);
    transport->release(b.instance, packets, lent);
    if (station_await(&b, &one, 1, QUIET_NS) == 1)
        transport->release(b.instance, &one, 1);
    station_send(&a, a.send, "again", 5);
    station_expect(&b, b.receive, "again", 5);
    station_close(&a);
    station_close(&b);
    free(packets);
}

/* ------------------------------------------------------------------------------------------------ waiting */

static void an_armed_descriptor_wakes_when_a_packet_arrives(void **state)
{
    struct station a, b;
    int fd = -1;

    (void)state;
    station_open(&a);
    station_open(&b);
    for (int i = 0; i < 5; i++) {
        if (i > 0)
            assert_int_equal(transport->arm(b.instance), fd);
        station_expect_nothing(&b);
        fd = transport->arm(b.instance);
        station_expect_nothing(&b);
        assert_false(readable(fd, 10));
        if (i % 2 == 0)
            station_send(&a, a.send, "wake", 4);
        else
            station_send(&a, station_peer(&a, &b), "wake", 4);
        assert_true(readable(fd, 2000));
        station_expect(&b, i % 2 == 0 ? b.receive : LLI_HANDLE_UNICAST, "wake", 4);
    }
    station_close(&a);
    station_close(&b);
}

static void arming_does_not_miss_packets_that_arrived_before(void **state)
{
    struct station a, b;
    struct lli_in packet;

    (void)state;
    station_open(&a);
    station_open(&b);
    for (int i = 0; i < 3; i++)
        station_send(&a, a.send, "early", 5);
    for (int i = 0; i < 3; i++) {
        int fd;

        /* A packet is available: the descriptor is readable, or the poll after arming finds it. */
        fd = transport->arm(b.instance);
        if (!readable(fd, 0))
            assert_true(station_await(&b, &packet, 1, QUIET_NS) == 1);
        else
            assert_int_equal(station_await(&b, &packet, 1, ARRIVAL_NS), 1);
        transport->release(b.instance, &packet, 1);
    }
    station_close(&a);
    station_close(&b);
}

/* ------------------------------------------------------------------------------------------------ threads */

enum { THREAD_PACKETS = 5000 };

/* Sends to the group from a separate instance, as another context does. */
static void *thread_send(void *arg)
{
    struct station *station = arg;

    for (uint32_t i = 0; i < THREAD_PACKETS; i++) {
        const struct lli_out packet = {.data = (const uint8_t *)&i, .size = sizeof i, .to = station->send};

        while (transport->post(station->instance, &packet, 1) == 0 ||
               transport->flush(station->instance) != 0)
            transport->flush(station->instance);
    }
    return NULL;
}

static void instances_on_different_threads_are_independent(void **state)
{
    struct station a, b;
    struct lli_in packets[BURST];
    pthread_t thread;
    int64_t last = -1;
    int count;

    (void)state;
    station_open(&a);
    station_open(&b);
    assert_int_equal(pthread_create(&thread, NULL, thread_send, &a), 0);
    /* The thread may have to wait for a processor before its first packet. */
    while (last < THREAD_PACKETS - 1 &&
           (count = station_await(&b, packets, BURST, last < 0 ? ARRIVAL_NS : ARRIVAL_NS / 4)) > 0) {
        for (int i = 0; i < count; i++) {
            uint32_t number;

            memcpy(&number, packets[i].data, sizeof number);
            /*
             * Some packets may be lost if this thread does not run. Over two parts a packet that one of them lost comes
             * later on the other.
             */
            assert_true((int64_t)number > last || b.once != NULL);
            last = (int64_t)number > last ? (int64_t)number : last;
        }
        transport->arm(b.instance);
        transport->release(b.instance, packets, count);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(last >= 0);
    station_close(&a);
    station_close(&b);
}

/* --------------------------------------------------------------------------------------------------- main */

static const struct CMUnitTest contract[] = {
    cmocka_unit_test(opening_and_closing_leaves_no_descriptor_and_no_memory),
    cmocka_unit_test(open_reports_the_capabilities_of_an_instance),
    cmocka_unit_test(a_closed_group_can_be_opened_again),
    cmocka_unit_test(an_invalid_group_is_refused_by_name),
    cmocka_unit_test(a_wrong_option_is_refused_by_value),
    cmocka_unit_test(a_packet_reaches_all_instances_in_its_group),
    cmocka_unit_test(a_second_join_returns_the_same_handle_and_no_second_copy),
    cmocka_unit_test(send_joins_and_receive_joins_are_left_separately),
    cmocka_unit_test(groups_are_distinguished_by_port),
    cmocka_unit_test(packets_of_many_groups_are_received),
    cmocka_unit_test(own_packets_are_received_with_loop),
    cmocka_unit_test(own_packets_are_not_received_without_loop),
    cmocka_unit_test(a_unicast_reaches_its_instance_only),
    cmocka_unit_test(an_instance_without_groups_gets_unicasts),
    cmocka_unit_test(the_same_address_gives_the_same_handle),
    cmocka_unit_test(invalid_addresses_are_refused_without_a_log_line),
    cmocka_unit_test(packets_arrive_in_the_order_of_posting),
    cmocka_unit_test(destinations_may_alternate_within_a_flush),
    cmocka_unit_test(the_largest_packet_arrives_and_a_larger_packet_is_dropped),
    cmocka_unit_test(post_accepts_at_least_post_max_packets_until_flush),
    cmocka_unit_test(reap_counts_all_posted_packets),
    cmocka_unit_test(leaving_drops_queued_packets_of_that_group_only),
    cmocka_unit_test(ending_a_region_affects_its_queued_packets_only),
    cmocka_unit_test(leaving_drops_unread_packets_of_the_group),
    cmocka_unit_test(lent_packets_stay_unchanged_and_are_released_in_any_order),
    cmocka_unit_test(receiving_stops_until_lent_packets_are_released),
    cmocka_unit_test(an_armed_descriptor_wakes_when_a_packet_arrives),
    cmocka_unit_test(arming_does_not_miss_packets_that_arrived_before),
    cmocka_unit_test(instances_on_different_threads_are_independent),
};

int main(int argc, char **argv)
{
    int failed;

    if (argc < 3) {
        fprintf(stderr, "usage: %s SCHEME HOST [line=HOST] [hosts=MTU] [OPTION=VALUE...]\n", argv[0]);
        return 2;
    }
    scheme = argv[1];
    host = argv[2];
    port = (uint16_t)(20000 + getpid() % 20000);
    transport = lli_transport_find(scheme);
    if (transport == NULL) {
        fprintf(stderr, "no transport '%s'\n", scheme);
        return 2;
    }
    llm_options_init(&common);
    own_reset();
    for (int i = 3; i < argc; i++)
        option_set(argv[i]);
    if (second_host != NULL)
        transport = lli_transport_find(LLI_SCHEME_LINES);
    if (!network_made())
        return network_skipped();
    shared_memory_own();
    failed = only_faults ? 0
                         : cmocka_run_group_tests(contract, NULL, NULL) + contract_peers() +
                               contract_drops() + contract_slot() + contract_fork();
    if (strncmp(scheme, "impair+", strlen("impair+")) == 0 && second_host == NULL)
        failed += contract_faults();
    /* Failed tests do not clean up. */
    return failed == 0 && shared_memory_is_empty() ? 0 : 1;
}
