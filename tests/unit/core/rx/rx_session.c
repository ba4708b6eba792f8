/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

enum { ITEMS_MAX = 512 };

static uint8_t buffer[LLI_WIRE_CONTROL_MAX];
static lli_ns now;

/* Items delivered since the last check. */
static struct {
    uint64_t messages[ITEMS_MAX];
    uint32_t topics[ITEMS_MAX];
    const char *names[ITEMS_MAX]; /* of the topics */
    char texts[ITEMS_MAX];        /* first bytes */
    int message_count;
    struct llm_event events[ITEMS_MAX];
    int event_count;
} got;

static int up(void **state)
{
    const struct lli_tx_config tx_options = tx_config();

    (void)state;
    now = 100 * MS;
    r = (struct receiver){.random = 1};
    memset(&got, 0, sizeof got);
    r.config = rx_config();
    transmitter_make(&t, &tx_options, now);
    receiver_make(&r, 32, now);
    return 0;
}

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        if (item.kind == LLI_ITEM_MESSAGES)
            for (int i = 0; i < item.count; i++) {
                got.topics[got.message_count] = item.messages[i].topic_id;
                got.names[got.message_count] = item.messages[i].topic;
                got.texts[got.message_count] =
                    item.messages[i].size > 0 ? *(const char *)item.messages[i].data : 0;
                got.messages[got.message_count++] = item.messages[i].number;
            }
        else
            got.events[got.event_count++] = item.event;
    }
}

static void rx_take(const uint8_t *packet, size_t size)
{
    receiver_take(&r, packet, size, now, pull);
}

static void carry(lli_seq seq)
{
    rx_take(lli_history_packet(&tx->history, seq), lli_history_slot(&tx->history, seq)->size);
}

static void heartbeat_due(void)
{
    struct lli_packet packet;

    tx->heartbeat.at = now;
    while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
        rx_take(packet.data, packet.size);
}

static struct lli_wire_heartbeat heartbeat_now(lli_seq lead, uint64_t messages)
{
    return (struct lli_wire_heartbeat){.session = SESSION,
                                       .lead = lead,
                                       .trail = START,
                                       .start = START,
                                       .messages = messages,
                                       .sent_at = now,
                                       .interval_us = 10000,
                                       .address = {1, {'t'}}};
}

static void heartbeat_made(const struct lli_wire_heartbeat *heartbeat)
{
    rx_take(buffer, lli_wire_put_heartbeat(buffer, heartbeat));
}

/* No answer arrives: a distant transmitter gets enough time for its answer, then the session continues. */
static void topic_names_are_queried_for_most_of_a_second(void **state)
{
    struct lli_wire_heartbeat heartbeat = heartbeat_now(START + 1, 1);
    struct lli_packet packet;

    (void)state;
    heartbeat.topics = 1;
    now = 1000 * MS;
    heartbeat_made(&heartbeat);
    while (now < 5000 * MS && rx->names.query_at != LLI_NEVER) {
        now = lli_max(now, rx->names.query_at);
        while (lli_rx_control(rx, now, buffer, &packet))
            continue;
    }
    assert_int_equal(r.counters.queries_sent, 16);
    assert_in_range(now, 1500 * MS, 2000 * MS);
}

/* Takes the answer to a query, with the name of one topic. */
static void answer_query(uint32_t topic)
{
    const struct lli_wire_topics topics = {.session = SESSION, .total = 100, .first = topic, .count = 1};
    uint8_t packet[256];

    rx_take(packet,
            lli_wire_put_topics(packet, &topics,
                                lli_wire_add_topic(packet, LLI_WIRE_TOPICS_HEAD, sizeof packet, "name", 4)));
}

/* Sends queries until there were so many; returns the time from the last one to the next. */
static lli_ns queries_sent(uint64_t count)
{
    struct lli_packet packet;

    while (r.counters.queries_sent < count) {
        now = lli_max(now, rx->names.query_at);
        while (lli_rx_control(rx, now, buffer, &packet))
            continue;
    }
    return rx->names.query_at - now;
}

/* Many receivers that join at a time wait for the answers to others: each repeats its queries less often. */
static void queries_keep_the_distance_at_which_the_last_one_was_answered(void **state)
{
    struct lli_wire_heartbeat heartbeat = heartbeat_now(START + 1, 1);
    lli_ns first;

    (void)state;
    heartbeat.topics = 100;
    now = 1000 * MS;
    heartbeat_made(&heartbeat);
    first = queries_sent(1);
    assert_int_equal(queries_sent(3), 4 * first);
    answer_query(0);
    assert_int_equal(queries_sent(4), 4 * first);
    answer_query(1);
    assert_int_equal(queries_sent(5), 2 * first);
    answer_query(2);
    assert_int_equal(queries_sent(6), first);
}

static void take_token(uint64_t token)
{
    const struct lli_wire_join join = {
        .session = SESSION, .receiver = r.config.receiver, .kind = LLI_WIRE_JOIN_TOKEN, .token = token};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    rx_take(packet, lli_wire_put_join(packet, &join));
}

