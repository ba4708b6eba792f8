/* SPDX-License-Identifier: Apache-2.0 */
/* Key of one block of packets (docs/protocol.md section 14.2): its derivation, and the opening of a packet with it. */
#ifndef LLI_PACKET_KEY_H
#define LLI_PACKET_KEY_H

#include "core/protect/protect.h"
#include "security/aead.h"

/* Zeroed: no key was derived yet. */
struct lli_packet_key {
    struct lli_aead aead;
    uint8_t iv[LLI_PROTECT_NONCE];
};

/* The packets that a key is for. */
struct lli_packet_scope {
    const struct lli_key_epoch *epoch;
    enum lli_protect_mode mode;
    bool is_data;
    uint64_t identity; /* of the session for DATA, else of the sender */
    uint64_t block;    /* lli_protect_block() */
};

/* Derives a key, for sealing or for opening, in the place of an earlier one. False: libcrypto could not. */
bool lli_packet_key_derive(struct lli_packet_key *key, const struct lli_packet_scope *scope, bool seals);

/* Wipes and frees a key; one that was never derived stays so. */
void lli_packet_key_free(struct lli_packet_key *key);

/*
 * Opens a packet with this number: writes the packet of version 1, of parts->head and parts->body bytes. False: it is
 * not authentic, and what was written is meaningless.
 */
bool lli_packet_key_open(struct lli_packet_key *key, const uint8_t *packet,
                         const struct lli_protect_parts *parts, enum lli_protect_mode mode, uint64_t number,
                         uint8_t *clear);

#endif
