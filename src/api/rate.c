/* SPDX-License-Identifier: Apache-2.0 */
/* Public API of rate limits: of a transmitter and of its topics, set while it runs (docs/adr/0022). */
#include "api/lifecycle.h"
#include "engine/objects.h"
#include "config/options.h"

/* A token bucket counts in kibibytes a second: it cannot enforce a lower limit. */
#define RATE_MIN ((uint64_t)65536)
#define RATE_MAX ((uint64_t)1 << 36)

void llm_rate_init(struct llm_rate *rate)
{
    if (rate == NULL)
        return;
    *rate = (struct llm_rate){.size = sizeof *rate};
}

static int rate_check(const struct lli_log *log, const char *object, const char *name, uint64_t value)
{
    if (value == 0 || (value >= RATE_MIN && value <= RATE_MAX))
        return LLM_OK;
    return lli_fail(log, LLM_EINVAL, "%s: %s: %llu is neither 0, no limit, nor between %llu and %llu", object,
                    name, (unsigned long long)value, (unsigned long long)RATE_MIN,
                    (unsigned long long)RATE_MAX);
}

static int rate_import(const struct lli_log *log, const char *object, const struct llm_rate *user,
                       struct llm_rate *rate)
{
    int error;

    llm_rate_init(rate);
    error = lli_options_import(rate, sizeof *rate, user, "struct llm_rate", log);
    if (error == LLM_OK)
        error = rate_check(log, object, "bytes_per_s", rate->bytes_per_s);
    if (error == LLM_OK)
        error = rate_check(log, object, "repair_bytes_per_s", rate->repair_bytes_per_s);
    return error;
}

/* -------------------------------------------------------------------------------------------- transmitter */

static int rate_transmitter(struct llm_transmitter *transmitter, const struct llm_rate *user)
{
    const struct lli_log *log = &transmitter->context->log;
    struct llm_rate rate;
    int error = rate_import(log, transmitter->object, user, &rate);

    if (error != LLM_OK)
        return error;
    for (const struct llm_topic *topic = transmitter->topics; topic != NULL && rate.bytes_per_s != 0;
         topic = topic->next)
        if (topic->rated && topic->rate.bytes_per_s > rate.bytes_per_s)
            return lli_fail(
                log, LLM_EINVAL,
                "%s: bytes_per_s: %llu is less than topic \"%s\" alone may send, %llu: lower that first",
                transmitter->object, (unsigned long long)rate.bytes_per_s, topic->name,
                (unsigned long long)topic->rate.bytes_per_s);
    lli_tx_rate(&transmitter->tx, rate.bytes_per_s, rate.repair_bytes_per_s, lli_clock_ns());
    transmitter->watched = lli_tx_is_paced(&transmitter->tx) || transmitter->latency != NULL;
    /* Packets that the old limit blocked may leave now. */
    lli_endpoint_due(transmitter->endpoint, 0);
    return LLM_OK;
}

int llm_transmitter_limit_rate(struct llm_transmitter *transmitter, const struct llm_rate *rate)
{
    int error;

    if (transmitter == NULL)
        return LLM_EINVAL;
    if (rate == NULL)
        return lli_refuse(
            transmitter->context, LLM_EINVAL,
            "llm_transmitter_limit_rate: rate is NULL: llm_rate_init() makes one without limits");
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    error = rate_transmitter(transmitter, rate);
    lli_context_leave(transmitter->context);
    return error;
}

/* -------------------------------------------------------------------------------------------------- topic */

static int rate_topic(struct llm_topic *topic, const struct llm_rate *user)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    struct llm_rate rate;
    int error;

    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(topic->transmitter, topic->name);
    if (transmitter->failover != NULL)
        return lli_fail(log, LLM_ESTATE, "topic \"%s\": topics of a failover group have no rate of their own",
                        topic->name);
    error = rate_import(log, topic->name, user, &rate);
    if (error != LLM_OK)
        return error;
    if (rate.repair_bytes_per_s != 0)
        return lli_fail(
            log, LLM_EINVAL,
            "topic \"%s\": repair_bytes_per_s: packets are repaired, and have messages of many topics: "
            "limit the transmitter's, or give the topic a transmitter of its own",
            topic->name);
    if (transmitter->tx.flow.config.rate != 0 && rate.bytes_per_s > transmitter->tx.flow.config.rate)
        return lli_fail(log, LLM_EINVAL,
                        "topic \"%s\": bytes_per_s: %llu is more than its transmitter may send, %llu",
                        topic->name, (unsigned long long)rate.bytes_per_s,
                        (unsigned long long)transmitter->tx.flow.config.rate);
    topic->rated = rate.bytes_per_s != 0;
    if (topic->rated)
        lli_pacer_init(&topic->rate, rate.bytes_per_s, lli_flow_burst(rate.bytes_per_s), lli_clock_ns());
    lli_topic_route(topic);
    return LLM_OK;
}

int llm_topic_limit_rate(struct llm_topic *topic, const struct llm_rate *rate)
{
    int error;

    if (topic == NULL)
        return LLM_EINVAL;
    if (rate == NULL)
        return lli_refuse(topic->transmitter->context, LLM_EINVAL,
                          "llm_topic_limit_rate: rate is NULL: llm_rate_init() makes one without limits");
    if (!lli_context_enter(topic->transmitter->context))
        return LLM_ESTATE;
    error = rate_topic(topic, rate);
    lli_context_leave(topic->transmitter->context);
    return error;
}

bool lli_transmitter_is_leased(struct llm_transmitter *transmitter, lli_ns now)
{
    if (transmitter->failover == NULL || (!transmitter->fenced && now < transmitter->leased_until))
        return true;
    /* It may have been stopped for long, so another one may be elected already. */
    transmitter->fenced = true;
    transmitter->claimed = transmitter;
    return false;
}

bool lli_topic_may_send(struct llm_topic *topic)
{
    struct lli_tx *tx = &topic->transmitter->tx;
    lli_ns now;

    if (!topic->rated)
        return true;
    now = lli_clock_ns();
    if (!lli_transmitter_is_leased(topic->transmitter, now))
        return false;
    lli_pacer_fill(&topic->rate, now);
    if (topic->rate.tokens > 0)
        return true;
    tx->counters.send_blocked++;
    tx->counters.send_blocked_rate++;
    /* Wakes a sleeping sender when the topic may send. */
    lli_tx_wake_at(tx, lli_pacer_ready_at(&topic->rate), now);
    lli_endpoint_due(topic->transmitter->endpoint, lli_tx_deadline(tx));
    return false;
}
