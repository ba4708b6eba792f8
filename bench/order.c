/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it buys to take messages as they arrive: a transmitter that keeps a rate, and a receiver on another host that loses
 * packets on purpose, with either order. Measured is the time from when a message was due to its delivery: in sequence those
 * behind a lost packet wait until it was repaired, too. Each message has its time in it, so the ends need one clock, that of
 * one machine.
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

#define ORDER_WARM_NS 50000000ull
#define ORDER_WINDOW_NS 50000000ull

enum { ORDER_WINDOW_MIN = 100 }; /* messages of which a percentile tells something */

/* The round of a message. */
enum { ORDER_WARM, ORDER_MEASURED };

static const char *order_role = "transmitter", *order_channel = "", *order_json = "";
static uint64_t order_rate = 20000, order_size = 45, order_duration = 1000000000, order_cpu = MACHINE_NO_CPU;

/* ------------------------------------------------------------------------------------------------ transmitter */

static void order_transmit(struct llm_context *context)
{
    static const char *const counters[] = {"naks_received", "packets_repaired", "receivers_lost", "send_held"};
    struct report_setting setting = {.peer = "", .network = ""};
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct steady_sender sender = {.context = context, .topics = &topic, .topic_count = 1, .size = order_size,
                                   .rate = order_rate};
    struct report_json json;
    double reached;

    steady_ok(llm_transmitter_open(context, order_channel, NULL, &transmitter), order_channel);
    steady_ok(llm_topic_open(transmitter, "order", 0, &topic), "llm_topic_open");
    while (llm_transmitter_receivers(transmitter) < 1)
        steady_ok(llm_poll(context), "llm_poll");
    (void)steady_send(&sender, ORDER_WARM_NS, ORDER_WARM, 0);
    reached = steady_send(&sender, order_duration, ORDER_MEASURED, 0);
    steady_json_open(&json, order_json);
    machine_describe(&setting.machine);
    report_json_machine(&json, &setting);
    report_json_number(&json, "sent", (double)sender.sequence, 0);
    report_json_number(&json, "msgs_per_s", reached, 0);
    steady_json_stats(&json, context, counters, sizeof counters / sizeof counters[0]);
    (void)report_json_close(&json);
    steady_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    free(sender.data);
}

/* --------------------------------------------------------------------------------------------------- receiver */

/* What came, in whatever order. */
struct order {
    struct histogram hops;
    bool *came;          /* by number, below most */
    uint64_t most;
    uint64_t next;       /* behind the furthest so far */
    uint64_t received;
    uint64_t lost;       /* as events told */
    uint64_t duplicated;
    uint64_t changed;    /* not what was sent */
    uint64_t disordered; /* behind one that was sent later */
    bool ended;
};

static void on_message(void *arg, const struct llm_message *message)
{
    const uint64_t now = llm_clock();
    struct order *order = arg;
    struct steady_stamp stamp;

    order->received++;
    if (message->size != order_size || message->number >= order->most) {
        order->changed++;
        return;
    }
    memcpy(&stamp, message->data, sizeof stamp);
    order->changed += stamp.sequence != message->number;
    order->duplicated += order->came[message->number];
    order->came[message->number] = true;
    order->disordered += message->number < order->next;
    order->next = message->number < order->next ? order->next : message->number + 1;
    if (stamp.round == ORDER_MEASURED)
        histogram_add(&order->hops, now - stamp.due_at);
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct order *order = arg;

    if (event->kind == LLM_EVENT_GAP)
        order->lost += event->last + 1 - event->first;
    order->ended |= event->kind == LLM_EVENT_SESSION_END;
}

enum { ORDER_SHARES = 3 };

static const struct order_share {
    const char *name;
    double share;
} order_shares[ORDER_SHARES] = {{"median", 0.5}, {"p99", 0.99}, {"p99_9", 0.999}};

/*
 * The percentiles of each time of 50 ms, and of these the medians, in microseconds: what else runs on the machine meets few of
 * these times. NAN if there are too few samples in one. To be called before the samples are sorted.
 */
