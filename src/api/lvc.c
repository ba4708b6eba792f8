/* SPDX-License-Identifier: Apache-2.0 */
/* Public API of last value caches of topics. */
#include <stdlib.h>

#include "api/lifecycle.h"
#include "engine/objects.h"
#include "config/options.h"

enum {
    CACHE_BYTES = 256,
    CACHE_MESSAGES_MAX = 1 << 20,
    CACHE_PACKET_MIN = 128, /* fewer bytes have no room for a message's headers */
};

void llm_cache_init(struct llm_cache *lvc)
{
    if (lvc == NULL)
        return;
    *lvc = (struct llm_cache){.size = sizeof *lvc, .messages = 1, .bytes_max = CACHE_BYTES};
}

/* Checks that a topic can have a last value cache, of any size. */
static int lvc_is_possible(const struct llm_topic *topic)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    const uint32_t packet_max = transmitter->tx.config.history.packet_max;

    if (transmitter->connection != NULL)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": it is of a connection, which nobody joins late",
                        topic->name);
    if (topic->pack.transient)
        return lli_fail(
            log, LLM_EINVAL,
            "topic \"%s\": it has no history: open it without LLM_TOPIC_NO_HISTORY to have messages cached",
            topic->name);
    if (packet_max < CACHE_PACKET_MIN)
        return lli_fail(
            log, LLM_EINVAL,
            "topic \"%s\": packets of %u bytes are too short for cached messages: raise option mtu",
            topic->name, packet_max);
    if (topic->cache != NULL)
        return lli_fail(log, LLM_ESTATE, "topic \"%s\": it keeps %u messages already", topic->name,
                        topic->cache->messages);
    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(topic->transmitter, topic->name);
    return LLM_OK;
}

static int lvc_check(const struct llm_topic *topic, const struct llm_cache *lvc)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    uint64_t bytes;

    if (lvc->messages < 1 || lvc->messages > CACHE_MESSAGES_MAX)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": messages: %llu is not between 1 and %d", topic->name,
                        (unsigned long long)lvc->messages, CACHE_MESSAGES_MAX);
    if (lvc->bytes_max < 1 || lvc->bytes_max > transmitter->message_bytes_max)
        return lli_fail(log, LLM_EINVAL,
                        "topic \"%s\": bytes_max: %llu is not between 1 and the longest message, %llu",
                        topic->name, (unsigned long long)lvc->bytes_max,
                        (unsigned long long)transmitter->message_bytes_max);
    bytes = lli_lvc_ring_size((uint32_t)lvc->messages, (uint32_t)lvc->bytes_max);
    if (bytes > transmitter->cache_bytes - transmitter->tx.lvc.bytes)
        return lli_fail(
            log, LLM_ELIMIT,
            "topic \"%s\": %llu messages of up to %llu bytes take %llu, of cache_bytes=%llu topics have "
            "%llu already",
            topic->name, (unsigned long long)lvc->messages, (unsigned long long)lvc->bytes_max,
            (unsigned long long)bytes, (unsigned long long)transmitter->cache_bytes,
            (unsigned long long)transmitter->tx.lvc.bytes);
    return LLM_OK;
}

/* Allocates the cache and the requests of late joiners, with the first topic that has a cache. */
static int lvc_place(struct llm_transmitter *transmitter)
{
    struct lli_lvc lvc;
    struct lli_arena arena = {.memory = NULL};

    if (transmitter->lvc_memory != NULL)
        return LLM_OK;
    lli_lvc_init(&lvc, transmitter->tx.config.topics_max, &arena);
    transmitter->lvc_memory = calloc(1, arena.used);
    return transmitter->lvc_memory == NULL ? LLM_ENOMEM : LLM_OK;
}

static int lvc_apply(struct llm_topic *topic, const struct llm_cache *user)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    struct lli_arena arena;
    struct lli_lvc_topic *cache;
    struct llm_cache lvc;
    int error = lvc_is_possible(topic);

    if (error != LLM_OK)
        return error;
    llm_cache_init(&lvc);
    if (user != NULL)
        error = lli_options_import(&lvc, sizeof lvc, user, "struct llm_cache", log);
    if (error == LLM_OK)
        error = lvc_check(topic, &lvc);
    if (error != LLM_OK)
        return error;
    cache = calloc(1, sizeof *cache + lli_lvc_ring_size((uint32_t)lvc.messages, (uint32_t)lvc.bytes_max));
    if (cache == NULL || lvc_place(transmitter) != LLM_OK) {
        free(cache);
        return lli_fail(log, LLM_ENOMEM, "topic \"%s\": no memory for %llu messages of up to %llu bytes",
                        topic->name, (unsigned long long)lvc.messages, (unsigned long long)lvc.bytes_max);
    }
    *cache = (struct lli_lvc_topic){.id = topic->pack.id,
                                    .messages = (uint32_t)lvc.messages,
                                    .bytes_max = (uint32_t)lvc.bytes_max,
                                    .ring = (uint8_t *)(cache + 1)};
    arena = (struct lli_arena){.memory = transmitter->lvc_memory};
    lli_tx_lvc_begin(&transmitter->tx, cache, &arena);
    topic->cache = cache;
    lli_topic_route(topic);
    return LLM_OK;
}

int llm_topic_cache(struct llm_topic *topic, const struct llm_cache *lvc)
{
    int error;

    if (topic == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(topic->transmitter->context))
        return LLM_ESTATE;
    error = lvc_apply(topic, lvc);
    lli_context_leave(topic->transmitter->context);
    return error;
}
