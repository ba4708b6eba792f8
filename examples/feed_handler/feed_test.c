/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the feed programs' modules, without a network. */
#include "arbiter.h"
#include "book.h"
#include "quote.h"
#include "synth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SYMBOLS 12

static const struct market_limits limits = {
    .symbols_max = SYMBOLS, .orders_max = SYMBOLS * SYNTH_ORDERS_MAX, .levels_max = 64};

static const struct itch_message add_buy = {.type = ITCH_ADD,
                                            .locate = 1,
                                            .side = 'B',
                                            .shares = 300,
                                            .price = 1000000,
                                            .reference = 7,
                                            .symbol = "ABC"};
static const struct itch_message directory = {.type = ITCH_DIRECTORY, .locate = 1, .symbol = "ABC"};

/* --------------------------------------------------------------------------------------------------- itch */

static void messages_survive_encoding_and_other_lengths_are_refused(void **state)
{
    static const size_t lengths[] = {['R'] = 39, ['A'] = 36, ['E'] = 31, ['X'] = 23, ['D'] = 19, ['U'] = 35};
    struct synth synth;

    (void)state;
    assert_true(synth_init(&synth, 3, SYMBOLS));
    for (int i = 0; i < 5000; i++) {
        uint8_t bytes[ITCH_MESSAGE_BYTES_MAX + 1] = {0};
        uint8_t again[ITCH_MESSAGE_BYTES_MAX];
        struct itch_message message;
        struct itch_message decoded;
        size_t size;

        synth_next(&synth, &message);
        size = itch_encode(&message, bytes, sizeof bytes);
        assert_int_equal(size, lengths[message.type]);
        assert_int_equal(itch_decode(bytes, size, &decoded), ITCH_OK);
        assert_int_equal(decoded.timestamp_ns, message.timestamp_ns);
        assert_int_equal(decoded.reference, message.reference);
        assert_int_equal(itch_encode(&decoded, again, sizeof again), size);
        assert_memory_equal(again, bytes, size);
        assert_int_equal(itch_decode(bytes, size - 1, &decoded), ITCH_BAD);
        assert_int_equal(itch_decode(bytes, size + 1, &decoded), ITCH_BAD);
        assert_int_equal(itch_encode(&message, bytes, size - 1), 0);
    }
    synth_fini(&synth);
}

static void an_add_order_has_the_published_layout(void **state)
{
    static const uint8_t published[] = {'A', 0x12, 0x34, 0,   0,   0,    0x1F, 0x1A, 0xCE, 0xD8, 0x00, 0,
                                        0,   0,    0,    0,   0,   0x01, 0x02, 'S',  0,    0,    0x03, 0xE8,
                                        'Z', 'X',  'Y',  'Z', ' ', ' ',  ' ',  ' ',  0,    0x0F, 0x42, 0x40};
    struct itch_message message;

    (void)state;
    assert_int_equal(itch_decode(published, sizeof published, &message), ITCH_OK);
    assert_int_equal(message.locate, 0x1234);
    assert_int_equal(message.timestamp_ns, 0x1F1ACED800);
    assert_int_equal(message.reference, 0x102);
    assert_int_equal(message.side, 'S');
    assert_int_equal(message.shares, 1000);
    assert_int_equal(message.price, 1000000);
    assert_string_equal(message.symbol, "ZXYZ");
}

static void symbols_that_are_not_text_and_orders_without_shares_are_refused(void **state)
{
    uint8_t bytes[ITCH_MESSAGE_BYTES_MAX];
    struct itch_message message = add_buy;
    size_t size = itch_encode(&message, bytes, sizeof bytes);

    (void)state;
    bytes[24] = 27;
    assert_int_equal(itch_decode(bytes, size, &message), ITCH_BAD);
    bytes[24] = ' ';
    assert_int_equal(itch_decode(bytes, size, &message), ITCH_BAD);
    message.shares = 0;
    size = itch_encode(&message, bytes, sizeof bytes);
    assert_int_equal(itch_decode(bytes, size, &message), ITCH_BAD);
    bytes[0] = 'S';
    assert_int_equal(itch_decode(bytes, size, &message), ITCH_OTHER);
}

/* --------------------------------------------------------------------------------------------------- mold */

