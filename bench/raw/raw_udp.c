/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "raw.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define RAW_RECEIVE_BUFFER 16777216 /* as the library's default */
#define RAW_SEND_BUFFER 4194304
#define RAW_BATCH 32
#define RAW_DATAGRAM_MAX 65536
#define RAW_TRAIN_BYTES 65487 /* the longest that one UDP_SEGMENT send may be, IPv6 included */
#define RAW_TRAIN_SEGMENTS 64 /* more are refused by older kernels */
#define RAW_SLOT \
    67008 /* a shorter one would cut a train; a power of two would put all into the same cache sets */
#define RAW_UDP_HEADER 8
#define RAW_CONTROL_BYTES CMSG_SPACE(sizeof(uint16_t))

/* ------------------------------------------------------------------------------------------------ sockets */

static int raw_set(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* The privileged form knows no limit; without the privilege the plain one gives what there is. */
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

static int raw_send_through(int fd, const struct raw_group *group)
{
    struct ip_mreqn request = {.imr_ifindex = group->interface.index};

    if (group->address.ss_family == AF_INET6)
        return raw_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, group->interface.index);
    return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request);
}

/*
 * As the library does it: the kernel need not find an identification for datagrams that may not be
 * fragmented.
 */
static int raw_never_fragment(int fd, const struct raw_group *group)
{
    if (group->address.ss_family == AF_INET6)
        return raw_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    return raw_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
}

static int raw_udp_open_send(const struct raw_group *group)
{
    int fd = socket(group->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    raw_set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, RAW_SEND_BUFFER);
    if (raw_send_through(fd, group) != 0 || raw_never_fragment(fd, group) != 0 ||
        connect(fd, (const struct sockaddr *)&group->address, group->address_size) != 0)
        return raw_close_failed(fd);
    return fd;
}

static int raw_join(int fd, const struct raw_group *group)
{
    int level = group->address.ss_family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
    struct group_req request = {.gr_interface = (uint32_t)group->interface.index, .gr_group = group->address};

    if (level == IPPROTO_IP)
        raw_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    return setsockopt(fd, level, MCAST_JOIN_GROUP, &request, sizeof request);
}

int raw_udp_open_receive(const struct raw_group *group)
{
    int fd = socket(group->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    raw_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    raw_set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, RAW_RECEIVE_BUFFER);
    if (bind(fd, (const struct sockaddr *)&group->address, group->address_size) != 0 ||
        raw_join(fd, group) != 0)
        return raw_close_failed(fd);
    return fd;
}

/* ------------------------------------------------------------------------------------------------- trains */

size_t raw_udp_datagram_bytes(const struct raw_group *group)
{
    return group->mtu - (group->address.ss_family == AF_INET6 ? 40 : 20) - RAW_UDP_HEADER;
}

/* Has the kernel split a message into datagrams of so many bytes (UDP_SEGMENT). control: memory of RAW_CONTROL_BYTES, aligned for a
 * struct cmsghdr, which the message refers to from then on. */
static void raw_udp_segment(struct msghdr *message, void *control, size_t datagram_bytes)
{
    struct cmsghdr *header = control;
    uint16_t segment = (uint16_t)datagram_bytes;

    memset(control, 0, RAW_CONTROL_BYTES);
    header->cmsg_level = IPPROTO_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(header), &segment, sizeof segment);
    message->msg_control = control;
    message->msg_controllen = RAW_CONTROL_BYTES;
}

/* The longest train of such datagrams that the kernel takes in one message. */
static size_t raw_udp_train_bytes(size_t datagram_bytes)
{
    size_t segments = RAW_TRAIN_BYTES / datagram_bytes;

    return datagram_bytes * (segments > RAW_TRAIN_SEGMENTS ? RAW_TRAIN_SEGMENTS : segments);
}

/* --------------------------------------------------------------------------------------------------- ends */

/* Memory that datagrams are received into in one call. */
struct raw_many {
    struct mmsghdr messages[RAW_BATCH];
    struct iovec pieces[RAW_BATCH];
    char memory[RAW_BATCH * RAW_SLOT];
};

struct raw_udp_end {
    struct raw_end end;
    int fd;
    struct raw_many *memory; /* NULL before it is needed */
    bool many;               /* datagrams are taken in one call, ... */
    int ready, next;         /* ... of which these are given next */
    char datagram[RAW_DATAGRAM_MAX];
};

static struct raw_udp_end *raw_udp_of(struct raw_end *end)
{
    return (struct raw_udp_end *)end;
}

static void raw_udp_close(struct raw_end *end)
{
    struct raw_udp_end *udp = raw_udp_of(end);

    if (udp->fd >= 0)
        close(udp->fd);
    free(udp->memory);
}

