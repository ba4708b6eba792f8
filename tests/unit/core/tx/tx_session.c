/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <llm/llm.h>

static struct transmitter t;
static struct lli_tx *const tx = &t.tx;
static uint8_t buffer[LLI_WIRE_CONTROL_MAX];

static int up(void **state)
{
    const struct lli_tx_config config = tx_config();

    (void)state;
    transmitter_make(&t, &config, 10 * MS);
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(t.memory);
    return 0;
}

/* Takes the next control packet, which must be of this type, and reads its body. */
static const struct lli_wire_address *expect_control(lli_ns now, uint8_t type, void *out)
{
    struct lli_wire_header header = {0};
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;

    assert_true(lli_tx_control(tx, now, buffer, sizeof buffer, &packet));
    assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
    assert_int_equal(header.type, type);
    if (type == LLI_WIRE_HEARTBEAT)
        assert_true(lli_wire_get_heartbeat(body, size, &header, out));
    else
        assert_true(lli_wire_get_reject(body, size, header.tag, out));
    return packet.to;
}

static void expect_no_control(lli_ns now)
{
    struct lli_packet packet;

    assert_false(lli_tx_control(tx, now, buffer, sizeof buffer, &packet));
}

static void nak(uint64_t receiver, uint32_t first, uint32_t count, lli_ns now)
{
    const struct lli_wire_nak packet = {.session = SESSION,
                                        .receiver = receiver,
                                        .address = {1, {'a'}},
                                        .count = 1,
                                        .ranges = {{first, count}}};

    tx_take(tx, buffer, lli_wire_put_nak(buffer, &packet), now);
}

static void status(uint64_t receiver, lli_seq next, uint64_t echo, uint32_t echo_age_ns, uint8_t flags,
                   lli_ns now)
{
    const struct lli_wire_status packet = {.session = SESSION,
                                           .receiver = receiver,
                                           .next = next,
                                           .highest = next,
                                           .echo = echo,
                                           .echo_age_ns = echo_age_ns,
                                           .flags = flags,
                                           .address = {1, {'a'}}};

    tx_take(tx, buffer, lli_wire_put_status(buffer, &packet), now);
}

static int repairs(lli_ns now, bool to_group)
{
    struct lli_packet packet;
    int count = 0;

    for (; lli_tx_repair(tx, now, &packet); count++) {
        assert_int_equal(packet.to == NULL, to_group);
        lli_tx_repaired(tx, now);
    }
    return count;
}

static void the_first_heartbeat_is_due_at_once_and_marks_a_young_session(void **state)
{
    struct lli_wire_heartbeat heartbeat;

    (void)state;
    assert_true(lli_tx_deadline(tx) <= 10 * MS);
    assert_null(expect_control(10 * MS, LLI_WIRE_HEARTBEAT, &heartbeat));
    assert_int_equal(heartbeat.session, SESSION);
    assert_int_equal(heartbeat.lead, START);
    assert_int_equal(heartbeat.trail, START);
    assert_int_equal(heartbeat.start, START);
    assert_int_equal(heartbeat.messages, 0);
    assert_int_equal(heartbeat.flags, LLI_WIRE_HEARTBEAT_YOUNG);
    assert_int_equal(heartbeat.rtt_ns, LLI_TX_RTT_UNKNOWN);
    assert_int_equal(heartbeat.address.bytes[0], 't');
    (void)expect_control(10 * MS + LLI_TX_YOUNG, LLI_WIRE_HEARTBEAT, &heartbeat);
    assert_int_equal(heartbeat.flags, 0);
}

