/* SPDX-License-Identifier: Apache-2.0 */
/* Connection setup, packet by packet. */
#include "unit.h"

#include "core/conn/handshake.h"

#define MS ((lli_ns)1000000)

enum { MAX = 4 };

static const struct lli_wire_connect asks = {.id = 77,
                                             .session = 5,
                                             .message_bytes_max = 1000,
                                             .payload_size = 3,
                                             .payload = "key",
                                             .address = {.size = 1, .bytes = {9}}};

static uint8_t buffer[LLI_WIRE_CONTROL_MAX];
static struct lli_applicant applicants[2 * MAX];
static uint64_t ids[2 * MAX];
static struct lli_acceptor acceptor;

static int acceptor_up(void **state)
{
    (void)state;
    memset(applicants, 0, sizeof applicants);
    memset(ids, 0, sizeof ids);
    lli_acceptor_init(&acceptor, applicants, ids, MAX, 100 * MS);
    return 0;
}

/* ------------------------------------------------------------------------------------------- connecting */

static void connect_is_repeated_at_doubling_intervals_then_given_up(void **state)
{
    const lli_ns expected[] = {0, 10, 30, 70, 150, 310, 630, 1270, 2270};
    struct lli_connector connector;

    (void)state;
    lli_connector_init(&connector, &asks, 3000 * MS, 5);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(lli_connector_deadline(&connector), 5 + expected[i] * MS);
        assert_true(i == 0 ||
                    lli_connector_control(&connector, lli_connector_deadline(&connector) - 1, buffer) == 0);
        assert_true(lli_connector_control(&connector, lli_connector_deadline(&connector), buffer) > 0);
    }
    assert_int_equal(lli_connector_deadline(&connector), 5 + 3000 * MS);
    assert_int_equal(lli_connector_control(&connector, 5 + 3000 * MS, buffer), 0);
    assert_int_equal(connector.state, LLI_CONNECTOR_UNANSWERED);
    assert_int_equal(lli_connector_deadline(&connector), LLI_NEVER);
}

static void the_first_answer_counts(void **state)
{
    const struct lli_wire_accept first = {.id = 77, .session = 1}, second = {.id = 77, .session = 2};
    const struct lli_wire_refuse refuse = {.id = 77, .reason = LLI_WIRE_REFUSED, .code = 3};
    struct lli_connector connector;

    (void)state;
    lli_connector_init(&connector, &asks, 1000 * MS, 0);
    assert_true(lli_connector_input_accept(&connector, &first));
    assert_false(lli_connector_input_accept(&connector, &second));
    assert_true(lli_connector_input_accept(&connector, &first));
    lli_connector_input_refuse(&connector, &refuse);
    assert_int_equal(connector.state, LLI_CONNECTOR_ACCEPTED);
    assert_int_equal(lli_connector_control(&connector, 0, buffer), 0);
    lli_connector_init(&connector, &asks, 1000 * MS, 0);
    lli_connector_input_refuse(&connector, &refuse);
    assert_false(lli_connector_input_accept(&connector, &first));
    assert_int_equal(connector.state, LLI_CONNECTOR_REFUSED);
    assert_int_equal(connector.refuse.code, 3);
}

/* -------------------------------------------------------------------------------------------- listening */

static struct lli_wire_connect connect_of(uint64_t id)
{
    struct lli_wire_connect connect = asks;

    connect.id = id;
    return connect;
}

static void comes(uint64_t id, lli_ns now)
{
    const struct lli_wire_connect connect = connect_of(id);

    lli_acceptor_input(&acceptor, &connect, now);
}

/* Returns the next caller reported to the application, or NULL. */
static struct lli_applicant *shown(lli_ns now)
{
    uint32_t place = 0;
    struct lli_applicant *applicant = lli_acceptor_next(&acceptor, &place);

    if (applicant != NULL)
        lli_acceptor_show(applicant, now);
    return applicant;
}

/* Returns the type of the next answer, and its identity; 0: there is none. */
static uint8_t answer(uint64_t *id)
{
    uint32_t place = 0;
    const struct lli_wire_address *to = lli_acceptor_answer_due(&acceptor, &place);

    if (to == NULL)
        return 0;
    assert_int_equal(to->bytes[0], 9);
    assert_true(lli_acceptor_needs(&acceptor, to));
    assert_true(lli_acceptor_answer(&acceptor, place, buffer) > 0);
    lli_acceptor_answered(&acceptor, place);
    memcpy(id, buffer + LLI_WIRE_HEADER, sizeof *id);
    return buffer[0] & 15;
}

