/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of "impair+" have the configured rates. */
#define _GNU_SOURCE
#include "contract.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "system/clock.h"

enum {
    AHEAD_MAX = 128, /* packets in flight: the kernel's queue of a virtual cable has room for 256 */
};

/* Fate of packets 0 to sent - 1. */
struct history {
    int sent;
    int got;
    int corrupted;
    int times[PACKETS_MAX]; /* how often each was delivered intact */
    int order[PACKETS_MAX]; /* numbers in order of arrival */
    uint64_t lost_count;
    uint64_t duplicated_count;
    uint64_t reordered_count;
    uint64_t corrupted_count;
    uint64_t delayed_count;
};

/* Options of the transports, from the command line. */
static struct lli_option_values given;

/* Removes the faults of the previous test. */
static int faults_reset(void **state)
{
    (void)state;
    own_options = given;
    return 0;
}

struct numbered {
    uint32_t number;
    uint32_t copies[15]; /* copies of the number: a changed byte is detected at any position */
};

static bool numbered_read(const struct lli_in *packet, uint32_t *number)
{
    struct numbered content;

    if (packet->size != sizeof content)
        return false;
    memcpy(&content, packet->data, sizeof content);
    for (size_t i = 0; i < 15; i++)
        if (content.copies[i] != content.number)
            return false;
    *number = content.number;
    return true;
}

static void history_take(struct history *history, const struct lli_in *packets, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t number = 0;

        if (!numbered_read(&packets[i], &number)) {
            history->corrupted++;
            continue;
        }
        assert_true((int)number < history->sent && history->got < PACKETS_MAX);
        history->times[number]++;
        history->order[history->got++] = (int)number;
    }
}

static void history_counters(struct history *history, const struct station *station)
{
    history->lost_count = station_counter(station, "impaired_lost");
    history->duplicated_count = station_counter(station, "impaired_duplicated");
    history->reordered_count = station_counter(station, "impaired_reordered");
    history->corrupted_count = station_counter(station, "impaired_corrupted");
    history->delayed_count = station_counter(station, "impaired_delayed");
}

/*
 * Returns how many packets have yet to arrive: all sent ones, less those that the injector dropped, plus
 * those that it duplicated.
 */
static int64_t history_due(const struct history *history, const struct station *station)
{
    const uint64_t lost = station_counter(station, "impaired_lost");
    const uint64_t duplicated = station_counter(station, "impaired_duplicated");

    return history->sent - (int64_t)lost + (int64_t)duplicated - history->got - history->corrupted;
}

/* Receives, and sleeps until at most this many packets are in flight. */
static void history_await(struct history *history, struct station *station, int64_t most)
{
    const uint64_t give_up_at = lli_clock_ns() + ARRIVAL_NS;
    struct lli_in in[BURST];

    for (;;) {
        const int fd = transport->arm(station->instance);
        const int count = station_await(station, in, BURST, 0);

        history_take(history, in, count);
        transport->release(station->instance, in, count);
        if (count > 0)
            continue;
        if (history_due(history, station) <= most)
            return;
        if (!readable(fd, 50) && lli_clock_ns() >= give_up_at)
            fail_msg("of %d packets %lld were lost, and not by the injector", history->sent,
                     (long long)history_due(history, station));
    }
}

/* Opens a station without faults, even in a test with faults. */
static void station_open_clean(struct station *station, const struct llm_options *options)
{
    const struct lli_option_values faults = own_options;

    own_options = given;
    station_open_with(station, options);
    own_options = faults;
}

/*
 * Sends this many packets, never more at a time than any transport buffers, so that only the injector loses
 * packets.
 */
static struct history *history_make(int packets)
{
    struct history *history = calloc(1, sizeof *history);
    struct llm_options clean = common;
    struct station a, b;

    assert_non_null(history);
    clean.loop = 1;
    station_open_clean(&a, &clean);
    station_open(&b);
    while (history->sent < packets) {
        for (int i = 0; i < BURST / 2 && history->sent < packets; i++) {
            struct numbered content = {.number = (uint32_t)history->sent++};

            for (size_t copy = 0; copy < 15; copy++)
                content.copies[copy] = content.number;
            station_send(&a, a.send, &content, sizeof content);
        }
        history_await(history, &b, AHEAD_MAX);
    }
    history_await(history, &b, 0);
    assert_int_equal(station_await(&b, (struct lli_in[1]){0}, 1, QUIET_NS), 0);
    history_counters(history, &b);
    station_close(&a);
    station_close(&b);
    return history;
}

static void lost_packets_have_the_configured_share_and_mean_run(void **state)
{
    static const struct {
        uint32_t share_ppm;
        uint32_t burst;
        double run; /* mean length, in packets */
    } cases[] = {{10000, 1, 1 / 0.99}, {50000, 5, 5}, {500000, 1, 2}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct history *history;
        const double expected = cases[i].share_ppm / 1e6 * 20000;
        int lost = 0, runs = 0;

        own_number("impair_loss_ppm", cases[i].share_ppm);
        own_number("impair_burst_packets", cases[i].burst);
        history = history_make(20000);
        for (int number = 0; number < history->sent; number++) {
            lost += history->times[number] == 0;
            runs += history->times[number] == 0 && (number == 0 || history->times[number - 1] > 0);
        }
        assert_int_equal(lost, history->lost_count);
        /* A few hundred runs vary by 10 %; the bound is three times that. */
        assert_true(fabs(lost - expected) < 0.3 * expected);
        assert_true(fabs(lost - cases[i].run * runs) < 0.3 * lost);
        free(history);
    }
}

