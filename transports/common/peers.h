/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that a transport was asked to reach: each has a place, counted from 0, until it is removed. */
#ifndef LLI_PEERS_H
#define LLI_PEERS_H

#include "transport.h"

struct lli_peers {
    struct lli_address *addresses; /* by place */
    uint32_t *slots;               /* hash table of places, plus 1; 0: empty */
    uint32_t slot_mask;
    uint32_t *spare;               /* places that were given back, a stack */
    uint32_t spare_count;
    uint32_t count;                /* places ever used */
    uint32_t max;
    uint64_t seed; /* addresses come from the network: nobody shall know which of them collide */
};

/* LLM_ENOMEM; fini() is due in any case. */
int lli_peers_init(struct lli_peers *peers, uint32_t max);
void lli_peers_fini(struct lli_peers *peers);

/*
 * The place of an address; one that is new gets the next, which is peers->count before, or one that was given back. LLM_ELIMIT:
 * no place is left.
 */
int lli_peers_place(struct lli_peers *peers, const struct lli_address *address, uint32_t *place);

/* The place of an address that has one; false: it has none. */
bool lli_peers_get(const struct lli_peers *peers, const struct lli_address *address, uint32_t *place);

/* Gives the place of an address back. False: it has none. */
bool lli_peers_remove(struct lli_peers *peers, const struct lli_address *address, uint32_t *place);

#endif
