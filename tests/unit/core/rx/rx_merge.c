/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of one stream that are merged at a receiver: each number is delivered, or reported lost, once. */
#include "session.h"

#include "core/base/hash.h"

enum { FIRST, SECOND, SESSIONS, STREAM = 77, EVENTS_MAX = 256, NUMBERS = 400 };

static struct {
    struct lli_rx rx[SESSIONS];
    struct lli_rx_config config;
    struct lli_rx_counters counters;
    struct lli_reorder reorder;
    struct lli_streams streams;
    uint64_t random;
    uint8_t *memory;
} shared;

static uint64_t bases[SESSIONS];
static uint32_t per_packet[SESSIONS];     /* messages in each packet */
static uint32_t skips[SESSIONS][NUMBERS]; /* numbers that a packet skips; 0: it has messages */
static bool merges[SESSIONS];
static uint8_t other;      /* added to the bytes of the second session's messages */
static uint32_t topic;     /* of the messages in packets */
static uint32_t announced; /* topics */
static lli_ns now;
static struct llm_event events[EVENTS_MAX]; /* other than SESSION_NEW */
static int events_count;
static uint64_t next; /* number that is to come: earlier ones were delivered or reported */
static uint64_t lost; /* numbers reported lost */
static uint32_t random_state;

static void shared_place(struct lli_arena *arena)
{
    lli_reorder_init(&shared.reorder, 128 * LLI_REORDER_CHUNK, PACKET_MAX, arena, arena);
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
    events_count = 0;
    next = lost = topic = announced = other = 0;
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
        bases[i] = 0;
        per_packet[i] = 1;
        merges[i] = true;
        memset(skips[i], 0, sizeof skips[i]);
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
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++) {
            assert_int_equal(item.messages[i].number, next);
            /* The bytes are those of this number. */
            assert_int_equal(*(const uint8_t *)item.messages[i].data, (uint8_t)next);
            next++;
        }
        if (item.kind != LLI_ITEM_EVENT || item.event.kind == LLM_EVENT_SESSION_NEW)
            continue;
        assert_true(events_count < EVENTS_MAX);
        events[events_count++] = item.event;
        if (item.event.kind == LLM_EVENT_GAP || item.event.kind == LLM_EVENT_STREAM_GAP) {
            assert_int_equal(item.event.first, next);
            assert_true(item.event.last >= next);
            lost += item.event.last + 1 - next;
            next = item.event.last + 1;
        }
    }
}

/* As src/engine/sessions.c does. */
static void take(int which, const uint8_t *packet, size_t size)
{
    struct lli_rx *rx = &shared.rx[which], *before;
    uint8_t *copy = exact_copy(packet, size);
    struct lli_rx_packet in = {.bytes = copy, .size = size};

    assert_int_equal(lli_wire_get_header(copy, size, &in.header, &in.body, &in.body_size), LLI_WIRE_OK);
    if (lli_rx_input(rx, &in, now))
        deliver(rx);
    if (lli_rx_asks_stream(rx)) {
        if (lli_rx_stream_ask(rx, shared.rx, SESSIONS, &before, &events[events_count])) {
            assert_null(before);
            lli_rx_stream_begin(rx, now);
            deliver(rx);
        } else {
            events_count += events[events_count].kind != 0;
        }
    }
    free(copy);
}

/* Returns the number in the session of the first message in a packet, or after it. */
static uint64_t number_at(int which, uint64_t index)
{
    uint64_t number = 0;

    for (uint64_t i = 0; i < index; i++)
        number += skips[which][i] > 0 ? skips[which][i] : per_packet[which];
    return number;
}

/* packets: sent so far. */
static void heartbeat(int which, uint64_t packets)
{
    const struct lli_wire_heartbeat heartbeat = {.session = SESSION + (uint64_t)which,
                                                 .lead = START + packets,
                                                 .trail = START,
                                                 .start = START,
                                                 .messages = number_at(which, packets),
                                                 .topics = announced,
                                                 .sent_at = ++now,
                                                 .interval_us = 10000,
                                                 .flags = LLI_WIRE_HEARTBEAT_YOUNG,
                                                 .address = {1, {'t'}},
                                                 .stream = STREAM,
                                                 .base = bases[which],
                                                 .merges = merges[which]};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    take(which, packet, lli_wire_put_heartbeat(packet, &heartbeat));
}

