/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to send one stream to a list of hosts instead of to a group: a transmitter, and receivers in one process, each
 * in a context of its own and, for a list, at a port of its own. Measured are the hop, what the transmitter spends on a message
 * by itself and on one of many, and the rate that flow control finds.
 */
#include <llm/llm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "options.h"
#include "report.h"
#include "steady.h"

enum { DESTINATIONS_MAX = 32, DESTINATIONS_BURST = 512, DESTINATIONS_CHANNEL = 2048 };

#define DESTINATIONS_CALM_NS 50000000ull
#define DESTINATIONS_BURST_NS 2000000ull /* from one burst to the next */

/* The round of a message. */
enum { DESTINATIONS_WARM, DESTINATIONS_MEASURED };

static const char *destinations_role = "transmitter", *destinations_address = "239.192.1.1", *destinations_options = "";
static const char *destinations_json = "";
static uint64_t destinations_port = 5001, destinations_receivers = 1, destinations_rate = 10000, destinations_size = 45;
static uint64_t destinations_duration = 500000000, destinations_cpu = MACHINE_NO_CPU;
static bool destinations_apart;

static uint64_t destinations_samples(void)
{
    return destinations_rate * destinations_duration / 1000000000 + 1;
}

/* The channel of receiver i, or with a list of those behind it, too. */
static const char *destinations_channel(uint64_t i, bool list)
{
    static char channel[DESTINATIONS_CHANNEL];
    const unsigned port = (unsigned)(destinations_port + (destinations_apart ? i : 0));
    int size = snprintf(channel, sizeof channel, "udp://%s:%u?%s", destinations_address, port, destinations_options);

    for (uint64_t other = 1; list && other < destinations_receivers && (size_t)size < sizeof channel; other++)
        size += snprintf(channel + size, sizeof channel - (size_t)size, "%s%s:%u", other == 1 ? "&destinations=" : ",",
                         destinations_address, port + (unsigned)other);
    if ((size_t)size >= sizeof channel)
        steady_ok(LLM_ELIMIT, "--options: a channel that long");
    return channel;
}

/* ------------------------------------------------------------------------------------------------ transmitter */

struct spent {
    struct histogram lone;   /* ns in llm_send() of a message by itself */
    struct histogram packed; /* ns of a burst, until the last packet of it was given to the kernel */
    double rate;
};

static void destinations_poll_until(struct llm_context *context, uint64_t until)
{
    do
        steady_ok(llm_poll(context), "llm_poll");
    while (llm_clock() < until);
}

static void destinations_send_one(struct steady_sender *sender, uint64_t due_at, unsigned round, unsigned flags)
{
    const struct steady_stamp stamp = {.due_at = due_at, .sequence = sender->sequence, .round = round};
    int result;

    memcpy(sender->data, &stamp, sizeof stamp);
    while ((result = llm_send(sender->topics[0], sender->data, sender->size, flags)) == LLM_EAGAIN)
        steady_ok(llm_poll(sender->context), "llm_poll");
    steady_ok(result, "llm_send");
    sender->sequence++;
}

/* Messages one at a time, each of which leaves before llm_send() returns. */
static void destinations_send_lone(struct steady_sender *sender, struct histogram *spent)
{
    const uint64_t count = destinations_samples(), begun_at = llm_clock();

    for (uint64_t i = 0; i < count; i++) {
        const uint64_t due_at = begun_at + i * 1000000000 / destinations_rate;
        uint64_t sent_at;

        destinations_poll_until(sender->context, due_at);
        sent_at = llm_clock();
        destinations_send_one(sender, due_at, DESTINATIONS_MEASURED, 0);
        histogram_add(spent, llm_clock() - sent_at);
    }
}

/* Bursts that fill packets, with pauses in which the receivers take them: neither waits for the other. */
static void destinations_send_bursts(struct steady_sender *sender, struct llm_transmitter *transmitter, struct histogram *spent)
{
    const uint64_t begun_at = llm_clock();

    for (uint64_t at = begun_at; at < begun_at + destinations_duration; at += DESTINATIONS_BURST_NS) {
        uint64_t sent_at;

        destinations_poll_until(sender->context, at);
        sent_at = llm_clock();
        for (int i = 0; i < DESTINATIONS_BURST; i++)
            destinations_send_one(sender, 0, DESTINATIONS_MEASURED, LLM_SEND_MORE);
        if (llm_flush(transmitter) != LLM_EAGAIN)
            histogram_add(spent, llm_clock() - sent_at);
    }
}

