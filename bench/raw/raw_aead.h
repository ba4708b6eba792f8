/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare AEADs, without the library: packets are sealed and opened by libcrypto's EVP and, where the build has
 * it, by ipsec-mb. One key in a process, whose schedule is made once; only the nonce is set for each packet.
 * The header of a packet is authenticated, its body is encrypted. A call that fails ends the process.
 */
#ifndef BENCH_RAW_AEAD_H
#define BENCH_RAW_AEAD_H

#include <stddef.h>
#include <stdint.h>

enum {
    RAW_AEAD_HEAD = 22, /* bytes that are authenticated only: the header of DATA, and four of the trailer */
    RAW_AEAD_TAG = 16,
    RAW_AEAD_KEY = 32, /* bytes of a key; suites with shorter keys use its first ones */
};

struct raw_aead {
    const char *backend;
    const char *suite;
    int key_bytes;
    const struct evp_cipher_st *(*cipher)(void);
    void (*key)(const struct raw_aead *aead, const uint8_t *key);
    /* Encrypts size bytes in place and sets the tag. No number is sealed twice. */
    void (*seal)(uint64_t number, const uint8_t *head, uint8_t *body, size_t size, uint8_t *tag);
    /* Decrypts size bytes of a body to another place and compares the tag. */
    void (*open)(uint64_t number, const uint8_t *head, const uint8_t *body, size_t size, const uint8_t *tag,
                 uint8_t *clear);
};

/* All of this build. The last one has no back end. */
extern const struct raw_aead raw_aeads[];

#endif
