/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of which only the pieces that are of use reach the session. */
#include "ends.h"

#include "core/pack/outline.h"
#include "core/select/filter.h"

enum { TOPICS = 8, SIZE_MAX_SENT = 600, MESSAGES_MAX = 4096 };

static uint8_t buffer[LLI_WIRE_CONTROL_MAX];
static lli_ns now;
static uint64_t luck;

/* Messages that are to be delivered, by number: their topic, and their first byte; topic 0xff: none. */
static struct {
    uint8_t topic[MESSAGES_MAX], text[MESSAGES_MAX];
    uint64_t sent, checked, delivered, refused;
} run;

static unsigned excerpts, lost, ended;
static uint64_t filter_at; /* the application sets a filter once so many messages are delivered; 0: never */

static void pull(void)
{
    static const struct lli_filter everything = {.plain = true, .all = true};
    struct lli_item item;

    while (lli_rx_next(rx, now, &item)) {
        if (filter_at != 0 && run.delivered + (uint64_t)item.count >= filter_at &&
            item.kind == LLI_ITEM_MESSAGES) {
            r.config.filter = &everything;
            lli_rx_filter(rx);
        }
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++) {
            const struct llm_message *message = &item.messages[i];
            const uint8_t *data = message->data;

            while (run.topic[run.checked] == UINT8_MAX)
                run.checked++;
            assert_int_equal(message->number, run.checked);
            assert_int_equal(message->topic_id, run.topic[run.checked]);
            for (uint32_t at = 0; at < message->size; at++)
                assert_int_equal(data[at], run.text[run.checked]);
            run.checked++;
            run.delivered++;
        }
        lost += item.kind == LLI_ITEM_EVENT && item.event.kind == LLM_EVENT_GAP;
        ended += item.kind == LLI_ITEM_EVENT && item.event.kind == LLM_EVENT_SESSION_END;
    }
}

static void take(const uint8_t *packet, size_t size)
{
    receiver_take(&r, packet, size, now, pull);
}

static int up(void **state)
{
    const struct lli_tx_config config = tx_config();
    struct lli_packet packet;

    (void)state;
    now = 100 * MS;
    luck = 1;
    memset(&run, 0, sizeof run);
    excerpts = lost = ended = 0;
    filter_at = 0;
    r = (struct receiver){.random = 1};
    r.config = rx_config();
    transmitter_make(&t, &config, now);
    receiver_make(&r, 32, now);
    tx->heartbeat.at = now;
    while (lli_tx_control(tx, now, buffer, sizeof buffer, &packet))
        take(packet.data, packet.size);
    assert_int_equal(rx->state, LLI_RX_LIVE);
    return 0;
}

static const uint8_t *packet_of(lli_seq seq, uint32_t *size)
{
    *size = lli_history_slot(&tx->history, seq)->size;
    return lli_history_packet(&tx->history, seq);
}

static void take_whole(lli_seq seq)
{
    uint32_t size;
    const uint8_t *packet = packet_of(seq, &size);

    take(packet, size);
}

/* Takes the pieces that the session chose of a packet, each once, in a block of exactly their size. */
static void take_pieces(const uint8_t *packet, uint32_t size, const struct lli_piece *pieces, uint32_t count)
{
    uint32_t bytes = 0;
    uint8_t *copy;

    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pieces[i].more, i + 1 < count);
        assert_true(pieces[i].at + pieces[i].size <= size);
        bytes += pieces[i].size;
    }
    copy = malloc(bytes);
    bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(copy + bytes, packet + pieces[i].at, pieces[i].size);
        bytes += pieces[i].size;
    }
    if (lli_rx_input_excerpt(rx, copy, size, 0, pieces, now))
        pull();
    free(copy);
    excerpts++;
}

/* Takes a packet in part, if the session wants that. */
static void take_part(lli_seq seq)
{
    struct lli_outline_run runs[LLI_OUTLINE_RUNS_MAX];
    struct lli_piece pieces[LLI_RX_PIECES_MAX];
    uint32_t size, count;
    const uint8_t *packet = packet_of(seq, &size);

    count = lli_outline_make(packet, size, runs, LLI_OUTLINE_RUNS_MAX);
    if (count > 0)
        count = lli_rx_excerpt(rx, packet, size, runs, count, pieces);
    if (count > 0)
        take_pieces(packet, size, pieces, count);
    else
        take_whole(seq);
}

