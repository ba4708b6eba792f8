/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "core/limits/congestion.h"
#include "wire_vectors.h"

static const struct lli_wire_status limited_value = {
    .session = SESSION,
    .receiver = RECEIVER,
    .next = UINT64_C(0x201020302),
    .highest = UINT64_C(0x201020304),
    .echo = 123456789,
    .echo_age_ns = 1000,
    .lost_packets = 5,
    .naks = 6,
    .dropped = 7,
    .window_free = 16384,
    .flags = LLI_WIRE_STATUS_LIMITED,
    .address = ADDRESS_VALUE,
    .limits = {.limit = 2,
               .time_ms = 1001,
               .away_ms = 100,
               .away_us_max = 5000,
               .packets = 10000,
               .missed = 8,
               .dropped = 7},
    .token = UINT64_C(0x060708090a0b0c0d),
};

static size_t vector_bytes(const struct vector *vector, uint8_t *bytes)
{
    size_t size = 0;

    for (int i = 0; i < FIELDS_MAX && vector->fields[i].hex != NULL; i++)
        for (const char *at = vector->fields[i].hex; *at != '\0'; at += at[2] == ' ' ? 3 : 2) {
            const char digits[] = {at[0], at[1], '\0'};

            bytes[size++] = (uint8_t)strtoul(digits, NULL, 16);
        }
    return size;
}

static void limits_are_written_and_read_as_specified(void **state)
{
    uint8_t expected[VECTOR_MAX], packet[LLI_WIRE_CONTROL_MAX];
    const size_t size = vector_bytes(&limited_vector, expected);
    struct lli_wire_status status;

    (void)state;
    assert_int_equal(lli_wire_put_status(packet, &limited_value), size);
    assert_memory_equal(packet, expected, size);
    for (size_t cut = 1; cut <= size - LLI_WIRE_HEADER; cut++) {
        uint8_t *copy = exact_copy(packet + LLI_WIRE_HEADER, size - LLI_WIRE_HEADER - cut);

        assert_false(lli_wire_get_status(copy, size - LLI_WIRE_HEADER - cut, (uint32_t)SESSION, &status));
        free(copy);
    }
    memset(&status, 0, sizeof status);
    assert_true(
        lli_wire_get_status(packet + LLI_WIRE_HEADER, size - LLI_WIRE_HEADER, (uint32_t)SESSION, &status));
    assert_memory_equal(&status, &limited_value, sizeof status);
}

static void figures_too_large_for_their_fields_are_the_largest(void **state)
{
    const struct llm_bottleneck latest = {.limit = LLM_LIMIT_BUFFER,
                                          .time_ns = UINT64_MAX,
                                          .away_ns = UINT64_MAX,
                                          .away_ns_max = UINT64_MAX,
                                          .packets = UINT64_MAX,
                                          .packets_missed = (uint64_t)1 << 32,
                                          .packets_dropped = UINT32_MAX};
    const struct llm_bottleneck none = {.limit = LLM_LIMIT_NONE}, ever = {.packets_dropped = 9};
    struct lli_wire_status status = {.flags = LLI_WIRE_STATUS_DONE};

    (void)state;
    lli_congestion_fill(&status, &none, &ever);
    assert_int_equal(status.flags, LLI_WIRE_STATUS_DONE);
    assert_int_equal(status.dropped, 9);
    lli_congestion_fill(&status, &latest, &ever);
    assert_int_equal(status.flags, LLI_WIRE_STATUS_DONE | LLI_WIRE_STATUS_LIMITED);
    assert_int_equal(status.limits.limit, LLM_LIMIT_BUFFER);
    assert_int_equal(status.limits.time_ms, UINT32_MAX);
    assert_int_equal(status.limits.away_ms, UINT32_MAX);
    assert_int_equal(status.limits.away_us_max, UINT32_MAX);
    assert_int_equal(status.limits.packets, UINT32_MAX);
    assert_int_equal(status.limits.missed, UINT32_MAX);
    assert_int_equal(status.limits.dropped, UINT32_MAX);
}

/* -------------------------------------------------------------------------------------------- transmitter */

static struct transmitter transmitter;

static void tx_make(bool tells)
{
    struct lli_tx_config config = tx_config();

    config.reports_limits = tells;
    transmitter_make(&transmitter, &config, 0);
}

static int tx_free(void **state)
{
    (void)state;
    free(transmitter.memory);
    return 0;
}

static void report(uint64_t receiver, uint8_t limit, uint8_t flags)
{
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    struct lli_wire_status status = limited_value;

    status.receiver = receiver;
    status.next = status.highest = START;
    status.echo = 0;
    status.flags = flags;
    status.limits.limit = limit;
    tx_take(&transmitter.tx, packet, lli_wire_put_status(packet, &status), MS);
}

