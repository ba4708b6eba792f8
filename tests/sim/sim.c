/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs seeded histories of transmitters and receivers on a virtual network:
 *
 *   sim [--first N] [--seeds N]   runs that many seeds, the first one first
 *   sim --seed N -v               runs one again, and prints every event
 *   sim --crowd ...               a thousand late joiners in each
 *
 * One of the seeds is run twice, to check that a seed reproduces a run exactly. Exits with 1 at the first
 * violation.
 */
#include <stdlib.h>
#include <time.h>

#include "world.h"

enum { SIM_REPORT_SECONDS = 5 };

struct arguments {
    uint64_t first;
    uint64_t seeds;
    bool verbose;
    bool crowd;
};

static bool arguments_parse(struct arguments *arguments, int argc, char **argv)
{
    *arguments = (struct arguments){.first = 1, .seeds = 300};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        char *end;
        uint64_t value;

        if (strcmp(name, "-v") == 0) {
            arguments->verbose = true;
            continue;
        }
        if (strcmp(name, "--crowd") == 0) {
            arguments->crowd = true;
            continue;
        }
        if (++i == argc)
            return false;
        value = strtoull(argv[i], &end, 10);
        if (*end != '\0' || end == argv[i])
            return false;
        if (strcmp(name, "--seed") == 0) {
            arguments->first = value;
            arguments->seeds = 1;
        } else if (strcmp(name, "--seeds") == 0) {
            arguments->seeds = value;
        } else if (strcmp(name, "--first") == 0) {
            arguments->first = value;
        } else {
            return false;
        }
    }
    return true;
}

static bool sim_is_reproducible(uint64_t seed, bool crowd, uint64_t digest)
{
    uint64_t again = 0, delivered;

    if (sim_world_run(seed, crowd, false, &again, &delivered) && again == digest)
        return true;
    (void)printf("FAILED: seed %llu: two runs differ\n", (unsigned long long)seed);
    return false;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    time_t reported = time(NULL);
    uint64_t total = 0;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (!arguments_parse(&arguments, argc, argv)) {
        (void)fprintf(stderr, "usage: sim [--first N] [--seeds N] [--seed N] [--crowd] [-v]\n");
        return 2;
    }
    for (uint64_t i = 0; i < arguments.seeds; i++) {
        uint64_t seed = arguments.first + i, digest, delivered;

        if (!sim_world_run(seed, arguments.crowd, arguments.verbose, &digest, &delivered))
            return 1;
        if (i % 64 == 0 && !sim_is_reproducible(seed, arguments.crowd, digest))
            return 1;
        total += delivered;
        if (arguments.verbose)
            (void)printf("seed %llu: digest %016llx\n", (unsigned long long)seed, (unsigned long long)digest);
        if (time(NULL) >= reported + SIM_REPORT_SECONDS) {
            reported = time(NULL);
            (void)printf("%llu of %llu seeds\n", (unsigned long long)i + 1,
                         (unsigned long long)arguments.seeds);
        }
    }
    (void)printf("%llu seeds from %llu passed, %llu messages delivered\n",
                 (unsigned long long)arguments.seeds, (unsigned long long)arguments.first,
                 (unsigned long long)total);
    return 0;
}
