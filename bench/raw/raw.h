/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messaging without the library: what alone carries its packets (the kernel's UDP, verbs, a ring in shared
 * memory) on the same path, as the measure beside every figure.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/ip.h"

enum { RAW_BATCH = 32 }; /* datagrams that are sent or received in one call, at most */

/* A group as the runner names it. */
struct raw_group {
    const struct raw_scheme *scheme;
    union lli_ip_address address;
    struct lli_ip_interface interface;
    const char *name;      /* of groups that are named, which have none of these, */
    const char *directory; /* and where they are */
    unsigned mtu;          /* largest IP packet, as the channel or the interface says */
    size_t history_bytes;  /* what a transmitter of the channel keeps for repair */
};

/*
 * Takes SCHEME,HOST,PORT,INTERFACE,MTU,HISTORY_BYTES,DIRECTORY apart, which runner/bare.py makes of a
 * channel; 0: what the library would have. Ends the process if it cannot be used.
 */
void raw_group_of(const char *place, struct raw_group *group);

/* A socket of UDP that receives from the group without waiting. A descriptor, or -1 with errno set. */
int raw_udp_open_receive(const struct raw_group *group);

/* The longest datagram that goes to the group in one packet, with so many bytes of headers above IP. */
size_t raw_datagram_bytes(const struct raw_group *group, size_t headers);

/* Where datagrams of a group are sent, or received. */
struct raw_end {
    const struct raw_scheme *scheme;
    size_t datagram_bytes; /* the most that goes to the group in one packet */
    size_t history_bytes;  /* of the group */
    bool many;             /* receive() takes as many datagrams in a call as it can */
};

/* One way to carry datagrams. NULL: there is no such call. */
struct raw_scheme {
    const char *name;
    bool named;   /* groups are names in memory: no address, no interface, no headers */
    size_t bytes; /* of an end, which begins with struct raw_end */
    /* 0, or -1 with errno set. close() accepts what open() left half open, all else zero. */
    int (*open)(struct raw_end *end, const struct raw_group *group, bool to_send);
    void (*close)(struct raw_end *end);
    /* Sends a datagram. 0; 1 if there is no room for it now, and it is dropped; or -1 with errno set. */
    int (*send)(struct raw_end *end, const void *data, size_t size);
    /* The next datagram, valid until the next call; NULL if there is none. */
    const void *(*receive)(struct raw_end *end, size_t *size);
    /* Sends a train, split into datagrams of so many bytes by the kernel, as send() sends a datagram. */
    int (*send_train)(struct raw_end *end, const void *data, size_t size, size_t datagram_bytes);
    /* Sends messages of so many bytes as a datagram each, RAW_BATCH at most, in one call. 0, or -1 with errno set. */
    int (*send_each)(struct raw_end *end, const void *data, size_t size, size_t message_bytes);
    /* Trains are taken whole from now on, or no more. */
    void (*receive_trains)(struct raw_end *end, bool whole);
};

extern const struct raw_scheme raw_udp;
extern const struct raw_scheme raw_shm;
extern const struct raw_scheme raw_bypass; /* the same sockets as UDP, over a stack in the kernel's place */
extern const struct raw_scheme raw_roce;   /* RDMA verbs: UD queue pairs and multicast */
/*
 * AF_XDP: UDP multicast as frames, written and read in place. IPv4 groups only. The ends of a process share
 * one socket, on the first queue of the interface, which the library cannot have then.
 */
extern const struct raw_scheme raw_xdp;

/* Opens an end that sends to a place, or one that receives from it. Ends the process if it cannot. */
struct raw_end *raw_open(const char *place, bool to_send);
void raw_close(struct raw_end *end); /* NULL: nothing is done */

/* The most bytes of packed messages that one call takes, none in two datagrams; 0: they are too long. */
size_t raw_packed_bytes(const struct raw_end *end, size_t message_bytes);

/* Sends them, as send() sends a datagram. */
int raw_send_packed(struct raw_end *end, const void *data, size_t size, size_t message_bytes);

/*
 * Makes an end ready for a blast, or packed messages, before the sender is told to begin: what is left of the
 * one before would be taken for it, and a train that comes earlier is not taken whole.
 */
void raw_expect(struct raw_end *end, bool trains);

/*
 * Serves a request of the runner: a blast, which is sent as fast as datagrams are taken, for a time, and ends
 * with datagrams of one byte, or received until it is over, or nothing has come for half a second.
 */
struct control;
void raw_serve_blast(const struct control *control, bool sends);

#endif