static void idle_heartbeats_double_their_distance(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_ns now = 10 * MS, distance = 50 * US;

    (void)state;
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    for (int i = 0; i < 14; i++) {
        distance = lli_min(2 * distance, 100 * MS);
        /* The promised interval of the previous one is met, and hardly exceeds it. */
        assert_true(heartbeat.interval_us * US >= distance);
        assert_true(heartbeat.interval_us * US <= lli_max(distance, 10 * MS) + US);
        expect_no_control(now + distance - 1);
        now += distance;
        (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    }
}

static void a_heartbeat_follows_the_last_packet_soon(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_ns now = 500 * MS;

    (void)state;
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    send_one(tx, "a", now += 5 * MS);
    expect_no_control(now + 49 * US);
    (void)expect_control(now + 50 * US, LLI_WIRE_HEARTBEAT, &heartbeat);
    assert_int_equal(heartbeat.lead, START + 1);
    assert_int_equal(heartbeat.messages, 1);
}

/* Expects the first heartbeat after a message at this interval; sending it takes the given time. */
static void expect_distance(lli_ns *now, lli_ns distance, lli_ns took)
{
    struct lli_wire_heartbeat heartbeat;

    send_one(tx, "a", *now += 200 * MS);
    expect_no_control(*now + distance - 1);
    (void)expect_control(*now += distance, LLI_WIRE_HEARTBEAT, &heartbeat);
    lli_tx_heartbeat_took(tx, took);
}

static void heartbeats_take_at_most_a_quarter_of_the_time(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_ns now = 500 * MS;

    (void)state;
    tx->config.heartbeat_busy = 10000 * MS;
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    lli_tx_heartbeat_took(tx, 60 * US); /* not after data: no sample */
    expect_distance(&now, 50 * US, 12 * US);
    expect_distance(&now, 50 * US, 60 * US);
    expect_distance(&now, 100 * US, 60 * US); /* at most double per sample */
    expect_distance(&now, 200 * US, 60 * US);
    expect_distance(&now, 240 * US, 60 * US);
    /* From there intervals double, and give no samples. */
    for (lli_ns distance = 240 * US; distance < 5 * MS; distance *= 2) {
        expect_no_control(now + distance - 1);
        (void)expect_control(now += distance, LLI_WIRE_HEARTBEAT, &heartbeat);
        lli_tx_heartbeat_took(tx, 1 * US);
    }
    expect_distance(&now, 240 * US, 1 * US);
    for (lli_ns distance = 50 * US; distance < 100 * MS; distance *= 2)
        expect_distance(&now, distance, UINT64_MAX);
    expect_distance(&now, 100 * MS, UINT64_MAX);
    expect_distance(&now, 100 * MS, 0);
    expect_distance(&now, 50 * US, 0);
}

/* Expects the first heartbeat this time after a message. */
static void expect_first(lli_ns sent_at, lli_ns distance)
{
    struct lli_wire_heartbeat heartbeat;

    send_one(tx, "a", sent_at);
    expect_no_control(sent_at + distance - 1);
    (void)expect_control(sent_at + distance, LLI_WIRE_HEARTBEAT, &heartbeat);
}

static void heartbeats_wait_longer_in_a_steady_stream(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_ns now = 500 * MS;

    (void)state;
    tx->config.heartbeat_busy = 10000 * MS;
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    /* Packets every 101 us are too far apart. */
    for (int i = 0; i < 5; i++)
        expect_first(now += 101 * US, 50 * US);
    /* Of packets every 100 us the second one shows it. */
    expect_first(now += 200 * US, 50 * US);
    expect_first(now += 100 * US, 50 * US);
    for (int i = 0; i < 5; i++)
        send_one(tx, "a", now += 100 * US);
    expect_first(now += 199 * US, 200 * US);
    /* The stream paused. */
    expect_first(now += 300 * US, 50 * US);
    expect_first(now += 100 * US, 50 * US);
    expect_first(now += 100 * US, 200 * US);
}

static void heartbeats_of_a_steady_stream_follow_soon_after_a_loss(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_ns now = 500 * MS;

    (void)state;
    tx->config.heartbeat_busy = 10000 * MS;
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    expect_first(now += 200 * US, 50 * US);
    expect_first(now += 100 * US, 50 * US);
    nak(1, (uint32_t)START, 1, now);
    (void)repairs(now, false);
    for (int i = 0; i < 3; i++)
        expect_first(now += 60 * US, 50 * US / 3);
}

/* Beyond the receivers that each have a processor; the pauses are short, as receivers that are silent are forgotten. */
static void heartbeats_are_spared_where_receivers_share_processors(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    struct lli_ack_topic topic = {.id = 0};
    lli_ns now = 20 * MS;

    (void)state;
    tx->config.heartbeat_receivers_max = 1;
    tx->config.heartbeat_busy = 10000 * MS;
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    status(1, START, 0, 0, 0, now);
    expect_first(now += 2 * MS, 50 * US);
    expect_first(now += 2 * MS, 50 * US);
    status(2, START, 0, 0, 0, now += 100 * US);
    expect_first(now += 2 * MS, 50 * US);
    expect_first(now += 2 * MS, 1 * MS);
    /* Neither a loss, which only overran a receiver, nor the time of a send changes that. */
    lli_tx_heartbeat_took(tx, 60 * US);
    nak(1, (uint32_t)START, 1, now += 2 * MS);
    (void)repairs(now, false);
    expect_first(now += 2 * MS, 1 * MS);
    /* Assured topics wait for reports. */
    assert_true(lli_tx_assure(tx, &topic, &(struct lli_ack_rule){.messages_max = 1}, NULL, 1));
    expect_first(now += 2 * MS, 1 * MS);
    expect_first(now += 2 * MS, 50 * US / 3);
}

static void the_end_is_announced_soon_where_heartbeats_are_spared(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_ns now = 20 * MS;

    (void)state;
    tx->config.heartbeat_receivers_max = 1;
    tx->config.heartbeat_busy = 10000 * MS;
    status(1, START, 0, 0, 0, now);
    status(2, START, 0, 0, 0, now);
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    expect_first(now += 2 * MS, 1 * MS);
    lli_tx_end(tx, now += 2 * MS);
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    assert_true(heartbeat.flags & LLI_WIRE_HEARTBEAT_END);
    expect_no_control(now + 50 * US - 1);
    (void)expect_control(now + 50 * US, LLI_WIRE_HEARTBEAT, &heartbeat);
}

static void no_heartbeat_is_spared_where_last_packets_are_lost(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_ns now = 20 * MS;

    (void)state;
    tx->config.heartbeat_busy = 10000 * MS;
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    for (uint64_t receiver = 1; receiver <= 4; receiver++)
        status(receiver, START, 0, 0, 0, now);
    for (int i = 0; i < 3; i++)
        expect_first(now += 2 * MS, 50 * US);
}

/* A third of 50 us, or twice the time of a send, until no packet was lost for a second. */
static void heartbeats_follow_sooner_after_a_loss(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_ns now = 500 * MS;

    (void)state;
    tx->config.heartbeat_busy = 10000 * MS;
    (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
    expect_distance(&now, 50 * US, 4 * US);
    nak(1, (uint32_t)START, 1, now += MS);
    (void)repairs(now, false);
    expect_distance(&now, 50 * US / 3, 4 * US);
    expect_distance(&now, 50 * US / 3, 12 * US);
    expect_distance(&now, 24 * US, 4 * US);
    expect_distance(&now, 50 * US / 3, 4 * US);
    /* It asks for nothing that was sent: no loss. */
    nak(1, (uint32_t)START + 100, 1, now);
    now += 1000 * MS;
    while (lli_tx_control(tx, now, buffer, sizeof buffer, &(struct lli_packet){0}))
        continue;
    expect_distance(&now, 50 * US, 4 * US);
}

static void heartbeats_are_few_while_data_flows(void **state)
{
    struct lli_packet packet;
    int heartbeats = 0;

    (void)state;
    for (lli_ns now = 10 * MS; now < 1010 * MS; now += 20 * US) {
        send_one(tx, "a", now);
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            heartbeats++;
    }
    assert_true(heartbeats >= 90 && heartbeats <= 102);
}

static void a_heartbeat_covers_only_packets_taken_by_the_transport(void **state)
{
    struct lli_wire_heartbeat heartbeat;

    (void)state;
    pack_one(tx, "a");
    pack_one(tx, "b");
    lli_tx_sent(tx, 1, 10 * MS);
    (void)expect_control(20 * MS, LLI_WIRE_HEARTBEAT, &heartbeat);
    assert_int_equal(heartbeat.lead, START + 1);
    assert_int_equal(heartbeat.messages, 1);
}

static void packets_stay_until_the_transport_has_released_them(void **state)
{
    lli_seq first;

    (void)state;
    first = tx->sent;
    pack_one(tx, "one");
    lli_tx_sent(tx, 1, 0);
    assert_int_equal(lli_tx_busy(tx), first);
    /* Reports all earlier packets as read: there were none; from now on "one" is an earlier packet. */
    lli_tx_reaped(tx, false);
    assert_int_equal(lli_tx_busy(tx), first);
    pack_one(tx, "two");
    lli_tx_sent(tx, 1, 0);
    assert_int_equal(lli_tx_busy(tx), first);
    lli_tx_reaped(tx, false);
    assert_int_equal(lli_tx_busy(tx), first + 1);
    lli_tx_reaped(tx, true);
    assert_int_equal(lli_tx_busy(tx), first + 2);
}

/* Packets of the largest size: a window of half of the history's packets, or of half of its bytes. */
static void packets_blocked_by_flow_control_leave_the_window_in_history(void **state)
{
    static const struct lli_flow_config flows[] = {
        {.mode = LLI_FLOW_WINDOW, .window_packets = HISTORY / 2, .quorum_percent = 100},
        {.mode = LLI_FLOW_WINDOW,
         .window_packets = 4 * HISTORY,
         .window_bytes = HISTORY * PACKET_MAX / 2,
         .quorum_percent = 100},
    };
    const struct lli_wire_status report = {.session = SESSION,
                                           .receiver = 1,
                                           .next = START + 1,
                                           .highest = START + 1,
                                           .window_free = 4 * HISTORY,
                                           .address = {1, {'a'}}};
    char text[PACKET_MAX - 40];

    (void)state;
    memset(text, 'm', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (size_t i = 0; i < sizeof flows / sizeof flows[0]; i++) {
        struct lli_tx_config config = tx_config();

        config.history.packets = 8 * HISTORY;
        config.flow = flows[i];
        free(t.memory);
        transmitter_make(&t, &config, 0);
        send_one(tx, text, 0);
        tx_take(tx, buffer, lli_wire_put_status(buffer, &report), 0);
        while (!lli_tx_is_blocked(tx)) {
            pack_one(tx, text);
            lli_tx_sent(tx, lli_tx_ready(tx, 0, 1), 0);
            lli_tx_reaped(tx, true);
        }
        assert_int_equal(tx->sent, START + 1 + HISTORY / 2);
        assert_true(tx->history.trail <= START + 1);
    }
}

static void a_lost_packet_is_repaired_for_its_receiver(void **state)
{
    struct lli_packet packet;

    (void)state;
    for (int i = 0; i < 5; i++)
        send_one(tx, "abc", 11 * MS);
    nak(1, (uint32_t)START + 2, 2, 12 * MS);
    assert_int_equal(lli_tx_deadline(tx) <= 12 * MS, 1);
    assert_true(lli_tx_repair(tx, 12 * MS, &packet));
    assert_memory_equal(packet.data, lli_history_packet(&tx->history, START + 2), packet.size);
    assert_int_equal(packet.to->bytes[0], 'a');
    assert_int_equal(repairs(12 * MS, false), 2);
    assert_int_equal(tx->counters.packets_repaired, 2);
    assert_int_equal(tx->members.count, 1);
    /* The second request is too early. */
    nak(1, (uint32_t)START + 2, 2, 12 * MS + 10 * US);
    assert_int_equal(repairs(12 * MS + 10 * US, false), 0);
    assert_int_equal(tx->counters.nak_packets_ignored, 2);
}

static void two_naks_get_one_repair_for_the_group(void **state)
{
    (void)state;
    send_one(tx, "abc", 11 * MS);
    nak(1, (uint32_t)START, 1, 12 * MS);
    nak(2, (uint32_t)START, 1, 12 * MS);
    assert_int_equal(repairs(12 * MS, true), 1);
    assert_int_equal(tx->counters.repairs_multicast, 1);
}

static void forged_naks_for_unsent_packets_have_no_effect(void **state)
{
    (void)state;
    send_one(tx, "abc", 11 * MS);
    pack_one(tx, "unsent");
    nak(1, (uint32_t)START + 1, UINT32_MAX, 12 * MS);
    nak(1, (uint32_t)START + 1000, 5, 12 * MS);
    assert_int_equal(repairs(12 * MS, false), 0);
    assert_true(tx->counters.nak_packets_beyond > 5);
    nak(1, (uint32_t)START, 1000, 12 * MS);
    assert_int_equal(repairs(12 * MS, false), 1);
}

static void forgotten_packets_are_rejected_to_their_receiver(void **state)
{
    struct lli_wire_reject reject;
    const struct lli_wire_address *to;

    (void)state;
    for (int i = 0; i < 2 * HISTORY; i++)
        send_one(tx, "abc", 11 * MS);
    nak(1, (uint32_t)START + 3, 4, 12 * MS);
    to = expect_control(12 * MS, LLI_WIRE_REJECT, &reject);
    assert_int_equal(to->bytes[0], 'a');
    assert_int_equal(reject.reason, LLI_WIRE_GONE);
    assert_int_equal(reject.trail, tx->history.trail);
    assert_int_equal(reject.count, 1);
    assert_int_equal(reject.ranges[0].first, (uint32_t)START + 3);
    assert_int_equal(reject.ranges[0].count, 4);
    assert_int_equal(tx->counters.nak_packets, 4);
    assert_int_equal(tx->counters.nak_packets_gone, 4);
    assert_int_equal(repairs(12 * MS, false), 0);
}

static void repairs_stay_within_their_budget(void **state)
{
    int sent = 0;

    (void)state;
    tx->repair.pacer.tokens = 0;
    tx->repair.pacer.burst = PACKET_MAX;
    for (int i = 0; i < 100; i++)
        send_one(tx, "0123456789012345678901234567890123456789", 11 * MS);
    tx->repair.pacer.tokens = 0;
    tx->repair.pacer.filled_at = 11 * MS;
    for (lli_ns now = 11 * MS; now < 61 * MS; now += 100 * US) {
        nak(1, (uint32_t)START, 100, now);
        sent += repairs(now, false);
    }
    /* 1 MiB a second for 50 ms, and one packet more. */
    assert_true(sent * 57 <= 52429 + 57 && sent * 57 > 40000);
}

static void a_large_group_gets_pending_for_waiting_repairs(void **state)
{
    struct lli_wire_reject reject;

    (void)state;
    for (uint64_t receiver = 1; receiver <= 9; receiver++)
        status(receiver, START, 0, 0, 0, 11 * MS);
    send_one(tx, "abc", 11 * MS);
    tx->repair.pacer.tokens = 0;
    nak(1, (uint32_t)START, 1, 11 * MS);
    assert_null(expect_control(11 * MS, LLI_WIRE_REJECT, &reject));
    assert_int_equal(reject.reason, LLI_WIRE_PENDING);
    assert_int_equal(reject.ranges[0].first, (uint32_t)START);
}

static void the_round_trip_excludes_the_delay_in_the_receiver(void **state)
{
    (void)state;
    status(1, START, 20 * MS, 300000, 0, 21 * MS);
    assert_int_equal(tx->group.rtt, 700 * US);
    status(1, START, 20 * MS, 0, 0, 20 * MS + 1500 * US);
    assert_int_equal(tx->group.rtt, (700 * US * 7 + 1500 * US) / 8);
    /* Echoes of the future, of another session's time, or with an age beyond the round trip are ignored. */
    status(1, START, 900 * MS, 0, 0, 22 * MS);
    status(1, START, 1 * MS, 0, 0, 22 * MS);
    status(1, START, 22 * MS, 2000, 0, 22 * MS + 1);
    assert_int_equal(tx->group.rtt, (700 * US * 7 + 1500 * US) / 8);
}

static void a_delayed_report_hardly_changes_the_round_trip(void **state)
{
    (void)state;
    status(1, START, 20 * MS, 0, 0, 1500 * MS);
    assert_int_equal(tx->group.rtt, LLI_TX_RTT_UNKNOWN);
    status(1, START, 1500 * MS, 0, 0, 1501 * MS);
    assert_int_equal(tx->group.rtt, 1 * MS);
    status(1, START, 1501 * MS, 0, 0, 1901 * MS);
    assert_int_equal(tx->group.rtt, (1 * MS * 7 + 4 * MS) / 8);
    /* A longer path is accepted after some time. */
    for (lli_ns now = 2000 * MS; now < 2040 * MS; now += US)
        status(1, START, now, 0, 0, now + 20 * MS);
    assert_in_range(tx->group.rtt, 19 * MS, 20 * MS);
}

static void receivers_join_leave_and_are_forgotten(void **state)
{
    struct lli_packet packet;

    (void)state;
    status(1, START, 0, 0, 0, 11 * MS);
    status(2, START, 0, 0, 0, 11 * MS);
    status(0, START, 0, 0, 0, 11 * MS);
    assert_int_equal(tx->members.count, 2);
    assert_int_equal(tx->counters.receivers_refused, 1);
    status(1, START, 0, 0, LLI_WIRE_STATUS_LEAVING, 12 * MS);
    assert_int_equal(tx->members.count, 1);
    assert_int_equal(tx->counters.receivers_left, 1);
    status(2, START, 0, 0, 0, 150 * MS);
    while (lli_tx_control(tx, 1100 * MS, buffer, sizeof buffer, &packet))
        assert_int_equal(tx->members.count, 1);
    while (lli_tx_control(tx, 1250 * MS, buffer, sizeof buffer, &packet))
        continue;
    assert_int_equal(tx->members.count, 0);
    assert_int_equal(tx->counters.receivers_lost, 1);
}

static void a_query_is_answered_with_names_to_its_receiver(void **state)
{
    const struct lli_wire_query query = {
        .session = SESSION, .receiver = 1, .first = 1, .address = {1, {'q'}}};
    struct lli_wire_header header = {0};
    struct lli_wire_topics topics;
    struct lli_reader names;
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;
    uint32_t id;

    (void)state;
    assert_int_equal(lli_tx_topic_add(tx, "zero", &id), LLM_OK);
    assert_int_equal(lli_tx_topic_add(tx, "one", &id), LLM_OK);
    assert_int_equal(id, 1);
    tx_take(tx, buffer, lli_wire_put_query(buffer, &query), 11 * MS);
    assert_true(lli_tx_control(tx, 11 * MS, buffer, sizeof buffer, &packet));
    assert_int_equal(packet.to->bytes[0], 'q');
    assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
    assert_true(lli_wire_get_topics(body, size, header.tag, &topics, &names));
    assert_int_equal(topics.total, 2);
    assert_int_equal(topics.first, 1);
    assert_int_equal(topics.count, 1);
    assert_int_equal(lli_read_u8(&names), 3);
    assert_memory_equal(lli_read_bytes(&names, 3), "one", 3);
    for (int i = 2; i < 8; i++)
        assert_int_equal(lli_tx_topic_add(tx, "more", &id), LLM_OK);
    assert_int_equal(lli_tx_topic_add(tx, "ninth", &id), LLM_ELIMIT);
}

static void control_of_another_session_is_counted_and_dropped(void **state)
{
    struct lli_wire_nak packet = {
        .session = SESSION ^ (uint64_t)1 << 40, .receiver = 1, .count = 1, .ranges = {{0, 1}}};
    size_t size;

    (void)state;
    tx_take(tx, buffer, lli_wire_put_nak(buffer, &packet), 11 * MS);
    assert_int_equal(tx->counters.control_foreign, 1);
    packet.session = SESSION;
    size = lli_wire_put_nak(buffer, &packet) - 1;
    lli_wire_put_size(buffer, size);
    tx_take(tx, buffer, size, 11 * MS);
    assert_int_equal(tx->counters.control_malformed, 1);
    assert_int_equal(tx->members.count, 0);
    assert_int_equal(tx->counters.naks_received, 0);
}

static void answers_beyond_the_queue_are_dropped_and_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * HISTORY; i++)
        send_one(tx, "abc", 11 * MS);
    for (int i = 0; i < LLI_TX_ANSWERS + 3; i++)
        nak(1, (uint32_t)START, 1, 12 * MS);
    assert_int_equal(tx->counters.answers_dropped, 3);
}

static void the_end_is_announced_right_after_the_last_packet(void **state)
{
    struct lli_wire_heartbeat heartbeat;

    (void)state;
    (void)expect_control(10 * MS, LLI_WIRE_HEARTBEAT, &heartbeat);
    pack_one(tx, "last");
    lli_tx_end(tx, 11 * MS);
    lli_tx_sent(tx, 1, 11 * MS);
    (void)expect_control(11 * MS, LLI_WIRE_HEARTBEAT, &heartbeat);
    assert_true(heartbeat.flags & LLI_WIRE_HEARTBEAT_END);
    assert_int_equal(heartbeat.lead, START + 1);
}

static void a_session_is_drained_when_all_receivers_have_all_packets(void **state)
{
    struct lli_packet packet;
    lli_ns now = 11 * MS;

    (void)state;
    status(1, START, 0, 0, 0, now);
    send_one(tx, "a", now);
    lli_tx_end(tx, now);
    for (int i = 0; i < 100; i++)
        (void)lli_tx_control(tx, now += MS, buffer, sizeof buffer, &packet);
    assert_false(lli_tx_drained(tx));
    status(1, START, 0, 0, LLI_WIRE_STATUS_DONE, now); /* claims it, but has not */
    assert_false(lli_tx_drained(tx));
    status(1, START + 1, 0, 0, LLI_WIRE_STATUS_DONE, now);
    assert_true(lli_tx_drained(tx));
}

/* Nobody has to have anything, so only the number of heartbeats counts. */
static void a_session_without_receivers_is_drained_after_five_ends(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_ns now = 11 * MS;

    (void)state;
    send_one(tx, "a", now);
    lli_tx_end(tx, now);
    for (int sent = 0; sent < 5; sent++) {
        assert_false(lli_tx_drained(tx));
        now = lli_max(now, lli_tx_deadline(tx));
        (void)expect_control(now, LLI_WIRE_HEARTBEAT, &heartbeat);
        assert_true(heartbeat.flags & LLI_WIRE_HEARTBEAT_END);
    }
    assert_true(lli_tx_drained(tx));
}

/* Takes all due packets; returns the number of notices, and the latest. */
static int notices(lli_ns now, struct lli_wire_notice *notice)
{
    struct lli_wire_header header = {0};
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;
    int count = 0;

    while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet)) {
        assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
        if (header.type != LLI_WIRE_NOTICE)
            continue;
        assert_true(lli_wire_get_notice(body, size, header.tag, notice));
        assert_int_equal(packet.to->bytes[0], 'a');
        count++;
    }
    return count;
}

