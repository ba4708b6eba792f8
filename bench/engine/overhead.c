/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of features for a message that has no use for them: the latency monitor at each of its levels, the counters file, the
 * watch, and delivery as messages arrive where nothing is lost. Pairs of ends, each with other features on, take turns in one
 * thread, many times; what counts is the difference of each turn to that of the pair with nothing on in the same round, as only
 * figures of one moment compare. overhead pairs transport=loop|shm|udp pattern=NAME,... feature=NAME,... rounds= messages= size= watch=
 * options= directory=, of counters files, cpu=: opens all pairs, once, and answers with each turn's nanoseconds a message.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llm/stats.h>

#include "machine.h"
#include "overhead.h"
#include "steady.h"

enum {
    OVERHEAD_SIZE_MAX = 8192,
    OVERHEAD_EIGHT = 8,
    OVERHEAD_NEAR_POLLS = 64,       /* the transmitter's end is polled once for so many messages */
    OVERHEAD_STREAM = 10,           /* a stream has so many times the messages of a turn, as each takes less */
    OVERHEAD_BURST = 2000,          /* messages of a stream that are under way at most, ... */
    OVERHEAD_BURST_BYTES = 1 << 18, /* ... and their bytes */
    OVERHEAD_SETTLE = 4,            /* polls before each turn */
    OVERHEAD_IMPATIENT = 1 << 16,   /* polls after which somebody has to look after a message that does not come, ... */
    OVERHEAD_POLLS_MAX = 1 << 28,   /* ... and after which it is given up */
    OVERHEAD_NAPS = 20000,          /* of 1 ms and of the watch's interval, in which reports and tables are made */
    OVERHEAD_PATTERNS = 3,
    OVERHEAD_ROUNDS_MAX = 1000,
    OVERHEAD_FEATURES = 11,
};

#define OFF LLM_LATENCY_OFF
#define WIRE LLM_LATENCY_WIRE

/* The first is what all others are compared with. */
static const struct overhead_feature overhead_features[OVERHEAD_FEATURES] = {
    {.name = "off"},
    {.name = "none"},
    {.name = "queues", .near = LLM_LATENCY_QUEUES, .far = LLM_LATENCY_QUEUES},
    {.name = "wire_transmitter", .near = WIRE, .far = OFF},
    {.name = "wire_receiver", .near = OFF, .far = WIRE},
    {.name = "wire", .near = WIRE, .far = WIRE},
    {.name = "stages", .near = LLM_LATENCY_STAGES, .far = LLM_LATENCY_STAGES},
    {.name = "file", .file = true},
    {.name = "watch", .watch = true},
    {.name = "arrival", .arrival = true},
    {.name = "all", .near = LLM_LATENCY_STAGES, .far = LLM_LATENCY_STAGES, .file = true,
     .watch = true, .arrival = true},
};

typedef void overhead_turn(struct overhead_pair *pair, uint64_t count);
static overhead_turn overhead_lone, overhead_eight, overhead_stream;

static const struct overhead_pattern {
    const char *name;
    overhead_turn *turn;
    uint64_t times; /* a turn's messages */
} overhead_patterns[OVERHEAD_PATTERNS] = {
    {"lone", overhead_lone, 1},
    {"eight", overhead_eight, 1},
    {"stream", overhead_stream, OVERHEAD_STREAM},
};

/* Of one feature and pattern. */
struct overhead_result {
    double ns[OVERHEAD_ROUNDS_MAX]; /* a message, of each turn */
    int turns;
    uint64_t sent;
    uint64_t received;
};

static const char *overhead_transport, *overhead_options, *overhead_directory;
static uint64_t overhead_rounds, overhead_messages, overhead_size, overhead_watch;

static bool overhead_pattern_chosen[OVERHEAD_PATTERNS], overhead_feature_chosen[OVERHEAD_FEATURES];
static struct overhead_result overhead_results[OVERHEAD_PATTERNS][OVERHEAD_FEATURES];
static struct overhead_writing overhead_writing[OVERHEAD_FEATURES];
static uint8_t overhead_data[OVERHEAD_SIZE_MAX];

