/* SPDX-License-Identifier: Apache-2.0 */
/* Packets for whoever records a session: each in order before its messages, byte for byte. */
#include "ends.h"

#include "core/rx/former.h"

static uint8_t buffer[1024];
static lli_ns now;
static lli_seq expected;            /* packet */
static uint64_t number;             /* next message */
static struct lli_rx_recorded loss; /* the first one */
static int packets, lives;
static bool unrepaired; /* no repair arrives */
static const struct lli_former_session *former;

static void take_recorded(const struct lli_rx_recorded *packet)
{
    const bool is_sent = packet->seq >= tx->history.trail;
    const uint8_t *sent = is_sent ? lli_history_packet(&tx->history, packet->seq) : packet->bytes;

    if (packet->first < packet->seq && loss.seq == 0)
        loss = *packet;
    assert_int_equal(packet->first, expected);
    assert_int_equal(packet->message, number);
    assert_int_equal(packet->size, lli_load_u16(sent + LLI_WIRE_SIZE_AT));
    assert_memory_equal(packet->bytes, sent, packet->size);
    expected = packet->seq + 1;
    packets++;
}

/* A loss behind the last packet is told by its event alone. */
static void take_gap(const struct llm_event *event)
{
    if (rx->gap.next > expected) {
        if (loss.seq == 0)
            loss = (struct lli_rx_recorded){.first = expected,
                                            .seq = rx->gap.next,
                                            .message = event->first,
                                            .message_next = event->last + 1,
                                            .reason = event->reason};
        expected = rx->gap.next;
    }
    number = event->last + 1;
}

static void pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        if (item.kind == LLI_ITEM_PACKET) {
            take_recorded(&item.packet);
        } else if (item.kind == LLI_ITEM_JOIN) {
            if (former == NULL || !lli_rx_continue(rx, former, now))
                lli_rx_begin(rx, &(struct llm_join){LLM_JOIN_OLDEST, 0}, now);
        } else if (item.kind == LLI_ITEM_MESSAGES) {
            for (int i = 0; i < item.count; i++)
                assert_int_equal(item.messages[i].number, number++);
            /* The packet that they came in was returned before. */
            assert_int_equal(lli_rx_delivered(rx), number);
        } else if (item.event.kind == LLM_EVENT_GAP) {
            take_gap(&item.event);
        } else if (item.event.kind == LLM_EVENT_SESSION_NEW) {
            number = item.event.first;
        } else if (item.event.kind == LLM_EVENT_LIVE) {
            lives++;
        }
    }
}

static int up(void **state)
{
    const struct lli_tx_config config = tx_config();

    (void)state;
    now = 5000 * MS;
    packets = lives = 0;
    unrepaired = false;
    number = 0;
    former = NULL;
    expected = START;
    loss = (struct lli_rx_recorded){.bytes = NULL};
    r = (struct receiver){.random = 1};
    r.config = rx_config();
    r.config.records = true;
    r.config.chooses = true;
    transmitter_make(&t, &config, now);
    receiver_make(&r, 32, now);
    return 0;
}

static void rx_take(const uint8_t *packet, size_t size)
{
    if (!unrepaired || (packet[0] & 15) != LLI_WIRE_DATA)
        receiver_take(&r, packet, size, now, pull);
}

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

static void send(int count, bool heard)
{
    struct lli_packet packet;

    for (int i = 0; i < count; i++) {
        pack_one(tx, "a message");
        if (lli_tx_unsent(tx, now, &packet, 1) == 1 && heard)
            rx_take(packet.data, packet.size);
        lli_tx_sent(tx, 1, now);
        lli_tx_reaped(tx, true);
    }
}

static void each_packet_is_returned_before_its_messages(void **state)
{
    (void)state;
    talk(now + MS);
    send(20, true);
    assert_int_equal(packets, 20);
    assert_int_equal(number, 20);
}

static void buffered_and_repaired_packets_are_returned_in_order(void **state)
{
    (void)state;
    talk(now + MS);
    send(3, true);
    send(2, false);
    send(3, true);
    assert_int_equal(packets, 3);
    talk(now + 10 * MS);
    assert_int_equal(packets, 8);
    assert_int_equal(number, 8);
    assert_null(loss.bytes);
}