/* Receives packet number `index` of a session, from 0. */
static void data(int which, uint64_t index)
{
    const uint32_t skipped = skips[which][index], count = skipped > 0 ? 0 : per_packet[which];
    const uint64_t number = number_at(which, index);
    uint8_t packet[LLI_WIRE_DATA_HEADER + 64] = {0}, *at = packet + LLI_WIRE_DATA_HEADER;
    const struct lli_wire_header header = {
        .type = LLI_WIRE_DATA,
        .tag = (uint32_t)SESSION + (uint32_t)which,
        .seq = (uint32_t)(START + index),
        .number = (uint32_t)number,
        .size = (uint16_t)(LLI_WIRE_DATA_HEADER + (skipped > 0 ? LLI_FRAME_NUMBERS_SIZE : 2 + 2 * count))};

    lli_wire_put_header(packet, &header);
    if (skipped > 0)
        lli_frame_put_numbers(at, skipped);
    else
        lli_frame_put_topic(at, topic);
    at += lli_frame_topic_size(topic);
    for (uint32_t i = 0; i < count; i++) {
        *at++ = 1;
        *at++ = (uint8_t)(bases[which] + number + i + (which == SECOND ? other : 0));
    }
    now += US;
    take(which, packet, header.size);
}

/* The transmitter no longer has the packets before this one. */
static void gone(int which, uint64_t index)
{
    const struct lli_wire_reject reject = {
        .session = SESSION + (uint64_t)which, .trail = START + index, .reason = LLI_WIRE_GONE};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    take(which, packet, lli_wire_put_reject(packet, &reject));
}

/* Time passes, and what is due is sent, and is lost. */
static void wait_for(lli_ns time)
{
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;

    now += time;
    for (int i = 0; i < SESSIONS; i++) {
        while (lli_rx_control(&shared.rx[i], now, buffer, &packet))
            ;
        deliver(&shared.rx[i]);
    }
}

static void the_first_copy_is_delivered(void **state)
{
    (void)state;
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    per_packet[SECOND] = 2;
    for (uint64_t i = 0; i < 4; i++)
        data(FIRST, i);
    for (uint64_t i = 0; i < 3; i++)
        data(SECOND, i);
    for (uint64_t i = 4; i < 8; i++)
        data(FIRST, i);
    assert_int_equal(next, 8);
    assert_int_equal(shared.counters.messages_delivered, 8);
    assert_int_equal(shared.counters.messages_copies, 6);
    assert_int_equal(events_count, 0);
}

static void copies_with_other_bytes_are_reported_and_counted(void **state)
{
    (void)state;
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    for (uint64_t i = 0; i < 6; i++)
        data(FIRST, i);
    data(SECOND, 0);
    other = 1;
    for (uint64_t i = 1; i < 4; i++)
        data(SECOND, i);
    assert_int_equal(events_count, 1);
    assert_int_equal(events[0].kind, LLM_EVENT_DIVERGED);
    assert_int_equal(events[0].session, SESSION + SECOND);
    assert_int_equal(events[0].first, 1);
    assert_true(events[0].hash == lli_hash(&(uint8_t){1}, 1));
    assert_true(events[0].hash_copy == lli_hash(&(uint8_t){2}, 1));
    assert_int_equal(shared.counters.messages_diverged, 3);
    /* After one that agrees the next ones are reported again. */
    other = 0;
    data(SECOND, 4);
    other = 1;
    data(SECOND, 5);
    assert_int_equal(events_count, 2);
    assert_int_equal(events[1].first, 5);
    assert_int_equal(next, 6);
}

static void the_other_session_fills_a_gap(void **state)
{
    (void)state;
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    data(FIRST, 0);
    data(FIRST, 2);
    assert_int_equal(next, 1);
    for (uint64_t i = 0; i < 3; i++)
        data(SECOND, i);
    assert_int_equal(next, 3);
    /* The first goes on without its missing packet, once a heartbeat has told of it. */
    data(FIRST, 3);
    assert_int_equal(shared.rx[FIRST].gap.missing, 1);
    heartbeat(FIRST, 4);
    assert_int_equal(next, 4);
    assert_int_equal(shared.rx[FIRST].gap.missing, 0);
    assert_int_equal(shared.counters.packets_covered, 1);
    assert_int_equal(shared.counters.packets_lost, 0);
    assert_int_equal(events_count, 0);
}