static size_t make_packet(uint8_t *data, size_t size, const char *session, uint64_t sequence, int count)
{
    struct mold_builder builder;

    mold_builder_start(&builder, data, size, session, sequence);
    for (int i = 0; i < count; i++)
        assert_true(mold_builder_add(&builder, "message", (size_t)i));
    return mold_builder_finish(&builder, false);
}

static void packets_give_back_their_messages(void **state)
{
    uint8_t data[128];
    size_t size = make_packet(data, sizeof data, "S", 41, 7);
    struct mold_packet packet;
    const uint8_t *message;
    size_t message_size;

    (void)state;
    assert_true(mold_packet_decode(&packet, data, size));
    assert_int_equal(packet.sequence, 41);
    assert_int_equal(packet.count, 7);
    assert_memory_equal(packet.session, "S         ", MOLD_SESSION_BYTES);
    for (size_t i = 0; i < 7; i++) {
        assert_true(mold_packet_next(&packet, &message, &message_size));
        assert_int_equal(message_size, i);
        assert_memory_equal(message, "message", i);
    }
    assert_false(mold_packet_next(&packet, &message, &message_size));
}

static void packets_that_are_cut_or_too_long_are_refused(void **state)
{
    uint8_t data[128] = {0};
    size_t size = make_packet(data, sizeof data, "S", 1, 7);
    struct mold_packet packet;

    (void)state;
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = malloc(cut + 1); /* exact size, so that the address sanitizer detects overruns */

        memcpy(copy, data, cut);
        assert_false(mold_packet_decode(&packet, copy, cut));
        free(copy);
    }
    assert_false(mold_packet_decode(&packet, data, size + 1));
    memset(data + MOLD_SESSION_BYTES, 0, 8);
    assert_false(mold_packet_decode(&packet, data, size));
    memset(data + MOLD_SESSION_BYTES, 0xFF, 8);
    assert_false(mold_packet_decode(&packet, data, size));
}

static struct mold_step take(struct mold_stream *stream, const char *session, uint64_t sequence, int count)
{
    uint8_t data[128];
    size_t size = make_packet(data, sizeof data, session, sequence, count);
    struct mold_packet packet;

    assert_true(mold_packet_decode(&packet, data, size));
    return mold_stream_take(stream, &packet);
}

static void gaps_repeats_and_new_sessions_are_noticed(void **state)
{
    struct mold_stream stream = {0};
    struct mold_step step;

    (void)state;
    assert_true(take(&stream, "A", 1, 3).session_new);
    step = take(&stream, "A", 4, 0);
    assert_false(step.session_new);
    assert_int_equal(step.lost_count, 0);
    step = take(&stream, "A", 6, 0);
    assert_int_equal(step.lost_first, 4);
    assert_int_equal(step.lost_count, 2);
    assert_int_equal(take(&stream, "A", 6, 4).lost_count, 0);
    step = take(&stream, "A", 8, 4);
    assert_int_equal(step.seen_count, 2);
    assert_int_equal(take(&stream, "A", 1, 4).seen_count, 4);
    assert_int_equal(stream.next, 12);
    step = take(&stream, "B", 3, 1);
    assert_true(step.session_new);
    assert_int_equal(step.lost_first, 1);
    assert_int_equal(step.lost_count, 2);
}

static void the_end_of_a_session_is_no_message(void **state)
{
    uint8_t data[MOLD_HEADER_BYTES];
    struct mold_builder builder;
    struct mold_packet packet;

    (void)state;
    mold_builder_start(&builder, data, sizeof data, "S", 9);
    assert_true(mold_packet_decode(&packet, data, mold_builder_finish(&builder, true)));
    assert_true(packet.end);
    assert_int_equal(packet.count, 0);
}

/* ------------------------------------------------------------------------------------------------- arbiter */

enum { LINE_A, LINE_B, WAIT = 1000 };

/* Record of two lines, in order: every message is taken, or lost, once. */
static struct {
    struct arbiter arbiter;
    uint64_t now;
    uint64_t next;
    uint64_t lost;
    int sessions;
    int ends;
} lines;

static int lines_up(void **state)
{
    (void)state;
    memset(&lines, 0, sizeof lines);
    return arbiter_init(&lines.arbiter, ARBITER_LINES, WAIT) ? 0 : -1;
}

