/* SPDX-License-Identifier: Apache-2.0 */
/* Topics of a followed session: names, and whether they are wanted. */
#ifndef LLI_TOPICS_H
#define LLI_TOPICS_H

#include "core/base/arena.h"
#include "core/base/types.h"

enum lli_topics_flags {
    LLI_TOPICS_REFUSED = 1,
    LLI_TOPICS_REPORTED = 2,
    LLI_TOPICS_UNSUBSCRIBED = 4, /* no subscription matches it */
    LLI_TOPICS_ASKED = 8,        /* ... one matched, and the accept predicate was asked */
    LLI_TOPICS_MISSED = 16,      /* ... one matches now, but messages were dropped before */
    LLI_TOPICS_COUNTED = 32,
    LLI_TOPICS_TRANSIENT = 64, /* the topic has no history */
    LLI_TOPICS_MARKS =
        LLI_TOPICS_REFUSED | LLI_TOPICS_UNSUBSCRIBED | LLI_TOPICS_COUNTED | LLI_TOPICS_TRANSIENT,
};

/* Messages and bytes sent, or delivered, on a topic. */
struct lli_topic_count {
    uint64_t messages;
    uint64_t bytes;
};

struct lli_topics {
    /* By id: enum lli_topics_flags, and above them the unit of text where the name begins; 0: unknown. */
    uint32_t *entries;
    char *text;     /* zero-terminated names, each from a unit on; the first unit is the empty name */
    uint32_t *all;  /* entries of all topics, to be used when there are more than `room` */
    uint32_t room;  /* entries; nothing is known of topics from here on */
    uint32_t known; /* all ids before this one are known */
    uint32_t limit;
    uint32_t text_used;
};

enum {
    LLI_TOPICS_FEW = 64,
    LLI_TOPICS_NAME_MEAN = 64, /* bytes of name storage per topic, on average */
    LLI_TOPICS_NAME_UNIT = 8,
    LLI_TOPICS_FLAGS_BITS = 8,
};

/* few: LLI_TOPICS_FEW entries, in use until there are more topics; NULL: none. The rest goes to the arena. */
void lli_topics_init(struct lli_topics *topics, uint32_t limit, uint32_t *few, struct lli_arena *arena);
void lli_topics_reset(struct lli_topics *topics);

/* Adds a name with its flags, as announced. False if it is known already, or there is no room. */
bool lli_topics_add(struct lli_topics *topics, uint32_t id, const uint8_t *name, size_t size);

/* Returns the entry of a topic; 0: nothing is known of it. */
static inline uint32_t lli_topics_entry(const struct lli_topics *topics, uint32_t id)
{
    return id < topics->room ? topics->entries[id] : 0;
}

/* Returns the name that an entry refers to, "" if unknown. */
static inline const char *lli_topics_entry_name(const struct lli_topics *topics, uint32_t entry)
{
    return topics->text + (size_t)(entry >> LLI_TOPICS_FLAGS_BITS) * LLI_TOPICS_NAME_UNIT;
}

/* Returns the name of a topic, "" if unknown. */
static inline const char *lli_topics_name(const struct lli_topics *topics, uint32_t id)
{
    return lli_topics_entry_name(topics, lli_topics_entry(topics, id));
}

/* Likewise, for a topic that has a name. */
static inline const char *lli_topics_known_name(const struct lli_topics *topics, uint32_t id)
{
    return lli_topics_entry_name(topics, topics->entries[id]);
}

static inline bool lli_topics_is_named(const struct lli_topics *topics, uint32_t id)
{
    return lli_topics_entry(topics, id) >> LLI_TOPICS_FLAGS_BITS != 0;
}

/* True if a topic has any of these flags, enum lli_topics_flags. */
static inline bool lli_topics_has(const struct lli_topics *topics, uint32_t id, uint32_t flags)
{
    return lli_topics_entry(topics, id) & flags;
}

/* Adds flags to a topic, named or not; ignored beyond the limit. */
void lli_topics_set(struct lli_topics *topics, uint32_t id, uint32_t flags);

/*
 * True if a topic needs more than delivery: refused, unsubscribed, counted or without history. Most do not.
 */
static inline bool lli_topics_is_marked(const struct lli_topics *topics, uint32_t id)
{
    return lli_topics_has(topics, id, LLI_TOPICS_MARKS);
}

/* True if a topic is known and needs nothing but delivery. */
static inline bool lli_topics_is_plain(const struct lli_topics *topics, uint32_t id)
{
    return id < topics->known && !(topics->entries[id] & LLI_TOPICS_MARKS);
}

static inline bool lli_topics_is_refused(const struct lli_topics *topics, uint32_t id)
{
    return lli_topics_has(topics, id, LLI_TOPICS_REFUSED | LLI_TOPICS_UNSUBSCRIBED);
}

static inline bool lli_topics_is_transient(const struct lli_topics *topics, uint32_t id)
{
    return lli_topics_has(topics, id, LLI_TOPICS_TRANSIENT);
}

/* True if no message of the topic was dropped. */
static inline bool lli_topics_is_complete(const struct lli_topics *topics, uint32_t id)
{
    return !lli_topics_has(topics, id, LLI_TOPICS_REFUSED | LLI_TOPICS_UNSUBSCRIBED | LLI_TOPICS_MISSED);
}

/* Notes if a subscription matches a topic. True at the first match: ask the accept predicate then. */
bool lli_topics_subscribe(struct lli_topics *topics, uint32_t id, bool subscribed);

#endif
