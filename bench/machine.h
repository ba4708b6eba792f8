/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a figure was measured on, and how near its cores are to each other. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stddef.h>
#include <stdint.h>

struct machine {
    char cpu[96];     /* the model, as the kernel calls it */
    char kernel[96];  /* "Linux 6.1.0 x86_64" */
    int cores;        /* that are online */
    uint64_t memory_mib;
};

void machine_describe(struct machine *machine);

/* Writes "CPU, N cores, N MiB, kernel". */
void machine_print(const struct machine *machine, char *text, size_t size);

/* Keeps the calling thread on a CPU, and with it the memory it opens from then on. 0, or -1 with errno set. */
int machine_pin(unsigned cpu);

/* The same for a program's option, with the reason on stderr; nothing if that was not given. */
#define MACHINE_NO_CPU 4096
int machine_pin_as_asked(const char *program, uint64_t cpu);

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

/* Starts the child on peer_cpu; to be called early, as it is a copy of this process. 0, or -1 with errno set. */
int machine_probe_open(struct machine_probe *probe, unsigned peer_cpu);

/* The same for a program's option; says on stderr if there can be no probe, which stays closed then. */
void machine_probe_as_asked(struct machine_probe *probe, const char *program, uint64_t peer_cpu);

/* Half the round trip in nanoseconds, the median of about two thousand; takes a millisecond. Both CPUs should have nothing
 * else to do. 0 if the peer does not answer. */
double machine_probe_run(struct machine_probe *probe);

/* Accepts a probe that was zeroed and never opened. */
void machine_probe_close(struct machine_probe *probe);

#endif
