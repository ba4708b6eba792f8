/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs seeded histories of features that only whole contexts have (cable.h):
 *
 *   sim_contexts KIND [--first N] [--seeds N]   this many seeds from the first one on
 *   sim_contexts KIND --seed N -v               one again, printing every event
 *
 * The kinds: watch, requests, topics, shed, filters, closing, merged. Exits with 1 at the first violation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cable.h"

static const struct {
    const char *name;
    void (*run)(uint64_t seed);
    void (*print)(void);
} kinds[] = {
    {"watch", watch_run, watch_print},       {"requests", requests_run, requests_print},
    {"topics", topics_run, topics_print},    {"shed", shed_run, shed_print},
    {"filters", filters_run, filters_print}, {"closing", closing_run, closing_print},
    {"merged", merged_run, merged_print},
};

struct arguments {
    uint64_t first;
    uint64_t seeds;
    int kind;
};

static bool arguments_parse(struct arguments *arguments, int argc, char **argv)
{
    *arguments = (struct arguments){.first = 1, .seeds = 30, .kind = -1};
    for (int i = 0; i < (int)(sizeof kinds / sizeof kinds[0]) && argc > 1; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            arguments->kind = i;
    for (int i = 2; i < argc; i++) {
        const char *name = argv[i];
        char *end;
        uint64_t value;

        if (strcmp(name, "-v") == 0) {
            cable.verbose = true;
            continue;
        }
        if (++i == argc)
            return false;
        value = strtoull(argv[i], &end, 10);
        if (*end != '\0' || end == argv[i])
            return false;
        if (strcmp(name, "--seed") == 0)
            *arguments = (struct arguments){value, 1, arguments->kind};
        else if (strcmp(name, "--first") == 0)
            arguments->first = value;
        else if (strcmp(name, "--seeds") == 0)
            arguments->seeds = value;
        else
            return false;
    }
    return arguments->kind >= 0;
}

int main(int argc, char **argv)
{
    struct arguments arguments;

    if (!arguments_parse(&arguments, argc, argv)) {
        (void)fprintf(stderr, "usage: sim_contexts KIND [--first N] [--seeds N] [--seed N] [-v]\n");
        return 2;
    }
    for (uint64_t i = 0; i < arguments.seeds; i++)
        kinds[arguments.kind].run(arguments.first + i);
    (void)printf("%llu seeds from %llu passed: ", (unsigned long long)arguments.seeds,
                 (unsigned long long)arguments.first);
    kinds[arguments.kind].print();
    return 0;
}
