/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/rx/gap.h"
#include "core/wire/wire.h"

#define MS ((lli_ns)1000000)

enum { WINDOW = 128, RANGES = 64 };

static const struct lli_gap_retry plain_retry = {.rtt = 0, .retry_min = 1 * MS, .retry_max = 8 * MS};

static uint8_t *gap_make(struct lli_gap *gap, lli_seq next)
{
    struct lli_arena arena = {.memory = NULL};

    lli_gap_init(gap, WINDOW, &arena);
    arena_fill(&arena);
    lli_gap_init(gap, WINDOW, &arena);
    lli_gap_reset(gap, next);
    return arena.memory;
}

/* --------------------------------------------------------------------------------------------- by example */

static void packets_in_order_leave_no_missing_packets(void **state)
{
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, BEFORE_WRAP_32);

    (void)state;
    for (lli_seq seq = BEFORE_WRAP_32; seq < BEFORE_WRAP_32 + 1000; seq++) {
        assert_false(lli_gap_in_order(&gap, seq + 1));
        assert_true(lli_gap_in_order(&gap, seq));
        assert_false(lli_gap_in_order(&gap, seq));
    }
    assert_int_equal(gap.next, BEFORE_WRAP_32 + 1000);
    assert_int_equal(gap.received, gap.next);
    assert_int_equal(gap.missing, 0);
    assert_int_equal(gap.due_at, LLI_NEVER);
    free(memory);
}

static void naks_are_due_and_repeated_at_growing_intervals(void **state)
{
    struct lli_wire_range ranges[RANGES];
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, 1000);
    uint64_t random = 1;
    lli_ns now = 10 * MS, wait = 1 * MS;

    (void)state;
    lli_gap_extend(&gap, 1003, now, now + 5);
    assert_int_equal(lli_gap_due(&gap, now + 4, &plain_retry, &random, ranges, RANGES), 0);
    now += 5;
    for (int tries = 1; tries <= 10; tries++) {
        assert_int_equal(lli_gap_due(&gap, now, &plain_retry, &random, ranges, RANGES), 1);
        assert_int_equal(ranges[0].first, 1000);
        assert_int_equal(ranges[0].count, 3);
        assert_int_equal(lli_gap_due(&gap, now, &plain_retry, &random, ranges, RANGES), 0);
        assert_true(gap.due_at >= now + wait * 3 / 4 && gap.due_at < now + wait * 5 / 4);
        for (lli_seq seq = 1000; seq < 1003; seq++) {
            assert_int_equal(gap.slots[seq & gap.mask].tries, tries);
            assert_true(gap.slots[seq & gap.mask].nak_at < now + wait * 5 / 4);
        }
        now += wait * 5 / 4;
        if (tries >= 4)
            wait = lli_min(2 * wait, 8 * MS);
    }
    free(memory);
}

static void a_long_round_trip_lengthens_the_wait(void **state)
{
    const struct lli_gap_retry retry = {.rtt = 20 * MS, .retry_min = 1 * MS, .retry_max = 8 * MS};
    struct lli_wire_range ranges[RANGES];
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, 0);
    uint64_t random = 1;

    (void)state;
    lli_gap_extend(&gap, 1, 0, 0);
    (void)lli_gap_due(&gap, 0, &retry, &random, ranges, RANGES);
    assert_true(gap.due_at >= 30 * MS && gap.due_at < 50 * MS);
    /* The interval is retry_max already, and does not grow. */
    lli_gap_nak_now(&gap, 0);
    for (int i = 0; i < 300; i++) {
        lli_ns now = gap.due_at;

        (void)lli_gap_due(&gap, now, &retry, &random, ranges, RANGES);
        assert_true(gap.due_at >= now + 30 * MS && gap.due_at < now + 50 * MS);
    }
    assert_int_equal(gap.slots[0].tries, UINT8_MAX);
    free(memory);
}

static void ranges_beyond_one_nak_stay_due(void **state)
{
    struct lli_wire_range ranges[RANGES];
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, BEFORE_WRAP_32 - 24);
    uint64_t random = 1;
    int total = 0;

    (void)state;
    lli_gap_extend(&gap, gap.next + 120, 7, 7);
    for (lli_seq seq = gap.next + 1; seq < gap.end; seq += 2)
        (void)lli_gap_receive(&gap, seq);
    while (gap.due_at <= 7) {
        int count = lli_gap_due(&gap, 7, &plain_retry, &random, ranges, 7);

        for (int i = 0; i < count; i++)
            assert_int_equal(ranges[i].first, (uint32_t)(BEFORE_WRAP_32 - 24 + 2 * (lli_seq)(total + i)));
        total += count;
    }
    assert_int_equal(total, 60);
    free(memory);
}

