/* SPDX-License-Identifier: Apache-2.0 */
/* A session on two lines: second copies, losses on one line and on both, requests, and lines that go down. */
#include "session.h"

enum { A, B, EVENTS_MAX = 16 };

static struct receiver receiver;
static lli_ns now;
static uint64_t delivered;
static struct llm_event events[EVENTS_MAX];
static int events_count;
static uint64_t sent_at;

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(&receiver.rx, now, &item)) {
        if (item.kind == LLI_ITEM_MESSAGES) {
            assert_int_equal(item.messages[0].number, delivered);
            delivered += (uint64_t)item.count;
        } else if (item.kind == LLI_ITEM_EVENT && item.event.kind != LLM_EVENT_SESSION_NEW) {
            assert_true(events_count < EVENTS_MAX);
            events[events_count++] = item.event;
        }
    }
}

static void take(int line, const uint8_t *packet, size_t size)
{
    uint8_t *copy = exact_copy(packet, size);
    struct lli_rx_packet in = {.bytes = copy, .size = size, .line = (uint8_t)line};

    assert_int_equal(lli_wire_get_header(copy, size, &in.header, &in.body, &in.body_size), LLI_WIRE_OK);
    if (lli_rx_input(&receiver.rx, &in, now))
        pull();
    free(copy);
}

/* As src/engine/sessions.c does. Returns true if the packet was dropped as a second copy. */
static bool data(int line, lli_seq seq)
{
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .size = LLI_WIRE_DATA_HEADER + 2,
                                           .tag = (uint32_t)SESSION,
                                           .seq = (uint32_t)seq,
                                           .number = (uint32_t)(seq - START)};
    uint8_t packet[LLI_WIRE_DATA_HEADER + 2];

    lli_wire_put_header(packet, &header);
    packet[LLI_WIRE_DATA_HEADER] = 1; /* a message of one byte */
    packet[LLI_WIRE_DATA_HEADER + 1] = 'm';
    if (receiver.rx.state == LLI_RX_LIVE && lli_rx_line_data(&receiver.rx, line, (uint32_t)seq, now))
        return true;
    take(line, packet, sizeof packet);
    return false;
}

static struct lli_wire_address address_on(int line)
{
    return (struct lli_wire_address){1, {line == A ? 'a' : 'b'}};
}

static void heartbeat_of(int line, lli_seq lead, uint64_t at)
{
    const struct lli_wire_heartbeat heartbeat = {.session = SESSION,
                                                 .lead = lead,
                                                 .trail = START,
                                                 .start = START,
                                                 .messages = lead - START,
                                                 .sent_at = at,
                                                 .interval_us = 10000,
                                                 .flags = LLI_WIRE_HEARTBEAT_YOUNG,
                                                 .address = address_on(line)};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    take(line, packet, lli_wire_put_heartbeat(packet, &heartbeat));
}

static void heartbeats(lli_seq lead)
{
    sent_at = now;
    heartbeat_of(A, lead, sent_at);
    heartbeat_of(B, lead, sent_at);
}

static void token_on(int line, uint64_t token)
{
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    take(line, packet,
         lli_wire_put_join(packet, &(struct lli_wire_join){.session = SESSION,
                                                           .receiver = RECEIVER,
                                                           .kind = LLI_WIRE_JOIN_TOKEN,
                                                           .token = token}));
}

/* Sends what is due; returns the NAKs among it: the line, the first packet, and how many packets. */
struct request {
    int count;
    int line;
    uint32_t first;
    uint32_t packets;
    uint64_t token;
};

static int line_of(const struct lli_packet *packet)
{
    assert_int_equal(packet->to->size, 1);
    return packet->to->bytes[0] == 'a' ? A : B;
}

static struct request speak(void)
{
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct request request = {.count = 0};
    struct lli_packet packet;

    while (lli_rx_control(&receiver.rx, now, buffer, &packet)) {
        struct lli_wire_header header = {.type = 0};
        struct lli_wire_nak nak;
        const uint8_t *body;
        size_t size;

        assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
        if (header.type != LLI_WIRE_NAK)
            continue;
        assert_true(lli_wire_get_nak(body, size, header.tag, &nak));
        request = (struct request){request.count + 1, line_of(&packet), nak.ranges[0].first,
                                   nak.ranges[0].count, nak.token};
    }
    pull();
    return request;
}

