/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledged messages, through the public API.
 *
 *   e2e_assured send CHANNEL [--receivers N] [--names A,B] [--messages N] [--max N] [--then-receivers N]
 *       sends as fast as the window permits; --then-receivers: required receivers after the first wait
 *   e2e_assured receive CHANNEL [--stop-at N] [--hold-at N]
 *       prints "reached" at N messages, and stops; --hold-at, with acknowledge=application: pauses
 *       acknowledgements until SIGUSR1
 */
#define _GNU_SOURCE
#include "flood.h"

enum { WINDOW_MESSAGES = 256, SIZE = 100 };

struct assured {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct llm_receiver *receiver;
    uint64_t acknowledged; /* all messages before this one are acknowledged */
    uint64_t waits;        /* events that report waiting */
    uint64_t refused;      /* sends refused by the window */
    uint64_t then_receivers;
    uint64_t max;
    uint64_t first;
    uint64_t expected;
    uint64_t session;
    uint64_t stop_at, hold_at;
    bool application;
    bool ended;
    unsigned errors;
};

static volatile sig_atomic_t assured_released;

static void assured_release(int number)
{
    (void)number;
    assured_released = 1;
}

static void assured_assure(struct assured *a, uint64_t receivers, const char *names)
{
    struct llm_assurance assurance;

    llm_assurance_init(&assurance);
    assurance.receivers = (uint32_t)receivers;
    assurance.names = names;
    assurance.messages_max = a->max;
    assurance.patience_ns = 200000000;
    flood_ok(llm_topic_assure(a->topic, &assurance), "llm_topic_assure");
}

/* ------------------------------------------------------------------------------------------------- send */

static void on_transmitter_event(void *arg, const struct llm_event *event)
{
    struct assured *a = arg;

    if (event->kind == LLM_EVENT_ACKNOWLEDGED) {
        a->errors += event->first != a->acknowledged || event->last < event->first ||
                     strcmp(event->topic, "orders") != 0;
        a->acknowledged = event->last + 1;
    }
    if (event->kind != LLM_EVENT_UNACKNOWLEDGED)
        return;
    a->errors += event->first != a->acknowledged;
    a->waits++;
    fprintf(stderr, "waits: %s %s from %" PRIu64 "\n", llm_reason_name(event->reason),
            event->receiver == NULL ? "" : event->receiver, event->first);
    if (a->then_receivers > 0)
        assured_assure(a, a->then_receivers, NULL);
    a->then_receivers = 0;
}

/* Every third message is claimed; every fifth is sent with more to follow. */
static int assured_send_one(struct assured *a, uint64_t number)
{
    void *data;
    int result;

    if (number % 3 != 0) {
        uint8_t message[SIZE] = {(uint8_t)number};

        return llm_send(a->topic, message, sizeof message, number % 5 == 0 ? LLM_SEND_MORE : 0);
    }
    result = llm_topic_claim(a->topic, SIZE, &data);
    if (result != LLM_OK)
        return result;
    memset(data, (int)(uint8_t)number, 1);
    return llm_topic_commit(a->topic, SIZE, 0);
}

static void assured_check_window(struct assured *a, uint64_t sent)
{
    uint64_t waiting = 0;

    flood_ok(llm_context_counter(a->context, "messages_unacknowledged", &waiting), "llm_context_counter");
    /* Acknowledgements may be reported late, but the unacknowledged messages never exceed the maximum. */
    a->errors += waiting > a->max || sent - a->acknowledged < waiting;
}

static void assured_send(struct assured *a, const char *channel, int argc, char **argv)
{
    const uint64_t messages = flood_option(argc, argv, "--messages", 50000);
    struct llm_transmitter_handlers handlers;
    struct llm_options options;
    int result;

    a->then_receivers = flood_option(argc, argv, "--then-receivers", 0);
    a->max = flood_option(argc, argv, "--max", WINDOW_MESSAGES);
    llm_options_init(&options);
    options.linger_ns = 30000000000;
    llm_transmitter_handlers_init(&handlers);
    handlers.arg = a;
    handlers.event = on_transmitter_event;
    flood_ok(llm_transmitter_open(a->context, channel, &options, &handlers, &a->transmitter), channel);
    flood_ok(llm_topic_open(a->transmitter, "orders", 0, &a->topic), "llm_topic_open");
    assured_assure(a, flood_option(argc, argv, "--receivers", 1), flood_text(argc, argv, "--names"));
    for (uint64_t number = 0; number < messages && !flood_stopped; number++) {
        while ((result = assured_send_one(a, number)) == LLM_EAGAIN && !flood_stopped) {
            a->refused++;
            assured_check_window(a, number);
            flood_ok(llm_poll(a->context), "llm_poll");
        }
        flood_ok(result, "send");
    }
    while (a->acknowledged < messages && !flood_stopped)
        flood_ok(llm_poll(a->context), "llm_poll");
    printf("{\"sent\": %" PRIu64 ", \"acknowledged\": %" PRIu64 ", \"waits\": %" PRIu64
           ", \"refused\": %" PRIu64 ", \"errors\": %u, ",
           messages, a->acknowledged, a->waits, a->refused, a->errors);
    flood_print_stats(stdout, a->context);
    printf("}\n");
    flood_ok(llm_transmitter_close(&a->transmitter), "llm_transmitter_close");
}

