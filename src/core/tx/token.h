/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a receiver sends back to show that packets to its address reach it (docs/protocol.md section 5.4): a keyed hash of both, so
 * that nothing need be remembered of those who never send it back.
 */
#ifndef LLI_TOKEN_H
#define LLI_TOKEN_H

#include "core/base/types.h"
#include "core/wire/wire.h"

struct lli_token_key {
    uint64_t words[2]; /* random, and known to nobody else */
};

/* SipHash-2-4 (Aumasson and Bernstein, 2012) of an identity and an address; never 0. */
uint64_t lli_token(const struct lli_token_key *key, uint64_t id, const struct lli_wire_address *address);

#endif
