/* SPDX-License-Identifier: Apache-2.0 */
/* Assured topics through the public API, over the loop transport. */
#include "counter.h"
#include "logged.h"

#include <llm/llm.h>
#include <pthread.h>
#include <stdio.h>

#define CHANNEL                                                                                              \
    "loop://"                                                                                                \
    "assurance:1?mtu=1500&linger_ns=0&history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=2" \
    "&message_bytes_max=512K&topics_max=32&window_packets=64&receivers_max=4&rcvbuf_bytes=4M"

static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;
static struct llm_topic *topic;
static struct llm_assurance assurance;
static struct llm_event acknowledged, waits; /* latest events */
static int messages, ends;

static void on_transmitter_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    *(event->kind == LLM_EVENT_ACKNOWLEDGED ? &acknowledged : &waits) = *event;
}

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    assert_int_equal(message->number, messages);
    messages++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    assert_int_not_equal(event->kind, LLM_EVENT_GAP);
    ends += event->kind == LLM_EVENT_SESSION_END;
}

static void receiver_up_in(struct llm_context *of, const char *channel)
{
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(of, channel, NULL, &handlers, &receiver), LLM_OK);
}

static void receiver_up(const char *channel)
{
    receiver_up_in(context, channel);
}

static void transmitter_up(const char *channel, void (*event)(void *arg, const struct llm_event *event))
{
    struct llm_transmitter_handlers handlers;

    llm_transmitter_handlers_init(&handlers);
    handlers.event = event;
    assert_int_equal(llm_transmitter_open(context, channel, NULL, &handlers, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "orders", 0, &topic), LLM_OK);
}

static int up(void **state)
{
    struct llm_context_options options;

    (void)state;
    llm_context_options_init(&options);
    options.log = log_keep;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    transmitter_up(CHANNEL, on_transmitter_event);
    llm_assurance_init(&assurance);
    acknowledged = waits = (struct llm_event){0};
    messages = ends = 0;
    receiver = NULL;
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&context), LLM_OK);
    return 0;
}

/* Polls until no message is unacknowledged. */
static void until_acknowledged(void)
{
    const uint64_t began = llm_clock();

    while (counter_of(context, "messages_unacknowledged") > 0) {
        assert_true(llm_clock() < began + UINT64_C(20000000000));
        assert_true(llm_poll(context) >= 0);
    }
    assert_true(llm_poll(context) >= 0);
}

static void expect_refused(int error, const char *text)
{
    logged[0] = '\0';
    assert_int_equal(llm_topic_assure(topic, &assurance), error);
    expect_logged(text);
    llm_assurance_init(&assurance);
}

static void impossible_assurances_are_refused_with_the_reason(void **state)
{
    char names[256] = "a";

    (void)state;
    assert_int_equal(llm_topic_assure(NULL, &assurance), LLM_EINVAL);
    assert_int_equal(llm_topic_assure(topic, NULL), LLM_OK);
    assurance.receivers = 0;
    expect_refused(LLM_EINVAL, "no receiver");
    assurance.receivers = 0, assurance.names = "";
    expect_refused(LLM_EINVAL, "no receiver");
    assurance.receivers = 5;
    expect_refused(LLM_ELIMIT, "receivers_max is 4");
    assert_int_equal(llm_topic_open(transmitter, "prices", LLM_TOPIC_UNRELIABLE, &topic), LLM_OK);
    expect_refused(LLM_EINVAL, "topic \"prices\": it is unreliable");
    assert_int_equal(llm_topic_assure(topic, NULL), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "quotes", LLM_TOPIC_NO_HISTORY, &topic), LLM_OK);
    expect_refused(LLM_EINVAL, "topic \"quotes\": it has no history");
    assert_int_equal(llm_topic_open(transmitter, "trades", 0, &topic), LLM_OK);
    assurance.messages_max = 0;
    expect_refused(LLM_EINVAL, "messages_max");
    assurance.messages_max = (1 << 20) + 1;
    expect_refused(LLM_EINVAL, "messages_max");
    assurance.bytes_max = (1 << 19) + 1;
    expect_refused(LLM_EINVAL, "bytes_max");
    assurance.names = "a,,b";
    expect_refused(LLM_EINVAL, "names");
    assurance.names = "a,";
    expect_refused(LLM_EINVAL, "names");
    assurance.names = "a,b,a";
    expect_refused(LLM_EINVAL, "\"a\" twice");
    assurance.names = ",";
    expect_refused(LLM_EINVAL, "names");
    assurance.names = "a-name-that-has-thirty-two-bytes";
    expect_refused(LLM_EINVAL, "31 bytes");
    assurance.names = "a,store-*-*:2";
    expect_refused(LLM_EINVAL, "\"store-*-*:2\" has more than one \"*\"");
    assurance.names = "store-*:two";
    expect_refused(LLM_EINVAL, "\"store-*:two\" has no number from 1 to 16");
    assurance.names = "store-*:17,a";
    expect_refused(LLM_EINVAL, "\"store-*:17,a\": \"store-*:17\" has no number from 1 to 16");
    assurance.names = "store-*:2,a,store-*:3";
    expect_refused(LLM_EINVAL, "\"store-*\" twice");
    assurance.names = "store-*:5";
    expect_refused(LLM_ELIMIT, "5 receivers \"store-*\" are to acknowledge, receivers_max is 4");
    for (int i = 0; i < 16; i++)
        (void)snprintf(names + strlen(names), sizeof names - strlen(names), ",b%d", i);
    assurance.names = names;
    expect_refused(LLM_EINVAL, "more than 16");
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    assert_int_equal(llm_receiver_acknowledge(NULL, 0, 0), LLM_EINVAL);
}

