/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/flow/flow.h"
#include "core/flow/members.h"
#include "core/pack/history.h"

#define MS ((lli_ns)1000000)
#define START ((lli_seq)1 << 32)

enum { MEMBERS = 2000, WINDOW = 100 };

static struct lli_flow flow;
static struct lli_members members;
static void *memories[3];

static void flow_make(enum lli_flow_mode mode, uint32_t quorum_percent)
{
    const struct lli_flow_config config = {
        .mode = mode, .window_packets = WINDOW, .quorum_percent = quorum_percent};
    struct lli_arena arena = {.memory = NULL}, other = {.memory = NULL};

    lli_flow_init(&flow, &config, MEMBERS, &arena, START, 0);
    arena_fill(&arena);
    lli_flow_init(&flow, &config, MEMBERS, &arena, START, 0);
    lli_members_init(&members, MEMBERS, &other);
    arena_fill(&other);
    lli_members_init(&members, MEMBERS, &other);
    memories[0] = arena.memory;
    memories[1] = other.memory;
}

static int down(void **state)
{
    (void)state;
    free(memories[0]);
    free(memories[1]);
    free(memories[2]);
    memories[2] = NULL;
    return 0;
}

static struct lli_member *report(uint64_t id, lli_seq next, uint64_t window)
{
    struct lli_member *member = &members.table[lli_members_add(&members, id)];

    member->next = next;
    member->window = window;
    lli_flow_reported(&flow, &members, flow.history == NULL ? START : flow.history->next);
    return member;
}

static void flow_open_never_blocks(void **state)
{
    (void)state;
    flow_make(LLI_FLOW_OPEN, 100);
    report(1, 5, 10);
    assert_true(lli_flow_allows(&flow, 1000000, 1 << 30));
    assert_int_equal(lli_flow_ready_at(&flow, 1000000), 0);
    assert_int_equal(lli_flow_report_packets(&flow, START), 0);
}

static void reports_and_receiver_memory_limit_the_window(void **state)
{
    (void)state;
    flow_make(LLI_FLOW_WINDOW, 100);
    assert_true(lli_flow_allows(&flow, 1000000, 0));
    report(1, 1000, 4096);
    assert_true(lli_flow_allows(&flow, 1000 + WINDOW - 1, 0));
    assert_false(lli_flow_allows(&flow, 1000 + WINDOW, 0));
    assert_int_equal(lli_flow_ready_at(&flow, 1000 + WINDOW), LLI_NEVER);
    report(1, 1000, 64);
    assert_false(lli_flow_allows(&flow, 1064, 0));
    assert_int_equal(lli_flow_report_packets(&flow, START), WINDOW / 8);
    lli_members_del(&members, 1);
    lli_flow_reported(&flow, &members, START);
    assert_true(lli_flow_allows(&flow, 1000000, 0));
}

/* The update without a scan gives the same limit. */
static void one_report_changes_the_limit_like_a_full_scan(void **state)
{
    uint64_t random = 7;

    (void)state;
    for (uint32_t percent = 1; percent <= 100; percent += 33) {
        flow_make(LLI_FLOW_WINDOW, percent);
        for (int i = 0; i < 2000; i++) {
            const uint32_t index = lli_members_add(&members, 1 + below(&random, 9));
            struct lli_member *member = &members.table[index];
            uint64_t limit;

            member->next = below(&random, 20) == 0 ? 0 : START + below(&random, 40);
            member->window = below(&random, 2) == 0 ? WINDOW : 10;
            lli_flow_moved(&flow, &members, index, START);
            limit = flow.limit;
            lli_flow_reported(&flow, &members, START);
            assert_int_equal(limit, flow.limit);
        }
        (void)down(NULL);
    }
    flow_make(LLI_FLOW_OPEN, 1);
}