static void order_json_typical(struct report_json *json, const struct histogram *hops)
{
    const size_t size = order_rate * ORDER_WINDOW_NS / 1000000000, windows = size < ORDER_WINDOW_MIN ? 0 : hops->count / size;
    double *found[ORDER_SHARES];

    for (int i = 0; i < ORDER_SHARES; i++)
        found[i] = steady_memory(windows + 1, sizeof *found[i]);
    for (size_t at = 0; at < windows; at++) {
        struct histogram window = {.samples = steady_memory(size, sizeof(uint64_t)), .count = size, .capacity = size};

        memcpy(window.samples, hops->samples + at * size, size * sizeof *window.samples);
        histogram_sort(&window);
        for (int i = 0; i < ORDER_SHARES; i++)
            found[i][at] = (double)histogram_percentile(&window, order_shares[i].share) / 1e3;
        histogram_fini(&window);
    }
    report_json_begin(json, "typical_us", '{');
    for (int i = 0; i < ORDER_SHARES; i++) {
        report_json_number(json, order_shares[i].name, windows > 0 ? report_median(found[i], (int)windows) : (double)NAN, 3);
        free(found[i]);
    }
    report_json_end(json, '}');
}

static void order_report(struct order *order, const struct llm_context *context)
{
    static const char *const counters[] = {"messages_ahead", "packets_missed", "packets_recovered", "packets_lost", "naks_sent",
                                           "impaired_lost"};
    struct histogram_summary summary;
    struct report_json json;

    steady_json_open(&json, order_json);
    order_json_typical(&json, &order->hops);
    histogram_sort(&order->hops);
    summary = histogram_summarize(&order->hops, 1);
    report_json_number(&json, "received", (double)order->received, 0);
    report_json_number(&json, "lost", (double)order->lost, 0);
    report_json_number(&json, "duplicated", (double)order->duplicated, 0);
    report_json_number(&json, "changed", (double)order->changed, 0);
    report_json_number(&json, "disordered", (double)order->disordered, 0);
    report_json_summary(&json, "hop_us", &summary);
    steady_json_stats(&json, context, counters, sizeof counters / sizeof counters[0]);
    (void)report_json_close(&json);
}

static void order_receive(struct llm_context *context)
{
    const double seconds = (double)(order_duration + ORDER_WARM_NS) / 1e9;
    struct order order = {.most = (uint64_t)((double)order_rate * seconds) + 1};
    struct llm_handlers handlers;
    struct llm_receiver *receiver;

    order.came = steady_memory(order.most, sizeof *order.came);
    if (histogram_init(&order.hops, order.most) != 0)
        steady_ok(LLM_ENOMEM, "histogram");
    llm_handlers_init(&handlers);
    handlers.arg = &order;
    handlers.message = on_message;
    handlers.event = on_event;
    steady_ok(llm_receiver_open(context, order_channel, NULL, &handlers, &receiver), order_channel);
    while (!order.ended)
        steady_ok(llm_poll(context), "llm_poll");
    order_report(&order, context);
    histogram_fini(&order.hops);
    free(order.came);
}

/* ------------------------------------------------------------------------------------------------------- main */

int main(int argc, char **argv)
{
    static const struct option_spec specs[] = {
        {"role", OPTION_CHOICE, &order_role, "ROLE", "transmitter or receiver", 0, 0, "transmitter receiver"},
        {"channel", OPTION_TEXT, &order_channel, "CHANNEL", "the channel, with its options", 0, 0, NULL},
        {"rate", OPTION_NUMBER, &order_rate, "N", "messages a second, the same for both roles, as the next two", 1, 1000000,
         NULL},
        {"size", OPTION_NUMBER, &order_size, "N", "bytes of a message", STEADY_SIZE_MIN, 65507, NULL},
        {"duration", OPTION_SECONDS, &order_duration, "SECONDS", "that are measured", 10000000, 60000000000, NULL},
        {"cpu", OPTION_NUMBER, &order_cpu, "CPU", "the CPU to run on", 0, MACHINE_NO_CPU, NULL},
        {"json", OPTION_TEXT, &order_json, "FILE", "where the figures go", 0, 0, NULL},
    };
    static const struct option_program program = {
        "order", "What it buys to take messages as they arrive; run by bench/run order.",
        "  order --role receiver --channel 'udp://239.192.1.1:5001?order=arrival' --json receiver.json\n", specs,
        sizeof specs / sizeof specs[0], NULL};
    struct llm_context *context;

    options_parse(&program, argc, argv);
    context = steady_context("order", order_cpu, LLM_WAIT_SPIN);
    if (strcmp(order_role, "transmitter") == 0)
        order_transmit(context);
    else
        order_receive(context);
    steady_ok(llm_context_close(&context), "llm_context_close");
    return EXIT_SUCCESS;
}
