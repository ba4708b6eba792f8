/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks nonces: takes the place of libcrypto's AEADs by fast ones that are none, and remembers of each key and nonce
 * what was protected with them.
 */
#ifndef SIM_NONCES_H
#define SIM_NONCES_H

#include <stdint.h>

/* Forgets everything: the keys of the next history are others. */
void nonces_begin(void);

/* Packets protected since, and how many of them with the key and nonce of another one, but other bytes. */
struct nonces_seen {
    uint64_t sealed;
    uint64_t again;   /* with the same key, nonce and bytes: harmless */
    uint64_t misused; /* with the same key and nonce, and other bytes */
    uint64_t keys;    /* different ones set for sealing */
};

const struct nonces_seen *nonces_seen(void);

#endif
