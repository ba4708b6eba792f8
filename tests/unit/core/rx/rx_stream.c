/* SPDX-License-Identifier: Apache-2.0 */
/* Two sessions of one stream at a receiver: when the second continues the first, and what is reported. */
#include "session.h"

enum { FIRST, SECOND, SESSIONS, EVENTS_MAX = 16, STREAM = 77 };

static struct {
    struct lli_rx rx[SESSIONS];
    struct lli_rx_config config;
    struct lli_rx_counters counters;
    struct lli_reorder reorder;
    struct lli_streams streams;
    uint64_t random;
    uint8_t *memory;
} shared;

static struct lli_stream_claim claims[SESSIONS];
static lli_ns now;
static struct llm_event events[EVENTS_MAX];
static int events_count;
static uint64_t numbers[64]; /* of the messages delivered, in the stream */
static int numbers_count;

static void shared_place(struct lli_arena *arena)
{
    lli_reorder_init(&shared.reorder, 64 * LLI_REORDER_CHUNK, PACKET_MAX, arena, arena);
    lli_streams_init(&shared.streams, 4, arena);
    for (int i = 0; i < SESSIONS; i++)
        lli_rx_init(&shared.rx[i], &shared.config, &shared.reorder, &shared.counters, &shared.random, arena,
                    arena);
}

static int up(void **state)
{
    struct lli_arena arena = {.memory = NULL};

    (void)state;
    now = 100 * MS;
    events_count = numbers_count = 0;
    memset(&shared, 0, sizeof shared);
    shared.config = rx_config();
    shared.config.streams = &shared.streams;
    shared.random = 1;
    shared_place(&arena);
    arena_fill(&arena);
    shared.memory = arena.memory;
    shared_place(&arena);
    for (int i = 0; i < SESSIONS; i++) {
        lli_rx_start(&shared.rx[i], (uint32_t)SESSION + (uint32_t)i, now);
        claims[i] = (struct lli_stream_claim){.stream = STREAM, .term = (uint32_t)i};
    }
    return 0;
}

static int down(void **state)
{
    (void)state;
    for (int i = 0; i < SESSIONS; i++)
        lli_rx_stop(&shared.rx[i]);
    assert_int_equal(shared.reorder.used, 0);
    free(shared.memory);
    return 0;
}

static void deliver(struct lli_rx *rx)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        /* The application does not answer. */
        if (item.kind == LLI_ITEM_JOIN)
            return;
        if (item.kind == LLI_ITEM_EVENT)
            events[events_count++] = item.event;
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++)
            numbers[numbers_count++] = rx->stream.claim.base + item.messages[i].number;
        assert_true(events_count < EVENTS_MAX);
    }
}

/* As src/engine/sessions.c does. */
static void take(int which, uint8_t *packet, size_t size)
{
    struct lli_rx *rx = &shared.rx[which], *before;
    struct lli_rx_packet in = {.bytes = packet, .size = size};

    assert_int_equal(lli_wire_get_header(packet, size, &in.header, &in.body, &in.body_size), LLI_WIRE_OK);
    if (lli_rx_input(rx, &in, now))
        deliver(rx);
    if (!lli_rx_asks_stream(rx))
        return;
    if (!lli_rx_stream_ask(rx, shared.rx, SESSIONS, &before, &events[events_count])) {
        events_count += events[events_count].kind != 0;
        return;
    }
    if (before != NULL)
        deliver(before);
    lli_rx_stream_begin(rx, now);
    deliver(rx);
}

static void heartbeat_with(int which, lli_seq lead, uint8_t flags)
{
    const struct lli_wire_heartbeat heartbeat = {.session = SESSION + (uint64_t)which,
                                                 .lead = lead,
                                                 .trail = START,
                                                 .start = START,
                                                 .messages = lead - START,
                                                 .sent_at = ++now,
                                                 .interval_us = 10000,
                                                 .flags = LLI_WIRE_HEARTBEAT_YOUNG | flags,
                                                 .address = {1, {'t'}},
                                                 .stream = claims[which].stream,
                                                 .base = claims[which].base,
                                                 .term = claims[which].term};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    take(which, packet, lli_wire_put_heartbeat(packet, &heartbeat));
}

static void heartbeat(int which, lli_seq lead)
{
    heartbeat_with(which, lead, 0);
}

