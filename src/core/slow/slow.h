/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which receivers hurt the others, and how far each is still served (docs/protocol.md section 7.2): figures of every receiver
 * by what it sends, thresholds that they reach, and a ladder from a warning to expulsion.
 *
 * Nothing here runs for each packet: NAKs and reports are counted as they come, and judged every few milliseconds, of many receivers
 * some at a time. Where most receivers suffer the fault is not theirs, and nobody is served worse than before.
 */
#ifndef LLI_SLOW_H
#define LLI_SLOW_H

#include <llm/llm.h>

#include "core/base/arena.h"
#include "core/flow/members.h"
#include "core/base/types.h"
#include "core/wire/wire.h"

enum {
    LLI_SLOW_BUCKETS = 8,   /* figures by time are those of the last so many pieces of a period */
    LLI_SLOW_LIMITS = LLM_THRESHOLD_ACK_TIME + 1,
    LLI_SLOW_RETURNS = 256, /* of so many that were expelled it is remembered for how long */
    LLI_SLOW_REJOIN_TIMES = 64, /* the time grows to so many times the policy's ... */
    LLI_SLOW_SLICE = 256,   /* receivers, about, that are judged at a time, where there are more */
};

/* ... but not beyond this, which also is how long after its return one is remembered to have been expelled. */
#define LLI_SLOW_REJOIN_MAX ((lli_ns)3600000000000)

/* Figures by time are means over this. */
#define LLI_SLOW_PERIOD ((lli_ns)1000000000)

struct lli_slow_policy {
    enum lli_standing most;  /* nobody is served worse than this */
    bool dry;                /* only reports */
    uint64_t limits[LLI_SLOW_LIMITS]; /* at which receivers are suspended, by enum llm_threshold; 0: not judged */
    uint32_t warn_percent;   /* of the limits */
    uint32_t unicast_percent;
    lli_ns patience;         /* NAKs have to be too many for so long */
    lli_ns recover;          /* all has to be well for so long */
    lli_ns expel;            /* suspended for so long */
    lli_ns rejoin;           /* expelled for so long the first time, 0: for good */
    lli_ns status;           /* distance of reports, of at most ten receivers */
};

/* How a receiver is served, and why. */
struct lli_slow_level {
    enum lli_standing standing;
    enum llm_threshold threshold;
    uint64_t value;
    uint64_t limit;
};

/* For how long a receiver owes acknowledgements. */
struct lli_slow_debt {
    lli_seq goal;     /* what was sent ... */
    lli_ns goal_at;   /* ... by then */
    lli_ns goal_ns;   /* so long something before the goal has not been acknowledged, by its reports */
    lli_ns before_ns; /* the same of the goal before */
    bool owes;        /* something */
};

/* What is known of the receiver at the same place of the table of members. */
struct lli_slow_record {
    uint64_t id;           /* whose record it is, if that is still the member's */
    uint64_t turns;        /* its buckets are those of so many turns */
    lli_ns heard_at;
    lli_ns back_at;        /* when it was new, or heard after a silence long enough to be suspended for */
    lli_seq next;          /* as it reported, 0: not yet */
    lli_seq goal;          /* what was sent ... */
    lli_ns goal_at;        /* ... by then; a receiver that is not there yet is behind by the time since */
    lli_ns goal_ns;        /* so long it has not been there, by its reports */
    lli_ns before_ns;      /* the same of the goal before */
    uint64_t lag_packets;  /* as of its latest report */
    uint64_t lag_bytes;
    lli_ns lag_ns;
    struct lli_slow_debt debt;
    uint32_t naks[LLI_SLOW_BUCKETS];
    uint32_t asked[LLI_SLOW_BUCKETS]; /* packets that they asked for */
    lli_ns beyond_at[2];   /* the share of NAKs, and of packets, was not too large before, LLI_NEVER: it is not */
    struct lli_slow_level wanted; /* by its figures as last judged */
    struct lli_slow_level stands; /* as was decided */
    lli_ns decided_at;
    lli_ns bad_at;         /* when it was last found slow */
    lli_ns rejoin;         /* expelled for so long */
    bool ordered;          /* suspended by the operator */
    bool tell;             /* the application is to be told */
    bool answer;           /* it was heard, and is to hear how it stands */
    bool notify;           /* send it a notice now */
    uint8_t notices;       /* still to be sent for a decision */
    uint8_t probes;        /* sent since it was heard */
};

