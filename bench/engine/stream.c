/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream that the runner divides into phases, and who receives it. Each message has in it when it was due, so all processes need
 * one clock, that of one machine.
 *
 * The transmitter: channel= size= topics= keep=, messages that each topic keeps, history=, packets, receivers=, to wait for. Requests:
 *   send rate= duration= round= phase=   answers with the rate that it came to, and when it began
 *   stats counters=NAME,...              answers with these, and with what it was told of receivers
 *
 * A receiver: channel= wait=spin|block; measures the hop of messages of the phases measured=N,... of rounds= rounds, of which trace= in
 * their order; any=1: in whatever order they come, most= of them. rest=: so many microseconds it rests between a hundred messages, from
 * one SIGUSR1 to the next. It answers when the session has ended, or by SIGTERM.
 *
 * The mute: a socket that joined the group of channel= and is read until SIGUSR1, and then no more: for it the network, which is this
 * machine's kernel, has the same work as for a receiver that is stopped.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../raw/raw_udp.h"
#include "machine.h"
#include "roles.h"
#include "steady.h"

enum { STREAM_EVENTS = 64, STREAM_COUNTERS = 16, STREAM_PHASES = 8, STREAM_BATCH = 100, STREAM_RECEIVERS_MAX = 100000 };

static volatile sig_atomic_t stream_rests, stream_over;

static void stream_toggle(int number)
{
    (void)number;
    stream_rests = !stream_rests;
}

static void stream_end(int number)
{
    (void)number;
    stream_over = 1;
}

/* Writes counters, NAME,..., as an object. */
static void stream_json_stats(const struct llm_context *context, const char *list)
{
    char *copy = strdup(list), *rest = copy;
    const char *names[STREAM_COUNTERS];
    size_t count = 0;

    while (count < STREAM_COUNTERS && (names[count] = strsep(&rest, ",")) != NULL)
        count++;
    steady_json_stats(context, names, count);
    free(copy);
}

/* ------------------------------------------------------------------------------------------------ transmitter */

static struct stream_told {
    uint64_t at;
    enum llm_event_kind kind;
    uint64_t value;
    enum llm_threshold threshold;
    bool known; /* which receiver it is about */
} stream_told[STREAM_EVENTS];
static size_t stream_told_count;

static void on_told(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (stream_told_count < STREAM_EVENTS && (event->kind == LLM_EVENT_SUSPENDED || event->kind == LLM_EVENT_READMITTED))
        stream_told[stream_told_count++] = (struct stream_told){llm_clock(), event->kind, event->verdict->value,
                                                                event->verdict->threshold, event->verdict->receiver != 0};
}

static void stream_json_told(void)
{
    json_begin("told", '[');
    for (size_t i = 0; i < stream_told_count; i++) {
        json_begin(NULL, '{');
        json_number("at", (double)stream_told[i].at);
        json_text("event", llm_event_name(stream_told[i].kind));
        json_number("suspended", stream_told[i].kind == LLM_EVENT_SUSPENDED);
        json_number("value", (double)stream_told[i].value);
        json_text("threshold", llm_threshold_name(stream_told[i].threshold));
        json_number("known", stream_told[i].known);
        json_end('}');
    }
    json_end(']');
}

static void stream_serve(struct steady_sender *sender, const struct control *request)
{
    const uint64_t begun_at = llm_clock();

    if (strcmp(request->verb, "send") == 0) {
        sender->rate = control_number(request, "rate", 0);
        json_open();
        json_number("msgs_per_s", steady_send(sender, control_ns(request, "duration", 0), (uint32_t)control_number(request, "round", 0),
                                              (uint32_t)control_number(request, "phase", 0)));
        json_number("begun_at", (double)begun_at);
    } else {
        json_open();
        machine_json("machine");
        json_number("sent", (double)sender->sequence);
        stream_json_stats(sender->context, control_text(request, "counters", ""));
        stream_json_told();
    }
    json_close();
}

static void stream_keep(const struct steady_sender *sender, uint64_t messages)
{
    struct llm_cache keep;

    llm_cache_init(&keep);
    keep.messages = messages;
    keep.bytes_max = sender->size;
    for (size_t i = 0; messages > 0 && i < sender->topic_count; i++)
        steady_ok(llm_topic_cache(sender->topics[i], &keep), "llm_topic_cache");
}

int stream_transmit(const struct control *control)
{
    struct steady_sender sender = {.context = steady_context(control, LLM_WAIT_SPIN), .size = control_number(control, "size", 45),
                                   .topic_count = control_number(control, "topics", 1)};
    struct llm_transmitter_handlers handlers;
    struct llm_transmitter *transmitter;
    struct control request;
    struct llm_options options;
    int came = 0;

    llm_options_init(&options);
    options.history_packets = (uint32_t)control_number(control, "history", options.history_packets);
    options.receivers_max = STREAM_RECEIVERS_MAX;
    sender.topics = steady_memory(sender.topic_count, sizeof(struct llm_topic *));
    transmitter = steady_transmitter(&sender, control_text(control, "channel", ""), &options, 0);
    llm_transmitter_handlers_init(&handlers);
    handlers.event = on_told;
    steady_ok(llm_transmitter_handle(transmitter, &handlers), "llm_transmitter_handle");
    stream_keep(&sender, control_number(control, "keep", 0));
    steady_await(sender.context, transmitter, control_number(control, "receivers", 1));
    for (; came >= 0; came = control_take(&request, 0)) {
        if (came > 0)
            stream_serve(&sender, &request);
        steady_ok(llm_poll(sender.context), "llm_poll");
    }
    steady_close(&sender, transmitter);
    free(sender.topics);
    return 0;
}