static uint64_t token_of_next_report(int *line)
{
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    struct lli_packet packet;

    for (now += MS;; now += MS)
        while (lli_rx_control(&receiver.rx, now, buffer, &packet)) {
            struct lli_wire_header header = {.type = 0};
            struct lli_wire_status status;
            const uint8_t *body;
            size_t size;

            assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size),
                             LLI_WIRE_OK);
            if (header.type != LLI_WIRE_STATUS)
                continue;
            assert_true(lli_wire_get_status(body, size, header.tag, &status));
            *line = line_of(&packet);
            return status.token;
        }
}

/* Follows the session from its first packet, with both lines known, and no lateness measured. */
static int up(void **state)
{
    (void)state;
    memset(&receiver, 0, sizeof receiver);
    now = 100 * MS;
    delivered = 0;
    events_count = 0;
    receiver.config = rx_config();
    receiver.config.lines = 2;
    receiver.random = 1;
    receiver_make(&receiver, 64, now);
    heartbeats(START);
    assert_int_equal(receiver.rx.state, LLI_RX_LIVE);
    (void)speak();
    return 0;
}

static int down(void **state)
{
    (void)state;
    receiver_unmake(&receiver);
    return 0;
}

/* Measures that line B is this much later than line A. */
static lli_seq measure(lli_seq seq, lli_ns late)
{
    for (int i = 0; i < 100; i++, seq++) {
        assert_false(data(A, seq));
        now += late;
        assert_true(data(B, seq));
        now += 10 * US;
    }
    return seq;
}

/* ---------------------------------------------------------------------------------------------- packets */

static void the_second_copy_is_dropped(void **state)
{
    (void)state;
    for (lli_seq seq = START; seq < START + 10; seq++) {
        assert_false(data(seq % 2 == 0 ? A : B, seq));
        assert_true(data(seq % 2 == 0 ? B : A, seq));
    }
    assert_int_equal(delivered, 10);
    assert_int_equal(receiver.counters.line_1_first, 5);
    assert_int_equal(receiver.counters.line_2_first, 5);
    assert_int_equal(receiver.counters.line_1_second, 5);
    assert_int_equal(receiver.counters.line_2_second, 5);
    assert_int_equal(receiver.counters.packets_received, 10);
    assert_int_equal(receiver.counters.packets_duplicate, 0);
}

static void a_loss_on_one_line_is_filled_by_the_other(void **state)
{
    lli_seq seq = measure(START, 50 * US);

    (void)state;
    assert_false(data(A, seq + 1));
    assert_int_equal(speak().count, 0);
    now += 50 * US;
    assert_int_equal(speak().count, 0);
    assert_false(data(B, seq));
    assert_int_equal(delivered, seq + 2 - START);
    now += 100 * MS;
    assert_int_equal(speak().count, 0);
    assert_int_equal(receiver.counters.naks_sent, 0);
    assert_int_equal(receiver.counters.packets_missed, 1);
}

static void a_packet_is_missing_when_both_lines_have_passed_it(void **state)
{
    const lli_seq seq = measure(START, 50 * US);
    struct request request;

    (void)state;
    assert_false(data(A, seq + 1));
    assert_int_equal(speak().count, 0);
    now += 10 * US;
    assert_true(data(B, seq + 1));
    request = speak();
    assert_int_equal(request.count, 1);
    assert_int_equal(request.first, (uint32_t)seq);
    assert_int_equal(request.packets, 1);
    assert_int_equal(request.line, B); /* heard last */
}

static void a_packet_is_missing_when_the_other_line_is_later_than_ever(void **state)
{
    const lli_seq seq = measure(START, 50 * US);

    (void)state;
    assert_false(data(A, seq + 1));
    now += 50 * US;
    assert_int_equal(speak().count, 0);
    assert_true(lli_rx_deadline(&receiver.rx) <= now + 10 * US);
    now += 10 * US;
    assert_int_equal(speak().count, 1);
}

