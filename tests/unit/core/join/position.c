/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <llm/llm.h>

#include "core/join/position.h"

#define MS ((lli_ns)1000000)

enum { PACKET_BYTES = 16, PACKETS_MAX = 4096, SLOTS = 512 };

/*
 * A session of packets that consist of a header; `starts`: the first message that starts in each packet or
 * later.
 */
struct world {
    struct lli_history history;
    struct lli_time_index times;
    struct lli_arena arena;
    struct lli_position_stream stream;
    uint64_t starts[PACKETS_MAX + 1];
    lli_ns sent_at[PACKETS_MAX];
};

static struct world world;

static void world_place(const struct lli_history_config *config)
{
    lli_history_init(&world.history, config, &world.arena);
    lli_time_index_init(&world.times, config->start, &world.arena, 0);
}

static void world_make(lli_seq start, uint64_t number)
{
    const struct lli_history_config config = {
        .bytes = SLOTS * 64 * 2, .packets = SLOTS, .packet_max = PACKET_BYTES, .align = 64, .start = start};

    world.arena = (struct lli_arena){.memory = NULL};
    world_place(&config);
    arena_fill(&world.arena);
    world_place(&config);
    world.starts[0] = number;
    world.stream = (struct lli_position_stream){
        .history = &world.history,
        .times = &world.times,
        .start = start,
        .sent = start,
        .lead_number = number,
        .unacknowledged = UINT64_MAX,
        .topics = 3,
    };
}

static int world_free(void **state)
{
    (void)state;
    free(world.arena.memory);
    return 0;
}

/* Sends a packet in which this many messages start. */
static void world_send(uint64_t messages, lli_ns now)
{
    const uint64_t index = world.stream.sent - world.stream.start;
    const uint32_t number = (uint32_t)world.starts[index];
    uint8_t *packet = lli_history_open(&world.history, world.stream.sent);

    memset(packet, 0, PACKET_BYTES);
    lli_store_u32(packet + 12, number);
    lli_history_seal(&world.history, PACKET_BYTES);
    world.sent_at[index] = now;
    world.starts[index + 1] = world.starts[index] + messages;
    world.stream.sent++;
    world.stream.lead_number = world.starts[index + 1];
    lli_time_index_add(&world.times, world.stream.sent, world.history.trail, now);
}

static uint64_t start_of(lli_seq seq)
{
    return world.starts[seq - world.stream.start];
}

static struct lli_wire_join answer_to(enum llm_join_mode mode, uint64_t value, lli_ns now)
{
    struct lli_wire_join answer = {.from = (uint8_t)mode, .value = value};

    lli_position_answer(&world.stream, &answer, now);
    assert_true(answer.kind == LLI_WIRE_JOIN_GRANT || answer.kind == LLI_WIRE_JOIN_REFUSE);
    assert_int_equal(answer.lead, world.stream.sent);
    return answer;
}

static void refused(const struct lli_wire_join *answer, enum lli_wire_join_reason reason)
{
    const lli_seq oldest = lli_min(world.history.trail, world.stream.sent);

    assert_int_equal(answer->kind, LLI_WIRE_JOIN_REFUSE);
    assert_int_equal(answer->reason, reason);
    assert_int_equal(answer->packet, oldest);
    assert_int_equal(answer->number, start_of(oldest));
}

/* Checks that the granted packet contains the message: it does not start in a later packet. */
static void granted(const struct lli_wire_join *answer, uint64_t number)
{
    assert_int_equal(answer->kind, LLI_WIRE_JOIN_GRANT);
    assert_int_equal(answer->number, number);
    assert_int_equal(answer->topics, 3);
    assert_int_equal(answer->wanted, world.stream.lead_number);
    assert_true(answer->packet >= world.history.trail && answer->packet <= world.stream.sent);
    assert_true(start_of(answer->packet) <= number);
    assert_true(answer->packet == world.stream.sent || start_of(answer->packet + 1) > number);
}

static void check_number(uint64_t number)
{
    const struct lli_wire_join answer = answer_to(LLM_JOIN_NUMBER, number, 0);

    if (number > world.stream.lead_number)
        refused(&answer, LLI_WIRE_JOIN_NOT_SENT);
    else if (number < start_of(world.history.trail))
        refused(&answer, LLI_WIRE_JOIN_HISTORY);
    else
        granted(&answer, number);
    if (number > world.stream.lead_number)
        assert_int_equal(answer.wanted, number);
}

