/* SPDX-License-Identifier: Apache-2.0 */
#include "repair.h"

void lli_repair_init(struct lli_repair *repair, struct lli_history *history, uint32_t packets, struct lli_arena *arena)
{
    /* Twice the slots: forgotten packets may still be queued when newer ones with the same slot are. */
    *repair = (struct lli_repair){.history = history, .mask = packets * 2u - 1};
    repair->queue = lli_arena_take(arena, packets * 2u * sizeof *repair->queue, 64);
}

static void repair_queue(struct lli_repair *repair, struct lli_history_slot *slot, lli_seq seq, uint32_t to)
{
    slot->repair_to = to;
    slot->repair_queued = true;
    repair->queue[repair->tail++ & repair->mask] = seq;
}

enum lli_repair_verdict lli_repair_request(struct lli_repair *repair, lli_seq seq, uint32_t member, lli_ns now,
                                           lli_ns linger_ns, lli_ns shared_ns)
{
    struct lli_history_slot *slot;
    lli_seq first;
    bool others;

    if (seq < repair->history->trail)
        return LLI_REPAIR_GONE;
    slot = lli_history_slot(repair->history, seq);
    if (slot->repair_queued) {
        if (slot->repair_to == member || slot->repair_to == LLI_REPAIR_TO_GROUP)
            return LLI_REPAIR_JOINED;
        if (shared_ns == 0)
            return LLI_REPAIR_IGNORED;
        slot->repair_to = LLI_REPAIR_TO_GROUP;
        return LLI_REPAIR_JOINED;
    }
    others = slot->repaired_at != 0 && slot->repair_to != member;
    if (slot->repaired_at != 0 && now < slot->repaired_at + linger_ns && (!others || slot->repair_to == LLI_REPAIR_TO_GROUP))
        return LLI_REPAIR_IGNORED;
    if (others && now < slot->repaired_at + shared_ns)
        member = LLI_REPAIR_TO_GROUP;
    /*
     * While the packet at the head is kept, the others are such as were kept when it was asked for, or sent since: never more
     * than twice the slots. So a full queue has a head that was forgotten.
     */
    if (repair->tail - repair->head > repair->mask)
        (void)lli_repair_peek(repair, &first);
    assert(repair->tail - repair->head <= repair->mask);
    repair_queue(repair, slot, seq, member);
    return LLI_REPAIR_QUEUED;
}

bool lli_repair_peek(struct lli_repair *repair, lli_seq *seq)
{
    while (repair->head < repair->tail) {
        *seq = repair->queue[repair->head & repair->mask];
        if (*seq >= repair->history->trail)
            return true;
        repair->head++;
    }
    return false;
}

void lli_repair_skip(struct lli_repair *repair)
{
    lli_history_slot(repair->history, repair->queue[repair->head++ & repair->mask])->repair_queued = false;
}

uint32_t lli_repair_pop(struct lli_repair *repair, lli_ns now)
{
    struct lli_history_slot *slot = lli_history_slot(repair->history, repair->queue[repair->head++ & repair->mask]);

    slot->repair_queued = false;
    slot->repaired_at = lli_max(now, 1);
    return slot->repair_to;
}
