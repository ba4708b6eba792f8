/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include <stdlib.h>
#include <string.h>

#include "system/clock.h"

int lli_peers_init(struct lli_peers *peers, uint32_t max)
{
    uint32_t slots = 64;

    while (slots < 2 * max)
        slots *= 2;
    peers->max = max;
    peers->slot_mask = slots - 1;
    peers->addresses = calloc(max, sizeof *peers->addresses);
    peers->slots = calloc(slots, sizeof *peers->slots);
    peers->spare = calloc(max, sizeof *peers->spare);
    peers->seed = lli_entropy();
    return peers->addresses == NULL || peers->slots == NULL || peers->spare == NULL ? LLM_ENOMEM : 0;
}

void lli_peers_fini(struct lli_peers *peers)
{
    free(peers->addresses);
    free(peers->slots);
    free(peers->spare);
    memset(peers, 0, sizeof *peers);
}

static uint64_t peers_mix(uint64_t value)
{
    value = (value ^ value >> 32) * 0x9e3779b97f4a7c15u;
    return value ^ value >> 29;
}

static uint32_t peers_hash(const struct lli_peers *peers, const struct lli_address *address)
{
    uint64_t words[4] = {0};
    uint64_t hash = peers->seed ^ address->size;

    memcpy(words, address->bytes, address->size);
    for (int i = 0; i < 4; i++)
        hash = peers_mix(hash ^ words[i]);
    return (uint32_t)(hash >> 32);
}

static bool peers_is(const struct lli_address *a, const struct lli_address *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/*
 * Returns the slot of an address, or the empty slot where it belongs. Terminates: half of the slots stay
 * empty.
 */
static uint32_t peers_find(const struct lli_peers *peers, const struct lli_address *address)
{
    uint32_t slot = peers_hash(peers, address) & peers->slot_mask;

    while (peers->slots[slot] != 0 && !peers_is(&peers->addresses[peers->slots[slot] - 1], address))
        slot = (slot + 1) & peers->slot_mask;
    return slot;
}

int lli_peers_place(struct lli_peers *peers, const struct lli_address *address, uint32_t *place)
{
    const uint32_t slot = peers_find(peers, address);

    if (peers->slots[slot] != 0) {
        *place = peers->slots[slot] - 1;
        return 0;
    }
    if (peers->spare_count == 0 && peers->count == peers->max)
        return LLM_ELIMIT;
    *place = peers->spare_count > 0 ? peers->spare[--peers->spare_count] : peers->count++;
    peers->addresses[*place] = *address;
    peers->slots[slot] = *place + 1;
    return 0;
}

bool lli_peers_get(const struct lli_peers *peers, const struct lli_address *address, uint32_t *place)
{
    const uint32_t slot = peers_find(peers, address);

    if (peers->slots[slot] == 0)
        return false;
    *place = peers->slots[slot] - 1;
    return true;
}

bool lli_peers_remove(struct lli_peers *peers, const struct lli_address *address, uint32_t *place)
{
    uint32_t slot = peers_find(peers, address);

    if (peers->slots[slot] == 0)
        return false;
    *place = peers->slots[slot] - 1;
    peers->spare[peers->spare_count++] = *place;
    peers->slots[slot] = 0;
    /* Reinsert the rest of the cluster: the removed entry may have displaced them. */
    for (slot = (slot + 1) & peers->slot_mask; peers->slots[slot] != 0;
         slot = (slot + 1) & peers->slot_mask) {
        const uint32_t moved = peers->slots[slot];

        peers->slots[slot] = 0;
        peers->slots[peers_find(peers, &peers->addresses[moved - 1])] = moved;
    }
    return true;
}
