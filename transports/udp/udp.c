/* SPDX-License-Identifier: Apache-2.0 */
/* UDP transport: data operations and the transport table. */
#define _GNU_SOURCE
#include "udp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "core/base/types.h"

enum {
    CONTROL_TURNS = 8,  /* one call in this many polls the control socket, the others a group */
    ROTATED_MAX = 4,    /* with more groups, epoll finds the readable ones */
    CHECK_PACKETS = 16, /* a burst of this size may have overflowed the socket buffer */
    CHECK_PACKETS_BUSY = 1024,
};

/* ------------------------------------------------------------------------------------------------ sending */

static void udp_queue(struct lli_udp *udp, const struct lli_out *packet)
{
    struct lli_udp_out *out = &udp->out.packets[udp->out.taken++ % LLI_UDP_POST_MAX];
    const uint32_t place = packet->to & ~LLI_UDP_PEER;

    out->data = packet->data;
    out->size = packet->size;
    out->to = NULL;
    if (packet->size > udp->out.payload_max) {
        out->fd = -1;
    } else if (packet->to & LLI_UDP_PEER) {
        assert(place < udp->peers.count);
        out->to = &udp->peer_addresses[place];
        out->fd = udp->in.control.fd;
    } else {
        assert(place < LLI_UDP_GROUPS_MAX);
        out->fd = udp->out.senders[place];
    }
}

int lli_udp_post(void *instance, const struct lli_out *packets, int count)
{
    struct lli_udp *udp = instance;
    const int room = LLI_UDP_POST_MAX - (int)(udp->out.taken - udp->out.done);
    const int taken = count < room ? count : room;

    for (int i = 0; i < taken; i++)
        udp_queue(udp, &packets[i]);
    return taken;
}

static const struct lli_udp_out *udp_out(const struct lli_udp *udp, uint64_t number)
{
    return &udp->out.packets[number % LLI_UDP_POST_MAX];
}

/*
 * Counts the packets, starting with the given one, that form a train: all of equal size, except that the last
 * may be shorter.
 */
static unsigned udp_train(const struct lli_udp *udp, uint64_t first)
{
    const struct lli_udp_out *head = udp_out(udp, first);
    uint32_t bytes = head->size;
    unsigned count = 1;

    if (head->size == 0)
        return count;
    while (count < udp->out.train_max && first + count != udp->out.taken) {
        const struct lli_udp_out *next = udp_out(udp, first + count);

        if (next->fd != head->fd || next->to != head->to || next->size > head->size ||
            bytes + next->size > udp->out.train_bytes)
            break;
        bytes += next->size;
        count++;
        if (next->size < head->size)
            break;
    }
    return count;
}

/* Builds the iovec of consecutive packets; merges adjacent memory. Returns the number of elements. */
static unsigned udp_pieces(const struct lli_udp *udp, uint64_t first, unsigned count, struct iovec *pieces)
{
    const uint8_t *end = NULL;
    unsigned used = 0;

    for (unsigned i = 0; i < count; i++) {
        const struct lli_udp_out *out = udp_out(udp, first + i);

        if (out->data == end)
            pieces[used - 1].iov_len += out->size;
        else
            pieces[used++] = (struct iovec){(void *)(uintptr_t)out->data, out->size};
        end = out->data + out->size;
    }
    return used;
}

void lli_udp_segment_note(struct msghdr *header, void *note, uint16_t bytes)
{
    struct cmsghdr *first = note;

    header->msg_control = note;
    header->msg_controllen = CMSG_SPACE(sizeof bytes);
    *first =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof bytes), .cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT};
    memcpy(CMSG_DATA(first), &bytes, sizeof bytes);
}

/* Builds messages from the oldest packets of one socket. Returns their number. */
static unsigned udp_batch(struct lli_udp *udp)
{
    const int fd = udp_out(udp, udp->out.done)->fd;
    struct iovec *pieces = udp->out.pieces;
    uint64_t at = udp->out.done;
    unsigned count = 0;

    while (count < LLI_UDP_BATCH && at != udp->out.taken && udp_out(udp, at)->fd == fd) {
        const struct lli_udp_out *head = udp_out(udp, at);
        const unsigned train = udp_train(udp, at);
        struct msghdr *header = &udp->out.batch[count].msg_hdr;

        *header = (struct msghdr){.msg_iov = pieces};
        header->msg_iovlen = udp_pieces(udp, at, train, pieces);
        if (head->to != NULL) {
            header->msg_name = (void *)(uintptr_t)head->to;
            header->msg_namelen = lli_ip_length(head->to);
        }
        if (train > 1)
            lli_udp_segment_note(header, udp->out.notes[count], (uint16_t)head->size);
        pieces += header->msg_iovlen;
        udp->out.trains[count++] = (uint16_t)train;
        at += train;
    }
    return count;
}

