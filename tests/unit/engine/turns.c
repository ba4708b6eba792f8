/* SPDX-License-Identifier: Apache-2.0 */
/* Repairs and replayed packets are sent in small portions per poll: new data never waits for more of them. */
#include "unit.h"

#include <stdio.h>

#include <llm/llm.h>

enum { KEPT = 512, TURN = 64 };

/* The maximum budget, so that only turns limit them. */
#define CHANNEL "loop://turns:1?mtu=576&history_packets=512&history_bytes=1M&"
#define TO_SEND CHANNEL "repair_bytes_per_s=68719476736&replay_bytes_per_s=68719476736"

/* Each in its own context, so that they are polled separately. */
static struct llm_context *sending, *receiving;
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;
static struct llm_topic *topic;
static uint64_t next; /* number of the next message; 0: any */

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    assert_true(next == 0 || message->number == next);
    next = message->number + 1;
}

static struct llm_context *context_make(void)
{
    struct llm_context_options options;
    struct llm_context *made = NULL;

    llm_context_options_init(&options);
    options.huge_pages = false;
    assert_int_equal(llm_context_open(&options, &made), LLM_OK);
    return made;
}

static int up(void **state)
{
    (void)state;
    next = 0;
    sending = context_make();
    receiving = context_make();
    assert_int_equal(llm_transmitter_open(sending, TO_SEND, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "prices", 0, &topic), LLM_OK);
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&receiving), LLM_OK);
    assert_int_equal(llm_context_close(&sending), LLM_OK);
    return 0;
}

static void receiver_make(const char *channel)
{
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    assert_int_equal(llm_receiver_open(receiving, channel, NULL, &handlers, &receiver), LLM_OK);
}

/* Sends messages, each in its own packet. */
static void messages_send(int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(llm_send(topic, "x", 1, LLM_SEND_NOW), LLM_OK);
}

/*
 * Polls until the last of this many messages was delivered; no poll sends more packets of this kind than a
 * turn allows, and at least one sends as many.
 */
static void expect_turns(const char *counter, uint64_t count)
{
    const uint64_t until = llm_clock() + UINT64_C(5000000000);
    uint64_t before = 0, after, most = 0;

    while (next < count && llm_clock() < until) {
        assert_true(llm_poll(sending) >= 0);
        assert_int_equal(llm_context_counter(sending, counter, &after), LLM_OK);
        most = after - before > most ? after - before : most;
        before = after;
        assert_true(llm_poll(receiving) >= 0);
    }
    assert_int_equal(next, count);
    assert_int_equal(most, TURN);
}

static void replayed_packets_leave_in_turns(void **state)
{
    (void)state;
    /* A receiver that joins while the whole session is retained is no late joiner. */
    messages_send(2 * KEPT);
    receiver_make(CHANNEL "join=oldest");
    expect_turns("packets_replayed", 2 * KEPT);
}

/* The receiver has room for a hundred packets, and is not polled. */
static void repairs_leave_in_turns(void **state)
{
    (void)state;
    receiver_make(CHANNEL "rcvbuf_bytes=57600");
    for (int i = 0; i < 10; i++) {
        assert_true(llm_poll(sending) >= 0);
        assert_true(llm_poll(receiving) >= 0);
    }
    messages_send(KEPT - 1);
    expect_turns("packets_repaired", KEPT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(replayed_packets_leave_in_turns, up, down),
        cmocka_unit_test_setup_teardown(repairs_leave_in_turns, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
