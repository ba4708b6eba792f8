/* SPDX-License-Identifier: Apache-2.0 */
/* Measured by bench/engine/overhead.c: pairs of ends with different features on; and checks that these did their work. */
#ifndef BENCH_OVERHEAD_H
#define BENCH_OVERHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include <llm/llm.h>

/* Features that are on. */
struct overhead_feature {
    const char *name;
    enum llm_latency_level near; /* at the transmitter's end */
    enum llm_latency_level far;  /* at the receiver's */
    bool file;                   /* counters files, at both, as the next */
    bool watch;
    bool arrival;
};

/* A transmitter and a receiver in one thread, each in a context of its own. */
struct overhead_pair {
    const struct overhead_feature *feature;
    struct llm_context *near;
    struct llm_context *far;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct llm_receiver *receiver;
    uint64_t sent;
    uint64_t received;
    uint64_t lost;    /* as events told */
    uint64_t changed; /* not as long as they were sent */
    uint64_t first;   /* number of the first message */
    uint64_t numbers; /* of all that were received, added */
    uint64_t near_tables; /* written to the counters files by the first call of overhead_done() */
    uint64_t far_tables;
};

/* Time spent on writing counters files. */
struct overhead_writing {
    uint64_t writes;
    uint64_t ns;
};

/*
 * True once all that takes its time is done: the watch made its report, and since the first call of this, which is behind the last
 * message, the counters files were written. Both ends are to be polled until then.
 */
bool overhead_done(struct overhead_pair *pair);

/*
 * True if every message came once, each feature that is on did its work, and nothing else is on; says on stderr what is wrong. Adds what the
 * files took to *writing.
 */
bool overhead_check(const struct overhead_pair *pair, struct overhead_writing *writing);

#endif