static void a_departed_receiver_gets_no_waiting_repair(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        send_one(tx, "abc", 11 * MS);
    status(1, START, 0, 0, 0, 11 * MS);
    status(2, START, 0, 0, 0, 11 * MS);
    nak(1, (uint32_t)START, 2, 12 * MS);
    nak(2, (uint32_t)START + 3, 1, 12 * MS);
    status(1, START, 0, 0, LLI_WIRE_STATUS_LEAVING, 12 * MS);
    assert_int_equal(repairs(12 * MS, false), 1);
    assert_int_equal(tx->counters.repairs_dropped, 2);
}

static void naks_of_an_operator_suspended_receiver_get_only_a_notice(void **state)
{
    struct lli_wire_notice notice;
    struct llm_event event;

    (void)state;
    for (int i = 0; i < 5; i++)
        send_one(tx, "abc", 11 * MS);
    status(1, START, 0, 0, 0, 11 * MS);
    status(2, START, 0, 0, 0, 11 * MS);
    nak(1, (uint32_t)START, 2, 12 * MS);
    /* Its queued repairs are dropped. */
    assert_true(lli_tx_suspend(tx, 1, true, 12 * MS));
    assert_int_equal(repairs(12 * MS, false), 0);
    assert_int_equal(tx->counters.repairs_dropped, 2);
    nak(1, (uint32_t)START, 2, 12 * MS);
    nak(2, (uint32_t)START + 3, 1, 12 * MS);
    assert_int_equal(repairs(12 * MS, false), 1);
    assert_int_equal(tx->counters.naks_ignored, 1);
    assert_true(lli_tx_event(tx, &event));
    assert_int_equal(event.kind, LLM_EVENT_SUSPENDED);
    assert_int_equal(event.session, SESSION);
    assert_int_equal(event.verdict->receiver, 1);
    assert_int_equal(event.verdict->threshold, LLM_THRESHOLD_OPERATOR);
    assert_false(lli_tx_event(tx, &event));
    assert_true(lli_tx_deadline(tx) <= 22 * MS);
    assert_int_equal(notices(22 * MS, &notice), 1);
    assert_int_equal(notice.receiver, 1);
    assert_int_equal(notice.standing, LLI_STANDING_SUSPENDED);
    assert_int_equal(notice.lead, START + 5);
    assert_int_equal(tx->counters.notices_sent, 1);
    assert_int_equal(tx->counters.receivers_suspended, 1);
    assert_true(lli_tx_suspend(tx, 1, false, 22 * MS));
    (void)notices(40 * MS, &notice);
    nak(1, (uint32_t)START, 2, 41 * MS);
    assert_int_equal(repairs(41 * MS, false), 2);
    /* All receivers, also unknown ones. */
    nak(1, (uint32_t)START + 1, 1, 42 * MS);
    lli_tx_suspend_all(tx, true, 42 * MS);
    nak(0, (uint32_t)START + 2, 1, 42 * MS);
    nak(2, (uint32_t)START + 2, 1, 42 * MS);
    assert_int_equal(repairs(42 * MS, false), 0);
    assert_false(lli_tx_suspend(tx, 77, true, 42 * MS));
}