static void the_seventeenth_topic_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        char name[8];

        snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
        assert_int_equal(llm_topic_open(transmitter, name, 0, &topic), LLM_OK);
    }
    expect_refused(LLM_ELIMIT, "16 topics");
    /* Nothing has changed. */
    assert_int_equal(llm_send(topic, "x", 1, 0), LLM_OK);
    assert_int_equal(counter_of(context, "messages_unacknowledged"), 0);
}

static void messages_of_every_kind_wait_until_they_are_acknowledged(void **state)
{
    static const char data[300 << 10];
    struct llm_topic *plain;
    void *claim;

    (void)state;
    assurance.messages_max = 3;
    assert_int_equal(llm_topic_open(transmitter, "plain", 0, &plain), LLM_OK);
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    assert_int_equal(llm_send(topic, "one", 3, LLM_SEND_MORE), LLM_OK);
    assert_int_equal(llm_topic_claim(topic, 8, &claim), LLM_OK);
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_ESTATE);
    assert_int_equal(llm_send(topic, "two", 3, 0), LLM_ESTATE);
    assert_int_equal(llm_topic_commit(plain, 3, 0), LLM_ESTATE);
    assert_int_equal(llm_topic_commit(topic, 9, 0), LLM_EINVAL);
    assert_int_equal(llm_topic_commit(topic, 8, 0), LLM_OK);
    assert_int_equal(llm_topic_commit(topic, 8, 0), LLM_ESTATE);
    assert_int_equal(llm_topic_claim(topic, 8, &claim), LLM_OK);
    assert_int_equal(llm_topic_abort(topic), LLM_OK);
    assert_int_equal(llm_topic_abort(topic), LLM_ESTATE);
    assert_int_equal(llm_send(topic, "three", 5, LLM_SEND_NOW), LLM_OK);
    assert_int_equal(counter_of(context, "messages_unacknowledged"), 3);
    assert_int_equal(llm_send(topic, "four", 4, LLM_SEND_MORE), LLM_EAGAIN);
    assert_int_equal(llm_topic_claim(topic, 4, &claim), LLM_EAGAIN);
    assert_int_equal(counter_of(context, "send_blocked_unacknowledged"), 2);
    /* Too long ever to be unacknowledged; shorter ones do not wait. */
    assert_int_equal(llm_send(topic, data, sizeof data, 0), LLM_EMSGSIZE);
    assert_int_equal(llm_send(plain, "p", 1, 0), LLM_OK);
    receiver_up(CHANNEL);
    until_acknowledged();
    assert_int_equal(messages, 4);
    assert_int_equal(acknowledged.first, 0);
    assert_int_equal(acknowledged.last, 2);
    assert_string_equal(acknowledged.topic, "orders");
    assert_int_equal(acknowledged.session, llm_transmitter_session(transmitter));
    assert_int_equal(llm_send(topic, "five", 4, 0), LLM_OK);
    until_acknowledged();
    assert_int_equal(acknowledged.first, 4);
    /* No longer assured. */
    assert_int_equal(llm_topic_assure(topic, NULL), LLM_OK);
    for (int i = 0; i < 10; i++)
        assert_int_equal(llm_send(topic, "x", 1, LLM_SEND_MORE), LLM_OK);
    assert_int_equal(llm_topic_claim(topic, 1, &claim), LLM_OK);
    assert_int_equal(llm_topic_commit(topic, 1, 0), LLM_OK);
    assert_int_equal(counter_of(context, "messages_unacknowledged"), 0);
    assert_int_equal(counter_of(context, "messages_assured"), 4);
}

