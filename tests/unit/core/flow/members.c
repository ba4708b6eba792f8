/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/flow/members.h"

enum { LIMIT = 16, IDS = 48 };

static uint8_t *members_make(struct lli_members *members, uint32_t limit)
{
    struct lli_arena arena = {.memory = NULL};

    lli_members_init(members, limit, &arena);
    arena_fill(&arena);
    lli_members_init(members, limit, &arena);
    return arena.memory;
}

static lli_ns rtt_of(const struct lli_members *members)
{
    const struct lli_member *furthest;
    const lli_ns rtt = lli_members_rtt(members, &furthest);

    assert_true(furthest == NULL ? rtt == 0 : furthest->rtt == rtt);
    return rtt;
}

static void a_member_stays_in_its_place(void **state)
{
    struct lli_members members;
    uint8_t *memory = members_make(&members, LIMIT);
    uint32_t first = lli_members_add(&members, 100);
    uint32_t second = lli_members_add(&members, 200);

    (void)state;
    assert_int_not_equal(first, second);
    assert_int_equal(lli_members_add(&members, 100), first);
    lli_members_del(&members, 100);
    assert_int_equal(lli_members_add(&members, 200), second);
    assert_int_equal(members.count, 1);
    free(memory);
}

static void a_full_table_takes_a_member_only_after_another_leaves(void **state)
{
    struct lli_members members;
    uint8_t *memory = members_make(&members, LIMIT);

    (void)state;
    for (uint64_t id = 1; id <= LIMIT; id++)
        assert_true(lli_members_add(&members, id) < LIMIT);
    assert_int_equal(lli_members_add(&members, 1000), LLI_MEMBER_NONE);
    assert_int_equal(lli_members_add(&members, 5), 4);
    lli_members_del(&members, 7);
    assert_int_equal(lli_members_add(&members, 1000), 6);
    free(memory);
}

static void removing_an_unknown_member_changes_nothing(void **state)
{
    struct lli_members members;
    uint8_t *memory = members_make(&members, LIMIT);

    (void)state;
    lli_members_del(&members, 1);
    lli_members_del(&members, 0);
    (void)lli_members_add(&members, 1);
    lli_members_del(&members, 2);
    lli_members_del(&members, 0);
    assert_int_equal(members.count, 1);
    free(memory);
}

static void silent_members_expire(void **state)
{
    struct lli_members members;
    uint8_t *memory = members_make(&members, LIMIT);

    (void)state;
    for (uint64_t id = 1; id <= 4; id++)
        members.table[lli_members_add(&members, id)].heard_at = id * 10;
    assert_int_equal(lli_members_expire(&members, 0, 30), 2);
    assert_int_equal(members.count, 2);
    assert_int_equal(lli_members_expire(&members, 0, 30), 0);
    free(memory);
}

static void the_round_trip_is_the_greatest_and_unfinished_members_wait(void **state)
{
    struct lli_members members;
    uint8_t *memory = members_make(&members, LIMIT);

    (void)state;
    assert_int_equal(rtt_of(&members), 0);
    assert_int_equal(lli_members_waiting(&members), 0);
    members.table[lli_members_add(&members, 1)].rtt = 500;
    members.table[lli_members_add(&members, 2)].rtt = 900;
    members.table[lli_members_add(&members, 3)].done = true;
    assert_int_equal(rtt_of(&members), 900);
    assert_int_equal(lli_members_waiting(&members), 2);
    lli_members_del(&members, 2);
    assert_int_equal(rtt_of(&members), 500);
    assert_int_equal(lli_members_waiting(&members), 1);
    free(memory);
}

/*
 * The table is large: places after the last member are not read. The test puts members there that would
 * change the results.
 */
static void places_after_the_last_member_are_not_scanned(void **state)
{
    struct lli_members members;
    uint8_t *memory = members_make(&members, LIMIT);

    (void)state;
    for (uint64_t id = 1; id <= 4; id++)
        members.table[lli_members_add(&members, id)].rtt = id;
    lli_members_del(&members, 2);
    members.table[0].heard_at = members.table[2].heard_at = members.table[3].heard_at = 10;
    for (uint32_t i = 4; i < LIMIT; i++)
        members.table[i] = (struct lli_member){.id = 1000 + i, .rtt = 1000};
    assert_int_equal(rtt_of(&members), 4);
    assert_int_equal(lli_members_waiting(&members), 3);
    assert_int_equal(lli_members_expire(&members, 0, 10), 0);
    members.table[3].heard_at = 9;
    assert_int_equal(lli_members_expire(&members, 0, 10), 1);
    assert_int_equal(members.count, 2);
    assert_int_equal(rtt_of(&members), 3);
    free(memory);
}

