/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of messages, and filters that select messages by them. Included by <llm/llm.h>, which states the
 * conventions.
 */
#ifndef LLM_FILTER_H
#define LLM_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llm/receiver.h>
#include <llm/transmitter.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LLM_BITMAP_BITS_MAX = 256 };

enum llm_property_type {
    LLM_PROPERTY_INT32 = 1,
    LLM_PROPERTY_INT64 = 2,
    LLM_PROPERTY_DOUBLE = 3,
    LLM_PROPERTY_BYTES = 4,
};

/* A property of a message; applications agree on the meaning of codes. */
struct llm_property {
    uint16_t code;
    enum llm_property_type type;
    union {
        int32_t int32;
        int64_t int64;
        double float64;
        struct {
            const void *data;
            uint32_t size;
        } bytes;
    } value;
};

/* Attributes of a message, for receivers with a filter: llm_receiver_filter(). */
struct llm_attributes {
    size_t size;          /* sizeof(struct llm_attributes), set by llm_attributes_init() */
    uint32_t label;       /* default 0, which is also the label of messages without attributes */
    uint32_t bitmap_bits; /* 0 to LLM_BITMAP_BITS_MAX; default 0: all bits are clear */
    /* (bitmap_bits + 7) / 8 bytes; bit n is bit n % 8, from the lowest, of byte n / 8 */
    const void *bitmap;
    const struct llm_property *properties; /* for selectors; no code twice */
    uint32_t properties_count;             /* default 0 */
};

/* Fills *attributes with the defaults. */
LLM_API void llm_attributes_init(struct llm_attributes *attributes);

/*
 * Sends a message with attributes, else as llm_send(). A label alone takes 7 bytes; a bitmap 1 byte more and
 * its own bytes; a property 3 bytes and its value, 2 more for LLM_PROPERTY_BYTES; a packet of such messages
 * 15. LLM_EINVAL: too many bits, a repeated code, or an unknown type; LLM_EMSGSIZE: also if the attributes
 * take more than 512 bytes, or do not fit into a packet.
 */
LLM_API int llm_send_with(struct llm_topic *topic, const void *data, size_t size,
                          const struct llm_attributes *attributes, unsigned flags);

enum {
    LLM_LABELS_MAX = 16,
    LLM_SELECTOR_MAX = 4096, /* bytes of a selector */
};

/* Name by which a selector refers to a property. */
struct llm_property_name {
    const char *name;
    uint16_t code;
};

/* A label matches if label & mask == match. */
struct llm_label_match {
    uint32_t mask;
    uint32_t match; /* must be 0 in bits that are not in mask */
};

/* Selects messages that meet every condition that is set. */
struct llm_filter {
    size_t size;           /* sizeof(struct llm_filter), set by llm_filter_init() */
    uint32_t labels_count; /* 0 (default): any label */
    /* Size of bitmap_mask and bitmap_match, 1 to LLM_BITMAP_BITS_MAX; further bits are ignored. */
    uint32_t bitmap_bits;
    const struct llm_label_match *labels; /* the label matches one of these; at most LLM_LABELS_MAX */
    const void *bitmap_mask; /* NULL (default): any bitmap; laid out as in struct llm_attributes */
    /* Bitmap & mask == match; NULL (default): at least one bit of the mask is set. */
    const void *bitmap_match;
    /*
     * Condition over properties, in the subset of SQL-92 that JMS has: AND OR NOT, = <> < <= > >=, + - * /,
     * BETWEEN, IN, LIKE with ESCAPE, IS NULL, numbers, 'strings', TRUE and FALSE, with the standard's
     * precedence; llm_receiver_filter(3) describes it. A message is wanted if the condition is true; a
     * property that a message does not have makes its expression unknown, as NULL does. NULL (default): any
     * properties.
     */
    const char *selector;
    /* Properties that the selector uses; copied, like all of this structure. */
    const struct llm_property_name *names;
    uint32_t names_count;
};

/* Fills *filter with the defaults: everything is wanted. */
LLM_API void llm_filter_init(struct llm_filter *filter);

/*
 * Sets the filter, which is copied: from the next packet on, messages that it does not select are not
 * delivered. They are counted as messages_rejected, and are not lost. Packets without a selected message, as
 * far as labels tell, are skipped whole and counted as packets_skipped. Messages without attributes have
 * label 0 and no bit set. NULL removes the filter. In sessions that were followed with a filter that has a
 * condition this receiver acknowledges nothing (llm_topic_assure()). Allowed in handlers. LLM_EINVAL: a
 * condition that nothing can meet, such as match with bits outside of mask, or too many of them, or a
 * selector that cannot be compiled: the log gives the column of the fault, in bytes from 1; LLM_EVERSION. The
 * filter set before stays in effect then.
 */
LLM_API int llm_receiver_filter(struct llm_receiver *receiver, const struct llm_filter *filter);

/*
 * Returns the attributes of a message, in a message handler of a receiver with a filter (one without a
 * condition suffices). bitmap is valid until the handler returns; properties_count is the number of
 * properties, and properties is NULL: llm_message_property() reads one. The caller sets attributes->size; of
 * an older version, whose size is smaller, the members that it has are filled. LLM_EINVAL: the message is not
 * one that the handler was called with, or the size is 0; LLM_ESTATE: there is no filter; LLM_EVERSION: the
 * size is larger than that of this library.
 */
LLM_API int llm_message_attributes(struct llm_receiver *receiver, const struct llm_message *message,
                                   struct llm_attributes *attributes);

/*
 * Returns the property with this code, in the same handlers; its bytes are valid until the handler returns.
 * LLM_ENOTFOUND: the message has none.
 */
LLM_API int llm_message_property(struct llm_receiver *receiver, const struct llm_message *message,
                                 uint16_t code, struct llm_property *property);

#ifdef __cplusplus
}
#endif

#endif
