/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bottleneck watch over whole contexts, on a simulated clock: each cause is provoked, and named, and no
 * other.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <stdio.h>
#include <time.h>

#include "engine/objects.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define OPTIONS                                                                                            \
    "?history_bytes=1M&history_packets=1024&reorder_bytes=1M&sessions_max=2&message_bytes_max=64K&topics_" \
    "max=8"                                                                                                \
    "&window_packets=1024&receivers_max=4&mtu=1500&linger_ns=0"

static uint64_t clock_now = 1000 * MS;

/* Replaces the library's clock: the program's own definition comes before that of libc. */
int clock_gettime(clockid_t clock, struct timespec *at)
{
    (void)clock;
    clock_now += 20;
    at->tv_sec = (time_t)(clock_now / 1000000000);
    at->tv_nsec = (long)(clock_now % 1000000000);
    return 0;
}

/* An end of a channel with the contents of its events. */
struct end {
    struct llm_context *context;
    uint64_t handler_ns; /* time that the handler takes for each message */
    uint64_t messages;
    unsigned named; /* bits of the limits in events */
    unsigned events;
    unsigned reported; /* bits of the limits reported by a receiver */
};

static struct end near, far;
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;
static struct llm_topic *topic;

static void on_message(void *arg, const struct llm_message *message)
{
    struct end *end = arg;

    (void)message;
    end->messages++;
    clock_now += end->handler_ns;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct end *end = arg;
    char text[256];

    if (event->kind == LLM_EVENT_RECEIVER_LIMITED) {
        assert_int_equal(event->bottleneck->receiver, receiver->config.receiver);
        end->reported |= 1u << event->bottleneck->limit;
        return;
    }
    if (event->kind != LLM_EVENT_LIMITED)
        return;
    assert_non_null(event->bottleneck);
    assert_true(llm_event_text(event, text, sizeof text) > 0);
    assert_non_null(strstr(text, llm_limit_name(event->bottleneck->limit)));
    end->named |= 1u << event->bottleneck->limit;
    end->events++;
}

static void end_open(struct end *end)
{
    struct llm_context_options options;

    *end = (struct end){.context = NULL};
    llm_context_options_init(&options);
    options.stats_directory = "";
    options.watch_ns = 100 * MS;
    assert_int_equal(llm_context_open(&options, &end->context), LLM_OK);
    end->context->moment = 0; /* the clock is simulated, the counter is not */
}

static void receiver_open(const char *scheme, const char *rx_options)
{
    struct llm_receiver_handlers handlers;
    char channel[512];

    llm_receiver_handlers_init(&handlers);
    handlers.arg = &far;
    handlers.message = on_message;
    handlers.event = on_event;
    (void)snprintf(channel, sizeof channel, "%s://watch:1" OPTIONS "%s", scheme, rx_options);
    assert_int_equal(llm_receiver_open(far.context, channel, NULL, &handlers, &receiver), LLM_OK);
}

static void transmitter_open(const char *tx_options)
{
    struct llm_transmitter_handlers tx_handlers;
    char channel[512];

    (void)snprintf(channel, sizeof channel, "loop://watch:1" OPTIONS "%s", tx_options);
    llm_transmitter_handlers_init(&tx_handlers);
    tx_handlers.arg = &near;
    tx_handlers.event = on_event;
    assert_int_equal(llm_transmitter_open(near.context, channel, NULL, &tx_handlers, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
}

/* Opens a transmitter at the near end and a receiver at the far one, with these options appended. */
static void ends_open(const char *scheme, const char *tx_options, const char *rx_options)
{
    end_open(&near);
    end_open(&far);
    receiver_open(scheme, rx_options);
    transmitter_open(tx_options);
}

static int ends_close(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&far.context), LLM_OK);
    return llm_context_close(&near.context);
}

/* For this many ms: sends messages, if accepted, and polls both ends. Returns how many were refused. */
static uint64_t flow(uint32_t ms, uint32_t messages, bool polls)
{
    static const uint8_t data[1000];
    uint64_t refused = 0;

    for (uint32_t i = 0; i < ms; i++) {
        const uint64_t until = clock_now + MS;

        for (uint32_t j = 0; j < messages; j++)
            refused += llm_send(topic, data, sizeof data, LLM_SEND_NOW) == LLM_EAGAIN;
        (void)llm_poll(near.context);
        /* Receives packets, then lets time pass in empty polls. */
        for (int j = 0; j < 10 && polls; j++)
            (void)llm_poll(far.context);
        clock_now = lli_max(clock_now, until);
    }
    return refused;
}

static enum llm_limit of_receiver(void)
{
    struct llm_bottleneck bottleneck;

    assert_int_equal(llm_receiver_bottleneck(receiver, &bottleneck), LLM_OK);
    return bottleneck.limit;
}