/* Passes the oldest packets to the kernel. Returns the number of messages accepted, or -1. */
static int udp_send(struct lli_udp *udp)
{
    const struct lli_udp_out *out = udp_out(udp, udp->out.done);
    unsigned count;

    if (udp->out.taken - udp->out.done > 1) {
        count = udp_batch(udp);
        return count > 1 ? sendmmsg(out->fd, udp->out.batch, count, 0)
               : sendmsg(out->fd, &udp->out.batch[0].msg_hdr, 0) < 0 ? -1
                                                                     : 1;
    }
    /* Single packet: use the cheapest system call. */
    udp->out.trains[0] = 1;
    if (out->to == NULL)
        return send(out->fd, out->data, out->size, 0) < 0 ? -1 : 1;
    return sendto(out->fd, out->data, out->size, 0, &out->to->any, lli_ip_length(out->to)) < 0 ? -1 : 1;
}

/* Errors that mean segmentation offload is unsupported by the device, or by a user-space stack. */
static bool udp_is_offload_error(int number)
{
    return number == EIO || number == EINVAL || number == ENOPROTOOPT || number == EOPNOTSUPP ||
           number == EMSGSIZE;
}

/* Handles refusal of the oldest message. Returns false if the kernel may accept it later. */
static bool udp_send_failed(struct lli_udp *udp)
{
    if (errno == EAGAIN || errno == ENOBUFS)
        return false;
    if (udp->out.trains[0] > 1 && udp_is_offload_error(errno)) {
        /* No packet of the train was sent: from now on send packets one by one, starting with these. */
        udp->out.train_max = 1;
        udp->counters.trains_refused++;
        return true;
    }
    /* Any other error is permanent, or belongs to an earlier packet: count the packet as lost. */
    lli_udp_unreached_note(udp, udp_out(udp, udp->out.done), errno);
    udp->counters.send_errors += udp->out.trains[0];
    udp->out.done += udp->out.trains[0];
    return true;
}

int lli_udp_flush(void *instance)
{
    struct lli_udp *udp = instance;

    udp->out.stuck = false;
    while (udp->out.done != udp->out.taken) {
        int sent;

        if (udp_out(udp, udp->out.done)->fd < 0) {
            udp->counters.send_errors++;
            udp->out.done++;
            continue;
        }
        sent = udp_send(udp);
        if (sent <= 0 && !udp_send_failed(udp)) {
            udp->out.stuck = true;
            udp->counters.send_waits++;
            return LLM_EAGAIN;
        }
        for (int i = 0; i < sent; i++) {
            udp->out.done += udp->out.trains[i];
            udp->counters.trains += udp->out.trains[i] > 1;
        }
    }
    return 0;
}

uint64_t lli_udp_reap(void *instance)
{
    const struct lli_udp *udp = instance;

    return udp->out.done;
}

/* ---------------------------------------------------------------------------------------------- receiving */

/* Handles a receive call that returned no packet. */
static void udp_fetch_none(struct lli_udp *udp, struct lli_udp_receiver *receiver)
{
    /* ICMP errors of earlier unicasts are reported here too; all are harmless. */
    if (errno != EAGAIN)
        udp->counters.receive_errors++;
    receiver->bursting = receiver->merged = false;
    if (receiver->unchecked >= CHECK_PACKETS)
        lli_udp_drops_read(udp, receiver);
}

/* Returns the length of the first run of free buffers, at most max. */
static unsigned udp_free_run(uint64_t free, size_t first, unsigned max)
{
    const uint64_t used = ~(free >> first);
    const unsigned run = used == 0 ? LLI_UDP_BUFFERS : (unsigned)__builtin_ctzll(used);

    return run < max ? run : max;
}

/* Fills the header fields after a receive call that has no message header. */
static int udp_fetched_one(const struct lli_udp *udp, struct mmsghdr *in, ssize_t size)
{
    if (size < 0)
        return -1;
    in->msg_len = (unsigned)size;
    in->msg_hdr.msg_flags = (size_t)size > udp->in.buffer_bytes ? MSG_TRUNC : 0;
    return 1;
}