static void a_line_that_was_waited_for_in_vain_delays_nothing_more(void **state)
{
    lli_seq seq = measure(START, 50 * US);

    (void)state;
    assert_false(data(A, seq + 1));
    now += 60 * US;
    assert_int_equal(speak().count, 1);
    seq += 2;
    for (int i = 0; i < 5; i++, seq += 2) {
        assert_false(data(A, seq + 1));
        assert_int_equal(speak().count, 1);
    }
    /* It is waited for again when it is back. */
    assert_false(data(B, seq));
    assert_false(data(A, seq + 2));
    assert_int_equal(speak().count, 0);
}

static void a_repair_request_goes_over_the_other_line_next(void **state)
{
    const lli_seq seq = measure(START, 50 * US);

    (void)state;
    token_on(A, 11);
    token_on(B, 22);
    (void)speak();
    assert_false(data(A, seq + 1));
    assert_true(data(B, seq + 1));
    for (int i = 0; i < 4; i++) {
        const struct request request = speak();

        assert_int_equal(request.count, 1);
        assert_int_equal(request.line, i % 2 == 0 ? B : A);
        assert_int_equal(request.token, i % 2 == 0 ? 22 : 11);
        now = receiver.rx.gap.due_at;
    }
}

static void the_end_of_a_burst_is_missing_when_both_lines_announce_it(void **state)
{
    const lli_seq seq = measure(START, 50 * US);

    (void)state;
    now += MS;
    heartbeat_of(A, seq + 1, now);
    assert_int_equal(speak().count, 0);
    heartbeat_of(B, seq + 1, now);
    assert_int_equal(speak().count, 1);
}

static void packets_of_unreliable_topics_wait_for_both_lines(void **state)
{
    const lli_seq seq = measure(START, 50 * US);
    uint8_t packet[LLI_WIRE_DATA_HEADER + 2] = {0};
    const struct lli_wire_header header = {.type = LLI_WIRE_DATA,
                                           .flags = 1, /* the packet before is not repaired */
                                           .size = sizeof packet,
                                           .tag = (uint32_t)SESSION,
                                           .seq = (uint32_t)(seq + 1),
                                           .number = (uint32_t)(seq + 1 - START)};

    (void)state;
    lli_wire_put_header(packet, &header);
    packet[LLI_WIRE_DATA_HEADER] = 1;
    assert_false(lli_rx_line_data(&receiver.rx, A, (uint32_t)seq + 1, now));
    take(A, packet, sizeof packet);
    assert_false(data(A, seq + 2));
    assert_false(data(A, seq + 3));
    assert_int_equal(events_count, 0);
    now += 20 * US;
    assert_false(data(B, seq));
    assert_int_equal(delivered, seq + 4 - START);
    assert_int_equal(events_count, 0);
}

/* ------------------------------------------------------------------------------------- heartbeats, tokens */

static void copies_of_heartbeats_confirm_nothing(void **state)
{
    (void)state;
    now += MS;
    heartbeat_of(A, START + 5, now);
    heartbeat_of(B, START + 5, now);
    assert_int_equal(receiver.rx.heard.lead_before, START);
    now += MS;
    heartbeats(START + 5);
    assert_int_equal(receiver.rx.heard.lead_before, START + 5);
}

static void a_late_line_takes_no_heartbeat_back(void **state)
{
    (void)state;
    now += MS;
    heartbeat_of(A, START + 5, 500 * MS);
    now += MS;
    heartbeat_of(B, START, 400 * MS); /* sent 100 ms before */
    assert_int_equal(receiver.rx.heartbeat.lead, START + 5);
    assert_int_equal(receiver.rx.lines->line[B].heard_at, now);
}

static void each_line_has_a_token_of_its_own(void **state)
{
    uint64_t tokens[2] = {0};

    (void)state;
    token_on(B, 22);
    token_on(A, 11);
    for (int i = 0; i < 4; i++) {
        int line;
        const uint64_t token = token_of_next_report(&line);

        tokens[line] = token;
    }
    assert_int_equal(tokens[A], 11);
    assert_int_equal(tokens[B], 22);
}

/* ------------------------------------------------------------------------------------------ lines go down */

static void expect_line(int at, enum llm_event_kind kind, uint64_t line)
{
    assert_true(events_count > at);
    assert_int_equal(events[at].kind, kind);
    assert_int_equal(events[at].first, line);
    assert_int_equal(events[at].session, SESSION);
}

