/* SPDX-License-Identifier: Apache-2.0 */
/* Close retry: repetitions, answers, and knowledge of the delivery. */
#include "session.h"

#include "core/conn/close_retry.h"

static const struct lli_wire_address peer = {.size = 1, .bytes = {9}};
static const struct lli_wire_close left = {
    .id = 7, .reason = LLI_WIRE_LEFT, .next = START, .address = {.size = 1, .bytes = {4}}};
static const struct lli_wire_close heard = {.id = 7, .reason = LLI_WIRE_HEARD};

static struct lli_close_retries close_retries;
static struct transmitter t;

static int up(void **state)
{
    const struct lli_tx_config config = tx_config();

    (void)state;
    memset(&close_retries, 0, sizeof close_retries);
    transmitter_make(&t, &config, 100 * MS);
    return 0;
}

static int down(void **state)
{
    (void)state;
    free(t.memory);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ retries */

static void expect_words(lli_ns rtt)
{
    struct lli_close_retry *close_retry = lli_close_retries_place(&close_retries);
    lli_ns at = 1000 * MS;

    lli_close_retry_begin(close_retry, &left, &peer, rtt, at + 500 * MS, at);
    for (int word = 1; word < LLI_CLOSE_RETRY_WORDS; word++) {
        at += lli_max(2 * rtt, MS << (word - 1));
        assert_int_equal(close_retry->at, at);
        assert_true(close_retry->words > 0);
        lli_close_retry_said(close_retry, at);
    }
    assert_int_equal(close_retry->words, 0);
    lli_close_retries_free(&close_retries, close_retry);
}

static void close_is_repeated_at_doubling_intervals_then_given_up(void **state)
{
    (void)state;
    expect_words(0);
    expect_words(3 * MS);
    expect_words(100 * MS);
    assert_int_equal(close_retries.count, 0);
}

static void only_the_matching_answer_ends_the_retries(void **state)
{
    struct lli_close_retry *close_retry = lli_close_retries_place(&close_retries);

    (void)state;
    lli_close_retry_begin(close_retry, &left, &peer, 0, 0, 0);
    assert_false(lli_close_retries_heard(&close_retries, 8));
    assert_true(close_retry->words > 0);
    assert_true(lli_close_retries_heard(&close_retries, 7));
    assert_int_equal(close_retry->words, 0);
    assert_int_equal(close_retry->at, 0);
    assert_true(close_retry->answered);
}

static void an_answer_is_sent_once_and_not_answered(void **state)
{
    struct lli_close_retry *close_retry = lli_close_retries_place(&close_retries);

    (void)state;
    assert_true(lli_close_retry_wants_answer(&left));
    assert_false(lli_close_retry_wants_answer(&heard));
    lli_close_retry_once(close_retry, &heard, &peer, 5);
    assert_int_equal(close_retry->at, 5);
    assert_false(lli_close_retries_heard(&close_retries, 7));
    lli_close_retry_said(close_retry, 5);
    assert_int_equal(close_retry->words, 0);
}

static void retry_places_are_bounded_and_reused(void **state)
{
    struct lli_close_retry *last = NULL;

    (void)state;
    for (int i = 0; i < LLI_CLOSE_RETRIES; i++) {
        last = lli_close_retries_place(&close_retries);
        assert_non_null(last);
        lli_close_retry_begin(last, &left, &peer, 0, 0, 0);
    }
    assert_null(lli_close_retries_place(&close_retries));
    lli_close_retries_free(&close_retries, last);
    assert_ptr_equal(lli_close_retries_place(&close_retries), last);
}

/* ------------------------------------------------------------------------------ knowledge of the delivery */

static void report(lli_seq next, uint8_t flags)
{
    const struct lli_wire_status status = {.session = SESSION,
                                           .receiver = RECEIVER,
                                           .next = next,
                                           .highest = next,
                                           .flags = flags,
                                           .address = peer};
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    tx_take(&t.tx, packet, lli_wire_put_status(packet, &status), 100 * MS);
}

static void messages_taken_by_a_departed_receiver_are_delivered(void **state)
{
    (void)state;
    send_one(&t.tx, "abc", 100 * MS);
    send_one(&t.tx, "abc", 100 * MS);
    report(START, 0);
    assert_false(lli_close_retry_is_delivered(&t.tx, false));
    lli_close_retry_left(&t.tx, START + 1);
    assert_int_equal(t.tx.members.count, 0);
    assert_false(lli_close_retry_is_delivered(&t.tx, true));
    lli_close_retry_left(&t.tx, START + 2);
    assert_true(lli_close_retry_is_delivered(&t.tx, true));
    /* Report from before it left. */
    report(START + 1, 0);
    assert_int_equal(t.tx.members.count, 1);
    assert_true(lli_close_retry_is_delivered(&t.tx, true));
    assert_false(lli_close_retry_is_delivered(&t.tx, false));
    /* A message sent later is not delivered by that. */
    pack_one(&t.tx, "abc");
    assert_false(lli_close_retry_is_delivered(&t.tx, true));
}

static void a_receiver_with_the_end_has_all_messages(void **state)
{
    (void)state;
    send_one(&t.tx, "abc", 100 * MS);
    report(START + 1, LLI_WIRE_STATUS_DONE);
    assert_false(lli_close_retry_is_delivered(&t.tx, false));
    lli_tx_end(&t.tx, 100 * MS);
    report(START, 0);
    assert_false(lli_close_retry_is_delivered(&t.tx, false));
    report(START + 1, LLI_WIRE_STATUS_DONE);
    assert_true(lli_close_retry_is_delivered(&t.tx, false));
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(close_is_repeated_at_doubling_intervals_then_given_up),
        T(only_the_matching_answer_ends_the_retries),
        T(an_answer_is_sent_once_and_not_answered),
        T(retry_places_are_bounded_and_reused),
        T(messages_taken_by_a_departed_receiver_are_delivered),
        T(a_receiver_with_the_end_has_all_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
