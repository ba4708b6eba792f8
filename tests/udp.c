/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of the UDP transport only, checked with plain sockets. In a network namespace of its own. */
#define _GNU_SOURCE
#include "contract.h"

#include <arpa/inet.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "network.h"

#define GROUP "239.193.7.2"
#define GROUP_SSM "232.1.7.2"
#define GROUP_IPV6 "ff15::7:2"

enum { PORT = 17002 };

extern const struct lli_transport lli_transport_udp;
static const struct lli_transport *const udp = &lli_transport_udp;

static void expect_logged(const char *text)
{
    if (strstr(log_text, text) == NULL)
        fail_msg("'%s' is not in the log: %s", text, log_text);
}

/* ---------------------------------------------------------------------------------------------- instances */

static struct llm_options options_on(const char *interface)
{
    struct llm_options options;

    llm_options_init(&options);
    snprintf(options.interface, sizeof options.interface, "%s", interface);
    return options;
}

static void must_open(struct station *station, const char *at, const struct llm_options *options)
{
    if (instance_open(station, at, options) != 0)
        fail_msg("open: %s", log_text);
}

static int try_join(struct station *station, const char *at, enum lli_join_mode mode, lli_handle *handle)
{
    return station_join(station, at, PORT, mode, handle);
}

static lli_handle must_join(struct station *station, const char *at, enum lli_join_mode mode)
{
    lli_handle handle = 0;

    assert_int_equal(try_join(station, at, mode, &handle), 0);
    return handle;
}

static bool station_hears(struct station *station, uint64_t wait_ns)
{
    struct lli_in packet;

    if (station_await(station, &packet, 1, wait_ns) == 0)
        return false;
    udp->release(station->instance, &packet, 1);
    return true;
}

/* ------------------------------------------------------------------------------------ sockets of the test */

static struct sockaddr_in address_v4(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

static void membership(int fd, const char *group, const char *interface)
{
    const struct ip_mreqn request = {
        .imr_multiaddr = address_v4(group).sin_addr,
        .imr_ifindex = (int)if_nametoindex(interface),
    };

    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request), 0);
}

/* Opens a socket bound to a group and port, as another program on this host would. */
static int listener(const char *group, const char *interface)
{
    const struct sockaddr_in address = address_v4(group);
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    const int on = 1;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    membership(fd, group, interface);
    return fd;
}

/* Sends one packet of this size, and lets the kernel fragment it. */
static void send_plainly(const char *group, const char *interface, size_t size)
{
    static const uint8_t data[65000];
    const struct ip_mreqn out = {.imr_ifindex = (int)if_nametoindex(interface)};
    const struct sockaddr_in address = address_v4(group);
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    const int fragment = IP_PMTUDISC_DONT;

    assert_true(fd >= 0 && size <= sizeof data);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &fragment, sizeof fragment), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out), 0);
    assert_int_equal(sendto(fd, data, size, 0, (const struct sockaddr *)&address, sizeof address),
                     (ssize_t)size);
    close(fd);
}

/* ----------------------------------------------------------------------------------------------- refusals */

static void expect_open_refused(const char *at, const struct llm_options *options, int error,
                                const char *text)
{
    struct station station;

    assert_int_equal(instance_open(&station, at, options), error);
    expect_logged(text);
}

