/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depacketization: takes the packets of a session in order and returns their messages. A message within one
 * packet is returned in place; one that spans packets is reassembled in a buffer (docs/protocol.md section
 * 3).
 */
#ifndef LLI_UNPACK_H
#define LLI_UNPACK_H

#include <llm/llm.h>

#include "core/base/types.h"
#include "core/wire/wire.h"

enum lli_unpack_kind {
    LLI_UNPACK_NONE = 0, /* the packet holds nothing more */
    LLI_UNPACK_ANNOUNCE, /* bytes: name; topic: id */
    LLI_UNPACK_LOST,     /* messages first to last are lost; may be empty: last + 1 == first */
    LLI_UNPACK_SKIPPED,  /* the session skips the numbers first to last */
    LLI_UNPACK_TOO_LONG, /* message number `first` is longer than the buffer */
};

struct lli_unpacked {
    enum lli_unpack_kind kind;
    uint32_t topic;
    uint32_t size;
    const uint8_t *data;
    uint64_t number; /* of the message; of the first one that is lost or skipped */
    uint64_t last;
};

struct lli_unpack {
    const uint8_t *at; /* position in the current packet */
    const uint8_t *end;
    uint32_t topic; /* topic of the next message */
    /* Packets were lost, or this packet contradicts the previous one: resume at its first frame. */
    bool broken;
    bool assembling;     /* message number - 1 is incomplete */
    bool too_long;       /* it does not fit into the buffer; only its end is searched for */
    bool passing;        /* message number - 1 is not wanted; its rest may follow in the next packet */
    uint32_t resume;     /* while broken: message number in the current packet's header */
    uint64_t number_max; /* while broken: a packet with a higher message number is malformed */
    bool given;     /* a reassembled message was returned from the current packet: its bytes are in use */
    uint32_t start; /* offset in the buffer of the message being reassembled */
    uint32_t total; /* its total size */
    uint32_t have;
    uint32_t assembled_topic;
    uint8_t *buffer;
    uint32_t buffer_size;
    uint32_t malformed; /* count of packets that are inconsistent, in themselves or with the previous one */
    const struct lli_piece *rest; /* of an excerpt: pieces after this one; NULL: none */
    uint64_t number;              /* number of the next message to start */
};

/* Maximum of messages in a packet, as each takes at least a byte. */
#define LLI_UNPACK_PACKET_MESSAGES ((uint64_t)65536)

/* buffer: reassembles messages that span packets; longer ones are reported as too long. */
void lli_unpack_init(struct lli_unpack *unpack, uint8_t *buffer, uint32_t buffer_size);

/* Restarts. number: of the next message to start, as far as is known. */
void lli_unpack_reset(struct lli_unpack *unpack, uint64_t number);

/*
 * Notes a loss after the last packet, which must be exhausted, or the start of a session: unpacking resumes
 * at the next packet's first frame. Its message number may exceed the expected one by as much as one packet
 * explains; lli_unpack_allow() allows more.
 */
void lli_unpack_break(struct lli_unpack *unpack);

/*
 * After lli_unpack_break(): allows for `packets` more missing packets; the next packet's message number is
 * still at most number_max.
 */
void lli_unpack_allow(struct lli_unpack *unpack, uint64_t packets, uint64_t number_max);

/*
 * Part of lli_unpack_begin() for packets that begin with the rest of a message or contradict the previous
 * one.
 */
void lli_unpack_begin_other(struct lli_unpack *unpack, const struct lli_wire_header *header,
                            const uint8_t *body, size_t size);

/* Begins the next packet in order. The previous one must be exhausted. */
static inline void lli_unpack_begin(struct lli_unpack *unpack, const struct lli_wire_header *header,
                                    const uint8_t *body, size_t size)
{
    if (unpack->broken || unpack->assembling || header->first != 0 ||
        header->number != (uint32_t)unpack->number) {
        lli_unpack_begin_other(unpack, header, body, size);
        return;
    }
    unpack->at = body;
    unpack->end = body + size;
    unpack->topic = 0;
    unpack->given = false;
}

/*
 * Like lli_unpack_begin(), for the packet in which message `number` starts: skips everything before it, so
 * that it is the next message. A packet that skips this number is begun whole. False if no such message starts
 * there; the packet is then begun like any other.
 */
bool lli_unpack_enter(struct lli_unpack *unpack, const struct lli_wire_header *header, const uint8_t *body,
                      size_t size, uint64_t number);

/* Returns the count of message numbers that a DATA packet uses or skips; 0 for any other bytes. */
uint32_t lli_unpack_count(const uint8_t *packet, size_t size);

/* Part of lli_unpack_peek() for frames of LLI_FRAME_TOPIC_SHORT and above. */
bool lli_unpack_peek_rare(struct lli_unpack *unpack, uint32_t *topic);

/* True if messages may come next; *topic is theirs. Skips frames that carry nothing else. */
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
 * Returns the next messages, at most max, all of one topic; `like` supplies their other fields. Valid until
 * the packet's memory is reused and until the next call other than this one and lli_unpack_peek(). 0:
 * something else comes next, or the rest of a message is in the next packet.
 */
int lli_unpack_messages(struct lli_unpack *unpack, const struct llm_message *like,
                        struct llm_message *messages, int max);

/*
 * Begins the next piece of an excerpt, once the one before is exhausted; returns the count of messages that were
 * not copied between them. Its bytes follow those of the piece before.
 */
static inline uint32_t lli_unpack_turn(struct lli_unpack *unpack)
{
    const struct lli_piece *piece = unpack->rest;

    unpack->rest = piece->more ? piece + 1 : NULL;
    unpack->end = unpack->at + piece->size;
    unpack->topic = 0;
    unpack->number += piece->passed;
    return piece->passed;
}

/* True if the packet is exhausted. A cheap test, which may return false for an exhausted packet. */
static inline bool lli_unpack_is_done(const struct lli_unpack *unpack)
{
    return unpack->at == unpack->end && !unpack->broken &&
           !(unpack->assembling && unpack->have == unpack->total);
}

/*
 * Returns the next item when lli_unpack_peek() or lli_unpack_messages() found no message. Data is valid until
 * the next call, and as long as the packet. Drops further pieces of an excerpt, which has messages only.
 */
void lli_unpack_next(struct lli_unpack *unpack, struct lli_unpacked *out);

/*
 * After lli_unpack_break(), if no further packet will show the loss: reports messages before `number` as
 * lost. False if there are none.
 */
bool lli_unpack_lost_before(struct lli_unpack *unpack, uint64_t number, struct lli_unpacked *out);

#endif
