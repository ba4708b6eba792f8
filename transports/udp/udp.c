/* SPDX-License-Identifier: Apache-2.0 */
/* Data operations of the UDP transport, and its table. */
#define _GNU_SOURCE
#include "udp.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

enum {
    CONTROL_TURNS = 8,    /* one of so many calls looks at the control socket, the others at groups */
    ROTATED_MAX = 4,      /* with more groups epoll finds those that have something */
    CHECK_PACKETS = 16,   /* a burst of these may have overflowed the socket's buffer */
    CHECK_PACKETS_BUSY = 1024,
};

/* ---------------------------------------------------------------------------------------------------- sending */

static void udp_queue(struct lli_udp *udp, const struct lli_out *packet)
{
    const size_t slot = udp->taken++ % LLI_UDP_POST_MAX;
    struct msghdr *header = &udp->out[slot].msg_hdr;
    const uint32_t place = packet->to & ~LLI_UDP_PEER;

    udp->out_piece[slot] = (struct iovec){(void *)packet->data, packet->size};
    if (packet->size > udp->payload_max) {
        udp->out_fd[slot] = -1;
    } else if (packet->to & LLI_UDP_PEER) {
        assert(place < udp->peers.count);
        header->msg_name = &udp->peers.addresses[place];
        header->msg_namelen = lli_udp_length(&udp->peers.addresses[place]);
        udp->out_fd[slot] = udp->control.fd;
    } else {
        assert(place < LLI_UDP_GROUPS_MAX);
        header->msg_name = NULL;
        header->msg_namelen = 0;
        udp->out_fd[slot] = udp->senders[place];
    }
}

static int udp_post(void *instance, const struct lli_out *packets, int count)
{
    struct lli_udp *udp = instance;
    const int room = LLI_UDP_POST_MAX - (int)(udp->taken - udp->done);
    const int taken = count < room ? count : room;

    for (int i = 0; i < taken; i++)
        udp_queue(udp, &packets[i]);
    return taken;
}

/* How many packets, from the oldest, leave by the same socket and are neighbours in the ring. */
static unsigned udp_run(const struct lli_udp *udp, size_t first)
{
    const uint64_t queued = udp->taken - udp->done;
    unsigned run = 1;

    while (run < queued && first + run < LLI_UDP_POST_MAX && udp->out_fd[first + run] == udp->out_fd[first])
        run++;
    return run;
}

/* Sends the oldest packets. How many are done with, or 0 if the kernel takes none now. */
static unsigned udp_send_run(struct lli_udp *udp)
{
    const size_t first = udp->done % LLI_UDP_POST_MAX;
    const struct msghdr *header = &udp->out[first].msg_hdr;
    const int fd = udp->out_fd[first];
    const unsigned run = udp_run(udp, first);
    int sent;

    if (fd < 0) {
        udp->send_errors++;
        return 1;
    }
    if (run > 1)
        sent = sendmmsg(fd, &udp->out[first], run, 0);
    else /* the shortest way through the kernel */
        sent = sendto(fd, header->msg_iov->iov_base, header->msg_iov->iov_len, 0, header->msg_name, header->msg_namelen) < 0
                   ? -1 : 1;
    if (sent > 0)
        return (unsigned)sent;
    if (errno == EAGAIN || errno == ENOBUFS)
        return 0;
    /* Whatever it is, it would happen again or has passed already: for the receivers it is a lost packet. */
    udp->send_errors++;
    return 1;
}

static int udp_flush(void *instance)
{
    struct lli_udp *udp = instance;

    udp->stuck = false;
    while (udp->done != udp->taken) {
        const unsigned sent = udp_send_run(udp);

        if (sent == 0) {
            udp->stuck = true;
            udp->send_waits++;
            return LLM_EAGAIN;
        }
        udp->done += sent;
    }
    return 0;
}

static uint64_t udp_reap(void *instance)
{
    const struct lli_udp *udp = instance;

    return udp->done;
}

/* -------------------------------------------------------------------------------------------------- receiving */