static void expect_loss(void)
{
    talk(now + 50 * MS);
    assert_int_equal(loss.first, START + 3);
    assert_int_equal(loss.message, 3);
    assert_int_equal(loss.message_next, loss.seq - START);
    assert_int_not_equal(loss.reason, LLM_REASON_NONE);
    assert_int_equal(expected, tx->history.next);
    assert_int_equal(number, tx->pack.number);
}

/* More than the history has is not heard: the transmitter answers that it is gone. */
static void a_loss_is_told_with_the_packet_behind_it(void **state)
{
    (void)state;
    talk(now + MS);
    send(3, true);
    send(30, false);
    send(3, true);
    send(HISTORY, false);
    expect_loss();
    assert_non_null(loss.bytes);
}

/* The transmitter dies before it has repaired the last packets. */
static void a_loss_at_the_end_is_told_by_its_event(void **state)
{
    struct lli_packet packet;

    (void)state;
    talk(now + MS);
    send(3, true);
    send(10, false);
    unrepaired = true;
    talk(now + 50 * MS);
    for (const lli_ns end = now + 2000 * MS; now < end; now += MS) {
        while (lli_rx_control(rx, now, buffer, &packet))
            continue;
        pull();
    }
    assert_int_equal(rx->state, LLI_RX_ENDED);
    assert_null(loss.bytes);
    assert_int_equal(loss.first, START + 3);
    assert_int_equal(loss.seq, START + 13);
    assert_int_equal(loss.message, 3);
    assert_int_equal(loss.message_next, 13);
    assert_int_equal(loss.reason, LLM_REASON_TIMEOUT);
}

static void a_stalled_session_buffers_packets_and_goes_on_with_them(void **state)
{
    (void)state;
    talk(now + MS);
    send(3, true);
    lli_rx_stall(rx, true);
    send(5, true);
    talk(now + 10 * MS);
    assert_int_equal(packets, 3);
    assert_int_equal(number, 3);
    lli_rx_stall(rx, false);
    pull();
    assert_int_equal(packets, 8);
    assert_int_equal(number, 8);
    assert_int_equal(tx->counters.packets_repaired, 0);
    send(1, true);
    assert_int_equal(packets, 9);
}

/* Packets that find no room in the reorder buffer meanwhile are repaired. */
static void a_stalled_session_without_room_loses_nothing(void **state)
{
    (void)state;
    talk(now + MS);
    lli_rx_stall(rx, true);
    send(50, true);
    talk(now + 10 * MS);
    assert_int_equal(packets, 0);
    lli_rx_stall(rx, false);
    talk(now + 100 * MS);
    assert_int_equal(packets, 50);
    assert_null(loss.bytes);
}

static void a_session_goes_on_where_an_earlier_run_ended(void **state)
{
    const struct lli_former_session position = {.session = SESSION,
                                                .next = START + 7,
                                                .number = 7,
                                                .acknowledged_from = 2,
                                                .acknowledged = 7,
                                                .reason = LLM_REASON_TIMEOUT};

    (void)state;
    now += 2 * LLI_TX_YOUNG;
    send(20, false);
    former = &position;
    expected = START + 7;
    talk(now + 50 * MS);
    assert_int_equal(packets, 13);
    assert_int_equal(number, 20);
    assert_int_equal(lives, 1);
    assert_int_equal(rx->report.acknowledged_from, 2);
    send(1, true);
    assert_int_equal(packets, 14);
    assert_int_equal(tx->counters.packets_repaired, 0);
}

static void a_position_that_was_not_sent_is_refused(void **state)
{
    const struct lli_former_session position = {.session = SESSION, .next = START + 5000, .number = 5000};

    (void)state;
    now += 2 * LLI_TX_YOUNG;
    send(20, false);
    former = &position;
    talk(now + 50 * MS);
    assert_int_equal(packets, 20);
    assert_int_equal(number, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)
        TEST(each_packet_is_returned_before_its_messages),
        TEST(buffered_and_repaired_packets_are_returned_in_order),
        TEST(a_loss_is_told_with_the_packet_behind_it),
        TEST(a_loss_at_the_end_is_told_by_its_event),
        TEST(a_stalled_session_buffers_packets_and_goes_on_with_them),
        TEST(a_stalled_session_without_room_loses_nothing),
        TEST(a_session_goes_on_where_an_earlier_run_ended),
        TEST(a_position_that_was_not_sent_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
