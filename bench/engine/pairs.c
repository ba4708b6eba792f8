/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of a message in one thread: pairs of ends with different features take many turns, since only figures
 * of the same moment are comparable. Requests:
 *   pair name= channel= size= topics= send_only=1 near= far= file= watch= directory= label_run= mask=
 *       match= wanted= attributes=bitmap|properties filter=label|bitmap|selector
 *       Opens a pair, with features: levels of the latency monitor of its ends, counters files, a watch,
 *       labels or other attributes of messages, a filter, a subscription to one topic in wanted=.
 *   keep name= messages=              cache so many messages of each topic; answers with the memory used
 *   measure pattern= rounds= messages= duration= counted=1   all pairs take a turn in each round; answers,
 *       by pair, with the nanoseconds of a message in each turn. counted=1: for callgrind.
 *   stats counters=NAME,...           answers with counters of the receivers, by pair
 *   count kind= size= most= part=     for callgrind: bench/cost.c
 *   check                             checks that features were active; answers with the cost of files
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/objects.h"
#include "observe/stats_file.h"

#include "machine.h"
#include "pairs.h"

enum {
    PAIRS_MAX = 16,
    PAIRS_EIGHT = 8,
    PAIRS_NEAR_POLLS = 64,       /* messages between two polls of the transmitter's end */
    PAIRS_BURST = 2000,          /* maximum of outstanding messages of a stream, ... */
    PAIRS_BURST_BYTES = 1 << 18, /* ... and of their bytes */
    PAIRS_BATCH = 1024,          /* messages between two polls without a receiver */
    PAIRS_SETTLE = 4,            /* polls before each turn */
    /* Polls after which the transmitter is polled for a missing message, ... */
    PAIRS_IMPATIENT = 1 << 16,
    PAIRS_POLLS_MAX = 1 << 28, /* ... and after which the message is given up */
    /* Naps of 1 ms, besides those of the watch's interval, to await reports and counters files. */
    PAIRS_NAPS = 20000,
    PAIRS_ROUNDS_MAX = 1000,
};

static struct pair pairs[PAIRS_MAX];
static int pairs_count;
static uint64_t pairs_watch;

/* -------------------------------------------------------------------------------------------------- pairs */

static void on_message(void *arg, const struct llm_message *message)
{
    struct pair *pair = arg;

    pair->received++;
    pair->numbers += message->number;
    pair->changed += message->size != pair->size;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct pair *pair = arg;

    if (event->kind == LLM_EVENT_SESSION_NEW)
        pair->first = event->first;
    if (event->kind == LLM_EVENT_GAP)
        pair->lost += event->last + 1 - event->first;
}

static void pairs_poll(struct pair *pair)
{
    pairs_turn_to(PAIRS_NEAR);
    steady_poll(pair->near);
    pairs_turn_to(PAIRS_FAR);
    if (pair->far != NULL)
        steady_poll(pair->far);
}

/* Opens a context without huge pages, which might suffice for some of the pairs only. */
static struct llm_context *pairs_context(const struct control *control, const struct pair *pair,
                                         enum llm_latency_level level)
{
    struct llm_context_options options = steady_options();

    options.huge_pages = false;
    options.latency = level;
    options.stats_directory = pair->file ? control_text(control, "directory", "") : "";
    options.stats_name = "pairs";
    options.watch_ns = pair->watch ? pairs_watch : 0;
    return steady_open(&options);
}

static void pairs_set_attributes(const struct control *control, struct pair *pair)
{
    static const struct llm_property properties[] = {
        {.code = 1, .type = LLM_PROPERTY_INT32, .value.int32 = 99},
        {.code = 2, .type = LLM_PROPERTY_DOUBLE, .value.float64 = 2.5},
        {.code = 3, .type = LLM_PROPERTY_BYTES, .value.bytes = {"FR", 2}}};
    static const uint8_t bitmap[LLM_BITMAP_BITS_MAX / 8] = {1};

    llm_attributes_init(&pair->attributes);
    pair->attributed = control_text(control, "label_run", NULL) != NULL;
    pair->label_run = control_number(control, "label_run", 0);
    if (control_is(control, "attributes", "bitmap")) {
        pair->attributes.bitmap_bits = LLM_BITMAP_BITS_MAX;
        pair->attributes.bitmap = bitmap;
    } else if (control_is(control, "attributes", "properties")) {
        pair->attributes.properties = properties;
        pair->attributes.properties_count = sizeof properties / sizeof properties[0];
    }
}