/* ---------------------------------------------------------------------------------------------------- pairs of ends */

static void on_message(void *arg, const struct llm_message *message)
{
    struct overhead_pair *pair = arg;

    pair->received++;
    pair->numbers += message->number;
    pair->changed += message->size != overhead_size;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct overhead_pair *pair = arg;

    if (event->kind == LLM_EVENT_SESSION_NEW)
        pair->first = event->first;
    if (event->kind == LLM_EVENT_GAP)
        pair->lost += event->last + 1 - event->first;
}

static void overhead_poll(struct overhead_pair *pair)
{
    steady_ok(llm_poll(pair->near), "llm_poll");
    steady_ok(llm_poll(pair->far), "llm_poll");
}

/* Without huge pages: where there are some, they might be enough for a part of the pairs. */
static void overhead_context(const struct overhead_feature *feature, enum llm_latency_level level, struct llm_context **context)
{
    struct llm_context_options options;

    llm_context_options_init(&options);
    options.log_level = LLM_LEVEL_ERROR;
    options.huge_pages = false;
    options.latency = level;
    options.stats_directory = feature->file ? overhead_directory : "";
    options.stats_name = "overhead";
    options.watch_ns = feature->watch ? overhead_watch : 0;
    steady_ok(llm_context_open(&options, context), "llm_context_open");
}

/* Each pair has a group that no other process has either. */
static void overhead_channel(int at, bool arrival, char *channel, size_t size)
{
    const int port = 20000 + (int)(getpid() % 700) * 16 + at;
    const bool udp = strcmp(overhead_transport, "udp") == 0;
    const int length = snprintf(channel, size, "%s://%s:%d?%sorder=%s%s%s", overhead_transport, udp ? "239.192.77.1" : "overhead", port,
                                udp ? "interface=lo&" : "", arrival ? "arrival" : "sequence",
                                *overhead_options == '\0' ? "" : "&", overhead_options);

    if (length < 0 || (size_t)length >= size)
        control_fail("options", "are too long");
}

static void overhead_open(struct overhead_pair *pair, int at)
{
    struct llm_receiver_handlers handlers;
    char channel[1024];

    *pair = (struct overhead_pair){.feature = &overhead_features[at]};
    overhead_channel(at, pair->feature->arrival, channel, sizeof channel);
    overhead_context(pair->feature, pair->feature->near, &pair->near);
    overhead_context(pair->feature, pair->feature->far, &pair->far);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = pair;
    handlers.message = on_message;
    handlers.event = on_event;
    steady_ok(llm_receiver_open(pair->far, channel, NULL, &handlers, &pair->receiver), channel);
    steady_ok(llm_transmitter_open(pair->near, channel, NULL, NULL, &pair->transmitter), channel);
    steady_ok(llm_topic_open(pair->transmitter, "overhead", 0, &pair->topic), "llm_topic_open");
    for (int i = 0; llm_transmitter_receivers(pair->transmitter) != 1; i++) {
        if (i == OVERHEAD_POLLS_MAX)
            steady_ok(LLM_EAGAIN, "the receiver does not become known");
        overhead_poll(pair);
    }
}

static void overhead_close(struct overhead_pair *pair)
{
    steady_ok(llm_transmitter_close(&pair->transmitter), "llm_transmitter_close");
    steady_ok(llm_context_close(&pair->near), "llm_context_close");
    steady_ok(llm_context_close(&pair->far), "llm_context_close");
}

/* ---------------------------------------------------------------------------------------------------------- patterns */

/* A lost packet comes again only if the transmitter is polled. */
static __attribute__((noinline)) void overhead_impatient(struct overhead_pair *pair, uint64_t polls)
{
    steady_ok(llm_poll(pair->near), "llm_poll");
    if (polls < OVERHEAD_POLLS_MAX)
        return;
    fprintf(stderr, "overhead: %s: of %" PRIu64 " messages %" PRIu64 " came\n", pair->feature->name, pair->sent,
            pair->received);
    exit(EXIT_FAILURE);
}

