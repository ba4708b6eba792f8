/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unordered delivery: packets carried by hand, out of order; every message once, with its number and
 * contents, or lost.
 */
#include "ends.h"

#include "core/rx/former.h"

enum { MESSAGES_MAX = 2048, SIZE_MAX_SENT = 900 };

static uint8_t buffer[LLI_WIRE_CONTROL_MAX];
static lli_ns now;

/* Sent messages: sizes and topics by number; the bytes follow from it. */
static struct {
    uint32_t size[MESSAGES_MAX];
    uint32_t topic[MESSAGES_MAX];
    uint32_t count;
} sent;

static struct {
    uint32_t times[MESSAGES_MAX]; /* number of deliveries of each message */
    char order[512];              /* last digits of the numbers, with a space between deliveries */
    struct llm_event gap, live, end;
    int gaps, news;
    uint32_t told;    /* a bit for each announced topic */
    uint32_t refuses; /* a bit for each refused topic */
    bool lost[MESSAGES_MAX];
    bool unnamed; /* messages may come without the name of their topic */
} got;

static int up(void **state)
{
    const struct lli_tx_config tx_options = tx_config();

    (void)state;
    now = 100 * MS;
    r = (struct receiver){.random = 1};
    memset(&sent, 0, sizeof sent);
    memset(&got, 0, sizeof got);
    r.config = rx_config();
    r.config.as_it_arrives = true;
    transmitter_make(&t, &tx_options, now);
    receiver_make(&r, 32, now);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ receive */

static void take_message(const struct llm_message *message)
{
    const uint32_t number = (uint32_t)message->number;
    const size_t used = strlen(got.order);

    assert_true(message->number < sent.count);
    assert_int_equal(message->size, sent.size[number]);
    pattern_check(message->data, message->size, number);
    assert_int_equal(message->topic_id, sent.topic[number]);
    assert_int_equal(message->session, SESSION);
    assert_false(got.refuses >> message->topic_id & 1);
    assert_false(got.lost[number]);
    if (message->topic[0] != '\0')
        assert_int_equal(message->topic[0], 'a' + message->topic_id);
    else
        assert_true(got.unnamed);
    assert_true(got.told >> message->topic_id & 1 || got.unnamed);
    got.times[number]++;
    if (used + 2 < sizeof got.order)
        got.order[used] = (char)('0' + number % 10);
}

static void take_event(const struct llm_event *event)
{
    if (event->kind == LLM_EVENT_SESSION_NEW)
        got.news++;
    if (event->kind == LLM_EVENT_LIVE)
        got.live = *event;
    if (event->kind == LLM_EVENT_SESSION_END)
        got.end = *event;
    if (event->kind != LLM_EVENT_GAP)
        return;
    got.gap = *event;
    got.gaps++;
    for (uint64_t number = event->first; number <= event->last; number++) {
        assert_int_equal(got.times[number], 0);
        assert_false(got.lost[number]);
        got.lost[number] = true;
    }
}

static void pull(void)
{
    const size_t used = strlen(got.order);
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        if (item.kind == LLI_ITEM_MESSAGES) {
            assert_true(item.count > 0);
            for (int i = 0; i < item.count; i++)
                take_message(&item.messages[i]);
        } else if (item.kind == LLI_ITEM_TOPIC) {
            assert_false(got.told >> item.event.topic_id & 1);
            got.told |= 1u << item.event.topic_id;
            if (got.refuses >> item.event.topic_id & 1)
                lli_rx_topic_refuse(rx, item.event.topic_id);
        } else if (item.kind == LLI_ITEM_JOIN) {
            lli_rx_begin(rx, &(struct llm_join){.mode = LLM_JOIN_OLDEST}, now);
        } else {
            take_event(&item.event);
        }
    }
    if (strlen(got.order) > used && strlen(got.order) + 2 < sizeof got.order)
        strcat(got.order, " ");
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

/* Missing packets are requested, and the NAK is lost. */
static void asked(void)
{
    struct lli_packet packet;

    while (lli_rx_control(rx, now, buffer, &packet))
        ;
    pull();
}

static void gone(lli_seq trail)
{
    const struct lli_wire_reject reject = {.session = SESSION, .trail = trail, .reason = LLI_WIRE_GONE};

    heartbeat_due();
    heartbeat_due();
    asked();
    rx_take(buffer, lli_wire_put_reject(buffer, &reject));
}

/* -------------------------------------------------------------------------------------------------- send */

static void announce(uint32_t topic)
{
    const char name[] = {(char)('a' + topic), '\0'};

    assert_true(lli_pack_announce(&tx->pack, topic, name, 1, lli_tx_busy(tx)));
}

static void pack(uint32_t topic, uint32_t size)
{
    const struct lli_pack_topic to = {.id = topic};
    uint8_t bytes[SIZE_MAX_SENT];
    const struct iovec piece = {bytes, size};

    assert_true(sent.count < MESSAGES_MAX);
    pattern_fill(bytes, size, sent.count);
    sent.size[sent.count] = size;
    sent.topic[sent.count++] = topic;
    assert_true(lli_pack_message(&tx->pack, &to, &piece, size, lli_tx_busy(tx)));
}

/* Seals the packed messages; returns the next packet number. */
static lli_seq flush(void)
{
    lli_pack_flush(&tx->pack);
    if (tx->history.next > tx->sent) {
        lli_tx_sent(tx, (int)(tx->history.next - tx->sent), now);
        lli_tx_reaped(tx, true);
    }
    return tx->sent;
}

/*
 * Sends this many packets of one message each, the first one with the name of its topic, and delivers that.
 */
static void begin(int count)
{
    heartbeat_due();
    announce(0);
    for (int i = 0; i < count; i++) {
        pack(0, 3);
        (void)flush();
    }
    carry(START);
    assert_string_equal(got.order, "0 ");
}

static void expect_all(void)
{
    for (uint32_t number = 0; number < sent.count; number++)
        if (got.times[number] + got.lost[number] != 1)
            fail_msg("message %u came %u times", number, got.times[number]);
}

/* -------------------------------------------------------------------------------------------------- tests */

static void messages_are_delivered_in_order_of_arrival(void **state)
{
    (void)state;
    begin(6);
    carry(START + 3);
    carry(START + 5);
    carry(START + 2);
    carry(START + 1);
    carry(START + 4);
    assert_string_equal(got.order, "0 3 5 2 1 4 ");
    expect_all();
    assert_int_equal(r.counters.messages_delivered, 6);
    assert_int_equal(r.counters.messages_unordered, 3);
    assert_int_equal(r.counters.data_malformed, 0);
    assert_int_equal(r.reorder.used, 0);
}

static void a_duplicate_packet_delivers_nothing(void **state)
{
    (void)state;
    begin(4);
    for (int i = 0; i < 2; i++) {
        carry(START + 3);
        carry(START + 2);
    }
    carry(START);
    carry(START + 1);
    for (lli_seq seq = START; seq < START + 4; seq++)
        carry(seq);
    assert_string_equal(got.order, "0 3 2 1 ");
    assert_int_equal(r.counters.packets_duplicate, 7);
}

static void unordered_delivery_still_requests_missing_packets(void **state)
{
    struct lli_wire_header header;
    struct lli_wire_nak nak;
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;
    bool asks = false;

    (void)state;
    begin(4);
    carry(START + 3);
    while (lli_rx_control(rx, now, buffer, &packet)) {
        assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
        if (header.type != LLI_WIRE_NAK)
            continue;
        assert_true(lli_wire_get_nak(body, size, header.tag, &nak));
        assert_int_equal(nak.count, 1);
        assert_int_equal(nak.ranges[0].first, (uint32_t)START + 1);
        assert_int_equal(nak.ranges[0].count, 2);
        asks = true;
    }
    assert_true(asks);
}

static void a_gap_contains_only_lost_messages(void **state)
{
    (void)state;
    begin(8);
    carry(START + 3);
    carry(START + 6);
    carry(START + 4);
    gone(START + 5);
    assert_int_equal(got.gap.first, 1);
    assert_int_equal(got.gap.last, 2);
    assert_int_equal(got.gap.reason, LLM_REASON_GONE);
    assert_int_equal(got.gap.packets, 2);
    gone(START + 6);
    assert_int_equal(got.gap.first, 5);
    assert_int_equal(got.gap.last, 5);
    assert_int_equal(got.gaps, 2);
    carry(START + 7);
    assert_string_equal(got.order, "0 3 6 4 7 ");
    expect_all();
    assert_int_equal(r.counters.messages_lost, 3);
}

static void the_end_follows_all_unordered_messages(void **state)
{
    (void)state;
    begin(4);
    carry(START + 3);
    lli_tx_end(tx, now);
    heartbeat_due();
    assert_int_equal(got.end.kind, 0);
    carry(START + 2);
    carry(START + 1);
    assert_string_equal(got.order, "0 3 2 1 ");
    assert_int_equal(got.end.kind, LLM_EVENT_SESSION_END);
    assert_int_equal(got.end.first, 4);
}

/* Message 3 spans the second and the third packet, with whole messages before and after it. */
static void a_message_across_packets_is_delivered_in_order(void **state)
{
    (void)state;
    heartbeat_due();
    announce(0);
    pack(0, 3);
    (void)flush();
    pack(0, 10);
    pack(0, 10);
    pack(0, 300);
    pack(0, 10);
    pack(0, 10);
    assert_int_equal(flush(), START + 3);
    carry(START);
    carry(START + 2);
    assert_string_equal(got.order, "0 45 ");
    carry(START + 1);
    assert_string_equal(got.order, "0 45 123 ");
    expect_all();
    assert_int_equal(r.counters.messages_delivered, 6);
}

static void a_message_begun_in_an_early_packet_is_lost_with_its_end(void **state)
{
    (void)state;
    heartbeat_due();
    announce(0);
    pack(0, 3);
    (void)flush();
    pack(0, 3);
    (void)flush();
    pack(0, 10);
    pack(0, 300);
    pack(0, 3);
    assert_int_equal(flush(), START + 4);
    pack(0, 3);
    (void)flush();
    carry(START);
    carry(START + 2);
    carry(START + 4);
    assert_string_equal(got.order, "0 2 5 ");
    gone(START + 4);
    expect_all();
    assert_true(got.lost[1] && got.lost[3] && got.lost[4]);
    assert_int_equal(got.gaps, 2);
}

static void messages_of_unnamed_topics_are_delivered_in_order(void **state)
{
    (void)state;
    heartbeat_due();
    announce(0);
    pack(0, 3);
    (void)flush();
    announce(1);
    pack(1, 3);
    (void)flush();
    pack(0, 3);
    pack(1, 3);
    pack(0, 3);
    (void)flush();
    announce(2);
    pack(2, 3);
    pack(0, 3);
    (void)flush();
    carry(START);
    carry(START + 2);
    assert_string_equal(got.order, "0 2 ");
    /* A name received ahead of order is used. */
    carry(START + 3);
    assert_string_equal(got.order, "0 2 56 ");
    carry(START + 1);
    assert_string_equal(got.order, "0 2 56 134 ");
    expect_all();
    assert_int_equal(got.told, 7);
}

static void refused_topics_stay_refused(void **state)
{
    (void)state;
    got.refuses = 1u << 1;
    heartbeat_due();
    announce(0);
    announce(1);
    pack(0, 3);
    (void)flush();
    for (int i = 0; i < 3; i++) {
        pack(1, 3);
        pack(0, 3);
        pack(1, 3);
        (void)flush();
    }
    carry(START);
    carry(START + 2);
    carry(START + 3);
    carry(START + 1);
    assert_string_equal(got.order, "0 5 8 2 ");
    assert_int_equal(r.counters.messages_refused, 6);
    assert_int_equal(r.counters.messages_delivered, 4);
    assert_int_equal(rx->unpack.number, sent.count);
}

/* This applies to packets buffered before the name was lost and to packets that arrive later. */
static void unordered_delivery_waits_until_topic_names_are_known(void **state)
{
    struct lli_wire_topics topics = {.session = SESSION, .total = 2, .first = 0, .count = 2};
    size_t used = LLI_WIRE_TOPICS_HEAD;

    (void)state;
    begin(2);
    announce(1);
    (void)flush();
    for (int i = 0; i < 4; i++) {
        pack(1, 3);
        (void)flush();
    }
    carry(START + 1);
    /* The name is lost, which is detected; the first of its messages arrived. */
    carry(START + 3);
    tx->topics.count = 2;
    heartbeat_due();
    gone(START + 3);
    carry(START + 5);
    assert_string_equal(got.order, "0 1 ");
    used = lli_wire_add_topic(buffer, used, sizeof buffer, "a", 1);
    used = lli_wire_add_topic(buffer, used, sizeof buffer, "b", 1);
    rx_take(buffer, lli_wire_put_topics(buffer, &topics, used));
    assert_string_equal(got.order, "0 1 24 ");
    carry(START + 4);
    carry(START + 6);
    assert_string_equal(got.order, "0 1 24 3 5 ");
    expect_all();
}

/* A delivered message may never arrive again, so its packet is not dropped for one with a lower number. */
static void delivered_messages_are_never_lost_for_lack_of_memory(void **state)
{
    const uint32_t cells = r.reorder.count;

    (void)state;
    begin(60);
    for (lli_seq seq = START + 59; seq > START + 1; seq--)
        carry(seq);
    assert_int_equal(r.reorder.used, cells);
    assert_int_equal(r.counters.reorder_full, 58 - cells);
    assert_int_equal(r.counters.messages_unordered, cells);
    for (lli_seq seq = START + 1; seq < START + 60 - cells; seq++)
        carry(seq);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(r.counters.messages_delivered, 60);
    expect_all();
}

static void lead_is(lli_seq lead)
{
    const struct lli_wire_heartbeat heartbeat = {.session = SESSION,
                                                 .lead = lead,
                                                 .trail = START,
                                                 .start = START,
                                                 .messages = lead - START,
                                                 .sent_at = ++now,
                                                 .interval_us = 10000,
                                                 .address = {1, {'t'}}};

    rx_take(buffer, lli_wire_put_heartbeat(buffer, &heartbeat));
}

/* Packets a window after those of a pending loss come before the packet that ends it. */
static void delivered_messages_are_not_lost_with_a_loss_that_is_pending_for_long(void **state)
{
    (void)state;
    begin(WINDOW + 8);
    carry(START + 2);
    carry(START + 3);
    /* The packets are dropped, as no heartbeat covers them. */
    lead_is(START + 1);
    lead_is(START + 1);
    now += MS;
    gone(START + 4);
    carry(START + 2 + WINDOW);
    carry(START + 3 + WINDOW);
    assert_int_equal(got.gaps, 0);
    carry(START + 4);
    assert_int_equal(got.lost[1], true);
    assert_int_equal(r.counters.messages_lost, 1);
    for (lli_seq seq = START + 5; seq < START + 8 + WINDOW; seq++)
        carry(seq);
    expect_all();
}

/* They were dropped, as no heartbeat covers them, and would be delivered again if the session resumed before them. */
static void a_session_that_falls_silent_ends_behind_messages_delivered_early(void **state)
{
    static struct lli_former former;
    const struct lli_former_session *noted;

    (void)state;
    memset(&former, 0, sizeof former);
    r.config.former = &former;
    begin(6);
    carry(START + 2);
    carry(START + 3);
    carry(START + 5);
    lead_is(START + 1);
    lead_is(START + 1);
    carry(START + 1);
    lead_is(START + 2);
    assert_string_equal(got.order, "0 2 3 5 1 ");
    for (int i = 0; i < 3 && got.end.kind == 0; i++) {
        now += r.config.timeout;
        asked();
    }
    assert_int_equal(got.gaps, 0);
    assert_int_equal(got.end.kind, LLM_EVENT_SESSION_END);
    assert_int_equal(got.end.reason, LLM_REASON_TIMEOUT);
    assert_int_equal(got.end.first, 4);
    noted = lli_former_find(&former, SESSION);
    assert_non_null(noted);
    /* Packet 3 may have had more than was delivered. */
    assert_int_equal(noted->next, START + 3);
    assert_int_equal(noted->number, 4);
}

static void only_messages_in_order_are_acknowledged(void **state)
{
    (void)state;
    begin(4);
    carry(START + 2);
    assert_false(lli_rx_acknowledge(rx, 2, now));
    assert_true(lli_rx_acknowledge(rx, 0, now));
    carry(START + 1);
    assert_true(lli_rx_acknowledge(rx, 2, now));
    assert_false(lli_rx_acknowledge(rx, 3, now));
}

static void replay_is_delivered_in_order_then_live_unordered(void **state)
{
    struct lli_wire_join grant = {.session = SESSION,
                                  .receiver = RECEIVER,
                                  .kind = LLI_WIRE_JOIN_GRANT,
                                  .from = LLM_JOIN_OLDEST,
                                  .topics = 1,
                                  .packet = START,
                                  .lead = START + 4};

    (void)state;
    r.config.chooses = true;
    now += 2 * LLI_TX_YOUNG;
    announce(0);
    for (int i = 0; i < 8; i++) {
        pack(0, 3);
        (void)flush();
    }
    heartbeat_due();
    rx_take(buffer, lli_wire_put_join(buffer, &grant));
    assert_int_equal(got.news, 1);
    carry(START + 6);
    carry(START + 2);
    carry(START);
    assert_string_equal(got.order, "0 ");
    carry(START + 1);
    assert_string_equal(got.order, "0 12 ");
    assert_int_equal(got.live.kind, 0);
    carry(START + 3);
    assert_int_equal(got.live.kind, LLM_EVENT_LIVE);
    assert_int_equal(got.live.first, 4);
    assert_string_equal(got.order, "0 12 36 ");
    carry(START + 7);
    carry(START + 5);
    carry(START + 4);
    assert_string_equal(got.order, "0 12 36 7 5 4 ");
    expect_all();
}

/* ---------------------------------------------------------------------------------------------- at random */

static void send_some(uint64_t *random)
{
    static const uint32_t sizes[] = {0, 1, 20, 100, 200, 250, 600, SIZE_MAX_SENT};

    for (uint32_t i = below(random, 6); i > 0; i--) {
        if (chance(random, 5) && tx->topics.count < 4)
            announce(tx->topics.count++);
        pack(below(random, tx->topics.count), sizes[below(random, 8)]);
        if (chance(random, 40))
            (void)flush();
    }
    (void)flush();
}

/* Answers NAKs: most requested packets arrive; with `lossy`, some are no longer in the history. */
static void answer(uint64_t *random, bool lossy)
{
    struct lli_wire_header header;
    struct lli_packet packet;
    struct lli_wire_nak nak = {.count = 0};
    const uint8_t *body;
    size_t size;

    while (lli_rx_control(rx, now, buffer, &packet))
        if (lli_wire_get_header(packet.data, packet.size, &header, &body, &size) == LLI_WIRE_OK &&
            header.type == LLI_WIRE_NAK)
            assert_true(lli_wire_get_nak(body, size, header.tag, &nak));
    pull();
    for (uint16_t range = 0; range < nak.count; range++)
        for (uint32_t i = 0; i < nak.ranges[range].count; i++)
            if (chance(random, 50))
                carry(lli_seq_extend(rx->gap.next, nak.ranges[range].first + i));
    if (lossy && rx->gap.missing > 0 && chance(random, 10))
        gone(rx->gap.next + 1 + below(random, 3));
}

static void shuffled_packets_deliver_each_message_once(void **state)
{
    uint64_t random = 7, unordered = 0, lost = 0;

    (void)state;
    (void)down(NULL);
    for (uint32_t seed = 0; seed < 60; seed++) {
        (void)up(NULL);
        r.config.nak_retry_max = 200 * US;
        got.unnamed = seed % 2 == 1; /* lost names are never repaired in this test */
        heartbeat_due();
        tx->topics.count = 1;
        announce(0);
        for (int round = 0; round < 150 || rx->gap.next < tx->sent; round++) {
            /* If every name is lost, delivery waits for most of a second. */
            assert_true(round < 50000);
            now += 60 * US;
            if (round < 150 && tx->sent - rx->gap.next < WINDOW / 2)
                send_some(&random);
            for (int i = 0; i < 3 && tx->sent > START; i++)
                if (chance(&random, 60))
                    carry(tx->sent - 1 - lli_min(below(&random, 20), tx->sent - 1 - START));
            heartbeat_due();
            answer(&random, seed % 2 == 1);
        }
        lli_tx_end(tx, now);
        heartbeat_due();
        expect_all();
        assert_int_equal(got.end.kind, LLM_EVENT_SESSION_END);
        assert_int_equal(r.counters.messages_delivered + r.counters.messages_lost, sent.count);
        assert_int_equal(r.counters.data_malformed, 0);
        assert_true(seed % 2 == 1 || got.gaps == 0);
        unordered += r.counters.messages_unordered;
        lost += r.counters.messages_lost;
        (void)down(NULL);
    }
    assert_true(unordered > 1000 && lost > 100);
    (void)up(NULL);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(messages_are_delivered_in_order_of_arrival),
        T(a_duplicate_packet_delivers_nothing),
        T(unordered_delivery_still_requests_missing_packets),
        T(a_gap_contains_only_lost_messages),
        T(the_end_follows_all_unordered_messages),
        T(a_message_across_packets_is_delivered_in_order),
        T(a_message_begun_in_an_early_packet_is_lost_with_its_end),
        T(messages_of_unnamed_topics_are_delivered_in_order),
        T(refused_topics_stay_refused),
        T(unordered_delivery_waits_until_topic_names_are_known),
        T(delivered_messages_are_never_lost_for_lack_of_memory),
        T(delivered_messages_are_not_lost_with_a_loss_that_is_pending_for_long),
        T(a_session_that_falls_silent_ends_behind_messages_delivered_early),
        T(only_messages_in_order_are_acknowledged),
        T(replay_is_delivered_in_order_then_live_unordered),
        T(shuffled_packets_deliver_each_message_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
