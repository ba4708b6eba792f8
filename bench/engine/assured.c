/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of knowing that messages arrived: a transmitter that sends on a topic of one level of assurance, at steady rates and
 * flat out, and receivers in one process, each in a context of its own. Measured is the hop, and at the transmitter the time from when a
 * message was due until it was told that it is acknowledged. Of both: channel= level=unreliable|reliable|no_history|assured receivers=
 * by= rate=N,... size= duration=; of receivers acknowledge=1, with acknowledge=application.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <llm/llm.h>

#include "machine.h"
#include "roles.h"
#include "steady.h"

enum { ASSURED_RATES = 16, ASSURED_RECEIVERS_MAX = 64, ASSURED_RING = 1 << 20 };

#define ASSURED_WARM_NS 50000000ull
#define ASSURED_PATIENCE_NS 10000000000ull

/* The round of a message. */
enum { ASSURED_WARM, ASSURED_MEASURED };

struct assured {
    struct steady_sender sender;
    const char *level;
    uint64_t due_rates[ASSURED_RATES];
    int count;
    struct histogram told[ASSURED_RATES]; /* after so long that a message is acknowledged */
    double rates[ASSURED_RATES];          /* reached */
    uint64_t waiting_max[ASSURED_RATES];  /* messages */
    uint64_t acknowledged;                /* messages before this one */
    int rate;                             /* that is being measured; -1: none */
};

/* ------------------------------------------------------------------------------------------------ transmitter */

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

static bool assured_is(const struct assured *assured, const char *level)
{
    return strcmp(assured->level, level) == 0;
}

static void assured_open_topic(const struct assured *assured, struct llm_transmitter *transmitter, uint64_t by, struct llm_topic **topic)
{
    const unsigned flags = assured_is(assured, "unreliable") ? LLM_TOPIC_UNRELIABLE
                           : assured_is(assured, "no_history") ? LLM_TOPIC_NO_HISTORY : 0;
    struct llm_assurance assurance;

    steady_ok(llm_topic_open(transmitter, "assured", flags, topic), "llm_topic_open");
    if (!assured_is(assured, "assured"))
        return;
    llm_assurance_init(&assurance);
    assurance.receivers = (uint32_t)by;
    steady_ok(llm_topic_assure(*topic, &assurance), "llm_topic_assure");
}

/* Until every message sent so far is acknowledged; where none is, for as long as it takes the receivers to be idle again. */
static void assured_drain(struct assured *assured)
{
    const uint64_t begun_at = llm_clock();
    const bool told = assured_is(assured, "assured");

    while (told ? assured->acknowledged < assured->sender.sequence : llm_clock() < begun_at + ASSURED_WARM_NS) {
        steady_ok(llm_poll(assured->sender.context), "llm_poll");
        if (llm_clock() > begun_at + ASSURED_PATIENCE_NS)
            steady_ok(LLM_EAGAIN, "messages that are never acknowledged");
    }
}

static void assured_measure(struct assured *assured, int rate, uint64_t *due_at, uint64_t duration_ns)
{
    assured->sender.rate = assured->due_rates[rate];
    assured->rate = -1;
    (void)steady_send(&assured->sender, ASSURED_WARM_NS, ASSURED_WARM, (uint32_t)rate);
    assured_drain(assured);
    assured->rate = rate;
    /* Flat out nothing is due, and the clock would cost more than what is measured. */
    assured->sender.due_at = assured->sender.rate > 0 ? due_at : NULL;
    assured->rates[rate] = steady_send(&assured->sender, duration_ns, ASSURED_MEASURED, (uint32_t)rate);
    assured_drain(assured);
    assured->sender.due_at = NULL;
}

