/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum cost of useless requests: of a receiver that requests too much, and of forged ones. */
#include "core/rx/rx_internal.h"
#include "session.h"

static struct transmitter t;
static struct lli_tx *const tx = &t.tx;
static uint8_t buffer[LLI_WIRE_CONTROL_MAX];

static int up(void **state)
{
    const struct lli_tx_config config = tx_config();

    (void)state;
    transmitter_make(&t, &config, 10 * MS);
    for (int i = 0; i < HISTORY / 2; i++)
        send_one(tx, "abc", 11 * MS);
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(t.memory);
    return 0;
}

static void take_nak(const struct lli_wire_nak *nak, lli_ns now)
{
    tx_take(tx, buffer, lli_wire_put_nak(buffer, nak), now);
}

static void take_join(const struct lli_wire_join *join, lli_ns now)
{
    tx_take(tx, buffer, lli_wire_put_join(buffer, join), now);
}

static void overlapping_ranges_of_a_nak_are_merged(void **state)
{
    struct lli_wire_nak nak = {
        .session = SESSION, .receiver = 1, .address = {1, {'a'}}, .count = LLI_WIRE_RANGES_MAX};

    (void)state;
    for (uint16_t i = 0; i < nak.count; i++)
        nak.ranges[i] = (struct lli_wire_range){(uint32_t)START, HISTORY / 2};
    take_nak(&nak, 12 * MS);
    assert_int_equal(tx->counters.nak_packets, HISTORY / 2);
    assert_int_equal(tx->counters.nak_packets_ignored, 0);
    assert_int_equal(lli_repair_queued(&tx->repair.queue), HISTORY / 2);
}

static void packets_reported_as_received_are_not_repaired(void **state)
{
    const struct lli_wire_status status = {
        .session = SESSION, .receiver = 1, .next = START + 10, .highest = START + 20, .address = {1, {'a'}}};
    const struct lli_wire_nak nak = {.session = SESSION,
                                     .receiver = 1,
                                     .address = {1, {'a'}},
                                     .count = 1,
                                     .ranges = {{(uint32_t)START, 12}}};

    (void)state;
    tx_take(tx, buffer, lli_wire_put_status(buffer, &status), 12 * MS);
    take_nak(&nak, 12 * MS);
    assert_int_equal(tx->counters.nak_packets, 2);
    assert_int_equal(lli_repair_queued(&tx->repair.queue), 2);
}

static void overlapping_ranges_of_a_fetch_are_merged(void **state)
{
    struct lli_wire_join fetch = {.session = SESSION,
                                  .receiver = 1,
                                  .kind = LLI_WIRE_JOIN_FETCH,
                                  .address = {1, {'a'}},
                                  .count = LLI_WIRE_FETCH_MAX};
    struct lli_packet packet;
    int count = 0;

    (void)state;
    for (uint16_t i = 0; i < fetch.count; i++)
        fetch.ranges[i] = (struct lli_wire_range){(uint32_t)START + i, 4};
    take_join(&fetch, 12 * MS);
    for (; lli_tx_replay(tx, 12 * MS, &packet); count++)
        lli_tx_replayed(tx);
    assert_int_equal(count, LLI_WIRE_FETCH_MAX + 3);
}

/* ---------------------------------------------------------------------------------- unconfirmed receivers */

static const struct lli_wire_address home = {1, {'a'}}, elsewhere = {1, {'v'}};

/* Setup with receivers that have to confirm their addresses. */
static int up_confirming(void **state)
{
    struct lli_tx_config config = tx_config();
    struct lli_packet packet;

    (void)state;
    config.confirms = true;
    config.key = (struct lli_token_key){{1, 2}};
    config.slow = (struct lli_slow_policy){.most = LLI_STANDING_SUSPENDED,
                                           .limits[LLM_THRESHOLD_LAG_PACKETS] = 8,
                                           .warn_percent = 50,
                                           .unicast_percent = 70,
                                           .recover = 1 * MS};
    transmitter_make(&t, &config, 10 * MS);
    for (int i = 0; i < HISTORY / 2; i++)
        send_one(tx, "abc", 11 * MS);
    while (lli_tx_control(tx, 11 * MS, buffer, sizeof buffer, &packet))
        continue;
    return 0;
}

