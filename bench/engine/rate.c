/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How exactly rates are limited, and found: a transmitter that offers more on one topic than a limit, or a receiver, lets through, and
 * on another a stream that stays under it; a receiver that measures both; a witness of the packets on the wire (bench/witness.c); and a
 * receiver of half the rate, which comes and goes as it hears the phases. Of all: channel= stream= bulk= bulk_size= phases= duration=;
 * of the transmitter limit= topic_limit= repair_limit=, bytes a second, and receivers=, to wait for.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llm/llm.h>

#include "machine.h"
#include "roles.h"
#include "steady.h"
#include "windows.h"

/* The first warms up; a run with limits has one more, one with the receiver of half the rate three. */
enum { RATE_WARM, RATE_BEFORE, RATE_DURING, RATE_AFTER, RATE_PHASES };

static const char *const rate_phases[RATE_PHASES] = {"warm", "before", "during", "after"};

/* The topics, in the order in which they are opened. */
enum { RATE_STREAM, RATE_BULK, RATE_TOPICS };

#define RATE_WARM_NS 300000000ull
#define RATE_BIN_NS 10000000ull

enum { RATE_BINS = 60000, RATE_POLL = 16, RATE_STREAM_SIZE = 45 };

static const char *rate_channel;
static uint64_t rate_stream, rate_bulk, rate_bulk_size, rate_duration, rate_measured;

static void rate_options(const struct control *control)
{
    rate_channel = control_text(control, "channel", "");
    rate_stream = control_number(control, "stream", 10000);
    rate_bulk = control_number(control, "bulk", 20000);
    rate_bulk_size = control_number(control, "bulk_size", 1000);
    rate_duration = control_ns(control, "duration", 2500000000);
    rate_measured = control_number(control, "phases", 1);
}

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

static void rate_open_topics(const struct control *control, struct rate *rate)
{
    static const char *const names[RATE_TOPICS] = {"stream", "bulk"};
    const uint64_t per_s[RATE_TOPICS] = {rate_stream, rate_bulk}, sizes[RATE_TOPICS] = {RATE_STREAM_SIZE, rate_bulk_size};
    struct llm_rate limit;

    for (int i = 0; i < RATE_TOPICS; i++) {
        rate->offers[i] = (struct offer){.size = sizes[i], .distance_ns = 1000000000 / per_s[i], .waits = i == RATE_STREAM,
                                         .data = steady_memory(1, sizes[i])};
        steady_ok(llm_topic_open(rate->transmitter, names[i], 0, &rate->offers[i].topic), "llm_topic_open");
    }
    llm_rate_init(&limit);
    limit.bytes_per_s = control_number(control, "limit", 0);
    limit.repair_bytes_per_s = control_number(control, "repair_limit", 0);
    steady_ok(llm_transmitter_limit_rate(rate->transmitter, &limit), "llm_transmitter_limit_rate");
    llm_rate_init(&limit);
    limit.bytes_per_s = control_number(control, "topic_limit", 0);
    steady_ok(llm_topic_limit_rate(rate->offers[RATE_BULK].topic, &limit), "llm_topic_limit_rate");
}

/* Packets of new data for each message, with those that are held back, and over the least number: of packets that are full of messages. */
static void rate_report_packets(const struct rate *rate)
{
    const uint64_t messages = steady_stat(rate->context, "messages_sent");
    const uint64_t packets = steady_stat(rate->context, "packets_data") + steady_stat(rate->context, "unsent_packets");
    uint64_t bytes = 0;

    for (int i = 0; i < RATE_TOPICS; i++)
        bytes += rate->offers[i].sent * rate->offers[i].size;
    json_number("packets_per_message", (double)packets / (double)messages);
    json_number("packets_ratio_to_least", (double)(packets * llm_transmitter_claim_max(rate->transmitter)) / (double)bytes);
}

static void rate_report(const struct rate *rate)
{
    static const char *const counters[] = {"send_blocked_rate", "send_blocked_flow", "naks_received", "packets_repaired", "repairs_delayed",
                                           "receivers_suspended", "receivers_lost"};

    json_open();
    machine_json("machine");
    json_number("sent", (double)rate->sequence);
    json_number("stream_refused", (double)rate->offers[RATE_STREAM].refused);
    json_begin("bulk_msgs_per_s", '{');
    for (int i = 0; i < RATE_PHASES; i++)
        json_number(rate_phases[i], rate->rates[i][RATE_BULK]);
    json_end('}');
    rate_report_packets(rate);
    steady_json_stats(rate->context, counters, sizeof counters / sizeof counters[0]);
    json_close();
}