static int raw_udp_open(struct raw_end *end, const struct raw_group *group, bool to_send)
{
    struct raw_udp_end *udp = raw_udp_of(end);

    end->datagram_bytes = raw_udp_datagram_bytes(group);
    udp->fd = to_send ? raw_udp_open_send(group) : raw_udp_open_receive(group);
    return udp->fd < 0 ? -1 : 0;
}

static bool raw_udp_is_full(void)
{
    return errno == ENOBUFS || errno == EAGAIN;
}

static int raw_udp_send(struct raw_end *end, const void *data, size_t size)
{
    if (send(raw_udp_of(end)->fd, data, size, 0) >= 0)
        return 0;
    return raw_udp_is_full() ? 1 : -1;
}

static int raw_udp_send_train(struct raw_end *end, const void *data, size_t size, size_t datagram_bytes)
{
    alignas(struct cmsghdr) char control[RAW_CONTROL_BYTES];
    struct iovec piece = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    raw_udp_segment(&message, control, datagram_bytes);
    if (sendmsg(raw_udp_of(end)->fd, &message, 0) >= 0)
        return 0;
    return raw_udp_is_full() ? 1 : -1;
}

/* In one call, from one buffer. */
static int raw_udp_send_each(struct raw_end *end, const void *data, size_t size, size_t message_bytes)
{
    struct mmsghdr messages[RAW_BATCH] = {{.msg_len = 0}};
    struct iovec pieces[RAW_BATCH];
    unsigned count = 0;

    for (size_t at = 0; at < size && count < RAW_BATCH; at += message_bytes, count++) {
        pieces[count] = (struct iovec){.iov_base = (char *)data + at, .iov_len = message_bytes};
        messages[count].msg_hdr.msg_iov = &pieces[count];
        messages[count].msg_hdr.msg_iovlen = 1;
    }
    return sendmmsg(raw_udp_of(end)->fd, messages, count, 0) >= 0 || raw_udp_is_full() ? 0 : -1;
}

static void raw_udp_receive_many(struct raw_end *end)
{
    raw_udp_of(end)->many = true;
}

static const void *raw_udp_receive_next(struct raw_udp_end *udp, size_t *size)
{
    if (udp->next >= udp->ready) {
        udp->next = 0;
        udp->ready = recvmmsg(udp->fd, udp->memory->messages, RAW_BATCH, MSG_DONTWAIT, NULL);
    }
    if (udp->next >= udp->ready)
        return NULL;
    *size = udp->memory->messages[udp->next].msg_len;
    return udp->memory->pieces[udp->next++].iov_base;
}

static const void *raw_udp_receive(struct raw_end *end, size_t *size)
{
    struct raw_udp_end *udp = raw_udp_of(end);
    ssize_t received;

    if (udp->many && udp->memory)
        return raw_udp_receive_next(udp, size);
    received = recv(udp->fd, udp->datagram, sizeof udp->datagram, MSG_DONTWAIT);

    if (received < 0)
        return NULL;
    *size = (size_t)received;
    return udp->datagram;
}

static bool raw_udp_is_readable(struct raw_end *end)
{
    char byte;

    return recv(raw_udp_of(end)->fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC) >= 0;
}

/* Its memory is allocated and touched before it is measured. */
static int raw_udp_blast_expect(struct raw_end *end, bool segmented)
{
    struct raw_udp_end *udp = raw_udp_of(end);
    struct raw_many *memory = udp->memory ? udp->memory : malloc(sizeof *memory);

    if (!memory)
        return -1;
    memset(memory, 0, sizeof *memory);
    for (int i = 0; i < RAW_BATCH; i++) {
        memory->pieces[i] =
            (struct iovec){.iov_base = memory->memory + (size_t)i * RAW_SLOT, .iov_len = RAW_SLOT};
        memory->messages[i].msg_hdr.msg_iov = &memory->pieces[i];
        memory->messages[i].msg_hdr.msg_iovlen = 1;
    }
    (void)raw_set(udp->fd, IPPROTO_UDP, UDP_GRO, segmented);
    udp->memory = memory;
    udp->ready = udp->next = 0;
    return 0;
}

#define RAW_UDP_CALLS                                                                                        \
    .bytes = sizeof(struct raw_udp_end), .open = raw_udp_open, .close = raw_udp_close, .send = raw_udp_send, \
    .receive = raw_udp_receive, .is_readable = raw_udp_is_readable, .send_each = raw_udp_send_each,          \
    .receive_many = raw_udp_receive_many, .blast_expect = raw_udp_blast_expect

const struct raw_scheme raw_udp = {
    .name = "udp",
    .ways = 1u << RAW_BATCHES | 1u << RAW_TRAINS | 1u << RAW_KEPT,
    .send_train = raw_udp_send_train,
    .train_bytes = raw_udp_train_bytes,
    RAW_UDP_CALLS,
};

/* Stacks in the kernel's place send a train as one datagram, if at all. */
const struct raw_scheme raw_bypass = {
    .name = "bypass",
    .ways = 1u << RAW_BATCHES,
    RAW_UDP_CALLS,
};