static void check_oldest(void)
{
    const struct lli_wire_join answer = answer_to(LLM_JOIN_OLDEST, 0, 0);
    const uint64_t packets = world.stream.sent - world.history.trail;

    assert_int_equal(answer.kind, LLI_WIRE_JOIN_GRANT);
    assert_int_equal(answer.number, start_of(answer.packet));
    assert_in_range(answer.packet - world.history.trail, 0, packets / 16);
    if (world.history.trail == world.stream.start)
        assert_int_equal(answer.packet, world.stream.start);
}

static void check_messages(uint64_t messages)
{
    const struct lli_wire_join answer = answer_to(LLM_JOIN_MESSAGES, messages, 0);
    const uint64_t lead = world.stream.lead_number;

    if (messages < lead && lead - messages >= start_of(world.history.trail))
        granted(&answer, lead - messages);
    else if (world.history.trail == world.stream.start)
        granted(&answer, start_of(world.stream.start));
    else
        refused(&answer, LLI_WIRE_JOIN_HISTORY);
}

static void check_time(lli_ns back, lli_ns now)
{
    const struct lli_wire_join answer = answer_to(LLM_JOIN_TIME, back, now);

    if (answer.kind == LLI_WIRE_JOIN_REFUSE) {
        refused(&answer, LLI_WIRE_JOIN_HISTORY);
        return;
    }
    assert_int_equal(answer.number, start_of(answer.packet));
    if (answer.packet > world.stream.start)
        assert_true(world.sent_at[answer.packet - 1 - world.stream.start] <= now - lli_min(back, now));
}

static void every_position_agrees_with_the_sent_packets(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t random = seed;
        lli_ns now = MS;

        world_make(chance(&random, 50) ? BEFORE_WRAP_32 : 1, chance(&random, 50) ? BEFORE_WRAP_33 : 0);
        for (uint32_t i = below(&random, PACKETS_MAX); i > 0; i--) {
            world_send(1 + below(&random, 5), now);
            now += below(&random, 3 * MS);
            if (!chance(&random, 5))
                continue;
            check_oldest();
            check_number(world.stream.lead_number - below(&random, 3000) + 20);
            check_messages(below(&random, 3000));
            check_time(below(&random, 2000) * MS, now);
        }
        world_free(state);
    }
}

static void a_position_in_a_continued_message_is_its_first_packet(void **state)
{
    struct lli_wire_join answer;

    (void)state;
    world_make(10, 0);
    world_send(1, MS);
    world_send(0, MS); /* the rest of that message */
    world_send(1, MS);
    assert_int_equal(lli_position_number(&world.stream, 11), 1);
    answer = answer_to(LLM_JOIN_NUMBER, 1, MS);
    assert_int_equal(answer.packet, 12);
    answer = answer_to(LLM_JOIN_NUMBER, 0, MS);
    assert_int_equal(answer.packet, 10);
}

static void joins_begin_no_later_than_the_oldest_unacknowledged_message(void **state)
{
    struct lli_wire_join answer;

    (void)state;
    world_make(10, 0);
    for (int i = 0; i < 10; i++)
        world_send(2, MS);
    world.stream.unacknowledged = 13;
    answer = answer_to(LLM_JOIN_NUMBER, 15, MS);
    assert_int_equal(answer.packet, 13);
    assert_int_equal(answer.number, 6);
    answer = answer_to(LLM_JOIN_NUMBER, 3, MS);
    assert_int_equal(answer.packet, 11);
    assert_int_equal(answer.number, 3);
}

static void the_join_mode_latest_needs_a_cache(void **state)
{
    struct lli_wire_join answer;

    (void)state;
    world_make(10, 0);
    world_send(2, MS);
    answer = answer_to(LLM_JOIN_LATEST, 0, MS);
    refused(&answer, LLI_WIRE_JOIN_NOTHING);
    world.stream.caches = true;
    answer = answer_to(LLM_JOIN_LATEST, 0, MS);
    granted(&answer, 2);
    assert_int_equal(answer.packet, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_agrees_with_the_sent_packets),
        cmocka_unit_test_teardown(a_position_in_a_continued_message_is_its_first_packet, world_free),
        cmocka_unit_test_teardown(joins_begin_no_later_than_the_oldest_unacknowledged_message, world_free),
        cmocka_unit_test_teardown(the_join_mode_latest_needs_a_cache, world_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
