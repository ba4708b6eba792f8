/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare UDP multicast, which repairs nothing: "raw" has a message in each datagram, "packed" as many whole ones as fit, and lets
 * the kernel split and join trains of datagrams (UDP_SEGMENT, UDP_GRO).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../raw/raw_udp.h"
#include "adapter.h"

#define RAW_BATCH 32
#define RAW_BYTES 65536

struct bare {
    int send_fd;
    int receive_fd;
    size_t size;          /* of a message */
    size_t segment_bytes; /* whole messages that fit in a datagram; 0: not packed */
    size_t train_bytes;   /* the most that is sent at once */
    size_t packed_bytes;
    unsigned queued;      /* datagrams of the batch */
    unsigned receive_batch;
    alignas(struct cmsghdr) char control[RAW_CONTROL_BYTES];
    struct iovec send_pieces[RAW_BATCH];
    struct iovec receive_pieces[RAW_BATCH];
    struct mmsghdr sends[RAW_BATCH];
    struct mmsghdr receives[RAW_BATCH];
    char *memory; /* of what is sent, then of what is received */
};

static struct bare bare = {.send_fd = -1, .receive_fd = -1};

/* ------------------------------------------------------------------------------------------------------------- sending */

static void bare_flush_packed(void)
{
    struct iovec piece = {.iov_base = bare.memory, .iov_len = bare.packed_bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    if (bare.packed_bytes > bare.segment_bytes)
        raw_udp_segment(&message, bare.control, bare.segment_bytes);
    if (bare.packed_bytes > 0)
        sendmsg(bare.send_fd, &message, 0); /* what the kernel does not take is counted as lost where it is missed */
    bare.packed_bytes = 0;
}

static void bare_flush(void)
{
    if (bare.segment_bytes > 0)
        bare_flush_packed();
    else if (bare.queued > 0)
        sendmmsg(bare.send_fd, bare.sends, bare.queued, 0);
    bare.queued = 0;
}

static void bare_pack(const void *data, size_t size)
{
    memcpy(bare.memory + bare.packed_bytes, data, size);
    bare.packed_bytes += size;
    if (bare.packed_bytes == bare.train_bytes)
        bare_flush_packed();
}

static void bare_queue(const void *data, size_t size)
{
    memcpy(bare.send_pieces[bare.queued].iov_base, data, size);
    if (++bare.queued == RAW_BATCH)
        bare_flush();
}

static int bare_send(const void *data, size_t size, bool more)
{
    if (bare.segment_bytes > 0) {
        bare_pack(data, size);
    } else if (!more && bare.queued == 0) {
        send(bare.send_fd, data, size, 0);
        return 1;
    } else {
        bare_queue(data, size);
    }
    if (!more)
        bare_flush();
    return 1;
}

/* ----------------------------------------------------------------------------------------------------------- receiving */

/* Datagrams hold whole messages, so trains of them do too. */
static int bare_take(const char *data, size_t bytes)
{
    int count = 0;

    for (; bytes >= bare.size; bytes -= bare.size, data += bare.size, count++)
        adapter_deliver(data, bare.size);
    return count;
}

/* A hop takes the plain call, as bare programs do; at full rate the call for many pays. */
static int bare_receive_one(void)
{
    char *data = bare.receive_pieces[0].iov_base;
    ssize_t bytes = recv(bare.receive_fd, data, RAW_BYTES, MSG_DONTWAIT);

    return bytes > 0 ? bare_take(data, (size_t)bytes) : 0;
}

static int bare_receive_many(void)
{
    int datagrams = recvmmsg(bare.receive_fd, bare.receives, bare.receive_batch, MSG_DONTWAIT, NULL);
    int count = 0;

    for (int i = 0; i < datagrams; i++)
        count += bare_take(bare.receive_pieces[i].iov_base, bare.receives[i].msg_len);
    return count;
}

static int bare_poll(void)
{
    int count;

    bare_flush();
    count = bare.receive_batch > 1 ? bare_receive_many() : bare_receive_one();
    if (count > 0)
        adapter_delivered();
    return count;
}

/* --------------------------------------------------------------------------------------------------------- open, close */

static int bare_group(const struct adapter_link *link, const char *address, unsigned port, struct raw_group *group)
{
    const char *reason = "";
    char channel[128];

    snprintf(channel, sizeof channel, "udp://%s:%u?interface=%s", address, port, link->interface);
    return raw_group_of_channel(channel, 0, group, &reason) == 0 ? 0 : adapter_fail(channel, reason);
}

static void bare_point(struct mmsghdr *messages, struct iovec *pieces, char *memory, size_t bytes)
{
    for (int i = 0; i < RAW_BATCH; i++) {
        pieces[i] = (struct iovec){.iov_base = memory + (size_t)i * RAW_BYTES, .iov_len = bytes};
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
}

static int bare_prepare(const struct adapter_link *link, const struct raw_group *group)
{
    size_t datagram_bytes = raw_udp_datagram_bytes(group);

    bare.size = link->size;
    bare.receive_batch = link->throughput ? RAW_BATCH : 1;
    bare.memory = calloc(2 * RAW_BATCH, RAW_BYTES);
    if (!bare.memory)
        return adapter_fail("no memory", strerror(errno));
    bare_point(bare.sends, bare.send_pieces, bare.memory, link->size);
    bare_point(bare.receives, bare.receive_pieces, bare.memory + (size_t)RAW_BATCH * RAW_BYTES, RAW_BYTES);
    if (link->size > datagram_bytes)
        return adapter_fail("the size", "does not fit into a datagram");
    if (strcmp(link->variant, "packed") != 0)
        return 0;
    bare.segment_bytes = datagram_bytes / link->size * link->size;
    bare.train_bytes = raw_udp_train_bytes(bare.segment_bytes);
    return raw_udp_merge(bare.receive_fd, true) == 0 ? 0 : adapter_fail("UDP_GRO", strerror(errno));
}

static int bare_open(const struct adapter_link *link)
{
    struct raw_group send;
    struct raw_group receive;

    if (bare_group(link, link->send_group, link->send_port, &send) != 0 ||
        bare_group(link, link->receive_group, link->receive_port, &receive) != 0)
        return -1;
    bare.send_fd = raw_udp_open_send(&send);
    bare.receive_fd = raw_udp_open_receive(&receive);
    if (bare.send_fd < 0 || bare.receive_fd < 0)
        return adapter_fail("cannot open the sockets", strerror(errno));
    return bare_prepare(link, &send);
}

static void bare_close(void)
{
    if (bare.send_fd >= 0)
        close(bare.send_fd);
    if (bare.receive_fd >= 0)
        close(bare.receive_fd);
    free(bare.memory);
}

int main(int argc, char **argv)
{
    static const struct adapter adapter = {
        .name = "raw",
        .batch = 256,
        .idle_reflector = ADAPTER_SPIN,
        .idle_throughput = ADAPTER_SPIN,
        .open = bare_open,
        .send = bare_send,
        .poll = bare_poll,
        .close = bare_close,
    };

    return adapter_main(&adapter, argc, argv);
}
