/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <llm/llm.h>

#include "core/recording/answers.h"

#define SESSION UINT64_C(0x1122334455667788)
#define FIRST (((lli_seq)1 << 32) - 20)
#define S ((lli_ns)1000000000)

static struct lli_pacer unconfirmed;
static struct lli_answers answers;
static struct lli_token_key key = {{3, 4}};
static uint8_t *memory;
static lli_ns now;

static struct lli_wire_address address_of(uint64_t receiver)
{
    return (struct lli_wire_address){.size = 7, .bytes = {4, 10, 0, 0, (uint8_t)receiver, 1, 2}};
}

static void record(lli_seq first, lli_seq end, bool ended)
{
    const struct lli_answers_extent extent = {.first = first,
                                              .first_number = 10 * (first - FIRST),
                                              .end = end,
                                              .end_number = 10 * (end - FIRST),
                                              .ended = ended};

    lli_answers_recorded(&answers, &extent);
}

static int up(void **state)
{
    const struct lli_answers_config config = {.session = SESSION,
                                              .address = address_of(200),
                                              .key = key,
                                              .replay_bytes_per_s = 1 << 20,
                                              .unconfirmed = &unconfirmed};
    struct lli_arena arena = {.memory = NULL};

    (void)state;
    now = S;
    lli_answers_unconfirmed(&unconfirmed, now);
    lli_answers_init(&answers, &config, &arena, now);
    arena_fill(&arena);
    memory = arena.memory;
    lli_answers_init(&answers, &config, &arena, now);
    record(FIRST, FIRST + 100, false);
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

static bool seek(uint64_t receiver, enum llm_join_mode from, uint64_t value)
{
    const struct lli_wire_join join = {.session = SESSION,
                                       .receiver = receiver,
                                       .kind = LLI_WIRE_JOIN_SEEK,
                                       .from = (uint8_t)from,
                                       .value = value,
                                       .address = address_of(receiver)};

    return lli_answers_input(&answers, &join, now);
}

static void recall(uint64_t receiver, lli_seq first, uint32_t count, bool confirmed)
{
    struct lli_wire_join join = {.session = SESSION,
                                 .receiver = receiver,
                                 .kind = LLI_WIRE_JOIN_RECALL,
                                 .address = address_of(receiver),
                                 .count = 1,
                                 .ranges = {{(uint32_t)first, count}}};

    if (confirmed)
        join.token = lli_token(&key, receiver, &join.address);
    assert_true(lli_answers_input(&answers, &join, now));
}

/* Returns the next answer, decoded; kind 0: there is none. */
static struct lli_wire_join next_answer(void)
{
    struct lli_wire_join join = {.kind = 0};
    struct lli_wire_header header = {.tag = 0};
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;

    if (!lli_answers_control(&answers, now, buffer, &packet))
        return join;
    assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
    assert_true(lli_wire_get_join(body, size, header.tag, &join));
    assert_true(join.session == SESSION);
    assert_true(lli_wire_is_address(&join.address, &answers.config.address));
    if (join.receiver == 0) {
        assert_null(packet.to);
        assert_true(join.token == 0);
    } else {
        const struct lli_wire_address address = address_of(join.receiver);

        assert_true(lli_wire_is_address(packet.to, &address));
        assert_true(join.token == lli_token(&key, join.receiver, &address));
    }
    return join;
}

static void expect_offer(lli_seq packet, uint64_t number)
{
    const struct lli_wire_join join = next_answer();

    assert_int_equal(join.kind, LLI_WIRE_JOIN_OFFER);
    assert_true(join.packet == packet && join.number == number);
    assert_true(join.lead == answers.extent.end && join.wanted == answers.extent.end_number);
}

static void expect_absent(uint8_t reason)
{
    const struct lli_wire_join join = next_answer();

    assert_int_equal(join.kind, LLI_WIRE_JOIN_ABSENT);
    assert_int_equal(join.reason, reason);
    assert_int_equal(join.count, 0);
    assert_true(join.packet == answers.extent.first && join.lead == answers.extent.end);
}

static void expect_silence(void)
{
    assert_int_equal(next_answer().kind, 0);
}

static void expect_packet(uint64_t receiver, lli_seq seq)
{
    const struct lli_wire_address address = address_of(receiver), *to = NULL;
    lli_seq found = 0;

    assert_true(lli_answers_next(&answers, now, &found, &to));
    assert_true(found == seq && lli_wire_is_address(to, &address));
}

static void a_seek_is_answered_with_the_position(void **state)
{
    struct lli_answers_seek sought;

    (void)state;
    assert_true(seek(1, LLM_JOIN_OLDEST, 0));
    assert_true(lli_answers_deadline(&answers) == 0);
    expect_offer(FIRST, 0);
    assert_false(lli_answers_sought(&answers, &sought));
    assert_true(seek(1, LLM_JOIN_NUMBER, 57));
    expect_silence();
    assert_true(lli_answers_sought(&answers, &sought));
    assert_int_equal(sought.from, LLM_JOIN_NUMBER);
    assert_true(sought.value == 57);
    lli_answers_found(&answers, true, FIRST + 5, 50);
    expect_offer(FIRST + 5, 57);
    assert_true(seek(1, LLM_JOIN_MESSAGES, 20));
    assert_true(lli_answers_sought(&answers, &sought));
    assert_true(sought.value == 980);
    lli_answers_found(&answers, true, FIRST + 98, 980);
    expect_offer(FIRST + 98, 980);
    assert_true(seek(1, LLM_JOIN_TIME, 5 * S));
    assert_true(lli_answers_sought(&answers, &sought));
    assert_int_equal(sought.from, LLM_JOIN_TIME);
    assert_true(sought.value == 5 * S && sought.at == now);
    lli_answers_found(&answers, true, FIRST + 7, 70);
    expect_offer(FIRST + 7, 70);
    expect_silence();
    assert_true(lli_answers_deadline(&answers) == LLI_NEVER);
}

static void a_position_that_is_not_recorded_is_refused(void **state)
{
    (void)state;
    record(FIRST + 10, FIRST + 100, false);
    assert_true(seek(1, LLM_JOIN_NUMBER, 99));
    expect_absent(LLI_WIRE_JOIN_HISTORY);
    assert_true(seek(1, LLM_JOIN_NUMBER, 1001));
    expect_absent(LLI_WIRE_JOIN_NOT_SENT);
    assert_true(seek(1, LLM_JOIN_NUMBER, 1000));
    expect_offer(FIRST + 100, 1000);
    assert_true(seek(1, LLM_JOIN_TIME, UINT64_MAX));
    lli_answers_found(&answers, false, 0, 0);
    expect_absent(LLI_WIRE_JOIN_HISTORY);
    record(FIRST, FIRST, false);
    assert_true(seek(1, LLM_JOIN_OLDEST, 0));
    expect_absent(LLI_WIRE_JOIN_NOT_SENT);
}

static void a_recall_without_the_token_gets_only_the_token(void **state)
{
    const struct lli_wire_address *to;
    lli_seq seq;

    (void)state;
    recall(1, FIRST, 16, false);
    assert_false(lli_answers_next(&answers, now, &seq, &to));
    expect_offer(FIRST, 0);
    recall(1, FIRST, 2, true);
    expect_packet(1, FIRST);
    lli_answers_sent(&answers, 100);
    expect_packet(1, FIRST + 1);
    lli_answers_sent(&answers, 100);
    assert_false(lli_answers_next(&answers, now, &seq, &to));
    assert_int_equal(answers.counters.packets_recalled, 2);
    assert_int_equal(answers.counters.bytes_recalled, 200);
}

static void packets_of_a_receiver_are_sent_together_on_a_shared_budget(void **state)
{
    const struct lli_wire_address *to;
    lli_seq seq;
    int sent = 0;

    (void)state;
    recall(1, FIRST, 3, true);
    recall(2, FIRST + 50, 256, true);
    /* It named packets that are not recorded. */
    expect_absent(0);
    expect_packet(1, FIRST);
    /* The packet has to be read first. */
    lli_answers_defer(&answers);
    expect_packet(2, FIRST + 50);
    lli_answers_sent(&answers, 1000);
    expect_packet(2, FIRST + 51);
    lli_answers_defer(&answers);
    for (lli_seq i = 0; i < 3; i++) {
        expect_packet(1, FIRST + i);
        lli_answers_sent(&answers, 1000);
    }
    expect_packet(2, FIRST + 51);
    for (; lli_answers_next(&answers, now, &seq, &to); sent++)
        lli_answers_sent(&answers, 1000);
    assert_in_range(sent, 10, 30);
    assert_true(lli_answers_deadline(&answers) > now && lli_answers_deadline(&answers) < now + S / 100);
    now = lli_answers_deadline(&answers);
    assert_true(lli_answers_next(&answers, now, &seq, &to));
}

static void a_receiver_that_recalls_all_the_time_leaves_turns_to_others(void **state)
{
    const struct lli_wire_address *to;
    int sent = 0;
    lli_seq seq;

    (void)state;
    recall(2, FIRST + 50, 1, true);
    recall(1, FIRST, 50, true);
    lli_answers_defer(&answers);
    for (;; sent++, now += S / 100) {
        recall(1, FIRST, 50, true);
        assert_true(lli_answers_next(&answers, now, &seq, &to));
        if (seq == FIRST + 50)
            break;
        lli_answers_sent(&answers, 1000);
    }
    assert_int_equal(sent, 256);
}

static void packets_that_the_recording_lacks_are_named(void **state)
{
    struct lli_wire_join join;

    (void)state;
    recall(1, FIRST + 10, 10, true);
    expect_packet(1, FIRST + 10);
    lli_answers_sent(&answers, 100);
    expect_packet(1, FIRST + 11);
    lli_answers_lacks(&answers, FIRST + 14);
    expect_packet(1, FIRST + 14);
    lli_answers_lacks(&answers, FIRST + 1000);
    join = next_answer();
    assert_int_equal(join.kind, LLI_WIRE_JOIN_ABSENT);
    assert_int_equal(join.count, 1);
    assert_true(join.ranges[0].first == (uint32_t)(FIRST + 11) && join.ranges[0].count == 3);
    join = next_answer();
    assert_true(join.ranges[0].first == (uint32_t)(FIRST + 14) && join.ranges[0].count == 6);
    expect_silence();
    assert_true(lli_answers_deadline(&answers) == LLI_NEVER);
}

static void what_retention_removed_is_absent(void **state)
{
    const struct lli_wire_address *to;
    lli_seq seq;

    (void)state;
    recall(1, FIRST + 10, 10, true);
    record(FIRST + 15, FIRST + 100, true);
    expect_packet(1, FIRST + 15);
    expect_absent(LLI_WIRE_JOIN_ENDED);
    record(FIRST + 30, FIRST + 100, true);
    assert_false(lli_answers_next(&answers, now, &seq, &to));
    expect_absent(LLI_WIRE_JOIN_ENDED);
    expect_silence();
}

static void the_group_hears_what_is_recorded_every_second(void **state)
{
    struct lli_wire_join join;

    (void)state;
    expect_silence();
    lli_answers_advertise(&answers, LLI_ANSWERS_ADVERT, now);
    for (int i = 0; i < 3; i++) {
        join = next_answer();
        assert_int_equal(join.kind, LLI_WIRE_JOIN_OFFER);
        assert_int_equal(join.receiver, 0);
        assert_int_equal(join.from, 0);
        assert_true(join.value == S && join.packet == FIRST && join.lead == FIRST + 100);
        expect_silence();
        assert_true(lli_answers_deadline(&answers) == now + S);
        now += S;
    }
    lli_answers_advertise(&answers, 0, now);
    expect_silence();
    assert_true(lli_answers_deadline(&answers) == LLI_NEVER);
}

static void unconfirmed_addresses_get_a_bounded_number_of_answers(void **state)
{
    uint32_t answered = 0;

    (void)state;
    for (uint32_t i = 1; i <= 10000; i++, now += S / 10000) {
        if (i % 2)
            assert_true(seek(i, LLM_JOIN_OLDEST, 0));
        else
            recall(i, FIRST, 256, false);
        while (next_answer().kind != 0)
            answered++;
    }
    assert_in_range(answered, 1000, LLI_ANSWERS_UNCONFIRMED + LLI_ANSWERS_UNCONFIRMED_MAX + 1);
    assert_int_equal(answers.counters.store_requests_unconfirmed, 10000);
    assert_int_equal(answers.counters.store_answers_dropped + answered, 10000);
    /* A confirmed one still gets its packets. */
    recall(5, FIRST, 1, true);
    expect_packet(5, FIRST);
}

static void an_answer_is_no_longer_than_the_seek(void **state)
{
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    const struct lli_wire_join join = {.kind = LLI_WIRE_JOIN_SEEK, .address = address_of(1)};
    struct lli_packet packet;

    (void)state;
    assert_true(seek(1, LLM_JOIN_OLDEST, 0));
    assert_true(lli_answers_control(&answers, now, buffer, &packet));
    assert_int_equal(packet.size, lli_wire_put_join(buffer, &join));
}

static void other_packets_are_not_for_a_store(void **state)
{
    struct lli_wire_join join = {.session = SESSION, .receiver = 1, .address = address_of(1)};

    (void)state;
    for (int kind = 0; kind <= UINT8_MAX; kind++) {
        join.kind = (uint8_t)kind;
        join.from = kind == LLI_WIRE_JOIN_SEEK ? LLM_JOIN_LATEST : 1;
        if (kind != LLI_WIRE_JOIN_RECALL)
            assert_false(lli_answers_input(&answers, &join, now));
    }
    join.kind = LLI_WIRE_JOIN_RECALL;
    join.receiver = 0;
    assert_false(lli_answers_input(&answers, &join, now));
    expect_silence();
}

/* Ranges of any form, from anyone: every recorded packet that is sent was asked for, and the queues end. */
static void random_requests_are_answered_within_bounds(void **state)
{
    uint64_t random = 7;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        const struct lli_wire_address *to;
        struct lli_wire_join join = {.session = SESSION,
                                     .receiver = 1 + below(&random, 2000),
                                     .kind = (uint8_t)below(&random, 12),
                                     .from = (uint8_t)below(&random, 6),
                                     .value = lli_random(&random) >> below(&random, 64),
                                     .count = (uint16_t)below(&random, LLI_WIRE_FETCH_MAX + 1)};
        const lli_seq first = FIRST + below(&random, 50);
        lli_seq seq;

        join.address = address_of(join.receiver);
        join.token = chance(&random, 50) ? lli_token(&key, join.receiver, &join.address) : 0;
        for (uint16_t j = 0; j < join.count; j++)
            join.ranges[j] = (struct lli_wire_range){(uint32_t)FIRST + below(&random, 200) - 50,
                                                     (uint32_t)(lli_random(&random) >> below(&random, 64))};
        record(first, first + below(&random, 100), chance(&random, 10));
        (void)lli_answers_input(&answers, &join, now);
        if (chance(&random, 50))
            lli_answers_found(&answers, chance(&random, 90), FIRST + below(&random, 150), 0);
        for (uint32_t left = below(&random, 4); left > 0 && lli_answers_next(&answers, now, &seq, &to);
             left--) {
            assert_in_range(seq, answers.extent.first, FIRST + 150);
            if (seq >= answers.extent.end || chance(&random, 10))
                lli_answers_lacks(&answers, seq + 1 + below(&random, 20));
            else if (chance(&random, 10))
                lli_answers_defer(&answers);
            else
                lli_answers_sent(&answers, 1000);
        }
        if (chance(&random, 70))
            (void)next_answer();
        now += below(&random, 2000000);
    }
    while (next_answer().kind != 0)
        ;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_seek_is_answered_with_the_position, up, down),
        cmocka_unit_test_setup_teardown(a_position_that_is_not_recorded_is_refused, up, down),
        cmocka_unit_test_setup_teardown(a_recall_without_the_token_gets_only_the_token, up, down),
        cmocka_unit_test_setup_teardown(packets_of_a_receiver_are_sent_together_on_a_shared_budget, up, down),
        cmocka_unit_test_setup_teardown(a_receiver_that_recalls_all_the_time_leaves_turns_to_others, up,
                                        down),
        cmocka_unit_test_setup_teardown(packets_that_the_recording_lacks_are_named, up, down),
        cmocka_unit_test_setup_teardown(what_retention_removed_is_absent, up, down),
        cmocka_unit_test_setup_teardown(the_group_hears_what_is_recorded_every_second, up, down),
        cmocka_unit_test_setup_teardown(unconfirmed_addresses_get_a_bounded_number_of_answers, up, down),
        cmocka_unit_test_setup_teardown(an_answer_is_no_longer_than_the_seek, up, down),
        cmocka_unit_test_setup_teardown(other_packets_are_not_for_a_store, up, down),
        cmocka_unit_test_setup_teardown(random_requests_are_answered_within_bounds, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
