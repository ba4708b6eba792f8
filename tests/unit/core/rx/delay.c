/* SPDX-License-Identifier: Apache-2.0 */
/* Detection of heartbeats that are read late, and that a late reader does not delay other receivers. */
#include "core/rx/delay.h"

#include "core/rx/rx_internal.h"
#include "ends.h"

#define S ((lli_ns)1000000000)

static uint8_t buffer[LLI_WIRE_CONTROL_MAX];

static int up(void **state)
{
    struct lli_tx_config tx_options = tx_config();

    (void)state;
    r = (struct receiver){.random = 1, .config = rx_config()};
    r.config.nak_retry_max = 10 * MS;
    transmitter_make(&t, &tx_options, 10 * MS);
    receiver_make(&r, 32, 10 * MS);
    return 0;
}

/* --------------------------------------------------------------------------------------------- one by one */

static void the_first_heartbeat_is_the_quickest_so_far(void **state)
{
    struct lli_delay delay = {.at = 0};

    (void)state;
    /* The other clock is ahead or behind by most of the 64-bit range. */
    lli_delay_heard(&delay, UINT64_MAX - 5, 100 * MS);
    assert_int_equal(delay.queued, 0);
    lli_delay_heard(&delay, UINT64_MAX - 5 + MS, 103 * MS);
    assert_int_equal(delay.queued, 2 * MS - 3 * MS / 4096);
}

static void a_quicker_heartbeat_becomes_the_reference(void **state)
{
    struct lli_delay delay = {.at = 0};

    (void)state;
    lli_delay_heard(&delay, 50 * MS, 100 * MS);
    lli_delay_heard(&delay, 60 * MS, 105 * MS);
    assert_int_equal(delay.queued, 0);
    lli_delay_heard(&delay, 61 * MS, 106 * MS);
    assert_int_equal(delay.queued, 0);
    lli_delay_heard(&delay, 70 * MS, 120 * MS);
    assert_in_range(delay.queued, 5 * MS - 10 * US, 5 * MS);
}

/* A forged heartbeat would make all later ones late for an hour. */
static void a_far_quicker_heartbeat_needs_confirmation(void **state)
{
    struct lli_delay delay = {.at = 0};

    (void)state;
    lli_delay_heard(&delay, 50 * MS, 100 * MS);
    lli_delay_heard(&delay, 1060 * MS, 110 * MS);
    lli_delay_heard(&delay, 70 * MS, 120 * MS);
    assert_in_range(delay.queued, 0, 10 * US);
    lli_delay_heard(&delay, 1080 * MS, 130 * MS);
    lli_delay_heard(&delay, 90 * MS, 140 * MS);
    assert_in_range(delay.queued, 0, 10 * US);
    /* The slower of two is used. */
    lli_delay_heard(&delay, 120 * MS, 150 * MS);
    lli_delay_heard(&delay, 120 * MS, 160 * MS);
    lli_delay_heard(&delay, 120 * MS, 170 * MS);
    assert_in_range(delay.queued, 10 * MS - 10 * US, 10 * MS);
}

static void clocks_may_drift_and_a_queue_may_last(void **state)
{
    struct lli_delay drifts = {.at = 0}, lasts = {.at = 0};

    (void)state;
    lli_delay_heard(&lasts, 0, 1);
    for (lli_ns at = 10 * MS; at < 600 * S; at += 10 * MS) {
        /* A drift of 200 ppm. */
        lli_delay_heard(&drifts, at, at + at / 5000);
        assert_int_equal(drifts.queued, 0);
        lli_delay_heard(&lasts, at, at + 700 * MS);
        assert_in_range(lasts.queued, 550 * MS, 700 * MS);
    }
}

static void a_clock_jump_is_not_a_delay(void **state)
{
    struct lli_delay delay = {.at = 0};

    (void)state;
    lli_delay_heard(&delay, 0, 1 * S);
    lli_delay_heard(&delay, 1 * S, 100 * S);
    assert_int_equal(delay.queued, 0);
    /* A forged one neither, once the next one arrives. */
    lli_delay_heard(&delay, 1000 * S, 101 * S);
    lli_delay_heard(&delay, 3 * S, 102 * S);
    assert_int_equal(delay.queued, 0);
}

