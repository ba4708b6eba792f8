/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a transmitter about its receivers, and receivers suspended by hand. */
#include <stdio.h>

#include "engine/objects.h"
#include "config/options.h"

void llm_transmitter_handlers_init(struct llm_transmitter_handlers *handlers)
{
    if (handlers == NULL)
        return;
    *handlers = (struct llm_transmitter_handlers){.size = sizeof *handlers};
}

static int transmitter_order(struct llm_transmitter *transmitter, const char *call, uint64_t receiver,
                             bool suspend)
{
    int error = LLM_OK;

    if (transmitter == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    if (!lli_tx_suspend(&transmitter->tx, receiver, suspend, lli_clock_ns()))
        error = lli_refuse(transmitter->context, LLM_ENOTFOUND,
                           "%s: %s: receiver %016llx is not known: "
                           "llm_transmitter_congestion() lists those that are",
                           call, transmitter->object, (unsigned long long)receiver);
    lli_endpoint_due(transmitter->endpoint, 0);
    lli_context_leave(transmitter->context);
    return error;
}

int llm_transmitter_suspend(struct llm_transmitter *transmitter, uint64_t receiver)
{
    return transmitter_order(transmitter, "llm_transmitter_suspend", receiver, true);
}

int llm_transmitter_resume(struct llm_transmitter *transmitter, uint64_t receiver)
{
    return transmitter_order(transmitter, "llm_transmitter_resume", receiver, false);
}

static int transmitter_order_all(struct llm_transmitter *transmitter, bool suspend)
{
    if (transmitter == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    lli_tx_suspend_all(&transmitter->tx, suspend, lli_clock_ns());
    lli_endpoint_due(transmitter->endpoint, 0);
    lli_context_leave(transmitter->context);
    return LLM_OK;
}

int llm_transmitter_suspend_all(struct llm_transmitter *transmitter)
{
    return transmitter_order_all(transmitter, true);
}

int llm_transmitter_resume_all(struct llm_transmitter *transmitter)
{
    return transmitter_order_all(transmitter, false);
}

static void transmitter_log_verdict(const struct llm_transmitter *transmitter, const struct llm_event *event)
{
    const struct llm_verdict *v = event->verdict;
    const enum llm_level level = event->kind == LLM_EVENT_READMITTED ? LLM_LEVEL_INFO : LLM_LEVEL_WARNING;

    lli_log(&transmitter->context->log, level,
            "%s: receiver %016llx %s%s: %llu %s, limit %llu (%llu NAKs/s, %llu ppm asked again, %llu "
            "packets, %llu bytes and "
            "%llu ms behind, acknowledgements owed for %llu ms, not heard for %llu ms; %u of %u receivers "
            "suffer)",
            transmitter->object, (unsigned long long)v->receiver, llm_event_name(event->kind),
            v->dry_run ? " (report only)" : "", (unsigned long long)v->value,
            llm_threshold_name(v->threshold), (unsigned long long)v->limit, (unsigned long long)v->naks_per_s,
            (unsigned long long)v->nak_ppm, (unsigned long long)v->lag_packets,
            (unsigned long long)v->lag_bytes, (unsigned long long)v->lag_ns / 1000000,
            (unsigned long long)v->ack_ns / 1000000, (unsigned long long)v->silent_ns / 1000000, v->suffering,
            v->receivers);
}

static void transmitter_log_unacknowledged(const struct llm_transmitter *transmitter,
                                           const struct llm_event *event)
{
    char few[48] = "";

    if (event->receivers_wanted > 0)
        (void)snprintf(few, sizeof few, ", %u of %u", event->receivers, event->receivers_wanted);
    lli_log(&transmitter->context->log, LLM_LEVEL_WARNING,
            "%s: messages %llu to %llu of topic %s are not acknowledged: %s%s%s%s", transmitter->object,
            (unsigned long long)event->first, (unsigned long long)event->last, event->topic,
            llm_reason_name(event->reason), event->receiver == NULL ? "" : ", ",
            event->receiver == NULL ? "" : event->receiver, few);
}

static void transmitter_log_event(const struct llm_transmitter *transmitter, const struct llm_event *event)
{
    if (event->verdict != NULL)
        transmitter_log_verdict(transmitter, event);
    else if (event->bottleneck != NULL)
        lli_watched_log(transmitter->context, transmitter->object, event->bottleneck);
    else if (event->kind == LLM_EVENT_UNACKNOWLEDGED)
        transmitter_log_unacknowledged(transmitter, event);
}

void lli_transmitter_log_crowd(struct llm_transmitter *transmitter)
{
    struct lli_tx *tx = &transmitter->tx;
    const unsigned news = lli_tx_take_crowded(tx);

    if (news & 1u << LLI_WIRE_JOIN_FULL)
        lli_log(&transmitter->context->log, LLM_LEVEL_WARNING,
                "%s: there are more than receivers_max=%u receivers: flow control does not "
                "wait for the others, and they do not count; raise it",
                transmitter->object, tx->members.limit);
    if (news & 1u << LLI_WIRE_JOIN_BUSY)
        lli_log(&transmitter->context->log, LLM_LEVEL_WARNING,
                "%s: %u receivers join late at a time, and wait for the past longer than a "
                "second for every %u packets; raise replay_bytes_per_s, or let them join one after the other",
                transmitter->object, tx->replay.count, (unsigned)LLI_WIRE_FETCH_PACKETS);
}

void lli_transmitter_report(const struct llm_transmitter *transmitter, const struct llm_event *event)
{
    if (transmitter->handlers.event != NULL)
        transmitter->handlers.event(transmitter->handlers.arg, event);
    else
        transmitter_log_event(transmitter, event);
}

void lli_transmitter_events(struct llm_transmitter *transmitter)
{
    struct llm_context *context = transmitter->context;
    struct llm_event event;

    context->in_handler = true;
    while (lli_tx_event(&transmitter->tx, &event)) {
        context->delivered++;
        lli_transmitter_report(transmitter, &event);
    }
    context->in_handler = false;
}
