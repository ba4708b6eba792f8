/* SPDX-License-Identifier: Apache-2.0 */
/* A transmitter, its receivers and somebody who forges their packets, in virtual time: what that costs. */
#ifndef TESTS_ADVERSARY_WORLD_H
#define TESTS_ADVERSARY_WORLD_H

#include "adversary.h"

/* Absolute costs of a world. */
struct world_result {
    struct adversary_cost cost;
    uint64_t messages; /* sent, by all receivers */
};

/*
 * The packets of the kind come, or none with `quiet`. The same seed and profile are the same world until they
 * do.
 */
void world_run(const struct adversary_kind *kind, uint64_t seed, bool quiet, struct world_result *result);

/*
 * So many packets of all kinds that are survived come in a storm; then everything has to be as before: what
 * is sent from ten seconds after it on is delivered. False: it is not, or more than one packet went to
 * somebody else for each.
 */
bool world_storm(uint64_t seed, uint64_t packets, enum adversary_profile profile);

#endif