/* Lets five seconds pass, and returns the bytes of all packets to the transmitter. */
static uint64_t spoken(void)
{
    struct lli_packet packet;
    uint64_t bytes = 0;

    for (const lli_ns until = now + 5000 * MS; now < until; now += MS)
        while (lli_rx_control(rx, now, buffer, &packet))
            bytes += packet.size;
    return bytes;
}

static void an_address_that_does_not_answer_gets_three_times_the_bytes_of_its_heartbeats(void **state)
{
    struct lli_wire_heartbeat heartbeat = heartbeat_now(START + 1, 1);
    uint64_t bytes, more, size, withheld;

    (void)state;
    r.config.confirms = true;
    heartbeat.topics = 100;
    size = lli_wire_put_heartbeat(buffer, &heartbeat);
    rx_take(buffer, size);
    bytes = spoken();
    assert_in_range(bytes, size, 3 * size);
    assert_true(r.counters.packets_withheld > 0);
    heartbeat.sent_at = now;
    heartbeat_made(&heartbeat);
    more = spoken();
    assert_true(more > 0 && bytes + more <= 2 * 3 * size);
    withheld = r.counters.packets_withheld;
    take_token(7);
    assert_true(spoken() > 0);
    assert_int_equal(r.counters.packets_withheld, withheld);
}

/*
 * The first report with a token may be lost, where 10,000 receivers join at a time: without further ones the
 * transmitter would not know the receiver for 100 s.
 */
static void reports_with_a_new_token_follow_at_doubling_distances(void **state)
{
    struct lli_wire_heartbeat heartbeat = heartbeat_now(START, 0);
    lli_ns distance = rx->config->status;
    struct lli_packet packet;

    (void)state;
    r.config.confirms = true;
    heartbeat.receivers = 10000;
    heartbeat_made(&heartbeat);
    take_token(7);
    assert_int_equal(rx->report.at, now);
    for (int i = 0; distance < 1000 * rx->config->status; i++, distance *= 2) {
        while (lli_rx_control(rx, now, buffer, &packet))
            continue;
        assert_in_range(rx->report.at - now, distance / 2, distance);
        now = rx->report.at;
        heartbeat.sent_at = now;
        heartbeat_made(&heartbeat);
    }
    while (lli_rx_control(rx, now, buffer, &packet))
        continue;
    assert_in_range(rx->report.at - now, 900 * rx->config->status, 1000 * rx->config->status);
}

static void send_many(int count)
{
    for (; count > 0; count--)
        send_one(tx, "abc", now);
}

/* Sends all due control packets; returns the number of NAKs among them. */
static int control(struct lli_wire_nak *nak)
{
    struct lli_wire_header header;
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;
    int naks = 0;

    while (lli_rx_control(rx, now, buffer, &packet)) {
        assert_int_equal(packet.to->bytes[0], 't');
        assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
        if (header.type == LLI_WIRE_NAK) {
            assert_true(lli_wire_get_nak(body, size, header.tag, nak));
            naks++;
        }
    }
    pull();
    return naks;
}

static const struct llm_event *event_of(enum llm_event_kind kind)
{
    for (int i = 0; i < got.event_count; i++)
        if (got.events[i].kind == kind)
            return &got.events[i];
    return NULL;
}

static void expect_messages(uint64_t first, uint64_t last)
{
    assert_int_equal(got.message_count, last - first + 1);
    for (uint64_t number = first; number <= last; number++)
        assert_int_equal(got.messages[number - first], number);
    got.message_count = 0;
}

/* Builds a packet with one message of 128 to 16,383 bytes, independently of the transmitter's limits. */
static void packet_made(lli_seq seq, uint64_t number, uint32_t size)
{
    static uint8_t packet[LLI_WIRE_DATA_HEADER + 2 + 16384];
    const struct lli_wire_header header = {
        .type = LLI_WIRE_DATA,
        .tag = (uint32_t)SESSION,
        .seq = (uint32_t)seq,
        .number = (uint32_t)number,
        .size = (uint16_t)(LLI_WIRE_DATA_HEADER + 2 + size),
    };

    lli_wire_put_header(packet, &header);
    packet[LLI_WIRE_DATA_HEADER] = (uint8_t)(0x80 | size >> 8);
    packet[LLI_WIRE_DATA_HEADER + 1] = (uint8_t)size;
    pattern_fill(packet + LLI_WIRE_DATA_HEADER + 2, size, number);
    rx_take(packet, header.size);
}

/* -------------------------------------------------------------------------------------------------- tests */

static void a_young_session_is_received_from_its_first_packet(void **state)
{
    (void)state;
    send_many(5);
    carry(START + 2);
    carry(START + 3);
    assert_int_equal(got.message_count, 0);
    heartbeat_due();
    assert_int_equal(event_of(LLM_EVENT_SESSION_NEW)->first, 0);
    assert_int_equal(got.message_count, 0);
    carry(START);
    carry(START + 1);
    carry(START + 4);
    expect_messages(0, 4);
}

