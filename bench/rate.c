/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How exactly rates are limited, and found: a transmitter that offers more on one topic than a limit, or a receiver, lets through, and
 * on another a stream that stays under it; a receiver that measures both; a witness of the packets on the wire (bench/witness.c); and a
 * receiver of half the rate, which comes and goes as it reads from its standard input.
 */
#define _GNU_SOURCE
#include <llm/llm.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "options.h"
#include "report.h"
#include "steady.h"
#include "windows.h"

/* The first warms up; a run with limits has one more, one with the receiver of half the rate three. */
enum { RATE_WARM, RATE_BEFORE, RATE_DURING, RATE_AFTER, RATE_PHASES };

static const char *const rate_phases[RATE_PHASES] = {"warm", "before", "during", "after"};

/* The topics, in the order in which they are opened. */
enum { RATE_STREAM, RATE_BULK, RATE_TOPICS };

#define RATE_WARM_NS 300000000ull
#define RATE_BIN_NS 10000000ull

enum { RATE_BINS = 60000, RATE_POLL = 16 };

static const char *rate_role = "transmitter", *rate_channel = "", *rate_json = "";
static uint64_t rate_stream = 10000, rate_bulk = 20000, rate_stream_size = 45, rate_bulk_size = 1000, rate_duration = 2500000000;
static uint64_t rate_limit, rate_topic_limit, rate_repair_limit, rate_measured = 1, rate_receivers = 1, rate_cpu = MACHINE_NO_CPU;

/* ------------------------------------------------------------------------------------------------ transmitter */

/* A topic that is offered messages at a rate. */
struct offer {
    struct llm_topic *topic;
    uint8_t *data;
    uint64_t size;
    uint64_t distance_ns;
    uint64_t due_at;
    uint64_t sent;
    uint64_t refused;
    bool waits; /* refused messages stay due; else what was refused is not offered again */
};

struct rate {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct offer offers[RATE_TOPICS];
    uint64_t sequence;
    double rates[RATE_PHASES][RATE_TOPICS]; /* messages a second that were taken */
};

/* Returns whether something was due. */
static bool rate_offer(struct rate *rate, struct offer *offer, uint64_t now, uint32_t phase)
{
    struct steady_stamp stamp = {.due_at = offer->due_at, .sequence = rate->sequence, .round = offer == &rate->offers[RATE_BULK],
                                 .phase = phase};
    int result;

    if (now < offer->due_at)
        return false;
    memcpy(offer->data, &stamp, sizeof stamp);
    result = llm_send(offer->topic, offer->data, offer->size, 0);
    if (result == LLM_EAGAIN) {
        offer->refused++;
        offer->due_at = offer->waits ? offer->due_at : now;
        return false;
    }
    steady_ok(result, "llm_send");
    rate->sequence++;
    offer->sent++;
    offer->due_at += offer->distance_ns;
    return true;
}

static void rate_send(struct rate *rate, int phase)
{
    const uint64_t duration = phase == RATE_WARM ? RATE_WARM_NS : rate_duration, begun_at = llm_clock();
    uint64_t before[RATE_TOPICS], now, count = 0;

    steady_say(rate_phases[phase]);
    for (int i = 0; i < RATE_TOPICS; i++) {
        rate->offers[i].due_at = begun_at;
        before[i] = rate->offers[i].sent;
    }
    while ((now = llm_clock()) < begun_at + duration) {
        bool sent = false;

        for (int i = 0; i < RATE_TOPICS; i++)
            sent |= rate_offer(rate, &rate->offers[i], now, (uint32_t)phase);
        if (!sent || ++count % RATE_POLL == 0)
            steady_ok(llm_poll(rate->context), "llm_poll");
    }
    for (int i = 0; i < RATE_TOPICS; i++)
        rate->rates[phase][i] = (double)(rate->offers[i].sent - before[i]) * 1e9 / (double)(now - begun_at);
}

