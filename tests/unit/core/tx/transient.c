/* SPDX-License-Identifier: Apache-2.0 */
/* Topics without history: a transmitter and a late receiver, with packets carried between them by hand. */
#include "session.h"

enum { MESSAGES_MAX = 4096, TOPICS = 4, CELLS = 64, ROUNDS = 60 };

static struct lli_pack_topic topics[TOPICS];
static const char *const names[TOPICS] = {"orders", "quotes", "trades", "ticks"};

static struct transmitter t;
static struct lli_tx *const tx = &t.tx;
static struct receiver r;
static struct lli_rx *const rx = &r.rx;
static uint64_t chance_state;
static uint8_t buffer[1024];
static struct llm_join join;
static lli_ns now;
static bool present;  /* the receiver has joined */
static uint32_t loss; /* percentage of all packets */

static uint8_t sent_on[MESSAGES_MAX]; /* topic of each message */

static struct {
    uint64_t first;    /* first message */
    uint64_t expected; /* messages before this one were delivered, or are not for it */
    uint64_t live;     /* beginning of live data, as in the answer */
    uint64_t came;
    int news, lives, gaps;
    enum llm_reason reason;
} got;

static void rx_make(void)
{
    receiver_make(&r, CELLS, now);
    present = true;
}

static void rx_unmake(void)
{
    if (!present)
        return;
    receiver_unmake(&r);
    present = false;
}

/* Makes a transmitter with these topics, some without history, and room for all packets of a test. */
static void tx_make(unsigned transient)
{
    struct lli_tx_config options = tx_config();
    uint32_t id;

    options.history.packets = 2048;
    options.history.bytes = (uint64_t)options.history.packets * PACKET_MAX;
    options.replay_bytes_per_s = 32 << 20;
    transmitter_make(&t, &options, now);
    for (uint32_t i = 0; i < TOPICS; i++) {
        const bool is = transient >> i & 1;

        assert_int_equal(
            is ? lli_tx_topic_add_transient(tx, names[i], &id) : lli_tx_topic_add(tx, names[i], &id), LLM_OK);
        topics[i] = (struct lli_pack_topic){.id = id, .transient = is};
    }
    lli_pack_flush(&tx->pack);
    lli_tx_sent(tx, 1, now);
    lli_tx_reaped(tx, true);
    now += 2 * LLI_TX_YOUNG;
    tx->heartbeat.at = now;
}

static void begin(void)
{
    now = 5000 * MS;
    r = (struct receiver){.random = 1};
    loss = 0;
    memset(&got, 0, sizeof got);
    r.config = rx_config();
    r.config.chooses = true;
    r.config.otherwise = LLI_RX_ELSE_REFUSE;
    r.config.nak_retry_max = 5 * MS;
    r.config.nak_giveup = 10000 * MS;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
}

static int up(void **state)
{
    (void)state;
    chance_state = 7;
    begin();
    /* Quotes and ticks have no history. */
    tx_make(1u << 1 | 1u << 3);
    return 0;
}

static int down(void **state)
{
    (void)state;
    rx_unmake();
    free(t.memory);
    return 0;
}

static bool is_stale(uint64_t number)
{
    return topics[sent_on[number]].transient && number < got.live;
}

/* Skips messages that are not for the receiver. */
static void expect_next(void)
{
    while (got.expected < tx->pack.number && is_stale(got.expected))
        got.expected++;
}

static void take_event(const struct llm_event *event)
{
    if (event->kind == LLM_EVENT_SESSION_NEW) {
        got.news++;
        got.first = got.expected = event->first;
        got.live = rx->join.live;
    } else if (event->kind == LLM_EVENT_GAP) {
        got.gaps++;
        got.reason = event->reason;
        assert_true(event->first <= got.expected);
        got.expected = lli_max(got.expected, event->last + 1);
    } else if (event->kind == LLM_EVENT_LIVE) {
        got.lives++;
        expect_next();
        assert_true(event->first <= got.expected && event->first + 1 >= got.live);
    }
}

static void take_message(const struct llm_message *message)
{
    expect_next();
    assert_int_equal(message->number, got.expected);
    assert_int_equal(message->topic_id, sent_on[message->number]);
    assert_string_equal(message->topic, names[message->topic_id]);
    for (size_t i = 0; i < message->size; i++)
        assert_int_equal(((const uint8_t *)message->data)[i], pattern(message->number, i));
    got.expected++;
    got.came++;
}

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        if (item.kind == LLI_ITEM_JOIN)
            lli_rx_begin(rx, &join, now);
        else if (item.kind == LLI_ITEM_MESSAGES)
            for (int i = 0; i < item.count; i++)
                take_message(&item.messages[i]);
        else
            take_event(&item.event);
    }
}