static int lines_down(void **state)
{
    (void)state;
    arbiter_fini(&lines.arbiter);
    return 0;
}

static void lines_turn(struct arbiter_turn *turn)
{
    const uint8_t *message;
    size_t size;

    if (turn->step.session_new) {
        lines.next = 1;
        lines.sessions++;
    }
    if (turn->step.lost_count > 0)
        assert_int_equal(turn->step.lost_first, lines.next);
    lines.lost += turn->step.lost_count;
    lines.next += turn->step.lost_count;
    for (uint16_t i = 0; mold_packet_next(&turn->packet, &message, &size); i++) {
        assert_int_equal(size, 1);
        assert_int_equal(*message, (uint8_t)(turn->packet.sequence + i));
        if (i < turn->step.seen_count)
            continue;
        assert_int_equal(turn->packet.sequence + i, lines.next);
        lines.next++;
    }
    lines.ends += turn->packet.end;
}

static void lines_wait(uint64_t time)
{
    struct arbiter_turn turn;

    lines.now += time;
    while (arbiter_next(&lines.arbiter, lines.now, &turn))
        lines_turn(&turn);
}

static void line_sends(uint32_t line, const char *session, uint64_t sequence, uint16_t count)
{
    uint8_t data[256];
    struct mold_builder builder;
    struct arbiter_turn turn;

    mold_builder_start(&builder, data, sizeof data, session, sequence);
    for (uint16_t i = 0; i < count && count != MOLD_COUNT_END; i++) {
        uint8_t byte = (uint8_t)(sequence + i);

        assert_true(mold_builder_add(&builder, &byte, 1));
    }
    if (arbiter_take(&lines.arbiter, line, data, mold_builder_finish(&builder, count == MOLD_COUNT_END),
                     lines.now, &turn))
        lines_turn(&turn);
    lines_wait(0);
}

static void the_first_copy_is_taken_and_the_other_line_fills_gaps(void **state)
{
    (void)state;
    line_sends(LINE_A, "S", 1, 2);
    line_sends(LINE_B, "S", 1, 2);
    line_sends(LINE_A, "S", 5, 2);
    assert_int_equal(lines.next, 3);
    line_sends(LINE_B, "S", 3, 2);
    assert_int_equal(lines.next, 7);
    line_sends(LINE_B, "S", 5, 2);
    /* Of a packet that is known in part the rest is taken. */
    line_sends(LINE_B, "S", 6, 4);
    assert_int_equal(lines.next, 10);
    assert_int_equal(lines.lost, 0);
    assert_int_equal(lines.sessions, 1);
    assert_int_equal(lines.arbiter.filled, 1);
    assert_int_equal(lines.arbiter.line[LINE_A].first, 2);
    assert_int_equal(lines.arbiter.line[LINE_B].second, 2);
    assert_true(arbiter_deadline(&lines.arbiter) == ARBITER_NEVER);
}

static void what_both_lines_passed_is_lost_at_once(void **state)
{
    (void)state;
    line_sends(LINE_A, "S", 1, 1);
    line_sends(LINE_A, "S", 4, 1);
    assert_int_equal(lines.lost, 0);
    /* A heartbeat tells what comes next, too. */
    line_sends(LINE_B, "S", 5, 0);
    assert_int_equal(lines.lost, 2);
    assert_int_equal(lines.next, 5);
}

static void a_line_that_is_silent_is_waited_for_for_a_time(void **state)
{
    (void)state;
    line_sends(LINE_A, "S", 1, 1);
    line_sends(LINE_A, "S", 3, 1);
    line_sends(LINE_A, "S", 5, MOLD_COUNT_END);
    assert_int_equal(arbiter_deadline(&lines.arbiter), WAIT);
    lines_wait(WAIT - 1);
    assert_int_equal(lines.next, 2);
    assert_int_equal(lines.ends, 0);
    lines_wait(1);
    assert_int_equal(lines.next, 4);
    /* The next gap, before the end, is waited for in turn. */
    lines_wait(WAIT);
    assert_int_equal(lines.next, 5);
    assert_int_equal(lines.lost, 2);
    assert_int_equal(lines.ends, 1);
}

