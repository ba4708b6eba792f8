/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that are needed no more. */
#define _GNU_SOURCE
#include "contract.h"

/* Whoever comes and goes takes no room for good; what was forgotten is reached again. */
static void a_forgotten_address_makes_room_and_may_come_back(void **state)
{
    struct lli_address of_b, of_c;
    struct station a, b, c;
    lli_handle first;

    (void)state;
    if (transport->forget == NULL)
        skip();
    station_open(&a);
    station_open(&b);
    station_open(&c);
    assert_int_equal(transport->address(b.instance, &of_b), 0);
    assert_int_equal(transport->address(c.instance, &of_c), 0);
    transport->forget(a.instance, &of_b); /* it was never asked for */
    first = station_peer(&a, &b);
    transport->forget(a.instance, &of_b);
    assert_int_equal(station_peer(&a, &c), first);
    assert_int_not_equal(station_peer(&a, &b), first);
    for (int i = 0; i < 10000; i++) {
        transport->forget(a.instance, i % 2 == 0 ? &of_b : &of_c);
        (void)station_peer(&a, i % 2 == 0 ? &b : &c);
    }
    station_send(&a, station_peer(&a, &b), "b again", 7);
    station_send(&a, station_peer(&a, &c), "c again", 7);
    station_expect(&b, LLI_HANDLE_UNICAST, "b again", 7);
    station_expect(&c, LLI_HANDLE_UNICAST, "c again", 7);
    station_close(&a);
    station_close(&b);
    station_close(&c);
}

int contract_peers(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forgotten_address_makes_room_and_may_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
