/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the UDP transport share.
 *
 *   udp_address.c  addresses as packets carry them
 *   udp_socket.c   control operations: which sockets there are and how they are set up
 *   udp_follow.c   what becomes of them when the interface changes, and what fails
 *   udp_offload.c  whether trains of packets can be sent, and received, as one
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

#include "common/follow.h"
#include "common/ip.h"
#include "common/peers.h"
#include "transport.h"

enum {
    LLI_UDP_POST_MAX = 256,   /* a power of two: the queue is a ring */
    LLI_UDP_BATCH = 64,       /* messages sent by one call, each a packet or a train */
    LLI_UDP_TRAIN_MAX = 128,  /* packets of a train, at most: UDP_MAX_SEGMENTS of Linux since 6.9, 64 before */
    LLI_UDP_BUFFERS = 64,     /* one bit each in lli_udp.free */
    LLI_UDP_BURST = 32,       /* packets fetched by one call, unless they come merged */
    LLI_UDP_GROUPS_MAX = 256, /* joins to send, and again groups joined to receive */
    LLI_UDP_READY_MAX = 16,   /* sockets learned to be readable by one call */
    LLI_UDP_UNREACHED_MAX = 16, /* addresses noted between two looks */
    LLI_UDP_NOTE_BYTES = 96,  /* of control messages per packet: a time stamp needs 32, a segment size 24 */
};

/* Handles of joins are indices into senders or receivers; those of peers have this bit as well. */
#define LLI_UDP_PEER ((lli_handle)1 << 31)

/* A socket that is received from: the control socket or that of a group. */
struct lli_udp_receiver {
    int fd;            /* -1: unused */
    uint32_t users;    /* joins that share it */
    lli_handle handle; /* what lli_in.from says */
    bool bursting;     /* the last call got something: fetch many at a time until one gets nothing */
    bool merged;       /* ... and it was packets that the kernel had merged */
    bool stamped;      /* the kernel stamps its packets */
    bool noted;        /* control messages are asked for with its packets */
    bool named;        /* ... and where they come from */
    bool apart;        /* one of both: a plain recv() does not do */
    uint32_t unchecked;  /* packets since the kernel's count of drops was read */
    uint32_t drops_seen; /* that count */
    union lli_ip_address group;
    union lli_ip_address source; /* family 0: any */
};

/* A packet to send. */
struct lli_udp_out {
    const uint8_t *data;
    const union lli_ip_address *to; /* NULL: the socket is connected */
    uint32_t size;
    int fd;                          /* -1: the packet is lost */
};

/* An address that packets could not be sent to, and why. */
struct lli_udp_unreached {
    struct lli_address address;
    int number; /* errno */
};

/* What the last call to the kernel gave and is not lent yet: buffers [next, end), of the first all before offset is. */
struct lli_udp_fetched {
    struct lli_udp_receiver *receiver;
    uint32_t next;
    uint32_t end;
    uint32_t offset;
    uint32_t segment;  /* bytes of each packet in buffer next, but for the last */
    uint64_t stamp_ns; /* of that buffer */
};

struct lli_udp {
    /* Data path, the hottest first. */
    uint64_t free;                             /* receive buffers that nobody holds, a bit each */
    struct lli_udp_fetched fetched;
    uint8_t *buffers;
    size_t buffer_stride;
    uint32_t buffer_bytes;                     /* of a buffer that packets may fill */
    uint32_t packet_bytes;                     /* of the largest packet of the interface */
    uint32_t size_at;                          /* where packets say how long they are; 0: nowhere */
    uint32_t turn;                             /* counts calls of receive() */
    uint32_t polled_count;
    uint16_t polled_next;
    uint16_t polled[LLI_UDP_GROUPS_MAX];       /* which of groups are in use, without holes */
    struct lli_udp_receiver control;
    struct mmsghdr in[LLI_UDP_BUFFERS];        /* in[b] receives into buffer b, for ever */
    struct iovec in_piece[LLI_UDP_BUFFERS];
    union lli_ip_address names[LLI_UDP_BUFFERS]; /* where a buffer's packets came from, if their receiver is named */
    uint16_t held[LLI_UDP_BUFFERS];            /* packets lent of each buffer, and 1 while it is fetched */
    _Alignas(struct cmsghdr) uint8_t in_note[LLI_UDP_BUFFERS][LLI_UDP_NOTE_BYTES];

    uint64_t taken;                            /* packets posted since open */
    uint64_t done;                             /* of these, sent or lost */
    bool stuck;                                /* the kernel took no more at the last flush */
    uint32_t payload_max;
    uint32_t train_max;                        /* packets of a train; 1: segmentation offload is off */
    uint32_t train_bytes;                      /* of a train */
    struct lli_udp_out out[LLI_UDP_POST_MAX];
    struct mmsghdr batch[LLI_UDP_BATCH];       /* what is handed to the kernel at a time */
    uint16_t batch_train[LLI_UDP_BATCH];       /* packets in each */
    struct iovec batch_piece[LLI_UDP_POST_MAX];
    _Alignas(struct cmsghdr) uint8_t batch_note[LLI_UDP_BATCH][CMSG_SPACE(sizeof(uint16_t))];
    int senders[LLI_UDP_GROUPS_MAX];           /* sockets of the joins to send; -1: unused */

    struct lli_peers peers;             /* a handle is LLI_UDP_PEER | its place */
    union lli_ip_address *peer_addresses; /* by place */
    struct lli_udp_receiver groups[LLI_UDP_GROUPS_MAX];
    struct epoll_event ready[LLI_UDP_READY_MAX];
    uint32_t ready_count;
    uint32_t ready_next;

    int epoll;
    int watched_fd; /* the socket whose room to send epoll waits for; -1: none */

