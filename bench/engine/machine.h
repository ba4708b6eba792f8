/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a figure was measured on, and how near its cores are to each other. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "control.h"

/* Writes an object into the answer: cpu, cores, memory_mib, kernel. */
void machine_json(const char *key);

/* Resident memory of this process in MiB, huge pages included; 0 where /proc does not say. */
double machine_resident_mib(void);

/* How long this process has stood ready while something else had its core, in nanoseconds: what disturbs a measurement.
 * 0 where the kernel does not say. */
uint64_t machine_waited_ns(void);

/* How much of its time this process has spent in the kernel, in nanoseconds. */
uint64_t machine_kernel_ns(void);

/*
 * The probe: a cache line that two pinned threads of execution pass to and fro. The peer is a child process that sleeps
 * between probes, so that it takes nothing from what is measured.
 */
struct machine_probe {
    struct machine_line *lines;
    int wake_fd; /* a byte written wakes the child, end of file ends it */
    int pid;
};

/* Moves to the CPU cpu=, with the memory that is opened from then on, after the probe's child is started on peer_cpu=; to be called
 * early, as that is a copy of this process. Without these nothing is done. probe: NULL, or zeroed. */
void machine_start(const struct control *control, struct machine_probe *probe);

/* Half the round trip in nanoseconds, the median of about two thousand; takes a millisecond. Both CPUs should have nothing
 * else to do. 0 if the peer does not answer. */
double machine_probe_run(struct machine_probe *probe);

/* Accepts a probe that was zeroed and never opened. */
void machine_probe_close(struct machine_probe *probe);

#endif
