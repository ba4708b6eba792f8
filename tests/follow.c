/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP instances whose interface changes its address or MTU while they are open, and unreachable addresses. In
 * a network namespace of its own, in both address families.
 */
#define _GNU_SOURCE
#include "contract.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"

enum { PORT = 17006, BYTES_MAX = 1452 }; /* payload of a packet at an MTU of 1500, in either family */

extern const struct lli_transport lli_transport_udp;

/* Address family of the running tests. */
static struct family {
    const char *name;
    const char *group;
    const char *first;     /* first address of the interface */
    const char *second;    /* second address */
    const char *elsewhere; /* a host without a route, as in packets */
    uint8_t packed[32];
    const char *described; /* the same as text */
} families[] = {
    {"IPv4",
     "239.193.7.6",
     "10.77.0.1/24",
     "10.77.0.5/24",
     "10.99.0.1",
     {4, 10, 99, 0, 1, 0x13, 0x89},
     "10.99.0.1:5001"},
    {"IPv6",
     "ff15::7:6",
     "fd77::1/64",
     "fd77::5/64",
     "fd99::1",
     {6, 0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x13, 0x89},
     "[fd99::1]:5001"},
};
static const struct family *family;

static struct scene {
    struct station a;
    struct station b;
} scene;

static bool command(const char *format, const char *value)
{
    char text[256];

    (void)snprintf(text, sizeof text, format, value);
    return network_command(text);
}

/*
 * Adds an address. IPv6 addresses are verified before use, unless that is disabled; the kernel adds the route
 * later in any case.
 */
static void address_add(const char *address)
{
    char text[256];

    assert_true(command(strchr(address, ':') == NULL ? "ip address add %s dev llm0"
                                                     : "ip address add %s dev llm0 nodad",
                        address));
    (void)snprintf(
        text, sizeof text,
        "for i in $(seq 500); do ip route get %.*s | grep -q ^local && exit 0; sleep 0.01; done; exit 1",
        (int)strcspn(address, "/"), address);
    assert_true(network_command(text));
}

static void address_del(const char *address)
{
    assert_true(command("ip address del %s dev llm0", address));
}

static void mtu_set(const char *mtu)
{
    assert_true(command("ip link set llm0 mtu %s", mtu));
}

static void tell(void)
{
    log_text[0] = '\0';
    transport->report(scene.a.instance);
    transport->report(scene.b.instance);
}

static void expect_logged(const char *text)
{
    if (strstr(log_text, text) == NULL)
        fail_msg("'%s' is not in the log: %s", text, log_text);
}

/* Restores the initial network before every test. IPv6 routes appear with a delay. */
static void network_restore(void)
{
    assert_true(network_command(
        "{ ip link set llm0 mtu 1500 && ip link set llm0 up && ip address flush dev llm0 scope global &&"
        " ip address add 10.77.0.1/24 dev llm0 && ip address add fd77::1/64 dev llm0 nodad &&"
        " for i in $(seq 500); do"
        " ip -6 route get ff15::1 oif llm0 && ip route get fd77::1 | grep ^local && exit 0;"
        " sleep 0.01; done; exit 1; }"
        " >/dev/null 2>&1"));
}

static int scene_open(void **state)
{
    (void)state;
    network_restore();
    host = family->group;
    port = PORT;
    station_open(&scene.a);
    station_open(&scene.b);
    return 0;
}

static int scene_close(void **state)
{
    (void)state;
    station_close(&scene.a);
    station_close(&scene.b);
    return 0;
}

/* Expects traffic in both directions, to the group and by unicast. */
static void expect_all_goes_on(void)
{
    station_send(&scene.a, scene.a.send, "to all", 6);
    station_expect(&scene.b, scene.b.receive, "to all", 6);
    station_expect(&scene.a, scene.a.receive, "to all", 6);
    station_send(&scene.b, station_peer(&scene.b, &scene.a), "to a", 4);
    station_expect(&scene.a, LLI_HANDLE_UNICAST, "to a", 4);
    station_send(&scene.a, station_peer(&scene.a, &scene.b), "to b", 4);
    station_expect(&scene.b, LLI_HANDLE_UNICAST, "to b", 4);
}

static struct lli_address address_of(const struct station *station)
{
    struct lli_address address;

    assert_int_equal(transport->address(station->instance, &address), 0);
    return address;
}

/* ------------------------------------------------------------------------------------------------ address */

