/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "raw.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdalign.h>
#include <string.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define RAW_RECEIVE_BUFFER 16777216 /* the library's default */
#define RAW_SEND_BUFFER 4194304
#define RAW_SLOT \
    67008 /* smaller buffers would cut trains; a power of two would map all of them to the same cache sets */
#define RAW_UDP_HEADER 8
#define RAW_CONTROL_BYTES CMSG_SPACE(sizeof(uint16_t))

static int raw_set(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* The privileged option has no limit; the plain one is the fallback and is clamped. */
static void raw_set_buffer(int fd, int forced, int plain, int bytes)
{
    if (raw_set(fd, SOL_SOCKET, forced, bytes) != 0)
        raw_set(fd, SOL_SOCKET, plain, bytes);
}

static int raw_close_failed(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

/* Sets don't-fragment, as the library does: the kernel then need not choose an IP identification. */
static int raw_send_whole(int fd, const struct raw_group *group)
{
    struct ip_mreqn request = {.imr_ifindex = group->interface.index};

    if (group->address.any.sa_family == AF_INET6)
        return raw_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, group->interface.index) |
               raw_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request) |
           raw_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
}

static int raw_udp_open_send(const struct raw_group *group)
{
    int fd = socket(group->address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    raw_set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, RAW_SEND_BUFFER);
    if (raw_send_whole(fd, group) != 0 ||
        connect(fd, &group->address.any, lli_ip_length(&group->address)) != 0)
        return raw_close_failed(fd);
    return fd;
}

static int raw_join(int fd, const struct raw_group *group)
{
    int level = group->address.any.sa_family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
    struct group_req request = {.gr_interface = (uint32_t)group->interface.index};

    memcpy(&request.gr_group, &group->address, lli_ip_length(&group->address));
    if (level == IPPROTO_IP)
        raw_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    return setsockopt(fd, level, MCAST_JOIN_GROUP, &request, sizeof request);
}

int raw_udp_open_receive(const struct raw_group *group)
{
    int fd = socket(group->address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    raw_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    raw_set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, RAW_RECEIVE_BUFFER);
    if (bind(fd, &group->address.any, lli_ip_length(&group->address)) != 0 || raw_join(fd, group) != 0)
        return raw_close_failed(fd);
    return fd;
}

/* Opens a socket that sends and receives: the requesting end connects to the other, which is bound. */
static int raw_udp_open_unicast(const struct raw_group *group, bool asks)
{
    const int fd = socket(group->address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0 && (asks ? connect : bind)(fd, &group->address.any, lli_ip_length(&group->address)) != 0)
        return raw_close_failed(fd);
    return fd;
}

struct raw_udp_end {
    struct raw_end end;
    int fd;
    bool unknown;    /* between two hosts: connect the socket when the first datagram arrives */
    int ready, next; /* datagrams fetched in one call, and the one to deliver next */
    struct mmsghdr messages[RAW_BATCH];
    struct iovec pieces[RAW_BATCH];
    char memory[RAW_BATCH * RAW_SLOT]; /* for ends that receive */
};

static struct raw_udp_end *raw_udp_of(struct raw_end *end)
{
    return (struct raw_udp_end *)end;
}

static void raw_udp_close(struct raw_end *end)
{
    close(raw_udp_of(end)->fd);
}

/* Receive memory is touched before the measurement. */
static int raw_udp_open(struct raw_end *end, const struct raw_group *group, bool to_send)
{
    struct raw_udp_end *udp = raw_udp_of(end);

    end->datagram_bytes = raw_datagram_bytes(group, RAW_UDP_HEADER);
    if (lli_ip_multicast(&group->address)) {
        udp->fd = to_send ? raw_udp_open_send(group) : raw_udp_open_receive(group);
    } else {
        udp->fd = raw_udp_open_unicast(group, to_send);
        udp->unknown = !to_send;
        to_send = false;
    }
    if (!to_send)
        memset(udp->memory, 1, sizeof udp->memory);
    for (int i = 0; i < RAW_BATCH; i++) {
        udp->pieces[i] = (struct iovec){.iov_base = udp->memory + (size_t)i * RAW_SLOT, .iov_len = RAW_SLOT};
        udp->messages[i].msg_hdr = (struct msghdr){.msg_iov = &udp->pieces[i], .msg_iovlen = 1};
    }
    return udp->fd < 0 ? -1 : 0;
}

