/* SPDX-License-Identifier: Apache-2.0 */
/* The clock; no other module reads it. */
#ifndef LLI_CLOCK_H
#define LLI_CLOCK_H

#include <stdint.h>

/* Returns CLOCK_MONOTONIC in nanoseconds. */
uint64_t lli_clock_ns(void);

/* Returns CLOCK_REALTIME in nanoseconds, for points in time that other processes and people read. */
uint64_t lli_clock_real_ns(void);

/* Returns 64 random bits from the operating system. */
uint64_t lli_entropy(void);

#endif
