/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of one receiver that share the reorder buffer: one genuine, and one forged. */
#include "session.h"

enum { PACKETS = 32, GENUINE = 0, INVENTED = 1 };

static struct {
    struct lli_rx rx[2];
    struct lli_rx_config config;
    struct lli_rx_counters counters;
    struct lli_reorder reorder;
    uint64_t random;
    uint8_t *memory;
} shared;

static lli_ns now;
static uint64_t delivered[2];

static void shared_place(struct lli_arena *arena)
{
    lli_reorder_init(&shared.reorder, PACKETS * LLI_REORDER_CHUNK, PACKET_MAX, arena, arena);
    for (int i = 0; i < 2; i++)
        lli_rx_init(&shared.rx[i], &shared.config, &shared.reorder, &shared.counters, &shared.random, arena,
                    arena);
}

static int up_with(bool as_it_arrives)
{
    struct lli_arena arena = {.memory = NULL};

    now = 100 * MS;
    memset(&shared, 0, sizeof shared);
    memset(delivered, 0, sizeof delivered);
    shared.config = rx_config();
    shared.config.as_it_arrives = as_it_arrives;
    shared.random = 1;
    shared_place(&arena);
    arena_fill(&arena);
    shared.memory = arena.memory;
    shared_place(&arena);
    for (int i = 0; i < 2; i++)
        lli_rx_start(&shared.rx[i], (uint32_t)SESSION + (uint32_t)i, now);
    return 0;
}

static int up(void **state)
{
    (void)state;
    return up_with(false);
}

static int up_unordered(void **state)
{
    (void)state;
    return up_with(true);
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        lli_rx_stop(&shared.rx[i]);
    assert_int_equal(shared.reorder.used, 0);
    assert_int_equal(shared.reorder.left, shared.reorder.count);
    free(shared.memory);
    return 0;
}

static void take(int which, uint8_t *packet, size_t size)
{
    struct lli_rx_packet in = {.bytes = packet, .size = size};
    struct lli_item item;

    assert_int_equal(lli_wire_get_header(packet, size, &in.header, &in.body, &in.body_size), LLI_WIRE_OK);
    if (!lli_rx_input(&shared.rx[which], &in, now))
        return;
    while (lli_rx_next(&shared.rx[which], now, &item))
        if (item.kind == LLI_ITEM_MESSAGES)
            delivered[which] += (uint64_t)item.count;
}

static void heartbeat(int which, lli_seq lead)
{
    const struct lli_wire_heartbeat heartbeat = {.session = SESSION + (uint64_t)which,
                                                 .lead = lead,
                                                 .trail = START,
                                                 .start = START,
                                                 .messages = lead - START,
                                                 .sent_at = ++now,
                                                 .interval_us = 10000,
                                                 .flags = LLI_WIRE_HEARTBEAT_YOUNG,
                                                 .address = {1, {'t'}}};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    take(which, packet, lli_wire_put_heartbeat(packet, &heartbeat));
}

/* Receives a packet with one message of one byte. */
static void data(int which, lli_seq seq)
{
    uint8_t packet[LLI_WIRE_DATA_HEADER + 2] = {0};
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .tag = (uint32_t)SESSION + (uint32_t)which,
                                           .seq = (uint32_t)seq,
                                           .number = (uint32_t)(seq - START),
                                           .size = sizeof packet};

    lli_wire_put_header(packet, &header);
    packet[LLI_WIRE_DATA_HEADER] = 1;
    take(which, packet, sizeof packet);
}

/* Sends all packets of the genuine session but the first, then the first. */
static void genuine_loses_one(lli_seq count)
{
    for (lli_seq seq = START + 1; seq < START + count; seq++)
        data(GENUINE, seq);
    data(GENUINE, START);
}

static void early_packets_of_an_invented_tag_are_evicted(void **state)
{
    (void)state;
    heartbeat(GENUINE, START);
    for (lli_seq seq = START; seq < START + WINDOW; seq++)
        data(INVENTED, seq);
    assert_int_equal(shared.reorder.left, 0);
    genuine_loses_one(PACKETS / 2);
    assert_int_equal(delivered[GENUINE], PACKETS / 2);
}

static void early_packets_of_an_invented_session_are_evicted_to_a_share(void **state)
{
    (void)state;
    heartbeat(GENUINE, START);
    heartbeat(INVENTED, START);
    for (lli_seq seq = START + 1; seq < START + WINDOW; seq++)
        data(INVENTED, seq);
    assert_int_equal(shared.reorder.left, 0);
    genuine_loses_one(PACKETS / 2);
    assert_int_equal(delivered[GENUINE], PACKETS / 2);
    /* The other session loses nothing: its dropped packets are repaired. */
    for (lli_seq seq = START; seq < START + WINDOW; seq++)
        data(INVENTED, seq);
    assert_int_equal(delivered[INVENTED], WINDOW);
}

static void one_session_may_use_all_otherwise_unused_memory(void **state)
{
    (void)state;
    heartbeat(GENUINE, START);
    for (lli_seq seq = START + 1; seq < START + 1 + PACKETS; seq++)
        data(GENUINE, seq);
    assert_int_equal(shared.reorder.left, 0);
    assert_int_equal(shared.counters.reorder_full, 0);
    /* Another session can use at most as much as the first. */
    heartbeat(INVENTED, START);
    for (lli_seq seq = START + 1; seq < START + 1 + PACKETS; seq++)
        data(INVENTED, seq);
    assert_in_range(shared.rx[GENUINE].buffer.chunks, PACKETS / 2, PACKETS / 2 + 1);
}

/* Messages given of a packet stay known until its turn, so only packets without any give way. */
static void packets_with_delivered_messages_are_not_evicted(void **state)
{
    (void)state;
    heartbeat(GENUINE, START);
    heartbeat(INVENTED, START);
    for (lli_seq seq = START + 1; seq < START + 1 + PACKETS; seq++)
        data(GENUINE, seq);
    data(INVENTED, START + 1);
    assert_int_equal(shared.rx[GENUINE].buffer.chunks, PACKETS);
    assert_int_equal(shared.counters.reorder_full, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(early_packets_of_an_invented_tag_are_evicted, up, down),
        cmocka_unit_test_setup_teardown(early_packets_of_an_invented_session_are_evicted_to_a_share, up,
                                        down),
        cmocka_unit_test_setup_teardown(one_session_may_use_all_otherwise_unused_memory, up, down),
        cmocka_unit_test_setup_teardown(early_packets_of_an_invented_tag_are_evicted, up_unordered, down),
        cmocka_unit_test_setup_teardown(packets_with_delivered_messages_are_not_evicted, up_unordered, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