static double destinations_median(struct histogram *histogram)
{
    histogram_sort(histogram);
    return histogram_summarize(histogram, 1).median;
}

static void destinations_report(const struct steady_sender *sender, struct spent *spent)
{
    static const char *const counters[] = {"packets_sent", "send_held", "naks_received", "packets_repaired", "status_received",
                                           "udp_send_waits"};
    struct report_setting setting = {.peer = "", .network = ""};
    struct report_json json;

    steady_json_open(&json, destinations_json);
    machine_describe(&setting.machine);
    report_json_machine(&json, &setting);
    report_json_number(&json, "sent", (double)sender->sequence, 0);
    report_json_number(&json, "send_us", destinations_median(&spent->lone), 3);
    report_json_number(&json, "packed_ns", destinations_median(&spent->packed) * 1e3 / DESTINATIONS_BURST, 2);
    report_json_number(&json, "msgs_per_s", spent->rate, 0);
    steady_json_stats(&json, sender->context, counters, sizeof counters / sizeof counters[0]);
    (void)report_json_close(&json);
    histogram_fini(&spent->lone);
    histogram_fini(&spent->packed);
}

static void destinations_measure(struct steady_sender *sender, struct llm_transmitter *transmitter, struct spent *spent)
{
    sender->rate = destinations_rate;
    (void)steady_send(sender, DESTINATIONS_CALM_NS, DESTINATIONS_WARM, 0);
    destinations_send_lone(sender, &spent->lone);
    destinations_poll_until(sender->context, llm_clock() + DESTINATIONS_CALM_NS);
    destinations_send_bursts(sender, transmitter, &spent->packed);
    destinations_poll_until(sender->context, llm_clock() + DESTINATIONS_CALM_NS);
    sender->rate = 0;
    (void)steady_send(sender, DESTINATIONS_CALM_NS, DESTINATIONS_WARM, 0);
    spent->rate = steady_send(sender, destinations_duration, DESTINATIONS_MEASURED, 0);
}

static void destinations_transmit(void)
{
    struct llm_context *context = steady_context("destinations", destinations_cpu, LLM_WAIT_SPIN);
    const char *channel = destinations_channel(0, destinations_apart);
    struct llm_transmitter *transmitter;
    struct steady_sender sender;
    struct llm_topic *topic;
    struct spent spent;

    if (histogram_init(&spent.lone, destinations_samples()) != 0 ||
        histogram_init(&spent.packed, destinations_duration / DESTINATIONS_BURST_NS + 1) != 0)
        steady_ok(LLM_ENOMEM, "histogram");
    steady_ok(llm_transmitter_open(context, channel, NULL, &transmitter), channel);
    steady_ok(llm_topic_open(transmitter, "destinations", 0, &topic), "llm_topic_open");
    while (llm_transmitter_receivers(transmitter) < destinations_receivers)
        steady_ok(llm_poll(context), "llm_poll");
    sender = (struct steady_sender){.context = context, .topics = &topic, .topic_count = 1, .size = destinations_size};
    destinations_measure(&sender, transmitter, &spent);
    destinations_report(&sender, &spent);
    steady_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    free(sender.data);
    steady_ok(llm_context_close(&context), "llm_context_close");
}

/* -------------------------------------------------------------------------------------------------- receivers */

struct place {
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct steady_track track;
    struct histogram hops;
};

static void on_message(void *arg, const struct llm_message *message)
{
    struct place *place = arg;
    const struct steady_stamp stamp = steady_track_message(&place->track, message);

    if (stamp.due_at != 0 && stamp.round == DESTINATIONS_MEASURED)
        histogram_add(&place->hops, llm_clock() - stamp.due_at);
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct place *place = arg;

    steady_track_event(&place->track, event);
}

static void destinations_open(struct place *place, uint64_t i)
{
    const char *channel = destinations_channel(i, false);
    struct llm_handlers handlers;

    if (histogram_init(&place->hops, destinations_samples()) != 0)
        steady_ok(LLM_ENOMEM, "histogram");
    llm_handlers_init(&handlers);
    handlers.arg = place;
    handlers.message = on_message;
    handlers.event = on_event;
    place->context = steady_context("destinations", destinations_cpu, LLM_WAIT_SPIN);
    steady_ok(llm_receiver_open(place->context, channel, NULL, &handlers, &place->receiver), channel);
}