static void application_acknowledgements_count_for_named_receivers(void **state)
{
    const uint64_t session = llm_transmitter_session(transmitter), began = llm_clock();

    (void)state;
    assurance.receivers = 0;
    assurance.names = "ledger,book";
    assurance.patience_ns = 1000000;
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    receiver_up(CHANNEL "&receiver_name=book&acknowledge=application");
    assert_int_equal(llm_send(topic, "one", 3, 0), LLM_OK);
    assert_int_equal(llm_send(topic, "two", 3, 0), LLM_OK);
    while (messages < 2 || waits.reason != LLM_REASON_RECEIVER_ABSENT)
        assert_true(llm_poll(context) >= 0 && llm_clock() < began + UINT64_C(20000000000));
    assert_string_equal(waits.receiver, "ledger");
    assert_int_equal(waits.last, 1);
    assurance.names = "book";
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    while (waits.reason != LLM_REASON_PENDING)
        assert_true(llm_poll(context) >= 0 && llm_clock() < began + UINT64_C(20000000000));
    assert_int_equal(counter_of(context, "messages_unacknowledged"), 2);
    assert_int_equal(llm_receiver_acknowledge(receiver, session, 2), LLM_EINVAL);
    assert_int_equal(llm_receiver_acknowledge(receiver, session + 1, 1), LLM_ENOTFOUND);
    assert_int_equal(llm_receiver_acknowledge(receiver, session, 1), LLM_OK);
    until_acknowledged();
    assert_int_equal(acknowledged.last, 1);
}

/* The messages exceed the history, so acknowledged ones have to leave it. */
static void a_list_of_destinations_acknowledges_as_a_group_does(void **state)
{
    static const char bytes[1000];
    const char *apart = strchr(CHANNEL, '?');
    char channel[sizeof CHANNEL + 64];

    (void)state;
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    snprintf(channel, sizeof channel, "loop://elsewhere:1%s&destinations=assurance:1", apart);
    transmitter_up(channel, on_transmitter_event);
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    receiver_up(CHANNEL);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(llm_send(topic, bytes, sizeof bytes, 0), LLM_OK);
        if (i % 50 == 49)
            until_acknowledged();
    }
    assert_int_equal(messages, 2000);
    assert_int_equal(acknowledged.last, 1999);
}

static void missing_acknowledgements_are_logged_without_a_handler(void **state)
{
    const uint64_t began = llm_clock();

    (void)state;
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    transmitter_up(CHANNEL, NULL);
    assurance.patience_ns = 0;
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    assert_int_equal(llm_send(topic, "one", 3, 0), LLM_OK);
    while (strstr(logged, "0 to 0 of topic orders are not acknowledged: too few receivers, 0 of 1") == NULL)
        assert_true(llm_poll(context) >= 0 && llm_clock() < began + UINT64_C(20000000000));
}

static void a_pattern_waits_for_two_names_and_is_logged_with_them(void **state)
{
    const uint64_t began = llm_clock();
    struct llm_receiver *first, *second;

    (void)state;
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    transmitter_up(CHANNEL, NULL);
    assurance.receivers = 0;
    assurance.names = "store-*:2";
    assurance.patience_ns = 0;
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    receiver_up(CHANNEL "&receiver_name=store-1");
    first = receiver;
    while (llm_transmitter_receivers(transmitter) < 1)
        assert_true(llm_poll(context) >= 0 && llm_clock() < began + UINT64_C(20000000000));
    assert_int_equal(llm_send(topic, "one", 3, 0), LLM_OK);
    while (strstr(logged,
                  "0 to 0 of topic orders are not acknowledged: too few receivers, store-*, 1 of 2") == NULL)
        assert_true(llm_poll(context) >= 0 && llm_clock() < began + UINT64_C(20000000000));
    assert_int_equal(counter_of(context, "messages_unacknowledged"), 1);
    messages = 0;
    receiver_up(CHANNEL "&receiver_name=store-2");
    second = receiver;
    until_acknowledged();
    assert_int_equal(llm_receiver_close(&first), LLM_OK);
    assert_int_equal(llm_receiver_close(&second), LLM_OK);
}

