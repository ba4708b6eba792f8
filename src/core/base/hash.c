/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/hash.h"

/* The functions of xxhash are compiled here: the core depends on no shared library. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t lli_hash(const void *bytes, size_t size)
{
#ifdef LLI_HASH_AVX2
    if (__builtin_cpu_supports("avx2"))
        return lli_hash_avx2(bytes, size);
#endif
    return XXH3_64bits(bytes, size);
}
