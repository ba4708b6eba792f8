/* SPDX-License-Identifier: Apache-2.0 */
/* The loop thread, and calls from other threads beside it. */
#define _GNU_SOURCE
#include "unit.h"

#include <llm/llm.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { MESSAGES = 2000, WATCHDOG_S = 60 };

#define CHANNEL                                                                                          \
    "loop://"                                                                                            \
    "thread:1?mtu=1500&history_bytes=1M&history_packets=256&reorder_bytes=1M&sessions_max=2&linger_ns=0" \
    "&message_bytes_max=64K&topics_max=8&receivers_max=4&rcvbuf_bytes=8M"

static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;
static struct llm_topic *topic;
static atomic_uint_fast64_t delivered;
static atomic_int stop_result;
static atomic_int close_result;

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    (void)message;
    atomic_store(&stop_result, llm_context_stop_thread(context));
    if (atomic_load(&delivered) == 0) {
        struct llm_context *same = context;

        atomic_store(&close_result, llm_context_close(&same));
    }
    atomic_fetch_add(&delivered, 1);
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

static void up(enum llm_wait_mode wait, const char *more)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;
    char channel[512];

    atomic_store(&delivered, 0);
    llm_context_options_init(&options);
    options.wait = wait;
    options.log_level = LLM_LEVEL_ERROR;
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    snprintf(channel, sizeof channel, CHANNEL "%s", more);
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
}

