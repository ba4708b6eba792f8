/* SPDX-License-Identifier: Apache-2.0 */
/* Cached topics through the public API, over the loop transport. */
#include "counter.h"
#include "logged.h"

#include <llm/llm.h>
#include <stdio.h>

/* A history so small that no joining receiver begins at the session's start. */
#define CHANNEL                                                                                            \
    "loop://"                                                                                              \
    "keeping:1?mtu=1500&linger_ns=0&history_bytes=64K&history_packets=64&reorder_bytes=64K&sessions_max=2" \
    "&message_bytes_max=32K&topics_max=32&window_packets=64&receivers_max=4&rcvbuf_bytes=4M&cache_bytes=64K"

static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;
static struct llm_topic *topic, *filler;
static struct llm_cache lvc;
static char got[64][64]; /* topic and text of messages, without those of the filler topic */
static int messages, lives;
static uint32_t label;
static struct llm_event refused;

static void on_message(void *arg, const struct llm_message *message)
{
    struct llm_attributes attributes;

    (void)arg;
    llm_attributes_init(&attributes);
    if (strcmp(message->topic, "filler") == 0)
        return;
    assert_true(messages < 64);
    snprintf(got[messages++], sizeof got[0], "%s %.*s", message->topic, (int)lli_min(message->size, 30),
             (const char *)message->data);
    if (llm_message_attributes(receiver, message, &attributes) == LLM_OK)
        label = attributes.label;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    lives += event->kind == LLM_EVENT_LIVE;
    if (event->kind == LLM_EVENT_JOIN_REFUSED)
        refused = *event;
    assert_int_not_equal(event->kind, LLM_EVENT_CACHE_LOST);
}

static void join(const char *options)
{
    struct llm_receiver_handlers handlers;
    char channel[512];
    const uint64_t began = llm_clock();

    snprintf(channel, sizeof channel, "%s%s", CHANNEL, options);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &receiver), LLM_OK);
    while (lives == 0 && refused.kind == 0) {
        assert_true(llm_clock() < began + UINT64_C(20000000000));
        assert_true(llm_poll(context) >= 0);
    }
}

/* Displaces earlier messages from the history. */
static void forget(void)
{
    static const char bytes[1400];

    for (int i = 0; i < 200; i++)
        assert_int_equal(llm_send(filler, bytes, sizeof bytes, LLM_SEND_NOW), LLM_OK);
    assert_true(llm_poll(context) >= 0);
}

static int up(void **state)
{
    struct llm_context_options options;

    (void)state;
    llm_context_options_init(&options);
    options.log = log_keep;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "filler", 0, &filler), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "price", 0, &topic), LLM_OK);
    llm_cache_init(&lvc);
    refused = (struct llm_event){0};
    messages = lives = 0;
    label = 0;
    receiver = NULL;
    logged[0] = '\0';
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&context), LLM_OK);
    return 0;
}

static void text(struct llm_topic *to, const char *string)
{
    assert_int_equal(llm_send(to, string, strlen(string), 0), LLM_OK);
}

static void the_last_value_of_each_topic_does_not_need_the_history(void **state)
{
    struct llm_topic *other;

    (void)state;
    assert_int_equal(llm_topic_open(transmitter, "other", LLM_TOPIC_WHOLE, &other), LLM_OK);
    assert_int_equal(llm_topic_cache(topic, NULL), LLM_OK);
    lvc.messages = 2;
    assert_int_equal(llm_topic_cache(other, &lvc), LLM_OK);
    text(topic, "1");
    text(topic, "2");
    text(other, "a");
    text(other, "b");
    text(other, "c");
    forget();
    join("&join=latest");
    assert_int_equal(messages, 3);
    assert_string_equal(got[0], "price 2");
    assert_string_equal(got[1], "other b");
    assert_string_equal(got[2], "other c");
    text(topic, "3");
    while (messages < 4)
        assert_true(llm_poll(context) >= 0);
    assert_string_equal(got[3], "price 3");
    assert_int_equal(counter_of(context, "messages_cached"), 6);
    /* A receiver asks again if the answer is late. */
    assert_true(counter_of(context, "joins_granted") >= 2);
    assert_int_equal(counter_of(context, "cache_losses"), 0);
    assert_true(counter_of(context, "cache_packets_received") > 0);
}

static void join_messages_limits_the_cached_messages_of_each_topic(void **state)
{
    (void)state;
    lvc.messages = 3;
    assert_int_equal(llm_topic_cache(topic, &lvc), LLM_OK);
    for (const char *at = "12345"; *at != '\0'; at++)
        assert_int_equal(llm_send(topic, at, 1, 0), LLM_OK);
    forget();
    join("&join=latest&join_messages=2");
    assert_int_equal(messages, 2);
    assert_string_equal(got[0], "price 4");
}

static void gathered_claimed_and_labelled_messages_are_cached(void **state)
{
    const struct iovec pieces[] = {{(void *)(uintptr_t) "ga", 2}, {(void *)(uintptr_t) "thered", 6}};
    struct llm_attributes attributes;
    void *data;

    (void)state;
    lvc.messages = 3;
    assert_int_equal(llm_topic_cache(topic, &lvc), LLM_OK);
    assert_int_equal(llm_sendv(topic, pieces, 2, 0), LLM_OK);
    assert_int_equal(llm_topic_claim(topic, 20, &data), LLM_OK);
    memcpy(data, "claimed", 7);
    assert_int_equal(llm_topic_commit(topic, 7, 0), LLM_OK);
    llm_attributes_init(&attributes);
    attributes.label = 7;
    assert_int_equal(llm_send_with(topic, "labelled", 8, &attributes, 0), LLM_OK);
    forget();
    join("&join=latest");
    assert_int_equal(messages, 3);
    assert_string_equal(got[0], "price gathered");
    assert_string_equal(got[1], "price claimed");
    assert_string_equal(got[2], "price labelled");
}

