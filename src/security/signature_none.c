/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of signature.c in a build without libcrypto: nothing can be opened, so the rest is never called. */
#include "security/signature.h"

static int signature_refuse(const char *path, const struct lli_log *log)
{
    return lli_fail(
        log, LLM_EOPTION,
        "key file %s: this library was built without libcrypto; install libssl-dev and build it with "
        "-Dkeys=enabled",
        path);
}

int lli_signer_open(const char *path, const struct lli_log *log, struct lli_signer **opened)
{
    *opened = NULL;
    return signature_refuse(path, log);
}

void lli_signer_close(struct lli_signer *signer)
{
    (void)signer;
}

bool lli_signer_sign(struct lli_signer *signer, const uint8_t *text, size_t size,
                     uint8_t signature[LLI_SEAL_SIGNATURE])
{
    (void)signer;
    (void)text;
    (void)size;
    (void)signature;
    return false;
}

int lli_verifier_open(const char *path, const struct lli_log *log, struct lli_verifier **opened)
{
    *opened = NULL;
    return signature_refuse(path, log);
}

void lli_verifier_close(struct lli_verifier *verifier)
{
    (void)verifier;
}

int lli_verifier_check(struct lli_verifier *verifier, int index, const uint8_t *text, size_t size,
                       const uint8_t signature[LLI_SEAL_SIGNATURE])
{
    (void)verifier;
    (void)index;
    (void)text;
    (void)size;
    (void)signature;
    return -1;
}

bool lli_digest_open(struct lli_digest *digest)
{
    digest->context = NULL;
    return false;
}

void lli_digest_close(struct lli_digest *digest)
{
    (void)digest;
}

bool lli_digest_begin(struct lli_digest *digest)
{
    (void)digest;
    return false;
}

bool lli_digest_add(struct lli_digest *digest, const uint8_t *bytes, size_t size)
{
    (void)digest;
    (void)bytes;
    (void)size;
    return false;
}

bool lli_digest_end(struct lli_digest *digest, uint8_t result[LLI_SEAL_DIGEST])
{
    (void)digest;
    (void)result;
    return false;
}
