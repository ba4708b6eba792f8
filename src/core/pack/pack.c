/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack/pack.h"

void lli_pack_init(struct lli_pack *pack, struct lli_history *history, uint32_t tag)
{
    *pack = (struct lli_pack){
        .history = history,
        .tag = tag,
    };
    lli_pack_limit(pack, UINT64_MAX);
}

void lli_pack_limit(struct lli_pack *pack, uint64_t message_max)
{
    /* Frames in place, and of single messages, have a header of two bytes at most. */
    pack->in_place_max = (uint32_t)lli_min(message_max, LLI_FRAME_MEDIUM_MAX);
    pack->single_max = (uint32_t)lli_min(pack->in_place_max, lli_pack_single_max(pack->history->packet_max));
    pack->claim_max = (uint32_t)lli_min(message_max, lli_pack_whole_max(pack));
}

uint32_t lli_pack_whole_max(const struct lli_pack *pack)
{
    return pack->history->packet_max - LLI_WIRE_DATA_HEADER - lli_frame_topic_size(UINT32_MAX) -
           LLI_WIRE_FRAME_MAX;
}

/*
 * The topic is 0 where the frames of a packet start. A packet whose kind (unreliable, without history)
 * differs from topic 0's starts without a current topic, so that its first message needs a topic frame. Hence
 * the current topic of the open packet is always one allowed in it, and one with history only if the packet
 * already holds messages with history.
 */
static void pack_mark(struct lli_pack *pack, bool unreliable)
{
    pack->unreliable = unreliable;
    pack->topic =
        unreliable == pack->unreliable_zero && pack->transients == pack->transient_zero ? 0 : UINT32_MAX;
}

/*
 * Opens a packet of the same kind as the previous one; its first `first` bytes of body continue an earlier
 * message.
 */
static void pack_open(struct lli_pack *pack, uint32_t first, lli_seq busy)
{
    pack->packet = pack->prepared != NULL ? pack->prepared : lli_history_open(pack->history, busy);
    pack->prepared = NULL;
    pack->at = pack->packet + LLI_WIRE_DATA_HEADER;
    pack->end = pack->packet + pack->history->packet_max;
    pack->first = (uint16_t)first;
    pack->first_number = (uint32_t)pack->number;
}

/*
 * Sets the flags and the history slot of the packet just sealed, in a session with topics that are unreliable
 * or without history.
 */
static LLI_OUT_OF_LINE void pack_count(struct lli_pack *pack)
{
    struct lli_history_slot *slot = lli_history_slot(pack->history, pack->history->next - 1);

    pack->unreliable_sum += pack->unreliable;
    pack->packet[1] = pack->unrepaired;
    pack_mark(pack, pack->unreliable);
    slot->unreliable = pack->unreliable;
    slot->transient = pack->transients && !pack->lasting;
    pack->lasting = false;
    slot->unreliable_sum = pack->unreliable_sum;
    if (!pack->unreliable)
        pack->unrepaired = 0;
    else if (pack->unrepaired < LLI_WIRE_FLAGS_UNREPAIRED)
        pack->unrepaired++;
}

static void pack_seal(struct lli_pack *pack)
{
    const struct lli_wire_header header = {
        .type = LLI_WIRE_DATA,
        .size = (uint16_t)(pack->at - pack->packet),
        .first = pack->first,
        .tag = pack->tag,
        .seq = (uint32_t)pack->history->next,
        .number = pack->first_number,
    };

    lli_wire_put_header(pack->packet, &header);
    lli_history_seal(pack->history, (uint32_t)(pack->at - pack->packet));
    /* Topic at the start of the next packet. */
    pack->topic = 0;
    if (pack->mixed)
        pack_count(pack);
    pack->packet = NULL;
    pack->end = pack->at;
}

/* Pads the open packet to its maximum, so that runs of full packets have one size, and seals it. */
static void pack_seal_full(struct lli_pack *pack)
{
    memset(pack->at, LLI_FRAME_PAD, (size_t)(pack->end - pack->at));
    pack->at = pack->end;
    pack_seal(pack);
}

static uint32_t pack_left(const struct lli_pack *pack)
{
    return (uint32_t)(pack->end - pack->at);
}

/* Bytes of frame headers before a message of this topic and size in the open packet. */
static uint32_t pack_header_size(const struct lli_pack *pack, uint32_t topic, uint32_t size)
{
    return (pack->topic == topic ? 0 : lli_frame_topic_size(topic)) + lli_frame_message_size(size);
}

static void pack_put_topic(struct lli_pack *pack, uint32_t topic)
{
    if (pack->topic == topic)
        return;
    lli_frame_put_topic(pack->at, topic);
    pack->at += lli_frame_topic_size(topic);
    pack->topic = topic;
}

static void pack_put_header(struct lli_pack *pack, uint32_t topic, uint32_t size)
{
    uint32_t header = lli_frame_message_size(size);

    pack_put_topic(pack, topic);
    lli_frame_put_message(pack->at, header, size);
    pack->at += header;
    pack->number++;
}

