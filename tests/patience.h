/* SPDX-License-Identifier: Apache-2.0 */
/* How long a test waits for something that has to happen: as long as it takes on a slow machine. */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include <stdint.h>
#include <stdlib.h>

/*
 * A time limit in ns, or a number of tries, as many times as LLM_SLOWNESS says (setup_slowness in setup.sh);
 * once without.
 */
static inline uint64_t patience(uint64_t limit)
{
    const char *slowness = getenv("LLM_SLOWNESS");
    const long times = slowness == NULL ? 1 : strtol(slowness, NULL, 10);

    return times > 1 ? limit * (uint64_t)times : limit;
}

#endif
