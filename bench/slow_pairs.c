/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a stopped receiver costs the others latency: short periods without it and with it take turns many times in one run,
 * so that what else changes on the machine meanwhile meets both alike. Without it, a mute stands in its place: a socket that joined
 * the group and is not read any more, for which the network, which is this machine's kernel, has the same work. bench/run slow starts, stops and ends it when the
 * transmitter says so. Each message has its time in it, so the ends need one clock, that of one machine.
 */
#define _GNU_SOURCE
#include <llm/llm.h>

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "machine.h"
#include "options.h"
#include "raw_udp.h"
#include "report.h"
#include "steady.h"

enum { PAIRS_MAX = 1000 };

/* What a pair goes through. Between two that are measured the other receiver comes, or goes. */
enum pairs_phase { PAIRS_WITHOUT, PAIRS_COMING, PAIRS_STOPPED, PAIRS_GOING, PAIRS_PHASES };

static const char *const pairs_phases[PAIRS_PHASES] = {"without", "coming", "stopped", "going"};

static const char *pairs_role = "transmitter", *pairs_channel = "", *pairs_json = "";
static uint64_t pairs_rate = 20000, pairs_size = 100, pairs_count = 60, pairs_period = 250000000, pairs_settle = 200000000;
static uint64_t pairs_cpu = MACHINE_NO_CPU;
static volatile sig_atomic_t pairs_over;

static struct llm_context *pairs_context;
static struct histogram pairs_latency[PAIRS_MAX][2]; /* without, and with, the stopped one */

static void pairs_end(int number)
{
    (void)number;
    pairs_over = 1;
}

/* ------------------------------------------------------------------------------------------------ transmitter */

static void pairs_send(struct steady_sender *sender, uint32_t pair, enum pairs_phase phase)
{
    steady_say(pairs_phases[phase]);
    (void)steady_send(sender, phase == PAIRS_WITHOUT || phase == PAIRS_STOPPED ? pairs_period : pairs_settle, pair, (uint32_t)phase);
}

static void pairs_transmit(void)
{
    static const char *const counters[] = {"receivers_suspended", "receivers_lost", "packets_repaired", "notices_sent"};
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct steady_sender sender = {.context = pairs_context, .topics = &topic, .topic_count = 1, .size = pairs_size, .rate = pairs_rate};
    struct report_json json;

    steady_ok(llm_transmitter_open(pairs_context, pairs_channel, NULL, &transmitter), pairs_channel);
    steady_ok(llm_topic_open(transmitter, "slow", 0, &topic), "llm_topic_open");
    while (llm_transmitter_receivers(transmitter) < 1)
        steady_ok(llm_poll(pairs_context), "llm_poll");
    /* Something to warm up with. */
    pairs_send(&sender, 0, PAIRS_GOING);
    for (uint32_t pair = 0; pair < pairs_count; pair++)
        for (int phase = 0; phase < PAIRS_PHASES; phase++)
            pairs_send(&sender, pair, (enum pairs_phase)phase);
    steady_json_open(&json, pairs_json);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        report_json_number(&json, counters[i], (double)steady_stat(pairs_context, counters[i]), 0);
    (void)report_json_close(&json);
    steady_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    free(sender.data);
}

/* -------------------------------------------------------------------------------------------------- receivers */

static void on_message(void *arg, const struct llm_message *message)
{
    struct steady_stamp stamp;

    (void)arg;
    if (message->size < sizeof stamp)
        return;
    memcpy(&stamp, message->data, sizeof stamp);
    if (stamp.round < pairs_count && (stamp.phase == PAIRS_WITHOUT || stamp.phase == PAIRS_STOPPED))
        histogram_add(&pairs_latency[stamp.round][stamp.phase == PAIRS_STOPPED], llm_clock() - stamp.due_at);
}

static void on_event(void *arg, const struct llm_event *event)
{
    uint64_t *lost = arg;

    if (event->kind == LLM_EVENT_GAP)
        *lost += event->last + 1 - event->first;
    pairs_over |= event->kind == LLM_EVENT_SESSION_END;
}

static void pairs_report(uint64_t lost)
{
    struct report_json json;

    steady_json_open(&json, pairs_json);
    report_json_begin(&json, "pairs", '[');
    for (uint64_t pair = 0; pair < pairs_count; pair++) {
        report_json_begin(&json, NULL, '{');
        for (int with = 0; with < 2; with++) {
            struct histogram *histogram = &pairs_latency[pair][with];
            struct histogram_summary summary;

            report_json_number(&json, with ? "stopped_typical_p99" : "without_typical_p99", report_typical_p99(histogram, pairs_rate), 3);
            histogram_sort(histogram);
            summary = histogram_summarize(histogram, 1);
            report_json_summary(&json, with ? "stopped" : "without", &summary);
        }
        report_json_end(&json, '}');
    }
    report_json_end(&json, ']');
    report_json_number(&json, "lost", (double)lost, 0);
    (void)report_json_close(&json);
}

