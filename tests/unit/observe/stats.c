/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <llm/llm.h>
#include <stdio.h>

#define SMALL                                                                                              \
    "?history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=2&message_bytes_max=64K&topics_" \
    "max=8"                                                                                                \
    "&window_packets=64&receivers_max=4&rcvbuf_bytes=1M&mtu=1500&linger_ns=0"

enum { RECEIVERS = 24, MESSAGES = 10, STATS_MAX = 2048 };

static struct llm_context *context;

static int context_up(void **state)
{
    (void)state;
    return llm_context_open(NULL, &context);
}

static int context_down(void **state)
{
    (void)state;
    return llm_context_close(&context);
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

static void receiver_make_with(const char *group, const char *options)
{
    struct llm_receiver *receiver = NULL;
    struct llm_receiver_handlers handlers;
    char channel[512];

    llm_receiver_handlers_init(&handlers);
    handlers.event = on_event;
    snprintf(channel, sizeof channel, "loop://%s:1" SMALL "%s", group, options);
    assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &receiver), LLM_OK);
}

static void receiver_make(const char *group)
{
    receiver_make_with(group, "");
}

static void traffic(void)
{
    struct llm_transmitter *transmitter = NULL;
    struct llm_topic *topic;

    assert_int_equal(llm_transmitter_open(context, "loop://stats:1" SMALL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(llm_send(topic, "x", 1, LLM_SEND_NOW), LLM_OK);
    for (int i = 0; i < 50; i++)
        (void)llm_poll(context);
}

static void an_empty_context_has_no_counters(void **state)
{
    uint64_t value = 7;

    (void)state;
    assert_int_equal(llm_context_counter(context, "naks_sent", &value), LLM_ENOTFOUND);
    assert_int_equal(value, 7);
    assert_int_equal(llm_context_counters(context, NULL, 0), 0);
}

static void counters_are_found_by_name_and_object(void **state)
{
    static struct llm_counter stats[STATS_MAX];
    bool sent = false, delivered = false;
    int count;

    (void)state;
    receiver_make("stats");
    traffic();
    count = llm_context_counters(context, stats, STATS_MAX);
    assert_true(count > 50 && count < STATS_MAX);
    assert_int_equal(llm_context_counters(context, NULL, 0), count);
    for (int i = 0; i < count; i++) {
        assert_non_null(stats[i].object);
        sent |= strcmp(stats[i].name, "messages_sent") == 0 && stats[i].value == MESSAGES &&
                strncmp(stats[i].object, "transmitter loop://stats:1", 26) == 0;
        delivered |= strcmp(stats[i].name, "messages_delivered") == 0 && stats[i].value == MESSAGES &&
                     strncmp(stats[i].object, "receiver loop://stats:1", 23) == 0;
        for (int j = 0; j < i; j++)
            assert_true(strcmp(stats[i].name, stats[j].name) != 0 || stats[i].object != stats[j].object);
    }
    assert_true(sent && delivered);
}

static void counters_are_written_up_to_the_given_room(void **state)
{
    struct llm_counter stats[3] = {{.value = 0}, {.value = 0}, {.object = "mine"}};

    (void)state;
    receiver_make("stats");
    assert_true(llm_context_counters(context, stats, 2) > 2);
    assert_non_null(stats[1].name);
    assert_string_equal(stats[2].object, "mine");
}

/* More objects than a table on the stack could hold. */
static void sums_cover_all_objects(void **state)
{
    uint64_t value = 0;

    (void)state;
    for (int i = 0; i < RECEIVERS; i++)
        receiver_make("stats");
    traffic();
    assert_int_equal(llm_context_counter(context, "messages_delivered", &value), LLM_OK);
    assert_int_equal(value, RECEIVERS * MESSAGES);
    assert_int_equal(llm_context_counter(context, "no_such_counter", &value), LLM_ENOTFOUND);
}

/* Counts the instances of the transport, which have one row each. */
static int instances(void)
{
    static struct llm_counter stats[STATS_MAX];
    const int count = llm_context_counters(context, stats, STATS_MAX);
    int found = 0;

    for (int i = 0; i < count; i++)
        found += strcmp(stats[i].name, "loop_inbox_drops") == 0;
    return found;
}

static void channels_share_an_instance_if_its_options_are_equal(void **state)
{
    static const char *const own[] = {"&gro=0", "&timestamps=1", "&check_source=0", "&busy_poll_us=1"};
    const int count = sizeof own / sizeof own[0];

    (void)state;
    receiver_make_with("share", "");
    receiver_make_with("share", "&nak_delay_ns=1000");
    assert_int_equal(instances(), 1);
    for (int i = 0; i < count; i++) {
        receiver_make_with("share", own[i]);
        assert_int_equal(instances(), 2 + i);
        receiver_make_with("else", own[i]);
        assert_int_equal(instances(), 2 + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_context_has_no_counters, context_up, context_down),
        cmocka_unit_test_setup_teardown(counters_are_found_by_name_and_object, context_up, context_down),
        cmocka_unit_test_setup_teardown(counters_are_written_up_to_the_given_room, context_up, context_down),
        cmocka_unit_test_setup_teardown(sums_cover_all_objects, context_up, context_down),
        cmocka_unit_test_setup_teardown(channels_share_an_instance_if_its_options_are_equal, context_up,
                                        context_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