static void the_name_of_a_topic_is_not_lost_with_a_packet_that_another_session_fills(void **state)
{
    (void)state;
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    /* The first one's packet announces the topic. */
    announced = 1;
    data(SECOND, 0);
    data(FIRST, 1);
    assert_int_equal(next, 1);
    heartbeat(FIRST, 2);
    assert_int_equal(shared.counters.packets_covered, 1);
    assert_true(shared.rx[FIRST].pending.slow_path & LLI_RX_LEARNING);
    assert_int_equal(next, 1);
    data(SECOND, 1);
    assert_int_equal(next, 2);
}

static void what_both_lost_is_reported_once(void **state)
{
    (void)state;
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    for (int which = 0; which < SESSIONS; which++) {
        data(which, 0);
        data(which, 3);
        heartbeat(which, 4);
        heartbeat(which, 4);
    }
    for (int i = 0; i < 10; i++)
        wait_for(50 * MS);
    assert_int_equal(next, 4);
    assert_int_equal(lost, 2);
    assert_int_equal(shared.counters.messages_lost, 2);
}

/* The second session lags by more than its window, and its transmitter has packets from 150 on only. */
static void the_second_falls_behind(void)
{
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    data(SECOND, 0);
    for (uint64_t i = 0; i < 100; i++)
        data(FIRST, i);
    heartbeat(SECOND, 151);
    heartbeat(SECOND, 151);
    wait_for(MS);
    gone(SECOND, 150);
    data(SECOND, 150);
    assert_int_equal(next, 100);
    /* It looks at the others. */
    assert_true(lli_rx_deadline(&shared.rx[SECOND]) <= now + MS);
}

static void the_others_are_asked_for_what_is_gone(void **state)
{
    (void)state;
    the_second_falls_behind();
    /* The first is slow, but not silent. */
    for (uint64_t i = 100; i < 150; i++) {
        wait_for(20 * MS);
        heartbeat(SECOND, 151);
        data(SECOND, 150);
        data(FIRST, i);
        assert_int_equal(lost, 0);
    }
    data(SECOND, 151);
    assert_int_equal(next, 152);
    assert_int_equal(lost, 0);
}

static void what_is_gone_is_lost_if_the_others_are_silent(void **state)
{
    (void)state;
    the_second_falls_behind();
    for (int i = 0; i < 20 && next < 151; i++) {
        heartbeat(SECOND, 151);
        wait_for(50 * MS);
    }
    assert_int_equal(next, 151);
    assert_int_equal(lost, 50);
}

static void a_session_that_begins_later_waits_for_its_turn(void **state)
{
    (void)state;
    bases[SECOND] = 5;
    heartbeat(FIRST, 0);
    data(FIRST, 0);
    data(SECOND, 0);
    heartbeat(SECOND, 1);
    data(SECOND, 1);
    assert_int_equal(next, 1);
    for (uint64_t i = 1; i < 6; i++)
        data(FIRST, i);
    assert_int_equal(next, 6);
    data(SECOND, 2);
    assert_int_equal(next, 8);
    assert_int_equal(events_count, 0);
    assert_int_equal(shared.counters.streams_continued, 1);
}

static void numbers_that_no_session_has_are_missing_in_the_stream(void **state)
{
    (void)state;
    bases[SECOND] = 5;
    heartbeat(FIRST, 0);
    data(FIRST, 0);
    /* The first has died. */
    data(SECOND, 0);
    for (int i = 0; i < 20 && next < 6; i++) {
        heartbeat(SECOND, 1);
        wait_for(50 * MS);
    }
    assert_int_equal(next, 6);
    assert_int_equal(lost, 4);
    assert_int_equal(shared.counters.stream_messages_missing, 4);
}

