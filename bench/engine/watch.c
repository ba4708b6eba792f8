/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How soon the bottleneck watch names what limits a stream, and tells that it is over: a transmitter, a receiver that a bottleneck
 * is made for, and a healthy one. A run has three phases, before, during and after. What the processes do not make themselves
 * bench/run watch does when the transmitter says "during" and "after"; it answers when it has. All write down when they were told what. Of all: channel= kind= rate= watch= duration= patience=; of the
 * transmitter stagger=, by which the first phase is longer.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llm/llm.h>

#include "machine.h"
#include "roles.h"
#include "steady.h"

enum { WATCH_BEFORE, WATCH_DURING, WATCH_AFTER, WATCH_PHASES };

static const char *const watch_phases[WATCH_PHASES] = {"before", "during", "after"};

/* Each judgement tells once at most: two receivers, through the longest phases there may be, at the shortest interval. */
enum { WATCH_NOTES = 32768, WATCH_POLL = 16, WATCH_BURST_POLL = 64, WATCH_RECEIVERS = 2 };

#define WATCH_HEAR_NS 1000000ull
#define WATCH_COME_NS 10000000000ull
/* A process that did not run for so long was stopped. */
#define WATCH_STOPPED_NS 1000000000ull

enum { WATCH_SIZE = 1000 };

static const char *watch_channel;
static uint64_t watch_rate, watch_interval, watch_duration, watch_patience, watch_stagger;

static void watch_options(const struct control *control)
{
    watch_channel = control_text(control, "channel", "");
    watch_rate = control_number(control, "rate", 5000);
    watch_interval = control_ns(control, "watch", 100000000);
    watch_duration = control_ns(control, "duration", 600000000);
    watch_patience = control_ns(control, "patience", 10000000000);
    watch_stagger = control_ns(control, "stagger", 0);
}

/* Limits to be named, by the limited receiver and of the transmitter. */
static const struct cause {
    const char *name;
    enum llm_limit receiver;
    enum llm_limit transmitter;
} watch_causes[] = {
    {"none", LLM_LIMIT_NONE, LLM_LIMIT_NONE},
    {"application", LLM_LIMIT_APPLICATION, LLM_LIMIT_WINDOW},
    {"buffer", LLM_LIMIT_BUFFER, LLM_LIMIT_NONE},
    {"network", LLM_LIMIT_NETWORK, LLM_LIMIT_NONE},
    {"transport", LLM_LIMIT_NONE, LLM_LIMIT_TRANSPORT},
    {"rate", LLM_LIMIT_NONE, LLM_LIMIT_RATE},
};

/* ------------------------------------------------------------------------------------------------------ notes */

/* Limits that one was told, in order; latest is the one that holds. */
struct notes {
    struct {
        uint64_t at;
        enum llm_limit limit;
    } told[WATCH_NOTES];
    size_t count;
    enum llm_limit latest;
};

static void notes_add(struct notes *notes, enum llm_limit limit)
{
    if (notes->count == WATCH_NOTES)
        steady_ok(LLM_ELIMIT, "events of the watch");
    notes->told[notes->count].at = llm_clock();
    notes->told[notes->count++].limit = limit;
    notes->latest = limit;
}

static const char *notes_limit(enum llm_limit limit)
{
    static const char *const names[] = {
#define NOTES_NAME(name, number, text) [number] = #name,
        LLM_LIMITS(NOTES_NAME)
#undef NOTES_NAME
    };

    return names[limit];
}

static void notes_json(const char *key, const struct notes *notes)
{
    json_begin(key, '[');
    for (size_t i = 0; i < notes->count; i++) {
        json_begin(NULL, '{');
        json_number("at", (double)notes->told[i].at);
        json_text("limit", notes_limit(notes->told[i].limit));
        json_end('}');
    }
    json_end(']');
}

/* ------------------------------------------------------------------------------------------------ transmitter */