static void a_session_that_begins_ends_the_one_before(void **state)
{
    (void)state;
    line_sends(LINE_A, "S", 1, 2);
    line_sends(LINE_A, "S", 4, 1);
    line_sends(LINE_A, "T", 2, 1);
    assert_int_equal(lines.sessions, 1);
    assert_int_equal(lines.lost, 1);
    assert_int_equal(lines.next, 5);
    /* Late packets of the session before are of no use. */
    line_sends(LINE_B, "S", 3, 2);
    line_sends(LINE_B, "T", 1, 2);
    assert_int_equal(lines.sessions, 2);
    assert_int_equal(lines.next, 3);
    assert_int_equal(lines.lost, 1);
}

static void datagrams_that_are_damaged_or_too_many_do_no_harm(void **state)
{
    struct arbiter_turn turn;

    (void)state;
    assert_false(arbiter_take(&lines.arbiter, LINE_A, "x", 1, 0, &turn));
    assert_int_equal(lines.arbiter.bad, 1);
    line_sends(LINE_A, "S", 1, 1);
    for (uint64_t sequence = 3; sequence < 3 + 2 * ARBITER_HELD; sequence++)
        line_sends(LINE_A, "S", sequence, 1);
    assert_true(lines.next > ARBITER_HELD);
    assert_true(lines.lost >= 1);
}

/* Packets of both lines, each with loss of its own, at times of their own. */
static void random_lines_give_each_message_once(void **state)
{
    enum { MESSAGES = 3000 };
    struct synth random = {.random = 9};
    bool sent[ARBITER_LINES][MESSAGES + 1] = {{false}};
    uint64_t at[ARBITER_LINES] = {1, 1}, lost_at_both = 0;

    (void)state;
    while (at[LINE_A] <= MESSAGES || at[LINE_B] <= MESSAGES) {
        const uint32_t line = synth_random(&random, ARBITER_LINES);
        uint16_t count = (uint16_t)(1 + synth_random(&random, 4));

        if (at[line] + count > MESSAGES + 1)
            count = (uint16_t)(MESSAGES + 1 - at[line]);
        if (synth_random(&random, 10) != 0) {
            for (uint16_t i = 0; i < count; i++)
                sent[line][at[line] + i] = true;
            line_sends(line, "S", at[line], count);
        }
        at[line] += count;
        lines.now += synth_random(&random, 3);
    }
    line_sends(LINE_A, "S", MESSAGES + 1, MOLD_COUNT_END);
    line_sends(LINE_B, "S", MESSAGES + 1, MOLD_COUNT_END);
    lines_wait(WAIT);
    for (int i = 1; i <= MESSAGES; i++)
        lost_at_both += !sent[LINE_A][i] && !sent[LINE_B][i];
    assert_int_equal(lines.next, MESSAGES + 1);
    /* More, if a line was later than the time that it is waited for, or has fallen too far behind. */
    assert_true(lines.lost >= lost_at_both);
    assert_true(lines.arbiter.filled > 50);
    assert_int_equal(lines.ends, 2);
}

/* -------------------------------------------------------------------------------------------------- books */

static void orders_are_found_through_many_adds_and_deletes(void **state)
{
    enum { COUNT = 200 };
    struct order_table table;
    bool live[COUNT] = {false};
    struct synth random = {.random = 5};

    (void)state;
    assert_true(order_table_init(&table, COUNT));
    for (int i = 0; i < 100000; i++) {
        uint32_t reference = synth_random(&random, COUNT);
        struct order order = {.reference = reference, .shares = reference + 1};

        if (live[reference])
            order_del(&table, order_find(&table, reference));
        else
            assert_true(order_add(&table, &order));
        live[reference] = !live[reference];
        for (uint32_t k = 0; i % 100 == 0 && k < COUNT; k++)
            assert_int_equal(order_find(&table, k) != NULL, live[k]);
    }
    order_table_fini(&table);
}

static void assert_same_market(const struct market *market, const struct synth *synth)
{
    for (uint32_t i = 0; i < market->book_count; i++) {
        struct book_top top = book_top(&market->books[i]);
        struct quote expected = synth_top(&synth->symbols[i]);

        assert_int_equal(top.bid_size, expected.bid_size);
        assert_int_equal(top.ask_size, expected.ask_size);
        assert_int_equal(top.bid_price, expected.bid_price);
        assert_int_equal(top.ask_price, expected.ask_price);
        assert_true(top.bid_size == 0 || top.ask_size == 0 || top.bid_price < top.ask_price);
        assert_false(market->books[i].stale);
    }
}

