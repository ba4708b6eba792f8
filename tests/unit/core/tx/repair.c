/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/pack/history.h"
#include "core/tx/repair.h"

enum {
    SLOTS = 64,
    PACKET_MAX = 64,
    MODEL_PACKETS = 20000,
    LINGER = 100,
    SHARED = 400,
    MEMBERS = 16,
    ALL = 48,
    MODEL_MEMBERS = 3
};

struct bench {
    struct lli_history history;
    struct lli_repair repair;
    uint8_t *memory;
};

static void bench_layout(struct bench *bench, lli_seq start, struct lli_arena *arena)
{
    const struct lli_history_config config = {.bytes = SLOTS * 2 * PACKET_MAX,
                                              .packets = SLOTS,
                                              .packet_max = PACKET_MAX,
                                              .align = 64,
                                              .start = start};

    lli_history_init(&bench->history, &config, arena);
    lli_repair_init(&bench->repair, &bench->history, SLOTS, MEMBERS, arena);
}

static void bench_make(struct bench *bench, lli_seq start)
{
    struct lli_arena arena = {.memory = NULL};

    bench_layout(bench, start, &arena);
    arena_fill(&arena);
    bench->memory = arena.memory;
    bench_layout(bench, start, &arena);
}

/* Adds packets that were sent, so that the history drops them when it is full. */
static void bench_send(struct bench *bench, uint32_t count)
{
    for (; count > 0; count--) {
        (void)lli_history_open(&bench->history, bench->history.next);
        lli_history_seal(&bench->history, PACKET_MAX);
    }
}

static enum lli_repair_verdict request(struct bench *bench, lli_seq seq, uint32_t member, lli_ns now)
{
    return lli_repair_request(&bench->repair, seq, member, now, LINGER, SHARED);
}

static void one_receiver_gets_its_repair_by_unicast(void **state)
{
    struct bench bench;
    lli_seq seq;

    (void)state;
    bench_make(&bench, 1000);
    bench_send(&bench, 10);
    assert_false(lli_repair_peek(&bench.repair, &seq));
    assert_int_equal(request(&bench, 1003, 7, 50), LLI_REPAIR_QUEUED);
    assert_int_equal(request(&bench, 1001, 7, 50), LLI_REPAIR_QUEUED);
    assert_int_equal(request(&bench, 1003, 7, 51), LLI_REPAIR_JOINED);
    assert_int_equal(lli_repair_queued(&bench.repair), 2);
    assert_true(lli_repair_peek(&bench.repair, &seq));
    assert_int_equal(seq, 1003);
    assert_int_equal(lli_repair_pop(&bench.repair, 60), 7);
    assert_true(lli_repair_peek(&bench.repair, &seq));
    assert_int_equal(seq, 1001);
    assert_int_equal(lli_repair_pop(&bench.repair, 60), 7);
    assert_false(lli_repair_peek(&bench.repair, &seq));
    free(bench.memory);
}

static void two_receivers_of_a_packet_get_a_group_repair(void **state)
{
    struct bench bench;

    (void)state;
    bench_make(&bench, 0);
    bench_send(&bench, 10);
    (void)request(&bench, 3, 1, 50);
    assert_int_equal(request(&bench, 3, 2, 50), LLI_REPAIR_JOINED);
    assert_int_equal(lli_repair_pop(&bench.repair, 60), LLI_REPAIR_TO_GROUP);
    /* The repair served both: a new request of either is too early. */
    assert_int_equal(request(&bench, 3, 1, 159), LLI_REPAIR_IGNORED);
    assert_int_equal(request(&bench, 3, 2, 159), LLI_REPAIR_IGNORED);
    assert_int_equal(request(&bench, 3, 2, 160), LLI_REPAIR_QUEUED);
    free(bench.memory);
}

