/* SPDX-License-Identifier: Apache-2.0 */
/* Late join: a transmitter and a late receiver, with packets carried between them by hand. */
#include "ends.h"

enum { MESSAGES_MAX = 1024 };

static uint8_t buffer[1024];
static struct llm_join join;
static lli_ns now;
static int losing; /* number of control packets to the transmitter to lose, then of answers */
static int losing_answers;

static struct {
    uint64_t first;
    uint64_t expected;
    uint64_t lost_first, lost_last;
    int news, lives, gaps;
    enum llm_reason gap_reason;
    struct llm_event refused;
} got;

static int up(void **state)
{
    const struct lli_tx_config tx_options = tx_config();

    (void)state;
    now = 5000 * MS;
    r = (struct receiver){.random = 1};
    losing = losing_answers = 0;
    memset(&got, 0, sizeof got);
    r.config = rx_config();
    r.config.chooses = true;
    r.config.otherwise = LLI_RX_ELSE_REFUSE;
    r.config.nak_giveup = 300 * MS;
    transmitter_make(&t, &tx_options, now);
    now += 2 * LLI_TX_YOUNG;
    receiver_make(&r, 32, now);
    return 0;
}

static void take_event(const struct llm_event *event)
{
    if (event->kind == LLM_EVENT_SESSION_NEW) {
        got.news++;
        got.first = got.expected = event->first;
    } else if (event->kind == LLM_EVENT_GAP) {
        assert_int_equal(event->first, got.expected);
        got.gaps++;
        got.gap_reason = event->reason;
        got.lost_first = event->first;
        got.lost_last = event->last;
        got.expected = event->last + 1;
    } else if (event->kind == LLM_EVENT_LIVE) {
        got.lives++;
        assert_int_equal(event->first, got.expected);
    } else if (event->kind == LLM_EVENT_JOIN_REFUSED) {
        got.refused = *event;
    }
}

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        if (item.kind == LLI_ITEM_JOIN)
            lli_rx_begin(rx, &join, now);
        else if (item.kind == LLI_ITEM_MESSAGES)
            for (int i = 0; i < item.count; i++)
                assert_int_equal(item.messages[i].number, got.expected++);
        else
            take_event(&item.event);
    }
}

static void rx_take(const struct lli_packet *sent)
{
    receiver_take(&r, sent->data, sent->size, now, pull);
}

/* Carries all packets between both until a time. */
static void talk(lli_ns until)
{
    struct lli_packet packet;

    for (; now < until; now += 20 * US) {
        while (lli_tx_repair(tx, now, &packet)) {
            rx_take(&packet);
            lli_tx_repaired(tx, now);
        }
        while (lli_tx_replay(tx, now, &packet)) {
            assert_non_null(packet.to);
            assert_int_equal(packet.to->bytes[0], 'r');
            rx_take(&packet);
            lli_tx_replayed(tx);
        }
        lli_tx_reaped(tx, true);
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            if ((packet.data[0] & 15) != LLI_WIRE_JOIN || losing_answers-- <= 0)
                rx_take(&packet);
        while (lli_rx_control(rx, now, buffer, &packet))
            if (losing-- <= 0)
                tx_take(tx, packet.data, packet.size, now);
        pull();
    }
}

/* Sends messages, which the receiver hears or not. */
static void send(int count, bool heard)
{
    struct lli_packet packet;

    for (int i = 0; i < count; i++) {
        pack_one(tx, "a message");
        if (lli_tx_unsent(tx, now, &packet, 1) == 1 && heard)
            rx_take(&packet);
        lli_tx_sent(tx, 1, now);
        lli_tx_reaped(tx, true);
    }
}

