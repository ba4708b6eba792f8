/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load on other groups while something is measured: a process that sends to them, or receives from them, and sleeps whenever
 * it has nothing to do. On the transmitting side all groups together get a steady rate, in turns.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define LOAD_GROUPS_MAX 4000

struct load_options {
    const char *channel; /* whose scheme, port and options the groups have */
    bool transmits;
    uint64_t groups_max; /* that will be asked for, if that is known: refused at once if there are too few descriptors */
    uint64_t size;       /* of a message */
};

/* What came of the load that ends with a new one. */
struct load_result {
    uint64_t messages; /* sent or received */
    uint64_t ns;       /* that it went on */
    uint64_t cpu_ns;   /* that its process took meanwhile */
};

struct load {
    int fd; /* orders there, results back; end of file ends the process */
    int pid;
};

/* Says whether the groups that a channel's load goes to are free: false if the channel itself is among them. */
bool load_is_apart(const char *channel);

/* Starts the process, without load; to be called early, as it is a copy of this one. 0, or -1 with the reason on stderr. */
int load_open(struct load *load, const struct load_options *options);

/* Ends the load before, if any, and loads so many groups, the first ones; 0: none. A transmitter sends rate messages a second
 * in all. Waits until the groups are joined. 0, or -1 with the reason on stderr: then there is no load. */
int load_set(struct load *load, uint64_t groups, uint64_t rate, struct load_result *before);

/* Accepts a load that was zeroed and never opened. */
void load_close(struct load *load);

#endif