static void refused_messages_are_not_missing(void **state)
{
    (void)state;
    bases[SECOND] = 3;
    heartbeat(FIRST, 0);
    lli_rx_topic_refuse(&shared.rx[FIRST], 1);
    data(FIRST, 0);
    topic = 1;
    data(FIRST, 1);
    data(FIRST, 2);
    assert_int_equal(shared.counters.messages_refused, 2);
    next = 3;
    topic = 0;
    heartbeat(SECOND, 0);
    data(SECOND, 0);
    assert_int_equal(next, 4);
    data(FIRST, 3);
    data(FIRST, 4);
    assert_int_equal(next, 5);
    assert_int_equal(shared.counters.messages_copies, 1);
    assert_int_equal(shared.counters.stream_messages_missing, 0);
}

static void a_session_without_the_flag_is_not_merged(void **state)
{
    (void)state;
    merges[SECOND] = false;
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    assert_int_equal(events_count, 1);
    assert_int_equal(events[0].kind, LLM_EVENT_STREAM_REFUSED);
    assert_int_equal(events[0].reason, LLM_REASON_TERM_TAKEN);
}

static void the_other_session_has_what_one_skips(void **state)
{
    (void)state;
    skips[FIRST][1] = 3;
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    for (uint64_t i = 0; i < 4; i++)
        data(FIRST, i);
    /* 4 and 5 are there, and wait. */
    assert_int_equal(next, 1);
    assert_true(lli_rx_deadline(&shared.rx[FIRST]) <= now + MS);
    data(SECOND, 0);
    for (uint64_t i = 1; i < 4; i++)
        data(SECOND, i);
    assert_int_equal(next, 4);
    wait_for(MS);
    assert_int_equal(next, 6);
    data(SECOND, 4);
    data(SECOND, 5);
    data(SECOND, 6);
    assert_int_equal(next, 7);
    assert_int_equal(events_count, 0);
    assert_int_equal(shared.counters.messages_lost, 0);
    assert_int_equal(shared.counters.messages_copies, 3);
}

static void what_was_delivered_before_is_skipped_at_once(void **state)
{
    (void)state;
    skips[SECOND][1] = 3;
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    for (uint64_t i = 0; i < 4; i++)
        data(FIRST, i);
    for (uint64_t i = 0; i < 3; i++)
        data(SECOND, i);
    assert_int_equal(next, 5);
    assert_int_equal(events_count, 0);
}

static void what_both_skip_is_told_once(void **state)
{
    (void)state;
    /* 1 to 3, and 2 to 5. */
    skips[FIRST][1] = 3;
    skips[SECOND][2] = 4;
    for (int which = 0; which < SESSIONS; which++)
        heartbeat(which, 0);
    for (uint64_t i = 0; i < 5; i++)
        data(FIRST, i);
    assert_int_equal(next, 1);
    for (uint64_t i = 0; i < 5; i++)
        data(SECOND, i);
    wait_for(MS);
    wait_for(MS);
    data(FIRST, 5);
    assert_int_equal(next, 8);
    assert_int_equal(events_count, 1);
    assert_int_equal(events[0].kind, LLM_EVENT_GAP);
    assert_int_equal(events[0].reason, LLM_REASON_SKIPPED);
    assert_int_equal(events[0].first, 2);
    assert_int_equal(events[0].last, 3);
    assert_int_equal(events[0].packets, 0);
    assert_int_equal(shared.counters.messages_lost, 2);
}

static void skipped_numbers_are_lost_if_the_other_session_is_silent(void **state)
{
    int gaps = 0;

    (void)state;
    skips[FIRST][1] = 3;
    heartbeat(FIRST, 0);
    heartbeat(SECOND, 0);
    data(FIRST, 0);
    data(FIRST, 1);
    data(FIRST, 2);
    for (int i = 0; i < 20 && next < 5; i++) {
        heartbeat(FIRST, 3);
        wait_for(50 * MS);
    }
    assert_int_equal(next, 5);
    assert_int_equal(lost, 3);
    for (int i = 0; i < events_count; i++) {
        assert_true(events[i].kind == LLM_EVENT_GAP || events[i].kind == LLM_EVENT_HEARTBEAT_LOST);
        gaps += events[i].kind == LLM_EVENT_GAP && events[i].reason == LLM_REASON_SKIPPED;
    }
    assert_int_equal(gaps, 1);
}

static uint32_t draw(uint32_t limit)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % limit;
}

/*
 * Two transmitters with packets of other lengths, numbers that they skip, loss, repairs for some of it, pauses, and a death. Each
 * number is accounted for once, in order, which deliver() checks.
 */
