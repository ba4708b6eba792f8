/* SPDX-License-Identifier: Apache-2.0 */
/* Subjects: matching of names, and delivery to a receiver with subscriptions. */
#include "logged.h"

#include <stdio.h>

#include "engine/objects.h"

#define CHANNEL                                                                                             \
    "loop://"                                                                                               \
    "subjects:1?mtu=1500&linger_ns=0&history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=2" \
    "&message_bytes_max=64K&topics_max=64&window_packets=64&receivers_max=4&rcvbuf_bytes=1M"

enum { RANDOM_NAMES = 20000 };

static const struct lli_log test_log = {.function = log_keep, .level = LLM_LEVEL_DEBUG};

/* ----------------------------------------------------------------------------------------------- subjects */

static void wildcards_match_one_element_or_the_rest(void **state)
{
    (void)state;
    assert_true(lli_subject_matches("a", "a"));
    assert_false(lli_subject_matches("a", "ab"));
    assert_false(lli_subject_matches("ab", "a"));
    assert_false(lli_subject_matches("a", "a.b"));
    assert_false(lli_subject_matches("a.b", "a"));
    assert_true(lli_subject_matches("*", "a"));
    assert_true(lli_subject_matches("*", ""));
    assert_false(lli_subject_matches("*", "a.b"));
    assert_true(lli_subject_matches("a.*.c", "a.bbb.c"));
    assert_true(lli_subject_matches("a.*.c", "a..c"));
    assert_false(lli_subject_matches("a.*.c", "a.b.d"));
    assert_false(lli_subject_matches("a.*.c", "a.b.b.c"));
    assert_false(lli_subject_matches("a.*", "a"));
    assert_true(lli_subject_matches(">", "a"));
    assert_true(lli_subject_matches(">", "a.b.c"));
    assert_true(lli_subject_matches("a.>", "a.b"));
    assert_true(lli_subject_matches("a.>", "a.b.c"));
    assert_false(lli_subject_matches("a.>", "a"));
    assert_false(lli_subject_matches("a.>", "ab.c"));
    assert_true(lli_subject_matches("*.>", "a.b"));
    assert_false(lli_subject_matches("*.>", "a"));
}

static void wildcards_within_an_element_are_literal(void **state)
{
    (void)state;
    assert_true(lli_subject_matches("a*.b>", "a*.b>"));
    assert_false(lli_subject_matches("a*.b>", "ax.bx"));
    assert_false(lli_subject_matches("*a", "ba"));
    assert_true(lli_subject_matches("**", "**"));
    assert_false(lli_subject_matches("**", "ab"));
    assert_false(lli_subject_matches(">>", "ab"));
}

/* Simple second implementation: elements one by one, from the left. */
static bool model_matches(const char *pattern, const char *name)
{
    char one[64], two[64];
    const char *one_rest = strchr(pattern, '.'), *two_rest = strchr(name, '.');

    snprintf(one, sizeof one, "%.*s",
             (int)(one_rest == NULL ? strlen(pattern) : (size_t)(one_rest - pattern)), pattern);
    snprintf(two, sizeof two, "%.*s", (int)(two_rest == NULL ? strlen(name) : (size_t)(two_rest - name)),
             name);
    if (strcmp(one, ">") == 0 && one_rest == NULL)
        return true;
    if (strcmp(one, "*") != 0 && strcmp(one, two) != 0)
        return false;
    if (one_rest == NULL || two_rest == NULL)
        return one_rest == two_rest;
    return model_matches(one_rest + 1, two_rest + 1);
}

static void random_text(uint64_t *random, char *text, size_t size, const char *letters)
{
    size_t length = below(random, (uint32_t)size);

    for (size_t i = 0; i < length; i++)
        text[i] = letters[below(random, (uint32_t)strlen(letters))];
    text[length] = '\0';
}

