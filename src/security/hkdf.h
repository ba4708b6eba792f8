/* SPDX-License-Identifier: Apache-2.0 */
/* HKDF-SHA-256 (RFC 5869) by libcrypto. */
#ifndef LLI_HKDF_H
#define LLI_HKDF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes for a function below; data may be NULL if there are none. */
struct lli_hkdf_input {
    const void *data;
    size_t size;
};

/*
 * Fills the output, at most 8,160 bytes, from a secret, a salt that is not secret and the purpose. False:
 * libcrypto could not; its FIPS module may be without the algorithm.
 */
bool lli_hkdf(const struct lli_hkdf_input *secret, const struct lli_hkdf_input *salt,
              const struct lli_hkdf_input *purpose, void *output, size_t size);

#endif
