/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to know that messages arrived: a transmitter that sends on a topic of one level of assurance, at steady rates and
 * flat out, and receivers in one process, each in a context of its own. Measured is the hop, and at the transmitter the time from when a
 * message was due until it was told that it is acknowledged.
 */
#include <llm/llm.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "options.h"
#include "report.h"
#include "steady.h"

enum { ASSURED_RECEIVERS_MAX = 64, ASSURED_RING = 1 << 20 };

#define ASSURED_WARM_NS 50000000ull
#define ASSURED_PATIENCE_NS 10000000000ull

/* The round of a message. */
enum { ASSURED_WARM, ASSURED_MEASURED };

static const char *assured_role = "transmitter", *assured_channel = "", *assured_json = "", *assured_level = "reliable";
static uint64_t assured_size = 45, assured_duration = 500000000, assured_receivers = 1, assured_by = 1, assured_cpu = MACHINE_NO_CPU;
static struct option_list assured_rates = {.values = {10000, 100000, 0}, .count = 3};
static bool assured_acknowledges;

static uint64_t assured_samples(int rate)
{
    return assured_rates.values[rate] * assured_duration / 1000000000 + 1;
}

static void assured_json_latency(struct report_json *json, const char *name, struct histogram *histogram)
{
    struct histogram_summary summary;

    histogram_sort(histogram);
    summary = histogram_summarize(histogram, 1);
    if (histogram->count > 0)
        report_json_summary(json, name, &summary);
    else
        report_json_text(json, name, NULL);
    histogram_fini(histogram);
}

/* ------------------------------------------------------------------------------------------------ transmitter */

struct assured {
    struct steady_sender sender;
    struct histogram told[OPTION_LIST_MAX]; /* after so long that a message is acknowledged */
    double rates[OPTION_LIST_MAX];          /* reached */
    uint64_t waiting_max[OPTION_LIST_MAX];  /* messages */
    uint64_t acknowledged;                  /* messages before this one */
    int rate;                               /* that is being measured; -1: none */
};

static void on_transmitter_event(void *arg, const struct llm_event *event)
{
    struct assured *assured = arg;
    const uint64_t now = llm_clock();

    if (event->kind != LLM_EVENT_ACKNOWLEDGED)
        return;
    for (uint64_t number = event->first; assured->rate >= 0 && assured->sender.due_at != NULL && number <= event->last; number++)
        histogram_add(&assured->told[assured->rate], now - assured->sender.due_at[number % ASSURED_RING]);
    if (assured->rate >= 0 && assured->sender.sequence - assured->acknowledged > assured->waiting_max[assured->rate])
        assured->waiting_max[assured->rate] = assured->sender.sequence - assured->acknowledged;
    assured->acknowledged = event->last + 1;
}

static bool assured_is(const char *level)
{
    return strcmp(assured_level, level) == 0;
}

static void assured_open_topic(struct llm_transmitter *transmitter, struct llm_topic **topic)
{
    const unsigned flags = assured_is("unreliable") ? LLM_TOPIC_UNRELIABLE : assured_is("no_history") ? LLM_TOPIC_NO_HISTORY : 0;
    struct llm_assurance assurance;

    steady_ok(llm_topic_open(transmitter, "assured", flags, topic), "llm_topic_open");
    if (!assured_is("assured"))
        return;
    llm_assurance_init(&assurance);
    assurance.receivers = (uint32_t)assured_by;
    steady_ok(llm_topic_assure(*topic, &assurance), "llm_topic_assure");
}

/* Until every message sent so far is acknowledged; where none is, for as long as it takes the receivers to be idle again. */
static void assured_drain(struct assured *assured)
{
    const uint64_t begun_at = llm_clock();
    const bool told = assured_is("assured");

    while (told ? assured->acknowledged < assured->sender.sequence : llm_clock() < begun_at + ASSURED_WARM_NS) {
        steady_ok(llm_poll(assured->sender.context), "llm_poll");
        if (llm_clock() > begun_at + ASSURED_PATIENCE_NS)
            steady_ok(LLM_EAGAIN, "messages that are never acknowledged");
    }
}