/* ---------------------------------------------------------------------------------------------- receive */

/* Acknowledges in two steps; checks that an undelivered message is refused. */
static void assured_acknowledge(struct assured *a)
{
    if (a->expected % 2 == 0)
        return;
    a->errors += llm_receiver_acknowledge(a->receiver, a->session, a->expected + 1000) != LLM_EINVAL;
    a->errors += llm_receiver_acknowledge(a->receiver, ~a->session, 0) != LLM_ENOTFOUND;
    flood_ok(llm_receiver_acknowledge(a->receiver, a->session, a->expected - 1), "llm_receiver_acknowledge");
}

/* Stops within a burst, none of which is acknowledged. */
static void assured_stop(const struct assured *a)
{
    fprintf(stderr, "reached %" PRIu64 "\n", a->stop_at);
    (void)raise(SIGSTOP);
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct assured *a = arg;

    a->errors += message->number != a->expected || message->size != SIZE ||
                 *(const uint8_t *)message->data != (uint8_t)message->number;
    a->expected = message->number + 1;
    a->session = message->session;
    if (a->expected == a->stop_at)
        assured_stop(a);
    if (a->application && (a->expected < a->hold_at || assured_released))
        assured_acknowledge(a);
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct assured *a = arg;

    fprintf(stderr, "event: %s %s %" PRIu64 "\n", llm_event_name(event->kind), llm_reason_name(event->reason),
            event->first);
    if (event->kind == LLM_EVENT_SESSION_NEW)
        a->first = a->expected = event->first;
    a->errors += event->kind == LLM_EVENT_GAP;
    a->ended |= event->kind == LLM_EVENT_SESSION_END;
}

static void assured_receive(struct assured *a, const char *channel, int argc, char **argv)
{
    struct llm_receiver_handlers handlers;

    a->stop_at = flood_option(argc, argv, "--stop-at", 0);
    a->hold_at = flood_option(argc, argv, "--hold-at", UINT64_MAX);
    a->application = strstr(channel, "acknowledge=application") != NULL;
    llm_receiver_handlers_init(&handlers);
    handlers.arg = a;
    handlers.message = on_message;
    handlers.event = on_event;
    flood_ok(llm_receiver_open(a->context, channel, NULL, &handlers, &a->receiver), channel);
    if (!a->application)
        a->errors += llm_receiver_acknowledge(a->receiver, 1, 1) != LLM_ESTATE;
    fprintf(stderr, "listening\n");
    while (!a->ended && !flood_stopped) {
        flood_ok(llm_wait(a->context, 1000000), "llm_wait");
        /* Acknowledges the last message outside of a handler too. */
        if (a->application && a->expected > 0 && (a->expected < a->hold_at || assured_released))
            flood_ok(llm_receiver_acknowledge(a->receiver, a->session, a->expected - 1),
                     "llm_receiver_acknowledge");
    }
    printf("{\"first\": %" PRIu64 ", \"next\": %" PRIu64 ", \"errors\": %u, ", a->first, a->expected,
           a->errors);
    flood_print_stats(stdout, a->context);
    printf("}\n");
    flood_ok(llm_receiver_close(&a->receiver), "llm_receiver_close");
}

int main(int argc, char **argv)
{
    static struct assured assured;
    struct llm_context_options options;

    if (argc < 3) {
        fprintf(stderr, "usage: e2e_assured send|receive CHANNEL [OPTION...]\n");
        return 2;
    }
    flood_signals();
    (void)sigaction(SIGUSR1, &(const struct sigaction){.sa_handler = assured_release, .sa_flags = SA_RESTART},
                    NULL);
    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    flood_ok(llm_context_open(&options, &assured.context), "llm_context_open");
    if (strcmp(argv[1], "send") == 0)
        assured_send(&assured, argv[2], argc, argv);
    else
        assured_receive(&assured, argv[2], argc, argv);
    flood_ok(llm_context_close(&assured.context), "llm_context_close");
    return EXIT_SUCCESS;
}
