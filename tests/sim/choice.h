/* SPDX-License-Identifier: Apache-2.0 */
/* Random filters and messages, and a model of filters by docs/protocol.md and the manual. */
#ifndef SIM_CHOICE_H
#define SIM_CHOICE_H

#include <llm/llm.h>

#include "wanted.h"

enum {
    CHOICE_LABELS_MAX = 3,
    CHOICE_BITMAP_BYTES = 10,
    CHOICE_BIG = 1200,
    CHOICE_MESSAGE_MAX = 4000,
    CHOICE_NAME_MAX = 24
};

/* A message as it was sent. */
struct message {
    uint32_t topic;
    uint32_t size;
    uint32_t label;
    uint32_t bits;
    uint8_t bitmap[CHOICE_BITMAP_BYTES];
    struct wanted_value properties[WANTED_CODES];
};

/* A filter. */
struct choice {
    bool filters; /* a filter is set, with or without a condition */
    uint32_t labels_count;
    struct llm_label_match labels[CHOICE_LABELS_MAX];
    uint32_t bits; /* 0: any bitmap */
    bool any;
    uint8_t mask[CHOICE_BITMAP_BYTES], match[CHOICE_BITMAP_BYTES];
    struct wanted_tree tree;
};

/* Draws another filter, or none. */
void choice_draw(struct choice *choice);

/* Converts to the library's structure, which points into the choice and to the names. */
void choice_filter(const struct choice *choice, struct llm_property_name names[WANTED_CODES],
                   struct llm_filter *filter);

bool choice_wants(const struct choice *choice, const struct message *message);

/* Draws a message on one of this many topics; without attributes it has none. */
void message_draw(struct message *message, uint32_t topics, bool attributes);

/* Converts to the library's structure, which points into the message and to the properties. */
void message_attributes(const struct message *message, struct llm_property properties[WANTED_CODES],
                        struct llm_attributes *attributes);

/* Returns true if a bit is set in a bitmap of this many bits. */
bool choice_bit(const uint8_t *bitmap, uint32_t bits, uint32_t bit);

/* Draws a name of a topic, or a subject: one to four elements; those of a subject may be wildcards. */
void choice_draw_name(char *name, bool subject);

#endif
