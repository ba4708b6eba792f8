/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetches of cache lines. */
#ifndef LLI_PREFETCH_H
#define LLI_PREFETCH_H

/*
 * Prefetches the cache line of an address for writing: cores that have it lose it now, not when the write
 * leaves the store buffer. In assembler on x86-64, all of whose processors take the instruction: compilers
 * prefetch for reading unless they are given the processor.
 */
static inline void lli_prefetch_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

#endif