static void addresses_of_neither_a_group_nor_a_host_are_refused(void **state)
{
    const struct llm_options options = options_on(NETWORK_INTERFACE);
    struct llm_options source = options;
    struct station station;
    lli_handle handle;

    (void)state;
    expect_open_refused("255.255.255.255", &options, LLM_EGROUP, "255.255.255.255");
    expect_open_refused("0.0.0.0", &options, LLM_EGROUP, "0.0.0.0");
    expect_open_refused("127.0.0.1", &options, LLM_EGROUP, "127.0.0.1");
    must_open(&station, GROUP, &options);
    assert_int_equal(try_join(&station, "10.77.0.255", LLI_JOIN_SEND, &handle), LLM_EGROUP);
    expect_logged("10.77.0.255");
    /* An instance is of one address family, that of the host it was opened for. */
    assert_int_equal(try_join(&station, GROUP_IPV6, LLI_JOIN_RECEIVE, &handle), LLM_EGROUP);
    expect_logged(GROUP_IPV6);
    /* A unicast address cannot be shared. */
    assert_int_equal(try_join(&station, "10.77.0.99", LLI_JOIN_RECEIVE, &handle), LLM_EINTERFACE);
    expect_logged("10.77.0.99");
    station_close(&station);
    snprintf(source.source, sizeof source.source, "10.77.0.2");
    must_open(&station, "10.77.0.1", &source);
    assert_int_equal(try_join(&station, "10.77.0.1", LLI_JOIN_RECEIVE, &handle), LLM_EOPTION);
    expect_logged("source=10.77.0.2");
    station_close(&station);
}

static void unusable_interfaces_are_refused(void **state)
{
    static const char *const names[] = {"absent0", "down0", "bare0", "deaf0", "10.77.0.99", "fd77::99"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct llm_options options = options_on(names[i]);

        expect_open_refused(GROUP, &options, LLM_EINTERFACE, names[i]);
    }
}

static void an_interface_without_an_address_of_the_family_is_refused(void **state)
{
    const struct llm_options options = options_on("deaf0");

    (void)state;
    assert_true(network_command("ip -6 address flush dev deaf0"));
    expect_open_refused(GROUP_IPV6, &options, LLM_EINTERFACE, "no IPv6 address");
}

static void an_mtu_beyond_the_interface_is_refused(void **state)
{
    struct llm_options options = options_on(NETWORK_INTERFACE);

    (void)state;
    options.mtu = 1501;
    expect_open_refused(GROUP, &options, LLM_EOPTION, "mtu=1501");
    options.mtu = 575;
    expect_open_refused(GROUP, &options, LLM_EOPTION, "mtu=575");
    options.mtu = 1279;
    expect_open_refused(GROUP_IPV6, &options, LLM_EOPTION, "mtu=1279");
}

static void a_port_in_exclusive_use_is_named(void **state)
{
    const struct llm_options options = options_on(NETWORK_INTERFACE);
    const struct sockaddr_in any = address_v4("0.0.0.0");
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct station station;
    lli_handle handle;

    (void)state;
    assert_int_equal(bind(fd, (const struct sockaddr *)&any, sizeof any), 0);
    must_open(&station, GROUP, &options);
    assert_int_equal(try_join(&station, GROUP, LLI_JOIN_RECEIVE, &handle), LLM_EADDRINUSE);
    expect_logged("17002");
    close(fd);
    assert_int_equal(try_join(&station, GROUP, LLI_JOIN_RECEIVE, &handle), 0);
    station_close(&station);
}

static void invalid_peer_addresses_are_refused(void **state)
{
    static const uint8_t wrong[][7] = {
        {4, 10, 77, 0, 1, 0, 0},       /* no port */
        {6, 10, 77, 0, 1, 1, 1},       /* another family */
        {4, 239, 193, 7, 2, 1, 1},     /* a group */
        {4, 255, 255, 255, 255, 1, 1}, /* limited broadcast */
        {4, 10, 77, 0, 255, 1, 1},     /* broadcast of the interface's network */
        {4, 0, 0, 0, 0, 1, 1},         /* this host */
        {4, 127, 0, 0, 1, 1, 1},       /* this host, whose loopback is not our interface */
        {4, 240, 0, 0, 1, 1, 1},       /* reserved */
    };
    const struct llm_options options = options_on(NETWORK_INTERFACE);
    struct lli_address address = {.size = 7};
    struct station station;
    lli_handle handle;

    (void)state;
    must_open(&station, GROUP, &options);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(address.bytes, wrong[i], 7);
        assert_int_equal(udp->peer(station.instance, &address, &handle), LLM_EINVAL);
    }
    memcpy(address.bytes, (const uint8_t[]){4, 10, 77, 0, 2, 1, 1}, 7);
    assert_int_equal(udp->peer(station.instance, &address, &handle), 0);
    station_close(&station);
}