static void a_range_continues_across_the_wrap_of_the_wire_number(void **state)
{
    struct lli_wire_range ranges[RANGES];
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, BEFORE_WRAP_32);
    uint64_t random = 1;

    (void)state;
    lli_gap_extend(&gap, BEFORE_WRAP_32 + 80, 0, 0);
    assert_int_equal(lli_gap_due(&gap, 0, &plain_retry, &random, ranges, RANGES), 1);
    assert_int_equal(ranges[0].first, (uint32_t)BEFORE_WRAP_32);
    assert_int_equal(ranges[0].count, 80);
    free(memory);
}

static void retraction_removes_announced_but_not_received_packets(void **state)
{
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, 1000);

    (void)state;
    lli_gap_extend(&gap, 1100, 0, 0);
    (void)lli_gap_receive(&gap, 1010);
    lli_gap_retract(&gap, 1050);
    assert_int_equal(gap.end, 1050);
    assert_int_equal(gap.missing, 49);
    lli_gap_retract(&gap, 1001);
    assert_int_equal(gap.end, 1011);
    assert_int_equal(gap.missing, 10);
    lli_gap_retract(&gap, 2000);
    assert_int_equal(gap.end, 1011);
    free(memory);
}

static void renumbering_preserves_present_and_missing_packets(void **state)
{
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, 1000);
    const lli_seq lap = (lli_seq)3 << 32;

    (void)state;
    lli_gap_extend(&gap, 1003, MS, MS);
    lli_gap_renumber(&gap, lap + 1000);
    assert_int_equal(gap.next, lap + 1000);
    assert_int_equal(gap.end, lap + 1003);
    assert_int_equal(gap.missing, 3);
    for (lli_seq seq = lap + 1000; seq < lap + 1003; seq++)
        assert_false(lli_gap_is_present(&gap, seq));
    free(memory);
}

static void rewinding_makes_earlier_packets_missing_as_far_as_the_window_reaches(void **state)
{
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, 1000);

    (void)state;
    lli_gap_extend(&gap, 1064, 0, 50);
    assert_false(lli_gap_rewind(&gap, 1001, 0, 9));
    assert_false(lli_gap_rewind(&gap, 1064 - WINDOW - 1, 0, 9));
    assert_true(lli_gap_rewind(&gap, 1064 - WINDOW, 0, 9));
    assert_int_equal(gap.missing, WINDOW);
    assert_int_equal(gap.due_at, 9);
    free(memory);
}

static void a_delayed_nak_is_not_sent_early(void **state)
{
    struct lli_wire_range ranges[RANGES];
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, 1000);
    uint64_t random = 1;

    (void)state;
    lli_gap_extend(&gap, 1010, 0, 10);
    lli_gap_delay(&gap, 1002, 3, 500);
    lli_gap_delay(&gap, 1008, UINT32_MAX, 400);
    lli_gap_delay(&gap, 1003, 1, 20); /* never earlier than before */
    assert_int_equal(lli_gap_due(&gap, 10, &plain_retry, &random, ranges, RANGES), 2);
    assert_int_equal(ranges[0].first, 1000);
    assert_int_equal(ranges[0].count, 2);
    assert_int_equal(ranges[1].first, 1005);
    assert_int_equal(ranges[1].count, 3);
    assert_int_equal(gap.due_at, 400);
    free(memory);
}

/* Packets from 1005 on were not due for a NAK before the call. */
static void hastened_naks_are_due_in_time(void **state)
{
    struct lli_gap_retry retry = plain_retry;
    struct lli_wire_range ranges[RANGES];
    struct lli_gap gap;
    uint8_t *memory = gap_make(&gap, 1000);
    uint64_t random = 1;

    (void)state;
    lli_gap_extend(&gap, 1008, 0, 100);
    lli_gap_extend(&gap, 1010, 0, LLI_NEVER);
    retry.from = 1010;
    assert_int_equal(lli_gap_due(&gap, 100, &retry, &random, ranges, RANGES), 0);
    assert_true(gap.due_at == LLI_NEVER);
    lli_gap_hasten(&gap, 1005, 300);
    assert_int_equal(gap.due_at, 100);
    retry.from = 1005;
    assert_int_equal(lli_gap_due(&gap, 300, &retry, &random, ranges, RANGES), 1);
    assert_int_equal(ranges[0].first, 1005);
    assert_int_equal(ranges[0].count, 5);
    free(memory);
}

/* -------------------------------------------------------------------------------- against a plain array */

enum { MODEL_PACKETS = 20000, MODEL_STEPS = 6000 };

