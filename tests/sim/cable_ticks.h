/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the place of src/system/ticks.h, which must not be read where time is the test's: the clock again.
 * Included before all else.
 */
#ifndef LLI_TICKS_H
#define LLI_TICKS_H

/* Without a header of the system: what these offer is decided by the sources that follow. */
#define LLI_TICKS_MOMENT ((__UINT64_TYPE__)0)

__UINT64_TYPE__ cable_ticks(void);

static inline __UINT64_TYPE__ lli_ticks(void)
{
    return cable_ticks();
}

#endif