/* Uses the cheapest receive call: recv() takes 159 ns, recvmsg() 216, recvmmsg() 243 (measured). */
static int udp_fetch_one(const struct lli_udp *udp, const struct lli_udp_receiver *receiver,
                         struct mmsghdr *in)
{
    return udp_fetched_one(
        udp, in,
        recv(receiver->fd, in->msg_hdr.msg_iov->iov_base, udp->in.buffer_bytes, MSG_DONTWAIT | MSG_TRUNC));
}

static int udp_fetch_one_apart(const struct lli_udp *udp, const struct lli_udp_receiver *receiver,
                               struct mmsghdr *in)
{
    struct msghdr *header = &in->msg_hdr;
    ssize_t size;

    if (!receiver->noted)
        return udp_fetched_one(udp, in,
                               recvfrom(receiver->fd, header->msg_iov->iov_base, udp->in.buffer_bytes,
                                        MSG_DONTWAIT | MSG_TRUNC, header->msg_name, &header->msg_namelen));
    size = recvmsg(receiver->fd, header, MSG_DONTWAIT);
    if (size < 0)
        return -1;
    in->msg_len = (unsigned)size;
    return 1;
}

/*
 * Receives with source address or control messages. The source address costs 90 ns per packet: it is
 * requested only on the control socket, where packets carry addresses, and not for groups, which carry data.
 */
static LLI_OUT_OF_LINE int udp_fetch_apart(struct lli_udp *udp, const struct lli_udp_receiver *receiver,
                                           size_t first, unsigned run)
{
    int count;

    for (size_t i = first; i < first + run; i++) {
        struct msghdr *header = &udp->in.messages[i].msg_hdr;

        header->msg_controllen = LLI_UDP_NOTE_BYTES;
        header->msg_name = receiver->named ? &udp->in.names[i] : NULL;
        header->msg_namelen = receiver->named ? sizeof udp->in.names[i] : 0;
    }
    count = run == 1 ? udp_fetch_one_apart(udp, receiver, &udp->in.messages[first])
                     : recvmmsg(receiver->fd, &udp->in.messages[first], run, MSG_DONTWAIT, NULL);
    for (size_t i = first; i < first + run && receiver->named; i++)
        udp->in.messages[i].msg_hdr.msg_name = NULL;
    return count;
}

void lli_udp_fetch(struct lli_udp *udp, struct lli_udp_receiver *receiver)
{
    const size_t first = (size_t)__builtin_ctzll(udp->in.free);
    /* One merged buffer holds enough packets; fewer buffers stay in the cache. */
    const unsigned run =
        udp_free_run(udp->in.free, first, receiver->bursting && !receiver->merged ? LLI_UDP_BURST : 1);
    int count;

    if (receiver->apart)
        count = udp_fetch_apart(udp, receiver, first, run);
    else if (run == 1)
        count = udp_fetch_one(udp, receiver, &udp->in.messages[first]);
    else
        count = recvmmsg(receiver->fd, &udp->in.messages[first], run, MSG_DONTWAIT, NULL);
    if (count <= 0) {
        udp_fetch_none(udp, receiver);
        return;
    }
    receiver->bursting = true;
    receiver->unchecked += (uint32_t)count;
    if (receiver->unchecked >= CHECK_PACKETS_BUSY)
        lli_udp_drops_read(udp, receiver);
    udp->in.fetched = (struct lli_udp_fetched){
        .receiver = receiver, .next = (uint32_t)first, .end = (uint32_t)first + (uint32_t)count};
    for (size_t buffer = first; buffer < first + (size_t)count; buffer++) {
        udp->in.free &= ~(UINT64_C(1) << buffer);
        udp->in.references[buffer] = 1;
    }
}

static void udp_unhold(struct lli_udp *udp, size_t buffer)
{
    assert(udp->in.references[buffer] > 0);
    if (--udp->in.references[buffer] == 0)
        udp->in.free |= UINT64_C(1) << buffer;
}

/* Reads the control messages of a buffer: segment size and time stamp. */
static void udp_read_notes(struct lli_udp_fetched *fetched, struct mmsghdr *in)
{
    struct timespec stamp;
    int segment;

    for (struct cmsghdr *note = CMSG_FIRSTHDR(&in->msg_hdr); note != NULL;
         note = CMSG_NXTHDR(&in->msg_hdr, note)) {
        if (note->cmsg_level == SOL_UDP && note->cmsg_type == UDP_GRO) {
            memcpy(&segment, CMSG_DATA(note), sizeof segment);
            fetched->segment = segment > 0 ? (uint32_t)segment : in->msg_len;
        } else if (note->cmsg_level == SOL_SOCKET && note->cmsg_type == SCM_TIMESTAMPNS) {
            memcpy(&stamp, CMSG_DATA(note), sizeof stamp);
            fetched->stamp_ns = (uint64_t)stamp.tv_sec * 1000000000u + (uint64_t)stamp.tv_nsec;
        }
    }
}