/* The call got nothing. */
static int udp_receive_none(struct lli_udp *udp, struct lli_udp_receiver *receiver)
{
    /* ICMP errors of earlier unicasts show here too; none of them ends anything. */
    if (errno != EAGAIN)
        udp->receive_errors++;
    receiver->bursting = false;
    if (receiver->unchecked >= CHECK_PACKETS)
        lli_udp_drops_read(udp, receiver);
    return 0;
}

/* Polls with the cheapest call there is: measured 159 ns against 216 for recvmsg() and 243 for recvmmsg(). */
static int udp_receive_one(struct lli_udp *udp, struct lli_udp_receiver *receiver, struct lli_in *packet)
{
    const size_t buffer = (size_t)__builtin_ctzll(udp->free);
    uint8_t *data = udp->buffers + buffer * udp->buffer_stride;
    const ssize_t size = recv(receiver->fd, data, udp->buffer_bytes, MSG_DONTWAIT | MSG_TRUNC);

    if (size < 0)
        return udp_receive_none(udp, receiver);
    receiver->bursting = true;
    if ((size_t)size > udp->buffer_bytes) {
        udp->truncated++;
        return 0;
    }
    udp->free &= ~(UINT64_C(1) << buffer);
    *packet = (struct lli_in){.data = data, .size = (uint32_t)size, .from = receiver->handle, .buffer = buffer};
    return 1;
}

static uint64_t udp_stamp(struct msghdr *header)
{
    struct timespec stamp;

    for (struct cmsghdr *note = CMSG_FIRSTHDR(header); note != NULL; note = CMSG_NXTHDR(header, note)) {
        if (note->cmsg_level == SOL_SOCKET && note->cmsg_type == SCM_TIMESTAMPNS) {
            memcpy(&stamp, CMSG_DATA(note), sizeof stamp);
            return (uint64_t)stamp.tv_sec * 1000000000u + (uint64_t)stamp.tv_nsec;
        }
    }
    return 0;
}

/* Lends the buffers that a burst filled. */
static int udp_receive_lend(struct lli_udp *udp, const struct lli_udp_receiver *receiver, size_t first, size_t count,
                            struct lli_in *packets)
{
    int lent = 0;

    for (size_t buffer = first; buffer < first + count; buffer++) {
        struct mmsghdr *message = &udp->in[buffer];

        if (message->msg_hdr.msg_flags & MSG_TRUNC) {
            udp->truncated++;
            continue;
        }
        udp->free &= ~(UINT64_C(1) << buffer);
        packets[lent++] = (struct lli_in){
            .data = udp->in_piece[buffer].iov_base,
            .size = message->msg_len,
            .from = receiver->handle,
            .buffer = buffer,
            .stamp_ns = receiver->stamped ? udp_stamp(&message->msg_hdr) : 0,
        };
    }
    return lent;
}

/* The first run of buffers that are not lent, at most so many. */
static size_t udp_free_run(uint64_t free, size_t first, size_t max)
{
    const uint64_t lent = ~(free >> first);
    const size_t run = lent == 0 ? LLI_UDP_BUFFERS : (size_t)__builtin_ctzll(lent);

    return run < max ? run : max;
}

static int udp_receive_burst(struct lli_udp *udp, struct lli_udp_receiver *receiver, struct lli_in *packets, int max)
{
    const size_t first = (size_t)__builtin_ctzll(udp->free);
    const size_t run = udp_free_run(udp->free, first, (size_t)(max < LLI_UDP_BURST ? max : LLI_UDP_BURST));
    int count;

    if (receiver->stamped)
        for (size_t i = first; i < first + run; i++)
            udp->in[i].msg_hdr.msg_controllen = LLI_UDP_NOTE_BYTES;
    count = recvmmsg(receiver->fd, &udp->in[first], (unsigned)run, MSG_DONTWAIT, NULL);
    if (count <= 0)
        return udp_receive_none(udp, receiver);
    receiver->bursting = true;
    receiver->unchecked += (uint32_t)count;
    if (receiver->unchecked >= CHECK_PACKETS_BUSY)
        lli_udp_drops_read(udp, receiver);
    return udp_receive_lend(udp, receiver, first, (size_t)count, packets);
}