static void an_old_session_is_received_from_the_first_buffered_packet(void **state)
{
    struct lli_wire_heartbeat heartbeat;

    (void)state;
    send_many(10);
    carry(START + 6);
    carry(START + 7);
    heartbeat = heartbeat_now(START + 8, 8);
    heartbeat_made(&heartbeat);
    assert_int_equal(event_of(LLM_EVENT_SESSION_NEW)->first, 6);
    carry(START + 8);
    expect_messages(6, 8);
    assert_null(event_of(LLM_EVENT_GAP));
}

static void an_early_packet_from_beyond_the_window_replaces_all_others(void **state)
{
    struct lli_wire_heartbeat heartbeat;

    (void)state;
    send_many(WINDOW + 2);
    carry(START);
    carry(START + WINDOW - 1);
    assert_int_equal((uint32_t)rx->gap.next, (uint32_t)START);
    assert_true(r.reorder.used > 0);
    carry(START + WINDOW);
    heartbeat = heartbeat_now(START + WINDOW + 1, WINDOW + 1);
    heartbeat_made(&heartbeat);
    assert_int_equal(event_of(LLM_EVENT_SESSION_NEW)->first, WINDOW);
    carry(START + WINDOW + 1);
    expect_messages(WINDOW, WINDOW + 1);
    assert_null(event_of(LLM_EVENT_GAP));
    assert_int_equal(r.reorder.used, 0);
}

static void a_loss_is_requested_at_once_and_delivered_in_order(void **state)
{
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    send_many(6);
    carry(START);
    carry(START + 3);
    carry(START + 5);
    expect_messages(0, 0);
    assert_int_equal(control(&nak), 1);
    assert_int_equal(nak.count, 2);
    assert_int_equal(nak.ranges[0].first, (uint32_t)START + 1);
    assert_int_equal(nak.ranges[0].count, 2);
    assert_int_equal(nak.ranges[1].first, (uint32_t)START + 4);
    assert_int_equal(control(&nak), 0);
    now += 30 * US;
    carry(START + 2);
    carry(START + 1);
    expect_messages(1, 3);
    carry(START + 4);
    expect_messages(4, 5);
    assert_int_equal(r.counters.packets_recovered, 3);
    carry(START + 4);
    assert_int_equal(r.counters.packets_duplicate, 1);
    assert_int_equal(r.reorder.used, 0);
}

static void a_heartbeat_reveals_a_loss_at_the_tail(void **state)
{
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    send_many(2);
    carry(START);
    assert_int_equal(control(&nak), 0);
    now += 50 * US;
    heartbeat_due();
    assert_int_equal(control(&nak), 1);
    assert_int_equal(nak.ranges[0].first, (uint32_t)START + 1);
}

static void the_first_nak_in_a_large_group_is_delayed_at_random(void **state)
{
    struct lli_wire_heartbeat heartbeat = heartbeat_now(START, 0);
    struct lli_wire_nak nak;

    (void)state;
    heartbeat.receivers = 100;
    heartbeat.rtt_ns = 100000;
    heartbeat.flags = LLI_WIRE_HEARTBEAT_YOUNG;
    heartbeat_made(&heartbeat);
    send_many(2);
    carry(START + 1);
    assert_int_equal(control(&nak), 0);
    now += 400 * US;
    assert_int_equal(control(&nak), 1);
    assert_int_equal(nak.ranges[0].first, (uint32_t)START);
}

static void a_pending_nak_is_suppressed(void **state)
{
    const struct lli_wire_reject pending = {
        .session = SESSION, .reason = LLI_WIRE_PENDING, .count = 1, .ranges = {{(uint32_t)START, 1}}};
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    send_many(2);
    carry(START + 1);
    rx_take(buffer, lli_wire_put_reject(buffer, &pending));
    assert_int_equal(control(&nak), 0);
    now += 200 * US;
    assert_int_equal(control(&nak), 1);
    assert_int_equal(r.counters.naks_suppressed, 1);
}

static void forgotten_packets_become_a_gap_with_their_messages(void **state)
{
    struct lli_wire_reject gone = {.session = SESSION, .trail = START + 4, .reason = LLI_WIRE_GONE};
    struct lli_wire_nak nak;
    const struct llm_event *gap;

    (void)state;
    heartbeat_due();
    send_many(6);
    carry(START);
    carry(START + 4);
    /* No packet was requested yet: such a REJECT is forged. */
    rx_take(buffer, lli_wire_put_reject(buffer, &gone));
    assert_null(event_of(LLM_EVENT_GAP));
    (void)control(&nak);
    /* Packets not announced by a heartbeat are not given up. */
    gone.trail = START + 4;
    rx_take(buffer, lli_wire_put_reject(buffer, &gone));
    assert_null(event_of(LLM_EVENT_GAP));
    heartbeat_due();
    /* Nor those announced by one heartbeat only. */
    rx_take(buffer, lli_wire_put_reject(buffer, &gone));
    assert_null(event_of(LLM_EVENT_GAP));
    heartbeat_due();
    gone.trail = START + 1000;
    rx_take(buffer, lli_wire_put_reject(buffer, &gone));
    assert_null(event_of(LLM_EVENT_GAP));
    gone.trail = START + 4;
    rx_take(buffer, lli_wire_put_reject(buffer, &gone));
    gap = event_of(LLM_EVENT_GAP);
    assert_int_equal(gap->reason, LLM_REASON_GONE);
    assert_int_equal(gap->first, 1);
    assert_int_equal(gap->last, 3);
    assert_int_equal(gap->packets, 3);
    assert_int_equal(got.messages[1], 4);
    carry(START + 5);
    assert_int_equal(got.messages[2], 5);
    assert_int_equal(r.counters.messages_lost, 3);
}