/* Expires all due waits; returns their number, and the time of the next. */
static uint32_t expired(lli_ns now, lli_ns *at)
{
    struct lli_wire_address address;
    uint32_t count = 0;

    *at = LLI_NEVER;
    for (uint32_t place = 0; lli_acceptor_expire(&acceptor, now, &place, &address, at); place++) {
        assert_int_equal(address.bytes[0], 9);
        count++;
    }
    return count;
}

static struct lli_applicant *taken(uint64_t id, lli_ns now)
{
    const struct lli_wire_accept accept = {.session = id + 1000};
    struct lli_applicant *applicant;

    comes(id, now);
    applicant = shown(now);
    assert_non_null(applicant);
    lli_acceptor_accept(&acceptor, applicant, &accept, now);
    return applicant;
}

static void a_repeated_connect_is_answered_again_and_not_counted_twice(void **state)
{
    uint64_t id = 0;

    (void)state;
    (void)taken(7, 0);
    assert_int_equal(answer(&id), LLI_WIRE_ACCEPT);
    assert_int_equal(id, 7);
    assert_int_equal(answer(&id), 0);
    comes(7, MS);
    comes(7, MS);
    assert_null(shown(MS));
    assert_int_equal(answer(&id), LLI_WIRE_ACCEPT);
    assert_int_equal(answer(&id), 0);
    assert_int_equal(acceptor.counters.requests_repeated, 2);
    assert_int_equal(acceptor.count, 1);
}

static void a_waiting_caller_gets_no_answer_before_the_application_answers(void **state)
{
    struct lli_applicant *applicant;
    uint64_t id = 0;

    (void)state;
    comes(7, 0);
    applicant = shown(0);
    assert_null(shown(0));
    comes(7, MS);
    assert_int_equal(answer(&id), 0);
    assert_ptr_equal(lli_acceptor_find(&acceptor, 7), applicant);
    lli_acceptor_refuse(&acceptor, applicant, LLI_WIRE_REFUSED, 403, MS);
    assert_int_equal(answer(&id), LLI_WIRE_REFUSE);
    assert_int_equal(buffer[LLI_WIRE_HEADER + 8] | buffer[LLI_WIRE_HEADER + 9] << 8, 403);
    assert_null(lli_acceptor_find(&acceptor, 7));
    /* Its answer was lost. */
    comes(7, 2 * MS);
    assert_int_equal(answer(&id), LLI_WIRE_REFUSE);
    assert_null(shown(2 * MS));
}

static void callers_beyond_the_limit_are_refused(void **state)
{
    uint64_t id = 0;

    (void)state;
    for (uint64_t i = 1; i <= MAX; i++)
        (void)taken(i, 0);
    while (answer(&id) != 0)
        ;
    for (uint64_t i = 0; i < LLI_ACCEPTOR_TURNED_AWAY + 3; i++)
        comes(100 + i, 0);
    assert_int_equal(acceptor.counters.requests_full, LLI_ACCEPTOR_TURNED_AWAY + 3);
    assert_int_equal(acceptor.counters.refusals_dropped, 3);
    for (uint64_t i = 0; i < LLI_ACCEPTOR_TURNED_AWAY; i++) {
        assert_int_equal(answer(&id), LLI_WIRE_REFUSE);
        assert_int_equal(id, 100 + i);
        assert_int_equal(buffer[LLI_WIRE_HEADER + 10], LLI_WIRE_FULL);
    }
    assert_int_equal(answer(&id), 0);
    lli_acceptor_leave(&acceptor, 2, MS);
    (void)taken(200, MS);
    assert_int_equal(acceptor.count, MAX);
}

static void an_unanswered_connect_expires_and_its_repetitions_are_ignored(void **state)
{
    uint64_t id = 0;
    lli_ns at;

    (void)state;
    comes(7, 0);
    assert_non_null(shown(0));
    assert_int_equal(expired(99 * MS, &at), 0);
    assert_int_equal(at, 100 * MS);
    assert_int_equal(acceptor.count, 1);
    assert_int_equal(expired(100 * MS, &at), 1);
    assert_int_equal(at, LLI_NEVER);
    assert_int_equal(acceptor.count, 0);
    assert_int_equal(acceptor.counters.requests_expired, 1);
    comes(7, 101 * MS);
    assert_null(shown(101 * MS));
    assert_int_equal(answer(&id), 0);
}

