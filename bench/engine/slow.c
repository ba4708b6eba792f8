/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a slow receiver costs the others: a transmitter at a steady rate, a receiver that keeps up, and one that bench/run slow
 * makes slow for the middle third of the time. Each message has its time in it, so the ends need one clock, that of one machine.
 * Of all: channel=; of the transmitter rate= size= duration=; of the slow one rest=, microseconds between a hundred messages.
 *
 * The pairs tell whether a stopped receiver costs the others latency: short periods without it and with it take turns many times in
 * one run, so that what else changes on the machine meanwhile meets both alike. Without it, a mute stands in its place: a socket that
 * joined the group and is not read any more, for which the network, which is this machine's kernel, has the same work. bench/run slow
 * starts, stops and ends it when the transmitter says so. Of all: rate= pairs= period=; of the transmitter size= settle=.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../raw/raw_udp.h"
#include "machine.h"
#include "roles.h"
#include "steady.h"

enum { SLOW_PHASES = 3, SLOW_BATCH = 100 };

static const char *const slow_phases[SLOW_PHASES] = {"before", "during", "after"};

struct slow {
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

int slow_transmit(const struct control *control)
{
    static const char *const counters[] = {"naks_received", "naks_shed", "packets_repaired", "notices_sent", "receivers_suspended",
                                           "receivers_lost"};
    struct slow slow = {.phase = 0};
    struct llm_transmitter_handlers handlers;
    struct llm_topic *topic;
    struct steady_sender sender = {.context = steady_context(control, LLM_WAIT_SPIN), .topics = &topic, .topic_count = 1,
                                   .size = control_number(control, "size", 100), .rate = control_number(control, "rate", 20000)};
    struct llm_transmitter *transmitter = steady_transmitter(&sender, control_text(control, "channel", ""), NULL, 2);
    double rates[SLOW_PHASES];

    llm_transmitter_handlers_init(&handlers);
    handlers.arg = &slow;
    handlers.event = on_verdict;
    steady_ok(llm_transmitter_handle(transmitter, &handlers), "llm_transmitter_handle");
    for (slow.phase = 0; slow.phase < SLOW_PHASES; slow.phase++) {
        slow.begun_at = llm_clock();
        /* The runner makes the other receiver slow, or no longer. */
        steady_say(slow_phases[slow.phase]);
        rates[slow.phase] = steady_send(&sender, control_ns(control, "duration", 3000000000), 0, (uint32_t)slow.phase);
    }
    slow.phase = SLOW_PHASES - 1;
    json_open();
    json_begin("msgs_per_s", '{');
    for (int i = 0; i < SLOW_PHASES; i++)
        json_number(slow_phases[i], rates[i]);
    json_end('}');
    json_number("suspended_after_ms", slow.suspended_ns == 0 ? (double)NAN : (double)slow.suspended_ns / 1e6);
    json_number("readmitted_after_ms", slow.readmitted_ns == 0 ? (double)NAN : (double)slow.readmitted_ns / 1e6);
    steady_json_stats(sender.context, counters, sizeof counters / sizeof counters[0]);
    json_close();
    steady_close(&sender, transmitter);
    return 0;
}

/* -------------------------------------------------------------------------------------------------- receivers */

static void on_slow_message(void *arg, const struct llm_message *message)
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

static void on_slow_event(void *arg, const struct llm_event *event)
{
    struct slow *slow = arg;

    if (event->kind == LLM_EVENT_GAP)
        slow->lost += event->last + 1 - event->first;
    slow->ended |= event->kind == LLM_EVENT_SESSION_END;
}

/* The slow one takes no core from those who are measured. */
int slow_receive(const struct control *control)
{
    const bool is_slow = strcmp(control->verb, "slow-slow") == 0;
    struct llm_context *context = steady_context(control, is_slow ? LLM_WAIT_BLOCK : LLM_WAIT_SPIN);
    static struct slow slow;

    slow.rest_us = control_number(control, "rest", 5000);
    (void)signal(SIGUSR1, slow_toggle);
    for (int i = 0; i < SLOW_PHASES; i++)
        histogram_init(&slow.latency[i], 0);
    (void)steady_receiver(context, control_text(control, "channel", ""), NULL, on_slow_message, on_slow_event, &slow);
    while (!slow.ended)
        steady_ok(llm_wait(context, 10000000), "llm_wait");
    json_open();
    for (int i = 0; i < SLOW_PHASES; i++) {
        json_begin(slow_phases[i], '{');
        json_number("received", (double)slow.received[i]);
        json_histogram("latency", &slow.latency[i]);
        json_end('}');
        histogram_fini(&slow.latency[i]);
    }
    json_number("lost", (double)slow.lost);
    json_close();
    return steady_ok(llm_context_close(&context), "llm_context_close");
}

/* ------------------------------------------------------------------------------------------------------- pairs */

enum { PAIRS_MAX = 1000 };

/* What a pair goes through. Between two that are measured the other receiver comes, or goes. */
enum pairs_phase { PAIRS_WITHOUT, PAIRS_COMING, PAIRS_STOPPED, PAIRS_GOING, PAIRS_PHASES };

static const char *const pairs_phases[PAIRS_PHASES] = {"without", "coming", "stopped", "going"};

static volatile sig_atomic_t pairs_over;

static uint64_t pairs_count;
static struct histogram pairs_latency[PAIRS_MAX][2]; /* without, and with, the stopped one */

static void pairs_end(int number)
{
    (void)number;
    pairs_over = 1;
}

int pairs_transmit(const struct control *control)
{
    static const char *const counters[] = {"receivers_suspended", "receivers_lost", "packets_repaired", "notices_sent"};
    const uint64_t pairs = control_number(control, "pairs", 60), period_ns = control_ns(control, "period", 250000000);
    const uint64_t settle_ns = control_ns(control, "settle", 200000000);
    struct llm_topic *topic;
    struct steady_sender sender = {.context = steady_context(control, LLM_WAIT_SPIN), .topics = &topic, .topic_count = 1,
                                   .size = control_number(control, "size", 100), .rate = control_number(control, "rate", 20000)};
    struct llm_transmitter *transmitter = steady_transmitter(&sender, control_text(control, "channel", ""), NULL, 1);

    /* Something to warm up with. */
    steady_say(pairs_phases[PAIRS_GOING]);
    (void)steady_send(&sender, settle_ns, 0, PAIRS_GOING);
    for (uint64_t pair = 0; pair < pairs; pair++)
        for (int phase = 0; phase < PAIRS_PHASES; phase++) {
            steady_say(pairs_phases[phase]);
            (void)steady_send(&sender, phase == PAIRS_WITHOUT || phase == PAIRS_STOPPED ? period_ns : settle_ns, (uint32_t)pair,
                              (uint32_t)phase);
        }
    json_open();
    steady_json_stats(sender.context, counters, sizeof counters / sizeof counters[0]);
    json_close();
    steady_close(&sender, transmitter);
    return 0;
}

static void on_pairs_message(void *arg, const struct llm_message *message)
{
    struct steady_stamp stamp;

    (void)arg;
    if (message->size < sizeof stamp)
        return;
    memcpy(&stamp, message->data, sizeof stamp);
    if (stamp.round < pairs_count && (stamp.phase == PAIRS_WITHOUT || stamp.phase == PAIRS_STOPPED))
        histogram_add(&pairs_latency[stamp.round][stamp.phase == PAIRS_STOPPED], llm_clock() - stamp.due_at);
}

static void on_pairs_event(void *arg, const struct llm_event *event)
{
    uint64_t *lost = arg;

    if (event->kind == LLM_EVENT_GAP)
        *lost += event->last + 1 - event->first;
    pairs_over |= event->kind == LLM_EVENT_SESSION_END;
}

int pairs_receive(const struct control *control)
{
    const bool steady = strcmp(control->verb, "pairs-steady") == 0;
    const uint64_t samples = control_number(control, "rate", 20000) * control_ns(control, "period", 250000000) / 1000000000 + 1;
    struct llm_context *context = steady_context(control, steady ? LLM_WAIT_SPIN : LLM_WAIT_BLOCK);
    struct llm_receiver *receiver;
    uint64_t lost = 0;

    pairs_count = steady ? control_number(control, "pairs", 60) : 0;
    (void)signal(SIGTERM, pairs_end);
    for (uint64_t i = 0; i < pairs_count; i++)
        for (int with = 0; with < 2; with++)
            histogram_init(&pairs_latency[i][with], samples);
    receiver = steady_receiver(context, control_text(control, "channel", ""), NULL, steady ? on_pairs_message : NULL, on_pairs_event, &lost);
    while (!pairs_over)
        steady_ok(llm_wait(context, 10000000), "llm_wait");
    /* It says that it leaves. */
    steady_ok(llm_receiver_close(&receiver), "llm_receiver_close");
    json_open();
    json_number("lost", (double)lost);
    json_begin("pairs", '[');
    for (uint64_t pair = 0; pair < pairs_count; pair++) {
        json_begin(NULL, '{');
        json_histogram("without", &pairs_latency[pair][0]);
        json_histogram("stopped", &pairs_latency[pair][1]);
        json_end('}');
    }
    json_end(']');
    json_close();
    return steady_ok(llm_context_close(&context), "llm_context_close");
}

/* Says when it has joined; reads until it is told by SIGUSR1 to stand still, as the receiver is stopped. */
int pairs_mute(const struct control *control)
{
    const char *reason = "it has no bare form";
    struct pollfd ready = {.events = POLLIN};
    struct raw_group group;
    char nothing[1];

    (void)signal(SIGUSR1, pairs_end);
    if (raw_group_of_channel(control_text(control, "channel", ""), 0, &group, &reason) != 0)
        control_fail("the mute's channel", reason);
    ready.fd = raw_udp_open_receive(&group);
    if (ready.fd < 0)
        control_fail("the mute's socket", "cannot be opened");
    steady_say("ready");
    while (!pairs_over)
        if (poll(&ready, 1, -1) == 1)
            (void)!recv(ready.fd, nothing, sizeof nothing, 0);
    for (;;)
        pause();
}