/* The NAK does not wait for another packet. */
static void packets_after_a_forgotten_window_are_requested_at_once(void **state)
{
    const struct lli_wire_reject gone = {
        .session = SESSION, .trail = START + WINDOW, .reason = LLI_WIRE_GONE};
    struct lli_wire_heartbeat far;
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    far = heartbeat_now(START + 3 * WINDOW, 3 * WINDOW);
    for (int i = 0; i < 2; i++)
        rx_take(buffer, lli_wire_put_heartbeat(buffer, &far));
    assert_int_equal(control(&nak), 1);
    rx_take(buffer, lli_wire_put_reject(buffer, &gone));
    assert_int_equal(control(&nak), 1);
    assert_int_equal(nak.ranges[0].first, (uint32_t)(START + WINDOW));
}

static void notice(uint64_t receiver, enum lli_standing standing, lli_seq lead, uint32_t rejoin_ms)
{
    const struct lli_wire_notice packet = {.session = SESSION,
                                           .receiver = receiver,
                                           .decided_at = now,
                                           .lead = lead,
                                           .value = 7,
                                           .limit = 6,
                                           .lag_packets = 7,
                                           .rejoin_ms = rejoin_ms,
                                           .standing = (uint8_t)standing,
                                           .threshold = LLM_THRESHOLD_LAG_PACKETS};

    rx_take(buffer, lli_wire_put_notice(buffer, &packet));
}

static void packets_requested_by_a_suspended_receiver_become_a_gap(void **state)
{
    struct lli_wire_nak nak;
    const struct llm_event *event;

    (void)state;
    heartbeat_due();
    send_many(8);
    carry(START);
    carry(START + 4);
    /* For another receiver, or before any NAK. */
    notice(RECEIVER + 1, LLI_STANDING_SUSPENDED, START + 6, 0);
    assert_null(event_of(LLM_EVENT_SUSPENDED));
    assert_int_equal(r.counters.control_foreign, 1);
    notice(RECEIVER, LLI_STANDING_SUSPENDED, START + 6, 0);
    event = event_of(LLM_EVENT_SUSPENDED);
    assert_non_null(event);
    assert_int_equal(event->verdict->threshold, LLM_THRESHOLD_LAG_PACKETS);
    assert_int_equal(event->verdict->lag_packets, 7);
    assert_int_equal(event->verdict->limit, 6);
    assert_null(event_of(LLM_EVENT_GAP));
    now += r.config.nak_retry_max;
    for (int i = 0; i < 2; i++)
        heartbeat_made(&(struct lli_wire_heartbeat){.session = SESSION,
                                                    .lead = START + 5,
                                                    .trail = START,
                                                    .start = START,
                                                    .messages = 5,
                                                    .sent_at = now,
                                                    .interval_us = 10000,
                                                    .address = {1, {'t'}}});
    assert_int_equal(control(&nak), 1);
    /* Only packets known to exist are given up. */
    notice(RECEIVER, LLI_STANDING_SUSPENDED, START + 1000000, 0);
    event = event_of(LLM_EVENT_GAP);
    assert_int_equal(event->reason, LLM_REASON_SUSPENDED);
    assert_int_equal(event->first, 1);
    assert_int_equal(event->last, 3);
    assert_int_equal(got.messages[1], 4);
    /* The next loss is requested later, and given up only after another notice. */
    now += MS;
    carry(START + 6);
    assert_int_equal(control(&nak), 0);
    now += r.config.nak_retry_max;
    assert_int_equal(control(&nak), 1);
    carry(START + 5);
    assert_int_equal(got.messages[3], 6);
    notice(RECEIVER, LLI_STANDING_FINE, 0, 0);
    assert_non_null(event_of(LLM_EVENT_READMITTED));
    assert_int_equal(r.counters.gaps, 1);
}

/* The notice waited in the socket during a pause; packets requested since then will arrive. */
static void suspension_for_silence_gives_up_no_packet(void **state)
{
    struct lli_wire_notice silence = {.session = SESSION,
                                      .receiver = RECEIVER,
                                      .lead = START + 6,
                                      .standing = LLI_STANDING_SUSPENDED,
                                      .threshold = LLM_THRESHOLD_SILENCE};
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    send_many(8);
    carry(START);
    carry(START + 4);
    assert_int_equal(control(&nak), 1);
    silence.decided_at = now;
    rx_take(buffer, lli_wire_put_notice(buffer, &silence));
    assert_non_null(event_of(LLM_EVENT_SUSPENDED));
    assert_null(event_of(LLM_EVENT_GAP));
    for (lli_seq seq = START + 1; seq < START + 4; seq++)
        carry(seq);
    assert_int_equal(got.messages[4], 4);
    assert_int_equal(r.counters.gaps, 0);
}

