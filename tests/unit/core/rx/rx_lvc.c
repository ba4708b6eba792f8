/* SPDX-License-Identifier: Apache-2.0 */
/* Joins with cached messages, with packets carried by hand. */
#include "lvc_world.h"

static void the_last_message_of_each_topic_precedes_live_messages(void **state)
{
    (void)state;
    open_topics(30, 1, 64);
    for (uint32_t i = 0; i < 300; i++)
        send(i * 7 % 29, i % 60, false);
    assert_true(tx->history.trail > START);
    expect_before(29);
    assert_int_equal(tx->counters.messages_cached, 301);
    assert_int_equal(tx->counters.packets_replayed, 0);
    assert_int_equal(r.counters.packets_missed, 0);
    assert_int_equal(tx->lvc.waiting, 0);
}

static void cached_messages_arrive_in_order_up_to_the_sent_number(void **state)
{
    (void)state;
    open_topics(3, 5, 64);
    for (int i = 0; i < 20; i++)
        send(0, 10, false);
    for (int i = 0; i < 3; i++)
        send(1, 0, false);
    expect_before(5 + 3);
}

static void join_messages_limits_cached_messages_per_topic(void **state)
{
    (void)state;
    join.value = 2;
    open_topics(3, 5, 64);
    for (int i = 0; i < 20; i++)
        send(i % 2 == 0 ? 0 : 2, 10, false);
    talk(now + 200 * MS);
    expect_latest(2);
    assert_int_equal(got.before, 4);
}

static void an_uncached_topic_delivers_only_live_messages(void **state)
{
    (void)state;
    open_topics(2, 1, 64);
    (void)open_topic();
    sent_all();
    for (uint32_t i = 0; i < 9; i++)
        send(i % 3, 10, false);
    expect_before(2);
    assert_false(got.given[8]);
}

static void a_topic_is_cached_from_the_call_on(void **state)
{
    (void)state;
    open_topics(1, 1, 64);
    assert_int_equal(open_topic(), 1);
    sent_all();
    send(1, 10, false);
    send(1, 11, false);
    lvc(1, 5, 64);
    send(1, 12, false);
    talk(now + 200 * MS);
    assert_int_equal(got.before, 1);
    assert_true(got.given[2]);
}

static void cached_messages_longer_than_a_packet_arrive_whole(void **state)
{
    (void)state;
    open_topics(3, 3, SIZE_MAX_SENT);
    for (uint32_t i = 0; i < 12; i++)
        send(i % 3, i * 160, false);
    expect_before(9);
}

/* Messages are displaced between the grant and the fetch, and in the middle of a long message. */
static void messages_displaced_during_the_join_arrive_in_the_stream(void **state)
{
    (void)state;
    open_topics(4, 2, SIZE_MAX_SENT);
    for (uint32_t i = 0; i < 16; i++)
        send(i % 4, 1900, false);
    lli_pacer_init(&tx->replay.pacer, 100000, 300, now);
    talk_until_new();
    /* The budget allows a packet occasionally: each message takes a dozen. */
    for (int i = 0; i < 12; i++) {
        talk(now + 4 * MS);
        send((uint32_t)i % 4, 20, i % 3 != 0);
    }
    talk(now + 500 * MS);
    send(0, 5, true);
    expect_latest(UINT64_MAX);
    assert_int_equal(got.gaps, 0);
    assert_true(got.before < 8);
}

/* The last message of each of thirty topics, on a budget for which they take a while. */
static void keep_thirty(void)
{
    open_topics(30, 1, 64);
    for (uint32_t i = 0; i < 60; i++)
        send(i % 30, 60, false);
    lli_pacer_init(&tx->replay.pacer, 1 << 16, 200, now);
}

static void live_messages_during_the_join_are_buffered_or_fetched(void **state)
{
    (void)state;
    keep_thirty();
    talk_until_new();
    for (uint32_t i = 0; i < 90; i++)
        send(i % 7, 30, true);
    assert_int_equal(got.lives, 0);
    tx->replay.pacer.bytes_per_s = 1 << 24;
    talk(now + 500 * MS);
    expect_latest(UINT64_MAX);
    assert_true(r.counters.window_overflow + r.counters.reorder_full > 0);
    assert_int_equal(got.gaps, 0);
    assert_true(tx->counters.packets_replayed > 0);
}