struct model_packet {
    bool present;
    lli_ns since;
    lli_ns nak_at;
    unsigned tries;
};

struct model {
    lli_seq base;
    lli_seq next, end, received;
    struct model_packet packets[MODEL_PACKETS];
};

static struct model_packet *model_at(struct model *model, lli_seq seq)
{
    assert_true(seq >= model->base && seq - model->base < MODEL_PACKETS);
    return &model->packets[seq - model->base];
}

static void model_miss(struct model *model, lli_seq first, lli_seq end, lli_ns now, lli_ns nak_at)
{
    for (lli_seq seq = first; seq < end; seq++)
        *model_at(model, seq) = (struct model_packet){.since = now, .nak_at = nak_at};
}

static void model_extend(struct model *model, lli_seq end, lli_ns now, lli_ns nak_at)
{
    end = lli_min(end, model->next + WINDOW);
    if (end <= model->end)
        return;
    model_miss(model, model->end, end, now, nak_at);
    model->end = end;
}

static void model_compare(struct model *model, const struct lli_gap *gap, lli_ns now)
{
    uint64_t missing = 0;
    lli_seq first = model->end;
    lli_ns due_at = LLI_NEVER;

    for (lli_seq seq = model->end; seq-- > model->next;) {
        const struct model_packet *packet = model_at(model, seq);

        assert_int_equal(lli_gap_is_present(gap, seq), packet->present);
        if (packet->present) {
            first = seq;
            continue;
        }
        missing++;
        due_at = lli_min(due_at, packet->nak_at);
        assert_int_equal(gap->slots[seq & gap->mask].since, packet->since);
        assert_int_equal(gap->slots[seq & gap->mask].nak_at, packet->nak_at);
        assert_int_equal(gap->slots[seq & gap->mask].tries, packet->tries);
    }
    assert_int_equal(gap->next, model->next);
    assert_int_equal(gap->end, model->end);
    assert_int_equal(gap->received, model->received);
    assert_int_equal(gap->missing, missing);
    assert_int_equal(lli_gap_first_present(gap), first);
    /* It may be early, as a due packet may have arrived meanwhile, but never late. */
    assert_true(gap->due_at <= lli_max(due_at, now));
    assert_int_equal(gap->due_at == LLI_NEVER, due_at == LLI_NEVER);
}

/* Checks the due packets against the model, and the new times. */
static void model_due(struct model *model, struct lli_gap *gap, lli_ns now, uint64_t *random)
{
    const int max = 1 + (int)below(random, 5);
    const struct lli_gap_retry retry = {
        .rtt = lli_random_below(random, 3 * MS), .retry_min = 1 * MS, .retry_max = 8 * MS};
    const lli_ns base = lli_max(retry.retry_min, 2 * retry.rtt);
    struct lli_wire_range ranges[RANGES];
    const int count = lli_gap_due(gap, now, &retry, random, ranges, max);
    bool over = false;
    lli_ns due_at = LLI_NEVER;
    int range = -1;
    uint32_t used = 0;

    for (lli_seq seq = model->next; seq < model->end && !over; seq++) {
        struct model_packet *packet = model_at(model, seq);
        const struct lli_gap_slot *slot = &gap->slots[seq & gap->mask];

        if (packet->present)
            continue;
        if (packet->nak_at <= now) {
            if (range < 0 || ranges[range].first + used != (uint32_t)seq) {
                over = range + 1 == max;
                if (over)
                    break;
                assert_true(range < 0 || used == ranges[range].count);
                range++;
                used = 0;
                assert_true(range < count);
                assert_int_equal(ranges[range].first, (uint32_t)seq);
            }
            used++;
            if (packet->tries == 0)
                packet->since = now;
            packet->tries++;
            lli_ns wait =
                lli_min(base << (packet->tries < 4 ? 0 : packet->tries - 4), lli_max(retry.retry_max, base));
            assert_true(slot->nak_at >= now + wait - wait / 4 && slot->nak_at <= now + wait + wait / 4);
            packet->nak_at = slot->nak_at;
            /* The first request starts the time that a repair takes. */
            assert_true(slot->since == packet->since || (packet->tries == 1 && slot->since == now));
            packet->since = slot->since;
        }
        due_at = lli_min(due_at, packet->nak_at);
    }
    assert_int_equal(count, range + 1);
    if (count > 0)
        assert_int_equal(ranges[range].count, used);
    if (now >= gap->due_at || over)
        assert_int_equal(gap->due_at, now);
    else if (count > 0)
        assert_int_equal(gap->due_at, due_at);
}

