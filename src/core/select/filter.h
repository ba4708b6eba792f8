/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiver-side message filter over label, bitmap and properties (docs/protocol.md section 3.2). A packet's
 * summary (section 3.3) tells if the packet can hold a wanted message.
 */
#ifndef LLI_FILTER_H
#define LLI_FILTER_H

#include <llm/llm.h>

#include "core/select/selector.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

enum { LLI_FILTER_WORDS = LLI_FRAME_BITMAP_MAX / 8 };

struct lli_filter {
    /* One of them has to match; match has no bit outside of mask. */
    struct llm_label_match labels[LLM_LABELS_MAX];
    uint32_t labels_count; /* 0: every label is wanted */
    bool deep;             /* more than the label is tested */
    bool any;              /* bitmap: one bit of the mask is enough */
    bool bitmap;
    bool plain; /* messages without attributes are wanted */
    bool all;   /* every message is wanted: attributes are only passed to the application */
    uint64_t mask[LLI_FILTER_WORDS];
    uint64_t match[LLI_FILTER_WORDS];
    struct lli_selector selector;
};

/* Decoded frame of attributes; absent fields are 0. */
struct lli_attributes {
    uint32_t label;
    uint64_t bitmap[LLI_FILTER_WORDS];
    const uint8_t *bitmap_bytes; /* points into the frame, as do the next fields */
    uint32_t bitmap_size;
    const uint8_t *properties;
    uint32_t properties_size;
};

/*
 * Decodes an attribute frame, given without its code and size fields. False: the frame is malformed; the
 * fields read before the fault are valid.
 */
bool lli_attributes_get(const uint8_t *bytes, uint32_t size, struct lli_attributes *attributes);

/*
 * Reads the next property; its bytes stay in the frame. False: no property is left, or the next one is
 * truncated or of an unknown type.
 */
bool lli_property_next(struct lli_reader *reader, struct llm_property *property);

/* Completes a filter once all its conditions are set. */
void lli_filter_finish(struct lli_filter *filter);

/* Part of lli_filter_wants() beyond the label. */
bool lli_filter_wants_deep(const struct lli_filter *filter, const uint8_t *bytes, uint32_t size);

/*
 * True if a message with this frame of attributes is wanted. bytes and size: the frame without its code and
 * size fields.
 */
static inline bool lli_filter_wants(const struct lli_filter *filter, const uint8_t *bytes, uint32_t size)
{
    const uint32_t label = size < 4 ? 0 : lli_load_u32(bytes);
    bool wanted = filter->labels_count == 0;

    for (uint32_t i = 0; i < filter->labels_count && !wanted; i++)
        wanted = (label & filter->labels[i].mask) == filter->labels[i].match;
    return wanted && (!filter->deep || lli_filter_wants_deep(filter, bytes, size));
}

/* True if a label can be wanted, given the bits that any label has and the bits that all labels have. */
static inline bool lli_filter_may_want(const struct lli_filter *filter, uint32_t any, uint32_t all)
{
    bool may = filter->labels_count == 0;

    for (uint32_t i = 0; i < filter->labels_count && !may; i++)
        may = (filter->labels[i].match & ~any) == 0 &&
              (filter->labels[i].mask & ~filter->labels[i].match & all) == 0;
    return may;
}

#endif