/* The next of the sockets that epoll found readable, or NULL. One call each, so none starves the others. */
static struct lli_udp_receiver *udp_next_ready(struct lli_udp *udp)
{
    if (udp->ready_next == udp->ready_count) {
        const int count = epoll_wait(udp->epoll, udp->ready, LLI_UDP_READY_MAX, 0);

        udp->ready_next = 0;
        udp->ready_count = count > 0 ? (uint32_t)count : 0;
        if (udp->ready_count == 0)
            return NULL;
    }
    return udp->ready[udp->ready_next++].data.ptr; /* NULL for a socket that only sends */
}

/* The group whose turn it is: the one that is giving packets, for as long as the control socket's turn does not come. */
static struct lli_udp_receiver *udp_next_group(struct lli_udp *udp)
{
    struct lli_udp_receiver *receiver = &udp->groups[udp->polled[udp->polled_next]];

    if (receiver->bursting)
        return receiver;
    udp->polled_next = (uint16_t)((udp->polled_next + 1u) % udp->polled_count);
    return &udp->groups[udp->polled[udp->polled_next]];
}

/* The socket to look at. Every look is a system call, so there is one a call, at the likeliest place. */
static struct lli_udp_receiver *udp_next(struct lli_udp *udp)
{
    if (udp->polled_count > ROTATED_MAX)
        return udp_next_ready(udp);
    if (udp->polled_count == 0)
        return &udp->control;
    if (++udp->turn % CONTROL_TURNS == 0) {
        if (udp->polled_count > 1)
            udp->polled_next = (uint16_t)((udp->polled_next + 1u) % udp->polled_count);
        return &udp->control;
    }
    return udp->polled_count == 1 ? &udp->groups[udp->polled[0]] : udp_next_group(udp);
}

static int udp_receive(void *instance, struct lli_in *packets, int max)
{
    struct lli_udp *udp = instance;
    struct lli_udp_receiver *receiver;

    if (udp->free == 0 || max <= 0)
        return 0;
    receiver = udp_next(udp);
    if (receiver == NULL)
        return 0;
    if (receiver->bursting || receiver->stamped)
        return udp_receive_burst(udp, receiver, packets, max);
    return udp_receive_one(udp, receiver, packets);
}

static void udp_release(void *instance, const struct lli_in *packets, int count)
{
    struct lli_udp *udp = instance;

    for (int i = 0; i < count; i++) {
        assert((udp->free >> packets[i].buffer & 1) == 0);
        udp->free |= UINT64_C(1) << packets[i].buffer;
    }
}

/* ------------------------------------------------------------------------------------------------------ table */

static const struct lli_counter udp_counters[] = {
    {"udp_send_errors", offsetof(struct lli_udp, send_errors)},       /* packets that could not be sent: lost */
    {"udp_send_waits", offsetof(struct lli_udp, send_waits)},         /* flushes that found no room in the kernel */
    {"udp_receive_errors", offsetof(struct lli_udp, receive_errors)}, /* calls that failed, by ICMP errors mostly */
    {"udp_truncated", offsetof(struct lli_udp, truncated)},           /* packets larger than the interface's MTU: dropped */
    {"udp_kernel_drops", offsetof(struct lli_udp, kernel_drops)},     /* packets that found a receive buffer full */
    {NULL, 0},
};

const struct lli_transport lli_transport_udp = {
    .scheme = "udp",
    .size = sizeof(struct lli_udp),
    .counters = udp_counters,
    .open = lli_udp_open,
    .close = lli_udp_close,
    .join = lli_udp_join,
    .leave = lli_udp_leave,
    .address = lli_udp_address,
    .peer = lli_udp_peer,
    .post = udp_post,
    .flush = udp_flush,
    .reap = udp_reap,
    .receive = udp_receive,
    .release = udp_release,
    .arm = lli_udp_arm,
};