/* Takes a token, the only control packet that is due, and returns it; 0: none is due. */
static uint64_t expect_token_only(uint64_t receiver, const struct lli_wire_address *to, uint8_t reason,
                                  lli_ns now)
{
    struct lli_wire_header header = {0};
    struct lli_wire_join join;
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;

    tx->heartbeat.at = now + 1;
    if (!lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
        return 0;
    assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
    assert_int_equal(header.type, LLI_WIRE_JOIN);
    assert_true(lli_wire_get_join(body, size, header.tag, &join));
    assert_int_equal(join.kind, LLI_WIRE_JOIN_TOKEN);
    assert_int_equal(join.receiver, receiver);
    assert_int_equal(join.reason, reason);
    assert_true(packet.size <= 100);
    assert_true(lli_wire_is_address(packet.to, to));
    assert_false(lli_tx_control(tx, now, buffer, sizeof buffer, &packet));
    return join.token;
}

static void take_status(uint64_t receiver, const struct lli_wire_address *address, uint64_t token,
                        lli_seq next, lli_ns now)
{
    const struct lli_wire_status status = {.session = SESSION,
                                           .receiver = receiver,
                                           .next = next,
                                           .highest = START + HISTORY / 2,
                                           .window_free = WINDOW,
                                           .address = *address,
                                           .token = token};

    tx_take(tx, buffer, lli_wire_put_status(buffer, &status), now);
}

/* Makes a receiver known, and returns its token. */
static uint64_t confirm(uint64_t receiver, lli_seq next, lli_ns now)
{
    uint64_t token;

    take_status(receiver, &home, 0, next, now);
    token = expect_token_only(receiver, &home, 0, now);
    assert_int_not_equal(token, 0);
    take_status(receiver, &home, token, next, now);
    assert_int_equal(expect_token_only(receiver, &home, 0, now), 0);
    assert_int_not_equal(lli_members_get(&tx->members, receiver), LLI_MEMBER_NONE);
    return token;
}

static void a_receiver_becomes_known_by_returning_the_token(void **state)
{
    (void)state;
    (void)confirm(1, START, 12 * MS);
    assert_int_equal(tx->members.count, 1);
    /* From then on its packets need no token. */
    take_status(1, &home, 7, START + 1, 13 * MS);
    assert_int_equal(tx->members.table[0].next, START + 1);
    assert_int_equal(expect_token_only(1, &home, 0, 13 * MS), 0);
}

static void a_token_of_another_address_or_receiver_is_none(void **state)
{
    uint64_t token;

    (void)state;
    token = confirm(1, START, 12 * MS);
    take_status(2, &home, token, START, 12 * MS);
    assert_int_not_equal(expect_token_only(2, &home, 0, 12 * MS), 0);
    /* A known receiver changes its address only after an answer from the new one. */
    take_status(1, &elsewhere, token, START + 5, 12 * MS);
    token = expect_token_only(1, &elsewhere, 0, 12 * MS);
    assert_true(lli_wire_is_address(&tx->members.table[0].address, &home));
    assert_int_equal(tx->members.table[0].next, START);
    take_status(1, &elsewhere, token, START + 5, 12 * MS);
    assert_true(lli_wire_is_address(&tx->members.table[0].address, &elsewhere));
    assert_int_equal(tx->members.count, 1);
}

static void a_forged_nak_costs_its_victim_one_short_packet(void **state)
{
    struct lli_wire_nak nak = {.session = SESSION,
                               .receiver = 1,
                               .address = elsewhere,
                               .count = 1,
                               .ranges = {{(uint32_t)START - 100, UINT32_MAX}}};
    struct lli_packet packet;
    int count = 0;

    (void)state;
    take_nak(&nak, 12 * MS);
    for (; lli_tx_repair(tx, 12 * MS, &packet); count++) {
        assert_null(packet.to);
        lli_tx_repaired(tx, 12 * MS);
    }
    assert_true(count <= 64);
    assert_int_not_equal(expect_token_only(1, &elsewhere, 0, 12 * MS), 0);
    assert_int_equal(tx->members.count, 0);
}

static void forged_naks_together_have_little_sent_to_the_group(void **state)
{
    struct lli_wire_nak nak = {
        .session = SESSION, .address = elsewhere, .count = 1, .ranges = {{(uint32_t)START, HISTORY / 2}}};
    struct lli_packet packet;
    uint64_t bytes = 0;

    (void)state;
    for (lli_ns now = 12 * MS; now < 1012 * MS; now += MS) {
        for (nak.receiver = now; nak.receiver < now + 20; nak.receiver++)
            take_nak(&nak, now);
        while (lli_tx_repair(tx, now, &packet)) {
            bytes += packet.size;
            lli_tx_repaired(tx, now);
        }
        send_one(tx, "abc", now);
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            assert_true(packet.size <= 100);
        nak.ranges[0].first++;
    }
    assert_true(bytes <= LLI_TX_UNCONFIRMED_BYTES_PER_S + LLI_TX_UNCONFIRMED_BURST + PACKET_MAX);
    assert_int_equal(tx->members.count, 0);
}

static void a_fetch_without_the_token_gets_one_short_packet(void **state)
{
    struct lli_wire_join join = {.session = SESSION,
                                 .receiver = 1,
                                 .kind = LLI_WIRE_JOIN_FETCH,
                                 .address = home,
                                 .count = 1,
                                 .ranges = {{(uint32_t)START, HISTORY / 2}}};
    struct lli_wire_header header = {0};
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;

    (void)state;
    take_join(&join, 12 * MS);
    assert_false(lli_tx_replay(tx, 12 * MS, &packet));
    assert_int_not_equal(expect_token_only(1, &home, 0, 12 * MS), 0);
    join.kind = LLI_WIRE_JOIN_ASK;
    join.from = LLM_JOIN_OLDEST;
    join.count = 0;
    take_join(&join, 12 * MS);
    assert_true(lli_tx_control(tx, 12 * MS, buffer, sizeof buffer, &packet));
    assert_true(packet.size <= 100);
    assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
    assert_true(lli_wire_get_join(body, size, header.tag, &join));
    assert_int_equal(join.kind, LLI_WIRE_JOIN_GRANT);
    join.kind = LLI_WIRE_JOIN_FETCH;
    join.address = home;
    join.count = 1;
    take_join(&join, 12 * MS);
    assert_true(lli_tx_replay(tx, 12 * MS, &packet));
    assert_true(lli_wire_is_address(packet.to, &home));
}

static void a_query_without_the_token_is_not_answered_by_names(void **state)
{
    struct lli_wire_query query = {.session = SESSION, .receiver = 1, .address = home};
    struct lli_packet packet;

    (void)state;
    tx_take(tx, buffer, lli_wire_put_query(buffer, &query), 12 * MS);
    query.token = expect_token_only(1, &home, 0, 12 * MS);
    assert_int_not_equal(query.token, 0);
    tx_take(tx, buffer, lli_wire_put_query(buffer, &query), 12 * MS);
    assert_true(lli_tx_control(tx, 12 * MS, buffer, sizeof buffer, &packet));
    assert_int_equal(packet.data[0] & 15, LLI_WIRE_TOPICS);
}

/* Two unknown receivers would otherwise make the only genuine one a minority under the policy. */
static void invented_receivers_count_for_nothing(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    struct lli_wire_header header = {0};
    struct lli_packet packet;
    const uint8_t *body;
    struct llm_event event;
    lli_ns now = 12 * MS;
    size_t size;

    (void)state;
    (void)confirm(1, START, now);
    for (; now < 500 * MS; now += 5 * MS) {
        for (uint64_t receiver = 2; receiver < 5; receiver++)
            take_status(receiver, &elsewhere, receiver, tx->sent, now);
        take_status(1, &home, 0, START, now);
        send_one(tx, "abc", now);
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            assert_true((packet.data[0] & 15) != LLI_WIRE_NOTICE || lli_wire_is_address(packet.to, &home));
        while (lli_tx_has_events(tx) && lli_tx_event(tx, &event))
            assert_true(event.kind == LLM_EVENT_WARNED);
    }
    assert_int_equal(tx->members.count, 1);
    assert_int_equal(tx->slow.group.receivers, 1);
    assert_int_equal(tx->counters.receivers_suspended, 0);
    tx->heartbeat.at = now;
    assert_true(lli_tx_control(tx, now, buffer, sizeof buffer, &packet));
    assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
    assert_int_equal(header.type, LLI_WIRE_HEARTBEAT);
    assert_true(lli_wire_get_heartbeat(body, size, &header, &heartbeat));
    assert_int_equal(heartbeat.receivers, 1);
}

static void a_receiver_beyond_the_limit_is_informed(void **state)
{
    uint64_t token;

    (void)state;
    for (uint64_t receiver = 1; receiver <= tx->members.limit; receiver++)
        (void)confirm(receiver, START, 12 * MS);
    take_status(99, &home, 0, START, 12 * MS);
    token = expect_token_only(99, &home, 0, 12 * MS);
    take_status(99, &home, token, START, 12 * MS);
    assert_int_equal(expect_token_only(99, &home, LLI_WIRE_JOIN_FULL, 12 * MS), token);
    assert_int_equal(tx->counters.receivers_refused, 1);
}

static void a_late_joiner_beyond_the_limit_is_informed(void **state)
{
    struct lli_wire_join fetch = {.session = SESSION,
                                  .receiver = 2000,
                                  .kind = LLI_WIRE_JOIN_FETCH,
                                  .address = home,
                                  .count = 1,
                                  .ranges = {{(uint32_t)START, 10}}};

    (void)state;
    for (uint64_t receiver = 1; receiver <= LLI_REPLAY_PLACES; receiver++)
        assert_true(lli_replay_fetch(&tx->replay, receiver, &fetch, tx->sent));
    fetch.token = lli_token(&tx->config.key, fetch.receiver, &home);
    take_join(&fetch, 12 * MS);
    assert_int_equal(expect_token_only(2000, &home, LLI_WIRE_JOIN_BUSY, 12 * MS), fetch.token);
    assert_int_equal(tx->counters.joins_dropped, 1);
    assert_true(tx->tokens.crowded & 1u << LLI_WIRE_JOIN_BUSY);
}

static void a_late_joiner_is_informed_of_a_long_wait(void **state)
{
    struct lli_wire_join fetch = {.session = SESSION,
                                  .receiver = 2000,
                                  .kind = LLI_WIRE_JOIN_FETCH,
                                  .address = home,
                                  .count = 1,
                                  .ranges = {{(uint32_t)START, HISTORY / 2}}};

    (void)state;
    fetch.token = lli_token(&tx->config.key, fetch.receiver, &home);
    take_join(&fetch, 12 * MS);
    assert_int_equal(expect_token_only(2000, &home, LLI_WIRE_JOIN_BUSY, 12 * MS), 0);
    for (uint64_t receiver = 1; receiver <= LLI_REPLAY_PLACES / 2; receiver++)
        assert_true(lli_replay_fetch(&tx->replay, receiver, &fetch, tx->sent));
    take_join(&fetch, 12 * MS);
    assert_int_equal(expect_token_only(2000, &home, LLI_WIRE_JOIN_BUSY, 12 * MS), fetch.token);
}

static void a_late_joiner_for_cached_messages_is_informed_of_a_long_wait(void **state)
{
    struct lli_wire_join latest = {.session = SESSION,
                                   .receiver = 2000,
                                   .kind = LLI_WIRE_JOIN_LATEST,
                                   .from = LLM_JOIN_LATEST,
                                   .address = home,
                                   .number = HISTORY,
                                   .wanted = 100,
                                   .count = 1,
                                   .spans = {{.to = {.topic = 1}}}};
    struct lli_lvc_topic topic = {.messages = 100, .bytes_max = 200};
    struct lli_arena arena = {.memory = NULL};
    struct lli_lvc measured;

    (void)state;
    topic.ring = calloc(1, lli_lvc_ring_size(topic.messages, topic.bytes_max));
    lli_lvc_init(&measured, tx->config.topics_max, &arena);
    arena_fill(&arena);
    lli_tx_lvc_begin(tx, &topic, &arena);
    latest.token = lli_token(&tx->config.key, latest.receiver, &home);
    take_join(&latest, 12 * MS);
    assert_int_equal(expect_token_only(2000, &home, LLI_WIRE_JOIN_BUSY, 12 * MS), 0);
    for (uint64_t receiver = 1; receiver <= LLI_LVC_PLACES / 2; receiver++)
        assert_true(lli_lvc_join(&tx->lvc, receiver, &latest, HISTORY));
    take_join(&latest, 12 * MS);
    assert_int_equal(expect_token_only(2000, &home, LLI_WIRE_JOIN_BUSY, 12 * MS), latest.token);
    assert_int_equal(tx->counters.joins_dropped, 0);
    free(arena.memory);
    free(topic.ring);
}

/* A session that ends at once waits for those that have just come. */
static void a_receiver_given_a_token_at_the_end_is_waited_for(void **state)
{
    struct lli_packet packet;
    lli_ns now = 12 * MS;

    (void)state;
    lli_tx_end(tx, now);
    for (; !lli_tx_drained(tx); now += MS)
        (void)lli_tx_control(tx, now, buffer, sizeof buffer, &packet);
    take_status(1, &home, 0, START, now);
    assert_int_not_equal(expect_token_only(1, &home, 0, now), 0);
    assert_false(lli_tx_drained(tx));
}

/* The victim of a forged CONNECT gets few packets in the five seconds before the connection is given up. */
static void an_unanswered_connection_sends_few_heartbeats(void **state)
{
    struct lli_tx_config config = tx_config();
    struct lli_packet packet;
    int count = 0;

    (void)state;
    config.flow = (struct lli_flow_config){
        .mode = LLI_FLOW_WINDOW, .window_packets = 16, .quorum_percent = 100, .awaits = true};
    free(t.memory);
    transmitter_make(&t, &config, 0);
    for (lli_ns now = 0; now < 5000 * MS; now += 10 * US)
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            count++;
    assert_true(count > 8 && count <= 20);
}

/* ----------------------------------------------------------------------------------------- forged session */

static struct receiver r;

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(&r.rx, 0, &item))
        continue;
}

