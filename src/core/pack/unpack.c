/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pack/unpack.h"

void lli_unpack_init(struct lli_unpack *unpack, uint8_t *buffer, uint32_t buffer_size)
{
    *unpack = (struct lli_unpack){.buffer = buffer, .buffer_size = buffer_size};
}

void lli_unpack_reset(struct lli_unpack *unpack, uint64_t number)
{
    unpack->at = unpack->end = NULL;
    unpack->rest = NULL;
    unpack->number = number;
    unpack->topic = 0;
    unpack->broken = false;
    unpack->assembling = false;
    unpack->passing = false;
}

void lli_unpack_break(struct lli_unpack *unpack)
{
    /* An incomplete message is lost with the packets. */
    if (unpack->assembling)
        unpack->number--;
    unpack->assembling = false;
    unpack->passing = false;
    unpack->broken = true;
    unpack->number_max = unpack->number + LLI_UNPACK_PACKET_MESSAGES;
    /* The packet before the loss is exhausted and has no information about it. */
    unpack->at = unpack->end = NULL;
    unpack->rest = NULL;
}

void lli_unpack_allow(struct lli_unpack *unpack, uint64_t packets, uint64_t number_max)
{
    const uint64_t messages = lli_min(packets, UINT32_MAX) * LLI_UNPACK_PACKET_MESSAGES;

    unpack->number_max = lli_max(lli_min(unpack->number_max + messages, number_max), unpack->number);
}

/* True if a packet continues where the previous one ended. */
static bool unpack_continues(const struct lli_unpack *unpack, const struct lli_wire_header *header,
                             size_t size)
{
    uint32_t left = unpack->assembling ? unpack->total - unpack->have : 0;

    return header->number == (uint32_t)unpack->number && header->first == (left < size ? left : size);
}

static void unpack_append(struct lli_unpack *unpack, const uint8_t *bytes, uint32_t size)
{
    uint8_t *to = unpack->buffer + unpack->start + unpack->have;

    unpack->have += size;
    if (!unpack->too_long)
        memcpy(to, bytes, size);
}

/*
 * True if a packet after a loss can belong to this stream: message numbers never decrease, and the loss
 * explains only so many.
 */
static bool unpack_is_credible(const struct lli_unpack *unpack, const struct lli_wire_header *header)
{
    const int32_t lost = (int32_t)(header->number - (uint32_t)unpack->number);

    return lost >= 0 && (uint64_t)lost <= unpack->number_max - unpack->number;
}

/* Skips a packet that does not belong to this stream; the genuine packet in its place is lost. */
static void unpack_pass_over(struct lli_unpack *unpack)
{
    unpack->malformed++;
    unpack->number_max += LLI_UNPACK_PACKET_MESSAGES;
    unpack->at = unpack->end = NULL;
}

void lli_unpack_begin_other(struct lli_unpack *unpack, const struct lli_wire_header *header,
                            const uint8_t *body, size_t size)
{
    if (!unpack->broken && !unpack_continues(unpack, header, size)) {
        const bool in_order = header->number == (uint32_t)unpack->number;

        lli_unpack_break(unpack);
        if (!in_order) {
            unpack_pass_over(unpack);
            return;
        }
        unpack->malformed++;
    }
    if (unpack->broken && !unpack_is_credible(unpack, header)) {
        unpack_pass_over(unpack);
        return;
    }
    unpack->at = body + header->first;
    unpack->end = body + size;
    unpack->topic = 0;
    unpack->given = false;
    /* lli_unpack_next() reports the loss before it continues. */
    unpack->resume = header->number;
    if (unpack->assembling)
        unpack_append(unpack, body, header->first);
}

/*
 * Returns where message `number` starts, including its attributes, and its topic, or the frame that skips the
 * number, in a packet whose first message has number `first`; NULL: it does not start there.
 */
