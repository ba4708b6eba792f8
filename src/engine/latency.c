/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/latency.h"

#include <stdlib.h>
#include <string.h>

#include "engine/objects.h"

enum { TICK_SHIFT = 20, LATENCY_TRIES = 8 };

/*
 * A reading of the counter takes 7 to 20 ns. At LLM_LATENCY_WIRE there is at most one for LATENCY_READING
 * messages; messages that share a packet share its reading, and are all measured.
 */
enum { LATENCY_READING = 8, LATENCY_CREDIT_MAX = 1024 };

/* Length of the comparison of the counter with the clock: a reading of either takes tens of nanoseconds. */
#define LATENCY_CALIBRATION ((lli_ns)2000000)

/* --------------------------------------------------------------------------------------------------- open */

/* Allocates memory, zeroed and touched, so that the first sample does not fault. */
static void *latency_take(const struct llm_context *context, size_t size)
{
    void *memory = malloc(size);

    if (memory == NULL)
        (void)lli_fail(&context->log, LLM_ENOMEM, "no memory for the latency monitor");
    else
        memset(memory, 0, size);
    return memory;
}

/* Reads clock and counter at the same moment: of several tries the fastest, which was not interrupted. */
static lli_ns latency_moment(uint64_t *ticks)
{
    uint64_t best = UINT64_MAX;
    lli_ns at = 0;

    for (int i = 0; i < LATENCY_TRIES; i++) {
        const uint64_t before = lli_ticks();
        const lli_ns now = lli_clock_ns();
        const uint64_t took = lli_ticks() - before;

        if (took >= best)
            continue;
        best = took;
        at = now;
        *ticks = before + took / 2;
    }
    return at;
}

static uint64_t latency_calibrate(void)
{
    uint64_t first = 0, last = 0;
    const lli_ns begin = latency_moment(&first);
    lli_ns end;

    do
        end = latency_moment(&last);
    while (end - begin < LATENCY_CALIBRATION);
    return ((end - begin) << TICK_SHIFT) / lli_max(last - first, 1);
}

int lli_latency_open(struct llm_context *context, enum llm_latency_level level)
{
    if (level == LLM_LATENCY_OFF)
        return LLM_OK;
    context->latency = latency_take(context, sizeof *context->latency);
    if (context->latency == NULL)
        return LLM_ENOMEM;
    context->latency->level = level;
    context->latency->ns_per_tick = latency_calibrate();
    return LLM_OK;
}

int lli_latency_endpoint(struct lli_endpoint *endpoint)
{
    const struct lli_latency *of = endpoint->context->latency;

    if (of == NULL)
        return LLM_OK;
    endpoint->latency = latency_take(endpoint->context, sizeof *endpoint->latency);
    if (endpoint->latency == NULL)
        return LLM_ENOMEM;
    endpoint->latency->of = of;
    return LLM_OK;
}

int lli_latency_transmitter(struct llm_transmitter *transmitter)
{
    const struct lli_latency *of = transmitter->context->latency;

    if (of == NULL)
        return LLM_OK;
    transmitter->latency = latency_take(transmitter->context, sizeof *transmitter->latency);
    if (transmitter->latency == NULL)
        return LLM_ENOMEM;
    transmitter->latency->of = of;
    transmitter->latency->sent = transmitter->tx.sent;
    /* batch 0: every waiting message passes the monitor. */
    transmitter->latency->batch = transmitter->batch;
    transmitter->batch = 0;
    transmitter->watched = true;
    return LLM_OK;
}

/* Converts ticks to ns. Counters may differ between cores: a negative time is 0. */
static uint64_t latency_ns(const struct lli_latency *latency, uint64_t from, uint64_t to)
{
    return (int64_t)(to - from) <= 0 ? 0 : ((to - from) * latency->ns_per_tick) >> TICK_SHIFT;
}

/* ----------------------------------------------------------------------------------------------- transmit */

