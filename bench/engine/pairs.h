/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured by bench/engine/pairs.c: pairs of ends with different features on; and checks that these did their
 * work.
 */
#ifndef BENCH_PAIRS_H
#define BENCH_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include <llm/llm.h>

/* A transmitter and a receiver in one thread, each in a context of its own. */
struct pair {
    char name[32];
    /* Features that are on. */
    enum llm_latency_level near_level; /* at the transmitter's end */
    enum llm_latency_level far_level;  /* at the receiver's */
    bool file;                         /* counters files, at both, as the next */
    bool watch;
    bool arrival;
    struct llm_context *near;
    struct llm_context *far;
    struct llm_transmitter *transmitter;
    struct llm_topic **topics; /* that messages take turns on */
    uint64_t topic_count;
    struct llm_receiver *receiver; /* NULL: there is none */
    uint64_t size;                 /* of a message */
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

/*
 * True once all that takes its time is done: the watch made its report, and since the first call of this,
 * which is behind the last message, the counters files were written. Both ends are to be polled until then.
 */
bool pairs_done(struct pair *pair);

/*
 * True if every message came once, each feature that is on did its work, and nothing else is on; says on
 * stderr what is wrong. Writes how often the counters files were written, and how long that took, into the
 * answer.
 */
bool pairs_check(const struct pair *pair);

#endif
