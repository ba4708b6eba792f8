/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rx/gap.h"

#include "core/wire/wire.h"

/* NAKs for a packet before their interval doubles. */
enum { GAP_TRIES_QUICK = 4 };

void lli_gap_init(struct lli_gap *gap, uint32_t packets, struct lli_arena *arena)
{
    assert(packets >= 64 && lli_is_power_of_two(packets));
    *gap = (struct lli_gap){.mask = packets - 1, .due_at = LLI_NEVER};
    gap->present = lli_arena_take(arena, packets / 8, 64);
    gap->slots = lli_arena_take(arena, packets * sizeof *gap->slots, 64);
}

void lli_gap_reset(struct lli_gap *gap, lli_seq next)
{
    memset(gap->present, 0, lli_gap_window(gap) / 8);
    gap->next = gap->end = gap->received = next;
    gap->missing = 0;
    gap->due_at = LLI_NEVER;
    gap->naks_deferred = false;
}

void lli_gap_renumber(struct lli_gap *gap, lli_seq next)
{
    const lli_seq moved = next - gap->next;

    assert((uint32_t)moved == 0);
    gap->next += moved;
    gap->end += moved;
    gap->received += moved;
}

static struct lli_gap_slot *gap_slot(const struct lli_gap *gap, lli_seq seq)
{
    return &gap->slots[seq & gap->mask];
}

static void gap_miss(struct lli_gap *gap, lli_seq first, lli_seq end, lli_ns now, lli_ns nak_at)
{
    for (lli_seq seq = first; seq < end; seq++)
        *gap_slot(gap, seq) = (struct lli_gap_slot){.since = now, .nak_at = nak_at};
    gap->missing += end - first;
    if (end > first)
        gap->due_at = lli_min(gap->due_at, nak_at);
}

bool lli_gap_rewind(struct lli_gap *gap, lli_seq next, lli_ns now, lli_ns nak_at)
{
    if (next > gap->next || gap->end - next > lli_gap_window(gap))
        return false;
    gap_miss(gap, next, gap->next, now, nak_at);
    gap->next = next;
    return true;
}

void lli_gap_extend(struct lli_gap *gap, lli_seq end, lli_ns now, lli_ns nak_at)
{
    end = lli_min(end, gap->next + lli_gap_window(gap));
    if (end <= gap->end)
        return;
    gap_miss(gap, gap->end, end, now, nak_at);
    gap->end = end;
}

void lli_gap_retract(struct lli_gap *gap, lli_seq end)
{
    end = lli_max(end, lli_max(gap->received, gap->next));
    if (end >= gap->end)
        return;
    gap->missing -= gap->end - end;
    gap->end = end;
    if (gap->missing == 0)
        gap->due_at = LLI_NEVER;
}

uint64_t lli_gap_cut(struct lli_gap *gap, lli_seq end)
{
    uint64_t count = 0;

    end = lli_max(end, gap->next);
    for (lli_seq seq = end; seq < gap->received; seq++) {
        uint64_t *word = &gap->present[(seq & gap->mask) / 64];
        const uint64_t bit = (uint64_t)1 << (seq & 63);

        if (!(*word & bit))
            continue;
        *word &= ~bit;
        gap->missing++;
        count++;
    }
    gap->received = lli_min(gap->received, end);
    gap->received = lli_gap_present_end(gap);
    lli_gap_retract(gap, end);
    return count;
}

bool lli_gap_receive(struct lli_gap *gap, lli_seq seq)
{
    assert(seq >= gap->next && seq < gap->end);
    if (lli_gap_is_present(gap, seq))
        return false;
    gap->present[(seq & gap->mask) / 64] |= (uint64_t)1 << (seq & 63);
    gap->received = lli_max(gap->received, seq + 1);
    if (--gap->missing == 0)
        gap->due_at = LLI_NEVER;
    return true;
}

void lli_gap_forget(struct lli_gap *gap, lli_seq seq, lli_ns now, lli_ns nak_at)
{
    assert(lli_gap_is_present(gap, seq));
    gap->present[(seq & gap->mask) / 64] &= ~((uint64_t)1 << (seq & 63));
    gap_miss(gap, seq, seq + 1, now, nak_at);
}