/* The bitmap filter requires a bit that no message has, and the selector values that none has. */
static void pairs_set_filter(const struct control *control, struct pair *pair)
{
    static const struct llm_property_name names[] = {{"quantity", 1}, {"price", 2}, {"symbol", 3}};
    static const uint8_t mask[LLM_BITMAP_BITS_MAX / 8] = {[LLM_BITMAP_BITS_MAX / 8 - 1] = 1};
    const struct llm_label_match label = {(uint32_t)control_number(control, "mask", 0),
                                          (uint32_t)control_number(control, "match", 0)};
    struct llm_filter filter;

    llm_filter_init(&filter);
    if (control_is(control, "filter", "label")) {
        filter.labels = &label;
        filter.labels_count = 1;
    } else if (control_is(control, "filter", "bitmap")) {
        filter.bitmap_mask = mask;
        filter.bitmap_bits = LLM_BITMAP_BITS_MAX;
    } else if (control_is(control, "filter", "selector")) {
        filter.selector = "price > 1.5 AND quantity >= 100 AND symbol LIKE 'DE%'";
        filter.names = names;
        filter.names_count = sizeof names / sizeof names[0];
    }
    if (control_text(control, "filter", NULL) != NULL)
        steady_ok(llm_receiver_filter(pair->receiver, &filter), "llm_receiver_filter");
}

static void pairs_open_topics(struct pair *pair, uint64_t wanted)
{
    char name[32];

    pair->topics = control_memory(pair->topic_count, sizeof(struct llm_topic *));
    for (uint64_t i = 0; i < pair->topic_count; i++) {
        (void)snprintf(name, sizeof name, "topic.%" PRIu64, i);
        steady_ok(llm_topic_open(pair->transmitter, name, 0, &pair->topics[i]), "llm_topic_open");
        if (wanted > 1 && i % wanted == 0)
            steady_ok(llm_receiver_subscribe(pair->receiver, name), "llm_receiver_subscribe");
        pairs_poll(pair);
    }
}

static void pairs_await_receiver(struct pair *pair)
{
    for (int i = 0; llm_transmitter_receivers(pair->transmitter) != 1; i++) {
        if (i == PAIRS_POLLS_MAX)
            steady_ok(LLM_EAGAIN, "the receiver does not become known");
        pairs_poll(pair);
        /* A report is repeated after a time if another thread has to resolve its route first. */
        if (cost_pass != NULL && i >= PAIRS_SETTLE) {
            (void)usleep(1000);
            cost_pass(1000000000);
        }
    }
}

static void pairs_open(const struct control *control)
{
    const char *channel = control_text(control, "channel", "");
    struct pair *pair = &pairs[pairs_count++];

    if (pairs_count == PAIRS_MAX)
        control_fail("pairs", "are too many");
    pairs_watch = control_ns(control, "watch", pairs_watch);
    *pair = (struct pair){.near_level = (enum llm_latency_level)control_number(control, "near", 0),
                          .far_level = (enum llm_latency_level)control_number(control, "far", 0),
                          .file = control_flag(control, "file"),
                          .watch = control_text(control, "watch", NULL) != NULL,
                          .topic_count = control_number(control, "topics", 1),
                          .size = control_number(control, "size", 45)};
    (void)snprintf(pair->name, sizeof pair->name, "%s", control_text(control, "name", ""));
    pair->data = control_memory(1, pair->size);
    if (&pairs_device != NULL)
        pairs_device.open();
    pairs_set_attributes(control, pair);
    pair->near = pairs_context(control, pair, pair->near_level);
    if (!control_flag(control, "send_only")) {
        pair->far = pairs_context(control, pair, pair->far_level);
        pair->receiver = steady_receiver(pair->far, channel, on_message, on_event, pair);
        pairs_set_filter(control, pair);
    }
    if (&pairs_device != NULL)
        pairs_device.opened(PAIRS_FAR);
    steady_ok(llm_transmitter_open(pair->near, channel, NULL, NULL, &pair->transmitter), channel);
    if (&pairs_device != NULL)
        pairs_device.opened(PAIRS_NEAR);
    pairs_open_topics(pair, control_number(control, "wanted", 1));
    if (pair->receiver != NULL)
        pairs_await_receiver(pair);
    json_done(NULL, 0);
}

