/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "llm_tool.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

volatile sig_atomic_t tool_stopped;

static void on_signal(int number)
{
    (void)number;
    tool_stopped = 1;
}

void tool_catch_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal};

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* ------------------------------------------------------------------------------------------- arguments */

int tool_refuse(const char *command, const char *what, const char *why)
{
    fprintf(stderr, "llm %s: %s: %s; try 'llm %s --help'\n", command, what, why, command);
    return TOOL_USAGE;
}

int tool_refuse_option(const char *command, int result, char **argv)
{
    const char *const what = argv[optind - 1];

    return tool_refuse(command, what,
                       result == ':'
                           ? "needs a value"
                           : "no such option, or one that takes no value; an argument that begins with "
                             "a dash goes behind --");
}

bool tool_number(const char *command, const char *option, const char *text, uint64_t least, uint64_t most,
                 uint64_t *value)
{
    char *end = NULL, why[96];
    unsigned long long number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && errno == 0 && *end == '\0' && number >= least && number <= most) {
        *value = number;
        return true;
    }
    (void)snprintf(why, sizeof why, "\"%.20s\" is not a number from %" PRIu64 " to %" PRIu64, text, least,
                   most);
    (void)tool_refuse(command, option, why);
    return false;
}

bool tool_seconds(const char *command, const char *option, const char *text, uint64_t *value_ns)
{
    char *end = NULL, why[96];
    const double seconds = strtod(text, &end);

    if (end != text && *end == '\0' && seconds >= 0 && seconds <= 1e6) {
        *value_ns = (uint64_t)(seconds * 1e9);
        return true;
    }
    (void)snprintf(why, sizeof why, "\"%.20s\" is not seconds from 0 to 1000000", text);
    (void)tool_refuse(command, option, why);
    return false;
}

/* --------------------------------------------------------------------------------------------- context */

void tool_log(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    fprintf(stderr, "llm: %s\n", text);
}

int tool_open(const char *name, bool spin, struct llm_context **context)
{
    struct llm_context_options options;

    llm_context_options_init(&options);
    options.log = tool_log;
    options.wait = spin ? LLM_WAIT_SPIN : LLM_WAIT_BLOCK;
    options.stats_name = name;
    return llm_context_open(&options, context);
}

int tool_status(int error)
{
    if (error >= 0)
        return 0;
    return error == LLM_EINVAL || error == LLM_ESCHEME || error == LLM_EOPTION ? TOOL_USAGE : TOOL_FAILED;
}

int tool_flush(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "llm: standard output: %s\n", strerror(errno));
    return TOOL_FAILED;
}
