/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes of the worst latencies of a process: the samples, and the stalls of its loop, with what the kernel
 * counted in each. All times are those of one clock, so a sample can be compared with the stalls of both its
 * processes.
 */
#ifndef BENCH_TAIL_H
#define BENCH_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"

/* A message: due, sent, delivered at the other process, and, if it was reflected, delivered here again. */
struct tail_sample {
    uint64_t due_at, sent_at, arrived_at, back_at;
    uint64_t from; /* number of the other process */
};

/* Starts to record, or again. */
void tail_start(void);
bool tail_is_on(void);

/* Records a turn of the loop, which took count messages. */
void tail_turn(int count);
void tail_add(const struct tail_sample *sample);

/*
 * Requests:
 *   worst                 answers with the worst samples, as lists of the members of tail_sample
 *   stalls in=FROM-TO,... answers, for each interval, with the stall that overlaps most of it: nanoseconds of
 *                         overlap, voluntary and involuntary context switches, page faults, changes of the CPU, messages
 */
void tail_on_worst(const struct control *request);
void tail_on_stalls(const struct control *request);

#endif
