/* SPDX-License-Identifier: Apache-2.0 */
#include "store_world.h"

static void a_joiner_gets_the_whole_session_from_a_store(void **state)
{
    (void)state;
    world_begin(1);
    (void)world_add_store();
    world_before(1000);
    world_send(200, 3);
    world_catch_up(2000 * MS);
    assert_int_equal(w.first, 0);
    assert_int_equal(w.gaps, 0);
    world_run(50 * MS);
    assert_int_equal(w.lives, 1);
    assert_int_equal(w.r.counters.joins_from_stores, 1);
    assert_in_range(w.r.counters.packets_from_stores, 900, 1200);
    world_end();
}

/* Packets that only a store has are sealed no more. */
static enum lli_seal_state sealed_later(void *seals, uint64_t session, lli_seq seq)
{
    (void)seals;
    (void)session;
    return seq < START + 500 ? LLI_SEAL_REFUSED : LLI_SEAL_VERIFIED;
}

static void a_past_without_seals_is_lost_where_delivery_waits_for_them(void **state)
{
    (void)state;
    world_begin(17);
    w.r.config.seal_state = sealed_later;
    (void)world_add_store();
    world_before(1000);
    world_catch_up(3000 * MS);
    assert_int_equal(w.first, 0);
    assert_int_equal(w.gap_reason, LLM_REASON_UNSEALED);
    assert_in_range(w.lost, 490, 510);
    world_end();
}

static void without_a_store_a_join_begins_where_the_history_does(void **state)
{
    (void)state;
    world_begin(2);
    world_before(1000);
    world_run(50 * MS);
    assert_int_equal(w.news, 0);
    world_catch_up(300 * MS);
    assert_int_equal(w.gaps, 0);
    assert_in_range(w.first, 930, 960);
    assert_int_equal(w.r.counters.stores_sought, 5);
    world_end();
}

static void a_join_by_number_or_messages_back_begins_with_that_message(void **state)
{
    static const struct llm_join joins[] = {{LLM_JOIN_NUMBER, 123}, {LLM_JOIN_MESSAGES, 877}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        world_begin(3);
        w.join = joins[i];
        (void)world_add_store();
        world_before(1000);
        world_catch_up(2000 * MS);
        assert_int_equal(w.first, 123);
        assert_int_equal(w.gaps + w.refused, 0);
        world_end();
    }
}

static void a_store_that_dies_in_the_middle_is_replaced_by_another(void **state)
{
    (void)state;
    world_begin(4);
    world_add_store()->dies_after = 300;
    world_add_store()->dies_after = 300;
    (void)world_add_store();
    w.loss = 50;
    world_before(1000);
    world_catch_up(3000 * MS);
    assert_int_equal(w.first, 0);
    assert_int_equal(w.gaps, 0);
    assert_true(w.stores[2].sent > 0);
    world_end();
}

static void what_one_store_lacks_another_has(void **state)
{
    (void)state;
    world_begin(5);
    world_add_store()->loss = 100;
    world_add_store()->loss = 100;
    world_add_store()->loss = 100;
    world_before(300);
    world_catch_up(3000 * MS);
    /* Any packet that all three lost is reported, and nothing else. */
    for (lli_seq seq = START; seq < START + 200; seq++) {
        bool some = false;

        for (int i = 0; i < 3; i++)
            some |= w.stores[i].captured[seq - START].size > 0;
        if (!some && seq >= START + w.first)
            w.lost--;
    }
    assert_int_equal(w.lost, 0);
    assert_true(w.first <= 1);
    world_end();
}

/* The receiver hears nothing for longer than the history lasts. */
static void lose_many(uint32_t messages)
{
    world_before(1);
    world_catch_up(300 * MS);
    world_run(1500 * MS);
    w.deaf = true;
    world_send(messages, 1);
    w.deaf = false;
    world_send(5, 10);
}

static void a_gap_beyond_the_history_is_recalled(void **state)
{
    (void)state;
    world_begin(6);
    (void)world_add_store();
    w.loss = 20;
    lose_many(1500);
    world_catch_up(3000 * MS);
    assert_int_equal(w.gaps, 0);
    assert_true(w.r.counters.rejects_received > 0);
    assert_in_range(w.r.counters.packets_from_stores, 1300, 1600);
    assert_int_equal(w.lives, 1);
    world_end();
}

static void a_gap_is_lost_at_once_where_no_store_is_known(void **state)
{
    (void)state;
    world_begin(7);
    lose_many(1500);
    world_catch_up(20 * MS);
    assert_true(w.gaps > 0 && w.lost > 1000);
    assert_int_equal(w.r.counters.recalls_sent, 0);
    world_end();
}

static void a_store_that_is_dead_delays_a_loss_for_a_bounded_time(void **state)
{
    (void)state;
    world_begin(8);
    world_add_store()->dies_after = 1;
    lose_many(200);
    world_run(100 * MS);
    assert_int_equal(w.gaps, 0);
    world_catch_up(500 * MS);
    assert_true(w.gaps > 0);
    assert_int_equal(w.gap_reason, LLM_REASON_GONE);
    world_end();
}

