/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor's time-stamp counter: cheaper to read than the clock; for short times within one thread only.
 * It may differ between cores, so expect negative times.
 */
#ifndef LLI_TICKS_H
#define LLI_TICKS_H

#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#elif !defined(__aarch64__)
#include "system/clock.h"
#endif

/*
 * Less than a microsecond on every machine: x86 counters run at 1 GHz or more, ARM counters at 20 MHz or
 * more.
 */
#if defined(__aarch64__)
#define LLI_TICKS_MOMENT ((uint64_t)16)
#else
#define LLI_TICKS_MOMENT ((uint64_t)1000)
#endif

/* Reads the counter, in units of the machine. */
static inline uint64_t lli_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return lli_clock_ns();
#endif
}

#endif
