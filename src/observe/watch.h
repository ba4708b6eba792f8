/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bottleneck watch of a context: counts how long the application is away between polls and what holds transmitters, and
 * judges every receiver and transmitter once in an interval (docs/adr/0022). Costs nothing where it does not run.
 */
#ifndef LLI_WATCH_H
#define LLI_WATCH_H

#include "core/limits/bottleneck.h"

struct llm_context;
struct llm_transmitter;

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

/* Begins, if the options or a counters file ask for it. LLM_EINVAL: watch_ns. */
int lli_watch_open(struct llm_context *context, const struct llm_context_options *options);

/* A poll that began at now is done. */
void lli_watch_polled(struct llm_context *context, lli_ns now);

/* A message of a transmitter is refused: counts it, and for what. */
void lli_watch_refused(struct llm_transmitter *transmitter);

/* What holds a transmitter at this moment. */
enum llm_limit lli_watch_held(const struct llm_transmitter *transmitter);

/* Logs what limits an object now. */
void lli_watch_log(const struct llm_context *context, const char *object, const struct llm_bottleneck *bottleneck);

#endif
