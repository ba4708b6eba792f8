/* SPDX-License-Identifier: Apache-2.0 */
/* How the last word of a connection is repeated and answered, and what is known by it. */
#include "session.h"

#include "core/conn/close_retry.h"

static const struct lli_wire_address peer = {.size = 1, .bytes = {9}};
static const struct lli_wire_close left = {
    .id = 7, .reason = LLI_WIRE_LEFT, .next = START, .address = {.size = 1, .bytes = {4}}};
static const struct lli_wire_close heard = {.id = 7, .reason = LLI_WIRE_HEARD};

static struct lli_farewells farewells;
static struct transmitter t;

static int up(void **state)
{
    const struct lli_tx_config config = tx_config();

    (void)state;
    memset(&farewells, 0, sizeof farewells);
    transmitter_make(&t, &config, 100 * MS);
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(t.memory);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ saying it */

static void expect_words(lli_ns rtt)
{
    struct lli_farewell *farewell = lli_farewells_place(&farewells);
    lli_ns at = 1000 * MS;

    lli_farewell_begin(farewell, &left, &peer, rtt, at + 500 * MS, at);
    for (int word = 1; word < LLI_FAREWELL_WORDS; word++) {
        at += lli_max(2 * rtt, MS << (word - 1));
        assert_int_equal(farewell->at, at);
        assert_true(farewell->words > 0);
        lli_farewell_said(farewell, at);
    }
    assert_int_equal(farewell->words, 0);
    lli_farewells_free(&farewells, farewell);
}

static void it_is_said_so_often_at_distances_that_double(void **state)
{
    (void)state;
    expect_words(0);
    expect_words(3 * MS);
    expect_words(100 * MS);
    assert_int_equal(farewells.count, 0);
}

static void an_answer_ends_it_and_one_to_another_does_not(void **state)
{
    struct lli_farewell *farewell = lli_farewells_place(&farewells);

    (void)state;
    lli_farewell_begin(farewell, &left, &peer, 0, 0, 0);
    assert_false(lli_farewells_heard(&farewells, 8));
    assert_true(farewell->words > 0);
    assert_true(lli_farewells_heard(&farewells, 7));
    assert_int_equal(farewell->words, 0);
    assert_int_equal(farewell->at, 0);
    assert_true(farewell->answered);
}

static void an_answer_is_said_once_and_not_answered(void **state)
{
    struct lli_farewell *farewell = lli_farewells_place(&farewells);

    (void)state;
    assert_true(lli_farewell_wants_answer(&left));
    assert_false(lli_farewell_wants_answer(&heard));
    lli_farewell_once(farewell, &heard, &peer, 5);
    assert_int_equal(farewell->at, 5);
    assert_false(lli_farewells_heard(&farewells, 7));
    lli_farewell_said(farewell, 5);
    assert_int_equal(farewell->words, 0);
}

static void places_are_bounded_and_given_back(void **state)
{
    struct lli_farewell *last = NULL;

    (void)state;
    for (int i = 0; i < LLI_FAREWELLS; i++) {
        last = lli_farewells_place(&farewells);
        assert_non_null(last);
        lli_farewell_begin(last, &left, &peer, 0, 0, 0);
    }
    assert_null(lli_farewells_place(&farewells));
    lli_farewells_free(&farewells, last);
    assert_ptr_equal(lli_farewells_place(&farewells), last);
}

/* ---------------------------------------------------------------------------------------- what is known by it */

static void report(lli_seq next, uint8_t flags)
{
    const struct lli_wire_status status = {
        .session = SESSION, .receiver = RECEIVER, .next = next, .highest = next, .flags = flags, .address = peer};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    tx_take(&t.tx, packet, lli_wire_put_status(packet, &status), 100 * MS);
}

static void what_was_taken_by_who_left_is_delivered(void **state)
{
    (void)state;
    send_one(&t.tx, "abc", 100 * MS);
    send_one(&t.tx, "abc", 100 * MS);
    report(START, 0);
    assert_false(lli_farewell_is_delivered(&t.tx, false));
    lli_farewell_left(&t.tx, START + 1);
    assert_int_equal(t.tx.members.count, 0);
    assert_false(lli_farewell_is_delivered(&t.tx, true));
    lli_farewell_left(&t.tx, START + 2);
    assert_true(lli_farewell_is_delivered(&t.tx, true));
    /* Which was sent before it left. */
    report(START + 1, 0);
    assert_int_equal(t.tx.members.count, 1);
    assert_true(lli_farewell_is_delivered(&t.tx, true));
    assert_false(lli_farewell_is_delivered(&t.tx, false));
    /* What was not sent before is not delivered by that. */
    pack_one(&t.tx, "abc");
    assert_false(lli_farewell_is_delivered(&t.tx, true));
}

static void who_has_the_end_has_all(void **state)
{
    (void)state;
    send_one(&t.tx, "abc", 100 * MS);
    report(START + 1, LLI_WIRE_STATUS_DONE);
    assert_false(lli_farewell_is_delivered(&t.tx, false));
    lli_tx_end(&t.tx, 100 * MS);
    report(START, 0);
    assert_false(lli_farewell_is_delivered(&t.tx, false));
    report(START + 1, LLI_WIRE_STATUS_DONE);
    assert_true(lli_farewell_is_delivered(&t.tx, false));
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(it_is_said_so_often_at_distances_that_double),
        T(an_answer_ends_it_and_one_to_another_does_not),
        T(an_answer_is_said_once_and_not_answered),
        T(places_are_bounded_and_given_back),
        T(what_was_taken_by_who_left_is_delivered),
        T(who_has_the_end_has_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
