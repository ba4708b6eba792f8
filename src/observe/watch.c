/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/watch.h"

#include "core/limits/bottleneck.h"
#include "engine/objects.h"

#define WATCH_MIN ((lli_ns)1000000)
#define WATCH_MAX ((lli_ns)60000000000)
/* Default interval, used if there is a counters file. */
#define WATCH_DEFAULT ((lli_ns)1000000000)
/* Interval of looks at the transmitters: not every poll can afford one. */
#define WATCH_LOOK ((lli_ns)1000000)

int lli_watch_open(struct llm_context *context, const struct llm_context_options *options)
{
    struct lli_watch *watch = &context->watch;

    if (options->watch_ns != 0 && (options->watch_ns < WATCH_MIN || options->watch_ns > WATCH_MAX))
        return lli_fail(&context->log, LLM_EINVAL,
                        "context: watch_ns is %llu: must be 0, or between %llu and %llu",
                        (unsigned long long)options->watch_ns, (unsigned long long)WATCH_MIN,
                        (unsigned long long)WATCH_MAX);
    watch->reports = options->watch_ns != 0;
    watch->interval = watch->reports ? options->watch_ns : context->stats != NULL ? WATCH_DEFAULT : 0;
    watch->polled_at = watch->looked_at = watch->assessed_at = lli_clock_ns();
    return LLM_OK;
}

/* ------------------------------------------------------------------------------------------- transmitters */

enum llm_limit lli_watch_blocked(const struct llm_transmitter *transmitter)
{
    const struct lli_tx *tx = &transmitter->tx;

    if (transmitter->endpoint->stuck)
        return LLM_LIMIT_TRANSPORT;
    if (lli_tx_is_waiting(tx)) {
        const lli_ns ready_at = lli_flow_ready_at(&tx->flow, tx->sent);

        /* The open packet is not sealed yet, as no flush requested it. */
        if (ready_at == 0)
            return tx->sent < tx->history.next ? LLM_LIMIT_TRANSPORT : LLM_LIMIT_NONE;
        return ready_at == LLI_NEVER || !lli_flow_is_at_limit(&tx->flow) ? LLM_LIMIT_WINDOW : LLM_LIMIT_RATE;
    }
    return LLM_LIMIT_NONE;
}

void lli_watch_refused(struct llm_transmitter *transmitter)
{
    struct lli_tx *tx = &transmitter->tx;

    tx->counters.send_blocked++;
    switch (lli_watch_blocked(transmitter)) {
    case LLM_LIMIT_WINDOW:
        tx->counters.send_blocked_flow++;
        break;
    case LLM_LIMIT_RATE:
        tx->counters.send_blocked_rate++;
        break;
    case LLM_LIMIT_TRANSPORT:
        tx->counters.send_blocked_transport++;
        break;
    default:
        /*
         * All packets were sent, but cannot be overwritten: the transport reads them, or they are not
         * acknowledged.
         */
        if (tx->ack.waiting > 0)
            tx->counters.send_blocked_history++;
        else
            tx->counters.send_blocked_transport++;
        break;
    }
}

/* Returns the limit that refused most messages since the latest look; NONE: no message was refused. */
static enum llm_limit watch_refused(struct llm_transmitter *transmitter)
{
    const struct lli_tx_counters *counters = &transmitter->tx.counters;
    const uint64_t refused[LLM_LIMIT_TRANSPORT + 1] = {
        [LLM_LIMIT_WINDOW] = counters->send_blocked_flow,
        [LLM_LIMIT_RATE] = counters->send_blocked_rate,
        [LLM_LIMIT_HISTORY] = counters->send_blocked_history + counters->send_blocked_unacknowledged,
        [LLM_LIMIT_TRANSPORT] = counters->send_blocked_transport,
    };
    enum llm_limit limit = LLM_LIMIT_NONE;
    uint64_t most = 0;

    for (int i = LLM_LIMIT_WINDOW; i <= LLM_LIMIT_TRANSPORT; i++) {
        const uint64_t times = refused[i] - transmitter->watch.refused[i];

        transmitter->watch.refused[i] = refused[i];
        if (times <= most)
            continue;
        most = times;
        limit = (enum llm_limit)i;
    }
    return limit;
}