    /* Control operations only. */
    const struct lli_log *log;
    sa_family_t family;
    struct lli_ip_interface interface;
    bool (*bypassed)(const struct lli_udp *udp, int fd); /* whether a stack in the kernel's place has a socket; NULL: none is */
    bool gone;   /* the interface was removed, and that was told */
    bool addressless;  /* it has no address of the family at present, and that was told */
    bool fragments;    /* its MTU is too small for the packets at present: they may be fragmented */
    bool follow_again; /* a change could not be followed, which is tried again */
    struct lli_follow follow;
    uint32_t gso_packets;     /* as the option says */
    uint32_t train_max_first; /* train_max when the instance was opened */
    int group_error;          /* errno of the latest packet to a group that could not be sent, 0: none since the interface changed, */
    int group_error_fd;       /* its socket, */
    int group_error_told;     /* and the one logged */
    uint32_t unreached_count;
    struct lli_udp_unreached unreached[LLI_UDP_UNREACHED_MAX];
    bool merges; /* the kernel merges packets for sockets that ask for it */
    bool warned_receive_buffer;
    bool warned_send_buffer;
    bool warned_busy_poll;

    /* Counters. */
    uint64_t send_errors;
    uint64_t send_waits;
    uint64_t receive_errors;
    uint64_t truncated;
    uint64_t trains;
    uint64_t trains_refused;
    uint64_t interface_changes;
    uint64_t superframes;
    uint64_t kernel_drops;
    uint64_t drops_told;       /* of these, by lli_udp_drops() */
    uint64_t superframes_told; /* when it was called last */
};

/* ---------------------------------------------------------------------------------------------- udp_address.c */

/* Addresses as packets carry them: 4 or 6, the address, the port, both in network order. */
void lli_udp_pack(const union lli_ip_address *address, struct lli_address *packed);
int lli_udp_peer(void *instance, const struct lli_address *packed, lli_handle *handle);
void lli_udp_forget(void *instance, const struct lli_address *packed);
void lli_udp_describe(const struct lli_address *packed, char *text, size_t size);

/* ----------------------------------------------------------------------------------------------- udp_socket.c */

int lli_udp_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
void lli_udp_close(void *instance);
int lli_udp_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
void lli_udp_region_end(void *instance, void *base, size_t size);
void lli_udp_leave(void *instance, lli_handle handle, enum lli_join_mode mode);
int lli_udp_address(void *instance, struct lli_address *address);
int lli_udp_arm(void *instance);

/* Drops since the latest call, as of the contract. */
uint64_t lli_udp_drops(void *instance);
bool lli_udp_waiting(const void *instance);
/* Brings kernel_drops up to date for one socket. */
void lli_udp_drops_read(struct lli_udp *udp, struct lli_udp_receiver *receiver);

/* A socket of the instance's family, neither blocking nor inherited. Fails with errno, says so. */
int lli_udp_socket(const struct lli_udp *udp, int *fd);

/* Bytes of the headers of IP and UDP. */
uint32_t lli_udp_headers(const struct lli_udp *udp);

/* Has the packets of a socket leave whole or not at all; or in fragments, while the MTU is too small. */
int lli_udp_whole_packets(const struct lli_udp *udp, int fd);

/* Joins a receiver's group, or leaves it. Fails with errno. */
int lli_udp_membership(const struct lli_udp *udp, const struct lli_udp_receiver *receiver, bool join);

/* Sets what a socket needs to send to groups: interface, ttl, loop, no fragments. */
int lli_udp_sender_set_up(const struct lli_udp *udp, int fd, const struct llm_options *options);

/* ----------------------------------------------------------------------------------------------- udp_follow.c */

/* Follows the interface to another address or MTU; logs that, that it is gone, and that packets to groups cannot be sent. */
void lli_udp_tell(void *instance);

/* Notes that a packet could not be sent. */
void lli_udp_unreached_note(struct lli_udp *udp, const struct lli_udp_out *out, int number);
bool lli_udp_unreached(void *instance, struct lli_address *address, int *number);

/* ---------------------------------------------------------------------------------------------- udp_offload.c */

/* Finds out what the kernel does for trains: sets merges, train_max and train_bytes. Needs interface and payload_max. */
void lli_udp_offload_probe(struct lli_udp *udp, const struct llm_options *options);

/* The part of trains: sets train_max alone. */
void lli_udp_trains_probe(struct lli_udp *udp);

/* ------------------------------------------------------------------------------------------------------ udp.c */

/* The data operations of the table, for transports that send and receive by the same sockets. */
int lli_udp_post(void *instance, const struct lli_out *packets, int count);
int lli_udp_flush(void *instance);
uint64_t lli_udp_reap(void *instance);
int lli_udp_receive(void *instance, struct lli_in *packets, int max);
void lli_udp_release(void *instance, const struct lli_in *packets, int count);
bool lli_udp_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address);

/* What receive() is made of: the socket to look at next, or NULL; to have the kernel fill buffers from it, of which one at least
   is free; and to lend up to max of the packets that were fetched. */
struct lli_udp_receiver *lli_udp_next(struct lli_udp *udp);
void lli_udp_fetch(struct lli_udp *udp, struct lli_udp_receiver *receiver);
int lli_udp_lend(struct lli_udp *udp, struct lli_in *packets, int max);

/* Has the kernel cut a message into packets of so many bytes; note has room for a uint16_t. */
void lli_udp_segment_note(struct msghdr *header, void *note, uint16_t bytes);

/* Gives back what was fetched from a socket that is closed and is not lent yet. */
void lli_udp_fetched_drop(struct lli_udp *udp, const struct lli_udp_receiver *receiver);

#endif
