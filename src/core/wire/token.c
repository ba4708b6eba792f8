/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wire/token.h"

enum { TOKEN_WORDS = (1 + LLI_WIRE_ADDRESS_MAX) / 8 };

static uint64_t token_rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void token_round(uint64_t *v)
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = token_rotate(v[1], 13) ^ v[0];
    v[3] = token_rotate(v[3], 16) ^ v[2];
    v[0] = token_rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = token_rotate(v[1], 17) ^ v[2];
    v[3] = token_rotate(v[3], 21) ^ v[0];
    v[2] = token_rotate(v[2], 32);
}

static void token_take(uint64_t *v, uint64_t word)
{
    v[3] ^= word;
    token_round(v);
    token_round(v);
    v[0] ^= word;
}

uint64_t lli_token(const struct lli_token_key *key, uint64_t id, const struct lli_wire_address *address)
{
    uint8_t bytes[8 * TOKEN_WORDS] = {address->size};
    uint64_t v[4] = {
        key->words[0] ^ 0x736f6d6570736575,
        key->words[1] ^ 0x646f72616e646f6d,
        key->words[0] ^ 0x6c7967656e657261,
        key->words[1] ^ 0x7465646279746573,
    };
    uint64_t token;

    memcpy(bytes + 1, address->bytes, lli_min(address->size, LLI_WIRE_ADDRESS_MAX));
    token_take(v, id);
    for (int i = 0; i < TOKEN_WORDS; i++)
        token_take(v, lli_load_u64(bytes + 8 * i));
    token_take(v, (uint64_t)(8 + sizeof bytes) << 56);
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        token_round(v);
    token = v[0] ^ v[1] ^ v[2] ^ v[3];
    return token != 0 ? token : 1;
}