void lli_latency_waits(struct llm_transmitter *transmitter)
{
    struct lli_tx_latency *latency = transmitter->latency;
    const struct lli_tx *tx = &transmitter->tx;

    if (latency->following || latency->of->level < LLM_LATENCY_WIRE)
        return;
    if (latency->of->level < LLM_LATENCY_STAGES && tx->pack.number - latency->number < LATENCY_READING)
        return;
    latency->following = true;
    latency->in = lli_pack_pending(&tx->pack) ? tx->history.next : tx->history.next - 1;
    latency->submitted_at = lli_ticks();
}

void lli_latency_sent(struct llm_transmitter *transmitter, uint64_t begin, uint64_t end)
{
    struct lli_tx_latency *latency = transmitter->latency;
    const struct lli_latency *of = latency->of;
    const struct lli_tx *tx = &transmitter->tx;
    uint64_t submitted = begin;

    /* Packets stuck in the transport have not left. */
    if (tx->sent == latency->sent || transmitter->endpoint->stuck)
        return;
    if (of->level == LLM_LATENCY_WIRE && !latency->following &&
        tx->pack.number - latency->number < LATENCY_READING) {
        latency->sent = tx->sent;
        return;
    }
    latency->number = tx->pack.number;
    lli_histogram_add(&latency->flush_packets, tx->sent - latency->sent, 1);
    lli_histogram_add(&latency->queue_packets, tx->history.next - tx->sent, 1);
    latency->sent = tx->sent;
    if (of->level < LLM_LATENCY_WIRE || (latency->following && tx->sent <= latency->in))
        return;
    if (latency->following)
        submitted = latency->submitted_at;
    latency->following = false;
    if (end == 0)
        end = lli_ticks();
    lli_histogram_add(&latency->submit_wire_ns, latency_ns(of, submitted, end), 1);
    if (of->level < LLM_LATENCY_STAGES)
        return;
    lli_histogram_add(&latency->submit_flush_ns, latency_ns(of, submitted, begin), 1);
    lli_histogram_add(&latency->flush_wire_ns, latency_ns(of, begin, end), 1);
}

/* ------------------------------------------------------------------------------------------------ receive */

void lli_latency_fetched(struct lli_endpoint *endpoint, const struct lli_in *packets, int count)
{
    struct lli_endpoint_latency *latency = endpoint->latency;

    latency->measured = latency->credit >= 0 || latency->of->level >= LLM_LATENCY_STAGES;
    if (!latency->measured)
        return;
    lli_histogram_add(&latency->burst_packets, (uint64_t)count, 1);
    for (struct llm_receiver *receiver = endpoint->receivers; receiver != NULL; receiver = receiver->next)
        lli_histogram_add(&receiver->latency->buffered_packets, receiver->reorder.used, 1);
    if (latency->of->level < LLM_LATENCY_WIRE)
        return;
    latency->charge = 2 * LATENCY_READING;
    latency->fetched_real = packets[0].stamp_ns == 0 ? 0 : lli_clock_real_ns();
    latency->fetched_at = lli_ticks();
}

/* Records a delivery, by the times of the packet that completed the messages. */
static void latency_deliver(struct llm_receiver *receiver, const struct llm_message *message, uint64_t now,
                            int count)
{
    struct lli_rx_latency *latency = receiver->latency;
    const struct lli_endpoint_latency *endpoint = receiver->endpoint->latency;
    const uint64_t inside = latency_ns(latency->of, endpoint->fetched_at, now);
    const bool stamped = message->received_at != 0 && endpoint->fetched_real >= message->received_at;
    const uint64_t before = stamped ? endpoint->fetched_real - message->received_at : 0;

    lli_histogram_add(&latency->wire_deliver_ns, before + inside, (uint64_t)count);
    if (latency->of->level < LLM_LATENCY_STAGES)
        return;
    if (stamped)
        lli_histogram_add(&latency->wire_fetch_ns, before, (uint64_t)count);
    lli_histogram_add(&latency->fetch_deliver_ns, inside, (uint64_t)count);
}

