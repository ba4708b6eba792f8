/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/hash.h"

/* XXH3 has another way for each range of sizes: up to 16, 128, 240, and blocks of 1,024 bytes. */
static void every_size_has_the_hash_of_xxh3(void **state)
{
    enum { SIZE = 4200, OFFSETS = 3 };
    static uint8_t bytes[SIZE + OFFSETS];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 167 + (i >> 8));
    for (size_t size = 0; size <= SIZE; size++)
        for (size_t offset = 0; offset < OFFSETS; offset++)
            assert_true(lli_hash(bytes + offset, size) == XXH3_64bits(bytes + offset, size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_the_hash_of_xxh3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