/* Receives packets in order from START + from on, until a report is sent. */
static lli_seq reported_after(lli_seq from)
{
    const uint64_t reports = r.counters.status_sent;
    struct lli_wire_nak nak;

    for (lli_seq seq = START + from;; seq++) {
        (void)control(&nak);
        if (r.counters.status_sent > reports)
            return seq - START;
        carry(seq);
    }
}

/*
 * One of a thousand receivers reports every ten seconds by the clock, and by packets only after a hundred
 * times the limit.
 */
static void one_of_many_receivers_reports_before_flow_control_blocks(void **state)
{
    struct lli_wire_heartbeat heartbeat = heartbeat_now(START, 0);
    lli_seq first, second;

    (void)state;
    heartbeat.receivers = 1000;
    heartbeat.flags = LLI_WIRE_HEARTBEAT_YOUNG;
    heartbeat.report_packets = 4;
    send_many(WINDOW);
    heartbeat_made(&heartbeat);
    rx->report.at = now;
    assert_int_equal(reported_after(0), 0);
    first = reported_after(0);
    second = reported_after(first) - first;
    assert_in_range(first, 7, 8);
    assert_in_range(second, 7, 8);
    /* Its own window is smaller. */
    heartbeat.report_packets = WINDOW;
    heartbeat.sent_at = ++now;
    heartbeat_made(&heartbeat);
    assert_in_range(reported_after(first + second) - first - second, WINDOW / 4 - WINDOW / 16, WINDOW / 4);
}

static void one_of_many_receivers_reports_soon_if_flow_control_blocks(void **state)
{
    struct lli_wire_heartbeat heartbeat = heartbeat_now(START, 0);
    struct lli_wire_nak nak;
    uint64_t reports;

    (void)state;
    heartbeat.receivers = 1000;
    heartbeat.flags = LLI_WIRE_HEARTBEAT_YOUNG;
    heartbeat.report_packets = WINDOW;
    heartbeat_made(&heartbeat);
    rx->report.at = now;
    (void)control(&nak);
    reports = r.counters.status_sent;
    assert_true(rx->report.at > now + 1000 * MS);
    heartbeat.flags = LLI_WIRE_HEARTBEAT_HELD;
    for (int i = 0; i < 100; i++) {
        heartbeat.sent_at = ++now;
        heartbeat_made(&heartbeat);
    }
    assert_true(rx->report.at < now + 100 * MS);
    /* Repeated requests do not make the report earlier. */
    assert_true(rx->report.at > now + 5 * MS);
    now = rx->report.at;
    (void)control(&nak);
    assert_int_equal(r.counters.status_sent, reports + 1);
}

static void a_notice_is_answered_by_a_report_and_gives_one_event(void **state)
{
    struct lli_wire_nak nak;
    uint64_t reports;

    (void)state;
    heartbeat_due();
    (void)control(&nak);
    reports = r.counters.status_sent;
    for (int i = 0; i < 3; i++) {
        notice(RECEIVER, LLI_STANDING_WARNED, 0, 0);
        (void)control(&nak);
    }
    assert_int_equal(r.counters.status_sent, reports + 3);
    assert_int_equal(r.counters.notices_received, 3);
    assert_int_equal(got.event_count, 2);
    assert_int_equal(got.events[1].kind, LLM_EVENT_WARNED);
}

static void an_expelled_receiver_ends_the_session_and_may_return(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    struct lli_wire_nak nak;
    const struct llm_event *event;

    (void)state;
    heartbeat_due();
    send_many(8);
    carry(START);
    carry(START + 4);
    notice(RECEIVER, LLI_STANDING_EXPELLED, 0, 300);
    assert_non_null(event_of(LLM_EVENT_EXPELLED));
    assert_int_equal(event_of(LLM_EVENT_EXPELLED)->verdict->rejoin_ns, 300 * MS);
    assert_int_equal(event_of(LLM_EVENT_GAP)->reason, LLM_REASON_EXPELLED);
    event = event_of(LLM_EVENT_SESSION_END);
    assert_int_equal(event->reason, LLM_REASON_EXPELLED);
    assert_int_equal(event->first, 5);
    (void)control(&nak);
    assert_int_equal(lli_rx_deadline(rx), now + 300 * MS);
    assert_false(lli_rx_may_return(rx, now + 299 * MS));
    carry(START + 5);
    assert_int_equal(r.counters.packets_stale, 1);
    /* The transmitter does not wait for its reports. */
    heartbeat = heartbeat_now(START + 8, 8);
    heartbeat.flags = LLI_WIRE_HEARTBEAT_HELD;
    heartbeat_made(&heartbeat);
    assert_int_equal(lli_rx_deadline(rx), now + 300 * MS);
    now += 300 * MS;
    assert_true(lli_rx_may_return(rx, now));
}

