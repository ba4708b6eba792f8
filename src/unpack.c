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

/* The message that was put together, once it is complete. */
static bool unpack_assembled(struct lli_unpack *unpack, struct lli_unpacked *out)
{
    if (unpack->have < unpack->total)
        return false;
    unpack->assembling = false;
    *out = (struct lli_unpacked){
        .kind = unpack->too_long ? LLI_UNPACK_TOO_LONG : LLI_UNPACK_MESSAGE,
        .topic = unpack->assembled_topic,
        .size = unpack->total,
        .data = unpack->buffer,
        .number = unpack->number - 1,
        .last = unpack->number - 1,
    };
    return true;
}

/* A message begins: true if it lies in this packet as a whole. */
static bool unpack_message(struct lli_unpack *unpack, uint32_t size, struct lli_unpacked *out)
{
    uint32_t left = (uint32_t)(unpack->end - unpack->at);

    unpack->number++;
    if (size <= left) {
        out->kind = LLI_UNPACK_MESSAGE;
        out->topic = unpack->topic;
        out->size = size;
        out->data = unpack->at;
        out->number = unpack->number - 1;
        unpack->at += size;
        return true;
    }
    unpack->assembling = true;
    unpack->too_long = size > unpack->buffer_size;
    unpack->total = size;
    unpack->have = 0;
    unpack->assembled_topic = unpack->topic;
    unpack_append(unpack, unpack->at, left);
    unpack->at = unpack->end;
    return false;
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
    if (unpack->assembling && unpack_assembled(unpack, out))
        return;
    while (unpack->at < unpack->end) {
        unpack->at = lli_frame_get(unpack->at, unpack->end, &frame);
        switch (frame.kind) {
        case LLI_FRAME_MESSAGE:
            if (unpack_message(unpack, frame.value, out))
                return;
            break;
        case LLI_FRAME_TOPIC:
            unpack->topic = frame.value;
            break;
        case LLI_FRAME_ANNOUNCE:
            *out = (struct lli_unpacked){
                .kind = LLI_UNPACK_ANNOUNCE, .topic = frame.value, .data = frame.bytes, .size = frame.bytes_size};
            return;
        case LLI_FRAME_SKIP:
            break;
        case LLI_FRAME_BAD:
            /* The messages that may be behind it are lost: the next packet's number tells how many. */
            unpack->malformed++;
            unpack->at = NULL;
            unpack->end = NULL;
            lli_unpack_break(unpack);
            out->kind = LLI_UNPACK_NONE;
            return;
        }
    }
    unpack->at = unpack->end = NULL;
    out->kind = LLI_UNPACK_NONE;
}
