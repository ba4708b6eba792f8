/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stream/merge.h"

static struct lli_merge_member *merge_find(struct lli_merge *merge, uint64_t session)
{
    for (int i = 0; i < LLI_MERGE_MEMBERS; i++)
        if (merge->members[i].session == session)
            return &merge->members[i];
    return NULL;
}

struct lli_merge_member *lli_merge_add(struct lli_merge *merge, uint64_t session)
{
    struct lli_merge_member *member = merge_find(merge, session);

    if (member != NULL)
        return member;
    member = merge_find(merge, 0);
    if (member == NULL)
        return NULL;
    *member = (struct lli_merge_member){.session = session};
    merge->count++;
    return member;
}

void lli_merge_del(struct lli_merge *merge, uint64_t session)
{
    struct lli_merge_member *member = merge_find(merge, session);

    if (session == 0 || member == NULL)
        return;
    *member = (struct lli_merge_member){.session = 0};
    merge->count--;
}

uint64_t lli_merge_take(struct lli_merge *merge, struct lli_merge_member *member, uint64_t end)
{
    const uint64_t next = merge->next;

    member->at_loss = member->overdue = false;
    merge->next = lli_max(next, end);
    return next;
}

void lli_merge_note(struct lli_merge *merge, uint64_t number, uint64_t hash)
{
    merge->sums[number & (LLI_MERGE_SUMS - 1)] = (struct lli_merge_sum){.after = number + 1, .hash = hash};
}

const struct lli_merge_sum *lli_merge_noted(const struct lli_merge *merge, uint64_t number)
{
    const struct lli_merge_sum *sum = &merge->sums[number & (LLI_MERGE_SUMS - 1)];

    return sum->after == number + 1 ? sum : NULL;
}

/* True if this session may be waited for: it may have numbers that another one lacks. */
static bool merge_is_awaited(const struct lli_merge_member *member, uint64_t resume)
{
    return member->session != 0 && !member->overdue && (!member->at_loss || member->resume < resume);
}

bool lli_merge_has_others(const struct lli_merge *merge, const struct lli_merge_member *member)
{
    for (int i = 0; i < LLI_MERGE_MEMBERS; i++)
        if (&merge->members[i] != member && merge_is_awaited(&merge->members[i], 0))
            return true;
    return false;
}

enum lli_merge_verdict lli_merge_ask(struct lli_merge *merge, struct lli_merge_member *member,
                                     uint64_t resume, lli_ns now, lli_ns wait_ns)
{
    bool awaited = false;

    if (lli_merge_covers(merge, resume)) {
        member->at_loss = false;
        return LLI_MERGE_COVERED;
    }
    /* While others deliver, none is overdue. */
    if (!member->at_loss || member->asked != merge->next)
        member->since = now;
    member->asked = merge->next;
    member->at_loss = true;
    member->resume = resume;
    for (int i = 0; i < LLI_MERGE_MEMBERS; i++) {
        struct lli_merge_member *other = &merge->members[i];

        if (other == member || !merge_is_awaited(other, resume))
            continue;
        /*
         * A session that sends nothing is waited for once, not for each loss. One that is at a loss and continues earlier
         * may wait for it as well, and has to decide first.
         */
        if (now >= member->since + (other->at_loss ? 2 * wait_ns : wait_ns))
            other->overdue = true;
        else
            awaited = true;
    }
    return awaited ? LLI_MERGE_WAIT : LLI_MERGE_LOST;
}

uint64_t lli_merge_lose(struct lli_merge *merge, struct lli_merge_member *member, uint64_t end)
{
    const uint64_t first = merge->next;

    member->at_loss = false;
    if (end <= first)
        return end;
    merge->next = end;
    return first;
}
