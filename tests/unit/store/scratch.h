/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a test, on a real file system. */
#ifndef TESTS_STORE_SCRATCH_H
#define TESTS_STORE_SCRATCH_H

#include "logged.h"
#include "tree.h"

#include <unistd.h>

static char scratch[64];

static inline void scratch_make(void)
{
    (void)snprintf(scratch, sizeof scratch, "/var/tmp/llm-unit.XXXXXX");
    if (mkdtemp(scratch) == NULL) {
        (void)snprintf(scratch, sizeof scratch, "/tmp/llm-unit.XXXXXX");
        assert_non_null(mkdtemp(scratch));
    }
}

static inline void scratch_remove(void)
{
    (void)tree_remove(scratch);
}

#endif