int assured_transmit(const struct control *control)
{
    static const char *const counters[] = {"send_blocked_flow", "naks_received", "packets_repaired", "status_received"};
    static struct assured assured;
    const char *channel = control_text(control, "channel", "");
    struct llm_transmitter_handlers handlers;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    uint64_t *due_at = steady_memory(ASSURED_RING, sizeof *due_at);

    assured.level = control_text(control, "level", "reliable");
    assured.count = control_list(control, "rate", assured.due_rates, ASSURED_RATES);
    assured.sender = (struct steady_sender){.context = steady_context(control, LLM_WAIT_SPIN), .topics = &topic, .topic_count = 1,
                                            .size = control_number(control, "size", 45), .due_count = ASSURED_RING};
    steady_ok(llm_transmitter_open(assured.sender.context, channel, NULL, NULL, &transmitter), channel);
    llm_transmitter_handlers_init(&handlers);
    handlers.arg = &assured;
    handlers.event = on_transmitter_event;
    steady_ok(llm_transmitter_handle(transmitter, &handlers), "llm_transmitter_handle");
    assured_open_topic(&assured, transmitter, control_number(control, "by", 1), &topic);
    steady_await(assured.sender.context, transmitter, control_number(control, "receivers", 1));
    for (int i = 0; i < assured.count; i++) {
        histogram_init(&assured.told[i], 0);
        assured_measure(&assured, i, due_at, control_ns(control, "duration", 500000000));
    }
    json_open();
    machine_json("machine");
    json_number("sent", (double)assured.sender.sequence);
    json_begin("rates", '[');
    for (int i = 0; i < assured.count; i++) {
        json_begin(NULL, '{');
        json_number("msgs_per_s", assured.rates[i]);
        json_histogram("acknowledged", &assured.told[i]);
        json_number("unacknowledged_max", assured_is(&assured, "assured") ? (double)assured.waiting_max[i] : (double)NAN);
        json_end('}');
        histogram_fini(&assured.told[i]);
    }
    json_end(']');
    steady_json_stats(assured.sender.context, counters, sizeof counters / sizeof counters[0]);
    json_close();
    steady_close(&assured.sender, transmitter);
    free(due_at);
    return 0;
}

/* -------------------------------------------------------------------------------------------------- receivers */

static struct histogram assured_hops[ASSURED_RATES]; /* of all receivers */
static bool assured_acknowledges;

static void on_message(void *arg, const struct llm_message *message)
{
    struct steady_place *place = arg;
    const struct steady_stamp stamp = steady_track_message(&place->track, message);

    if (stamp.due_at != 0 && stamp.round == ASSURED_MEASURED && stamp.phase < ASSURED_RATES)
        histogram_add(&assured_hops[stamp.phase], llm_clock() - stamp.due_at);
    if (assured_acknowledges)
        steady_ok(llm_receiver_acknowledge(place->receiver, message->session, message->number), "llm_receiver_acknowledge");
}

int assured_receive(const struct control *control)
{
    static struct steady_place places[ASSURED_RECEIVERS_MAX];
    const uint64_t receivers = control_number(control, "receivers", 1);
    uint64_t rates[ASSURED_RATES];
    const int count = control_list(control, "rate", rates, ASSURED_RATES);

    assured_acknowledges = control_flag(control, "acknowledge");
    for (int i = 0; i < count; i++)
        histogram_init(&assured_hops[i], 0);
    for (uint64_t i = 0; i < receivers; i++) {
        places[i].context = steady_context(control, LLM_WAIT_SPIN);
        places[i].receiver = steady_receiver(places[i].context, control_text(control, "channel", ""), NULL, on_message,
                                             steady_place_event, &places[i]);
    }
    steady_poll_places(places, receivers);
    json_open();
    steady_json_places(places, receivers);
    json_begin("rates", '[');
    for (int i = 0; i < count; i++) {
        json_begin(NULL, '{');
        json_histogram("hop", &assured_hops[i]);
        json_end('}');
        histogram_fini(&assured_hops[i]);
    }
    json_end(']');
    json_close();
    for (uint64_t i = 0; i < receivers; i++)
        steady_ok(llm_context_close(&places[i].context), "llm_context_close");
    return 0;
}
