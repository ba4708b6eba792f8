/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a transmitter may send (docs/protocol.md section 7.1): as fast as it can; at a rate found by additive increase and
 * multiplicative decrease; or no further than a window beyond what receivers have reported.
 *
 * The slowest receivers do not decide for all: a quorum of them has to keep up.
 */
#ifndef LLI_FLOW_H
#define LLI_FLOW_H

#include "core/base/arena.h"
#include "core/flow/members.h"
#include "core/base/pacer.h"
#include "core/base/quorum.h"
#include "core/base/types.h"

enum lli_flow_mode { LLI_FLOW_OPEN = 0, LLI_FLOW_PACED, LLI_FLOW_WINDOW };

struct lli_flow_config {
    enum lli_flow_mode mode;
    uint32_t window_packets;    /* how far receivers may lie behind */
    uint32_t quorum_percent;    /* so many of those that are not suspended have to keep up */
    uint64_t bytes_per_s_max;   /* paced: never faster */
    bool awaits;                /* not open: nothing is sent before somebody reports, nor beyond that while nobody does */
    uint64_t rate;              /* never faster, whatever the mode; 0: no limit */
};

struct lli_flow {
    struct lli_flow_config config;
    enum lli_flow_mode meter;   /* PACED: the bucket decides, too, for the pace or a limit of the rate; else OPEN */
    enum lli_flow_mode hold;    /* OPEN: no packet ever has to wait */
    lli_seq limit;              /* packets before this one may be sent */
    uint64_t session;           /* by which receivers are in the share of those that report by packets ... */
    uint32_t share;             /* ... of 2^this one; only they have a say */
    struct lli_quorum quorum;   /* of how far receivers let it go, by the index of a member */
    struct lli_pacer pacer;
    uint64_t step;              /* bytes/s by which the rate grows at a time */
    bool doubling;              /* no receiver has fallen behind yet: the rate doubles */
    bool hungry;                /* more would have been sent since the rate was last judged */
    lli_ns judged_at;
    lli_seq record;             /* packets before were sent by then */
    uint64_t judged_bytes;      /* sent since */
};

/* Places what it needs in the arena, for as many receivers as members_max. start: the first packet. */
void lli_flow_init(struct lli_flow *flow, const struct lli_flow_config *config, uint32_t members_max, struct lli_arena *arena,
                   lli_seq start, lli_ns now);

/* Many receivers may have come, reported or gone, or count or not as they did not before: takes time by their number. */
void lli_flow_reported(struct lli_flow *flow, const struct lli_members *members);

/* How far a member lets a transmitter go, 0: it has no say. */
uint64_t lli_flow_reach(const struct lli_flow *flow, const struct lli_member *member);

/* The same of one member: takes time by the logarithm of their number. */
void lli_flow_moved(struct lli_flow *flow, const struct lli_members *members, uint32_t index);

/* Paced: the time may have come to change the rate. sent: the first packet not yet sent. */
void lli_flow_assess(struct lli_flow *flow, struct lli_members *members, lli_seq sent, lli_ns rtt, lli_ns now);

/*
 * Of how many receivers one is to report by packets, as a power of two, from now on: of so many members that enough are left to find the
 * quorum by. Where the slowest decide, and so nobody can stand for others, or all have to report for another reason: of all.
 */
uint32_t lli_flow_share(struct lli_flow *flow, const struct lli_members *members, bool all);

/* Whether a packet may be sent after so many bytes that are going out already. */
static inline bool lli_flow_allows(const struct lli_flow *flow, lli_seq seq, uint64_t bytes)
{
    return seq < flow->limit && (flow->meter != LLI_FLOW_PACED || bytes < flow->pacer.tokens);
}

/* Whether packets leave at a rate. Compared as a mode is: two instructions a packet less, measured. */
static inline bool lli_flow_is_metered(const struct lli_flow *flow)
{
    return flow->meter == LLI_FLOW_PACED;
}

/* What may go at once after a pause at a limited rate. */
uint64_t lli_flow_burst(uint64_t bytes_per_s);

/* Limits the rate from now on; 0: no limit. */
void lli_flow_rate(struct lli_flow *flow, uint64_t bytes_per_s, lli_ns now);

/* Metered: so many bytes were sent. */
void lli_flow_sent(struct lli_flow *flow, uint64_t bytes);

/* When this packet may be sent, 0: now, LLI_NEVER: when a report comes. */
lli_ns lli_flow_ready_at(const struct lli_flow *flow, lli_seq seq);

/* Whether the rate is as high as the limit allows: receivers would take more. */
bool lli_flow_is_at_limit(const struct lli_flow *flow);

/* The value that so many of them, at least, reach, 1 or more; sorts them as it likes (Hoare, "Algorithm 65: find", 1961). */
uint64_t lli_flow_find(uint64_t *values, uint32_t count, uint32_t reached_by);

/* Packets after which receivers are to report, 0: by time only. */
uint32_t lli_flow_report_packets(const struct lli_flow *flow);

#endif
