/* SPDX-License-Identifier: Apache-2.0 */
/* AF_XDP transport: data operations and the transport table. */
#define _GNU_SOURCE
#include "xdp.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    /* Calls of receive() per poll of the UDP sockets, which takes a system call; a power of two. */
    KERNEL_TURNS = 32,
    CHECK_TURNS = 1 << 16, /* calls of receive() per reading of the drop counts */
};

/* Bits of lli_in.buffer; without either, it is UDP's. */
#define NOTE_CHUNK (UINT64_C(1) << 62) /* a chunk; the socket is in the upper half */
#define NOTE_WHOLE (UINT64_C(1) << 61) /* a reassembled frame */

/* ----------------------------------------------------------------------------------------------- queueing */

static struct lli_xdp_out *xdp_out(struct lli_xdp *xdp, uint64_t number)
{
    return &xdp->out.packets[number % LLI_XDP_POST_MAX];
}

/* Returns the join to send of a packet; NULL if the packet is for a peer. */
static struct lli_xdp_sender *xdp_sender(struct lli_xdp *xdp, lli_handle to)
{
    return to < LLI_XDP_GROUPS_MAX && xdp->senders.table[to].open ? &xdp->senders.table[to] : NULL;
}

/* Returns the end of the completed packets: sent, lost, or completed by UDP. */
static uint64_t xdp_done(const struct lli_xdp *xdp)
{
    const uint64_t udp_done = xdp->udp->reap(xdp->udp_instance);

    return udp_done == xdp->out.udp_taken ? xdp->out.handed : xdp->out.origin[udp_done % LLI_XDP_POST_MAX];
}

static int xdp_post(void *instance, const struct lli_out *packets, int count)
{
    struct lli_xdp *xdp = instance;
    const int room = LLI_XDP_POST_MAX - (int)(xdp->out.taken - xdp_done(xdp));
    const int taken = count < room ? count : room;

    for (int i = 0; i < taken; i++) {
        const bool too_large = packets[i].size > xdp->out.payload_max;

        xdp->counters.send_errors += too_large;
        *xdp_out(xdp, xdp->out.taken++) =
            (struct lli_xdp_out){packets[i].data, packets[i].size, packets[i].to, too_large, false};
    }
    return taken;
}

static void queue_lose(struct lli_xdp *xdp, struct lli_xdp_out *out)
{
    xdp->counters.send_errors += !out->lost;
    out->lost = true;
}

void lli_xdp_queue_lose(struct lli_xdp *xdp, lli_handle to)
{
    for (uint64_t i = xdp->out.handed; i != xdp->out.taken; i++)
        if (xdp_out(xdp, i)->to == to)
            queue_lose(xdp, xdp_out(xdp, i));
}

static void xdp_region_end(void *instance, void *base, size_t size)
{
    struct lli_xdp *xdp = instance;

    for (uint64_t i = xdp->out.handed; i != xdp->out.taken; i++)
        if ((uintptr_t)xdp_out(xdp, i)->data - (uintptr_t)base < size)
            queue_lose(xdp, xdp_out(xdp, i));
    xdp->udp->region_end(xdp->udp_instance, base, size);
}

/* ------------------------------------------------------------------------------------------------- frames */

/* Frees the chunks that were sent. The chunk sent last is reused first, because it is in the cache. */
static void wire_reap(struct lli_xdp_socket *socket)
{
    uint32_t ready = lli_xdp_ring_ready(&socket->completion);

    if (ready == 0)
        return;
    for (; ready > 0; ready--)
        socket->free[socket->free_count++] =
            (uint32_t)(*lli_xdp_address(&socket->completion, socket->completion.got++) / socket->chunk_bytes);
    lli_xdp_ring_consume(&socket->completion);
}