/* The same number in one packet. */
static void send_together(int count)
{
    const struct lli_pack_topic topic = {.id = 0};
    const struct iovec piece = {(void *)(uintptr_t) "1234567", 7};

    for (int i = 0; i < count; i++)
        assert_true(lli_pack_message(&tx->pack, &topic, &piece, 7, lli_tx_busy(tx)));
    lli_pack_flush(&tx->pack);
    lli_tx_sent(tx, (int)(tx->history.next - tx->sent), now);
    lli_tx_reaped(tx, true);
}

static void expect_joined(uint64_t first)
{
    talk(now + 200 * MS);
    assert_int_equal(got.news, 1);
    assert_int_equal(got.first, first);
    assert_int_equal(got.lives, 1);
    assert_int_equal(got.expected, tx->pack.number);
    send(3, true);
    assert_int_equal(got.expected, tx->pack.number);
    assert_int_equal(tx->counters.repairs_multicast, 0);
    assert_int_equal(tx->counters.packets_repaired, 0);
    assert_int_equal(r.counters.data_malformed, 0);
}

static void join_oldest_replays_the_history_then_goes_live(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    send(50, false);
    expect_joined(0);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(tx->counters.packets_replayed, 50);
    assert_int_equal(r.counters.packets_missed, 0);
}

/* The way back is nearly two windows; live packets that find no room on the way are fetched as well. */
static void a_window_smaller_than_the_replay_is_enough(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    send(90, false);
    while (got.news == 0)
        talk(now + 20 * US);
    assert_true(lli_gap_window(&rx->gap) < 90);
    send(20, true);
    expect_joined(0);
    assert_int_equal(got.gaps, 0);
    assert_true(r.counters.window_overflow > 0);
}

static void join_messages_may_begin_in_the_middle_of_a_packet(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_MESSAGES, 13};
    send_together(20);
    send_together(20);
    send_together(5);
    expect_joined(32);
}

static void join_messages_beyond_the_start_gives_all_messages(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_MESSAGES, 1000};
    send_together(20);
    expect_joined(0);
}

static void join_number_begins_with_that_message(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_NUMBER, 25};
    send_together(20);
    send_together(20);
    expect_joined(25);
}

static void join_number_at_the_start_of_a_packet_fetches_only_it(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_NUMBER, 20};
    send_together(20);
    send_together(5);
    expect_joined(20);
    assert_int_equal(tx->counters.packets_replayed, 1);
}

static void join_number_of_the_next_message_waits_for_it(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_NUMBER, 20};
    send_together(20);
    expect_joined(20);
    assert_int_equal(tx->counters.packets_replayed, 0);
}

static void join_number_beyond_the_next_message_is_refused(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_NUMBER, 21};
    send_together(20);
    talk(now + 50 * MS);
    assert_int_equal(got.refused.reason, LLM_REASON_NOT_SENT);
    assert_int_equal(got.refused.first, 21);
    assert_int_equal(got.news, 0);
    assert_int_equal(rx->state, LLI_RX_REFUSED);
}

static void messages_beyond_the_history_are_refused(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_NUMBER, 3};
    send(200, false);
    talk(now + 50 * MS);
    assert_int_equal(got.refused.reason, LLM_REASON_HISTORY);
    assert_int_equal(got.refused.first, 3);
    assert_int_equal(got.refused.last, tx->history.trail - START);
    assert_int_equal(got.news, 0);
}

static void a_refused_join_falls_back_to_the_oldest_if_configured(void **state)
{
    (void)state;
    r.config.otherwise = LLI_RX_ELSE_OLDEST;
    join = (struct llm_join){LLM_JOIN_MESSAGES, 190};
    send(200, false);
    talk(now + 200 * MS);
    assert_int_equal(got.refused.first, 10);
    assert_int_equal(got.refused.last, tx->history.trail - START);
    assert_int_equal(got.news, 1);
    assert_true(got.first >= got.refused.last && got.first < got.refused.last + 16);
    assert_int_equal(got.expected, 200);
    assert_int_equal(got.gaps, 0);
}