static void *send_all(void *arg)
{
    for (uint64_t i = 0; i < MESSAGES;) {
        int error = llm_send(topic, &i, sizeof i, (unsigned)(i % 3));

        if (error == LLM_OK)
            i++;
        else if (error != LLM_EAGAIN)
            return arg;
        (void)llm_context_deadline(context);
        if (error == LLM_EAGAIN || i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static void await_delivered(uint64_t count)
{
    const uint64_t until = llm_clock() + UINT64_C(30000000000);

    while (atomic_load(&delivered) < count && llm_clock() < until)
        usleep(1000);
    assert_int_equal(atomic_load(&delivered), count);
}

static void send_from_two_threads(enum llm_wait_mode wait)
{
    pthread_t other;
    void *failed;

    up(wait, "");
    assert_int_equal(llm_context_stop_thread(context), LLM_ESTATE);
    assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
    assert_int_equal(llm_context_start_thread(context, -1), LLM_ESTATE);
    assert_int_equal(pthread_create(&other, NULL, send_all, &failed), 0);
    assert_null(send_all(&failed));
    pthread_join(other, &failed);
    assert_null(failed);
    await_delivered(2 * MESSAGES);
    assert_int_equal(atomic_load(&stop_result), LLM_ESTATE);
    assert_int_equal(atomic_load(&close_result), LLM_ESTATE);
    assert_int_equal(llm_context_stop_thread(context), LLM_OK);
    assert_int_equal(llm_context_stop_thread(context), LLM_ESTATE);
    assert_true(llm_poll(context) >= 0);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

static void two_threads_send_while_the_loop_thread_spins(void **state)
{
    (void)state;
    send_from_two_threads(LLM_WAIT_SPIN);
}

static void two_threads_send_while_the_loop_thread_sleeps_between(void **state)
{
    (void)state;
    send_from_two_threads(LLM_WAIT_BLOCK);
}

static void the_loop_thread_can_be_started_again_and_closed_with_the_context(void **state)
{
    (void)state;
    up(LLM_WAIT_BLOCK, "");
    for (int i = 0; i < 20; i++) {
        assert_int_equal(llm_context_start_thread(context, 0), LLM_OK);
        assert_int_equal(llm_send(topic, "x", 1, 0), LLM_OK);
        assert_int_equal(llm_context_stop_thread(context), LLM_OK);
    }
    assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

static void a_missing_processor_is_refused(void **state)
{
    (void)state;
    up(LLM_WAIT_BLOCK, "");
    assert_int_equal(llm_context_start_thread(context, 1000000), LLM_EINVAL);
    assert_int_equal(llm_context_start_thread(context, 1023), LLM_EINVAL);
    assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

static atomic_bool batch_over;

/* Sends in batches, as publishers do, until stopped. */
static void *send_more(void *arg)
{
    for (uint64_t i = 0; i < MESSAGES || !atomic_load(&batch_over); i++) {
        int error = llm_send(topic, &i, sizeof i, LLM_SEND_MORE);

        if (error != LLM_OK && error != LLM_EAGAIN && error != LLM_ESTATE)
            return arg;
        if (error != LLM_OK)
            sched_yield();
    }
    return NULL;
}

/* Changes the conditions of llm_send(): an open claim, and a rate limit of the topic. */
static void change_claims_and_rates(struct llm_topic *other)
{
    struct llm_rate rate;
    void *data;

    llm_rate_init(&rate);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        if (llm_topic_claim(other, sizeof i, &data) == LLM_OK) {
            memcpy(data, &i, sizeof i);
            assert_int_equal(llm_topic_commit(other, sizeof i, LLM_SEND_MORE), LLM_OK);
        }
        rate.bytes_per_s = i % 2 == 0 ? UINT64_C(1) << 30 : 0;
        assert_int_equal(llm_topic_limit_rate(topic, &rate), LLM_OK);
        sched_yield();
    }
}

static void send_more_during_changes(const char *more)
{
    struct llm_topic *other;
    pthread_t sender;
    void *failed;

    up(LLM_WAIT_BLOCK, more);
    assert_int_equal(llm_topic_open(transmitter, "other", 0, &other), LLM_OK);
    assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
    atomic_store(&batch_over, false);
    assert_int_equal(pthread_create(&sender, NULL, send_more, &failed), 0);
    change_claims_and_rates(other);
    atomic_store(&batch_over, true);
    pthread_join(sender, &failed);
    assert_null(failed);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

/* ThreadSanitizer reports reads of shared state outside the lock. */
static void batches_are_sent_while_another_thread_claims_and_changes_rates(void **state)
{
    (void)state;
    send_more_during_changes("");
    send_more_during_changes("&topic_counters=1");
}

static int accept_caller(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                         struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)listener;
    (void)caller;
    (void)handlers;
    return LLM_OK;
}

/* The loop thread makes the connection while this thread asks for its transmitter. */
static void a_connection_is_awaited_beside_the_loop_thread(void **state)
{
    const uint64_t until = llm_clock() + UINT64_C(30000000000);
    struct llm_listener_handlers accepts;
    struct llm_connection_handlers handlers;
    struct llm_listener *listener;
    struct llm_connection *connection;

    (void)state;
    up(LLM_WAIT_BLOCK, "");
    llm_listener_handlers_init(&accepts);
    accepts.connect = accept_caller;
    llm_connection_handlers_init(&handlers);
    assert_int_equal(llm_listener_open(context, "loop://thread:2?mtu=1500", NULL, &accepts, &listener),
                     LLM_OK);
    assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
    assert_int_equal(
        llm_connection_open(context, "loop://thread:2?mtu=1500", NULL, &handlers, NULL, &connection), LLM_OK);
    while (llm_connection_transmitter(connection) == NULL && llm_clock() < until)
        sched_yield();
    assert_non_null(llm_connection_transmitter(connection));
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

static void *close_transmitter(void *arg)
{
    return llm_transmitter_close(&transmitter) == LLM_OK ? NULL : arg;
}

/* The call that is inside while the thread stops still has the lock, and must give it back. */
static void stopping_beside_a_blocking_call_leaves_the_lock_free(void **state)
{
    pthread_t other;
    void *failed;

    (void)state;
    up(LLM_WAIT_BLOCK, "&linger_ns=300000000&heartbeat_ns_min=60000000");
    assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
    assert_int_equal(pthread_create(&other, NULL, close_transmitter, &failed), 0);
    usleep(20000);
    assert_int_equal(llm_context_stop_thread(context), LLM_OK);
    pthread_join(other, &failed);
    assert_null(failed);
    assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
    assert_true(llm_poll(context) >= 0);
    assert_int_equal(llm_context_stop_thread(context), LLM_OK);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_send_while_the_loop_thread_spins),
        cmocka_unit_test(two_threads_send_while_the_loop_thread_sleeps_between),
        cmocka_unit_test(batches_are_sent_while_another_thread_claims_and_changes_rates),
        cmocka_unit_test(a_connection_is_awaited_beside_the_loop_thread),
        cmocka_unit_test(the_loop_thread_can_be_started_again_and_closed_with_the_context),
        cmocka_unit_test(a_missing_processor_is_refused),
        cmocka_unit_test(stopping_beside_a_blocking_call_leaves_the_lock_free),
    };

    /* A lock that is never given back would hang the test: end it. */
    alarm(WATCHDOG_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
