/* SPDX-License-Identifier: Apache-2.0 */
/* Cache lines, fetched before they are used. */
#ifndef LLI_PREFETCH_H
#define LLI_PREFETCH_H

/*
 * Fetches the line of an address for writing: other cores that have it lose it now, not when the write leaves the store buffer. By name on
 * x86-64, all of whose processors take the instruction, as compilers fetch for reading unless they are told of the processor.
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