static void join_time_gives_all_messages_since_that_time(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_TIME, 50 * MS};
    send(30, false);
    for (int i = 0; i < 20; i++) {
        struct lli_packet packet;

        now += 10 * MS;
        send(1, false);
        now += MS;
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            continue;
    }
    talk(now + 200 * MS);
    assert_int_equal(got.news, 1);
    /* Of twenty, 11 ms apart, those of the last 50 ms, and at most one more. */
    assert_true(got.first >= 44 && got.first <= 45);
    assert_int_equal(got.expected, 50);
}

static void lost_join_requests_and_grants_are_repeated(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    send(20, false);
    losing = 2;
    losing_answers = 2;
    expect_joined(0);
    assert_true(r.counters.joins_sent > 4);
    assert_int_equal(r.counters.joins_granted, 1);
}

static void an_unanswered_join_is_given_up(void **state)
{
    (void)state;
    r.config.otherwise = LLI_RX_ELSE_OLDEST;
    join = (struct llm_join){LLM_JOIN_NUMBER, 5};
    send(20, false);
    losing = 1 << 30;
    talk(now + 250 * MS);
    assert_int_equal(got.refused.kind, 0);
    talk(now + 100 * MS);
    assert_int_equal(got.refused.reason, LLM_REASON_UNANSWERED);
    assert_int_equal(got.refused.first, 5);
    /* Then with messages sent from now on. */
    assert_int_equal(got.first, 20);
    assert_int_equal(got.lives, 0);
}

static void packets_forgotten_during_replay_become_a_gap(void **state)
{
    struct lli_packet packet;

    (void)state;
    join = (struct llm_join){LLM_JOIN_NUMBER, 0};
    send(60, false);
    while (got.news == 0)
        talk(now + 20 * US);
    /* Only past packets already on their way have arrived. */
    lli_pacer_init(&tx->replay.pacer, 1 << 20, 1, now);
    assert_true(lli_tx_replay(tx, now, &packet) || got.expected > 0);
    send(120, false);
    tx->replay.pacer.burst = 1 << 20;
    talk(now + 300 * MS);
    assert_int_equal(got.gaps, 1);
    assert_int_equal(got.gap_reason, LLM_REASON_GONE);
    assert_int_equal(got.lost_last + 1, tx->history.trail - START);
    assert_int_equal(got.lives, 1);
    assert_int_equal(got.expected, 180);
}

static void a_replay_that_stops_is_given_up(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    send(20, false);
    while (got.news == 0)
        talk(now + 20 * US);
    losing = 1 << 30;
    tx->replay.fetching = tx->replay.count = 0;
    talk(now + 500 * MS);
    assert_int_equal(got.gap_reason, LLM_REASON_TIMEOUT);
    assert_int_equal(got.expected, 20);
    assert_int_equal(got.lives, 1);
}

/* Fetches of unsent packets and of uncached topics: the transmitter stays asleep and does not retry. */
static void an_empty_fetch_leaves_nothing_due(void **state)
{
    struct lli_wire_join request = {.session = SESSION,
                                    .receiver = RECEIVER,
                                    .kind = LLI_WIRE_JOIN_FETCH,
                                    .count = 1,
                                    .ranges = {{(uint32_t)START + 100, 10}},
                                    .address = {1, {'r'}}};
    struct lli_packet packet;

    (void)state;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    send(10, false);
    for (int kind = LLI_WIRE_JOIN_FETCH; kind <= LLI_WIRE_JOIN_LATEST; kind++) {
        request.kind = (uint8_t)kind;
        tx_take(tx, buffer, lli_wire_put_join(buffer, &request), now);
        now += MS;
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            continue;
        assert_false(lli_tx_replay(tx, now, &packet));
        assert_true(lli_tx_deadline(tx) > now);
    }
}