/* Lets time pass until the receiver reports; returns its report. */
static struct lli_wire_status report(void)
{
    struct lli_wire_status status = {0};
    struct lli_wire_header header = {0};
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;
    bool found = false;

    now += r.config.status;
    while (lli_rx_control(rx, now, buffer, &packet)) {
        assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
        if (header.type == LLI_WIRE_STATUS) {
            assert_true(lli_wire_get_status(body, size, header.tag, &status));
            found = true;
        }
        tx_take(tx, packet.data, packet.size, now);
    }
    assert_true(found);
    return status;
}

static void reports_during_the_join_have_no_position(void **state)
{
    (void)state;
    keep_thirty();
    talk_until_new();
    assert_int_equal(report().next, 0);
    assert_int_equal(got.lives, 0);
    tx->replay.pacer.bytes_per_s = 1 << 24;
    talk(now + 500 * MS);
    expect_latest(UINT64_MAX);
    assert_int_equal(report().next, tx->sent);
}

static void send_any(uint32_t topics, uint32_t size, bool heard)
{
    const uint32_t topic = below(&dice, topics);

    send(topic, below(&dice, size), heard);
}

/* The test covers all rates of loss and sizes of messages, while more are sent. */
static void lost_cache_packets_are_requested_again(void **state)
{
    for (dice = 1; dice < 200; dice++) {
        const uint64_t seed = dice;
        const uint32_t topics = 1 + below(&dice, TOPICS - 1), most = 1 + below(&dice, 5);
        const uint32_t size = chance(&dice, 30) ? SIZE_MAX_SENT : 1 + below(&dice, 100);

        (void)lvc_down(state);
        (void)up(state);
        open_topics(topics, most, size);
        for (uint32_t i = 0; i < 200; i++)
            send_any(topics, size, false);
        loss = below(&dice, 21);
        join.value = chance(&dice, 50) ? 0 : 1 + below(&dice, most);
        refused_from = chance(&dice, 30) ? below(&dice, topics + 1) : TOPICS;
        r.config.nak_giveup = 5000 * MS;
        r.config.as_it_arrives = false;
        for (int i = 0; i < 40; i++) {
            talk(now + 200 * US);
            send_any(topics, (uint32_t)lli_min(size, 60), !chance(&dice, loss));
        }
        for (int i = 0; i < 500 && (got.lives == 0 || rx->gap.next < tx->sent); i++)
            talk(now + 10 * MS);
        while (got.expected < tx->pack.number && sent[got.expected].topic >= refused_from)
            got.expected++;
        if (got.lives != 1 || got.expected != tx->pack.number)
            fail_msg("seed %llu: %d news %d lives, %llu of %llu, aside %u", (unsigned long long)seed,
                     got.news, got.lives, (unsigned long long)got.expected,
                     (unsigned long long)tx->pack.number, rx->pending.slow_path);
        expect_latest(join.value == 0 ? UINT64_MAX : join.value);
        assert_int_equal(r.counters.cache_losses, 0);
        dice = seed;
    }
}

static void unwanted_topics_are_not_sent_from_the_cache(void **state)
{
    uint64_t all;

    (void)state;
    open_topics(32, 4, 100);
    for (uint32_t i = 0; i < 128; i++)
        send(i % 32, 90, false);
    talk(now + 200 * MS);
    all = tx->counters.cache_packets_sent;
    (void)lvc_down(NULL);
    (void)up(NULL);
    refused_from = 3;
    open_topics(32, 4, 100);
    for (uint32_t i = 0; i < 128; i++)
        send(i % 32, 90, false);
    talk(now + 200 * MS);
    expect_latest(UINT64_MAX);
    assert_int_equal(got.before, 12);
    assert_true(tx->counters.cache_packets_sent < all / 8);
    assert_int_equal(r.counters.messages_refused, 0);
}

