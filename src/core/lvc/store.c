/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lvc/store.h"

#include "core/pack/pack.h"

/* Topics scanned for one packet: most may have nothing to send. */
enum { LVC_LOOKED_AT = 4096 };

/* Header of each copy in a ring. */
struct copy {
    uint64_t number;
    uint32_t size; /* of the frames that follow: attributes, message header and message */
};

/* --------------------------------------------------------------------------------------------- copies */

static uint64_t copy_stride(uint32_t bytes_max)
{
    return lli_round_up(sizeof(struct copy) + LLI_WIRE_FRAME_MAX + (uint64_t)bytes_max,
                        _Alignof(struct copy));
}

uint64_t lli_lvc_ring_size(uint32_t messages, uint32_t bytes_max)
{
    const uint64_t stride = copy_stride(bytes_max);

    return messages > UINT64_MAX / stride ? UINT64_MAX : messages * stride;
}

/* Returns the copy of the topic's stored message number `index`, counted from the first one stored. */
static struct copy *topic_copy(const struct lli_lvc_topic *topic, uint64_t index)
{
    return (struct copy *)(void *)(topic->ring + index % topic->messages * copy_stride(topic->bytes_max));
}

void lli_lvc_put(struct lli_lvc_topic *topic, uint64_t number, const struct lli_pack_attributes *attributes,
                 const struct iovec *pieces, uint32_t size)
{
    struct copy *copy = topic_copy(topic, topic->count++);
    uint8_t *const bytes = (uint8_t *)(copy + 1);
    uint8_t *at = bytes;

    assert(size + (attributes != NULL ? attributes->size : 0) <= topic->bytes_max);
    if (attributes != NULL) {
        memcpy(at, attributes->frame, attributes->size);
        at += attributes->size;
    }
    lli_frame_put_message(at, lli_frame_message_size(size), size);
    at += lli_frame_message_size(size);
    for (uint32_t left = size; left > 0; pieces++) {
        if (pieces->iov_len > 0)
            memcpy(at, pieces->iov_base, pieces->iov_len);
        at += pieces->iov_len;
        left -= (uint32_t)pieces->iov_len;
    }
    copy->number = number;
    copy->size = (uint32_t)(at - bytes);
}

uint32_t lli_lvc_attributes_max(uint32_t packet_size)
{
    /* A message's first part holds all its headers and at least a byte of the message. */
    return packet_size - LLI_WIRE_LVC_HEAD - LLI_WIRE_RECORD_HEAD - LLI_WIRE_FRAME_MAX - 1;
}

