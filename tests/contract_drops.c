/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that reached the host and found no buffer space are reported by drops(). */
#define _GNU_SOURCE
#include "contract.h"

#include <string.h>

enum {
    SENT = 20000,   /* more packets than any transport buffers with small options */
    HOLDS = 131072, /* receive buffer requested, in bytes, by transports with a buffer ... */
    KEEPS = 4096,   /* ... and in packets, by transports with a shared ring */
};

static int take_all(struct station *station)
{
    struct lli_in packets[BURST];
    int got = 0, count;

    while ((count = station_await(station, packets, BURST, QUIET_NS)) > 0) {
        got += count;
        transport->release(station->instance, packets, count);
    }
    return got;
}

/* Sends this many packets without receiving. Packets that do not arrive are reported as drops, once. */
static uint64_t expect_told(struct station *from, struct station *to, int packets)
{
    const bool exact = strstr(scheme, "roce") == NULL;
    uint64_t missing, told;

    for (int i = 0; i < packets; i++)
        station_send(from, from->send, &i, sizeof i);
    missing = (uint64_t)packets - (uint64_t)take_all(to);
    told = transport->drops(to->instance);
    /*
     * Packets dropped by a cable between hosts did not reach a host; drops of an RDMA device are not counted
     * by the device.
     */
    if (told < (exact ? missing : missing > 0) && from->host == to->host)
        fail_msg("%llu of %d packets did not come, and %llu are told of", (unsigned long long)missing,
                 packets, (unsigned long long)told);
    if (missing == 0)
        assert_int_equal(told, 0);
    assert_int_equal(transport->drops(to->instance), 0);
    return missing;
}

static void packets_dropped_for_lack_of_room_are_reported_once(void **state)
{
    struct llm_options options = common;
    struct station a, b;

    (void)state;
    options.rcvbuf_bytes = HOLDS;
    options.history_packets = KEEPS;
    station_open_with(&a, &options);
    station_open_with(&b, &options);
    assert_int_equal(transport->drops(b.instance), 0);
    (void)expect_told(&a, &b, 10);
    for (int round = 0; round < 2; round++) /* the second round counts from the first one's drops on */
        assert_true(expect_told(&a, &b, SENT) > 0);
    (void)expect_told(&a, &b, 10);
    station_close(&a);
    station_close(&b);
}

int contract_drops(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packets_dropped_for_lack_of_room_are_reported_once)};

    return transport->drops == NULL ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
