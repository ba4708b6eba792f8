/* SPDX-License-Identifier: Apache-2.0 */
/* Messages whose numbers in the stream the application sets: numbers that it leaves out are skipped (ADR 61). */
#include <inttypes.h>

#include "api/lifecycle.h"
#include "engine/objects.h"

/* Returns LLM_OK if the transmitter's numbers are the application's. */
static int numbered_check(const struct llm_topic *topic)
{
    struct llm_transmitter *transmitter = topic->transmitter;

    if (transmitter->failover != NULL)
        return lli_refuse(
            transmitter->context, LLM_ESTATE,
            "topic \"%s\": llm_send_numbered: the failover group sets the numbers of its stream: use "
            "llm_send()",
            topic->name);
    if (transmitter->tx.config.stream == 0)
        return lli_refuse(
            transmitter->context, LLM_ESTATE,
            "topic \"%s\": llm_send_numbered: the transmitter has no stream: open it with stream=NAME",
            topic->name);
    return LLM_OK;
}

/* Skips message numbers of the session before this one. */
static int numbered_skip(struct llm_topic *topic, uint64_t number, size_t size, unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    struct lli_tx *tx = &transmitter->tx;
    int error;

    if (flags > LLI_SEND_FLAGS)
        return lli_refuse_flags(topic, flags);
    error = lli_topic_room(topic, size);
    if (error == LLM_EAGAIN && lli_transmitter_make_room(transmitter))
        error = lli_topic_room(topic, size);
    while (error == LLM_OK && tx->pack.number < number) {
        const uint32_t count = (uint32_t)lli_min(number - tx->pack.number, LLI_FRAME_NUMBERS_MAX);

        if (!lli_tx_is_blocked(tx) && lli_pack_skip(&tx->pack, count, lli_tx_busy(tx)))
            tx->counters.numbers_skipped += count;
        else if (!lli_transmitter_make_room(transmitter))
            error = LLM_EAGAIN;
    }
    lli_endpoint_due(transmitter->endpoint, 0);
    return error;
}

static int numbered_send(struct llm_topic *topic, uint64_t number, const void *data, size_t size,
                         unsigned flags)
{
    const struct lli_tx *tx = &topic->transmitter->tx;
    const uint64_t next = tx->config.stream_base + tx->pack.number;
    int error = numbered_check(topic);

    if (error != LLM_OK)
        return error;
    if (number < next || number - next > LLM_SKIP_MAX)
        return lli_refuse(topic->transmitter->context, LLM_EINVAL,
                          "topic \"%s\": llm_send_numbered: number %" PRIu64 ": %" PRIu64
                          " is next: use it or one that is greater by at most %d",
                          topic->name, number, next, LLM_SKIP_MAX);
    if (number > next)
        error = numbered_skip(topic, number - tx->config.stream_base, size, flags);
    return error == LLM_OK ? llm_send(topic, data, size, flags) : error;
}

int llm_send_numbered(struct llm_topic *topic, uint64_t number, const void *data, size_t size, unsigned flags)
{
    int error;

    if (topic == NULL)
        return LLM_EINVAL;
    if (data == NULL && size > 0)
        return lli_refuse_data(topic, size);
    if (!lli_context_enter(topic->transmitter->context))
        return LLM_ESTATE;
    error = numbered_send(topic, number, data, size, flags);
    lli_context_leave(topic->transmitter->context);
    return error;
}
