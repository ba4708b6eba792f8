/* SPDX-License-Identifier: Apache-2.0 */
/* Unicast hosts in place of groups: destinations, paths of the packets, and receiving. */
#define _GNU_SOURCE
#include "rig.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../hosts.h"
#include "../network.h"
#include "system/clock.h"

#define OWN "10.77.0.1"
#define NEAR "10.77.0.3"
#define NOBODY "10.77.0.99"
#define WAIT_NS UINT64_C(10000000000)

/* ----------------------------------------------------------------------------------------- sockets, hosts */

/* Opens a socket on a host, at its address. */
static int plain(int place, const char *text, uint16_t at)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(at)};
    int fd;

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    hosts_enter_again(place);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    hosts_leave();
    return fd;
}

static void say_to(int fd, const char *text, size_t size)
{
    static const uint8_t data[2000];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    assert_int_equal(sendto(fd, data, size, 0, (const struct sockaddr *)&address, sizeof address),
                     (ssize_t)size);
}

/* Expects the next number. */
static void expect_number(int fd, uint32_t number)
{
    uint32_t got = 0;

    assert_true(readable(fd, 5000));
    assert_int_equal(recv(fd, &got, sizeof got, 0), sizeof got);
    assert_int_equal(got, number);
}

static void at_first(const char *command)
{
    hosts_enter_again(0);
    assert_true(network_command(command));
    hosts_leave();
}

static lli_handle joins(struct station *station, const char *at, enum lli_join_mode mode)
{
    lli_handle handle = 0;

    if (station_join(station, at, PORT, mode, &handle) != 0)
        fail_msg("join: %s", log_text);
    return handle;
}

static void opens(struct station *station, const char *at)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);

    if (instance_open(station, at, &options) != 0)
        fail_msg("open: %s", log_text);
    assert_int_equal(station->host, 0);
}

static uint64_t frames_sent(const struct station *station)
{
    return station_counter(station, "xdp_frames_sent");
}

static uint64_t detours(const struct station *station)
{
    return station_counter(station, "xdp_host_detours");
}

/* Sends numbers to one host until they leave as frames; returns the next number. */
static uint32_t talk_until_frames(struct station *station, lli_handle to, int fd, uint32_t number)
{
    const uint64_t until = lli_clock_ns() + WAIT_NS, before = frames_sent(station);

    while (frames_sent(station) == before && lli_clock_ns() < until) {
        station_send(station, to, &number, sizeof number);
        expect_number(fd, number++);
    }
    assert_true(frames_sent(station) > before);
    return number;
}

/* ------------------------------------------------------------------------------------------------ sending */

/* The kernel resolves the neighbour with the first packet; each packet arrives once, by either path. */
static void packets_to_a_resolved_neighbour_leave_as_frames(void **state)
{
    struct station station;
    const int fd = plain(FAR_HOST, FAR, PORT);
    uint32_t number = 0;
    uint64_t before;
    lli_handle to;

    (void)state;
    at_first("ip neigh flush dev " HOSTS_INTERFACE);
    opens(&station, FAR);
    to = joins(&station, FAR, LLI_JOIN_SEND);
    number = talk_until_frames(&station, to, fd, 0);
    assert_true(detours(&station) > 0);
    assert_int_equal(detours(&station) + frames_sent(&station), number);
    before = detours(&station);
    for (uint32_t end = number + 100; number < end; number++)
        station_send(&station, to, &number, sizeof number);
    for (number -= 100; frames_sent(&station) + before > number; number++)
        expect_number(fd, number);
    assert_int_equal(detours(&station), before);
    assert_false(readable(fd, 30));
    close(fd);
    station_close(&station);
}