static void a_second_nak_soon_after_a_unicast_repair_gets_a_group_repair(void **state)
{
    struct bench bench;

    (void)state;
    bench_make(&bench, 0);
    bench_send(&bench, 10);
    (void)request(&bench, 3, 1, 0);
    (void)lli_repair_pop(&bench.repair, 1000);
    assert_int_equal(request(&bench, 3, 1, 1099), LLI_REPAIR_IGNORED);
    assert_int_equal(request(&bench, 3, 2, 1099), LLI_REPAIR_QUEUED);
    assert_int_equal(lli_repair_pop(&bench.repair, 1100), LLI_REPAIR_TO_GROUP);
    (void)request(&bench, 4, 1, 0);
    (void)lli_repair_pop(&bench.repair, 1000);
    /* A request long after is for a separate loss. */
    assert_int_equal(request(&bench, 4, 2, 1400), LLI_REPAIR_QUEUED);
    assert_int_equal(lli_repair_pop(&bench.repair, 1400), 2);
    free(bench.memory);
}

static void a_repair_at_time_zero_is_remembered(void **state)
{
    struct bench bench;

    (void)state;
    bench_make(&bench, 0);
    bench_send(&bench, 10);
    (void)request(&bench, 3, 1, 0);
    (void)lli_repair_pop(&bench.repair, 0);
    assert_int_equal(request(&bench, 3, 1, 1), LLI_REPAIR_IGNORED);
    free(bench.memory);
}

static void forgotten_packets_are_skipped_in_the_queue(void **state)
{
    struct bench bench;
    lli_seq seq;

    (void)state;
    bench_make(&bench, 0);
    bench_send(&bench, 10);
    (void)request(&bench, 3, 1, 0);
    bench_send(&bench, 2 * SLOTS);
    assert_int_equal(request(&bench, 3, 1, 0), LLI_REPAIR_GONE);
    assert_int_equal(request(&bench, bench.history.next - 1, 1, 0), LLI_REPAIR_QUEUED);
    assert_true(lli_repair_peek(&bench.repair, &seq));
    assert_int_equal(seq, bench.history.next - 1);
    assert_int_equal(lli_repair_queued(&bench.repair), 1);
    free(bench.memory);
}

/* This happens during a handler that sends many packets, with NAKs in the same burst. */
static void the_queue_never_overflows_between_two_repairs(void **state)
{
    struct bench bench;
    lli_seq seq;

    (void)state;
    bench_make(&bench, 0);
    for (int round = 0; round < 10; round++) {
        bench_send(&bench, SLOTS);
        for (seq = bench.history.trail; seq < bench.history.next; seq++)
            assert_int_not_equal(request(&bench, seq, 1, 0), LLI_REPAIR_GONE);
    }
    for (lli_seq expected = bench.history.trail; expected < bench.history.next; expected++) {
        assert_true(lli_repair_peek(&bench.repair, &seq));
        assert_int_equal(seq, expected);
        (void)lli_repair_pop(&bench.repair, 1);
    }
    assert_false(lli_repair_peek(&bench.repair, &seq));
    free(bench.memory);
}

static void a_member_with_many_naks_takes_every_other_turn_only(void **state)
{
    struct bench bench;
    lli_seq seq;

    (void)state;
    bench_make(&bench, 0);
    bench_send(&bench, ALL);
    for (seq = 0; seq < ALL - 4; seq++)
        assert_int_equal(request(&bench, seq, 1, 0), LLI_REPAIR_QUEUED);
    for (seq = ALL - 4; seq < ALL; seq++)
        assert_int_equal(request(&bench, seq, 2, 0), LLI_REPAIR_QUEUED);
    for (lli_seq i = 0; i < 4; i++) {
        assert_int_equal(lli_repair_pop(&bench.repair, 1), 1);
        assert_true(lli_repair_peek(&bench.repair, &seq));
        assert_int_equal(seq, ALL - 4 + i);
        assert_int_equal(lli_repair_pop(&bench.repair, 1), 2);
    }
    free(bench.memory);
}

static void a_repair_leaves_at_the_earlier_turn_of_two_members(void **state)
{
    struct bench bench;
    lli_seq seq;

    (void)state;
    bench_make(&bench, 0);
    bench_send(&bench, ALL);
    for (seq = 0; seq < ALL; seq++)
        (void)request(&bench, seq, LLI_REPAIR_TO_GROUP, 0);
    assert_int_equal(request(&bench, ALL - 1, 2, 0), LLI_REPAIR_JOINED);
    (void)lli_repair_pop(&bench.repair, 1);
    assert_true(lli_repair_peek(&bench.repair, &seq));
    assert_int_equal(seq, ALL - 1);
    assert_int_equal(lli_repair_pop(&bench.repair, 1), LLI_REPAIR_TO_GROUP);
    for (int i = 0; i < ALL - 2; i++)
        (void)lli_repair_pop(&bench.repair, 1);
    assert_false(lli_repair_peek(&bench.repair, &seq));
    free(bench.memory);
}

