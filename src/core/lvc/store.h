/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last messages of topics, kept for those who join late whatever becomes of the history, and who waits for them
 * (docs/protocol.md section 12.3).
 *
 * Each topic that keeps messages has a ring of places for copies, of one size, so that storing one is a copy and nothing is ever short
 * of room. A copy has the frames of its message as a packet would. Who asks is given all copies of messages before a number, from topic
 * to topic: what it asks for is named by topic and number, not by packets, so what was displaced meanwhile is simply not there any more.
 *
 * As in replay.h each receiver has one place, and one request.
 */
#ifndef LLI_LVC_H
#define LLI_LVC_H

#include <sys/uio.h>

#include "core/base/arena.h"
#include "core/pack/pack.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

enum {
    LLI_LVC_PLACES = 1024,     /* receivers served at a time; others ask again */
    LLI_LVC_PACKETS_MAX = 256, /* packets that one request is answered by, at most */
};

/* A topic, in memory of whoever opened it, and its ring. */
struct lli_lvc_topic {
    uint32_t id;
    uint32_t messages;  /* that are kept */
    uint32_t bytes_max; /* of one, with its attributes */
    uint64_t count;     /* that ever were */
    uint8_t *ring;      /* lli_lvc_ring_size() bytes, zeroed */
};

/* What a receiver asks for. */
struct lli_lvc_request {
    struct lli_wire_address address;
    uint64_t number; /* messages before this one */
    uint64_t most;   /* the last so many of each topic */
    uint32_t left;   /* packets that may still go */
    uint32_t at;     /* the span that goes next */
    uint32_t count;  /* of spans */
    struct lli_wire_span spans[LLI_WIRE_SPANS_MAX];
};

struct lli_lvc {
    struct lli_lvc_topic **topics; /* by id, the least first */
    uint32_t count;
    uint64_t bytes;   /* of all rings */
    struct lli_lvc_request *places;
    uint64_t *receivers; /* by place */
    uint32_t waiting; /* places in use, the first ones */
    uint32_t turn;    /* whose packet goes next */
};

/* Places for so many topics in the arena. Until then, all zero, nothing is kept and nobody served. */
void lli_lvc_init(struct lli_lvc *lvc, uint32_t topics_max, struct lli_arena *arena);

/* Bytes of the ring of a topic that keeps so many messages; UINT64_MAX: beyond counting. */
uint64_t lli_lvc_ring_size(uint32_t messages, uint32_t bytes_max);

/* Messages of a topic are kept from now on. There is room for it, and it was not added before. */
void lli_lvc_add(struct lli_lvc *lvc, struct lli_lvc_topic *topic);

/* A message of a topic was packed: a copy displaces the oldest one. attributes may be NULL; together they are not too long. */
void lli_lvc_put(struct lli_lvc_topic *topic, uint64_t number, const struct lli_pack_attributes *attributes,
                  const struct iovec *pieces, uint32_t size);

/* The longest frame of attributes with which a message can begin in a packet of this size. */
uint32_t lli_lvc_attributes_max(uint32_t packet_size);

/* A receiver (not 0) asks for kept messages; `end` is beyond any that may be given. False if there is no place for it. */
bool lli_lvc_ask(struct lli_lvc *lvc, uint64_t receiver, const struct lli_wire_join *join, uint64_t end);

/*
 * Builds the next packet that somebody waits for in size bytes, and says where it goes; returns how many it takes. Somebody has to
 * be waiting. Of *kept session and next are the caller's, the others are written.
 */
size_t lli_lvc_next(struct lli_lvc *lvc, struct lli_wire_lvc *kept, uint8_t *packet, size_t size, struct lli_wire_address *to);

/* The receiver at this place is not served any more; its place is free. */
void lli_lvc_drop(struct lli_lvc *lvc, uint32_t index);

#endif