static void a_frame_to_a_host_equals_that_of_the_kernel(void **state)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
    const int fd = plain(FAR_HOST, FAR, PORT);
    uint8_t frames[2][128] = {{0}};
    struct station station;
    int tap, kernel;
    lli_handle to;

    (void)state;
    opens(&station, FAR);
    to = joins(&station, FAR, LLI_JOIN_SEND);
    (void)talk_until_frames(&station, to, fd, 0);
    hosts_enter_again(FAR_HOST);
    address.sll_ifindex = (int)if_nametoindex(HOSTS_INTERFACE);
    tap = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP));
    assert_true(tap >= 0);
    assert_int_equal(bind(tap, (const struct sockaddr *)(const void *)&address, sizeof address), 0);
    hosts_leave();
    kernel = plain(0, OWN, PORT + 1);
    station_send(&station, to, "abcd", 4);
    assert_true(readable(tap, 2000));
    assert_int_equal(recv(tap, frames[0], sizeof frames[0], 0), 42 + 4);
    say_to(kernel, FAR, 4);
    assert_true(readable(tap, 2000));
    assert_int_equal(recv(tap, frames[1], sizeof frames[1], 0), 42 + 4);
    /* Both MAC addresses, the TTL, both addresses, the port. */
    assert_memory_equal(frames[0], frames[1], 14);
    assert_int_equal(frames[0][22], frames[1][22]);
    assert_memory_equal(frames[0] + 26, frames[1] + 26, 8);
    assert_memory_equal(frames[0] + 36, frames[1] + 36, 2);
    assert_memory_equal(frames[0] + 42, "abcd", 4);
    close(kernel);
    close(tap);
    close(fd);
    station_close(&station);
}

/* Two hosts, a group, an unanswering host and this host: each gets each packet once, and in order. */
static void each_destination_of_a_list_gets_each_packet_once(void **state)
{
    static const char *const list[] = {FAR, NEAR, NOBODY, OWN, GROUP};
    enum { LISTED = sizeof list / sizeof list[0], TURNS = 40, ROUNDS = 5 };
    const int far = plain(FAR_HOST, FAR, PORT), near = plain(NEAR_HOST, NEAR, PORT),
              own = plain(0, OWN, PORT);
    uint32_t numbers[TURNS];
    struct station station, other;
    struct lli_out out[TURNS * LISTED];
    const struct llm_options options = options_on(HOSTS_INTERFACE);

    (void)state;
    opens(&station, FAR);
    assert_int_equal(instance_open(&other, GROUP, &options), 0);
    (void)joins(&other, GROUP, LLI_JOIN_RECEIVE);
    for (uint32_t i = 0; i < LISTED; i++) {
        const lli_handle to = joins(&station, list[i], LLI_JOIN_SEND);

        for (uint32_t turn = 0; turn < TURNS; turn++)
            out[i * TURNS + turn] = (struct lli_out){(const uint8_t *)&numbers[turn], sizeof numbers[0], to};
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t turn = 0; turn < TURNS; turn++)
            numbers[turn] = round * TURNS + turn;
        assert_int_equal(transport->post(station.instance, out, TURNS * LISTED), TURNS * LISTED);
        station_flush(&station);
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            expect_number(far, numbers[turn]);
            expect_number(near, numbers[turn]);
            expect_number(own, numbers[turn]);
        }
    }
    assert_int_equal(heard(&other), TURNS * ROUNDS);
    assert_int_equal(frames_received(&other), TURNS * ROUNDS);
    assert_false(readable(far, 30) || readable(near, 0) || readable(own, 0));
    assert_true(frames_sent(&station) > TURNS * ROUNDS);
    close(far);
    close(near);
    close(own);
    station_close(&other);
    station_close(&station);
}

static void an_unanswering_host_is_named_once(void **state)
{
    struct station station;
    uint64_t until = lli_clock_ns() + WAIT_NS;
    lli_handle to;

    (void)state;
    opens(&station, FAR);
    to = joins(&station, NOBODY, LLI_JOIN_SEND);
    /* The kernel asks three times, a second apart; this shortens it. */
    at_first("ip neigh replace " NOBODY " dev " HOSTS_INTERFACE " nud failed");
    while (station_counter(&station, "xdp_hosts_dead") == 0 && lli_clock_ns() < until)
        station_send(&station, to, "abcd", 4);
    assert_int_equal(station_counter(&station, "xdp_hosts_dead"), 1);
    assert_string_equal(log_text, ""); /* data operations do not log */
    transport->report(station.instance);
    expect_logged("host " NOBODY ":17003 does not answer on interface " HOSTS_INTERFACE);
    expect_logged("'ip neigh'");
    log_text[0] = '\0';
    at_first("ip neigh replace " NOBODY " dev " HOSTS_INTERFACE " nud failed");
    station_send(&station, to, "abcd", 4);
    transport->report(station.instance);
    assert_string_equal(log_text, "");
    assert_int_equal(station_counter(&station, "xdp_hosts_dead"), 1);
    assert_int_equal(frames_sent(&station), 0);
    station_close(&station);
}

