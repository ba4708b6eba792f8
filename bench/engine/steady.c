/* SPDX-License-Identifier: Apache-2.0 */
#include "steady.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

/* Messages between two polls: flat out, each poll sends what was packed since the last one. */
enum { STEADY_BATCH = 16, STEADY_BATCH_FLAT_OUT = 1024 };

int steady_ok(int result, const char *what)
{
    if (result >= 0)
        return result;
    fprintf(stderr, "%s: %s\n", what, llm_error_text(result));
    exit(EXIT_FAILURE);
}

void *steady_memory(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL)
        steady_ok(LLM_ENOMEM, "calloc");
    return memory;
}

struct llm_context *steady_context(const struct control *control, enum llm_wait_mode wait)
{
    struct llm_context_options options;
    struct llm_context *context;

    machine_start(control, NULL);
    llm_context_options_init(&options);
    options.wait = wait;
    options.watch_ns = control_ns(control, "watch", options.watch_ns);
    options.log_level = LLM_LEVEL_ERROR;
    steady_ok(llm_context_open(&options, &context), "llm_context_open");
    return context;
}

uint64_t steady_stat(const struct llm_context *context, const char *name)
{
    uint64_t value = 0;

    (void)llm_context_counter(context, name, &value);
    return value;
}

void steady_json_stats(const struct llm_context *context, const char *const *names, size_t count)
{
    json_begin("counters", '{');
    for (size_t i = 0; i < count; i++)
        json_number(names[i], (double)steady_stat(context, names[i]));
    json_end('}');
}

void steady_say(const char *phase)
{
    (void)printf("%s\n", phase);
    (void)fflush(stdout);
}

const char *steady_hear(bool *over)
{
    static struct control request;
    const int came = control_take(&request, 0);

    *over = came < 0;
    return came > 0 ? request.verb : NULL;
}

/* ------------------------------------------------------------------------------------------------------------- sending */

static void steady_poll(struct llm_context *context)
{
    steady_ok(llm_poll(context), "llm_poll");
}

void steady_await(struct llm_context *context, const struct llm_transmitter *transmitter, uint64_t receivers)
{
    while (llm_transmitter_receivers(transmitter) < receivers)
        steady_poll(context);
}

struct llm_transmitter *steady_transmitter(struct steady_sender *sender, const char *channel, const struct llm_options *options,
                                           uint64_t receivers)
{
    struct llm_transmitter *transmitter;
    char name[32] = "bench";

    steady_ok(llm_transmitter_open(sender->context, channel, options, NULL, &transmitter), channel);
    for (size_t i = 0; i < sender->topic_count; i++) {
        steady_ok(llm_topic_open(transmitter, name, 0, &sender->topics[i]), "llm_topic_open");
        (void)snprintf(name, sizeof name, "bench.%zu", i + 1);
    }
    steady_await(sender->context, transmitter, receivers);
    return transmitter;
}

void steady_close(struct steady_sender *sender, struct llm_transmitter *transmitter)
{
    steady_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    steady_ok(llm_context_close(&sender->context), "llm_context_close");
    free(sender->data);
}

static void steady_send_one(struct steady_sender *sender, const struct steady_stamp *stamp, unsigned flags)
{
    struct llm_topic *topic = sender->topics[sender->sequence % sender->topic_count];
    int result;

    memcpy(sender->data, stamp, sizeof *stamp);
    if (sender->due_at != NULL)
        sender->due_at[sender->sequence % sender->due_count] = stamp->due_at != 0 ? stamp->due_at : llm_clock();
    while ((result = llm_send(topic, sender->data, sender->size, flags)) == LLM_EAGAIN)
        steady_poll(sender->context);
    steady_ok(result, "llm_send");
    if (++sender->sequence % (sender->rate > 0 ? STEADY_BATCH : STEADY_BATCH_FLAT_OUT) == 0)
        steady_poll(sender->context);
}

double steady_send(struct steady_sender *sender, uint64_t duration_ns, uint32_t round, uint32_t phase)
{
    struct steady_stamp stamp = {.round = round, .phase = phase};
    const uint64_t count = sender->rate * duration_ns / 1000000000;
    const uint64_t begun_at = llm_clock(), first = sender->sequence;

    if (sender->data == NULL)
        sender->data = steady_memory(1, sender->size);
    for (uint64_t i = 0; i < count; i++) {
        stamp.due_at = begun_at + i * 1000000000 / sender->rate;
        stamp.sequence = sender->sequence;
        while (llm_clock() < stamp.due_at)
            steady_poll(sender->context);
        steady_send_one(sender, &stamp, 0);
    }
    while (sender->rate == 0 && (sender->sequence % STEADY_BATCH_FLAT_OUT != 0 || llm_clock() < begun_at + duration_ns)) {
        stamp.sequence = sender->sequence;
        steady_send_one(sender, &stamp, LLM_SEND_MORE);
    }
    return (double)(sender->sequence - first) * 1e9 / (double)(llm_clock() - begun_at);
}

/* ----------------------------------------------------------------------------------------------------------- receiving */

struct steady_stamp steady_track_message(struct steady_track *track, const struct llm_message *message)
{
    struct steady_stamp stamp = {.due_at = 0};

    if (message->size >= sizeof stamp)
        memcpy(&stamp, message->data, sizeof stamp);
    track->received++;
    track->changed += message->size < sizeof stamp || stamp.sequence != message->number;
    if (message->number < track->next) {
        track->duplicated++;
        return stamp;
    }
    track->unsaid += message->number - track->next;
    track->next = message->number + 1;
    return stamp;
}

void steady_track_event(struct steady_track *track, const struct llm_event *event)
{
    if (event->kind == LLM_EVENT_SESSION_NEW && !track->begun) {
        track->begun = true;
        track->first = track->next = event->first;
    }
    if (event->kind == LLM_EVENT_GAP) {
        track->lost += event->last + 1 - event->first;
        track->next = event->last + 1;
    }
    track->ended |= event->kind == LLM_EVENT_SESSION_END;
}

bool steady_track_exact(const struct steady_track *track)
{
    return track->begun && track->lost + track->unsaid + track->duplicated + track->changed == 0;
}

struct llm_receiver *steady_receiver(struct llm_context *context, const char *channel, const struct llm_options *options,
                                     void (*message)(void *arg, const struct llm_message *message),
                                     void (*event)(void *arg, const struct llm_event *event), void *arg)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = arg;
    handlers.message = message;
    handlers.event = event;
    steady_ok(llm_receiver_open(context, channel, options, &handlers, &receiver), channel);
    return receiver;
}

void steady_place_event(void *arg, const struct llm_event *event)
{
    steady_track_event(arg, event);
}

void steady_poll_places(struct steady_place *places, uint64_t count)
{
    uint64_t ended;

    do {
        ended = 0;
        for (uint64_t i = 0; i < count; i++) {
            steady_poll(places[i].context);
            ended += places[i].track.ended;
        }
    } while (ended < count);
}

void steady_json_places(const struct steady_place *places, uint64_t count)
{
    json_begin("receivers", '[');
    for (uint64_t i = 0; i < count; i++) {
        json_begin(NULL, '{');
        steady_json_track(&places[i].track);
        json_end('}');
    }
    json_end(']');
}

void steady_json_track(const struct steady_track *track)
{
    json_number("received", (double)track->received);
    json_number("lost", (double)track->lost);
    json_number("unsaid", (double)track->unsaid);
    json_number("duplicated", (double)track->duplicated);
    json_number("changed", (double)track->changed);
}