static void random_patterns_agree_with_the_model(void **state)
{
    uint64_t random = 1;
    unsigned taken = 0;

    (void)state;
    for (int i = 0; i < RANDOM_NAMES; i++) {
        char pattern[10], name[10];

        random_text(&random, pattern, sizeof pattern, "ab..*>");
        random_text(&random, name, sizeof name, "ab..*");
        if (lli_subject_matches(pattern, name) != model_matches(pattern, name))
            fail_msg("pattern \"%s\" name \"%s\"", pattern, name);
        taken += model_matches(pattern, name);
    }
    assert_in_range(taken, RANDOM_NAMES / 100, RANDOM_NAMES);
}

static void wrong_subjects_are_refused_with_their_column(void **state)
{
    struct lli_subjects subjects = {.chosen = false};
    char longest[257];

    (void)state;
    memset(longest, 'x', sizeof longest);
    longest[256] = '\0';
    assert_int_equal(lli_subjects_add(&subjects, "", &test_log), LLM_EINVAL);
    assert_int_equal(lli_subjects_add(&subjects, longest, &test_log), LLM_EINVAL);
    assert_non_null(strstr(logged, "255"));
    assert_int_equal(lli_subjects_add(&subjects, "a.bc.>.d", &test_log), LLM_EINVAL);
    assert_non_null(strstr(logged, "column 6"));
    assert_int_equal(lli_subjects_add(&subjects, ">.d", &test_log), LLM_EINVAL);
    assert_non_null(strstr(logged, "column 1"));
    assert_int_equal(lli_subjects_del(&subjects, "a", &test_log), LLM_ENOTFOUND);
    /* Nothing was subscribed to, so everything is still wanted. */
    assert_true(lli_subjects_match(&subjects, "anything"));
    longest[255] = '\0';
    assert_int_equal(lli_subjects_add(&subjects, longest, &test_log), LLM_OK);
    assert_true(lli_subjects_match(&subjects, longest));
    assert_false(lli_subjects_match(&subjects, "anything"));
    lli_subjects_fini(&subjects);
}

static void subjects_are_bounded_and_unique(void **state)
{
    struct lli_subjects subjects = {.chosen = false};
    char text[32];

    (void)state;
    for (int i = 0; i < LLM_SUBJECTS_MAX; i++) {
        snprintf(text, sizeof text, i % 2 == 0 ? "name.%d" : "*.pattern.%d", (i * 7919) % LLM_SUBJECTS_MAX);
        assert_int_equal(lli_subjects_add(&subjects, text, &test_log), LLM_OK);
    }
    assert_int_equal(lli_subjects_add(&subjects, "one.more", &test_log), LLM_ELIMIT);
    assert_non_null(strstr(logged, "4096"));
    assert_int_equal(lli_subjects_add(&subjects, text, &test_log), LLM_OK);
    assert_int_equal(lli_subjects_count(&subjects), LLM_SUBJECTS_MAX);
    assert_true(lli_subjects_match(&subjects, "name.0"));
    assert_int_equal(lli_subjects_del(&subjects, "name.0", &test_log), LLM_OK);
    assert_false(lli_subjects_match(&subjects, "name.0"));
    assert_int_equal(lli_subjects_del(&subjects, "name.0", &test_log), LLM_ENOTFOUND);
    assert_true(lli_subjects_match(&subjects, "any.pattern.7919") == (7919 % LLM_SUBJECTS_MAX == 7919));
    assert_true(lli_subjects_match(&subjects, "any.pattern.3823"));
    lli_subjects_fini(&subjects);
}

/* ---------------------------------------------------------------------------------------------- receivers */

struct heard {
    char topics[64]; /* first letter of the topic of each message */
    int messages;
    char told[64]; /* first letter of each announced topic */
    int topics_told;
    char asked[64];
    int topics_asked;
    const char *refuse;
};

static struct heard heard;
static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    heard.topics[heard.messages++] = message->topic[0];
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    assert_int_not_equal(event->kind, LLM_EVENT_GAP);
    if (event->kind == LLM_EVENT_TOPIC_NEW)
        heard.told[heard.topics_told++] = event->topic[0];
}

static bool on_accept(void *arg, const struct llm_source *source)
{
    (void)arg;
    if (source->topic != NULL)
        heard.asked[heard.topics_asked++] = source->topic[0];
    return source->topic == NULL || heard.refuse == NULL || strcmp(source->topic, heard.refuse) != 0;
}

