/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of forged packets to a transmitter and its receivers, in virtual time. */
#ifndef TESTS_ADVERSARY_WORLD_H
#define TESTS_ADVERSARY_WORLD_H

#include "adversary.h"

/* Absolute costs of a world. */
struct world_result {
    struct adversary_cost cost;
    uint64_t messages;     /* messages sent, for all receivers */
    uint64_t forged_bytes; /* bytes of the forged packets, for each receiver of those to the group */
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

/* ------------------------------------------------------------------------------------------------- keyed */

enum { WORLD_COUNTERS_MAX = 1024, KEYED_TOGETHER = 4 /* packets between two turns of the world */ };

/* A world in which everybody but the adversary has the keys of a file. */
struct world_keyed {
    const char *path;
    lli_ns distance; /* between two messages */
    /* Gets every packet of the members, and puts what it was before it was protected in its place. */
    void (*spy)(uint32_t from, uint32_t to, const uint8_t **bytes, uint32_t *size);
    /* Sends one packet, by cable_inject(). */
    void (*forge)(struct adversary *adversary);
};

struct world_counter {
    const char *name;
    uint64_t value;
};

struct world_traffic {
    struct adversary_cost cost;
    uint64_t messages;
    struct world_counter counters[WORLD_COUNTERS_MAX]; /* of all objects of all members */
    int counters_count;
};

/* Runs a world with this many packets of the adversary, or as long without any if forge sends none. */
void world_run_keyed(uint64_t seed, enum adversary_profile profile, const struct world_keyed *keyed,
                     uint64_t packets, struct world_traffic *traffic);

#endif