static void history(uint32_t seed)
{
    uint64_t sent[SESSIONS] = {0}, packets[SESSIONS];
    bool dead[SESSIONS] = {false};
    uint32_t loss;

    random_state = seed;
    loss = draw(30);
    for (int which = 0; which < SESSIONS; which++) {
        per_packet[which] = 1 + draw(3);
        packets[which] = (NUMBERS / 2) / per_packet[which];
        for (uint64_t i = 0; i < packets[which]; i++)
            skips[which][i] = draw(30) == 0 ? 1 + draw(12) : 0;
        heartbeat(which, 0);
    }
    for (int step = 0; step < 4 * NUMBERS; step++) {
        const int which = (int)draw(SESSIONS);

        if (dead[which])
            continue;
        if (draw(300) == 0 && !dead[1 - which])
            dead[which] = true;
        if (sent[which] < packets[which] && draw(4) != 0) {
            if (draw(100) >= loss)
                data(which, sent[which]);
            sent[which]++;
        } else if (draw(8) == 0) {
            heartbeat(which, sent[which]);
        } else if (draw(2) == 0 && sent[which] > 0) {
            const uint64_t index = sent[which] - 1 - draw((uint32_t)lli_min(sent[which], 8));

            /* A repair, or a copy. */
            if (draw(3) != 0)
                data(which, index);
        }
        if (draw(40) == 0 && sent[which] > 0)
            gone(which, draw((uint32_t)sent[which]));
        if (draw(20) == 0)
            wait_for(draw(3) == 0 ? 30 * MS : 50 * US);
    }
    for (int i = 0; i < 60; i++) {
        for (int which = 0; which < SESSIONS; which++) {
            if (dead[which])
                continue;
            heartbeat(which, sent[which]);
            /* A packet is given up only if a later one was received. */
            if (sent[which] > 0)
                data(which, lli_min(sent[which], shared.rx[which].gap.end - START) - 1);
        }
        wait_for(50 * MS);
    }
    /* Everything that a living session sent is accounted for. */
    for (int which = 0; which < SESSIONS; which++)
        assert_true(dead[which] || next >= number_at(which, sent[which]));
}

static void random_histories_are_one_sequence(void **state)
{
    uint64_t covered = 0, reported = 0;

    for (uint32_t seed = 1; seed <= 400; seed++) {
        if (seed > 1) {
            (void)down(state);
            (void)up(state);
        }
        history(seed);
        covered += shared.counters.packets_covered;
        reported += lost;
    }
    /* Both happen. */
    assert_true(covered > 100);
    assert_true(reported > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_copy_is_delivered, up, down),
        cmocka_unit_test_setup_teardown(copies_with_other_bytes_are_reported_and_counted, up, down),
        cmocka_unit_test_setup_teardown(the_other_session_fills_a_gap, up, down),
        cmocka_unit_test_setup_teardown(
            the_name_of_a_topic_is_not_lost_with_a_packet_that_another_session_fills, up, down),
        cmocka_unit_test_setup_teardown(what_both_lost_is_reported_once, up, down),
        cmocka_unit_test_setup_teardown(the_others_are_asked_for_what_is_gone, up, down),
        cmocka_unit_test_setup_teardown(what_is_gone_is_lost_if_the_others_are_silent, up, down),
        cmocka_unit_test_setup_teardown(a_session_that_begins_later_waits_for_its_turn, up, down),
        cmocka_unit_test_setup_teardown(numbers_that_no_session_has_are_missing_in_the_stream, up, down),
        cmocka_unit_test_setup_teardown(the_other_session_has_what_one_skips, up, down),
        cmocka_unit_test_setup_teardown(what_was_delivered_before_is_skipped_at_once, up, down),
        cmocka_unit_test_setup_teardown(what_both_skip_is_told_once, up, down),
        cmocka_unit_test_setup_teardown(skipped_numbers_are_lost_if_the_other_session_is_silent, up, down),
        cmocka_unit_test_setup_teardown(refused_messages_are_not_missing, up, down),
        cmocka_unit_test_setup_teardown(a_session_without_the_flag_is_not_merged, up, down),
        cmocka_unit_test_setup_teardown(random_histories_are_one_sequence, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