static void overhead_await(struct overhead_pair *pair)
{
    for (uint64_t polls = 1; pair->received + pair->lost < pair->sent; polls++) {
        steady_ok(llm_poll(pair->far), "llm_poll");
        if (polls % OVERHEAD_IMPATIENT == 0)
            overhead_impatient(pair, polls);
    }
}

static void overhead_send(struct overhead_pair *pair, unsigned flags)
{
    int result;

    while ((result = llm_send(pair->topic, overhead_data, overhead_size, flags)) == LLM_EAGAIN)
        overhead_poll(pair);
    steady_ok(result, "llm_send");
    pair->sent++;
}

static void overhead_lone(struct overhead_pair *pair, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        overhead_send(pair, LLM_SEND_NOW);
        overhead_await(pair);
        if (i % OVERHEAD_NEAR_POLLS == 0)
            steady_ok(llm_poll(pair->near), "llm_poll");
    }
}

static void overhead_eight(struct overhead_pair *pair, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        overhead_send(pair, LLM_SEND_MORE);
        if (i % OVERHEAD_EIGHT != 0)
            continue;
        steady_ok(llm_transmitter_flush(pair->transmitter), "llm_transmitter_flush");
        overhead_await(pair);
        if (i % OVERHEAD_NEAR_POLLS == 0)
            steady_ok(llm_poll(pair->near), "llm_poll");
    }
}

/* All of a burst that could not leave at once leaves with the polls. */
static void overhead_drain(struct overhead_pair *pair)
{
    steady_ok(llm_transmitter_flush(pair->transmitter), "llm_transmitter_flush");
    for (uint64_t polls = 1; pair->received + pair->lost < pair->sent; polls++) {
        overhead_poll(pair);
        if (polls % OVERHEAD_IMPATIENT == 0)
            overhead_impatient(pair, polls);
    }
}

static void overhead_stream(struct overhead_pair *pair, uint64_t count)
{
    const uint64_t fit = OVERHEAD_BURST_BYTES / overhead_size, burst = fit < OVERHEAD_BURST ? fit : OVERHEAD_BURST;

    for (uint64_t i = 1; i <= count; i++) {
        overhead_send(pair, LLM_SEND_MORE);
        if (i % burst == 0)
            overhead_drain(pair);
    }
    overhead_drain(pair);
}

/* ------------------------------------------------------------------------------------------------------------- turns */

/* Work that time has made due meanwhile, a table of counters or a report, is no message's. */
static double overhead_take_turn(struct overhead_pair *pair, const struct overhead_pattern *pattern)
{
    const uint64_t count = overhead_messages * pattern->times;
    uint64_t begun_at;

    for (int i = 0; i < OVERHEAD_SETTLE; i++)
        overhead_poll(pair);
    begun_at = llm_clock();
    pattern->turn(pair, count);
    return (double)(llm_clock() - begun_at) / (double)count;
}

/* Each pair has its turn; who begins changes, and so does the direction, so that each comes behind each of two others. */
static void overhead_round(struct overhead_pair *pairs, const struct overhead_pattern *pattern, struct overhead_result *results,
                           uint64_t round)
{
    const int first = (int)(round % OVERHEAD_FEATURES);

    for (int i = 0; i < OVERHEAD_FEATURES; i++) {
        const int at = round % 2 == 0 ? (first + i) % OVERHEAD_FEATURES : (first - i + OVERHEAD_FEATURES) % OVERHEAD_FEATURES;
        struct overhead_result *result = &results[at];
        const uint64_t sent = pairs[at].sent, received = pairs[at].received;

        if (!overhead_feature_chosen[at])
            continue;
        result->ns[result->turns++] = overhead_take_turn(&pairs[at], pattern);
        result->sent += pairs[at].sent - sent;
        result->received += pairs[at].received - received;
    }
}

static void overhead_measure(struct overhead_pair *pairs, const struct overhead_pattern *pattern,
                             struct overhead_result *results)
{
    for (int at = 0; at < OVERHEAD_FEATURES; at++)
        if (overhead_feature_chosen[at])
            (void)overhead_take_turn(&pairs[at], pattern);
    for (uint64_t round = 0; round < overhead_rounds; round++)
        overhead_round(pairs, pattern, results, round);
}