/* ----------------------------------------------------------------------------------- a receiver's reports */

static void nothing_to_pull(void)
{
    struct lli_item item;

    while (lli_rx_next(rx, 0, &item))
        continue;
}

static void heartbeat(lli_ns sent_at, uint32_t rtt_ns, uint32_t receivers, lli_ns now)
{
    const struct lli_wire_heartbeat packet = {.session = SESSION,
                                              .lead = START,
                                              .trail = START,
                                              .start = START,
                                              .rtt_ns = rtt_ns,
                                              .receivers = receivers,
                                              .sent_at = sent_at,
                                              .interval_us = 10000,
                                              .address = {1, {'t'}}};

    receiver_take(&r, buffer, lli_wire_put_heartbeat(buffer, &packet), now, nothing_to_pull);
}

static uint8_t reported_flags(lli_ns now)
{
    struct lli_wire_status status = {.flags = 0xff};
    struct lli_wire_header header;
    struct lli_packet packet;
    const uint8_t *body;
    size_t size;

    rx->report.at = now;
    while (lli_rx_control(rx, now, buffer, &packet)) {
        assert_int_equal(lli_wire_get_header(packet.data, packet.size, &header, &body, &size), LLI_WIRE_OK);
        if (header.type == LLI_WIRE_STATUS)
            assert_true(lli_wire_get_status(body, size, header.tag, &status));
    }
    return status.flags;
}

static void a_receiver_that_reads_heartbeats_late_reports_behind(void **state)
{
    (void)state;
    heartbeat(100 * MS, 0, 1, 200 * MS);
    assert_int_equal(reported_flags(200 * MS), 0);
    heartbeat(110 * MS, 0, 1, 214 * MS);
    assert_int_equal(reported_flags(214 * MS), 0);
    heartbeat(120 * MS, 0, 1, 226 * MS);
    assert_int_equal(reported_flags(226 * MS), LLI_WIRE_STATUS_BEHIND);
    heartbeat(130 * MS, 0, 1, 230 * MS);
    assert_int_equal(reported_flags(230 * MS), 0);
}

static void the_own_round_trip_bounds_that_of_the_group(void **state)
{
    (void)state;
    heartbeat(100 * MS, 700000000, 1, 200 * MS);
    /* Used if nothing else is known. */
    assert_int_equal(lli_rx_rtt(rx), 700 * MS);
    rx->nak.rtt = 100 * US;
    assert_int_equal(lli_rx_rtt(rx), 10 * MS + 800 * US);
    rx->nak.rtt = 10 * MS;
    assert_int_equal(lli_rx_rtt(rx), 90 * MS);
    heartbeat(110 * MS, 5000000, 1, 210 * MS);
    assert_int_equal(lli_rx_rtt(rx), 10 * MS);
}

static void a_disproportionate_round_trip_does_not_delay_the_first_nak(void **state)
{
    lli_ns latest = 0;

    (void)state;
    heartbeat(100 * MS, 700000000, 100, 200 * MS);
    rx->nak.rtt = 100 * US;
    for (lli_seq seq = START; seq < START + 60; seq++) {
        lli_rx_extend(rx, seq + 1, 200 * MS);
        latest = lli_max(latest, rx->gap.slots[seq & rx->gap.mask].nak_at);
    }
    assert_in_range(latest, 200 * MS + 10 * MS, 200 * MS + 4 * (10 * MS + 800 * US));
}

/* ----------------------------------------------------------------------------------- a transmitter's view */

static void report(uint64_t receiver, uint8_t flags, lli_ns elapsed, lli_ns now)
{
    const struct lli_wire_status packet = {.session = SESSION,
                                           .receiver = receiver,
                                           .next = START,
                                           .highest = START,
                                           .echo = now - elapsed,
                                           .flags = flags,
                                           .address = {1, {'a'}}};

    tx_take(tx, buffer, lli_wire_put_status(buffer, &packet), now);
}

static lli_ns rtt_of(uint64_t receiver)
{
    return tx->members.table[lli_members_get(&tx->members, receiver)].rtt;
}

