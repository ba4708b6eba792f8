/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver of the messages of store_fixture.h, in a context of its own, which has to get each of them in order. */
#ifndef TESTS_STORE_JOINER_H
#define TESTS_STORE_JOINER_H

#include "store_fixture.h"

#include "../rest.h"

/* A history of 256 packets, far less than is sent. */
#define SMALL "&history_bytes=512K&history_packets=256&heartbeat_ns_max=5M"

static struct llm_context *other;
static struct llm_receiver *receiver;

static struct {
    uint64_t first;
    uint64_t next;
    uint64_t lost;
    int gaps, lives, ends, refusals, topics;
    struct llm_event gap, refused;
} got;

static inline void on_message(void *arg, const struct llm_message *message)
{
    static uint8_t expected[32768];
    char topic[8];

    (void)arg;
    (void)snprintf(topic, sizeof topic, "t%d", (int)(message->number % 3));
    assert_int_equal(message->number, got.next);
    assert_string_equal(message->topic, topic);
    assert_int_equal(message->size, message_size(message->number));
    message_fill(message->number, expected);
    assert_memory_equal(message->data, expected, message->size);
    got.next++;
}

static inline void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_SESSION_NEW) {
        got.first = got.next = event->first;
    } else if (event->kind == LLM_EVENT_GAP) {
        got.gaps++;
        got.gap = *event;
        got.lost += event->last + 1 - event->first;
        got.next = event->last + 1;
    }
    if (event->kind == LLM_EVENT_JOIN_REFUSED)
        got.refused = *event;
    got.lives += event->kind == LLM_EVENT_LIVE;
    got.ends += event->kind == LLM_EVENT_SESSION_END;
    got.refusals += event->kind == LLM_EVENT_JOIN_REFUSED;
    got.topics += event->kind == LLM_EVENT_TOPIC_NEW;
}

/* Opens a context for a receiver. */
static inline void joiner_context(struct llm_context **opened)
{
    struct llm_context_options context_options;

    llm_context_options_init(&context_options);
    context_options.log = log_keep;
    context_options.huge_pages = false;
    assert_int_equal(llm_context_open(&context_options, opened), LLM_OK);
}

static inline void receiver_up(const char *further)
{
    struct llm_receiver_handlers handlers;

    memset(&got, 0, sizeof got);
    joiner_context(&other);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(other, channel(further), NULL, &handlers, &receiver), LLM_OK);
}

static inline void poll_both(void)
{
    rest_after(llm_poll(context) + llm_poll(other));
}

/* Polls both until the receiver expects this message. */
static inline void await_next(uint64_t next)
{
    const uint64_t end = llm_clock() + UINT64_C(60000000000);

    while (got.next < next || got.first + got.next == 0) {
        if (llm_clock() > end)
            fail_msg("message %llu is next, not %llu", (unsigned long long)got.next,
                     (unsigned long long)next);
        poll_both();
    }
}

/* Makes the session old, so that receivers do not begin at its start without asking. */
static inline void send_past(uint64_t count)
{
    send_some(count);
    await_acknowledged(count);
    for (const uint64_t end = llm_clock() + 1100000000; llm_clock() < end;)
        (void)llm_wait(context, 10000000);
}

static inline void expect_whole(uint64_t first)
{
    uint64_t recalled;

    await_next(llm_transmitter_next(transmitter));
    send_some(200);
    await_next(llm_transmitter_next(transmitter));
    assert_int_equal(got.first, first);
    assert_int_equal(got.gaps, 0);
    assert_int_equal(got.lives, 1);
    assert_int_equal(got.refusals, 0);
    assert_int_equal(llm_context_counter(context, "packets_recalled", &recalled), LLM_OK);
    assert_true(recalled > 0);
}

#endif