static void model_hold(struct model *model, struct lli_gap *gap, lli_ns now, uint64_t *random)
{
    lli_seq first = model->next - 20 + below(random, WINDOW + 40);
    uint64_t count = below(random, 60);
    lli_ns until = now + lli_random_below(random, 2 * MS);

    lli_gap_delay(gap, first, count, until);
    for (lli_seq seq = model->next; seq < model->end; seq++)
        if (seq >= first && seq < first + count && !model_at(model, seq)->present)
            model_at(model, seq)->nak_at = lli_max(model_at(model, seq)->nak_at, until);
}

static void model_receive(struct model *model, struct lli_gap *gap, uint64_t *random)
{
    lli_seq seq = model->next + below(random, (uint32_t)(model->end - model->next));

    assert_int_equal(lli_gap_receive(gap, seq), !model_at(model, seq)->present);
    model_at(model, seq)->present = true;
    model->received = lli_max(model->received, seq + 1);
}

static void model_advance(struct model *model, struct lli_gap *gap)
{
    lli_gap_advance(gap);
    model->next++;
    model->received = lli_max(model->received, model->next);
}

static void model_rewind(struct model *model, struct lli_gap *gap, lli_ns now, uint64_t *random)
{
    lli_seq next = model->next - lli_min(below(random, 20), model->next - model->base);
    bool reaches = model->end - next <= WINDOW;

    assert_int_equal(lli_gap_rewind(gap, next, now, now + 3), reaches);
    if (reaches) {
        model_miss(model, next, model->next, now, now + 3);
        model->next = next;
    }
}

static void model_retract(struct model *model, struct lli_gap *gap, uint64_t *random)
{
    lli_seq end = model->next + below(random, WINDOW);

    lli_gap_retract(gap, end);
    end = lli_max(end, lli_max(model->received, model->next));
    model->end = lli_min(model->end, end);
}

static void model_step(struct model *model, struct lli_gap *gap, lli_ns now, uint64_t *random)
{
    uint32_t what = below(random, 100);

    if (what < 15) {
        lli_seq end = model->next + below(random, 2 * WINDOW);
        lli_ns nak_at = now + lli_random_below(random, MS);

        lli_gap_extend(gap, end, now, nak_at);
        model_extend(model, end, now, nak_at);
    } else if (what < 50 && model->end > model->next) {
        model_receive(model, gap, random);
    } else if (what < 75 && model->end > model->next) {
        model_advance(model, gap);
    } else if (what < 78 && lli_gap_in_order(gap, model->next)) {
        assert_true(model->end == model->next);
        model->next = model->end = model->received = model->next + 1;
    } else if (what < 80) {
        model_rewind(model, gap, now, random);
    } else if (what < 83) {
        model_retract(model, gap, random);
    } else if (what < 88) {
        model_hold(model, gap, now, random);
    } else if (what < 89) {
        lli_gap_nak_now(gap, now);
        for (lli_seq seq = model->next; seq < model->end; seq++)
            if (!model_at(model, seq)->present)
                *model_at(model, seq) = (struct model_packet){.since = now, .nak_at = now};
    } else {
        model_due(model, gap, now, random);
    }
}

static void random_operations_agree_with_a_plain_array(void **state)
{
    const lli_seq starts[] = {0, 77, BEFORE_WRAP_32, BEFORE_WRAP_33};
    static struct model model;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        lli_seq start = starts[seed % 4];
        struct lli_gap gap;
        uint8_t *memory = gap_make(&gap, start);
        uint64_t random = seed;
        lli_ns now = 1000 * MS;

        memset(&model, 0, sizeof model);
        model.base = model.next = model.end = model.received = start;
        for (int step = 0; step < MODEL_STEPS; step++) {
            now += lli_random_below(&random, MS / 2);
            model_step(&model, &gap, now, &random);
            model_compare(&model, &gap, now);
        }
        assert_true(model.next > start + 500);
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_in_order_leave_no_missing_packets),
        cmocka_unit_test(naks_are_due_and_repeated_at_growing_intervals),
        cmocka_unit_test(a_long_round_trip_lengthens_the_wait),
        cmocka_unit_test(ranges_beyond_one_nak_stay_due),
        cmocka_unit_test(a_range_continues_across_the_wrap_of_the_wire_number),
        cmocka_unit_test(retraction_removes_announced_but_not_received_packets),
        cmocka_unit_test(renumbering_preserves_present_and_missing_packets),
        cmocka_unit_test(rewinding_makes_earlier_packets_missing_as_far_as_the_window_reaches),
        cmocka_unit_test(a_delayed_nak_is_not_sent_early),
        cmocka_unit_test(hastened_naks_are_due_in_time),
        cmocka_unit_test(random_operations_agree_with_a_plain_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