static void pack(uint32_t id, uint32_t size)
{
    static uint8_t bytes[SIZE_MAX_SENT];
    const struct lli_pack_topic topic = {.id = id};
    const struct iovec piece = {bytes, size};
    const bool refused = lli_topics_is_refused(&rx->topics, id);

    memset(bytes, (uint8_t)run.sent, sizeof bytes);
    run.topic[run.sent] = refused ? UINT8_MAX : (uint8_t)id;
    run.text[run.sent++] = bytes[0];
    run.refused += refused;
    assert_true(lli_pack_message(&tx->pack, &topic, &piece, size, lli_tx_busy(tx)));
}

/* Seals the packets; returns the first one that was not sent yet. */
static lli_seq seal(void)
{
    const lli_seq first = tx->sent;

    lli_pack_flush(&tx->pack);
    lli_tx_sent(tx, (int)(tx->history.next - first), now);
    lli_tx_reaped(tx, true);
    return first;
}

static void expect_all(void)
{
    while (run.checked < run.sent && run.topic[run.checked] == UINT8_MAX)
        run.checked++;
    assert_int_equal(run.checked, run.sent);
    assert_int_equal(run.delivered, run.sent - run.refused);
    assert_int_equal(r.counters.messages_refused, run.refused);
    assert_int_equal(r.counters.data_malformed, 0);
    assert_int_equal(lost, 0);
}

/* Packs up to a few packets of random messages; many span packets. */
static void pack_some(void)
{
    for (uint64_t left = 1 + lli_random_below(&luck, 24); left > 0; left--) {
        const uint64_t most = lli_random_below(&luck, 20) == 0 ? SIZE_MAX_SENT : 50;

        pack((uint32_t)lli_random_below(&luck, TOPICS), (uint32_t)lli_random_below(&luck, most));
    }
}

static void exactly_the_wanted_messages_are_delivered(void **state)
{
    (void)state;
    for (uint32_t id = 1; id < 4; id++)
        assert_true(lli_pack_announce(&tx->pack, id, "name", 4, lli_tx_busy(tx)));
    for (uint32_t id = 2; id < TOPICS; id++)
        lli_rx_topic_refuse(rx, id);
    while (run.sent < MESSAGES_MAX - 30) {
        pack_some();
        for (lli_seq seq = seal(); seq < tx->history.next; seq++)
            take_part(seq);
    }
    expect_all();
    assert_true(excerpts > 200);
}

/* Packets after a gap, and the one that fills it, are taken whole, as they are buffered or followed by buffered ones. */
static void packets_out_of_order_are_taken_whole(void **state)
{
    (void)state;
    for (uint32_t id = 2; id < TOPICS; id++)
        lli_rx_topic_refuse(rx, id);
    while (run.sent < MESSAGES_MAX - 30) {
        lli_seq first;

        pack_some();
        first = seal();
        for (lli_seq seq = first + 1; seq < tx->history.next; seq++) {
            const unsigned before = excerpts;

            take_part(seq);
            assert_int_equal(excerpts, before);
            take_part(seq); /* twice */
            assert_int_equal(excerpts, before);
        }
        take_part(first);
    }
    expect_all();
    assert_true(excerpts > 10);
}

/* The end of the session was announced before its last packet came. */
static void the_session_ends_after_the_last_piece(void **state)
{
    struct lli_wire_heartbeat heartbeat;
    lli_seq seq;

    (void)state;
    lli_rx_topic_refuse(rx, 2);
    for (int i = 0; i < 3; i++) {
        pack(2, 30);
        pack(1, 15);
    }
    pack(2, 30);
    seq = seal();
    heartbeat = (struct lli_wire_heartbeat){.session = SESSION,
                                            .lead = seq + 1,
                                            .trail = START,
                                            .start = START,
                                            .messages = run.sent,
                                            .sent_at = now,
                                            .interval_us = 10000,
                                            .flags = LLI_WIRE_HEARTBEAT_END,
                                            .address = {1, {'t'}}};
    take(buffer, lli_wire_put_heartbeat(buffer, &heartbeat));
    assert_int_equal(ended, 0);
    take_part(seq);
    expect_all();
    assert_int_equal(ended, 1);
}