static void assured_measure(struct assured *assured, int rate, uint64_t *due_at)
{
    assured->sender.rate = assured_rates.values[rate];
    assured->rate = -1;
    (void)steady_send(&assured->sender, ASSURED_WARM_NS, ASSURED_WARM, (uint32_t)rate);
    assured_drain(assured);
    assured->rate = rate;
    /* Flat out nothing is due, and the clock would cost more than what is measured. */
    assured->sender.due_at = assured->sender.rate > 0 ? due_at : NULL;
    assured->rates[rate] = steady_send(&assured->sender, assured_duration, ASSURED_MEASURED, (uint32_t)rate);
    assured_drain(assured);
    assured->sender.due_at = NULL;
}

static void assured_report(struct assured *assured)
{
    static const char *const counters[] = {"send_held", "naks_received", "packets_repaired", "status_received"};
    struct report_setting setting = {.peer = "", .network = ""};
    struct report_json json;

    steady_json_open(&json, assured_json);
    machine_describe(&setting.machine);
    report_json_machine(&json, &setting);
    report_json_number(&json, "sent", (double)assured->sender.sequence, 0);
    report_json_begin(&json, "rates", '[');
    for (int i = 0; i < assured_rates.count; i++) {
        report_json_begin(&json, NULL, '{');
        report_json_number(&json, "msgs_per_s", assured->rates[i], 0);
        assured_json_latency(&json, "acknowledged_us", &assured->told[i]);
        report_json_number(&json, "unacknowledged_max", assured_is("assured") ? (double)assured->waiting_max[i] : (double)NAN, 0);
        report_json_end(&json, '}');
    }
    report_json_end(&json, ']');
    steady_json_stats(&json, assured->sender.context, counters, sizeof counters / sizeof counters[0]);
    (void)report_json_close(&json);
}

static void assured_transmit(struct llm_context *context)
{
    static struct assured assured;
    struct llm_transmitter_handlers handlers;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    uint64_t *due_at = steady_memory(ASSURED_RING, sizeof *due_at);

    for (int i = 0; i < assured_rates.count; i++)
        if (histogram_init(&assured.told[i], assured_samples(i)) != 0)
            steady_ok(LLM_ENOMEM, "histogram");
    steady_ok(llm_transmitter_open(context, assured_channel, NULL, &transmitter), assured_channel);
    llm_transmitter_handlers_init(&handlers);
    handlers.arg = &assured;
    handlers.event = on_transmitter_event;
    steady_ok(llm_transmitter_handle(transmitter, &handlers), "llm_transmitter_handle");
    assured_open_topic(transmitter, &topic);
    while (llm_transmitter_receivers(transmitter) < assured_receivers)
        steady_ok(llm_poll(context), "llm_poll");
    assured.sender = (struct steady_sender){.context = context, .topics = &topic, .topic_count = 1, .size = assured_size,
                                            .due_count = ASSURED_RING};
    for (int i = 0; i < assured_rates.count; i++)
        assured_measure(&assured, i, due_at);
    assured_report(&assured);
    steady_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    free(assured.sender.data);
    free(due_at);
}

/* -------------------------------------------------------------------------------------------------- receivers */

struct place {
    struct llm_context *context;
    struct llm_receiver *receiver;
    struct steady_track track;
};

static struct histogram assured_hops[OPTION_LIST_MAX]; /* of all receivers */

static void on_message(void *arg, const struct llm_message *message)
{
    struct place *place = arg;
    const struct steady_stamp stamp = steady_track_message(&place->track, message);

    if (stamp.due_at != 0 && stamp.round == ASSURED_MEASURED && stamp.phase < OPTION_LIST_MAX)
        histogram_add(&assured_hops[stamp.phase], llm_clock() - stamp.due_at);
    if (assured_acknowledges)
        steady_ok(llm_acknowledge(place->receiver, message->session, message->number), "llm_acknowledge");
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct place *place = arg;

    steady_track_event(&place->track, event);
}

/* Polls all of them in turn until the session has ended for each. */
static void assured_poll_all(struct place *places)
{
    uint64_t ended;

    do {
        ended = 0;
        for (uint64_t i = 0; i < assured_receivers; i++) {
            steady_ok(llm_poll(places[i].context), "llm_poll");
            ended += places[i].track.ended;
        }
    } while (ended < assured_receivers);
}

