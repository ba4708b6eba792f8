/* SPDX-License-Identifier: Apache-2.0 */
/* Connections over channels with keys. */
#include "calls.h"
#include "key_place.h"
#include "seal_keys.h"

static char path[2][64];
static char channels[2][512];
static uint64_t counted;

static int up(void **state)
{
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path[i], sizeof path[i], "/tmp/llm-keys-connection-%d-%d", (int)getpid(), i);
        key_file_write(path[i], KEY_EPOCH(7, "aes-256-gcm", KEY_A, "calls:1"));
        (void)snprintf(channels[i], sizeof channels[i], LOOP "&connect_timeout_ns=300000000&keys=%s",
                       path[i]);
    }
    return sides_up(state);
}

static int down(void **state)
{
    for (int i = 0; i < 2; i++)
        (void)unlink(path[i]);
    return sides_down(state);
}

static void both_sides_connect_exchange_messages_and_close(void **state)
{
    (void)state;
    listen_on(channels[LISTENS]);
    connect_to(channels[CONNECTS]);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
    exchange(2000);
    assert_int_equal(counter_of(sides[LISTENS].context, "packets_forged"), 0);
    assert_int_equal(counter_of(sides[LISTENS].context, "packets_in_clear"), 0);
    close_beside(&sides[CONNECTS].connection, &sides[LISTENS]);
    POLL_UNTIL(sides[LISTENS].disconnected);
    assert_int_equal(sides[LISTENS].last.reason, LLM_REASON_CLOSED);
}

static void a_caller_without_the_key_is_not_answered(void **state)
{
    (void)state;
    key_file_write(path[CONNECTS], KEY_EPOCH(7, "aes-256-gcm", KEY_B, "calls:1"));
    listen_on(channels[LISTENS]);
    connect_to(channels[CONNECTS]);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_UNANSWERED);
    assert_int_equal(requests, 0);
    assert_true(counter_of(sides[LISTENS].context, "packets_forged") > 0);
    assert_int_equal(counter_of(sides[CONNECTS].context, "packets_forged"), 0);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
}

static void a_caller_in_clear_is_not_answered(void **state)
{
    (void)state;
    listen_on(channels[LISTENS]);
    connect_to(LOOP "&connect_timeout_ns=300000000");
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(sides[CONNECTS].last.reason, LLM_REASON_UNANSWERED);
    assert_int_equal(requests, 0);
    assert_true(counter_of(sides[LISTENS].context, "packets_in_clear") > 0);
    assert_int_equal(llm_connection_close(&sides[CONNECTS].connection), 0);
}

/* ------------------------------------------------------------------------------------------------- seals */

struct caller {
    struct llm_connection *connection;
    struct llm_topic *topic;
};

static void count_message(void *arg, struct llm_connection *connection, const struct llm_message *message)
{
    (void)arg;
    (void)connection;
    (void)message;
    counted++;
}

static int accept_and_count(void *arg, struct llm_listener *from, const struct llm_caller *caller,
                            struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)from;
    (void)caller;
    llm_connection_handlers_init(handlers);
    handlers->message = count_message;
    return LLM_OK;
}

static void open_topic(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct caller *caller = arg;

    if (event->kind == LLM_EVENT_CONNECTED)
        assert_int_equal(llm_topic_open(llm_connection_transmitter(connection), "t", 0, &caller->topic),
                         LLM_OK);
}

/* A connection follows one session, and its endpoint hears those of all connections. */
static void the_seals_of_every_connection_are_verified(void **state)
{
    struct llm_listener_handlers listening;
    struct caller callers[2] = {0};
    char seal[2][64], channel[640];

    (void)state;
    counted = 0;
    for (int i = 0; i < 2; i++) {
        (void)snprintf(seal[i], sizeof seal[i], "%s.seal", path[i]);
        key_file_write(seal[i], i == LISTENS ? SEAL_PUBLIC_A : SEAL_PRIVATE_A);
    }
    llm_listener_handlers_init(&listening);
    listening.connect = accept_and_count;
    (void)snprintf(channel, sizeof channel, "%s&seal_keys=%s", channels[LISTENS], seal[LISTENS]);
    assert_int_equal(llm_listener_open(sides[LISTENS].context, channel, NULL, &listening, &listener), LLM_OK);
    (void)snprintf(channel, sizeof channel, "%s&seal=%s", channels[CONNECTS], seal[CONNECTS]);
    for (int i = 0; i < 2; i++) {
        struct llm_connection_handlers handlers;

        llm_connection_handlers_init(&handlers);
        handlers.arg = &callers[i];
        handlers.event = open_topic;
        assert_int_equal(llm_connection_open(sides[CONNECTS].context, channel, NULL, &handlers, NULL,
                                             &callers[i].connection),
                         LLM_OK);
    }
    POLL_UNTIL(callers[0].topic != NULL && callers[1].topic != NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(llm_send(callers[i].topic, "message", 7, 0), LLM_OK);
    POLL_UNTIL(counted == 2);
    POLL_UNTIL(counter_of(sides[LISTENS].context, "packets_sealed") >= 2);
    assert_int_equal(counter_of(sides[LISTENS].context, "packets_unsealed"), 0);
    for (int i = 0; i < 2; i++)
        (void)unlink(seal[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_sides_connect_exchange_messages_and_close, up, down),
        cmocka_unit_test_setup_teardown(a_caller_without_the_key_is_not_answered, up, down),
        cmocka_unit_test_setup_teardown(a_caller_in_clear_is_not_answered, up, down),
        cmocka_unit_test_setup_teardown(the_seals_of_every_connection_are_verified, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
