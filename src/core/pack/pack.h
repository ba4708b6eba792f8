/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packetization: appends messages to the open packet of a history and continues in the next packet when it is
 * full, so that under load every packet is full (docs/protocol.md section 3).
 */
#ifndef LLI_PACK_H
#define LLI_PACK_H

#include <sys/uio.h>

#include "core/pack/history.h"
#include "core/wire/wire.h"

/* Complete attribute frame, to go before a message. */
struct lli_pack_attributes {
    uint32_t label;
    uint32_t size; /* of the frame */
    uint8_t frame[LLI_FRAME_ATTRIBUTES_MAX];
};

struct lli_pack {
    struct lli_history *history;
    uint8_t *packet;   /* open packet, NULL if there is none */
    uint8_t *prepared; /* address of the next packet, prepared while none is open; NULL: not prepared */
    uint8_t *at;       /* position of its next frame */
    uint8_t *end;      /* end of the room for frames: `at` if no packet is open */
    uint8_t *claim;    /* start of the claimed message's frame, NULL without a claim */
    uint32_t claim_size;
    uint32_t claim_header;
    uint32_t tag;
    /* Longest messages that may be sent ... */
    uint32_t in_place_max; /* ... by lli_pack_in_place() */
    uint32_t single_max;   /* ... by lli_pack_single(), on any topic */
    uint32_t claim_max;    /* ... by lli_pack_claim() */
    /*
     * Topic of the next message in the open packet without a topic frame; UINT32_MAX: a topic frame is
     * required.
     */
    uint32_t topic;
    uint32_t first_number; /* message number for the open packet's header */
    uint16_t first;
    bool unreliable;         /* messages in the open packet are not repaired ... */
    bool unreliable_zero;    /* ... and neither are those of topic 0 */
    bool mixed;              /* some topic is unreliable or has no history */
    bool transients;         /* some topic has no history */
    bool transient_zero;     /* topic 0 has no history */
    bool lasting;            /* the open packet holds something besides messages of topics without history */
    bool odd;                /* ... or the next message has attributes: no fast path */
    uint8_t unrepaired;      /* unreliable packets directly before the open one; for its header */
    uint32_t unreliable_sum; /* unreliable packets so far */
    uint64_t number;         /* number of the next message */
    const struct lli_pack_attributes *attributes; /* of the message packed next; `claim` is its frame then */
    uint8_t *summary; /* position in packet summary_seq, if that is the open one */
    lli_seq summary_seq;
    struct lli_frame_summary summed;
};

struct lli_pack_topic {
    uint32_t id;
    bool whole;      /* messages that fit into one packet do not span packets */
    bool unreliable; /* its packets hold messages of unreliable topics only; constant */
    bool transient;  /* late joiners do not get its messages; constant */
};

void lli_pack_init(struct lli_pack *pack, struct lli_history *history, uint32_t tag);

/* Limits in_place_max, single_max and claim_max to messages of this many bytes. */
void lli_pack_limit(struct lli_pack *pack, uint64_t message_max);

/* Returns the length of the longest message that fits into one packet on any topic. */
uint32_t lli_pack_whole_max(const struct lli_pack *pack);

/*
 * Packs a message of size bytes, gathered from pieces, sealing packets as they fill. False, with nothing
 * changed, if the history has no room for it without dropping packets from `busy` on. No claim may be open.
 */
bool lli_pack_message(struct lli_pack *pack, const struct lli_pack_topic *topic, const struct iovec *pieces,
                      uint32_t size, lli_seq busy);

/* True if lli_pack_message() would accept a message of this size. No claim may be open. */
bool lli_pack_has_room(const struct lli_pack *pack, const struct lli_pack_topic *topic, uint32_t size,
                       lli_seq busy);

/* Opens a packet if none is open. False, with nothing changed, if the history has no room for one. */
bool lli_pack_open(struct lli_pack *pack, lli_seq busy);

/* Prepares the next packet while none is open, off the critical path. */
void lli_pack_prepare(struct lli_pack *pack, lli_seq busy);

/*
 * True if a message can take the fast path of the next two functions: no packet is open, the next one is
 * prepared, and the message fits.
 */