static void a_suspended_receiver_gets_no_replay(void **state)
{
    struct lli_wire_join ask = {
        .session = SESSION, .receiver = RECEIVER, .kind = LLI_WIRE_JOIN_ASK, .from = LLM_JOIN_OLDEST};
    uint64_t replayed;

    (void)state;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    send(60, false);
    lli_pacer_init(&tx->replay.pacer, 1 << 16, 1, now);
    while (got.expected < 5)
        talk(now + 20 * US);
    assert_int_equal(tx->replay.fetching, 1);
    assert_true(lli_tx_suspend(tx, RECEIVER, true, now));
    assert_int_equal(tx->replay.count + tx->replay.fetching + tx->replay.answering, 0);
    assert_int_equal(tx->counters.joins_ignored, 1);
    replayed = tx->counters.packets_replayed;
    talk(now + 200 * MS);
    assert_int_equal(tx->counters.packets_replayed, replayed);
    assert_true(tx->counters.joins_ignored > 1);
    assert_int_equal(got.gaps, 1);
    assert_int_equal(got.gap_reason, LLM_REASON_SUSPENDED);
    assert_int_equal(got.expected, 60);
    assert_int_equal(got.lives, 1);
    /* It gets no start position either, until it is served again. */
    tx_take(tx, buffer, lli_wire_put_join(buffer, &ask), now);
    assert_int_equal(tx->replay.answering, 0);
    assert_true(lli_tx_suspend(tx, RECEIVER, false, now));
    talk(now + 100 * MS);
    tx_take(tx, buffer, lli_wire_put_join(buffer, &ask), now);
    assert_int_equal(tx->replay.answering, 1);
}

static void replay_yields_to_repairs_and_does_not_block_flow_control(void **state)
{
    struct lli_wire_nak nak = {.session = SESSION, .receiver = 5, .address = {1, {'a'}}, .count = 1};
    struct lli_packet packet;

    (void)state;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    send(60, false);
    while (got.news == 0)
        talk(now + 20 * US);
    assert_true(rx->pending.lag & LLI_RX_REPLAYING);
    lli_pacer_init(&tx->repair.pacer, 1 << 20, 1 << 20, now);
    nak.ranges[0] = (struct lli_wire_range){(uint32_t)START, 1};
    tx_take(tx, buffer, lli_wire_put_nak(buffer, &nak), now);
    assert_false(lli_tx_replay(tx, now, &packet));
    assert_true(lli_tx_repair(tx, now, &packet));
    lli_tx_repaired(tx, now);
    /* Its reports do not limit the rate until it is live. */
    for (uint32_t i = 0; i < tx->members.limit; i++)
        assert_true(tx->members.table[i].id != RECEIVER || tx->members.table[i].next == 0);
    talk(now + 400 * MS);
    assert_int_equal(got.lives, 1);
    for (uint32_t i = 0; i < tx->members.limit; i++)
        assert_true(tx->members.table[i].id != RECEIVER || tx->members.table[i].next == START + 60);
}

static void a_young_session_begins_at_its_start_except_by_number(void **state)
{
    (void)state;
    tx->opened_at = now;
    join = (struct llm_join){LLM_JOIN_MESSAGES, 1};
    send(5, false);
    talk(now + 10 * MS);
    assert_int_equal(got.first, 0);
    assert_int_equal(got.expected, 5);
    (void)down(NULL);
    (void)up(NULL);
    tx->opened_at = now;
    join = (struct llm_join){LLM_JOIN_NUMBER, 3};
    send(5, false);
    expect_joined(3);
}

