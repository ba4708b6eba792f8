/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stream/stream.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { LIMIT = 8 };

static struct lli_streams streams;
static struct lli_arena arena;

static int up(void **state)
{
    (void)state;
    arena = (struct lli_arena){.memory = NULL};
    lli_streams_init(&streams, LIMIT, &arena);
    arena_fill(&arena);
    lli_streams_init(&streams, LIMIT, &arena);
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(arena.memory);
    return 0;
}

static struct lli_stream_claim claim(uint64_t stream, uint64_t session, uint64_t base, uint32_t term)
{
    return (struct lli_stream_claim){.stream = stream, .session = session, .base = base, .term = term};
}

static void expect_seam(const struct lli_stream_claim *c, uint64_t begin, enum lli_stream_seam_kind kind,
                        uint64_t first, uint64_t last)
{
    const struct lli_stream_seam seam = lli_streams_begin(&streams, c, begin);

    assert_int_equal(seam.kind, kind);
    assert_int_equal(seam.first, first);
    assert_int_equal(seam.last, last);
}

static void names_have_identities(void **state)
{
    (void)state;
    assert_int_not_equal(lli_stream_id("orders"), 0);
    assert_int_equal(lli_stream_id("orders"), lli_stream_id("orders"));
    assert_int_not_equal(lli_stream_id("orders"), lli_stream_id("order"));
}

static void numbers_go_on_with_the_next_session(void **state)
{
    const struct lli_stream_claim first = claim(1, 10, 0, 1), second = claim(1, 11, 100, 2),
                                  third = claim(1, 12, 150, 3), fourth = claim(1, 13, 120, 4);

    (void)state;
    assert_int_equal(lli_streams_ask(&streams, &first, 1, false), LLI_STREAM_FOLLOW);
    lli_streams_follow(&streams, &first);
    assert_int_equal(lli_streams_session(&streams, 1), 10);
    expect_seam(&first, 7, LLI_STREAM_FIRST, 0, 0);
    lli_streams_reach(&streams, &first, 100);
    lli_streams_leave(&streams, &first);
    assert_int_equal(lli_streams_session(&streams, 1), 0);
    assert_int_equal(lli_streams_ask(&streams, &second, 1, false), LLI_STREAM_FOLLOW);
    lli_streams_follow(&streams, &second);
    expect_seam(&second, 0, LLI_STREAM_SEAMLESS, 0, 0);
    lli_streams_reach(&streams, &second, 40);
    lli_streams_leave(&streams, &second);
    lli_streams_follow(&streams, &third);
    expect_seam(&third, 5, LLI_STREAM_MISSING, 140, 154);
    lli_streams_reach(&streams, &third, 10);
    lli_streams_leave(&streams, &third);
    lli_streams_follow(&streams, &fourth);
    expect_seam(&fourth, 0, LLI_STREAM_AGAIN, 120, 159);
    /* It ends before it has repeated all of them: the next one goes on where it ended. */
    lli_streams_reach(&streams, &fourth, 3);
    lli_streams_leave(&streams, &fourth);
    lli_streams_follow(&streams, &first);
    lli_streams_leave(&streams, &fourth);
    assert_int_equal(lli_streams_session(&streams, 1), 10);
}

static void a_session_that_resumes_is_seamless(void **state)
{
    const struct lli_stream_claim c = claim(1, 10, 50, 1);

    (void)state;
    lli_streams_follow(&streams, &c);
    expect_seam(&c, 0, LLI_STREAM_FIRST, 0, 0);
    lli_streams_reach(&streams, &c, 8);
    lli_streams_leave(&streams, &c);
    assert_int_equal(lli_streams_ask(&streams, &c, 1, false), LLI_STREAM_FOLLOW);
    lli_streams_follow(&streams, &c);
    expect_seam(&c, 8, LLI_STREAM_SEAMLESS, 0, 0);
}

static void the_highest_term_is_followed(void **state)
{
    const struct lli_stream_claim current = claim(1, 10, 0, 5), lower = claim(1, 11, 0, 4),
                                  equal = claim(1, 12, 0, 5), higher = claim(1, 13, 0, 6),
                                  other = claim(2, 14, 0, 1);

    (void)state;
    lli_streams_follow(&streams, &current);
    assert_int_equal(lli_streams_ask(&streams, &current, 1, true), LLI_STREAM_FOLLOW);
    assert_int_equal(lli_streams_ask(&streams, &lower, 9, true), LLI_STREAM_SUPERSEDED);
    assert_int_equal(lli_streams_ask(&streams, &equal, 9, true), LLI_STREAM_TAKEN);
    assert_int_equal(lli_streams_ask(&streams, &equal, 1, false), LLI_STREAM_FOLLOW);
    assert_int_equal(lli_streams_ask(&streams, &higher, 1, true), LLI_STREAM_WAIT);
    assert_int_equal(lli_streams_ask(&streams, &higher, 2, true), LLI_STREAM_FOLLOW);
    assert_int_equal(lli_streams_ask(&streams, &higher, 1, false), LLI_STREAM_FOLLOW);
    assert_int_equal(lli_streams_ask(&streams, &other, 1, true), LLI_STREAM_FOLLOW);
    lli_streams_leave(&streams, &current);
    assert_int_equal(lli_streams_ask(&streams, &lower, 9, false), LLI_STREAM_SUPERSEDED);
    assert_int_equal(lli_streams_ask(&streams, &equal, 1, true), LLI_STREAM_FOLLOW);
}