/* Returns the first copy in [low, high) whose message number is at least this; high: none. */
static uint64_t message_index(const struct lli_lvc_topic *topic, uint64_t low, uint64_t high, uint64_t number)
{
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;

        if (topic_copy(topic, middle)->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --------------------------------------------------------------------------------------------- topics */

void lli_lvc_init(struct lli_lvc *lvc, uint32_t topics_max, struct lli_arena *arena)
{
    *lvc = (struct lli_lvc){.count = 0};
    lvc->topics = lli_arena_take(arena, topics_max * sizeof *lvc->topics, 64);
    lvc->places = lli_arena_take(arena, LLI_LVC_PLACES * sizeof *lvc->places, 64);
    lvc->receivers = lli_arena_take(arena, LLI_LVC_PLACES * sizeof *lvc->receivers, 64);
}

/* Returns the first topic whose id is at least this. */
static uint32_t topic_index(const struct lli_lvc *lvc, uint32_t id)
{
    uint32_t low = 0, high = lvc->count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (lvc->topics[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void lli_lvc_add(struct lli_lvc *lvc, struct lli_lvc_topic *topic)
{
    const uint32_t at = topic_index(lvc, topic->id);

    memmove(lvc->topics + at + 1, lvc->topics + at, (lvc->count - at) * sizeof *lvc->topics);
    lvc->topics[at] = topic;
    lvc->count++;
    lvc->bytes += lli_lvc_ring_size(topic->messages, topic->bytes_max);
}

/* ------------------------------------------------------------------------------------------- requests */

/* Returns the entry of a receiver, a new one if it has none, or NULL. */
static struct lli_lvc_request *request_place(struct lli_lvc *lvc, uint64_t receiver)
{
    for (uint32_t i = 0; i < lvc->waiting; i++)
        if (lvc->receivers[i] == receiver)
            return &lvc->places[i];
    if (lvc->waiting == LLI_LVC_PLACES)
        return NULL;
    lvc->receivers[lvc->waiting] = receiver;
    return &lvc->places[lvc->waiting++];
}

void lli_lvc_drop(struct lli_lvc *lvc, uint32_t index)
{
    assert(index < lvc->waiting);
    lvc->waiting--;
    lvc->places[index] = lvc->places[lvc->waiting];
    lvc->receivers[index] = lvc->receivers[lvc->waiting];
}

bool lli_lvc_join(struct lli_lvc *lvc, uint64_t receiver, const struct lli_wire_join *join, uint64_t end)
{
    struct lli_lvc_request *place;

    if (lvc->count == 0 || join->count == 0 || join->wanted == 0)
        return true;
    place = request_place(lvc, receiver);
    if (place == NULL)
        return false;
    *place = (struct lli_lvc_request){
        .address = join->address,
        .number = lli_min(join->number, end),
        .most = join->value == 0 ? UINT64_MAX : join->value,
        .left = (uint32_t)lli_min(join->wanted, LLI_LVC_PACKETS_MAX),
        .count = join->count,
    };
    memcpy(place->spans, join->spans, join->count * sizeof *join->spans);
    return true;
}

/* -------------------------------------------------------------------------------------------- packets */

/* Packet being filled. */
struct filling {
    uint8_t *packet;
    size_t size;
    size_t used;
    uint16_t count;           /* number of records */
    struct lli_wire_place at; /* the packet covers everything before this position */
};

/*
 * Adds a copy to a packet, from filling->at up to before `end`; a copy too long for any packet is split.
 * False: the packet is full, and filling->at is where the next packet begins.
 */
static bool fill_record(struct filling *filling, const struct copy *copy, const struct lli_wire_place *end)
{
    const bool last = end->topic == filling->at.topic && end->number == copy->number;
    const uint32_t until = (uint32_t)lli_min(copy->size, last ? end->offset : UINT32_MAX);
    struct lli_wire_record record = {.at = filling->at,
                                     .bytes = (const uint8_t *)(copy + 1) + filling->at.offset};
    uint32_t part = until - filling->at.offset;
    size_t used, room = filling->size - filling->used;

    if (filling->used == LLI_WIRE_LVC_HEAD)
        part = (uint32_t)lli_min(part, room - LLI_WIRE_RECORD_HEAD);
    record.size = (uint16_t)lli_min(part, UINT16_MAX);
    used = lli_wire_add_record(filling->packet, filling->used, filling->size, &record);
    if (used == 0)
        return false;
    filling->used = used;
    filling->count++;
    filling->at.offset += record.size;
    return filling->at.offset == until;
}

/* Likewise for the copies of a topic that a receiver gets, from filling->at on. */
static bool fill_topic(struct filling *filling, const struct lli_lvc_topic *topic,
                       const struct lli_lvc_request *place, const struct lli_wire_place *end)
{
    const uint64_t oldest = topic->count - lli_min(topic->count, topic->messages);
    const uint64_t limit = message_index(topic, oldest, topic->count, place->number);
    const uint64_t first = limit - lli_min(limit - oldest, place->most);

    if (filling->at.topic < topic->id)
        filling->at = (struct lli_wire_place){.topic = topic->id};
    for (uint64_t i = message_index(topic, first, limit, filling->at.number); i < limit; i++) {
        const struct copy *copy = topic_copy(topic, i);

        if (copy->number > filling->at.number)
            filling->at = (struct lli_wire_place){.topic = topic->id, .number = copy->number};
        if (!lli_wire_is_before(&filling->at, end))
            break;
        if (filling->at.offset < copy->size && !fill_record(filling, copy, end))
            return false;
    }
    return true;
}

/* Fills a packet from the current span and shortens the span accordingly. */
static void fill_span(const struct lli_lvc *lvc, struct lli_lvc_request *place, struct filling *filling)
{
    struct lli_wire_span *span = &place->spans[place->at];
    uint32_t looked_at = 0;
    bool room = true;

    filling->at = span->from;
    for (uint32_t i = topic_index(lvc, span->from.topic); room && i < lvc->count; i++) {
        const struct lli_wire_place begin = {.topic = lvc->topics[i]->id};

        if (!lli_wire_is_before(&begin, &span->to))
            break;
        if (looked_at++ == LVC_LOOKED_AT) {
            filling->at = begin;
            room = false;
        } else {
            room = fill_topic(filling, lvc->topics[i], place, &span->to);
        }
    }
    if (room || !lli_wire_is_before(&filling->at, &span->to))
        filling->at = span->to;
    span->from = filling->at;
    place->at += !lli_wire_is_before(&span->from, &span->to);
    place->left = place->at < place->count ? place->left - 1 : 0;
}

size_t lli_lvc_next(struct lli_lvc *lvc, struct lli_wire_lvc *header, uint8_t *packet, size_t size,
                    struct lli_wire_address *to)
{
    struct filling filling = {.packet = packet, .size = size, .used = LLI_WIRE_LVC_HEAD};
    struct lli_lvc_request *place;

    assert(lvc->waiting > 0);
    if (lvc->turn >= lvc->waiting)
        lvc->turn = 0;
    place = &lvc->places[lvc->turn];
    *to = place->address;
    header->receiver = lvc->receivers[lvc->turn];
    header->number = place->number;
    header->span.from = place->spans[place->at].from;
    fill_span(lvc, place, &filling);
    header->span.to = filling.at;
    header->left = (uint16_t)place->left;
    header->count = filling.count;
    (void)lli_wire_put_lvc(packet, header, filling.used);
    if (place->left == 0)
        lli_lvc_drop(lvc, lvc->turn);
    lvc->turn++;
    return filling.used;
}