static void a_late_repetition_does_not_bring_a_closed_connection_back(void **state)
{
    uint64_t id = 0;

    (void)state;
    (void)taken(7, 0);
    lli_acceptor_leave(&acceptor, 7, MS);
    comes(7, 2 * MS);
    assert_null(shown(2 * MS));
    assert_int_equal(answer(&id), 0);
}

/* ------------------------------------------------------------------------------------- unresolved callers */

/* The time of the resolution is unknown: resolved callers do not wait for it. */
static void an_unresolved_caller_is_not_shown_and_expires(void **state)
{
    struct lli_applicant *applicant;
    uint32_t place = 0;
    lli_ns at;

    (void)state;
    comes(7, 0);
    comes(8, MS);
    assert_ptr_equal(lli_acceptor_next(&acceptor, &place), &applicants[0]);
    place++;
    applicant = lli_acceptor_next(&acceptor, &place);
    assert_ptr_equal(applicant, &applicants[1]);
    lli_acceptor_show(applicant, 2 * MS);
    place++;
    assert_null(lli_acceptor_next(&acceptor, &place));
    assert_null(lli_acceptor_find(&acceptor, 7));
    assert_ptr_equal(lli_acceptor_find(&acceptor, 8), applicant);
    assert_true(lli_acceptor_needs(&acceptor, &asks.address));
    assert_int_equal(expired(99 * MS, &at), 0);
    assert_int_equal(at, 100 * MS);
    assert_int_equal(expired(100 * MS, &at), 1);
    assert_int_equal(at, 102 * MS);
    assert_int_equal(acceptor.counters.requests_unreachable, 1);
    assert_int_equal(acceptor.counters.requests_expired, 0);
    assert_int_equal(acceptor.count, 1);
    comes(7, 101 * MS);
    place = 0;
    assert_null(lli_acceptor_next(&acceptor, &place));
}

static void an_unreachable_caller_is_dropped_at_once(void **state)
{
    uint32_t place = 0;
    lli_ns at;

    (void)state;
    comes(7, 0);
    lli_acceptor_drop(&acceptor, lli_acceptor_next(&acceptor, &place), 0);
    assert_int_equal(acceptor.counters.requests_unreachable, 1);
    assert_int_equal(acceptor.count, 0);
    assert_false(lli_acceptor_needs(&acceptor, &asks.address));
    assert_int_equal(expired(MS, &at), 0);
    assert_int_equal(at, LLI_NEVER);
}

/* The answer stays due, also beside others, until it is sent or expires. */
static void an_answer_waits_until_it_can_be_sent_or_is_given_up(void **state)
{
    uint32_t place = 0, other;
    uint64_t id = 0;
    lli_ns at;

    (void)state;
    comes(7, 0);
    lli_acceptor_refuse(&acceptor, shown(0), LLI_WIRE_REFUSED, 1, 0);
    (void)taken(8, 10 * MS);
    assert_non_null(lli_acceptor_answer_due(&acceptor, &place));
    other = place + 1;
    assert_non_null(lli_acceptor_answer_due(&acceptor, &other));
    assert_int_not_equal(place, other);
    lli_acceptor_answered(&acceptor, other);
    assert_int_equal(expired(99 * MS, &at), 0);
    assert_int_equal(at, 100 * MS);
    assert_true(lli_acceptor_needs(&acceptor, &asks.address));
    assert_int_equal(expired(100 * MS, &at), 1);
    assert_int_equal(acceptor.counters.refusals_dropped, 1);
    assert_false(lli_acceptor_needs(&acceptor, &asks.address));
    assert_int_equal(answer(&id), 0);
    /* A repeated request makes the answer due again. */
    comes(7, 150 * MS);
    assert_int_equal(expired(249 * MS, &at), 0);
    assert_int_equal(at, 250 * MS);
    assert_int_equal(answer(&id), LLI_WIRE_REFUSE);
    assert_int_equal(id, 7);
}