/* All together, as a report of the watch takes more than its interval. What is not done in the end overhead_check() tells. */
static void overhead_wait(struct overhead_pair *pairs)
{
    const uint64_t naps = OVERHEAD_NAPS + 4 * overhead_watch / 1000000;
    bool done = false;

    for (uint64_t i = 0; i < naps && !done; i++) {
        done = true;
        (void)usleep(1000);
        for (int at = 0; at < OVERHEAD_FEATURES; at++) {
            if (!overhead_feature_chosen[at])
                continue;
            overhead_poll(&pairs[at]);
            done &= overhead_done(&pairs[at]);
        }
    }
}

/* In each run pairs are opened anew: where in memory one lies is its fate for a run. */
static bool overhead_run(void)
{
    static struct overhead_pair pairs[OVERHEAD_FEATURES];
    bool good = true;

    for (int at = 0; at < OVERHEAD_FEATURES; at++)
        if (overhead_feature_chosen[at])
            overhead_open(&pairs[at], at);
    for (int i = 0; i < OVERHEAD_PATTERNS; i++)
        if (overhead_pattern_chosen[i])
            overhead_measure(pairs, &overhead_patterns[i], overhead_results[i]);
    overhead_wait(pairs);
    for (int at = 0; at < OVERHEAD_FEATURES; at++) {
        if (!overhead_feature_chosen[at])
            continue;
        good &= overhead_check(&pairs[at], &overhead_writing[at]);
        overhead_close(&pairs[at]);
    }
    return good;
}

/* ------------------------------------------------------------------------------------------------------------ report */

static void overhead_report(void)
{
    json_open();
    machine_json("machine");
    for (int i = 0; i < OVERHEAD_PATTERNS; i++) {
        if (!overhead_pattern_chosen[i])
            continue;
        json_begin(overhead_patterns[i].name, '{');
        for (int at = 0; at < OVERHEAD_FEATURES; at++) {
            const struct overhead_result *result = &overhead_results[i][at];

            if (!overhead_feature_chosen[at])
                continue;
            json_begin(overhead_features[at].name, '{');
            json_number("sent", (double)result->sent);
            json_number("received", (double)result->received);
            json_number("writes", (double)overhead_writing[at].writes);
            json_number("write_ns", (double)overhead_writing[at].ns);
            json_begin("ns", '[');
            for (int turn = 0; turn < result->turns; turn++)
                json_number(NULL, result->ns[turn]);
            json_end(']');
            json_end('}');
        }
        json_end('}');
    }
    json_close();
}

/* True if a word is in a list with commas between. */
static bool overhead_is_in(const char *list, const char *word)
{
    const size_t length = strlen(word);

    for (const char *at = list; (at = strstr(at, word)) != NULL; at++)
        if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ','))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    struct control control;

    control_of_arguments(&control, argc, argv);
    machine_start(&control, NULL);
    overhead_transport = control_text(&control, "transport", "loop");
    overhead_options = control_text(&control, "options", "");
    overhead_directory = control_text(&control, "directory", LLM_STATS_DIRECTORY);
    overhead_rounds = control_number(&control, "rounds", 41);
    overhead_messages = control_number(&control, "messages", 20000);
    overhead_size = control_number(&control, "size", 45);
    overhead_watch = control_ns(&control, "watch", 1000000000);
    if (overhead_size > OVERHEAD_SIZE_MAX || overhead_rounds > OVERHEAD_ROUNDS_MAX)
        control_fail("size or rounds", "are too many");
    for (int i = 0; i < OVERHEAD_PATTERNS; i++)
        overhead_pattern_chosen[i] = overhead_is_in(control_text(&control, "pattern", ""), overhead_patterns[i].name);
    for (int at = 0; at < OVERHEAD_FEATURES; at++)
        overhead_feature_chosen[at] = at == 0 || overhead_is_in(control_text(&control, "feature", ""), overhead_features[at].name);
    if (!overhead_run())
        return EXIT_FAILURE;
    overhead_report();
    return EXIT_SUCCESS;
}