static void a_common_loss_is_repaired_in_the_order_of_the_naks(void **state)
{
    struct bench bench;
    lli_seq seq;

    (void)state;
    bench_make(&bench, 0);
    bench_send(&bench, ALL);
    for (uint32_t member = 0; member < 5; member++)
        for (seq = 0; seq < ALL; seq++)
            (void)request(&bench, seq, member, 0);
    for (lli_seq expected = 0; expected < ALL; expected++) {
        assert_true(lli_repair_peek(&bench.repair, &seq));
        assert_int_equal(seq, expected);
        (void)lli_repair_pop(&bench.repair, 1);
    }
    free(bench.memory);
}

/* -------------------------------------------------------------------------------- against a plain list */

struct model_packet {
    bool queued;
    bool repaired;
    lli_ns repaired_at;
    uint32_t to;
    uint64_t leaves; /* maximum of repairs before it leaves */
};

struct model {
    struct model_packet packets[MODEL_PACKETS];
    uint64_t popped;
};

/* Counts the queued packets of a member, including those removed from between. */
static uint32_t bench_waiting(const struct bench *bench, uint32_t member)
{
    const struct lli_repair_queue *queue = &bench->repair.queues[member];

    return queue->count == 0 ? 0 : queue->arrivals - bench->repair.entries[queue->first].ticket;
}

/* With three members, a member's packets leave in at least every third turn. */
static void model_asks(struct model *model, struct model_packet *packet, uint32_t waiting)
{
    const uint64_t leaves = model->popped + (waiting + 1u) * MODEL_MEMBERS;

    packet->leaves = packet->queued ? lli_min(packet->leaves, leaves) : leaves;
    packet->queued = true;
}

static enum lli_repair_verdict model_request(struct model *model, lli_seq at, bool gone, uint32_t member,
                                             uint32_t waiting, lli_ns now)
{
    struct model_packet *packet = &model->packets[at];
    lli_ns ago = now - packet->repaired_at;
    bool same = packet->repaired && packet->to == member;
    bool served = same || packet->to == LLI_REPAIR_TO_GROUP;

    if (gone)
        return LLI_REPAIR_GONE;
    if (packet->queued) {
        if (packet->to != member)
            packet->to = LLI_REPAIR_TO_GROUP;
        model_asks(model, packet, waiting);
        return LLI_REPAIR_JOINED;
    }
    if (packet->repaired && served && ago < LINGER)
        return LLI_REPAIR_IGNORED;
    packet->to = packet->repaired && !same && ago < SHARED ? LLI_REPAIR_TO_GROUP : member;
    model_asks(model, packet, waiting);
    return LLI_REPAIR_QUEUED;
}

/* Returns the first packet that is queued and in the history; MODEL_PACKETS: none. */
static lli_seq model_first(const struct model *model, lli_seq trail)
{
    while (trail < MODEL_PACKETS && !model->packets[trail].queued)
        trail++;
    return trail;
}

static void model_pop(struct model *model, struct bench *bench, lli_seq start, lli_ns now)
{
    struct model_packet *packet;
    lli_seq seq;
    bool found = lli_repair_peek(&bench->repair, &seq);

    assert_int_equal(found, model_first(model, bench->history.trail - start) < MODEL_PACKETS);
    if (!found)
        return;
    packet = &model->packets[seq - start];
    assert_true(packet->queued && seq >= bench->history.trail);
    assert_int_equal(lli_repair_pop(&bench->repair, now), packet->to);
    packet->queued = false;
    packet->repaired = true;
    packet->repaired_at = now;
    model->popped++;
    for (lli_seq at = bench->history.trail - start; at < bench->history.next - start; at++)
        assert_true(!model->packets[at].queued || model->popped < model->packets[at].leaves);
}

