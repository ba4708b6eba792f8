/* SPDX-License-Identifier: Apache-2.0 */
/* State of the bottleneck watch (src/observe/watch.c) in a context, a transmitter or a receiver. */
#ifndef LLI_WATCHED_H
#define LLI_WATCHED_H

#include <llm/llm.h>

#include "core/base/types.h"

struct llm_context;

struct lli_watch {
    lli_ns interval;  /* 0: it does not run */
    bool reports;     /* events are reported */
    lli_ns polled_at; /* beginning of the previous poll */
    bool delivered;   /* the previous poll delivered something */
    lli_ns away;      /* in the current interval */
    lli_ns away_max;
    lli_ns looked_at; /* latest look at the transmitters */
    lli_ns assessed_at;
    uint64_t away_ever;
};

/* The watch's state of a receiver or a transmitter. */
struct lli_watched {
    bool evaluated; /* latest covers a whole interval */
    struct llm_bottleneck latest;
    struct llm_bottleneck now;  /* times of the current interval */
    struct llm_bottleneck ever; /* sum of all intervals; of a receiver: drops of its host */
    uint64_t packets;           /* counted at the end of the latest interval */
    uint64_t missed;            /* likewise */
    /* Drops that explained no miss yet: the packets may be found missing later. */
    uint64_t unused;
    lli_ns unused_away;                        /* longest absence of the application when they were dropped */
    uint64_t refused[LLM_LIMIT_TRANSPORT + 1]; /* at the latest look */
    enum llm_limit reported;
};

/* Logs the bottleneck of an object. */
void lli_watched_log(const struct llm_context *context, const char *object,
                     const struct llm_bottleneck *bottleneck);

#endif
