/* SPDX-License-Identifier: Apache-2.0 */
/* Policy with so many receivers that each evaluation covers a slice of them. */
#include "unit.h"

#include "core/flow/members.h"
#include "core/slow/slow.h"

#define MS ((lli_ns)1000000)

enum { MANY = 10000, START = 1000 };

static struct lli_members members;
static struct lli_slow slow;
static uint8_t *memories[2];
static lli_seq sent;
static lli_ns now;

static void place(struct lli_arena arenas[2])
{
    static const struct lli_slow_policy policy = {
        .most = LLI_STANDING_SUSPENDED,
        .limits = {[LLM_THRESHOLD_NAKS] = 1000, [LLM_THRESHOLD_LAG_PACKETS] = 5000},
        .warn_percent = 50,
        .unicast_percent = 75,
        .patience = 100 * MS,
        .status = 100 * MS,
    };

    lli_members_init(&members, MANY, &arenas[0]);
    lli_slow_init(&slow, &policy, MANY, &arenas[1], START, now);
}

static int up(void **state)
{
    struct lli_arena arenas[2] = {{.memory = NULL}, {.memory = NULL}};

    (void)state;
    now = 1000 * MS;
    sent = START;
    place(arenas);
    for (int i = 0; i < 2; i++) {
        arena_fill(&arenas[i]);
        memories[i] = arenas[i].memory;
    }
    place(arenas);
    return 0;
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        free(memories[i]);
    return 0;
}

static void report(uint64_t id, uint64_t behind)
{
    const uint32_t index = lli_members_add(&members, id);

    members.table[index].next = sent - behind;
    lli_slow_report(&slow, &members, index, sent, now);
}

/* Sends 100 packets in 10 ms, then evaluates. */
static void step(void)
{
    sent += 100;
    now += 10 * MS;
    (void)lli_slow_all(&slow, &members, sent, now);
}

static uint32_t count_suspended(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < members.end; i++)
        count += members.table[i].standing == LLI_STANDING_SUSPENDED;
    return count;
}

static uint64_t looked_at(uint32_t receivers)
{
    uint64_t before;

    for (uint64_t id = 1; id <= receivers; id++)
        report(id, 1);
    for (int i = 0; i < 50; i++)
        step();
    before = slow.scan.looked_at;
    for (int i = 0; i < 100; i++)
        step();
    return (slow.scan.looked_at - before) / 100;
}

static void an_evaluation_scans_a_bounded_number_of_receivers(void **state)
{
    (void)state;
    assert_int_equal(looked_at(100), 100);
    assert_in_range(looked_at(1000), 200, LLI_SLOW_SLICE);
    assert_in_range(looked_at(10000), 200, LLI_SLOW_SLICE);
}

/* The receivers joined together and occupy adjacent places. */
static void many_receivers_are_evaluated_and_reported_in_half_a_second(void **state)
{
    struct lli_wire_notice notice;
    struct llm_event event;
    uint32_t index, told = 0, notices = 0;

    (void)state;
    sent += 20000;
    for (uint64_t id = 1; id <= MANY; id++)
        report(id, id > 500 && id <= 800 ? 6000 : 1);
    for (int i = 0; i < 50; i++) {
        step();
        while (lli_slow_notice(&slow, &members, &notice, &index)) {
            assert_int_equal(notice.standing, LLI_STANDING_SUSPENDED);
            assert_int_equal(notice.receiver, members.table[index].id);
            assert_in_range(notice.receiver, 501, 800);
            notices++;
        }
        while (lli_slow_event(&slow, &event)) {
            assert_int_equal(event.kind, LLM_EVENT_SUSPENDED);
            assert_in_range(event.verdict->receiver, 501, 800);
            told++;
        }
    }
    assert_int_equal(count_suspended(), 300);
    assert_int_equal(told, 300);
    assert_true(notices >= 300);
    assert_int_equal(slow.group.receivers, MANY);
    assert_int_equal(slow.group.suffering, 300);
}

static void none_of_many_receivers_is_suspended_if_most_are_slow(void **state)
{
    struct llm_event event;
    uint32_t groups = 0;

    (void)state;
    sent += 20000;
    for (uint64_t id = 1; id <= MANY; id++)
        report(id, id % 5 == 0 ? 1 : 6000);
    for (int i = 0; i < 100; i++) {
        step();
        while (lli_slow_event(&slow, &event))
            groups += event.verdict->threshold == LLM_THRESHOLD_GROUP;
    }
    assert_int_equal(count_suspended(), 0);
    assert_int_equal(groups, 1);
    assert_int_equal(slow.group.suffering, MANY - MANY / 5);
}

/* Old NAKs of a receiver are forgotten after a second although it is evaluated seldom. */
static void figures_of_many_receivers_cover_the_last_second(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= MANY; id++)
        report(id, 1);
    for (int i = 0; i < 900; i++)
        (void)lli_slow_nak(&slow, &members, 77, 1, now);
    for (int i = 0; i < 80; i++)
        step();
    assert_int_equal(members.table[77].standing, LLI_STANDING_UNICAST);
    for (int i = 0; i < 30; i++)
        step();
    for (int i = 0; i < 200; i++)
        (void)lli_slow_nak(&slow, &members, 77, 1, now);
    for (int i = 0; i < 40; i++)
        step();
    assert_int_equal(slow.table[77].wanted.standing, LLI_STANDING_FINE);
}

static void the_evaluation_of_many_receivers_rests_when_nothing_is_sent(void **state)
{
    int i;

    (void)state;
    for (uint64_t id = 1; id <= MANY; id++)
        report(id, 0);
    step();
    for (uint64_t id = 1; id <= MANY; id++)
        report(id, 0);
    for (i = 0; lli_slow_at(&slow) != LLI_NEVER; i++) {
        assert_true(i < 300);
        now += 10 * MS;
        (void)lli_slow_all(&slow, &members, sent, now);
    }
    assert_true(i > MANY / LLI_SLOW_SLICE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_evaluation_scans_a_bounded_number_of_receivers),
        T(many_receivers_are_evaluated_and_reported_in_half_a_second),
        T(none_of_many_receivers_is_suspended_if_most_are_slow),
        T(figures_of_many_receivers_cover_the_last_second),
        T(the_evaluation_of_many_receivers_rests_when_nothing_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
