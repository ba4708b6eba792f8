/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One receiver of many sessions, by the library's public functions over loop://: what a message costs the
 * receiver, in processor time, when it is of another session than the one before.
 */
#include "many_sessions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <llm/llm.h>

#include "events.h"

#define CHANNEL \
    "loop://sessions:5001?history_bytes=65536&history_packets=64&receivers_max=4&topics_max=4&mtu=1500&"

/* An instance of loop:// takes 256 joins. */
enum { BURST = 64, MESSAGE_SIZE = 100, WARM = 4, CONTEXT_SESSIONS = 250, CONTEXTS_MAX = 32 };

static struct {
    struct llm_context *sending[CONTEXTS_MAX], *receiving;
    uint32_t contexts; /* that send */
    uint64_t received, lost;
    uint64_t ns;
} many;

static void must(int result, const char *what)
{
    if (result >= 0)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, llm_error_text(result));
    exit(1);
}

static void on_message(void *arg, const struct llm_message *message)
{
    (void)arg;
    (void)message;
    many.received++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_GAP || event->kind == LLM_EVENT_SESSION_END)
        many.lost++;
}

static void poll_senders(void)
{
    for (uint32_t i = 0; i < many.contexts; i++)
        must(llm_poll(many.sending[i]), "llm_poll");
}

/* Polls until so many messages were delivered; counts the receiver's processor time. */
static void receive(uint64_t until)
{
    while (many.received < until) {
        const clock_t began = clock();

        must(llm_poll(many.receiving), "llm_poll");
        many.ns += (uint64_t)(clock() - began) * (1000000000 / CLOCKS_PER_SEC);
        if (many.received < until)
            poll_senders();
    }
}

/* Each session sends a message in turn. */
static void run_rounds(struct llm_topic *const *topics, uint32_t sessions, uint64_t messages)
{
    static const char bytes[MESSAGE_SIZE];

    for (uint64_t sent = 0; sent < messages;) {
        const uint64_t before = many.received;
        uint64_t burst = 0;

        for (; burst < BURST && sent < messages; burst++, sent++)
            must(llm_send(topics[sent % sessions], bytes, sizeof bytes, 0), "llm_send");
        receive(before + burst);
        poll_senders();
    }
}

struct many_sessions_result many_sessions_run(uint32_t sessions, uint64_t messages)
{
    struct llm_transmitter **transmitters = sim_memory(sessions * sizeof *transmitters);
    struct llm_topic **topics = sim_memory(sessions * sizeof *topics);
    struct many_sessions_result result = {.sent = messages};
    struct llm_receiver_handlers handlers;
    struct llm_context_options options;
    struct llm_receiver *receiver;
    char channel[256];
    uint64_t before;

    memset(&many, 0, sizeof many);
    llm_context_options_init(&options);
    options.log_level = LLM_LEVEL_ERROR;
    many.contexts = (sessions + CONTEXT_SESSIONS - 1) / CONTEXT_SESSIONS;
    for (uint32_t i = 0; i < many.contexts; i++)
        must(llm_context_open(&options, &many.sending[i]), "llm_context_open");
    must(llm_context_open(&options, &many.receiving), "llm_context_open");
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    (void)snprintf(channel, sizeof channel,
                   CHANNEL "sessions_max=%u&window_packets=256&reorder_bytes=1M&message_bytes_max=4096",
                   sessions);
    must(llm_receiver_open(many.receiving, channel, NULL, &handlers, &receiver), "llm_receiver_open");
    for (uint32_t i = 0; i < sessions; i++) {
        must(llm_transmitter_open(many.sending[i / CONTEXT_SESSIONS], CHANNEL "loop=1", NULL, NULL,
                                  &transmitters[i]),
             "llm_transmitter_open");
        must(llm_topic_open(transmitters[i], "topic", 0, &topics[i]), "llm_topic_open");
    }
    run_rounds(topics, sessions, (uint64_t)WARM * sessions);
    many.ns = 0;
    before = many.received;
    run_rounds(topics, sessions, messages);
    result.received = many.received - before;
    result.lost = many.lost;
    result.ns_per_message = (double)many.ns / (double)messages;
    for (uint32_t i = 0; i < sessions; i++)
        llm_transmitter_close(&transmitters[i]);
    llm_receiver_close(&receiver);
    llm_context_close(&many.receiving);
    for (uint32_t i = 0; i < many.contexts; i++)
        llm_context_close(&many.sending[i]);
    free(transmitters);
    free(topics);
    return result;
}