static void watch_look(struct llm_transmitter *transmitter, lli_ns passed)
{
    struct lli_watched *watched = &transmitter->watch;
    enum llm_limit limit = watch_refused(transmitter);
    uint64_t *blocked;

    if (limit == LLM_LIMIT_NONE)
        limit = lli_watch_blocked(transmitter);
    blocked = lli_bottleneck_blocked(&watched->now, limit);
    if (blocked == NULL)
        return;
    *blocked += passed;
    *lli_bottleneck_blocked(&watched->ever, limit) += passed;
}

static void watch_look_all(struct llm_context *context, lli_ns now)
{
    const lli_ns passed = now - context->watch.looked_at;

    context->watch.looked_at = now;
    for (struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next)
        for (struct llm_transmitter *t = endpoint->transmitters; t != NULL; t = t->next)
            watch_look(t, passed);
}

static void watch_evaluate_transmitter(struct llm_transmitter *transmitter, lli_ns passed)
{
    struct lli_watched *watched = &transmitter->watch;
    const uint64_t packets = transmitter->tx.counters.packets_data;

    watched->latest = watched->now;
    watched->latest.time_ns = passed;
    watched->latest.packets = packets - watched->packets;
    watched->latest.limit = lli_bottleneck_transmitter(&watched->latest);
    watched->packets = packets;
    watched->now = (struct llm_bottleneck){.limit = LLM_LIMIT_NONE};
    watched->evaluated = true;
}

/* ---------------------------------------------------------------------------------------------- receivers */

/* Returns the packets that an instance, and those below it, dropped since the latest call; an upper bound. */
static uint64_t watch_drops(const struct lli_transport *transport, void *instance)
{
    const struct lli_transport *inner;
    const void *inner_instance = NULL;
    uint64_t drops = transport->drops == NULL ? 0 : transport->drops(instance);

    for (int i = 0;
         transport->inner != NULL && (inner = transport->inner(instance, i, &inner_instance)) != NULL; i++)
        drops += watch_drops(inner, (void *)(uintptr_t)inner_instance);
    return drops;
}

static void watch_evaluate_receiver(struct llm_receiver *receiver, const struct lli_watch *watch,
                                    uint64_t drops, lli_ns passed)
{
    const struct lli_rx_counters *counters = &receiver->counters;
    struct lli_watched *watched = &receiver->watch;
    struct llm_bottleneck *latest = &watched->latest;
    const uint64_t missed = counters->packets_missed - watched->missed;
    const uint64_t late = lli_min(watched->unused, missed);

    *latest = (struct llm_bottleneck){
        .time_ns = passed,
        .packets = counters->packets_received - watched->packets,
        .away_ns = watch->away,
        .away_ns_max = lli_max(watch->away_max, late > 0 ? watched->unused_away : 0),
        .packets_missed = missed,
        .packets_dropped = drops + watched->unused,
    };
    latest->limit = lli_bottleneck_receiver(latest);
    watched->ever.packets_dropped += drops;
    /* Packets dropped last are found missing with the next packet that comes, but not later. */
    watched->unused = drops - lli_min(drops, missed - late);
    watched->unused_away = watch->away_max;
    watched->packets = counters->packets_received;
    watched->missed = counters->packets_missed;
    watched->evaluated = true;
}

/* ------------------------------------------------------------------------------------------------- events */

/* Returns true if the bottleneck changed and is to be reported, by *event. */
static bool watch_news(const struct llm_context *context, struct lli_watched *watched,
                       struct llm_event *event)
{
    if (!context->watch.reports || watched->latest.limit == watched->reported)
        return false;
    watched->reported = watched->latest.limit;
    *event = (struct llm_event){.kind = LLM_EVENT_LIMITED, .bottleneck = &watched->latest};
    return true;
}

static void watch_report(struct llm_context *context, struct lli_endpoint *endpoint)
{
    struct llm_event event;

    context->in_handler = true;
    for (struct llm_transmitter *t = endpoint->transmitters; t != NULL; t = t->next) {
        if (!watch_news(context, &t->watch, &event))
            continue;
        event.session = t->tx.config.session;
        lli_transmitter_report(t, &event);
        context->delivered++;
    }
    for (struct llm_receiver *r = endpoint->receivers; r != NULL; r = r->next) {
        if (!watch_news(context, &r->watch, &event))
            continue;
        lli_sessions_report(r, &event);
        context->delivered++;
    }
    context->in_handler = false;
}