static void join_latest_without_cached_topics_is_refused(void **state)
{
    (void)state;
    assert_int_equal(open_topic(), 0);
    sent_all();
    send(0, 10, false);
    talk(now + 100 * MS);
    assert_int_equal(got.refused.reason, LLM_REASON_NO_CACHE);
    assert_int_equal(got.news, 0);
    assert_int_equal(rx->state, LLI_RX_REFUSED);
    assert_int_equal(tx->counters.joins_refused, 1);
}

static void a_refused_join_latest_falls_back_if_configured(void **state)
{
    (void)state;
    r.config.otherwise = LLI_RX_ELSE_OLDEST;
    assert_int_equal(open_topic(), 0);
    sent_all();
    for (int i = 0; i < 5; i++)
        send(0, 10, false);
    talk(now + 100 * MS);
    assert_int_equal(got.refused.reason, LLM_REASON_NO_CACHE);
    assert_int_equal(got.splice, 0);
    assert_int_equal(got.expected, 5);
}

static void late_cache_packets_are_reported_and_the_stream_continues(void **state)
{
    (void)state;
    keep_thirty();
    talk_until_new();
    talk(now + 2 * MS);
    assert_true(got.before > 0 && got.before < 30);
    deaf = true;
    tx->lvc.waiting = 0;
    send(4, 10, true);
    talk(now + 190 * MS);
    assert_int_equal(got.lost.kind, 0);
    talk(now + 100 * MS);
    assert_int_equal(got.lost.reason, LLM_REASON_TIMEOUT);
    assert_int_equal(got.lost.first, 60);
    assert_int_equal(got.lost.topic_id, got.before);
    assert_string_equal(got.lost.topic, names[got.before]);
    assert_int_equal(got.lives, 1);
    assert_int_equal(got.expected, 61);
    assert_int_equal(r.counters.cache_losses, 1);
    assert_int_equal(r.reorder.used, 0);
}

static void a_transmitter_dead_during_join_latest_ends_the_session(void **state)
{
    struct lli_packet packet;

    (void)state;
    r.config.nak_giveup = 5000 * MS;
    keep_thirty();
    talk_until_new();
    talk(now + 2 * MS);
    for (const lli_ns until = now + 1500 * MS; now < until; now += MS) {
        while (lli_rx_control(rx, now, buffer, &packet))
            continue;
        pull();
    }
    assert_int_equal(got.lost.reason, LLM_REASON_TIMEOUT);
    assert_int_equal(rx->state, LLI_RX_ENDED);
    assert_int_equal(r.reorder.used, 0);
}

static void a_suspended_receiver_gets_no_cached_messages(void **state)
{
    (void)state;
    keep_thirty();
    talk_until_new();
    talk(now + 2 * MS);
    assert_int_equal(tx->lvc.waiting, 1);
    assert_true(lli_tx_suspend(tx, RECEIVER, true, now));
    assert_int_equal(tx->lvc.waiting, 0);
    assert_int_equal(tx->counters.joins_ignored, 1);
    assert_true(lli_tx_deadline(tx) > 0);
    talk(now + 150 * MS);
    assert_int_equal(got.lost.reason, LLM_REASON_SUSPENDED);
    assert_int_equal(got.lives, 1);
}

static void cached_messages_too_long_for_the_receiver_are_reported(void **state)
{
    (void)state;
    r.config.message_bytes_max = 500;
    rx->unpack.buffer_size = 500;
    open_topics(2, 1, SIZE_MAX_SENT);
    send(0, 100, false);
    send(1, 1500, false);
    talk(now + 100 * MS);
    assert_int_equal(got.gap.reason, LLM_REASON_TOO_LONG);
    assert_int_equal(got.gap.first, 1);
    assert_int_equal(got.before, 1);
    assert_int_equal(got.lives, 1);
    assert_int_equal(rx->report.acknowledged_from, 2);
}

