/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messaging without the library: what alone carries its packets (the kernel's UDP, verbs, a ring in shared memory) on the same
 * path, as the measure beside every figure.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct raw_group {
    const struct raw_scheme *scheme; /* NULL: there is none */
    struct sockaddr_storage address;
    socklen_t address_size;
    unsigned interface;     /* its index */
    char name[80];          /* of groups that are named, which have none of these three, */
    char directory[80];     /* and where they are */
    unsigned mtu;           /* largest IP packet, as the channel or the interface says */
    size_t history_bytes;   /* what a transmitter of the channel keeps for repair */
};

/*
 * Finds the group and the interface of a channel; the port, or over RDMA the last byte of the group, is so much further, so
 * that the library's own packets do not come here. Groups are numeric. 0; 1 if the channel's transport has no raw form here; -1
 * if group or interface cannot be used, with the reason in *reason, a static string.
 */
int raw_group_of_channel(const char *channel, uint16_t offset, struct raw_group *group, const char **reason);

/* Bytes before the payload in each packet of a channel, from the IP header on. */
size_t raw_header_bytes(const char *channel);

/* -------------------------------------------------------------------------------------------------- datagrams */

/* Where datagrams of a group are sent, or received. */
struct raw_end {
    const struct raw_scheme *scheme;
    size_t datagram_bytes; /* the most that goes to the group in one packet */
};

enum raw_way {
    RAW_BATCHES, /* of datagrams handed over in one call */
    RAW_TRAINS,  /* of datagrams split by the kernel (UDP_SEGMENT), from one buffer that stays in the caches */
    RAW_KEPT,    /* the same, of messages that were each copied into a ring first, as who is to repair them has to */
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
    const char *prefix;  /* of channels */
    bool named;          /* groups are names in memory: no address, no interface, no headers */
    size_t header_bytes; /* between that of IP and the payload */
    unsigned ways;       /* a bit for each of enum raw_way */
    void (*keep_apart)(struct raw_group *group, uint16_t offset); /* from the library's; NULL: by the port */
    struct raw_end *(*open)(const struct raw_group *group, bool to_send);
    void (*close)(struct raw_end *end);
    int (*send)(struct raw_end *end, const void *data, size_t size);
    const void *(*receive)(struct raw_end *end, size_t *size);
    bool (*is_readable)(struct raw_end *end);
    /* Sends a train, split into datagrams of so many bytes, as raw_send() sends one. NULL: there are no trains. */
    int (*send_train)(struct raw_end *end, const void *data, size_t size, size_t datagram_bytes);
    size_t (*train_bytes)(size_t datagram_bytes); /* the longest one */
    /* Sends messages of so many bytes as a datagram each, in one call. Has receive() take as many datagrams in a call as it can, from now
     * on. NULL: there are no such calls. */
    int (*send_each)(struct raw_end *end, const void *data, size_t size, size_t message_bytes);
    void (*receive_many)(struct raw_end *end);
    /* A blast: what it needs, the next batch of it, and what can be given back after it. 0, or -1 with errno set. NULL, but not
     * of the next batch: nothing is to be done. */
    int (*blast_begin)(struct raw_end *end, const struct raw_load *load);
    int (*blast_next)(struct raw_end *end, const struct raw_load *load);
    void (*blast_end)(struct raw_end *end);
    /* The other side of it: gets ready, NULL as before; takes a batch of datagrams, returns how many there were, and sets *over if
     * one of them ends the blast. */
    int (*blast_expect)(struct raw_end *end, bool segmented);
    int (*blast_take)(struct raw_end *end, struct raw_blast_result *result, bool *over);
};

extern const struct raw_scheme raw_udp;
extern const struct raw_scheme raw_shm;
extern const struct raw_scheme raw_bypass; /* the same sockets, over a stack in the kernel's place */

/* Opens an end that sends to the group of a channel, 100 ports further, or one that receives from it. NULL with errno set. Ends the
 * process if the channel cannot be measured bare. */
struct raw_end *raw_open_channel(const char *channel, bool to_send);
void raw_close(struct raw_end *end); /* NULL: nothing is done */

/* Sends a datagram. 0; 1 if there is no room for it now, and it is dropped; or -1 with errno set. */
static inline int raw_send(struct raw_end *end, const void *data, size_t size)
{
    return end->scheme->send(end, data, size);
}

/*
 * The most that one call takes of messages that are packed into datagrams, none of them in two; 0 if there is no such
 * call, or they are too long.
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

/* Takes what an earlier measurement left: it must not come into the next one. */
void raw_drain(struct raw_end *end);

/* ------------------------------------------------------------------------------------------------------ blast */

static inline bool raw_has_way(const struct raw_end *end, enum raw_way way)
{
    return end->scheme->ways & 1u << way;
}

/*
 * Sends datagrams as fast as they are taken, for a time, then the datagrams of one byte that say that it is over. 0, or -1 with
 * errno set.
 */
int raw_blast_send(struct raw_end *end, const struct raw_load *load);

/* Makes an end ready for a blast before the sender is told to begin: what is left of the one before would be taken for it, and a
 * train that comes earlier is not taken whole. 0, or -1 with errno set. */
int raw_blast_expect(struct raw_end *end, bool segmented);

/* Receives the blast until it is over, or nothing has come for half a second. */
struct raw_blast_result raw_blast_receive(struct raw_end *end);

/* Serves a request of the runner: a blast on a channel, sent or received. */
struct control;
void raw_serve_blast(const struct control *control, bool sends);

#endif
