/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/quorum.h"

#include <string.h>

void lli_quorum_init(struct lli_quorum *quorum, uint32_t limit, struct lli_arena *arena)
{
    *quorum = (struct lli_quorum){.limit = limit};
    quorum->values = lli_arena_take(arena, limit * sizeof *quorum->values, 64);
    for (int i = 0; i < LLI_QUORUM_HEAPS; i++)
        quorum->heaps[i] = lli_arena_take(arena, limit * sizeof *quorum->heaps[i], 64);
    quorum->at = lli_arena_take(arena, limit * sizeof *quorum->at, 64);
    quorum->in = lli_arena_take(arena, limit * sizeof *quorum->in, 64);
}

void lli_quorum_clear(struct lli_quorum *quorum)
{
    quorum->counts[LLI_QUORUM_REACH] = quorum->counts[LLI_QUORUM_OTHERS] = 0;
    memset(quorum->values, 0, quorum->limit * sizeof *quorum->values);
}

/* True if the value at one place belongs above that at another in a heap. */
static bool quorum_is_above(struct lli_quorum *quorum, int heap, uint32_t place, uint32_t other)
{
    quorum->steps++;
    return heap == LLI_QUORUM_REACH ? quorum->values[place] < quorum->values[other]
                                    : quorum->values[place] > quorum->values[other];
}

static void quorum_put(struct lli_quorum *quorum, int heap, uint32_t at, uint32_t place)
{
    quorum->heaps[heap][at] = place;
    quorum->at[place] = at;
    quorum->in[place] = (uint8_t)heap;
}

static uint32_t quorum_rise(struct lli_quorum *quorum, int heap, uint32_t at, uint32_t place)
{
    while (at > 0 && quorum_is_above(quorum, heap, place, quorum->heaps[heap][(at - 1) / 2])) {
        quorum_put(quorum, heap, at, quorum->heaps[heap][(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    return at;
}

static uint32_t quorum_sink(struct lli_quorum *quorum, int heap, uint32_t at, uint32_t place)
{
    const uint32_t *places = quorum->heaps[heap];
    const uint32_t count = quorum->counts[heap];

    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && quorum_is_above(quorum, heap, places[child + 1], places[child]))
            child++;
        if (!quorum_is_above(quorum, heap, places[child], place))
            break;
        quorum_put(quorum, heap, at, places[child]);
        at = child;
    }
    return at;
}

/* Moves a place, now at this position of a heap, to where it belongs. */
static void quorum_settle(struct lli_quorum *quorum, int heap, uint32_t at, uint32_t place)
{
    at = quorum_rise(quorum, heap, at, place);
    quorum_put(quorum, heap, quorum_sink(quorum, heap, at, place), place);
}

static void quorum_add(struct lli_quorum *quorum, int heap, uint32_t place)
{
    quorum_settle(quorum, heap, quorum->counts[heap]++, place);
}

static void quorum_del(struct lli_quorum *quorum, uint32_t place)
{
    const int heap = quorum->in[place];
    const uint32_t last = quorum->heaps[heap][--quorum->counts[heap]];

    if (last != place)
        quorum_settle(quorum, heap, quorum->at[place], last);
}

/* Moves the top of a heap to the other heap. */
static void quorum_move(struct lli_quorum *quorum, int from)
{
    const uint32_t place = quorum->heaps[from][0];

    quorum_del(quorum, place);
    quorum_add(quorum, from == LLI_QUORUM_REACH ? LLI_QUORUM_OTHERS : LLI_QUORUM_REACH, place);
}

void lli_quorum_set(struct lli_quorum *quorum, uint32_t place, uint64_t value)
{
    const uint64_t before = quorum->values[place];

    if (value == before)
        return;
    if (value == 0)
        quorum_del(quorum, place);
    quorum->values[place] = value;
    if (value != 0 && before != 0)
        quorum_settle(quorum, quorum->in[place], quorum->at[place], place);
    else if (value != 0)
        quorum_add(quorum, LLI_QUORUM_OTHERS, place);
}

/* True if one of OTHERS is greater than one of REACH. */
static bool quorum_is_crossed(struct lli_quorum *quorum)
{
    return quorum->counts[LLI_QUORUM_REACH] > 0 && quorum->counts[LLI_QUORUM_OTHERS] > 0 &&
           quorum_is_above(quorum, LLI_QUORUM_OTHERS, quorum->heaps[LLI_QUORUM_OTHERS][0],
                           quorum->heaps[LLI_QUORUM_REACH][0]);
}

void lli_quorum_rank(struct lli_quorum *quorum, uint32_t reached_by)
{
    assert(reached_by <= lli_quorum_count(quorum));
    while (quorum->counts[LLI_QUORUM_REACH] < reached_by)
        quorum_move(quorum, LLI_QUORUM_OTHERS);
    while (quorum->counts[LLI_QUORUM_REACH] > reached_by)
        quorum_move(quorum, LLI_QUORUM_REACH);
    while (quorum_is_crossed(quorum)) {
        quorum_move(quorum, LLI_QUORUM_OTHERS);
        quorum_move(quorum, LLI_QUORUM_REACH);
    }
}
