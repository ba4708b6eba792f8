/* SPDX-License-Identifier: Apache-2.0 */
#include "steady.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

int steady_ok(int result, const char *what)
{
    if (result < 0)
        control_fail(what, llm_error_text(result));
    return result;
}

void steady_allow_files(uint64_t needed)
{
    struct rlimit limit;
    char text[160];

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    (void)snprintf(text, sizeof text,
                   "%" PRIu64 " are needed, and %" PRIu64 " are allowed; raise that with ulimit -Hn", needed,
                   (uint64_t)limit.rlim_max);
    if (limit.rlim_max < needed)
        control_fail("open files", text);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

struct llm_context_options steady_options(void)
{
    struct llm_context_options options;

    llm_context_options_init(&options);
    options.log_level = LLM_LEVEL_ERROR;
    return options;
}

struct llm_context *steady_open(const struct llm_context_options *options)
{
    struct llm_context *context;

    steady_ok(llm_context_open(options, &context), "llm_context_open");
    return context;
}

struct llm_context *steady_context(const struct control *control)
{
    struct llm_context_options options = steady_options();

    options.wait = control_is(control, "wait", "block") ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN;
    options.watch_ns = control_ns(control, "watch", options.watch_ns);
    return steady_open(&options);
}

void steady_poll(struct llm_context *context)
{
    steady_ok(llm_poll(context), "llm_poll");
}

const char *steady_identity(uint64_t receiver, char text[24])
{
    (void)snprintf(text, 24, "%" PRIu64, receiver);
    return text;
}

void steady_json_counters(const struct llm_context *context, const struct control *control)
{
    char name[64];

    json_begin("counters", '{');
    for (const char *at = control_text(control, "counters", ""); *at != '\0'; at += *at == ',') {
        uint64_t value = 0;
        const size_t length = strcspn(at, ",");

        (void)snprintf(name, sizeof name, "%.*s", (int)length, at);
        (void)llm_context_counter(context, name, &value);
        json_number(name, (double)value);
        at += length;
    }
    json_end('}');
}

void steady_tell(const struct llm_event *event)
{
    const bool limited = event->kind == LLM_EVENT_LIMITED || event->kind == LLM_EVENT_RECEIVER_LIMITED;
    char identity[24];

    if (!limited && event->kind != LLM_EVENT_SUSPENDED && event->kind != LLM_EVENT_READMITTED)
        return;
    json_open();
    json_text("told", llm_event_name(event->kind));
    json_counts("at", (uint64_t[]){llm_clock()});
    json_text("receiver",
              steady_identity(limited ? event->bottleneck->receiver : event->verdict->receiver, identity));
    if (limited) {
        json_number("limit", event->bottleneck->limit);
    } else {
        json_number("suspended", event->kind == LLM_EVENT_SUSPENDED);
        json_number("value", (double)event->verdict->value);
        json_text("threshold", llm_threshold_name(event->verdict->threshold));
    }
    json_close();
}

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

void steady_json_track(const struct steady_track *track)
{
    json_counts("received lost unsaid duplicated changed",
                (uint64_t[]){track->received, track->lost, track->unsaid, track->duplicated, track->changed});
}

struct llm_receiver *steady_receiver(struct llm_context *context, const char *channel,
                                     void (*message)(void *arg, const struct llm_message *message),
                                     void (*event)(void *arg, const struct llm_event *event), void *arg)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = arg;
    handlers.message = message;
    handlers.event = event;
    steady_ok(llm_receiver_open(context, channel, NULL, &handlers, &receiver), channel);
    return receiver;
}
