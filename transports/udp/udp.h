/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the UDP transport share.
 *
 *   udp_address.c  hosts and interfaces by name, addresses as packets carry them, the table of peers
 *   udp_socket.c   control operations: which sockets there are and how they are set up
 *   udp.c          data operations, and the transport's table
 *
 * One instance is one context's use of one interface in one address family, the family of the host it was opened for. It has
 * a control socket, bound to the interface's own address, which sends and receives all unicasts; a connected socket for
 * every join to send; and a socket for every group joined to receive.
 */
#ifndef LLI_UDP_H
#define LLI_UDP_H

#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "transport.h"

enum {
    LLI_UDP_POST_MAX = 64,    /* a power of two: the queue is a ring */
    LLI_UDP_BUFFERS = 64,     /* one bit each in lli_udp.free */
    LLI_UDP_BURST = 32,       /* packets fetched by one call */
    LLI_UDP_GROUPS_MAX = 256, /* joins to send, and again groups joined to receive */
    LLI_UDP_READY_MAX = 16,   /* sockets learned to be readable by one call */
    LLI_UDP_NOTE_BYTES = 64,  /* of control messages per packet: one time stamp needs 32 */
    LLI_UDP_TEXT_MAX = 64,    /* of an address and port in words */
};

/* Handles of joins are indices into senders or receivers; those of peers have this bit as well. */
#define LLI_UDP_PEER ((lli_handle)1 << 31)

union lli_udp_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct lli_udp_interface {
    char name[IF_NAMESIZE];
    int index;
    uint32_t mtu;
    unsigned flags;                  /* IFF_... */
    union lli_udp_address address;   /* with port 0 */
    union lli_udp_address broadcast; /* family 0 if it has none */
};

/* The addresses that peer() was asked about; a handle is LLI_UDP_PEER | its place in addresses. */
struct lli_udp_peers {
    union lli_udp_address *addresses;
    uint32_t *slots; /* hash table of places, plus 1; 0: empty */
    uint32_t slot_mask;
    uint32_t count;
    uint32_t max;
    uint64_t seed; /* addresses come from the network: nobody shall know which of them collide */
};

/* A socket that is received from: the control socket or that of a group. */
struct lli_udp_receiver {
    int fd;            /* -1: unused */
    uint32_t users;    /* joins that share it */
    lli_handle handle; /* what lli_in.from says */
    bool bursting;     /* the last call got something: fetch many at a time until one gets nothing */
    bool stamped;      /* the kernel stamps its packets */
    uint32_t unchecked;  /* packets since the kernel's count of drops was read */
    uint32_t drops_seen; /* that count */
    union lli_udp_address group;
    union lli_udp_address source; /* family 0: any */
};

struct lli_udp {
    /* Data path, the hottest first. */
    uint64_t free;                             /* receive buffers that are not lent, a bit each */
    uint8_t *buffers;
    size_t buffer_stride;
    uint32_t buffer_bytes;                     /* of a buffer that packets may fill */
    uint32_t turn;                             /* counts calls of receive() */
    uint32_t polled_count;
    uint16_t polled_next;
    uint16_t polled[LLI_UDP_GROUPS_MAX];       /* which of groups are in use, without holes */
    struct lli_udp_receiver control;
    struct mmsghdr in[LLI_UDP_BUFFERS];        /* in[b] receives into buffer b, for ever */
    struct iovec in_piece[LLI_UDP_BUFFERS];
    _Alignas(struct cmsghdr) uint8_t in_note[LLI_UDP_BUFFERS][LLI_UDP_NOTE_BYTES];

    uint64_t taken;                            /* packets posted since open */
    uint64_t done;                             /* of these, sent or lost */
    bool stuck;                                /* the kernel took no more at the last flush */
    uint32_t payload_max;
    int out_fd[LLI_UDP_POST_MAX];              /* the socket to send from; -1: the packet is lost */
    struct mmsghdr out[LLI_UDP_POST_MAX];
    struct iovec out_piece[LLI_UDP_POST_MAX];
    int senders[LLI_UDP_GROUPS_MAX];           /* sockets of the joins to send; -1: unused */

    struct lli_udp_peers peers;
    struct lli_udp_receiver groups[LLI_UDP_GROUPS_MAX];
    struct epoll_event ready[LLI_UDP_READY_MAX];
    uint32_t ready_count;
    uint32_t ready_next;

    int epoll;
    int watched_fd; /* the socket whose room to send epoll waits for; -1: none */

    /* Control operations only. */
    const struct lli_log *log;
    sa_family_t family;
    struct lli_udp_interface interface;
    bool warned_receive_buffer;
    bool warned_send_buffer;
    bool warned_busy_poll;

    /* Counters. */
    uint64_t send_errors;
    uint64_t send_waits;
    uint64_t receive_errors;
    uint64_t truncated;
    uint64_t kernel_drops;
};

/* ---------------------------------------------------------------------------------------------- udp_address.c */

bool lli_udp_multicast(const union lli_udp_address *address);
bool lli_udp_same(const union lli_udp_address *a, const union lli_udp_address *b);
socklen_t lli_udp_length(const union lli_udp_address *address);
void lli_udp_port_set(union lli_udp_address *address, uint16_t port);

/* "239.192.1.1:5001" or "[ff15::1]:5001", for people. Returns text. */
const char *lli_udp_text(const union lli_udp_address *address, char text[LLI_UDP_TEXT_MAX]);

/* The address of a host, by number or by name; family AF_UNSPEC takes any. Fails with error, and says what it is for. */
int lli_udp_resolve(const struct lli_log *log, int error, const char *what, const char *host, sa_family_t family,
                    union lli_udp_address *address);

/*
 * The interface to reach a group by: the one that wanted names or gives an address of; if that is empty, the one of the
 * route to the group; else the first that is up and does multicast; else the loopback. LLM_EINTERFACE, LLM_ESYSTEM.
 */
int lli_udp_interface_find(const struct lli_log *log, const char *wanted, const union lli_udp_address *group,
                           struct lli_udp_interface *interface);

/* Addresses as packets carry them: 4 or 6, the address, the port, both in network order. */
void lli_udp_pack(const union lli_udp_address *address, struct lli_address *packed);

int lli_udp_peers_init(struct lli_udp_peers *peers, uint32_t max);
void lli_udp_peers_fini(struct lli_udp_peers *peers);
int lli_udp_peer(void *instance, const struct lli_address *packed, lli_handle *handle);

/* ----------------------------------------------------------------------------------------------- udp_socket.c */

int lli_udp_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
void lli_udp_close(void *instance);
int lli_udp_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
void lli_udp_leave(void *instance, lli_handle handle, enum lli_join_mode mode);
int lli_udp_address(void *instance, struct lli_address *address);
int lli_udp_arm(void *instance);

/* Brings kernel_drops up to date for one socket. */
void lli_udp_drops_read(struct lli_udp *udp, struct lli_udp_receiver *receiver);

#endif
