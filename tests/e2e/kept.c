/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topics with a last value cache, over a network, for receivers that join when the history has lost nearly
 * all of its messages: a live receiver has the last messages of each topic, and then gets every message.
 *
 *   e2e_kept send CHANNEL [--topics N] [--keep N] [--rate N]
 *   e2e_kept receive CHANNEL [--topics N] [--keep N]
 *
 * The sender prints "ready" when each topic has its messages and the history has wrapped, and continues at a
 * rate until it is interrupted; a receiver prints "live", and ends with the session. Every message has the
 * number of its topic and a count on it. Both print a line of JSON at the end.
 */
#include "flood.h"

#include <string.h>

enum { TOPICS_MAX = 16000, BATCH = 16 };

struct quote {
    uint64_t topic;
    uint64_t count;
    uint8_t rest[24];
};

static uint64_t topics = 10000, keep = 1;
static uint64_t counts[TOPICS_MAX]; /* sender: messages of each topic; receiver: count after the latest one */
static unsigned errors;

static void wrong(const char *what, uint64_t number)
{
    if (errors++ < 20)
        printf("%s %" PRIu64 "\n", what, number);
}

/* ------------------------------------------------------------------------------------------------ sender */

static void send_one(struct llm_topic *const *handles, uint64_t topic, struct llm_context *context)
{
    struct quote quote = {.topic = topic, .count = counts[topic]++};
    int result;

    memset(quote.rest, (int)(quote.count & 255), sizeof quote.rest);
    while ((result = llm_send(handles[topic], &quote, sizeof quote, LLM_SEND_MORE)) == LLM_EAGAIN)
        flood_ok(llm_poll(context), "llm_poll");
    flood_ok(result, "llm_send");
}

static void send_rounds(struct llm_context *context, struct llm_topic *const *handles, uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds * topics; i++) {
        send_one(handles, i % topics, context);
        if (i % 64 == 0)
            flood_ok(llm_poll(context), "llm_poll");
    }
}

/* Sends on some topics often, and on every topic now and then. */
static uint64_t send_until(struct llm_context *context, struct llm_topic *const *handles, uint64_t sent,
                           uint64_t end)
{
    for (; sent < end; sent++)
        send_one(handles, sent % 3 == 0 ? sent % 7 % topics : sent * 7919 % topics, context);
    return sent;
}

static void send_on(struct llm_context *context, struct llm_topic *const *handles, uint64_t rate)
{
    const uint64_t begin = llm_clock();
    uint64_t sent = 0;

    while (!flood_stopped) {
        sent = send_until(context, handles, sent, (llm_clock() - begin) * rate / 1000000000 / BATCH * BATCH);
        flood_ok(llm_poll(context), "llm_poll");
    }
    /* A receiver that became live just before the interruption gets a message after that. */
    (void)send_until(context, handles, sent, sent + BATCH);
}