/* Converts the result of a send call to that of raw_scheme.send(). */
static int raw_udp_sent(ssize_t result)
{
    return result >= 0 ? 0 : errno == ENOBUFS || errno == EAGAIN ? 1 : -1;
}

static int raw_udp_send(struct raw_end *end, const void *data, size_t size)
{
    return raw_udp_sent(send(raw_udp_of(end)->fd, data, size, 0));
}

static int raw_udp_send_train(struct raw_end *end, const void *data, size_t size, size_t datagram_bytes)
{
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
    struct cmsghdr *header = (struct cmsghdr *)control;
    const uint16_t segment = (uint16_t)datagram_bytes;
    struct iovec piece = {.iov_base = (void *)data, .iov_len = size};
    const struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};

    *header = (struct cmsghdr){
        .cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof segment)};
    memcpy(CMSG_DATA(header), &segment, sizeof segment);
    return raw_udp_sent(sendmsg(raw_udp_of(end)->fd, &message, 0));
}

static int raw_udp_send_each(struct raw_end *end, const void *data, size_t size, size_t message_bytes)
{
    struct mmsghdr messages[RAW_BATCH] = {{.msg_len = 0}};
    struct iovec pieces[RAW_BATCH];
    unsigned count = 0;

    for (size_t at = 0; at < size && count < RAW_BATCH; at += message_bytes, count++) {
        pieces[count] = (struct iovec){.iov_base = (char *)data + at, .iov_len = message_bytes};
        messages[count].msg_hdr = (struct msghdr){.msg_iov = &pieces[count], .msg_iovlen = 1};
    }
    return raw_udp_sent(sendmmsg(raw_udp_of(end)->fd, messages, count, 0)) < 0 ? -1 : 0;
}

static const void *raw_udp_receive(struct raw_end *end, size_t *size)
{
    struct raw_udp_end *udp = raw_udp_of(end);
    ssize_t received;

    if (!end->many) {
        struct sockaddr_storage from;
        socklen_t from_size = sizeof from;

        received = udp->unknown ? recvfrom(udp->fd, udp->memory, RAW_SLOT, MSG_DONTWAIT,
                                           (struct sockaddr *)&from, &from_size)
                                : recv(udp->fd, udp->memory, RAW_SLOT, MSG_DONTWAIT);
        if (received >= 0 && udp->unknown)
            udp->unknown = connect(udp->fd, (const struct sockaddr *)&from, from_size) != 0;
        *size = received < 0 ? 0 : (size_t)received;
        return received < 0 ? NULL : udp->memory;
    }
    if (udp->next >= udp->ready) {
        udp->next = 0;
        udp->ready = recvmmsg(udp->fd, udp->messages, RAW_BATCH, MSG_DONTWAIT, NULL);
    }
    if (udp->next >= udp->ready)
        return NULL;
    *size = udp->messages[udp->next].msg_len;
    return udp->pieces[udp->next++].iov_base;
}

static void raw_udp_receive_trains(struct raw_end *end, bool whole)
{
    (void)raw_set(raw_udp_of(end)->fd, IPPROTO_UDP, UDP_GRO, whole);
}

#define RAW_UDP_CALLS                                                                                        \
    .bytes = sizeof(struct raw_udp_end), .open = raw_udp_open, .close = raw_udp_close, .send = raw_udp_send, \
    .receive = raw_udp_receive, .send_each = raw_udp_send_each, .receive_trains = raw_udp_receive_trains

const struct raw_scheme raw_udp = {.name = "udp", .send_train = raw_udp_send_train, RAW_UDP_CALLS};

/* Stacks in place of the kernel's send a train as one datagram, or not at all. */
const struct raw_scheme raw_bypass = {.name = "bypass", RAW_UDP_CALLS};