static void pairs_receive(bool steady)
{
    struct llm_handlers handlers;
    struct llm_receiver *receiver;
    uint64_t lost = 0;

    (void)signal(SIGTERM, pairs_end);
    for (uint64_t i = 0; steady && i < pairs_count; i++)
        for (int with = 0; with < 2; with++)
            if (histogram_init(&pairs_latency[i][with], pairs_rate * pairs_period / 1000000000 + 1) != 0)
                exit(EXIT_FAILURE);
    llm_handlers_init(&handlers);
    handlers.arg = &lost;
    handlers.message = steady ? on_message : NULL;
    handlers.event = on_event;
    steady_ok(llm_receiver_open(pairs_context, pairs_channel, NULL, &handlers, &receiver), pairs_channel);
    while (!pairs_over)
        steady_ok(llm_wait(pairs_context, 10000000), "llm_wait");
    /* It says that it leaves. */
    steady_ok(llm_receiver_close(&receiver), "llm_receiver_close");
    if (steady)
        pairs_report(lost);
}

/* ------------------------------------------------------------------------------------------------------- mute */

/* Says when it has joined; reads until it is told by SIGUSR1 to stand still, as the receiver is stopped. */
static void pairs_mute(void)
{
    const char *reason = "it has no bare form";
    struct pollfd ready = {.events = POLLIN};
    struct raw_group group;
    char nothing[1];

    (void)signal(SIGUSR1, pairs_end);
    if (raw_group_of_channel(pairs_channel, 0, &group, &reason) != 0) {
        (void)fprintf(stderr, "slow_pairs: %s: %s\n", pairs_channel, reason);
        exit(EXIT_FAILURE);
    }
    ready.fd = raw_udp_open_receive(&group);
    if (ready.fd < 0) {
        perror("slow_pairs: the mute's socket");
        exit(EXIT_FAILURE);
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
    while (!pairs_over)
        if (poll(&ready, 1, -1) == 1)
            (void)!recv(ready.fd, nothing, sizeof nothing, 0);
    for (;;)
        pause();
}

/* ------------------------------------------------------------------------------------------------------- main */

int main(int argc, char **argv)
{
    static const struct option_spec specs[] = {
        {"role", OPTION_CHOICE, &pairs_role, "ROLE", "transmitter, steady, other or mute", 0, 0, "transmitter steady other mute"},
        {"channel", OPTION_TEXT, &pairs_channel, "CHANNEL", "the channel, with its options", 0, 0, NULL},
        {"rate", OPTION_NUMBER, &pairs_rate, "N", "messages a second", 1, 10000000, NULL},
        {"size", OPTION_NUMBER, &pairs_size, "N", "bytes of a message", STEADY_SIZE_MIN, 65507, NULL},
        {"pairs", OPTION_NUMBER, &pairs_count, "N", "so many periods without and with the stopped one", 1, PAIRS_MAX, NULL},
        {"period", OPTION_SECONDS, &pairs_period, "SECONDS", "of each", 10000000, 3600000000000, NULL},
        {"settle", OPTION_SECONDS, &pairs_settle, "SECONDS", "for it to come and to go", 10000000, 3600000000000, NULL},
        {"cpu", OPTION_NUMBER, &pairs_cpu, "CPU", "the CPU to run on", 0, MACHINE_NO_CPU, NULL},
        {"json", OPTION_TEXT, &pairs_json, "FILE", "where the figures go", 0, 0, NULL},
    };
    static const struct option_program program = {
        "slow_pairs", "Whether a stopped receiver costs the others latency; run by bench/run slow.",
        "  slow_pairs --role steady --channel udp://239.192.1.1:5001 --json steady.json\n", specs,
        sizeof specs / sizeof specs[0], NULL};

    options_parse(&program, argc, argv);
    if (strcmp(pairs_role, "mute") == 0) {
        if (machine_pin_as_asked("slow_pairs", pairs_cpu) != 0)
            return EXIT_FAILURE;
        pairs_mute();
    }
    pairs_context = steady_context("slow_pairs", pairs_cpu, strcmp(pairs_role, "other") == 0 ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN);
    if (strcmp(pairs_role, "transmitter") == 0)
        pairs_transmit();
    else
        pairs_receive(strcmp(pairs_role, "steady") == 0);
    steady_ok(llm_context_close(&pairs_context), "llm_context_close");
    return EXIT_SUCCESS;
}