static void a_young_session_is_live_after_its_earlier_messages(void **state)
{
    static const enum llm_join_mode modes[] = {LLM_JOIN_OLDEST, LLM_JOIN_MESSAGES, LLM_JOIN_TIME,
                                               LLM_JOIN_LATEST};

    for (unsigned i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        (void)down(state);
        (void)up(state);
        tx->opened_at = now;
        join = (struct llm_join){modes[i], 1};
        send(5, false);
        talk(now + 10 * MS);
        assert_int_equal(got.expected, 5);
        assert_int_equal(got.lives, 1);
        send(3, false);
        talk(now + 400 * MS);
        assert_int_equal(got.expected, 8);
        assert_int_equal(got.lives, 1);
    }
    /* A session that sent nothing is live at once; one joined live has no past. */
    (void)down(state);
    (void)up(state);
    tx->opened_at = now;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    talk(now + 10 * MS);
    assert_int_equal(got.lives, 1);
    (void)down(state);
    (void)up(state);
    tx->opened_at = now;
    join = (struct llm_join){LLM_JOIN_LIVE, 0};
    send(5, false);
    talk(now + 10 * MS);
    assert_int_equal(got.expected, 5);
    assert_int_equal(got.lives, 0);
}

static void packets_older_than_history_ns_are_forgotten(void **state)
{
    struct lli_packet packet;

    (void)state;
    tx->config.history_ns = 100 * MS;
    for (int i = 0; i < 20; i++) {
        now += 10 * MS;
        send(1, false);
        now += 10 * MS;
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            continue;
    }
    /* Of twenty, 20 ms apart. */
    assert_int_equal(tx->sent - tx->history.trail, 5);
}

/* -------------------------------------------------------------------------------------- assured topics */

static struct lli_ack_topic orders;
static struct lli_ack_message ring[128];

/* Sends messages of a topic that one receiver has to acknowledge; no receiver hears them. */
static void send_assured(int count)
{
    const struct lli_ack_rule rule = {
        .receivers = 1, .messages_max = 128, .bytes_max = 4096, .patience = 100 * MS};

    lli_ack_topic_init(&orders, 0, "orders");
    assert_true(lli_tx_assure(tx, &orders, &rule, ring, 128));
    for (int i = 0; i < count; i++) {
        const lli_seq seq = tx->history.next;

        pack_one(tx, "an order");
        lli_tx_assured(tx, &orders, seq, 8);
        lli_tx_sent(tx, 1, now);
        lli_tx_reaped(tx, true);
    }
}

static void expect_all_acknowledged(uint64_t first)
{
    expect_joined(first);
    talk(now + 200 * MS);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(tx->ack.waiting, 0);
}

/* Each join begins with the oldest unacknowledged message or before. */
static void late_joins_include_unacknowledged_messages(void **state)
{
    const struct {
        struct llm_join join;
        uint64_t first;
    } cases[] = {{{LLM_JOIN_NUMBER, 18}, 10}, {{LLM_JOIN_MESSAGES, 1}, 10}, {{LLM_JOIN_TIME, 0}, 10},
                 {{LLM_JOIN_OLDEST, 0}, 0},   {{LLM_JOIN_NUMBER, 4}, 4},    {{LLM_JOIN_NUMBER, 10}, 10}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)down(NULL);
        (void)up(NULL);
        join = cases[i].join;
        send(10, false);
        send_assured(5);
        send(5, false);
        expect_all_acknowledged(cases[i].first);
    }
}

static void live_joins_begin_with_unacknowledged_messages(void **state)
{
    (void)state;
    join = (struct llm_join){LLM_JOIN_LIVE, 0};
    send(10, false);
    send_assured(5);
    send(5, false);
    talk(now + 200 * MS);
    assert_int_equal(got.first, 10);
    assert_int_equal(got.expected, 20);
    assert_int_equal(tx->ack.waiting, 0);
}

/*
 * During replay, reports have 0 as next and acknowledge delivered messages only, not messages to be fetched
 * or forgotten ones.
 */