static void peers_are_limited_and_have_stable_handles(void **state)
{
    struct llm_options options = options_on(NETWORK_INTERFACE);
    struct lli_address address = {.size = 7, .bytes = {4, 10, 77, 0, 2}};
    struct station station;
    lli_handle handle;
    const uint32_t max = (options.receivers_max = 500) + options.sessions_max;

    (void)state;
    must_open(&station, GROUP, &options);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < max; i++) {
            address.bytes[5] = (uint8_t)(1 + i / 256);
            address.bytes[6] = (uint8_t)i;
            assert_int_equal(udp->peer(station.instance, &address, &handle), 0);
            assert_int_equal(handle & 0xffff, i);
        }
    }
    address.bytes[5] = 200;
    assert_int_equal(udp->peer(station.instance, &address, &handle), LLM_ELIMIT);
    station_close(&station);
}

/* --------------------------------------------------------------------------------------------- interfaces */

static void expect_address(const struct llm_options *options, const char *group, const uint8_t *bytes,
                           size_t size)
{
    struct lli_address address;
    struct station station;

    must_open(&station, group, options);
    assert_int_equal(udp->address(station.instance, &address), 0);
    assert_memory_equal(address.bytes, bytes, size);
    station_close(&station);
}

static void the_interface_is_found_by_name_by_address_and_by_default(void **state)
{
    static const uint8_t v4[] = {4, 10, 77, 0, 1};
    static const uint8_t v6[] = {6, 0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    static const char *const names[] = {NETWORK_INTERFACE, NETWORK_IPV4, NETWORK_IPV6, ""};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct llm_options options = options_on(names[i]);

        expect_address(&options, GROUP, v4, sizeof v4);
        expect_address(&options, GROUP_IPV6, v6, sizeof v6);
    }
}

static void the_payload_size_follows_the_mtu_of_the_interface(void **state)
{
    struct llm_options options = options_on(NETWORK_INTERFACE);
    struct station station;

    (void)state;
    must_open(&station, GROUP, &options);
    assert_int_equal(station.caps.payload_max, 1500 - 28);
    station_close(&station);
    must_open(&station, GROUP_IPV6, &options);
    assert_int_equal(station.caps.payload_max, 1500 - 48);
    station_close(&station);
    options.mtu = 1400;
    must_open(&station, GROUP, &options);
    assert_int_equal(station.caps.payload_max, 1400 - 28);
    station_close(&station);
    options = options_on("lo");
    must_open(&station, GROUP, &options);
    assert_int_equal(station.caps.payload_max, 9000 - 28);
    station_close(&station);
    options.mtu = 65535;
    must_open(&station, GROUP, &options);
    assert_int_equal(station.caps.payload_max, 65507);
    station_close(&station);
}

/* ----------------------------------------------------------------------------------------------- delivery */

static void packets_of_another_interface_are_not_delivered(void **state)
{
    const struct llm_options options = options_on(NETWORK_INTERFACE);
    const int other = listener(GROUP, "lo");
    struct station station;

    (void)state;
    must_open(&station, GROUP, &options);
    must_join(&station, GROUP, LLI_JOIN_RECEIVE);
    send_plainly(GROUP, "lo", 10);
    assert_false(station_hears(&station, QUIET_NS));
    send_plainly(GROUP, NETWORK_INTERFACE, 10);
    assert_true(station_hears(&station, ARRIVAL_NS));
    close(other);
    station_close(&station);
}