static uint64_t acknowledged_last;

static void on_transmitter_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind != LLM_EVENT_ACKNOWLEDGED)
        return;
    assert_string_equal(event->topic, "a");
    acknowledged_last = event->last;
}

static int all_up(void **state)
{
    struct llm_context_options options;
    struct llm_transmitter_handlers transmitter_handlers;
    struct llm_receiver_handlers handlers;

    (void)state;
    memset(&heard, 0, sizeof heard);
    llm_context_options_init(&options);
    options.log = log_keep;
    options.huge_pages = false;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    handlers.accept = on_accept;
    assert_int_equal(llm_receiver_open(context, CHANNEL, NULL, &handlers, &receiver), LLM_OK);
    llm_transmitter_handlers_init(&transmitter_handlers);
    transmitter_handlers.event = on_transmitter_event;
    assert_int_equal(llm_transmitter_open(context, CHANNEL, NULL, &transmitter_handlers, &transmitter),
                     LLM_OK);
    return 0;
}

static int all_down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&context), LLM_OK);
    return 0;
}

static struct llm_topic *open_topic(const char *name)
{
    struct llm_topic *topic = NULL;

    assert_int_equal(llm_topic_open(transmitter, name, 0, &topic), LLM_OK);
    return topic;
}

/* Sends a message on each of some topics; returns the first letters of the delivered ones. */
static const char *send_each(struct llm_topic *const *topics, int count)
{
    heard.messages = 0;
    memset(heard.topics, 0, sizeof heard.topics);
    for (int i = 0; i < count; i++)
        assert_int_equal(llm_send(topics[i], "m", 1, 0), LLM_OK);
    for (int i = 0; i < 20; i++)
        assert_true(llm_poll(context) >= 0);
    return heard.topics;
}

static void only_subscribed_topics_are_delivered(void **state)
{
    struct llm_topic *topics[4];
    uint64_t refused = 0;

    (void)state;
    assert_int_equal(llm_receiver_subscribe(receiver, "a.*"), LLM_OK);
    assert_int_equal(llm_receiver_subscribe(receiver, "d"), LLM_OK);
    topics[0] = open_topic("a.x");
    topics[1] = open_topic("b.x");
    topics[2] = open_topic("a");
    topics[3] = open_topic("d");
    assert_string_equal(send_each(topics, 4), "ad");
    /* Topics without a matching subject are neither passed to the accept predicate nor announced. */
    assert_string_equal(heard.asked, "ad");
    assert_string_equal(heard.told, "ad");
    assert_int_equal(llm_context_counter(context, "messages_refused", &refused), LLM_OK);
    assert_int_equal(refused, 2);
}

static void the_accept_predicate_overrides_subjects(void **state)
{
    struct llm_topic *topics[2];

    (void)state;
    heard.refuse = "b.x";
    assert_int_equal(llm_receiver_subscribe(receiver, ">"), LLM_OK);
    topics[0] = open_topic("a.x");
    topics[1] = open_topic("b.x");
    assert_string_equal(send_each(topics, 2), "a");
    /* The predicate is called once, however often subjects change. */
    assert_int_equal(llm_receiver_subscribe(receiver, "b.x"), LLM_OK);
    assert_string_equal(send_each(topics, 2), "a");
    assert_string_equal(heard.asked, "ab");
    assert_string_equal(heard.told, "a");
}

static void subjects_change_while_messages_flow(void **state)
{
    struct llm_topic *topics[3];

    (void)state;
    topics[0] = open_topic("a");
    topics[1] = open_topic("b");
    topics[2] = open_topic("c");
    assert_string_equal(send_each(topics, 3), "abc");
    assert_int_equal(llm_receiver_subscribe(receiver, "b"), LLM_OK);
    assert_string_equal(send_each(topics, 3), "b");
    assert_int_equal(llm_receiver_subscribe(receiver, "c"), LLM_OK);
    assert_int_equal(llm_receiver_subscribe(receiver, "c"), LLM_OK);
    assert_string_equal(send_each(topics, 3), "bc");
    assert_int_equal(llm_receiver_unsubscribe(receiver, "b"), LLM_OK);
    assert_int_equal(llm_receiver_unsubscribe(receiver, "b"), LLM_ENOTFOUND);
    assert_string_equal(send_each(topics, 3), "c");
    assert_int_equal(llm_receiver_unsubscribe(receiver, "c"), LLM_OK);
    assert_string_equal(send_each(topics, 3), "");
    assert_int_equal(llm_receiver_subscribe(receiver, "*"), LLM_OK);
    assert_string_equal(send_each(topics, 3), "abc");
    /* Topics are announced once. */
    assert_string_equal(heard.told, "abc");
    assert_string_equal(heard.asked, "abc");
}

