/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was asked for again: which packets, for whom, and in what order they go (docs/protocol.md section 5.2).
 *
 * A packet that one receiver asks for goes to it by unicast. If another asks for it too while it waits, or soon after it
 * went, it goes to the group. A receiver that asks again before the repair can have reached it is ignored.
 */
#ifndef LLI_REPAIR_H
#define LLI_REPAIR_H

#include "history.h"

#define LLI_REPAIR_TO_GROUP (UINT32_MAX - 1)

enum lli_repair_verdict {
    LLI_REPAIR_QUEUED,  /* it will go */
    LLI_REPAIR_JOINED,  /* it was queued already */
    LLI_REPAIR_IGNORED, /* it has just gone */
    LLI_REPAIR_GONE,    /* it is no longer in the history */
};

struct lli_repair {
    struct lli_history *history;
    lli_seq *queue; /* a ring; entries whose packet was forgotten meanwhile are skipped */
    uint64_t mask;
    uint64_t head;
    uint64_t tail;
};

/* Places the queue, for as many packets as the history has slots. */
void lli_repair_init(struct lli_repair *repair, struct lli_history *history, uint32_t packets, struct lli_arena *arena);

/*
 * A member (or LLI_REPAIR_TO_GROUP, for one that is not in the table) asks for a packet before history->next. linger_ns: how
 * long a repair is on its way; shared_ns: how long after a unicast repair another's request still tells of the same loss; 0: nothing goes to the group for this member.
 */
enum lli_repair_verdict lli_repair_request(struct lli_repair *repair, lli_seq seq, uint32_t member, lli_ns now,
                                           lli_ns linger_ns, lli_ns shared_ns);

/* The next packet to repair, without taking it from the queue; false if there is none. */
bool lli_repair_peek(struct lli_repair *repair, lli_seq *seq);

/* Takes what lli_repair_peek() gave from the queue without having sent it. */
void lli_repair_skip(struct lli_repair *repair);

/* Takes what lli_repair_peek() gave as sent now; returns to whom it goes. */
uint32_t lli_repair_pop(struct lli_repair *repair, lli_ns now);

static inline uint64_t lli_repair_queued(const struct lli_repair *repair)
{
    return repair->tail - repair->head;
}

#endif
