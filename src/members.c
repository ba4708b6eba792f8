/* SPDX-License-Identifier: Apache-2.0 */
#include "members.h"

void lli_members_init(struct lli_members *members, uint32_t limit, struct lli_arena *arena)
{
    uint32_t places = 4;

    /* At most half full, so that probing stays short. */
    while (places < limit * 2u)
        places *= 2;
    *members = (struct lli_members){.mask = places - 1, .limit = limit};
    members->table = lli_arena_take(arena, limit * sizeof *members->table, 64);
    members->index = lli_arena_take(arena, places * sizeof *members->index, 64);
    if (arena->memory != NULL)
        memset(members->index, 0xff, places * sizeof *members->index);
}

/* Where in the index an identity is, or would go. */
static uint32_t members_find(const struct lli_members *members, uint64_t id)
{
    uint32_t at = (uint32_t)(id ^ id >> 32) & members->mask;

    while (members->index[at] != LLI_MEMBER_NONE && members->table[members->index[at]].id != id)
        at = (at + 1) & members->mask;
    return at;
}

uint32_t lli_members_add(struct lli_members *members, uint64_t id)
{
    uint32_t at = members_find(members, id);

    if (members->index[at] != LLI_MEMBER_NONE)
        return members->index[at];
    if (members->count == members->limit)
        return LLI_MEMBER_NONE;
    while (members->table[members->unused].id != 0)
        members->unused++;
    members->table[members->unused] = (struct lli_member){.id = id};
    members->count++;
    return members->index[at] = members->unused;
}

uint32_t lli_members_get(const struct lli_members *members, uint64_t id)
{
    return members->index[members_find(members, id)];
}

void lli_members_del(struct lli_members *members, uint64_t id)
{
    uint32_t at = members_find(members, id);
    uint32_t place = members->index[at];

    if (place == LLI_MEMBER_NONE)
        return;
    members->table[place].id = 0;
    members->index[at] = LLI_MEMBER_NONE;
    members->count--;
    if (place < members->unused)
        members->unused = place;
    /* Those behind it in the index were perhaps pushed there by it: put each where a search finds it. */
    for (at = (at + 1) & members->mask; members->index[at] != LLI_MEMBER_NONE; at = (at + 1) & members->mask) {
        uint32_t moved = members->index[at];

        members->index[at] = LLI_MEMBER_NONE;
        members->index[members_find(members, members->table[moved].id)] = moved;
    }
}

/*
 * The next of those who are left, of which `left` counts down; NULL after the last. Places behind it are not looked at: the table is
 * large, and to go over all of it, as often as it is gone over, would drive out of the caches what messages need.
 */
static struct lli_member *members_next(const struct lli_members *members, uint32_t *place, uint32_t *left)
{
    if (*left == 0)
        return NULL;
    while (members->table[*place].id == 0)
        ++*place;
    --*left;
    return &members->table[(*place)++];
}

uint32_t lli_members_expire(struct lli_members *members, lli_ns before)
{
    uint32_t left = members->count, place = 0, expired = 0;
    const struct lli_member *member;

    while ((member = members_next(members, &place, &left)) != NULL) {
        if (member->heard_at < before && member->standing != LLI_STANDING_EXPELLED) {
            lli_members_del(members, member->id);
            expired++;
        }
    }
    return expired;
}

lli_ns lli_members_rtt(const struct lli_members *members)
{
    uint32_t left = members->count, place = 0;
    const struct lli_member *member;
    lli_ns rtt = 0;

    while ((member = members_next(members, &place, &left)) != NULL)
        if (lli_member_counts(member) && !member->behind)
            rtt = lli_max(rtt, member->rtt);
    return rtt;
}

uint32_t lli_members_waiting(const struct lli_members *members)
{
    uint32_t left = members->count, place = 0, waiting = 0;
    const struct lli_member *member;

    while ((member = members_next(members, &place, &left)) != NULL)
        waiting += !member->done && member->standing != LLI_STANDING_EXPELLED;
    return waiting;
}
