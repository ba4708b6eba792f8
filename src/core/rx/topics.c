/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rx/topics.h"

#include <string.h>

#include "core/wire/wire.h"

void lli_topics_init(struct lli_topics *topics, uint32_t limit, struct lli_arena *arena)
{
    *topics = (struct lli_topics){.limit = limit, .text_size = limit * LLI_TOPICS_NAME_MEAN + 256};
    topics->names = lli_arena_take(arena, limit * sizeof *topics->names, 64);
    topics->flags = lli_arena_take(arena, limit, 64);
    topics->text = lli_arena_take(arena, topics->text_size, 64);
}

void lli_topics_reset(struct lli_topics *topics)
{
    for (uint32_t id = 0; topics->text_used > 0 && id < topics->limit; id++)
        topics->names[id] = topics->flags[id] = 0;
    topics->text_used = 0;
    topics->known = 0;
}

bool lli_topics_add(struct lli_topics *topics, uint32_t id, const uint8_t *name, size_t size)
{
    uint8_t flags;

    size = lli_wire_get_name(name, size, &flags);
    if (id >= topics->limit || topics->names[id] != 0 || size == 0 ||
        topics->text_used + size + 1 > topics->text_size)
        return false;
    topics->names[id] = topics->text_used + 1;
    memcpy(topics->text + topics->text_used, name, size);
    topics->text[topics->text_used + size] = '\0';
    topics->text_used += (uint32_t)size + 1;
    if (flags & LLI_WIRE_TOPIC_TRANSIENT)
        topics->flags[id] |= LLI_TOPICS_TRANSIENT;
    while (topics->known < topics->limit && topics->names[topics->known] != 0)
        topics->known++;
    return true;
}

bool lli_topics_subscribe(struct lli_topics *topics, uint32_t id, bool subscribed)
{
    uint8_t *flags;

    if (id >= topics->limit)
        return false;
    flags = &topics->flags[id];
    if (!subscribed) {
        *flags |= LLI_TOPICS_UNSUBSCRIBED;
        return false;
    }
    if (*flags & LLI_TOPICS_UNSUBSCRIBED)
        *flags = (uint8_t)((*flags & ~LLI_TOPICS_UNSUBSCRIBED) | LLI_TOPICS_MISSED);
    if (*flags & LLI_TOPICS_ASKED)
        return false;
    *flags |= LLI_TOPICS_ASKED;
    return true;
}