static void rx_take(const uint8_t *data, size_t size)
{
    if (present && !chance(&chance_state, loss))
        receiver_take(&r, data, size, now, pull);
}

/* Carries all packets between both until a time. */
static void talk(lli_ns until)
{
    struct lli_packet packet;

    for (; now < until; now += 20 * US) {
        tx_speak(tx, now, buffer, sizeof buffer, rx_take);
        while (present && lli_rx_control(rx, now, buffer, &packet))
            if (!chance(&chance_state, loss))
                tx_take(tx, packet.data, packet.size, now);
        if (present)
            pull();
    }
}

/* Sends the sealed packets to a present receiver. */
static void flush(bool heard)
{
    struct lli_packet packet;

    while (lli_tx_unsent(tx, now, &packet, 1) == 1) {
        if (heard)
            rx_take(packet.data, packet.size);
        lli_tx_sent(tx, 1, now);
        lli_tx_reaped(tx, true);
    }
}

/* Packs a message of this size. */
static void pack(uint32_t topic, uint32_t size)
{
    uint8_t bytes[1024];
    const struct iovec piece = {bytes, size};

    assert_true(size <= sizeof bytes && tx->pack.number < MESSAGES_MAX);
    pattern_fill(bytes, size, tx->pack.number);
    sent_on[tx->pack.number] = (uint8_t)topic;
    if (!lli_pack_in_place(&tx->pack, &topics[topic], bytes, size))
        assert_true(lli_pack_message(&tx->pack, &topics[topic], &piece, size, lli_tx_busy(tx)));
}

/* Sends one or two messages in a packet of their own. */
static void send(uint32_t topic, bool heard)
{
    pack(topic, 20);
    lli_pack_flush(&tx->pack);
    flush(heard);
}

static void send_both(uint32_t topic, uint32_t other)
{
    pack(topic, 20);
    pack(other, 20);
    lli_pack_flush(&tx->pack);
    flush(true);
}

/* Checks that the receiver joined and got the past and all later messages. */
static void expect_joined(void)
{
    assert_int_equal(got.news, 1);
    assert_int_equal(got.lives, 1);
    expect_next();
    assert_int_equal(got.expected, tx->pack.number);
    assert_int_equal(r.counters.data_malformed, 0);
    assert_int_equal(r.counters.topics_unknown, 0);
}

static void losses_are_repaired_for_current_receivers(void **state)
{
    (void)state;
    rx_make();
    talk(now + 5 * MS);
    send(1, true);
    for (int i = 0; i < 10; i++)
        send((uint32_t)i % TOPICS, false);
    send(1, true);
    talk(now + 20 * MS);
    assert_int_equal(got.came, 12);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(tx->counters.packets_repaired, 10);
}

static void late_joiners_get_no_earlier_message(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        send_both(0, 1);
    rx_make();
    talk(now + 20 * MS);
    assert_int_equal(got.live, 40);
    send_both(0, 1);
    talk(now + 20 * MS);
    expect_joined();
    assert_int_equal(got.came, 20 + 2);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(r.counters.messages_stale, 20);
    assert_int_equal(r.counters.messages_lost, 0);
    assert_int_equal(tx->counters.packets_without_history, 0);
}

static void packets_of_topics_without_history_are_not_replayed(void **state)
{
    (void)state;
    for (int i = 0; i < 90; i++)
        send(i % 30 == 10 ? 2 : 1, false);
    rx_make();
    talk(now + 50 * MS);
    expect_joined();
    assert_int_equal(got.came, 3);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(tx->counters.packets_without_history, 87);
    assert_int_equal(r.counters.packets_without_history, 87);
    assert_int_equal(r.counters.packets_lost, 0);
    /* Including the announcements; and the receiver does not wait for omitted packets. */
    assert_int_equal(tx->counters.packets_replayed, 4);
    assert_true(r.counters.fetches_sent <= 5);
    assert_int_equal(rx->unpack.number, 90);
    send(1, true);
    send(2, true);
    expect_joined();
    assert_int_equal(got.came, 5);
}