static void an_instance_follows_its_interface_to_another_address(void **state)
{
    struct lli_address before = address_of(&scene.a), now;

    (void)state;
    expect_all_goes_on();
    for (int i = 0; i < 4; i++) {
        address_del(i % 2 == 0 ? family->first : family->second);
        address_add(i % 2 == 0 ? family->second : family->first);
        tell();
        expect_logged("has another address");
        now = address_of(&scene.a);
        assert_int_equal(now.size, before.size);
        assert_memory_not_equal(now.bytes, before.bytes, now.size - 2u);
        expect_all_goes_on();
        before = now;
    }
    assert_int_equal(station_counter(&scene.a, "udp_send_errors"), 0);
    assert_int_equal(station_counter(&scene.a, "udp_interface_changes"), 4);
}

static void a_second_address_on_the_interface_changes_nothing(void **state)
{
    const struct lli_address before = address_of(&scene.a);
    struct lli_address now;

    (void)state;
    address_add(family->second);
    tell();
    address_del(family->second);
    tell();
    now = address_of(&scene.a);
    assert_memory_equal(&now, &before, sizeof now);
    assert_string_equal(log_text, "");
    assert_int_equal(station_counter(&scene.a, "udp_interface_changes"), 0);
    expect_all_goes_on();
}

/*
 * Link-local addresses would be sufficient for IPv6 and last as long as the interface: the test removes them
 * too.
 */
static void loss_and_return_of_the_address_are_logged_once_each(void **state)
{
    (void)state;
    address_del(family->first);
    (void)network_command("ip -6 address flush dev llm0 scope link");
    tell();
    expect_logged("has no");
    tell();
    assert_string_equal(log_text, "");
    address_add(family->first);
    tell();
    expect_logged("has its address again");
    expect_all_goes_on();
}

/* ---------------------------------------------------------------------------------------------------- MTU */

static void send_longest(void)
{
    static const uint8_t packet[BYTES_MAX];

    station_send(&scene.a, scene.a.send, packet, sizeof packet);
    station_expect(&scene.b, scene.b.receive, packet, sizeof packet);
    station_expect(&scene.a, scene.a.receive, packet, sizeof packet);
    station_send(&scene.a, station_peer(&scene.a, &scene.b), packet, sizeof packet);
    station_expect(&scene.b, LLI_HANDLE_UNICAST, packet, sizeof packet);
}

static void packets_are_fragmented_while_the_mtu_is_too_small(void **state)
{
    (void)state;
    send_longest();
    mtu_set("1300");
    tell();
    expect_logged("1300");
    send_longest();
    assert_int_equal(station_counter(&scene.a, "udp_send_errors"), 0);
    mtu_set("1500");
    tell();
    expect_logged("whole again");
    send_longest();
    assert_int_equal(station_counter(&scene.a, "udp_interface_changes"), 2);
}

static void a_channel_joined_while_the_mtu_is_too_small_sends_packets(void **state)
{
    static const uint8_t packet[BYTES_MAX];
    lli_handle handle;

    (void)state;
    mtu_set("1300");
    tell();
    assert_int_equal(station_join(&scene.a, host, port, LLI_JOIN_SEND, &handle), 0);
    station_send(&scene.a, handle, packet, sizeof packet);
    station_expect(&scene.b, scene.b.receive, packet, sizeof packet);
    assert_int_equal(station_counter(&scene.a, "udp_send_errors"), 0);
}

/* Posts packets that would leave as a train; returns how many trains left. */
static uint64_t trains_sent(void)
{
    enum { PACKETS = 8 };
    static uint8_t packets[PACKETS][BYTES_MAX];
    const uint64_t before = station_counter(&scene.a, "udp_trains");
    struct lli_out out[PACKETS];

    for (int i = 0; i < PACKETS; i++)
        out[i] = (struct lli_out){packets[i], BYTES_MAX, scene.a.send};
    assert_int_equal(transport->post(scene.a.instance, out, PACKETS), PACKETS);
    station_flush(&scene.a);
    return station_counter(&scene.a, "udp_trains") - before;
}

/* Trains are refused before the interface is checked, and the MTU is restored before the second check. */
static void trains_resume_when_the_mtu_allows_them(void **state)
{
    (void)state;
    if (trains_sent() == 0)
        skip();
    for (int looks = 0; looks < 2; looks++) {
        mtu_set("1300");
        assert_int_equal(trains_sent(), 0);
        if (looks == 1) {
            tell();
            assert_int_equal(trains_sent(), 0);
        }
        mtu_set("1500");
        tell();
        assert_int_equal(trains_sent(), 1);
    }
    assert_true(station_counter(&scene.a, "udp_trains_refused") >= 1);
}