/*
 * Returns the segment size of a merged buffer, from the size field of its first packet. If the field is
 * implausible, treats the buffer as one packet, which the protocol decoder rejects.
 */
static uint32_t udp_segment_said(const struct lli_udp *udp, const struct mmsghdr *in)
{
    const uint8_t *at = (const uint8_t *)in->msg_hdr.msg_iov->iov_base + udp->in.size_at;
    uint32_t segment;

    if (in->msg_len < udp->in.size_at + 2)
        return in->msg_len;
    segment = (uint32_t)(at[0] | at[1] << 8);
    return segment > in->msg_len || segment * LLI_UDP_TRAIN_MAX < in->msg_len ? in->msg_len : segment;
}

/* Determines the segment size and time stamp of a buffer. */
static void udp_look(struct lli_udp *udp, struct mmsghdr *in)
{
    struct lli_udp_fetched *fetched = &udp->in.fetched;

    fetched->segment = in->msg_len;
    fetched->stamp_ns = 0;
    if (fetched->receiver->noted)
        udp_read_notes(fetched, in);
    else if (udp->in.merges)
        fetched->segment = udp_segment_said(udp, in);
    fetched->receiver->merged = fetched->segment < in->msg_len;
    udp->counters.superframes += fetched->receiver->merged;
}

int lli_udp_lend(struct lli_udp *udp, struct lli_in *packets, int max)
{
    struct lli_udp_fetched *fetched = &udp->in.fetched;
    int lent = 0;

    while (lent < max && fetched->next < fetched->end) {
        const uint32_t buffer = fetched->next;
        struct mmsghdr *in = &udp->in.messages[buffer];
        uint32_t left = in->msg_len - fetched->offset;
        bool too_large;

        if (fetched->offset == 0)
            udp_look(udp, in);
        too_large = (in->msg_hdr.msg_flags & MSG_TRUNC) != 0 || fetched->segment > udp->in.packet_bytes;
        if (too_large) {
            udp->counters.truncated++;
        } else {
            packets[lent++] = (struct lli_in){
                .data = udp->in.pieces[buffer].iov_base + fetched->offset,
                .size = left < fetched->segment ? left : fetched->segment,
                .from = fetched->receiver->handle,
                .buffer = buffer,
                .stamp_ns = fetched->stamp_ns,
            };
            udp->in.references[buffer]++;
        }
        if (too_large || left <= fetched->segment) {
            fetched->next++;
            fetched->offset = 0;
            udp_unhold(udp, buffer);
        } else {
            fetched->offset += fetched->segment;
        }
    }
    return lent;
}

/*
 * Returns the next socket that epoll reported readable, or NULL. One receive call each, so no socket starves
 * another.
 */
static struct lli_udp_receiver *udp_next_ready(struct lli_udp *udp)
{
    if (udp->in.ready_next == udp->in.ready_count) {
        const int count = epoll_wait(udp->epoll, udp->in.ready, LLI_UDP_READY_MAX, 0);

        udp->in.ready_next = 0;
        udp->in.ready_count = count > 0 ? (uint32_t)count : 0;
        if (udp->in.ready_count == 0)
            return NULL;
    }
    return udp->in.ready[udp->in.ready_next++].data.ptr; /* NULL for a socket that only sends */
}

/* Returns the group to poll: the current one while it returns packets, else the next. */
static struct lli_udp_receiver *udp_next_group(struct lli_udp *udp)
{
    struct lli_udp_receiver *receiver = &udp->in.groups[udp->in.polled[udp->in.polled_next]];

    if (receiver->bursting)
        return receiver;
    udp->in.polled_next = (uint16_t)((udp->in.polled_next + 1u) % udp->in.polled_count);
    return &udp->in.groups[udp->in.polled[udp->in.polled_next]];
}

/* Every poll is a system call, so each receive() polls one socket, the most likely one. */
struct lli_udp_receiver *lli_udp_next(struct lli_udp *udp)
{
    if (udp->in.polled_count > ROTATED_MAX)
        return udp_next_ready(udp);
    if (udp->in.polled_count == 0)
        return &udp->in.control;
    if (++udp->in.turn % CONTROL_TURNS == 0) {
        if (udp->in.polled_count > 1)
            udp->in.polled_next = (uint16_t)((udp->in.polled_next + 1u) % udp->in.polled_count);
        return &udp->in.control;
    }
    return udp->in.polled_count == 1 ? &udp->in.groups[udp->in.polled[0]] : udp_next_group(udp);
}