/* One that was expelled. */
struct lli_slow_return {
    uint64_t id;     /* 0: nobody */
    lli_ns rejoin;   /* for so long, the latest time */
    lli_ns since;    /* expelled, or readmitted, then */
};

/* A part of the receivers, from all over the table: those that came together, or in turn, are in different ones. */
struct lli_slow_slice {
    uint32_t index;
    uint32_t count;     /* slices that there are */
    uint32_t from;      /* positions in an order of all places ... */
    uint32_t to;
    uint32_t mask;      /* ... of which there are so many, less one; one slice: the table's own order */
    uint32_t receivers; /* as of the judge */
    uint32_t suffering;
};

struct lli_slow {
    struct lli_slow_policy policy;
    struct lli_slow_record *table; /* by the index of a member */
    uint32_t limit;
    struct lli_slow_return *returns; /* LLI_SLOW_RETURNS of them; whoever finds no place takes that of the longest ago */
    uint32_t sent[LLI_SLOW_BUCKETS]; /* packets */
    uint32_t bucket;
    uint64_t turns;           /* of buckets, so far */
    lli_ns bucket_at;         /* when it is over */
    lli_seq counted;          /* packets before are in the buckets */
    lli_ns judged_at;
    bool shedding;            /* the operator has no NAK answered */
    bool group;               /* most receivers suffer, or did so until a moment ago */
    bool group_tell;
    lli_ns group_at;          /* they did so last */
    uint32_t receivers;       /* that have reported, when all were last judged */
    uint32_t suffering;       /* of these */
    struct lli_slow_slice slice; /* that was judged last, which stands for all */
    struct lli_slow_slice round; /* sums of the slices since all were judged */
    bool round_quiet;         /* nothing was found in these that changes with time */
    uint64_t looked_at;       /* receivers so far: what it costs */
    bool lifted;              /* since it was judged, somebody that was suspended is so no longer */
    bool untold;              /* something is to be told to the application */
    bool unsent;              /* some notice is to be sent */
    uint32_t cursor;          /* the next position in the slice to look at for one */
    uint32_t told;            /* places before this one were looked at for something to tell */
    bool quiet;               /* nothing changes until something is sent or heard */
    struct llm_verdict verdict; /* of the latest event */
    uint64_t decided[LLI_STANDING_EXPELLED + 1]; /* how often, by standing */
};

/* Places records for so many members in the arena. start: the first packet. */
void lli_slow_init(struct lli_slow *slow, const struct lli_slow_policy *policy, uint32_t members_max,
                    struct lli_arena *arena, lli_seq start, lli_ns now);

/* A member that joins late was heard. True: it is not to be answered. */
bool lli_slow_heard(struct lli_slow *slow, struct lli_members *members, uint32_t index, lli_ns now);

/* A member asked for so many packets. True: it is not to be answered. */
bool lli_slow_nak(struct lli_slow *slow, struct lli_members *members, uint32_t index, uint64_t packets, lli_ns now);

/* A member reported what it has, of what was sent. */
void lli_slow_report(struct lli_slow *slow, struct lli_members *members, uint32_t index, lli_seq sent, lli_ns now);

/* How often to judge while data flows. */
static inline lli_ns lli_slow_interval(const struct lli_slow *slow)
{
    return lli_max(slow->policy.status / 10, 1000000);
}

/* When to do it next. */
static inline lli_ns lli_slow_at(const struct lli_slow *slow)
{
    return slow->quiet ? LLI_NEVER : slow->judged_at + lli_slow_interval(slow);
}

/* Judges every member, of many the next slice. sent: the first packet not yet sent. True if a standing changed that others look at. */
bool lli_slow_all(struct lli_slow *slow, struct lli_members *members, lli_seq sent, lli_ns now);

/* The next notice to send, but for its session and lead, and to which member; false if there is none. */
bool lli_slow_notice(struct lli_slow *slow, const struct lli_members *members, struct lli_wire_notice *notice,
                      uint32_t *index);

/* What the application has not been told yet; false if that is nothing. The verdict is the judge's, until the next call. */
bool lli_slow_event(struct lli_slow *slow, struct llm_event *event);

/* The operator's switch: NAKs of a receiver, or (0) of all, are not answered from now on, or are again. False: not known. */
bool lli_slow_shed(struct lli_slow *slow, struct lli_members *members, uint64_t receiver, bool on, lli_ns now);

#endif
