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

/* A group as the runner names it. */
struct raw_group {
    const struct raw_scheme *scheme;
    struct sockaddr_storage address;
    socklen_t address_size;
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

/* ---------------------------------------------------------------------------------------------- datagrams */

/* Where datagrams of a group are sent, or received. */
struct raw_end {
    const struct raw_scheme *scheme;
    size_t datagram_bytes; /* the most that goes to the group in one packet */
};

enum raw_way {
    RAW_BATCHES, /* of datagrams handed over in one call */
    /* Of datagrams split by the kernel (UDP_SEGMENT), from one buffer that stays in the caches. */
    RAW_TRAINS,
    /* The same, of messages that were each copied into a ring first, as who is to repair them has to. */
    RAW_KEPT,
    RAW_WAYS
};

struct raw_load {
    enum raw_way way;
    size_t message_bytes; /* of RAW_KEPT, as the next */
    size_t ring_bytes;
    uint64_t duration_ns;
};

struct raw_blast_result {
    uint64_t bytes; /* of datagrams received */
    uint64_t ns;    /* from the first to the last */
};

/* One way to carry datagrams. The functions do what those below say that call them. */
struct raw_scheme {
    const char *name;
    bool named;    /* groups are names in memory: no address, no interface, no headers */
    unsigned ways; /* a bit for each of enum raw_way */
    size_t bytes;  /* of an end, which begins with struct raw_end */
    /* 0, or -1 with errno set. close() accepts what open() left half open, all else zero. */
    int (*open)(struct raw_end *end, const struct raw_group *group, bool to_send);
    void (*close)(struct raw_end *end);
    int (*send)(struct raw_end *end, const void *data, size_t size);
    const void *(*receive)(struct raw_end *end, size_t *size);
    bool (*is_readable)(struct raw_end *end);
    /*
     * Sends a train, split into datagrams of so many bytes, as raw_send() sends one. NULL: there are no
     * trains.
     */
    int (*send_train)(struct raw_end *end, const void *data, size_t size, size_t datagram_bytes);
    size_t (*train_bytes)(size_t datagram_bytes); /* the longest one */
    /* Sends messages of so many bytes as a datagram each, in one call. Has receive() take as many datagrams in a call as it can, from now
     * on. NULL: there are no such calls. */
    int (*send_each)(struct raw_end *end, const void *data, size_t size, size_t message_bytes);
    void (*receive_many)(struct raw_end *end);
    /*
     * Sends the next batch of a blast. 0, or -1 with errno set. NULL: it is sent by send_each(), or as
     * trains.
     */
    int (*blast_next)(struct raw_end *end);
    int (*blast_expect)(struct raw_end *end, bool segmented); /* NULL: there is nothing to get ready for */
};

extern const struct raw_scheme raw_udp;
extern const struct raw_scheme raw_shm;
extern const struct raw_scheme raw_bypass; /* the same sockets, over a stack in the kernel's place */
extern const struct raw_scheme raw_roce;   /* RDMA verbs: UD queue pairs and multicast */
/* AF_XDP: UDP multicast as frames, written and read in place. IPv4 groups only. The ends of a process share one socket, on the first queue
 * of the interface, which the library cannot have then. */
extern const struct raw_scheme raw_xdp;

/* A socket of UDP that receives from the group without waiting. A descriptor, or -1 with errno set. */
int raw_udp_open_receive(const struct raw_group *group);

/* The longest datagram of UDP that goes to the group in one packet. */
size_t raw_udp_datagram_bytes(const struct raw_group *group);

/* Opens an end that sends to a place, or one that receives from it. NULL with errno set. */
struct raw_end *raw_open(const char *place, bool to_send);
void raw_close(struct raw_end *end); /* NULL: nothing is done */

/* Sends a datagram. 0; 1 if there is no room for it now, and it is dropped; or -1 with errno set. */
static inline int raw_send(struct raw_end *end, const void *data, size_t size)
{
    return end->scheme->send(end, data, size);
}

/*
 * The most that one call takes of messages that are packed into datagrams, none of them in two; 0 if there is
 * no such call, or they are too long.
 */
size_t raw_packed_bytes(const struct raw_end *end, size_t message_bytes);

/* Sends them, as raw_send() sends a datagram. */
int raw_send_packed(struct raw_end *end, const void *data, size_t size, size_t message_bytes);

/* The next datagram, valid until the next call; NULL if there is none. */
static inline const void *raw_receive(struct raw_end *end, size_t *size)
{
    return end->scheme->receive(end, size);
}

/* True if raw_receive() has something to give. */
static inline bool raw_is_readable(struct raw_end *end)
{
    return end->scheme->is_readable(end);
}

/* Makes an end ready for a blast, or packed messages, before the sender is told to begin: what is left of the one before would be taken
 * for it, and a train that comes earlier is not taken whole. 0, or -1 with errno set. */
int raw_blast_expect(struct raw_end *end, bool segmented);

/* Serves a request of the runner: a blast, which is sent as fast as datagrams are taken, for a time, and ends with datagrams of one byte, or
 * received until it is over, or nothing has come for half a second. */
struct control;
void raw_serve_blast(const struct control *control, bool sends);

#endif