static void a_source_specific_join_receives_its_source_only(void **state)
{
    struct llm_options options = options_on(NETWORK_INTERFACE);
    struct station right, wrong;

    (void)state;
    strcpy(options.source, NETWORK_IPV4);
    must_open(&right, GROUP_SSM, &options);
    must_join(&right, GROUP_SSM, LLI_JOIN_RECEIVE);
    strcpy(options.source, "10.77.0.99");
    must_open(&wrong, GROUP_SSM, &options);
    must_join(&wrong, GROUP_SSM, LLI_JOIN_RECEIVE);
    send_plainly(GROUP_SSM, NETWORK_INTERFACE, 10);
    assert_true(station_hears(&right, ARRIVAL_NS));
    assert_false(station_hears(&wrong, QUIET_NS));
    station_close(&right);
    station_close(&wrong);
}

static void a_source_specific_group_may_be_joined_without_a_source(void **state)
{
    const struct llm_options options = options_on(NETWORK_INTERFACE);
    struct station station;

    (void)state;
    must_open(&station, GROUP_SSM, &options);
    must_join(&station, GROUP_SSM, LLI_JOIN_RECEIVE);
    send_plainly(GROUP_SSM, NETWORK_INTERFACE, 10);
    assert_true(station_hears(&station, ARRIVAL_NS));
    station_close(&station);
}

static void a_source_of_another_family_is_refused(void **state)
{
    struct llm_options options = options_on(NETWORK_INTERFACE);
    struct station station;
    lli_handle handle;

    (void)state;
    strcpy(options.source, NETWORK_IPV6);
    must_open(&station, GROUP_SSM, &options);
    assert_int_equal(try_join(&station, GROUP_SSM, LLI_JOIN_RECEIVE, &handle), LLM_EOPTION);
    expect_logged(NETWORK_IPV6);
    station_close(&station);
}

static void packets_carry_the_configured_ttl(void **state)
{
    struct llm_options options = options_on(NETWORK_INTERFACE);
    union {
        struct cmsghdr align;
        uint8_t bytes[64];
    } note;
    char data[16];
    struct iovec piece = {data, sizeof data};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &note, .msg_controllen = sizeof note};
    struct station station;
    int fd, on = 1, ttl = 0;

    (void)state;
    options.ttl = 7;
    fd = listener(GROUP, NETWORK_INTERFACE);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on), 0);
    must_open(&station, GROUP, &options);
    station_send(&station, must_join(&station, GROUP, LLI_JOIN_SEND), "seven", 5);
    assert_int_equal(recvmsg(fd, &message, 0), 5);
    assert_non_null(CMSG_FIRSTHDR(&message));
    memcpy(&ttl, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof ttl);
    assert_int_equal(ttl, 7);
    close(fd);
    station_close(&station);
}

/* ----------------------------------------------------------------------------------- buffers and counters */

/* Removes CAP_NET_ADMIN from the thread, or restores it. */
static void administrator(bool on)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    if (on)
        data[0].effective |= 1u << CAP_NET_ADMIN;
    else
        data[0].effective &= ~(1u << CAP_NET_ADMIN);
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void buffers_cut_by_the_system_are_reported_with_the_limit(void **state)
{
    struct llm_options options = options_on(NETWORK_INTERFACE);
    struct station station;
    lli_handle handle;

    (void)state;
    options.rcvbuf_bytes = options.sndbuf_bytes = 1073741824;
    administrator(false);
    must_open(&station, GROUP, &options);
    expect_logged("rcvbuf_bytes=1073741824");
    expect_logged("net.core.rmem_max");
    expect_logged("sndbuf_bytes=1073741824");
    expect_logged("net.core.wmem_max");
    /* A second attempt logs nothing. */
    assert_int_equal(try_join(&station, GROUP, LLI_JOIN_RECEIVE, &handle), 0);
    administrator(true);
    assert_string_equal(log_text, "");
    station_close(&station);
}

