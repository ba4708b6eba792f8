/* SPDX-License-Identifier: Apache-2.0 */
#include "core/conn/close_retry.h"

/*
 * A word is repeated after so long, then at distances that double, but not before two round trips. These may be many times those
 * of a network that is idle, as they were measured when queues were full: so they are not doubled.
 */
#define FAREWELL_FIRST ((lli_ns)1000000)

struct lli_farewell *lli_farewells_place(struct lli_farewells *farewells)
{
    if (farewells->count == LLI_FAREWELLS)
        return NULL;
    for (uint32_t i = 0; i < LLI_FAREWELLS; i++)
        if (farewells->places[i].close.id == 0) {
            farewells->count++;
            return &farewells->places[i];
        }
    return NULL;
}

void lli_farewells_free(struct lli_farewells *farewells, struct lli_farewell *farewell)
{
    farewell->close.id = 0;
    farewells->count--;
}

void lli_farewell_begin(struct lli_farewell *farewell, const struct lli_wire_close *close, const struct lli_wire_address *to,
                        lli_ns rtt, lli_ns until, lli_ns now)
{
    *farewell = (struct lli_farewell){.close = *close, .to = *to, .words = LLI_FAREWELL_WORDS, .step = FAREWELL_FIRST,
                                      .step_min = 2 * rtt, .until = until};
    lli_farewell_said(farewell, now);
}

void lli_farewell_once(struct lli_farewell *farewell, const struct lli_wire_close *close, const struct lli_wire_address *to,
                       lli_ns now)
{
    *farewell = (struct lli_farewell){.close = *close, .to = *to, .words = 1, .at = now, .until = now + LLI_FAREWELL_ANSWER};
}

void lli_farewell_said(struct lli_farewell *farewell, lli_ns now)
{
    farewell->words--;
    farewell->at = now + lli_max(farewell->step, farewell->step_min);
    farewell->step *= 2;
}

bool lli_farewells_heard(struct lli_farewells *farewells, uint64_t id)
{
    bool waited = false;

    for (uint32_t i = 0; i < LLI_FAREWELLS && farewells->count > 0; i++) {
        struct lli_farewell *farewell = &farewells->places[i];

        if (farewell->close.id != id || !lli_farewell_wants_answer(&farewell->close))
            continue;
        farewell->answered = true;
        farewell->words = 0;
        farewell->at = 0;
        waited = true;
    }
    return waited;
}

bool lli_farewell_is_delivered(const struct lli_tx *tx, bool left)
{
    if (tx->members.count > 0 && !left)
        return tx->ended && lli_members_waiting(&tx->members) == 0;
    return tx->taken == tx->history.next && !lli_pack_pending(&tx->pack);
}

void lli_farewell_left(struct lli_tx *tx, lli_seq next)
{
    /* There is one receiver at most. */
    lli_tx_leave(tx, tx->members.table[0].id, next);
}
