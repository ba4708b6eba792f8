/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 by AVX2, for processors that have it. A pragma sets the target, so that all files have the same compiler arguments. */
#include "core/base/hash.h"

#ifdef LLI_HASH_AVX2

#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX2
#include <xxhash.h>

uint64_t lli_hash_avx2(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
