/* SPDX-License-Identifier: Apache-2.0 */
/* Packets sent and received by the AF_XDP transport, checked with plain sockets on other hosts. */
#define _GNU_SOURCE
#include "rig.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../hosts.h"
#include "../network.h"

/* ------------------------------------------------------------------------------------ sockets of the test */

static struct sockaddr_in address_v4(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

static void set(int fd, int level, int name, int value)
{
    assert_int_equal(setsockopt(fd, level, name, &value, sizeof value), 0);
}

/* Opens a socket on another host that sends to the group. */
static int talker(int place)
{
    const struct sockaddr_in address = address_v4(GROUP);
    struct ip_mreqn out = {.imr_ifindex = 0};
    int fd;

    hosts_enter_again(place);
    out.imr_ifindex = (int)if_nametoindex(HOSTS_INTERFACE);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    hosts_leave();
    return fd;
}

/* Opens a socket on a host that joins the group there. */
static int listener(int place)
{
    const struct sockaddr_in address = address_v4(GROUP);
    struct ip_mreqn request = {.imr_multiaddr = address.sin_addr};
    int fd;

    hosts_enter_again(place);
    request.imr_ifindex = (int)if_nametoindex(HOSTS_INTERFACE);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request), 0);
    hosts_leave();
    return fd;
}

static void say(int fd, size_t size)
{
    static const uint8_t data[4096];

    assert_int_equal(send(fd, data, size, 0), (ssize_t)size);
}

/* Expects this many datagrams at a socket, and no more. */
static void expect_heard_by(int fd, int count)
{
    char data[64];

    for (int i = 0; i < count; i++) {
        assert_true(readable(fd, 2000));
        assert_true(recv(fd, data, sizeof data, 0) >= 0);
    }
    assert_false(readable(fd, 30));
}

/* ------------------------------------------------------------------------------------------------ sending */

/* Opens a socket for all frames that a host receives. */
static int tap(int place)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP)};
    int fd;

    hosts_enter_again(place);
    address.sll_ifindex = (int)if_nametoindex(HOSTS_INTERFACE);
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP));
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&address, sizeof address), 0);
    hosts_leave();
    return fd;
}

static void frames_equal_those_of_the_kernel(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    const struct sockaddr_in group = address_v4(GROUP);
    uint8_t own[128] = {0}, kernel[128] = {0};
    struct station station;
    int fd, seen;

    (void)state;
    must_open(&station, &options);
    assert_int_equal(station.host, 0);
    seen = tap(FAR_HOST);
    station_send(&station, must_join(&station, LLI_JOIN_SEND), "the same bytes", 14);
    assert_true(readable(seen, 2000));
    assert_int_equal(recv(seen, own, sizeof own, 0), 42 + 14);
    fd = talker(0);
    set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    /* An unconnected socket does not number its packets: as in our frames, the identification is 0. */
    assert_int_equal(connect(fd, &(const struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr)),
                     0);
    assert_int_equal(sendto(fd, "the same bytes", 14, 0, (const struct sockaddr *)&group, sizeof group), 14);
    assert_true(readable(seen, 2000));
    assert_int_equal(recv(seen, kernel, sizeof kernel, 0), 42 + 14);
    memcpy(kernel + 34, own + 34, 2); /* each has its own port, */
    memcpy(kernel + 40, own + 40, 2); /* and only the kernel's has a checksum */
    assert_memory_equal(own, kernel, 42 + 14);
    assert_int_equal(own[40] | own[41], 0);
    close(fd);
    close(seen);
    station_close(&station);
}

/*
 * A packet arrives over the cable and, if the instance receives its own packets, by the kernel; never by
 * both.
 */
static void each_packet_arrives_once(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int fd = listener(FAR_HOST);
    lli_handle to;

    (void)state;
    must_open(&station, &options);
    to = must_join(&station, LLI_JOIN_SEND);
    station_send(&station, to, "once", 4);
    expect_heard_by(fd, 1);
    must_join(&station, LLI_JOIN_RECEIVE);
    station_send(&station, to, "once", 4);
    expect_heard_by(fd, 1);
    assert_int_equal(heard(&station), 1);
    assert_int_equal(frames_received(&station), 0);
    close(fd);
    station_close(&station);
}

/* No copy for this host is sent if the instance receives from other sources only. */
static void each_packet_arrives_once_without_own_packets(void **state)
{
    struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int fd = listener(FAR_HOST);

    (void)state;
    strcpy(options.source, FAR);
    must_listen(&station, &options);
    station_send(&station, must_join(&station, LLI_JOIN_SEND), "once", 4);
    expect_heard_by(fd, 1);
    assert_int_equal(heard(&station), 0);
    close(fd);
    station_close(&station);
}