static void rate_open_topics(struct rate *rate)
{
    static const char *const names[RATE_TOPICS] = {"stream", "bulk"};
    const uint64_t per_s[RATE_TOPICS] = {rate_stream, rate_bulk}, sizes[RATE_TOPICS] = {rate_stream_size, rate_bulk_size};
    struct llm_rate limit;

    for (int i = 0; i < RATE_TOPICS; i++) {
        rate->offers[i] = (struct offer){.size = sizes[i], .distance_ns = 1000000000 / per_s[i], .waits = i == RATE_STREAM,
                                         .data = steady_memory(1, sizes[i])};
        steady_ok(llm_topic_open(rate->transmitter, names[i], 0, &rate->offers[i].topic), "llm_topic_open");
    }
    llm_rate_init(&limit);
    limit.bytes_per_s = rate_limit;
    limit.repair_bytes_per_s = rate_repair_limit;
    steady_ok(llm_transmitter_rate(rate->transmitter, &limit), "llm_transmitter_rate");
    llm_rate_init(&limit);
    limit.bytes_per_s = rate_topic_limit;
    steady_ok(llm_topic_rate(rate->offers[RATE_BULK].topic, &limit), "llm_topic_rate");
}

/* Packets of new data for each message, with those that are held back, and over the least number: of packets that are full of messages. */
static void rate_report_packets(const struct rate *rate, struct report_json *json)
{
    const uint64_t messages = steady_stat(rate->context, "messages_sent");
    const uint64_t packets = steady_stat(rate->context, "packets_data") + steady_stat(rate->context, "unsent_packets");
    uint64_t bytes = 0;

    for (int i = 0; i < RATE_TOPICS; i++)
        bytes += rate->offers[i].sent * rate->offers[i].size;
    report_json_number(json, "packets_per_message", (double)packets / (double)messages, 4);
    report_json_number(json, "packets_ratio_to_least", (double)(packets * llm_claim_max(rate->transmitter)) / (double)bytes, 3);
}

static void rate_report(const struct rate *rate)
{
    static const char *const counters[] = {"send_rated", "send_held", "naks_received", "packets_repaired", "repairs_held",
                                           "receivers_suspended", "receivers_lost"};
    struct report_setting setting = {.peer = "", .network = ""};
    struct report_json json;

    steady_json_open(&json, rate_json);
    machine_describe(&setting.machine);
    report_json_machine(&json, &setting);
    report_json_number(&json, "sent", (double)rate->sequence, 0);
    report_json_number(&json, "stream_refused", (double)rate->offers[RATE_STREAM].refused, 0);
    report_json_begin(&json, "bulk_msgs_per_s", '{');
    for (int i = 0; i < RATE_PHASES; i++)
        report_json_number(&json, rate_phases[i], rate->rates[i][RATE_BULK], 0);
    report_json_end(&json, '}');
    rate_report_packets(rate, &json);
    steady_json_stats(&json, rate->context, counters, sizeof counters / sizeof counters[0]);
    (void)report_json_close(&json);
}

static void rate_transmit(struct llm_context *context)
{
    static struct rate rate;
    struct llm_options options;

    rate.context = context;
    llm_options_init(&options);
    /* What waits for repairs that are limited stays in the history. */
    options.history_bytes = 268435456;
    options.history_packets = 262144;
    options.linger_ns = 20000000000;
    steady_ok(llm_transmitter_open(context, rate_channel, &options, &rate.transmitter), rate_channel);
    rate_open_topics(&rate);
    while (llm_transmitter_receivers(rate.transmitter) < rate_receivers)
        steady_ok(llm_poll(context), "llm_poll");
    for (uint64_t phase = 0; phase <= rate_measured; phase++)
        rate_send(&rate, (int)phase);
    rate_report(&rate);
    steady_ok(llm_transmitter_close(&rate.transmitter), "llm_transmitter_close");
    for (int i = 0; i < RATE_TOPICS; i++)
        free(rate.offers[i].data);
}

/* --------------------------------------------------------------------------------------------------- receiver */

struct sink {
    struct steady_track track;
    struct histogram latency[RATE_PHASES]; /* of the stream */
    struct windows bulk;
    uint64_t begun_at;                     /* the bins */
    uint32_t bins[RATE_BINS];              /* messages of the bulk in 10 ms each */
};