static void late_readers_do_not_count_for_the_round_trip_of_the_group(void **state)
{
    (void)state;
    report(1, 0, 1 * MS, 2000 * MS);
    report(2, 0, 2 * MS, 2000 * MS);
    assert_int_equal(tx->group.rtt, 2 * MS);
    report(2, LLI_WIRE_STATUS_BEHIND, 700 * MS, 2100 * MS);
    assert_int_equal(rtt_of(2), 700 * MS);
    report(1, 0, 1 * MS, 2100 * MS);
    assert_int_equal(tx->group.rtt, 1 * MS);
    /* Its own round trip is measured, however long. */
    report(2, LLI_WIRE_STATUS_BEHIND, 1900 * MS, 2200 * MS);
    assert_in_range(rtt_of(2), 700 * MS, 1000 * MS);
    /* It counts again when it keeps up, with the round trip measured then. */
    report(2, 0, 2 * MS, 2300 * MS);
    assert_int_equal(tx->group.rtt, 2 * MS);
}

static void the_round_trip_stays_if_all_receivers_read_late(void **state)
{
    struct lli_packet packet;

    (void)state;
    report(1, LLI_WIRE_STATUS_BEHIND, 700 * MS, 2000 * MS);
    assert_int_equal(tx->group.rtt, LLI_TX_RTT_UNKNOWN);
    report(1, 0, 1 * MS, 2100 * MS);
    report(1, LLI_WIRE_STATUS_BEHIND, 700 * MS, 2200 * MS);
    while (lli_tx_control(tx, 2300 * MS, buffer, sizeof buffer, &packet))
        continue;
    assert_int_equal(tx->group.rtt, 1 * MS);
}

/* Returns the number of repairs sent for a NAK. */
static int repairs_for(uint64_t receiver, lli_ns now)
{
    const struct lli_wire_nak nak = {.session = SESSION,
                                     .receiver = receiver,
                                     .address = {1, {'a'}},
                                     .count = 1,
                                     .ranges = {{(uint32_t)START, 1}}};
    struct lli_packet packet;
    int count = 0;

    tx_take(tx, buffer, lli_wire_put_nak(buffer, &nak), now);
    for (; lli_tx_repair(tx, now, &packet); count++)
        lli_tx_repaired(tx, now);
    return count;
}

static void a_repair_lingers_for_the_round_trip_of_its_receiver(void **state)
{
    (void)state;
    send_one(tx, "abc", 2000 * MS);
    report(1, 0, 1 * MS, 2001 * MS);
    report(2, LLI_WIRE_STATUS_BEHIND, 700 * MS, 2001 * MS);
    assert_int_equal(repairs_for(2, 2010 * MS), 1);
    /* The first repair waits to be read: no other is sent for it. */
    assert_int_equal(repairs_for(2, 2600 * MS), 0);
    assert_int_equal(repairs_for(2, 2720 * MS), 1);
    assert_int_equal(repairs_for(1, 2730 * MS), 1);
    assert_int_equal(repairs_for(1, 2730 * MS + 900 * US), 0);
    assert_int_equal(repairs_for(1, 2732 * MS), 1);
    /* A group round trip beyond its maximum does not delay repairs to another receiver. */
    tx->group.rtt = 700 * MS;
    assert_int_equal(repairs_for(1, 2735 * MS), 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_heartbeat_is_the_quickest_so_far),
        cmocka_unit_test(a_quicker_heartbeat_becomes_the_reference),
        cmocka_unit_test(a_far_quicker_heartbeat_needs_confirmation),
        cmocka_unit_test(clocks_may_drift_and_a_queue_may_last),
        cmocka_unit_test(a_clock_jump_is_not_a_delay),
        T(a_receiver_that_reads_heartbeats_late_reports_behind),
        T(the_own_round_trip_bounds_that_of_the_group),
        T(a_disproportionate_round_trip_does_not_delay_the_first_nak),
        T(late_readers_do_not_count_for_the_round_trip_of_the_group),
        T(the_round_trip_stays_if_all_receivers_read_late),
        T(a_repair_lingers_for_the_round_trip_of_its_receiver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