/* The last past packet continues in the first live packet. */
static void a_message_belongs_to_the_time_of_its_start(void **state)
{
    (void)state;
    send(0, true);
    pack(1, 3 * PACKET_MAX);
    flush(true);
    assert_true(lli_pack_pending(&tx->pack));
    rx_make();
    talk(now + 20 * MS);
    assert_int_equal(got.live, 2);
    pack(1, 20);
    lli_pack_flush(&tx->pack);
    flush(true);
    talk(now + 20 * MS);
    expect_joined();
    assert_int_equal(got.came, 2);
    assert_int_equal(r.counters.messages_lost, 0);
}

static void join_number_and_join_messages_omit_topics_without_history(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        send_both(1, 0);
    join = (struct llm_join){LLM_JOIN_NUMBER, 30};
    rx_make();
    talk(now + 20 * MS);
    assert_int_equal(got.first, 30);
    expect_joined();
    assert_int_equal(got.came, 5);
    rx_unmake();
    begin();
    now = tx->heartbeat.at;
    join = (struct llm_join){LLM_JOIN_MESSAGES, 9};
    rx_make();
    talk(now + 20 * MS);
    assert_int_equal(got.first, 31);
    expect_joined();
    assert_int_equal(got.came, 5);
    assert_int_equal(r.counters.messages_stale, 4);
}

/* Live packets without room are fetched like past packets; their messages are live. */
static void live_packets_fetched_for_lack_of_room_are_delivered(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        send((uint32_t)i % 2, false);
    rx_make();
    while (got.news == 0)
        talk(now + 20 * US);
    for (int i = 0; i < 100; i++)
        send(1, true);
    talk(now + 100 * MS);
    expect_joined();
    assert_int_equal(got.came, 30 + 100);
    assert_true(r.counters.window_overflow > 0);
    assert_int_equal(got.gaps, 0);
}

/* A reject as PASSED applies only to requested packets before the join. */
static void only_fetched_past_packets_can_be_omitted(void **state)
{
    struct lli_wire_reject reject = {
        .session = SESSION, .trail = START, .reason = LLI_WIRE_PASSED, .count = 2};

    (void)state;
    for (int i = 0; i < 10; i++)
        send(0, false);
    rx_make();
    while (got.news == 0)
        talk(now + 20 * US);
    talk(now + 20 * MS);
    expect_joined();
    send(0, false);
    send(0, true);
    reject.ranges[0] = (struct lli_wire_range){(uint32_t)START, 1000};
    reject.ranges[1] = (struct lli_wire_range){(uint32_t)START + 1000, UINT32_MAX};
    rx_take(buffer, lli_wire_put_reject(buffer, &reject));
    assert_int_equal(got.came, 10);
    talk(now + 20 * MS);
    expect_joined();
    assert_int_equal(got.came, 12);
    assert_int_equal(r.counters.packets_without_history, 0);
}

/* A receiver of an earlier version does not send its join position. */
static void a_fetch_without_its_join_position_gets_all_packets(void **state)
{
    struct lli_wire_join fetch = {
        .session = SESSION, .receiver = RECEIVER, .kind = LLI_WIRE_JOIN_FETCH, .count = 1};
    struct lli_packet packet;
    int count = 0;

    (void)state;
    for (int i = 0; i < 10; i++)
        send(1, false);
    fetch.ranges[0] = (struct lli_wire_range){(uint32_t)START, 11};
    tx_take(tx, buffer, lli_wire_put_join(buffer, &fetch), now);
    for (; lli_tx_replay(tx, now, &packet); count++)
        lli_tx_replayed(tx);
    assert_int_equal(count, 11);
    fetch.lead = START + 6;
    tx_take(tx, buffer, lli_wire_put_join(buffer, &fetch), now);
    for (count = 0; lli_tx_replay(tx, now, &packet); count++)
        lli_tx_replayed(tx);
    assert_int_equal(count, 6);
    assert_int_equal(tx->counters.packets_without_history, 5);
}

/* The gap contains the lost packets and those between them. */
static void a_loss_beside_topics_without_history_is_reported(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++)
        send(i % 10 == 5 ? 0 : 1, false);
    r.config.otherwise = LLI_RX_ELSE_LIVE;
    rx_make();
    while (got.news == 0)
        talk(now + 20 * US);
    /* All packets that the receiver wants are gone when it requests them. */
    lli_history_forget_before(&tx->history, START + 20, tx->sent);
    talk(now + 50 * MS);
    expect_joined();
    assert_int_equal(got.gaps, 1);
    assert_int_equal(got.reason, LLM_REASON_GONE);
    assert_int_equal(got.came, 1);
}