/* All receivers have left, so the result is not their number. */
static void closing_reports_unacknowledged_messages(void **state)
{
    (void)state;
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    receiver_up(CHANNEL);
    assert_int_equal(llm_send(topic, "one", 3, 0), LLM_OK);
    until_acknowledged();
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
    assert_int_equal(llm_send(topic, "two", 3, 0), LLM_OK);
    assert_int_equal(llm_send(topic, "three", 5, 0), LLM_OK);
    assert_true(llm_poll(context) >= 0);
    assert_int_equal(waits.kind, 0);
    assert_int_equal(llm_transmitter_close(&transmitter), 1);
    assert_null(transmitter);
    assert_int_equal(waits.kind, LLM_EVENT_UNACKNOWLEDGED);
    assert_int_equal(waits.reason, LLM_REASON_CLOSED);
    assert_int_equal(waits.first, 1);
    assert_int_equal(waits.last, 2);
    assert_null(waits.receiver);
    assert_int_equal(waits.receivers_wanted, 0);
}

static void closing_after_the_last_acknowledgement_reports_nothing(void **state)
{
    (void)state;
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    receiver_up(CHANNEL);
    assert_int_equal(llm_send(topic, "one", 3, 0), LLM_OK);
    until_acknowledged();
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
    while (counter_of(context, "status_received") < 2 || llm_transmitter_receivers(transmitter) > 0)
        assert_true(llm_poll(context) >= 0);
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    assert_int_equal(waits.kind, 0);
}

static void *close_transmitter(void *result)
{
    *(int *)result = llm_transmitter_close(&transmitter);
    return NULL;
}

/* The receiver closes without another poll, so closing has to send the acknowledgement. */
static void acknowledging_after_the_end_and_closing_suffices(void **state)
{
    const uint64_t began = llm_clock();
    struct llm_context *far;
    uint64_t session;
    pthread_t closing;
    int result = -1;

    (void)state;
    assert_int_equal(llm_transmitter_close(&transmitter), 0);
    transmitter_up(CHANNEL "&linger_ns=30000000000", on_transmitter_event);
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    assert_int_equal(llm_context_open(NULL, &far), LLM_OK);
    receiver_up_in(far, CHANNEL "&acknowledge=application");
    while (llm_transmitter_receivers(transmitter) == 0)
        assert_true(llm_poll(context) >= 0 && llm_poll(far) >= 0 &&
                    llm_clock() < began + UINT64_C(20000000000));
    assert_int_equal(llm_send(topic, "one", 3, 0), LLM_OK);
    assert_int_equal(llm_send(topic, "two", 3, 0), LLM_OK);
    session = llm_transmitter_session(transmitter);
    assert_int_equal(pthread_create(&closing, NULL, close_transmitter, &result), 0);
    while (ends == 0)
        assert_true(llm_poll(far) >= 0 && llm_clock() < began + UINT64_C(20000000000));
    assert_int_equal(messages, 2);
    assert_int_equal(llm_receiver_acknowledge(receiver, session, 1), LLM_OK);
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
    assert_int_equal(pthread_join(closing, NULL), 0);
    assert_int_equal(result, 0);
    assert_int_equal(waits.kind, 0);
    assert_int_equal(acknowledged.kind, LLM_EVENT_ACKNOWLEDGED);
    assert_int_equal(acknowledged.session, session);
    assert_int_equal(acknowledged.last, 1);
    assert_int_equal(llm_context_close(&far), LLM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(impossible_assurances_are_refused_with_the_reason, up, down),
        cmocka_unit_test_setup_teardown(the_seventeenth_topic_is_refused, up, down),
        cmocka_unit_test_setup_teardown(messages_of_every_kind_wait_until_they_are_acknowledged, up, down),
        cmocka_unit_test_setup_teardown(application_acknowledgements_count_for_named_receivers, up, down),
        cmocka_unit_test_setup_teardown(acknowledging_after_the_end_and_closing_suffices, up, down),
        cmocka_unit_test_setup_teardown(a_list_of_destinations_acknowledges_as_a_group_does, up, down),
        cmocka_unit_test_setup_teardown(missing_acknowledgements_are_logged_without_a_handler, up, down),
        cmocka_unit_test_setup_teardown(a_pattern_waits_for_two_names_and_is_logged_with_them, up, down),
        cmocka_unit_test_setup_teardown(closing_reports_unacknowledged_messages, up, down),
        cmocka_unit_test_setup_teardown(closing_after_the_last_acknowledgement_reports_nothing, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
