/* SPDX-License-Identifier: Apache-2.0 */
/* Table of peer addresses; each address has an index ("place") until it is removed. */
#ifndef LLI_PEERS_H
#define LLI_PEERS_H

#include "transport.h"

struct lli_peers {
    struct lli_address *addresses; /* by place */
    uint32_t *slots;               /* hash table of place + 1; 0: empty */
    uint32_t slot_mask;
    uint32_t *spare; /* stack of freed places */
    uint32_t spare_count;
    uint32_t count; /* places used so far */
    uint32_t max;
    uint64_t seed; /* addresses come from the network: a peer must not be able to predict collisions */
};

/* Fails with LLM_ENOMEM; fini() is required in any case. */
int lli_peers_init(struct lli_peers *peers, uint32_t max);
void lli_peers_fini(struct lli_peers *peers);

/*
 * Returns the place of an address; a new address gets a freed place, or the next, which is peers->count
 * before the call. Fails with LLM_ELIMIT if the table is full.
 */
int lli_peers_place(struct lli_peers *peers, const struct lli_address *address, uint32_t *place);

/* Looks up the place of an address. False: not in the table. */
bool lli_peers_get(const struct lli_peers *peers, const struct lli_address *address, uint32_t *place);

/* Removes an address and frees its place. False: not in the table. */
bool lli_peers_remove(struct lli_peers *peers, const struct lli_address *address, uint32_t *place);

#endif
