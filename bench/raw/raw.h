/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare transports: the carriers of the library's packets (the kernel's UDP, verbs, a ring in shared memory),
 * without the library, on the same path. The reference for every figure.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/ip.h"

enum { RAW_BATCH = 32 }; /* maximum datagrams of one send or receive call */

/* A group, parsed from the runner's text. */
struct raw_group {
    const struct raw_scheme *scheme;
    union lli_ip_address address;
    struct lli_ip_interface interface;
    const char *name;      /* of a named group, which has no address and no interface */
    const char *directory; /* directory of a named group */
    unsigned mtu;          /* largest IP packet, from the channel or the interface */
    size_t history_bytes;  /* history of a transmitter on the channel */
    unsigned reader;       /* number of this reader of a named group */
    unsigned readers;      /* number of readers of a named group */
};

/*
 * Parses SCHEME,HOST,PORT,INTERFACE,MTU,HISTORY_BYTES,DIRECTORY[,READER,READERS], which runner/bare.py makes
 * of a channel; 0 means the library's default. Ends the process if the group cannot be used.
 */
void raw_group_of(const char *place, struct raw_group *group);

/* Opens a non-blocking UDP socket that receives from the group. A descriptor, or -1 with errno set. */
int raw_udp_open_receive(const struct raw_group *group);

/* The longest datagram to the group in one packet, for so many bytes of headers above IP. */
size_t raw_datagram_bytes(const struct raw_group *group, size_t headers);

/* One end of a bare transport: it sends to a group, or receives from it. */
struct raw_end {
    const struct raw_scheme *scheme;
    size_t datagram_bytes; /* longest datagram to the group in one packet */
    size_t history_bytes;  /* as in struct raw_group */
    bool many;             /* receive() fetches several datagrams in one call */
};

/* Operations of a bare transport. NULL: not supported. */
struct raw_scheme {
    const char *name;
    bool named;   /* groups are names in shared memory: no address, no interface, no headers */
    size_t bytes; /* size of the end's structure, which begins with struct raw_end */
    /* Returns 0, or -1 with errno set. close() accepts a zeroed or partly opened end. */
    int (*open)(struct raw_end *end, const struct raw_group *group, bool to_send);
    void (*close)(struct raw_end *end);
    /* Sends a datagram. Returns 0; 1 if it was dropped for lack of space; or -1 with errno set. */
    int (*send)(struct raw_end *end, const void *data, size_t size);
    /* The next datagram, valid until the next call; NULL if there is none. */
    const void *(*receive)(struct raw_end *end, size_t *size);
    /* Sends a train, which the kernel splits into datagrams of datagram_bytes. Returns as send() does. */
    int (*send_train)(struct raw_end *end, const void *data, size_t size, size_t datagram_bytes);
    /* Sends each message as a datagram, up to RAW_BATCH in one call. Returns 0, or -1 with errno set. */
    int (*send_each)(struct raw_end *end, const void *data, size_t size, size_t message_bytes);
    /* Enables or disables the reception of whole trains. */
    void (*receive_trains)(struct raw_end *end, bool whole);
};

extern const struct raw_scheme raw_udp;
extern const struct raw_scheme raw_shm;
extern const struct raw_scheme raw_bypass; /* the sockets of UDP, over a stack in place of the kernel's */
extern const struct raw_scheme raw_roce;   /* RDMA verbs: UD queue pairs and multicast */
/*
 * AF_XDP: UDP multicast as frames, written and read in place. IPv4 groups only. The ends of a process share
 * one socket on the first queue of the interface, which the library then cannot use.
 */
extern const struct raw_scheme raw_xdp;

/* Opens an end that sends to a place or receives from it. Ends the process on failure. */
struct raw_end *raw_open(const char *place, bool to_send);
void raw_close(struct raw_end *end); /* NULL: no effect */

/* Maximum bytes of packed messages in a call, with no message across datagrams; 0: messages too long. */
size_t raw_packed_bytes(const struct raw_end *end, size_t message_bytes);

/* Sends packed messages. Returns as send() does. */
int raw_send_packed(struct raw_end *end, const void *data, size_t size, size_t message_bytes);

/*
 * Prepares a receiving end for a blast or packed messages, before the sender starts: discards old datagrams,
 * which would be counted, and enables trains, as one that arrives earlier is not received whole.
 */
void raw_expect(struct raw_end *end, bool trains);

/*
 * Serves a blast request. The sender transmits at full speed for a time, then datagrams of one byte. The
 * receiver reads until one of these arrives, or nothing does for half a second.
 */
struct control;
void raw_serve_blast(const struct control *control, bool sends);

#endif
