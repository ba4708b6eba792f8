/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segmentation offload: a train of packets passes the kernel as one (UDP_SEGMENT), and is received as one
 * (UDP_GRO).
 *
 * Some user-space stacks accept the option and ignore it: a train then leaves as one huge datagram. So the
 * offload is used only if a test train arrives as separate packets. The test is sent to the all-hosts group,
 * which every interface belongs to, with a hop limit of 0: it takes the same code path as channel packets and
 * never reaches the network.
 */
#define _GNU_SOURCE
#include "udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    IPV4_TRAIN_BYTES = 65535 - 20 - 8, /* a train must fit into one IP packet */
    IPV6_TRAIN_BYTES = 65535 - 8,
    WIRE_TRAIN_MAX = 16, /* a switch must queue a whole train if others send at the same time */
    OLD_TRAIN_MAX = 64,  /* UDP_MAX_SEGMENTS before Linux 6.9 */
    TEST_PACKET = 24,
    TEST_WAIT_MS = 100,
};

struct offload_test {
    int send;
    int receive;
    uint32_t packets;
    uint8_t sent[LLI_UDP_TRAIN_MAX * TEST_PACKET];
    uint8_t received[LLI_UDP_TRAIN_MAX * TEST_PACKET + 1];
};

/* Returns the all-hosts group: link scope for IPv4, host scope for IPv6. */
static void offload_group(const struct lli_udp *udp, union lli_ip_address *group)
{
    memset(group, 0, sizeof *group);
    group->any.sa_family = udp->family;
    if (udp->family == AF_INET) {
        group->v4.sin_addr.s_addr = htonl(INADDR_ALLHOSTS_GROUP);
        return;
    }
    group->v6.sin6_addr = (struct in6_addr){.s6_addr = {0xff, 0x01, [15] = 1}};
    group->v6.sin6_scope_id = (uint32_t)udp->interface.index;
}

static int offload_test_open(const struct lli_udp *udp, struct offload_test *test)
{
    const struct llm_options own = {.size = sizeof own, .ttl = 0, .loop = 1};
    union lli_ip_address group;
    socklen_t length = sizeof group;

    offload_group(udp, &group);
    test->send = test->receive = -1;
    if (lli_udp_socket(udp, &test->receive) != 0 ||
        bind(test->receive, &group.any, lli_ip_length(&group)) < 0 ||
        getsockname(test->receive, &group.any, &length) < 0 || lli_udp_socket(udp, &test->send) != 0 ||
        lli_udp_sender_set_up(udp, test->send, &own) != 0 ||
        bind(test->send, &udp->interface.address.any, lli_ip_length(&udp->interface.address)) < 0 ||
        connect(test->send, &group.any, lli_ip_length(&group)) < 0)
        return -1;
    /* A test of the kernel says nothing about sockets handled by the user-space stack. */
    if (udp->bypassed != NULL && !udp->bypassed(udp, test->send))
        return -1;
    for (size_t i = 0; i < sizeof test->sent; i++)
        test->sent[i] = (uint8_t)(i / TEST_PACKET * 7 + i % TEST_PACKET);
    return 0;
}

static void offload_test_close(const struct offload_test *test)
{
    if (test->send >= 0)
        close(test->send);
    if (test->receive >= 0)
        close(test->receive);
}

/* Sends a train whose last packet is shorter. */
static bool offload_test_send(const struct offload_test *test)
{
    struct iovec piece = {(void *)(uintptr_t)test->sent, test->packets * TEST_PACKET - 1};
    _Alignas(struct cmsghdr) uint8_t note[CMSG_SPACE(sizeof(uint16_t))];
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};

    lli_udp_segment_note(&header, note, TEST_PACKET);
    return sendmsg(test->send, &header, 0) == (ssize_t)piece.iov_len;
}

/* Receives the packets one by one: the socket has not enabled UDP_GRO. */
static bool offload_test_receive(struct offload_test *test)
{
    struct pollfd ready = {.fd = test->receive, .events = POLLIN};

    for (uint32_t i = 0; i < test->packets; i++) {
        const ssize_t wanted = i + 1 < test->packets ? TEST_PACKET : TEST_PACKET - 1;

        if (poll(&ready, 1, TEST_WAIT_MS) <= 0 ||
            recv(test->receive, test->received, sizeof test->received, MSG_TRUNC) != wanted ||
            memcmp(test->received, test->sent + i * TEST_PACKET, (size_t)wanted) != 0)
            return false;
    }
    return true;
}

/* Returns the length of the longest train that arrives as separate packets; 1: none does. */
static uint32_t offload_test_run(const struct lli_udp *udp)
{
    struct offload_test test = {.packets = LLI_UDP_TRAIN_MAX};
    bool works = false;

    if (offload_test_open(udp, &test) == 0) {
        bool sent = offload_test_send(&test);

        if (!sent && errno == EINVAL) {
            test.packets = OLD_TRAIN_MAX;
            sent = offload_test_send(&test);
        }
        works = sent && offload_test_receive(&test);
    }
    offload_test_close(&test);
    return works ? test.packets : 1;
}

static bool offload_merges(const struct lli_udp *udp)
{
    const int on = 1;
    int fd = -1;
    bool merges;

    if (lli_udp_socket(udp, &fd) != 0)
        return false;
    merges = setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on) == 0;
    close(fd);
    return merges;
}

void lli_udp_trains_probe(struct lli_udp *udp)
{
    uint32_t wanted = udp->out.gso_packets;

    udp->out.train_max = 1;
    if (wanted == 0)
        wanted = udp->interface.wire ? WIRE_TRAIN_MAX : LLI_UDP_TRAIN_MAX;
    if (wanted == 1 || udp->out.train_bytes / udp->out.payload_max < 2)
        return;
    udp->out.train_max = offload_test_run(udp);
    if (udp->out.train_max == 1)
        lli_log(udp->log, LLM_LEVEL_INFO,
                "udp: packets are sent one by one on interface %s: a segmented train did not arrive "
                "whole at this host itself",
                udp->interface.name);
    else if (wanted < udp->out.train_max)
        udp->out.train_max = wanted;
}

void lli_udp_offload_probe(struct lli_udp *udp, const struct llm_options *options)
{
    udp->in.merges = options->gro != 0 && offload_merges(udp);
    udp->out.train_bytes = udp->family == AF_INET ? IPV4_TRAIN_BYTES : IPV6_TRAIN_BYTES;
    udp->out.gso_packets = options->gso_packets;
    lli_udp_trains_probe(udp);
    udp->out.train_max_first = udp->out.train_max;
}
