/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow-receiver policy (docs/protocol.md section 7.2): finds receivers that hurt the others and decides how
 * far each is served. Figures of each receiver come from what it sends; thresholds on them drive a ladder
 * from a warning to expulsion.
 *
 * Nothing here runs per packet: NAKs and reports are counted as they arrive and evaluated every few
 * milliseconds, a slice at a time where there are many receivers. If most receivers suffer, the fault is not
 * theirs, and no receiver's standing gets worse.
 */
#ifndef LLI_SLOW_H
#define LLI_SLOW_H

#include <llm/llm.h>

#include "core/base/arena.h"
#include "core/flow/standing.h"
#include "core/base/types.h"

struct lli_members;
struct lli_wire_notice;

enum {
    LLI_SLOW_BUCKETS = 8, /* figures by time cover this many buckets of a period */
    LLI_SLOW_LIMITS = LLM_THRESHOLD_ACK_TIME + 1,
    LLI_SLOW_RETURNS = 256,     /* expelled receivers whose rejoin time is remembered */
    LLI_SLOW_REJOIN_TIMES = 64, /* maximum of the rejoin time, as a multiple of the policy's */
    LLI_SLOW_SLICE = 256,       /* approximate number of receivers evaluated at a time */
};

/* Upper bound of the rejoin time; also the time after readmission for which an expulsion is remembered. */
#define LLI_SLOW_REJOIN_MAX ((lli_ns)3600000000000)

/* Averaging period of figures by time. */
#define LLI_SLOW_PERIOD ((lli_ns)1000000000)

struct lli_slow_policy {
    enum lli_standing most;           /* no receiver gets a worse standing than this */
    bool dry;                         /* dry run: only report */
    uint64_t limits[LLI_SLOW_LIMITS]; /* suspension thresholds, by enum llm_threshold; 0: not evaluated */
    uint32_t warn_percent;            /* percentage of the thresholds */
    uint32_t unicast_percent;
    lli_ns patience; /* time for which NAKs have to be too many */
    lli_ns recover;  /* time for which all figures have to be good */
    lli_ns expel;    /* suspension time before expulsion */
    lli_ns rejoin;   /* first expulsion time, 0: forever */
    lli_ns status;   /* report interval with at most ten receivers */
};

/* Standing of a receiver, and the reason for it. */
struct lli_slow_level {
    enum lli_standing standing;
    enum llm_threshold threshold;
    uint64_t value;
    uint64_t limit;
};

/* Time for which a receiver has owed acknowledgements. */
struct lli_slow_debt {
    lli_seq goal;     /* packets before this one were sent ... */
    lli_ns goal_at;   /* ... by this time */
    lli_ns goal_ns;   /* time for which its reports have left a message before the goal unacknowledged */
    lli_ns before_ns; /* likewise, of the goal before */
    bool owes;        /* it owes an acknowledgement */
};

/* Record of the receiver at the same index of the table of members. */
struct lli_slow_record {
    uint64_t id;    /* identity of the receiver; compare with the member's */
    uint64_t turns; /* bucket turns that its buckets belong to */
    lli_ns heard_at;
    lli_ns back_at; /* when it was new, or heard after a silence that is long enough for suspension */
    lli_seq next;   /* next packet that it waits for, as reported; 0: no report yet */
    lli_seq goal;   /* packets before this one were sent ... */
    /* ... by this time; until the receiver reaches the goal, the time since is its lag */
    lli_ns goal_at;
    lli_ns goal_ns;       /* time for which its reports have been short of the goal */
    lli_ns before_ns;     /* likewise, of the goal before */
    uint64_t lag_packets; /* as of its latest report */
    uint64_t lag_bytes;
    lli_ns lag_ns;
    struct lli_slow_debt debt;
    uint32_t naks[LLI_SLOW_BUCKETS];
    uint32_t requested[LLI_SLOW_BUCKETS]; /* packets requested by NAKs */
    /* Times at which the rate of NAKs, and the share of packets requested, became too large; LLI_NEVER: it is not. */
    lli_ns beyond_at[2];
    struct lli_slow_level wanted; /* by its figures at the last evaluation */
    struct lli_slow_level stands; /* as decided */
    lli_ns decided_at;
    lli_ns bad_at;   /* when it was last found slow */
    lli_ns rejoin;   /* current expulsion time */
    bool ordered;    /* suspended by the operator */
    bool event_due;  /* an event for the application is due */
    bool answer;     /* it was heard, and a notice answers it */
    bool notify;     /* a notice is due now */
    uint8_t notices; /* notices left to send for a decision */
    uint8_t probes;  /* notices sent as probes since it was heard */
};

/* Record of an expulsion. */
struct lli_slow_return {
    uint64_t id;   /* 0: free */
    lli_ns rejoin; /* latest expulsion time */
    lli_ns since;  /* time of the expulsion or readmission */
};

/*
 * Part of the receivers, spread over the whole table: receivers that joined together, or one after the other,
 * are in different slices.
 */