static enum llm_limit of_transmitter(void)
{
    struct llm_bottleneck bottleneck;

    assert_int_equal(llm_transmitter_bottleneck(transmitter, &bottleneck), LLM_OK);
    return bottleneck.limit;
}

/* ---------------------------------------------------------------------------------------------- receivers */

static void a_stream_without_bottleneck_gives_no_event(void **state)
{
    struct llm_bottleneck bottleneck;

    (void)state;
    ends_open("loop", "", "");
    flow(1000, 2, true);
    assert_int_equal(far.messages, 2000);
    assert_int_equal(near.events + far.events, 0);
    assert_int_equal(of_transmitter(), LLM_LIMIT_NONE);
    assert_int_equal(llm_receiver_bottleneck(receiver, &bottleneck), LLM_OK);
    assert_int_equal(bottleneck.limit, LLM_LIMIT_NONE);
    assert_true(bottleneck.packets > 150 && bottleneck.packets < 250);
    assert_true(bottleneck.time_ns >= 100 * MS && bottleneck.time_ns < 110 * MS);
}

/* The receiver requests earlier packets, which the network did not lose. */
static void packets_before_a_join_in_the_first_second_are_no_loss(void **state)
{
    uint64_t missed = 1, recovered = 0;

    (void)state;
    end_open(&near);
    end_open(&far);
    transmitter_open("");
    flow(300, 1, false);
    receiver_open("loop", "");
    flow(200, 0, true);
    flow(300, 1, true);
    assert_int_equal(far.messages, 600);
    assert_int_equal(llm_context_counter(far.context, "packets_missed", &missed), LLM_OK);
    assert_int_equal(llm_context_counter(far.context, "packets_recovered", &recovered), LLM_OK);
    assert_int_equal(missed, 0);
    assert_true(recovered > 0);
    assert_int_equal(near.events + far.events, 0);
}

static void a_slow_handler_is_named_until_it_is_fast(void **state)
{
    (void)state;
    ends_open("loop", "", "");
    far.handler_ns = 2 * MS;
    flow(500, 2, true);
    assert_int_equal(of_receiver(), LLM_LIMIT_APPLICATION);
    assert_int_equal(far.named, 1u << LLM_LIMIT_APPLICATION);
    assert_int_equal(far.events, 1);
    far.handler_ns = 0;
    for (int i = 0; i < 200; i++)
        (void)llm_poll(far.context);
    flow(500, 2, true);
    assert_int_equal(of_receiver(), LLM_LIMIT_NONE);
    assert_int_equal(far.events, 2);
    assert_int_equal(near.events, 0);
}

static void bursts_that_overflow_the_buffer_are_named(void **state)
{
    struct llm_bottleneck bottleneck;

    (void)state;
    ends_open("loop", "", "&rcvbuf_bytes=4096");
    for (int i = 0; i < 20; i++) {
        flow(1, 400, true);
        flow(20, 0, true);
    }
    assert_int_equal(llm_receiver_bottleneck(receiver, &bottleneck), LLM_OK);
    assert_int_equal(bottleneck.limit, LLM_LIMIT_BUFFER);
    assert_true(bottleneck.packets_dropped > 0 && bottleneck.packets_missed > 0);
    assert_int_equal(far.named, 1u << LLM_LIMIT_BUFFER);
    assert_int_equal(near.events, 0);
}

/* The same drops, while the application was away for long. */
static void an_absent_application_is_named_for_its_overflows(void **state)
{
    (void)state;
    ends_open("loop", "", "&rcvbuf_bytes=4096");
    flow(50, 1, true);
    for (int i = 0; i < 5; i++) {
        flow(1, 1, true);
        (void)llm_send(topic, "x", 1, LLM_SEND_NOW);
        (void)llm_poll(far.context);
        flow(60, 10, false);
        flow(60, 0, true);
    }
    assert_int_equal(far.named & (1u << LLM_LIMIT_BUFFER | 1u << LLM_LIMIT_NETWORK), 0);
    assert_true(far.named & 1u << LLM_LIMIT_APPLICATION);
}

/* The interval ends when the application polls again; the drops are found missing in the next interval. */
static void an_absent_application_is_named_for_losses_found_later(void **state)
{
    (void)state;
    ends_open("loop", "", "&rcvbuf_bytes=4096");
    flow(50, 1, true);
    (void)llm_send(topic, "x", 1, LLM_SEND_NOW);
    (void)llm_poll(far.context);
    flow(60, 10, false);
    flow(300, 0, true);
    assert_int_equal(far.named, 1u << LLM_LIMIT_NONE | 1u << LLM_LIMIT_APPLICATION);
}

