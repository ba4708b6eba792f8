/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Return-routability token (docs/protocol.md section 5.4): a receiver sends it back to show that packets to
 * its address reach it. A keyed hash of identity and address, so that nothing is stored for receivers that
 * never return it.
 */
#ifndef LLI_TOKEN_H
#define LLI_TOKEN_H

#include "core/base/types.h"
#include "core/wire/wire.h"

struct lli_token_key {
    uint64_t words[2]; /* random and secret */
};

/* Computes SipHash-2-4 (Aumasson and Bernstein, 2012) of an identity and an address; never 0. */
uint64_t lli_token(const struct lli_token_key *key, uint64_t id, const struct lli_wire_address *address);

#endif