static void a_packet_of_which_most_is_wanted_is_taken_whole(void **state)
{
    (void)state;
    lli_rx_topic_refuse(rx, 2);
    for (int i = 0; i < 5; i++)
        pack(1, 30);
    pack(2, 10);
    take_part(seal());
    assert_int_equal(excerpts, 0);
    expect_all();
}

/* Topics refused from the first byte of the packet on to its last. */
static void a_packet_of_which_nothing_is_wanted_is_passed_over(void **state)
{
    (void)state;
    lli_rx_topic_refuse(rx, 2);
    lli_rx_topic_refuse(rx, 3);
    for (int i = 0; i < 3; i++) {
        pack(2, 20);
        pack(3, 20);
    }
    take_part(seal());
    assert_int_equal(excerpts, 1);
    pack(1, 20);
    take_part(seal());
    expect_all();
}

/* Seals a packet of a wanted message and a longer one of topic 2, which is refused. */
static lli_seq seal_two(void)
{
    lli_rx_topic_refuse(rx, 2);
    pack(1, 10);
    pack(2, 100);
    return seal();
}

/* A session that is stalled, or has other work pending, gets the whole packet. */
static void a_session_with_other_work_takes_whole_packets(void **state)
{
    lli_seq seq;

    (void)state;
    seq = seal_two();
    lli_rx_stall(rx, true);
    take_part(seq);
    assert_int_equal(excerpts, 0);
    lli_rx_stall(rx, false);
    pull();
    expect_all();
    take_part(seal_two());
    assert_int_equal(excerpts, 1);
    expect_all();
}

/* More messages than an item has, so that the filter is set before the packet is exhausted. */
static void a_filter_set_while_a_packet_is_delivered_applies_to_its_rest(void **state)
{
    (void)state;
    lli_rx_topic_refuse(rx, 2);
    filter_at = 1;
    for (int i = 0; i < LLI_ITEM_MESSAGES_MAX + 2; i++)
        pack(1, 0);
    pack(2, 50);
    for (int i = 0; i < 3; i++)
        pack(1, 0);
    pack(2, 40);
    take_part(seal());
    assert_int_equal(excerpts, 1);
    expect_all();
    pack(1, 1);
    take_part(seal());
    expect_all();
}

/* The bytes of a packet change between lli_rx_excerpt() and the copy. */
static void pieces_of_another_packet_are_refused(void **state)
{
    struct lli_outline_run runs[LLI_OUTLINE_RUNS_MAX];
    struct lli_piece pieces[LLI_RX_PIECES_MAX];
    uint8_t changed[PACKET_MAX];
    uint32_t size, count;
    lli_seq seq;

    (void)state;
    seq = seal_two();
    memcpy(changed, packet_of(seq, &size), PACKET_MAX);
    count = lli_outline_make(changed, size, runs, LLI_OUTLINE_RUNS_MAX);
    count = lli_rx_excerpt(rx, changed, size, runs, count, pieces);
    assert_true(count > 0);
    for (uint32_t at = 0; at < LLI_WIRE_DATA_HEADER; at++) {
        if (at >= 4 && at < 8)
            continue; /* the tag, by which the session was found */
        changed[at] ^= 0x81;
        take_pieces(changed, size, pieces, count);
        changed[at] ^= 0x81;
    }
    assert_int_equal(r.counters.data_malformed, excerpts);
    assert_int_equal(run.delivered, 0);
    take_whole(seq);
    assert_int_equal(run.delivered, 1);
}