/*
 * The packet makes the kernel verify the neighbour: a host whose address has moved to another machine is
 * found again.
 */
static void a_stale_neighbour_gets_a_packet_by_the_kernel(void **state)
{
    struct station station;
    const int fd = plain(FAR_HOST, FAR, PORT);
    const uint64_t until = lli_clock_ns() + WAIT_NS;
    uint32_t number;
    uint64_t before;
    lli_handle to;

    (void)state;
    opens(&station, FAR);
    to = joins(&station, FAR, LLI_JOIN_SEND);
    number = talk_until_frames(&station, to, fd, 0);
    before = detours(&station);
    at_first("ip neigh change " FAR " dev " HOSTS_INTERFACE " nud stale");
    while (detours(&station) == before && lli_clock_ns() < until) {
        station_send(&station, to, &number, sizeof number);
        expect_number(fd, number++);
    }
    assert_int_equal(detours(&station), before + 1);
    (void)talk_until_frames(&station, to, fd, number);
    assert_int_equal(detours(&station), before + 1);
    close(fd);
    station_close(&station);
}

/* ---------------------------------------------------------------------------------------------- receiving */

static void packets_to_this_host_and_port_arrive_as_frames(void **state)
{
    struct station station;
    const int fd = plain(FAR_HOST, FAR, PORT);

    (void)state;
    opens(&station, OWN);
    (void)joins(&station, OWN, LLI_JOIN_RECEIVE);
    say_to(fd, OWN, 10);
    say_to(fd, OWN, 1472);
    assert_int_equal(heard(&station), 2);
    assert_int_equal(frames_received(&station), 2);
    close(fd);
    station_close(&station);
}

/* Packets of the instance to itself pass the kernel. */
static void an_instance_receives_its_own_unicasts_once(void **state)
{
    struct station station;
    lli_handle to;

    (void)state;
    opens(&station, OWN);
    (void)joins(&station, OWN, LLI_JOIN_RECEIVE);
    to = joins(&station, OWN, LLI_JOIN_SEND);
    for (int i = 0; i < 10; i++)
        station_send(&station, to, "mine", 4);
    assert_int_equal(heard(&station), 10);
    assert_int_equal(frames_sent(&station), 0);
    assert_int_equal(station_counter(&station, "xdp_hosts_dead"), 0);
    station_close(&station);
}

static void invalid_host_addresses_are_refused(void **state)
{
    static const char *const none[] = {"10.77.0.255", "127.0.0.1", "0.0.0.0", "255.255.255.255"};
    struct station station;
    lli_handle handle;

    (void)state;
    opens(&station, OWN);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(station_join(&station, none[i], PORT, LLI_JOIN_SEND, &handle), LLM_EGROUP);
        expect_logged(none[i]);
    }
    /* The address of another host. */
    assert_true(station_join(&station, FAR, PORT, LLI_JOIN_RECEIVE, &handle) < 0);
    expect_logged(FAR);
    station_close(&station);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_to_a_resolved_neighbour_leave_as_frames),
        cmocka_unit_test(a_frame_to_a_host_equals_that_of_the_kernel),
        cmocka_unit_test(each_destination_of_a_list_gets_each_packet_once),
        cmocka_unit_test(an_unanswering_host_is_named_once),
        cmocka_unit_test(a_stale_neighbour_gets_a_packet_by_the_kernel),
        cmocka_unit_test(packets_to_this_host_and_port_arrive_as_frames),
        cmocka_unit_test(an_instance_receives_its_own_unicasts_once),
        cmocka_unit_test(invalid_host_addresses_are_refused),
    };

    return rig_run(tests, sizeof tests / sizeof tests[0]);
}