struct sender {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    const struct cause *cause;
    uint8_t *data;
    uint64_t sequence;
    uint64_t due_at;     /* of the next message */
    uint64_t healthy;    /* the identity of that receiver */
    struct notes own, reported, reported_healthy;
    bool over;           /* the runner has gone */
    uint64_t heard_at;   /* when it listened to the script last */
    uint64_t now;        /* when it ran last, and ... */
    uint64_t spent;      /* ... for how long it did in this phase */
    uint64_t begun_at[WATCH_PHASES + 1];
    uint64_t made_at[WATCH_PHASES]; /* the script had done its part; 0: not yet */
};

static void on_limited(void *arg, const struct llm_event *event)
{
    struct sender *sender = arg;

    if (event->kind == LLM_EVENT_LIMITED)
        notes_add(&sender->own, event->bottleneck->limit);
    if (event->kind == LLM_EVENT_RECEIVER_LIMITED)
        notes_add(event->bottleneck->receiver == sender->healthy ? &sender->reported_healthy : &sender->reported,
                  event->bottleneck->limit);
}

static void sender_poll(const struct sender *sender)
{
    steady_ok(llm_poll(sender->context), "llm_poll");
}

/* A burst has what is due in half an interval, so that each interval has one. */
static uint64_t sender_burst_ns(const struct sender *sender, int phase)
{
    return phase == WATCH_DURING && sender->cause->receiver == LLM_LIMIT_BUFFER ? watch_interval / 2 : 0;
}

/* Sends one message if it is due, and returns whether it was taken. What is refused stays due. */
static bool sender_send(struct sender *sender, uint64_t now, int phase)
{
    const uint64_t burst_ns = sender_burst_ns(sender, phase), ahead = sender->due_at - sender->begun_at[phase];
    const struct steady_stamp stamp = {.due_at = burst_ns == 0 ? sender->due_at : sender->due_at - ahead % burst_ns,
                                       .sequence = sender->sequence, .phase = (uint32_t)phase};
    int result;

    if (now < stamp.due_at)
        return false;
    memcpy(sender->data, &stamp, sizeof stamp);
    result = llm_send(sender->topic, sender->data, WATCH_SIZE, burst_ns == 0 ? 0 : LLM_SEND_MORE);
    if (result == LLM_EAGAIN)
        return false;
    steady_ok(result, "llm_send");
    sender->due_at += 1000000000 / watch_rate;
    if (++sender->sequence % (burst_ns == 0 ? WATCH_POLL : WATCH_BURST_POLL) == 0)
        sender_poll(sender);
    return true;
}

static void sender_hear(struct sender *sender, uint64_t now, int phase)
{
    if (sender->made_at[phase] != 0 || now < sender->heard_at + WATCH_HEAR_NS)
        return;
    sender->heard_at = now;
    if (steady_hear(&sender->over) != NULL)
        sender->made_at[phase] = now;
}

/* True once all that can be told in a phase was, as far as the transmitter knows. */
static bool sender_is_told(const struct sender *sender, int phase)
{
    const struct cause *cause = sender->cause;

    if (phase == WATCH_BEFORE)
        return true;
    if (sender->made_at[phase] == 0)
        return false;
    if (phase == WATCH_DURING)
        return (cause->receiver == LLM_LIMIT_NONE || sender->reported.latest == cause->receiver) &&
               (cause->transmitter == LLM_LIMIT_NONE || sender->own.latest == cause->transmitter);
    return sender->own.latest == LLM_LIMIT_NONE && sender->reported.latest == LLM_LIMIT_NONE &&
           sender->reported_healthy.latest == LLM_LIMIT_NONE;
}

/* The transmitter's own part of a bottleneck. A packet has some headers beside the message. */
static void sender_make(struct sender *sender, int phase)
{
    struct llm_rate limit;

    llm_rate_init(&limit);
    if (phase == WATCH_BEFORE || sender->cause->transmitter != LLM_LIMIT_RATE)
        return;
    limit.bytes_per_s = phase == WATCH_DURING ? watch_rate * WATCH_SIZE / 2 : 0;
    steady_ok(llm_transmitter_limit_rate(sender->transmitter, &limit), "llm_transmitter_limit_rate");
}

