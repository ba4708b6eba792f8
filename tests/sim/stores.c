/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers and stores: a transmitter with a short history, a receiver that joins late, is deaf for a while,
 * or outlives its transmitter, and stores that lose packets, lag, crash and return. Every message after the
 * one that the receiver began with is delivered once, in order, or named as lost; and none is lost that a
 * store had which the receiver knew, and which lived.
 */
#include "../unit/unit.h"

#include <stdio.h>

static uint64_t played;

/* The world checks by the macros of the unit tests; here a violation names the seed. */
static void require(bool holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: seed %llu: %s; repeat it by --first %llu --seeds 1\n", file, line,
            (unsigned long long)played, what, (unsigned long long)played);
    exit(1);
}

#undef assert_true
#undef assert_int_equal
#define assert_true(condition) require(condition, #condition, __FILE__, __LINE__)
#define assert_int_equal(a, b) require((a) == (b), #a " == " #b, __FILE__, __LINE__)

#include "../unit/store_world.h"

static uint32_t draw(uint32_t limit)
{
    return (uint32_t)lli_random_below(&w.random, limit);
}

/* True if the receiver knows the first store, which has everything; answered: by an answer of it. */
static bool knows_the_first(bool answered)
{
    for (int i = 0; i < LLI_RX_STORES; i++)
        if (w.r.rx.store.known[i].address.size > 0 && w.r.rx.store.known[i].address.bytes[0] == '0')
            return !answered || w.r.rx.store.known[i].token != 0;
    return false;
}

static void add_stores(bool complete)
{
    const uint32_t count = draw(4) + complete;

    for (uint32_t i = 0; i < count; i++) {
        struct world_store *store = world_add_store();

        store->lag = draw(3) == 0 ? draw(20) * MS : 0;
        if (i == 0 && complete)
            continue;
        store->loss = draw(2) * draw(50);
        store->dies_after = draw(3) == 0 ? draw(500) : UINT64_MAX;
    }
}

/* Any store but the first may crash, and return with what it had; what is sent meanwhile it lacks. */
static void crash_or_return(bool complete)
{
    const uint32_t i = w.stores_count == 0 ? 0 : draw(w.stores_count);

    if (w.stores_count > 0 && !(i == 0 && complete))
        w.stores[i].alive = !w.stores[i].alive && w.stores[i].sent < w.stores[i].dies_after;
}

/* Start of the receiver; message: a lower bound of the first one that it wants. */
static void draw_join(uint32_t before)
{
    static const enum llm_join_mode modes[] = {LLM_JOIN_OLDEST, LLM_JOIN_NUMBER, LLM_JOIN_MESSAGES};

    w.join.mode = modes[draw(3)];
    w.join.value = w.join.mode == LLM_JOIN_OLDEST ? 0 : 1 + draw(before);
}

static uint64_t wanted(void)
{
    return w.join.mode == LLM_JOIN_OLDEST   ? 0
           : w.join.mode == LLM_JOIN_NUMBER ? w.join.value
                                            : w.messages - w.join.value;
}

static void run(void)
{
    const bool complete = draw(2) == 0;
    uint32_t before, turns;
    uint64_t first;
    bool known;

    w.loss = draw(3) == 0 ? 0 : draw(80);
    /* Packets that the transmitter no longer has are asked of stores for so long. */
    w.r.config.nak_giveup = 1000 * MS;
    /* OFFERs to the group, of which some are lost, tell of the last packets of a transmitter that died. */
    w.r.config.timeout = 5000 * MS;
    add_stores(complete);
    before = 1 + draw(600);
    draw_join(before);
    turns = 1 + draw(4);
    world_before(before);
    first = wanted();
    while (w.news == 0)
        world_step();
    /* All SEEKs, or the answers to them, may be lost. */
    known = complete && w.r.counters.joins_from_stores > 0 && knows_the_first(true);
    world_catch_up(20000 * MS);
    assert_true(!known || (w.first == first && w.lost == 0));
    for (uint32_t i = 0; i < turns; i++) {
        const uint64_t lost = w.lost;

        world_run(draw(1200) * MS);
        if (draw(2) == 0)
            crash_or_return(complete);
        known = knows_the_first(false);
        w.deaf = draw(2) == 0;
        world_send(1 + draw(500), 1 + draw(3));
        w.deaf = false;
        world_send(1 + draw(20), 1 + draw(20));
        world_catch_up(20000 * MS);
        assert_true(w.lost == lost || !(complete && known));
    }
    /* The transmitter dies, perhaps with packets that the receiver did not hear. */
    first = w.lost;
    world_run(draw(1200) * MS);
    known = knows_the_first(false);
    w.deaf = draw(2) == 0;
    world_send(draw(100), 1);
    w.dead = true;
    w.deaf = false;
    world_run(8000 * MS);
    assert_int_equal(w.ends, 1);
    assert_true(w.lost == first || !(complete && known));
    assert_true(w.expected <= w.messages);
    /* A store that lags may end with the transmitter. */
    if (complete && known && w.stores[0].lag == 0)
        assert_true(w.expected == w.messages);
}

int main(int argc, char **argv)
{
    uint64_t seeds = 200, begin = 1, recalled = 0, lost = 0;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seeds") == 0)
            seeds = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--first") == 0)
            begin = strtoull(argv[i + 1], NULL, 10);
    }
    for (played = begin; played < begin + seeds; played++) {
        world_begin(played);
        run();
        recalled += w.r.counters.packets_from_stores;
        lost += w.lost;
        world_end();
    }
    printf("%llu seeds from %llu passed, %llu packets of stores, %llu messages lost\n",
           (unsigned long long)seeds, (unsigned long long)begin, (unsigned long long)recalled,
           (unsigned long long)lost);
    return 0;
}