/*
 * Inlined (flatten), although its parts are also called elsewhere: saves 82 instructions per packet, 40 per
 * empty poll.
 */
__attribute__((flatten)) int lli_udp_receive(void *instance, struct lli_in *packets, int max)
{
    struct lli_udp *udp = instance;

    if (udp->in.fetched.next == udp->in.fetched.end && udp->in.free != 0 && max > 0) {
        struct lli_udp_receiver *receiver = lli_udp_next(udp);

        if (receiver != NULL)
            lli_udp_fetch(udp, receiver);
    }
    return lli_udp_lend(udp, packets, max);
}

void lli_udp_release(void *instance, const struct lli_in *packets, int count)
{
    struct lli_udp *udp = instance;

    for (int i = 0; i < count; i++)
        udp_unhold(udp, packets[i].buffer);
}

bool lli_udp_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    const struct lli_udp *udp = instance;

    return packet->from != LLI_HANDLE_UNICAST ||
           lli_ip_is_from(address, lli_ip_bytes(&udp->in.names[packet->buffer]));
}

void lli_udp_fetched_drop(struct lli_udp *udp, const struct lli_udp_receiver *receiver)
{
    struct lli_udp_fetched *fetched = &udp->in.fetched;

    if (fetched->receiver != receiver)
        return;
    for (; fetched->next < fetched->end; fetched->next++)
        udp_unhold(udp, fetched->next);
    fetched->receiver = NULL;
}

/* receive() polls one socket per call, so the others may have packets. */
bool lli_udp_waiting(const void *instance)
{
    const struct lli_udp *udp = instance;
    struct pollfd fds[1 + LLI_UDP_GROUPS_MAX] = {{.fd = udp->in.control.fd, .events = POLLIN}};

    for (uint32_t i = 0; i < udp->in.polled_count; i++)
        fds[1 + i] = (struct pollfd){.fd = udp->in.groups[udp->in.polled[i]].fd, .events = POLLIN};
    return udp->in.fetched.next != udp->in.fetched.end || poll(fds, 1 + udp->in.polled_count, 0) > 0;
}

/* -------------------------------------------------------------------------------------------------- table */

static const struct lli_counter udp_counters[] = {
    /* Packets lost because sending failed. */
    {"udp_send_errors", offsetof(struct lli_udp, counters.send_errors)},
    /* Flushes stopped by a full send buffer. */
    {"udp_send_waits", offsetof(struct lli_udp, counters.send_waits)},
    /* Failed receive calls, mostly ICMP errors. */
    {"udp_receive_errors", offsetof(struct lli_udp, counters.receive_errors)},
    /* Packets dropped because they exceed the interface's MTU. */
    {"udp_truncated", offsetof(struct lli_udp, counters.truncated)},
    {"udp_trains", offsetof(struct lli_udp, counters.trains)}, /* trains sent */
    /* Refused trains: one by one until the interface changes. */
    {"udp_trains_refused", offsetof(struct lli_udp, counters.trains_refused)},
    /* Changes of the interface's address or MTU. */
    {"udp_interface_changes", offsetof(struct lli_udp, counters.interface_changes)},
    {"udp_superframes", offsetof(struct lli_udp, counters.superframes)}, /* merged packets received */
    /* Packets dropped because a receive buffer was full. */
    {"udp_kernel_drops", offsetof(struct lli_udp, counters.kernel_drops)},
    {NULL, 0},
};

const struct lli_transport lli_transport_udp = {
    .scheme = "udp",
    .size = sizeof(struct lli_udp),
    .counters = udp_counters,
    .open = lli_udp_open,
    .close = lli_udp_close,
    .abandon = lli_udp_close, /* closes descriptors only: the parent's sockets keep their memberships */
    .region_end = lli_udp_region_end,
    .join = lli_udp_join,
    .leave = lli_udp_leave,
    .address = lli_udp_address,
    .peer = lli_udp_peer,
    .forget = lli_udp_forget,
    .report = lli_udp_report,
    .unreached = lli_udp_unreached,
    .describe = lli_udp_describe,
    .came_from = lli_udp_came_from,
    .post = lli_udp_post,
    .flush = lli_udp_flush,
    .reap = lli_udp_reap,
    .receive = lli_udp_receive,
    .release = lli_udp_release,
    .arm = lli_udp_arm,
    .waiting = lli_udp_waiting,
    .drops = lli_udp_drops,
};
