/* SPDX-License-Identifier: Apache-2.0 */
/* Seals as a receiver that delivers only sealed packets knows them: when each packet is sealed, and which was forged. */
#include "world.h"

enum {
    SEALS_PACKETS = 8192, /* packets that are remembered; a power of two */
    SEALS_FORGED = 200,   /* one in so many was forged when it came first */
    SEALS_ASKED = 50,     /* the seal of one in so many is asked for */
    SEALS_DUE_US = 1000,  /* longest time until a seal comes ... */
    SEALS_ASK_US = 5000,  /* ... and until one that is asked for does */
};

struct sim_seal {
    uint64_t session;
    lli_seq seq;
    lli_ns at; /* when it is sealed */
};

struct sim_seals {
    const struct sim_world *world;
    const struct sim_node *node;
    uint64_t random;
    lli_ns due; /* when the packet that delivery waits for is sealed; LLI_NEVER: it waits for none */
    struct sim_seal seals[SEALS_PACKETS];
};

/* Every packet is sealed some time after it is looked at first; a forged one is dropped, and sealed when it comes again. */
static enum lli_seal_state seals_state(void *arg, uint64_t session, lli_seq seq)
{
    struct sim_seals *seals = arg;
    struct sim_seal *seal = &seals->seals[(seq ^ session) & (SEALS_PACKETS - 1)];
    const lli_ns now = sim_node_now(seals->world, seals->node);

    if (seal->session != session || seal->seq != seq) {
        const bool asked = lli_random_below(&seals->random, SEALS_ASKED) == 0;
        const uint64_t us = lli_random_below(&seals->random, SEALS_DUE_US) + (asked ? SEALS_ASK_US : 0);

        *seal = (struct sim_seal){.session = session, .seq = seq, .at = now + us * SIM_US};
        if (lli_random_below(&seals->random, SEALS_FORGED) == 0)
            return LLI_SEAL_NONE;
    }
    if (now >= seal->at)
        return LLI_SEAL_VERIFIED;
    seals->due = seal->at;
    return LLI_SEAL_WAITING;
}

void sim_seals_start(struct sim_world *world, struct sim_node *node)
{
    struct sim_follower *follower = node->follower;
    uint64_t random = world->scenario.seed ^ ((uint64_t)node->index << 48);

    if (!world->scenario.sealing || follower->config.as_it_arrives || lli_random_below(&random, 3) == 0)
        return;
    follower->seals = sim_memory(sizeof *follower->seals);
    follower->seals->world = world;
    follower->seals->node = node;
    follower->seals->random = random;
    follower->seals->due = LLI_NEVER;
    follower->config.seal_state = seals_state;
    follower->config.seals = follower->seals;
}

lli_ns sim_seals_due(const struct sim_follower *follower)
{
    return follower->seals != NULL ? follower->seals->due : LLI_NEVER;
}

bool sim_seals_come(struct sim_follower *follower, lli_ns now)
{
    if (sim_seals_due(follower) > now)
        return false;
    follower->seals->due = LLI_NEVER;
    return true;
}