static void packets_not_repaired_in_time_are_given_up(void **state)
{
    const struct llm_event *gap;
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    send_many(3);
    carry(START);
    carry(START + 2);
    (void)control(&nak);
    now += 199 * MS;
    (void)control(&nak);
    expect_messages(0, 0);
    now += 1 * MS;
    /* Packets not announced by a heartbeat are not given up. */
    (void)control(&nak);
    assert_null(event_of(LLM_EVENT_GAP));
    /* Nor those announced by one heartbeat only. */
    heartbeat_due();
    (void)control(&nak);
    assert_null(event_of(LLM_EVENT_GAP));
    heartbeat_due();
    (void)control(&nak);
    gap = event_of(LLM_EVENT_GAP);
    assert_int_equal(gap->reason, LLM_REASON_TIMEOUT);
    assert_int_equal(gap->first, 1);
    assert_int_equal(gap->last, 1);
    expect_messages(2, 2);
}

static void a_forged_heartbeat_skips_no_packet(void **state)
{
    struct lli_wire_heartbeat forged;
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    send_many(2);
    carry(START);
    forged = heartbeat_now(START + 50, 1000);
    forged.trail = START + 49;
    heartbeat_made(&forged);
    (void)control(&nak);
    now += 300 * MS;
    heartbeat_due();
    (void)control(&nak);
    assert_null(event_of(LLM_EVENT_GAP));
    carry(START + 1);
    expect_messages(0, 1);
    forged = heartbeat_now(START + 2, 2);
    forged.session ^= (uint64_t)1 << 50;
    heartbeat_made(&forged);
    assert_int_equal(r.counters.control_foreign, 1);
}

static void packets_beyond_the_window_and_without_memory_are_counted(void **state)
{
    (void)state;
    heartbeat_due();
    send_many(100);
    carry(START + WINDOW);
    assert_int_equal(r.counters.window_overflow, 1);
    for (lli_seq seq = START + 1; seq < START + WINDOW; seq++)
        carry(seq);
    assert_int_equal(r.counters.reorder_full, WINDOW - 1 - r.reorder.count);
    carry(START);
    assert_int_equal(got.message_count, 1 + r.reorder.count);
    assert_int_equal(r.reorder.used, 0);
}

static uint32_t nak_packets(const struct lli_wire_nak *nak)
{
    uint32_t packets = 0;

    for (uint16_t i = 0; i < nak->count; i++)
        packets += nak->ranges[i].count;
    return packets;
}

/* The receiver's own packets have PACKET_MAX bytes, which does not limit received ones. */
static void packets_longer_than_the_receivers_own_are_buffered(void **state)
{
    (void)state;
    heartbeat_due();
    packet_made(START + 1, 1, 9 * PACKET_MAX);
    packet_made(START + 2, 2, 16 * PACKET_MAX);
    assert_int_equal(r.counters.reorder_full, 0);
    packet_made(START, 0, 200);
    assert_int_equal(r.counters.data_malformed, 0);
    expect_messages(0, 2);
    assert_null(event_of(LLM_EVENT_GAP));
}

static void a_full_reorder_buffer_requests_only_the_next_packet(void **state)
{
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    send_many(WINDOW);
    for (lli_seq seq = START + 1; seq < START + WINDOW; seq++)
        carry(seq);
    now += 10 * MS;
    assert_int_equal(control(&nak), 1);
    assert_int_equal(nak_packets(&nak), 1);
    assert_int_equal(nak.ranges[0].first, (uint32_t)START);
    /* Packets in order are delivered and their memory is freed: all others may arrive. */
    carry(START);
    now += 10 * MS;
    assert_int_equal(control(&nak), 1);
    assert_int_equal(nak_packets(&nak), WINDOW - 1 - r.reorder.count);
    for (lli_seq seq = START + 1 + r.reorder.count; seq < START + WINDOW; seq++)
        carry(seq);
    expect_messages(0, WINDOW - 1);
}

static void silence_is_reported_once_then_ends_or_resumes_the_session(void **state)
{
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    now += 500 * MS;
    (void)control(&nak);
    assert_non_null(event_of(LLM_EVENT_HEARTBEAT_LOST));
    heartbeat_due();
    assert_non_null(event_of(LLM_EVENT_RESUMED));
    memset(&got, 0, sizeof got);
    now += 500 * MS;
    (void)control(&nak);
    now += 500 * MS;
    (void)control(&nak);
    assert_int_equal(got.event_count, 2);
    assert_int_equal(got.events[0].kind, LLM_EVENT_HEARTBEAT_LOST);
    assert_int_equal(got.events[1].kind, LLM_EVENT_SESSION_END);
    assert_int_equal(got.events[1].reason, LLM_REASON_TIMEOUT);
}

