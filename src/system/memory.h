/* SPDX-License-Identifier: Apache-2.0 */
/* The only place that takes big memory: huge pages where there are any, on the NUMA node asked for. */
#ifndef LLI_MEMORY_H
#define LLI_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "system/log.h"

struct lli_memory {
    void *base;
    size_t size; /* as mapped */
};

struct lli_memory_policy {
    bool huge_pages; /* try them, fall back to plain ones */
    bool populate;   /* touch every page now, so that the first use does not fault */
    int numa_node;   /* -1: that of the calling thread */
};

/* Maps zeroed memory of at least size bytes, aligned to a page. LLM_ENOMEM. */
int lli_memory_map(struct lli_memory *memory, size_t size, const struct lli_memory_policy *policy, const struct lli_log *log);

/* Maps the first size bytes of a file, shared. LLM_ENOMEM. */
int lli_memory_map_file(struct lli_memory *memory, int fd, size_t size, const struct lli_log *log);

/* 0, or EFBIG: the process may not have files of so many bytes, and the kernel would end it for trying. */
int lli_memory_file_limit(uint64_t size);

/* The NUMA node of a device of a class of /sys/class ("net", "infiniband"), -1: it is not known. */
int lli_memory_node(const char *class, const char *device);

/* Puts zeroed memory of this process alone in the place of memory that it shares with others. */
void lli_memory_unshare(const struct lli_memory *memory);

/* Unmaps; nothing is done for memory that was never mapped. */
void lli_memory_unmap(struct lli_memory *memory);

#endif
