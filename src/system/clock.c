/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "system/clock.h"

#include <sys/random.h>
#include <time.h>

#include <llm/llm.h>

static uint64_t clock_read(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t lli_clock_ns(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

uint64_t lli_clock_real_ns(void)
{
    return clock_read(CLOCK_REALTIME);
}

uint64_t llm_clock(void)
{
    return lli_clock_ns();
}

uint64_t lli_entropy(void)
{
    uint64_t bits = 0;

    /* Can fail only before the kernel has gathered entropy; the clock and an address then differ at least. */
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
        bits ^= lli_clock_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)&bits;
    return bits;
}