static int send_all(int argc, char **argv)
{
    const uint64_t rate = flood_option(argc, argv, "--rate", 20000);
    static struct llm_topic *handles[TOPICS_MAX];
    struct llm_transmitter *transmitter;
    struct llm_context *context;
    struct llm_options options;
    struct llm_cache kept;
    char name[16];

    llm_options_init(&options);
    options.history_bytes = 1 << 20;
    options.history_packets = 1 << 10;
    options.linger_ns = UINT64_C(5000000000);
    llm_cache_init(&kept);
    kept.messages = keep;
    kept.bytes_max = sizeof(struct quote);
    flood_ok(llm_context_open(NULL, &context), "llm_context_open");
    flood_ok(llm_transmitter_open(context, argv[2], &options, NULL, &transmitter), argv[2]);
    for (uint64_t i = 0; i < topics; i++) {
        (void)snprintf(name, sizeof name, "%05" PRIu64, i);
        flood_ok(llm_topic_open(transmitter, name, 0, &handles[i]), name);
        flood_ok(llm_topic_cache(handles[i], &kept), name);
        flood_ok(llm_poll(context), "llm_poll");
    }
    /* At least twice the capacity of the history. */
    send_rounds(context, handles, keep + 1 + 60000 / topics);
    flood_ok(llm_transmitter_flush(transmitter), "llm_transmitter_flush");
    fprintf(stderr, "ready\n");
    send_on(context, handles, rate);
    printf("{\"messages\": %" PRIu64 ", ", llm_transmitter_next(transmitter));
    flood_print_stats(stdout, context);
    printf("}\n");
    flood_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    flood_ok(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}

/* ---------------------------------------------------------------------------------------------- receiver */

static struct {
    uint64_t opened_at;
    uint64_t splice, expected;
    uint64_t before, behind, live_ns;
    uint64_t got[TOPICS_MAX]; /* messages of each topic received before the receiver was live */
    bool live, ended;
} place;

/*
 * True if messages between the first and the latest of a topic may be missing, as other messages displaced
 * them.
 */
static bool may_be_missing(const struct llm_message *message)
{
    return keep > 1 && (!place.live || message->number < place.splice);
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct quote quote;

    (void)arg;
    if (message->size != sizeof quote) {
        wrong("wrong size: message", message->number);
        return;
    }
    memcpy(&quote, message->data, sizeof quote);
    if (quote.topic >= topics || strtoull(message->topic, NULL, 10) != quote.topic ||
        quote.rest[23] != (uint8_t)quote.count) {
        wrong("changed: message", message->number);
        return;
    }
    if (counts[quote.topic] != 0 && (quote.count < counts[quote.topic] ||
                                     (quote.count > counts[quote.topic] && !may_be_missing(message))))
        wrong("out of order on its topic: message", message->number);
    counts[quote.topic] = quote.count + 1;
    place.got[quote.topic] += !place.live;
    if (message->number < place.splice) {
        place.before++;
        return;
    }
    if (message->number != place.expected)
        wrong("out of sequence: message", message->number);
    place.expected = message->number + 1;
    place.behind++;
}

/* Each topic has its last messages once the receiver is live. */
static void on_live(uint64_t first)
{
    place.live = true;
    place.live_ns = llm_clock() - place.opened_at;
    fprintf(stderr, "live\n");
    if (first != place.expected)
        wrong("live, but not at the next message:", first);
    for (uint64_t i = 0; i < topics; i++)
        if (place.got[i] < keep)
            wrong("last messages are missing on topic", i);
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_SESSION_NEW) {
        place.splice = place.expected = event->first;
    } else if (event->kind == LLM_EVENT_LIVE) {
        on_live(event->first);
    } else if (event->kind == LLM_EVENT_SESSION_END) {
        place.ended = true;
        if (event->reason != LLM_REASON_CLOSED || event->first != place.expected)
            wrong("ended too soon, before message", event->first);
    } else if (event->kind == LLM_EVENT_GAP || event->kind == LLM_EVENT_CACHE_LOST ||
               event->kind == LLM_EVENT_JOIN_REFUSED) {
        wrong(llm_event_name(event->kind), event->first);
    }
}

static int receive_all(const char *channel)
{
    struct llm_receiver_handlers handlers;
    struct llm_context_options waiting;
    struct llm_receiver *receiver;
    struct llm_context *context;
    struct llm_options options;

    llm_context_options_init(&waiting);
    waiting.wait = LLM_WAIT_BLOCK;
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    llm_options_init(&options);
    options.join = LLM_JOIN_LATEST;
    flood_ok(llm_context_open(&waiting, &context), "llm_context_open");
    place.opened_at = llm_clock();
    flood_ok(llm_receiver_open(context, channel, &options, &handlers, &receiver), channel);
    while (!place.ended && !flood_stopped)
        flood_ok(llm_wait(context, 10000000), "llm_wait");
    printf("{\"before\": %" PRIu64 ", \"behind\": %" PRIu64
           ", \"live\": %d, \"live_ms\": %.1f, \"errors\": %u, ",
           place.before, place.behind, (int)place.live, (double)place.live_ns / 1e6, errors);
    flood_print_stats(stdout, context);
    printf("}\n");
    flood_ok(llm_context_close(&context), "llm_context_close");
    return errors == 0 && place.live ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc < 3 || (strcmp(argv[1], "send") != 0 && strcmp(argv[1], "receive") != 0)) {
        fprintf(stderr, "usage: e2e_kept send|receive CHANNEL [--topics N] [--keep N] [--rate N]\n");
        return EXIT_FAILURE;
    }
    flood_signals();
    topics = flood_option(argc, argv, "--topics", topics);
    keep = flood_option(argc, argv, "--keep", keep);
    if (topics < 1 || topics > TOPICS_MAX)
        return EXIT_FAILURE;
    return strcmp(argv[1], "send") == 0 ? send_all(argc, argv) : receive_all(argv[2]);
}