void lli_gap_advance(struct lli_gap *gap)
{
    uint64_t bit = (uint64_t)1 << (gap->next & 63);
    uint64_t *word = &gap->present[(gap->next & gap->mask) / 64];

    assert(gap->next < gap->end);
    if (!(*word & bit) && --gap->missing == 0)
        gap->due_at = LLI_NEVER;
    *word &= ~bit;
    gap->next++;
    gap->received = lli_max(gap->received, gap->next);
    /* Packets beyond lli_gap_retry.most may be due as well. */
    if (gap->naks_deferred && gap->missing > 0)
        gap->due_at = 0;
}

/* Returns the next missing packet at or after seq, or end. Skips present packets a word at a time. */
static lli_seq gap_next_missing(const struct lli_gap *gap, lli_seq seq)
{
    while (seq < gap->end) {
        uint64_t absent = ~gap->present[(seq & gap->mask) / 64] >> (seq & 63);

        if (absent != 0)
            return lli_min(seq + (unsigned)__builtin_ctzll(absent), gap->end);
        seq = (seq | 63) + 1;
    }
    return gap->end;
}

lli_seq lli_gap_first_present(const struct lli_gap *gap)
{
    lli_seq seq = gap->next;

    while (seq < gap->end) {
        uint64_t present = gap->present[(seq & gap->mask) / 64] >> (seq & 63);

        if (present != 0)
            return lli_min(seq + (unsigned)__builtin_ctzll(present), gap->end);
        seq = (seq | 63) + 1;
    }
    return gap->end;
}

lli_seq lli_gap_present_end(const struct lli_gap *gap)
{
    lli_seq end = gap->received;

    while (end > gap->next) {
        const lli_seq last = end - 1;
        const uint64_t present = gap->present[(last & gap->mask) / 64] << (63 - (last & 63));

        if (present != 0)
            return lli_max(end - (unsigned)__builtin_clzll(present), gap->next);
        end = last & ~(lli_seq)63;
    }
    return gap->next;
}

/*
 * Interval to the next NAK after this many. Random losses need a quick repair, so the first few intervals are
 * equal: doubling from the first one filled the window at 20 % loss. A common random spread for all NAKs due
 * together leaves them in one range.
 */
static lli_ns gap_retry_after(const struct lli_gap_retry *retry, unsigned tries, uint64_t spread)
{
    lli_ns base = lli_max(retry->retry_min, 2 * retry->rtt);
    lli_ns delay = lli_min(base << (tries <= GAP_TRIES_QUICK ? 0 : lli_min(tries - GAP_TRIES_QUICK, 20)),
                           lli_max(retry->retry_max, base));

    return delay - delay / 4 + (delay / 2 == 0 ? 0 : spread % (delay / 2));
}

int lli_gap_due(struct lli_gap *gap, lli_ns now, const struct lli_gap_retry *retry, uint64_t *random,
                struct lli_wire_range *ranges, int max)
{
    lli_ns due_at = LLI_NEVER;
    uint64_t left = retry->most == 0 ? UINT64_MAX : retry->most;
    uint64_t spread;
    int count = 0;

    if (now < gap->due_at)
        return 0;
    spread = lli_random(random);
    gap->naks_deferred = false;
    for (lli_seq seq = gap_next_missing(gap, lli_max(gap->next, retry->from)); seq < gap->end;
         seq = gap_next_missing(gap, seq + 1)) {
        struct lli_gap_slot *slot = gap_slot(gap, seq);

        if (slot->unrepaired)
            continue;
        gap->naks_deferred = left-- == 0;
        if (gap->naks_deferred)
            break;
        if (slot->nak_at <= now) {
            if (count > 0 && ranges[count - 1].first + ranges[count - 1].count == (uint32_t)seq) {
                ranges[count - 1].count++;
            } else if (count < max) {
                ranges[count++] = (struct lli_wire_range){.first = (uint32_t)seq, .count = 1};
            } else {
                due_at = now;
                break;
            }
            if (slot->tries == 0)
                slot->since = now;
            if (slot->tries < UINT8_MAX)
                slot->tries++;
            slot->nak_at = now + gap_retry_after(retry, slot->tries, spread);
        }
        due_at = lli_min(due_at, slot->nak_at);
    }
    gap->due_at = due_at;
    return count;
}

uint64_t lli_gap_absent(struct lli_gap *gap, lli_seq first, lli_seq end, uint8_t bits, lli_seq until)
{
    uint64_t left = 0;

    for (lli_seq seq = gap_next_missing(gap, gap->next); seq < gap->end;
         seq = gap_next_missing(gap, seq + 1)) {
        struct lli_gap_slot *slot = gap_slot(gap, seq);

        if (seq >= first && seq < end)
            slot->absent |= bits;
        left += seq < until && !slot->unrepaired && (slot->absent & bits) == 0;
    }
    return left;
}