/* Copies part of a packet into a new chunk, after the header. Returns the bytes copied. */
static uint32_t wire_piece(struct lli_xdp_socket *socket, uint32_t headed, const uint8_t *data, uint32_t size)
{
    const uint32_t room = socket->chunk_bytes - headed;
    const uint32_t copied = size < room ? size : room;
    const uint32_t chunk = socket->free[--socket->free_count];
    struct xdp_desc *desc = lli_xdp_desc(&socket->tx, socket->tx.put++);

    memcpy(lli_xdp_chunk(socket, chunk) + headed, data, copied);
    desc->addr = (uint64_t)chunk * socket->chunk_bytes;
    desc->len = headed + copied;
    desc->options = copied < size ? XDP_PKT_CONTD : 0;
    return copied;
}

/* Builds a frame from a packet. False: too few chunks are free. */
static bool wire_queue(struct lli_xdp *xdp, const struct lli_xdp_sender *sender,
                       const struct lli_xdp_out *out)
{
    struct lli_xdp_socket *socket = &xdp->sockets[0];
    const struct lli_xdp_header *header = &sender->header;
    const uint32_t pieces = (header->size + out->size + socket->chunk_bytes - 1) / socket->chunk_bytes;
    uint32_t copied;

    if (socket->free_count < pieces)
        return false;
    lli_xdp_header_put(header, lli_xdp_chunk(socket, socket->free[socket->free_count - 1]), out->data,
                       out->size);
    copied = wire_piece(socket, header->size, out->data, out->size);
    while (copied < out->size)
        copied += wire_piece(socket, 0, out->data + copied, out->size - copied);
    xdp->counters.frames_sent++;
    return true;
}

/*
 * Makes the kernel send the frames of the ring; in copy mode it sends at most 32 frames per call. False: it
 * accepts no more at present, or refuses to send, in which case wire_failed is set.
 */
