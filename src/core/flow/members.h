/* SPDX-License-Identifier: Apache-2.0 */
/* The receivers that a transmitter knows: a fixed table, by the identity that each receiver chose at random. */
#ifndef LLI_MEMBERS_H
#define LLI_MEMBERS_H

#include <llm/llm.h>

#include "core/base/arena.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

#define LLI_MEMBER_NONE UINT32_MAX

struct lli_member {
    uint64_t id; /* 0: the place is free */
    lli_ns heard_at;
    lli_ns rtt; /* smoothed, 0: not measured */
    lli_ns report_ns; /* distance of its reports, by the latest heartbeat of which it said that it heard it */
    lli_seq next;    /* as it reported, 0: not yet */
    lli_seq owes;    /* the oldest packet with a message that it was to acknowledge by then, and did not, 0: none */
    uint64_t window; /* packets that it can hold from next on */
    uint64_t lag;    /* packets sent by then that it neither had nor gave up */
    uint64_t lag_bytes; /* of the history, that these took, as far as they were kept */
    uint32_t naks;   /* it sent, as it reported */
    uint32_t lost;   /* packets, likewise */
    uint32_t asked;  /* packets it asked for again since the rate was last judged */
    uint32_t dropped; /* packets by its host, as it reported */
    enum llm_limit limit_told; /* to the application */
    struct llm_bottleneck limits; /* as it reported, its time 0: not yet */
    bool behind; /* its round trip has time in it for which packets wait to be read */
    bool done;  /* it has everything up to the end of the session */
    bool left;  /* done, and gone: what it acknowledged counts until the transmitter closes */
    bool record; /* the judge has had it since it was added */
    enum lli_standing standing; /* how it is served: judge.h decides */
    struct lli_wire_address address;
};

/* At what distance receivers report: the more there are, the further apart (docs/protocol.md section 7). */
struct lli_members_told {
    lli_ns distance; /* by the heartbeats since then */
    lli_ns before;   /* by those before: the longest that a receiver may still go by */
    lli_ns since;
};

struct lli_members {
    struct lli_member *table; /* limit places */
    uint32_t *index;          /* by identity, into the table: open addressing with linear probing */
    uint32_t mask;            /* of the index */
    uint64_t seed;            /* of the index: random, and known to nobody else; set before there is a member */
    uint32_t count;
    uint32_t limit;
    uint32_t unused;          /* no place before this one is free */
    uint32_t end;             /* all places from this one on are */
    struct lli_members_told told;
};

/* Places the table in the arena; limit: the most members. */
void lli_members_init(struct lli_members *members, uint32_t limit, struct lli_arena *arena);

/* The index of a member, added if it is new and there is room; else LLI_MEMBER_NONE. id is not 0. */
uint32_t lli_members_add(struct lli_members *members, uint64_t id);

/* The index of a member, LLI_MEMBER_NONE: there is no such. */
uint32_t lli_members_get(const struct lli_members *members, uint64_t id);

/* Whether others wait for a member and care how far away it is. */
static inline bool lli_member_counts(const struct lli_member *member)
{
    return member->id != 0 && member->standing < LLI_STANDING_SUSPENDED;
}

/* Removes one. The others keep their places. */
void lli_members_del(struct lli_members *members, uint64_t id);

/* A heartbeat tells receivers to report at this distance. */
void lli_members_tell(struct lli_members *members, lli_ns distance, lli_ns now);

/* The distance at which a receiver reports that heard no later heartbeat than one of then. */
static inline lli_ns lli_members_told(const struct lli_members *members, lli_ns then)
{
    const struct lli_members_told *told = &members->told;

    return then >= told->since ? told->distance : lli_max(told->before, told->distance);
}

/* The same of a member that was heard then for the last time, and of which no more is known than its last report says. */
static inline lli_ns lli_members_distance(const struct lli_members *members, const struct lli_member *member, lli_ns heard_at)
{
    return lli_max(member->report_ns, lli_members_told(members, heard_at));
}

/*
 * Removes those from which ten reports did not come, at the distance that they may go by, but no less than this one; except those that
 * were expelled, or left at the end. Returns how many.
 */
uint32_t lli_members_expire(struct lli_members *members, lli_ns distance, lli_ns now);

/* The greatest smoothed round trip of those who count, and are not behind, and whose that is; 0 and NULL if none is measured. */
lli_ns lli_members_rtt(const struct lli_members *members, const struct lli_member **furthest);

/* How many are not done, and not expelled. */
uint32_t lli_members_waiting(const struct lli_members *members);

#endif