static void duplicate_packets_resume_a_silent_session(void **state)
{
    struct lli_wire_nak nak;

    (void)state;
    r.config.nak_giveup = 10000 * MS;
    heartbeat_due();
    send_many(3);
    carry(START);
    carry(START + 2);
    /* One delivered and one buffered packet. */
    for (lli_seq known = START; known <= START + 2; known += 2) {
        memset(&got, 0, sizeof got);
        now += 500 * MS;
        (void)control(&nak);
        assert_int_equal(got.event_count, 1);
        carry(known);
        assert_int_equal(got.event_count, 2);
        assert_int_equal(got.events[1].kind, LLM_EVENT_RESUMED);
    }
    assert_int_equal(r.counters.packets_duplicate, 2);
}

static void the_end_is_reported_after_all_messages(void **state)
{
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    send_many(2);
    carry(START + 1);
    lli_tx_end(tx, now);
    heartbeat_due();
    assert_null(event_of(LLM_EVENT_SESSION_END));
    (void)control(&nak);
    carry(START);
    expect_messages(0, 1);
    assert_int_equal(event_of(LLM_EVENT_SESSION_END)->reason, LLM_REASON_CLOSED);
    assert_int_equal(event_of(LLM_EVENT_SESSION_END)->first, 2);
    carry(START + 1);
    assert_int_equal(r.counters.packets_stale, 1);
}

/* The transmitter would wait for a receiver that never has all packets. */
static void an_already_ended_session_gets_no_reports(void **state)
{
    struct lli_wire_heartbeat heartbeat = heartbeat_now(START + 3, 3);
    struct lli_packet packet;

    (void)state;
    heartbeat.flags = LLI_WIRE_HEARTBEAT_END | LLI_WIRE_HEARTBEAT_HELD;
    heartbeat_made(&heartbeat);
    assert_int_equal(rx->state, LLI_RX_ENDED);
    heartbeat.sent_at++;
    heartbeat_made(&heartbeat);
    assert_int_equal(lli_rx_deadline(rx), LLI_NEVER);
    assert_false(lli_rx_control(rx, now + 1000 * MS, buffer, &packet));
}

static void a_refused_session_drops_its_packets(void **state)
{
    (void)state;
    heartbeat_due();
    lli_rx_refuse(rx);
    send_many(3);
    carry(START);
    carry(START + 2);
    assert_int_equal(got.message_count, 0);
    assert_int_equal(r.counters.packets_stale, 2);
    assert_int_equal(r.reorder.used, 0);
}

/* Builds a packet of these frames. first: bytes of a message that began in the packet before. */
static void frames_made(lli_seq seq, uint64_t number, uint16_t first, const char *frames, size_t size)
{
    uint8_t packet[256];
    const struct lli_wire_header header = {
        .type = LLI_WIRE_DATA,
        .tag = (uint32_t)SESSION,
        .seq = (uint32_t)seq,
        .number = (uint32_t)number,
        .first = first,
        .size = (uint16_t)(LLI_WIRE_DATA_HEADER + size),
    };

    lli_wire_put_header(packet, &header);
    memcpy(packet + LLI_WIRE_DATA_HEADER, frames, size);
    rx_take(packet, header.size);
}

/* Whether their names are known or not. */
static void expect_refused_among_others(void)
{
    /* Topics 0, 1, 2 and 1 again, whose last message goes on in the next packet; then topic 2. */
    static const char frames[] = "\001a\300\001\001b\002cc\300\002\001d\300\001\001e\004f",
                      rest[] = "fff\300\002\001g\300\001\001h";

    heartbeat_due();
    got.message_count = 0;
    lli_rx_topic_refuse(rx, 1);
    frames_made(START, 0, 0, frames, sizeof frames - 1);
    frames_made(START + 1, 6, 3, rest, sizeof rest - 1);
    assert_int_equal(got.message_count, 3);
    assert_int_equal(got.messages[0], 0);
    assert_int_equal(got.messages[1], 3);
    assert_int_equal(got.messages[2], 6);
    assert_int_equal(r.counters.messages_refused, 5);
    assert_int_equal(r.counters.messages_delivered, 3);
    assert_int_equal(r.counters.data_malformed, 0);
    assert_int_equal(rx->unpack.number, 8);
}

static void messages_of_refused_topics_are_skipped_among_others(void **state)
{
    (void)state;
    expect_refused_among_others();
}

static void topics_known(void)
{
    static const char *const names[] = {"zero", "one", "two"};

    for (uint32_t i = 0; i < 3; i++)
        assert_true(lli_topics_add(&rx->topics, i, (const uint8_t *)names[i], strlen(names[i])));
}

static void messages_of_known_refused_topics_are_skipped_among_others(void **state)
{
    (void)state;
    topics_known();
    expect_refused_among_others();
}

/* Topics that take turns, a run of one, padding, and a message that ends in the next packet. */
static void messages_of_topics_in_turn_have_their_topics(void **state)
{
    static const char frames[] =
        "\300\001\001a\300\002\002bb\001c\340\300\000\001d\300\002\001e\300\001\004f",
                      rest[] = "fff\300\002\001g";
    static const uint32_t topics[] = {1, 2, 2, 0, 2, 1, 2};
    static const char *const names[] = {"zero", "one", "two"};

    (void)state;
    topics_known();
    heartbeat_due();
    got.message_count = 0;
    frames_made(START, 0, 0, frames, sizeof frames - 1);
    assert_int_equal(got.message_count, 5);
    frames_made(START + 1, 6, 3, rest, sizeof rest - 1);
    assert_int_equal(got.message_count, 7);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(got.messages[i], i);
        assert_int_equal(got.topics[i], topics[i]);
        assert_string_equal(got.names[i], names[topics[i]]);
        assert_int_equal(got.texts[i], "abcdefg"[i]);
    }
    assert_int_equal(r.counters.data_malformed, 0);
}