static inline bool lli_pack_may_be_single(const struct lli_pack *pack, size_t size)
{
    return pack->prepared != NULL && !pack->odd && size - 1 < pack->single_max;
}

/*
 * Builds the packet of such a message at pack->prepared or elsewhere, so that it can be sent before it is
 * sealed. Changes nothing but the packet, whose size it returns. lli_pack_single_end() seals the packet and
 * places it in the history.
 */
static inline uint32_t lli_pack_single(const struct lli_pack *pack, uint8_t *packet,
                                       const struct lli_pack_topic *topic, const void *data, size_t size)
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

/* Returns the longest message whose single-message packet, on any topic, fits into this many bytes. */
static inline uint32_t lli_pack_single_max(uint32_t bytes)
{
    const uint32_t others =
        LLI_WIRE_DATA_HEADER + lli_frame_topic_size(UINT32_MAX) + lli_frame_message_size(bytes);

    return bytes > others ? bytes - others : 0;
}

/*
 * Common case of lli_pack_message(): a message in one piece, on the topic of the previous one, that fits into
 * the open packet. False, with nothing changed, in any other case.
 */
static inline bool lli_pack_in_place(struct lli_pack *pack, const struct lli_pack_topic *topic,
                                     const void *data, size_t size)
{
    uint32_t header;

    if (pack->topic != topic->id || size > pack->in_place_max)
        return false;
    header = size <= LLI_FRAME_SHORT_MAX ? 1 : 2;
    if (header + size > (size_t)(pack->end - pack->at))
        return false;
    lli_frame_put_message(pack->at, header, (uint32_t)size);
    memcpy(pack->at + header, data, size);
    pack->at += header + size;
    pack->number++;
    return true;
}

/*
 * Sets the attributes of the next message; they survive failed attempts. NULL: none. No claim may be open,
 * and the frame has to fit into a packet: lli_pack_attributes_max().
 */
void lli_pack_attribute(struct lli_pack *pack, const struct lli_pack_attributes *attributes);
uint32_t lli_pack_attributes_max(const struct lli_pack *pack);

/* Part of lli_pack_message() for a message with attributes. */
bool lli_pack_message_with(struct lli_pack *pack, const struct lli_pack_topic *topic,
                           const struct iovec *pieces, uint32_t size, lli_seq busy);

/*
 * Reserves room for a message of up to claim_max bytes in the open packet; NULL if the history has none.
 * Until it ends the packet takes no other message.
 */
uint8_t *lli_pack_claim(struct lli_pack *pack, const struct lli_pack_topic *topic, uint32_t size,
                        lli_seq busy);

/* Turns the first size bytes of the claim into a message, or drops the claim. */
void lli_pack_commit(struct lli_pack *pack, uint32_t size);
void lli_pack_abort(struct lli_pack *pack);

/*
 * Makes sure that a packet is open that is repaired, or is not. False if the history has no room. No claim
 * may be open.
 */
bool lli_pack_turn(struct lli_pack *pack, bool unreliable, lli_seq busy);

/* Announces a topic in the stream, in a packet that is repaired. False if the history has no room. */
bool lli_pack_announce(struct lli_pack *pack, uint32_t topic, const char *name, size_t name_size,
                       lli_seq busy);

/* Marks a topic that was just announced as unreliable. */
void lli_pack_unreliable(struct lli_pack *pack, uint32_t topic);

/* Marks a topic that was just announced as one without history. */
void lli_pack_transient(struct lli_pack *pack, uint32_t topic);

/*
 * Skips message numbers, 1 to LLI_FRAME_NUMBERS_MAX, in a packet that has nothing else and is repaired. False, with
 * nothing changed, if the history has no room. No claim may be open.
 */
bool lli_pack_skip(struct lli_pack *pack, uint32_t count, lli_seq busy);

/* Seals the open packet if it is not empty and no claim is open. */
void lli_pack_flush(struct lli_pack *pack);

/* True if the open packet is not empty. */
static inline bool lli_pack_pending(const struct lli_pack *pack)
{
    return pack->packet != NULL && pack->at > pack->packet + LLI_WIRE_DATA_HEADER;
}

#endif
