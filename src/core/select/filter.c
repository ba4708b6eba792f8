/* SPDX-License-Identifier: Apache-2.0 */
#include "core/select/filter.h"

/* Converts bytes to little-endian words; most bitmaps consist of whole words. */
static void filter_words(const uint8_t *bytes, unsigned count, uint64_t *words)
{
    unsigned at = 0;

    for (; at + 8 <= count; at += 8)
        words[at / 8] = lli_load_u64(bytes + at);
    for (; at < count; at++)
        words[at / 8] |= (uint64_t)bytes[at] << at % 8 * 8;
}

bool lli_attributes_get(const uint8_t *bytes, uint32_t size, struct lli_attributes *attributes)
{
    static const uint8_t nothing[1];
    struct lli_reader reader = lli_reader_of(size == 0 ? nothing : bytes, size);
    const uint8_t *bitmap;
    uint8_t count;

    *attributes = (struct lli_attributes){.label = lli_read_u32(&reader), .properties = nothing};
    if (!reader.ok || size == 4)
        return reader.ok;
    count = lli_read_u8(&reader);
    bitmap = lli_read_bytes(&reader, count);
    if (bitmap == NULL || count > LLI_FRAME_BITMAP_MAX)
        return false;
    filter_words(bitmap, count, attributes->bitmap);
    attributes->bitmap_bytes = bitmap;
    attributes->bitmap_size = count;
    attributes->properties = reader.at;
    attributes->properties_size = (uint32_t)(reader.end - reader.at);
    return true;
}

bool lli_property_next(struct lli_reader *reader, struct llm_property *property)
{
    uint64_t bits;

    if (reader->at == reader->end)
        return false;
    property->code = lli_read_u16(reader);
    property->type = (enum llm_property_type)lli_read_u8(reader);
    switch (property->type) {
    case LLM_PROPERTY_INT32:
        property->value.int32 = (int32_t)lli_read_u32(reader);
        return reader->ok;
    case LLM_PROPERTY_INT64:
        property->value.int64 = (int64_t)lli_read_u64(reader);
        return reader->ok;
    case LLM_PROPERTY_DOUBLE:
        bits = lli_read_u64(reader);
        memcpy(&property->value.float64, &bits, sizeof bits);
        return reader->ok;
    case LLM_PROPERTY_BYTES:
        property->value.bytes.size = lli_read_u16(reader);
        property->value.bytes.data = lli_read_bytes(reader, property->value.bytes.size);
        return reader->ok;
    }
    return false;
}

static bool filter_wants_bitmap(const struct lli_filter *filter, const uint64_t *bitmap)
{
    uint64_t common = 0, wrong = 0;

    for (int i = 0; i < LLI_FILTER_WORDS; i++) {
        common |= bitmap[i] & filter->mask[i];
        wrong |= (bitmap[i] & filter->mask[i]) ^ filter->match[i];
    }
    return filter->any ? common != 0 : wrong == 0;
}

bool lli_filter_wants_deep(const struct lli_filter *filter, const uint8_t *bytes, uint32_t size)
{
    struct lli_attributes attributes;

    (void)lli_attributes_get(bytes, size, &attributes);
    return (!filter->bitmap || filter_wants_bitmap(filter, attributes.bitmap)) &&
           lli_selector_run(&filter->selector, attributes.properties, attributes.properties_size);
}

void lli_filter_finish(struct lli_filter *filter)
{
    filter->deep = filter->bitmap || filter->selector.count > 0;
    filter->all = !filter->deep && filter->labels_count == 0;
    filter->plain = lli_filter_wants(filter, NULL, 0);
}
