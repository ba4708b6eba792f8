/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections between two processes: both sides send numbered messages to each other at the same time, and
 * verify what they receive.
 *
 *   e2e_calls listen CHANNEL [--messages N] [--connections N] [--stop-at N] [--wait MODE]
 *   e2e_calls connect CHANNEL [--messages N] [--connections N] [--key KEY] [--wait MODE]
 *
 * The listener accepts callers with the key "sesame", and ends after so many connections. The caller opens as
 * many, one after the other, and closes each when all messages were sent and received.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <llm/llm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 64, SIZE_MAX_BYTES = 1500, CODE = 403 };

#define GIVE_UP_NS UINT64_C(100000000000)

/* A connection of either side. */
struct call {
    struct llm_connection *connection;
    struct llm_topic *topic;
    uint64_t sent;
    uint64_t received;
    bool used;
    bool over;
};

static struct {
    const char *channel, *key;
    uint64_t messages, connections, stop_at, wait;
    struct call calls[CALLS_MAX];
    uint64_t connected, received, errors, again, silences, undelivered;
    uint64_t over[LLM_REASON_PENDING + 1];
    uint64_t code;
} program = {.key = "sesame", .messages = 1000, .connections = 1};

static void fail(const char *what, int error)
{
    fprintf(stderr, "%s: %s\n", what, llm_error_name(error));
    exit(2);
}

static uint32_t size_of(uint64_t number)
{
    return 8 + (uint32_t)(number * 37 % (SIZE_MAX_BYTES - 8));
}

static void fill(uint8_t *bytes, uint64_t number)
{
    memcpy(bytes, &number, sizeof number);
    for (uint32_t at = 8; at < size_of(number); at++)
        bytes[at] = (uint8_t)(number * 31 + at);
}

/* Opens topics and sends as many messages as are accepted. */
static void call_send(struct call *call)
{
    uint8_t bytes[SIZE_MAX_BYTES];

    for (int burst = 0; burst < 32 && call->sent < program.messages; burst++) {
        int error;

        fill(bytes, call->sent);
        error = llm_send(call->topic, bytes, size_of(call->sent), 0);
        if (error == LLM_EAGAIN) {
            program.again++;
            return;
        }
        /* The connection is over; the event follows. */
        if (error == LLM_ESTATE)
            return;
        if (error != LLM_OK)
            fail("send", error);
        call->sent++;
    }
}

static void on_message(void *arg, struct llm_connection *connection, const struct llm_message *message)
{
    struct call *call = arg;
    uint8_t expected[SIZE_MAX_BYTES];

    (void)connection;
    fill(expected, call->received);
    program.errors += message->number != call->received || message->size != size_of(call->received) ||
                      memcmp(message->data, expected, message->size) != 0;
    call->received++;
    if (++program.received == program.stop_at)
        fprintf(stderr, "reached\n");
}

static void on_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    struct call *call = arg;
    char text[160];
    int error;

    (void)llm_event_text(event, text, sizeof text);
    if (event->kind == LLM_EVENT_CONNECTED) {
        program.connected++;
        call->connection = connection;
        error = llm_topic_open(llm_connection_transmitter(connection), "numbers", 0, &call->topic);
        if (error != LLM_OK)
            fail("topic", error);
    } else if (event->kind == LLM_EVENT_DISCONNECTED) {
        if (event->reason != LLM_REASON_CLOSED)
            fprintf(stderr, "%s\n", text);
        program.over[event->reason]++;
        program.code = event->first;
        call->over = true;
    }
    program.silences += event->kind == LLM_EVENT_HEARTBEAT_LOST;
}

static struct llm_connection_handlers handlers_of(struct call *call)
{
    struct llm_connection_handlers handlers;

    llm_connection_handlers_init(&handlers);
    handlers.arg = call;
    handlers.message = on_message;
    handlers.event = on_event;
    return handlers;
}

static int on_request(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                      struct llm_connection_handlers *handlers)
{
    (void)arg;
    (void)listener;
    if (caller->payload_size != 6 || memcmp(caller->payload, "sesame", 6) != 0)
        return CODE;
    for (int i = 0; i < CALLS_MAX; i++)
        /* An accepted connection without any packet from its caller leaves no trace: its place is free
         * again. */
        if (!program.calls[i].used || program.calls[i].connection == NULL) {
            program.calls[i] = (struct call){.used = true};
            *handlers = handlers_of(&program.calls[i]);
            return LLM_OK;
        }
    return CODE + 1;
}

