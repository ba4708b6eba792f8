/* SPDX-License-Identifier: Apache-2.0 */
/* llm-store play: sends recorded messages to a channel, with their topics and attributes. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "store_tool.h"

#define SECOND UINT64_C(1000000000)

struct play {
    const struct store_arguments *arguments;
    struct llm_context *context;
    struct llm_transmitter *transmitter; /* of the session that is being played; NULL: none is */
    struct llm_replay *replay;
    struct llm_topic **topics; /* by id of the recording */
    uint32_t topics_count;
    uint64_t began_at; /* when the session began here ... */
    uint64_t wall;     /* ... and in the recording, CLOCK_REALTIME ns; 0: no message yet */
    uint64_t sessions;
    uint64_t messages;
    uint64_t bytes;
    uint64_t lost; /* in the recording */
    bool failed;
    struct store_progress progress;
};

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static bool is_over(const struct play *play)
{
    return play->failed || stopped != 0;
}

/* Waits until a message is due. */
static void play_pace(struct play *play, uint64_t wall)
{
    const double speed = play->arguments->speed;
    uint64_t due, now = llm_clock();

    if (play->wall == 0) {
        play->wall = wall;
        play->began_at = now;
    }
    if (speed == 0 || wall <= play->wall)
        return;
    due = play->began_at + (uint64_t)((double)(wall - play->wall) / speed);
    if (now < due)
        (void)llm_transmitter_flush(play->transmitter);
    for (; now < due && !is_over(play); now = llm_clock())
        (void)llm_wait(play->context, due - now < SECOND / 10 ? due - now : SECOND / 10);
}

/* Opens the topic of this name. */
static void play_open_topic(struct play *play, uint32_t id, const char *name)
{
    int error;

    if (id >= play->topics_count) {
        struct llm_topic **topics = realloc(play->topics, ((size_t)id + 1) * sizeof *topics);

        if (topics == NULL) {
            fprintf(stderr, "llm-store: no memory for topic %u\n", id);
            play->failed = true;
            return;
        }
        for (; play->topics_count <= id; play->topics_count++)
            topics[play->topics_count] = NULL;
        play->topics = topics;
    }
    do {
        error = llm_topic_open(play->transmitter, name, 0, play->topics + id);
        if (error == LLM_EAGAIN)
            (void)llm_wait(play->context, SECOND / 1000);
    } while (error == LLM_EAGAIN && !is_over(play));
    play->failed |= error != LLM_OK;
}

/* Returns the topic of a message. One whose name the store never learned gets a name with its id. */
static struct llm_topic *play_topic(struct play *play, const struct llm_message *message)
{
    char name[48];

    if (message->topic_id < play->topics_count && play->topics[message->topic_id] != NULL)
        return play->topics[message->topic_id];
    (void)snprintf(name, sizeof name, "llm-store.unknown.%u", message->topic_id);
    play_open_topic(play, message->topic_id, message->topic[0] != '\0' ? message->topic : name);
    return play->failed ? NULL : play->topics[message->topic_id];
}

static int play_send(struct play *play, struct llm_topic *topic, const struct llm_message *message)
{
    struct llm_attributes attributes;

    llm_attributes_init(&attributes);
    if (llm_replay_attributes(play->replay, message, &attributes) == LLM_OK &&
        (attributes.label != 0 || attributes.bitmap_bits > 0 || attributes.properties_count > 0))
        return llm_send_with(topic, message->data, message->size, &attributes, 0);
    return llm_send(topic, message->data, message->size, 0);
}

static void play_message(void *arg, const struct llm_message *message)
{
    struct play *play = arg;
    struct llm_topic *topic;
    int error = LLM_EAGAIN;

    if (is_over(play))
        return;
    topic = play_topic(play, message);
    if (topic == NULL)
        return;
    play_pace(play, message->received_at);
    while (!is_over(play)) {
        error = play_send(play, topic, message);
        if (error != LLM_EAGAIN)
            break;
        (void)llm_topic_wait(topic, message->size, SECOND / 10);
    }
    if (is_over(play))
        return;
    play->failed = error < 0;
    play->messages++;
    play->bytes += message->size;
    /* Heartbeats and repairs, however fast it goes. */
    if (play->messages % 64 == 0)
        (void)llm_poll(play->context);
    store_progress_note(&play->progress, play->messages, "messages");
}

