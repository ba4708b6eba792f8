/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/hash.h"

/* The functions of xxhash are compiled here: the core depends on no shared library. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t lli_hash(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}
