/* SPDX-License-Identifier: Apache-2.0 */
/* Latest line of the log. */
#ifndef TESTS_LOGGED_H
#define TESTS_LOGGED_H

#include "unit.h"

#include <llm/llm.h>
#include <stdio.h>

static char logged[4096];

static inline void log_keep(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)snprintf(logged, sizeof logged, "%s", text);
}

static inline void expect_logged(const char *text)
{
    if (strstr(logged, text) == NULL)
        fail_msg("\"%s\" is not in: %s", text, logged);
}

#endif
