/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Last value cache (LVC): the last messages of a topic, stored for late joiners independently of the history,
 * and the queue of requests for them (docs/protocol.md section 12.3).
 *
 * Each topic with an LVC has a ring of equally sized entries, so storing a message is one copy and never runs
 * out of room. A copy has its message's frames as in a packet. A request gets all copies of messages before a
 * given number, topic by topic; it names them by topic and number, not by packets, so displaced messages are
 * simply absent.
 *
 * As in replay.h, each receiver has one entry with one request.
 */
#ifndef LLI_LVC_H
#define LLI_LVC_H

#include <sys/uio.h>

#include "core/base/arena.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

struct lli_pack_attributes;

enum {
    LLI_LVC_PLACES = 1024,     /* receivers served at a time; others retry */
    LLI_LVC_PACKETS_MAX = 256, /* packets that answer one request, at most */
};

/* Topic, in memory of its owner, with its ring. */
struct lli_lvc_topic {
    uint32_t id;
    uint32_t messages;  /* capacity of the ring */
    uint32_t bytes_max; /* of one message with its attributes */
    uint64_t count;     /* messages stored so far */
    uint8_t *ring;      /* lli_lvc_ring_size() bytes, zeroed */
};

/* Request of a receiver. */
struct lli_lvc_request {
    struct lli_wire_address address;
    uint64_t number; /* messages before this one */
    uint64_t most;   /* the last messages of each topic, at most this many */
    uint32_t left;   /* packets that may still be sent */
    uint32_t at;     /* span that is sent next */
    uint32_t count;  /* number of spans */
    struct lli_wire_span spans[LLI_WIRE_SPANS_MAX];
};

struct lli_lvc {
    struct lli_lvc_topic **topics; /* in ascending order of id */
    uint32_t count;
    uint64_t bytes; /* bytes of all rings */
    struct lli_lvc_request *places;
    uint64_t *receivers; /* by entry */
    uint32_t waiting;    /* entries in use, the first ones */
    uint32_t turn;       /* entry whose packet is sent next */
};

/*
 * Places room for topics_max topics and the requests in the arena. A zeroed structure is valid: it stores
 * nothing and serves no receiver.
 */
void lli_lvc_init(struct lli_lvc *lvc, uint32_t topics_max, struct lli_arena *arena);

/* Bytes of a ring for this many messages; UINT64_MAX: overflow. */
uint64_t lli_lvc_ring_size(uint32_t messages, uint32_t bytes_max);

/*
 * Adds a topic, from whose next message on the LVC stores copies. There has to be room, and the topic must be
 * new.
 */
void lli_lvc_add(struct lli_lvc *lvc, struct lli_lvc_topic *topic);

/*
 * Stores a copy of a message just packed, displacing the oldest. attributes may be NULL; together they fit
 * bytes_max.
 */
void lli_lvc_put(struct lli_lvc_topic *topic, uint64_t number, const struct lli_pack_attributes *attributes,
                 const struct iovec *pieces, uint32_t size);

/* Longest attribute frame with which a message can begin in a packet of this size. */
uint32_t lli_lvc_attributes_max(uint32_t packet_size);

/*
 * Queues a receiver's (not 0) request for LVC messages. `end` is beyond all messages that may be sent. False:
 * no free entry.
 */
bool lli_lvc_join(struct lli_lvc *lvc, uint64_t receiver, const struct lli_wire_join *join, uint64_t end);

/*
 * Builds the next packet in size bytes, sets its destination and returns its size. A request has to be
 * waiting. The caller sets session and next of *header; this function sets the other fields.
 */
size_t lli_lvc_next(struct lli_lvc *lvc, struct lli_wire_lvc *header, uint8_t *packet, size_t size,
                    struct lli_wire_address *to);

/* Drops the request at this index and frees its entry. */
void lli_lvc_drop(struct lli_lvc *lvc, uint32_t index);

#endif