static void assured_report_receivers(const struct place *places)
{
    struct report_json json;

    steady_json_open(&json, assured_json);
    report_json_begin(&json, "receivers", '[');
    for (uint64_t i = 0; i < assured_receivers; i++) {
        report_json_begin(&json, NULL, '{');
        steady_json_track(&json, &places[i].track);
        report_json_end(&json, '}');
    }
    report_json_end(&json, ']');
    report_json_begin(&json, "rates", '[');
    for (int i = 0; i < assured_rates.count; i++) {
        report_json_begin(&json, NULL, '{');
        assured_json_latency(&json, "hop_us", &assured_hops[i]);
        report_json_end(&json, '}');
    }
    report_json_end(&json, ']');
    (void)report_json_close(&json);
}

static void assured_receive(void)
{
    static struct place places[ASSURED_RECEIVERS_MAX];
    struct llm_handlers handlers;

    for (int i = 0; i < assured_rates.count; i++)
        if (histogram_init(&assured_hops[i], assured_receivers * assured_samples(i)) != 0)
            steady_ok(LLM_ENOMEM, "histogram");
    llm_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    for (uint64_t i = 0; i < assured_receivers; i++) {
        handlers.arg = &places[i];
        places[i].context = steady_context("assured", assured_cpu, LLM_WAIT_SPIN);
        steady_ok(llm_receiver_open(places[i].context, assured_channel, NULL, &handlers, &places[i].receiver), assured_channel);
    }
    assured_poll_all(places);
    assured_report_receivers(places);
    for (uint64_t i = 0; i < assured_receivers; i++)
        steady_ok(llm_context_close(&places[i].context), "llm_context_close");
}

/* ------------------------------------------------------------------------------------------------------- main */

int main(int argc, char **argv)
{
    static const struct option_spec specs[] = {
        {"role", OPTION_CHOICE, &assured_role, "ROLE", "transmitter or receivers", 0, 0, "transmitter receivers"},
        {"channel", OPTION_TEXT, &assured_channel, "CHANNEL", "the channel, with its options", 0, 0, NULL},
        {"level", OPTION_CHOICE, &assured_level, "LEVEL", "of the topic: unreliable, reliable, no_history or assured", 0, 0,
         "unreliable reliable no_history assured"},
        {"receivers", OPTION_NUMBER, &assured_receivers, "N", "that there are", 1, ASSURED_RECEIVERS_MAX, NULL},
        {"by", OPTION_NUMBER, &assured_by, "N", "of them have to acknowledge each message", 1, ASSURED_RECEIVERS_MAX, NULL},
        {"acknowledge", OPTION_FLAG, &assured_acknowledges, NULL, "receivers call llm_acknowledge(); of acknowledge=application", 0, 0, NULL},
        {"rate", OPTION_LIST, &assured_rates, "N,...", "messages a second; 0: flat out", 0, 10000000, NULL},
        {"size", OPTION_NUMBER, &assured_size, "N", "bytes of a message", STEADY_SIZE_MIN, 65507, NULL},
        {"duration", OPTION_SECONDS, &assured_duration, "SECONDS", "of each rate", 10000000, 3600000000000, NULL},
        {"cpu", OPTION_NUMBER, &assured_cpu, "CPU", "the CPU to run on", 0, MACHINE_NO_CPU, NULL},
        {"json", OPTION_TEXT, &assured_json, "FILE", "where the figures go", 0, 0, NULL},
    };
    static const struct option_program program = {
        "assured", "What it costs to know that messages arrived; run by bench/run assured.",
        "  assured --role receivers --channel udp://239.192.1.1:5001 --json receivers.json\n", specs, sizeof specs / sizeof specs[0], NULL};
    struct llm_context *context;

    options_parse(&program, argc, argv);
    if (strcmp(assured_role, "receivers") == 0) {
        assured_receive();
        return EXIT_SUCCESS;
    }
    context = steady_context("assured", assured_cpu, LLM_WAIT_SPIN);
    assured_transmit(context);
    steady_ok(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}