/* -------------------------------------------------------------------------------------------------- receivers */

struct stream {
    struct steady_track track; /* the first member, for steady_place_event() */
    struct histogram *hops;    /* by round and phase */
    uint64_t rounds;
    uint64_t messages;
    uint64_t rest_us;
    uint64_t size;       /* of those that come in any order: of a message, ... */
    bool *came;          /* ... by number, below most; NULL: they come in sequence */
    uint64_t most;
    uint64_t disordered; /* behind one that was sent later */
};

static struct steady_stamp stream_take_any(struct stream *stream, const struct llm_message *message)
{
    struct steady_stamp stamp = {.round = UINT32_MAX};

    stream->track.received++;
    if (message->size != stream->size || message->number >= stream->most) {
        stream->track.changed++;
        return stamp;
    }
    memcpy(&stamp, message->data, sizeof stamp);
    stream->track.changed += stamp.sequence != message->number;
    stream->track.duplicated += stream->came[message->number];
    stream->came[message->number] = true;
    stream->disordered += message->number < stream->track.next;
    stream->track.next = message->number < stream->track.next ? stream->track.next : message->number + 1;
    return stamp;
}

static void on_message(void *arg, const struct llm_message *message)
{
    const uint64_t now = llm_clock();
    struct stream *stream = arg;
    const struct steady_stamp stamp = stream->came != NULL ? stream_take_any(stream, message)
                                                           : steady_track_message(&stream->track, message);
    struct histogram *hops = stamp.round < stream->rounds && stamp.phase < STREAM_PHASES
                                 ? &stream->hops[stamp.round * STREAM_PHASES + stamp.phase] : NULL;

    if (stream_rests && ++stream->messages % STREAM_BATCH == 0)
        (void)usleep((useconds_t)stream->rest_us);
    if (hops != NULL && hops->counts != NULL)
        histogram_add(hops, now - stamp.due_at);
}

static void stream_report(const struct stream *stream, const struct llm_context *context, const char *counters)
{
    json_open();
    steady_json_track(&stream->track);
    json_number("disordered", (double)stream->disordered);
    json_begin("rounds", '[');
    for (uint64_t round = 0; round < stream->rounds; round++) {
        json_begin(NULL, '{');
        for (int phase = 0; phase < STREAM_PHASES; phase++) {
            const char key[] = {(char)('0' + phase), '\0'};

            if (stream->hops[round * STREAM_PHASES + (uint64_t)phase].counts != NULL)
                json_histogram(key, &stream->hops[round * STREAM_PHASES + (uint64_t)phase]);
        }
        json_end('}');
    }
    json_end(']');
    stream_json_stats(context, counters);
    json_close();
}

int stream_receive(const struct control *control)
{
    const bool blocks = strcmp(control_text(control, "wait", "spin"), "block") == 0;
    struct llm_context *context = steady_context(control, blocks ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN);
    struct stream stream = {.rounds = control_number(control, "rounds", 1), .rest_us = control_number(control, "rest", 0),
                            .size = control_number(control, "size", 45), .most = control_number(control, "most", 0)};
    struct llm_receiver *receiver;
    uint64_t phases[STREAM_PHASES];
    const int count = control_list(control, "measured", phases, STREAM_PHASES);

    (void)signal(SIGUSR1, stream_toggle);
    (void)signal(SIGTERM, stream_end);
    stream.hops = steady_memory(stream.rounds * STREAM_PHASES, sizeof *stream.hops);
    for (uint64_t round = 0; round < stream.rounds; round++)
        for (int i = 0; i < count; i++)
            histogram_init(&stream.hops[round * STREAM_PHASES + phases[i] % STREAM_PHASES], control_number(control, "trace", 0));
    stream.came = control_flag(control, "any") ? steady_memory(stream.most, sizeof *stream.came) : NULL;
    receiver = steady_receiver(context, control_text(control, "channel", ""), NULL, on_message, steady_place_event, &stream);
    while (!stream.track.ended && !stream_over)
        steady_ok(llm_wait(context, 10000000), "llm_wait");
    stream_report(&stream, context, control_text(control, "counters", ""));
    /* It says that it leaves, and its counters go. */
    steady_ok(llm_receiver_close(&receiver), "llm_receiver_close");
    for (uint64_t i = 0; i < stream.rounds * STREAM_PHASES; i++)
        histogram_fini(&stream.hops[i]);
    free(stream.hops);
    free(stream.came);
    return steady_ok(llm_context_close(&context), "llm_context_close");
}

/* ------------------------------------------------------------------------------------------------------- mute */

int stream_mute(const struct control *control)
{
    const char *channel = control_text(control, "channel", ""), *reason = "it has no bare form";
    struct pollfd ready = {.events = POLLIN};
    struct raw_group group;
    char nothing[1];

    (void)signal(SIGUSR1, stream_end);
    if (raw_group_of_channel(channel, 0, &group, &reason) != 0)
        control_fail(channel, reason);
    ready.fd = raw_udp_open_receive(&group);
    if (ready.fd < 0)
        control_fail(channel, "the mute's socket cannot be opened");
    steady_say("ready");
    while (!stream_over)
        if (poll(&ready, 1, -1) == 1)
            (void)!recv(ready.fd, nothing, sizeof nothing, 0);
    for (;;)
        pause();
}