static void sink_bin(struct sink *sink, uint64_t now)
{
    const uint64_t bin = (now - sink->begun_at) / RATE_BIN_NS;

    if (bin < RATE_BINS)
        sink->bins[bin]++;
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct sink *sink = arg;
    const struct steady_stamp stamp = steady_track_message(&sink->track, message);
    const uint64_t now = llm_clock();

    if (sink->begun_at == 0)
        sink->begun_at = now;
    if (message->topic_id == RATE_BULK) {
        windows_add(&sink->bulk, message->received_at, message->size);
        sink_bin(sink, now);
    } else if (stamp.phase < RATE_PHASES) {
        histogram_add(&sink->latency[stamp.phase], now - stamp.due_at);
    }
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct sink *sink = arg;

    steady_track_event(&sink->track, event);
}

static void sink_report(struct sink *sink)
{
    struct report_json json;
    uint64_t last = RATE_BINS;

    steady_json_open(&json, rate_json);
    steady_json_track(&json, &sink->track);
    report_json_begin(&json, "stream_us", '{');
    for (int i = RATE_BEFORE; i < RATE_PHASES; i++) {
        struct histogram_summary summary;

        histogram_sort(&sink->latency[i]);
        summary = histogram_summarize(&sink->latency[i], 1);
        if (sink->latency[i].count > 0)
            report_json_summary(&json, rate_phases[i], &summary);
        histogram_fini(&sink->latency[i]);
    }
    report_json_end(&json, '}');
    windows_json(&json, "bulk", &sink->bulk);
    windows_fini(&sink->bulk);
    report_json_number(&json, "bins_begun_at", (double)sink->begun_at, 0);
    report_json_number(&json, "bin_ns", (double)RATE_BIN_NS, 0);
    report_json_begin(&json, "bins", '[');
    while (last > 0 && sink->bins[last - 1] == 0)
        last--;
    for (uint64_t i = 0; i < last; i++)
        report_json_number(&json, NULL, (double)sink->bins[i], 0);
    report_json_end(&json, ']');
    (void)report_json_close(&json);
}

static void rate_receive(struct llm_context *context)
{
    const uint64_t seconds = (rate_measured * rate_duration + RATE_WARM_NS) / 1000000000 + 1;
    static struct sink sink;
    struct llm_handlers handlers;
    struct llm_receiver *receiver;

    for (int i = 0; i < RATE_PHASES; i++)
        if (histogram_init(&sink.latency[i], rate_stream * seconds) != 0)
            steady_ok(LLM_ENOMEM, "histogram");
    windows_init(&sink.bulk, rate_bulk * seconds);
    llm_handlers_init(&handlers);
    handlers.arg = &sink;
    handlers.message = on_message;
    handlers.event = on_event;
    steady_ok(llm_receiver_open(context, rate_channel, NULL, &handlers, &receiver), rate_channel);
    while (!sink.track.ended)
        steady_ok(llm_wait(context, 10000000), "llm_wait");
    sink_report(&sink);
}

/* --------------------------------------------------------------------------------------- receiver of half the rate */

struct half {
    struct steady_track track;
    struct llm_receiver *receiver;
    uint64_t opened_at;
    uint64_t closed_at;
    uint64_t free_at; /* when the next message may be taken */
    struct steady_ear ear;
};

/* As one whose work takes twice the time that there is. */
static void on_half_message(void *arg, const struct llm_message *message)
{
    const uint64_t now = llm_clock();
    struct half *half = arg;

    (void)steady_track_message(&half->track, message);
    if (message->topic_id != RATE_BULK)
        return;
    half->free_at = (half->free_at > now ? half->free_at : now) + 2000000000 / rate_bulk;
    if (half->free_at > now + 1000000)
        (void)usleep((useconds_t)((half->free_at - now) / 1000));
}

static void on_half_event(void *arg, const struct llm_event *event)
{
    struct half *half = arg;

    steady_track_event(&half->track, event);
}

static void half_come(struct half *half, struct llm_context *context)
{
    struct llm_handlers handlers;

    llm_handlers_init(&handlers);
    handlers.arg = half;
    handlers.message = on_half_message;
    handlers.event = on_half_event;
    half->opened_at = llm_clock();
    steady_ok(llm_receiver_open(context, rate_channel, NULL, &handlers, &half->receiver), rate_channel);
}