/* Receives packets with one message of one byte each. */
static void data(int which, lli_seq first, lli_seq end)
{
    for (lli_seq seq = first; seq < end; seq++) {
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
}

static void expect_event(int index, enum llm_event_kind kind, enum llm_reason reason, uint64_t first,
                         uint64_t last)
{
    assert_true(index < events_count);
    assert_int_equal(events[index].kind, kind);
    assert_int_equal(events[index].reason, reason);
    assert_int_equal(events[index].first, first);
    assert_int_equal(events[index].last, last);
}

static void what_is_buffered_is_delivered_before_the_next_session_begins(void **state)
{
    (void)state;
    claims[SECOND].base = 6;
    heartbeat(FIRST, START);
    data(FIRST, START, START + 3);
    /* Number 3 is lost, and 6 to 9 as well, of which the next session sends the first three again. */
    data(FIRST, START + 4, START + 6);
    heartbeat(FIRST, START + 10);
    data(SECOND, START, START + 2);
    heartbeat(SECOND, START + 2);
    assert_int_equal(numbers_count, 3);
    heartbeat(SECOND, START + 2);
    assert_int_equal(numbers_count, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(numbers[i], i < 3 ? i : i + 1);
    assert_int_equal(events_count, 4);
    expect_event(0, LLM_EVENT_SESSION_NEW, LLM_REASON_NONE, 0, 0);
    expect_event(1, LLM_EVENT_GAP, LLM_REASON_SUPERSEDED, 3, 3);
    expect_event(2, LLM_EVENT_SESSION_END, LLM_REASON_SUPERSEDED, 6, 0);
    expect_event(3, LLM_EVENT_SESSION_NEW, LLM_REASON_NONE, 0, 0);
    assert_int_equal(events[3].stream, STREAM);
    assert_int_equal(shared.rx[FIRST].state, LLI_RX_ENDED);
    assert_int_equal(shared.counters.messages_lost, 1);
}

static void the_missing_end_is_a_gap_of_the_stream(void **state)
{
    (void)state;
    claims[SECOND].base = 10;
    heartbeat(FIRST, START);
    data(FIRST, START, START + 3);
    heartbeat(FIRST, START + 10);
    heartbeat(SECOND, START);
    heartbeat(SECOND, START);
    assert_int_equal(events_count, 4);
    expect_event(1, LLM_EVENT_SESSION_END, LLM_REASON_SUPERSEDED, 3, 0);
    expect_event(3, LLM_EVENT_STREAM_GAP, LLM_REASON_RESTARTED, 3, 9);
    assert_int_equal(shared.counters.messages_lost, 0);
    assert_int_equal(shared.counters.stream_messages_missing, 7);
}

static void packets_of_the_session_that_ended_change_nothing(void **state)
{
    (void)state;
    claims[SECOND].base = 3;
    heartbeat(FIRST, START);
    data(FIRST, START, START + 3);
    heartbeat(SECOND, START);
    heartbeat(SECOND, START);
    data(FIRST, START + 3, START + 5);
    heartbeat(FIRST, START + 5);
    heartbeat_with(FIRST, START + 5, LLI_WIRE_HEARTBEAT_END);
    assert_int_equal(events_count, 3);
    assert_int_equal(numbers_count, 3);
    assert_int_equal(shared.counters.packets_stale, 2);
    /* It is refused if its place was needed, and it is heard again. */
    lli_rx_stop(&shared.rx[FIRST]);
    lli_rx_start(&shared.rx[FIRST], (uint32_t)SESSION, now);
    heartbeat(FIRST, START + 5);
    expect_event(3, LLM_EVENT_STREAM_REFUSED, LLM_REASON_SUPERSEDED, 0, 0);
    assert_int_equal(shared.rx[FIRST].state, LLI_RX_REFUSED);
    data(SECOND, START, START + 1);
    assert_int_equal(numbers[3], 3);
}

static void a_session_that_is_silent_is_continued_at_once(void **state)
{
    (void)state;
    claims[SECOND].term = claims[FIRST].term;
    heartbeat(FIRST, START);
    data(FIRST, START, START + 2);
    heartbeat(SECOND, START);
    heartbeat(SECOND, START);
    heartbeat(SECOND, START);
    assert_int_equal(events_count, 2);
    expect_event(1, LLM_EVENT_STREAM_REFUSED, LLM_REASON_TERM_TAKEN, 0, 0);
    shared.rx[FIRST].heard.silent = true;
    heartbeat(SECOND, START);
    assert_int_equal(events_count, 5);
    expect_event(2, LLM_EVENT_SESSION_END, LLM_REASON_SUPERSEDED, 2, 0);
    expect_event(4, LLM_EVENT_STREAM_AGAIN, LLM_REASON_RESTARTED, 0, 1);
}

static void a_session_that_did_not_begin_yet_gives_way(void **state)
{
    (void)state;
    shared.config.chooses = true;
    heartbeat(FIRST, START);
    assert_int_equal(shared.rx[FIRST].state, LLI_RX_REQUESTING);
    shared.config.chooses = false;
    heartbeat(SECOND, START);
    heartbeat(SECOND, START);
    assert_int_equal(shared.rx[FIRST].state, LLI_RX_FREE);
    assert_int_equal(events_count, 1);
    expect_event(0, LLM_EVENT_SESSION_NEW, LLM_REASON_NONE, 0, 0);
}

static void a_receiver_without_streams_follows_both(void **state)
{
    (void)state;
    shared.config.streams = NULL;
    heartbeat(FIRST, START);
    heartbeat(SECOND, START);
    assert_int_equal(shared.rx[FIRST].state, LLI_RX_LIVE);
    assert_int_equal(shared.rx[SECOND].state, LLI_RX_LIVE);
    assert_int_equal(events_count, 2);
    assert_int_equal(events[1].stream, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_buffered_is_delivered_before_the_next_session_begins, up,
                                        down),
        cmocka_unit_test_setup_teardown(the_missing_end_is_a_gap_of_the_stream, up, down),
        cmocka_unit_test_setup_teardown(packets_of_the_session_that_ended_change_nothing, up, down),
        cmocka_unit_test_setup_teardown(a_session_that_is_silent_is_continued_at_once, up, down),
        cmocka_unit_test_setup_teardown(a_session_that_did_not_begin_yet_gives_way, up, down),
        cmocka_unit_test_setup_teardown(a_receiver_without_streams_follows_both, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