/* Polls all of them in turn until the session has ended for each. */
static void destinations_poll_all(struct place *places)
{
    uint64_t ended;

    do {
        ended = 0;
        for (uint64_t i = 0; i < destinations_receivers; i++) {
            steady_ok(llm_poll(places[i].context), "llm_poll");
            ended += places[i].track.ended;
        }
    } while (ended < destinations_receivers);
}

/* The hops of all together, and the median of the receiver that has the greatest. */
static void destinations_report_hops(struct report_json *json, struct place *places)
{
    struct histogram_summary summary;
    struct histogram all;
    double last = 0;

    if (histogram_init(&all, destinations_receivers * destinations_samples()) != 0)
        steady_ok(LLM_ENOMEM, "histogram");
    for (uint64_t i = 0; i < destinations_receivers; i++) {
        const double median = destinations_median(&places[i].hops);

        last = median > last ? median : last;
        histogram_add_all(&all, &places[i].hops);
    }
    histogram_sort(&all);
    summary = histogram_summarize(&all, 1);
    report_json_summary(json, "hop_us", &summary);
    report_json_number(json, "last_us", last, 3);
    histogram_fini(&all);
}

static void destinations_report_receivers(struct place *places)
{
    struct report_json json;

    steady_json_open(&json, destinations_json);
    destinations_report_hops(&json, places);
    report_json_begin(&json, "receivers", '[');
    for (uint64_t i = 0; i < destinations_receivers; i++) {
        report_json_begin(&json, NULL, '{');
        steady_json_track(&json, &places[i].track);
        report_json_end(&json, '}');
    }
    report_json_end(&json, ']');
    (void)report_json_close(&json);
}

static void destinations_receive(void)
{
    static struct place places[DESTINATIONS_MAX];

    for (uint64_t i = 0; i < destinations_receivers; i++)
        destinations_open(&places[i], i);
    destinations_poll_all(places);
    destinations_report_receivers(places);
    for (uint64_t i = 0; i < destinations_receivers; i++) {
        histogram_fini(&places[i].hops);
        steady_ok(llm_context_close(&places[i].context), "llm_context_close");
    }
}

/* ------------------------------------------------------------------------------------------------------- main */

int main(int argc, char **argv)
{
    static const struct option_spec specs[] = {
        {"role", OPTION_CHOICE, &destinations_role, "ROLE", "transmitter or receivers", 0, 0, "transmitter receivers"},
        {"address", OPTION_TEXT, &destinations_address, "ADDRESS", "of the group, or of the receivers' host", 0, 0, NULL},
        {"port", OPTION_NUMBER, &destinations_port, "N", "of the group, or of the first receiver", 1, 65000, NULL},
        {"apart", OPTION_FLAG, &destinations_apart, NULL, "each receiver has a port of its own: a list", 0, 0, NULL},
        {"options", OPTION_TEXT, &destinations_options, "KEY=VALUE&..", "of the channels", 0, 0, NULL},
        {"receivers", OPTION_NUMBER, &destinations_receivers, "N", "that there are", 1, DESTINATIONS_MAX, NULL},
        {"rate", OPTION_NUMBER, &destinations_rate, "N", "messages a second where the hop is measured", 1, 1000000, NULL},
        {"size", OPTION_NUMBER, &destinations_size, "N", "bytes of a message", STEADY_SIZE_MIN, 65507, NULL},
        {"duration", OPTION_SECONDS, &destinations_duration, "SECONDS", "of each of the three measurements", 10000000,
         3600000000000, NULL},
        {"cpu", OPTION_NUMBER, &destinations_cpu, "CPU", "the CPU to run on", 0, MACHINE_NO_CPU, NULL},
        {"json", OPTION_TEXT, &destinations_json, "FILE", "where the figures go", 0, 0, NULL},
    };
    static const struct option_program program = {
        "destinations", "What a list of hosts costs instead of a group; run by bench/run destinations.",
        "  destinations --role receivers --address 10.0.0.2 --port 5011 --apart --receivers 4 --json receivers.json\n",
        specs, sizeof specs / sizeof specs[0], NULL};

    options_parse(&program, argc, argv);
    if (strcmp(destinations_role, "receivers") == 0)
        destinations_receive();
    else
        destinations_transmit();
    return EXIT_SUCCESS;
}
