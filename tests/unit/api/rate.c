/* SPDX-License-Identifier: Apache-2.0 */
/* Rate limits over whole contexts, on a clock of the test's own. */
#define _GNU_SOURCE
#include "counter.h"
#include "unit.h"

#include <stdio.h>
#include <time.h>

#include "engine/objects.h"
#include "core/tx/tx_internal.h"

#define MS UINT64_C(1000000)
#define OPTIONS                                                                                            \
    "?history_bytes=4M&history_packets=4096&reorder_bytes=1M&sessions_max=2&message_bytes_max=64K&topics_" \
    "max=8"                                                                                                \
    "&window_packets=1024&receivers_max=4&mtu=1500&linger_ns=0"

enum { SIZE = 1000, RATE = 1 << 20, SMALL = 45, SMALL_COUNT = 20000, PACKET = 1500 };

static uint64_t clock_now = 1000 * MS;
static char log_text[512];
static struct llm_context *near, *far;
static struct llm_transmitter *transmitter;
static struct llm_topic *limited, *other;
static uint64_t messages;

/* Replaces the library's clock: the program's own definition comes before that of libc. */
int clock_gettime(clockid_t clock, struct timespec *at)
{
    (void)clock;
    clock_now += 20;
    at->tv_sec = (time_t)(clock_now / 1000000000);
    at->tv_nsec = (long)(clock_now % 1000000000);
    return 0;
}

static void on_log(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)snprintf(log_text, sizeof log_text, "%s", text);
}

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    (void)message;
    messages++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

static int contexts_open(void **state)
{
    struct llm_context_options options;

    (void)state;
    llm_context_options_init(&options);
    options.stats_directory = "";
    options.log = on_log;
    options.watch_ns = 100 * MS;
    messages = 0;
    log_text[0] = '\0';
    assert_int_equal(llm_context_open(&options, &near), LLM_OK);
    return llm_context_open(&options, &far);
}

static int contexts_close(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&far), LLM_OK);
    return llm_context_close(&near);
}

static void ends_open(const char *scheme, const char *tx_options, const char *rx_options)
{
    struct llm_receiver *receiver = NULL;
    struct llm_receiver_handlers handlers;
    char channel[512];

    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    (void)snprintf(channel, sizeof channel, "%s://rate:1" OPTIONS "%s", scheme, rx_options);
    assert_int_equal(llm_receiver_open(far, channel, NULL, &handlers, &receiver), LLM_OK);
    (void)snprintf(channel, sizeof channel, "loop://rate:1" OPTIONS "%s", tx_options);
    assert_int_equal(llm_transmitter_open(near, channel, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "limited", 0, &limited), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "other", 0, &other), LLM_OK);
}

/* Sends on a topic at the maximum rate for this many ms. Returns how many messages were accepted. */
static uint64_t flow(struct llm_topic *topic, uint32_t ms)
{
    static const uint8_t data[SIZE];
    uint64_t taken = 0;

    for (uint32_t i = 0; i < 4 * ms; i++) {
        const uint64_t until = clock_now + MS / 4;

        while (taken < 1000000 && llm_send(topic, data, SIZE, LLM_SEND_NOW) == LLM_OK && clock_now < until)
            taken++;
        (void)llm_poll(near);
        (void)llm_poll(far);
        clock_now = lli_max(clock_now, until);
    }
    return taken;
}

static int limit_transmitter(uint64_t bytes_per_s, uint64_t repair_bytes_per_s)
{
    struct llm_rate rate;

    llm_rate_init(&rate);
    rate.bytes_per_s = bytes_per_s;
    rate.repair_bytes_per_s = repair_bytes_per_s;
    return llm_transmitter_limit_rate(transmitter, &rate);
}

static int limit_topic(struct llm_topic *topic, uint64_t bytes_per_s)
{
    struct llm_rate rate;

    llm_rate_init(&rate);
    rate.bytes_per_s = bytes_per_s;
    return llm_topic_limit_rate(topic, &rate);
}