static const uint8_t *unpack_find(const uint8_t *at, const uint8_t *end, uint64_t first, uint64_t number,
                                  uint32_t *topic)
{
    const uint8_t *attributes = NULL;
    struct lli_frame frame;

    *topic = 0;
    while (at < end) {
        const uint8_t *next = lli_frame_get(at, end, &frame);

        if (frame.kind == LLI_FRAME_BAD)
            return NULL;
        if (frame.kind == LLI_FRAME_TOPIC)
            *topic = frame.value;
        if (frame.kind == LLI_FRAME_NUMBERS && number - first < frame.value)
            return at;
        if (frame.kind == LLI_FRAME_MESSAGE) {
            if (first++ == number)
                return attributes != NULL ? attributes : at;
            if (frame.value > (size_t)(end - next))
                return NULL;
            next += frame.value;
        }
        attributes = *at == LLI_FRAME_ATTRIBUTES ? at : NULL;
        at = next;
    }
    return NULL;
}

bool lli_unpack_enter(struct lli_unpack *unpack, const struct lli_wire_header *header, const uint8_t *body,
                      size_t size, uint64_t number)
{
    const uint64_t first = lli_seq_extend(number, header->number);
    uint32_t topic;
    const uint8_t *at = unpack_find(body + header->first, body + size, first, number, &topic);

    if (at == NULL) {
        lli_unpack_begin(unpack, header, body, size);
        return false;
    }
    lli_unpack_reset(unpack, *at == LLI_FRAME_SKIPPED ? first : number);
    unpack->at = at;
    unpack->end = body + size;
    unpack->topic = topic;
    unpack->given = false;
    return true;
}

uint32_t lli_unpack_count(const uint8_t *packet, size_t size)
{
    struct lli_wire_header header;
    const uint8_t *at, *end;
    uint32_t messages = 0;
    struct lli_frame frame;

    if (lli_wire_get_header(packet, size, &header, &at, &size) != LLI_WIRE_OK || header.type != LLI_WIRE_DATA)
        return 0;
    end = at + size;
    at += header.first;
    while (at < end) {
        at = lli_frame_get(at, end, &frame);
        if (frame.kind == LLI_FRAME_BAD)
            break;
        if (frame.kind == LLI_FRAME_NUMBERS)
            messages += frame.value;
        if (frame.kind != LLI_FRAME_MESSAGE)
            continue;
        messages++;
        if (frame.value > (size_t)(end - at))
            break;
        at += frame.value;
    }
    return messages;
}

bool lli_unpack_lost_before(struct lli_unpack *unpack, uint64_t number, struct lli_unpacked *out)
{
    if (!unpack->broken)
        return false;
    *out = (struct lli_unpacked){.kind = LLI_UNPACK_LOST, .number = unpack->number, .last = number - 1};
    unpack->broken = false;
    unpack->number = number;
    return true;
}

bool lli_unpack_peek_rare(struct lli_unpack *unpack, uint32_t *topic)
{
    struct lli_frame frame;

    while (unpack->at < unpack->end) {
        const uint8_t *next = lli_frame_get(unpack->at, unpack->end, &frame);

        if (frame.kind == LLI_FRAME_TOPIC)
            unpack->topic = frame.value;
        else if (frame.kind != LLI_FRAME_SKIP)
            break;
        unpack->at = next;
    }
    *topic = unpack->topic;
    return unpack->at < unpack->end && frame.kind == LLI_FRAME_MESSAGE;
}

static inline struct llm_message unpack_message(const struct llm_message *like, const uint8_t *data,
                                                uint32_t size, uint32_t topic, uint64_t number)
{
    return (struct llm_message){
        .data = data,
        .size = size,
        .topic_id = topic,
        .topic = like->topic,
        .number = number,
        .session = like->session,
        .received_at = like->received_at,
    };
}

/* Finds room in the buffer besides the message returned from this packet. False if there is not enough. */
static bool unpack_place(struct lli_unpack *unpack, uint32_t size)
{
    if (!unpack->given || size <= unpack->start) {
        unpack->start = 0;
        return true;
    }
    if ((uint64_t)unpack->start + unpack->total + size > unpack->buffer_size)
        return false;
    unpack->start += unpack->total;
    return true;
}

