/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rx/topics.h"

#include <string.h>

#include "core/wire/wire.h"

static uint32_t topics_text_size(const struct lli_topics *topics)
{
    return topics->limit * LLI_TOPICS_NAME_MEAN + 256 + LLI_TOPICS_NAME_UNIT;
}

void lli_topics_init(struct lli_topics *topics, uint32_t limit, uint32_t *few, struct lli_arena *arena)
{
    *topics = (struct lli_topics){.limit = limit, .text_used = LLI_TOPICS_NAME_UNIT};
    assert(topics_text_size(topics) / LLI_TOPICS_NAME_UNIT < UINT32_MAX >> LLI_TOPICS_FLAGS_BITS);
    topics->all = lli_arena_take(arena, limit * sizeof *topics->all, 64);
    topics->text = lli_arena_take(arena, topics_text_size(topics), 64);
    topics->entries = few != NULL ? few : topics->all;
    topics->room = few != NULL ? (uint32_t)lli_min(limit, LLI_TOPICS_FEW) : limit;
}

/* Returns the entry of a topic to change it; NULL: it is beyond the limit. */
static uint32_t *topics_entry(struct lli_topics *topics, uint32_t id)
{
    if (id >= topics->limit)
        return NULL;
    if (id >= topics->room) {
        memcpy(topics->all, topics->entries, topics->room * sizeof *topics->all);
        topics->entries = topics->all;
        topics->room = topics->limit;
    }
    return &topics->entries[id];
}

void lli_topics_set(struct lli_topics *topics, uint32_t id, uint32_t flags)
{
    uint32_t *entry = topics_entry(topics, id);

    if (entry != NULL)
        *entry |= flags;
}

void lli_topics_reset(struct lli_topics *topics)
{
    for (uint32_t id = 0; topics->text_used > LLI_TOPICS_NAME_UNIT && id < topics->room; id++)
        topics->entries[id] = 0;
    topics->text_used = LLI_TOPICS_NAME_UNIT;
    topics->known = 0;
}

bool lli_topics_add(struct lli_topics *topics, uint32_t id, const uint8_t *name, size_t size)
{
    uint32_t *entry = topics_entry(topics, id);
    uint8_t flags;

    size = lli_wire_get_name(name, size, &flags);
    if (entry == NULL || lli_topics_is_named(topics, id) || size == 0 ||
        topics->text_used + size + 1 > topics_text_size(topics))
        return false;
    *entry |= topics->text_used / LLI_TOPICS_NAME_UNIT << LLI_TOPICS_FLAGS_BITS;
    memcpy(topics->text + topics->text_used, name, size);
    topics->text[topics->text_used + size] = '\0';
    topics->text_used += (uint32_t)lli_round_up(size + 1, LLI_TOPICS_NAME_UNIT);
    if (flags & LLI_WIRE_TOPIC_TRANSIENT)
        *entry |= LLI_TOPICS_TRANSIENT;
    while (lli_topics_is_named(topics, topics->known))
        topics->known++;
    return true;
}

bool lli_topics_subscribe(struct lli_topics *topics, uint32_t id, bool subscribed)
{
    uint32_t *entry = topics_entry(topics, id);

    if (entry == NULL)
        return false;
    if (!subscribed) {
        *entry |= LLI_TOPICS_UNSUBSCRIBED;
        return false;
    }
    if (*entry & LLI_TOPICS_UNSUBSCRIBED)
        *entry = (*entry & ~(uint32_t)LLI_TOPICS_UNSUBSCRIBED) | LLI_TOPICS_MISSED;
    if (*entry & LLI_TOPICS_ASKED)
        return false;
    *entry |= LLI_TOPICS_ASKED;
    return true;
}
