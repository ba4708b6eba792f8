/* SPDX-License-Identifier: Apache-2.0 */
/* The slow-receiver policy, with reports and NAKs from the test, and a simulated time. */
#ifndef TESTS_JUDGED_H
#define TESTS_JUDGED_H

#include "unit.h"

#include "core/flow/members.h"
#include "core/slow/slow.h"
#include "core/wire/wire.h"

#define MS ((lli_ns)1000000)
#define SECOND ((lli_ns)1000000000)

enum { MEMBERS = 32, START = 1000 };

static struct lli_members members;
static struct lli_slow slow;
static uint8_t *memories[2];
static lli_seq sent;
static lli_ns now;

static inline struct lli_slow_policy policy_make(void)
{
    return (struct lli_slow_policy){
        .most = LLI_STANDING_SUSPENDED,
        .limits = {[LLM_THRESHOLD_NAKS] = 1000,
                   [LLM_THRESHOLD_NAK_SHARE] = 100000,
                   [LLM_THRESHOLD_LAG_PACKETS] = 5000,
                   [LLM_THRESHOLD_LAG_TIME] = SECOND,
                   [LLM_THRESHOLD_SILENCE] = 180 * MS},
        .warn_percent = 50,
        .unicast_percent = 75,
        .patience = 500 * MS,
        .recover = 300 * MS,
        .expel = 2 * SECOND,
        .rejoin = 3 * SECOND,
        .status = 100 * MS,
    };
}

static inline void slow_make(const struct lli_slow_policy *policy)
{
    struct lli_arena arenas[2] = {{.memory = NULL}, {.memory = NULL}};

    for (int i = 0; i < 2; i++)
        free(memories[i]);
    now = SECOND;
    sent = START;
    lli_members_init(&members, MEMBERS, &arenas[0]);
    lli_slow_init(&slow, policy, MEMBERS, &arenas[1], START, now);
    for (int i = 0; i < 2; i++) {
        arena_fill(&arenas[i]);
        memories[i] = arenas[i].memory;
    }
    lli_members_init(&members, MEMBERS, &arenas[0]);
    lli_slow_init(&slow, policy, MEMBERS, &arenas[1], START, now);
}

static inline int up(void **state)
{
    const struct lli_slow_policy policy = policy_make();

    (void)state;
    slow_make(&policy);
    return 0;
}

static inline int down(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        free(memories[i]);
        memories[i] = NULL;
    }
    return 0;
}

static inline void report(uint64_t id, uint64_t behind)
{
    uint32_t index = lli_members_add(&members, id);

    members.table[index].next = sent - behind;
    members.table[index].lag_bytes = behind * 128;
    lli_slow_report(&slow, &members, index, sent, now);
}

static inline bool nak(uint64_t id, uint64_t packets)
{
    return lli_slow_nak(&slow, &members, lli_members_add(&members, id), packets, now);
}

static inline enum lli_standing standing(uint64_t id)
{
    uint32_t index = lli_members_get(&members, id);

    return index == LLI_MEMBER_NONE ? LLI_STANDING_FINE : members.table[index].standing;
}

/*
 * Sends 100 packets in 10 ms, then evaluates. Receivers 1 to healthy report every 100 ms that they have all
 * packets but one.
 */
static inline void step(uint64_t healthy)
{
    sent += 100;
    now += 10 * MS;
    if (now / (10 * MS) % 10 == 0)
        for (uint64_t id = 1; id <= healthy; id++)
            report(id, 1);
    (void)lli_slow_all(&slow, &members, sent, now);
}

static inline void steps(uint64_t healthy, lli_ns time)
{
    for (lli_ns until = now + time; now < until;)
        step(healthy);
}

/* Returns the verdict of the next event, which must be of this kind and about this receiver. */
static inline struct llm_verdict expect_event(enum llm_event_kind kind, uint64_t receiver)
{
    struct llm_event event;

    assert_true(lli_slow_event(&slow, &event));
    assert_string_equal(llm_event_name(event.kind), llm_event_name(kind));
    assert_int_equal(event.verdict->receiver, receiver);
    return *event.verdict;
}

static inline void expect_no_event(void)
{
    struct llm_event event;

    if (lli_slow_event(&slow, &event))
        fail_msg("%s: %llu %s", llm_event_name(event.kind), (unsigned long long)event.verdict->value,
                 llm_threshold_name(event.verdict->threshold));
}

/* Returns the number of notices for this receiver, and the latest. */
static inline int notices(uint64_t receiver, struct lli_wire_notice *latest)
{
    struct lli_wire_notice notice;
    uint32_t index;
    int count = 0;

    while (lli_slow_notice(&slow, &members, &notice, &index)) {
        assert_int_equal(members.table[index].id, notice.receiver);
        if (notice.receiver == receiver) {
            *latest = notice;
            count++;
        }
    }
    return count;
}

#endif
