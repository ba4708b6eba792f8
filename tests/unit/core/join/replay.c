/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/join/replay.h"

#define START (((lli_seq)1 << 32) - 10)

static struct lli_replay replay;
static uint8_t *memory;

static int up(void **state)
{
    struct lli_arena arena = {.memory = NULL};

    (void)state;
    lli_replay_init(&replay, 1 << 20, &arena, 0);
    arena_fill(&arena);
    memory = arena.memory;
    lli_replay_init(&replay, 1 << 20, &arena, 0);
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

static bool fetch(uint64_t receiver, lli_seq first, uint32_t count, lli_seq sent)
{
    const struct lli_wire_join join = {.address = {.size = 1, .bytes = {(uint8_t)receiver}},
                                       .count = 1,
                                       .ranges = {{(uint32_t)first, count}}};

    return lli_replay_fetch(&replay, receiver, &join, sent);
}

static void expect_next(uint8_t receiver, lli_seq seq, lli_seq trail)
{
    const struct lli_wire_address *address = NULL;
    lli_seq found = 0;

    assert_true(lli_replay_peek(&replay, trail, &found, &address));
    assert_int_equal(found, seq);
    assert_int_equal(address->bytes[0], receiver);
    lli_replay_pop(&replay);
}

static void expect_none(lli_seq trail)
{
    const struct lli_wire_address *address;
    lli_seq seq;

    assert_false(lli_replay_peek(&replay, trail, &seq, &address));
}

static void receivers_get_replay_in_turns(void **state)
{
    (void)state;
    assert_true(fetch(1, START, 3, START + 100));
    assert_true(fetch(2, START + 50, 2, START + 100));
    expect_next(1, START, START);
    expect_next(2, START + 50, START);
    expect_next(1, START + 1, START);
    expect_next(2, START + 51, START);
    expect_next(1, START + 2, START);
    expect_none(START);
    assert_int_equal(replay.count, 0);
}

static void a_newer_fetch_replaces_the_previous_fetch(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_true(fetch(1, START, 50, START + 100));
    assert_true(fetch(1, START + 7, 2, START + 100));
    assert_int_equal(replay.count, 1);
    expect_next(1, START + 7, START);
    expect_next(1, START + 8, START);
    expect_none(START);
}

static void unsent_packets_are_not_replayed(void **state)
{
    (void)state;
    assert_true(fetch(1, START + 98, UINT32_MAX, START + 100));
    assert_true(fetch(2, START + 100, 5, START + 100));
    assert_int_equal(replay.count, 1);
    expect_next(1, START + 98, START);
    expect_next(1, START + 99, START);
    expect_none(START);
}

static void forgotten_packets_are_reported_once_and_the_rest_is_sent(void **state)
{
    struct lli_replay_place place;
    uint64_t receiver = 0;

    (void)state;
    assert_true(fetch(1, START, 4, START + 100));
    assert_true(fetch(2, START, 2, START + 100));
    expect_next(1, START + 2, START + 2);
    expect_next(1, START + 3, START + 2);
    expect_none(START + 2);
    for (uint64_t told = 0; told < 2; told++) {
        assert_true(lli_replay_answer(&replay, &receiver, &place));
        assert_true(place.gone && !place.requested);
    }
    assert_false(lli_replay_answer(&replay, &receiver, &place));
    assert_int_equal(replay.count, 0);
}

static void an_answer_and_a_loss_are_reported_one_after_the_other(void **state)
{
    const struct lli_wire_join ask = {.from = 3, .value = 9, .address = {.size = 1, .bytes = {1}}};
    struct lli_replay_place place;
    uint64_t receiver = 0;

    (void)state;
    assert_true(fetch(1, START, 1, START + 100));
    expect_none(START + 2);
    assert_true(lli_replay_join(&replay, 1, &ask));
    assert_true(lli_replay_join(&replay, 1, &ask));
    assert_true(lli_replay_answer(&replay, &receiver, &place));
    assert_true(place.requested && !place.gone && place.from == 3 && place.value == 9);
    assert_true(lli_replay_answer(&replay, &receiver, &place));
    assert_true(place.gone && !place.requested);
    assert_int_equal(receiver, 1);
    assert_int_equal(replay.count, 0);
}

static void fetches_beyond_the_places_are_refused_until_one_is_free(void **state)
{
    (void)state;
    for (uint64_t receiver = 1; receiver <= LLI_REPLAY_PLACES; receiver++)
        assert_true(fetch(receiver, START, 1, START + 100));
    assert_false(fetch(LLI_REPLAY_PLACES + 1, START, 1, START + 100));
    /* A receiver with an entry keeps using it. */
    assert_true(fetch(5, START + 1, 1, START + 100));
    expect_next(1, START, START);
    assert_true(fetch(LLI_REPLAY_PLACES + 1, START, 1, START + 100));
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(receivers_get_replay_in_turns),
        T(a_newer_fetch_replaces_the_previous_fetch),
        T(unsent_packets_are_not_replayed),
        T(forgotten_packets_are_reported_once_and_the_rest_is_sent),
        T(an_answer_and_a_loss_are_reported_one_after_the_other),
        T(fetches_beyond_the_places_are_refused_until_one_is_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