static void pairs_close(struct pair *pair)
{
    pairs_turn_to(PAIRS_NEAR);
    steady_ok(llm_transmitter_close(&pair->transmitter), "llm_transmitter_close");
    steady_ok(llm_context_close(&pair->near), "llm_context_close");
    pairs_turn_to(PAIRS_FAR);
    steady_ok(llm_context_close(&pair->far), "llm_context_close");
}

/* ----------------------------------------------------------------------------------------------- patterns */

/* A lost packet is repaired only if the transmitter is polled. */
static __attribute__((noinline)) void pairs_impatient(struct pair *pair, uint64_t polls)
{
    steady_poll(pair->near);
    if (polls < PAIRS_POLLS_MAX)
        return;
    control_fail(pair->name, "messages do not come");
}

/* Waits for all messages; polls send the rest of a burst that could not leave at once. */
static void pairs_await(struct pair *pair, bool burst)
{
    for (uint64_t polls = 1; pair->received + pair->lost < pair->sent; polls++) {
        if (burst)
            steady_poll(pair->near);
        steady_poll(pair->far);
        if (polls % PAIRS_IMPATIENT == 0)
            pairs_impatient(pair, polls);
    }
}

static void pairs_send(struct pair *pair, unsigned flags)
{
    struct llm_topic *topic = pair->topics[pair->topic_count == 1 ? 0 : pair->sent % pair->topic_count];
    int result;

    if (pair->attributed)
        pair->attributes.label = pair->label_run == 0 ? 1 : (uint32_t)(1 + pair->sent / pair->label_run % 2);
    do
        result = pair->attributed ? llm_send_with(topic, pair->data, pair->size, &pair->attributes, flags)
                                  : llm_send(topic, pair->data, pair->size, flags);
    while (result == LLM_EAGAIN && (pairs_poll(pair), true));
    steady_ok(result, "llm_send");
    pair->sent++;
}

uint64_t pairs_counter(const struct llm_context *context, const char *name)
{
    uint64_t value = 0;

    steady_ok(llm_context_counter(context, name, &value), name);
    return value;
}

/* Polls the receiver until it has all packets, wanted or not. Returns the nanoseconds of these polls. */
static uint64_t pairs_take(struct pair *pair)
{
    uint64_t ns = 0;

    while (pairs_counter(pair->far, "packets_received") < pairs_counter(pair->near, "packets_data")) {
        const uint64_t begun_at = llm_clock();

        steady_poll(pair->far);
        ns += llm_clock() - begun_at;
    }
    return ns;
}

enum pairs_part { PAIRS_BOTH, PAIRS_SEND, PAIRS_TAKE };

/* A pattern: messages sent together (0: a burst), and the measured part; SEND: there is no receiver. */
static const struct pairs_pattern {
    const char *name;
    uint64_t together;
    enum pairs_part part;
} pairs_patterns[] = {{"lone", 1, PAIRS_BOTH},   {"eight", PAIRS_EIGHT, PAIRS_BOTH},
                      {"stream", 0, PAIRS_BOTH}, {"send", PAIRS_BATCH, PAIRS_SEND},
                      {"take", 0, PAIRS_TAKE},   {NULL, 0, PAIRS_BOTH}};