/* Returns the bytes of new data sent in a second, without heartbeats. */
static uint64_t rate_of(struct llm_topic *topic)
{
    const uint64_t packets = counter_of(near, "packets_data"), first = lli_tx_lead_number(&transmitter->tx);

    (void)flow(topic, 1000);
    /* Includes the headers of messages and packets. */
    return (lli_tx_lead_number(&transmitter->tx) - first) * (SIZE + 3) +
           (counter_of(near, "packets_data") - packets) * LLI_WIRE_DATA_HEADER;
}

static void about(uint64_t rate, uint64_t expected)
{
    if (rate < expected - expected / 20 || rate > expected + expected / 20)
        fail_msg("%llu bytes a second are not about %llu", (unsigned long long)rate,
                 (unsigned long long)expected);
}

/* -------------------------------------------------------------------------------------------- transmitter */

static void a_rate_limit_applies_to_new_data_and_is_the_bottleneck(void **state)
{
    struct llm_bottleneck bottleneck;

    (void)state;
    ends_open("loop", "&rate_bytes_per_s=1M", "");
    about(rate_of(limited), RATE);
    assert_true(counter_of(near, "send_blocked_rate") > 0);
    assert_int_equal(counter_of(near, "send_blocked_rate"), counter_of(near, "send_blocked"));
    assert_true(counter_of(near, "unsent_packets") <= LLI_TX_BLOCKED_MAX);
    assert_int_equal(llm_transmitter_bottleneck(transmitter, &bottleneck), LLM_OK);
    assert_int_equal(bottleneck.limit, LLM_LIMIT_RATE);
    assert_true(bottleneck.rate_ns > bottleneck.time_ns / 2);
    assert_int_equal(bottleneck.window_ns + bottleneck.history_ns + bottleneck.transport_ns, 0);
    assert_int_equal(counter_of(far, "messages_lost"), 0);
}

static void the_limit_changes_while_messages_flow(void **state)
{
    uint64_t refused;

    (void)state;
    ends_open("loop", "", "");
    (void)flow(limited, 100);
    assert_int_equal(counter_of(near, "send_blocked_rate"), 0);
    assert_int_equal(limit_transmitter(RATE, 0), LLM_OK);
    (void)flow(limited, 100);
    about(rate_of(limited), RATE);
    assert_int_equal(limit_transmitter(4 * RATE, 0), LLM_OK);
    (void)flow(limited, 100);
    about(rate_of(limited), 4 * RATE);
    assert_int_equal(limit_transmitter(RATE / 4, 0), LLM_OK);
    (void)flow(limited, 1000);
    about(rate_of(limited), RATE / 4);
    assert_int_equal(limit_transmitter(0, 0), LLM_OK);
    refused = counter_of(near, "send_blocked_rate");
    (void)flow(limited, 10);
    assert_int_equal(counter_of(near, "send_blocked_rate"), refused);
    assert_int_equal(counter_of(near, "unsent_packets"), 0);
}

static void window_flow_control_may_have_a_rate_limit(void **state)
{
    (void)state;
    ends_open("loop", "&flow=window&rate_bytes_per_s=1M", "");
    about(rate_of(limited), RATE);
    assert_int_equal(counter_of(near, "send_blocked_flow"), 0);
}

static void pacing_stays_below_the_rate_limit(void **state)
{
    uint64_t rate;

    (void)state;
    ends_open("loop", "&flow=paced", "");
    assert_int_equal(limit_transmitter(RATE, 0), LLM_OK);
    (void)flow(limited, 500);
    rate = rate_of(limited);
    assert_true(rate > RATE / 4 && rate < RATE + RATE / 20);
}

