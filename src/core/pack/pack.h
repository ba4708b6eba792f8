/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packetization: puts messages one behind the other into the open packet of a history, and goes on in the next packet when it
 * is full, so that under load every packet is full (docs/protocol.md section 3).
 */
#ifndef LLI_PACK_H
#define LLI_PACK_H

#include <sys/uio.h>

#include "core/pack/history.h"
#include "core/wire/wire.h"

/* What goes before a message: a frame of attributes, whole. */
struct lli_pack_attributes {
    uint32_t label;
    uint32_t size; /* of the frame */
    uint8_t frame[LLI_FRAME_ATTRIBUTES_MAX];
};

struct lli_pack {
    struct lli_history *history;
    uint8_t *packet;      /* the open packet, NULL if there is none */
    uint8_t *ahead;       /* there is none, and the next one goes here, all that it takes being there; NULL: not known */
    uint8_t *at;          /* where its next frame goes */
    uint8_t *end;
    uint8_t *claim;       /* where a claimed message's frame begins, NULL without a claim */
    uint32_t claim_size;
    uint32_t claim_header;
    uint32_t tag;
    uint32_t single_max;    /* bytes of a message with a header of two that has room in a packet, whatever its topic */
    uint32_t topic;       /* of the next message in the open packet, unless a frame says otherwise; UINT32_MAX: a frame has to */
    uint32_t first_number; /* for the open packet's header */
    uint16_t first;
    bool unreliable;      /* messages in the open packet are not repaired, and neither are those of ... */
    bool unreliable_zero; /* ... topic 0 */
    bool mixed;           /* some topic is unreliable, or has no history */
    bool transients;      /* some topic has no history */
    bool transient_zero;  /* topic 0 has none */
    bool lasting;         /* the open packet holds something else than messages of such topics */
    bool odd;             /* ... or the next message has attributes: it does not take the short way */
    uint8_t unrepaired;   /* so many packets directly before the open one are not; for its header */
    uint32_t unreliable_sum; /* packets that are not */
    uint64_t number;      /* of the next message */
    const struct lli_pack_attributes *attributes; /* of the message that is packed next; `claim` is its frame then */
    uint8_t *summary;     /* in the packet of number summary_seq, if that is open */
    lli_seq summary_seq;
    struct lli_frame_summary summed;
};

struct lli_pack_topic {
    uint32_t id;
    bool whole; /* its messages do not span packets if they fit into one */
    bool unreliable; /* nor share one with those of topics that are not; a topic is one or the other for its life */
    bool transient; /* they are not for receivers that join later; for its life, too */
};

void lli_pack_init(struct lli_pack *pack, struct lli_history *history, uint32_t tag);

/* The longest message that can lie in one packet, on any topic. */
uint32_t lli_pack_whole_max(const struct lli_pack *pack);

/*
 * Packs a message of size bytes, gathered from pieces, sealing packets as they fill. False, with nothing changed, if the
 * history has no room for it without forgetting busy. No claim may be open.
 */
bool lli_pack_message(struct lli_pack *pack, const struct lli_pack_topic *topic, const struct iovec *pieces, uint32_t size,
                      lli_seq busy);

/* Whether lli_pack_message() would take a message of this size. No claim may be open. */
bool lli_pack_has_room(const struct lli_pack *pack, const struct lli_pack_topic *topic, uint32_t size, lli_seq busy);

/* Opens a packet where none is open. False, with nothing changed, if the history has no room for one. */
bool lli_pack_open(struct lli_pack *pack, lli_seq busy);

/* Sees to what opening the next packet will take, if none is open, while nobody waits for it. */
void lli_pack_prepare(struct lli_pack *pack, lli_seq busy);

/* Whether a message now can go the short way of the next two: nothing is packed, the next packet is prepared, and the message fits. */
static inline bool lli_pack_may_be_single(const struct lli_pack *pack, size_t size)
{
    return pack->ahead != NULL && !pack->odd && size - 1 < pack->single_max;
}

/*
 * Makes the packet of such a message, which then can be sent before it is sealed: at pack->ahead, or elsewhere. Changes nothing but the
 * packet, whose size it returns. lli_pack_single_end() seals it, and has it where it belongs.
 */
