/* SPDX-License-Identifier: Apache-2.0 */
/* The public side of topics that keep their last messages for those who join late. */
#include <stdlib.h>

#include "api/lifecycle.h"
#include "engine/objects.h"
#include "config/options.h"

enum {
    KEEPING_BYTES = 256,
    KEEPING_MESSAGES_MAX = 1 << 20,
    KEEPING_PACKET_MIN = 128, /* less has no room for a message's headers */
};

void llm_keep_init(struct llm_keep *keep)
{
    if (keep == NULL)
        return;
    *keep = (struct llm_keep){.size = sizeof *keep, .messages = 1, .bytes_max = KEEPING_BYTES};
}

/* Whether a topic can keep messages, whatever of. */
static int keeping_is_possible(const struct llm_topic *topic)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    const uint32_t packet_max = transmitter->tx.config.history.packet_max;

    if (transmitter->connection != NULL)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": it is of a connection, which nobody joins late", topic->name);
    if (topic->pack.transient)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": it has no history: open it without LLM_TOPIC_NO_HISTORY to have messages kept",
                        topic->name);
    if (packet_max < KEEPING_PACKET_MIN)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": packets of %u bytes are too short to send what is kept: option mtu",
                        topic->name, packet_max);
    if (topic->kept != NULL)
        return lli_fail(log, LLM_ESTATE, "topic \"%s\": it keeps %u messages already", topic->name, topic->kept->messages);
    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(topic->transmitter, topic->name);
    return LLM_OK;
}

static int keeping_check(const struct llm_topic *topic, const struct llm_keep *keep)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    uint64_t bytes;

    if (keep->messages < 1 || keep->messages > KEEPING_MESSAGES_MAX)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": messages: %llu is not between 1 and %d", topic->name,
                        (unsigned long long)keep->messages, KEEPING_MESSAGES_MAX);
    if (keep->bytes_max < 1 || keep->bytes_max > transmitter->message_bytes_max)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": bytes_max: %llu is not between 1 and the longest message, %llu", topic->name,
                        (unsigned long long)keep->bytes_max, (unsigned long long)transmitter->message_bytes_max);
    bytes = lli_keep_ring_size((uint32_t)keep->messages, (uint32_t)keep->bytes_max);
    if (bytes > transmitter->keep_bytes - transmitter->tx.keep.bytes)
        return lli_fail(log, LLM_ELIMIT, "topic \"%s\": %llu messages of up to %llu bytes take %llu, of keep_bytes=%llu topics have "
                        "%llu already", topic->name, (unsigned long long)keep->messages, (unsigned long long)keep->bytes_max,
                        (unsigned long long)bytes, (unsigned long long)transmitter->keep_bytes,
                        (unsigned long long)transmitter->tx.keep.bytes);
    return LLM_OK;
}

/* Memory for what is kept and for those who ask, once some topic keeps messages. */
static int keeping_place(struct llm_transmitter *transmitter)
{
    struct lli_keep keep;
    struct lli_arena arena = {.memory = NULL};

    if (transmitter->keep_memory != NULL)
        return LLM_OK;
    lli_keep_init(&keep, transmitter->tx.config.topics_max, &arena);
    transmitter->keep_memory = calloc(1, arena.used);
    return transmitter->keep_memory == NULL ? LLM_ENOMEM : LLM_OK;
}

static int keeping_apply(struct llm_topic *topic, const struct llm_keep *user)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    struct lli_arena arena;
    struct lli_kept_topic *kept;
    struct llm_keep keep;
    int error = keeping_is_possible(topic);

    if (error != LLM_OK)
        return error;
    llm_keep_init(&keep);
    if (user != NULL)
        error = lli_options_import(&keep, sizeof keep, user, "struct llm_keep", log);
    if (error == LLM_OK)
        error = keeping_check(topic, &keep);
    if (error != LLM_OK)
        return error;
    kept = calloc(1, sizeof *kept + lli_keep_ring_size((uint32_t)keep.messages, (uint32_t)keep.bytes_max));
    if (kept == NULL || keeping_place(transmitter) != LLM_OK) {
        free(kept);
        return lli_fail(log, LLM_ENOMEM, "topic \"%s\": no memory for %llu messages of up to %llu bytes", topic->name,
                        (unsigned long long)keep.messages, (unsigned long long)keep.bytes_max);
    }
    *kept = (struct lli_kept_topic){.id = topic->pack.id,
                                    .messages = (uint32_t)keep.messages,
                                    .bytes_max = (uint32_t)keep.bytes_max,
                                    .ring = (uint8_t *)(kept + 1)};
    arena = (struct lli_arena){.memory = transmitter->keep_memory};
    lli_tx_keep(&transmitter->tx, kept, &arena);
    topic->kept = kept;
    lli_topic_route(topic);
    return LLM_OK;
}

int llm_topic_keep(struct llm_topic *topic, const struct llm_keep *keep)
{
    int error;

    if (topic == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(topic->transmitter->context))
        return LLM_ESTATE;
    error = keeping_apply(topic, keep);
    lli_context_leave(topic->transmitter->context);
    return error;
}
