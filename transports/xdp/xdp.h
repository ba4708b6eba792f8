/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal interface of the AF_XDP transport.
 *
 *   xdp_frame.c      encoding and decoding of frames
 *   xdp_program.c    XDP program that redirects frames of the joined groups
 *   xdp_socket.c     AF_XDP sockets, their memory and rings
 *   xdp_neighbour.c  MAC addresses of hosts, from the kernel's neighbour table
 *   xdp_group.c      joins: groups to receive, groups and hosts to send to
 *   xdp_control.c    opening and closing
 *   xdp.c            data operations and the transport table
 *
 * An instance has exclusive use of one interface, in one address family: its XDP program, and an AF_XDP
 * socket for every queue assigned to it. The first socket also sends.
 *
 * Each instance contains a UDP instance on the same interface for everything not done by frames. It has the
 * group memberships, so that hosts and switches forward the groups. It sends unicasts to peers, and packets
 * to a unicast host group while the kernel resolves its neighbour. For groups that the instance itself has
 * joined, it sends a copy to this host, with a TTL of 0, so that the copy does not leave it. It receives
 * packets that the program passes to the kernel. Addresses and peers are those of UDP, so hosts with udp://
 * and xdp:// interoperate.
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
    LLI_XDP_GROUPS_MAX = 256,  /* joins to send; also groups joined to receive */
    LLI_XDP_GROUP_SLOTS = 512, /* a power of two; half of the slots stay empty */
    LLI_XDP_QUEUES_MAX = 64,
    LLI_XDP_PIECES_MAX = 16, /* chunks per frame */
    LLI_XDP_WHOLES = 128,    /* reassembled frames not yet released */
};

/* Join to send; its handle in UDP is also its index here. */
struct lli_xdp_sender {
    struct lli_xdp_header header;
    bool open;
    bool wire;     /* send packets as frames */
    bool loop;     /* option loop: deliver to receivers on this host */
    bool loops;    /* also give packets to UDP */
    bool host;     /* a unicast host: packets go to UDP unless its neighbour is known */
    bool nudge;    /* give the next packet to UDP, so that the kernel probes a stale neighbour */
    bool dead;     /* the neighbour did not answer, and no frame was sent to it since */
    bool unlogged; /* not logged yet */
    uint8_t ttl;
    lli_ns look_at; /* time of the next neighbour lookup */
    union lli_ip_address group;
};

/* Group joined to receive; indexed like the senders. */
struct lli_xdp_group {
    union lli_ip_address group;
    union lli_ip_address source; /* family 0: any */
    uint32_t users;              /* joins that share the group; 0: unused */
};

/* A packet to send. */
struct lli_xdp_out {
    const uint8_t *data;
    uint32_t size;
    lli_handle to;
    bool lost;
    bool kernel; /* give it to UDP, in addition to or instead of a frame */
};

/* clang-format off */
#define LLI_XDP_OPTIONS(X)                                                                                                       \
    X(str, INSTANCE, xdp_mode, "auto", 0, 8, "native (in the driver), generic (for every driver), or auto, native if it can")    \
    X(str, INSTANCE, xdp_zero_copy, "auto", 0, 8, "off, on (only with it), or auto, where the driver has it")                    \
    X(str, INSTANCE, xdp_queue, "all", 0, 16, "queues of the interface that frames are taken from: all, or the number of one")
/* clang-format on */

struct lli_xdp_options {
    LLI_XDP_OPTIONS(LLI_OPTION_FIELD)
};

extern const struct lli_option_table lli_xdp_option_table;

/*
 * Sending: xdp.c; lli_xdp_open() sets payload_max. Each packet is processed for sending as a frame first,
 * then for sending by UDP.
 */
struct lli_xdp_out_queue {
    uint64_t taken;     /* packets posted since open */
    uint64_t wired;     /* of these, processed for sending as frames */
    uint64_t handed;    /* of these, processed for sending by UDP */
    uint64_t udp_taken; /* packets accepted by UDP since open */
    uint32_t payload_max;
    bool wire_failed; /* the latest send was refused */
    bool wire_stuck;  /* the kernel accepted no more at the latest flush */
    struct lli_xdp_out packets[LLI_XDP_POST_MAX];
    uint64_t origin[LLI_XDP_POST_MAX]; /* packet number here of each packet given to UDP */
};

