/* SPDX-License-Identifier: Apache-2.0 */
#include "system/log.h"

#include <stdarg.h>
#include <stdio.h>

static void log_line(const struct lli_log *log, enum llm_level level, const char *format, va_list arguments)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char text[512];

    if (level > log->level)
        return;
    vsnprintf(text, sizeof text, format, arguments);
    if (log->function != NULL)
        log->function(log->arg, level, text);
    else
        fprintf(stderr, "libllm: %s: %s\n", names[level], text);
}

void lli_log(const struct lli_log *log, enum llm_level level, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    log_line(log, level, format, arguments);
    va_end(arguments);
}

int lli_fail(const struct lli_log *log, int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    log_line(log, LLM_LEVEL_ERROR, format, arguments);
    va_end(arguments);
    return error;
}
