/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of files that another user may truncate. An access beyond the end of the file raises SIGBUS, which ends the process.
 * A guarded mapping becomes zeros instead, as a whole, and the guard notes that it did.
 *
 * While there is a guard, the process has a handler of SIGBUS, which passes faults of other addresses to the handler before it
 * (docs/adr/0039-truncated-segments.md). Threads that access guarded mappings must not block SIGBUS.
 */
#ifndef LLI_SHM_GUARD_H
#define LLI_SHM_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LLI_SHM_GUARD_NONE = 0, LLI_SHM_GUARDS_MAX = 8192 /* of a process */ };

/* Guards a mapping, until lli_shm_unguard(), which comes before munmap(). LLI_SHM_GUARD_NONE: there are too many guards. */
uint16_t lli_shm_guard(void *base, size_t bytes);
/* Adds a second mapping of the same file: both become zeros together. */
void lli_shm_guard_more(uint16_t guard, void *base, size_t bytes);
void lli_shm_unguard(uint16_t guard);

/* True if the mappings became zeros. False for LLI_SHM_GUARD_NONE. */
bool lli_shm_guard_is_broken(uint16_t guard);
/* Notes that the first mapping is one of the file again. */
void lli_shm_guard_mended(uint16_t guard);

#endif