/* The stream continues with unacknowledged messages: the cache delivers only messages before them. */
static void unacknowledged_messages_arrive_in_the_stream(void **state)
{
    const struct lli_ack_rule rule = {
        .receivers = 1, .messages_max = 64, .bytes_max = 4096, .patience = 100 * MS};
    static struct lli_ack_message ring[64];
    static struct lli_ack_topic orders;

    (void)state;
    open_topics(3, 2, 64);
    for (uint32_t i = 0; i < 6; i++)
        send(i % 3, 20, false);
    lli_ack_topic_init(&orders, 0, "orders");
    assert_true(lli_tx_assure(tx, &orders, &rule, ring, 64));
    for (uint32_t i = 0; i < 6; i++) {
        const lli_seq seq = tx->history.next;

        send(i % 3, 20, false);
        if (i % 3 == 0)
            lli_tx_assured(tx, &orders, seq, 20);
    }
    talk(now + 400 * MS);
    expect_latest(UINT64_MAX);
    assert_int_equal(got.splice, 6);
    /* By now the last two of each topic are after the grant. */
    assert_int_equal(got.before, 0);
    assert_int_equal(tx->ack.waiting, 0);
}

static void packed_unsent_messages_arrive_in_the_stream(void **state)
{
    const struct lli_pack_topic topic = {.id = 0};
    const struct iovec piece = {bytes, 10};

    (void)state;
    open_topics(1, 1, 64);
    send(0, 10, false);
    sent[1].topic = 0;
    sent[1].size = 10;
    pattern_fill(bytes, 10, 1);
    assert_true(lli_pack_message(&tx->pack, &topic, &piece, 10, lli_tx_busy(tx)));
    lli_tx_lvc_add(tx, kept[0], NULL, &piece, 10);
    talk(now + 100 * MS);
    /* The copy of message 0 was displaced, and message 1 is yet to come. */
    assert_int_equal(got.splice, 1);
    assert_int_equal(got.before, 0);
    assert_int_equal(got.lives, 0);
    send(0, 10, true);
    assert_int_equal(got.lives, 1);
    assert_true(got.given[1]);
}

static void the_filter_applies_to_cached_messages(void **state)
{
    static struct lli_filter filter = {.labels_count = 1, .labels = {{0xff, WANTED}}};

    (void)state;
    open_topics(4, 1, SIZE_MAX_SENT);
    for (uint32_t i = 0; i < 8; i++) {
        const struct lli_pack_attributes attributes = {
            .label = i % 4, .size = 7, .frame = {LLI_FRAME_ATTRIBUTES, 4, 0, (uint8_t)(i % 4)}};

        lli_pack_attribute(&tx->pack, &attributes);
        send(i % 4, i > 3 && i % 4 != 1 ? 1000 : 50, false);
    }
    r.config.filter = &filter;
    lli_rx_filter(rx);
    talk(now + 100 * MS);
    assert_int_equal(got.lives, 1);
    assert_int_equal(got.before, 1);
    assert_true(got.given[6]);
    assert_int_equal(r.counters.messages_rejected, 3);
    assert_int_equal(r.counters.data_malformed, 0);
}

/* Each receiver has one place and one request at a time; joins without a place are counted. */
static void a_thousand_joins_stay_within_the_budget(void **state)
{
    struct lli_wire_join ask = {.session = SESSION,
                                .kind = LLI_WIRE_JOIN_LATEST,
                                .from = LLM_JOIN_LATEST,
                                .number = 1000,
                                .wanted = UINT64_MAX,
                                .count = 1,
                                .spans = {{{0, 0, 0}, {0, TOPICS, 0}}},
                                .address = {1, {'x'}}};
    struct lli_packet packet;
    const lli_ns begin = now;

    (void)state;
    open_topics(30, 5, 200);
    for (uint32_t i = 0; i < 200; i++)
        send(i % 30, 190, false);
    for (int round = 0; round < 3; round++)
        for (ask.receiver = 1; ask.receiver <= LLI_LVC_PLACES + 10; ask.receiver++)
            tx_take(tx, buffer, lli_wire_put_join(buffer, &ask), now);
    assert_int_equal(tx->lvc.waiting, LLI_LVC_PLACES);
    assert_int_equal(tx->counters.joins_dropped, 30);
    assert_int_equal(tx->counters.cache_fetches_received, 3 * (LLI_LVC_PLACES + 10));
    for (; now < begin + 100 * MS; now += MS)
        while (lli_tx_replay_lvc(tx, now, buffer, sizeof buffer, &packet))
            continue;
    assert_in_range(tx->counters.cache_packets_sent * PACKET_MAX, 90000, 140000);
    /* Unsent messages are never sent, whatever the request, and each answer ends. */
    for (int i = 0; i < 30; i++)
        assert_true(tx->lvc.places[i].number == 200 && tx->lvc.places[i].left < LLI_LVC_PACKETS_MAX);
}

