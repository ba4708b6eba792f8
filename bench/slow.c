/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a slow receiver costs the others: a transmitter at a steady rate, a receiver that keeps up, and one that bench/run slow
 * makes slow for the middle third of the time. Each message has its time in it, so the ends need one clock, that of one machine.
 */
#define _GNU_SOURCE
#include <llm/llm.h>

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "options.h"
#include "report.h"
#include "steady.h"

enum { SLOW_PHASES = 3, SLOW_SAMPLES = 4 << 20, SLOW_BATCH = 100 };

static const char *const slow_phases[SLOW_PHASES] = {"before", "during", "after"};

struct slow {
    struct llm_context *context;
    struct histogram latency[SLOW_PHASES];
    uint64_t received[SLOW_PHASES];
    uint64_t lost;
    uint64_t messages;
    uint64_t rest_us;
    uint64_t begun_at;      /* the phase that runs */
    uint64_t suspended_ns;  /* into the middle phase, 0: never */
    uint64_t readmitted_ns; /* into the last one */
    int phase;
    bool ended;
};

static const char *slow_role = "transmitter", *slow_channel = "", *slow_json = "";
static uint64_t slow_rate = 20000, slow_size = 100, slow_duration = 3000000000, slow_cpu = MACHINE_NO_CPU, slow_rest = 5000;
static volatile sig_atomic_t slow_rests; /* a slow receiver rests between messages */

static void slow_toggle(int number)
{
    (void)number;
    slow_rests = !slow_rests;
}

/* ------------------------------------------------------------------------------------------------ transmitter */

static void on_verdict(void *arg, const struct llm_event *event)
{
    struct slow *slow = arg;
    const uint64_t now = llm_clock() - slow->begun_at;

    (void)fprintf(stderr, "%s: %s: %" PRIu64 " %s after %.0f ms\n", slow_phases[slow->phase], llm_event_name(event->kind),
                  event->verdict->value, llm_threshold_name(event->verdict->threshold), (double)now / 1e6);
    if (event->kind == LLM_EVENT_SUSPENDED && slow->phase == 1 && slow->suspended_ns == 0)
        slow->suspended_ns = now;
    if (event->kind == LLM_EVENT_READMITTED && event->verdict->receiver != 0 && slow->phase == 2)
        slow->readmitted_ns = now;
}

/* Returns the messages sent a second. */
static double slow_send(struct slow *slow, struct steady_sender *sender)
{
    slow->begun_at = llm_clock();
    /* The script makes the other receiver slow, or no longer. */
    steady_say(slow_phases[slow->phase]);
    return steady_send(sender, slow_duration, 0, (uint32_t)slow->phase);
}

static void slow_transmit(struct slow *slow)
{
    static const char *const counters[] = {"naks_received", "naks_shed", "packets_repaired", "notices_sent", "receivers_suspended",
                                           "receivers_lost"};
    struct llm_transmitter_handlers handlers;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct report_json json;
    struct steady_sender sender = {.context = slow->context, .topics = &topic, .topic_count = 1, .size = slow_size, .rate = slow_rate};
    double rates[SLOW_PHASES];

    steady_ok(llm_transmitter_open(slow->context, slow_channel, NULL, &transmitter), slow_channel);
    llm_transmitter_handlers_init(&handlers);
    handlers.arg = slow;
    handlers.event = on_verdict;
    steady_ok(llm_transmitter_handle(transmitter, &handlers), "llm_transmitter_handle");
    steady_ok(llm_topic_open(transmitter, "slow", 0, &topic), "llm_topic_open");
    while (llm_transmitter_receivers(transmitter) < 2)
        steady_ok(llm_poll(slow->context), "llm_poll");
    for (slow->phase = 0; slow->phase < SLOW_PHASES; slow->phase++)
        rates[slow->phase] = slow_send(slow, &sender);
    slow->phase = SLOW_PHASES - 1;
    steady_json_open(&json, slow_json);
    report_json_begin(&json, "msgs_per_s", '{');
    for (int i = 0; i < SLOW_PHASES; i++)
        report_json_number(&json, slow_phases[i], rates[i], 0);
    report_json_end(&json, '}');
    report_json_number(&json, "suspended_after_ms", slow->suspended_ns == 0 ? (double)NAN : (double)slow->suspended_ns / 1e6, 1);
    report_json_number(&json, "readmitted_after_ms", slow->readmitted_ns == 0 ? (double)NAN : (double)slow->readmitted_ns / 1e6, 1);
    steady_json_stats(&json, slow->context, counters, sizeof counters / sizeof counters[0]);
    (void)report_json_close(&json);
    steady_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    free(sender.data);
}

