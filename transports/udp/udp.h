/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal interface of the UDP transport.
 *
 *   udp_address.c  addresses as carried in packets
 *   udp_socket.c   control operations: creation and set-up of sockets
 *   udp_follow.c   reactions to interface changes and send failures
 *   udp_offload.c  probes for segmentation (GSO) and receive (GRO) offload
 *   udp.c          data operations and the transport table
 *
 * An instance serves one context on one interface in one address family, that of the host it was opened for.
 * It has a control socket, bound to the interface address, that sends and receives all unicasts; a connected
 * socket for every join to send; and a socket for every group joined to receive.
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
#include "system/memory.h"
#include "transport.h"

enum {
    LLI_UDP_POST_MAX = 256,     /* a power of two: the queue is a ring */
    LLI_UDP_BATCH = 64,         /* messages sent per system call, each a packet or a train */
    LLI_UDP_TRAIN_MAX = 128,    /* packets per train: UDP_MAX_SEGMENTS is 128 since Linux 6.9, 64 before */
    LLI_UDP_BUFFERS = 64,       /* one bit each in lli_udp.free */
    LLI_UDP_BURST = 32,         /* packets received per system call, unless the kernel merges them */
    LLI_UDP_GROUPS_MAX = 256,   /* joins to send; also groups joined to receive */
    LLI_UDP_READY_MAX = 16,     /* readable sockets returned by one epoll_wait() */
    LLI_UDP_UNREACHED_MAX = 16, /* addresses recorded between two calls of report() */
    /* Control messages per packet: a time stamp needs 32 bytes, a segment size 24. */
    LLI_UDP_NOTE_BYTES = 96,
};

/* Handles of joins are indices into senders or groups; handles of peers also have this bit set. */
#define LLI_UDP_PEER ((lli_handle)1 << 31)

/* Receiving socket: the control socket or the socket of a group. */
struct lli_udp_receiver {
    int fd;              /* -1: unused */
    uint32_t users;      /* joins that share the socket */
    lli_handle handle;   /* value of lli_in.from */
    bool bursting;       /* the last call returned packets: receive batches until a call returns none */
    bool merged;         /* the last call returned packets merged by the kernel */
    bool stamped;        /* the kernel time-stamps packets */
    bool noted;          /* control messages are requested */
    bool named;          /* source addresses are requested */
    bool apart;          /* noted or named: recv() is not sufficient */
    uint32_t unchecked;  /* packets since drops_seen was read */
    uint32_t drops_seen; /* the kernel's drop count */
    union lli_ip_address group;
    union lli_ip_address source; /* family 0: any */
};

/* A packet to send. */
struct lli_udp_out {
    const uint8_t *data;
    const union lli_ip_address *to; /* NULL: the socket is connected */
    uint32_t size;
    int fd; /* -1: drop the packet */
};

/* Address to which sending failed, and the error. */
struct lli_udp_unreached {
    struct lli_address address;
    int number; /* errno */
};

/*
 * Buffers [next, end) filled by the last system call and not yet delivered; offset is the position in buffer
 * next.
 */
struct lli_udp_fetched {
    struct lli_udp_receiver *receiver;
    uint32_t next;
    uint32_t end;
    uint32_t offset;
    uint32_t segment;  /* bytes of each packet in buffer next, except the last */
    uint64_t stamp_ns; /* of buffer next */
};

