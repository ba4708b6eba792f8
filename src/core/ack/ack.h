/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assured topics of a session (docs/protocol.md section 7.3): tracks messages until as many receivers as the
 * topic asks for, and those that it names, have acknowledged them.
 *
 * A receiver acknowledges an unbroken run of messages over all topics; after a loss its run restarts. A
 * message is acknowledged when enough runs include it, so a message that receivers gave up never is.
 */
#ifndef LLI_ACK_H
#define LLI_ACK_H

#include <llm/llm.h>

#include "core/ack/ack_name.h"
#include "core/base/arena.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

struct lli_members;

enum { LLI_ACK_NAMES_MAX = 16 };

/* Acknowledgement rule of a topic: receivers required, and limits on unacknowledged messages. */
struct lli_ack_rule {
    uint32_t receivers;
    uint32_t names;
    struct lli_ack_name name[LLI_ACK_NAMES_MAX];
    uint64_t messages_max;
    uint64_t bytes_max;
    lli_ns patience; /* waiting time after which the application gets an event */
};

/* Unacknowledged message. */
struct lli_ack_message {
    uint64_t number;
    uint64_t bytes; /* of the topic, up to the end of this message */
    lli_seq seq;    /* it starts in this packet or a later one */
};

/* Pending report to the application. */
struct lli_ack_news {
    bool acknowledged;
    uint64_t first; /* range of messages acknowledged since the last report */
    uint64_t last;
    enum llm_reason reason; /* what the topic waits for; LLM_REASON_NONE: nothing to report */
    const char *receiver;   /* name or pattern of the receivers waited for, if by name */
    uint32_t receivers;     /* receivers that can acknowledge, if too few ... */
    uint32_t wanted;        /* ... of so many; else 0 */
};

/* Topic, in memory of its owner. */
struct lli_ack_topic {
    struct lli_ack_rule rule;
    uint32_t id;
    const char *name;
    struct lli_ack_message *ring; /* size: a power of two, at least rule.messages_max */
    uint64_t mask;
    uint64_t head; /* oldest unacknowledged message */
    uint64_t tail;
    uint64_t bytes; /* sent so far */
    uint64_t bytes_acknowledged;
    uint64_t waited_head;          /* `head` at the last check ... */
    lli_ns waited_since;           /* ... and the time since which it has had this value */
    enum llm_reason reported;      /* reason last reported to the application ... */
    const char *reported_receiver; /* ... and the name or pattern in it */
    struct lli_ack_news news;
};

/* Messages [from, next) acknowledged by the member at the same index of the table of members. */
struct lli_ack_range {
    uint64_t id; /* identity of the receiver; compare with the member's */
    uint64_t from;
    uint64_t next;
    uint16_t accepts;  /* a bit for each topic, by its index in `topics` */
    bool acknowledged; /* it has ever acknowledged a message */
    char name[LLI_WIRE_RECEIVER_NAME_MAX + 1];
};

struct lli_ack {
    struct lli_ack_topic *topics[LLI_WIRE_ASSURED_MAX];
    uint8_t count;
    struct lli_ack_range *table; /* by member index */
    uint64_t *reached;           /* scratch space to sort members by progress */
    uint64_t waiting;            /* unacknowledged messages of all topics */
    /* Packets from this one on stay in the history; UINT64_MAX: any may be dropped. */
    lli_seq unacknowledged;
    bool unreported; /* an event for the application is pending */
};

void lli_ack_init(struct lli_ack *ack, uint32_t members_max, struct lli_arena *arena);

/* Initializes a topic that is not assured yet. */
static inline void lli_ack_topic_init(struct lli_ack_topic *topic, uint32_t id, const char *name)
{
    *topic = (struct lli_ack_topic){.id = id, .name = name};
}

/*
 * Sets the rule of a topic, which must outlive the session. The unacknowledged messages move to ring, whose
 * size (places) is at least their number and rule->messages_max. A rule without receivers and names ends
 * acknowledgement: all messages sent count as done, and ring may be NULL. False, with nothing changed:
 * LLI_WIRE_ASSURED_MAX other topics are assured.
 */
bool lli_ack_set(struct lli_ack *ack, const struct lli_members *members, struct lli_ack_topic *topic,
                 const struct lli_ack_rule *rule, struct lli_ack_message *ring, uint64_t places);

/* True if messages of the topic have to be acknowledged. */
static inline bool lli_ack_topic_is_on(const struct lli_ack_topic *topic)
{
    return topic->rule.receivers > 0 || topic->rule.names > 0;
}

static inline uint64_t lli_ack_topic_waiting(const struct lli_ack_topic *topic)
{
    return topic->tail - topic->head;
}

/* True if one more message of this size may be unacknowledged. */
static inline bool lli_ack_topic_allows(const struct lli_ack_topic *topic, uint64_t size)
{
    return lli_ack_topic_waiting(topic) < topic->rule.messages_max &&
           topic->bytes - topic->bytes_acknowledged + size <= topic->rule.bytes_max;
}

/* Adds a message just packed, allowed by lli_ack_topic_allows(). number: the session's latest. */
void lli_ack_sent(struct lli_ack *ack, struct lli_ack_topic *topic, uint64_t number, lli_seq seq,
                  uint64_t size);

/*
 * Takes the acknowledgement in a member's report. messages: number of the next message to be sent. False:
 * refused, as it acknowledges messages not sent.
 */
bool lli_ack_report(struct lli_ack *ack, const struct lli_members *members, uint32_t index,
                    const struct lli_wire_status *status, uint64_t messages);

/*
 * Returns the packet where the oldest message starts that waits for this member, as of its report; 0: none. A
 * message waits for a receiver whose name is required, itself or by a pattern, and for one that has
 * acknowledged a message before; suspension does not matter.
 */
lli_seq lli_ack_owes(const struct lli_ack *ack, const struct lli_members *members, uint32_t index);

/* Checks for waits that exceed the topic's patience. */
void lli_ack_look(struct lli_ack *ack, const struct lli_members *members, lli_ns now);

/*
 * Closes the session: messages not acknowledged yet never will be, and this is reported to the application.
 * True if there are such messages.
 */
bool lli_ack_close(struct lli_ack *ack);

/* Returns the next event for the application; false: none. */
bool lli_ack_event(struct lli_ack *ack, struct llm_event *event);

/* Returns the number of packets after which receivers are to report: at most `most` if that is not 0. */
uint32_t lli_ack_report_packets(const struct lli_ack *ack, uint32_t most);

#endif
