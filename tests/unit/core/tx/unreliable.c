/* SPDX-License-Identifier: Apache-2.0 */
/* Unreliable topics: a transmitter and a receiver, with packets carried between them by hand, or lost. */
#include "ends.h"

enum { TOLD_MAX = 256, DELIVERED = -1 };

static const struct lli_pack_topic reliable = {.id = 0};
static const struct lli_pack_topic unreliable = {.id = 1, .unreliable = true};

static uint8_t buffer[1024];
static struct llm_join join;
static lli_ns now;

/* Fate of each message: DELIVERED, or the reason of its loss. */
static int told[TOLD_MAX];
static uint64_t expected;
static uint64_t first; /* first message */
static int gaps;
static bool live;

static int up(void **state)
{
    struct lli_tx_config tx_options = tx_config();

    (void)state;
    now = 5000 * MS;
    r = (struct receiver){.random = 1};
    expected = first = 0;
    gaps = 0;
    live = false;
    memset(told, 0, sizeof told);
    r.config = rx_config();
    r.config.otherwise = LLI_RX_ELSE_REFUSE;
    r.config.window_packets = 4 * WINDOW;
    r.config.nak_giveup = 10000 * MS;
    /* A receiver that sends more than one NAK a second is slow. */
    tx_options.slow = (struct lli_slow_policy){
        .most = LLI_STANDING_SUSPENDED,
        .warn_percent = 50,
        .unicast_percent = 100,
        .limits = {[LLM_THRESHOLD_NAKS] = 1, [LLM_THRESHOLD_NAK_SHARE] = 1},
    };
    transmitter_make(&t, &tx_options, now);
    lli_pack_unreliable(&tx->pack, 1);
    receiver_make(&r, 200, now);
    return 0;
}

static void take_event(const struct llm_event *event)
{
    if (event->kind == LLM_EVENT_SESSION_NEW)
        expected = first = event->first;
    live |= event->kind == LLM_EVENT_LIVE;
    if (event->kind != LLM_EVENT_GAP)
        return;
    assert_int_equal(event->first, expected);
    for (gaps++; expected <= event->last; expected++)
        told[expected % TOLD_MAX] = (int)event->reason;
}

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        if (item.kind == LLI_ITEM_JOIN)
            lli_rx_begin(rx, &join, now);
        else if (item.kind == LLI_ITEM_MESSAGES)
            for (int i = 0; i < item.count; i++) {
                assert_int_equal(item.messages[i].number, expected);
                told[expected++ % TOLD_MAX] = DELIVERED;
            }
        else
            take_event(&item.event);
    }
}

static void rx_take(const uint8_t *data, size_t size)
{
    receiver_take(&r, data, size, now, pull);
}

/* Carries all packets between both until a time. */
static void talk(lli_ns until)
{
    struct lli_packet packet;

    for (; now < until; now += 20 * US) {
        tx_speak(tx, now, buffer, sizeof buffer, rx_take);
        while (lli_rx_control(rx, now, buffer, &packet))
            tx_take(tx, packet.data, packet.size, now);
        pull();
    }
}

/* Sends a message that fills a packet; it is lost, or not. */
static void send(const struct lli_pack_topic *topic, bool lost)
{
    const struct iovec piece = {(void *)(uintptr_t) "a message", 9};
    struct lli_packet packet;

    assert_true(lli_pack_message(&tx->pack, topic, &piece, 9, lli_tx_busy(tx)));
    lli_pack_flush(&tx->pack);
    assert_int_equal(lli_tx_unsent(tx, now, &packet, 1), 1);
    if (!lost)
        rx_take(packet.data, packet.size);
    lli_tx_sent(tx, 1, now);
    lli_tx_reaped(tx, true);
}

static void begin(void)
{
    talk(now + 20 * US);
    send(&reliable, false);
    assert_int_equal(expected, 1);
}

/* Checks that this many messages were lost as unreliable, and all others delivered. */
static void expect_told(uint64_t messages, uint64_t lost)
{
    assert_int_equal(expected, messages);
    for (uint64_t i = first; i < messages; i++) {
        assert_true(told[i] == DELIVERED || told[i] == LLM_REASON_UNRELIABLE);
        lost -= told[i] != DELIVERED;
    }
    assert_int_equal(lost, 0);
    assert_int_equal(tx->counters.packets_repaired + tx->counters.packets_replayed,
                     r.counters.packets_recovered + r.counters.packets_replayed);
}

/* Carries packets until a heartbeat has confirmed a packet's claim. */
static void talk_until_confirmed(void)
{
    talk(now + 100 * US);
}