static void packets_dropped_by_a_full_buffer_are_counted(void **state)
{
    enum { SENT = 3000 };
    struct llm_options options = options_on(NETWORK_INTERFACE);
    struct station station;
    struct lli_in packets[32];
    lli_handle send;
    int got = 0, count;

    (void)state;
    options.rcvbuf_bytes = 65536;
    must_open(&station, GROUP, &options);
    send = must_join(&station, GROUP, LLI_JOIN_SEND);
    must_join(&station, GROUP, LLI_JOIN_RECEIVE);
    for (int round = 0; round < 2; round++) { /* the kernel's counter continues, and so must ours */
        for (int i = 0; i < SENT; i++)
            station_send(&station, send, &i, sizeof i);
        while ((count = station_await(&station, packets, 32, QUIET_NS)) > 0) {
            got += count;
            udp->release(station.instance, packets, count);
        }
    }
    assert_in_range(got, 10, 2 * SENT - 1);
    assert_int_equal(got + (int)station_counter(&station, "udp_kernel_drops"), 2 * SENT);
    /* drops() reports each drop once; the table of another transport over these sockets omits it. */
    if (udp->drops != NULL) {
        assert_int_equal(got + (int)udp->drops(station.instance), 2 * SENT);
        assert_int_equal(udp->drops(station.instance), 0);
    }
    station_close(&station);
}

static void packets_larger_than_the_interface_carries_are_dropped_and_counted(void **state)
{
    const struct llm_options options = options_on(NETWORK_INTERFACE);
    struct station station;

    (void)state;
    must_open(&station, GROUP, &options);
    must_join(&station, GROUP, LLI_JOIN_RECEIVE);
    for (int i = 0; i < 3; i++)
        send_plainly(GROUP, NETWORK_INTERFACE, 4000);
    assert_false(station_hears(&station, QUIET_NS));
    assert_int_equal(station_counter(&station, "udp_truncated"), 3);
    send_plainly(GROUP, NETWORK_INTERFACE, 1472);
    assert_true(station_hears(&station, ARRIVAL_NS));
    station_close(&station);
}

static void time_stamps_are_the_times_of_arrival(void **state)
{
    struct llm_options options = options_on(NETWORK_INTERFACE);
    struct station station;
    struct lli_in packet;
    struct timespec now;
    lli_handle send;

    (void)state;
    options.timestamps = 1;
    must_open(&station, GROUP, &options);
    send = must_join(&station, GROUP, LLI_JOIN_SEND);
    must_join(&station, GROUP, LLI_JOIN_RECEIVE);
    for (int i = 0; i < 3; i++) {
        uint64_t before, after;

        clock_gettime(CLOCK_REALTIME, &now);
        before = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        station_send(&station, send, "stamped", 7);
        assert_int_equal(station_await(&station, &packet, 1, ARRIVAL_NS), 1);
        clock_gettime(CLOCK_REALTIME, &now);
        after = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        assert_in_range(packet.stamp_ns, before, after);
        udp->release(station.instance, &packet, 1);
    }
    station_close(&station);
}

/* ------------------------------------------------------------------------------------------ unicast group */

static void a_channel_may_name_a_host_instead_of_a_group(void **state)
{
    static const struct {
        const char *interface;
        const char *at;
    } places[] = {
        {NETWORK_INTERFACE, NETWORK_IPV4}, {"", NETWORK_IPV6}, {"", "127.0.0.1"}, {"deaf0", "10.79.0.1"}};

    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const struct llm_options options = options_on(places[i].interface);
        struct station here, there;
        lli_handle to, from;

        must_open(&here, places[i].at, &options);
        must_open(&there, places[i].at, &options);
        from = must_join(&here, places[i].at, LLI_JOIN_RECEIVE);
        to = must_join(&there, places[i].at, LLI_JOIN_SEND);
        station_send(&there, to, "to one", 6);
        station_expect(&here, from, "to one", 6);
        assert_false(station_hears(&there, QUIET_NS));
        station_close(&here);
        station_close(&there);
    }
}