static void a_transmitter_that_awaits_a_receiver_stays_in_the_last_window(void **state)
{
    (void)state;
    flow_make(LLI_FLOW_WINDOW, 100);
    lli_flow_init(
        &flow,
        &(struct lli_flow_config){
            .mode = LLI_FLOW_WINDOW, .window_packets = WINDOW, .quorum_percent = 100, .awaits = true},
        MEMBERS, &(struct lli_arena){.memory = memories[0]}, START, 0);
    assert_false(lli_flow_allows(&flow, START, 0));
    assert_int_equal(lli_flow_ready_at(&flow, START), LLI_NEVER);
    report(1, START, 4096);
    assert_true(lli_flow_allows(&flow, START + WINDOW - 1, 0));
    lli_members_del(&members, 1);
    lli_flow_reported(&flow, &members, START);
    assert_true(lli_flow_allows(&flow, START + WINDOW - 1, 0));
    assert_false(lli_flow_allows(&flow, START + WINDOW, 0));
    report(2, START + 10, 4096);
    assert_true(lli_flow_allows(&flow, START + WINDOW + 9, 0));
}

static void the_quorum_decides_not_the_slowest_receiver(void **state)
{
    static const struct {
        uint32_t percent, receivers, decides;
    } cases[] = {{50, 1, 1},  {50, 2, 2},  {100, 2, 1},  {50, 3, 2},
                 {50, 10, 6}, {1, 10, 10}, {100, 10, 1}, {90, 32, 4}};
    uint64_t random = 3;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        flow_make(LLI_FLOW_WINDOW, cases[i].percent);
        /* Receiver n is the n-th slowest, and they join in random order. */
        for (uint32_t left = cases[i].receivers, known = 0; left > 0;) {
            uint32_t n = 1 + below(&random, cases[i].receivers);

            if (known >> (n - 1) & 1)
                continue;
            known |= (uint32_t)1 << (n - 1);
            left--;
            report(n, 1000 * n, 4096);
        }
        assert_int_equal(flow.limit, 1000 * cases[i].decides + WINDOW);
        (void)down(NULL);
    }
    flow_make(LLI_FLOW_OPEN, 1);
}

/* The reports of the share represent all receivers within the quorum; its number changes seldom. */
static void the_share_of_many_receivers_decides(void **state)
{
    uint64_t random = 11;

    (void)state;
    flow_make(LLI_FLOW_WINDOW, 50);
    flow.session = 99;
    for (int i = 0; i < 1000; i++) {
        const uint32_t index = lli_members_add(&members, lli_random(&random));

        members.table[index].next = lli_wire_is_in_share(99, members.table[index].id, 2) ? START + 50 : START;
        members.table[index].window = WINDOW;
    }
    lli_flow_reported(&flow, &members, START);
    assert_int_equal(flow.limit, START + WINDOW);
    assert_int_equal(lli_flow_share(&flow, &members, true, START), 0);
    assert_int_equal(flow.limit, START + WINDOW);
    assert_int_equal(lli_flow_share(&flow, &members, false, START), 2);
    assert_int_equal(flow.limit, START + 50 + WINDOW);
    assert_in_range(lli_quorum_count(&flow.quorum), 200, 300);
    for (uint32_t i = 0; members.count > 400; i++)
        lli_members_del(&members, members.table[i].id);
    assert_int_equal(lli_flow_share(&flow, &members, false, START), 2);
    for (uint32_t i = 0; members.count > 383; i++)
        if (members.table[i].id != 0)
            lli_members_del(&members, members.table[i].id);
    assert_int_equal(lli_flow_share(&flow, &members, false, START), 1);
    flow.config.quorum_percent = 100;
    assert_int_equal(lli_flow_share(&flow, &members, false, START), 0);
}

/* Receivers choose their identities. */
static void all_receivers_decide_if_the_share_is_empty(void **state)
{
    (void)state;
    flow_make(LLI_FLOW_WINDOW, 50);
    for (uint64_t i = 0; i < 1000; i++) {
        const uint32_t index = lli_members_add(&members, UINT64_MAX - i);

        members.table[index].next = START;
        members.table[index].window = WINDOW;
    }
    assert_int_equal(lli_flow_share(&flow, &members, false, START), 0);
    assert_int_equal(flow.limit, START + WINDOW);
}

static void receivers_without_a_report_do_not_count(void **state)
{
    (void)state;
    flow_make(LLI_FLOW_WINDOW, 100);
    report(1, 1000, 4096);
    report(2, 0, 0);
    assert_int_equal(flow.limit, 1000 + WINDOW);
}