static bool wire_kick(struct lli_xdp *xdp)
{
    struct lli_xdp_socket *socket = &xdp->sockets[0];
    uint32_t waiting = lli_xdp_ring_waiting(&socket->tx);

    xdp->out.wire_failed = false;
    while (waiting > 0 && lli_xdp_ring_sleeps(&socket->tx)) {
        const uint32_t before = waiting;

        if (sendto(socket->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0) {
            xdp->counters.send_errors += errno == EBUSY; /* the device dropped a frame */
            xdp->out.wire_failed = errno != EBUSY && errno != EAGAIN && errno != ENOBUFS;
        }
        if (xdp->out.wire_failed || socket->zero_copy)
            break;
        waiting = lli_xdp_ring_waiting(&socket->tx);
        if (waiting == before)
            return false;
    }
    return !xdp->out.wire_failed;
}

/* Returns the join of a packet to be sent as a frame, or NULL; decides which packets go to UDP. */
static const struct lli_xdp_sender *wire_sender(struct lli_xdp *xdp, struct lli_xdp_out *out)
{
    struct lli_xdp_sender *sender = xdp_sender(xdp, out->to);
    bool wire = sender != NULL && sender->wire;

    out->kernel = sender == NULL || sender->loops;
    if (sender != NULL && sender->host && !out->lost) {
        out->kernel |= sender->nudge;
        wire &= !sender->nudge;
        sender->nudge = false;
        xdp->counters.host_detours += out->kernel;
    }
    return wire && !out->lost ? sender : NULL;
}

/* Drops packets that the interface does not accept. Frames already in the ring leave late, once it does. */
static void wire_lose(struct lli_xdp *xdp)
{
    for (; xdp->out.wired != xdp->out.taken; xdp->out.wired++)
        xdp->counters.send_errors += wire_sender(xdp, xdp_out(xdp, xdp->out.wired)) != NULL;
}

/* Builds frames from packets to groups and hosts while chunks are free. */
static void wire_fill(struct lli_xdp *xdp)
{
    struct lli_xdp_socket *socket = &xdp->sockets[0];

    wire_reap(socket);
    for (; xdp->out.wired != xdp->out.taken; xdp->out.wired++) {
        struct lli_xdp_out *out = xdp_out(xdp, xdp->out.wired);
        const struct lli_xdp_sender *sender = wire_sender(xdp, out);

        if (sender != NULL && !wire_queue(xdp, sender, out))
            break;
    }
    lli_xdp_ring_publish(&socket->tx);
}

static void wire_flush(struct lli_xdp *xdp)
{
    uint64_t before;

    if (xdp->out.wire_failed && !wire_kick(xdp)) {
        if (xdp->out.wire_failed)
            wire_lose(xdp);
        xdp->out.wire_stuck = !xdp->out.wire_failed;
        return;
    }
    do {
        before = xdp->out.wired;
        wire_fill(xdp);
        xdp->out.wire_stuck = !wire_kick(xdp) && !xdp->out.wire_failed;
    } while (xdp->out.wired != xdp->out.taken && xdp->out.wired != before);
    xdp->out.wire_stuck |= xdp->out.wired != xdp->out.taken;
}

/* ----------------------------------------------------------------------------------------- sending by UDP */

/* Passes a packet to UDP. False: its queue is full. */
static bool kernel_post(struct lli_xdp *xdp, const struct lli_xdp_out *out)
{
    const struct lli_out packet = {out->data, out->size, out->to};

    if (xdp->out.udp_taken - xdp->udp->reap(xdp->udp_instance) == LLI_XDP_POST_MAX)
        return false;
    if (xdp->udp->post(xdp->udp_instance, &packet, 1) == 0)
        return false;
    xdp->out.origin[xdp->out.udp_taken++ % LLI_XDP_POST_MAX] = xdp->out.handed;
    return true;
}

/*
 * Passes to UDP: packets to peers, packets to hosts that do not leave as frames, and copies for local
 * receivers, after the frames were sent. False: UDP accepts no more.
 */
static bool kernel_flush(struct lli_xdp *xdp)
{
    bool waits = xdp->udp->reap(xdp->udp_instance) != xdp->out.udp_taken;

    for (; xdp->out.handed != xdp->out.wired; xdp->out.handed++) {
        const struct lli_xdp_out *out = xdp_out(xdp, xdp->out.handed);

        if (out->lost || !out->kernel)
            continue;
        waits = true;
        if (!kernel_post(xdp, out) && (xdp->udp->flush(xdp->udp_instance) != 0 || !kernel_post(xdp, out)))
            return false;
    }
    return !waits || xdp->udp->flush(xdp->udp_instance) == 0;
}

static int xdp_flush(void *instance)
{
    struct lli_xdp *xdp = instance;
    bool settled;

    if (xdp->senders.look_at != LLI_NEVER && xdp->out.wired != xdp->out.taken)
        lli_xdp_hosts_look(xdp);
    if (xdp->out.wired != xdp->out.taken || xdp->out.wire_stuck)
        wire_flush(xdp);
    settled = kernel_flush(xdp);
    xdp->counters.send_waits += xdp->out.wire_stuck;
    return settled && !xdp->out.wire_stuck ? 0 : LLM_EAGAIN;
}

static uint64_t xdp_reap(void *instance)
{
    return xdp_done(instance);
}

/* ---------------------------------------------------------------------------------------------- receiving */

/* Returns the group of a frame; NULL if it is not joined, or not from this source. */
static const struct lli_xdp_group *group_find(const struct lli_xdp *xdp, const struct lli_xdp_frame *frame)
{
    const struct lli_xdp_group *group = NULL;
    uint32_t slot = lli_xdp_group_hash(&frame->group);

    for (; xdp->groups.slots[slot] != 0; slot = (slot + 1) & (LLI_XDP_GROUP_SLOTS - 1)) {
        group = &xdp->groups.table[xdp->groups.slots[slot] - 1];
        if (lli_ip_same(&group->group, &frame->group))
            break;
    }
    if (xdp->groups.slots[slot] == 0)
        return NULL;
    if (group->source.any.sa_family != AF_UNSPEC &&
        memcmp(lli_ip_bytes(&group->source), lli_ip_bytes(&frame->source), xdp->family == AF_INET ? 4 : 16) !=
            0)
        return NULL;
    return group;
}

/* Delivers the payload of a frame. False: it is malformed or for no joined group. */
static bool frame_lend(struct lli_xdp *xdp, const uint8_t *bytes, uint32_t size, struct lli_in *packet)
{
    const struct lli_xdp_group *group;
    struct lli_xdp_frame frame;

    if (!lli_xdp_frame_get(&frame, xdp->family, bytes, size)) {
        xdp->counters.malformed++;
        return false;
    }
    group = group_find(xdp, &frame);
    if (group == NULL) {
        xdp->counters.foreign++;
        return false;
    }
    xdp->counters.frames_received++;
    packet->data = bytes + frame.payload;
    packet->size = frame.size;
    packet->from = (lli_handle)(group - xdp->groups.table);
    packet->stamp_ns = 0;
    return true;
}

static void chunk_give_back(struct lli_xdp_socket *socket, uint64_t address)
{
    *lli_xdp_address(&socket->fill, socket->fill.put++) = address & ~(uint64_t)(socket->chunk_bytes - 1);
}

/* Returns the number of chunks of the next frame; 0: incomplete. */
static uint32_t frame_pieces(const struct lli_xdp_socket *socket, uint32_t ready)
{
    uint32_t pieces = 0;

    while (pieces < ready)
        if ((lli_xdp_desc(&socket->rx, socket->rx.got + pieces++)->options & XDP_PKT_CONTD) == 0)
            return pieces;
    return 0;
}

/* Reassembles a frame of several chunks and frees them. False: it is for no joined group, or too large. */
static bool frame_whole(struct lli_xdp *xdp, struct lli_xdp_socket *socket, uint32_t pieces,
                        struct lli_in *packet)
{
    const uint16_t place = xdp->in.whole_free[xdp->in.whole_count - 1];
    uint8_t *whole = xdp->in.wholes + (size_t)place * xdp->in.whole_bytes;
    uint32_t size = 0;
    bool fits = true;

    for (uint32_t i = 0; i < pieces; i++) {
        const struct xdp_desc *desc = lli_xdp_desc(&socket->rx, socket->rx.got + i);

        fits = fits && desc->len <= xdp->in.whole_bytes - size;
        if (fits) {
            memcpy(whole + size, socket->chunks + desc->addr, desc->len);
            size += desc->len;
        }
        chunk_give_back(socket, desc->addr);
    }
    xdp->counters.malformed += !fits;
    if (!fits || !frame_lend(xdp, whole, size, packet))
        return false;
    packet->buffer = NOTE_WHOLE | place;
    xdp->in.whole_count--;
    return true;
}

static bool frame_plain(struct lli_xdp *xdp, struct lli_xdp_socket *socket, struct lli_in *packet)
{
    const struct xdp_desc *desc = lli_xdp_desc(&socket->rx, socket->rx.got);
    const uint64_t chunk = desc->addr / socket->chunk_bytes;

    if (frame_lend(xdp, socket->chunks + desc->addr, desc->len, packet)) {
        packet->buffer = NOTE_CHUNK | (uint64_t)(socket - xdp->sockets) << 32 | chunk;
        return true;
    }
    chunk_give_back(socket, desc->addr);
    return false;
}

/* Delivers packets of one queue. */
static int socket_receive(struct lli_xdp *xdp, struct lli_xdp_socket *socket, struct lli_in *packets, int max)
{
    const uint32_t begin = socket->rx.got;
    const uint32_t fill = socket->fill.put;
    uint32_t ready = lli_xdp_ring_ready(&socket->rx);
    int lent = 0;

    while (lent < max && ready > 0) {
        const uint32_t pieces = frame_pieces(socket, ready);

        if (pieces == 0 || (pieces > 1 && xdp->in.whole_count == 0))
            break;
        lent += pieces == 1 ? frame_plain(xdp, socket, &packets[lent])
                            : frame_whole(xdp, socket, pieces, &packets[lent]);
        socket->rx.got += pieces;
        ready -= pieces;
    }
    if (socket->rx.got != begin)
        lli_xdp_ring_consume(&socket->rx);
    if (socket->fill.put != fill)
        lli_xdp_ring_publish(&socket->fill);
    /* A driver that has run out of chunks must be woken. */
    if (socket->zero_copy && lent == 0 && lli_xdp_ring_sleeps(&socket->fill))
        (void)recvfrom(socket->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
    return lent;
}

static int kernel_receive(struct lli_xdp *xdp, struct lli_in *packets, int max)
{
    const int lent = xdp->udp->receive(xdp->udp_instance, packets, max);

    for (int i = 0; i < lent; i++)
        assert((packets[i].buffer & (NOTE_CHUNK | NOTE_WHOLE)) == 0);
    xdp->in.kernel_due = lent > 0;
    return lent;
}

static void drops_read(struct lli_xdp *xdp)
{
    for (uint32_t i = 0; i < xdp->socket_count; i++)
        xdp->counters.kernel_drops += lli_xdp_socket_drops(&xdp->sockets[i]);
}

/* Returns true if the UDP sockets have packets, which receive() polls less often. */
static bool xdp_waiting(const void *instance)
{
    const struct lli_xdp *xdp = instance;

    return xdp->udp->waiting(xdp->udp_instance);
}

static int xdp_receive(void *instance, struct lli_in *packets, int max)
{
    struct lli_xdp *xdp = instance;
    int lent = 0;

    xdp->in.turn++;
    if (xdp->in.kernel_due || xdp->in.turn % KERNEL_TURNS == 0) {
        lent = kernel_receive(xdp, packets, max);
        if (xdp->in.turn % CHECK_TURNS == 0)
            drops_read(xdp);
    }
    /* Start with another queue each time, so that none starves the others. */
    for (uint32_t i = 0; i < xdp->socket_count && lent < max; i++) {
        if (xdp->in.socket_next >= xdp->socket_count)
            xdp->in.socket_next = 0;
        lent += socket_receive(xdp, &xdp->sockets[xdp->in.socket_next++], packets + lent, max - lent);
    }
    return lent;
}

/* Frames still have their headers in front of the payload. */
static bool xdp_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    const struct lli_xdp *xdp = instance;

    if ((packet->buffer & (NOTE_CHUNK | NOTE_WHOLE)) == 0)
        return xdp->udp->came_from(xdp->udp_instance, packet, address);
    return lli_ip_is_from(address,
                          packet->data - lli_xdp_header_size(xdp->family) + lli_xdp_source_at(xdp->family));
}

static void xdp_release(void *instance, const struct lli_in *packets, int count)
{
    struct lli_xdp *xdp = instance;

    for (int i = 0; i < count; i++) {
        const uint64_t note = packets[i].buffer;

        if (note & NOTE_CHUNK) {
            struct lli_xdp_socket *socket = &xdp->sockets[(note & ~NOTE_CHUNK) >> 32];

            chunk_give_back(socket, (note & UINT32_MAX) * socket->chunk_bytes);
            lli_xdp_ring_publish(&socket->fill);
        } else if (note & NOTE_WHOLE) {
            xdp->in.whole_free[xdp->in.whole_count++] = (uint16_t)note;
        } else {
            xdp->udp->release(xdp->udp_instance, &packets[i], 1);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ waiting */

static int xdp_arm(void *instance)
{
    struct lli_xdp *xdp = instance;
    struct epoll_event event = {.events = EPOLLIN | (xdp->out.wire_stuck ? EPOLLOUT : 0),
                                .data.ptr = &xdp->sockets[0]};

    if (xdp->out.wire_stuck != xdp->sleep.for_room)
        epoll_ctl(xdp->sleep.epoll, EPOLL_CTL_MOD, xdp->sockets[0].fd, &event);
    xdp->sleep.for_room = xdp->out.wire_stuck;
    (void)xdp->udp->arm(xdp->udp_instance);
    xdp->in.kernel_due = true;
    drops_read(xdp);
    return xdp->sleep.epoll;
}

/* --------------------------------------------------------------------------------------- addresses, table */

static int xdp_address(void *instance, struct lli_address *address)
{
    struct lli_xdp *xdp = instance;

    return xdp->udp->address(xdp->udp_instance, address);
}

static int xdp_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    struct lli_xdp *xdp = instance;

    return xdp->udp->peer(xdp->udp_instance, address, handle);
}

static void xdp_forget(void *instance, const struct lli_address *address)
{
    struct lli_xdp *xdp = instance;

    xdp->udp->forget(xdp->udp_instance, address);
}

static const struct lli_transport *xdp_inner(const void *instance, int index, const void **inner_instance)
{
    const struct lli_xdp *xdp = instance;

    if (index > 0)
        return NULL;
    *inner_instance = xdp->udp_instance;
    return xdp->udp;
}

static uint64_t xdp_drops(void *instance)
{
    struct lli_xdp *xdp = instance;
    const uint64_t reported = xdp->counters.drops_reported;

    drops_read(xdp);
    xdp->counters.drops_reported = xdp->counters.kernel_drops;
    return xdp->counters.drops_reported - reported;
}

static const struct lli_counter xdp_counters[] = {
    /* Packets to groups and hosts sent as frames. */
    {"xdp_frames_sent", offsetof(struct lli_xdp, counters.frames_sent)},
    /* Packets to groups received as frames. */
    {"xdp_frames_received", offsetof(struct lli_xdp, counters.frames_received)},
    /* Packets to hosts sent by the kernel. */
    {"xdp_host_detours", offsetof(struct lli_xdp, counters.host_detours)},
    /* Times that a host became unreachable. */
    {"xdp_hosts_dead", offsetof(struct lli_xdp, counters.hosts_dead)},
    /* Packets lost because sending failed. */
    {"xdp_send_errors", offsetof(struct lli_xdp, counters.send_errors)},
    /* Flushes after which the kernel had not accepted all frames. */
    {"xdp_send_waits", offsetof(struct lli_xdp, counters.send_waits)},
    /* Frames dropped for wrong lengths or checksum. */
    {"xdp_malformed", offsetof(struct lli_xdp, counters.malformed)},
    /* Frames from other sources, or for groups just left. */
    {"xdp_foreign", offsetof(struct lli_xdp, counters.foreign)},
    /* Frames dropped for lack of room. */
    {"xdp_kernel_drops", offsetof(struct lli_xdp, counters.kernel_drops)},
    {NULL, 0},
};

const struct lli_transport lli_transport_xdp = {
    .scheme = "xdp",
    .options = &lli_xdp_option_table,
    .size = sizeof(struct lli_xdp),
    .counters = xdp_counters,
    .open = lli_xdp_open,
    .close = lli_xdp_close,
    .abandon = lli_xdp_abandon,
    .region_end = xdp_region_end,
    .join = lli_xdp_join,
    .leave = lli_xdp_leave,
    .address = xdp_address,
    .peer = xdp_peer,
    .forget = xdp_forget,
    .report = lli_xdp_report,
    .came_from = xdp_came_from,
    .post = xdp_post,
    .flush = xdp_flush,
    .reap = xdp_reap,
    .receive = xdp_receive,
    .release = xdp_release,
    .arm = xdp_arm,
    .waiting = xdp_waiting,
    .drops = xdp_drops,
    .inner = xdp_inner,
};