static void an_address_has_one_owner(void **state)
{
    const struct llm_options options = options_on(NETWORK_INTERFACE);
    struct station a, b;
    lli_handle first, second;

    (void)state;
    must_open(&a, GROUP, &options);
    must_open(&b, GROUP, &options);
    first = must_join(&a, NETWORK_IPV4, LLI_JOIN_RECEIVE);
    second = must_join(&a, NETWORK_IPV4, LLI_JOIN_RECEIVE);
    assert_int_equal(first, second);
    assert_int_equal(try_join(&b, NETWORK_IPV4, LLI_JOIN_RECEIVE, &second), LLM_EADDRINUSE);
    expect_logged(NETWORK_IPV4);
    station_close(&a);
    must_join(&b, NETWORK_IPV4, LLI_JOIN_RECEIVE);
    station_close(&b);
}

/* ------------------------------------------------------------------------------------------ failing sends */

static void unsendable_packets_are_dropped_and_block_no_others(void **state)
{
    const struct llm_options options = options_on("gone0");
    struct station station;
    struct lli_out packets[10];
    lli_handle send;

    (void)state;
    must_open(&station, GROUP, &options);
    send = must_join(&station, GROUP, LLI_JOIN_SEND);
    assert_true(network_command("ip link set gone0 down"));
    for (int i = 0; i < 10; i++)
        packets[i] = (struct lli_out){(const uint8_t *)"lost", 4, send};
    assert_int_equal(udp->post(station.instance, packets, 10), 10);
    assert_int_equal(udp->flush(station.instance), 0);
    assert_int_equal(udp->reap(station.instance), 10);
    assert_int_equal(station_counter(&station, "udp_send_errors"), 10);
    station_close(&station);
    assert_true(network_command("ip link set gone0 up"));
}

static void a_closed_peer_does_not_disturb_other_traffic(void **state)
{
    const struct llm_options options = options_on(NETWORK_INTERFACE);
    struct lli_address address;
    struct station a, b;
    lli_handle peer;

    (void)state;
    must_open(&a, GROUP, &options);
    must_open(&b, GROUP, &options);
    assert_int_equal(udp->address(b.instance, &address), 0);
    assert_int_equal(udp->peer(a.instance, &address, &peer), 0);
    station_close(&b);
    for (int i = 0; i < 5; i++) {
        station_send(&a, peer, "anybody?", 8);
        assert_false(station_hears(&a, 1000000));
    }
    must_join(&a, GROUP, LLI_JOIN_RECEIVE);
    send_plainly(GROUP, NETWORK_INTERFACE, 10);
    assert_true(station_hears(&a, ARRIVAL_NS));
    station_close(&a);
}

