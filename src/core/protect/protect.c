/* SPDX-License-Identifier: Apache-2.0 */
#include "core/protect/protect.h"

#include <string.h>

/* Offsets in the last bytes, which all packets have; those of the others than DATA have 16 more before. */
enum {
    AFTER_EPOCH = 0,
    AFTER_SUITE = 2,
    AFTER_MODE = 3,
    AFTER_TAG = 4,
    CONTROL_COUNTER = 8,
    CONTROL_FIELDS = 16
};

static struct lli_protect_parts parts_of(const uint8_t *packet, uint32_t size, uint32_t after)
{
    const bool is_data = lli_protect_is_data(packet);
    const uint32_t head = is_data ? LLI_WIRE_DATA_HEADER : LLI_WIRE_HEADER;

    return (struct lli_protect_parts){
        .is_data = is_data,
        .head = head,
        .body = size - head,
        .after = after,
        .tag = size + after - LLI_PROTECT_TAG,
        .session_tag = lli_load_u32(packet + 4),
        .seq = lli_load_u32(packet + 8),
    };
}

bool lli_protect_begin(uint8_t *packet, uint32_t size, const struct lli_protect_fields *fields,
                       struct lli_protect_parts *parts)
{
    const uint32_t after = lli_protect_is_data(packet) ? LLI_PROTECT_DATA : LLI_PROTECT_CONTROL;
    uint8_t *at = packet + size;

    if (size + after > UINT16_MAX)
        return false;
    *parts = parts_of(packet, size, after);
    packet[0] = (uint8_t)(LLI_PROTECT_VERSION << 4 | (packet[0] & 15));
    lli_wire_put_size(packet, (uint16_t)(size + after));
    if (!parts->is_data) {
        lli_store_u64(at, fields->sender);
        lli_store_u64(at + CONTROL_COUNTER, fields->counter);
        at += CONTROL_FIELDS;
    }
    lli_store_u16(at + AFTER_EPOCH, fields->epoch);
    at[AFTER_SUITE] = fields->suite;
    at[AFTER_MODE] = fields->mode;
    return true;
}

bool lli_protect_parse(const uint8_t *packet, size_t size, struct lli_protect_fields *fields,
                       struct lli_protect_parts *parts)
{
    const uint8_t *at;
    uint32_t least, after;

    if (size < LLI_WIRE_HEADER || size > UINT16_MAX || lli_load_u16(packet + LLI_WIRE_SIZE_AT) != size ||
        packet[1] & LLI_WIRE_FLAG_EXTENDED)
        return false;
    after = lli_protect_is_data(packet) ? LLI_PROTECT_DATA : LLI_PROTECT_CONTROL;
    least = (lli_protect_is_data(packet) ? LLI_WIRE_DATA_HEADER : LLI_WIRE_HEADER) + after;
    if (size < least)
        return false;
    *parts = parts_of(packet, (uint32_t)size - after, after);
    at = packet + size - LLI_PROTECT_DATA;
    *fields = (struct lli_protect_fields){
        .epoch = lli_load_u16(at + AFTER_EPOCH), .suite = at[AFTER_SUITE], .mode = at[AFTER_MODE]};
    if (!parts->is_data) {
        fields->sender = lli_load_u64(at - CONTROL_FIELDS);
        fields->counter = lli_load_u64(at - CONTROL_FIELDS + CONTROL_COUNTER);
    }
    return true;
}

uint32_t lli_protect_clear(const uint8_t *packet, const struct lli_protect_parts *parts,
                           uint8_t clear[LLI_PROTECT_CLEAR_MAX])
{
    const uint32_t after = parts->after - LLI_PROTECT_TAG;

    memcpy(clear, packet, parts->head);
    memcpy(clear + parts->head, packet + parts->head + parts->body, after);
    return parts->head + after;
}

void lli_protect_restore(const uint8_t *packet, const struct lli_protect_parts *parts, uint8_t *to)
{
    memcpy(to, packet, parts->head);
    to[0] = (uint8_t)(LLI_WIRE_VERSION << 4 | (to[0] & 15));
    lli_wire_put_size(to, (uint16_t)(parts->head + parts->body));
}

void lli_protect_nonce(const uint8_t iv[LLI_PROTECT_NONCE], uint64_t number, uint8_t nonce[LLI_PROTECT_NONCE])
{
    memcpy(nonce, iv, LLI_PROTECT_NONCE);
    lli_store_u64(nonce + 4, lli_load_u64(iv + 4) ^ number);
}

void lli_protect_purpose(bool is_data, const struct lli_protect_fields *fields, uint64_t identity,
                         uint64_t block, uint8_t purpose[LLI_PROTECT_PURPOSE])
{
    memcpy(purpose, is_data ? "llm data" : "llm ctrl", 8);
    purpose[8] = fields->mode;
    purpose[9] = fields->suite;
    lli_store_u16(purpose + 10, fields->epoch);
    purpose[12] = 0;
    lli_store_u64(purpose + 13, identity);
    lli_store_u64(purpose + 21, block);
}

uint32_t lli_protect_name(uint8_t packet[LLI_PROTECT_NAME_MAX], uint64_t session, uint32_t topic,
                          const uint8_t *name, size_t size)
{
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .size = (uint16_t)(LLI_WIRE_DATA_HEADER + size),
                                           .tag = (uint32_t)session,
                                           .seq = topic};

    assert(size <= LLI_WIRE_NAME_MAX);
    lli_wire_put_header(packet, &header);
    memcpy(packet + LLI_WIRE_DATA_HEADER, name, size);
    return header.size;
}

/* ------------------------------------------------------------------------------------- control packets */

bool lli_protect_is_new(const struct lli_protect_replay *replay, uint64_t counter)
{
    if (counter > replay->highest)
        return true;
    return replay->highest - counter < 64 && !(replay->seen >> (replay->highest - counter) & 1);
}

void lli_protect_note(struct lli_protect_replay *replay, uint64_t counter)
{
    if (counter > replay->highest) {
        const uint64_t by = counter - replay->highest;

        replay->seen = (by < 64 ? replay->seen << by : 0) | 1;
        replay->highest = counter;
    } else {
        replay->seen |= (uint64_t)1 << (replay->highest - counter);
    }
}