/* A burst overflows the buffer at the end of each interval, so its losses are found in the next one. */
static void drops_explain_missing_packets_of_the_next_interval(void **state)
{
    static const uint8_t data[1000];

    (void)state;
    ends_open("loop", "", "&rcvbuf_bytes=4096");
    flow(50, 1, true);
    for (int i = 0; i < 3; i++) {
        clock_now += 100 * MS;
        for (int j = 0; j < 400; j++)
            (void)llm_send(topic, data, sizeof data, LLM_SEND_NOW);
        (void)llm_poll(far.context);
        flow(20, 0, true);
    }
    clock_now += 100 * MS;
    flow(10, 0, true);
    assert_int_equal(far.named & ~1u, 1u << LLM_LIMIT_BUFFER);
}

static void a_lossy_network_is_named(void **state)
{
    (void)state;
    ends_open("impair+loop", "", "&impair_loss_ppm=50000");
    flow(1000, 5, true);
    assert_int_equal(of_receiver(), LLM_LIMIT_NETWORK);
    assert_int_equal(far.named, 1u << LLM_LIMIT_NETWORK);
    assert_int_equal(of_transmitter(), LLM_LIMIT_NONE);
}

/* ------------------------------------------------------------------------------------------- transmitters */

static void a_window_without_reports_is_named(void **state)
{
    struct llm_bottleneck bottleneck;
    uint64_t held = 0, again = 0;

    (void)state;
    ends_open("loop", "&flow=window&flow_window_packets=64&status_ns=60000000000", "&status_ns=60000000000");
    flow(50, 1, true);
    assert_true(flow(500, 20, false) > 0);
    assert_int_equal(llm_transmitter_bottleneck(transmitter, &bottleneck), LLM_OK);
    assert_int_equal(bottleneck.limit, LLM_LIMIT_WINDOW);
    assert_true(bottleneck.window_ns > bottleneck.time_ns / 2);
    assert_int_equal(bottleneck.transport_ns, 0);
    assert_int_equal(near.named, 1u << LLM_LIMIT_WINDOW);
    assert_int_equal(llm_context_counter(near.context, "send_blocked_flow", &held), LLM_OK);
    assert_int_equal(llm_context_counter(near.context, "send_blocked", &again), LLM_OK);
    assert_true(held > 0 && held == again);
    flow(500, 1, true);
    assert_int_equal(of_transmitter(), LLM_LIMIT_NONE);
    assert_int_equal(near.events, 2);
}

static void unacknowledged_messages_are_named(void **state)
{
    struct llm_assurance assurance;
    uint64_t unacknowledged = 0;

    (void)state;
    ends_open("loop", "", "");
    llm_assurance_init(&assurance);
    assurance.receivers = 2;
    assurance.messages_max = 8;
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    assert_true(flow(500, 2, true) > 0);
    assert_int_equal(of_transmitter(), LLM_LIMIT_HISTORY);
    assert_int_equal(near.named, 1u << LLM_LIMIT_HISTORY);
    assert_int_equal(llm_context_counter(near.context, "send_blocked_unacknowledged", &unacknowledged),
                     LLM_OK);
    assert_true(unacknowledged > 0);
    assert_int_equal(of_receiver(), LLM_LIMIT_NONE);
}

static int stuck_flush(void *instance)
{
    (void)instance;
    return LLM_EAGAIN;
}

static void a_blocked_transport_is_named(void **state)
{
    struct lli_endpoint *endpoint;
    const struct lli_transport *transport;
    struct lli_transport stuck;
    uint64_t blocked = 0;

    (void)state;
    ends_open("loop", "", "");
    flow(50, 1, true);
    endpoint = transmitter->endpoint;
    transport = endpoint->transport;
    stuck = *transport;
    stuck.flush = stuck_flush;
    endpoint->transport = &stuck;
    assert_true(flow(500, 20, true) > 0);
    endpoint->transport = transport;
    assert_int_equal(of_transmitter(), LLM_LIMIT_TRANSPORT);
    assert_int_equal(near.named, 1u << LLM_LIMIT_TRANSPORT);
    assert_int_equal(llm_context_counter(near.context, "send_blocked_transport", &blocked), LLM_OK);
    assert_true(blocked > 0);
    flow(500, 1, true);
    assert_int_equal(of_transmitter(), LLM_LIMIT_NONE);
}

