/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack.h"

void lli_unpack_init(struct lli_unpack *unpack, uint8_t *buffer, uint32_t buffer_size)
{
    *unpack = (struct lli_unpack){.buffer = buffer, .buffer_size = buffer_size};
}

void lli_unpack_reset(struct lli_unpack *unpack, uint64_t number)
{
    unpack->at = unpack->end = NULL;
    unpack->number = number;
    unpack->topic = 0;
    unpack->broken = false;
    unpack->assembling = false;
}

void lli_unpack_break(struct lli_unpack *unpack)
{
    /* An incomplete message is lost with the packets. */
    if (unpack->assembling)
        unpack->number--;
    unpack->assembling = false;
    unpack->broken = true;
}

/* Whether a packet goes on where the one before ended. */
static bool unpack_continues(const struct lli_unpack *unpack, const struct lli_wire_header *header, size_t size)
{
    uint32_t left = unpack->assembling ? unpack->total - unpack->have : 0;

    return header->number == (uint32_t)unpack->number && header->first == (left < size ? left : size);
}

static void unpack_append(struct lli_unpack *unpack, const uint8_t *bytes, uint32_t size)
{
    if (!unpack->too_long)
        memcpy(unpack->buffer + unpack->have, bytes, size);
    unpack->have += size;
}

void lli_unpack_begin(struct lli_unpack *unpack, const struct lli_wire_header *header, const uint8_t *body, size_t size)
{
    if (!unpack->broken && !unpack_continues(unpack, header, size)) {
        unpack->malformed++;
        lli_unpack_break(unpack);
    }
    if (unpack->assembling)
        unpack_append(unpack, body, header->first);
    unpack->at = body + header->first;
    unpack->end = body + size;
    unpack->topic = 0;
    /* lli_unpack_next() reports the loss before it goes on. */
    unpack->resume = header->number;
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

bool lli_unpack_peek(struct lli_unpack *unpack, uint32_t *topic)
{
    struct lli_frame frame;

    if (unpack->broken)
        return false;
    if (unpack->assembling) {
        *topic = unpack->assembled_topic;
        return unpack->have == unpack->total && !unpack->too_long;
    }
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

/* The message that was put together. */
static int unpack_assembled(struct lli_unpack *unpack, const struct llm_message *like, struct llm_message *message)
{
    unpack->assembling = false;
    *message = *like;
    message->data = unpack->buffer;
    message->size = unpack->total;
    message->topic_id = unpack->assembled_topic;
    message->number = unpack->number - 1;
    return 1;
}

int lli_unpack_messages(struct lli_unpack *unpack, const struct llm_message *like, struct llm_message *messages, int max)
{
    const uint8_t *at = unpack->at;
    const uint8_t *end = unpack->end;
    struct lli_frame frame;
    int count = 0;

    if (unpack->assembling)
        return unpack_assembled(unpack, like, messages);
    while (count < max && at < end) {
        const uint8_t *data = lli_frame_get(at, end, &frame);

        /* One that goes on in the next packet is put together when those before it are done with. */
        if (frame.kind != LLI_FRAME_MESSAGE || frame.value > (size_t)(end - data))
            break;
        messages[count] = *like;
        messages[count].data = data;
        messages[count].size = frame.value;
        messages[count].topic_id = unpack->topic;
        messages[count].number = unpack->number + (unsigned)count;
        count++;
        at = data + frame.value;
    }
    unpack->number += (unsigned)count;
    unpack->at = at;
    return count;
}

/* A message begins that goes on in the next packet. */
static void unpack_begin_assembly(struct lli_unpack *unpack, uint32_t size)
{
    unpack->number++;
    unpack->assembling = true;
    unpack->too_long = size > unpack->buffer_size;
    unpack->total = size;
    unpack->have = 0;
    unpack->assembled_topic = unpack->topic;
    unpack_append(unpack, unpack->at, (uint32_t)(unpack->end - unpack->at));
    unpack->at = unpack->end;
}

/* The message that was to be put together is whole, but longer than the buffer. */
static void unpack_tell_too_long(struct lli_unpack *unpack, struct lli_unpacked *out)
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

    if (unpack->broken && unpack->at != NULL) {
        /* Numbers never go back: such a packet is not of this stream. */
        if ((int32_t)(unpack->resume - (uint32_t)unpack->number) < 0) {
            unpack->malformed++;
            unpack->at = unpack->end = NULL;
            out->kind = LLI_UNPACK_NONE;
            return;
        }
        (void)lli_unpack_lost_before(unpack, lli_seq_extend(unpack->number, unpack->resume), out);
        /* Where no frame starts, a lost message goes on; so it may in the next packet. */
        if (unpack->at == unpack->end) {
            unpack->at = unpack->end = NULL;
            unpack->broken = true;
        }
        return;
    }
    if (unpack->assembling && unpack->have == unpack->total) {
        assert(unpack->too_long);
        unpack_tell_too_long(unpack, out);
        return;
    }
    if (unpack->at < unpack->end) {
        unpack->at = lli_frame_get(unpack->at, unpack->end, &frame);
        if (frame.kind == LLI_FRAME_ANNOUNCE) {
            *out = (struct lli_unpacked){
                .kind = LLI_UNPACK_ANNOUNCE, .topic = frame.value, .data = frame.bytes, .size = frame.bytes_size};
            return;
        }
        if (frame.kind == LLI_FRAME_BAD) {
            /* The messages that may be behind it are lost: the next packet's number tells how many. */
            unpack->malformed++;
            lli_unpack_break(unpack);
        } else {
            assert(frame.kind == LLI_FRAME_MESSAGE && frame.value > (size_t)(unpack->end - unpack->at));
            unpack_begin_assembly(unpack, frame.value);
        }
    }
    unpack->at = unpack->end = NULL;
    out->kind = LLI_UNPACK_NONE;
}