static void empty_cache_requests_are_not_answered(void **state)
{
    struct lli_wire_join ask = {
        .session = SESSION, .receiver = 7, .kind = LLI_WIRE_JOIN_LATEST, .wanted = 10, .address = {1, {'x'}}};
    struct lli_packet packet;

    (void)state;
    ask.count = 1;
    ask.spans[0] = (struct lli_wire_span){{0, 0, 0}, {0, 5, 0}};
    tx_take(tx, buffer, lli_wire_put_join(buffer, &ask), now);
    assert_int_equal(tx->lvc.waiting, 0);
    open_topics(2, 1, 10);
    ask.count = 0;
    tx_take(tx, buffer, lli_wire_put_join(buffer, &ask), now);
    ask.count = 1;
    ask.wanted = 0;
    tx_take(tx, buffer, lli_wire_put_join(buffer, &ask), now);
    assert_int_equal(tx->lvc.waiting, 0);
    /* An answer for an empty span is sent as well. */
    ask.wanted = 10;
    tx_take(tx, buffer, lli_wire_put_join(buffer, &ask), now);
    assert_true(lli_tx_replay_lvc(tx, now, buffer, sizeof buffer, &packet));
    assert_int_equal(packet.size, LLI_WIRE_LVC_HEAD);
    assert_false(lli_tx_replay_lvc(tx, now, buffer, sizeof buffer, &packet));
    assert_true(lli_tx_deadline(tx) > 0);
}

static void cache_packets_yield_to_repairs_and_share_the_replay_budget(void **state)
{
    const struct lli_wire_nak nak = {.session = SESSION,
                                     .receiver = 5,
                                     .address = {1, {'a'}},
                                     .count = 1,
                                     .ranges = {{(uint32_t)START, 1}}};
    struct lli_packet packet;

    (void)state;
    keep_thirty();
    while (tx->lvc.waiting == 0)
        talk(now + 20 * US);
    now += 10 * MS;
    lli_pacer_init(&tx->repair.pacer, 1 << 20, 1 << 20, now);
    tx_take(tx, buffer, lli_wire_put_nak(buffer, &nak), now);
    assert_true(tx->lvc.waiting > 0);
    assert_false(lli_tx_replay_lvc(tx, now, buffer, sizeof buffer, &packet));
    assert_true(lli_tx_repair(tx, now, &packet));
    lli_tx_repaired(tx, now);
    assert_true(lli_tx_replay_lvc(tx, now, buffer, sizeof buffer, &packet));
    assert_false(lli_tx_replay_lvc(tx, now, buffer, sizeof buffer, &packet));
    assert_int_equal(tx->replay.pacer.tokens, 0);
    assert_true(tx->join.at > now && tx->join.at != LLI_NEVER);
}

static void cache_packets_of_another_receiver_or_grant_are_dropped(void **state)
{
    struct lli_wire_lvc packet = {
        .session = SESSION, .receiver = RECEIVER, .next = 5, .span = {{0, 0, 0}, {0, 40, 0}}};
    const struct lli_packet out = {.data = buffer, .size = LLI_WIRE_LVC_HEAD};

    (void)state;
    open_topics(4, 1, 64);
    send(0, 10, false);
    deaf = true;
    talk(now + MS);
    deaf = false;
    lli_pacer_init(&tx->replay.pacer, 1 << 16, 100, now);
    tx->replay.pacer.tokens = 0;
    talk_until_new();
    (void)lli_wire_put_lvc(buffer, &packet, out.size);
    rx_take(&out);
    packet.number = 1;
    packet.receiver++;
    (void)lli_wire_put_lvc(buffer, &packet, out.size);
    rx_take(&out);
    assert_int_equal(r.counters.control_malformed, 0);
    assert_int_equal(r.counters.control_foreign, 1);
    assert_int_equal(got.lives, 0);
    talk(now + 100 * MS);
    expect_latest(UINT64_MAX);
    assert_int_equal(got.before, 1);
    /* And no answer when it is over. */
    packet.receiver--;
    (void)lli_wire_put_lvc(buffer, &packet, out.size);
    rx_take(&out);
}

