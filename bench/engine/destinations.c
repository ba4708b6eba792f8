/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of one stream to a list of hosts instead of to a group: a transmitter, and receivers in one process, each
 * in a context of its own and, for a list, at a port of its own. Measured are the hop, what the transmitter spends on a message
 * by itself and on one of many, and the rate that flow control finds. Of the transmitter: channel= receivers= rate= size= duration=; of
 * the receivers: channels=CHANNEL,...
 */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>

#include <llm/llm.h>

#include "machine.h"
#include "roles.h"
#include "steady.h"

enum { DESTINATIONS_MAX = 32, DESTINATIONS_BURST = 512 };

#define DESTINATIONS_CALM_NS 50000000ull
#define DESTINATIONS_BURST_NS 2000000ull /* from one burst to the next */

/* The round of a message. */
enum { DESTINATIONS_WARM, DESTINATIONS_MEASURED };

/* ------------------------------------------------------------------------------------------------ transmitter */

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
static void destinations_send_lone(struct steady_sender *sender, struct histogram *spent, uint64_t duration_ns)
{
    const uint64_t count = sender->rate * duration_ns / 1000000000 + 1, begun_at = llm_clock();

    for (uint64_t i = 0; i < count; i++) {
        const uint64_t due_at = begun_at + i * 1000000000 / sender->rate;
        uint64_t sent_at;

        destinations_poll_until(sender->context, due_at);
        sent_at = llm_clock();
        destinations_send_one(sender, due_at, DESTINATIONS_MEASURED, 0);
        histogram_add(spent, llm_clock() - sent_at);
    }
}

/* Bursts that fill packets, with pauses in which the receivers take them: neither waits for the other. */
static void destinations_send_bursts(struct steady_sender *sender, struct llm_transmitter *transmitter, struct histogram *spent,
                                     uint64_t duration_ns)
{
    const uint64_t begun_at = llm_clock();

    for (uint64_t at = begun_at; at < begun_at + duration_ns; at += DESTINATIONS_BURST_NS) {
        uint64_t sent_at;

        destinations_poll_until(sender->context, at);
        sent_at = llm_clock();
        for (int i = 0; i < DESTINATIONS_BURST; i++)
            destinations_send_one(sender, 0, DESTINATIONS_MEASURED, LLM_SEND_MORE);
        if (llm_transmitter_flush(transmitter) != LLM_EAGAIN)
            histogram_add(spent, llm_clock() - sent_at);
    }
}

int destinations_transmit(const struct control *control)
{
    static const char *const counters[] = {"packets_sent", "send_blocked_flow", "naks_received", "packets_repaired", "status_received",
                                           "udp_send_waits"};
    const uint64_t duration_ns = control_ns(control, "duration", 500000000);
    struct llm_topic *topic;
    struct steady_sender sender = {.context = steady_context(control, LLM_WAIT_SPIN), .topics = &topic, .topic_count = 1,
                                   .size = control_number(control, "size", 45), .rate = control_number(control, "rate", 10000)};
    struct llm_transmitter *transmitter = steady_transmitter(&sender, control_text(control, "channel", ""), NULL,
                                                             control_number(control, "receivers", 1));
    struct histogram lone;   /* ns in llm_send() of a message by itself */
    struct histogram packed; /* ns of a burst, until the last packet of it was given to the kernel */
    double rate;

    histogram_init(&lone, 0);
    histogram_init(&packed, 0);
    (void)steady_send(&sender, DESTINATIONS_CALM_NS, DESTINATIONS_WARM, 0);
    destinations_send_lone(&sender, &lone, duration_ns);
    destinations_poll_until(sender.context, llm_clock() + DESTINATIONS_CALM_NS);
    destinations_send_bursts(&sender, transmitter, &packed, duration_ns);
    destinations_poll_until(sender.context, llm_clock() + DESTINATIONS_CALM_NS);
    sender.rate = 0;
    (void)steady_send(&sender, DESTINATIONS_CALM_NS, DESTINATIONS_WARM, 0);
    rate = steady_send(&sender, duration_ns, DESTINATIONS_MEASURED, 0);
    json_open();
    machine_json("machine");
    json_number("sent", (double)sender.sequence);
    json_histogram("lone", &lone);
    json_histogram("packed", &packed);
    json_number("burst", DESTINATIONS_BURST);
    json_number("msgs_per_s", rate);
    steady_json_stats(sender.context, counters, sizeof counters / sizeof counters[0]);
    json_close();
    steady_close(&sender, transmitter);
    histogram_fini(&lone);
    histogram_fini(&packed);
    return 0;
}

/* -------------------------------------------------------------------------------------------------- receivers */

static void on_message(void *arg, const struct llm_message *message)
{
    struct steady_place *place = arg;
    const struct steady_stamp stamp = steady_track_message(&place->track, message);

    if (stamp.due_at != 0 && stamp.round == DESTINATIONS_MEASURED)
        histogram_add(&place->hops, llm_clock() - stamp.due_at);
}

int destinations_receive(const struct control *control)
{
    static struct steady_place places[DESTINATIONS_MAX];
    char *channels = strdup(control_text(control, "channels", "")), *rest = channels, *channel;
    uint64_t count = 0;

    while (count < DESTINATIONS_MAX && (channel = strsep(&rest, ",")) != NULL) {
        struct steady_place *place = &places[count++];

        histogram_init(&place->hops, 0);
        place->context = steady_context(control, LLM_WAIT_SPIN);
        place->receiver = steady_receiver(place->context, channel, NULL, on_message, steady_place_event, place);
    }
    steady_poll_places(places, count);
    json_open();
    steady_json_places(places, count);
    json_begin("hops", '[');
    for (uint64_t i = 0; i < count; i++)
        json_histogram(NULL, &places[i].hops);
    json_end(']');
    json_close();
    for (uint64_t i = 0; i < count; i++) {
        histogram_fini(&places[i].hops);
        steady_ok(llm_context_close(&places[i].context), "llm_context_close");
    }
    free(channels);
    return 0;
}