static void suspended_receivers_do_not_count(void **state)
{
    struct lli_member *slow;

    (void)state;
    flow_make(LLI_FLOW_WINDOW, 100);
    slow = report(1, 1000, 4096);
    report(2, 5000, 4096);
    assert_int_equal(flow.limit, 1000 + WINDOW);
    slow->standing = LLI_STANDING_SUSPENDED;
    lli_flow_reported(&flow, &members, START);
    assert_int_equal(flow.limit, 5000 + WINDOW);
    members.table[lli_members_get(&members, 2)].standing = LLI_STANDING_EXPELLED;
    lli_flow_reported(&flow, &members, START);
    assert_int_equal(flow.limit, UINT64_MAX);
}

/*
 * Sends at the allowed rate for a time, in steps of a millisecond, to one receiver with its own maximum rate.
 */
static uint64_t paced_rate(uint64_t receiver_bytes_per_s, lli_ns from, lli_ns to, double *position)
{
    static lli_seq sent;
    static double got;
    const uint32_t packet = 1000;

    if (from == 0)
        sent = START, got = (double)START;
    for (lli_ns now = from; now < to; now += MS) {
        uint64_t bytes = 0;

        lli_pacer_fill(&flow.pacer, now);
        while (lli_flow_allows(&flow, sent, bytes) && bytes < 50000000) {
            sent++;
            bytes += packet;
        }
        lli_flow_sent(&flow, bytes);
        got = got + (double)receiver_bytes_per_s / packet / 1000;
        if (got > (double)sent)
            got = (double)sent;
        report(1, (lli_seq)got, 1 << 20);
        lli_flow_assess(&flow, &members, sent, 50000, now);
    }
    *position = (double)sent - got;
    return flow.pacer.bytes_per_s;
}

static void pacing_finds_the_rate_of_the_receiver(void **state)
{
    double lagging;

    (void)state;
    flow_make(LLI_FLOW_PACED, 50);
    flow.config.window_packets = 1000;
    (void)paced_rate(150000000, 0, 3000 * MS, &lagging);
    for (lli_ns at = 3000; at < 6000; at += 50) {
        uint64_t rate = paced_rate(150000000, at * MS, (at + 50) * MS, &lagging);

        assert_in_range(rate, 100000000, 190000000);
    }
    /* The receiver becomes half as fast, then as fast as before. */
    (void)paced_rate(75000000, 6000 * MS, 8000 * MS, &lagging);
    assert_in_range(flow.pacer.bytes_per_s, 50000000, 95000000);
    (void)paced_rate(150000000, 8000 * MS, 12000 * MS, &lagging);
    assert_in_range(flow.pacer.bytes_per_s, 100000000, 190000000);
}

static void a_paced_transmitter_is_stopped_two_windows_beyond_a_report(void **state)
{
    (void)state;
    flow_make(LLI_FLOW_PACED, 100);
    report(1, 1000, 4096);
    assert_true(lli_flow_allows(&flow, 1000 + 2 * WINDOW - 1, 0));
    assert_false(lli_flow_allows(&flow, 1000 + 2 * WINDOW, 0));
    assert_int_equal(lli_flow_ready_at(&flow, 1000 + 2 * WINDOW), LLI_NEVER);
}

static void loss_lowers_the_paced_rate_within_its_limits(void **state)
{
    struct lli_member *member;
    uint64_t rate;

    (void)state;
    flow_make(LLI_FLOW_PACED, 100);
    flow.config.bytes_per_s_max = 100000000;
    flow.config.window_packets = 1 << 20;
    member = report(1, START, 1 << 20);
    for (lli_ns now = 0; now < 1000 * MS; now += 10 * MS) {
        lli_flow_sent(&flow, 1000000);
        lli_flow_assess(&flow, &members, flow.record + 1000, 0, now);
        member->next = flow.record;
    }
    rate = flow.pacer.bytes_per_s;
    assert_int_equal(rate, 100000000);
    /* Twenty of a thousand packets may be lost. */
    member->requested = 20;
    lli_flow_assess(&flow, &members, flow.record + 1000, 0, 1010 * MS);
    assert_int_equal(flow.pacer.bytes_per_s, rate);
    lli_flow_sent(&flow, 1000000);
    member->next = flow.record;
    member->requested = 21;
    lli_flow_assess(&flow, &members, flow.record + 1000, 0, 1020 * MS);
    assert_in_range(flow.pacer.bytes_per_s, 1 << 20, rate - rate / 8);
    assert_int_equal(member->requested, 0);
}

