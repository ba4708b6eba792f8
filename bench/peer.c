/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define PEER_PATIENCE_NS 60000000000ull /* longer than the library's own patience with a session */
#define PEER_GREETING_NS 20000000ull
#define PEER_RAW_PATIENCE_NS 10000000000ull
#define PEER_STATS_MAX 512

int peer_open(struct peer *peer, const struct peer_channels *channels, const struct llm_handlers *handlers)
{
    int error;

    memset(peer, 0, sizeof *peer);
    error = llm_context_open(NULL, &peer->context);
    if (error == 0)
        error = llm_transmitter_open(peer->context, channels->send, channels->send_options, &peer->transmitter);
    if (error == 0)
        error = llm_topic_open(peer->transmitter, PEER_CONTROL_TOPIC, 0, &peer->topic);
    if (error == 0)
        error = llm_receiver_open(peer->context, channels->receive, channels->receive_options, handlers, &peer->receiver);
    if (error != 0)
        peer_close(peer);
    return error;
}

void peer_close(struct peer *peer)
{
    llm_receiver_close(&peer->receiver);
    llm_transmitter_close(&peer->transmitter);
    llm_context_close(&peer->context);
    free(peer->topics);
    peer->topics = NULL;
}

void peer_read_control(const struct llm_message *message, struct peer_control *control)
{
    size_t size = message->size < sizeof *control ? message->size : sizeof *control;

    memset(control, 0, sizeof *control);
    memcpy(control, message->data, size);
    control->text[sizeof control->text - 1] = '\0';
}

void peer_take_answer(struct peer *peer, const struct llm_message *message)
{
    peer_read_control(message, &peer->answer);
    peer->session = message->session;
}

void peer_take_event(struct peer *peer, const struct llm_event *event)
{
    if (event->kind == LLM_EVENT_SESSION_END && event->session == peer->session)
        peer->gone = true;
}

static void peer_fill(struct peer_control *control, const uint64_t *values, int count)
{
    for (int i = 0; i < count && i < PEER_VALUES; i++)
        control->values[i] = values[i];
}

static void peer_ask(struct peer *peer, enum peer_kind kind, const uint64_t *values, int count)
{
    struct peer_control control = {.header = {.sequence = ++peer->sequence, .kind = kind}};

    peer_fill(&control, values, count);
    while (llm_send(peer->topic, &control, sizeof control, LLM_SEND_NOW) == LLM_EAGAIN)
        llm_poll(peer->context);
}

static int peer_await_answer(struct peer *peer, uint64_t patience_ns)
{
    uint64_t start = llm_clock();

    while (peer->answer.header.sequence != peer->sequence || peer->answer.header.kind != PEER_ANSWER) {
        if (peer->gone || llm_clock() - start > patience_ns)
            return -1;
        llm_poll(peer->context);
    }
    return 0;
}

int peer_greet(struct peer *peer, uint64_t patience_ns)
{
    uint64_t start = llm_clock();

    do {
        peer_ask(peer, PEER_HELLO, NULL, 0);
        if (peer_await_answer(peer, PEER_GREETING_NS) == 0) {
            memcpy(peer->machine, peer->answer.text, sizeof peer->machine);
            return 0;
        }
    } while (llm_clock() - start < patience_ns);
    return -1;
}

int peer_request(struct peer *peer, enum peer_kind kind, const uint64_t *values, int count)
{
    peer_ask(peer, kind, values, count);
    return peer_await_answer(peer, PEER_PATIENCE_NS);
}

void peer_tell(struct peer *peer, enum peer_kind kind)
{
    peer_ask(peer, kind, NULL, 0);
}

static int peer_open_topic(struct peer *peer, uint64_t number)
{
    char name[32];
    int error;

    snprintf(name, sizeof name, "data %" PRIu64, number);
    while ((error = llm_topic_open(peer->transmitter, name, 0, &peer->topics[number])) == LLM_EAGAIN)
        llm_poll(peer->context);
    return error;
}

int peer_use_topics(struct peer *peer, uint64_t count)
{
    int error = 0;

    if (count > peer->topics_opened) {
        struct llm_topic **topics = realloc(peer->topics, count * sizeof(struct llm_topic *));

        if (topics)
            peer->topics = topics;
        else
            error = LLM_ENOMEM;
    }
    while (error == 0 && peer->topics_opened < count) {
        error = peer_open_topic(peer, peer->topics_opened);
        peer->topics_opened += error == 0;
    }
    peer->topics_used = count;
    peer->turn = 0;
    if (error != 0)
        fprintf(stderr, "topic %" PRIu64 " of %" PRIu64 " cannot be opened: %s\n", peer->topics_opened + 1, count,
                llm_error_text(error));
    return error == 0 ? 0 : -1;
}

void peer_reply(struct peer *peer, const struct peer_control *request, const uint64_t *values, int count, const char *text)
{
    struct peer_control control = {.header = {.sequence = request->header.sequence, .kind = PEER_ANSWER}};

    peer_fill(&control, values, count);
    snprintf(control.text, sizeof control.text, "%s", text);
    if (llm_send(peer->topic, &control, sizeof control, LLM_SEND_NOW) != 0)
        fprintf(stderr, "an answer could not be sent; the other end will give up waiting for it\n");
}

void peer_reply_hello(struct peer *peer, const struct peer_control *request)
{
    struct machine machine;
    char text[sizeof peer->machine];

    machine_describe(&machine);
    machine_print(&machine, text, sizeof text);
    peer_reply(peer, request, NULL, 0, text);
}

int peer_await_raw(struct peer *peer, struct raw_end *end)
{
    uint64_t start = llm_clock();

    while (!raw_is_readable(end)) {
        if (llm_clock() - start > PEER_RAW_PATIENCE_NS)
            return -1;
        llm_poll(peer->context);
    }
    return 0;
}

uint64_t peer_counter(const struct peer *peer, const char *object, const char *name)
{
    struct llm_stat stats[PEER_STATS_MAX];
    int count = llm_stats(peer->context, stats, PEER_STATS_MAX);
    uint64_t sum = 0;

    for (int i = 0; i < count && i < PEER_STATS_MAX; i++) {
        if (strncmp(stats[i].object, object, strlen(object)) == 0 && strcmp(stats[i].name, name) == 0)
            sum += stats[i].value;
    }
    return sum;
}

void peer_print_counters(const struct peer *peer, const char *title)
{
    struct llm_stat stats[PEER_STATS_MAX];
    int count = llm_stats(peer->context, stats, PEER_STATS_MAX);
    const char *object = "";

    printf("%s: counters that are not zero\n", title);
    for (int i = 0; i < count && i < PEER_STATS_MAX; i++) {
        if (stats[i].value == 0)
            continue;
        if (strcmp(object, stats[i].object) != 0)
            printf("  %s\n", stats[i].object);
        object = stats[i].object;
        printf("    %-32s %20" PRIu64 "\n", stats[i].name, stats[i].value);
    }
}