static void a_store_that_lags_is_waited_for(void **state)
{
    (void)state;
    world_begin(9);
    world_add_store()->lag = 150 * MS;
    lose_many(200);
    world_catch_up(1000 * MS);
    assert_int_equal(w.gaps, 0);
    world_end();
}

static void the_tail_of_a_dead_transmitter_comes_from_a_store(void **state)
{
    (void)state;
    world_begin(10);
    (void)world_add_store();
    world_before(1);
    world_catch_up(300 * MS);
    world_run(1500 * MS);
    w.loss = 20;
    w.deaf = true;
    world_send(150, 1);
    w.dead = true;
    w.deaf = false;
    world_catch_up(1700 * MS);
    assert_int_equal(w.gaps, 0);
    assert_int_equal(w.ends, 0);
    world_run(2000 * MS);
    assert_int_equal(w.ends, 1);
    assert_int_equal(w.end_reason, LLM_REASON_TIMEOUT);
    assert_int_equal(w.gaps, 0);
    world_end();
}

static void a_dead_transmitter_and_a_dead_store_end_the_session(void **state)
{
    (void)state;
    world_begin(11);
    (void)world_add_store();
    world_before(1);
    world_catch_up(300 * MS);
    world_run(1500 * MS);
    w.deaf = true;
    world_send(50, 1);
    w.dead = true;
    world_run(1100 * MS);
    w.stores[0].alive = false;
    world_run(6000 * MS);
    assert_int_equal(w.ends, 1);
    world_end();
}

/* ----------------------------------------------------------------------------------------------- forgery */

static void forged(enum lli_wire_join_kind kind, uint64_t receiver, lli_seq packet, lli_seq lead,
                   uint8_t address)
{
    const struct lli_wire_join join = {.session = SESSION,
                                       .receiver = receiver,
                                       .kind = (uint8_t)kind,
                                       .value = UINT64_MAX,
                                       .packet = packet,
                                       .lead = lead,
                                       .address = {.size = 1, .bytes = {address}},
                                       .token = 9};
    uint8_t buffer[LLI_WIRE_CONTROL_MAX];
    const size_t size = lli_wire_put_join(buffer, &join);

    receiver_take(&w.r, buffer, size, w.now, world_pull);
}

static void forged_offers_lose_nothing(void **state)
{
    (void)state;
    world_begin(12);
    (void)world_add_store();
    world_before(1);
    world_catch_up(300 * MS);
    world_run(1500 * MS);
    w.deaf = true;
    world_send(300, 1);
    w.deaf = false;
    world_send(5, 10);
    for (int i = 0; i < 50; i++) {
        /* In the name of the store, and of others that do not exist. */
        forged(LLI_WIRE_JOIN_OFFER, 0, START + 3000, START + 3000, '0');
        forged(LLI_WIRE_JOIN_OFFER, 0, 0, INT64_MAX, (uint8_t)('a' + i % 8));
        forged(LLI_WIRE_JOIN_OFFER, RECEIVER, 0, INT64_MAX, (uint8_t)('a' + i % 8));
        forged(LLI_WIRE_JOIN_ABSENT, RECEIVER, START + 3000, START + 3000, '0');
        world_run(MS);
    }
    world_catch_up(2000 * MS);
    assert_int_equal(w.gaps, 0);
    world_end();
}

static void addresses_that_do_not_answer_get_few_packets(void **state)
{
    (void)state;
    world_begin(13);
    world_before(1);
    world_catch_up(300 * MS);
    world_run(1500 * MS);
    w.deaf = true;
    world_send(300, 1);
    w.deaf = false;
    for (int i = 0; i < 3; i++)
        forged(LLI_WIRE_JOIN_OFFER, 0, START, START + 3000, (uint8_t)('a' + i));
    world_send(5, 10);
    world_catch_up(1000 * MS);
    /* Four at once, then at doubling distances from 5 ms on, for 400 ms. */
    assert_in_range(w.r.counters.recalls_sent, 4, 12);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_joiner_gets_the_whole_session_from_a_store),
        cmocka_unit_test(a_past_without_seals_is_lost_where_delivery_waits_for_them),
        cmocka_unit_test(without_a_store_a_join_begins_where_the_history_does),
        cmocka_unit_test(a_join_by_number_or_messages_back_begins_with_that_message),
        cmocka_unit_test(a_store_that_dies_in_the_middle_is_replaced_by_another),
        cmocka_unit_test(what_one_store_lacks_another_has),
        cmocka_unit_test(a_gap_beyond_the_history_is_recalled),
        cmocka_unit_test(a_gap_is_lost_at_once_where_no_store_is_known),
        cmocka_unit_test(a_store_that_is_dead_delays_a_loss_for_a_bounded_time),
        cmocka_unit_test(a_store_that_lags_is_waited_for),
        cmocka_unit_test(the_tail_of_a_dead_transmitter_comes_from_a_store),
        cmocka_unit_test(a_dead_transmitter_and_a_dead_store_end_the_session),
        cmocka_unit_test(forged_offers_lose_nothing),
        cmocka_unit_test(addresses_that_do_not_answer_get_few_packets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
