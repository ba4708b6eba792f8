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
    uint32_t *names; /* by id: offset of the name in text plus one; 0: unknown */
    uint8_t *flags;  /* by id: enum lli_topics_flags */
    char *text;      /* zero-terminated names, one after the other */
    uint32_t text_size;
    uint32_t text_used;
    uint32_t limit;
    uint32_t known; /* all ids before this one are known */
};

/* Bytes of name storage per topic, on average. */
enum { LLI_TOPICS_NAME_MEAN = 64 };

void lli_topics_init(struct lli_topics *topics, uint32_t limit, struct lli_arena *arena);
void lli_topics_reset(struct lli_topics *topics);

/* Adds a name with its flags, as announced. False if it is known already, or there is no room. */
bool lli_topics_add(struct lli_topics *topics, uint32_t id, const uint8_t *name, size_t size);

/* Returns the name of a topic, "" if unknown. */
static inline const char *lli_topics_name(const struct lli_topics *topics, uint32_t id)
{
    return id < topics->limit && topics->names[id] != 0 ? topics->text + topics->names[id] - 1 : "";
}

/* Likewise, for a topic known to have a name. */
static inline const char *lli_topics_known_name(const struct lli_topics *topics, uint32_t id)
{
    return topics->text + topics->names[id] - 1;
}

/*
 * True if a topic needs more than delivery: refused, unsubscribed, counted or without history. Most do not.
 */
static inline bool lli_topics_is_marked(const struct lli_topics *topics, uint32_t id)
{
    return id < topics->limit && topics->flags[id] & LLI_TOPICS_MARKS;
}

/* True if a topic is known and needs nothing but delivery. */
static inline bool lli_topics_is_plain(const struct lli_topics *topics, uint32_t id)
{
    return id < topics->known && !(topics->flags[id] & LLI_TOPICS_MARKS);
}

static inline bool lli_topics_is_refused(const struct lli_topics *topics, uint32_t id)
{
    return id < topics->limit && topics->flags[id] & (LLI_TOPICS_REFUSED | LLI_TOPICS_UNSUBSCRIBED);
}

static inline bool lli_topics_is_transient(const struct lli_topics *topics, uint32_t id)
{
    return id < topics->limit && topics->flags[id] & LLI_TOPICS_TRANSIENT;
}

/* True if no message of the topic was dropped. */
static inline bool lli_topics_is_complete(const struct lli_topics *topics, uint32_t id)
{
    return !lli_topics_is_refused(topics, id) &&
           (id >= topics->limit || !(topics->flags[id] & LLI_TOPICS_MISSED));
}

/* Notes if a subscription matches a topic. True at the first match: ask the accept predicate then. */
bool lli_topics_subscribe(struct lli_topics *topics, uint32_t id, bool subscribed);

#endif