static void a_dead_line_is_reported_and_is_back_by_itself(void **state)
{
    lli_seq seq = measure(START, 50 * US);

    (void)state;
    for (int i = 0; i < 60; i++, seq++) {
        assert_false(data(A, seq));
        heartbeat_of(A, seq + 1, now);
        (void)speak();
        now += 10 * MS;
    }
    assert_int_equal(events_count, 1);
    expect_line(0, LLM_EVENT_LINE_DOWN, 2);
    /* A loss is requested at once, over the line that is up, however often. */
    assert_false(data(A, seq + 1));
    for (int i = 0; i < 3; i++) {
        const struct request request = speak();

        assert_int_equal(request.count, 1);
        assert_int_equal(request.line, A);
        now = receiver.rx.gap.due_at;
    }
    assert_false(data(A, seq));
    (void)data(B, seq + 1);
    pull();
    assert_int_equal(events_count, 2);
    expect_line(1, LLM_EVENT_LINE_UP, 2);
    (void)measure(seq + 2, 50 * US);
    assert_int_equal(receiver.counters.line_2_lost, 60 + 1);
    assert_int_equal(receiver.counters.line_1_lost, 0);
}

static void both_lines_down_is_silence(void **state)
{
    const lli_seq seq = measure(START, 50 * US);

    (void)state;
    for (int i = 0; i < 60; i++) {
        (void)speak();
        now += 10 * MS;
    }
    assert_int_equal(events_count, 1);
    assert_int_equal(events[0].kind, LLM_EVENT_HEARTBEAT_LOST);
    (void)data(B, seq);
    (void)data(A, seq);
    assert_int_equal(events_count, 2);
    assert_int_equal(events[1].kind, LLM_EVENT_RESUMED);
}

static void a_second_copy_after_silence_is_heard(void **state)
{
    const lli_seq seq = measure(START, 50 * US);

    (void)state;
    for (int i = 0; i < 60; i++) {
        (void)speak();
        now += 10 * MS;
    }
    (void)data(B, seq - 1);
    assert_int_equal(events_count, 2);
    assert_int_equal(events[1].kind, LLM_EVENT_RESUMED);
}

static void a_line_that_was_never_heard_is_down(void **state)
{
    (void)state;
    (void)down(state);
    (void)up(state);
    lli_rx_stop(&receiver.rx);
    lli_rx_start(&receiver.rx, (uint32_t)SESSION, now);
    for (int i = 0; i < 60; i++) {
        heartbeat_of(B, START, now);
        (void)speak();
        now += 10 * MS;
    }
    assert_int_equal(events_count, 1);
    expect_line(0, LLM_EVENT_LINE_DOWN, 1);
}

/* A number that is far too high, of a forged packet, is corrected by heartbeats. */
static void a_forged_number_does_not_stop_a_line(void **state)
{
    const lli_seq seq = measure(START, 50 * US);

    (void)state;
    (void)data(B, seq + WINDOW - 1);
    for (int i = 0; i < 3; i++) {
        now += MS;
        heartbeats(seq);
    }
    assert_true(receiver.rx.lines->line[B].passed <= seq + WINDOW);
    assert_false(data(A, seq));
    assert_true(data(B, seq));
    assert_int_equal(delivered, seq + 1 - START);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, up, down)
    const struct CMUnitTest tests[] = {
        TEST(the_second_copy_is_dropped),
        TEST(a_loss_on_one_line_is_filled_by_the_other),
        TEST(a_packet_is_missing_when_both_lines_have_passed_it),
        TEST(a_packet_is_missing_when_the_other_line_is_later_than_ever),
        TEST(a_line_that_was_waited_for_in_vain_delays_nothing_more),
        TEST(a_repair_request_goes_over_the_other_line_next),
        TEST(the_end_of_a_burst_is_missing_when_both_lines_announce_it),
        TEST(packets_of_unreliable_topics_wait_for_both_lines),
        TEST(copies_of_heartbeats_confirm_nothing),
        TEST(a_late_line_takes_no_heartbeat_back),
        TEST(each_line_has_a_token_of_its_own),
        TEST(a_dead_line_is_reported_and_is_back_by_itself),
        TEST(both_lines_down_is_silence),
        TEST(a_second_copy_after_silence_is_heard),
        TEST(a_line_that_was_never_heard_is_down),
        TEST(a_forged_number_does_not_stop_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
