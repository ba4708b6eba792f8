/* SPDX-License-Identifier: Apache-2.0 */
#include "core/flow/members.h"

/* Missed reports after which a member is removed. */
enum { MEMBER_REPORTS_MISSED = 10 };

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

static uint64_t members_turn(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

/*
 * SipHash-1-3 of an identity (Aumasson and Bernstein, 2012). Receivers choose their identities; the seed
 * prevents choosing many that collide.
 */
static uint64_t members_hash(uint64_t seed, uint64_t id)
{
    uint64_t v0 = seed ^ 0x736f6d6570736575u, v1 = ~seed ^ 0x646f72616e646f6du;
    uint64_t v2 = seed ^ 0x6c7967656e657261u, v3 = ~seed ^ 0x7465646279746573u ^ id;

    for (int round = 0; round < 5; round++) {
        v0 += v1;
        v1 = members_turn(v1, 13) ^ v0;
        v0 = members_turn(v0, 32);
        v2 += v3;
        v3 = members_turn(v3, 16) ^ v2;
        v0 += v3;
        v3 = members_turn(v3, 21) ^ v0;
        v2 += v1;
        v1 = members_turn(v1, 17) ^ v2;
        v2 = members_turn(v2, 32);
        /* One round for the identity, one for its size, three to finish. */
        if (round == 0) {
            v0 ^= id;
            v3 ^= (uint64_t)8 << 56;
        } else if (round == 1) {
            v0 ^= (uint64_t)8 << 56;
            v2 ^= 0xff;
        }
    }
    return v0 ^ v1 ^ v2 ^ v3;
}

/* Returns the position of an identity in the index, or the position where it would be added. */
static uint32_t members_find(const struct lli_members *members, uint64_t id)
{
    uint32_t at = (uint32_t)members_hash(members->seed, id) & members->mask;

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
    members->end = (uint32_t)lli_max(members->end, members->unused + 1);
    members->count++;
    return members->index[at] = members->unused;
}

uint32_t lli_members_get(const struct lli_members *members, uint64_t id)
{
    return members->index[members_find(members, id)];
}

static void members_freed(struct lli_members *members, uint32_t place)
{
    members->unused = (uint32_t)lli_min(members->unused, place);
    while (members->end > 0 && members->table[members->end - 1].id == 0)
        members->end--;
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
    members_freed(members, place);
    /* Entries after it in the index may have been displaced by it: reinserts each where a search finds it. */
    for (at = (at + 1) & members->mask; members->index[at] != LLI_MEMBER_NONE;
         at = (at + 1) & members->mask) {
        uint32_t moved = members->index[at];

        members->index[at] = LLI_MEMBER_NONE;
        members->index[members_find(members, members->table[moved].id)] = moved;
    }
}

/*
 * Returns the next occupied entry, NULL after the last; `left` counts down the members. Scans no further than
 * the last member: the table is large, and frequent full scans would evict the data path from the caches.
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

static bool members_is_gone(const struct lli_members *members, const struct lli_member *member,
                            lli_ns distance, lli_ns now)
{
    const lli_ns patience =
        lli_max(distance, lli_members_distance(members, member, member->heard_at)) * MEMBER_REPORTS_MISSED;

    return member->id != 0 && now > member->heard_at && now - member->heard_at > patience &&
           member->standing != LLI_STANDING_EXPELLED && !member->left;
}

uint32_t lli_members_expire(struct lli_members *members, lli_ns distance, lli_ns now)
{
    const bool many = members->end > LLI_MEMBERS_EXPIRE_MAX;
    const uint32_t from = many && members->expiring < members->end ? members->expiring : 0;
    const uint32_t to = (uint32_t)lli_min(members->end, (uint64_t)from + LLI_MEMBERS_EXPIRE_MAX);
    const uint32_t count = members->count;

    for (uint32_t place = from; place < to; place++)
        if (members_is_gone(members, &members->table[place], distance, now))
            lli_members_del(members, members->table[place].id);
    members->expiring = to;
    return count - members->count;
}

void lli_members_announce(struct lli_members *members, lli_ns distance, lli_ns now)
{
    struct lli_members_announced *announced = &members->announced;

    if (distance == announced->distance)
        return;
    /* By now, receivers that hear heartbeats know of the change; those that do not are removed. */
    if (now - announced->since > MEMBER_REPORTS_MISSED * announced->before)
        announced->before = 0;
    announced->before = lli_max(announced->before, announced->distance);
    announced->distance = distance;
    announced->since = now;
}

lli_ns lli_members_rtt(const struct lli_members *members, const struct lli_member **furthest)
{
    uint32_t left = members->count, place = 0;
    const struct lli_member *member;
    lli_ns rtt = 0;

    *furthest = NULL;
    while ((member = members_next(members, &place, &left)) != NULL) {
        if (!lli_member_counts(member) || member->lagging || member->rtt <= rtt)
            continue;
        rtt = member->rtt;
        *furthest = member;
    }
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
