/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the AF_XDP transport share.
 *
 *   xdp_frame.c      frames as bytes
 *   xdp_program.c    the program that takes frames of the groups off the kernel
 *   xdp_socket.c     AF_XDP sockets, their memory and rings
 *   xdp_neighbour.c  which MAC address frames to a host go to, as the kernel knows it
 *   xdp_control.c    control operations
 *   xdp.c            data operations, and the transport's table
 *
 * One instance has one interface for itself, in one address family: its program, and an AF_XDP socket for every queue that it
 * was given. The first of them sends.
 *
 * Beside it stands an instance of UDP, on the same interface. It does all that frames are not for: it holds the memberships,
 * so that hosts and switches forward the groups; it carries unicasts to peers, and those to a host that is joined to send for as
 * long as its neighbour is not known, which the kernel resolves; it hands packets to groups that the instance has joined itself
 * back to this host, with a TTL of 0, so that they do not leave it; and it receives what the program passes on to the kernel.
 * Addresses and peers are its own, so hosts with udp:// and with xdp:// reach each other.
 */
#ifndef LLI_XDP_H
#define LLI_XDP_H

#include "xdp_frame.h"
#include "xdp_neighbour.h"
#include "xdp_program.h"
#include "xdp_socket.h"
#include "core/base/types.h"

enum {
    LLI_XDP_POST_MAX = 256,    /* a power of two: the queue is a ring */
    LLI_XDP_GROUPS_MAX = 256,  /* joins to send, and again groups joined to receive */
    LLI_XDP_GROUP_SLOTS = 512, /* a power of two: half of them stay empty */
    LLI_XDP_QUEUES_MAX = 64,
    LLI_XDP_PIECES_MAX = 16,   /* chunks of a frame */
    LLI_XDP_WHOLES = 128,      /* frames of several chunks that are lent at a time */
};

/* A join to send; its handle is that of UDP, and its place. */
struct lli_xdp_sender {
    struct lli_xdp_header header;
    bool open;
    bool wire;  /* its packets may leave the host */
    bool loop;  /* receivers on it are to hear them too */
    bool loops; /* ... and so they are given to UDP */
    bool host;  /* it is one: packets go to UDP instead, unless the neighbour is known, */
    bool nudge; /* ... and the next one too, so that the kernel asks a neighbour that was not heard of for long */
    bool dead;  /* the neighbour was found not to answer, and frames have not gone there since */
    bool tell;  /* ... which the log does not say yet */
    uint8_t ttl;
    lli_ns look_at; /* the kernel is asked for it again */
    union lli_ip_address group;
};

/* A group joined to receive; likewise. */
struct lli_xdp_group {
    union lli_ip_address group;
    union lli_ip_address source; /* family 0: any */
    uint32_t users;              /* joins that share it; 0: unused */
};

/* A packet to send. */
struct lli_xdp_out {
    const uint8_t *data;
    uint32_t size;
    lli_handle to;
    bool lost;
    bool kernel; /* it goes to UDP as well, or instead */
};

struct lli_xdp {
    /* Data path, the hottest first. */
    struct lli_xdp_socket *sockets;
    uint32_t socket_count;
    uint32_t socket_next;          /* which is looked at first */
    uint32_t turn;                 /* counts calls of receive() */
    bool kernel_due;               /* what UDP has is looked at in the next */
    sa_family_t family;
    const struct lli_transport *udp;
    void *udp_instance;
    uint16_t slots[LLI_XDP_GROUP_SLOTS]; /* hash table of places in groups, plus 1; 0: empty */
    struct lli_xdp_group groups[LLI_XDP_GROUPS_MAX];

    uint64_t taken;                /* packets posted since open */
    uint64_t wired;                /* of these, made frames of, if they were to be */
    uint64_t handed;               /* of these, given to UDP, if they were to be */
    uint64_t udp_taken;            /* packets that UDP took since open */
    uint32_t payload_max;
    bool wire_failed;              /* the kernel refused to send the last time */
    bool wire_stuck;               /* it took no more at the last flush */
    struct lli_xdp_out out[LLI_XDP_POST_MAX];
    uint64_t origin[LLI_XDP_POST_MAX]; /* of what UDP took, the number here */
    struct lli_xdp_sender senders[LLI_XDP_GROUPS_MAX];

    uint8_t *wholes;               /* memory of frames of several chunks; NULL: there are none */
    uint32_t whole_bytes;
    uint32_t whole_count;
    uint16_t whole_free[LLI_XDP_WHOLES];

    lli_ns look_at;                /* a neighbour is asked for again; LLI_NEVER: there are no hosts to send to */
    int neighbours;                /* socket to ask by, -1 before the first */
    bool untold;                   /* there is a sender to tell of */

    int epoll;
    bool watched_for_room;

    /* Control operations only. */
    const struct lli_log *log;
    struct lli_ip_interface interface;
    struct lli_xdp_program program;
    enum lli_xdp_mode mode;
    uint8_t mac[LLI_XDP_MAC_BYTES];
    union lli_ip_address own; /* address and port of frames sent */
    struct lli_memory whole_memory;

    /* Counters. */
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t send_errors;
    uint64_t send_waits;
    uint64_t malformed;
    uint64_t foreign;
    uint64_t kernel_drops;
    uint64_t host_detours;
    uint64_t hosts_dead;
    uint64_t drops_told; /* of these, by xdp_drops() */
};

/* ----------------------------------------------------------------------------------------------- xdp_control.c */

int lli_xdp_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
void lli_xdp_close(void *instance);
void lli_xdp_abandon(void *instance);
int lli_xdp_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
void lli_xdp_leave(void *instance, lli_handle handle, enum lli_join_mode mode);

/* Asks for the neighbours that are due. With packets waiting: they go where that says. */
void lli_xdp_hosts_look(struct lli_xdp *xdp);

/* Follows UDP to another address; names the hosts that were found not to answer. */
void lli_xdp_tell(void *instance);

/* Where the search for a group begins in slots. */
uint32_t lli_xdp_group_hash(const union lli_ip_address *group);

/* ------------------------------------------------------------------------------------------------------- xdp.c */

/* Loses the packets of a join to send that still wait. */
void lli_xdp_queue_lose(struct lli_xdp *xdp, lli_handle to);

#endif