static void latency_messages(void *arg, const struct llm_message *messages, int count)
{
    struct llm_receiver *receiver = arg;
    struct lli_rx_latency *latency = receiver->latency;
    struct lli_endpoint_latency *endpoint = receiver->endpoint->latency;
    const struct llm_receiver_handlers *handlers = &latency->handlers;
    uint64_t now = 0;

    if (endpoint->credit < LATENCY_CREDIT_MAX)
        endpoint->credit += count;
    if (endpoint->measured) {
        endpoint->credit -= endpoint->charge;
        endpoint->charge = LATENCY_READING;
        now = lli_ticks();
        latency_deliver(receiver, messages, now, count);
    }
    if (handlers->messages != NULL)
        handlers->messages(handlers->arg, messages, count);
    else if (handlers->message != NULL)
        for (int i = 0; i < count; i++)
            handlers->message(handlers->arg, &messages[i]);
    if (latency->of->level >= LLM_LATENCY_STAGES)
        lli_histogram_add(&latency->handler_ns, latency_ns(latency->of, now, lli_ticks()), 1);
}

static void latency_event(void *arg, const struct llm_event *event)
{
    const struct llm_receiver_handlers *handlers = &((struct llm_receiver *)arg)->latency->handlers;

    handlers->event(handlers->arg, event);
}

static bool latency_accept(void *arg, const struct llm_source *source)
{
    const struct llm_receiver_handlers *handlers = &((struct llm_receiver *)arg)->latency->handlers;

    return handlers->accept(handlers->arg, source);
}

int lli_latency_receiver(struct llm_receiver *receiver)
{
    const struct lli_latency *of = receiver->context->latency;
    struct llm_receiver_handlers *handlers = &receiver->handlers;

    if (of == NULL)
        return LLM_OK;
    receiver->latency = latency_take(receiver->context, sizeof *receiver->latency);
    if (receiver->latency == NULL)
        return LLM_ENOMEM;
    receiver->latency->of = of;
    receiver->latency->handlers = *handlers;
    if (of->level < LLM_LATENCY_WIRE)
        return LLM_OK;
    handlers->arg = receiver;
    handlers->message = NULL;
    handlers->messages = latency_messages;
    handlers->event = handlers->event == NULL ? NULL : latency_event;
    handlers->accept = handlers->accept == NULL ? NULL : latency_accept;
    return LLM_OK;
}

/* --------------------------------------------------------------------------------------------------- poll */

void lli_latency_polled(struct lli_latency *latency, lli_ns now)
{
    if (latency->polled_at != 0)
        lli_histogram_add(&latency->poll_ns, now - latency->polled_at, 1);
    latency->polled_at = now;
}

/* -------------------------------------------------------------------------------------------------- visit */

#define LATENCY_PUT(name, needs)       \
    if (latency->of->level >= (needs)) \
        put(arg, #name, &latency->name);

void lli_latency_visit_context(const struct lli_latency *latency, lli_latency_put *put, void *arg)
{
    if (latency != NULL && latency->level >= LLM_LATENCY_STAGES)
        put(arg, "poll_ns", &latency->poll_ns);
}

void lli_latency_visit_endpoint(const struct lli_endpoint_latency *latency, lli_latency_put *put, void *arg)
{
    if (latency == NULL)
        return;
    LLI_LATENCY_ENDPOINT(LATENCY_PUT)
}

void lli_latency_visit_tx(const struct lli_tx_latency *latency, lli_latency_put *put, void *arg)
{
    if (latency == NULL)
        return;
    LLI_LATENCY_TX(LATENCY_PUT)
}

void lli_latency_visit_rx(const struct lli_rx_latency *latency, lli_latency_put *put, void *arg)
{
    if (latency == NULL)
        return;
    LLI_LATENCY_RX(LATENCY_PUT)
}