static void a_topic_is_reported_when_a_subject_is_added_for_it(void **state)
{
    struct llm_topic *topics[1];

    (void)state;
    assert_int_equal(llm_receiver_subscribe(receiver, "other"), LLM_OK);
    topics[0] = open_topic("a");
    assert_string_equal(send_each(topics, 1), "");
    assert_string_equal(heard.told, "");
    assert_int_equal(llm_receiver_subscribe(receiver, "a"), LLM_OK);
    /* No packet is sent for that. */
    for (int i = 0; i < 20; i++)
        assert_true(llm_poll(context) >= 0);
    assert_string_equal(heard.told, "a");
    assert_string_equal(send_each(topics, 1), "a");
}

static void a_discarded_topic_is_not_acknowledged(void **state)
{
    struct llm_assurance assurance;
    struct llm_topic *topics[2];

    (void)state;
    llm_assurance_init(&assurance);
    topics[0] = open_topic("a");
    topics[1] = open_topic("b");
    assert_int_equal(llm_topic_assure(topics[0], &assurance), LLM_OK);
    assert_int_equal(llm_topic_assure(topics[1], &assurance), LLM_OK);
    assert_int_equal(llm_receiver_subscribe(receiver, "a"), LLM_OK);
    assert_string_equal(send_each(topics, 2), "a");
    assert_int_equal(llm_receiver_subscribe(receiver, "b"), LLM_OK);
    assert_string_equal(send_each(topics, 2), "ab");
    for (uint64_t until = llm_clock() + UINT64_C(300000000); llm_clock() < until;)
        assert_true(llm_poll(context) >= 0);
    /* Of the four messages, sent in turns, these are the first and the third. */
    assert_int_equal(acknowledged_last, 2);
    assert_int_equal(llm_topic_assure(topics[1], NULL), LLM_OK);
}

static void null_is_refused(void **state)
{
    (void)state;
    assert_int_equal(llm_receiver_subscribe(NULL, "a"), LLM_EINVAL);
    assert_int_equal(llm_receiver_subscribe(receiver, NULL), LLM_EINVAL);
    assert_int_equal(llm_receiver_unsubscribe(NULL, "a"), LLM_EINVAL);
    assert_int_equal(llm_receiver_unsubscribe(receiver, NULL), LLM_EINVAL);
    assert_int_equal(llm_receiver_subscribe(receiver, "a.>.b"), LLM_EINVAL);
    assert_non_null(strstr(logged, "column 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wildcards_match_one_element_or_the_rest),
        cmocka_unit_test(wildcards_within_an_element_are_literal),
        cmocka_unit_test(random_patterns_agree_with_the_model),
        cmocka_unit_test(wrong_subjects_are_refused_with_their_column),
        cmocka_unit_test(subjects_are_bounded_and_unique),
        cmocka_unit_test_setup_teardown(only_subscribed_topics_are_delivered, all_up, all_down),
        cmocka_unit_test_setup_teardown(the_accept_predicate_overrides_subjects, all_up, all_down),
        cmocka_unit_test_setup_teardown(subjects_change_while_messages_flow, all_up, all_down),
        cmocka_unit_test_setup_teardown(a_topic_is_reported_when_a_subject_is_added_for_it, all_up, all_down),
        cmocka_unit_test_setup_teardown(a_discarded_topic_is_not_acknowledged, all_up, all_down),
        cmocka_unit_test_setup_teardown(null_is_refused, all_up, all_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