/* A tenth of 5 MB is lost and repaired at 64 KiB a second. */
static void repairs_have_a_separate_rate_limit(void **state)
{
    uint64_t repaired;

    (void)state;
    ends_open("impair+loop", "&rate_bytes_per_s=2M&repair_rate_bytes_per_s=64K", "&impair_loss_ppm=100000");
    (void)flow(limited, 200);
    repaired = counter_of(near, "packets_repaired");
    about(rate_of(limited), 2 * RATE);
    repaired = (counter_of(near, "packets_repaired") - repaired) * PACKET;
    assert_true(repaired > 32768 && repaired < 65536 * 5 / 4);
    assert_true(counter_of(near, "repairs_delayed") > 0);
    assert_int_equal(limit_transmitter(2 * RATE, 0), LLM_OK);
    (void)flow(limited, 200);
    repaired = counter_of(near, "packets_repaired");
    (void)flow(limited, 1000);
    assert_true((counter_of(near, "packets_repaired") - repaired) * PACKET > 2 * 65536);
}

/* ---------------------------------------------------------------------------------------- blocked packets */

/* Messages between two polls of the receiver: it reports before the window is full, or long after. */
enum { OFTEN = 500, SELDOM = 20000 };

/*
 * Sends a small message and polls. The receiver polls after every far_every of them. False: the message was
 * refused.
 */
static bool offer_small(uint64_t far_every)
{
    static const uint8_t data[SMALL];
    static uint64_t offered;
    const bool taken = llm_send(limited, data, SMALL, LLM_SEND_MORE) == LLM_OK;

    (void)llm_poll(near);
    if (++offered % far_every == 0)
        (void)llm_poll(far);
    return taken;
}

/* Sends until a message is refused. Returns how many were accepted. */
static uint64_t offer_until_refused(uint64_t far_every)
{
    /* A window begins with a receiver's first report. */
    for (int i = 0; i < 1000 && llm_transmitter_receivers(transmitter) == 0; i++) {
        (void)llm_poll(near);
        (void)llm_poll(far);
    }
    for (uint64_t taken = 0; taken < 1000000; taken++)
        if (!offer_small(far_every))
            return taken;
    fail_msg("nothing was held back");
    return 0;
}

/* Returns how many packets this many messages took while packets were blocked. */
static uint64_t packets_of(uint64_t count, uint64_t far_every)
{
    const uint64_t first = transmitter->tx.history.next;

    for (uint64_t taken = 0; taken < count;)
        taken += offer_small(far_every);
    return transmitter->tx.history.next - first;
}

static void blocked_packets_are_full(const char *options, uint64_t far_every)
{
    const uint64_t least = (uint64_t)SMALL_COUNT * (SMALL + 1) / (PACKET - LLI_WIRE_DATA_HEADER);
    uint64_t packets;

    ends_open("loop", options, "");
    (void)offer_until_refused(far_every);
    packets = packets_of(SMALL_COUNT, far_every);
    if (packets > least * 12 / 10)
        fail_msg("%s: %d messages took %llu packets instead of %llu", options, SMALL_COUNT,
                 (unsigned long long)packets, (unsigned long long)least);
}

static void packets_blocked_by_a_rate_limit_are_full(void **state)
{
    (void)state;
    blocked_packets_are_full("&rate_bytes_per_s=20M", OFTEN);
}

static void packets_blocked_by_pacing_are_full(void **state)
{
    (void)state;
    blocked_packets_are_full("&flow=paced&flow_bytes_per_s_max=20M", OFTEN);
}

static void packets_blocked_by_a_window_are_full(void **state)
{
    (void)state;
    blocked_packets_are_full("&flow=window&flow_window_packets=64", SELDOM);
}

/*
 * No more messages are sent, and polls follow llm_context_deadline() only: the partly filled packet leaves
 * too.
 */
static void blocked_messages_arrive(const char *options, uint64_t far_every, uint64_t bytes_per_s)
{
    uint64_t sent, until, polls = 0;

    ends_open("loop", options, "");
    sent = offer_until_refused(far_every);
    assert_true(lli_pack_pending(&transmitter->tx.pack) ||
                transmitter->tx.sent < transmitter->tx.history.next);
    until = clock_now + sent * (SMALL + 2) * 1000 * MS / bytes_per_s + 20 * MS;
    for (; messages < sent && clock_now < until; polls++) {
        const uint64_t at = llm_context_deadline(near);

        clock_now = lli_max(clock_now, lli_min(at, clock_now + MS));
        (void)llm_poll(near);
        (void)llm_poll(far);
    }
    assert_int_equal(messages, sent);
    assert_false(lli_pack_pending(&transmitter->tx.pack));
    /* Each packet and each heartbeat took a poll; between polls the thread sleeps. */
    assert_true(polls < 20 * counter_of(near, "packets_sent"));
}

