/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "security/aead.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#ifdef LLI_WITH_IPSEC_MB
#include "security/aead_mb.h"
#endif

enum { AEAD_TAG = 16 };

static const EVP_CIPHER *aead_cipher(enum lli_key_suite suite)
{
    switch (suite) {
    case LLI_KEY_AES_128_GCM:
        return EVP_aes_128_gcm();
    case LLI_KEY_AES_256_GCM:
        return EVP_aes_256_gcm();
    case LLI_KEY_CHACHA20_POLY1305:
        return EVP_chacha20_poly1305();
    }
    return NULL;
}

static atomic_int chosen = -1; /* enum lli_aead_backend; -1: none yet */

bool lli_aead_choose(enum lli_aead_backend backend)
{
#ifndef LLI_WITH_IPSEC_MB
    if (backend == LLI_AEAD_IPSEC_MB)
        return false;
#endif
    atomic_store(&chosen, (int)backend);
    return true;
}

enum lli_aead_backend lli_aead_backend(void)
{
    const char *wanted;

    if (atomic_load(&chosen) < 0) {
        wanted = secure_getenv("LLM_KEYS_BACKEND");
        if ((wanted != NULL && strcmp(wanted, "libcrypto") == 0) ||
            EVP_default_properties_is_fips_enabled(NULL) == 1 || !lli_aead_choose(LLI_AEAD_IPSEC_MB))
            (void)lli_aead_choose(LLI_AEAD_LIBCRYPTO);
    }
    return (enum lli_aead_backend)atomic_load(&chosen);
}

/* Sets the key of ipsec-mb. False: libcrypto has to have it. */
static bool aead_key_mb(struct lli_aead *aead, enum lli_key_suite suite, const uint8_t *key)
{
#ifdef LLI_WITH_IPSEC_MB
    if (lli_aead_backend() == LLI_AEAD_IPSEC_MB && lli_aead_mb_key(&aead->mb, suite, key))
        return true;
    lli_aead_mb_free(aead->mb);
#endif
    (void)suite;
    (void)key;
    aead->mb = NULL;
    return false;
}

bool lli_aead_key(struct lli_aead *aead, enum lli_key_suite suite, const uint8_t *key, bool seals)
{
    const EVP_CIPHER *cipher = aead_cipher(suite);
    const bool done = cipher != NULL && aead_key_mb(aead, suite, key);

    /* ipsec-mb takes what is authenticated in one piece only with ChaCha20-Poly1305. */
    if (done && suite != LLI_KEY_CHACHA20_POLY1305) {
        EVP_CIPHER_CTX_free(aead->context);
        aead->context = NULL;
        return true;
    }
    if (aead->context == NULL)
        aead->context = EVP_CIPHER_CTX_new();
    return aead->context != NULL && cipher != NULL &&
           EVP_CipherInit_ex(aead->context, cipher, NULL, key, NULL, seals) == 1;
}

void lli_aead_free(struct lli_aead *aead)
{
    EVP_CIPHER_CTX_free(aead->context);
    aead->context = NULL;
#ifdef LLI_WITH_IPSEC_MB
    lli_aead_mb_free(aead->mb);
#endif
    aead->mb = NULL;
}

static bool aead_clear(EVP_CIPHER_CTX *context, const struct lli_aead_clear *clear)
{
    int used;

    return EVP_CipherUpdate(context, NULL, &used, clear->data, (int)clear->size) == 1 &&
           (clear->more_size == 0 ||
            EVP_CipherUpdate(context, NULL, &used, clear->more, (int)clear->more_size) == 1);
}

bool lli_aead_seal(struct lli_aead *aead, const uint8_t *nonce, const struct lli_aead_clear *clear,
                   uint8_t *bytes, size_t size, uint8_t *tag)
{
    int used;

#ifdef LLI_WITH_IPSEC_MB
    if (aead->mb != NULL && lli_aead_mb_has(aead->mb, clear)) {
        lli_aead_mb_seal(aead->mb, nonce, clear, bytes, size, tag);
        return true;
    }
#endif
    return EVP_EncryptInit_ex(aead->context, NULL, NULL, NULL, nonce) == 1 &&
           aead_clear(aead->context, clear) &&
           (size == 0 || EVP_EncryptUpdate(aead->context, bytes, &used, bytes, (int)size) == 1) &&
           EVP_EncryptFinal_ex(aead->context, bytes + size, &used) == 1 &&
           EVP_CIPHER_CTX_ctrl(aead->context, EVP_CTRL_AEAD_GET_TAG, AEAD_TAG, tag) == 1;
}

bool lli_aead_open(struct lli_aead *aead, const uint8_t *nonce, const struct lli_aead_clear *clear,
                   const uint8_t *bytes, size_t size, const uint8_t *tag, uint8_t *to)
{
    int used;

#ifdef LLI_WITH_IPSEC_MB
    if (aead->mb != NULL && lli_aead_mb_has(aead->mb, clear))
        return lli_aead_mb_open(aead->mb, nonce, clear, bytes, size, tag, to);
#endif
    return EVP_DecryptInit_ex(aead->context, NULL, NULL, NULL, nonce) == 1 &&
           aead_clear(aead->context, clear) &&
           (size == 0 || EVP_DecryptUpdate(aead->context, to, &used, bytes, (int)size) == 1) &&
           EVP_CIPHER_CTX_ctrl(aead->context, EVP_CTRL_AEAD_SET_TAG, AEAD_TAG, (void *)(uintptr_t)tag) == 1 &&
           EVP_DecryptFinal_ex(aead->context, to + size, &used) == 1;
}
