/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that are no longer needed. */
#define _GNU_SOURCE
#include "contract.h"

static struct lli_address address_of(const struct station *station)
{
    struct lli_address address;

    assert_int_equal(transport->address(station->instance, &address), 0);
    return address;
}

/* Forgets addresses far more often than there are entries; a forgotten address can be reached again. */
static void a_forgotten_address_makes_room_and_is_reached_again(void **state)
{
    enum { PLACES = 9 };
    struct llm_options options = common;
    struct lli_address of_b, of_c;
    struct station a, b, c;
    lli_handle first;

    (void)state;
    if (transport->forget == NULL)
        skip();
    options.receivers_max = PLACES - 1;
    options.sessions_max = 1;
    station_open_with(&a, &options);
    station_open(&b);
    station_open(&c);
    of_b = address_of(&b);
    of_c = address_of(&c);
    transport->forget(a.instance, &of_b); /* an address that was never used */
    first = station_peer(&a, &b);
    transport->forget(a.instance, &of_b);
    assert_int_equal(station_peer(&a, &c), first);
    assert_int_not_equal(station_peer(&a, &b), first);
    for (int i = 0; i < 20 * PLACES; i++) {
        station_send(&a, station_peer(&a, i % 2 == 0 ? &b : &c), "over", 4);
        /* Perhaps while a device reads a packet to it. */
        transport->forget(a.instance, i % 2 == 0 ? &of_b : &of_c);
        station_expect(i % 2 == 0 ? &b : &c, LLI_HANDLE_UNICAST, "over", 4);
    }
    station_send(&a, station_peer(&a, &b), "b again", 7);
    station_send(&a, station_peer(&a, &c), "c again", 7);
    station_expect(&b, LLI_HANDLE_UNICAST, "b again", 7);
    station_expect(&c, LLI_HANDLE_UNICAST, "c again", 7);
    station_close(&a);
    station_close(&b);
    station_close(&c);
}

/*
 * An address may be resolved at once or later. Repeated requests end with a handle; a forgotten address
 * leaves nothing.
 */
static void an_unresolved_address_may_be_forgotten(void **state)
{
    struct lli_address of_b;
    struct station a, b;
    lli_handle handle;
    int status;

    (void)state;
    if (transport->forget == NULL)
        skip();
    station_open(&a);
    station_open(&b);
    of_b = address_of(&b);
    log_text[0] = '\0';
    for (int i = 0; i < 50; i++) {
        status = transport->peer(a.instance, &of_b, &handle);
        assert_true(status == 0 || status == LLM_EAGAIN);
        transport->forget(a.instance, &of_b);
        transport->forget(a.instance, &of_b);
    }
    handle = station_peer(&a, &b);
    station_send(&a, handle, "there", 5);
    station_expect(&b, LLI_HANDLE_UNICAST, "there", 5);
    /* A resolved address does not have to be waited for. */
    for (int i = 0; i < 50; i++)
        assert_int_equal(station_peer(&a, &b), handle);
    assert_string_equal(log_text, "");
    station_close(&a);
    station_close(&b);
}

/*
 * The last bytes of an address number ports or instances: the transport has room for as many at a time as the
 * options allow.
 */
static void every_address_within_the_limits_of_the_options_is_accepted(void **state)
{
    enum { PLACES = 5000 };
    struct llm_options options = common;
    struct lli_address address;
    struct station a;
    lli_handle handle;

    (void)state;
    options.receivers_max = PLACES - 10;
    options.sessions_max = 10;
    station_open_with(&a, &options);
    address = address_of(&a);
    for (int i = 1; i <= PLACES; i++) {
        address.bytes[address.size - 2] = (uint8_t)(i >> 8);
        address.bytes[address.size - 1] = (uint8_t)i;
        assert_int_not_equal(transport->peer(a.instance, &address, &handle), LLM_ELIMIT);
    }
    station_close(&a);
}

/*
 * The port is ignored. For a decorator or a hybrid transport the result depends on the transport that
 * delivered the packet.
 */
static void came_from_accepts_only_the_host_of_the_sender(void **state)
{
    struct lli_address address = {.size = 0};
    struct station a, b;
    struct lli_in packet;

    (void)state;
    if (transport->came_from == NULL)
        skip();
    station_open(&a);
    station_open(&b);
    assert_int_equal(transport->address(a.instance, &address), 0);
    station_send(&a, station_peer(&a, &b), "mine", 4);
    assert_int_equal(station_await(&b, &packet, 1, ARRIVAL_NS), 1);
    assert_true(transport->came_from(b.instance, &packet, &address));
    address.bytes[address.size - 1] ^= 1;
    assert_true(transport->came_from(b.instance, &packet, &address));
    address.bytes[4] ^= 1;
    assert_true(transport->inner != NULL || !transport->came_from(b.instance, &packet, &address));
    transport->release(b.instance, &packet, 1);
    station_close(&a);
    station_close(&b);
}

int contract_peers(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forgotten_address_makes_room_and_is_reached_again),
        cmocka_unit_test(an_unresolved_address_may_be_forgotten),
        cmocka_unit_test(every_address_within_the_limits_of_the_options_is_accepted),
        cmocka_unit_test(came_from_accepts_only_the_host_of_the_sender),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