static void messages_blocked_by_a_rate_limit_leave_in_time(void **state)
{
    (void)state;
    blocked_messages_arrive("&rate_bytes_per_s=1M", OFTEN, RATE);
}

static void messages_blocked_by_pacing_leave_in_time(void **state)
{
    (void)state;
    blocked_messages_arrive("&flow=paced&flow_bytes_per_s_max=1M", OFTEN, RATE);
}

static void messages_blocked_by_a_window_leave_with_the_next_reports(void **state)
{
    (void)state;
    blocked_messages_arrive("&flow=window&flow_window_packets=64", SELDOM, RATE);
}

static void a_sleeper_is_not_woken_for_a_blocked_packet(void **state)
{
    (void)state;
    ends_open("loop", "&rate_bytes_per_s=64K", "");
    while (transmitter->tx.flow.pacer.tokens > 0)
        assert_true(offer_small(OFTEN));
    assert_true(offer_small(OFTEN));
    (void)llm_poll(near);
    assert_true(lli_pack_pending(&transmitter->tx.pack));
    assert_int_equal(llm_transmitter_flush(transmitter), LLM_EAGAIN);
    (void)llm_poll(near);
    assert_true(llm_context_deadline(near) > clock_now);
    clock_now += 100 * MS;
    assert_int_equal(llm_transmitter_flush(transmitter), LLM_OK);
    assert_false(lli_pack_pending(&transmitter->tx.pack));
}

/* -------------------------------------------------------------------------------------------------- topic */