struct lli_slow_slice {
    uint32_t index;
    uint32_t count; /* number of slices */
    uint32_t from;  /* positions in a permutation of all table entries ... */
    uint32_t to;
    uint32_t mask;      /* ... whose size is mask + 1; with one slice: table order */
    uint32_t receivers; /* that have reported, as of the evaluation */
    uint32_t suffering;
};

/* Packets sent in the latest period. */
struct lli_slow_sent {
    uint32_t packets[LLI_SLOW_BUCKETS];
    uint32_t bucket;  /* the current one */
    uint64_t turns;   /* bucket turns so far */
    lli_ns bucket_at; /* end of the current bucket */
    lli_seq counted;  /* packets before this one are counted in the buckets */
};

/* The receivers as a whole. */
struct lli_slow_group {
    bool in_force; /* the group rule: most receivers suffer, or recently did */
    bool event_due;
    lli_ns at;          /* when they last did */
    uint32_t receivers; /* receivers that had reported, at the last complete evaluation */
    uint32_t suffering; /* of these, slow receivers */
};

/* Progress of the evaluation. */
struct lli_slow_scan {
    struct lli_slow_slice slice; /* slice evaluated last, whose figures stand for all receivers */
    struct lli_slow_slice round; /* sums of the slices since the last complete evaluation */
    bool round_quiet;            /* no slice of this round had a condition that changes with time */
    uint64_t looked_at;          /* receivers evaluated so far, as a measure of cost */
};

struct lli_slow {
    struct lli_slow_policy policy;
    struct lli_slow_record *table; /* by member index */
    uint32_t limit;
    struct lli_slow_return *returns; /* LLI_SLOW_RETURNS entries; when full, a new one replaces the oldest */
    struct lli_slow_sent sent;
    struct lli_slow_group group;
    struct lli_slow_scan scan;
    lli_ns assessed_at;
    bool suspends_all; /* the operator ordered that no NAK is answered */
    bool lifted;       /* a suspension ended since the last evaluation */
    bool quiet;        /* nothing changes until a packet is sent or received */
    bool unreported;   /* an event for the application is pending */
    struct {
        uint32_t checked;           /* entries before this one were checked for events */
        struct llm_verdict verdict; /* verdict of the latest event */
    } events;
    struct {
        bool due;        /* a notice is pending */
        uint32_t cursor; /* next position in the slice to check for a notice */
    } notices;
    uint64_t decided[LLI_STANDING_EXPELLED + 1]; /* decisions so far, by standing */
};

/* Places records for members_max members in the arena. start: the first packet. */
void lli_slow_init(struct lli_slow *slow, const struct lli_slow_policy *policy, uint32_t members_max,
                   struct lli_arena *arena, lli_seq start, lli_ns now);

/* Notes a late-join request of a member. True: do not answer it. */
bool lli_slow_heard(struct lli_slow *slow, struct lli_members *members, uint32_t index, lli_ns now);

/* Notes a member's NAK for this many packets. True: do not answer it. */
bool lli_slow_nak(struct lli_slow *slow, struct lli_members *members, uint32_t index, uint64_t packets,
                  lli_ns now);

/* Notes a member's report. sent: the first packet not yet sent. */
void lli_slow_report(struct lli_slow *slow, struct lli_members *members, uint32_t index, lli_seq sent,
                     lli_ns now);

/* Notes that data was sent: the members are evaluated from now on. */
static inline void lli_slow_flows(struct lli_slow *slow)
{
    slow->quiet = false;
}

/* Interval of evaluation while data flows. */
static inline lli_ns lli_slow_interval(const struct lli_slow *slow)
{
    return lli_max(slow->policy.status / 10, 1000000);
}

/* Time of the next evaluation; LLI_NEVER while nothing can change. */
static inline lli_ns lli_slow_at(const struct lli_slow *slow)
{
    return slow->quiet ? LLI_NEVER : slow->assessed_at + lli_slow_interval(slow);
}

/*
 * Evaluates all members, or the next slice if there are many. sent: the first packet not yet sent. True if a
 * standing changed.
 */
bool lli_slow_all(struct lli_slow *slow, struct lli_members *members, lli_seq sent, lli_ns now);

/* Returns the next notice to send, without its session and lead, and the index of its member; false: none. */
bool lli_slow_notice(struct lli_slow *slow, const struct lli_members *members, struct lli_wire_notice *notice,
                     uint32_t *index);

/*
 * Returns the next event for the application; false: none. Its verdict is owned by `slow` and valid until the
 * next call.
 */
bool lli_slow_event(struct lli_slow *slow, struct llm_event *event);

/*
 * Operator's order: stops answering NAKs of a receiver, or answers them again. False: receiver not known. The
 * order for all receivers leaves those for single ones in force.
 */
bool lli_slow_suspend(struct lli_slow *slow, struct lli_members *members, uint64_t receiver, bool suspend,
                      lli_ns now);
void lli_slow_suspend_all(struct lli_slow *slow, bool suspend);

#endif
