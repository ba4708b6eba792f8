/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures by Ed25519 (RFC 8032) and digests by SHA-256 (FIPS 180-4), of libcrypto, with keys from PEM files: PKCS #8
 * for the private key (RFC 8410), SubjectPublicKeyInfo for public keys. In a build without libcrypto
 * signature_none.c refuses to open them.
 */
#ifndef LLI_SIGNATURE_H
#define LLI_SIGNATURE_H

#include "core/protect/seal.h"
#include "system/log.h"

enum { LLI_VERIFIERS_MAX = 16 /* public keys in a file */ };

struct lli_signer;
struct lli_verifier;

/*
 * Reads a private key. Refused with LLM_ENOTFOUND if there is no file, LLM_EACCESS if it belongs to another user than
 * this one or root, or others may read or write it, LLM_EDAMAGED if it has no private key of Ed25519, and LLM_EOPTION in
 * a build without libcrypto. Errors name the file and never a key.
 */
int lli_signer_open(const char *path, const struct lli_log *log, struct lli_signer **opened);

/* Wipes and frees it; NULL: no effect. */
void lli_signer_close(struct lli_signer *signer);

/* Signs bytes. False: libcrypto could not. */
bool lli_signer_sign(struct lli_signer *signer, const uint8_t *text, size_t size,
                     uint8_t signature[LLI_SEAL_SIGNATURE]);

/*
 * Reads 1 to LLI_VERIFIERS_MAX public keys. Refused as above, and with LLM_EACCESS if others may write the file; they may
 * read it.
 */
int lli_verifier_open(const char *path, const struct lli_log *log, struct lli_verifier **opened);
void lli_verifier_close(struct lli_verifier *verifier);

/*
 * Finds the key that a signature was made with: only the one at an index, or any if it is negative. Returns its index;
 * -1: none of them.
 */
int lli_verifier_check(struct lli_verifier *verifier, int index, const uint8_t *text, size_t size,
                       const uint8_t signature[LLI_SEAL_SIGNATURE]);

/* Digest of bytes that come in pieces. */
struct lli_digest {
    void *context; /* NULL: closed */
};

/* Opens a digest; false: no memory, or libcrypto does not have SHA-256. */
bool lli_digest_open(struct lli_digest *digest);
void lli_digest_close(struct lli_digest *digest);

/* Begins with the first piece, adds further ones, and ends with the digest. False: libcrypto could not. */
bool lli_digest_begin(struct lli_digest *digest);
bool lli_digest_add(struct lli_digest *digest, const uint8_t *bytes, size_t size);
bool lli_digest_end(struct lli_digest *digest, uint8_t result[LLI_SEAL_DIGEST]);

#endif