static void an_unreliable_loss_is_reported_without_a_nak(void **state)
{
    (void)state;
    begin();
    send(&unreliable, true);
    send(&unreliable, true);
    send(&reliable, false);
    /* The first packet after the loss reports it; a second one confirms that packet. */
    assert_int_equal(expected, 1);
    send(&reliable, false);
    expect_told(5, 2);
    assert_int_equal(told[3], DELIVERED);
    assert_int_equal(gaps, 1);
    talk(now + 5 * MS);
    assert_int_equal(r.counters.naks_sent, 0);
    assert_int_equal(r.counters.packets_unreliable, 2);
    assert_int_equal(r.counters.packets_lost, 2);
    /* An unreliable packet reports it as well. */
    send(&unreliable, true);
    send(&unreliable, false);
    assert_int_equal(expected, 5);
    /* A heartbeat may also confirm it. */
    talk_until_confirmed();
    expect_told(7, 3);
    assert_int_equal(told[6], DELIVERED);
    assert_int_equal(r.counters.naks_sent, 0);
}

/* One forged packet declares its predecessors unrepaired; they arrive nevertheless. */
static void an_unconfirmed_packet_gives_up_no_other_packet(void **state)
{
    uint8_t forged[LLI_WIRE_DATA_HEADER + 2] = {0};
    struct lli_wire_header header = {
        .type = LLI_WIRE_DATA, .tag = (uint32_t)SESSION, .flags = 60, .size = sizeof forged};

    (void)state;
    begin();
    header.seq = (uint32_t)tx->sent + 60;
    header.number = (uint32_t)expected + 60;
    lli_wire_put_header(forged, &header);
    forged[LLI_WIRE_DATA_HEADER] = 1;
    rx_take(forged, sizeof forged);
    talk(now + 1 * MS);
    assert_int_equal(expected, 1);
    for (int i = 0; i < 50; i++)
        send(&reliable, false);
    expect_told(51, 0);
    assert_int_equal(gaps, 0);
}

static void a_reliable_loss_beside_an_unreliable_loss_is_repaired(void **state)
{
    (void)state;
    begin();
    send(&reliable, true);
    send(&unreliable, true);
    send(&reliable, true);
    send(&unreliable, true);
    send(&unreliable, false);
    assert_int_equal(expected, 1);
    talk(now + 1 * MS);
    expect_told(6, 2);
    assert_int_equal(told[2], LLM_REASON_UNRELIABLE);
    assert_int_equal(told[4], LLM_REASON_UNRELIABLE);
    assert_int_equal(r.counters.packets_recovered, 2);
    /* Packets before the lost reliable packet are classified once that is repaired. */
    assert_int_equal(tx->counters.nak_packets, 3);
    assert_int_equal(tx->counters.nak_packets_unreliable, 1);
}

static void the_end_of_a_long_run_is_announced_and_its_start_rejected(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 80; i++)
        send(&unreliable, true);
    send(&reliable, false);
    assert_int_equal(expected, 1);
    talk(now + 1 * MS);
    expect_told(82, 80);
    assert_int_equal(tx->counters.nak_packets, 80 - LLI_WIRE_FLAGS_UNREPAIRED);
    assert_int_equal(tx->counters.nak_packets_unreliable, 80 - LLI_WIRE_FLAGS_UNREPAIRED);
    assert_int_equal(tx->counters.packets_repaired, 0);
}

/* No packet follows: a heartbeat reveals the loss, and the receiver sends a NAK. */
static void a_lost_last_packet_is_requested_and_rejected(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 50; i++) {
        send(&unreliable, true);
        talk(now + 20 * MS);
        expect_told(2 + (uint64_t)i, 1 + (uint64_t)i);
    }
    assert_int_equal(gaps, 50);
    assert_int_equal(tx->counters.naks_received, 50);
    assert_int_equal(tx->counters.nak_packets_unreliable, 50);
    assert_int_equal(tx->counters.packets_repaired, 0);
    /* No receiver is slow because of these NAKs. */
    assert_int_equal(tx->counters.receivers_warned, 0);
    assert_int_equal(tx->members.table[0].requested, 0);
    assert_int_equal(tx->members.table[0].standing, LLI_STANDING_FINE);
    send(&reliable, true);
    talk(now + 1500 * MS);
    assert_true(tx->counters.receivers_warned > 0);
}

static void only_requested_packets_can_be_rejected(void **state)
{
    struct lli_wire_reject reject = {
        .session = SESSION, .trail = START, .reason = LLI_WIRE_UNREPAIRED, .count = 2};

    (void)state;
    r.config.nak_delay = 1 * MS;
    begin();
    send(&reliable, true);
    send(&reliable, false);
    reject.ranges[0] = (struct lli_wire_range){(uint32_t)START, 1000};
    reject.ranges[1] = (struct lli_wire_range){(uint32_t)START + 1000, UINT32_MAX};
    rx_take(buffer, lli_wire_put_reject(buffer, &reject));
    assert_int_equal(expected, 1);
    talk(now + 5 * MS);
    expect_told(3, 0);
}