/* Receiving: udp.c; the control operations of udp_socket.c set it up. Most used first. */
struct lli_udp_in {
    uint64_t free; /* bitmap of free receive buffers */
    struct lli_udp_fetched fetched;
    struct lli_memory memory; /* of the buffers */
    size_t stride;            /* distance of two buffers */
    uint32_t buffer_bytes;    /* usable bytes per buffer */
    uint32_t packet_bytes;    /* largest packet of the interface */
    uint32_t size_at;         /* offset of the size field in packets; 0: none */
    uint32_t turn;            /* counts calls of receive() */
    uint32_t polled_count;
    uint16_t polled_next;
    uint16_t polled[LLI_UDP_GROUPS_MAX]; /* compact list of the groups in use */
    struct lli_udp_receiver control;
    struct mmsghdr messages[LLI_UDP_BUFFERS]; /* messages[b] always receives into buffer b */
    struct iovec pieces[LLI_UDP_BUFFERS];
    union lli_ip_address names[LLI_UDP_BUFFERS]; /* source of buffer b, if its receiver is named */
    /* Packets delivered from the buffer, plus 1 while it is in fetched. */
    uint16_t references[LLI_UDP_BUFFERS];
    _Alignas(struct cmsghdr) uint8_t notes[LLI_UDP_BUFFERS][LLI_UDP_NOTE_BYTES];
    bool merges; /* the kernel supports UDP_GRO */
    struct lli_udp_receiver groups[LLI_UDP_GROUPS_MAX];
    struct epoll_event ready[LLI_UDP_READY_MAX];
    uint32_t ready_count;
    uint32_t ready_next;
};

/* Sending: udp.c; udp_offload.c sets the lengths of trains. */
struct lli_udp_out_state {
    uint64_t taken; /* packets posted since open */
    uint64_t done;  /* of these, sent or lost */
    bool stuck;     /* the kernel accepted no more at the last flush */
    uint32_t payload_max;
    uint32_t train_max;   /* packets per train; 1: segmentation offload is off */
    uint32_t train_bytes; /* bytes per train */
    struct lli_udp_out packets[LLI_UDP_POST_MAX];
    struct mmsghdr batch[LLI_UDP_BATCH]; /* messages of one system call */
    uint16_t trains[LLI_UDP_BATCH];      /* packets in each message */
    struct iovec pieces[LLI_UDP_POST_MAX];
    _Alignas(struct cmsghdr) uint8_t notes[LLI_UDP_BATCH][CMSG_SPACE(sizeof(uint16_t))];
    int senders[LLI_UDP_GROUPS_MAX]; /* sockets of the joins to send; -1: unused */
    uint32_t gso_packets;            /* option gso_packets */
    uint32_t train_max_first;        /* train_max when the instance was opened */
};

/* The interface and what cannot be reached over it: udp_follow.c. */
struct lli_udp_link {
    bool gone;        /* the interface was removed; already logged */
    bool addressless; /* the interface has no address of the family; already logged */
    bool fragments;   /* its MTU is too small for the packets: they may be fragmented */
    bool again;       /* following a change failed: retry */
    struct lli_follow follow;
    int error;        /* errno of the latest failed send to a group; 0: none since the interface changed */
    int error_fd;     /* socket of that send */
    int error_logged; /* the latest error logged */
    uint32_t unreached_count;
    struct lli_udp_unreached unreached[LLI_UDP_UNREACHED_MAX];
};

struct lli_udp_counters {
    uint64_t send_errors;
    uint64_t send_waits;
    uint64_t receive_errors;
    uint64_t truncated;
    uint64_t trains;
    uint64_t trains_refused;
    uint64_t interface_changes;
    uint64_t superframes;
    uint64_t kernel_drops;
    uint64_t drops_reported;       /* of these, returned by lli_udp_drops() */
    uint64_t superframes_reported; /* superframes at the latest call of lli_udp_drops() */
};

struct lli_udp {
    struct lli_udp_in in;
    struct lli_udp_out_state out;
    struct lli_peers peers;               /* a handle is LLI_UDP_PEER | its place */
    union lli_ip_address *peer_addresses; /* by place */
    int epoll;
    int watched_fd; /* the socket that epoll watches for writability; -1: none */

    /* Control operations only. */
    const struct lli_log *log;
    sa_family_t family;
    struct lli_ip_interface interface;
    /* True if a user-space stack handles the socket; NULL: no such stack. */
    bool (*bypassed)(const struct lli_udp *udp, int fd);
    struct lli_udp_link link;
    struct {
        bool receive_buffer;
        bool send_buffer;
        bool busy_poll;
    } warned; /* of sizes that the kernel does not grant, once: udp_socket.c */
    struct lli_udp_counters counters;
};

/* ------------------------------------------------------------------------------------------ udp_address.c */

