/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tx/repair.h"

#include "core/pack/history.h"

void lli_repair_init(struct lli_repair *repair, struct lli_history *history, uint32_t packets,
                     uint32_t members_max, struct lli_arena *arena)
{
    *repair = (struct lli_repair){.history = history,
                                  .members_max = members_max,
                                  .turn = LLI_REPAIR_NONE,
                                  .turn_last = LLI_REPAIR_NONE};
    repair->entries = lli_arena_take(arena, packets * sizeof *repair->entries, 64);
    repair->queues = lli_arena_take(arena, (members_max + 1u) * sizeof *repair->queues, 64);
    if (arena->memory == NULL)
        return;
    for (uint32_t i = 0; i < packets; i++)
        repair->entries[i].queue = LLI_REPAIR_NONE;
    for (uint32_t i = 0; i <= members_max; i++)
        repair->queues[i] = (struct lli_repair_queue){.first = LLI_REPAIR_NONE, .last = LLI_REPAIR_NONE};
}

/* ----------------------------------------------------------------------------------------------- queues */

/* Appends a queue to the list of turns. */
static void repair_wait(struct lli_repair *repair, uint32_t index)
{
    struct lli_repair_queue *queue = &repair->queues[index];

    if (queue->waits)
        return;
    queue->waits = true;
    queue->after = LLI_REPAIR_NONE;
    if (repair->turn == LLI_REPAIR_NONE)
        repair->turn = index;
    else
        repair->queues[repair->turn_last].after = index;
    repair->turn_last = index;
}

/* Ends the turn of the first queue, which waits for another turn if it is not empty. */
static void repair_turn(struct lli_repair *repair)
{
    const uint32_t index = repair->turn;

    repair->turn = repair->queues[index].after;
    repair->queues[index].waits = false;
    if (repair->queues[index].count > 0)
        repair_wait(repair, index);
}

static void repair_append(struct lli_repair *repair, uint32_t slot, uint32_t index)
{
    struct lli_repair_queue *queue = &repair->queues[index];

    repair->entries[slot] = (struct lli_repair_entry){queue->last, LLI_REPAIR_NONE, index, queue->arrivals++};
    if (queue->last == LLI_REPAIR_NONE)
        queue->first = slot;
    else
        repair->entries[queue->last].next = slot;
    queue->last = slot;
    queue->count++;
    repair->count++;
    repair_wait(repair, index);
}

/* Removes an entry from its queue. The queue stays in the list of turns even if empty. */
static void repair_remove(struct lli_repair *repair, uint32_t slot)
{
    struct lli_repair_entry *entry = &repair->entries[slot];
    struct lli_repair_queue *queue = &repair->queues[entry->queue];

    if (entry->previous == LLI_REPAIR_NONE)
        queue->first = entry->next;
    else
        repair->entries[entry->previous].next = entry->next;
    if (entry->next == LLI_REPAIR_NONE)
        queue->last = entry->previous;
    else
        repair->entries[entry->next].previous = entry->previous;
    entry->queue = LLI_REPAIR_NONE;
    queue->count--;
    repair->count--;
}

/*
 * Upper bound of the entries before one with this ticket in a queue: entries removed from between are
 * included.
 */
static uint32_t repair_before(const struct lli_repair *repair, const struct lli_repair_queue *queue,
                              uint32_t ticket)
{
    return queue->first == LLI_REPAIR_NONE ? 0 : ticket - repair->entries[queue->first].ticket;
}

static uint32_t repair_queue_of(const struct lli_repair *repair, uint32_t member)
{
    return member < repair->members_max ? member : repair->members_max;
}

/* ---------------------------------------------------------------------------------------------- requests */

/* Handles another request for a queued packet: it moves to the queue from which it leaves sooner. */
static void repair_join(struct lli_repair *repair, uint32_t slot, uint32_t member)
{
    const struct lli_repair_entry *entry = &repair->entries[slot];
    const uint32_t index = repair_queue_of(repair, member);
    const struct lli_repair_queue *own = &repair->queues[index];

    if (entry->queue == index || repair_before(repair, &repair->queues[entry->queue], entry->ticket) <=
                                     repair_before(repair, own, own->arrivals))
        return;
    repair_remove(repair, slot);
    repair_append(repair, slot, index);
}

enum lli_repair_verdict lli_repair_request(struct lli_repair *repair, lli_seq seq, uint32_t member,
                                           lli_ns now, lli_ns linger_ns, lli_ns shared_ns)
{
    const uint32_t place = (uint32_t)(seq & repair->history->slots_mask);
    struct lli_history_slot *slot;
    const uint32_t requested_by = member;
    bool others;

    if (seq < repair->history->trail)
        return LLI_REPAIR_GONE;
    slot = lli_history_slot(repair->history, seq);
    if (slot->repair_queued) {
        if (slot->repair_to != member && slot->repair_to != LLI_REPAIR_TO_GROUP) {
            if (shared_ns == 0)
                return LLI_REPAIR_IGNORED;
            slot->repair_to = LLI_REPAIR_TO_GROUP;
        }
        repair_join(repair, place, member);
        return LLI_REPAIR_JOINED;
    }
    others = slot->repaired_at != 0 && slot->repair_to != member;
    if (slot->repaired_at != 0 && now < slot->repaired_at + linger_ns &&
        (!others || slot->repair_to == LLI_REPAIR_TO_GROUP))
        return LLI_REPAIR_IGNORED;
    if (others && now < slot->repaired_at + shared_ns)
        member = LLI_REPAIR_TO_GROUP;
    slot->repair_to = member;
    slot->repair_queued = true;
    /* The packet that was in this slot before may still be queued, though it is no longer in the history. */
    if (repair->entries[place].queue != LLI_REPAIR_NONE)
        repair_remove(repair, place);
    repair_append(repair, place, repair_queue_of(repair, requested_by));
    return LLI_REPAIR_QUEUED;
}

/* Returns the packet in a slot of the history, or the last one that was there. */
static lli_seq repair_packet(const struct lli_history *history, uint32_t slot)
{
    const lli_seq last = history->next - 1;

    return last - ((last - slot) & history->slots_mask);
}

bool lli_repair_peek(struct lli_repair *repair, lli_seq *seq)
{
    const struct lli_history *history = repair->history;

    while (repair->turn != LLI_REPAIR_NONE) {
        const uint32_t slot = repair->queues[repair->turn].first;

        if (slot == LLI_REPAIR_NONE) {
            repair_turn(repair);
            continue;
        }
        *seq = repair_packet(history, slot);
        if (*seq >= history->trail && lli_history_slot(history, *seq)->repair_queued)
            return true;
        repair_remove(repair, slot);
    }
    return false;
}

/* Dequeues the next packet. */
static struct lli_history_slot *repair_take(struct lli_repair *repair)
{
    struct lli_history_slot *slot;
    lli_seq seq = 0;
    const bool found = lli_repair_peek(repair, &seq);

    (void)found;
    assert(found);
    slot = lli_history_slot(repair->history, seq);
    slot->repair_queued = false;
    repair_remove(repair, (uint32_t)(seq & repair->history->slots_mask));
    return slot;
}

void lli_repair_skip(struct lli_repair *repair)
{
    (void)repair_take(repair);
}

uint32_t lli_repair_pop(struct lli_repair *repair, lli_ns now)
{
    struct lli_history_slot *slot = repair_take(repair);

    slot->repaired_at = lli_max(now, 1);
    repair_turn(repair);
    return slot->repair_to;
}
