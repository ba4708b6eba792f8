/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the programs of this directory: options of the command line, results as JSON. */
#ifndef FLOOD_H
#define FLOOD_H

#include <llm/llm.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "flood_message.h"

static volatile sig_atomic_t flood_stopped;

static inline void flood_stop(int number)
{
    (void)number;
    flood_stopped = 1;
}

static inline void flood_signals(void)
{
    (void)signal(SIGINT, flood_stop);
    (void)signal(SIGTERM, flood_stop);
}

static inline int flood_ok(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, llm_error_name(result));
        exit(EXIT_FAILURE);
    }
    return result;
}

/* The text after --name among the arguments, or NULL. */
static inline const char *flood_text(int argc, char **argv, const char *name)
{
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return NULL;
}

/* The number after --name, or the default. */
static inline uint64_t flood_option(int argc, char **argv, const char *name, uint64_t otherwise)
{
    const char *text = flood_text(argc, argv, name);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* Prints counters that are not zero, summed by name. */
static inline void flood_print_stats(FILE *file, const struct llm_context *context)
{
    enum { MAX = 512 };
    static struct llm_counter stats[MAX];
    const char *comma = "";
    uint64_t sum;
    int count = llm_context_counters(context, stats, MAX);

    count = count < MAX ? count : MAX;
    fprintf(file, "\"stats\": {");
    for (int i = 0; i < count; i++) {
        bool first = true;

        for (int before = 0; before < i && first; before++)
            first = strcmp(stats[before].name, stats[i].name) != 0;
        if (!first || llm_context_counter(context, stats[i].name, &sum) != LLM_OK || sum == 0)
            continue;
        fprintf(file, "%s\"%s\": %" PRIu64, comma, stats[i].name, sum);
        comma = ", ";
    }
    fprintf(file, "}");
}

#endif