static void total_loss_is_total(void **state)
{
    struct history *history;

    (void)state;
    own_number("impair_loss_ppm", 1000000);
    history = history_make(1000);
    assert_int_equal(history->got, 0);
    assert_int_equal(history->lost_count, 1000);
    free(history);
}

static void duplicated_packets_arrive_exactly_twice(void **state)
{
    struct history *history;
    uint64_t twice = 0;

    (void)state;
    own_number("impair_duplicate_ppm", 200000);
    history = history_make(5000);
    for (int i = 0; i < history->sent; i++) {
        assert_in_range(history->times[i], 1, 2);
        twice += history->times[i] == 2;
    }
    assert_int_equal(twice, history->duplicated_count);
    assert_in_range(twice, 800, 1200);
    free(history);
}

static void reordered_packets_are_overtaken_by_a_few_and_all_arrive(void **state)
{
    struct history *history;
    int late = 0;

    (void)state;
    own_number("impair_reorder_ppm", 100000);
    history = history_make(5000);
    assert_int_equal(history->got, 5000);
    for (int i = 0, newest = -1; i < history->got; i++) {
        if (history->order[i] < newest) {
            late++;
            assert_true(newest - history->order[i] <= 16);
        } else {
            newest = history->order[i];
        }
    }
    assert_in_range(history->reordered_count, 400, 600);
    /* Some were released by the time limit before any packet overtook them. */
    assert_in_range(late, 50, history->reordered_count);
    free(history);
}

static void corruption_changes_packets_and_is_counted(void **state)
{
    struct history *history;

    (void)state;
    own_number("impair_corrupt_ppm", 100000);
    history = history_make(5000);
    assert_int_equal(history->corrupted, history->corrupted_count);
    assert_int_equal(history->got + history->corrupted, 5000);
    assert_in_range(history->corrupted, 400, 600);
    free(history);
}

static void delay_is_bounded_and_wakes_the_sleeper(void **state)
{
    struct history *history;
    struct station a, b;
    uint64_t sent_at;

    (void)state;
    own_number("impair_delay_ns", 3000000);
    history = history_make(2000);
    assert_int_equal(history->got, 2000);
    assert_int_equal(history->delayed_count, 2000);
    free(history);

    own_number("impair_delay_ns", 200000000);
    station_open_clean(&a, &common);
    station_open(&b);
    sent_at = lli_clock_ns();
    station_send(&a, a.send, "late", 4);
    for (;;) {
        struct lli_in packet;
        const int fd = transport->arm(b.instance);

        if (transport->receive(b.instance, &packet, 1) == 1)
            break;
        assert_true(readable(fd, 2000));
    }
    assert_true(lli_clock_ns() - sent_at < ARRIVAL_NS);
    station_close(&a);
    station_close(&b);
}

static void the_same_seed_repeats_the_same_faults(void **state)
{
    struct history *first, *second, *other;

    (void)state;
    own_number("impair_seed", 77);
    own_number("impair_loss_ppm", 50000);
    own_number("impair_burst_packets", 3);
    own_number("impair_duplicate_ppm", 50000);
    own_number("impair_corrupt_ppm", 50000);
    own_number("impair_reorder_ppm", 50000);
    first = history_make(2000);
    second = history_make(2000);
    assert_memory_equal(first->times, second->times, sizeof first->times);
    assert_int_equal(first->lost_count, second->lost_count);
    assert_int_equal(first->reordered_count, second->reordered_count);
    assert_int_equal(first->corrupted_count, second->corrupted_count);
    own_number("impair_seed", 78);
    other = history_make(2000);
    assert_memory_not_equal(first->times, other->times, sizeof first->times);
    free(first);
    free(second);
    free(other);
}

static void other_faults_do_not_change_which_packets_are_lost(void **state)
{
    struct history *alone, *together;

    (void)state;
    own_number("impair_loss_ppm", 50000);
    alone = history_make(3000);
    own_number("impair_duplicate_ppm", 100000);
    own_number("impair_reorder_ppm", 100000);
    together = history_make(3000);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(alone->times[i] == 0, together->times[i] == 0);
    free(alone);
    free(together);
}

static void no_order_is_promised(void **state)
{
    struct station station;

    (void)state;
    station_open(&station);
    assert_false(station.caps.flags & LLI_CAP_ORDERED);
    station_close(&station);
}

int contract_faults(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lost_packets_have_the_configured_share_and_mean_run, faults_reset),
        cmocka_unit_test_setup(total_loss_is_total, faults_reset),
        cmocka_unit_test_setup(duplicated_packets_arrive_exactly_twice, faults_reset),
        cmocka_unit_test_setup(reordered_packets_are_overtaken_by_a_few_and_all_arrive, faults_reset),
        cmocka_unit_test_setup(corruption_changes_packets_and_is_counted, faults_reset),
        cmocka_unit_test_setup(delay_is_bounded_and_wakes_the_sleeper, faults_reset),
        cmocka_unit_test_setup(the_same_seed_repeats_the_same_faults, faults_reset),
        cmocka_unit_test_setup(other_faults_do_not_change_which_packets_are_lost, faults_reset),
        cmocka_unit_test_setup(no_order_is_promised, faults_reset),
    };

    given = own_options;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
