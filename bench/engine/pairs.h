/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of ends (engine/pairs.c), and what counts their instructions (cost.c), which only some programs have. */
#ifndef BENCH_PAIRS_H
#define BENCH_PAIRS_H

#include <llm/llm.h>

#include "steady.h"

/* A transmitter and a receiver in one thread, each in a context of its own. */
struct pair {
    char name[32];
    /* Features that are on. */
    enum llm_latency_level near_level; /* at the transmitter's end */
    enum llm_latency_level far_level;  /* at the receiver's */
    bool file;                         /* counters files, at both, as the next */
    bool watch;
    struct llm_context *near;
    struct llm_context *far;
    struct llm_transmitter *transmitter;
    struct llm_topic **topics; /* that messages take turns on */
    uint64_t topic_count;
    struct llm_receiver *receiver; /* NULL: there is none */
    uint64_t size;                 /* of a message */
    uint8_t *data;
    struct llm_attributes attributes;
    bool attributed; /* messages have these */
    /* Messages in a row with the same label, of two; 0: all have label 1. */
    uint64_t label_run;
    uint64_t sent;
    uint64_t received;
    uint64_t lost;    /* as events told */
    uint64_t changed; /* not as long as they were sent */
    uint64_t first;   /* number of the first message */
    uint64_t numbers; /* of all that were received, added */
    /* Counters files written by an end, at most, by the first call of pairs_done() */
    uint64_t tables;
};

enum pairs_end { PAIRS_NEAR, PAIRS_FAR };

/* A device that takes the place of the network. */
struct pairs_device {
    void (*open)(void);
    void (*opened)(enum pairs_end end); /* an end was opened */
    void (*turn)(enum pairs_end end);   /* the end runs next: what the other one sent arrives */
};

/* At no address in a program that has no device, or counts nothing. */
extern const struct pairs_device pairs_device __attribute__((weak));
void cost_count(struct pair *pair, const struct control *request) __attribute__((weak));
void cost_pass(uint64_t ns) __attribute__((weak)); /* time passes */

/* Says which end runs next. */
static inline void pairs_turn_to(enum pairs_end end)
{
    if (&pairs_device != NULL)
        pairs_device.turn(end);
}

uint64_t pairs_counter(const struct llm_context *context, const char *name);

#endif
