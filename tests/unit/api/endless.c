/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More sessions and topics than a receiver has room for: the rule by which they are refused, and the
 * counters.
 */
#include "counter.h"
#include "unit.h"

#include <llm/llm.h>
#include <stdio.h>

#define CHANNEL                                                                                            \
    "loop://"                                                                                              \
    "endless:1?mtu=1500&linger_ns=0&history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=2" \
    "&message_bytes_max=64K&window_packets=64&receivers_max=4&rcvbuf_bytes=1M"

enum { SESSIONS_MAX = 2, TOPICS_MAX = 8, TOPICS = 40, ROW = 200 };

static struct llm_context *context;
static struct llm_receiver *receiver;
static char logged[4096];
static int messages, unnamed, topics_new, sessions_new, sessions_ended;
static uint64_t latest; /* session of the latest message */

static void log_keep(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    snprintf(logged, sizeof logged, "%s", text);
}

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    messages++;
    unnamed += message->topic[0] == '\0';
    latest = message->session;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    assert_int_not_equal(event->kind, LLM_EVENT_GAP);
    topics_new += event->kind == LLM_EVENT_TOPIC_NEW;
    sessions_new += event->kind == LLM_EVENT_SESSION_NEW;
    sessions_ended += event->kind == LLM_EVENT_SESSION_END;
}

static int up(void **state)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;

    (void)state;
    messages = unnamed = topics_new = sessions_new = sessions_ended = 0;
    logged[0] = '\0';
    llm_context_options_init(&options);
    options.log = log_keep;
    options.huge_pages = false;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(context, CHANNEL "&topics_max=8", NULL, &handlers, &receiver), LLM_OK);
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&context), LLM_OK);
    return 0;
}

static void poll_some(void)
{
    for (int i = 0; i < 20; i++)
        assert_true(llm_poll(context) >= 0);
}

static struct llm_transmitter *transmit(struct llm_topic **topic)
{
    struct llm_transmitter *transmitter;

    assert_int_equal(llm_transmitter_open(context, CHANNEL "&topics_max=64", NULL, NULL, &transmitter),
                     LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "topic", 0, topic), LLM_OK);
    assert_int_equal(llm_send(*topic, "x", 1, LLM_SEND_NOW), LLM_OK);
    poll_some();
    return transmitter;
}

/* Followed sessions stay; an ended one makes room, also for an older session. */
static void a_session_beyond_the_limit_is_followed_when_another_ends(void **state)
{
    struct llm_transmitter *transmitters[SESSIONS_MAX + 1];
    struct llm_topic *topics[SESSIONS_MAX + 1];
    const uint64_t until = llm_clock() + UINT64_C(20000000000);

    (void)state;
    for (int i = 0; i <= SESSIONS_MAX; i++)
        transmitters[i] = transmit(&topics[i]);
    assert_int_equal(messages, SESSIONS_MAX);
    assert_int_equal(sessions_new, SESSIONS_MAX);
    assert_int_equal(counter_of(context, "sessions"), SESSIONS_MAX);
    assert_true(counter_of(context, "sessions_dropped") > 0);
    assert_non_null(strstr(logged, "more than sessions_max=2 sessions at a time"));
    assert_non_null(strstr(logged, "raise it"));
    logged[0] = '\0';
    for (int i = 0; i < SESSIONS_MAX; i++)
        assert_int_equal(llm_send(topics[i], "y", 1, LLM_SEND_NOW), LLM_OK);
    poll_some();
    assert_int_equal(messages, 2 * SESSIONS_MAX);
    /* The refusal is logged once. */
    assert_string_equal(logged, "");
    assert_true(llm_transmitter_close(&transmitters[0]) >= 0);
    while (latest != llm_transmitter_session(transmitters[SESSIONS_MAX])) {
        assert_true(llm_clock() < until);
        assert_int_equal(llm_send(topics[SESSIONS_MAX], "z", 1, LLM_SEND_NOW), LLM_OK);
        poll_some();
    }
    assert_int_equal(sessions_new, SESSIONS_MAX + 1);
    assert_int_equal(sessions_ended, 1);
    assert_int_equal(counter_of(context, "sessions"), SESSIONS_MAX);
}

static void an_endless_stream_of_sessions_is_followed_one_after_the_other(void **state)
{
    (void)state;
    for (int i = 1; i <= ROW; i++) {
        struct llm_topic *topic;
        struct llm_transmitter *transmitter = transmit(&topic);

        assert_int_equal(messages, i);
        assert_true(llm_transmitter_close(&transmitter) >= 0);
        poll_some();
        assert_in_range(counter_of(context, "sessions"), 0, SESSIONS_MAX);
    }
    assert_int_equal(sessions_new, ROW);
    assert_int_equal(sessions_ended, ROW);
    assert_int_equal(counter_of(context, "sessions_dropped"), 0);
}

/* Opens this many more topics, with names of this length, and sends a message on each. */
static void send_on(struct llm_transmitter *transmitter, int count, int size)
{
    struct llm_topic *topic;
    char name[256];

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%0*d", size, i);
        assert_int_equal(llm_topic_open(transmitter, name, 0, &topic), LLM_OK);
        assert_int_equal(llm_send(topic, "x", 1, 0), LLM_OK);
        poll_some();
    }
}

/* A topic without a name may be wanted: its messages are delivered and counted. */
static void messages_of_topics_beyond_the_limit_have_no_topic_name(void **state)
{
    struct llm_topic *topic;
    struct llm_transmitter *transmitter = transmit(&topic);

    (void)state;
    send_on(transmitter, TOPICS - 1, 10);
    assert_int_equal(messages, TOPICS);
    assert_int_equal(topics_new, TOPICS_MAX);
    assert_int_equal(unnamed, TOPICS - TOPICS_MAX);
    assert_int_equal(counter_of(context, "topics_unknown"), TOPICS - TOPICS_MAX);
}

static void topic_names_beyond_the_memory_are_left_out(void **state)
{
    struct llm_topic *topic;
    struct llm_transmitter *transmitter = transmit(&topic);

    (void)state;
    send_on(transmitter, TOPICS_MAX - 1, 255);
    assert_int_equal(messages, TOPICS_MAX);
    assert_in_range(topics_new, 2, TOPICS_MAX - 1);
    assert_int_equal(unnamed, TOPICS_MAX - topics_new);
    assert_int_equal(counter_of(context, "topics_unknown"), unnamed);
}

static void subscriptions_apply_to_topics_with_names_only(void **state)
{
    struct llm_topic *topic;
    struct llm_transmitter *transmitter;

    (void)state;
    assert_int_equal(llm_receiver_subscribe(receiver, "0000000003"), LLM_OK);
    transmitter = transmit(&topic);
    send_on(transmitter, TOPICS - 1, 10);
    assert_int_equal(topics_new, 1);
    assert_int_equal(messages, 1 + TOPICS - TOPICS_MAX);
    assert_int_equal(counter_of(context, "messages_refused"), TOPICS_MAX - 1);
    assert_int_equal(counter_of(context, "topics_unknown"), TOPICS - TOPICS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_session_beyond_the_limit_is_followed_when_another_ends, up, down),
        cmocka_unit_test_setup_teardown(an_endless_stream_of_sessions_is_followed_one_after_the_other, up,
                                        down),
        cmocka_unit_test_setup_teardown(messages_of_topics_beyond_the_limit_have_no_topic_name, up, down),
        cmocka_unit_test_setup_teardown(topic_names_beyond_the_memory_are_left_out, up, down),
        cmocka_unit_test_setup_teardown(subscriptions_apply_to_topics_with_names_only, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