static void replay_acknowledges_only_delivered_messages(void **state)
{
    const lli_ns end = now + 40000 * MS;
    bool partly = false;

    (void)state;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    lli_pacer_init(&tx->replay.pacer, 2048, 64, now);
    send_assured(100);
    while (now < end && got.lives == 0) {
        talk(now + 10 * MS);
        assert_true(100 - tx->ack.waiting <= got.expected);
        partly |= rx->pending.lag & LLI_RX_REPLAYING && tx->ack.waiting > 0 && tx->ack.waiting < 100;
    }
    assert_true(partly);
    talk(now + 200 * MS);
    assert_int_equal(tx->ack.waiting, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

/*
 * With topics_max below the number of topics the answers add nothing, and the receiver has to continue
 * without the names.
 */
static void topic_names_beyond_the_limit_are_queried_seldom(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    uint32_t id;

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(lli_tx_topic_add(tx, names[i], &id), LLM_OK);
    lli_pack_flush(&tx->pack);
    lli_tx_sent(tx, 1, now);
    lli_tx_reaped(tx, true);
    rx->topics.limit = 2;
    join = (struct llm_join){LLM_JOIN_NUMBER, 10};
    send(20, false);
    talk(now + 4000 * MS);
    assert_int_equal(got.first, 10);
    assert_int_equal(got.lives, 1);
    assert_int_equal(got.expected, tx->pack.number);
    assert_int_equal(rx->topics.known, 2);
    assert_true(r.counters.queries_sent > 2 && r.counters.queries_sent <= 20);
}

/* The late heartbeat was sent before the GRANT, when there was no topic. */
static void a_late_heartbeat_does_not_deliver_messages_before_topics(void **state)
{
    struct lli_wire_heartbeat late;
    uint32_t id;

    (void)state;
    assert_int_equal(lli_tx_topic_add(tx, "a topic", &id), LLM_OK);
    lli_pack_flush(&tx->pack);
    lli_tx_sent(tx, 1, now);
    lli_tx_reaped(tx, true);
    join = (struct llm_join){LLM_JOIN_NUMBER, 10};
    send(20, false);
    while (rx->state != LLI_RX_LIVE)
        talk(now + 20 * US);
    assert_int_equal(rx->topics.known, 0);
    late = rx->heartbeat;
    late.topics = 0;
    receiver_take(&r, buffer, lli_wire_put_heartbeat(buffer, &late), now, pull);
    while (rx->topics.known == 0 && now < 10000 * MS) {
        assert_int_equal(got.expected, 10);
        talk(now + 20 * US);
    }
    talk(now + 100 * MS);
    assert_int_equal(got.expected, tx->pack.number);
    assert_int_equal(rx->topics.known, 1);
    assert_int_equal(r.counters.topics_unknown, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_late_heartbeat_does_not_deliver_messages_before_topics),
        T(join_oldest_replays_the_history_then_goes_live),
        T(a_window_smaller_than_the_replay_is_enough),
        T(join_messages_may_begin_in_the_middle_of_a_packet),
        T(join_messages_beyond_the_start_gives_all_messages),
        T(join_number_begins_with_that_message),
        T(join_number_at_the_start_of_a_packet_fetches_only_it),
        T(join_number_of_the_next_message_waits_for_it),
        T(join_number_beyond_the_next_message_is_refused),
        T(messages_beyond_the_history_are_refused),
        T(a_refused_join_falls_back_to_the_oldest_if_configured),
        T(join_time_gives_all_messages_since_that_time),
        T(lost_join_requests_and_grants_are_repeated),
        T(an_unanswered_join_is_given_up),
        T(packets_forgotten_during_replay_become_a_gap),
        T(a_replay_that_stops_is_given_up),
        T(an_empty_fetch_leaves_nothing_due),
        T(a_suspended_receiver_gets_no_replay),
        T(replay_yields_to_repairs_and_does_not_block_flow_control),
        T(a_young_session_begins_at_its_start_except_by_number),
        T(a_young_session_is_live_after_its_earlier_messages),
        T(packets_older_than_history_ns_are_forgotten),
        T(late_joins_include_unacknowledged_messages),
        T(live_joins_begin_with_unacknowledged_messages),
        T(replay_acknowledges_only_delivered_messages),
        T(topic_names_beyond_the_limit_are_queried_seldom),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