/* Starts reassembly of a message that continues in the next packet; its first bytes end this one. */
static void unpack_begin_assembly(struct lli_unpack *unpack, const uint8_t *bytes, uint32_t size)
{
    unpack->assembling = true;
    unpack->too_long = size > unpack->buffer_size;
    unpack->total = size;
    unpack->have = 0;
    unpack->assembled_topic = unpack->topic;
    unpack_append(unpack, bytes, (uint32_t)(unpack->end - bytes));
}

int lli_unpack_messages(struct lli_unpack *unpack, const struct llm_message *like,
                        struct llm_message *messages, int max)
{
    const struct llm_message *full = messages + max;
    const uint32_t topic = unpack->topic;
    const uint8_t *at = unpack->at;
    const uint8_t *end = unpack->end;
    struct llm_message *message = messages;
    uint64_t number = unpack->number;
    struct lli_frame frame;

    if (unpack->assembling) {
        unpack->assembling = false;
        unpack->given = true;
        *message++ = unpack_message(like, unpack->buffer + unpack->start, unpack->total,
                                    unpack->assembled_topic, number - 1);
        if (unpack->assembled_topic != topic)
            return 1;
    }
    for (; message < full && at < end; at += frame.value) {
        const uint8_t *next = lli_frame_get(at, end, &frame);

        if (frame.kind != LLI_FRAME_MESSAGE)
            break;
        if (frame.value > (size_t)(end - next)) {
            if (unpack_place(unpack, frame.value)) {
                unpack_begin_assembly(unpack, next, frame.value);
                number++;
                at = end;
            }
            break;
        }
        at = next;
        *message++ = unpack_message(like, at, frame.value, topic, number++);
    }
    unpack->number = number;
    unpack->at = at;
    return (int)(message - messages);
}

/* Reports a message that is complete but longer than the buffer. */
static void unpack_report_too_long(struct lli_unpack *unpack, struct lli_unpacked *out)
{
    unpack->assembling = false;
    *out = (struct lli_unpacked){
        .kind = LLI_UNPACK_TOO_LONG,
        .topic = unpack->assembled_topic,
        .size = unpack->total,
        .number = unpack->number - 1,
        .last = unpack->number - 1,
    };
}

void lli_unpack_next(struct lli_unpack *unpack, struct lli_unpacked *out)
{
    struct lli_frame frame;

    unpack->rest = NULL;
    if (unpack->broken && unpack->at != NULL) {
        (void)lli_unpack_lost_before(unpack, lli_seq_extend(unpack->number, unpack->resume), out);
        /* In a packet without a frame start, a lost message continues, perhaps into the next packet. */
        if (unpack->at == unpack->end) {
            unpack->at = unpack->end = NULL;
            unpack->broken = true;
        }
        return;
    }
    if (unpack->assembling && unpack->have == unpack->total) {
        assert(unpack->too_long);
        unpack_report_too_long(unpack, out);
        return;
    }
    if (unpack->at < unpack->end) {
        unpack->at = lli_frame_get(unpack->at, unpack->end, &frame);
        if (frame.kind == LLI_FRAME_ANNOUNCE) {
            *out = (struct lli_unpacked){.kind = LLI_UNPACK_ANNOUNCE,
                                         .topic = frame.value,
                                         .data = frame.bytes,
                                         .size = frame.bytes_size};
            return;
        }
        if (frame.kind == LLI_FRAME_NUMBERS) {
            *out = (struct lli_unpacked){.kind = LLI_UNPACK_SKIPPED,
                                         .number = unpack->number,
                                         .last = unpack->number + frame.value - 1};
            unpack->number += frame.value;
            return;
        }
        if (frame.kind == LLI_FRAME_BAD) {
            /* Messages after this frame, if any, are lost: the next packet's number gives the count. */
            unpack->malformed++;
            lli_unpack_break(unpack);
        } else {
            assert(frame.kind == LLI_FRAME_MESSAGE && frame.value > (size_t)(unpack->end - unpack->at));
            unpack->given = false;
            (void)unpack_place(unpack, frame.value);
            unpack_begin_assembly(unpack, unpack->at, frame.value);
            unpack->number++;
        }
    }
    unpack->at = unpack->end = NULL;
    out->kind = LLI_UNPACK_NONE;
}
