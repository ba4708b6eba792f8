/* SPDX-License-Identifier: Apache-2.0 */
/* A store and a transmitter in one context, over the loop transport, on a real directory. */
#ifndef TESTS_STORE_FIXTURE_H
#define TESTS_STORE_FIXTURE_H

#include "counter.h"
#include "logged.h"
#include "tree.h"

#include <llm/llm.h>
#include <stdio.h>
#include <stdlib.h>

#define OPTIONS                                                                                          \
    "?mtu=1500&linger_ns=2G&history_bytes=4M&history_packets=4096&reorder_bytes=256K&sessions_max=4"     \
    "&message_bytes_max=512K&topics_max=32&window_packets=256&receivers_max=4&rcvbuf_bytes=4M&receiver_" \
    "name=a"

static const char *group = "loop://store:1";
static char always[96]; /* further options of every channel of a test */
static char directory[64];
static struct llm_context *context;
static struct llm_store *store;
static struct llm_transmitter *transmitter;
static struct llm_topic *topics[3];
static struct llm_store_options options;
static uint64_t acknowledged; /* one past the last message that the transmitter was told of */
static uint64_t session;
static struct llm_event stopped;

/* Returns the channel with the options of all tests and further ones, valid until the next call. */
static inline const char *channel(const char *further)
{
    static char text[1024];

    (void)snprintf(text, sizeof text, "%s" OPTIONS "%s%s", group, always, further);
    return text;
}

static inline void on_transmitter_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_ACKNOWLEDGED && event->last + 1 > acknowledged)
        acknowledged = event->last + 1;
}

static inline void on_store_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_STORE_STOPPED)
        stopped = *event;
}

/* ------------------------------------------------------------------------------------------------ fixture */

static inline void context_up(void)
{
    struct llm_context_options context_options;

    llm_context_options_init(&context_options);
    context_options.log = log_keep;
    context_options.huge_pages = false;
    context_options.wait = LLM_WAIT_BLOCK; /* tests run side by side */
    assert_int_equal(llm_context_open(&context_options, &context), LLM_OK);
}

static inline int store_up_in(struct llm_context *of)
{
    struct llm_store_handlers handlers;
    int error;

    llm_store_handlers_init(&handlers);
    handlers.event = on_store_event;
    error = llm_store_open(of, &options, &handlers, &store);
    return error != LLM_OK ? error : llm_store_follow(store, channel(""), NULL);
}

static inline void transmitter_up_with(const char *further)
{
    struct llm_transmitter_handlers handlers;
    struct llm_assurance assurance;

    llm_transmitter_handlers_init(&handlers);
    handlers.event = on_transmitter_event;
    assert_int_equal(llm_transmitter_open(context, channel(further), NULL, &handlers, &transmitter), LLM_OK);
    session = llm_transmitter_session(transmitter);
    llm_assurance_init(&assurance);
    assurance.receivers = 0;
    assurance.names = "a";
    for (int i = 0; i < 3; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(llm_topic_open(transmitter, name, 0, &topics[i]), LLM_OK);
        assert_int_equal(llm_topic_assure(topics[i], &assurance), LLM_OK);
    }
}

static inline void transmitter_up(void)
{
    transmitter_up_with("");
}

static inline int up(void **state)
{
    (void)state;
    acknowledged = 0;
    stopped = (struct llm_event){.kind = 0};
    (void)snprintf(directory, sizeof directory, "/tmp/llm-store-XXXXXX");
    assert_non_null(mkdtemp(directory));
    llm_store_options_init(&options);
    options.directory = directory;
    options.segment_bytes = 16 << 20;
    options.spares = 0;
    options.reserve_bytes = 0;
    context_up();
    return 0;
}

static inline int down(void **state)
{
    (void)state;
    (void)llm_transmitter_close(&transmitter);
    assert_int_equal(llm_store_close(&store), LLM_OK);
    assert_int_equal(llm_context_close(&context), LLM_OK);
    assert_int_equal(tree_remove(directory), 0);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ messages */

/* Message n: its size and bytes follow from n. One in sixteen spans packets. */
static inline size_t message_size(uint64_t n)
{
    return n % 16 == 5 ? 20000 + n % 1000 : 8 + n * 37 % 300;
}

static inline void message_fill(uint64_t n, uint8_t *bytes)
{
    for (size_t i = 0; i < message_size(n); i++)
        bytes[i] = (uint8_t)(n + i);
    memcpy(bytes, &n, sizeof n);
}

static inline void send_some(uint64_t count)
{
    static uint8_t bytes[32768];

    for (uint64_t end = llm_transmitter_next(transmitter) + count; llm_transmitter_next(transmitter) < end;) {
        const uint64_t n = llm_transmitter_next(transmitter);
        int error;

        message_fill(n, bytes);
        error = llm_send(topics[n % 3], bytes, message_size(n), 0);
        assert_true(error == LLM_OK || error == LLM_EAGAIN);
        (void)llm_poll(context);
    }
}

static inline void await_acknowledged(uint64_t number)
{
    for (int i = 0; acknowledged < number; i++) {
        assert_true(i < 1000000);
        (void)llm_wait(context, 10000);
    }
}

#endif
