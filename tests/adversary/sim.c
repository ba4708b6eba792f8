/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the cost of forged packets to whole contexts in virtual time:
 *
 *   adversary [--table] [--seed N] [KIND ...]   kinds against their bounds (default: all); --table: all costs
 *   adversary --storm N [--seed N]              N packets of all survivable kinds, then a check of delivery
 *   adversary -v KIND                           prints every event
 *
 * Exits with 1 if a cost is beyond its bound. It counts basic blocks, and measures no time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sim/cable.h"
#include "world.h"

/* ANSWER_FACTOR: bytes of the answers to an address that has not proven itself, for each byte sent (docs/security.md). */
enum { QUIET_MAX = 128, ANSWER_FACTOR = 3 };

struct arguments {
    uint64_t seed;
    uint64_t storm;
    bool table;
    char **kinds;
    int kinds_count;
};

static bool arguments_parse(struct arguments *arguments, int argc, char **argv)
{
    *arguments = (struct arguments){.seed = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--table") == 0) {
            arguments->table = true;
        } else if (strcmp(argv[i], "-v") == 0) {
            cable.verbose = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            arguments->seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--storm") == 0 && i + 1 < argc) {
            arguments->storm = strtoull(argv[++i], NULL, 10);
        } else if (argv[i][0] == '-') {
            return false;
        } else {
            arguments->kinds = argv + i;
            arguments->kinds_count = argc - i;
            return true;
        }
    }
    return true;
}

static bool is_meant(const struct arguments *arguments, const struct adversary_kind *kind)
{
    for (int i = 0; i < arguments->kinds_count; i++)
        if (strcmp(arguments->kinds[i], kind->name) == 0)
            return true;
    return arguments->kinds_count == 0;
}

/* Returns the cost beyond that of the world without forged packets; for reports, also the missing ones. */
static struct adversary_cost beyond(const struct adversary_cost *cost, const struct adversary_cost *quiet)
{
    struct adversary_cost result;

#define SIM_BEYOND(name, text) result.name = cost->name > quiet->name ? cost->name - quiet->name : 0;
    ADVERSARY_COSTS(SIM_BEYOND)
#undef SIM_BEYOND
    result.silenced = quiet->reported > cost->reported ? quiet->reported - cost->reported : 0;
    return result;
}

/* Runs the world without forged packets, which is the same for all kinds of a profile and duration. */
static const struct world_result *run_quiet(const struct arguments *arguments,
                                            const struct adversary_kind *kind)
{
    static struct {
        enum adversary_profile profile;
        uint64_t us;
        struct world_result result;
    } known[QUIET_MAX];
    static int count;
    const uint64_t us = (uint64_t)kind->count * kind->gap_us;

    for (int i = 0; i < count; i++)
        if (known[i].profile == kind->profile && known[i].us == us)
            return &known[i].result;
    if (count == QUIET_MAX)
        cable_fail("more than %d kinds of worlds", QUIET_MAX);
    known[count].profile = kind->profile;
    known[count].us = us;
    world_run(kind, arguments->seed, true, &known[count].result);
    if (known[count].result.cost.lost > 0 || known[count].result.messages < 1000)
        cable_fail("without forged packets %llu of %llu messages are lost",
                   (unsigned long long)known[count].result.cost.lost,
                   (unsigned long long)known[count].result.messages);
    return &known[count++].result;
}

/* Compares the answers to addresses that have not proven themselves with what was sent. */
static bool answers_are_short(const struct adversary_kind *kind, const struct adversary_cost *cost,
                              uint64_t forged_bytes, bool all)
{
    static const char *const announces[] = {"", ", third", ", spoofed"};
    const uint64_t answered = cost->own_bytes + cost->third_bytes;
    const bool passed = answered <= ANSWER_FACTOR * forged_bytes;

    if (all || !passed)
        (void)printf("%s %s x%u%s: answers of %.2f times their bytes\n", passed ? "     " : "BEYOND",
                     kind->name, kind->count, announces[kind->announces],
                     (double)answered / (double)forged_bytes);
    return passed;
}

static bool run_kind(const struct arguments *arguments, const struct adversary_kind *kind)
{
    const struct world_result *quiet = run_quiet(arguments, kind);
    struct world_result result;
    struct adversary_cost cost;
    bool is_short;

    world_run(kind, arguments->seed, false, &result);
    cost = beyond(&result.cost, &quiet->cost);
    is_short = answers_are_short(kind, &cost, result.forged_bytes, arguments->table);
    return adversary_judge(kind, &cost, arguments->table) && is_short;
}

static int run_kinds(const struct arguments *arguments)
{
    int failed = 0, run = 0;

    for (int i = 0; i < adversary_kinds_count; i++) {
        if (!is_meant(arguments, &adversary_kinds[i]))
            continue;
        failed += !run_kind(arguments, &adversary_kinds[i]);
        run++;
    }
    (void)printf("%d kinds of forged packets, %d beyond their bounds\n", run, failed);
    return failed > 0 || run == 0;
}

int main(int argc, char **argv)
{
    struct arguments arguments;

    if (!arguments_parse(&arguments, argc, argv)) {
        (void)fprintf(stderr, "usage: adversary [--table] [--seed N] [--storm N] [-v] [KIND ...]\n");
        return 2;
    }
    if (arguments.storm > 0)
        return !world_storm(arguments.seed, arguments.storm, ADVERSARY_LOSSY);
    return run_kinds(&arguments);
}