/* Sends count messages. Returns nanoseconds. */
static uint64_t pairs_turn(struct pair *pair, const struct pairs_pattern *pattern, uint64_t count)
{
    const uint64_t fit = PAIRS_BURST_BYTES / pair->size, burst = fit < PAIRS_BURST ? fit : PAIRS_BURST,
                   together = pattern->together > 0 ? pattern->together : burst, begun_at = llm_clock();
    uint64_t taken_ns = 0;

    for (uint64_t i = 1; i <= count; i++) {
        pairs_send(pair, together == 1 ? LLM_SEND_NOW : LLM_SEND_MORE);
        if (i % together != 0 && i < count)
            continue;
        if (together > 1)
            steady_ok(llm_transmitter_flush(pair->transmitter), "llm_transmitter_flush");
        if (pattern->part == PAIRS_BOTH)
            pairs_await(pair, together > PAIRS_EIGHT);
        else if (pattern->part == PAIRS_TAKE)
            taken_ns += pairs_take(pair);
        if (i % PAIRS_NEAR_POLLS == 0)
            steady_poll(pair->near);
    }
    return pattern->part == PAIRS_TAKE ? taken_ns : llm_clock() - begun_at;
}

/* -------------------------------------------------------------------------------------------------- turns */

/* Callgrind counts during this function, which it finds by name, as it does the next one. */
static __attribute__((noinline)) uint64_t pairs_count_turn(struct pair *pair,
                                                           const struct pairs_pattern *pattern,
                                                           uint64_t count)
{
    const uint64_t ns = pairs_turn(pair, pattern, count);

    __asm__ volatile("" ::: "memory");
    return ns;
}