/* The records have two messages, a topic, or undecodable bytes. */
static void malformed_records_are_counted(void **state)
{
    static const char *const bad[] = {"\1a\1b", "\xc0\1\1b", "\xe3", "\xe0\1a"};
    struct lli_wire_lvc packet = {.session = SESSION,
                                  .receiver = RECEIVER,
                                  .number = 1,
                                  .next = 1,
                                  .count = 1,
                                  .span = {{0, 0, 0}, {0, 1, 0}}};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct lli_wire_record record = {{0, 0, 0}, (const uint8_t *)bad[i], (uint16_t)strlen(bad[i])};
        struct lli_packet out = {.data = buffer};

        (void)lvc_down(state);
        (void)up(state);
        open_topics(1, 1, 64);
        send(0, 10, false);
        lli_pacer_init(&tx->replay.pacer, 1, 1, now);
        tx->replay.pacer.tokens = 0;
        talk_until_new();
        talk(now + MS);
        out.size = (uint32_t)lli_wire_add_record(buffer, LLI_WIRE_LVC_HEAD, sizeof buffer, &record);
        (void)lli_wire_put_lvc(buffer, &packet, out.size);
        rx_take(&out);
        assert_int_equal(r.counters.data_malformed, 1);
        assert_int_equal(got.before, 0);
        assert_int_equal(got.lives, 1);
    }
}

static void unordered_receivers_get_cached_messages_first(void **state)
{
    (void)state;
    receiver_unmake(&r);
    r.config.as_it_arrives = true;
    receiver_make(&r, 32, now);
    open_topics(5, 2, 64);
    for (uint32_t i = 0; i < 30; i++)
        send(i % 5, 20, false);
    lli_pacer_init(&tx->replay.pacer, 1 << 16, 100, now);
    talk_until_new();
    send(1, 10, false);
    send(2, 10, true);
    expect_before(8);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, lvc_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_last_message_of_each_topic_precedes_live_messages),
        T(cached_messages_arrive_in_order_up_to_the_sent_number),
        T(join_messages_limits_cached_messages_per_topic),
        T(an_uncached_topic_delivers_only_live_messages),
        T(a_topic_is_cached_from_the_call_on),
        T(cached_messages_longer_than_a_packet_arrive_whole),
        T(messages_displaced_during_the_join_arrive_in_the_stream),
        T(live_messages_during_the_join_are_buffered_or_fetched),
        T(reports_during_the_join_have_no_position),
        T(lost_cache_packets_are_requested_again),
        T(unwanted_topics_are_not_sent_from_the_cache),
        T(join_latest_without_cached_topics_is_refused),
        T(a_refused_join_latest_falls_back_if_configured),
        T(late_cache_packets_are_reported_and_the_stream_continues),
        T(a_transmitter_dead_during_join_latest_ends_the_session),
        T(a_suspended_receiver_gets_no_cached_messages),
        T(cached_messages_too_long_for_the_receiver_are_reported),
        T(unacknowledged_messages_arrive_in_the_stream),
        T(packed_unsent_messages_arrive_in_the_stream),
        T(the_filter_applies_to_cached_messages),
        T(a_thousand_joins_stay_within_the_budget),
        T(empty_cache_requests_are_not_answered),
        T(cache_packets_yield_to_repairs_and_share_the_replay_budget),
        T(cache_packets_of_another_receiver_or_grant_are_dropped),
        T(malformed_records_are_counted),
        T(unordered_receivers_get_cached_messages_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
