/* SPDX-License-Identifier: Apache-2.0 */
/* VMA: its extensions to sockets, a table of functions returned by its getsockopt(). */
#define _GNU_SOURCE
#include "bypass.h"

#include <errno.h>
#include <string.h>

enum { PIECES_MAX = 8 };

static bool vma_has(const struct lli_bypass *bypass, uint64_t functions)
{
    return (bypass->vma->vma_extra_supported_mask & functions) == functions;
}

/* The kernel rejects descriptor -1. */
static bool vma_find(struct lli_bypass *bypass)
{
    socklen_t size = sizeof bypass->vma;

    return getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &bypass->vma, &size) == 0 && bypass->vma != NULL;
}

static int vma_check(const struct lli_bypass *bypass, const struct lli_bypass_options *options)
{
    if (options->bypass_required != 0 &&
        !vma_has(bypass, VMA_API_GET_SOCKET_RINGS_NUM | VMA_API_GET_SOCKET_TX_RING_FD))
        return lli_fail(bypass->udp.log, LLM_ESCHEME,
                        "bypass: this VMA cannot tell which sockets it accelerates; update it, or "
                        "accept this with bypass_required=0");
    if (options->stack_name[0] != '\0')
        return lli_fail(bypass->udp.log, LLM_EOPTION,
                        "bypass: stack_name=%s: VMA has no names for stacks; leave it out",
                        options->stack_name);
    if (options->stack_spin != 2)
        return lli_fail(bypass->udp.log, LLM_EOPTION,
                        "bypass: stack_spin=%u: VMA does not spin by thread; leave it out, and set "
                        "VMA_SELECT_POLL",
                        options->stack_spin);
    return 0;
}

static int vma_begin(const struct lli_bypass *bypass)
{
    (void)bypass;
    return 0;
}

static void vma_end(const struct lli_bypass *bypass)
{
    (void)bypass;
}

/* A sending socket has a ring for its group from connect() on. */
static bool vma_sends(const struct lli_bypass *bypass, int fd)
{
    union lli_ip_address to;
    socklen_t size = sizeof to;

    return vma_has(bypass, VMA_API_GET_SOCKET_TX_RING_FD) && getpeername(fd, &to.any, &size) == 0 &&
           bypass->vma->get_socket_tx_ring_fd(fd, &to.any, size) >= 0;
}

/* A receiving socket has rings from bind() or join on. */
static bool vma_accelerates(const struct lli_bypass *bypass, int fd)
{
    union lli_ip_address to;
    socklen_t size = sizeof to;

    if (getpeername(fd, &to.any, &size) == 0)
        return vma_sends(bypass, fd);
    return vma_has(bypass, VMA_API_GET_SOCKET_RINGS_NUM) && bypass->vma->get_socket_rings_num(fd) > 0;
}

/* ---------------------------------------------------------------------------------------------- receiving */

static bool vma_lends(const struct lli_bypass *bypass)
{
    return vma_has(bypass, VMA_API_RECVFROM_ZCOPY | VMA_API_FREE_PACKETS);
}

static bool vma_give_back(const struct lli_bypass *bypass, int fd, void **ids, int count)
{
    struct vma_packet packets[LLI_BYPASS_RELEASE_MAX];

    for (int i = 0; i < count; i++)
        packets[i] = (struct vma_packet){.packet_id = ids[i]};
    return bypass->vma->free_packets(fd, packets, (size_t)count) == 0;
}

/*
 * Copies a message that is in several pieces; the buffer also contains the table of pieces. False: there are
 * too many.
 */
static bool vma_gather(const struct vma_packets *table, uint8_t *buffer)
{
    struct iovec pieces[PIECES_MAX];
    const size_t count = table->packet.sz_iov;

    if (count > PIECES_MAX)
        return false;
    memcpy(pieces, table->pieces, count * sizeof pieces[0]);
    for (size_t i = 0; i < count; i++) {
        memcpy(buffer, pieces[i].iov_base, pieces[i].iov_len);
        buffer += pieces[i].iov_len;
    }
    return true;
}

/* Handles a message in VMA's memory. Returns the number of packets delivered. */
static int vma_take(struct lli_bypass *bypass, const struct lli_udp_receiver *receiver,
                    const struct vma_packets *table, size_t size, struct lli_in *packet)
{
    void *id = table->packet.packet_id;
    bool lent = false;

    if (size <= bypass->udp.in.packet_bytes && table->packet.sz_iov == 1) {
        lli_bypass_lend(bypass, receiver, id, table->pieces[0], packet);
        return 1;
    }
    if (size <= bypass->udp.in.packet_bytes && vma_gather(table, lli_bypass_buffer(bypass))) {
        lli_bypass_lend_buffer(bypass, receiver, size, packet);
        lent = true;
    } else {
        bypass->udp.counters.truncated++;
    }
    if (!vma_give_back(bypass, receiver->fd, &id, 1))
        bypass->release_errors++;
    return lent;
}

/*
 * Receives one message. Returns the number of packets delivered, or negative. Also checks the table's message
 * count, because VMA leaves the flag unchanged for a socket that is not its own. No packet of ours begins
 * like a table of one message.
 */
static int vma_fetch_one(struct lli_bypass *bypass, const struct lli_udp_receiver *receiver,
                         struct lli_in *packet)
{
    struct vma_packets *table = (void *)lli_bypass_buffer(bypass);
    int flags = MSG_DONTWAIT | MSG_TRUNC;
    int size;

    table->n_packet_num = 0;
    size = bypass->vma->recvfrom_zcopy(receiver->fd, table, bypass->udp.in.buffer_bytes, &flags, NULL, NULL);
    if (size < 0)
        return -1;
    if ((flags & MSG_VMA_ZCOPY) != 0 && table->n_packet_num == 1)
        return vma_take(bypass, receiver, table, (size_t)size, packet);
    if ((size_t)size > bypass->udp.in.packet_bytes) {
        bypass->udp.counters.truncated++;
        return 0;
    }
    /* The kernel received it. */
    lli_bypass_lend_buffer(bypass, receiver, (size_t)size, packet);
    return 1;
}

/*
 * Fetches a socket's messages; only one if the last call found none, so that a message need not wait for an
 * empty poll.
 */
static int vma_fetch(struct lli_bypass *bypass, struct lli_udp_receiver *receiver, struct lli_in *packets,
                     int max)
{
    const int most = receiver->bursting ? max : 1;
    int count = 0;

    for (int i = 0; i < most && lli_bypass_room(bypass); i++) {
        const int got = vma_fetch_one(bypass, receiver, &packets[count]);

        if (got < 0)
            return count == 0 && errno != EAGAIN ? -1 : count;
        count += got;
    }
    return count;
}

const struct lli_stack lli_stack_vma = {
    .name = "VMA",
    .reasons = "the interface is no port of a card that it knows, the group is of IPv6, or libvma.conf "
               "leaves it to the kernel; "
               "VMA_TRACELEVEL=4 says more",
    .find = vma_find,
    .check = vma_check,
    .begin = vma_begin,
    .end = vma_end,
    .accelerates = vma_accelerates,
    .warms = vma_sends,
    .lends = vma_lends,
    .fetch = vma_fetch,
    .give_back = vma_give_back,
};