/* Damages some bytes of an outline. */
static void damage(struct lli_outline_run *runs, uint32_t count)
{
    for (uint64_t left = 1 + lli_random_below(&luck, 3); left > 0; left--) {
        uint8_t *at = (uint8_t *)runs + lli_random_below(&luck, count * sizeof *runs);

        *at = lli_random_below(&luck, 2) == 0 ? UINT8_MAX : (uint8_t)lli_random(&luck);
    }
}

/* Reads all bytes that are delivered, so that a sanitizer sees if they are there. */
static void pull_bytes(void)
{
    static volatile uint8_t sum;
    struct lli_item item;

    while (lli_rx_next(rx, now, &item))
        for (int i = 0; item.kind == LLI_ITEM_MESSAGES && i < item.count; i++)
            for (uint32_t at = 0; at < item.messages[i].size; at++)
                sum = (uint8_t)(sum + ((const uint8_t *)item.messages[i].data)[at]);
}

/* Takes a packet with a damaged outline, in a block of exactly the bytes that were copied. */
static bool take_damaged(lli_seq seq)
{
    struct lli_outline_run runs[LLI_OUTLINE_RUNS_MAX];
    struct lli_piece pieces[LLI_RX_PIECES_MAX];
    uint32_t size, count, bytes = 0;
    const uint8_t *packet = packet_of(seq, &size);
    uint8_t copy[PACKET_MAX], *exact;

    count = lli_outline_make(packet, size, runs, LLI_OUTLINE_RUNS_MAX);
    if (count == 0)
        return false;
    damage(runs, count);
    count = lli_rx_excerpt(rx, packet, size, runs, count, pieces);
    if (count == 0)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(pieces[i].at + pieces[i].size <= size && bytes + pieces[i].size <= size);
        memcpy(copy + bytes, packet + pieces[i].at, pieces[i].size);
        bytes += pieces[i].size;
    }
    exact = exact_copy(copy, bytes);
    if (lli_rx_input_excerpt(rx, exact, size, 0, pieces, now))
        pull_bytes();
    free(exact);
    return true;
}

static void take_whole_bytes(lli_seq seq)
{
    uint32_t size;
    const uint8_t *packet = packet_of(seq, &size);

    receiver_take(&r, packet, size, now, pull_bytes);
}

/* Outlines come from another process: whatever they say, no more than messages are lost. */
static void damaged_outlines_lose_no_more_than_messages(void **state)
{
    uint64_t malformed = 0, damaged = 0;

    for (int round = 0; round < 1000; round++) {
        const uint64_t before = luck;
        bool done = false;

        down(state);
        up(state);
        luck = before;
        for (uint32_t id = 2; id < TOPICS; id++)
            lli_rx_topic_refuse(rx, id);
        while (!done) {
            for (uint64_t left = 1 + lli_random_below(&luck, 16); left > 0; left--)
                pack((uint32_t)lli_random_below(&luck, TOPICS), (uint32_t)lli_random_below(&luck, 50));
            for (lli_seq seq = seal(); seq < tx->history.next; seq++) {
                if (!done && take_damaged(seq))
                    done = true;
                else
                    take_whole_bytes(seq);
            }
        }
        for (int i = 0; i < 4; i++) {
            pack_some();
            for (lli_seq seq = seal(); seq < tx->history.next; seq++)
                take_whole_bytes(seq);
        }
        damaged++;
        malformed += r.counters.data_malformed;
        assert_int_equal(rx->gap.next, tx->history.next);
    }
    assert_true(damaged > 100 && malformed > damaged / 10);
}

int main(void)
{
#define T(function) cmocka_unit_test_setup_teardown(function, up, down)
    const struct CMUnitTest tests[] = {
        T(exactly_the_wanted_messages_are_delivered),
        T(packets_out_of_order_are_taken_whole),
        T(the_session_ends_after_the_last_piece),
        T(a_packet_of_which_most_is_wanted_is_taken_whole),
        T(a_packet_of_which_nothing_is_wanted_is_passed_over),
        T(a_session_with_other_work_takes_whole_packets),
        T(a_filter_set_while_a_packet_is_delivered_applies_to_its_rest),
        T(pieces_of_another_packet_are_refused),
        T(damaged_outlines_lose_no_more_than_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
