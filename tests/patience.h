/* SPDX-License-Identifier: Apache-2.0 */
/* Time limits of tests, extended on slow machines. */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include <stdint.h>
#include <stdlib.h>

/*
 * Multiplies a time limit in ns, or a number of tries, by LLM_SLOWNESS (setup_slowness in setup.sh), if it is
 * set.
 */
static inline uint64_t patience(uint64_t limit)
{
    const char *slowness = getenv("LLM_SLOWNESS");
    const long times = slowness == NULL ? 1 : strtol(slowness, NULL, 10);

    return times > 1 ? limit * (uint64_t)times : limit;
}

#endif
