/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for receivers, and for room after LLM_EAGAIN. */
#define _GNU_SOURCE
#include "logged.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { WATCHDOG_S = 60, MESSAGES = 20000, LARGE = 1000 };

#define CHANNEL                                                                                           \
    "loop://"                                                                                             \
    "waiting:1?mtu=1500&history_bytes=1M&history_packets=256&reorder_bytes=1M&sessions_max=2&linger_ns=0" \
    "&message_bytes_max=64K&topics_max=8&receivers_max=4&window_packets=256&rcvbuf_bytes=1M"
#define LONG_NS UINT64_C(30000000000)
#define SHORT_NS UINT64_C(1000000)

static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;
static struct llm_topic *topic;
static int inside, delivered;

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    (void)message;
    delivered++;
    inside = llm_topic_wait(topic, 1, 0);
    if (inside == LLM_ESTATE)
        inside = llm_transmitter_wait(transmitter, 0, 0);
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

static void up(enum llm_wait_mode wait, const char *more)
{
    struct llm_context_options options;
    char channel[512];

    inside = delivered = 0;
    llm_context_options_init(&options);
    options.wait = wait;
    options.log = log_keep;
    options.stats_directory = "";
    snprintf(channel, sizeof channel, CHANNEL "%s", more);
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
}

static void receive(void)
{
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(context, CHANNEL, NULL, &handlers, &receiver), LLM_OK);
}

static int down(void **state)
{
    (void)state;
    receiver = NULL;
    return llm_context_close(&context);
}

static void transmitter_wait_returns_when_the_receivers_are_known(void **state)
{
    (void)state;
    up(LLM_WAIT_BLOCK, "");
    assert_int_equal(llm_transmitter_wait(transmitter, 0, 0), 0);
    assert_int_equal(llm_transmitter_wait(transmitter, 1, SHORT_NS), 0);
    receive();
    assert_int_equal(llm_transmitter_wait(transmitter, 1, LONG_NS), 1);
    assert_int_equal(llm_transmitter_receivers(transmitter), 1);
    assert_int_equal(llm_transmitter_wait(transmitter, 2, SHORT_NS), 1);
    assert_int_equal(llm_transmitter_wait(transmitter, 5, 0), LLM_ELIMIT);
    expect_logged("receivers_max is 4");
}

/* Sends until a message is refused; false: none was. */
static bool fill(const void *data, size_t size)
{
    for (int i = 0; i < MESSAGES; i++) {
        const int error = llm_send(topic, data, size, 0);

        if (error == LLM_EAGAIN)
            return true;
        assert_int_equal(error, LLM_OK);
    }
    return false;
}