/* A machine that was stopped with all that runs on it takes nothing of a phase, and leaves nothing to make up for. */
static void sender_spend(struct sender *sender)
{
    const uint64_t now = llm_clock(), passed = now - sender->now;

    if (passed < WATCH_STOPPED_NS)
        sender->spent += passed;
    else
        sender->due_at += passed;
    sender->now = now;
}

/* A phase goes on until what it is about was told, but not for ever. */
static void sender_phase(struct sender *sender, int phase)
{
    const uint64_t least = watch_duration + (phase == WATCH_BEFORE ? watch_stagger : 0);

    sender->now = sender->begun_at[phase] = sender->due_at = llm_clock();
    sender->spent = 0;
    sender_make(sender, phase);
    steady_say(watch_phases[phase]);
    while (sender->spent < least || (!sender_is_told(sender, phase) && sender->spent < least + watch_patience)) {
        if (!sender_send(sender, sender->now, phase))
            sender_poll(sender);
        sender_hear(sender, sender->now, phase);
        sender_spend(sender);
    }
    sender->begun_at[phase + 1] = sender->now;
}

static void sender_await(struct sender *sender, uint32_t receivers)
{
    sender->now = llm_clock();
    sender->spent = 0;
    while (llm_transmitter_receivers(sender->transmitter) < receivers) {
        sender_poll(sender);
        sender_spend(sender);
        if (sender->spent < WATCH_COME_NS)
            continue;
        (void)fprintf(stderr, "watch: only %" PRIu32 " of %" PRIu32 " receivers came within %d s\n",
                      llm_transmitter_receivers(sender->transmitter), receivers, (int)(WATCH_COME_NS / 1000000000));
        exit(EXIT_FAILURE);
    }
}

/* The healthy one comes first, so that it is known from the other. */
static void sender_meet(struct sender *sender)
{
    struct llm_congestion first = {.receiver = 0};

    sender_await(sender, 1);
    steady_ok(llm_transmitter_congestion(sender->transmitter, &first, 1), "llm_transmitter_congestion");
    sender->healthy = first.receiver;
    steady_say("healthy"); /* is there: the other may come */
    sender_await(sender, WATCH_RECEIVERS);
}

static void sender_json_ms(const char *key, uint64_t from, uint64_t to)
{
    json_number(key, to == 0 ? (double)NAN : (double)(to - from) / 1e6);
}

static void sender_report(const struct sender *sender)
{
    static const char *const counters[] = {"send_blocked_flow", "send_blocked_rate", "send_blocked_transport", "naks_received", "packets_repaired"};

    json_open();
    machine_json("machine");
    json_number("sent", (double)sender->sequence);
    json_text("receiver_limit", notes_limit(sender->cause->receiver));
    json_text("transmitter_limit", notes_limit(sender->cause->transmitter));
    json_begin("begun_at", '{');
    for (int i = 0; i < WATCH_PHASES; i++)
        json_number(watch_phases[i], (double)sender->begun_at[i]);
    json_number("end", (double)sender->begun_at[WATCH_PHASES]);
    json_end('}');
    json_begin("made_ms", '{');
    for (int i = WATCH_DURING; i < WATCH_PHASES; i++)
        sender_json_ms(watch_phases[i], sender->begun_at[i], sender->made_at[i]);
    json_end('}');
    notes_json("transmitter", &sender->own);
    notes_json("reported", &sender->reported);
    notes_json("reported_healthy", &sender->reported_healthy);
    steady_json_stats(sender->context, counters, sizeof counters / sizeof counters[0]);
    json_close();
}

static const struct cause *watch_cause(const char *kind)
{
    const struct cause *cause = watch_causes;

    while (strcmp(cause->name, kind) != 0)
        cause++;
    return cause;
}

