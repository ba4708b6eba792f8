/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was asked for again: which packets, for whom, and in what order they go (docs/protocol.md section 5.2).
 *
 * A packet that one receiver asks for goes to it by unicast. If another asks for it too while it waits, or soon after it
 * went, it goes to the group. A receiver that asks again before the repair can have reached it is ignored.
 *
 * Each member has a queue of its own, and those that are not in the table share one. The queues take turns, a packet each, so that
 * a member that asks for much delays the others by one packet of every two, and not by all that it asks for. A packet is in one
 * queue: in that where it leaves sooner.
 */
#ifndef LLI_REPAIR_H
#define LLI_REPAIR_H

#include "core/pack/history.h"

#define LLI_REPAIR_TO_GROUP (UINT32_MAX - 1)
#define LLI_REPAIR_NONE UINT32_MAX

enum lli_repair_verdict {
    LLI_REPAIR_QUEUED,  /* it will go */
    LLI_REPAIR_JOINED,  /* it was queued already */
    LLI_REPAIR_IGNORED, /* it has just gone */
    LLI_REPAIR_GONE,    /* it is no longer in the history */
};

/* The packet in the same slot of the history, while it waits; it may have been forgotten meanwhile. */
struct lli_repair_entry {
    uint32_t previous; /* slots */
    uint32_t next;
    uint32_t queue;    /* whose it is, LLI_REPAIR_NONE: it does not wait */
    uint32_t ticket;   /* the queue's count of arrivals when it came */
};

/* What waits for a member. */
struct lli_repair_queue {
    uint32_t first;    /* slots, LLI_REPAIR_NONE: it is empty */
    uint32_t last;
    uint32_t count;
    uint32_t arrivals;
    uint32_t behind;   /* the queue whose turn comes behind this one, LLI_REPAIR_NONE: none's */
    bool waits;        /* for its turn */
};

struct lli_repair {
    struct lli_history *history;
    struct lli_repair_entry *entries; /* by slot */
    struct lli_repair_queue *queues;  /* by member, the last one for those that are not in the table */
    uint32_t members_max;
    uint32_t turn;       /* the queue that is next, and the last to be; LLI_REPAIR_NONE: none */
    uint32_t turn_last;
    uint64_t count;      /* entries in all queues */
};

/* Places the queues, for as many packets as the history has slots. */
void lli_repair_init(struct lli_repair *repair, struct lli_history *history, uint32_t packets, uint32_t members_max,
                     struct lli_arena *arena);

/*
 * A member (or LLI_REPAIR_TO_GROUP, for one that is not in the table) asks for a packet before history->next. linger_ns: how
 * long a repair is on its way; shared_ns: how long after a unicast repair another's request still tells of the same loss; 0: nothing goes to the group for this member.
 */
enum lli_repair_verdict lli_repair_request(struct lli_repair *repair, lli_seq seq, uint32_t member, lli_ns now,
                                           lli_ns linger_ns, lli_ns shared_ns);

/* The next packet to repair, without taking it from its queue; false if there is none. */
bool lli_repair_peek(struct lli_repair *repair, lli_seq *seq);

/* Takes what lli_repair_peek() gave from its queue without having sent it. */
void lli_repair_skip(struct lli_repair *repair);

/* Takes what lli_repair_peek() gave as sent now; returns to whom it goes. */
uint32_t lli_repair_pop(struct lli_repair *repair, lli_ns now);

static inline uint64_t lli_repair_queued(const struct lli_repair *repair)
{
    return repair->count;
}

#endif