static void unsent_refusals_expire_after_the_timeout(void **state)
{
    uint64_t id = 0;
    lli_ns at;

    (void)state;
    for (uint64_t i = 1; i <= MAX; i++)
        (void)taken(i, 0);
    while (answer(&id) != 0)
        ;
    for (uint64_t i = 0; i < LLI_ACCEPTOR_TURNED_AWAY; i++)
        comes(100 + i, i * MS);
    assert_true(lli_acceptor_needs(&acceptor, &asks.address));
    assert_int_equal(expired(110 * MS, &at), 11);
    assert_int_equal(at, 111 * MS);
    assert_int_equal(acceptor.counters.refusals_dropped, 11);
    /* Their entries are free again. */
    for (uint64_t i = 0; i < 11; i++)
        comes(200 + i, 110 * MS);
    assert_int_equal(acceptor.counters.refusals_dropped, 11);
    assert_int_equal(expired(LLI_NEVER - 1, &at), LLI_ACCEPTOR_TURNED_AWAY);
    assert_int_equal(answer(&id), 0);
    assert_false(lli_acceptor_needs(&acceptor, &asks.address));
}

/*
 * Refused callers occupy their places until their answers are sent, so another caller is ignored and asks
 * again.
 */
static void callers_with_unsent_answers_occupy_their_places(void **state)
{
    uint64_t id = 0;

    (void)state;
    for (uint64_t i = 1; i <= 2 * MAX; i++) {
        comes(i, 0);
        lli_acceptor_refuse(&acceptor, shown(0), LLI_WIRE_REFUSED, 1, 0);
    }
    comes(100, MS);
    assert_null(shown(MS));
    assert_int_equal(acceptor.count, 0);
    assert_int_equal(answer(&id), LLI_WIRE_REFUSE);
    comes(100, 2 * MS);
    assert_non_null(shown(2 * MS));
    assert_int_equal(acceptor.count, 1);
}

/* The table stays within its bound and has at most one unsent answer to each caller. */
static void an_endless_stream_of_connects_stays_within_bounds(void **state)
{
    uint64_t random = 3, id = 0;
    lli_ns at;

    (void)state;
    acceptor.timeout = 50;
    for (lli_ns now = 0; now < 200000; now++) {
        struct lli_applicant *applicant;
        uint32_t counted = 0, owed = 0;

        comes(1 + below(&random, 40), now);
        applicant = chance(&random, 60) ? shown(now) : NULL;
        if (applicant != NULL && chance(&random, 50))
            lli_acceptor_accept(&acceptor, applicant, &(struct lli_wire_accept){.session = now}, now);
        else if (applicant != NULL && chance(&random, 50))
            lli_acceptor_refuse(&acceptor, applicant, LLI_WIRE_REFUSED, 1, now);
        if (chance(&random, 30))
            lli_acceptor_leave(&acceptor, 1 + below(&random, 40), now);
        if (chance(&random, 50))
            (void)answer(&id);
        if (chance(&random, 2))
            (void)expired(now, &at);
        for (uint32_t i = 0; i < 2 * MAX; i++) {
            counted += applicants[i].state >= LLI_APPLICANT_NEW && applicants[i].state <= LLI_APPLICANT_IN;
            owed += applicants[i].answer_due;
            for (uint32_t j = 0; j < i; j++)
                assert_true(ids[i] == 0 || ids[i] != ids[j]);
        }
        assert_int_equal(counted, acceptor.count);
        assert_int_equal(owed, acceptor.answers_due);
        assert_true(acceptor.count <= MAX);
    }
    assert_true(acceptor.counters.requests_accepted > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect_is_repeated_at_doubling_intervals_then_given_up),
        cmocka_unit_test(the_first_answer_counts),
        cmocka_unit_test_setup(a_repeated_connect_is_answered_again_and_not_counted_twice, acceptor_up),
        cmocka_unit_test_setup(a_waiting_caller_gets_no_answer_before_the_application_answers, acceptor_up),
        cmocka_unit_test_setup(callers_beyond_the_limit_are_refused, acceptor_up),
        cmocka_unit_test_setup(an_unanswered_connect_expires_and_its_repetitions_are_ignored, acceptor_up),
        cmocka_unit_test_setup(a_late_repetition_does_not_bring_a_closed_connection_back, acceptor_up),
        cmocka_unit_test_setup(an_unresolved_caller_is_not_shown_and_expires, acceptor_up),
        cmocka_unit_test_setup(an_unreachable_caller_is_dropped_at_once, acceptor_up),
        cmocka_unit_test_setup(an_answer_waits_until_it_can_be_sent_or_is_given_up, acceptor_up),
        cmocka_unit_test_setup(unsent_refusals_expire_after_the_timeout, acceptor_up),
        cmocka_unit_test_setup(callers_with_unsent_answers_occupy_their_places, acceptor_up),
        cmocka_unit_test_setup(an_endless_stream_of_connects_stays_within_bounds, acceptor_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
