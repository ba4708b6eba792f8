/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines for people, through the application's log function or to stderr. */
#ifndef LLI_LOG_H
#define LLI_LOG_H

#include <llm/llm.h>

struct lli_log {
    llm_log_fn *function; /* NULL: stderr */
    void *arg;
    enum llm_level level;
};

/* Logs at a level. Lines are truncated to 511 bytes. */
void lli_log(const struct lli_log *log, enum llm_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Logs an error and returns its code: a failure is detected, logged and returned in one statement. */
int lli_fail(const struct lli_log *log, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
