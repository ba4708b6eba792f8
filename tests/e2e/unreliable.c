/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unreliable topics under loss, through the public API.
 *
 *   e2e_unreliable send CHANNEL [--messages N] [--run N] [--rate PER_SECOND]
 *       sends runs of N messages on a reliable topic and an unreliable one in turn; --run 0: on the latter
 *   e2e_unreliable receive CHANNEL [--run N]
 *       checks that all messages of the reliable topic arrived, in order, and that each of the others
 *       arrived or was reported lost, with the reason, in its place
 */
#include "flood.h"

enum { SIZE = 64, LONG = 3000 };

struct unreliable {
    struct llm_context *context;
    uint64_t run;
    uint64_t next; /* all messages before this one were delivered or reported lost */
    uint64_t messages;
    uint64_t lost;
    uint64_t gaps;
    bool ended;
    unsigned errors;
};

static bool is_unreliable(const struct unreliable *u, uint64_t number)
{
    return u->run == 0 || number / u->run % 2 == 1;
}

static size_t size_of(uint64_t number)
{
    return number % 100 == 99 ? LONG : SIZE;
}

/* ------------------------------------------------------------------------------------------------- send */

static void send_one(const struct unreliable *u, struct llm_topic *topic, uint64_t number)
{
    static uint8_t message[LONG];
    int result;

    memcpy(message, &number, sizeof number);
    while ((result = llm_send(topic, message, size_of(number), 0)) == LLM_EAGAIN && !flood_stopped)
        flood_ok(llm_poll(u->context), "llm_poll");
    flood_ok(result, "llm_send");
}

static void unreliable_send(struct unreliable *u, const char *channel, int argc, char **argv)
{
    const uint64_t messages = flood_option(argc, argv, "--messages", 100000);
    const uint64_t pause = 1000000000 / flood_option(argc, argv, "--rate", 50000);
    struct llm_transmitter *transmitter;
    struct llm_topic *topics[2];
    struct llm_options options;
    uint64_t at, now;

    llm_options_init(&options);
    options.linger_ns = 30000000000;
    flood_ok(llm_transmitter_open(u->context, channel, &options, NULL, &transmitter), channel);
    flood_ok(llm_topic_open(transmitter, "prices", LLM_TOPIC_UNRELIABLE, &topics[1]), "prices");
    flood_ok(llm_topic_open(transmitter, "orders", 0, &topics[0]), "orders");
    at = llm_clock();
    for (uint64_t number = 0; number < messages && !flood_stopped; number++, at += pause) {
        while ((now = llm_clock()) < at)
            flood_ok(pause > 100000 ? llm_wait(u->context, at - now) : llm_poll(u->context), "poll");
        send_one(u, topics[is_unreliable(u, number)], number);
    }
    flood_ok(llm_transmitter_flush(transmitter), "llm_transmitter_flush");
    while (llm_transmitter_receivers(transmitter) == 0 && !flood_stopped)
        flood_ok(llm_poll(u->context), "llm_poll");
    /* Missing packets are requested and answered before the counters are printed. */
    for (at = llm_clock() + 500000000; llm_clock() < at;)
        flood_ok(llm_wait(u->context, 1000000), "llm_wait");
    printf("{\"sent\": %" PRIu64 ", ", messages);
    flood_print_stats(stdout, u->context);
    printf("}\n");
    flood_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
}

/* ---------------------------------------------------------------------------------------------- receive */

static void on_message(void *arg, const struct llm_message *message)
{
    struct unreliable *u = arg;
    uint64_t number = UINT64_MAX;

    if (message->size == size_of(message->number))
        memcpy(&number, message->data, sizeof number);
    u->errors += number != message->number || number != u->next ||
                 strcmp(message->topic, is_unreliable(u, number) ? "prices" : "orders") != 0;
    u->next = message->number + 1;
    u->messages++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct unreliable *u = arg;

    u->ended |= event->kind == LLM_EVENT_SESSION_END;
    if (event->kind != LLM_EVENT_GAP)
        return;
    u->gaps++;
    u->errors += event->first != u->next || event->reason != LLM_REASON_UNRELIABLE;
    for (u->next = event->first; u->next < event->last + 1; u->next++, u->lost++)
        u->errors += !is_unreliable(u, u->next);
}

static void unreliable_receive(struct unreliable *u, const char *channel)
{
    struct llm_receiver *receiver;
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = u;
    handlers.message = on_message;
    handlers.event = on_event;
    flood_ok(llm_receiver_open(u->context, channel, NULL, &handlers, &receiver), channel);
    fprintf(stderr, "listening\n");
    while (!u->ended && !flood_stopped)
        flood_ok(llm_wait(u->context, 1000000), "llm_wait");
    printf("{\"next\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"gaps\": %" PRIu64
           ", \"errors\": %u, ",
           u->next, u->messages, u->lost, u->gaps, u->errors);
    flood_print_stats(stdout, u->context);
    printf("}\n");
    flood_ok(llm_receiver_close(&receiver), "llm_receiver_close");
}

int main(int argc, char **argv)
{
    static struct unreliable unreliable;
    struct llm_context_options options;

    if (argc < 3) {
        fprintf(stderr, "usage: e2e_unreliable send|receive CHANNEL [OPTION...]\n");
        return 2;
    }
    flood_signals();
    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    unreliable.run = flood_option(argc, argv, "--run", 10);
    flood_ok(llm_context_open(&options, &unreliable.context), "llm_context_open");
    if (strcmp(argv[1], "send") == 0)
        unreliable_send(&unreliable, argv[2], argc, argv);
    else
        unreliable_receive(&unreliable, argv[2]);
    flood_ok(llm_context_close(&unreliable.context), "llm_context_close");
    return EXIT_SUCCESS;
}
