/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare UDP multicast, without the library: what the kernel alone takes on the same path, as the measure beside every figure.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct raw_group {
    struct sockaddr_storage address;
    socklen_t address_size; /* 0: there is none */
    unsigned interface;     /* its index */
    unsigned mtu;           /* largest IP packet, as the channel or the interface says */
    size_t history_bytes;   /* what a transmitter of the channel keeps for repair */
};

/*
 * Finds the group and the interface of a udp channel; the port is port_offset further, so that the library's own packets do
 * not come here. Groups are numeric. 0; 1 if the channel's transport has no raw form here; -1 if group or interface cannot be
 * used, with the reason in *reason, a static string.
 */
int raw_group_of_channel(const char *channel, uint16_t port_offset, struct raw_group *group, const char **reason);

/* A socket that sends to the group, or receives from it without waiting. A descriptor, or -1 with errno set. */
int raw_open_send(const struct raw_group *group);
int raw_open_receive(const struct raw_group *group);

/* The longest datagram that goes to the group in one packet. */
size_t raw_datagram_bytes(const struct raw_group *group);

/* Has the kernel split a message into datagrams of so many bytes (UDP_SEGMENT). control: memory of RAW_CONTROL_BYTES, aligned for
 * a struct cmsghdr, which the message refers to from then on. */
#define RAW_CONTROL_BYTES CMSG_SPACE(sizeof(uint16_t))
void raw_segment(struct msghdr *message, void *control, size_t datagram_bytes);

/* The longest train of such datagrams that the kernel takes in one message. */
size_t raw_train_bytes(size_t datagram_bytes);

/* Whether the kernel gives trains as one (UDP_GRO). 0, or -1 with errno set. */
int raw_merge(int fd, bool on);

/* The most memory that a blast of either side needs, allocated and touched before it starts. */
struct raw_blast;
struct raw_blast *raw_blast_open(void);
void raw_blast_close(struct raw_blast *blast);

enum raw_way {
    RAW_BATCHES, /* sendmmsg() */
    RAW_TRAINS,  /* of datagrams split by the kernel (UDP_SEGMENT), from one buffer that stays in the caches */
    RAW_KEPT,    /* the same, of messages that were each copied into a ring first, as who is to repair them has to */
    RAW_WAYS
};

struct raw_load {
    enum raw_way way;
    size_t datagram_bytes;
    size_t message_bytes; /* of RAW_KEPT, as the next */
    size_t ring_bytes;
    uint64_t duration_ns;
};

/*
 * Sends datagrams as fast as the kernel takes them, for a time, then the datagrams of one byte that say that it is over. 0, or
 * -1 with errno set.
 */
int raw_blast_send(struct raw_blast *blast, int fd, const struct raw_load *load);

struct raw_blast_result {
    uint64_t bytes; /* of datagrams received */
    uint64_t ns;    /* from the first to the last */
};

/* Makes the socket ready for a blast before the sender is told to begin: what is left of the one before would be taken for it,
 * and a train that comes earlier is not taken whole. */
void raw_blast_expect(struct raw_blast *blast, int fd, bool segmented);

/* Receives the blast until it is over, or nothing has come for half a second. */
struct raw_blast_result raw_blast_receive(struct raw_blast *blast, int fd);

#endif
