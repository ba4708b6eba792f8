/* SPDX-License-Identifier: Apache-2.0 */
/* Yields of a caller that polls for what another task does. */
#ifndef LLI_YIELD_H
#define LLI_YIELD_H

#include <sched.h>

#include "system/clock.h"

enum { LLI_YIELD_NS = 10000 }; /* the least distance of two yields */

/*
 * Lets other tasks of this core run, unless that was done a moment ago. *next: the earliest time of the next yield, at first 0.
 * Without it a caller that polls delays a task of its core by a time slice each time that the task has slept.
 */
static inline void lli_yield(uint64_t *next)
{
    const uint64_t now = lli_clock_ns();

    if (now < *next)
        return;
    *next = now + LLI_YIELD_NS;
    (void)sched_yield();
}

#endif
