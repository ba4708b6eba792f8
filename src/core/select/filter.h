/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which messages a receiver wants, by what they say of themselves: a label, a bitmap and properties (docs/protocol.md section
 * 3.2), and whether a packet can have any that is wanted, by its summary (section 3.3).
 */
#ifndef LLI_FILTER_H
#define LLI_FILTER_H

#include <llm/llm.h>

#include "core/select/selector.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

enum { LLI_FILTER_WORDS = LLI_FRAME_BITMAP_MAX / 8 };

struct lli_filter {
    struct llm_label_match labels[LLM_LABELS_MAX]; /* any of them; match has no bit outside of mask */
    uint32_t labels_count; /* 0: whatever the label */
    bool deep;             /* more than the label is asked for */
    bool any;              /* of the bitmap: one bit of the mask is enough */
    bool bitmap;
    bool plain;            /* a message without attributes is wanted */
    bool all;              /* every message is: attributes are kept for the application, and that is all */
    uint64_t mask[LLI_FILTER_WORDS];
    uint64_t match[LLI_FILTER_WORDS];
    struct lli_selector selector;
};

/* What a frame of attributes says; what it does not say is 0. */
struct lli_attributes {
    uint32_t label;
    uint64_t bitmap[LLI_FILTER_WORDS];
    const uint8_t *bitmap_bytes; /* in the frame, as are the following */
    uint32_t bitmap_size;
    const uint8_t *properties;
    uint32_t properties_size;
};

/* Reads a frame behind its size. False: it contradicts itself, and says what was read before it did. */
bool lli_attributes_get(const uint8_t *bytes, uint32_t size, struct lli_attributes *attributes);

/*
 * Reads one of its properties, bytes where they lie; false: there is none, or it is of a type that this version does not have,
 * or does not end there.
 */
bool lli_property_next(struct lli_reader *reader, struct llm_property *property);

/* Once all conditions are set. */
void lli_filter_finish(struct lli_filter *filter);

/* The part of lli_filter_wants() beyond the label. */
bool lli_filter_wants_deep(const struct lli_filter *filter, const uint8_t *bytes, uint32_t size);

/* Whether a message is wanted that a frame of attributes stands before, of this size behind the field that says so. */
static inline bool lli_filter_wants(const struct lli_filter *filter, const uint8_t *bytes, uint32_t size)
{
    const uint32_t label = size < 4 ? 0 : lli_load_u32(bytes);
    bool wanted = filter->labels_count == 0;

    for (uint32_t i = 0; i < filter->labels_count && !wanted; i++)
        wanted = (label & filter->labels[i].mask) == filter->labels[i].match;
    return wanted && (!filter->deep || lli_filter_wants_deep(filter, bytes, size));
}

/* Whether labels with these bits, of which all have some, can be wanted. */
static inline bool lli_filter_may_want(const struct lli_filter *filter, uint32_t any, uint32_t all)
{
    bool may = filter->labels_count == 0;

    for (uint32_t i = 0; i < filter->labels_count && !may; i++)
        may = (filter->labels[i].match & ~any) == 0 && (filter->labels[i].mask & ~filter->labels[i].match & all) == 0;
    return may;
}

#endif