/* -------------------------------------------------------------------------------------------------- receivers */

static void on_message(void *arg, const struct llm_message *message)
{
    struct slow *slow = arg;
    struct steady_stamp stamp;

    slow->messages++;
    if (slow_rests && slow->messages % SLOW_BATCH == 0)
        (void)usleep((useconds_t)slow->rest_us);
    if (message->size < sizeof stamp)
        return;
    memcpy(&stamp, message->data, sizeof stamp);
    if (stamp.phase >= SLOW_PHASES)
        return;
    slow->received[stamp.phase]++;
    histogram_add(&slow->latency[stamp.phase], llm_clock() - stamp.due_at);
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct slow *slow = arg;

    if (event->kind == LLM_EVENT_GAP)
        slow->lost += event->last + 1 - event->first;
    slow->ended |= event->kind == LLM_EVENT_SESSION_END;
}

static void slow_receive(struct slow *slow)
{
    struct llm_handlers handlers;
    struct llm_receiver *receiver;
    struct report_json json;

    (void)signal(SIGUSR1, slow_toggle);
    for (int i = 0; i < SLOW_PHASES; i++)
        if (histogram_init(&slow->latency[i], SLOW_SAMPLES) != 0)
            exit(EXIT_FAILURE);
    llm_handlers_init(&handlers);
    handlers.arg = slow;
    handlers.message = on_message;
    handlers.event = on_event;
    steady_ok(llm_receiver_open(slow->context, slow_channel, NULL, &handlers, &receiver), slow_channel);
    while (!slow->ended)
        steady_ok(llm_wait(slow->context, 10000000), "llm_wait");
    steady_json_open(&json, slow_json);
    for (int i = 0; i < SLOW_PHASES; i++) {
        struct histogram_summary summary;

        histogram_sort(&slow->latency[i]);
        summary = histogram_summarize(&slow->latency[i], 1);
        report_json_begin(&json, slow_phases[i], '{');
        report_json_number(&json, "received", (double)slow->received[i], 0);
        report_json_summary(&json, "latency_us", &summary);
        report_json_end(&json, '}');
        histogram_fini(&slow->latency[i]);
    }
    report_json_number(&json, "lost", (double)slow->lost, 0);
    (void)report_json_close(&json);
}

/* ------------------------------------------------------------------------------------------------------- main */

int main(int argc, char **argv)
{
    static const struct option_spec specs[] = {
        {"role", OPTION_CHOICE, &slow_role, "ROLE", "transmitter, steady or slow", 0, 0, "transmitter steady slow"},
        {"channel", OPTION_TEXT, &slow_channel, "CHANNEL", "the channel, with its options", 0, 0, NULL},
        {"rate", OPTION_NUMBER, &slow_rate, "N", "messages a second", 1, 10000000, NULL},
        {"size", OPTION_NUMBER, &slow_size, "N", "bytes of a message", STEADY_SIZE_MIN, 65507, NULL},
        {"duration", OPTION_SECONDS, &slow_duration, "SECONDS", "of each of the three phases", 100000000, 3600000000000, NULL},
        {"rest", OPTION_NUMBER, &slow_rest, "US", "of a slow receiver between a hundred messages, after SIGUSR1", 1, 10000000, NULL},
        {"cpu", OPTION_NUMBER, &slow_cpu, "CPU", "the CPU to run on", 0, MACHINE_NO_CPU, NULL},
        {"json", OPTION_TEXT, &slow_json, "FILE", "where the figures go", 0, 0, NULL},
    };
    static const struct option_program program = {
        "slow", "What a slow receiver costs the others; run by bench/run slow.",
        "  slow --role steady --channel udp://239.192.1.1:5001 --json steady.json\n", specs, sizeof specs / sizeof specs[0], NULL};
    static struct slow slow;

    options_parse(&program, argc, argv);
    slow.rest_us = slow_rest;
    /* The slow one takes no core from those who are measured. */
    slow.context = steady_context("slow", slow_cpu, strcmp(slow_role, "slow") == 0 ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN);
    if (strcmp(slow_role, "transmitter") == 0)
        slow_transmit(&slow);
    else
        slow_receive(&slow);
    steady_ok(llm_context_close(&slow.context), "llm_context_close");
    return EXIT_SUCCESS;
}