/* Takes heartbeats until a time; returns the clock value in the latest. */
static lli_ns heartbeats_until(lli_ns from, lli_ns until)
{
    struct lli_packet packet;
    lli_ns latest = 0;

    for (lli_ns at = from; at <= until; at += MS)
        while (lli_tx_control(tx, at, buffer, sizeof buffer, &packet))
            latest = at;
    return latest;
}

/*
 * Each of 1,000 receivers reports every 10 s. The ten that stay get no other interval before their next
 * report.
 */
static void remaining_receivers_are_not_forgotten_before_their_report(void **state)
{
    struct lli_tx_config config = tx_config();
    lli_ns now, latest;

    (void)state;
    config.receivers_max = 1000;
    config.flow =
        (struct lli_flow_config){.mode = LLI_FLOW_WINDOW, .window_packets = 8, .quorum_percent = 50};
    free(t.memory);
    transmitter_make(&t, &config, 10 * MS);
    now = heartbeats_until(10 * MS, 20 * MS);
    for (uint64_t receiver = 1; receiver <= 1000; receiver++)
        status(receiver, START, now, 0, 0, now);
    latest = heartbeats_until(now, 1000 * MS);
    for (uint64_t receiver = 1; receiver <= 1000; receiver++)
        status(receiver, START, latest, 0, 0, 1000 * MS);
    for (uint64_t receiver = 11; receiver <= 1000; receiver++)
        status(receiver, START, latest, 0, LLI_WIRE_STATUS_LEAVING, 1001 * MS);
    /* Sent before it heard of the smaller number. */
    status(10, START, latest, 0, 0, 1002 * MS);
    latest = heartbeats_until(1001 * MS, 90000 * MS);
    assert_int_equal(tx->counters.receivers_lost, 0);
    assert_int_equal(tx->members.count, 10);
    assert_int_equal(tx->flow.limit, START);
    /*
     * From their next report on each reports every 100 ms, and is forgotten after a second without reports.
     */
    for (uint64_t receiver = 1; receiver <= 5; receiver++)
        status(receiver, START, latest, 0, 0, 90000 * MS);
    (void)heartbeats_until(90000 * MS, 90900 * MS);
    assert_int_equal(tx->members.count, 10);
    (void)heartbeats_until(90900 * MS, 91300 * MS);
    assert_int_equal(tx->members.count, 5);
    (void)heartbeats_until(91300 * MS, 101200 * MS);
    assert_int_equal(tx->members.count, 0);
    assert_int_equal(tx->counters.receivers_lost, 10);
}

