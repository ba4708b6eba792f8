/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of transmitters that restart, through the public API, over the loop transport. */
#include <llm/llm.h>
#include <stdio.h>

#include "counter.h"
#include "log_lines.h"

#include "core/stream/stream.h"

#define CHANNEL                                                                           \
    "loop://streams:1?mtu=1500&linger_ns=100000000&history_bytes=1M&history_packets=256&" \
    "reorder_bytes=64K&sessions_max=4&message_bytes_max=64K&topics_max=8&window_packets=64&rcvbuf_bytes=4M"

enum { EVENTS_MAX = 32, NUMBERS_MAX = 64 };

static struct llm_context *context;
static struct llm_receiver *receiver;
/* Events about sessions and streams, and the numbers of the messages in the stream, in order. */
static struct llm_event events[EVENTS_MAX];
static int events_count;
static uint64_t numbers[NUMBERS_MAX];
static int numbers_count;
static uint64_t base; /* of the session followed last */
static bool merge;    /* the sessions are merged: messages have numbers of the stream */

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    assert_true(numbers_count < NUMBERS_MAX);
    numbers[numbers_count++] = (merge ? 0 : base) + message->number;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_TOPIC_NEW || event->kind == LLM_EVENT_HEARTBEAT_LOST)
        return;
    assert_true(events_count < EVENTS_MAX);
    events[events_count++] = *event;
    if (event->kind == LLM_EVENT_SESSION_NEW)
        base = event->stream_base;
}

static void receiver_up(bool events_handled)
{
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = events_handled ? on_event : NULL;
    assert_int_equal(llm_receiver_open(context, CHANNEL, NULL, &handlers, &receiver), LLM_OK);
}

static int up(void **state)
{
    struct llm_context_options options;

    (void)state;
    llm_context_options_init(&options);
    options.log = log_keep;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    merge = false;
    events_count = numbers_count = 0;
    log_text[0] = '\0';
    receiver_up(true);
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&context), LLM_OK);
    return 0;
}

static struct llm_transmitter *transmitter_up(uint64_t stream_base, uint32_t term)
{
    struct llm_transmitter *transmitter;
    struct llm_options options;

    llm_options_init(&options);
    (void)snprintf(options.stream, sizeof options.stream, "orders");
    options.stream_base = stream_base;
    options.stream_term = term;
    options.stream_merge = merge;
    assert_int_equal(llm_transmitter_open(context, CHANNEL, &options, NULL, &transmitter), LLM_OK);
    return transmitter;
}

static void poll_until(const int *count, int wanted)
{
    const uint64_t began = llm_clock();

    while (*count < wanted) {
        assert_true(llm_clock() < began + UINT64_C(20000000000));
        assert_true(llm_poll(context) >= 0);
    }
}