static void play_begin(struct play *play)
{
    if (llm_transmitter_open(play->context, play->arguments->target, NULL, NULL, &play->transmitter) !=
        LLM_OK) {
        play->failed = true;
        return;
    }
    play->sessions++;
    play->wall = 0;
    if (play->arguments->receivers > 0 &&
        llm_transmitter_wait(play->transmitter, play->arguments->receivers,
                             (uint64_t)(play->arguments->seconds * 1e9)) < (int)play->arguments->receivers)
        fprintf(stderr, "llm-store: %u of %u receivers are there: playing all the same\n",
                llm_transmitter_receivers(play->transmitter), play->arguments->receivers);
}

static void play_end(struct play *play)
{
    free(play->topics);
    play->topics = NULL;
    play->topics_count = 0;
    if (play->transmitter != NULL)
        (void)llm_transmitter_close(&play->transmitter);
}

static void play_event(void *arg, const struct llm_event *event)
{
    struct play *play = arg;

    if (is_over(play))
        return;
    if (event->kind == LLM_EVENT_SESSION_NEW)
        play_begin(play);
    else if (event->kind == LLM_EVENT_TOPIC_NEW)
        play_open_topic(play, event->topic_id, event->topic);
    else if (event->kind == LLM_EVENT_SESSION_END)
        play_end(play);
    else if (event->kind == LLM_EVENT_GAP)
        play->lost += event->last + 1 - event->first;
}

static void play_report(const struct play *play)
{
    const double seconds = (double)(llm_clock() - play->progress.started_at) / 1e9;

    if (play->arguments->json)
        printf("{\"sessions\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"bytes\": %" PRIu64
               ", \"lost\": %" PRIu64 ", \"seconds\": %.6f, \"complete\": %s}\n",
               play->sessions, play->messages, play->bytes, play->lost, seconds,
               is_over(play) ? "false" : "true");
    else
        printf("played %" PRIu64 " messages, %.1f MiB, of %" PRIu64 " sessions in %.3f s; %" PRIu64
               " are lost in the recording%s\n",
               play->messages, (double)play->bytes / (1 << 20), play->sessions, seconds, play->lost,
               stopped != 0 ? "; stopped by a signal" : "");
}

static int play_run(struct play *play)
{
    int delivered;

    store_progress_begin(&play->progress, "play", 0);
    do
        delivered = llm_replay_next(play->replay, 64);
    while (delivered > 0 && !is_over(play));
    store_progress_end(&play->progress);
    play_end(play);
    play->failed |= delivered < 0;
    play_report(play);
    return is_over(play) ? STORE_FAILED : 0;
}

int store_play(const struct store_arguments *arguments)
{
    const struct llm_replay_options options = store_replay_options(arguments);
    const struct sigaction action = {.sa_handler = stop};
    struct play play = {.arguments = arguments};
    struct llm_context_options context_options;
    struct llm_receiver_handlers handlers;
    int status = STORE_FAILED;

    llm_context_options_init(&context_options);
    context_options.log = store_log;
    context_options.wait = LLM_WAIT_BLOCK;
    context_options.stats_name = "llm-store play";
    llm_receiver_handlers_init(&handlers);
    handlers.arg = &play;
    handlers.message = play_message;
    handlers.event = play_event;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (llm_replay_open(arguments->directory, &options, &handlers, store_log, NULL, &play.replay) == LLM_OK &&
        llm_context_open(&context_options, &play.context) == LLM_OK)
        status = play_run(&play);
    (void)llm_context_close(&play.context);
    (void)llm_replay_close(&play.replay);
    return status;
}
