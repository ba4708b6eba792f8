/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AEADs: AES-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439), by ipsec-mb if the build has it and the processor can,
 * else by libcrypto, with the same bytes. One context has one key.
 */
#ifndef LLI_AEAD_H
#define LLI_AEAD_H

#include "core/keys/key_file.h"

struct lli_aead_mb;

struct lli_aead {
    void *context;          /* of libcrypto; NULL: no key was set yet, or only `mb` is used */
    struct lli_aead_mb *mb; /* of ipsec-mb; NULL: only `context` is used */
};

enum lli_aead_backend { LLI_AEAD_LIBCRYPTO, LLI_AEAD_IPSEC_MB };

/*
 * Returns the back end of keys that are set from now on. The first call chooses it: libcrypto if there is no other, if it is
 * limited to FIPS, or if the environment variable LLM_KEYS_BACKEND is "libcrypto".
 */
enum lli_aead_backend lli_aead_backend(void);

/* Chooses the back end of keys that are set from now on; for tests. False: there is no such one. */
bool lli_aead_choose(enum lli_aead_backend backend);

/* Bytes that are authenticated and not encrypted. The second piece is empty unless nothing is encrypted. */
struct lli_aead_clear {
    const uint8_t *data;
    size_t size;
    const uint8_t *more;
    size_t more_size;
};

/*
 * Sets a key of lli_key_suite_bytes(suite) bytes, for sealing or for opening; the earlier one is wiped. False: there is
 * no memory, or libcrypto does not have the suite.
 */
bool lli_aead_key(struct lli_aead *aead, enum lli_key_suite suite, const uint8_t *key, bool seals);

/* Wipes and frees a context; one without a key stays so. */
void lli_aead_free(struct lli_aead *aead);

/*
 * Encrypts bytes in place and writes the tag of 16 bytes. Two calls with one key never have the same nonce of 12 bytes
 * unless everything else is the same, too.
 */
bool lli_aead_seal(struct lli_aead *aead, const uint8_t *nonce, const struct lli_aead_clear *clear,
                   uint8_t *bytes, size_t size, uint8_t *tag);

/*
 * Decrypts bytes to `to`. False: they, or the other arguments, are not what was sealed; then nothing in `to` may be
 * used. Tags are compared in constant time.
 */
bool lli_aead_open(struct lli_aead *aead, const uint8_t *nonce, const struct lli_aead_clear *clear,
                   const uint8_t *bytes, size_t size, const uint8_t *tag, uint8_t *to);

#endif
