/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of forged packets to a transmitter and its receivers, in virtual time. */
#ifndef TESTS_ADVERSARY_WORLD_H
#define TESTS_ADVERSARY_WORLD_H

#include "adversary.h"

/* Absolute costs of a world. */
struct world_result {
    struct adversary_cost cost;
    uint64_t messages; /* messages sent, for all receivers */
};

/*
 * Runs a world with the packets of a kind or, with `quiet`, without them. Worlds of the same seed and profile
 * are equal until the first such packet.
 */
void world_run(const struct adversary_kind *kind, uint64_t seed, bool quiet, struct world_result *result);

/*
 * Runs a storm of this many packets of all survivable kinds. Messages sent from ten seconds after it on have
 * to be delivered. False: some are not, or there was more than one packet to a third party for each forged
 * packet.
 */
bool world_storm(uint64_t seed, uint64_t packets, enum adversary_profile profile);

#endif
