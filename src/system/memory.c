/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "system/memory.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/clock.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

#define HUGE_PAGE ((size_t)2 << 20)
#define PLAIN_PAGE ((size_t)4096)
#define YIELDS_NS ((lli_ns)20000000)

enum {
    NODES_MAX = 1024, /* the kernel has no more */
    WORD_BITS = 8 * (int)sizeof(unsigned long),
    WORDS = NODES_MAX / WORD_BITS,
};

static bool has_several(const unsigned long *nodes)
{
    int count = 0;

    for (int i = 0; i < WORDS; i++)
        count += __builtin_popcountl(nodes[i]);
    return count > 1;
}

/*
 * Has pages come from a node, if this process may use several. System calls do what libnuma does, so that the
 * library loads where that is not installed: get_mempolicy(2), mbind(2). Memory of another node is slower, and no
 * failure.
 */
static void memory_bind(const struct lli_memory *memory, int node)
{
    unsigned long allowed[WORDS] = {0}, bound[WORDS] = {0};
    unsigned own = 0;

    if (syscall(SYS_get_mempolicy, NULL, allowed, NODES_MAX, NULL, MPOL_F_MEMS_ALLOWED) != 0 ||
        !has_several(allowed))
        return;
    if (node < 0 && syscall(SYS_getcpu, NULL, &own, NULL) == 0)
        node = (int)own;
    if (node < 0 || node >= NODES_MAX || (allowed[node / WORD_BITS] >> node % WORD_BITS & 1) == 0)
        return;
    bound[node / WORD_BITS] = 1UL << node % WORD_BITS;
    (void)syscall(SYS_mbind, memory->base, memory->size, MPOL_BIND, bound, NODES_MAX, 0);
}

void lli_memory_yield(lli_ns *taken)
{
    lli_ns begun;

    if (*taken >= YIELDS_NS)
        return;
    begun = lli_clock_ns();
    (void)sched_yield();
    *taken += lli_clock_ns() - begun;
}

void lli_memory_populate(void *base, size_t size, enum lli_memory_access access)
{
    const int advice = access == LLI_MEMORY_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    lli_ns yields = 0;

    for (size_t at = 0, piece; at < size; at += piece) {
        uint8_t *first = (uint8_t *)base + at;

        piece = size - at < LLI_MEMORY_PIECE ? size - at : LLI_MEMORY_PIECE;
        if (madvise(first, piece, advice) != 0 && access == LLI_MEMORY_WRITE)
            for (size_t page = 0; page < piece; page += PLAIN_PAGE)
                (void)__atomic_fetch_or(first + page, 0, __ATOMIC_RELAXED);
        lli_memory_yield(&yields);
    }
}

void lli_memory_release(void *base, size_t size)
{
    lli_ns yields = 0;

    /* A smaller piece would split a huge page. */
    for (size_t at = 0, piece; at < size; at += piece) {
        piece = size - at < HUGE_PAGE ? size - at : HUGE_PAGE;
        munmap((uint8_t *)base + at, piece);
        lli_memory_yield(&yields);
    }
}

/* Maps plain pages from a multiple of align on, which is a multiple of their size. Returns MAP_FAILED or the base. */
static void *memory_map_plain(size_t size, size_t align, int flags)
{
    const size_t spare = align - PLAIN_PAGE;
    uint8_t *base = mmap(NULL, size + spare, PROT_READ | PROT_WRITE, flags, -1, 0);
    size_t before;

    if (base == MAP_FAILED)
        return MAP_FAILED;
    before = (0 - (uintptr_t)base) & (align - 1);
    if (before > 0)
        munmap(base, before);
    if (before < spare)
        munmap(base + before + size, spare - before);
    return base + before;
}

int lli_memory_map(struct lli_memory *memory, size_t size, const struct lli_memory_policy *policy,
                   const struct lli_log *log)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    struct lli_memory map = {.base = MAP_FAILED};

    if (policy->huge_pages && size >= HUGE_PAGE) {
        map.size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
        map.base = mmap(NULL, map.size, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
    }
    if (map.base == MAP_FAILED) {
        const bool transparent = policy->huge_pages && policy->populate;

        map.size = (size + PLAIN_PAGE - 1) & ~(PLAIN_PAGE - 1);
        /* Memory not populated may be far more than is ever used: keep it out of overcommit accounting. */
        map.base = memory_map_plain(map.size, transparent && size >= HUGE_PAGE ? HUGE_PAGE : PLAIN_PAGE,
                                    flags | (policy->populate ? 0 : MAP_NORESERVE));
        if (map.base == MAP_FAILED)
            return lli_fail(log, LLM_ENOMEM,
                            "no memory for %zu bytes (%s): lower history_bytes, reorder_bytes, "
                            "message_bytes_max or sessions_max",
                            size, strerror(errno));
        if (transparent)
            (void)madvise(map.base, map.size, MADV_HUGEPAGE);
        lli_log(log, LLM_LEVEL_DEBUG, "%zu bytes on plain pages", map.size);
    }
    memory_bind(&map, policy->numa_node);
    if (policy->populate)
        lli_memory_populate(map.base, map.size, LLI_MEMORY_WRITE);
    *memory = map;
    return LLM_OK;
}

int lli_memory_map_file(struct lli_memory *memory, int fd, size_t size, const struct lli_log *log)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

    if (base == MAP_FAILED)
        return lli_fail(log, LLM_ENOMEM, "no memory to map %zu bytes of a file (%s)", size, strerror(errno));
    *memory = (struct lli_memory){base, size};
    return LLM_OK;
}

int lli_memory_map_secret(struct lli_memory *memory, size_t size, const struct lli_log *log)
{
    const size_t pages = (size + PLAIN_PAGE - 1) & ~(PLAIN_PAGE - 1);
    void *base = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return lli_fail(log, LLM_ENOMEM, "no memory for %zu bytes of keys (%s)", size, strerror(errno));
    if (mlock(base, pages) != 0)
        lli_log(
            log, LLM_LEVEL_WARNING,
            "%zu bytes of keys cannot be locked in memory (%s), so they may be written to swap: raise the "
            "limit of locked memory (ulimit -l)",
            size, strerror(errno));
    (void)madvise(base, pages, MADV_DONTDUMP);
    (void)madvise(base, pages, MADV_WIPEONFORK);
    *memory = (struct lli_memory){base, pages};
    return LLM_OK;
}

void lli_memory_unmap_secret(struct lli_memory *memory)
{
    if (memory->base != NULL)
        explicit_bzero(memory->base, memory->size);
    lli_memory_unmap(memory);
}

int lli_memory_file_limit(uint64_t size)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur
               ? 0
               : EFBIG;
}

int lli_memory_node(const char *class, const char *device)
{
    char path[160];
    int node = -1;
    FILE *file;

    (void)snprintf(path, sizeof path, "/sys/class/%s/%s/device/numa_node", class, device);
    file = fopen(path, "re");
    if (file == NULL)
        return -1;
    if (fscanf(file, "%d", &node) != 1)
        node = -1;
    (void)fclose(file);
    return node;
}

void lli_memory_unshare(const struct lli_memory *memory)
{
    const int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    /*
     * If the mapping fails, make the memory inaccessible: a write then kills the process instead of reaching
     * other processes.
     */
    if (mmap(memory->base, memory->size, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
        (void)mprotect(memory->base, memory->size, PROT_NONE);
}

void lli_memory_unmap(struct lli_memory *memory)
{
    if (memory->base != NULL)
        lli_memory_release(memory->base, memory->size);
    *memory = (struct lli_memory){.base = NULL};
}