static void suspended_members_do_not_count_and_expelled_stay_in_the_table(void **state)
{
    struct lli_members members;
    uint8_t *memory = members_make(&members, LIMIT);
    uint32_t near = lli_members_add(&members, 1), far = lli_members_add(&members, 2);

    (void)state;
    assert_int_equal(lli_members_get(&members, 2), far);
    assert_int_equal(lli_members_get(&members, 3), LLI_MEMBER_NONE);
    members.table[near].rtt = 500;
    members.table[far].rtt = 900;
    members.table[far].standing = LLI_STANDING_SUSPENDED;
    assert_int_equal(rtt_of(&members), 500);
    assert_int_equal(lli_members_waiting(&members), 2);
    members.table[far].standing = LLI_STANDING_EXPELLED;
    assert_int_equal(lli_members_waiting(&members), 1);
    assert_int_equal(lli_members_expire(&members, 0, 1), 1);
    assert_int_equal(lli_members_get(&members, 2), far);
    free(memory);
}

/* Returns how many members expire in enough calls to check all of them. */
static uint32_t expire_all(struct lli_members *members, lli_ns now)
{
    uint32_t expired = 0;

    for (uint32_t checked = 0; checked < members->limit; checked += LLI_MEMBERS_EXPIRE_MAX)
        expired += lli_members_expire(members, 0, now);
    return expired;
}

static void a_call_checks_some_of_many_members_and_the_next_ones_the_others(void **state)
{
    enum { MANY = 3 * LLI_MEMBERS_EXPIRE_MAX };
    struct lli_members members;
    uint8_t *memory = members_make(&members, MANY);

    (void)state;
    for (uint64_t id = 1; id <= MANY; id++)
        members.table[lli_members_add(&members, id)].heard_at = id == MANY ? 2 : 1;
    for (uint32_t left = MANY; left > LLI_MEMBERS_EXPIRE_MAX; left -= LLI_MEMBERS_EXPIRE_MAX) {
        assert_int_equal(members.count, left);
        assert_int_equal(lli_members_expire(&members, 0, 2), LLI_MEMBERS_EXPIRE_MAX);
    }
    assert_int_equal(lli_members_expire(&members, 0, 2), LLI_MEMBERS_EXPIRE_MAX - 1);
    /* The next call begins again with the first. */
    assert_int_equal(lli_members_add(&members, MANY + 1), 0);
    assert_int_equal(lli_members_expire(&members, 0, 2), 1);
    assert_int_equal(members.count, 1);
    free(memory);
}

/* Members that were added since the previous call do not keep it from checking the others. */
static void a_call_checks_all_of_few_members(void **state)
{
    struct lli_members members;
    uint8_t *memory = members_make(&members, LIMIT);

    (void)state;
    members.table[lli_members_add(&members, 1)].heard_at = 1;
    assert_int_equal(lli_members_expire(&members, 0, 1), 0);
    members.table[lli_members_add(&members, 2)].heard_at = 2;
    assert_int_equal(lli_members_expire(&members, 0, 2), 1);
    assert_int_equal(lli_members_get(&members, 2), 1);
    free(memory);
}