/* Returns the receiver and limit of the next event; 0: there is none. */
static uint64_t told(enum llm_limit *limit)
{
    struct llm_event event;

    if (!lli_tx_has_events(&transmitter.tx) || !lli_tx_event(&transmitter.tx, &event))
        return 0;
    assert_int_equal(event.kind, LLM_EVENT_RECEIVER_LIMITED);
    assert_int_equal(event.session, SESSION);
    *limit = event.bottleneck->limit;
    return event.bottleneck->receiver;
}

static void events_report_the_changed_limit_of_each_receiver(void **state)
{
    enum llm_limit limit = LLM_LIMIT_NONE;

    (void)state;
    tx_make(true);
    report(1, LLM_LIMIT_NONE, LLI_WIRE_STATUS_LIMITED);
    assert_int_equal(told(&limit), 0);
    report(1, LLM_LIMIT_NETWORK, LLI_WIRE_STATUS_LIMITED);
    report(2, LLM_LIMIT_APPLICATION, LLI_WIRE_STATUS_LIMITED);
    assert_true(lli_tx_deadline(&transmitter.tx) <= MS);
    assert_int_equal(told(&limit), 1);
    assert_int_equal(limit, LLM_LIMIT_NETWORK);
    assert_int_equal(told(&limit), 2);
    assert_int_equal(limit, LLM_LIMIT_APPLICATION);
    assert_int_equal(told(&limit), 0);
    report(1, LLM_LIMIT_NETWORK, LLI_WIRE_STATUS_LIMITED);
    assert_int_equal(told(&limit), 0);
    report(1, LLM_LIMIT_NONE, LLI_WIRE_STATUS_LIMITED);
    assert_int_equal(told(&limit), 1);
    assert_int_equal(limit, LLM_LIMIT_NONE);
}

/* The receiver may be of a later version. */
static void an_unknown_limit_is_passed_on(void **state)
{
    enum llm_limit limit = LLM_LIMIT_NONE;

    (void)state;
    tx_make(true);
    report(1, 200, LLI_WIRE_STATUS_LIMITED);
    assert_int_equal(told(&limit), 1);
    assert_string_equal(llm_limit_name(limit), "an unknown limit");
}

static void limits_are_readable_without_events(void **state)
{
    const struct lli_member *member;
    enum llm_limit limit;

    (void)state;
    tx_make(false);
    report(1, LLM_LIMIT_BUFFER, LLI_WIRE_STATUS_LIMITED);
    report(2, LLM_LIMIT_BUFFER, 0);
    assert_int_equal(told(&limit), 0);
    member = &transmitter.tx.members.table[lli_members_get(&transmitter.tx.members, 1)];
    assert_int_equal(member->dropped, 7);
    assert_int_equal(member->limits.limit, LLM_LIMIT_BUFFER);
    assert_int_equal(member->limits.receiver, 1);
    assert_int_equal(member->limits.time_ns, 1001 * MS);
    assert_int_equal(member->limits.away_ns, 100 * MS);
    assert_int_equal(member->limits.away_ns_max, 5 * MS);
    assert_int_equal(member->limits.packets, 10000);
    assert_int_equal(member->limits.packets_missed, 8);
    assert_int_equal(member->limits.packets_dropped, 7);
    member = &transmitter.tx.members.table[lli_members_get(&transmitter.tx.members, 2)];
    assert_int_equal(member->limits.time_ns, 0);
}

/* The unreported change of a departed receiver gives no event. */
static void a_departed_receiver_has_no_pending_limit_event(void **state)
{
    enum llm_limit limit;

    (void)state;
    tx_make(true);
    report(1, LLM_LIMIT_BUFFER, LLI_WIRE_STATUS_LIMITED);
    report(1, LLM_LIMIT_BUFFER, LLI_WIRE_STATUS_LIMITED | LLI_WIRE_STATUS_LEAVING);
    assert_int_equal(told(&limit), 0);
    assert_false(lli_tx_has_events(&transmitter.tx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_written_and_read_as_specified),
        cmocka_unit_test(figures_too_large_for_their_fields_are_the_largest),
        cmocka_unit_test_teardown(events_report_the_changed_limit_of_each_receiver, tx_free),
        cmocka_unit_test_teardown(an_unknown_limit_is_passed_on, tx_free),
        cmocka_unit_test_teardown(limits_are_readable_without_events, tx_free),
        cmocka_unit_test_teardown(a_departed_receiver_has_no_pending_limit_event, tx_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
