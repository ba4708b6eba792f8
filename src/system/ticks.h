/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor's own counter: cheaper to read than the clock, and good for short times within one thread only. It may differ
 * between cores, so a time that comes out negative is to be expected.
 */
#ifndef LLI_TICKS_H
#define LLI_TICKS_H

#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#elif !defined(__aarch64__)
#include "system/clock.h"
#endif

/* Less than a microsecond on every machine: the processors of each kind count no slower than 1 GHz, or 20 MHz. */
#if defined(__aarch64__)
#define LLI_TICKS_MOMENT ((uint64_t)16)
#else
#define LLI_TICKS_MOMENT ((uint64_t)1000)
#endif

/* In units of the machine. */
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
