/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that are built in the transport's slots. */
#include "contract.h"

#include <string.h>

/* A packet built in a slot arrives unchanged and stays readable; a slot may also remain unused. */
static void a_packet_may_be_built_in_the_ring_entry(void **state)
{
    uint8_t packet[1024];
    struct lli_region region = {.base = NULL};
    struct station a, b;
    uint64_t posted = 0;

    (void)state;
    station_open(&a);
    station_open(&b);
    assert_int_equal(transport->region_map(a.instance, a.send, 1 << 20, &region), 0);
    for (uint32_t i = 0; i < 3 * BURST; i++) {
        const uint32_t size = 1 + i * 7 % a.caps.slot_max;
        uint8_t *slot = transport->slot(a.instance, a.send);

        assert_in_range(size, 1, sizeof packet);
        assert_ptr_equal(*region.slot, slot);
        memset(packet, (int)i + 1, size);
        memcpy(slot, packet, size);
        /* Other packets may be posted first. */
        if (i % 3 == 1) {
            station_send(&a, a.send, "another", 7);
            posted++;
            station_expect(&b, b.receive, "another", 7);
            memcpy(slot = transport->slot(a.instance, a.send), packet, size);
            assert_ptr_equal(*region.slot, slot);
        }
        transport->post_slot(a.instance, a.send, size);
        assert_int_equal(transport->flush(a.instance), 0);
        assert_int_equal(transport->reap(a.instance), ++posted);
        assert_memory_equal(slot, packet, size);
        station_expect(&b, b.receive, packet, size);
    }
    station_close(&a);
    station_close(&b);
}

/* Skips the tests of slots if the transport has none. */
static void open_reports_the_size_of_slots(void **state)
{
    struct station station;

    (void)state;
    station_open(&station);
    assert_true(station.caps.slot_max == 0 || (transport->slot != NULL && transport->post_slot != NULL));
    assert_true(station.caps.slot_max <= station.caps.payload_max);
    if (station.caps.slot_max > 0)
        a_packet_may_be_built_in_the_ring_entry(state);
    station_close(&station);
}

int contract_slot(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(open_reports_the_size_of_slots)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