static void watch_evaluate_all(struct llm_context *context, lli_ns now)
{
    struct lli_watch *watch = &context->watch;
    const lli_ns passed = now - watch->assessed_at;

    for (struct lli_endpoint *endpoint = context->endpoints; endpoint != NULL; endpoint = endpoint->next) {
        const uint64_t drops = watch_drops(endpoint->transport, endpoint->instance);

        for (struct llm_transmitter *t = endpoint->transmitters; t != NULL; t = t->next)
            watch_evaluate_transmitter(t, passed);
        for (struct llm_receiver *r = endpoint->receivers; r != NULL; r = r->next)
            watch_evaluate_receiver(r, watch, drops, passed);
        watch_report(context, endpoint);
    }
    watch->assessed_at = now;
    watch->away = watch->away_max = 0;
}

/* --------------------------------------------------------------------------------------------------- poll */

void lli_watch_polled(struct llm_context *context, lli_ns now)
{
    struct lli_watch *watch = &context->watch;

    if (watch->delivered) {
        const lli_ns away = now - watch->polled_at;

        watch->away += away;
        watch->away_ever += away;
        watch->away_max = lli_max(watch->away_max, away);
    }
    watch->polled_at = now;
    watch->delivered = context->delivered > 0;
    if (now - watch->looked_at >= WATCH_LOOK)
        watch_look_all(context, now);
    if (now - watch->assessed_at >= watch->interval)
        watch_evaluate_all(context, now);
}

/* ------------------------------------------------------------------------------------------------- public */

static struct llm_congestion watch_congestion(const struct lli_member *member)
{
    return (struct llm_congestion){
        .receiver = member->id,
        .heard_at = member->heard_at,
        .rtt_ns = member->rtt,
        .lag_packets = member->lag,
        .window_packets = member->window,
        .naks = member->naks,
        .packets_lost = member->lost,
        .packets_dropped = member->dropped,
        .reports = member->limits.time_ns != 0,
        .bottleneck = member->limits,
    };
}

int llm_transmitter_congestion(const struct llm_transmitter *transmitter, struct llm_congestion *receivers,
                               int max)
{
    const struct lli_members *members;
    int count = 0;

    if (transmitter == NULL)
        return LLM_EINVAL;
    if (max < 0 || (receivers == NULL && max > 0))
        return lli_refuse(transmitter->context, LLM_EINVAL,
                          "llm_transmitter_congestion: max is %d%s: give room for so many, or 0 for "
                          "their number alone",
                          max, receivers == NULL ? " and receivers NULL" : "");
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    members = &transmitter->tx.members;
    for (uint32_t i = 0; i < members->limit && (uint32_t)count < members->count; i++) {
        if (members->table[i].id == 0)
            continue;
        if (count < max)
            receivers[count] = watch_congestion(&members->table[i]);
        count++;
    }
    lli_context_leave(transmitter->context);
    return count;
}

static int watch_latest(struct llm_context *context, const struct lli_watched *watched,
                        struct llm_bottleneck *bottleneck)
{
    if (context->watch.interval == 0)
        return lli_refuse(context, LLM_ESTATE,
                          "the bottleneck watch does not run: set watch_ns of struct llm_context_options");
    if (!watched->evaluated)
        return LLM_EAGAIN;
    *bottleneck = watched->latest;
    return LLM_OK;
}

int llm_receiver_bottleneck(const struct llm_receiver *receiver, struct llm_bottleneck *bottleneck)
{
    int error;

    if (receiver == NULL)
        return LLM_EINVAL;
    if (bottleneck == NULL)
        return lli_refuse(receiver->context, LLM_EINVAL,
                          "llm_receiver_bottleneck: bottleneck is NULL: it has to be given");
    if (!lli_context_enter(receiver->context))
        return LLM_ESTATE;
    error = watch_latest(receiver->context, &receiver->watch, bottleneck);
    lli_context_leave(receiver->context);
    return error;
}

int llm_transmitter_bottleneck(const struct llm_transmitter *transmitter, struct llm_bottleneck *bottleneck)
{
    int error;

    if (transmitter == NULL)
        return LLM_EINVAL;
    if (bottleneck == NULL)
        return lli_refuse(transmitter->context, LLM_EINVAL,
                          "llm_transmitter_bottleneck: bottleneck is NULL: it has to be given");
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    error = watch_latest(transmitter->context, &transmitter->watch, bottleneck);
    lli_context_leave(transmitter->context);
    return error;
}
