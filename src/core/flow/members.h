/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table of the receivers known to a transmitter: fixed size, keyed by the random identity that each receiver
 * chose.
 */
#ifndef LLI_MEMBERS_H
#define LLI_MEMBERS_H

#include <llm/llm.h>

#include "core/base/arena.h"
#include "core/base/types.h"
#include "core/flow/standing.h"
#include "core/wire/wire.h"

#define LLI_MEMBER_NONE UINT32_MAX

struct lli_member {
    uint64_t id; /* 0: the entry is free */
    lli_ns heard_at;
    lli_ns rtt;       /* smoothed round trip, 0: not measured */
    lli_ns report_ns; /* report interval in the latest heartbeat that this receiver is known to have heard */
    lli_seq next;     /* next packet that it waits for, as reported; 0: no report yet */
    /* Oldest packet with a message that its latest report should have acknowledged and did not; 0: none. */
    lli_seq owes;
    uint64_t window;    /* packets that it can buffer from `next` on */
    uint64_t lag;       /* packets sent before its latest report that it neither had nor gave up */
    uint64_t lag_bytes; /* bytes of the history that these packets take, as far as they are still in it */
    uint32_t naks;      /* NAKs sent, as reported */
    uint32_t lost;      /* packets lost, as reported */
    uint32_t requested; /* packets requested again since the last rate decision */
    uint32_t dropped;   /* packets dropped by its host, as reported */
    enum llm_limit limit_reported; /* limit last reported to the application */
    /* Its bottleneck, as reported; its time is 0 before the first such report. */
    struct llm_bottleneck limits;
    bool lagging; /* BEHIND flag: its round trip includes time in its receive queue */
    bool done;    /* it has everything up to the end of the session */
    bool left;    /* done, and has left: its acknowledgements count until the transmitter closes */
    bool record;  /* the slow-receiver policy has a record of it since it was added */
    enum lli_standing standing; /* how it is served; set by slow.h */
    struct lli_wire_address address;
};

/* Interval at which receivers report: it grows with their number (docs/protocol.md section 7). */
struct lli_members_announced {
    lli_ns distance; /* in heartbeats from `since` on */
    lli_ns before;   /* in heartbeats before: the longest that a receiver may still use */
    lli_ns since;
};

struct lli_members {
    struct lli_member *table; /* limit entries */
    uint32_t *index;          /* by identity, into the table: open addressing with linear probing */
    uint32_t mask;            /* of the index */
    uint64_t seed;            /* hash seed of the index: random and secret; set it before adding a member */
    uint32_t count;
    uint32_t limit;
    uint32_t unused;   /* entries before this one are all in use */
    uint32_t end;      /* entries from this one on are all free */
    uint32_t expiring; /* lli_members_expire() continues here */
    struct lli_members_announced announced;
};

/* Places the table in the arena; limit: the maximum number of members. */
void lli_members_init(struct lli_members *members, uint32_t limit, struct lli_arena *arena);

/*
 * Returns the index of a member, adding it if it is new. LLI_MEMBER_NONE: the table is full. id must not be
 * 0.
 */
uint32_t lli_members_add(struct lli_members *members, uint64_t id);

/* Returns the index of a member, LLI_MEMBER_NONE if it is not in the table. */
uint32_t lli_members_get(const struct lli_members *members, uint64_t id);

/* True if flow control waits for a member and its round trip counts. */
static inline bool lli_member_counts(const struct lli_member *member)
{
    return member->id != 0 && member->standing < LLI_STANDING_SUSPENDED;
}

/* Removes a member. The others keep their entries. */
void lli_members_del(struct lli_members *members, uint64_t id);

/* Notes that heartbeats announce this report interval from now on. */
void lli_members_announce(struct lli_members *members, lli_ns distance, lli_ns now);

/* Returns the report interval used by a receiver whose latest heartbeat is not older than `then`. */
static inline lli_ns lli_members_announced(const struct lli_members *members, lli_ns then)
{
    const struct lli_members_announced *announced = &members->announced;

    return then >= announced->since ? announced->distance : lli_max(announced->before, announced->distance);
}

/*
 * Returns the longest interval at which a member may report that was last heard at heard_at, given its latest
 * report.
 */
static inline lli_ns lli_members_distance(const struct lli_members *members, const struct lli_member *member,
                                          lli_ns heard_at)
{
    return lli_max(member->report_ns, lli_members_announced(members, heard_at));
}

/* Entries that one call of lli_members_expire() checks. */
enum { LLI_MEMBERS_EXPIRE_MAX = 256 };

/*
 * Removes members that missed ten reports, at the longest interval that they may use, but at least
 * `distance`. Spares members that were expelled, or left at the end of the session. Of a table with more
 * entries than LLI_MEMBERS_EXPIRE_MAX each call checks so many of them, in turn, so that its time does not
 * grow with the number of members. Returns how many were removed.
 */
uint32_t lli_members_expire(struct lli_members *members, lli_ns distance, lli_ns now);

/*
 * Returns the greatest smoothed round trip of the members that count and are not BEHIND, and its member in
 * *furthest; 0 and NULL if none is measured.
 */
lli_ns lli_members_rtt(const struct lli_members *members, const struct lli_member **furthest);

/* Returns the number of members that are neither done nor expelled. */
uint32_t lli_members_waiting(const struct lli_members *members);

#endif
