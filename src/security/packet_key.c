/* SPDX-License-Identifier: Apache-2.0 */
#include "security/packet_key.h"

#include <string.h>

#include "security/hkdf.h"

bool lli_packet_key_derive(struct lli_packet_key *key, const struct lli_packet_scope *scope, bool seals)
{
    const struct lli_key_epoch *epoch = scope->epoch;
    const struct lli_protect_fields fields = {
        .epoch = epoch->id, .suite = (uint8_t)epoch->suite, .mode = (uint8_t)scope->mode};
    uint8_t purpose[LLI_PROTECT_PURPOSE], bytes[32 + LLI_PROTECT_NONCE];
    const size_t size = lli_key_suite_bytes(epoch->suite);
    bool done;

    lli_protect_purpose(scope->is_data, &fields, scope->identity, scope->block, purpose);
    done =
        lli_hkdf(&(struct lli_hkdf_input){epoch->key, sizeof epoch->key}, &(struct lli_hkdf_input){NULL, 0},
                 &(struct lli_hkdf_input){purpose, sizeof purpose}, bytes, size + LLI_PROTECT_NONCE) &&
        lli_aead_key(&key->aead, epoch->suite, bytes, seals);
    memcpy(key->iv, bytes + size, sizeof key->iv);
    lli_key_wipe(bytes, sizeof bytes);
    return done;
}

void lli_packet_key_free(struct lli_packet_key *key)
{
    lli_aead_free(&key->aead);
    lli_key_wipe(key->iv, sizeof key->iv);
}

bool lli_packet_key_open(struct lli_packet_key *key, const uint8_t *packet,
                         const struct lli_protect_parts *parts, enum lli_protect_mode mode, uint64_t number,
                         uint8_t *clear)
{
    const bool encrypts = mode == LLI_PROTECT_ENCRYPT;
    uint8_t bytes[LLI_PROTECT_CLEAR_MAX], nonce[LLI_PROTECT_NONCE];
    const struct lli_aead_clear authenticated = {.data = bytes,
                                                 .size = lli_protect_clear(packet, parts, bytes),
                                                 .more = packet + parts->head,
                                                 .more_size = encrypts ? 0 : parts->body};

    lli_protect_nonce(key->iv, number, nonce);
    if (!lli_aead_open(&key->aead, nonce, &authenticated, packet + parts->head, encrypts ? parts->body : 0,
                       packet + parts->tag, clear + parts->head))
        return false;
    if (!encrypts)
        memcpy(clear + parts->head, packet + parts->head, parts->body);
    lli_protect_restore(packet, parts, clear);
    return true;
}
