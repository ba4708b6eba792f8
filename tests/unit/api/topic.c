/* SPDX-License-Identifier: Apache-2.0 */
/* Topics: the route that messages take, and the lengths that each route takes. */
#include "unit.h"

#include <stdio.h>

#include "engine/objects.h"

#define CHANNEL                                                                                              \
    "loop://topic:1?history_bytes=1M&history_packets=256&message_bytes_max=500&topics_max=8&window_packets=" \
    "64&receivers_max=4&mtu=1500&linger_ns=0&rcvbuf_bytes=1M&cache_bytes=64K"

enum { LONGEST = 500 };

static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_topic *topic;

static void on_log(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

static int topic_make(void **state)
{
    const char *more = *state == NULL ? "" : *state;
    struct llm_context_options options;
    char channel[300];

    llm_context_options_init(&options);
    options.stats_directory = "";
    options.log = on_log;
    (void)snprintf(channel, sizeof channel, CHANNEL "%s", more);
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "topic", 0, &topic), LLM_OK);
    return 0;
}

static int topic_end(void **state)
{
    (void)state;
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    return llm_context_close(&context);
}

/* Sends and claims messages of the maximum length, and of one byte more, with and without an open packet. */
static void expect_lengths(void)
{
    static const unsigned flags[] = {LLM_SEND_MORE, LLM_SEND_MORE, 0, 0, LLM_SEND_NOW};
    char bytes[LONGEST + 1] = {0};
    void *claim;

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        assert_int_equal(llm_send(topic, bytes, LONGEST + 1, flags[i]), LLM_EMSGSIZE);
        assert_int_equal(llm_send(topic, bytes, LONGEST, flags[i]), LLM_OK);
        assert_int_equal(llm_send(topic, bytes, 1, flags[i]), LLM_OK);
    }
    assert_int_equal(llm_transmitter_claim_max(transmitter), LONGEST);
    assert_int_equal(llm_topic_claim(topic, LONGEST + 1, &claim), LLM_EMSGSIZE);
    assert_int_equal(llm_topic_claim(topic, LONGEST, &claim), LLM_OK);
    /* The packet of a claim takes no other message. */
    assert_int_equal(llm_send(topic, bytes, 1, LLM_SEND_MORE), LLM_ESTATE);
    assert_int_equal(llm_topic_commit(topic, LONGEST, 0), LLM_OK);
}

static void a_topic_is_plain_unless_a_feature_needs_checks(void **state)
{
    struct llm_rate rate;
    struct llm_cache cache;

    (void)state;
    assert_int_equal(topic->route, LLI_ROUTE_PLAIN);
    expect_lengths();
    llm_rate_init(&rate);
    rate.bytes_per_s = 1000000;
    assert_int_equal(llm_topic_limit_rate(topic, &rate), LLM_OK);
    assert_int_equal(topic->route, LLI_ROUTE_CHECKED);
    rate.bytes_per_s = 0;
    assert_int_equal(llm_topic_limit_rate(topic, &rate), LLM_OK);
    assert_int_equal(topic->route, LLI_ROUTE_PLAIN);
    llm_cache_init(&cache);
    cache.bytes_max = LONGEST;
    assert_int_equal(llm_topic_cache(topic, &cache), LLM_OK);
    assert_int_equal(topic->route, LLI_ROUTE_CHECKED);
    expect_lengths();
}

static void a_counted_topic_counts_all_send_calls(void **state)
{
    const struct iovec pieces[] = {{.iov_base = "ab", .iov_len = 2}, {.iov_base = "c", .iov_len = 1}};
    uint64_t messages, bytes;

    (void)state;
    assert_int_equal(topic->route, LLI_ROUTE_COUNTED);
    expect_lengths();
    messages = topic->count.messages;
    bytes = topic->count.bytes;
    /* Five of each length, and the claimed one. */
    assert_int_equal(messages, 11);
    assert_int_equal(bytes, 6 * LONGEST + 5);
    assert_int_equal(llm_sendv(topic, pieces, 2, 0), LLM_OK);
    assert_int_equal(topic->count.messages, messages + 1);
    assert_int_equal(topic->count.bytes, bytes + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_topic_is_plain_unless_a_feature_needs_checks, topic_make,
                                        topic_end),
        cmocka_unit_test_prestate_setup_teardown(a_counted_topic_counts_all_send_calls, topic_make, topic_end,
                                                 (void *)"&topic_counters=1"),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
