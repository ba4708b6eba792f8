/* SPDX-License-Identifier: Apache-2.0 */
/* Yields of a caller that polls for what another task does. */
#ifndef LLI_YIELD_H
#define LLI_YIELD_H

#include <sched.h>
#include <time.h>

#include "system/clock.h"

enum {
    LLI_YIELD_NS = 10000,         /* the least distance of two yields */
    LLI_YIELD_SLEEP_NS = 1000000, /* from the begin of a wait to a sleep, and from each sleep to the next */
};

/* A wait; all 0 at first. */
struct lli_yield {
    uint64_t next;     /* the earliest time of the next yield */
    uint64_t sleep_at; /* the time of the next sleep; 0: the wait has not begun */
};

/*
 * Lets other tasks of this core run, unless that was done a moment ago. Without it a caller that polls delays a task of its core by
 * a time slice each time that the task has slept.
 *
 * A scheduler may pass over a task in spite of yields, for seconds (docs/adr/0076-sleeps-in-long-waits.md). So in a long wait the
 * caller sleeps once a millisecond, as briefly as the system can.
 */
static inline void lli_yield(struct lli_yield *wait)
{
    const uint64_t now = lli_clock_ns();

    if (now < wait->next)
        return;
    wait->next = now + LLI_YIELD_NS;
    if (wait->sleep_at == 0)
        wait->sleep_at = now + LLI_YIELD_SLEEP_NS;
    if (now < wait->sleep_at) {
        (void)sched_yield();
        return;
    }
    wait->sleep_at = now + LLI_YIELD_SLEEP_NS;
    (void)nanosleep(&(struct timespec){.tv_nsec = 1}, NULL);
}

/* Ends the wait: what was awaited has come, or a part of it. */
static inline void lli_yield_end(struct lli_yield *wait)
{
    wait->sleep_at = 0;
}

#endif