/* The delay is that of other losses. */
static void an_overtaken_packet_is_waited_for_during_nak_delay(void **state)
{
    const struct iovec piece = {(void *)(uintptr_t) "a message", 9};
    struct lli_packet packets[2];

    (void)state;
    r.config.nak_delay = 1 * MS;
    begin();
    for (int i = 0; i < 2; i++) {
        assert_true(
            lli_pack_message(&tx->pack, i == 0 ? &unreliable : &reliable, &piece, 9, lli_tx_busy(tx)));
        lli_pack_flush(&tx->pack);
    }
    assert_int_equal(lli_tx_unsent(tx, now, packets, 2), 2);
    rx_take(packets[1].data, packets[1].size);
    assert_int_equal(expected, 1);
    rx_take(packets[0].data, packets[0].size);
    expect_told(3, 0);
    lli_tx_sent(tx, 2, now);
    send(&unreliable, true);
    send(&reliable, false);
    assert_int_equal(expected, 3);
    assert_true(lli_rx_deadline(rx) <= now + 1 * MS);
    talk(now + 1 * MS + 40 * US);
    expect_told(5, 1);
    assert_int_equal(r.counters.naks_sent, 0);
}

static void a_loss_with_reliable_packets_has_their_reason(void **state)
{
    struct lli_packet packet;

    (void)state;
    r.config.nak_giveup = 3 * MS;
    begin();
    send(&reliable, true);
    send(&unreliable, true);
    send(&reliable, false);
    now += 5 * MS;
    for (int i = 0; i < 2; i++) {
        tx->heartbeat.at = now;
        while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
            rx_take(packet.data, packet.size);
    }
    /* Requested in the end, never answered. */
    for (lli_ns until = now + 10 * MS; now < until; now += 20 * US) {
        while (lli_rx_control(rx, now, buffer, &packet)) {
        }
        pull();
    }
    assert_int_equal(expected, 4);
    assert_int_equal(gaps, 1);
    assert_int_equal(told[1], LLM_REASON_TIMEOUT);
    assert_int_equal(told[2], LLM_REASON_TIMEOUT);
    assert_int_equal(rx->report.acknowledged_from, 3);
}

/* A run of acknowledged messages contains reliable messages only. */
static void an_unreliable_loss_revokes_no_acknowledgement(void **state)
{
    (void)state;
    begin();
    send(&unreliable, true);
    send(&reliable, false);
    talk_until_confirmed();
    expect_told(3, 1);
    assert_int_equal(rx->report.acknowledged_from, 0);
}

static void late_joiners_get_the_reliable_part_of_the_past(void **state)
{
    (void)state;
    lli_rx_stop(rx);
    receiver_free(&r);
    for (int i = 0; i < 40; i++) {
        send(i % 10 == 5 ? &reliable : &unreliable, true);
    }
    now += 2 * LLI_TX_YOUNG;
    tx->heartbeat.at = now;
    r.config.chooses = true;
    join = (struct llm_join){LLM_JOIN_OLDEST, 0};
    receiver_make(&r, 200, now);
    talk(now + 100 * MS);
    assert_true(live);
    expect_told(40, 36);
    assert_int_equal(tx->counters.packets_replayed, 4);
    /* The receiver does not wait for packets that never come. */
    assert_true(r.counters.fetches_sent <= 6);
    assert_int_equal(r.counters.packets_unreliable, 36);
    send(&unreliable, false);
    assert_int_equal(told[40], DELIVERED);
}

/* The lost packet precedes the first heartbeat. */
static void packets_buffered_before_the_session_is_known_reveal_losses(void **state)
{
    (void)state;
    send(&reliable, false);
    send(&unreliable, true);
    send(&reliable, false);
    assert_int_equal(rx->state, LLI_RX_JOINING);
    talk(now + 1 * MS);
    expect_told(3, 1);
    assert_int_equal(r.counters.naks_sent, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_unreliable_loss_is_reported_without_a_nak, up, down),
        cmocka_unit_test_setup_teardown(an_unconfirmed_packet_gives_up_no_other_packet, up, down),
        cmocka_unit_test_setup_teardown(a_reliable_loss_beside_an_unreliable_loss_is_repaired, up, down),
        cmocka_unit_test_setup_teardown(the_end_of_a_long_run_is_announced_and_its_start_rejected, up, down),
        cmocka_unit_test_setup_teardown(a_lost_last_packet_is_requested_and_rejected, up, down),
        cmocka_unit_test_setup_teardown(only_requested_packets_can_be_rejected, up, down),
        cmocka_unit_test_setup_teardown(an_overtaken_packet_is_waited_for_during_nak_delay, up, down),
        cmocka_unit_test_setup_teardown(a_loss_with_reliable_packets_has_their_reason, up, down),
        cmocka_unit_test_setup_teardown(an_unreliable_loss_revokes_no_acknowledgement, up, down),
        cmocka_unit_test_setup_teardown(late_joiners_get_the_reliable_part_of_the_past, up, down),
        cmocka_unit_test_setup_teardown(packets_buffered_before_the_session_is_known_reveal_losses, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
