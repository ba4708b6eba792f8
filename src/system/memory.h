/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large allocations, on huge pages if there are any and on a chosen NUMA node. The library maps memory only
 * here.
 */
#ifndef LLI_MEMORY_H
#define LLI_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/types.h"
#include "system/log.h"

struct lli_memory {
    void *base;
    size_t size; /* as mapped */
};

struct lli_memory_policy {
    bool huge_pages; /* try huge pages, else use plain ones */
    bool populate;   /* touch every page now, so that the first use does not fault */
    int numa_node;   /* -1: the calling thread's */
};

/*
 * Maps zeroed memory of at least size bytes, aligned to a page: to a huge one if it may have some. LLM_ENOMEM.
 */
int lli_memory_map(struct lli_memory *memory, size_t size, const struct lli_memory_policy *policy,
                   const struct lli_log *log);

enum lli_memory_access {
    LLI_MEMORY_READ,
    LLI_MEMORY_WRITE,
};

enum { LLI_MEMORY_PIECE = 64 << 10 }; /* bytes to populate or allocate between two yields: 10 to 100 us */

/*
 * Yields the processor. Called between the steps of work on memory that takes milliseconds, so that other polling processes
 * on this processor are delayed by one step only. *taken: the time in the yields of this work so far, at first 0. Does
 * nothing once that is 20 ms: a process that does not yield in turn uses its whole time slice at each step.
 */
void lli_memory_yield(lli_ns *taken);

/* Faults pages in, so that their first use does not, with yields in between. Failure only costs time later. */
void lli_memory_populate(void *base, size_t size, enum lli_memory_access access);

/* Unmaps pages, with yields in between. */
void lli_memory_release(void *base, size_t size);

/* Maps the first size bytes of a file, shared. LLM_ENOMEM. */
int lli_memory_map_file(struct lli_memory *memory, int fd, size_t size, const struct lli_log *log);

/*
 * Maps zeroed memory for keys: locked, in no core dump, and zeroed in a child process. If it cannot be locked, that is
 * logged. LLM_ENOMEM.
 */
int lli_memory_map_secret(struct lli_memory *memory, size_t size, const struct lli_log *log);

/* Overwrites and unmaps memory of lli_memory_map_secret(). Does nothing for memory that was never mapped. */
void lli_memory_unmap_secret(struct lli_memory *memory);

/*
 * Returns 0, or EFBIG: the process may not write files of this size, and the kernel would kill it for trying.
 */
int lli_memory_file_limit(uint64_t size);

/* Returns the NUMA node of a device of a class of /sys/class ("net", "infiniband"); -1: unknown. */
int lli_memory_node(const char *class, const char *device);

/* Replaces memory shared with other processes with zeroed private memory. */
void lli_memory_unshare(const struct lli_memory *memory);

/* Unmaps memory. Does nothing for memory that was never mapped. */
void lli_memory_unmap(struct lli_memory *memory);

#endif