static void half_go(struct half *half)
{
    half->closed_at = llm_clock();
    steady_ok(llm_receiver_close(&half->receiver), "llm_receiver_close");
}

static void half_hear(struct half *half, struct llm_context *context)
{
    const char *phase = steady_hear(&half->ear);

    if (phase != NULL && strcmp(phase, rate_phases[RATE_DURING]) == 0)
        half_come(half, context);
    if (phase != NULL && strcmp(phase, rate_phases[RATE_AFTER]) == 0 && half->receiver != NULL)
        half_go(half);
}

static void rate_half(struct llm_context *context)
{
    struct half half = {.opened_at = 0};
    struct report_json json;

    steady_ear_open();
    while (!half.ear.over) {
        half_hear(&half, context);
        if (half.receiver == NULL)
            (void)usleep(1000);
        else
            steady_ok(llm_wait(context, 1000000), "llm_wait");
    }
    steady_json_open(&json, rate_json);
    steady_json_track(&json, &half.track);
    report_json_number(&json, "opened_at", (double)half.opened_at, 0);
    report_json_number(&json, "closed_at", (double)half.closed_at, 0);
    (void)report_json_close(&json);
}

/* ------------------------------------------------------------------------------------------------------- main */

int main(int argc, char **argv)
{
    static const struct option_spec specs[] = {
        {"role", OPTION_CHOICE, &rate_role, "ROLE", "transmitter, receiver or half", 0, 0, "transmitter receiver half"},
        {"channel", OPTION_TEXT, &rate_channel, "CHANNEL", "the channel, with its options", 0, 0, NULL},
        {"limit", OPTION_NUMBER, &rate_limit, "BYTES", "a second, of the transmitter; 0: none", 0, UINT64_C(1) << 36, NULL},
        {"topic-limit", OPTION_NUMBER, &rate_topic_limit, "BYTES", "a second, of the bulk; 0: none", 0, UINT64_C(1) << 36, NULL},
        {"repair-limit", OPTION_NUMBER, &rate_repair_limit, "BYTES", "a second, of repairs; 0: none", 0, UINT64_C(1) << 36, NULL},
        {"stream", OPTION_NUMBER, &rate_stream, "N", "messages a second of the stream", 1, 1000000, NULL},
        {"stream-size", OPTION_NUMBER, &rate_stream_size, "N", "bytes of each", STEADY_SIZE_MIN, 65507, NULL},
        {"bulk", OPTION_NUMBER, &rate_bulk, "N", "messages a second that are offered as bulk", 1, 10000000, NULL},
        {"bulk-size", OPTION_NUMBER, &rate_bulk_size, "N", "bytes of each", STEADY_SIZE_MIN, 65507, NULL},
        {"phases", OPTION_NUMBER, &rate_measured, "N", "that are measured: 1, or 3 with a receiver of half the rate in the second", 1,
         RATE_PHASES - 1, NULL},
        {"receivers", OPTION_NUMBER, &rate_receivers, "N", "to wait for", 1, 1000, NULL},
        {"duration", OPTION_SECONDS, &rate_duration, "SECONDS", "of each phase", 100000000, 100000000000, NULL},
        {"cpu", OPTION_NUMBER, &rate_cpu, "CPU", "the CPU to run on", 0, MACHINE_NO_CPU, NULL},
        {"json", OPTION_TEXT, &rate_json, "FILE", "where the figures go", 0, 0, NULL},
    };
    static const struct option_program program = {
        "rate", "How exactly rates are limited, and found; run by bench/run rate.",
        "  rate --role receiver --channel udp://239.192.1.1:5001 --json receiver.json\n", specs, sizeof specs / sizeof specs[0], NULL};
    struct llm_context *context;

    options_parse(&program, argc, argv);
    context = steady_context("rate", rate_cpu, strcmp(rate_role, "half") == 0 ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN);
    if (strcmp(rate_role, "transmitter") == 0)
        rate_transmit(context);
    else if (strcmp(rate_role, "receiver") == 0)
        rate_receive(context);
    else
        rate_half(context);
    steady_ok(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}