static void messages_too_long_for_the_cache_are_refused(void **state)
{
    struct llm_attributes attributes;
    char bytes[64] = {0};
    void *data;

    (void)state;
    lvc.bytes_max = 20;
    assert_int_equal(llm_topic_cache(topic, &lvc), LLM_OK);
    assert_int_equal(llm_send(topic, bytes, 21, 0), LLM_EMSGSIZE);
    assert_int_equal(llm_topic_claim(topic, 21, &data), LLM_EMSGSIZE);
    llm_attributes_init(&attributes);
    assert_int_equal(llm_send_with(topic, bytes, 14, &attributes, 0), LLM_EMSGSIZE);
    assert_int_equal(llm_send_with(topic, bytes, 13, &attributes, 0), LLM_OK);
    assert_int_equal(llm_send(topic, bytes, 20, 0), LLM_OK);
    assert_int_equal(llm_send(topic, bytes, 0, 0), LLM_OK);
    assert_int_equal(counter_of(context, "messages_cached"), 3);
}

static void expect_refused(int error, const char *why)
{
    logged[0] = '\0';
    assert_int_equal(llm_topic_cache(topic, &lvc), error);
    expect_logged(why);
}

static void uncacheable_topics_are_refused_with_a_log_line(void **state)
{
    struct llm_topic *transient;
    void *data;

    (void)state;
    assert_int_equal(llm_topic_cache(NULL, &lvc), LLM_EINVAL);
    lvc.messages = 0;
    expect_refused(LLM_EINVAL, "messages: 0 is not between 1 and 1048576");
    lvc.messages = 1048577;
    expect_refused(LLM_EINVAL, "messages: 1048577 is not");
    lvc.messages = 1;
    lvc.bytes_max = 0;
    expect_refused(LLM_EINVAL, "bytes_max: 0 is not between 1 and the longest message");
    lvc.bytes_max = 40000;
    expect_refused(LLM_EINVAL, "bytes_max: 40000");
    lvc.bytes_max = 30000;
    lvc.messages = 3;
    expect_refused(LLM_ELIMIT, "of cache_bytes=65536 topics have 0 already");
    lvc.size = 7;
    expect_refused(LLM_EINVAL, "struct llm_cache: size is 7");
    llm_cache_init(&lvc);
    assert_int_equal(llm_topic_claim(topic, 5, &data), LLM_OK);
    expect_refused(LLM_ESTATE, "llm_topic_commit() or llm_topic_abort() it first");
    assert_int_equal(llm_topic_abort(topic), LLM_OK);
    assert_int_equal(llm_topic_cache(topic, &lvc), LLM_OK);
    expect_refused(LLM_ESTATE, "keeps 1 messages already");
    assert_int_equal(llm_topic_open(transmitter, "transient", LLM_TOPIC_NO_HISTORY, &transient), LLM_OK);
    topic = transient;
    expect_refused(LLM_EINVAL, "it has no history");
}

/* cache_bytes is for all topics together. */
static void topics_are_cached_until_cache_bytes_are_used_up(void **state)
{
    struct llm_topic *topics[20];
    char name[16];
    int count = 0, error = LLM_OK;

    (void)state;
    lvc.bytes_max = 10000;
    while (error == LLM_OK && count < 20) {
        snprintf(name, sizeof name, "t%d", count);
        assert_int_equal(llm_topic_open(transmitter, name, 0, &topics[count]), LLM_OK);
        error = llm_topic_cache(topics[count++], &lvc);
    }
    assert_int_equal(error, LLM_ELIMIT);
    assert_int_equal(count, 7);
    /* It still sends normally. */
    assert_int_equal(llm_send(topics[6], "x", 1, 0), LLM_OK);
}

static void a_join_without_cached_topics_is_refused_and_falls_back(void **state)
{
    (void)state;
    text(topic, "1");
    forget();
    join("&join=latest&join_else=live");
    assert_int_equal(refused.reason, LLM_REASON_NO_CACHE);
    text(topic, "2");
    while (messages == 0)
        assert_true(llm_poll(context) >= 0);
    assert_string_equal(got[0], "price 2");
}

static void a_cached_topic_may_be_unreliable_and_rate_limited(void **state)
{
    struct llm_topic *unreliable;
    struct llm_rate rate;

    (void)state;
    assert_int_equal(llm_topic_open(transmitter, "unreliable", LLM_TOPIC_UNRELIABLE, &unreliable), LLM_OK);
    assert_int_equal(llm_topic_cache(unreliable, NULL), LLM_OK);
    llm_rate_init(&rate);
    rate.bytes_per_s = 1 << 20;
    assert_int_equal(llm_topic_limit_rate(unreliable, &rate), LLM_OK);
    text(unreliable, "1");
    text(unreliable, "2");
    forget();
    join("&join=latest");
    assert_int_equal(messages, 1);
    assert_string_equal(got[0], "unreliable 2");
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_last_value_of_each_topic_does_not_need_the_history),
        T(join_messages_limits_the_cached_messages_of_each_topic),
        T(gathered_claimed_and_labelled_messages_are_cached),
        T(messages_too_long_for_the_cache_are_refused),
        T(uncacheable_topics_are_refused_with_a_log_line),
        T(topics_are_cached_until_cache_bytes_are_used_up),
        T(a_join_without_cached_topics_is_refused_and_falls_back),
        T(a_cached_topic_may_be_unreliable_and_rate_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