static void bottlenecks_of_a_receiver_are_reported_to_its_transmitter(void **state)
{
    struct llm_congestion of[2] = {{.receiver = 0}};
    struct llm_bottleneck own;

    (void)state;
    ends_open("loop", "", "");
    flow(50, 2, true);
    assert_int_equal(llm_transmitter_congestion(transmitter, of, 2), 1);
    assert_int_equal(of[0].receiver, receiver->config.receiver);
    assert_false(of[0].reports);
    far.handler_ns = 2 * MS;
    flow(500, 2, true);
    assert_int_equal(near.reported, 1u << LLM_LIMIT_APPLICATION);
    assert_int_equal(llm_transmitter_congestion(transmitter, NULL, 0), 1);
    assert_int_equal(llm_transmitter_congestion(transmitter, of, 2), 1);
    assert_int_equal(of[1].receiver, 0);
    assert_true(of[0].reports);
    assert_int_equal(llm_receiver_bottleneck(receiver, &own), LLM_OK);
    assert_int_equal(of[0].bottleneck.limit, own.limit);
    assert_true(of[0].bottleneck.away_ns > of[0].bottleneck.time_ns / 10 * 9);
    assert_true(of[0].rtt_ns > 0 && of[0].heard_at > 0 && of[0].window_packets > 0);
    assert_int_equal(llm_transmitter_congestion(NULL, of, 1), LLM_EINVAL);
    assert_int_equal(llm_transmitter_congestion(transmitter, NULL, 1), LLM_EINVAL);
    assert_int_equal(llm_transmitter_congestion(transmitter, of, -1), LLM_EINVAL);
}

/* ---------------------------------------------------------------------------------------------------- api */

static void the_watch_runs_only_if_configured(void **state)
{
    struct llm_context_options options;
    struct llm_context *context = NULL;
    struct llm_bottleneck bottleneck;
    struct llm_receiver_handlers handlers;
    struct llm_receiver *one = NULL;
    uint64_t value;

    (void)state;
    ends_open("loop", "", "");
    assert_int_equal(llm_receiver_bottleneck(receiver, &bottleneck), LLM_EAGAIN);
    assert_int_equal(llm_transmitter_bottleneck(transmitter, &bottleneck), LLM_EAGAIN);
    assert_int_equal(llm_receiver_bottleneck(NULL, &bottleneck), LLM_EINVAL);
    assert_int_equal(llm_transmitter_bottleneck(transmitter, NULL), LLM_EINVAL);
    llm_context_options_init(&options);
    options.stats_directory = "";
    options.log_level = LLM_LEVEL_ERROR;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    llm_receiver_handlers_init(&handlers);
    assert_int_equal(llm_receiver_open(context, "loop://watch:1" OPTIONS, NULL, &handlers, &one), LLM_OK);
    assert_int_equal(llm_receiver_bottleneck(one, &bottleneck), LLM_ESTATE);
    assert_int_equal(llm_context_counter(context, "limited_by", &value), LLM_ENOTFOUND);
    assert_int_equal(llm_context_close(&context), LLM_OK);
    flow(200, 1, true);
    assert_int_equal(llm_context_counter(far.context, "limited_by", &value), LLM_OK);
    assert_int_equal(value, LLM_LIMIT_NONE);
}

static void log_note(void *arg, enum llm_level level, const char *text)
{
    (void)level;
    (void)snprintf(arg, 256, "%s", text);
}

static void an_interval_out_of_its_range_is_refused(void **state)
{
    static const uint64_t wrong[] = {1, MS - 1, 60000 * MS + 1};
    struct llm_context_options options;
    struct llm_context *context = NULL;
    char text[256] = "";

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        llm_context_options_init(&options);
        options.log = log_note;
        options.log_arg = text;
        options.watch_ns = wrong[i];
        assert_int_equal(llm_context_open(&options, &context), LLM_EINVAL);
        assert_null(context);
        assert_non_null(strstr(text, "watch_ns"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_stream_without_bottleneck_gives_no_event, ends_close),
        cmocka_unit_test_teardown(packets_before_a_join_in_the_first_second_are_no_loss, ends_close),
        cmocka_unit_test_teardown(a_slow_handler_is_named_until_it_is_fast, ends_close),
        cmocka_unit_test_teardown(bursts_that_overflow_the_buffer_are_named, ends_close),
        cmocka_unit_test_teardown(an_absent_application_is_named_for_its_overflows, ends_close),
        cmocka_unit_test_teardown(an_absent_application_is_named_for_losses_found_later, ends_close),
        cmocka_unit_test_teardown(drops_explain_missing_packets_of_the_next_interval, ends_close),
        cmocka_unit_test_teardown(a_lossy_network_is_named, ends_close),
        cmocka_unit_test_teardown(a_window_without_reports_is_named, ends_close),
        cmocka_unit_test_teardown(unacknowledged_messages_are_named, ends_close),
        cmocka_unit_test_teardown(a_blocked_transport_is_named, ends_close),
        cmocka_unit_test_teardown(bottlenecks_of_a_receiver_are_reported_to_its_transmitter, ends_close),
        cmocka_unit_test_teardown(the_watch_runs_only_if_configured, ends_close),
        cmocka_unit_test(an_interval_out_of_its_range_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