static void a_blocked_topic_does_not_block_other_topics(void **state)
{
    uint64_t taken;

    (void)state;
    ends_open("loop", "", "");
    assert_int_equal(limit_topic(limited, RATE), LLM_OK);
    (void)flow(limited, 100);
    taken = flow(limited, 1000);
    about(taken * SIZE, RATE);
    assert_true(counter_of(near, "send_blocked_rate") > 0);
    assert_int_equal(llm_send(other, "x", 1, 0), LLM_OK);
    assert_int_equal(counter_of(near, "unsent_packets"), 0);
    assert_int_equal(limit_topic(limited, 0), LLM_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(llm_send(limited, "x", 1, LLM_SEND_NOW), LLM_OK);
}

static void a_sleeper_is_woken_when_a_topic_may_send_again(void **state)
{
    static const uint8_t data[SIZE];
    uint64_t at = 0;

    (void)state;
    ends_open("loop", "&heartbeat_ns_max=1000000000&silence_ns=10000000000&session_timeout_ns=20000000000",
              "");
    (void)flow(other, 1500);
    for (int i = 0; i < 2000; i++)
        (void)llm_poll(near);
    assert_int_equal(limit_topic(limited, 65536), LLM_OK);
    while (llm_send(limited, data, SIZE, LLM_SEND_NOW) == LLM_OK)
        ;
    /* Polls with other due work do not lose the wake-up. */
    for (int i = 0; i < 10000; i++) {
        (void)llm_poll(near);
        at = llm_context_deadline(near);
        if (at > clock_now)
            clock_now = at;
        if (llm_send(limited, data, SIZE, LLM_SEND_NOW) == LLM_OK)
            break;
        assert_true(llm_context_deadline(near) <= clock_now + 20 * MS);
    }
    assert_true(clock_now <= at + MS);
}

/* The topic with the longer wait is refused last, and the transmitter is busy meanwhile. */
static void a_sleeper_is_woken_for_the_earlier_of_two_blocked_topics(void **state)
{
    static const uint8_t data[SIZE];
    uint64_t first;

    (void)state;
    ends_open("loop", "&heartbeat_ns_max=1000000000&silence_ns=10000000000&session_timeout_ns=20000000000",
              "");
    (void)flow(other, 1500);
    for (int i = 0; i < 2000; i++)
        (void)llm_poll(near);
    assert_int_equal(limit_topic(limited, RATE), LLM_OK);
    assert_int_equal(limit_topic(other, 65536), LLM_OK);
    while (llm_send(limited, data, SIZE, LLM_SEND_NOW) == LLM_OK)
        ;
    first = clock_now + MS;
    while (llm_send(other, data, SIZE, LLM_SEND_NOW) == LLM_OK)
        ;
    assert_int_equal(llm_send(limited, data, SIZE, LLM_SEND_NOW), LLM_EAGAIN);
    assert_int_equal(llm_send(other, data, SIZE, LLM_SEND_NOW), LLM_EAGAIN);
    assert_true(transmitter->tx.due.wake_at <= first);
}

static void a_topic_may_be_assured_and_limited(void **state)
{
    struct llm_assurance assurance;
    void *claim;

    (void)state;
    ends_open("loop", "", "");
    llm_assurance_init(&assurance);
    assert_int_equal(limit_topic(limited, RATE), LLM_OK);
    assert_int_equal(llm_topic_assure(limited, &assurance), LLM_OK);
    (void)flow(limited, 100);
    about(flow(limited, 1000) * SIZE, RATE);
    assert_int_equal(counter_of(near, "messages_assured"), counter_of(near, "messages_sent"));
    assert_int_equal(limit_topic(limited, 0), LLM_OK);
    assert_int_equal(llm_topic_claim(limited, 10, &claim), LLM_OK);
    assert_int_equal(limit_topic(limited, RATE), LLM_ESTATE);
    assert_int_equal(llm_topic_commit(limited, 10, 0), LLM_OK);
    assert_int_equal(limit_topic(limited, RATE), LLM_OK);
    assert_int_equal(llm_topic_assure(limited, NULL), LLM_OK);
    (void)flow(limited, 100);
    about(flow(limited, 1000) * SIZE, RATE);
}

static void claims_are_rate_limited_like_messages(void **state)
{
    uint64_t bytes = 0;
    void *claim;
    int error;

    (void)state;
    ends_open("loop", "", "");
    assert_int_equal(limit_topic(limited, 65536), LLM_OK);
    while ((error = llm_topic_claim(limited, SIZE, &claim)) == LLM_OK) {
        assert_int_equal(llm_topic_commit(other, SIZE, 0), LLM_ESTATE);
        assert_int_equal(llm_topic_commit(limited, SIZE, 0), LLM_OK);
        bytes += SIZE;
    }
    assert_int_equal(error, LLM_EAGAIN);
    assert_true(bytes >= 16384 && bytes < 16384 + 2 * SIZE);
    assert_int_equal(llm_topic_claim(other, SIZE, &claim), LLM_OK);
    assert_int_equal(llm_topic_abort(limited), LLM_ESTATE);
    assert_int_equal(llm_topic_abort(other), LLM_OK);
}

/* ------------------------------------------------------------------------------------------ invalid input */

static void said(int error, int expected, const char *text)
{
    assert_int_equal(error, expected);
    if (strstr(log_text, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, log_text);
    log_text[0] = '\0';
}

static void contradictory_rate_limits_are_refused(void **state)
{
    struct llm_transmitter *none = NULL;
    struct llm_rate rate;

    (void)state;
    ends_open("loop", "&rate_bytes_per_s=1M", "");
    said(limit_topic(limited, RATE + 1), LLM_EINVAL, "more than its transmitter may send, 1048576");
    assert_int_equal(limit_topic(limited, RATE), LLM_OK);
    said(limit_transmitter(RATE - 1, 0), LLM_EINVAL,
         "less than topic \"limited\" alone may send, 1048576: lower that first");
    assert_int_equal(limit_topic(limited, 0), LLM_OK);
    assert_int_equal(limit_transmitter(RATE - 1, 0), LLM_OK);
    said(limit_transmitter(1, 0), LLM_EINVAL, "bytes_per_s: 1 is neither 0");
    said(limit_transmitter(0, 65535), LLM_EINVAL, "repair_bytes_per_s: 65535 is neither 0");
    said(limit_topic(limited, UINT64_MAX), LLM_EINVAL, "is neither 0");
    llm_rate_init(&rate);
    rate.repair_bytes_per_s = RATE;
    said(llm_topic_limit_rate(limited, &rate), LLM_EINVAL, "packets are repaired");
    rate.size = 1;
    said(llm_topic_limit_rate(limited, &rate), LLM_EINVAL, "struct llm_rate");
    assert_int_equal(llm_topic_limit_rate(limited, NULL), LLM_EINVAL);
    assert_int_equal(llm_topic_limit_rate(NULL, &rate), LLM_EINVAL);
    assert_int_equal(llm_transmitter_limit_rate(NULL, &rate), LLM_EINVAL);
    assert_int_equal(llm_transmitter_limit_rate(transmitter, NULL), LLM_EINVAL);
    said(llm_transmitter_open(near, "loop://rate:2" OPTIONS "&rate_bytes_per_s=1000", NULL, NULL, &none),
         LLM_EOPTION, "rate_bytes_per_s: 1000 is neither 0, no limit, nor at least 65536");
    said(llm_transmitter_open(near, "loop://rate:2" OPTIONS "&repair_rate_bytes_per_s=1000", NULL, NULL,
                              &none),
         LLM_EOPTION, "repair_rate_bytes_per_s: 1000");
    said(llm_transmitter_open(
             near, "loop://rate:2" OPTIONS "&flow=paced&flow_bytes_per_s_max=2M&rate_bytes_per_s=1M", NULL,
             NULL, &none),
         LLM_EOPTION, "option flow_bytes_per_s_max: 2097152 is more than rate_bytes_per_s, 1048576");
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_rate_limit_applies_to_new_data_and_is_the_bottleneck, contexts_open,
                                        contexts_close),
        cmocka_unit_test_setup_teardown(the_limit_changes_while_messages_flow, contexts_open, contexts_close),
        cmocka_unit_test_setup_teardown(window_flow_control_may_have_a_rate_limit, contexts_open,
                                        contexts_close),
        cmocka_unit_test_setup_teardown(pacing_stays_below_the_rate_limit, contexts_open, contexts_close),
        cmocka_unit_test_setup_teardown(repairs_have_a_separate_rate_limit, contexts_open, contexts_close),
        cmocka_unit_test_setup_teardown(packets_blocked_by_a_rate_limit_are_full, contexts_open,
                                        contexts_close),
        cmocka_unit_test_setup_teardown(packets_blocked_by_pacing_are_full, contexts_open, contexts_close),
        cmocka_unit_test_setup_teardown(packets_blocked_by_a_window_are_full, contexts_open, contexts_close),
        cmocka_unit_test_setup_teardown(messages_blocked_by_a_rate_limit_leave_in_time, contexts_open,
                                        contexts_close),
        cmocka_unit_test_setup_teardown(messages_blocked_by_pacing_leave_in_time, contexts_open,
                                        contexts_close),
        cmocka_unit_test_setup_teardown(messages_blocked_by_a_window_leave_with_the_next_reports,
                                        contexts_open, contexts_close),
        cmocka_unit_test_setup_teardown(a_sleeper_is_not_woken_for_a_blocked_packet, contexts_open,
                                        contexts_close),
        cmocka_unit_test_setup_teardown(a_blocked_topic_does_not_block_other_topics, contexts_open,
                                        contexts_close),
        cmocka_unit_test_setup_teardown(a_sleeper_is_woken_when_a_topic_may_send_again, contexts_open,
                                        contexts_close),
        cmocka_unit_test_setup_teardown(a_sleeper_is_woken_for_the_earlier_of_two_blocked_topics,
                                        contexts_open, contexts_close),
        cmocka_unit_test_setup_teardown(a_topic_may_be_assured_and_limited, contexts_open, contexts_close),
        cmocka_unit_test_setup_teardown(claims_are_rate_limited_like_messages, contexts_open, contexts_close),
        cmocka_unit_test_setup_teardown(contradictory_rate_limits_are_refused, contexts_open, contexts_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
