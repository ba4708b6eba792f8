/* SPDX-License-Identifier: Apache-2.0 */
/* Description of the machine, and the distance of its cores. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdint.h>

#include "control.h"

/* Writes an object into the answer: cpu, cores, memory_mib, kernel. */
void machine_json(const char *key);

/* Resident memory of this process in MiB, including huge pages; 0 if /proc has no figure. */
double machine_resident_mib(void);

/* Its maximum so far; unlike that of getrusage(2), without the program that started this one. */
double machine_resident_mib_max(void);

/* Its proportional share (PSS): a page that n processes map counts as 1/n, so that the shares of all add up to what they take. */
double machine_proportional_mib(void);

/* Nanoseconds for which this process was ready to run while its core was busy otherwise, which disturbs a
 * measurement; 0 if unknown. */
uint64_t machine_waited_ns(void);

/* Nanoseconds that this process has spent in the kernel. */
uint64_t machine_kernel_ns(void);

/*
 * The role machine_probe() measures the transfer time of a cache line from this core to the core peer_cpu=,
 * which should be idle: two processes pass the line back and forth for a millisecond. Answers with ns; 0 if
 * one process did not run.
 */

#endif