/* Returns the longest run of entries in the index, which a search may have to scan. */
static uint32_t longest_run(const struct lli_members *members)
{
    uint32_t longest = 0, run = 0;

    for (uint64_t at = 0; at < 2 * ((uint64_t)members->mask + 1); at++) {
        run = members->index[at & members->mask] == LLI_MEMBER_NONE ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* Receivers choose their identities but do not know the seed. */
static void identities_chosen_to_share_a_place_are_spread_by_the_seed(void **state)
{
    enum { MANY = 2048 };

    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        for (int kind = 0; kind < 3; kind++) {
            struct lli_members members;
            uint8_t *memory = members_make(&members, MANY);

            members.seed = seed * UINT64_C(0x9e3779b97f4a7c15);
            for (uint64_t i = 1; i <= MANY; i++) {
                const uint64_t high = i << 44, low = i << 12;

                members.table[lli_members_add(&members, kind == 0   ? high
                                                        : kind == 1 ? low << 32 | low
                                                                    : i)]
                    .heard_at = i;
            }
            assert_true(longest_run(&members) < 128);
            /* All members but one expire, and that one is still found. */
            assert_int_equal(expire_all(&members, MANY), MANY - 1);
            assert_int_equal(members.count, 1);
            assert_int_equal(longest_run(&members), 1);
            assert_int_equal(lli_members_get(&members, members.table[MANY - 1].id), MANY - 1);
            free(memory);
        }
    }
}

/* -------------------------------------------------------------------- against a plain array of identities */

struct model {
    uint64_t ids[LIMIT]; /* 0: free */
    lli_ns heard[LIMIT];
};

static int model_find(const struct model *model, uint64_t id)
{
    for (int i = 0; i < LIMIT; i++)
        if (model->ids[i] == id)
            return i;
    return -1;
}

static uint32_t model_add(struct model *model, uint64_t id)
{
    int place = model_find(model, id);

    if (place < 0 && (place = model_find(model, 0)) < 0)
        return LLI_MEMBER_NONE;
    model->ids[place] = id;
    return (uint32_t)place;
}

static uint32_t model_expire(struct model *model, lli_ns before)
{
    uint32_t expired = 0;

    for (int i = 0; i < LIMIT; i++) {
        if (model->ids[i] != 0 && model->heard[i] < before) {
            model->ids[i] = 0;
            expired++;
        }
    }
    return expired;
}

static void model_compare(const struct model *model, const struct lli_members *members)
{
    uint32_t count = 0;

    for (int i = 0; i < LIMIT; i++) {
        assert_int_equal(members->table[i].id, model->ids[i]);
        count += model->ids[i] != 0;
    }
    assert_int_equal(members->count, count);
}

/* Returns the position of an identity in an empty index. */
static uint32_t home_of(uint64_t id)
{
    struct lli_members members;
    uint8_t *memory = members_make(&members, LIMIT);
    uint32_t at = 0;

    (void)lli_members_add(&members, id);
    while (members.index[at] == LLI_MEMBER_NONE)
        at++;
    free(memory);
    return at;
}

/* Identities whose positions in the index collide, mainly at its end, where probing wraps. */
static void crowded_ids(uint64_t ids[IDS])
{
    uint64_t id = 0;

    for (uint32_t i = 0; i < IDS; i++) {
        const uint32_t wanted = i % 3 == 0 ? 0x1e : i % 3 == 1 ? 0x1f : i % 32;

        do {
            id++;
        } while (home_of(id) != wanted);
        ids[i] = id;
    }
}

static void random_operations_agree_with_a_plain_array(void **state)
{
    uint64_t ids[IDS];

    (void)state;
    crowded_ids(ids);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct model model = {.ids = {0}};
        struct lli_members members;
        uint8_t *memory = members_make(&members, LIMIT);
        uint64_t random = seed;

        for (lli_ns now = 1; now <= 5000; now++) {
            uint64_t id = ids[below(&random, IDS)];

            if (chance(&random, 60)) {
                uint32_t place = lli_members_add(&members, id);

                assert_int_equal(place, model_add(&model, id));
                if (place != LLI_MEMBER_NONE)
                    members.table[place].heard_at = model.heard[place] = now;
            } else if (chance(&random, 95)) {
                int place = model_find(&model, id);

                lli_members_del(&members, id);
                if (place >= 0)
                    model.ids[place] = 0;
            } else {
                lli_ns before = now - lli_min(now, below(&random, 30));

                assert_int_equal(lli_members_expire(&members, 0, before), model_expire(&model, before));
            }
            model_compare(&model, &members);
        }
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_stays_in_its_place),
        cmocka_unit_test(a_full_table_takes_a_member_only_after_another_leaves),
        cmocka_unit_test(removing_an_unknown_member_changes_nothing),
        cmocka_unit_test(silent_members_expire),
        cmocka_unit_test(the_round_trip_is_the_greatest_and_unfinished_members_wait),
        cmocka_unit_test(places_after_the_last_member_are_not_scanned),
        cmocka_unit_test(suspended_members_do_not_count_and_expelled_stay_in_the_table),
        cmocka_unit_test(a_call_checks_all_of_few_members),
        cmocka_unit_test(a_call_checks_some_of_many_members_and_the_next_ones_the_others),
        cmocka_unit_test(identities_chosen_to_share_a_place_are_spread_by_the_seed),
        cmocka_unit_test(random_operations_agree_with_a_plain_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
