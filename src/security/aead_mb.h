/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AES-GCM and ChaCha20-Poly1305 by ipsec-mb, which writes the same bytes as libcrypto in less time (ADR 55): one call for
 * a packet, without a context to set up. In a build without it there is no such file.
 */
#ifndef LLI_AEAD_MB_H
#define LLI_AEAD_MB_H

#include "security/aead.h"

/* Key of a suite, expanded. */
struct lli_aead_mb;

/*
 * Sets a key, as lli_aead_key() does; *state is allocated if it is NULL. False: no memory, or a processor without AES
 * instructions.
 */
bool lli_aead_mb_key(struct lli_aead_mb **state, enum lli_key_suite suite, const uint8_t *key);

/* Wipes and frees it; NULL: no effect. */
void lli_aead_mb_free(struct lli_aead_mb *state);

/* Returns true if it can do what is asked: ChaCha20-Poly1305 takes what is authenticated in one piece only. */
bool lli_aead_mb_has(const struct lli_aead_mb *state, const struct lli_aead_clear *clear);

/* As lli_aead_seal() and lli_aead_open(), for what it has. */
void lli_aead_mb_seal(struct lli_aead_mb *state, const uint8_t *nonce, const struct lli_aead_clear *clear,
                      uint8_t *bytes, size_t size, uint8_t *tag);
bool lli_aead_mb_open(struct lli_aead_mb *state, const uint8_t *nonce, const struct lli_aead_clear *clear,
                      const uint8_t *bytes, size_t size, const uint8_t *tag, uint8_t *to);

#endif