static void the_loss_share_of_the_first_packets_counts_only_them(void **state)
{
    struct lli_member *member;
    uint64_t rate;

    (void)state;
    flow_make(LLI_FLOW_PACED, 100);
    flow.config.window_packets = 1 << 20;
    rate = flow.pacer.bytes_per_s;
    member = report(1, START + 900, 1 << 20);
    member->requested = 100;
    lli_flow_sent(&flow, 1000000);
    lli_flow_assess(&flow, &members, START + 1000, 0, 10 * MS);
    assert_true(flow.pacer.bytes_per_s < rate);
    /* Never above the limit. */
    flow.config.bytes_per_s_max = 500000;
    member->requested = 100;
    lli_flow_assess(&flow, &members, START + 2000, 0, 20 * MS);
    assert_int_equal(flow.pacer.bytes_per_s, 500000);
}

/* ------------------------------------------------------------------------------------- window in bytes */

enum { PACKET_MAX = 8192, HISTORY_BYTES = 1 << 20, WINDOW_BYTES = HISTORY_BYTES / 2, ROOMY = 4096 };

static struct lli_history history;

static void history_make(void)
{
    const struct lli_history_config config = {
        .bytes = HISTORY_BYTES, .packets = 4 * ROOMY, .packet_max = PACKET_MAX, .align = 64, .start = START};
    struct lli_arena arena = {.memory = NULL};

    lli_history_init(&history, &config, &arena);
    arena_fill(&arena);
    lli_history_init(&history, &config, &arena);
    free(memories[2]);
    memories[2] = arena.memory;
    flow.config.window_packets = ROOMY;
    flow.config.window_bytes = WINDOW_BYTES;
    flow.history = &history;
}

/* Sends packets of random sizes of at least 1 byte until flow control blocks. Returns the next packet. */
static lli_seq send_until_blocked(uint64_t *random, uint32_t size_max)
{
    while (lli_flow_allows(&flow, history.next, 0)) {
        lli_history_open(&history, history.next);
        lli_history_seal(&history, (uint32_t)(1 + below(random, size_max)));
        lli_flow_advanced(&flow, &members, history.next);
    }
    return history.next;
}

static void bytes_of_the_history_limit_the_window(void **state)
{
    static const uint32_t sizes[] = {PACKET_MAX, 100, PACKET_MAX, 3000};
    uint64_t random = 11;
    lli_seq next = START;

    (void)state;
    flow_make(LLI_FLOW_WINDOW, 100);
    history_make();
    for (int i = 0; i < 2000; i++) {
        const uint32_t size = sizes[i / 10 % 4];
        struct lli_member *member = &members.table[lli_members_add(&members, 1)];
        uint64_t span;
        lli_seq sent;

        member->next = next;
        member->window = 1 << 20;
        lli_flow_moved(&flow, &members, (uint32_t)(member - members.table), history.next);
        sent = send_until_blocked(&random, size);
        span = lli_history_span(&history, next, sent);
        /* Nothing that the receiver lacks is gone, and as much is sent as certainly fits; a lap's end is unused. */
        assert_true(history.trail <= next && span < WINDOW_BYTES + history.stride_max);
        assert_true(sent - next <= ROOMY);
        assert_true(sent - next == ROOMY || span > WINDOW_BYTES - history.stride_max);
        next += below(&random, (uint32_t)(sent - next) + 1);
    }
    /* Small packets fill the window of packets. */
    next = history.next;
    report(1, next, 1 << 20);
    assert_int_equal(send_until_blocked(&random, 50), next + ROOMY);
}

