/* SPDX-License-Identifier: Apache-2.0 */
#include "raw_aead.h"

#ifdef BENCH_WITH_LIBCRYPTO
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#endif
#ifdef BENCH_WITH_IPSEC_MB
#include <intel-ipsec-mb.h>
#endif

#include "../engine/control.h"

/* ------------------------------------------------------------------------------------------- libcrypto */

#ifdef BENCH_WITH_LIBCRYPTO
enum { RAW_AEAD_NONCE = 12 };

static void aead_nonce(uint64_t number, uint8_t *nonce)
{
    memset(nonce, 0, RAW_AEAD_NONCE);
    memcpy(nonce, &number, sizeof number);
}

static EVP_CIPHER_CTX *evp_sealer, *evp_opener;

static void evp_key(const struct raw_aead *aead, const uint8_t *key)
{
    if (evp_sealer == NULL)
        evp_sealer = EVP_CIPHER_CTX_new();
    if (evp_opener == NULL)
        evp_opener = EVP_CIPHER_CTX_new();
    if (evp_sealer == NULL || evp_opener == NULL ||
        EVP_EncryptInit_ex(evp_sealer, aead->cipher(), NULL, key, NULL) != 1 ||
        EVP_DecryptInit_ex(evp_opener, aead->cipher(), NULL, key, NULL) != 1)
        control_fail("libcrypto", "cannot set a key");
}

static void evp_seal(uint64_t number, const uint8_t *head, uint8_t *body, size_t size, uint8_t *tag)
{
    uint8_t nonce[RAW_AEAD_NONCE];
    int used;

    aead_nonce(number, nonce);
    if (EVP_EncryptInit_ex(evp_sealer, NULL, NULL, NULL, nonce) != 1 ||
        EVP_EncryptUpdate(evp_sealer, NULL, &used, head, RAW_AEAD_HEAD) != 1 ||
        EVP_EncryptUpdate(evp_sealer, body, &used, body, (int)size) != 1 ||
        EVP_EncryptFinal_ex(evp_sealer, body + used, &used) != 1 ||
        EVP_CIPHER_CTX_ctrl(evp_sealer, EVP_CTRL_AEAD_GET_TAG, RAW_AEAD_TAG, tag) != 1)
        control_fail("libcrypto", "cannot seal a packet");
}

static void evp_open(uint64_t number, const uint8_t *head, const uint8_t *body, size_t size,
                     const uint8_t *tag, uint8_t *clear)
{
    uint8_t nonce[RAW_AEAD_NONCE], expected[RAW_AEAD_TAG];
    int used;

    aead_nonce(number, nonce);
    memcpy(expected, tag, sizeof expected);
    if (EVP_DecryptInit_ex(evp_opener, NULL, NULL, NULL, nonce) != 1 ||
        EVP_DecryptUpdate(evp_opener, NULL, &used, head, RAW_AEAD_HEAD) != 1 ||
        EVP_DecryptUpdate(evp_opener, clear, &used, body, (int)size) != 1 ||
        EVP_CIPHER_CTX_ctrl(evp_opener, EVP_CTRL_AEAD_SET_TAG, RAW_AEAD_TAG, expected) != 1 ||
        EVP_DecryptFinal_ex(evp_opener, clear + used, &used) != 1)
        control_fail("libcrypto", "cannot open a packet");
}
#endif

/* --------------------------------------------------------------------------------------------- ipsec-mb */

#ifdef BENCH_WITH_IPSEC_MB
static IMB_MGR *imb;
static struct gcm_key_data imb_sealing, imb_opening; /* as two channels have them */
static aes_gcm_enc_dec_t imb_encrypt, imb_decrypt;

static void imb_key(const struct raw_aead *aead, const uint8_t *key)
{
    if (imb == NULL) {
        imb = alloc_mb_mgr(0);
        if (imb == NULL)
            control_fail("ipsec-mb", "cannot get memory");
        init_mb_mgr_auto(imb, NULL);
    }
    if (aead->key_bytes == 16)
        IMB_AES128_GCM_PRE(imb, key, &imb_sealing);
    else
        IMB_AES256_GCM_PRE(imb, key, &imb_sealing);
    imb_opening = imb_sealing;
    imb_encrypt = aead->key_bytes == 16 ? imb->gcm128_enc : imb->gcm256_enc;
    imb_decrypt = aead->key_bytes == 16 ? imb->gcm128_dec : imb->gcm256_dec;
}

static void imb_seal(uint64_t number, const uint8_t *head, uint8_t *body, size_t size, uint8_t *tag)
{
    struct gcm_context_data state;
    uint8_t nonce[RAW_AEAD_NONCE];

    aead_nonce(number, nonce);
    imb_encrypt(&imb_sealing, &state, body, body, size, nonce, head, RAW_AEAD_HEAD, tag, RAW_AEAD_TAG);
}

static void imb_open(uint64_t number, const uint8_t *head, const uint8_t *body, size_t size,
                     const uint8_t *tag, uint8_t *clear)
{
    struct gcm_context_data state;
    uint8_t nonce[RAW_AEAD_NONCE], made[RAW_AEAD_TAG];

    aead_nonce(number, nonce);
    imb_decrypt(&imb_opening, &state, clear, body, size, nonce, head, RAW_AEAD_HEAD, made, RAW_AEAD_TAG);
    if (CRYPTO_memcmp(made, tag, RAW_AEAD_TAG) != 0)
        control_fail("ipsec-mb", "cannot open a packet");
}
#endif

/* ------------------------------------------------------------------------------------------------ table */

#define EVP .backend = "libcrypto", .key = evp_key, .seal = evp_seal, .open = evp_open
#define IMB .backend = "ipsec-mb", .key = imb_key, .seal = imb_seal, .open = imb_open

const struct raw_aead raw_aeads[] = {
#ifdef BENCH_WITH_LIBCRYPTO
    {EVP, .suite = "aes-128-gcm", .cipher = EVP_aes_128_gcm, .key_bytes = 16},
    {EVP, .suite = "aes-256-gcm", .cipher = EVP_aes_256_gcm, .key_bytes = 32},
    {EVP, .suite = "chacha20-poly1305", .cipher = EVP_chacha20_poly1305, .key_bytes = 32},
#endif
#ifdef BENCH_WITH_IPSEC_MB
    {IMB, .suite = "aes-128-gcm", .key_bytes = 16},
    {IMB, .suite = "aes-256-gcm", .key_bytes = 32},
#endif
    {.backend = NULL},
};