/* Sends messages on a topic of their own. */
static void send_messages(struct llm_transmitter *transmitter, int count)
{
    static int topics;
    struct llm_topic *topic;
    char name[32];

    (void)snprintf(name, sizeof name, "topic %d", topics++);
    assert_int_equal(llm_topic_open(transmitter, name, 0, &topic), LLM_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(llm_send(topic, "x", 1, 0), LLM_OK);
}

/* One life of the transmitter, which sends so many messages, all of which arrive. */
static void live(uint64_t stream_base, uint32_t term, int count)
{
    struct llm_transmitter *transmitter = transmitter_up(stream_base, term);
    const int wanted = numbers_count + count;

    send_messages(transmitter, count);
    poll_until(&numbers_count, wanted);
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
}

static void expect_event(int index, enum llm_event_kind kind, enum llm_reason reason, uint64_t first,
                         uint64_t last)
{
    assert_true(index < events_count);
    assert_int_equal(events[index].kind, kind);
    assert_int_equal(events[index].reason, reason);
    assert_int_equal(events[index].first, first);
    assert_int_equal(events[index].last, last);
}

static void expect_stream(int index, uint64_t stream_base, uint32_t term)
{
    assert_int_equal(events[index].stream, lli_stream_id("orders"));
    assert_int_equal(events[index].stream_base, stream_base);
    assert_int_equal(events[index].stream_term, term);
}

static void numbers_go_on_across_restarts(void **state)
{
    (void)state;
    live(0, 1, 3);
    live(3, 2, 2);
    assert_int_equal(numbers_count, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(numbers[i], i);
    assert_int_equal(events_count, 4);
    expect_event(0, LLM_EVENT_SESSION_NEW, LLM_REASON_NONE, 0, 0);
    expect_stream(0, 0, 1);
    expect_event(1, LLM_EVENT_SESSION_END, LLM_REASON_CLOSED, 3, 0);
    expect_event(2, LLM_EVENT_SESSION_NEW, LLM_REASON_NONE, 0, 0);
    expect_stream(2, 3, 2);
    assert_int_equal(counter_of(context, "streams_continued"), 1);
}

static void missing_and_repeated_numbers_are_reported(void **state)
{
    (void)state;
    live(10, 1, 3);
    live(15, 2, 2);
    live(14, 3, 1);
    assert_int_equal(events_count, 8);
    expect_event(3, LLM_EVENT_STREAM_GAP, LLM_REASON_RESTARTED, 13, 14);
    expect_stream(3, 15, 2);
    expect_event(6, LLM_EVENT_STREAM_AGAIN, LLM_REASON_RESTARTED, 14, 16);
    expect_stream(6, 14, 3);
    assert_int_equal(numbers[numbers_count - 1], 14);
    assert_int_equal(counter_of(context, "stream_messages_missing"), 2);
    assert_int_equal(counter_of(context, "stream_messages_again"), 3);
}

static void a_lower_term_is_refused(void **state)
{
    struct llm_transmitter *late;

    (void)state;
    live(0, 5, 1);
    late = transmitter_up(1, 4);
    send_messages(late, 1);
    poll_until(&events_count, 3);
    expect_event(2, LLM_EVENT_STREAM_REFUSED, LLM_REASON_SUPERSEDED, 0, 0);
    expect_stream(2, 1, 4);
    assert_int_equal(events[2].session, llm_transmitter_session(late));
    assert_int_equal(counter_of(context, "stream_sessions_refused"), 1);
    (void)llm_transmitter_close(&late);
    assert_int_equal(numbers_count, 1);
}

static void a_higher_term_ends_a_session_that_is_alive(void **state)
{
    struct llm_transmitter *first = transmitter_up(0, 1), *second;

    (void)state;
    send_messages(first, 4);
    poll_until(&numbers_count, 4);
    second = transmitter_up(4, 2);
    send_messages(second, 1);
    poll_until(&numbers_count, 5);
    assert_int_equal(numbers[4], 4);
    assert_int_equal(events_count, 3);
    expect_event(1, LLM_EVENT_SESSION_END, LLM_REASON_SUPERSEDED, 4, 0);
    expect_event(2, LLM_EVENT_SESSION_NEW, LLM_REASON_NONE, 0, 0);
    /* Messages that the first sends from now on are not delivered. */
    send_messages(first, 1);
    send_messages(second, 1);
    poll_until(&numbers_count, 6);
    assert_int_equal(numbers[5], 5);
    (void)llm_transmitter_close(&first);
    assert_int_equal(llm_transmitter_close(&second), 0);
    assert_int_equal(numbers_count, 6);
}

static void of_two_sessions_of_a_term_the_second_waits_for_the_first(void **state)
{
    struct llm_transmitter *first = transmitter_up(0, 1), *second;

    (void)state;
    send_messages(first, 2);
    poll_until(&numbers_count, 2);
    second = transmitter_up(2, 1);
    send_messages(second, 1);
    poll_until(&events_count, 2);
    expect_event(1, LLM_EVENT_STREAM_REFUSED, LLM_REASON_TERM_TAKEN, 0, 0);
    assert_int_equal(llm_transmitter_close(&first), 0);
    poll_until(&numbers_count, 3);
    assert_int_equal(numbers[2], 2);
    assert_int_equal(events_count, 4);
    assert_int_equal(llm_transmitter_close(&second), 0);
}

static void two_transmitters_are_one_sequence(void **state)
{
    struct llm_transmitter *first, *second, *third;

    (void)state;
    merge = true;
    first = transmitter_up(10, 1);
    second = transmitter_up(10, 1);
    send_messages(first, 3);
    poll_until(&numbers_count, 3);
    send_messages(second, 5);
    poll_until(&numbers_count, 5);
    assert_int_equal(llm_transmitter_close(&first), 0);
    send_messages(second, 1);
    poll_until(&numbers_count, 6);
    /* The first starts again with the message that comes next in its input. */
    third = transmitter_up(16, 0);
    send_messages(third, 2);
    poll_until(&numbers_count, 8);
    send_messages(second, 3);
    poll_until(&numbers_count, 9);
    for (int i = 0; i < 9; i++)
        assert_int_equal(numbers[i], 10 + i);
    assert_int_equal(events_count, 4);
    expect_event(2, LLM_EVENT_SESSION_END, LLM_REASON_CLOSED, 3, 0);
    assert_int_equal(counter_of(context, "messages_copies"), 5);
    assert_int_equal(counter_of(context, "messages_delivered"), 9);
    assert_int_equal(llm_transmitter_close(&second), 0);
    assert_int_equal(llm_transmitter_close(&third), 0);
}

static void numbered(struct llm_topic *topic, uint64_t first, uint64_t end)
{
    for (uint64_t number = first; number < end; number++)
        assert_int_equal(llm_send_numbered(topic, number, "x", 1, 0), LLM_OK);
}

static struct llm_topic *topic_up(struct llm_transmitter *transmitter)
{
    struct llm_topic *topic;

    assert_int_equal(llm_topic_open(transmitter, "feed", 0, &topic), LLM_OK);
    return topic;
}

/* Each of two transmitters lacks messages of the feed, and both lack 16. */
static void what_one_transmitter_skips_the_other_has(void **state)
{
    struct llm_transmitter *first, *second;
    struct llm_topic *from_first, *from_second;

    (void)state;
    merge = true;
    first = transmitter_up(10, 0);
    second = transmitter_up(10, 0);
    from_first = topic_up(first);
    from_second = topic_up(second);
    numbered(from_first, 10, 12);
    numbered(from_first, 14, 16);
    numbered(from_first, 17, 19);
    poll_until(&numbers_count, 2);
    numbered(from_second, 10, 16);
    poll_until(&numbers_count, 6);
    numbered(from_second, 18, 20);
    poll_until(&numbers_count, 9);
    for (int i = 0; i < 9; i++)
        assert_int_equal(numbers[i], 10 + i + (i >= 6));
    assert_int_equal(events_count, 3);
    expect_event(2, LLM_EVENT_GAP, LLM_REASON_SKIPPED, 16, 16);
    assert_int_equal(counter_of(context, "messages_lost"), 1);
    assert_int_equal(llm_transmitter_next(first), 9);
    assert_int_equal(llm_transmitter_close(&first), 0);
    assert_int_equal(llm_transmitter_close(&second), 0);
}

static void a_receiver_of_one_session_is_told_what_it_skips(void **state)
{
    struct llm_transmitter *first = transmitter_up(100, 0);
    struct llm_topic *from_first = topic_up(first);

    (void)state;
    numbered(from_first, 103, 105);
    /* More than a packet skips. */
    numbered(from_first, 105 + 200000, 105 + 200001);
    poll_until(&numbers_count, 3);
    assert_int_equal(numbers[0], 103);
    assert_int_equal(numbers[2], 105 + 200000);
    assert_int_equal(events_count, 6);
    expect_event(1, LLM_EVENT_GAP, LLM_REASON_SKIPPED, 0, 2);
    expect_event(2, LLM_EVENT_GAP, LLM_REASON_SKIPPED, 5, 5 + 65535);
    expect_event(5, LLM_EVENT_GAP, LLM_REASON_SKIPPED, 5 + 3 * 65536, 5 + 199999);
    assert_int_equal(counter_of(context, "messages_lost"), 200003);
    assert_int_equal(llm_transmitter_close(&first), 0);
}

static void join_at_5(void *arg, uint64_t session, struct llm_join *join)
{
    (void)arg;
    (void)session;
    *join = (struct llm_join){.mode = LLM_JOIN_NUMBER, .value = 5};
}

static void a_joiner_gets_its_own_part_of_what_is_skipped(void **state)
{
    struct llm_transmitter *first = transmitter_up(0, 0);
    struct llm_topic *from_first = topic_up(first);
    struct llm_receiver_handlers handlers;
    struct llm_receiver *late;

    (void)state;
    numbered(from_first, 0, 2);
    numbered(from_first, 10, 12);
    poll_until(&numbers_count, 4);
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
    events_count = numbers_count = 0;
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    handlers.join = join_at_5;
    assert_int_equal(llm_receiver_open(context, CHANNEL, NULL, &handlers, &late), LLM_OK);
    poll_until(&numbers_count, 2);
    assert_int_equal(numbers[0], 10);
    expect_event(0, LLM_EVENT_SESSION_NEW, LLM_REASON_NONE, 5, 0);
    expect_event(1, LLM_EVENT_GAP, LLM_REASON_SKIPPED, 5, 9);
    assert_int_equal(llm_receiver_close(&late), LLM_OK);
    assert_int_equal(llm_transmitter_close(&first), 0);
}

static void numbers_that_cannot_be_set_are_refused(void **state)
{
    struct llm_transmitter *first = transmitter_up(10, 0);
    struct llm_topic *from_first = topic_up(first);
    static const uint8_t large[100000];

    (void)state;
    numbered(from_first, 12, 13);
    log_text[0] = '\0';
    assert_int_equal(llm_send_numbered(from_first, 12, "x", 1, 0), LLM_EINVAL);
    assert_int_equal(logged_count("number 12: 13 is next"), 1);
    assert_int_equal(llm_send_numbered(from_first, 14 + (1 << 24), "x", 1, 0), LLM_EINVAL);
    assert_int_equal(llm_send_numbered(from_first, 0, "x", 1, 0), LLM_EINVAL);
    /* Nothing is skipped by calls that can never succeed. */
    assert_int_equal(llm_send_numbered(from_first, 20, large, sizeof large, 0), LLM_EMSGSIZE);
    assert_int_equal(llm_send_numbered(from_first, 20, "x", 1, 64), LLM_EINVAL);
    assert_int_equal(llm_transmitter_next(first), 3);
    numbered(from_first, 13, 14);
    assert_int_equal(llm_transmitter_close(&first), 0);
}

static void events_of_streams_are_logged_without_a_handler(void **state)
{
    (void)state;
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
    receiver_up(false);
    live(0, 1, 1);
    live(3, 2, 1);
    assert_int_equal(logged_count("messages 1 to 2 of stream"), 1);
    assert_int_equal(logged_count("are missing: the transmitter restarted"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_go_on_across_restarts, up, down),
        cmocka_unit_test_setup_teardown(missing_and_repeated_numbers_are_reported, up, down),
        cmocka_unit_test_setup_teardown(a_lower_term_is_refused, up, down),
        cmocka_unit_test_setup_teardown(a_higher_term_ends_a_session_that_is_alive, up, down),
        cmocka_unit_test_setup_teardown(of_two_sessions_of_a_term_the_second_waits_for_the_first, up, down),
        cmocka_unit_test_setup_teardown(two_transmitters_are_one_sequence, up, down),
        cmocka_unit_test_setup_teardown(what_one_transmitter_skips_the_other_has, up, down),
        cmocka_unit_test_setup_teardown(a_receiver_of_one_session_is_told_what_it_skips, up, down),
        cmocka_unit_test_setup_teardown(a_joiner_gets_its_own_part_of_what_is_skipped, up, down),
        cmocka_unit_test_setup_teardown(numbers_that_cannot_be_set_are_refused, up, down),
        cmocka_unit_test_setup_teardown(events_of_streams_are_logged_without_a_handler, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
