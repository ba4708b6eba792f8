/* SPDX-License-Identifier: Apache-2.0 */
#include "filter.h"

bool lli_attributes_get(const uint8_t *bytes, uint32_t size, struct lli_attributes *attributes)
{
    struct lli_reader reader = lli_reader_of(bytes, size);
    const uint8_t *bitmap;
    uint8_t count;

    *attributes = (struct lli_attributes){.label = lli_read_u32(&reader)};
    if (!reader.ok || size == 4)
        return reader.ok;
    count = lli_read_u8(&reader);
    bitmap = lli_read_bytes(&reader, count);
    if (bitmap == NULL || count > LLI_FRAME_BITMAP_MAX)
        return false;
    for (unsigned i = 0; i < count; i++)
        attributes->bitmap[i / 8] |= (uint64_t)bitmap[i] << i % 8 * 8;
    return true;
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
    return !filter->bitmap || filter_wants_bitmap(filter, attributes.bitmap);
}

void lli_filter_finish(struct lli_filter *filter)
{
    filter->deep = filter->bitmap;
    filter->plain = lli_filter_wants(filter, NULL, 0);
}
