/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the packets of a session in order and gives the messages in them: those that lie in one packet as they lie there,
 * those that span packets from a buffer where they are put together (docs/protocol.md section 3).
 */
#ifndef LLI_UNPACK_H
#define LLI_UNPACK_H

#include <llm/llm.h>

#include "core/base/types.h"
#include "core/wire/wire.h"

enum lli_unpack_kind {
    LLI_UNPACK_NONE = 0, /* the packet holds nothing more */
    LLI_UNPACK_ANNOUNCE, /* bytes: name; topic: id */
    LLI_UNPACK_LOST,     /* messages first to last are lost; may be empty, last + 1 == first */
    LLI_UNPACK_TOO_LONG, /* message number `first` is longer than the buffer */
};

struct lli_unpacked {
    enum lli_unpack_kind kind;
    uint32_t topic;
    uint32_t size;
    const uint8_t *data;
    uint64_t number; /* of the message; first, where messages are lost */
    uint64_t last;
};

struct lli_unpack {
    const uint8_t *at; /* in the current packet */
    const uint8_t *end;
    uint64_t number;   /* of the next message to start */
    uint32_t topic;    /* of the next message */
    bool broken;       /* packets were lost, or this packet contradicts the one before: go on at its first frame */
    bool assembling;   /* message number - 1 is incomplete */
    bool too_long;     /* it does not fit into the buffer: only its end is looked for */
    bool passing;      /* message number - 1 is not wanted, and may go on at the start of the next packet */
    uint32_t resume;   /* while broken: the number in the current packet's header */
    uint64_t number_max; /* while broken: a packet with a higher number in its header is malformed */
    bool given;        /* a message that was put together was given from the current packet: its bytes are in use */
    uint32_t start;    /* where in the buffer it is put together */
    uint32_t total;    /* its size */
    uint32_t have;
    uint32_t assembled_topic;
    uint8_t *buffer;
    uint32_t buffer_size;
    uint64_t malformed; /* counts packets that contradict themselves or the one before */
};

/* No packet has more messages: each takes a byte. */
#define LLI_UNPACK_PACKET_MESSAGES ((uint64_t)65536)

/* buffer: for messages that span packets; longer ones are reported as too long. */
void lli_unpack_init(struct lli_unpack *unpack, uint8_t *buffer, uint32_t buffer_size);

/* Starts over; the next message to start has this number, as far as is known. */
void lli_unpack_reset(struct lli_unpack *unpack, uint64_t number);

/*
 * Packets between the last one, which must be exhausted, and the next were lost, or the next one is the first: go on at its
 * first frame. Its number may be as much higher than the next message's as one packet explains: lli_unpack_allow() allows for more.
 */
void lli_unpack_break(struct lli_unpack *unpack);

/* After lli_unpack_break(): so many packets more are missing before the next one, whose number is at most number_max all the same. */
void lli_unpack_allow(struct lli_unpack *unpack, uint64_t packets, uint64_t number_max);

/* The part of lli_unpack_begin() for packets that begin with the rest of a message, or contradict the one before. */
void lli_unpack_begin_other(struct lli_unpack *unpack, const struct lli_wire_header *header, const uint8_t *body, size_t size);

/* The next packet in order. The one before must be exhausted. */
static inline void lli_unpack_begin(struct lli_unpack *unpack, const struct lli_wire_header *header, const uint8_t *body,
                                    size_t size)
{
    if (unpack->broken || unpack->assembling || header->first != 0 || header->number != (uint32_t)unpack->number) {
        lli_unpack_begin_other(unpack, header, body, size);
        return;
    }
    unpack->at = body;
    unpack->end = body + size;
    unpack->topic = 0;
    unpack->given = false;
}

/*
 * As lli_unpack_begin(), for the packet that a message of this number starts in: passes over all that comes before it there,
 * so that it is the next message. False if the packet has no such message: it is begun as any other then.
 */
bool lli_unpack_enter(struct lli_unpack *unpack, const struct lli_wire_header *header, const uint8_t *body, size_t size,
                      uint64_t number);

/* The part of lli_unpack_peek() for frames of LLI_FRAME_TOPIC_SHORT and above. */
bool lli_unpack_peek_rare(struct lli_unpack *unpack, uint32_t *topic);

/* Whether messages may come next, and of which topic; passes what says nothing else. */
static inline bool lli_unpack_peek(struct lli_unpack *unpack, uint32_t *topic)
{
    if (unpack->broken)
        return false;
    if (unpack->assembling) {
        *topic = unpack->assembled_topic;
        return unpack->have == unpack->total && !unpack->too_long;
    }
    if (unpack->at == unpack->end)
        return false;
    if (*unpack->at >= LLI_FRAME_TOPIC_SHORT)
        return lli_unpack_peek_rare(unpack, topic);
    *topic = unpack->topic;
    return true;
}

/*
 * The next messages, all of one topic and at most max of them; `like` has their other fields. Valid as long as the packet and
 * until the next call but this and lli_unpack_peek(). 0: something else comes next, or goes on in the next packet.
 */
int lli_unpack_messages(struct lli_unpack *unpack, const struct llm_message *like, struct llm_message *messages, int max);

/* Whether nothing more comes of the packet, at the least cost: it may say no though there is nothing. */
static inline bool lli_unpack_is_done(const struct lli_unpack *unpack)
{
    return unpack->at == unpack->end && !unpack->broken && !(unpack->assembling && unpack->have == unpack->total);
}

/*
 * What comes next when lli_unpack_peek() or lli_unpack_messages() found no message. Data is valid until the next call, and as
 * long as the packet.
 */
void lli_unpack_next(struct lli_unpack *unpack, struct lli_unpacked *out);

/*
 * After lli_unpack_break(), when no packet will tell: messages before `number` are lost. False if there is nothing to tell.
 */
bool lli_unpack_lost_before(struct lli_unpack *unpack, uint64_t number, struct lli_unpacked *out);

#endif