static void packets_with_a_ttl_of_zero_stay_on_the_host(void **state)
{
    struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int fd = listener(FAR_HOST);

    (void)state;
    options.ttl = 0;
    must_open(&station, &options);
    must_join(&station, LLI_JOIN_RECEIVE);
    station_send(&station, must_join(&station, LLI_JOIN_SEND), "here", 4);
    expect_heard_by(fd, 0);
    assert_int_equal(heard(&station), 1);
    close(fd);
    station_close(&station);
}

/* ---------------------------------------------------------------------------------------------- receiving */

static void packets_of_a_plain_socket_arrive_as_frames(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int fd = talker(FAR_HOST);

    (void)state;
    must_listen(&station, &options);
    say(fd, 10);
    say(fd, 1472);
    say(fd, 0);
    assert_int_equal(heard(&station), 3);
    assert_int_equal(frames_received(&station), 3);
    close(fd);
    station_close(&station);
}

/* A thread woken by the sockets of UDP finds the packet at its first receive call. */
static void packets_by_the_kernel_are_available_after_arming(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station, other;
    struct lli_in packet;

    (void)state;
    must_open(&station, &options);
    must_open(&other, &options);
    for (int i = 0; i < 5; i++) {
        station_send(&other, station_peer(&other, &station), "unicast", 7);
        assert_true(readable(transport->arm(station.instance), 2000));
        assert_int_equal(transport->receive(station.instance, &packet, 1), 1);
        assert_int_equal(packet.from, LLI_HANDLE_UNICAST);
        transport->release(station.instance, &packet, 1);
    }
    station_close(&station);
    station_close(&other);
}

static void fragments_arrive_by_the_kernel(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    int fd;

    (void)state;
    must_listen(&station, &options);
    hosts_enter_again(FAR_HOST);
    assert_true(network_command("ip route add " GROUP "/32 dev llm0 mtu lock 600"));
    fd = talker(FAR_HOST);
    set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
    say(fd, 1400);
    assert_int_equal(heard(&station), 1);
    assert_int_equal(frames_received(&station), 0);
    close(fd);
    hosts_enter_again(FAR_HOST);
    assert_true(network_command("ip route del " GROUP "/32"));
    hosts_leave();
    station_close(&station);
}

static void packets_with_ip_options_arrive_by_the_kernel(void **state)
{
    static const uint8_t nothing[4] = {IPOPT_NOOP, IPOPT_NOOP, IPOPT_NOOP, IPOPT_NOOP};
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int fd = talker(FAR_HOST);

    (void)state;
    must_listen(&station, &options);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, nothing, sizeof nothing), 0);
    say(fd, 100);
    assert_int_equal(heard(&station), 1);
    assert_int_equal(frames_received(&station), 0);
    close(fd);
    station_close(&station);
}

/* The kernel splits them for an interface with a native program. */
static void trains_of_a_plain_socket_arrive_packet_by_packet(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int fd = talker(FAR_HOST);

    (void)state;
    own_set("xdp_mode", "native");
    must_listen(&station, &options);
    set(fd, SOL_UDP, UDP_SEGMENT, 200);
    say(fd, 4000);
    assert_int_equal(heard(&station), 20);
    assert_int_equal(frames_received(&station), 20);
    transport->arm(station.instance);
    assert_int_equal(station_counter(&station, "xdp_kernel_drops"), 0);
    close(fd);
    station_close(&station);
}

/* Sends a train of packets of this size, each with the size at its beginning. */
static void say_train(int fd, uint16_t size, int count)
{
    uint8_t data[4096] = {0};

    for (int i = 0; i < count; i++)
        memcpy(data + i * size, (const uint8_t[]){0, (uint8_t)size, (uint8_t)(size >> 8)}, 3);
    set(fd, SOL_UDP, UDP_SEGMENT, count > 1 ? size : 0);
    assert_int_equal(send(fd, data, (size_t)(count * size), 0), count * size);
}

/* On veth the program runs in generic mode by default: the native driver would copy each frame once more. */
static void trains_on_veth_arrive_by_the_kernel_single_packets_as_frames(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int fd = talker(FAR_HOST);

    (void)state;
    size_at = 1;
    must_listen(&station, &options);
    size_at = 0;
    say_train(fd, 200, 20);
    assert_int_equal(heard(&station), 20);
    say_train(fd, 300, 2); /* no longer than a frame may be */
    assert_int_equal(heard(&station), 2);
    assert_int_equal(frames_received(&station), 0);
    say_train(fd, 300, 1);
    assert_int_equal(heard(&station), 1);
    assert_int_equal(frames_received(&station), 1);
    transport->arm(station.instance);
    assert_int_equal(station_counter(&station, "xdp_kernel_drops"), 0);
    close(fd);
    station_close(&station);
}