static void rx_take(const uint8_t *packet, size_t size, lli_ns now)
{
    receiver_take(&r, packet, size, now, pull);
}

static void hear(const struct lli_wire_heartbeat *heartbeat, lli_ns now)
{
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    rx_take(packet, lli_wire_put_heartbeat(packet, heartbeat), now);
}

static int up_receiver(void **state)
{
    (void)state;
    r.config = rx_config();
    r.config.confirms = true;
    r.config.timeout = 10000 * MS;
    r.config.nak_giveup = 10000 * MS;
    receiver_make(&r, WINDOW, 0);
    return 0;
}

static int down_receiver(void **state)
{
    (void)state;
    receiver_unmake(&r);
    return 0;
}

static const struct lli_wire_heartbeat invented = {.session = SESSION,
                                                   .lead = START + 40,
                                                   .trail = START,
                                                   .start = START,
                                                   .sent_at = 1,
                                                   .interval_us = 1000,
                                                   .topics = 5,
                                                   .flags = LLI_WIRE_HEARTBEAT_YOUNG,
                                                   .address = {1, {'v'}}};

static void an_unanswering_session_gets_few_short_packets(void **state)
{
    struct lli_packet packet;
    uint64_t count = 0, bytes = 0;
    struct lli_item item;

    (void)state;
    hear(&invented, 0);
    for (lli_ns now = 0; now < 9900 * MS; now += 100 * US) {
        while (lli_rx_control(&r.rx, now, buffer, &packet)) {
            assert_true(packet.size <= 200);
            bytes += packet.size;
            count++;
        }
        while (lli_rx_next(&r.rx, now, &item))
            continue;
        assert_true(lli_rx_deadline(&r.rx) > now);
    }
    assert_true(count > 2 && count <= 24);
    assert_true(bytes <= 3000);
}