/* Sends a packet; packets that the history drops for it leave the queue. */
static void model_send(struct model *model, struct bench *bench, lli_seq start)
{
    lli_seq at = bench->history.trail - start;

    bench_send(bench, 1);
    for (; at < bench->history.trail - start; at++)
        model->packets[at].queued = false;
}

static void random_requests_agree_with_a_plain_list(void **state)
{
    const lli_seq starts[] = {0, BEFORE_WRAP_32, BEFORE_WRAP_33};
    static struct model model;

    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        const lli_seq start = starts[seed % 3];
        uint64_t random = seed;
        struct bench bench;
        lli_ns now = 1;

        memset(&model, 0, sizeof model);
        bench_make(&bench, start);
        bench_send(&bench, 1);
        for (int step = 0; step < 8000; step++) {
            uint32_t what = below(&random, 100);
            uint64_t kept = bench.history.next - bench.history.trail;
            lli_seq seq = bench.history.next - 1 -
                          lli_min(below(&random, (uint32_t)kept + 3), bench.history.next - 1 - start);

            now += below(&random, 20);
            if (what < 25)
                model_send(&model, &bench, start);
            else if (what < 80)
                for (uint32_t member = below(&random, MODEL_MEMBERS), n = 1 + below(&random, 2); n > 0;
                     n--, member = (member + 1) % MODEL_MEMBERS) {
                    const uint32_t waiting = bench_waiting(&bench, member);

                    assert_int_equal(
                        request(&bench, seq, member, now),
                        model_request(&model, seq - start, seq < bench.history.trail, member, waiting, now));
                }
            else
                model_pop(&model, &bench, start, now);
        }
        free(bench.memory);
    }
}

static void a_receiver_with_standing_unicast_causes_no_group_repair(void **state)
{
    struct bench bench;
    lli_seq seq;

    (void)state;
    bench_make(&bench, 1000);
    bench_send(&bench, 10);
    assert_int_equal(request(&bench, 1003, 7, 50), LLI_REPAIR_QUEUED);
    assert_int_equal(lli_repair_request(&bench.repair, 1003, 8, 51, LINGER, 0), LLI_REPAIR_IGNORED);
    assert_true(lli_repair_peek(&bench.repair, &seq));
    assert_int_equal(lli_repair_pop(&bench.repair, 60), 7);
    /* Soon after, and still by unicast. */
    assert_int_equal(lli_repair_request(&bench.repair, 1003, 8, 61, LINGER, 0), LLI_REPAIR_QUEUED);
    assert_true(lli_repair_peek(&bench.repair, &seq));
    assert_int_equal(lli_repair_pop(&bench.repair, 70), 8);
    free(bench.memory);
}

static void a_skipped_repair_can_be_requested_again(void **state)
{
    struct bench bench;
    lli_seq seq;

    (void)state;
    bench_make(&bench, 1000);
    bench_send(&bench, 10);
    assert_int_equal(request(&bench, 1003, 7, 50), LLI_REPAIR_QUEUED);
    assert_true(lli_repair_peek(&bench.repair, &seq));
    lli_repair_skip(&bench.repair);
    assert_false(lli_repair_peek(&bench.repair, &seq));
    assert_int_equal(request(&bench, 1003, 7, 51), LLI_REPAIR_QUEUED);
    free(bench.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_receiver_gets_its_repair_by_unicast),
        cmocka_unit_test(two_receivers_of_a_packet_get_a_group_repair),
        cmocka_unit_test(a_second_nak_soon_after_a_unicast_repair_gets_a_group_repair),
        cmocka_unit_test(a_repair_at_time_zero_is_remembered),
        cmocka_unit_test(forgotten_packets_are_skipped_in_the_queue),
        cmocka_unit_test(the_queue_never_overflows_between_two_repairs),
        cmocka_unit_test(a_member_with_many_naks_takes_every_other_turn_only),
        cmocka_unit_test(a_repair_leaves_at_the_earlier_turn_of_two_members),
        cmocka_unit_test(a_common_loss_is_repaired_in_the_order_of_the_naks),
        cmocka_unit_test(random_requests_agree_with_a_plain_list),
        cmocka_unit_test(a_receiver_with_standing_unicast_causes_no_group_repair),
        cmocka_unit_test(a_skipped_repair_can_be_requested_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