/* A slow interface leaves packets in the socket's send buffer until it is full. */
static void a_full_send_buffer_queues_packets_and_wakes_on_room(void **state)
{
    struct llm_options options = options_on(NETWORK_INTERFACE);
    static const uint8_t data[1400];
    const int fd = listener(GROUP, "llm1");
    struct station station;
    struct lli_out packets[64];
    lli_handle send;
    char received[2048];
    int status, posted = 0, got = 0;

    (void)state;
    if (!network_command("tc qdisc add dev " NETWORK_INTERFACE
                         " root tbf rate 8mbit burst 3000 limit 10000000 2>/dev/null"))
        skip(); /* this kernel cannot limit an interface's rate */
    /* Both ends of the cable are on this host: allow it to receive packets from itself. */
    assert_true(network_command("sysctl -qw net.ipv4.conf.llm1.accept_local=1 net.ipv4.conf.llm1.rp_filter=0"
                                " net.ipv4.conf.all.rp_filter=0"));
    options.sndbuf_bytes = 8192;
    options.loop = 0;
    must_open(&station, GROUP, &options);
    send = must_join(&station, GROUP, LLI_JOIN_SEND);
    for (int i = 0; i < 64; i++)
        packets[i] = (struct lli_out){data, sizeof data, send};
    posted = udp->post(station.instance, packets, 64);
    assert_int_equal(posted, 64);
    for (int waits = 0; (status = udp->flush(station.instance)) != 0; waits++) {
        assert_int_equal(status, LLM_EAGAIN);
        assert_true(udp->reap(station.instance) < 64);
        assert_true(waits < 1000);
        assert_true(readable(udp->arm(station.instance), 2000));
    }
    assert_int_equal(udp->reap(station.instance), 64);
    assert_true(station_counter(&station, "udp_send_waits") > 0);
    assert_int_equal(station_counter(&station, "udp_send_errors"), 0);
    assert_false(readable(udp->arm(station.instance), 10));
    while (got < posted && readable(fd, 2000))
        got += recv(fd, received, sizeof received, 0) == sizeof data;
    assert_int_equal(got, posted);
    station_close(&station);
    close(fd);
    assert_true(network_command("tc qdisc del dev " NETWORK_INTERFACE " root"));
}

/* --------------------------------------------------------------------------------------------------- main */

/* Interfaces that each lack one property; gone0 is complete until its test removes it. */
static bool interfaces_add(void)
{
    return network_command(
        "{ ip link add down0 type veth peer name down1 && ip address add 10.78.0.1/24 dev down0 &&"
        " ip link add bare0 type veth peer name bare1 && ip link set bare0 up &&"
        " ip link add deaf0 type veth peer name deaf1 && ip address add 10.79.0.1/24 dev deaf0 &&"
        " ip link set deaf0 multicast off && ip link set deaf0 up &&"
        " ip link add gone0 type veth peer name gone1 && ip address add 10.80.0.1/24 dev gone0 &&"
        " ip link set gone0 up && ip link set gone1 up; } >/dev/null 2>&1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_neither_a_group_nor_a_host_are_refused),
        cmocka_unit_test(unusable_interfaces_are_refused),
        cmocka_unit_test(an_interface_without_an_address_of_the_family_is_refused),
        cmocka_unit_test(an_mtu_beyond_the_interface_is_refused),
        cmocka_unit_test(a_port_in_exclusive_use_is_named),
        cmocka_unit_test(invalid_peer_addresses_are_refused),
        cmocka_unit_test(peers_are_limited_and_have_stable_handles),
        cmocka_unit_test(the_interface_is_found_by_name_by_address_and_by_default),
        cmocka_unit_test(the_payload_size_follows_the_mtu_of_the_interface),
        cmocka_unit_test(packets_of_another_interface_are_not_delivered),
        cmocka_unit_test(a_source_specific_join_receives_its_source_only),
        cmocka_unit_test(a_source_specific_group_may_be_joined_without_a_source),
        cmocka_unit_test(a_source_of_another_family_is_refused),
        cmocka_unit_test(packets_carry_the_configured_ttl),
        cmocka_unit_test(buffers_cut_by_the_system_are_reported_with_the_limit),
        cmocka_unit_test(packets_dropped_by_a_full_buffer_are_counted),
        cmocka_unit_test(packets_larger_than_the_interface_carries_are_dropped_and_counted),
        cmocka_unit_test(time_stamps_are_the_times_of_arrival),
        cmocka_unit_test(a_channel_may_name_a_host_instead_of_a_group),
        cmocka_unit_test(an_address_has_one_owner),
        cmocka_unit_test(unsendable_packets_are_dropped_and_block_no_others),
        cmocka_unit_test(a_closed_peer_does_not_disturb_other_traffic),
        cmocka_unit_test(a_full_send_buffer_queues_packets_and_wakes_on_room),
    };

    if (!network_own() || !interfaces_add())
        return network_skipped();
    transport = udp;
    scheme = "udp";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
