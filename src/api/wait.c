/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait for receivers, or until a refused message would be taken. */
#include "api/lifecycle.h"
#include "engine/objects.h"

/* -------------------------------------------------------------------------------------------------- room */

/*
 * Returns true if the topic's rate limit allows a message; if not, schedules a poll for the time when it
 * does.
 */
static bool waiting_rate_allows(struct llm_topic *topic)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const lli_ns now = lli_clock_ns();

    if (!topic->rated)
        return true;
    lli_pacer_fill(&topic->rate, now);
    if (topic->rate.tokens > 0)
        return true;
    lli_tx_wake_at(&transmitter->tx, lli_pacer_ready_at(&topic->rate), now);
    lli_endpoint_due(transmitter->endpoint, lli_tx_deadline(&transmitter->tx));
    return false;
}

static bool waiting_assurance_allows(const struct llm_topic *topic, uint64_t size)
{
    return !lli_topic_is_assured(topic) || lli_ack_topic_allows(topic->assured, size);
}

int lli_topic_room(struct llm_topic *topic, uint64_t size)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_tx *tx = &transmitter->tx;

    if (size > transmitter->message_bytes_max ||
        (lli_topic_is_assured(topic) && size > topic->assured->rule.bytes_max) ||
        (topic->cache != NULL && size > topic->cache->bytes_max))
        return lli_refuse_size(topic, size);
    if (lli_transmitter_is_claimed_elsewhere(transmitter))
        return LLM_EAGAIN;
    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(transmitter, topic->name);
    if (!waiting_rate_allows(topic) || !waiting_assurance_allows(topic, size) || lli_tx_is_blocked(tx))
        return LLM_EAGAIN;
    return lli_pack_has_room(&tx->pack, &topic->pack, (uint32_t)size, lli_tx_busy(tx)) ? LLM_OK : LLM_EAGAIN;
}

static int waiting_room(void *object, uint64_t size)
{
    return lli_topic_room(object, size);
}

int llm_topic_wait(struct llm_topic *topic, size_t size, uint64_t timeout_ns)
{
    struct llm_context *context;

    if (topic == NULL)
        return LLM_EINVAL;
    context = topic->transmitter->context;
    if (lli_context_is_inside(context))
        return LLI_REFUSE_IN_HANDLER(context, "llm_topic_wait");
    return lli_context_await(context, timeout_ns, waiting_room, topic, size);
}

/* --------------------------------------------------------------------------------------------- receivers */

static int waiting_receivers(void *object, uint64_t receivers)
{
    const struct llm_transmitter *transmitter = object;

    return transmitter->tx.members.count >= receivers ? LLM_OK : LLM_EAGAIN;
}

int llm_transmitter_wait(struct llm_transmitter *transmitter, uint32_t receivers, uint64_t timeout_ns)
{
    struct llm_context *context;
    int error;

    if (transmitter == NULL)
        return LLM_EINVAL;
    context = transmitter->context;
    if (lli_context_is_inside(context))
        return LLI_REFUSE_IN_HANDLER(context, "llm_transmitter_wait");
    if (receivers > transmitter->tx.config.receivers_max)
        return lli_refuse(
            context, LLM_ELIMIT,
            "llm_transmitter_wait: %u receivers: receivers_max is %u: raise it, or wait for fewer", receivers,
            transmitter->tx.config.receivers_max);
    error = lli_context_await(context, timeout_ns, waiting_receivers, transmitter, receivers);
    return error == LLM_OK || error == LLM_EAGAIN ? (int)llm_transmitter_receivers(transmitter) : error;
}
