/* SPDX-License-Identifier: Apache-2.0 */
#include "nonces.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "security/aead.h"
#include "security/hkdf.h"

/* CELLS: a power of two, above the packets of any history. */
enum { CELLS = 1 << 17, TAG = 16, NONCE = 12 };

/* Packet that was protected with a key and nonce; all zero: none. */
struct cell {
    XXH128_hash_t name;
    uint64_t bytes;
};

static struct cell cells[CELLS];
static uint32_t used[CELLS]; /* indices of cells in use */
static struct nonces_seen seen;

void nonces_begin(void)
{
    for (uint64_t i = 0; i < seen.sealed - seen.again - seen.misused + seen.keys; i++)
        cells[used[i]] = (struct cell){.bytes = 0};
    seen = (struct nonces_seen){.sealed = 0};
}

const struct nonces_seen *nonces_seen(void)
{
    return &seen;
}

/* Finds the cell of a name, or a free one. */
static struct cell *cell_of(XXH128_hash_t name)
{
    uint64_t at = name.low64 % CELLS;

    while ((cells[at].name.low64 != 0 || cells[at].name.high64 != 0) && !XXH128_isEqual(cells[at].name, name))
        at = (at + 1) % CELLS;
    return &cells[at];
}

/* Fills a free cell. */
static void cell_fill(struct cell *cell, XXH128_hash_t name, uint64_t bytes)
{
    const uint64_t count = seen.sealed - seen.again - seen.misused + seen.keys;

    if (count >= CELLS / 2)
        abort();
    used[count] = (uint32_t)(cell - cells);
    *cell = (struct cell){name, bytes};
}

static uint64_t hash_clear(const struct lli_aead_clear *clear, uint64_t seed)
{
    seed = XXH3_64bits_withSeed(clear->data, clear->size, seed);
    return clear->more_size > 0 ? XXH3_64bits_withSeed(clear->more, clear->more_size, seed) : seed;
}

static void tag_of(const uint64_t *key, const uint8_t *nonce, const struct lli_aead_clear *clear,
                   const uint8_t *bytes, size_t size, uint8_t *tag)
{
    const uint64_t nonced = XXH3_64bits_withSeed(nonce, NONCE, *key);
    const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, size, hash_clear(clear, nonced));

    memcpy(tag, &hash, TAG);
}

static void crypt(uint64_t key, const uint8_t *from, size_t size, uint8_t *to)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[i] ^ (uint8_t)(key >> 8 * (i % 8));
}

/* -------------------------------------------------------------------------------------------- libcrypto's */

/* A context is a hash of suite and key. */
bool lli_aead_key(struct lli_aead *aead, enum lli_key_suite suite, const uint8_t *key, bool seals)
{
    const XXH128_hash_t name = XXH3_128bits_withSeed(key, lli_key_suite_bytes(suite), 1 + (uint64_t)suite);
    struct cell *cell;

    if (aead->context == NULL)
        aead->context = malloc(sizeof(uint64_t));
    if (aead->context == NULL)
        return false;
    *(uint64_t *)aead->context = name.high64;
    cell = cell_of(name);
    if (!seals || cell->bytes != 0)
        return true;
    cell_fill(cell, name, 1);
    seen.keys++;
    return true;
}

void lli_aead_free(struct lli_aead *aead)
{
    free(aead->context);
    aead->context = NULL;
}

bool lli_aead_seal(struct lli_aead *aead, const uint8_t *nonce, const struct lli_aead_clear *clear,
                   uint8_t *bytes, size_t size, uint8_t *tag)
{
    const uint64_t *key = aead->context;
    const XXH128_hash_t name = XXH3_128bits_withSeed(nonce, NONCE, *key);
    const uint64_t hash = XXH3_64bits_withSeed(bytes, size, hash_clear(clear, 2)) | 1;
    struct cell *cell = cell_of(name);

    if (cell->bytes == 0)
        cell_fill(cell, name, hash);
    else if (cell->bytes == hash)
        seen.again++;
    else
        seen.misused++;
    seen.sealed++;
    crypt(*key, bytes, size, bytes);
    tag_of(key, nonce, clear, bytes, size, tag);
    return true;
}

bool lli_aead_open(struct lli_aead *aead, const uint8_t *nonce, const struct lli_aead_clear *clear,
                   const uint8_t *bytes, size_t size, const uint8_t *tag, uint8_t *to)
{
    const uint64_t *key = aead->context;
    uint8_t expected[TAG];

    tag_of(key, nonce, clear, bytes, size, expected);
    if (memcmp(expected, tag, TAG) != 0)
        return false;
    crypt(*key, bytes, size, to);
    return true;
}

bool lli_hkdf(const struct lli_hkdf_input *secret, const struct lli_hkdf_input *salt,
              const struct lli_hkdf_input *purpose, void *output, size_t size)
{
    uint64_t seed = XXH3_64bits_withSeed(secret->data, secret->size, salt->size);
    uint8_t *to = output;

    seed = XXH3_64bits_withSeed(purpose->data, purpose->size, seed);
    for (size_t at = 0; at < size; at += sizeof seed) {
        const uint64_t block = XXH3_64bits_withSeed(&at, sizeof at, seed);

        memcpy(to + at, &block, size - at < sizeof block ? size - at : sizeof block);
    }
    return true;
}