/* Sleeps if permitted, except that refused messages are retried soon. */
static void turn(struct llm_context *context)
{
    (void)(program.wait == LLM_WAIT_SPIN ? llm_poll(context) : llm_wait(context, 1000000));
}

static void print_stats(const struct llm_context *context)
{
    struct llm_counter stats[512];
    const int count = llm_context_counters(context, stats, 512);

    printf("{\"connected\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"errors\": %" PRIu64
           ", \"again\": %" PRIu64 ", \"silences\": %" PRIu64 ", \"undelivered\": %" PRIu64
           ", \"code\": %" PRIu64,
           program.connected, program.received, program.errors, program.again, program.silences,
           program.undelivered, program.code);
    for (int reason = 0; reason <= LLM_REASON_PENDING; reason++)
        if (program.over[reason] > 0)
            printf(", \"over_%d\": %" PRIu64, reason, program.over[reason]);
    for (int i = 0; i < count && i < 512; i++)
        if (stats[i].value != 0 && strncmp(stats[i].object, "transmitter", 11) != 0 &&
            strncmp(stats[i].object, "receiver", 8) != 0)
            printf(", \"%s\": %" PRIu64, stats[i].name, stats[i].value);
    printf("}\n");
}

static void run_listen(struct llm_context *context)
{
    const uint64_t until = llm_clock() + GIVE_UP_NS;
    struct llm_listener_handlers handlers;
    struct llm_listener *listener;
    uint64_t over = 0;
    int error;

    llm_listener_handlers_init(&handlers);
    handlers.connect = on_request;
    error = llm_listener_open(context, program.channel, NULL, &handlers, &listener);
    if (error != LLM_OK)
        fail("listen", error);
    fprintf(stderr, "listening\n");
    while (over < program.connections && llm_clock() < until) {
        turn(context);
        for (int i = 0; i < CALLS_MAX; i++) {
            struct call *call = &program.calls[i];

            if (call->connection == NULL)
                continue;
            if (!call->over) {
                call_send(call);
                continue;
            }
            program.undelivered += (uint64_t)llm_connection_close(&call->connection);
            *call = (struct call){.used = false};
            over++;
        }
    }
    print_stats(context);
}

static void run_connect(struct llm_context *context)
{
    const struct iovec payload = {(void *)(uintptr_t)program.key, strlen(program.key)};
    const uint64_t until = llm_clock() + GIVE_UP_NS;

    for (uint64_t i = 0; i < program.connections; i++) {
        struct call *call = &program.calls[0];
        struct llm_connection_handlers handlers;
        int error;

        *call = (struct call){.used = true};
        handlers = handlers_of(call);
        error = llm_connection_open(context, program.channel, NULL, &handlers, &payload, &call->connection);
        if (error != LLM_OK)
            fail("connect", error);
        while (!call->over && (call->sent < program.messages || call->received < program.messages) &&
               llm_clock() < until) {
            turn(context);
            if (call->topic != NULL && !call->over)
                call_send(call);
        }
        program.undelivered += (uint64_t)llm_connection_close(&call->connection);
    }
    print_stats(context);
}

int main(int argc, char **argv)
{
    struct llm_context_options options;
    struct llm_context *context;

    if (argc < 3 || (strcmp(argv[1], "listen") != 0 && strcmp(argv[1], "connect") != 0)) {
        fprintf(stderr, "usage: e2e_calls listen|connect CHANNEL [--messages N] [--connections N] [--stop-at "
                        "N] [--key KEY] "
                        "[--wait MODE]\n");
        return 2;
    }
    program.channel = argv[2];
    for (int i = 3; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--messages") == 0)
            program.messages = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--connections") == 0)
            program.connections = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--stop-at") == 0)
            program.stop_at = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--wait") == 0)
            program.wait = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--key") == 0)
            program.key = argv[i + 1];
    }
    llm_context_options_init(&options);
    options.wait = (enum llm_wait_mode)program.wait;
    if (llm_context_open(&options, &context) != LLM_OK)
        return 2;
    if (strcmp(argv[1], "listen") == 0)
        run_listen(context);
    else
        run_connect(context);
    return llm_context_close(&context) == LLM_OK ? 0 : 2;
}
