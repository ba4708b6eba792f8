/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of connections: two contexts and a connection between them. */
#ifndef TESTS_CALLS_H
#define TESTS_CALLS_H

#include "counter.h"

#include <llm/llm.h>
#include <stdio.h>

#include "../rest.h"

enum { SIDES = 2, LISTENS = 0, CONNECTS = 1 };

#define SMALL                                                                                             \
    "history_bytes=256K&history_packets=256&window_packets=128&flow=window&flow_quorum_percent=100&flow_" \
    "window_packets=64"                                                                                   \
    "&reorder_bytes=256K&message_bytes_max=64K&topics_max=8&rcvbuf_bytes=1M&mtu=1500&receivers_max=1&"    \
    "sessions_max=1"
#define LOOP "loop://calls:1?" SMALL
#define WAIT_NS UINT64_C(10000000000)

/* One side: its context, its end of a connection, and its messages and events. */
struct side {
    struct llm_context *context;
    struct llm_connection *connection;
    struct llm_topic *topic;
    uint64_t received;
    int connected, disconnected;
    struct llm_event last;
    int others;
};

static struct side sides[SIDES];
static struct llm_listener *listener;
static int answer; /* result of the request handler */
static int requests;
static char shown[LLM_CONNECT_PAYLOAD_MAX + 1];
static uint64_t caller_id;
static char logged[1024];

static inline void log_keep(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    snprintf(logged, sizeof logged, "%s", text);
}

/* Messages are numbered, and the number determines the length. */
static inline uint32_t message_size(uint64_t number)
{
    return 8 + (uint32_t)(number % 7) * 300;
}

static inline void on_message(void *arg, struct llm_connection *connection, const struct llm_message *message)
{
    struct side *side = arg;
    uint64_t number;

    assert_ptr_equal(connection, side->connection);
    assert_int_equal(message->size, message_size(side->received));
    memcpy(&number, message->data, sizeof number);
    assert_int_equal(number, side->received);
    assert_int_equal(message->number, side->received);
    pattern_check((const uint8_t *)message->data + 8, message->size - 8, number);
    side->received++;
}

static inline void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct side *side = arg;

    side->last = *event;
    if (event->kind == LLM_EVENT_CONNECTED) {
        side->connected++;
        side->connection = connection;
        assert_int_equal(llm_topic_open(llm_connection_transmitter(connection), "t", 0, &side->topic),
                         LLM_OK);
    } else if (event->kind == LLM_EVENT_DISCONNECTED) {
        side->disconnected++;
    } else {
        side->others++;
        /* For an unreliable topic: the connection continues after the gap. */
        if (event->kind == LLM_EVENT_GAP)
            side->received = event->last + 1;
    }
}

static inline struct llm_connection_handlers handlers_of(struct side *side)
{
    struct llm_connection_handlers handlers;

    llm_connection_handlers_init(&handlers);
    handlers.arg = side;
    handlers.message = on_message;
    handlers.event = on_event;
    return handlers;
}

static inline int on_request(void *arg, struct llm_listener *from, const struct llm_caller *caller,
                             struct llm_connection_handlers *handlers)
{
    assert_ptr_equal(from, listener);
    requests++;
    caller_id = caller->id;
    snprintf(shown, sizeof shown, "%.*s", (int)caller->payload_size, (const char *)caller->payload);
    assert_int_equal(llm_listener_accept(from, caller->id, handlers), LLM_ESTATE);
    *handlers = handlers_of(arg);
    return answer;
}

static inline struct llm_context *context_make(void)
{
    struct llm_context_options options;
    struct llm_context *made = NULL;

    llm_context_options_init(&options);
    options.log = log_keep;
    options.huge_pages = false;
    assert_int_equal(llm_context_open(&options, &made), LLM_OK);
    return made;
}

static inline int sides_up(void **state)
{
    (void)state;
    memset(sides, 0, sizeof sides);
    logged[0] = shown[0] = '\0';
    answer = requests = 0;
    listener = NULL;
    for (int i = 0; i < SIDES; i++)
        sides[i].context = context_make();
    return 0;
}

static inline int sides_down(void **state)
{
    (void)state;
    for (int i = SIDES; i-- > 0;)
        assert_int_equal(llm_context_close(&sides[i].context), LLM_OK);
    return 0;
}

static inline void poll_all(void)
{
    int delivered = 0;

    for (int i = 0; i < SIDES; i++) {
        const int count = llm_poll(sides[i].context);

        assert_true(count >= 0);
        delivered += count;
    }
    rest_after(delivered);
}

#define POLL_UNTIL(condition)                         \
    do {                                              \
        const uint64_t until = llm_clock() + WAIT_NS; \
        while (!(condition) && llm_clock() < until)   \
            poll_all();                               \
        assert_true(condition);                       \
    } while (0)

static inline void listen_on(const char *channel)
{
    struct llm_listener_handlers handlers;

    llm_listener_handlers_init(&handlers);
    handlers.arg = &sides[LISTENS];
    handlers.connect = on_request;
    assert_int_equal(llm_listener_open(sides[LISTENS].context, channel, NULL, &handlers, &listener), LLM_OK);
}

static inline void connect_to(const char *channel)
{
    const struct llm_connection_handlers handlers = handlers_of(&sides[CONNECTS]);
    const struct iovec payload = {(void *)(uintptr_t) "open sesame", 11};

    assert_int_equal(llm_connection_open(sides[CONNECTS].context, channel, NULL, &handlers, &payload,
                                         &sides[CONNECTS].connection),
                     LLM_OK);
}

static inline void connected_over(const char *channel)
{
    listen_on(channel);
    connect_to(channel);
    assert_null(llm_connection_transmitter(sides[CONNECTS].connection));
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
}

static inline int send_one(struct side *side, uint64_t number)
{
    uint8_t bytes[8 + 6 * 300];

    memcpy(bytes, &number, sizeof number);
    pattern_fill(bytes + 8, message_size(number) - 8, number);
    return llm_send(side->topic, bytes, message_size(number), 0);
}

/* Each side sends this many messages, independently of the other. */
static inline void exchange(uint64_t count)
{
    const uint64_t until = llm_clock() + 3 * WAIT_NS;
    uint64_t sent[SIDES] = {0};

    while ((sides[0].received < count || sides[1].received < count) && llm_clock() < until) {
        for (int i = 0; i < SIDES; i++)
            for (int burst = 0; burst < 20 && sent[i] < count; burst++) {
                const int error = send_one(&sides[i], sent[i]);

                assert_true(error == LLM_OK || error == LLM_EAGAIN);
                sent[i] += error == LLM_OK;
            }
        poll_all();
    }
    assert_int_equal(sides[0].received, count);
    assert_int_equal(sides[1].received, count);
    assert_int_equal(sides[0].disconnected + sides[1].disconnected, 0);
}

/* Closes one side while the other runs on a thread. */
static inline void close_beside(struct llm_connection **connection, const struct side *other)
{
    assert_int_equal(llm_context_start_thread(other->context, -1), LLM_OK);
    assert_int_equal(llm_connection_close(connection), 0);
    assert_null(*connection);
    assert_int_equal(llm_context_stop_thread(other->context), LLM_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sides_up, sides_down)

#endif