static __attribute__((noinline)) void pairs_end_turn(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Returns nanoseconds of a message. Due reports and counters files are written first. */
static double pairs_take_turn(struct pair *pair, const struct pairs_pattern *pattern,
                              const struct control *request)
{
    const uint64_t count = control_number(request, "messages", PAIRS_BATCH),
                   until = llm_clock() + control_ns(request, "duration", 0);
    uint64_t ns = 0, messages = 0;

    for (int i = 0; i < PAIRS_SETTLE; i++)
        pairs_poll(pair);
    do {
        ns += control_flag(request, "counted") ? pairs_count_turn(pair, pattern, count)
                                               : pairs_turn(pair, pattern, count);
        messages += count;
    } while (llm_clock() < until);
    pairs_end_turn();
    return (double)ns / (double)messages;
}

static void pairs_measure(const struct control *request)
{
    static double ns[PAIRS_MAX][PAIRS_ROUNDS_MAX];
    const struct pairs_pattern *pattern = pairs_patterns;
    const uint64_t rounds = control_number(request, "rounds", 1);
    uint64_t sent[PAIRS_MAX], received[PAIRS_MAX];

    if (rounds > PAIRS_ROUNDS_MAX)
        control_fail("rounds", "are too many");
    while (pattern->name != NULL && !control_is(request, "pattern", pattern->name))
        pattern++;
    if (pattern->name == NULL)
        control_fail("pattern", "there is none of this name");
    for (int at = 0; at < pairs_count; at++) {
        sent[at] = pairs[at].sent;
        received[at] = pairs[at].received;
    }
    /* First pair and direction alternate, so that each pair follows each of two others. */
    for (int turn = 0; turn < (int)rounds * pairs_count; turn++) {
        const int round = turn / pairs_count, i = turn % pairs_count;
        const int at = (round % pairs_count + (round % 2 == 0 ? i : pairs_count - i)) % pairs_count;

        ns[at][round] = pairs_take_turn(&pairs[at], pattern, request);
    }
    json_open();
    for (int at = 0; at < pairs_count; at++) {
        json_begin(pairs[at].name, '{');
        json_counts("sent received",
                    (uint64_t[]){pairs[at].sent - sent[at], pairs[at].received - received[at]});
        json_begin("ns", '[');
        for (uint64_t round = 0; round < rounds; round++)
            json_number(NULL, ns[at][round]);
        json_end(']');
        json_end('}');
    }
    json_close();
}

/* ----------------------------------------------------------------------------------------- other requests */

static void pairs_keep(const struct control *request)
{
    const double before = machine_resident_mib();
    struct pair *pair = pairs;
    struct llm_cache keep;

    while (strcmp(pair->name, control_text(request, "name", "")) != 0)
        pair++;
    llm_cache_init(&keep);
    keep.messages = control_number(request, "messages", 1);
    keep.bytes_max = pair->size;
    for (uint64_t i = 0; i < pair->topic_count; i++)
        steady_ok(llm_topic_cache(pair->topics[i], &keep),
                  "llm_topic_cache (more memory for it: cache_bytes)");
    for (uint64_t i = 0; i < pair->topic_count * keep.messages; i++)
        pairs_send(pair, LLM_SEND_MORE);
    json_done("memory_kib", (machine_resident_mib() - before) * 1024);
}

static void pairs_stats(const struct control *request)
{
    json_open();
    for (int at = 0; at < pairs_count; at++) {
        json_begin(pairs[at].name, '{');
        json_counts("lost packets",
                    (uint64_t[]){pairs[at].lost, pairs_counter(pairs[at].near, "packets_data")});
        steady_json_counters(pairs[at].far, request);
        json_end('}');
    }
    json_close();
}

/* ------------------------------------------------------------------------------------------------- checks */

/* The transmitter learns the result of the receiver's watch from its next report. */
static bool pairs_reported(const struct pair *pair)
{
    struct llm_congestion report;

    return llm_transmitter_congestion(pair->transmitter, &report, 1) == 1 && report.reports;
}

/* True if both ends have written a counters file since the first call, which follows the last message. */
static bool pairs_written(struct pair *pair)
{
    const uint64_t near = pair->near->stats->writes, far = pair->far->stats->writes;

    if (pair->tables == 0)
        pair->tables = near > far ? near : far;
    return near > pair->tables && far > pair->tables;
}

/* Polls all pairs until files and reports are written, or time is up. */
static void pairs_wait(void)
{
    const uint64_t naps = PAIRS_NAPS + 4 * pairs_watch / 1000000;
    bool done = false;

    for (uint64_t i = 0; i < naps && !done; i++) {
        done = true;
        (void)usleep(1000);
        for (struct pair *pair = pairs; pair < pairs + pairs_count; pair++) {
            pairs_poll(pair);
            done &= !pair->file || pairs_written(pair);
            done &= !pair->watch || pairs_reported(pair);
        }
    }
}

/* Returns the first fault of a pair: a message not received once, or a file or report missing; or NULL. */
static const char *pairs_fault(struct pair *pair)
{
    const uint64_t numbers = pair->sent * pair->first + pair->sent * (pair->sent - 1) / 2;

    if (pair->received != pair->sent || pair->lost + pair->changed > 0 || pair->numbers != numbers)
        return "a message was lost, changed, or did not come once";
    if (pair->watch && !pairs_reported(pair))
        return "the watch made no report";
    return pair->file && !pairs_written(pair) ? "no counters file was written after the last message" : NULL;
}

static void pairs_check(const struct control *request)
{
    (void)request;
    pairs_wait();
    json_open();
    for (struct pair *pair = pairs; pair < pairs + pairs_count; pair++) {
        const char *fault = pairs_fault(pair);

        if (fault != NULL)
            control_fail(pair->name, fault);
        json_begin(pair->name, '{');
        if (pair->file)
            json_counts("writes ns", (uint64_t[]){pair->near->stats->writes + pair->far->stats->writes,
                                                  pair->near->stats->write_ns + pair->far->stats->write_ns});
        json_end('}');
    }
    machine_json("machine");
    json_close();
}

static void pairs_count_instructions(const struct control *request)
{
    if (cost_count == NULL)
        control_fail("count", "this program counts no instructions");
    cost_count(&pairs[0], request);
}

static const struct control_verb pairs_verbs[] = {{"pair", pairs_open},
                                                  {"keep", pairs_keep},
                                                  {"measure", pairs_measure},
                                                  {"stats", pairs_stats},
                                                  {"check", pairs_check},
                                                  {"count", pairs_count_instructions},
                                                  {NULL, NULL}};

int main(void)
{
    struct control request;

    while (control_take(&request, CONTROL_FOREVER) > 0)
        control_serve(&request, pairs_verbs);
    for (int at = 0; at < pairs_count; at++)
        pairs_close(&pairs[at]);
    return EXIT_SUCCESS;
}