static void books_agree_with_the_synthetic_market_after_every_message(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct market market;
        struct synth synth;

        assert_true(market_init(&market, &limits));
        assert_true(synth_init(&synth, seed, SYMBOLS));
        for (uint64_t i = 1; i < 20000; i++) {
            struct itch_message message;

            synth_next(&synth, &message);
            assert_int_equal(market_apply(&market, &message, i), MARKET_OK);
            assert_same_market(&market, &synth);
        }
        synth_fini(&synth);
        market_fini(&market);
    }
}

static void a_message_that_does_not_fit_leaves_its_book_stale_until_the_next_day(void **state)
{
    struct itch_message message = {.type = ITCH_DELETE, .locate = 1, .reference = 8};
    struct market market;

    (void)state;
    assert_true(market_init(&market, &limits));
    assert_int_equal(market_apply(&market, &add_buy, 1), MARKET_UNKNOWN);
    assert_int_equal(market_apply(&market, &directory, 2), MARKET_OK);
    assert_int_equal(market_apply(&market, &add_buy, 3), MARKET_OK);
    assert_false(market.books[0].stale);
    assert_int_equal(market_apply(&market, &add_buy, 4), MARKET_CONFLICT);
    assert_true(market.books[0].stale);
    assert_int_equal(market_apply(&market, &message, 5), MARKET_UNKNOWN);
    message = (struct itch_message){.type = ITCH_CANCEL, .locate = 1, .reference = 7, .shares = 301};
    assert_int_equal(market_apply(&market, &message, 6), MARKET_CONFLICT);
    message = (struct itch_message){.type = ITCH_DIRECTORY, .locate = 1, .symbol = "OTHER"};
    assert_int_equal(market_apply(&market, &message, 7), MARKET_CONFLICT);
    assert_int_equal(book_top(&market.books[0]).bid_size, 300);
    market_clear(&market);
    assert_false(market.books[0].stale);
    assert_int_equal(book_top(&market.books[0]).bid_size, 0);
    assert_int_equal(market_apply(&market, &add_buy, 1), MARKET_UNKNOWN);
    market_fini(&market);
}

static void limits_are_kept_and_told(void **state)
{
    static const struct market_limits small = {.symbols_max = 1, .orders_max = 2, .levels_max = 1};
    struct itch_message message = add_buy;
    struct market market;

    (void)state;
    assert_true(market_init(&market, &small));
    market_apply(&market, &directory, 1);
    assert_int_equal(market_apply(&market, &message, 2), MARKET_OK);
    message.reference = 8;
    message.price++;
    assert_int_equal(market_apply(&market, &message, 3), MARKET_FULL);
    message.price--;
    assert_int_equal(market_apply(&market, &message, 4), MARKET_OK);
    message.reference = 9;
    assert_int_equal(market_apply(&market, &message, 5), MARKET_FULL);
    assert_int_equal(book_top(&market.books[0]).bid_size, 600);
    message = (struct itch_message){.type = ITCH_DIRECTORY, .locate = 2, .symbol = "OTHER"};
    assert_int_equal(market_apply(&market, &message, 6), MARKET_FULL);
    assert_int_equal(market.book_count, 1);
    market_fini(&market);
}

static void changed_books_queue_once_each_in_order(void **state)
{
    struct market market;
    struct synth synth;
    struct itch_message message;

    (void)state;
    assert_true(market_init(&market, &limits));
    assert_true(synth_init(&synth, 1, SYMBOLS));
    for (int i = 0; i < 1000; i++) {
        synth_next(&synth, &message);
        market_apply(&market, &message, 1);
    }
    for (uint32_t i = 0; i < SYMBOLS; i++) {
        assert_ptr_equal(market_changed(&market), &market.books[i]);
        market_pop(&market);
    }
    assert_null(market_changed(&market));
    market_lost(&market);
    market_lost(&market);
    assert_int_equal(market.changed_count, SYMBOLS);
    assert_true(market.books[SYMBOLS - 1].stale);
    synth_fini(&synth);
    market_fini(&market);
}

