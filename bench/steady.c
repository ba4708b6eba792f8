/* SPDX-License-Identifier: Apache-2.0 */
#include "steady.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

struct llm_context *steady_context(const char *program, uint64_t cpu, enum llm_wait_mode wait)
{
    struct llm_context_options options;
    struct llm_context *context;

    if (machine_pin_as_asked(program, cpu) != 0)
        exit(EXIT_FAILURE);
    llm_context_options_init(&options);
    options.wait = wait;
    options.log_level = LLM_LEVEL_ERROR;
    steady_ok(llm_context_open(&options, &context), "llm_context_open");
    return context;
}

uint64_t steady_stat(const struct llm_context *context, const char *name)
{
    uint64_t value = 0;

    (void)llm_stat(context, name, &value);
    return value;
}

void steady_json_open(struct report_json *json, const char *path)
{
    if (report_json_open(json, path) == 0)
        return;
    perror(path);
    exit(EXIT_FAILURE);
}

void steady_json_stats(struct report_json *json, const struct llm_context *context, const char *const *names, size_t count)
{
    report_json_begin(json, "counters", '{');
    for (size_t i = 0; i < count; i++)
        report_json_number(json, names[i], (double)steady_stat(context, names[i]), 0);
    report_json_end(json, '}');
}

void steady_say(const char *phase)
{
    (void)printf("%s\n", phase);
    (void)fflush(stdout);
}

void steady_ear_open(void)
{
    (void)fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
}

const char *steady_hear(struct steady_ear *ear)
{
    ssize_t got;
    char byte;

    while ((got = read(STDIN_FILENO, &byte, 1)) == 1) {
        if (byte != '\n' && ear->size + 1 < sizeof ear->line) {
            ear->line[ear->size++] = byte;
            continue;
        }
        ear->line[ear->size] = '\0';
        ear->size = 0;
        return ear->line;
    }
    ear->over = got == 0;
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------- sending */

static void steady_poll(struct llm_context *context)
{
    steady_ok(llm_poll(context), "llm_poll");
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

void steady_json_track(struct report_json *json, const struct steady_track *track)
{
    report_json_number(json, "received", (double)track->received, 0);
    report_json_number(json, "lost", (double)track->lost, 0);
    report_json_number(json, "unsaid", (double)track->unsaid, 0);
    report_json_number(json, "duplicated", (double)track->duplicated, 0);
    report_json_number(json, "changed", (double)track->changed, 0);
}
