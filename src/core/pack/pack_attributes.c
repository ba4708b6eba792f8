/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing of messages with attributes: an attribute frame before each, and a label summary in each packet
 * that begins with one (docs/protocol.md sections 3.2 and 3.3). Uses the functions for all messages, so that
 * messages without attributes pay nothing.
 */
#include "core/pack/pack.h"

uint32_t lli_pack_attributes_max(const struct lli_pack *pack)
{
    const uint32_t room = pack->history->packet_max - LLI_WIRE_DATA_HEADER;
    /* And at least a byte of the message. */
    const uint32_t others =
        LLI_FRAME_SUMMARY_SIZE + lli_frame_topic_size(UINT32_MAX) + LLI_WIRE_FRAME_MAX + 1;

    return room <= others ? 0 : (uint32_t)lli_min(room - others, LLI_FRAME_ATTRIBUTES_MAX);
}

void lli_pack_attribute(struct lli_pack *pack, const struct lli_pack_attributes *attributes)
{
    assert(pack->attributes != NULL || pack->claim == NULL);
    pack->attributes = attributes;
    pack->odd = pack->mixed || attributes != NULL;
    /* Occupies the claim: no claim may be open meanwhile. */
    pack->claim = attributes == NULL ? NULL : (uint8_t *)(uintptr_t)attributes->frame;
}

static uint32_t pack_body_max(const struct lli_pack *pack)
{
    return pack->history->packet_max - LLI_WIRE_DATA_HEADER;
}

static uint16_t pack_offset(const struct lli_pack *pack, const uint8_t *at)
{
    return (uint16_t)(at - pack->packet - LLI_WIRE_DATA_HEADER);
}

/* True if the open packet has no frame yet. */
static bool pack_is_fresh(const struct lli_pack *pack)
{
    return pack_offset(pack, pack->at) == pack->first;
}

/*
 * True if the open packet has a summary that covers all of it: packing a message without attributes shows
 * only here.
 */
static bool pack_is_summed(const struct lli_pack *pack)
{
    return pack->summary != NULL && pack->summary_seq == pack->history->next &&
           pack->summed.end == pack_offset(pack, pack->at);
}

/* True if a message with everything before it may start in the open packet. */
static bool pack_may_start(const struct lli_pack *pack, const struct lli_pack_topic *topic, uint32_t size)
{
    const uint32_t topic_size = lli_frame_topic_size(topic->id), header = lli_frame_message_size(size);
    const uint32_t before = pack->attributes->size + header;
    const uint32_t needed = (pack_is_fresh(pack) ? LLI_FRAME_SUMMARY_SIZE : 0) +
                            (pack->topic == topic->id ? 0 : topic_size) + before;
    const uint32_t left = (uint32_t)(pack->end - pack->at);
    const bool fits_one = size <= pack_body_max(pack) &&
                          LLI_FRAME_SUMMARY_SIZE + topic_size + before + size <= pack_body_max(pack);

    /* At least one byte should follow the headers, as for any message. */
    return topic->whole && fits_one ? needed + size <= left : needed + (size > 0) <= left;
}

/* Pads the open packet and seals it; a summary that covered all of it still does. */
static void pack_finish(struct lli_pack *pack)
{
    if (pack_is_summed(pack)) {
        pack->summed.end = (uint16_t)pack_body_max(pack);
        lli_frame_put_summary(pack->summary, &pack->summed);
    }
    memset(pack->at, LLI_FRAME_PAD, (size_t)(pack->end - pack->at));
    pack->at = pack->end;
    lli_pack_flush(pack);
}

/* Makes sure that a packet is open in which a message may start. False: the history has no room. */
static bool pack_place(struct lli_pack *pack, const struct lli_pack_topic *topic, uint32_t size, lli_seq busy)
{
    if (pack->packet != NULL && pack->unreliable == topic->unreliable && pack_may_start(pack, topic, size))
        return true;
    if (lli_pack_pending(pack) && pack->unreliable == topic->unreliable)
        pack_finish(pack);
    return lli_pack_turn(pack, topic->unreliable, busy);
}

/* Puts the frames before a message into the open packet, and its label into the summary. */
static void pack_head(struct lli_pack *pack, const struct lli_pack_topic *topic,
                      const struct lli_pack_attributes *attributes, uint32_t size)
{
    bool summed = pack_is_summed(pack);

    if (pack_is_fresh(pack)) {
        pack->summary = pack->at;
        pack->summary_seq = pack->history->next;
        pack->summed = (struct lli_frame_summary){.all = UINT32_MAX};
        pack->at += LLI_FRAME_SUMMARY_SIZE;
        summed = true;
    }
    if (pack->topic != topic->id) {
        lli_frame_put_topic(pack->at, topic->id);
        pack->at += lli_frame_topic_size(topic->id);
        pack->topic = topic->id;
    }
    memcpy(pack->at, attributes->frame, attributes->size);
    pack->at += attributes->size;
    if (!summed)
        return;
    pack->summed.any |= attributes->label;
    pack->summed.all &= attributes->label;
    pack->summed.count++;
    pack->summed.end = (uint16_t)lli_min(
        pack_offset(pack, pack->at) + (uint64_t)lli_frame_message_size(size) + size, pack_body_max(pack));
    lli_frame_put_summary(pack->summary, &pack->summed);
}

bool lli_pack_message_with(struct lli_pack *pack, const struct lli_pack_topic *topic,
                           const struct iovec *pieces, uint32_t size, lli_seq busy)
{
    const struct lli_pack_attributes *attributes = pack->attributes;
    /* pack_place() already decided if the message may span packets. */
    const struct lli_pack_topic any = {
        .id = topic->id, .unreliable = topic->unreliable, .transient = topic->transient};
    struct lli_pack before;
    bool packed;

    assert(attributes != NULL && pack->claim == attributes->frame);
    pack->claim = NULL;
    packed = pack_place(pack, topic, size, busy);
    before = *pack;
    if (packed) {
        pack_head(pack, topic, attributes, size);
        packed = lli_pack_message(pack, &any, pieces, size, busy);
    }
    if (!packed) {
        /*
         * Nothing was packed: removes the frames before the message. The summary is written again with the
         * next message.
         */
        *pack = before;
        if (pack->packet != NULL && pack_is_summed(pack))
            lli_frame_put_summary(pack->summary, &pack->summed);
    }
    lli_pack_attribute(pack, packed ? NULL : attributes);
    return packed;
}