static inline uint32_t lli_pack_single(const struct lli_pack *pack, uint8_t *packet, const struct lli_pack_topic *topic, const void *data,
                                     size_t size)
{
    const uint32_t names = topic->id == 0 ? 0 : lli_frame_topic_size(topic->id);
    const uint32_t header = lli_frame_message_size((uint32_t)size);
    uint8_t *at = packet + LLI_WIRE_DATA_HEADER + names;
    const struct lli_wire_header wire = {
        .type = LLI_WIRE_DATA,
        .size = (uint16_t)(LLI_WIRE_DATA_HEADER + names + header + size),
        .tag = pack->tag,
        .seq = (uint32_t)pack->history->next,
        .number = (uint32_t)pack->number,
    };

    lli_wire_put_header(packet, &wire);
    if (names != 0)
        lli_frame_put_topic(at - names, topic->id);
    lli_frame_put_message(at, header, (uint32_t)size);
    memcpy(at + header, data, size);
    return wire.size;
}

void lli_pack_single_end(struct lli_pack *pack, const uint8_t *packet, uint32_t bytes);

/* How many bytes a lone message may have whose packet, whatever its topic, has to fit into so many. */
static inline uint32_t lli_pack_single_max(uint32_t bytes)
{
    const uint32_t others = LLI_WIRE_DATA_HEADER + lli_frame_topic_size(UINT32_MAX) + lli_frame_message_size(bytes);

    return bytes > others ? bytes - others : 0;
}

/*
 * The common case of lli_pack_message(): a message in one piece, on the topic of the one before, for which the open packet has
 * room. False, with nothing changed, in any other.
 */
static inline bool lli_pack_in_place(struct lli_pack *pack, const struct lli_pack_topic *topic, const void *data, size_t size)
{
    uint32_t header;

    if (pack->packet == NULL || pack->topic != topic->id || size > LLI_FRAME_MEDIUM_MAX)
        return false;
    header = lli_frame_message_size((uint32_t)size);
    if (header + size > (size_t)(pack->end - pack->at))
        return false;
    lli_frame_put_message(pack->at, header, (uint32_t)size);
    memcpy(pack->at + header, data, size);
    pack->at += header + size;
    pack->number++;
    return true;
}

/*
 * The next message that is packed has these attributes, whatever it is tried for; NULL: it has none. No claim may be open, and
 * frames of such a size have to fit into a packet: lli_pack_attributes_max().
 */
void lli_pack_attribute(struct lli_pack *pack, const struct lli_pack_attributes *attributes);
uint32_t lli_pack_attributes_max(const struct lli_pack *pack);

/* What lli_pack_message() does with them. */
bool lli_pack_message_with(struct lli_pack *pack, const struct lli_pack_topic *topic, const struct iovec *pieces, uint32_t size,
                           lli_seq busy);

/* Room for a message of up to lli_pack_whole_max() bytes inside the open packet; NULL if the history has none. */
uint8_t *lli_pack_claim(struct lli_pack *pack, const struct lli_pack_topic *topic, uint32_t size, lli_seq busy);

/* Makes the first size bytes of the claim a message, or gives the claim up. */
void lli_pack_commit(struct lli_pack *pack, uint32_t size);
void lli_pack_abort(struct lli_pack *pack);

/* Sees to an open packet that is repaired, or is not. False if the history has no room. No claim may be open. */
bool lli_pack_turn(struct lli_pack *pack, bool unreliable, lli_seq busy);

/* Announces a topic in the stream, in a packet that is repaired. False if the history has no room. */
bool lli_pack_announce(struct lli_pack *pack, uint32_t topic, const char *name, size_t name_size, lli_seq busy);

/* A topic that was announced just now is unreliable. */
void lli_pack_unreliable(struct lli_pack *pack, uint32_t topic);

/* The same: it has no history. */
void lli_pack_transient(struct lli_pack *pack, uint32_t topic);

/* Seals the open packet if anything is in it and no claim is open. */
void lli_pack_flush(struct lli_pack *pack);

/* Whether anything is packed that is not sealed yet. */
static inline bool lli_pack_pending(const struct lli_pack *pack)
{
    return pack->packet != NULL && pack->at > pack->packet + LLI_WIRE_DATA_HEADER;
}

#endif