int rate_transmit(const struct control *control)
{
    struct llm_context *context = steady_context(control, LLM_WAIT_SPIN);
    static struct rate rate;
    struct llm_options options;

    rate_options(control);
    rate.context = context;
    llm_options_init(&options);
    /* Packets that wait for limited repairs stay in the history. */
    options.history_bytes = 268435456;
    options.history_packets = 262144;
    options.linger_ns = 20000000000;
    steady_ok(llm_transmitter_open(context, rate_channel, &options, NULL, &rate.transmitter), rate_channel);
    rate_open_topics(control, &rate);
    steady_await(context, rate.transmitter, control_number(control, "receivers", 1));
    for (uint64_t phase = 0; phase <= rate_measured; phase++)
        rate_send(&rate, (int)phase);
    rate_report(&rate);
    steady_ok(llm_transmitter_close(&rate.transmitter), "llm_transmitter_close");
    for (int i = 0; i < RATE_TOPICS; i++)
        free(rate.offers[i].data);
    return steady_ok(llm_context_close(&context), "llm_context_close");
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

static void sink_report(struct sink *sink)
{
    uint64_t last = RATE_BINS;

    json_open();
    steady_json_track(&sink->track);
    json_begin("stream", '{');
    for (int i = RATE_BEFORE; i < RATE_PHASES; i++) {
        json_histogram(rate_phases[i], &sink->latency[i]);
        histogram_fini(&sink->latency[i]);
    }
    json_end('}');
    windows_json("bulk", &sink->bulk);
    windows_fini(&sink->bulk);
    json_number("bins_begun_at", (double)sink->begun_at);
    json_number("bin_ns", (double)RATE_BIN_NS);
    json_begin("bins", '[');
    while (last > 0 && sink->bins[last - 1] == 0)
        last--;
    for (uint64_t i = 0; i < last; i++)
        json_number(NULL, (double)sink->bins[i]);
    json_end(']');
    json_close();
}

int rate_receive(const struct control *control)
{
    struct llm_context *context = steady_context(control, LLM_WAIT_SPIN);
    static struct sink sink;

    rate_options(control);
    for (int i = 0; i < RATE_PHASES; i++)
        histogram_init(&sink.latency[i], 0);
    windows_init(&sink.bulk, rate_bulk * ((rate_measured * rate_duration + RATE_WARM_NS) / 1000000000 + 1));
    (void)steady_receiver(context, rate_channel, NULL, on_message, steady_place_event, &sink);
    while (!sink.track.ended)
        steady_ok(llm_wait(context, 10000000), "llm_wait");
    sink_report(&sink);
    return steady_ok(llm_context_close(&context), "llm_context_close");
}

/* --------------------------------------------------------------------------------------- receiver of half the rate */

struct half {
    struct steady_track track;
    struct llm_receiver *receiver;
    uint64_t opened_at;
    uint64_t closed_at;
    uint64_t free_at; /* when the next message may be taken */
    bool over;
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

static void half_come(struct half *half, struct llm_context *context)
{
    half->opened_at = llm_clock();
    half->receiver = steady_receiver(context, rate_channel, NULL, on_half_message, steady_place_event, half);
}

static void half_go(struct half *half)
{
    half->closed_at = llm_clock();
    steady_ok(llm_receiver_close(&half->receiver), "llm_receiver_close");
}

static void half_hear(struct half *half, struct llm_context *context)
{
    const char *phase = steady_hear(&half->over);

    if (phase != NULL && strcmp(phase, rate_phases[RATE_DURING]) == 0)
        half_come(half, context);
    if (phase != NULL && strcmp(phase, rate_phases[RATE_AFTER]) == 0 && half->receiver != NULL)
        half_go(half);
}

int rate_half(const struct control *control)
{
    struct llm_context *context = steady_context(control, LLM_WAIT_BLOCK);
    struct half half = {.opened_at = 0};

    rate_options(control);
    while (!half.over) {
        half_hear(&half, context);
        if (half.receiver == NULL)
            (void)usleep(1000);
        else
            steady_ok(llm_wait(context, 1000000), "llm_wait");
    }
    json_open();
    steady_json_track(&half.track);
    json_number("opened_at", (double)half.opened_at);
    json_number("closed_at", (double)half.closed_at);
    json_close();
    return steady_ok(llm_context_close(&context), "llm_context_close");
}