/* Random damage to real datagrams: no out-of-bounds access may result. */
static void damaged_feeds_do_no_harm(void **state)
{
    struct market market;
    struct synth synth;
    struct synth random = {.random = 11};

    (void)state;
    assert_true(market_init(&market, &limits));
    assert_true(synth_init(&synth, 2, SYMBOLS));
    for (uint64_t i = 1; i < 200000; i++) {
        uint8_t bytes[ITCH_MESSAGE_BYTES_MAX];
        struct itch_message message;
        size_t size;

        synth_next(&synth, &message);
        size = itch_encode(&message, bytes, sizeof bytes);
        if (synth_random(&random, 3) == 0)
            bytes[synth_random(&random, (uint32_t)size)] ^= (uint8_t)(1 + synth_random(&random, 255));
        if (itch_decode(bytes, size, &message) == ITCH_OK)
            market_apply(&market, &message, i);
        if (synth_random(&random, 50000) == 0)
            market_clear(&market);
        if (market_changed(&market) != NULL)
            market_pop(&market);
    }
    synth_fini(&synth);
    market_fini(&market);
}

/* -------------------------------------------------------------------------------------------------- quote */

static void quotes_survive_encoding_and_unknown_ones_are_refused(void **state)
{
    static const struct quote quote = {.sequence = 1,
                                       .timestamp_ns = 2,
                                       .bid_size = 3,
                                       .ask_size = 4,
                                       .bid_price = 0x01020304,
                                       .ask_price = 6,
                                       .flags = QUOTE_STALE};
    uint8_t data[QUOTE_BYTES + 1] = {0};
    struct quote decoded = {0};

    (void)state;
    quote_encode(&quote, data);
    assert_int_equal(data[0], 1);
    assert_int_equal(data[40], 0x04);
    assert_true(quote_decode(&decoded, data, QUOTE_BYTES));
    assert_true(quote_same(&decoded, &quote));
    assert_int_equal(decoded.sequence, 1);
    assert_int_equal(decoded.timestamp_ns, 2);
    assert_true(quote_decode(&decoded, data, QUOTE_BYTES + 1));
    assert_false(quote_decode(&decoded, data, QUOTE_BYTES - 1));
    data[0] = 2;
    assert_false(quote_decode(&decoded, data, QUOTE_BYTES));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_survive_encoding_and_other_lengths_are_refused),
        cmocka_unit_test(an_add_order_has_the_published_layout),
        cmocka_unit_test(symbols_that_are_not_text_and_orders_without_shares_are_refused),
        cmocka_unit_test(packets_give_back_their_messages),
        cmocka_unit_test(packets_that_are_cut_or_too_long_are_refused),
        cmocka_unit_test(gaps_repeats_and_new_sessions_are_noticed),
        cmocka_unit_test(the_end_of_a_session_is_no_message),
        cmocka_unit_test_setup_teardown(the_first_copy_is_taken_and_the_other_line_fills_gaps, lines_up,
                                        lines_down),
        cmocka_unit_test_setup_teardown(what_both_lines_passed_is_lost_at_once, lines_up, lines_down),
        cmocka_unit_test_setup_teardown(a_line_that_is_silent_is_waited_for_for_a_time, lines_up, lines_down),
        cmocka_unit_test_setup_teardown(a_session_that_begins_ends_the_one_before, lines_up, lines_down),
        cmocka_unit_test_setup_teardown(datagrams_that_are_damaged_or_too_many_do_no_harm, lines_up,
                                        lines_down),
        cmocka_unit_test_setup_teardown(random_lines_give_each_message_once, lines_up, lines_down),
        cmocka_unit_test(orders_are_found_through_many_adds_and_deletes),
        cmocka_unit_test(books_agree_with_the_synthetic_market_after_every_message),
        cmocka_unit_test(a_message_that_does_not_fit_leaves_its_book_stale_until_the_next_day),
        cmocka_unit_test(limits_are_kept_and_told),
        cmocka_unit_test(changed_books_queue_once_each_in_order),
        cmocka_unit_test(damaged_feeds_do_no_harm),
        cmocka_unit_test(quotes_survive_encoding_and_unknown_ones_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
