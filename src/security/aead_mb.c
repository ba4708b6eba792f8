/* SPDX-License-Identifier: Apache-2.0 */
#include "security/aead_mb.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

enum { MB_TAG = 16, MB_NONCE = 12 };

struct lli_aead_mb {
    struct gcm_key_data gcm; /* aligned to 64 bytes */
    uint8_t chacha[32];
    enum lli_key_suite suite;
};

/* Table of functions for this processor; NULL: it has no AES instructions. No call writes to it but an error number. */
static IMB_MGR *manager;

static void mb_find(void)
{
    IMB_MGR *found = alloc_mb_mgr(0);

    if (found == NULL)
        return;
    init_mb_mgr_auto(found, NULL);
    if ((found->features & IMB_FEATURE_AESNI) != 0)
        manager = found;
    else
        free_mb_mgr(found);
}

bool lli_aead_mb_key(struct lli_aead_mb **state, enum lli_key_suite suite, const uint8_t *key)
{
    static pthread_once_t found = PTHREAD_ONCE_INIT;

    (void)pthread_once(&found, mb_find);
    if (manager == NULL)
        return false;
    if (*state == NULL)
        *state = aligned_alloc(64, lli_round_up(sizeof **state, 64));
    else if ((*state)->suite != suite)
        lli_key_wipe(*state, sizeof **state);
    if (*state == NULL)
        return false;
    (*state)->suite = suite;
    switch (suite) {
    case LLI_KEY_AES_128_GCM:
        IMB_AES128_GCM_PRE(manager, key, &(*state)->gcm);
        return true;
    case LLI_KEY_AES_256_GCM:
        IMB_AES256_GCM_PRE(manager, key, &(*state)->gcm);
        return true;
    case LLI_KEY_CHACHA20_POLY1305:
        memcpy((*state)->chacha, key, sizeof(*state)->chacha);
        return true;
    }
    return false;
}

void lli_aead_mb_free(struct lli_aead_mb *state)
{
    if (state == NULL)
        return;
    lli_key_wipe(state, sizeof *state);
    free(state);
}

bool lli_aead_mb_has(const struct lli_aead_mb *state, const struct lli_aead_clear *clear)
{
    return state->suite != LLI_KEY_CHACHA20_POLY1305 || clear->more_size == 0;
}

/* Computes the tag of bytes that are only authenticated, in two pieces: GMAC. */
static void mb_gmac(const struct lli_aead_mb *state, const uint8_t *nonce, const struct lli_aead_clear *clear,
                    uint8_t *tag)
{
    struct gcm_context_data context;

    if (state->suite == LLI_KEY_AES_128_GCM) {
        IMB_AES128_GMAC_INIT(manager, &state->gcm, &context, nonce, MB_NONCE);
        IMB_AES128_GMAC_UPDATE(manager, &state->gcm, &context, clear->data, clear->size);
        IMB_AES128_GMAC_UPDATE(manager, &state->gcm, &context, clear->more, clear->more_size);
        IMB_AES128_GMAC_FINALIZE(manager, &state->gcm, &context, tag, MB_TAG);
    } else {
        IMB_AES256_GMAC_INIT(manager, &state->gcm, &context, nonce, MB_NONCE);
        IMB_AES256_GMAC_UPDATE(manager, &state->gcm, &context, clear->data, clear->size);
        IMB_AES256_GMAC_UPDATE(manager, &state->gcm, &context, clear->more, clear->more_size);
        IMB_AES256_GMAC_FINALIZE(manager, &state->gcm, &context, tag, MB_TAG);
    }
}

static void mb_chacha(struct lli_aead_mb *state, const uint8_t *nonce, const struct lli_aead_clear *clear,
                      const uint8_t *bytes, size_t size, bool seals, uint8_t *to, uint8_t *tag)
{
    struct chacha20_poly1305_context_data context;

    IMB_CHACHA20_POLY1305_INIT(manager, state->chacha, &context, nonce, clear->data, clear->size);
    if (seals) {
        IMB_CHACHA20_POLY1305_ENC_UPDATE(manager, state->chacha, &context, to, bytes, size);
        IMB_CHACHA20_POLY1305_ENC_FINALIZE(manager, &context, tag, MB_TAG);
    } else {
        IMB_CHACHA20_POLY1305_DEC_UPDATE(manager, state->chacha, &context, to, bytes, size);
        IMB_CHACHA20_POLY1305_DEC_FINALIZE(manager, &context, tag, MB_TAG);
    }
}

/* Encrypts or decrypts, and computes the tag. */
static void mb_run(struct lli_aead_mb *state, const uint8_t *nonce, const struct lli_aead_clear *clear,
                   const uint8_t *bytes, size_t size, bool seals, uint8_t *to, uint8_t *tag)
{
    struct gcm_context_data context;

    if (state->suite == LLI_KEY_CHACHA20_POLY1305) {
        mb_chacha(state, nonce, clear, bytes, size, seals, to, tag);
        return;
    }
    if (clear->more_size > 0) {
        assert(size == 0); /* as the contract of lli_aead_clear says */
        mb_gmac(state, nonce, clear, tag);
        return;
    }
    if (state->suite == LLI_KEY_AES_128_GCM && seals)
        IMB_AES128_GCM_ENC(manager, &state->gcm, &context, to, bytes, size, nonce, clear->data, clear->size,
                           tag, MB_TAG);
    else if (state->suite == LLI_KEY_AES_128_GCM)
        IMB_AES128_GCM_DEC(manager, &state->gcm, &context, to, bytes, size, nonce, clear->data, clear->size,
                           tag, MB_TAG);
    else if (seals)
        IMB_AES256_GCM_ENC(manager, &state->gcm, &context, to, bytes, size, nonce, clear->data, clear->size,
                           tag, MB_TAG);
    else
        IMB_AES256_GCM_DEC(manager, &state->gcm, &context, to, bytes, size, nonce, clear->data, clear->size,
                           tag, MB_TAG);
}

void lli_aead_mb_seal(struct lli_aead_mb *state, const uint8_t *nonce, const struct lli_aead_clear *clear,
                      uint8_t *bytes, size_t size, uint8_t *tag)
{
    mb_run(state, nonce, clear, bytes, size, true, bytes, tag);
}

bool lli_aead_mb_open(struct lli_aead_mb *state, const uint8_t *nonce, const struct lli_aead_clear *clear,
                      const uint8_t *bytes, size_t size, const uint8_t *tag, uint8_t *to)
{
    uint8_t made[MB_TAG];

    mb_run(state, nonce, clear, bytes, size, false, to, made);
    return CRYPTO_memcmp(made, tag, MB_TAG) == 0;
}