static void native_mode_can_be_configured_on_veth(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int fd = talker(FAR_HOST);

    (void)state;
    own_set("xdp_mode", "native");
    size_at = 1;
    must_listen(&station, &options);
    size_at = 0;
    say_train(fd, 200, 20);
    assert_int_equal(heard(&station), 20);
    assert_int_equal(frames_received(&station), 20);
    close(fd);
    station_close(&station);
}

static void trains_of_unknown_size_are_lost_in_generic_mode(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int fd = talker(FAR_HOST);

    (void)state;
    own_set("xdp_mode", "generic");
    must_listen(&station, &options);
    set(fd, SOL_UDP, UDP_SEGMENT, 200);
    say(fd, 4000);
    assert_int_equal(heard(&station), 0);
    transport->arm(station.instance);
    assert_true(station_counter(&station, "xdp_kernel_drops") > 0);
    set(fd, SOL_UDP, UDP_SEGMENT, 0);
    say(fd, 200);
    assert_int_equal(heard(&station), 1);
    assert_int_equal(frames_received(&station), 1);
    close(fd);
    station_close(&station);
}

static void a_source_specific_join_receives_its_source_only(void **state)
{
    struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    const int far = talker(FAR_HOST), near = talker(NEAR_HOST);

    (void)state;
    strcpy(options.source, FAR);
    must_listen(&station, &options);
    say(near, 10);
    say(far, 20);
    say(near, 10);
    assert_int_equal(heard(&station), 1);
    assert_int_equal(frames_received(&station), 1);
    assert_int_equal(station_counter(&station, "xdp_foreign"), 2);
    close(far);
    close(near);
    station_close(&station);
}

/* The kernel makes the copies; frames come again after one join is left. */
static void each_join_of_a_group_receives_its_own_source(void **state)
{
    struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    lli_handle any;
    const int far = talker(FAR_HOST), near = talker(NEAR_HOST);

    (void)state;
    any = must_listen(&station, &options);
    strcpy(station.options.source, FAR);
    must_join(&station, LLI_JOIN_RECEIVE);
    say(far, 10);
    say(near, 10);
    assert_int_equal(heard(&station), 3);
    assert_int_equal(frames_received(&station), 0);
    transport->leave(station.instance, any, LLI_JOIN_RECEIVE);
    say(far, 10);
    say(near, 10);
    assert_int_equal(heard(&station), 1);
    assert_int_equal(frames_received(&station), 1);
    close(far);
    close(near);
    station_close(&station);
}

static void other_sockets_of_the_host_receive_a_group_after_it_is_left(void **state)
{
    const struct llm_options options = options_on(HOSTS_INTERFACE);
    struct station station;
    lli_handle handle;
    const int fd = talker(FAR_HOST), other = listener(0);

    (void)state;
    handle = must_listen(&station, &options);
    assert_int_equal(station.host, 0);
    say(fd, 10);
    assert_int_equal(heard(&station), 1);
    expect_heard_by(other, 0);
    transport->leave(station.instance, handle, LLI_JOIN_RECEIVE);
    say(fd, 10);
    expect_heard_by(other, 1);
    assert_int_equal(heard(&station), 0);
    close(fd);
    close(other);
    station_close(&station);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_equal_those_of_the_kernel),
        cmocka_unit_test(each_packet_arrives_once),
        cmocka_unit_test(each_packet_arrives_once_without_own_packets),
        cmocka_unit_test(packets_with_a_ttl_of_zero_stay_on_the_host),
        cmocka_unit_test(packets_of_a_plain_socket_arrive_as_frames),
        cmocka_unit_test(packets_by_the_kernel_are_available_after_arming),
        cmocka_unit_test(fragments_arrive_by_the_kernel),
        cmocka_unit_test(packets_with_ip_options_arrive_by_the_kernel),
        cmocka_unit_test(trains_of_a_plain_socket_arrive_packet_by_packet),
        cmocka_unit_test(trains_on_veth_arrive_by_the_kernel_single_packets_as_frames),
        cmocka_unit_test(native_mode_can_be_configured_on_veth),
        cmocka_unit_test(trains_of_unknown_size_are_lost_in_generic_mode),
        cmocka_unit_test(a_source_specific_join_receives_its_source_only),
        cmocka_unit_test(each_join_of_a_group_receives_its_own_source),
        cmocka_unit_test(other_sockets_of_the_host_receive_a_group_after_it_is_left),
    };

    return rig_run(tests, sizeof tests / sizeof tests[0]);
}
