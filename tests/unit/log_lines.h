/* SPDX-License-Identifier: Apache-2.0 */
/* All warnings and errors of the log, one a line. */
#ifndef TESTS_LOG_LINES_H
#define TESTS_LOG_LINES_H

#include "unit.h"

#include <llm/llm.h>
#include <stdio.h>

static char log_text[32768];

static inline void log_keep(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    if (level <= LLM_LEVEL_WARNING)
        (void)snprintf(log_text + strlen(log_text), sizeof log_text - strlen(log_text), "%s\n", text);
}

static inline int logged_count(const char *text)
{
    int count = 0;

    for (const char *at = log_text; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

#endif
