/* SPDX-License-Identifier: Apache-2.0 */
/* Hash of what a store writes, and of the name of a stream: XXH3, 64 bits (xxhash). */
#ifndef LLI_HASH_H
#define LLI_HASH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define LLI_HASH_AVX2
/* As lli_hash(), on a processor with AVX2. */
uint64_t lli_hash_avx2(const void *bytes, size_t size);
#endif

/* Returns the hash of size bytes. */
uint64_t lli_hash(const void *bytes, size_t size);

#endif
