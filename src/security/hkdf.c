/* SPDX-License-Identifier: Apache-2.0 */
#include "security/hkdf.h"

#include <pthread.h>

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

/* Looked up once, as that takes libcrypto's locks and longer than a derivation; NULL: libcrypto does not have it. */
static EVP_KDF *algorithm;

static void hkdf_fetch(void)
{
    algorithm = EVP_KDF_fetch(NULL, "HKDF", NULL);
}

/* libcrypto only reads what a parameter points to here; an empty one needs an address as well. */
static OSSL_PARAM hkdf_param(const char *name, const struct lli_hkdf_input *input)
{
    static char none[1];

    return OSSL_PARAM_construct_octet_string(name, input->size > 0 ? (void *)(uintptr_t)input->data : none,
                                             input->size);
}

bool lli_hkdf(const struct lli_hkdf_input *secret, const struct lli_hkdf_input *salt,
              const struct lli_hkdf_input *purpose, void *output, size_t size)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        hkdf_param(OSSL_KDF_PARAM_KEY, secret),
        hkdf_param(OSSL_KDF_PARAM_SALT, salt),
        hkdf_param(OSSL_KDF_PARAM_INFO, purpose),
        OSSL_PARAM_construct_end(),
    };
    static pthread_once_t fetched = PTHREAD_ONCE_INIT;
    EVP_KDF_CTX *context;
    bool done;

    (void)pthread_once(&fetched, hkdf_fetch);
    context = algorithm != NULL ? EVP_KDF_CTX_new(algorithm) : NULL;
    done = context != NULL && EVP_KDF_derive(context, output, size, params) == 1;
    EVP_KDF_CTX_free(context);
    return done;
}