static void ineffective_packets_are_sent_again_with_the_token(void **state)
{
    const struct lli_wire_join token = {
        .session = SESSION, .receiver = RECEIVER, .kind = LLI_WIRE_JOIN_TOKEN, .token = 77};
    struct lli_wire_status status = {0};
    struct lli_wire_header header = {0};
    struct lli_packet packet;
    const uint8_t *body;
    bool reported = false;
    size_t size;

    (void)state;
    hear(&invented, 0);
    for (lli_ns now = 0; now < 100 * MS; now += MS)
        while (lli_rx_control(&r.rx, now, buffer, &packet))
            continue;
    assert_true(r.rx.token.speak_at > 0);
    rx_take(buffer, lli_wire_put_join(buffer, &token), 100 * MS);
    while (lli_rx_control(&r.rx, 100 * MS, buffer, &packet)) {
        assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
        if (header.type != LLI_WIRE_STATUS)
            continue;
        assert_true(lli_wire_get_status(body, size, header.tag, &status));
        assert_int_equal(status.token, 77);
        reported = true;
    }
    assert_true(reported);
    /* A repetition causes no packet. */
    rx_take(buffer, lli_wire_put_join(buffer, &token), 100 * MS);
    assert_false(lli_rx_control(&r.rx, 100 * MS, buffer, &packet));
}

