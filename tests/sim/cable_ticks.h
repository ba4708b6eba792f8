/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces src/system/ticks.h, which must not be read where time is the test's, by the clock. Included before
 * all else.
 */
#ifndef LLI_TICKS_H
#define LLI_TICKS_H

/* Includes no system header: the sources that follow decide by macros which features these offer. */
#define LLI_TICKS_MOMENT ((__UINT64_TYPE__)0)

__UINT64_TYPE__ cable_ticks(void);

static inline __UINT64_TYPE__ lli_ticks(void)
{
    return cable_ticks();
}

#endif
