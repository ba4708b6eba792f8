/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it buys to take messages as they arrive: a transmitter that keeps a rate, and a receiver on another host that loses
 * packets on purpose, with either order. Measured is the time from when a message was due to its delivery: in sequence those
 * behind a lost packet wait until it was repaired, too. Each message has its time in it, so the ends need one clock, that of
 * one machine. Of both: channel= rate= size= duration=.
 */
#include <stdlib.h>
#include <string.h>

#include <llm/llm.h>

#include "machine.h"
#include "roles.h"
#include "steady.h"

#define ORDER_WARM_NS 50000000ull

/* The round of a message. */
enum { ORDER_WARM, ORDER_MEASURED };

int order_transmit(const struct control *control)
{
    static const char *const counters[] = {"naks_received", "packets_repaired", "receivers_lost", "send_held"};
    struct llm_topic *topic;
    struct steady_sender sender = {.context = steady_context(control, LLM_WAIT_SPIN), .topics = &topic, .topic_count = 1,
                                   .size = control_number(control, "size", 45), .rate = control_number(control, "rate", 20000)};
    struct llm_transmitter *transmitter = steady_transmitter(&sender, control_text(control, "channel", ""), NULL, 1);
    double reached;

    (void)steady_send(&sender, ORDER_WARM_NS, ORDER_WARM, 0);
    reached = steady_send(&sender, control_ns(control, "duration", 1000000000), ORDER_MEASURED, 0);
    json_open();
    machine_json("machine");
    json_number("sent", (double)sender.sequence);
    json_number("msgs_per_s", reached);
    steady_json_stats(sender.context, counters, sizeof counters / sizeof counters[0]);
    json_close();
    steady_close(&sender, transmitter);
    return 0;
}

/* --------------------------------------------------------------------------------------------------- receiver */

/* What came, in whatever order. */
struct order {
    struct histogram hops;
    uint64_t size;       /* of a message */
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
    if (message->size != order->size || message->number >= order->most) {
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

int order_receive(const struct control *control)
{
    static const char *const counters[] = {"messages_ahead", "packets_missed", "packets_recovered", "packets_lost", "naks_sent",
                                           "impaired_lost"};
    const double seconds = (double)(control_ns(control, "duration", 1000000000) + ORDER_WARM_NS) / 1e9;
    struct order order = {.size = control_number(control, "size", 45)};
    struct llm_context *context = steady_context(control, LLM_WAIT_SPIN);

    order.most = (uint64_t)((double)control_number(control, "rate", 20000) * seconds) + 1;
    order.came = steady_memory(order.most, sizeof *order.came);
    histogram_init(&order.hops, order.most);
    (void)steady_receiver(context, control_text(control, "channel", ""), NULL, on_message, on_event, &order);
    while (!order.ended)
        steady_ok(llm_poll(context), "llm_poll");
    json_open();
    json_number("received", (double)order.received);
    json_number("lost", (double)order.lost);
    json_number("duplicated", (double)order.duplicated);
    json_number("changed", (double)order.changed);
    json_number("disordered", (double)order.disordered);
    json_histogram("hops", &order.hops);
    steady_json_stats(context, counters, sizeof counters / sizeof counters[0]);
    json_close();
    histogram_fini(&order.hops);
    free(order.came);
    return steady_ok(llm_context_close(&context), "llm_context_close");
}