static void a_receiver_reports_reduced_service_once(void **state)
{
    struct lli_wire_join token = {.session = SESSION,
                                  .receiver = RECEIVER,
                                  .kind = LLI_WIRE_JOIN_TOKEN,
                                  .token = 77,
                                  .reason = LLI_WIRE_JOIN_FULL,
                                  .value = 1024};

    (void)state;
    hear(&invented, 0);
    for (int i = 0; i < 3; i++)
        rx_take(buffer, lli_wire_put_join(buffer, &token), 0);
    assert_int_equal(r.rx.standing.crowded, 1u << LLI_WIRE_JOIN_FULL);
    assert_int_equal(r.rx.standing.crowd, 1024);
    assert_int_equal(r.counters.crowded, 3);
    assert_int_equal(lli_rx_take_crowded(&r.rx), 1u << LLI_WIRE_JOIN_FULL);
    rx_take(buffer, lli_wire_put_join(buffer, &token), 0);
    assert_int_equal(lli_rx_take_crowded(&r.rx), 0);
    token.receiver++;
    token.reason = LLI_WIRE_JOIN_BUSY;
    rx_take(buffer, lli_wire_put_join(buffer, &token), 0);
    assert_int_equal(r.rx.standing.crowded, 1u << LLI_WIRE_JOIN_FULL);
}

