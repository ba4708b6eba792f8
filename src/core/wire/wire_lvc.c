/* SPDX-License-Identifier: Apache-2.0 */
/* Wire format of LVC messages sent to joining receivers (section 12.3). */
#include "core/wire/wire.h"

static uint8_t *put_place(uint8_t *at, const struct lli_wire_place *place)
{
    lli_store_u32(at, place->topic);
    lli_store_u64(at + 4, place->number);
    lli_store_u32(at + 12, place->offset);
    return at + 16;
}

static void get_place(struct lli_reader *reader, struct lli_wire_place *place)
{
    place->topic = lli_read_u32(reader);
    place->number = lli_read_u64(reader);
    place->offset = lli_read_u32(reader);
}

uint8_t *lli_wire_put_spans(uint8_t *at, const struct lli_wire_span *spans, uint16_t count)
{
    assert(count <= LLI_WIRE_SPANS_MAX);
    for (uint16_t i = 0; i < count; i++)
        at = put_place(put_place(at, &spans[i].from), &spans[i].to);
    return at;
}

void lli_wire_get_spans(struct lli_reader *reader, uint16_t count, struct lli_wire_span *spans)
{
    reader->ok &= count <= LLI_WIRE_SPANS_MAX;
    for (uint16_t i = 0; reader->ok && i < count; i++) {
        get_place(reader, &spans[i].from);
        get_place(reader, &spans[i].to);
        reader->ok &= lli_wire_is_before(&spans[i].from, &spans[i].to);
    }
}

size_t lli_wire_put_lvc(uint8_t *packet, const struct lli_wire_lvc *lvc, size_t size)
{
    const struct lli_wire_header header = {
        .type = LLI_WIRE_LVC, .size = (uint16_t)size, .tag = (uint32_t)lvc->session};
    uint8_t *at = packet + LLI_WIRE_HEADER;

    lli_wire_put_header(packet, &header);
    lli_store_u64(at, lvc->session);
    lli_store_u64(at + 8, lvc->receiver);
    lli_store_u64(at + 16, lvc->number);
    lli_store_u64(at + 24, lvc->next);
    at = lli_wire_put_spans(at + 32, &lvc->span, 1);
    lli_store_u16(at, lvc->left);
    lli_store_u16(at + 2, lvc->count);
    assert(at + 4 == packet + LLI_WIRE_LVC_HEAD);
    return size;
}

size_t lli_wire_add_record(uint8_t *packet, size_t used, size_t size, const struct lli_wire_record *record)
{
    uint8_t *at = packet + used;

    if (used + LLI_WIRE_RECORD_HEAD + record->size > size)
        return 0;
    at = put_place(at, &record->at);
    lli_store_u16(at, record->size);
    memcpy(at + 2, record->bytes, record->size);
    return used + LLI_WIRE_RECORD_HEAD + record->size;
}

bool lli_wire_next_record(struct lli_reader *records, struct lli_wire_record *record)
{
    if (records->at == records->end)
        return false;
    get_place(records, &record->at);
    record->size = lli_read_u16(records);
    record->bytes = lli_read_bytes(records, record->size);
    return records->ok;
}

/*
 * Checks all records, and excludes trailing bytes of later versions. False: a record is missing or outside
 * the span.
 */
static bool lvc_is_sound(const struct lli_wire_lvc *lvc, struct lli_reader *records)
{
    struct lli_wire_place at = lvc->span.from;
    struct lli_reader reader = *records;
    struct lli_wire_record record;

    for (uint16_t i = 0; i < lvc->count; i++) {
        if (!lli_wire_next_record(&reader, &record))
            return false;
        if (record.size == 0 || lli_wire_is_before(&record.at, &at) || record.at.number >= lvc->number ||
            record.at.offset > UINT32_MAX - record.size)
            return false;
        at = record.at;
        at.offset += record.size;
    }
    records->end = reader.at;
    return !lli_wire_is_before(&lvc->span.to, &at);
}

bool lli_wire_get_lvc(const uint8_t *body, size_t size, uint32_t tag, struct lli_wire_lvc *lvc,
                      struct lli_reader *records)
{
    struct lli_reader reader = lli_reader_of(body, size);

    lvc->session = lli_read_u64(&reader);
    lvc->receiver = lli_read_u64(&reader);
    lvc->number = lli_read_u64(&reader);
    lvc->next = lli_read_u64(&reader);
    lli_wire_get_spans(&reader, 1, &lvc->span);
    lvc->left = lli_read_u16(&reader);
    lvc->count = lli_read_u16(&reader);
    *records = reader;
    return reader.ok && (uint32_t)lvc->session == tag && lvc->number <= lvc->next && lvc->next <= INT64_MAX &&
           lvc_is_sound(lvc, records);
}