int watch_transmit(const struct control *control)
{
    static struct sender sender;
    struct llm_transmitter_handlers handlers;

    watch_options(control);
    sender.context = steady_context(control, LLM_WAIT_SPIN);
    sender.cause = watch_cause(control_text(control, "kind", "none"));
    sender.data = steady_memory(1, WATCH_SIZE);
    steady_ok(llm_transmitter_open(sender.context, watch_channel, NULL, NULL, &sender.transmitter), watch_channel);
    llm_transmitter_handlers_init(&handlers);
    handlers.arg = &sender;
    handlers.event = on_limited;
    steady_ok(llm_transmitter_handle(sender.transmitter, &handlers), "llm_transmitter_handle");
    steady_ok(llm_topic_open(sender.transmitter, "watch", 0, &sender.topic), "llm_topic_open");
    sender_meet(&sender);
    for (int phase = 0; phase < WATCH_PHASES; phase++)
        sender_phase(&sender, phase);
    sender_report(&sender);
    steady_ok(llm_transmitter_close(&sender.transmitter), "llm_transmitter_close");
    free(sender.data);
    return steady_ok(llm_context_close(&sender.context), "llm_context_close");
}

/* -------------------------------------------------------------------------------------------------- receivers */

struct sink {
    struct steady_track track;
    struct histogram hop[WATCH_PHASES]; /* of the healthy one */
    struct notes notes;
    uint64_t free_at; /* when a slow application may take the next message */
};

static volatile sig_atomic_t sink_rests; /* the application takes twice the time that there is */

static void sink_toggle(int number)
{
    (void)number;
    sink_rests = !sink_rests;
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct sink *sink = arg;
    const struct steady_stamp stamp = steady_track_message(&sink->track, message);

    if (stamp.phase < WATCH_PHASES)
        histogram_add(&sink->hop[stamp.phase], llm_clock() - stamp.due_at);
}

/* A tenth of its time is the application's, so that bursts come faster than it takes them. */
static void on_limited_message(void *arg, const struct llm_message *message)
{
    const uint64_t now = llm_clock(), each = 1000000000 / watch_rate;
    struct sink *sink = arg;

    (void)steady_track_message(&sink->track, message);
    while (llm_clock() < now + each / 10)
        ;
    if (!sink_rests)
        return;
    sink->free_at = (sink->free_at > now ? sink->free_at : now) + 2 * each;
    /* The signal that ends it ends this too. */
    if (sink->free_at > now + 1000000)
        (void)usleep((useconds_t)((sink->free_at - now) / 1000));
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct sink *sink = arg;

    if (event->kind == LLM_EVENT_LIMITED)
        notes_add(&sink->notes, event->bottleneck->limit);
    steady_track_event(&sink->track, event);
}

static void sink_report(struct sink *sink, const struct llm_context *context)
{
    static const char *const counters[] = {"udp_kernel_drops", "packets_missed", "packets_recovered", "packets_lost"};

    json_open();
    steady_json_track(&sink->track);
    notes_json("told", &sink->notes);
    json_begin("hop", '{');
    for (int i = 0; i < WATCH_PHASES; i++) {
        json_histogram(watch_phases[i], &sink->hop[i]);
        histogram_fini(&sink->hop[i]);
    }
    json_end('}');
    steady_json_stats(context, counters, sizeof counters / sizeof counters[0]);
    json_close();
}

/* Receivers sleep between messages: one that polls would be another's bottleneck where there are two cores. */
int watch_receive(const struct control *control)
{
    const bool limited = strcmp(control->verb, "watch-limited") == 0;
    struct llm_context *context = steady_context(control, LLM_WAIT_BLOCK);
    static struct sink sink;

    watch_options(control);
    (void)signal(SIGUSR1, sink_toggle);
    for (int i = 0; i < WATCH_PHASES; i++)
        histogram_init(&sink.hop[i], 0);
    (void)steady_receiver(context, watch_channel, NULL, limited ? on_limited_message : on_message, on_event, &sink);
    while (!sink.track.ended)
        steady_ok(llm_wait(context, 10000000), "llm_wait");
    sink_report(&sink, context);
    return steady_ok(llm_context_close(&context), "llm_context_close");
}