static void the_token_does_not_go_to_another_address(void **state)
{
    const struct lli_wire_join token = {
        .session = SESSION, .receiver = RECEIVER, .kind = LLI_WIRE_JOIN_TOKEN, .token = 77};
    struct lli_wire_heartbeat moved = invented;

    (void)state;
    hear(&invented, 0);
    rx_take(buffer, lli_wire_put_join(buffer, &token), 0);
    assert_true(lli_rx_is_answered(&r.rx));
    moved.address.bytes[0] = 'x';
    moved.sent_at++;
    hear(&moved, 1 * MS);
    assert_false(lli_rx_is_answered(&r.rx));
    assert_int_equal(lli_rx_token(&r.rx), 0);
    moved.address = invented.address;
    moved.sent_at++;
    hear(&moved, 2 * MS);
    assert_int_equal(lli_rx_token(&r.rx), 77);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
#define C(name) cmocka_unit_test_setup_teardown(name, up_confirming, down)
#define R(name) cmocka_unit_test_setup_teardown(name, up_receiver, down_receiver)

/*
 * The peer of a connection waits for a report, which may be lost; the peer may also never have sent a
 * CONNECT.
 */
static void an_unheard_session_gets_reports_at_doubling_intervals(void **state)
{
    const struct lli_wire_heartbeat heard = {.session = SESSION,
                                             .lead = START,
                                             .trail = START,
                                             .start = START,
                                             .sent_at = 1,
                                             .interval_us = 1000,
                                             .address = elsewhere};
    struct lli_packet packet;
    lli_ns at[16], now;
    int count = 0;

    (void)state;
    r.config.confirms = false;
    r.config.silence = 10000 * MS;
    lli_rx_stop(&r.rx);
    lli_rx_start(&r.rx, (uint32_t)SESSION, MS);
    lli_rx_expect(&r.rx, SESSION, START, &elsewhere, MS);
    assert_true(lli_rx_is_unheard(&r.rx));
    for (now = MS; now < 5000 * MS; now += MS / 10) {
        pull();
        while (now >= lli_rx_deadline(&r.rx) && lli_rx_control(&r.rx, now, buffer, &packet)) {
            assert_true(count < 16);
            assert_true(lli_wire_is_address(packet.to, &elsewhere));
            at[count++] = now;
        }
    }
    assert_true(count >= 10);
    assert_true(at[0] == MS && at[1] - at[0] <= 5 * MS);
    for (int i = 2; i < 8; i++)
        assert_true(at[i] - at[i - 1] > (at[i - 1] - at[i - 2]) * 3 / 2);
    hear(&heard, now);
    assert_false(lli_rx_is_unheard(&r.rx));
    assert_int_equal(r.rx.gap.next, START);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(overlapping_ranges_of_a_nak_are_merged),
        T(packets_reported_as_received_are_not_repaired),
        T(overlapping_ranges_of_a_fetch_are_merged),
        C(a_receiver_becomes_known_by_returning_the_token),
        C(a_token_of_another_address_or_receiver_is_none),
        C(a_forged_nak_costs_its_victim_one_short_packet),
        C(forged_naks_together_have_little_sent_to_the_group),
        C(a_fetch_without_the_token_gets_one_short_packet),
        C(a_query_without_the_token_is_not_answered_by_names),
        C(invented_receivers_count_for_nothing),
        C(a_receiver_beyond_the_limit_is_informed),
        C(a_late_joiner_beyond_the_limit_is_informed),
        C(a_late_joiner_is_informed_of_a_long_wait),
        C(a_late_joiner_for_cached_messages_is_informed_of_a_long_wait),
        C(an_unanswered_connection_sends_few_heartbeats),
        C(a_receiver_given_a_token_at_the_end_is_waited_for),
        R(a_receiver_reports_reduced_service_once),
        R(an_unanswering_session_gets_few_short_packets),
        R(an_unheard_session_gets_reports_at_doubling_intervals),
        R(ineffective_packets_are_sent_again_with_the_token),
        R(the_token_does_not_go_to_another_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
