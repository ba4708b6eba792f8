/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repair queues: the packets requested again, by receiver, and the order in which they are sent
 * (docs/protocol.md section 5.2).
 *
 * A packet requested by one receiver goes to it by unicast. If another receiver requests it while it waits,
 * or soon after it was sent, it goes to the group. A repeated request before the repair can have arrived is
 * ignored.
 *
 * Each member has its own queue; receivers not in the table share one. The queues take turns, one packet
 * each, so a member with many requests delays another by one packet of every two, not by all its packets. A
 * packet is in one queue only: the one from which it leaves sooner.
 */
#ifndef LLI_REPAIR_H
#define LLI_REPAIR_H

#include "core/base/arena.h"
#include "core/base/types.h"

struct lli_history;

#define LLI_REPAIR_TO_GROUP (UINT32_MAX - 1)
#define LLI_REPAIR_NONE UINT32_MAX

enum lli_repair_verdict {
    LLI_REPAIR_QUEUED,  /* will be sent */
    LLI_REPAIR_JOINED,  /* already queued */
    LLI_REPAIR_IGNORED, /* just sent */
    LLI_REPAIR_GONE,    /* no longer in the history */
};

/*
 * Queue entry of the packet in the same slot of the history. The history may drop the packet while it waits.
 */
struct lli_repair_entry {
    uint32_t previous; /* slot numbers */
    uint32_t next;
    uint32_t queue;  /* its queue, LLI_REPAIR_NONE: not queued */
    uint32_t ticket; /* the queue's count of arrivals when it was queued */
};

/* Packets that wait for one member. */
struct lli_repair_queue {
    uint32_t first; /* slots, LLI_REPAIR_NONE: empty */
    uint32_t last;
    uint32_t count;
    uint32_t arrivals;
    uint32_t after; /* the queue whose turn follows, LLI_REPAIR_NONE: none */
    bool waits;     /* in the list of turns */
};

struct lli_repair {
    struct lli_history *history;
    struct lli_repair_entry *entries; /* by slot */
    struct lli_repair_queue *queues;  /* by member; the last one is for receivers not in the table */
    uint32_t members_max;
    uint32_t turn; /* first and last queue in the list of turns; LLI_REPAIR_NONE: none */
    uint32_t turn_last;
    uint64_t count; /* packets in all queues */
};

/* Places the queues; packets: number of slots in the history. */
void lli_repair_init(struct lli_repair *repair, struct lli_history *history, uint32_t packets,
                     uint32_t members_max, struct lli_arena *arena);

/*
 * Queues a packet before history->next that a member requested (LLI_REPAIR_TO_GROUP: a receiver not in the
 * table). linger_ns: time for which a repair is under way; shared_ns: time after a unicast repair in which a
 * request by another receiver concerns the same loss, 0: nothing goes to the group for this member.
 */
enum lli_repair_verdict lli_repair_request(struct lli_repair *repair, lli_seq seq, uint32_t member,
                                           lli_ns now, lli_ns linger_ns, lli_ns shared_ns);

/* Returns the next packet to repair, without dequeuing it; false if there is none. */
bool lli_repair_peek(struct lli_repair *repair, lli_seq *seq);

/* Dequeues the packet returned by lli_repair_peek() without counting it as sent. */
void lli_repair_skip(struct lli_repair *repair);

/* Dequeues the packet returned by lli_repair_peek() as sent now; returns its destination. */
uint32_t lli_repair_pop(struct lli_repair *repair, lli_ns now);

static inline uint64_t lli_repair_queued(const struct lli_repair *repair)
{
    return repair->count;
}

#endif
