/* SPDX-License-Identifier: Apache-2.0 */
#include "choice.h"

#include <string.h>

#include "cable.h"

bool choice_bit(const uint8_t *bitmap, uint32_t bits, uint32_t bit)
{
    return bit < bits && bitmap[bit / 8] >> bit % 8 & 1;
}

bool choice_wants(const struct choice *choice, const struct message *message)
{
    bool wanted = choice->labels_count == 0, some = false, all = true;

    for (uint32_t i = 0; i < choice->labels_count; i++)
        wanted |= (message->label & choice->labels[i].mask) == choice->labels[i].match;
    for (uint32_t i = 0; i < choice->bits; i++) {
        const bool bit = choice_bit(message->bitmap, message->bits, i);

        if (choice_bit(choice->mask, choice->bits, i)) {
            some |= bit;
            all &= bit == choice_bit(choice->match, choice->bits, i);
        }
    }
    wanted &= choice->bits == 0 || (choice->any ? some : all);
    return !choice->filters || (wanted && wanted_is_true(&choice->tree, message->properties));
}

static void draw_bitmap(uint8_t *bitmap, uint32_t bits, uint32_t percent)
{
    memset(bitmap, 0, CHOICE_BITMAP_BYTES);
    for (uint32_t i = 0; i < bits; i++)
        if (cable_chance(percent))
            bitmap[i / 8] |= (uint8_t)(1u << i % 8);
}

void choice_draw(struct choice *choice)
{
    choice->filters = cable_chance(80);
    choice->labels_count = cable_chance(50) ? 0 : (uint32_t)cable_between(1, CHOICE_LABELS_MAX);
    for (uint32_t i = 0; i < choice->labels_count; i++) {
        choice->labels[i].mask = (uint32_t)cable_below(16);
        choice->labels[i].match = (uint32_t)cable_below(16) & choice->labels[i].mask;
    }
    choice->bits = cable_chance(50) ? 0 : (uint32_t)cable_between(1, 8 * CHOICE_BITMAP_BYTES);
    choice->any = cable_chance(50);
    draw_bitmap(choice->mask, choice->bits, choice->any ? 30 : 5);
    if (choice->bits > 0)
        choice->mask[0] |= 1;
    draw_bitmap(choice->match, choice->bits, 50);
    for (uint32_t i = 0; i < CHOICE_BITMAP_BYTES; i++)
        choice->match[i] &= choice->mask[i];
    choice->tree.count = 0;
    if (cable_chance(60))
        wanted_draw_tree(&choice->tree);
}

void choice_filter(const struct choice *choice, struct llm_property_name names[WANTED_CODES],
                   struct llm_filter *filter)
{
    for (uint32_t i = 0; i < WANTED_CODES; i++)
        names[i] = (struct llm_property_name){wanted_names[i], (uint16_t)(i + 1)};
    llm_filter_init(filter);
    filter->labels = choice->labels;
    filter->labels_count = choice->labels_count;
    filter->bitmap_bits = choice->bits;
    filter->bitmap_mask = choice->bits > 0 ? choice->mask : NULL;
    filter->bitmap_match = choice->bits > 0 && !choice->any ? choice->match : NULL;
    filter->selector = choice->tree.count > 0 ? wanted_text(&choice->tree) : NULL;
    filter->names = names;
    filter->names_count = WANTED_CODES;
}

void message_draw(struct message *message, uint32_t topics, bool attributes)
{
    static const enum wanted_kind kinds[WANTED_CODES] = {WANTED_INTEGER, WANTED_INTEGER, WANTED_REAL,
                                                         WANTED_STRING};

    *message =
        (struct message){.topic = (uint32_t)cable_below(topics), .size = (uint32_t)cable_between(8, 300)};
    if (cable_chance(8))
        message->size = (uint32_t)cable_between(CHOICE_BIG, CHOICE_MESSAGE_MAX);
    if (!attributes)
        return;
    message->label = (uint32_t)cable_below(16);
    message->bits = cable_chance(40) ? 0 : (uint32_t)cable_between(1, 8 * CHOICE_BITMAP_BYTES);
    draw_bitmap(message->bitmap, message->bits, 40);
    for (uint32_t i = 0; i < WANTED_CODES; i++)
        if (cable_chance(60))
            message->properties[i] = wanted_draw(
                i + 1 == WANTED_CODES ? WANTED_INTEGER + (uint32_t)cable_below(3) : kinds[i], false);
    /* The first code has 32-bit values. */
    message->properties[0].integer %= INT32_MAX;
}

static struct llm_property property_of(uint32_t i, const struct wanted_value *value)
{
    struct llm_property property = {.code = (uint16_t)(i + 1)};

    if (value->kind == WANTED_STRING) {
        property.type = LLM_PROPERTY_BYTES;
        property.value.bytes.data = value->string;
        property.value.bytes.size = (uint32_t)strlen(value->string);
    } else if (value->kind == WANTED_REAL) {
        property.type = LLM_PROPERTY_DOUBLE;
        property.value.float64 = value->real;
    } else if (i == 0) {
        property.type = LLM_PROPERTY_INT32;
        property.value.int32 = (int32_t)value->integer;
    } else {
        property.type = LLM_PROPERTY_INT64;
        property.value.int64 = value->integer;
    }
    return property;
}

void message_attributes(const struct message *message, struct llm_property properties[WANTED_CODES],
                        struct llm_attributes *attributes)
{
    llm_attributes_init(attributes);
    attributes->label = message->label;
    attributes->bitmap_bits = message->bits;
    attributes->bitmap = message->bitmap;
    attributes->properties = properties;
    for (uint32_t i = 0; i < WANTED_CODES; i++)
        if (message->properties[i].kind != WANTED_NOTHING)
            properties[attributes->properties_count++] = property_of(i, &message->properties[i]);
}

void choice_draw_name(char *name, bool subject)
{
    static const char *const elements[] = {"a", "b", "ab", "a*", ">b"};

    *name = '\0';
    for (uint64_t left = cable_between(1, 4); left > 0; left--) {
        const bool tail = subject && left == 1 && cable_chance(40);
        const char *element = elements[cable_chance(80) ? cable_below(2) : cable_below(5)];

        strcat(name, tail ? ">" : subject && cable_chance(30) ? "*" : element);
        if (left > 1)
            strcat(name, ".");
    }
}