static void messages_in_order_need_service_only_for_a_due_report(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    struct lli_wire_nak nak;

    (void)state;
    heartbeat_due();
    assert_true(rx->pending.service_due);
    heartbeat = heartbeat_now(tx->sent, 0);
    heartbeat.report_packets = 4;
    rx_take(buffer, lli_wire_put_heartbeat(buffer, &heartbeat));
    assert_int_equal(control(&nak), 0);
    for (int i = 0; i < 4; i++) {
        send_many(1);
        carry(tx->sent - 1);
        assert_true(rx->pending.service_due == (i == 3));
    }
    assert_int_equal(lli_rx_deadline(rx), 0);
    send_many(2);
    carry(tx->sent - 1);
    assert_true(rx->pending.service_due);
    expect_messages(0, 3);
}

/* Random loss, duplication and order, then repairs: all messages once and in order, at every wrap. */
static void shuffled_packets_are_delivered_once_and_in_order(void **state)
{
    uint64_t random = 5;
    struct lli_wire_nak nak;
    lli_seq first, next;

    (void)state;
    (void)down(NULL);
    for (uint64_t seed = 0; seed < 20; seed++) {
        (void)up(NULL);
        tx->sent = tx->history.trail = tx->history.next = tx->config.history.start =
            seed % 2 ? BEFORE_WRAP_33 : ((lli_seq)2 << 32) - 20;
        heartbeat_due();
        first = next = tx->sent;
        for (int round = 0; round < 300 || rx->gap.next < next; round++) {
            assert_true(round < 3000);
            now += 60 * US;
            if (round < 300 && next - rx->gap.next < WINDOW / 2) {
                send_many(1);
                next++;
            }
            for (int i = 0; i < 2; i++)
                if (next > first && chance(&random, 60))
                    carry(next - 1 - lli_min(below(&random, 20), next - 1 - first));
            heartbeat_due();
            if (control(&nak) > 0)
                for (uint16_t range = 0; range < nak.count; range++)
                    for (uint32_t i = 0; i < nak.ranges[range].count; i++)
                        if (chance(&random, 50))
                            carry(lli_seq_extend(next, nak.ranges[range].first + i));
        }
        expect_messages(0, next - first - 1);
        assert_null(event_of(LLM_EVENT_GAP));
        assert_int_equal(r.counters.data_malformed, 0);
        (void)down(NULL);
    }
    (void)up(NULL);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_young_session_is_received_from_its_first_packet),
        T(an_old_session_is_received_from_the_first_buffered_packet),
        T(an_early_packet_from_beyond_the_window_replaces_all_others),
        T(a_loss_is_requested_at_once_and_delivered_in_order),
        T(a_heartbeat_reveals_a_loss_at_the_tail),
        T(topic_names_are_queried_for_most_of_a_second),
        T(queries_keep_the_distance_at_which_the_last_one_was_answered),
        T(an_address_that_does_not_answer_gets_three_times_the_bytes_of_its_heartbeats),
        T(reports_with_a_new_token_follow_at_doubling_distances),
        T(the_first_nak_in_a_large_group_is_delayed_at_random),
        T(a_pending_nak_is_suppressed),
        T(forgotten_packets_become_a_gap_with_their_messages),
        T(packets_after_a_forgotten_window_are_requested_at_once),
        T(packets_requested_by_a_suspended_receiver_become_a_gap),
        T(suspension_for_silence_gives_up_no_packet),
        T(a_notice_is_answered_by_a_report_and_gives_one_event),
        T(one_of_many_receivers_reports_before_flow_control_blocks),
        T(one_of_many_receivers_reports_soon_if_flow_control_blocks),
        T(an_expelled_receiver_ends_the_session_and_may_return),
        T(packets_not_repaired_in_time_are_given_up),
        T(a_forged_heartbeat_skips_no_packet),
        T(packets_beyond_the_window_and_without_memory_are_counted),
        T(packets_longer_than_the_receivers_own_are_buffered),
        T(a_full_reorder_buffer_requests_only_the_next_packet),
        T(silence_is_reported_once_then_ends_or_resumes_the_session),
        T(duplicate_packets_resume_a_silent_session),
        T(the_end_is_reported_after_all_messages),
        T(an_already_ended_session_gets_no_reports),
        T(a_refused_session_drops_its_packets),
        T(messages_of_refused_topics_are_skipped_among_others),
        T(messages_of_known_refused_topics_are_skipped_among_others),
        T(messages_of_topics_in_turn_have_their_topics),
        T(messages_in_order_need_service_only_for_a_due_report),
        T(shuffled_packets_are_delivered_once_and_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