static void expect_room_again(enum llm_wait_mode wait, const char *more,
                              const struct llm_assurance *assurance, const struct llm_rate *rate)
{
    static uint8_t message[LARGE];

    up(wait, more);
    receive();
    assert_int_equal(llm_transmitter_wait(transmitter, 1, LONG_NS), 1);
    if (assurance != NULL)
        assert_int_equal(llm_topic_assure(topic, assurance), LLM_OK);
    if (rate != NULL)
        assert_int_equal(llm_topic_limit_rate(topic, rate), LLM_OK);
    for (int round = 0; round < 3; round++) {
        assert_true(fill(message, sizeof message));
        assert_int_equal(llm_topic_wait(topic, sizeof message, LONG_NS), LLM_OK);
        assert_int_equal(llm_send(topic, message, sizeof message, 0), LLM_OK);
    }
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

static void topic_wait_works_for_every_cause_of_blocking(void **state)
{
    static const enum llm_wait_mode modes[] = {LLM_WAIT_SPIN, LLM_WAIT_BLOCK};
    struct llm_assurance assurance;
    struct llm_rate rate;

    (void)state;
    llm_assurance_init(&assurance);
    assurance.messages_max = 4;
    llm_rate_init(&rate);
    rate.bytes_per_s = 1 << 20;
    for (unsigned i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        expect_room_again(modes[i], "&flow=window&flow_quorum_percent=100&flow_window_packets=16", NULL,
                          NULL);
        expect_room_again(modes[i], "&rate_bytes_per_s=1M", NULL, NULL);
        expect_room_again(modes[i], "", &assurance, NULL);
        expect_room_again(modes[i], "", NULL, &rate);
    }
}

static void topic_wait_ends_at_its_timeout(void **state)
{
    struct llm_assurance assurance;

    (void)state;
    llm_assurance_init(&assurance);
    assurance.messages_max = 1;
    up(LLM_WAIT_BLOCK, "");
    assert_int_equal(llm_topic_wait(topic, 100, 0), LLM_OK);
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    assert_int_equal(llm_send(topic, "x", 1, 0), LLM_OK);
    logged[0] = '\0';
    assert_int_equal(llm_topic_wait(topic, 1, 0), LLM_EAGAIN);
    assert_int_equal(llm_topic_wait(topic, 1, SHORT_NS), LLM_EAGAIN);
    assert_string_equal(logged, "");
    assert_int_equal(llm_topic_assure(topic, NULL), LLM_OK);
    assert_int_equal(llm_topic_wait(topic, 1, 0), LLM_OK);
}

static void handlers_may_not_wait(void **state)
{
    (void)state;
    up(LLM_WAIT_BLOCK, "");
    receive();
    assert_int_equal(llm_transmitter_wait(transmitter, 1, LONG_NS), 1);
    assert_int_equal(llm_send(topic, "x", 1, 0), LLM_OK);
    for (int i = 0; i < MESSAGES && delivered == 0; i++)
        assert_true(llm_poll(context) >= 0);
    assert_int_equal(delivered, 1);
    assert_int_equal(inside, LLM_ESTATE);
}

/* ----------------------------------------------------------------------------------------- another thread */

static atomic_int step;

static void await_step(int wanted)
{
    while (atomic_load(&step) < wanted)
        usleep(100);
}

/* Claims, and commits on request. */
static void *claim_elsewhere(void *arg)
{
    struct llm_rate *failed = arg;
    void *data;

    if (llm_topic_claim(topic, 1, &data) != LLM_OK)
        failed->size = 0;
    atomic_store(&step, 1);
    await_step(2);
    usleep(5000);
    if (llm_topic_commit(topic, 1, 0) != LLM_OK)
        failed->size = 0;
    return NULL;
}

static void topic_wait_waits_for_a_claim_of_another_thread(void **state)
{
    struct llm_rate rate;
    struct llm_topic *opened;
    pthread_t other;
    void *data;

    (void)state;
    llm_rate_init(&rate);
    up(LLM_WAIT_BLOCK, "");
    atomic_store(&step, 0);
    assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
    assert_int_equal(pthread_create(&other, NULL, claim_elsewhere, &rate), 0);
    await_step(1);
    logged[0] = '\0';
    assert_int_equal(llm_send(topic, "x", 1, 0), LLM_EAGAIN);
    assert_int_equal(llm_topic_claim(topic, 1, &data), LLM_EAGAIN);
    assert_int_equal(llm_topic_open(transmitter, "u", 0, &opened), LLM_EAGAIN);
    assert_int_equal(llm_topic_limit_rate(topic, &rate), LLM_EAGAIN);
    assert_int_equal(llm_topic_wait(topic, 1, 0), LLM_EAGAIN);
    assert_string_equal(logged, "");
    atomic_store(&step, 2);
    assert_int_equal(llm_topic_wait(topic, 1, LONG_NS), LLM_OK);
    pthread_join(other, NULL);
    assert_int_not_equal(rate.size, 0);
    assert_int_equal(llm_send(topic, "x", 1, 0), LLM_OK);
    /* Waiting for the thread's own claim would never end. */
    assert_int_equal(llm_topic_claim(topic, 1, &data), LLM_OK);
    assert_int_equal(llm_send(topic, "x", 1, 0), LLM_ESTATE);
    assert_int_equal(llm_topic_wait(topic, 1, LONG_NS), LLM_ESTATE);
    expect_logged("claim is open");
    assert_int_equal(llm_topic_abort(topic), LLM_OK);
}

static void other_threads_may_wait_beside_the_loop_thread(void **state)
{
    static const enum llm_wait_mode modes[] = {LLM_WAIT_SPIN, LLM_WAIT_BLOCK};
    static uint8_t message[LARGE];

    for (unsigned i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        up(modes[i], "&flow=window&flow_quorum_percent=100&flow_window_packets=16");
        receive();
        assert_int_equal(llm_context_start_thread(context, -1), LLM_OK);
        assert_int_equal(llm_transmitter_wait(transmitter, 1, LONG_NS), 1);
        for (int sent = 0; sent < 2000;) {
            const int error = llm_send(topic, message, sizeof message, 0);

            if (error == LLM_OK)
                sent++;
            else
                assert_int_equal(llm_topic_wait(topic, sizeof message, LONG_NS), LLM_OK);
        }
        assert_true(llm_wait(context, SHORT_NS) >= 0);
        assert_true(llm_poll(context) >= 0);
        assert_int_equal(llm_context_stop_thread(context), LLM_OK);
        if (i == 0)
            assert_int_equal(down(state), LLM_OK);
    }
}

#define T(name) cmocka_unit_test_teardown(name, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(transmitter_wait_returns_when_the_receivers_are_known),
        cmocka_unit_test(topic_wait_works_for_every_cause_of_blocking),
        T(topic_wait_ends_at_its_timeout),
        T(handlers_may_not_wait),
        T(topic_wait_waits_for_a_claim_of_another_thread),
        T(other_threads_may_wait_beside_the_loop_thread),
    };

    /* A wait that never ends would hang the test: end the process. */
    alarm(WATCHDOG_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