static void a_member_beyond_the_window_of_bytes_blocks_only_if_it_decides(void **state)
{
    uint64_t random = 5;
    lli_seq sent;

    (void)state;
    flow_make(LLI_FLOW_WINDOW, 100);
    history_make();
    report(1, START, 1 << 20);
    report(2, START, 1 << 20);
    sent = send_until_blocked(&random, PACKET_MAX);
    flow.config.quorum_percent = 50;
    report(2, sent, 1 << 20);
    assert_true(send_until_blocked(&random, PACKET_MAX) > sent);
    /* The packets that the first one lacks fill more than the window; it decides now. */
    flow.config.quorum_percent = 100;
    lli_flow_reported(&flow, &members, history.next);
    assert_false(lli_flow_allows(&flow, history.next, 0));
    report(1, history.next, 1 << 20);
    report(2, history.next, 1 << 20);
    assert_true(lli_flow_allows(&flow, history.next, 0));
}

static void a_paced_transmitter_is_stopped_two_windows_of_bytes_beyond_a_report(void **state)
{
    lli_seq sent = START;

    (void)state;
    flow_make(LLI_FLOW_PACED, 100);
    history_make();
    flow.config.window_bytes = HISTORY_BYTES / 8;
    report(1, START, 1 << 20);
    while (sent < flow.limit) {
        lli_history_open(&history, sent);
        lli_history_seal(&history, PACKET_MAX);
        lli_flow_advanced(&flow, &members, ++sent);
    }
    assert_in_range(lli_history_span(&history, START, sent), HISTORY_BYTES / 4 - history.stride_max + 1,
                    HISTORY_BYTES / 4);
    /* A receiver that lags by more than a window of bytes does not keep up. */
    flow.record = START;
    report(1, START + (sent - START) / 4, 1 << 20);
    lli_flow_sent(&flow, 100 << 20);
    lli_flow_assess(&flow, &members, sent, 0, 1000 * MS);
    assert_false(flow.doubling);
}

static void reports_are_as_frequent_as_packets_are_large(void **state)
{
    uint64_t random = 3;

    (void)state;
    flow_make(LLI_FLOW_WINDOW, 100);
    history_make();
    assert_int_equal(lli_flow_report_packets(&flow, START), WINDOW_BYTES / PACKET_MAX / 8);
    report(1, START, 1 << 20);
    (void)send_until_blocked(&random, 50);
    assert_int_equal(lli_flow_report_packets(&flow, history.next), ROOMY / 8);
    report(1, history.next, 1 << 20);
    for (int i = 0; i < 64; i++) {
        lli_history_open(&history, history.next);
        lli_history_seal(&history, PACKET_MAX / 2);
    }
    assert_int_equal(lli_flow_report_packets(&flow, history.next), WINDOW_BYTES / (PACKET_MAX / 2) / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(flow_open_never_blocks, down),
        cmocka_unit_test_teardown(reports_and_receiver_memory_limit_the_window, down),
        cmocka_unit_test_teardown(a_transmitter_that_awaits_a_receiver_stays_in_the_last_window, down),
        cmocka_unit_test_teardown(bytes_of_the_history_limit_the_window, down),
        cmocka_unit_test_teardown(a_member_beyond_the_window_of_bytes_blocks_only_if_it_decides, down),
        cmocka_unit_test_teardown(a_paced_transmitter_is_stopped_two_windows_of_bytes_beyond_a_report, down),
        cmocka_unit_test_teardown(reports_are_as_frequent_as_packets_are_large, down),
        cmocka_unit_test_teardown(the_quorum_decides_not_the_slowest_receiver, down),
        cmocka_unit_test_teardown(the_share_of_many_receivers_decides, down),
        cmocka_unit_test_teardown(all_receivers_decide_if_the_share_is_empty, down),
        cmocka_unit_test_teardown(receivers_without_a_report_do_not_count, down),
        cmocka_unit_test_teardown(one_report_changes_the_limit_like_a_full_scan, down),
        cmocka_unit_test_teardown(suspended_receivers_do_not_count, down),
        cmocka_unit_test_teardown(pacing_finds_the_rate_of_the_receiver, down),
        cmocka_unit_test_teardown(a_paced_transmitter_is_stopped_two_windows_beyond_a_report, down),
        cmocka_unit_test_teardown(the_loss_share_of_the_first_packets_counts_only_them, down),
        cmocka_unit_test_teardown(loss_lowers_the_paced_rate_within_its_limits, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
