/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow control of a transmitter (docs/protocol.md section 7.1). Three modes: open, as fast as possible;
 * paced, at a rate found by additive increase and multiplicative decrease; window, at most a window beyond
 * the receivers' reports.
 *
 * A quorum of receivers has to keep up; the slowest receivers do not decide for all.
 */
#ifndef LLI_FLOW_H
#define LLI_FLOW_H

#include "core/base/arena.h"
#include "core/base/pacer.h"
#include "core/base/quorum.h"
#include "core/base/types.h"

struct lli_history;
struct lli_member;
struct lli_members;

enum lli_flow_mode { LLI_FLOW_OPEN = 0, LLI_FLOW_PACED, LLI_FLOW_WINDOW };

struct lli_flow_config {
    enum lli_flow_mode mode;
    uint32_t window_packets;  /* how far receivers may lag */
    uint64_t window_bytes;    /* bytes of the history by which they may lag; 0: no limit */
    uint32_t quorum_percent;  /* percentage of the receivers that are not suspended which has to keep up */
    uint64_t bytes_per_s_max; /* paced: maximum rate */
    /*
     * Not open: send nothing before the first report, and nothing beyond the last report while no receiver
     * reports.
     */
    bool awaits;
    uint64_t rate; /* maximum rate in every mode, bytes/s; 0: no limit */
};

struct lli_flow {
    struct lli_flow_config config;
    /* PACED: the token bucket limits too, for the pace or a rate limit; else OPEN */
    enum lli_flow_mode meter;
    enum lli_flow_mode blocking; /* OPEN: no packet ever has to wait */
    lli_seq limit;               /* packets before this one may be sent */
    bool in_bytes; /* bytes limit a member: the limit rises once smaller packets than supposed were sent */
    const struct lli_history *history; /* of the packets sent; may be NULL without window_bytes */
    uint64_t session;                  /* with `share`, selects the receivers that report by packets */
    uint32_t share;                    /* one receiver of 2^share reports by packets; only these count */
    struct lli_quorum quorum;          /* how far each member lets the transmitter send, by member index */
    struct lli_pacer pacer;
    uint64_t step; /* bytes/s added to the rate at each increase */
    bool doubling; /* no receiver has lagged yet: the rate doubles at each increase */
    bool hungry;   /* the rate delayed packets since the last rate decision */
    lli_ns assessed_at;
    lli_seq record;          /* packets before this one were sent by assessed_at */
    uint64_t assessed_bytes; /* bytes sent since assessed_at */
};

/*
 * Places the state in the arena, for up to members_max receivers. start: the first packet. The functions below
 * take as `sent` the first packet not yet sent.
 */
void lli_flow_init(struct lli_flow *flow, const struct lli_flow_config *config, uint32_t members_max,
                   struct lli_arena *arena, lli_seq start, lli_ns now);

/*
 * Recomputes the limit after many members joined, reported, left or changed standing. Takes time linear in
 * their number.
 */
void lli_flow_reported(struct lli_flow *flow, const struct lli_members *members, lli_seq sent);

/* Recomputes the limit after one member changed. Takes time logarithmic in the number of members. */
void lli_flow_moved(struct lli_flow *flow, const struct lli_members *members, uint32_t index, lli_seq sent);

/*
 * Recomputes the limit if it was reached and supposed that packets are of the largest size, which those sent
 * since may not have been (ADR 69).
 */
static inline void lli_flow_advanced(struct lli_flow *flow, const struct lli_members *members, lli_seq sent)
{
    if (sent >= flow->limit && flow->in_bytes)
        lli_flow_reported(flow, members, sent);
}

/* Paced: adjusts the rate if the interval is over. */
void lli_flow_assess(struct lli_flow *flow, struct lli_members *members, lli_seq sent, lli_ns rtt,
                     lli_ns now);

/*
 * Returns k: one receiver of 2^k is to report by packets from now on, chosen so that enough members remain to
 * find the quorum by. Returns 0 (all receivers report) if `all` is set or the slowest receivers decide, as
 * then no receiver can stand for others.
 */
uint32_t lli_flow_share(struct lli_flow *flow, const struct lli_members *members, bool all, lli_seq sent);

/* True if a packet may be sent after `bytes` bytes that are already on their way out. */
static inline bool lli_flow_allows(const struct lli_flow *flow, lli_seq seq, uint64_t bytes)
{
    return seq < flow->limit && (flow->meter != LLI_FLOW_PACED || bytes < flow->pacer.tokens);
}

/*
 * True if a rate limits packets. Compares a mode instead of a flag: two instructions less per packet,
 * measured.
 */
static inline bool lli_flow_is_metered(const struct lli_flow *flow)
{
    return flow->meter == LLI_FLOW_PACED;
}

/* Returns the bytes that may be sent at once after a pause, at this limited rate. */
uint64_t lli_flow_burst(uint64_t bytes_per_s);

/* Sets the rate limit; 0: no limit. */
void lli_flow_rate(struct lli_flow *flow, uint64_t bytes_per_s, lli_ns now);

/* Metered: accounts for bytes sent. */
void lli_flow_sent(struct lli_flow *flow, uint64_t bytes);

/* Returns the time at which a packet may be sent. 0: now; LLI_NEVER: after the next report. */
lli_ns lli_flow_ready_at(const struct lli_flow *flow, lli_seq seq);

/* True if the rate has reached its limit: receivers would take more. */
bool lli_flow_is_at_limit(const struct lli_flow *flow);

/*
 * Returns the greatest value that at least reached_by (1 or more) of the values reach. Reorders the values
 * (Hoare, "Algorithm 65: find", 1961).
 */
uint64_t lli_flow_find(uint64_t *values, uint32_t count, uint32_t reached_by);

/*
 * Returns the number of packets after which receivers are to report, several times in a window of packets as
 * large as the latest ones; 0: by time only.
 */
uint32_t lli_flow_report_packets(const struct lli_flow *flow, lli_seq sent);

#endif