/* Receiving: xdp.c; lli_xdp_open() creates the memory. */
struct lli_xdp_in {
    uint32_t socket_next; /* socket to poll first */
    uint32_t turn;        /* counts calls of receive() */
    bool kernel_due;      /* the next receive() polls UDP */
    uint8_t *wholes;      /* memory for reassembled frames; NULL: frames fit into one chunk */
    uint32_t whole_bytes;
    uint32_t whole_count;
    uint16_t whole_free[LLI_XDP_WHOLES];
    struct lli_memory whole_memory;
};

/* Groups joined to receive: xdp_group.c. */
struct lli_xdp_groups {
    uint16_t slots[LLI_XDP_GROUP_SLOTS]; /* hash table of index + 1 in the table; 0: empty */
    struct lli_xdp_group table[LLI_XDP_GROUPS_MAX];
};

/* Joins to send, and neighbour lookups of unicast hosts: xdp_group.c; xdp.c clears `nudge` of a sender. */
struct lli_xdp_senders {
    lli_ns look_at;    /* earliest neighbour lookup of all senders; LLI_NEVER: no unicast hosts */
    int neighbours;    /* netlink socket for lookups; -1: not open yet */
    bool unlogged_any; /* some sender has unlogged set */
    struct lli_xdp_sender table[LLI_XDP_GROUPS_MAX];
};

/* The interface, and what frames contain of it: xdp_control.c. */
struct lli_xdp_link {
    struct lli_ip_interface interface;
    uint8_t mac[LLI_XDP_MAC_BYTES];
    union lli_ip_address own; /* source address and port of frames */
};

/* Counters of xdp.c; xdp_group.c counts hosts_dead. */
struct lli_xdp_counters {
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t send_errors;
    uint64_t send_waits;
    uint64_t malformed;
    uint64_t foreign;
    uint64_t kernel_drops;
    uint64_t host_detours;
    uint64_t hosts_dead;
    uint64_t drops_reported; /* kernel_drops at the latest call of xdp_drops() */
};

/* The file named at each group writes it; others read it. */
struct lli_xdp {
    struct lli_xdp_socket *sockets;
    uint32_t socket_count;
    sa_family_t family;
    const struct lli_transport *udp;
    void *udp_instance;
    struct lli_xdp_in in;
    struct lli_xdp_groups groups;
    struct lli_xdp_out_queue out;
    struct lli_xdp_senders senders;
    struct {
        int epoll;     /* for the caller's sleep: the sockets, and UDP's */
        bool for_room; /* epoll reports when the first socket accepts frames again: xdp.c */
    } sleep;
    struct lli_xdp_counters counters;

    /* Control operations only. */
    const struct lli_log *log;
    struct lli_xdp_link link;
    struct lli_xdp_program program;
    enum lli_xdp_mode mode;
};

/* ------------------------------------------------------------------------------------------ xdp_control.c */

int lli_xdp_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
void lli_xdp_close(void *instance);
void lli_xdp_abandon(void *instance);

/* Reads the source address and port of frames: those at which this host receives unicasts. */
int lli_xdp_own_address(struct lli_xdp *xdp);

/* -------------------------------------------------------------------------------------------- xdp_group.c */

int lli_xdp_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
void lli_xdp_leave(void *instance, lli_handle handle, enum lli_join_mode mode);

/* Looks up neighbours that are due. Called when packets are queued, because it decides how they are sent. */
void lli_xdp_hosts_look(struct lli_xdp *xdp);

/* Adopts a changed address of UDP; logs hosts that do not answer. */
void lli_xdp_report(void *instance);

/* Returns the slot at which the search for a group starts. */
uint32_t lli_xdp_group_hash(const union lli_ip_address *group);

/* -------------------------------------------------------------------------------------------------- xdp.c */

/* Drops queued packets of a join to send. */
void lli_xdp_queue_lose(struct lli_xdp *xdp, lli_handle to);

#endif
