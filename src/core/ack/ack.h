/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assured topics of a session (docs/protocol.md section 7.3): which of their messages are not acknowledged by as many receivers,
 * or by those receivers by name, that the topic asks for.
 *
 * A receiver acknowledges an unbroken run of messages, over all topics, which begins anew behind whatever it lost. A message
 * is acknowledged when enough such runs have it, so none is that its receivers gave up.
 */
#ifndef LLI_ACK_H
#define LLI_ACK_H

#include <llm/llm.h>

#include "core/base/arena.h"
#include "core/flow/members.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

enum { LLI_ACK_NAMES_MAX = 16 };

/* Who has to acknowledge, and how much may be unacknowledged until they did. */
struct lli_ack_rule {
    uint32_t receivers;
    uint32_t names;
    char name[LLI_ACK_NAMES_MAX][LLI_WIRE_RECEIVER_NAME_MAX + 1]; /* zero behind each */
    uint64_t messages_max;
    uint64_t bytes_max;
    lli_ns patience; /* after this the application is told what is waited for */
};

/* A message that is not acknowledged. */
struct lli_ack_message {
    uint64_t number;
    uint64_t bytes; /* of the topic, up to its end */
    lli_seq seq;    /* it starts in this packet or a later one */
};

/* What the application is told. */
struct lli_ack_news {
    bool acknowledged;
    uint64_t first; /* of the messages acknowledged since it was told */
    uint64_t last;
    enum llm_reason reason; /* what is waited for, LLM_REASON_NONE: nothing to tell of it */
    const char *receiver;   /* whom, if it has a name */
    uint32_t receivers;     /* so many can acknowledge, if they are too few */
};

/* A topic, in memory of whoever opened it. */
struct lli_ack_topic {
    struct lli_ack_rule rule;
    uint32_t id;
    const char *name;
    struct lli_ack_message *ring; /* a power of two, at least rule.messages_max */
    uint64_t mask;
    uint64_t head; /* the oldest message that is not acknowledged */
    uint64_t tail;
    uint64_t bytes;       /* sent */
    uint64_t bytes_acknowledged;
    uint64_t waited_head; /* `head` when it was last looked at ... */
    lli_ns waited_since;  /* ... and since when it has been that */
    enum llm_reason told; /* the reason that the application knows ... */
    const char *told_receiver; /* ... and of whom */
    struct lli_ack_news news;
};

/* What the member at the same place of their table holds: messages [from, next). */
struct lli_ack_held {
    uint64_t id; /* whose record it is, if that is still the member's */
    uint64_t from;
    uint64_t next;
    uint16_t accepts; /* topics, by their place */
    bool acknowledged; /* anything, ever */
    char name[LLI_WIRE_RECEIVER_NAME_MAX + 1];
};

struct lli_ack {
    struct lli_ack_topic *topics[LLI_WIRE_ASSURED_MAX];
    uint8_t count;
    struct lli_ack_held *table; /* by the index of a member */
    uint64_t *reached;     /* room to sort members by how far they are */
    uint64_t waiting;      /* messages that are not acknowledged, of all topics */
    lli_seq kept;          /* packets from this one on are kept, UINT64_MAX: any may go */
    bool untold;           /* something is to be told to the application */
};

void lli_ack_init(struct lli_ack *ack, uint32_t members_max, struct lli_arena *arena);

/* A topic that is not assured yet. */
static inline void lli_ack_topic_init(struct lli_ack_topic *topic, uint32_t id, const char *name)
{
    *topic = (struct lli_ack_topic){.id = id, .name = name};
}

/*
 * A rule for a topic, which must outlive the session, with a ring at least as large as what is unacknowledged and as it allows,
 * into which that is moved. Of nobody (no receivers, no names): all that was sent counts as done with, and ring may be NULL.
 * False, with nothing changed: there are LLI_WIRE_ASSURED_MAX others.
 */
bool lli_ack_set(struct lli_ack *ack, const struct lli_members *members, struct lli_ack_topic *topic,
                    const struct lli_ack_rule *rule, struct lli_ack_message *ring, uint64_t places);

/* Whether messages are to be acknowledged at all. */
static inline bool lli_ack_topic_is_on(const struct lli_ack_topic *topic)
{
    return topic->rule.receivers > 0 || topic->rule.names > 0;
}

static inline uint64_t lli_ack_topic_waiting(const struct lli_ack_topic *topic)
{
    return topic->tail - topic->head;
}

/* Whether one more message of this size may be unacknowledged. */
static inline bool lli_ack_topic_allows(const struct lli_ack_topic *topic, uint64_t size)
{
    return lli_ack_topic_waiting(topic) < topic->rule.messages_max &&
           topic->bytes - topic->bytes_acknowledged + size <= topic->rule.bytes_max;
}

/* A message was packed that lli_ack_topic_allows(), the next one of the session. */
void lli_ack_sent(struct lli_ack *ack, struct lli_ack_topic *topic, uint64_t number, lli_seq seq, uint64_t size);

/* What a member reported of the messages before `messages`. False: it speaks of others. */
bool lli_ack_report(struct lli_ack *ack, const struct lli_members *members, uint32_t index,
                       const struct lli_wire_status *status, uint64_t messages);

/*
 * The packet where the oldest message begins that waits for this member, as it reported, 0: none does. It is waited for by its
 * name, or as one of so many once it acknowledged anything; whether it counts while it is suspended makes no difference.
 */
lli_seq lli_ack_owes(const struct lli_ack *ack, const struct lli_members *members, uint32_t index);

/* Time has passed: somebody may have been waited for too long. */
void lli_ack_look(struct lli_ack *ack, const struct lli_members *members, lli_ns now);

/* The session is closed: what is not acknowledged never will be, and the application is told. True: there is such a message. */
bool lli_ack_close(struct lli_ack *ack);

/* What the application has not been told yet; false if that is nothing. */
bool lli_ack_event(struct lli_ack *ack, struct llm_event *event);

/* Packets after which receivers are to report, at most this many if that is not 0. */
uint32_t lli_ack_report_packets(const struct lli_ack *ack, uint32_t most);

#endif