/* An MTU below the minimum of IPv6 removes the family's addresses and memberships, and restores none. */
static void an_mtu_too_small_for_the_family_is_survived(void **state)
{
    (void)state;
    mtu_set("1200");
    tell();
    mtu_set("1500");
    if (family->packed[0] == 6)
        address_add(family->first);
    tell();
    expect_all_goes_on();
    send_longest();
}

/* -------------------------------------------------------------------------------------------- unreachable */

static struct lli_address elsewhere(void)
{
    struct lli_address address = {.size = family->packed[0] == 4 ? 7 : 19};

    memcpy(address.bytes, family->packed, address.size);
    return address;
}

static void an_address_without_a_route_is_reported_once(void **state)
{
    const struct lli_address wanted = elsewhere();
    struct lli_address noted;
    char text[80] = "";
    lli_handle to;
    int number = 0;

    (void)state;
    assert_int_equal(transport->peer(scene.a.instance, &wanted, &to), 0);
    for (int i = 0; i < 3; i++)
        station_send(&scene.a, to, "lost", 4);
    assert_true(transport->unreached(scene.a.instance, &noted, &number));
    assert_memory_equal(&noted, &wanted, sizeof noted);
    assert_int_equal(number, ENETUNREACH);
    assert_false(transport->unreached(scene.a.instance, &noted, &number));
    transport->describe(&wanted, text, sizeof text);
    assert_string_equal(text, family->described);
    assert_int_equal(station_counter(&scene.a, "udp_send_errors"), 3);
}

/* Only some of several hundred failures in a second are recorded. */
static void the_addresses_noted_are_bounded(void **state)
{
    struct lli_address wanted = elsewhere();
    int noted = 0, number;
    lli_handle to;

    (void)state;
    for (int i = 0; i < 300; i++) {
        wanted.bytes[wanted.size - 1] = (uint8_t)(i + 1);
        wanted.bytes[wanted.size - 2] = (uint8_t)(i >> 8 | 0x20);
        assert_int_equal(transport->peer(scene.a.instance, &wanted, &to), 0);
        station_send(&scene.a, to, "lost", 4);
    }
    while (transport->unreached(scene.a.instance, &wanted, &number))
        noted++;
    assert_int_equal(noted, 16);
}

/* Sends to all peers fail then, but the cause is this host. */
static void a_lost_own_address_does_not_make_peers_unreachable(void **state)
{
    const lli_handle to = station_peer(&scene.a, &scene.b);
    struct lli_address noted;
    int number;

    (void)state;
    address_del(family->first);
    station_send(&scene.a, to, "lost", 4);
    address_add(family->second);
    tell();
    assert_false(transport->unreached(scene.a.instance, &noted, &number));
}

/* With IPv6 an interface that is down has no address, and the log line about the address is sufficient. */
static void unsendable_group_packets_are_logged_once(void **state)
{
    bool missing;

    (void)state;
    assert_true(network_command("ip link set llm0 down"));
    tell();
    missing = strstr(log_text, "has no") != NULL;
    assert_int_equal(missing, family->packed[0] == 6);
    for (int i = 0; i < 3; i++) {
        station_send(&scene.a, scene.a.send, "lost", 4);
        tell();
        if (i == 0 && !missing)
            expect_logged(family->group);
        else
            assert_string_equal(log_text, "");
    }
}

static int run(const struct family *of)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_open, scene_close)
        TEST(an_instance_follows_its_interface_to_another_address),
        TEST(a_second_address_on_the_interface_changes_nothing),
        TEST(packets_are_fragmented_while_the_mtu_is_too_small),
        TEST(a_channel_joined_while_the_mtu_is_too_small_sends_packets),
        TEST(trains_resume_when_the_mtu_allows_them),
        TEST(an_address_without_a_route_is_reported_once),
        TEST(the_addresses_noted_are_bounded),
        TEST(a_lost_own_address_does_not_make_peers_unreachable),
        TEST(an_mtu_too_small_for_the_family_is_survived),
        TEST(loss_and_return_of_the_address_are_logged_once_each),
        TEST(unsendable_group_packets_are_logged_once),
    };

    family = of;
    return cmocka_run_group_tests_name(of->name, tests, NULL, NULL);
}

int main(void)
{
    int failed;

    if (!network_own())
        return network_skipped();
    transport = &lli_transport_udp;
    scheme = "udp";
    llm_options_init(&common);
    strcpy(common.interface, NETWORK_INTERFACE);
    failed = run(&families[0]);
    return failed + run(&families[1]) == 0 ? 0 : 1;
}