void lli_gap_not_absent(struct lli_gap *gap, uint8_t bits)
{
    for (lli_seq seq = gap_next_missing(gap, gap->next); seq < gap->end; seq = gap_next_missing(gap, seq + 1))
        gap_slot(gap, seq)->absent &= (uint8_t)~bits;
}

int lli_gap_list(const struct lli_gap *gap, lli_seq end, uint64_t most, uint8_t absent,
                 struct lli_wire_range *ranges, int max, lli_seq *listed)
{
    int count = 0;

    end = lli_min(end, gap->end);
    for (lli_seq seq = gap_next_missing(gap, gap->next); seq < end && most > 0;
         seq = gap_next_missing(gap, seq + 1)) {
        if (gap_slot(gap, seq)->unrepaired || gap_slot(gap, seq)->absent & absent)
            continue;
        if (count > 0 && ranges[count - 1].first + ranges[count - 1].count == (uint32_t)seq)
            ranges[count - 1].count++;
        else if (count < max)
            ranges[count++] = (struct lli_wire_range){.first = (uint32_t)seq, .count = 1};
        else
            break;
        *listed = seq + 1;
        most--;
    }
    return count;
}

void lli_gap_hasten(struct lli_gap *gap, lli_seq from, lli_ns until)
{
    for (lli_seq seq = gap_next_missing(gap, lli_max(from, gap->next)); seq < gap->end;
         seq = gap_next_missing(gap, seq + 1)) {
        struct lli_gap_slot *slot = gap_slot(gap, seq);

        if (slot->unrepaired)
            continue;
        slot->nak_at = lli_min(slot->nak_at, until);
        gap->due_at = lli_min(gap->due_at, slot->nak_at);
    }
}

void lli_gap_passed(struct lli_gap *gap, lli_seq from, lli_seq end, lli_ns until)
{
    end = lli_min(end, gap->end);
    for (lli_seq seq = gap_next_missing(gap, lli_max(from, gap->next)); seq < end;
         seq = gap_next_missing(gap, seq + 1)) {
        struct lli_gap_slot *slot = gap_slot(gap, seq);

        if (slot->unrepaired || slot->tries > 0)
            continue;
        slot->nak_at = lli_min(slot->nak_at, until);
        gap->due_at = lli_min(gap->due_at, slot->nak_at);
    }
}

void lli_gap_refuse(struct lli_gap *gap, lli_seq seq, lli_ns nak_at)
{
    struct lli_gap_slot *slot = gap_slot(gap, seq);

    slot->tries = slot->tries > 0;
    if (slot->unrepaired)
        return;
    slot->nak_at = nak_at;
    gap->due_at = lli_min(gap->due_at, nak_at);
}

void lli_gap_nak_now(struct lli_gap *gap, lli_ns now)
{
    for (lli_seq seq = gap_next_missing(gap, gap->next); seq < gap->end;
         seq = gap_next_missing(gap, seq + 1)) {
        const bool unrepaired = gap_slot(gap, seq)->unrepaired;

        *gap_slot(gap, seq) = (struct lli_gap_slot){
            .since = now, .nak_at = unrepaired ? LLI_NEVER : now, .unrepaired = unrepaired};
        gap->due_at = now;
    }
}

uint64_t lli_gap_unrepaired(struct lli_gap *gap, lli_seq first, lli_seq end, lli_seq requested)
{
    uint64_t count = 0;

    end = lli_min(end, gap->end);
    for (lli_seq seq = gap_next_missing(gap, lli_max(first, gap->next)); seq < end;
         seq = gap_next_missing(gap, seq + 1)) {
        struct lli_gap_slot *slot = gap_slot(gap, seq);

        count += seq < requested && !slot->unrepaired;
        slot->unrepaired = true;
        slot->nak_at = LLI_NEVER;
    }
    return count;
}

void lli_gap_delay(struct lli_gap *gap, lli_seq first, uint64_t count, lli_ns until)
{
    lli_seq end = lli_min(first + count, gap->end);

    for (lli_seq seq = gap_next_missing(gap, lli_max(first, gap->next)); seq < end;
         seq = gap_next_missing(gap, seq + 1)) {
        struct lli_gap_slot *slot = gap_slot(gap, seq);

        slot->nak_at = lli_max(slot->nak_at, until);
    }
}