/* A receiver of assured topics that joins late begins with unacknowledged packets, by NAKs. */
static void joins_for_assured_topics_get_no_earlier_message(void **state)
{
    static struct lli_ack_topic assured;
    static struct lli_ack_message ring[16];
    const struct lli_ack_rule rule = {
        .receivers = 1, .messages_max = 16, .bytes_max = 4096, .patience = 1000 * MS};

    (void)state;
    memset(&assured, 0, sizeof assured);
    assert_true(lli_tx_assure(tx, &assured, &rule, ring, 16));
    pack(0, 20);
    lli_tx_assured(tx, &assured, tx->history.next, 20);
    lli_pack_flush(&tx->pack);
    flush(false);
    for (int i = 0; i < 10; i++)
        send((uint32_t)i % 2, false);
    join = (struct llm_join){LLM_JOIN_LIVE, 0};
    rx_make();
    talk(now + 50 * MS);
    assert_int_equal(got.first, 0);
    assert_int_equal(got.live, 11);
    expect_next();
    assert_int_equal(got.expected, 11);
    assert_int_equal(got.came, 6);
    assert_int_equal(r.counters.messages_stale, 5);
    send(1, true);
    assert_int_equal(got.came, 7);
}

/* Attributes, claims and messages across packets, in random order. */
static void messages_of_topics_with_history_are_never_omitted(void **state)
{
    (void)state;
    down(NULL);
    for (int round = 0; round < ROUNDS; round++) {
        const unsigned at = below(&chance_state, 300);

        begin();
        tx_make(below(&chance_state, 1u << TOPICS));
        r.random = (uint64_t)round + 1;
        join = (struct llm_join){(enum llm_join_mode)below(&chance_state, LLM_JOIN_NUMBER), 0};
        join.value = join.mode == LLM_JOIN_MESSAGES ? below(&chance_state, 200) : 2 * MS;
        for (unsigned i = 0; i < 400; i++) {
            const unsigned kind = below(&chance_state, 10);
            const uint32_t topic = below(&chance_state, TOPICS);
            void *claimed;

            if (kind == 0 &&
                (claimed = lli_pack_claim(&tx->pack, &topics[topic], 30, lli_tx_busy(tx))) != NULL) {
                pattern_fill(claimed, 30, tx->pack.number);
                sent_on[tx->pack.number] = (uint8_t)topic;
                lli_pack_commit(&tx->pack, 30);
            } else {
                pack(topic, below(&chance_state, kind == 1 ? 900 : 60));
            }
            if (chance(&chance_state, 30))
                lli_pack_flush(&tx->pack);
            if (i == at)
                rx_make();
            flush(true);
            if (chance(&chance_state, 20))
                talk(now + 100 * US);
            loss = i > at ? 5 : 0;
        }
        lli_pack_flush(&tx->pack);
        flush(true);
        loss = 0;
        talk(now + 300 * MS);
        expect_next();
        assert_int_equal(got.news, 1);
        assert_int_equal(got.expected, tx->pack.number);
        assert_int_equal(got.gaps, 0);
        assert_int_equal(r.counters.data_malformed, 0);
        rx_unmake();
        free(t.memory);
    }
    (void)up(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(losses_are_repaired_for_current_receivers, up, down),
        cmocka_unit_test_setup_teardown(late_joiners_get_no_earlier_message, up, down),
        cmocka_unit_test_setup_teardown(packets_of_topics_without_history_are_not_replayed, up, down),
        cmocka_unit_test_setup_teardown(a_message_belongs_to_the_time_of_its_start, up, down),
        cmocka_unit_test_setup_teardown(join_number_and_join_messages_omit_topics_without_history, up, down),
        cmocka_unit_test_setup_teardown(live_packets_fetched_for_lack_of_room_are_delivered, up, down),
        cmocka_unit_test_setup_teardown(only_fetched_past_packets_can_be_omitted, up, down),
        cmocka_unit_test_setup_teardown(a_fetch_without_its_join_position_gets_all_packets, up, down),
        cmocka_unit_test_setup_teardown(a_loss_beside_topics_without_history_is_reported, up, down),
        cmocka_unit_test_setup_teardown(joins_for_assured_topics_get_no_earlier_message, up, down),
        cmocka_unit_test_setup_teardown(messages_of_topics_with_history_are_never_omitted, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
