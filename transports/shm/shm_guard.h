/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards for mappings of files that another user may truncate. An access beyond the end of the file raises
 * SIGBUS, which ends the process. A guarded mapping is replaced as a whole by zeros instead, and its guard is
 * marked broken.
 *
 * While guards exist, the process has a SIGBUS handler, which passes faults at other addresses to the
 * previous handler (docs/adr/0039-truncated-segments.md). Threads that access guarded mappings must not block
 * SIGBUS.
 */
#ifndef LLI_SHM_GUARD_H
#define LLI_SHM_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LLI_SHM_GUARD_NONE = 0, LLI_SHM_GUARDS_MAX = 8192 /* per process */ };

/*
 * Guards a mapping until lli_shm_unguard(), which must precede munmap(). LLI_SHM_GUARD_NONE: too many guards.
 */
uint16_t lli_shm_guard(void *base, size_t bytes);
/* Adds a second mapping of the same file; both are replaced together. */
void lli_shm_guard_more(uint16_t guard, void *base, size_t bytes);
void lli_shm_unguard(uint16_t guard);

/* True if the mappings were replaced by zeros. False for LLI_SHM_GUARD_NONE. */
bool lli_shm_guard_is_broken(uint16_t guard);
/* Records that the first mapping refers to the file again. */
void lli_shm_guard_mended(uint16_t guard);

#endif