/* All are scanned for the greatest round trip once in two intervals of reports at most. */
static void the_round_trip_of_a_thousand_receivers_falls_later(void **state)
{
    struct lli_tx_config config = tx_config();

    (void)state;
    config.receivers_max = 1000;
    free(t.memory);
    transmitter_make(&t, &config, 10 * MS);
    for (uint64_t receiver = 1; receiver <= 1000; receiver++)
        status(receiver, START, 1000 * MS, 0, 0, 1001 * MS);
    assert_int_equal(tx->group.rtt, 1 * MS);
    for (uint64_t receiver = 1000; receiver > 0; receiver--)
        status(receiver, START, 1002 * MS - 200 * US, 0, 0, 1002 * MS);
    assert_int_equal(tx->group.rtt, 1 * MS);
    for (uint64_t receiver = 1000; receiver > 0; receiver--)
        status(receiver, START, 1202 * MS - 900 * US, 0, 0, 1202 * MS);
    assert_int_equal(tx->group.rtt, 900 * US);
    /* A longer one counts at once. */
    status(7, START, 1203 * MS - 2000 * US, 0, 0, 1203 * MS);
    assert_int_equal(tx->group.rtt, (900 * US * 7 + 2000 * US) / 8);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_round_trip_of_a_thousand_receivers_falls_later),
        T(the_first_heartbeat_is_due_at_once_and_marks_a_young_session),
        T(idle_heartbeats_double_their_distance),
        T(a_heartbeat_follows_the_last_packet_soon),
        T(heartbeats_take_at_most_a_quarter_of_the_time),
        T(heartbeats_wait_longer_in_a_steady_stream),
        T(heartbeats_of_a_steady_stream_follow_soon_after_a_loss),
        T(heartbeats_are_spared_where_receivers_share_processors),
        T(the_end_is_announced_soon_where_heartbeats_are_spared),
        T(no_heartbeat_is_spared_where_last_packets_are_lost),
        T(heartbeats_follow_sooner_after_a_loss),
        T(heartbeats_are_few_while_data_flows),
        T(a_heartbeat_covers_only_packets_taken_by_the_transport),
        T(packets_stay_until_the_transport_has_released_them),
        T(packets_blocked_by_flow_control_leave_the_window_in_history),
        T(a_lost_packet_is_repaired_for_its_receiver),
        T(two_naks_get_one_repair_for_the_group),
        T(forged_naks_for_unsent_packets_have_no_effect),
        T(forgotten_packets_are_rejected_to_their_receiver),
        T(repairs_stay_within_their_budget),
        T(a_large_group_gets_pending_for_waiting_repairs),
        T(the_round_trip_excludes_the_delay_in_the_receiver),
        T(a_delayed_report_hardly_changes_the_round_trip),
        T(receivers_join_leave_and_are_forgotten),
        T(a_query_is_answered_with_names_to_its_receiver),
        T(control_of_another_session_is_counted_and_dropped),
        T(answers_beyond_the_queue_are_dropped_and_counted),
        T(the_end_is_announced_right_after_the_last_packet),
        T(a_departed_receiver_gets_no_waiting_repair),
        T(remaining_receivers_are_not_forgotten_before_their_report),
        T(naks_of_an_operator_suspended_receiver_get_only_a_notice),
        T(a_session_is_drained_when_all_receivers_have_all_packets),
        T(a_session_without_receivers_is_drained_after_five_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
