/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of ends (engine/pairs.c), and the count of their instructions (cost.c), which few programs have. */
#ifndef BENCH_PAIRS_H
#define BENCH_PAIRS_H

#include <llm/llm.h>

#include "steady.h"

/* A transmitter and a receiver in one thread, each with a context of its own. */
struct pair {
    char name[32];
    /* Active features. */
    enum llm_latency_level near_level; /* at the transmitter's end */
    enum llm_latency_level far_level;  /* at the receiver's end */
    bool file;                         /* counters files, at both ends, as is the watch */
    bool watch;
    struct llm_context *near;
    struct llm_context *far;
    struct llm_transmitter *transmitter;
    struct llm_topic **topics; /* topics that messages use in turn */
    uint64_t topic_count;
    struct llm_receiver *receiver; /* NULL: no receiver */
    uint64_t size;                 /* bytes of a message */
    uint8_t *data;
    struct llm_attributes attributes;
    bool attributed; /* messages have attributes */
    /* Consecutive messages with the same label, of two labels; 0: all have label 1. */
    uint64_t label_run;
    uint64_t sent;
    uint64_t received;
    uint64_t lost;    /* as reported by events */
    uint64_t changed; /* messages of another size than sent */
    uint64_t first;   /* number of the first message */
    uint64_t numbers; /* sum of the numbers of received messages */
    /* Counters files written by an end, at most, at the first call of pairs_written(). */
    uint64_t tables;
};

enum pairs_end { PAIRS_NEAR, PAIRS_FAR };

/* A device in place of the network. */
struct pairs_device {
    void (*open)(void);
    void (*opened)(enum pairs_end end); /* an end was opened */
    void (*turn)(enum pairs_end end);   /* the end runs next: packets of the other end arrive */
};

/* NULL in a program without a device, or without a count. */
extern const struct pairs_device pairs_device __attribute__((weak));
void cost_count(struct pair *pair, const struct control *request) __attribute__((weak));
void cost_pass(uint64_t ns) __attribute__((weak)); /* advances the clock */

/* Selects the end that runs next. */
static inline void pairs_turn_to(enum pairs_end end)
{
    if (&pairs_device != NULL)
        pairs_device.turn(end);
}

uint64_t pairs_counter(const struct llm_context *context, const char *name);

#endif