/* Read position in a gathered message. */
struct gather {
    const struct iovec *next; /* the piece after the current one */
    const uint8_t *at;
    size_t left;
};

static void gather_copy(struct gather *gather, uint8_t *to, size_t size)
{
    while (gather->left < size) {
        if (gather->left > 0)
            memcpy(to, gather->at, gather->left);
        to += gather->left;
        size -= gather->left;
        gather->at = gather->next->iov_base;
        gather->left = gather->next++->iov_len;
    }
    memcpy(to, gather->at, size);
    gather->at += size;
    gather->left -= size;
}

/* Copies a non-empty message after its header, across as many packets as it takes. */
static void pack_copy(struct lli_pack *pack, const struct iovec *pieces, uint32_t size, lli_seq busy)
{
    struct gather gather = {.next = pieces + 1, .at = pieces->iov_base, .left = pieces->iov_len};
    uint32_t left;

    while ((left = pack_left(pack)) < size) {
        uint32_t body = pack->history->packet_max - LLI_WIRE_DATA_HEADER;

        gather_copy(&gather, pack->at, left);
        size -= left;
        pack->at = pack->end;
        pack_seal(pack);
        pack_open(pack, size < body ? size : body, busy);
    }
    gather_copy(&gather, pack->at, size);
    pack->at += size;
}

/* True if a message too long for the open packet may start in it. */
static bool pack_may_span(const struct lli_pack *pack, const struct lli_pack_topic *topic, uint32_t size)
{
    uint32_t header = pack_header_size(pack, topic->id, size);

    if (topic->whole && size <= lli_pack_whole_max(pack))
        return false;
    /* At least one byte should follow the header in this packet: a header alone is of no use. */
    return header < pack_left(pack);
}

/*
 * True if the history has room for all packets that `size` more bytes can take, besides the open one. Inline:
 * called for each packet.
 */
static LLI_INLINE bool pack_room(const struct lli_pack *pack, uint32_t size, lli_seq busy)
{
    uint32_t body = pack->history->packet_max - LLI_WIRE_DATA_HEADER;
    uint32_t bytes = size + LLI_WIRE_FRAME_MAX * 2u;
    /* Most messages are shorter than a packet, and division is slow. */
    uint64_t needed = (pack->packet == NULL || size > 0 ? 1 : 0) + (bytes < body ? 0 : bytes / body) + 1;

    /* The open packet has taken its room already, but has no slot yet to show it. */
    return lli_history_fits(pack->history, needed + (pack->packet != NULL ? 1 : 0), busy);
}

bool lli_pack_has_room(const struct lli_pack *pack, const struct lli_pack_topic *topic, uint32_t size,
                       lli_seq busy)
{
    const uint64_t whole = (uint64_t)lli_frame_topic_size(topic->id) + lli_frame_message_size(size) + size;

    if (pack->packet != NULL && pack->unreliable == topic->unreliable && whole <= pack_left(pack))
        return true;
    if (pack->packet == NULL && pack->prepared != NULL &&
        whole <= pack->history->packet_max - LLI_WIRE_DATA_HEADER)
        return true;
    return pack_room(pack, size, busy);
}

bool lli_pack_open(struct lli_pack *pack, lli_seq busy)
{
    if (pack->prepared == NULL && !pack_room(pack, 0, busy))
        return false;
    pack_open(pack, 0, busy);
    return true;
}

void lli_pack_prepare(struct lli_pack *pack, lli_seq busy)
{
    if (pack->packet == NULL && pack->prepared == NULL && pack_room(pack, 0, busy))
        pack->prepared = lli_history_open(pack->history, busy);
}

void lli_pack_single_end(struct lli_pack *pack, const uint8_t *packet, uint32_t bytes)
{
    if (packet != pack->prepared)
        memcpy(pack->prepared, packet, bytes);
    lli_history_seal(pack->history, bytes);
    pack->number++;
    pack->topic = 0;
    pack->prepared = NULL;
}

/* Changes the kind of the next packet, or of the open one if it is empty. */
static LLI_OUT_OF_LINE void pack_change(struct lli_pack *pack, bool unreliable)
{
    if (lli_pack_pending(pack))
        pack_seal(pack);
    pack_mark(pack, unreliable);
}

/* Marks the open packet, and those sealed since start, as holding a message of a topic with history. */
static void pack_last(struct lli_pack *pack, lli_seq start)
{
    for (lli_seq seq = start; seq < pack->history->next; seq++)
        lli_history_slot(pack->history, seq)->transient = false;
    pack->lasting = true;
}

/* Packs a message with attributes, or one that may need another kind of packet. */
static LLI_OUT_OF_LINE bool pack_odd(struct lli_pack *pack, const struct lli_pack_topic *topic,
                                     const struct iovec *pieces, uint32_t size, lli_seq busy)
{
    lli_seq start;
    bool packed;

    /* With attributes set, `claim` points to them: no claim is open. */
    if (pack->claim != NULL)
        return lli_pack_message_with(pack, topic, pieces, size, busy);
    if (pack->unreliable != topic->unreliable) {
        if (!pack_room(pack, size, busy))
            return false;
        pack_change(pack, topic->unreliable);
    }
    start = pack->history->next;
    /* Handled like any other message from here on. */
    pack->odd = false;
    packed = lli_pack_message(pack, topic, pieces, size, busy);
    pack->odd = true;
    if (packed && pack->transients && !topic->transient)
        pack_last(pack, start);
    return packed;
}

