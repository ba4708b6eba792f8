/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a figure was measured on, and how near its cores are to each other. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

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
 * machine_probe(), a role, measures how long a cache line takes from this core to the core peer_cpu=, which
 * should have nothing else to do: two processes pass it to and fro for a millisecond. Answers with ns, 0 if one
 * did not run.
 */

#endif