static void the_stream_left_first_is_forgotten_first(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= LIMIT; i++) {
        const struct lli_stream_claim c = claim(i, i, 0, 9);

        lli_streams_follow(&streams, &c);
        (void)lli_streams_begin(&streams, &c, 0);
    }
    /* None that is followed. */
    lli_streams_follow(&streams, &(struct lli_stream_claim){.stream = 100, .session = 100});
    assert_int_equal(lli_streams_session(&streams, 100), 0);
    lli_streams_leave(&streams, &(struct lli_stream_claim){.stream = 3, .session = 3});
    lli_streams_leave(&streams, &(struct lli_stream_claim){.stream = 2, .session = 2});
    lli_streams_follow(&streams, &(struct lli_stream_claim){.stream = 100, .session = 100});
    assert_int_equal(lli_streams_session(&streams, 100), 100);
    assert_int_equal(
        lli_streams_ask(&streams, &(struct lli_stream_claim){.stream = 3, .session = 33}, 1, true),
        LLI_STREAM_FOLLOW);
    assert_int_equal(
        lli_streams_ask(&streams, &(struct lli_stream_claim){.stream = 2, .session = 33}, 1, true),
        LLI_STREAM_SUPERSEDED);
}

/* ---------------------------------------------------------------------------------------- against a model */

enum { NUMBERS = 4096, LIVES = 40 };

/*
 * Lives of a transmitter, and a receiver that gets a run of each, which it has to be able to put together: each
 * number from the first on came, or was reported missing, and none came twice unless that was announced.
 */
static void numbers_of_random_lives_are_each_accounted_for_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        uint8_t seen[NUMBERS] = {0};
        uint64_t random = seed, sent = 0, start = UINT64_MAX, end = 0;

        up(NULL);
        for (uint32_t life = 1; life <= LIVES; life++) {
            const uint64_t lost = chance(&random, 30) ? below(&random, 20) : 0;
            const uint64_t base =
                (sent > lost ? sent - lost : 0) + (chance(&random, 20) ? below(&random, 20) : 0);
            const struct lli_stream_claim c = claim(1, life, base, life);
            const uint64_t count = below(&random, 50), first = chance(&random, 30) ? below(&random, 20) : 0;
            uint64_t until = first + count;
            struct lli_stream_seam seam;

            sent = base + until + (chance(&random, 30) ? below(&random, 10) : 0);
            if (chance(&random, 20))
                continue;
            assert_int_equal(lli_streams_ask(&streams, &c, 1, false), LLI_STREAM_FOLLOW);
            lli_streams_follow(&streams, &c);
            seam = lli_streams_begin(&streams, &c, first);
            if (seam.kind == LLI_STREAM_MISSING)
                for (uint64_t i = seam.first; i <= seam.last; i++)
                    assert_int_equal(seen[i]++, 0);
            if (seam.kind == LLI_STREAM_AGAIN) {
                assert_int_equal(seam.last + 1, end);
                for (uint64_t i = seam.first; i <= seam.last; i++)
                    seen[i] = 0;
            }
            start = start < base + first ? start : base + first;
            for (uint64_t i = base + first; i < base + until; i++)
                assert_int_equal(seen[i]++, 0);
            end = base + until;
            for (uint64_t i = start; i < end; i++)
                if (seen[i] != 1)
                    fail_msg("seed %llu life %u: number %llu of %llu to %llu is not accounted for",
                             (unsigned long long)seed, life, (unsigned long long)i, (unsigned long long)start,
                             (unsigned long long)end);
            lli_streams_reach(&streams, &c, until);
            lli_streams_leave(&streams, &c);
        }
        down(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_identities),
        cmocka_unit_test_setup_teardown(numbers_go_on_with_the_next_session, up, down),
        cmocka_unit_test_setup_teardown(a_session_that_resumes_is_seamless, up, down),
        cmocka_unit_test_setup_teardown(the_highest_term_is_followed, up, down),
        cmocka_unit_test_setup_teardown(the_stream_left_first_is_forgotten_first, up, down),
        cmocka_unit_test(numbers_of_random_lives_are_each_accounted_for_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