bool lli_pack_message(struct lli_pack *pack, const struct lli_pack_topic *topic, const struct iovec *pieces,
                      uint32_t size, lli_seq busy)
{
    if (pack->odd)
        return pack_odd(pack, topic, pieces, size, busy);
    if (pack_left(pack) < size + pack_header_size(pack, topic->id, size)) {
        if (!pack_room(pack, size, busy))
            return false;
        if (pack->packet != NULL && !pack_may_span(pack, topic, size)) {
            if (topic->whole)
                pack_seal(pack);
            else
                pack_seal_full(pack);
        }
        if (pack->packet == NULL)
            pack_open(pack, 0, busy);
    }
    pack_put_header(pack, topic->id, size);
    if (size > 0)
        pack_copy(pack, pieces, size, busy);
    return true;
}

/*
 * Makes room for size bytes in an open packet of this kind; seals the open one and opens another if
 * necessary.
 */
static bool pack_reserve(struct lli_pack *pack, uint32_t size, bool unreliable, lli_seq busy)
{
    if (pack->packet != NULL && pack_left(pack) >= size && pack->unreliable == unreliable)
        return true;
    if (!pack_room(pack, 0, busy))
        return false;
    if (pack->unreliable != unreliable)
        pack_change(pack, unreliable);
    else if (pack->packet != NULL)
        pack_seal(pack);
    if (pack->packet == NULL)
        pack_open(pack, 0, busy);
    return true;
}

bool lli_pack_turn(struct lli_pack *pack, bool unreliable, lli_seq busy)
{
    assert(pack->claim == NULL);
    return pack_reserve(pack, 0, unreliable, busy);
}

uint8_t *lli_pack_claim(struct lli_pack *pack, const struct lli_pack_topic *topic, uint32_t size,
                        lli_seq busy)
{
    assert(pack->claim == NULL && size <= pack->claim_max);
    if (!pack_reserve(pack, lli_frame_topic_size(topic->id) + lli_frame_message_size(size) + size,
                      topic->unreliable, busy))
        return NULL;
    /* A topic frame without a message has no effect, so it may stay if the claim is dropped. */
    if (pack->topic != topic->id)
        pack->lasting |= !topic->transient;
    pack_put_topic(pack, topic->id);
    pack->claim = pack->at;
    pack->claim_size = size;
    pack->claim_header = lli_frame_message_size(size);
    return pack->claim + pack->claim_header;
}

void lli_pack_commit(struct lli_pack *pack, uint32_t size)
{
    assert(pack->claim != NULL && size <= pack->claim_size);
    lli_frame_put_message(pack->claim, pack->claim_header, size);
    pack->at = pack->claim + pack->claim_header + size;
    pack->claim = NULL;
    pack->number++;
}

void lli_pack_abort(struct lli_pack *pack)
{
    assert(pack->claim != NULL);
    pack->claim = NULL;
}

bool lli_pack_announce(struct lli_pack *pack, uint32_t topic, const char *name, size_t name_size,
                       lli_seq busy)
{
    assert(pack->claim == NULL);
    if (!pack_reserve(pack, (uint32_t)(LLI_FRAME_ANNOUNCE_HEAD + name_size), false, busy))
        return false;
    lli_frame_put_announcement(pack->at, topic, name, name_size);
    pack->at += LLI_FRAME_ANNOUNCE_HEAD + name_size;
    pack->lasting = true;
    return true;
}

void lli_pack_unreliable(struct lli_pack *pack, uint32_t topic)
{
    pack->mixed = pack->odd = true;
    if (topic != 0)
        return;
    assert(!pack->unreliable && pack->topic == 0);
    pack->unreliable_zero = true;
    pack_mark(pack, false);
}

void lli_pack_transient(struct lli_pack *pack, uint32_t topic)
{
    pack->mixed = pack->odd = pack->transients = true;
    /* The open packet may hold messages packed before this call. */
    pack->lasting = true;
    if (topic == 0)
        pack->transient_zero = true;
}

bool lli_pack_skip(struct lli_pack *pack, uint32_t count, lli_seq busy)
{
    assert(count >= 1 && count <= LLI_FRAME_NUMBERS_MAX);
    if (!pack_room(pack, 0, busy))
        return false;
    pack_change(pack, false);
    if (pack->packet == NULL)
        pack_open(pack, 0, busy);
    lli_frame_put_numbers(pack->at, count);
    pack->at += LLI_FRAME_NUMBERS_SIZE;
    pack->number += count;
    pack->lasting = true;
    pack_seal(pack);
    return true;
}

void lli_pack_flush(struct lli_pack *pack)
{
    if (lli_pack_pending(pack) && pack->claim == NULL)
        pack_seal(pack);
}