/* Packed address: 4 or 6, the address, the port; address and port in network order. */
void lli_udp_pack(const union lli_ip_address *address, struct lli_address *packed);
int lli_udp_peer(void *instance, const struct lli_address *packed, lli_handle *handle);
void lli_udp_forget(void *instance, const struct lli_address *packed);
void lli_udp_describe(const struct lli_address *packed, char *text, size_t size);

/* ------------------------------------------------------------------------------------------- udp_socket.c */

int lli_udp_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
void lli_udp_close(void *instance);
int lli_udp_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
void lli_udp_region_end(void *instance, void *base, size_t size);
void lli_udp_leave(void *instance, lli_handle handle, enum lli_join_mode mode);
int lli_udp_address(void *instance, struct lli_address *address);
int lli_udp_arm(void *instance);

/* Returns drops since the previous call, as lli_transport.drops. */
uint64_t lli_udp_drops(void *instance);
bool lli_udp_waiting(const void *instance);
/* Updates kernel_drops for one socket. */
void lli_udp_drops_read(struct lli_udp *udp, struct lli_udp_receiver *receiver);

/*
 * Creates a non-blocking, close-on-exec socket of the instance's family. Fails with a code for errno; logs
 * the reason.
 */
int lli_udp_socket(const struct lli_udp *udp, int *fd);

/* Returns the bytes of the IP and UDP headers. */
uint32_t lli_udp_headers(const struct lli_udp *udp);

/* Forbids fragmentation on a socket; permits it while the MTU is too small. */
int lli_udp_whole_packets(const struct lli_udp *udp, int fd);

/* Joins or leaves a receiver's group. Fails with errno. */
int lli_udp_membership(const struct lli_udp *udp, const struct lli_udp_receiver *receiver, bool join);

/* Sets the options of a socket that sends to groups: interface, ttl, loop, no fragmentation. */
int lli_udp_sender_set_up(const struct lli_udp *udp, int fd, const struct llm_options *options);

/* ------------------------------------------------------------------------------------------- udp_follow.c */

/*
 * Adapts to changes of the interface's address and MTU. Logs these, removal of the interface, and failed
 * sends to groups.
 */
void lli_udp_report(void *instance);

/* Records that a packet could not be sent. */
void lli_udp_unreached_note(struct lli_udp *udp, const struct lli_udp_out *out, int number);
bool lli_udp_unreached(void *instance, struct lli_address *address, int *number);

/* ------------------------------------------------------------------------------------------ udp_offload.c */

/*
 * Probes the kernel's offloads: sets merges, train_max and train_bytes. Requires interface and payload_max.
 */
void lli_udp_offload_probe(struct lli_udp *udp, const struct llm_options *options);

/* Repeats the probe for trains: sets train_max only. */
void lli_udp_trains_probe(struct lli_udp *udp);

/* -------------------------------------------------------------------------------------------------- udp.c */

/* Data operations, also used by transports that share these sockets. */
int lli_udp_post(void *instance, const struct lli_out *packets, int count);
int lli_udp_flush(void *instance);
uint64_t lli_udp_reap(void *instance);
int lli_udp_receive(void *instance, struct lli_in *packets, int max);
void lli_udp_release(void *instance, const struct lli_in *packets, int count);
bool lli_udp_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address);

/*
 * Parts of receive(): lli_udp_next() returns the socket to poll next, or NULL; lli_udp_fetch() fills buffers
 * from it (at least one buffer must be free); lli_udp_lend() returns up to max of the fetched packets.
 */
struct lli_udp_receiver *lli_udp_next(struct lli_udp *udp);
void lli_udp_fetch(struct lli_udp *udp, struct lli_udp_receiver *receiver);
int lli_udp_lend(struct lli_udp *udp, struct lli_in *packets, int max);

/*
 * Adds a control message that makes the kernel split a message into packets of the given size; note must have
 * room for a uint16_t.
 */
void lli_udp_segment_note(struct msghdr *header, void *note, uint16_t bytes);

/* Releases fetched packets of a socket that is being closed. */
void lli_udp_fetched_drop(struct lli_udp *udp, const struct lli_udp_receiver *receiver);

#endif
