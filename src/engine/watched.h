/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of transmitters and receivers as the bottleneck watch finds them (src/observe/watch.c): its state in each object. */
#ifndef LLI_WATCHED_H
#define LLI_WATCHED_H

#include <llm/llm.h>

#include "core/base/types.h"

struct llm_context;

struct lli_watch {
    lli_ns interval;  /* 0: it does not run */
    bool tells;       /* events */
    lli_ns polled_at; /* the poll before this one began */
    bool delivered;   /* it delivered something */
    lli_ns away;      /* since the latest judgement */
    lli_ns away_max;
    lli_ns looked_at; /* at the transmitters */
    lli_ns judged_at;
    uint64_t away_ever;
};

/* What is known of a receiver or a transmitter. */
struct lli_watched {
    bool judged;                  /* latest is of a whole interval */
    struct llm_bottleneck latest;
    struct llm_bottleneck now;    /* of the time since, as far as it is counted by time */
    struct llm_bottleneck ever;   /* all of that together; of a receiver, what its host dropped */
    uint64_t packets;             /* counted by the latest judgement */
    uint64_t missed;              /* the same */
    uint64_t unused;              /* drops that explained nothing: what they took is perhaps only missed later, ... */
    lli_ns unused_away;           /* ... and how long the application was away at once when it was dropped */
    uint64_t refused[LLM_LIMIT_TRANSPORT + 1]; /* by the latest look */
    enum llm_limit told;
};

/* Logs the limit of an object. */
void lli_watched_log(const struct llm_context *context, const char *object, const struct llm_bottleneck *bottleneck);

#endif
